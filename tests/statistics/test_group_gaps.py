"""Gaps by class against scikit-learn, fairlearn and slow loops; the null control against shuffled labels; intervals in
simulation.
"""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from simulations.correlation_coverage import plain_bootstrap, simulate_classes, simulate_sums, tables_of

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.block_tables import gap_figure
from pytest_genderbias.statistics.correlation import pearson
from pytest_genderbias.statistics.group_gaps import (
    absolute_gap_sum,
    accuracy,
    balanced_subsample,
    beside_shares,
    class_gaps,
    confusion_tables,
    gap_sum_interval,
    hits_and_trials,
    permuted_tables,
    shares_of_first,
)
from pytest_genderbias.statistics.inference.intervals import summarise_null

RATES = ("true_positive", "false_positive", "precision")


def people(seed, n=400, classes=5, right=0.6):
    """Return predictions, gold labels and groups; women are more frequent in later classes, and recognised less
    often.
    """
    rng = np.random.default_rng(seed)
    gold = rng.integers(classes, size=n)
    groups = (rng.random(n) > (gold + 1) / (classes + 1)).astype(int)
    known = rng.random(n) < right + 0.1 * groups
    return np.where(known, gold, rng.integers(classes, size=n)), gold, groups


def slow_rate(predictions, gold, groups, group, c, rate):
    """Return one rate by going through the persons; None without a trial."""
    hits = trials = 0
    for r, y, z in zip(predictions, gold, groups, strict=True):
        counted = {"true_positive": y == c, "false_positive": y != c, "precision": r == c}[rate]
        hit = {"true_positive": r == c, "false_positive": r == c, "precision": y == c}[rate]
        if z == group and counted:
            trials += 1
            hits += hit
    return hits / trials if trials else None


def sums_of_gaps(tables, rate):
    """Return the sum of the absolute gaps of many tables."""
    return gap_figure(*hits_and_trials(tables, rate), np.zeros(tables.shape[-2]), "sum")


# Tables and rates


def test_tables_against_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    predictions, gold, groups = people(0)
    tables = confusion_tables(predictions, gold, groups, 5)
    for z in (0, 1):
        expected = metrics.confusion_matrix(gold[groups == z], predictions[groups == z], labels=range(5))
        np.testing.assert_array_equal(tables[z], expected)


def test_tables_keep_answers_that_are_no_class():
    tables = confusion_tables([2, 1, 0], [0, 1, 1], [0, 0, 1], 2, n_answers=3)
    assert tables.tolist() == [[[0, 0, 1], [0, 1, 0]], [[0, 0, 0], [1, 0, 0]]]
    assert [found.tolist() for found in hits_and_trials(tables, "precision")] == [[[0, 1], [0, 0]], [[0, 1], [1, 0]]]


@pytest.mark.parametrize(
    ("arrays", "what"),
    [
        (([0], [0], [2]), "groups should be codes from 0 to 1, got 2 to 2"),
        (([0], [-1], [0]), "gold should be codes from 0 to 2"),
        (([3], [0], [0]), "predictions should be codes"),
        (([0, 1], [0], [0]), "predictions should have the shape of groups"),
    ],
)
def test_wrong_codes_are_refused(arrays, what):
    with pytest.raises(ValueError, match=what):
        confusion_tables(*arrays, 3)


def test_too_few_answers_and_unknown_rates_are_refused():
    with pytest.raises(ValueError, match="as many possible predictions as the 3 classes, got 2"):
        confusion_tables([0], [0], [0], 3, n_answers=2)
    with pytest.raises(ValueError, match="unknown rate 'recall'"):
        hits_and_trials(np.ones((2, 2, 2)), "recall")


def test_gaps_against_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    predictions, gold, groups = people(1)
    tables = confusion_tables(predictions, gold, groups, 5)
    for rate, score in (("true_positive", metrics.recall_score), ("precision", metrics.precision_score)):
        women, men = (score(gold[groups == z], predictions[groups == z], labels=range(5), average=None) for z in (0, 1))
        np.testing.assert_allclose(class_gaps(tables, rate).gaps, women - men, rtol=1e-12)


