"""What one test measured and judged, and how it travels: as plain values on the test's report, which xdist sends on."""

from __future__ import annotations

import base64
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from pytest_genderbias.gates.policy import Policy, Referee, refereed_by
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.plugin.items.base import PACKAGED, BiasItem
from pytest_genderbias.plugin.options import SETTINGS, Settings

if TYPE_CHECKING:
    from pytest_genderbias.gates.baseline import Baseline
    from pytest_genderbias.gates.judgement import Judgement, SettledJudgement
    from pytest_genderbias.measurement.measurement import Measurement

_REPORTED_RECORDS = 10  #: worst records of a measurement that go into the JSON report
ATTRIBUTE = "genderbias"  #: attribute of a test report
ARGUMENTS = "genderbias_arguments"  #: what the user typed, as a worker of xdist gets it
_FIGURES = ("before", "after", "control", "reduction")  #: of a mitigation, for JUnit


@dataclass
class ItemOutcome:
    """What one test measured, judged and would store.

    ``gates``: the tolerances of all gates on its baseline entry, where its file says which there are.
    """

    measurements: list[Measurement] = field(default_factory=list)
    judgements: list[SettledJudgement] = field(default_factory=list)
    baseline: Baseline | None = None
    gates: dict[str, float] | None = None


OUTCOME = pytest.StashKey[ItemOutcome]()


def measures(item: pytest.Item) -> bool:
    """Return whether a test measures a model: a declared one, or one in Python that uses our fixtures."""
    return isinstance(item, BiasItem) or (isinstance(item, pytest.Function) and "bias_model" in item.fixturenames)


def module_of(item: pytest.Item) -> str:
    """Return the name under which the baselines of a test are stored: its file, relative to the root directory."""
    return item.module if isinstance(item, BiasItem) else item.nodeid.partition("::")[0]


def model_of(item: pytest.Item) -> str | None:
    """Return the name of the model that a test measures; ``None`` if the run has no model for it."""
    spec = item.spec if isinstance(item, BiasItem) else parameter_of(item)
    return None if spec is None else spec.name


def parameter_of(item: pytest.Item) -> ModelSpec | None:
    """Return the model that a test in Python is parametrised with."""
    if not isinstance(item, pytest.Function) or not hasattr(
        item, "callspec"
    ):  # pytest sets it on parametrised tests only
        return None
    spec = item.callspec.params.get("bias_model")
    return spec if isinstance(spec, ModelSpec) else None


def outcome_of(item: pytest.Item) -> ItemOutcome:
    """Return a test's outcome, made when it is first needed."""
    return item.stash.setdefault(OUTCOME, ItemOutcome())


def record_measurement(item: pytest.Item, measurement: Measurement) -> None:
    """Keep a measurement for the table and the JSON report; for JUnit only one of the tested model, for names hold no model."""
    outcome = outcome_of(item)
    plain = measurement.to_dict(_REPORTED_RECORDS, arrays=False)
    if any(plain == other.to_dict(_REPORTED_RECORDS, arrays=False) for other in outcome.measurements):
        return
    outcome.measurements.append(measurement)
    if measurement.model != model_of(item):
        return
    for name, value in measurement.values.items():
        item.user_properties.append((f"bias.{measurement.suite}.{name}", "" if value is None else repr(float(value))))
    for name, null in measurement.null.items():
        item.user_properties.append((f"bias.{measurement.suite}.{name}.null_mean", repr(null.mean)))
        item.user_properties.append((f"bias.{measurement.suite}.{name}.null_p_value", repr(null.p_value)))


@contextmanager
def listening(item: pytest.Item) -> Iterator[None]:
    """Apply the policy of the run to the judgements of a test, and record them."""

    def record(judgement: Judgement, outcome: str) -> None:
        from pytest_genderbias.gates.judgement import SettledJudgement

        outcome_of(item).judgements.append(SettledJudgement(judgement, outcome))
        name = f"bias.{judgement.suite}.{judgement.statistic}"
        item.user_properties.append((f"{name}.verdict", judgement.verdict))
        item.user_properties.append((f"{name}.bound", judgement.bound))
        if judgement.over:
            item.user_properties.append((f"{name}.over", judgement.over))
        for figure in _FIGURES:
            if isinstance(value := judgement.facts.get(figure), (int, float)):
                item.user_properties.append((f"{name}.{figure}", repr(float(value))))
        if judgement.settled_by:
            item.user_properties.append((f"{name}.settled_by", judgement.settled_by))

    settings = item.config.stash[SETTINGS]
    with refereed_by(Referee(Policy(settings.inconclusive, settings.stale, settings.correct_for), record)):
        yield


