"""The five papers, table by table: what each published table claims, which runs show it here, and how far they agree.

The package takes the configs in ``configs/PAPER`` (``runs.yaml``, and one file a table or figure), trains and measures
through ``mitigation`` and ``measurement``, and stores each run as one JSON file. ``claims`` judges stored figures,
``shown`` makes what has no result and presents it, and ``paper_command`` carries out ``genderbias paper``. The package
does not import pytest.
"""
