"""``BiasCallback``: suites measured every n steps while a model is trained, so that bias can be watched as the loss falls (lu2018, figure 3)."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_genderbias.errors import SettingError, UnknownNameError
from pytest_genderbias.measurement.carry_out import carry_out
from pytest_genderbias.measurement.plan import Plan, plan_measurement
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.objects import wrap_network
from pytest_genderbias.recipes.recipe import Performance
from pytest_genderbias.scoring.engine import ScoreSettings
from pytest_genderbias.statistics.correlation import pearson
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.suites.suite import Suite, load_suite
from pytest_genderbias.text.printable import escape

_LOSS, _SECONDS = "loss", "seconds"
_BIAS, _TASK = "bias/", "task/"  #: what a figure's name begins with in the Trainer's log
_SCORING = ("limit", "seed", "batch_tokens")

Entry = dict[str, Any]


class Watching:
    """Measure suites on a network every n steps of its training, and change nothing of the training.

    Used as ``Trainer(..., callbacks=[BiasCallback(["lm-occupation"], every=200, model=model)])``; name it as ``BiasCallback``, which is this
    as a ``TrainerCallback``, made when it is first asked for, since that takes transformers. The network is measured as it is at the moment,
    without dropout and gradient; modes and random states are put back, so that training ends with the weights that it would have had.

    ``history`` is a list of dicts: ``step``, ``loss`` (mean training loss since the last log; ``None`` at the start), ``values`` (by
    ``SUITE/STATISTIC``; ``None`` where there is no value), ``performance`` (by name, from ``evaluate``) and ``seconds`` that it took.
    The same figures stand in the Trainer's ``log_history`` as ``bias/SUITE/STATISTIC`` and ``task/NAME``, in entries of their own beside those
    of the loss. A callback does not know its Trainer: with ``callback.report = trainer.log`` (recipes see to it) the figures also reach TensorBoard and
    whatever else ``report_to`` names. A training that goes on from a checkpoint has the history of that checkpoint.

    Args:
        suites: names, paths or loaded suites, one or several.
        every: steps between measurements; or the steps themselves. The Trainer is asked to log the loss at these steps, too.
        model: of the kind that is trained: its tokenizer, role and name. Left out, they are those of the Trainer's ``processing_class`` and of
            the network's class.
        at_start: whether it is measured before the first step.
        at_end: whether it is measured after the last one.
        log: file to which a JSON line is added for each measurement; :func:`read_history` reads it.
        evaluate: a recipe's ``evaluate``, whose figures are wanted beside.
        settings: of :func:`~pytest_genderbias.measurement.measure.measure`, for all suites: ``limit``, ``seed``, ``batch_tokens``, ``data``,
            options. Nothing is cached: no weights come back.

    Raises:
        NotApplicableError: a suite asks for another kind of model, or for data that are not there; before the first step.
        SettingError, UnknownNameError, DataFileError: a setting, suite or file is wrong.
        ScoreError: the network gives NaN or infinite scores.
    """

    def __init__(
        self,
        suites: str | Path | Suite | Sequence[str | Path | Suite],
        every: int | Sequence[int] = 100,
        model: Model | None = None,
        *,
        at_start: bool = True,
        at_end: bool = True,
        log: str | Path | None = None,
        evaluate: Callable[[Model], Sequence[Performance]] | None = None,
        **settings: Any,
    ) -> None:
        """Load the suites, and ask their questions if the model is known."""
        steps, least = ([every], 1) if isinstance(every, int) else (list(every), 0)
        if any(type(step) is not int or step < least for step in steps):
            raise SettingError(f"every should be a number of steps, at least 1, or the steps themselves, got {every!r}")
        named = [suites] if isinstance(suites, (str, Path, Suite)) else list(suites)
        self.suites = [suite if isinstance(suite, Suite) else load_suite(suite) for suite in named]
        if not self.suites or len({suite.name for suite in self.suites}) < len(self.suites):
            raise SettingError(
                f"suites should be one or more different ones, got {', '.join(map(str, named)) or 'none'}"
            )
        self.every, self.model, self.at_start, self.at_end = every, model, at_start, at_end
        self.log = None if log is None else Path(log)
        self.evaluate = evaluate
        self.history: list[Entry] = []
        self.report: Callable[[dict[str, float]], object] | None = None
        self._data = settings.pop("data", None)
        self._scoring = ScoreSettings(**{name: settings.pop(name) for name in _SCORING if name in settings})
        self._options = settings
        self._plans: list[Plan] = self._asked(model) if model is not None else []

    @property
    def statistics(self) -> list[str]:
        """The main statistic of each suite, as ``SUITE/STATISTIC``."""
        return [f"{suite.name}/{suite.main_statistic}" for suite in self.suites]

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, processing_class: Any = None, **more: Any
    ) -> None:
        """Refuse suites that do not apply; take up the history of the checkpoint; measure before the first step."""
        if self.model is None:
            if processing_class is None:
                raise SettingError(
                    "BiasCallback needs a tokenizer: give it model=..., or give the Trainer a processing_class"
                )
            self._plans = self._asked(wrap_network(model, processing_class))
        self._tokenizer = processing_class
        self.history = history_of(state.log_history)
        if self.at_start and self._is_new(state):
            self._measure(state, model, None)

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Ask for the loss at the steps that are measured."""
        if self._is_due(state):
            control.should_log = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, model: Any = None, **more: Any) -> None:
        """Measure once the loss of a step is known, so that other callbacks have done what they do to the network."""
        if logs is not None and _LOSS in logs and self._is_due(state) and self._is_new(state):
            self._measure(state, model, float(logs[_LOSS]))

    def on_train_end(self, args: Any, state: Any, control: Any, model: Any = None, **more: Any) -> None:
        """Measure after the last step, if it came before its time."""
        if self.at_end and self._is_new(state):
            self._measure(state, model, None)

    def _is_due(self, state: Any) -> bool:
        step = state.global_step
        here = step % self.every == 0 if isinstance(self.every, int) else step in self.every
        return here or (self.at_end and step >= state.max_steps)

    def _is_new(self, state: Any) -> bool:
        """Tell whether a step was not measured yet, and whether this process, of several, is to measure it."""
        return bool(state.is_world_process_zero) and all(e["step"] != state.global_step for e in self.history)

    def _asked(self, model: Model) -> list[Plan]:
        return [
            plan_measurement(suite, model.name, model.role, self._options, self._data, self._scoring.seed)
            for suite in self.suites
        ]

    def _measure(self, state: Any, network: Any, loss: float | None) -> None:
        """Measure all suites, and put the figures where they are looked for."""
        start = time.perf_counter()
        with undisturbed(network):
            model = _as_it_is(self.model, network, self._tokenizer)
            found = [carry_out(plan, model, self._scoring) for plan in self._plans]
            performance = [] if self.evaluate is None else _evaluated(self.evaluate, model)
        entry = {
            "step": int(state.global_step),
            _LOSS: loss,
            "values": {f"{one.suite}/{name}": value for one in found for name, value in one.values.items()},
            "performance": {one.name: one.value for one in performance},
            _SECONDS: round(time.perf_counter() - start, 3),
        }
        self.history.append(entry)
        if self.log is not None:
            _add_line(self.log, entry)
        told = _told(entry)
        if self.report is not None:
            self.report(told)
        else:
            state.log_history.append({**told, "epoch": state.epoch, "step": entry["step"]})


