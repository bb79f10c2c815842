"""``genderbias report``: the files that a run would have written, from its JSON."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command_lines import Printed, type_command
from support.small_projects import GENDERED, MODELS, PERSONS, SUITES

from pytest_genderbias.plugin import outputs
from pytest_genderbias.reports.run_report import RunReport

GATES = "gates: [{suite: ./tiny-nli.yaml, at_least: 0.95}]\n"


@pytest.fixture
def stored(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with the report of a run, whose one gate fails, and its summary."""
    pytester.makepyfile(stored_models=MODELS)
    pytester.makefile(".yaml", persons=PERSONS, gendered=GENDERED, **SUITES)
    (pytester.path / "release.bias.yaml").write_text(GATES)
    pytester.syspathinsert()
    run = (
        "release.bias.yaml",
        "--bias-model=m=stored_models:good",
        "--bias-json=run.json",
        "--bias-summary=run.md",
        "--bias-ctrf=run.ctrf",
    )
    assert pytester.runpytest(*run).ret == 1
    return pytester


def report(stored: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *flags: str) -> Printed:
    return type_command(stored, monkeypatch, "report", "run.json", *flags)


def test_the_files_are_those_of_the_run(stored: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = report(stored, monkeypatch, "--summary=again.md", "--bias-ctrf=again.ctrf", "--history", "runs.db")
    assert printed == ("", "", 0)
    assert Path("again.md").read_bytes() == Path("run.md").read_bytes()
    assert Path("again.ctrf").read_bytes() == Path("run.ctrf").read_bytes()
    assert Path("runs.db").exists()
    printed = report(stored, monkeypatch)  # without a flag
    assert printed.status == 0
    assert "tiny-nli" in printed.out and "over the limit" in printed.out
    monkeypatch.setattr(outputs.Output, "write", _write_only_ctrf)
    printed = report(stored, monkeypatch, "--summary=other.md", "--ctrf=other.ctrf")
    assert printed.status == 1, "a file that cannot be written stops no other"
    assert printed.err == f"--bias-summary: {Path('other.md').absolute()} cannot be written: full\n"
    assert Path("other.ctrf").exists()


def _write_only_ctrf(output: outputs.Output, report: RunReport, path: Path) -> None:
    if output.field != "ctrf":
        raise OSError(28, "full")
    path.write_text("")


def test_a_missing_package_is_said_before_anything_is_read(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs.Output, "missing_packages", lambda self: ["jinja2"])
    printed = report(pytester, monkeypatch, "--summary=again.md")
    assert printed.status == 4
    assert "needs jinja2" in printed.err and not Path("again.md").exists()


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"schema": 1, "measurements": []}'])
def test_what_is_no_report_is_one_line(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    Path("run.json").write_text(text)
    printed = report(pytester, monkeypatch)
    assert printed.status == 4
    assert len(printed.err.splitlines()) == 1 and "run.json" in printed.err


def test_a_wrong_path_is_refused_as_in_a_run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = report(pytester, monkeypatch, "--records=table.xls")
    assert printed.status == 4
    assert "--bias-records" in printed.err
