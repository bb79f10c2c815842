"""Co-occurrence counts c(w, g) of words with the words of each group, from a stream of word ids (bordia2019, section
3.3).

A pair of positions is counted when the later one arrives, so a document may arrive in pieces of any size.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

_BLOCK = 1 << 19  #: Tokens that are counted at once.
_BATCH = 1 << 20  #: Pairs of positions that are looked up at once.
_NOTHING = 1e-300  #: A smaller weight counts as 0.


@dataclass(frozen=True)
class FixedContext:
    """A window of ``k`` words before and ``k`` words after, all with weight 1 (the 5 % of the paper cancel)."""

    k: int = 10

    def __post_init__(self) -> None:
        """Check that the window has words."""
        if self.k < 1:
            raise ValueError(f"expected a window of one or more words on each side, got {self.k}")

    @property
    def history(self) -> int:
        """Number of earlier tokens that a new token can pair with."""
        return self.k

    def count(self, block: TokenBlock, size: int, n_groups: int) -> FloatArray:
        """Return the counts c(w, g) of the new tokens in a block, shape (size, G)."""
        return _count_windows(block, None, self.k, size, n_groups)


@dataclass(frozen=True)
class InfiniteContext:
    """A window on both sides with weight ``decay`` to the power of the distance.

    Without ``reach``, only weights below 1e-300 are dropped (with 0.95, those beyond 13,467 words). ``reach=100`` is
    the window of the reference code.
    """

    decay: float = 0.95
    reach: int | None = None
    powers: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the parameters and compute the powers of the decay."""
        if not 0 < self.decay < 1:
            raise ValueError(f"expected a decay between 0 and 1, got {self.decay}")
        if self.reach is not None and self.reach < 1:
            raise ValueError(f"expected a window of one or more words on each side, got {self.reach}")
        last = int(log(_NOTHING) / log(self.decay)) if self.reach is None else self.reach
        object.__setattr__(self, "powers", np.append(self.decay ** np.arange(last + 1.0), 0.0))

    @property
    def history(self) -> int:
        """Number of earlier tokens that are kept; without ``reach``, twice the distance with a weight above 1e-300."""
        return 2 * len(self.powers) if self.reach is None else self.reach

    def count(self, block: TokenBlock, size: int, n_groups: int) -> FloatArray:
        """Return the counts c(w, g) of the new tokens in a block, shape (size, G)."""
        if self.reach is None:
            return _count_decayed(block, self.powers, size, n_groups)
        return _count_windows(block, self.powers[1:-1], self.reach, size, n_groups)


ContextWindow = FixedContext | InfiniteContext


@dataclass(frozen=True)
class TokenBlock:
    """Tokens to count, ``ids``, (N,); pairs among the first ``start`` are already counted.

    ``ends``: the positions after the last token of each document, ascending. ``groups``: group of each token, 0 for
    none.
    """

    ids: IndexArray
    groups: NDArray[np.int8]
    start: int
    ends: IndexArray


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

        >>> counter = CooccurrenceCounter([1, 0, 2], FixedContext(k=1))
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
        self._grow(size)
        self._words += np.bincount(new, minlength=size)
        self._pairs += self.context.count(TokenBlock(ids, self._label(ids), start, ends), size, self.n_groups)
        open_from = int(ends[-1]) if len(ends) else 0
        self._history = ids[max(open_from, len(ids) - self.context.history) :].copy()
        self._pieces, self._ends, self._waiting = [], [], 0

    def _grow(self, size: int) -> None:
        more = size - len(self._words)
        if more:
            self._words = np.pad(self._words, (0, more))
            self._pairs = np.pad(self._pairs, ((0, more), (0, 0)))


def _count_windows(block: TokenBlock, weights: FloatArray | None, reach: int, size: int, n_groups: int) -> FloatArray:
    """Count the neighbours of each word of a group. ``weights`` are by distance from 1; None: all weights are 1."""
    counts = np.zeros((size, n_groups))
    ahead = np.arange(1, reach + 1)
    offsets = np.concatenate([-ahead[::-1], ahead])
    by_offset = None if weights is None else np.concatenate([weights[::-1], weights])
    first, last = np.append(0, block.ends), np.append(block.ends, len(block.ids))
    gendered = np.flatnonzero(block.groups)
    group_of = block.groups[gendered]
    for group in range(n_groups):
        positions = gendered[group_of == group + 1]
        for at in range(0, len(positions), max(1, _BATCH // len(offsets))):
            here = positions[at : at + max(1, _BATCH // len(offsets))]
            document = np.searchsorted(block.ends, here, side="right")
            low = np.maximum(first[document], np.where(here < block.start, block.start, 0))
            near = here[:, None] + offsets
            inside = (near >= low[:, None]) & (near < last[document][:, None])
            weight = None if by_offset is None else np.broadcast_to(by_offset, near.shape)[inside]
            counts[:, group] += np.bincount(block.ids[near[inside]], weights=weight, minlength=size)
    return counts


def _count_decayed(block: TokenBlock, powers: FloatArray, size: int, n_groups: int) -> FloatArray:
    """Add, for each word, the decayed sums over the words of a group before and after its tokens."""
    counts = np.zeros((size, n_groups))
    n = len(block.ids)
    gendered = np.flatnonzero(block.groups)
    group_of = block.groups[gendered]
    for group in range(n_groups):
        positions = gendered[group_of == group + 1]
        if len(positions):
            new = positions[np.searchsorted(positions, block.start) :]
            weight = _decayed_sums(n - 1 - new[::-1], n - block.ends[::-1], n, powers)[::-1]
            weight[block.start :] += _decayed_sums(positions, block.ends, n, powers)[block.start :]
            counts[:, group] = np.bincount(block.ids, weights=weight, minlength=size)
    return counts


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
