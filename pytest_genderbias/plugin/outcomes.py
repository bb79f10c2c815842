"""The outcome of a test while it runs: what it measured, judged and would store. At the end it goes on the report of
the test.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import get_ident
from traceback import walk_stack, walk_tb
from types import FrameType
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._code.code import ExceptionRepr, ReprFileLocation

from pytest_genderbias.errors import GateFailure
from pytest_genderbias.gates.book_places import book_path, is_missing
from pytest_genderbias.gates.policy import Referee, refereed_by
from pytest_genderbias.gates.verdicts import CAUGHT, FAILED, XFAIL, FinishedTest, NotJudged, in_lines
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.plugin.bias_item import BiasItem, gate_marker, node_id
from pytest_genderbias.plugin.books import BookKey, update_command
from pytest_genderbias.plugin.doors import door
from pytest_genderbias.plugin.flags import TEST, takes_model
from pytest_genderbias.plugin.options import SETTINGS, Settings
from pytest_genderbias.plugin.outputs import needs_report
from pytest_genderbias.plugin.workers import terminal_width

if TYPE_CHECKING:
    from asyncio import Task
    from concurrent.futures import Future

    from pytest_genderbias.gates.baseline import Baseline
    from pytest_genderbias.gates.book import BaselineEntry
    from pytest_genderbias.gates.judgement import Judgement
    from pytest_genderbias.measurement.measurement import Measurement
    from pytest_genderbias.plugin.acceptance import ProposedEntry


_ASKS = ("result", "exception")  #: methods of a future that tell of a failure


def lost_aside(failure: GateFailure, test_thread: int) -> Callable[[], bool] | None:
    """Return a function that tells, once the test is over, whether the test does not know of a failure that is about to
    be raised beside its call stack; ``None`` where the failure goes up the stack of the test itself.

    The test does not know of a failure in a pool of threads if it did not ask the future; nor of any other one that
    nothing raised again outside of its thread or task.

    Args:
        failure: the exception.
        test_thread: identifier of the thread that runs the test.
    """
    beside = get_ident() != test_thread
    task = None if beside else _current_task()
    if not beside and task is None:
        return None
    frames = tuple(frame for frame, _ in walk_stack(sys._getframe()))
    if task is not None:
        outermost = getattr(task.get_coro(), "cr_frame", None)
        frames = frames[: frames.index(outermost) + 1] if outermost in frames else frames
    elif (future := _future_of(frames)) is not None:
        asked = _who_asks(future, test_thread)
        return lambda: test_thread not in asked

    def is_lost() -> bool:
        if task is not None and not (task.done() and not task.cancelled() and task.exception() is failure):
            return False
        return all(frame in frames for frame, _ in walk_tb(failure.__traceback__))

    return is_lost


def _current_task() -> Task[Any] | None:
    import asyncio

    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs
        return None


def _future_of(frames: tuple[FrameType, ...]) -> Future[object] | None:
    """Return the future that a thread of a pool works on; ``None`` for any other thread."""
    from concurrent.futures import Future

    found = (getattr(frame.f_locals.get("self"), "future", None) for frame in frames)
    return next((future for future in found if isinstance(future, Future)), None)


def _who_asks(future: Future[object], test_thread: int) -> list[int]:
    """Return a list that receives the identifier of each thread that asks a future, from now on; and has that of the
    test, if it waits for it already.

    An event loop asks to hand the failure on to a future of its own, which reports it nowhere.
    """
    asked: list[int] = []

    def noted(ask: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*arguments: Any, **named: Any) -> Any:
            if not str(sys._getframe(1).f_globals.get("__name__")).startswith("asyncio"):
                asked.append(get_ident())
            return ask(*arguments, **named)

        return noting

    for name in _ASKS:
        setattr(future, name, noted(getattr(future, name)))
    of_test = sys._current_frames().get(test_thread)  # its thread may have ended
    waiting = walk_stack(of_test) if of_test is not None else ()
    if any(frame.f_code.co_name in _ASKS and frame.f_locals.get("self") is future for frame, _ in waiting):
        asked.append(test_thread)
    return asked


_PROPERTY = "bias."  #: start of the names of properties in JUnit's file
_REPORTED_RECORDS = 10  #: worst records of a measurement that go into the JSON report
ATTRIBUTE = "genderbias"  #: attribute of a test report
_VERBOSE = 2  #: of this verbosity on (``-vv``), a failing test shows the whole text of its judgement


@dataclass
class ItemOutcome:
    """The measurements, judgements and proposed entries of one test.

    Attributes:
        gates: the margin of each statistic that the gate file of the test judges on its baseline entry; ``None`` for
            other tests.
        reported: how many measurements and judgements are on reports of the test already.
        concluded: how many judgements have their final outcome: what the test made of them is known.
        unjudged: why the test did not judge, if it was skipped for that.
        seconds: how long its parts took until now.
        aside: failures that were raised beside the call stack of the test, each with what says whether it is lost.
    """

    measurements: list[Measurement] = field(default_factory=list)
    judgements: list[Judgement] = field(default_factory=list)
    baseline: Baseline | None = None
    gates: Mapping[str, float | None] | None = None
    reported: int = 0
    concluded: int = 0
    unjudged: NotJudged | None = None
    seconds: float = 0.0
    aside: list[tuple[GateFailure, Callable[[], bool]]] = field(default_factory=list)


_OUTCOME = pytest.StashKey[ItemOutcome]()


def measures(item: pytest.Item) -> bool:
    """Return whether a test measures a model: a declared one, or one in Python that takes our fixtures."""
    return isinstance(item, BiasItem) or takes_model(item)


def may_measure(item: pytest.Item) -> bool:
    """Return whether a test measures a model, or could do so by a fixture that it asks for while it runs."""
    return measures(item) or "request" in getattr(item, "fixturenames", ()) or isinstance(item, pytest.DoctestItem)


def book_of(item: pytest.Item) -> BookKey:
    """Return where the baselines of a test are stored; the model is empty if the run has none for it."""
    spec = spec_of(item)
    module = item.baseline_module if isinstance(item, BiasItem) else item.nodeid.partition("::")[0]
    return BookKey("" if spec is None else spec.name, module)


def spec_of(item: pytest.Item) -> ModelSpec | None:
    """Return the model that a test measures; ``None`` if the run has none for it.

    A test that pytest cannot run once for each model (``unittest.TestCase``, doctests, ``request.getfixturevalue``)
    measures the only one that the run has for it.
    """
    if isinstance(item, BiasItem):
        return item.spec
    if isinstance(item, pytest.Function) and hasattr(item, "callspec"):  # only parametrised tests have one
        params = item.callspec.params
        if "bias_model_spec" in params:
            spec = params["bias_model_spec"]
            return spec if isinstance(spec, ModelSpec) else None
    marker = gate_marker(item)
    specs = [spec for spec in item.config.stash[SETTINGS].models if marker.judges(spec.name)]
    return specs[0] if len(specs) == 1 else None


def outcome_of(item: pytest.Item) -> ItemOutcome:
    """Return the outcome of a test, created on first use."""
    return item.stash.setdefault(_OUTCOME, ItemOutcome())


def record_measurement(item: pytest.Item, measurement: Measurement) -> None:
    """Record a measurement for tables and reports.

    JUnit gets properties of the tested model only, not of a reference: their names do not contain the model.
    """
    outcome = outcome_of(item)
    shown = measurement.to_dict(_REPORTED_RECORDS, arrays=False)
    if any(one is measurement or one.to_dict(_REPORTED_RECORDS, arrays=False) == shown for one in outcome.measurements):
        return  # a report would show it twice
    outcome.measurements.append(measurement)
    if measurement.model != book_of(item).model:
        return
    door("properties of a measurement")(item.user_properties, _PROPERTY, measurement)


def said_of(item: pytest.Item) -> Mapping[str, str]:
    """Return what people said of a test as a gate, in its file or its marker."""
    return item.said if isinstance(item, BiasItem) else gate_marker(item).said


def record_judgement(item: pytest.Item, judgement: Judgement, outcome: str) -> None:
    """Record a judgement, and whether it failed the test, for tables and reports."""
    settled = judgement.settled(outcome, node_id(item), said_of(item))
    judgements = outcome_of(item).judgements
    if settled in judgements:
        return
    judgements.append(settled)
    door("properties of a verdict")(item.user_properties, _PROPERTY, settled)


def _failure_text(item: pytest.Item, judgement: Judgement) -> str:
    """Return what a failing test shows: a few lines as wide as the terminal, or all with their records (``-vv``)."""
    details = judgement.details if item.config.get_verbosity() >= _VERBOSE else ()
    before = 0 if isinstance(item, BiasItem) else len("E   ")  # which pytest writes before the lines of an exception
    return in_lines((*judgement.shown, *details), terminal_width(item.config) - before)


#: Of a test that runs and is not refereed yet: what ends with it, and its thread.
_UNREFEREED = pytest.StashKey[tuple[ExitStack, int] | None]()
_SHARED = pytest.StashKey[bool]()  # set if a fixture that tests share measures: any test may set it up or tear it down


@contextmanager
def running(item: pytest.Item) -> Iterator[None]:
    """Note that a test runs, from its setup to its teardown, and referee it if it measures."""
    with ExitStack() as stack:
        item.stash[_UNREFEREED] = stack, get_ident()
        if measures(item) or item.config.stash.get(_SHARED, False):
            _referee(item)
        stack.callback(item.stash.__setitem__, _UNREFEREED, None)
        yield


def _referee(item: pytest.Item) -> None:
    """Record all further judgements, of every thread, as those of a test that runs."""
    if (unrefereed := item.stash.get(_UNREFEREED, None)) is None:
        return
    stack, thread = unrefereed

    def note_failure(failure: GateFailure) -> None:
        """Keep a failure that may not reach the test."""
        if (is_lost := lost_aside(failure, thread)) is not None:
            outcome_of(item).aside.append((failure, is_lost))

    referee = Referee(
        item.config.stash[SETTINGS].correct_for,
        partial(record_judgement, item),
        partial(_failure_text, item),
        note_failure,
    )
    stack.enter_context(refereed_by(referee))
    item.stash[_UNREFEREED] = None


def measuring_item(config: pytest.Config, shared: bool = False) -> pytest.Item:
    """Return the test that was started last, refereed from now on, for a fixture that measures.

    A fixture that pytest tears down when no test runs any more, since the run stopped early, belongs to it, too.

    Args:
        config: of the run.
        shared: whether several tests share the fixture. The policy then also holds for all later tests.
    """
    item = config.stash[TEST]
    _referee(item)
    if shared:
        config.stash[_SHARED] = True
    return item


def forget(item: pytest.Item) -> None:
    """Forget the outcome of an earlier run of the same test, and its properties."""
    if _OUTCOME in item.stash:
        del item.stash[_OUTCOME]
        item.user_properties[:] = [entry for entry in item.user_properties if not entry[0].startswith(_PROPERTY)]


def baseline_of(item: pytest.Item, model: str) -> Baseline:
    """Return the baselines of a model for the module of a test."""
    from pytest_genderbias.gates.baseline import Baseline

    outcome, settings = outcome_of(item), item.config.stash[SETTINGS]
    if outcome.baseline is None:
        outcome.baseline = Baseline(
            settings.baseline,
            model,
            book_of(item).module,
            settings.update,
            settings.reason,
            settings.correct_for,
            update_command(item),
            [spec.name for spec in settings.models],
            gates=_baseline_gates(item, model),
            sees=settings.sees,
        )
    return outcome.baseline


def _baseline_gates(item: pytest.Item, model: str) -> int:
    """Return the number of gates of the run on baselines of a model, whether or not they are stored yet."""
    others = (other for other in item.session.items if isinstance(other, BiasItem))
    judged = (other for other in others if other.spec is not None and other.spec.name == model)
    return len({(other.baseline_module, *other.baseline_gate) for other in judged if other.baseline_gate})


def stored_entries(item: pytest.Item, model: str) -> Mapping[str, BaselineEntry]:
    """Return the stored baseline entries of a model for the module of a test, by name."""
    path = book_path(item.config.stash[SETTINGS].baseline, model, book_of(item).module)
    if is_missing(path):
        return {}
    from pytest_genderbias.gates.book import read_book

    return read_book(path)


def stored_sample(item: pytest.Item, spec: ModelSpec | None, names: Iterable[str]) -> dict[str, int]:
    """Return as ``limit`` the number of cases of the largest of some stored entries, if it is a sample and the run sets
    no other limit.

    An update scores as many cases too; otherwise a missing flag would make a baseline of another sample.
    """
    if spec is None or item.config.stash[SETTINGS].limit is not None:
        return {}
    stored = stored_entries(item, spec.name)
    samples = [_sample(stored[name].sample) for name in names if name in stored]
    scored, total = max(samples, key=lambda sample: sample[0], default=(0, 0))
    return {"limit": scored} if scored < total else {}


def _sample(sample: Mapping[str, object]) -> tuple[int, int]:
    """Return the numbers of scored cases and of all cases; 0 and 0 if an entry does not say."""
    scored, total = sample.get("n"), sample.get("of")
    return (scored, total) if isinstance(scored, int) and isinstance(total, int) else (0, 0)


@contextmanager
def lost_failures_raised(item: pytest.Item) -> Iterator[None]:
    """Raise, at the end of a ``with`` block, the first failure of a gate of a test that the test does not know of.

    A block that fails by itself says so instead. One that skips the test does not.

    Raises:
        GateFailure: there is one.
    """
    try:
        yield
    except pytest.skip.Exception:
        _raise_lost_failure(item)
        raise
    except BaseException:
        if _OUTCOME in item.stash:
            outcome_of(item).aside.clear()
        raise
    _raise_lost_failure(item)


def _raise_lost_failure(item: pytest.Item) -> None:
    aside = outcome_of(item).aside if _OUTCOME in item.stash else []
    lost = next((failure for failure, is_lost in aside if is_lost()), None)
    aside.clear()
    if lost is not None:
        raise lost from None


def attach(item: pytest.Item, report: pytest.TestReport) -> None:
    """Put the outcome of a test on a report: of its call, of a failed setup or teardown, or of a teardown that added to
    it.

    A test that failed and could have asked for a fixture of ours, but did not come to that, has an empty outcome.
    """
    settings = item.config.stash[SETTINGS]
    if (
        _OUTCOME not in item.stash
        and not measures(item)
        and not (report.failed and settings.models and may_measure(item))
    ):
        return
    outcome = outcome_of(item)
    outcome.seconds += report.duration
    recorded = len(outcome.measurements) + len(outcome.judgements)
    if (
        report.when != "call"
        and report.outcome == "passed"
        and (report.when == "setup" or recorded == outcome.reported)
    ):
        return
    outcome.reported = recorded
    _conclude(outcome, report)
    from pytest_genderbias.plugin.reported import ReportedOutcome

    key, with_files = book_of(item), needs_report(settings)
    is_last_word = report.when != "teardown" or report.failed
    model = key.model if measures(item) or recorded else ""
    pictures, undrawn = door("pictures of measurements")(outcome.measurements) if with_files else ((), ())
    reported = ReportedOutcome(
        module=key.module,
        model=model,
        settled=_is_settled(item, outcome, report),
        measurements=tuple(_shortened(measurement, settings) for measurement in outcome.measurements),
        judgements=tuple(outcome.judgements),
        used=frozenset(outcome.baseline.used if outcome.baseline else ()),
        refused=frozenset(outcome.baseline.refused if outcome.baseline else ()),
        entries=_proposed_entries(outcome) if settings.update != "no" else {},
        unjudged=outcome.unjudged,
        pictures=pictures,
        undrawn=undrawn,
        finished=finished_test(item, report, model, outcome.seconds) if with_files and is_last_word else None,
        failed=report.failed,
    )
    setattr(report, ATTRIBUTE, reported.to_dict())


def explain_timeout(item: pytest.Item, report: pytest.TestReport) -> None:
    """Say under the failure of pytest-timeout that a test that measures may take long."""
    if report.failed and measures(item) and "from pytest-timeout" in report.longreprtext:
        advice = (
            "the first run of a model loads it and scores its suites; a later one reads the score cache. Give the test"
            " a limit of its own, as @pytest.mark.timeout(1800)"
        )
        report.sections.append(("bias", advice))


def _conclude(outcome: ItemOutcome, report: pytest.TestReport) -> None:
    """Say of failed judgements that did not fail the test why: it was expected to fail, or it caught the failure."""
    if report.outcome != "failed":
        expected = report.outcome == "skipped" and hasattr(report, "wasxfail")  # pytest sets it for xfail only
        forgiven = XFAIL if expected else CAUGHT
        outcome.judgements[outcome.concluded :] = [
            replace(settled, outcome=forgiven) if settled.outcome == FAILED else settled
            for settled in outcome.judgements[outcome.concluded :]
        ]
    outcome.concluded = len(outcome.judgements)


def _is_settled(item: pytest.Item, outcome: ItemOutcome, report: pytest.TestReport) -> bool:
    """Return whether a test asked for all its baseline entries.

    A declared test that judges asks for all of them first, and a suite that does not apply has none. A test in Python
    that does not pass may have more assertions behind the one that failed.
    """
    if report.when != "call" or report.outcome == "passed" or not isinstance(item, BiasItem):
        return report.when == "call" and report.outcome == "passed"
    return bool(outcome.judgements) or (item.line is None and outcome.unjudged is not None)


def _shortened(measurement: Measurement, settings: Settings) -> Measurement:
    """Return a measurement as reports show it: with the worst records, and with item statistics only to compare models.

    With ``bias_all_records`` it has all records.
    """
    from pytest_genderbias.statistics.inference.item_sums import SumsByStatistic

    short = measurement
    if not settings.all_records:
        short = replace(measurement, records=measurement.worst(_REPORTED_RECORDS))
    return short if settings.compare or settings.variance else replace(short, items={}, sums=SumsByStatistic({}))


def _proposed_entries(outcome: ItemOutcome) -> dict[str, ProposedEntry]:
    if outcome.baseline is None:
        return {}
    from pytest_genderbias.plugin.acceptance import ProposedEntry

    return {
        name: ProposedEntry(
            new, outcome.gates, outcome.baseline.overlooked(name, outcome.gates), outcome.baseline.against[name]
        )
        for name, new in outcome.baseline.entries().items()
    }


_LONGEST = 4_000  #: characters of a text


def finished_test(item: pytest.Item, report: pytest.TestReport, model: str, seconds: float) -> FinishedTest:
    """Return the result of a test.

    Args:
        item: the test.
        report: of the part of it that counts: its call, or a setup or teardown that failed.
        model: name of the model; empty if the run has none for it.
        seconds: how long all of its parts took.
    """
    crash = report.longrepr.reprcrash if isinstance(report.longrepr, ExceptionRepr) else None  # of a test in Python
    file, line = "", 0  # of a suite that no file names
    if not isinstance(item, BiasItem) or item.line is not None:
        file, line = Path(item.location[0]).as_posix(), (item.location[1] or 0) + 1
    if crash is not None and file and os.path.abspath(item.config.rootpath / crash.path) == str(item.path):
        line = crash.lineno  # the assertion, and not the first line of its test
    return FinishedTest(
        test=node_id(item),
        suite=item.suite_name if isinstance(item, BiasItem) else "",
        model=model,
        file=file,
        line=line,
        outcome="xfailed" if report.skipped and "wasxfail" in vars(report) else report.outcome,  # set for xfail only
        seconds=round(seconds, 3),
        text=_text(report, crash)[:_LONGEST],
    )


def _text(report: pytest.TestReport, crash: ReprFileLocation | None) -> str:
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    if not report.failed:
        return ""
    return report.longreprtext if crash is None else crash.message
