"""``MitigationRunner``: mitigates models of a ``Runner``, each mitigation once while the model is in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_genderbias.errors import BiasError, SettingError
from pytest_genderbias.measurement.runner import Runner
from pytest_genderbias.mitigation.harness.grid import GridPlan, search_plan, seeds_to_try
from pytest_genderbias.mitigation.harness.run import MitigationRun, mitigate
from pytest_genderbias.mitigation.methods.base import Method
from pytest_genderbias.mitigation.methods.registry import SomeMethod, SomeRecipe, resolve_method, resolve_recipe
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.spec import ModelSpec, parse_spec
from pytest_genderbias.recipes.recipe import Recipe
from pytest_genderbias.scoring.scorer import Progress


class MitigationRunner:
    """Mitigates models with the settings of a runner, and shares equal runs.

    Args:
        runner: loads and measures models.
        folder: keeps what is trained; a temporary folder by default.
        progress: shows each training: the Trainer's own bar, or one of yours.
    """

    def __init__(self, runner: Runner, folder: str | Path | None = None, progress: bool | Progress = False) -> None:
        """Keep the settings; nothing is loaded yet."""
        self.runner, self.folder, self.progress = runner, folder, progress

    def mitigate(
        self,
        spec: str | ModelSpec | None,
        method: SomeMethod,
        recipe: SomeRecipe | None = None,
        *,
        data: Path | None = None,
        seeds: int | Sequence[int] | None = None,
        controls: int | None = None,
    ) -> MitigationRun:
        """Mitigate a model, or return the earlier run with these arguments. An error is raised again without another
        attempt.

        Runs hold copies of the model, and are dropped when the runner releases it. Their models are named like the
        model that they come from.

        Args:
            spec: the model; ``None`` for a recipe that makes its own network.
            method: an object, a name, a mapping of ``name`` and settings, or a list of these.
            recipe: the same of a recipe.
            data: folder of the data sets, for a recipe whose settings name none.
            seeds: number of trainings, or their seeds.
            controls: number of controls.

        Raises:
            SettingError: the spec holds ``{seed}``; or as :func:`~pytest_genderbias.mitigation.harness.run.mitigate`.
            MitigationNotApplicableError, ModelError: as :func:`~pytest_genderbias.mitigation.harness.run.mitigate`.
        """
        applied = method if isinstance(method, Method) else resolve_method(method)
        training = resolve_recipe(recipe, data) if isinstance(recipe, (str, Mapping)) else recipe

        def make(model: Model | None, name: str) -> MitigationRun:
            how: dict[str, Any] = {"folder": self.folder, "progress": self.progress, "runner": self.runner}
            return mitigate(model, applied, training, seeds=seeds, controls=controls, name=name, **how)

        return self._once(spec, training, (*_settings_of(applied, training), seeds, controls), make)

    def search(
        self,
        spec: str | ModelSpec | None,
        plan: GridPlan,
        *,
        seeds: int | Sequence[int] | None = None,
        choose_on: int | str | Sequence[int] | None = None,
        controls: int | None = None,
    ) -> MitigationRun:
        """Try the points of a grid on a model, or return the earlier run with these arguments. All else as
        :meth:`mitigate`.

        Raises:
            SettingError: as :func:`~pytest_genderbias.mitigation.harness.grid.search`.
            MitigationNotApplicableError, ModelError: as :func:`~pytest_genderbias.mitigation.harness.run.mitigate`.
        """
        tried = [_settings_of(point.method, point.recipe) for point in plan.points]
        digests = {name: suite.digest for name, suite in plan.suites.items()}
        key = ("grid", tried, plan.rule, digests, plan.settings, seeds, choose_on, controls)

        def make(model: Model | None, name: str) -> MitigationRun:
            on = seeds_to_try(plan, seeds, choose_on)
            return search_plan(
                model, plan, on, controls, self.folder, progress=self.progress, runner=self.runner, name=name
            )

        return self._once(spec, plan.points[0].recipe, key, make)

    def _once(
        self,
        spec: str | ModelSpec | None,
        recipe: Recipe | None,
        key: object,
        make: Callable[[Model | None, str], MitigationRun],
    ) -> MitigationRun:
        """Make a run, or return the one with the same key that was made while the model was in memory."""
        parsed = parse_spec(spec) if isinstance(spec, str) else spec
        if parsed is not None and parsed.seeded:
            raise SettingError(
                f"{parsed.name}={parsed.spec} is one checkpoint a seed, and a mitigation starts from one; name one of"
                " them"
            )
        name = parsed.name if parsed is not None else recipe.name if recipe is not None else ""
        full_key = f"mitigation {(parsed, name, key, self.folder)!r}"
        models = self.runner.models
        with models.lock:
            model = None if parsed is None else replace(models.model(parsed), name=name)
            if full_key not in models.kept_with_model:
                run: MitigationRun | BiasError
                try:
                    run = make(model, name)
                except BiasError as error:
                    run = error
                models.kept_with_model[full_key] = run
            outcome = models.kept_with_model[full_key]
        if isinstance(outcome, BiasError):
            raise outcome
        assert isinstance(outcome, MitigationRun)
        return outcome


def _settings_of(method: Method, recipe: Recipe | None) -> tuple[object, object]:
    return method.settings(), None if recipe is None else (recipe.name, recipe.settings())
