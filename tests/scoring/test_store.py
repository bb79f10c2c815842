"""The score store: entries seen, cleared and bounded; runs that are killed, wait for each other, or find no room."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock
from support.cache_entries import ABOUT, add
from support.forks import forked
from support.killed_runs import CHUNK, KILLS, LIMIT, all_of_them

from pytest_genderbias.scoring import store
from pytest_genderbias.scoring.store import ScoreStore, bound, clear, held, list_entries

pytestmark = pytest.mark.skipif(os.name == "nt", reason="processes are forked, and killed with SIGKILL")


def filled(root: Path, name: str = "a", units: int = 3) -> int:
    """Return how many units are found."""
    one = ScoreStore(root, {"name": name}, ABOUT)
    with one.locked():
        return one.read(np.zeros((units, 2, 1)))


def names(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


# What is there.


def test_an_entry_says_what_it_is(tmp_path: Path) -> None:
    folder = add(tmp_path, used=1000.0)
    (entry,) = list_entries(tmp_path)
    assert (entry.suite, entry.model, entry.cases, entry.cases_total) == ("nli-occupation", "m", 6, 2000)
    assert entry.used == 1000.0
    assert entry.size == sum(path.stat().st_size for path in folder.iterdir())
    assert not entry.leftovers


def test_cases_are_counted_as_far_as_they_go_without_a_gap(tmp_path: Path) -> None:
    one = ScoreStore(tmp_path, {"name": "a"}, ABOUT)
    with one.locked():
        for start, stop in ((0, 5), (3, 9), (9, 10), (12, 20)):
            one.write(start, np.zeros((stop - start, 2, 1)))
    assert list_entries(tmp_path)[0].cases == 2 * 10
    assert filled(tmp_path, units=30) == 10


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"[1]",
        b"{}",
        b"\xff",
        b'{"suite": 3, "model": null, "cases": true, "cases_per_unit": ' + b"9" * 30 + b"}",
        b"[" * 100_000,
    ],
)
def test_an_entry_that_does_not_say_what_it_is_is_unknown_and_used_all_the_same(
    tmp_path: Path, content: bytes | None
) -> None:
    folder = add(tmp_path, about=None)
    assert not (folder / "about.json").exists()
    if content is not None:
        (folder / "about.json").write_bytes(content)
    (entry,) = list_entries(tmp_path)
    assert (entry.suite, entry.model, entry.cases, entry.cases_total) == (None, None, None, None)
    assert filled(tmp_path) == 3
    assert list_entries(tmp_path)[0].suite == "nli-occupation"  # mended by its next use


def test_about_is_no_part_of_the_key(tmp_path: Path) -> None:
    assert add(tmp_path) == add(tmp_path, about={**ABOUT, "model": "the same by another name"})
    assert [entry.model for entry in list_entries(tmp_path)] == ["the same by another name"]


def test_what_cannot_be_told_does_not_keep_scores_from_being_stored(tmp_path: Path) -> None:
    folder = add(tmp_path)
    (folder / "about.json").unlink()
    (folder / "about.json").mkdir()
    assert add(tmp_path, units=5) == folder
    assert filled(tmp_path, units=5) == 5


class OldLock(FileLock):
    """A lock as filelock once gave it: of a file that was removed while it was waited for."""

    removed = 0

    def acquire(self, *args: Any, **how: Any) -> Any:
        found = super().acquire(*args, **how)
        if OldLock.removed:
            OldLock.removed -= 1
            Path(self.lock_file).unlink()
            Path(self.lock_file).touch()
        return found


def test_a_lock_of_a_file_that_is_gone_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = add(tmp_path)
    monkeypatch.setattr("filelock.FileLock", OldLock)
    monkeypatch.setattr(OldLock, "removed", 1)
    one = ScoreStore(tmp_path, {"name": "a"}, ABOUT)
    with one.locked(), held(folder) as free:
        assert one.note is None
        assert not free  # what was locked at last is what others find
    monkeypatch.setattr(OldLock, "removed", 1)
    with held(folder) as free:
        assert not free
    with held(folder) as free:
        assert free
    monkeypatch.setattr(OldLock, "removed", 99)
    with one.locked():
        assert "other processes keep removing its folder" in str(one.note)


def test_reading_marks_an_entry_as_used(tmp_path: Path) -> None:
    add(tmp_path, "a", used=1000.0)
    add(tmp_path, "b", used=2000.0)
    assert [entry.used for entry in list_entries(tmp_path)] == [1000.0, 2000.0]
    filled(tmp_path, "a")
    assert [entry.used == 2000.0 for entry in list_entries(tmp_path)] == [True, False]


def test_a_thousand_files_are_read_as_one(tmp_path: Path) -> None:
    expected = np.random.default_rng(0).random((4000, 2, 1))
    one = ScoreStore(tmp_path, {"name": "long"}, ABOUT)
    with one.locked():
        for start in range(0, 4000, 4):
            one.write(start, expected[start : start + 4])
        found = np.zeros_like(expected)
        assert one.read(found) == 4000
    assert np.array_equal(found, expected)
    assert list_entries(tmp_path)[0].cases == 8000


# What may go.


def others_files(root: Path) -> None:
    """Put things into the folder that are not ours, some of them with names like ours."""
    inner = root / ("c" * 32)
    inner.mkdir()
    (inner / "0000000000-0000000003.npy").write_text("ours by its name")
    (inner / "notes.txt").write_text("not ours")
    (root / ("d" * 32)).mkdir()
    (root / ("e" * 32)).mkdir()
    (root / ("e" * 32) / "x.npy").write_text("an array of somebody's")
    (root / ("f" * 31)).mkdir()
    (root / ("f" * 31) / "0000000000-0000000003.npy").write_text("not ours")
    (root / ("A" * 32)).write_text("a file")
    (root / "heads").mkdir()
    (root / "heads" / "mine.safetensors").write_text("not ours")
    (root / "about.json").write_text("{}")
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "about.json").write_text("{}")
    (root / ("b" * 32)).symlink_to(outside)


def test_clear_removes_entries_and_nothing_else(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    others_files(cache)
    before = names(tmp_path)
    add(cache, "a")
    add(cache, "b", about=None)
    head = cache / "heads" / f"{'0' * 32}.safetensors"
    head.write_bytes(b"12345")
    entries = list_entries(cache)
    assert [entry.suite for entry in sorted(entries, key=lambda entry: entry.size)] == [
        "trained head",
        None,
        "nli-occupation",
    ]
    assert clear(cache) == (entries, [])
    assert names(tmp_path) == before
    assert list_entries(cache) == []


def test_there_is_nothing_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    for root in (tmp_path / "nowhere", tmp_path / "file"):
        assert list_entries(root) == []
        assert clear(root) == bound(root, 0) == ([], [])


def test_what_another_process_holds_stays_until_it_is_killed(tmp_path: Path, holder: Any) -> None:
    folder, other = add(tmp_path, "a"), add(tmp_path, "b")
    process = holder(folder)
    assert list(map(len, clear(tmp_path))) == [1, 1]
    assert filled(tmp_path, "b") == 0
    other.joinpath("0000000000-0000000001.npy").write_bytes(b"x")
    assert list(map(len, bound(tmp_path, 0))) == [1, 1]
    assert not other.exists()
    with held(folder) as free:
        assert not free
    process.kill()
    process.wait()
    with held(folder) as free:
        assert free
    assert filled(tmp_path, "a") == 3
    assert len(clear(tmp_path)[0]) == 1
    assert not folder.exists()


def test_a_process_that_waits_for_an_entry_that_is_removed_makes_it_anew(tmp_path: Path) -> None:
    folder = add(tmp_path)
    code = f"""
