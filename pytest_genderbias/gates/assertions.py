"""Assertions over measurements: they return the judgement, or raise :class:`~pytest_genderbias.errors.GateFailure`."""

from __future__ import annotations

from pytest_genderbias.errors import GateFailure
from pytest_genderbias.gates.baseline import Baseline
from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.gates.limits import Limit, judge_limit
from pytest_genderbias.measurement import Measurement


def assert_at_most(measurement: Measurement, limit: float, statistic: str | None = None) -> Judgement:
    """Assert that a statistic, the main one by default, is at most ``limit``, literally.

    Raises:
        GateFailure: it is larger, or has no value.
        GateError: it is worse on either side of neutral; use :func:`assert_within`.
    """
    return settle(judge_limit(measurement, Limit(at_most=limit), statistic))


def assert_at_least(measurement: Measurement, limit: float, statistic: str | None = None) -> Judgement:
    """Assert that a statistic, the main one by default, is at least ``limit``, literally. Errors as :func:`assert_at_most`."""
    return settle(judge_limit(measurement, Limit(at_least=limit), statistic))


def assert_within(measurement: Measurement, distance: float, statistic: str | None = None) -> Judgement:
    """Assert that a statistic, the main one by default, lies at most ``distance`` from its neutral value, on either side."""
    return settle(judge_limit(measurement, Limit(within=distance), statistic))


def assert_no_regression(
    measurement: Measurement,
    baseline: Baseline,
    tolerance: float = 0.0,
    statistic: str | None = None,
    name: str | None = None,
) -> Judgement:
    """Assert that a statistic is not worse than the stored baseline by more than ``tolerance``.

    Args:
        measurement: what was measured now.
        baseline: the fixture ``bias_baseline``, or :class:`~pytest_genderbias.gates.baseline.Baseline`.
        tolerance: how much worse, in units of the statistic, is still accepted.
        statistic: the main one by default.
        name: name of the entry, where one test module measures a suite in two ways; the suite's name by default.

    Raises:
        GateFailure: it is worse, it has no value, there is no baseline, or the baseline is of something else.
    """
    return settle(baseline.judge(measurement, tolerance, statistic, name))


def settle(judgement: Judgement) -> Judgement:
    """Raise if the judgement fails its test."""
    if judgement.failed:
        raise GateFailure(judgement.text)
    return judgement
