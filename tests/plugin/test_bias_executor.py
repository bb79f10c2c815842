"""``bias_executor``, ``bias_ray`` and ``bias_workers``: where cases are scored."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest
from support.small_projects import WORKERS

from pytest_genderbias.plugin import flag_values

RUN = ("--bias-model=m=demo-nli", "--bias-suite=nli-occupation", "--bias-limit=256", "--bias-no-cache")


def test_the_process_is_the_default(project: pytest.Pytester) -> None:
    project.runpytest(*RUN, "-obias_executor=process", "--bias-json=r.json").assert_outcomes(passed=1)
    (measurement,) = json.loads(project.path.joinpath("r.json").read_text())["measurements"]
    assert not any("Ray" in note for note in measurement["notes"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-obias_executor=dask"], "bias_executor: expected one of process, ray, got 'dask'"),
        (["-obias_ray=auto"], "bias_ray: 'auto' does not say which cluster is meant; expected 'local', or HOST:PORT *"),
        (["-obias_workers=0"], "bias_workers: expected a number of workers, or of workers and threads as 4x2, got '0'"),
        (["-obias_workers=2x0"], "bias_workers: expected * got '2x0'"),
    ],
)
def test_a_wrong_flag_is_a_usage_error_of_one_line(
    project: pytest.Pytester, arguments: list[str], message: str
) -> None:
    result = project.runpytest(*RUN, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


def test_ray_that_is_missing_is_a_usage_error_that_names_the_extra(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flag_values, "find_spec", lambda name: None)
    result = project.runpytest(*RUN, "-obias_executor=ray")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: bias_executor: needs the package ray; *'./pytest-genderbias?ray?' (a clone*"])


def test_an_old_address_fails_the_test_in_one_line(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flag_values, "find_spec", lambda name: True)
    result = project.runpytest(*RUN, "-obias_executor=ray", "-obias_ray=127.0.0.1:1")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["ExecutorError: no Ray cluster answers at 127.0.0.1:1 *"])
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra [ray]")
def test_workers_of_ray_give_the_figures_of_the_process(project: pytest.Pytester) -> None:
    """Also in two processes of pytest-xdist that want the same CPUs: each takes its part of them."""
    suites = "--bias-suite=nli-occupation,nli-demonym"
    project.runpytest(*RUN, suites, "--bias-json=process.json").assert_outcomes(passed=2)
    ways = {"ray": (), "xdist": WORKERS}
    for name, processes in ways.items():
        ray = project.runpytest_subprocess(*RUN, suites, "-obias_executor=ray", f"--bias-json={name}.json", *processes)
        ray.assert_outcomes(passed=2)
        ray.stdout.no_fnmatch_line("*raylet*")
        ray.stderr.no_fnmatch_line("*raylet*")
    here, *others = (
        {m["suite"]: m for m in json.loads(project.path.joinpath(f"{name}.json").read_text())["measurements"]}
        for name in ("process", *ways)
    )
    for there in others:
        for suite, measurement in here.items():
            assert there[suite]["values"] == measurement["values"]
            assert any(note.startswith("scored by Ray: ") for note in there[suite]["notes"])
