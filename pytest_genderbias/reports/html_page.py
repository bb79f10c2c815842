"""``--bias-report``: gather what the template shows, and write the page.

Its sections are the main figures, models against each other, mitigations and variances; then each suite with what it
asks, its pictures, all its figures, and its worst records. Tables are plain data: texts that the template escapes, and
the keys by which columns are sorted.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pytest_genderbias.escaping import printable
from pytest_genderbias.folders import write_whole
from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.gates.verdicts import (
    FAILED,
    PASSED,
    REASONS,
    FinishedTest,
    NotJudged,
    Paragraph,
    describe_direction,
    format_chance,
    with_note,
)
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.reports.fields import (
    SPLITS,
    Figure,
    between,
    chance_of,
    change_and_bounds,
    describe_cases,
    largest,
    packaged_suite,
)
from pytest_genderbias.reports.figures.drawing import css
from pytest_genderbias.reports.figures.files import svg
from pytest_genderbias.reports.picture import Picture
from pytest_genderbias.reports.run_report import RunInfo, RunReport, tried
from pytest_genderbias.reports.run_summary import OTHER, broken_tests, run_verdict
from pytest_genderbias.reports.run_tables import baseline_history, run_tables
from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.suites.family import SuiteAbout
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.suites.suite import family_of
from pytest_genderbias.suites.summary import Record
from pytest_genderbias.text.printable import counted, format_bounds, format_number, format_share

Part: TypeAlias = Mapping[str, object]  #: what the template shows of a section, a table, a column or the text of a gate
PageRow: TypeAlias = "tuple[PageCell, ...]"  #: it is coloured and filtered by the badge among its cells


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


def make_column(title: str, numeric: bool = False, head: bool = False, wide: bool = False) -> Part:
    """Return a column.

    Args:
        title: its header.
        numeric: whether its keys are numbers.
        head: whether its cells name their rows.
        wide: whether a cell takes the width of a phone.
    """
    classes = " ".join(name for name, holds in (("number", numeric), ("wide", wide)) if holds)
    return {"title": title, "numeric": numeric, "head": head, "classes": classes}


def make_columns(titles: Sequence[str], numeric: Collection[str] = (), wide: Collection[str] = ()) -> tuple[Part, ...]:
    """Return columns, of which the first names the rows, and those of the titles in ``numeric`` hold numbers. A cell of
    the first one and of those in ``wide`` takes the width of a phone.
    """
    return tuple(
        make_column(title, title in numeric, i == 0, i == 0 or title in wide) for i, title in enumerate(titles)
    )


def make_table(
    table_id: str,
    title: str,
    columns: Sequence[Part],
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
        "history": describe_history(judgement),
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
    history = describe_history(judgement)
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
    return PageCell(describe_direction(about.direction), (f"neutral is {about.neutral:g}",))


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


def describe_history(judgement: Judgement) -> tuple[str, ...]:
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


_TITLES = {
    "gates-then-and-now": "Then and now",
    "overview": "Main figures",
    "drift": "How far values have come",
    "comparisons": "Models against each other",
    "mitigations": "What the mitigations did",
    "variances": "What the values hang on",
    "pictures": "Across suites and models",
}
#: The sections in which pictures of some kinds stand. Others stand in the section of their suite.
_KINDS = {
    "growth": "gates-then-and-now", "drift": "drift", "mitigation": "mitigations", "retrained": "mitigations",
    "resilience": "mitigations", "variance": "variances",
}  # fmt: skip
_LEADING_NUMBER = re.compile(r"\(?(-?[0-9][0-9,]*(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?)")


Fact: TypeAlias = "tuple[str, str]"  #: its name and what it is
Drawn: TypeAlias = "tuple[Picture, str]"  #: a picture, and its safe markup


def place_of(picture: Picture, suite_ids: Mapping[str, str]) -> str:
    """Return the id of the section in which a picture stands."""
    return _KINDS.get(picture.kind) or suite_ids.get(picture.suite, "pictures")


def _part(
    part_id: str,
    title: str,
    table: Part | None = None,
    lead: Iterable[str] = (),
    notes: Iterable[str] = (),
    figures: Sequence[Drawn] = (),
) -> Part:
    """Return a section with a table, paragraphs above and below it, and pictures."""
    return {"id": part_id, "title": title, "table": table, "lead": lead, "notes": notes, "figures": figures}


def make_parts(report: RunReport, suite_ids: Mapping[str, str], figures: Sequence[Drawn]) -> Iterator[Part]:
    """Yield the sections that the run has something for.

    Args:
        report: of the run.
        suite_ids: by the name of a suite: id of its section.
        figures: all pictures of the page.
    """
    parts = dict(_tables(report, suite_ids))
    for part_id, title in _TITLES.items():
        own = [drawn for drawn in figures if place_of(drawn[0], suite_ids) == part_id]
        if part_id in parts or own:
            table, lead, notes = parts.get(part_id, (None, (), ()))
            yield _part(part_id, title, table, lead, notes, own)


def _tables(
    report: RunReport, suite_ids: Mapping[str, str]
) -> Iterator[tuple[str, tuple[Part | None, Sequence[str], Sequence[str]]]]:
    """Yield the table of each section, the paragraphs above it, and those below it, which say why there is no table."""
    if report.measurements:
        lead = (
            "One line a suite and model: its main statistic. By chance: what randomly exchanged groups give on the"
            " same scores."
        )
        yield "overview", (make_overview(report.measurements, suite_ids), [lead], ())
    for one in run_tables(report):
        if one.kind in _TITLES:
            yield one.kind, (_table(one.kind, one.headers, one.rows) if one.rows else None, (), one.notes)


def make_not_judged(tests: Sequence[NotJudged]) -> Part | None:
    """Return the section on tests that could not judge, with their reasons; ``None`` if all did."""
    if not tests:
        return None
    rows = [(test.test, test.model, test.reason) for test in tests]
    title = "Not run, and why"
    lead = f"{counted(len(tests), 'tests')} of this run neither passed nor failed."
    return _part("not-judged", title, _table("not-judged", ("test", "model", "reason"), rows, title), [lead])


def _table(part_id: str, headers: Iterable[str], rows: Sequence[Sequence[str]], title: str = "") -> Part:
    """Return a table of texts; a column of numbers is sorted as such."""
    numeric = [all(_number(row[i]) is not None or row[i] in ("", "-") for row in rows) for i in range(len(rows[0]))]
    titles = [header if header.startswith("p ") else header[:1].upper() + header[1:] for header in headers]
    columns = make_columns(titles, [title for title, of_numbers in zip(titles, numeric, strict=True) if of_numbers])
    cells = [tuple(map(_text_cell, row, numeric)) for row in rows]
    return make_table(f"{part_id}-table", title or _TITLES[part_id], columns, cells)


def _text_cell(text: str, is_number: bool) -> PageCell:
    number = _number(text) if is_number else None
    return PageCell(text, key="" if is_number and number is None else number)


def _number(text: str) -> float | None:
    """Return the number with which a text begins.

    >>> _number("12.5 %"), _number("(0.04)"), _number("1,200"), _number("none")
    (12.5, 0.04, 1200.0, None)
    """
    match = _LEADING_NUMBER.match(text)
    return None if match is None else float(match[1].replace(",", ""))


_OVERVIEW = make_columns(
    ("Suite", "Model", "Value", "95 % interval", "Worse is", "By chance", "Scored", "Ability"),
    numeric=("Value", "95 % interval", "By chance", "Scored"),
)
_INTERVALS = ("95 % interval for other items", "On this suite's own cases")
_VALUES = make_columns(
    ("Statistic", "Model", "Value", *_INTERVALS, "Worse is", "By chance"), numeric=("Value", *_INTERVALS, "By chance")
)
_MOST_RECORDS = 100  #: of a table


def make_overview(measurements: Sequence[Measurement], suite_ids: Mapping[str, str]) -> Part:
    """Return the table with the main statistic of every measurement."""
    rows = []
    shown = sorted(_largest(measurements), key=lambda one: (one.suite, one.model))
    for one in shown:
        model, value, interval, _, *others = _cells(Figure(one, one.main), shown)
        suite = naming_cell(one.suite, one.main, one.statistics[one.main].meaning, suite_ids[one.suite])
        scored = PageCell(describe_cases(one), key=one.n)
        rows.append((suite, model, value, interval, *others, scored, PageCell(one.ability)))
    return make_table("overview-table", "Main figures of all suites", _OVERVIEW, rows)


def _largest(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Return of the measurements of a suite on a model that differ only in their sample the one with most cases."""
    return largest(measurements, lambda one: (one.suite, one.model, repr(sorted(one.signature["settings"].items()))))


