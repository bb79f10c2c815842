"""Progress: rate and time left, on the terminal and from the workers of xdist."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from support.small_projects import WORKERS, model

from pytest_genderbias.plugin import progress
from pytest_genderbias.plugin.progress import TerminalProgress, WorkersOnOneLine, describe_progress, on_one_line


class Clock:
    """A clock that goes on by itself, a second a look."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1.0
        return self.now

    def time(self) -> float:
        return time.time()


def test_rate_and_time_left_count_what_was_done_in_this_run() -> None:
    line = describe_progress("nli-occupation on m", "cases", total=10_000, done=6_000, before=5_000, seconds=10.0)
    assert line == "nli-occupation on m  60 % of 10,000 cases  100/s  0:40 left"
    line = describe_progress("cda, seed 0", "steps", 100, 1, 0, 40.0)
    assert line.endswith("1 % of 100 steps  40 s each  1:06:00 left")
    hostile = describe_progress("\x1b[31m\u202e" + "x" * 100_000, "cases", 2, 1, 0, 1.0)
    assert hostile.isprintable() and len(hostile) < 120


@pytest.mark.parametrize("unit", ["cases", "steps"])
def test_scoring_and_training_write_lines_where_there_is_no_terminal(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], unit: str
) -> None:
    monkeypatch.setattr(progress, "time", Clock())
    config = pytester.parseconfig()
    with TerminalProgress(config, unit)("lm-occupation on m", 100, 10) as advance:
        for _ in range(89):
            advance(1)
    lines = [line for line in capfd.readouterr().err.splitlines() if line]
    assert [line.partition(" % ")[0] for line in lines] == [f"lm-occupation on m  {n}" for n in (40, 70)]
    assert lines[0].endswith(f"of 100 {unit}  1/s  1:00 left")


def test_a_quiet_run_shows_nothing(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "time", Clock())
    with TerminalProgress(pytester.parseconfig("-q"))("lm-occupation on m", 100, 0) as advance:
        for _ in range(99):
            advance(1)
    assert capfd.readouterr().err == ""


def test_on_a_terminal_the_line_of_pytest_comes_back(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "time", Clock())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with TerminalProgress(pytester.parseconfig())("lm-occupation on m", 10, 0) as advance:
        advance(4)
        advance(4)
    shown = capfd.readouterr().err
    assert shown.count("\n") == 1, "one line, below that of pytest"
    assert shown.index("40 % of 10 cases") < shown.index("80 % of 10 cases")
    assert shown.endswith("\r\x1b[K\x1b[A"), "removed"


def test_a_worker_tells_the_controller(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "time", Clock())
    config = pytester.parseconfig()
    config.workerinput = {"genderbias_progress": str(pytester.path), "workerid": "gw1"}  # type: ignore[attr-defined]
    with TerminalProgress(config)("weat on m", 10, 0) as advance:
        advance(5)
        assert on_one_line(pytester.path) == "gw1 weat on m 50 %, 5/s, 0:01 left"
    assert on_one_line(pytester.path) == ""


def test_files_that_are_no_text_or_old_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "gw0.txt").write_bytes(b"\xff")
    (tmp_path / "gw1.part").write_text("half")
    for name in ("gw10.txt", "gw9.txt", "old.txt"):
        (tmp_path / name).write_text("l 100 %")
    os.utime(tmp_path / "old.txt", (0, 0))
    assert on_one_line(tmp_path) == "gw9 l 100 % | gw10 l 100 %"
    assert on_one_line(tmp_path / "absent") == ""


SLOW = """

def slow():
    import time
    class Slow(Classifier):
        def pair_probabilities(self, premises, hypotheses):
            time.sleep(0.02 * len(premises))
            return super().pair_probabilities(premises, hypotheses)
    model = Slow(0.9)
    model.fingerprint = "slow"
    return model
"""


@pytest.mark.slow
def test_the_controller_shows_its_workers(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    source = project.path / f"{project.models}.py"  # type: ignore[attr-defined]
    source.write_text(source.read_text() + SLOW)
    project.makeconftest(
        "from pytest_genderbias.plugin import progress\nprogress._LINE_EVERY = 0.2\nprogress._SEND_EVERY = 0.1\n"
        "progress._LineFile.every = 0.1\nfrom pytest_genderbias.scoring import engine\nengine.WINDOW = 16\n"
    )
    temporary = project.mkdir("temporary")
    monkeypatch.setenv("TMPDIR", str(temporary))
    result = project.runpytest_subprocess(*WORKERS, "--bias-suite=tiny-nli.yaml", model(project, "slow"))
    result.assert_outcomes(passed=1)
    result.stderr.re_match_lines([r"gw\d tiny-nli on m \d+ %, \d+/s, \d:\d\d left"])
    assert not list(temporary.glob("genderbias-progress-*"))


def test_without_workers_there_is_no_folder(pytester: pytest.Pytester) -> None:
    shows = WorkersOnOneLine(pytester.parseconfig())
    shows.pytest_sessionfinish()
