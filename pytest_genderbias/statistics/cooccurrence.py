"""Bias of words by their co-occurrence with gendered words, in a corpus or in generated text (bordia2019, section
3.3).

A pair of positions is counted when the later one arrives, so a document may arrive in pieces of any size.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.block_tables import HASHED_BLOCKS
from pytest_genderbias.statistics.inference.intervals import FloatArray, Interval, t_quantile

IndexArray = NDArray[np.intp]
_BLOCK = 1 << 19  #: Tokens that are counted at once.
_BATCH = 1 << 20  #: Pairs of positions that are looked up at once.
_NOTHING = 1e-300  #: A smaller weight counts as 0.


@dataclass(frozen=True)
class ContextWindow:
    """A window on both sides of a word, with weight ``decay`` to the power of the distance; 1 for all alike.

    Without ``reach``, the words on each side, only weights below 1e-300 are dropped (with 0.95, those beyond 13,467
    words). The fixed window of the paper has a decay of 1 and a reach of 10 (its 5 % cancel). With a decay below 1,
    ``reach=100`` is the window of the reference code.
    """

    decay: float = 0.95
    reach: int | None = None
    powers: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the parameters and compute the powers of the decay."""
        if not 0 < self.decay <= 1 or (self.decay == 1 and self.reach is None):
            raise ValueError(f"expected a decay between 0 and 1, or a window, got {self.decay} and {self.reach}")
        if self.reach is not None and self.reach < 1:
            raise ValueError(f"expected a window of one or more words on each side, got {self.reach}")
        last = int(log(_NOTHING) / log(self.decay)) if self.reach is None else self.reach
        object.__setattr__(self, "powers", np.append(self.decay ** np.arange(last + 1.0), 0.0))

    @property
    def history(self) -> int:
        """Number of earlier tokens that are kept; without ``reach``, twice the distance with a weight above 1e-300."""
        return 2 * len(self.powers) if self.reach is None else self.reach

    def count(self, ids: IndexArray, positions: IndexArray, start: int, ends: IndexArray, size: int) -> FloatArray:
        """Return the counts c(w, g) that new tokens add for one group.

        Args:
            ids: tokens, shape (N,).
            positions: of the tokens that are words of the group, ascending.
            start: pairs among so many first tokens are already counted.
            ends: the positions after the last token of each document, ascending.
            size: number of words.

        Returns:
            Shape (size,).
        """
        of_group = self._decayed if self.reach is None else self._windowed
        return of_group(ids, positions, start, ends, size) if len(positions) else np.zeros(size)

    def _windowed(self, ids: IndexArray, positions: IndexArray, start: int, ends: IndexArray, size: int) -> FloatArray:
        """Count the neighbours of each word of the group."""
        counts, near_by = np.zeros(size), np.arange(1, len(self.powers) - 1)
        offsets = np.concatenate([-near_by[::-1], near_by])
        first, last = np.append(0, ends), np.append(ends, len(ids))
        step = max(1, _BATCH // len(offsets))
        for at in range(0, len(positions), step):
            here = positions[at : at + step]
            document = np.searchsorted(ends, here, side="right")
            low = np.maximum(first[document], np.where(here < start, start, 0))
            near = here[:, None] + offsets
            inside = (near >= low[:, None]) & (near < last[document][:, None])
            weights = None if self.decay == 1 else np.broadcast_to(self.powers[np.abs(offsets)], near.shape)[inside]
            counts += np.bincount(ids[near[inside]], weights=weights, minlength=size)
        return counts

    def _decayed(self, ids: IndexArray, positions: IndexArray, start: int, ends: IndexArray, size: int) -> FloatArray:
        """Add, for each word, the decayed sums over the words of the group before and after its tokens."""
        n = len(ids)
        new = positions[np.searchsorted(positions, start) :]
        weight = _decayed_sums(n - 1 - new[::-1], n - ends[::-1], n, self.powers)[::-1]
        weight[start:] += _decayed_sums(positions, ends, n, self.powers)[start:]
        return np.asarray(np.bincount(ids, weights=weight, minlength=size), dtype=np.float64)


@dataclass(frozen=True)
class Cooccurrence:
    """Counts of a corpus: ``pairs`` is c(w, g), shape (V, G); ``words`` is c(w), shape (V,); ``groups`` is c(g), shape
    (G,).

    c(w) and c(g) are unweighted numbers of occurrences, of a word and of all words of a group.
    """

    pairs: FloatArray
    words: FloatArray
    groups: FloatArray


class CooccurrenceCounter:
    """Counter of c(w, g): the sum of weights over the pairs of an occurrence of w and one of a word of g in one
    document.

    The weight depends only on the distance d >= 1; a position is not paired with itself. Stop words, words of a group
    and ``<unk>`` are also counted; the users of c(w, g) leave them out. For a vocabulary of a given size, memory does
    not grow with the length of the text or of a document.

    Args:
        labels: group of each word, 1 to G, or 0 for none, shape (V,). Words beyond V have no group: the vocabulary may
            grow.
        context: the window, with the weight of each distance.
        n_groups: G; by default the largest label.

    Example:
        she(0) sings(1) he(2), a window of one word: "sings" occurs once next to each.

        >>> counter = CooccurrenceCounter([1, 0, 2], ContextWindow(1.0, reach=1))
        >>> counter.feed([0, 1, 2], ends=[3])
        >>> counter.result().pairs[1]
        array([1., 1.])
    """

    def __init__(self, labels: ArrayLike, context: ContextWindow, n_groups: int | None = None) -> None:
        groups = np.asarray(labels, dtype=np.int8)
        self.n_groups = int(groups.max(initial=0)) if n_groups is None else n_groups
        if groups.min(initial=0) < 0 or groups.max(initial=0) > self.n_groups:
            raise ValueError(f"expected labels from 0 to {self.n_groups}, got {groups.min()} to {groups.max()}")
        self.context = context
        self._labels = np.append(groups, np.int8(0))  # the last one is the label of all words beyond V
        self._pairs = np.zeros((len(groups), self.n_groups))
        self._words = np.zeros(len(groups))
        self._history: IndexArray = np.zeros(0, dtype=np.intp)
        self._pieces: list[IndexArray] = []
        self._ends: list[IndexArray] = []
        self._waiting = 0

    def feed(self, ids: ArrayLike, ends: ArrayLike = ()) -> None:
        """Add the next tokens.

        Args:
            ids: word ids, shape (n,).
            ends: the positions after the last token of each document, ascending, from 0 to n. The last document
                continues with the next tokens unless it ends at n.
        """
        tokens, stops = np.asarray(ids, dtype=np.intp), np.asarray(ends, dtype=np.intp)
        for at in range(0, max(len(tokens), 1), _BLOCK):
            piece = tokens[at : at + _BLOCK]
            here = stops[(stops >= at) & (stops <= at + len(piece))]
            self._ends.append(here - at + self._waiting)
            self._pieces.append(piece)
            self._waiting += len(piece)
            if self._waiting >= _BLOCK:
                self._count()

    def result(self) -> Cooccurrence:
        """Return the counts of all tokens so far."""
        self._count()
        labels = self._label(np.arange(len(self._words)))
        groups = np.bincount(labels, weights=self._words, minlength=self.n_groups + 1)[1:]
        return Cooccurrence(self._pairs.copy(), self._words.copy(), groups.astype(np.float64))

    def _label(self, ids: IndexArray) -> NDArray[np.int8]:
        return self._labels.take(ids, mode="clip")

    def _count(self) -> None:
        ids = np.concatenate([self._history, *self._pieces])
        start = len(self._history)
        ends = np.unique(np.concatenate([np.zeros(0, dtype=np.intp), *self._ends])) + start
        new = ids[start:]
        size = max(len(self._words), int(new.max(initial=-1)) + 1)
        if more := size - len(self._words):
            self._words = np.pad(self._words, (0, more))
            self._pairs = np.pad(self._pairs, ((0, more), (0, 0)))
        self._words += np.bincount(new, minlength=size)
        groups = self._label(ids)
        gendered = np.flatnonzero(groups)
        group_of = groups[gendered]
        for group in range(self.n_groups):
            positions = gendered[group_of == group + 1]
            self._pairs[:, group] += self.context.count(ids, positions, start, ends, size)
        open_from = int(ends[-1]) if len(ends) else 0
        self._history = ids[max(open_from, len(ids) - self.context.history) :].copy()
        self._pieces, self._ends, self._waiting = [], [], 0


def _decayed_sums(positions: IndexArray, ends: IndexArray, n: int, powers: FloatArray) -> FloatArray:
    """Return for each of ``n`` tokens the sum of r^d over the earlier positions in its document, with d the distance.

    This is the recursive filter y[i] = r (y[i - 1] + x[i - 1]), restarted at each document. It is computed at the
    positions only and extended to the tokens between them, which is faster than a step per token and avoids denormal
    numbers.
    """
    breaks = np.append(-1, ends - 1)
    where = np.searchsorted(positions, breaks, side="right")  # a document ends after its last token
    events = np.insert(positions, where, breaks)
    is_position = np.insert(np.ones(len(positions)), where, 0.0)
    gaps = np.diff(events, append=n - 1)
    fade = np.append(0.0, powers.take(gaps[:-1], mode="clip")) * is_position
    state = _recursive_sums(is_position, fade)
    distances = np.arange(n) - np.repeat(events, gaps)
    return np.repeat(state, gaps) * powers.take(distances, mode="clip")


def _recursive_sums(added: FloatArray, fade: FloatArray) -> FloatArray:
    """Return y with y[j] = fade[j] y[j - 1] + added[j], by doubling; ``fade[0]`` is 0.

    >>> _recursive_sums(np.array([1.0, 1.0, 1.0]), np.array([0.0, 0.5, 0.5]))
    array([1.  , 1.5 , 1.75])
    """
    y, step = added.copy(), 1
    while step < len(y) and fade.any():
        y[step:] += fade[step:] * y[:-step]
        fade = np.append(fade[:step], fade[step:] * fade[:-step])
        step *= 2
    return y


_FLAT = 1e-14  #: A variance below this share of the mean square is rounding error.


def flipped_biases(
    pairs: ArrayLike, groups: ArrayLike, scorable: ArrayLike, flips: ArrayLike, *, by_group_share: bool = False
) -> FloatArray:
    """Return :func:`bias_scores` after the groups of some pairs of gendered words are exchanged, for R choices of pairs
    at once.

    Args:
        pairs: c(w, g) for each of P pairs of gendered words, by group, shape (V, P, 2).
        groups: c(g) of each pair, by group, shape (P, 2).
        scorable: as in :func:`bias_scores`, shape (V,).
        flips: whether a pair is exchanged, booleans, shape (R, P).
        by_group_share: as in :func:`bias_scores`.

    Returns:
        Shape (R, V), NaN for a word without a score.

    Example:
        As in :func:`bias_scores`, 3 to 1 and 1 to 3; exchanging the only pair changes the signs.

        >>> flipped_biases([[[3.0, 1.0]], [[1.0, 3.0]]], [[2, 2]], [True, True], [[False], [True]]).round(3)
        array([[ 1.099, -1.099],
               [-1.099,  1.099]])
    """
    c, by_group = np.asarray(pairs, dtype=np.float64), np.asarray(groups, dtype=np.float64)
    turned = np.asarray(flips, dtype=np.bool_)
    first = np.stack([~turned, turned], axis=2).reshape(len(turned), -1).astype(np.float64)
    sides = np.stack([first, 1 - first])  # whether each of the 2 P columns belongs to a group: (2, R, 2 P)
    counts = sides @ c.reshape(len(c), -1).T
    scored = np.asarray(scorable, dtype=np.bool_) & (counts > 0).all(axis=0)
    totals = np.where(scored, counts, 0.0).sum(axis=-1, keepdims=True)
    shares = (sides @ by_group.ravel())[..., None] if by_group_share else np.ones((2, 1, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(counts) - np.log(totals) - np.log(shares)
        bias = logs[0] - logs[1]
    return np.where(scored & np.isfinite(bias), bias, np.nan)


def word_given_group(pairs: ArrayLike) -> FloatArray:
    """Return P(w | g) = c(w, g) / sum_i c(w_i, g) (bordia2019, section 3.3.1, without the second division that the
    paper prints).

    Args:
        pairs: c(w, g), the weighted co-occurrences of the compared words w_i, shape (W, G).

    Returns:
        Shape (W, G), 0 to 1; each column sums to 1.

    Raises:
        UndefinedError: a group does not co-occur with any of the words.

    Example:
        6 of the 8 co-occurrences of the group are with the first word.

        >>> word_given_group([[6.0], [2.0]])
        array([[0.75],
               [0.25]])
    """
    c = np.asarray(pairs, dtype=np.float64)
    totals = c.sum(axis=0)
    if not totals.all():
        raise UndefinedError("no word co-occurs with the words of one of the groups")
    return np.asarray(c / totals, dtype=np.float64)


def bias_scores(
    pairs: ArrayLike, groups: ArrayLike, scorable: ArrayLike, *, by_group_share: bool = False
) -> tuple[IndexArray, FloatArray]:
    """Return bias(w) = ln( P(w | first group) / P(w | second group) ) of the scored words (bordia2019, section 3.3.1).

    The scored words are the ``scorable`` words that co-occur with both groups; all sums run over these.

    Args:
        pairs: c(w, g) of two groups, shape (V, 2).
        groups: c(g), the number of occurrences of words of each group, shape (2,).
        scorable: whether a word can be scored (not a stop word, a word of a group or ``<unk>``), booleans, shape (V,).
        by_group_share: divide P(w | g) by c(g) / sum_i c(w_i) as the paper prints it. This adds the constant
            ln( c(second) / c(first) ) to every score, which is then the score of a word without bias. The tables of the
            paper were not computed with it.

    Returns:
        Ids of the scored words, ascending, and their scores in nats, both of shape (n,). Positive = the first group; 0
        is neutral (see ``by_group_share``); exchanging the groups changes the sign.

    Raises:
        UndefinedError: a group does not occur, or no word co-occurs with both.

    Example:
        The first word has 3 of 4 co-occurrences with the first group, and 1 of 4 with the second.

        >>> ids, bias = bias_scores([[3.0, 1.0], [1.0, 3.0], [5.0, 0.0]], [2, 4], [True, True, True])
        >>> ids, bias.round(3)  # ln 3 = 1.099; the third word does not co-occur with the second group
        (array([0, 1]), array([ 1.099, -1.099]))

        With the share of the groups each is higher by ln(4 / 2) = 0.693.

        >>> bias_scores([[3.0, 1.0], [1.0, 3.0]], [2, 4], [True, True], by_group_share=True)[1].round(3)
        array([ 1.792, -0.405])
    """
    c, by_group = np.asarray(pairs, dtype=np.float64), np.asarray(groups, dtype=np.float64)
    if not by_group.all():
        raise UndefinedError("the corpus has no word of one of the groups")
    ids = np.flatnonzero(np.asarray(scorable, dtype=np.bool_) & (c > 0).all(axis=1))
    if not len(ids):
        raise UndefinedError("no word co-occurs with words of both groups")
    first, second = np.log(word_given_group(c[ids])).T
    shift = np.log(by_group[1]) - np.log(by_group[0]) if by_group_share else 0.0
    return ids, first - second + shift


def mean_absolute_bias(bias: ArrayLike) -> float:
    """Return mu, the mean of abs(bias(w)) over words: 0 or more, in nats, higher is worse, 0 is neutral (section
    3.3.2).

    Raises:
        UndefinedError: no word is scored.

    >>> mean_absolute_bias([1.5, -0.5])
    1.0
    """
    scores = np.asarray(bias, dtype=np.float64)
    if not len(scores):
        raise UndefinedError("no word is scored")
    return float(np.mean(np.abs(scores)))


def bias_deviation(bias: ArrayLike) -> float:
    """Return sigma, the sample standard deviation (n - 1) of bias(w) over words: 0 or more, in nats, higher is worse, 0
    is neutral.

    A constant added to every score does not change it (section 3.3.2).

    Raises:
        UndefinedError: fewer than two words are scored.

    >>> bias_deviation([1.0, -1.0, 0.0])
    1.0
    """
    scores = np.asarray(bias, dtype=np.float64)
    if len(scores) < 2:
        raise UndefinedError("fewer than two words are scored")
    return float(np.std(scores, ddof=1))


def in_both(
    training_words: ArrayLike, training: ArrayLike, generated_words: ArrayLike, generated: ArrayLike
) -> tuple[NDArray[np.generic], FloatArray, FloatArray]:
    """Return the words scored in both texts, sorted, with their bias in the training text and in the generated text.

    Words are texts or ids of one vocabulary, without duplicates.

    >>> in_both(["a", "b", "c"], [0.1, 0.2, 0.3], ["c", "b"], [3.0, 2.0])[1:]
    (array([0.2, 0.3]), array([2., 3.]))
    """
    words, x_at, y_at = np.intersect1d(training_words, generated_words, assume_unique=True, return_indices=True)
    return words, np.asarray(training, dtype=np.float64)[x_at], np.asarray(generated, dtype=np.float64)[y_at]


def without_outliers(training: ArrayLike, generated: ArrayLike) -> NDArray[np.bool_]:
    """Return which words are within 1.5 interquartile ranges of the quartiles in both variables, shape (n,).

    Quartiles are interpolated linearly, as by default in numpy; a score at the limit is not an outlier.

    >>> without_outliers([0.0, 1.0, 2.0, 3.0, 100.0], [0.0, 0.0, 0.0, 0.0, 0.0])
    array([ True,  True,  True,  True, False])
    """
    inside = np.ones(len(np.asarray(training)), dtype=np.bool_)
    for values in (np.asarray(training, dtype=np.float64), np.asarray(generated, dtype=np.float64)):
        if len(values):
            low, high = np.quantile(values, (0.25, 0.75))
            fence = 1.5 * (high - low)
            inside &= (values >= low - fence) & (values <= high + fence)
    return inside


def bias_slope(training: ArrayLike, generated: ArrayLike, *, outliers: bool = False) -> float:
    """Return beta, the least-squares slope of bias in the generated text on bias in the training text (section 3.3.2).

    Args:
        training: bias of each word in the training text, shape (n,).
        generated: bias of the same words in the generated text, shape (n,).
        outliers: keep the outliers of :func:`without_outliers`.

    Returns:
        0 is neutral, away from it is worse. 1: the bias is reproduced; above 1: amplified; below 0: inverted.

    Raises:
        UndefinedError: no word is scored in both texts, or all remaining words have the same bias in the training text.

    >>> bias_slope([-1.0, 0.0, 1.0], [-0.5, 0.0, 0.5])
    0.5
    """
    x, y = _centred(training, generated, outliers)
    return float(x @ y / (x @ x))


def bias_slope_interval(
    training: ArrayLike, generated: ArrayLike, *, outliers: bool = False, level: float = 0.95
) -> Interval | None:
    """Return the interval of :func:`bias_slope` for other words of the same texts, assumed to be independent.

    It uses the heteroscedasticity-consistent standard error HC3 (MacKinnon and White 1985), since the scores of rare
    words vary more, and Student's t with n - 2 degrees of freedom. It does not include the variation between training
    texts.

    Returns:
        The interval, or None if fewer than three words are left, or one word alone determines the slope.

    Raises:
        UndefinedError: as :func:`bias_slope`.
    """
    x, y = _centred(training, generated, outliers)
    n, spread = len(x), x @ x
    leverage = 1 / n + np.square(x) / spread
    if n < 3 or leverage.max() > 1 - 1e-9:
        return None
    slope = float(x @ y / spread)
    residuals = (y - slope * x) / (1 - leverage)
    error = float(np.sqrt(np.square(x * residuals).sum()) / spread)
    wide = t_quantile((1 + level) / 2, n - 2) * error
    return Interval(slope - wide, slope + wide, level, "words", "HC3 standard error, Student's t")


def sums_by_block(blocks: ArrayLike, *columns: ArrayLike) -> FloatArray:
    """Return the number of words and the sum of each column, for each block of words: shape (100, 1 + columns).

    Args:
        blocks: block of each word, as from :func:`~pytest_genderbias.statistics.block_tables.block_of`, shape (n,).
        *columns: one number per word, shape (n,) each.

    >>> sums_by_block([0, 0, 2], [1.0, 2.0, 5.0])[:3].tolist()
    [[2.0, 3.0], [0.0, 0.0], [1.0, 5.0]]
    """
    block = np.asarray(blocks, dtype=np.int64)
    weights = [np.ones(len(block)), *(np.asarray(c, dtype=np.float64) for c in columns)]
    return np.stack([np.bincount(block, weights=w, minlength=HASHED_BLOCKS) for w in weights], axis=1)


def deviation_of_sums(totals: FloatArray) -> FloatArray:
    """Return the standard deviation (ddof 1) of totals of 1, x and x squared: shape (..., 3) to (...); NaN for fewer
    than two.

    >>> float(deviation_of_sums(np.array([3.0, 0.0, 2.0])))
    1.0
    """
    n, total, square = np.moveaxis(totals, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.maximum(square - total**2 / n, 0.0) / (n - 1)
        return np.where(n > 1, np.sqrt(variance), np.nan)


def slope_of_block_sums(totals: FloatArray) -> FloatArray:
    """Return the slope of y on x of totals of 1, x, y, x squared and x y: shape (..., 5) to (...); NaN where x does not
    vary.

    >>> float(slope_of_block_sums(np.array([3.0, 0.0, 0.0, 2.0, 1.0])))
    0.5
    """
    n, x, y, xx, xy = np.moveaxis(totals, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = xx - x * x / n
        return np.where((n > 0) & (spread > _FLAT * xx), (xy - x * y / n) / spread, np.nan)


def _centred(training: ArrayLike, generated: ArrayLike, outliers: bool) -> tuple[FloatArray, FloatArray]:
    """Return the biases in both texts less their means, without outliers unless these are kept."""
    x, y = np.asarray(training, dtype=np.float64), np.asarray(generated, dtype=np.float64)
    if not len(x):
        raise UndefinedError("no word is scored in both texts")
    inside = np.ones(len(x), dtype=np.bool_) if outliers else without_outliers(x, y)
    if not inside.any():
        raise UndefinedError("every word scored in both texts is an outlier")
    x, y = x[inside], y[inside]
    if np.ptp(x) <= 1e-12 * max(1.0, float(np.abs(x).max())):
        raise UndefinedError("all words scored in both texts have the same bias in the training text")
    return x - x.mean(), y - y.mean()