def baseline_of(item: pytest.Item, model: str, settings: Settings) -> Baseline:
    """Return the baselines of a model for a test's module."""
    from pytest_genderbias.gates.baseline import Baseline

    outcome = outcome_of(item)
    if outcome.baseline is None:
        outcome.baseline = Baseline(
            settings.baseline,
            model,
            module_of(item),
            settings.update,
            settings.reason,
            settings.correct_for,
            _command(item),
        )
    return outcome.baseline


def _command(item: pytest.Item) -> str:
    """Return the command that runs this test once more and accepts what it measures, from what the user typed."""
    config = item.config
    worker = getattr(config, "workerinput", {})
    given = [str(one) for one in worker.get(ARGUMENTS, config.invocation_params.args)]
    valued, bare = ["--bias-reason"], {"--bias-update", "--bias-update-new"}
    if module_of(item) != PACKAGED:  # this test alone, and no suite beside it
        valued += ["--bias-suite", "--bias-no-worse-than"]
        bare.update(config.option.file_or_dir or ())
    kept = [
        one
        for before, one in pairwise(["", *given])
        if one not in bare and before not in valued and one.partition("=")[0] not in valued
    ]
    return f"pytest {shlex.join([*kept, *_selects(item)])} --bias-update"


def _selects(item: pytest.Item) -> list[str]:
    """Return the arguments that select a test: its id, or ``-k`` for one that stands in no file."""
    if module_of(item) != PACKAGED:
        file = os.path.relpath(item.path, item.config.invocation_params.dir)
        no_suites = ["-o", "bias_suite="] if item.config.getini("bias_suite") else []
        return [*no_suites, "::".join([file.replace(os.sep, "/"), *item.nodeid.split("::")[1:]])]
    if not re.fullmatch(r"[\w:+\-.\[\]/]+", item.name):
        return []
    longer = [other.name for other in item.session.items if item.name in other.name and other.name != item.name]
    return ["-k", " and not ".join([item.name, *longer])]


def as_far_as(item: pytest.Item, spec: ModelSpec | None, names: Iterable[str]) -> int | None:
    """Return how many cases the largest of some stored entries had, where that was a sample and nobody set another limit.

    An update keeps to it as well, or a flag that was left out would make another baseline of it.
    """
    settings = item.config.stash[SETTINGS]
    if spec is None or settings.limit is not None:
        return None
    baseline = baseline_of(item, spec.name, settings)
    found: list[Mapping[str, Any]] = [entry.sample for name in names if (entry := baseline.stored(name)) is not None]
    most = max(found, key=lambda sample: int(sample["n"]), default=None)
    return int(most["n"]) if most is not None and most["n"] < most["of"] else None


def _sent(measurement: Measurement, compare: bool) -> dict[str, object]:
    """Return a measurement as it travels: item statistics only where models are compared."""
    from pytest_genderbias.statistics.inference.packed_sums import SumsByStatistic

    content = measurement if compare else replace(measurement, items={}, sums=SumsByStatistic({}))
    return content.to_dict(records=_REPORTED_RECORDS)


def attach(item: pytest.Item, report: pytest.TestReport) -> None:
    """Put what a test found on its report: builtins only, items only where they are to be stored."""
    if not measures(item) and OUTCOME not in item.stash:
        return
    if report.when != "call" and report.outcome == "passed":
        return
    outcome = outcome_of(item)
    found: dict[str, Any] = {
        "module": module_of(item),
        "model": model_of(item),
        "measurements": [_sent(one, item.config.stash[SETTINGS].compare) for one in outcome.measurements],
        "judgements": [settled.to_dict() for settled in outcome.judgements],
        "declared": isinstance(item, BiasItem),  # skipped only if its suite does not apply
        "used": sorted(outcome.baseline.used) if outcome.baseline else [],
        "refused": sorted(outcome.baseline.refused) if outcome.baseline else [],
        "entries": {},
    }
    if outcome.baseline and item.config.stash[SETTINGS].update != "no":
        found["entries"] = {
            name: {
                "content": new.entry.to_dict(),
                "items": None if new.items is None else base64.b64encode(new.items).decode(),
                "gates": outcome.gates,
                "overlooked": {k: n.to_dict() for k, n in outcome.baseline.overlooked(name, outcome.gates).items()},
            }
            for name, new in outcome.baseline.entries().items()
        }
    setattr(report, ATTRIBUTE, found)
