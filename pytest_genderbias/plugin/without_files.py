"""A plugin for ``-p``, which commands of ``genderbias`` load where pytest is to collect no file of a project.

``measure`` and ``compare`` run suites and nothing else. ``list``, ``show`` and ``cache`` show something and run
nothing. Workers of xdist load it, too.
"""

from __future__ import annotations

import shutil

import pytest

from pytest_genderbias.errors import BiasError
from pytest_genderbias.escaping import print_lines
from pytest_genderbias.plugin import flag_values as parse
from pytest_genderbias.plugin.cache import cache_information
from pytest_genderbias.plugin.doors import door
from pytest_genderbias.plugin.options import Settings, read_settings
from pytest_genderbias.plugin.session import make_runner
from pytest_genderbias.text import packaged

_WIDTH = 100  #: columns where the width of the terminal is unknown


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register what the commands ask with."""
    group = parser.getgroup("bias")
    group.addoption("--bias-list", action="store_true", help="list suites")
    group.addoption("--bias-show", action="append", default=[], metavar="SUITE,...", help="show suites. Repeatable")
    group.addoption("--bias-cache-info", action="store_true", help="show the contents of the score cache")
    group.addoption("--bias-cache-clear", action="store_true", help="remove all stored scores first")


def pytest_cmdline_main(config: pytest.Config) -> pytest.ExitCode | None:
    """Print what the user asks to see, and run nothing; go on where nothing is asked."""
    clear = config.getoption("bias_cache_clear")
    if not (clear or any(config.getoption(name) for name in ("bias_list", "bias_show", "bias_cache_info"))):
        return None
    shown = parse.suites(
        config.getoption("bias_show"), parse.Origin("genderbias show", config.invocation_params.dir, config.rootpath)
    )
    settings, texts = read_settings(config), []
    if clear or config.getoption("bias_cache_info"):
        texts.append(cache_information(settings, clear, terminal_width()))
    try:
        if config.getoption("bias_list"):
            texts.append(_suites(settings))
        texts += [_page(name, settings) for name in parse.in_full(shown)]
    except BiasError as error:
        raise pytest.UsageError(str(error)) from None
    print_lines("\n\n\n".join(texts))
    return pytest.ExitCode.OK


def terminal_width() -> int:
    """Return the columns of the terminal."""
    return shutil.get_terminal_size((_WIDTH, 24)).columns


def _suites(settings: Settings) -> str:
    from pytest_genderbias.measurement.fit import fit_of, start_set

    runner = make_runner(settings, None)
    suites = [runner.suites(name) for name in settings.suites or packaged.names("fixtures")]
    if not settings.models:
        return str(door("list of suites")(suites, terminal_width()))
    texts = []
    for spec in settings.models:
        fits = [fit_of(runner, suite, spec) for suite in suites]
        role = runner.models.source(spec.for_seed(0)).role
        first = start_set(role.kind, {fit.suite.name: fit for fit in fits}.get, spec.seeded)
        texts.append(door("list of fitting suites")(spec.name, role.text, fits, first, terminal_width()))
    return "\n\n\n".join(texts)


def _page(name: str, settings: Settings) -> str:
    from pytest_genderbias.measurement.fit import example_cases, main_work
    from pytest_genderbias.suites.suite import load_suite

    suite = load_suite(name)
    examples, work = example_cases(suite, settings.data), main_work(suite, settings.data)
    return str(door("page of a suite")(suite, examples, terminal_width(), work))


# Measuring.


def pytest_ignore_collect() -> bool:
    """Ignore every file and folder."""
    return True
