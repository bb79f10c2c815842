"""``assert_reduced``: is bias lower after a mitigation, is the task done as well as before, and is it more than cosmetic?"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pytest_genderbias.errors import SettingError
from pytest_genderbias.gates.assertions import settle
from pytest_genderbias.gates.judgement import (
    ACCURACY_LOST,
    INCONCLUSIVE,
    LEVEL,
    NO_VALUE,
    NOT_COMPARABLE,
    NOT_REDUCED,
    OVER_CORRECTED,
    REDUCED,
    SUPERFICIAL,
    WHOLE_SUITE,
    Finding,
    Judgement,
    approximate,
    format_number,
    make_judgement,
)
from pytest_genderbias.gates.regression import FLOAT_NOISE, MUST_AGREE, different
from pytest_genderbias.measurement import Measurement
from pytest_genderbias.mitigation.harness import AFTER, BEFORE, CONTROL, RETRAINED, MitigationRun
from pytest_genderbias.mitigation.superficial import compress, recipe_of_heads, retrained_heads
from pytest_genderbias.recipes.recipe import Performance
from pytest_genderbias.restarts import combine_restarts
from pytest_genderbias.statistics.intervals import Interval, restart_interval
from pytest_genderbias.statistics.moments import FloatArray, Moments
from pytest_genderbias.statistics.paired import Difference, items_to_decide
from pytest_genderbias.statistics.reduction import (
    Reduction,
    compare_weighted_items,
    compare_weighted_restarts,
    item_slope,
    log_moments,
    measure_reduction,
    solve_bound,
)
from pytest_genderbias.statistics.undefined import UndefinedError
from pytest_genderbias.suites.family import Statistic
from pytest_genderbias.suites.suite import Suite, load_suite

_HEADS = "before with a new head"
#: What is said first: the first of these that was found is the verdict.
_ORDER = (
    NOT_COMPARABLE, NO_VALUE, ACCURACY_LOST, OVER_CORRECTED, NOT_REDUCED, INCONCLUSIVE, SUPERFICIAL, REDUCED,
)  # fmt: skip
_MORE_SEEDS = "three seeds or more, better five"

Measured = dict[str, list[list[Measurement]]]  #: by side, seed and model


def assert_reduced(
    run: MitigationRun,
    suite: str | Suite,
    by: float = 0.3,
    budget: Mapping[str, float] | None = None,
    statistic: str | None = None,
    superficial: bool = False,
    back: float = 0.5,
    overshoot: float = 0.0,
    **settings: Any,
) -> Judgement:
    """Assert that a mitigation lowers bias, keeps the task, and is more than cosmetic. Arguments as :func:`judge_reduction`.

    Raises:
        GateFailure: any verdict but ``reduced`` (``inconclusive`` only warns with ``--bias-inconclusive=warn``).
    """
    __tracebackhide__ = True
    return settle(judge_reduction(run, suite, by, budget, statistic, superficial, back, overshoot, **settings))


def judge_reduction(
    run: MitigationRun,
    suite: str | Suite,
    by: float = 0.3,
    budget: Mapping[str, float] | None = None,
    statistic: str | None = None,
    superficial: bool = False,
    back: float = 0.5,
    overshoot: float = 0.0,
    name: str | None = None,
    **settings: Any,
) -> Judgement:
    """Judge whether a mitigation lowers bias, at what price, and whether it lasts.

    ``reduced``, by one-sided 95 % bounds of paired differences: D(after) - (1 - by) D(before) is at most 0, and D(after) is below that of
    the control, where D is the distance from neutral on the side that is worse. Over the suite's items where nothing was trained, or
    once; over restarts where the method trains with two or more seeds. Several models of a side count as their mean.

    Else, first what is worst: ``no value``; ``accuracy lost``, a figure of the task is worse than before by more than its budget, by
    the bound of the ratio; ``over-corrected``, the bias leans to the other side now; ``not reduced``, the other bound says so;
    ``inconclusive``, the bounds do not decide, or a new head shows no bias on the encoder before either; ``superficial``, it comes
    back with a new head. The text names whatever was found.

    Args:
        run: of :func:`~pytest_genderbias.mitigation.harness.mitigate`, or of models that you trained yourself.
        suite: a packaged suite's name, the path of a suite file, or a loaded suite.
        by: share of the distance from neutral that should be gone, 0 to 1; 0 asks for some reduction.
        budget: how much worse a figure may be, as a share of what it was before: ``{"perplexity": 0.05}``. Of what the run's recipe
            evaluates, or else another statistic of the suite.
        statistic: the suite's main one by default.
        superficial: train a new head on each frozen encoder, and see what comes back.
        back: share of the reduction that may come back.
        overshoot: how far beyond neutral is still accepted, as a share of the distance before.
        name: what the gate is called, to tell it from others on the same statistic.
        settings: of :func:`~pytest_genderbias.measurement.measure`, as ``data``, ``limit``, and options of the suite.

    Raises:
        SettingError: an argument cannot be what it is, nobody can tell a figure of the budget, or no recipe trains a head.
        NotApplicableError, ScoreError: as :func:`~pytest_genderbias.measurement.measure`.
    """
    budget = _checked(by, back, overshoot, budget)
    if superficial:
        recipe_of_heads(run)
    loaded = suite if isinstance(suite, Suite) else load_suite(suite)
    sides = (BEFORE, AFTER, *((CONTROL,) if run.control else ()))
    measured: Measured = {side: run.measure(side, loaded, **settings) for side in sides}
    after = _as_one(run, measured[AFTER])
    chosen = after.statistic(statistic)
    case = _Case(run, loaded, measured, chosen, after)
    bound = ", ".join([_asked(by), *(f"{figure} {_percent(share)} worse at most" for figure, share in budget.items())])
    if trouble := case.trouble():
        return make_judgement(after, chosen, Finding(trouble[0], bound, trouble[1], lines=_run_in_words(run)), name)
    parts = [_judge_share(case, by), *(_judge_budget(case, *one) for one in budget.items())]
    parts.append(_judge_side(case, overshoot))
    if superficial:
        parts.append(_judge_heads(case, back, settings, parts[0].verdict == REDUCED))
    return make_judgement(after, chosen, _summed_up(case, parts, bound), name)


@dataclass(frozen=True)
class _Part:
    """One of the findings: its verdict (``reduced``: nothing against it), in short, in lines, what would settle it, and in figures."""

    verdict: str
    text: str = ""
    lines: Sequence[str] = ()
    settled_by: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    reduction: Reduction | None = None


@dataclass(frozen=True)
class _Figures:
    """One figure of all models of each side, shape (seeds, models), how bad a value is, and how two sides are compared.

    ``moments``: of one model, by side, seed and place. ``whole``: whether all cases were scored; ``part`` says how many else.
    """

    values: Mapping[str, FloatArray]
    moments: Callable[[str, int, int], Moments]
    distance: Callable[[Any], Any]
    neutral: float = 0.0
    restarts: bool = False
    part: str = ""

    def distance_of(self, side: str) -> float:
        """Return how bad a side is: of its mean over restarts, or in the mean over its models."""
        values = self.values[side]
        return float(np.mean(self.distance(values.mean(axis=0) if self.restarts else values)))

    def value_of(self, side: str) -> float:
        """Return the mean over all models of a side."""
        return float(self.values[side].mean())

    def compare(self, now: str, then: Mapping[str, float], kept: float = 1.0) -> Difference:
        """Return how far a side lies above a share of others, of which each has a weight.

        Where nothing tells what other items or restarts would give, figures of all cases are compared as they are, and others decide
        nothing: their bounds are infinite.
        """
        weights = [
            w / self.values[side].shape[1] for side, w in then.items() for _ in range(self.values[side].shape[1])
        ]
        try:
            if self.restarts:
                columns = [column for side in then for column in self.values[side].T]
                found = compare_weighted_restarts(
                    columns, self.values[now].mean(axis=1), self.distance, self.neutral, weights, kept, LEVEL
                )
                return replace(found, over=f"{found.over}, {self.part}") if self.part else found
            models = [(self._of(side), w) for side, w in then.items()]
            share = [w / len(found) for found, w in models for _ in found]
            everyone = [one for found, _ in models for one in found]
            return compare_weighted_items(everyone, self._of(now), self.distance, self.neutral, share, kept, LEVEL)
        except UndefinedError as error:
            value = self.distance_of(now) - kept * sum(w * self.distance_of(side) for side, w in then.items())
            return self._without_bounds(value, str(error))

    def _of(self, side: str) -> list[Moments]:
        seeds, models = self.values[side].shape
        return [self.moments(side, i, k) for i in range(seeds) for k in range(models)]

    def _without_bounds(self, value: float, why: str) -> Difference:
        nothing = np.zeros(0), np.zeros(0, dtype=np.str_)
        if self.restarts or self.part:
            over = "restarts" if self.restarts else WHOLE_SUITE
            return Difference(value, -np.inf, np.inf, 1.0, 1.0, 0, 0, why, over, *nothing)
        return Difference(value, value, value, 1.0, 1.0, 0, 0, why, f"{WHOLE_SUITE}, all of them", *nothing)


@dataclass(frozen=True)
class _Case:
    """A run measured on a suite, for one statistic; ``after``: the mean over its seeds."""

    run: MitigationRun
    suite: Suite
    measured: Measured
    statistic: str
    after: Measurement

    @property
    def about(self) -> Statistic:
        """Which way is worse, and the neutral value."""
        return self.after.statistics[self.statistic]

    @property
    def restarts(self) -> bool:
        """Whether other restarts are asked about, and not other items."""
        return self.run.trained and len(self.run.after) > 1

    def trouble(self) -> tuple[str, str] | None:
        """Return a verdict and why, where the models cannot be compared."""
        first = self.measured[AFTER][0][0]  # not the mean over seeds, which is of another sort
        for side, models in self.measured.items():
            for seed, group in zip(self.run.seeds, models, strict=True):
                for one in group:
                    if one.values[self.statistic] is None:
                        why = one.reasons.get(self.statistic, "no reason is known")
                        return NO_VALUE, f"{self.statistic} has no value {side}, seed {seed}: {why}"
                    if unlike := different(one, self.statistic, first.signature, MUST_AGREE):
                        return NOT_COMPARABLE, f"{side} was measured on something else ({'; '.join(unlike)})"
        return None

    def figures(self, statistic: str | None = None) -> _Figures:
        """Return a statistic of the suite; a side of which a model has no value is not in it."""
        name = statistic or self.statistic
        values = {}
        for side, models in self.measured.items():
            found = [[one.values[name] for one in group] for group in models]
            if all(v is not None for group in found for v in group):
                values[side] = np.asarray(found, dtype=np.float64)
        about, first = self.after.statistics[name], self.measured[AFTER][0][0]
        part = f"on these {first.n:,} of {first.n_total:,} cases" if first.sampled(name) else ""
        return _Figures(
            values, lambda side, i, k: self.measured[side][i][k].moments(name), about.distance, about.neutral, self.restarts, part
        )  # fmt: skip

    def interval(self, side: str, statistic: str) -> Interval | None:
        """Return the interval of a side's mean: over restarts where they differ, else over items of one model."""
        models = self.measured[side]
        values = np.asarray([[one.values[statistic] for one in group] for group in models], dtype=np.float64)
        if self.restarts and float(np.ptp(values)) > 0:
            return restart_interval(values.mean(axis=1))
        return models[0][0].intervals[statistic] if float(np.ptp(values)) == 0 else None


