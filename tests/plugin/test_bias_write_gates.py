"""``genderbias report --to release.bias.yaml``: a gate file from what was measured, which the same model keeps."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support.command_lines import make_reports
from support.hand_made import hand_made
from support.small_projects import model

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import GateError
from pytest_genderbias.gates.gate_file import read_gates
from pytest_genderbias.reports.run_report import ReportedModel, RunInfo, RunReport, write_json
from pytest_genderbias.reports.written_gates import write_gates
from pytest_genderbias.text.located_yaml import read_yaml

FILE = "new.bias.yaml"
WRITE = "--bias-json=run.json"


def keep(project: pytest.Pytester, *models: str, gates: int, flags: Sequence[str] = ()) -> str:
    """Run the written file on the models that it was written from: each gate passes. Return its text."""
    path = project.path / FILE
    assert len(read_gates(read_yaml(path))) == gates
    project.runpytest(*models, FILE, *flags).assert_outcomes(passed=gates)
    return path.read_text()


def test_the_models_keep_the_gates_that_were_written_from_them(project: pytest.Pytester) -> None:
    """Two models: a suite worse below neutral, one worse on either side, and one without a gate where it does not
    apply.
    """
    models = model(project, "worse"), model(project, "writer", "w")
    result = project.runpytest(*models, "--bias-suite=tiny-nli.yaml,tiny-lm.yaml", WRITE)
    result.stdout.fnmatch_lines(["*genderbias report run.json --to release.bias.yaml"])
    assert make_reports(FILE).status == 0
    text = keep(project, *models, gates=2)
    assert "# tiny-nli on m: mean probability of neutral, 0.825; lower is worse, neutral is 1" in text
    assert "  - suite: ./tiny-nli.yaml\n    statistic: net_neutral\n    at_least: 0." in text
    assert "models: [m]" in text and "models: [w]" in text
    assert "at_most: " in text and "The margin " in text
    project.runpytest(model(project, "worse", "w"), FILE, "-k", "tiny-nli").assert_outcomes(
        passed=0, failed=0, skipped=1
    )


def test_a_sample_other_seed_and_options_are_written_too(project: pytest.Pytester) -> None:
    flags = "--bias-limit=64", "--bias-seed=3", "--bias-option=tiny-nli:as_printed=true"
    project.runpytest(model(project, "worse"), "--bias-suite=tiny-nli.yaml", WRITE, *flags)
    assert make_reports(FILE).status == 0
    text = keep(project, model(project, "worse"), gates=1)
    assert "settings: {limit: 64, seed: 3, as_printed: true}" in text and "models:" not in text
    assert " over the suite's cases)" in text


def test_restarts_are_gated_as_restarts(wide_project: pytest.Pytester) -> None:
    models = model(wide_project, "seed_{seed}")
    wide_project.runpytest(models, "--bias-suite=wide.yaml", "--bias-seeds=3", WRITE)
    assert make_reports(FILE).status == 0
    assert "settings: {seeds: 3}" in keep(wide_project, models, gates=1)


def test_the_command_at_the_top_runs_as_it_is_written(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the folder of the run, with the data, labels and number format that it had; the file lies elsewhere."""
    (project.path / "my gates").mkdir()
    (project.path / "my data").mkdir()
    path = project.path / "my gates" / FILE
    flags = "--bias-data", "my data", "--bias-dtype=float32", "--bias-limit=64", WRITE
    project.runpytest(model(project, "worse"), "--bias-suite=tiny-nli.yaml", *flags)
    assert make_reports(str(path)).status == 0
    [command] = [line[4:] for line in path.read_text().splitlines() if line.startswith("#   pytest ")]
    typed = shlex.split(command)[1:]
    assert typed[0] == f"my gates/{FILE}" and typed[2:] == ["--bias-data=my data", "--bias-dtype=float32"]
    project.runpytest(*typed).assert_outcomes(passed=1)


def test_the_measurement_that_was_asked_for_is_written_and_not_that_of_a_gate(project: pytest.Pytester) -> None:
    """A gate that stops early, or has a limit of its own, measures the suite before the flag does."""
    for gate in ("at_least: 0.5", "at_least: 0.5, settings: {limit: 100}"):
        project.path.joinpath("a.bias.yaml").write_text(f"gates: [{{suite: ./tiny-nli.yaml, {gate}}}]\n")
        for limit in ((), ("--bias-limit=80",)):
            project.runpytest(model(project, "worse"), "--bias-suite=tiny-nli.yaml", WRITE, *limit)
            assert make_reports(FILE).status == 0
            text = (project.path / FILE).read_text()
            assert ("settings: {limit: 80}" in text) == bool(limit) and "limit: 64" not in text
            assert "limit: 100" not in text and text.count("  - suite: ") == 1
            (project.path / FILE).unlink()


