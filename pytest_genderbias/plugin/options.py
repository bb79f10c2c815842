"""The settings of a run: what its flags and keys of the ini file (``plugin/flags.py``) say, read and checked.

A field of :class:`Settings` has the name of its flag's row; where no parser of
:mod:`~pytest_genderbias.plugin.flag_values` fits, add one there.
"""

# ruff: noqa: RUF009 - the calls in the dataclass name parsers, as dataclasses.field does

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import Field, dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import pytest

from pytest_genderbias.errors import BiasError, StoreError
from pytest_genderbias.escaping import printable
from pytest_genderbias.folders import default_cache
from pytest_genderbias.gates.book_places import Place
from pytest_genderbias.gates.policy import Margin
from pytest_genderbias.measurement.processes import process_count
from pytest_genderbias.models.spec import DTYPES, ModelSpec
from pytest_genderbias.plugin import flag_values as parse
from pytest_genderbias.plugin.bias_item import BiasItem
from pytest_genderbias.plugin.flag_values import Origin
from pytest_genderbias.plugin.flags import FLAGS, PREFIX, Flag, keys_of_ini_file, takes_model
from pytest_genderbias.plugin.workers import is_worker
from pytest_genderbias.text import packaged
from pytest_genderbias.text.printable import close_names, expected_instead
from pytest_genderbias.text.schema import Count, Temperature, at_least, one_of

T = TypeVar("T")
_PARSE = "parse"  #: key of the parser in the metadata of a field


