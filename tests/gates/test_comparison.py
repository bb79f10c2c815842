"""Models against each other: the paired table, and gates of the form "no suite worse than A"."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from support.small_projects import model

from pytest_genderbias import Limit, Measurement, assert_no_worse, load_model, measure
from pytest_genderbias.errors import GateFailure
from pytest_genderbias.gates import baseline, comparison, regression
from pytest_genderbias.gates.comparison import _corrected, compare_models, judge_against
from pytest_genderbias.gates.item_file import MOST_ITEM_BYTES
from pytest_genderbias.gates.judgement import Comparison, Judgement, LeftOut
from pytest_genderbias.gates.limits import decided_by
from pytest_genderbias.gates.policy import Referee, refereed_by
from pytest_genderbias.gates.regression import _from_to
from pytest_genderbias.gates.sensitivity import Retraining
from pytest_genderbias.gates.verdicts import Correction, correction_for, passes
from pytest_genderbias.measurement.restarts import combine_restarts
from pytest_genderbias.reports.run_summary import overview
from pytest_genderbias.reports.run_tables import comparison_cells
from pytest_genderbias.statistics.inference.item_sums import SumsByStatistic, mean_sums
from pytest_genderbias.statistics.inference.paired import fewest_items


@pytest.fixture(autouse=True)
def _over_items_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take other trainings for equal: these tests are of bounds over items, which ``test_other_trainings.py``
    widens.
    """
    unknown = Retraining(None, None, None, None, "", False)
    for module in (baseline, comparison):
        monkeypatch.setattr(module, "retraining_of", lambda measurement, statistic: unknown)
    monkeypatch.setattr(regression, "prior_of", lambda measurement, statistic, items: None)


SUITES = "--bias-suite=tiny-nli.yaml,tiny-lm.yaml"


# The comparison, without pytest.


class Classifier:
    """Neutral with a chance of its own for each premise."""

    labels = ("entailment", "neutral", "contradiction")

    def __init__(self, seed: int, shift: float = 0.0) -> None:
        self.fingerprint, self.seed, self.shift = f"{seed} {shift}", seed, shift

    def pair_probabilities(self, premises: list[str], hypotheses: list[str]) -> np.ndarray:
        rng = {text: np.random.default_rng([self.seed, *text.encode()]).random() for text in set(premises)}
        neutral = np.array([0.5 + 0.3 * rng[text] - self.shift for text in premises])
        same = np.array([a == b for a, b in zip(premises, hypotheses, strict=True)])
        rest = np.where(same, 0.0, (1 - neutral) / 2)
        return np.stack([np.where(same, 1.0, rest), np.where(same, 0.0, neutral), rest], axis=1)


@cache
def scored(seed: int, shift: float, **settings: Any) -> Measurement:
    """Measure once; no test changes it."""
    return measure("nli-occupation", Classifier(seed, shift), cache=None, **settings)


def classified(name: str, seed: int, shift: float = 0.0, **settings: Any) -> Measurement:
    return replace(scored(seed, shift, **{"limit": 1000, **settings}), model=name)


def sent(*measurements: Measurement) -> list[Measurement]:
    """Return measurements after they travelled through JSON, which is as strict as xdist."""
    return [Measurement.from_dict(json.loads(json.dumps(m.to_dict(records=0)))) for m in measurements]


def main_of(rows: list[Comparison]) -> list[Comparison]:
    return [row for row in rows if row.main]


def test_a_comparison_is_that_of_the_gate() -> None:
    a, b = classified("a", 1), classified("b", 2)
    rows, left_out = compare_models(sent(a, b), ["a", "b"])
    assert not left_out
    [row] = main_of(rows)
    judged = judge_against(b, a, margin=0.0)
    assert judged.interval is not None
    assert (row.low, row.high, row.over) == (judged.interval.low, judged.interval.high, judged.over)
    assert row.worsening == pytest.approx(row.first_value - row.other_value)  # higher is better  # type: ignore[operator]
    back = judge_against(a, b, margin=0.0)  # of the two one-sided p values one is that of the gate the other way round
    assert row.p == pytest.approx(min(1.0, 2 * min(judged.p, back.p)), abs=2e-3)  # type: ignore[type-var]