if TYPE_CHECKING:
    BiasCallback = Watching


def __getattr__(name: str) -> Any:
    """Make ``BiasCallback`` when it is first used (PEP 562)."""
    if name == "BiasCallback":
        return _callback_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _callback_class() -> type:
    from transformers import TrainerCallback

    return type("BiasCallback", (Watching, TrainerCallback), {"__module__": __name__, "__doc__": Watching.__doc__})


@contextmanager
def undisturbed(network: Any) -> Iterator[None]:
    """Let a network be measured in evaluation mode inside a ``with`` block, and training go on after it as if nothing had been.

    The mode of each module, and the random states of torch (on the CPU and the network's GPUs), numpy and Python are put back, whatever happens.
    """
    import torch

    modes = {module: module.training for module in network.modules()}
    states = random.getstate(), np.random.get_state()
    gpus = {tensor.device for tensor in network.parameters() if tensor.device.type == "cuda"}
    with torch.random.fork_rng(devices=list(gpus)), torch.no_grad():
        try:
            network.eval()
            yield
        finally:
            for module, training in modes.items():
                module.training = training
            random.setstate(states[0])
            np.random.set_state(states[1])


def _as_it_is(model: Model | None, network: Any, tokenizer: Any) -> Model:
    """Return a network as a model without a fingerprint, since its weights will change."""
    if model is None:
        return wrap_network(network, tokenizer)
    backend = replace(model.backend, network=network, device=str(network.device))
    details = {**model.details, "device": network.device.type}
    return replace(model, fingerprint=None, details=details, backend=backend)


