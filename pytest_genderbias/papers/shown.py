"""A table of a paper in words, and the page of each paper: the paper's figures beside ours, the verdicts of the claims,
and what differs.

The runs of a table without a result, and seeds that a result lacks, are made first. Each is stored when it is made, so
that an interrupted table goes on where it stopped.
"""

from __future__ import annotations

import re
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_genderbias.errors import BiasError, SettingError
from pytest_genderbias.measurement.carry_out import versions
from pytest_genderbias.mitigation.harness.run import seeds_of
from pytest_genderbias.papers.claims import (
    AGREES,
    DIFFERS,
    FEWEST_SEEDS,
    MOST_SEEDS,
    NEEDS,
    NOT_ABLE,
    TOO_SMALL,
    Difference,
    JudgedClaim,
    count_claims,
    decision,
    judge_claims,
    table_verdict,
)
from pytest_genderbias.papers.config import (
    BELOW,
    NEAR,
    PAPER,
    SMALL,
    Claim,
    PaperConfig,
    RunConfig,
    Table,
    load_paper,
    overlaid,
    paper_names,
)
from pytest_genderbias.papers.kinds import FURTHER_SEEDS, KINDS, label_of, options_of
from pytest_genderbias.papers.places import Places, StoredFigure, StoredRun, figure_at, placed, read_run, write_run
from pytest_genderbias.text.columns import columns, one_line, paragraph
from pytest_genderbias.text.printable import counted, escape

NO_RESULT = "no result yet"
VERDICTS = (AGREES, DIFFERS, NOT_ABLE, TOO_SMALL, NEEDS, NO_RESULT)
#: Memory in GB and peak of bfloat16 in TFLOP/s, by card, as their data sheets have them.
CARDS = {"RTX 4090": (24, 165), "A100": (80, 312), "H100": (80, 989)}
_ESTIMATED_ON = "A100"
_FOLDER = re.compile(r"\{(data|runs)\}/(models/)?")  #: what stands before the name of a model or file


def figure_rows(table: Table, runs: Mapping[str, StoredRun]) -> list[list[str]]:
    """Return the published figures as rows of a grid: the row's name, and for each column the paper's figure and
    ours, as ``.37 ± .03; .44 ± .02``, with a dash for what is missing.
    """
    return [
        [row, *(f"{text or '-'}; {shown(figure_at(runs, ours) if ours else None)}" for text, ours in cells.values())]
        for row, cells in table.rows.items()
    ]


def shown(figure: StoredFigure | None) -> str:
    """Return a figure of ours: the mean over seeds with its standard deviation, or the value with its interval over
    items.

    Seeds without a value are counted.

    >>> shown(StoredFigure([0.25, 0.75])), shown(StoredFigure([0.5], [[0.4, 0.6]])), shown(None)
    ('0.500 ± 0.354', '0.500 (0.400 to 0.600)', '-')
    >>> shown(StoredFigure([0.25, None, 0.75]))
    '0.500 ± 0.354 with 2 of 3 seeds'
    """
    if figure is None or figure.mean is None:
        return "-"
    known, seeds = len(figure.defined), len(figure.values)
    of_seeds = f" with {known} of {counted(seeds, 'seeds')}" if known < seeds else ""
    if figure.deviation is not None:
        return f"{number(figure.mean)} ± {number(figure.deviation)}{of_seeds}"
    interval = figure.interval
    bounds = f" ({number(interval[0])} to {number(interval[1])})" if interval else ""
    return f"{number(figure.mean)}{bounds}{of_seeds}"