def _section(
    suite_id: str, name: str, report: RunReport, figures: Sequence[Drawn], texts: Sequence[tuple[Judgement, Part]]
) -> Part:
    """Return the section of one suite, measured on one model or several. The texts of gates that failed are above, and
    not repeated.
    """
    measurements = [one for one in report.measurements if one.suite == name]
    shown = sorted(_largest(measurements), key=lambda one: one.model)
    statistics = dict.fromkeys(statistic for one in shown for statistic in one.values)
    rows = [row for statistic in statistics for row in _value_rows(shown, statistic)]
    return {
        "id": suite_id,
        "name": name,
        "about": words_of(measurements[0]),
        "table": make_table(f"{suite_id}-values", f"Figures of {name}", _VALUES, rows),
        "figures": figures,
        "verdicts": [text for settled, text in texts if settled.suite == name and outcome_of(settled) != FAILED],
        "records": [
            (f"Worst records on {_subject(one, shown)}", list(_records(f"{suite_id}-{number}", one)))
            for number, one in enumerate(shown)
            if one.records
        ],
        "notes": list(dict.fromkeys(f"{one.model}: {note}" for one in measurements for note in one.notes)),
    }


def _subject(measurement: Measurement, measurements: Sequence[Measurement]) -> str:
    """Return the model of a measurement, with the settings that tell it from others of the suite on the model."""
    subject = (measurement.suite, measurement.model)
    others = [one.signature["settings"] for one in measurements if (one.suite, one.model) == subject]
    settings = measurement.signature["settings"]
    own = [f"{key}={value}" for key, value in settings.items() if any(other.get(key) != value for other in others)]
    return ", ".join([measurement.model, *own])


