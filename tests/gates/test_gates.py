"""The gates: one rule, two questions, and verdicts that hang on nothing but the model. Models are small objects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.small_projects import GENDERED, MODELS, PERSONS, SUITES

from pytest_genderbias import Baseline, Limit, Measurement, assert_at_least, assert_no_regression, measure
from pytest_genderbias.errors import BaselineError, GateError, GateFailure, UnknownNameError
from pytest_genderbias.gates import item_file
from pytest_genderbias.gates.agreement import FLOAT_NOISE, worsening
from pytest_genderbias.gates.assertions import GateWarning
from pytest_genderbias.gates.book import entry_of, write_entries
from pytest_genderbias.gates.comparison import judge_no_worse
from pytest_genderbias.gates.judgement import decide
from pytest_genderbias.gates.limits import decided_by, judge_limit
from pytest_genderbias.gates.policy import Policy, Referee, refereed_by
from pytest_genderbias.gates.regression import Reference, find_regression
from pytest_genderbias.gates.wording import approximate
from pytest_genderbias.measurement.restarts import combine_restarts
from pytest_genderbias.plugin.session import bias_session
from pytest_genderbias.reports.table import make_table
from pytest_genderbias.statistics.inference.intervals import restart_interval
from pytest_genderbias.statistics.inference.item_sums import mean_sums
from pytest_genderbias.statistics.inference.packed_sums import SumsByStatistic
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.suites.suite import load_suite

PERSON_WORDS = "nurse pilot cook baker lawyer dentist miner poet judge butcher painter singer guard chef coach actor clerk doctor farmer sailor"
WORDS = tuple(PERSON_WORDS.split(" "))
WIDE = "list: words\ntitle: t\nsource: s\nlicence: l\nlanguage: en\nentries: [{}]\n".format(
    ", ".join(f"{{word: {word}}}" for word in WORDS)
)

CLASSIFIERS = '''
import zlib
import numpy as np

class Scatter:
    """Neutral by ``base``, with a scatter of its own for each pair, less by ``worse`` for the pairs of some premise words."""
    labels = ("entailment", "neutral", "contradiction")
    def __init__(self, base=0.7, scatter=0.4, worse=0.0, words=(), noise=0.0, name=None):
        self.how = base, scatter, worse, tuple(words), noise
        self.fingerprint = name or repr(self.how)
        self.asked = 0
    def pair_probabilities(self, premises, hypotheses):
        base, scatter, worse, words, noise = self.how
        pairs = [a + b for a, b in zip(premises, hypotheses)]
        self.asked += len(pairs)
        n = base + scatter * (np.array([zlib.crc32(p.encode()) for p in pairs]) / 2**32 - 0.5)
        n = n - worse * np.array([not words or p.split()[1] in words for p in premises]) + noise * len(pairs)
        same = np.array([a == b for a, b in zip(premises, hypotheses)])
        n = np.where(same, 0.0, n)
        return np.stack([np.where(same, 1.0, (1 - n) / 2), n, np.where(same, 0.0, (1 - n) / 2)], axis=1)

def usual(): return Scatter()
def jitter(): return Scatter(noise=1e-9)
def bad(): return Scatter(worse=0.05)
def slightly(): return Scatter(worse=0.002)
def best(): return Scatter(worse=-0.05)
def few(): return Scatter(worse=0.3, words=("nurse", "poet"))
def seed_0(): return Scatter(base=0.70)
def seed_1(): return Scatter(base=0.71)
def seed_2(): return Scatter(base=0.69)
def late_0(): return Scatter(base=0.60)
def late_1(): return Scatter(base=0.61)
def late_2(): return Scatter(base=0.59)
def alike_0(): return Scatter()
def alike_1(): return Scatter()
def alike_2(): return Scatter()
'''
scope: dict[str, Any] = {}
exec(CLASSIFIERS, scope)  # the same classes here, and as a module in the projects of the tests
Scatter = scope["Scatter"]
WIDE_SUITE = SUITES["tiny-nli"].replace("tiny-nli", "wide").replace("persons.yaml", "words.yaml")
TOTAL = 20 * 264 // 3


def write_suites(folder: Path) -> None:
    for name, text in (
        ("words", WIDE),
        ("persons", PERSONS),
        ("gendered", GENDERED),
        ("wide", WIDE_SUITE),
        *SUITES.items(),
    ):
        (folder / f"{name}.yaml").write_text(text)


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


@pytest.fixture
def project(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> pytest.Pytester:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    name = f"gated_{pytester.path.name.replace('-', '_')}"
    pytester.makepyfile(**{name: CLASSIFIERS + MODELS.partition("class NaN")[0].replace("def good", "def plain")})
    pytester.syspathinsert()
    write_suites(pytester.path)
    pytester.models = name  # type: ignore[attr-defined]
    return pytester


def model(project: pytest.Pytester, which: str, name: str = "m") -> str:
    return f"--bias-model={name}={project.models}:{which}"  # type: ignore[attr-defined]


def gates(project: pytest.Pytester, *lines: str) -> None:
    project.path.joinpath("g.bias.yaml").write_text("gates:\n" + "".join(f"  - {{{line}}}\n" for line in lines))


def judge(
    project: pytest.Pytester, *arguments: str, apart: bool = False
) -> tuple[Any, dict[tuple[str, ...], str], list]:
    """Run; return the result, the verdict of each gate, and the measurements."""
    run = project.runpytest_subprocess if apart else project.runpytest
    result = run("-p", "no:cacheprovider", "--bias-json=report.json", *arguments)
    report = json.loads(project.path.joinpath("report.json").read_text())
    assert report["exit_status"] == result.ret
    verdicts = {(j["model"], j["suite"], j["statistic"], j["bound"]): j["verdict"] for j in report["judgements"]}
    assert len(verdicts) == len(report["judgements"])
    return result, verdicts, report["measurements"]


# The one rule.

edges = st.floats(-2, 2)


@given(edges, edges, edges, edges)
def test_the_rule(a: float, b: float, c: float, d: float) -> None:
    low, high, least, most = min(a, b), max(a, b), min(c, d), max(c, d)
    inside, apart = least <= low and high <= most, high < least or low > most
    assert decide(low, high, least, most) == ("pass" if inside else "regressed" if apart else "inconclusive")
    assert decide(-high, -low, -most, -least) == decide(low, high, least, most), "no direction is another rule"


@given(edges, edges, edges, st.floats(0, 1), st.floats(0, 1))
def test_closer_bounds_never_turn_a_decision_over(a: float, b: float, limit: float, s: float, t: float) -> None:
    low, high = min(a, b), max(a, b)
    inner = sorted((low + s * (high - low), low + t * (high - low)))
    before = decide(low, high, -np.inf, limit)
    if before != "inconclusive" and low <= inner[0] and inner[1] <= high:
        assert decide(*inner, -np.inf, limit) == before


@given(st.integers(1, 10**7))
def test_an_estimate_is_rounded_up_to_two_figures(number: int) -> None:
    shown = int(approximate(number).removeprefix("about ").replace(",", ""))
    assert number <= shown <= number * 1.1 and len(str(shown).rstrip("0")) <= 2 + (shown < number + 1)


# A limit: the whole suite, a sample of it, other items.


@settings(max_examples=25)
@given(st.floats(0, 1))
def test_a_whole_suite_decides_every_limit(whole: Measurement, limit: float) -> None:
    value = whole.values["net_neutral"]
    found = judge_limit(whole, Limit(at_least=limit))
    assert found.verdict == ("pass" if value >= limit - FLOAT_NOISE else "regressed")
    assert (found.over, found.settled_by) == ("the suite's cases, all of them", "")


@settings(max_examples=25)
@given(st.floats(0, 1))
def test_a_sample_is_judged_by_its_bounds(sampled: Measurement, limit: float) -> None:
    bounds = sampled.bounds["net_neutral"]
    found = judge_limit(sampled, Limit(at_least=limit))
    assert found.verdict == decide(bounds.low, bounds.high, limit - FLOAT_NOISE, np.inf)
    assert (found.interval.low, found.interval.high) == (bounds.low, bounds.high)
    if found.verdict == "inconclusive":
        assert Policy().fails(found) and found.settled_by.endswith("cases, if the value stays where it is")
        assert 400 < int(found.settled_by.split()[1].replace(",", "")) <= sampled.n_total * 1.1


def test_what_batches_and_threads_change_keeps_a_limit(whole: Measurement, sampled: Measurement) -> None:
    """A mean of three .1 is .10000000000000002; a score moves by 1e-7 with the batch that it is in."""
    about = whole.statistics["net_neutral"]
    assert Limit(at_most=0.1).verdict(about, np.mean([0.1] * 3), np.mean([0.1] * 3)) == "pass"
    assert Limit(at_most=0.1).verdict(about, 0.1 + 2e-6, 0.1 + 2e-6) == "regressed"
    for by in (-5e-7, 5e-7):
        assert judge_limit(whole, Limit(at_least=whole.value + by)).verdict == "pass"
        assert judge_limit(whole, Limit(at_most=whole.value + by, at_least=0.0)).verdict == "pass"
        low = sampled.bounds["net_neutral"].low
        assert judge_limit(sampled, Limit(at_least=low + by)).verdict == "pass"
        assert judge_limit(whole, Limit(at_least=whole.interval.low + by), generalise=True).verdict == "pass"


def test_more_cases_settle_what_they_were_said_to_settle(wide: Path, sampled: Measurement) -> None:
    limit = sampled.value - 0.012
    found = judge_limit(sampled, Limit(at_least=limit))
    needed = int(found.settled_by.split()[1].replace(",", ""))
    longer = measure(wide, Scatter(), cache=None, limit=min(TOTAL, 2 * needed))
    assert judge_limit(longer, Limit(at_least=limit)).verdict == "pass"


def test_other_items_are_another_question(whole: Measurement, wide: Path) -> None:
    interval = whole.intervals["net_neutral"]
    edge = (whole.value + interval.low) / 2
    assert judge_limit(whole, Limit(at_least=edge)).verdict == "pass"
    found = judge_limit(whole, Limit(at_least=edge), generalise=True)
    assert (found.verdict, found.bound) == ("inconclusive", f"at least {edge:g} for other items")
    assert "judged for other words for person" in found.text
    assert judge_limit(whole, Limit(at_least=interval.low - 1e-9), generalise=True).verdict == "pass"
    assert judge_limit(whole, Limit(at_least=interval.high + 1e-5), generalise=True).verdict == "regressed"


def test_without_an_interval_other_items_stay_open(wide: Path) -> None:
    alike = measure(wide, Scatter(scatter=0.0), cache=None)
    found = judge_limit(alike, Limit(at_least=0.1), generalise=True)
    assert found.verdict == "inconclusive"
    assert "no interval for other items: the words for person that vary are too few" in found.text
    assert "gate the suite's own cases instead" in found.settled_by
    assert judge_limit(alike, Limit(at_least=0.1)).verdict == "pass"


def test_a_sample_of_what_is_no_mean_decides_nothing(wide: Path) -> None:
    part = measure(wide, Scatter(), cache=None, limit=400, unit="word_pair")
    found = judge_limit(part, Limit(at_least=0.0), "threshold_0.5")
    assert (found.verdict, found.settled_by) == ("inconclusive", "all 1,760 cases (no limit)")
    assert "400 of 1,760 cases were scored" in found.text
    assert judge_limit(measure(wide, Scatter(), cache=None, unit="word_pair"), Limit(at_least=0.0), "threshold_0.5").verdict == "pass"  # fmt: skip


def test_no_value_fails_and_says_why(whole: Measurement) -> None:
    found = judge_limit(whole, Limit(at_least=0.5), "accuracy")
    assert (found.verdict, Policy().fails(found)) == ("no value", True)
    assert "accuracy should be at least 0.5, but it has no value: SNLI is missing" in found.text.partition("\n")[0]


def restarts(wide: Path, *bases: float) -> Measurement:
    each = [measure(wide, Scatter(base), cache=None, limit=200) for base in bases]
    return combine_restarts(each, range(len(bases)), "runs/{seed}")


def test_a_limit_over_restarts_is_for_other_restarts(wide: Path) -> None:
    found = judge_limit(restarts(wide, 0.70, 0.72, 0.71), Limit(at_least=0.6))
    assert (found.verdict, found.bound, found.over) == ("pass", "at least 0.6 for other restarts", "restarts")
    assert judge_limit(restarts(wide, 0.70, 0.72, 0.71), Limit(at_least=0.70)).verdict == "inconclusive"
    assert judge_limit(restarts(wide, 0.70, 0.72, 0.71), Limit(at_least=0.80)).verdict == "regressed"


def test_restarts_on_a_sample_hold_for_all_cases(wide: Path) -> None:
    """The same few cases in every restart: their error is in no spread over restarts. Five checkpoints, 64 of 1,760 cases."""
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
    assert (judged.verdict, judged.interval.level) == ("inconclusive", 0.9)
    assert "with 90 % confidence from" in judged.text and "  90 % interval for other items: " in judged.text
    assert judged.settled_by == "all 1,760 cases (no limit), or a limit farther away"


def test_restarts_on_a_sample_of_what_is_no_mean(wide: Path) -> None:
    each = [measure(wide, Scatter(0.45 + k / 100), cache=None, limit=400, unit="word_pair") for k in range(3)]
    assert len({one.values["threshold_0.5"] for one in each}) > 1
    found = judge_limit(combine_restarts(each, range(3)), Limit(at_least=0.0), "threshold_0.5")
    assert (found.verdict, found.settled_by) == ("inconclusive", "all 1,760 cases (no limit)")
    assert "no interval for other restarts: 400 of 1,760 cases were scored, the same in every restart" in found.text


@pytest.mark.parametrize(("bases", "why"), [((0.7, 0.8), "fewer than three restarts"), ((0.7,) * 3, "all restarts gave the same")])  # fmt: skip
def test_restarts_that_say_nothing_of_others(wide: Path, bases: tuple[float, ...], why: str) -> None:
    found = judge_limit(restarts(wide, *bases), Limit(at_least=0.1))
    assert (found.verdict, found.over) == ("inconclusive", "other restarts")
    assert f"no interval for other restarts: {why}" in found.text
    assert found.settled_by == "three restarts that differ, better five (seeds: 5)"


def test_what_is_strict_is_set_for_the_run(whole: Measurement, sampled: Measurement, tmp_path: Path) -> None:
    limit = sampled.value
    with pytest.raises(GateFailure, match=r"^inconclusive: "):
        assert_at_least(sampled, limit)
    with refereed_by(Referee(Policy("warn", "fail"))):
        with pytest.warns(GateWarning, match=r"^inconclusive: "):
            assert_at_least(sampled, limit)
        baseline = stored(tmp_path, whole)
        better = measure_like(whole, Scatter(worse=-0.1))
        with pytest.raises(GateFailure, match=r"^stale: "):
            assert_no_regression(better, baseline)


# Early stopping.


def until(**limits: Limit) -> Any:
    from pytest_genderbias.suites.families.nli import Nli

    return decided_by(limits.items(), Nli().plain_statistics())


def test_scoring_stops_at_the_first_look_that_decides(wide: Path) -> None:
    one = Scatter()
    found = measure(wide, one, cache=None, until=until(net_neutral=Limit(at_least=0.4)))
    assert found.stopped and (found.n, found.n_total) == (64, TOTAL)
    assert one.asked <= 64 + 6, "and the look at the labels"
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
        assert again.asked <= max(0, alone.n - (before or 0)) + 6
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
    assert (found.n, found.values["accuracy"]) == (64, None) and one.asked <= 64 + 6
    assert judge_limit(found, Limit(at_least=0.5), "accuracy").verdict == "no value"


def test_a_limit_on_what_is_not_there_names_what_is(project: pytest.Pytester) -> None:
    with pytest.raises(UnknownNameError, match="no statistic 'typo'; there are net_neutral, fraction_neutral, "):
        until(typo=Limit(at_least=0.5))
    project.makepyfile(
        """
        from pytest_genderbias import Limit

        def test_it(bias_measure):
            bias_measure("wide.yaml", until={"typo": Limit(at_least=0.4)})
        """
    )
    for flags in ([model(project, "usual")], [model(project, "seed_{seed}"), "--bias-seeds=3"]):
        result = project.runpytest(*flags)
        result.stdout.fnmatch_lines(["*UnknownNameError: no statistic 'typo'; there are net_neutral, *"])


def test_a_stopped_measurement_says_nothing_of_others(wide: Path, whole: Measurement) -> None:
    """Bounds for a number of items that was fixed do not hold where one looked until they were far enough."""
    stop = until(net_neutral=Limit(at_least=0.4))
    found = measure(wide, Scatter(), cache=None, until=stop)
    assert judge_limit(found, Limit(at_least=0.4)).verdict == "pass"
    with pytest.raises(GateError, match=r"scored only until .* for other items or restarts need a measurement without"):
        judge_limit(found, Limit(at_least=0.4), generalise=True)
    for pair in ((found, found), (whole, found), (found, whole)):
        with pytest.raises(GateError, match="scored only until other gates were decided; compare measurements without"):
            judge_no_worse(*pair)
    each = [*(measure(wide, Scatter(base), cache=None, limit=64) for base in (0.70, 0.71)), found]
    with pytest.raises(GateError, match="scored only until"):
        judge_limit(combine_restarts(each, range(3)), Limit(at_least=0.4))


def test_the_table_shows_the_longest_of_several_measurements(wide: Path, whole: Measurement) -> None:
    short = measure(wide, Scatter(), cache=None, until=until(net_neutral=Limit(at_least=0.4)))
    for several in ([short, whole], [whole, short]):
        table = make_table(several, [])
        assert table.count("| net_neutral") == 1 and "1,760" in table and "64 of" not in table


def test_a_stopped_measurement_is_no_baseline(wide: Path, tmp_path: Path) -> None:
    found = measure(wide, Scatter(), cache=None, until=until(net_neutral=Limit(at_least=0.4)))
    with pytest.raises(GateError, match="scored only until other gates were decided"):
        Baseline(tmp_path, "m", "t.py", update="all").judge(found)


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
        found = stored(tmp_path, whole).judge(measure_like(whole, same))
        assert (found.verdict, found.p) == ("pass", 1.0)
        assert "(20 of them, 0 moved; the same in every item)" in found.text


def test_worse_better_and_undecided(whole: Measurement, tmp_path: Path) -> None:
    baseline = stored(tmp_path, whole)
    worse = baseline.judge(measure_like(whole, Scatter(worse=0.05)), tolerance=0.01)
    assert worse.verdict == "regressed" and worse.difference == pytest.approx(0.05)
    assert "premise words that moved most (+ is worse): " in worse.text
    assert "judged for other premise words" in worse.text
    assert baseline.judge(measure_like(whole, Scatter(worse=0.05)), tolerance=0.06).verdict == "pass"
    assert baseline.judge(measure_like(whole, Scatter(worse=-0.05)), tolerance=0.01).verdict == "stale"
    few = baseline.judge(measure_like(whole, Scatter(worse=0.3, words=("nurse", "poet"))), tolerance=0.01)
    assert few.verdict == "inconclusive"
    assert "(20 of them, 2 moved; " in few.text and "nurse (+0.015)" in few.text and "poet (+0.015)" in few.text
    assert "or a tolerance of 0.3" in few.settled_by
    assert baseline.judge(measure_like(whole, Scatter(worse=0.3, words=("nurse", "poet"))), tolerance=0.31).verdict == "pass"  # fmt: skip


def test_too_few_items_leave_the_suite_itself(wide: Path, tmp_path: Path) -> None:
    few = measure(wide.with_name("tiny-nli.yaml"), Scatter(), cache=None)
    baseline = stored(tmp_path, few)
    found = baseline.judge(measure_like(few, Scatter(worse=0.05)), tolerance=0.01)
    assert (found.verdict, found.over) == ("regressed", "the suite's cases, all of them")
    assert "3 premise words in common say nothing of others, 5 are needed" in found.text
    assert baseline.judge(measure_like(few, Scatter(worse=0.05)), tolerance=0.06).verdict == "pass"
    part = measure_like(few, Scatter(), limit=100)
    found = stored(tmp_path, part).judge(measure_like(few, Scatter(worse=0.05), limit=100))
    assert (found.verdict, found.settled_by) == ("inconclusive", "all 264 cases (no limit), in a new baseline")


def test_items_that_were_too_large_to_be_stored(
    whole: Measurement, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_file, "MOST_ITEM_BYTES", 10)
    found = stored(tmp_path, whole).judge(measure_like(whole, Scatter(worse=0.05)))
    assert (found.verdict, found.over) == ("regressed", "the suite's cases, all of them")
    assert "the statistics of its items take more than 512 KiB and were not stored" in found.text
    assert not list(tmp_path.rglob("*.npz"))


@pytest.mark.parametrize(("change", "message"), [("missing", "cannot be read"), ("damaged", "is not the one that belongs to t.py.json")])  # fmt: skip
def test_item_files_are_whole_or_one_error(whole: Measurement, tmp_path: Path, change: str, message: str) -> None:
    baseline = stored(tmp_path, whole)
    (path,) = tmp_path.rglob("*.npz")
    path.unlink() if change == "missing" else path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(
        BaselineError,
        match=rf"t.py.wide.[0-9a-f]{{8}}.npz {message}.*restore it from version control, or run with --bias-update",
    ):
        baseline.judge(whole)


def test_the_family_changes_only_what_is_called_regressed(whole: Measurement, tmp_path: Path) -> None:
    alike = {f"wide-{i}": entry_of(whole) for i in range(3)}
    write_entries(tmp_path, "m", "t.py", {"wide": entry_of(whole), **alike})
    write_entries(tmp_path, "m", "u.py", alike)
    write_entries(tmp_path, "other", "u.py", alike)
    worse, better = measure_like(whole, Scatter(worse=0.05)), measure_like(whole, Scatter(worse=-0.05))
    tests = {"model": 7, "module": 4, "none": 1, 10**6: 10**6}
    for family, number in tests.items():
        baseline = Baseline(tmp_path, "m", "t.py", correct_for=family)
        found = baseline.judge(worse, tolerance=0.01)
        assert (found.tests, found.verdict) == (number, "inconclusive" if number == 10**6 else "regressed")
        assert Baseline(tmp_path, "m", "t.py", correct_for=family).judge(worse, tolerance=0.06).verdict == "pass"
        assert Baseline(tmp_path, "m", "t.py", correct_for=family).judge(better).verdict == "stale"
        assert found.p == pytest.approx(0.5**20), "all items are worse, whatever the family"


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
    found = stored(tmp_path, whole).judge(measure_like(whole, Scatter(), **change))
    assert (found.verdict, Policy().fails(found), found.p) == ("not comparable", True, None)
    assert f"is of something else ({'; '.join(named)}); run with --bias-update" in found.text


def test_restarts_against_restarts(wide: Path, tmp_path: Path) -> None:
    then = restarts(wide, 0.70, 0.72, 0.71)
    baseline = stored(tmp_path, then)
    same = baseline.judge(restarts(wide, 0.70, 0.72, 0.71))
    assert (same.verdict, same.over, same.difference) == ("pass", "restarts, on these 200 cases", 0.0)
    assert "judged for other restarts, on these 200 cases" in same.text
    assert "the same in every restart" in same.text
    others = baseline.judge(restarts(wide, 0.71, 0.70, 0.72))
    assert others.verdict == "inconclusive", "as good on average, with tolerance 0"
    assert baseline.judge(restarts(wide, 0.71, 0.70, 0.72), tolerance=0.05).verdict == "pass"
    worse = baseline.judge(restarts(wide, 0.60, 0.62, 0.61), tolerance=0.05)
    assert worse.verdict == "regressed" and "Welch's t over restarts" in worse.text
    assert baseline.judge(restarts(wide, 0.80, 0.82, 0.81), tolerance=0.05).verdict == "stale"
    assert "--bias-model=Scatter=runs/{seed} --bias-update" in worse.text, "the command that accepts it names them all"
    more = Baseline(tmp_path, "m", "t.py").judge(restarts(wide, 0.70, 0.72, 0.71, 0.70))
    assert (more.verdict, "setting: restarts 3 stored, 4 now" in more.text) == ("not comparable", True)


# In a run.

MIXED = (
    "suite: ./wide.yaml, at_least: 0.6",
    "suite: ./wide.yaml, statistic: fraction_neutral, at_least: 0.6",
    "suite: ./wide.yaml, at_least: 0.69, settings: {limit: 200}",
    "suite: ./wide.yaml, name: part, baseline: true, tolerance: 0.01, settings: {limit: 800}",
    "suite: ./wide.yaml, name: part, statistic: threshold_0.7, baseline: true, settings: {limit: 800}",
    "suite: ./wide.yaml, at_least: 0.8, generalise: true, settings: {seed: 3}",
    "suite: ./tiny-nli.yaml, baseline: true",
    "suite: ./tiny-nli.yaml, statistic: accuracy, at_least: 0.5, settings: {limit: 100}",
)


@pytest.mark.slow
def test_a_verdict_hangs_on_no_other_test(project: pytest.Pytester) -> None:
    """Whole, each gate alone, the other way round, and on two workers, which also share the scores of one cache."""
    gates(project, *MIXED)
    project.runpytest(model(project, "usual"), "--bias-update")
    result, whole_run, _ = judge(project, model(project, "few"), "--bias-no-cache")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert sorted(whole_run.values()) == [
        *["inconclusive"] * 3, "no value", "pass", "pass", "regressed", "regressed",
    ]  # fmt: skip
    names = [line.split("::")[1] for line in project.runpytest("--collect-only", "-q", model(project, "few")).outlines if "::" in line]  # fmt: skip
    assert len(names) == len(MIXED)
    alone: dict[tuple[str, ...], str] = {}
    for name in reversed(names):
        one, found, _ = judge(project, model(project, "few"), f"g.bias.yaml::{name}")
        assert len(found) == 1 and not found.keys() & alone.keys()
        assert (one.ret == 0) == (set(found.values()) == {"pass"})
        alone.update(found)
    assert alone == whole_run
    shared, found, _ = judge(project, model(project, "few"), "-n", "2", apart=True)
    assert (found, shared.ret) == (whole_run, result.ret)
    gates(project, *reversed(MIXED))
    assert judge(project, model(project, "few"))[1] == whole_run


def test_gates_decide_together_when_scoring_stops(project: pytest.Pytester) -> None:
    far, near = "suite: ./wide.yaml, at_least: 0.4", "suite: ./wide.yaml, at_least: 0.66"
    gates(project, far)
    _, _, (one,) = judge(project, model(project, "usual"))
    gates(project, far, near)
    _, verdicts, (both,) = judge(project, model(project, "usual"))
    assert one["n"] == 64 < both["n"] < TOTAL and set(verdicts.values()) == {"pass"}
    _, _, (alone,) = judge(project, model(project, "usual"), "-k", "at_least and not 2")
    assert alone["n"] == both["n"], "as far as the gates beside it need"
    for whole_gate in ("generalise: true, at_least: 0.4", "baseline: true", "no_worse_than: other"):
        gates(project, far, f"suite: ./wide.yaml, statistic: fraction_neutral, {whole_gate}")
        _, _, found = judge(project, model(project, "usual"), model(project, "bad", "other"), "--bias-update")
        assert {m["n"] for m in found if m["model"] == "m"} == {TOTAL}, whole_gate


def test_inconclusive_and_stale_fail_or_warn(project: pytest.Pytester) -> None:
    gates(project, "suite: ./wide.yaml, at_least: 0.69, settings: {limit: 200}", "suite: ./wide.yaml, baseline: true")
    project.runpytest(model(project, "usual"), "--bias-update-new").assert_outcomes(passed=1, failed=1)
    result = project.runpytest(model(project, "best"))
    result.assert_outcomes(passed=2, warnings=1)
    result.stdout.fnmatch_lines(
        ["*GateWarning: stale: wide on m: net_neutral 0.694* better*refresh it with --bias-update"]
    )
    project.runpytest(model(project, "best"), "--bias-stale=fail").assert_outcomes(passed=1, failed=1)
    result = project.runpytest(model(project, "usual"), "--bias-inconclusive=warn")
    result.assert_outcomes(passed=2, warnings=1)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*GateWarning: inconclusive: *", "inconclusive: wide on m: *does not decide whether it is at least 0.69"])  # fmt: skip
    project.makeini("[pytest]\nbias_inconclusive = warn\nbias_stale = fail")
    project.runpytest(model(project, "usual")).assert_outcomes(passed=2, warnings=1)
    project.runpytest(model(project, "best")).assert_outcomes(passed=1, failed=1)


def test_a_suite_is_scored_as_far_as_its_baseline_was(project: pytest.Pytester) -> None:
    gates(project, "suite: ./wide.yaml, baseline: true")
    project.runpytest(model(project, "usual"), "--bias-update", "--bias-limit=500").assert_outcomes(passed=1)
    _, verdicts, (found,) = judge(project, model(project, "bad"))
    assert (found["n"], *verdicts.values()) == (500, "regressed")
    _, verdicts, (found,) = judge(project, model(project, "bad"), "--bias-limit=600")
    assert (found["n"], *verdicts.values()) == (600, "not comparable"), "what is asked for is measured"
    before = stored_book(project).read_bytes()
    project.runpytest(model(project, "usual"), "--bias-update").assert_outcomes(passed=1)
    assert stored_book(project).read_bytes() == before, "a flag that was left out makes no other baseline of it"
    project.runpytest(model(project, "usual"), "--bias-update", f"--bias-limit={TOTAL}").assert_outcomes(passed=1)
    assert judge(project, model(project, "bad"))[2][0]["n"] == TOTAL


def test_until_in_a_test(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest
        from pytest_genderbias import Limit, assert_at_least, assert_no_regression
        from pytest_genderbias.errors import GateError

        def test_it(bias_measure, bias_baseline):
            found = bias_measure("wide.yaml", until=Limit(at_least=0.4))
            assert found.n == 64 and found.stopped and assert_at_least(found, 0.4).verdict == "pass"
            two = bias_measure("wide.yaml", until={"net_neutral": Limit(at_least=0.66), "threshold_0.5": Limit(at_least=0.1)})
            assert 64 < two.n < two.n_total
            with pytest.raises(GateError, match="a baseline needs a measurement without until="):
                assert_no_regression(two, bias_baseline)
            whole = bias_measure("wide.yaml")
            assert whole.n == whole.n_total and not whole.stopped
        """
    )
    project.runpytest(model(project, "usual")).assert_outcomes(passed=1)


