"""``BiasCallback``: measure suites every n steps of a training, to see how bias develops as the loss falls (lu2018,
figure 3).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from pytest_genderbias.errors import SettingError, UndefinedError, UnknownNameError
from pytest_genderbias.measurement.carry_out import carry_out
from pytest_genderbias.measurement.plan import Plan, plan_measurement
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.objects import wrap_network
from pytest_genderbias.recipes.recipe import Performance
from pytest_genderbias.recipes.trainer import generators_restored
from pytest_genderbias.scoring.engine import ScoreSettings
from pytest_genderbias.statistics.correlation import pearson
from pytest_genderbias.suites.suite import Suite, load_suite

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerControl, TrainerState

_LOSS, _SECONDS = "loss", "seconds"
_BIAS, _TASK = "bias/", "task/"  #: prefixes of names in the Trainer's log
_SCORING = ("limit", "seed", "batch_tokens")


class HistoryEntry(TypedDict):
    """One measurement during a training.

    ``loss``: mean training loss since the last log; ``None`` at the start. ``values``: statistics by
    ``SUITE/STATISTIC``, ``None`` where undefined. ``performance``: figures of the task by name. ``seconds``: wall time
    of the measurement.
    """

    step: int
    loss: float | None
    values: dict[str, float | None]
    performance: dict[str, float]
    seconds: float


class SuiteWatcher:
    """Measure suites on a network every n steps of its training, without any effect on the training.

    Use it as ``Trainer(..., callbacks=[BiasCallback(["lm-occupation"], every=200, model=model)])``. ``BiasCallback`` is
    this class as a ``TrainerCallback``; it is created on first use, since that imports transformers. The network is
    measured in evaluation mode without gradients; modes and random states are restored, so that the trained weights are
    the same as without the callback. The last step is always measured.

    ``history`` is a list of :class:`HistoryEntry`. The Trainer's ``log_history`` has the same figures, as
    ``bias/SUITE/STATISTIC`` and ``task/NAME``, in entries beside those of the loss. A callback has no access to its
    Trainer: set ``callback.report = trainer.log`` (recipes do) to send the figures to TensorBoard and the other targets
    of ``report_to`` as well. A training that resumes from a checkpoint continues the history of that checkpoint.

    Args:
        suites: names, paths or loaded suites, one or several.
        every: steps between measurements; or, as a number below 1, the share of the training between them (0.1: eleven
            measurements, the start included); or the steps themselves. The Trainer also logs the loss at these steps.
        model: a model of the kind that is trained, for its tokenizer, role and name. By default these are the Trainer's
            ``processing_class`` and the class of the network.
        at_start: whether to measure before the first step.
        log: file to which each measurement adds a JSON line; :func:`read_history` reads it.
        evaluate: the ``evaluate`` of a recipe, to record the performance beside the bias.
        settings: of :func:`~pytest_genderbias.measurement.runner.measure`, for all suites: ``limit``, ``seed``,
            ``batch_tokens``, ``data``, options. Scores are not cached, since no weights recur.

    Raises:
        NotApplicableError: a suite needs another kind of model, or data that are missing; before the first step.
        SettingError, UnknownNameError, DataFileError: a setting, suite or file is wrong.
        ScoreError: the network returns NaN or infinite scores.
    """

    def __init__(
        self,
        suites: str | Path | Suite | Sequence[str | Path | Suite],
        every: float | Sequence[int] = 100,
        model: Model | None = None,
        *,
        at_start: bool = True,
        log: str | Path | None = None,
        evaluate: Callable[[Model], Sequence[Performance]] | None = None,
        **settings: object,
    ) -> None:
        """Load the suites, and plan their measurements if the model is known."""
        check_every(every)
        named = [suites] if isinstance(suites, (str, Path, Suite)) else list(suites)
        self.suites = [suite if isinstance(suite, Suite) else load_suite(suite) for suite in named]
        if not self.suites or len({suite.name for suite in self.suites}) < len(self.suites):
            raise SettingError(
                f"suites should be one or more different ones, got {', '.join(map(str, named)) or 'none'}"
            )
        self.every, self.model, self.at_start = every, model, at_start
        self.log = None if log is None else Path(log)
        self.evaluate = evaluate
        self.history: list[HistoryEntry] = []
        self.report: Callable[[dict[str, float]], object] | None = None
        data = settings.pop("data", None)
        self._data = None if data is None else Path(str(data))
        self._scoring = ScoreSettings(**{name: settings.pop(name) for name in _SCORING if name in settings})  # type: ignore[arg-type]
        self._options = settings
        self._plans: list[Plan] = self._plans_for(model) if model is not None else []

    def on_train_begin(self, args: object, state: TrainerState, control: object, **given: Any) -> None:
        """Reject suites that do not apply, continue the history of a checkpoint, and measure before the first step."""
        model: PreTrainedModel = given["model"]
        processing_class: PreTrainedTokenizerBase | None = given.get("processing_class")
        if self.model is None:
            if processing_class is None:
                raise SettingError(
                    "BiasCallback needs a tokenizer: give it model=..., or give the Trainer a processing_class"
                )
            self._plans = self._plans_for(wrap_network(model, processing_class))
        self._tokenizer = processing_class
        self.history = history_of(state.log_history)
        if self.at_start and self._is_new(state):
            self._measure(state, model, None)

    def on_step_end(self, args: object, state: TrainerState, control: TrainerControl, **given: object) -> None:
        """Request the loss at the steps that are measured."""
        if self._is_due(state):
            control.should_log = True

    def on_log(self, args: object, state: TrainerState, control: object, **given: Any) -> None:
        """Measure once the loss of a step is known, after the other callbacks have changed the network."""
        logs: Mapping[str, float] = given.get("logs") or {}
        if _LOSS in logs and self._is_due(state) and self._is_new(state):
            self._measure(state, given["model"], float(logs[_LOSS]))

    def on_train_end(self, args: object, state: TrainerState, control: object, **given: Any) -> None:
        """Measure after the last step, if the training ended before ``max_steps``."""
        if self._is_new(state):
            self._measure(state, given["model"], None)

    def _is_due(self, state: TrainerState) -> bool:
        step = state.global_step
        if isinstance(self.every, int):
            listed = step % self.every == 0
        elif isinstance(self.every, float):
            listed = step in steps_of_share(self.every, state.max_steps)
        else:
            listed = step in self.every
        return listed or step >= state.max_steps

    def _is_new(self, state: TrainerState) -> bool:
        """Tell whether this process measures the step: it is not measured yet, and of several processes this is the
        first.
        """
        return bool(state.is_world_process_zero) and all(e["step"] != state.global_step for e in self.history)

    def _plans_for(self, model: Model) -> list[Plan]:
        return [
            plan_measurement(suite, model.name, model.role, self._options, self._data, self._scoring.seed)
            for suite in self.suites
        ]

    def _measure(self, state: TrainerState, network: PreTrainedModel, loss: float | None) -> None:
        """Measure all suites, and append the figures to the history, the log file and the Trainer's log."""
        start = time.perf_counter()
        with undisturbed(network):
            model = self.model
            if model is None:
                assert self._tokenizer is not None  # checked before the training
                model = wrap_network(network, self._tokenizer)
            else:  # without a fingerprint, since its weights will change
                backend = replace(model.backend, network=network, device=str(network.device))
                details = {**model.details, "device": network.device.type}
                model = replace(model, fingerprint=None, details=details, backend=backend)
            measurements = [carry_out(plan, model, self._scoring) for plan in self._plans]
            performance: Sequence[Performance] = []
            with suppress(UndefinedError):  # such as a perplexity that overflows
                performance = [] if self.evaluate is None else self.evaluate(model)
        entry: HistoryEntry = {
            "step": int(state.global_step),
            "loss": loss,
            "values": {f"{m.suite}/{name}": value for m in measurements for name, value in m.values.items()},
            "performance": {figure.name: figure.value for figure in performance},
            "seconds": round(time.perf_counter() - start, 3),
        }
        self.history.append(entry)
        if self.log is not None:
            _add_line(self.log, entry)
        figures = {f"{_BIAS}{name}": value for name, value in entry["values"].items() if value is not None}
        figures |= {f"{_TASK}{name}": value for name, value in entry["performance"].items()}
        figures[f"{_BIAS}{_SECONDS}"] = entry["seconds"]
        if self.report is not None:
            self.report(figures)
        else:
            state.log_history.append({**figures, "epoch": state.epoch, "step": entry["step"]})


