"""``genderbias history``: the table of what earlier runs measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.command_lines import Printed, type_command
from support.hand_made import hand_made
from support.run_reports import WORST

from pytest_genderbias.reports.history import write_history
from pytest_genderbias.reports.run_report import RunInfo, RunReport


@pytest.fixture
def runs(pytester: pytest.Pytester) -> pytest.Pytester:
    """A history of two releases, the second worse."""
    for day, shift in ((1, 0.0), (2, 0.2)):
        report = RunReport(RunInfo(f"2026-11-0{day}T12:00:00+00:00", "0.1.0"))
        write_history(replace(report, measurements=(hand_made(shift), hand_made(model="n"))), Path("runs.db"))
    return pytester


def history(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *flags: str) -> Printed:
    return type_command(pytester, monkeypatch, "history", "runs.db", *flags)


def cells(printed: Printed) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in printed.out.splitlines()[2:]]


def test_a_line_a_statistic_shows_what_changed(runs: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = history(runs, monkeypatch, "--markdown")
    assert printed.status == 0
    first, second = cells(printed)
    assert first[:5] == ["m", "tiny", "share", "2", "2026-11-01"]
    assert first[5:8] == ["0.25", "0.45", "0.2 worse"]
    assert second[0] == "n" and second[7] == "no change"
    assert [
        row[0] for row in cells(history(runs, monkeypatch, "--markdown", "--model=n", "--suite=tiny", "--all"))
    ] == ["n"]
    assert [row[3] for row in cells(history(runs, monkeypatch, "--markdown", "--runs=1"))] == ["1", "1"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--model=other",), "genderbias history: runs.db: no run has the model 'other'; it has m, n"),
        (("--suite=weat",), "genderbias history: runs.db: no run has the suite 'weat'; it has tiny"),
        (("--runs=0",), "expected a whole number of at least 1, got '0'"),
    ],
)
def test_what_is_not_there_is_one_line(
    runs: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], message: str
) -> None:
    printed = history(runs, monkeypatch, *flags)
    assert printed.status == 4
    assert message in printed.err and not printed.out


def test_no_history_is_one_line_and_none_is_made(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = history(pytester, monkeypatch)
    assert printed.status == 4
    assert len(printed.err.splitlines()) == 1
    assert "runs.db: the history cannot be read: there is no such file" in printed.err
    assert not Path("runs.db").exists()
    Path("runs.db").mkdir()
    assert "runs.db: the history cannot be read: it is a folder" in history(pytester, monkeypatch).err


def test_hostile_names_reach_no_terminal(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    report = RunReport(RunInfo("2026-11-01T12:00:00+00:00", "0.1.0"), (hand_made(model=WORST, suite=WORST),))
    write_history(report, Path("runs.db"))
    for printed in (
        history(pytester, monkeypatch),
        history(pytester, monkeypatch, "--markdown"),
        history(pytester, monkeypatch, "--model=other"),
    ):
        assert not {"\x1b", "\u202e", "\x9b"} & set(printed.out + printed.err)
        assert len(printed.out + printed.err) < 100_000


@pytest.mark.parametrize("width", [80, 100, 160])
def test_a_terminal_shows_a_line_a_statistic_by_model(
    runs: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    own = hand_made(0.2)
    more = {name: {**getattr(own, name), "side": None} for name in ("values", "intervals", "bounds")}
    two = {**own.statistics, "side": own.statistics["share"]}
    write_history(
        RunReport(RunInfo("2026-11-03T12:00:00+00:00", ""), (replace(own, statistics=two, **more),)), Path("runs.db")
    )
    monkeypatch.setenv("COLUMNS", str(width))
    lines = history(runs, monkeypatch).out.splitlines()
    assert lines[0] == "runs.db: 3 runs from 2026-11-01 to 2026-11-03"
    assert lines[1:3] == ["", "m"]
    assert lines[3].split()[:2] == ["tiny", "share"]
    assert "0.2 worse" in lines[3] and ("0.25 -> 0.45" in lines[3]) == (width >= 100)
    assert lines[-1] == "1 more statistics: --all"
    assert all(len(line) <= width for line in lines)


def test_pictures_are_drawn_where_a_folder_is_named(runs: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    assert history(runs, monkeypatch, "--figures=drawn", "--model=m").status == 0
    assert {path.suffix for path in Path("drawn").iterdir()} == {".png", ".svg", ".md"}
    assert "over 2 runs" in Path("drawn/figures.md").read_text()


def test_a_file_of_something_else_is_refused(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("runs.db").write_text("model,value\n" * 50)
    assert history(pytester, monkeypatch) == (
        "",
        (
            "genderbias history: runs.db: expected a history that genderbias report wrote, got something else (file is"
            " not a database); name another file\n"
        ),
        4,
    )
