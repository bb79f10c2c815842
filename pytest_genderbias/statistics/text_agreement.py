"""Agreement of the two ways to ask a model: by the probabilities of options, and by its replies in text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.agreement import agreement
from pytest_genderbias.statistics.correlation import pearson
from pytest_genderbias.statistics.inference.intervals import FloatArray, Interval, share_interval
from pytest_genderbias.statistics.multiple_choice import choices

IntArray = NDArray[np.int64]

_OVER = "items"
_DRAWS = 200  #: of all replies from the probabilities
_SEED = 1999
_ROUNDING = 1e-12


@dataclass(frozen=True)
class TextAgreement:
    """How far replies in text are what the probabilities say.

    Attributes:
        share: questions in which the most probable option is the most frequent reply, 0 to 1; its bounds are for other
            items.
        drawn_share: the same, if each reply that picks an option were drawn from the probabilities: what few replies
            leave of 1.
        r: Pearson's r of the probability and the rate of each option, its mean over the questions taken out; ``None``
            where one of the two is the same in all questions. Its bounds are for other items.
        drawn_r: the same, if each reply were drawn from the probabilities.
        refused: replies that decline, 0 to 1.
        unreadable: replies that cannot be read, 0 to 1.
    """

    share: float
    share_bounds: Interval | None
    drawn_share: float
    r: float | None
    r_bounds: Interval | None
    drawn_r: float | None
    refused: float
    unreadable: float


def picks_in_common(probabilities: ArrayLike, counts: ArrayLike) -> FloatArray:
    """Return whether the most probable option is the most frequent reply, from 0 to 1 where several are.

    Args:
        probabilities: of the options of each question, shape (n, K).
        counts: replies that pick each option, and then those that decline and that cannot be read, shape (n, K + 2).
            These two are replies, too: where they are the most frequent, no option is.

    Returns:
        Shape (n,).

    Example:
        The second question has two replies of each kind, and in the third most replies cannot be read.

        >>> picks_in_common([[0.9, 0.1]] * 3, [[3, 1, 0, 0], [2, 2, 0, 0], [2, 0, 0, 3]]).tolist()
        [1.0, 0.5, 0.0]
    """
    p, replies = np.asarray(probabilities, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    frequent = choices(replies / replies.sum(axis=1, keepdims=True))
    return np.asarray((choices(p) * frequent[:, : p.shape[1]]).sum(axis=1))


def option_rates(counts: ArrayLike) -> FloatArray:
    """Return the rate of each option among the replies that pick one, shape (n, K); NaN where none does.

    >>> option_rates([[3, 1, 0, 4], [0, 0, 2, 0]]).tolist()
    [[0.75, 0.25], [nan, nan]]
    """
    picked = np.asarray(counts, dtype=np.float64)[:, :-2]
    total = picked.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(picked, total, out=np.full_like(picked, np.nan), where=total > 0))


def text_agreement(probabilities: ArrayLike, counts: ArrayLike, items: ArrayLike) -> TextAgreement:
    """Return how far the replies to n questions are what the probabilities of their options say.

    A label that is always preferred makes no r, since the mean of each is taken out. The bounds of the share are those
    of :func:`~pytest_genderbias.statistics.inference.intervals.share_interval`, those of r a bootstrap of items and of
    what they have (:func:`~pytest_genderbias.statistics.agreement.agreement`).

    Args:
        probabilities: of the K options, each row with the sum 1, shape (n, K).
        counts: as of :func:`picks_in_common`, shape (n, K + 2).
        items: what each question belongs to, shape (n,).

    Raises:
        ValueError: there is no question, or one without a reply.

    Example:
        >>> found = text_agreement([[0.9, 0.1], [0.6, 0.4], [0.1, 0.9]], [[5, 0, 0, 0], [3, 2, 0, 0], [0, 5, 0, 0]],
        ...     [0, 1, 2])
        >>> found.share, round(found.r, 4)
        (1.0, 0.9996)
    """
    p, replies = np.asarray(probabilities, dtype=np.float64), np.asarray(counts, dtype=np.int64)
    if not len(p) or not replies.any(axis=1).all():
        raise ValueError("expected at least one question, and replies to each")
    labels, index = np.unique(np.asarray(items), return_inverse=True)
    common = picks_in_common(p, replies)
    share = share_interval(np.bincount(index, common, len(labels)), np.bincount(index), _OVER)
    r, bounds = _correlation(p, replies, index)
    draws = _drawn(p, replies)
    correlations = [one for one in (_pearson(p, drawn) for drawn in draws) if one is not None]
    return TextAgreement(
        float(common.mean()),
        share,
        float(np.mean([picks_in_common(p, drawn).mean() for drawn in draws])),
        r,
        bounds,
        float(np.mean(correlations)) if correlations else None,
        float(replies[:, -2].sum() / replies.sum()),
        float(replies[:, -1].sum() / replies.sum()),
    )


def _drawn(p: FloatArray, replies: IntArray) -> list[IntArray]:
    """Return the counts again, with the replies that pick an option drawn from the probabilities."""
    rng, options = np.random.default_rng(_SEED), replies[:, :-2].sum(axis=1)
    return [np.concatenate([rng.multinomial(options, p), replies[:, -2:]], axis=1) for _ in range(_DRAWS)]


def _points(p: FloatArray, replies: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return probability and rate of each option without the mean of its label, shape (n, K); NaN for questions in
    which no reply picks an option.
    """
    rates = option_rates(replies)
    known = np.isfinite(rates)
    return _without_means(p, known), _without_means(rates, known)


def _without_means(values: FloatArray, known: NDArray[np.bool_]) -> FloatArray:
    """Return values without the mean of their column; 0 where that leaves rounding only."""
    if not known.any():
        return np.full_like(values, np.nan)
    rest = np.where(known, values - values.mean(axis=0, where=known), np.nan)
    return np.where(np.abs(rest) < _ROUNDING, 0.0, rest)


def _pearson(p: FloatArray, replies: IntArray) -> float | None:
    x, y = _points(p, replies)
    known = np.isfinite(y)
    try:
        return pearson(x[known], y[known])
    except UndefinedError:
        return None


def _correlation(p: FloatArray, replies: IntArray, items: IntArray) -> tuple[float | None, Interval | None]:
    x, y = _points(p, replies)
    known = np.isfinite(y)
    of_items = np.broadcast_to(items[:, None], p.shape)[known]
    try:
        found = agreement(of_items.tolist(), x[known], y[known])
    except UndefinedError:
        return None, None
    return found.r, found.r_bounds
