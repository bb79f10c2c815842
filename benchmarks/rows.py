"""Rows of the table: the measured figure, the baseline, and whether the wanted limit is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tabulate import tabulate

_HEADERS = ("benchmark", "ours", "baseline", "ratio", "wanted", "ok")


@dataclass(frozen=True)
class Row:
    """One comparison. ``figure``, a ratio unless ``figure_unit`` says otherwise, is compared with the limits.

    ``baseline`` describes the baseline; ``ours`` and ``baseline_value`` have the unit ``unit``.
    """

    benchmark: str
    ours: float
    unit: str
    figure: float | None = None
    figure_unit: str = "x"
    baseline: str = ""
    baseline_value: float | None = None
    at_least: float | None = None
    at_most: float | None = None

    @property
    def ok(self) -> bool | None:
        """Whether the figure keeps its limits; ``None`` if it has none."""
        if self.figure is None or (self.at_least is None and self.at_most is None):
            return None
        return (self.at_least is None or self.figure >= self.at_least) and (
            self.at_most is None or self.figure <= self.at_most
        )

    def cells(self) -> list[str]:
        """Return the cells of the row as texts."""
        beside = "" if self.baseline_value is None else f"{_number(self.baseline_value)} {self.unit}"
        wanted = [
            f"{sign} {_number(limit)} {self.figure_unit}"
            for sign, limit in (("≥", self.at_least), ("≤", self.at_most))
            if limit is not None
        ]
        return [
            self.benchmark,
            f"{_number(self.ours)} {self.unit}",
            f"{beside} ({self.baseline})" if self.baseline else beside,
            "" if self.figure is None else f"{_number(self.figure)} {self.figure_unit}",
            " and ".join(wanted),
            {True: "yes", False: "NO", None: ""}[self.ok],
        ]


@dataclass(frozen=True)
class Skipped:
    """A benchmark that cannot run here, and the reason."""

    benchmark: str
    reason: str


def ratio(
    benchmark: str, ours: float, baseline_value: float, baseline: str, unit: str, at_least: float | None = None
) -> Row:
    """Compare two rates; the figure is our rate over that of the baseline."""
    return Row(benchmark, ours, unit, ours / baseline_value, "x", baseline, baseline_value, at_least=at_least)


def table(rows: Sequence[Row | Skipped]) -> str:
    """Return all rows as a markdown table."""
    cells = [row.cells() if isinstance(row, Row) else [row.benchmark, f"skipped: {row.reason}"] for row in rows]
    return tabulate(cells, headers=_HEADERS, tablefmt="github", disable_numparse=True)


def plain(row: Row | Skipped) -> dict[str, Any]:
    """Return a row as plain JSON values."""
    return vars(row) | ({"ok": row.ok} if isinstance(row, Row) else {})


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
