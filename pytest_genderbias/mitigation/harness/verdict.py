"""``assert_reduced``: is bias lower after a mitigation, is the task done as well as before, and is it more than cosmetic?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pytest_genderbias.errors import SettingError
from pytest_genderbias.gates.assertions import settle
from pytest_genderbias.gates.judgement import Finding, Judgement, format_number, make_judgement
from pytest_genderbias.gates.regression import FLOAT_NOISE
from pytest_genderbias.gates.verdicts import (
    ACCURACY_LOST,
    INCONCLUSIVE,
    NO_VALUE,
    NOT_COMPARABLE,
    NOT_REDUCED,
    OVER_CORRECTED,
    REDUCED,
    SUPERFICIAL,
)
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.restarts import combine_restarts
from pytest_genderbias.mitigation.harness.retraining import compress, recipe_of_heads, retrained_heads
from pytest_genderbias.mitigation.harness.run import AFTER, BEFORE, CONTROL, RETRAINED, MitigationRun
from pytest_genderbias.mitigation.harness.sides import (
    Case,
    Figures,
    Measured,
    as_ratios,
    bias_left_by_item,
    share_of_log,
    task_figures,
)
from pytest_genderbias.mitigation.harness.wording import (
    asked_in_words,
    bounds_in_words,
    budget_settled_by,
    by_how_much,
    change_in_words,
    control_in_words,
    intervals_in_words,
    least_in_words,
    percent,
    run_in_words,
    settled_by,
    share_bounds_in_words,
    share_in_words,
    worse_in_words,
)
from pytest_genderbias.statistics.inference.paired import Difference
from pytest_genderbias.statistics.inference.reduction import (
    Reduction,
    measure_reduction,
    solve_bound,
)
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.suites.suite import Suite, load_suite

_HEADS = "before with a new head"
#: What is said first: the first of these that was found is the verdict.
_ORDER = (
    NOT_COMPARABLE, NO_VALUE, ACCURACY_LOST, OVER_CORRECTED, NOT_REDUCED, INCONCLUSIVE, SUPERFICIAL, REDUCED,
)  # fmt: skip


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
        run: of :func:`~pytest_genderbias.mitigation.harness.run.mitigate`, or of models that you trained yourself.
        suite: a packaged suite's name, the path of a suite file, or a loaded suite.
        by: share of the distance from neutral that should be gone, 0 to 1; 0 asks for some reduction.
        budget: how much worse a figure may be, as a share of what it was before: ``{"perplexity": 0.05}``. Of what the run's recipe
            evaluates, or else another statistic of the suite.
        statistic: the suite's main one by default.
        superficial: train a new head on each frozen encoder, and see what comes back.
        back: share of the reduction that may come back.
        overshoot: how far beyond neutral is still accepted, as a share of the distance before.
        name: what the gate is called, to tell it from others on the same statistic.
        settings: of :func:`~pytest_genderbias.measurement.measure.measure`, as ``data``, ``limit``, and options of the suite.

    Raises:
        SettingError: an argument cannot be what it is, nobody can tell a figure of the budget, or no recipe trains a head.
        NotApplicableError, ScoreError: as :func:`~pytest_genderbias.measurement.measure.measure`.
    """
    budget = _checked(by, back, overshoot, budget)
    if superficial:
        recipe_of_heads(run)
    loaded = suite if isinstance(suite, Suite) else load_suite(suite)
    sides = (BEFORE, AFTER, *((CONTROL,) if run.control else ()))
    measured: Measured = {side: run.measure(side, loaded, **settings) for side in sides}
    after = _mean_over_seeds(run, measured[AFTER])
    chosen = after.statistic(statistic)
    case = Case(run, loaded, measured, chosen, after)
    bound = ", ".join(
        [asked_in_words(by), *(f"{figure} {percent(share)} worse at most" for figure, share in budget.items())]
    )
    if trouble := case.trouble():
        return make_judgement(after, chosen, Finding(trouble[0], bound, trouble[1], lines=run_in_words(run)), name)
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


def _judge_share(case: Case, by: float) -> _Part:
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
    lines = [share_in_words(found, figures)]
    facts |= {
        "reduction": found.share,
        "reduction_bounds": [found.low, found.high],
        "difference": found.change.value,
        "difference_bounds": [found.change.low, found.change.high],
    }
    against, settled = "", settled_by(found.excess, found.low) if verdict == INCONCLUSIVE else ""
    if CONTROL in figures.values:
        above = figures.compare(AFTER, {CONTROL: 1.0})
        of_control = _verdict_on(above, FLOAT_NOISE * before, strict=True)
        how = {REDUCED: "", NOT_REDUCED: "no ", INCONCLUSIVE: "not surely "}[of_control]
        better = f"{how}{'more than in' if found.share > 0 else 'better than'}"
        value = format_number(figures.value_of(CONTROL))
        against = f", {better} the control ({value})"
        lines.append(
            f"  control ({control_in_words(case.run)}): {value}; after is {by_how_much(-above.value, 'better', 'worse')}, {bounds_in_words(above, -1)}"
        )
        facts["against_control"] = [-above.value, -above.high, -above.low]
        if of_control == INCONCLUSIVE:  # a smaller share alone would settle nothing then
            wanted = [settled_by(found.excess, None)] if verdict == INCONCLUSIVE else []
            settled = "; ".join(dict.fromkeys([*wanted, f"{settled_by(above, None)} (the control)"]))
        verdict = min(verdict, of_control, key=_ORDER.index)
    text = f"{moved}, {change_in_words(found.share)} ({least_in_words(by)} is asked){against}"
    return _Part(verdict, text, lines, settled, facts, found)


