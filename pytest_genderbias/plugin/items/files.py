"""Collects ``*.bias.yaml`` files: each gate and each reduction is a test."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from pytest_genderbias.errors import BiasError
from pytest_genderbias.escaping import printable
from pytest_genderbias.gates.gate_file import read_gate_file
from pytest_genderbias.plugin.items.gates import gate_items
from pytest_genderbias.plugin.items.reductions import reduction_items
from pytest_genderbias.plugin.unread_gates import collected_gate_files


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
