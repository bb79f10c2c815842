"""Student's t by ``scipy.special`` beside ``scipy.stats``."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from pytest_genderbias.statistics.inference.intervals import t_above, t_quantile


@pytest.mark.parametrize("freedom", [0.7, 1, 2, 3.5, 10, 29, 1e3, 1e6, math.inf])
def test_quantiles_and_tails_are_those_of_scipy_to_the_last_bit(freedom: float) -> None:
    random = np.random.default_rng(3)
    for level in (1e-12, 0.5, 0.975, 1.0, *random.uniform(size=200)):
        assert t_quantile(level, freedom) == float(stats.t.ppf(level, freedom))
    for value in (-math.inf, 0.0, math.inf, *random.normal(scale=4.0, size=200)):
        assert t_above(value, freedom) == float(stats.t.sf(value, freedom))
        assert t_above(-value, freedom) == float(stats.t.cdf(value, freedom))


def test_without_degrees_of_freedom_there_is_no_number() -> None:
    assert math.isnan(t_quantile(0.9, 0))
    assert math.isnan(t_above(1.0, math.nan))
