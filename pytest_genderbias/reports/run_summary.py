"""The summary in the terminal at the end of a run: gates and suites in one line each, grouped by model; then what did
not run, what to do next, and the verdict. The verdict on a whole run, and what failed in it, for everything that
reports it in a few words.

A line of a suite has its main statistic: value, interval, neutral value, which way is worse, and what chance gives. A
dash is explained below the table, and so is every mark.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_genderbias.gates.judgement import Judgement, Seen
from pytest_genderbias.gates.verdicts import (
    BETTER,
    FAILED,
    FLOAT_NOISE,
    INAPPLICABLE,
    NO_DATA,
    NO_MODEL,
    NOT_STORED,
    OTHER_MODELS,
    PASSED,
    STORED,
    WIDTH,
    FinishedTest,
    NotJudged,
    format_record,
    in_lines,
    with_note,
)
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.reports.fields import (
    CONTROL,
    SHUFFLES,
    SPLITS,
    Figure,
    between,
    chance_of,
    change_and_bounds,
    change_in_full,
    describe_cases,
    largest,
)
from pytest_genderbias.reports.run_tables import baseline_history, run_tables
from pytest_genderbias.statistics.right_answers import TASK
from pytest_genderbias.text.columns import (
    aligned,
    in_brief,
    note,
    one_line,
    padded,
    paragraph,
    rows_or_blocks,
    together,
    total,
    widths,
    wrapped,
)
from pytest_genderbias.text.printable import counted, format_figure, format_growth, format_number

if TYPE_CHECKING:
    from pytest_genderbias.reports.run_report import RunReport

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
        detail: 0 for main statistics, refusals that differ by group, and gates; 1 for all statistics and the notes of
            the measurements; 2 for their worst records, too.
    """
    gates = [one for one in judgements if one.of_reduction is None]
    seen = {(one.suite, one.model, one.statistic) for one in gates}
    shown = _largest(measurements)
    titles = {
        model: _title([one for one in measurements if one.model == model]) for model in {one.model for one in shown}
    }
    everything = detail > 0
    if gates:
        yield from _gates(gates, titles, width, everything)
    figures = [
        Figure(one, name)
        for one in shown
        for name in (one.values if everything else [one.main, *_refusals(one)])
        if (one.suite, one.model, name) not in seen
    ]
    suites = list(_suite_rows(figures))
    if gates and suites:
        yield "", ""
    yield from _table(suites, _MEASURED, titles, width)
    columns = _fitting([row.cells for row in suites], _MEASURED, width - 2)
    yield from ((line, "") for line in _below(figures, everything, width, "chance" in columns))
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


def _refusals(measurement: Measurement) -> list[str]:
    """Return the statistic that compares refusals by group, where they differ: what the other figures leave out."""
    bounds = {name: measurement.intervals.get(name) for name in ("refusal_difference", "refusal_rms")}
    return [name for name, of in bounds.items() if of is not None and not of.low <= 0 <= of.high][:1]


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
    """Return whether a model can do its task, by the control items that most suites ask, those that it fails first.

    What only one suite asks is said in its row.
    """
    of_role = [ability for one in measurements for ability in one.abilities if ability.name != TASK]
    if not of_role:
        return ""
    counts, first = Counter(one.name for one in of_role), {one.name: one for one in reversed(of_role)}
    usual = [first[name] for name, count in counts.most_common() if count == max(counts.values())]
    decisive = next((one for one in usual if one.unable), usual[0])
    return decisive.unable or f"able: {decisive.describe()}"


# Rows.


def _suite_rows(figures: Iterable[Figure]) -> Iterator[_Row]:
    """Yield a row for each figure. The first of a measurement names the suite, and a reason that the row above has is
    not repeated.
    """
    before: Measurement | None = None
    above = ""
    for figure in figures:
        suite = ""
        if figure.measurement is not before:
            before, above, suite = figure.measurement, "", one_line(figure.measurement.suite)
        row = _suite_row(figure, suite)
        yield replace(row, instead=_SAME_REASON) if row.instead and row.instead == above else row
        above = row.instead


