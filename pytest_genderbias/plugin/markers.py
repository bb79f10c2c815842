"""The marker ``bias`` of tests in Python, and the markers of other plugins that tests declared by flags and files
get.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest

from pytest_genderbias.errors import GateError, SettingError
from pytest_genderbias.gates.policy import Evidence
from pytest_genderbias.text.schema import Rule, check_setting, field_hints

MARKER = "bias"


@dataclass(frozen=True)
class GateMarker(Evidence):
    """Settings of ``@pytest.mark.bias`` on a test in Python.

    Attributes:
        models: names of the models to judge; ``None`` for all.
        optional: whether the test is skipped if it cannot be judged.
    """

    models: Annotated[tuple[str, ...], Rule("a list of names", bool)] | None = None
    optional: bool = False

    def judges(self, model: str) -> bool:
        """Return whether the test judges a model of this name."""
        return self.models is None or model in self.models


def gate_marker(item: pytest.Item) -> GateMarker:
    """Return what the markers of a test say; each setting comes from the closest marker that has it.

    Raises:
        GateError: a marker has another argument, or one of another type.
    """
    hints = field_hints(GateMarker)
    settings: dict[str, object] = {}
    for marker in item.iter_markers(MARKER):
        if marker.args or not marker.kwargs.keys() <= hints.keys():
            wrong = ", ".join([*map(repr, marker.args), *sorted(marker.kwargs.keys() - hints.keys())])
            raise GateError(f"{item.nodeid}: pytest.mark.bias takes {'=, '.join(hints)}=; got {wrong}")
        settings = {**marker.kwargs, **settings}
    try:
        checked = {n: check_setting(f"{n!r} of pytest.mark.bias", hints[n], of) for n, of in settings.items()}
    except SettingError as error:
        raise GateError(f"{item.nodeid}: {error}") from None
    return GateMarker(**checked)


def mark(item: pytest.Item, declared: bool) -> None:
    """Mark a test that measures.

    A declared test gets markers of other plugins, too: a gate is deterministic, so pytest-rerunfailures does not repeat
    it; and its time is that of loading and scoring a model, so the limit that pytest-timeout sets for the tests of a
    project does not apply.
    """
    item.add_marker(pytest.mark.bias)
    if not declared:
        return
    plugins = item.config.pluginmanager
    if plugins.has_plugin("rerunfailures"):
        item.add_marker(pytest.mark.flaky(reruns=0))
    if plugins.has_plugin("timeout"):
        item.add_marker(pytest.mark.timeout(0))
