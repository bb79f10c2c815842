"""``judge_reduction`` and ``assert_reduced``: whether bias is lower after a mitigation, at what price, and whether that
lasts, by a statistic and the performance on the task of all models of each side.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, cast

import numpy as np

from pytest_genderbias.errors import SettingError, UndefinedError
from pytest_genderbias.gates.agreement import different
from pytest_genderbias.gates.assertions import settle
from pytest_genderbias.gates.judgement import (
    AFTER,
    BEFORE,
    CONTROL,
    RETRAINED,
    Judgement,
    ReductionFacts,
    make_judgement,
)
from pytest_genderbias.gates.verdicts import (
    DESTROYED,
    FLOAT_NOISE,
    LEVEL,
    NO_VALUE,
    NOT_COMPARABLE,
    NOT_REDUCED,
    OVER_CORRECTED,
    REDUCED,
    SUPERFICIAL,
    TASK_LOST,
    TOO_FEW,
    Paragraph,
    shortened,
)
from pytest_genderbias.measurement.measurement import SUITE_CASES, Measurement
from pytest_genderbias.measurement.plain_data import as_plain
from pytest_genderbias.measurement.restarts import combine_restarts
from pytest_genderbias.mitigation.harness.retraining import compress, new_heads, recipe_of_heads
from pytest_genderbias.mitigation.harness.run import Measured, MitigationRun
from pytest_genderbias.recipes.recipe import Performance
from pytest_genderbias.statistics.inference.intervals import Interval, restart_interval
from pytest_genderbias.statistics.inference.item_sums import log_sums, without_number
from pytest_genderbias.statistics.inference.paired import Difference, Distance, items_to_decide
from pytest_genderbias.statistics.inference.reduction import Reduction, SideValues
from pytest_genderbias.statistics.right_answers import (
    LEAST_LEAD,
    describe_lead,
    kept_lead,
    over_restarts,
    why_less_able,
)
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.suites.suite import Suite, load_suite
from pytest_genderbias.text.printable import THREE_DIGITS, approximate, format_bounds, format_number, format_share
from pytest_genderbias.text.schema import Rule, check_setting, read_value

_MORE_SEEDS = "five seeds or more"
_HEADS = "before with a new head"
#: Verdicts by severity: the first that a part of the judgement gives is the verdict of the whole.
_ORDER = (NOT_COMPARABLE, NO_VALUE, DESTROYED, TASK_LOST, OVER_CORRECTED, NOT_REDUCED, TOO_FEW, SUPERFICIAL, REDUCED)
#: What to do about a verdict that is sure.
_WHAT_TO_DO = {
    DESTROYED: "a milder mitigation",
    TASK_LOST: "a milder mitigation, or a larger budget",
    OVER_CORRECTED: "a milder mitigation, or overshoot= if that is meant",
    NOT_REDUCED: "another mitigation, or a smaller by=",
    SUPERFICIAL: "a mitigation of the encoder: this one hides the bias from the head only",
}


def assert_reduced(
    run: MitigationRun,
    suite: str | Suite,
    by: float = 0.3,
    budget: Mapping[str, float] | None = None,
    statistic: str | None = None,
    superficial: bool = False,
    back: float = 0.5,
    overshoot: float = 0.0,
    name: str | None = None,
    **settings: object,
) -> Judgement:
    """Assert that a mitigation lowers bias, keeps the performance on the task, and is more than cosmetic.

    Arguments as :func:`judge_reduction`.

    Raises:
        GateFailure: the code of the judgement is not ``reduced``.
    """
    __tracebackhide__ = True
    return settle(judge_reduction(run, suite, by, budget, statistic, superficial, back, overshoot, name, **settings))


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
    **settings: object,
) -> Judgement:
    """Judge whether a mitigation lowers bias, at what price, and whether the reduction lasts.

    The verdict is that of one of these codes. ``destroyed``: a model could do its task before and cannot after,
    whatever its bias did.

    ``reduced``, by one-sided 95 % bounds of paired differences: D(after) - (1 - by) D(before) is at most 0, and
    D(after) is below that of the control, where D is the distance from neutral on the worse side. The bounds are over
    the suite's items where nothing is trained, or trained once; over restarts where the method trains with two or more
    seeds. Several models of a side count as their mean.

    Otherwise the code is the first of these that holds: ``not_comparable``, the models were measured on different
    things; ``no_value``; ``task_lost``, a figure of the task is worse than before by more than its budget, by the bound
    of the ratio; ``over_corrected``, the bias now leans to the other side; ``not_reduced``, the other bound says so, or
    the model is so much less sure of everything that any bias falls with it;
    ``too_few``, the bounds do not decide, or a new head shows no bias on the encoder before either; ``superficial``,
    the bias comes back with a new head. The text names everything that was found. Equal arguments give equal
    judgements; nothing is recorded.

    Args:
        run: a run of :func:`~pytest_genderbias.mitigation.harness.run.mitigate`, or of models that you trained
            yourself.
        suite: a packaged suite's name, the path of a suite file, or a loaded suite.
        by: share of the distance from neutral that the mitigation should remove, 0 to 1; 0 requires any reduction.
        budget: how much worse a figure may be, as a share of its value before: ``{"perplexity": 0.05}``. The figure is
            one that the run's recipe evaluates, or another statistic of the suite.
        statistic: the suite's main one by default.
        superficial: train a new head on each frozen encoder, and measure how much of the reduction is lost.
        back: share of the reduction that may be lost with a new head.
        overshoot: accepted distance beyond neutral, as a share of the distance before.
        name: name of the gate, to tell it from others on the same statistic.
        settings: of :func:`~pytest_genderbias.measurement.runner.measure`, as ``data``, ``limit``, and options of the
            suite.

    Raises:
        SettingError: an argument is out of range, a budget figure is not measured, or no recipe trains a head.
        NotApplicableError, ScoreError: as :func:`~pytest_genderbias.measurement.runner.measure`.
    """
    budget = _checked(by, back, overshoot, budget)
    if superficial:
        recipe_of_heads(run)
    loaded = suite if isinstance(suite, Suite) else load_suite(suite)
    sides = (BEFORE, AFTER, *((CONTROL,) if run.control else ()))
    measured = run.measure_sides(sides, loaded, **settings)
    after = _mean_over_seeds(run, measured[AFTER])
    judged = after.statistic(statistic)
    case = MeasuredRun(run, loaded, measured, judged, after)
    costs = (f"{figure} {format_share(share)} worse at most" for figure, share in budget.items())
    bound = ", ".join([f"reduced by {format_share(by)}" if by else "reduced", *costs])
    if trouble := case.trouble(budget):
        code, why = trouble
        advice = _WHAT_TO_DO.get(code, "")
        judgement = make_judgement(after, judged, code, bound, why, advice=advice, details=about_run(run))
        return replace(judgement, name=name or "")
    figures, signed = case.figures()
    parts = [_judge_share(case, figures, by), *(_judge_budget(case, figure, share) for figure, share in budget.items())]
    parts.append(_judge_side(case, signed, overshoot))
    parts.append(_judge_lead(case, figures, by))
    if superficial:
        parts.append(_judge_heads(case, back, settings, parts[0].verdict == REDUCED))
    return replace(_summed_up(case, parts, bound), name=name or "")


def _checked(by: float, back: float, overshoot: float, budget: Mapping[str, float] | None) -> dict[str, float]:
    """Reject arguments that are out of range, and return the budget."""
    check_setting("by", Annotated[float, Rule("a share, 0 to 1", minimum=0, maximum=1)], by)
    for what, share in (("back", back), ("overshoot", overshoot)):
        if share != np.inf:
            check_setting(what, Annotated[float, Rule("a share, 0 or more", minimum=0)], share)
    worse = Annotated[float, Rule("a share of 0 or more, as 0.05", minimum=0)]
    return {
        str(name): float(check_setting(f"the budget of {name!r}", worse, share))
        for name, share in dict(budget or {}).items()
    }


def _mean_over_seeds(run: MitigationRun, measured: Sequence[Sequence[Measurement]]) -> Measurement:
    """Return the mean over seeds as one measurement, whose model is also named after the method."""
    measurements = [measurement for (measurement,) in measured]
    mean = measurements[0] if len(measurements) == 1 else combine_restarts(measurements, run.seeds)
    method, recipe = run.what.get("method"), run.what.get("recipe")
    if not isinstance(method, Mapping):
        return mean
    model = mean.model
    if model == "model" and isinstance(recipe, Mapping):  # the folder of a training, which says nothing
        model = recipe.get("recipe", model)
    label = "" if run.tried is None else f", {run.tried.label}"
    return replace(mean, model=f"{model} with {method['method']}{label}")


@dataclass(frozen=True)
class MeasuredRun:
    """A run measured on a suite, for one statistic; ``after`` is the mean over its seeds."""

    run: MitigationRun
    suite: Suite
    measured: Measured
    statistic: str
    after: Measurement

    @property
    def about(self) -> Statistic:
        """Worse direction and neutral value of the statistic."""
        return self.after.statistics[self.statistic]

    @property
    def restarts(self) -> bool:
        """Whether the verdict is about other restarts, and not about other items."""
        return self.run.trained and len(self.run.seeds) > 1

    def trouble(self, budget: Mapping[str, float]) -> tuple[str, str] | None:
        """Return a verdict and its reason if the models cannot be compared, or lost their ability.

        Args:
            budget: what the mitigation may cost; where it says nothing, no ability may be lost.
        """
        reference = self.measured[AFTER][0][0]  # not the mean over seeds, whose signature differs
        sides = list(zip(self.run.seeds, self.measured[BEFORE], self.measured[AFTER], strict=True))
        if not any(measurement.unable for _, before, _ in sides for measurement in before):
            for seed, _, after in sides:
                if unable := next((measurement.unable for measurement in after if measurement.unable), ""):
                    could = "the model could do its task before, and after the mitigation"
                    return DESTROYED, f"{could}, seed {seed}, it {unable}"
        for side, models in self.measured.items():
            for seed, group in zip(self.run.seeds, models, strict=True):
                for measurement in group:
                    if why := self._no_value(measurement):
                        return NO_VALUE, f"{self.statistic} has no value {side}, seed {seed}: {why}"
                    if unlike := different(measurement, self.statistic, reference.signature):
                        return NOT_COMPARABLE, f"{side} was measured on something else ({'; '.join(unlike)})"
        for seed, before, after in sides:
            if not budget and (why := why_less_able(after[0].abilities, before[0].abilities)):
                less = f"worse at its task, seed {seed}: {why}"
                return TASK_LOST, f"{less}; what it may cost is a budget: budget={{...}}, in YAML 'budget:'"
        return None

    def figures(self) -> tuple[SideValues, SideValues | None]:
        """Return the statistic, and what shows on which side of neutral it lies: itself, its partner with a sign, or
        nothing.
        """
        signed = self.statistic if self.about.direction == "away" else self.about.partner
        figures = self.values_of(self.statistic)
        if signed is None or signed == self.statistic:
            return figures, figures if signed else None
        return figures, self.values_of(signed, by_unit=True)

    def _no_value(self, measurement: Measurement) -> str:
        """Return why a measurement has no finite value of the statistic; an empty text if it has one."""
        value = measurement.values[self.statistic]
        if value is None:
            return measurement.reasons.get(self.statistic, "no reason is known")
        return without_number(measurement.sums.known(self.statistic)) if np.isfinite(value) else f"it is {value}"

    def values_of(self, statistic: str, by_unit: bool = False) -> SideValues:
        """Return a statistic of the suite; a side on which a model has no value is left out.

        Sums are left out where restarts are compared, unless ``by_unit`` asks for them.
        """
        values, sums = {}, {}
        for side, models in self.measured.items():
            rows = [[measurement.values[statistic] for measurement in group] for group in models]
            if all(v is not None for group in rows for v in group):
                values[side] = np.asarray(rows, dtype=np.float64)
                if by_unit or not self.restarts:
                    sums[side] = [[one.sums.known(statistic) for one in group] for group in models]
        about, first = self.after.statistics[statistic], self.measured[AFTER][0][0]
        part = f"on these {first.n:,} of {first.n_total:,} cases" if first.sampled(statistic) else ""
        return SideValues(
            values, sums, cast(Distance, about.distance), about.neutral, SUITE_CASES, self.restarts, part, LEVEL
        )

    def interval(self, side: str, statistic: str) -> Interval | None:
        """Return the interval of a side's mean: over restarts if they differ, else over the items of one model."""
        models = self.measured[side]
        values = np.asarray([[m.values[statistic] for m in group] for group in models], dtype=np.float64)
        if self.restarts and float(np.ptp(values)) > 0:
            return restart_interval(values.mean(axis=1))
        return models[0][0].intervals[statistic] if float(np.ptp(values)) == 0 else None


