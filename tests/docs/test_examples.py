"""The examples, run as their README says."""

from __future__ import annotations

import json
import math
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import verdict_texts

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return Path(shutil.copytree(EXAMPLES / request.param, tmp_path / request.param))


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        f"--bias-cache={folder.parent / 'scores'}",
        *arguments,
    ]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.fixture(params=["here", pytest.param("apart", marks=pytest.mark.slow)])
def pytest_in(request: pytest.FixtureRequest) -> Callable[..., tuple[str, int]]:
    """Return a function that runs pytest in a folder: in this process, which has loaded torch, or in one of its own."""

    def apart(folder: Path, *arguments: str) -> tuple[str, int]:
        done = run(folder, *arguments)
        return done.stdout, done.returncode

    def here(folder: Path, *arguments: str) -> tuple[str, int]:
        return verdict_texts.run_here(folder)([*arguments])

    return apart if request.param == "apart" else here


@pytest.mark.slow  # the README's first command runs it with all of its cases
@pytest.mark.parametrize("example", ["quickstart"], indirect=True)
def test_quickstart(example: Path, pytest_in: Callable[..., tuple[str, int]]) -> None:
    short = ("corpus-cooccurrence:seeds=20", "corpus-cooccurrence:length=60", "ceat:draws=500")
    options = [f"--bias-option={option}" for option in short]
    output, status = pytest_in(example, "--bias-model=demo", "--bias-suite=all", "--bias-limit=30", *options)
    assert status == 0, output
    assert re.search(r"\d+ passed, \d+ skipped", output), output
    assert "failed" not in output.splitlines()[-1]
    assert "  nli-occupation" in output


@pytest.mark.slow
@pytest.mark.parametrize("example", ["own_suite"], indirect=True)
def test_own_suite(example: Path) -> None:
    done = run(example, "--bias-model=demo-mlm", "--bias-suite=./disco-persons.yaml")
    assert done.returncode == 0, done.stdout
    assert "  disco-persons" in done.stdout
    groups = "--bias-suite=./nli-age.yaml,./nli-disability.yaml"
    done = run(example, "--bias-model=demo-nli", groups, "--bias-limit=500")
    assert done.returncode == 0, done.stdout
    assert "  nli-age" in done.stdout and "  nli-disability" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("example", ["religion"], indirect=True)
def test_religion(example: Path, shared_data: Path) -> None:
    done = run(example, f"--bias-model=m={shared_data / 'models' / 'bert-tiny-mlm'}")
    assert done.returncode == 0, done.stdout
    assert "  disco-religion" in done.stdout
    assert "  weat-religion" in done.stdout
    done = run(example, "--bias-model=demo-mlm")
    assert done.returncode == 1, "a model that does not know the words fails the gate"
    assert "cannot judge (no value): disco-religion on demo-mlm" in done.stdout


@pytest.mark.parametrize("example", ["own_model"], indirect=True)
def test_own_model(example: Path, pytest_in: Callable[..., tuple[str, int]]) -> None:
    output, status = pytest_in(
        example, "--bias-model=rules=rules:make_model", "--bias-suite=nli-occupation", "--bias-limit=500"
    )
    assert status == 0, output
    assert re.search(r"^rules.*\n  nli-occupation ", output, re.MULTILINE), output


