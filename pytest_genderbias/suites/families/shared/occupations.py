"""Shared by the families of score bias by occupation: the sums of their statistics."""

from __future__ import annotations

from pytest_genderbias.statistics.inference.item_sums import ItemSums
from pytest_genderbias.statistics.sums import score_bias_sums, take_arrays, template_bias_sums
from pytest_genderbias.suites.statistic import Arrays, Options


def occupation_sums(options: Options, arrays: Arrays, absolute: bool) -> ItemSums:
    """Return the sums of AOB (``absolute``) or signed AOB, by occupation and, unless only the bias was stored, by template.

    Raises:
        UndefinedError: the arrays have no bias.
    """
    if "template_difference" in arrays:
        labels, differences, templates = take_arrays(arrays, "occupation", "template_difference", "template")
        return template_bias_sums(labels, differences, templates, absolute)
    labels, bias = take_arrays(arrays, "occupation", "bias")
    return score_bias_sums(labels, bias, absolute)
