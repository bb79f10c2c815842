"""One number for a release: how much its bias grew over all suites that a baseline gates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_genderbias.gates.facts import BaselineFacts, Part
from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.gates.verdicts import ONE_SIDED
from pytest_genderbias.statistics.inference.item_sums import FloatArray
from pytest_genderbias.statistics.inference.over_restarts import compare_restarts, compare_with_restarts
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.statistics.student import t_quantile

FEWEST = 3  #: suites of which one number is made


@dataclass(frozen=True)
class Growth:
    """How much the bias of a model grew since its baselines, as shares.

    Attributes:
        model: name of the model.
        suites: number of suites.
        since: date of the oldest baseline, in ISO format; empty if it is not known.
        value: the growth: the sum of worsening / unit over the sum of distance / unit.
        low: lower bound for other trainings and items, at 97.5 %.
        high: upper bound.
        cluster: the declared cluster of units that a mean over all could hide: the one that became worse by the most
            standard errors, with a bound for all clusters together; empty where none did by more than chance explains.
    """

    model: str
    suites: int
    since: str
    value: float
    low: float
    high: float
    cluster: str = ""

    @property
    def worse(self) -> bool:
        """Whether the bias grew beyond what chance explains."""
        return self.low > 0

    @property
    def in_words(self) -> str:
        """The growth with its bounds.

        >>> Growth("m", 6, "2026-11-02", 0.041, -0.03, 0.112).in_words
        'bias +4 % (-3 to +11) over 6 suites against 2026-11-02'
        """
        against = self.since or "the baselines"
        value, low, high = (f"{100 * share:+.0f}" for share in (self.value, self.low, self.high))
        worst = f"; worst is {self.cluster}" if self.cluster else ""
        return f"bias {value} % ({low} to {high}) over {self.suites} suites against {against}{worst}"

    @property
    def failure(self) -> str:
        """Why the release fails, and what to do."""
        return (
            f"{self.model}: worse: {self.in_words}: other trainings and items do not explain that. Fix the model, or"
            ' accept it with --bias-update --bias-reason="why"'
        )


def growth_of(judgements: Iterable[Judgement]) -> list[Growth]:
    """Return the growth of bias of each model with gates on the baselines of three suites or more.

    Of several gates on a suite, the first counts. With restarts on the side of the baselines the suites are added up
    restart by restart, since those of one training depend on each other; else other trainings count as if they moved
    all suites alike, which is the worst.
    """
    models: dict[str, dict[str, tuple[Part, BaselineFacts]]] = {}
    for judgement in judgements:
        facts = judgement.of_baseline
        if facts.release is not None:
            models.setdefault(judgement.model, {}).setdefault(judgement.suite, (facts.release, facts))
    growths = (_growth(model, of_suite) for model, of_suite in models.items() if len(of_suite) >= FEWEST)
    return [growth for growth in growths if growth is not None]


def _growth(model: str, known: Mapping[str, tuple[Part, BaselineFacts]]) -> Growth | None:
    parts = [part for part, _ in known.values()]
    before = sum(float(np.mean(part.then)) / part.unit for part in parts)
    if not before > 0 or not math.isfinite(before):
        return None
    value, low, high = _bounds(parts)
    if not math.isfinite(low) or not math.isfinite(high):
        return None
    since = min((facts.accepted_on for _, facts in known.values() if facts.accepted_on), default="")
    return Growth(model, len(parts), since, value / before, low / before, high / before, _worst_cluster(known))


def _worst_cluster(known: Mapping[str, tuple[Part, BaselineFacts]]) -> str:
    """Return the cluster of any suite that became worse by the most standard errors, with its growth; an empty text
    without one.
    """
    clusters = [
        (facts.cluster, part.unit, suite) for suite, (part, facts) in known.items() if facts.cluster is not None
    ]
    if not clusters:
        return ""
    worst, unit, suite = max(clusters, key=lambda one: one[0].standardised)
    return f"{worst.name} of {suite}, {100 * worst.worsening / unit:+.0f} % (at least {100 * worst.low / unit:+.0f})"


def _bounds(parts: Sequence[Part]) -> tuple[float, float, float]:
    """Return the sum of worsening / unit, with bounds."""
    then, now = (_by_restart([getattr(part, side) for part in parts], parts) for side in ("then", "now"))
    if then is not None and now is not None and len(then) > 1:
        compare = compare_with_restarts if len(now) == 1 else compare_restarts
        try:
            difference = compare(then, now, lambda value: value, level=ONE_SIDED)
        except UndefinedError:
            pass
        else:
            return difference.value, difference.low, difference.high
    value = sum((float(np.mean(part.now)) - float(np.mean(part.then))) / part.unit for part in parts)
    of_items = math.sqrt(sum((part.over_items / part.unit) ** 2 for part in parts))
    of_trainings = sum(part.over_trainings / part.unit for part in parts)
    reach = t_quantile(ONE_SIDED, np.inf) * math.hypot(of_items, of_trainings)
    return value, value - reach, value + reach


def _by_restart(values: Sequence[tuple[float, ...]], parts: Sequence[Part]) -> FloatArray | None:
    """Return the sum of distance / unit of each restart; ``None`` where the suites have other numbers of restarts."""
    if len({len(one) for one in values}) > 1:
        return None
    shares = np.array([np.asarray(one) / part.unit for one, part in zip(values, parts, strict=True)])
    return np.asarray(shares.sum(axis=0), dtype=np.float64)
