"""Base class of the tests that gate files and flags declare."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from types import MappingProxyType

import pytest

from pytest_genderbias.errors import BiasError, GateFailure
from pytest_genderbias.escaping import printable
from pytest_genderbias.models.spec import ModelSpec

PACKAGED = "packaged"  #: the module of suites that no test file names
_NODE_ID = pytest.StashKey[str]()


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


def keep_node_id(item: pytest.Item) -> None:
    """Keep the id that a collected test has now; ``--dist loadgroup`` of xdist appends the name of a group to it
    later.
    """
    item.stash[_NODE_ID] = item.nodeid


def node_id(item: pytest.Item) -> str:
    """Return the id of a test that selects it on the command line."""
    return item.stash.get(_NODE_ID, item.nodeid)
