"""Coreference scores against the literature's examples, and against slow computations written another way."""

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulations.coreference_coverage import POPULATIONS, RESTARTS, cell, restarts_held, simulate, truth
from sklearn.metrics import precision_recall_fscore_support

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.coreference_scores import (
    METRICS,
    _signed_f1,
    conll_f1,
    document_counts,
    f1_gap,
    f1_gap_interval,
    f1_interval,
    f1_pair,
    likelier_profession,
    linked_profession,
    pair_counts,
    scores_of,
    sides_without_links,
)
from pytest_genderbias.statistics.sums import f1_gap_sums, f1_sums

MUC, B_CUBED, CEAF = range(3)


def precision_recall(key, response, metric):
    return scores_of(document_counts(key, response)[metric])[:2].tolist()


# Examples of the literature; a mention is a letter


@pytest.mark.parametrize(
    ("key", "response", "precision", "recall"),
    [
        (["abcd"], ["ab", "cd"], 1, 2 / 3),  # as Vilain et al. 1995
        (["ab", "cd"], ["abcd"], 2 / 3, 1),
        (["abcd"], ["ab"], 1, 1 / 3),
        (["abcde", "fg", "hijkl"], ["abcde", "fghijkl"], 9 / 10, 1),  # as Bagga and Baldwin 1998
        (["abcde", "fg", "hijkl"], ["abcdehijkl", "fg"], 9 / 10, 1),
        (["abc", "defg"], ["ab", "cd", "fghi"], 2 / 5, 2 / 5),  # as Pradhan et al. 2014
    ],
)
def test_muc_of_the_literature(key, response, precision, recall):
    assert precision_recall(key, response, MUC) == pytest.approx([precision, recall])


@pytest.mark.parametrize(
    ("key", "response", "precision", "recall"),
    [
        (["abcde", "fg", "hijkl"], ["abcde", "fghijkl"], 16 / 21, 1),  # 76 %
        (["abcde", "fg", "hijkl"], ["abcdehijkl", "fg"], 7 / 12, 1),  # 58 %
        (["abc", "defg"], ["ab", "cd", "fghi"], 4 / 8, 35 / 12 / 7),
    ],
)
def test_b_cubed_of_the_literature(key, response, precision, recall):
    assert precision_recall(key, response, B_CUBED) == pytest.approx([precision, recall])


@pytest.mark.parametrize(
    ("response", "recall", "precision", "f1"),
    [
        (["a", "bc", "def"], 1, 1, 1),
        (["a", "de"], 0.6, 0.9, 0.72),
        (["a", "bcx", "defy", "z"], 0.88571, 0.66429, 0.75918),
        (["a", "bcx", "dy", "z"], 0.73333, 0.55, 0.62857),
        (["a", "bcxB", "dy", "z"], 0.68889, 0.51667, 0.59048),
        (["a", "bcx", "dy", "Bz"], 0.73333, 0.55, 0.62857),
    ],
)
def test_ceaf_of_the_official_scorers_test_cases_1_to_6(response, recall, precision, f1):
    counts = document_counts(["a", "bc", "def"], response)[CEAF]
    assert scores_of(counts) == pytest.approx([precision, recall, f1], abs=1e-5)


def test_the_mean_f1_of_an_example_done_by_hand():
    """The clusters of Pradhan et al. 2014: F1 of 2 / 5, of 1 / 2 and 5 / 12, and of 1.3 / 3 and 1.3 / 2."""
    counts = document_counts(["abc", "defg"], ["ab", "cd", "fghi"])
    assert scores_of(counts)[:, 2] == pytest.approx([0.4, 0.454545, 0.52], abs=1e-6)
    assert float(conll_f1(counts)) == pytest.approx((0.4 + 5 / 11 + 0.52) / 3)


# Against slow computations


