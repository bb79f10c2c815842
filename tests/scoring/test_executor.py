"""Windows that are scored in any order, lost and scored twice give the bits, the stop, the stored scores and the errors
of one process.
"""

import pickle
from contextlib import contextmanager, nullcontext
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.tiny_checkpoints import small_nli

from pytest_genderbias.errors import ScoreError
from pytest_genderbias.measurement.runner import Runner, RunSettings
from pytest_genderbias.models.objects import wrap_object
from pytest_genderbias.scoring import engine
from pytest_genderbias.scoring.engine import ScoreSettings, answer, looks, random_order
from pytest_genderbias.scoring.executor import AHEAD, MOST_LOSSES, Scored, Task, Window, in_order, joined_notes, windows
from pytest_genderbias.scoring.scorer import CountNote
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.suites.cases import Question

DIGEST = "0123456789abcdef" * 4
LIMIT = 896
ON_A_BUSY_MACHINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Unreliable:
    """An executor whose workers answer in any order, are lost, and answer twice; ``spoil`` may change what became of a
    window.
    """

    def __init__(self, seed=0, workers=3, lose=0.0, repeat=0.0, spoil=lambda scored: scored):
        self.random, self.workers, self.lose, self.repeat, self.spoil = (
            np.random.default_rng(seed),
            workers,
            lose,
            repeat,
            spoil,
        )
        self.submitted, self.collected, self.losses, self.copies, self.ended = [], [], 0, 0, 0
        self.largest_lead = self.most_under_way = 0

    @contextmanager
    def open(self, task: Task):
        asked = (task.cases, task.query, task.model, task.batch_tokens)
        self.task, self.scorers = task, [make_scorer(*asked) for _ in range(self.workers)]
        self.pending, self.slots, self.state, self.notes = (
            [],
            2 * self.workers,
            f"{self.workers} workers",
            ["scored by a fake"],
        )
        try:
            yield self
        finally:
            self.ended += 1

    def submit(self, window, units):
        self.submitted.append(window)
        self.pending.append((window, units))
        self.most_under_way = max(self.most_under_way, len(self.pending))
        first = min(start for (start, _), _ in self.pending)
        self.largest_lead = max(self.largest_lead, len({w for w in self.submitted if w.start >= first}))

    def collect(self):
        window, units = self.pending.pop(self.random.integers(len(self.pending)))
        if self.random.random() < self.lose and self.submitted.count(window) < MOST_LOSSES:
            self.losses += 1
            return Scored(window, lost="the lights went out")
        if self.random.random() < self.repeat:
            self.copies += 1
            self.pending.append((window, units))
        worker = int(self.random.integers(self.workers))
        scorer = self.scorers[worker]
        values = scorer.score(self.task.cases.cases_of(units))
        self.collected.append(window)
        return self.spoil(Scored(window, values, scorer.notes, f"worker {worker}"))


@pytest.fixture
def nli(tiny_model):
    return (*small_nli(), tiny_model("bert-nli"))


class Answering:
    """Gives each pair the probabilities that the lengths of its texts give: no network, where none is looked at."""

    labels, fingerprint = ("entailment", "neutral", "contradiction"), "lengths"

    def pair_probabilities(self, premises, hypotheses):
        first, second = (np.array([len(text) for text in texts]) for texts in (premises, hypotheses))
        found = np.stack([first, second, np.full(len(first), 9)], axis=1)
        return found / found.sum(axis=1, keepdims=True)


@pytest.fixture
def answered():
    return (*small_nli(), wrap_object(Answering()))


def run(nli, executor=None, enough=None, **settings):
    space, query, model = nli
    run_settings = ScoreSettings(**{"limit": LIMIT, **settings}, executor=executor)
    return answer(Question(space, query), model, DIGEST, run_settings, "nli on m", enough)


def stop_at(units):
    """Return what is enough after some units, and keeps how often it was asked about what."""
    seen = []

    def enough(answer):
        seen.append((len(answer.units), answer.values.tobytes()))
        return len(answer.units) >= units

    return enough, seen


@pytest.mark.parametrize("seed", range(3))
def test_any_order_gives_the_same_bits_and_the_same_stop(nli, tmp_path, seed, monkeypatch):
    monkeypatch.setattr(engine, "WINDOW", 96)
    enough, seen = stop_at(500)
    alone, _ = run(nli, enough=enough)
    executor = Unreliable(seed, lose=0.35, repeat=0.35)
    enough, seen_elsewhere = stop_at(500)
    elsewhere, notes = run(nli, executor, enough, cache=tmp_path)
    assert executor.losses
    assert executor.copies
    assert executor.collected != sorted(executor.collected)
    assert seen_elsewhere == seen
    assert alone.stopped
    assert elsewhere.stopped
    assert len(elsewhere.units) == len(alone.units) < LIMIT
    assert elsewhere.values.tobytes() == alone.values.tobytes()
    assert notes == ["scored by a fake"]
    assert executor.ended == 1