def _suite_row(figure: Figure, suite: str) -> _Row:
    measurement, about, value = figure.measurement, figure.about, figure.value
    cells = {"suite": suite, "statistic": one_line(figure.name, 40)}
    if value is None:
        return _Row(measurement.model, cells, f"no value: {one_line(_reason(figure), 300)}")
    cells |= {"value": f"{format_figure(value)}  ", "95 %": between(figure.interval, format_figure)}
    if not about.no_gate:
        side = _SIDES[about.direction].format(f"{about.neutral:g}")
        cells |= {"neutral": f"{about.neutral:g}", "worse": about.direction, "is worse": side}
    if (chance := chance_of(measurement, figure.name)) is not None:
        cells |= {
            "chance": chance.describe(format_figure),
            "value": f"{format_figure(value)} {'!' if chance.beyond else ' '}",
        }
    return _Row(measurement.model, cells, meaning=about.meaning)


def _reason(figure: Figure) -> str:
    return figure.reason or "no reason given"


def _gates(gates: Sequence[Judgement], titles: Mapping[str, str], width: int, everything: bool) -> Iterator[Line]:
    """Yield the tables of the gates, with a row for each: those that failed first, and of many that passed the first
    ones.
    """
    shown, passed = [], 0
    for settled in sorted(gates, key=lambda one: (one.model, one.outcome != FAILED, one.suite)):
        passed += settled.outcome != FAILED
        if everything or settled.outcome == FAILED or passed <= _MOST_PASSED:
            shown.append(settled)
    rows = [_gate_row(settled) for settled in shown]
    against, others = ([row for row in rows if row.layouts is layouts] for layouts in (_AGAINST_BASELINE, _JUDGED))
    yield from _table(against, _AGAINST_BASELINE, titles, width)
    trainings = dict.fromkeys(one_line(sees.retraining) for settled in shown if (sees := _sees(settled)) is not None)
    if trainings:
        known = "; ".join(text.replace(": ", ", ") for text in list(trainings)[:_MOST_SOURCES])
        unit = "% of the stored distance from neutral, or of a public model's where that is larger"
        text = f"the growth that fails in 80 % of releases ({unit}); other trainings: {known}"
        yield note("sees", text, width), ""
    if against and others:
        yield "", ""
    yield from _table(others, _JUDGED, titles, width)
    if (left_out := len(gates) - len(shown)) > 0:
        yield note("", f"and {left_out:,} more that passed: -v", width), ""


def _gate_row(judgement: Judgement) -> _Row:
    value = "no value" if judgement.value is None else format_figure(judgement.value)
    cells = {
        "suite": one_line(judgement.gate_name),
        "gate": one_line(judgement.name or judgement.suite),
        "statistic": one_line(judgement.statistic, 40),
        "cases": describe_cases(judgement),
        "verdict": judgement.in_words,
    }
    colour = _COLOURS.get(judgement.outcome, "")
    if then := _value_then(judgement):
        cells |= {"then": then, "now": value, **_against_baseline(judgement)}
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


def _against_baseline(judgement: Judgement) -> dict[str, str]:
    """Return the change since the baseline, the margin, and what the gate sees: in percent where the unit is known."""
    margin, sees = judgement.of_baseline.margin, _sees(judgement)
    cells = {"margin": "" if margin is None else format_figure(margin)}
    if sees is None:
        change, moved = _change(judgement)
        return {**cells, "change": change, "moved": moved}
    change, moved = _growth(judgement, sees.unit)
    return {**cells, "sees": sees.in_words, "change": change, "moved": moved}


def _sees(judgement: Judgement) -> Seen | None:
    """Return what the gate of a baseline sees, in a unit that is known; ``None`` for other gates."""
    sees = judgement.of_baseline.sees
    return sees if sees is not None and sees.unit > 0 and _value_then(judgement) else None


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


