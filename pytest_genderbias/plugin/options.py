"""Flags and ini keys. Every flag that a project would fix has an ini key of the same name."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pytest_genderbias.errors import ModelError
from pytest_genderbias.models.spec import ModelSpec, parse_specs
from pytest_genderbias.text import packaged
from pytest_genderbias.text.printable import printable


@dataclass(frozen=True)
class Settings:
    """All settings of a run, checked."""

    models: tuple[ModelSpec, ...]
    suites: tuple[str, ...]
    limit: int | None
    seed: int
    batch_tokens: int | None
    device: str
    dtype: str
    labels: tuple[str, ...] | None
    trust_remote_code: bool
    data: Path | None
    cache: Path | None
    cache_size: int
    cache_clear: bool
    baseline: Path
    update: str
    reason: str | None
    inconclusive: str
    stale: str
    family: str | int
    seeds: int | None
    null: int
    compare: bool
    no_worse_than: str | None
    json: Path | None
    strict: bool
    all_suites: bool
    options: tuple[tuple[str, str, Any], ...]
    runs: Path | None = None


SETTINGS = pytest.StashKey[Settings]()
DTYPES = ("float32", "float16", "bfloat16", "float64")

#: flag, kind (value, flag, list), metavar, ini key or not, help.
_FLAGS: tuple[tuple[str, str, str, bool, str], ...] = (
    ("--bias-model", "list", "[NAME=]SPEC", True,
     "model to measure: a checkpoint's directory, a hub id, an alias (bert-base, bert-large, albert-base, roberta-base, distilbert, gpt2, "
     "...), module:callable, or demo-mlm, demo-lm, demo-nli, demo (all three). NAME is what tables and baselines call it. Repeatable"),
    ("--bias-suite", "list", "SUITE,...", True,
     "suites to measure beside the collected tests: packaged names, paths of suite files (ending in .yaml), or 'all'"),
    ("--bias-limit", "value", "N", True, "score at most N cases of a suite: the front of its random order, whole persons for DisCo"),
    ("--bias-seed", "value", "N", True, "seed of the random order and of the null controls (default: 0)"),
    ("--bias-option", "list", "[SUITE:]NAME=VALUE", True, "option of a suite, as nli-occupation:unit=word_pair. Repeatable"),
    ("--bias-device", "value", "DEVICE", True, "torch device, as cpu or cuda:1 (default: a GPU where there is one)"),
    ("--bias-dtype", "value", "DTYPE", True, f"number format of the weights: {', '.join(DTYPES)} (default: float32)"),
    ("--bias-batch-tokens", "value", "N", True, "tokens in a batch (default: found automatically; out of memory halves it)"),
    ("--bias-labels", "value", "A,B,C", True, "names of a classifier's outputs in their order, where its config does not say"),
    ("--bias-trust-remote-code", "flag", "", True, "run code that comes with a checkpoint"),
    ("--bias-data", "value", "DIR", True,
     "folder of your data sets (STS-B, WinoBias, Winogender, GAP, biographies, corpora, ...), laid out as docs/data.md says"),
    ("--bias-cache", "value", "DIR", True, "folder of the score cache (default: pytest-genderbias in the user's cache folder)"),
    ("--bias-no-cache", "flag", "", True, "neither read nor write the score cache"),
    ("--bias-cache-size", "value", "SIZE", True,
     "size of the score cache, as 500MB, 2GB or 1GiB (default: 10GB): what was used least recently goes at the end of a run, not while it writes"),
    ("--bias-cache-info", "flag", "", False, "show what the score cache holds, by suite and model, and run nothing"),
    ("--bias-cache-clear", "flag", "", False, "remove all stored scores before the run, but for those that another process is using"),
    ("--bias-baseline", "value", "DIR", True, "folder of the baselines (default: bias_baselines in the root directory)"),
    ("--bias-update", "flag", "", False, "accept what is measured as the new baseline, and remove unused entries"),
    ("--bias-reason", "value", "TEXT", False, "why a worse value is accepted (with --bias-update); stored with it, and listed while it is in force"),
    ("--bias-update-new", "flag", "", False, "accept what is measured where there is no baseline entry yet"),
    ("--bias-inconclusive", "value", "fail|warn", True, "what a gate does whose bounds decide neither way (default: fail)"),
    ("--bias-stale", "value", "fail|warn", True, "what a gate does whose model is better than its baseline beyond the tolerance (default: warn)"),
    ("--bias-family", "value", "model|module|none|N", True,
     "the comparisons that 'regressed' is corrected for: with a baseline all gated statistics of the model (default) or those of the test's module; "
     "between models those of the gate file or the flags; none, or a number, holds for both"),
    ("--bias-seeds", "value", "N", True,
     "restarts of what is trained: heads of suites that train one, and models whose SPEC holds {seed}, as runs/seed-{seed}"),
    ("--bias-compare", "flag", "", False,
     "compare the models on every suite that was measured on two or more, item by item, each with the first-named one: which is better, by "
     "how much, within which bounds, with corrected p values"),
    ("--bias-no-worse-than", "value", "NAME", True,
     "every suite of --bias-suite is a gate: no model may be worse than the one of this name, item by item. The tolerance is 0; "
     "'no_worse_than' in a gate file takes a tolerance"),
    ("--bias-runs", "value", "DIR", True,
     "keep the models that mitigations train in DIR: a training that was stopped goes on there, and an equal one is not repeated "
     "(default: a temporary folder, which goes with the run)"),
    ("--bias-null", "flag", "", True,
     "show what random groups, labels or directions make of each statistic, from the scores at hand, and the value's place among them"),
    ("--bias-null-repeats", "value", "R", True, "shuffles of each null control that --bias-null shows (default: 200)"),
    ("--bias-json", "value", "FILE", True, "write everything that was measured and judged to FILE"),
    ("--bias-strict", "flag", "", True, "a suite that does not apply to a model, or no model named, is a failure and not a skip"),
)  # fmt: skip


def add_options(parser: pytest.Parser) -> None:
    """Register flags and ini keys."""
    group = parser.getgroup("bias", "bias regression tests (pytest-genderbias)")
    for flag, kind, metavar, has_ini, text in _FLAGS:
        dest = _dest(flag)
        if kind == "flag":
            group.addoption(flag, dest=dest, action="store_true", default=None, help=text)
        else:
            group.addoption(
                flag,
                dest=dest,
                action="append" if kind == "list" else "store",
                default=None,
                metavar=metavar,
                help=text,
            )
        if has_ini:
            ini_type: Any = {"list": "args", "flag": "bool", "value": "string"}[kind]
            parser.addini(_ini(flag), f"default of {flag}: {text}", type=ini_type, default=None)


def _dest(flag: str) -> str:
    return f"genderbias_{flag.removeprefix('--bias-').replace('-', '_')}"


def _ini(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def read_settings(config: pytest.Config) -> Settings:
    """Return all settings, or raise a usage error that names the flag."""

    def given(flag: str) -> Any:
        value = config.getoption(_dest(flag))
        if value is None and any(f[0] == flag and f[3] for f in _FLAGS):
            value = config.getini(_ini(flag))
        return value or None

    def base(flag: str) -> Path:
        """A path on the command line starts where the user is, one in the ini file at the root directory."""
        return config.rootpath if config.getoption(_dest(flag)) is None else config.invocation_params.dir

    try:
        models = tuple(parse_specs(given("--bias-model") or []))
    except ModelError as error:
        raise pytest.UsageError(f"--bias-model: {error}") from None
    if given("--bias-update") and given("--bias-update-new"):
        raise pytest.UsageError(
            "--bias-update and --bias-update-new exclude each other; --bias-update accepts new entries too"
        )
    update = "all" if given("--bias-update") else "new" if given("--bias-update-new") else "no"
    suites = _suites(given("--bias-suite") or [], base("--bias-suite"))
    dtype = _choice("--bias-dtype", given("--bias-dtype") or "float32", DTYPES)
    for flag in ("--bias-cache-info", "--bias-cache-clear"):
        if given(flag) and given("--bias-no-cache"):
            raise pytest.UsageError(f"{flag}: there is no score cache with --bias-no-cache; leave one of them out")
    labels = given("--bias-labels")
    seed = _whole("--bias-seed", given("--bias-seed"), 0)
    root = config.invocation_params.dir if taken_for_test_path(config) else config.rootpath
    baseline = root / (given("--bias-baseline") or "bias_baselines")
    if update != "no":
        _check_writable(baseline)
    return Settings(
        models=models,
        suites=suites,
        limit=_whole("--bias-limit", given("--bias-limit"), 1),
        seed=seed or 0,
        batch_tokens=_whole("--bias-batch-tokens", given("--bias-batch-tokens"), 1),
        device=given("--bias-device") or "auto",
        dtype=dtype,
        labels=tuple(part.strip() for part in labels.split(",")) if labels else None,
        trust_remote_code=bool(given("--bias-trust-remote-code")),
        data=_data(given("--bias-data"), base("--bias-data")),
        cache=_cache(given("--bias-cache"), bool(given("--bias-no-cache")), base("--bias-cache")),
        cache_size=_size("--bias-cache-size", given("--bias-cache-size") or "10GB"),
        cache_clear=bool(given("--bias-cache-clear")),
        baseline=baseline,
        update=update,
        reason=_reason(given("--bias-reason"), update),
        inconclusive=_choice("--bias-inconclusive", given("--bias-inconclusive") or "fail", ("fail", "warn")),
        stale=_choice("--bias-stale", given("--bias-stale") or "warn", ("fail", "warn")),
        family=_family(given("--bias-family") or "model"),
        seeds=_whole("--bias-seeds", given("--bias-seeds"), 2),
        null=_null(config, bool(given("--bias-null")), given("--bias-null-repeats")),
        compare=_compare(bool(given("--bias-compare")), models),
        no_worse_than=_reference(config, given("--bias-no-worse-than"), models, suites),
        json=None if given("--bias-json") is None else base("--bias-json") / given("--bias-json"),
        strict=bool(given("--bias-strict")),
        all_suites="all" in _split(given("--bias-suite") or []),
        options=tuple(_option(text) for text in given("--bias-option") or []),
        runs=_runs(given("--bias-runs"), base("--bias-runs")),
    )


def taken_for_test_path(config: pytest.Config) -> str | None:
    """Return the flag whose path pytest took for a test path, and so for the project, or nothing.

    pytest looks for the project's settings before it knows the flags of plugins, so ``--bias-data DIR`` names a folder where
    ``--bias-data=DIR`` does not (as it does for every plugin).
    """
    given = config.invocation_params.args
    valued = {flag for flag, kind, *_ in _FLAGS if kind != "flag"}
    for flag, value in pairwise(given):
        path = Path(os.path.abspath(config.invocation_params.dir / str(value)))
        around = {folder for p in (path, path.resolve()) for folder in (p, *p.parents)}
        if flag in valued and path.exists() and config.rootpath in around:
            return None if config.inipath is not None else f"{flag}={value}"
    return None


def _split(texts: list[str]) -> list[str]:
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def _suites(texts: list[str], base: Path) -> tuple[str, ...]:
    known = packaged.names("fixtures")
    found: list[str] = []
    for name in _split(texts):
        if name.endswith((".yaml", ".yml")):
            path = base / Path(name).expanduser()
            if not path.is_file():
                raise pytest.UsageError(f"--bias-suite: no file {path}")
            found.append(str(path))
        elif name == "all":
            found.extend(known)
        elif name in known:
            found.append(name)
        else:
            raise pytest.UsageError(
                f"--bias-suite: no suite {name!r}; expected 'all', the path of a .yaml file, or one of {', '.join(known)}"
            )
    return tuple(dict.fromkeys(found))


def _whole(flag: str, text: Any, least: int) -> int | None:
    if text is None:
        return None
    if not str(text).replace("_", "").isdigit() or int(str(text)) < least:
        raise pytest.UsageError(f"{flag}: expected a whole number of at least {least}, got {text!r}")
    return int(str(text))


_UNITS = {
    "": 1,
    **{f"{p}b": 1000**n for n, p in enumerate(["", *"kmgt"])},
    **{f"{p}ib": 1024**n for n, p in enumerate("kmgt", 1)},
}


def _size(flag: str, text: str) -> int:
    """Return a size in bytes: ``500MB``, ``1.5 GiB``, ``1000``."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)", str(text).strip().lower())
    if match is None or match[2] not in _UNITS:
        raise pytest.UsageError(
            f"{flag}: expected a size such as 500MB, 2GB or 1GiB, or a number of bytes, got {text!r}"
        )
    return int(float(match[1]) * _UNITS[match[2]])


