"""Statistics against other computations of the same figure, written another way."""

from collections import Counter
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from pytest_genderbias.statistics import neutrality, score_bias
from pytest_genderbias.statistics.contingency import (
    fewest_significant,
    fisher_exact,
    p_values,
    pearson_chi_square,
    persons_by_group,
    persons_of_fills,
    relabellings,
    significant_fills,
    smallest_expected,
)

# Tables


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_chi_square_against_scipy(groups):
    rng = np.random.default_rng(groups)
    for _ in range(200):
        sizes = rng.integers(1, 60, groups)
        supplied = rng.integers(0, sizes + 1)
        if supplied.sum() in (0, sizes.sum()):
            continue
        expected = stats.chi2_contingency(np.stack([supplied, sizes - supplied]), correction=False)
        chi2, p = pearson_chi_square(supplied, sizes)
        assert float(chi2) == pytest.approx(expected.statistic, rel=1e-9, abs=1e-12)
        assert float(p) == pytest.approx(expected.pvalue, rel=1e-9, abs=1e-300)
        assert float(smallest_expected(supplied, sizes)) == pytest.approx(expected.expected_freq.min(), rel=1e-12)


@pytest.mark.parametrize("supplied", [[0, 0], [20, 30]])
def test_a_fill_for_nobody_or_for_all_tells_nothing(supplied):
    chi2, p = pearson_chi_square(supplied, [20, 30])
    assert (float(chi2), float(p)) == (0.0, 1.0)
    assert float(fisher_exact(supplied, [20, 30])) == pytest.approx(1.0)


def fisher_by_hand(a, b, n, m):
    """Sum the probabilities of all tables with the same margins that are no more likely than this one."""
    total = a + b
    ways = [comb(n, i) * comb(m, total - i) for i in range(total + 1)]
    mine = comb(n, a) * comb(m, b)
    return sum(w for w in ways if w <= mine * (1 + 1e-9)) / comb(n + m, total)


@pytest.mark.parametrize("test", ["chi2", "fisher"])
@pytest.mark.parametrize("level", [0.05, 0.05 / 7, 1e-4])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 3), (9, 9), (14, 14), (5, 12)])
def test_the_fewest_significant_persons_against_every_table(sizes, level, test):
    def p_of(a, b):
        if a + b in (0, sum(sizes)):
            return 1.0
        table = [[a, b], [sizes[0] - a, sizes[1] - b]]
        return (
            fisher_by_hand(a, b, *sizes) if test == "fisher" else stats.chi2_contingency(table, correction=False).pvalue
        )

    significant = {(a, b) for a in range(sizes[0] + 1) for b in range(sizes[1] + 1) if p_of(a, b) < level}
    first, second = fewest_significant(sizes, level, test)
    assert first == min((a for a, b in significant if b == 0), default=None)
    assert second == min((b for a, b in significant if a == 0), default=None)
    if sizes[0] == sizes[1]:
        assert first == min((abs(a - b) for a, b in significant), default=None)


def test_the_fewest_significant_persons_of_three_groups():
    for group, fewest in enumerate(fewest_significant([10, 20, 30], 0.01)):
        for count in range(1, 11):
            supplied = np.eye(3, dtype=int)[group] * count
            table = np.stack([supplied, [10, 20, 30] - supplied])
            assert (stats.chi2_contingency(table, correction=False).pvalue < 0.01) == (count >= fewest)


def test_fisher_against_counting_tables():
    rng = np.random.default_rng(0)
    sizes = np.asarray([23, 17])
    supplied = rng.integers(0, sizes + 1, (300, 2))
    expected = [fisher_by_hand(int(a), int(b), 23, 17) for a, b in supplied]
    np.testing.assert_allclose(fisher_exact(supplied, sizes), expected, rtol=1e-7)


def test_fisher_of_many_relabellings_keeps_the_shape():
    supplied = np.random.default_rng(0).integers(0, 5, (7, 3, 2))
    found = fisher_exact(supplied, [5, 6])
    assert found.shape == (7, 3)
    assert found[4, 1] == pytest.approx(fisher_by_hand(*map(int, supplied[4, 1]), 5, 6))


def test_fisher_needs_two_groups():
    with pytest.raises(ValueError, match="two groups"):
        fisher_exact([1, 2, 3], [4, 5, 6])


