"""A wrong flag is a usage error of one line."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path

import pytest

from pytest_genderbias.plugin import flag_values
from pytest_genderbias.plugin.options import SETTINGS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bias-model=./nowhere"], "--bias-model: no directory ./nowhere*"),
        (["--bias-suite=nothing"], "--bias-suite: no suite 'nothing'*"),
        (["--bias-suite= ,"], "--bias-suite: no suite is named; expected 'all', or names such as lm-occupation"),
        (["--bias-suite=./nothing.yaml"], "--bias-suite: no file *nothing.yaml"),
        (["--bias-limit=0"], "--bias-limit: expected a whole number of at least 1, got '0'"),
        ([f"--bias-limit={'9' * 5_000}"], "--bias-limit: expected a whole number of at least 1, got '99*"),
        ([f"--bias-margin={'9' * 400}"], "*a margin should be a number of 0 or more *"),
        (["--bias-dtype=float8"], "--bias-dtype: expected one of *"),
        (["--bias-model=a=gpt2", "--bias-model=a=bert-base"], "--bias-model: two models are called 'a'*"),
        (["--bias-update", "--bias-update-new"], "--bias-update and --bias-update-new exclude each other*"),
        (["--bias-model=broken.jsonl"], "--bias-model: *broken.jsonl:1: not valid JSON: *"),
        (["--bias-model=empty.jsonl"], "--bias-model: *empty.jsonl: the file has no rows"),
        (["--bias-option=unit"], "--bias-option: expected *SUITE:*NAME=VALUE, got 'unit'"),
        (["--bias-option=unitt=word_pair"], "--bias-option: no suite has an option 'unitt'; did you mean unit?*"),
        (["--bias-option=unit=.inf"], "--bias-option: '.inf' is not a valid value: *put it in quotes*"),
        (["--bias-margin=auto"], "--bias-margin: a margin should be a number of 0 or more*; got 'auto'"),
        (["--bias-margin=-1"], "--bias-margin: a margin should be a number of 0 or more*; got -1.0"),
        (
            ["-obias_correct_for=all"],
            "bias_correct_for: expected one of model, module, none or a whole number of at least 1, got 'all'",
        ),
        (["-obias_correct_for=0"], "bias_correct_for: expected *got '0'"),
        (["--bias-seeds=1"], "--bias-seeds: expected a whole number of at least 2, got '1'"),
        (["--bias-seeds=x"], "--bias-seeds: expected a whole number of at least 2, got 'x'"),
        (
            ["--bias-json=broken.jsonl/r.json"],
            "--bias-json: *broken.jsonl cannot be written; choose another folder for the file",
        ),
        *(
            (
                [f"{flag}{'x' * 300}"],
                f"{flag.removeprefix('-o').partition('=')[0]}: *{'x' * 300}: *; choose another path",
            )
            for flag in (
                "--bias-json=",
                "--bias-data=",
                "--bias-baseline=",
                "--bias-cache=",
                "-obias_runs=",
                "-obias_tokenizer=m=",
            )
        ),
        (["--bias-summary=."], "--bias-summary: * is a folder; give the path of a file"),
        (["--bias-reason=because"], "--bias-reason: goes with --bias-update, which accepts what is worse"),
        (["--bias-reason=because", "--bias-update-new"], "--bias-reason: goes with --bias-update, *"),
    ],
)
def test_a_wrong_setting_is_a_usage_error(project: pytest.Pytester, arguments: list[str], message: str) -> None:
    project.path.joinpath("broken.jsonl").write_text('{"id": \n')
    project.path.joinpath("empty.jsonl").write_text("")
    with pytest.raises(pytest.UsageError) as error:
        project.parseconfigure(*arguments)
    assert fnmatch(str(error.value), message.replace("[", "[[]"))
    assert "\n" not in str(error.value)


def test_a_device_is_written_in_a_folder_where_nothing_else_can_be(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flag_values, "not_writable", lambda folder: folder)
    assert project.parseconfigure(f"--bias-json={os.devnull}").stash[SETTINGS].json == Path(os.devnull)
    with pytest.raises(pytest.UsageError, match="cannot be written"):
        project.parseconfigure("--bias-json=r.json")


def test_a_usage_error_is_one_line(project: pytest.Pytester) -> None:
    result = project.runpytest("--bias-limit=0")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line.strip()] == [
        "ERROR: --bias-limit: expected a whole number of at least 1, got '0'"
    ]
