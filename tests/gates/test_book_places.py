"""Baselines at a URL: the files of a folder, updates side by side, and stores that fail."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from support.baseline_books import write_entries
from support.hand_made import hand_made
from support.small_projects import model

from pytest_genderbias import Baseline
from pytest_genderbias.command_line.main import main
from pytest_genderbias.errors import BaselineError, SettingError, StoreError
from pytest_genderbias.gates import book_places, book_update
from pytest_genderbias.gates.book import entry_of, read_book, read_items
from pytest_genderbias.gates.book_places import Place, UrlPath, place_of

URL = "memory://team/b"
AT_URL = f"--bias-baseline={URL}"


@pytest.fixture(autouse=True)
def store() -> Iterator[MemoryFileSystem]:
    book_places.forget()
    files = MemoryFileSystem()
    files.store.clear()
    files.pseudo_dirs[:] = [""]
    files.mkdir("/team")
    yield files
    files.store.clear()


def contents(store: MemoryFileSystem) -> dict[str, bytes]:
    return {name.rpartition("/")[2]: store.cat_file(name) for name in store.store}


def team() -> Place:
    return place_of(URL, Path())


def stored(*names: str) -> Place:
    return write_entries(team(), "m", "t.py", {name: entry_of(hand_made()) for name in names})


def refuse(*args: object, **given: object) -> Any:
    raise PermissionError("The provided token has expired.")


def test_a_url_holds_the_files_that_a_folder_holds(tmp_path: Path, store: MemoryFileSystem) -> None:
    book = stored("tiny", "old")
    write_entries(team(), "m", "t.py", {"old": None, "tiny": entry_of(hand_made(0.1))})
    write_entries(tmp_path, "m", "t.py", {"tiny": entry_of(hand_made(0.1))})
    assert contents(store) == {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()}
    assert str(book) == f"{URL}/m/t.py.json"
    assert read_items(book, "tiny", read_book(book)["tiny"]) is not None
    write_entries(team(), "m", "t.py", {"tiny": None})
    assert contents(store) == {}, "the last entry goes with its file and its items"


def test_runs_store_compare_and_accept_at_a_url(gated: pytest.Pytester, store: MemoryFileSystem) -> None:
    gated.runpytest(model(gated, "good"), AT_URL).stdout.fnmatch_lines([f"*no baseline entry 'tiny-nli' in {URL}/m/*"])
    gated.runpytest(model(gated, "good"), AT_URL, "--bias-update-new").assert_outcomes(passed=1)
    before = contents(store)
    gated.runpytest(model(gated, "good"), AT_URL).assert_outcomes(passed=1)
    gated.runpytest(model(gated, "worse"), AT_URL, "--bias-update").assert_outcomes(failed=1)
    assert contents(store) == before
    result = gated.runpytest(model(gated, "worse"), AT_URL, "--bias-update", "--bias-reason=why")
    result.stdout.fnmatch_lines([f"baseline written: {URL}/m/test_gate.py.json"])
    assert contents(store) != before and not (gated.path / "bias_baselines").exists()
    other = gated.runpytest(model(gated, "good", "other"), AT_URL)
    other.stdout.fnmatch_lines(["*other has no baseline of 'tiny-nli', but m has*"])


def test_another_runs_entry_is_kept_and_one_that_it_changed_is_refused(
    gated: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, store: MemoryFileSystem
) -> None:
    gated.runpytest(model(gated, "good"), AT_URL, "--bias-update-new").assert_outcomes(passed=1)
    lock = book_update.locked

    def later(names: list[str], place: Place, patience: float) -> Any:
        """Lock when another team has updated the book."""
        monkeypatch.setattr(book_update, "locked", lock)
        write_entries(team(), "m", "test_gate.py", {name: entry_of(hand_made()) for name in names})
        return lock(place, patience)

    for names in (["theirs"], ["theirs", "tiny-nli"]):
        monkeypatch.setattr(book_update, "locked", partial(later, names))
        result = gated.runpytest(model(gated, "better"), AT_URL, "--bias-update")
        entries = read_book(team() / "m" / "test_gate.py.json")
        assert sorted(entries) == ["theirs", "tiny-nli"]
    result.stdout.fnmatch_lines(["*another run changed this entry after it was judged here; run again*"])
    assert entries["tiny-nli"].suite == "tiny", "theirs"
    assert not [name for name in contents(store) if name.endswith(".lock")]


def test_items_that_another_run_replaced_are_read_anew(store: MemoryFileSystem) -> None:
    write_entries(team(), "m", "t.py", {"tiny": entry_of(hand_made(0.2))})
    later = dict(store.store)
    write_entries(team(), "m", "t.py", {"tiny": entry_of(hand_made())})
    baseline = Baseline(team(), "m", "t.py")
    assert baseline.stored("tiny") is not None
    store.store.clear()
    store.store.update(later)
    assert baseline.judge(hand_made(0.2), 0.01).code == "unchanged"


def test_the_lock_of_a_killed_run_is_named(monkeypatch: pytest.MonkeyPatch, store: MemoryFileSystem) -> None:
    stored("tiny")
    monkeypatch.setattr(book_update, "_PATIENCE", -1.0)
    store.pipe_file("/team/b/m/.lock", b"process 7 of host since 2026-11-01T12:00:00+00:00, 1a2b3c4d")
    before = contents(store)
    with pytest.raises(BaselineError, match=rf"process 7 of host .*remove {URL}/m/\.lock and run again; nothing"):
        stored("more")
    assert contents(store) == before
    store.rm_file("/team/b/m/.lock")
    stored("more")
    assert sorted(read_book(team() / "m" / "t.py.json")) == ["more", "tiny"]


def test_a_store_that_cannot_lock_is_refused(monkeypatch: pytest.MonkeyPatch, store: MemoryFileSystem) -> None:
    stored("tiny")
    before = contents(store)
    write = MemoryFileSystem.pipe_file
    monkeypatch.setattr(MemoryFileSystem, "pipe_file", lambda self, path, content, **how: write(self, path, content))
    with pytest.raises(BaselineError, match="lets two runs create one file"):
        stored("more")
    assert contents(store) == before


def test_expired_credentials_are_one_error_and_lose_nothing(
    gated: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, store: MemoryFileSystem
) -> None:
    gated.runpytest(model(gated, "good"), AT_URL, "--bias-update-new").assert_outcomes(passed=1)
    before = contents(store)
    with monkeypatch.context() as lost:
        for name in ("info", "find", "cat_file", "ls"):
            lost.setattr(MemoryFileSystem, name, refuse)
        result = gated.runpytest(model(gated, "better"), AT_URL)
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["*cannot be read: 'The provided token has expired.'; check the URL, the network*"])
        result = gated.runpytest(model(gated, "better"), AT_URL, "--bias-update")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"ERROR: --bias-baseline: {URL}: cannot be read: *expired*"])
    write = MemoryFileSystem.pipe_file

    def expired(self: Any, path: str, content: bytes, **how: str) -> None:
        if path.endswith(".json"):
            refuse()
        write(self, path, content, **how)

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", expired)
    result = gated.runpytest(model(gated, "better"), AT_URL, "--bias-update")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*test_gate.py.json cannot be written: *expired*; nothing that was there is lost"])
    assert contents(store) == before


def test_a_bucket_that_is_not_there_is_no_missing_baseline(gated: pytest.Pytester) -> None:
    nowhere = "memory://nowhere/b"
    result = gated.runpytest(model(gated, "good"), f"--bias-baseline={nowhere}")
    result.stdout.fnmatch_lines(["*there is no memory://nowhere; make it, or correct the URL*"])
    with pytest.raises(StoreError, match="there is no memory://nowhere"):
        place_of(nowhere, Path()).glob("*")


def test_a_half_written_file_is_one_error_and_is_left_alone(store: MemoryFileSystem) -> None:
    book = stored("tiny")
    for end, message in ((".json", "not valid JSON"), (".npz", "is not the one that belongs to t.py.json")):
        name = next(name for name in store.store if name.endswith(end))
        whole = store.cat_file(name)
        store.pipe_file(name, whole[:-20])
        book_places.forget()
        with pytest.raises(BaselineError, match=message):
            Baseline(team(), "m", "t.py").judge(hand_made(), 0.01)
        assert store.cat_file(name) == whole[:-20]
        store.pipe_file(name, whole)
    book_places.forget()
    assert "tiny" in read_book(book)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://key:secret@bucket/b", "its keys belong in the environment"),
        ("memory:///b", "expected a URL with a bucket or host"),
        ("nothing-knows-it://a/b", "cannot open nothing-knows-it://"),
    ],
)
def test_what_is_no_store_is_refused(url: str, said: str) -> None:
    with pytest.raises(SettingError, match=said) as refusal:
        place_of(url, Path())
    assert "secret" not in str(refusal.value)


def test_paths_of_urls(tmp_path: Path) -> None:
    assert place_of("b", tmp_path) == tmp_path / "b"
    assert place_of("file:///shared/b", tmp_path) == Path("/shared/b")
    book = UrlPath("s3://bucket/b") / "m" / "t.py.json"
    assert (str(book), book.as_posix(), book.stem) == ("s3://bucket/b/m/t.py.json", str(book), "t.py")
    assert str(book.with_name("x").parent.parent) == "s3://bucket/b"
    assert not book.is_relative_to(tmp_path)


def test_gates_at_a_url_are_listed(gated: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    gated.runpytest(model(gated, "good"), AT_URL, "--bias-update-new").assert_outcomes(passed=1)
    capsys.readouterr()
    assert main(["gates", "--baseline", URL]) == 0
    assert "tiny-nli" in capsys.readouterr().out


WRITER = """
import sys
from pathlib import Path
from support.baseline_books import write_entries
from support.hand_made import hand_made
from pytest_genderbias.gates.book import entry_of
from pytest_genderbias.gates.book_places import place_of

