"""Tests that compare a model with another model of the run, the reference."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from pytest_genderbias.errors import BiasError, NotApplicableError
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.plugin import outcomes
from pytest_genderbias.plugin.items.bias_item import BiasItem
from pytest_genderbias.plugin.session import measure_suite, runner_of
from pytest_genderbias.plugin.unjudged import cannot_judge, judging
from pytest_genderbias.plugin.workers import is_worker

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_genderbias.gates.judgement import Judgement
    from pytest_genderbias.gates.policy import Margin
    from pytest_genderbias.measurement.measurement import Measurement
    from pytest_genderbias.plugin.session import Limits
    from pytest_genderbias.suites.suite import Suite

    Expected = tuple[Suite, Mapping[str, object], Limits]

_PREPARED = pytest.StashKey[set[BiasItem]]()


class ComparedItem(BiasItem):
    """A test whose model may have to be compared with a reference."""

    @property
    @abstractmethod
    def reference(self) -> ModelSpec | None:
        """The model to compare with; ``None`` without a comparison, or if the run does not have that model."""

    @abstractmethod
    def expected(self) -> Expected:
        """Return what this test measures: suite, settings and limits."""

    def compared(
        self, measurement: Measurement, reference: ModelSpec, margin: Margin | None, comparisons: int, **how: Any
    ) -> Judgement:
        """Compare with the measurement of a reference. ``comparisons`` are those that file or flags name, whichever of
        them run; ``how`` are other arguments of ``judge_against``.
        """
        from pytest_genderbias.gates.assertions import correction_of_run
        from pytest_genderbias.gates.comparison import judge_against

        correction = correction_of_run(comparisons)
        return judge_against(measurement, measured_reference(self, reference), margin, correction=correction, **how)


def measure_references(item: ComparedItem) -> None:
    """Measure the references of all tests to come in a row, so that two models do not take turns in memory.

    An error is left to the test that it concerns, which reports it in full. A worker of xdist measures the reference of
    this test only, since it does not know which tests it gets.
    """
    prepared = item.config.stash.setdefault(_PREPARED, set())
    items = [item] if is_worker(item.config) else item.session.items
    pending = [
        (reference, other)
        for other in items
        if isinstance(other, ComparedItem) and other not in prepared and (reference := other.reference) is not None
    ]
    pending.sort(key=lambda pair: pair[0].name)
    for reference, other in pending:
        prepared.add(other)
        with runner_of(item.config).models.unreported():
            measure_suite(item.config, reference, *other.expected())


def expected_of(items: Iterable[pytest.Item]) -> list[tuple[Suite, ModelSpec, Mapping[str, object]]]:
    """Return what tests will measure, in this order: the references first. A test that cannot say it does so in its
    turn.
    """
    compared = [item for item in items if isinstance(item, ComparedItem)]
    references = [(reference, item) for item in compared if (reference := item.reference) is not None]
    references.sort(key=lambda pair: pair[0].name)
    expected = []
    for spec, item in [*references, *((item.spec, item) for item in compared if item.spec is not None)]:
        with suppress(BiasError):
            suite, settings, _ = item.expected()
            expected.append((suite, spec, settings))
    return expected


def measure_for(item: ComparedItem, spec: ModelSpec) -> Measurement:
    """Return and report the measurement of a test on its model; fail or skip the test if the suite does not apply."""
    with judging(item):
        measurement = measure_suite(item.config, spec, *item.expected())
    outcomes.record_measurement(item, measurement)
    return measurement


def measured_reference(item: ComparedItem, reference: ModelSpec) -> Measurement:
    """Return and report the measurement of the reference; fail or skip the test if the suite does not apply to that
    model.
    """
    try:
        measurement = measure_suite(item.config, reference, *item.expected())
    except NotApplicableError as error:
        cannot_judge(item, f"not compared with {reference.name}: {error}")
    outcomes.record_measurement(item, measurement)
    return measurement
