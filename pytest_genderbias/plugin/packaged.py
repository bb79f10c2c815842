"""Suites without a test file: ``--bias-suite`` adds them to what pytest collects."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pytest_genderbias.errors import BiasError, GateFailure
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.plugin import outcomes
from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.session import bias_session, measure_or_skip


class SuiteCollector(pytest.Collector):
    """The parent of the suites; it belongs to no file."""

    def collect(self) -> Iterable[pytest.Item]:
        """Return one item a suite and model, model by model."""
        settings = self.config.stash[SETTINGS]
        models: tuple[ModelSpec | None, ...] = settings.models or (None,)
        for spec in models:
            for suite in settings.suites:
                yield SuiteItem.from_parent(self, suite=suite, spec=spec)


class SuiteItem(pytest.Item):
    """Measures one suite on one model, and compares it with the baseline where the project has one."""

    def __init__(self, *, suite: str, spec: ModelSpec | None, parent: SuiteCollector) -> None:
        stem = suite.replace("\\", "/").rpartition("/")[2].removesuffix(".yaml")
        super().__init__(f"{stem}:{spec.name if spec else 'no-model'}", parent)
        self.suite, self.spec = suite, spec
        self.user_properties.append(("bias_suite", stem))

    def runtest(self) -> None:
        """Measure, report, and judge against a stored entry, or make one where that is asked for."""
        from pytest_genderbias.gates.assertions import settle

        settings, suite = self.config.stash[SETTINGS], bias_session(self.config).suite(self.suite)
        n = outcomes.as_far_as(self, self.spec, [suite.name])
        measurement = measure_or_skip(self.config, suite, self.spec, {} if n is None else {"limit": n})
        outcomes.record_measurement(self, measurement)
        baseline = outcomes.baseline_of(self, measurement.model, settings)
        if baseline.update != "no" or baseline.stored(measurement.suite) is not None:
            settle(baseline.judge(measurement))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: str | None = None) -> str:
        """Show our own errors without a traceback."""
        return error_text(excinfo) or str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[str, None, str]:
        """Name the suite and the model."""
        return "genderbias", None, self.name


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
