"""Families of suites, one module each."""
