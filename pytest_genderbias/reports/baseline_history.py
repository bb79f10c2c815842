"""How old the baselines of a run are, and how far values have come since they were first accepted."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from pytest_genderbias.gates.judgement import Judgement, SettledJudgement


def baseline_history(judgements: Sequence[SettledJudgement], today: datetime.date) -> Iterator[str]:
    """Yield a line on the age of each model's baseline, and one for each value that has left its anchor.

    Args:
        judgements: of the run; only those that compare with a baseline have a history.
        today: the date from which ages are counted.
    """
    compared = [settled.judgement for settled in judgements if settled.judgement.of_baseline.accepted_on is not None]
    for model in dict.fromkeys(judgement.model for judgement in compared):
        dates = {str(judgement.of_baseline.accepted_on) for judgement in compared if judgement.model == model}
        yield f"baseline of {model}: {_ages(dates, today)}"
    for line in dict.fromkeys(_since_anchor(judgement) for judgement in compared):
        if line:
            yield line


def _ages(dates: set[str], today: datetime.date) -> str:
    days = sorted(days for date in dates if (days := _days(date, today)) is not None)
    unknown = "of unknown age, since an earlier version wrote {}: --bias-update dates {}"
    if not days:
        return unknown.format("it", "it")
    oldest, newest = _ago(days[-1]), _ago(days[0])
    accepted = f"accepted {oldest}" if oldest == newest else f"accepted {oldest} to {newest}"
    return accepted if len(days) == len(dates) else f"{accepted}; some entries are {unknown.format('them', 'them')}"


def _days(date: str, today: datetime.date) -> int | None:
    """Return how many days ago a date was; ``None`` if it is none. Files are edited by hand and merged."""
    try:
        return max(0, (today - datetime.date.fromisoformat(date)).days)
    except ValueError:
        return None


def _ago(days: int) -> str:
    return "today" if days == 0 else "1 day ago" if days == 1 else f"{days:,} days ago"


def _since_anchor(judgement: Judgement) -> str:
    """Return in words how far a value has come from its anchor; an empty text if it is still there."""
    anchor = judgement.of_baseline.anchor
    if anchor is None or not anchor.has_moved:
        return ""
    return (
        f"since {anchor.since}: {judgement.name or judgement.suite}.{judgement.statistic} on {judgement.model}"
        f" {anchor.value:.6g} -> {'-' if judgement.value is None else format(judgement.value, '.6g')}, {anchor.change}"
    )
