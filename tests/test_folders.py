"""Files are written whole, in their place and with their mode; nothing but a file is replaced, and nothing is left
behind.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pytest_genderbias.errors import BiasError, WriteError
from pytest_genderbias.folders import default_cache, locked_file, sweep_unfinished, write_whole


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.json"
    write_whole(path, b"1")
    path.chmod(0o640)
    write_whole(path, b"2")
    assert (path.read_bytes(), mode_of(path)) == (b"2", 0o640)
    assert [entry.name for entry in path.parent.iterdir()] == ["a.json"]


@pytest.mark.parametrize("umask", [0o077, 0o002])
def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "a.json", b"1")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "a.json") == 0o666 & ~umask


@pytest.mark.parametrize("there", [True, False], ids=["a file", "nothing yet"])
def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path: Path, there: bool) -> None:
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "report.json", tmp_path / "link.json"
    if there:
        target.write_bytes(b"old")
    link.symlink_to(Path("far") / "report.json")
    write_whole(link, b"new")
    assert link.is_symlink() and target.read_bytes() == b"new" and not target.is_symlink()
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_a_pipe_and_a_device_receive_the_content_and_stay(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, b"content")
    reader.join(10)
    assert received == [b"content"] and stat.S_ISFIFO(pipe.stat().st_mode)
    write_whole(Path("/dev/null"), b"content")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
def test_a_full_device_is_an_error_and_stays_a_device() -> None:
    with pytest.raises(WriteError, match="/dev/full cannot be written: No space left on device; what was there"):
        write_whole(Path("/dev/full"), b"content")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="Linux has it")
def test_an_open_file_is_written_through_its_descriptor(tmp_path: Path) -> None:
    """``--bias-json=/dev/fd/5`` with a redirection: a rename would leave the redirected file without the report."""
    with (tmp_path / "out.txt").open("wb") as stream:
        number = os.stat(tmp_path / "out.txt").st_ino
        write_whole(Path(f"/dev/fd/{stream.fileno()}"), b"content")
    assert (tmp_path / "out.txt").read_bytes() == b"content"
    assert os.stat(tmp_path / "out.txt").st_ino == number


def in_a_file(folder: Path) -> Path:
    (folder / "file").write_text("x")
    return folder / "file" / "a.json"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda folder: folder, "Is a directory"),
        (in_a_file, "file is no folder"),
        (lambda folder: folder / "a\0b", "null"),
        (lambda folder: folder / ("x" * 300), "File name too long"),
    ],
    ids=["a folder", "a parent that is a file", "a null character", "a long name"],
)
def test_a_path_that_cannot_be_written_is_the_project_s_error(tmp_path: Path, make, reason: str) -> None:
    with pytest.raises(WriteError, match=f"cannot be written: .*{reason}") as caught:
        write_whole(make(tmp_path), b"1")
    assert isinstance(caught.value, BiasError) and isinstance(caught.value, OSError)
    assert "\n" not in str(caught.value)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "a.json").write_bytes(b"old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError) as caught:
        write_whole(tmp_path / "a.json", b"new")
    assert (caught.value.errno, caught.value.strerror) == (28, "No space left on device")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.json": b"old"}


def test_unfinished_files_of_killed_writers_are_swept_and_those_of_others_are_not(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    killed, of_another, written, ours = (
        tmp_path / name for name in (".a.json-0123abcd", ".b.json-0123abcd", ".a.json-89abcdef", ".a.json-notes.txt")
    )
    for path in (killed, of_another, written, ours):
        path.write_bytes(b"half")
    with written.open("rb+") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)  # as a process that writes it
        write_whole(tmp_path / "a.json", b"1")
    assert {path.name for path in tmp_path.iterdir()} == {"a.json", of_another.name, written.name, ours.name}
    sweep_unfinished(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"a.json", ours.name}


_WRITE = """
import sys; from pathlib import Path; from pytest_genderbias.folders import write_whole
for i in range(150):
    write_whole(Path(sys.argv[1], "a.json"), sys.argv[2].encode() * 999)
"""


def test_writers_of_one_file_do_not_sweep_each_other(tmp_path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", _WRITE, str(tmp_path), name]) for name in "xyz"]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert (tmp_path / "a.json").read_text() in {"x" * 999, "y" * 999, "z" * 999}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


_COUNT = """
import sys; from pathlib import Path; from pytest_genderbias.folders import locked_file
count = Path(sys.argv[1], "count")
for _ in range(40):
    with locked_file(Path(sys.argv[1], ".lock")):
        count.write_text(str(int(count.read_text()) + 1))
"""


def test_a_lock_whose_file_is_removed_excludes_others_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "count").write_text("0")
    others = [subprocess.Popen([sys.executable, "-c", _COUNT, str(tmp_path)]) for _ in range(3)]
    assert [other.wait(60) for other in others] == [0, 0, 0]
    assert (tmp_path / "count").read_text() == "120"
    assert not (tmp_path / ".lock").exists()


def test_a_lock_that_stays_held_is_an_oserror(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with locked_file(path), pytest.raises(OSError, match="could not be acquired"), locked_file(path, timeout=0.05):
        pass


def test_a_lock_in_a_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), locked_file(Path("/proc/nowhere/home/.lock")):
        pass


def test_a_user_without_a_home_has_a_cache_folder_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "USERPROFILE", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")  # as pathlib does

    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(NotADirectoryError):
        default_cache().mkdir(parents=True)