def check_every(every: float | Sequence[int]) -> None:
    """Refuse what does not say when to measure.

    Raises:
        SettingError: ``every`` is no whole number of at least 1, no share between 0 and 1, and no list of steps.
    """
    if isinstance(every, float):
        valid = 0 < every < 1
    else:
        steps, least = ([every], 1) if isinstance(every, int) else (list(every), 0)
        valid = all(type(step) is int and step >= least for step in steps)
    if not valid:
        raise SettingError(
            "every should be a number of steps, at least 1, a share of the training between 0 and 1, or the steps"
            f" themselves, got {every!r}"
        )


def steps_of_share(share: float, last: int) -> list[int]:
    """Return the steps of a training of ``last`` steps that lie a share of it apart, rounded, without the start.

    >>> steps_of_share(0.25, 10)
    [3, 5, 8, 10]
    """
    marks = {math.floor(k * share * last + 0.5) for k in range(1, math.floor(1 / share + 1e-9) + 1)}
    return sorted(marks - {0})


if TYPE_CHECKING:
    BiasCallback = SuiteWatcher


def __getattr__(name: str) -> type:
    """Create ``BiasCallback`` on first use (PEP 562)."""
    if name == "BiasCallback":
        return _callback_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _callback_class() -> type[Any]:
    from transformers import TrainerCallback

    return type(
        "BiasCallback", (SuiteWatcher, TrainerCallback), {"__module__": __name__, "__doc__": SuiteWatcher.__doc__}
    )