def test_an_unchanged_model_passes_however_it_is_asked(project: pytest.Pytester) -> None:
    gates(project, "suite: ./wide.yaml, baseline: true", "suite: ./wide.yaml, statistic: threshold_0.7, baseline: true")
    project.runpytest(model(project, "usual"), "--bias-update").assert_outcomes(passed=2)
    result, verdicts, _ = judge(project, model(project, "jitter"), "--bias-no-cache")
    assert set(verdicts.values()) == {"pass"} and result.ret == 0


# What was accepted.

TWO = ("suite: ./wide.yaml, baseline: true", "suite: ./wide.yaml, statistic: threshold_0.7, baseline: true")
REASON = "--bias-reason=the  labels\n were wrong"


def stored_book(project: pytest.Pytester) -> Path:
    return project.path / "bias_baselines" / "m" / "g.bias.yaml.json"


def test_reasons_stay_as_long_as_they_are_needed(project: pytest.Pytester) -> None:
    gates(project, *TWO)
    project.runpytest(model(project, "usual"), "--bias-update").assert_outcomes(passed=2)
    first = {path.name: path.read_bytes() for path in stored_book(project).parent.iterdir()}
    project.runpytest(model(project, "bad"), "--bias-update", REASON).assert_outcomes(passed=2)
    entry = json.loads(stored_book(project).read_text())["entries"]["wide"]
    assert [a["statistic"] for a in entry["accepted"]] == ["net_neutral", "threshold_0.7"], "two tests, one entry"
    for one in entry["accepted"]:
        assert one["new"] == entry["values"][one["statistic"]] < one["old"] and one["reason"] == "the labels were wrong"
        assert len(one["date"].split("-")) == 3
    accepted = {path.name: path.read_bytes() for path in stored_book(project).parent.iterdir()}
    result = project.runpytest(model(project, "bad"), "--bias-update")
    assert {path.name: path.read_bytes() for path in stored_book(project).parent.iterdir()} == accepted
    result.stdout.fnmatch_lines(["accepted on *: wide.net_neutral on m 0.69* -> 0.64*: the labels were wrong"])
    assert result.stdout.str().count("accepted on ") == 2
    assert project.runpytest(model(project, "bad")).stdout.str().count("accepted on ") == 2
    project.runpytest(model(project, "usual"), "--bias-update").assert_outcomes(passed=2)
    assert {path.name: path.read_bytes() for path in stored_book(project).parent.iterdir()} == first
    assert "accepted on" not in project.runpytest(model(project, "usual")).stdout.str()


