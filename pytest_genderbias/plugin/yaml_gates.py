"""``*.bias.yaml``: gates without Python, a gate a test."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_genderbias.errors import BiasError, DataFileError
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.plugin import outcomes
from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.packaged import error_text
from pytest_genderbias.plugin.session import bias_session, measure_or_skip
from pytest_genderbias.text.located_yaml import LocatedList, LocatedMap, read_yaml, refuse_unknown, take

if TYPE_CHECKING:
    from pytest_genderbias.gates.limits import Limit
    from pytest_genderbias.suites.suite import Suite

_KEYS = ("suite", "statistic", "at_most", "at_least", "within", "baseline", "tolerance", "settings", "name", "models")
_RUN_SETTINGS = ("limit", "seed", "batch_tokens")


class GateFile(pytest.File):
    """A file with a list of gates under ``gates``."""

    def collect(self) -> Iterable[pytest.Item]:
        """Return one item a gate and model; errors name file and line."""
        data = read_yaml(self.path)
        refuse_unknown(data, ("gates",), "a gate file")
        gates = take(data, "gates", LocatedList, "the gate file")
        models: tuple[ModelSpec | None, ...] = self.config.stash[SETTINGS].models or (None,)
        names: dict[str, int] = {}
        parsed = []
        for number, gate in enumerate(gates):
            if not isinstance(gate, LocatedMap):
                raise DataFileError(
                    f"{self.path}:{gates.lines[number]}: expected a gate (suite, statistic, limit), got {gate!r}"
                )
            item_name, arguments = self._read(gate)
            names[item_name] = names.get(item_name, 0) + 1
            parsed.append((item_name if names[item_name] == 1 else f"{item_name}-{names[item_name]}", arguments))
        for spec in models:
            for item_name, arguments in parsed:
                if spec is None or arguments["models"] is None or spec.name in arguments["models"]:
                    rest = {key: value for key, value in arguments.items() if key != "models"}
                    yield GateItem.from_parent(
                        self, name=f"{item_name}:{spec.name if spec else 'no-model'}", spec=spec, **rest
                    )

    def _read(self, gate: LocatedMap) -> tuple[str, dict[str, Any]]:
        from pytest_genderbias.gates.limits import Limit

        refuse_unknown(gate, _KEYS, "a gate")
        suite = self._suite(gate)
        statistic = take(gate, "statistic", str, "the gate", default=suite.main_statistic)
        where = f"{self.path}:{gate.lines.get('statistic', gate.line)}"
        if statistic not in suite.family.statistics:
            raise DataFileError(
                f"{where}: {suite.name} has no statistic {statistic!r}; it has {', '.join(suite.family.statistics)}"
            )
        settings = dict(take(gate, "settings", LocatedMap, "the gate", default={}))
        unknown = set(settings) - set(suite.family.options) - set(_RUN_SETTINGS)
        if unknown:
            known = ", ".join([*_RUN_SETTINGS, *suite.family.options])
            raise DataFileError(
                f"{self.path}:{gate.lines['settings']}: unknown setting {min(unknown)!r}; {suite.name} takes {known}"
            )
        bounds = {
            key: take(gate, key, (int, float), "the gate", default=None) for key in ("at_most", "at_least", "within")
        }
        on_baseline = take(gate, "baseline", bool, "the gate", default=False)
        tolerance = take(gate, "tolerance", (int, float), "the gate", default=0.0)
        models = take(gate, "models", LocatedList, "the gate", default=None)
        limit: Limit | None = None
        try:
            if any(v is not None for v in bounds.values()) or not on_baseline:
                limit = Limit(**bounds)
                limit.check_direction(statistic, suite.family.statistics[statistic])
        except BiasError as error:
            raise DataFileError(f"{self.path}:{gate.line}: {error}") from None
        if "tolerance" in gate and (not on_baseline or tolerance < 0):
            raise DataFileError(
                f"{self.path}:{gate.lines['tolerance']}: 'tolerance' is 0 or more, and goes with 'baseline: true'"
            )
        kinds = [key for key, value in bounds.items() if value is not None] + (["baseline"] if on_baseline else [])
        label = take(gate, "name", str, "the gate", default=None)
        name = ".".join([label or suite.name, statistic, *kinds])
        return name, {
            "suite": suite, "statistic": statistic, "limit": limit, "settings": settings, "models": models, "entry": label,
            "tolerance": float(tolerance) if on_baseline else None, "line": gate.line,
        }  # fmt: skip

    def _suite(self, gate: LocatedMap) -> Suite:
        name = take(gate, "suite", str, "the gate")
        if name.endswith((".yaml", ".yml")):
            name = str(self.path.parent / Path(name).expanduser())
        try:
            return bias_session(self.config).suite(name)
        except DataFileError:
            raise
        except BiasError as error:
            raise DataFileError(f"{self.path}:{gate.lines['suite']}: {error}") from None

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: str | None = None) -> str:
        """Show a wrong file as one line, without a traceback."""
        return str(excinfo.value) if isinstance(excinfo.value, BiasError) else str(super().repr_failure(excinfo))


class GateItem(pytest.Item):
    """One gate on one model."""

    def __init__(
        self, *, suite: Suite, statistic: str, limit: Limit | None, settings: dict[str, Any], entry: str | None,
        tolerance: float | None, line: int, spec: ModelSpec | None, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(**kwargs)
        self.suite, self.statistic, self.limit, self.settings, self.entry = suite, statistic, limit, settings, entry
        self.tolerance, self.line, self.spec = tolerance, line, spec

    def runtest(self) -> None:
        """Measure and judge."""
        from pytest_genderbias.gates.assertions import settle
        from pytest_genderbias.gates.limits import judge_limit

        measurement = measure_or_skip(self.config, self.suite, self.spec, self.settings)
        outcomes.record_measurement(self, measurement)
        judgements = []
        if self.tolerance is not None:
            baseline = outcomes.baseline_of(self, measurement.model, self.config.stash[SETTINGS])
            judgements.append(baseline.judge(measurement, self.tolerance, self.statistic, self.entry))
        if self.limit is not None:
            judgements.append(judge_limit(measurement, self.limit, self.statistic))
        for judgement in judgements:
            settle(judgement)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: str | None = None) -> str:
        """Show our own errors without a traceback, with file and line of the gate."""
        text = error_text(excinfo)
        return f"{self.path}:{self.line}: {text}" if text else str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int, str]:
        """Name file, line and gate."""
        return self.path, self.line - 1, f"{self.name} (line {self.line})"
