"""Stub."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_genderbias.measurement.measurement import Measurement


@dataclass(frozen=True)
class Retraining:
    spread: float | None = None
    paired: float | None = None
    beyond: float | None = None
    unit: float | None = None
    source: str = ""
    known: bool = False


def retraining_of(measurement: Measurement, statistic: str) -> Retraining:
    return Retraining()
