"""``--bias-mlflow``: figures and verdicts on a team's server."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec

import pytest
from support.small_projects import model

from pytest_genderbias.errors import installing
from pytest_genderbias.plugin.outputs import Output


def test_a_missing_package_is_a_usage_error_before_the_run(
    gated: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Output, "lacks_package", property(lambda self: bool(self.package)))
    result = gated.runpytest(model(gated, "good"), "--bias-mlflow=bias")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"*--bias-mlflow: needs mlflow; install with: {installing('mlflow')}".replace("[", "[[]")]
    )


#: Runs in a process of its own: a run inside a test forgets the modules that it imported, and MLflow's cannot be imported twice.
SCRIPT = """
import json, os, sys
import mlflow, pytest
good, worse = sys.argv[1:]
statuses = [int(pytest.main(["-q", good, "--bias-update-new", "--bias-mlflow=bias"])), int(pytest.main(["-q", worse, "--bias-mlflow=bias"]))]
client = mlflow.MlflowClient()
metrics = [run.data.metrics for run in client.search_runs([client.get_experiment_by_name("bias").experiment_id])]
os.environ["MLFLOW_TRACKING_URI"] = "http://127.0.0.1:9"
mlflow.set_tracking_uri(None)
statuses.append(int(pytest.main(["-q", good, "--bias-mlflow=bias"])))
print("RESULT" + json.dumps([statuses, metrics]))
"""


@pytest.mark.slow
def test_a_run_is_logged_and_a_server_that_cannot_be_reached_is_a_usage_error(
    gated: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_spec("mlflow") is None:
        pytest.skip("the store is MLflow's")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{gated.path}/mlflow.db")
    (gated.path / "script.py").write_text(SCRIPT)
    printed = gated.run(sys.executable, "script.py", model(gated, "good"), model(gated, "worse"))
    result = next(line for line in printed.outlines if line.startswith("RESULT"))
    statuses, metrics = json.loads(result.removeprefix("RESULT"))
    assert statuses == [0, 1, int(pytest.ExitCode.USAGE_ERROR)]
    assert sorted(run["tiny-nli/net_neutral"] for run in metrics) == pytest.approx([0.825, 0.9])
    assert sorted(run["gates/failed"] for run in metrics) == [0, 1]
    assert max(run.get("tiny-nli/net_neutral.worse", 0) for run in metrics) == pytest.approx(0.075)
    printed.stderr.fnmatch_lines(["*--bias-mlflow: bias cannot be written: *127.0.0.1*"])
