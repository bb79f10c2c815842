"""``genderbias measure``, ``compare``, ``list`` and ``show``: what pytest is called with, and what comes of it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import pytest
from support.command_lines import type_command
from support.small_projects import GENDERED, MODELS, PERSONS, SUITES

from pytest_genderbias.command_line.arguments import Typed, make_parser
from pytest_genderbias.command_line.main import main
from pytest_genderbias.command_line.runs import beside, pytest_arguments
from pytest_genderbias.models.spec import ALIASES
from pytest_genderbias.plugin.flags import FLAGS


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with a test that may not run, two suites and a gate."""
    pytester.makepyfile(command_models=MODELS, test_of_the_project="def test_nothing(): assert False")
    pytester.makefile(".yaml", persons=PERSONS, gendered=GENDERED, **SUITES)
    (pytester.path / "release.bias.yaml").write_text("gates: [{suite: ./tiny-nli.yaml, at_least: 0.5}]\n")
    pytester.syspathinsert()
    return pytester


def called_with(*typed: str) -> list[str]:
    return pytest_arguments(Typed.of(make_parser(), typed))


@pytest.mark.parametrize(
    ("typed", "called"),
    [
        ("measure demo-lm", ["--bias-model=demo-lm", "--bias-limit=1000", "--bias-suite=all"]),
        ("measure demo-lm --limit=9", ["--bias-model=demo-lm", "--bias-limit=9", "--bias-suite=all"]),
        (
            "measure a=demo-lm b=demo-mlm --suite weat,bios --suite=ceat --limit 5 --bias-seed=3 --null -vv",
            [
                "--bias-model=a=demo-lm",
                "--bias-model=b=demo-mlm",
                "--bias-limit=5",
                "--bias-seed=3",
                "--bias-null",
                "-v",
                "-v",
                "--bias-suite=weat,bios",
                "--bias-suite=ceat",
            ],
        ),
        (
            "measure demo-lm --option a=1 --option b=2 -- -n 2",
            [
                "--bias-model=demo-lm",
                "--bias-option=a=1",
                "--bias-option=b=2",
                "--bias-limit=1000",
                "--bias-suite=all",
                "-n",
                "2",
            ],
        ),
        (
            "compare a=demo-lm b=demo-lm --suite lm-occupation",
            ["--bias-model=a=demo-lm", "--bias-model=b=demo-lm", "--bias-compare", "--bias-suite=lm-occupation"],
        ),
        (
            "measure demo-lm -o bias_sees=30% --suite=weat",
            ["--bias-model=demo-lm", "-o", "bias_sees=30%", "--bias-suite=weat"],
        ),
        ("list", ["--bias-list"]),
        ("list demo-lm --data D", ["--bias-list", "--bias-model=demo-lm", "--bias-data=D"]),
        ("cache --clear --cache=D", ["--bias-cache-info", "--bias-cache-clear", "--bias-cache=D"]),
        ("show weat bios --bias-data=D", ["--bias-show=weat", "--bias-show=bios", "--bias-data=D"]),
    ],
)
def test_pytest_is_called_with_the_flags_of_the_plugin(typed: str, called: list[str]) -> None:
    assert called_with(*typed.split()) == called


def test_every_flag_of_a_run_is_an_argument_of_measure_or_of_a_command_of_its_own() -> None:
    commands = {"models", "selection", "compare"}
    for field, flag in FLAGS.items():
        if field in commands or not flag.is_typed_by_name:
            continue
        typed = flag.name.replace("bias-", "", 1) + ("" if flag.is_switch else "=x")
        assert field in Typed.of(make_parser(), ["measure", "m", typed]).flags, flag.name


@pytest.mark.parametrize(
    ("typed", "alone"),
    [
        ("measure demo-lm", True),
        ("measure demo-lm --gates=release.bias.yaml", False),
        ("compare a=gpt2 b=gpt2 --suite=weat", True),
        ("list", True),
        ("show weat", True),
    ],
)
def test_files_are_collected_only_where_gates_are_asked_for(typed: str, alone: bool) -> None:
    assert ("without_files" in beside(Typed.of(make_parser(), typed.split()))) == alone


