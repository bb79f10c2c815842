"""The ledger of a run: collects the outcomes of tests from their reports, and at the end writes and prints them.

It runs in the controller; a worker of xdist only sends what it collected. The files of a run also say when, with what
and on which code it was made.
"""

from __future__ import annotations

import datetime
import platform
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING

import pytest

from pytest_genderbias.errors import StoreError
from pytest_genderbias.gates.book_places import Place, listed
from pytest_genderbias.gates.policy import Referee, refereed_by
from pytest_genderbias.gates.verdicts import (
    CAUGHT,
    DIFFERENT,
    NO_BASELINE,
    NOT_STORED,
    OTHER_MODELS,
    OVER_LIMIT,
    STORED,
    TOO_FEW,
    XFAIL,
    NotJudged,
)
from pytest_genderbias.models.spec import portable_spec
from pytest_genderbias.plugin.bias_item import PACKAGED
from pytest_genderbias.plugin.books import BookKey, Messages, module_and_names, update_command, write_gates_command
from pytest_genderbias.plugin.doors import door
from pytest_genderbias.plugin.flag_values import ALL
from pytest_genderbias.plugin.flags import FLAGS
from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.outcomes import ATTRIBUTE, book_of, may_measure, measures
from pytest_genderbias.plugin.outputs import (
    annotations_in_repository,
    append_to_job,
    is_in_actions,
    needs_report,
    write_outputs,
)
from pytest_genderbias.plugin.progress import count_failures, show
from pytest_genderbias.plugin.unjudged import GATE_FILES, find_unread_gates
from pytest_genderbias.plugin.workers import WorkerNode, terminal_width, user_arguments

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from pytest_genderbias.errors import GateFailure
    from pytest_genderbias.gates.judgement import Comparison, Judgement, LeftOut
    from pytest_genderbias.measurement.measurement import Measurement
    from pytest_genderbias.measurement.variance import ValueVariance
    from pytest_genderbias.plugin.reported import ReportedOutcome
    from pytest_genderbias.reports.run_report import RunInfo, RunReport, SelectionRow


_WITHOUT_FILES = f"{__package__}.without_files"  #: a run that loads it measures, and is not meant to judge
_COMPLETE = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
_OUTCOMES = ("passed", "failed", "skipped")  #: others mean that a plugin runs the test again: "rerun", "retried"


