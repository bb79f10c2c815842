"""Pages of the audit pack in the order of a form: a bias profile, and the summary of selection rates.

What a run does not hold is ``not stated`` there; nothing is filled in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from pytest_genderbias.folders import write_whole
from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.reports.fields import FIGURE_COLUMNS, GATE_COLUMNS, SAID, between, figures_of, largest
from pytest_genderbias.reports.html.gates import history_in_words
from pytest_genderbias.reports.html.page import words_of
from pytest_genderbias.reports.run_report import RunReport
from pytest_genderbias.reports.run_tables import reduction_rows
from pytest_genderbias.reports.run_verdict import broken_tests
from pytest_genderbias.reports.selection import ABOVE_MEDIAN, SelectionRow
from pytest_genderbias.suites.suite import load_suite, suite_names
from pytest_genderbias.text.printable import cut, escape, markdown_table

NOT_STATED = "not stated"
_LONGEST = 4_000  #: characters of a text
_MEASURES = ("suite", "statistic", "direction", "neutral", "meaning")
_RESULTS = ("subject", "statistic", "model", "value", "bound", "verdict", "n")


def write_bias_profile(report: RunReport, path: Path) -> None:
    """Write what a run knows of the bias of its models: groups and harms, measures, limits, results, mitigation and
    re-evaluation.
    """
    measured = largest(report.measurements, lambda one: (one.suite, one.signature["digest"]))
    sections = {
        "System": _system(report),
        "Groups and harms considered": _considered(report, measured),
        "Groups and harms left out": _left_out(report),
        "Measures": _measures(report, measured),
        "Limits, and who decided them": _limits(report.judgements),
        "Results": _results(report),
        "Mitigation": _mitigation(report.judgements),
        "Re-evaluation": _again(report.judgements),
    }
    head = [
        "# Bias profile",
        "",
        (
            "In the order of the bias profile that the draft standard prEN 18283 describes: what a run of"
            f" {escape(report.run.date)} measured. It claims no conformity with the draft, or with any law."
            f" `{NOT_STATED}` marks what the run does not hold, and a person has to add."
        ),
        "",
    ]
    _write(path, [*head, *(line for title, lines in sections.items() for line in (f"## {title}", "", *lines, ""))])


def _write(path: Path, lines: Iterable[str]) -> None:
    write_whole(path, ("\n".join(lines).rstrip() + "\n").encode())


def _point(label: str, text: str) -> str:
    return f"- **{label}**: {escape(cut(text, _LONGEST)) or NOT_STATED}"


def _system(report: RunReport) -> Iterator[str]:
    yield from (_point(f"model {escape(name)}", spec) for name, spec in _specs(report))
    yield _point("commit of the project", report.run.commit)
    for label in ("intended purpose", "persons and setting that it is meant for", "who is responsible for it"):
        yield _point(label, "")


def _specs(report: RunReport) -> Iterator[tuple[str, str]]:
    """Yield each model of a run with its SPEC, and its fingerprint where it was measured."""
    fingerprints = {one.model: one.signature["model"].get("fingerprint") for one in report.measurements}
    for model in report.run.models:
        known = fingerprints.get(model.name)
        yield model.name, f"{model.spec}, fingerprint {known}" if known else model.spec


def _considered(report: RunReport, measured: Sequence[Measurement]) -> Iterator[str]:
    for one in measured:
        words = words_of(one)
        harms = [said for gate in report.judgements if gate.suite == one.suite and (said := gate.evidence.get("harm"))]
        yield from (f"### {escape(one.suite)}", "")
        yield _point("groups", ", ".join(_groups(one)))
        yield _point("question", words.question if words else "")
        yield from (_point("harm that a gate should prevent", harm) for harm in dict.fromkeys(harms or [""]))
        yield ""
    persons: dict[str, dict[str, None]] = {}
    for row in report.selections:
        if row.rate is not None:
            persons.setdefault(f"{row.model} by {row.category}", {})[row.group] = None
    yield from (_point(f"selection rates of {escape(label)}", ", ".join(names)) for label, names in persons.items())


def _groups(measurement: Measurement) -> list[str]:
    """Return the groups of a packaged suite, or those that the records of a measurement name."""
    if measurement.suite in suite_names():
        suite = load_suite(measurement.suite)
        if measurement.signature["digest"] in suite.digests:
            return [str(name) for name in getattr(suite.body, "groups", ())]
    return [str(record.get("value")) for record in measurement.records if record.get("slice") == "group"]


def _left_out(report: RunReport) -> Iterator[str]:
    for test in report.not_judged:
        yield _point(f"not judged: {escape(test.test)}", test.reason)
    for broken in broken_tests(report):
        yield _point(f"failed without a verdict: {escape(broken.test)}", broken.text)
    for missing in report.not_compared:
        yield _point(f"not compared: {escape(missing.suite)}", missing.reason)
    without = [row for row in report.selections if row.note]
    labels = [" ".join(filter(None, (row.model, row.category, row.group))) for row in without]
    points = (
        _point(f"no ratio: {escape(label)}", f"{row.note}; {row.persons:,} persons")
        for label, row in zip(labels, without, strict=True)
    )
    yield from dict.fromkeys(points)  # a row a decision
    others = sorted({*suite_names()} - {one.suite for one in report.measurements})
    yield _point("packaged suites that the run did not measure", ", ".join(others))
    yield _point("other groups and harms, and why they were left out", "")


def _measures(report: RunReport, measured: Sequence[Measurement]) -> Iterator[str]:
    judged = {(one.suite, one.statistic) for one in report.judgements}
    shown = [
        figure
        for figure in figures_of(measured)
        if figure.name == figure.measurement.main or (figure.measurement.suite, figure.name) in judged
    ]
    columns = [FIGURE_COLUMNS[name] for name in _MEASURES]
    yield markdown_table([one.header for one in columns], [[one.text(row) for one in columns] for row in shown])
    yield ""
    yield "`values.csv` has all statistics. What the figures do not mean:"
    yield ""
    for one in measured:
        words = words_of(one)
        yield _point(escape(one.suite), words.does_not_mean if words else "")


def _limits(judgements: Sequence[Judgement]) -> Iterator[str]:
    subjects = {(one.gate_name, one.statistic, one.bound, *one.evidence.items()): one for one in judgements}
    for one in subjects.values():
        yield from (f"### {escape(f'{one.gate_name}, {one.statistic}')}", "")
        yield _point("limit or baseline", one.bound)
        yield from (_point(name, one.evidence.get(name, "")) for name in SAID)
        yield ""
    if not subjects:
        yield f"No gate judged a figure. Limits, and who decided them: {NOT_STATED}."


def _results(report: RunReport) -> Iterator[str]:
    columns = [GATE_COLUMNS[name] for name in _RESULTS]
    rows = [[*(one.text(row) for one in columns), between(row.interval)] for row in report.judgements]
    yield markdown_table([*(one.header for one in columns), "bounds that decided"], rows)
    yield ""
    yield "`verdicts.csv` has the whole reason of each verdict, `values.csv` what was measured without a gate."


def _mitigation(judgements: Sequence[Judgement]) -> Iterator[str]:
    headers, rows = reduction_rows(judgements)
    yield markdown_table(headers, rows) or f"The run judged none. What was done against bias: {NOT_STATED}."


def _again(judgements: Sequence[Judgement]) -> Iterator[str]:
    for one in judgements:
        if history := history_in_words(one):
            yield _point(escape(f"{one.gate_name}, {one.statistic} on {one.model}"), "; ".join(history))
    for label in ("what makes a new evaluation necessary", "date of the next one", "who decides on it"):
        yield _point(label, "")


# New York City's Local Law 144.

_SEX, _RACE = "Sex", "Race or ethnicity"
_BOTH = f"{_SEX} and {_RACE[0].lower()}{_RACE[1:]}"
_WORDS = {_SEX: ("sex", "gender"), _RACE: ("race", "ethnic")}
_SEXES = {"female", "male"}
_LAW = (
    "In the order of the summary of results that the rules to New York City's Local Law 144 of 2021 ask for (6 RCNY"
    " sections 5-301 and 5-303). It is no bias audit, which an independent auditor makes, and claims no compliance."
    " Categories are called as in the data; the rules name those of the EEO-1 report."
)
_CLASSES = "Each class that was predicted has its tables; selection is the class that favours a person."
#: What a summary states and no run holds.
_TO_ADD = (
    "date of the most recent bias audit", "independent auditor", "distribution date of the tool",
    "explanation of the data: historical or test data, whose, from when to when, and why these",
)  # fmt: skip


def write_selection_summary(report: RunReport, path: Path) -> None:
    """Write selection rates and impact ratios by sex, by race or ethnicity, and by both, with unknown persons and the
    source of the data.
    """
    lines = ["# Selection rates and impact ratios", "", f"{_LAW} `{NOT_STATED}` marks what a person has to add.", ""]
    sources = dict(_specs(report))
    for model, of_model in groupby(report.selections, lambda row: row.model):
        rows = list(of_model)
        lines += [f"## {escape(model)}", "", _point("date of this count", report.run.date)]
        lines += [_point("source of the data", sources.get(model, ""))]
        lines += [*(_point(label, "") for label in _TO_ADD), ""]
        decisions = dict.fromkeys(row.decision for row in rows)
        lines += [_CLASSES, ""] if len(decisions) > 1 else []
        for decision in decisions:
            lines += _decision(decision, [row for row in rows if row.decision == decision])
    _write(path, lines)


def _decision(decision: str, rows: Sequence[SelectionRow]) -> Iterator[str]:
    rate = "scoring rate" if decision == ABOVE_MEDIAN else "selection rate"
    if not decision:  # the file has none
        yield from (_point("no rates", row.note) for row in rows)
        return
    yield from (f"### Decision: {escape(decision)}", "")
    for title in (_SEX, _RACE, _BOTH):
        table = [row for row in rows if _category(rows, row.category) == title]
        yield from (f"#### {title}", "")
        yield from _selection_table(table, rate)
        yield ""


def _selection_table(table: Sequence[SelectionRow], rate: str) -> Iterator[str]:
    known = [row for row in table if row.rate is not None and row.selected is not None]
    unknown = next((row.persons for row in table if row.rate is None and row.group), 0)
    if not known:
        yield "; ".join(dict.fromkeys(escape(row.note) for row in table if row.note)) or NOT_STATED
        return
    cells = [
        (
            row.group,
            f"{row.persons:,}",
            f"{row.selected:,}",
            f"{100 * (row.rate or 0.0):.1f} %",
            "" if row.ratio is None else f"{row.ratio:.3f}",
            row.note,
        )
        for row in known
    ]
    headers = ("category", "applicants", "selected", rate, "impact ratio", "note")
    yield markdown_table(headers, cells, right=(1, 2, 3, 4))
    yield ""
    yield _point("persons of an unknown category, not counted", f"{unknown:,}")
    if any(row.ratio is None for row in known):
        yield _point("why categories under 2 % were left out", "")


def _category(rows: Sequence[SelectionRow], category: str) -> str:
    """Return which of the three tables the columns of a category belong to; an empty text for others."""
    found = []
    for column in category.split(" and "):
        names = {row.group for row in rows if row.category == column}
        kinds = [title for title, words in _WORDS.items() if any(word in column.lower() for word in words)]
        found += kinds or ([_SEX] if names >= _SEXES else [""])
    return found[0] if len(found) == 1 else _BOTH if sorted(found) == [_RACE, _SEX] else ""
