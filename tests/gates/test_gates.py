"""The gates: one rule, two questions, and verdicts that hang on nothing but the model. Models are small objects."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.baseline_books import write_entries
from support.wide_suites import CLASSIFIERS, TOTAL, WORDS, write_suites

from pytest_genderbias import (
    Baseline,
    Limit,
    Measurement,
    assert_at_least,
    assert_at_most,
    assert_no_regression,
    measure,
)
from pytest_genderbias.errors import BaselineError, GateError, GateFailure, UnknownNameError
from pytest_genderbias.gates import baseline, comparison, item_file, regression
from pytest_genderbias.gates.book import entry_of
from pytest_genderbias.gates.comparison import judge_against
from pytest_genderbias.gates.judgement import decide
from pytest_genderbias.gates.limits import decided_by, judge_limit
from pytest_genderbias.gates.policy import Margin
from pytest_genderbias.gates.regression import Reference, find_regression
from pytest_genderbias.gates.sensitivity import Retraining
from pytest_genderbias.gates.verdicts import FLOAT_NOISE, passes
from pytest_genderbias.measurement.restarts import combine_restarts
from pytest_genderbias.reports.run_summary import overview
from pytest_genderbias.statistics.inference.intervals import restart_interval
from pytest_genderbias.statistics.inference.item_sums import SumsByStatistic, mean_sums
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.text.printable import approximate


@pytest.fixture(autouse=True)
def _over_items_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take other trainings for equal: these tests are of bounds over items, which ``test_other_trainings.py``
    widens.
    """
    unknown = Retraining(None, None, None, None, "", False)
    for module in (baseline, comparison):
        monkeypatch.setattr(module, "retraining_of", lambda measurement, statistic: unknown)
    monkeypatch.setattr(regression, "prior_of", lambda measurement, statistic, items: None)


