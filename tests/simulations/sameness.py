"""Measure how often gates that ask for the same figure err, and what they find.

Run as a script with ``errors``, ``counts`` or ``power``, it prints that table of docs/evidence/same-as.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))  # beside the script of the one-sided gate, whose populations these are
import paired_coverage as populations

from pytest_genderbias.gates.regression import code_of_change
from pytest_genderbias.gates.verdicts import ONE_SIDED
from pytest_genderbias.statistics.inference.item_sums import ItemSums
from pytest_genderbias.statistics.inference.paired import compare_items

Make = Callable[[np.random.Generator, int], list[ItemSums]]
CODES = ("same", "different", "too_few", "unchanged")
#: Statistics with their true change from then to now.
SMOOTH: dict[str, tuple[Make, float]] = {
    "r, .3 to .6": populations.SMOOTH["r, .3 to .6"],
    "r, -.15 to .15": (populations.line_pair(populations.pearson, -0.15, 0.15), 0.3),
    "slope, .3 to .6, skewed": populations.SMOOTH["slope, .3 to .6, skewed"],
    "effect size, -.25 to .25": (populations.location_pair(populations.effect_size, -0.25, 0.25), 0.5),
}


def codes(make: Make, margin: float, items: int, runs: int, seed: int = 0) -> np.ndarray:
    """Return the shares of the codes, in the order of ``CODES``."""
    rng, found = np.random.default_rng([seed, items]), dict.fromkeys(CODES, 0)
    for _ in range(runs):
        difference = compare_items(
            *make(rng, items), populations.as_it_is, margin, ONE_SIDED, repeats=populations.RESAMPLES
        )
        found[code_of_change(difference, margin)] += 1
    return np.array([found[code] for code in CODES]) / runs


def errors_rows(runs: int = 1000) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield verdicts where the true change equals the margin: each ``same`` or ``unchanged``, and each ``different``,
    is an error.
    """
    for draw, change in populations.MEANS.items():
        if change:  # a mean that does not change has no margin that it equals
            make = populations.mean_pair(draw)
            yield draw.__name__, [codes(make, change, n, runs) for n in populations.ITEMS]
    for label, (make, change) in SMOOTH.items():
        yield label, [codes(make, change, n, max(1, runs // 2)) for n in populations.ITEMS]


def counts_rows(runs: int = 200) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield verdicts on counts of significant tests, whose true change equals the margin."""
    for label in ("new effects", "larger effects"):
        then, now = populations.EFFECTS[label]
        cells = []
        for n in populations.ITEMS[1:]:
            change = populations.expected_count(now, n) - populations.expected_count(then, n)
            cells.append(codes(populations.count_pair(then, now), change, n, runs))
        yield label, cells


def power_rows(runs: int = 1000, margin: float = 0.25) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield verdicts on means whose items change by about one standard deviation, by their true change."""
    for change in (0.0, 0.1, 0.25, 0.4, 0.5, 0.75):

        def draw(rng: np.random.Generator, n: int, change: float = change) -> np.ndarray:
            return rng.normal(change, 1.0, n)

        yield f"{change:g}", [codes(populations.mean_pair(draw), margin, n, runs) for n in populations.ITEMS]


def erred(found: np.ndarray) -> str:
    """Return the shares of both errors, and in brackets that of ``unchanged``, which the first holds, too."""
    same, different, _, unchanged = found
    return f"{same + unchanged:.1%} / {different:.1%}" + (f" ({unchanged:.0%})" if unchanged >= 0.005 else "")


def decided(found: np.ndarray) -> str:
    """Return the shares of same, different and undecided."""
    same, different, undecided, unchanged = found
    return f"{same + unchanged:.0%} / {different:.0%} / {undecided:.0%}"


TABLES = {"errors": (errors_rows, erred), "counts": (counts_rows, erred), "power": (power_rows, decided)}


if __name__ == "__main__":
    make_rows, shown = TABLES[sys.argv[1]]
    for title, row in make_rows():
        print(f"| {title} | {' | '.join(map(shown, row))} |", flush=True)
