"""The flags that show something and run nothing: ``--bias-cache-info``, ``--bias-list`` and ``--bias-show``."""

from __future__ import annotations

import shutil

import pytest

from pytest_genderbias.errors import BiasError
from pytest_genderbias.plugin.cache import cache_information
from pytest_genderbias.plugin.options import Settings, read_settings
from pytest_genderbias.plugin.session import make_runner
from pytest_genderbias.plugin.terminal import print_lines
from pytest_genderbias.text import packaged

_WIDTH = 100  #: columns where the width of the terminal is unknown


def pytest_cmdline_main(config: pytest.Config) -> pytest.ExitCode | None:
    """Print what the user asks to see, and run nothing; without such a flag, leave the run to pytest."""
    if not any(config.getoption(f"genderbias_{name}") for name in ("cache_info", "list", "show")):
        return None
    settings = read_settings(config)
    texts = []
    if settings.cache_info:
        texts.append(cache_information(settings))
    try:
        if settings.list_suites:
            texts.append(_suites(settings))
        texts += [_page(name, settings) for name in settings.show_suites.names]
    except BiasError as error:
        raise pytest.UsageError(str(error)) from None
    print_lines("\n\n\n".join(texts))
    return pytest.ExitCode.OK


def terminal_width() -> int:
    """Return the columns of the terminal."""
    return shutil.get_terminal_size((_WIDTH, 24)).columns


def _suites(settings: Settings) -> str:
    from pytest_genderbias.measurement.fit import fit_of
    from pytest_genderbias.reports.suite_list import list_all, list_fitting

    runner = make_runner(settings, None)
    suites = [runner.suite(name) for name in settings.suites or packaged.names("fixtures")]
    if not settings.models:
        return list_all(suites, terminal_width())
    texts = []
    for spec in settings.models:
        fits = [fit_of(runner, suite, spec) for suite in suites]
        first = spec.for_seed(0) if spec.seeded else spec
        texts.append(list_fitting(spec.name, runner.models.source(first).role.text, fits, terminal_width()))
    return "\n\n\n".join(texts)


def _page(name: str, settings: Settings) -> str:
    from pytest_genderbias.measurement.fit import example_cases, main_work
    from pytest_genderbias.reports.suite_page import show_suite
    from pytest_genderbias.suites.suite import load_suite

    suite = load_suite(name)
    return show_suite(suite, example_cases(suite, settings.data), terminal_width(), main_work(suite, settings.data))
