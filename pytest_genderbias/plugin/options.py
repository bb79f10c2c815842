"""The flags of the plugin. Each is declared once, as a field of :class:`Settings`, and can be set in the ini file
unless ``ini=False``. A setting that is rarely needed is a key of the ini file only: its name has no dashes.

To add a flag, add a field; where no parser of :mod:`~pytest_genderbias.plugin.flag_values` fits, add one there.
"""

# ruff: noqa: RUF009 - the calls in the dataclass declare flags, as dataclasses.field does

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from pytest_genderbias.escaping import printable
from pytest_genderbias.folders import default_cache
from pytest_genderbias.gates.margin import Margin
from pytest_genderbias.measurement.processes import process_count
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.plugin import flag_values as parse
from pytest_genderbias.plugin.flags import Switch, declared_flags, repeatable, switch, value
from pytest_genderbias.plugin.items.bias_item import BiasItem, uses_fixture
from pytest_genderbias.plugin.workers import is_worker
from pytest_genderbias.text import packaged
from pytest_genderbias.text.suggestions import close_names, expected_instead

_PREFIX = "--bias-"  #: of every flag
DTYPES = ("float32", "float16", "bfloat16", "float64", "auto")


@dataclass(frozen=True)
class Settings:
    """All settings of a run, checked. Each field declares a flag; properties combine several."""

    models: tuple[ModelSpec, ...] = repeatable(
        "--bias-model", "[NAME=]SPEC", parse.models,
        "model to measure: the directory of a checkpoint, a hub id, an alias (bert-base, bert-large, albert-base, roberta-base, "
        "distilbert, gpt2, ...), module:callable, or demo-mlm, demo-lm, demo-nli, demo (all three). Tables and baselines call it NAME",
    )  # fmt: skip
    selection: parse.SuiteSelection = repeatable(
        "--bias-suite", "SUITE,...", parse.suites,
        "suites to measure in addition to the collected tests: packaged names, paths of suite files (ending in .yaml), or 'all'",
    )  # fmt: skip
    limit: int | None = value(
        "--bias-limit", "N", parse.whole_number(1),
        "score at most N cases of a suite: the first N in its random order, and whole persons for DisCo",
    )  # fmt: skip
    seed: int = value(
        "--bias-seed", "N", parse.whole_number(0), "seed of the random order and of the null controls", default="0"
    )
    options: tuple[parse.SuiteOption, ...] = repeatable(
        "--bias-option", "[SUITE:]NAME=VALUE", parse.suite_options, "option of a suite, as nli-occupation:unit=word_pair"
    )  # fmt: skip
    device: str = value(
        "--bias-device", "DEVICE", parse.as_is, "torch device, as cpu or cuda:1; auto is a GPU if there is one", default="auto"
    )  # fmt: skip
    dtype: str = value(
        "--bias-dtype", "DTYPE", parse.choice(*DTYPES), f"number format of the weights: {', '.join(DTYPES)} (that of each checkpoint)", default="float32"
    )  # fmt: skip
    batch_tokens: int | None = value(
        "--bias-batch-tokens", "N", parse.whole_number(1),
        "tokens in a batch (default: chosen automatically; halved when memory runs out)",
    )  # fmt: skip
    executor: str = value(
        "--bias-executor", "process|ray", parse.executor,
        "where cases are scored: in the process of the run, or by workers of a Ray cluster; needs the extra [ray]", default="process",
    )  # fmt: skip
    ray: str = value(
        "bias_ray", "HOST:PORT|local", parse.ray_address,
        "the cluster of --bias-executor=ray: one that runs, or one of this machine that only its own processes reach and that ends with the run",
        default="local",
    )  # fmt: skip
    workers: tuple[int, int] | None = value(
        "bias_workers", "N[xT]", parse.workers,
        "number of workers of --bias-executor=ray, and threads of each, as 4x2 (default: one of one thread for each CPU, or one for each GPU)",
    )  # fmt: skip
    labels: tuple[str, ...] | None = value(
        "--bias-labels", "A,B,C", parse.names, "names of a classifier's outputs, in order, if its config does not name them"
    )  # fmt: skip
    trust_remote_code: bool = switch("bias_trust_remote_code", "run code that comes with a checkpoint")
    tokenizers: tuple[tuple[str, str], ...] = repeatable(
        "bias_tokenizer", "NAME=DIR", parse.named_places,
        "folder or hub id of the tokenizer of the served model NAME (default: what the server calls the model, which often is one of both)",
    )  # fmt: skip
    allow_remote: bool = switch(
        "bias_allow_remote",
        "send the texts of suites to a server on another machine; without it only servers of this machine are asked",
    )
    endpoint_version: str | None = value(
        "bias_endpoint_version", "TAG", parse.one_line,
        "your word for what a server serves: its scores are cached under it, and not at all without one, since a server can change behind its address",
    )  # fmt: skip
    endpoint_timeout: int = value(
        "bias_endpoint_timeout", "SECONDS", parse.whole_number(1),
        "seconds after which a request to a server is sent again if its answer is not complete; six times, then it is an error",
        default="300",
    )  # fmt: skip
    data: Path | None = value(
        "--bias-data", "DIR", parse.data_folder,
        "folder of your data sets (STS-B, WinoBias, Winogender, GAP, biographies, corpora, ...); docs/reference/data.md describes its layout",
    )  # fmt: skip
    cache_folder: Path = value(
        "--bias-cache", "DIR", parse.path, "folder of the score cache (default: pytest-genderbias in the user's cache folder)",
        default=lambda: str(default_cache()),
    )  # fmt: skip
    no_cache: bool = switch("--bias-no-cache", "do not read or write the score cache")
    cache_size: int = value(
        "bias_cache_size", "SIZE", parse.size,
        "largest size of the score cache, as 500MB, 2GB or 1GiB; the least recently used entries are removed at the end of a run",
        default="10GB",
    )  # fmt: skip
    baseline: Path = value(
        "--bias-baseline", "DIR", parse.baseline_folder,
        "folder of the baselines, relative to the root directory", default="bias_baselines",
    )  # fmt: skip
    update_all: bool = switch(
        "--bias-update", "accept the measured values as the new baseline, and remove unused entries", ini=False
    )
    reason: str | None = value(
        "--bias-reason", "TEXT", parse.one_line,
        "why a worse value is accepted (with --bias-update); it is stored, and listed until the value recovers", ini=False,
    )  # fmt: skip
    update_new: bool = switch(
        "--bias-update-new", "accept the measured values where there is no baseline entry yet", ini=False
    )
    correct_for: str | int = value(
        "--bias-correct-for", "model|module|none|N", parse.correction,
        "the comparisons that the bounds of a worsening hold for together: with a baseline, all gated statistics of the model or of the test's module; "
        "between models, those of the gate file or of the flags; 'none' or a number applies to both", default="model",
    )  # fmt: skip
    seeds: int | None = value(
        "--bias-seeds", "N", parse.whole_number(2),
        "number of restarts: of heads that a suite trains, and of models whose SPEC contains {seed}, as runs/seed-{seed}",
    )  # fmt: skip
    compare: bool = switch(
        "--bias-compare",
        "compare all models with the first one, item by item, on every suite that was measured on two or more: which is"
        " better, by how much, within which bounds, with corrected p values",
        ini=False,
    )
    variance: bool = switch(
        "bias_variance",
        "show where the variance of each value comes from, and so what it hangs on: items, templates, seeds (of several"
        " restarts) and the rest",
    )
    no_worse_than: str | None = value(
        "--bias-no-worse-than", "NAME", parse.as_is,
        "make every suite of --bias-suite a gate: no model may be worse than the model NAME, item by item, beyond what chance "
        "explains, or by more than --bias-margin",
    )  # fmt: skip
    same_as: str | None = value(
        "--bias-same-as", "NAME", parse.as_is,
        "make every suite of --bias-suite a gate: each model should be the same as the model NAME, item by item, neither worse nor better by more "
        "than --bias-margin (a number or a share), as a compressed copy should be",
    )  # fmt: skip
    margin: Margin | None = value(
        "--bias-margin", "X|X%", parse.margin,
        "how much worse a suite of --bias-suite may be than its baseline, or than the model of --bias-no-worse-than, or how different from that of "
        "--bias-same-as: X in units of the statistic, X percent of the distance from neutral then. Without it, a suite may be as much worse as chance explains",
    )  # fmt: skip
    runs: Path | None = value(
        "bias_runs", "DIR", parse.writable_folder,
        "keep the models that mitigations train in DIR: an interrupted training continues, and an identical one is not repeated "
        "(default: a temporary folder that is removed at the end of the run)",
    )  # fmt: skip
    null_control: bool = switch(
        "--bias-null",
        "show the values of each statistic with random groups, labels or directions, computed from the same scores, and"
        " the share of them that is at least as bad as the measured value",
    )
    null_repeats: int = value(
        "bias_null_repeats", "R", parse.whole_number(40), "shuffles of each null control that --bias-null shows", default="200"
    )  # fmt: skip
    json: Path | None = value("--bias-json", "FILE", parse.file, "write all measurements and judgements to FILE")
    summary: Path | None = value(
        "--bias-summary", "FILE", parse.file,
        "write a summary in markdown to FILE, for a comment on a pull request: the verdict, what failed, all gates, the age of the baseline, "
        "and what to type",
    )  # fmt: skip
    github: bool = switch(
        "bias_github",
        "in GitHub Actions, annotate the failed gates in the files that declare them, and append the summary to that of"
        " the job; elsewhere it has no effect",
    )
    report: Path | None = value(
        "--bias-report", "FILE", parse.file,
        "write a report to look at, one HTML page that needs no network: verdicts, figures, pictures and what they mean",
    )  # fmt: skip
    all_records: bool = switch(
        "bias_all_records",
        "keep all records of measurements in the file of --bias-json, for a table of them, and not the ten worst",
    )
    sees: float | None = value(
        "bias_sees", "GROWTH", parse.growth,
        "the growth of bias that a gate without a margin has to see in 80 % of releases to be one, as 50% (the default)",
    )  # fmt: skip
    ability: object = value(
        "bias_ability", "PATH ...|none: REASON", parse.ability,
        "how models show that they can do the task that their bias is measured in: paths of YAML files with control items of your own; or "
        "'none: REASON' to ask none, which every run says",
    )  # fmt: skip
    strict: bool = switch(
        "--bias-strict",
        "fail a run in which a gate may be overlooked: no model is named, nothing is gated, a gate is for no model of"
        " the run, a file that looks like gates is not read, or a suite that --bias-suite names (not by 'all') does not"
        " apply to a model; set it in CI",
    )

    @property
    def suites(self) -> tuple[str, ...]:
        """Names and paths of the suites of ``--bias-suite``."""
        return self.selection.names

    @property
    def compared_with(self) -> str | None:
        """The name of the model that all others are compared with by gates of the flags; ``None`` without such
        gates.
        """
        return self.no_worse_than if self.same_as is None else self.same_as

    @property
    def update(self) -> str:
        """What is written to the baselines: ``"all"``, ``"new"`` entries, or ``"no"`` entries."""
        return "all" if self.update_all else "new" if self.update_new else "no"

    @property
    def cache(self) -> Path | None:
        """The folder of the score cache; ``None`` without a cache."""
        return None if self.no_cache else self.cache_folder

    @property
    def null(self) -> int:
        """The number of shuffles of each null control; 0 without null controls."""
        return self.null_repeats if self.null_control else 0


