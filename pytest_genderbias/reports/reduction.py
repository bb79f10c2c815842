"""The table of what mitigations did: before, after, in the control, and what it cost."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_genderbias.gates.judgement import SettledJudgement
from pytest_genderbias.gates.wording import format_number
from pytest_genderbias.reports.verdict import gate_name

HEADERS = (
    "suite", "model", "statistic", "before", "after", "control", "gone", "95 % bounds", "over", "task", "comes back", "seeds", "asked",
    "verdict",
)  # fmt: skip
_ALWAYS = 7  #: number of columns that are shown even if they are empty


def reduction_rows(judgements: Iterable[SettledJudgement]) -> tuple[list[str], list[list[str]]]:
    """Return the headers of the table and the texts of its rows, as they are; columns that are empty everywhere are left out."""
    rows = sorted(
        (_cells(settled) for settled in judgements if settled.judgement.of_reduction is not None),
        key=lambda r: (r[1], r[0]),
    )
    last = len(HEADERS) - 2
    shown = [i for i in range(len(HEADERS)) if i < _ALWAYS or i >= last or any(row[i] for row in rows)]
    return [HEADERS[i] for i in shown], [[row[i] for i in shown] for row in rows]


def _cells(settled: SettledJudgement) -> tuple[str, ...]:
    judgement, facts = settled.judgement, settled.judgement.of_reduction
    assert facts is not None  # others have no row
    low, high = facts.reduction_bounds or (None, None)
    task = [f"{name} {format_number(one.before)} to {format_number(one.after)}" for name, one in facts.budget.items()]
    seeds = len(facts.seeds)
    return (
        gate_name(judgement), judgement.model, judgement.statistic,
        _number(facts.before), _number(facts.after), _number(facts.control), _share(facts.reduction),
        "" if low is None and high is None else f"{_share(low)} to {_share(high)}", facts.over, "; ".join(task),
        "" if facts.superficial is None else _share(facts.superficial.comes_back), str(seeds) if seeds > 1 else "",
        judgement.bound, settled.verdict,
    )  # fmt: skip


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.3g} %"