@dataclass(frozen=True)
class _Part:
    """A partial finding: the code of its verdict (``reduced`` if it raises no objection), text, report lines, what
    would settle it, and figures.

    ``brief`` is the line that a failing test shows; by default the first of ``lines``.
    """

    verdict: str
    text: str = ""
    lines: Sequence[str] = ()
    settled_by: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)
    budget: Mapping[str, object] = field(default_factory=dict)
    reduction: Reduction | None = None
    brief: str = ""


def _judge_share(case: MeasuredRun, figures: SideValues, by: float) -> _Part:
    """Judge the reduction of the distance from neutral, and compare it with the control."""
    name, before = case.statistic, figures.distance_of(BEFORE)
    moved = f"{name} {format_number(figures.value_of(BEFORE))} -> {format_number(figures.value_of(AFTER))}"
    facts: dict[str, object] = {
        "before": figures.value_of(BEFORE),
        "after": figures.value_of(AFTER),
        "by_seed": {side: values.tolist() for side, values in figures.values.items()},
        "by": by,
    }
    if CONTROL in figures.values:
        facts["control"] = figures.value_of(CONTROL)
    if nothing := _nothing_to_reduce(case, figures):
        return _Part(NOT_REDUCED, f"{moved}: {nothing}", facts=facts)
    reduction = figures.reduction(AFTER, BEFORE, by)
    verdict = _verdict_on(reduction.excess, FLOAT_NOISE * before, strict=by == 0)
    line, brief = describe_share(reduction, figures)
    lines = [line]
    facts |= {
        "reduction": reduction.share,
        "reduction_bounds": [reduction.low, reduction.high],
        "difference": reduction.change.value,
        "difference_bounds": [reduction.change.low, reduction.change.high],
    }
    against, settled = "", settled_by(reduction.excess, reduction.low) if verdict == TOO_FEW else ""
    if CONTROL in figures.values:
        above = figures.compare(AFTER, {CONTROL: 1.0})
        of_control = _verdict_on(above, FLOAT_NOISE * before, strict=True)
        how = {REDUCED: "", NOT_REDUCED: "no ", TOO_FEW: "not surely ", NO_VALUE: "by no known number "}[of_control]
        better = f"{how}{'more than in' if reduction.share > 0 else 'better than'}"
        value = format_number(figures.value_of(CONTROL))
        against = f", {better} the control ({value})"
        low, high = 0.0 - above.high, 0.0 - above.low  # no -0
        over = f"{above.over} ({above.items} of them; {above.method})"
        lines.append(
            f"  control ({describe_control(case.run)}): {value}; after is"
            f" {abs(above.value):.4g} {'better' if above.value <= 0 else 'worse'},"
            f" {describe_bounds(above, f'{low:.4g}', f'{high:.4g}', over)}"
        )
        facts["against_control"] = [-above.value, -above.high, -above.low]
        if of_control == TOO_FEW:  # a smaller share alone would settle nothing then
            wanted = [settled_by(reduction.excess, None)] if verdict == TOO_FEW else []
            settled = "; ".join(dict.fromkeys([*wanted, f"{settled_by(above, None)} (the control)"]))
        verdict = min(verdict, of_control, key=_ORDER.index)
    least = f"at least {format_share(by)}" if by else "any reduction"
    text = f"{moved}, {describe_change(reduction.share)} ({least} is asked){against}"
    return _Part(verdict, text, lines, settled, facts, {}, reduction, brief)


