"""The clone with the package alone, without the extra [dev]: pytest reads the clone's configuration, and says what its
tests need.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


#: Read by each Python that starts: these packages are not there.
WITHOUT = """
from functools import partial
from importlib.machinery import PathFinder
found = PathFinder.find_spec
def find_spec(name, *rest):
    left_out = ("hypothesis", "statsmodels", "sklearn", "jsonschema")
    return None if name.partition(".")[0] in left_out else found(name, *rest)
PathFinder.find_spec = partial(find_spec)  # no method of what keeps it
"""


@pytest.fixture
def pytest_without_dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that runs pytest where the packages of the extra cannot be imported."""
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    without = [f"-pno:{name}" for name in ("hypothesispytest", "xdist", "xdist.looponfail", "rerunfailures", "timeout")]

    def run(*arguments: str, folder: Path = ROOT) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "pytest", *without, "-p", "no:cacheprovider", *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    return run


def test_help_is_shown(pytest_without_dev) -> None:
    status, out, err = pytest_without_dev("--help")
    assert (status, err) == (0, "") and "--bias-model" in out


@pytest.mark.parametrize("arguments", [[], ["tests/fuzz", "--collect-only"]])
def test_the_tests_say_in_a_line_what_they_need(pytest_without_dev, arguments: list[str]) -> None:
    status, out, err = pytest_without_dev(*arguments)
    assert status == pytest.ExitCode.USAGE_ERROR and "Traceback" not in out
    assert err.strip().splitlines() == [
        "ERROR: the tests of this clone need its development dependencies: pip install -c constraints.txt -e '.[dev]'. "
        "To measure a model without them, run pytest in another folder, such as that of your project"
    ]


def test_a_gate_in_the_clone_runs(pytest_without_dev) -> None:
    status, out, err = pytest_without_dev(
        "examples/release/release.bias.yaml", "--bias-model=demo-lm", "-k", "lm-occupation", "-q"
    )
    assert status in (0, 1) and "lm-occupation" in out, out + err


def test_a_clone_inside_a_project_is_no_part_of_its_tests(pytest_without_dev, tmp_path: Path) -> None:
    """As after ``git submodule add``, from where CI installs: pytest would collect thousands of tests, and gates of
    examples.
    """
    clone = tmp_path / "project" / "pytest-genderbias"
    (clone / "tests").mkdir(parents=True)
    (clone / "examples").mkdir()
    for name in ("conftest.py", "tests/conftest.py", "tests/test_rooms.py", "examples/release/release.bias.yaml"):
        path = clone / name.replace("release/", "")
        path.write_bytes((ROOT / name).read_bytes())
    (tmp_path / "project" / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "project" / "test_mine.py").write_text("def test_mine():\n    pass\n")
    status, out, err = pytest_without_dev("-q", folder=tmp_path / "project")
    assert status == 0 and out.splitlines()[-1].startswith("1 passed"), out + err
