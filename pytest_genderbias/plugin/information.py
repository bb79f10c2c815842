"""A plugin for ``-p``: pytest shows something and runs nothing, for the commands ``list``, ``show`` and ``cache`` of
``genderbias``.
"""

# ruff: noqa: RUF009 - the calls in the dataclass declare flags, as in plugin/options.py

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_genderbias.errors import BiasError
from pytest_genderbias.escaping import print_lines
from pytest_genderbias.plugin import flag_values as parse
from pytest_genderbias.plugin.cache import cache_information
from pytest_genderbias.plugin.doors import door
from pytest_genderbias.plugin.flags import declared_flags, repeatable, switch
from pytest_genderbias.plugin.options import Settings, read_settings
from pytest_genderbias.plugin.session import make_runner
from pytest_genderbias.text import packaged

_WIDTH = 100  #: columns where the width of the terminal is unknown


@dataclass(frozen=True)
class Asked:
    """What a command wants to see. Each field declares a flag, which pytest has where this plugin is loaded."""

    list_suites: bool = switch("--bias-list", "list suites", ini=False)
    show_suites: parse.SuiteSelection = repeatable("--bias-show", "SUITE,...", parse.suites, "show suites", ini=False)
    cache_info: bool = switch("--bias-cache-info", "show the contents of the score cache", ini=False)
    cache_clear: bool = switch("--bias-cache-clear", "remove all stored scores first", ini=False)


_ASKED = declared_flags(Asked)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the flags."""
    group = parser.getgroup("bias")
    for flag in _ASKED.values():
        flag.register(parser, group)


def pytest_cmdline_main(config: pytest.Config) -> pytest.ExitCode:
    """Print what the user asks to see, and run nothing."""
    values: dict[str, Any] = {name: flag.read(config, config.rootpath) for name, flag in _ASKED.items()}
    asked, settings = Asked(**values), read_settings(config)
    texts = []
    if asked.cache_info:
        texts.append(cache_information(settings, asked.cache_clear, terminal_width()))
    try:
        if asked.list_suites:
            texts.append(_suites(settings))
        texts += [_page(name, settings) for name in asked.show_suites.names]
    except BiasError as error:
        raise pytest.UsageError(str(error)) from None
    print_lines("\n\n\n".join(texts))
    return pytest.ExitCode.OK


def terminal_width() -> int:
    """Return the columns of the terminal."""
    return shutil.get_terminal_size((_WIDTH, 24)).columns


def _suites(settings: Settings) -> str:
    from pytest_genderbias.measurement.fit import fit_of

    runner = make_runner(settings, None)
    suites = [runner.suite(name) for name in settings.suites or packaged.names("fixtures")]
    if not settings.models:
        return str(door("list of suites")(suites, terminal_width()))
    texts = []
    for spec in settings.models:
        fits = [fit_of(runner, suite, spec) for suite in suites]
        first = spec.for_seed(0) if spec.seeded else spec
        role = runner.models.source(first).role.text
        texts.append(door("list of fitting suites")(spec.name, role, fits, terminal_width()))
    return "\n\n\n".join(texts)


def _page(name: str, settings: Settings) -> str:
    from pytest_genderbias.measurement.fit import example_cases, main_work
    from pytest_genderbias.suites.suite import load_suite

    suite = load_suite(name)
    examples, work = example_cases(suite, settings.data), main_work(suite, settings.data)
    return str(door("page of a suite")(suite, examples, terminal_width(), work))