def _choice(flag: str, text: str, choices: tuple[str, ...]) -> str:
    if text not in choices:
        raise pytest.UsageError(f"{flag}: expected one of {', '.join(choices)}, got {text!r}")
    return text


def _family(text: str) -> str | int:
    if str(text).isdigit() and int(text) > 0:
        return int(text)
    if text not in ("model", "module", "none"):
        raise pytest.UsageError(
            f"--bias-family: expected model, module, none, or a whole number of at least 1, got {text!r}"
        )
    return text


def _compare(asked: bool, models: tuple[ModelSpec, ...]) -> bool:
    if asked and len(models) < 2:
        given = f"got {models[0].name}" if models else "got none"
        raise pytest.UsageError(
            f"--bias-compare: needs two models or more, {given}; name each with a --bias-model=[NAME=]SPEC"
        )
    return asked


def _reference(
    config: pytest.Config, name: str | None, models: tuple[ModelSpec, ...], suites: tuple[str, ...]
) -> str | None:
    """Check the name of the model that no other may be worse than: without it, or another, a gate would silently be none."""
    if name is None:
        return None
    names = [spec.name for spec in models]
    if name not in names:
        raise pytest.UsageError(
            f"--bias-no-worse-than: no model {name!r}; the run has {', '.join(names) or 'none'}. Give it with --bias-model={name}=SPEC"
        )
    if len(names) < 2:
        raise pytest.UsageError(
            f"--bias-no-worse-than: {name} is the only model; name another to compare with it: --bias-model=[NAME=]SPEC"
        )
    if not suites and config.getoption(_dest("--bias-no-worse-than")) is not None:
        raise pytest.UsageError("--bias-no-worse-than: is for the suites of --bias-suite, and none is named")
    return name


