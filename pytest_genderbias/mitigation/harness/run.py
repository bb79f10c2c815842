"""``mitigate``: the models before a mitigation, after it, and of its control, made under the same conditions."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_genderbias.errors import MitigationNotApplicableError, NotApplicableError, SettingError, UndefinedError
from pytest_genderbias.folders import sweep_unfinished, write_whole
from pytest_genderbias.gates.choice import TriedGrid
from pytest_genderbias.gates.judgement import AFTER, BEFORE, CONTROL
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.processes import handed_out, refuse_several, work_for_the_first
from pytest_genderbias.measurement.runner import Runner
from pytest_genderbias.mitigation.methods.base import Columns, Method
from pytest_genderbias.mitigation.methods.registry import SomeMethod, SomeRecipe, resolve_method, resolve_recipe
from pytest_genderbias.models.fingerprint import known_by
from pytest_genderbias.models.model import Model
from pytest_genderbias.recipes.heads import on_device
from pytest_genderbias.recipes.recipe import (
    CHECKPOINTS,
    UNFINISHED_MODEL,
    Evaluator,
    Performance,
    Recipe,
    Row,
    Training,
)
from pytest_genderbias.recipes.trainer import show_steps
from pytest_genderbias.scoring.scorer import Progress
from pytest_genderbias.suites.suite import Suite

if TYPE_CHECKING:
    from transformers import TrainerCallback

SEEDS = 3  #: restarts where a method trains
CONTROLS = 8  #: random directions where nothing is trained (dev2019, tables 8, 13 and 15)
TRAINED_CONTROLS = 1  #: controls of a seed where each costs a training
_VERSION = 1  #: of the folder of a training; a training of another version is repeated

ModelOrSpec = str | Model  #: a loaded model, or the spec of one that is loaded when it is needed
Side = ModelOrSpec | Sequence[ModelOrSpec]  #: one model for all seeds, or a model a seed
Measured = dict[str, list[list[Measurement]]]  #: by side, seed and model


@contextmanager
def mitigation_errors() -> Iterator[None]:
    """Raise a NotApplicableError of the ``with`` block as the one of mitigations, which says the same and has it as its
    cause.
    """
    try:
        yield
    except MitigationNotApplicableError:
        raise
    except NotApplicableError as error:
        raise MitigationNotApplicableError(*error.args) from error


@dataclass(frozen=True)
class MitigationRun:
    """Models before a mitigation, after it, and of its control, one per seed.

    :func:`mitigate` returns one. You can also construct it from models that you trained yourself.

    Attributes:
        before: models before, one for all seeds or one per seed.
        after: models after, in the order of the same seeds.
        control: controls of each seed, shape (seeds, controls): with random directions in place of those of the method,
            or trained without the method. Empty where ``before`` is the control: the same recipe without the method.
        seeds: seeds of the trainings, all different; ``(0,)`` where nothing is trained.
        recipe: evaluates the models (accuracy, perplexity), and trains a new head for ``superficial``. One with
            ``suite_settings`` sets the texts on which suites measure its models.
        trained: whether the sides differ by a training, so that other seeds would give other values.
        what: method, recipe and control, with their settings, for tables and JSON.
        seconds: wall time of making the models of ``after``.
        folder: where the trainings are kept.
        runner: loads and measures the models; one with default settings if left out.
        name: name of the models in tables; by default each model has its own.
        progress: shows further trainings, of new heads: ``True``, or a progress display of yours.
        tried: the points of the grid of which this run is the best, as
            :func:`~pytest_genderbias.mitigation.harness.grid.search` returns it.
    """

    before: Side
    after: Side
    control: ModelOrSpec | Sequence[Side] | None = ()
    seeds: Sequence[int] = ()
    recipe: Evaluator | None = None
    trained: bool = True
    what: Mapping[str, object] = field(default_factory=dict)
    seconds: float = 0.0
    folder: Path | None = field(default=None, repr=False)
    runner: Runner = field(default_factory=Runner, repr=False, compare=False)
    name: str = field(default="", repr=False)
    progress: bool | Progress = field(default=False, repr=False, compare=False)
    tried: TriedGrid | None = field(default=None, repr=False)
    _temporary: object = field(default=None, repr=False, compare=False)  # a folder that lasts as long as the run
    # Not copied by dataclasses.replace: a run with another runner, recipe or name has other figures.
    _measurements: dict[object, Measurement] = field(default_factory=dict, init=False, repr=False, compare=False)
    _performances: dict[object, dict[str, Performance]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Give each side one model a seed, and reject sides that do not match."""
        sides = {BEFORE: _listed(self.before), AFTER: _listed(self.after)}
        count = max(1, *map(len, sides.values()))
        for side, models in sides.items():
            if len(models) not in (1, count):
                raise SettingError(
                    f"a run has {count} models on one side and {len(models)} {side}; give one of each a seed"
                )
            object.__setattr__(self, side, models * (count // len(models)))
        groups = [self.control] if isinstance(self.control, (str, Model)) else list(self.control or ())
        control = [_listed(models) for models in groups]
        if len(set(map(len, control))) > 1 or not all(control):
            raise SettingError(
                f"the seeds of a run have {', '.join(str(len(models)) for models in control)} controls; give as many"
                " for each, or none at all"
            )
        if control and len(control) not in (1, count):
            raise SettingError(
                f"a run of {count} seeds has controls for {len(control)}; give a list of them for each seed, or none"
            )
        object.__setattr__(self, CONTROL, tuple(control * (count // len(control)) if control else ()))
        object.__setattr__(self, "seeds", tuple(self.seeds) or tuple(range(count)))
        if len(self.seeds) != count:
            raise SettingError(f"{len(self.seeds)} seeds were named for {count} models a side")
        _reject_repeated(self.seeds)

    def models(self, side: str) -> tuple[tuple[ModelOrSpec, ...], ...]:
        """Return the models of a side, ``before``, ``after`` or ``control``, by seed: shape (seeds, 1), or (seeds,
        controls).
        """
        if side == CONTROL:
            return tuple(tuple(_listed(models)) for models in self.control or ())  # type: ignore[union-attr]  # a sequence since __post_init__
        return tuple((model,) for model in _listed(self.before if side == BEFORE else self.after))

    def open(self, model: ModelOrSpec) -> Model:
        """Return a model of the run, loaded if it is a spec, under the run's name."""
        loaded = _opened(self.runner, model)
        return replace(loaded, name=self.name) if self.name else loaded

    def measure_sides(self, sides: Sequence[str], suite: str | Suite, **settings: object) -> Measured:
        """Measure a suite on every model of several sides. All else as :meth:`measure`."""
        return {side: self.measure(side, suite, **settings) for side in sides}

    @mitigation_errors()
    def measure(self, side: str, suite: str | Suite, **settings: object) -> list[list[Measurement]]:
        """Measure a suite on every model of a side, each once. Arguments as
        :func:`~pytest_genderbias.measurement.runner.measure`.

        Texts that the recipe holds out for a suite (``bios``) are the default of its options.

        Raises:
            MitigationNotApplicableError: the suite needs another kind of model, or data that are missing.
        """
        loaded = suite if isinstance(suite, Suite) else self.runner.suites(suite)
        options = {**suite_settings(self.recipe, loaded, self.folder, settings), **settings}
        return [[self._measured(model, loaded, options) for model in models] for models in self.models(side)]

    def performance(self, side: str) -> list[list[dict[str, Performance]]]:
        """Return how well every model of a side performs the recipe's task, by name; each model is evaluated once.

        Raises:
            SettingError: the run has no recipe.
        """
        if self.recipe is None:
            raise SettingError(
                "this run has no recipe, and nothing else says how well a model does its task; give recipe=..."
            )
        return [[self._evaluated(self.recipe, model) for model in models] for models in self.models(side)]

    def take_figures_of(self, other: MitigationRun) -> None:
        """Take over what another run measured and evaluated, as of the model before, so that nothing is computed twice.

        Figures are those of the same models, suites and settings. They are left where another runner measured them, or
        under another name; and performances where another recipe evaluated them.
        """
        if self.runner is not other.runner or self.name != other.name:
            return
        self._measurements.update(other._measurements)
        if isinstance(self.recipe, Recipe) and isinstance(other.recipe, Recipe):
            same = (self.recipe.name, self.recipe.settings()) == (other.recipe.name, other.recipe.settings())
            self._performances.update(other._performances if same else {})

    def _measured(self, model: ModelOrSpec, suite: Suite, settings: Mapping[str, object]) -> Measurement:
        key = (_key(model), suite.name, suite.digest, repr(sorted(settings.items(), key=str)))
        if key not in self._measurements:
            self._measurements[key] = self.runner.measure_once(suite, self.open(model), settings)
        return self._measurements[key]

    def _evaluated(self, recipe: Evaluator, model: ModelOrSpec) -> dict[str, Performance]:
        key = _key(model)
        if key not in self._performances:
            performances = recipe.evaluate(self.open(model))
            self._performances[key] = {performance.name: performance for performance in performances}
        return self._performances[key]


@mitigation_errors()
def mitigate(
    model: ModelOrSpec | None,
    method: SomeMethod,
    recipe: SomeRecipe | None = None,
    *,
    seeds: int | Sequence[int] | None = None,
    controls: int | None = None,
    folder: str | Path | None = None,
    progress: bool | Progress = False,
    runner: Runner | None = None,
    name: str = "",
) -> MitigationRun:
    """Apply a mitigation and its control, and return the models before, after, and of the control.

    Without a recipe, or where the method only changes a finished model, nothing more is trained than the recipe needs
    to make the task's model, and that training is shared. With a recipe that continues a training (continued
    pre-training) ``before`` is the given model; with one that makes the task (fine-tuning, a network from nothing) it
    is the model trained without the method. The control is random directions for a projection, the same text twice for
    two-sided augmentation, and else the same recipe, data order and steps without the method.

    Args:
        model: the model to start from, or its spec; ``None`` for a recipe that makes its own network.
        method: a mitigation, of :mod:`~pytest_genderbias.mitigation.methods`: an object, a name, a mapping of ``name``
            and settings, or a list of these.
        recipe: of :mod:`~pytest_genderbias.recipes`: an object, a name, or a mapping of ``name`` and settings. Where
            neither it nor the method trains, it only evaluates.
        seeds: number of restarts, or their seeds; three where a training takes part in the comparison, else one.
        controls: controls of each seed; eight where they cost no training, else one. With 0 there is none: what
            training alone changes is then not told from what the method changes.
        folder: keeps every training, so that an interrupted one resumes, and equal ones are shared; a temporary folder
            by default.
        progress: show a bar for each training: the Trainer's own, or one of yours.
        runner: loads and measures the models; one with default settings if left out.
        name: name of the models in tables; by default each model has its own.

    Raises:
        SettingError: there is no model to start from, neither method nor recipe does anything, a setting is wrong, a
            number of seeds or controls is below 1, or the method cannot be applied, for example a direction of words
            that the model does not know.
        UnknownNameError: no method or recipe has this name.
        MitigationNotApplicableError: the method or the recipe does not apply to the model, or its data are missing.
        ModelError: as the recipe and the method.
    """
    runner = runner or Runner()
    method, recipe = resolve_method(method), resolve_recipe(recipe, runner.data)
    makes_task = recipe is not None and recipe.makes_task
    if model is None and not makes_task:
        lacking = "to mitigate" if recipe is None else f"for the recipe {recipe.name} to start from"
        raise SettingError(f"there is no model {lacking}; give one, or a recipe that makes its own network")
    base = None if model is None else _opened(runner, model)
    trains = makes_task or (recipe is not None and method.trains)
    if not trains and method.trains:
        raise SettingError(f"{method.name} takes part in a training; give mitigate() a recipe")
    restarts = seeds_of((SEEDS if trains else 1) if seeds is None else seeds)
    if controls is not None and controls < 0:
        raise SettingError(f"controls is a whole number of at least 0, got {controls!r}")
    count = controls if controls is not None else TRAINED_CONTROLS if method.trains else CONTROLS
    home, temporary = folder_of_runs(folder)
    rows = cache(recipe.rows) if recipe is not None else None  # read once

    def make(applied: Method, seed: int) -> ModelOrSpec:
        """Return the model of the recipe and a method, or what the method makes of the given model."""
        if recipe is None or rows is None or not trains:
            assert base is not None  # without a model there is a recipe that makes one, and trains
            return applied.after(base, seed)
        trained = _trained(recipe, applied, base, rows, seed, home, progress)
        return applied.after(_opened(runner, trained), seed) if applied.changes("after") else trained

    before, after, control, seconds = list[ModelOrSpec](), list[ModelOrSpec](), list[list[ModelOrSpec]](), 0.0
    try:
        with on_device(runner.models.settings.device):
            for seed in restarts:
                before.append(make(Method(), seed) if base is None or makes_task else base)
                start = time.perf_counter()
                after.append(make(method, seed))
                seconds += time.perf_counter() - start
                controls_of_seed = _controls_of(method, seed, count, plain=trains and not makes_task)
                control.append([make(other, seed) for other in controls_of_seed])
    except UndefinedError as reason:
        done = "done" if base is None else f"done on {base.name}"
        raise SettingError(f"{method.settings()['method']} cannot be {done}: {reason}") from reason
    what = _described(method, recipe, trains, count if control[0] else 0)
    return MitigationRun(
        before,
        after,
        [models for models in control if models],
        restarts,
        recipe,
        trains,
        what,
        seconds,
        home,
        runner,
        name,
        progress,
        _temporary=temporary,
    )


def folder_of_runs(folder: str | Path | None) -> tuple[Path, tempfile.TemporaryDirectory[str] | None]:
    """Return the folder of trainings: the given one, or a temporary one, which lasts as long as its second value."""
    if folder is None:
        temporary = tempfile.TemporaryDirectory(prefix="genderbias-")
        return Path(temporary.name), temporary
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder), None


def _described(method: Method, recipe: Recipe | None, trains: bool, controls: int) -> dict[str, object]:
    """Return method, recipe and control, with their settings, for tables and JSON."""
    example, otherwise = method.control(0), "the same recipe without the method" if trains else "none"
    return {
        "method": method.settings(),
        "recipe": None if recipe is None else {"recipe": recipe.name, **recipe.settings()},
        "control": otherwise if example is None else example.control_in_words or example.name,
        "controls": controls,
    }


def _controls_of(method: Method, seed: int, count: int, plain: bool) -> list[Method]:
    """Return the controls of a seed. ``plain``: the recipe without the method is the control of a method that has none
    of its own.
    """
    if method.control(0) is None:
        return [Method()] if count and plain else []
    return [method.control(repeat + seed * count) or Method() for repeat in range(count)]


def _trained(
    recipe: Recipe,
    method: Method,
    base: Model | None,
    rows: Callable[[], Sequence[Row]],
    seed: int,
    home: Path,
    progress: bool | Progress,
) -> str:
    """Train, unless an equal training is in the folder, and return the folder of the model."""
    used = method if method.trains else Method()
    settings = used.settings()
    key = {
        "version": _VERSION,
        "model": base and known_by(base),
        "recipe": recipe.settings(),
        "method": settings,
        "seed": seed,
    }

    def train(folder: Path) -> Path:
        return train_with(recipe, used, base, rows(), seed, folder, progress)

    name = f"{recipe.name}-{settings['method']}-{seed}"
    return str(kept_training(home, name, key, train, indent=None) / "model")


def kept_training(
    home: Path, name: str, key: Mapping[str, object], train: Callable[[Path], object], indent: int | None = 1
) -> Path:
    """Return the folder of a training; train in it unless it has the model already.

    Args:
        home: folder of the trainings.
        name: begins the name of the folder.
        key: everything that determines the model. ``run.json`` in the folder holds it, and its digest ends the name.
        train: trains in the folder that it is given.
        indent: of the text whose digest the name has; plain trainings have none.
    """
    text, digested = (json.dumps(key, indent=wide, sort_keys=True, default=str) for wide in (1, indent))
    digest = hashlib.sha256(digested.encode()).hexdigest()[:12]
    folder = home / f"{name}-{digest}".replace(" & ", "+")
    with held_folder(folder):
        if not (folder / "model").is_dir():
            write_whole(folder / "run.json", text.encode())
            train(folder)
    return folder


@contextmanager
def shown_training(
    progress: bool | Progress, label: str, *callbacks: TrainerCallback, **options: Any
) -> Iterator[Training]:
    """Yield the options of a training with these callbacks and others, which shows its steps by ``progress``."""
    with ExitStack() as bars:
        bar = [show_steps(progress, label, bars)] if callable(progress) else []
        yield Training([*bar, *callbacks], progress=progress is True, **options)


def train_with(
    recipe: Recipe,
    method: Method,
    base: Model | None,
    rows: Sequence[Row],
    seed: int,
    folder: Path,
    progress: bool | Progress = False,
    watch: Callable[[Model], TrainerCallback] | None = None,
    label: str | None = None,
    **options: Any,
) -> Path:
    """Train a model by a recipe and the steps of a method before and during training, and return the folder of the
    model.

    Other processes that joined (:func:`share_trainings`) take part.

    Args:
        recipe: trains.
        method: changes the rows, the model before training, and the training.
        base: the model to start from, if the recipe starts from one.
        rows: the unchanged training data.
        seed: seed of the training.
        folder: folder of the training, which keeps its checkpoints.
        progress: show a bar: the Trainer's own, or one of yours.
        watch: makes a callback from the model that the training starts from, unchanged by the method. It is called
            after the others.
        label: of the bar, instead of the names of recipe and method.
        options: of the :class:`~pytest_genderbias.recipes.recipe.Training`.

    Raises:
        NotApplicableError, ModelError, SettingError: as :meth:`~pytest_genderbias.recipes.recipe.Recipe.train`, or as
            the method.
        SystemExit: another process is lost.
    """
    if not getattr(recipe, "divisible", False):
        refuse_several(f"a training by the recipe {recipe.name}")
    columns = Columns(recipe.columns, recipe.label, recipe.group, getattr(recipe, "mentions", None))
    start = recipe.start(base, seed)
    hooks = method.hooks(start)  # of the unchanged model: a direction cannot be learned once it is projected out
    changed = method.before(start, seed)
    changed_rows = method.rows(rows, columns, seed)
    label = label or f"{recipe.name} with {method.settings()['method']}, seed {seed}"
    watching = [] if watch is None else [watch(start)]
    shown = shown_training(progress, label, *hooks.callbacks, *watching, around=hooks.around, **options)
    with shown as training, handed_out(recipe, method, base, seed, folder, options):
        return recipe.train(changed, changed_rows, seed, folder, training)


def share_trainings() -> None:
    """Let the processes that ``torchrun`` or ``accelerate launch`` started for a script share its trainings.

    The first process goes on with the script. Each other takes part in the trainings of its mitigations, and ends with
    it. Alone in its run, a process goes on, too.
    """
    work_for_the_first(_take_part)


def _take_part(
    recipe: Recipe, method: Method, base: Model | None, seed: int, folder: Path, options: Mapping[str, Any]
) -> None:
    train_with(recipe, method, base, recipe.rows(), seed, folder, **options)


@contextmanager
def held_folder(folder: Path) -> Iterator[None]:
    """Lock the folder of a training, and remove what a killed one left: another process waits, and then finds the
    model.

    A killed process leaves no lock. Its checkpoints stay, from which the training resumes, unless the model is
    complete.
    """
    from filelock import FileLock

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock")
        lock.acquire()
    except (OSError, NotImplementedError) as error:
        raise SettingError(f"{folder} cannot be written and locked: {error}; name another folder for runs") from error
    try:
        sweep_unfinished(folder)
        for draft in folder.glob(f"{UNFINISHED_MODEL}*"):
            shutil.rmtree(draft, ignore_errors=True)
        if (folder / "model").is_dir():
            shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
        yield
    finally:
        lock.release()


def _opened(runner: Runner, model: ModelOrSpec) -> Model:
    """Return a model, loaded if it is a spec."""
    return model if isinstance(model, Model) else runner.open(model)


def _key(model: ModelOrSpec) -> object:
    return model if isinstance(model, str) else (model.name, model.fingerprint or id(model))


def _listed(side: Side) -> list[ModelOrSpec]:
    return [side] if isinstance(side, (str, Model)) else list(side)


def seeds_of(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """Return the seeds that a number of them, or a list, stands for.

    Raises:
        SettingError: there is none, or one is repeated.

    >>> seeds_of(3), seeds_of([0, 5, 11])
    ((0, 1, 2), (0, 5, 11))
    """
    numbers = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not numbers:
        raise SettingError(f"seeds is their number, 1 or more, or a list of them, got {seeds!r}")
    _reject_repeated(numbers)
    return numbers


def _reject_repeated(seeds: Sequence[int]) -> None:
    if len(set(seeds)) < len(seeds):  # the same training twice looks like a training that never varies
        raise SettingError(f"the seeds of a run should be different, got {', '.join(map(str, seeds))}")


def suite_settings(
    recipe: Evaluator | None, suite: Suite, folder: str | Path | None, settings: Mapping[str, object]
) -> Mapping[str, object]:
    """Return the options with which a suite measures models of a recipe; empty if the caller sets one of them."""
    options_of = getattr(recipe, "suite_settings", None)
    if folder is None or options_of is None:
        return {}
    options: Mapping[str, object] = options_of(suite, folder)
    return {} if set(options) & set(settings) else options
