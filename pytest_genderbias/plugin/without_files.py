"""A plugin for ``-p``, which commands of ``genderbias`` load where pytest is to collect no file of a project.

``measure`` and ``compare`` run suites and nothing else; a run of all suites says how much it measures, and how long
that takes, before it starts. ``list``, ``show`` and ``cache`` show something and run nothing. Workers of xdist load it,
too.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from pytest_genderbias.errors import BiasError
from pytest_genderbias.escaping import print_lines, printable
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.plugin import flag_values as parse
from pytest_genderbias.plugin.cache import cache_information
from pytest_genderbias.plugin.doors import door
from pytest_genderbias.plugin.options import SETTINGS, Settings, read_settings
from pytest_genderbias.plugin.session import make_runner, runner_of
from pytest_genderbias.text import packaged
from pytest_genderbias.text.printable import format_duration

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


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say how much is measured of suites that were not named, and how long it takes."""
    settings = config.stash.get(SETTINGS, None)
    if settings is None or parse.ALL not in settings.selection or not settings.models:
        return []
    try:
        line = _expected_line(config)
    except BiasError:  # the model cannot be read, and each test says so
        return []
    return [printable(line)] if line else []


def _expected_line(config: pytest.Config) -> str:
    """Return what a run of all suites will measure, in one line; an empty text if nothing fits."""
    limit = config.stash[SETTINGS].limit
    specs = [spec.for_seed(0) for spec in config.stash[SETTINGS].models]
    expected = [one for spec in specs for one in _expected(config, spec)]
    cases, of = sum(scored for scored, _, _ in expected), sum(total for _, total, _ in expected)
    if not cases:
        return ""
    sample = "all" if limit is None else f"a sample of {cases:,} of"
    more = (
        ""
        if limit is None
        else f" (at most {limit:,} a suite: --limit=N sets another number, --suite=NAME measures one suite)"
    )
    seconds = [time for _, _, time in expected if time is not None]
    unknown = len(expected) - len(seconds)
    besides = f", besides {unknown} suites whose time is not known" if unknown else ""
    return (
        f"bias: {sample} {of:,} cases{more}; scoring takes about {format_duration(sum(seconds))} on "
        f"{_cores()} cores{besides}, or less with a GPU or stored scores"
    )


def _expected(config: pytest.Config, spec: ModelSpec) -> Iterator[tuple[int, int, float | None]]:
    """Yield what the suites of a run ask one model, as far as its config tells: how many cases are scored, of how many,
    and the seconds, where they are known.
    """
    from pytest_genderbias.measurement.fit import work_of
    from pytest_genderbias.suites.query import TextVectors

    settings, runner = config.stash[SETTINGS], runner_of(config)
    size = _size(runner.models.source(spec).config)
    for name in settings.suites:
        try:
            main = next(iter(runner.plan(runner.suites(name), spec).questions.values()))
        except BiasError:  # it does not fit, and its test says so
            continue
        total = 0 if main.cases is None else main.cases.n_cases
        scored = total if settings.limit is None else min(settings.limit, total)
        work = None if main.cases is None else work_of(main.cases, main.query)
        if main.cases is not None and isinstance(main.query, TextVectors) and main.query.where == "input":
            yield scored, total, 0.0  # a table is read, and no network runs
        elif work is None or size is None or not total:
            yield scored, total, None
        else:
            yield scored, total, work.operations(*size) / _rate(size[1]) * scored / total


def _size(config: object) -> tuple[int, int] | None:
    """Return the number of layers of a network and their width by its config; ``None`` where there is none."""
    layers, width = (getattr(config, key, None) for key in ("num_hidden_layers", "hidden_size"))
    return (layers, width) if isinstance(layers, int) and isinstance(width, int) else None


def _rate(width: int) -> float:
    """Return the operations per second of this machine's cores, as measured with the network of the nearest width."""
    from pytest_genderbias.measurement.fit import CORE, SIZES

    return CORE[min(SIZES, key=lambda name: abs(SIZES[name][1] - width))] * _cores()


def _cores() -> int:
    return os.cpu_count() or 1
