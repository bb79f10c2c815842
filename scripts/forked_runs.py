"""Runs of the package in processes that are forked from a warm parent, which has imported torch and transformers.

A place is what a run does: score, update baselines, mitigate, write the JSON report. Each has a folder of its own with
its project, score cache, home and temporary files. ``result`` reads what a run left, without times, so that two runs
can be compared bit for bit. Only the demo models are used, and neither network nor data sets. ``kill_test.py`` and
``hard_conditions.py`` share this module.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

for _name, _value in {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
}.items():
    os.environ[_name] = _value  # before torch is imported: threads do not survive a fork

PLUGIN = "pytest_genderbias.plugin"
#: Arguments of every run of pytest.
FIXED = ("-p", PLUGIN, "-p", "no:cacheprovider", "-q", "--bias-device=cpu", "--rootdir=.", "-c", "pytest.ini")
HANGS = 120.0  #: seconds after which a run counts as hanging
_TIMES = ("seconds", "date", "train_runtime", "train_samples_per_second", "train_steps_per_second")
_UNFINISHED = re.compile(r"\..+-[a-z0-9_]{8}|\.saving-.*|checkpoints|.*\.tmp")

MODELS = """
import hashlib
import numpy as np

class Classifier:
    labels = ("entailment", "neutral", "contradiction")

    def __init__(self, neutral):
        self.neutral, self.fingerprint = neutral, f"planted {neutral}"

    def pair_probabilities(self, premises, hypotheses):
        words = [int(hashlib.sha256(p.encode()).hexdigest()[:4], 16) / 65536 for p in premises]
        neutral = self.neutral + 0.05 * np.array(words)
        rest = (1 - neutral) / 2
        same = np.array([p == h for p, h in zip(premises, hypotheses)])
        found = np.stack([rest, neutral, rest], axis=1)
        found[same] = [0.9, 0.05, 0.05]
        return found

def old(): return Classifier(0.6)
def new(): return Classifier(0.8)
"""
GATES = """
gates:
  - {{suite: nli-occupation, baseline: true, margin: 0, settings: {{limit: 256}}}}
  - {{suite: nli-occupation, baseline: true, margin: 0, name: {name}, settings: {{limit: 192}}}}
  - suite: nli-occupation
    statistic: fraction_neutral
    baseline: true
    margin: 0
    name: {name}
    settings: {{limit: 192}}
"""
MITIGATE = """
mitigate:
  - method: projection
    controls: 1
    reduces:
      - {suite: lm-occupation, by: 0.1, settings: {limit: 128}}
  - method: {name: cda, sides: one}
    recipe: {name: causal-lm, corpus: ./text.txt, steps: 4, batch_size: 4, max_length: 16, arguments: {save_steps: 2}}
    seeds: 2
    reduces:
      - {suite: lm-occupation, by: 0.1, settings: {limit: 128}}
