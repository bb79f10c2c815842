"""``*.bias.yaml``: gates without Python, a gate a test; and what mitigations are said to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_genderbias.errors import BiasError, DataFileError
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.plugin import outcomes
from pytest_genderbias.plugin.items.references import ComparedItem, measure_references, reference_or_skip
from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.session import bias_session, measure_or_skip, refuse_or_skip
from pytest_genderbias.text.located_yaml import LocatedList, LocatedMap, read_yaml, refuse_unknown, take

if TYPE_CHECKING:
    from pytest_genderbias.gates.judgement import Judgement
    from pytest_genderbias.gates.limits import Limit
    from pytest_genderbias.measurement.measurement import Measurement
    from pytest_genderbias.suites.suite import Suite

_KEYS = (
    "suite", "statistic", "at_most", "at_least", "within", "generalise", "baseline", "no_worse_than", "tolerance", "settings", "name",
    "models",
)  # fmt: skip
_RUN_SETTINGS = ("limit", "seed", "batch_tokens", "seeds")


@dataclass(frozen=True)
class Gate:
    """One gate as its file has it. ``tolerance`` is that of the comparison with a baseline, or with the model ``against``."""

    name: str
    suite: Suite
    statistic: str
    settings: Mapping[str, Any]
    limit: Limit | None
    generalise: bool
    baseline: bool
    against: str | None
    tolerance: float
    label: str | None
    models: Sequence[str] | None
    line: int

    @property
    def measurement(self) -> str:
        """What makes two gates judge the same measurement."""
        return repr((str(self.suite.path), self.suite.digest, sorted(self.settings.items())))

    @property
    def entry(self) -> str:
        """The name of its baseline entry."""
        return self.label or self.suite.name

    def is_for(self, spec: ModelSpec | None) -> bool:
        """Tell whether it judges this model."""
        if spec is None:
            return True
        return (self.models is None or spec.name in self.models) and spec.name != self.against

    def why_idle(self, names: Sequence[str]) -> str:
        """Say why it judges none of these models."""
        mine = [str(name) for name in names if self.models is None or name in self.models]
        if mine:
            return f"gate {self.name} has no model to judge but {self.against}, which others are compared with: name one with --bias-model=[NAME=]SPEC"
        wanted = ", ".join(map(str, self.models or ())) or "no model"
        return f"gate {self.name} is for {wanted}, and the run has {', '.join(names)}"


class GateFile(pytest.File):
    """A file with a list of gates under ``gates``, of mitigations under ``mitigate``, or both."""

    def collect(self) -> Iterable[pytest.Item]:
        """Return one item a gate and model, and one a reduction and model; errors name file and line."""
        data = read_yaml(self.path)
        refuse_unknown(data, ("gates", "mitigate"), "a gate file")
        if "gates" in data or "mitigate" not in data:
            yield from self._gates(data)
        if "mitigate" in data:
            from pytest_genderbias.plugin.items.reductions import reduction_items

            yield from reduction_items(self, data)

    def _gates(self, data: LocatedMap) -> Iterable[pytest.Item]:
        gates = take(data, "gates", LocatedList, "the gate file")
        models: tuple[ModelSpec | None, ...] = self.config.stash[SETTINGS].models or (None,)
        names: Counter[str] = Counter()
        entries: dict[str, list[Gate]] = {}
        parsed = []
        for number, one in enumerate(gates):
            if not isinstance(one, LocatedMap):
                raise DataFileError(
                    f"{self.path}:{gates.lines[number]}: expected a gate (suite, statistic, limit), got {one!r}"
                )
            gate = self._read(one)
            self._claim(gate, entries)
            names[gate.name] += 1
            parsed.append(gate if names[gate.name] == 1 else replace(gate, name=f"{gate.name}-{names[gate.name]}"))
        comparisons = sum(gate.is_for(spec) for gate in parsed if gate.against for spec in models)
        for spec in models:
            mine = [gate for gate in parsed if gate.is_for(spec)]
            for gate in mine:
                beside = tuple(other for other in mine if other.measurement == gate.measurement)
                name = f"{gate.name}:{spec.name if spec else 'no-model'}"
                yield GateItem.from_parent(
                    self, name=name, gate=gate, beside=beside, comparisons=comparisons, spec=spec
                )
        for gate in parsed:
            if not any(gate.is_for(spec) for spec in models):  # told, or it would silently never run
                name = f"{gate.name}:no-model"
                yield GateItem.from_parent(self, name=name, gate=gate, beside=(gate,), comparisons=1, spec=None)

    def _claim(self, gate: Gate, entries: dict[str, list[Gate]]) -> None:
        """Refuse two measurements under one baseline entry, but for gates that are on different models."""
        if not gate.baseline:
            return
        for other in entries.setdefault(gate.entry, []):
            apart = gate.models is not None and other.models is not None and not {*gate.models} & {*other.models}
            if other.measurement != gate.measurement and not apart:
                raise DataFileError(
                    f"{self.path}:{gate.line}: two measurements claim the baseline entry {gate.entry!r}, this and that of line "
                    f"{other.line}; give this one another name:"
                )
        entries[gate.entry].append(gate)

    def _read(self, gate: LocatedMap) -> Gate:
        refuse_unknown(gate, _KEYS, "a gate")
        suite, statistic, settings = self.read_measured(gate, "the gate", _RUN_SETTINGS)
        seeds = settings.get("seeds", 2)
        if "seeds" not in suite.family.options and (type(seeds) is not int or seeds < 2):
            raise self.wrong(gate, "settings", f"seeds should be a whole number of at least 2, got {seeds!r}")
        bounds = {
            key: take(gate, key, (int, float), "the gate", default=None) for key in ("at_most", "at_least", "within")
        }
        baseline = take(gate, "baseline", bool, "the gate", default=False)
        against = take(gate, "no_worse_than", str, "the gate", default=None)
        tolerance = take(gate, "tolerance", (int, float), "the gate", default=0.0)
        if "tolerance" in gate and not ((baseline or against) and 0 <= tolerance < float("inf")):
            raise self.wrong(
                gate, "tolerance", "'tolerance' is 0 or more, and goes with 'baseline: true' or 'no_worse_than'"
            )
        limit = self._limit(gate, bounds, suite, statistic, needed=not (baseline or against))
        generalise = take(gate, "generalise", bool, "the gate", default=False)
        if "generalise" in gate and limit is None:
            raise self.wrong(
                gate, "generalise", "'generalise' goes with a limit; a comparison is for other items anyway"
            )
        kinds = [key for key, value in bounds.items() if value is not None]
        kinds += ["baseline"] if baseline else []
        kinds += [f"no_worse_than_{against}"] if against else []
        label = take(gate, "name", str, "the gate", default=None)
        return Gate(
            ".".join([label or suite.name, statistic, *kinds]), suite, statistic, settings, limit, generalise, baseline, against,
            float(tolerance), label, take(gate, "models", LocatedList, "the gate", default=None), gate.line,
        )  # fmt: skip

    def _limit(
        self, gate: LocatedMap, bounds: Mapping[str, float | None], suite: Suite, statistic: str, needed: bool
    ) -> Limit | None:
        from pytest_genderbias.gates.limits import Limit

        if not needed and all(value is None for value in bounds.values()):
            return None
        try:
            limit = Limit(**bounds)
            limit.check_direction(statistic, suite.family.statistics[statistic])
        except BiasError as error:
            raise DataFileError(f"{self.path}:{gate.line}: {error}") from None
        return limit

    def wrong(self, gate: LocatedMap, key: str, text: str) -> DataFileError:
        """Return an error at a key of a mapping in this file."""
        return DataFileError(f"{self.path}:{gate.lines.get(key, gate.line)}: {text}")

    def read_measured(
        self, gate: LocatedMap, what: str, run_settings: Sequence[str]
    ) -> tuple[Suite, str, dict[str, Any]]:
        """Return what is measured: the suite, the statistic, and settings of the run and of the suite."""
        suite = self._suite(gate, what)
        statistic = take(gate, "statistic", str, what, default=suite.main_statistic)
        if statistic not in suite.family.statistics:
            raise self.wrong(
                gate,
                "statistic",
                f"{suite.name} has no statistic {statistic!r}; it has {', '.join(suite.family.statistics)}",
            )
        settings = dict(take(gate, "settings", LocatedMap, what, default={}))
        if unknown := set(settings) - set(suite.family.options) - set(run_settings):
            known = ", ".join([*run_settings, *suite.family.options])
            raise self.wrong(gate, "settings", f"unknown setting {min(unknown)!r}; {suite.name} takes {known}")
        return suite, statistic, settings

    def _suite(self, gate: LocatedMap, what: str) -> Suite:
        name = take(gate, "suite", str, what)
        if name.endswith((".yaml", ".yml")):
            name = str(self.path.parent / Path(name).expanduser())
            if not Path(name).exists():
                raise self.wrong(gate, "suite", f"{name}: no such file")
        try:
            return bias_session(self.config).suite(name)
        except DataFileError:
            raise
        except BiasError as error:
            raise DataFileError(f"{self.path}:{gate.lines['suite']}: {error}") from None

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: str | None = None) -> str:
        """Show a wrong file as one line, without a traceback."""
        return str(excinfo.value) if isinstance(excinfo.value, BiasError) else str(super().repr_failure(excinfo))


class GateItem(ComparedItem):
    """One gate on one model. ``beside``: all gates of the file on the same measurement, this one among them."""

    def __init__(
        self,
        *,
        name: str,
        parent: pytest.Collector,
        gate: Gate,
        beside: tuple[Gate, ...],
        comparisons: int,
        spec: ModelSpec | None,
    ) -> None:
        super().__init__(name=name, parent=parent, suite_name=gate.suite.name, spec=spec, line=gate.line)
        self.gate, self.beside, self.comparisons = gate, beside, comparisons
        self.suite = gate.suite

    def runtest(self) -> None:
        """Measure and judge."""
        from pytest_genderbias.gates.assertions import settle_all
        from pytest_genderbias.gates.limits import judge_limit

        gate = self.gate
        if self.spec is None and (specs := self.config.stash[SETTINGS].models):
            refuse_or_skip(self.config, gate.why_idle([spec.name for spec in specs]))
        measure_references(self)
        measurement = self._measure(self.spec)
        judgements = []
        if gate.baseline:
            baseline = outcomes.baseline_of(self, measurement.model, self.config.stash[SETTINGS])
            outcomes.outcome_of(self).gates = self._gates_of_entry()
            judgements.append(baseline.judge(measurement, gate.tolerance, gate.statistic, gate.label))
        try:
            if gate.against is not None:
                judgements.append(self._compare(measurement, gate.against))
            if gate.limit is not None:
                judgements.append(judge_limit(measurement, gate.limit, gate.statistic, gate.generalise, gate.label))
        finally:  # a reference that cannot be measured does not hide a regression from the baseline
            settle_all(judgements)

    def _measure(self, spec: ModelSpec | None) -> Measurement:
        """Measure as far as all gates beside this one need, whether or not they run too, so that no verdict hangs on that."""
        measurement = measure_or_skip(self.config, self.suite, spec, self._settings(), self._until())
        outcomes.record_measurement(self, measurement)
        return measurement

    @property
    def reference(self) -> ModelSpec | None:
        """The model that this one may not be worse than, if the run has it."""
        return next((spec for spec in self.config.stash[SETTINGS].models if spec.name == self.gate.against), None)

    def measure_reference(self, reference: ModelSpec) -> Measurement:
        """Measure what the model is compared with; the session keeps it."""
        return bias_session(self.config).measure(self.suite, reference, self._settings(), self._until())

    def _settings(self) -> dict[str, Any]:
        settings = dict(self.gate.settings)
        entries = [gate.entry for gate in self.beside if gate.baseline]
        if "limit" not in settings and (n := outcomes.as_far_as(self, self.spec, entries)) is not None:
            settings["limit"] = n
        return settings

    def _gates_of_entry(self) -> dict[str, float]:
        """Return the strictest tolerance of each statistic of its baseline entry, whether or not the gates run."""
        tolerances: dict[str, float] = {}
        for gate in self.beside:
            if gate.baseline and gate.entry == self.gate.entry:
                tolerances[gate.statistic] = min(gate.tolerance, tolerances.get(gate.statistic, gate.tolerance))
        return tolerances

    def _until(self) -> tuple[tuple[str, Limit], ...]:
        """Return the limits after which scoring stops; none where a gate needs all that can be had."""
        if any(gate.baseline or gate.against or gate.generalise for gate in self.beside):
            return ()
        return tuple((gate.statistic, gate.limit) for gate in self.beside if gate.limit is not None)

    def _compare(self, measurement: Measurement, against: str) -> Judgement:
        from pytest_genderbias.gates.comparison import judge_no_worse
        from pytest_genderbias.gates.policy import active_referee

        if self.reference is None:
            refuse_or_skip(
                self.config, f"no model {against!r} to compare with: give it with --bias-model={against}=SPEC"
            )
        return judge_no_worse(
            measurement,
            reference_or_skip(self, self.reference),
            self.gate.tolerance,
            self.gate.statistic,
            active_referee().policy.correction(self.comparisons, "comparisons of models"),
            self.gate.label,
        )
