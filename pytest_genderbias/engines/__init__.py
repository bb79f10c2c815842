"""Engines: what runs a model elsewhere or otherwise than transformers does, each behind a seam of the core.

In: specs, settings and windows of cases. Out: located and loaded models, and scores. The package imports the core, and
is known by two tables only: ``ENGINES`` (``models/spec.py``) and ``EXECUTORS`` (``plugin/doors.py``).
"""
