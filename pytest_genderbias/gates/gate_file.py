"""The gates of a ``*.bias.yaml`` file: read, checked, and planned for the models of a run.

This module needs neither pytest nor the settings of a run. An error names file and line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias

from pytest_genderbias.errors import BiasError, DataFileError, SettingError
from pytest_genderbias.gates.limits import Limit, check_breakable
from pytest_genderbias.gates.policy import MARGIN, NO_MARGIN, Evidence, Margin, read_margin, read_margin_of_sameness
from pytest_genderbias.measurement.ability_setting import ABILITY, Ability, ability_from
from pytest_genderbias.suites.family import RUN_SETTINGS, resolve_options
from pytest_genderbias.suites.suite import Suite, load_suite
from pytest_genderbias.text.located_yaml import read_yaml
from pytest_genderbias.text.plain_files import expand, is_regular
from pytest_genderbias.text.printable import expected_instead
from pytest_genderbias.text.schema import Beside, LocatedMap, YamlValue, check_setting, refuse_unknown, take

LoadSuite = Callable[[str], Suite]  #: loads a suite by its name or path
NO_MODEL = "no-model"  #: stands for the model in the name of a gate that judges no model of the run
_LIMITS = ("at_most", "at_least", "within")
_COMPARISONS = ("baseline", "no_worse_than", "same_as")
#: Names of models; one may look like a number.
Names: TypeAlias = tuple[str | int | float, ...]


@dataclass(frozen=True)
class GateEntry(Evidence):
    """A statistic of a suite, and what a model has to keep: a limit, a baseline, another model, or several of them.

    The JSON Schema shows these lines to users.

    Attributes:
        suite: name of a packaged suite, or the path of a suite file, relative to this file
        statistic: a statistic of the suite; its main one by default
        at_most: the largest value that keeps the limit
        at_least: the smallest value that keeps the limit
        within: the largest distance from neutral on either side
        range: the limit is meant although a model keeps it only by being biased
        generalise: judge the limit for other items of the same kind
        baseline: compare with the stored baseline of the model
        no_worse_than: name of another model of the run to compare with
        same_as: name of another model of the run that this one should be the same as, within the margin
        margin: how much worse a comparison may be: a number in units of the statistic, or 20% of the distance from
            neutral of what it is compared with
        settings: of the measurement, and options of the family
        name: of the gate, its test and its baseline entry
        models: names of the models to judge; all by default
        ability: "none: REASON", or the path of control items of your own
        optional: skipped where it cannot be judged; any other gate fails then
    """

    noun: ClassVar[str] = "gate"
    rules: ClassVar[tuple[Beside, ...]] = (
        Beside(
            "same_as", "'same_as' and 'no_worse_than' are two gates: give each its own entry", never="no_worse_than"
        ),
        Beside("same_as", NO_MARGIN, ("margin",)),
        Beside("range", "'range' goes with at_least or at_most", _LIMITS),
        Beside("generalise", "'generalise' goes with a limit; a comparison always judges for other items", _LIMITS),
        Beside("margin", "'margin' goes with 'baseline: true', 'no_worse_than' or 'same_as'", _COMPARISONS),
        Beside(
            "suite",
            "a gate without a limit; expected at_most, at_least, within, or baseline: true",
            (*_LIMITS, *_COMPARISONS),
        ),
    )

    at: LocatedMap
    suite: str
    statistic: str | None = None
    at_most: int | float | None = None
    at_least: int | float | None = None
    within: int | float | None = None
    range: bool = False
    generalise: bool = False
    baseline: bool = False
    no_worse_than: str | None = None
    same_as: str | None = None
    margin: Annotated[int | float | str, MARGIN] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    models: Names | None = None
    ability: Ability = None
    optional: bool = False


@dataclass(frozen=True)
class Gate:
    """One gate of a file.

    Attributes:
        written: as the file declares it.
        name: of the test, without the model.
        limit: ``None`` without a limit.
        margin: of the comparison with the baseline or with the other model; without effect where there is neither.
    """

    written: GateEntry
    name: str
    suite: Suite
    statistic: str
    settings: Mapping[str, YamlValue]
    limit: Limit | None
    margin: Margin

    @property
    def against(self) -> str | None:
        """The name of the model to compare with."""
        return self.written.no_worse_than or self.written.same_as

    @property
    def models(self) -> tuple[str, ...] | None:
        """The names of the models to judge; ``None`` for all."""
        models = self.written.models
        return None if models is None else tuple(map(str, models))

    @property
    def measurement_key(self) -> str:
        """Equal for gates that judge the same measurement."""
        return repr((str(self.suite.path), self.suite.digest, sorted(self.settings.items())))

    @property
    def entry(self) -> str:
        """The name of its baseline entry."""
        return self.written.name or self.suite.name

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
        if any(gate.written.baseline or gate.against or gate.written.generalise for gate in self.beside):
            return ()
        return tuple((gate.statistic, gate.limit) for gate in self.beside if gate.limit is not None)

    @property
    def entries(self) -> list[str]:
        """The baseline entries of the measurement."""
        return [gate.entry for gate in self.beside if gate.written.baseline]

    @property
    def margins(self) -> dict[str, list[Margin]]:
        """The margins of each gated statistic of the baseline entry, whether or not the gates run."""
        all_of_entry: dict[str, list[Margin]] = {}
        for gate in self.beside:
            if gate.written.baseline and gate.entry == self.gate.entry:
                all_of_entry.setdefault(gate.statistic, []).append(gate.margin)
        return all_of_entry


def read_gate_file(path: Path) -> LocatedMap:
    """Read a gate file, in which gates and mitigations are not checked yet.

    Raises:
        DataFileError: it is no YAML, or has other keys.
    """
    data = read_yaml(path)
    refuse_unknown(data, ("gates", "mitigate"), "a gate file")
    return data


def read_gates(data: LocatedMap, load: LoadSuite = load_suite) -> list[Gate]:
    """Read the list ``gates`` of a file.

    Args:
        data: the file, as :func:`~pytest_genderbias.text.located_yaml.read_yaml` returns it.
        load: loads a suite.

    Raises:
        DataFileError: a gate is wrong, or two measurements claim one baseline entry; the message names file and line.
    """
    names: Counter[str] = Counter()
    gates: list[Gate] = []
    for entry in take(data, "gates", tuple[GateEntry, ...], "the gate file"):
        gate = _read_gate(entry, load)
        _check_entry_is_free(entry.at, gate, gates)
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


def resolve_subject(
    at: LocatedMap,
    name: str,
    statistic: str | None,
    settings: Mapping[str, YamlValue],
    run_settings: Mapping[str, Any],
    load: LoadSuite,
) -> tuple[Suite, str, dict[str, YamlValue]]:
    """Load the suite that an entry names, and check statistic and settings against it.

    Args:
        at: the entry, for messages.
        name: name or path of the suite.
        statistic: the suite's main one by default.
        settings: of the measurement.
        run_settings: annotations of the settings that the entry may have besides the options of the suite.
        load: loads a suite.

    Returns:
        The suite, the name of the statistic, and the settings of the measurement.

    Raises:
        DataFileError: one of them is wrong; the message names its line.
    """
    suite = _load(at, name, load)
    if statistic is not None and statistic not in suite.family.statistics:
        known = expected_instead(statistic, suite.family.statistics, "it has")
        raise at.error_at("statistic", f"{suite.name} has no statistic {statistic!r}; {known}")
    read, options = {}, suite.family.options
    for key, value in settings.items():
        read[key] = value
        try:  # refuse what the measurement would refuse
            if key == ABILITY and ABILITY in run_settings:
                read[key] = ability_from(value, Path(at.file).parent)  # control items lie beside the file
            elif key in run_settings:
                check_setting(key, run_settings[key], value)
            elif key in options:
                resolve_options(options, {key: value}, suite.name)
            else:
                known = expected_instead(key, [*run_settings, *options], f"{suite.name} takes")
                raise SettingError(f"unknown setting {key!r}; {known}")
        except SettingError as error:
            place, where = (settings, key) if isinstance(settings, LocatedMap) else (at, "settings")
            advice = "; leave it out for that of the run" if key in run_settings and key != "seeds" else ""
            raise place.error_at(where, f"{error}{advice}") from None
    return suite, statistic or suite.main_statistic, read


def _load(entry: LocatedMap, name: str, load: LoadSuite) -> Suite:
    """Load the suite; the path of a suite file is relative to the file that names it."""
    try:
        if name.endswith((".yaml", ".yml")):
            name = str(Path(entry.file).parent / expand(name))
            if not is_regular(Path(name)):
                raise entry.error_at("suite", f"{name}: no such file")
        return load(name)
    except DataFileError:
        raise
    except BiasError as error:
        raise entry.error_at("suite", str(error)) from None


def _read_gate(entry: GateEntry, load: LoadSuite) -> Gate:
    at = entry.at
    suite, statistic, settings = resolve_subject(at, entry.suite, entry.statistic, entry.settings, RUN_SETTINGS, load)
    with _located(at, "statistic", f"{suite.name}: "):
        suite.statistics[statistic].check_gateable(statistic)
    if entry.ability is not None:
        with _located(at, ABILITY):
            settings[ABILITY] = ability_from(entry.ability, Path(at.file).parent, "'ability'")
    kinds = [key for key in _LIMITS if key in at]
    kinds += ["baseline"] if entry.baseline else []
    kinds += [f"{key}_{at[key]}" for key in ("no_worse_than", "same_as") if at.get(key)]
    name = ".".join([entry.name or suite.name, statistic, *kinds])
    limit, margin = _read_limit(entry, suite, statistic), _read_margin(entry, suite, statistic)
    return Gate(entry, name, suite, statistic, settings, limit, margin)


def _read_limit(entry: GateEntry, suite: Suite, statistic: str) -> Limit | None:
    if not any(key in entry.at for key in _LIMITS):
        return None
    with _located(entry.at, ""):
        limit = Limit(entry.at_most, entry.at_least, entry.within, entry.range)
        limit.check_fits(statistic, suite.statistics[statistic])
    return limit


def _read_margin(entry: GateEntry, suite: Suite, statistic: str) -> Margin:
    if not (entry.baseline or entry.no_worse_than or entry.same_as):
        return Margin()
    with _located(entry.at, "margin"):
        read = read_margin_of_sameness(entry.margin) if entry.same_as else read_margin(entry.margin)
        check_breakable(read, statistic, suite.statistics[statistic], same=entry.same_as is not None)
    return read


@contextmanager
def _located(at: LocatedMap, key: str, subject: str = "") -> Iterator[None]:
    """Add the file and the line of a key to an error, and a subject."""
    try:
        yield
    except BiasError as error:
        raise at.error_at(key, f"{subject}{error}") from None


def _check_entry_is_free(entry: LocatedMap, gate: Gate, others: Sequence[Gate]) -> None:
    """Reject two measurements under one baseline entry, unless the gates judge different models."""
    if not gate.written.baseline:
        return
    for other in others:
        if not other.written.baseline or other.entry != gate.entry or other.measurement_key == gate.measurement_key:
            continue
        if gate.models is None or other.models is None or set(gate.models) & set(other.models):
            raise entry.error_at(
                "",
                f"two measurements claim the baseline entry {gate.entry!r}, this one and that of line"
                f" {other.written.at.line};"
                " give this one another name:",
            )
