"""The plugin at work: what it does in a run that uses it, from the settings to the fixtures."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

import pytest

from pytest_genderbias.errors import BiasError, GateError, NotApplicableError, SettingError
from pytest_genderbias.escaping import printable
from pytest_genderbias.models.spec import CHAT
from pytest_genderbias.plugin import outcomes, unjudged
from pytest_genderbias.plugin.bias_item import NODE_ID, BiasItem, gate_marker
from pytest_genderbias.plugin.ledger import Ledger
from pytest_genderbias.plugin.options import (
    SETTINGS,
    read_settings,
    reject_options_of_missing_suites,
    taken_for_test_path,
)
from pytest_genderbias.plugin.progress import WorkersOnOneLine
from pytest_genderbias.plugin.session import RUNS, TEMPORARY, choose_temporary, mitigations_of, runner_of
from pytest_genderbias.plugin.workers import WorkerNode, is_worker, send_to_worker
from pytest_genderbias.text.printable import counted

if TYPE_CHECKING:
    from pytest_genderbias.gates.baseline import Baseline
    from pytest_genderbias.gates.limits import Limit
    from pytest_genderbias.measurement.measurement import Measurement
    from pytest_genderbias.models.model import Model
    from pytest_genderbias.suites.suite import Suite


class Work:
    """The plugin in one run: hooks of pytest, and what the fixtures return."""

    def __init__(self, config: pytest.Config) -> None:
        """Read all settings, so that a wrong one is a usage error of one line."""
        self._config = config
        self._settings = config.stash[SETTINGS] = read_settings(config)
        choose_temporary(config)
        if not is_worker(config):
            if self._settings.cache is not None and self._settings.models:
                from pytest_genderbias.plugin.cache import CacheKeeper

                keeper = CacheKeeper(self._settings.cache, self._settings.cache_size)
                config.pluginmanager.register(keeper, "genderbias-cache")
            config.pluginmanager.register(WorkersOnOneLine(config), "genderbias-progress")
        self._too_dear: SettingError | None = None
        self._ledger = Ledger(config)
        config.pluginmanager.register(self._ledger, "genderbias-ledger")
        config.pluginmanager.register(unjudged, "genderbias-gate-keeper")

    # Hooks.

    def pytest_report_header(self) -> list[str]:
        """Show the models, and the settings that figures depend on."""
        settings, mistaken = self._settings, taken_for_test_path(self._config)
        lines = []
        if mistaken:
            lines.append(
                "bias: pytest took a folder after a space for the root of the project, and did not read the project's"
                f" settings; write {mistaken}"
            )
        if settings.models:
            names = ", ".join(spec.name for spec in settings.models)
            dtype = "each checkpoint in its own number format" if settings.dtype == "auto" else settings.dtype
            limit = "" if settings.limit is None else f", at most {counted(settings.limit, 'cases')} a suite"
            seeds = "" if settings.seeds is None else f", {counted(settings.seeds, 'restarts')}"
            own = "; a gate may set its own seed, limit and restarts" if settings.seed or limit or seeds else ""
            lines.append(f"bias: {names}; seed {settings.seed}, {dtype}, device {settings.device}{limit}{seeds}{own}")
        return [printable(line) for line in lines]

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerNode) -> None:
        """Send a worker of xdist what it does not know of the run."""
        send_to_worker(self._config, node)
        node.workerinput[RUNS] = str(self._config.stash[TEMPORARY])

    def parametrize(self, metafunc: pytest.Metafunc) -> None:
        """Run a test that takes ``bias_model`` once for every ``--bias-model`` that its marker names, by default for
        all.
        """
        try:
            marker = gate_marker(metafunc.definition)
        except GateError as error:
            raise pytest.Collector.CollectError(str(error)) from None
        specs = [spec for spec in self._settings.models if marker.judges(spec.name)]
        ids = [spec.name for spec in specs] or ["no-model"]
        metafunc.parametrize("bias_model_spec", specs or [None], ids=ids, indirect=True, scope="session")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        """Collect; whatever an interruption was turned into is one again."""
        with _plain():
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Add the suites of ``--bias-suite``, and mark tests that measure."""
        if self._settings.suites:
            from pytest_genderbias.plugin.items import suite_items

            items.extend(suite_items(session))
        reject_options_of_missing_suites(self._config, items)
        for item in items:
            item.stash[NODE_ID] = item.nodeid
            if outcomes.measures(item):
                mark(item, declared=isinstance(item, BiasItem))
        try:
            self._ledger.collected(items)
        except GateError as error:  # a wrong marker of a unittest.TestCase, whose tests pytest does not generate
            raise pytest.UsageError(str(error)) from None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Run the tests; whatever an interruption was turned into is one again."""
        with _plain():
            self._say_what_is_asked(session)
            return (yield)

    def _say_what_is_asked(self, session: pytest.Session) -> None:
        """Say what chat endpoints are asked in all; where that is more than a run may send, it ends here.

        A worker of xdist cannot end its run, and fails each test that would ask.
        """
        if not any(spec.kind == CHAT for spec in self._settings.models) or self._config.option.collectonly:
            return
        from pytest_genderbias.plugin.items import expected_of

        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        try:
            for line in runner_of(self._config).expect_replies(expected_of(session.items)):
                if reporter is not None:
                    reporter.write_line(printable(f"bias: {line}"))
        except SettingError as error:
            if not is_worker(self._config):
                raise pytest.UsageError(printable(str(error))) from None
            self._too_dear = error

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Fail a test of a worker that would ask an endpoint more than the run may."""
        if self._too_dear is not None and isinstance(item, BiasItem) and item.spec and item.spec.kind == CHAT:
            raise self._too_dear.with_traceback(None)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Apply the policy of the run to the setup, call and teardown of a test that measures, and record its
        judgements.
        """
        with outcomes.running(item):
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Forget the outcome of an earlier run of the same test, which a plugin may have repeated."""
        outcomes.forget(item)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Attach the outcome of a test to its report, as other plugins leave it; it also reaches the controller of
        xdist.
        """
        report = yield
        outcomes.attach(item, report)
        outcomes.explain_timeout(item, report)
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Leave out places without a line, as Python 3.11 has where a ``with`` begins: pytest counts on one."""
        if excinfo.tb is not None:
            entries = zip(excinfo.traceback, walk_tb(excinfo.tb), strict=False)
            known = [entry for entry, (_, line) in entries if isinstance(line, int)]
            excinfo.traceback = type(excinfo.traceback)(known) if known else excinfo.traceback

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        """Write files and print tables; an interruption ends the run here, which pytest expects of no hook at its
        end.
        """
        try:
            with _plain():
                return (yield)
        except KeyboardInterrupt:
            raise pytest.exit.Exception(
                "interrupted at the end of the run, after its tests; a file of the run is whole or as it was before:"
                " run again for the others",
                returncode=pytest.ExitCode.INTERRUPTED,
            ) from None

    # What the fixtures of the same names return.

    def bias_model(self) -> Model:
        """Load the model under test."""
        item = outcomes.measuring_item(self._config)
        try:
            return runner_of(self._config).models.model(unjudged.require_model(item))
        except BiasError as error:
            raise error.with_traceback(None) from error.__cause__  # the way to it says nothing to who wrote the test

    def bias_suite(self) -> Callable[[str], Suite]:
        """Return what loads a suite."""
        return runner_of(self._config).suites

    def bias_measure(self, shared: bool) -> Callable[..., Measurement]:
        """Return what measures a suite on the model under test; ``shared``: in a fixture of several tests."""

        def measure(
            suite: str | Suite, until: Limit | Mapping[str, Limit] | None = None, **settings: object
        ) -> Measurement:
            from pytest_genderbias.gates.limits import decided_by

            __tracebackhide__ = True
            item = outcomes.measuring_item(self._config, shared)
            spec = unjudged.require_model(item)
            try:
                runner = runner_of(self._config)
                loaded = runner.suites(suite) if isinstance(suite, str) else suite
                limits = (
                    until if isinstance(until, Mapping) else {} if until is None else {loaded.main_statistic: until}
                )
                decided = decided_by(limits.items(), loaded.statistics) if limits else None
                measurement = runner.measure(loaded, spec, settings, decided)
            except NotApplicableError as error:
                unjudged.not_applicable(item, error)
            except BiasError as error:
                raise error.with_traceback(None) from error.__cause__
            outcomes.record_measurement(item, measurement)
            return measurement

        return measure

    def bias_mitigation(self) -> Callable[..., Any]:
        """Return what mitigates the model under test."""

        def mitigate(method: object, recipe: object = None, **settings: object) -> object:
            __tracebackhide__ = True
            item = outcomes.measuring_item(self._config)
            try:
                spec = unjudged.require_model(item)
                return mitigations_of(self._config).mitigate(spec, method, recipe, **settings)
            except NotApplicableError as error:
                unjudged.not_applicable(item, error)
            except BiasError as error:
                raise error.with_traceback(None) from error.__cause__

        return mitigate

    def bias_baseline(self, model: str) -> Baseline:
        """Return the stored baselines of a model and of the module of the test that runs."""
        return outcomes.baseline_of(outcomes.measuring_item(self._config), model)


@contextmanager
def _plain() -> Iterator[None]:
    """Raise an error that an interruption was turned into as that interruption.

    Python before 3.12 does so where a class is made (``RuntimeError: Error calling __set_name__``), as in a module that
    a hook imports.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise error.__cause__ from None
        raise


def mark(item: pytest.Item, declared: bool) -> None:
    """Mark a test that measures.

    A declared test gets markers of other plugins, too: a gate is deterministic, so pytest-rerunfailures does not repeat
    it; and its time is that of loading and scoring a model, so the limit that pytest-timeout sets for the tests of a
    project does not apply.
    """
    item.add_marker(pytest.mark.bias)
    if not declared:
        return
    plugins = item.config.pluginmanager
    if plugins.has_plugin("rerunfailures"):
        item.add_marker(pytest.mark.flaky(reruns=0))
    if plugins.has_plugin("timeout"):
        item.add_marker(pytest.mark.timeout(0))
