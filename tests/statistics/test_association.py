"""WEAT, its permutation test, and CEAT, against slow loops, walks over all partitions, and statsmodels."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.spatial.distance import cosine
from statsmodels.stats import meta_analysis

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics import association as module
from pytest_genderbias.statistics.association import association, ceat, combine_effects, effect_size, permutation_test


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


# Association and effect size


def slow_association(w, a, b):
    return np.mean([1 - cosine(w, v) for v in a]) - np.mean([1 - cosine(w, v) for v in b])


def test_association_against_scipy_cosines():
    words, a, b = normal(7, 12), normal(5, 12, seed=1), normal(3, 12, seed=2)
    np.testing.assert_allclose(association(words, a, b), [slow_association(w, a, b) for w in words], atol=1e-12)


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize(("bad", "reason"), [(0.0, "zero"), (np.nan, "not finite"), (np.inf, "not finite")])
def test_vectors_without_a_direction_have_no_association(position, bad, reason):
    sets = [normal(3, 4, seed=i) for i in range(3)]
    sets[position][1] = bad
    with pytest.raises(UndefinedError, match=reason):
        association(*sets)


def test_an_empty_set_has_no_association():
    with pytest.raises(UndefinedError, match="empty"):
        association(normal(3, 4), normal(0, 4), normal(3, 4))


def test_effect_size_is_the_difference_over_the_joint_deviation():
    x, y = normal(5), normal(9, seed=1)
    assert effect_size(x, y) == pytest.approx((np.mean(x) - np.mean(y)) / np.sqrt(np.var([*x, *y], ddof=1)))


@pytest.mark.parametrize(("x", "y"), [([], [0.1, 0.2]), ([0.1], []), ([0.3, 0.3], [0.3]), ([0.1 + 0.2], [0.3])])
def test_effect_size_needs_words_that_differ(x, y):
    with pytest.raises(UndefinedError):
        effect_size(x, y)


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 6), st.floats(1e-3, 1e3))
def test_properties_of_the_effect_size(seed, n_x, n_y, scale):
    rng = np.random.default_rng(seed)
    x, y, a, b = (rng.normal(size=(n, 5)) for n in (n_x, n_y, 3, 4))
    s_x, s_y = association(x, a, b), association(y, a, b)
    effect, n = effect_size(s_x, s_y), n_x + n_y
    assert abs(effect) <= np.sqrt(n * (n - 1) / (n_x * n_y)) + 1e-9
    assert n_x != n_y or abs(effect) < 2
    assert effect_size(s_y, s_x) == pytest.approx(-effect)
    np.testing.assert_allclose(association(x, b, a), -s_x, atol=1e-12)
    lengths = rng.uniform(0.1, 10, (n_x, 1))
    np.testing.assert_allclose(association(x * lengths, a * scale, b), s_x, atol=1e-12)


def test_the_bound_of_the_effect_size_is_reached():
    assert effect_size([1, 1], [0, 0, 0]) == pytest.approx(np.sqrt(5 * 4 / 6))


# Permutation test


def slow_p(x, y, two_sided=False):
    """Walk over all partitions."""
    pool = np.concatenate([x, y])

    def statistic(chosen):
        mine = np.isin(np.arange(len(pool)), chosen)
        difference = pool[mine].mean() - pool[~mine].mean()
        return abs(difference) if two_sided else difference

    observed = statistic(range(len(x)))
    found = [statistic(chosen) >= observed - 1e-10 for chosen in combinations(range(len(pool)), len(x))]
    return np.mean(found), len(found)


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("sizes", [(1, 1), (1, 4), (4, 1), (3, 3), (2, 7), (7, 3), (5, 5), (6, 5)])
def test_exact_p_against_a_walk_over_all_partitions(sizes, two_sided):
    rng = np.random.default_rng(sum(sizes))
    for ties in (False, True):
        x, y = (rng.integers(0, 4, n) / 10 if ties else rng.normal(size=n) for n in sizes)
        found = permutation_test(x, y, two_sided=two_sided)
        p, partitions = slow_p(x, y, two_sided)
        assert found == pytest.approx(p, abs=1e-12)
        assert found * partitions == pytest.approx(round(found * partitions), abs=1e-9)


def test_the_statistic_is_caliskans():
    """With sum over X - sum over Y itself, and scipy's permutation test."""
    x, y = normal(5, seed=3) + 0.4, normal(6, seed=4)
    expected = stats.permutation_test(
        (x, y), lambda x, y: x.sum() - y.sum(), alternative="greater", n_resamples=np.inf
    ).pvalue
    assert permutation_test(x, y) == pytest.approx(expected)


