"""Models against each other: whether one is no worse than another, and all models of a run against the first-named."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_genderbias.errors import GateError
from pytest_genderbias.gates.book import load_stored, pack_measured
from pytest_genderbias.gates.judgement import LEVEL, WHOLE_SUITE, Finding, Judgement, make_judgement
from pytest_genderbias.gates.policy import Correction
from pytest_genderbias.gates.regression import (
    FLOAT_NOISE,
    MUST_AGREE,
    Before,
    check_tolerance,
    different,
    find_regression,
    item_difference,
    worsening,
)
from pytest_genderbias.gates.verdicts import NO_VALUE, NOT_COMPARABLE, PASS, STALE
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.statistics.inference.multiple_tests import holm
from pytest_genderbias.statistics.inference.paired import Difference
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.suites.statistic import Statistic

UNDECIDED, SAME = "undecided", "the same"

Sent = tuple[Mapping[str, Any], str | None]  #: a measurement as it travels: ``to_dict()``, and what :func:`pack` gives


def judge_no_worse(
    measurement: Measurement,
    reference: Measurement,
    tolerance: float = 0.0,
    statistic: str | None = None,
    correction: Correction = Correction(),  # noqa: B008 - frozen
    label: str | None = None,
) -> Judgement:
    """Judge whether a model is worse than another on the same suite, item by item.

    Args:
        measurement: of the model that should not be worse.
        reference: of the other, with the same suite, settings and sample.
        tolerance: how much worse, in units of the statistic, is accepted.
        statistic: the main one by default.
        correction: the comparisons that ``regressed`` is corrected for; none by default.
        label: what the gate is called, to tell it from others on the same statistic.

    Raises:
        GateError: one of them was scored only until other gates were decided.
    """
    if measurement.stopped or reference.stopped:
        raise GateError(
            f"{measurement.suite} was scored only until other gates were decided; compare measurements without until="
        )
    name, tolerance = measurement.statistic(statistic), check_tolerance(tolerance)
    bound = f"no worse than {reference.model}"
    if unlike := _unlike(measurement, reference, name):
        return make_judgement(measurement, name, Finding(NOT_COMPARABLE, bound, unlike), label)
    before = Before(reference.model, reference.values, reference, correction=correction)
    found = find_regression(measurement, name, before, tolerance)
    if found.verdict == STALE:  # a better model puts nothing out of date
        found = replace(found, verdict=PASS)
    return make_judgement(measurement, name, found, label)


def _unlike(measurement: Measurement, reference: Measurement, statistic: str) -> str:
    """Say what keeps two measurements from being compared, or nothing."""
    unlike = "; ".join(different(measurement, statistic, reference.signature, MUST_AGREE))
    told = unlike.replace(" stored", f" on {reference.model}").replace(" now", f" on {measurement.model}")
    return f"{reference.model} was measured on something else ({told})" if unlike else ""


@dataclass(frozen=True)
class Comparison:
    """A statistic of a suite on two models, the same items paired.

    ``worsening``: how much worse ``other`` is than ``first``, in units of the statistic; below 0 it is better. ``low`` and ``high``:
    its one-sided 95 % bounds for other items of the same kind (or restarts), named by ``over``; both equal it where no items make
    up the statistic, and it is exact for the suite's own cases. ``p``: two-sided, of "neither is better". ``p_holm``: the same,
    corrected for all main statistics of the table; ``None`` for any other statistic. ``better``: a model's name, at 5 %;
    ``undecided``; ``the same``; or ``no value``.
    """

    suite: str
    statistic: str
    main: bool
    first: str
    other: str
    first_value: float | None
    other_value: float | None
    worsening: float | None
    low: float | None = None
    high: float | None = None
    over: str = ""
    items: int = 0
    moved: int = 0
    method: str = ""
    p: float | None = None
    p_holm: float | None = None
    better: str = UNDECIDED

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return vars(self).copy()


@dataclass(frozen=True)
class LeftOut:
    """A suite that was not compared on these models, and why."""

    suite: str
    models: tuple[str, ...]
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return {"suite": self.suite, "models": list(self.models), "reason": self.reason}


def pack(measurement: Measurement) -> str | None:
    """Return item statistics as a text that travels between processes; ``None`` if they take more than 512 KiB."""
    packed = pack_measured(measurement)
    return None if packed is None else base64.b64encode(packed).decode()


def compare_models(sent: Iterable[Sent], order: Sequence[str]) -> tuple[list[Comparison], list[LeftOut]]:
    """Compare every measurement with that of the first-named model on the same suite, settings and sample.

    Args:
        sent: measurements as they travelled.
        order: the names of the models, the one to compare with first. On a suite that does not apply to it, the next one takes
            its place.

    Returns:
        What was compared, by suite, the main statistic of each before the others: these only where they are made of items. And
        what could not be compared.
    """
    places = {name: place for place, name in enumerate(order)}
    groups, left_out = _groups(sorted(sent, key=lambda one: (one[0]["suite"], places.get(one[0]["model"], len(order)))))
    found: list[Comparison] = []
    for group in groups:
        models = list(group)
        suite = str(group[models[0]][0]["suite"])
        if len(models) < 2:
            left_out.append(LeftOut(suite, (models[0],), "measured on one model only with these settings and sample"))
        too_large = tuple(name for name in models if group[name][1] is None)
        if too_large and len(models) > 1:
            left_out.append(LeftOut(suite, too_large, "the statistics of its items take more than 512 KiB"))
        measured = [
            _rebuild(summary, packed) for summary, packed in (group[name] for name in models) if packed is not None
        ]
        for other in measured[1:]:
            if unlike := _unlike(other, measured[0], other.main):
                left_out.append(LeftOut(suite, (other.model,), unlike))
            else:
                found += _compare(measured[0], other)
    return _corrected(found), left_out


def _groups(sent: Iterable[Sent]) -> tuple[list[dict[str, Sent]], list[LeftOut]]:
    """Put measurements of one suite, settings and sample together, by model, in the order in which they come."""
    groups: dict[str, dict[str, Sent]] = {}
    stopped: dict[str, dict[str, None]] = {}
    for summary, packed in sent:
        signature = summary["signature"]
        if signature["sample"].get("stopped", False):
            stopped.setdefault(summary["suite"], {})[summary["model"]] = None
            continue
        alike = [signature[key] for key in MUST_AGREE if key != "data"]  # data may be those of one statistic alone
        key = json.dumps([summary["suite"], *alike], sort_keys=True, default=str)
        groups.setdefault(key, {}).setdefault(summary["model"], (summary, packed))
    why = "scored only until its gates were decided"
    return list(groups.values()), [LeftOut(suite, tuple(models), why) for suite, models in stopped.items()]


def _rebuild(summary: Mapping[str, Any], packed: str) -> Measurement:
    """Return a measurement as far as it travelled: without records and intervals."""
    statistics = {name: Statistic(**about) for name, about in summary["statistics"].items()}
    stored = load_stored(base64.b64decode(packed), summary["signature"])
    return Measurement(
        summary["suite"], summary["model"], summary["values"], {}, {}, summary["reasons"], statistics, summary["n"],
        summary["n_total"], [], stored.items, summary["signature"], sums=stored.sums,
    )  # fmt: skip


def _compare(first: Measurement, other: Measurement) -> Iterator[Comparison]:
    """Compare the main statistic, and each other one that is made of items."""
    for name in other.values:
        main, worse = name == other.main, worsening(other, name, first.values)
        row = Comparison(
            other.suite, name, main, first.model, other.model, first.values.get(name), other.values[name], worse
        )
        if worse is None or _unlike(other, first, name):
            if main:
                yield replace(row, better=NO_VALUE)
            continue
        try:
            yield _with_items(row, item_difference(other, name, first))
        except UndefinedError as error:
            if not main:
                continue  # a control, a p value: the main table has it
            if other.n == other.n_total and not other.restarts:
                better = SAME if abs(worse) <= FLOAT_NOISE else other.model if worse < 0 else first.model
                over = f"{WHOLE_SUITE}, all of them"
                yield replace(row, low=worse, high=worse, over=over, method=f"exact: {error}", better=better)
            else:
                why = str(error) if other.restarts else f"{error}, and not all cases were scored"
                yield replace(row, method=f"none: {why}")


def _with_items(row: Comparison, found: Difference) -> Comparison:
    return replace(
        row, worsening=found.value, low=found.low, high=found.high, over=found.over, items=found.items, moved=found.moved,
        method=found.method, p=min(1.0, 2 * min(found.p, found.p_better)),
    )  # fmt: skip


def _corrected(rows: Sequence[Comparison]) -> list[Comparison]:
    """Correct the p values of main statistics for their number, and say which model is better."""
    family = [row.p for row in rows if row.main and row.p is not None]
    corrected = iter(holm(family).tolist() if family else ())
    told = []
    for row in rows:
        if row.p is None:
            told.append(row)
            continue
        p_holm = next(corrected) if row.main else None
        told.append(replace(row, p_holm=p_holm, better=_better(row, row.p if p_holm is None else p_holm)))
    return told


def _better(row: Comparison, p: float) -> str:
    assert row.worsening is not None  # it has a p value
    if not row.moved or abs(row.worsening) <= FLOAT_NOISE:  # batches and threads are no model
        return SAME
    if p > 1 - LEVEL + 1e-9:
        return UNDECIDED
    return row.other if row.worsening < 0 else row.first