def _judge_share(case: _Case, by: float) -> _Part:
    """Judge how much is gone, and whether it is more than in the control."""
    figures, name = case.figures(), case.statistic
    before, after = figures.distance_of(BEFORE), figures.distance_of(AFTER)
    moved = f"{name} {format_number(figures.value_of(BEFORE))} -> {format_number(figures.value_of(AFTER))}"
    facts: dict[str, Any] = {
        "before": figures.value_of(BEFORE),
        "after": figures.value_of(AFTER),
        "by_seed": {side: values.tolist() for side, values in figures.values.items()},
        "by": by,
    }
    if CONTROL in figures.values:
        facts["control"] = figures.value_of(CONTROL)
    if nothing := _nothing_to_reduce(case, figures):
        return _Part(NOT_REDUCED, f"{moved}: {nothing}", facts=facts)
    found = measure_reduction(before, after, lambda kept: figures.compare(AFTER, {BEFORE: 1.0}, kept), by)
    verdict = _verdict_on(found.excess, FLOAT_NOISE * before, strict=by == 0)
    lines = [_share_in_words(found, figures)]
    facts |= {
        "reduction": found.share,
        "reduction_bounds": [found.low, found.high],
        "difference": found.change.value,
        "difference_bounds": [found.change.low, found.change.high],
    }
    against, settled = "", _settled_by(found.excess, found.low) if verdict == INCONCLUSIVE else ""
    if CONTROL in figures.values:
        above = figures.compare(AFTER, {CONTROL: 1.0})
        of_control = _verdict_on(above, FLOAT_NOISE * before, strict=True)
        how = {REDUCED: "", NOT_REDUCED: "no ", INCONCLUSIVE: "not surely "}[of_control]
        better = f"{how}{'more than in' if found.share > 0 else 'better than'}"
        value = format_number(figures.value_of(CONTROL))
        against = f", {better} the control ({value})"
        lines.append(
            f"  control ({_control_in_words(case.run)}): {value}; after is {_by(-above.value, 'better', 'worse')}, {_bounds(above, -1)}"
        )
        facts["against_control"] = [-above.value, -above.high, -above.low]
        if of_control == INCONCLUSIVE:  # a smaller share alone would settle nothing then
            wanted = [_settled_by(found.excess, None)] if verdict == INCONCLUSIVE else []
            settled = "; ".join(dict.fromkeys([*wanted, f"{_settled_by(above, None)} (the control)"]))
        verdict = min(verdict, of_control, key=_ORDER.index)
    text = f"{moved}, {_change(found.share)} ({_least(by)} is asked){against}"
    return _Part(verdict, text, lines, settled, facts, found)