def test_the_largest_difference_is_one_partition_of_all():
    x, y = np.arange(20) + 100, np.arange(20)
    assert permutation_test(x / 1000, y / 1000) == 1 / comb(40, 20)
    assert permutation_test(y / 1000, x / 1000) == 1
    assert permutation_test(y / 1000, x / 1000, two_sided=True) == 2 / comb(40, 20)


@pytest.mark.parametrize("two_sided", [False, True])
def test_equal_associations_say_nothing(two_sided):
    value = 0.1 + 0.2
    for limit in (1 << 20, 0):
        assert permutation_test([value, 0.3], [0.3, value, value], two_sided=two_sided, limit=limit) == 1


def test_a_set_must_have_words():
    for x, y in ((np.zeros(0), normal(3)), (normal(3), np.zeros(0))):
        with pytest.raises(UndefinedError, match="empty"):
            permutation_test(x, y)


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("sizes", [(8, 8), (9, 5)])
def test_sampled_p_is_near_the_exact_one(sizes, two_sided, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", 1000)  # so that the last chunk is a part
    x, y = normal(sizes[0], seed=1) + 0.5, normal(sizes[1], seed=2)
    exact = permutation_test(x, y, two_sided=two_sided)
    found = permutation_test(x, y, two_sided=two_sided, limit=0, draws=20_001, seed=5)
    assert found * 20_002 == pytest.approx(round(found * 20_002), abs=1e-6)
    assert found == pytest.approx(exact, abs=4 * np.sqrt(exact / 20_001))
    assert found == permutation_test(x, y, two_sided=two_sided, limit=0, draws=20_001, seed=5)
    assert found != permutation_test(x, y, two_sided=two_sided, limit=0, draws=20_001, seed=6)


def test_a_sampled_p_is_never_zero():
    found = permutation_test(np.arange(30) + 100.0, np.arange(30.0), draws=99)
    assert found == 0.01


def test_the_limit_is_on_the_subsets_of_half_of_the_words():
    """Of 6 words, 3 + 3, a half has 8 subsets; of 7, 1 + 6, it has 5 of at most one word."""
    for sizes, enough in (((3, 3), 8), ((6, 1), 5)):
        x, y = normal(sizes[0]), normal(sizes[1], seed=1)
        exact, drawn = (permutation_test(x, y, limit=limit, draws=1) for limit in (enough, enough - 1))
        assert exact == permutation_test(x, y) and exact not in (0.5, 1)
        assert drawn in (0.5, 1)


@pytest.mark.parametrize("limit", [1 << 20, 0])
@pytest.mark.parametrize("two_sided", [False, True])
def test_p_is_uniform_where_labels_do_not_matter(limit, two_sided):
    """Not too small: at each level no more rejections than 4 standard errors above it, and with many values as many as
    it.
    """
    runs, rng = 2000, np.random.default_rng(7)
    p = [
        permutation_test(*np.split(rng.exponential(size=9), [4]), two_sided=two_sided, limit=limit, draws=199)
        for _ in range(runs)
    ]
    for level in (0.01, 0.05, 0.2, 0.5):
        share, error = np.mean(np.asarray(p) <= level), np.sqrt(level * (1 - level) / runs)
        assert share <= level + 4 * error
        assert share >= level - 1 / comb(9, 4) - 1 / 200 - 4 * error


# Random effects


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # statsmodels leaves a tau2 below 0 as it is
@pytest.mark.parametrize("n", [2, 3, 10, 500])
@pytest.mark.parametrize("between", [0.0, 0.02, 1.0, 25.0])
def test_random_effects_against_statsmodels(n, between):
    rng = np.random.default_rng(n)
    variances = rng.uniform(0.05, 2.0, n)
    effects = 0.3 + rng.normal(size=n) * np.sqrt(variances + between)
    expected = meta_analysis.combine_effects(effects, variances, method_re="dl")
    found = combine_effects(effects, variances)
    assert found.tau2 == pytest.approx(max(0.0, expected.tau2), rel=1e-9, abs=1e-12)
    if expected.tau2 >= 0:
        assert found.effect == pytest.approx(expected.mean_effect_re, rel=1e-9)
        assert found.standard_error == pytest.approx(expected.sd_eff_w_re, rel=1e-9)
    else:
        assert found.effect == pytest.approx(expected.mean_effect_fe, rel=1e-9)
        assert found.standard_error == pytest.approx(expected.sd_eff_w_fe, rel=1e-9)
    assert found.z == pytest.approx(found.effect / found.standard_error)
    assert found.p_value == pytest.approx(2 * stats.norm.sf(abs(found.z)))
    assert combine_effects(effects, variances, two_sided=False).p_value == pytest.approx(stats.norm.sf(found.z))


@pytest.mark.parametrize(
    ("effects", "variances"),
    [([], []), ([1.0], [1.0]), ([1.0, 2.0], [1.0, 0.0]), ([1.0, 2.0], [1.0, np.nan]), ([1.0, np.inf], [1.0, 1.0])],
)
def test_effects_that_cannot_be_combined(effects, variances):
    with pytest.raises(UndefinedError):
        combine_effects(effects, variances)


# CEAT


def contexts(seed, words, dim=6, most=5, shift=0.0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(rng.integers(1, most + 1), dim)) + shift for _ in range(words)]