write_entries(place_of("s3://team/b", Path()), "m", "t.py", {sys.argv[1]: entry_of(hand_made())})
"""


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Start a server of moto, with the bucket ``team``."""
    pytest.importorskip("s3fs", reason="needs s3fs")
    pytest.importorskip("moto.server", reason="needs moto[s3,server]")
    import boto3

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    keys = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_DEFAULT_REGION": "us-east-1"}
    for name, value in {**keys, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}.items():
        monkeypatch.setenv(name, value)
    command = [sys.executable, "-m", "moto.server", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            until = time.monotonic() + 60
            while time.monotonic() < until:
                with socket.socket() as asked:
                    if asked.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.2)
            client = boto3.client("s3")
            client.create_bucket(Bucket="team")
            yield client
        finally:
            server.terminate()


@pytest.mark.slow
def test_processes_that_update_one_book_in_s3_lose_nothing(s3: Any) -> None:
    names = [f"entry-{i}" for i in range(6)]
    tests = Path(__file__).resolve().parents[1]
    path = os.pathsep.join([str(tests), *filter(None, sys.path)])

    def write(name: str) -> None:
        subprocess.run([sys.executable, "-c", WRITER, name], check=True, env={**os.environ, "PYTHONPATH": path})

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, names))
    book = place_of("s3://team/b", Path()) / "m" / "t.py.json"
    entries = read_book(book)
    assert sorted(entries) == names
    assert all(read_items(book, name, entry) is not None for name, entry in entries.items())
    keys = [found["Key"] for found in s3.list_objects_v2(Bucket="team")["Contents"]]
    assert len(keys) == 7 and "b/m/.lock" not in keys
    with pytest.raises(StoreError, match="there is no s3://nowhere"):
        place_of("s3://nowhere/b", Path()).glob("*")
