"""Where the variance of a value comes from."""

from __future__ import annotations

import pytest

from pytest_genderbias import measure
from pytest_genderbias.measurement.restarts import combine_restarts
from pytest_genderbias.measurement.runner import Runner, RunSettings
from pytest_genderbias.measurement.variance import value_variance


def test_seeds_are_a_source_of_restarts() -> None:
    runner = Runner(score=RunSettings(cache=None))
    restarts = [runner.measure("lm-occupation", name) for name in ("demo-lm", "demo-mlm", "demo-lm")]
    combined = combine_restarts(restarts, [0, 1, 2])
    variance = value_variance(combined, "signed_bias")
    assert [(one.source, one.levels) for one in variance.shares] == [
        ("occupations", 64),
        ("templates", 4),
        ("seeds", 3),
        ("rest", 768),
    ]
    assert sum(one.share_of_value for one in variance.shares) == pytest.approx(1.0)


def test_templates_that_a_model_reads_alike_are_one() -> None:
    """The demo model knows no capitals: "He is" and "he is" are one prefix."""
    variance = value_variance(measure("lm-occupation", "demo-mlm", cache=None))
    assert [one.levels for one in variance.shares] == [64, 2, 128]


def test_what_is_not_crossed_says_why() -> None:
    variance = value_variance(measure("disco-terms", "demo-mlm", limit=420, cache=None))
    assert (
        variance.shares == ()
        and "the statistic has no score of each of the persons in each template" in variance.reason
    )