def _evaluated(evaluate: Callable[[Model], Sequence[Performance]], model: Model) -> Sequence[Performance]:
    """Return how well a model does its task; nothing where that has no value, as a perplexity too large for a number."""
    try:
        return evaluate(model)
    except UndefinedError:
        return []


def _told(entry: Entry) -> dict[str, Any]:
    """Return an entry as the Trainer's log has it: numbers only."""
    told = {f"{_BIAS}{name}": value for name, value in entry["values"].items() if value is not None}
    told |= {f"{_TASK}{name}": value for name, value in entry["performance"].items()}
    return {**told, f"{_BIAS}{_SECONDS}": entry[_SECONDS]}


def history_of(log_history: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """Return the history that a Trainer's log holds, of this training or of one that was saved (``trainer.state.log_history``).

    >>> log = [{"loss": 2.5, "step": 9}, {"bias/lm-occupation/aggregate_bias": 0.25, "bias/seconds": 1.5, "step": 9}]
    >>> history_of(log)
    [{'step': 9, 'loss': 2.5, 'values': {'lm-occupation/aggregate_bias': 0.25}, 'performance': {}, 'seconds': 1.5}]
    """
    losses: dict[int, float] = {}
    found: dict[int, Entry] = {}
    for entry in log_history:
        step = entry["step"]
        if _LOSS in entry:
            losses[step] = entry[_LOSS]
        if f"{_BIAS}{_SECONDS}" in entry:
            values = {name.removeprefix(_BIAS): value for name, value in entry.items() if name.startswith(_BIAS)}
            seconds = values.pop(_SECONDS)
            task = {name.removeprefix(_TASK): value for name, value in entry.items() if name.startswith(_TASK)}
            found[step] = {
                "step": step,
                _LOSS: losses.get(step),
                "values": values,
                "performance": task,
                _SECONDS: seconds,
            }
    return list(found.values())


def _add_line(path: Path, entry: Entry) -> None:
    """Add a JSON line to a file, behind whatever a run that was killed left there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            if file.tell():
                file.seek(-1, 2)
                torn = file.read(1) != b"\n"
            else:
                torn = False
            file.write(b"\n" * torn + json.dumps(entry).encode() + b"\n")
    except OSError as error:
        raise SettingError(f"{path} cannot be written: {error}") from error


def read_history(path: str | Path) -> list[Entry]:
    """Return the history that a ``log`` holds: where a training went back to a checkpoint, or began anew, what it did last.

    A line that was cut off in the middle is left out.

    Raises:
        SettingError: there is no such file.
    """
    found: list[Entry] = []
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error}") from error
    for line in lines:
        try:
            entry = json.loads(line)
            step = entry["step"]
        except (ValueError, TypeError, KeyError):
            continue
        while found and found[-1]["step"] >= step:
            found.pop()
        found.append(entry)
    return found


def history_table(watched: Any, statistics: Sequence[str] = ()) -> str:
    """Return a markdown table of a history: step, loss, figures of the task, and statistics. Texts are escaped for markdown.

    Args:
        watched: a ``BiasCallback``, or a history (:func:`read_history`).
        statistics: as ``lm-occupation/aggregate_bias``; by default the main one of each suite of a callback, and all of a history.

    >>> print(history_table([{"step": 50, "loss": 2.5, "values": {"lm-occupation/aggregate_bias": 0.25}, "performance": {}}]))
    |   step |   loss |   lm-occupation/aggregate_bias |
    |--------|--------|--------------------------------|
    |     50 | 2.5000 |                         0.2500 |
    """
    from tabulate import tabulate

    history: list[Entry] = list(getattr(watched, "history", watched))
    known = dict.fromkeys(name for entry in history for name in entry["values"])
    shown = list(statistics) or list(getattr(watched, "statistics", known))
    _refuse_unknown(shown, known)
    tasks = list(dict.fromkeys(name for entry in history for name in entry["performance"]))
    rows = [
        [
            str(entry["step"]), _figure(entry[_LOSS]), *(_figure(entry["performance"].get(name)) for name in tasks),
            *(_figure(entry["values"].get(name)) for name in shown),
        ]
        for entry in history
    ]  # fmt: skip
    headers = [escape(name) for name in ("step", _LOSS, *tasks, *shown)]
    right = ("right",) * len(headers)
    return tabulate(rows, headers, tablefmt="github", disable_numparse=True, colalign=right) if rows else ""


def loss_association(watched: Any, statistic: str | None = None) -> dict[str, float | int]:
    """Return how bias goes with the loss over the steps of one training: Pearson's r and Spearman's rho (lu2018, figure 3).

    Below 0 the statistic rises as the loss falls, which is what lu2018 saw of aggregate occupation bias; -1 to 1, 0 is no association. Steps of one
    training are no independent observations (both figures move with time), so there is no interval and no p value: look at several trainings.

    Args:
        watched: a ``BiasCallback``, or a history.
        statistic: as ``lm-occupation/aggregate_bias``; by default the first.

    Returns:
        ``pearson``, ``spearman``, and ``n``, the steps that have both figures.

    Raises:
        UndefinedError: fewer than three of them, or one figure is the same at all.
        UnknownNameError: no such statistic was measured.

    >>> told = [(3.0, 0.0), (2.0, 0.2), (1.5, 0.1), (1.0, 0.4)]
    >>> history = [{"step": i, "loss": x, "values": {"s/aob": y}} for i, (x, y) in enumerate(told)]
    >>> round(loss_association(history)["spearman"], 6)
    -0.8
    """
    from scipy.stats import rankdata

    history: list[Entry] = list(getattr(watched, "history", watched))
    known = dict.fromkeys(name for entry in history for name in entry["values"])
    chosen = statistic or next(iter([*getattr(watched, "statistics", ()), *known]), "")
    _refuse_unknown([chosen], known)
    both = [(entry[_LOSS], entry["values"].get(chosen)) for entry in history]
    pairs = np.asarray([pair for pair in both if None not in pair], dtype=np.float64).reshape(-1, 2)
    ranks = rankdata(pairs, axis=0)
    return {
        "pearson": pearson(pairs[:, 0], pairs[:, 1]),
        "spearman": pearson(ranks[:, 0], ranks[:, 1]),
        "n": len(pairs),
    }


def _refuse_unknown(names: Iterable[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise UnknownNameError(f"{name!r} was not measured; there are {', '.join(known) or 'no measurements'}")


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
