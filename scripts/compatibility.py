"""Run the main job and the tests against the built wheel, at the declared floors, at the newest releases, and beside
other plugins.

    python scripts/compatibility.py                                  # all rows
    python scripts/compatibility.py floors newest --work=/big/disk   # two rows; the environments stay in that folder
    python scripts/compatibility.py floors --tests="tests/scoring -k masked"
    python scripts/compatibility.py plugins                          # beside other pytest plugins

Each row gets a virtual environment of its own, which holds the wheel and no checkout. ``floors`` takes the oldest
Python that ``pyproject.toml`` allows and the least version of each dependency, those of extras included; ``newest``
takes the newest Python that is installed here and whatever pip resolves without a constraint. The main job is the
README's first command. Every printed value must be the one of this environment to ``RELATIVE_TOLERANCE``: other
versions of torch round differently, in the last digits.

The row ``plugins`` installs other pytest plugins into one environment. It loads each of them alone beside this one and
runs a small project twice, without and with a ``--bias-`` flag. The verdicts must be those of the run without the other
plugin.

The figures go to standard output as a table; with ``--json=FILE`` also to a file. The exit status is 1 if a row fails.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tomllib
from tabulate import tabulate

ROOT = Path(__file__).resolve().parent.parent
RELATIVE_TOLERANCE = 1e-5
MAIN_JOB = ["--bias-model=demo", "--bias-suite=all", "--bias-limit=2000"]
FLOOR_EXTRAS = ("train", "gguf", "parquet", "onnx", "openvino")
SHOWN = ("python", "pytest", "torch", "transformers", "numpy", "scipy")

# The package of each plugin, and the options that make it act.
PLUGINS = {
    "xdist": ("pytest-xdist", ["-n", "2"]),
    "randomly": ("pytest-randomly", []),
    "cov": ("pytest-cov", ["--cov=."]),
    "rerunfailures": ("pytest-rerunfailures", ["--reruns=2"]),
    "html": ("pytest-html", ["-p", "metadata", "--html=report.html", "--self-contained-html"]),
    "timeout": ("pytest-timeout", ["--timeout=300"]),
    "asyncio": ("pytest-asyncio", ["--asyncio-mode=auto"]),
    "syrupy": ("syrupy", []),
    "hypothesis": ("hypothesis", ["--hypothesis-show-statistics"]),
    "tavern": ("tavern", []),
}

PROJECT = {
    "pytest.ini": "[pytest]\n",
    "gates.bias.yaml": (
        "gates:\n  - suite: lm-occupation\n    at_most: 0.5\n  - suite: lm-occupation\n    name: strict\n    at_most:"
        " 0.01\n"
    ),
    "test_gates.py": (
        "from pytest_genderbias import assert_at_most\n\n\n"
        "def test_other():\n    assert 1 + 1 == 2\n\n\n"
        "def test_bias(bias_measure):\n    assert_at_most(bias_measure('lm-occupation'), 0.5)\n"
    ),
}


@dataclass(frozen=True)
class Row:
    """The result of one row: what ran, in which versions, and how it ended."""

    name: str
    job: str
    versions: str
    result: str
    passed: bool


def main() -> int:
    """Run the rows that the command line names, and print the table."""
    arguments = _arguments()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(arguments.work or temporary).resolve()
        work.mkdir(parents=True, exist_ok=True)
        wheel = _build_wheel(work)
        for name in arguments.rows:
            for row in _rows(name, wheel, work, shlex.split(arguments.tests)):
                print(f"{row.name}: {row.job}: {row.result}", file=sys.stderr, flush=True)
                rows.append(row)
    print(
        tabulate(
            [[row.name, row.job, row.versions, row.result] for row in rows],
            headers=["row", "job", "versions", "result"],
        )
    )
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return 0 if all(row.passed for row in rows) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "rows", nargs="*", default=["floors", "newest", "plugins"], help="floors, newest, plugins; all by default"
    )
    parser.add_argument("--work", help="folder for the environments; environments that are there are used again")
    parser.add_argument("--tests", default="tests -n 2 --dist worksteal", help="arguments of pytest for the tests")
    parser.add_argument("--json", type=Path, help="write the table to this file, too")
    arguments = parser.parse_args()
    if unknown := set(arguments.rows) - {"floors", "newest", "plugins"}:
        parser.error(f"no such row: {', '.join(sorted(unknown))}; the rows are floors, newest and plugins")
    return arguments


def _rows(name: str, wheel: Path, work: Path, tests: Sequence[str]) -> Iterator[Row]:
    if name == "plugins":
        yield from _plugin_rows(wheel, work)
        return
    python = _environment(work / name, _python(oldest=name == "floors"), wheel, _floors() if name == "floors" else ())
    versions = _versions(python)
    yield Row(name, "main job", versions, *_main_job(python, work))
    yield Row(name, "tests", versions, *_tests(python, work / f"{name}-tests", tests))


# Environments.


def _build_wheel(work: Path) -> Path:
    folder = work / "dist"
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "build", "--quiet", "--wheel", "--outdir", str(folder), str(ROOT)], cwd=work)
    return next(folder.glob("*.whl"))


def _environment(folder: Path, interpreter: str, wheel: Path, pins: Sequence[str], extra: Sequence[str] = ()) -> Path:
    """Return the Python of a virtual environment that holds the wheel with its development dependencies."""
    python = folder / "bin" / "python"
    if not python.exists():
        _run([interpreter, "-m", "venv", str(folder)], cwd=ROOT)
        _run([str(python), "-m", "pip", "install", "--quiet", "--upgrade", "pip"], cwd=ROOT)
    _run([str(python), "-m", "pip", "install", "--quiet", *pins, *extra, f"{wheel}[dev]"], cwd=ROOT)
    _run([str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", str(wheel)], cwd=ROOT)
    return python


def _project() -> dict[str, Any]:
    """Return the table ``project`` of pyproject.toml."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project