import sys; from pathlib import Path; sys.path[:0] = {[str(Path(__file__).parents[1]), str(Path(__file__).parent)]!r}
from test_store import add, filled
print("begins", flush=True)
add(Path(sys.argv[1])); print(filled(Path(sys.argv[1])))
"""
    with held(folder) as free:
        assert free
        process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        time.sleep(0.3)  # it waits by now
        folder.rename(tmp_path / "removed")  # in one step: file by file, it may make its lock again in between
    assert process.communicate(timeout=20)[0] == "3\n"
    assert list_entries(tmp_path)[0].cases == 6


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    folders = {name: add(tmp_path, name, used=used) for name, used in (("b", 2000.0), ("a", 1000.0), ("c", 3000.0))}
    each = list_entries(tmp_path)[0].size
    assert len(bound(tmp_path, 3 * each)[0]) == 0
    (first,), in_use = bound(tmp_path, 2 * each)
    assert (first.path, first.size, in_use) == (folders["a"], each, [])
    assert [name for name, folder in folders.items() if folder.exists()] == ["b", "c"]
    filled(tmp_path, "b")
    assert len(bound(tmp_path, 2 * each - 1)[0]) == 1
    assert [name for name, folder in folders.items() if folder.exists()] == ["b"]
    assert len(bound(tmp_path, 0)[0]) == 1
    assert names(tmp_path) == []


def test_what_a_killed_writer_left_is_swept_once_nobody_writes(tmp_path: Path, holder: Any) -> None:
    folder = add(tmp_path)
    left = [folder / ".0000000003-0000000006.npy-abcd_123", folder / ".about.json-abcd_123"]
    for path in left:
        path.write_bytes(b"half")
    process = holder(folder)
    assert list_entries(tmp_path)[0].leftovers
    bound(tmp_path, 10**9)
    assert all(path.exists() for path in left)
    process.kill()
    process.wait()
    bound(tmp_path, 10**9)
    assert not any(path.exists() for path in left)
    assert filled(tmp_path) == 3
    left[0].write_bytes(b"half")
    filled(tmp_path)
    assert not left[0].exists()


# Places that do not do what is wanted.


@pytest.mark.parametrize("error", [OSError(95, "no locks here"), NotImplementedError("no flock")])
def test_without_locks_scores_are_read_and_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    import filelock

    folder = add(tmp_path)

    def refuse(*args: Any, **settings: Any) -> None:
        raise error

    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
    one = ScoreStore(tmp_path, {"name": "a"}, ABOUT)
    with one.locked():
        assert one.read(np.zeros((9, 2, 1))) == 3
        one.write(3, np.zeros((6, 2, 1)))
    assert one.note is not None
    assert one.note.startswith("scores not cached: no ")
    assert len(list(folder.glob("*.npy"))) == 1
    assert list(map(len, clear(tmp_path))) == [0, 1]  # who uses it cannot be told
    assert folder.exists()


def test_a_folder_that_cannot_be_made_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    one = ScoreStore(tmp_path / "file" / "cache", {"name": "a"}, ABOUT)
    with one.locked():
        assert one.read(np.zeros((3, 2, 1))) == 0
        one.write(0, np.zeros((3, 2, 1)))
    assert one.note is not None


def test_a_write_that_fails_is_a_note_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = add(tmp_path)

    def full(*paths: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        one = ScoreStore(tmp_path, {"name": "a"}, ABOUT)
        with one.locked():
            one.write(3, np.zeros((6, 2, 1)))
    assert one.note == f"scores not cached: No space left on device ({folder})"
    assert len(list(folder.iterdir())) == 3
    assert filled(tmp_path, units=9) == 3


def test_an_entry_that_others_keep_removing_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import filelock

    def gone(*args: Any, **settings: Any) -> None:
        raise FileNotFoundError(2, "gone")

    monkeypatch.setattr(filelock.FileLock, "acquire", gone)
    one = ScoreStore(tmp_path, {"name": "a"}, ABOUT)
    with one.locked():
        one.write(0, np.zeros((3, 2, 1)))
    assert one.note is not None
    assert "keep removing" in one.note


def test_scores_of_another_version_are_another_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = add(tmp_path)
    monkeypatch.setattr(store, "SCORING_VERSION", store.SCORING_VERSION + 1)
    assert add(tmp_path) != folder


# Runs that are killed.


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What ``killed_runs.py`` saw, in a copy of this process."""
    folder = tmp_path_factory.mktemp("killed")
    told = folder / "told"
    assert forked(lambda: all_of_them(folder), told, seconds=600) == 0, told.read_text()
    return dict(json.loads(told.read_text()))


