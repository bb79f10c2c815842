"""The lines of a judgement, with a label each: a failing test shows a few, the whole text has all."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_genderbias.escaping import printable

WIDTH = 100  #: columns of the lines, where the terminal is not known
DO = "do"  #: label of what to do
_LABEL = 10  #: columns of a label, with the space behind it
_MOST_NAMED = 3  #: items that are named of those that moved most
_LONGEST, _LONGEST_NAME = 800, 60  #: characters of a line and of a name; what is longer may be a hostile text


@dataclass(frozen=True)
class ItemMove:
    """How far an item moved: what it gave by itself then and now, where an item gives a figure; ``change`` above 0 is worse."""

    name: str
    then: float | None
    now: float | None
    change: float


@dataclass(frozen=True)
class Movement:
    """How many items moved, and which moved most.

    Attributes:
        what: what an item is, in the plural.
        items: how many items were compared.
        moved: how many of them differ.
        most: those that moved most, the first most.
    """

    what: str
    items: int
    moved: int
    most: tuple[ItemMove, ...] = ()


@dataclass(frozen=True)
class Paragraph:
    """A labelled line of a judgement; a longer one is wrapped, except a command, which is to be copied, or a row of a table."""

    label: str
    text: str
    is_command: bool = False


def moved_in_words(movement: Movement) -> str:
    """Return how many items moved, and the first of those that moved most, then and now.

    >>> moved_in_words(Movement("words", 9, 9, (ItemMove("nurse", 0.9, 0.75, 0.15), ItemMove("poet", None, None, 0.01))))
    'all 9 words; most: nurse 0.9 -> 0.75, poet (0.01 worse)'
    """
    number = (
        f"all {movement.items:,}" if movement.moved == movement.items else f"{movement.moved:,} of {movement.items:,}"
    )
    most = ", ".join(_move_in_words(move) for move in movement.most[:_MOST_NAMED])
    return f"{number} {shortened(movement.what, _LONGEST_NAME)}" + (f"; most: {most}" if most else "")


def _move_in_words(move: ItemMove) -> str:
    name = shortened(move.name, _LONGEST_NAME)
    if move.then is None or move.now is None:
        return f"{name} ({abs(move.change):.2g} {'worse' if move.change > 0 else 'better'})"
    return f"{name} {' -> '.join(apart(move.then, move.now))}"


def apart(*values: float) -> list[str]:
    """Return numbers with so many figures, four at least, that different ones look different.

    >>> apart(0.9, 0.72478), apart(0.900012, 0.900038)
    (['0.9', '0.7248'], ['0.90001', '0.90004'])
    """
    for figures in range(4, 9):
        texts = [f"{value:.{figures}g}" for value in values]
        if len(set(texts)) == len(set(values)):
            break
    return texts


def shortened(text: str, most: int = _LONGEST) -> str:
    """Return a text on one line, cut to ``most`` characters, without characters that a terminal would obey."""
    shown = printable(" ".join(text[: 2 * most].split()))
    return shown if len(shown) <= most and len(text) <= 2 * most else f"{shown[: most - 3]}..."


def advice_paragraphs(advice: str, command: str) -> tuple[Paragraph, ...]:
    """Return what to do, in words, and what to type; nothing if both are empty."""
    said = (Paragraph(DO, shortened(advice or "type:")),) if advice or command else ()
    return (*said, Paragraph("", printable(command), is_command=True)) if command else said


def in_lines(paragraphs: Sequence[Paragraph], width: int | None = WIDTH) -> str:
    """Return paragraphs as the lines of a message: the first without its label, the others below it.

    Args:
        paragraphs: the lines; without any, the text is empty.
        width: columns to which they are wrapped; ``None`` for a line a paragraph.
    """
    first, *others = paragraphs or [Paragraph("", "")]
    lines = [first.text]
    for paragraph in others:
        label = f"  {paragraph.label:<{_LABEL}}"
        if paragraph.is_command or width is None:
            lines.append(label + paragraph.text)
            continue
        lines += textwrap.wrap(
            paragraph.text, max(width, 40), initial_indent=label, subsequent_indent=" " * len(label), break_long_words=False,
            break_on_hyphens=False,
        )  # fmt: skip
    return "\n".join(lines)
