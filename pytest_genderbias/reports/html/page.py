"""``--bias-report``: gather what the template shows, and write the page."""

from __future__ import annotations

import base64
import datetime
import hashlib
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from pytest_genderbias.escaping import printable
from pytest_genderbias.folders import write_whole
from pytest_genderbias.gates.comparison import growth_of
from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.gates.verdicts import FAILED, REASONS, with_note
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.reports.figures.drawing import css
from pytest_genderbias.reports.html.gates import (
    GateText,
    in_order,
    make_broken_text,
    make_gate_table,
    make_text,
    outcome_of,
)
from pytest_genderbias.reports.html.sections import SuiteSection, make_not_judged, make_parts, make_section, place_of
from pytest_genderbias.reports.html.tables import PageFigure, PagePart, PageTable, safe
from pytest_genderbias.reports.picture import Picture
from pytest_genderbias.reports.run_report import RunInfo, RunReport
from pytest_genderbias.reports.run_verdict import baseline_history, broken_tests, run_verdict
from pytest_genderbias.reports.traces import tried
from pytest_genderbias.suites.about import SuiteAbout
from pytest_genderbias.suites.registry import FAMILIES
from pytest_genderbias.suites.suite import load_suite, suite_names


def draw_figures(pictures: Iterable[Picture]) -> list[PageFigure]:
    """Return the pictures as safe markup, by suite and model, those of several models last."""
    from pytest_genderbias.reports.figures.files import svg

    return [
        PageFigure(safe(svg(one, prefix=f"picture-{number}")), one.kind, one.suite, one.title, one.caption, one.others)
        for number, one in enumerate(sorted(pictures, key=lambda one: (one.suite, not one.model, one.model)), 1)
    ]


def words_of(measurement: Measurement) -> SuiteAbout | None:
    """Return the words of a packaged suite, or those of the family of a user's own; ``None`` for a family of someone
    else.
    """
    family = str(measurement.signature["definition"]).partition("/")[0]
    if measurement.suite in suite_names():
        suite = load_suite(measurement.suite)
        if measurement.signature["digest"] in suite.digests:
            return suite.about
    known = [one.about for one in FAMILIES.values() if one.definition.partition("/")[0] == family]
    return known[0] if known else None


_LONGEST = 5000  #: characters of a text that is shown whole
_CAUTION = (
    "A passed gate says that one figure kept its limit on these sentences. It does not say that the model is fair, or"
    " free of bias elsewhere. Most suites compare women and men only, are in English, take statistics of the United"
    " States, and provoke stereotypes with templates that nobody wrote in earnest. What a suite does not find may still"
    " harm people."
)


Fact: TypeAlias = "tuple[str, str]"  #: its name and what it is


@dataclass(frozen=True)
class ReportPage:
    """Everything that the template shows.

    Attributes:
        headline: result of the run in a few words.
        outcome: CSS class of the result.
        facts: date, model and baseline, for the first screen.
        failures: what failed the run beside its gates.
        gates: verdicts of all gates; ``None`` without gates.
        trouble: texts of the gates that failed.
        verdicts: texts of the other gates on suites that have no section.
        tables: the other sections before the suites.
        not_judged: the section on tests without a verdict; ``None`` if there are none.
        suites: a section a suite.
        models: names of the models, each with the SPEC that it was loaded from.
        conditions: versions and settings.
        glossary: words of the page.
        command: what was typed.
        caution: what a pass does not say.
        version: of pytest-genderbias.
    """

    headline: str
    outcome: str
    facts: tuple[Fact, ...]
    failures: tuple[str, ...]
    gates: PageTable | None
    trouble: tuple[GateText, ...]
    verdicts: tuple[GateText, ...]
    tables: tuple[PagePart, ...]
    not_judged: PagePart | None
    suites: tuple[SuiteSection, ...]
    models: tuple[Fact, ...]
    conditions: tuple[Fact, ...]
    glossary: tuple[Fact, ...]
    command: str
    caution: str
    version: str

    @property
    def contents(self) -> dict[str, str]:
        """The titles of all sections but those of the suites, by id."""
        gates = {} if self.gates is None else {"gates": "Verdicts"}
        failures = {"failures": "What failed"} if self.trouble else {}
        parts = {part.id: part.title for part in (*self.tables, self.not_judged) if part is not None}
        return {**gates, **failures, **parts, "run": "The run"}


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
    return (files("pytest_genderbias.reports.html") / name).read_text(encoding="utf-8")


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