def test_gaps_against_fairlearn():
    metrics = pytest.importorskip("fairlearn.metrics", reason="fairlearn is not installed")
    predictions, gold, groups = people(2)
    tables = confusion_tables(predictions, gold, groups, 5)
    scores = {"true_positive": metrics.true_positive_rate, "false_positive": metrics.false_positive_rate}
    for (rate, score), c in itertools.product(scores.items(), range(5)):
        frame = metrics.MetricFrame(
            metrics=score, y_true=gold == c, y_pred=predictions == c, sensitive_features=groups
        ).by_group
        assert class_gaps(tables, rate).gaps[c] == pytest.approx(frame[0] - frame[1], abs=1e-12)


small_cases = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=25)


@given(small_cases, st.sampled_from(RATES))
def test_gaps_of_few_persons_against_a_slow_loop(cases, rate):
    predictions, gold, groups = np.asarray(cases).T
    rates = {c: [slow_rate(predictions, gold, groups, z, c, rate) for z in (0, 1)] for c in range(3)}
    expected = {c: w - m for c, (w, m) in rates.items() if w is not None and m is not None}
    tables = confusion_tables(predictions, gold, groups, 3)
    if not expected:
        with pytest.raises(UndefinedError, match="no class"):
            class_gaps(tables, rate)
        return
    found = class_gaps(tables, rate)
    assert dict(zip(found.classes.tolist(), found.gaps.tolist(), strict=True)) == pytest.approx(expected)
    assert absolute_gap_sum(found) == pytest.approx(sum(map(abs, expected.values())))
    for c, reason in found.left_out.items():
        assert [("female" in reason.split(), "male" in reason.split())] == [tuple(r is None for r in rates[c])]
    assert set(found.left_out) == set(rates) - set(expected)


@given(small_cases, st.sampled_from(RATES))
def test_exchanging_the_groups_turns_the_gaps(cases, rate):
    predictions, gold, groups = np.asarray(cases).T
    try:
        found = class_gaps(confusion_tables(predictions, gold, groups, 3), rate)
    except UndefinedError:
        return
    turned = class_gaps(confusion_tables(predictions, gold, 1 - groups, 3), rate)
    np.testing.assert_array_equal(turned.gaps, -found.gaps)
    assert absolute_gap_sum(turned) == absolute_gap_sum(found)


def test_reasons_say_who_is_missing_from_what():
    tables = [[[0, 2, 0], [0, 1, 0], [0, 0, 0]], [[1, 0, 0], [0, 2, 0], [0, 0, 0]]]
    assert class_gaps(tables, "true_positive").left_out == {2: "no female or male case has this gold class"}
    assert class_gaps(tables, "precision").left_out == {
        0: "no female case is predicted as this class",
        2: "no female or male case is predicted as this class",
    }
    only_one = [[[0, 0], [1, 1]], [[1, 0], [2, 0]]]
    assert class_gaps(only_one, "false_positive", ("she", "he")).left_out == {1: "no she case has another gold class"}


def test_a_gap_is_between_two_groups():
    with pytest.raises(ValueError, match="two groups"):
        class_gaps(np.ones((3, 2, 2)), "precision")


def test_precision_divides_by_what_is_predicted_and_not_by_all():
    """One of two women predicted as class 0 is right; the many women elsewhere do not count."""
    tables = [[[1, 0], [1, 50]], [[3, 0], [1, 7]]]
    assert class_gaps(tables, "precision").gaps[0] == pytest.approx(1 / 2 - 3 / 4)


def test_accuracy():
    predictions, gold, groups = people(3)
    tables = confusion_tables(predictions, gold, groups, 5)
    right = predictions == gold
    assert accuracy(tables) == pytest.approx(right.mean())
    with pytest.raises(UndefinedError, match="no cases"):
        accuracy(np.zeros((2, 2, 2)))


# Beside shares of women


def test_shares_are_of_the_classes_that_occur():
    _, gold, groups = people(4)
    shares = shares_of_first(np.append(gold, 7), np.append(groups, 1), 9)
    assert np.flatnonzero(np.isfinite(shares)).tolist() == [0, 1, 2, 3, 4, 7]
    assert shares[7] == 0.0
    assert shares[2] == pytest.approx(1 - groups[gold == 2].mean())


