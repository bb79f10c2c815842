"""Suites without a test file: ``--bias-suite`` adds them to what pytest collects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest

from pytest_genderbias.errors import BiasError, GateFailure, NotApplicableError
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.plugin import outcomes
from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.session import bias_session, measure_or_skip, refuse_or_skip

if TYPE_CHECKING:
    from pytest_genderbias.gates.judgement import Judgement
    from pytest_genderbias.measurement.measurement import Measurement

_PREPARED = pytest.StashKey[set[pytest.Item]]()


class SuiteCollector(pytest.Collector):
    """The parent of the suites; it belongs to no file."""

    def collect(self) -> Iterable[pytest.Item]:
        """Return one item a suite and model, model by model, that first which the others are compared with."""
        settings = self.config.stash[SETTINGS]
        models: tuple[ModelSpec | None, ...] = settings.models or (None,)
        for spec in sorted(models, key=lambda spec: spec is not None and spec.name != settings.no_worse_than):
            for suite in settings.suites:
                yield SuiteItem.from_parent(self, suite=suite, spec=spec)


class SuiteItem(pytest.Item):
    """Measures one suite on one model, and compares it with the baseline and with another model where the project asks for that."""

    def __init__(self, *, suite: str, spec: ModelSpec | None, parent: SuiteCollector) -> None:
        stem = suite.replace("\\", "/").rpartition("/")[2].removesuffix(".yaml")
        super().__init__(f"{stem}:{spec.name if spec else 'no-model'}", parent)
        self.suite, self.spec = suite, spec
        self.user_properties.append(("bias_suite", stem))

    def runtest(self) -> None:
        """Measure, report, and judge against a stored entry, or make one where that is asked for; and against the other model."""
        from pytest_genderbias.gates.assertions import settle_all

        measure_references(self)
        measurement, judgements = self._measure(self.spec), []
        baseline = outcomes.baseline_of(self, measurement.model, self.config.stash[SETTINGS])
        if baseline.update != "no" or baseline.stored(measurement.suite) is not None:
            judgements.append(baseline.judge(measurement))
        try:
            if self.reference is not None:
                judgements.append(self._judge_no_worse(measurement, self.reference))
        finally:  # a suite that does not apply to the other model is no excuse
            settle_all(judgements)

    @property
    def reference(self) -> ModelSpec | None:
        """The model that this one may not be worse than."""
        settings = self.config.stash[SETTINGS]
        named = next((spec for spec in settings.models if spec.name == settings.no_worse_than), None)
        return None if named == self.spec else named

    def measure_reference(self, reference: ModelSpec) -> Measurement:
        """Measure what the model is compared with; the session keeps it."""
        session = bias_session(self.config)
        return session.measure(session.suite(self.suite), reference, self._settings())

    def _measure(self, spec: ModelSpec | None) -> Measurement:
        suite = bias_session(self.config).suite(self.suite)
        measurement = measure_or_skip(self.config, suite, spec, self._settings())
        outcomes.record_measurement(self, measurement)
        return measurement

    def _settings(self) -> dict[str, Any]:
        """Return the sample of the stored entry, where there is one."""
        n = outcomes.as_far_as(self, self.spec, [bias_session(self.config).suite(self.suite).name])
        return {} if n is None else {"limit": n}

    def _judge_no_worse(self, measurement: Measurement, reference: ModelSpec) -> Judgement:
        """Compare with the other model; the comparisons are those that the flags name, whatever of them runs."""
        from pytest_genderbias.gates.comparison import judge_no_worse
        from pytest_genderbias.gates.policy import active_referee

        settings = self.config.stash[SETTINGS]
        comparisons = len(settings.suites) * (len(settings.models) - 1)
        correction = active_referee().policy.correction(comparisons, "comparisons of models")
        return judge_no_worse(measurement, reference_or_skip(self, reference), correction=correction)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: str | None = None) -> str:
        """Show our own errors without a traceback."""
        return error_text(excinfo) or str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[str, None, str]:
        """Name the suite and the model."""
        return "genderbias", None, self.name


def measure_references(item: Any) -> None:
    """Measure all that the items to come are compared with, in a row, so that two models do not take turns in memory.

    An error is left to the item that it concerns, which says it whole. A worker of xdist does it for this item alone: it does not know which it gets.
    """
    prepared = item.config.stash.setdefault(_PREPARED, set())
    items = [item] if hasattr(item.config, "workerinput") else item.session.items
    waiting = [one for one in items if hasattr(one, "measure_reference") and one not in prepared and one.reference]
    for one in sorted(waiting, key=lambda one: str(one.reference.name)):
        prepared.add(one)
        with bias_session(item.config).untold():
            one.measure_reference(one.reference)


def reference_or_skip(item: Any, reference: ModelSpec) -> Measurement:
    """Return and report what an item is compared with; where its suite does not apply to that model, skip or fail."""
    try:
        measurement: Measurement = item.measure_reference(reference)
    except NotApplicableError as error:
        reason = f"not compared with {reference.name}: {error}"
    else:
        outcomes.record_measurement(item, measurement)
        return measurement
    refuse_or_skip(item.config, reason)


def error_text(excinfo: pytest.ExceptionInfo[BaseException]) -> str:
    """Return the text of an error that was raised for the user, or nothing."""
    if isinstance(excinfo.value, GateFailure):
        return str(excinfo.value)
    return f"{type(excinfo.value).__name__}: {excinfo.value}" if isinstance(excinfo.value, BiasError) else ""


def suite_items(session: pytest.Session) -> list[pytest.Item]:
    """Return the items of ``--bias-suite``; a suite file that is wrong is a usage error."""
    for name in session.config.stash[SETTINGS].suites:
        try:
            bias_session(session.config).suite(name)
        except BiasError as error:
            raise pytest.UsageError(f"--bias-suite: {error}") from None
    collector = SuiteCollector.from_parent(session, name="genderbias", nodeid="genderbias")
    collector.ihook.pytest_collectstart(collector=collector)
    report = collector.ihook.pytest_make_collect_report(collector=collector)
    collector.ihook.pytest_collectreport(report=report)  # so that the terminal counts them
    return list(report.result)
