"""Curves of bias along trainings: how it grows while a model learns its task, with and without mitigations (lu2018,
figure 3), and whether a mitigation lasts while the model is fine-tuned for a task (webster2020, section 6); and the
command ``genderbias resilience``.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pytest_genderbias.errors import DataFileError, NotApplicableError, SettingError
from pytest_genderbias.escaping import print_lines
from pytest_genderbias.folders import write_whole
from pytest_genderbias.gates.judgement import AFTER, BEFORE
from pytest_genderbias.measurement.plain_data import Stored
from pytest_genderbias.measurement.processes import refuse_several
from pytest_genderbias.measurement.runner import Runner
from pytest_genderbias.mitigation.harness.callback import HistoryEntry, check_every, read_history
from pytest_genderbias.mitigation.harness.run import (
    MitigationRun,
    kept_training,
    seeds_of,
    shown_training,
    suite_settings,
    train_with,
)
from pytest_genderbias.mitigation.methods.base import Method
from pytest_genderbias.mitigation.methods.registry import SomeMethod, SomeRecipe, resolve_method, resolve_recipe
from pytest_genderbias.models.fingerprint import known_by
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.spec import parse_spec
from pytest_genderbias.recipes.recipe import EMBEDDINGS, ENCODER, NOTHING, Recipe
from pytest_genderbias.recipes.trainer import frozen_parameters
from pytest_genderbias.scoring.scorer import Progress
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.suites.suite import Suite, load_suite
from pytest_genderbias.text.located_yaml import parse_value
from pytest_genderbias.text.printable import format_decimals, format_mean, markdown_table, refuse_unknown_name

if TYPE_CHECKING:
    from transformers import TrainerCallback

LOSS = "loss"
ALL = "all"
_LOG = "bias.jsonl"  #: the history of a training, in its folder
_VERSION = 1  #: of the folder of a training; a training of another version is repeated
Frozen = str | int


@dataclass(frozen=True)
class WatchedTrainings:
    """Trainings of one recipe, measured on one suite along the way with some settings, in a folder that keeps them."""

    recipe: Recipe
    suite: Suite
    folder: Path
    settings: Mapping[str, object]

    def watch(
        self, start: Model, run: Path | None, every: float | Sequence[int], at_start: bool = True
    ) -> TrainerCallback:
        """Return the callback that measures, and writes the history into the folder of a training; reject a suite that
        does not apply.
        """
        from pytest_genderbias.mitigation.harness.callback import BiasCallback

        log = None if run is None else run / _LOG
        make: Any = BiasCallback  # a subclass of transformers' class, too
        callback: TrainerCallback = make(
            self.suite, every, start, at_start=at_start, log=log, evaluate=self.recipe.evaluate, **self.settings
        )
        return callback

    def history(self, name: str, key: Mapping[str, object], train: Callable[[Path], object]) -> list[HistoryEntry]:
        """Train, unless the folder has an equal training, and return what was measured along it.

        Args:
            name: begins the name of the training's folder.
            key: what determines the training beside the recipe, the suite and the settings.
            train: trains in the folder that it is given, with a callback of :meth:`watch`.

        Raises:
            NotApplicableError: nothing was measured on the way.
        """
        refuse_several("a training that is measured on its way")
        own = {"recipe": self.recipe.settings(), "suite": self.suite.digest, "settings": self.settings}
        folder = kept_training(self.folder, name, {"version": _VERSION, **own, **key}, train)
        if not (folder / _LOG).is_file():
            raise NotApplicableError(
                f"the recipe {self.recipe.name} does not train by steps of transformers' Trainer, so there is no curve"
                " to see"
            )
        return read_history(folder / _LOG)


@dataclass(frozen=True)
class Growth(Stored):
    """Bias, performance and loss along the trainings of several sides, each repeated with several seeds.

    Steps of one training are not independent observations: what differs between sides at one step should differ for
    every seed.

    Attributes:
        suite: name of the suite.
        statistics: its statistics by name, the main one first.
        seeds: seeds of the trainings.
        histories: by side, in the order of the seeds: what was measured along each training.
        every: steps between measurements, or the share of each training between them.
        what: recipe, methods by side, and settings.
    """

    form: ClassVar[int] = 1
    called: ClassVar[str] = "growth"

    suite: str
    statistics: Mapping[str, Statistic]
    seeds: tuple[int, ...]
    histories: Mapping[str, Sequence[Sequence[HistoryEntry]]]
    every: int | float
    what: Mapping[str, object]

    @property
    def main(self) -> str:
        """The main statistic of the suite."""
        return next(iter(self.statistics))

    @property
    def tasks(self) -> list[str]:
        """The figures of the task, as ``perplexity``, the main one first."""
        entries = (entry for side in self.histories.values() for history in side for entry in history)
        return list(dict.fromkeys(name for entry in entries for name in entry["performance"]))

    @property
    def by_share(self) -> bool:
        """Whether places are percents of each training, and not steps."""
        return isinstance(self.every, float)

    def curve(self, side: str, figure: str | None = None, task: bool = False) -> dict[float, list[float | None]]:
        """Return a figure by its place along the training of one side.

        Args:
            side: name of the side.
            figure: a statistic of the suite, a figure of the task, or ``loss``; the main statistic by default.
            task: take the figure of the task where a statistic of the suite has the same name, as ``accuracy``.

        Returns:
            From the place to the value for each seed, ``None`` where it is undefined or was not measured. A place is a
            number of steps, or a percentage of the training, 0 to 100, if ``every`` is a share.

        Raises:
            UnknownNameError: there is no such side or figure.
        """
        name, known = figure or self.main, (*self.statistics, *self.tasks, LOSS)
        refuse_unknown_name(side, self.histories, f"there is no side {side!r}", "there are")
        refuse_unknown_name(name, known, f"{name!r} was not measured along the trainings", "there are")
        by_seed = [{self._place(entry, history): entry for entry in history} for history in self.histories[side]]
        places = sorted({place for entries in by_seed for place in entries})
        return {
            place: [self._value(entries[place], name, task) if place in entries else None for entries in by_seed]
            for place in places
        }

    def table(self, statistic: str | None = None) -> str:
        """Return a markdown table: a row a place, with a statistic and the main figure of the task of each side. Text
        is escaped.

        A cell has the mean over seeds and, in brackets, the standard deviation.

        Raises:
            UnknownNameError: the suite has no such statistic.
        """
        name = statistic or self.main
        columns = {
            f"{side}: {'of the task, ' if task and figure == name else ''}{figure}": self.curve(side, figure, task)
            for figure, task in ((name, False), *((of_task, True) for of_task in self.tasks[:1]))
            for side in self.histories
        }
        places = sorted({place for curve in columns.values() for place in curve})
        headers = ["% of the training" if self.by_share else "step", *columns]
        rows = [[f"{place:g}", *(format_mean(curve.get(place, [])) for curve in columns.values())] for place in places]
        return markdown_table(headers, rows, range(len(headers)))

    @classmethod
    def from_dict(cls, data: object, where: str = "") -> Growth:
        """Return what :meth:`to_dict` wrote.

        Raises:
            DataFileError: a key is missing, unknown or of another type, or the number of histories is not that of the
                seeds.
        """
        curves = super().from_dict(data, where)
        if any(len(trainings) != len(curves.seeds) for trainings in curves.histories.values()):
            raise DataFileError(
                f"growth.histories: expected a history of each side for each of {len(curves.seeds)} seeds"
            )
        return curves

    def _place(self, entry: HistoryEntry, history: Sequence[HistoryEntry]) -> float:
        """Return the place of a measurement: its step, or the share that it was due at, in percent."""
        step, last = entry["step"], history[-1]["step"]
        if not self.by_share:
            return step
        share = 1.0 if step == last else round(step / last / self.every) * self.every
        return round(100 * share, 6)

    def _value(self, entry: HistoryEntry, name: str, task: bool) -> float | None:
        if task and name in self.tasks:
            return entry["performance"].get(name)
        if name == LOSS:
            return entry["loss"]
        statistic = f"{self.suite}/{name}"
        return entry["values"].get(statistic) if name in self.statistics else entry["performance"].get(name)


def growth(
    recipe: SomeRecipe,
    methods: Mapping[str, SomeMethod | None],
    suite: str | Path | Suite,
    *,
    model: str | Model | None = None,
    every: float = 0.1,
    seeds: int | Sequence[int] = 3,
    folder: str | Path | None = None,
    progress: bool | Progress = False,
    **settings: object,
) -> Growth:
    """Train a model by a recipe with and without mitigations, and measure bias and performance along each training
    (lu2018, figure 3).

    Each side is trained once a seed, from the same start; measuring has no effect on the training. A training that is
    in the folder is not repeated, and an interrupted one goes on with the history that it has.

    Args:
        recipe: the training.
        methods: by the name of its side, the method that takes part in the training; ``None`` for the recipe alone.
        suite: what is measured; it must apply to the models that the recipe makes.
        model: the model to start from, or its spec; ``None`` for a recipe that makes its own network.
        every: steps between measurements; or, below 1, the share of each training between them, so that sides whose
            data differ in size are compared at the same epoch. Start and end are also measured.
        seeds: number of trainings a side, or their seeds.
        folder: keeps every training, so that an interrupted one resumes; a temporary folder by default.
        progress: show a bar for each training: the Trainer's own, or one of yours.
        settings: of :func:`~pytest_genderbias.measurement.runner.measure`, as ``limit``, ``data`` and options.

    Raises:
        SettingError: there is no side, a method changes only the finished model, a seed is repeated, or ``every`` is
            out of range.
        NotApplicableError: the suite does not apply to what the recipe makes, or a recipe of your own does not use the
            Trainer.
        ModelError, SettingError: as :meth:`~pytest_genderbias.recipes.recipe.Recipe.train`.

    Example::

        grammatical = {"name": "cda", "intervention": "grammatical"}
        sides = {"original": None, "CDA, naive": "cda", "CDA, grammatical": grammatical}
        print(growth({"name": "lstm", "data": "./data"}, sides, "lm-occupation", folder="./runs").table())
    """
    task = resolve_recipe(recipe, None)
    assert task is not None
    sides = {name: Method() if method is None else resolve_method(method) for name, method in methods.items()}
    if not sides:
        raise SettingError('growth needs a side or more, as {"original": None, "CDA": "cda"}')
    for side, method in sides.items():
        if method.changes("after"):
            raise SettingError(
                f"the side {side!r} changes the finished model ({method.settings()['method']}), which shows at no step"
                " of the training; name methods that act before or during it"
            )
    check_every(every)
    numbers = seeds_of(seeds)
    loaded = suite if isinstance(suite, Suite) else load_suite(suite)
    base = None if model is None else Runner().open(model)
    with ExitStack() as stack:
        home = Path(folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="genderbias-")))
        options = {**suite_settings(task, loaded, home, settings), **settings}
        watched, rows = WatchedTrainings(task, loaded, home, options), cache(task.rows)

        def history(method: Method, seed: int) -> list[HistoryEntry]:
            def train(run: Path) -> None:
                def watch(start: Model) -> TrainerCallback:
                    return watched.watch(start, run, every)

                train_with(task, method, base, rows(), seed, run, progress, watch)

            known = {"model": base and known_by(base), "method": method.settings(), "every": every, "seed": seed}
            return watched.history(f"growth-{task.name}-{method.settings()['method']}-{seed}", known, train)

        histories = {side: [history(method, seed) for seed in numbers] for side, method in sides.items()}
    what = {
        "recipe": {"recipe": task.name, **task.settings()},
        "methods": {side: method.settings() for side, method in sides.items()},
        "model": None if base is None else base.name,
        "settings": {name: str(value) for name, value in settings.items()},
    }
    plain = json.loads(json.dumps(what, default=str))
    return Growth(loaded.name, loaded.statistics, tuple(numbers), histories, every, plain)


@dataclass(frozen=True)
class Resilience(Stored):
    """Bias and performance of several models during fine-tuning, and by the part that was frozen.

    Each entry is of one training with one seed: a difference between two entries is only a hint until other seeds
    confirm it.

    Attributes:
        suite: name of the suite.
        statistics: its statistics by name, the main one first.
        by_step: entries by side and number of steps; 0 is the model whose encoder stayed frozen, the last one the
            finished model.
        by_frozen: entries of the finished models, by side and frozen part.
        what: recipe and settings.
    """

    suite: str
    statistics: Mapping[str, Statistic]
    by_step: Mapping[str, Mapping[int, HistoryEntry]]
    by_frozen: Mapping[str, Mapping[Frozen, HistoryEntry]]
    what: Mapping[str, object]

    @property
    def main(self) -> str:
        """The key of the main statistic."""
        return next(iter(self.statistics))

    def along_steps(self, side: str, statistic: str | None = None) -> dict[int, float | None]:
        """Return the values of a statistic by steps, of one side."""
        name = self._known(statistic)
        return {step: self._value(entry, name) for step, entry in self.by_step[side].items()}

    def along_frozen(self, side: str, statistic: str | None = None) -> dict[Frozen, float | None]:
        """Return the values of a statistic by the frozen part, of one side."""
        name = self._known(statistic)
        return {part: self._value(entry, name) for part, entry in self.by_frozen[side].items()}

    def table(self, statistic: str | None = None) -> str:
        """Return a markdown table with steps, frozen part, the statistic of each side, and its performance on the task.
        Text is escaped.

        Sides called before and after also get the reduction: the share of the distance from neutral that is removed.
        """
        sides = list(self.by_step)
        name = self._known(statistic)
        compared = {BEFORE, AFTER} <= set(sides)
        tasks = list(
            dict.fromkeys(t for curve in self.by_frozen.values() for e in curve.values() for t in e["performance"])
        )
        headers = ["steps", "frozen", *(f"{side} {name}" for side in sides), *(["reduction"] if compared else [])]
        headers += [
            f"{side} {task} of the task" for task in tasks for side in sides
        ]  # a statistic may be called the same
        rows = []
        for steps, frozen, entries in self._points():
            values = [self._value(entry, name) for entry in entries]
            row = [str(steps), frozen, *map(format_decimals, values)]
            if compared:
                row.append(self._reduction(name, *(values[sides.index(side)] for side in (BEFORE, AFTER))))
            row += [format_decimals(entry["performance"].get(task)) for task in tasks for entry in entries]
            rows.append(row)
        return markdown_table(headers, rows, [i for i in range(len(headers)) if i != 1])

    def _points(self) -> list[tuple[int, str, list[HistoryEntry]]]:
        """Return steps, frozen part, and the entry of each side; each training once."""
        curves, sides = self.by_step, list(self.by_step)
        points = [
            (steps, ENCODER if steps == 0 else NOTHING, [curves[side][steps] for side in sides])
            for steps in curves[sides[0]]
        ]
        listed = {frozen for _, frozen, _ in points}
        for frozen in self.by_frozen[sides[0]]:
            if frozen not in listed:
                entries = [self.by_frozen[side][frozen] for side in sides]
                points.append((entries[0]["step"], _describe(frozen), entries))
        return points

    def _reduction(self, name: str, before: float | None, after: float | None) -> str:
        if before is None or after is None:
            return "-"
        distances = [self.statistics[name].distance(value) for value in (before, after)]
        return f"{100 * (1 - distances[1] / distances[0]):.0f} %" if distances[0] > 0 else "-"

    def _value(self, entry: HistoryEntry, name: str) -> float | None:
        return entry["values"].get(f"{self.suite}/{name}")

    def _known(self, statistic: str | None) -> str:
        name = statistic or self.main
        refuse_unknown_name(name, self.statistics, f"{self.suite} has no statistic {name!r}", "it has")
        return name


def resilience(
    models: MitigationRun | Mapping[str, str | Model],
    suite: str | Path | Suite,
    recipe: SomeRecipe | None = None,
    *,
    steps: Sequence[int] = (0, 10, 100, 1000),
    frozen: str | Sequence[Frozen] = (NOTHING, EMBEDDINGS, ENCODER),
    seed: int = 0,
    max_steps: int | None = None,
    folder: str | Path | None = None,
    progress: bool | Progress = False,
    **settings: object,
) -> Resilience:
    """Fine-tune models for a task without mitigation, and measure them at several steps and with parts of them frozen.

    One training of each model gives its curve over steps; each way of freezing is one more training. All have the same
    data, order, new head and number of steps. Step 0 is the encoder as it was given: it stays frozen and only the head
    is trained (**choice**: over the same steps as the others), as a feature extractor in the paper. Numbers of frozen
    layers are refused for models that share a layer (ALBERT). A recipe must not freeze anything itself.

    Args:
        models: a run, whose models before and after are tuned; or any number of models, or specs for them, by the names
            of their sides, as ``{"baseline": "bert", "dropout": "runs/dropout/model", "cda": "runs/cda/model"}``.
        suite: the suite to measure; it must apply to the models that the recipe makes.
        recipe: the task: an object, a name, or a mapping of ``name`` and settings; by default that of the run.
        steps: steps at which the training without frozen parts is measured, beside its end. Steps beyond the end are
            left out.
        frozen: parts to freeze: ``nothing``, ``embeddings``, ``encoder``, or a number of first layers with the
            embeddings; ``all`` for nothing, the embeddings, and each number up to the last layer but one, as in the
            paper's figure 2.
        seed: seed of the trainings, and, for a run with several seeds, which of its models to use.
        max_steps: steps of each training; by default as the recipe sets it.
        folder: keeps every training, so that an interrupted one resumes; a temporary folder by default.
        progress: show a bar for each training: the Trainer's own, or one of yours.
        settings: of :func:`~pytest_genderbias.measurement.runner.measure`, as ``limit``, ``data`` and options.

    Raises:
        SettingError: there is no model or recipe, a step is below 0, more layers are frozen than exist or the layers
            share their parameters, the recipe freezes a part itself, or the run has no models of this seed.
        NotApplicableError: the suite does not apply to what the recipe makes, or the recipe not to a model, before
            anything is trained; or a recipe of your own does not use the Trainer. The encoder of ``edge-probe`` is
            always frozen.
        ModelError, SettingError: as :meth:`~pytest_genderbias.recipes.recipe.Recipe.train`.
    """
    sides = _sides(models, seed)
    data = settings.get("data")
    task = _task(models, resolve_recipe(recipe, None if data is None else Path(str(data))))
    if any(type(step) is not int or step < 0 for step in steps):
        raise SettingError(f"steps should be whole numbers from 0, got {tuple(steps)!r}")
    suite = suite if isinstance(suite, Suite) else load_suite(suite)
    with ExitStack() as stack:
        home = Path(folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="genderbias-")))
        measured_on = {**suite_settings(task, suite, home, settings), **settings}
        tuned = WatchedTrainings(task, suite, home, measured_on)
        how = {"seed": seed, "max_steps": max_steps}
        starts = {side: task.start(model, seed) for side, model in sides.items()}
        parts = _frozen_parts(frozen, starts)
        for start in starts.values():
            tuned.watch(start, None, ())
        rows, along = task.rows(), sorted(set(steps) - {0})

        def history(side: str, part: Frozen) -> list[HistoryEntry]:
            measured = along if part == NOTHING else []

            def train(run: Path) -> None:
                label = f"{task.name}, {side}, {_describe(part)} frozen"
                watch = tuned.watch(starts[side], run, measured, at_start=False)
                with shown_training(progress, label, watch, freeze=part, max_steps=max_steps) as training:
                    task.train(starts[side], rows, seed, run, training)

            known = {"model": known_by(sides[side]), "frozen": part, "steps": measured, **how}
            return tuned.history(f"resilience-{task.name}-{part}-{seed}", known, train)

        trainings = dict.fromkeys([*([NOTHING] if along else []), *([ENCODER] if 0 in steps else []), *parts])
        histories = {side: {part: history(side, part) for part in trainings} for side in sides}
    by_step = {
        side: {
            **({0: of_side[ENCODER][-1]} if 0 in steps else {}),
            **({entry["step"]: entry for entry in of_side[NOTHING]} if along else {}),
        }
        for side, of_side in histories.items()
    }
    by_frozen = {side: {part: of_side[part][-1] for part in parts} for side, of_side in histories.items()}
    options = {name: str(value) for name, value in settings.items()}
    what = {"recipe": {"recipe": task.name, **task.settings()}, **how, "settings": options}
    return Resilience(suite.name, suite.statistics, by_step, by_frozen, what)


def _task(models: MitigationRun | Mapping[str, str | Model], recipe: Recipe | None) -> Recipe:
    """Return the recipe to tune models with: the given one, or that of the run.

    Raises:
        SettingError: there is no model or recipe, or the recipe freezes a part itself.
    """
    task = recipe if recipe is not None or not isinstance(models, MitigationRun) else models.recipe
    if not isinstance(task, Recipe) or not models:
        raise SettingError("resilience needs models and a recipe to tune them with; give recipe=...")
    if task.settings().get("freeze", NOTHING) != NOTHING:
        raise SettingError(
            "resilience freezes parts itself (frozen=...); give it a recipe whose own setting freeze is nothing"
        )
    return task


def _sides(models: MitigationRun | Mapping[str, str | Model], seed: int) -> dict[str, Model]:
    """Return the models to tune, by side; a run with one seed serves for any."""
    if not isinstance(models, MitigationRun):
        runner = Runner()
        return {side: runner.open(model) for side, model in models.items()}
    seeds = list(models.seeds)
    if len(seeds) > 1 and seed not in seeds:
        raise SettingError(f"the run has models of the seeds {', '.join(map(str, seeds))}, not of seed {seed}")
    place = seeds.index(seed) if len(seeds) > 1 else 0
    return {side: models.open(models.models(side)[place][0]) for side in (BEFORE, AFTER)}


def _frozen_parts(frozen: str | Sequence[Frozen], starts: Mapping[str, Model]) -> list[Frozen]:
    """Return the parts to freeze, one training each; reject unknown parts, too many layers, and layers that share their
    parameters.
    """
    parts: list[Frozen] = (
        [NOTHING, EMBEDDINGS, *range(1, min(map(_layers, starts.values())))]
        if frozen == ALL
        else [frozen]
        if isinstance(frozen, str)
        else list(dict.fromkeys(frozen))
    )
    for part in parts:
        for start in starts.values():
            if start.network_class:
                frozen_parameters(start.backend.network, part)
    return parts


def _layers(model: Model) -> int:
    if not model.network_class:
        return 0
    return int(getattr(model.backend.network.config.get_text_config(), "num_hidden_layers", 0))


def _describe(frozen: Frozen) -> str:
    if isinstance(frozen, str):
        return frozen
    return f"embeddings and {frozen} layer{'' if frozen == 1 else 's'}"


def carry_out(values: Mapping[str, Any]) -> int:
    """Tune the models, print the table, and write the JSON file where one is named."""
    models = {}
    for text in values["specs"]:
        name = parse_spec(text).name
        if name in models:
            raise SettingError(f"two models are called {name}; name them: before=./a after=./b")
        models[name] = text
    suite, statistic = load_suite(values["suite"]), values["statistic"]
    if statistic is not None:
        known = suite.family.statistics
        refuse_unknown_name(statistic, known, f"{suite.name} has no statistic {statistic!r}", "it has")
    data = values["data"] and Path(values["data"])
    recipe = resolve_recipe(parse_value(values["recipe"], "--recipe"), data or None)
    settings = {key: values[key] for key in ("data", "limit") if values[key] is not None}
    result = resilience(
        models,
        suite,
        recipe,
        steps=values["steps"],
        frozen=read_frozen(values["frozen"]),
        seed=values["seed"],
        max_steps=values["max_steps"],
        folder=values["runs"],
        **settings,
    )
    print_lines(result.table(statistic))
    if values["json"]:
        write_whole(Path(values["json"]), (json.dumps(result.to_dict(), indent=1) + "\n").encode())
    return 0


def read_frozen(text: str) -> str | list[Frozen]:
    """Return the parts to freeze from a list that was typed.

    >>> read_frozen("nothing,2,encoder"), read_frozen("all")
    (['nothing', 2, 'encoder'], 'all')
    """
    if text == ALL:
        return ALL
    return [int(part) if part.isdecimal() else part for part in map(str.strip, text.split(","))]
