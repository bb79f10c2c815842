"""Baseline files as the plugin names them, and the messages on them. Importing this module imports no numpy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pytest_genderbias.errors import StoreError
from pytest_genderbias.gates.book_places import MOST_BYTES, Place, read_place
from pytest_genderbias.text.plain_files import as_text
from pytest_genderbias.text.strict_json import parse_json


class BookKey(NamedTuple):
    """The model name and the module whose baselines one file holds."""

    model: str
    module: str


@dataclass
class Messages:
    """Lines for the end of the run, each with its markup, and those of them that fail the run."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def add(self, text: str, markup: str = "") -> None:
        """Add a line."""
        self.lines.append((text, markup))

    def extend(self, others: Messages) -> None:
        """Add the lines of others; the run fails if it fails by one of them."""
        self.lines += others.lines
        self.failures += others.failures

    def fail(self, text: str) -> None:
        """Add a line, and fail the run."""
        self.add(text, "red")
        self.failures.append(text)


def module_and_names(path: Place) -> tuple[str, set[str]]:
    """Return the module and the entry names of a baseline file; nothing if it cannot be read."""
    try:
        data = parse_json(as_text(path, read_place(path), MOST_BYTES), str(path))
    except (OSError, ValueError, StoreError):
        return "", set()
    module, entries = (data.get("module"), data.get("entries")) if isinstance(data, dict) else (None, None)
    return (module, set(entries)) if isinstance(module, str) and isinstance(entries, dict) else ("", set())