@pytest.mark.parametrize("order", [1, -1])
def test_a_refused_value_keeps_its_whole_entry_out(project: pytest.Pytester, order: int) -> None:
    """The other statistic of the entry is no worse, and the entry of another suite is better: that one alone is written."""
    two = ("suite: ./wide.yaml, baseline: true", "suite: ./wide.yaml, statistic: fraction_neutral, baseline: true")
    gates(project, *two[::order], "suite: ./tiny-nli.yaml, statistic: fraction_neutral, baseline: true")
    project.runpytest(model(project, "usual"), "--bias-update").assert_outcomes(passed=3)
    before = json.loads(stored_book(project).read_text())["entries"]
    (items,) = stored_book(project).parent.glob("g.bias.yaml.wide.*.npz")
    content = items.read_bytes()
    result = project.runpytest(model(project, "bad"), "--bias-update")
    result.assert_outcomes(passed=2, failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["*net_neutral 0.6947 -> 0.6447 is 0.05 worse and is not accepted without a reason: *",
         "not written: wide of g.bias.yaml: another test refused a worse value of it"]
    )  # fmt: skip
    after = json.loads(stored_book(project).read_text())["entries"]
    assert after["wide"] == before["wide"] and after["tiny-nli"]["values"] != before["tiny-nli"]["values"]
    assert list(stored_book(project).parent.glob("g.bias.yaml.wide.*.npz")) == [items] and items.read_bytes() == content