def number(value: float) -> str:
    """Return a figure with three decimals, or with none where it is large.

    >>> number(0.1234), number(1128.15)
    ('0.123', '1,128')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}"


def describe_verdict(paper: PaperConfig, table: Table, judged: Sequence[JudgedClaim]) -> str:
    """Return the verdict of a table, with the reasons of claims that differ, or what the table needs."""
    verdict = table_verdict(judged)
    if verdict == NEEDS and any(SMALL in paper.runs[name].scales for name in table.runs):
        return NO_RESULT
    if verdict == DIFFERS:
        reasons = dict.fromkeys(
            claim.claim.because for claim in judged if claim.verdict == DIFFERS and claim.claim.because
        )
        words = f"{DIFFERS} ({_counted_verdicts(paper, judged, verdict)})" if len(judged) > 1 else DIFFERS
        return f"{words}, because {'; '.join(reasons)}" if reasons else words
    if verdict == NEEDS and table.needs:
        return f"{NEEDS}: {table.needs}"
    if len({_verdict_of_claim(paper, claim) for claim in judged}) > 1:
        return f"{verdict} ({_counted_verdicts(paper, judged, verdict)})"
    return verdict


def short_verdict(paper: PaperConfig, table: Table, judged: Sequence[JudgedClaim]) -> str:
    """Return the verdict of a table without reasons and numbers."""
    verdict = table_verdict(judged)
    return NO_RESULT if describe_verdict(paper, table, judged) == NO_RESULT else verdict


def _counted_verdicts(paper: PaperConfig, judged: Sequence[JudgedClaim], verdict: str) -> str:
    """Return how many claims of a table have its verdict, and how many have each other:
    ``2 of 3 claims; 1 too small to say``.
    """
    verdicts = Counter(_verdict_of_claim(paper, claim) for claim in judged)
    own, claims = verdicts.pop(verdict, 0), counted(len(judged), "claims")
    others = ", ".join(f"{number} {_plural(other, number)}" for other, number in verdicts.items())
    if not own:
        return f"of {claims} {others}"
    return f"{own} of {claims}; {others}" if others else f"{own} of {claims}"


def _plural(verdict: str, number: int) -> str:
    return verdict.removesuffix("s") if verdict in (AGREES, DIFFERS) and number > 1 else verdict


def _verdict_of_claim(paper: PaperConfig, judged: JudgedClaim) -> str:
    """Return the verdict of a claim; a claim whose small runs were not made has no result yet."""
    if judged.verdict == NEEDS and all(SMALL in paper.runs[name].scales for name in judged.claim.runs):
        return NO_RESULT
    return judged.verdict


def describe_claim(paper: PaperConfig, table: Table, judged: JudgedClaim, runs: Mapping[str, StoredRun]) -> str:
    """Return a claim of a table, its verdict, the difference that decided it or what would, and an earlier table that
    makes the same claim.
    """
    words = f"{_verdict_of_claim(paper, judged)}: {judged.claim.text}"
    difference, place = judged.difference, judged.claim.section
    details = [f"section {place}" if place[0].isdigit() else place] if place else []
    if difference is not None:
        what, bounds = "difference of absolute values" if judged.claim.absolute else "difference", ""
        if difference.low is not None and difference.high is not None:
            reach = f"{number(difference.low)} to {number(difference.high)}"
            bounds = f", {reach} over {_over(paper, judged.claim, difference)}"
        details.append(f"{what} {number(difference.value)}{bounds}")
    words += f" ({'; '.join(details)})" if details else ""
    same = judged.claim.relation_of_figures
    earlier = next(t for t in paper.tables.values() if same in [other.relation_of_figures for other in t.claims])
    if earlier.name != table.name:
        words += f", as in {_called(earlier)}"
    if judged.verdict == TOO_SMALL:
        return f"{words}; to decide: {_to_decide(paper, judged, runs)}"
    reasons = [judged.failed]
    if judged.verdict == DIFFERS:
        reasons = [_no_effect(judged), judged.claim.because]
    return "; ".join([words, *filter(None, reasons)])


def _no_effect(judged: JudgedClaim) -> str:
    """Return the sizes of the effects where a claim differs by them: where bounds of ours include 0."""
    found, published = judged.difference, judged.claim.published
    if not judged.least or found is None or found.low is None or found.high is None or published is None:
        return ""
    ours = -found.low if judged.claim.relation == BELOW else found.high
    sizes = f"ours is at most {number(ours)}, the paper's {number(abs(published))}"
    return f"no effect of the paper's size: {sizes}" if ours >= 0 else ""


def _to_decide(paper: PaperConfig, judged: JudgedClaim, runs: Mapping[str, StoredRun]) -> str:
    """Return what would decide a claim that is too small to say."""
    found, decided = judged.difference, decision(judged)
    seeds = {name: len(runs[name].seeds) for name in judged.claim.runs}
    if found is None or decided is None:
        few = min(seeds.values()) < FEWEST_SEEDS
        return f"{FEWEST_SEEDS} seeds of each run" if few else "items on which each seed has a value of its own"
    many, verdict = decided
    if many and found.error:
        minutes = sum(minutes_of(paper.runs[name], runs[name]) * max(0.0, many / n - 1) for name, n in seeds.items())
        cost = f"{minutes / 60:.1f} core hours" if minutes > 60 else f"{minutes:.0f} core minutes"
        return f"about {many} seeds, {cost} more ({verdict})"
    things = "texts" if "texts" in found.over else _over(paper, judged.claim, found).removeprefix("restarts and ")
    if many:
        return f"about {many} times the {things} ({verdict})"
    if things != "restarts":
        return f"more {things}, since {MOST_SEEDS} seeds would not do"
    margin = number(max(abs(found.low or 0.0), abs(found.high or 0.0)))
    if judged.claim.relation == NEAR:
        return f"a margin of {margin}, which these seeds confirm; {MOST_SEEDS} would not do for {judged.claim.within:g}"
    return f"a model with a larger effect, since {MOST_SEEDS} seeds would not do for one within {margin} of 0"


def _claims(paper: PaperConfig, runs: Mapping[str, StoredRun]) -> str:
    """Return how many claims of a paper have each verdict; a claim that several tables make counts once."""
    judged = [
        replace(one, verdict=_verdict_of_claim(paper, one))
        for table in paper.tables.values()
        for one in judge_claims(table, runs)
    ]
    verdicts = count_claims(judged)
    parts = [f"{verdicts[verdict]} {_plural(verdict, verdicts[verdict])}" for verdict in VERDICTS if verdicts[verdict]]
    return ", ".join(parts) or "none"


def _over(paper: PaperConfig, claim: Claim, difference: Difference) -> str:
    """Return what the bounds of a difference generalise to; those of r and R squared resample methods and seeds."""
    of_agreement = all(paper.runs[name].kind == "agreement" for name in claim.runs)
    return "methods and seeds" if of_agreement and difference.over == "items" else difference.over


def differences(paper: PaperConfig, table: Table) -> list[str]:
    """Return what the small scale of a table's runs does otherwise than the paper's scale, then what the table itself
    names.
    """
    lines: list[str] = []
    for run in (paper.runs[name] for name in table.runs if {SMALL, PAPER} <= paper.runs[name].scales.keys()):
        here, there = (dict(_flat(run.scales[scale])) for scale in (SMALL, PAPER))
        lines += [
            f"{key} {_brief(here.get(key))} here, {_brief(there.get(key))} in the paper"
            for key in dict.fromkeys([*here, *there])
            if here.get(key) != there.get(key)
        ]
    return [*dict.fromkeys(lines), *table.differs]


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield settings by dotted names; suites that are measured by their names. What does not change figures is left
    out.

    Such are the budget of a verdict, the folder of all data sets, and arguments that fit a batch onto a device.
    """
    for key, value in settings.items():
        if key in ("judge", "arguments") or value == "{data}":
            continue
        if key == "measure":
            for entry in value:
                yield from _flat(options_of(entry), f"{label_of(entry)}.")
        elif key == "then":
            for stage in value:
                yield from _flat(stage["recipe"], f"{stage['recipe']['name']}.")
                yield from _flat({"measure": stage.get("measure", ())})
        elif isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        elif key == "batch_size":
            yield f"{prefix}{key}", value * settings.get("arguments", {}).get("gradient_accumulation_steps", 1)
        else:
            yield f"{prefix}{key}", value