def test_p_values_are_corrected_in_the_table_and_decide() -> None:
    names = ["a", *"bcde"]
    measured = [classified("a", 1), *(classified(name, 1 + i, 0.002 * i) for i, name in enumerate("bcde", 1))]
    rows = main_of(compare_models(sent(*measured), names)[0])
    assert [row.other for row in rows] == names[1:]
    assert all(row.first == "a" for row in rows)
    p = [row.p for row in rows]
    for row in rows:  # Holm 1979 in another way: the largest over what is as small or smaller
        expected = max(min(1.0, q * sum(r >= q for r in p)) for q in p if q <= row.p)  # type: ignore[operator]
        assert row.p_holm == pytest.approx(expected)
        better = row.other if row.worsening < 0 else row.first  # type: ignore[operator]
        assert row.better == (better if row.p_holm <= 0.05 else "undecided")  # type: ignore[operator]


def test_the_first_named_is_the_one_to_compare_with_in_any_order_of_arrival() -> None:
    a, b, c = (classified(name, seed) for name, seed in (("a", 1), ("b", 2), ("c", 3)))
    d, e = (replace(m, suite="another") for m in (a, b))
    there, _ = compare_models(sent(a, b, c, d, e), ["b", "a", "c"])
    back, _ = compare_models(sent(e, d, c, b, a), ["b", "a", "c"])
    assert there == back
    found = [(row.suite, row.first, row.other) for row in main_of(there)]
    assert found == [("another", "b", "a"), ("nli-occupation", "b", "a"), ("nli-occupation", "b", "c")]


def test_other_samples_and_settings_are_not_compared() -> None:
    rows, left_out = compare_models(
        sent(classified("a", 1), classified("b", 2, limit=500), classified("b", 2, unit="word_pair")), ["a", "b"]
    )
    assert not rows
    assert {one.models for one in left_out} == {("a",), ("b",)}
    assert all("measured on one model only with these settings and sample" in one.reason for one in left_out)


def test_what_stopped_early_is_not_compared() -> None:
    about = classified("a", 1).statistics
    until = decided_by([("net_neutral", Limit(at_least=0.1))], about)
    early = [
        replace(measure("nli-occupation", Classifier(seed), limit=100_000, until=until, cache=None), model=name)
        for name, seed in (("a", 1), ("b", 2))
    ]
    assert all(m.stopped for m in early)
    rows, left_out = compare_models(sent(*early), ["a", "b"])
    assert not rows
    assert left_out == [LeftOut("nli-occupation", ("a", "b"), "scored only until its gates were decided")]


