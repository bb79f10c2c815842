"""The spread of a training, from few restarts and what is known of other trainings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_genderbias.statistics.inference.over_restarts import MOST_PRIOR_FREEDOM, moderated_variance

VARIANCE = st.floats(1e-6, 1e6)
FREEDOM = st.floats(0.01, 20)


@given(VARIANCE, FREEDOM, VARIANCE, FREEDOM)
def test_a_moderated_variance_lies_between_the_two(
    variance: float, freedom: float, prior: float, prior_freedom: float
) -> None:
    found, total = moderated_variance(variance, freedom, prior, prior_freedom)
    assert min(variance, prior) * (1 - 1e-9) <= found <= max(variance, prior) * (1 + 1e-9)
    assert total == pytest.approx(freedom + min(prior_freedom, MOST_PRIOR_FREEDOM))
    assert moderated_variance(4 * variance, freedom, 4 * prior, prior_freedom) == pytest.approx((4 * found, total))
    more, _ = moderated_variance(variance, freedom + 1, prior, prior_freedom)
    assert abs(more - variance) <= abs(found - variance) + 1e-9 * variance, "more restarts borrow less"


@given(VARIANCE, FREEDOM, VARIANCE)
def test_without_a_prior_or_restarts_the_other_is_returned(variance: float, freedom: float, prior: float) -> None:
    assert moderated_variance(variance, freedom, prior, 0.0) == pytest.approx((variance, freedom))
    assert moderated_variance(0.0, 0, prior, 3.0) == pytest.approx((prior, 3.0))
    assert moderated_variance(variance, freedom, prior, 1e9)[1] == freedom + 8.0


def test_degrees_of_freedom_are_checked() -> None:
    for freedoms in ((0, 0), (-1, 3), (2, -1)):
        with pytest.raises(ValueError, match="degrees of freedom"):
            moderated_variance(1.0, freedoms[0], 1.0, freedoms[1])


def test_the_bound_is_exact_where_trainings_vary_as_the_prior_says() -> None:
    """True variances are scaled inverse chi squares: the moderated t has the sum of the degrees of freedom (Smyth
    2004).
    """
    rng, k, prior_freedom = np.random.default_rng(0), 3, 4.0
    true = prior_freedom / rng.chisquare(prior_freedom, 40_000)
    values = rng.normal(size=(40_000, k + 1)) * np.sqrt(true)[:, None]
    pairs = [moderated_variance(v, k - 1, 1.0, prior_freedom) for v in values[:, :k].var(axis=1, ddof=1)]
    variances, freedoms = np.array(pairs).T
    t = (values[:, k] - values[:, :k].mean(axis=1)) / np.sqrt(variances * (1 + 1 / k))
    for level in (0.975, 0.996):
        assert np.mean(t > stats.t.ppf(level, freedoms)) == pytest.approx(1 - level, abs=4 * (1 - level) ** 0.5 / 200)