def _brief(value: object) -> str:
    if isinstance(value, list) and any(isinstance(member, list) for member in value):
        return f"{len(value)} values"
    if isinstance(value, list) and value and all(isinstance(member, Mapping) for member in value):
        return " and ".join(
            ", ".join(f"{v}" if k == "name" else f"{k} {v}" for k, v in member.items() if v != "{data}")
            for member in value
        )
    text = "not set" if value is None else _FOLDER.sub("", str(value)).replace("{", "").replace("}", "")
    return one_line(text)


def lines_of(table: Table, runs: Mapping[str, StoredRun]) -> list[str]:
    """Return what the runs of a table say beside figures, in lines: the words or sentences that stand out."""
    made = [runs[name] for name in table.runs if name in runs]
    return [str(line) for run in made for line in run.details.get("lines", ())]


def table_text(paper: PaperConfig, table: Table, runs: Mapping[str, StoredRun], width: int) -> str:
    """Return a table for a terminal."""
    judged = judge_claims(table, runs)
    parts = [paragraph(f"{table.paper} {table.name}: {table.title}", width), ""]
    if table.rows:
        legend = "The paper's figure; ours, ± the standard deviation over seeds, or with the 95 % interval over items."
        parts += [paragraph(legend, width), _grid(table, runs, width), ""]
    parts += [paragraph(line, width, "  ") for line in lines_of(table, runs)]
    parts += [paragraph(describe_claim(paper, table, claim, runs), width, "  ", "- ") for claim in judged]
    parts += [paragraph(f"Verdict: {describe_verdict(paper, table, judged)}", width), ""]
    for name in table.runs:
        run = paper.runs[name]
        parts.append(paragraph(f"{name}: {run.title}; {_made(run, runs.get(name))}", width, "    ", "  "))
    if lines := differences(paper, table):
        parts += ["", "What differs:", *(paragraph(line, width, "    ", "  ") for line in lines)]
    return "\n".join(parts)


