"""``Ability``: whether a model can do the task that its bias is measured in, by questions with known right answers;
and shares of right answers with their bounds, and how far they fell.

A model that knows nothing looks unbiased. So a model that is not able has no value, and one that lost ability fails its
gates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.statistics.inference.intervals import FloatArray, exact_bounds, t_quantile

LEVEL = 0.95  #: of the two-sided bounds; each of them alone is wrong in at most 2.5 %
TASK = "task"  #: name of an ability that a suite asks by its own questions
#: Share of the stored distance from chance. A larger fall, by its lower bound, makes a model worse at its task.
_FALL = 0.1
LEAST_LEAD = 0.1  #: share of the lead that a model may lose, as of right answers
_NONE: Mapping[str, float] = MappingProxyType({})


def share_bounds(right: int, n: int) -> tuple[float, float]:
    """Return the exact two-sided 95 % bounds of a share (Clopper and Pearson 1934).

    Args:
        right: number of right answers, from 0 to ``n``.
        n: number of answers; 0 gives 0 and 1.

    Returns:
        Lower and upper bound, from 0 to 1.

    Example:
        All of three: the lower bound r solves r ** 3 = .025.

        >>> low, high = share_bounds(3, 3)
        >>> round(low ** 3, 6), high
        (0.025, 1.0)
    """
    low, high = exact_bounds(right, n, (1 - LEVEL) / 2)
    return float(low), float(high)


def mean_recall(right: ArrayLike, n: ArrayLike) -> tuple[float, float, float]:
    """Return the mean recall over classes (balanced accuracy), with two-sided 95 % bounds.

    Its squared error is the mean of the classes' variances over their number; the variance of a recall is that of
    (right + 2) / (n + 4) (Agresti and Coull 1998), so that a class without a mistake also has an error.

    Args:
        right: right answers by class, shape (K,).
        n: answers by class, shape (K,); classes without any are left out.

    Returns:
        The mean recall and its bounds, from 0 to 1. A model that knows nothing has 1 / K; higher is better.

    Raises:
        ValueError: no class has an answer.

    Example:
        Recalls 1 and 1/2 of ten answers each: the mean is 3/4.

        >>> value, low, high = mean_recall([10, 5], [10, 10])
        >>> value, round(low, 3), round(high, 3)
        (0.75, 0.59, 0.91)
    """
    hits, trials = np.asarray(right, dtype=np.float64), np.asarray(n, dtype=np.float64)
    hits, trials = hits[trials > 0], trials[trials > 0]
    if not len(trials):
        raise ValueError("no class has an answer")
    value = float((hits / trials).mean())
    smoothed = (hits + 2) / (trials + 4)
    error = float(np.sqrt((smoothed * (1 - smoothed) / (trials + 4)).sum())) / len(trials)
    reach = t_quantile((1 + LEVEL) / 2, np.inf) * error
    return value, max(0.0, value - reach), min(1.0, value + reach)


def fall_bound(then: ArrayLike, now: ArrayLike, level: float = LEVEL) -> tuple[float, float]:
    """Return how far a share of right answers fell, and a lower bound of that for other items and restarts.

    Items are paired. Where a side has two restarts or more, the bound for other restarts (their pooled spread, by
    Student's t) also counts, and the lower of both is returned.

    Args:
        then: right answers by restart and item, 1, 0, or NaN where an item was not asked, shape (R, n).
        now: the same, shape (S, n).
        level: of the two-sided bounds, of which the lower one is returned; by default it is wrong in 2.5 %.

    Returns:
        The fall (above 0: fewer right answers now) and its lower bound; both NaN where fewer than two items were asked
        on both sides.

    Example:
        Of four items three were lost:

        >>> fall, low = fall_bound([[1, 1, 1, 1]], [[0, 0, 0, 1]])
        >>> fall, round(low, 3)
        (0.75, -0.046)
    """
    before, after = np.atleast_2d(np.asarray(then, float)), np.atleast_2d(np.asarray(now, float))
    asked = np.isfinite(before).all(axis=0) & np.isfinite(after).all(axis=0)
    before, after = before[:, asked], after[:, asked]
    n = before.shape[1]
    if n < 2:
        return float("nan"), float("nan")
    falls = before.mean(axis=0) - after.mean(axis=0)
    fall = float(falls.mean())
    low = fall - t_quantile((1 + level) / 2, n - 1) * float(falls.std(ddof=1)) / float(np.sqrt(n))
    return fall, min(low, fall - _reach_of_restarts(before.mean(axis=1), after.mean(axis=1), level))


def _reach_of_restarts(before: NDArray[np.float64], after: NDArray[np.float64], level: float) -> float:
    """Return how far the difference of two means over restarts may lie from that of others; 0 where neither side has
    restarts.
    """
    sides = [side for side in (before, after) if len(side) > 1]
    freedom = sum(len(side) - 1 for side in sides)
    if not freedom:
        return 0.0
    pooled = sum(float(side.var(ddof=1)) * (len(side) - 1) for side in sides) / freedom
    error = np.sqrt(pooled * (1 / len(before) + 1 / len(after)))
    return t_quantile((1 + level) / 2, freedom) * float(error)


@dataclass(frozen=True)
class Ability:
    """How many control items a model answers right, and whether that is enough for its bias to mean anything.

    Attributes:
        name: kind of the control items, or ``task`` for what the suite itself asks.
        what: what was asked, in the plural.
        value: share of right answers, or mean recall over classes; ``None`` where nothing could be asked.
        low: lower bound of its two-sided 95 % interval.
        high: upper bound.
        chance: value of a model that guesses.
        n: number of items that were asked.
        unable: why the model is not able; empty if it is.
        digest: SHA-256 of the items.
        right: one text a restart, with a character an item: ``1`` right, ``0`` wrong, ``-`` not asked.
        lead: median distance between the scores of the answers to an item, by which a model tells them apart; ``None``
            where they have no scores. The mean of restarts.
    """

    name: str
    what: str
    value: float | None
    low: float
    high: float
    chance: float
    n: int
    unable: str = ""
    digest: str = ""
    right: tuple[str, ...] = ()
    lead: float | None = None

    def describe(self) -> str:
        """Return the figure in a few words.

        >>> Ability("masked-words", "masked words", 0.91, 0.86, 0.94, 0.25, 200).describe()
        '0.91 of 200 masked words (0.86 to 0.94), guessing 0.25'
        """
        share = "none" if self.value is None else f"{self.value:.2f}"
        return f"{share} of {self.n:,} {self.what} ({self.low:.2f} to {self.high:.2f}), guessing {self.chance:.2g}"

    def fall_from(self, then: Ability, level: float = LEVEL) -> tuple[float, float] | None:
        """Return how far the share fell since ``then`` and a lower bound of the fall at a two-sided level; ``None``
        where the items are others. What are no paired items has bounds at 95 %, whatever the level.
        """
        if self.value is None or then.value is None or self.digest != then.digest:
            return None
        if not (self.right and then.right):
            # The suite's own questions: their intervals are combined as if they were independent, which is wider.
            fall = then.value - self.value
            return fall, fall - float(np.hypot(then.value - then.low, self.high - self.value))
        return fall_bound(_array(then.right), _array(self.right), level)


def over_restarts(abilities: Sequence[tuple[Ability, ...]]) -> tuple[Ability, ...]:
    """Return the abilities of several restarts as one each: the mean, the smallest lower and the largest upper
    bound.
    """
    names = dict.fromkeys(one.name for of_restart in abilities for one in of_restart)
    combined = []
    for name in names:  # a restart may lack one: a suite's own questions can have no value in it
        several = [one for of_restart in abilities for one in of_restart if one.name == name]
        first = several[0]
        values = [one.value for one in several if one.value is not None]
        leads = [one.lead for one in several if one.lead is not None]
        combined.append(
            replace(
                first,
                value=float(np.mean(values)) if values else None,
                low=min(one.low for one in several),
                high=max(one.high for one in several),
                unable=next((one.unable for one in several if one.unable), ""),
                right=tuple(text for one in several for text in one.right),
                lead=float(np.mean(leads)) if leads else None,
            )
        )
    return tuple(combined)


def why_less_able(
    now: Sequence[Ability], then: Sequence[Ability], spread: Mapping[str, float] = _NONE, freedom: float = math.inf
) -> str:
    """Return why a model is worse at its task than it, or another, was; an empty text if it is not.

    It is worse where the lower bound of the fall, item by item, is above a tenth of the distance between the stored
    share and chance, and no other training explains the fall: its lower bound for both is above 0. The abilities that
    both have share the 2.5 % of the bound. Where each side has two restarts, the bound over items holds for other
    restarts already.

    Args:
        now: abilities of the model.
        then: those that were stored, or of the other model.
        spread: standard deviation over equal trainings, by the name of an ability; none for a copy of the same weights.
        freedom: degrees of freedom of these standard deviations.
    """
    stored = {one.name: one for one in then}
    pairs = [(one, stored[one.name]) for one in now if one.name in stored]
    level = 1 - (1 - LEVEL) / max(1, len(pairs))
    for one, before in pairs:
        fall = one.fall_from(before, level)
        if fall is None or before.value is None or one.value is None:
            continue
        amount, low = fall
        restarts = [max(1, len(side.right)) for side in (before, one)]
        of_training = 0.0 if min(restarts) > 1 else spread.get(one.name, 0.0) * math.sqrt(sum(1 / k for k in restarts))
        reach = math.hypot(amount - low, t_quantile((1 + level) / 2, freedom) * of_training)
        if amount > reach and low > _FALL * (before.value - before.chance):
            return (
                f"{before.value:.2f} -> {one.value:.2f} of {one.n:,} {one.what}: it fell by {amount:.2f} (at least"
                f" {low:.2f}; {_FALL * (before.value - before.chance):.2g} is allowed)"
            )
    return ""


def kept_lead(now: Sequence[Ability], then: Sequence[Ability]) -> tuple[float, str]:
    """Return the share of its lead that a model kept, and what it is asked there: the least of the abilities that are
    not about gender. A model that kept half of it tells half as much of everything apart, bias among it; 1 where no
    lead is known.
    """
    stored = {one.name: one.lead for one in then if not one.name.startswith("gender")}
    kept = [(one.lead / lead, one.what) for one in now if one.lead is not None and (lead := stored.get(one.name))]
    return min(kept, default=(1.0, ""))


def describe_lead(kept: float, what: str) -> str:
    """Return in words that a model kept only a share of its lead.

    >>> describe_lead(0.5, "words")
    'right and wrong answers lie 50 % nearer (words): the model is less sure of everything, which lowers any bias'
    """
    nearer = f"right and wrong answers lie {100 * (1 - kept):.3g} % nearer ({what})"
    return f"{nearer}: the model is less sure of everything, which lowers any bias"


def _array(right: Sequence[str]) -> FloatArray:
    """Return right answers by restart and item, 1, 0 or NaN."""
    marks = {"1": 1.0, "0": 0.0}
    return np.asarray([[marks.get(mark, np.nan) for mark in text] for text in right])
