"""The code of a worker of a Ray cluster: loads the model of the run, checks that it is the same, and scores windows."""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import platform
import re
import socket
import traceback
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import BiasError, ExecutorError
from pytest_genderbias.models.chat_template import DETAIL as CHAT_TEMPLATE
from pytest_genderbias.models.fingerprint import fingerprint_reading
from pytest_genderbias.models.loading import inspect, load
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.protocols import HIDDEN_STATES
from pytest_genderbias.scoring.scorer import Scorer
from pytest_genderbias.scoring.scorers import make_scorer

if TYPE_CHECKING:
    from pytest_genderbias.suites.cases import Cases, IntArray

_PACKAGE = Path(__file__).resolve().parents[1]
_LIBRARIES = ("torch", "transformers", "tokenizers", "numpy")


@dataclass(frozen=True)
class WantedModel:
    """The model of the run, and what must be the same in every worker.

    Attributes:
        model: the model without its backend. It has an origin, whose path is absolute, and a fingerprint.
        reading: how texts are cut, fed and put into a chat template, which is no part of the fingerprint.
        versions: versions of the libraries, and the code of this package.
    """

    model: Model
    reading: tuple[str, ...]
    versions: dict[str, str]

    @classmethod
    def of(cls, model: Model) -> WantedModel:
        """Return what workers need to load a model."""
        return cls(replace(model, backend=None), _reading(model), versions_here())


@dataclass(frozen=True)
class Loaded:
    """A worker that has the model: its process, its node, and the model of its processor with its instructions
    (``AVX512``).
    """

    pid: int
    node: str
    processor: str


@dataclass(frozen=True)
class Failure:
    """An error in a worker: as it was, if it can travel, and its traceback."""

    error: Exception
    traceback: str


class RayWorker:
    """The actor: one process with one model."""

    def __init__(self, threads: int) -> None:
        """Let torch use ``threads`` threads."""
        self._threads = threads
        self._given_up = 0  # the last task whose windows are no longer wanted
        self._wanted: WantedModel | None = None
        self._model: Model | None = None
        self._cases: Cases | None = None
        self._scorer: Scorer | None = None

    def load(self, wanted: WantedModel) -> Loaded | Failure:
        """Load a model, unless it is the one in memory, and compare it with that of the run."""
        import torch

        torch.set_num_threads(self._threads)  # in the thread that scores
        try:
            if wanted != self._wanted:
                self._wanted = self._model = self._scorer = self._cases = None
                gc.collect()
                self._model = _load(wanted)
                self._wanted = wanted
            return Loaded(os.getpid(), socket.gethostname(), _processor())
        except Exception as error:
            return _failure(error)

    def ask(self, question: bytes) -> Failure | None:
        """Take a question: pickled cases, query and tokens in a batch."""
        try:
            assert self._model is not None
            self._scorer = None
            # The process of the run made it; Ray sends code to its workers in the same way.
            self._cases, query, batch_tokens = pickle.loads(question)  # noqa: S301
            self._scorer = make_scorer(self._cases, query, self._model, batch_tokens)
        except Exception as error:
            return _failure(error)
        return None

    def give_up(self, task: int) -> None:
        """Score no further windows of this task. It is called while one is being scored."""
        self._given_up = task

    def score(self, units: IntArray, task: int = 1) -> tuple[NDArray[np.generic], list[str]] | Failure:
        """Return the scores of units of the question, and the remarks of the scorer; nothing for a task that is given
        up.
        """
        if task <= self._given_up:
            return np.zeros(0), []
        try:
            assert self._scorer is not None
            assert self._cases is not None
            return self._scorer.score(self._cases.cases_of(units)), self._scorer.notes
        except Exception as error:
            return _failure(error)


def _load(wanted: WantedModel) -> Model:
    """Load the model of the run.

    Raises:
        ExecutorError: this node has other versions, no such files, other weights, or another device.
        ModelError: the model cannot be loaded.
    """
    theirs, origin, where = wanted.model, wanted.model.origin, f"on the node {socket.gethostname()}"
    assert origin is not None
    spec, here = origin.spec, versions_here()
    if here != wanted.versions:
        wrong = dict(wanted.versions.items() - here.items())
        other = [f"{name} {here.get(name)} and not {wrong[name]}" for name in sorted(wrong)]
        raise ExecutorError(
            f"a worker {where} has {', '.join(other)}; install the same versions on every node, and start the run again"
        )
    if spec.kind not in ("hub", "object") and not Path(spec.target).exists():
        raise ExecutorError(
            f"{theirs.name}: there is no {spec.target} {where}; workers load a model by its path or hub id, so put it"
            " into a folder that every node sees under the same path"
        )
    try:
        model = load(inspect(spec, origin.settings), origin.settings)
    except BiasError as error:
        takes_text = len(error.args) == 1 and isinstance(error.args[0], str)
        raise type(error)(f"{error} ({where})") if takes_text else error from None
    on = [f"on {one.details.get('device')} in {one.details.get('dtype')}" for one in (model, theirs)]
    if on[0] != on[1]:
        raise ExecutorError(
            f"{theirs.name} is {on[0]} {where}, and {on[1]} where the run was started; their scores differ, so name a"
            " device that every node has: --bias-device=cpu"
        )
    if model.fingerprint != theirs.fingerprint or model.role != theirs.role:
        raise ExecutorError(
            f"{theirs.name} is another model {where}: the fingerprint of {spec.target} is {str(model.fingerprint)[:12]}"
            f" there and {str(theirs.fingerprint)[:12]} where the run was started; copy the same checkpoint to every"
            " node (and leave it as it is while a run goes on)"
        )
    if _reading(model) != wanted.reading:
        raise ExecutorError(
            f"{theirs.name} reads texts in another way {where} than where the run was started: the tokenizer's length,"
            f" sides or chat template, the pooling, or code beside the checkpoint; copy all files of {spec.target} to"
            " every node"
        )
    return replace(model, name=theirs.name)


def _reading(model: Model) -> tuple[str, ...]:
    """Return what decides scores beside the fingerprint, as the keys of the score cache have it."""
    reading = fingerprint_reading(model.backend) if model.can(HIDDEN_STATES) else ""
    return reading, model.details.get(CHAT_TEMPLATE, "")


def _failure(error: Exception) -> Failure:
    """Return an error so that it can travel; one that cannot becomes a RuntimeError with its text."""
    text, told = traceback.format_exc(), RuntimeError(f"{type(error).__name__}: {error}")
    try:
        again = pickle.loads(pickle.dumps(error))  # noqa: S301 - made in this line
        error = again if type(again) is type(error) and str(again) == str(error) else told
    except Exception:
        error = told
    return Failure(error, text)


def _processor() -> str:
    """Return the model of the processor, and the instructions that torch uses of it, which decide how scores are
    rounded.
    """
    import torch

    facts = Path("/proc/cpuinfo")
    told = facts.read_text(errors="replace") if facts.is_file() else ""
    names = re.search(r"^model name\s*:\s*(.+)$", told, re.MULTILINE)
    model = names[1].strip() if names else platform.processor() or platform.machine()
    return f"{model}, {torch.backends.cpu.get_cpu_capability()}"


def versions_here() -> dict[str, str]:
    """Return what scores depend on beside the model: versions of libraries, and a hash of the code of this package."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode())
        digest.update(path.read_bytes())
    code = {"pytest-genderbias with code": digest.hexdigest()[:12]}
    return {library: version(library) for library in _LIBRARIES} | code
