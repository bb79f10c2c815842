"""``Runner``: what the measurements of a run share, namely suites, one loaded model, run settings and earlier
measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_genderbias.errors import NotApplicableError, SettingError
from pytest_genderbias.folders import default_cache
from pytest_genderbias.measurement.ability_setting import read_ability
from pytest_genderbias.measurement.carry_out import Until, ask, summarised
from pytest_genderbias.measurement.control_questions import abilities_of_role, judge
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.plan import Plan, plan_measurement, refuse_without_template
from pytest_genderbias.measurement.restarts import combine_restarts
from pytest_genderbias.measurement.run_models import RunModels
from pytest_genderbias.models.loading import load_model
from pytest_genderbias.models.model import Model, evaluation_mode
from pytest_genderbias.models.source import LoadSettings
from pytest_genderbias.models.spec import CHAT, ModelSpec, parse_spec, path_spec
from pytest_genderbias.scoring.engine import ScoreSettings
from pytest_genderbias.scoring.executor import Executor
from pytest_genderbias.scoring.scorer import Progress
from pytest_genderbias.statistics.right_answers import Ability
from pytest_genderbias.suites.suite import Suite, load_suite

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from pytest_genderbias.models.replies import Wanted


_NO_NULL = "no null control: the value is a mean over restarts; measure one of them (without seeds) to see its own"


@dataclass(frozen=True)
class RunSettings(ScoreSettings):
    """Settings of scoring, for every suite of a run.

    Attributes:
        limit: score at most this many cases; all by default.
        seed: seed of the random order, of the null control and of what is trained.
        batch_tokens: tokens in a batch; determined automatically by default.
        cache: folder of the score cache; the user's cache folder by default, ``None`` for no cache.
        progress: shows how far scoring is.
        executor: where cases are scored; in this process by default.
        shared: where other machines store their scores, beside the cache; none by default.
        null: shuffles of the null control; none by default.
        ability: by which control items a model shows its ability
            (:func:`~pytest_genderbias.measurement.ability_setting.read_ability`).
    """

    cache: Path | None = field(default_factory=default_cache)
    null: int = 0
    ability: object = None


#: The settings that a measurement may have of its own.
_OWN = ("limit", "seed", "batch_tokens", "cache", "null", "progress", "ability", "shared")


@dataclass(frozen=True)
class _Request:
    """The settings of one measurement: those of the run, changed by options of the run and by the caller."""

    score: RunSettings
    data: Path | None
    options: Mapping[str, object]


class Runner:
    """Measures suites on models, with one model in memory and each measurement made once.

    Threads may share a runner; it makes one measurement at a time.

    Args:
        load: how models are loaded.
        score: settings of scoring.
        data: folder of the user's data sets, in the layout of docs/reference/data.md.
        seeds: restarts of what a suite trains, and of models whose spec holds ``{seed}``; none by default.
        options: options of suites, as ``(suite, option, value)``. An empty suite stands for every suite that has the
            option.
        threads: threads that torch may use; its own default if ``None``.
        executor: where the cases of :meth:`measure` are scored; by default, as ``score`` says.

    Example:
        >>> runner = Runner(score=RunSettings(limit=32, cache=None))
        >>> measurement = runner.measure("lm-occupation", "demo-lm")
        >>> runner.measure("lm-occupation", "demo-lm") is measurement
        True
    """

    def __init__(
        self,
        load: LoadSettings | None = None,
        score: RunSettings | None = None,
        *,
        data: str | Path | None = None,
        seeds: int | None = None,
        options: Sequence[tuple[str, str, object]] = (),
        threads: int | None = None,
        executor: Executor | None = None,
    ) -> None:
        """Keep the settings; nothing is loaded yet."""
        #: Loads each suite of the run once, by the name of a packaged suite or the path of a file.
        self.suites: Callable[[str], Suite] = cache(load_suite)
        score = score or RunSettings()
        self.score = replace(score, executor=executor or score.executor)
        #: Loads the models of the run, and keeps one in memory.
        self.models = RunModels(load or LoadSettings(), threads, self.score.cache)
        self.data = None if data is None else Path(data)
        self.seeds, self.options = seeds, tuple(options)
        self._measurements: dict[object, Measurement] = {}
        self._abilities: dict[object, Ability] = {}

    def open(self, model: str | ModelSpec | Model | object) -> Model:
        """Return a model, loaded if it is a spec. The runner does not keep it, so that it can stand beside the one in
        memory.
        """
        target = _target_of(model)
        return target if isinstance(target, Model) else self.models.load(target)

    def measure(
        self,
        suite: str | Path | Suite,
        model: str | ModelSpec | Model | object,
        settings: Mapping[str, object] | None = None,
        until: Until | None = None,
    ) -> Measurement:
        """Measure a suite on a model, or return the earlier measurement with the same settings.

        Args:
            suite: a packaged suite's name, the path of a suite file, or a loaded suite.
            model: a spec, parsed or not, a loaded model, or an object with the protocol of a role.
            settings: replace settings of the run for this measurement: ``limit``, ``seed``, ``batch_tokens``, ``null``,
                ``cache``, ``progress``, ``data``, ``seeds`` and options of the suite. ``seeds`` is the suite's own
                option where it has one.
            until: stop scoring as soon as these statistics are decided. Restarts are always measured in full.

        Raises:
            NotApplicableError: the suite needs another kind of model, or data that are missing.
            ModelError: the model cannot be loaded. The first request for it gets the full message.
            ScoreError: the model returns NaN or infinite scores.
            SettingError, UnknownNameError: a setting or option is wrong.
        """
        loaded = self._suite_of(suite)
        with self.models.lock, evaluation_mode(model):
            target, request = _target_of(model), self._request(loaded, settings or {})
            key = _key(loaded, target, request, until)
            if key is not None and key in self._measurements:
                return self._measurements[key]
            seeds, request = self._restarts(loaded, target, request)
            if seeds is None:
                measurement = self._carried_out(loaded, target, request, until)
            else:
                measurement = self._over_restarts(loaded, target, request, seeds)
            if key is not None:
                self._measurements[key] = measurement
            return measurement

    def refuse_unread(self, suite: Suite, spec: ModelSpec) -> None:
        """Refuse a suite before any of it is scored, if the model does not know its language.

        Raises:
            NotApplicableError: it does not, by the control items of the language. Other errors as :meth:`measure`.
        """
        with self.models.lock:
            first, request = spec.for_seed(0), self._request(suite, {})
            plan, ability = self._plan(suite, first, request), read_ability(request.score.ability)
            asked = abilities_of_role(plan, self.models.model(first), request.score, ability, self._abilities)
            why = next((one.unable for one in asked if one.unable), "")
        if why:
            raise NotApplicableError(f"{suite.name}: its language is {suite.language}, and {spec.name} {why}")

    def expect_replies(self, measurements: Iterable[tuple[Suite, ModelSpec, Mapping[str, object]]]) -> list[str]:
        """Count what measurements to come ask of chat endpoints, before the first question, and return what that costs:
        a text for each endpoint. Replies that are kept cost nothing.

        Args:
            measurements: suite, model and settings, as in :meth:`measure`. One that cannot be made says so in its turn.

        Raises:
            SettingError: it is more than a run may send.
        """
        from pytest_genderbias.measurement.reply_questions import wanted_replies

        wanted: dict[ModelSpec, list[Wanted]] = {}
        for suite, spec, settings in measurements:
            if spec.kind == CHAT:
                with self.models.lock, self.models.unreported():
                    request = self._request(suite, settings)
                    asked = wanted_replies(self._plan(suite, spec, request), request.score.limit, request.score.seed)
                    wanted.setdefault(spec, []).extend(asked)
        return [self.models.model(spec).backend.expect(asked, self.score.cache) for spec, asked in wanted.items()]

    def _carried_out(
        self, suite: Suite, model: ModelSpec | Model, request: _Request, until: Until | None = None
    ) -> Measurement:
        plan, score, ability = self._plan(suite, model, request), request.score, read_ability(request.score.ability)
        loaded = model if isinstance(model, Model) else self.models.model(model)
        asked = ask(plan, loaded, score, until, score.null)
        measurement = summarised(asked, score)
        of_role = [*abilities_of_role(plan, asked.model, score, ability, self._abilities)]
        return judge(measurement, asked, of_role, ability)

    def plan(self, suite: Suite, spec: ModelSpec, settings: Mapping[str, object] | None = None) -> Plan:
        """Resolve the options of a suite and ask its questions, without loading any weights.

        Args:
            suite: the suite.
            spec: the model, of which the config is read.
            settings: as in :meth:`measure`.

        Raises:
            NotApplicableError: the suite needs another kind of model, or data that are missing.
            ModelError, SettingError, UnknownNameError, DataFileError: as :meth:`measure`.
        """
        return self._plan(suite, spec, self._request(suite, settings or {}))

    def measure_once(
        self, suite: str | Suite, model: Model, settings: Mapping[str, object] | None = None
    ) -> Measurement:
        """Measure a suite on a loaded model with the settings of the run, but without restarts or a null control of the
        run.

        The measurement is not kept, and made in this process, which may have changed the model. Arguments and errors as
        :meth:`measure`.
        """
        loaded = self._suite_of(suite)
        request = self._request(loaded, {"null": 0, **(settings or {})})
        return self._carried_out(loaded, model, replace(request, score=replace(request.score, executor=None)))

    def _suite_of(self, suite: str | Path | Suite) -> Suite:
        return suite if isinstance(suite, Suite) else self.suites(str(suite))

    def _request(self, suite: Suite, settings: Mapping[str, object]) -> _Request:
        """Return the settings of a measurement: the run's, its options for the suite, then those of the caller."""
        scoped = {
            option: value
            for owner, option, value in self.options
            if owner == suite.name or (not owner and option in suite.family.options)
        }
        options = {**scoped, **settings}
        if self.seeds is not None and suite.family.seeds_are_restarts:
            options = {"seeds": self.seeds, **options}
        scoring = {name: options.pop(name) for name in _OWN if name in options}
        if "cache" in scoring:
            scoring["cache"] = cache_folder(scoring["cache"])
        data = options.pop("data", self.data)
        score = replace(self.score, **scoring)  # type: ignore[arg-type]
        return _Request(score, None if data is None else Path(str(data)), options)

    def _restarts(self, suite: Suite, model: ModelSpec | Model, request: _Request) -> tuple[int | None, _Request]:
        """Return the number of restarts, ``None`` where nothing is repeated, and the request without ``seeds``.

        A suite with an option ``seeds`` of its own takes that setting; restarts of its model have the runner's number
        then.
        """
        seeded = isinstance(model, ModelSpec) and model.seeded
        own = "seeds" in suite.family.options
        if own and not seeded:
            return None, request
        requested = None if own else request.options.get("seeds")
        if not own:
            request = replace(request, options={k: v for k, v in request.options.items() if k != "seeds"})
        seeds = self.seeds if requested is None else requested
        if seeds is None:
            if not seeded:
                return None, request
            raise SettingError(
                f"{model.name}={model.spec} is one checkpoint a seed; say how many: --bias-seeds=5, or seeds: 5 in the"
                " gate's settings (seeds=5 in Python)"
            )
        if type(seeds) is not int or seeds < 2:
            raise SettingError(f"seeds should be a whole number of at least 2, got {seeds!r}")
        if seeded or self._plan(suite, model, request).trains:
            return seeds, request
        if requested is not None:
            raise SettingError(
                f"{suite.name} trains nothing on {model.name}, so that every seed gives the same; name one checkpoint a"
                " restart, --bias-model=NAME=runs/seed-{seed}, or leave seeds out. Against a stored baseline of"
                " restarts, one checkpoint is enough"
            )
        return None, request

    def _over_restarts(self, suite: Suite, model: ModelSpec | Model, request: _Request, count: int) -> Measurement:
        """Measure each restart: of the model if its spec holds ``{seed}``, and of what the suite itself trains."""
        restarts: Sequence[ModelSpec | Model] = [model] * count
        first_seed = request.score.seed
        seeds = range(first_seed, first_seed + count)
        if isinstance(model, ModelSpec) and model.seeded:
            restarts = self.models.refused_once(model, lambda: [model.for_seed(k) for k in range(count)])
            seeds = range(count)
        trains = self._plan(suite, restarts[0], request).trains
        measurements = []
        for k, restart in enumerate(restarts):
            seed = first_seed + k if trains else first_seed
            of_seed = replace(request, score=replace(request.score, seed=seed, null=0))
            measurements.append(self._carried_out(suite, restart, of_seed))
        combined = combine_restarts(measurements, seeds, model.spec)
        return replace(combined, notes=(*combined.notes, _NO_NULL)) if request.score.null else combined

    def _plan(self, suite: Suite, model: ModelSpec | Model, request: _Request) -> Plan:
        role = model.role if isinstance(model, Model) else self.models.source(model).role
        plan = plan_measurement(suite, model.name, role, request.options, request.data, request.score.seed)
        if isinstance(model, ModelSpec):
            refuse_without_template(plan, model)
        return plan


