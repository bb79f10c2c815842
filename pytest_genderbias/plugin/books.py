"""Baseline files as the plugin names them, and the messages on them. Importing this module imports no numpy."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


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

    def fail(self, text: str) -> None:
        """Add a line, and fail the run."""
        self.add(text, "red")
        self.failures.append(text)


def module_and_names(path: Path) -> tuple[str, set[str]]:
    """Return the module and the entry names of a baseline file; nothing if it cannot be read."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return str(data["module"]), set(data["entries"])
    except (OSError, ValueError, KeyError, TypeError):
        return "", set()
