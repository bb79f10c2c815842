"""The check that two measurements may be compared, their other differences, and how much worse a value is."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

from pytest_genderbias.measurement.measurement import Measurement

#: The keys of a signature that must be equal for two measurements to be compared, and their names in messages.
MUST_AGREE = {"digest": "suite", "definition": "definition", "settings": "setting", "data": "data", "sample": "sample"}
#: Batches and threads cause differences up to this size. They say nothing about a model.
FLOAT_NOISE = 1e-6
_DEFAULT = "the default"  # of an option that a signature does not have
_MAY_DIFFER = ("architecture", "tokenizer", "pooling", "max_length", "dtype", "device", "runtime", "text_ends")
_DIGEST = re.compile(r"[0-9a-f]{16,}")  #: of which the beginning is shown


def worsening(measurement: Measurement, statistic: str, before: float | None) -> float | None:
    """Return how much worse a value is than before, in units of the statistic; ``None`` if either has no finite
    value.
    """
    now = measurement.values.get(statistic)
    if before is None or now is None or not (math.isfinite(before) and math.isfinite(now)):
        return None
    about = measurement.statistics[statistic]
    return about.distance(now) - about.distance(before)


def distance_from_neutral(measurement: Measurement, statistic: str, value: float | None) -> float | None:
    """Return how far a value of a statistic lies from neutral, on the side that is worse; ``None`` without a value."""
    return None if value is None else measurement.statistics[statistic].distance(value)


def is_worse(measurement: Measurement, statistic: str, before: float | None, margin: float = 0.0) -> bool:
    """Return whether a value is worse than before by more than the margin and numerical noise."""
    worse = worsening(measurement, statistic, before)
    return worse is not None and worse > margin + FLOAT_NOISE


def different(measurement: Measurement, statistic: str, before: Mapping[str, object]) -> list[str]:
    """Return in words what keeps a measurement from being compared with one that has the signature ``before``.

    Each text ends in the two values, ``... stored, ... now``; without a difference the list is empty.
    """
    now, then = (
        dict(
            signature,
            data=_data_of(signature.get("data"), statistic, measurement),
            settings=comparable_settings(signature.get("settings")),
        )
        for signature in (measurement.signature, before)
    )
    return [
        f"{word}: {name}{_short(old)} stored, {_short(new)} now"
        for key, word in MUST_AGREE.items()
        for name, old, new in _changed(then.get(key), now[key], _DEFAULT if key == "settings" else None)
    ]


def comparable_settings(settings: object) -> object:
    """Return settings without the number of restarts, which may differ between two measurements that are compared.

    >>> comparable_settings({"seed": 0, "restarts": 3})
    {'seed': 0}
    """
    if not isinstance(settings, Mapping):
        return settings
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


def _data_of(data: object, statistic: str, measurement: Measurement) -> dict[str, object]:
    """Return the data of a statistic: data that bear the name of another statistic (accuracy, perplexity) belong to
    that one.
    """
    entries = data if isinstance(data, Mapping) else {}
    return {name: value for name, value in entries.items() if name == statistic or name not in measurement.statistics}


def _short(value: object) -> str:
    if not isinstance(value, str):
        return json.dumps(value, sort_keys=True)
    return value[:12] if _DIGEST.fullmatch(value) else value