scope: dict[str, Any] = {}
exec(CLASSIFIERS, scope)  # the same classes here, and as a module in the projects of the tests
Scatter = scope["Scatter"]
ASIDE = (
    6 + 2 * 2 * 4
)  #: pairs beside those that are scored: the look at the labels, and for both scorers four that are asked about twice


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The suite ``wide``: 20 premise words x 4 gendered words x 22 foods, scores without bias of their own."""
    folder = tmp_path_factory.mktemp("suites")
    write_suites(folder)
    return folder / "wide.yaml"


@pytest.fixture(scope="module")
def whole(wide: Path) -> Measurement:
    return measure(wide, Scatter(), cache=None)


@pytest.fixture(scope="module")
def sampled(wide: Path) -> Measurement:
    return measure(wide, Scatter(), cache=None, limit=400)


# The one rule.

edges = st.floats(-2, 2)


@given(edges, edges, edges, edges)
def test_the_rule(a: float, b: float, c: float, d: float) -> None:
    low, high, least, most = min(a, b), max(a, b), min(c, d), max(c, d)
    inside, apart = least <= low and high <= most, high < least or low > most
    assert decide(low, high, least, most) == ("within" if inside else "over_limit" if apart else "too_few")
    assert decide(-high, -low, -most, -least) == decide(low, high, least, most), "no direction is another rule"


@given(edges, edges, edges, st.floats(0, 1), st.floats(0, 1))
def test_closer_bounds_never_turn_a_decision_over(a: float, b: float, limit: float, s: float, t: float) -> None:
    low, high = min(a, b), max(a, b)
    inner = sorted((low + s * (high - low), low + t * (high - low)))
    before = decide(low, high, -np.inf, limit)
    if before != "too_few" and low <= inner[0] and inner[1] <= high:
        assert decide(*inner, -np.inf, limit) == before


@given(st.integers(1, 10**7))
def test_an_estimate_is_rounded_up_to_two_figures(number: int) -> None:
    shown = int(approximate(number).removeprefix("about ").replace(",", ""))
    assert number <= shown <= number * 1.1 and len(str(shown).rstrip("0")) <= 2 + (shown < number + 1)


# A limit: the whole suite, a sample of it, other items.


@given(st.floats(0.01, 1))
def test_a_whole_suite_decides_every_limit(whole: Measurement, limit: float) -> None:
    value = whole.values["net_neutral"]
    found = judge_limit(whole, Limit(at_least=limit))
    assert found.code == ("within" if value >= limit - FLOAT_NOISE else "over_limit")
    assert (found.over, found.settled_by) == ("the suite's cases, all of them", "")


@given(st.floats(0.01, 1))
def test_a_sample_is_judged_by_its_bounds(sampled: Measurement, limit: float) -> None:
    bounds = sampled.bounds["net_neutral"]
    found = judge_limit(sampled, Limit(at_least=limit))
    assert found.code == decide(bounds.low, bounds.high, limit - FLOAT_NOISE, np.inf)
    assert (found.interval.low, found.interval.high) == (bounds.low, bounds.high)
    if found.code == "too_few":
        assert not passes(found.code) and found.settled_by.endswith("cases, if the value stays where it is")
        assert 400 < int(found.settled_by.split()[1].replace(",", "")) <= sampled.n_total * 1.1


def test_what_batches_and_threads_change_keeps_a_limit(whole: Measurement, sampled: Measurement) -> None:
    """A mean of three .1 is .10000000000000002; a score moves by 1e-7 with the batch that it is in."""
    about = whole.statistics["net_neutral"]
    assert Limit(at_most=0.1).code(about, np.mean([0.1] * 3), np.mean([0.1] * 3)) == "within"
    assert Limit(at_most=0.1).code(about, 0.1 + 2e-6, 0.1 + 2e-6) == "over_limit"
    for by in (-5e-7, 5e-7):
        assert judge_limit(whole, Limit(at_least=whole.value + by)).code == "within"
        assert judge_limit(whole, Limit(at_most=whole.value + by, at_least=0.1)).code == "within"
        low = sampled.bounds["net_neutral"].low
        assert judge_limit(sampled, Limit(at_least=low + by)).code == "within"
        assert judge_limit(whole, Limit(at_least=whole.interval.low + by), generalise=True).code == "within"


def test_more_cases_settle_what_they_were_said_to_settle(wide: Path, sampled: Measurement) -> None:
    limit = sampled.value - 0.012
    found = judge_limit(sampled, Limit(at_least=limit))
    needed = int(found.settled_by.split()[1].replace(",", ""))
    longer = measure(wide, Scatter(), cache=None, limit=min(TOTAL, 2 * needed))
    assert judge_limit(longer, Limit(at_least=limit)).code == "within"


def test_other_items_are_another_question(whole: Measurement, wide: Path) -> None:
    interval = whole.intervals["net_neutral"]
    edge = (whole.value + interval.low) / 2
    assert judge_limit(whole, Limit(at_least=edge)).code == "within"
    found = judge_limit(whole, Limit(at_least=edge), generalise=True)
    assert (found.code, found.bound) == ("too_few", f"at least {edge:g} for other items")
    assert "judged for other words for person" in found.text
    assert judge_limit(whole, Limit(at_least=interval.low - 1e-9), generalise=True).code == "within"
    assert judge_limit(whole, Limit(at_least=interval.high + 1e-5), generalise=True).code == "over_limit"


def test_without_an_interval_other_items_stay_open(wide: Path) -> None:
    alike = measure(wide, Scatter(scatter=0.0), cache=None)
    found = judge_limit(alike, Limit(at_least=0.1), generalise=True)
    assert found.code == "too_few"
    assert "no interval for other items: too few words for person, or too few that differ" in found.text
    assert "gate the suite's own cases instead" in found.settled_by
    assert judge_limit(alike, Limit(at_least=0.1)).code == "within"


def test_a_sample_of_what_is_no_mean_decides_nothing(wide: Path) -> None:
    part = measure(wide, Scatter(), cache=None, limit=400, unit="word_pair")
    found = judge_limit(part, Limit(at_least=0.1), "threshold_0.5")
    assert (found.code, found.settled_by) == ("too_few", "all 1,760 cases (no limit)")
    assert "400 of 1,760 cases were scored" in found.text
    assert (
        judge_limit(measure(wide, Scatter(), cache=None, unit="word_pair"), Limit(at_least=0.1), "threshold_0.5").code
        == "within"
    )


def test_no_value_fails_and_says_why(whole: Measurement) -> None:
    found = judge_limit(whole, Limit(at_least=0.5), "accuracy")
    assert (found.code, not passes(found.code)) == ("no_value", True)
    assert "accuracy should be at least 0.5, but it has no value: SNLI is missing" in found.text.partition("\n")[0]


def restarts(wide: Path, *bases: float) -> Measurement:
    each = [measure(wide, Scatter(base), cache=None, limit=200) for base in bases]
    return combine_restarts(each, range(len(bases)), "runs/{seed}")


def test_a_limit_over_restarts_is_for_other_restarts(wide: Path) -> None:
    found = judge_limit(restarts(wide, 0.70, 0.72, 0.71), Limit(at_least=0.6))
    assert (found.code, found.bound, found.over) == ("within", "at least 0.6 for other restarts", "restarts")
    assert judge_limit(restarts(wide, 0.70, 0.72, 0.71), Limit(at_least=0.70)).code == "too_few"
    assert judge_limit(restarts(wide, 0.70, 0.72, 0.71), Limit(at_least=0.80)).code == "over_limit"


def test_restarts_on_a_sample_hold_for_all_cases(wide: Path) -> None:
    """The same few cases in every restart: their error is in no spread over restarts. Five checkpoints, 64 of 1,760
    cases.
    """
    bases = (0.698, 0.699, 0.700, 0.701, 0.702)
    whole = np.mean([measure(wide, Scatter(base), cache=None).value for base in bases])
    missed, narrow = 0, 0
    for seed in range(12):
        each = [measure(wide, Scatter(base), cache=None, limit=64, seed=seed) for base in bases]
        found = combine_restarts(each, range(5)).interval
        alone = restart_interval([one.value for one in each])
        missed += not found.low <= whole <= found.high
        narrow += not alone.low <= whole <= alone.high
    assert missed == 0 and narrow >= 6, "the spread over restarts alone misses more often than not"
    reach = np.mean([one.value - one.bounds["net_neutral"].low for one in each])
    assert found.low == pytest.approx(alone.low - reach) and found.high > alone.high
    assert (found.level, found.over) == (0.9, "restarts")
    assert found.method.startswith("t over restarts, widened by the mean reach of the bounds for all cases (betting")
    judged = judge_limit(combine_restarts(each, range(5)), Limit(at_least=float(whole)))
    assert (judged.code, judged.interval.level) == ("too_few", 0.9)
    assert "(90 %: " in judged.headline and "; 90 % interval for other items: " in judged.text
    assert judged.settled_by == "all 1,760 cases (no limit), or a limit farther away"


def test_restarts_on_a_sample_of_what_is_no_mean(wide: Path) -> None:
    each = [measure(wide, Scatter(0.45 + k / 100), cache=None, limit=400, unit="word_pair") for k in range(3)]
    assert len({one.values["threshold_0.5"] for one in each}) > 1
    found = judge_limit(combine_restarts(each, range(3)), Limit(at_least=0.1), "threshold_0.5")
    assert (found.code, found.settled_by) == ("too_few", "all 1,760 cases (no limit)")
    assert "no interval for other restarts: 400 of 1,760 cases were scored, the same in every restart" in found.text


@pytest.mark.parametrize(
    ("bases", "why"), [((0.7, 0.8), "fewer than three restarts"), ((0.7,) * 3, "all restarts gave the same")]
)
def test_restarts_that_say_nothing_of_others(wide: Path, bases: tuple[float, ...], why: str) -> None:
    found = judge_limit(restarts(wide, *bases), Limit(at_least=0.1))
    assert (found.code, found.over) == ("too_few", "other restarts")
    assert f"no interval for other restarts: {why}" in found.text
    assert found.settled_by == "three restarts that differ, better five (seeds: 5)"


def test_an_undecided_limit_fails_and_a_better_value_passes(
    whole: Measurement, sampled: Measurement, tmp_path: Path
) -> None:
    with pytest.raises(GateFailure, match=r"^cannot judge \(too few cases\): "):
        assert_at_least(sampled, sampled.value)
    better = assert_no_regression(measure_like(whole, Scatter(worse=-0.1)), stored(tmp_path, whole))
    assert better.code == "better" and better.text.startswith("pass (better: refresh): ")


# Early stopping.


def until(**limits: Limit) -> Any:
    from pytest_genderbias.suites.families.nli import Nli

    return decided_by(limits.items(), {name: one.plain() for name, one in Nli().statistics.items()})


def test_scoring_stops_at_the_first_look_that_decides(wide: Path) -> None:
    one = Scatter()
    found = measure(wide, one, cache=None, until=until(net_neutral=Limit(at_least=0.4)))
    assert found.stopped and (found.n, found.n_total) == (64, TOTAL)
    assert one.asked <= 64 + ASIDE
    near = measure(wide, Scatter(), cache=None, until=until(net_neutral=Limit(at_least=0.66)))
    both = until(net_neutral=Limit(at_least=0.66), **{"threshold_0.5": Limit(at_least=0.1)})
    assert 64 < near.n < TOTAL
    assert measure(wide, Scatter(), cache=None, until=both).n == near.n, "the last gate decides"
    edge = measure(wide, Scatter(), cache=None, until=until(net_neutral=Limit(at_least=near.value)))
    assert edge.n > near.n
    never = until(net_neutral=Limit(at_least=0.4), **{"threshold_0.5": Limit(at_least=0.1)})
    assert measure(wide, Scatter(), cache=None, unit="word_pair", until=never).n == TOTAL, "no sample decides this one"


def test_the_cache_changes_neither_n_nor_verdict(wide: Path, tmp_path: Path) -> None:
    stop = until(net_neutral=Limit(at_least=0.66))
    alone = measure(wide, Scatter(), cache=None, until=stop)
    for before in (None, 100, alone.n, TOTAL):  # nothing, less, as much, and more was scored before
        cache = tmp_path / str(before)
        if before is not None:
            measure(wide, Scatter(), cache=cache, limit=before)
        again = Scatter()
        found = measure(wide, again, cache=cache, until=stop)
        assert (found.n, found.values, found.bounds) == (alone.n, alone.values, alone.bounds)
        assert again.asked <= max(0, alone.n - (before or 0)) + ASIDE
        assert found.to_dict()["signature"]["sample"] == alone.to_dict()["signature"]["sample"]


def test_accuracy_is_not_asked_where_nothing_gates_it(wide: Path, tmp_path: Path) -> None:
    rows = [{"sentence1": f"A {w} eats.", "sentence2": "Rain.", "gold_label": "neutral"} for w in WORDS]
    (tmp_path / "snli").mkdir()
    (tmp_path / "snli" / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    bias = Limit(at_least=0.4)
    found = measure(wide, Scatter(), cache=None, data=tmp_path, until=until(net_neutral=bias))
    assert (found.n, found.values["accuracy"]) == (64, None)
    assert found.reasons["accuracy"] == "not asked: the gates were decided without it"
    found = measure(
        wide, Scatter(), cache=None, data=tmp_path, until=until(net_neutral=bias, accuracy=Limit(at_least=0.5))
    )
    assert (found.n, found.values["accuracy"]) == (64, 1.0)
    assert judge_limit(found, Limit(at_least=0.5), "accuracy").over == "the suite's cases, all of them"


def test_accuracy_without_its_data_is_decided_at_once(wide: Path) -> None:
    one = Scatter()
    found = measure(wide, one, cache=None, until=until(accuracy=Limit(at_least=0.5)))
    assert (found.n, found.values["accuracy"]) == (64, None) and one.asked <= 64 + ASIDE
    assert judge_limit(found, Limit(at_least=0.5), "accuracy").code == "no_value"


def test_a_limit_on_a_missing_statistic_names_those_there_are() -> None:
    with pytest.raises(UnknownNameError, match="no statistic 'typo'; there are net_neutral, fraction_neutral, "):
        until(typo=Limit(at_least=0.5))


def test_a_stopped_measurement_says_nothing_of_others(wide: Path, whole: Measurement) -> None:
    """Bounds for a number of items that was fixed do not hold where one looked until they were far enough."""
    stop = until(net_neutral=Limit(at_least=0.4))
    found = measure(wide, Scatter(), cache=None, until=stop)
    assert judge_limit(found, Limit(at_least=0.4)).code == "within"
    with pytest.raises(GateError, match=r"scored only until .* for other items or restarts need a measurement without"):
        judge_limit(found, Limit(at_least=0.4), generalise=True)
    for pair in ((found, found), (whole, found), (found, whole)):
        with pytest.raises(GateError, match="scored only until other gates were decided; compare measurements without"):
            judge_against(*pair, margin=0.0)
    each = [*(measure(wide, Scatter(base), cache=None, limit=64) for base in (0.70, 0.71)), found]
    with pytest.raises(GateError, match="scored only until"):
        judge_limit(combine_restarts(each, range(3)), Limit(at_least=0.4))


def test_the_table_shows_the_longest_of_several_measurements(wide: Path, whole: Measurement) -> None:
    short = measure(wide, Scatter(), cache=None, until=until(net_neutral=Limit(at_least=0.4)))
    for several in ([short, whole], [whole, short]):
        shown = "\n".join(text for text, _ in overview(several, [], 100))
        assert shown.count("  net_neutral") == 1 and "64 of" not in shown


def test_a_stopped_measurement_is_no_baseline(wide: Path, tmp_path: Path) -> None:
    found = measure(wide, Scatter(), cache=None, until=until(net_neutral=Limit(at_least=0.4)))
    with pytest.raises(GateError, match="scored only until other gates were decided"):
        Baseline(tmp_path, "m", "t.py", update="all").judge(found, margin=0.0)


# Against a baseline.


def stored(folder: Path, measurement: Measurement, **how: Any) -> Baseline:
    write_entries(folder, "m", "t.py", {measurement.suite: entry_of(measurement)})
    return Baseline(folder, "m", "t.py", **how)


def measure_like(other: Measurement, one: Any, **how: Any) -> Measurement:
    """Measure the suite that another measurement is of."""
    assert other.suite in ("wide", "tiny-nli")
    return measure(_SUITE_FILES[other.suite], one, cache=None, **how)


_SUITE_FILES: dict[str, Path] = {}


@pytest.fixture(autouse=True)
def _suite_files(wide: Path) -> None:
    _SUITE_FILES.update({"wide": wide, "tiny-nli": wide.with_name("tiny-nli.yaml")})


def test_an_unchanged_model_is_the_same_in_every_item(whole: Measurement, tmp_path: Path) -> None:
    for same in (Scatter(), Scatter(noise=1e-10)):  # the second hangs a little on how many pairs are asked at a time
        found = stored(tmp_path, whole).judge(measure_like(whole, same), margin=0.0)
        assert (found.code, found.p) == ("unchanged", 1.0)
        assert "(20 of them, 0 moved; the same in every item)" in found.text


def test_worse_better_and_undecided(whole: Measurement, tmp_path: Path) -> None:
    baseline = stored(tmp_path, whole)
    worse = baseline.judge(measure_like(whole, Scatter(worse=0.05)), margin=0.01)
    assert worse.code == "regressed" and worse.difference == pytest.approx(0.05)
    assert re.search(r"  moved     [\w ,]+ premise words; most: ", worse.text)
    assert "judged for other premise words" in worse.text
    assert baseline.judge(measure_like(whole, Scatter(worse=0.05)), margin=0.06).code == "within"
    assert baseline.judge(measure_like(whole, Scatter(worse=-0.05)), margin=0.01).code == "better"
    few = baseline.judge(measure_like(whole, Scatter(worse=0.3, words=("nurse", "poet"))), margin=0.01)
    assert few.code == "too_few"
    assert "(20 of them, 2 moved; " in few.text
    moved = re.search(
        r"  moved     2 of 20 premise words; most: (nurse|poet) ([\d.]+) -> ([\d.]+), (nurse|poet) ", few.text
    )
    assert moved is not None and float(moved[2]) - float(moved[3]) == pytest.approx(0.3, abs=1e-3)
    records = few.text.partition("  records   of what moved most, as they are now:\n")[2].splitlines()
    assert [record.partition("; pairs")[0].strip() for record in records] == [
        f"slice: person; value: {name}" for name in (moved[1], moved[4])
    ]
    assert few.settled_by == "a margin of 0.096", "no list of a hundred words in place of 20"
    assert (
        baseline.judge(measure_like(whole, Scatter(worse=0.3, words=("nurse", "poet"))), margin=0.31).code == "within"
    )


def test_too_few_items_leave_the_suite_itself(wide: Path, tmp_path: Path) -> None:
    few = measure(wide.with_name("tiny-nli.yaml"), Scatter(), cache=None)
    baseline = stored(tmp_path, few)
    found = baseline.judge(measure_like(few, Scatter(worse=0.05)), margin=0.01)
    assert (found.code, found.over) == ("regressed", "the suite's cases, all of them")
    assert "3 premise words in common say nothing of others, 6 are needed" in found.text
    assert baseline.judge(measure_like(few, Scatter(worse=0.05)), margin=0.06).code == "within"
    part = measure_like(few, Scatter(), limit=100)
    found = stored(tmp_path, part).judge(measure_like(few, Scatter(worse=0.05), limit=100), margin=0.0)
    assert (found.code, found.settled_by) == ("too_few", "all 264 cases (no limit), in a new baseline")


def test_items_that_were_too_large_to_be_stored(
    whole: Measurement, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_file, "MOST_ITEM_BYTES", 10)
    found = stored(tmp_path, whole).judge(measure_like(whole, Scatter(worse=0.05)), margin=0.0)
    assert (found.code, found.over) == ("regressed", "the suite's cases, all of them")
    assert "the statistics of its items take more than 512 KiB and were not stored" in found.text
    assert not list(tmp_path.rglob("*.npz"))


@pytest.mark.parametrize(
    ("change", "message"), [("missing", ": no such file"), ("damaged", " is not the one that belongs to t.py.json")]
)
def test_item_files_are_whole_or_one_error(whole: Measurement, tmp_path: Path, change: str, message: str) -> None:
    baseline = stored(tmp_path, whole)
    (path,) = tmp_path.rglob("*.npz")
    path.unlink() if change == "missing" else path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(
        BaselineError,
        match=rf"t.py.wide.[0-9a-f]{{8}}.npz{message}.*restore it from version control, or run with --bias-update",
    ):
        baseline.judge(whole, margin=0.0)


def test_the_bounds_hold_for_the_gates_of_the_family(whole: Measurement, tmp_path: Path) -> None:
    alike = {f"wide-{i}": entry_of(whole) for i in range(3)}
    write_entries(tmp_path, "m", "t.py", {"wide": entry_of(whole), **alike})
    write_entries(tmp_path, "m", "u.py", alike)
    write_entries(tmp_path, "other", "u.py", alike)
    worse, better = measure_like(whole, Scatter(worse=0.05)), measure_like(whole, Scatter(worse=-0.05))
    tests = {"model": 7, "module": 4, "none": 1, 10**6: 10**6}
    for family, number in tests.items():
        baseline = Baseline(tmp_path, "m", "t.py", correct_for=family)
        found = baseline.judge(worse, margin=0.01)
        assert (found.tests, found.code) == (number, "too_few" if number == 10**6 else "regressed")
        others = [
            Baseline(tmp_path, "m", "t.py", correct_for=family).judge(measured, margin).code
            for measured, margin in ((worse, 0.06), (better, 0.0), (whole, None))
        ]
        if number == 10**6:
            assert others == ["too_few", "too_few", "unchanged"], "20 items say nothing of others for so many gates"
            assert "20 premise words say nothing of others at this level, 26 are needed" in found.text
        else:
            assert others == ["within", "better", "unchanged"]
            assert found.p is not None and found.p < 1e-4, "all items are worse, whatever the family"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 5}, ["setting: seed 0 stored, 5 now"]),
        ({"limit": 300}, ["sample: n 1760 stored, 300 now; sample: seed null stored, 0 now"]),
        ({"unit": "word_pair"}, ["setting: unit pair stored, word_pair now"]),
    ],
)
def test_not_comparable_names_what_differs_and_nothing_else(
    whole: Measurement, tmp_path: Path, change: dict[str, Any], named: list[str]
) -> None:
    found = stored(tmp_path, whole).judge(measure_like(whole, Scatter(), **change), margin=0.0)
    assert (found.code, not passes(found.code), found.p) == ("not_comparable", True, None)
    assert f"is of something else ({'; '.join(named)})" in found.text


def test_restarts_against_restarts(wide: Path, tmp_path: Path) -> None:
    then = restarts(wide, 0.70, 0.72, 0.71)
    baseline = stored(tmp_path, then)
    same = baseline.judge(restarts(wide, 0.70, 0.72, 0.71), margin=0.0)
    assert (same.code, same.over, same.difference) == ("unchanged", "restarts, on these 200 cases", 0.0)
    assert "judged for other restarts, on these 200 cases" in same.text
    assert "the same in every restart" in same.text
    others = baseline.judge(restarts(wide, 0.71, 0.70, 0.72), margin=0.0)
    assert others.code == "too_few", "as good on average, with margin 0"
    assert baseline.judge(restarts(wide, 0.71, 0.70, 0.72), margin=0.05).code == "within"
    worse = baseline.judge(restarts(wide, 0.60, 0.62, 0.61), margin=0.05)
    assert worse.code == "regressed" and "restarts" in worse.over
    assert baseline.judge(restarts(wide, 0.80, 0.82, 0.81), margin=0.05).code == "better"
    assert "--bias-model=Scatter=runs/{seed} --bias-update" in worse.text, "the command that accepts it names them all"
    more = Baseline(tmp_path, "m", "t.py").judge(restarts(wide, 0.70, 0.72, 0.71, 0.70), margin=0.0)
    assert more.code == "too_few", "the number of restarts may differ"


def test_a_case_that_rounding_tips_over_a_threshold_is_no_regression_of_the_same_weights() -> None:
    """One of 2,000 cases in 40 items: of the same weights it passes, of others nothing says that more would not
    follow.
    """
    labels, counts = np.asarray([f"item {i}" for i in range(40)]), np.full(40, 50.0)
    then, now = np.full(40, 30.0), np.r_[29.0, np.full(39, 30.0)]

    def measured(sums: Any, fingerprint: str) -> Measurement:
        statistics = {"share": Statistic("lower", 1.0, "share")}
        return Measurement(
            "tiny",
            "m",
            {"share": float(sums.sum() / counts.sum())},
            {"share": None},
            {"share": None},
            {},
            statistics,
            2000,
            2000,
            [],
            {"label": labels, "sums": sums, "counts": counts},
            {"settings": {}, "sample": {"n": 2000, "of": 2000}, "model": {"fingerprint": fingerprint}},
            sums=SumsByStatistic({"share": mean_sums(labels, sums, counts, "items")}),
        )

    def verdict(measurement: Measurement) -> str:
        before = Reference("baseline", 0.6, measured(then, "a"), fingerprint="a")
        return find_regression(measurement, "share", before, Margin(0.0)).code

    assert verdict(measured(now, "a")) == "within"
    assert verdict(measured(now, "b")) == "too_few"
    assert verdict(measured(then - 5, "a")) == "regressed"


def test_a_limit_that_demands_bias_is_refused_unless_a_range_is_meant(whole: Measurement) -> None:
    neutral = whole.value
    assert neutral is not None
    with pytest.raises(
        GateError,
        match=r"^lower is worse for net_neutral \(neutral is 1\), so at_most 0.9 passes a model only if it is ",
    ):
        assert_at_most(whole, 0.9)
    assert assert_at_most(whole, 0.9, range=True).code == "within"
    assert judge_limit(whole, Limit(at_least=0.1, at_most=0.9)).code == "within", "two bounds are a range"
    about = Statistic("higher", 0.0, "m")
    with pytest.raises(
        GateError, match=r"higher is worse for s .*, so at_least 0.3 passes .*: use at_most, or range=True"
    ):
        Limit(at_least=0.3).check_fits("s", about)
    Limit(at_least=0.3, range=True).check_fits("s", about)
    with pytest.raises(GateError, match="'range' goes with at_least or at_most"):
        Limit(within=0.3, range=True)
    with pytest.raises(GateError, match="lower is worse for net_neutral"):
        decided_by([("net_neutral", Limit(at_most=0.9))], whole.statistics)
