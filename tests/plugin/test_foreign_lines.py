"""Line breaks in texts of others: no line that we print is a command to the CI service that reads the log."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.command_lines import SHOWS, make_reports, type_command
from support.tiny_checkpoints import save_checkpoint

from pytest_genderbias.escaping import printable

COMMANDS = "x\n::error title=a::b\n  ::add-mask::c\n##[group]d\n##vso[task.complete]e"
#: As GitHub Actions and Azure Pipelines recognise a command.
_OBEYED = re.compile(r"^\s*::|##\w*\[")
_HEAD = {"source": COMMANDS, "licence": COMMANDS, "language": "en"}
_TESTS = """
from dataclasses import replace
from pytest_genderbias import assert_at_least

COMMANDS = {!r}

def test_python(bias_measure):
    measurement = bias_measure("./hostile.yaml")
    reasons = {{"threshold_0.5": COMMANDS}}
    assert_at_least(replace(measurement, notes=(COMMANDS,), model=COMMANDS, reasons=reasons), 0.99)
"""


def obeyed(lines: list[str]) -> list[str]:
    """Return the lines that a CI service would obey."""
    return [line for line in lines if _OBEYED.search(line)]


@pytest.fixture
def hostile(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project whose words, titles, names and notes hold commands."""
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    words = [{"word": COMMANDS, "group": "job"}, {"word": "pilot", "group": "job"}, {"word": "cook", "group": "job"}]
    suite = {
        "suite": "hostile",
        "family": "nli",
        "title": COMMANDS,
        "note": COMMANDS,
        **_HEAD,
        "about": dict.fromkeys(("question", "reads", "does_not_mean", "formula", "picture", "cost"), COMMANDS),
        "premise": "{a:person} {person} ate.",
        "hypothesis": "The {gendered} ate.\n::warning::f",
        "slots": {"person": {"list": "./words.yaml"}, "gendered": {"list": "./gendered.yaml"}},
    }
    files = {
        "words.yaml": {"list": "words", "title": COMMANDS, **_HEAD, "entries": words},
        "hostile.yaml": suite,
        "g\n::error::h.bias.yaml": {"gates": [{"suite": "./hostile.yaml", "name": COMMANDS, "at_least": 0.99}]},
    }
    for name, content in files.items():
        (project.path / name).write_text(json.dumps(content))
    project.makepyfile(test_hostile=_TESTS.format(COMMANDS))
    return project


@pytest.mark.parametrize("verbosity", ["-q", "-v", "-vv"])
def test_a_run_prints_no_command(hostile: pytest.Pytester, verbosity: str) -> None:
    result = hostile.runpytest(
        f"--bias-model=m={hostile.models}:worse",
        "--bias-suite=./hostile.yaml",  # type: ignore[attr-defined]
        "--bias-json=run.json",
        "-rA",
        verbosity,
    )
    result.assert_outcomes(failed=2, passed=1)
    assert obeyed([*result.outlines, *result.errlines]) == []
    assert r"x\n::error title=a::b" in result.stdout.str()


def test_pages_and_commands_print_no_command(hostile: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    model = f"--bias-model=m={hostile.models}:worse"  # type: ignore[attr-defined]
    hostile.runpytest(model, "--bias-json=run.json")
    assert make_reports("runs.db").status == 0
    assert Path("runs.db").exists()
    for arguments in ([*SHOWS, "--bias-show=./hostile.yaml"], [*SHOWS, "--bias-list", "--bias-suite=./hostile.yaml"]):
        result = hostile.runpytest(*arguments)
        assert result.ret == 0
        assert obeyed([*result.outlines, *result.errlines]) == []
    gates = "g\n::error::h.bias.yaml"
    for words in (
        ("check", gates, "hostile.yaml", "words.yaml"),
        ("show", "./hostile.yaml"),
        ("history", "runs.db", "--all"),
        ("history", "runs.db", "--markdown"),
        ("report", "run.json"),
        ("report", "run.json", "-v"),
    ):
        printed = type_command(hostile, monkeypatch, *words)
        assert printed.out
        assert obeyed([*printed.out.splitlines(), *printed.err.splitlines()]) == [], words


def test_annotations_of_a_run_are_the_only_commands(hostile: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(hostile.path / "summary.md"))
    result = hostile.runpytest(f"--bias-model=m={hostile.models}:worse", "-obias_github=true", "-vv")  # type: ignore[attr-defined]
    commands = obeyed([*result.outlines, *result.errlines])
    assert len(commands) == 2
    assert all(line.startswith("::error ") and "%0A::" not in line for line in commands)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::error::a", r"\x3a:error::a"),
        ("   ::error::a", r"   \x3a:error::a"),
        ("a::b ::c", r"a::b \x3a:c"),
        ("a ##[error]b", r"a #\x23[error]b"),
        ("###vso[x]", r"##\x23vso[x]"),
        ("## Title [a]", "## Title [a]"),
    ],
)
def test_commands_are_escaped_once(text: str, shown: str) -> None:
    assert printable(text) == shown == printable(shown)
    assert printable(f"a\n{text}", keep="\n") == f"a\n{shown}"


def test_reasons_that_pytest_wraps_are_no_command(project: pytest.Pytester, tmp_path: Path) -> None:
    """With -vv pytest wraps the reason of a skip by itself, at any space and in long words."""
    folder = save_checkpoint("bert-nli", tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    labels = [f"{COMMANDS} {'a' * width}::debug::b" for width in (64, 65, 66)]
    config["id2label"] = {str(i): label for i, label in enumerate(labels)}
    config["label2id"] = {label: i for i, label in enumerate(labels)}
    (folder / "config.json").write_text(json.dumps(config))
    result = project.runpytest(
        f"--bias-model=m={folder}",
        "--bias-suite=disco-terms,nli-religion,sts-occupation",
        "--bias-limit=4",
        "-vv",
        "-rA",
    )
    assert result.ret == 0
    assert "a text classifier with the labels" in " ".join(result.stdout.str().split())
    assert not obeyed(result.outlines)
