"""The tests of the list ``mitigate`` of a ``*.bias.yaml`` file: each reduction that a mitigation should achieve."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.plugin.doors import door
from pytest_genderbias.plugin.items.bias_item import BiasItem
from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.session import BiasSession, bias_session
from pytest_genderbias.plugin.unjudged import for_other_models, judging, without_model
from pytest_genderbias.text.schema import LocatedMap


def reduction_items(file: pytest.File, data: LocatedMap) -> Iterator[pytest.Item]:
    """Return a test for each reduction and model."""
    settings = file.config.stash[SETTINGS]
    specs = {spec.name: spec for spec in settings.models}
    session = bias_session(file.config)
    reductions = door("reductions of a file")(data, settings.data, session.runner.suites)
    for plan in door("reductions on models")(reductions, list(specs)):
        spec = None if plan.model is None else specs[plan.model]
        yield ReductionItem.from_parent(file, name=plan.name, reduction=plan.reduction, spec=spec, shared=session)


class ReductionItem(BiasItem):
    """One reduction on one model. All reductions of a mitigation share its run.

    ``reduction``: a :class:`~pytest_genderbias.mitigation.harness.file.DeclaredReduction`.
    """

    def __init__(
        self, *, name: str, parent: pytest.Collector, reduction: Any, spec: ModelSpec | None, shared: BiasSession
    ) -> None:
        super().__init__(
            name=name, parent=parent, suite_name=reduction.suite.name, spec=spec, line=reduction.written.at.line
        )
        self.reduction, self._shared = reduction, shared

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
            judgement = self.reduction.judge(self.spec, self._shared.mitigations)
        settle(judgement)
