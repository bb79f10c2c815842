"""The check that two measurements may be compared: that they are of the same, and that chance raises both alike."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.gates.verdicts import LEVEL
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.statistics.inference.item_sums import ItemSums, KnownSums, align
from pytest_genderbias.statistics.inference.paired import Difference

#: The keys of a signature that must be equal for two measurements to be compared, and their names in messages.
MUST_AGREE = {"digest": "suite", "definition": "definition", "settings": "setting", "data": "data", "sample": "sample"}
_DEFAULT = "the default"  # of an option that a signature does not have
_MAY_DIFFER = ("architecture", "tokenizer", "pooling", "max_length", "dtype", "device", "runtime", "text_ends")
_DIGEST = re.compile(r"[0-9a-f]{16,}")  #: of which the beginning is shown
#: The largest share of cases that may be counted for another class. Chance errors shrink with the root of a count, so
#: that they move by half of this share at most.
MOST_MOVED = 0.05


def different(measurement: Measurement, statistic: str, before: Mapping[str, Any]) -> list[str]:
    """Return in words what keeps a measurement from being compared with one that has the signature ``before``.

    Each text ends in the two values, ``... stored, ... now``; without a difference the list is empty.
    """
    now, then = (
        dict(
            signature,
            data=_data_of(signature["data"], statistic, measurement),
            settings=comparable_settings(signature["settings"]),
        )
        for signature in (measurement.signature, before)
    )
    return [
        f"{word}: {name}{_short(old)} stored, {_short(new)} now"
        for key, word in MUST_AGREE.items()
        for name, old, new in _changed(then.get(key), now[key], _DEFAULT if key == "settings" else None)
    ]


def comparable_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings without the number of restarts, which may differ between two measurements that are compared.

    >>> comparable_settings({"seed": 0, "restarts": 3})
    {'seed': 0}
    """
    return {name: value for name, value in settings.items() if name != "restarts"}


def other_conditions(measurement: Measurement, model: Mapping[str, object]) -> str:
    """Return in words what differs between the models and may differ, as ``" (changed: dtype ...)"``; or an empty
    text.
    """
    now = measurement.signature["model"]
    changed = [f"{key} {model.get(key)} -> {now.get(key)}" for key in _MAY_DIFFER if model.get(key) != now.get(key)]
    return f" (changed: {', '.join(changed)})" if changed else ""


def _changed(then: object, now: object, absent: str | None) -> list[tuple[str, object, object]]:
    """Return what differs: of two mappings only the keys that do, each followed by a space, and ``absent`` for a
    missing one.
    """
    if not (isinstance(then, Mapping) and isinstance(now, Mapping)):
        return [("", then, now)] if then != now else []
    names = sorted({*then, *now})
    return [
        (f"{name} ", then.get(name, absent), now.get(name, absent)) for name in names if then.get(name) != now.get(name)
    ]


def _data_of(data: Mapping[str, object], statistic: str, measurement: Measurement) -> dict[str, object]:
    """Return the data of a statistic: data that bear the name of another statistic (accuracy, perplexity) belong to
    that one.
    """
    return {name: value for name, value in data.items() if name == statistic or name not in measurement.statistics}


def _short(value: object) -> str:
    if not isinstance(value, str):
        return json.dumps(value, sort_keys=True)
    return value[:12] if _DIGEST.fullmatch(value) else value


def why_chance_moved(
    measurement: Measurement,
    statistic: str,
    then: KnownSums | None,
    now: KnownSums | None,
    compare: Callable[[str], Difference],
) -> str:
    """Explain why chance raises the statistic differently than before, and what to gate instead. Return "" if it does
    not.

    Sums of absolute gaps and of distances are above 0 by chance, and farther above the more mistakes a model makes, and
    the fewer cases a rate is of.

    Args:
        measurement: the measurement of today.
        statistic: name of the statistic.
        then: its sums in the baseline or on the other model, or why there are none.
        now: its sums now.
        compare: function that returns the worsening of another statistic since then, or raises UndefinedError.
    """
    about = measurement.statistics[statistic]
    if about.mistakes is None:
        return ""
    reason = _mistakes_moved(about.mistakes, compare) or _counts_moved(then, now)
    if not reason:
        return ""
    advice = "" if about.without_chance is None else f"; gate {about.without_chance}, which chance does not raise"
    return f"{reason}, so that chance alone moves {statistic}{advice}"


def _mistakes_moved(mistakes: str, compare: Callable[[str], Difference]) -> str:
    """Return how the statistic of the mistakes moved, if chance does not explain it (two-sided, at 5 %)."""
    try:
        difference = compare(mistakes)
    except UndefinedError as error:
        return f"it is not known whether {mistakes} moved ({error})"
    p = min(1.0, 2 * min(difference.p, difference.p_better))
    if not difference.moved or p > 1 - LEVEL:
        return ""
    return f"{mistakes} is {abs(difference.value):.3g} {'worse' if difference.value > 0 else 'better'} (p = {p:.2g})"


def _counts_moved(then: KnownSums | None, now: KnownSums | None) -> str:
    """Return which share of the cases is counted for another class, if it is too large."""
    if not (isinstance(then, ItemSums) and isinstance(now, ItemSums)):
        return ""
    counts = [side.by_unit().trials() for side in align(then, now)]
    if counts[0] is None or counts[1] is None:
        return ""
    share = float(np.abs(counts[1] - counts[0]).sum() / max(1.0, counts[0].sum(), counts[1].sum()))
    if share <= MOST_MOVED:
        return ""
    return f"the cases that its classes are counted of moved by {share:.1%} (at most {MOST_MOVED:.0%})"
