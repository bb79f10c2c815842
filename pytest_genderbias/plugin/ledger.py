"""The ledger of a run: collects the outcomes of tests from their reports, and at the end writes and prints them.

It runs in the controller; a worker of xdist only sends what it collected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_genderbias.plugin.books import BookKey, Messages, module_and_names
from pytest_genderbias.plugin.items.base import PACKAGED
from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.outcomes import ATTRIBUTE, book_of, measures
from pytest_genderbias.plugin.workers import WorkerNode, output_of, send_user_arguments, worker_output

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from pytest_genderbias.gates.comparison import Comparison, LeftOut
    from pytest_genderbias.gates.judgement import SettledJudgement
    from pytest_genderbias.measurement.measurement import Measurement
    from pytest_genderbias.plugin.acceptance import Proposals
    from pytest_genderbias.plugin.reported import ReportedOutcome


class Ledger:
    """Collects outcomes. A plugin object of its own, so that every hook knows the run it belongs to."""

    def __init__(self, config: pytest.Config) -> None:
        self._config, self._settings = config, config.stash[SETTINGS]
        self._measurements: list[Measurement] = []
        self._judgements: list[SettledJudgement] = []
        self._comparisons: list[Comparison] = []
        self._not_compared: list[LeftOut] = []
        self._proposals: dict[BookKey, Proposals] = {}
        self._used: dict[BookKey, set[str]] = {}  # names of judged baseline entries
        self._collected: dict[BookKey, set[str]] = {}  # node ids of tests
        self._settled: dict[BookKey, set[str]] = {}  # node ids of tests that came to a result
        self._partial = False  # a test was deselected, or a worker died: an entry that was not judged may still be used
        self._messages = Messages()
        self._skipped: dict[tuple[str, str], dict[str, None]] = {}  # suites that were skipped, by model and reason

    # Collection.

    def collected(self, items: Iterable[pytest.Item]) -> None:
        """Note the tests of each model and module."""
        for item in items:
            if measures(item) and (key := book_of(item)).model:
                self._collected.setdefault(key, set()).add(item.nodeid)

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        """Note that not all tests run."""
        self._partial = self._partial or any(measures(item) for item in items)

    # Reports.

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the outcome of a test; one that is run again counts the last time only."""
        data = getattr(report, ATTRIBUTE, None)  # pytest's reports take any attribute
        if data is None or type(report) is not pytest.TestReport or report.outcome == "rerun":  # type: ignore[comparison-overlap]  # pytest-rerunfailures sets it
            return
        from pytest_genderbias.plugin.reported import ReportedOutcome

        outcome = ReportedOutcome.from_dict(data)
        for measurement in outcome.measurements:
            if not any(_same_subject(measurement, other) and measurement == other for other in self._measurements):
                self._measurements.append(measurement)
        self._judgements += [judgement for judgement in outcome.judgements if judgement not in self._judgements]
        self._collect_baselines(outcome, report.nodeid)
        self._collect_skip(outcome, report)
        key = BookKey(outcome.model, outcome.module)
        inapplicable = outcome.declared and report.outcome == "skipped"
        if report.when == "call" and (report.outcome == "passed" or outcome.judgements or inapplicable):
            self._settled.setdefault(key, set()).add(report.nodeid)

    def _collect_baselines(self, outcome: ReportedOutcome, node_id: str) -> None:
        from pytest_genderbias.plugin.acceptance import Proposals

        key = BookKey(outcome.model, outcome.module)
        self._used.setdefault(key, set()).update(outcome.used)
        proposals = self._proposals.setdefault(key, Proposals())
        proposals.refused |= outcome.refused
        for name, entry in outcome.entries.items():
            proposals.entries.setdefault(name, {})[node_id] = entry

    def _collect_skip(self, outcome: ReportedOutcome, report: pytest.TestReport) -> None:
        suite = dict(report.user_properties).get("bias_suite")
        if suite is not None and report.outcome == "skipped" and isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].removeprefix("Skipped: ").removeprefix(str(suite)).lstrip(": ")
            self._skipped.setdefault((outcome.model, reason), {})[str(suite)] = None

    # Workers of xdist.

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerNode) -> None:
        """Send a worker the arguments of the user."""
        send_user_arguments(self._config, node)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerNode, error: object) -> None:
        """Take over what a worker collected; the run is partial if a worker died."""
        output = output_of(node).get(ATTRIBUTE)
        if not isinstance(output, dict) or error:
            self._partial = True
            return
        self._partial = self._partial or output["partial"]
        self._collected = {BookKey(model, module): set(node_ids) for model, module, node_ids in output["collected"]}

    # The end of the run.

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Compare the models, write baselines and the JSON report, and report unused entries."""
        output = worker_output(self._config)
        if output is not None:
            collected = [[*key, sorted(node_ids)] for key, node_ids in self._collected.items()]
            output[ATTRIBUTE] = {"partial": self._partial, "collected": collected}
            return
        complete = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        unused = self._unused(session) if complete else {}
        if self._settings.update != "no":
            self._accept(session, unused, complete)
        elif unused:
            names = "; ".join(f"{path}: {', '.join(sorted(names))}" for path, names in unused.items())
            self._messages.fail(f"unused baseline entries: {names}")
            self._messages.add("run with --bias-update to remove them", "red")
        if self._settings.compare:
            self._compare()
        if self._messages.failed:
            _fail(session)
        if self._settings.json is not None:
            self._write_json(self._settings.json, session)

    def _unused(self, session: pytest.Session) -> dict[Path, set[str]]:
        """Return stored entries that no test asked for, by file, where all tests that could have asked did run."""
        if self._is_narrowed(session):
            return {}
        unused: dict[Path, set[str]] = {}
        for spec in self._settings.models:
            for path in sorted((self._settings.baseline / spec.name).glob("*.json")):
                module, names = module_and_names(path)
                key = BookKey(spec.name, module)
                gone = module != PACKAGED and not (self._config.rootpath / module).exists()
                if module == PACKAGED and not self._settings.selection.includes_all:
                    continue
                not_judged = names - self._used.get(key, set())
                if not_judged and (gone or self._is_complete(key)):
                    unused[path] = not_judged
        return unused

    def _is_narrowed(self, session: pytest.Session) -> bool:
        """Return whether the run was told to leave out tests, or stopped early."""
        selected = self._partial or any("::" in str(argument) for argument in self._config.args)
        options = vars(self._config.option)
        return (
            selected or any(options.get(name) for name in ("lf", "stepwise", "collectonly")) or bool(session.shouldstop)
        )

    def _is_complete(self, key: BookKey) -> bool:
        """Return whether all collected tests of a model and module came to a result."""
        collected = self._collected.get(key, set())
        return bool(collected) and collected == self._settled.get(key, set())

    def _accept(self, session: pytest.Session, unused: Mapping[Path, set[str]], complete: bool) -> None:
        if not complete:
            self._messages.add("the run was cut short: no baseline was written", "yellow")
            return
        from pytest_genderbias.plugin.acceptance import accept

        narrowed = self._is_narrowed(session)
        for key, proposals in self._proposals.items():
            proposals.complete = not narrowed and self._is_complete(key)
        only_new = self._settings.update == "new"
        accept(self._settings.baseline, self._proposals, {} if only_new else unused, only_new, self._messages)

    def _compare(self) -> None:
        from pytest_genderbias.gates.comparison import compare_models

        order = [spec.name for spec in self._settings.models]
        self._comparisons, self._not_compared = compare_models(self._measurements, order)

    def _write_json(self, path: Path, session: pytest.Session) -> None:
        from pytest_genderbias.reports.json_report import write_json

        exit_status = int(session.exitstatus)
        try:
            write_json(
                path, self._measurements, self._judgements, exit_status, self._comparisons, self._not_compared
            )  # fmt: skip
        except OSError as error:
            self._messages.fail(f"--bias-json: {path} cannot be written: {error.strerror or error}")
            _fail(session)

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Print tables, notes, and messages on baselines."""
        if not (self._measurements or self._judgements or self._messages.lines or self._skipped):
            return
        from pytest_genderbias.plugin.summary import RunSummary, print_summary

        summary = RunSummary(self._measurements, self._judgements, self._skipped, self._messages.lines)
        if self._settings.compare:
            summary = summary.with_comparisons(self._comparisons, self._not_compared)
        print_summary(summary, terminalreporter)


def _same_subject(first: Measurement, second: Measurement) -> bool:
    """Compare what is cheap to compare."""
    return first.suite == second.suite and first.model == second.model


def _fail(session: pytest.Session) -> None:
    if session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
