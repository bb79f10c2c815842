"""WEAT and CEAT: association of target words with attribute words in word vectors (Caliskan et al. 2017, Guo and
Caliskan 2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import comb
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.bias_subspace import FloatArray, unit_vectors
from pytest_genderbias.statistics.inference.intervals import in_blocks

_TIE = 1e-12  #: Associations, -2 to 2, are equal if they differ by less (per word): the rest is rounding error.
_CHUNK = 1 << 18  #: Numbers in memory while contexts or partitions are drawn: 2 MiB, which fit into a cache.

Contexts: TypeAlias = Sequence[ArrayLike]  #: for each word an array (contexts, dim), with any number of contexts

# Words with one vector each


def association(words: ArrayLike, a: ArrayLike, b: ArrayLike) -> FloatArray:
    """Return s(w) = mean of cos(w, A) - mean of cos(w, B) for each word (Caliskan et al. 2017).

    The mean of cosines is computed as the dot product with the mean of the normalised vectors.

    Args:
        words: target vectors, shape (n, dim).
        a: vectors of the attribute words A, shape (n_a, dim).
        b: vectors of the attribute words B, shape (n_b, dim).

    Returns:
        Shape (n,), -2 to 2; positive = nearer to A, 0 is neutral. The lengths of the vectors have no influence.

    Raises:
        UndefinedError: a vector is zero or not finite, or a set of attribute words is empty.

    Example:
        (3, 4) has cosine 0.6 with the first axis and 0.8 with the second.

        >>> association([[3.0, 4.0]], [[1.0, 0.0]], [[0.0, 2.0]]).round(6)
        array([-0.2])
    """
    if not (len(np.asarray(a)) and len(np.asarray(b))):
        raise UndefinedError("a set of attribute words is empty")
    direction = unit_vectors(a).mean(axis=0) - unit_vectors(b).mean(axis=0)
    return np.asarray(unit_vectors(words) @ direction)


def effect_size(x: ArrayLike, y: ArrayLike) -> float:
    """Return the effect size of WEAT, (mean of s over X - mean of s over Y) / standard deviation of s over X and Y
    (ddof 1).

    Args:
        x: associations s of the target words X, shape (n_x,).
        y: associations s of the target words Y, shape (n_y,).

    Returns:
        In standard deviations; positive = X nearer to A and Y nearer to B. 0 is neutral, away from it is worse. With n
        words in total, its absolute value is at most :math:`\\sqrt{n (n - 1) / (n_x n_y)}`, below 2 for sets of equal
        size.

    Raises:
        UndefinedError: X or Y is empty, or all words have the same association.

    Example:
        Means .3 and .1; deviations from .2 are .2 .0 .0 -.2, so the variance is .08 / 3 and the effect .2 / .1633.

        >>> round(effect_size([.4, .2], [.2, .0]), 4)
        1.2247
    """
    effects, _ = _effects(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
    return float(effects)


def _effects(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return effect sizes and squared deviations over the last axis."""
    if not (x.shape[-1] and y.shape[-1]):
        raise UndefinedError("a set of target words is empty")
    deviation = np.concatenate([x, y], axis=-1).std(axis=-1, ddof=1)
    if np.any(deviation <= _TIE):
        raise UndefinedError("all target words have the same association")
    effects = (x.mean(axis=-1) - y.mean(axis=-1)) / deviation
    return np.asarray(effects), np.asarray(np.square(deviation))


def effect_size_of_sums(totals: FloatArray) -> FloatArray:
    """Return :func:`effect_size` of totals over target words: of X their number and s, of Y the same, and s squared.

    Args:
        totals: shape (..., 5).

    Returns:
        Shape (...), NaN where :func:`effect_size` is undefined.

    >>> round(float(effect_size_of_sums(np.array([2.0, 0.6, 2.0, 0.2, 0.24]))), 4)
    1.2247
    """
    n_x, s_x, n_y, s_y, square = np.moveaxis(totals, -1, 0)
    n = n_x + n_y
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = square - np.square(s_x + s_y) / n
        deviation = np.sqrt(np.where(rest > _TIE * square, rest, np.nan) / (n - 1))
        effect = (s_x / n_x - s_y / n_y) / deviation
    return np.where(np.isfinite(effect), effect, np.nan)