def test_a_run_killed_again_and_again_ends_as_one_that_nobody_disturbs(killed: dict[str, Any]) -> None:
    runs = killed["kill_again_and_again"]
    assert runs["whole"]["scored"] == LIMIT
    assert runs["whole"]["summary"]["values"]["net_neutral"] is not None
    assert runs["last"]["summary"] == runs["again"]["summary"] == runs["whole"]["summary"]
    assert runs["again"]["scored"] == 0
    assert sum(run["killed"] for run in runs["killed"]) == KILLS


def test_a_kill_loses_one_chunk_at_most(killed: dict[str, Any]) -> None:
    runs = [
        run
        for run in (*killed["kill_again_and_again"]["killed"], killed["kill_again_and_again"]["last"])
        if run["found"] is not None
    ]
    assert len(runs) > KILLS // 2
    for run, following in pairwise(runs):
        assert run["found"] <= following["found"]
        assert run["found"] + run["scored"] - following["found"] in range(-CHUNK, CHUNK + 1)
    assert runs[-1]["found"] > LIMIT // 4
    assert runs[-1]["found"] + runs[-1]["scored"] == LIMIT


def test_of_two_runs_at_once_one_scores_and_the_other_finds(killed: dict[str, Any]) -> None:
    one, other = killed["two_at_once"]
    assert sorted((one["scored"], other["scored"])) == [0, LIMIT]
    assert one["summary"] == other["summary"] == killed["kill_again_and_again"]["whole"]["summary"]


