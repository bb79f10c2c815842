"""``--bias-cache`` and the other flags of the score cache: kept, shown, cleared, and limited in size."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from support.cache_entries import ABOUT, add
from support.command_lines import SHOWS
from support.small_projects import WORKERS

from pytest_genderbias.scoring.store import list_entries

pytestmark = pytest.mark.skipif(os.name == "nt", reason="processes are forked, and killed with SIGKILL")


MODEL = """
import numpy as np

class Classifier:
    labels = ("entailment", "neutral", "contradiction")
    fingerprint = "constant"
    def pair_probabilities(self, premises, hypotheses):
        return np.tile([0.8, 0.1, 0.1], (len(premises), 1))
"""


@pytest.fixture
def cached(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("XDG_CACHE_HOME", str(pytester.path / "home"))
    name = f"model_{pytester.path.name.replace('-', '_')}"
    pytester.makepyfile(**{name: MODEL}, test_nothing="def test_nothing(): pass")
    pytester.syspathinsert()
    pytester.measuring = (  # type: ignore[attr-defined]
        "-p",
        "no:cacheprovider",
        f"--bias-model=m={name}:Classifier",
        "--bias-suite=nli-occupation",
        "--bias-limit=200",
        "--bias-cache=cache",
    )
    return pytester


INFO = (*SHOWS, "--bias-cache-info", "--bias-cache=cache")


def test_info_of_a_cache_that_is_not_there_or_empty(cached: pytest.Pytester) -> None:
    result = cached.runpytest(*SHOWS, "--bias-cache-info")
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"score cache: {cached.path}/home/pytest-genderbias/scores does not exist yet"])
    result.stdout.no_fnmatch_line("*test session starts*")
    assert not (cached.path / "home").exists()
    (cached.path / "cache").write_text("")
    cached.runpytest(*INFO).stdout.fnmatch_lines([f"score cache: {cached.path}/cache is no folder"])
    (cached.path / "cache").unlink()
    (cached.path / "cache").mkdir()
    cached.runpytest(*INFO).stdout.fnmatch_lines(["score cache: * is empty"])


def test_info_shows_suites_and_models_and_runs_nothing(cached: pytest.Pytester) -> None:
    cache = cached.path / "cache"
    noon = time.mktime((2026, 1, 2, 12, 0, 0, 0, 0, -1))
    add(cache, "a", used=noon)
    add(cache, "b", used=noon - 10**6)
    add(cache, "c", used=noon, about={**ABOUT, "model": "n", "cases": 6})
    add(cache, "d", used=noon, about={**ABOUT, "suite": "sts-gender"})
    add(cache, "e", used=noon, about=None)
    add(cache, "f", used=noon, about={**ABOUT, "model": "\x1b[31mred\r\n\u202eb" + "x" * 300})
    result = cached.runpytest(*INFO, *WORKERS)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            f"score cache: {cache}",
            "6 entries, * kB (bounded to 10.0 GB at the end of a run)",
            r"  nli-occupation  \x1b[[]31mred*",
            r"*xxx...",
            "    entries 1; size * bytes; cases 6 of 2,000; last used 2026-01-02 12:00",
            "  nli-occupation  m",
            "    entries 2; size * bytes; cases 12; last used 2026-01-02 12:00",
            "  nli-occupation  n",
            "    entries 1; size * bytes; cases 6; last used 2026-01-02 12:00",
            "  sts-gender  m",
            "    entries 1; size * bytes; cases 6 of 2,000; last used 2026-01-02 12:00",
            "  unknown  unknown",
            "    entries 1; size * bytes; cases unknown; last used 2026-01-02 12:00",
        ],
        consecutive=False,
    )
    assert "\x1b[31m" not in result.stdout.str()
    assert "passed" not in result.stdout.str()


def test_info_can_be_printed_anywhere(cached: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    add(cached.path / "cache", about={**ABOUT, "model": "modèle"})
    result = cached.runpytest_subprocess(*INFO)
    assert result.ret == 0
    result.stdout.fnmatch_lines([r"*mod\xe8le*"[:5] + "*"])


@pytest.mark.parametrize("asked", [INFO, tuple(flag for flag in INFO if flag != "--bias-cache-info")])
def test_clear_removes_what_nobody_uses_and_says_what_it_did(
    cached: pytest.Pytester, holder: Any, asked: tuple[str, ...]
) -> None:
    cache = cached.path / "cache"
    add(cache)
    in_use = add(cache, "in use")
    (cache / "precious.txt").write_text("not ours")
    holder(in_use)
    result = cached.runpytest(*asked, "--bias-cache-clear")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            (
                f"score cache {cache}: removed 1 entry (*), left 1 entry that another process holds or that cannot be"
                " locked"
            ),
            f"score cache: {cache}",
        ]
    )
    assert [one.path for one in list_entries(cache)] == [in_use]
    assert (cache / "precious.txt").exists()


def test_no_cache_cannot_be_shown(cached: pytest.Pytester) -> None:
    result = cached.runpytest(*INFO, "--bias-no-cache")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: there is no score cache with --bias-no-cache; *"])


def test_a_run_bounds_the_cache_and_keeps_what_it_used(cached: pytest.Pytester) -> None:
    cache = cached.path / "cache"
    old = add(cache, "old", used=1000.0)
    cached.runpytest(*cached.measuring).assert_outcomes(passed=2)  # type: ignore[attr-defined]
    assert old.exists()
    size = sum(entry.size for entry in list_entries(cache)) - 1
    cached.runpytest("-p", "no:cacheprovider", "--bias-cache=cache", "-obias_cache_size=0")
    assert old.exists()  # nothing was measured
    result = cached.runpytest(*cached.measuring, f"-obias_cache_size={size}")  # type: ignore[attr-defined]
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["note: score cache *: removed 1 entry (*); the least recently used entries go *"])
    assert not old.exists()
    assert len(list_entries(cache)) == 1


def test_interrupting_keeps_the_scores(project: pytest.Pytester) -> None:
    project.makepyfile(
        interrupting="""
        import numpy as np
        from pathlib import Path

        class Slow:
            labels = ("entailment", "neutral", "contradiction")
            fingerprint = "slow"
            def pair_probabilities(self, premises, hypotheses):
                calls = Path("calls.txt")
                calls.write_text((calls.read_text() if calls.exists() else "") + f"{len(premises)} ")
                if len(calls.read_text().split()) == 3:
                    raise KeyboardInterrupt
                return np.tile([0.1, 0.8, 0.1], (len(premises), 1))
        """
    )
    arguments = (
        "--bias-suite=nli-religion",
        "--bias-limit=20000",
        "--bias-model=slow=interrupting:Slow",
        "--bias-cache=scores",
    )
    first = project.runpytest_inprocess(*arguments, no_reraise_ctrlc=True)
    assert first.ret == pytest.ExitCode.INTERRUPTED
    second = project.runpytest_inprocess(*arguments)
    second.assert_outcomes(passed=1)
    scored = [int(n) for n in project.path.joinpath("calls.txt").read_text().split() if int(n) > 10]
    assert sum(scored) <= 20000 + 4096, "at most one window is scored again"


@pytest.mark.parametrize("verbosity", [(), ("-q",)])
def test_a_cache_that_is_not_trusted_is_named_in_every_run(cached: pytest.Pytester, verbosity: tuple[str, ...]) -> None:
    folder = cached.mkdir("cache")
    cached.runpytest(*cached.measuring, *verbosity).stdout.no_fnmatch_line("*score cache*")  # type: ignore[attr-defined]
    folder.chmod(0o777)
    result = cached.runpytest(*cached.measuring, *verbosity)  # type: ignore[attr-defined]
    result.stdout.fnmatch_lines(
        ["note: nothing is read from or written to the score cache: every user can write to *cache; run: chmod o-w *"]
    )
    assert result.ret == 0


def test_a_cache_that_is_a_file_is_named_and_stays(cached: pytest.Pytester) -> None:
    (cached.path / "cache").write_text("notes")
    result = cached.runpytest(*cached.measuring)  # type: ignore[attr-defined]
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["note: nothing is read from or written to the score cache: *cache is no folder; give *"]
    )
    assert (cached.path / "cache").read_text() == "notes"


def test_a_cache_of_another_user_is_named(cached: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = cached.mkdir("cache")
    if os.getuid() == 0:
        os.chown(folder, 1234, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 4321)
    result = cached.runpytest(*cached.measuring)  # type: ignore[attr-defined]
    result.stdout.fnmatch_lines(
        ["note: nothing is read from or written to the score cache: *cache belongs to another user *--bias-cache=DIR*"]
    )