SETTINGS = pytest.StashKey[Settings]()
FLAGS = declared_flags(Settings)  #: by the name of the field


def add_options(parser: pytest.Parser) -> None:
    """Register flags and ini keys."""
    group = parser.getgroup("bias", "bias regression tests (pytest-genderbias)")
    for flag in FLAGS.values():
        flag.register(parser, group)


def refuse_misspelt_flags(unknown: Iterable[str]) -> None:
    """Refuse a flag that nearly is one of ours, among arguments that pytest does not know.

    Raises:
        pytest.UsageError: there is one.
    """
    names = [flag.name.removeprefix(_PREFIX) for flag in FLAGS.values()]
    for argument in unknown:
        name = argument.partition("=")[0]
        if name.startswith(_PREFIX) and (near := close_names(name.removeprefix(_PREFIX), names)):
            flags = [_PREFIX + one for one in near]
            raise pytest.UsageError(printable(f"unrecognized arguments: {argument}; {expected_instead(name, flags)}"))


def _refuse_misspelt_keys(config: pytest.Config) -> None:
    """Refuse a key of the ini file that nearly is one of ours: pytest only warns of it, and what it should set is not
    set.
    """
    names = [flag.ini_key for flag in FLAGS.values() if flag.has_ini]
    for key in getattr(config, "_inicfg", {}):  # inicfg is deprecated, and nothing public names unknown keys
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
    values = {field: flag.read(config, project) for field, flag in FLAGS.items()}
    settings = Settings(**values)  # type: ignore[arg-type]  # each flag's parser returns the type of its field
    _check_executor(settings)
    _check_update(settings)
    _check_compare(settings)
    _check_compared_with(settings, config)
    return settings