def _nothing_to_reduce(case: Case, figures: Figures) -> str:
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


def _judge_side(case: Case, overshoot: float) -> _Part:
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
    lines = [] if signed == name else [f"  the side it leans to: {moved}{intervals_in_words(bounds)}"]
    if was * now < 0 and abs(now) > overshoot * abs(was) and told:
        text = f"{moved}: the sign flips, to {percent(abs(now / was))} of what it was"
        return _Part(OVER_CORRECTED, text, lines, facts=facts)
    if was * now < 0 and signed == name:
        how = (
            f"by no more than {percent(overshoot)} of what it was" if told else "and no interval tells that from chance"
        )
        lines.append(f"  the sign flips, {how}{intervals_in_words(bounds)}")
    if signed != name and (slope := bias_left_by_item(case, figures)) is not None:
        lines.append(
            f"  bias of an item after on that before: slope {slope.low:.3g} to {slope.high:.3g} over {slope.over}"
        )
        facts["signed"]["item_slope"] = [slope.low, slope.high]
        if slope.high < -overshoot - FLOAT_NOISE:
            text = (
                f"the {slope.over} lean the other way now (slope {slope.low:.3g} to {slope.high:.3g}): the sign flips, to about "
                f"{percent(-(slope.low + slope.high) / 2)} of what it was"
            )
            return _Part(OVER_CORRECTED, text, lines, facts=facts)
    return _Part(REDUCED, "", lines, facts=facts)


def _judge_budget(case: Case, name: str, share: float) -> _Part:
    """Judge whether a figure of the task is worse than its budget allows, as a ratio of what it was."""
    try:
        figures, higher, source = task_figures(case, name)
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
    ratio = as_ratios(replace(figures, values=told), higher)
    found = ratio.compare(AFTER, {BEFORE: 1.0})
    allowed = np.log1p(share) if higher else -np.log1p(-share) if share < 1 else np.inf
    verdict = (
        ACCURACY_LOST if found.low > allowed + FLOAT_NOISE
        else REDUCED if found.high <= allowed + FLOAT_NOISE
        else INCONCLUSIVE
    )  # fmt: skip
    worse, low, high = (share_of_log(x, higher) for x in (found.value, found.low, found.high))
    said = {ACCURACY_LOST: "lost", REDUCED: "kept", INCONCLUSIVE: "not decided"}[verdict]
    text = f"{moved}, {worse_in_words(worse)}, {percent(share)} worse is allowed"
    lines = [
        f"  {name}{source}: {moved.removeprefix(name).strip()}, {worse_in_words(worse)}, {share_bounds_in_words(low, high, found)}; budget {percent(share)}: {said}"
    ]
    facts |= {"worse": worse, "worse_bounds": [low, high], "verdict": said}
    if CONTROL in told:
        beside = ratio.compare(AFTER, {CONTROL: 1.0})
        value = float(told[CONTROL].mean())
        lowest, highest = (share_of_log(x, higher) for x in (beside.low, beside.high))
        lines.append(
            f"    the control has {format_number(value)}: against it after is {worse_in_words(share_of_log(beside.value, higher))}, "
            f"{share_bounds_in_words(lowest, highest, beside)}"
        )
        facts["control"] = value
    settled = budget_settled_by(found, float(allowed), high) if verdict == INCONCLUSIVE else ""
    return _Part(verdict, "" if verdict == REDUCED else text, lines, settled, {"budget": {name: facts}})


def _judge_heads(case: Case, back: float, settings: Mapping[str, Any], reduced: bool) -> _Part:
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
        f"{percent(share)} of the reduction comes back with a new head"
        if share > 0
        else "nothing comes back with a new head"
    )
    around = (
        ""
        if low is None or high is None
        else f", one-sided 95 % bounds {percent(low)} and {percent(high)} over {found.over}"
    )
    compression = compress(case.run, settings)
    lines = [
        f"  superficial: {comes} on the frozen encoder ({case.statistic} {value}{around}); more than {percent(back)} would be superficial",
        f"    before with a new head: {format_number(figures.value_of(_HEADS))}"
        + ("" if by_before > back else f", {percent(max(0.0, by_before))} of the reduction: such a head shows no bias that is there"),
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


def _summed_up(case: Case, parts: Sequence[_Part], bound: str) -> Finding:
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
    lines = [*(line for part in parts for line in part.lines), *run_in_words(case.run)]
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


def _mean_over_seeds(run: MitigationRun, measured: Sequence[Sequence[Measurement]]) -> Measurement:
    """Return the mean over seeds as one measurement, whose model is named after the method, too."""
    measurements = [measurement for (measurement,) in measured]
    mean = measurements[0] if len(measurements) == 1 else combine_restarts(measurements, run.seeds)
    method, recipe = run.what.get("method"), run.what.get("recipe")
    if not isinstance(method, Mapping):
        return mean
    model = mean.model
    if model == "model" and isinstance(recipe, Mapping):  # the folder of a training, which says nothing
        model = recipe.get("recipe", model)
    return replace(mean, model=f"{model} with {method['method']}")


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
