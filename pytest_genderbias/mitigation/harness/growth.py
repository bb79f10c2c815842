"""``growth``: how bias grows while a model learns its task, with and without mitigations (lu2018, figure 3)."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pytest_genderbias.errors import DataFileError, SettingError
from pytest_genderbias.measurement.plain_data import Stored
from pytest_genderbias.measurement.runner import Runner
from pytest_genderbias.mitigation.harness.callback import LOG, HistoryEntry, WatchedTrainings, check_every
from pytest_genderbias.mitigation.harness.run import seeds_of, suite_settings, train_with
from pytest_genderbias.mitigation.methods.base import Method
from pytest_genderbias.mitigation.methods.registry import SomeMethod, SomeRecipe, resolve_method, resolve_recipe
from pytest_genderbias.models.fingerprint import known_by
from pytest_genderbias.models.model import Model
from pytest_genderbias.scoring.scorer import Progress
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.suites.suite import Suite, load_suite
from pytest_genderbias.text.printable import format_mean, markdown_table, refuse_unknown_name

if TYPE_CHECKING:
    from transformers import TrainerCallback

LOSS = "loss"
_PERCENT = 100


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
        return round(_PERCENT * share, 6)

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
    base = Runner().open(model) if isinstance(model, str) else model
    with ExitStack() as stack:
        home = Path(folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="genderbias-")))
        options = {**suite_settings(task, loaded, home, settings), **settings}
        watched, rows = WatchedTrainings(task, loaded, home, progress, options), cache(task.rows)

        def history(method: Method, seed: int) -> list[HistoryEntry]:
            def train(run: Path) -> None:
                def watch(start: Model) -> TrainerCallback:
                    return watched.watch(start, run / LOG, every)

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
    return Growth(loaded.name, loaded.family.plain_statistics(), tuple(numbers), histories, every, plain)