def _check_executor(settings: Settings) -> None:
    if settings.models and process_count() > 1:
        raise pytest.UsageError(
            f"--bias-model: this is one of {process_count()} processes (WORLD_SIZE) that accelerate launch or torchrun"
            " started, and each would measure everything; start pytest without them (several devices score with"
            " --bias-executor=ray)"
        )


def _check_update(settings: Settings) -> None:
    if settings.update_all and settings.update_new:
        raise pytest.UsageError(
            "--bias-update and --bias-update-new exclude each other; --bias-update accepts new entries too"
        )
    if settings.update != "no" and (obstacle := parse.not_writable(settings.baseline)) is not None:
        raise pytest.UsageError(
            f"--bias-baseline: {obstacle} cannot be written, so nothing could be accepted; choose another folder"
        )
    if settings.reason and settings.update != "all":
        raise pytest.UsageError("--bias-reason: goes with --bias-update, which accepts what is worse")


def _check_compare(settings: Settings) -> None:
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
    with_value = {flag.name for flag in FLAGS.values() if not isinstance(flag, Switch)}
    for name, argument in pairwise(arguments):
        path = Path(os.path.abspath(config.invocation_params.dir / str(argument)))
        around = {folder for p in (path, path.resolve()) for folder in (p, *p.parents)}
        if name in with_value and path.exists() and config.rootpath in around:
            return None if config.inipath is not None else f"{name}={argument}"
    return None


def reject_options_of_missing_suites(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Reject an option on the command line for a suite that is neither packaged nor collected.

    Options in the ini file pass, since a run may collect only some suites. All options pass if a collected test in
    Python measures, since it may still ask for any suite. A worker of xdist cannot reject its run.
    """
    if is_worker(config):
        return
    typed = any(str(argument).startswith("--bias-option") for argument in config.invocation_params.args)
    if not typed or any(uses_fixture(item, "bias_measure") for item in items):
        return
    known = {*packaged.names("fixtures"), *(item.suite_name for item in items if isinstance(item, BiasItem))}
    for suite, name, _ in config.stash[SETTINGS].options:
        if suite and suite not in known:
            raise pytest.UsageError(
                f"--bias-option: no suite {suite!r} to take the option {name!r}; the suites are"
                f" {', '.join(sorted(known))}"
            )
