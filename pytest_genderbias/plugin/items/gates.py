"""The tests of the list ``gates`` of a ``*.bias.yaml`` file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NoReturn

import pytest

from pytest_genderbias.gates.gate_file import PlannedGate, plan_gates, read_gates
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.plugin import outcomes
from pytest_genderbias.plugin.items.references import ComparedItem, measure_for, measure_references, measured_reference
from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.session import bias_session
from pytest_genderbias.plugin.unjudged import cannot_judge, for_other_models, without_model
from pytest_genderbias.text.schema import LocatedMap, YamlValue

if TYPE_CHECKING:
    from pytest_genderbias.gates.judgement import Judgement
    from pytest_genderbias.measurement.measurement import Measurement
    from pytest_genderbias.plugin.session import Limits
    from pytest_genderbias.suites.suite import Suite


def gate_items(file: pytest.File, data: LocatedMap) -> Iterator[pytest.Item]:
    """Return a test for each gate and model."""
    specs = {spec.name: spec for spec in file.config.stash[SETTINGS].models}
    gates = read_gates(data, bias_session(file.config).suite)
    for plan in plan_gates(gates, list(specs)):
        spec = None if plan.model is None else specs[plan.model]
        yield GateItem.from_parent(file, name=plan.name, plan=plan, spec=spec)


class GateItem(ComparedItem):
    """One gate on one model."""

    def __init__(self, *, name: str, parent: pytest.Collector, plan: PlannedGate, spec: ModelSpec | None) -> None:
        super().__init__(
            name=name, parent=parent, suite_name=plan.gate.suite.name, spec=spec, line=plan.gate.written.at.line
        )
        self.plan, self.gate = plan, plan.gate

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
        measurement = measure_for(self, spec, gate.suite, self._settings(), self.plan.until)
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

    def expected(self) -> tuple[Suite, Mapping[str, object], Limits]:
        """Return the suite, the settings and the limits of this gate."""
        return self.gate.suite, self._settings(), self.plan.until

    def measure_reference(self, reference: ModelSpec) -> Measurement:
        """Measure the reference with the settings of this gate."""
        return bias_session(self.config).measure(self.gate.suite, reference, self._settings(), self.plan.until)

    def _settings(self) -> dict[str, YamlValue]:
        """Return the settings of the file; without a limit, the sample of the stored entries."""
        settings = dict(self.gate.settings)
        if (
            "limit" not in settings
            and (size := outcomes.stored_sample_size(self, self.spec, self.plan.entries)) is not None
        ):
            settings["limit"] = size
        return settings

    def _compare(self, measurement: Measurement, against: str) -> Judgement:
        from pytest_genderbias.gates.assertions import correction_of_run
        from pytest_genderbias.gates.comparison import judge_against

        if self.reference is None:
            cannot_judge(self, f"no model {against!r} to compare with: give it with --bias-model={against}=SPEC")
        gate, other = self.gate, measured_reference(self, self.reference)
        same = gate.written.same_as is not None
        correction = correction_of_run(self.plan.comparisons)
        return judge_against(measurement, other, gate.margin, gate.statistic, correction, gate.written.name, same)