def _nothing_to_reduce(case: MeasuredRun, figures: SideValues) -> str:
    """Return why there is nothing to reduce, if the model before does not differ from a neutral one; else an empty
    text.
    """
    if figures.distance_of(BEFORE) <= FLOAT_NOISE:
        return f"there is nothing to reduce: neutral is {case.about.neutral:g}, and the model is not beyond it before"
    around = case.interval(BEFORE, case.statistic)
    if case.about.direction == "away" and around is not None and around.low <= case.about.neutral <= around.high:
        return (
            f"there is nothing to reduce that is more than noise: before, the interval over {around.over} is"
            f" {format_bounds(around.low, around.high)}, and {case.about.neutral:g} is neutral"
        )
    return ""


def _verdict_on(excess: Difference, noise: float, strict: bool) -> str:
    """Return the code of what should be 0 or less, or below 0 if ``strict``; ``no_value`` of what is no number."""
    if np.isnan([excess.value, excess.low, excess.high]).any():
        return NO_VALUE
    if excess.high < -noise if strict else excess.high <= noise:
        return REDUCED
    return NOT_REDUCED if (excess.low >= -noise if strict else excess.low > noise) else TOO_FEW


def _judge_side(case: MeasuredRun, figures: SideValues | None, overshoot: float) -> _Part:
    """Judge whether the bias now leans to the other side, by a figure with a sign."""
    if figures is None or not {BEFORE, AFTER} <= set(figures.values):
        return _Part(REDUCED)
    name = case.statistic
    signed = name if case.about.direction == "away" else str(case.about.partner)
    was, now = (figures.value_of(side) - figures.neutral for side in (BEFORE, AFTER))
    moved = f"{signed} {format_number(was + figures.neutral)} -> {format_number(now + figures.neutral)}"
    if not np.isfinite([was, now]).all():
        return _Part(NO_VALUE, f"{moved}: only finite numbers tell the side that it leans to")
    of_sign: dict[str, object] = {"statistic": signed, "before": was + figures.neutral, "after": now + figures.neutral}
    facts = {"signed": of_sign}
    bounds = [case.interval(side, signed) for side in (BEFORE, AFTER)]
    sure = [around is not None and not around.low <= figures.neutral <= around.high for around in bounds]
    certain = all(sure) or (overshoot > 0 and bounds == [None, None])
    lines = [] if signed == name else [f"  the side it leans to: {moved}{describe_intervals(bounds)}"]
    if was * now < 0 and abs(now) > overshoot * abs(was) and certain:
        text = f"{moved}: the sign flips, to {format_share(abs(now / was))} of what it was"
        return _Part(OVER_CORRECTED, text, lines, facts=facts)
    if was * now < 0 and signed == name:
        how = (
            f"by no more than {format_share(overshoot)} of what it was"
            if certain
            else "and no interval tells that from chance"
        )
        lines.append(f"  the sign flips, {how}{describe_intervals(bounds)}")
    if signed != name and (slope := figures.unit_slope(AFTER, BEFORE)) is not None:
        reach = format_bounds(slope.low, slope.high, THREE_DIGITS)
        lines.append(f"  bias of an item after on that before: slope {reach} over {slope.over}")
        of_sign["item_slope"] = [slope.low, slope.high]
        if slope.high < -overshoot - FLOAT_NOISE:
            text = (
                f"the {slope.over} lean the other way now (slope {reach}): the sign flips,"
                f" to about {format_share(-(slope.low + slope.high) / 2)} of what it was"
            )
            return _Part(OVER_CORRECTED, text, lines, facts=facts)
    return _Part(REDUCED, "", lines, facts=facts)


