"""Coreference scores: MUC, B-cubed and CEAF-phi4 of clusters, F1 of pairs, and the profession that a pronoun is linked
to.

Every score is a ratio of sums over documents. The *counts* of a document are computed once; a corpus, or a bootstrap
resample of it, adds them up and divides.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.inference.intervals import FloatArray, Interval, t_quantile
from pytest_genderbias.statistics.score_bias import exchanged

Clusters = Sequence[Collection[Hashable]]

#: The metrics of :func:`document_counts`, in its order.
METRICS = ("muc", "b_cubed", "ceaf_phi4")
#: The scores of :func:`scores_of`, in its order.
SCORES = ("precision", "recall", "f1")

#: Why a gap has no value.
LINKS_NOTHING = "the system resolves no pronoun, so there is nothing to compare"

_RESAMPLES = 1999  #: With this number, the 50th and the 1950th of the sorted resamples bound 95 %.
_SEED = 1999  #: Fixed, so that the interval of a measurement is reproducible.
_LEAST_DRAWN = 60  #: The smallest sample with an interval.


def document_counts(key: Clusters, response: Clusters) -> FloatArray:
    """Return the numerators and denominators of MUC, B-cubed and CEAF-phi4 for one document.

    With clusters K of the key, R of the response, and the overlap o = abs(K & R) of two of them:

    - MUC (Vilain et al. 1995) counts links. Both numerators: the sum of o - 1 over pairs (K, R) that overlap;
      denominators: the sum of abs(R) - 1 and of abs(K) - 1.
    - B-cubed (Bagga and Baldwin 1998) counts mentions. Numerators: the sum of o**2 / abs(R) and of o**2 / abs(K);
      denominators: the mentions of the response and of the key.
    - CEAF-phi4 (Luo 2005) counts clusters. Both numerators: the sum of 2 o / (abs(K) + abs(R)) over the pairs of the
      best one-to-one alignment; denominators: the clusters of the response and of the key.

    As in the official scorer (Pradhan et al. 2014, version 8.01), mentions match exactly, and mentions of only one side
    are not adjusted. A cluster of one mention counts like any other: it adds nothing to MUC, but a mention to B-cubed
    and a cluster to CEAF. Leave such clusters out if the key has none by convention, as in OntoNotes.

    Args:
        key: the gold clusters, each a collection of mentions, for example spans (start, end); may be empty.
        response: the clusters of the system; may be empty.

    Returns:
        Shape (3, 4): for each metric of ``METRICS``, numerator and denominator of precision, then of recall.

    Raises:
        ValueError: an empty cluster, or a duplicate mention on one side. (The official scorer keeps the first.)

    Example:
        Key {a b c}, response {a b} {c d}: one of two links is right; overlaps 2 and 1; the best pair has 2 * 2 / (3 +
        2).

        >>> document_counts(["abc"], ["ab", "cd"]).round(3).tolist()
        [[1.0, 2.0, 1.0, 2.0], [2.5, 4.0, 1.667, 3.0], [0.8, 2.0, 0.8, 1.0]]
    """
    from scipy.optimize import linear_sum_assignment  # takes a third of a second

    in_key, key_sizes = _memberships(key, "key")
    in_response, response_sizes = _memberships(response, "response")
    shared = [(in_key[mention], cluster) for mention, cluster in in_response.items() if mention in in_key]
    overlap = np.zeros((len(key), len(response)))
    np.add.at(overlap, tuple(np.asarray(shared, dtype=np.int64).reshape(-1, 2).T), 1.0)

    links = (overlap - (overlap > 0)).sum()
    squares = np.square(overlap)
    similarity = 2 * overlap / (key_sizes[:, None] + response_sizes)
    aligned = similarity[linear_sum_assignment(similarity, maximize=True)].sum()
    muc = links, (response_sizes - 1).sum(), links, (key_sizes - 1).sum()
    right = (squares / response_sizes).sum(), (squares / key_sizes[:, None]).sum()
    b_cubed = right[0], response_sizes.sum(), right[1], key_sizes.sum()
    return np.array([muc, b_cubed, (aligned, len(response), aligned, len(key))])


def _memberships(clusters: Clusters, side: str) -> tuple[dict[Hashable, int], FloatArray]:
    """Return the cluster number of each mention, and the sizes of the clusters."""
    sizes = np.array([len(cluster) for cluster in clusters], dtype=np.float64)
    if not sizes.all():
        raise ValueError(f"an empty cluster in the {side}")
    member = {mention: number for number, cluster in enumerate(clusters) for mention in cluster}
    if len(member) != sizes.sum():
        raise ValueError(f"duplicate mention in the clusters of the {side}")
    return member, sizes


def scores_of(counts: ArrayLike) -> FloatArray:
    """Return precision, recall and their harmonic mean F1 from counts summed over documents.

    Args:
        counts: numerator and denominator of precision, then of recall, shape (..., 4).

    Returns:
        Shape (..., 3), in the order of ``SCORES``: 0 to 1, lower is worse. Precision is 0 if the response has nothing
        to count, as the official scorer prints; F1 is 0 if precision and recall are 0.

    Raises:
        UndefinedError: the key has nothing to count, so that no response is better than another.

    >>> scores_of([1, 2, 1, 4]).round(3).tolist(), scores_of([0, 0, 0, 4]).tolist()
    ([0.5, 0.25, 0.333], [0.0, 0.0, 0.0])
    """
    sums = np.asarray(counts, dtype=np.float64)
    if not sums[..., 3].all():
        raise UndefinedError("recall divides by 0: the key has nothing to count")
    precision = sums[..., 0] / np.where(sums[..., 1] > 0, sums[..., 1], 1.0)
    recall = sums[..., 2] / sums[..., 3]
    total = precision + recall
    f1 = 2 * precision * recall / np.where(total > 0, total, 1.0)
    return np.stack([precision, recall, f1], axis=-1)


def conll_f1(counts: ArrayLike) -> FloatArray:
    """Return the mean F1 of MUC, B-cubed and CEAF-phi4, the score of the CoNLL-2012 shared task (Pradhan et al. 2012).

    Args:
        counts: :func:`document_counts`, summed over documents, shape (..., 3, 4).

    Returns:
        Shape (...): 0 to 1, lower is worse.

    Raises:
        UndefinedError: as :func:`scores_of`.

    Example:
        From the example of :func:`document_counts`: F1 of .5, .588 and .533.

        >>> round(float(conll_f1(document_counts(["abc"], ["ab", "cd"]))), 3)
        0.541
    """
    return np.asarray(scores_of(counts)[..., 2].mean(axis=-1))


def pair_counts(gold: ArrayLike, linked: ArrayLike) -> FloatArray:
    """Return the counts of pair classification for each sentence: is a candidate linked to the pronoun?

    Args:
        gold: whether each of C candidates corefers with the pronoun, booleans, shape (..., C).
        linked: whether the system links them, same shape.

    Returns:
        Shape (..., 4), for :func:`scores_of`: correctly linked pairs and linked pairs, correctly linked pairs and gold
        pairs.

    >>> pair_counts([[True, False], [True, False]], [[True, True], [False, True]]).tolist()
    [[1.0, 2.0, 1.0, 1.0], [0.0, 1.0, 0.0, 1.0]]
    """
    right, links = np.asarray(gold, dtype=bool), np.asarray(linked, dtype=bool)
    if right.shape != links.shape:
        raise ValueError(f"expected gold and linked of equal shapes, got {right.shape} and {links.shape}")
    hits = (right & links).sum(axis=-1)
    return np.stack([hits, links.sum(axis=-1), hits, right.sum(axis=-1)], axis=-1).astype(np.float64)


def f1_pair(gold: ArrayLike, linked: ArrayLike) -> FloatArray:
    """Return precision, recall and F1 of pair classification, over all sentences.

    Args:
        gold: whether each candidate corefers with the pronoun, shape (n, C).
        linked: whether the system links them, same shape.

    Returns:
        Shape (3,), in the order of ``SCORES``: 0 to 1, lower is worse; all 0 if no pair is linked.

    Raises:
        UndefinedError: there is no gold pair.

    Example:
        One of three links is right, and one of two gold pairs is linked.

        >>> f1_pair([[True, False], [True, False]], [[True, True], [False, True]]).round(3).tolist()
        [0.333, 0.5, 0.4]
    """
    return scores_of(pair_counts(gold, linked).reshape(-1, 4).sum(axis=0))


def antecedent_clusters(scores: ArrayLike) -> list[list[int]]:
    """Return the clusters of a system that links each mention to its best antecedent, or to none (Lee et al. 2017,
    section 3).

    Args:
        scores: score of mention i with the earlier mention j against no antecedent, which has 0: shape (n, n); entries
            with j >= i are not read, and NaN counts as no antecedent.

    Returns:
        Clusters of two or more mentions, by their numbers. Of equal scores the nearest antecedent counts.

    Example:
        Mention 1 is linked to 0, mention 3 to 1; mention 2 has no antecedent above 0.

        >>> antecedent_clusters([[0, 0, 0, 0], [2.0, 0, 0, 0], [-1.0, -0.5, 0, 0], [0.1, 0.3, -9.0, 0]])
        [[0, 1, 3]]
    """
    table = np.nan_to_num(np.asarray(scores, dtype=np.float64), nan=-np.inf, neginf=-np.inf)
    cluster_of: list[list[int]] = []
    for i in range(len(table)):
        nearest_first = table[i, :i][::-1]
        best = int(nearest_first.argmax()) if i else 0
        cluster = cluster_of[i - 1 - best] if i and nearest_first[best] > 0 else []
        cluster.append(i)
        cluster_of.append(cluster)
    return [cluster for i, cluster in enumerate(cluster_of) if cluster[0] == i and len(cluster) > 1]


def linked_profession(links: ArrayLike) -> NDArray[np.int64]:
    """Return the candidate profession that a clustering system links to the pronoun (orgad2022, A.4.2).

    Args:
        links: whether each candidate is in one cluster with the pronoun, shape (n, C).

    Returns:
        Shape (n,): the number of the linked candidate, or -1 if none or several are linked.

    >>> linked_profession([[False, True], [False, False], [True, True]]).tolist()
    [1, -1, -1]
    """
    linked = np.asarray(links, dtype=bool)
    return np.where(linked.sum(axis=-1) == 1, linked.argmax(axis=-1), -1)


def likelier_profession(scores: ArrayLike) -> NDArray[np.int64]:
    """Return the candidate profession with the highest score, for a system that scores pairs.

    Args:
        scores: score of each candidate with the pronoun, shape (n, C); -inf for a candidate that was not considered.

    Returns:
        Shape (n,): the number of the candidate with the highest score, or -1 for a tie.

    >>> likelier_profession([[-1.5, 2.0], [0.5, 0.5], [1.0, float("-inf")]]).tolist()
    [1, -1, 0]
    """
    table = np.asarray(scores, dtype=np.float64)
    if np.isnan(table).any():
        raise ValueError("a score is not a number")
    highest = table == table.max(axis=-1, keepdims=True)
    return linked_profession(highest)


def f1_gap(pro: ArrayLike, anti: ArrayLike) -> float:
    """Return the F1 on pro-stereotypical sentences minus that on anti-stereotypical ones (Zhao et al. 2018; orgad2022).

    F1 is the mean over metrics of the F1 of all sentences together.

    Args:
        pro: counts of the pro-stereotypical sentences, shape (n, metrics, 4): :func:`document_counts`, or
            :func:`pair_counts` as the only metric.
        anti: counts of the anti-stereotypical sentences, shape (m, metrics, 4).

    Returns:
        -1 to 1; away from 0 is worse, 0 is neutral.

    Raises:
        UndefinedError: as :func:`scores_of`; or the system links nothing on either side, so that there is no F1 to
            compare.

    Example:
        Two of two pairs are right on one side, one of two on the other.

        >>> f1_gap([[[1, 1, 1, 1]], [[1, 1, 1, 1]]], [[[1, 1, 1, 1]], [[0, 1, 0, 1]]])
        0.5
    """
    sums = [np.asarray(counts, dtype=np.float64).sum(axis=0) for counts in (pro, anti)]
    if not any(total[..., 1].any() for total in sums):
        raise UndefinedError(LINKS_NOTHING)
    first, second = (float(conll_f1(total)) for total in sums)
    return first - second


def sides_without_links(pro: ArrayLike, anti: ArrayLike) -> list[str]:
    """Return the sides (``pro``, ``anti``) on which precision is 0 by convention in some metric: the system links
    nothing there.

    >>> sides_without_links([[[1, 1, 1, 1]]], [[[0, 0, 0, 1]]])
    ['anti']
    """
    totals = {"pro": np.asarray(pro).sum(axis=0), "anti": np.asarray(anti).sum(axis=0)}
    return [side for side, total in totals.items() if not total[..., 1].all()]


def f1_gap_interval(pro: ArrayLike, anti: ArrayLike, over: str, level: float = 0.95) -> Interval | None:
    """Return the interval of :func:`f1_gap` for other pairs of sentences of the same kind.

    A pair is a pro-stereotypical sentence with its anti-stereotypical partner. Each bound is the wider one of two
    intervals:

    - Student's t with the error by the infinitesimal jackknife (Efron 1982, The Jackknife, section 6.3), which is too
      short if few pairs differ, all in one direction;
    - bootstrap-t (Davison and Hinkley 1997, section 5.2.2), over 1,999 resamples of pairs, each with its own error,
      which is too short if few pairs differ, in both directions.

    The seed is fixed, and the order of the pairs has no influence. ``docs/evidence/coverage-coreference.md`` lists the
    measured coverage.

    Args:
        pro: as in :func:`f1_gap`, shape (n, metrics, 4).
        anti: the partners, in the same order, same shape.
        over: the name of the pairs, for tables.
        level: confidence level.

    Returns:
        The interval, cut at -1 and 1, or None if all pairs have the same influence.

    Raises:
        UndefinedError: fewer than 60 pairs, too few pairs that differ for a finite bound, or a denominator is 0 (also
            that of precision, whose error is not known there).
    """
    counts = np.stack([np.asarray(pro), np.asarray(anti)], axis=1).astype(np.float64)
    estimate = _bootstrap_t(counts, np.array([1.0, -1.0]), over, level)
    if estimate is None:
        return None
    value, error, low, high = estimate
    reach = t_quantile((1 + level) / 2, len(counts) - 1) * error
    low, high = max(min(low, value - reach), -1.0), min(max(high, value + reach), 1.0)
    return Interval(low, high, level, over, "the wider of bootstrap-t and Student's t", len(counts))


def f1_interval(counts: ArrayLike, over: str, level: float = 0.95) -> Interval | None:
    """Return the interval of :func:`conll_f1`: only the bootstrap-t of :func:`f1_gap_interval`, cut at 0 and 1.

    Args:
        counts: counts of the sampled units, shape (n, metrics, 4).
        over: the name of the units, for tables.
        level: confidence level.

    Raises:
        UndefinedError: as :func:`f1_gap_interval`.
    """
    table = np.asarray(counts, dtype=np.float64)[:, None]
    estimate = _bootstrap_t(table, np.ones(1), over, level)
    if estimate is None:
        return None
    *_, low, high = estimate
    return Interval(max(low, 0.0), min(high, 1.0), level, over, "bootstrap-t", len(table))


def _bootstrap_t(
    counts: FloatArray, signs: FloatArray, over: str, level: float
) -> tuple[float, float, float, float] | None:
    """Return the signed sum of the F1 of the sides, its error and its bounds, from counts of shape (n, sides, metrics,
    4).

    Resamples count distinct rows, of which a suite with hundreds of pairs has few.
    """
    n = len(counts)
    if n < _LEAST_DRAWN:
        raise UndefinedError(f"{n} are too few for an interval, {_LEAST_DRAWN} are needed")
    if not counts.sum(axis=0)[..., [1, 3]].all():
        raise UndefinedError("the system links nothing on one side, or the key has nothing to count there")
    flat, times = np.unique(counts.reshape(n, -1), axis=0, return_counts=True)
    rows = flat.reshape(-1, *counts.shape[1:])
    (value,), (error,) = _signed_f1(rows, times[None].astype(np.float64), signs)
    if error <= 1e-12:
        return None
    drawn = np.random.default_rng(_SEED).multinomial(n, times / n, size=_RESAMPLES).astype(np.float64)
    values, errors = _signed_f1(rows, drawn, signs)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (values - value) / np.where(errors > 1e-9 * error, errors, 0.0)
    cut = round((_RESAMPLES + 1) * (1 - level) / 2)
    # An undefined resample is infinitely far away.
    largest = np.sort(np.where(np.isnan(t), np.inf, t))[_RESAMPLES - cut]
    smallest = np.sort(np.where(np.isnan(t), -np.inf, t))[cut - 1]
    if not (np.isfinite(largest) and np.isfinite(smallest)):
        raise UndefinedError(f"too few of the {n} {over} differ for an interval")
    return float(value), float(error), float(value - largest * error), float(value - smallest * error)


def _signed_f1(rows: FloatArray, times: FloatArray, signs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the signed sum of the F1 of the sides and its error by the infinitesimal jackknife, for weighted rows.

    Args:
        rows: counts of the distinct rows, shape (kinds, sides, metrics, 4).
        times: the number of times that each row occurs, shape (resamples, kinds), with equal totals.
        signs: sign of each side, shape (sides,).

    Returns:
        Both of shape (resamples,); NaN if a denominator is 0.
    """
    kinds, n = len(rows), times[0].sum()
    totals = (times @ rows.reshape(kinds, -1)).reshape(-1, *rows.shape[1:])
    hits, predicted, recalled, gold = np.moveaxis(totals, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = hits / predicted, recalled / gold
        both = np.where(precision + recall == 0, 1.0, precision + recall)
        weights = signs[:, None] / rows.shape[2]
        value = (2 * precision * recall / both * weights).sum(axis=(-1, -2))
        by_precision, by_recall = 2 * np.square(recall / both) / predicted, 2 * np.square(precision / both) / gold
        slopes = np.stack([by_precision, -by_precision * precision, by_recall, -by_recall * recall], axis=-1)
        influence = (slopes * weights[..., None]).reshape(len(times), -1) @ rows.reshape(kinds, -1).T
    centred = influence - (times * influence).sum(axis=1, keepdims=True) / n
    return value, np.sqrt((times * np.square(centred)).sum(axis=1) * n / (n - 1))


def exchanged_f1_gaps(pro: ArrayLike, anti: ArrayLike, repeats: int, seed: int) -> FloatArray:
    """Return :func:`f1_gap` after random exchanges of the partners of each pair, shape (repeats,).

    NaN where the gap is undefined.

    >>> sorted(set(exchanged_f1_gaps([[[1, 1, 1, 1]]], [[[0, 1, 0, 1]]], repeats=50, seed=0).tolist()))
    [-1.0, 1.0]
    """
    first, second = np.asarray(pro, dtype=np.float64), np.asarray(anti, dtype=np.float64)
    n = len(first)
    half = ((first - second) / 2).reshape(n, -1)
    moved = exchanged(half, np.zeros(n), 1, repeats, seed)[:, 0]
    middle = ((first + second) / 2).reshape(n, -1).sum(axis=0)
    return f1_gap_of_sums(np.concatenate([middle + moved, middle - moved], axis=1))


def f1_of_sums(totals: FloatArray) -> FloatArray:
    """Return the mean F1 from totals, shape (..., metrics * 4) to (...); NaN where the key has nothing to count."""
    counts = totals.reshape(*totals.shape[:-1], -1, 4)
    defined = np.asarray(counts[..., 3].min(axis=-1) > 0)
    return np.where(defined, conll_f1(np.where(defined[..., None, None], counts, 1.0)), np.nan)


def f1_gap_of_sums(totals: FloatArray) -> FloatArray:
    """Return the gap of F1 from totals of both sides, shape (..., 2 * metrics * 4) to (...); NaN where :func:`f1_gap`
    is undefined.
    """
    sides = totals.reshape(*totals.shape[:-1], 2, -1)
    f1 = f1_of_sums(sides)
    linked = totals.reshape(*totals.shape[:-1], -1, 4)[..., 1].any(axis=-1)
    return np.asarray(np.where(linked, f1[..., 0] - f1[..., 1], np.nan))


def accuracy_gap_of_sums(totals: FloatArray) -> FloatArray:
    """Return the accuracy on sentences with she minus that on sentences with he, from totals over occupations.

    Args:
        totals: right answers with she and with he, then sentences with she and with he, shape (..., 4).

    Returns:
        Shape (...), NaN where one pronoun has no sentence.

    >>> float(accuracy_gap_of_sums(np.array([3.0, 1.0, 4.0, 4.0])))
    0.5
    """
    right, n = totals[..., :2], totals[..., 2:]
    accuracy = np.where(n > 0, right, np.nan) / np.where(n > 0, n, 1.0)
    return np.asarray(accuracy[..., 0] - accuracy[..., 1])