def _value_rows(measurements: Sequence[Measurement], name: str) -> Iterator[PageRow]:
    """Yield a row for each model that has the statistic; the first says what the statistic is."""
    for number, one in enumerate([one for one in measurements if name in one.values]):
        title = PageCell(name, () if number else (one.statistics[name].meaning,))
        yield title, *_cells(Figure(one, name), measurements)


def _cells(figure: Figure, among: Sequence[Measurement]) -> tuple[PageCell, ...]:
    """Return the cells of a figure from its model on: the model, the value, both intervals, which way is worse, and
    what chance gives.
    """
    one, name = figure
    return (
        PageCell(_subject(one, among)),
        number_cell(figure.value),
        _interval(one, name, figure.interval),
        _interval(one, name, one.bounds[name], "not every case was scored"),
        worse_cell(figure.about),
        _chance(one, name),
    )


def _interval(measurement: Measurement, name: str, interval: Interval | None, why_not: str = "") -> PageCell:
    """Return the cell of an interval, sorted by its width; one that is not there says why, as it does for a value that
    is not there.
    """
    if interval is None:
        if why_not and measurement.values[name] is None:
            return PageCell("", key="")
        reason = why_not or measurement.reasons.get(name, "")
        return PageCell("-", (reason,) if reason else (), "")
    if interval.low == interval.high:
        return PageCell("exact", (f"over {interval.over}",), 0.0)
    return PageCell(between(interval), (f"over {interval.over}",), interval.high - interval.low)


