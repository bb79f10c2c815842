"""Compute sums of units from raw item statistics, which baselines of earlier versions store."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.statistics.inference.packed_sums import SumsByStatistic
from pytest_genderbias.suites.registry import FAMILIES


def sums_of_items(
    definition: str, settings: Mapping[str, object], items: Mapping[str, NDArray[np.generic]]
) -> SumsByStatistic:
    """Return the sums of all statistics of a stored measurement.

    Args:
        definition: name and version of the statistics, as in the measurement's signature.
        settings: the settings of the signature.
        items: the raw item statistics.

    >>> items = {"occupation": np.array(["nurse", "pilot"]), "bias": np.array([-1.0, 3.0])}
    >>> sums = sums_of_items("lm-occupation/1", {}, items)
    >>> sums["aggregate_bias"].total, sums["signed_bias"].total
    (2.0, 1.0)
    """
    family = next((family for family in FAMILIES.values() if family.definition == definition), None)
    if family is None:
        return SumsByStatistic({})
    return SumsByStatistic(
        {name: partial(statistic.item_sums, settings, items) for name, statistic in family.statistics.items()}
    )
