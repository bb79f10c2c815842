"""The properties of a test in JUnit's file: figures of what it measured, and verdicts of what it judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING

import pytest

from pytest_genderbias.escaping import printable

if TYPE_CHECKING:
    from pytest_genderbias.gates.judgement import Judgement
    from pytest_genderbias.measurement.measurement import Measurement

PROPERTY = "bias."  #: start of the names of properties
_REDUCTION_FIGURES = ("before", "after", "control", "reduction")  #: of a mitigation
_LONGEST = 1_000  #: characters of a name or a value


def add_measurement(item: pytest.Item, measurement: Measurement) -> None:
    """Add what was measured: each value with its interval, and of the suite its cases and its model."""
    for name, value in measurement.values.items():
        about, interval = measurement.statistics[name], measurement.intervals[name]
        properties = {"": _number(value), "neutral": _number(about.neutral), "worse": about.direction}
        if interval is not None:
            properties |= {"low": _number(interval.low), "high": _number(interval.high)}
        if (null := measurement.null.get(name)) is not None:
            properties |= {"null_mean": _number(null.mean), "null_p_value": _number(null.p_value)}
        _add(item, f"{measurement.suite}.{name}", properties)
    cases = f"{measurement.n} of {measurement.n_total}"
    fingerprint = measurement.signature["model"].get("fingerprint") or ""
    _add(item, measurement.suite, {"cases": cases, "model": measurement.model, "fingerprint": str(fingerprint)})


def add_judgement(item: pytest.Item, judgement: Judgement, outcome: str) -> None:
    """Add a verdict with the code of its reason, what its test made of it, and the figures that it rests on."""
    _add(item, f"{judgement.suite}.{judgement.statistic}", dict(_judged(judgement, outcome)))


def _judged(judgement: Judgement, outcome: str) -> Iterator[tuple[str, str]]:
    yield from (
        ("verdict", judgement.verdict),
        ("code", judgement.code),
        ("outcome", outcome),
        ("bound", judgement.bound),
    )
    if judgement.name:
        yield "gate", judgement.name
    if judgement.over:
        yield "over", judgement.over
    if judgement.interval is not None:
        yield from (("judged_low", _number(judgement.interval.low)), ("judged_high", _number(judgement.interval.high)))
    figures: dict[str, object] = {"worse_by": judgement.difference, "p": judgement.p}
    figures |= {name: getattr(judgement.of_reduction, name, None) for name in _REDUCTION_FIGURES}
    yield from ((name, _number(value)) for name, value in figures.items() if isinstance(value, (int, float)))
    if judgement.settled_by:
        yield "settled_by", judgement.settled_by


def _number(value: float | None) -> str:
    return "" if value is None else repr(float(value))


def _add(item: pytest.Item, subject: str, values: Mapping[str, str]) -> None:
    """Add properties; a further set of one subject is numbered, so that no two properties have one name."""
    names = {name for name, _ in item.user_properties}
    for number in count(1):
        prefix = f"{PROPERTY}{subject[:_LONGEST]}" + (f".{number}" if number > 1 else "")
        properties = [
            (printable(f"{prefix}.{name}" if name else prefix), printable(value[:_LONGEST]))
            for name, value in values.items()
        ]
        if not any(name in names for name, _ in properties):
            item.user_properties += properties
            return
