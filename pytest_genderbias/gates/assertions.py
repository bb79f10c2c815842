"""Assertions over measurements: they return the judgement, or raise :class:`~pytest_genderbias.errors.GateFailure`."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_genderbias.errors import GateFailure
from pytest_genderbias.gates.baseline import Baseline
from pytest_genderbias.gates.comparison import judge_against
from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.gates.limits import Limit, judge_limit
from pytest_genderbias.gates.policy import Margin, active_referee
from pytest_genderbias.gates.verdicts import FAILED, PASS, PASSED, Correction, correction_for, in_lines
from pytest_genderbias.measurement.measurement import Measurement


def assert_at_most(
    measurement: Measurement,
    limit: float,
    statistic: str | None = None,
    generalise: bool = False,
    *,
    range: bool = False,
) -> Judgement:
    """Assert with 95 % confidence that a statistic, the main one by default, is at most ``limit``, literally.

    What is judged is the figure of the whole suite on this model: exact where all cases were scored, the bounds of a
    confidence sequence for a sample of a mean. With ``generalise`` it is the figure for other items of the same kind,
    by the clustered interval.

    Raises:
        GateFailure: it is larger, has no value, or the bounds do not decide.
        GateError: it is worse on either side of neutral; use :func:`assert_within`. Or lower is worse, so that the
            limit demands bias, and ``range`` does not say that this is meant.
    """
    __tracebackhide__ = True
    _require_measurement(measurement, "assert_at_most")
    return settle(judge_limit(measurement, Limit(at_most=limit, range=range), statistic, generalise))


def assert_at_least(
    measurement: Measurement,
    limit: float,
    statistic: str | None = None,
    generalise: bool = False,
    *,
    range: bool = False,
) -> Judgement:
    """Assert that a statistic, the main one by default, is at least ``limit``, literally. All else as
    :func:`assert_at_most`.

    Where higher is worse, such a limit demands bias and needs ``range=True``.
    """
    __tracebackhide__ = True
    _require_measurement(measurement, "assert_at_least")
    return settle(judge_limit(measurement, Limit(at_least=limit, range=range), statistic, generalise))


def assert_within(
    measurement: Measurement, distance: float, statistic: str | None = None, generalise: bool = False
) -> Judgement:
    """Assert that a statistic, the main one by default, lies at most ``distance`` from its neutral value, on either
    side.
    """
    __tracebackhide__ = True
    _require_measurement(measurement, "assert_within")
    return settle(judge_limit(measurement, Limit(within=distance), statistic, generalise))


def assert_no_regression(
    measurement: Measurement,
    baseline: Baseline,
    margin: float | str | Margin | None = None,
    statistic: str | None = None,
    name: str | None = None,
) -> Judgement:
    """Assert that a statistic is not worse than the stored baseline, for other items of the same kind and other
    trainings.

    Args:
        measurement: what was measured now.
        baseline: the fixture ``bias_baseline``, or :class:`~pytest_genderbias.gates.baseline.Baseline`.
        margin: how much worse is still accepted: a number in units of the statistic, or a share of the stored distance
            from neutral (``"20%"``). Without one, nothing is but what chance explains.
        statistic: the main one by default.
        name: name of the entry, where one test module measures a suite in two ways; the suite's name by default.

    Raises:
        GateFailure: it is worse, its bounds do not decide about the margin, it has no value, there is no baseline, or
            the baseline is of something else.
        GateError: the margin is wrong.
    """
    __tracebackhide__ = True
    _require_measurement(measurement, "assert_no_regression")
    return settle(baseline.judge(measurement, margin, statistic, name))


def assert_no_worse(
    measurement: Measurement,
    reference: Measurement,
    margin: float | str | Margin | None = None,
    statistic: str | None = None,
    comparisons: int = 1,
) -> Judgement:
    """Assert that a model is not worse than another on the same suite, item by item. Other arguments as
    :func:`judge_against`.

    Args:
        comparisons: the number of such comparisons in the project, which the bounds hold for together. A number given
            by ``bias_correct_for`` takes its place, and ``bias_correct_for = none`` makes it 1.
    """
    __tracebackhide__ = True
    _require_measurement(measurement, "assert_no_worse")
    _require_measurement(reference, "assert_no_worse")
    correction = correction_of_run(comparisons)
    return settle(judge_against(measurement, reference, margin, statistic, correction))


def assert_same(
    measurement: Measurement,
    reference: Measurement,
    margin: float | str | Margin | None = None,
    statistic: str | None = None,
    comparisons: int = 1,
) -> Judgement:
    """Assert that a statistic is the same on two models, item by item: a compressed copy should be neither worse nor
    better.

    Arguments as :func:`~pytest_genderbias.gates.comparison.judge_against`; ``comparisons`` as :func:`assert_no_worse`.

    Raises:
        GateFailure: the change lies beyond the margin, its bounds do not decide, or it has no value.
        GateError: the margin is missing or wrong.
    """
    __tracebackhide__ = True
    _require_measurement(measurement, "assert_same")
    _require_measurement(reference, "assert_same")
    correction = correction_of_run(comparisons)
    return settle(judge_against(measurement, reference, margin, statistic, correction, same=True))


def correction_of_run(comparisons: int) -> Correction:
    """Return for how many comparisons between models the bounds of this run hold together."""
    return correction_for(active_referee().correct_for, comparisons, "comparisons of models")


def settle(judgement: Judgement) -> Judgement:
    """Record a judgement with its outcome, and raise an error if it fails.

    Raises:
        GateFailure: the judgement fails its test.
    """
    __tracebackhide__ = True  # pytest then shows the line of the test that asserts, and the text
    settle_all([judgement])
    return judgement


def settle_all(judgements: Iterable[Judgement]) -> None:
    """Settle the judgements of one test: record all of them first, so that the first failure hides no other.

    Raises:
        GateFailure: the first judgement that fails.
    """
    __tracebackhide__ = True
    referee = active_referee()
    settled = [(judgement, PASSED if judgement.verdict == PASS else FAILED) for judgement in judgements]
    if referee.record is not None:
        for judgement, outcome in settled:
            referee.record(judgement, outcome)
    for judgement, outcome in settled:
        if outcome == FAILED:
            failure = GateFailure(in_lines(judgement.shown) if referee.explain is None else referee.explain(judgement))
            if referee.note_failure is not None:
                referee.note_failure(failure)
            raise failure


def _require_measurement(argument: object, assertion: str) -> None:
    """Refuse a bare value, which has no bounds to judge."""
    __tracebackhide__ = True
    if not isinstance(argument, Measurement):
        raise TypeError(
            f"{assertion} judges a measurement with its bounds, got {type(argument).__name__} {argument!r:.60}; write"
            f" {assertion}(m, ...) with m = measure(...), or compare the bare value: assert m.value <= 0.3"
        )
