"""Whether a measurement is worse than what it is held against, on the same items."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import GateError
from pytest_genderbias.gates.judgement import LEVEL, WHOLE_SUITE, Finding, approximate, format_number
from pytest_genderbias.gates.policy import Correction
from pytest_genderbias.gates.verdicts import INCONCLUSIVE, NO_VALUE, PASS, REGRESSED, STALE
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.restarts import restarts_of
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums
from pytest_genderbias.statistics.inference.paired import Difference, compare_items, compare_restarts, items_to_decide
from pytest_genderbias.statistics.inference.undefined import UndefinedError

#: What two measurements must have in common, and how it is called.
MUST_AGREE = {"digest": "suite", "definition": "definition", "settings": "setting", "data": "data", "sample": "sample"}
#: Differences this small come from batches and threads, not from a model.
FLOAT_NOISE = 1e-6
#: So small a worsening of the very same weights is a case in a thousand that other batches tip over a threshold.
SAME_MODEL_NOISE = 1e-3
_MOVED_MOST = 5


class ItemSource(Protocol):
    """What a measurement, or its stored form, knows of its units."""

    @property
    def items(self) -> Mapping[str, NDArray[np.generic]]:
        """Raw arrays; those of a measurement over restarts have the values of each."""

    def item_sums(self, statistic: str) -> ItemSums:
        """Return the sums of each unit that give a statistic.

        Raises:
            UndefinedError: there are none.
        """


@dataclass(frozen=True)
class Before:
    """What a measurement is held against.

    ``name``: what it is called (``baseline``, or a model's name). ``items``: a measurement, or what was stored of one; ``None`` if
    that was too large. ``changed``: what else differs and may (dtype, tokenizer), in words. ``correction``: the
    comparisons that ``regressed`` is corrected for. ``fingerprint``: of the weights, where they are known.
    """

    name: str
    values: Mapping[str, float | None]
    items: ItemSource | None
    changed: str = ""
    correction: Correction = Correction()  # noqa: RUF009 - frozen
    accept: str = ""
    fingerprint: str | None = None


def check_tolerance(tolerance: float) -> float:
    """Refuse a tolerance that is no number of 0 or more."""
    if not isinstance(tolerance, (int, float)) or isinstance(tolerance, bool) or not 0 <= tolerance < float("inf"):
        raise GateError(f"a tolerance should be a number of 0 or more, got {tolerance!r}")
    return float(tolerance)


def worsening(measurement: Measurement, statistic: str, before: Mapping[str, float | None]) -> float | None:
    """Return how much worse a value is than before, in units of the statistic; ``None`` if either has no value."""
    old, new = before.get(statistic), measurement.values[statistic]
    about = measurement.statistics[statistic]
    return None if old is None or new is None else about.distance(new) - about.distance(old)


def find_regression(measurement: Measurement, statistic: str, before: Before, tolerance: float) -> Finding:
    """Compare a statistic with what it was, by its bounds for other items (or restarts), the same items paired.

    ``pass``: the upper bound of the worsening is at most the tolerance. ``stale``: it is below minus the tolerance. ``regressed``: the
    worsening is above the tolerance, with a p value that holds for all ``before.correction.tests``. Else ``inconclusive``. A statistic that no
    items make up is compared as it is, where all cases were scored both times.
    """
    old, new = before.values.get(statistic), measurement.values[statistic]
    side = {"higher": "+", "lower": "-", "away": "±"}[measurement.statistics[statistic].direction]
    bound = f"{before.name} {format_number(old)} {side} {tolerance:g}"
    worse = worsening(measurement, statistic, before.values)
    if worse is None:
        text = f"{statistic} has no value {'now' if new is None else f'in the {before.name}'}"
        return Finding(NO_VALUE, bound, text)
    change = "no change" if abs(worse) <= FLOAT_NOISE else f"{abs(worse):.3g} {'worse' if worse > 0 else 'better'}"
    moved = f"{statistic} {old:.6g} -> {new:.6g}, {change}, tolerance {tolerance:g}{before.changed}"
    try:
        found = item_difference(measurement, statistic, before.items, tolerance)
    except UndefinedError as error:
        return _as_a_whole(measurement, statistic, bound, worse, tolerance, before, moved, str(error))
    verdict = verdict_on(found, tolerance, before.correction.tests)
    lines = [_bounds_in_words(found, before), *_out_of_reach(found, before), *_moved_most(found)]
    if verdict == INCONCLUSIVE and _same_model(measurement, before) and abs(found.value) <= SAME_MODEL_NOISE:
        verdict, lines = PASS, [*lines, "  the same model, by its fingerprint: so small a difference is rounding"]
    settled = _settled_by(found, tolerance, before) if verdict == INCONCLUSIVE else ""
    return Finding(
        verdict, bound, moved + _advice(verdict, before), found.low, found.high, found.over, settled, found.p, before.correction.tests, found.value,
        lines,
    )  # fmt: skip


def _same_model(measurement: Measurement, before: Before) -> bool:
    print_now = measurement.signature["model"].get("fingerprint")
    return print_now is not None and print_now == before.fingerprint


def item_difference(
    measurement: Measurement, statistic: str, then: ItemSource | None, tolerance: float = 0.0
) -> Difference:
    """Return how much worse a statistic is than it was, the same units (or restarts) paired.

    Raises:
        UndefinedError: there are none, the statistic is not made of items, or these say nothing of others.
    """
    distance = _vectorised(measurement.statistics[statistic].distance)
    if then is None:
        raise UndefinedError("the statistics of its items take more than 512 KiB and were not stored")
    now_restarts, then_restarts = restarts_of(measurement.items, statistic), restarts_of(then.items, statistic)
    if now_restarts is not None and then_restarts is not None:
        if len(now_restarts) == len(then_restarts) and np.abs(now_restarts - then_restarts).max() <= FLOAT_NOISE:
            now_restarts = then_restarts = np.full(len(now_restarts), now_restarts.mean())  # the same seeds, unchanged
        found = compare_restarts(then_restarts, now_restarts, distance, tolerance, LEVEL)
        if measurement.sampled(statistic):  # the same cases on both sides, and what others would give is in no bound
            found = replace(found, over=f"{found.over}, on these {measurement.n:,} cases")
        return found
    return compare_items(
        then.item_sums(statistic), measurement.item_sums(statistic), distance, tolerance, LEVEL, FLOAT_NOISE
    )


def _vectorised(distance: Callable[[float], float]) -> Callable[[FloatArray], FloatArray]:
    """A statistic's distance is arithmetic, which does for arrays what it does for a number."""
    return distance  # type: ignore[return-value]


def verdict_on(found: Difference, tolerance: float, tests: int = 1) -> str:
    """Return the verdict on a worsening: one rule for every comparison with a baseline or another model.

    ``pass`` if its upper bound is at most the tolerance, ``stale`` if that is below minus the tolerance. ``regressed`` if its lower
    bound is above, with a p value of at most 5 % divided by the number of tests (Bonferroni: Dunn 1961). Else ``inconclusive``.

    Args:
        found: the worsening and its bounds.
        tolerance: the worsening that is allowed, 0 or more, in units of the statistic.
        tests: how many such comparisons ``regressed`` is corrected for.

    >>> nothing = np.zeros(0), np.zeros(0, dtype=np.str_)
    >>> found = Difference(0.1, 0.05, 0.15, 0.02, 1.0, 25, 25, "", "items", *nothing)
    >>> verdict_on(found, 0.2), verdict_on(found, 0.04), verdict_on(found, 0.04, tests=3)
    ('pass', 'regressed', 'inconclusive')
    """
    if found.high <= tolerance + FLOAT_NOISE:
        return STALE if found.high < -tolerance - FLOAT_NOISE else PASS
    return REGRESSED if found.low > tolerance and found.p <= _cut(tests) else INCONCLUSIVE


def _cut(tests: int) -> float:
    """Return the largest p value that counts, of as many tests."""
    return (1 - LEVEL) / tests


def _as_a_whole(
    measurement: Measurement, statistic: str, bound: str, worse: float, tolerance: float, before: Before, moved: str, why: str,
) -> Finding:  # fmt: skip
    """Judge without items: the figures are exact for the suite's own cases if all were scored, and decide nothing else."""
    if measurement.restarts and abs(worse) > FLOAT_NOISE:
        return Finding(
            INCONCLUSIVE, bound, f"{moved}; {why}", over="other restarts",
            settled_by="three restarts or more, better five (seeds: 5), on both sides", difference=worse,
        )  # fmt: skip
    if measurement.n < measurement.n_total and abs(worse) > FLOAT_NOISE:
        return Finding(
            INCONCLUSIVE, bound, f"{moved}; {why}, and {measurement.n:,} of {measurement.n_total:,} cases decide nothing without them",
            over=WHOLE_SUITE, settled_by=f"all {measurement.n_total:,} cases (no limit), in a new baseline", difference=worse,
        )  # fmt: skip
    verdict = REGRESSED if worse > tolerance + FLOAT_NOISE else STALE if worse < -tolerance - FLOAT_NOISE else PASS
    part = f"{measurement.n:,} of {measurement.n_total:,}" if measurement.n < measurement.n_total else "all of them"
    lines = [f"  compared as they are, on the suite's own cases, {part}, and no other items: {why}"]
    over = f"{WHOLE_SUITE}, {part}" if measurement.n < measurement.n_total else measurement.of_all_cases(statistic)
    text = moved + _advice(verdict, before)
    return Finding(verdict, bound, text, worse, worse, over, difference=worse, lines=lines)


def _advice(verdict: str, before: Before) -> str:
    if not before.accept:
        return ""
    if verdict == STALE:
        return "; the baseline is out of date: refresh it with --bias-update"
    return f'; to accept it: {before.accept} --bias-reason="why"' if verdict in (REGRESSED, INCONCLUSIVE) else ""


def _bounds_in_words(found: Difference, before: Before) -> str:
    cut = _cut(before.correction.tests)
    corrected = f"{cut:.2g} or less" + (
        f", 0.05 for {before.correction.tests} {before.correction.what}" if before.correction.tests > 1 else ""
    )
    return (
        f"  worsening {found.value:.4g}, one-sided 95 % bounds {found.low:.4g} and {found.high:.4g} over {found.over} "
        f"({found.items} of them, {found.moved} moved; {found.method}); p = {found.p:.2g} against a worsening within the tolerance, regressed at {corrected}"
    )


def _out_of_reach(found: Difference, before: Before) -> list[str]:
    """Say so if no worsening could be called regressed, as the method has no p value that counts among so many tests."""
    cut = _cut(before.correction.tests)
    if found.least_p <= cut:
        return []
    most = int((1 - LEVEL) / found.least_p + 1e-9)
    return [
        f"  no p of this method is small enough for 'regressed' with {before.correction.tests} {before.correction.what}: it is {found.least_p:.2g} at least, "
        f"and has to be {cut:.2g}; correct for at most {most} (--bias-correct-for=module, none, or a number)"
    ]


def _settled_by(found: Difference, tolerance: float, before: Before) -> str:
    """Say what would decide, if the difference stays where it is."""
    if found.low > tolerance:  # but for the correction it is decided
        wider = f"a tolerance of {_round_up(found.high):g}"
        return f"more {found.over}, fewer comparisons (--bias-correct-for: now {before.correction.tests} {before.correction.what}), or {wider}"
    needed = items_to_decide(found, tolerance)
    more = "" if needed is None else f"{approximate(needed)} {found.over}, if the difference stays where it is; or "
    return f"{more}a tolerance of {_round_up(found.high):g}"


def _moved_most(found: Difference) -> list[str]:
    order = np.argsort(-np.abs(found.changes), kind="stable")[:_MOVED_MOST]
    moved = [f"{found.labels[i]} ({found.changes[i]:+.3g})" for i in order if found.changes[i]]
    return [f"  {found.over} that moved most (+ is worse): {', '.join(moved)}"] if moved else []


def _round_up(value: float) -> float:
    """Return a number of two figures that is not below ``value``."""
    if value <= 0:
        return 0.0
    unit = 10.0 ** (np.floor(np.log10(value)) - 1)
    return float(np.ceil(value / unit - 1e-9) * unit)


def different(measurement: Measurement, statistic: str, then: Mapping[str, Any], keys: Mapping[str, str]) -> list[str]:
    """Return in words what keeps two signatures from being compared: ``keys`` are those that must agree."""
    now = {**measurement.signature, "data": _data_of(measurement.signature["data"], statistic, measurement)}
    was = {**then, "data": _data_of(then.get("data", {}), statistic, measurement)}
    return [
        f"{word}: {name}{_short(old)} stored, {_short(new)} now"
        for key, word in keys.items()
        for name, old, new in _changed(was.get(key), now[key])
    ]


def _changed(was: Any, now: Any) -> list[tuple[str, Any, Any]]:
    """Return what differs: of two mappings only the keys that do, each with a space behind it."""
    if not (isinstance(was, Mapping) and isinstance(now, Mapping)):
        return [("", was, now)] if was != now else []
    names = sorted({*was, *now})
    return [(f"{name} ", was.get(name), now.get(name)) for name in names if was.get(name) != now.get(name)]


def _data_of(data: Mapping[str, Any], statistic: str, measurement: Measurement) -> dict[str, Any]:
    """Return the data that a statistic is of: those named like another statistic (accuracy, perplexity) are only that one's."""
    return {name: value for name, value in data.items() if name == statistic or name not in measurement.statistics}


def _short(value: Any) -> str:
    return value[:12] if isinstance(value, str) else json.dumps(value, sort_keys=True)
