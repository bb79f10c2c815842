"""What is logged to MLflow: names that it takes, and a run in a real store of its own."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from support.hand_made import hand_made

from pytest_genderbias.errors import WriteError
from pytest_genderbias.gates.limits import Limit, judge_limit
from pytest_genderbias.gates.verdicts import FinishedTest
from pytest_genderbias.reports.mlflow_runs import (
    _verdicts,
    logged,
    metrics_of,
    name_of_run,
    params_of,
    tags_of,
    write_mlflow,
)
from pytest_genderbias.reports.run_report import ReportedModel, RunInfo, RunReport

HOSTILE = '"><script>|\x1b[31m\u202e\n../..'


def report(*suites: str, **about: object) -> RunReport:
    measured = tuple(hand_made(0.1, suite=suite) for suite in suites or ("tiny",))
    over = judge_limit(measured[0], Limit(at_most=0.3)).settled("failed")
    info = RunInfo(
        "2026-11-22T19:00:00+00:00",
        "0.1.0",
        models=(ReportedModel("m", "runs/m"),),
        commit="c0ffee",
        settings={"seed": 0, "limit": None},
        seconds=60.0,
    )
    return replace(RunReport(info, (*measured, hand_made(0.2, model="other")), (over,)), **about)


def test_each_model_has_its_figures_verdicts_and_what_they_depend_on() -> None:
    assert logged(report()) == ["m", "other"]
    assert metrics_of(report(), "m") == pytest.approx(
        {
            "gates/failed": 1,
            "gates/passed": 0,
            "gates/without_verdict": 0,
            "tiny/share": 0.35,
            "tiny/share.low": 0.349999,
            "tiny/share.high": 0.350001,
        }
    )
    assert params_of(report(), "m") == {"spec": "runs/m", "seed": "0", "fingerprint": "f0.1"}
    tags = tags_of(report(), "m")
    assert tags["mlflow.source.git.commit"] == "c0ffee"
    assert json.loads(tags["pytest_genderbias.verdicts"]) == {"tiny.share": "limit broken"}
    assert metrics_of(report(), "other")["tiny/share"] == pytest.approx(0.45)
    assert json.loads(tags_of(report(), "other")["pytest_genderbias.verdicts"]) == {}


def test_no_gate_hides_another_and_no_failure_is_left_out() -> None:
    measured = hand_made(0.1)
    gates = (
        judge_limit(measured, Limit(at_most=0.3)).settled("failed"),
        judge_limit(measured, Limit(at_most=0.9)).settled("passed"),
    )
    broken = FinishedTest("t", "gone", outcome="failed", text="no such model")
    run = report(judgements=gates, tests=(broken,))
    assert logged(run) == ["m", "other", "gone"]
    assert json.loads(tags_of(run, "m")["pytest_genderbias.verdicts"]) == {"tiny.share": "limit broken, pass"}
    assert metrics_of(run, "gone")["gates/without_verdict"] == 1


def test_values_that_are_no_numbers_are_left_out() -> None:
    none = replace(hand_made(), values={"share": None}, intervals={"share": None})
    for measurement in (none, hand_made(float("nan")), hand_made(float("inf"))):
        metrics = metrics_of(RunReport(RunInfo("", ""), (measurement,)), measurement.model)
        assert set(metrics) == {"gates/failed", "gates/passed", "gates/without_verdict"}


def test_every_name_is_one_that_mlflow_takes_and_none_hides_another() -> None:
    suites = ("a b", "a?b", "a|b", "x" * 300, "x" * 301, HOSTILE, "\ud800", "é", "è", "/", "..")
    metrics = metrics_of(report(*suites), "m")
    assert len(metrics) == 3 + 3 * len(suites)
    for name in metrics:
        assert re.fullmatch(r"[A-Za-z0-9_\-. /]{1,250}", name), name
        assert not {"", ".", ".."} & set(name.split("/")), name


def test_hostile_and_long_texts_are_escaped_and_cut() -> None:
    measurement = hand_made(model=HOSTILE + "\ud800" + "x" * 100_000)
    run = RunReport(RunInfo("", HOSTILE), (measurement,))
    (model,) = logged(run)
    texts = (*params_of(run, model).values(), *tags_of(run, model).values())
    for text in (name_of_run(model), *texts):
        assert text.isprintable()
        assert len(text) <= 4_000


def test_the_verdicts_of_a_model_whose_name_is_escaped_and_cut_are_logged() -> None:
    measurement = hand_made(0.1, model=HOSTILE + "x" * 300)
    gate = judge_limit(measurement, Limit(at_most=0.2)).settled("failed")
    assert name_of_run(gate.model) != gate.model
    assert "limit broken" in _verdicts(RunReport(RunInfo("", ""), (measurement,), (gate,)), gate.model)


@pytest.mark.slow
def test_a_real_store_has_the_run_of_each_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="the store is MLflow's")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    many = report(*(f"suite-{i}" for i in range(400)))
    write_mlflow(many, "bias")
    write_mlflow(report(HOSTILE), "bias")
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("bias")
    runs = client.search_runs([experiment.experiment_id], order_by=["attributes.start_time", "attributes.run_name"])
    assert sorted(run.info.run_name for run in runs) == ["m", "m", "other", "other"]
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert mlflow.active_run() is None
    largest = max(runs, key=lambda run: len(run.data.metrics))
    assert len(largest.data.metrics) == 3 + 3 * 400, "more than MLflow takes at once"
    assert largest.data.metrics["suite-7/share"] == pytest.approx(0.35)
    assert largest.data.params["spec"] == "runs/m"
    assert largest.info.end_time - largest.info.start_time == 60_000
    stored = mlflow.artifacts.load_text(f"{largest.info.artifact_uri}/bias/report.json")
    assert RunReport.from_dict(json.loads(stored)).to_dict() == many.to_dict()
    assert "limit broken" in mlflow.artifacts.load_text(f"{largest.info.artifact_uri}/bias/verdicts.txt")
    client.delete_experiment(experiment.experiment_id)
    with pytest.raises(WriteError, match="the experiment was deleted"):
        write_mlflow(report(), "bias")
