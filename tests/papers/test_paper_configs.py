"""The configs of the papers: they load, name what there is, and fit the stored results."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from math import prod
from pathlib import Path

import pytest

from pytest_genderbias.errors import DataFileError, SettingError, UnknownNameError
from pytest_genderbias.mitigation.methods.registry import make_recipe, resolve_method
from pytest_genderbias.papers import config
from pytest_genderbias.papers.claims import DIFFERS, judge_claims
from pytest_genderbias.papers.config import NEAR, PAPER, SMALL, RunConfig, load_paper, load_table, overlaid, paper_names
from pytest_genderbias.papers.places import (
    TEXTS,
    Places,
    StoredFigure,
    StoredRun,
    names_in,
    placed,
    read_runs,
    without_paths,
)
from pytest_genderbias.papers.shown import (
    KINDS,
    describe_claim,
    describe_verdict,
    figure_rows,
    is_of,
    minutes_of,
    pages,
)
from pytest_genderbias.suites.suite import load_suite

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "evidence" / "papers"
PLACES = Places(
    dict.fromkeys(
        ("data", "glove", "glove300", "encoder", "ptb", "cnn", "ontonotes", "wikipedia", "runs", *TEXTS), "."
    ),
    Path(),
)


def scaled_runs():
    return [
        pytest.param(run, scale, id=f"{paper}-{run.name}-{scale}")
        for paper in paper_names()
        for run in load_paper(paper).runs.values()
        for scale in run.scales
    ]


suite_of = cache(load_suite)  # the runs name the same suites


@pytest.fixture(scope="module")
def results():
    return read_runs(RESULTS)


@pytest.mark.parametrize("paper", paper_names())
def test_a_paper_has_tables_and_every_run_is_of_one(paper):
    loaded = load_paper(paper)
    used = {name for table in loaded.tables.values() for name in table.runs}
    assert loaded.tables and used == loaded.runs.keys()
    assert not [table.name for table in loaded.tables.values() if not table.claims and not table.needs]


@pytest.mark.parametrize(("run", "scale"), scaled_runs())
def test_a_run_names_kinds_recipes_methods_suites_and_paths_that_there_are(run, scale):
    settings = run.scales[scale]
    assert run.kind in KINDS
    assert names_in(settings) <= PLACES.named.keys()
    settings = placed(settings, PLACES)
    stages = [settings, *settings.get("then", ())]
    for stage in stages:
        if "recipe" in stage:
            make_recipe(**stage["recipe"])
        for entry in stage.get("measure", ()):
            suite_of(entry["suite"])
    if "method" in settings:
        resolve_method(settings["method"])
    for method in settings.get("methods", {}).values():
        resolve_method(method)
    for entry in (*settings.get("intrinsic", ()), *settings.get("extrinsic", ())):
        assert suite_of(entry["suite"]).statistics.keys() >= set(entry["statistics"])


@pytest.mark.parametrize(("run", "scale"), [param for param in scaled_runs() if param.values[1] == PAPER])
def test_the_papers_scale_says_what_it_needs_and_how_it_is_checked(run, scale):
    assert run.fetch and run.gpu_hours is not None and run.stand_in


@pytest.mark.parametrize(("run", "scale"), [param for param in scaled_runs() if param.values[1] == SMALL])
def test_a_row_of_the_small_scale_takes_a_quarter_of_an_hour_at_most(run, scale, results):
    if run.name in results:
        assert round(minutes_of(run, results[run.name]) / run.rows) <= 15
    sides = run.scales[SMALL].get("methods") or run.scales[SMALL].get("sides") or {}
    grid = run.scales[SMALL].get("grid", {})
    points = prod(map(len, grid.values())) if grid else 3  # before, after and control
    stages = run.scales[SMALL].get("then", ())
    assert 1 <= run.rows <= max(points, len(sides) + (run.kind == "agreement"), len(stages))


def test_the_page_states_the_time_of_all_runs(results):
    """The sum is taken here from the files alone: processor times, or else wall times, and expectations where they are
    longer.
    """
    hours = 0.0
    for paper in paper_names():
        for name, run in load_paper(paper).runs.items():
            if (path := RESULTS / f"{name}.json").is_file():
                stored = json.loads(path.read_text(encoding="utf-8"))
                used = stored.get("processor_seconds") or stored["seconds"]
                hours += max(used, 60 * (run.minutes or 0)) / 3600
    assert (
        f"Together they take at most {hours:.1f} hours of one core, or {hours / 2:.1f} hours of two"
        in pages(results)["index.md"]
    )


def test_a_processor_time_is_preferred_and_an_interrupted_run_is_not_called_short():
    run = RunConfig("a", "", "mitigation", {}, minutes=10.0, rows=5)
    interrupted = StoredRun("a", "small", {}, [0], {}, seconds=60.0)
    assert minutes_of(run, interrupted) == 10.0
    assert minutes_of(run, replace(interrupted, seconds=6000.0)) == 100.0
    assert minutes_of(run, replace(interrupted, seconds=6000.0, processor_seconds=1200.0)) == 20.0


def test_run_names_are_unique_over_the_papers():
    names = [name for paper in paper_names() for name in load_paper(paper).runs]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("paper", paper_names())
def test_every_figure_and_claim_is_found_in_the_stored_results(paper, results):
    for table in load_paper(paper).tables.values():
        figure_rows(table, results)
        for judged in judge_claims(table, results):
            assert judged.verdict != DIFFERS or judged.claim.because, (
                f"{table.name}: {judged.claim.text} differs here, and nothing says why"
            )


@pytest.mark.parametrize("paper", paper_names())
def test_lower_and_reduced_of_a_figure_with_a_sign_compare_absolute_values(paper):
    signed = {"pearson_r", "slope", "f1_gap", "beta", "signed_bias"}
    for table in load_paper(paper).tables.values():
        for claim in table.claims:
            words = {"lower", "lowers", "reduces", "reduced", "less", "smaller", "biased"} & set(
                claim.text.replace(".", " ").lower().split()
            )
            compares = isinstance(claim.other, str) and claim.relation != NEAR and "/similarity/" not in claim.figure
            if claim.figure.rpartition("/")[2] in signed and compares and words:
                assert claim.absolute, f"{table.name}: {claim.text}"


@pytest.mark.skipif(not RESULTS.is_dir(), reason="the stored results lie in the checkout")
def test_stored_results_are_of_the_settings_that_the_runs_have(results):
    runs = {name: run for paper in paper_names() for name, run in load_paper(paper).runs.items()}
    assert results and results.keys() <= runs.keys()
    assert not [name for name, stored in results.items() if not is_of(runs[name], SMALL, stored)]
    assert not [path.name for path in RESULTS.glob("*.json") if '"/' in path.read_text(encoding="utf-8")]


@pytest.mark.skipif(not RESULTS.is_dir(), reason="the pages lie in the checkout")
def test_the_pages_are_those_of_the_results(results):
    folder = ROOT / "docs" / "papers"
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")} == pages(results), (
        "genderbias paper --pages=docs/papers --results=docs/evidence/papers makes them anew"
    )


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        ("small", "too small to say (of 2 claims 1 agrees, 1 no result yet)"),
        ("paper", "too small to say (of 2 claims 1 agrees, 1 needs the paper's scale)"),
    ],
)
def test_a_claim_without_a_result_is_not_too_small_to_say(own_configs, scale, words):
    (own_configs / "runs.yaml").write_text(RUNS + f"  b: {{title: another run, {scale}: {{seeds: 3}}}}\n")
    claims = ", ".join(f"{{claim: c, figure: {run} before/s/x, above: 0}}" for run in "ab")
    (own_configs / "table-1.yaml").write_text(f"{TABLE}claims: [{claims}]\n")
    runs = {"a": StoredRun("a", "small", {"seeds": 3}, [0, 1, 2], {"before/s/x": StoredFigure([0.5, 0.6, 0.7])})}
    paper = load_paper("doe2020")
    judged = judge_claims(paper.tables["table-1"], runs)
    assert describe_verdict(paper, paper.tables["table-1"], judged) == words
    assert describe_claim(paper, paper.tables["table-1"], judged[1], runs).startswith(
        "no result yet" if scale == "small" else "needs the paper's"
    )


SIZED = """
title: a table
columns: {Before: a before, After: a after}
rows:
  Neutral: {ours: s/net_neutral, paper: ["0.50", 0.75 ± 0.01]}