def cache_folder(cache: object) -> Path | None:
    """Return the folder of the score cache: the user's for ``"default"``, none for ``None``, else the path."""
    return default_cache() if cache == "default" else None if cache is None else Path(str(cache))


def _target_of(model: object) -> ModelSpec | Model:
    if isinstance(model, (ModelSpec, Model)):
        return model
    return parse_spec(model) if isinstance(model, str) else load_model(model)


def _key(suite: Suite, model: ModelSpec | Model, request: _Request, until: Until | None) -> tuple[object, ...] | None:
    """Return a key that is equal for requests with the same measurement; ``None`` where later ones may give another.

    The files behind a spec are taken to stay the same as long as the runner lives. The key holds the functions of
    ``until``, so that no later function can take the identity of one of them.
    """
    if isinstance(model, Model) and model.fingerprint is None:
        return None
    known = model if isinstance(model, ModelSpec) else (model.name, model.spec, model.fingerprint)
    score = request.score
    numbers = (score.limit, score.seed, score.batch_tokens, score.null, score.ability)
    asked = repr((numbers, request.data, sorted(request.options.items())))
    key = (suite.digest, suite.name, known, asked, None if until is None else tuple(until.items()))
    try:
        hash(key)
    except TypeError:  # a callable of the caller
        return None
    return key