class Ledger:
    """Collects outcomes. A plugin object of its own, so that every hook knows the run it belongs to."""

    def __init__(self, config: pytest.Config) -> None:
        self._config, self._settings = config, config.stash[SETTINGS]
        config.stash[GATE_FILES] = set()
        self._reported: dict[str, ReportedOutcome] = {}  # the last outcome of each test, by its node id
        self._measurements: list[Measurement] = []  # each once, at the end
        self._comparisons: list[Comparison] = []
        self._not_compared: list[LeftOut] = []
        #: Tests that may measure, in the order in which they were collected here. One that measures has its key.
        self._items: list[tuple[pytest.Item, BookKey | None]] = []
        self._sent: list[tuple[str, BookKey | None]] = []  # the same of a worker, by node id
        self._unclear: set[str] = set()  # modules with a test that may use an entry, but did not get that far
        self._partial = False  # a test was deselected, or a worker died: an entry that was not judged may still be used
        self._expected_to_fail: set[str] = set()  # node ids of tests with pytest's xfail, whose gates fail nothing
        self._crashed = False  # a worker died
        self._uncollected = False  # a file could not be collected; workers end like tests that failed
        self._messages = Messages()
        self._annotations: list[str] = []  # workflow commands of GitHub Actions
        self._start = time.perf_counter()
        self._late: list[str] = []  # gates that failed in a thread when no test ran that they belong to
        self._thread = get_ident()
        between_tests = ExitStack()  # where gates fail in threads which outlive their tests
        between_tests.enter_context(refereed_by(Referee(note_failure=self._note_late)))
        config.add_cleanup(between_tests.close)

    def _note_late(self, failure: GateFailure) -> None:
        if get_ident() != self._thread:
            self._late.append(failure.args[0].partition("\n")[0])

    # Collection.

    def collected(self, items: Iterable[pytest.Item]) -> None:
        """Note the tests of each model and module; the model is empty if the run has none for a test."""
        self._items += [(item, book_of(item) if measures(item) else None) for item in items if may_measure(item)]

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        """Note that not all tests run."""
        for item in items:
            self._partial = self._partial or measures(item)
            if may_measure(item):
                self._unclear.add(book_of(item).module)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note that a file could not be collected, here or in a worker of xdist."""
        self._uncollected = self._uncollected or report.failed

    @property
    def _collected(self) -> list[tuple[str, BookKey | None]]:
        """The node ids of collected tests: of this process, where xdist may change them late, or of a worker."""
        return self._sent or [(item.nodeid, key) for item, key in self._items]

    # Reports.

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the outcome of a test; one that is run again counts the last time only."""
        data = getattr(report, ATTRIBUTE, None)  # pytest's reports take any attribute
        if data is None or type(report) is not pytest.TestReport or report.outcome not in _OUTCOMES:
            return
        from pytest_genderbias.plugin.reported import ReportedOutcome

        outcome, node_id = ReportedOutcome.from_dict(data), report.nodeid
        if (before := self._reported.get(node_id)) is not None:
            outcome = outcome.after(before)
        self._reported[node_id] = replace(
            outcome,
            measurements=tuple(map(self._as_known, outcome.measurements)),
            unjudged=outcome.unjudged and replace(outcome.unjudged, test=node_id, model=outcome.model),
        )
        if hasattr(report, "wasxfail") and not report.failed:  # pytest sets it for xfail only
            self._expected_to_fail.add(node_id)
        if outcome.unjudged is None and not outcome.model and report.failed:
            self._unclear.add(outcome.module)

    def _as_known(self, thing: Measurement) -> Measurement:
        """Return a measurement as a test before reported it, so that there is one copy."""
        before = (one for outcome in self._reported.values() for one in outcome.measurements)
        alike = (one for one in before if (one.suite, one.model) == (thing.suite, thing.model))
        return next((one for one in alike if one == thing), thing)

    @property
    def _judged(self) -> dict[str, Sequence[Judgement]]:
        """The judgements of each test, by its node id."""
        return {node_id: one.judgements for node_id, one in self._reported.items()}

    @property
    def _judgements(self) -> list[Judgement]:
        """All judgements, those of one test after the other."""
        return list(chain.from_iterable(self._judged.values()))

    @property
    def _unjudged(self) -> list[NotJudged]:
        """Why tests did not judge."""
        return [one.unjudged for one in self._reported.values() if one.unjudged is not None]

    @property
    def _broken(self) -> list[str]:
        """Node ids of tests that measure and failed without a verdict that failed them."""
        return [node_id for node_id, one in self._reported.items() if one.is_broken]

    # Workers of xdist.

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerNode, error: object) -> None:
        """Take over what a worker collected; the run is partial if a worker died."""
        output = getattr(node, "workeroutput", {}).get(ATTRIBUTE)  # a worker that died sent nothing
        if not isinstance(output, dict) or error:
            self._partial = self._crashed = True
            return
        self._partial = self._partial or output["partial"]
        self._unclear.update(output["unclear"])
        self._sent = [(node_id, BookKey(*key) if key else None) for node_id, key in output["collected"]]
        self._config.stash[GATE_FILES].update(map(Path, output["gate_files"]))
        self._late += output["late"]

    # The end of the run.

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Compare the models, write baselines and the files of the run, and report unused entries."""
        output = getattr(self._config, "workeroutput", None)  # of a worker, for its controller
        if output is not None:
            output[ATTRIBUTE] = {
                "partial": self._partial,
                "unclear": sorted(self._unclear),
                "collected": [[node_id, key and list(key)] for node_id, key in self._collected],
                "gate_files": sorted(str(path) for path in self._config.stash[GATE_FILES]),
                "late": self._late,
            }
            return
        order = {node_id: place for place, (node_id, _) in enumerate(self._collected)}
        last = len(order)  # of tests that have no place
        # As they were collected, so that a run on workers ends as one without them.
        self._reported = dict(sorted(self._reported.items(), key=lambda entry: order.get(entry[0], last)))
        reported = chain.from_iterable(one.measurements for one in self._reported.values())
        self._measurements = list({id(one): one for one in reported}.values())
        for text in self._late:
            self._messages.fail(
                f"a gate failed in a thread after its test had ended, which should join the thread: {text}"
            )
        complete = exitstatus in _COMPLETE
        unused = self._unused(session) if complete else {}
        if self._settings.update != "no":
            self._accept(session, unused, complete)
        elif unused:
            names = "; ".join(f"{path}: {', '.join(sorted(names))}" for path, names in unused.items())
            self._messages.fail(f"unused baseline entries: {names}")
            self._messages.add("run with --bias-update to remove them", "yellow")
        repeated = any(one.restarts or "seeds" in one.signature["settings"] for one in self._measurements)
        if self._settings.seeds is not None and self._measurements and not repeated:
            self._messages.fail(
                f"--bias-seeds={self._settings.seeds} had no effect: no model has {{seed}} in its SPEC, as"
                " --bias-model=NAME=runs/seed-{seed}, and no suite trains heads"
            )
        if exitstatus in (*_COMPLETE, pytest.ExitCode.NO_TESTS_COLLECTED) and not self._uncollected:
            self._check_that_something_is_judged(session, exitstatus)
        if self._settings.compare:
            from pytest_genderbias.gates.comparison import compare_models

            order_of_models = [spec.name for spec in self._settings.models]
            self._comparisons, self._not_compared = compare_models(self._measurements, order_of_models)
        self._judge_releases()
        if self._settings.update == "no":
            self._say_what_was_redefined(session)
        if self._messages.failures:
            _fail(session)
        self._write_outputs(session)

    def _check_that_something_is_judged(self, session: pytest.Session, exitstatus: int) -> None:
        """Name gate files that were not read, and say what to do if a model is named and nothing judges it; with
        ``--bias-strict`` fail the run.
        """
        if self._config.option.collectonly or self._config.pluginmanager.has_plugin(_WITHOUT_FILES):
            return
        if self._settings.models or self._settings.strict or any(key for _, key in self._collected):
            unread = find_unread_gates(self._config)
            if unread and self._settings.strict:
                self._messages.fail(unread)
            elif unread:
                self._messages.add(unread, "yellow")
        before = len(self._messages.failures)
        if not self._is_narrowed(session):
            self._check_that_something_ran(exitstatus)
        if self._settings.strict and self._settings.models and before == len(self._messages.failures):
            self._check_that_something_is_gated()

    def _check_that_something_is_gated(self) -> None:
        """Fail a run in which no gate can fail, unless a test that measures failed for another reason."""
        can_fail = any(
            settled.outcome not in (XFAIL, CAUGHT)
            for test, judgements in self._judged.items()
            if test not in self._expected_to_fail
            for settled in judgements
        )
        if can_fail or self._broken:
            return
        names = ", ".join(spec.name for spec in self._settings.models)
        measured = f"{len(self._measurements)} measured" if self._measurements else "nothing was measured"
        self._messages.fail(
            f"nothing gates {names} ({measured}; 'assert m', a bare value, and a test that is deselected, skipped or"
            " expected to fail are no gates): write gates in a file such as release.bias.yaml, or assert_at_most(m,"
            " ...) in a test (--bias-strict)"
        )

    def _check_that_something_ran(self, exitstatus: int) -> None:
        """Say what to type if a model is named and nothing measures it; fail the run if all its gates are for other
        models.
        """
        elsewhere = any(test.why == OTHER_MODELS for test in self._unjudged)
        keys = [key for _, key in self._collected if key]
        if not self._settings.models or self._measurements or self._judgements or any(key.model for key in keys):
            return
        names = ", ".join(spec.name for spec in self._settings.models)
        if elsewhere and exitstatus == pytest.ExitCode.OK:
            self._messages.fail(
                f"nothing was judged: no gate of this run is for {names}; correct the name in --bias-model=NAME=SPEC,"
                " or 'models' of the gates"
            )
        elif not keys and (FLAGS["models"].is_typed(self._config) or self._settings.strict):
            add = self._messages.fail if self._settings.strict else self._messages.add
            add(
                f"nothing measures {names}: add --bias-suite=all, or the names of suites, as"
                " --bias-suite=lm-occupation; or write gates in a file such as release.bias.yaml, or tests that use"
                " bias_measure (docs/reference/verdicts.md)"
            )

    def _unused(self, session: pytest.Session) -> dict[Place, set[str]]:
        """Return stored entries that no test asked for, by file, where all tests that could have asked did run."""
        if self._is_narrowed(session):
            return {}
        unused: dict[Place, set[str]] = {}
        for spec in self._settings.models:
            try:
                books = listed(self._settings.baseline / spec.name, "*.json")
            except StoreError as error:
                self._messages.add(str(error), "yellow")
                return {}
            for path in books:
                module, names = module_and_names(path)
                key = BookKey(spec.name, module)
                gone = module != PACKAGED and not (self._config.rootpath / module).exists()
                if module == PACKAGED and ALL not in self._settings.selection:
                    continue
                not_judged = names.difference(*(one.used for one in self._reported.values() if one.key == key))
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
        """Return whether all tests of a model and module asked for all their entries."""
        collected = {node_id for node_id, of_test in self._collected if of_test == key}
        settled = {node_id for node_id, one in self._reported.items() if one.settled and one.key == key}
        return bool(collected) and collected <= settled and key.module not in self._unclear

    def _accept(self, session: pytest.Session, unused: Mapping[Place, set[str]], complete: bool) -> None:
        if not complete:
            self._messages.add("the run was cut short: no baseline was written", "yellow")
            return
        from pytest_genderbias.plugin.acceptance import accept

        outcomes = list(self._reported.values())
        keys = set() if self._is_narrowed(session) else {outcome.key for outcome in outcomes}
        whole = {key for key in keys if self._is_complete(key)}
        only_new = self._settings.update == "new"
        # A broken or undecided limit keeps no update from being stored: it says nothing of what was accepted before.
        failed = {
            node_id: [one.in_words for one in judgements if one.failed and one.code not in _OF_NO_ENTRY]
            for node_id, judgements in self._judged.items()
        }
        why = [f"{node_id}: {words[0]}" for node_id, words in failed.items() if words]
        why += [f"{node_id}: no verdict" for node_id in sorted(self._broken)]
        why += ["a worker of pytest-xdist died"] if self._crashed else []
        unused = {} if only_new else unused
        if not accept(self._settings.baseline, outcomes, whole, unused, only_new, self._messages, why):
            for node_id, one in self._reported.items():
                settled = (replace(of, code=NOT_STORED) if of.code == STORED else of for of in one.judgements)
                self._reported[node_id] = replace(one, judgements=tuple(settled))

    def _say_what_was_redefined(self, session: pytest.Session) -> None:
        """Name the entries whose figures this version of the package defines anew, and the command that accepts them
        all.
        """
        changed = {
            test: one.of_baseline.definition
            for test, judgements in self._judged.items()
            for one in judgements
            if one.of_baseline.definition
        }
        items = [item for item in session.items if item.nodeid in changed]
        if not items:
            return
        what = ", ".join(dict.fromkeys(changed.values()))
        self._messages.add(
            f"{len(changed)} gate{'s' if len(changed) > 1 else ''} with a baseline of an earlier definition ({what}):"
            " the figures mean something "
            f'else now. To accept them all: {update_command(*items)} --bias-reason="new definitions: {what}"'
        )

    def _judge_releases(self) -> None:
        """Fail a run with a model whose bias grew over its suites together; an update accepts it."""
        growths = self._report.growths if self._judgements and self._settings.update == "no" else ()
        for growth in growths:
            if growth.worse:
                self._messages.fail(growth.failure)

    @cached_property
    def _report(self) -> RunReport:
        """What the run measured and judged, at its end, without what only its files show."""
        from pytest_genderbias.reports.run_report import RunInfo, RunReport

        variances: list[ValueVariance] = []
        if self._settings.variance:
            from pytest_genderbias.measurement.variance import all_variances

            variances = all_variances(self._measurements)
        return RunReport(
            RunInfo("", ""),
            tuple(self._measurements),
            tuple(self._judgements),
            tuple(self._comparisons),
            tuple(self._not_compared),
            tuple(self._unjudged),
            tuple(variances),
        )

    def _write_outputs(self, session: pytest.Session) -> None:
        """Write the files that flags ask for. One that cannot be written fails the run, and the others are written."""
        if not needs_report(self._settings) or self._config.option.collectonly:
            return
        report, trouble = write_outputs(self._complete_report(session), self._settings)
        if self._settings.github and is_in_actions():
            trouble += append_to_job(report)
            self._annotations = annotations_in_repository(report, self._config)
        for message in trouble:
            self._messages.fail(message)
        if trouble:
            _fail(session)

    def _complete_report(self, session: pytest.Session) -> RunReport:
        """Return the report with all that the files of the run show."""
        from pytest_genderbias.reports.picture import Picture

        drawn: list[object] = []
        for picture in chain.from_iterable(one.pictures for one in self._reported.values()):
            if picture not in drawn:
                drawn.append(picture)
        report = replace(
            self._report,
            run=run_info(self._config, int(session.exitstatus), time.perf_counter() - self._start),
            pictures=tuple(map(Picture.from_dict, drawn)),
            failures=tuple(self._messages.failures),
            tests=tuple(one.finished for one in self._reported.values() if one.finished is not None),
            selections=self._selections(),
        )
        pictures, undrawn = door("pictures of a run")(report)
        of_tests = chain.from_iterable(one.undrawn for one in self._reported.values())
        for line in dict.fromkeys((*of_tests, *undrawn)):
            self._messages.add(line, "yellow")
        return replace(report, pictures=(*report.pictures, *pictures))

    def _selections(self) -> tuple[SelectionRow, ...]:
        """Return the impact ratios of the files of predictions and results of the run, for an audit."""
        from pytest_genderbias.reports.selection import selection_rows

        files = [spec for spec in self._settings.models if spec.kind in ("predictions", "results")]
        named = ((spec.name, Path(spec.target), spec.kind == "results") for spec in files)
        return tuple(row for one in named for row in selection_rows(*one))

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Print tables, notes, and messages on baselines, and count what fails the run beside its tests."""
        for annotation in self._annotations:
            terminalreporter.write_line(annotation)  # a command to the CI service, escaped by its rules
        if not (self._measurements or self._judgements or self._messages or self._unjudged or self._broken):
            return
        terminalreporter.write_sep("=", "bias")
        lines = door("summary of a run")(
            self._report,
            terminal_width(self._config),
            max(0, self._config.get_verbosity()),
            messages=self._messages,
            broken=len(self._broken),
            next=write_gates_command(self._config),
            compare=self._settings.compare,
            variance=self._settings.variance,
        )
        for text, markup in lines:
            show(terminalreporter, text, markup)
        count_failures(self._messages.failures, terminalreporter)


