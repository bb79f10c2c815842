"""Engines: what runs a model elsewhere or otherwise than transformers does, each behind a seam of the core.

Into the room come specs, settings and windows of cases. Out go located and loaded models, and scores. Engines import
the core; it knows them by three tables only: ``PREFIXES`` (``models/spec.py``), ``KINDS`` (``models/loading.py``) and
``EXECUTORS`` (``plugin/executors.py``).
"""