def slow_muc(these, those):
    """Each cluster falls into parts: links found are its mentions less the parts, of its mentions less one."""
    found = total = 0
    for cluster in these:
        whose = [
            next((n for n, other in enumerate(those) if mention in other), ("alone", mention)) for mention in cluster
        ]
        found += len(cluster) - len(set(whose))
        total += len(cluster) - 1
    return [found, total]


def slow_b_cubed(these, those):
    """Mention by mention: how much of its cluster is in the other side's cluster of the same mention."""
    parts = []
    for cluster in these:
        for mention in cluster:
            other = next((set(c) for c in those if mention in c), set())
            parts.append(len(set(cluster) & other) / len(cluster))
    return [sum(parts), len(parts)]


def slow_ceaf(these, those):
    """Try every one-to-one alignment."""
    few, many = sorted((these, those), key=len)
    similarity = [[2 * len(set(a) & set(b)) / (len(a) + len(b)) for b in many] for a in few]
    best = max(
        sum(similarity[i][j] for i, j in enumerate(chosen)) for chosen in permutations(range(len(many)), len(few))
    )
    return [best, len(these)]


@st.composite
def partitions(draw):
    """Two sets of clusters over some of eight mentions, with singletons, up to five clusters each."""
    sides = []
    for _ in range(2):
        labels = draw(st.lists(st.integers(-1, 4), min_size=8, max_size=8))
        clusters = [{m for m, label in enumerate(labels) if label == k} for k in range(5)]
        sides.append([frozenset(c) for c in clusters if c])
    return sides


@given(partitions())
def test_counts_against_slow_computations(sides):
    key, response = sides
    slow = [[*metric(response, key), *metric(key, response)] for metric in (slow_muc, slow_b_cubed, slow_ceaf)]
    np.testing.assert_allclose(document_counts(key, response), slow, atol=1e-12)


@given(partitions())
def test_swapping_the_sides_swaps_precision_and_recall(sides):
    key, response = sides
    there, back = document_counts(key, response), document_counts(response, key)
    np.testing.assert_allclose(there[:, [2, 3, 0, 1]], back, atol=1e-12)
    assert (there[:, 0] <= there[:, 1] + 1e-12).all() and (there[:, 2] <= there[:, 3] + 1e-12).all()


def test_a_right_response_scores_1_whatever_the_order():
    key = [[(0, 3), (5, 8)], [(9, 11), (12, 13), (20, 22)]]
    counts = document_counts(key, [reversed_cluster[::-1] for reversed_cluster in reversed(key)])
    assert scores_of(counts).tolist() == [[1.0] * 3] * len(METRICS)


def test_singletons_count_as_in_the_official_scorer():
    """No link, but a mention and a cluster: {a} against {a b}, one of two mentions, similarity 2 / 3."""
    muc, b_cubed, ceaf = document_counts(["ab"], ["a"]).tolist()
    assert muc == [0, 0, 0, 1]
    assert b_cubed == [1, 1, 0.5, 2]
    assert ceaf == pytest.approx([2 / 3, 1, 2 / 3, 1])


def test_a_corpus_is_scored_by_its_sums():
    """A sum over documents is the score of one document that holds them all, with mentions that never meet."""
    rng = np.random.default_rng(7)
    documents = []
    for number in range(30):
        sides = []
        for _ in range(2):
            labels = rng.integers(0, 3, 6)
            sides.append([[(number, m) for m in range(6) if labels[m] == k] for k in range(3) if k in labels])
        documents.append(sides)
    counts = np.stack([document_counts(*sides) for sides in documents])
    whole = document_counts(*([c for sides in documents for c in sides[i]] for i in range(2)))
    np.testing.assert_allclose(counts.sum(axis=0)[:2], whole[:2])
    assert (counts.sum(axis=0)[CEAF] <= whole[CEAF] + 1e-9).all()

    drawn = rng.integers(30, size=(5, 30))
    resampled = conll_f1(counts[drawn].sum(axis=1))
    assert resampled.shape == (5,)
    assert resampled[3] == pytest.approx(float(conll_f1(sum(counts[i] for i in drawn[3]))))