def test_a_run_goes_on_where_the_one_that_it_waited_for_was_killed(killed: dict[str, Any]) -> None:
    first, second = killed["killed_beside_another"]
    assert first["killed"]
    assert 0 < second["found"] <= LIMIT
    assert abs(first["scored"] - second["found"]) <= CHUNK
    assert second["found"] + second["scored"] == LIMIT
    assert second["summary"] == killed["kill_again_and_again"]["whole"]["summary"]


def test_a_kill_in_the_middle_of_a_write_leaves_no_half_file(killed: dict[str, Any]) -> None:
    runs = killed["in_a_write"]
    assert runs["killed"]["killed"]
    assert len(runs["left"]) == 1
    assert runs["then"] == []
    assert runs["next"]["found"] == runs["killed"]["scored"] - CHUNK > 0
    assert runs["next"]["summary"] == killed["kill_again_and_again"]["whole"]["summary"]


def test_a_disk_without_room_is_a_note(killed: dict[str, Any]) -> None:
    run, whole = killed["without_room"], killed["kill_again_and_again"]["whole"]
    assert run["scored"] == LIMIT
    assert any(note.startswith("scores not cached: ") for note in run["summary"].pop("notes"))
    assert run["summary"].items() <= whole["summary"].items()


# A folder that others can write to.


def test_a_cache_that_every_user_can_write_to_is_neither_read_nor_written(tmp_path: Path) -> None:
    add(tmp_path, "a")
    assert filled(tmp_path) == 3
    (entry,) = (path for path in tmp_path.iterdir() if path.is_dir())
    for open_folder in (tmp_path, entry):
        open_folder.chmod(0o777)
        one = ScoreStore(tmp_path, {"name": "a"}, ABOUT)
        assert one.note == f"scores not cached: every user can write to {open_folder}; run: chmod o-w {open_folder}"
        with one.locked():
            one.write(3, np.ones((1, 2, 1)))
            assert one.read(np.zeros((3, 2, 1))) == 0
        open_folder.chmod(0o775)
        assert filled(tmp_path) == 3, "a group is trusted: many systems give each user one"


def test_a_cache_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(tmp_path, "a")
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: owner + 4321)
    if owner == 0:
        assert store.distrusted(tmp_path) is None, "the system's own folders are trusted"
        os.chown(tmp_path, 1234, -1)
        owner = 1234
    assert f"{tmp_path} belongs to another user (number {owner})" in str(ScoreStore(tmp_path, {"name": "a"}).note)
    assert store.distrusted(tmp_path / "nothing") is None


