"""The outcome of a test while it runs: what it measured, judged and would store. At the end it goes on the report of the test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from pytest_genderbias.escaping import printable
from pytest_genderbias.gates.policy import Policy, Referee, refereed_by
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.plugin.books import BookKey
from pytest_genderbias.plugin.items.base import BiasItem, uses_fixture
from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.update_command import update_command

if TYPE_CHECKING:
    from pytest_genderbias.gates.baseline import Baseline
    from pytest_genderbias.gates.judgement import Judgement, SettledJudgement
    from pytest_genderbias.measurement.measurement import Measurement
    from pytest_genderbias.plugin.reported import ProposedEntry

_REPORTED_RECORDS = 10  #: worst records of a measurement that go into the JSON report
ATTRIBUTE = "genderbias"  #: attribute of a test report
_REDUCTION_FIGURES = ("before", "after", "control", "reduction")  #: properties of a mitigation for JUnit


@dataclass
class ItemOutcome:
    """What one test measured, judged and would store.

    Attributes:
        gates: the tolerance of each statistic that the gate file of the test judges on its baseline entry; ``None`` for other tests.
        reported: how many measurements and judgements are on reports of the test already.
    """

    measurements: list[Measurement] = field(default_factory=list)
    judgements: list[SettledJudgement] = field(default_factory=list)
    baseline: Baseline | None = None
    gates: Mapping[str, float] | None = None
    reported: int = 0


_OUTCOME = pytest.StashKey[ItemOutcome]()


def measures(item: pytest.Item) -> bool:
    """Return whether a test measures a model: a declared one, or one in Python that uses our fixtures."""
    return isinstance(item, BiasItem) or uses_fixture(item, "bias_model")


def mitigates(item: pytest.Item) -> bool:
    """Return whether a test in Python mitigates a model."""
    return uses_fixture(item, "bias_mitigation")


def book_of(item: pytest.Item) -> BookKey:
    """Return where the baselines of a test are stored; the model is empty if the run has none for it."""
    spec = spec_of(item)
    module = item.baseline_module if isinstance(item, BiasItem) else item.nodeid.partition("::")[0]
    return BookKey("" if spec is None else spec.name, module)


def spec_of(item: pytest.Item) -> ModelSpec | None:
    """Return the model that a test measures; ``None`` if the run has none for it."""
    if isinstance(item, BiasItem):
        return item.spec
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):  # only parametrised tests have one
        return None
    spec = item.callspec.params.get("bias_model")
    return spec if isinstance(spec, ModelSpec) else None


def outcome_of(item: pytest.Item) -> ItemOutcome:
    """Return the outcome of a test, created on first use."""
    return item.stash.setdefault(_OUTCOME, ItemOutcome())


def record_measurement(item: pytest.Item, measurement: Measurement) -> None:
    """Record a measurement for tables and reports.

    JUnit gets properties of the tested model only, not of a reference: their names do not contain the model.
    """
    outcome = outcome_of(item)
    if any(_look_alike(measurement, other) for other in outcome.measurements):
        return
    outcome.measurements.append(measurement)
    if measurement.model != book_of(item).model:
        return
    for name, value in measurement.values.items():
        _add_property(item, f"{measurement.suite}.{name}", "" if value is None else repr(float(value)))
    for name, null in measurement.null.items():
        _add_property(item, f"{measurement.suite}.{name}.null_mean", repr(null.mean))
        _add_property(item, f"{measurement.suite}.{name}.null_p_value", repr(null.p_value))


def _look_alike(first: Measurement, second: Measurement) -> bool:
    """Return whether two measurements are the same in a report."""
    return first is second or first.to_dict(_REPORTED_RECORDS, arrays=False) == second.to_dict(
        _REPORTED_RECORDS, arrays=False
    )


def record_judgement(item: pytest.Item, judgement: Judgement, outcome: str) -> None:
    """Record a judgement, and whether it failed the test, for tables and reports."""
    from pytest_genderbias.gates.judgement import SettledJudgement

    outcome_of(item).judgements.append(SettledJudgement(judgement, outcome))
    name = f"{judgement.suite}.{judgement.statistic}"
    _add_property(item, f"{name}.verdict", judgement.verdict)
    _add_property(item, f"{name}.bound", judgement.bound)
    if judgement.over:
        _add_property(item, f"{name}.over", judgement.over)
    for figure in _REDUCTION_FIGURES:
        if isinstance(value := judgement.facts.get(figure), (int, float)):
            _add_property(item, f"{name}.{figure}", repr(float(value)))
    if judgement.settled_by:
        _add_property(item, f"{name}.settled_by", judgement.settled_by)


def _add_property(item: pytest.Item, name: str, value: str) -> None:
    item.user_properties.append((printable(f"bias.{name}"), printable(value)))


@contextmanager
def refereeing(item: pytest.Item) -> Iterator[None]:
    """Apply the policy of the run to all judgements, in every thread, and record them as those of this test."""
    settings = item.config.stash[SETTINGS]
    policy = Policy(settings.inconclusive, settings.stale, settings.correct_for)
    with refereed_by(Referee(policy, lambda judgement, outcome: record_judgement(item, judgement, outcome))):
        yield


def forget(item: pytest.Item) -> None:
    """Forget the outcome of an earlier run of the same test."""
    if _OUTCOME in item.stash:
        del item.stash[_OUTCOME]


def baseline_of(item: pytest.Item, model: str) -> Baseline:
    """Return the baselines of a model for the module of a test."""
    from pytest_genderbias.gates.baseline import Baseline

    outcome, settings = outcome_of(item), item.config.stash[SETTINGS]
    if outcome.baseline is None:
        outcome.baseline = Baseline(
            settings.baseline,
            model,
            book_of(item).module,
            settings.update,
            settings.reason,
            settings.correct_for,
            update_command(item),
        )
    return outcome.baseline


def stored_sample_size(item: pytest.Item, spec: ModelSpec | None, names: Iterable[str]) -> int | None:
    """Return the number of cases of the largest of some stored entries, if it is a sample and the run sets no other limit.

    An update scores as many cases too; otherwise a missing flag would make a baseline of another sample.
    """
    if spec is None or item.config.stash[SETTINGS].limit is not None:
        return None
    baseline = baseline_of(item, spec.name)
    samples = [_sample(entry.sample) for name in names if (entry := baseline.stored(name)) is not None]
    scored, total = max(samples, key=lambda sample: sample[0], default=(0, 0))
    return scored if scored < total else None


def _sample(sample: Mapping[str, object]) -> tuple[int, int]:
    """Return the numbers of scored cases and of all cases; 0 and 0 if an entry of an earlier version does not say."""
    scored, total = sample.get("n"), sample.get("of")
    return (scored, total) if isinstance(scored, int) and isinstance(total, int) else (0, 0)


def attach(item: pytest.Item, report: pytest.TestReport) -> None:
    """Put the outcome of a test on a report: of its call, of a failed setup or teardown, or of a teardown that added to it."""
    if not measures(item) and _OUTCOME not in item.stash:
        return
    outcome = outcome_of(item)
    recorded = len(outcome.measurements) + len(outcome.judgements)
    if (
        report.when != "call"
        and report.outcome == "passed"
        and (report.when == "setup" or recorded == outcome.reported)
    ):
        return
    outcome.reported = recorded
    from pytest_genderbias.plugin.reported import ReportedOutcome

    settings, key = item.config.stash[SETTINGS], book_of(item)
    reported = ReportedOutcome(
        module=key.module,
        model=key.model,
        declared=isinstance(item, BiasItem),
        measurements=tuple(_shortened(measurement, settings.compare) for measurement in outcome.measurements),
        judgements=tuple(outcome.judgements),
        used=frozenset(outcome.baseline.used if outcome.baseline else ()),
        refused=frozenset(outcome.baseline.refused if outcome.baseline else ()),
        entries=_proposed_entries(outcome) if settings.update != "no" else {},
    )
    setattr(report, ATTRIBUTE, reported.to_dict())


def _shortened(measurement: Measurement, with_items: bool) -> Measurement:
    """Return a measurement as reports show it: with the worst records, and with item statistics only to compare models."""
    from pytest_genderbias.statistics.inference.packed_sums import SumsByStatistic

    short = replace(measurement, records=measurement.worst(_REPORTED_RECORDS))
    return short if with_items else replace(short, items={}, sums=SumsByStatistic({}))


def _proposed_entries(outcome: ItemOutcome) -> dict[str, ProposedEntry]:
    from pytest_genderbias.plugin.reported import ProposedEntry

    if outcome.baseline is None:
        return {}
    return {
        name: ProposedEntry(new, outcome.gates, outcome.baseline.overlooked(name, outcome.gates))
        for name, new in outcome.baseline.entries().items()
    }