def measure(
    suite: str | Path | Suite,
    model: str | PathLike[str] | Model | object,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    limit: int | None = None,
    seed: int = 0,
    batch_tokens: int | None = None,
    cache: str | Path | None = "default",
    data: str | Path | None = None,
    progress: Progress | None = None,
    until: Until | None = None,
    null: int = 0,
    seeds: int | None = None,
    ability: object = None,
    **options: object,
) -> Measurement:
    """Measure a suite on a model.

    Args:
        suite: a packaged suite's name, the path of a suite file, or a loaded suite.
        model: what :func:`~pytest_genderbias.models.loading.load_model` returns, or anything that it takes: a spec, a
            transformers network with its ``tokenizer``, a table of predictions, an object with the protocol of a role.
            A network is measured in evaluation mode; each of its modules then gets its mode back.
        tokenizer: the tokenizer of a network in memory.
        limit: score at most this many cases, the front of the random order (whole persons for DisCo).
        seed: seed of the random order, of the null control and of what is trained.
        batch_tokens: tokens in a batch; determined automatically by default.
        cache: folder of the score cache; ``"default"`` is the user's cache folder, ``None`` keeps nothing.
        data: folder of the user's data sets (``--bias-data``), in the layout of docs/reference/data.md.
        progress: shows how far scoring is.
        until: stop as soon as these statistics are decided; :func:`~pytest_genderbias.gates.limits.decided_by` makes it
            of limits.
        null: shuffles of the null control, as 200; none by default. The scores are shuffled, the model is not asked
            again.
        seeds: measure the mean over this many restarts, at least 2: of what the suite trains (a head), or of a model
            whose spec holds ``{seed}``, as ``runs/seed-{seed}``. For a suite with an option ``seeds`` of its own, that
            option.
        ability: control items by which the model shows that it can do the task: the packaged ones by default, the path
            of a file of your own, or ``"none: REASON"`` to ask none.
        options: options of the suite's family, as ``test="fisher"``; the paper's definition is the default.

    Raises:
        NotApplicableError: the suite needs another kind of model, or data that are missing.
        ScoreError: the model returns NaN or infinite scores.
        SettingError, UnknownNameError: a setting or option is wrong.
    """
    score = RunSettings(limit, seed, batch_tokens, cache_folder(cache), progress, null=null, ability=ability)
    runner = Runner(score=score, data=data)
    settings = options if seeds is None else {**options, "seeds": seeds}
    if isinstance(model, PathLike):
        model = path_spec(model)
    if isinstance(model, str) and tokenizer is None:
        return runner.measure(suite, model, settings, until)
    with evaluation_mode(model):
        return runner.measure(suite, load_model(model, tokenizer=tokenizer), settings, until)
