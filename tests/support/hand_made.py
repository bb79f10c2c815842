"""Measurements that are made by hand, without a model: a mean over items, in a moment."""

from __future__ import annotations

from typing import Any

import numpy as np

from pytest_genderbias.measurement.measurement import ALL_CASES, Measurement
from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.statistics.inference.item_sums import SumsByStatistic, mean_sums
from pytest_genderbias.suites.statistic import Statistic

ITEMS = 12


def hand_made(shift: float = 0.0, suite: str = "tiny", model: str = "m", **changes: Any) -> Measurement:
    """Return a measurement of ``share``, where higher is worse: the mean of 12 items, all of them ``shift`` above those
    of 0.
    """
    scores = np.linspace(0.1, 0.4, ITEMS) + shift
    labels = np.array([f"item {i}" for i in range(ITEMS)])
    value = float(scores.mean())
    content: dict[str, Any] = {
        "suite": suite,
        "model": model,
        "values": {"share": value},
        "intervals": {"share": Interval(value - 1e-6, value + 1e-6, 0.95, "items", "by hand")},
        "bounds": {"share": Interval(value, value, 1.0, ALL_CASES, "exact")},
        "reasons": {},
        "statistics": {"share": Statistic("higher", 0.0, "a share")},
        "n": ITEMS,
        "n_total": ITEMS,
        "records": [],
        "items": {},
        "signature": {
            "suite": suite,
            "digest": "d",
            "definition": "tiny/1",
            "settings": {"seed": 0},
            "data": {},
            "sample": {"n": ITEMS, "of": ITEMS},
            "model": {"fingerprint": f"f{shift}", "spec": "runs/tiny"},
        },
        "sums": SumsByStatistic({"share": mean_sums(labels, scores, np.ones(ITEMS), "items")}),
    }
    return Measurement(**{**content, **changes})
