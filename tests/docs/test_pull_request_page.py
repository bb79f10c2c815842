"""The steps of ``action.yml``, run as GitHub would: the gates, and the comment with a ``gh`` that keeps the comments in
a file.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.small_projects import MODELS
from support.snippets import check_flags

from pytest_genderbias.reports.markdown import MARKER

ROOT = Path(__file__).resolve().parents[2]
BASH = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]  # as GitHub runs a step
#: GitHub's own command line, as far as the step needs it. ``--jq`` is answered by jq, which it has built in.
GH = """#!{python}
import json, os, subprocess, sys
assert os.environ["GH_TOKEN"] == "token"
assert sys.argv[1] == "api"
flags, paths, rest = {{}}, [], iter(sys.argv[2:])
for argument in rest:
    if argument in ("--method", "--jq", "-F"):
        flags[argument] = next(rest)
    elif not argument.startswith("--"):
        paths.append(argument)
[path] = paths
comments = json.load(open("comments.json"))
method = flags.get("--method", "GET")
if method == "GET":
    assert path == "repos/o/r/issues/7/comments", path
    query = ["jq", "-r", flags["--jq"]]
    done = subprocess.run(query, input=json.dumps(comments), text=True, capture_output=True, check=True)
    print(done.stdout, end="")
    sys.exit()
key, _, file = flags["-F"].partition("=@")
content = {{key: open(file, encoding="utf-8").read()}}
if method == "PATCH":
    [comment] = [comment for comment in comments if path == f"repos/o/r/issues/comments/{{comment['id']}}"]
    comment |= content
else:
    assert (method, path) == ("POST", "repos/o/r/issues/7/comments")
    comments.append({{"id": 99, "user": {{"login": "github-actions[bot]"}}, **content}})
json.dump(comments, open("comments.json", "w"))
"""


def step_of(variable: str) -> dict[str, Any]:
    """Return the step of the action that gets an environment variable of this name."""
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    [step] = [step for step in steps if variable in step.get("env", {})]
    return dict(step)


@pytest.mark.skipif(shutil.which("bash") is None, reason="the step needs bash")
def test_the_action_runs_the_gates_and_ends_as_pytest_does(tmp_path: Path) -> None:
    step = step_of("ARGUMENTS")
    check_flags(step["run"].split())
    (tmp_path / "my_models.py").write_text(MODELS)
    (tmp_path / "my.bias.yaml").write_text("gates:\n  - {suite: lm-occupation, at_most: 0.01}\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_ACTIONS": "true",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "ARGUMENTS": "my.bias.yaml --bias-model=mine=my_models:writer '--basetemp=$(touch hacked); touch hacked'",
    }
    done = subprocess.run([*BASH, step["run"]], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    assert "::error file=my.bias.yaml,line=2" in done.stdout
    names = {path.name for path in tmp_path.iterdir()}
    assert {"bias.md", "bias.json", "bias.html", "summary.md"} <= names and "hacked" not in names
    assert (tmp_path / "bias.md").read_text().startswith(MARKER)


@pytest.mark.skipif(
    shutil.which("jq") is None or shutil.which("bash") is None, reason="the step needs bash, and jq for gh"
)
def test_one_comment_is_made_and_then_replaced(tmp_path: Path) -> None:
    step = step_of("GH_TOKEN")
    assert MARKER in step["run"]
    comments_of = (
        step["env"]["COMMENTS"].replace("${{ github.repository }}", "o/r").replace("${{ github.event.number }}", "7")
    )
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gh").write_text(GH.format(python=sys.executable))
    (tmp_path / "bin" / "gh").chmod(0o755)
    forged = {"id": 1, "user": {"login": "somebody"}, "body": f"{MARKER}\nforged"}
    other = {"id": 2, "user": {"login": "github-actions[bot]"}, "body": f"another bot, which quotes {MARKER}"}
    (tmp_path / "comments.json").write_text(json.dumps([forged, other]))
    environment = {
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "GH_TOKEN": "token",
        "COMMENTS": comments_of,
        "GITHUB_REPOSITORY": "o/r",
    }

    def run_step() -> list[dict[str, object]]:
        done = subprocess.run(
            [*BASH, step["run"]], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        comments: list[dict[str, object]] = json.loads((tmp_path / "comments.json").read_text())
        return comments

    assert run_step() == [forged, other], "a run that wrote no summary comments nothing"
    for text in ("first", "second `$(touch hacked)`"):
        (tmp_path / "bias.md").write_text(f"{MARKER}\n## {text}\n")
        *before, ours = run_step()
        assert before == [forged, other]
        assert ours["body"] == f"{MARKER}\n## {text}\n"
    assert not (tmp_path / "hacked").exists()