def test_no_gate_is_written_on_what_is_no_measure_of_bias_or_cannot_be_broken(tmp_path: Path) -> None:
    model = load_model("demo-lm")
    run = RunInfo("2026-11-22T10:00:00+01:00", "1", models=(ReportedModel("m", "demo-lm"),))
    subspaces = [
        replace(measure(name, model, cache=None), model="m")
        for name in ("subspace", "subspace-demonym", "lm-occupation")
    ]
    near_zero = replace(measure("nli-religion", load_model("demo-nli"), limit=64, cache=None), model="m")
    wide = replace(
        near_zero, bounds={**near_zero.bounds, "net_neutral": replace(near_zero.bounds["net_neutral"], low=5e-4)}
    )
    write_gates(RunReport(run, (*subspaces, wide)), tmp_path / "h.bias.yaml")
    assert [gate.suite.name for gate in read_gates(read_yaml(tmp_path / "h.bias.yaml"))] == ["lm-occupation"]
    text = (tmp_path / "h.bias.yaml").read_text()
    unwrapped = " ".join(text.replace("#", " ").split())
    assert unwrapped.count("no gate on ratio_2: it says how well taking a direction out can do, and is no measure") == 2
    assert "leaves no limit that a model could break" in unwrapped


def test_what_cannot_be_gated_says_why(project: pytest.Pytester) -> None:
    project.makepyfile("def test_it(bias_measure):\n    bias_measure('tiny-nli.yaml')")
    project.runpytest(model(project, "worse"), WRITE)
    printed = make_reports(FILE)
    assert printed.status == 1 and not (project.path / FILE).exists()
    assert re.match("--to: .*new.bias.yaml is not written: nothing was measured that a limit ", printed.err)


def test_a_model_that_cannot_do_the_task_is_named_as_the_reason(tmp_path: Path) -> None:
    found = measure("lm-occupation", load_model("demo-mlm"), limit=64, cache=None)
    dead = found.without_values("cannot do the task: 0 of 9")
    run = RunInfo("2026-11-22T10:00:00+01:00", "1", models=(ReportedModel("m", "demo-mlm"),))
    dead = replace(dead, model="m", reasons=dict.fromkeys(dead.values, "no direction; cannot do the task: 0 of 9"))
    assert dead.unable == "cannot do the task: 0 of 9"
    with pytest.raises(GateError, match="is not written: m cannot do the task: 0 of 9"):
        write_gates(RunReport(run, (dead,)), tmp_path / "h.bias.yaml")


def test_hostile_names_leave_a_file_that_can_be_read(tmp_path: Path) -> None:
    hostile = "x: [\n  - {\x1b[31m\u202e\x00\u2028'\"" + "y" * 100_000
    run = RunInfo(
        "2026-11-22T10:00:00+01:00", "1", models=(ReportedModel(hostile, hostile), ReportedModel("m", "demo-nli"))
    )
    real = measure("nli-religion", load_model("demo-nli"), limit=64, cache=None)
    good = replace(real, model="m", reasons=dict.fromkeys(real.reasons, hostile))
    names = (hostile, "1e3", "~", "no", "2026-01-01", "a, b]", "\x85", "\U0001f600")  # most of them no text in YAML
    run = replace(run, models=(*run.models, *(ReportedModel(name, name) for name in names[1:])))
    measured = (replace(good, model=name) for name in names)
    report = RunReport(run, (good, *measured, hand_made(model="m", suite=hostile)))
    write_gates(report, tmp_path / "h.bias.yaml")
    gates = read_gates(read_yaml(tmp_path / "h.bias.yaml"))
    assert {gate.models for gate in gates} == {(name,) for name in ("m", *names)}
    comments = "".join(
        line for line in (tmp_path / "h.bias.yaml").read_text().splitlines() if line.lstrip().startswith("#")
    )
    assert comments.isprintable() and len(comments) < 10_000


def test_an_existing_file_and_another_ending_are_refused(pytester: pytest.Pytester) -> None:
    (pytester.path / FILE).write_text("gates: []\n")
    write_json(RunReport(RunInfo("", "")), pytester.path / "run.json")
    for path, message, status in (
        (FILE, "exists, and a gate file is never overwritten", 1),
        ("gates=g.yaml", "ends in .bias.yaml", 4),
    ):
        printed = make_reports(path)
        assert printed.status == status
        assert "--to: " in printed.err and message in printed.err
    assert (pytester.path / FILE).read_text() == "gates: []\n"
