"""The tests that flags and gate files declare: the suites of ``--bias-suite``, which belong to no test file, and of
``*.bias.yaml`` files each gate on each model, and each reduction that a mitigation should achieve.

A test may compare its model with another model of the run, the reference.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pytest_genderbias.errors import BiasError
from pytest_genderbias.escaping import printable
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.plugin import outcomes
from pytest_genderbias.plugin.bias_item import BiasItem
from pytest_genderbias.plugin.doors import door
from pytest_genderbias.plugin.flag_values import ALL
from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.session import mitigations_of, runner_of
from pytest_genderbias.plugin.unjudged import GATE_FILES, cannot_judge, for_other_models, judging, without_model
from pytest_genderbias.plugin.workers import is_worker
from pytest_genderbias.text import packaged
from pytest_genderbias.text.schema import LocatedMap

if TYPE_CHECKING:
    from pytest_genderbias.gates.baseline import Baseline
    from pytest_genderbias.gates.gate_file import PlannedGate
    from pytest_genderbias.gates.judgement import Judgement
    from pytest_genderbias.gates.policy import Margin
    from pytest_genderbias.measurement.carry_out import Until
    from pytest_genderbias.measurement.measurement import Measurement
    from pytest_genderbias.suites.suite import Suite

    Expected = tuple[Suite, Mapping[str, object], Until | None]

_PREPARED = pytest.StashKey[set[BiasItem]]()


class ComparedItem(BiasItem):
    """A test whose model may have to be compared with a reference."""

    @property
    @abstractmethod
    def reference(self) -> ModelSpec | None:
        """The model to compare with; ``None`` without a comparison, or if the run does not have that model."""

    @abstractmethod
    def expected(self) -> Expected:
        """Return what this test measures: suite, settings, and what ends the scoring early."""

    def compared(
        self, measurement: Measurement, reference: ModelSpec, margin: Margin | None, comparisons: int, **how: Any
    ) -> Judgement:
        """Compare with the measurement of a reference. ``comparisons`` are those that file or flags name, whichever of
        them run; ``how`` are other arguments of ``judge_against``.
        """
        from pytest_genderbias.gates.assertions import correction_of_run
        from pytest_genderbias.gates.comparison import judge_against

        correction = correction_of_run(comparisons)
        of_reference = measure_for(self, reference, f"not compared with {reference.name}: ")
        return judge_against(measurement, of_reference, margin, correction=correction, **how)


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
            suite, settings, until = other.expected()
            runner_of(item.config).measure(suite, reference, settings, until)


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


def measure_for(item: ComparedItem, spec: ModelSpec, lead: str = "") -> Measurement:
    """Return and report the measurement of a test on its model, or on the reference; fail or skip the test if the suite
    does not apply: ``lead`` begins the reason.
    """
    with judging(item, lead):
        suite, settings, until = item.expected()
        measurement = runner_of(item.config).measure(suite, spec, settings, until)
    outcomes.record_measurement(item, measurement)
    return measurement


# Suites of flags.


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
        return ALL in self.config.stash[SETTINGS].selection and self.suite in packaged.names("fixtures")

    @property
    def reference(self) -> ModelSpec | None:
        """The model that this one is compared with; ``None`` for the reference itself."""
        settings = self.config.stash[SETTINGS]
        reference = next((spec for spec in settings.models if spec.name == settings.compared_with), None)
        return None if reference == self.spec else reference

    def expected(self) -> Expected:
        """Return the suite, and the sample of the stored entry if there is one; no limit ends the scoring."""
        return self._loaded(), outcomes.stored_sample(self, self.spec, [self._loaded().name]), None

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


# Gate files.


def gate_items(file: pytest.File, data: LocatedMap) -> Iterator[pytest.Item]:
    """Return a test for each gate and model."""
    from pytest_genderbias.gates.gate_file import plan_gates, read_gates

    specs = {spec.name: spec for spec in file.config.stash[SETTINGS].models}
    gates = read_gates(data, runner_of(file.config).suites)
    for plan in plan_gates(gates, list(specs)):
        spec = None if plan.model is None else specs[plan.model]
        yield GateItem.from_parent(file, name=plan.name, plan=plan, spec=spec)


class GateItem(ComparedItem):
    """One gate on one model."""

    def __init__(self, *, name: str, parent: pytest.Collector, plan: PlannedGate, spec: ModelSpec | None) -> None:
        super().__init__(
            name=name, parent=parent, suite_name=plan.gate.suite.name, spec=spec, line=plan.gate.written.at.line
        )
        self.plan, self.gate, self.said = plan, plan.gate, plan.gate.written.said

    @property
    def optional(self) -> bool:
        """Whether the file allows a skip."""
        return self.gate.written.optional

    @property
    def baseline_gate(self) -> tuple[str, str] | None:
        """The baseline entry and the statistic that it judges."""
        return (self.gate.entry, self.gate.statistic) if self.gate.written.baseline else None

    def runtest(self) -> None:
        """Measure and judge."""
        from pytest_genderbias.gates.assertions import settle_all
        from pytest_genderbias.gates.limits import judge_limit

        gate, spec = self.gate, self.spec or self._without_spec()
        label, generalise = gate.written.name, gate.written.generalise
        measure_references(self)
        measurement = measure_for(self, spec)
        judgements = []
        if gate.written.baseline:
            baseline = outcomes.baseline_of(self, measurement.model)
            outcomes.outcome_of(self).gates = baseline.amounts(measurement, self.plan.margins, gate.entry)
            judgements.append(baseline.judge(measurement, gate.margin, gate.statistic, label))
        try:
            if gate.against is not None:
                judgements.append(self._compare(measurement, gate.against))
            if gate.limit is not None:
                judgements.append(judge_limit(measurement, gate.limit, gate.statistic, generalise, label))
        finally:  # a reference that cannot be measured does not hide a regression from the baseline
            settle_all(judgements)

    def _without_spec(self) -> NoReturn:
        """Skip or fail the test of a gate that judges no model of the run."""
        names = [spec.name for spec in self.config.stash[SETTINGS].models]
        if not names:
            without_model(self)
        if not self.gate.is_for(names):
            for_other_models(self, self.gate.why_idle(names))
        cannot_judge(self, self.gate.why_idle(names))

    @property
    def reference(self) -> ModelSpec | None:
        """The model that this one is compared with; ``None`` if the run does not have it."""
        return next((spec for spec in self.config.stash[SETTINGS].models if spec.name == self.gate.against), None)

    def expected(self) -> Expected:
        """Return the suite and the settings of this gate, and what ends the scoring once its limits are decided.
        Without the setting ``limit`` the sample is that of the stored entries.

        ``seeds`` is for restarts. One checkpoint that is held against stored restarts is measured once.
        """
        from pytest_genderbias.gates.limits import decided_by

        settings = self.gate.settings
        if "limit" not in settings:
            settings = {**settings, **outcomes.stored_sample(self, self.spec, self.plan.entries)}
        if "seeds" in settings and self._is_one_checkpoint():
            settings = {key: value for key, value in settings.items() if key != "seeds"}
        until = decided_by(self.plan.until, self.gate.suite.statistics) if self.plan.until else None
        return self.gate.suite, settings, until

    def _is_one_checkpoint(self) -> bool:
        """Whether the model is one checkpoint, the suite trains nothing, and the stored entries are of restarts."""
        if self.spec is None or self.spec.seeded or "seeds" in self.gate.suite.family.options:
            return False
        stored = outcomes.stored_entries(self, self.spec.name)
        restarts = [stored[name].settings.get("restarts") for name in self.plan.entries if name in stored]
        others = {key: value for key, value in self.gate.settings.items() if key != "seeds"}
        of_restarts = bool(restarts) and all(restarts)
        return of_restarts and not runner_of(self.config).plan(self.gate.suite, self.spec, others).trains

    def _compare(self, measurement: Measurement, against: str) -> Judgement:
        if self.reference is None:
            cannot_judge(self, f"no model {against!r} to compare with: give it with --bias-model={against}=SPEC")
        written = self.gate.written
        how = {"statistic": self.gate.statistic, "label": written.name, "same": written.same_as is not None}
        return self.compared(measurement, self.reference, self.gate.margin, self.plan.comparisons, **how)


def reduction_items(file: pytest.File, data: LocatedMap) -> Iterator[pytest.Item]:
    """Return a test for each reduction and model."""
    settings = file.config.stash[SETTINGS]
    specs = {spec.name: spec for spec in settings.models}
    suites = runner_of(file.config).suites
    for name, reduction, model in door("reductions on models")(data, settings.data, suites, list(specs)):
        yield ReductionItem.from_parent(file, name=name, reduction=reduction, spec=specs.get(model))


class ReductionItem(BiasItem):
    """One reduction on one model. All reductions of a mitigation share its run.

    ``reduction``: a :class:`~pytest_genderbias.mitigation.harness.file.DeclaredReduction`.
    """

    def __init__(self, *, name: str, parent: pytest.Collector, reduction: Any, spec: ModelSpec | None) -> None:
        super().__init__(
            name=name, parent=parent, suite_name=reduction.suite.name, spec=spec, line=reduction.written.at.line
        )
        self.reduction, self.said = reduction, reduction.written.said

    @property
    def optional(self) -> bool:
        """Whether the file allows a skip."""
        return bool(self.reduction.optional)

    def runtest(self) -> None:
        """Mitigate, or reuse the run of an earlier test, and judge."""
        from pytest_genderbias.gates.assertions import settle

        if self.spec is None and self.reduction.needs_model:
            names = [spec.name for spec in self.config.stash[SETTINGS].models]
            if not names:
                without_model(self)
            for_other_models(self, self.reduction.why_idle(names))
        with judging(self):
            judgement = self.reduction.judge(self.spec, mitigations_of(self.config))
        settle(judgement)


class BiasFile(pytest.File):
    """A file with a list of gates under ``gates``, of mitigations under ``mitigate``, or both."""

    @classmethod
    def at(cls, parent: pytest.Collector, path: Path) -> BiasFile:
        """Return the file at a path. Characters of the path that a terminal would obey are escaped in the ids of its
        tests.
        """
        name = path.relative_to(parent.config.rootpath) if path.is_relative_to(parent.config.rootpath) else path
        shown = printable(name.as_posix()).replace("::", r":\x3a")  # ``::`` ends the path in an id
        file: BiasFile = (
            cls.from_parent(parent, path=path)
            if shown == name.as_posix()
            else cls.from_parent(parent, path=path, nodeid=shown)
        )
        return file

    def collect(self) -> Iterable[pytest.Item]:
        """Return a test for each gate and model, and for each reduction and model."""
        from pytest_genderbias.gates.gate_file import read_gate_file

        self.config.stash[GATE_FILES].add(self.path)
        data = read_gate_file(self.path)
        if "gates" in data or "mitigate" not in data:
            yield from gate_items(self, data)
        if "mitigate" in data:
            yield from reduction_items(self, data)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: str | None = None) -> str:
        """Show a wrong file as one line, without a traceback."""
        return str(excinfo.value) if isinstance(excinfo.value, BiasError) else str(super().repr_failure(excinfo))