def test_items_that_are_too_large_are_left_out_with_the_reason() -> None:
    a, b = classified("a", 1), classified("b", 2)
    more = np.random.default_rng(0).random(MOST_ITEM_BYTES // 4)
    sums = SumsByStatistic({b.main: mean_sums(np.arange(len(more)).astype(str), more, np.ones(len(more)), "words")})
    large = replace(b, items={**b.items, "more": more}, sums=sums)
    rows, left_out = compare_models(sent(a, large), ["a", "b"])
    assert not rows
    assert left_out == [LeftOut("nli-occupation", ("b",), "the statistics of its items take more than 512 KiB")]


def test_one_model_under_two_names_is_the_same() -> None:
    rows, _ = compare_models(sent(classified("a", 1), classified("b", 1)), ["a", "b"])
    [row] = main_of(rows)
    assert (row.better, row.worsening, row.p, row.moved) == ("the same", 0.0, 1.0, 0)
    assert "the same in every item" in comparison_cells(row)
    judged = judge_against(classified("b", 1), classified("a", 1), margin=0.0)
    assert (judged.code, not passes(judged.code)) == ("unchanged", False)
    assert "the same in every item" in judged.text


def test_restarts_are_compared_with_restarts() -> None:
    a, b = (
        combine_restarts([classified(name, seed, 0.01 * seed + shift, limit=250) for seed in range(5)], range(5))
        for name, shift in (("a", 0.0), ("b", 0.2))
    )
    [row] = main_of(compare_models(sent(a, b), ["a", "b"])[0])
    assert row.over.startswith("restarts")
    assert row.better == "a"


def trained(name: str, *values: float, direction: str = "lower") -> Measurement:
    """Return a measurement over restarts that gave these values."""
    one = classified(name, 1)
    about = replace(one.statistics["net_neutral"], direction=direction, neutral=0.0)
    one = replace(one, statistics={**one.statistics, "net_neutral": about})
    each = [replace(one, values={**one.values, "net_neutral": value}) for value in values]
    return combine_restarts(each, range(len(values)))


def test_what_is_said_of_restarts_is_one_figure() -> None:
    """Text, difference and bounds: of the mean over restarts, which went from neutral to .1 away from it."""
    then = trained("a", -0.1, 0.1, -0.1001, 0.1001, direction="away")
    now = trained("b", 0.1, 0.1001, 0.0999, 0.1, direction="away")
    judged = judge_against(now, then, margin=0.02)
    assert judged.difference == pytest.approx(0.1)
    assert "net_neutral 0 -> 0.1: 0.1 worse" in judged.text
    assert judged.interval is not None
    assert judged.interval.low < 0.1 < judged.interval.high
    assert judged.code == "too_few"


def test_restarts_that_do_not_differ_are_undecided() -> None:
    two = judge_against(trained("b", 0.5, 0.5), trained("a", 0.6, 0.6), margin=0.0)
    assert (two.code, two.over) == ("too_few", "other restarts")
    assert two.settled_by == "three restarts or more, better five (seeds: 5), on both sides"
    assert "the restarts of a side do not differ" in two.text
    assert judge_against(trained("b", 0.6, 0.6), trained("a", 0.6, 0.6), margin=0.0).code == "unchanged"
    whole = [replace(m, n=m.n_total) for m in (trained("a", 0.6, 0.6), trained("b", 0.5, 0.5))]
    assert judge_against(whole[1], whole[0], margin=0.0).code == "too_few"
    [row] = main_of(compare_models(sent(*whole), ["a", "b"])[0])
    assert (row.better, row.low) == ("undecided", None)
    assert row.method.startswith("none: the restarts of a side do not differ")
    many = judge_against(trained("b", *[0.5] * 5), trained("a", *[0.6] * 5), margin=0.0)
    assert (many.code, many.p) == ("too_few", None), "however many they are, it is not known how far others lie"


def test_a_difference_of_noise_makes_no_model_better() -> None:
    row = Comparison("s", "r", True, "a", "b", 1.0, 1.0, 1e-8, -1e-9, 2e-8, "items", 60, 60, "", 0.001)
    assert [one.better for one in _corrected([row, replace(row, worsening=1e-3)])] == ["the same", "a"]


def test_one_rule_for_the_number_of_comparisons() -> None:
    assert correction_for("model", 7, "entries") == Correction(7, "entries")
    assert correction_for("module", 0, "entries") == Correction(1, "entries")
    assert correction_for("none", 7, "entries") == Correction(1, "comparisons")
    assert correction_for(3, 7, "entries") == Correction(3, "comparisons (bias_correct_for)")
    planted, a = classified("b", 1, 0.05), classified("a", 1)
    for correct_for, number in ((40, 40), ("none", 1), ("model", 2)):
        recorded: list[tuple[Judgement, str]] = []
        referee = Referee(correct_for, lambda *settled, to=recorded: to.append(settled))
        with refereed_by(referee), suppress(GateFailure):
            assert_no_worse(planted, a, comparisons=2, margin=0.0)
        assert [judgement.tests for judgement, _ in recorded] == [number]


def test_so_many_comparisons_that_the_items_bound_none_of_them_decide_nothing() -> None:
    """144 premise words bound a worsening at most levels; 8 of them bound none for 40 comparisons together."""
    few = [
        replace(one, n=one.n_total, sums=first_items(one, 8)) for one in (classified("a", 1), classified("b", 1, 0.05))
    ]
    assert fewest_items(Correction(1).level) <= 8 < fewest_items(Correction(40).level)
    for margin, alone in ((None, "regressed"), (0.0, "regressed"), (0.06, "within")):
        codes = [judge_against(few[1], few[0], margin, correction=Correction(tests)).code for tests in (1, 40)]
        assert codes == [alone, "too_few"]
    judged = judge_against(few[1], few[0], 0.06, correction=Correction(40, "statistics"))
    assert judged.tests == 40 and "8 premise words say nothing of others at this level, 11 are needed" in judged.text
    assert judge_against(few[0], few[0], correction=Correction(40)).code == "unchanged"


def first_items(measurement: Measurement, number: int) -> SumsByStatistic:
    sums = measurement.item_sums("net_neutral").by_unit()
    return SumsByStatistic({"net_neutral": replace(sums, labels=sums.labels[:number], sums=sums.sums[:number])})


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("tests", [1, 3, 500, 40_000])
def test_the_bounds_that_are_shown_decide(tests: int, same: bool) -> None:
    """Whatever the correction is: beyond the margin is ``regressed`` (or ``different``), around it ``too_few``."""
    a, judge = classified("a", 1), partial(judge_against, same=same)
    verdicts = set()
    for worsening in (0.01, 0.03, -0.05):
        for margin in (0.0, 0.01):
            judged = judge(classified("b", 3, worsening), a, margin, correction=Correction(tests, "statistics"))
            assert judged.interval is not None
            low, high = judged.interval.low, judged.interval.high
            beyond = low > margin or (same and high < -margin)
            assert (judged.code in ("regressed", "different")) == beyond, judged.text
            shown = "no lower bound" if np.isinf(low) else "no upper bound" if np.isinf(high) else _from_to(low, high)
            assert shown in judged.shown[0].text
            verdicts.add(judged.code)
    assert "too_few" in verdicts


@pytest.mark.parametrize(("n", "part"), [(1000, "1,000 of 1,936,512"), (1_936_512, "all of them")])
def test_what_is_compared_as_it_is_says_how_much_of_the_suite(n: int, part: str) -> None:
    a, b = (replace(classified(name, 1), items={}, sums=SumsByStatistic({}), n=n) for name in "ab")
    judged = judge_against(b, a, margin=0.0)
    assert (judged.code, judged.over) == ("within", f"the suite's cases, {part}")
    assert f"on the suite's own cases, {part}, and no other items" in judged.text


class Filler:
    """A masked LM object; its vocabulary is its own."""

    mask_token = "<m>"

    def __init__(self, vocabulary: list[str], seed: int, lean: float) -> None:
        self.vocabulary, self.fingerprint = vocabulary, f"{vocabulary} {seed} {lean}"
        self.seed, self.lean = seed, lean

    def fill_scores(self, texts: list[str]) -> np.ndarray:
        rows = []
        for text in texts:
            scores = np.random.default_rng([self.seed, *text.encode()]).random(len(self.vocabulary))
            scores[0] += self.lean * any(
                w in text.lower() for w in ("woman", "girl", "mother", "sister", "queen", "wife")
            )
            rows.append(scores)
        return np.array(rows)


def test_fills_line_up_by_their_text() -> None:
    words = ["dance", "fight", "read", "eat", "sing", "play", "run"]
    a, b = (
        replace(measure("disco-terms", Filler(vocabulary, 1, lean), cache=None, repeats=5, limit=280), model=name)
        for name, vocabulary, lean in (("a", words, 0.0), ("b", [*words[::-1], "cry"], 2.0))
    )
    rows, left_out = compare_models(sent(a, b), ["a", "b"])
    assert not left_out
    assert [row.statistic for row in rows] == ["significant_fills"]  # counts of shuffled groups are none of a model
    assert rows[0].worsening == pytest.approx(b.value - a.value)  # type: ignore[operator]
    assert rows[0].items > 0


def test_models_of_other_tokenizers_compare(checkpoint: Any) -> None:
    a, b, c = (
        replace(measure("lm-occupation", load_model(str(checkpoint(kind)), device="cpu"), cache=None), model=kind)
        for kind in ("bert", "roberta", "gpt2")
    )
    rows = main_of(compare_models(sent(a, b, c), ["bert", "roberta", "gpt2"])[0])
    assert [(row.first, row.other, row.over) for row in rows] == [
        ("bert", "roberta", "occupations and templates"),
        ("bert", "gpt2", "occupations and templates"),
    ]
    for row, m in zip(rows, (b, c), strict=True):
        assert row.worsening == pytest.approx(m.value - a.value)  # type: ignore[operator]
        assert row.moved == row.items > 5


def test_a_planted_difference_is_found() -> None:
    planted, a = classified("b", 1, 0.05), classified("a", 1)
    with pytest.raises(GateFailure, match=r"worse: nli-occupation on b: net_neutral .* 0\.05 worse"):
        assert_no_worse(planted, a, margin=0.0)
    assert assert_no_worse(planted, a, margin=0.06).code == "within"
    assert assert_no_worse(a, planted, margin=0.0).code == "within"  # a better model puts nothing out of date


def test_a_sample_of_what_has_no_items_is_undecided() -> None:
    a, b = (replace(classified(name, seed), items={}, sums=SumsByStatistic({})) for name, seed in (("a", 1), ("b", 2)))
    [row] = compare_models(sent(a, b), ["a", "b"])[0]
    assert (row.better, row.low, row.p) == ("undecided", None, None)
    assert row.method.endswith("and not all cases were scored")
    whole = [replace(m, n=m.n_total) for m in (a, b)]
    [row] = compare_models(sent(*whole), ["a", "b"])[0]
    assert row.better == ("a" if row.first_value > row.other_value else "b")  # higher is better  # type: ignore[operator]
    assert row.low == row.high == row.worsening


# Gates.


GATES = """
gates:
  - {suite: tiny-nli.yaml, no_worse_than: a, margin: 0.01}
  - {suite: tiny-nli.yaml, statistic: threshold_0.7, no_worse_than: a, margin: 0}
"""


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_a_gate_file_compares_in_either_order(jobs: pytest.Pytester, order: str) -> None:
    jobs.path.joinpath("g.bias.yaml").write_text(GATES)
    models = {"a": model(jobs, "good", "a"), "b": model(jobs, "worse", "b")}
    result = jobs.runpytest(*(models[name] for name in order), "--junitxml=j.xml")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            (
                "*g.bias.yaml:3: worse: tiny-nli on b: net_neutral 0.9 -> 0.825: 0.075 worse (95 % for all 2 *: 0.0216"
                " to 0.075), allowed 0.01"
            ),
            "*g.bias.yaml:4: worse: tiny-nli on b: threshold_0.7 1 -> 0.75: 0.25 worse*, allowed 0",
        ]
    )
    values = [
        p.get("value")
        for p in ET.parse(jobs.path / "j.xml").iter("property")
        if p.get("name") == "bias.tiny-nli.net_neutral"
    ]
    assert [float(v or 0) for v in values] == pytest.approx(
        [0.825, 0.825]
    )  # the other model's would have the same name