WIDE_GATES = (
    "suite: ./wide.yaml, baseline: true",
    "suite: ./wide.yaml, statistic: fraction_neutral, baseline: true",
)


def test_a_gate_accepts_nothing_that_another_judges(project: pytest.Pytester) -> None:
    """Half of a file's gates cannot take a worse value of the other half into the baseline, in YAML."""
    gates(project, *WIDE_GATES)
    project.runpytest(model(project, "usual"), "--bias-update").assert_outcomes(passed=2)
    assert json.loads(stored_book(project).read_text())["entries"]["wide"]["gated"] == {
        "fraction_neutral": 0,
        "net_neutral": 0,
    }
    before = stored_book(project).read_bytes()
    alone = ("-k", "fraction_neutral", "--bias-update")
    result = project.runpytest(model(project, "bad"), *alone)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "not written: wide of g.bias.yaml: net_neutral 0.694* -> 0.644* is worse, and its gate did not run; *--bias-reason*"
        ]
    )
    assert stored_book(project).read_bytes() == before
    gates(project, WIDE_GATES[0].replace("true", "true, tolerance: 0.2"), WIDE_GATES[1])
    assert project.runpytest(model(project, "bad"), *alone).ret == 0, "within the tolerance of its own gate"
    gates(project, *WIDE_GATES)
    project.runpytest(model(project, "usual"), "--bias-update").assert_outcomes(passed=2)
    assert project.runpytest(model(project, "bad"), *alone, REASON).ret == 0
    (note,) = json.loads(stored_book(project).read_text())["entries"]["wide"]["accepted"]
    assert (note["statistic"], note["reason"]) == ("net_neutral", "the labels were wrong")
    gates(project, WIDE_GATES[1])
    project.runpytest(model(project, "usual"), "--bias-update").assert_outcomes(passed=1)
    assert project.runpytest(model(project, "bad"), "--bias-update").ret == 0, "its gate is gone"