def test_the_example_of_the_definitions():
    """20 against 20 persons, 5 against 0: chi-square p .017, Fisher's exact p .047."""
    assert round(float(pearson_chi_square([5, 0], [20, 20])[1]), 3) == 0.017
    assert round(float(fisher_exact([5, 0], [20, 20])), 3) == 0.047


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), min_size=2, max_size=5), st.randoms())
def test_chi_square_does_not_care_about_the_order_of_groups_nor_which_row_is_which(pairs, random):
    pairs = [(min(a, n), n) for a, n in pairs]
    shuffled = list(pairs)
    random.shuffle(shuffled)
    chi2, p = pearson_chi_square(*zip(*pairs, strict=True))
    again, _ = pearson_chi_square(*zip(*shuffled, strict=True))
    flipped, _ = pearson_chi_square([n - a for a, n in pairs], [n for _, n in pairs])
    assert float(chi2) == pytest.approx(float(again), abs=1e-9)
    assert float(chi2) == pytest.approx(float(flipped), abs=1e-9)
    assert 0 <= float(chi2) <= sum(n for _, n in pairs) + 1e-9
    assert 0 <= float(p) <= 1


# DisCo


def slow_disco(fills, groups, level=0.05, family="template", test="chi2"):
    """Count significant fills person by person, with scipy's tests."""
    labels = sorted(set(groups))
    sizes = [list(groups).count(g) for g in labels]
    found = []
    for t in range(len(fills[0])):
        counts = {g: Counter() for g in labels}
        for person, g in enumerate(groups):
            counts[g].update(set(fills[person][t]))
        found.append({f: [counts[g][f] for g in labels] for f in set().union(*counts.values())})
    total = 0
    for template in found:
        m = len(template) if family == "template" else sum(map(len, found))
        for supplied in template.values():
            rest = [n - a for a, n in zip(supplied, sizes, strict=True)]
            if sum(rest) == 0:
                continue
            table = [supplied, rest]
            p = (
                stats.fisher_exact(table).pvalue
                if test == "fisher"
                else stats.chi2_contingency(table, correction=False).pvalue
            )
            total += p < level / m
    return total / len(found)


def random_fills(rng, persons, templates, k, words, bias=0.0, groups=None):
    """Return k distinct fills a person and template; with ``bias`` the second group prefers the last words."""
    weights = np.ones((persons, words))
    if bias:
        weights[np.asarray(groups) == 1, -3:] += bias
    keys = rng.random((persons, templates, words)) ** (1 / weights[:, None])
    return np.argsort(-keys, axis=-1)[..., :k]


@pytest.mark.parametrize("family", ["template", "suite"])
@pytest.mark.parametrize("test", ["chi2", "fisher"])
def test_disco_against_a_slow_loop(family, test):
    rng = np.random.default_rng(1)
    values = []
    for _ in range(8):
        groups = rng.permutation(np.repeat([0, 1], [18, 25]))
        fills = random_fills(rng, 43, 4, 3, 12, bias=6.0, groups=groups)
        values.append(float(significant_fills(fills, groups, family=family, test=test)))
        assert values[-1] == slow_disco(fills.tolist(), groups.tolist(), family=family, test=test)
    assert max(values) > 0  # there was something to count


def test_disco_of_three_groups_against_a_slow_loop():
    rng = np.random.default_rng(2)
    groups = rng.integers(0, 3, 60)
    fills = random_fills(rng, 60, 3, 2, 8, bias=8.0, groups=groups)
    found = float(significant_fills(fills, groups))
    assert found == slow_disco(fills.tolist(), groups.tolist())
    assert found > 0


def test_many_relabellings_are_the_same_as_one_after_another():
    rng = np.random.default_rng(3)
    groups = np.repeat([0, 1], [15, 20])
    fills = random_fills(rng, 35, 3, 3, 9, bias=6.0, groups=groups)
    labels = relabellings(groups, 30, seed=4)
    together = significant_fills(fills, labels)
    assert together.shape == (30,)
    assert together.tolist() == [float(significant_fills(fills, row)) for row in labels]


