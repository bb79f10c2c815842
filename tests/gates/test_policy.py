"""A judgement is the same whatever ran before it; the policy of the run is applied in one place, in every thread."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.baseline_books import write_entries

from pytest_genderbias import Baseline, Limit, Measurement, measure
from pytest_genderbias.errors import DataFileError, GateFailure
from pytest_genderbias.gates.assertions import settle, settle_all
from pytest_genderbias.gates.book import entry_of
from pytest_genderbias.gates.comparison import compare_models, judge_against
from pytest_genderbias.gates.judgement import Comparison, Judgement, LeftOut
from pytest_genderbias.gates.limits import judge_limit
from pytest_genderbias.gates.policy import Referee, active_referee, refereed_by
from pytest_genderbias.gates.verdicts import FAILED, PASSED, REASONS, passes


class Neutral:
    """Answers each pair of an NLI suite from its premise, more or less neutral."""

    labels = ("entailment", "neutral", "contradiction")

    def __init__(self, neutral: float) -> None:
        self.neutral, self.name = neutral, "neutral"

    def pair_probabilities(self, premises: list[str], hypotheses: list[str]) -> np.ndarray:
        share = self.neutral + np.asarray([len(premise) % 7 for premise in premises]) / 100
        rows = np.stack([(1 - share) / 2, share, (1 - share) / 2], axis=1)
        same = np.asarray([p == h for p, h in zip(premises, hypotheses, strict=True)])
        return np.where(same[:, None], [[0.9, 0.05, 0.05]], rows)


@pytest.fixture(scope="module")
def now() -> Measurement:
    return measure("nli-occupation", Neutral(0.6), limit=600, cache=None)


@pytest.fixture(scope="module")
def better() -> Measurement:
    return measure("nli-occupation", Neutral(0.8), limit=600, cache=None)


def baseline_of(folder: Path, measurement: Measurement, **settings: str) -> Baseline:
    write_entries(folder, "m", "t.py", {measurement.suite: entry_of(measurement)})
    return Baseline(folder, "m", "t.py", **settings)


def judges(folder: Path, now: Measurement, better: Measurement) -> list[Callable[[], Judgement]]:
    """Return one judge of each kind, one that is undecided, better, stored and worse among them."""
    before = baseline_of(folder / "before", now)
    updated = baseline_of(folder / "updated", better, update="all", reason="why")
    return [
        lambda: judge_limit(now, Limit(at_least=now.value)),
        lambda: before.judge(better, margin=0.0),
        lambda: updated.judge(now, margin=0.0),
        lambda: judge_against(now, better, margin=0.0),
    ]


def test_a_judgement_does_not_depend_on_what_ran_before(now: Measurement, better: Measurement, tmp_path: Path) -> None:
    every = judges(tmp_path, now, better)
    first = [judge() for judge in every]
    assert {"too_few", "better", "stored", "regressed"} == {judgement.code for judgement in first}
    recorded: list[tuple[Judgement, str]] = []
    with refereed_by(Referee(100, lambda *settled: recorded.append(settled))):
        for judge in every:
            with suppress(GateFailure):
                settle(judge())
        under_policy = [judge() for judge in every]
    assert [outcome for _, outcome in recorded] == [FAILED, PASSED, PASSED, FAILED]
    again = [judge() for judge in every]
    for judgements in ([judgement for judgement, _ in recorded], under_policy, again):
        assert [vars(judgement) for judgement in judgements] == [vars(judgement) for judgement in first]
    assert first[0].outcome == "", "the policy is applied by settle alone"


def test_a_second_statistic_of_an_entry_is_judged_alone(now: Measurement, better: Measurement, tmp_path: Path) -> None:
    together = baseline_of(tmp_path, better, update="all", reason="why")
    alone = baseline_of(tmp_path, better, update="all", reason="why")
    together.judge(now, margin=0.0)
    assert together.judge(now, statistic="fraction_neutral", margin=0.0) == alone.judge(
        now, statistic="fraction_neutral", margin=0.0
    )
    together.judge(now, margin=0.0)
    [notes] = together.accepted.values()
    assert [note.statistic for note in notes].count("net_neutral") == 1


def test_judgements_travel_as_plain_data(now: Measurement, better: Measurement, tmp_path: Path) -> None:
    for judge in judges(tmp_path, now, better):
        judgement = judge()
        assert Judgement.from_dict(json.loads(json.dumps(judgement.to_dict()))) == judgement
        settled = judgement.settled(PASSED)
        assert Judgement.from_dict(json.loads(json.dumps(settled.to_dict()))) == settled
        assert settled.to_dict()["failed"] is False
    with pytest.raises(DataFileError, match=r"^judgement\.n: expected a whole number, got 'many'"):
        Judgement.from_dict({**judgement.to_dict(), "n": "many"})


def test_comparisons_travel_as_plain_data(now: Measurement, better: Measurement) -> None:
    rows, left_out = compare_models([now, replace(better, model="other"), replace(now, suite="alone")], ["other"])
    assert rows and left_out
    assert [Comparison.from_dict(json.loads(json.dumps(row.to_dict()))) for row in rows] == rows
    assert [LeftOut.from_dict(json.loads(json.dumps(suite.to_dict()))) for suite in left_out] == left_out


def test_the_referee_holds_in_other_threads(now: Measurement, better: Measurement, tmp_path: Path) -> None:
    worse = baseline_of(tmp_path, better).judge(now)
    recorded: list[tuple[Judgement, str]] = []
    with ThreadPoolExecutor(1) as pool:
        with (
            refereed_by(Referee(record=lambda *settled: recorded.append(settled))),
            pytest.raises(GateFailure, match=r"^worse: "),
        ):
            pool.submit(settle, worse).result()
        assert recorded == [(worse, FAILED)]
        pool.submit(settle, judge_limit(now, Limit(at_least=0.01))).result()
    assert len(recorded) == 1


def test_tests_side_by_side_in_threads_have_their_own_referees(now: Measurement) -> None:
    judged = {limit: judge_limit(now, Limit(at_least=limit)) for limit in (0.01, 0.99)}
    recorded: dict[float, list[str]] = {limit: [] for limit in judged}
    of_the_run = active_referee()
    both = threading.Barrier(2)

    def test(limit: float) -> None:
        with refereed_by(Referee(record=lambda _, outcome: recorded[limit].append(outcome))):
            both.wait(5)  # until the other thread has set its referee, too
            with suppress(GateFailure):
                settle(judged[limit])
            both.wait(5)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(test, recorded))
    assert recorded == {0.01: [PASSED], 0.99: [FAILED]}
    assert active_referee() == of_the_run


def test_every_judgement_of_a_test_is_recorded_before_the_first_failure(now: Measurement) -> None:
    bad, good = judge_limit(now, Limit(at_least=0.99)), judge_limit(now, Limit(at_least=0.01))
    recorded: list[tuple[Judgement, str]] = []
    referee = Referee(record=lambda *settled: recorded.append(settled))
    with refereed_by(referee), pytest.raises(GateFailure, match=r"^limit broken: "):
        settle_all([bad, good])
    assert recorded == [(bad, FAILED), (good, PASSED)]


def test_referees_nest_and_end_in_any_order() -> None:
    of_the_run = active_referee()
    first, second = refereed_by(Referee("none")), refereed_by(Referee("module"))
    first.__enter__()
    second.__enter__()
    assert active_referee().correct_for == "module"
    first.__exit__(None, None, None)
    assert active_referee().correct_for == "module"
    second.__exit__(None, None, None)
    assert active_referee() == of_the_run


def test_a_policy_is_set_without_numpy() -> None:
    code = "import sys, pytest_genderbias.gates.policy; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_each_code_passes_or_fails(now: Measurement) -> None:
    judgement = judge_limit(now, Limit(at_least=0.1))
    judged = {code: replace(judgement, code=code) for code in REASONS}
    assert {code for code, one in judged.items() if passes(code)} == {
        "within",
        "unchanged",
        "better",
        "same",
        "stored",
        "reduced",
    }
    for one in judged.values():
        assert passes(one.code) == (one.verdict == "pass")
    with pytest.raises(DataFileError, match=r"^judgement\.code: expected one of within, .*, got 'of the future'"):
        Judgement.from_dict({**judgement.to_dict(), "code": "of the future"})