def _floors() -> list[str]:
    """Return the least version of each dependency, and of what the extras in ``FLOOR_EXTRAS`` add, as pins."""
    project = _project()
    extras = project["optional-dependencies"]
    requirements = [*project["dependencies"], *(entry for name in FLOOR_EXTRAS for entry in extras[name])]
    return [requirement.replace(">=", "==") for requirement in requirements]


def _python(*, oldest: bool) -> str:
    """Return the oldest interpreter that pyproject.toml allows, or the newest one on the path."""
    least = int(str(_project()["requires-python"]).rpartition(".")[2])
    minors = [minor for minor in range(least, least + 12) if shutil.which(f"python3.{minor}")]
    if not minors or (oldest and minors[0] != least):
        raise SystemExit(f"python3.{least} is not on the path; install it, or add its folder to PATH")
    return f"python3.{minors[0] if oldest else minors[-1]}"


def _versions(python: Path) -> str:
    code = (
        "import json, platform; from importlib.metadata import version;print(json.dumps({name:"
        f" platform.python_version() if name == 'python' else version(name) for name in {SHOWN!r}}}))"
    )
    versions = json.loads(_run([str(python), "-c", code], cwd=ROOT).stdout)
    return ", ".join(f"{name} {versions[name]}" for name in SHOWN)


# Jobs.


def _main_job(python: Path, work: Path) -> tuple[str, bool]:
    """Compare the figures of the README's first command with those of the environment that runs this script."""
    here, there = _figures(Path(sys.executable), work / "here"), _figures(python, work / "there")
    different = [
        f"{key}: {here.get(key)} here, {there.get(key)} there"
        for key in sorted(here.keys() | there.keys())
        if not _alike(here.get(key, math.nan), there.get(key, math.nan))
    ]
    if different:
        return f"{len(different)} of {len(here)} values differ: {'; '.join(different[:3])}", False
    return f"{len(here)} values, each equal to {RELATIVE_TOLERANCE:g}", bool(here)


def _figures(python: Path, folder: Path) -> dict[str, float | None]:
    report = folder / "report.json"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "examples" / "quickstart", folder)
    _run([str(python), "-m", "pytest", "-q", *MAIN_JOB, "--bias-no-cache", f"--bias-json={report}"], cwd=folder)
    measurements = json.loads(report.read_text())["measurements"]
    return {
        f"{entry['model']} {entry['suite']} {name}": value
        for entry in measurements
        for name, value in entry["values"].items()
    }


def _alike(here: float | None, there: float | None) -> bool:
    if here is None or there is None:
        return here is there
    return math.isclose(here, there, rel_tol=RELATIVE_TOLERANCE, abs_tol=RELATIVE_TOLERANCE)


