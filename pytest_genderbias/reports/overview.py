"""The overview of a run for a terminal: one line a gate and one line a suite, grouped by model.

A line of a suite has its main statistic: value, interval, neutral value, which way is worse, and what chance gives. A
dash is explained below the table, and so is every mark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.gates.verdicts import FAILED, FLOAT_NOISE, format_record
from pytest_genderbias.measurement.ability import TASK
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.reports.fields import (
    CONTROL,
    SHUFFLES,
    SPLITS,
    between,
    cases_in_words,
    chance_of,
    change_and_bounds,
    change_in_full,
    largest,
)
from pytest_genderbias.suites.family import CANNOT
from pytest_genderbias.text.columns import aligned, in_brief, note, one_line, padded, total, widths, wrapped
from pytest_genderbias.text.printable import format_figure, format_growth

#: A line and its colour: empty for the usual one.
Line = tuple[str, str]

_RIGHT = frozenset({"value", "then", "now"})
#: Columns of the table of suites, from the widest layout to the narrowest.
_MEASURED = (
    ("suite", "statistic", "value", "95 %", "neutral", "worse", "chance"),
    ("suite", "statistic", "value", "95 %", "is worse", "chance"),
    ("suite", "statistic", "value", "95 %", "is worse"),
    ("suite", "statistic", "value", "is worse"),
    ("suite", "statistic", "value"),
)
#: Columns of the table of gates on a baseline. ``moved`` is ``change`` without bounds.
_AGAINST_BASELINE = (
    ("suite", "statistic", "then", "now", "change", "margin", "sees", "verdict", "cases"),
    ("suite", "statistic", "then", "now", "change", "margin", "sees", "verdict"),
    ("gate", "statistic", "then", "now", "change", "margin", "sees", "verdict"),
    ("gate", "statistic", "then", "now", "moved", "margin", "sees", "verdict"),
    ("gate", "statistic", "then", "now", "moved", "sees", "verdict"),
    ("gate", "statistic", "now", "verdict"),
)
#: Columns of the table of other gates. ``gate`` is its own name, if it has one; the change has no bounds in ``bounds,
#: change``, and ``limit`` is ``allowed`` in fewer columns.
_JUDGED = (
    ("suite", "statistic", "value", "bounds or change", "allowed", "verdict", "cases"),
    ("suite", "statistic", "value", "bounds or change", "allowed", "verdict"),
    ("gate", "statistic", "value", "bounds or change", "limit", "verdict"),
    ("gate", "statistic", "value", "bounds, change", "limit", "verdict"),
    ("gate", "statistic", "value", "limit", "verdict"),
    ("gate", "statistic", "value", "verdict"),
)
#: Titles of columns that are not their names.
_TITLES = {"moved": "change", "limit": "allowed", **dict.fromkeys(("suite", "gate", "statistic"), "")}
_LEAST_MEANING = 35  #: columns that the meaning of a statistic needs, at least
_MOST_PASSED = 60  #: lines of gates that passed; more are counted
_SIDES = {"higher": "above {}", "lower": "below {}", "away": "away from {}"}
_COLOURS = {FAILED: "red"}
_LONGEST_ABILITY = 120  #: characters beside a model's name
_MOST_SOURCES = 3  #: of what is known of other trainings
_SAME_REASON = "no value, for the same reason"


@dataclass
class _Notes:
    """Notes below the table, gathered while its rows are made."""

    without_interval: dict[str, list[str]] = field(default_factory=dict)  # names by reason
    no_measure: dict[str, list[str]] = field(default_factory=dict)
    sampled: dict[str, str] = field(default_factory=dict)  # cases by suite
    chances: set[str] = field(default_factory=set)
    marked: bool = False
    trainings: dict[str, None] = field(default_factory=dict)  # where what other trainings give is known from


@dataclass(frozen=True)
class _Row:
    """A line of a table.

    It has a model, cells by column, a text in place of the cells behind the statistic, what the statistic means, a
    colour, and the layouts of its table.
    """

    model: str
    cells: Mapping[str, str]
    instead: str = ""
    meaning: str = ""
    colour: str = ""
    layouts: Sequence[Sequence[str]] = _MEASURED


def overview(
    measurements: Sequence[Measurement], judgements: Sequence[Judgement], width: int, detail: int = 0
) -> Iterator[Line]:
    """Yield the lines of the overview.

    Args:
        measurements: of the run; of several of one suite and model, the one with most cases is shown.
        judgements: of the run. Those of mitigations and plans have tables of their own.
        width: columns of the terminal.
        detail: 0 for main statistics and gates; 1 for all statistics and the notes of the measurements; 2 for their
            worst records, too.
    """
    gates = [one for one in judgements if one.of_reduction is None]
    seen = {(one.suite, one.model, one.statistic) for one in gates}
    shown = _largest(measurements)
    titles = {
        model: _title([one for one in measurements if one.model == model]) for model in {one.model for one in shown}
    }
    notes = _Notes()
    if gates:
        yield from _gates(gates, notes, titles, width, everything=detail > 0)
    suites = [row for measurement in shown for row in _suite_rows(measurement, seen, notes, detail > 0)]
    if gates and suites:
        yield "", ""
    yield from _table(suites, _MEASURED, titles, width)
    columns = _fitting([row.cells for row in suites], _MEASURED, width - 2)
    for line in _below(notes, width, "chance" in columns):
        yield line, ""
    hidden = sum(len(measurement.values) for measurement in shown) - len(suites) - len(seen)
    if not detail and (more := _counts(figure=hidden, note=len(_remarks(shown)))):
        yield note("more", f"{more}: -v, or --bias-json=FILE", width), ""
    if detail:
        yield from _details(shown, width, records=detail > 1)


def _largest(measurements: Iterable[Measurement]) -> list[Measurement]:
    """Return one measurement of each suite and model, that with most cases, model by model in the order of the run."""
    shown = largest(measurements, lambda one: (one.model, one.suite))
    order = {model: i for i, model in enumerate(dict.fromkeys(one.model for one in shown))}
    return sorted(shown, key=lambda one: (order[one.model], one.statistics[one.main].no_gate != "", one.suite))


def _title(measurements: Sequence[Measurement]) -> str:
    """Return a model's name, with its architecture where it is known, whether it can do its task, and where that was
    not asked.
    """
    unasked = dict.fromkeys(one.ability for one in measurements if one.ability_unasked)
    about = [str(measurements[0].signature["model"].get("architecture") or ""), _ability(measurements), *unasked]
    known = ", ".join(one_line(text, _LONGEST_ABILITY) for text in about if text)
    name = one_line(measurements[0].model)
    return f"{name} ({known})" if known else name


def _ability(measurements: Sequence[Measurement]) -> str:
    """Return whether a model can do its task, by the control items that most suites ask; what only one asks is said in
    its row.
    """
    of_role = [ability for one in measurements for ability in one.abilities if ability.name != TASK]
    if not of_role:
        return ""
    usual = Counter(ability.name for ability in of_role).most_common(1)[0][0]
    decisive = next(ability for ability in of_role if ability.name == usual)
    return f"{CANNOT if decisive.unable else 'able'}: {decisive.describe()}"


# Rows.


def _suite_rows(
    measurement: Measurement, seen: set[tuple[str, str, str]], notes: _Notes, everything: bool
) -> Iterator[_Row]:
    """Yield the row of the main statistic, and with ``everything`` those of the others; a judged one has its row among
    the gates.
    """
    suite, above = one_line(measurement.suite), ""
    for statistic in measurement.values if everything else [measurement.main]:
        if (measurement.suite, measurement.model, statistic) not in seen:
            row = _suite_row(measurement, statistic, suite, notes, everything)
            yield replace(row, instead=_SAME_REASON) if row.instead and row.instead == above else row
            suite, above = "", row.instead


def _suite_row(measurement: Measurement, statistic: str, suite: str, notes: _Notes, everything: bool) -> _Row:
    value, interval = measurement.values[statistic], measurement.intervals[statistic]
    about = measurement.statistics[statistic]
    reason = measurement.reasons.get(statistic, "no reason given")
    subject = f"{measurement.suite}.{statistic}" if everything else measurement.suite
    cells = {"suite": suite, "statistic": one_line(statistic, 40)}
    if value is None:
        return _Row(measurement.model, cells, f"no value: {one_line(reason, 300)}")
    if measurement.sampled(statistic):
        notes.sampled[measurement.suite] = f"{cases_in_words(measurement)} cases"
    cells |= {"value": f"{format_figure(value)}  ", "95 %": between(interval, format_figure)}
    if interval is None:
        notes.without_interval.setdefault(reason, []).append(subject)
    if about.no_gate:
        notes.no_measure.setdefault(about.no_gate, []).append(subject)
    else:
        side = _SIDES[about.direction].format(f"{about.neutral:g}")
        cells |= {"neutral": f"{about.neutral:g}", "worse": about.direction, "is worse": side}
    if (chance := chance_of(measurement, statistic)) is not None:
        notes.chances.add(chance.kind)
        notes.marked = notes.marked or chance.beyond
        cells |= {
            "chance": chance.in_words(format_figure),
            "value": f"{format_figure(value)} {'!' if chance.beyond else ' '}",
        }
    return _Row(measurement.model, cells, meaning=about.meaning)


def _gates(
    gates: Sequence[Judgement], notes: _Notes, titles: Mapping[str, str], width: int, everything: bool
) -> Iterator[Line]:
    """Yield the tables of the gates, with a row for each: those that failed first, and of many that passed the first
    ones.
    """
    rows, passed = [], 0
    for settled in sorted(gates, key=lambda one: (one.model, one.outcome != FAILED, one.suite)):
        passed += settled.outcome != FAILED
        if everything or settled.outcome == FAILED or passed <= _MOST_PASSED:
            rows.append(_gate_row(settled, notes))
    against, others = ([row for row in rows if row.layouts is layouts] for layouts in (_AGAINST_BASELINE, _JUDGED))
    yield from _table(against, _AGAINST_BASELINE, titles, width)
    if notes.trainings:
        known = "; ".join(text.replace(": ", ", ") for text in list(notes.trainings)[:_MOST_SOURCES])
        unit = "% of the stored distance from neutral, or of a public model's where that is larger"
        text = f"the growth that fails in 80 % of releases ({unit}); other trainings: {known}"
        yield note("sees", text, width), ""
    if against and others:
        yield "", ""
    yield from _table(others, _JUDGED, titles, width)
    if (left_out := len(gates) - len(rows)) > 0:
        yield note("", f"and {left_out:,} more that passed: -v", width), ""


def _gate_row(judgement: Judgement, notes: _Notes) -> _Row:
    value = "no value" if judgement.value is None else format_figure(judgement.value)
    cells = {
        "suite": one_line(judgement.gate_name),
        "gate": one_line(judgement.name or judgement.suite),
        "statistic": one_line(judgement.statistic, 40),
        "cases": cases_in_words(judgement),
        "verdict": judgement.in_words,
    }
    colour = _COLOURS.get(judgement.outcome, "")
    if then := _value_then(judgement):
        cells |= {"then": then, "now": value, **_against_baseline(judgement, notes)}
        return _Row(judgement.model, cells, colour=colour, layouts=_AGAINST_BASELINE)
    allowed = {"allowed": one_line(judgement.bound), "limit": one_line(_in_signs(judgement.bound))}
    change, moved = _change(judgement)
    cells |= {"value": value, "bounds or change": change, "bounds, change": moved, **allowed}
    return _Row(judgement.model, cells, colour=colour, layouts=_JUDGED)


def _value_then(judgement: Judgement) -> str:
    """Return the value of the baseline, or of its anchor where that decided; an empty text without a baseline."""
    then, anchor = judgement.of_baseline.baseline, judgement.of_baseline.anchor
    if judgement.bound.startswith("anchor ") and anchor is not None and anchor.value is not None:
        return f"{format_figure(anchor.value)} (anchor)"
    return "" if then is None else format_figure(then)


def _against_baseline(judgement: Judgement, notes: _Notes) -> dict[str, str]:
    """Return the change since the baseline, the margin, and what the gate sees: in percent where the unit is known."""
    margin, sees = judgement.of_baseline.margin, judgement.of_baseline.sees
    cells = {"margin": "" if margin is None else format_figure(margin)}
    if sees is None or not sees.unit > 0:
        change, moved = _change(judgement)
        return {**cells, "change": change, "moved": moved}
    notes.trainings[one_line(sees.retraining)] = None
    change, moved = _growth(judgement, sees.unit)
    return {**cells, "sees": sees.in_words, "change": change, "moved": moved}


def _growth(judgement: Judgement, unit: float) -> tuple[str, str]:
    """Return how much the bias grew, with and without bounds."""
    worse, interval = judgement.difference, judgement.interval
    if worse is None:
        return "", ""
    grew = "no change" if abs(worse) <= FLOAT_NOISE else f"{format_growth(worse / unit)} %"
    if abs(worse) <= FLOAT_NOISE or interval is None or interval.high - interval.low <= FLOAT_NOISE:
        return grew, grew
    return f"{grew} ({format_growth(interval.low / unit)} to {format_growth(interval.high / unit)})", grew


def _in_signs(bound: str) -> str:
    """Return a limit in fewer columns.

    >>> _in_signs("at least 0.8 for other items"), _in_signs("baseline 0.8546 - 0.01")
    ('>= 0.8, other items', 'baseline 0.8546 - 0.01')
    """
    for words, sign in (("at least ", ">= "), ("at most ", "<= ")):
        bound = f"{sign}{bound.removeprefix(words)}" if bound.startswith(words) else bound
    return bound.replace(" for other items", ", other items")


def _change(judgement: Judgement) -> tuple[str, str]:
    """Return how much worse or better a statistic is, with and without bounds; or between which bounds it lies."""
    if judgement.difference is None:
        bounds = "" if judgement.interval is None else between(judgement.interval, format_figure)
        return bounds, bounds
    moved, _ = change_and_bounds(judgement, format_figure)
    return change_in_full(judgement, format_figure), moved


# Layout.


def _table(
    rows: Sequence[_Row], layouts: Sequence[Sequence[str]], titles: Mapping[str, str], width: int
) -> Iterator[Line]:
    """Yield a header, and the rows below a line for each model, in the widest layout that fits."""
    if not rows:
        return
    columns = _fitting([row.cells for row in rows], layouts, width - 2)
    model = ""
    heads = {name: _TITLES.get(name, name) for name in columns}
    if layouts is _MEASURED:
        heads["value"] = "value  "  # above the digits, and not above the marks
    header = f"  {aligned(heads, columns, _RIGHT)}"
    if header.strip():  # there are figures, and not only reasons why there are none
        yield header, "bold"
    for row in rows:
        if row.model != model:
            model = row.model
            yield titles.get(model) or one_line(model), "bold"
        yield _line(row, columns, width), row.colour


def _fitting(rows: Sequence[Mapping[str, str]], layouts: Sequence[Sequence[str]], width: int) -> dict[str, int]:
    """Return the widths of the columns of the first layout that fits; columns without a cell are left out.

    Names of suites and statistics are cut where even the last layout does not fit.
    """
    for layout in layouts:
        columns = {name: most for name, most in widths(rows, layout).items() if most}
        columns = {name: max(most, len(_TITLES.get(name, name))) for name, most in columns.items()}
        if total(columns) <= width:
            return columns
    over = total(columns) - width
    for name in ("statistic", "gate", "suite"):
        cut = min(over, max(0, columns.get(name, 0) - 12))
        if cut:
            columns[name] -= cut
            over -= cut
    return columns


def _line(row: _Row, columns: Mapping[str, int], width: int) -> str:
    """Return a line of a table. What a statistic means stands behind it, where the terminal is wide enough."""
    cells = {name: one_line(row.cells.get(name, ""), max(columns[name], 4)) for name in columns}
    if row.instead:
        front = {name: columns[name] for name in ("suite", "statistic") if name in columns}
        return wrapped(f"  {aligned(cells, front)}  {row.instead}", width, " " * min(total(front) + 4, width // 2))
    line = f"  {aligned(cells, columns, _RIGHT)}"
    room = width - total(columns) - 4
    if row.meaning and room >= _LEAST_MEANING:
        line = f"{padded(line, total(columns) + 2)}  {one_line(row.meaning, room)}"
    return line


# Below the tables.


def _below(notes: _Notes, width: int, chances: bool) -> Iterator[str]:
    """Yield what the marks, the dashes and, where the table has them, the chances mean."""
    if notes.marked:
        yield note("!", "beyond chance: at most 5 % of random groups or splits lie as far out", width)
    meant = {
        SHUFFLES: "the worse end of the middle 95 % of random shuffles",
        CONTROL: "the value of the suite's own control, with persons or labels shuffled",
        SPLITS: (
            "p, the share of random splits of the words with an effect at least as large (near 1: an effect the other"
            " way)"
        ),
    }
    if notes.chances and chances:
        yield note("chance", "; ".join(text for kind, text in meant.items() if kind in notes.chances), width)
    for reason, subjects in notes.without_interval.items():
        yield note("-", f"no interval: {in_brief(subjects)}: {one_line(reason, 300)}", width)
    for reason, subjects in notes.no_measure.items():
        yield note("", f"no direction: {in_brief(subjects)}: {one_line(reason, 300)}", width)
    if notes.sampled:
        texts = [f"{one_line(suite)} {cases}" for suite, cases in notes.sampled.items()]
        yield note("sampled", "; ".join(texts), width)


def _counts(**numbers: int) -> str:
    """Return how many there are of each thing, those without any left out.

    >>> _counts(figure=80, note=1), _counts(figure=0, note=0)
    ('80 figures and 1 note', '')
    """
    return " and ".join(f"{number:,} {what}{'s' * (number > 1)}" for what, number in numbers.items() if number > 0)


def _remarks(measurements: Sequence[Measurement]) -> list[str]:
    """Return the notes of the measurements, each once."""
    return list(
        dict.fromkeys(f"note: {one.suite} on {one.model}: {text}" for one in measurements for text in one.notes)
    )


def _details(measurements: Sequence[Measurement], width: int, records: bool) -> Iterator[Line]:
    """Yield the notes of the measurements, each once, and their worst records."""
    for line in _remarks(measurements):
        yield wrapped(line, width, "      "), ""
    for measurement in measurements if records else ():
        if measurement.records:
            subject = f"worst records of {one_line(measurement.suite)} on {one_line(measurement.model)}:"
            yield wrapped(subject, width, "    "), ""
        for record in measurement.records:
            yield f"  {one_line(format_record(record), max(width - 2, 20))}", ""
