"""Readers of the user's data sets, and the search for their files under ``--bias-data=DIR``.

In: data files. Out: dataclasses and arrays with texts, labels, spans and groups. An error names file and line; a
missing data set raises :class:`~pytest_genderbias.datasets.folder.MissingDataError`. The package imports only ``text``
and ``errors``.
"""