def _chance(measurement: Measurement, name: str) -> PageCell:
    """Return what chance gives: shuffled groups, sorted by their p value, or a control or test of the suite itself."""
    null, chance = measurement.null.get(name), chance_of(measurement, name)
    if chance is None:
        return PageCell("", key="")
    beyond = "beyond chance" if chance.beyond else "within chance"
    if null is None:
        of = "random splits of the words" if chance.kind == SPLITS else "the suite's own control"
        return PageCell(chance.describe(format_number), (f"{beyond}: {of}",), chance.figures[0])
    range_of = format_bounds(null.low, null.high)
    return PageCell(range_of, (f"{beyond}: {format_chance(null)} of shuffles are as bad",), null.p_value)


def _records(table_id: str, measurement: Measurement) -> Iterator[Part]:
    """Yield a table of the worst records of each slice, or one of all."""
    slices: dict[str, list[Record]] = {}
    for record in measurement.records[:_MOST_RECORDS]:
        slices.setdefault(str(record.get("slice", "")), []).append(record)
    for number, (name, records) in enumerate(slices.items()):
        keys = list(dict.fromkeys(key for record in records for key in record if key != "slice"))
        columns = tuple(
            make_column(key.replace("_", " "), numeric=all(_is_number(record.get(key)) for record in records))
            for key in keys
        )
        rows = [tuple(_record_cell(record.get(key)) for key in keys) for record in records]
        title = name.replace("_", " ") or "worst records"
        caption = name.replace("_", " ") if len(slices) > 1 else ""
        yield make_table(
            f"{table_id}-records-{number}", f"{title} on {measurement.model}", columns, rows, caption, cards=False
        )


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _record_cell(value: object) -> PageCell:
    if isinstance(value, Mapping):
        return PageCell(", ".join(f"{key} {item}" for key, item in value.items()))
    if isinstance(value, float):
        return number_cell(value)
    if isinstance(value, (list, tuple)):
        return PageCell(", ".join(map(str, value)))
    return PageCell("-" if value is None else str(value), key="" if value is None else None)


def draw_figures(pictures: Iterable[Picture]) -> list[Drawn]:
    """Return the pictures as safe markup, by suite and model, those of several models last."""
    in_order = sorted(pictures, key=lambda one: (one.suite, not one.model, one.model))
    return [(one, safe(svg(one, prefix=f"picture-{number}"))) for number, one in enumerate(in_order, 1)]


def words_of(measurement: Measurement) -> SuiteAbout | None:
    """Return the words of a packaged suite, or those of the family of a user's own; ``None`` for a family of someone
    else.
    """
    if (suite := packaged_suite(measurement)) is not None:
        return suite.about
    family = family_of(str(measurement.signature["definition"]))
    return None if family is None else family.about


_LONGEST = 5000  #: characters of a text that is shown whole
_CAUTION = (
    "A passed gate says that one figure kept its limit on these sentences. It does not say that the model is fair, or"
    " free of bias elsewhere. Most suites compare women and men only, are in English, take statistics of the United"
    " States, and provoke stereotypes with templates that nobody wrote in earnest. What a suite does not find may still"
    " harm people."
)


def write_report(report: RunReport, path: Path) -> None:
    """Write the report of a run as one HTML page.

    Args:
        report: of the run.
        path: of the file; an existing one is replaced.

    Raises:
        WriteError: the file cannot be written.
    """
    write_whole(path, render_report(report).encode())


