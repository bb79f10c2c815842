"""Rates of false alarms and of detected regressions of gates, on the stored scores of a real NLI model.

    python benchmarks/gate_power.py MODEL --cache DIR [--reference 200000]

The scores of a large sample serve as the population: its mean is known, and other random orders of it need no forward
pass.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

from pytest_genderbias import load_model, load_suite
from pytest_genderbias.gates.judgement import decide
from pytest_genderbias.gates.policy import Margin
from pytest_genderbias.gates.regression import code_of_worsening
from pytest_genderbias.gates.verdicts import BETTER, ONE_SIDED, OVER_LIMIT, REGRESSED, TOO_FEW, UNCHANGED, WITHIN
from pytest_genderbias.measurement.plan import plan_measurement
from pytest_genderbias.scoring.engine import ScoreSettings, answer
from pytest_genderbias.statistics.inference.item_sums import mean_sums
from pytest_genderbias.statistics.inference.paired import compare_items
from pytest_genderbias.statistics.inference.sequences import mean_bounds
from pytest_genderbias.statistics.neutrality import NEUTRAL

BUDGET, ORDERS = 20_000, 500
FALLS, SIZES, MARGINS, DRAWS = (0.0, 0.01, 0.03, 0.05), (3_000, 20_000), (None, 0.01, 0.02), 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--suite", default="nli-occupation")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--reference", type=int, default=200_000)
    options = parser.parse_args()
    p, premise, names = stored_scores(options.model, options.suite, options.cache, options.reference)
    print(f"{options.suite}: {len(p):,} pairs, net_neutral {p.mean():.4f}, {len(names)} premise words")
    false_alarms(p)
    print()
    planted(p, premise, names)


def stored_scores(name: str, suite_name: str, cache: Path, n: int):
    """Return the probability of neutral of each pair, the index of its premise word, and the premise words."""
    model, suite = load_model(name), load_suite(suite_name)
    plan = plan_measurement(suite, model.name, model.role)
    scores, _ = answer(plan.questions["cases"], model, suite.digest, ScoreSettings(limit=n, cache=cache), "scores")
    column = suite.body.subjects[0]
    words = np.asarray([word.label for word in scores.cases.words[column]])
    return scores.values[:, 0, NEUTRAL].astype(np.float64), scores.cases.columns(scores.units)[column], words


def false_alarms(p: np.ndarray) -> None:
    """Set limits exactly at the mean of all pairs, so that every early decision is due to chance."""
    print(f"Limits exactly at the value, {ORDERS} random orders, at most {BUDGET:,} pairs each")
    print(
        "| statistic | value | decided 'at least' | wrongly over the limit | decided 'at most' | wrongly over the"
        " limit |"
    )
    print("|---|---|---|---|---|---|")
    for statistic, scores in {
        "net_neutral": p,
        "threshold_0.5": (p > 0.5).astype(float),
        "threshold_0.7": (p > 0.7).astype(float),
    }.items():
        value, counted = float(scores.mean()), {"least": Counter(), "most": Counter()}
        for seed in range(ORDERS):
            drawn = np.random.default_rng([7, seed]).permutation(len(scores))[:BUDGET]
            # Bounds never widen, so a decision at an earlier look shows here, too.
            low, high = mean_bounds(scores[drawn], len(scores))
            counted["least"][decide(low, high, value, np.inf)] += 1
            counted["most"][decide(low, high, -np.inf, value)] += 1
        shares = []
        for codes in counted.values():
            shares += [f"{(ORDERS - codes[TOO_FEW]) / ORDERS:.1%}", f"{codes[OVER_LIMIT] / ORDERS:.1%}"]
        print(f"| {statistic} | {value:.4f} | {' | '.join(shares)} |", flush=True)


def planted(p: np.ndarray, premise: np.ndarray, names: np.ndarray) -> None:
    """Lower the neutral logit until the mean falls by a given amount, and compare the same pairs before and after."""
    print(f"The neutral logit lowered until net_neutral falls, {DRAWS} samples of pairs; one baseline entry")
    print("| falls by | pairs | margin | regressed | too few cases | pass | better |")
    print("|---|---|---|---|---|---|---|")
    for fall in FALLS:
        now = lowered(p, fall)
        for size in SIZES:
            codes = {margin: Counter() for margin in MARGINS}
            for draw in range(DRAWS):
                sample = np.random.default_rng([11, draw]).permutation(len(p))[:size]
                for margin in MARGINS:
                    codes[margin][code(p[sample], now[sample], premise[sample], names, margin)] += 1
            for margin, counts in codes.items():
                counts[WITHIN] += counts[UNCHANGED]
                shares = " | ".join(f"{counts[name] / DRAWS:.0%}" for name in (REGRESSED, TOO_FEW, WITHIN, BETTER))
                print(f"| {fall:g} | {size:,} | {'none' if margin is None else margin} | {shares} |", flush=True)


def lowered(p: np.ndarray, fall: float) -> np.ndarray:
    """Return the probabilities of neutral after lowering its logit until their mean falls by ``fall``."""

    def shifted(by: float) -> np.ndarray:
        return p * np.exp(-by) / (p * np.exp(-by) + 1 - p)

    return p if fall == 0 else shifted(brentq(lambda by: shifted(by).mean() - p.mean() + fall, 0, 20))


def code(then: np.ndarray, now: np.ndarray, premise: np.ndarray, names: np.ndarray, margin: float | None) -> str:
    """Return the code of the gate for one baseline entry, of a copy of the same training."""
    counts = np.bincount(premise, minlength=len(names))
    sums = [np.bincount(premise, weights=scores, minlength=len(names)) for scores in (then, now)]
    difference = compare_items(
        *(mean_sums(names, total, counts, "premise words") for total in sums),
        lambda value: 1 - value,
        margin or 0.0,
        ONE_SIDED,
    )
    return code_of_worsening(difference, Margin(margin))


if __name__ == "__main__":
    main()