@pytest.mark.parametrize("content", ["larger", "symlink", "pipe", "shape", "objects"])
def test_a_file_that_is_no_chunk_is_left_out(tmp_path: Path, content: str) -> None:
    add(tmp_path, "a")
    (path,) = tmp_path.rglob("*.npy")
    sound = path.read_bytes()
    path.unlink()
    if content == "symlink":
        (tmp_path / "elsewhere").write_bytes(sound)
        path.symlink_to(tmp_path / "elsewhere")
    elif content == "pipe":
        os.mkfifo(path)
    else:
        header = b"\x93NUMPY\x01\x00"
        text = {
            "larger": b"",
            "shape": b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999, 2, 1), }",
            "objects": b"(" * 60,
        }[content]
        body = header + len(text).to_bytes(2, "little") + text + bytes(100_000 if content == "larger" else 48)
        path.write_bytes(hashlib.sha256(body).digest() + body)
    assert filled(tmp_path) == 0


def test_what_cannot_be_a_score_is_left_out(tmp_path: Path) -> None:
    add(tmp_path, "a")
    one = ScoreStore(tmp_path, {"name": "a"}, ABOUT)
    assert one.read(np.zeros((3, 2, 1)), lambda values: bool((values > 99).all())) == 0


# Canaries: what a served model said when its scores were stored.

CANARIES = np.array([0.1, -2.0, -3.5])


def beside(root: Path, canaries: Any = CANARIES) -> tuple[Any, int]:
    """Return the canaries that are kept beside an entry, and how many units are then read."""
    one = ScoreStore(root, {"name": "a"}, ABOUT)
    with one.locked():
        kept = one.kept_beside(canaries)
        return kept, one.read(np.zeros((3, 2, 1)))


def test_canaries_stay_as_they_were_when_the_first_score_was_stored(tmp_path: Path) -> None:
    assert beside(tmp_path, CANARIES + 1) == (None, 0)
    assert beside(tmp_path) == (None, 0)  # no score was stored with the first
    folder = add(tmp_path)
    for other in (CANARIES + 1, CANARIES):
        kept, units = beside(tmp_path, other)
        assert np.array_equal(kept, CANARIES) and units == 3
    (entry,) = list_entries(tmp_path)
    assert entry.cases == 6 and entry.size == sum(path.stat().st_size for path in folder.iterdir())
    assert len(clear(tmp_path)[0]) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", ["none", "cut", "changed", "another number"])
def test_scores_without_canaries_are_scored_again(tmp_path: Path, damage: str) -> None:
    beside(tmp_path)
    path = add(tmp_path) / "canaries.npy"
    content = path.read_bytes()
    if damage == "none":
        path.unlink()
    elif damage != "another number":
        path.write_bytes(content[:-3] if damage == "cut" else content[:-1] + b"!")
    now = np.zeros(4) if damage == "another number" else CANARIES
    assert beside(tmp_path, now) == (None, 0)
    assert filled(tmp_path) == 0  # not even by those who look for no canaries
    add(tmp_path)
    kept, units = beside(tmp_path, now)
    assert np.array_equal(kept, now) and units == 3


def test_without_a_lock_scores_without_canaries_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: Any) -> None:
        raise OSError(13, "Permission denied")

    folder = add(tmp_path)
    monkeypatch.setattr(store, "acquire", refused)
    assert beside(tmp_path) == (None, 0)
    assert not (folder / "canaries.npy").exists()
    monkeypatch.undo()
    assert filled(tmp_path) == 3
    beside(tmp_path)
    add(tmp_path)
    monkeypatch.setattr(store, "acquire", refused)
    kept, units = beside(tmp_path)
    assert np.array_equal(kept, CANARIES) and units == 3


def test_where_canaries_cannot_be_stored_no_score_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    one = ScoreStore(tmp_path, {"name": "a"}, None)
    monkeypatch.setattr(store, "write_whole", full)
    with one.locked():
        assert one.kept_beside(CANARIES) is None
        monkeypatch.undo()
        one.write(0, np.zeros((3, 2, 1)))
    assert one.note is not None and "No space left on device" in one.note
    assert not list(tmp_path.rglob("*.npy"))