def make_page(report: RunReport) -> ReportPage:
    """Return what the template shows of a run."""
    names = sorted(dict.fromkeys(one.suite for one in report.measurements))
    suite_ids = {name: f"suite-{number}" for number, name in enumerate(names, 1)}
    texts = [(settled, make_text(number, settled)) for number, settled in in_order(report.judgements)]
    verdict = run_verdict(report)
    figures = draw_figures(report.pictures)
    run = report.run
    return ReportPage(
        headline=verdict.headline,
        outcome=verdict.outcome,
        facts=tuple(_facts(report)),
        failures=report.failures,
        gates=make_gate_table(report, suite_ids),
        trouble=(
            *(make_broken_text(number, test) for number, test in enumerate(broken_tests(report), 1)),
            *(text for settled, text in texts if outcome_of(settled) == FAILED),
        ),
        verdicts=tuple(
            text for settled, text in texts if settled.suite not in suite_ids and outcome_of(settled) != FAILED
        ),
        tables=tuple(make_parts(report, suite_ids, figures)),
        not_judged=make_not_judged(report.not_judged),
        suites=tuple(_sections(report, suite_ids, figures, texts)),
        models=tuple((model.name, model.spec) for model in run.models),
        conditions=tuple(_conditions(run)),
        glossary=tuple((with_note(code), REASONS[code].meaning) for code in REASONS if code in _codes(report)),
        command=shlex.join(("pytest", *run.arguments)),
        caution=_CAUTION,
        version=run.version,
    )


def _codes(report: RunReport) -> set[str]:
    return {settled.code for settled in report.judgements}


def _sections(
    report: RunReport,
    suite_ids: Mapping[str, str],
    figures: Sequence[PageFigure],
    texts: Sequence[tuple[Judgement, GateText]],
) -> Iterator[SuiteSection]:
    """Yield a section for each suite; the texts of gates in trouble are above, and not repeated."""
    for suite, suite_id in suite_ids.items():
        measurements = [one for one in report.measurements if one.suite == suite]
        yield make_section(
            suite_id,
            measurements,
            words_of(measurements[0]),
            tuple(figure for figure in figures if place_of(figure, suite_ids) == suite_id),
            tuple(text for settled, text in texts if settled.suite == suite and outcome_of(settled) != FAILED),
        )


def _facts(report: RunReport) -> Iterator[Fact]:
    """Yield what the first screen says beside the verdicts."""
    run = report.run
    if len(report.measurements) and report.judgements:
        yield "measured", f"{len(report.measurements):,}"
    for growth in growth_of(report.judgements):
        yield "release", f"{growth.model}: {growth.in_words}"
    yield from (("tried", line) for line in tried(report.history))
    for model in run.models:
        yield "model", model.name if model.spec == model.name else f"{model.name} = {model.spec}"
    today = _date(run.date)
    if today is not None:
        yield "on", f"{today:%Y-%m-%d %H:%M} {today:%Z}".rstrip()
        for line in baseline_history(report.judgements, today.date()):
            if line.startswith("baseline of "):
                what, _, age = line.partition(": ")
                yield what, age.partition(",")[0]
    if run.commit:
        yield "commit", run.commit[:12] + (" with changes" if run.modified else "")


def _date(text: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return None


def _conditions(run: RunInfo) -> Iterator[Fact]:
    yield "ended", f"{run.date}, after {run.seconds:,.1f} s, with exit status {run.exit_status}"
    if run.commit:
        yield "commit", run.commit + (", with changes that were not committed" if run.modified else "")
    if run.baselines:
        yield "baselines", run.baselines
    settings = [f"{name} {value}" for name, value in run.settings.items() if value is not None]
    yield "settings", ", ".join(settings)
    yield "versions", ", ".join(f"{name} {number}" for name, number in run.versions.items())
