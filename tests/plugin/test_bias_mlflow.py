"""``genderbias report --to mlflow=EXPERIMENT``: figures and verdicts on a team's server."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec

import pytest
from support.abilities import UNASKED
from support.small_projects import model

#: Runs in a process of its own: a run inside a test forgets the modules that it imported, and MLflow's cannot be
#: imported twice.
SCRIPT = """
import json, os, sys
import mlflow, pytest
from pytest_genderbias.command_line.main import main
good, worse, *unasked = sys.argv[1:]
statuses = []
for arguments in (["-q", good, "--bias-update-new"], ["-q", worse]):
    statuses.append(int(pytest.main([*arguments, *unasked, "--bias-json=run.json"])))
    assert main(["report", "run.json", "--to=mlflow=bias"]) == 0
client = mlflow.MlflowClient()
metrics = [run.data.metrics for run in client.search_runs([client.get_experiment_by_name("bias").experiment_id])]
os.environ["MLFLOW_TRACKING_URI"] = "http://127.0.0.1:9"
mlflow.set_tracking_uri(None)
statuses.append(main(["report", "run.json", "--to=mlflow=bias"]))
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
    printed = gated.run(sys.executable, "script.py", model(gated, "good"), model(gated, "worse"), *UNASKED)
    result = next(line for line in printed.outlines if line.startswith("RESULT"))
    statuses, metrics = json.loads(result.removeprefix("RESULT"))
    assert statuses == [0, 1, int(pytest.ExitCode.USAGE_ERROR)]
    assert sorted(run["tiny-nli/net_neutral"] for run in metrics) == pytest.approx([0.825, 0.9])
    assert sorted(run["gates/failed"] for run in metrics) == [0, 1]
    assert max(run.get("tiny-nli/net_neutral.worse", 0) for run in metrics) == pytest.approx(0.075)
    printed.stderr.fnmatch_lines(["*--to: bias cannot be written: *127.0.0.1*"])