def parsed(parse: Callable[[str, Origin], T] | Callable[[list[str], Origin], T]) -> T:
    """Declare a setting that a parser makes of a text, or of all values of a flag that can be repeated. Without a text
    and a default it is ``None``.
    """
    return cast("T", field(metadata={_PARSE: parse}))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings of a run, checked. Those without a parser are as they were written; properties combine several."""

    models: tuple[ModelSpec, ...] = parsed(parse.models)
    selection: tuple[str, ...] = parsed(parse.suites)
    limit: int | None = parsed(parse.value(Count))
    seed: int = parsed(parse.value(Annotated[int, at_least(0)]))
    options: tuple[tuple[str, str, object], ...] = parsed(parse.suite_options)
    device: str
    dtype: str = parsed(parse.value(Annotated[str, one_of(*DTYPES)]))
    batch_tokens: int | None = parsed(parse.value(Count))
    executor: str = parsed(parse.executor)
    ray: str = parsed(parse.ray_address)
    workers: tuple[int, int] | None = parsed(parse.workers)
    labels: tuple[str, ...] | None = parsed(parse.names)
    trust_remote_code: bool
    tokenizers: tuple[tuple[str, str], ...] = parsed(parse.named_places)
    allow_remote: bool
    endpoint_version: str | None = parsed(parse.one_line)
    endpoint_timeout: int = parsed(parse.value(Count))
    samples: int | None = parsed(parse.value(Count))
    system_prompt: str | None = parsed(parse.text_or_file)
    temperature: float = parsed(parse.value(Temperature))
    max_requests: int = parsed(parse.value(Count))
    max_tokens: int = parsed(parse.value(Count))
    data: Path | None = parsed(parse.data_folder)
    cache_folder: Path | None = parsed(parse.path)
    no_cache: bool
    cache_size: int = parsed(parse.size)
    shared_cache: str | None = parsed(parse.shared_cache)
    baseline: Place = parsed(parse.baseline_folder)
    update_all: bool
    reason: str | None = parsed(parse.one_line)
    update_new: bool
    correct_for: str | int = parsed(parse.correction)
    seeds: int | None = parsed(parse.value(Annotated[int, at_least(2)]))
    compare: bool
    variance: bool
    no_worse_than: str | None
    same_as: str | None
    margin: Margin | None = parsed(parse.margin)
    runs: Path | None = parsed(parse.writable_folder)
    null_control: bool
    null_repeats: int = parsed(parse.value(Annotated[int, at_least(40)]))
    json: Path | None = parsed(parse.file)
    summary: Path | None = parsed(parse.file)
    github: bool
    report: Path | None = parsed(parse.file)
    all_records: bool
    sees: float | None = parsed(parse.growth)
    ability: object = parsed(parse.ability)
    evidence: bool
    strict: bool

    @property
    def suites(self) -> tuple[str, ...]:
        """Names and paths of the suites of ``--bias-suite``, with those that ``all`` stands for."""
        return parse.in_full(self.selection)

    @property
    def compared_with(self) -> str | None:
        """The name of the model that all others are compared with by gates of the flags; ``None`` without such
        gates.
        """
        return self.no_worse_than if self.same_as is None else self.same_as

    @property
    def update(self) -> str:
        """Entries written to the baselines: ``"all"``, ``"new"`` entries, or ``"no"`` entries."""
        return "all" if self.update_all else "new" if self.update_new else "no"

    @property
    def cache(self) -> Path | None:
        """The folder of the score cache; ``None`` without a cache."""
        return None if self.no_cache else self.cache_folder or default_cache()

    @property
    def null(self) -> int:
        """The number of shuffles of each null control; 0 without null controls."""
        return self.null_repeats if self.null_control else 0


SETTINGS = pytest.StashKey[Settings]()


def refuse_misspelt_flags(unknown: Iterable[str]) -> None:
    """Refuse a flag that nearly is one of ours, or that is a key of the ini file, among arguments that pytest does not
    know.

    Raises:
        pytest.UsageError: there is one.
    """
    keys = {flag.name: flag.metavar or "true" for flag in FLAGS.values() if not flag.is_typed_by_name}
    names = [flag.name.removeprefix(PREFIX) for flag in FLAGS.values() if flag.is_typed_by_name]
    for argument in unknown:
        name, _, value = argument.partition("=")
        if not name.startswith(PREFIX):
            continue
        key, instead = name.removeprefix("--").replace("-", "_"), ""
        if key in keys:
            instead = f"it is a key of the ini file; for one run write -o {key}={value or keys[key]}"
        elif near := close_names(name.removeprefix(PREFIX), names):
            instead = expected_instead(name, [PREFIX + one for one in near])
        if instead:
            raise pytest.UsageError(printable(f"unrecognized arguments: {argument}; {instead}"))


def _refuse_misspelt_keys(config: pytest.Config) -> None:
    """Refuse a key of the ini file that nearly is one of ours: pytest only warns of it, and what it should set is not
    set.
    """
    names = [flag.ini_key for flag in FLAGS.values() if flag.has_ini]
    for key in keys_of_ini_file(config):
        if key in names or not key.startswith(("bias_", "bias-")):
            continue
        if near := [name for name in close_names(key, names) if name.startswith("bias_")]:
            raise pytest.UsageError(
                printable(f"unknown key {key!r:.80} in the ini file; {expected_instead(key, near)}")
            )


def read_settings(config: pytest.Config) -> Settings:
    """Return all settings, or raise a usage error that names the flag."""
    _refuse_misspelt_keys(config)
    project = config.invocation_params.dir if taken_for_test_path(config) else config.rootpath
    values = {entry.name: _value(entry, FLAGS[entry.name], config, project) for entry in fields(Settings)}
    settings = Settings(**values)
    _check(settings)
    _check_compared_with(settings, config)
    return settings


def _value(entry: Field[Any], flag: Flag, config: pytest.Config, project: Path) -> Any:
    """Return the value of a setting: from the command line, else from the ini file, else the default."""
    given = flag.given(config)
    if flag.is_switch:
        return bool(given)
    if given is None:
        given = [] if flag.repeatable else flag.default
    parser = entry.metadata.get(_PARSE)
    if given is None or parser is None:
        return given
    folder = config.invocation_params.dir if flag.is_typed(config) else config.rootpath
    origin = Origin(flag.name, folder, project)
    try:
        return parser(given, origin)
    except BiasError as error:
        raise origin.error(str(error)) from None


def _check(settings: Settings) -> None:
    """Reject a run in one of several processes, an update that cannot be stored, and a comparison of one model."""
    if settings.models and process_count() > 1:
        raise pytest.UsageError(
            f"--bias-model: this is one of {process_count()} processes (WORLD_SIZE) that accelerate launch or torchrun"
            " started, and each would measure everything; start pytest without them (several devices score with"
            " -o bias_executor=ray)"
        )
    if settings.update_all and settings.update_new:
        raise pytest.UsageError(
            "--bias-update and --bias-update-new exclude each other; --bias-update accepts new entries too"
        )
    try:
        obstacle = None if settings.update == "no" else parse.not_writable(settings.baseline)
    except StoreError as error:
        raise pytest.UsageError(f"--bias-baseline: {error}") from None
    if obstacle is not None:
        raise pytest.UsageError(
            f"--bias-baseline: {obstacle} cannot be written, so nothing could be accepted; choose another folder"
        )
    if settings.reason and settings.update != "all":
        raise pytest.UsageError("--bias-reason: goes with --bias-update, which accepts what is worse")
    if settings.compare and len(settings.models) < 2:
        names = settings.models[0].name if settings.models else "none"
        raise pytest.UsageError(
            f"--bias-compare: needs two models or more, got {names}; name each with a --bias-model=[NAME=]SPEC"
        )


def _check_compared_with(settings: Settings, config: pytest.Config) -> None:
    """Reject a reference that would leave the gates without effect."""
    name, names = settings.compared_with, [spec.name for spec in settings.models]
    if name is None:
        return
    flag = "--bias-no-worse-than" if settings.same_as is None else "--bias-same-as"
    if settings.same_as is not None and settings.no_worse_than is not None:
        raise pytest.UsageError(
            "--bias-same-as and --bias-no-worse-than exclude each other; a gate file (*.bias.yaml) may have gates of"
            " both kinds"
        )
    if name not in names:
        raise pytest.UsageError(
            f"{flag}: no model {name!r}; the run has {', '.join(names) or 'none'}. Give it with"
            f" --bias-model={name}=SPEC"
        )
    if len(names) < 2:
        raise pytest.UsageError(
            f"{flag}: {name} is the only model; name another to compare with it: --bias-model=[NAME=]SPEC"
        )
    if not settings.suites and FLAGS["no_worse_than" if settings.same_as is None else "same_as"].is_typed(config):
        raise pytest.UsageError(f"{flag}: is for the suites of --bias-suite, and none is named")
    if settings.same_as is not None and settings.margin is None:
        raise pytest.UsageError(
            "--bias-same-as: needs --bias-margin=X, how much a figure may change to either side, in units of the"
            " statistic, or X% of the distance from neutral"
        )


def taken_for_test_path(config: pytest.Config) -> str | None:
    """Return the flag whose path pytest took for a test path, and so for the project's folder; ``None`` if there is
    none.

    pytest looks for the project's settings before it knows the flags of plugins. So it takes the folder in
    ``--bias-data DIR`` for a test path, but not the one in ``--bias-data=DIR``. This holds for the flags of every
    plugin.
    """
    arguments = config.invocation_params.args
    with_value = {flag.name for flag in FLAGS.values() if not flag.is_switch}
    for name, argument in pairwise(arguments):
        path = Path(os.path.abspath(config.invocation_params.dir / str(argument)))
        around = {folder for p in (path, path.resolve()) for folder in (p, *p.parents)}
        if name in with_value and path.exists() and config.rootpath in around:
            return None if config.inipath is not None else f"{name}={argument}"
    return None


def reject_options_of_missing_suites(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Reject an option on the command line for a suite that is neither packaged nor collected.

    Options in the ini file pass, since a run may collect only some suites. All options pass if a collected test in
    Python takes a model, since it may still ask for any suite. A worker of xdist cannot reject its run.
    """
    if is_worker(config):
        return
    typed = any(str(argument).startswith("--bias-option") for argument in config.invocation_params.args)
    if not typed or any(takes_model(item) for item in items):
        return
    known = {*packaged.names("fixtures"), *(item.suite_name for item in items if isinstance(item, BiasItem))}
    for suite, name, _ in config.stash[SETTINGS].options:
        if suite and suite not in known:
            raise pytest.UsageError(
                f"--bias-option: no suite {suite!r} to take the option {name!r}; the suites are"
                f" {', '.join(sorted(known))}"
            )
