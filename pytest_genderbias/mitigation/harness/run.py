"""``mitigate``: a model before a mitigation, after it, and its control, made under the same conditions."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from pytest_genderbias.errors import NotApplicableError, SettingError
from pytest_genderbias.folders import write_whole
from pytest_genderbias.measurement.measure import measure
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.mitigation.methods.base import Columns, Method
from pytest_genderbias.models.fingerprint import known_by
from pytest_genderbias.models.loading import load_model
from pytest_genderbias.models.model import Model
from pytest_genderbias.recipes.progress import show_steps
from pytest_genderbias.recipes.recipe import Performance, Recipe, Training
from pytest_genderbias.scoring.engine import Progress
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.suites.suite import Suite, load_suite

BEFORE, AFTER, CONTROL, RETRAINED = "before", "after", "control", "retrained"
SEEDS = 3  #: restarts where a method trains
CONTROLS = 8  #: random directions where nothing is trained (dev2019, tables 14 and 15)
TRAINED_CONTROLS = 1  #: by seed, where each costs a training
_VERSION = 1  #: of a run's folder; another one trains anew


def opened(model: Any) -> Model:
    """Return a model, loaded if it is a spec."""
    return load_model(model) if isinstance(model, str) else model


@dataclass(frozen=True)
class MitigationRun:
    """Models before a mitigation, after it, and of its control, one a seed.

    :func:`mitigate` makes one; or give models that you trained yourself, each side a model, a spec for one, or one of them a seed.

    Attributes:
        before: models before, shape (seeds,).
        after: models after, in the order of the same seeds.
        control: for each seed its controls, shape (seeds, controls): with random directions in place of those of the method, or trained
            without the method. Empty where ``before`` is the control: the same recipe without the method.
        seeds: of the trainings, all different; ``(0,)`` where nothing is trained.
        recipe: evaluates the models (accuracy, perplexity), and trains a new head for ``superficial``. One with ``suite_settings`` says
            on what a suite is measured.
        trained: whether the sides differ by a training, so that other seeds would give other figures.
        what: method, recipe and control in words and settings, for tables and JSON.
        seconds: wall time of what was trained or changed for ``after``.
        folder: where its trainings are.
        opener: loads a spec; by default as :func:`~pytest_genderbias.models.loading.load_model`.
        measurer: measures, given a suite, a model and settings, as :func:`~pytest_genderbias.measurement.measure.measure` does, the default.
        refuser: what is done where a suite that was asked for does not apply, instead of raising the error.
        progress: shows further trainings: of new heads.
    """

    before: Any
    after: Any
    control: Any = ()
    seeds: Sequence[int] = ()
    recipe: Recipe | None = None
    trained: bool = True
    what: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    folder: Path | None = field(default=None, repr=False)
    opener: Callable[[Any], Model] = field(default=opened, repr=False, compare=False)
    measurer: Callable[..., Measurement] = field(default=measure, repr=False, compare=False)
    refuser: Callable[[NotApplicableError], NoReturn] | None = field(default=None, repr=False, compare=False)
    progress: bool | Progress = field(default=False, repr=False, compare=False)
    _keeps: Any = field(default=None, repr=False, compare=False)  # a temporary folder, which goes with the run
    _scores: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Bring each side into shape, and refuse sides that do not fit each other."""
        sides = {name: _listed(getattr(self, name)) for name in (BEFORE, AFTER)}
        count = max(1, *map(len, sides.values()))
        for name, side in sides.items():
            if len(side) not in (1, count):
                raise SettingError(
                    f"a run has {count} models on one side and {len(side)} {name}; give one of each a seed"
                )
            object.__setattr__(self, name, side * (count // len(side)))
        control = [] if self.control is None else [_listed(one) for one in _listed(self.control)]
        if len(set(map(len, control))) > 1 or not all(control):
            raise SettingError(
                f"the seeds of a run have {', '.join(str(len(one)) for one in control)} controls; give as many for each, or none at all"
            )
        if control and len(control) not in (1, count):
            raise SettingError(
                f"a run of {count} seeds has controls for {len(control)}; give a list of them for each seed, or none"
            )
        object.__setattr__(self, CONTROL, tuple(control * (count // len(control)) if control else ()))
        object.__setattr__(self, "seeds", tuple(self.seeds) or tuple(range(count)))
        if len(self.seeds) != count:
            raise SettingError(f"{len(self.seeds)} seeds were named for {count} models a side")
        _refuse_repeated(self.seeds)

    def models(self, side: str) -> tuple[tuple[Any, ...], ...]:
        """Return the models of a side, ``before``, ``after`` or ``control``, by seed: shape (seeds, 1), or (seeds, controls)."""
        if side == CONTROL:
            return tuple(map(tuple, self.control))
        return tuple((one,) for one in getattr(self, side))

    def measure(self, side: str, suite: str | Suite, **settings: Any) -> list[list[Measurement]]:
        """Measure a suite on every model of a side; what was measured once is kept. Arguments as :func:`~pytest_genderbias.measurement.measure.measure`.

        Where the recipe says on what (``bios``: the texts that it holds out), that is the default.
        """
        loaded = suite if isinstance(suite, Suite) else load_suite(suite)
        chosen = {**suite_settings(self.recipe, loaded, self.folder, settings), **settings}
        try:
            return [[self._measured(one, loaded, chosen) for one in models] for models in self.models(side)]
        except NotApplicableError as error:
            if self.refuser is None:
                raise
            refused = error
        self.refuser(refused)

    def performance(self, side: str) -> list[list[dict[str, Performance]]]:
        """Return how well every model of a side does the recipe's task, by name; kept once evaluated.

        Raises:
            SettingError: the run has no recipe that could tell.
        """
        if self.recipe is None:
            raise SettingError(
                "this run has no recipe, and nothing else says how well a model does its task; give recipe=..."
            )
        return [[self._evaluated(one) for one in models] for models in self.models(side)]

    def _measured(self, model: Any, suite: Suite, settings: Mapping[str, Any]) -> Measurement:
        key = ("suite", _key(model), suite.digest, repr(sorted(settings.items(), key=str)))
        if key not in self._scores:
            self._scores[key] = self.measurer(suite, self.opener(model), **settings)
        return self._scores[key]  # type: ignore[no-any-return]

    def _evaluated(self, model: Any) -> dict[str, Performance]:
        assert self.recipe is not None
        key = ("performance", id(self.recipe), _key(model))
        if key not in self._scores:
            self._scores[key] = {found.name: found for found in self.recipe.evaluate(self.opener(model))}
        return self._scores[key]  # type: ignore[no-any-return]


def mitigate(
    model: str | Model | None,
    method: Method,
    recipe: Recipe | None = None,
    *,
    seeds: int | Sequence[int] | None = None,
    controls: int | None = None,
    folder: str | Path | None = None,
    progress: bool | Progress = False,
    opener: Callable[[Any], Model] = opened,
) -> MitigationRun:
    """Apply a mitigation, with its control, and return the models before, after, and of the control.

    Without a recipe, or where the method only changes a finished model, nothing more is trained than the recipe needs to make the task's
    model, and that is shared. With a recipe that trains on (continued pre-training) ``before`` is the given model; with one that
    makes the task (fine-tuning, a network from nothing) it is the one trained without the method. The control: random directions for a
    projection; else the same recipe, data order and steps without the method; and for two-sided augmentation the same text twice.

    Args:
        model: to start from: a model, a spec for one, or ``None`` for a recipe that makes its own network.
        method: a mitigation, of :mod:`~pytest_genderbias.mitigation.methods`.
        recipe: of :mod:`~pytest_genderbias.recipes`. Where neither it nor the method trains, it evaluates only.
        seeds: how many restarts, or which; three where a training takes part in the comparison, else one.
        controls: how many controls a seed; eight where they cost no training, else one.
        folder: keeps every run, so that a run that was stopped goes on, and equal ones are shared; a temporary folder by default.
        progress: show a bar for each training: the Trainer's own, or one of yours.
        opener: loads a spec.

    Raises:
        SettingError: nothing would be done, a number of seeds or controls below 1, or the method finds nothing to work on, as a direction
            of words that the model does not know.
        NotApplicableError, ModelError: as the recipe and the method.
    """
    if model is None and recipe is None:
        raise SettingError("there is no model to mitigate; give one, or a recipe that makes its own network")
    base = opener(model) if model is not None else None
    trains = recipe is not None and (recipe.makes_task or method.trains)
    if not trains and method.trains:
        raise SettingError(f"{method.name} takes part in a training; give mitigate() a recipe")
    chosen = _chosen_seeds((SEEDS if trains else 1) if seeds is None else seeds)
    if controls is not None and controls < 1:
        raise SettingError(f"controls is a whole number of at least 1, got {controls!r}")
    count = controls if controls is not None else TRAINED_CONTROLS if method.trains else CONTROLS
    work = _Workshop(base, recipe, Path(folder) if folder is not None else None, progress, opener)
    try:
        found = [_one_seed(work, method, seed, count, trains) for seed in chosen]
    except UndefinedError as reason:
        on = "" if base is None else f" on {base.name}"
        raise SettingError(f"{method.settings()['method']} cannot be done{on}: {reason}") from reason
    what = {
        "method": method.settings(),
        "recipe": None if recipe is None else {"recipe": recipe.name, **recipe.settings()},
        "control": _control_in_words(method, recipe, trains),
        "controls": count if found[0].control else 0,
    }
    return MitigationRun(
        [one.before for one in found], [one.after for one in found], [one.control for one in found if one.control], chosen, recipe,
        trains, what, sum(one.seconds for one in found), work.folder, opener, progress=progress, _keeps=work,
    )  # fmt: skip


@dataclass(frozen=True)
class _Sides:
    before: Any
    after: Any
    control: list[Any]
    seconds: float


def _one_seed(work: _Workshop, method: Method, seed: int, count: int, trains: bool) -> _Sides:
    """Make the models of one seed."""
    recipe = work.recipe
    plain = Method()
    makes_task = recipe is not None and recipe.makes_task
    before = work.made(plain, seed) if makes_task else work.base
    start = time.perf_counter()
    after = work.made(method, seed) if trains else method.after(work.opener(before), seed)
    seconds = time.perf_counter() - start
    if method.control(0) is not None:
        others = [method.control(repeat + seed * count) or plain for repeat in range(count)]
        control = [work.made(one, seed) if trains else one.after(work.opener(before), seed) for one in others]
    else:
        control = [work.made(plain, seed)] if trains and not makes_task else []
    return _Sides(before, after, control, seconds)


def _control_in_words(method: Method, recipe: Recipe | None, trains: bool) -> str:
    control = method.control(0)
    if control is not None:
        return control.control_in_words or control.name
    if trains:
        return "the same recipe without the method"
    return "none"


class _Workshop:
    """Makes models by a recipe and a method, each once, in a folder that keeps them."""

    def __init__(
        self,
        base: Model | None,
        recipe: Recipe | None,
        folder: Path | None,
        progress: bool | Progress,
        opener: Callable[[Any], Model],
    ) -> None:
        self.base, self.recipe, self.progress, self.opener = base, recipe, progress, opener
        self._given = folder

    @cached_property
    def folder(self) -> Path:
        """Where runs are kept."""
        if self._given is not None:
            self._given.mkdir(parents=True, exist_ok=True)
            return self._given
        self._temporary = tempfile.TemporaryDirectory(prefix="genderbias-")
        return Path(self._temporary.name)

    @cached_property
    def rows(self) -> list[Mapping[str, Any]]:
        """The training data, read once."""
        assert self.recipe is not None
        return self.recipe.rows()

    def made(self, method: Method, seed: int) -> Any:
        """Return the model that the recipe and a method make: a spec, or a model where the method changes it at the end."""
        trained = self._trained(method, seed)
        return method.after(self.opener(trained), seed) if method.changes("after") else trained

    def _trained(self, method: Method, seed: int) -> str:
        """Train, unless an equal run is there, and return the folder of the model."""
        recipe = self.recipe
        assert recipe is not None
        told = method.settings() if method.trains else Method().settings()
        key = {
            "version": _VERSION,
            "model": self.base and known_by(self.base),
            "recipe": recipe.settings(),
            "method": told,
            "seed": seed,
        }
        text = json.dumps(key, sort_keys=True, default=str)
        run = (
            self.folder
            / f"{recipe.name}-{told['method']}-{seed}-{hashlib.sha256(text.encode()).hexdigest()[:12]}".replace(
                " & ", "+"
            )
        )
        with held_folder(run), ExitStack() as bars:
            if (run / "model").is_dir():
                return str(run / "model")
            write_whole(run / "run.json", json.dumps(key, indent=1, sort_keys=True, default=str).encode())
            columns = Columns(recipe.columns, recipe.label, recipe.group)
            start = recipe.start(self.base, seed)
            used = method if method.trains else Method()
            hooks = used.hooks(
                start
            )  # of the model as it was: what is projected out of it can be learned from it no more
            changed = used.before(start, seed)
            rows = used.rows(self.rows, columns, seed)
            label = f"{recipe.name} with {told['method']}, seed {seed}"
            bar = [show_steps(self.progress, label, bars)] if callable(self.progress) else []
            training = Training([*hooks.callbacks, *bar], hooks.around, progress=self.progress is True)
            recipe.train(changed, rows, seed, run, training)
        return str(run / "model")


@contextmanager
def held_folder(folder: Path) -> Iterator[None]:
    """Hold a run's folder: another process waits, and then finds the model. One that was killed holds nothing."""
    from filelock import FileLock

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock")
        lock.acquire()
    except (OSError, NotImplementedError) as error:
        raise SettingError(f"{folder} cannot be written and locked: {error}; name another folder for runs") from error
    try:
        yield
    finally:
        lock.release()


def _key(model: Any) -> Any:
    return model if isinstance(model, str) else (model.name, model.fingerprint or id(model))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _chosen_seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    chosen = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not chosen:
        raise SettingError(f"seeds is their number, 1 or more, or a list of them, got {seeds!r}")
    _refuse_repeated(chosen)
    return chosen


def _refuse_repeated(seeds: Sequence[int]) -> None:
    if len(set(seeds)) < len(seeds):  # the same training twice looks like a training that never varies
        raise SettingError(f"the seeds of a run should be different, got {', '.join(map(str, seeds))}")


def suite_settings(recipe: Any, suite: Suite, folder: str | Path | None, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return on what a recipe wants a suite measured: none where it does not say, or where one of these settings is given."""
    if folder is None or not hasattr(recipe, "suite_settings"):
        return {}
    wanted: Mapping[str, Any] = recipe.suite_settings(suite, folder)
    return {} if set(wanted) & set(given) else wanted
