"""The table of ``--bias-plan``: what each gate resolves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pytest_genderbias.gates.judgement import UNDERPOWERED, Judgement
from pytest_genderbias.gates.plan import (
    ONE_CHECKPOINT,
    TWO_CHECKPOINTS,
    GatePlan,
    plan_of,
    what_would_help,
    whole_files,
)
from pytest_genderbias.gates.verdicts import PLANNED
from pytest_genderbias.gates.wording import format_number
from pytest_genderbias.reports.verdict import gate_name
from pytest_genderbias.reports.wording import cases_in_words

HEADERS = (
    "suite", "model", "statistic", "value", "planned from", "cases", "seconds", "least tolerance", "for all gates", "tolerance",
    "equal models green", "regressed", "finds, alone", "finds, among all", "plan",
)  # fmt: skip


def plan_rows(judgements: Iterable[Judgement]) -> list[list[str]]:
    """Return the texts of the rows, one for each of ``HEADERS``, as they are."""
    return sorted((_row(judgement, plan) for judgement, plan in _planned(judgements)), key=lambda row: (row[1], row[0]))


def _planned(judgements: Iterable[Judgement]) -> Iterator[tuple[Judgement, GatePlan]]:
    for judgement in judgements:
        if (plan := plan_of(judgement)) is not None:
            yield judgement, plan


def _row(judgement: Judgement, plan: GatePlan) -> list[str]:
    row = [
        gate_name(judgement),
        judgement.model,
        judgement.statistic,
        format_number(judgement.value),
        _source(plan),
        cases_in_words(judgement),
        f"{plan.seconds:.1f}",
    ]
    if plan.tolerance is None:
        return [*row, *[""] * 7, f"none: {plan.why}"]
    written = "auto" if plan.written is None else "as written"
    return [
        *row, _number(plan.alone), _number(plan.planned), f"{plan.tolerance:.3g} ({written})", _share(plan.green), _share(plan.alarms),
        _number(plan.worsening), _number(plan.worsening_together), UNDERPOWERED if plan.underpowered else PLANNED,
    ]  # fmt: skip


def _source(plan: GatePlan) -> str:
    return f"{plan.source}, {plan.over}" if plan.source else ""


def _number(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.3g}"


def _share(value: float) -> str:
    return f"{100 * value:.3g} %"


def plan_notes(judgements: Sequence[Judgement]) -> Iterator[str]:
    """Yield what the table says of whole files, what it rests on, and what would help gates without power."""
    planned = list(_planned(judgements))
    for whole in whole_files(judgements):
        gates = f"all {whole.gates} planned gates" if whole.gates > 1 else "the planned gate"
        yield f"an equal model is green at {gates} of {whole.module} on {whole.model} in {_share(whole.green)}"
    sources = {plan.source for _, plan in planned}
    if ONE_CHECKPOINT in sources:
        yield (
            "note: planned from one checkpoint, its items stand in for what another training gives, as if two trainings had nothing in "
            "common on an item. How far a training moves all items alike is not in it: give another checkpoint of the same training "
            "(--bias-plan-with), or restarts (--bias-model=NAME=runs/seed-{seed} --bias-seeds=5)"
        )
    if TWO_CHECKPOINTS in sources:
        yield (
            "note: planned from two checkpoints, of which one difference is known: where it is larger than its items explain, tolerances are "
            "wide (Student's t with one degree of freedom). Restarts (--bias-seeds=5) make them narrower"
        )
    for judgement, plan in planned:
        if plan.underpowered and plan.tolerance is not None and plan.planned is not None:
            help_text = what_would_help(plan.margin.measured, plan.tolerance)
            yield f"underpowered: {judgement.suite}.{judgement.statistic} on {judgement.model} at tolerance {plan.tolerance:.3g}. {help_text}"
