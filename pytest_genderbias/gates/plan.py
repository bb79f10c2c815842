"""Plans of gates: what a comparison with a baseline resolves on the user's model, before anything is gated (``--bias-plan``)."""

from __future__ import annotations

import datetime
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from pytest_genderbias.gates.account import Account, Paragraph
from pytest_genderbias.gates.agreement import different
from pytest_genderbias.gates.judgement import UNDERPOWERED, Finding, Judgement
from pytest_genderbias.gates.regression import ItemSource
from pytest_genderbias.gates.tolerance import HOW_TO_CHOOSE, PlannedMargin
from pytest_genderbias.gates.verdicts import MISSING, PLANNED, UPDATED
from pytest_genderbias.gates.wording import more_items, round_up
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.plain_data import as_plain, from_plain, read_dataclass
from pytest_genderbias.measurement.restarts import restarts_of
from pytest_genderbias.statistics.inference.paired import Distance
from pytest_genderbias.statistics.inference.resolution import (
    ItemSimulation,
    RestartSimulation,
    Simulation,
    resolve,
)
from pytest_genderbias.statistics.inference.undefined import UndefinedError

ENOUGH = 0.5  #: power below which a gate is called underpowered
_KEY = "plan"  #: of the plan in the facts of a judgement
ONE_CHECKPOINT, TWO_CHECKPOINTS = "one checkpoint", "two checkpoints"


@dataclass(frozen=True)
class Planning:
    """How the gates of a run are planned.

    Attributes:
        tests: number of gates of the run on the model's baselines.
        second: returns the measurement of a second checkpoint of the same training, as a measurement of the first was made; ``None``
            if the run has none.
        seconds: returns how long a measurement took.
        is_second: whether the model is that second checkpoint, whose gates are not planned.
    """

    tests: int = 1
    second: Callable[[Measurement], Measurement | None] = lambda measurement: None
    seconds: Callable[[Measurement], float] = lambda measurement: 0.0
    is_second: bool = False


@dataclass(frozen=True)
class GatePlan:
    """What a gate resolves. Figures of the statistic are in its units; infinite ones are ``None``.

    Attributes:
        module: the test file of the gate.
        entry: name of its baseline entry.
        source: what is known of equal models: ``one checkpoint``, ``two checkpoints``, or a number of restarts.
        over: the items or restarts, in words.
        tests: number of gates in the project's family.
        cases: number of scored cases.
        seconds: how long the measurement took in this run; the score cache makes it short.
        written: the tolerance that the gate has; ``None`` for ``auto``.
        tolerance: the tolerance that the figures below hold for.
        alone: least tolerance at which 95 % of equal models are green at this gate.
        planned: least tolerance at which an equal model is green at all gates of the family in 95 %: what ``auto`` stands for.
        green: share of equal models that are green.
        alarms: share of equal models that are ``regressed`` in the family.
        worsening: smallest worsening that is ``regressed`` in 80 % if the gate were alone.
        worsening_together: the same in the project's family.
        power: share of the models worse by twice the tolerance that are ``regressed`` in the family.
        powered: least tolerance at which that power is 50 %, and half of the equal models are green.
        draws: number of simulated models.
        red: which of the equal ones are not green.
        why: why there is no plan; empty if there is one.
    """

    module: str
    entry: str
    source: str = ""
    over: str = ""
    tests: int = 1
    cases: int = 0
    seconds: float = 0.0
    written: float | None = None
    tolerance: float | None = None
    alone: float | None = None
    planned: float | None = None
    green: float = 0.0
    alarms: float = 0.0
    worsening: float | None = None
    worsening_together: float | None = None
    power: float = 0.0
    powered: float | None = None
    draws: int = 0
    red: tuple[int, ...] = ()
    why: str = ""

    @property
    def underpowered(self) -> bool:
        """Whether the gate has less than half the power at its own tolerance."""
        return self.tolerance is not None and is_underpowered(self.tolerance, self.powered)

    @property
    def margin(self) -> PlannedMargin:
        """What a baseline entry stores of the plan."""
        today = datetime.date.today().isoformat()
        if self.planned is None:
            return PlannedMargin(None, today, why=self.why or "no tolerance is wide enough for 95 % of equal models")
        names = (
            "source", "over", "tests", "tolerance", "alone", "green", "alarms", "worsening", "worsening_together", "power", "powered",
        )  # fmt: skip
        measured = {name: as_plain(vars(self)[name], True) for name in names}
        return PlannedMargin(self.planned, today, measured)


def is_underpowered(tolerance: float, powered: object) -> bool:
    """Return whether a tolerance is below the one from which on a gate has half the power; a stored figure may be missing.

    >>> is_underpowered(0.01, 0.02), is_underpowered(0.03, 0.02), is_underpowered(0.03, None)
    (True, False, False)
    """
    return isinstance(powered, (int, float)) and tolerance < powered - 1e-12