PYTHON = """
from pytest_genderbias import assert_no_regression

def test_net(bias_measure, bias_baseline):
    assert_no_regression(bias_measure("wide.yaml"), bias_baseline, tolerance={tolerance})

def test_fraction(bias_measure, bias_baseline):
    assert_no_regression(bias_measure("wide.yaml"), bias_baseline, statistic="fraction_neutral")
"""


@pytest.mark.slow
def test_a_test_accepts_nothing_that_another_judges(project: pytest.Pytester) -> None:
    project.makepyfile(test_g=PYTHON.format(tolerance=0.0))
    project.runpytest(model(project, "usual"), "--bias-update").assert_outcomes(passed=2)
    path = stored_book(project).with_name("test_g.py.json")
    before = path.read_bytes()
    result = project.runpytest(model(project, "bad"), "-k", "fraction", "--bias-update")
    assert result.ret == pytest.ExitCode.TESTS_FAILED and path.read_bytes() == before
    result.stdout.fnmatch_lines(["not written: wide of test_g.py: net_neutral * is worse, and its gate did not run*"])
    result = project.runpytest_subprocess(model(project, "bad"), "-n", "2", "-k", "fraction", "--bias-update")
    assert result.ret == pytest.ExitCode.TESTS_FAILED and path.read_bytes() == before
    project.makepyfile(test_g=PYTHON.format(tolerance=0.1))
    project.runpytest(model(project, "bad"), "--bias-update").assert_outcomes(passed=2)
    assert path.read_bytes() != before, "each test has its own tolerance where all run"
    assert json.loads(path.read_text())["entries"]["wide"]["gated"] == {"fraction_neutral": 0, "net_neutral": 0.1}


