"""Ten releases in a row, each gated and then accepted: how far their values drift, with and without the anchor of the
baseline.

    python tests/simulations/drift.py [--rows 80] [--seed 1]

Each release scores the same 60 items. Its items differ from those of the true model by chance, as those of a retrained
model do; the true value worsens by the same step in each release, or by none. A release that its gate passes is
accepted without a reason, and becomes the baseline of the next one. A release that fails is not accepted; the next one
is compared with the same baseline. The table is in docs/evidence/coverage-drift.md.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.gates.policy import Margin
from pytest_genderbias.gates.regression import code_of_worsening
from pytest_genderbias.gates.verdicts import Correction, passes
from pytest_genderbias.statistics.inference.item_sums import FloatArray, mean_sums
from pytest_genderbias.statistics.inference.paired import compare_items

RELEASES, ITEMS, REPEATS = 10, 60, 999
LABELS: NDArray[np.str_] = np.array([f"item {i}" for i in range(ITEMS)])


class Case(NamedTuple):
    """A drift to simulate: the step and the margin in units of the statistic, and the standard deviation of an item
    between trainings.
    """

    step: float
    margin: float
    spread: float


CASES = (
    Case(0.016, 0.02, 0.004),
    Case(0.008, 0.02, 0.01),
    Case(0.004, 0.02, 0.01),
    Case(0.0, 0.02, 0.01),
    Case(0.0, 0.02, 0.04),
)


@dataclass(frozen=True)
class Row:
    """What became of one row of releases: how many failed, and how much worse the last accepted one truly is than the
    first.
    """

    failed: int
    drift: float


def release_row(case: Case, anchored: bool, rng: np.random.Generator) -> Row:
    """Return what becomes of a row of releases, with the anchor or without it."""
    base = rng.uniform(0.1, 0.4, ITEMS)
    first = base + rng.normal(0, case.spread, ITEMS)
    stored, true, accepted, failed = first, 0.0, 0.0, 0
    for _ in range(RELEASES):
        true += case.step
        now = base + true + rng.normal(0, case.spread, ITEMS)
        left = stored is not first
        against = [stored, first] if anchored and left else [stored]
        if all(_passes(then, now, case.margin, len(against)) for then in against):
            stored, accepted = now, true
        else:
            failed += 1
    return Row(failed, accepted)


def _passes(then: FloatArray, now: FloatArray, margin: float, tests: int) -> bool:
    sums = (mean_sums(LABELS, values, np.ones(ITEMS), "items") for values in (then, now))
    level = Correction(tests).level
    difference = compare_items(*sums, lambda value: value, margin, level, repeats=REPEATS)
    return passes(code_of_worsening(difference, Margin(margin)))


def simulate(rows: int, seed: int, cases: tuple[Case, ...] = CASES) -> list[tuple[Case, bool, float, float, float]]:
    """Return for each case, without and with the anchor: share of failed releases, mean drift, and share of rows beyond
    the margin.
    """
    table = []
    for case in cases:
        for anchored in (False, True):
            rng = np.random.default_rng(seed)
            outcomes = [release_row(case, anchored, rng) for _ in range(rows)]
            drift = np.array([row.drift for row in outcomes])
            failed = sum(row.failed for row in outcomes) / (rows * RELEASES)
            table.append((case, anchored, failed, float(drift.mean()), float((drift > case.margin + 1e-9).mean())))
    return table


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    start = time.monotonic()
    print(
        "| worse each release | margin | items vary by | anchor | releases that fail | drift of what was accepted |"
        " beyond the margin |"
    )
    print("|---|---|---|---|---|---|---|")
    for case, anchored, failed, drift, beyond in simulate(arguments.rows, arguments.seed):
        print(
            f"| {case.step:g} | {case.margin:g} | {case.spread:g} | {'yes' if anchored else 'no'} | {100 * failed:.1f}"
            f" % | {drift:.3f} | {100 * beyond:.1f} % |",
            flush=True,
        )
    print(
        f"{arguments.rows} rows of {RELEASES} releases, {ITEMS} items, seed {arguments.seed},"
        f" {time.monotonic() - start:.0f} s"
    )


if __name__ == "__main__":
    main()