@pytest.mark.parametrize("example", ["deployment"], indirect=True)
def test_deployment(
    example: Path,
    pytest_in: Callable[..., tuple[str, int]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = runpy.run_path(str(example / "compress.py"))
    monkeypatch.setitem(
        script["main"].__globals__, "find_spec", lambda name: None
    )  # only what needs no further package
    script["main"]("demo-nli", str(example / "copies"))
    assert "written: bfloat16\n" in capsys.readouterr().out
    gates = example / "deployment.bias.yaml"
    gates.write_text(gates.read_text(encoding="utf-8").replace("limit: 3000", "limit: 300"), encoding="utf-8")
    models = ("float32=demo-nli", "bfloat16=copies/bfloat16", "dynamic-int8=dynamic_int8:make_model")
    output, status = pytest_in(example, "--bias-json=r.json", *(f"--bias-model={model}" for model in models))
    assert status == 0, output
    report = json.loads((example / "r.json").read_text())
    assert {j["model"]: j["code"] for j in report["judgements"]} == {"bfloat16": "same", "dynamic-int8": "same"}
    formats = {m["model"]: m["signature"]["model"]["dtype"] for m in report["measurements"]}
    assert formats == {"float32": "float32", "bfloat16": "bfloat16", "dynamic-int8": "qint8 and float32"}
    [elsewhere] = report["not_judged"]
    assert (elsewhere["why"], "lm-occupation" in elsewhere["test"]) == ("other models", True)


@pytest.mark.slow
@pytest.mark.parametrize("example", ["release"], indirect=True)
def test_release(example: Path) -> None:
    few = ("--bias-limit=3000", "-k", "nli")
    assert run(example, "--bias-model=candidate=demo-nli", *few).returncode == 1
    made = run(example, "--bias-model=candidate=demo-nli", "--bias-update-new", *few)
    assert made.returncode == 0, made.stdout
    assert run(example, "--bias-model=candidate=demo-nli", *few).returncode == 0
    subprocess.run(
        [sys.executable, "make_regression.py", str(example.parent / "next")],
        cwd=example,
        check=True,
        capture_output=True,
    )
    worse = run(example, f"--bias-model=candidate={example.parent / 'next'}", *few)
    assert worse.returncode == 1
    assert "worse: nli-occupation on candidate: net_neutral" in worse.stdout
    accepted = run(
        example,
        f"--bias-model=candidate={example.parent / 'next'}",
        "--bias-limit=3000",
        "-k",
        "last_release or demonym",
        "--bias-update",
        "--bias-reason=trained on corrected labels",
    )
    assert accepted.returncode == 0, accepted.stdout
    assert ": trained on corrected labels" in accepted.stdout
    assert "(was 0." in accepted.stdout


NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")


def assert_alike(text: str, other: str) -> None:
    """Hold two texts against each other, line by line: the same words, and the same numbers but for what another CPU
    may round away.
    """
    assert len(text.splitlines()) == len(other.splitlines())
    for one, two in zip(text.splitlines(), other.splitlines(), strict=True):
        assert re.sub(" +", " ", NUMBER.sub("#", one)) == re.sub(" +", " ", NUMBER.sub("#", two))
        for a, b in zip(NUMBER.findall(one), NUMBER.findall(two), strict=True):
            assert math.isclose(*(float(x.replace(",", "")) for x in (a, b)), rel_tol=0.01, abs_tol=2e-4), (one, two)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("example", "shown"),
    [("verdicts", "pass|worse|limit broken|cannot judge"), ("mitigation", "pass|limit broken|cannot judge")],
)
def test_verdicts_are_shown_as_they_are_printed(tmp_path: Path, example: str, shown: str) -> None:
    """``python tests/support/verdict_texts.py EXAMPLE`` writes the README anew."""
    script, written = Path(verdict_texts.__file__), tmp_path / "README.md"
    done = subprocess.run(
        [sys.executable, str(script), example, str(written)], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    readme = (EXAMPLES / example / "README.md").read_text()
    assert_alike(written.read_text(), readme)
    assert set(re.findall(rf"  ({shown})(?: |$)", readme, re.MULTILINE)) == set(shown.split("|"))


@pytest.mark.slow
@pytest.mark.parametrize("example", ["verdicts"], indirect=True)
def test_a_verdict_is_the_same_alone_and_on_two_workers(example: Path) -> None:
    subprocess.run([sys.executable, "make_models.py", "models"], cwd=example, check=True, capture_output=True)
    here = verdict_texts.run_here(example)
    gates = {"release.bias.yaml": ("at_most", "last-release"), "limits.bias.yaml": ("not other", "other-occupations")}
    judged_by = {"better": "release.bias.yaml", "worse": "release.bias.yaml", "worse-nli": "limits.bias.yaml"}

    def judged(model: str, *arguments: str, workers: bool = False) -> tuple[int, list[tuple[str, str, int]]]:
        given = [f"--bias-model=candidate=models/{model}", "--bias-json=r.json", *arguments]
        status = run(example, "-n", "2", *given).returncode if workers else here(given)[1]
        judgements = json.loads((example / "r.json").read_text())["judgements"]
        return status, sorted((j["bound"], j["verdict"], j["n"]) for j in judgements)

    for model, file in judged_by.items():
        status, whole = judged(model, file)
        one_by_one = [judged(model, file, "-k", gate) for gate in gates[file]]
        assert sorted(found for _, judgements in one_by_one for found in judgements) == whole
        assert max(code for code, _ in one_by_one) == status
        assert all((code == 0) == (found[0][1] == "pass") for code, found in one_by_one)
    assert judged(model, file, workers=True) == (status, whole)
