"""How often the bounds of r contain the true r of an intrinsic and an extrinsic figure, over few methods and ten seeds.

    python tests/simulations/agreement_coverage.py

prints the tables of ``docs/evidence/coverage-agreement.md`` in some minutes on one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.statistics.agreement import agreement, hierarchical_draws

FloatArray = NDArray[np.float64]
METHODS, SEEDS = (4, 7, 12, 25), 10


@dataclass(frozen=True)
class Population:
    """Methods shift both figures together, and seeds scatter around the method.

    Attributes:
        of_methods: r of the shifts of methods.
        of_seeds: r of the scatter of seeds.
        share: share of the variance of each figure that lies between methods.
    """

    of_methods: float
    of_seeds: float
    share: float

    @property
    def r(self) -> float:
        """r over other methods and seeds."""
        return self.share * self.of_methods + (1 - self.share) * self.of_seeds

    def shifts(self, methods: int, rng: np.random.Generator) -> FloatArray:
        """Draw the shifts of methods: shape (methods, 2)."""
        return np.sqrt(self.share) * _pairs(methods, self.of_methods, rng)

    def points(self, shifts: FloatArray, seeds: int, rng: np.random.Generator) -> FloatArray:
        """Draw the figures of each method and seed: shape (methods, seeds, 2)."""
        scatter = _pairs(len(shifts) * seeds, self.of_seeds, rng).reshape(len(shifts), seeds, 2)
        return shifts[:, None] + np.sqrt(1 - self.share) * scatter

    def r_of_methods(self, shifts: FloatArray) -> float:
        """Return r over other seeds of methods with these shifts."""
        deviations = shifts - shifts.mean(axis=0)
        scatter = np.array([[1, self.of_seeds], [self.of_seeds, 1]])
        total = deviations.T @ deviations / len(shifts) + (1 - self.share) * scatter
        return float(total[0, 1] / np.sqrt(total[0, 0] * total[1, 1]))


POPULATIONS = {
    "nothing": Population(0.0, 0.0, 0.5),
    "nothing, methods far apart": Population(0.0, 0.0, 0.8),
    "methods agree, seeds do not": Population(0.7, 0.0, 0.5),
    "both agree": Population(0.7, 0.3, 0.8),
    "methods agree closely": Population(0.9, 0.3, 0.8),
}


def covered(
    population: Population, methods: int, seeds: int, repeats: int, resamples: int, rng: np.random.Generator
) -> Iterator[tuple[bool, float, bool, bool, bool]]:
    """Yield, for each simulated study, whether each kind of bounds contains its true r, and the width of the first.

    In order: bounds over methods, their width, percentiles of the same resamples, percentiles of points taken as
    independent, and bounds over seeds of the same methods.
    """
    names = np.repeat(np.arange(methods), seeds)
    for _ in range(repeats):
        shifts = population.shifts(methods, rng)
        points = population.points(shifts, seeds, rng)
        x, y = points.reshape(-1, 2).T
        result = agreement(names.tolist(), x, y, resamples=resamples, seed=int(rng.integers(2**31)))
        assert result.r_bounds is not None and result.r_bounds_of_seeds is not None
        by_method, of_seeds = result.r_bounds, result.r_bounds_of_seeds
        drawn, seed_numbers = hierarchical_draws([seeds] * methods, resamples, rng)
        nested = _percentiles(points[drawn[..., None], seed_numbers].reshape(resamples, -1, 2))
        flat = points.reshape(-1, 2)
        naive = _percentiles(flat[rng.integers(len(flat), size=(resamples, len(flat)))])
        yield (
            by_method.low <= population.r <= by_method.high,
            by_method.high - by_method.low,
            nested[0] <= population.r <= nested[1],
            naive[0] <= population.r <= naive[1],
            of_seeds.low <= population.r_of_methods(shifts) <= of_seeds.high,
        )


def _pairs(count: int, r: float, rng: np.random.Generator) -> FloatArray:
    """Draw standard normal pairs with a correlation: shape (count, 2)."""
    return rng.normal(size=(count, 2)) @ np.linalg.cholesky([[1, r], [r, 1]]).T


def _percentiles(resamples: FloatArray) -> FloatArray:
    """Return the 2.5th and 97.5th percentile of r of resampled points, shape (R, n, 2)."""
    deviations = resamples - resamples.mean(axis=1, keepdims=True)
    products = (deviations[..., 0] * deviations[..., 1]).sum(axis=1)
    return np.quantile(products / np.sqrt(np.square(deviations).sum(axis=1).prod(axis=1)), [0.025, 0.975])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=400, help="simulated studies of each cell")
    parser.add_argument("--resamples", type=int, default=499)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    print(
        "| population | methods | true r | bounds | their width | percentiles | points as independent | same methods |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, population in POPULATIONS.items():
        for methods in METHODS:
            studies = list(covered(population, methods, SEEDS, options.repeats, options.resamples, rng))
            shares = np.asarray(studies, dtype=np.float64).mean(axis=0)
            print(
                f"| {name} | {methods} | {population.r:.2f} | {shares[0]:.1%} | {shares[1]:.2f} | {shares[2]:.1%} |"
                f" {shares[3]:.1%} | {shares[4]:.1%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
