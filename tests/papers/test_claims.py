"""The verdicts of claims: bounds against scipy's own intervals, and every verdict once."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.papers.claims import (
    AGREES,
    DIFFERS,
    MOST_SEEDS,
    NEEDS,
    NOT_ABLE,
    SHARE,
    TOO_SMALL,
    count_claims,
    decision,
    difference,
    judge_claim,
    judge_claims,
    least_effect,
    table_verdict,
)
from pytest_genderbias.papers.config import ABOVE, BELOW, NEAR, Claim, Table
from pytest_genderbias.papers.places import StoredFigure, StoredRun


def run_with(**figures):
    stored = {key.replace("_", "/"): StoredFigure(values, [None] * len(values)) for key, values in figures.items()}
    return {"r": StoredRun("r", "small", {}, range(len(next(iter(figures.values())))), stored)}


RUNS = run_with(after_s_x=[1.0, 1.1, 0.9], before_s_x=[2.0, 2.2, 1.9], control_s_x=[1.0, 3.0, -1.0])


def claim(figure, relation, other, **rest):
    return Claim("", f"r {figure}", relation, other if isinstance(other, float) else f"r {other}", **rest)


@pytest.mark.parametrize(
    ("figure", "relation", "other", "verdict"),
    [
        ("after/s/x", BELOW, "before/s/x", AGREES),
        ("after/s/x", ABOVE, "before/s/x", DIFFERS),
        ("control/s/x", BELOW, "before/s/x", TOO_SMALL),
        ("after/s/x", ABOVE, 0.5, AGREES),
        ("after/s/x", BELOW, 0.5, DIFFERS),
    ],
)
def test_verdicts(figure, relation, other, verdict):
    assert judge_claim(claim(figure, relation, other), RUNS).verdict == verdict


@pytest.mark.parametrize(("within", "verdict"), [(2.0, AGREES), (1.05, TOO_SMALL), (0.5, DIFFERS)])
def test_near(within, verdict):
    assert judge_claim(claim("after/s/x", NEAR, "before/s/x", within=within), RUNS).verdict == verdict


@pytest.mark.parametrize(
    ("figure", "relation", "within", "verdict"),
    [
        ("after/s/x", ABOVE, 1.2, AGREES),  # 1.03 lower, with bounds of .92 and 1.15
        ("after/s/x", ABOVE, 1.1, TOO_SMALL),
        ("after/s/x", ABOVE, 0.9, DIFFERS),
        ("after/s/x", BELOW, 0.1, AGREES),  # a gain
        ("control/s/x", BELOW, 0.1, TOO_SMALL),
    ],
)
def test_what_is_kept_may_gain_and_lose_as_much_as_the_margin(figure, relation, within, verdict):
    assert judge_claim(claim(figure, relation, "before/s/x", within=within), RUNS).verdict == verdict


def test_a_run_without_result_needs_the_papers_scale():
    assert judge_claim(Claim("", "other after/s/x", BELOW, 0.0), RUNS).verdict == NEEDS


def test_a_figure_that_a_run_lacks_is_an_error_that_names_its_neighbours():
    with pytest.raises(DataFileError, match=r"no figure 'after/s/y'; it has after/s/x"):
        judge_claim(claim("after/s/y", BELOW, 0.0), RUNS)


def test_bounds_over_restarts_are_those_of_scipy():
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=7), rng.normal(1, 1, size=7)
    found = difference(StoredFigure(list(a)), StoredFigure(list(b)))
    low, high = stats.ttest_rel(a, b).confidence_interval(0.90)  # two-sided 90 % are two one-sided 95 % bounds
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-12)
    unequal = difference(StoredFigure(list(a)), StoredFigure(list(b[:4])))
    low, high = stats.ttest_ind(a, b[:4], equal_var=False).confidence_interval(0.90)
    assert (unequal.low, unequal.high) == pytest.approx((low, high), abs=1e-12)
    against = difference(StoredFigure(list(a)), StoredFigure([0.25]), fixed=True)
    low, high = stats.ttest_1samp(a, 0.25).confidence_interval(0.90)
    assert (against.low + 0.25, against.high + 0.25) == pytest.approx((low, high), abs=1e-12)


def test_bounds_over_items_are_those_of_two_normal_means():
    """Symmetric intervals: the standard error of a difference is the root of the sum of squares."""
    a, b = (
        StoredFigure([0.5], [[0.5 - 1.96 * 0.1, 0.5 + 1.96 * 0.1]]),
        StoredFigure([0.2], [[0.2 - 1.96 * 0.05, 0.2 + 1.96 * 0.05]]),
    )
    found = difference(a, b)
    reach = stats.norm.ppf(0.95) * np.hypot(0.1, 0.05)
    assert (found.low, found.high) == pytest.approx((0.3 - reach, 0.3 + reach), abs=1e-5)


def test_skewed_intervals_count_on_the_side_that_faces_the_other_figure():
    a, b = StoredFigure([0.5], [[0.4, 0.9]]), StoredFigure([0.2], [[0.19, 0.25]])
    found, ratio = difference(a, b), stats.norm.ppf(0.95) / stats.norm.ppf(0.975)
    assert found.low == pytest.approx(0.3 - ratio * np.hypot(0.1, 0.05))
    assert found.high == pytest.approx(0.3 + ratio * np.hypot(0.4, 0.01))


def test_permuted_sides_are_rarely_called_different():
    """Both sides from one distribution: each bound errs in about 5 %."""
    rng = np.random.default_rng(1)
    verdicts = []
    for _ in range(600):
        values = rng.normal(size=(2, 5))
        runs = run_with(after_s_x=list(values[0]), before_s_x=list(values[1]))
        verdicts.append(judge_claim(claim("after/s/x", BELOW, "before/s/x"), runs).verdict)
    assert 0.02 < verdicts.count(AGREES) / 600 < 0.09
    assert 0.02 < verdicts.count(DIFFERS) / 600 < 0.09


def of_seeds(name, seeds, values, settings=()):
    return {name: StoredRun(name, "small", dict(settings), seeds, {"after/s/x": StoredFigure(values, [])})}


def test_restarts_are_paired_by_their_seeds_and_not_by_their_order():
    values, shift = [0.0, 10.0, 20.0, 30.0], [1.1, 0.9, 1.0, 1.2]
    shifted = [value + by for value, by in zip(values, shift, strict=True)]
    runs = of_seeds("a", [0, 5, 11, 26], shifted) | of_seeds("b", [26, 11, 5, 0], values[::-1])
    found = judge_claim(Claim("", "a after/s/x", ABOVE, "b after/s/x"), runs)
    low, high = stats.ttest_1samp(shift, 0).confidence_interval(0.90)
    assert found.verdict == AGREES
    assert (found.difference.low, found.difference.high) == pytest.approx((low, high))


def test_restarts_of_other_seeds_are_no_pairs():
    a, b = [1.1, 10.9, 21.0, 31.2], [0.0, 10.0, 20.0, 30.0]
    runs = of_seeds("a", [0, 1, 2, 3], a) | of_seeds("b", [4, 5, 6, 7], b)
    found = judge_claim(Claim("", "a after/s/x", ABOVE, "b after/s/x"), runs)
    low, high = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.90)
    assert found.verdict == TOO_SMALL
    assert (found.difference.low, found.difference.high) == pytest.approx((low, high))


@pytest.mark.parametrize(("settings", "verdict"), [({}, AGREES), ({"recipe": {"name": "nli"}}, TOO_SMALL)])
def test_one_training_without_bounds_is_near_to_nothing_and_a_fact_of_a_model_is(settings, verdict):
    runs = of_seeds("a", [0], [0.75], settings)
    assert judge_claim(Claim("", "a after/s/x", NEAR, 0.7, within=0.1), runs).verdict == verdict


def test_one_value_against_restarts_has_the_error_of_its_items():
    """Restarts of spread 0: what is left is the interval over items of the other figure, from two-sided to one-sided 95
    %.
    """
    restarts, one = StoredFigure([0.36, 0.36 + 1e-9, 0.36]), StoredFigure([0.37], [[0.35, 0.40]])
    found, ratio = difference(one, restarts), stats.norm.ppf(0.95) / stats.norm.ppf(0.975)
    assert (found.low, found.high) == pytest.approx((0.01 - ratio * 0.02, 0.01 + ratio * 0.03), abs=1e-8)
    turned = difference(restarts, one)
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low))


def test_one_value_against_restarts_adds_to_their_spread():
    values = [0.30, 0.36, 0.42]
    found, ratio = difference(StoredFigure(values), StoredFigure([0.2], [[0.15, 0.25]])), stats.norm.ppf(0.95)
    reach = np.hypot(stats.t.ppf(0.95, 2) * np.std(values, ddof=1) / 3**0.5, ratio * 0.05 / stats.norm.ppf(0.975))
    assert (found.low, found.high, found.over) == pytest.approx((0.16 - reach, 0.16 + reach, "restarts and items"))


def test_restarts_against_a_number_have_the_error_of_their_items():
    """Three restarts that hardly differ measure the same 30 words, and say nothing of other words."""
    values, intervals = [0.18, 0.16, 0.20], [[-0.15, 0.47], [-0.14, 0.45], [-0.12, 0.46]]
    found, ratio = difference(StoredFigure(values, intervals), StoredFigure([0.0]), fixed=True), stats.norm.ppf(0.95)
    below, above = np.mean([0.33, 0.30, 0.32]), np.mean([0.29, 0.29, 0.26])
    spread = stats.t.ppf(0.95, 2) * 0.02 / 3**0.5
    low, high = (np.hypot(spread, ratio * reach / stats.norm.ppf(0.975)) for reach in (below, above))
    assert (found.low, found.high, found.over) == pytest.approx((0.18 - low, 0.18 + high, "restarts and items"))
    assert found.low < 0 < difference(StoredFigure(values), StoredFigure([0.0]), fixed=True).low
    some = difference(StoredFigure(values, [*intervals[:2], None]), StoredFigure([0.0]), fixed=True)
    assert some.over == "restarts", "the others say nothing of the restart without an interval"


def test_one_training_without_an_interval_decides_nothing_against_restarts():
    assert difference(StoredFigure([0.9], [None]), StoredFigure([0.1, 0.2, 0.3])).low is None
    runs = of_seeds("a", [0], [0.9], {"recipe": {}}) | of_seeds("b", [0, 1, 2], [0.1, 0.2, 0.3])
    assert judge_claim(Claim("", "a after/s/x", ABOVE, "b after/s/x"), runs).verdict == TOO_SMALL


@pytest.mark.parametrize("values", [[1.0, None, 2.0], [None], []])
def test_undefined_values_decide_nothing(values):
    assert difference(StoredFigure(values), StoredFigure([1.0, 2.0, 3.0])) is None


def test_two_restarts_have_no_bounds():
    assert difference(StoredFigure([1.0, 2.0]), StoredFigure([0.0, 0.5])).low is None


def test_splits_of_the_same_texts_have_wider_bounds():
    """Nadeau and Bengio 2003: the variance of the mean of n splits is (1/n + tested/trained) times that of one."""
    a, b = np.array([0.75, 0.77, 0.72, 0.85, 0.90]), np.array([0.46, 0.59, 0.46, 0.59, 0.69])
    found = difference(StoredFigure(list(a), held_out=0.25), StoredFigure(list(b), held_out=0.25))
    error = (np.var(a - b, ddof=1) * (1 / 5 + 25 / 75)) ** 0.5
    low, high = stats.t(4, (a - b).mean(), error).interval(0.90)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-12)
    assert found.over == "splits of the texts"
    against = difference(StoredFigure(list(a), held_out=0.25), StoredFigure([0.5]), fixed=True)
    error = (np.var(a, ddof=1) * (1 / 5 + 25 / 75)) ** 0.5
    assert against.high - against.value == pytest.approx(stats.t.ppf(0.95, 4) * error, abs=1e-12)


def test_a_table_differs_if_one_claim_does_and_agrees_if_more_than_half_do():
    claims = [
        claim("after/s/x", BELOW, "before/s/x"),
        claim("control/s/x", BELOW, "before/s/x"),
        claim("after/s/x", ABOVE, "before/s/x"),
    ]
    judged = judge_claims(Table("p", "t", "", (), {}, tuple(claims)), RUNS)
    assert table_verdict(judged) == DIFFERS
    assert table_verdict(judged[:2]) == TOO_SMALL  # one of two is not more than half
    assert table_verdict([judged[0], *judged[:2]]) == AGREES
    assert table_verdict(judged[1:2]) == TOO_SMALL


def with_figure(name, values, intervals=(), settings=()):
    figures = {"after/s/x": StoredFigure(values, list(intervals))}
    return {name: StoredRun(name, "small", dict(settings), range(len(values)), figures)}


def test_reduced_is_a_smaller_absolute_value():
    """From -0.6 to 0.1 a correlation is reduced, though it is higher."""
    runs = with_figure("before", [-0.62, -0.60, -0.58]) | with_figure("after", [0.09, 0.12, 0.10])
    claims = [Claim("", "after after/s/x", BELOW, "before after/s/x", absolute=absolute) for absolute in (False, True)]
    signed, size = (judge_claim(claim, runs) for claim in claims)
    assert (signed.verdict, size.verdict) == (DIFFERS, AGREES)
    low, high = stats.ttest_1samp([0.09 - 0.62, 0.12 - 0.60, 0.10 - 0.58], 0).confidence_interval(0.90)
    assert (size.difference.low, size.difference.high) == pytest.approx((low, high))


def test_the_interval_of_an_absolute_value_is_folded_at_zero():
    runs = with_figure("before", [-0.5], [[-0.6, -0.4]]) | with_figure("after", [0.1], [[-0.2, 0.4]])
    found = judge_claim(Claim("", "after after/s/x", BELOW, "before after/s/x", absolute=True), runs)
    ratio = stats.norm.ppf(0.95) / stats.norm.ppf(0.975)  # intervals [0, .4] and [.4, .6] of .1 and .5
    assert found.difference.low == pytest.approx(-0.4 - ratio * np.hypot(0.1, 0.1))
    assert found.difference.high == pytest.approx(-0.4 + ratio * np.hypot(0.3, 0.1))


EXACT = {"model": "m", "measure": [{"suite": "s"}]}


@pytest.mark.parametrize(
    ("settings", "relation", "other", "verdict"),
    [
        (EXACT, ABOVE, 0.7, AGREES),
        (EXACT, BELOW, 0.7, DIFFERS),
        (EXACT, BELOW, 0.8, AGREES),
        (EXACT, ABOVE, 0.75, DIFFERS),
        (EXACT | {"measure": [{"suite": "s", "limit": 100}]}, ABOVE, 0.7, TOO_SMALL),
        (EXACT | {"measure": [{"suite": "s", "seeds": 20}]}, ABOVE, 0.7, TOO_SMALL),
        (EXACT | {"measure": [{"suite": "t", "as": "s"}]}, ABOVE, 0.7, AGREES),
        (
            EXACT | {"measure": [{"suite": "t"}], "then": [{"recipe": {"name": "r"}, "measure": [{"suite": "s"}]}]},
            ABOVE,
            0.7,
            TOO_SMALL,
        ),
        (EXACT | {"recipe": {"name": "nli"}}, ABOVE, 0.7, TOO_SMALL),
    ],
)
def test_figures_that_are_exact_decide_by_their_values(settings, relation, other, verdict):
    runs = with_figure("a", [0.75, 0.75, 0.75], settings=settings)
    assert judge_claim(Claim("", "a after/s/x", relation, other), runs).verdict == verdict


def test_a_random_control_is_no_fact_of_a_model():
    figures = {"control/s/x": StoredFigure([0.75])}
    runs = {"a": StoredRun("a", "small", {"model": "m", "measure": [{"suite": "s"}]}, [0], figures)}
    assert judge_claim(Claim("", "a control/s/x", ABOVE, 0.7), runs).verdict == TOO_SMALL


def test_a_claim_of_two_tables_counts_once():
    runs = with_figure("a", [0.75], settings=EXACT)
    claims = [
        Claim("In one table.", "a after/s/x", ABOVE, 0.7),
        Claim("In another one.", "a after/s/x", ABOVE, 0.7, because="known"),
        Claim("In size.", "a after/s/x", ABOVE, 0.7, absolute=True),
        Claim("Another one.", "a after/s/x", BELOW, 0.7),
    ]
    assert count_claims(judge_claim(claim, runs) for claim in claims) == {AGREES: 2, DIFFERS: 1}


def judged_difference(relation, differences, **rest):
    runs = run_with(after_s_x=differences)
    judged = judge_claim(claim("after/s/x", relation, 0.0, **rest), runs)
    assert judged.verdict == TOO_SMALL
    return judged


@pytest.mark.parametrize(
    ("relation", "differences", "rest", "verdict"),
    [
        (ABOVE, [1.0, -0.4, 0.9, -0.2], {}, AGREES),
        (BELOW, [1.0, -0.4, 0.9, -0.2], {}, DIFFERS),
        (NEAR, [1.0, -0.4, 0.9, -0.2], {"within": 0.9}, AGREES),
        (NEAR, [1.0, -0.4, 0.9, -0.2], {"within": 0.1}, DIFFERS),
    ],
)
def test_the_needed_seeds_are_the_fewest_whose_bounds_by_scipy_decide(relation, differences, rest, verdict):
    number, then = decision(judged_difference(relation, differences, **rest))
    mean, spread = np.mean(differences), np.std(differences, ddof=1)
    edge = rest.get("within", 0.0)
    gap = edge - mean if then == AGREES and relation == NEAR else mean - edge
    reaches = {n: stats.t.ppf(0.95, n - 1) * spread / n**0.5 for n in (number - 1, number)}
    assert then == verdict
    assert reaches[number] < gap <= reaches[number - 1]


def test_no_number_of_seeds_decides_what_lies_at_the_edge():
    assert decision(judged_difference(ABOVE, [1.0, -1.0, 0.01])) == (0, "")
    assert decision(judged_difference(NEAR, [1.0, 0.0, 0.5], within=0.5)) == (0, "")
    assert MOST_SEEDS == 200


def test_bounds_over_items_need_more_items():
    """Four times the items halve the bounds."""
    figure = StoredFigure([0.5], [[-0.4, 1.4]])
    judged = judge_claim(claim("after/s/x", ABOVE, 0.0), {"r": StoredRun("r", "small", {}, [0], {"after/s/x": figure})})
    number, verdict = decision(judged)
    low = 0.5 - 0.9 * stats.norm.ppf(0.95) / stats.norm.ppf(0.975) / np.sqrt([number - 1, number])
    assert (verdict, low[0] <= 0 < low[1]) == (AGREES, True)
    assert (
        decision(
            judge_claim(
                Claim("", "r after/s/x", ABOVE, "q after/s/x"),
                with_figure("q", [0.75])
                | {"r": StoredRun("r", "small", {"recipe": {"name": "x"}}, [0], {"after/s/x": StoredFigure([0.5])})},
            )
        )
        is None
    )


def tuned(f1, accuracy=0.9, **more):
    """A model that was tuned for coreference, and measured by two suites."""
    figures = {
        "before/edge-probe/f1": StoredFigure([f1, f1, f1]),
        "before/coref-winogender/accuracy": StoredFigure([accuracy]),
        "before/coref-winogender/pearson_r": StoredFigure([0.5, 0.6, 0.7]),
        "before/disco-terms/significant_fills": StoredFigure([1.0]),
        **more,
    }
    stage = {"recipe": {"name": "edge-probe"}, "measure": [{"suite": "coref-winogender"}]}
    settings = {"model": "m", "measure": [{"suite": "disco-terms"}], "then": [stage]}
    return {"a": StoredRun("a", "small", settings, [0, 1, 2], figures)}


@pytest.mark.parametrize(
    ("f1", "accuracy", "verdict"), [(0.7, 0.6, AGREES), (0.7, 0.55, NOT_ABLE), (0.65, 0.6, NOT_ABLE)]
)
def test_a_model_that_does_no_better_than_a_constant_answer_is_not_able(f1, accuracy, verdict):
    """The least of 240 sentences is the binomial .5 + 1.645 * (.25 / 240) ** .5 = .553; of 400 pairs, .611 + .040."""
    runs = tuned(f1, accuracy)
    judged = judge_claim(Claim("", "a before/coref-winogender/pearson_r", ABOVE, 0.0), runs)
    assert judged.verdict == verdict
    assert ("constant answer" in judged.failed) == (verdict == NOT_ABLE)
    assert judge_claim(Claim("", "a before/edge-probe/f1", ABOVE, 0.6), runs).verdict != NOT_ABLE  # itself an ability
    assert judge_claim(Claim("", "a before/disco-terms/significant_fills", ABOVE, 0.6), runs).verdict != NOT_ABLE
    assert table_verdict([judge_claim(Claim("", "a before/coref-winogender/pearson_r", ABOVE, 0.0), tuned(0.5))]) == (
        NOT_ABLE
    )


def test_a_model_in_the_course_of_its_training_is_asked_for_no_ability():
    figures = {
        f"{side}/{figure}": StoredFigure([0.0, 0.001, 0.0])
        for side in ("baseline step 30", "baseline frozen 1")
        for figure in ("similarity/pearson_r", "sts/slope")
    }
    runs = {"a": StoredRun("a", "small", {"recipe": {"name": "similarity"}}, [0, 1, 2], figures)}
    verdicts = [
        judge_claim(Claim("", f"a baseline {at}/sts/slope", ABOVE, 0.5), runs).verdict for at in ("step 30", "frozen 1")
    ]
    assert verdicts == [DIFFERS, NOT_ABLE]


def of_size(values, published, relation=ABOVE, statistic="pearson_r", **rest):
    """A claim against 0 on a figure whose published size is known."""
    key = f"after/s/{statistic}"
    runs = {"r": StoredRun("r", "small", {}, range(len(values)), {key: StoredFigure(values, [None] * len(values))})}
    return judge_claim(Claim("", f"r {key}", relation, 0.0, published=published, **rest), runs)


WITHIN = [0.01, -0.02, 0.015, -0.01]  #: bounds by Student's t: -.021 to .018


@pytest.mark.parametrize(
    ("published", "verdict"), [(None, TOO_SMALL), (0.03, TOO_SMALL), (0.04, DIFFERS), (0.5, DIFFERS), (-0.5, TOO_SMALL)]
)
def test_bounds_that_leave_no_half_of_the_published_effect_refute_a_claim(published, verdict):
    assert of_size(WITHIN, published).verdict == verdict
    assert stats.ttest_1samp(WITHIN, 0).confidence_interval(0.90).high == pytest.approx(0.018, abs=5e-4)


def test_an_effect_of_the_claimed_direction_agrees_however_small_it_is():
    assert of_size([0.010, 0.011, 0.009], 0.8).verdict == AGREES


@pytest.mark.parametrize(
    ("figure", "relation", "other", "published", "least"),
    [
        ("a after/s/significant_fills", BELOW, 1.75, -1.0, 0.5),
        ("a after/s/significant_fills", BELOW, 0.25, -1.0, 0.0),  # no room
        ("a after/s/net_neutral", ABOVE, 0.5, 0.25, 0.125),
        ("a after/s/net_neutral", ABOVE, 0.9, 0.25, 0.0),  # no room
        ("a after/s/net_neutral", ABOVE, 0.5, -0.25, 0.0),  # the paper's figures say otherwise
        ("a after/s/net_neutral", NEAR, 0.5, 0.25, 0.0),
        ("a after/s/net_neutral", ABOVE, 0.5, None, 0.0),
        ("a after/lstm/perplexity", BELOW, 200.0, -1.0, 0.0),  # of another scale
    ],
)
def test_the_least_effect_is_half_of_the_published_one(figure, relation, other, published, least):
    assert least_effect(Claim("", figure, relation, "b before", published=published), other) == least


@pytest.mark.parametrize(
    ("mean", "spread", "least", "most"), [(SHARE * 0.4, 0.4, 0.02, 0.09), (0.4, 0.4, 0.0, 0.02), (0.0, 0.1, 0.9, 1.0)]
)
def test_effects_of_half_the_published_size_are_rarely_refuted(mean, spread, least, most):
    """Restarts around an effect of exactly that size: the bound errs in about 5 %, and around none it often decides."""
    rng = np.random.default_rng(3)
    refuted = sum(of_size(list(rng.normal(mean, spread, size=5)), 0.4).verdict == DIFFERS for _ in range(600)) / 600
    assert least <= refuted <= most


def test_needed_seeds_count_the_published_size():
    """No number of seeds finds the sign of nothing; a number of them tells it from half of a published effect."""
    values = [0.2, -0.2, 0.1, -0.1]
    assert decision(of_size(values, None)) == (0, "")
    number, verdict = decision(of_size(values, 0.2))
    reaches = [stats.t.ppf(0.95, n - 1) * np.std(values, ddof=1) / n**0.5 for n in (number - 1, number)]
    assert verdict == DIFFERS and reaches[1] < SHARE * 0.2 <= reaches[0]