def test_all_cases_give_the_same_bits(nli):
    alone, _ = run(nli)
    elsewhere, _ = run(nli, Unreliable(7, lose=0.3, repeat=0.3))
    assert elsewhere.values.tobytes() == alone.values.tobytes()
    assert not elsewhere.stopped


def test_the_run_ahead_is_bounded(answered, monkeypatch):
    monkeypatch.setattr(engine, "WINDOW", 16)
    executor = Unreliable(3, workers=2)
    run(answered, executor)
    assert executor.most_under_way == executor.slots
    assert executor.slots < executor.largest_lead <= AHEAD * executor.slots


def test_only_the_front_is_stored(answered, tmp_path, monkeypatch):
    """A run that is interrupted leaves the windows before the first incomplete one, and the next run scores only what
    is missing.
    """
    monkeypatch.setattr(engine, "WINDOW", 64)
    monkeypatch.setattr(engine, "_KEEP_EVERY", -1.0)

    class Missing(Unreliable):
        """The window at 320 comes last, and the run is interrupted while it is awaited."""

        def collect(self):
            others = [pending for pending in self.pending if pending[0].start != 320]
            if not others:
                raise KeyboardInterrupt
            self.pending.sort(key=lambda pending: pending[0].start == 320)
            window, units = self.pending.pop(0)
            self.collected.append(window)
            return Scored(window, self.scorers[0].score(self.task.cases.cases_of(units)))

    ahead = Missing()
    with pytest.raises(KeyboardInterrupt):
        run(answered, ahead, cache=tmp_path)
    assert max(window.stop for window in ahead.collected) > 384
    spans = sorted(path.stem for path in tmp_path.rglob("*.npy"))
    assert spans[-1].endswith("0000000320")
    rest = Unreliable(1)
    elsewhere, _ = run(answered, rest, cache=tmp_path)
    assert min(rest.submitted).start == 320
    assert elsewhere.values.tobytes() == run(answered)[0].values.tobytes()


def test_an_error_waits_for_the_windows_before_it(answered, tmp_path, monkeypatch):
    """An error beyond the stop is none: one process would not have come that far. One before it is raised, with the
    front in the cache.
    """
    monkeypatch.setattr(engine, "WINDOW", 64)

    def fail(scored):
        return Scored(scored.window, error=ScoreError("NaN")) if scored.window.start == 448 else scored

    enough, _ = stop_at(300)
    spoiled = Unreliable(5, workers=6, spoil=fail)
    stopped, _ = run(answered, spoiled, enough)
    assert any(window.start == 448 for window in spoiled.collected)
    assert stopped.stopped
    with pytest.raises(ScoreError, match=r"^NaN$"):
        run(answered, Unreliable(5, workers=6, spoil=fail), cache=tmp_path)
    assert sorted(path.stem for path in tmp_path.rglob("*.npy"))[-1].endswith("0000000448")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_scores_of_workers_that_are_no_numbers_are_refused_and_not_stored(answered, tmp_path, monkeypatch, value):
    monkeypatch.setattr(engine, "WINDOW", 64)
    monkeypatch.setattr(engine, "_KEEP_EVERY", -1.0)

    def poison(scored):
        if scored.window.start == 448:
            scored.values[5:9, 1] = value
        return scored

    space, _, model = answered
    case = random_order(space.n_units, DIGEST, 0)[448 + 5]
    text = " / ".join(space.sentences(np.array([case]))[0])
    with pytest.raises(ScoreError) as caught:
        run(answered, Unreliable(5, workers=6, spoil=poison), cache=tmp_path)
    assert str(caught.value).startswith(f"{model.name} gives NaN or infinite scores, first for {text!r};")
    stored = sorted(tmp_path.rglob("*.npy"))
    assert stored[-1].stem.endswith("0000000448")
    enough, _ = stop_at(448)
    assert np.isfinite(run(answered, Unreliable(5, workers=6, spoil=poison), enough)[0].values).all()


def test_a_window_that_ends_worker_after_worker_is_named(answered, monkeypatch):
    monkeypatch.setattr(engine, "WINDOW", 64)
    lethal = Unreliable(2, spoil=lambda s: Scored(s.window, lost="exit code 137") if s.window.start == 128 else s)
    with pytest.raises(
        ScoreError,
        match=r"^nli on m, cases 129 to 192 of its random order: 5 workers .* exit code 137; .*bias_batch_tokens",
    ):
        run(answered, lethal)
    assert lethal.submitted.count(Window(128, 192)) == MOST_LOSSES
    assert lethal.ended == 1


