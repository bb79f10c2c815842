"""Engines: what runs a model elsewhere or otherwise than transformers does, each behind a seam of the core.

Into the room come specs, settings and windows of cases. Out go located and loaded models, and scores. Engines import
the core; it knows them by two tables only: ``ENGINES`` (``models/spec.py``) and ``EXECUTORS`` (``plugin/executors.py``).
"""
