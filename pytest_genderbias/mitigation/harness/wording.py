"""What a verdict on a mitigation says of shares, bounds, and what would settle it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pytest_genderbias.gates.judgement import approximate, format_number
from pytest_genderbias.gates.regression import FLOAT_NOISE
from pytest_genderbias.mitigation.harness.run import AFTER, BEFORE, CONTROL, MitigationRun
from pytest_genderbias.mitigation.harness.sides import Figures
from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.statistics.inference.paired import Difference, items_to_decide
from pytest_genderbias.statistics.inference.reduction import Reduction

_MORE_SEEDS = "five seeds or more"


def run_in_words(run: MitigationRun) -> list[str]:
    """Say how often a run was trained, as lines; nothing where nothing was."""
    if not run.trained:
        return []
    if len(run.seeds) == 1:
        return [
            "  trained once: one restart says little of others, whose figures differ by more; three seeds or more judge over restarts"
        ]
    seeds = ", ".join(map(str, run.seeds))
    fixed = len({model if isinstance(model, str) else id(model) for (model,) in run.models(BEFORE)}) == 1
    return [
        f"  trained {len(run.seeds)} times, seeds {seeds}" + ("; before is one model for all of them" if fixed else "")
    ]


def control_in_words(run: MitigationRun) -> str:
    """Say what the control is, and of how many the mean counts."""
    count = max(len(models) for models in run.models(CONTROL))
    what = str(run.what.get("control", "given"))
    return f"{what}, mean of {count}" + (" a seed" if len(run.seeds) > 1 else "") if count > 1 else what


def share_in_words(found: Reduction, figures: Figures) -> str:
    """Return a line on how much of the distance from neutral is gone."""
    excess = found.excess
    if not excess.items:
        as_is = "" if np.isfinite(excess.high) else ", which decides nothing"
        return f"  {change_in_words(found.share)}, compared as it is, with no bound for others{as_is}: {excess.method}"
    low, high = (
        f"no {what} one" if x is None else percent(x) for x, what in ((found.low, "lower"), (found.high, "upper"))
    )
    return (
        f"  {change_in_words(found.share)}: one-sided 95 % bounds of the share {low} and {high}, over {excess.over} ({excess.items} of them; "
        f"{excess.method}); distance from neutral {format_number(figures.distance_of(BEFORE))} -> {format_number(figures.distance_of(AFTER))}"
    )


def bounds_in_words(found: Difference, sign: float = 1.0) -> str:
    """Return the bounds of a difference in words."""
    if not found.items:
        return "as they are" if np.isfinite(found.high) else "without bounds"
    low, high = sorted((sign * found.low + 0.0, sign * found.high + 0.0))  # no -0
    return f"one-sided 95 % bounds {low:.4g} and {high:.4g} over {found.over} ({found.items} of them; {found.method})"


def share_bounds_in_words(low: float, high: float, found: Difference) -> str:
    """Return the bounds of how much worse a figure of the task is, in words."""
    if not found.items:
        return "as they are" if np.isfinite(found.high) else "without bounds"
    return f"one-sided 95 % bounds {percent(low)} and {percent(high)} over {found.items} {found.over}"


def settled_by(found: Difference, low: float | None) -> str:
    """Say what would decide a figure that should be 0 or less, if it stays where it is."""
    if not np.isfinite(found.high):
        return _MORE_SEEDS if found.over == "restarts" else "all cases of the suite (no limit)"
    needed = items_to_decide(found, 0.0) if found.items else None
    what = "seeds" if found.over.startswith("restarts") else found.over
    more = f"more {what}" if needed is None else f"{approximate(needed)} {what}, if it stays where it is"
    return more if low is None or low <= 0 else f"{more}; or by={np.floor(100 * low) / 100:g}"


def budget_settled_by(found: Difference, allowed: float, high: float) -> str:
    """Say what would decide whether a figure of the task, as the logarithm of a ratio, is worse than allowed; ``high``: by how much at most."""
    over = replace(found, value=found.value - allowed, low=found.low - allowed, high=found.high - allowed)
    wider = f", or a budget of {np.ceil(100 * high) / 100:g}" if np.isfinite(high) else ""
    return settled_by(over, None) + wider


def intervals_in_words(bounds: Sequence[Interval | None]) -> str:
    """Return the intervals before and after in words."""
    told = [f"{one.low:.3g} to {one.high:.3g} over {one.over}" if one is not None else "no interval" for one in bounds]
    return f" ({told[0]}; {told[1]})"


def by_how_much(difference: float, above: str, below: str) -> str:
    """Return the size of a difference, and what it is called on either side of 0."""
    return f"{abs(difference):.4g} {above if difference >= 0 else below}"


def worse_in_words(worse: float) -> str:
    """Say by which share a figure of the task is worse or better."""
    return f"{percent(abs(worse))} {'worse' if worse > 0 else 'better'}" if abs(worse) > FLOAT_NOISE else "unchanged"


def change_in_words(share: float) -> str:
    """Say which share of the distance from neutral is gone, or came.

    >>> change_in_words(0.25), change_in_words(-0.25)
    ('reduced by 25 %', 'raised by 25 %')
    """
    if abs(share) <= FLOAT_NOISE:
        return "unchanged"
    return f"reduced by {percent(share)}" if share > 0 else f"raised by {percent(-share)}"


def asked_in_words(by: float) -> str:
    """Return what is asked, as tables have it."""
    return f"reduced by {percent(by)}" if by else "reduced"


def least_in_words(by: float) -> str:
    """Return what is asked, within a sentence."""
    return f"at least {percent(by)}" if by else "any reduction"


def percent(share: float) -> str:
    """Return a share as a percentage with three significant figures."""
    return f"{100 * share:.3g} %"