def _judge_lead(case: MeasuredRun, figures: SideValues, by: float) -> _Part:
    """Judge whether the bias fell by the share that is asked beyond what a model loses that is less sure of everything.

    Logits half as large keep every right answer, and halve bias in nats. Perplexity need not rise with it: of a text
    that is not the model's kind it falls.
    """
    sides = ([group[0].abilities for group in case.measured[side]] for side in (AFTER, BEFORE))
    kept, what = kept_lead(*map(over_restarts, sides))
    was, now = (figures.distance_of(side) for side in (BEFORE, AFTER))
    if kept >= 1 - LEAST_LEAD or not (1 - by) * kept * was < now <= (1 - by) * was:
        return _Part(REDUCED)
    text = f"{describe_lead(kept, what)}; beyond that it is {describe_change(1 - now / (kept * was))}"
    return _Part(NOT_REDUCED, text, [f"  {text}"])


def _judge_budget(case: MeasuredRun, name: str, share: float) -> _Part:
    """Judge whether a figure of the task is worse than its budget allows, as a ratio to its value before."""
    try:
        figures, higher, source = task_values(case, name)
    except UndefinedError as error:
        return _Part(NO_VALUE, f"no value for the {name} of the budget {error}")
    lacking = [side for side in (BEFORE, AFTER) if not np.isfinite(figures.values.get(side, np.nan)).all()]
    if lacking:
        return _Part(NO_VALUE, f"{name} has no value {' and '.join(lacking)}")
    was, now = (float(figures.values[side].mean()) for side in (BEFORE, AFTER))
    moved = f"{name} {format_number(was)} -> {format_number(now)}"
    facts: dict[str, object] = {
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
        return _Part(TASK_LOST if lost else NO_VALUE, f"{moved}: {why}", budget={name: facts})
    # A control may have no ratio.
    positive = {side: values for side, values in figures.values.items() if least[side] > 0}
    worse_side = np.positive if higher else np.negative  # of logarithms, whose differences are ratios
    ratio = replace(figures, values=positive).mapped(np.log, log_sums, worse_side)
    difference = ratio.compare(AFTER, {BEFORE: 1.0})
    allowed = float(np.log1p(share) if higher else -np.log1p(-share) if share < 1 else np.inf)
    code = _verdict_on(difference, allowed + FLOAT_NOISE, strict=False)
    verdict = TASK_LOST if code == NOT_REDUCED else code
    worse, low, high = (share_of_log(x, higher) for x in (difference.value, difference.low, difference.high))
    outcome = {TASK_LOST: "lost", REDUCED: "kept", TOO_FEW: "not decided", NO_VALUE: "no number"}[verdict]
    text = f"{moved}, {describe_worsening(worse)}, {format_share(share)} worse is allowed"
    lines = [
        f"  {name}{source}: {moved.removeprefix(name).strip()}, {describe_worsening(worse)},"
        f" {_describe_shares(low, high, difference)}; budget {format_share(share)}: {outcome}"
    ]
    facts |= {"worse": worse, "worse_bounds": [low, high], "verdict": outcome}
    if CONTROL in positive:
        beside = ratio.compare(AFTER, {CONTROL: 1.0})
        value = float(positive[CONTROL].mean())
        lowest, highest = (share_of_log(x, higher) for x in (beside.low, beside.high))
        lines.append(
            f"    the control has {format_number(value)}: against it after is"
            f" {describe_worsening(share_of_log(beside.value, higher))}, {_describe_shares(lowest, highest, beside)}"
        )
        facts["control"] = value
    settled = ""
    if verdict == TOO_FEW:
        over = replace(
            difference, value=difference.value - allowed, low=difference.low - allowed, high=difference.high - allowed
        )
        wider = f", or a budget of {np.ceil(100 * high) / 100:g}" if np.isfinite(high) else ""
        settled = settled_by(over, None) + wider
    return _Part(verdict, "" if verdict == REDUCED else text, lines, settled, budget={name: facts})


def task_values(case: MeasuredRun, name: str) -> tuple[SideValues, bool, str]:
    """Return a budget figure, whether higher is worse, and its source: what the recipe evaluates, or another statistic
    of the suite.

    Raises:
        SettingError: neither has a figure of that name.
        UndefinedError: the figure is undefined before or after.
    """
    run, others = case.run, [statistic for statistic in case.after.values if statistic != case.statistic]
    evaluated: list[str] = []
    if run.recipe is not None:
        performances = _performances(run)
        first = performances[AFTER][0][0]
        evaluated = list(first)
        if name in evaluated:
            values = {
                side: np.asarray([[figures[name].value for figures in group] for group in models])
                for side, models in performances.items()
            }
            sums = {
                side: [[figures[name].item_sums for figures in group] for group in models]
                for side, models in performances.items()
            }
            figures = SideValues(values, sums, np.positive, 0.0, SUITE_CASES, case.restarts, level=LEVEL)
            return figures, first[name].direction == "higher", ""
    if name not in others or case.after.statistics[name].direction == "away":
        of_recipe = (
            f"the recipe evaluates {', '.join(evaluated)}" if evaluated else "the run has no recipe that evaluates"
        )
        raise SettingError(
            f"budget figure {name!r} is not measured: {of_recipe}, and {case.after.suite} measures"
            f" {', '.join(others) or 'nothing'} beside"
        )
    figures = case.values_of(name)
    if not run.trained:
        figures = replace(figures, values={side: v for side, v in figures.values.items() if side != CONTROL})
    return figures, case.after.statistics[name].direction == "higher", f" of {case.after.suite}"


def _performances(run: MitigationRun) -> dict[str, list[list[dict[str, Performance]]]]:
    """Return the performance of each side on its task; a control is left out if it is not trained or its figures are
    undefined.

    Raises:
        UndefinedError: the performance before or after is undefined.
    """
    performances = {}
    for side in (BEFORE, AFTER, *((CONTROL,) if run.control and run.trained else ())):
        try:
            performances[side] = run.performance(side)
        except UndefinedError as error:
            if side != CONTROL:
                raise UndefinedError(f"{side}: {error}") from error
    return performances


def share_of_log(log: float, higher: bool) -> float:
    """Return how much worse a figure is, as a share of its value before, from the logarithm of the ratio."""
    return float(np.expm1(log) if higher else -np.expm1(-log))


def _judge_heads(case: MeasuredRun, back: float, settings: Mapping[str, object], reduced: bool) -> _Part:
    """Judge how much of a reduction is lost with a new head on the frozen encoder."""
    if not reduced:
        return _Part(REDUCED, "", ["  superficial: not tested, as no reduction is sure that could come back"])
    with new_heads(case.run) as retrained:
        measured = {
            now: retrained.measure(side, case.suite, **settings) for now, side in ((RETRAINED, AFTER), (_HEADS, BEFORE))
        }
    both = replace(case, measured={**case.measured, **measured})
    if trouble := both.trouble({"any": 0.0}):
        return _Part(*trouble)
    figures = both.values_of(case.statistic)
    share, (low, high), over = figures.returned(RETRAINED, AFTER, BEFORE)
    after, before, of_heads = (figures.distance_of(side) for side in (AFTER, BEFORE, _HEADS))
    by_before = (of_heads - after) / (before - after)
    value = format_number(figures.value_of(RETRAINED))
    comes = f"{f'{format_share(share)} of the reduction' if share > 0 else 'nothing'} comes back with a new head"
    around = shows = ""
    if low is not None and high is not None:
        around = f", one-sided 95 % bounds {format_share(low)} and {format_share(high)} over {over}"
    if by_before <= back:
        shows = f", {format_share(max(0.0, by_before))} of the reduction: such a head shows no bias that is there"
    compression = compress(case.run, settings)
    known = f"not known: {compression}"
    if not isinstance(compression, str):
        both_sides = " before, ".join(format_number(compression[side]) for side in (BEFORE, AFTER))
        known = f"{both_sides} after (with the new head, too: the encoder is the same)"
    lines = [
        f"  superficial: {comes} on the frozen encoder ({case.statistic} {value}{around}); more than"
        f" {format_share(back)} would be superficial",
        f"    before with a new head: {format_number(figures.value_of(_HEADS))}{shows}",
        f"    compression of gender: {known}",
    ]
    facts = {
        "superficial": {
            "comes_back": share,
            "bounds": [low, high],
            "retrained": figures.value_of(RETRAINED),
            "before_retrained": figures.value_of(_HEADS),
            "compression": {"why": compression} if isinstance(compression, str) else compression,
        }
    }
    if max(share, by_before) <= back:  # a head that learned nothing brings nothing back
        text = "a new head brings the bias back on no encoder, not even on the one before, and so tells nothing"
        return _Part(TOO_FEW, text, lines, "a recipe that trains the head longer (superficial)", facts)
    return _Part(SUPERFICIAL if share > back else REDUCED, comes if share > back else "", lines, facts=facts)


def _summed_up(case: MeasuredRun, parts: Sequence[_Part], bound: str) -> Judgement:
    """Combine the partial findings; the verdict is that of the most severe one."""
    ordered = sorted(parts, key=lambda part: _ORDER.index(part.verdict))
    verdict, share = ordered[0].verdict, parts[0]
    tried = case.run.tried
    text = "; ".join([*(part.text for part in ordered if part.text), *([] if tried is None else [tried.describe()])])
    facts: dict[str, object] = {} if tried is None else {"grid": tried.to_dict()}
    facts["budget"] = {name: of_figure for part in parts for name, of_figure in part.budget.items()}
    for part in parts:
        facts |= part.facts
    facts |= {"seeds": list(case.run.seeds), "over": "", "what": case.run.what, "seconds": case.run.seconds}
    interval, difference, over = None, None, ""
    if share.reduction is not None:
        change = share.reduction.change
        difference, over = change.value, change.over
        if np.isfinite(change.high):
            interval = Interval(change.low, change.high, LEVEL, over, change.method, change.items, change.templates)
        facts["over"] = over
    settled = "; ".join(dict.fromkeys(p.settled_by for p in parts if p.settled_by)) if verdict == TOO_FEW else ""
    decisive = [part.brief or part.lines[0] for part in ordered if part.lines and part.verdict == verdict]
    return make_judgement(
        case.after,
        case.statistic,
        verdict,
        bound,
        text,
        [Paragraph("bounds", shortened(line.strip())) for line in decisive[:2]],
        "" if settled else _WHAT_TO_DO.get(verdict, ""),
        interval=interval,
        over=over,
        settled_by=settled,
        difference=difference,
        details=[*(Paragraph("found", line.strip()) for part in parts for line in part.lines), *about_run(case.run)],
        facts=read_value(ReductionFacts, as_plain(json.loads(json.dumps(facts, default=str)), finite=True), "facts"),
    )


def about_run(run: MitigationRun) -> list[Paragraph]:
    """Return paragraphs on the trainings of a run and on the grid that it is of; none if there is neither."""
    text = ""
    if run.trained and len(run.seeds) == 1:
        text = (
            "once: one restart says little about others, which may differ by more; use three or more seeds to judge"
            " over restarts"
        )
    elif run.trained:
        fixed = len({model if isinstance(model, str) else id(model) for (model,) in run.models(BEFORE)}) == 1
        text = f"{len(run.seeds)} times, seeds {', '.join(map(str, run.seeds))}"
        text += "; before is one model for all of them" if fixed else ""
    trained = [Paragraph("trained", text)] if text else []
    if run.tried is None:
        return trained
    table = (Paragraph("", line, is_command=True) for line in run.tried.lines())
    return [*trained, Paragraph("grid", run.tried.describe()), *table]


def describe_control(run: MitigationRun) -> str:
    """Return what the control is, and how many models its mean is of."""
    count = max(len(models) for models in run.models(CONTROL))
    what = str(run.what.get("control", "given"))
    return f"{what}, mean of {count}" + (" a seed" if len(run.seeds) > 1 else "") if count > 1 else what


def describe_share(reduction: Reduction, figures: SideValues) -> tuple[str, str]:
    """Return a line on the share of the distance from neutral that is removed, and the same in a few words."""
    excess, change = reduction.excess, f"  {describe_change(reduction.share)}"
    distance = f"distance from neutral {' -> '.join(format_number(figures.distance_of(s)) for s in (BEFORE, AFTER))}"
    if not excess.items:
        as_is = "" if np.isfinite(excess.high) else ", which decides nothing"
        line = f"{change}, compared as it is, with no bound for others{as_is}: {excess.method}"
        return line, f"{distance}, compared as it is"
    low, high = (None if bound is None else format_share(bound) for bound in (reduction.low, reduction.high))
    line = (
        f"{change}: one-sided 95 % bounds of the share {low or 'no lower one'} and {high or 'no upper one'}, over"
        f" {excess.over} ({excess.items} of them; {excess.method}); {distance}"
    )
    return line, f"{distance}; the share is {low or 'none'} to {high or 'none'} (95 %) over {excess.over}"


def describe_bounds(difference: Difference, low: str, high: str, over: str) -> str:
    """Return the bounds of a difference, or of what is computed from it."""
    if not difference.items:
        return "as they are" if np.isfinite(difference.high) else "without bounds"
    return f"one-sided 95 % bounds {low} and {high} over {over}"


def _describe_shares(low: float, high: float, difference: Difference) -> str:
    over = f"{difference.items} {difference.over}"
    return describe_bounds(difference, format_share(low), format_share(high), over)


def settled_by(difference: Difference, low: float | None) -> str:
    """Return what would decide whether a difference is 0 or less, if its value stays the same.

    ``low`` is the lower bound of the share that is removed: a smaller ``by`` would also decide.
    """
    if not np.isfinite(difference.high):
        return _MORE_SEEDS if difference.over == "restarts" else "all cases of the suite (no limit)"
    needed = items_to_decide(difference, 0.0) if difference.items else None
    what = "seeds" if difference.over.startswith("restarts") else difference.over
    more = f"more {what}" if needed is None else f"{approximate(needed)} {what}, if it stays where it is"
    return more if low is None or low <= 0 else f"{more}; or by={np.floor(100 * low) / 100:g}"


def describe_intervals(bounds: Sequence[Interval | None]) -> str:
    """Return the intervals before and after."""
    before, after = [
        "no interval"
        if interval is None
        else f"{format_bounds(interval.low, interval.high, THREE_DIGITS)} over {interval.over}"
        for interval in bounds
    ]
    return f" ({before}; {after})"


def describe_worsening(worse: float) -> str:
    """Return by which share a figure of the task is worse or better."""
    return (
        f"{format_share(abs(worse))} {'worse' if worse > 0 else 'better'}" if abs(worse) > FLOAT_NOISE else "unchanged"
    )


def describe_change(share: float) -> str:
    """Return the share of the distance from neutral that was removed, or added.

    >>> describe_change(0.25), describe_change(-0.25)
    ('reduced by 25 %', 'raised by 25 %')
    """
    if abs(share) <= FLOAT_NOISE:
        return "unchanged"
    return f"reduced by {format_share(share)}" if share > 0 else f"raised by {format_share(-share)}"
