"""The tables of a run as headers, rows of texts and lines below: models against each other, mitigations, grids and
sources of variance.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_genderbias.reports.fields import GATE_COLUMNS
from pytest_genderbias.text.columns import together
from pytest_genderbias.text.printable import counted, format_bounds, format_decimals, format_number, format_share

if TYPE_CHECKING:
    from pytest_genderbias.gates.judgement import Comparison, Judgement, LeftOut
    from pytest_genderbias.measurement.variance import ValueVariance
    from pytest_genderbias.reports.run_report import RunReport

COMPARED = (
    "suite", "statistic", "model", "value", "than", "its value", "worse by", "95 % bounds", "over", "p (Holm)",
    "better",
)  # fmt: skip


def comparison_notes(comparisons: Sequence[Comparison], left_out: Sequence[LeftOut]) -> list[str]:
    """Return the lines below the table: how to read it, and one line a reason why suites are not in it."""
    corrected = sum(comparison.p_holm is not None for comparison in comparisons)
    others = any(comparison.p is not None and comparison.p_holm is None for comparison in comparisons)
    lines = []
    if corrected:
        lines.append(
            f"p: two-sided, corrected (Holm) for {counted(corrected, 'comparisons')} of main statistics, all"
            " of this table; better: at 5 %. Bounds are for other items of the same kind, not corrected."
        )
    if others:
        lines.append("In brackets: other statistics, whose p is not corrected; read it as a hint.")
    if any(comparison.exact for comparison in comparisons):
        lines.append(
            "exact: the values are compared as they are, for the suite's own cases; this says nothing about other"
            " items."
        )
    unbounded = [row for row in comparisons if row.low is None and row.worsening is not None]
    reasons = [(row.method.removeprefix("none: "), row.suite) for row in unbounded]
    lines += [f"no bounds: {', '.join(suites)}: {reason}" for reason, suites in together(reasons).items()]
    missing = [(suite.reason, f"{suite.suite} on {', '.join(suite.models)}") for suite in left_out]
    lines += [f"not compared: {'; '.join(suites)}: {reason}" for reason, suites in together(missing).items()]
    return lines


def comparison_cells(comparison: Comparison) -> tuple[str, ...]:
    """Return the texts of a row, one for each of ``COMPARED``, as they are."""
    p, better = comparison.p_holm, comparison.better
    shown = "" if p is None else f"{p:.2g}"
    if comparison.p is not None and p is None:
        shown, better = f"({comparison.p:.2g})", f"({better})"
    one = comparison
    other, first, worsening = map(format_decimals, (one.other_value, one.first_value, one.worsening))
    sides = one.suite, one.statistic, one.other, other, one.first, first
    return *sides, worsening, _bounds(one), one.over, shown, better


def _bounds(comparison: Comparison) -> str:
    if comparison.exact:
        return "exact"
    if comparison.p is not None and not comparison.moved:
        return comparison.method
    low, high = comparison.low, comparison.high
    return "" if low is None or high is None else format_bounds(low, high, format_decimals)


# What mitigations did: before, after, in the control, and what it cost.

#: Columns of GATE_COLUMNS that begin the table of mitigations, and those that follow.
_REDUCED = ("subject", "model", "statistic", "before", "after", "control", "reduction")
_COSTS = ("95 % bounds", "over", "task", "comes back", "seeds", "asked", "verdict")


def reduction_rows(judgements: Iterable[Judgement]) -> tuple[list[str], list[list[str]]]:
    """Return the headers of the table and the texts of its rows, as they are; columns that are empty everywhere are
    left out.
    """
    rows = sorted(
        (_reduced(settled) for settled in judgements if settled.of_reduction is not None),
        key=lambda row: (row[1], row[0]),
    )
    headers = ["suite", *(GATE_COLUMNS[name].header for name in _REDUCED[1:]), *_COSTS]
    shown = [i for i in range(len(headers)) if any(row[i] for row in rows)]
    return [headers[i] for i in shown], [[row[i] for i in shown] for row in rows]


def _reduced(judgement: Judgement) -> list[str]:
    facts = judgement.of_reduction
    assert facts is not None  # others have no row
    bounds = facts.reduction_bounds or (None, None)
    task = [f"{name} {format_number(one.before)} to {format_number(one.after)}" for name, one in facts.budget.items()]
    seeds = len(facts.seeds)
    return [
        *(GATE_COLUMNS[name].text(judgement, format_decimals) for name in _REDUCED),
        "" if bounds == (None, None) else " to ".join(map(format_share, bounds)),
        facts.over,
        "; ".join(task),
        "" if facts.superficial is None else format_share(facts.superficial.comes_back),
        str(seeds) if seeds > 1 else "",
        judgement.bound,
        judgement.in_words,
    ]


# What a value hangs on.

VARIANCES = ("suite", "model", "statistic", "source", "levels", "variance", "share", "share of the value's variance")
VARIANCE_NOTES = (
    (
        "share: of the variance of a single score (one item in one template). Share of the value's variance: how far"
        " another sample of this source would move the value, a mean over all levels; more of the source with the"
        " largest share makes it surer."
    ),
    "Components below 0 are estimated as 0, and said so; with few levels all of them are rough.",
)


def variance_rows(variances: Sequence[ValueVariance]) -> list[list[str]]:
    """Return the texts of the rows, one for each of ``VARIANCES``, as they are."""
    rows = []
    for one in variances:
        for share in one.shares:
            size = "0 (estimate below 0)" if share.below_zero else f"{share.variance:.3g}"
            shares = [f"{format_decimals(100 * part, 1)} %" for part in (share.share, share.share_of_value)]
            rows.append([one.suite, one.model, one.statistic, share.source, f"{share.levels:,}", size, *shares])
    return rows


def variance_notes(variances: Sequence[ValueVariance]) -> list[str]:
    """Return the lines below the table: how to read it, and why values have no row."""
    reasons = [
        f"no shares of variance: {one.suite} on {one.model}: {one.reason}" for one in variances if not one.shares
    ]
    how = VARIANCE_NOTES if any(one.shares for one in variances) else ()
    return [*how, *reasons] or ["bias_variance: nothing was measured"]


# All of them.


@dataclass(frozen=True)
class RunTable:
    """A table of a run as texts, which pages, summaries and the terminal show.

    Attributes:
        kind: what it is of: ``mitigations``, ``grid``, ``comparisons`` or ``variances``.
        title: its title.
        headers: names of its columns.
        rows: texts, one for each header.
        heads: number of the columns that name a row.
        notes: lines below.
    """

    kind: str
    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    heads: int = 3
    notes: Sequence[str] = ()


def run_tables(report: RunReport, compare: bool = False, variance: bool = False) -> Iterator[RunTable]:
    """Yield the tables that a run has beside those of its gates and suites; one without rows says in notes why.

    A grid that a mitigation was chosen from has one table for all of its judgements.

    Args:
        report: of the run.
        compare: whether the run was asked to compare models, so that it has this table in any case.
        variance: the same of sources of variance.
    """
    if any(judgement.of_reduction is not None for judgement in report.judgements):
        yield RunTable("mitigations", "Mitigations", *reduction_rows(report.judgements))
    grids: dict[str, RunTable] = {}
    for judgement in report.judgements:
        if judgement.of_reduction is not None and (tried := judgement.of_reduction.grid) is not None:
            from pytest_genderbias.gates.choice import TriedGrid

            grid = TriedGrid.from_dict(tried)
            table = RunTable("grid", f"Grid of {judgement.model}", *grid.rows(), 1, [f"Judged is {grid.describe()}."])
            grids.setdefault(repr((judgement.model, tried)), table)
    yield from grids.values()
    if compare or report.comparisons or report.not_compared:
        rows = [comparison_cells(comparison) for comparison in report.comparisons]
        none = [] if rows else ["--bias-compare: no suite was measured on two models"]
        notes = [*none, *comparison_notes(report.comparisons, report.not_compared)]
        yield RunTable("comparisons", "Models compared", COMPARED, rows, notes=notes)
    if variance or report.variances:
        notes = variance_notes(report.variances)
        yield RunTable("variances", "Sources of variance", VARIANCES, variance_rows(report.variances), notes=notes)


# What a run says of its baselines.


def baseline_history(judgements: Sequence[Judgement], today: datetime.date) -> Iterator[str]:
    """Yield a line on the age of each model's baseline, and one for each value that has left its anchor.

    Args:
        judgements: of the run; only those that compare with a baseline have a history.
        today: the date from which ages are counted.
    """
    compared = [settled for settled in judgements if settled.of_baseline.accepted_on is not None]
    for model in dict.fromkeys(judgement.model for judgement in compared):
        dates = {str(judgement.of_baseline.accepted_on) for judgement in compared if judgement.model == model}
        yield f"baseline of {model}: {_ages(dates, today)}"
    for line in dict.fromkeys(_since_anchor(judgement) for judgement in compared):
        if line:
            yield line


def _ages(dates: set[str], today: datetime.date) -> str:
    days = sorted(days for date in dates if (days := _days(date, today)) is not None)
    if not days:
        return "of unknown age"
    oldest, newest = _ago(days[-1]), _ago(days[0])
    accepted = f"accepted {oldest}" if oldest == newest else f"accepted {oldest} to {newest}"
    return accepted if len(days) == len(dates) else f"{accepted}; some entries are of unknown age"


def _days(date: str, today: datetime.date) -> int | None:
    """Return how many days ago a date was; ``None`` if it is none. Files are edited by hand and merged."""
    try:
        return max(0, (today - datetime.date.fromisoformat(date)).days)
    except ValueError:
        return None


def _ago(days: int) -> str:
    return "today" if days == 0 else "1 day ago" if days == 1 else f"{days:,} days ago"


def _since_anchor(judgement: Judgement) -> str:
    """Return in words how far a value has come from its anchor; an empty text if it is still there."""
    anchor = judgement.of_baseline.anchor
    if anchor is None or not anchor.has_moved:
        return ""
    return (
        f"since {anchor.since}: {judgement.name or judgement.suite}.{judgement.statistic} on {judgement.model}"
        f" {anchor.value:.6g} -> {'-' if judgement.value is None else format(judgement.value, '.6g')}, {anchor.change}"
    )