"""
TEXT = "".join(
    f"The {noun} said that {who} would {verb} .\n"
    for noun in ("nurse", "pilot", "cook", "judge")
    for who in ("he", "she")
    for verb in ("come", "go", "sing", "wait", "sleep", "read")
)


# Places.


@dataclass(frozen=True)
class Place:
    """What a run does in its folder.

    Attributes:
        prepare: writes the project, and what an earlier run left.
        run: the run; returns its exit status.
        result: what the run left, by name, without times. What is not listed may differ between runs.
    """

    name: str
    prepare: Callable[[Path], None]
    run: Callable[[Path], int]
    result: Callable[[Path], dict[str, str]]


def run_pytest(*arguments: str) -> int:
    """Run pytest in this process."""
    import pytest

    return int(pytest.main([*FIXED, *arguments]))


def _prepare_scoring(folder: Path) -> None:
    """Nothing but the cache, which is empty."""


def _score(folder: Path) -> int:
    from pytest_genderbias import measure
    from pytest_genderbias.folders import write_whole
    from pytest_genderbias.scoring import engine

    engine.WINDOW, engine._KEEP_EVERY = 64, 0.0  # many small files
    measurement = measure("nli-occupation", warm_model("demo-nli"), limit=2048, cache=folder / "cache")
    text = json.dumps(measurement.to_dict(), sort_keys=True)
    write_whole(folder / "result.json", text.encode())
    return 0


def _scored(folder: Path) -> dict[str, str]:
    return {"result.json": _read(folder / "result.json")}


def _prepare_project(folder: Path, *settings: str) -> None:
    (folder / "pytest.ini").write_text("\n".join(["[pytest]", "filterwarnings = ignore", *settings, ""]))
    (folder / "models.py").write_text(MODELS)
    (folder / "text.txt").write_text(TEXT)


def _prepare_update(folder: Path) -> None:
    _prepare_project(folder, "bias_ability = none: planted answers")
    for name in ("first", "second"):
        (folder / f"{name}.bias.yaml").write_text(GATES.format(name=name))
    status = in_child(folder, lambda: _update(folder, "old")).wait()
    assert status == 0, (folder / "output").read_text()


def _update(folder: Path, version: str = "new") -> int:
    models = [f"--bias-model={name}=models:{version}" for name in ("a", "b")]
    return run_pytest("first.bias.yaml", "second.bias.yaml", *models, "--bias-update", "--bias-baseline=books")


def _updated(folder: Path) -> dict[str, str]:
    return _files(folder / "books")


def _prepare_mitigation(folder: Path) -> None:
    _prepare_project(folder)
    (folder / "m.bias.yaml").write_text(MITIGATE)


def _mitigate(folder: Path) -> int:
    return run_pytest("m.bias.yaml", "--bias-model=m=demo-lm", "-obias_runs=runs", "--bias-json=report.json")


def _mitigated(folder: Path) -> dict[str, str]:
    weights = {name: text for name, text in _files(folder / "runs").items() if name.endswith(".safetensors")}
    return {"report.json": _read_report(folder / "report.json"), **weights}


def _read_report(path: Path) -> str:
    """Return a report without what differs from run to run: of the description of the run, only its exit status."""
    if not (text := _read(path)):
        return ""
    try:
        content = json.loads(text)
    except ValueError:
        return text
    return json.dumps(content | {"run": {"exit_status": content["run"]["exit_status"]}})


def _prepare_report(folder: Path) -> None:
    _prepare_project(folder)
    test = "def test_bias(bias_measure):\n    assert bias_measure('lm-occupation', limit=96, seed=1).value > 0\n"
    (folder / "test_bias.py").write_text(test)
    status = in_child(folder, lambda: run_pytest(*report_arguments(64), "--bias-no-cache")).wait()
    assert status == 0, (folder / "output").read_text()


def _report(folder: Path) -> int:
    return run_pytest(*report_arguments())


def report_arguments(limit: int = 256) -> list[str]:
    """Return the arguments of the run that writes a report."""
    return [
        "test_bias.py",
        "--bias-suite=lm-occupation",
        "--bias-model=m=demo-lm",
        f"--bias-limit={limit}",
        "--bias-null",
        "--bias-json=report.json",
        "--junitxml=junit.xml",
    ]


def _reported(folder: Path) -> dict[str, str]:
    return {"report.json": _read_report(folder / "report.json")}


PLACES = {
    place.name: place
    for place in (
        Place("scoring", _prepare_scoring, _score, _scored),
        Place("baseline update", _prepare_update, _update, _updated),
        Place("mitigate", _prepare_mitigation, _mitigate, _mitigated),
        Place("JSON report", _prepare_report, _report, _reported),
    )
}


# What a run left.


def _files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): _read(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.name != ".lock"
        and not any(map(unfinished, (path, *path.relative_to(folder).parents)))
    }


def unfinished(path: Path) -> bool:
    """Return whether a path is a temporary file or folder of a writer, by its name."""
    return bool(_UNFINISHED.fullmatch(path.name))


def _read(path: Path) -> str:
    """Return the content of a JSON file without times and notes on the cache, or the digest of any other file; empty if
    there is none.
    """
    try:
        content = path.read_bytes()
    except OSError:
        return ""
    if path.suffix != ".json":
        return hashlib.sha256(content).hexdigest()
    try:
        return json.dumps(_without_times(json.loads(content)), sort_keys=True, indent=1)
    except ValueError as error:
        return f"not JSON: {error}"


def _without_times(value: object) -> object:
    if isinstance(value, dict):
        return {key: None if key in _TIMES else _without_times(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_without_times(part) for part in value if not str(part).startswith("scores not cached")]
    return re.sub(r"\n  note: scores not cached.*", "", value) if isinstance(value, str) else value


def left_over(folder: Path) -> list[str]:
    """Return unfinished files below a folder, and locks that somebody still holds."""
    from filelock import FileLock, Timeout

    found = []
    for path in sorted(folder.rglob("*")):
        if unfinished(path):
            found.append(str(path.relative_to(folder)))
        elif path.name == ".lock" or path.suffix == ".lock":
            try:
                FileLock(path).acquire(timeout=0).lock.release()
            except Timeout:
                found.append(f"{path.relative_to(folder)} is held")
    return found


def own_errors(folder: Path) -> list[str]:
    """Return the errors of the package that the output of a run shows."""
    text = (folder / "output").read_text(errors="replace")
    return [match[0] for match in re.finditer(rf"\b(?:{'|'.join(sorted(_own_names()))}): .*", text)]


def _own_names() -> set[str]:
    import pytest_genderbias.errors

    return {name for name in vars(pytest_genderbias.errors) if name.endswith("Error")}


def foreign_errors(folder: Path, output: str = "output") -> list[str]:
    """Return the last lines of tracebacks in the output of a run that are neither the package's own errors nor an
    interruption.
    """
    text = (folder / output).read_text(errors="replace")
    own = {*_own_names(), "GateFailure"}
    found = [line for line in text.splitlines() if "INTERNALERROR" in line or line.startswith("Exception ignored")][:1]
    for match in re.finditer(
        r"^(?:E\s+)?([\w.]*(?:Error|Exception|Failure|BadZipFile|\.error))(?::.*)?$", text, re.MULTILINE
    ):
        if match[1].rpartition(".")[2] not in own:
            found.append(match[0])
    return found


# Processes.


def warm_up() -> None:
    """Import everything that a run imports, so that a forked process starts at once."""
    import accelerate
    import pytest
    import scipy.stats
    import torch
    import tqdm
    import transformers

    import pytest_genderbias

    torch.set_num_threads(1)
    for module in walk_packages(pytest_genderbias.__path__, "pytest_genderbias."):
        import_module(module.name)
    assert transformers.Trainer and accelerate and pytest and scipy.stats and tqdm  # imported for their own sake
    warm_model("demo-nli")


_MODELS: dict[str, object] = {}


def warm_model(spec: str) -> object:
    """Return a loaded model, which forked processes share."""
    from pytest_genderbias import load_model

    if spec not in _MODELS:
        _MODELS[spec] = load_model(spec, device="cpu")
    return _MODELS[spec]


@dataclass
class Child:
    """A forked process."""

    pid: int
    handle: int = field(init=False)
    status: int | None = None

    def __post_init__(self) -> None:
        """Open the process, so that one can wait for its end."""
        self.handle = os.pidfd_open(self.pid)

    def ended(self, timeout: float) -> bool:
        """Wait for the end for at most so many seconds, and return whether it came."""
        return bool(select.select([self.handle], [], [], max(0.0, timeout))[0])

    def kill(self, number: int) -> None:
        """Send a signal."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self, timeout: float = HANGS) -> int:
        """Return the exit status; negative numbers are signals. A process that hangs is killed, and has the status
        -1000.
        """
        if self.status is None:
            hangs = not self.ended(timeout)
            if hangs:
                self.kill(signal.SIGKILL)
            _, status = os.waitpid(self.pid, 0)
            os.close(self.handle)
            self.status = -1000 if hangs else os.waitstatus_to_exitcode(status)
        return self.status


