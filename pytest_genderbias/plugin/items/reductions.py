"""The tests of the list ``mitigate`` of a ``*.bias.yaml`` file: each reduction that a mitigation should achieve."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_genderbias.mitigation.harness.file import DeclaredReduction, plan_reductions, read_mitigations
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.plugin.items.base import BiasItem
from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.runs import runs_folder
from pytest_genderbias.plugin.session import BiasSession, bias_session
from pytest_genderbias.plugin.unjudged import for_other_models, judging, without_model
from pytest_genderbias.text.located_yaml import LocatedMap


def reduction_items(file: pytest.File, data: LocatedMap) -> Iterator[pytest.Item]:
    """Return a test for each reduction and model."""
    settings = file.config.stash[SETTINGS]
    specs = {spec.name: spec for spec in settings.models}
    session = bias_session(file.config)
    reductions = read_mitigations(data, settings.data, session.runner.suites)
    for plan in plan_reductions(reductions, list(specs)):
        spec = None if plan.model is None else specs[plan.model]
        yield ReductionItem.from_parent(file, name=plan.name, reduction=plan.reduction, spec=spec, shared=session)


class ReductionItem(BiasItem):
    """One reduction on one model. All reductions of a mitigation share its run."""

    def __init__(
        self,
        *,
        name: str,
        parent: pytest.Collector,
        reduction: DeclaredReduction,
        spec: ModelSpec | None,
        shared: BiasSession,
    ) -> None:
        super().__init__(name=name, parent=parent, suite_name=reduction.suite.name, spec=spec, line=reduction.line)
        self.reduction, self._shared = reduction, shared

    @property
    def optional(self) -> bool:
        """Whether the file allows a skip."""
        return self.reduction.optional

    def runtest(self) -> None:
        """Mitigate, or reuse the run of an earlier test, and judge."""
        from pytest_genderbias.gates.assertions import settle
        from pytest_genderbias.mitigation.harness.mitigation_runner import MitigationRunner
        from pytest_genderbias.mitigation.harness.verdict import judge_reduction

        reduction, mitigation = self.reduction, self.reduction.mitigation
        if self.spec is None and not mitigation.from_nothing:
            names = [spec.name for spec in self.config.stash[SETTINGS].models]
            if not names:
                without_model(self)
            for_other_models(self, reduction.why_idle(names))
        mitigations = MitigationRunner(self._shared.runner, runs_folder(self.config), self._shared.of_steps)
        recipe, plan = mitigation.recipe_with_arguments(), mitigation.plan_with_arguments()
        seeds, controls = mitigation.seeds, mitigation.controls
        with judging(self):
            if mitigation.grid is None or plan is None:
                run = mitigations.mitigate(self.spec, mitigation.method, recipe, seeds=seeds, controls=controls)
            else:
                choose_on = mitigation.grid.choose_on
                run = mitigations.search(self.spec, plan, seeds=seeds, choose_on=choose_on, controls=controls)
            judgement = judge_reduction(run, reduction.suite, **reduction.arguments)
        settle(judgement)
