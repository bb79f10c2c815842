"""Combine measurements of several restarts of a training: their mean, and an interval for other restarts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.statistics.inference.intervals import Interval, restart_interval
from pytest_genderbias.statistics.inference.item_sums import Arrays, Entry, FloatArray, ItemSums, SumsByStatistic
from pytest_genderbias.statistics.inference.two_way import is_crossed
from pytest_genderbias.statistics.right_answers import over_restarts
from pytest_genderbias.suites.summary import Record

#: Prefix of the arrays that hold the values of a statistic by restart; of the sums of a restart, ``restart.2.NAME`` of
#: the third.
RESTART = "restart."
#: Prefix of the arrays that a baseline has of restarts whose place others took: the standard deviation of a statistic
#: over them, and its degrees of freedom, shape (2,).
EARLIER = "earlier."
_MOST_BY_TEMPLATE = 8192  #: values of a restart, so that those of ten fit into the item file of a baseline
_NO_SUMS = "the values of its restarts are compared, and not its units"
_FEW, _ALIKE = "fewer than three restarts", "all restarts gave the same"
_SAMPLED = (
    "{:,} of {:,} cases were scored, the same in every restart, and what a sample of it says about all of them is not"
    " known"
)


def restarts_of(items: Arrays, statistic: str) -> FloatArray | None:
    """Return the values of a statistic by restart, shape (restarts,), from the arrays of a measurement; ``None``
    without restarts.
    """
    values = items.get(f"{RESTART}{statistic}")
    return None if values is None else np.asarray(values, dtype=np.float64)


def sums_of_restarts(item_sums: Callable[[str], ItemSums], statistic: str, restarts: int) -> list[ItemSums]:
    """Return the sums of each unit in each restart, as :func:`combine_restarts` keeps them.

    Args:
        item_sums: method of a measurement over restarts, or of what was stored of it.
        statistic: name of the statistic.
        restarts: their number.

    Raises:
        UndefinedError: there are none, as where they did not fit into an item file.
    """
    return [item_sums(name_in_restart(k, statistic)) for k in range(restarts)]


def name_in_restart(restart: int, statistic: str) -> str:
    """Return the name of the sums of a statistic in a restart.

    >>> name_in_restart(2, "share")
    'restart.2.share'
    """
    return f"{RESTART}{restart}.{statistic}"


def combine_restarts(measurements: Sequence[Measurement], seeds: Sequence[int], spec: str | None = None) -> Measurement:
    """Return the measurement over restarts: means as values, intervals over restarts, and what each restart gave.

    The values of each restart are in ``items``, and the sums of its units in ``sums``, under names of their own.

    If the cases are a sample, intervals are widened by the uncertainty about the other cases, or ``None`` where that is
    unknown. A statistic that one restart lacks has no value. Records of the first restart follow those on the restarts.
    There is no null control.

    Args:
        measurements: one for each restart, of one suite, with the same settings except the seed.
        seeds: their seeds, for the notes.
        spec: the spec of all their models (``runs/seed-{seed}``); by default that of the first.
    """
    first = measurements[0]
    values: dict[str, float | None] = {}
    intervals: dict[str, Interval | None] = {}
    reasons: dict[str, str] = {}
    items: dict[str, NDArray[np.generic]] = {"seed": np.asarray(seeds, dtype=np.int64)}
    records: list[Record] = []
    for name in first.values:
        by_seed = [m.values[name] for m in measurements]
        defined = np.asarray([v for v in by_seed if v is not None])
        if len(defined) < len(by_seed):
            values[name], intervals[name], reasons[name] = None, None, _why_missing(name, measurements, seeds)
            continue
        mean = float(defined.mean())
        values[name], interval = mean, restart_interval(defined)
        if interval is None:
            reasons[name] = _FEW if len(defined) < 3 else _ALIKE
        elif first.sampled(name):
            interval = _widened(interval, defined, [m.bounds[name] for m in measurements])
            if interval is None:
                reasons[name] = _SAMPLED.format(first.n, first.n_total)
        intervals[name] = interval
        items[RESTART + name] = defined
        spread = float(defined.std(ddof=1)) if len(defined) > 1 else 0.0
        record = {"slice": "restarts", "statistic": name, "mean": mean, "standard_deviation": spread}
        records.append({**record, "by_seed": [float(v) for v in defined]})
    return replace(
        first,
        values=values,
        intervals=intervals,
        bounds=dict.fromkeys(values),
        reasons=reasons,
        items=items,
        sums=_sums_by_restart(measurements),
        records=[*records, *first.records],
        signature=_signature(measurements, spec),
        examples={},
        notes=(f"mean over {len(seeds)} restarts, seeds {', '.join(map(str, seeds))}", *first.notes),
        null={},
        abilities=over_restarts([m.abilities for m in measurements]),
    )


def _why_missing(name: str, measurements: Sequence[Measurement], seeds: Sequence[int]) -> str:
    """Return why the first of the restarts without a value of a statistic has none, and the seeds of the others."""
    lacking = {str(seed): one for seed, one in zip(seeds, measurements, strict=True) if one.values[name] is None}
    first, *others = lacking
    also = f"; no value of seed {', '.join(others)} either" if others else ""
    return f"{lacking[first].reasons.get(name, 'no value')} (seed {first} of {len(seeds)} restarts{also})"


def _sums_by_restart(measurements: Sequence[Measurement]) -> SumsByStatistic:
    """Return the sums of the units of each restart. They are computed when they are asked for, as those of one
    measurement.
    """
    entries: dict[str, Entry] = dict.fromkeys(measurements[0].values, _NO_SUMS)
    for k, measurement in enumerate(measurements):
        made = measurement.sums.entries
        entries.update({name_in_restart(k, name): partial(_smooth_sums, entry) for name, entry in made.items()})
    return SumsByStatistic(entries)


def _smooth_sums(entry: Entry) -> ItemSums:
    """Return sums with one row a unit; also by template, where these are not many and a source of variance.

    Raises:
        UndefinedError: they can be compared with nothing: the statistic is no smooth function of them.
    """
    if isinstance(entry, str):
        raise UndefinedError(entry)
    sums = entry if isinstance(entry, ItemSums) else entry()
    if not sums.smooth:
        raise UndefinedError("a count of tests: the values of its restarts are compared, and not its units")
    return sums if is_crossed(sums) and sums.sums.size <= _MOST_BY_TEMPLATE else sums.by_unit()


def _widened(interval: Interval, values: FloatArray, bounds: Sequence[Interval | None]) -> Interval | None:
    """Return the interval over restarts for all cases, from the interval on a sample; ``None`` if a restart has no
    bounds for all cases.

    Restarts may share the sample, and then their spread does not show its error. So the mean distance of the bounds
    from the value is added on each side. By Bonferroni, two levels of .95 give .90 for both sides, and .95 for one
    side.
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
    """Return the signature of the first restart, with the number of restarts and a fingerprint of all models, if each
    has one.
    """
    first = measurements[0].signature
    prints = [m.signature["model"]["fingerprint"] for m in measurements]
    sample = next((m.signature["sample"] for m in measurements if m.stopped), first["sample"])
    together = prints[0]
    if len(set(prints)) > 1:
        together = None if None in prints else hashlib.sha256("\n".join(prints).encode()).hexdigest()
    return {
        **first,
        "sample": sample,
        "settings": {**first["settings"], "restarts": len(measurements)},
        "model": {**first["model"], "fingerprint": together, "spec": spec or first["model"].get("spec")},
    }
