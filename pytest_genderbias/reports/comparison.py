"""The table that compares the models of a run, and the lines below it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_genderbias.gates.comparison import Comparison, LeftOut

HEADERS = (
    "suite", "statistic", "model", "value", "than", "its value", "worse by", "95 % bounds", "over", "p (Holm)", "better",
)  # fmt: skip


def comparison_notes(comparisons: Sequence[Comparison], left_out: Sequence[LeftOut]) -> list[str]:
    """Return the lines below the table: how to read it, and one line a reason why suites are not in it."""
    corrected = sum(comparison.p_holm is not None for comparison in comparisons)
    others = any(comparison.p is not None and comparison.p_holm is None for comparison in comparisons)
    lines = []
    if corrected:
        lines.append(
            f"p: two-sided, corrected (Holm) for {corrected} comparison{'s' * (corrected > 1)} of main statistics, all of this table; "
            "better: at 5 %. Bounds are for other items of the same kind, not corrected."
        )
    if others:
        lines.append("In brackets: other statistics, whose p is not corrected; read it as a hint.")
    if any(comparison.exact for comparison in comparisons):
        lines.append(
            "exact: the values are compared as they are, for the suite's own cases; this says nothing about other items."
        )
    unbounded = [(row.method.removeprefix("none: "), row.suite) for row in comparisons if _is_unbounded(row)]
    lines += [f"no bounds: {', '.join(suites)}: {reason}" for reason, suites in _by_reason(unbounded)]
    missing = [(suite.reason, f"{suite.suite} on {', '.join(suite.models)}") for suite in left_out]
    lines += [f"not compared: {'; '.join(suites)}: {reason}" for reason, suites in _by_reason(missing)]
    return lines


def _by_reason(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Return the names that have the same reason together, each once."""
    names: dict[str, dict[str, None]] = {}
    for reason, name in pairs:
        names.setdefault(reason, {})[name] = None
    return [(reason, list(same)) for reason, same in names.items()]


def comparison_cells(comparison: Comparison) -> tuple[str, ...]:
    """Return the texts of a row, one for each of ``HEADERS``, as they are."""
    p, better = comparison.p_holm, comparison.better
    shown = "" if p is None else f"{p:.2g}"
    if comparison.p is not None and p is None:
        shown, better = f"({comparison.p:.2g})", f"({better})"
    return (
        comparison.suite, comparison.statistic, comparison.other, _number(comparison.other_value), comparison.first,
        _number(comparison.first_value), _number(comparison.worsening), _bounds(comparison), comparison.over, shown, better,
    )  # fmt: skip


def _bounds(comparison: Comparison) -> str:
    if comparison.exact:
        return "exact"
    if comparison.p is not None and not comparison.moved:
        return comparison.method
    return "" if comparison.low is None else f"{comparison.low:.4f} to {comparison.high:.4f}"


def _is_unbounded(comparison: Comparison) -> bool:
    return comparison.low is None and comparison.worsening is not None


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
