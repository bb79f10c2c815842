"""Number of pairs that decide a gate: limits around the value of a real NLI model, with many seeds.

    python benchmarks/early_stopping.py MODEL --cache DIR [--reference 200000] [--seeds 20]

The reference value is that of a large sample or of the whole suite, and is cached. For each distance from it and each
seed, one gate ``net_neutral at_least value -+ distance`` is measured as under pytest, without a cache: scoring stops as
soon as the gate is decided.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from pytest_genderbias import Limit, decided_by, load_model, load_suite, measure
from pytest_genderbias.gates.limits import judge_limit

DISTANCES = {
    0.02: 100,
    0.05: 500,
    0.1: 2000,
    0.2: 2000,
}  #: distance from the value, and the wanted reduction of the number of pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--suite", default="nli-occupation")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--reference", type=int, default=200_000)
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    model, suite = load_model(options.model), load_suite(options.suite)
    whole = measure(suite, model, limit=options.reference, cache=options.cache)
    value, total = whole.value, whole.n_total
    assert value is not None
    print(f"{suite.name} on {model.name}: net_neutral {value:.4f} from {whole.n:,} of {total:,} pairs")
    print(
        "| limit | side | wanted at most | median pairs | times fewer | worst seed | wrong | undecided | seconds,"
        " median | worst |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for distance, wanted in DISTANCES.items():
        for sign in (-1, 1):
            limit = value + sign * distance
            if not 0 < limit < 1:
                continue
            rows = [decide(suite, model, limit, seed) for seed in range(1, options.seeds + 1)]
            pairs = [n for n, _, _ in rows]
            expected = "within" if sign < 0 else "over_limit"
            wrong = sum(code not in (expected, "too_few") for _, code, _ in rows)
            undecided = sum(code == "too_few" for _, code, _ in rows)
            median = statistics.median(pairs)
            seconds = [s for _, _, s in rows]
            print(
                f"| {limit:.4f} | {sign * distance:+g} | {total // wanted:,} | {median:,.0f} | {total / median:,.0f} x"
                f" | {max(pairs):,} ({total / max(pairs):,.0f} x) | {wrong} | {undecided} |"
                f" {statistics.median(seconds):.1f} | {max(seconds):.1f} |",
                flush=True,
            )


def decide(suite, model, limit: float, seed: int) -> tuple[int, str, float]:
    """Return the number of pairs that decided a gate, the code, and the time in seconds."""
    gate = Limit(at_least=limit)
    start = time.perf_counter()
    measurement = measure(
        suite, model, seed=seed, cache=None, until=decided_by([("net_neutral", gate)], suite.statistics)
    )
    return measurement.n, judge_limit(measurement, gate).code, time.perf_counter() - start


if __name__ == "__main__":
    main()
