"""The commands that run pytest: ``measure``, ``compare``, ``list``, ``show`` and ``cache``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_genderbias.command_line.arguments import Typed
from pytest_genderbias.models.spec import ALIASES
from pytest_genderbias.plugin.flags import FLAGS
from pytest_genderbias.suites.suite import suite_names
from pytest_genderbias.text.printable import brief, close_names

#: What pytest is told beside the flags. The plugin is loaded even where pytest loads none by itself, and it is imported
#: before pytest starts, which pytest would warn of.
_BESIDE = "-p genderbias -W 'ignore:Module already imported:pytest.PytestAssertRewriteWarning'"
_WITHOUT_FILES = "-p pytest_genderbias.plugin.without_files"
SAMPLE = 1000  #: cases of a suite where no suites are named: all of them together have millions
_VARIABLE = "PYTEST_ADDOPTS"  #: of pytest: it adds to the command line, and stays out of the commands that a run prints


def carry_out(typed: Typed) -> int:
    """Run pytest, and return its exit status; ``list --aliases`` only prints."""
    if typed.values.get("aliases"):
        wide = max(map(len, ALIASES))
        print("\n".join(f"{alias:{wide}}  {spec}" for alias, spec in ALIASES.items()))
        return 0
    arguments = pytest_arguments(typed)
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = " ".join(filter(None, (before, beside(typed))))
    try:
        return int(pytest.main(arguments))
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before


def beside(typed: Typed) -> str:
    """Return what pytest is told beside the flags: to collect no file where suites alone are measured, or to show
    something and run nothing.
    """
    return _BESIDE if typed.values.get("gates") else f"{_BESIDE} {_WITHOUT_FILES}"


def pytest_arguments(typed: Typed) -> list[str]:
    """Return what pytest is called with.

    Raises:
        UsageError: the command lacks a model, a suite is in the place of one, or a gate file is not there.
    """
    specs = typed.values.get("specs", ())
    _refuse_suites(specs)
    models = [f"--bias-model={spec}" for spec in specs]
    models += [word for override in typed.values.get("overrides", ()) for word in ("-o", override)]
    chosen = typed.values.get("suites") or []
    if typed.command == "cache":
        clear = ["--bias-cache-clear"] if typed.values["clear"] else []
        return ["--bias-cache-info", *clear, *models, *typed.for_pytest()]
    if typed.command == "show":
        return [*(f"--bias-show={name}" for name in chosen), *typed.for_pytest()]
    if typed.command == "compare":
        if len(specs) < 2:
            raise pytest.UsageError(
                "compare takes two models or more: genderbias compare october=./october november=./november"
            )
        models.append("--bias-compare")
    suites = [f"--bias-suite={name}" for name in chosen]
    if typed.command == "list":
        return ["--bias-list", *models, *suites, *typed.for_pytest()]
    arguments = [*models, *typed.for_pytest(), *["-v"] * typed.values["verbose"]]
    return [*arguments, *_what(typed, suites), *typed.rest]


def _refuse_suites(specs: Sequence[str]) -> None:
    """Refuse a suite in the place of a model, before a hub is asked for a model of its name."""
    for spec in specs:
        if "/" in spec or "=" in spec or Path(spec).exists():
            continue
        if near := close_names(spec, suite_names()):
            raise pytest.UsageError(
                f"{brief(spec)} is no model; suites are named with --suite, "
                f"as in genderbias measure demo-lm --suite={near[0]}"
            )


def _what(typed: Typed, suites: list[str]) -> list[str]:
    """Return what is measured: suites or gate files."""
    gates = typed.values["gates"] or []
    if missing := [path for path in gates if not Path(path.partition("::")[0]).exists()]:
        raise pytest.UsageError(f"--gates: no file {missing[0]}")
    if gates:
        return [*suites, *gates]
    if suites:
        return suites
    sample = [] if "limit" in typed.flags else [f"{FLAGS['limit'].name}={SAMPLE}"]
    return [*sample, f"{FLAGS['selection'].name}=all"]