def _null(config: pytest.Config, wanted: bool, repeats: Any) -> int:
    """Return the number of shuffles, 0 where nobody wants them; so many at least that 2.5 % of them are one."""
    if not wanted and config.getoption(_dest("--bias-null-repeats")) is not None:
        raise pytest.UsageError("--bias-null-repeats: goes with --bias-null, which shows the null controls")
    number = _whole("--bias-null-repeats", repeats, 40) or 200
    return number if wanted else 0


def _reason(text: str | None, update: str) -> str | None:
    reason = printable(" ".join((text or "").split()))
    if reason and update != "all":
        raise pytest.UsageError("--bias-reason: goes with --bias-update, which accepts what is worse")
    return reason or None


def _option(text: str) -> tuple[str, str, Any]:
    name, equals, value = text.partition("=")
    suite, _, option = name.rpartition(":")
    if not equals or not option:
        raise pytest.UsageError(f"--bias-option: expected [SUITE:]NAME=VALUE, got {text!r}")
    import yaml

    from pytest_genderbias.text.located_yaml import Loader

    if not suite.strip():
        _refuse_unknown_option(option.strip())
    try:
        return suite.strip(), option.strip(), yaml.load(value, Loader)  # noqa: S506 - a safe one
    except (yaml.YAMLError, ValueError):  # the latter is a date that does not exist
        raise pytest.UsageError(f"--bias-option: {value!r} is no value; put it in quotes") from None


