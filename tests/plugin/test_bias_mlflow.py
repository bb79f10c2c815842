"""``--bias-mlflow``: figures and verdicts on a team's server."""

from __future__ import annotations

import pytest
from support.small_projects import model

from pytest_genderbias.plugin.outputs import Output


def test_a_missing_package_is_a_usage_error_before_the_run(
    gated: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Output, "missing_packages", lambda self: list(self.needs))
    result = gated.runpytest(model(gated, "good"), "--bias-mlflow=bias")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--bias-mlflow: needs mlflow; install with: pip install 'pytest-genderbias?mlflow?'"])


@pytest.mark.slow
def test_a_run_is_logged_and_a_server_that_cannot_be_reached_is_a_usage_error(
    gated: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow", reason="the store is MLflow's")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{gated.path}/mlflow.db")
    gated.runpytest(model(gated, "good"), "--bias-update-new", "--bias-mlflow=bias").assert_outcomes(passed=1)
    gated.runpytest(model(gated, "worse"), "--bias-mlflow=bias").assert_outcomes(failed=1)
    client = mlflow.MlflowClient()
    runs = client.search_runs([client.get_experiment_by_name("bias").experiment_id])
    assert sorted(run.data.metrics["tiny-nli/net_neutral"] for run in runs) == pytest.approx([0.825, 0.9])
    assert sorted(run.data.metrics["gates/failed"] for run in runs) == [0, 1]
    assert max(run.data.metrics.get("tiny-nli/net_neutral.worse", 0) for run in runs) == pytest.approx(0.075)

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    result = gated.runpytest(model(gated, "good"), "--bias-mlflow=bias")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--bias-mlflow: bias cannot be written: *127.0.0.1*"])