@pytest.mark.parametrize(
    ("key", "response", "metric"), [(["ab"], [], B_CUBED), (["ab"], ["a"], MUC), (["ab", "cd"], [], CEAF)]
)
def test_a_system_that_links_nothing_has_an_f1_of_0_as_in_the_official_scorer(key, response, metric):
    assert scores_of(document_counts(key, response)[metric]).tolist() == [0.0, 0.0, 0.0]


def test_no_score_without_a_key():
    with pytest.raises(UndefinedError, match="recall divides by 0: the key has nothing"):
        scores_of(document_counts([], ["ab"])[CEAF])


def test_a_gap_needs_a_link_on_one_side():
    right, nothing = (pair_counts([[True, False]] * 3, [[link, False]] * 3)[:, None] for link in (True, False))
    assert f1_gap(right, nothing) == 1.0 and f1_gap(nothing, right) == -1.0
    assert sides_without_links(right, nothing) == ["anti"]
    with pytest.raises(UndefinedError, match="the system resolves no pronoun"):
        f1_gap(nothing, nothing)
    for pro, anti, expected in ((right, nothing, 1.0), (nothing, right, -1.0), (nothing, nothing, np.nan)):
        sums = f1_gap_sums(np.array(["a", "b", "c"]), pro, anti, "pairs")
        assert np.array_equal(sums.total, expected, equal_nan=True)
    assert f1_sums(np.array(["a", "b", "c"]), nothing, "pairs").total == 0.0
    many = np.tile(nothing[:1], (80, 1, 1))
    with pytest.raises(UndefinedError, match="links nothing on one side"):
        f1_gap_interval(np.tile(right[:1], (80, 1, 1)), many, "pairs")


def test_nothing_right_is_an_f1_of_0():
    assert scores_of([0, 3, 0, 4]).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("key", "response", "said"),
    [
        (["ab", ""], ["ab"], "an empty cluster in the key"),
        (["ab"], ["ab", "bc"], "duplicate mention in the clusters of the response"),
        (["aa"], ["ab"], "duplicate mention in the clusters of the key"),
    ],
)
def test_clusters_that_are_none(key, response, said):
    with pytest.raises(ValueError, match=said):
        document_counts(key, response)


# Pairs and professions


@given(st.integers(0, 10_000))
def test_pairs_against_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    gold, linked = rng.random((2, 25, 2)) < 0.5
    expected = precision_recall_fscore_support(gold.ravel(), linked.ravel(), average="binary")[:3]
    assert f1_pair(gold, linked).tolist() == pytest.approx(expected)
    assert pair_counts(gold, linked).shape == (25, 4)


def test_pairs_without_a_link_or_of_other_shape():
    assert f1_pair([[True, False]], [[False, False]]).tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(UndefinedError, match="recall"):
        f1_pair([[False, False]], [[True, False]])
    with pytest.raises(ValueError, match="gold and linked of equal shapes"):
        pair_counts([[True, False]], [[True]])


def test_the_linked_profession_is_the_only_one():
    links = [[True, False], [False, True], [True, True], [False, False]]
    assert linked_profession(links).tolist() == [0, 1, -1, -1]
    assert linked_profession(np.zeros((0, 2), dtype=bool)).tolist() == []


def test_the_likelier_profession_has_the_higher_score():
    infinite = float("-inf")
    scores = [[0.1, 0.2], [3.0, -1.0], [2.0, 2.0], [infinite, -9.0], [infinite, infinite]]
    assert likelier_profession(scores).tolist() == [1, 0, -1, 1, -1]
    with pytest.raises(ValueError, match="not a number"):
        likelier_profession([[float("nan"), 1.0]])


# Intervals


def errors_of_pairs(n, first, second):
    """Counts of n pairs of sentences, all right but for the first so many here, and the last so many there."""
    gold = np.tile([True, False], (n, 1))
    pro, anti = gold.copy(), gold.copy()
    pro[:first], anti[n - second :] = ~pro[:first], False
    return tuple(pair_counts(gold, linked)[:, None] for linked in (pro, anti))


