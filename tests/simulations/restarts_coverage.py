"""Measure how often equal trainings lie outside the bounds over restarts, and what gates on them find.

Run as a script with the name of a table, ``prediction``, ``neutral``, ``power`` or ``crossed``, it prints that table of docs/evidence/coverage-restarts.md
(up to five minutes each).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from pytest_genderbias.statistics.inference.item_sums import FloatArray, mean_sums
from pytest_genderbias.statistics.inference.restarts import compare_crossed, compare_restarts, compare_with_restarts

RESTARTS = (3, 5, 10)
ITEMS = (12, 60, 164)
ALPHA = 0.025  #: share of equal models beyond each bound, as gates have them
GATES = 6  #: the family of docs/evidence/retrained.md
Draw = Callable[[np.random.Generator, tuple[int, ...]], FloatArray]

#: What the restarts of one training give: standard deviation 1; where some fail, that of the others is 0.5.
POPULATIONS: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "uniform": lambda rng, shape: rng.uniform(-(3**0.5), 3**0.5, size=shape),
    "long tails (t, 4 degrees)": lambda rng, shape: rng.standard_t(4, size=shape) / 2**0.5,
    "skewed towards worse (exponential)": lambda rng, shape: rng.exponential(size=shape),
    "skewed towards better": lambda rng, shape: -rng.exponential(size=shape),
    "one training in ten fails by 10 s": lambda rng, shape: (
        rng.normal(0, 0.5, size=shape) + 5 * (rng.random(shape) < 0.1)
    ),
}


@dataclass(frozen=True)
class PredictionRow:
    """Shares of equal checkpoints above the upper bound, below the lower one, and above that of one of six gates."""

    above: float
    below: float
    of_family: float


def prediction_row(population: str, k: int, runs: int = 20_000, seed: int = 0) -> PredictionRow:
    """Draw k restarts and one more checkpoint of the same training, and count how often it lies outside.

    The bounds are computed in one go for all runs; the first of them are those of ``compare_with_restarts``.
    """
    rng = np.random.default_rng(seed)
    values = POPULATIONS[population](rng, (runs, k + 1))
    restarts, one = values[:, :k], values[:, k]
    excess = (one - restarts.mean(axis=1)) / (restarts.std(axis=1, ddof=1) * np.sqrt(1 + 1 / k))
    p = stats.t.sf(excess, k - 1)
    for i in range(20):
        found = compare_with_restarts(restarts[i], one[i : i + 1], lambda v: v, level=1 - ALPHA)
        assert np.isclose(found.p, p[i]) and (found.low > 0) == (p[i] < ALPHA)
    return PredictionRow(float((p < ALPHA).mean()), float((p > 1 - ALPHA).mean()), float((p < 0.05 / GATES).mean()))


def prediction() -> None:
    """Print how often an equal checkpoint lies outside."""
    print("| values | " + " | ".join(f"{k} restarts" for k in RESTARTS) + " |")
    print("|---|" + "---|" * len(RESTARTS))
    for name in POPULATIONS:
        rows = [prediction_row(name, k) for k in RESTARTS]
        print(f"| {name} | " + " | ".join(f"{r.above:.1%} / {r.below:.1%} ({r.of_family:.2%})" for r in rows) + " |")


def neutral(runs: int = 4000) -> None:
    """Print the same for distances from neutral, where the mean lies near neutral."""
    print("| mean, in standard deviations | " + " | ".join(f"{k} restarts" for k in RESTARTS) + " |")
    print("|---|" + "---|" * len(RESTARTS))
    for mean in (0.0, 0.5, 1.0, 2.0, 5.0):
        cells = []
        for k in RESTARTS:
            rng = np.random.default_rng(0)
            found = [
                compare_with_restarts(rng.normal(mean, 1, k), rng.normal(mean, 1, 1), np.abs, level=1 - ALPHA)
                for _ in range(runs)
            ]
            above, below = (float(np.mean([outside(d) for d in found])) for outside in (_worse, _better))
            cells.append(f"{above:.1%} / {below:.1%}")
        print(f"| {mean:g} | " + " | ".join(cells) + " |")


def _worse(difference) -> bool:
    return difference.low > 0


def _better(difference) -> bool:
    return difference.high < 0


def power(runs: int = 200_000) -> None:
    """Print how often a checkpoint that is worse by so many standard deviations lies outside: of one gate, and of one of six."""
    shifts = (1, 2, 3, 4, 6, 8, 10)
    print("| restarts | reach, in s | " + " | ".join(f"+{shift}" for shift in shifts) + " |")
    print("|---|---|" + "---|" * len(shifts))
    for k in (3, 5, 10, 20):
        rng = np.random.default_rng(0)
        values = rng.normal(size=(runs, k + 1))
        error = values[:, :k].std(axis=1, ddof=1) * np.sqrt(1 + 1 / k)
        excess = values[:, k] - values[:, :k].mean(axis=1)
        cells = []
        for shift in shifts:
            p = stats.t.sf((excess + shift) / error, k - 1)
            cells.append(f"{(p < ALPHA).mean():.0%} ({(p < 0.05 / GATES).mean():.0%})")
        reach = [stats.t.isf(alpha, k - 1) * np.sqrt(1 + 1 / k) for alpha in (ALPHA, 0.05 / GATES)]
        print(f"| {k} | {reach[0]:.2f} ({reach[1]:.2f}) | " + " | ".join(cells) + " |")


@dataclass(frozen=True)
class CrossedRow:
    """Shares of equal trainings, on other units, that lie above the lower bound: by crossed variance, and by Welch's t."""

    crossed: float
    welch: float