def shuffled_effect_sizes(x: ArrayLike, y: ArrayLike, repeats: int, seed: int) -> FloatArray:
    """Return :func:`effect_size` after random shuffles of the words over the two sets, which keep their sizes.

    Args:
        x: associations s of the target words X, shape (n_x,).
        y: associations s of the target words Y, shape (n_y,).
        repeats: number of shuffles.
        seed: seed of the shuffles.

    Returns:
        Shape (repeats,), in standard deviations; about 0 on average.

    Raises:
        UndefinedError: as :func:`effect_size`.

    Example:
        One word each: 1 and 0, or 0 and 1. The standard deviation is the square root of 1/2.

        >>> set(shuffled_effect_sizes([1.0], [0.0], 50, seed=0).round(3).tolist()) == {1.414, -1.414}
        True
    """
    first, second = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    _effects(first, second)
    weights = _shuffled_weights(len(first), len(second), repeats, seed)
    values = np.concatenate([first, second])
    return np.asarray(weights @ values / values.std(ddof=1), dtype=np.float64)


def _shuffled_weights(n_x: int, n_y: int, repeats: int, seed: int) -> FloatArray:
    """Return shuffled weights of the words, 1 / n_x in X and -1 / n_y in Y, shape (repeats, n_x + n_y)."""
    weights = np.tile(np.repeat([1 / n_x, -1 / n_y], [n_x, n_y]), (repeats, 1))
    return np.asarray(np.random.default_rng(seed).permuted(weights, axis=1, out=weights))


