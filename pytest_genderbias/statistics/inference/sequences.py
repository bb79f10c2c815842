"""Bounds on the mean of a suite that hold at whatever moment scoring stops.

The cases of a suite are a finite population in one random order, so its scores are a sample drawn without replacement.
A confidence interval holds for a number of scores that was fixed beforehand; a confidence sequence holds for all
numbers at once, so that scoring may stop after any batch.

The method is betting: Waudby-Smith and Ramdas 2024, Estimating means of bounded random variables by betting (JRSS B
86(1), section 5 without replacement), and 2020, Confidence sequences for sampling without replacement (NeurIPS).
``docs/evidence/coverage-sequences.md`` has measured coverage and power;
``tests/statistics/inference/test_sequences.py`` recomputes a small version.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, inf, isinf, log, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

_TOLERANCE = 1e-6  #: a softmax in float32 may end a little outside [0, 1]
_MOST_LOST = 0.75  #: of a gambler's wealth in one draw: c in the papers, who have 1/2 or 3/4
_NEAREST, _RATIO = 16, 4  #: horizons: numbers of draws for which some gambler's bets are the right ones
#: Few suites are scored beyond this: who bets for that gets a tenth of the stake of others.
_FAR, _FAR_SHARE = 2**16, 0.1
_STEP = 2.0**-32  #: bounds are multiples of it, rounded outwards, so that a longer prefix never widens them
_ROUNDING = 1e-12  #: more than the error of a mean of scores in float64


def mean_bounds(scores: ArrayLike, population: int, level: float = 0.95) -> tuple[float, float]:
    """Return bounds that contain the mean of all scores, at every number of draws at once, with probability ``level``.

    Of each candidate mean m a gambler doubts that the mean is as low (another that it is as high) and bets on every
    draw. Were m the mean, the rest of the population would have the mean m_t = (N m - S_{t-1}) / (N - t + 1) before
    draw t, every bet would be fair, and the wealth would ever exceed 2 / (1 - level) with probability (1 - level) / 2
    at most (Ville). The bounds exclude every m against which some gambler has been that rich so far. See :func:`wealth`
    for the bets.

    Args:
        scores: values in [0, 1] in the order in which they were drawn, each draw at random from those left, shape (n,).
        population: number N of all scores, drawn or not.
        level: confidence level.

    Returns:
        Low and high, in units of the scores. (0, 1) without scores; the mean twice when all are drawn, wherever the
        bounds were before. Until then more scores never widen them; they leave the mean out in (1 - level) of all
        orders at most. Where the bounds would cross, which a random order does in far fewer cases, they stay where they
        were before.

    Raises:
        ValueError: scores outside [0, 1] or not finite, more scores than the population has, or a level outside (0, 1).

    Example:
        Of ten scores nine are drawn, all 1: the mean is .9 if the last one is 0, and 1 if it is 1.

        >>> low, high = mean_bounds([1.0] * 9, 10)
        >>> round(low, 6), high
        (0.9, 1.0)
        >>> mean_bounds([1.0] * 9 + [0.0], 10)
        (0.9, 0.9)
    """
    x = _checked(scores, population, level)
    if len(x) == 0:
        return 0.0, 1.0
    if len(x) == population:
        return float(x.mean()), float(x.mean())
    low, high = _bounds(x, population, level)
    if low > high:
        low, high = _last_consistent(x, population, level)
    return low, high


def cases_to_decide(
    n: int, bounds: tuple[float, float], mean: float, limit: float, population: float = inf
) -> int | None:
    """Estimate how many scores decide on which side of ``limit`` the mean lies, if the mean equals the present
    estimate.

    The distance of a bound from the mean shrinks like the square root of e = n / (1 - n / N), the number of draws with
    replacement that would tell as much. So with distance w now, and d from the mean so far to the limit, it takes e (w
    / d)^2.

    Args:
        n: number of scores at hand, or of items that an interval is for.
        bounds: low and high, as from :func:`mean_bounds`.
        mean: the mean so far, between them.
        limit: the value to separate from the mean, in units of the scores.
        population: number N of all scores; without end for other items of the same kind.

    Returns:
        A number of scores in all, those at hand included: n if they decide already, N at most, which always decides; N,
            or
        ``None`` where there is no end, with the limit at the mean so far. An estimate without guarantee.

    Example:
        Between .4 and .6 after a hundred scores, a limit at half the distance of a bound takes four times as many.

        >>> cases_to_decide(100, (0.4, 0.6), 0.5, 0.55)
        400
        >>> cases_to_decide(100, (0.4, 0.6), 0.5, 0.9), cases_to_decide(100, (0.4, 0.6), 0.5, 0.5, population=5000)
        (100, 5000)
    """
    low, high = bounds
    if not low <= limit <= high:
        return n
    reach, distance = (mean - low if limit < mean else high - mean), abs(limit - mean)
    if distance <= _ROUNDING or n == 0:
        return None if isinf(population) else int(population)
    effective = n / (1 - n / population) * (reach / distance) ** 2
    wanted = max(n + 1, ceil(round(effective / (1 + effective / population), 6)))
    return int(min(population, wanted))


def wealth(scores: ArrayLike, population: int, level: float = 0.95) -> Callable[[ArrayLike], FloatArray]:
    """Return a function from a candidate mean to the wealth, after each draw, of gamblers who hold the mean to be
    higher.

    Gambler j begins with the share w_j of 1 and multiplies it by 1 + min(l_tj, c / m_t) (x_t - m_t) at draw t, c = 3/4:
    at m_t, the mean of what is left, the bet is fair, and at most c is lost. Its size is the best one for about h_j
    draws,

        l_tj = sqrt(2 log(2 / (1 - level)) / h_j) / s_{t-1} * N / (N - t + 1),   h_j = 16, 64, 256, ... up to N,

    with s^2_{t-1} = (1/4 + sum (x_i - mean_i)^2) / t over the draws before, mean_i = (1/2 + S_i) / (i + 1). The last
    factor is by how much m_t moves for a step of m. The papers have one gambler, who bets in proportion to 1 / sqrt(t
    log(1 + t)); where the limit is near, a stake divided among horizons needs about half of his scores
    (``docs/evidence/coverage-sequences.md``).

    No bet depends on m but through c / m_t, so that wealth never rises with m: m_t rises with m, and both 1 + l (x -
    m_t) and, where c / m_t < l, 1 - c + c x / m_t fall with m_t for x >= 0. Whatever is rejected as a mean, all that is
    lower is.

    Args:
        scores: values in [0, 1] in the order drawn, shape (..., n); 1 - x for gamblers who hold the mean 1 - m to be
            lower.
        population: number N of all scores.
        level: confidence level of the two-sided bounds; a side rejects from 2 / (1 - level) on.

    Returns:
        The function: m, a number or of shape (..., 1), to wealth, shape (..., n): 0 or more, infinite where m_t is
            below 0, so
        that m is impossible; beyond the range of floats it is infinite too, or 0.

    Example:
        One draw of 1 at m = 1/2. With s = 1/2 the bet of the first horizon is sqrt(2 log 40 / 16) / (1/2) = 1.358, and
        the wealth 1 + 1.358 (1 - 1/2) = 1.679; for 64 draws the bet is half of it, 1.340; the mean of both is 1.509.

        >>> wealth([1.0], population=64)(0.5).round(3).tolist()
        [1.509]
    """
    x = np.asarray(scores, dtype=np.float64)
    total = np.cumsum(x, axis=-1)
    draw = np.arange(1, x.shape[-1] + 1)
    left = population - draw + 1
    before = _shifted(total, 0.0)
    variance = _shifted((0.25 + np.cumsum(np.square(x - (0.5 + total) / (draw + 1)), axis=-1)) / (draw + 1), 0.25)
    bet = np.sqrt(2 * log(2 / (1 - level)) / variance) * (population / left)
    gamblers = _gamblers(population)

    def after_each_draw(mean: ArrayLike) -> FloatArray:
        rest = (population * np.asarray(mean, dtype=np.float64) - before) / left
        gap = x - np.maximum(rest, 0.0)
        most = _MOST_LOST / np.maximum(rest, 1e-300)
        wealth_after, factor = np.zeros_like(x), np.empty_like(x)
        with np.errstate(over="ignore", under="ignore"):
            for horizon, share in gamblers:
                np.multiply(bet, horizon**-0.5, out=factor)
                np.minimum(factor, most, out=factor)
                factor *= gap
                factor += 1
                factor[..., 0] *= share
                wealth_after += np.cumprod(factor, axis=-1, out=factor)
        wealth_after[total / population > np.asarray(mean) + _ROUNDING] = np.inf
        return wealth_after

    return after_each_draw


def _gamblers(population: int) -> list[tuple[int, float]]:
    """Return horizon and share of each gambler; the shares sum to 1."""
    horizons = [_NEAREST]
    while horizons[-1] * _RATIO <= population:
        horizons.append(horizons[-1] * _RATIO)
    stakes = [1.0 if horizon <= _FAR else _FAR_SHARE for horizon in horizons]
    return [(horizon, stake / sum(stakes)) for horizon, stake in zip(horizons, stakes, strict=True)]


def _shifted(values: FloatArray, first: float) -> FloatArray:
    """Return the values before each draw: shifted by one place."""
    before = np.empty_like(values)
    before[..., :1], before[..., 1:] = first, values[..., :-1]
    return before


def _bounds(x: FloatArray, population: int, level: float) -> tuple[float, float]:
    """Return both bounds; who holds the mean to be lower sees 1 - x and bets that its mean is higher."""
    return _low(x, population, level), 1.0 - _low(1.0 - x, population, level)


def _low(x: FloatArray, population: int, level: float) -> float:
    """Return the largest multiple of the step that is rejected as too low a mean; at least the mean if all undrawn
    scores are 0.

    Wealth never rises with the candidate, so there is one crossing. It does not depend on the search, except for
    rounding errors, which are far smaller than the change of one step of the candidate.
    """
    from scipy.optimize import brentq

    wealth_at = wealth(x, population, level)

    def excess(mean: float) -> float:
        """Return how far the largest wealth lies beyond rejection, as a difference of roots of logarithms, nearly
        linear in the mean.
        """
        most = min(float(wealth_at(mean).max()), 1e300)
        return sqrt(log(max(most, 1.0))) - sqrt(log(2 / (1 - level)))

    possible = max(0.0, float(x.sum()) / population - _ROUNDING)
    if excess(possible) < 0:
        return possible
    rejected, possible_still = possible, 1.0
    reach = sqrt(2 * log(2 / (1 - level)) * (1 / len(x) - 1 / population) * (float(x.var()) + 1 / len(x)))
    for guess in (float(x.mean()) - 2 * reach, float(x.mean())):
        if rejected < guess < possible_still:
            rejected, possible_still = (guess, possible_still) if excess(guess) >= 0 else (rejected, guess)
    steps = int(brentq(excess, rejected, possible_still, xtol=_STEP / 4) / _STEP)
    while steps * _STEP > possible and excess(steps * _STEP) < 0:
        steps -= 1
    while excess((steps + 1) * _STEP) >= 0:
        steps += 1
    return max(possible, steps * _STEP)


def _last_consistent(x: FloatArray, population: int, level: float) -> tuple[float, float]:
    """Return the bounds before they crossed. Both only move inwards, so once crossed they stay so."""
    consistent, crossed = 0, len(x)
    bounds = (0.0, 1.0)
    while crossed - consistent > 1:
        middle = (consistent + crossed) // 2
        low, high = _bounds(x[:middle], population, level)
        if low <= high:
            consistent, bounds = middle, (low, high)
        else:
            crossed = middle
    return bounds


def _checked(scores: ArrayLike, population: int, level: float) -> FloatArray:
    """Return the scores, checked and clipped to [0, 1]."""
    x = np.asarray(scores, dtype=np.float64)
    if x.ndim != 1:
        raise ValueError(f"expected scores of shape (n,), got {x.shape}")
    if population < max(1, len(x)):
        raise ValueError(f"{len(x)} scores were drawn from a population of {population}")
    if not 0 < level < 1:
        raise ValueError(f"the level should lie between 0 and 1, got {level}")
    wrong = ~((x >= -_TOLERANCE) & (x <= 1 + _TOLERANCE))
    if wrong.any():
        raise ValueError(f"scores should lie in [0, 1], but score {int(wrong.argmax())} is {x[wrong.argmax()]}")
    return np.clip(x, 0.0, 1.0)