def _below(figures: Sequence[Figure], everything: bool, width: int, chances: bool) -> Iterator[str]:
    """Yield what the marks, the dashes and, where the table has them, the chances mean."""

    def subject(figure: Figure) -> str:
        return f"{figure.measurement.suite}.{figure.name}" if everything else figure.measurement.suite

    valued = [figure for figure in figures if figure.value is not None]
    by_chance = [chance for one in valued if (chance := chance_of(one.measurement, one.name)) is not None]
    if any(chance.beyond for chance in by_chance):
        yield note("!", "beyond chance: at most 5 % of random groups or splits lie as far out", width)
    meant = {
        SHUFFLES: "the worse end of the middle 95 % of random shuffles",
        CONTROL: "the value of the suite's own control, with persons or labels shuffled",
        SPLITS: (
            "p, the share of random splits of the words with an effect at least as large (near 1: an effect the other"
            " way)"
        ),
    }
    kinds = {chance.kind for chance in by_chance}
    if kinds and chances:
        yield note("chance", "; ".join(text for kind, text in meant.items() if kind in kinds), width)
    for reason, subjects in together((_reason(one), subject(one)) for one in valued if one.interval is None).items():
        yield note("-", f"no interval: {in_brief(subjects)}: {one_line(reason, 300)}", width)
    for reason, subjects in together((one.about.no_gate, subject(one)) for one in valued if one.about.no_gate).items():
        yield note("", f"no direction: {in_brief(subjects)}: {one_line(reason, 300)}", width)
    sampled = {one.measurement.suite: one.measurement for one in valued if one.measurement.sampled(one.name)}
    if sampled:
        texts = [f"{one_line(suite)} {describe_cases(one)} cases" for suite, one in sampled.items()]
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
    yield from ((wrapped(line, width, "      "), "") for line in _remarks(measurements))
    for measurement in measurements if records else ():
        if measurement.records:
            subject = f"worst records of {one_line(measurement.suite)} on {one_line(measurement.model)}:"
            yield wrapped(subject, width, "    "), ""
        for record in measurement.records:
            yield f"  {one_line(format_record(record), max(width - 2, 20))}", ""


# The summary of a run.

_UNBROKEN = 10_000  #: width of a line that is to be copied
_FEW = 3  #: reasons of skips that are said in full
_MOST_NAMES = 10  #: of gates that are better than their baselines


def summary_lines(
    report: RunReport,
    width: int,
    detail: int = 0,
    messages: Sequence[Line] = (),
    broken: int = 0,
    next: str = "",
    compare: bool = False,
    variance: bool = False,
) -> Iterator[Line]:
    """Yield each text of the summary of a run with its markup.

    Args:
        report: of the run, of which the files of a run show more.
        width: columns of the terminal.
        detail: 1 for all statistics, notes and reasons; 2 also for the worst records.
        messages: lines with their markup.
        broken: number of tests that failed without a verdict that failed them.
        next: the command that writes gates from what was measured; empty if the run writes them.
        compare: whether the run was asked to compare models, so that the table is shown in any case.
        variance: the same of sources of variance.
    """
    for growth in report.growths:
        line = wrapped(f"{one_line(growth.model)}: {growth.in_words}", width, "    ")
        yield line, "red bold" if growth.worse else "bold"
    yield from overview(report.measurements, report.judgements, width, detail)
    for table in run_tables(report, compare, variance):
        if table.kind != "mitigations":
            yield table.title if table.kind == "grid" else "", ""
        lines = rows_or_blocks(table.headers, table.rows, table.heads, width, "verdict")
        yield from ((line, "") for line in lines if table.rows)
        yield from ((wrapped(text, width, "    "), "") for text in table.notes)
    if report.not_judged:
        yield from _unjudged(report.not_judged, width, detail)
    for text, markup in (*_on_baselines(report.judgements), *messages):
        yield wrapped(text, width, "    "), markup
    has_figures = any(measurement.values[measurement.main] is not None for measurement in report.measurements)
    if next and has_figures and not report.judgements and not broken:
        yield f"{note('next', 'write gates from what was measured:', width)}\n{note('', next, _UNBROKEN)}", ""
    if verdict := _verdict(report, broken):
        has_failed = broken or any(settled.failed for settled in report.judgements)
        yield wrapped(f"bias  {verdict}", width, "      "), "red bold" if has_failed else "bold"