def render_report(report: RunReport) -> str:
    """Return the report of a run as one HTML page, which needs no other file and no network."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, finalize=_shown, trim_blocks=False, keep_trailing_newline=True
    )
    environment.filters["breakable"] = _breakable
    environment.globals["plural"] = lambda items: "" if len(items) == 1 else "s"
    script = _packaged("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    style = safe(_packaged("report.css") + css())
    return environment.from_string(_packaged("report.html.jinja")).render(
        page=make_page(report), style=style, script=safe(script), script_digest=safe(digest)
    )


def _packaged(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _shown(value: object) -> object:
    """Return what the template shows of a value: texts of others are cut, and control characters made visible."""
    from markupsafe import Markup

    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    if len(value) > _LONGEST:
        value = f"{value[:_LONGEST]}... ({len(value):,} characters)"
    return printable(value, keep="\n")


def _breakable(text: str) -> str:
    """Return a name as markup that may be broken behind its underscores."""
    from markupsafe import escape

    return safe(str(escape(_shown(text))).replace("_", "_<wbr>"))


def make_page(report: RunReport) -> Part:
    """Return what the template shows of a run."""
    names = sorted({one.suite for one in report.measurements})
    suite_ids = {name: f"suite-{number}" for number, name in enumerate(names, 1)}
    texts = [(settled, make_text(number, settled)) for number, settled in in_order(report.judgements)]
    gates, run = make_gate_table(report, suite_ids), report.run
    verdict, outcome = run_verdict(report)
    trouble = [make_broken_text(number, test) for number, test in enumerate(broken_tests(report), 1)]
    trouble += [text for settled, text in texts if outcome_of(settled) == FAILED]
    figures = draw_figures(report.pictures)
    tables, not_judged = list(make_parts(report, suite_ids, figures)), make_not_judged(report.not_judged)
    codes = {settled.code for settled in report.judgements}
    contents = [("gates", "Verdicts")] if gates else []
    contents += [("failures", "What failed")] if trouble else []
    contents += [(str(part["id"]), str(part["title"])) for part in (*tables, not_judged) if part is not None]
    return {
        "headline": verdict[:1].upper() + verdict[1:],
        "outcome": outcome,
        "facts": list(_facts(report)),
        "failures": report.failures,
        "contents": [*contents, ("run", "The run")],
        "gates": gates,
        "trouble": trouble,
        # of gates on suites that have no section
        "verdicts": [text for one, text in texts if one.suite not in suite_ids and outcome_of(one) != FAILED],
        "tables": tables,
        "not_judged": not_judged,
        "suites": [
            _section(suite_id, name, report, [one for one in figures if place_of(one[0], suite_ids) == suite_id], texts)
            for name, suite_id in suite_ids.items()
        ],
        "models": [(model.name, model.spec) for model in run.models],
        "conditions": list(_conditions(run)),
        "glossary": [(with_note(code), reason.meaning) for code, reason in REASONS.items() if code in codes],
        "command": shlex.join(("pytest", *run.arguments)),
        "caution": _CAUTION,
        "version": run.version,
    }


def _facts(report: RunReport) -> Iterator[Fact]:
    """Yield what the first screen says beside the verdicts."""
    run = report.run
    if len(report.measurements) and report.judgements:
        yield "measured", f"{len(report.measurements):,}"
    for growth in report.growths:
        yield "release", f"{growth.model}: {growth.in_words}"
    yield from (("tried", line) for line in tried(report.history))
    for model in run.models:
        yield "model", model.name if model.spec == model.name else f"{model.name} = {model.spec}"
    today = run.moment
    if today is not None:
        yield "on", f"{today:%Y-%m-%d %H:%M} {today:%Z}".rstrip()
        for line in baseline_history(report.judgements, today.date()):
            if line.startswith("baseline of "):
                what, _, age = line.partition(": ")
                yield what, age.partition(",")[0]
    if run.commit:
        yield "commit", run.commit[:12] + (" with changes" if run.modified else "")


def _conditions(run: RunInfo) -> Iterator[Fact]:
    yield "ended", f"{run.date}, after {run.seconds:,.1f} s, with exit status {run.exit_status}"
    if run.commit:
        yield "commit", run.commit + (", with changes that were not committed" if run.modified else "")
    if run.baselines:
        yield "baselines", run.baselines
    settings = [f"{name} {value}" for name, value in run.settings.items() if value is not None]
    yield "settings", ", ".join(settings)
    yield "versions", ", ".join(f"{name} {number}" for name, number in run.versions.items())
