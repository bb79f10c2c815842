"""``genderbias completion``: the script completes commands, flags and names in the shell itself."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from support.command_lines import type_command

from pytest_genderbias.command_line.arguments import make_parser
from pytest_genderbias.command_line.completion import commands_of
from pytest_genderbias.plugin.options import FLAGS

BASH = shutil.which("bash")


@pytest.fixture
def completed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    if BASH is None:
        pytest.skip("no bash")
    script = type_command(pytester, monkeypatch, "completion", "bash").out

    def complete(*words: str) -> set[str]:
        line = " ".join(f"'{word}'" for word in ("genderbias", *words))
        asked = (
            f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; _genderbias; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        )
        return set(subprocess.run([BASH, "-c", asked], capture_output=True, text=True, check=True).stdout.split())

    return complete


def test_commands_flags_suites_models_and_files_are_completed(completed, pytester: pytest.Pytester) -> None:
    assert completed("m") == {"measure"}
    assert completed("") == set(commands_of(make_parser()))
    assert completed("measure", "--li") == {"--limit"}
    assert completed("measure", "demo-n") == {"demo-nli"}
    assert completed("show", "nli-") == {"nli-demonym", "nli-occupation", "nli-religion"}
    assert completed("init", "--c") == {"--ci"}
    pytester.makefile(".json", run="{}")
    assert completed("report", "ru") == {"run.json"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_every_command(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    printed = type_command(pytester, monkeypatch, "completion", shell)
    assert printed.status == 0
    assert set(commands_of(make_parser())) <= set(re.findall(r"[\w-]+", printed.out))


def test_every_flag_of_a_run_is_an_argument_of_measure_or_of_a_command_of_its_own() -> None:
    measure = commands_of(make_parser())["measure"].format_help()
    commands = {
        "--bias-model",
        "--bias-suite",
        "--bias-list",
        "--bias-show",
        "--bias-compare",
        "--bias-cache-info",
    }
    missing = {
        f.name for f in FLAGS.values() if f"--{f.name.removeprefix('--bias-')} " not in measure.replace("\n", " \n")
    } - commands
    assert not missing
