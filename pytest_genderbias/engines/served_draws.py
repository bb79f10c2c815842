"""Test whether the tokens that a model draws follow the probabilities that it lists. The test finds another base,
temperature or scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

LEAST = 400  #: draws that a comparison needs
_LEAST_EXPECTED = 5.0  #: draws of a token that is counted by itself
_LEAST_P = 1e-6  #: p-value below which a right source falls once in a million
_MOST_Z = 5.0  #: standard errors by which a right source is off once in a million
_LOG_ODDS = float(np.log(2 / _LEAST_P))  #: of Bernstein's bound at the same p-value


@dataclass(frozen=True)
class Draws:
    """Drawn tokens, each with the probabilities that are listed for its place.

    Attributes:
        probabilities: of the listed tokens, given that the text does not end, shape (draws, listed), the most likely
            first.
        drawn: number of the drawn token in the list, or -1 for another token, shape (draws,).
    """

    probabilities: NDArray[np.float64]
    drawn: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        tops: Sequence[Sequence[Mapping[int, float]]],
        tokens: Sequence[Sequence[int]],
        listed: int,
        end: int | None,
    ) -> Draws:
        """Collect draws.

        Args:
            tops: for each text, the log-probabilities in each place, by token ids.
            tokens: for each text, the drawn tokens.
            listed: how many of each list count: the most likely ones. Some sources add the drawn token to the list.
            end: the token that ends a text. Sources that stop there do not show it, so the comparison is given that it
                was not drawn.
        """
        rows, drawn = [], []
        last, best, row = None, [], np.empty(0)
        for places, ids in zip(tops, tokens, strict=True):
            for top, token in zip(places, ids, strict=True):
                if token == end:
                    continue
                if top is not last:  # several draws of one place share its list
                    last, best = top, sorted(top, key=lambda i: (-top[i], i))[:listed]
                    before, at_end = np.exp([top[i] for i in best]), np.asarray([i == end for i in best])
                    row = np.where(at_end, 0.0, before) / max(1e-9, 1 - before[at_end].sum())
                rows.append(row)
                drawn.append(best.index(token) if token in best else -1)
        shape = (len(rows), listed)
        return cls(np.asarray(rows, dtype=np.float64).reshape(shape), np.asarray(drawn, dtype=np.int64))


def trouble_of_draws(draws: Draws) -> str | None:
    """Return what is wrong, in one line, if draws do not follow the listed probabilities; ``None`` if they may."""
    count = len(draws.drawn)
    if count < LEAST:
        return (
            f"expected at least {LEAST} tokens drawn at temperature 1, got {count}; the listed probabilities cannot be"
            " compared with draws"
        )
    found = {what: _z(*excess) for what, excess in _excesses(draws).items()}
    what, z = max(found.items(), key=lambda pair: abs(pair[1]))
    if abs(z) <= _MOST_Z:
        return None
    return (
        f"expected {count} tokens drawn at temperature 1 to follow the listed probabilities, but {what}"
        f" {'more' if z > 0 else 'less'} often ({abs(z):.1f} standard errors); the values are of another base,"
        " temperature or scale, or not of the model that writes"
    )


def p_of_counts(places: Sequence[Draws]) -> float:
    """Return the p-value of Pearson's test that the draws of some places follow the probabilities listed for each.

    Tokens of a place that are expected less than five times are counted together with all that are not listed.

    Example:
        One place with two tokens of probability .5 each, ten draws, all of the first: (10 - 5)^2 / 5 twice is 10, with
            one degree of freedom.

        >>> draws = Draws(np.full((10, 2), .5), np.zeros(10, dtype=np.int64))
        >>> round(p_of_counts([draws]), 5)
        0.00157
    """
    from scipy.special import chdtrc  # as chi2.sf of scipy.stats, whose import takes a second

    total, degrees = 0.0, 0
    for draws in places:
        if not len(draws.drawn):
            continue
        expected = len(draws.drawn) * draws.probabilities[0]
        seen = np.bincount(draws.drawn[draws.drawn >= 0], minlength=len(expected))
        alone = expected >= _LEAST_EXPECTED
        expected = np.append(expected[alone], max(0.0, len(draws.drawn) - expected[alone].sum()))
        seen = np.append(seen[alone], len(draws.drawn) - seen[alone].sum())
        if expected[-1] < _LEAST_EXPECTED:  # what is left over joins the least likely token
            expected = np.append(expected[:-2], expected[-2:].sum())
            seen = np.append(seen[:-2], seen[-2:].sum())
        total += float(((seen - expected) ** 2 / np.maximum(expected, 1e-9)).sum())
        degrees += len(expected) - 1
    return float(chdtrc(degrees, total)) if degrees > 0 else 1.0


def trouble_of_counts(places: Sequence[Draws]) -> str | None:
    """Return what is wrong, in one line, if repeated draws of some places do not follow their lists; ``None`` if they
    may.
    """
    count = sum(len(draws.drawn) for draws in places)
    if count < LEAST:
        return (
            f"expected at least {LEAST} tokens drawn one by one at {len(places)} places, got {count}; their lists"
            " cannot be compared with draws"
        )
    return _trouble_of_shares(places)


def _trouble_of_shares(places: Sequence[Draws]) -> str | None:
    count, p = sum(len(draws.drawn) for draws in places), p_of_counts(places)
    if p >= _LEAST_P:
        return None
    return (
        f"expected {count} tokens drawn at {len(places)} places at temperature 1 to follow the lists of these places,"
        f" got other shares (p = {p:.1g}); the values are not those that the model writes by, or the server repeats"
        " what it wrote before"
    )


def trouble_of_few_draws(places: Sequence[Draws]) -> str | None:
    """Return what is wrong, in one line, if draws at places of a suite's rows do not follow their lists; ``None`` if
    they may.

    A list of such a place may leave nearly nothing open, so that few draws can differ, and their number is far from a
    normal distribution: sums are compared with Bernstein's bound, which holds for any.
    """
    if trouble := _trouble_of_shares(places):
        return trouble
    draws = Draws(np.concatenate([one.probabilities for one in places]), np.concatenate([one.drawn for one in places]))
    for what, (excess, variance) in _excesses(draws).items():
        most = max(1.0, float(np.abs(excess).max(initial=0.0)))
        bound = _LOG_ODDS * most / 3
        bound += float(np.sqrt(bound**2 + 2 * _LOG_ODDS * max(0.0, float(variance.sum()))))
        if abs(excess.sum()) > bound:
            return (
                f"expected {len(draws.drawn)} tokens drawn at {len(places)} places at temperature 1 to follow the lists"
                f" of these places, but {what} {'more' if excess.sum() > 0 else 'less'} often; the values are of"
                " another base, temperature or scale, or not of the model that writes"
            )
    return None


_Excess: TypeAlias = "tuple[NDArray[np.float64], NDArray[np.float64]]"


def _excesses(draws: Draws) -> dict[str, _Excess]:
    """Return by how much each draw exceeds its expectation, and the variance of each, for three figures, each with its
    words.
    """
    return {
        "listed tokens were drawn": _of_mass(draws),
        "the most likely token was drawn": _of_first(draws),
        "likely ones among the listed tokens were drawn": _of_sharpness(draws),
    }


def _of_mass(draws: Draws) -> _Excess:
    """Return it for tokens of the lists.

    Example:
        Two listed tokens with .5 together, four draws, all of them listed: 4 where 2 are expected, with a standard
            error of 1.

        >>> float(_z(*_of_mass(Draws(np.full((4, 2), .25), np.zeros(4, dtype=np.int64)))))
        2.0
    """
    mass = np.minimum(draws.probabilities.sum(axis=1), 1.0)
    return (draws.drawn >= 0) - mass, mass * (1 - mass)


def _of_first(draws: Draws) -> _Excess:
    """Return it for the most likely token.

    >>> float(_z(*_of_first(Draws(np.full((4, 1), .5), np.zeros(4, dtype=np.int64)))))
    2.0
    """
    first = np.minimum(draws.probabilities[:, 0], 1.0)
    return (draws.drawn == 0) - first, first * (1 - first)


def _of_sharpness(draws: Draws) -> _Excess:
    """Return it for the log-probability of drawn tokens, given that they are listed, against its mean over the list.

    It is the score test of the inverse temperature: values in base 10, or of another temperature, are far off.

    Example:
        Probabilities .8 and .2 (a mean of ln .8 - .2 ln 4), four draws of the first: .2 ln 4 each above the mean, with
        a standard deviation of .4 ln 4 each.

        >>> draws = Draws(np.tile([.8, .2], (4, 1)), np.zeros(4, dtype=np.int64))
        >>> round(float(_z(*_of_sharpness(draws))), 12)
        1.0
    """
    inside = draws.drawn >= 0
    weights, drawn = draws.probabilities[inside], draws.drawn[inside]
    shares = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    logs = np.log(np.maximum(shares, 1e-300))
    mean = (shares * logs).sum(axis=1)
    variance = (shares * logs**2).sum(axis=1) - mean**2
    return logs[np.arange(len(drawn)), drawn] - mean, variance


def _z(excess: NDArray[np.float64], variance: NDArray[np.float64]) -> float:
    """Return the sum of excesses in units of its standard error; without any variance 0 if it is about 0, else
    infinite.
    """
    total, spread = float(excess.sum()), float(np.sqrt(np.maximum(variance, 0.0).sum()))
    if spread > 1e-6:
        return total / spread
    return 0.0 if abs(total) < 1e-3 else float(np.copysign(np.inf, total))
