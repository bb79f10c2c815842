"""The step of ``docs/guides/pull-requests.md`` that comments, run with a ``gh`` that keeps the comments in a file."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.snippets import check_flags

from pytest_genderbias.reports.markdown import MARKER

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "ci.md"
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


@pytest.mark.skipif(
    shutil.which("jq") is None or shutil.which("bash") is None, reason="the step needs bash, and jq for gh"
)
def test_one_comment_is_made_and_then_replaced(tmp_path: Path) -> None:
    block = re.search(
        r'^```yaml title="\.github/workflows/bias\.yaml"\n(.*?)^```', PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    assert block is not None
    workflow = yaml.safe_load(block[1])
    for command in (step["run"] for step in workflow["jobs"]["bias"]["steps"] if "run" in step):
        check_flags(command.split())
    [step] = [step for step in workflow["jobs"]["bias"]["steps"] if "GH_TOKEN" in step.get("env", {})]
    assert workflow["permissions"] == {"contents": "read", "pull-requests": "write"}
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
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]  # as GitHub runs it
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
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