def crossed_row(
    units: int,
    k: int,
    runs: int = 1000,
    seed: int = 0,
    of_restarts: float = 0.1,
    of_units: float = 0.5,
    skewed: bool = False,
) -> CrossedRow:
    """Draw two trainings whose change is 0 over all units and all seeds, and count how often it seems to be above 0, nominally in 5 %.

    Args:
        units: number of units.
        k: restarts on each side.
        runs: pairs of trainings.
        seed: of the draws.
        of_restarts: standard deviation of a restart.
        of_units: that of the change of a unit, which the two trainings differ by; single cells have .5.
        skewed: whether changes of units are exponential.
    """
    rng = np.random.default_rng(seed)
    labels, counts = np.array([f"{i:04d}" for i in range(units)]), np.ones(units)
    wrong = np.zeros(2)
    for _ in range(runs):
        change = of_units * (rng.exponential(size=units) - 1 if skewed else rng.normal(size=units))
        own = rng.normal(size=units)
        sides = [
            rng.normal(0, of_restarts, (k, 1)) + own + worse + rng.normal(0, 0.5, (k, units)) for worse in (0, change)
        ]
        sums = [[mean_sums(labels, row, counts, "words") for row in scores] for scores in sides]
        welch = compare_restarts(sides[0].mean(axis=1), sides[1].mean(axis=1), lambda v: v)
        wrong += [compare_crossed(*sums, lambda v: v).low > 0, welch.low > 0]
    return CrossedRow(*(wrong / runs).tolist())


def crossed() -> None:
    """Print how often several restarts seem worse although the trainings are equal over all units."""
    print("| restarts, units vary by | " + " | ".join(f"{n} items" for n in ITEMS) + " |")
    print("|---|" + "---|" * len(ITEMS))
    for k in RESTARTS:
        for name, settings in (
            (".1, .5", {}), (".1, .5 skewed", {"skewed": True}), (".5, .1", {"of_restarts": 0.5, "of_units": 0.1}),
        ):  # fmt: skip
            rows = [crossed_row(n, k, **settings) for n in ITEMS]
            print(
                f"| {k} a side; {name} | " + " | ".join(f"{r.crossed:.1%} ({r.welch:.1%})" for r in rows) + " |",
                flush=True,
            )


if __name__ == "__main__":
    {"prediction": prediction, "neutral": neutral, "power": power, "crossed": crossed}[sys.argv[1]]()
