"""Measurements whose cases are scored side by side are those that one process makes, one after another."""

import json
import pickle
import threading
import time
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
from support.tiny_checkpoints import save_checkpoint

from pytest_genderbias.engines.ray_worker import Failure, RayWorker, WantedModel
from pytest_genderbias.errors import ModelError, NotApplicableError, ScoreError
from pytest_genderbias.gates.limits import Limit, decided_by
from pytest_genderbias.measurement.runner import Runner, RunSettings
from pytest_genderbias.measurement.side_by_side import Piece, SideBySide
from pytest_genderbias.models.spec import parse_spec
from pytest_genderbias.scoring import engine
from pytest_genderbias.scoring.executor import Scored

NLI, OTHER = "nli-religion", "nli-occupation"


class Workers:
    """An executor that loads each model anew, as workers elsewhere do, and answers in any order, from as many threads
    as have a task.

    With ``meet`` the first task waits for a second one.
    """

    def __init__(self, tasks=3, meet=False):
        self.tasks, self.models, self.at_once, self.most_at_once = tasks, [], 0, 0
        self.expected, self.lock = [], threading.Lock()
        self.threads, self.met = set(), threading.Event()
        if not meet:
            self.met.set()

    def expect(self, tasks):
        self.expected.append(tasks)

    @contextmanager
    def open(self, task):
        worker = RayWorker(1)
        for answer in (
            worker.load(WantedModel.of(task.model)),
            worker.ask(pickle.dumps((task.cases, task.query, None))),
        ):
            if isinstance(answer, Failure):
                raise answer.error
        with self.lock:
            self.models.append(task.model.name)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            self.threads.add(threading.get_ident())
            if self.at_once > 1:
                self.met.set()
        self.met.wait(60)
        try:
            yield _Pool(worker)
        finally:
            with self.lock:
                self.at_once -= 1


class _Pool:
    slots, state, notes = 4, "3 workers", ["scored by a fake"]

    def __init__(self, worker):
        self.worker, self.waiting, self.random = worker, [], np.random.default_rng(1)

    def submit(self, window, units):
        self.waiting.append((window, units))

    def collect(self):
        window, units = self.waiting.pop(self.random.integers(len(self.waiting)))
        answer = self.worker.score(units)
        if isinstance(answer, Failure):
            return Scored(window, error=answer.error)
        return Scored(window, *answer, worker="w")


@pytest.fixture(autouse=True)
def small_windows(monkeypatch):
    monkeypatch.setattr(engine, "WINDOW", 32)


@pytest.fixture(scope="module")
def specs(tmp_path_factory):
    """Five models, as ``--bias-model`` names them."""
    folder = tmp_path_factory.mktemp("five")
    return [parse_spec(f"m{k}={save_checkpoint('bert-nli', folder / f'seed-{k}', k)}") for k in range(5)]


def runner(executor=None, **settings):
    return Runner(score=RunSettings(**{"limit": 160, "cache": None, **settings}), executor=executor, threads=1)


def everything(measurement):
    """Return all of a measurement as text, without the note on who scored."""
    plain = measurement.to_dict()
    plain["notes"] = [note for note in plain["notes"] if note != "scored by a fake"]
    return json.dumps(plain, sort_keys=True, default=str)


def made(one, specs, until=None, expect=True):
    wanted = [(one.suites(suite), spec, {}, until) for spec in specs for suite in (NLI, OTHER)]
    if expect:
        one.expect(wanted)
    return [everything(one.measure(*each)) for each in wanted]


