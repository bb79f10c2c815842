"""How few pairs decide a gate: limits around the value of a real NLI model, from many seeds.

    python benchmarks/early_stopping.py MODEL --cache DIR [--reference 200000] [--seeds 20]

For each distance from the reference value (that of a large sample, or of the whole suite, kept in the cache) and each seed, one gate
``net_neutral at_least value -+ distance`` is measured as pytest would, without a cache: scoring stops when it is decided.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from pytest_genderbias import Limit, decided_by, load_model, load_suite, measure
from pytest_genderbias.gates.limits import judge_limit

DISTANCES = {0.02: 100, 0.05: 500, 0.1: 2000, 0.2: 2000}  #: and how many times fewer pairs are wanted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--suite", default="nli-occupation")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--reference", type=int, default=200_000)
    parser.add_argument("--seeds", type=int, default=20)
    given = parser.parse_args()
    model, suite = load_model(given.model), load_suite(given.suite)
    whole = measure(suite, model, limit=given.reference, cache=given.cache)
    value, total = whole.value, whole.n_total
    assert value is not None
    print(f"{suite.name} on {model.name}: net_neutral {value:.4f} from {whole.n:,} of {total:,} pairs")
    print(
        "| limit | side | wanted at most | median pairs | times fewer | worst seed | wrong | undecided | seconds, median | worst |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for distance, wanted in DISTANCES.items():
        for sign in (-1, 1):
            limit = value + sign * distance
            if not 0 < limit < 1:
                continue
            rows = [decide(suite, model, limit, seed) for seed in range(1, given.seeds + 1)]
            pairs = [n for n, _, _ in rows]
            expected = "pass" if sign < 0 else "regressed"
            wrong = sum(verdict not in (expected, "inconclusive") for _, verdict, _ in rows)
            undecided = sum(verdict == "inconclusive" for _, verdict, _ in rows)
            median = statistics.median(pairs)
            seconds = [s for _, _, s in rows]
            print(
                f"| {limit:.4f} | {sign * distance:+g} | {total // wanted:,} | {median:,.0f} | {total / median:,.0f} x | "
                f"{max(pairs):,} ({total / max(pairs):,.0f} x) | {wrong} | {undecided} | {statistics.median(seconds):.1f} | {max(seconds):.1f} |",
                flush=True,
            )


def decide(suite, model, limit: float, seed: int) -> tuple[int, str, float]:
    """Return how many pairs decided a gate, the verdict, and the seconds that it took."""
    gate = Limit(at_least=limit)
    start = time.perf_counter()
    found = measure(
        suite, model, seed=seed, cache=None, until=decided_by([("net_neutral", gate)], suite.family.statistics)
    )
    return found.n, judge_limit(found, gate).verdict, time.perf_counter() - start


if __name__ == "__main__":
    main()
