"""Inference: intervals of statistics, paired comparisons of two models, permutation tests, and corrections for many
tests.

In: values of units, or their sums as :class:`~pytest_genderbias.statistics.inference.item_sums.ItemSums`. Out:
intervals, differences with bounds, and p values;
:class:`~pytest_genderbias.errors.UndefinedError` gives the reason where there is none. Suites,
measurement, gates, recipes and mitigation call this package. It computes statistics by the name of a function in
``statistics/combiners.py`` and needs neither the family nor the model.
"""