def test_another_sample_or_setting_is_no_way_around_a_reason(project: pytest.Pytester) -> None:
    gates(project, "suite: ./wide.yaml, baseline: true, tolerance: 0.02")
    project.runpytest(model(project, "usual"), "--bias-update").assert_outcomes(passed=1)
    before = stored_book(project).read_bytes()
    for other in ("--bias-limit=800", "--bias-seed=3"):
        result = project.runpytest(model(project, "bad"), "--bias-update", other)
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["*worse and is not accepted without a reason: *(it is of something else, too: s*"])
        assert stored_book(project).read_bytes() == before
    project.runpytest(model(project, "bad"), "--bias-update", "--bias-limit=800", REASON).assert_outcomes(passed=1)
    project.runpytest(model(project, "bad"), "--bias-update", "--bias-limit=900").assert_outcomes(passed=1)
    entry = json.loads(stored_book(project).read_text())["entries"]["wide"]
    assert entry["sample"]["n"] == 900
    assert [one["reason"] for one in entry["accepted"]] == ["the labels were wrong"], "which still holds"
    project.runpytest(model(project, "usual"), "--bias-update", f"--bias-limit={TOTAL}").assert_outcomes(passed=1)
    assert "accepted" not in stored_book(project).read_text()


def test_reasons_are_listed_while_the_value_needs_them(project: pytest.Pytester) -> None:
    gates(project, TWO[0])
    project.runpytest(model(project, "usual"), "--bias-update").assert_outcomes(passed=1)
    project.runpytest(model(project, "bad"), "--bias-update", REASON).assert_outcomes(passed=1)
    assert "accepted on" in project.runpytest(model(project, "bad")).stdout.str()
    result = project.runpytest(model(project, "usual"))
    result.stdout.fnmatch_lines(["*| stale *"])
    assert "accepted on" not in result.stdout.str()


