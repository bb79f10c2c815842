"""The pytest plugin ``genderbias``.

In come flags, ini keys, gate files, and tests in Python that use the fixtures; out go tests, their outcomes, baselines
and the report. The plugin collects, skips, fails and prints; measuring and judging is done by the other rooms, which do
not know pytest. No other room imports this one. Loading it imports no torch, transformers, scipy or numpy.

Flags are declared in ``options``. ``items`` holds the tests that flags and gate files declare. What a test measures and
judges is recorded in its outcome (``outcomes``), which travels on its report (``reported``) to the ``ledger`` of the
run. The ledger writes baselines (``acceptance``) and prints the summary, which another room makes (``doors``).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from pytest_genderbias.errors import GateError
from pytest_genderbias.escaping import printable
from pytest_genderbias.plugin.cache import keep_cache
from pytest_genderbias.plugin.fixtures import (
    bias_baseline,
    bias_measure,
    bias_mitigation,
    bias_model,
    bias_model_spec,
    bias_session_measure,
    bias_suite,
)
from pytest_genderbias.plugin.interruptions import Interruptions
from pytest_genderbias.plugin.items.bias_item import BiasItem, keep_node_id
from pytest_genderbias.plugin.ledger import Ledger
from pytest_genderbias.plugin.markers import HELP, gate_marker, mark
from pytest_genderbias.plugin.options import (
    SETTINGS,
    add_options,
    read_settings,
    refuse_misspelt_flags,
    reject_options_of_missing_suites,
    taken_for_test_path,
)
from pytest_genderbias.plugin.outcomes import attach, explain_timeout, forget, measures, running
from pytest_genderbias.plugin.progress import show_workers
from pytest_genderbias.plugin.runs import keep_runs
from pytest_genderbias.plugin.unjudged import GateKeeper
from pytest_genderbias.plugin.unread_gates import ENDINGS

__all__ = [
    "bias_baseline",
    "bias_measure",
    "bias_mitigation",
    "bias_model",
    "bias_model_spec",
    "bias_session_measure",
    "bias_suite",
]

_LEDGER = pytest.StashKey[Ledger]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the flags and ini keys."""
    add_options(parser)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> Iterator[None]:
    """Say which flag may have been meant by an unknown one, once those of the project's conftest files are known."""
    yield
    known, unknown = parser.parse_known_and_unknown_args(args)
    refuse_misspelt_flags(
        [*unknown, *known.file_or_dir]
    )  # argparse takes an unknown flag with a space in its value for a path


def pytest_configure(config: pytest.Config) -> None:
    """Read all settings, so that a wrong one is a usage error of one line."""
    config.addinivalue_line("markers", HELP)
    config.stash[SETTINGS] = read_settings(config)
    keep_cache(config)
    keep_runs(config)
    show_workers(config)
    config.stash[_LEDGER] = Ledger(config)
    config.pluginmanager.register(config.stash[_LEDGER], "genderbias-ledger")
    config.pluginmanager.register(GateKeeper(), "genderbias-gate-keeper")
    config.pluginmanager.register(Interruptions(), "genderbias-interruptions")


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Show the models, and the settings that figures depend on."""
    settings, mistaken = config.stash[SETTINGS], taken_for_test_path(config)
    lines = []
    if mistaken:
        lines.append(
            "bias: pytest took a folder after a space for the root of the project, and did not read the project's"
            f" settings; write {mistaken}"
        )
    if not settings.models:
        return [printable(line) for line in lines]
    limit = "" if settings.limit is None else f", at most {settings.limit:,} cases a suite"
    names = ", ".join(spec.name for spec in settings.models)
    lines.append(
        f"bias: {names}; seed {settings.seed},"
        f" {'each checkpoint in its own number format' if settings.dtype == 'auto' else settings.dtype}, device"
        f" {settings.device}{limit}"
    )
    return [printable(line) for line in lines]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes ``bias_model`` once for every ``--bias-model`` that its marker names, by default for
    all.
    """
    if "bias_model_spec" in metafunc.fixturenames:
        try:
            marker = gate_marker(metafunc.definition)
        except GateError as error:
            raise pytest.Collector.CollectError(str(error)) from None
        specs = [spec for spec in metafunc.config.stash[SETTINGS].models if marker.judges(spec.name)]
        ids = [spec.name for spec in specs] or ["no-model"]
        metafunc.parametrize("bias_model_spec", specs or [None], ids=ids, indirect=True, scope="session")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect ``*.bias.yaml`` and ``*.bias.yml`` files."""
    if not file_path.name.endswith(ENDINGS):
        return None
    from pytest_genderbias.plugin.items.files import BiasFile

    return BiasFile.at(parent, file_path)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the suites of ``--bias-suite``, and mark tests that measure."""
    if config.stash[SETTINGS].suites:
        from pytest_genderbias.plugin.items.suites import suite_items

        items.extend(suite_items(session))
    reject_options_of_missing_suites(config, items)
    for item in items:
        keep_node_id(item)
        if measures(item):
            mark(item, declared=isinstance(item, BiasItem))
    try:
        config.stash[_LEDGER].collected(items)
    except GateError as error:  # a wrong marker of a unittest.TestCase, whose tests pytest does not generate
        raise pytest.UsageError(str(error)) from None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Apply the policy of the run to the setup, call and teardown of a test that measures, and record its
    judgements.
    """
    with running(item):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Forget the outcome of an earlier run of the same test, which a plugin may have repeated."""
    forget(item)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the outcome of a test to its report, as other plugins leave it; it also reaches the controller of
    xdist.
    """
    report = yield
    attach(item, report)
    explain_timeout(item, report)
    return report
