"""Tables of the page, as plain data: texts that the template escapes, and the keys by which columns are sorted. The
verdicts of the gates: the table on the first screen, and the text of each.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.gates.verdicts import FAILED, PASSED, FinishedTest, Paragraph, direction_in_words
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.reports.fields import between, change_and_bounds
from pytest_genderbias.reports.run_report import RunReport
from pytest_genderbias.reports.run_summary import OTHER, broken_tests
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.text.printable import format_number, format_share

Part: TypeAlias = Mapping[str, object]  #: what the template shows of a section, a table or the text of a gate
PageRow: TypeAlias = "tuple[PageCell, ...]"  #: it is coloured and filtered by the badge among its cells


@dataclass(frozen=True)
class PageColumn:
    """A column.

    Attributes:
        title: its header.
        numeric: whether its keys are numbers.
        head: whether its cells name their rows.
        wide: whether a cell takes the width of a phone.
    """

    title: str
    numeric: bool = False
    head: bool = False
    wide: bool = False

    @property
    def classes(self) -> str:
        """CSS classes of its cells."""
        return " ".join(name for name, holds in (("number", self.numeric), ("wide", self.wide)) if holds)


@dataclass(frozen=True)
class PageCell:
    """A cell.

    Attributes:
        text: what it says first.
        notes: smaller lines below.
        key: what it is sorted by; the text by default. An empty key stays at the end.
        badge: CSS class of an outcome, if the text is one.
        link: id that the text leads to.
    """

    text: str
    notes: tuple[str, ...] = ()
    key: str | float | None = None
    badge: str = ""
    link: str = ""

    @property
    def is_filled(self) -> bool:
        """Whether it shows anything."""
        return bool(self.text or self.notes)


def make_columns(
    titles: Sequence[str], numeric: Collection[str] = (), wide: Collection[str] = ()
) -> tuple[PageColumn, ...]:
    """Return columns, of which the first names the rows, and those of the titles in ``numeric`` hold numbers."""
    return tuple(PageColumn(title, title in numeric, i == 0, i == 0 or title in wide) for i, title in enumerate(titles))


def make_table(
    table_id: str,
    title: str,
    columns: Sequence[PageColumn],
    rows: Sequence[PageRow],
    caption: str = "",
    filters: Mapping[str, str] | None = None,
    cards: bool = True,
) -> Part:
    """Return a table without the columns that are empty in every row.

    Args:
        table_id: its id on the page.
        title: what it holds, for readers who do not see it.
        columns: of all rows.
        rows: each with as many cells.
        caption: how to read it, above the table.
        filters: labels of the buttons that show only the rows of an outcome, by outcome.
        cards: whether rows become cards on a phone, instead of a table that scrolls sideways.
    """
    shown = [i for i in range(len(columns)) if any(row[i].is_filled for row in rows)]
    kept = {"columns": [columns[i] for i in shown], "rows": [[row[i] for i in shown] for row in rows]}
    return {"id": table_id, "title": title, **kept, "caption": caption, "filters": filters or {}, "cards": cards}


def safe(markup: str) -> str:
    """Return markup of this package, in which texts of others are escaped, so that jinja2 leaves it as it is."""
    from markupsafe import Markup

    return Markup(markup)  # noqa: S704 - see above


def naming_cell(subject: str, statistic: str, meaning: str = "", link: str = "") -> PageCell:
    """Return the cell that names what a row is of: a suite or gate, and below it the statistic with its meaning, if it
    is known.

    >>> naming_cell("weat", "effect_size", link="suite-1")
    PageCell(text='weat', notes=('effect_size',), key=None, badge='', link='suite-1')
    """
    return PageCell(subject, tuple(filter(None, (statistic, meaning))), link=link)


def number_cell(value: float | None, reason: str = "", notes: tuple[str, ...] = ()) -> PageCell:
    """Return the cell of a figure, sorted by its size; without a value it says why.

    >>> number_cell(0.123456).text, number_cell(None, "too few pairs").notes
    ('0.1235', ('too few pairs',))
    """
    if value is None:
        return PageCell("no value", (reason, *notes) if reason else notes, "")
    return PageCell(format_number(value), notes, value if math.isfinite(value) else "")


# The verdicts of the gates.

_ORDER = {FAILED: 0, OTHER: 1, PASSED: 2}
_SIGNS = {FAILED: "✕", OTHER: "–", PASSED: "✓"}
_BROKEN = f"{_SIGNS[FAILED]} no verdict"
_SHORT = 300  #: characters of a reason in the table
_LABELS = {FAILED: "failed", OTHER: "expected", PASSED: "passed"}
_COLUMNS = make_columns(
    ("Gate", "Verdict", "Model", "Value", "Limit or baseline", "Change", "Worse is", "History"),
    numeric=("Value", "Change"),
    wide=("History",),
)


def outcome_of(settled: Judgement) -> str:
    """Return the CSS class of a judgement: ``failed``, ``passed`` or ``other``."""
    if settled.outcome not in _ORDER:
        return OTHER
    return settled.outcome


def in_order(judgements: Sequence[Judgement]) -> list[tuple[int, Judgement]]:
    """Return the judgements with their numbers, those that failed first; then by suite, so that parallel runs give the
    same page.
    """
    return sorted(enumerate(judgements, 1), key=_place)


def _place(numbered: tuple[int, Judgement]) -> tuple[int, str, str, str, str]:
    judgement = numbered[1]
    return _ORDER[outcome_of(judgement)], judgement.suite, judgement.name, judgement.model, judgement.test


def make_gate_table(report: RunReport, suite_ids: Mapping[str, str]) -> Part | None:
    """Return the table of all gates, those that failed first; ``None`` without gates.

    Args:
        report: of the run.
        suite_ids: by the name of the suite: id of its section.
    """
    broken = broken_tests(report)
    if not report.judgements and not broken:
        return None
    measured = {(one.suite, one.model): one for one in report.measurements}
    rows = [_broken_row(number, test) for number, test in enumerate(broken, 1)]
    for number, judgement in in_order(report.judgements):
        measurement = measured.get((judgement.suite, judgement.model))
        rows.append(_row(number, judgement, measurement, suite_ids.get(judgement.suite, "")))
    counts = Counter(cell.badge for row in rows for cell in row)
    filters = {
        outcome: f"{_SIGNS[outcome]} {_LABELS[outcome]} {counts[outcome]:,}" for outcome in _ORDER if counts[outcome]
    }
    return make_table("gates-table", "Verdicts of the gates", _COLUMNS, rows, filters=filters)


def make_text(number: int, judgement: Judgement) -> Part:
    """Return the text of a judgement, counted from 1: what was decided, in figures; further lines, each with a label,
    and last what people said of the gate; what else is known of it; and since when this baseline has judged it.
    """
    said = (Paragraph(name, text) for name, text in judgement.evidence.items())
    return {
        "id": f"gate-{number}",
        "outcome": outcome_of(judgement),
        "verdict": _verdict(judgement),
        "title": f"{judgement.gate_name}.{judgement.statistic} on {judgement.model}",
        "lead": judgement.headline,
        "paragraphs": (*judgement.shown[1:], *said),
        "details": judgement.details,
        "history": history_in_words(judgement),
    }


def make_broken_text(number: int, test: FinishedTest) -> Part:
    """Return the text of a test that failed without a verdict, counted from 1."""
    title = f"{test.test} on {test.model}" if test.model else test.test
    what = {"id": f"broken-{number}", "outcome": FAILED, "verdict": _BROKEN, "title": title, "lead": test.text}
    return {**what, "paragraphs": (), "details": (), "history": ()}


def _broken_row(number: int, test: FinishedTest) -> PageRow:
    cells = [PageCell("") for _ in _COLUMNS]
    cells[:3] = (
        PageCell(test.test, (test.text[:_SHORT],)),
        PageCell(_BROKEN, key=_ORDER[FAILED], badge=FAILED, link=f"broken-{number}"),
        PageCell(test.model),
    )
    return tuple(cells)


def _verdict(settled: Judgement) -> str:
    return f"{_SIGNS[outcome_of(settled)]} {settled.in_words}"


def _row(number: int, judgement: Judgement, measurement: Measurement | None, suite_id: str) -> PageRow:
    outcome = outcome_of(judgement)
    about = None if measurement is None else measurement.statistics.get(judgement.statistic)
    meaning = "" if about is None else about.meaning
    reason = "" if measurement is None else measurement.reasons.get(judgement.statistic, "")
    history = history_in_words(judgement)
    return (
        naming_cell(judgement.gate_name, judgement.statistic, meaning, suite_id),
        PageCell(_verdict(judgement), key=_ORDER[outcome], badge=outcome, link=f"gate-{number}"),
        PageCell(judgement.model),
        number_cell(judgement.value, reason, _bounds_of_value(judgement)),
        PageCell(judgement.bound),
        _change(judgement),
        PageCell("") if about is None else worse_cell(about),
        PageCell(history[0] if history else "", history[1:]),
    )


def worse_cell(about: Statistic) -> PageCell:
    """Return the cell that says which direction is worse, and from where."""
    return PageCell(direction_in_words(about.direction), (f"neutral is {about.neutral:g}",))


def _bounds_of_value(judgement: Judgement) -> tuple[str, ...]:
    """Return the bounds of the value in words, where it is the value that was judged."""
    interval = judgement.interval
    if interval is None or judgement.difference is not None or judgement.of_reduction is not None:
        return ()
    return (between(interval),)


def _change(judgement: Judgement) -> PageCell:
    """Return how much worse or better a statistic is, with bounds; of a mitigation, from what to what it moved the
    value.
    """
    if (reduced := judgement.of_reduction) is not None:
        share = () if reduced.reduction is None else (f"{format_share(reduced.reduction)} of the bias gone",)
        moved = f"{format_number(reduced.before)} → {format_number(reduced.after)}"
        return PageCell(moved, share, "" if reduced.reduction is None else reduced.reduction)
    change, bounds = change_and_bounds(judgement)
    return PageCell(change, (bounds.strip("()"),) if bounds else (), judgement.difference if change else "")


def history_in_words(judgement: Judgement) -> tuple[str, ...]:
    """Return when the baseline of a judgement was accepted, how far the value has come from its anchor, and what was
    accepted since.
    """
    facts, lines = judgement.of_baseline, []
    if facts.accepted_on is not None:
        lines.append(f"baseline of {facts.accepted_on or 'unknown age'}")
    if (anchor := facts.anchor) is not None and anchor.has_moved:
        lines.append(
            f"since {anchor.since}: {format_number(anchor.value)} → {format_number(judgement.value)}, {anchor.change}"
        )
    lines += [
        f"accepted on {one.date}: {one.reason}" for one in judgement.accepted if one.statistic == judgement.statistic
    ]
    return tuple(lines)