#: Codes of failures that concern no baseline entry, or one that an update has yet to make.
_OF_NO_ENTRY = frozenset({NO_BASELINE, OVER_LIMIT, TOO_FEW, DIFFERENT})


def _fail(session: pytest.Session) -> None:
    if session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


_PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "scipy", "pytest")
_STATED = ("seed", "dtype", "device", "limit", "no_worse_than", "same_as")  #: settings that a file of the run has
_PATIENCE = 10.0  #: seconds for Git, which may walk a large work tree


def run_info(config: pytest.Config, exit_status: int, seconds: float) -> RunInfo:
    """Return the description of a run that ends now.

    Args:
        config: of the run.
        exit_status: of pytest.
        seconds: how long the run took.
    """
    from pytest_genderbias.reports.run_report import ReportedModel, RunInfo

    settings = config.stash[SETTINGS]
    root = config.rootpath
    baselines = settings.baseline
    return RunInfo(
        date=datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        version=version("pytest-genderbias"),
        arguments=tuple(str(argument) for argument in user_arguments(config)),
        models=tuple(ReportedModel(spec.name, portable_spec(spec.spec)) for spec in settings.models),
        commit=_git(root, "rev-parse", "HEAD"),
        modified=bool(_git(root, "status", "--porcelain", "--untracked-files=no")),
        settings={name: getattr(settings, name) for name in _STATED},
        versions={"python": platform.python_version(), **{package: version(package) for package in _PACKAGES}},
        baselines=(baselines.relative_to(root) if baselines.is_relative_to(root) else baselines).as_posix(),
        exit_status=exit_status,
        seconds=round(seconds, 3),
    )


def _git(folder: Path, *arguments: str) -> str:
    """Return what Git prints; an empty text if there is no Git, or no repository."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
