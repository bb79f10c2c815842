"""``scripts/kill_test.py``: what it calls lost, left or foreign, and a few kills of every place."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"

CHECKS = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import forked_runs as runs, kill_test
from filelock import FileLock

folder = Path(sys.argv[2])
(folder / "books").mkdir()
for name in (".a.npz-0123abcd", "books/.lock", "books/held.lock"):
    (folder / name).write_text("")
held = FileLock(folder / "books" / "held.lock")
held.acquire()
left = runs.left_over(folder)

def foreign(text):
    (folder / "output").write_text(text)
    return runs.foreign_errors(folder)

def kept(name, *states):
    return kill_test._is_kept(name, *(json.dumps(state) if state else "" for state in states))

def run(status, n=0):
    return {"run": {"exit_status": status}, "n": n}

old, new = ({"entries": {"a": value, "b": value}} for value in (1, 2))
counted = []
counter = kill_test.count_operations(folder, 2, lambda: counted.append("acted"))
(folder / "books" / "new").write_text("x")
(folder / "books" / "new").rename(folder / "books" / "newer")
counted.append(counter())
Path("/dev/null").read_bytes()
counted.append(counter())

print(json.dumps({
    "left": left,
    "foreign": [
        foreign("Traceback (most recent call last):\\n  File x\\nKeyboardInterrupt\\n"),
        foreign("E   ModelError: no\\npytest_genderbias.errors.ScoreError: nan\\n"),
        foreign("E   zlib.error: x\\nzipfile.BadZipFile: x\\nE   OSError: [Errno 28] No space left\\n"),
        foreign("INTERNALERROR> x\\n"),
    ],
    "kept": [
        kept("books/m.json", old, new, old), kept("books/m.json", old, new, {"entries": {"a": 1, "b": 2}}),
        kept("report.json", run(0), run(0, 1), run(2)), kept("books/old.npz", "digest", "", ""),
    ],
    "lost": [
        kept("books/m.json", old, new, {"entries": {"a": 1}}),
        kept("books/m.json", old, new, {"entries": {"a": 1, "b": 3}}), kept("books/m.json", old, new, ""),
        kept("report.json", run(0), run(0, 1), run(0, 2)), kept("books/new.npz", "", "digest", "half"),
    ],
    "counted": counted,
}))
"""


def test_what_it_looks_for_is_found_and_nothing_else(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", CHECKS, str(SCRIPTS), str(tmp_path)]
    result = subprocess.run(arguments, check=True, capture_output=True, text=True, timeout=60)
    found = json.loads(result.stdout)
    assert found["left"] == [".a.npz-0123abcd", "books/held.lock is held"]
    nothing, own, foreign, internal = found["foreign"]
    assert (nothing, own, internal) == ([], [], ["INTERNALERROR> x"])
    assert foreign == ["E   zlib.error: x", "zipfile.BadZipFile: x", "E   OSError: [Errno 28] No space left"]
    assert found["kept"] == [True] * 4 and found["lost"] == [False] * 5
    assert found["counted"] == ["acted", 3, 3], "it is opened, about to be renamed, and renamed"


@pytest.mark.slow
def test_a_few_kills_of_every_place_lose_nothing(tmp_path: Path) -> None:
    arguments = [sys.executable, str(SCRIPTS / "kill_test.py"), "kills", "--kills=24", f"--folder={tmp_path}"]
    result = subprocess.run(arguments, check=False, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    assert [int(n) for n in result.stdout.split("all ")[1].split()] == [24, 24, 0, 0, 0, 0]
