"""``genderbias paper``: lists, tables, and runs that are made once."""

from __future__ import annotations

import json

import pytest

from pytest_genderbias.command_line.main import main
from pytest_genderbias.papers import config
from pytest_genderbias.papers import shown as module
from pytest_genderbias.papers.config import load_paper
from pytest_genderbias.papers.places import packaged_results

RUNS = """\
title: Doe 2020
order: [table-1]
runs:
  demo:
    title: the demo model as it is
    minutes: 0.1
    small: {model: demo-lm, measure: [{suite: lm-occupation, limit: 200}]}
    paper: {model: no-such-model, measure: [{suite: lm-occupation}]}
    fetch: [a large model]
    gpu_hours: 3
    stand_in: {model: demo-lm, measure: [{suite: lm-occupation, limit: 50}]}
"""
TABLE = """\
title: Bias of a language model
columns: {Before: demo before}
rows:
  AOB: {ours: lm-occupation/aggregate_bias, paper: [0.054]}
claims:
  - {claim: The model is biased., figure: demo before/lm-occupation/aggregate_bias, above: 0}
"""


@pytest.fixture
def own_paper(tmp_path, monkeypatch):
    folder = tmp_path / "configs" / "doe2020"
    folder.mkdir(parents=True)
    (folder / "runs.yaml").write_text(RUNS)
    (folder / "table-1.yaml").write_text(TABLE)
    monkeypatch.setattr(config, "CONFIGS", folder.parent)
    monkeypatch.setenv("COLUMNS", "160")
    load_paper.cache_clear()
    yield tmp_path
    load_paper.cache_clear()


def test_papers_and_tables_are_listed(own_paper, capsys):
    assert main(["paper"]) == 0
    assert "doe2020  Doe 2020" in capsys.readouterr().out
    assert main(["paper", "doe2020", "--results", str(own_paper / "none")]) == 0
    assert "table-1  no result yet" in capsys.readouterr().out


def test_the_stored_results_are_shown_without_flags(capsys, monkeypatch, tmp_path):
    folder = packaged_results()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["paper", "lu2018", "table-4"]) == 0
    implicit = capsys.readouterr().out
    assert main(["paper", "lu2018", "table-4", "--results", str(folder)]) == 0
    assert implicit == capsys.readouterr().out and "no result yet" not in implicit
    assert main(["paper", "lu2018", "table-4", "--scale", "paper"]) == 0
    assert "no result yet" in capsys.readouterr().out


def test_what_differs_names_models_without_their_folders(own_paper, capsys):
    runs = own_paper / "configs" / "doe2020" / "runs.yaml"
    small = 'small: {model: "{data}/models/tiny", recipe: {data: "{data}"}, measure'
    runs.write_text(runs.read_text().replace("small: {model: demo-lm, measure", small))
    load_paper.cache_clear()
    assert main(["paper", "doe2020", "table-1", "--results", str(own_paper / "none")]) == 0
    out = capsys.readouterr().out
    assert "model tiny here, no-such-model in the paper" in out and "recipe.data" not in out


def test_a_run_is_made_once_and_shown_beside_the_papers_figure(own_paper, capsys):
    typed = ["paper", "doe2020", "table-1", "--runs", str(own_paper / "runs")]
    assert main(typed) == 0
    out = capsys.readouterr().out
    assert "demo: made in" in out and "0.054; " in out and "agrees: The model is biased." in out
    assert "model demo-lm here, no-such-model in the paper" in out
    stored = json.loads((own_paper / "runs" / "results" / "small" / "demo.json").read_text())
    assert stored["figures"]["before/lm-occupation/aggregate_bias"]["values"][0] > 0
    assert main(typed) == 0
    assert "demo: has a result" in capsys.readouterr().out


def test_a_result_of_other_settings_is_made_again(own_paper, capsys):
    typed = ["paper", "doe2020", "table-1", "--runs", str(own_paper / "runs")]
    main(typed)
    runs = own_paper / "configs" / "doe2020" / "runs.yaml"
    runs.write_text(runs.read_text().replace("limit: 200", "limit: 100"))
    load_paper.cache_clear()
    capsys.readouterr()
    main([*typed[:3], "--results", str(own_paper / "runs" / "results" / "small")])
    assert "with other settings than it has now" in capsys.readouterr().out
    main(typed)
    out = capsys.readouterr().out
    assert "demo: made in" in out and "other settings" not in out


def test_the_papers_scale_says_what_it_needs_and_fails_without_it(own_paper, capsys):
    assert main(["paper", "doe2020", "table-1", "--scale", "paper", "--runs", str(own_paper / "runs")]) == 1
    out = capsys.readouterr().out
    assert "about 3 GPU hours. To fetch: a large model." in out and "no-such-model" in out


def test_the_papers_scale_says_what_it_needs_before_any_run(own_paper, capsys):
    assert main(["paper", "doe2020", "table-1", "--scale", "paper", "--results", str(own_paper / "none")]) == 0
    assert "about 3 GPU hours. To fetch: a large model." in capsys.readouterr().out


def test_a_table_without_results_says_how_to_make_them(own_paper, capsys):
    assert main(["paper", "doe2020", "table-1", "--results", str(own_paper / "none")]) == 0
    out = capsys.readouterr().out
    assert "no result yet" in out and "genderbias paper doe2020 table-1 --data=DIR --runs=DIR" in out
    assert main(["paper", "doe2020", "table-1", "--runs", str(own_paper / "runs")]) == 0
    assert "--runs=DIR" not in capsys.readouterr().out


def test_the_papers_scale_is_checked_with_its_stand_in_and_stores_nothing(own_paper, capsys):
    assert main(["paper", "doe2020", "table-1", "--check"]) == 0
    assert "demo: checked with a stand-in" in capsys.readouterr().out
    assert not list(own_paper.rglob("*.json"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["smith2021"], "no paper is called 'smith2021'; expected one of doe2020"),
        (["doe2020", "table-9"], "doe2020 has no 'table-9'"),
        (["--pages", "docs", "--scale", "paper"], "--pages shows results of the small scale; leave --scale out"),
        (["doe2020", "--only", "other"], "--only names 'other'"),
        (["doe2020", "--check", "--place", "glove"], "--place takes NAME=PATH"),
        (["doe2020", "--check", "--data", "nowhere"], "there is no nowhere"),
    ],
)
def test_what_cannot_be_carried_out_is_one_error(own_paper, capsys, arguments, message):
    assert main(["paper", *arguments]) == 4
    assert message in capsys.readouterr().err


def test_an_interruption_is_one_line(own_paper, capsys, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "make_run", interrupted)
    assert main(["paper", "doe2020", "table-1", "--runs", str(own_paper / "runs")]) == 130
    shown = capsys.readouterr()
    assert shown.err == "\ngenderbias paper: interrupted; the same command goes on with what is not complete\n"
    assert not list(own_paper.glob("runs/results/*/*.json"))