def test_relabellings_keep_the_sizes_and_follow_the_seed():
    groups = [0] * 5 + [1] * 9 + [2]
    labels = relabellings(groups, 20, seed=1)
    assert labels.shape == (20, 15)
    assert all(np.bincount(row).tolist() == [5, 9, 1] for row in labels)
    assert len({tuple(row) for row in labels.tolist()}) > 1
    assert np.array_equal(labels, relabellings(groups, 20, seed=1))
    assert not np.array_equal(labels, relabellings(groups, 20, seed=2))


def test_counted_fills_by_hand():
    fills, persons = persons_of_fills([[7, 3], [3, 9], [7, 9]])
    assert fills.tolist() == [3, 7, 9]
    assert persons_by_group(persons, np.asarray([0, 0, 1]), 2).tolist() == [[2, 0], [1, 1], [1, 1]]


fill_tables = hnp.arrays(np.int64, st.tuples(st.integers(4, 24), st.integers(1, 3)), elements=st.integers(0, 5))


@st.composite
def disco_cases(draw):
    """Some persons in two groups, each with two distinct fills a template."""
    first = draw(fill_tables)
    fills = np.stack(
        [first, (first + 1 + draw(hnp.arrays(np.int64, first.shape, elements=st.integers(0, 4)))) % 6], axis=-1
    )
    groups = np.asarray(draw(st.lists(st.integers(0, 1), min_size=len(fills), max_size=len(fills))))
    groups[:2] = [0, 1]
    return fills, groups


@given(disco_cases(), st.randoms())
def test_disco_does_not_depend_on_the_order_of_persons(case, random):
    fills, groups = case
    order = list(range(len(groups)))
    random.shuffle(order)
    assert float(significant_fills(fills, groups)) == float(significant_fills(fills[order], groups[order]))


@given(disco_cases())
def test_disco_does_not_depend_on_which_group_is_which_nor_on_token_ids(case):
    fills, groups = case
    value = float(significant_fills(fills, groups))
    assert value == float(significant_fills(fills, 1 - groups))
    assert value == float(significant_fills(fills * 17 + 4, groups))
    assert value == float(significant_fills(fills[..., ::-1], groups))


@given(disco_cases())
def test_disco_lies_within_its_bounds(case):
    fills, groups = case
    value = float(significant_fills(fills, groups))
    assert 0 <= value <= fills.shape[2] * fills.shape[0]
    assert float(significant_fills(fills, groups, level=1e-12)) <= value
    assert float(significant_fills(fills, groups, family="suite")) <= value


def test_disco_is_neutral_for_the_same_fills_and_maximal_for_opposite_ones():
    groups = np.repeat([0, 1], 30)
    assert float(significant_fills(np.zeros((60, 2, 1), dtype=int), groups)) == 0.0
    opposite = np.where(groups[:, None, None] == 0, [1, 2, 3], [4, 5, 6])
    assert float(significant_fills(opposite, groups)) == 6.0