def permutation_test(
    x: ArrayLike, y: ArrayLike, *, two_sided: bool = False, limit: int = 1 << 20, draws: int = 99_999, seed: int = 0
) -> float:
    """Return the p value of "X has no larger associations than Y", over all partitions of the words into sets of the
    same sizes.

    The statistic is sum of s over X - sum of s over Y. p is the share of partitions in which it is at least as large as
    observed, including the observed one (Caliskan et al. 2017). ``two_sided`` compares the absolute difference of the
    means, which is an equivalent statistic for sets of equal size.

    The exact count does not enumerate the partitions. It splits the words into two halves, sorts the sums of all
    subsets of each half, and counts the pairs of subsets that reach the observed sum (Horowitz and Sahni 1974). Beyond
    ``limit``, partitions are drawn at random, and p = (1 + hits) / (1 + draws).

    Args:
        x: associations s of the target words X, shape (n_x,).
        y: associations s of the target words Y, shape (n_y,).
        two_sided: count large differences of either sign.
        limit: the largest number of subsets of half of the words, each of at most min(n_x, n_y) words, for an exact
            count. The default allows any 40 words (up to 1.4e11 partitions), in less than a second and 30 MB.
        draws: number of random partitions beyond the limit.
        seed: seed of the random partitions.

    Returns:
        p, above 0 and at most 1; small = the sets differ. 1 if all associations are equal.

    Raises:
        UndefinedError: X or Y is empty.

    Example:
        Of the six partitions of four words, one reaches .9 + .5, and three reach .9 + .1.

        >>> permutation_test([.9, .5], [.4, .1])
        0.16666666666666666
        >>> permutation_test([.9, .1], [.4, .5])
        0.5
    """
    first, second = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if not (len(first) and len(second)):
        raise UndefinedError("a set of target words is empty")
    if len(second) < len(first):  # the smaller set has fewer subsets, and its sum determines the other
        first, second = -second, -first
    size, words = len(first), len(first) + len(second)
    values = np.concatenate([first, second])
    values = values - values.mean()
    observed = float(values[:size].sum())
    threshold = (abs(observed) if two_sided else observed) - _TIE * words
    if sum(comb((words + 1) // 2, k) for k in range(size + 1)) <= limit:
        hits = _subsets_at_least(values, size, threshold)
        if two_sided:
            hits += _subsets_at_least(-values, size, threshold)
        return min(1.0, hits / comb(words, size))
    hits = _drawn_at_least(values, size, threshold, two_sided, draws, np.random.default_rng(seed))
    return (1 + hits) / (1 + draws)


def _subsets_at_least(values: FloatArray, size: int, threshold: float) -> int:
    """Count the subsets of ``size`` values whose sum is at least ``threshold``."""
    half = len(values) // 2
    left, right = _subset_sums(values[:half], size), _subset_sums(values[half:], size)
    below = sum(int(np.searchsorted(right[size - k], threshold - sums).sum()) for k, sums in enumerate(left))
    return comb(len(values), size) - below


def _subset_sums(values: FloatArray, most: int) -> list[FloatArray]:
    """Return the sorted sums of all subsets of the values, one array for each size from 0 to ``most``."""
    sums = [np.zeros(1), *(np.zeros(0) for _ in range(most))]
    for value in values:
        sums[1:] = [np.concatenate([sums[k], sums[k - 1] + value]) for k in range(1, most + 1)]
    return [np.sort(of_size) for of_size in sums]


def _drawn_at_least(
    values: FloatArray, size: int, threshold: float, two_sided: bool, draws: int, rng: np.random.Generator
) -> int:
    """Count the random subsets of ``size`` values, among ``draws``, whose (absolute) sum is at least ``threshold``."""
    hits = 0
    for size_of_block in in_blocks(draws, len(values), _CHUNK):
        tiled = np.tile(values, (size_of_block, 1))
        sums = rng.permuted(tiled, axis=1)[:, :size].sum(axis=1)
        hits += int(np.count_nonzero((np.abs(sums) if two_sided else sums) >= threshold))
    return hits


# Words with many contextual vectors


@dataclass(frozen=True)
class CombinedEffect:
    """A random-effects mean: effect, standard error, variance between effects (``tau2``), z and p value.

    ``effect_sizes``, (n,): what was combined; for CEAT the effect size of each draw. ``associations``, for CEAT only,
    (n_x + n_y,): the mean of s over the draws for each target word, first X, then Y.
    """

    effect: float
    standard_error: float
    tau2: float
    z: float
    p_value: float
    effect_sizes: FloatArray
    associations: FloatArray = field(default_factory=lambda: np.zeros(0))


def combine_effects(effects: ArrayLike, variances: ArrayLike, *, two_sided: bool = True) -> CombinedEffect:
    """Combine effects under the random-effects model of DerSimonian and Laird (1986).

    With weights :math:`w_i = 1 / V_i` and their weighted mean :math:`m`, :math:`Q = \\sum w_i (e_i - m)^2`,

    .. math:: \\tau^2 = \\max\\left(0, \\frac{Q - (n - 1)}{\\sum w_i - \\sum w_i^2 / \\sum w_i}\\right), \\quad
        v_i = \\frac{1}{V_i + \\tau^2}, \\quad e = \\frac{\\sum v_i e_i}{\\sum v_i}, \\quad SE = \\sqrt{1 / \\sum v_i}

    Args:
        effects: shape (n,).
        variances: the variance of each effect, shape (n,), all above 0.
        two_sided: whether the test is two-sided; a one-sided test is against effects of 0 or less.

    Returns:
        The combined effect, in units of the effects: 0 is neutral, away from it is worse. z = e / SE, p from the normal
        distribution.

    Raises:
        UndefinedError: fewer than two effects, or a variance that is not finite and above 0.

    Example:
        Weights 1 and 1, m = 2, Q = 2, tau2 = (2 - 1) / (2 - 1) = 1, so each variance is 2 and SE = sqrt(2 / 2).

        >>> combined = combine_effects([1.0, 3.0], [1.0, 1.0])
        >>> combined.effect, combined.tau2, round(combined.standard_error, 6), round(combined.p_value, 4)
        (2.0, 1.0, 1.0, 0.0455)
    """
    e, within = np.asarray(effects, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    if len(e) < 2:
        raise UndefinedError("fewer than two effects cannot be combined")
    if not (np.isfinite(e).all() and np.isfinite(within).all() and (within > 0).all()):
        raise UndefinedError("an effect is not finite, or its variance is not above 0")
    effect, error, tau2 = map(float, _combined(e, within))
    z = effect / error
    p = 2.0 * special.ndtr(-abs(z)) if two_sided else special.ndtr(-z)
    return CombinedEffect(effect, error, tau2, z, float(p), e)


def _combined(effects: FloatArray, within: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return effect, standard error and tau2 over the last axis of the effects, (..., n), with common variances,
    (n,).
    """
    weights = 1.0 / within
    total = weights.sum()
    q = np.square(effects - (effects @ weights / total)[..., None]) @ weights
    tau2 = np.maximum(0.0, (q - (len(weights) - 1)) / (total - weights @ weights / total))
    v = 1.0 / (within + tau2[..., None])
    sums = v.sum(axis=-1)
    return (v * effects).sum(axis=-1) / sums, 1.0 / np.sqrt(sums), tau2


def ceat(
    x: Contexts, y: Contexts, a: Contexts, b: Contexts, *, draws: int = 10_000, seed: int = 0, two_sided: bool = True
) -> CombinedEffect:
    """Return the combined effect size of CEAT (Guo and Caliskan 2021).

    Each draw takes one random context of each word and computes the effect size of WEAT; its variance is the squared
    standard deviation of s over X and Y (ddof 1). :func:`combine_effects` combines the draws.

    The standard error is that of a mean over draws and decreases with their number, so p is small for almost any words:
    for 1,000 models with unrelated words (8 in each set, 20 contexts, 1,000 draws), 92 % had p < .05. It is reported
    for comparison with the paper at the same number of draws. To test whether the *words* differ by more than chance,
    apply :func:`permutation_test` to their ``associations``.

    Args:
        x: contextual vectors of the target words X.
        y: the same for the target words Y.
        a: the same for the attribute words A.
        b: the same for the attribute words B.
        draws: number of draws N; 10,000 in the paper.
        seed: seed of the draws.
        two_sided: two-sided p value, as in the paper; that of the reference code is one-sided, against effects of 0 or
            less.

    Returns:
        The combined effect size, in standard deviations: positive = X nearer to A and Y nearer to B; 0 is neutral, away
            from it
        is worse; bounded as :func:`effect_size`. Apart from normalising the contexts, time and memory do not depend on
        their number.

    Raises:
        UndefinedError: a set without words, a word without contexts, a zero vector, fewer than two draws, or a draw in
            which all target words have the same association.

    Example:
        With one context each, all draws are equal: s is 1 for X and -1 for Y, and the standard deviation is sqrt(2).

        >>> result = ceat([[[1.0, 0.0]]], [[[0.0, 1.0]]], [[[2.0, 0.0]]], [[[0.0, 3.0]]], draws=8)
        >>> round(result.effect, 4), round(result.standard_error, 4), result.tau2
        (1.4142, 0.5, 0.0)
    """
    s = _drawn_associations(x, y, a, b, draws, seed)
    effects, variances = _effects(s[:, : len(x)], s[:, len(x) :])
    combined = combine_effects(effects, variances, two_sided=two_sided)
    return replace(combined, associations=s.mean(axis=0))


def shuffled_combined_effects(
    x: Contexts, y: Contexts, a: Contexts, b: Contexts, repeats: int, *, draws: int = 10_000, seed: int = 0
) -> FloatArray:
    """Return the combined effect size of :func:`ceat` after random shuffles of the target words over X and Y.

    The draws of contexts are those of :func:`ceat` with the same seed; a word keeps its contexts.

    Args:
        x, y, a, b: as in :func:`ceat`.
        repeats: number of shuffles.
        draws: as in :func:`ceat`.
        seed: seed of the draws and of the shuffles.

    Returns:
        Shape (repeats,), in standard deviations; about 0 on average.

    Raises:
        UndefinedError: as :func:`ceat`.

    Example:
        One context each: the two words stay in their sets or are exchanged.

        >>> sets = [[[1.0, 0.0]]], [[[0.0, 1.0]]], [[[2.0, 0.0]]], [[[0.0, 3.0]]]
        >>> effects = shuffled_combined_effects(*sets, 50, draws=8)
        >>> set(effects.round(4).tolist()) == {1.4142, -1.4142}
        True
    """
    s = _drawn_associations(x, y, a, b, draws, seed)
    _, variances = _effects(s[:, : len(x)], s[:, len(x) :])
    weights, rows = _shuffled_weights(len(x), len(y), repeats, seed), max(1, _CHUNK // draws)
    deviation = np.sqrt(variances)
    parts = (weights[at : at + rows] @ s.T / deviation for at in range(0, repeats, rows))
    return np.concatenate([_combined(effects, variances)[0] for effects in parts])


def _drawn_associations(x: Contexts, y: Contexts, a: Contexts, b: Contexts, draws: int, seed: int) -> FloatArray:
    """Return s of each target word in each draw, shape (draws, n_x + n_y)."""
    if not (x and y and a and b):
        raise UndefinedError("a set of words is empty")
    rng = np.random.default_rng(seed)
    targets, drawn_targets = _draw_contexts([*x, *y], draws, rng)
    attributes, drawn_attributes = _draw_contexts([*a, *b], draws, rng)
    signs = np.repeat([1 / len(a), -1 / len(b)], [len(a), len(b)])
    s = np.empty((draws, len(x) + len(y)))
    rows = max(1, _CHUNK // ((drawn_targets.shape[1] + len(signs)) * targets.shape[1]))
    for start in range(0, draws, rows):
        chunk = slice(start, start + rows)
        direction = signs @ attributes[drawn_attributes[chunk]]  # mean of A - mean of B, as in association()
        s[chunk] = (targets[drawn_targets[chunk]] @ direction[..., None])[..., 0]
    return s


def _draw_contexts(words: Contexts, draws: int, rng: np.random.Generator) -> tuple[FloatArray, NDArray[np.int64]]:
    """Return the normalised contexts of all words, stacked, and the drawn row of each word, shape (draws, words)."""
    contexts = [np.asarray(word, dtype=np.float64) for word in words]
    counts = np.asarray([len(word) for word in contexts])
    if not counts.all():
        raise UndefinedError("a word has no context")
    drawn = rng.integers(counts, size=(draws, len(counts)))
    return unit_vectors(np.concatenate(contexts)), drawn + np.cumsum(counts) - counts
