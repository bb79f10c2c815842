"""The gates of a ``*.bias.yaml`` file: read, checked, and planned for the models of a run.

This module needs neither pytest nor the settings of a run. An error names file and line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from pytest_genderbias.errors import BiasError, DataFileError, GateError, SettingError
from pytest_genderbias.gates.limits import Limit, check_breakable
from pytest_genderbias.gates.margin import Allowed, Margin, read_margin, read_margin_of_sameness
from pytest_genderbias.measurement.ability_setting import ability_from
from pytest_genderbias.suites.options import resolve_options
from pytest_genderbias.suites.suite import Suite, load_suite
from pytest_genderbias.text.located_yaml import LocatedList, LocatedMap, YamlValue, refuse_unknown, take
from pytest_genderbias.text.plain_files import expand, is_regular
from pytest_genderbias.text.suggestions import expected_instead

LoadSuite = Callable[[str], Suite]  #: loads a suite by its name or path
NO_MODEL = "no-model"  #: stands for the model in the name of a gate that judges no model of the run
GATE_KEYS = (
    "suite", "statistic", "at_most", "at_least", "within", "range", "generalise", "baseline", "no_worse_than", "same_as", "margin",
    "settings", "name", "models", "optional", "ability",
)  # fmt: skip
_NOW_A_MARGIN = (
    "a tolerance is called 'margin' now, and a gate needs none: without it, it fails where the model is worse than"
    " chance explains. Leave out 'tolerance: auto', and write 'margin: 20%' for a tolerance of yours"
)
_LIMITS = ("at_most", "at_least", "within")
_RUN_SETTINGS = ("limit", "seed", "batch_tokens", "seeds")
_LEAST = {"limit": 1, "seed": 0, "batch_tokens": 1, "seeds": 2}  #: their least values


class Located(Protocol):
    """An entry of a file: the file, the line of the entry, and the line of each of its keys."""

    @property
    def file(self) -> str:
        """The path of the file."""

    @property
    def line(self) -> int:
        """The line where the entry begins."""

    @property
    def lines(self) -> Mapping[str, int]:
        """The line of each key."""


class Subject(NamedTuple):
    """What an entry of the file is about: a statistic of a suite, and settings of the measurement."""

    suite: Suite
    statistic: str
    settings: dict[str, YamlValue]


@dataclass(frozen=True)
class Gate:
    """One gate of a file.

    Attributes:
        name: of the test, without the model.
        limit: ``None`` without a limit; ``generalise``: judge it for other items of the same kind.
        baseline: whether to compare with the stored baseline.
        against: name of the model to compare with, or ``None``.
        same: whether it should be the same as that model, and not only no worse.
        margin: of the comparison with the baseline or with the other model; without effect where there is neither.
        label: the name that the file gives to the gate, or ``None``.
        models: names of the models to judge; ``None`` for all.
        optional: whether a run may go without a verdict where the gate cannot be judged.
        line: where the file declares it.
    """

    name: str
    suite: Suite
    statistic: str
    settings: Mapping[str, YamlValue]
    limit: Limit | None
    generalise: bool
    baseline: bool
    against: str | None
    same: bool
    margin: Margin
    label: str | None
    models: Sequence[str] | None
    optional: bool
    line: int

    @property
    def measurement_key(self) -> str:
        """Equal for gates that judge the same measurement."""
        return repr((str(self.suite.path), self.suite.digest, sorted(self.settings.items())))

    @property
    def entry(self) -> str:
        """The name of its baseline entry."""
        return self.label or self.suite.name

    def judges(self, model: str | None) -> bool:
        """Return whether it judges a model of this name; ``None`` stands for a run without models."""
        if model is None:
            return True
        return self.is_for([model]) and model != self.against

    def is_for(self, models: Sequence[str]) -> bool:
        """Return whether it is for one of these models, be it only as the one to compare with."""
        return any(self.models is None or model in self.models for model in models)

    def why_idle(self, models: Sequence[str]) -> str:
        """Return why it judges none of these models."""
        if self.is_for(models):
            return (
                f"gate {self.name} has no model to judge except {self.against}, which others are compared with: name"
                " one with --bias-model=[NAME=]SPEC"
            )
        return f"gate {self.name} is for {', '.join(self.models or ())}, and the run has {', '.join(models)}"


@dataclass(frozen=True)
class PlannedGate:
    """One gate on one model of a run.

    Attributes:
        model: name of the model; ``None`` if the gate judges no model of the run.
        beside: all gates of the file on the same measurement, including this gate.
        comparisons: number of comparisons between models in the file.
    """

    gate: Gate
    model: str | None
    beside: tuple[Gate, ...]
    comparisons: int

    @property
    def name(self) -> str:
        """The name of the test."""
        return f"{self.gate.name}:{self.model or NO_MODEL}"

    @property
    def until(self) -> tuple[tuple[str, Limit], ...]:
        """The limits whose decision ends the scoring; empty if a gate needs all cases.

        They are those of all gates beside this one, whether or not these run, so that no verdict depends on the
        selection of tests.
        """
        if any(gate.baseline or gate.against or gate.generalise for gate in self.beside):
            return ()
        return tuple((gate.statistic, gate.limit) for gate in self.beside if gate.limit is not None)

    @property
    def entries(self) -> list[str]:
        """The baseline entries of the measurement."""
        return [gate.entry for gate in self.beside if gate.baseline]

    @property
    def margins(self) -> dict[str, list[Margin]]:
        """The margins of each gated statistic of the baseline entry, whether or not the gates run."""
        all_of_entry: dict[str, list[Margin]] = {}
        for gate in self.beside:
            if gate.baseline and gate.entry == self.gate.entry:
                all_of_entry.setdefault(gate.statistic, []).append(gate.margin)
        return all_of_entry


def read_gates(data: LocatedMap, load: LoadSuite = load_suite) -> list[Gate]:
    """Read the list ``gates`` of a file.

    Args:
        data: the file, as :func:`~pytest_genderbias.text.located_yaml.read_yaml` returns it.
        load: loads a suite.

    Raises:
        DataFileError: a gate is wrong, or two measurements claim one baseline entry; the message names file and line.
    """
    entries = take(data, "gates", LocatedList, "the gate file")
    names: Counter[str] = Counter()
    gates: list[Gate] = []
    for number, entry in enumerate(entries):
        if not isinstance(entry, LocatedMap):
            raise DataFileError(
                f"{entries.file}:{entries.lines[number]}: expected a gate (suite, statistic, limit), got {entry!r}"
            )
        gate = _read_gate(entry, load)
        _check_entry_is_free(entry, gate, gates)
        names[gate.name] += 1
        gates.append(gate if names[gate.name] == 1 else replace(gate, name=f"{gate.name}-{names[gate.name]}"))
    return gates


def plan_gates(gates: Sequence[Gate], models: Sequence[str]) -> Iterator[PlannedGate]:
    """Yield a planned gate for each gate and model, model by model.

    A gate that judges none of the models is planned without a model: a run that left it out would pass in silence.

    Args:
        gates: of one file.
        models: names of the models of a run, which may have none.
    """
    slots: Sequence[str | None] = models or (None,)
    comparisons = sum(gate.judges(model) for gate in gates if gate.against for model in slots)
    for model in slots:
        judging = [gate for gate in gates if gate.judges(model)]
        for gate in judging:
            beside = tuple(other for other in judging if other.measurement_key == gate.measurement_key)
            yield PlannedGate(gate, model, beside, comparisons)
    for gate in gates:
        if not any(gate.judges(model) for model in slots):
            yield PlannedGate(gate, None, (gate,), 1)


def read_subject(entry: LocatedMap, what: str, run_settings: Sequence[str], load: LoadSuite) -> Subject:
    """Read ``suite``, ``statistic`` and ``settings`` of an entry.

    Args:
        entry: the entry of the file.
        what: what the entry is, for messages: ``the gate``.
        run_settings: settings that the entry may have besides the options of the suite.
        load: loads a suite.
    """
    suite = take(entry, "suite", str, what)
    statistic = take(entry, "statistic", str, what, default=None)
    settings = take(entry, "settings", LocatedMap, what, default={})
    return resolve_subject(entry, suite, statistic, settings, run_settings, load)


def resolve_subject(
    at: Located,
    name: str,
    statistic: str | None,
    settings: Mapping[str, YamlValue],
    run_settings: Sequence[str],
    load: LoadSuite,
) -> Subject:
    """Load the suite that an entry names, and check statistic and settings against it.

    Args:
        at: the entry's lines, for messages.
        name: name or path of the suite.
        statistic: the suite's main one by default.
        settings: of the measurement.
        run_settings: settings that the entry may have besides the options of the suite.
        load: loads a suite.
    """
    suite = _load(at, name, load)
    if statistic is not None and statistic not in suite.family.statistics:
        known = expected_instead(statistic, suite.family.statistics, "it has")
        raise error_at(at, "statistic", f"{suite.name} has no statistic {statistic!r}; {known}")
    if unknown := set(settings) - set(suite.family.options) - set(run_settings):
        known = expected_instead(min(unknown), [*run_settings, *suite.family.options], f"{suite.name} takes")
        raise error_at(at, "settings", f"unknown setting {min(unknown)!r}; {known}")
    return Subject(suite, statistic or suite.main_statistic, dict(settings))


def _check_settings(entry: LocatedMap, suite: Suite, settings: Mapping[str, YamlValue]) -> None:
    """Refuse settings that the measurement would refuse."""
    options = suite.family.options
    for name, value in settings.items():
        if name in options or (type(value) is int and value >= _LEAST[name]) or (value is None and name != "seeds"):
            continue
        advice = "" if name == "seeds" else "; leave it out for that of the run"
        raise error_at(
            entry, "settings", f"{name} should be a whole number of at least {_LEAST[name]}, got {value!r}{advice}"
        )
    try:
        resolve_options(options, {name: value for name, value in settings.items() if name in options}, suite.name)
    except SettingError as error:
        raise error_at(entry, "settings", str(error)) from None


def error_at(entry: Located, key: str, message: str) -> DataFileError:
    """Return an error with the file and the line of a key, or the line of the entry if it has no such key."""
    return DataFileError(f"{entry.file}:{entry.lines.get(key, entry.line)}: {message}")


def _load(entry: Located, name: str, load: LoadSuite) -> Suite:
    """Load the suite; the path of a suite file is relative to the file that names it."""
    try:
        if name.endswith((".yaml", ".yml")):
            name = str(Path(entry.file).parent / expand(name))
            if not is_regular(Path(name)):
                raise error_at(entry, "suite", f"{name}: no such file")
        return load(name)
    except DataFileError:
        raise
    except BiasError as error:
        raise error_at(entry, "suite", str(error)) from None


def _read_gate(entry: LocatedMap, load: LoadSuite) -> Gate:
    if "tolerance" in entry:
        raise error_at(entry, "tolerance", _NOW_A_MARGIN)
    refuse_unknown(entry, GATE_KEYS, "a gate")
    suite, statistic, settings = read_subject(entry, "the gate", _RUN_SETTINGS, load)
    _check_settings(entry, suite, settings)
    try:
        suite.statistics[statistic].check_gateable(statistic)
    except GateError as error:
        raise error_at(entry, "statistic", f"{suite.name}: {error}") from None
    if entry.get("ability") is not None:
        settings["ability"] = _read_ability(entry)
    baseline = take(entry, "baseline", bool, "the gate", default=False)
    against, same = _read_other_model(entry)
    compares = baseline or against is not None
    limit = _read_limit(entry, suite, statistic, required=not compares)
    label = take(entry, "name", str, "the gate", default=None)
    models = take(entry, "models", LocatedList, "the gate", default=None)
    kinds = [key for key in _LIMITS if entry.get(key) is not None]
    kinds += ["baseline"] if baseline else []
    kinds += [f"{'same_as' if same else 'no_worse_than'}_{against}"] if against else []
    return Gate(
        name=".".join([label or suite.name, statistic, *kinds]),
        suite=suite,
        statistic=statistic,
        settings=settings,
        limit=limit,
        generalise=_read_generalise(entry, limit),
        baseline=baseline,
        against=against,
        same=same,
        margin=_read_margin(entry, suite, statistic, compares, same),
        label=label,
        models=None if models is None else tuple(map(str, models)),
        optional=take(entry, "optional", bool, "the gate", default=False),
        line=entry.line,
    )


def _read_ability(entry: LocatedMap) -> YamlValue:
    """Return the key ``ability`` of an entry, with the paths of control items from the folder of its file."""
    try:
        return ability_from(entry["ability"], Path(entry.file).parent, "'ability'")
    except SettingError as error:
        raise error_at(entry, "ability", str(error)) from None


def _read_other_model(entry: LocatedMap) -> tuple[str | None, bool]:
    """Return the name of the model to compare with, and whether the gate asks for the same figure."""
    no_worse = take(entry, "no_worse_than", str, "the gate", default=None)
    same = take(entry, "same_as", str, "the gate", default=None)
    if no_worse is not None and same is not None:
        raise error_at(entry, "same_as", "'same_as' and 'no_worse_than' are two gates: give each an entry of its own")
    return (no_worse, False) if same is None else (same, True)


def _read_limit(entry: LocatedMap, suite: Suite, statistic: str, required: bool) -> Limit | None:
    values = {key: take(entry, key, (int, float), "the gate", default=None) for key in _LIMITS}
    is_range = take(entry, "range", bool, "the gate", default=False)
    if not required and all(value is None for value in values.values()):
        if "range" in entry:
            raise error_at(entry, "range", "'range' goes with at_least or at_most")
        return None
    try:
        limit = Limit(**values, range=is_range)
        limit.check_fits(statistic, suite.statistics[statistic])
    except BiasError as error:
        raise DataFileError(f"{entry.file}:{entry.line}: {error}") from None
    return limit


def _read_generalise(entry: LocatedMap, limit: Limit | None) -> bool:
    generalise = take(entry, "generalise", bool, "the gate", default=False)
    if "generalise" in entry and limit is None:
        raise error_at(
            entry, "generalise", "'generalise' goes with a limit; a comparison always judges for other items"
        )
    return generalise


def _read_margin(entry: LocatedMap, suite: Suite, statistic: str, compares: bool, same: bool) -> Margin:
    margin = take(entry, "margin", (int, float, str), "the gate", default=None)
    if not compares:
        if "margin" in entry:
            raise error_at(entry, "margin", "'margin' goes with 'baseline: true', 'no_worse_than' or 'same_as'")
        return Margin()
    try:
        read = read_margin_of_sameness(margin) if same else read_margin(margin)
        if read.amount is not None:
            check_breakable(Allowed(read.amount), statistic, suite.statistics[statistic], same=same)
        return read
    except GateError as error:
        raise error_at(entry, "margin", str(error)) from None


def _check_entry_is_free(entry: LocatedMap, gate: Gate, others: Sequence[Gate]) -> None:
    """Reject two measurements under one baseline entry, unless the gates judge different models."""
    if not gate.baseline:
        return
    for other in others:
        if not other.baseline or other.entry != gate.entry or other.measurement_key == gate.measurement_key:
            continue
        if gate.models is None or other.models is None or set(gate.models) & set(other.models):
            raise DataFileError(
                f"{entry.file}:{gate.line}: two measurements claim the baseline entry {gate.entry!r}, this one and that"
                f" of line {other.line}; give this one another name:"
            )