def in_child(
    folder: Path,
    run: Callable[[], int],
    before: Callable[[], object] = lambda: None,
    environment: Mapping[str, str | None] | None = None,
    output: str = "output",
) -> Child:
    """Fork a process that works in a folder.

    Args:
        folder: working folder; home, cache and temporary files lie in it.
        run: what the process does; returns its exit status.
        before: called first, to set limits or count file operations.
        environment: further variables; ``None`` removes one.
        output: the file of its output.
    """
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return Child(pid)
    from pytest_genderbias.errors import BiasError

    status = 70
    try:
        _enter(folder, environment or {})
        with (folder / output).open("w") as stream, redirect_stdout(stream), redirect_stderr(stream):
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
            before()
            try:
                status = run()
            except KeyboardInterrupt:
                status = 130
            except BiasError as error:
                print(f"{type(error).__name__}: {error}")
                status = 1
            except BaseException:
                import traceback

                traceback.print_exc()
                status = 1
    finally:
        os._exit(status)


def _enter(folder: Path, environment: Mapping[str, str | None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    for name in ("home", "tmp"):
        (folder / name).mkdir(exist_ok=True)
    places = {
        "HOME": str(folder / "home"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "TMPDIR": str(folder / "tmp"),
        **environment,
    }
    for name, value in places.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    tempfile.tempdir = None
    os.chdir(folder)
    sys.path.insert(0, str(folder))


def table(rows: Sequence[Sequence[object]], headers: Sequence[str]) -> str:
    """Return rows as a text table."""
    from tabulate import tabulate

    return str(tabulate(rows, headers=headers))


def timed(run: Callable[[], int]) -> tuple[float, int]:
    """Return the seconds that a call takes, and what it returns."""
    start = time.monotonic()
    status = run()
    return time.monotonic() - start, status