def _on_baselines(judgements: Sequence[Judgement]) -> Iterator[Line]:
    """Yield accepted values, the age of baselines, and which to refresh."""
    yield from ((line, "yellow") for line in _accepted(judgements))
    yield from ((line, "") for line in baseline_history(judgements, datetime.date.today()))
    if better := [settled for settled in judgements if settled.code == BETTER]:
        what = (
            "1 gate is better than its baseline"
            if len(better) == 1
            else f"{len(better):,} gates are better than their baselines"
        )
        names = list(dict.fromkeys(one_line(settled.name or settled.suite) for settled in better))
        more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
        which = f"{', '.join(names[:_MOST_NAMES])}{more}"
        yield f"{what} ({which}): refresh with --bias-update, or the model may become as much worse unseen", "yellow"


def _verdict(report: RunReport, broken: int) -> str:
    """Return the last line: how many gates have which verdict, what was measured without one, what did not run."""
    counts = Counter(map(_in_a_word, sorted(report.judgements, key=_severity)))
    parts = [f"{count} {what}" for what, count in counts.items()]
    if broken:
        parts.insert(0, f"{broken} failed without a verdict")
    subjects = {(measurement.model, measurement.suite) for measurement in report.measurements}
    gated = {(settled.model, settled.suite) for settled in report.judgements}
    if not report.judgements and subjects:
        certain = "" if broken else ": nothing here can fail yet"
        parts.append(f"{len(subjects)} measured, 0 gated{certain}")
    elif rest := len(subjects - gated):
        parts.append(f"{rest} measured without a gate")
    kinds = Counter(test.why for test in report.not_judged)
    if idle := kinds[NO_DATA] + kinds[INAPPLICABLE]:
        parts.append(f"{idle} not run")
    if others := kinds[OTHER_MODELS] + kinds[NO_MODEL]:
        parts.append(f"{others} not judged")
    return " · ".join(parts)


def _unjudged(tests: Sequence[NotJudged], width: int, detail: int) -> Iterator[Line]:
    """Yield what was skipped: counts by kind, or each reason where they are few or ``detail`` asks for them."""
    skipped = [test for test in tests if test.why in (NO_DATA, INAPPLICABLE)]
    reasons = together(((test.model, test.reason.removeprefix(test.name).lstrip(": ")), test.name) for test in skipped)
    if detail or len(reasons) <= _FEW:
        for (model, reason), names in reasons.items():
            where = f" on {model}" if model else ""
            yield wrapped(f"not run{where}: {', '.join(names)}: {reason}", width, "    "), ""
    else:
        yield from _counted(tests, width)
    if elsewhere := [test for test in tests if test.why == OTHER_MODELS]:
        others = ", ".join(test.name for test in elsewhere)
        yield wrapped(f"not for the models of this run: {others}", width, "    "), ""
    if idle := sum(test.why == NO_MODEL for test in tests):
        text = (
            f"{idle} bias test{'s were' if idle > 1 else ' was'} not judged, since no model is named: give one with"
            " --bias-model=[NAME=]SPEC. With 'bias_strict = true' in the ini file, or --bias-strict, this fails"
        )
        yield wrapped(text, width, "    "), "yellow"


def _counted(tests: Sequence[NotJudged], width: int) -> Iterator[Line]:
    """Yield a line for each kind of reason, with the number of tests, and what to do."""
    key = "not run"
    if missing := [test.name for test in tests if test.why == NO_DATA]:
        text = f"{len(missing)} need data: {in_brief(missing)}: --bias-data=DIR; -v names files and sources"
        yield note(key, text, width), ""
        key = ""
    unfit = [test.model for test in tests if test.why == INAPPLICABLE]
    if unfit:
        models = ", ".join(f"{count} on {model}" if model else str(count) for model, count in Counter(unfit).items())
        do = "does not fit its model" if len(unfit) == 1 else "do not fit their model"
        yield note(key, f"{len(unfit)} {do}: {models}: genderbias list lists what fits, and -v says why", width), ""


def _accepted(judgements: Sequence[Judgement]) -> dict[str, None]:
    """Return the worse values that were accepted with a reason, until the value recovers."""
    return {
        f"accepted on {value.date}: {judgement.suite}.{value.statistic} on {judgement.model}"
        f" {format_number(value.old, 6)} -> {format_number(value.new, 6)}: {value.reason}": None
        for judgement in (judgements)
        for value in judgement.accepted
    }


