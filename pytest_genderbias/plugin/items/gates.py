"""Collects ``*.bias.yaml`` files: each gate on each model, and each reduction that a mitigation should achieve, is a
test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pytest_genderbias.errors import BiasError
from pytest_genderbias.escaping import printable
from pytest_genderbias.gates.gate_file import PlannedGate, plan_gates, read_gate_file, read_gates
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.plugin import outcomes
from pytest_genderbias.plugin.doors import door
from pytest_genderbias.plugin.items.bias_item import BiasItem
from pytest_genderbias.plugin.items.references import ComparedItem, measure_for, measure_references
from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.session import mitigations_of, runner_of
from pytest_genderbias.plugin.unjudged import cannot_judge, for_other_models, judging, without_model
from pytest_genderbias.plugin.unread_gates import collected_gate_files
from pytest_genderbias.text.schema import LocatedMap

if TYPE_CHECKING:
    from pytest_genderbias.gates.judgement import Judgement
    from pytest_genderbias.measurement.measurement import Measurement
    from pytest_genderbias.plugin.items.references import Expected


def gate_items(file: pytest.File, data: LocatedMap) -> Iterator[pytest.Item]:
    """Return a test for each gate and model."""
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
        """Return the suite, the settings and the limits of this gate; without ``limit``, the sample of the stored
        entries.

        ``seeds`` is for restarts. One checkpoint that is held against stored restarts is measured once.
        """
        settings = self.gate.settings
        if "limit" not in settings:
            settings = {**settings, **outcomes.stored_sample(self, self.spec, self.plan.entries)}
        if "seeds" in settings and self._is_one_checkpoint():
            settings = {key: value for key, value in settings.items() if key != "seeds"}
        return self.gate.suite, settings, self.plan.until

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
        collected_gate_files(self.config).add(self.path)
        data = read_gate_file(self.path)
        if "gates" in data or "mitigate" not in data:
            yield from gate_items(self, data)
        if "mitigate" in data:
            yield from reduction_items(self, data)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: str | None = None) -> str:
        """Show a wrong file as one line, without a traceback."""
        return str(excinfo.value) if isinstance(excinfo.value, BiasError) else str(super().repr_failure(excinfo))
