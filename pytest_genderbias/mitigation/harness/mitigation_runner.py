"""``MitigationRunner``: mitigates models of a ``Runner``, each mitigation once while the model is in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pytest_genderbias.errors import BiasError, SettingError
from pytest_genderbias.measurement.runner import Runner
from pytest_genderbias.mitigation.harness.run import MitigationRun, mitigate
from pytest_genderbias.mitigation.methods.base import Method
from pytest_genderbias.models.spec import ModelSpec, parse_spec
from pytest_genderbias.recipes.recipe import Recipe
from pytest_genderbias.scoring.base import Progress


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
        method: Method,
        recipe: Recipe | None = None,
        *,
        seeds: int | Sequence[int] | None = None,
        controls: int | None = None,
    ) -> MitigationRun:
        """Mitigate a model, or return the earlier run with these arguments. An error is raised again without another attempt.

        Runs hold copies of the model, and are dropped when the runner releases it. Their models are named like the model that they
        come from. Without a spec the recipe makes its own network.

        Raises:
            SettingError: the spec holds ``{seed}``; or as :func:`~pytest_genderbias.mitigation.harness.run.mitigate`.
            MitigationNotApplicableError, ModelError: as :func:`~pytest_genderbias.mitigation.harness.run.mitigate`.
        """
        parsed = parse_spec(spec) if isinstance(spec, str) else spec
        if parsed is not None and parsed.seeded:
            raise SettingError(
                f"{parsed.name}={parsed.spec} is one checkpoint a seed, and a mitigation starts from one; name one of them"
            )
        name = parsed.name if parsed is not None else recipe.name if recipe is not None else ""
        of_recipe = None if recipe is None else (recipe.name, recipe.settings())
        key = f"mitigation {(parsed, name, method.settings(), of_recipe, seeds, controls, self.folder)!r}"
        models = self.runner.models
        with models.lock:
            model = None if parsed is None else replace(models.model(parsed), name=name)
            if key not in models.kept_with_model:
                run: MitigationRun | BiasError
                try:
                    run = mitigate(
                        model, method, recipe, seeds=seeds, controls=controls, folder=self.folder, progress=self.progress,
                        runner=self.runner, name=name,
                    )  # fmt: skip
                except BiasError as error:
                    run = error
                models.kept_with_model[key] = run
            outcome = models.kept_with_model[key]
        if isinstance(outcome, BiasError):
            raise outcome
        assert isinstance(outcome, MitigationRun)
        return outcome