def _nothing_to_reduce(case: _Case, figures: _Figures) -> str:
    """Say so if the model is not told from a neutral one before."""
    if figures.distance_of(BEFORE) <= FLOAT_NOISE:
        return f"there is nothing to reduce: neutral is {case.about.neutral:g}, and the model is not beyond it before"
    around = case.interval(BEFORE, case.statistic)
    if case.about.direction == "away" and around is not None and around.low <= case.about.neutral <= around.high:
        return (
            f"there is nothing to reduce that is more than noise: before, the interval over {around.over} is {around.low:.4g} to "
            f"{around.high:.4g}, and {case.about.neutral:g} is neutral"
        )
    return ""


def _verdict_on(excess: Difference, noise: float, strict: bool) -> str:
    """Return the verdict on what should be 0 or less, or below 0 if ``strict``."""
    if excess.high < -noise if strict else excess.high <= noise:
        return REDUCED
    return NOT_REDUCED if (excess.low >= -noise if strict else excess.low > noise) else INCONCLUSIVE


def _judge_side(case: _Case, overshoot: float) -> _Part:
    """Judge whether the bias leans to the other side now."""
    name = case.statistic
    signed = name if case.about.direction == "away" else case.after.family.signed.get(name)
    if signed is None:
        return _Part(REDUCED)
    figures = case.figures(signed)
    if not {BEFORE, AFTER} <= set(figures.values):
        return _Part(REDUCED)
    was, now = (figures.value_of(side) - figures.neutral for side in (BEFORE, AFTER))
    moved = f"{signed} {format_number(was + figures.neutral)} -> {format_number(now + figures.neutral)}"
    facts = {"signed": {"statistic": signed, "before": was + figures.neutral, "after": now + figures.neutral}}
    bounds = [case.interval(side, signed) for side in (BEFORE, AFTER)]
    sure = [around is not None and not around.low <= figures.neutral <= around.high for around in bounds]
    told = all(sure) or (overshoot > 0 and bounds == [None, None])
    lines = [] if signed == name else [f"  the side it leans to: {moved}{_intervals(bounds)}"]
    if was * now < 0 and abs(now) > overshoot * abs(was) and told:
        text = f"{moved}: the sign flips, to {_percent(abs(now / was))} of what it was"
        return _Part(OVER_CORRECTED, text, lines, facts=facts)
    if was * now < 0 and signed == name:
        how = (
            f"by no more than {_percent(overshoot)} of what it was"
            if told
            else "and no interval tells that from chance"
        )
        lines.append(f"  the sign flips, {how}{_intervals(bounds)}")
    if signed != name and (slope := _item_slope(case, figures)) is not None:
        lines.append(
            f"  bias of an item after on that before: slope {slope.low:.3g} to {slope.high:.3g} over {slope.over}"
        )
        facts["signed"]["item_slope"] = [slope.low, slope.high]
        if slope.high < -overshoot - FLOAT_NOISE:
            text = (
                f"the {slope.over} lean the other way now (slope {slope.low:.3g} to {slope.high:.3g}): the sign flips, to about "
                f"{_percent(-(slope.low + slope.high) / 2)} of what it was"
            )
            return _Part(OVER_CORRECTED, text, lines, facts=facts)
    return _Part(REDUCED, "", lines, facts=facts)