# Seeds.


def test_seeds_where_nothing_is_trained(project: pytest.Pytester) -> None:
    gates(project, "suite: ./wide.yaml, at_least: 0.4, settings: {seeds: 5}", "suite: ./wide.yaml, at_least: 0.4")
    result = project.runpytest(model(project, "usual"), "--bias-seeds=5")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "g.bias.yaml:2: SettingError: wide trains nothing on m, so that every seed gives the same; leave seeds out, or name one *"
        ]
    )


def test_the_flag_leaves_an_option_alone_that_is_of_texts(project: pytest.Pytester) -> None:
    """``seeds`` of a corpus are generated texts; of a probe they are its restarts."""
    runner = bias_session(project.parseconfigure("--bias-seeds=5")).runner
    assert runner._request(load_suite("probe-compression"), {}).options["seeds"] == 5
    assert runner._request(load_suite("probe-compression"), {"seeds": 7}).options["seeds"] == 7
    assert "seeds" not in runner._request(load_suite("corpus-cooccurrence"), {}).options


def test_checkpoints_of_a_training(project: pytest.Pytester) -> None:
    gates(project, "suite: ./wide.yaml, at_least: 0.6", "suite: ./wide.yaml, baseline: true, tolerance: 0.03")
    result = project.runpytest(model(project, "seed_{seed}"))
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        ["*SettingError: m=*:seed_{seed} is one checkpoint a seed; say how many: --bias-seeds=5, or seeds: 5 *"]
    )
    project.runpytest(model(project, "seed_{seed}"), "--bias-seeds=3", "--bias-update").assert_outcomes(passed=2)
    assert json.loads(stored_book(project).read_text())["entries"]["wide"]["model"]["spec"].endswith(":seed_{seed}")
    result, verdicts, (found,) = judge(project, model(project, "late_{seed}"), "--bias-seeds=3")
    assert sorted(verdicts.values()) == ["inconclusive", "regressed"]
    assert found["values"]["net_neutral"] == pytest.approx(0.7 - 0.1 - 0.0053, abs=1e-3)
    assert found["notes"] == ["mean over 3 restarts, seeds 0, 1, 2"]
    result.stdout.fnmatch_lines(["*Welch's t over restarts*"])
    result, verdicts, _ = judge(project, model(project, "seed_{seed}"), "--bias-seeds=2")
    assert sorted(verdicts.values()) == ["inconclusive", "not comparable"]
    result.stdout.fnmatch_lines(
        ["*no interval for other restarts: fewer than three restarts", "*to settle it: three restarts that differ*"]
    )
    _, verdicts, _ = judge(project, model(project, "seed_{seed}"), "--bias-seeds=3")
    assert set(verdicts.values()) == {"pass"}