def test_a_gate_file_passes_one_model_under_two_names(jobs: pytest.Pytester) -> None:
    jobs.path.joinpath("g.bias.yaml").write_text(GATES)
    result = jobs.runpytest(model(jobs, "good", "a"), model(jobs, "good", "b"), "--bias-json=r.json")
    result.assert_outcomes(passed=2)
    judged = json.loads((jobs.path / "r.json").read_text())["judgements"]
    assert [one["code"] for one in judged] == ["unchanged", "unchanged"]
    assert all("the same in every item" in one["text"] for one in judged)


def test_a_gate_file_without_its_reference_fails(jobs: pytest.Pytester) -> None:
    jobs.path.joinpath("g.bias.yaml").write_text(GATES)
    result = jobs.runpytest(model(jobs, "worse", "b"))
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "g.bias.yaml:3: not judged: no model 'a' to compare with: give it with --bias-model=a=SPEC; a gate that"
            " cannot be judged fails*"
        ]
    )


def test_an_optional_gate_without_its_reference_is_skipped_and_listed(jobs: pytest.Pytester) -> None:
    jobs.path.joinpath("g.bias.yaml").write_text(GATES.replace("}", ", optional: true}"))
    result = jobs.runpytest(model(jobs, "worse", "b"), "--bias-strict")
    result.assert_outcomes(skipped=2, errors=1)
    result.stdout.fnmatch_lines(["not run on b: *: no model 'a' to compare with: give it with --bias-model=a=SPEC"])


