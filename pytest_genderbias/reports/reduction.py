"""The table of what mitigations did: before, after, in the control, and what it cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict, cast

from pytest_genderbias.gates.judgement import Judgement, SettledJudgement
from pytest_genderbias.reports.verdict import gate_name

HEADERS = (
    "suite", "model", "statistic", "before", "after", "control", "gone", "95 % bounds", "over", "task", "comes back", "seeds", "asked",
    "verdict",
)  # fmt: skip
_ALWAYS = 7  #: number of columns that are shown even if they are empty


class _TaskFigure(TypedDict):
    before: float | None
    after: float | None


class _NewHead(TypedDict):
    comes_back: float | None


class _ReductionFacts(TypedDict, total=False):
    """The figures of :func:`~pytest_genderbias.mitigation.harness.verdict.judge_reduction` that the table shows."""

    before: float | None
    after: float | None
    control: float | None
    reduction: float | None
    reduction_bounds: tuple[float | None, float | None]
    over: str
    budget: Mapping[str, _TaskFigure]
    superficial: _NewHead
    seeds: Sequence[int]


def is_reduction(judgement: Judgement) -> bool:
    """Return whether a judgement is of a mitigation, and has its figures."""
    return "by" in judgement.facts


def reduction_rows(judgements: Iterable[SettledJudgement]) -> tuple[list[str], list[list[str]]]:
    """Return the headers of the table and the texts of its rows, as they are; columns that are empty everywhere are left out."""
    rows = sorted(
        (_cells(settled) for settled in judgements if is_reduction(settled.judgement)), key=lambda r: (r[1], r[0])
    )
    last = len(HEADERS) - 2
    shown = [i for i in range(len(HEADERS)) if i < _ALWAYS or i >= last or any(row[i] for row in rows)]
    return [HEADERS[i] for i in shown], [[row[i] for i in shown] for row in rows]


def _cells(settled: SettledJudgement) -> tuple[str, ...]:
    judgement = settled.judgement
    facts = cast(_ReductionFacts, judgement.facts)
    low, high = facts.get("reduction_bounds", (None, None))
    task = [
        f"{name} {_figure(figure['before'])} to {_figure(figure['after'])}"
        for name, figure in facts.get("budget", {}).items()
    ]
    seeds = len(facts.get("seeds", ()))
    return (
        gate_name(judgement), judgement.model, judgement.statistic,
        _number(facts["before"]), _number(facts["after"]), _number(facts.get("control")), _share(facts.get("reduction")),
        "" if low is None and high is None else f"{_share(low)} to {_share(high)}", facts.get("over", ""), "; ".join(task),
        _share(facts["superficial"]["comes_back"]) if "superficial" in facts else "", str(seeds) if seeds > 1 else "",
        judgement.bound, settled.verdict,
    )  # fmt: skip


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.3g} %"
