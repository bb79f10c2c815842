"""Mitigation methods: one module per method, with its function and its class.

Each function is usable alone: it takes texts, vectors or a model, and returns changed ones. Each class is a
:class:`~pytest_genderbias.mitigation.methods.base.Method`, whose fields are its settings; the harness, ``registry`` and
users call it. The package does not import the harness or gates.
"""
