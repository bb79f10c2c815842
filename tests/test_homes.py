"""Tests live in homes of their own: what a user has changes nothing, and stays as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import huggingface_hub.constants
import matplotlib
import pytest
from support import fixtures
from support.homes import ELSEWHERE, places

from pytest_genderbias import load_model, measure
from pytest_genderbias.folders import default_cache

ROOT = Path(__file__).parents[1]
#: A test that compares what it scores with what it caches, one that draws, one that starts a process, and one of the
#: hub's cache.
SENSITIVE = (
    "tests/papers/test_kinds.py::test_a_model_that_is_measured_as_it_is",
    "tests/reports/test_figures.py::test_every_kind_is_drawn[nli]",
    "tests/test_homes.py::test_a_process_lives_where_its_test_lives",
    "tests/test_homes.py::test_libraries_keep_nothing_in_the_home_of_the_user",
)
_CACHES: list[str] = []


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return each file and folder, with its time and its content."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
    }


@pytest.mark.slow  # the four tests run in the home of each test, and the next ones say what that home is
def test_a_users_files_change_nothing_and_stay_as_they_are(tmp_path: Path) -> None:
    """The user's score cache has scores of other batches, and each other folder is a file, so that nothing can be read
    or written there.
    """
    user = tmp_path / "user"
    for name in ("huggingface", "matplotlib", "torch"):
        (user / ".cache" / name).parent.mkdir(parents=True, exist_ok=True)
        (user / ".cache" / name).write_text("no folder")
    (user / ".config" / "matplotlib").mkdir(parents=True)
    (user / ".config" / "matplotlib" / "matplotlibrc").write_text("backend: none such\n")
    environment = {**os.environ, **places(user), "HF_HOME": str(user / ".cache" / "huggingface")}
    environment |= {name: str(user / ".cache" / "torch") for name in ELSEWHERE}
    environment.pop("MPLCONFIGDIR", None)
    measure("lm-occupation", load_model("demo-mlm"), cache=user / ".cache" / "pytest-genderbias" / "scores")
    before = contents(user)
    assert any("scores/" in name for name in before)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'base'}"]
    done = subprocess.run(
        [*command, *SENSITIVE], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert contents(user) == before


@pytest.mark.parametrize("number", range(2))
def test_a_test_finds_nothing_of_the_one_before(number: int) -> None:
    assert default_cache().is_relative_to(Path.home()) and not default_cache().exists()
    measure("lm-occupation", load_model("demo-lm"), limit=8)
    _CACHES.append(str(default_cache()))
    assert default_cache().exists() and len({*_CACHES}) == len(_CACHES)


def test_a_home_is_used_again_only_where_it_was_left_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fixtures, "_LEFT_EMPTY", [])
    homes = []
    for fill in (False, True, False):
        lived = fixtures._home()
        homes.append(next(lived))
        if fill:
            homes[-1].joinpath("left").write_text("", encoding="utf-8")
        assert next(lived, None) is None
    assert homes[0] == homes[1] != homes[2]


def test_a_process_lives_where_its_test_lives(own_home: Path) -> None:
    code = "from pytest_genderbias.folders import default_cache; print(default_cache().parent.parent.parent)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()) == own_home == Path.home()


def test_libraries_keep_nothing_in_the_home_of_the_user(own_home: Path) -> None:
    """Their folders are those of the whole run, since they look for them once."""
    of_run = own_home.parent
    for place in (huggingface_hub.constants.HF_HUB_CACHE, matplotlib.get_cachedir(), matplotlib.get_configdir()):
        assert Path(place).is_relative_to(of_run)
    assert not [name for name in ELSEWHERE if name in os.environ]