def _made(run: RunConfig, stored: StoredRun | None) -> str:
    """Return how a result was made, and whether that was with other settings than the run has now."""
    if stored is None:
        return NO_RESULT
    words = f"made in {stored.seconds:.0f} s, {counted(len(stored.seeds), 'seeds')}"
    return words if is_of(run, stored.scale, stored) else f"{words}, with other settings than it has now: make it again"


def _grid(table: Table, runs: Mapping[str, StoredRun], width: int) -> str:
    """Return the figures as a grid if the terminal is wide enough, and else column by column."""
    rows = [["", *table.columns], *figure_rows(table, runs)]
    if sum(max(map(len, cells)) + 2 for cells in zip(*rows, strict=True)) <= width:
        return columns(rows, width)
    blocks = []
    for at, head in enumerate(table.columns, start=1):
        blocks += [head, columns([[row[0], *row[at].split("; ")] for row in rows[1:]], width, indent="    ")]
    return "\n".join(blocks)


_MADE = "<!-- made by: genderbias paper --pages=docs/papers --results=docs/evidence/papers -->"


def pages(runs: Mapping[str, StoredRun]) -> dict[str, str]:
    """Return the pages of the papers in markdown, by the names of their files: a front page, and one a paper."""
    papers = [load_paper(name) for name in paper_names()]
    overview = [
        f"{_MADE}\n\n| paper | tables and figures | claims, each counted once |",
        "|---|---|---|",
        *(f"| [{escape(one.title)}]({one.name}.md) | {len(one.tables)} | {_claims(one, runs)} |" for one in papers),
    ]
    front = Path(__file__).with_name("front.md").read_text(encoding="utf-8")
    made = {"index.md": [front.replace("{front}", "\n".join(overview)), _cost(papers, runs)]}
    for paper in papers:
        made[f"{paper.name}.md"] = [
            f"# {escape(paper.title)}\n\n{_MADE}\n\nWhat the verdicts mean stands on [the front page](index.md).",
            "\n".join(_overview(paper, runs)),
            *("\n".join(_details(paper, table, runs)) for table in paper.tables.values()),
            "\n".join(_scale_of_the_paper(paper)),
        ]
    return {name: "\n\n".join(part.rstrip() for part in parts) + "\n" for name, parts in made.items()}