def _refuse_unknown_option(name: str) -> None:
    """Refuse an option that no suite has: it would go to none, and nobody would notice."""
    from pytest_genderbias.suites.registry import FAMILIES

    known = {option for family in FAMILIES.values() for option in family.options}
    if name not in known:
        raise pytest.UsageError(
            f"--bias-option: no suite has an option {name!r}; expected one of {', '.join(sorted(known))}"
        )


def refuse_unknown_suites(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse an option, typed for this run, of a suite that is neither packaged nor collected.

    Options that a project sets for all its runs pass, for a run may collect a part of its suites; so do those that a test in
    Python may still ask for. A worker of xdist cannot refuse its run.
    """
    if hasattr(config, "workerinput"):
        return
    typed = any(str(arg).startswith("--bias-option") for arg in config.invocation_params.args)
    if not typed or any("bias_measure" in getattr(item, "fixturenames", ()) for item in items):
        return
    suites = [item.suite for item in items if hasattr(item, "suite")]
    known = {*packaged.names("fixtures"), *(Path(str(getattr(suite, "path", suite))).stem for suite in suites)}
    for suite, name, _ in config.stash[SETTINGS].options:
        if suite and suite not in known:
            raise pytest.UsageError(
                f"--bias-option: no suite {suite!r} to take the option {name!r}; the suites are {', '.join(sorted(known))}"
            )


def _cache(folder: str | None, off: bool, base: Path) -> Path | None:
    if off:
        return None
    if folder is not None:
        return base / Path(folder).expanduser()
    from pytest_genderbias.folders import default_cache

    return default_cache()


def _data(folder: str | None, base: Path) -> Path | None:
    if folder is None:
        return None
    path = base / Path(folder).expanduser()
    if not path.is_dir():
        raise pytest.UsageError(f"--bias-data: no folder {path}; its layout is in docs/data.md")
    return path


def _runs(folder: str | None, base: Path) -> Path | None:
    if folder is None:
        return None
    path = base / Path(folder).expanduser()
    if (nearest := _unwritable(path)) is not None:
        raise pytest.UsageError(
            f"--bias-runs: {nearest} cannot be written, so no run could be kept; choose another folder"
        )
    return path


def _check_writable(folder: Path) -> None:
    if (nearest := _unwritable(folder)) is not None:
        raise pytest.UsageError(
            f"--bias-baseline: {nearest} cannot be written, so nothing could be accepted; choose another folder"
        )


def _unwritable(folder: Path) -> Path | None:
    """Return what keeps a folder from being written or made: itself or the nearest above it; ``None`` if nothing does."""
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    return None if nearest.is_dir() and os.access(nearest, os.W_OK) else nearest