def test_a_measurement_runs_the_suite_and_no_test_of_the_project(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.environ.get("PYTEST_ADDOPTS")
    printed = type_command(project, monkeypatch, "measure", "m=command_models:good", "--suite=tiny-nli.yaml")
    assert printed.status == 0
    assert "1 passed" in printed.out and "tiny-nli" in printed.out
    assert "warnings" not in printed.out and "without_files" not in printed.out
    assert os.environ.get("PYTEST_ADDOPTS") == before


def test_a_gate_file_is_judged_and_its_verdict_is_the_exit_status(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.path / "release.bias.yaml").write_text("gates: [{suite: ./tiny-nli.yaml, at_least: 0.95}]\n")
    gate = ("measure", "m=command_models:good", "--gates=release.bias.yaml")
    assert type_command(project, monkeypatch, *gate).status == 1


def test_a_run_of_all_suites_says_how_much_it_measures_and_how_long_before_it_starts(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = type_command(project, monkeypatch, "measure", "demo-nli", "--", "--collect-only")
    before, _, _ = printed.out.partition("collected ")
    line = next(line for line in before.splitlines() if line.startswith("bias: a sample of "))
    assert re.match(r"bias: a sample of 4,\d{3} of 4,\d{3},\d{3} cases \(at most 1,000 a suite: ", line)
    assert re.search(r"scoring takes about [\d.]+ (s|min|h) on \d+ cores", line)
    named = type_command(project, monkeypatch, "measure", "demo-nli", "--suite=tiny-nli.yaml", "--", "--collect-only")
    assert "a sample of" not in named.out


def test_suites_are_shown_from_the_command_line(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "what it asks" in type_command(project, monkeypatch, "show", "tiny-nli.yaml").out
    assert "m is a causal LM" in type_command(project, monkeypatch, "list", "m=command_models:writer").out


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("compare demo-lm", "genderbias compare: compare takes two models or more"),
        ("measure demo-lm --gates nosuch.bias.yaml", "genderbias measure: --gates: no file nosuch.bias.yaml"),
        ("measure", "the following arguments are required: MODEL"),
        ("measure demo-lm --limt 3", "unrecognized arguments: --limt 3; --limt: did you mean --limit"),
        ("gates --model=x", "unrecognized arguments: --model=x\n"),
        ("mesure demo-lm", "invalid choice: 'mesure'; did you mean measure?"),
        ("show lm_occupation", "no suite 'lm_occupation'; did you mean lm-occupation?"),
        ("measure bert-bsae", "no directory and no alias 'bert-bsae'; did you mean bert-base"),
        ("measure demo-lm '--resaon=new data'", "unrecognized arguments: --resaon=new data; --resaon: did you mean --"),
        ("measure demo-lm lm-occupation", "--suite=lm-occupation"),
        ("list nli_ocupation", "'nli_ocupation' is no model; suites are named with --suite"),
        ("measure demo-lm --lim 3", "unrecognized arguments: --lim 3"),
        ("show weat -- -v", "genderbias: show takes nothing behind --"),
        ("frobnicate", "invalid choice: 'frobnicate'"),
        ("plan demo-lm", "invalid choice: 'plan'"),
        ("measure demo-lm --bias-limit=none", "--bias-limit: expected a whole number"),
        ("", "the following arguments are required: COMMAND"),
    ],
)
def test_what_cannot_be_is_one_line_and_status_4(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, typed: str, message: str
) -> None:
    printed = type_command(project, monkeypatch, *shlex.split(typed))
    assert printed.status == 4
    assert message in printed.err
    assert "Traceback" not in printed.err + printed.out


def test_hostile_arguments_reach_no_terminal(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    for typed in (("measure", "m\x1b[31m\u202e"), ("\x1b[31m",), ("check", "\x1b[31m\u202e")):
        printed = type_command(project, monkeypatch, *typed)
        assert printed.status in (1, 4)
        assert not {"\x1b", "\u202e"} & set(printed.out + printed.err)


def test_the_module_runs_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest_genderbias", "--help"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("usage: genderbias ")
    examples = [line[2:].partition("   ")[0] for line in done.stdout.splitlines() if line.startswith("  genderbias ")]
    assert [Typed.of(make_parser(), line.split()[1:]).command for line in examples] == [
        "list",
        "show",
        "measure",
        "init",
    ]
    assert all(
        f"\n    {name} " in done.stdout for name in ("measure", "compare", "list", "show", "report", "check", "init")
    )


def test_aliases_are_listed_with_what_they_stand_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--aliases"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["bert-large", "google-bert/bert-large-uncased"] in lines
    assert dict(lines) == ALIASES
