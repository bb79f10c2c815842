"""Coreference scores: MUC, B-cubed and CEAF-phi4 of clusters, F1 of pairs, and the profession that a pronoun is linked with.

Every score is a ratio of sums over documents. The sums of one document are *counts*; a corpus, or a bootstrap resample of
it, adds counts up and divides once, so that no alignment is ever computed twice.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.statistics.score_bias import exchanged

FloatArray = NDArray[np.float64]
Clusters = Sequence[Collection[Hashable]]

#: The metrics of :func:`document_counts`, in its order.
METRICS = ("muc", "b_cubed", "ceaf_phi4")
#: The scores of :func:`scores_of`, in its order.
SCORES = ("precision", "recall", "f1")

_RESAMPLES = 1999  #: so that the 50th and the 1950th of the sorted resamples bound 95 %
_SEED = 1999  #: the interval of a measurement is always the same
_LEAST_DRAWN = 60


def document_counts(key: Clusters, response: Clusters) -> FloatArray:
    """Return the numerators and denominators of MUC, B-cubed and CEAF-phi4 for one document.

    With clusters K of the key, R of the response, and the overlap o = abs(K & R) of two of them:

    - MUC (Vilain et al. 1995) counts links. Both numerators: the sum of o - 1 over pairs (K, R) that overlap; denominators:
      the sum of abs(R) - 1 and of abs(K) - 1.
    - B-cubed (Bagga and Baldwin 1998) counts mentions. Numerators: the sum of o**2 / abs(R) and of o**2 / abs(K);
      denominators: the mentions of the response and of the key.
    - CEAF-phi4 (Luo 2005) counts clusters. Both numerators: the sum of 2 o / (abs(K) + abs(R)) over the pairs of the best
      one-to-one alignment; denominators: the clusters of the response and of the key.

    As in the official scorer (Pradhan et al. 2014, version 8.01), mentions match exactly, a mention that only one side has
    is not mended in any way, and a cluster of one mention counts like any other: it adds nothing to MUC, but a mention to
    B-cubed and a cluster to CEAF. Leave such clusters out where the key has none by convention, as in OntoNotes.

    Args:
        key: the right clusters, each a collection of mentions, for instance spans (start, end).
        response: the clusters of the system; either may be empty.

    Returns:
        Shape (3, 4): by metric of ``METRICS`` the numerator and denominator of precision, then those of recall.

    Raises:
        ValueError: a cluster is empty, or a mention stands twice on one side. (The official scorer keeps the first.)

    Example:
        Key {a b c}, response {a b} {c d}: of two links, ab is found; overlaps 2 and 1; the best pair has 2 * 2 / (3 + 2).

        >>> document_counts(["abc"], ["ab", "cd"]).round(3).tolist()
        [[1.0, 2.0, 1.0, 2.0], [2.5, 4.0, 1.667, 3.0], [0.8, 2.0, 0.8, 1.0]]
    """
    in_key, key_sizes = _memberships(key, "key")
    in_response, response_sizes = _memberships(response, "response")
    shared = [(in_key[mention], cluster) for mention, cluster in in_response.items() if mention in in_key]
    overlap = np.zeros((len(key), len(response)))
    np.add.at(overlap, tuple(np.asarray(shared, dtype=np.int64).reshape(-1, 2).T), 1.0)

    links = (overlap - (overlap > 0)).sum()
    squares = np.square(overlap)
    similarity = 2 * overlap / (key_sizes[:, None] + response_sizes)
    aligned = similarity[linear_sum_assignment(similarity, maximize=True)].sum()
    return np.array(
        [
            [links, (response_sizes - 1).sum(), links, (key_sizes - 1).sum()],
            [
                (squares / response_sizes).sum(),
                response_sizes.sum(),
                (squares / key_sizes[:, None]).sum(),
                key_sizes.sum(),
            ],
            [aligned, len(response), aligned, len(key)],
        ]
    )


def _memberships(clusters: Clusters, side: str) -> tuple[dict[Hashable, int], FloatArray]:
    """Return the number of the cluster that each mention is in, and the sizes of the clusters."""
    sizes = np.array([len(cluster) for cluster in clusters], dtype=np.float64)
    if not sizes.all():
        raise ValueError(f"an empty cluster in the {side}")
    member = {mention: number for number, cluster in enumerate(clusters) for mention in cluster}
    if len(member) != sizes.sum():
        raise ValueError(f"a mention stands twice in the clusters of the {side}")
    return member, sizes


def scores_of(counts: ArrayLike) -> FloatArray:
    """Return precision, recall and their harmonic mean F1 from counts that are summed over documents.

    Args:
        counts: numerator and denominator of precision, then of recall, shape (..., 4).

    Returns:
        Shape (..., 3), in the order of ``SCORES``: each 0 to 1, lower is worse. F1 is 0 where both others are 0.

    Raises:
        UndefinedError: a denominator is 0. (The official scorer prints 0 there.)

    >>> scores_of([1, 2, 1, 4]).round(3).tolist()
    [0.5, 0.25, 0.333]
    """
    sums = np.asarray(counts, dtype=np.float64)
    for column, name, side in ((1, "precision", "response"), (3, "recall", "key")):
        if not sums[..., column].all():
            raise UndefinedError(f"{name} divides by 0: there is nothing in the {side} for it to count")
    precision, recall = sums[..., 0] / sums[..., 1], sums[..., 2] / sums[..., 3]
    total = precision + recall
    f1 = 2 * precision * recall / np.where(total > 0, total, 1.0)
    return np.stack([precision, recall, f1], axis=-1)


def conll_f1(counts: ArrayLike) -> FloatArray:
    """Return the mean F1 of MUC, B-cubed and CEAF-phi4, the score of the CoNLL-2012 shared task (Pradhan et al. 2012).

    Args:
        counts: those of :func:`document_counts`, summed over documents, shape (..., 3, 4).

    Returns:
        Shape (...): 0 to 1, lower is worse.

    Raises:
        UndefinedError: a denominator is 0.

    Example:
        From the example of :func:`document_counts`: F1 of .5, .588 and .533.

        >>> round(float(conll_f1(document_counts(["abc"], ["ab", "cd"]))), 3)
        0.541
    """
    return np.asarray(scores_of(counts)[..., 2].mean(axis=-1))


def pair_counts(gold: ArrayLike, linked: ArrayLike) -> FloatArray:
    """Return the counts of pair classification by sentence: is this candidate linked with this pronoun.

    Args:
        gold: whether they belong together, true or false, shape (..., C) for C candidates a sentence.
        linked: whether the system links them, same shape.

    Returns:
        Shape (..., 4), for :func:`scores_of`: pairs rightly linked and pairs linked, pairs rightly linked and pairs that
        belong together.

    >>> pair_counts([[True, False], [True, False]], [[True, True], [False, True]]).tolist()
    [[1.0, 2.0, 1.0, 1.0], [0.0, 1.0, 0.0, 1.0]]
    """
    right, found = np.asarray(gold, dtype=bool), np.asarray(linked, dtype=bool)
    if right.shape != found.shape:
        raise ValueError(f"gold has shape {right.shape}, linked has {found.shape}")
    hits = (right & found).sum(axis=-1)
    return np.stack([hits, found.sum(axis=-1), hits, right.sum(axis=-1)], axis=-1).astype(np.float64)


def f1_pair(gold: ArrayLike, linked: ArrayLike) -> FloatArray:
    """Return precision, recall and F1 of pair classification, over all sentences.

    Args:
        gold: whether candidate and pronoun belong together, shape (n, C).
        linked: whether the system links them, same shape.

    Returns:
        Shape (3,), in the order of ``SCORES``: each 0 to 1, lower is worse.

    Raises:
        UndefinedError: no pair is linked, or none belongs together.

    Example:
        One of three links is right, one of two right pairs is linked.

        >>> f1_pair([[True, False], [True, False]], [[True, True], [False, True]]).round(3).tolist()
        [0.333, 0.5, 0.4]
    """
    return scores_of(pair_counts(gold, linked).reshape(-1, 4).sum(axis=0))


def linked_profession(links: ArrayLike) -> NDArray[np.int64]:
    """Return which candidate profession is linked with the pronoun, for a system that clusters (orgad2022, A.4.2).

    Args:
        links: whether each candidate is in one cluster with the pronoun, shape (n, C).

    Returns:
        Shape (n,): the number of the only candidate that is linked, -1 where none or several are.

    >>> linked_profession([[False, True], [False, False], [True, True]]).tolist()
    [1, -1, -1]
    """
    linked = np.asarray(links, dtype=bool)
    return np.where(linked.sum(axis=-1) == 1, linked.argmax(axis=-1), -1)


def likelier_profession(scores: ArrayLike) -> NDArray[np.int64]:
    """Return which candidate profession has the higher score with the pronoun, for a system that scores pairs.

    Args:
        scores: score of each candidate, shape (n, C); -inf for one that the system did not consider.

    Returns:
        Shape (n,): the number of the candidate with the highest score, -1 where two share it.

    >>> likelier_profession([[-1.5, 2.0], [0.5, 0.5], [1.0, float("-inf")]]).tolist()
    [1, -1, 0]
    """
    table = np.asarray(scores, dtype=np.float64)
    if np.isnan(table).any():
        raise ValueError("a score is not a number")
    highest = table == table.max(axis=-1, keepdims=True)
    return linked_profession(highest)


def f1_gap(pro: ArrayLike, anti: ArrayLike) -> float:
    """Return the F1 on sentences for the stereotype minus that on sentences against it (Zhao et al. 2018; orgad2022).

    F1 is the mean over metrics, of each the F1 of all sentences together.

    Args:
        pro: counts of sentences for the stereotype, shape (n, metrics, 4): :func:`document_counts`, or :func:`pair_counts` as
            the only metric.
        anti: those of sentences against it, shape (m, metrics, 4).

    Returns:
        -1 to 1; away from 0 is worse, 0 is neutral.

    Raises:
        UndefinedError: a denominator is 0.

    Example:
        Both pairs right against one of two.

        >>> f1_gap([[[1, 1, 1, 1]], [[1, 1, 1, 1]]], [[[1, 1, 1, 1]], [[0, 1, 0, 1]]])
        0.5
    """
    sums = (np.asarray(counts, dtype=np.float64).sum(axis=0) for counts in (pro, anti))
    first, second = (float(conll_f1(total)) for total in sums)
    return first - second


def f1_gap_interval(pro: ArrayLike, anti: ArrayLike, over: str, level: float = 0.95) -> Interval | None:
    """Return the interval of :func:`f1_gap` for other pairs of sentences of the same kind.

    Two intervals, and the wider of them on each side. Student's t on the error by the infinitesimal jackknife (Efron 1982, The
    Jackknife, section 6.3), which is too short where few pairs differ, and all in one direction. Bootstrap-t (Davison and
    Hinkley 1997, section 5.2.2), each of 1,999 resamples of pairs with its own error, which is too short where few pairs
    differ, and in both directions. A pair is a sentence for the stereotype and the one against it. The random numbers are
    fixed, and the order of the pairs does not matter. Measured coverage stands in ``docs/coverage-coreference.md``.

    Args:
        pro: as in :func:`f1_gap`, shape (n, metrics, 4).
        anti: the partners, in the same order, same shape.
        over: what a pair is, for tables.
        level: confidence level.

    Returns:
        The interval, cut at -1 and 1, or ``None`` where all pairs say the same.

    Raises:
        UndefinedError: fewer than 60 pairs, or so few that differ that a bound of the resamples is infinite; a denominator is 0.
    """
    from scipy import stats

    counts = np.stack([np.asarray(pro), np.asarray(anti)], axis=1).astype(np.float64)
    found = _bootstrap_t(counts, np.array([1.0, -1.0]), over, level)
    if found is None:
        return None
    value, error, low, high = found
    reach = float(stats.t.ppf((1 + level) / 2, len(counts) - 1)) * error
    low, high = max(min(low, value - reach), -1.0), min(max(high, value + reach), 1.0)
    return Interval(low, high, level, over, "the wider of bootstrap-t and Student's t", len(counts))


def f1_interval(counts: ArrayLike, over: str, level: float = 0.95) -> Interval | None:
    """Return the interval of :func:`conll_f1` of sums: the bootstrap-t of :func:`f1_gap_interval` alone, cut at 0 and 1.

    Args:
        counts: of the things that are drawn, shape (n, metrics, 4).
        over: what is drawn, for tables.
        level: confidence level.

    Raises:
        UndefinedError: as :func:`f1_gap_interval`.
    """
    table = np.asarray(counts, dtype=np.float64)[:, None]
    found = _bootstrap_t(table, np.ones(1), over, level)
    if found is None:
        return None
    *_, low, high = found
    return Interval(max(low, 0.0), min(high, 1.0), level, over, "bootstrap-t", len(table))


def _bootstrap_t(
    counts: FloatArray, signs: FloatArray, over: str, level: float
) -> tuple[float, float, float, float] | None:
    """Return the signed sum of the sides' F1, its error and its bounds, from counts of shape (n, sides, metrics, 4).

    Equal rows are drawn together, as so many of one kind: a suite of hundreds of pairs has few kinds.
    """
    n = len(counts)
    if n < _LEAST_DRAWN:
        raise UndefinedError(f"{n} are too few for an interval, {_LEAST_DRAWN} are needed")
    conll_f1(counts.sum(axis=0))  # raises what is wrong with a denominator
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
    largest = np.sort(np.where(np.isnan(t), np.inf, t))[_RESAMPLES - cut]  # without a value: far away, on either side
    smallest = np.sort(np.where(np.isnan(t), -np.inf, t))[cut - 1]
    if not (np.isfinite(largest) and np.isfinite(smallest)):
        raise UndefinedError(f"too few of the {n} {over} differ for an interval")
    return float(value), float(error), float(value - largest * error), float(value - smallest * error)


def _signed_f1(rows: FloatArray, times: FloatArray, signs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the signed sum of the sides' F1 and its error by the infinitesimal jackknife, where rows occur so many times.

    Args:
        rows: counts, shape (kinds, sides, metrics, 4).
        times: how often each occurs, shape (resamples, kinds), each time the same number in all.
        signs: of the sides, shape (sides,).

    Returns:
        Each of shape (resamples,); NaN where a denominator is 0.
    """
    kinds, n = len(rows), times[0].sum()
    totals = (times @ rows.reshape(kinds, -1)).reshape(-1, *rows.shape[1:])
    hits, found, recalled, gold = np.moveaxis(totals, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = hits / found, recalled / gold
        both = np.where(precision + recall == 0, 1.0, precision + recall)
        weights = signs[:, None] / rows.shape[2]
        value = (2 * precision * recall / both * weights).sum(axis=(-1, -2))
        by_precision, by_recall = 2 * np.square(recall / both) / found, 2 * np.square(precision / both) / gold
        slopes = np.stack([by_precision, -by_precision * precision, by_recall, -by_recall * recall], axis=-1)
        influence = (slopes * weights[..., None]).reshape(len(times), -1) @ rows.reshape(kinds, -1).T
    centred = influence - (times * influence).sum(axis=1, keepdims=True) / n
    return value, np.sqrt((times * np.square(centred)).sum(axis=1) * n / (n - 1))


def exchanged_f1_gaps(pro: ArrayLike, anti: ArrayLike, repeats: int, seed: int) -> FloatArray:
    """Return :func:`f1_gap` after the partners of each pair were exchanged at random: shape (repeats,).

    NaN where a denominator is 0.

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
    """Return the mean F1 from totals, shape (..., metrics * 4) to (...); NaN where a denominator is 0."""
    counts = totals.reshape(*totals.shape[:-1], -1, 4)
    defined = np.asarray(counts[..., [1, 3]].min(axis=(-1, -2)) > 0)
    return np.where(defined, conll_f1(np.where(defined[..., None, None], counts, 1.0)), np.nan)


def f1_gap_of_sums(totals: FloatArray) -> FloatArray:
    """Return the gap of F1 from totals of both sides, shape (..., 2 * metrics * 4) to (...); NaN where a denominator is 0."""
    sides = totals.reshape(*totals.shape[:-1], 2, -1)
    f1 = f1_of_sums(sides)
    return np.asarray(f1[..., 0] - f1[..., 1])


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