def plan_gate(
    measurement: Measurement,
    statistic: str,
    then: ItemSource,
    second: Measurement | None,
    tests: int = 1,
    tolerance: float | None = None,
) -> GatePlan:
    """Return what a gate on the baseline resolves: with simulated models that are equal to it, or worse by a known amount.

    What is known of equal models comes from the restarts of ``then``; without restarts from the items of ``then`` and of a second
    checkpoint of the same training; else from the items of ``then`` alone, whose sampling error stands for what is not known.

    Args:
        measurement: of the model.
        statistic: name of the statistic.
        then: what is the baseline: the measurement, or its stored form.
        second: of another checkpoint of the same training, measured in the same way.
        tests: number of gates in the project's family.
        tolerance: of the gate, in units of the statistic; ``None`` for ``auto``.
    """
    about = GatePlan("", "", tests=tests, cases=measurement.n, written=tolerance)
    distance: Distance = measurement.statistics[statistic].distance
    if second is not None and (reasons := different(second, statistic, measurement.signature)):
        return replace(about, why=f"{second.model} was measured on something else ({'; '.join(reasons)})")
    try:
        restarts = restarts_of(then.items, statistic)
        simulation: Simulation
        if restarts is not None:
            about = replace(about, source=f"{len(restarts)} restarts", over="one checkpoint against them")
            simulation = RestartSimulation(restarts, distance, tests)
        else:
            sums, others = then.item_sums(statistic), None if second is None else second.item_sums(statistic)
            source = ONE_CHECKPOINT if second is None else TWO_CHECKPOINTS
            about = replace(about, source=source, over=f"{len(sums.by_unit().labels)} {sums.over}")
            simulation = ItemSimulation(sums, others, distance, tests)
        return _filled(about, simulation, tests, tolerance)
    except UndefinedError as error:
        return replace(about, why=str(error))


def _filled(about: GatePlan, simulation: Simulation, tests: int, tolerance: float | None) -> GatePlan:
    """Return a plan with its figures; the planned tolerance is rounded up to two figures."""
    planned = round_up(resolve(simulation, tests).together)
    resolution = resolve(simulation, tests, planned if tolerance is None else tolerance)
    equal = simulation.bounds(0.0)
    powered = max(0.0, -float(np.median(equal.strict_low)), float(np.median(equal.high)))
    return replace(
        about, tolerance=resolution.tolerance, alone=_finite(resolution.alone), planned=_finite(planned), green=resolution.green,
        alarms=resolution.alarms, worsening=_finite(resolution.worsening),
        worsening_together=_finite(resolution.worsening_together), power=resolution.power, powered=_finite(powered),
        draws=len(resolution.equal), red=tuple(np.flatnonzero(~resolution.equal).tolist()),
    )  # fmt: skip


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def planned_finding(finding: Finding, plan: GatePlan, measurement: Measurement, statistic: str) -> Finding:
    """Return the finding on a gate that is planned: an update stays what it is, and nothing else is judged.

    A measurement that cannot be compared with the stored one, or has no value, is not planned.
    """
    facts = {**finding.facts, _KEY: as_plain(vars(plan), True)}
    if finding.verdict == UPDATED:
        return replace(finding, facts=facts)
    text = plan.why if plan.why else f"planned from {plan.source}, {plan.over}"
    bound = NO_MARGIN if plan.tolerance is None else f"baseline, tolerance {plan.tolerance:.4g}"
    verdict = MISSING if plan.why and plan.written is None else PLANNED  # a written tolerance needs no plan
    what = f"nothing can be planned for {statistic}: {text}; {_WITHOUT_MARGIN}" if plan.why else text
    return Finding(verdict, bound, what, facts=facts)


#: The finding on the second checkpoint of ``--bias-plan-with``.
SECOND_CHECKPOINT = Finding(
    PLANNED, "second checkpoint", "the second checkpoint of --bias-plan-with; its own gates are not planned"
)
_WITHOUT_MARGIN = (
    "write a tolerance, as 0.02 or 20% (in the gate, or --bias-tolerance); or let several restarts show what another training gives: "
    "--bias-model=NAME=runs/seed-{seed} --bias-seeds=5 --bias-plan --bias-update"
)
#: What stands for the limit of a gate whose tolerance is ``auto``: where nothing is planned, and where planning found no margin.
NO_PLAN, NO_MARGIN = "no plan", "no margin"


def missing_margin(statistic: str, where: str, lacking: str, planned: PlannedMargin | None) -> Finding:
    """Return the finding on a gate whose tolerance is ``auto`` and stands for no number.

    Args:
        statistic: its name.
        where: what the plan is for, in words behind the name of the statistic.
        lacking: that nothing is planned, in words.
        planned: what ``--bias-plan`` stored: why it found no margin; ``None`` if nothing is planned.
    """
    bound, what, advice = NO_PLAN, f"the tolerance is auto, and {lacking}", HOW_TO_CHOOSE
    if planned is not None:
        on = f" on {planned.date}" if planned.date else ""
        found = f"--bias-plan found no margin for {statistic}{where}{on}: {planned.why}"
        bound, what, advice = NO_MARGIN, f"the tolerance is auto, and {found}", _WITHOUT_MARGIN
    return Finding(MISSING, bound, f"{what}; {advice}", account=Account(what, advice=advice))