def test_a_cached_run_opens_no_pool(answered, tmp_path):
    alone, _ = run(answered, cache=tmp_path)
    executor = Unreliable()
    elsewhere, notes = run(answered, executor, cache=tmp_path)
    assert not executor.submitted
    assert notes == []
    assert elsewhere.values.tobytes() == alone.values.tobytes()


def test_the_progress_names_the_workers_and_counts_every_case_once(answered):
    lines, counts = [], []

    def progress(label, total, done):
        lines.append((label, total, done))
        return nullcontext(counts.append)

    run(answered, Unreliable(4, lose=0.2, repeat=0.2), progress=progress)
    assert lines == [("nli on m, 3 workers", LIMIT, 0)]
    assert sum(counts) == LIMIT


def test_a_line_of_the_progress_begins_where_the_workers_change(answered):
    lines, counts = [], []

    def progress(label, total, done):
        lines.append((label, done))
        return nullcontext(counts.append)

    class Restarted(Unreliable):
        def collect(self):
            if len(self.collected) == 1:
                self.state = "3 workers, 1 restarted"
            return super().collect()

    run(answered, Restarted(workers=1), progress=progress)
    assert [label for label, _ in lines] == ["nli on m, 1 workers", "nli on m, 3 workers, 1 restarted"]
    assert lines[1][1] + sum(counts[len(counts) - (LIMIT - lines[1][1]) // 512 - 1 :]) >= LIMIT


def test_the_runner_scores_where_the_executor_says_and_what_it_is_handed_here():
    executor = Unreliable(9, lose=0.3)
    there = Runner(score=RunSettings(limit=256, cache=None), executor=executor)
    here = Runner(score=RunSettings(limit=256, cache=None))
    assert there.measure("nli-occupation", "demo-nli").values == here.measure("nli-occupation", "demo-nli").values
    assert executor.submitted
    executor.submitted.clear()
    there.measure_once("nli-occupation", there.open("demo-nli"))
    assert not executor.submitted


@ON_A_BUSY_MACHINE
@given(st.integers(1, 5000), st.integers(1, 40), st.integers(1, 700), st.floats(0, 1))
def test_windows_end_where_those_of_a_whole_run_do(n, each, size, done):
    """Windows that go on after any number of units end at ends of a whole run's, so that its batches are the same from
    there on.
    """
    ends = list(looks(n, each))
    whole = list(windows(0, ends, size))
    assert [w.start for w in whole] == [0, *(w.stop for w in whole[:-1])]
    assert whole[-1].stop == n
    assert {stop for _, stop in whole} == {*range(size, n, size), *ends}
    start = whole[int(done * (len(whole) - 1))].start
    assert list(windows(start, ends, size)) == [w for w in whole if w.start >= start]


@ON_A_BUSY_MACHINE
@given(st.data())
def test_windows_come_in_their_order_whatever_the_pool_does(data):
    """Without any model: a pool that answers in an order of hypothesis, loses windows, and answers twice."""
    todo = [Window(*pair) for pair in pairwise(range(data.draw(st.integers(2, 30))))]

    class Drawn:
        slots = data.draw(st.integers(1, 5))
        pending: list[Window] = []  # noqa: RUF012
        submissions: list[Window] = []  # noqa: RUF012

        def submit(self, window, units):
            assert units == ("units", window)
            self.pending.append(window)
            self.submissions.append(window)

        def collect(self):
            window = self.pending[data.draw(st.integers(0, len(self.pending) - 1))]
            fate = data.draw(st.sampled_from(["whole", "whole", "twice", "lost"]))
            if fate != "twice":
                self.pending.remove(window)
            if fate == "lost" and self.submissions.count(window) < MOST_LOSSES:
                return Scored(window, lost="gone")
            return Scored(window, np.asarray([window.start]))

    Drawn.pending, Drawn.submissions = [], []
    scored = list(in_order(Drawn(), iter(todo), lambda window: ("units", window), str))
    assert [s.window for s in scored] == todo
    assert [int(s.values[0]) for s in scored] == [w.start for w in todo]
    assert len(Drawn.submissions) <= MOST_LOSSES * len(todo)


def test_remarks_with_counts_are_added_and_travel():
    note = pickle.loads(pickle.dumps(CountNote(3, "{} texts cut")))
    assert (note, note.number, note.text) == ("3 texts cut", 3, "{} texts cut")
    joined = joined_notes([["a", note], [CountNote(4, "{} texts cut"), "b", "a"]])
    assert joined == ["a", "7 texts cut", "b"]
    assert {type(text) for text in joined} == {str}  # what travels between the processes of xdist is of builtin types
