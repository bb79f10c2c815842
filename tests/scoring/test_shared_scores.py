"""``bias_shared_cache``: scores that several machines share, and stores that fail."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from pytest_genderbias.errors import SettingError
from pytest_genderbias.measurement.runner import Runner, RunSettings
from pytest_genderbias.scoring import executor
from pytest_genderbias.scoring.store import ScoreStore, SharedScores

URL = "memory://team/scores"
VALUES = np.arange(12, dtype=float).reshape(6, 2, 1)


@pytest.fixture(autouse=True)
def empty_store() -> Any:
    MemoryFileSystem.store.clear()
    yield
    MemoryFileSystem.store.clear()


def found(root: Path, url: str = URL, units: int = 6) -> tuple[int, np.ndarray[Any, Any], str | None]:
    """Return how many units a machine with this cache reads, their scores, and why its store failed."""
    shared = SharedScores(url)
    values, store = np.zeros((units, 2, 1)), ScoreStore(root, {"name": "a"}, None, shared)
    with store.locked():
        return store.read(values), values, shared.failure


def written(root: Path, url: str = URL, start: int = 0, stop: int = 6) -> SharedScores:
    shared = SharedScores(url)
    store = ScoreStore(root, {"name": "a"}, None, shared)
    with store.locked():
        store.write(start, VALUES[start:stop])
    return shared


def test_what_one_machine_scored_another_reads(tmp_path: Path) -> None:
    written(tmp_path / "one", stop=4)
    count, values, failure = found(tmp_path / "two")
    assert (count, failure) == (4, None)
    assert np.array_equal(values[:4], VALUES[:4])
    MemoryFileSystem.store.clear()
    assert found(tmp_path / "two")[0] == 4, "they are in the machine's own cache now"


def test_a_file_that_is_cut_off_is_scored_again(tmp_path: Path) -> None:
    written(tmp_path / "one")
    (path,) = MemoryFileSystem.store
    MemoryFileSystem().pipe_file(path, MemoryFileSystem().cat_file(path)[:-3])
    assert found(tmp_path / "two")[0] == 0
    written(tmp_path / "two")
    assert found(tmp_path / "three")[0] == 6


def test_a_file_larger_than_its_scores_stays_where_it_is(tmp_path: Path) -> None:
    written(tmp_path / "one")
    (path,) = MemoryFileSystem.store
    MemoryFileSystem().pipe_file(path, bytes(10**6))
    assert found(tmp_path / "two")[0] == 0
    assert not list((tmp_path / "two").rglob("*.npy"))


def test_files_of_other_names_are_not_fetched(tmp_path: Path) -> None:
    written(tmp_path / "one")
    (path,) = MemoryFileSystem.store
    MemoryFileSystem().pipe_file(f"{path.rpartition('/')[0]}/about.json", b"{}")
    found(tmp_path / "two")
    assert [path.suffix for path in (tmp_path / "two").rglob("*.*") if path.suffix] == [".npy"]


def test_what_a_lost_store_missed_is_sent_by_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as lost:
        lost.setattr(MemoryFileSystem, "pipe_file", refuse)
        shared = written(tmp_path / "one")
    assert shared.failure == f"scores not shared: {URL}: 'The provided token has expired.'"
    assert found(tmp_path / "two")[0] == 0
    assert found(tmp_path / "one")[0] == 6
    assert found(tmp_path / "two")[0] == 6


def test_a_store_that_failed_is_asked_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(MemoryFileSystem, "ls", lambda self, path, **given: asked.append(path) or refuse())
    shared = SharedScores(URL)
    for name in ("a", "b"):
        store = ScoreStore(tmp_path, {"name": name}, None, shared)
        with store.locked():
            store.read(np.zeros((6, 2, 1)))
            store.write(0, VALUES)
    assert len(asked) == 1


def refuse(*args: object, **given: object) -> None:
    raise PermissionError("The provided token has expired.")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="everything may be written")
def test_a_folder_that_cannot_be_written_fails_no_run(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir(mode=0o500)
    shared = written(tmp_path / "one", url=f"file://{tmp_path}/there/scores")
    assert shared.failure is not None
    assert "Permission denied" in shared.failure


def test_folders_of_entries_are_made_and_the_folder_of_all_is_not(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/there"
    assert "No such file" in str(written(tmp_path / "one", url=url).failure)
    (tmp_path / "there").mkdir()
    assert written(tmp_path / "two", url=url).failure is None
    assert found(tmp_path / "three", url=url)[::2] == (6, None)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://key:secret@bucket/scores", "its keys belong in the environment"),
        ("https://host/scores?token=secret", "its keys belong in the environment"),
        ("scores", "expected the URL of a folder, as s3://BUCKET/FOLDER"),
        ("nothing-knows-it://a/b", "cannot open nothing-knows-it://"),
    ],
)
def test_what_is_no_store_is_refused(url: str, said: str) -> None:
    with pytest.raises(SettingError, match=said) as refusal:
        SharedScores(url)
    assert "secret" not in str(refusal.value)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(protocol: str) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec, "get_filesystem_class", missing)
    with pytest.raises(SettingError, match="cannot open s3://: Install s3fs to access S3"):
        SharedScores("s3://bucket/scores")


def test_a_second_machine_scores_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def on(machine: str) -> Any:
        shared = SharedScores(URL)
        runner = Runner(score=RunSettings(limit=64, cache=tmp_path / machine, ability="none: not asked", shared=shared))
        return runner.measure("lm-occupation", "demo-lm")

    first = on("one")
    sent = dict(MemoryFileSystem.store)
    assert sent
    monkeypatch.setattr(executor, "make_scorer", refuse)
    assert on("two").to_dict() == first.to_dict()
    assert MemoryFileSystem.store.keys() == sent.keys()
    assert {path.name for path in (tmp_path / "two").rglob("*.npy")} == {path.rpartition("/")[2] for path in sent}