def slow_ceat(x, y, a, b, draws, seed):
    """Draw the same contexts, and compute all cosines of each draw afresh, word by word."""
    rng = np.random.default_rng(seed)
    drawn = [rng.integers([len(w) for w in words], size=(draws, len(words))) for words in ([*x, *y], [*a, *b])]
    effects, variances, associations = [], [], []
    for targets, attributes in zip(*drawn, strict=True):
        chosen = [w[i] for w, i in zip([*x, *y], targets, strict=True)]
        near = [w[i] for w, i in zip([*a, *b], attributes, strict=True)]
        s = [slow_association(w, near[: len(a)], near[len(a) :]) for w in chosen]
        associations.append(s)
        variances.append(np.var(s, ddof=1))
        effects.append((np.mean(s[: len(x)]) - np.mean(s[len(x) :])) / np.sqrt(variances[-1]))
    return np.asarray(effects), np.asarray(variances), np.mean(associations, axis=0)


@pytest.mark.parametrize("sizes", [(3, 3, 3, 3), (2, 4, 1, 5)])
@pytest.mark.parametrize("chunk", [1, 1 << 10, 1 << 18])
def test_ceat_against_a_loop_over_draws(sizes, chunk, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", chunk)
    x, y, a, b = (contexts(seed, n, shift=seed / 4) for seed, n in enumerate(sizes))
    effects, variances, associations = slow_ceat(x, y, a, b, 60, seed=11)
    expected = meta_analysis.combine_effects(effects, variances, method_re="dl")
    found = ceat(x, y, a, b, draws=60, seed=11)
    np.testing.assert_allclose(found.effect_sizes, effects, atol=1e-9)
    np.testing.assert_allclose(found.associations, associations, atol=1e-12)
    assert len(found.effect_sizes) == 60
    assert found.tau2 == pytest.approx(max(0.0, expected.tau2), abs=1e-9)
    weights = 1 / (variances + found.tau2)
    assert found.effect == pytest.approx(np.average(effects, weights=weights))
    assert found.standard_error == pytest.approx(weights.sum() ** -0.5)
    z = found.effect / found.standard_error
    assert found.p_value == pytest.approx(2 * stats.norm.sf(abs(z)))
    assert ceat(x, y, a, b, draws=60, seed=11, two_sided=False).p_value == pytest.approx(stats.norm.sf(z))


def test_with_one_context_a_word_ceat_is_weat():
    x, y, a, b = (contexts(seed, 4, most=1) for seed in range(4))
    joined = [np.concatenate(words) for words in (x, y, a, b)]
    weat = effect_size(association(joined[0], *joined[2:]), association(joined[1], *joined[2:]))
    found = ceat(x, y, a, b, draws=50)
    assert found.effect == pytest.approx(weat)
    assert found.tau2 == 0
    assert ceat(y, x, a, b, draws=50).effect == pytest.approx(-weat)
    assert ceat(x, y, b, a, draws=50).effect == pytest.approx(-weat)


def test_a_planted_association_is_found_and_swapping_the_targets_flips_it():
    rng = np.random.default_rng(0)

    def near(axis, words):
        return [rng.normal(size=(20, 8)) + 4 * np.eye(8)[axis] for _ in range(words)]

    x, y, a, b = near(0, 5), near(1, 5), near(0, 5), near(1, 5)
    found, swapped = ceat(x, y, a, b, draws=500), ceat(y, x, a, b, draws=500)
    assert found.effect > 1.5
    assert found.p_value < 1e-6
    assert swapped.effect == pytest.approx(-found.effect, abs=0.05)
    plain = ceat(near(2, 5), near(2, 5), a, b, draws=500)
    assert abs(plain.effect) < 0.5


def test_words_without_association_have_a_small_p_over_draws_but_not_over_words():
    """As the docstring of ceat says; 60 runs, so the share over words is at most 4 standard errors above .05."""
    rng, over_draws, over_words = np.random.default_rng(3), [], []
    for seed in range(60):
        sets = [[rng.normal(size=16) + rng.normal(size=(20, 16)) for _ in range(8)] for _ in range(4)]
        found = ceat(*sets, draws=1000, seed=seed)
        over_draws.append(found.p_value < 0.05)
        test = permutation_test(found.associations[:8], found.associations[8:], two_sided=True)
        over_words.append(test <= 0.05)
    assert np.mean(over_draws) > 0.7
    assert np.mean(over_words) <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 60)