def _item_slope(case: _Case, figures: _Figures) -> Interval | None:
    """Return how much of each item's own bias is left: over items of one pair of models, or over restarts."""
    try:
        found = [
            item_slope(figures.moments(BEFORE, i, 0), figures.moments(AFTER, i, 0), figures.neutral)
            for i in range(len(case.run.after))
        ]
    except UndefinedError:
        return None
    if len(found) == 1:
        return found[0]
    middles = [(one.low + one.high) / 2 for one in found if one is not None]
    over = restart_interval(middles) if len(middles) == len(found) else None
    return (
        None
        if over is None
        else replace(over, over=f"{case.figures(case.statistic).moments(AFTER, 0, 0).over} in other restarts")
    )


def _intervals(bounds: Sequence[Interval | None]) -> str:
    told = [f"{one.low:.3g} to {one.high:.3g} over {one.over}" if one is not None else "no interval" for one in bounds]
    return f" ({told[0]}; {told[1]})"


def _judge_budget(case: _Case, name: str, share: float) -> _Part:
    """Judge whether a figure of the task is worse than its budget allows, as a ratio of what it was."""
    try:
        figures, higher, source = _task_figures(case, name)
    except UndefinedError as error:
        return _Part(NO_VALUE, f"no value for the {name} of the budget {error}")
    lacking = [side for side in (BEFORE, AFTER) if not np.isfinite(figures.values.get(side, np.nan)).all()]
    if lacking:
        return _Part(NO_VALUE, f"{name} has no value {' and '.join(lacking)}")
    was, now = (float(figures.values[side].mean()) for side in (BEFORE, AFTER))
    moved = f"{name} {format_number(was)} -> {format_number(now)}"
    facts: dict[str, Any] = {
        "before": was,
        "after": now,
        "allowed": share,
        "by_seed": {k: v.tolist() for k, v in figures.values.items()},
    }
    least = {side: float(values.min()) for side, values in figures.values.items()}
    if min(least[BEFORE], least[AFTER]) <= 0:
        lost = not higher and least[BEFORE] > 0
        left = "nothing of it is left" + ("" if now <= 0 else " with one of the seeds")
        why = left if lost else f"there is no ratio to {format_number(least[BEFORE])}"
        return _Part(ACCURACY_LOST if lost else NO_VALUE, f"{moved}: {why}", facts={"budget": {name: facts}})
    told = {side: values for side, values in figures.values.items() if least[side] > 0}  # a control may have none
    ratio = _ratios(replace(figures, values=told), higher)
    found = ratio.compare(AFTER, {BEFORE: 1.0})
    allowed = np.log1p(share) if higher else -np.log1p(-share) if share < 1 else np.inf
    verdict = (
        ACCURACY_LOST if found.low > allowed + FLOAT_NOISE
        else REDUCED if found.high <= allowed + FLOAT_NOISE
        else INCONCLUSIVE
    )  # fmt: skip
    worse, low, high = (_as_share(x, higher) for x in (found.value, found.low, found.high))
    said = {ACCURACY_LOST: "lost", REDUCED: "kept", INCONCLUSIVE: "not decided"}[verdict]
    text = f"{moved}, {_by_share(worse)}, {_percent(share)} worse is allowed"
    lines = [
        f"  {name}{source}: {moved.removeprefix(name).strip()}, {_by_share(worse)}, {_share_bounds(low, high, found)}; budget {_percent(share)}: {said}"
    ]
    facts |= {"worse": worse, "worse_bounds": [low, high], "verdict": said}
    if CONTROL in told:
        beside = ratio.compare(AFTER, {CONTROL: 1.0})
        value = float(told[CONTROL].mean())
        lowest, highest = (_as_share(x, higher) for x in (beside.low, beside.high))
        lines.append(
            f"    the control has {format_number(value)}: against it after is {_by_share(_as_share(beside.value, higher))}, "
            f"{_share_bounds(lowest, highest, beside)}"
        )
        facts["control"] = value
    settled = _budget_settled_by(found, float(allowed), high) if verdict == INCONCLUSIVE else ""
    return _Part(verdict, "" if verdict == REDUCED else text, lines, settled, {"budget": {name: facts}})


