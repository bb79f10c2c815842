"""The texts of verdicts on mitigations: shares, bounds, and what would settle an undecided one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pytest_genderbias.gates.judgement import AFTER, BEFORE, CONTROL
from pytest_genderbias.gates.verdicts import FLOAT_NOISE, Paragraph
from pytest_genderbias.mitigation.harness.run import MitigationRun
from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.statistics.inference.paired import Difference, items_to_decide
from pytest_genderbias.statistics.inference.reduction import Reduction, SideValues
from pytest_genderbias.text.numbers import approximate, format_number, format_share

_MORE_SEEDS = "five seeds or more"


def about_run(run: MitigationRun) -> list[Paragraph]:
    """Return paragraphs on the trainings of a run and on the grid that it is of; none if there is neither."""
    trained = [Paragraph("trained", text) for text in _trainings_in_words(run)]
    if run.tried is None:
        return trained
    table = (Paragraph("", line, is_command=True) for line in run.tried.lines())
    return [*trained, Paragraph("grid", run.tried.in_words()), *table]


def _trainings_in_words(run: MitigationRun) -> list[str]:
    if not run.trained:
        return []
    if len(run.seeds) == 1:
        return [
            "once: one restart says little about others, which may differ by more; use three or more seeds to judge"
            " over restarts"
        ]
    seeds = ", ".join(map(str, run.seeds))
    fixed = len({model if isinstance(model, str) else id(model) for (model,) in run.models(BEFORE)}) == 1
    return [f"{len(run.seeds)} times, seeds {seeds}" + ("; before is one model for all of them" if fixed else "")]


def control_in_words(run: MitigationRun) -> str:
    """Return what the control is, and how many models its mean is of."""
    count = max(len(models) for models in run.models(CONTROL))
    what = str(run.what.get("control", "given"))
    return f"{what}, mean of {count}" + (" a seed" if len(run.seeds) > 1 else "") if count > 1 else what


def share_in_words(reduction: Reduction, figures: SideValues) -> str:
    """Return a line on the share of the distance from neutral that is removed."""
    excess = reduction.excess
    if not excess.items:
        as_is = "" if np.isfinite(excess.high) else ", which decides nothing"
        return (
            f"  {change_in_words(reduction.share)}, compared as it is, with no bound for others{as_is}: {excess.method}"
        )
    low, high = (
        f"no {what} one" if x is None else format_share(x)
        for x, what in ((reduction.low, "lower"), (reduction.high, "upper"))
    )
    return (
        f"  {change_in_words(reduction.share)}: one-sided 95 % bounds of the share {low} and {high}, over {excess.over}"
        f" ({excess.items} of them; {excess.method}); distance from neutral"
        f" {format_number(figures.distance_of(BEFORE))} -> {format_number(figures.distance_of(AFTER))}"
    )


def share_in_brief(reduction: Reduction, figures: SideValues) -> str:
    """Return the same in a few words."""
    distances = " -> ".join(format_number(figures.distance_of(side)) for side in (BEFORE, AFTER))
    low, high = ("none" if x is None else format_share(x) for x in (reduction.low, reduction.high))
    if not reduction.excess.items:
        return f"distance from neutral {distances}, compared as it is"
    return f"distance from neutral {distances}; the share is {low} to {high} (95 %) over {reduction.excess.over}"


def bounds_in_words(difference: Difference, sign: float = 1.0) -> str:
    """Return the bounds of a difference; with ``sign=-1`` those of its negative."""
    if not difference.items:
        return "as they are" if np.isfinite(difference.high) else "without bounds"
    low, high = sorted((sign * difference.low + 0.0, sign * difference.high + 0.0))  # no -0
    return (
        f"one-sided 95 % bounds {low:.4g} and {high:.4g} over {difference.over} ({difference.items} of them;"
        f" {difference.method})"
    )


def share_bounds_in_words(low: float, high: float, difference: Difference) -> str:
    """Return the bounds on how much worse a figure of the task is."""
    if not difference.items:
        return "as they are" if np.isfinite(difference.high) else "without bounds"
    return (
        f"one-sided 95 % bounds {format_share(low)} and {format_share(high)} over {difference.items} {difference.over}"
    )


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


def budget_settled_by(difference: Difference, allowed: float, high: float) -> str:
    """Return what would decide whether a figure of the task is within its budget.

    ``difference`` and ``allowed`` are logarithms of ratios; ``high`` is the upper bound on how much worse the figure
    is, as a share.
    """
    over = replace(
        difference, value=difference.value - allowed, low=difference.low - allowed, high=difference.high - allowed
    )
    wider = f", or a budget of {np.ceil(100 * high) / 100:g}" if np.isfinite(high) else ""
    return settled_by(over, None) + wider


def intervals_in_words(bounds: Sequence[Interval | None]) -> str:
    """Return the intervals before and after."""
    before, after = [
        "no interval"
        if interval is None
        else f"{format_number(interval.low, 3)} to {format_number(interval.high, 3)} over {interval.over}"
        for interval in bounds
    ]
    return f" ({before}; {after})"


def by_how_much(difference: float, above: str, below: str) -> str:
    """Return the size of a difference, and its name: ``above`` if it is 0 or more, else ``below``."""
    return f"{abs(difference):.4g} {above if difference >= 0 else below}"


def worse_in_words(worse: float) -> str:
    """Return by which share a figure of the task is worse or better."""
    return (
        f"{format_share(abs(worse))} {'worse' if worse > 0 else 'better'}" if abs(worse) > FLOAT_NOISE else "unchanged"
    )


def change_in_words(share: float) -> str:
    """Return the share of the distance from neutral that was removed, or added.

    >>> change_in_words(0.25), change_in_words(-0.25)
    ('reduced by 25 %', 'raised by 25 %')
    """
    if abs(share) <= FLOAT_NOISE:
        return "unchanged"
    return f"reduced by {format_share(share)}" if share > 0 else f"raised by {format_share(-share)}"


def requirement_in_words(by: float) -> str:
    """Return the required reduction, for tables."""
    return f"reduced by {format_share(by)}" if by else "reduced"


def least_in_words(by: float) -> str:
    """Return the required reduction, within a sentence."""
    return f"at least {format_share(by)}" if by else "any reduction"