def _cost(papers: list[PaperConfig], runs: Mapping[str, StoredRun]) -> str:
    """Return how long the runs of both scales take."""
    configs = [run for paper in papers for run in paper.runs.values()]
    made = [run for run in configs if run.name in runs]
    gpu = sum(run.gpu_hours or 0 for run in configs)
    return (
        f"{len(made)} of {sum(SMALL in run.scales for run in configs)} small runs have a result."
        f"{_cost_of_the_small_scale(made, runs) if made else ''} The paper's scale of"
        f" {sum(PAPER in run.scales for run in configs)} runs is estimated at {gpu:,.0f} GPU hours; it was not run."
    )


def _cost_of_the_small_scale(made: Sequence[RunConfig], runs: Mapping[str, StoredRun]) -> str:
    """Return the hours of all small runs, and the minutes of the longest row."""
    minutes = {run.name: minutes_of(run, runs[run.name]) for run in made}
    hours = sum(minutes.values()) / 60
    longest = max(made, key=lambda run: minutes[run.name] / run.rows)
    most = max(made, key=lambda run: minutes[run.name])
    timed = sum(runs[run.name].processor_seconds is not None for run in made)
    return (
        f" Together they take at most {hours:.1f} hours of one core, or {hours / 2:.1f} hours of two with a run on"
        " each. The longest row of a table, one method or task with all its seeds, takes"
        f" {minutes[longest.name] / longest.rows:.0f} minutes on average over its run ({longest.name}); the longest"
        f" run, {most.name}, makes {counted(most.rows, 'rows')} in {minutes[most.name]:.0f} minutes. The times of"
        f" {counted(timed, 'runs')} are processor times; the others are wall times beside other work. Of an interrupted"
        " run the time that was expected counts where it is longer."
    )


def minutes_of(run: RunConfig, stored: StoredRun) -> float:
    """Return how many minutes of one core a small run takes.

    That is its processor time, or its wall time for a result without it. Both lack what was done before an
    interruption, so that the minutes of the config count where they are more.

    >>> stored = StoredRun("a", "small", {}, [0], {}, seconds=120.0)
    >>> minutes_of(RunConfig("a", "", "mitigation", {}, minutes=4.0), stored)
    4.0
    """
    seconds = stored.seconds if stored.processor_seconds is None else stored.processor_seconds
    return max(seconds / 60, run.minutes or 0.0)


def _overview(paper: PaperConfig, runs: Mapping[str, StoredRun]) -> Iterator[str]:
    yield "| | what it shows | ours; the paper's | verdict |"
    yield "|---|---|---|---|"
    for table in paper.tables.values():
        verdict = describe_verdict(paper, table, judge_claims(table, runs))
        yield (
            f"| [{_called(table)}](#{table.paper}-{table.name}) | {escape(table.title)} |"
            f" {escape(_first_figure(table, runs))} | {escape(verdict)} |"
        )
    yield ""
    yield f"Claims, each counted once: {_claims(paper, runs)}."


def _first_figure(table: Table, runs: Mapping[str, StoredRun]) -> str:
    """Return the first figure that both have, ours first."""
    for row, cells in table.rows.items():
        for column, (text, locator) in cells.items():
            ours = figure_at(runs, locator) if locator else None
            if ours is not None and ours.mean is not None and text is not None:
                return f"{row}, {column}: {shown(ours)}; {text}"
    return "-"