def _budget_settled_by(found: Difference, allowed: float, high: float) -> str:
    over = replace(found, value=found.value - allowed, low=found.low - allowed, high=found.high - allowed)
    wider = f", or a budget of {np.ceil(100 * high) / 100:g}" if np.isfinite(high) else ""
    return _settled_by(over, None) + wider


def _task_figures(case: _Case, name: str) -> tuple[_Figures, bool, str]:
    """Return a figure of the task, whether higher is worse, and where it is from: what the recipe evaluates, or the suite measures."""
    run, known = case.run, [one for one in case.after.values if one != case.statistic]
    told: list[str] = []
    if run.recipe is not None:
        found = _performances(run)
        told = list(found[AFTER][0][0])
        if name in told:
            values = {
                side: np.asarray([[one[name].value for one in group] for group in models])
                for side, models in found.items()
            }
            figures = _Figures(
                values, lambda side, i, k: found[side][i][k][name].moments, _upwards, restarts=case.restarts
            )
            return figures, found[AFTER][0][0][name].direction == "higher", ""
    if name not in known or case.after.statistics[name].direction == "away":
        of_recipe = f"the recipe evaluates {', '.join(told)}" if told else "the run has no recipe that evaluates"
        raise SettingError(
            f"nobody can tell the {name!r} of the budget: {of_recipe}, and {case.after.suite} measures {', '.join(known) or 'nothing'} beside"
        )
    figures = case.figures(name)
    if not run.trained:
        figures = replace(figures, values={side: v for side, v in figures.values.items() if side != CONTROL})
    return figures, case.after.statistics[name].direction == "higher", f" of {case.after.suite}"