@contextmanager
def undisturbed(network: PreTrainedModel) -> Iterator[None]:
    """Put a network into evaluation mode inside a ``with`` block, and restore the state of the training afterwards.

    Restores the mode of each module, and the random states of torch (on the CPU and the network's GPUs), numpy and
    Python.
    """
    import torch

    modes = {module: module.training for module in network.modules()}
    with generators_restored(network), torch.no_grad():
        try:
            network.train(False)
            yield
        finally:
            for module, training in modes.items():
                module.training = training


def history_of(log_history: Iterable[Mapping[str, float]]) -> list[HistoryEntry]:
    """Return the history in a Trainer's log, of this training or of a saved one (``trainer.state.log_history``).

    >>> log = [{"loss": 2.5, "step": 9}, {"bias/lm-occupation/aggregate_bias": 0.25, "bias/seconds": 1.5, "step": 9}]
    >>> history_of(log)
    [{'step': 9, 'loss': 2.5, 'values': {'lm-occupation/aggregate_bias': 0.25}, 'performance': {}, 'seconds': 1.5}]
    """
    losses: dict[float, float] = {}
    history: dict[float, HistoryEntry] = {}
    for logged in log_history:
        step = logged["step"]
        if _LOSS in logged:
            losses[step] = logged[_LOSS]
        if f"{_BIAS}{_SECONDS}" in logged:
            values = {name.removeprefix(_BIAS): value for name, value in logged.items() if name.startswith(_BIAS)}
            seconds = values.pop(_SECONDS)
            task = {name.removeprefix(_TASK): value for name, value in logged.items() if name.startswith(_TASK)}
            history[step] = {
                "step": int(step),
                "loss": losses.get(step),
                "values": dict(values),
                "performance": task,
                "seconds": seconds,
            }
    return list(history.values())


def _add_line(path: Path, entry: HistoryEntry) -> None:
    """Append a JSON line to a file, on a new line even if a killed run left an incomplete one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            torn = False
            if file.tell():
                file.seek(-1, 2)
                torn = file.read(1) != b"\n"
            file.write(b"\n" * torn + json.dumps(entry).encode() + b"\n")
    except OSError as error:
        raise SettingError(f"{path} cannot be written: {error}") from error


def read_history(path: str | Path) -> list[HistoryEntry]:
    """Return the history in a ``log`` file. Of steps that were measured again after a restart, the last measurement
    counts.

    Incomplete lines are skipped.

    Raises:
        SettingError: the file cannot be read.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error}") from error
    history: list[HistoryEntry] = []
    for line in lines:
        try:
            entry = json.loads(line)
            step = entry["step"]
        except (ValueError, TypeError, KeyError):
            continue
        while history and history[-1]["step"] >= step:
            history.pop()
        history.append(entry)
    return history


def loss_association(history: Sequence[HistoryEntry], statistic: str | None = None) -> dict[str, float | int]:
    """Return the correlation of bias and loss over the steps of one training: Pearson's r and Spearman's rho (lu2018,
    figure 3).

    Both lie from -1 to 1; 0 is no association. Below 0 the statistic rises as the loss falls, as lu2018 observed for
    aggregate occupation bias. Steps of one training are not independent observations (both figures move with time), so
    there is no interval and no p value: compare several trainings.

    Args:
        history: of a ``BiasCallback``, or of a file (:func:`read_history`).
        statistic: a name such as ``lm-occupation/aggregate_bias``; by default the first.

    Returns:
        ``pearson``, ``spearman``, and ``n``, the number of steps with both figures.

    Raises:
        UndefinedError: there are fewer than three such steps, or a figure is the same at all of them.
        UnknownNameError: the statistic was not measured.

    >>> points = [(3.0, 0.0), (2.0, 0.2), (1.5, 0.1), (1.0, 0.4)]
    >>> history = [{"step": i, "loss": x, "values": {"s/aob": y}} for i, (x, y) in enumerate(points)]
    >>> round(loss_association(history)["spearman"], 6)
    -0.8
    """
    from scipy.stats import rankdata

    known = dict.fromkeys(name for entry in history for name in entry["values"])
    name = statistic or next(iter(known), "")
    if name not in known:
        raise UnknownNameError(f"{name!r} was not measured; there are {', '.join(known) or 'no measurements'}")
    both = [(entry["loss"], entry["values"].get(name)) for entry in history]
    pairs = np.asarray([pair for pair in both if None not in pair], dtype=np.float64).reshape(-1, 2)
    ranks = rankdata(pairs, axis=0)
    return {
        "pearson": pearson(pairs[:, 0], pairs[:, 1]),
        "spearman": pearson(ranks[:, 0], ranks[:, 1]),
        "n": len(pairs),
    }
