"""The page of the papers: a row for each table and figure with its verdict, and below each its figures and claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_genderbias.papers.claims import judge_claims
from pytest_genderbias.papers.config import PAPER, SMALL, PaperConfig, RunConfig, Table, load_paper, paper_names
from pytest_genderbias.papers.shown import (
    claim_in_words,
    claims_in_words,
    differences,
    figure_rows,
    lines_of,
    shown,
    verdict_in_words,
)
from pytest_genderbias.papers.stored import StoredRun, figure_at
from pytest_genderbias.text.numbers import counted
from pytest_genderbias.text.printable import escape

_HEAD = """\
# The papers, table by table

<!-- Generated from the configs of the papers and the stored results: genderbias paper --page=docs/papers.md --results=docs/evidence/papers -->

Each table and figure of the five papers that has figures has a row here. Without figures, and so without a row, are lu2018's table 1 (the models), bordia2019's figure 1 (the network) and table 4 (generated texts), webster2020's table 1 (the metrics), and orgad2022's figures 1 and 2 (the method and an example). The configs hold the published figures and what the table says as *claims*: relations of figures, such as "scrubbing lowers the TPR gap
sum". Small runs on the project's test models decide each claim by one-sided 95 % bounds: over restarts, seed by seed, where something is trained, and over items where nothing is, or once only, which the table then says. A figure without bounds that is a fact of its model, with nothing trained or drawn for it, decides by its value. "Lower", "reduced" and "more biased" of a figure with a sign compare absolute values. Bounds of differences over restarts keep the suite's items as they are; those of a figure against a number hold for other items, too, where it has an interval over them. Where the seeds are splits of the same texts, the bounds are wider, since the splits share texts. Nothing is corrected for the number of claims: of twenty claims without any effect behind them, one is confirmed by chance.

- *agrees*: the bounds confirm more than half of the claims, and refute none.
- *differs*: the bounds refute a claim.
- *too small to say*: the bounds refute no claim, and leave half of them or more undecided.
- *needs the paper's scale*: no run of the small scale can show it.
- *no result yet*: nobody has made the small runs.

The absolute figures of small models on small data are not those of the papers, and nobody should expect it; the page puts them side by side. `genderbias paper NAME TABLE` shows one table, and makes its runs with `--data` and `--runs`.
"""


def page_text(runs: Mapping[str, StoredRun]) -> str:
    """Return the page of all papers in markdown."""
    papers = [load_paper(name) for name in paper_names()]
    parts = [_HEAD, _cost(papers, runs)]
    for paper in papers:
        parts += [
            "\n".join(_overview(paper, runs)),
            *("\n".join(_details(paper, table, runs)) for table in paper.tables.values()),
        ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _cost(papers: list[PaperConfig], runs: Mapping[str, StoredRun]) -> str:
    """Return how long the runs of both scales take."""
    configs = [run for paper in papers for run in paper.runs.values()]
    made = [run for run in configs if run.name in runs]
    gpu = sum(run.gpu_hours or 0 for run in configs)
    parts = [
        f"{len(made)} of {sum(SMALL in run.scales for run in configs)} small runs have a result.",
        *([_cost_of_the_small_scale(made, runs)] if made else []),
        (
            f"The paper's scale of {sum(PAPER in run.scales for run in configs)} runs is estimated at {gpu:,.0f} GPU"
            " hours; it was not run."
        ),
    ]
    return " ".join(parts)


def _cost_of_the_small_scale(made: Sequence[RunConfig], runs: Mapping[str, StoredRun]) -> str:
    """Return the hours of all small runs, and the minutes of the longest row."""
    minutes = {run.name: minutes_of(run, runs[run.name]) for run in made}
    hours = sum(minutes.values()) / 60
    by_row = {run.name: minutes[run.name] / run.rows for run in made}
    longest = max(by_row, key=by_row.__getitem__)
    most = max(made, key=lambda run: minutes[run.name])
    timed = sum(runs[run.name].processor_seconds is not None for run in made)
    return (
        f"Together they take at most {hours:.1f} hours of one core, or {hours / 2:.1f} hours of two cores with a run on"
        f" each. The longest row of a table, one method or task with all its seeds, takes {by_row[longest]:.0f} minutes"
        f" on average over its run ({longest}); the longest run, {most.name}, makes {counted(most.rows, 'rows')} in"
        f" {minutes[most.name]:.0f} minutes. An interrupted run goes on at the training where it stopped. The times of"
        f" {counted(timed, 'runs')} are processor times; the others are wall times beside other work, which are longer."
        " An interrupted run keeps the time of its last part only, so that the time that was expected of a run counts"
        " where it is longer."
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
    yield f"## {escape(paper.title)}"
    yield ""
    yield "| | what it shows | ours; the paper's | verdict |"
    yield "|---|---|---|---|"
    for table in paper.tables.values():
        verdict = verdict_in_words(paper, table, judge_claims(table, runs))
        yield (
            f"| [{_called(table)}](#{_anchor(table)}) | {escape(table.title)} | {escape(_first_figure(table, runs))} |"
            f" {escape(verdict)} |"
        )
    yield ""
    yield claims_in_words(paper, runs)


def _first_figure(table: Table, runs: Mapping[str, StoredRun]) -> str:
    """Return the first figure that both have, ours first."""
    for figure in table.figures:
        ours = figure_at(runs, figure.ours) if figure.ours else None
        if ours is not None and ours.mean is not None and figure.text is not None:
            return f"{figure.row}, {figure.column}: {shown(ours)}; {figure.text}"
    return "-"


def _details(paper: PaperConfig, table: Table, runs: Mapping[str, StoredRun]) -> Iterator[str]:
    yield f"### {paper.name}, {_called(table)}"
    yield ""
    yield f"{escape(table.title)}."
    if table.figures:
        yield ""
        yield f"| the paper's; ours | {' | '.join(map(escape, table.columns))} |"
        yield f"|---|{'---|' * len(table.columns)}"
        yield from (f"| {' | '.join(map(escape, row))} |" for row in figure_rows(table, runs))
    if lines := lines_of(table, runs):
        yield ""
        yield from (f"- {escape(line)}" for line in lines)
    if judged := judge_claims(table, runs):
        yield ""
        yield from (f"- {escape(claim_in_words(paper, table, claim))}" for claim in judged)
    if lines := differences(paper, table):
        yield ""
        yield f"What differs: {'; '.join(map(escape, lines))}."
    if table.needs:
        yield ""
        yield f"Needs: {escape(table.needs)}."


def _anchor(table: Table) -> str:
    """Return the anchor that renderers of markdown give to the heading of a table."""
    return f"{table.paper}-{table.name}"


def _called(table: Table) -> str:
    return table.name.replace("-", " ")