claims:
  - {claim: It rises., figure: a after/s/net_neutral, above: a before/s/net_neutral, section: "1"}
  - {claim: It is above a number., figure: a after/s/net_neutral, above: 0.25, section: "1"}
"""


def test_a_claim_without_an_effect_of_the_papers_size_names_both_sizes(own_configs):
    """The published difference is that of the rows; seeds that differ by -.01 to .01 leave less than half of it."""
    (own_configs / "runs.yaml").write_text(RUNS)
    (own_configs / "table-1.yaml").write_text(SIZED)
    before, after = StoredFigure([0.5, 0.5, 0.5, 0.5]), StoredFigure([0.49, 0.51, 0.5, 0.5])
    figures = {"before/s/net_neutral": before, "after/s/net_neutral": after}
    runs = {"a": StoredRun("a", "small", {"seeds": 4}, [0, 1, 2, 3], figures)}
    paper = load_paper("doe2020")
    judged = judge_claims(paper.tables["table-1"], runs)
    assert [one.claim.published for one in judged] == [0.25, None]
    assert describe_claim(paper, paper.tables["table-1"], judged[0], runs) == (
        "differs: It rises. (section 1; difference 0.000, -0.010 to 0.010 over restarts);"
        " no effect of the paper's size: ours is at most 0.010, the paper's 0.250"
    )
    lower = replace(runs["a"], figures=figures | {"after/s/net_neutral": StoredFigure([0.3, 0.29, 0.31, 0.3])})
    (one, _) = judge_claims(paper.tables["table-1"], {"a": lower})
    assert one.verdict == DIFFERS and "size" not in describe_claim(paper, paper.tables["table-1"], one, {"a": lower})


def test_changes_are_merged_and_none_removes():
    base = {"recipe": {"name": "nli", "epochs": 3}, "seeds": 3, "measure": [1]}
    assert overlaid(base, {"recipe": {"epochs": None, "data": "x"}, "measure": [2]}) == {
        "recipe": {"name": "nli", "data": "x"},
        "seeds": 3,
        "measure": [2],
    }
    assert base["recipe"] == {"name": "nli", "epochs": 3}


def test_paths_are_named_and_do_not_reach_results(tmp_path):
    places = Places({"data": str(tmp_path)}, tmp_path / "runs")
    assert placed(["{data}/models/x"], places) == [f"{tmp_path}/models/x"]
    assert without_paths({"model": f"{tmp_path}/models/x", "of": "/elsewhere/y"}, places) == {
        "model": "models/x",
        "of": "y",
    }
    with pytest.raises(SettingError, match="needs glove"):
        placed("{glove}", places)


@pytest.fixture
def own_configs(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "CONFIGS", tmp_path)
    folder = tmp_path / "doe2020"
    folder.mkdir()
    load_paper.cache_clear()
    yield folder
    load_paper.cache_clear()


RUNS = "title: Doe 2020\norder: [table-1]\nruns:\n  a: {title: a run, small: {seeds: 3}}\n"
TABLE = "title: a table\ncolumns: {Before: a before}\nrows:\n  Bias: {ours: s/x, paper: [0.5 ± 0.1]}\n"


def test_a_config_by_hand(own_configs):
    (own_configs / "runs.yaml").write_text(RUNS)
    (own_configs / "table-1.yaml").write_text(TABLE)
    assert load_table("doe2020", "table-1").rows == {"Bias": {"Before": ("0.5 ± 0.1", "a before/s/x")}}
    with pytest.raises(UnknownNameError, match="doe2020 has no 'table-2'; did you mean table-1"):
        load_table("doe2020", "table-2")


@pytest.mark.parametrize(
    ("runs", "table", "message"),
    [
        (RUNS, TABLE.replace("[0.5", "[0.5, 1"), "has 2 figures for 1 columns"),
        (RUNS, TABLE.replace("0.5 ±", "half ±"), "expected a number"),
        (RUNS, TABLE.replace("a before", "b before"), "no run of runs.yaml is called 'b'"),
        (RUNS.replace("[table-1]", "[table-2]"), TABLE, "'order' should name table-1"),
        (RUNS.replace("seeds: 3}", "seeds: 3}, like: c"), TABLE, "is like 'c', which no run above is called"),
        (
            RUNS,
            TABLE + "claims: [{claim: c, figure: a before/s/x, above: 0, below: 1}]\n",
            "needs one of above, below, or near",
        ),
        (
            RUNS,
            TABLE + "claims: [{claim: c, figure: a before/s/x, near: 0}]\n",
            "needs one of above, below, or near with within",
        ),
    ],
)
def test_wrong_configs_are_refused_with_their_file(own_configs, runs, table, message):
    (own_configs / "runs.yaml").write_text(runs)
    (own_configs / "table-1.yaml").write_text(table)
    with pytest.raises(DataFileError, match=message) as refused:
        load_paper("doe2020")
    assert "doe2020" in str(refused.value)