def _severity(settled: Judgement) -> tuple[int, str]:
    return {FAILED: 0, PASSED: 2}.get(settled.outcome, 1), _in_a_word(settled)


def _in_a_word(settled: Judgement) -> str:
    """Return the word under which a judgement is counted."""
    code = settled.code
    if settled.outcome == PASSED and code not in (STORED, NOT_STORED):
        return "passed"
    return settled.in_words


# The verdict on a whole run.

#: Exit statuses of pytest after which all tests ran: none failed, some failed, there were none.
_COMPLETE = (0, 1, 5)
_FAILED = 1
#: Outcome of what neither passes nor fails: measured without a gate, or a failure that its test expects.
OTHER = "other"


def run_verdict(report: RunReport) -> tuple[str, str]:
    """Return the verdict on a run, what failed or how many gates passed: a text that begins in lower case, and
    ``failed``, ``passed`` or ``other``. A run that pytest ended as failed never passes here.
    """
    gates, errors = report.judgements, broken_tests(report)
    counts = Counter(settled.outcome for settled in gates)
    of_gates, failed = f"of {counted(len(gates), 'gates')}", counts[FAILED]
    cut_short = report.run.exit_status not in _COMPLETE
    if failed or errors or report.failures or cut_short:
        parts = [f"{failed:,} {of_gates} failed"] if failed else []
        parts += [f"{counted(len(errors), 'tests')} failed without a verdict"] if errors else []
        parts += [f"{counted(len(report.failures), 'failures')} beside the tests"] if report.failures else []
        parts += ["the run was cut short"] if cut_short else []
        return ", ".join(parts), FAILED
    if report.run.exit_status == _FAILED:  # of another test, or of a worker that died with its test
        what = f"none {of_gates} failed, but" if gates else "no gate was judged, and"
        return f"{what} another test of the run failed", FAILED
    if gates and counts[PASSED] == len(gates):
        return f"{'the gate' if len(gates) == 1 else f'all {len(gates):,} gates'} passed", PASSED
    if gates:
        expected = len(gates) - counts[PASSED]
        return f"{counts[PASSED]:,} {of_gates} passed, {expected:,} failed as expected", OTHER
    if subjects := {(one.suite, one.model) for one in report.measurements}:
        return f"{len(subjects):,} measured, 0 gated: nothing here can fail yet", OTHER
    return "nothing was measured", OTHER


def broken_tests(report: RunReport) -> list[FinishedTest]:
    """Return the tests that failed without a failed judgement: their model could not be loaded, say."""
    judged = {settled.test for settled in report.judgements if settled.failed}
    return [test for test in report.tests if test.outcome == FAILED and test.test not in judged]


def decisive_lines(judgement: Judgement, width: int = WIDTH) -> list[str]:
    """Return what a failing test shows of a judgement: at least one line.

    Args:
        judgement: of a gate.
        width: columns, to which its paragraphs are wrapped.
    """
    return in_lines(judgement.shown, width).splitlines() or [with_note(judgement.code)]


def describe_report(report: RunReport, width: int, detail: int = 0) -> Iterator[str]:
    """Yield what the terminal showed at the end of a run: why gates failed, and the summary.

    Args:
        report: of the run.
        width: columns of the terminal.
        detail: 1 for all statistics, notes and reasons; 2 also for the worst records.
    """
    names = ", ".join(model.name for model in report.run.models)
    yield paragraph(f"run of {report.run.date}" + (f" on {names}" if names else ""), width)
    for settled in report.judgements:
        if settled.outcome == FAILED:
            lines = [settled.text] if detail > 1 else decisive_lines(settled)
            yield "\n".join(("", *lines))
    broken = broken_tests(report)
    for test in broken:
        yield f"\n{test.test} failed without a verdict: {test.text}"
    yield ""
    messages = [(text, "") for text in report.failures]
    yield from (text for text, _ in summary_lines(report, width, detail, messages, len(broken)))
