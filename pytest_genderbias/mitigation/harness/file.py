"""The mitigations of a ``*.bias.yaml`` file: read, checked, and planned for the models of a run.

Each entry of ``mitigate`` describes a mitigation and, under ``reduces``, the reductions of bias that it should achieve.
Reading needs neither pytest nor the settings of a run; an error names file and line. ``MitigationRunner`` mitigates
with the settings of a ``Runner``, each mitigation once while the model is in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pytest_genderbias.errors import BiasError, SettingError
from pytest_genderbias.gates.gate_file import NO_MODEL, LoadSuite, Names, resolve_subject
from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.gates.policy import SHARE, Evidence, share_of
from pytest_genderbias.measurement.ability_setting import ABILITY, Ability, ability_from
from pytest_genderbias.measurement.runner import Runner
from pytest_genderbias.mitigation.harness.grid import GridPlan, plan_grid, search_plan, seeds_to_try
from pytest_genderbias.mitigation.harness.retraining import keeps_encoder
from pytest_genderbias.mitigation.harness.run import MitigationRun, mitigate
from pytest_genderbias.mitigation.methods.base import Method, Together
from pytest_genderbias.mitigation.methods.registry import (
    METHODS,
    RECIPES,
    SomeMethod,
    SomeRecipe,
    make_method,
    part_schema,
    resolve_method,
    resolve_recipe,
    settings_of,
)
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.spec import ModelSpec, parse_spec
from pytest_genderbias.recipes.recipe import Recipe
from pytest_genderbias.scoring.scorer import Progress
from pytest_genderbias.suites.family import RUN_SETTINGS
from pytest_genderbias.suites.suite import Suite, load_suite
from pytest_genderbias.text.located_yaml import plain
from pytest_genderbias.text.plain_files import expand
from pytest_genderbias.text.schema import (
    Beside,
    Count,
    LocatedList,
    LocatedMap,
    NotNegative,
    Rule,
    YamlValue,
    at_least,
    check_setting,
    refuse_unknown,
    take,
)

_RUN_SETTINGS = {ABILITY: Ability, **{name: RUN_SETTINGS[name] for name in ("limit", "seed", "batch_tokens")}}
_PATHS = ("data", "training", "evaluation")  #: settings of recipes that are paths, or names of data sets
Budget: TypeAlias = Mapping[str, Annotated[float | str, SHARE]]
Seeds: TypeAlias = (
    Count
    | Annotated[tuple[Annotated[int, at_least(0)], ...], Rule("a list of different whole numbers", uniqueItems=True)]
)
Schema: TypeAlias = dict[str, Any]
#: A method or a recipe; what its settings may be, its class says.
Part: TypeAlias = Annotated[str | LocatedMap, Rule("a name, or a mapping with 'name' and settings")]


@dataclass(frozen=True)
class ReductionEntry(Evidence):
    """A reduction of bias that a mitigation should achieve.

    Attributes:
        suite: name of a packaged suite, or the path of a suite file, relative to this file
        by: the share of the distance from neutral to remove
        statistic: a statistic of the suite; its main one by default
        budget: how much worse other figures may become, in place of that of the mitigation
        superficial: train a new head, and judge what remains then
        back: the share that may return with a new head
        overshoot: the share beyond neutral that is allowed
        settings: of the measurement, and options of the family
        name: of the test
        optional: skipped where it cannot be judged
    """

    noun: ClassVar[str] = "reduction"
    rules: ClassVar[tuple[Beside, ...]] = (
        Beside(
            "back", "'back' is the share that may return with a new head: add 'superficial: true'", ("superficial",)
        ),
    )

    at: LocatedMap
    suite: str
    by: Annotated[float, Rule("the share of the distance from neutral to remove, 0 to 1", minimum=0, maximum=1)]
    statistic: str | None = None
    budget: Budget | None = None
    superficial: bool = False
    back: NotNegative | None = None
    overshoot: NotNegative | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    optional: bool | None = None


@dataclass(frozen=True)
class MitigationEntry:
    """A mitigation, and the reductions of bias that it should achieve. Several methods are applied together.

    Attributes:
        method: a method by name, with settings, or several of them
        reduces: the reductions that it should achieve
        recipe: the training, by name or with settings
        grid: values of settings to try, by PART.SETTING
        best: the rule that chooses a point of the grid
        choose_on: the seeds that choose: their number, a list, or all
        seeds: number of trainings, or their seeds
        controls: number of controls
        models: names of the models to mitigate; all by default
        from_nothing: the recipe makes its own network, and mitigates no model of the run
        budget: how much worse other figures may become, as shares
        optional: skipped where the mitigation does not apply
    """

    noun: ClassVar[str] = "mitigation"
    rules: ClassVar[tuple[Beside, ...]] = (
        Beside(
            "grid",
            "'grid' tries several points: add 'best', the rule that chooses one, as"
            " {lowest: lm-occupation/aggregate_bias}",
            ("best",),
        ),
        Beside("best", "'best' chooses a point of a grid: add 'grid', as {dropout.hidden: [.1, .2]}", ("grid",)),
        Beside("choose_on", "'choose_on' says which seeds choose a point of a grid: add 'grid' and 'best'", ("grid",)),
    )

    at: LocatedMap
    method: Part | tuple[Part, ...]
    reduces: tuple[ReductionEntry, ...]
    recipe: Part | None = None
    grid: Mapping[str, Any] | list[Any] | None = None
    best: LocatedMap | None = None
    choose_on: Literal["all"] | Seeds | None = None
    seeds: Seeds | None = None
    controls: Count | None = None
    models: Names | None = None
    from_nothing: bool = False
    budget: Budget = field(default_factory=dict)
    optional: bool = False


@dataclass(frozen=True)
class DeclaredMitigation:
    """A mitigation as a file declares it.

    Attributes:
        written: as the file declares it.
        grid: settings of method and recipe that are tried; ``None`` for these alone.
    """

    written: MitigationEntry
    method: Method
    recipe: Recipe | None
    grid: GridPlan | None

    @property
    def models(self) -> tuple[str, ...] | None:
        """The names of the models to mitigate; ``None`` for all."""
        models = self.written.models
        return None if models is None else tuple(map(str, models))

    def applies_to(self, model: str | None) -> bool:
        """Return whether it mitigates a model of this name; ``None`` stands for a run without models."""
        return not self.written.from_nothing and (model is None or self.models is None or model in self.models)

    def run(self, spec: ModelSpec | None, mitigations: MitigationRunner) -> MitigationRun:
        """Mitigate a model, or try the points of the grid on it. Errors as :class:`MitigationRunner`."""
        how: dict[str, Any] = {"seeds": self.written.seeds, "controls": self.written.controls}
        if self.grid is None:
            return mitigations.mitigate(spec, self.method, self.recipe, **how)
        return mitigations.search(spec, self.grid, choose_on=self.written.choose_on, **how)


@dataclass(frozen=True)
class DeclaredReduction:
    """A reduction of bias that a mitigation should achieve.

    Attributes:
        name: of the test, without the model.
        arguments: of :func:`~pytest_genderbias.mitigation.harness.verdict.judge_reduction`, including settings of the
            measurement.
        written: as the file declares it.
    """

    name: str
    mitigation: DeclaredMitigation
    suite: Suite
    arguments: Mapping[str, YamlValue]
    written: ReductionEntry

    @property
    def optional(self) -> bool:
        """Whether a run may go without a verdict where it cannot be judged."""
        return self.mitigation.written.optional if self.written.optional is None else self.written.optional

    @property
    def needs_model(self) -> bool:
        """Whether it mitigates a model of the run."""
        return not self.mitigation.written.from_nothing

    def judge(self, spec: ModelSpec | None, mitigations: MitigationRunner) -> Judgement:
        """Mitigate, or take the run of an earlier reduction of the same mitigation, and judge.

        Args:
            spec: the model; ``None`` for a recipe that makes its own network.
            mitigations: of the run.
        """
        from pytest_genderbias.mitigation.harness.verdict import judge_reduction

        return judge_reduction(self.mitigation.run(spec, mitigations), self.suite, **self.arguments)

    def why_idle(self, models: Sequence[str]) -> str:
        """Return why it is for none of these models."""
        return f"{self.name} is for {', '.join(self.mitigation.models or ())}, and the run has {', '.join(models)}"


def read_mitigations(
    data: LocatedMap, data_folder: Path | None = None, load: LoadSuite = load_suite
) -> list[DeclaredReduction]:
    """Read the list ``mitigate`` of a file, and return every reduction under it.

    Args:
        data: the file, as :func:`~pytest_genderbias.text.located_yaml.read_yaml` returns it.
        data_folder: folder of the data sets, for recipes whose settings name none.
        load: loads a suite.

    Raises:
        DataFileError: an entry is wrong; the message names file and line.
    """
    names: Counter[str] = Counter()
    reductions: list[DeclaredReduction] = []
    for entry in take(data, "mitigate", tuple[MitigationEntry, ...], "the gate file"):
        mitigation = _declared(entry, data_folder, load)
        for item in entry.reduces:
            reduction = _declared_reduction(item, mitigation, load)
            names[reduction.name] += 1
            number = names[reduction.name]
            reductions.append(reduction if number == 1 else replace(reduction, name=f"{reduction.name}-{number}"))
    return reductions


def planned_reductions(
    data: LocatedMap, data_folder: Path | None, load: LoadSuite, models: Sequence[str]
) -> list[tuple[str, DeclaredReduction, str | None]]:
    """Return the reductions of a file, planned for the models of a run; arguments as of the two functions that this
    calls.
    """
    return list(plan_reductions(read_mitigations(data, data_folder, load), models))


def plan_reductions(
    reductions: Sequence[DeclaredReduction], models: Sequence[str]
) -> Iterator[tuple[str, DeclaredReduction, str | None]]:
    """Yield the name of a test, a reduction and a model, for each reduction and model: first those that start from
    nothing, then model by model. The model is ``None`` for a reduction that needs none, or is for none of the run.

    A reduction that is for none of the models is planned without a model: a run that left it out would pass in silence.

    Args:
        reductions: of one file.
        models: names of the models of a run, which may have none.
    """
    for reduction in reductions:
        if not reduction.needs_model and reduction.mitigation.recipe is not None:
            yield f"{reduction.name}:{reduction.mitigation.recipe.name}", reduction, None
    slots: Sequence[str | None] = models or (None,)
    for model in slots:
        for reduction in reductions:
            if reduction.mitigation.applies_to(model):
                yield f"{reduction.name}:{model or NO_MODEL}", reduction, model
    for reduction in reductions:
        if reduction.needs_model and not any(reduction.mitigation.applies_to(model) for model in slots):
            yield f"{reduction.name}:{NO_MODEL}", reduction, None


def mitigation_schema(maker: Any) -> Schema:
    """Return the JSON Schema of an entry of ``mitigate``, from a maker of ``reports/json_schema.py``."""
    schema: Schema = maker.object(MitigationEntry)
    method, recipe = part_schema(maker, METHODS), part_schema(maker, RECIPES)
    maker.definitions["method"] = method
    properties = schema["properties"]
    reduction = maker.entry(ReductionEntry, _RUN_SETTINGS, gated=False)
    several = {"type": "array", "items": {"$ref": "#/$defs/method"}, "minItems": 1}
    properties["method"] = {
        "anyOf": [{"$ref": "#/$defs/method"}, several],
        "description": properties["method"]["description"],
    }
    properties["recipe"] = {**recipe, "description": properties["recipe"]["description"]}
    maker.definitions[ReductionEntry.__name__] = reduction
    return schema


def _declared(entry: MitigationEntry, data_folder: Path | None, load: LoadSuite) -> DeclaredMitigation:
    """Make the method and the recipe of an entry."""
    at = entry.at
    parts = []
    for part in _parts(at, "method"):
        settings = _known_settings(part, "method")
        with _located(part):
            parts.append(make_method(part["name"], **settings))
    method = parts[0] if len(parts) == 1 else Together(tuple(parts))
    recipe = None if entry.recipe is None else _make_recipe(_parts(at, "recipe")[0], data_folder)
    if recipe is None and method.trains:
        raise at.error_at("method", f"{method.name} takes part in a training: add a 'recipe'")
    if entry.from_nothing and (recipe is None or not recipe.makes_task or entry.models is not None):
        raise at.error_at(
            "from_nothing", "'from_nothing' needs a recipe that makes its own network, as lstm, and excludes 'models'"
        )
    return DeclaredMitigation(entry, method, recipe, _declared_grid(entry, method, recipe, load))


def _declared_grid(entry: MitigationEntry, method: Method, recipe: Recipe | None, load: LoadSuite) -> GridPlan | None:
    """Make the points of a grid, and check its rule, its seeds, and the settings of its measurements."""
    if entry.grid is None or entry.best is None:
        return None
    at, best = entry.at, entry.best
    written = take(best, "settings", LocatedMap, "best", default={})
    grids = entry.grid if isinstance(entry.grid, list) else [entry.grid]

    def load_beside(name: str) -> Suite:
        suite, _, _ = resolve_subject(at, name, None, {}, {}, load)
        return suite

    settings = dict(written)
    if ABILITY in settings:
        with _located(written):
            settings[ABILITY] = ability_from(settings[ABILITY], Path(at.file).parent)
    rule = {key: plain(value) for key, value in best.items() if key != "settings"}
    with _located(at, within=[*(one for one in grids if isinstance(one, LocatedMap)), best], otherwise="grid"):
        plan = plan_grid(method, recipe, plain(entry.grid), rule, settings, load_beside)
        seeds_to_try(plan, entry.seeds, entry.choose_on)
    suites = {suite.name: suite for suite in plan.suites.values()}
    for name in suites:
        resolve_subject(written, name, None, written, _RUN_SETTINGS, suites.__getitem__)
    return plan


def _declared_reduction(item: ReductionEntry, mitigation: DeclaredMitigation, load: LoadSuite) -> DeclaredReduction:
    """Load the suite of a reduction, and check its statistic, settings and budget against it."""
    at = item.at
    suite, statistic, settings = resolve_subject(at, item.suite, item.statistic, item.settings, _RUN_SETTINGS, load)
    if item.superficial and mitigation.recipe is None:
        raise at.error_at("superficial", "'superficial' trains a new head, which needs a recipe: add a 'recipe'")
    if item.superficial and mitigation.recipe is not None:
        reason = keeps_encoder(mitigation.recipe, mitigation.method)
        if reason is not None:
            raise at.error_at("superficial", reason)
    written = mitigation.written.budget if item.budget is None else item.budget
    shares = {figure: share_of(share) for figure, share in written.items()}
    budget = {figure: share for figure, share in shares.items() if share is not None}
    _check_budget(mitigation.written.at if item.budget is None else at, budget, mitigation.recipe, suite, statistic)
    arguments: dict[str, YamlValue] = {
        "by": item.by,
        "statistic": statistic,
        "budget": budget,
        "superficial": item.superficial,
        "name": item.name,
    }
    of_grid = "" if mitigation.grid is None else f".best-of-{len(mitigation.grid.points)}"
    method = mitigation.method
    methods = "+".join(part.name for part in (method.methods if isinstance(method, Together) else (method,)))
    label = item.name or f"{methods}{of_grid}.{suite.name}"
    name = f"{label}.{statistic}.by_{item.by:g}"
    arguments |= {key: vars(item)[key] for key in ("back", "overshoot") if vars(item)[key] is not None}
    arguments |= settings
    return DeclaredReduction(name, mitigation, suite, arguments, item)


def _check_budget(
    at: LocatedMap, budget: Mapping[str, float], recipe: Recipe | None, suite: Suite, statistic: str
) -> None:
    """Reject a budget for a figure that neither a recipe evaluates nor the suite measures with a worse direction. What
    a recipe of your own evaluates may not be known.
    """
    statistics, evaluated = suite.statistics, () if recipe is None else getattr(recipe, "evaluates", None)
    if evaluated is None:
        return
    of_recipe = "there is no recipe" if recipe is None else f"{recipe.name} evaluates {', '.join(evaluated)}"
    measured = [name for name, about in statistics.items() if name != statistic and about.direction != "away"]
    for figure in budget:
        if figure not in (*evaluated, *measured):
            raise at.error_at(
                "budget",
                f"budget figure {figure!r} cannot be measured: {of_recipe}, and besides {statistic}"
                f" {suite.name} measures {', '.join(measured) or 'nothing that can be worse'}",
            )


def _parts(at: LocatedMap, key: str) -> list[LocatedMap]:
    """Return the methods or the recipe of an entry, each with its name and settings."""
    value, parts = at[key], []
    for place, written in enumerate(value if isinstance(value, LocatedList) else [value]):
        part = written
        if not isinstance(written, LocatedMap):
            part = LocatedMap(at.file, value.lines[place] if isinstance(value, LocatedList) else at.lines[key])
            part["name"] = written
        take(part, "name", str, f"the {key}")
        parts.append(part)
    return parts


def _make_recipe(part: LocatedMap, data_folder: Path | None) -> Recipe:
    """Return the recipe, whose paths are relative to the file."""
    settings = _known_settings(part, "recipe")
    with _located(part, [one for one in part.values() if isinstance(one, LocatedMap)]):
        for key in set(_PATHS) & set(settings):
            check_setting(key, str, part[key])
            if key == "data" or set(part[key]) & set("./\\"):  # otherwise the name of a data set
                settings[key] = str(Path(part.file).parent / expand(part[key]))
        recipe = resolve_recipe({"name": part["name"], **settings}, data_folder)
    assert recipe is not None
    return recipe


def _known_settings(part: LocatedMap, role: str) -> dict[str, YamlValue]:
    """Return the settings of a method or recipe, with paths relative to the file resolved; reject settings that it does
    not have.
    """
    try:
        known = settings_of(role, part["name"])
    except BiasError as error:
        raise part.error_at("name", str(error)) from None
    refuse_unknown(part, ("name", *known), f"the {role} {part['name']}")
    return {key: _resolve_path(plain(value), part.file) for key, value in part.items() if key != "name"}


@contextmanager
def _located(at: LocatedMap, within: Sequence[LocatedMap] = (), otherwise: str = "") -> Iterator[None]:
    """Add file and line to an error: the line of the setting that the message begins with, or of ``otherwise``."""
    try:
        yield
    except BiasError as error:
        if str(error).startswith(f"{at.file}:"):
            raise
        key = str(error).partition(" ")[0]
        holder = next((one for one in (at, *within) if key in one), at)
        raise holder.error_at(key if key in holder else otherwise, str(error)) from None


def _resolve_path(value: YamlValue, file: str) -> YamlValue:
    """Make a path that starts with ``./`` or ``../`` relative to the folder of the file, as paths of suites are."""
    is_path = isinstance(value, str) and value.startswith(("./", "../"))
    return str(Path(file).parent / value) if is_path else value


class MitigationRunner:
    """Mitigates models with the settings of a runner, and shares equal runs.

    Args:
        runner: loads and measures models.
        folder: keeps what is trained; a temporary folder by default.
        progress: shows each training: the Trainer's own bar, or one of yours.
    """

    def __init__(self, runner: Runner, folder: str | Path | None = None, progress: bool | Progress = False) -> None:
        """Keep the settings; nothing is loaded yet."""
        self.runner, self.folder = runner, folder
        self._how: dict[str, Any] = {"progress": progress, "runner": runner}

    def mitigate(
        self,
        spec: str | ModelSpec | None,
        method: SomeMethod,
        recipe: SomeRecipe | None = None,
        *,
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
            seeds: number of trainings, or their seeds.
            controls: number of controls.

        Raises:
            SettingError: the spec holds ``{seed}``; or as :func:`~pytest_genderbias.mitigation.harness.run.mitigate`.
            MitigationNotApplicableError, ModelError: as :func:`~pytest_genderbias.mitigation.harness.run.mitigate`.
        """
        applied = method if isinstance(method, Method) else resolve_method(method)
        training = resolve_recipe(recipe, self.runner.data) if isinstance(recipe, (str, Mapping)) else recipe

        def make(model: Model | None, name: str) -> MitigationRun:
            return mitigate(
                model, applied, training, seeds=seeds, controls=controls, folder=self.folder, name=name, **self._how
            )

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
            return search_plan(model, plan, on, controls, self.folder, name=name, **self._how)

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
                try:
                    models.kept_with_model[full_key] = make(model, name)
                except BiasError as error:
                    models.kept_with_model[full_key] = error
            outcome = models.kept_with_model[full_key]
        if isinstance(outcome, BiasError):
            raise outcome
        assert isinstance(outcome, MitigationRun)
        return outcome


def _settings_of(method: Method, recipe: Recipe | None) -> tuple[object, object]:
    return method.settings(), None if recipe is None else (recipe.name, recipe.settings())
