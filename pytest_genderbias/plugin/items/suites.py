"""Suites without a test file: ``--bias-suite`` adds them to what pytest collects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest

from pytest_genderbias.errors import BiasError
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.plugin import outcomes
from pytest_genderbias.plugin.items.references import ComparedItem, measure_references, reference_or_skip
from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.session import bias_session, measure_or_skip

if TYPE_CHECKING:
    from pytest_genderbias.gates.judgement import Judgement
    from pytest_genderbias.measurement.measurement import Measurement


class SuiteCollector(pytest.Collector):
    """The parent of the suites; it belongs to no file."""

    def collect(self) -> Iterable[pytest.Item]:
        """Return one item a suite and model, model by model, that first which the others are compared with."""
        settings = self.config.stash[SETTINGS]
        models: tuple[ModelSpec | None, ...] = settings.models or (None,)
        for spec in sorted(models, key=lambda spec: spec is not None and spec.name != settings.no_worse_than):
            for suite in settings.suites:
                yield SuiteItem.from_parent(self, suite=suite, spec=spec)


class SuiteItem(ComparedItem):
    """Measures one suite on one model, and compares it with the baseline and with another model where the project asks for that."""

    def __init__(self, *, suite: str, spec: ModelSpec | None, parent: SuiteCollector) -> None:
        stem = suite.replace("\\", "/").rpartition("/")[2].removesuffix(".yaml")
        super().__init__(name=f"{stem}:{spec.name if spec else 'no-model'}", parent=parent, suite_name=stem, spec=spec)
        self.suite = suite

    def runtest(self) -> None:
        """Measure, report, and judge against a stored entry, or make one where that is asked for; and against the other model."""
        from pytest_genderbias.gates.assertions import settle_all

        measure_references(self)
        measurement, judgements = self._measure(self.spec), []
        baseline = outcomes.baseline_of(self, measurement.model)
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
        size = outcomes.stored_sample_size(self, self.spec, [bias_session(self.config).suite(self.suite).name])
        return {} if size is None else {"limit": size}

    def _judge_no_worse(self, measurement: Measurement, reference: ModelSpec) -> Judgement:
        """Compare with the other model; the comparisons are those that the flags name, whatever of them runs."""
        from pytest_genderbias.gates.comparison import judge_no_worse
        from pytest_genderbias.gates.policy import active_referee

        settings = self.config.stash[SETTINGS]
        comparisons = len(settings.suites) * (len(settings.models) - 1)
        correction = active_referee().policy.correction(comparisons, "comparisons of models")
        return judge_no_worse(measurement, reference_or_skip(self, reference), correction=correction)


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