IDLE = """
gates:
  - {suite: tiny-nli.yaml, at_least: 0.1}
  - {suite: tiny-nli.yaml, at_least: 0.1, models: [candidat, other]}
  - {suite: tiny-nli.yaml, no_worse_than: candidate, margin: 0}
"""


def test_a_gate_for_other_models_is_skipped_and_one_without_a_model_to_judge_fails(jobs: pytest.Pytester) -> None:
    jobs.path.joinpath("g.bias.yaml").write_text(IDLE)
    result = jobs.runpytest(model(jobs, "good", "candidate"), "-rs")
    result.assert_outcomes(passed=1, failed=1, skipped=1)
    result.stdout.fnmatch_lines_random(
        [
            "SKIPPED * gate tiny-nli.net_neutral.at_least-2 is for candidat, other, and the run has candidate",
            "not for the models of this run: tiny-nli.net_neutral.at_least-2:no-model",
            (
                "g.bias.yaml:5: not judged: gate *.no_worse_than_candidate has no model to judge except candidate,"
                " which others are compared with: *"
            ),
        ]
    )
    jobs.runpytest(model(jobs, "good", "other")).assert_outcomes(passed=2, failed=1)


def test_gates_on_one_statistic_can_be_told_apart(jobs: pytest.Pytester) -> None:
    gate = "  - {suite: tiny-nli.yaml, %s, settings: {limit: 300}, name: %s}\n"
    kinds = {
        "lax": "at_least: 0.1",
        "strict": "at_least: 0.2",
        "last": "baseline: true, margin: 0",
        "best": "no_worse_than: a, margin: 0",
    }
    jobs.path.joinpath("g.bias.yaml").write_text("gates:\n" + "".join(gate % (kinds[name], name) for name in kinds))
    models = model(jobs, "good", "a"), model(jobs, "better", "b")
    jobs.runpytest(*models, "--bias-update")
    result = jobs.runpytest(*models, "--bias-json=r.json")
    rows = [line for line in result.outlines if line.startswith("  tiny-nli (")]
    assert sorted(line.split("(")[1].partition(")")[0] for line in rows) == sorted([*kinds, *kinds][:-1])
    judged = json.loads((jobs.path / "r.json").read_text())["judgements"]
    assert sorted(one["name"] for one in judged if one["model"] == "b") == sorted(kinds)


