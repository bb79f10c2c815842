"""The tests of ``--bias-suite``, which belong to no test file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

from pytest_genderbias.errors import BiasError
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.plugin import outcomes
from pytest_genderbias.plugin.items.references import ComparedItem, measure_for, measure_references
from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.session import runner_of
from pytest_genderbias.plugin.unjudged import judging, without_model
from pytest_genderbias.text import packaged

if TYPE_CHECKING:
    from pytest_genderbias.gates.baseline import Baseline
    from pytest_genderbias.measurement.measurement import Measurement
    from pytest_genderbias.plugin.items.references import Expected
    from pytest_genderbias.suites.suite import Suite


class SuiteCollector(pytest.Collector):
    """The parent of the suites; it belongs to no file."""

    def collect(self) -> Iterable[pytest.Item]:
        """Return a test for each suite and model, model by model, beginning with the reference of the others."""
        settings = self.config.stash[SETTINGS]
        models: tuple[ModelSpec | None, ...] = settings.models or (None,)
        for spec in sorted(models, key=lambda spec: spec is not None and spec.name != settings.compared_with):
            for suite in settings.suites:
                yield SuiteItem.from_parent(self, suite=suite, spec=spec)


class SuiteItem(ComparedItem):
    """One suite on one model, compared with a stored baseline, and with the model of ``--bias-no-worse-than`` or
    ``--bias-same-as``.
    """

    def __init__(self, *, suite: str, spec: ModelSpec | None, parent: SuiteCollector) -> None:
        stem = suite.replace("\\", "/").rpartition("/")[2].removesuffix(".yaml")
        super().__init__(name=f"{stem}:{spec.name if spec else 'no-model'}", parent=parent, suite_name=stem, spec=spec)
        self.suite = suite

    @property
    def optional(self) -> bool:
        """Whether the test is skipped if the suite does not apply.

        It fails if a stored baseline makes it a gate. So does a suite that is named, which ``all`` is not, with
        ``--bias-strict``, or if ``--bias-no-worse-than`` or ``--bias-same-as`` makes it a gate.
        """
        settings = self.config.stash[SETTINGS]
        must_apply = settings.strict or settings.compared_with is not None
        return not self._is_stored and (self._stands_for_all or not must_apply)

    @property
    def why_required(self) -> str:
        """Why the test fails, and what to do."""
        settings = self.config.stash[SETTINGS]
        if settings.compared_with is not None:
            flag = "--bias-no-worse-than" if settings.same_as is None else "--bias-same-as"
            return f"{flag} makes every suite that is named a gate; leave this one out, or name 'all'"
        if not self._is_stored:
            return "--bias-strict fails a suite that is named and does not apply"
        return "its stored baseline makes it a gate; if it should not be one, remove its entry from the baseline file"

    @property
    def _is_stored(self) -> bool:
        """Whether there is a stored entry of the suite."""
        return self.spec is not None and self._loaded().name in outcomes.stored_entries(self, self.spec.name)

    @property
    def is_gate(self) -> bool:
        """Whether a stored baseline or another model makes it a gate."""
        return self._is_stored or self.reference is not None

    @property
    def baseline_gate(self) -> tuple[str, str] | None:
        """The baseline entry and the statistic that it judges."""
        return self._loaded().name, self._loaded().main_statistic

    def runtest(self) -> None:
        """Measure, and judge against the stored entry and the reference. Without a stored entry, an update makes
        one. ``all`` has a suite in another language than English only if the model, or the reference, knows it.
        """
        spec, settings = self.spec or without_model(self), self.config.stash[SETTINGS]
        if self._stands_for_all and not self._is_stored and self._loaded().language != "en":
            with judging(self):
                runner_of(self.config).refuse_unread(self._loaded(), self.reference or spec)
        measure_references(self)
        measurement = measure_for(self, spec)
        judges_nothing = settings.update == "no" and self.reference is None
        if not self._is_stored and (judges_nothing or measurement.statistics[measurement.main].no_gate):
            return
        self._judge(measurement)

    def _judge(self, measurement: Measurement) -> None:
        from pytest_genderbias.gates.assertions import settle_all

        settings, judgements, stored = self.config.stash[SETTINGS], [], self._is_stored
        baseline = outcomes.baseline_of(self, measurement.model)
        if stored or (settings.update != "no" and not self._is_left_out(measurement, baseline)):
            judgements.append(baseline.judge(measurement, settings.margin))
        try:
            if self.reference is not None:
                comparisons, same = len(settings.suites) * (len(settings.models) - 1), settings.same_as is not None
                judgements.append(self.compared(measurement, self.reference, settings.margin, comparisons, same=same))
        finally:  # a reference that cannot be measured does not hide a regression from the baseline
            settle_all(judgements)

    def _is_left_out(self, measurement: Measurement, baseline: Baseline) -> bool:
        """Return whether ``all`` stands for the suite, which would be too weak a gate; a suite that is named fails
        then.
        """
        is_asked = self._stands_for_all and self.config.stash[SETTINGS].margin is None and not measurement.unable
        return is_asked and bool(baseline.why_too_weak(measurement, measurement.main))

    @property
    def _stands_for_all(self) -> bool:
        """Whether the suite was not named, and ``all`` includes it."""
        return self.config.stash[SETTINGS].selection.includes_all and self.suite in packaged.names("fixtures")

    @property
    def reference(self) -> ModelSpec | None:
        """The model that this one is compared with; ``None`` for the reference itself."""
        settings = self.config.stash[SETTINGS]
        reference = next((spec for spec in settings.models if spec.name == settings.compared_with), None)
        return None if reference == self.spec else reference

    def expected(self) -> Expected:
        """Return the suite, and the sample of the stored entry if there is one; no limit ends the scoring."""
        return self._loaded(), outcomes.stored_sample(self, self.spec, [self._loaded().name]), ()

    def _loaded(self) -> Suite:
        return runner_of(self.config).suites(self.suite)


def suite_items(session: pytest.Session) -> list[pytest.Item]:
    """Return the tests of ``--bias-suite``; a wrong suite file is a usage error."""
    for name in session.config.stash[SETTINGS].suites:
        try:
            runner_of(session.config).suites(name)
        except BiasError as error:
            raise pytest.UsageError(f"--bias-suite: {error}") from None
    collector = SuiteCollector.from_parent(session, name="genderbias", nodeid="genderbias")
    collector.ihook.pytest_collectstart(collector=collector)
    report = collector.ihook.pytest_make_collect_report(collector=collector)
    collector.ihook.pytest_collectreport(report=report)  # so that the terminal counts them
    return list(report.result)
