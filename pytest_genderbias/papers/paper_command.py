"""``genderbias paper``: the tables of the five papers, the paper's figures beside ours, and the runs behind ours."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_genderbias.errors import BiasError, SettingError
from pytest_genderbias.escaping import print_lines
from pytest_genderbias.folders import write_whole
from pytest_genderbias.mitigation.harness.run import share_trainings
from pytest_genderbias.papers.claims import judge_claims
from pytest_genderbias.papers.config import PAPER, PaperConfig, Table, load_paper, load_table, paper_names
from pytest_genderbias.papers.places import Places, packaged_results, read_runs
from pytest_genderbias.papers.shown import check_run, make_runs, pages, short_verdict, table_text
from pytest_genderbias.text.columns import columns, paragraph


def carry_out(values: Mapping[str, Any]) -> int:
    """List papers or tables, or make the runs of a table and show it. Of several processes, the first does all but its
    trainings alone.
    """
    if values["runs"]:
        share_trainings()
    results = _results_folder(values["results"], values["runs"], values["scale"])
    if values["pages"]:
        if values["scale"] == PAPER:
            raise SettingError("--pages shows results of the small scale; leave --scale out")
        for name, text in pages(read_runs(results)).items():
            write_whole(Path(values["pages"]) / name, text.encode())
        return 0
    width = shutil.get_terminal_size().columns
    if values["paper"] is None:
        rows = [(name, load_paper(name).title) for name in paper_names()]
        print_lines(columns(rows, width))
        return 0
    paper = load_paper(values["paper"])
    tables = [load_table(paper.name, values["table"])] if values["table"] else list(paper.tables.values())
    names = _selected(paper, tables, values["only"])
    if values["check"]:
        return _check(paper, names, _places(values))
    failed: list[str] = []
    if values["scale"] == PAPER:
        print_lines(paragraph(_to_fetch(paper, names), width))
    if values["runs"]:
        try:
            failed = make_runs(paper, names, values["scale"], _places(values), results, print_lines)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("the same command goes on with what is not complete") from None
    stored, before = read_runs(results).items(), "paper-" if values["scale"] == PAPER else ""
    runs = {name.removeprefix(before): run for name, run in stored if run.scale == values["scale"]}
    if values["table"]:
        print_lines(table_text(paper, tables[0], runs, width))
        if not values["runs"] and any(values["scale"] in paper.runs[name].scales for name in names if name not in runs):
            of_scale = f" --scale={PAPER}" if values["scale"] == PAPER else ""
            command = f"genderbias paper {paper.name} {tables[0].name} --data=DIR --runs=DIR{of_scale}"
            print_lines(f"\nTo make its runs: {command}")
    else:
        verdicts = [short_verdict(paper, table, judge_claims(table, runs)) for table in tables]
        print_lines(columns([(t.name, v, t.title) for t, v in zip(tables, verdicts, strict=True)], width))
    return 1 if failed else 0


def _results_folder(results: str | None, runs: str | None, scale: str) -> Path:
    """Return the folder of the results: the one named, that of the runs, or that of the small runs in the package."""
    if results is not None:
        return Path(results)
    if runs is None and scale != PAPER:
        return packaged_results()
    return Path(runs or "genderbias-papers") / "results" / scale


def _places(values: Mapping[str, Any]) -> Places:
    """Return the paths that runs name.

    Raises:
        SettingError: ``--place`` is not NAME=PATH, or a path does not exist.
    """
    named = {}
    for text in values["place"]:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise SettingError(f"--place takes NAME=PATH, as glove=vectors.txt; got {text!r}")
        named[name] = path
    if values["data"]:
        named["data"] = values["data"]
    for name, path in named.items():
        if not Path(path).exists():
            raise SettingError(f"{name}: there is no {path}")
    trainings = Path(values["runs"] or "genderbias-papers")
    absolute = {name: str(Path(path).absolute()) for name, path in named.items()}
    return Places({**absolute, "runs": str(trainings.absolute())}, trainings.absolute(), sys.stderr.isatty())


def _selected(paper: PaperConfig, tables: Iterable[Table], only: str | None) -> list[str]:
    """Return the names of the runs of some tables, each once, limited to those that ``--only`` names."""
    names = list(dict.fromkeys(name for table in tables for name in table.runs))
    if only is None:
        return names
    wanted = only.split(",")
    if unknown := [name for name in wanted if name not in names]:
        raise SettingError(f"--only names {unknown[0]!r}; expected some of {', '.join(names)}")
    return [name for name in names if name in wanted]


def _check(paper: PaperConfig, names: Iterable[str], places: Places) -> int:
    status = 0
    for name in names:
        if PAPER not in paper.runs[name].scales:
            print_lines(f"{name}: of the small scale only")
            continue
        try:
            print_lines(check_run(paper.runs[name], places))
        except BiasError as error:
            print_lines(f"{name}: {type(error).__name__}: {error}")
            status = 1
    return status


def _to_fetch(paper: PaperConfig, names: Iterable[str]) -> str:
    """Return what has to be fetched for the paper's scale, and what it costs."""
    runs = [paper.runs[name] for name in names]
    fetched = list(dict.fromkeys(what for run in runs for what in run.fetch))
    hours = sum(run.gpu_hours or 0 for run in runs)
    return f"The paper's scale: about {hours:,.0f} GPU hours. To fetch: {'; '.join(fetched) or 'nothing'}."