def _details(paper: PaperConfig, table: Table, runs: Mapping[str, StoredRun]) -> Iterator[str]:
    yield f"## {paper.name}, {_called(table)}"
    yield ""
    yield f"{escape(table.title)}."
    if table.rows:
        yield ""
        yield f"| the paper's; ours | {' | '.join(map(escape, table.columns))} |"
        yield f"|---|{'---|' * len(table.columns)}"
        yield from (f"| {' | '.join(map(escape, row))} |" for row in figure_rows(table, runs))
    if lines := lines_of(table, runs):
        yield ""
        yield from (f"- {escape(line)}" for line in lines)
    if judged := judge_claims(table, runs):
        yield ""
        yield from (f"- {escape(describe_claim(paper, table, claim, runs))}" for claim in judged)
    if lines := differences(paper, table):
        yield ""
        yield f"What differs: {'; '.join(map(escape, lines))}."
    if table.needs:
        yield ""
        yield f"Needs: {escape(table.needs)}."


def _scale_of_the_paper(paper: PaperConfig) -> Iterator[str]:
    """Yield what the trainings of the paper's scale need: memory, and hours by card."""
    yield f"## {paper.name}, the paper's scale\n\n| run | memory, GB | {' | '.join(CARDS)} |"
    yield f"|---|---|{'---|' * len(CARDS)}"
    for run in paper.runs.values():
        if PAPER in run.scales and run.memory is not None:
            hours = (run.gpu_hours or 0.0) * CARDS[_ESTIMATED_ON][1]
            cells = [f"{hours / peak:,.0f}" if run.memory <= size else "-" for size, peak in CARDS.values()]
            yield f"| {run.name} | {run.memory:g} | {' | '.join(cells)} |"


def _called(table: Table) -> str:
    return table.name.replace("-", " ")


Tell = Callable[[str], object]
_PREFIX = "paper-"  #: begins the name of a result at the paper's scale


def result_name(run: RunConfig, scale: str) -> str:
    """Return the name of the file of a result, without ``.json``.

    >>> result_name(RunConfig("bios-scrubbing", "", "mitigation", {}), "paper")
    'paper-bios-scrubbing'
    """
    return f"{_PREFIX}{run.name}" if scale == PAPER else run.name


def make_runs(
    paper: PaperConfig, names: Sequence[str], scale: str, places: Places, results: Path, tell: Tell = print
) -> list[str]:
    """Make the named runs that have no result of their settings, and return the names of those that failed.

    A result that lacks nothing but seeds is extended by them. A run that fails, by whatever error, leaves the others as
    they are.

    Args:
        paper: the paper.
        names: of its runs.
        scale: ``small`` or ``paper``.
        places: where models, data and trainings lie.
        results: folder of the results.
        tell: is given a line for each run.
    """
    failed = []
    for name in names:
        run = paper.runs[name]
        if scale not in run.scales:
            tell(f"{name}: has no settings for the {scale} scale")
            continue
        path = results / f"{result_name(run, scale)}.json"
        made = read_run(path) if path.exists() else None
        if made and is_of(run, scale, made):
            tell(f"{name}: has a result ({path}); delete it to make it again")
            continue
        missing = missing_seeds(run, scale, made) if made else []
        tell(f"{name}: {run.title}{_expected(run, scale, missing)}")
        try:
            new = make_run(run, scale, places, missing)
            stored = extended(made, new, run, places) if made and missing else new
        except BiasError as error:
            failed.append(name)
            tell(f"{name}: {type(error).__name__}: {error}")
            continue
        except Exception:  # a defect in one run should not cost the others their results
            failed.append(name)
            tell(f"{name}: failed by a defect, which the lines below show\n{traceback.format_exc().rstrip()}")
            continue
        write_run(stored, results)
        tell(f"{name}: made in {new.seconds:.0f} s")
    return failed


