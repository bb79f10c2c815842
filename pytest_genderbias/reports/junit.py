"""The properties of a test in JUnit's file: figures of what it measured, and verdicts of what it judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count

from pytest_genderbias.escaping import printable
from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.reports.fields import FIGURE_COLUMNS, GATE_COLUMNS, Cell, figures_of

Properties = list[tuple[str, object]]
#: Columns by the name of a property: of a figure, and of a verdict.
_FIGURE = {
    "": "value", "neutral": "neutral", "worse": "direction", "low": "low", "high": "high", "null_mean": "null_mean",
    "null_p_value": "null_p_value",
}  # fmt: skip
_JUDGED = {
    "code": "code", "outcome": "outcome", "bound": "bound", "gate": "gate", "over": "over", "judged_low": "low",
    "judged_high": "high", "worse_by": "difference", "p": "p", "before": "before", "after": "after",
    "control": "control", "reduction": "reduction", "settled_by": "settled_by",
}  # fmt: skip
_LONGEST = 1_000  #: characters of a name or a value


def add_measurement(to: Properties, start: str, measurement: Measurement) -> None:
    """Add what was measured: each value with its interval, and of the suite its cases and its model."""
    for figure in figures_of([measurement]):
        value, *others = ((name, FIGURE_COLUMNS[column].value(figure)) for name, column in _FIGURE.items())
        _add(to, start, f"{measurement.suite}.{figure.name}", dict([value, *_known(others)]))
    cases = f"{measurement.n} of {measurement.n_total}"
    fingerprint = measurement.signature["model"].get("fingerprint") or ""
    _add(to, start, measurement.suite, {"cases": cases, "model": measurement.model, "fingerprint": fingerprint})


def add_judgement(to: Properties, start: str, judgement: Judgement) -> None:
    """Add a verdict with the code of its reason, what its test made of it, and the figures that it rests on."""
    cells = {name: GATE_COLUMNS[column].value(judgement) for name, column in _JUDGED.items()}
    properties = {"verdict": judgement.verdict, **dict(_known(cells.items()))}
    _add(to, start, f"{judgement.suite}.{judgement.statistic}", properties)


def _known(cells: Iterable[tuple[str, Cell]]) -> Iterator[tuple[str, Cell]]:
    return ((name, cell) for name, cell in cells if cell not in (None, ""))


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else "" if cell is None else repr(float(cell))


def _add(to: Properties, start: str, subject: str, values: Mapping[str, Cell]) -> None:
    """Add properties; a further set of one subject is numbered, so that no two properties have one name."""
    names = {name for name, _ in to}
    for number in count(1):
        prefix = f"{start}{subject[:_LONGEST]}" + (f".{number}" if number > 1 else "")
        properties = [
            (printable(f"{prefix}.{name}" if name else prefix), printable(_text(value)[:_LONGEST]))
            for name, value in values.items()
        ]
        if not any(name in names for name, _ in properties):
            to += properties
            return
