"""What a test says of itself as a gate: the base class of the tests that gate files and flags declare, and the marker
``bias`` of tests in Python.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

import pytest

from pytest_genderbias.errors import BiasError, GateError, GateFailure, SettingError
from pytest_genderbias.escaping import printable
from pytest_genderbias.gates.policy import Evidence
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.text.schema import Rule, check_setting, field_hints

MARKER = "bias"
PACKAGED = "packaged"  #: the module of suites that no test file names
#: The id of a test when it was collected; ``--dist loadgroup`` of xdist appends the name of a group to it later.
NODE_ID = pytest.StashKey[str]()


class BiasItem(pytest.Item):
    """A test of one suite on one model, without Python code of the project.

    ``spec`` is ``None`` if the run has no model for the test. ``line``: where its file declares it, if a file does.
    ``said``: what people said there of the gate.
    """

    said: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self, *, name: str, parent: pytest.Collector, suite_name: str, spec: ModelSpec | None, line: int | None = None
    ) -> None:
        super().__init__(name=printable(name), parent=parent)
        self.suite_name, self.spec, self.line = suite_name, spec, line
        self.user_properties.append(("bias_suite", printable(suite_name)))

    @property
    @abstractmethod
    def optional(self) -> bool:
        """Whether the test is skipped, instead of failed, if it cannot be judged."""

    @property
    def why_required(self) -> str:
        """Why a test that is not optional fails if it cannot be judged, and what to do."""
        return (
            "a gate that cannot be judged fails; limit it with 'models: [NAME]', or allow a skip with 'optional: true'"
        )

    @property
    def baseline_gate(self) -> tuple[str, str] | None:
        """The baseline entry and the statistic that it judges; ``None`` if it compares with no baseline."""
        return None

    @property
    def is_gate(self) -> bool:
        """Whether something is judged."""
        return True

    @property
    def baseline_module(self) -> str:
        """The name under which its baselines are stored: its file, or ``packaged`` if there is none.

        It is not called ``module``: other plugins expect a Python module there.
        """
        return PACKAGED if self.line is None else self.nodeid.partition("::")[0]

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: str | None = None) -> str:
        """Show the errors of this package without a traceback, with file and line."""
        error = excinfo.value
        if not isinstance(error, BiasError):
            return str(super().repr_failure(excinfo))
        message = str(error) if isinstance(error, GateFailure) else f"{type(error).__name__}: {error}"
        return message if self.line is None else f"{self.baseline_module}:{self.line}: {message}"

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """Return file, line and name."""
        if self.line is None:
            return "genderbias", None, self.name
        return printable(str(self.path)), self.line - 1, f"{self.name} (line {self.line})"


def node_id(item: pytest.Item) -> str:
    """Return the id of a test that selects it on the command line."""
    return item.stash.get(NODE_ID, item.nodeid)


# Tests in Python.


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