@pytest.mark.parametrize("groups", [2, 3])
def test_null_p_values_are_small_no_more_often_than_they_should_be(groups):
    """With permuted labels and expected counts of at least 5, at most 5 % are under .05, but for the error of
    sampling.
    """
    rng = np.random.default_rng(groups)
    labels = np.repeat(np.arange(groups), 60)
    supplied = rng.permutation(np.repeat([1, 0], [len(labels) // 3, len(labels) - len(labels) // 3]))
    _, persons = persons_of_fills(supplied[:, None])
    counts = persons_by_group(persons, relabellings(labels, 20_000, seed=1), groups)[1]
    sizes = np.bincount(labels)
    assert smallest_expected(counts, sizes).min() >= 5
    p = pearson_chi_square(counts, sizes)[1]
    # A p value of a table is discrete: what is exactly expected is the probability of the tables with p < .05, and that
    # is near .05.
    error = np.sqrt(0.05 * 0.95 / len(p))
    exact = fisher_exact(counts, sizes) if groups == 2 else None
    assert (p < 0.05).mean() <= 0.05 + 4 * error + 0.01
    assert (p < 0.05).mean() > 0.02
    if exact is not None:
        assert (exact < 0.05).mean() <= 0.05 + 4 * error


# Natural language inference


def probabilities(n, seed=0):
    return np.random.default_rng(seed).dirichlet([1, 2, 1], n)


def test_neutrality_against_loops():
    p = probabilities(300)
    assert neutrality.net_neutral(p) == pytest.approx(sum(row[1] for row in p.tolist()) / 300)
    assert neutrality.fraction_neutral(p) == sum(row[1] == max(row) for row in p.tolist()) / 300
    for tau in (0.5, 0.7):
        assert neutrality.threshold(p[:, 1], tau) == sum(row[1] > tau for row in p.tolist()) / 300


def test_ties_count_as_neutral_and_thresholds_are_strict():
    assert neutrality.fraction_neutral([[0.4, 0.4, 0.2]]) == 1.0
    assert neutrality.threshold([0.5, 0.7], 0.5) == 0.5
    assert neutrality.threshold([0.7], 0.7) == 0.0


simplex = st.lists(st.lists(st.floats(0.001, 1), min_size=3, max_size=3), min_size=1, max_size=30).map(
    lambda rows: np.asarray(rows) / np.sum(rows, axis=1, keepdims=True)
)


@given(simplex)
def test_neutrality_lies_within_its_bounds_and_the_thresholds_below_the_fraction(p):
    net, fraction = neutrality.net_neutral(p), neutrality.fraction_neutral(p)
    half, more = (neutrality.threshold(p[:, 1], tau) for tau in (0.5, 0.7))
    assert 0 <= net <= 1
    assert 0 <= more <= half <= fraction <= 1


@given(simplex)
def test_neutrality_does_not_tell_entailment_from_contradiction(p):
    assert neutrality.net_neutral(p) == pytest.approx(neutrality.net_neutral(p[:, ::-1]))
    assert neutrality.fraction_neutral(p) == neutrality.fraction_neutral(p[:, ::-1])


# Score bias


def test_score_bias_against_loops():
    rng = np.random.default_rng(0)
    male, female = rng.normal(size=(2, 20, 4))
    bias = [
        sum(m - f for m, f in zip(a, b, strict=True)) / 4 for a, b in zip(male.tolist(), female.tolist(), strict=True)
    ]
    np.testing.assert_allclose(score_bias.score_bias(male, female), bias)
    assert score_bias.aggregate_bias(bias) == pytest.approx(sum(map(abs, bias)) / 20)
    assert score_bias.signed_bias(bias) == pytest.approx(sum(bias) / 20)


scores = hnp.arrays(np.float64, st.tuples(st.integers(1, 10), st.integers(1, 4)), elements=st.floats(-50, 0))


@given(scores, st.floats(-5, 5))
def test_swapping_the_groups_turns_the_sign_and_a_constant_cancels(male, shift):
    female = np.roll(male, 1, axis=0)
    bias = score_bias.score_bias(male, female)
    turned = score_bias.score_bias(female, male)
    np.testing.assert_allclose(bias, -turned, atol=1e-9)
    assert score_bias.aggregate_bias(bias) == pytest.approx(score_bias.aggregate_bias(turned))
    np.testing.assert_allclose(score_bias.score_bias(male + shift, female + shift), bias, atol=1e-9)
    assert abs(score_bias.signed_bias(bias)) <= score_bias.aggregate_bias(bias) + 1e-12


def test_equal_scores_are_neutral():
    bias = score_bias.score_bias([[-1.0, -2.0]], [[-1.0, -2.0]])
    assert score_bias.aggregate_bias(bias) == score_bias.signed_bias(bias) == 0.0


@pytest.mark.parametrize("supplied", [20, 40, 100])
def test_chi_square_p_is_never_too_small_under_permuted_groups(supplied: int) -> None:
    """Where expected counts are 5 or more, groups drawn at random give p at most alpha no oftener than alpha, beyond
    sampling error.
    """
    women, men, draws = 60, 140, 4000
    groups = np.repeat([0, 1], [women, men])
    random = np.random.default_rng(supplied)
    counts = np.empty((draws, 2), dtype=np.int64)
    for i in range(draws):
        chosen = random.permutation(groups)[:supplied]
        counts[i] = np.bincount(chosen, minlength=2)
    sizes = np.asarray([women, men])
    assert smallest_expected(counts, sizes).min() >= 5
    p = p_values(counts, sizes, "chi2")
    for alpha in (0.01, 0.05, 0.2):
        error = np.sqrt(alpha * (1 - alpha) / draws)
        edge = p[p <= alpha].max()  # counts are whole numbers: p jumps, and its last step below alpha may reach over it
        assert np.mean(p < edge) <= alpha + 3 * error
        assert np.mean(p <= alpha) > alpha / 4
