"""The table that compares the models of a run, and what it leaves out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_genderbias.text.printable import escape

HEADERS = (
    "suite", "statistic", "model", "value", "than", "its value", "worse by", "one-sided 95 % bounds", "over", "p (Holm)", "better",
)  # fmt: skip


def make_comparison_table(comparisons: Sequence[Mapping[str, Any]]) -> str:
    """Return a markdown table: a row a statistic and pair of models; nothing without any. Texts are escaped for markdown.

    The mappings are those of ``Comparison.to_dict()``. Only main statistics have corrected p values; those of others stand in
    brackets, with what they would say.
    """
    from tabulate import tabulate

    rows = [_row(one) for one in comparisons]
    return tabulate(rows, HEADERS, tablefmt="github", disable_numparse=True) if rows else ""


def comparison_notes(comparisons: Sequence[Mapping[str, Any]], left_out: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines under the table: how to read it, and a line a reason why suites are not in it."""
    family = sum(one["p_holm"] is not None for one in comparisons)
    others = any(one["p"] is not None and one["p_holm"] is None for one in comparisons)
    lines = []
    if family:
        lines.append(
            f"p: two-sided, corrected (Holm) for {family} comparison{'s' * (family > 1)} of main statistics, all of this table; "
            "better: at 5 %. Bounds are for other items of the same kind, not corrected."
        )
    if others:
        lines.append("In brackets: other statistics, whose p is not corrected and in no family; take it for a hint.")
    if any(_exact(one) for one in comparisons):
        lines.append("exact: as the figures are, on the suite's own cases; says nothing of other items.")
    unbounded = [(one["method"].removeprefix("none: "), one["suite"]) for one in comparisons if _unbounded(one)]
    lines += [f"no bounds: {', '.join(suites)}: {reason}" for reason, suites in _by_reason(unbounded)]
    gone = [(one["reason"], f"{one['suite']} on {', '.join(one['models'])}") for one in left_out]
    lines += [f"not compared: {'; '.join(suites)}: {reason}" for reason, suites in _by_reason(gone)]
    return lines


def _by_reason(told: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Put together what has the same reason, each once."""
    found: dict[str, dict[str, None]] = {}
    for reason, what in told:
        found.setdefault(reason, {})[what] = None
    return [(reason, list(names)) for reason, names in found.items()]


def _row(of: Mapping[str, Any]) -> list[str]:
    between = "" if of["low"] is None else f"{of['low']:.4f} to {of['high']:.4f}"
    between = "exact" if _exact(of) else of["method"] if of["p"] is not None and not of["moved"] else between
    p, better = of["p_holm"], of["better"]
    shown = "" if p is None else f"{p:.2g}"
    if of["p"] is not None and p is None:
        shown, better = f"({of['p']:.2g})", f"({better})"
    cells = (
        of["suite"], of["statistic"], of["other"], _number(of["other_value"]), of["first"], _number(of["first_value"]),
        _number(of["worsening"]), between, of["over"], shown, better,
    )  # fmt: skip
    return [escape(cell) for cell in cells]


def _exact(of: Mapping[str, Any]) -> bool:
    return of["low"] is not None and of["p"] is None


def _unbounded(of: Mapping[str, Any]) -> bool:
    return of["low"] is None and of["worsening"] is not None


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
