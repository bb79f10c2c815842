"""Engines: what runs a model elsewhere or otherwise than transformers does, each behind a seam of the core.

Into the room come specs, settings and windows of cases. Out go located and loaded models (``models/loading.py`` lists the kinds) and executors
(``plugin/executors.py`` lists them). Engines import the core; nothing imports them but these two tables.
"""