def test_gaps_beside_shares_leave_out_classes_without_either():
    predictions, gold, groups = people(5)
    groups[gold == 1] = 0  # no men, no gap
    gaps = class_gaps(confusion_tables(predictions, gold, groups, 5), "true_positive")
    x, y = beside_shares(gaps, [0.1, 0.2, np.nan, 0.9, 0.5])  # class 2 has no share
    assert x.tolist() == [0.1, 0.9, 0.5]
    assert y.tolist() == [gaps.gaps[gaps.classes == c].item() for c in (0, 3, 4)]
    assert pearson(x, y) == pytest.approx(stats.pearsonr(x, y).statistic)


# Subsample


def test_each_class_of_the_subsample_has_as_many_of_each_group():
    _, gold, groups = people(6)
    chosen = balanced_subsample(gold, groups, seed=0)
    assert sorted(set(chosen.tolist())) == chosen.tolist()
    cells, whole = (Counter(zip(gold[i], groups[i], strict=True)) for i in (chosen, slice(None)))
    for c in range(5):
        assert cells[c, 0] == cells[c, 1] == min(whole[c, 0], whole[c, 1])


def test_the_subsample_is_a_fair_draw_that_the_seed_repeats():
    gold, groups = [0] * 6 + [1] * 3, [0, 0, 1, 1, 1, 1, 0, 0, 0]
    draws = [balanced_subsample(gold, groups, seed) for seed in range(2000)]
    assert all(len(d) == 4 and set(d[:2]) == {0, 1} for d in draws)  # class 1 has no second group
    pairs = Counter(tuple(d[2:].tolist()) for d in draws)
    assert set(pairs) == set(itertools.combinations(range(2, 6), 2))
    assert stats.chisquare(list(pairs.values())).pvalue > 1e-4
    assert draws[7].tolist() == balanced_subsample(gold, groups, 7).tolist()


def test_more_groups_are_balanced_by_the_smallest():
    gold, groups = np.repeat([0, 1], 60), np.tile([0, 1, 1, 2, 2, 2], 20)
    chosen = balanced_subsample(gold, groups, 0, n_groups=3)
    assert set(Counter(zip(gold[chosen], groups[chosen], strict=True)).values()) == {10}


@pytest.mark.parametrize(("gold", "groups"), [([0, 1], [0, 1]), ([], [])])
def test_nothing_to_balance_is_said(gold, groups):
    with pytest.raises(UndefinedError, match="no class has cases of every group"):
        balanced_subsample(gold, groups, 0)


# Null control


def test_shuffled_tables_keep_what_shuffling_keeps():
    tables = confusion_tables(*people(7), 5)
    shuffled = permuted_tables(tables, 50, seed=1)
    assert shuffled.shape == (50, 2, 5, 5)
    np.testing.assert_array_equal(shuffled.sum(axis=1), np.broadcast_to(tables.sum(axis=0), (50, 5, 5)))
    np.testing.assert_array_equal(shuffled.sum(axis=3), np.broadcast_to(tables.sum(axis=2), (50, 2, 5)))
    assert (shuffled >= 0).all()
    np.testing.assert_array_equal(shuffled, permuted_tables(tables, 50, seed=1))
    assert (shuffled != permuted_tables(tables, 50, seed=2)).any()


def shuffle_labels(predictions, gold, groups, classes, repeats, seed, n_groups=2):
    """Return tables of labels shuffled person by person within each class."""
    rng = np.random.default_rng(seed)
    for _ in range(repeats):
        shuffled = groups.copy()
        for c in range(classes):
            here = np.flatnonzero(gold == c)
            shuffled[here] = groups[rng.permutation(here)]
        yield confusion_tables(predictions, gold, shuffled, classes, n_groups=n_groups)


@pytest.mark.parametrize("rate", RATES)
def test_the_null_against_shuffled_labels(rate):
    predictions, gold, groups = people(8, n=60, classes=3)
    slow = [absolute_gap_sum(class_gaps(t, rate)) for t in shuffle_labels(predictions, gold, groups, 3, 1000, seed=1)]
    fast = sums_of_gaps(permuted_tables(confusion_tables(predictions, gold, groups, 3), 4000, seed=2), rate)
    assert stats.ks_2samp(slow, fast).pvalue > 1e-3


@pytest.mark.parametrize("rate", RATES)
def test_the_null_leaves_out_what_the_value_leaves_out(rate):
    predictions, gold, groups = people(9, n=25)
    groups[gold == 2] = 1
    tables = confusion_tables(predictions, gold, groups, 5)
    slow = [absolute_gap_sum(class_gaps(t, rate)) for t in permuted_tables(tables, 40, seed=3)]
    np.testing.assert_allclose(sums_of_gaps(permuted_tables(tables, 40, seed=3), rate), slow, rtol=1e-12)