def _tests(python: Path, folder: Path, tests: Sequence[str]) -> tuple[str, bool]:
    """Run the tests against the wheel, in a folder without the package's source."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in ("tests", "examples", "scripts", "docs"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "pyproject.toml", folder)
    data = os.environ.get("GENDERBIAS_DATA", str(ROOT.parent / "shared" / "data"))
    command = [str(python), "-Im", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    result = subprocess.run(
        command, check=False, cwd=folder, env={**_bare(), "GENDERBIAS_DATA": data}, capture_output=True, text=True
    )
    (folder / "output.txt").write_text(result.stdout + result.stderr)
    last = (result.stdout.strip().splitlines() or ["no output"])[-1].strip("= ")
    return (last if result.returncode == 0 else f"{last} ({folder / 'output.txt'})"), result.returncode == 0


# Other plugins.


def _plugin_rows(wheel: Path, work: Path) -> Iterator[Row]:
    packages = [package for package, _ in PLUGINS.values()]
    constraints = ["-c", str(ROOT / "constraints.txt")]
    python = _environment(work / "plugins", sys.executable, wheel, constraints, packages)
    folder = work / "project"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in PROJECT.items():
        (folder / name).write_text(content)
    flags: tuple[list[str], ...] = ([], ["--bias-model=demo-lm"])
    alone = [_verdicts(python, folder, [], arguments)[0] for arguments in flags]
    for name, (package, options) in PLUGINS.items():
        entry_point = _entry_point(python, package)
        if not _runs_alone(python, work, ["-p", entry_point, *options]):
            yield Row(f"plugin {name}", "without this plugin", package, "does not run with this pytest by itself", True)
            continue
        for arguments, expected in zip(flags, alone, strict=True):
            verdicts, last = _verdicts(python, folder, ["-p", entry_point, *options], arguments)
            passed = verdicts == expected
            result = last if passed else f"verdicts {verdicts}, without the plugin {expected}: {last}"
            yield Row(f"plugin {name}", " ".join(arguments) or "no flag", package, result, passed)


def _runs_alone(python: Path, work: Path, plugin: Sequence[str]) -> bool:
    """Return whether the other plugin runs a plain test where this plugin is not loaded."""
    folder = work / "plain"
    folder.mkdir(exist_ok=True)
    (folder / "test_plain.py").write_text(PROJECT["test_gates.py"].partition("def test_bias")[0].partition("\n\n\n")[2])
    command = [str(python), "-m", "pytest", *plugin]
    environment = {**_bare(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, check=False, cwd=folder, env=environment, capture_output=True).returncode == 0


def _entry_point(python: Path, package: str) -> str:
    """Return the name under which pytest loads the plugin of a package."""
    code = (
        "import sys; from importlib.metadata import distribution;"
        "print(*[e.name for e in distribution(sys.argv[1]).entry_points if e.group == 'pytest11'][:1])"
    )
    return _run([str(python), "-c", code, package], cwd=ROOT).stdout.strip()


def _verdicts(python: Path, folder: Path, plugin: Sequence[str], arguments: Sequence[str]) -> tuple[object, str]:
    """Return the exit status with the verdicts of the JSON report, and the last line of the output."""
    report = folder / "bias.json"
    report.unlink(missing_ok=True)
    command = [str(python), "-m", "pytest", "-p", "genderbias", *plugin, *arguments, f"--bias-json={report}"]
    environment = {**_bare(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    result = subprocess.run(command, check=False, cwd=folder, env=environment, capture_output=True, text=True)
    last = (result.stdout.strip().splitlines() or result.stderr.strip().splitlines() or ["no output"])[-1].strip("= ")
    if "INTERNALERROR" in result.stdout + result.stderr:
        return "internal error", last
    judgements = json.loads(report.read_text())["judgements"] if report.exists() else []
    verdicts = sorted((entry["suite"], entry.get("bound"), entry["verdict"]) for entry in judgements)
    return [result.returncode, *verdicts], re.sub(r" in [\d.]+s.*", "", last)


# Processes.


def _bare() -> dict[str, str]:
    """Return the environment without what would make a checkout importable."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")} | {"HF_HUB_OFFLINE": "1"}


def _run(command: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(command, check=False, cwd=cwd, env=_bare(), capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(
            f"{shlex.join(command)} ended with {result.returncode}:\n{result.stdout[-2000:]}{result.stderr[-4000:]}"
        )
    return result


if __name__ == "__main__":
    sys.exit(main())
