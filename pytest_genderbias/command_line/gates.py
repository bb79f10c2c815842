"""``genderbias gates``: the gates on stored baselines, and what each of them sees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pytest_genderbias.command_line.arguments import Typed
from pytest_genderbias.errors import SettingError
from pytest_genderbias.escaping import print_lines, printable
from pytest_genderbias.gates.book import BaselineEntry, read_book
from pytest_genderbias.gates.book_places import Place, listed, place_of
from pytest_genderbias.plugin.information import terminal_width
from pytest_genderbias.text.columns import paragraph, rows_or_blocks
from pytest_genderbias.text.printable import format_number

_HEADERS = ("suite", "statistic", "model", "stored", "margin", "sees")
_NOT_KNOWN = "what it sees is not known: the statistic has no bounds, or --bias-update stores what it sees"


class StoredGate(NamedTuple):
    """A gated statistic of a baseline entry."""

    model: str
    name: str
    statistic: str
    entry: BaselineEntry

    @property
    def margin(self) -> float | None:
        """The margin; ``None`` without one."""
        return self.entry.gated[self.statistic]

    @property
    def sentence(self) -> str:
        """Sentences on what turns the gate red, and what it sees."""
        subject = (
            f"{self.name} on {self.model}, {self.statistic} {format_number(self.entry.values.get(self.statistic))}:"
        )
        seen = self.entry.sees.get(self.statistic)
        if seen is None:
            return f"{subject} {_NOT_KNOWN}."
        allowed = (
            "equal models are red in at most 5 % of files"
            if self.margin is None
            else f"a worsening of {self.margin:.3g} is allowed"
        )
        return f"{subject} {seen.sentence}; {allowed}."


def carry_out(typed: Typed) -> int:
    """Print the stored gates: a line each, or with ``--explain`` a sentence."""
    folder = place_of(typed.values["baseline"], Path())
    gates = list(stored_gates(folder))
    if not gates:
        raise SettingError(
            f"{folder} has no gate on a baseline; store some with --bias-update-new, or name their folder:"
            " --baseline DIR"
        )
    width = terminal_width()
    if typed.values["explain"]:
        lines = [paragraph(printable(gate.sentence), width) for gate in gates]
    else:
        lines = list(rows_or_blocks(_HEADERS, [tuple(map(printable, _row(gate))) for gate in gates], 3, width))
    print_lines("\n".join(lines))
    return 0


def stored_gates(folder: Place) -> Iterator[StoredGate]:
    """Yield the gated statistics of all baseline files of a folder.

    Raises:
        BaselineError: one of them cannot be read.
    """
    for book in listed(folder, "*/*.json"):
        for name, entry in read_book(book).items():
            for statistic in entry.gated:
                yield StoredGate(book.parent.name, name, statistic, entry)


def _row(gate: StoredGate) -> tuple[str, ...]:
    seen = gate.entry.sees.get(gate.statistic)
    value, margin = gate.entry.values.get(gate.statistic), "none" if gate.margin is None else f"{gate.margin:.3g}"
    sees = "not known" if seen is None else seen.in_words
    return gate.name, gate.statistic, gate.model, format_number(value), margin, sees