def test_the_table_says_better_and_alike_in_words() -> None:
    def shown(now: Measurement, then: Measurement) -> str:
        judged = judge_against(now, then, margin=0.0)
        *_, (row, _) = overview([], [judged.settled("passed")], 300)
        return re.split("  +", row)[4]

    a, b = classified("a", 1), classified("b", 1, 0.05)
    assert re.fullmatch(r"0\.050 worse \(0\.04\d to 0\.05\d\)", shown(b, a))
    assert re.fullmatch(r"0\.050 better \(0\.04\d to 0\.05\d\)", shown(a, b))
    assert shown(replace(a, model="c"), a) == "no change, the same in every item"
    assert shown(trained("b", *[0.5] * 5), trained("a", *[0.6] * 5)) == "0.100 worse"
    low, high = (
        float(x) for x in shown(classified("b", 2), classified("a", 1, 0.1)).partition("(")[2].strip(")").split(" to ")
    )
    assert 0 < low < high  # of what is better, not of a worsening
    whole = [replace(m, items={}, sums=SumsByStatistic({}), n=m.n_total) for m in (a, b)]
    assert shown(whole[1], whole[0]) == "0.050 worse, exact"


def test_models_take_no_turns_in_memory(jobs: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    from pytest_genderbias.measurement import run_models

    real = run_models.load

    def load(source: Any, settings: Any) -> Any:
        loaded.append(source.spec.name)
        return real(source, settings)

    monkeypatch.setattr(run_models, "load", load)
    jobs.path.joinpath("other-nli.yaml").write_text(
        jobs.path.joinpath("tiny-nli.yaml").read_text().replace("suite: tiny-nli", "suite: other-nli")
    )
    jobs.path.joinpath("g.bias.yaml").write_text(GATES + "  - {suite: other-nli.yaml, no_worse_than: a, margin: 0}\n")
    a, b = model(jobs, "good", "a"), model(jobs, "worse", "b")
    suites = "--bias-suite=tiny-nli.yaml,other-nli.yaml"
    flag = "--bias-no-worse-than=a"
    for arguments in ((suites, b, a, flag), (suites, a, b, flag, "-k", "b"), ("g.bias.yaml", a, b)):
        loaded.clear()
        jobs.runpytest(*arguments)
        assert loaded == ["a", "b"], arguments