@pytest.mark.parametrize("signs", [[1.0, -1.0], [1.0, 1.0]])
def test_the_error_of_f1_against_weights_moved_one_at_a_time(signs):
    """The infinitesimal jackknife: how F1 changes where one pair weighs a little more (Efron 1982)."""
    rng = np.random.default_rng(3)
    key = [["ab"], ["ab", "cd"], ["abc"]]
    said = [["ab"], ["ac", "bd"], ["abcd"], ["ad"], []]
    counts = np.stack(
        [[document_counts(key[i], said[j]) for i, j in rng.integers(0, (3, 5), (2, 2))] for _ in range(40)]
    )

    def value(weights):
        totals = np.tensordot(weights, counts, 1)
        return float(np.dot(signs, conll_f1(totals)))

    ones, step = np.ones(40), 1e-5
    slopes = np.array([(value(ones + step * e) - value(ones - step * e)) / (2 * step) for e in np.eye(40)])
    (found,), (error,) = _signed_f1(counts, ones[None], np.array(signs))
    assert found == pytest.approx(value(ones))
    assert error == pytest.approx(np.sqrt(np.square(slopes).sum() * 40 / 39), rel=1e-6)

    kinds, times = np.unique(counts.reshape(40, -1), axis=0, return_counts=True)
    by_kind = _signed_f1(kinds.reshape(-1, 2, 3, 4), times[None].astype(float), np.array(signs))
    assert (by_kind[0][0], by_kind[1][0]) == pytest.approx((found, error))


def test_intervals_do_not_depend_on_the_order_of_pairs():
    pro, anti = errors_of_pairs(80, 12, 25)
    shuffled = np.random.default_rng(0).permutation(80)
    assert f1_gap_interval(pro, anti, "pairs") == f1_gap_interval(pro[shuffled], anti[shuffled], "pairs")
    assert f1_interval(pro + anti, "pairs") == f1_interval((pro + anti)[shuffled], "pairs")


def test_no_interval_where_too_few_pairs_differ():
    with pytest.raises(UndefinedError, match="too few of the 200 pairs differ"):
        f1_gap_interval(*errors_of_pairs(200, 1, 1), "pairs")
    with pytest.raises(UndefinedError, match="too few of the 200 pairs differ"):
        f1_interval(sum(errors_of_pairs(200, 1, 0)), "pairs")
    assert f1_interval(sum(errors_of_pairs(200, 20, 0)), "pairs").items == 200


@pytest.mark.parametrize(
    ("name", "n", "kind"),
    [("very high", 164, "f1"), ("one way", 164, "gap"), ("alike", 164, "gap"), ("clusters, gap", 60, "gap")],
)
def test_intervals_hold_in_a_small_version_of_the_table(name, n, kind):
    """Percentiles of the resamples held in 88 % of the first two."""
    held, without = simulate(POPULATIONS[name], n, 200, (kind,))[kind, "chosen"]
    assert held >= 0.93
    assert without <= 0.1


def test_intervals_of_restarts_in_a_small_version_of_the_table():
    for n in RESTARTS:
        held, without = restarts_held("normal", n, 400)
        assert 0.925 <= held <= 0.975
        assert without == 0
    assert restarts_held("normal", 2, 5) == (0, 1)


def test_the_page_has_what_the_script_prints():
    page = (Path(__file__).parents[2] / "docs" / "evidence" / "coverage-coreference.md").read_text(encoding="utf-8")
    row = " | ".join(["normal", *(cell(*restarts_held("normal", n, 2000)) for n in RESTARTS)])
    assert f"| {row} |" in page
    for name in POPULATIONS:
        for kind in ("gap", "f1"):
            assert f"| {name} | {truth(POPULATIONS[name])[kind]:.2f} |" in page
            assert f"| {name} | {kind} |" in page