@pytest.fixture(scope="module")
def alone(specs):
    """What one process makes of three models."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "WINDOW", 32)
        return made(runner(), specs[:3])


@pytest.mark.parametrize("tasks", [1, 4])
def test_the_measurements_are_those_of_one_process(specs, alone, tasks):
    workers = Workers(tasks)
    assert made(runner(workers), specs[:3]) == alone
    assert sorted(workers.models) == sorted(spec.name for spec in specs[:3] for _ in range(2))
    assert 1 <= workers.most_at_once <= tasks
    assert threading.get_ident() not in workers.threads
    assert max(workers.expected) == tasks
    assert workers.expected[-1] == 1


def test_several_are_under_way_at_once(specs):
    """The first three tasks wait for each other."""
    together = threading.Barrier(3, timeout=60)

    class Meeting(Workers):
        @contextmanager
        def open(self, task):
            with super().open(task) as pool:
                if len(self.models) <= 3:
                    together.wait()
                yield pool

    workers = Meeting()
    one = runner(workers)
    one.expect((one.suites(NLI), spec, {}, None) for spec in specs[:3])
    one.measure(NLI, specs[0])
    assert workers.most_at_once == 3


def test_scoring_stops_where_that_of_one_process_does(specs, tmp_path):
    one, other = runner(Workers(), cache=tmp_path / "a", limit=None), runner(cache=tmp_path / "b", limit=None)
    until = decided_by([("net_neutral", Limit(at_least=0.9))], one.suites(NLI).family.plain_statistics())
    assert made(one, specs[:2], until) == made(other, specs[:2], until)
    stored = [
        {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.npy"))}
        for folder in (tmp_path / "a", tmp_path / "b")
    ]
    assert _joined(stored[0]) == _joined(stored[1])
    assert stored[0]


def _joined(files):
    """Return the scores of each entry; how many files they are in depends on the clock."""
    entries = {}
    for name in sorted(files):
        entry, _, span = name.rpartition("/")
        entries.setdefault(entry, []).append((span, files[name][32:].partition(b"\n")[2]))
    return {entry: b"".join(content for _, content in parts) for entry, parts in entries.items()}


def test_what_nobody_asks_for_is_dropped_and_the_rest_goes_on(specs):
    workers = Workers(2)
    one, other = runner(workers), runner()
    one.expect((one.suites(NLI), spec, {}, None) for spec in specs)
    for spec in (specs[0], specs[3], specs[1]):  # the second one is skipped, and comes later
        assert everything(one.measure(NLI, spec)) == everything(other.measure(NLI, spec))
    assert workers.models.count("m3") == 1
    settings = {"limit": 64}  # not what was expected
    assert everything(one.measure(NLI, specs[4], settings)) == everything(other.measure(NLI, specs[4], settings))


def test_errors_come_in_their_turn_as_they_are(specs, tmp_path):
    broken = save_checkpoint("bert-nli", tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"no weights")
    other_kind = save_checkpoint("gpt2", tmp_path / "causal")
    several = [specs[0], parse_spec(f"b={broken}"), parse_spec(f"c={other_kind}"), specs[1]]
    messages = []
    for executor in (Workers(), None):
        one = runner(executor)
        one.expect((one.suites(NLI), spec, {}, None) for spec in several)
        one.measure(NLI, several[0])
        with pytest.raises(ModelError) as refused:
            one.measure(NLI, several[1])
        with pytest.raises(NotApplicableError) as not_applicable:
            one.measure(NLI, several[2])
        one.measure(NLI, several[3])
        messages.append((str(refused.value), str(not_applicable.value)))
    assert messages[0] == messages[1]


@pytest.mark.parametrize(("error", "times"), [(ScoreError("NaN"), 1), (RuntimeError("NaN"), 2)])
def test_an_error_of_scoring_is_raised_in_its_turn(specs, error, times):
    """An error of this package, which would come again, is not waited for twice: five workers may have been lost with
    the window.
    """
    failed = []

    class Failing(Workers):
        @contextmanager
        def open(self, task):
            if task.model.name == "m1":
                failed.append(threading.get_ident())
                raise error
            with super().open(task) as pool:
                yield pool

    one = runner(Failing())
    one.expect((one.suites(NLI), spec, {}, None) for spec in specs[:3])
    one.measure(NLI, specs[0])
    with pytest.raises(type(error), match=r"^NaN$"):
        one.measure(NLI, specs[1])
    assert len(failed) == times
    assert everything(one.measure(NLI, specs[2])) == everything(runner().measure(NLI, specs[2]))
    with pytest.raises(type(error), match=r"^NaN$"):  # it is asked for again, as by a second gate
        one.measure(NLI, specs[1])
    assert len(failed) == times + 1


def test_restarts_are_scored_side_by_side(specs):
    """One checkpoint a seed."""
    restarts = parse_spec("m=" + specs[0].target.replace("seed-0", "seed-{seed}"))
    workers = Workers(meet=True)
    there, here = (runner(one).measure(NLI, restarts, {"seeds": 3}) for one in (workers, None))
    assert everything(there) == everything(here)
    assert len(workers.models) == 3
    assert workers.most_at_once > 1
    expected = runner(Workers())
    expected.expect([(expected.suites(NLI), restarts, {"seeds": 3}, None)])
    assert everything(expected.measure(NLI, restarts, {"seeds": 3})) == everything(here)


def test_restarts_that_were_not_expected_end_what_was(specs):
    """Threads whose result nobody takes leave their workers and the lock of their entry."""
    restarts = parse_spec("m=" + specs[0].target.replace("seed-0", "seed-{seed}"))
    one = runner(Workers())
    one.expect((one.suites(NLI), spec, {}, None) for spec in specs[:4])
    one.measure(NLI, specs[0])
    before = one._beside
    assert everything(one.measure(OTHER, restarts, {"seeds": 3})) == everything(
        runner().measure(OTHER, restarts, {"seeds": 3})
    )
    assert not before._begun and not before._pieces
    assert everything(one.measure(NLI, specs[1])) == everything(runner().measure(NLI, specs[1]))


def test_generated_texts_wait_for_their_turn(tmp_path):
    """Where they end is asked of the network, which no other thread has: they would be generated twice."""
    causal = parse_spec(f"g={save_checkpoint('gpt2', tmp_path / 'causal')}")
    workers = Workers()
    one, other = (runner(executor, limit=2) for executor in (workers, None))
    one.expect([(one.suites("counterfactual-generation"), causal, {}, None)])
    assert everything(one.measure("counterfactual-generation", causal)) == everything(
        other.measure("counterfactual-generation", causal)
    )
    assert workers.models == ["g"]


def test_stored_scores_open_no_pool(specs, tmp_path):
    before = made(runner(cache=tmp_path), specs[:2])
    workers = Workers()
    assert made(runner(workers, cache=tmp_path), specs[:2]) == before
    assert workers.models == []


# Without models


class _Executor:
    def __init__(self, tasks):
        self.tasks, self.expected = tasks, []

    def expect(self, tasks):
        self.expected.append(tasks)


def pieces(number, gate=None, fails=()):
    def work(k):
        def run(progress):
            with progress(str(k), 1, 0) as advance:
                if gate is not None:
                    gate.wait(20)
                advance(1)
            return k

        return run

    return [Piece(k, lambda k=k: None if k in fails else work(k)) for k in range(number)]


@pytest.mark.parametrize("tasks", [1, 3, 20])
def test_results_come_by_key(tasks):
    beside = SideBySide(_Executor(tasks), pieces(10, fails={4}))
    assert [beside.take(k, None) for k in range(10)] == [0, 1, 2, 3, None, 5, 6, 7, 8, 9]
    assert beside.take(3, None) is None
    assert 7 not in beside


@pytest.mark.parametrize("key", [0, "not expected"])
def test_no_worker_is_left_for_others_while_the_run_works_itself(key):
    """Nothing is begun until the next piece is asked for, so that a share for each of those would lie idle."""
    executor = _Executor(20)
    beside = SideBySide(executor, pieces(10, fails={0}))
    assert beside.take(key, None) is None
    assert executor.expected[-1] == 1
    assert beside.take(1, None) == 1
    assert max(executor.expected) > 5


def test_an_interruption_lets_the_threads_end():
    gate, executor = threading.Event(), _Executor(3)
    beside = SideBySide(executor, pieces(5, gate))
    before = {thread.ident for thread in threading.enumerate()}

    def interrupt(label, total, done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        beside.take(
            0, lambda *line: interrupt(*line) if len(threading.enumerate()) > len(before) else nullcontext(print)
        )
    assert 1 not in beside
    gate.set()
    deadline = time.monotonic() + 20
    while {thread.ident for thread in threading.enumerate()} - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert {thread.ident for thread in threading.enumerate()} <= before
    assert executor.expected[-1] == 1


def test_the_progress_of_what_is_awaited_is_shown_by_the_thread_of_the_run():
    shown, seen = [], {4: threading.Event(), 9: threading.Event()}

    @contextmanager
    def progress(label, total, done):
        def advance(count):
            shown.append(count)
            seen[4].set()

        assert threading.current_thread() is threading.main_thread()
        shown.append((label, total, done))
        if label == "the second line":
            seen[9].set()
        yield advance
        shown.append("end")

    def work(show):
        with show("the first line", 10, 2) as advance:
            while not seen[4].wait(0.01):
                advance(1)
        with show("the second line", 5, 0):
            seen[9].wait(20)

    def other(show):
        with show("of another one", 7, 0) as advance:
            advance(1)

    beside = SideBySide(_Executor(2), [Piece("a", lambda: work), Piece("b", lambda: other)])
    beside.take("a", progress)
    assert shown[0][0] == "the first line"
    assert shown[0][1] == 10
    assert shown[0][2] + sum(part for part in shown if isinstance(part, int)) >= 3
    assert shown[-3:] == ["end", ("the second line", 5, 0), "end"]
