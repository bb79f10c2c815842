"""The files by which others install, run and cite the package say what pyproject.toml and the package say."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pytest_genderbias.command_line.arguments import Typed, make_parser

tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no tomllib")
ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "action.yml").is_file(), reason="only a part of the checkout is here")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: Dependencies that conda-forge calls otherwise.
CONDA = {"torch": "pytorch", "matplotlib": "matplotlib-base"}


def read(name: str) -> dict:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def minor(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def test_ci_tests_the_versions_that_the_classifiers_name() -> None:
    matrix = read(".github/workflows/ci.yml")["jobs"]["tests"]["strategy"]["matrix"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert matrix["python"] == sorted(named, key=minor)
    assert PROJECT["requires-python"] == f">={named[0]}"
    (oldest,) = (name.removeprefix("pytest>=") for name in PROJECT["dependencies"] if name.startswith("pytest"))
    assert matrix["pytest"] == [f"=={oldest}.*", ""]
    assert {entry["python"] for entry in matrix["include"]} == {named[0], named[-1]}


def test_each_workflow_runs_scripts_that_are_there() -> None:
    named = {
        word
        for path in (ROOT / ".github" / "workflows").iterdir()
        for job in yaml.safe_load(path.read_text())["jobs"].values()
        for step in job["steps"]
        for word in re.findall(r"(?<!\S)(?:\.ci|scripts)/\S+", step.get("run", ""))
    }
    assert named == {".ci/run", "scripts/image", "scripts/compare_wheel.py"}
    assert all((ROOT / name).is_file() for name in named)


def test_the_version_is_the_same_everywhere() -> None:
    version = PROJECT["version"]
    citation = read("CITATION.cff")
    assert (citation["version"], citation["license"]) == (version, PROJECT["license"])
    assert citation["abstract"] == read("conda/recipe.yaml")["about"]["summary"] == PROJECT["description"]
    assert read("conda/recipe.yaml")["context"]["version"] == version


def test_the_conda_recipe_needs_what_the_package_needs() -> None:
    recipe = read("conda/recipe.yaml")
    needed = {
        f"{CONDA.get(name, name)} >={floor}" for name, _, floor in (d.partition(">=") for d in PROJECT["dependencies"])
    }
    run = recipe["requirements"]["run"]
    assert set(run) == needed | {f"python {PROJECT['requires-python']}"} and len(run) == len(needed) + 1
    ((name, place),) = PROJECT["scripts"].items()
    assert recipe["build"]["python"]["entry_points"] == [f"{name} = {place}"]


def test_the_steps_of_the_action_use_inputs_that_it_has() -> None:
    action = read("action.yml")
    used = re.findall(r"\binputs\.(\w+)", json.dumps(action["runs"]))
    assert set(used) == action["inputs"].keys()


def test_the_hook_is_a_command_that_reads_the_files_it_gets() -> None:
    (hook,) = read(".pre-commit-hooks.yaml")
    program, *arguments = shlex.split(hook["entry"])
    assert program in PROJECT["scripts"]
    files = ["release.bias.yaml", "bias_baselines/writer/release.json"]
    assert files in Typed.of(make_parser(), [*arguments, *files]).values.values()
    given = ["release.bias.yaml", "a/b.bias.yml", "bias_baselines/writer/release.json", "a/bias_baselines/b/c.json"]
    assert all(re.search(hook["files"], name) for name in given)
    assert not any(re.search(hook["files"], name) for name in ("bias.yaml.md", "package.json", "bias.json"))


def test_constraints_are_of_releases_for_the_python_that_installs_them() -> None:
    """pip resolves nothing where a constraint names a release that is not for its Python."""
    requirements = pytest.importorskip("packaging.requirements")
    lines = [line.partition("  #")[0] for line in (ROOT / "constraints.txt").read_text().splitlines()]
    pinned = [requirements.Requirement(line) for line in lines if line and not line.startswith("#")]
    oldest = {"python_version": PROJECT["requires-python"].removeprefix(">=")}
    left_out = {one.name for one in pinned if one.marker and not one.marker.evaluate(oldest)}
    assert left_out == {"transformers", "numpy", "scipy"}, "which have left Python 3.10"


@pytest.mark.skipif(sys.platform == "win32", reason="the script needs bash")
def test_the_image_is_not_built_without_docker(tmp_path: Path) -> None:
    done = subprocess.run(["bash", "scripts/image"], cwd=ROOT, env={"PATH": "/bin"}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "not run: there is no docker here\n")