def test_more_groups_are_shuffled_alike():
    rng = np.random.default_rng(0)
    predictions, gold, groups = rng.integers(3, size=90), rng.integers(2, size=90), rng.integers(3, size=90)
    slow = np.asarray([t[2, 0, 1] for t in shuffle_labels(predictions, gold, groups, 3, 1500, 1, n_groups=3)])
    fast = permuted_tables(confusion_tables(predictions, gold, groups, 3, n_groups=3), 1500, seed=2)[:, 2, 0, 1]
    values = np.arange(max(slow.max(), fast.max()) + 1)
    counts = np.stack([np.bincount(v, minlength=len(values)) for v in (slow, fast)])
    assert stats.chi2_contingency(counts[:, counts.sum(axis=0) > 10]).pvalue > 1e-3


def p_of(value, null):
    return summarise_null(value, null, np.asarray, "groups").p_value


def test_the_p_of_shuffled_groups_is_uniform():
    rng = np.random.default_rng(3)
    found = []
    for _ in range(300):
        predictions, gold = rng.integers(3, size=150), rng.integers(3, size=150)
        tables = confusion_tables(predictions, gold, rng.integers(2, size=150), 3)
        value = absolute_gap_sum(class_gaps(tables, "true_positive"))
        found.append(p_of(value, sums_of_gaps(permuted_tables(tables, 199, int(rng.integers(2**31))), "true_positive")))
    assert stats.kstest(found, "uniform").pvalue > 1e-3


def test_groups_that_are_treated_unequally_have_a_small_p():
    tables = tables_of(np.asarray([[45, 40], [20, 22]]), np.full((2, 2), 50))
    value = absolute_gap_sum(class_gaps(tables, "true_positive"))
    null = sums_of_gaps(permuted_tables(tables, 999, seed=0), "true_positive")
    assert p_of(value, null) == 1 / 1000
    assert 0 < null.mean() < value


# Intervals


def gaps_of(hits, trials):
    return class_gaps(tables_of(np.asarray(hits), np.asarray(trials)), "true_positive")


def test_one_large_certain_gap_has_nearly_the_normal_interval():
    found = gap_sum_interval(gaps_of([[900], [500]], [[1000], [1000]]))
    error = np.sqrt(0.9 * 0.1 / 1000 + 0.25 / 1000)
    low, high = 0.4 - stats.norm.ppf(0.98) * error, 0.4 + stats.norm.ppf(0.98) * error
    assert [found.low, found.high] == pytest.approx([low, high], abs=0.15 * error)


def test_equal_groups_have_zero_in_the_interval_though_their_sum_is_not_zero():
    rng = np.random.default_rng(0)
    trials = np.full((2, 28), 20)
    gaps = gaps_of(rng.binomial(trials, 0.8), trials)
    assert absolute_gap_sum(gaps) > 1
    assert plain_bootstrap(rng, gaps)[0] > 1
    assert gap_sum_interval(gaps).low == 0.0


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(9, 60)), min_size=1, max_size=12))
def test_the_sum_is_inside_and_a_higher_level_is_wider(cells):
    women, men, trials = np.asarray(cells).T
    gaps = gaps_of([women, men], [trials, trials])
    narrow, wide = gap_sum_interval(gaps, level=0.8), gap_sum_interval(gaps)
    assert wide.low <= narrow.low <= absolute_gap_sum(gaps) <= narrow.high <= wide.high
    assert gap_sum_interval(gaps) == wide


@pytest.mark.parametrize(("sizes", "spread"), [((10, 10), 0.0), ((10, 200), 0.05), ((200, 200), 0.2)])
def test_the_interval_of_the_sum_holds_in_simulation_and_a_bootstrap_does_not(sizes, spread):
    *held, plain = simulate_sums(sizes, spread, 100, seed=11)
    assert min(held) >= 0.89  # 95 % less three standard errors
    assert plain < 0.93


def test_intervals_beside_shares_hold_in_simulation_and_a_bootstrap_of_r_does_not():
    r_classes, slope_classes, r_persons = simulate_classes(28, 150, seed=11)
    assert min(r_classes, slope_classes) >= 0.88
    assert r_persons < 0.7
