"""A measurement over several restarts of a training: their mean, and what other restarts would give."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.statistics.inference.intervals import Interval, restart_interval
from pytest_genderbias.statistics.inference.item_sums import FloatArray
from pytest_genderbias.statistics.inference.packed_sums import SumsByStatistic
from pytest_genderbias.suites.summary import Record

RESTART = "restart."  #: items of a measurement over restarts are its values, under this and the statistic's name
_NO_SUMS = "the values of its restarts are compared, and not its units"
_FEW, _ALIKE = "fewer than three restarts", "all restarts gave the same"
_SAMPLED = "{:,} of {:,} cases were scored, the same in every restart, and what a sample of it says about all of them is not known"


def restarts_of(items: Mapping[str, Any], statistic: str) -> Any:
    """Return the values of a statistic by restart, from the items of a measurement with ``seeds``; ``None`` of any other."""
    return items.get(f"{RESTART}{statistic}")


def combine_restarts(measurements: Sequence[Measurement], seeds: Sequence[int], spec: str | None = None) -> Measurement:
    """Return the measurement over restarts: means as values, intervals over restarts, and the values of each among the items.

    Args:
        measurements: one a restart, of one suite, with the same settings but for the seed.
        seeds: their seeds, for the notes.
        spec: what names all their models (``runs/seed-{seed}``); the first one's by default.

    Where the cases are a sample, intervals are widened by what is not known of all of them, or there are none. A value that one of
    them lacks is lacking. The records of the first follow those of the restarts. There is no null control.
    """
    first = measurements[0]
    values: dict[str, float | None] = {}
    intervals: dict[str, Interval | None] = {}
    reasons: dict[str, str] = {}
    items: dict[str, Any] = {"seed": np.asarray(seeds, dtype=np.int64)}
    records: list[Record] = []
    for name in first.values:
        found = [m.values[name] for m in measurements]
        given = np.asarray([v for v in found if v is not None])
        if len(given) < len(found):
            lacking = next(i for i, v in enumerate(found) if v is None)
            values[name], intervals[name] = None, None
            reasons[name] = f"seed {seeds[lacking]}: {measurements[lacking].reasons.get(name, 'no value')}"
            continue
        values[name], around = float(given.mean()), restart_interval(given)
        if around is None:
            reasons[name] = _FEW if len(given) < 3 else _ALIKE
        elif first.sampled(name):
            around = _widened(around, given, [m.bounds[name] for m in measurements])
            if around is None:
                reasons[name] = _SAMPLED.format(first.n, first.n_total)
        intervals[name] = around
        items[RESTART + name] = given
        spread = float(given.std(ddof=1)) if len(given) > 1 else 0.0
        records.append(
            {"slice": "restarts", "statistic": name, "mean": values[name], "standard_deviation": spread, "by_seed": [float(v) for v in given]}
        )  # fmt: skip
    return replace(
        first, values=values, intervals=intervals, bounds=dict.fromkeys(values), reasons=reasons, items=items,
        sums=SumsByStatistic(dict.fromkeys(values, _NO_SUMS)),
        records=[*records, *first.records], signature=_signature(measurements, spec),
        notes=(f"mean over {len(seeds)} restarts, seeds {', '.join(map(str, seeds))}", *first.notes), null={},
    )  # fmt: skip


def _widened(interval: Interval, values: FloatArray, bounds: Sequence[Interval | None]) -> Interval | None:
    """Return the interval over restarts on all cases, from that on a sample of them; ``None`` if one has no bounds for all cases.

    All restarts may share their cases, whose error no spread over restarts shows: the mean reach of the bounds is added on each
    side. By Bonferroni the level is what is left of both, .90 of .95 and .95; of one side it is .95.
    """
    known = [b for b in bounds if b is not None]
    if len(known) < len(bounds):
        return None
    below = float(np.mean(values - [b.low for b in known]))
    above = float(np.mean([b.high for b in known] - values))
    level = round(interval.level + min(b.level for b in known) - 1, 6)
    method = f"{interval.method}, widened by the mean reach of the bounds for all cases ({known[0].method})"
    return replace(interval, low=interval.low - below, high=interval.high + above, level=level, method=method)


def _signature(measurements: Sequence[Measurement], spec: str | None) -> dict[str, Any]:
    """Return the first one's, with the number of restarts and the fingerprint of all models."""
    first = measurements[0].signature
    prints = [str(m.signature["model"]["fingerprint"]) for m in measurements]
    sample = next((m.signature["sample"] for m in measurements if m.stopped), first["sample"])
    together = hashlib.sha256("\n".join(prints).encode()).hexdigest() if len(set(prints)) > 1 else prints[0]
    return {
        **first,
        "sample": sample,
        "settings": {**first["settings"], "restarts": len(measurements)},
        "model": {**first["model"], "fingerprint": together, "spec": spec or first["model"].get("spec")},
    }