def _performances(run: MitigationRun) -> dict[str, list[list[dict[str, Performance]]]]:
    """Return how well each side does its task; a control that has no figure, or of which nobody asks, is left out.

    Raises:
        UndefinedError: before or after has none.
    """
    found = {}
    for side in (BEFORE, AFTER, *((CONTROL,) if run.control and run.trained else ())):
        try:
            found[side] = run.performance(side)
        except UndefinedError as error:
            if side != CONTROL:
                raise UndefinedError(f"{side}: {error}") from error
    return found


def _upwards(value: Any) -> Any:
    return value


def _downwards(value: Any) -> Any:
    return -value


def _ratios(figures: _Figures, higher: bool) -> _Figures:
    """Return the logarithms, whose differences are ratios; larger is worse."""
    values = {side: np.log(found) for side, found in figures.values.items()}
    moments = figures.moments
    return replace(
        figures, values=values, moments=lambda side, i, k: log_moments(moments(side, i, k)),
        distance=_upwards if higher else _downwards, neutral=0.0,
    )  # fmt: skip


def _as_share(log: float, higher: bool) -> float:
    """Return how much worse, as a share of what was before, from the logarithm of the ratio."""
    return float(np.expm1(log) if higher else -np.expm1(-log))


def _judge_heads(case: _Case, back: float, settings: Mapping[str, Any], reduced: bool) -> _Part:
    """Judge how much of a reduction comes back with a new head on the frozen encoder."""
    if not reduced:
        return _Part(REDUCED, "", ["  superficial: not tested, as no reduction is sure that could come back"])
    with retrained_heads(case.run) as again:
        measured = {
            now: again.measure(side, case.suite, **settings) for now, side in ((RETRAINED, AFTER), (_HEADS, BEFORE))
        }
    both = replace(case, measured={**case.measured, **measured})
    if trouble := both.trouble():
        return _Part(*trouble)
    figures = both.figures()
    was, now, then = (figures.distance_of(side) for side in (BEFORE, AFTER, RETRAINED))
    gone = was - now
    share = (then - now) / gone
    by_before = (figures.distance_of(_HEADS) - now) / gone

    def above(s: float) -> Difference:
        return figures.compare(RETRAINED, {AFTER: 1 - s, BEFORE: s})

    low = solve_bound(lambda s: above(s).low, share, -gone, gone)
    high = solve_bound(lambda s: above(s).high, share, -gone, gone)
    found = above(share)
    value = format_number(figures.value_of(RETRAINED))
    comes = (
        f"{_percent(share)} of the reduction comes back with a new head"
        if share > 0
        else "nothing comes back with a new head"
    )
    around = (
        ""
        if low is None or high is None
        else f", one-sided 95 % bounds {_percent(low)} and {_percent(high)} over {found.over}"
    )
    compression = compress(case.run, settings)
    lines = [
        f"  superficial: {comes} on the frozen encoder ({case.statistic} {value}{around}); more than {_percent(back)} would be superficial",
        f"    before with a new head: {format_number(figures.value_of(_HEADS))}"
        + ("" if by_before > back else f", {_percent(max(0.0, by_before))} of the reduction: such a head shows no bias that is there"),
        "    compression of gender: " + (
            f"not known: {compression['why']}" if "why" in compression
            else f"{format_number(compression[BEFORE])} before, {format_number(compression[AFTER])} after (with the new head, too: the encoder is the same)"
        ),
    ]  # fmt: skip
    facts = {
        "superficial": {
            "comes_back": share, "bounds": [low, high], "retrained": figures.value_of(RETRAINED),
            "before_retrained": figures.value_of(_HEADS), "compression": compression,
        }
    }  # fmt: skip
    if max(share, by_before) <= back:  # a head that learned nothing brings nothing back
        text = "a new head brings the bias back on no encoder, not even on the one before, and so tells nothing"
        return _Part(INCONCLUSIVE, text, lines, "a recipe that trains the head longer (superficial)", facts)
    return _Part(SUPERFICIAL if share > back else REDUCED, comes if share > back else "", lines, facts=facts)