def test_lengths_of_vectors_do_not_matter_and_the_seed_does():
    x, y, a, b = (contexts(seed, 3) for seed in range(4))
    found = ceat(x, y, a, b, draws=40, seed=1)
    scaled = ceat([3 * w for w in x], y, [w / 7 for w in a], b, draws=40, seed=1)
    np.testing.assert_allclose(scaled.effect_sizes, found.effect_sizes, atol=1e-9)
    np.testing.assert_array_equal(ceat(x, y, a, b, draws=40, seed=1).effect_sizes, found.effect_sizes)
    assert not np.array_equal(ceat(x, y, a, b, draws=40, seed=2).effect_sizes, found.effect_sizes)


def test_every_context_is_drawn_about_equally_often():
    drawn = module._draw_contexts([np.ones((3, 2)), np.ones((5, 2))], 30_000, np.random.default_rng(0))[1]
    counts = np.bincount(drawn.ravel(), minlength=8)
    assert stats.chisquare(counts[:3]).pvalue > 1e-3
    assert stats.chisquare(counts[3:]).pvalue > 1e-3


def test_what_ceat_is_undefined_on():
    x, y, a, b = (contexts(seed, 3) for seed in range(4))
    for args, reason in (
        (([], y, a, b), "a set of words is empty"),
        ((x, y, a, []), "a set of words is empty"),
        ((x, [*y, np.zeros((0, 6))], a, b), "no context"),
        ((x, [*y, np.zeros((2, 6))], a, b), "zero"),
        ((x[:1], x[:1], [np.ones((1, 6))], [np.ones((1, 6))]), "same association"),
    ):
        with pytest.raises(UndefinedError, match=reason):
            ceat(*args, draws=10)
    with pytest.raises(UndefinedError, match="fewer than two"):
        ceat(x, y, a, b, draws=1)
