"""Suites: templates and word lists, or a data set, with the statistics that summarise a model's answers.

In: a suite file, options, and later the model's answers. Out: a :class:`~pytest_genderbias.suites.suite.Suite`, its
questions (cases and a query), and a :class:`~pytest_genderbias.suites.statistic.Summary` of values, intervals, records
and sums of units. ``families`` has one module for each kind of suite, ``suite.py`` lists them. The package
never loads a model.
"""