def _summed_up(case: _Case, parts: Sequence[_Part], bound: str) -> Finding:
    """Put the findings together, that which decides first."""
    ordered = sorted(parts, key=lambda part: _ORDER.index(part.verdict))
    verdict, share = ordered[0].verdict, parts[0]
    text = "; ".join(part.text for part in ordered if part.text)
    facts: dict[str, Any] = {}
    for part in parts:
        for key, value in part.facts.items():
            facts[key] = {**facts[key], **value} if key == "budget" and key in facts else value
    facts |= {"seeds": list(case.run.seeds), "over": "", "what": case.run.what, "seconds": case.run.seconds}
    low = high = difference = None
    over = ""
    if share.reduction is not None:
        change = share.reduction.change
        difference, over = change.value, change.over
        low, high = (None, None) if not np.isfinite(change.high) else (change.low, change.high)
        facts["over"] = over
    settled = "; ".join(dict.fromkeys(p.settled_by for p in parts if p.settled_by)) if verdict == INCONCLUSIVE else ""
    lines = [*(line for part in parts for line in part.lines), *_run_in_words(case.run)]
    return Finding(
        verdict, bound, text, low, high, over, settled, difference=difference, lines=lines, facts=_plain(facts)
    )


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts as JSON has them; what is infinite is not known."""

    def finite(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {str(key): finite(one) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [finite(one) for one in value]
        return None if isinstance(value, float) and not np.isfinite(value) else value

    found: dict[str, Any] = finite(json.loads(json.dumps(facts, default=str)))
    return found


def _as_one(run: MitigationRun, measured: Sequence[Sequence[Measurement]]) -> Measurement:
    """Return the mean over seeds as one measurement, under a name that says what was done."""
    models = [one for (one,) in measured]
    found = models[0] if len(models) == 1 else combine_restarts(models, run.seeds)
    method, recipe = (dict(run.what.get(key) or {}) for key in ("method", "recipe"))
    if not method:
        return found
    plain = (
        recipe.get("recipe", found.model) if found.model == "model" else found.model
    )  # a training's folder says nothing
    return replace(found, model=f"{plain} with {method['method']}")


def _run_in_words(run: MitigationRun) -> list[str]:
    if not run.trained:
        return []
    if len(run.after) == 1:
        return [
            "  trained once: one restart says little of others, whose figures differ by more; three seeds or more judge over restarts"
        ]
    seeds = ", ".join(map(str, run.seeds))
    fixed = len({id(one) if not isinstance(one, str) else one for one in run.before}) == 1
    return [
        f"  trained {len(run.after)} times, seeds {seeds}" + ("; before is one model for all of them" if fixed else "")
    ]


def _control_in_words(run: MitigationRun) -> str:
    count = max(len(group) for group in run.control)
    what = str(run.what.get("control", "given"))
    return f"{what}, mean of {count}" + (" a seed" if len(run.after) > 1 else "") if count > 1 else what


def _share_in_words(found: Reduction, figures: _Figures) -> str:
    excess = found.excess
    if not excess.items:
        as_is = "" if np.isfinite(excess.high) else ", which decides nothing"
        return f"  {_change(found.share)}, compared as it is, with no bound for others{as_is}: {excess.method}"
    low, high = (
        f"no {what} one" if x is None else _percent(x) for x, what in ((found.low, "lower"), (found.high, "upper"))
    )
    return (
        f"  {_change(found.share)}: one-sided 95 % bounds of the share {low} and {high}, over {excess.over} ({excess.items} of them; "
        f"{excess.method}); distance from neutral {format_number(figures.distance_of(BEFORE))} -> {format_number(figures.distance_of(AFTER))}"
    )


def _bounds(found: Difference, sign: float = 1.0) -> str:
    """Return the bounds of a difference in words."""
    if not found.items:
        return "as they are" if np.isfinite(found.high) else "without bounds"
    low, high = sorted((sign * found.low + 0.0, sign * found.high + 0.0))  # no -0
    return f"one-sided 95 % bounds {low:.4g} and {high:.4g} over {found.over} ({found.items} of them; {found.method})"


def _share_bounds(low: float, high: float, found: Difference) -> str:
    if not found.items:
        return "as they are" if np.isfinite(found.high) else "without bounds"
    return f"one-sided 95 % bounds {_percent(low)} and {_percent(high)} over {found.items} {found.over}"


def _settled_by(found: Difference, low: float | None) -> str:
    """Say what would decide a figure that should be 0 or less, if it stays where it is."""
    if not np.isfinite(found.high):
        return _MORE_SEEDS if found.over == "restarts" else "all cases of the suite (no limit)"
    needed = items_to_decide(found, 0.0) if found.items else None
    what = "seeds" if found.over.startswith("restarts") else found.over
    more = f"more {what}" if needed is None else f"{approximate(needed)} {what}, if it stays where it is"
    return more if low is None or low <= 0 else f"{more}; or by={np.floor(100 * low) / 100:g}"


def _by(difference: float, above: str, below: str) -> str:
    return f"{abs(difference):.4g} {above if difference >= 0 else below}"


def _by_share(worse: float) -> str:
    return f"{_percent(abs(worse))} {'worse' if worse > 0 else 'better'}" if abs(worse) > FLOAT_NOISE else "unchanged"


def _change(share: float) -> str:
    if abs(share) <= FLOAT_NOISE:
        return "unchanged"
    return f"reduced by {_percent(share)}" if share > 0 else f"raised by {_percent(-share)}"


def _asked(by: float) -> str:
    return f"reduced by {_percent(by)}" if by else "reduced"


def _least(by: float) -> str:
    return f"at least {_percent(by)}" if by else "any reduction"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _checked(by: float, back: float, overshoot: float, budget: Mapping[str, float] | None) -> dict[str, float]:
    """Refuse arguments that cannot be, and return the budget."""
    for what, value, most in (("by", by, 1.0), ("back", back, np.inf), ("overshoot", overshoot, np.inf)):
        if not _is_number(value) or not 0 <= value <= most:
            raise SettingError(f"{what} should be a share, 0 {'to 1' if most == 1 else 'or more'}, got {value!r}")
    for name, share in dict(budget or {}).items():
        if not _is_number(share) or not 0 <= share < np.inf:
            raise SettingError(f"the budget of {name!r} should be a share of 0 or more, as 0.05, got {share!r}")
    return {str(name): float(share) for name, share in dict(budget or {}).items()}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
