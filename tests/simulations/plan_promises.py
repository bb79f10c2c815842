"""What a plan promises against what fresh models give: ``python tests/simulations/plan_promises.py`` prints the table of docs/evidence/coverage-plan.md.

A world has items, a noise of each item from training to training, and a noise of whole trainings. A plan sees two checkpoints, one checkpoint,
or restarts of one world; the gate then judges fresh checkpoints of that world, equal ones and ones that are worse by what the plan found.
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray
from tabulate import tabulate

from pytest_genderbias.statistics.inference.item_sums import ItemSums, mean_sums
from pytest_genderbias.statistics.inference.paired import compare_items
from pytest_genderbias.statistics.inference.resolution import ItemSimulation, RestartSimulation, Simulation, resolve
from pytest_genderbias.statistics.inference.restarts import compare_with_restarts

SEED, LEVEL, DRAWS, REPEATS = 7, 0.975, 100, 499
NOISE = 0.05  #: of an item from training to training
SPREAD = 0.2  #: of items


def higher(value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how bad a value is."""
    return value


def sums_of(values: NDArray[np.float64]) -> ItemSums:
    """Return the sums of items of four cases each."""
    return mean_sums(np.arange(len(values)).astype(np.str_), 4 * values, np.full(len(values), 4), "items")


def simulate(source: str, items: int, training: float, worlds: int, fresh: int = 8) -> tuple[float, float]:
    """Return the share of fresh equal models that are green, and of fresh worse ones that are found.

    Args:
        source: ``one``, ``two``, or a number of restarts.
        items: number of items.
        training: standard deviation of whole trainings, in standard errors of the noise of items.
        worlds: number of worlds, each with a plan of its own.
        fresh: fresh models for each plan.
    """
    rng, green, found = np.random.default_rng([SEED, items, round(10 * training)]), [], []
    moves = training * NOISE / items**0.5
    for _ in range(worlds):
        base = 0.5 + SPREAD * rng.normal(size=items)

        def checkpoint(base: NDArray[np.float64] = base) -> NDArray[np.float64]:
            return base + NOISE / 2**0.5 * rng.normal(size=items) + moves / 2**0.5 * rng.normal()

        then = checkpoint()
        restarts = (
            np.array([]) if source in ("one", "two") else np.array([checkpoint().mean() for _ in range(int(source))])
        )
        simulation: Simulation
        if len(restarts):
            simulation = RestartSimulation(restarts, higher, draws=DRAWS)
        else:
            second = sums_of(checkpoint()) if source == "two" else None
            simulation = ItemSimulation(sums_of(then), second, higher, 1, DRAWS, REPEATS)
        plan = resolve(simulation)
        for _ in range(fresh):
            now = checkpoint()
            if len(restarts):
                difference = compare_with_restarts(restarts, [now.mean()], higher, level=LEVEL)
            else:
                difference = compare_items(sums_of(then), sums_of(now), higher, level=LEVEL, repeats=REPEATS)
            green.append(difference.high <= plan.tolerance)
            found.append(difference.low + plan.worsening > plan.tolerance)
    return float(np.mean(green)), float(np.mean(found))


def rows(worlds: int) -> list[list[str]]:
    """Return a row a source, number of items, and noise of trainings."""
    cases = [(s, n, t) for s in ("one", "two") for n in (12, 60, 164) for t in (0.0, 1.0, 3.0)]
    cases += [(s, 60, 3.0) for s in ("3", "5", "10")]
    table = []
    for source, items, training in cases:
        green, found = simulate(source, items, training, worlds)
        name = {"one": "one checkpoint", "two": "two checkpoints"}.get(source, f"{source} restarts")
        table.append([name, str(items), f"{training:g}", f"{100 * green:.1f} %", f"{100 * found:.1f} %"])
    return table


if __name__ == "__main__":
    worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print(
        tabulate(
            rows(worlds),
            ("planned from", "items", "trainings / items", "green (95 %)", "found (80 %)"),
            tablefmt="github",
        )
    )
