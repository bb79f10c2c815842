"""Mitigation methods, one module each."""