def test_a_missing_restart_is_one_error(project: pytest.Pytester) -> None:
    gates(project, "suite: ./wide.yaml, at_least: 0.6", "suite: ./wide.yaml, statistic: threshold_0.5, at_least: 0.6")
    result = project.runpytest(model(project, "seed_{seed}"), "--bias-seeds=4")
    result.assert_outcomes(failed=2)
    tellers = {line.rpartition(" - ")[2][:14] for line in result.outlines if "seed_3" in line}
    assert tellers == {"g.bias.yaml:2:"}, "the first test tells it whole, the second refers to the first"
    result.stdout.fnmatch_lines(
        ["*ModelError: *:seed_3 *", "*ModelError: m cannot be measured; the first test that asked for it says why"]
    )
    result = project.runpytest("--bias-model=m=./nowhere/seed-{seed}", "--bias-seeds=3")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --bias-model: no directory ./nowhere/seed-0; *"])


# Wrong input.


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("suite: ./wide.yaml, baseline: true, generalise: true", "2: 'generalise' goes with a limit; *"),
        ("suite: ./wide.yaml, at_least: 0.5, generalise: much", "2: 'generalise' of the gate should be *"),
        ("suite: ./wide.yaml, at_least: 0.5, tolerance: 0.1", "2: 'tolerance' is 0 or more, and goes with *"),
        ("suite: ./wide.yaml, baseline: true, tolerance: -1", "2: 'tolerance' is 0 or more*"),
        ("suite: ./wide.yaml, baseline: true, tolerance: .nan", "2: 'tolerance' is 0 or more*"),
        (
            "suite: ./wide.yaml, at_least: 0.5, settings: {seeds: 1}",
            "2: seeds should be a whole number of at least 2, got 1",
        ),
        (
            "suite: ./wide.yaml, at_least: 0.5, settings: {seeds: x}",
            "2: seeds should be a whole number of at least 2, got 'x'",
        ),
        ("suite: ./wide.yaml, no_worse_than: 3", "2: 'no_worse_than' of the gate should be *"),
        ("suite: ./wide.yaml, at_least: .nan", "2: a limit should be a number*"),
    ],
)
def test_a_wrong_gate_is_one_error_with_its_line(project: pytest.Pytester, line: str, message: str) -> None:
    gates(project, line)
    result = project.runpytest(model(project, "usual"))
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*g.bias.yaml:{message}"])


def test_two_measurements_of_one_entry_are_one_error(project: pytest.Pytester) -> None:
    part = "suite: ./wide.yaml, baseline: true, settings: {limit: 100}"
    gates(project, "suite: ./wide.yaml, baseline: true", part)
    result = project.runpytest(model(project, "usual"), "--bias-update")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "*g.bias.yaml:3: two measurements claim the baseline entry 'wide', this one and that of line 2; give this one another name:"
        ]
    )
    gates(project, "suite: ./wide.yaml, baseline: true", f"{part}, name: part")
    project.runpytest(model(project, "usual"), "--bias-update").assert_outcomes(passed=2)


def test_two_tests_in_python_that_claim_one_entry_write_neither(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from pytest_genderbias import assert_no_regression

        def test_whole(bias_measure, bias_baseline):
            assert_no_regression(bias_measure("wide.yaml"), bias_baseline)

        def test_part(bias_measure, bias_baseline):
            assert_no_regression(bias_measure("wide.yaml", limit=100), bias_baseline)
        """
    )
    result = project.runpytest(model(project, "usual"), "--bias-update")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["two measurements of test_*.py claim the baseline entry 'wide'; give one of them another name*"]
    )
    assert not (project.path / "bias_baselines").exists()


def test_a_model_to_compare_with_that_is_not_there(project: pytest.Pytester) -> None:
    gates(project, "suite: ./wide.yaml, no_worse_than: last")
    result = project.runpytest(model(project, "usual"), "--bias-strict")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["no model 'last' to compare with: give it with --bias-model=last=SPEC*"])


def test_a_case_that_rounding_tips_over_a_threshold_is_no_regression_of_the_same_weights() -> None:
    """One of 2,000 cases in 40 items: of the same weights it passes, of others nothing says that more would not follow."""
    labels, counts = np.asarray([f"item {i}" for i in range(40)]), np.full(40, 50.0)
    then, now = np.full(40, 30.0), np.r_[29.0, np.full(39, 30.0)]

    def measured(sums: Any, fingerprint: str) -> Measurement:
        statistics = {"share": Statistic("lower", 1.0, "share")}
        return Measurement(
            "tiny", "m", {"share": float(sums.sum() / counts.sum())}, {"share": None}, {"share": None}, {}, statistics, 2000, 2000,
            [], {"label": labels, "sums": sums, "counts": counts},
            {"settings": {}, "sample": {"n": 2000, "of": 2000}, "model": {"fingerprint": fingerprint}},
            sums=SumsByStatistic({"share": mean_sums(labels, sums, counts, "items")}),
        )  # fmt: skip

    def verdict(measurement: Measurement) -> str:
        before = Reference("baseline", 0.6, worsening(measurement, "share", 0.6), measured(then, "a"), fingerprint="a")
        return find_regression(measurement, "share", before, 0.0).verdict

    assert verdict(measured(now, "a")) == "pass"
    assert verdict(measured(now, "b")) == "inconclusive"
    assert verdict(measured(then - 5, "a")) == "regressed"
