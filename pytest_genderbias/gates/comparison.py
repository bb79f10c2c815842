"""Models against each other: whether one is no worse than another, all models of a run against the first-named, and how
much the bias of each grew over all suites since its baselines.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pytest_genderbias.errors import GateError, UndefinedError
from pytest_genderbias.gates.agreement import MUST_AGREE, comparable_settings, different
from pytest_genderbias.gates.item_file import pack_measured
from pytest_genderbias.gates.judgement import (
    UNDECIDED,
    BaselineFacts,
    Comparison,
    Judgement,
    LeftOut,
    Part,
    make_judgement,
)
from pytest_genderbias.gates.limits import check_breakable
from pytest_genderbias.gates.policy import Margin, read_margin, read_margin_of_sameness
from pytest_genderbias.gates.regression import Pair, Reference, find_regression, on_shared
from pytest_genderbias.gates.sensitivity import retraining_of
from pytest_genderbias.gates.verdicts import FLOAT_NOISE, LESS_ABLE, LEVEL, NOT_COMPARABLE, ONE_SIDED, Correction
from pytest_genderbias.measurement.measurement import ALL_CASES, Measurement
from pytest_genderbias.statistics.inference.intervals import FloatArray, holm, t_quantile
from pytest_genderbias.statistics.inference.item_sums import units_shared
from pytest_genderbias.statistics.inference.over_restarts import compare_restarts
from pytest_genderbias.statistics.right_answers import why_less_able

SAME, WITHOUT_VALUE = "the same", "no value"  #: in the place of the better model


def judge_against(
    measurement: Measurement,
    reference: Measurement,
    margin: float | str | Margin | None = None,
    statistic: str | None = None,
    correction: Correction = Correction(),  # noqa: B008 - frozen
    label: str | None = None,
    same: bool = False,
) -> Judgement:
    """Judge whether a model is no worse than another on the same suite, or the same, item by item.

    Sameness takes two one-sided tests (Schuirmann 1987): ``same`` if both bounds of the change lie within the margin. A
    change through neutral counts whole: from 0.2 to -0.2 is 0.4.

    Args:
        measurement: of the model that is judged.
        reference: of the other, with the same suite, settings and sample.
        margin: how much worse is accepted, or of sameness, the change to either side: a number in units of the
            statistic, or a share of the other model's distance from neutral (``"20%"``). Without one, nothing is but
            what chance explains; sameness needs one.
        statistic: the main one by default.
        correction: the comparisons that the bounds hold for together; this one alone by default.
        label: name of the gate, to tell it from others on the same statistic.
        same: whether the statistic should be the same, as on a compressed copy, and neither worse nor better.

    Raises:
        GateError: the margin is missing or wrong, no gate takes the statistic, or scoring of one of them stopped when
            other gates were decided.
    """
    allows = read_margin_of_sameness(margin) if same else read_margin(margin)
    if measurement.stopped or reference.stopped:
        raise GateError(
            f"{measurement.suite} was scored only until other gates were decided; compare measurements without until="
        )
    name = measurement.statistic(statistic)
    measurement.statistics[name].check_gateable(name)
    bound = f"{'the same as' if same else 'no worse than'} {reference.model}"
    judged = partial(make_judgement, measurement, name)
    if reason := _why_not_comparable(measurement, reference, name):
        return replace(judged(NOT_COMPARABLE, bound, reason), name=label or "")
    retraining = None if same else retraining_of(measurement, name)  # a copy has the same training
    known = () if retraining is None else (retraining.abilities, retraining.freedom)
    if less := why_less_able(measurement.abilities, reference.abilities, *known):
        text = f"{measurement.model} is worse at its task than {reference.model}, so that its bias says nothing: {less}"
        advice = "fix the model; a copy that loses this much is another model"
        return replace(judged(LESS_ABLE, bound, text, advice=advice), name=label or "")
    old = reference.values.get(name)
    allowed = allows.resolve(None if old is None else measurement.statistics[name].distance(old))
    check_breakable(allowed, name, measurement.statistics[name], old, same)
    weights = reference.signature["model"].get("fingerprint") if same else None
    other = Reference(
        reference.model, old, reference, correction=correction, fingerprint=weights, same=same, retraining=retraining
    )
    judgement = find_regression(measurement, name, other, allowed).after_refusals(measurement, reference.values)
    return replace(judgement, name=label or "")


def _why_not_comparable(measurement: Measurement, reference: Measurement, statistic: str) -> str:
    """Return why two measurements cannot be compared; an empty text if they can."""
    reasons = "; ".join(different(measurement, statistic, reference.signature))
    named = reasons.replace(" stored", f" on {reference.model}").replace(" now", f" on {measurement.model}")
    return f"{reference.model} was measured on something else ({named})" if reasons else ""


def compare_models(measurements: Iterable[Measurement], order: Sequence[str]) -> tuple[list[Comparison], list[LeftOut]]:
    """Compare every measurement with that of the first-named model on the same suite, settings and sample.

    Args:
        measurements: of several models and suites.
        order: the names of the models. All are compared with the first; on a suite that does not apply to it, with the
            next one.

    Returns:
        The comparisons by suite, the main statistic of each before the others, which are only compared where they are
        made of items; and what could not be compared.
    """
    places = {name: place for place, name in enumerate(order)}
    by_suite = sorted(measurements, key=lambda m: (m.suite, places.get(m.model, len(order))))
    groups, left_out = _groups(by_suite)
    rows: list[Comparison] = []
    for group in groups:
        suite = group[0].suite
        if len(group) < 2:
            left_out.append(
                LeftOut(suite, (group[0].model,), "measured on one model only with these settings and sample")
            )
            continue
        fits = [pack_measured(measurement) is not None for measurement in group]
        small = [measurement for measurement, fit in zip(group, fits, strict=True) if fit]
        if not all(fits):
            too_large = tuple(measurement.model for measurement, fit in zip(group, fits, strict=True) if not fit)
            left_out.append(LeftOut(suite, too_large, "the statistics of its items take more than 512 KiB"))
        for other in small[1:]:
            if reason := _why_not_comparable(other, small[0], other.main):
                left_out.append(LeftOut(suite, (other.model,), reason))
            else:
                rows += _compare(small[0], other)
    return _corrected(rows), left_out


def _groups(measurements: Iterable[Measurement]) -> tuple[list[list[Measurement]], list[LeftOut]]:
    """Group measurements by suite, settings and sample, with one per model, in input order."""
    groups: dict[str, dict[str, Measurement]] = {}
    stopped: dict[str, dict[str, None]] = {}
    for measurement in measurements:
        if measurement.stopped:
            stopped.setdefault(measurement.suite, {})[measurement.model] = None
            continue
        keys = [key for key in MUST_AGREE if key not in ("data", "settings")]  # some data belong to one statistic only
        settings = comparable_settings(measurement.signature["settings"])
        alike = [measurement.suite, settings, *(measurement.signature[key] for key in keys)]
        key = json.dumps(alike, sort_keys=True, default=str)
        groups.setdefault(key, {}).setdefault(measurement.model, measurement)
    why = "scored only until its gates were decided"
    left_out = [LeftOut(suite, tuple(models), why) for suite, models in stopped.items()]
    return [list(group.values()) for group in groups.values()], left_out


def _compare(first: Measurement, other: Measurement) -> Iterator[Comparison]:
    """Compare the main statistic, and each other one that is made of items."""
    for name in other.values:
        old, main = first.values.get(name), name == other.main
        worse = other.worsening(name, old)
        row = Comparison(other.suite, name, main, first.model, other.model, old, other.values[name], worse)
        if worse is None or _why_not_comparable(other, first, name):
            if main:
                yield replace(row, better=WITHOUT_VALUE)
            continue
        pair = Pair.of(other, name, first, old)
        shared, are_few = units_shared(pair.then, pair.now)
        try:
            if are_few:
                raise UndefinedError(f"only {shared} have a figure on both models")
            difference = pair.difference()
            same = {key: getattr(difference, key) for key in ("low", "high", "over", "items", "moved", "method")}
            same["over"] = on_shared(difference, shared)
            p = min(1.0, 2 * min(difference.p, difference.p_better))
            yield replace(row, worsening=difference.value, p=p, **same)
        except UndefinedError as error:
            if not main:  # a control or a p value, which the main table has
                continue
            if first.restarts or other.restarts or shared:
                yield replace(row, method=f"none: {error}")
            elif other.n < other.n_total:
                yield replace(row, method=f"none: {error}, and not all cases were scored")
            else:  # the values are exact for the suite's own cases
                better = SAME if abs(worse) <= FLOAT_NOISE else row.other if worse < 0 else row.first
                exact = {"low": worse, "high": worse, "over": ALL_CASES, "method": f"exact: {error}"}
                yield replace(row, **exact, better=better)  # type: ignore[arg-type]


def _corrected(rows: Sequence[Comparison]) -> list[Comparison]:
    """Correct the p values of main statistics for their number, and name the better model."""
    family = [row.p for row in rows if row.main and row.p is not None]
    p_values = iter(holm(family).tolist() if family else ())
    corrected = []
    for row in rows:
        if row.p is None:
            corrected.append(row)
            continue
        assert row.worsening is not None  # a row with a p value has one
        p_holm = next(p_values) if row.main else None
        better = row.other if row.worsening < 0 else row.first
        if not row.moved or abs(row.worsening) <= FLOAT_NOISE:  # batches and threads cause such differences
            better = SAME
        elif (row.p if p_holm is None else p_holm) > 1 - LEVEL + 1e-9:
            better = UNDECIDED
        corrected.append(replace(row, p_holm=p_holm, better=better))
    return corrected


FEWEST = 3  #: suites of which one number is made


@dataclass(frozen=True)
class Growth:
    """How much the bias of a model grew since its baselines, as shares.

    Attributes:
        model: name of the model.
        suites: number of suites.
        since: date of the oldest baseline, in ISO format; empty if it is not known.
        value: the growth: the sum of worsening / unit over the sum of distance / unit.
        low: lower bound for other trainings and items, at 97.5 %.
        high: upper bound.
        cluster: the declared cluster of units that a mean over all could hide: the one that became worse by the most
            standard errors, with a bound for all clusters together; empty where none did by more than chance explains.
    """

    model: str
    suites: int
    since: str
    value: float
    low: float
    high: float
    cluster: str = ""

    @property
    def worse(self) -> bool:
        """Whether the bias grew beyond what chance explains."""
        return self.low > 0

    @property
    def in_words(self) -> str:
        """The growth with its bounds.

        >>> Growth("m", 6, "2026-11-02", 0.041, -0.03, 0.112).in_words
        'bias +4 % (-3 to +11) over 6 suites against 2026-11-02'
        """
        against = self.since or "the baselines"
        value, low, high = (f"{100 * share:+.0f}" for share in (self.value, self.low, self.high))
        worst = f"; worst is {self.cluster}" if self.cluster else ""
        return f"bias {value} % ({low} to {high}) over {self.suites} suites against {against}{worst}"

    @property
    def failure(self) -> str:
        """Why the release fails, and what to do."""
        return (
            f"{self.model}: worse: {self.in_words}: other trainings and items do not explain that. Fix the model, or"
            ' accept it with --bias-update --bias-reason="why"'
        )


def growth_of(judgements: Iterable[Judgement]) -> list[Growth]:
    """Return the growth of bias of each model with gates on the baselines of three suites or more.

    Of several gates on a suite, the first counts. With restarts on the side of the baselines the suites are added up
    restart by restart, since those of one training depend on each other; else other trainings count as if they moved
    all suites alike, which is the worst.
    """
    models: dict[str, dict[str, tuple[Part, BaselineFacts]]] = {}
    for judgement in judgements:
        facts = judgement.of_baseline
        if facts.release is not None:
            models.setdefault(judgement.model, {}).setdefault(judgement.suite, (facts.release, facts))
    growths = (_growth(model, of_suite) for model, of_suite in models.items() if len(of_suite) >= FEWEST)
    return [growth for growth in growths if growth is not None]


def _growth(model: str, known: Mapping[str, tuple[Part, BaselineFacts]]) -> Growth | None:
    parts = [part for part, _ in known.values()]
    before = sum(float(np.mean(part.then)) / part.unit for part in parts)
    if not before > 0 or not math.isfinite(before):
        return None
    value, low, high = _bounds(parts)
    if not math.isfinite(low) or not math.isfinite(high):
        return None
    since = min((facts.accepted_on for _, facts in known.values() if facts.accepted_on), default="")
    return Growth(model, len(parts), since, value / before, low / before, high / before, _worst_cluster(known))


def _worst_cluster(known: Mapping[str, tuple[Part, BaselineFacts]]) -> str:
    """Return the cluster of any suite that became worse by the most standard errors, with its growth; an empty text
    without one.
    """
    found = [(facts.cluster, part.unit, suite) for suite, (part, facts) in known.items() if facts.cluster is not None]
    if not found:
        return ""
    worst, unit, suite = max(found, key=lambda one: one[0].standardised)
    return f"{worst.name} of {suite}, {100 * worst.worsening / unit:+.0f} % (at least {100 * worst.low / unit:+.0f})"


def _bounds(parts: Sequence[Part]) -> tuple[float, float, float]:
    """Return the sum of worsening / unit, with bounds."""
    then, now = (_by_restart(parts, side) for side in ("then", "now"))
    if then is not None and now is not None and len(then) > 1:
        try:
            difference = compare_restarts(then, now, lambda value: value, level=ONE_SIDED)
        except UndefinedError:
            pass
        else:
            return difference.value, difference.low, difference.high
    value = sum((float(np.mean(part.now)) - float(np.mean(part.then))) / part.unit for part in parts)
    of_items = math.sqrt(sum((part.over_items / part.unit) ** 2 for part in parts))
    of_trainings = sum(part.over_trainings / part.unit for part in parts)
    reach = t_quantile(ONE_SIDED, np.inf) * math.hypot(of_items, of_trainings)
    return value, value - reach, value + reach


def _by_restart(parts: Sequence[Part], side: str) -> FloatArray | None:
    """Return the sum of distance / unit of each restart; ``None`` where the suites have other numbers of restarts."""
    shares = [np.asarray(getattr(part, side)) / part.unit for part in parts]
    alike = len({len(one) for one in shares}) == 1
    return np.asarray(np.array(shares).sum(axis=0), dtype=np.float64) if alike else None