def plan_of(judgement: Judgement) -> GatePlan | None:
    """Return the plan that a judgement carries; ``None`` if it has none."""
    facts = judgement.facts.get(_KEY)
    return None if facts is None else read_dataclass(GatePlan, from_plain(facts, _KEY), _KEY)


@dataclass(frozen=True)
class FilePlan:
    """All planned gates of a test file on a model.

    Attributes:
        gates: number of its gates that are planned.
        green: chance that an equal model is green at all of them. Gates of one suite are judged on the same simulated items; suites
            are taken as independent of each other.
    """

    module: str
    model: str
    gates: int
    green: float


def whole_files(judgements: Iterable[Judgement]) -> list[FilePlan]:
    """Return how likely an equal model is green at all planned gates of each test file."""
    red: dict[tuple[str, str], dict[str, list[GatePlan]]] = defaultdict(lambda: defaultdict(list))
    for judgement in judgements:
        plan = plan_of(judgement)
        if plan is not None and plan.draws:
            red[plan.module, judgement.model][judgement.suite].append(plan)
    plans = []
    for (module, model), suites in red.items():
        green = 1.0
        for of_suite in suites.values():
            green *= 1 - _share_of_red(of_suite)
        plans.append(FilePlan(module, model, sum(map(len, suites.values())), green))
    return plans


def _share_of_red(plans: Iterable[GatePlan]) -> float:
    """Return the share of simulated models that are red at one gate at least; gates with other numbers of draws add up."""
    by_draws: dict[int, set[int]] = defaultdict(set)
    for plan in plans:
        by_draws[plan.draws].update(plan.red)
    return min(1.0, sum(len(red) / draws for draws, red in by_draws.items()))


def margins_of(judgements: Iterable[Judgement]) -> dict[tuple[str, str], dict[str, dict[str, PlannedMargin]]]:
    """Return what plans store: by model and test file, then by entry and statistic."""
    margins: dict[tuple[str, str], dict[str, dict[str, PlannedMargin]]] = {}
    for judgement in judgements:
        plan = plan_of(judgement)
        if plan is not None:
            of_file = margins.setdefault((judgement.model, plan.module), {})
            of_file.setdefault(plan.entry, {})[judgement.statistic] = plan.margin
    return margins


def power_note(tolerance: float, measured: Mapping[str, object]) -> str:
    """Return a line for a gate whose tolerance is below what its plan calls powered; an empty text for any other."""
    powered = measured.get("powered")
    if not (is_underpowered(tolerance, powered) and isinstance(powered, (int, float))):
        return ""
    return (
        f"  underpowered: at this tolerance a worsening of twice as much is 'regressed' in less than half of the cases, or an equal model is "
        f"green in less than half; from a tolerance of {round_up(powered):g} on it is not (--bias-plan). {what_would_help(measured, tolerance)}"
    )


def with_power(finding: Finding, tolerance: float, planned: PlannedMargin | None) -> Finding:
    """Return a finding that says so where its gate has too little power, by the plan that is stored."""
    note = "" if planned is None else power_note(tolerance, planned.measured)
    if not note:
        return finding
    powered = planned.measured.get("powered") if planned is not None else None
    larger = f"a tolerance of {round_up(powered):g}" if isinstance(powered, (int, float)) else "a larger one"
    short = Paragraph(
        "power",
        f"underpowered: half of the worsenings of twice this tolerance, or more, are not seen; {larger} has power (--bias-plan)",
    )
    account = replace(finding.account, remarks=(*finding.account.remarks, short))
    return replace(finding, lines=[*finding.lines, note], facts={**finding.facts, UNDERPOWERED: True}, account=account)


def what_would_help(measured: Mapping[str, object], tolerance: float) -> str:
    """Return what would make a gate resolve its tolerance: restarts or items, and how many."""
    source, powered = str(measured.get("source", "")), measured.get("powered")
    larger = f"a tolerance of {round_up(powered):g}" if isinstance(powered, (int, float)) else "a larger tolerance"
    if source.endswith("restarts"):
        return f"What would help: more restarts in the baseline, several of what is judged (--bias-seeds), or {larger}"
    count, _, what = str(measured.get("over", "")).partition(" ")
    items = ""
    if isinstance(powered, (int, float)) and tolerance > 0 and count.isdigit():
        more = more_items(math.ceil(int(count) * (powered / tolerance) ** 2), int(count), what, 1.0)
        items = f"{more}, " if more else ""
    return f"What would help: {items}{larger}, or another suite"
