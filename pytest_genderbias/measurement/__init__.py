"""Measurements: from a suite and a model to figures."""