def is_of(run: RunConfig, scale: str, stored: StoredRun) -> bool:
    """Return whether a result is of the settings that a run has now."""
    return stored.settings == run.scales.get(scale)


def _expected(run: RunConfig, scale: str, missing: Sequence[int]) -> str:
    """Return which seeds are made, unless all are, and about how long it takes."""
    seeds = f", seeds {', '.join(map(str, missing))} beside those it has" if missing else ""
    if scale == PAPER or not run.minutes:
        return seeds
    share = len(missing) / len(seeds_of(run.scales[scale]["seeds"])) if missing else 1
    return f"{seeds}, about {run.minutes * share:.2g} min of one core"


def make_run(run: RunConfig, scale: str, places: Places, seeds: Sequence[int] = ()) -> StoredRun:
    """Carry out a run, with its own seeds or with ``seeds``, and return its result.

    Raises:
        BiasError: a model, data set or setting is missing or wrong.
    """
    settings = {**run.scales[scale], "seeds": list(seeds)} if seeds else run.scales[scale]
    start, used = time.perf_counter(), time.process_time()
    outcome = KINDS[run.kind](placed(settings, places), places)
    spent = round(time.perf_counter() - start, 1), round(time.process_time() - used, 1)
    found = list(outcome.seeds), outcome.figures, outcome.details
    return StoredRun(result_name(run, scale), scale, settings, *found, *spent, versions())


def missing_seeds(run: RunConfig, scale: str, made: StoredRun) -> list[int]:
    """Return the seeds that a result lacks, where it differs in nothing else from what the run is now; otherwise none.

    Only results of several seeds of a kind of ``FURTHER_SEEDS`` are extended, and without a grid, whose best point all
    seeds choose.
    """
    settings, known = run.scales[scale], list(made.seeds)
    if run.kind not in FURTHER_SEEDS or "grid" in settings or len(known) < 2:
        return []
    seeds = list(seeds_of(settings.get("seeds", 1)))
    is_start = seeds[: len(known)] == known and settings == {**made.settings, "seeds": settings.get("seeds")}
    return seeds[len(known) :] if is_start else []


def extended(made: StoredRun, new: StoredRun, run: RunConfig, places: Places) -> StoredRun:
    """Return the result of the seeds of two results of a run, as if all seeds had been made at once.

    The times are sums. In that of the processor, the wall time of a result without processor time counts.
    """
    outcome = FURTHER_SEEDS[run.kind](made, new, places)
    used = sum(part.processor_seconds or part.seconds for part in (made, new))
    return replace(
        new,
        settings=run.scales[made.scale],
        seeds=list(outcome.seeds),
        figures=outcome.figures,
        details=outcome.details,
        seconds=round(made.seconds + new.seconds, 1),
        processor_seconds=round(used, 1),
    )


def check_run(run: RunConfig, places: Places) -> str:
    """Carry out the paper's scale of a run as far as a small machine goes: with its stand-in, in a temporary folder.

    The stand-in replaces what a small machine lacks: a large checkpoint by a small one, all of a data set by a few
    rows, all steps by one.

    Returns:
        What was done, in a line.

    Raises:
        BiasError: a setting of the config is wrong, or what the stand-in needs is missing.
    """
    if PAPER not in run.scales:
        raise SettingError(f"{run.name} has no settings for the paper's scale")
    if not run.stand_in:
        raise SettingError(f"{run.name} has no stand-in, so that nothing of it can be checked here")
    settings: Mapping[str, Any] = overlaid(run.scales[PAPER], run.stand_in)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="genderbias-") as folder:
        there = Places({**places.named, "runs": folder}, Path(folder), places.progress)
        outcome = KINDS[run.kind](placed(settings, there), there)
    return f"{run.name}: checked with a stand-in, {len(outcome.figures)} figures in {time.perf_counter() - start:.0f} s"
