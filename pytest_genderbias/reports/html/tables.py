"""Tables of the page, as plain data: texts that the template escapes, and the keys by which columns are sorted."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from pytest_genderbias.text.printable import format_number

Part: TypeAlias = Mapping[str, object]  #: what the template shows of a section or of the text of a gate


@dataclass(frozen=True)
class PageColumn:
    """A column.

    Attributes:
        title: its header.
        numeric: whether its keys are numbers.
        head: whether its cells name their rows.
        wide: whether a cell takes the width of a phone.
    """

    title: str
    numeric: bool = False
    head: bool = False
    wide: bool = False

    @property
    def classes(self) -> str:
        """CSS classes of its cells."""
        return " ".join(name for name, holds in (("number", self.numeric), ("wide", self.wide)) if holds)


@dataclass(frozen=True)
class PageCell:
    """A cell.

    Attributes:
        text: what it says first.
        notes: smaller lines below.
        key: what it is sorted by; the text by default. An empty key stays at the end.
        badge: CSS class of an outcome, if the text is one.
        link: id that the text leads to.
    """

    text: str
    notes: tuple[str, ...] = ()
    key: str | float | None = None
    badge: str = ""
    link: str = ""

    @property
    def is_filled(self) -> bool:
        """Whether it shows anything."""
        return bool(self.text or self.notes)


@dataclass(frozen=True)
class PageRow:
    """A row, with the outcome that it is coloured and filtered by."""

    cells: tuple[PageCell, ...]
    outcome: str = ""


@dataclass(frozen=True)
class PageTable:
    """A table.

    Attributes:
        id: its id on the page.
        title: what it holds, for readers who do not see it.
        columns: of all rows.
        rows: each with as many cells.
        caption: how to read it, above the table.
        filters: labels of the buttons that show only the rows of an outcome, by outcome.
        cards: whether rows become cards on a phone, instead of a table that scrolls sideways.
    """

    id: str
    title: str
    columns: tuple[PageColumn, ...]
    rows: tuple[PageRow, ...]
    caption: str = ""
    filters: Mapping[str, str] = field(default_factory=dict)
    cards: bool = True


def make_columns(
    titles: Sequence[str], numeric: Collection[str] = (), wide: Collection[str] = ()
) -> tuple[PageColumn, ...]:
    """Return columns, of which the first names the rows, and those of the titles in ``numeric`` hold numbers."""
    return tuple(PageColumn(title, title in numeric, i == 0, i == 0 or title in wide) for i, title in enumerate(titles))


def make_table(
    table_id: str,
    title: str,
    columns: Sequence[PageColumn],
    rows: Sequence[PageRow],
    caption: str = "",
    filters: Mapping[str, str] | None = None,
    cards: bool = True,
) -> PageTable:
    """Return a table without the columns that are empty in every row. Arguments as those of :class:`PageTable`."""
    shown = [i for i in range(len(columns)) if any(row.cells[i].is_filled for row in rows)]
    kept = [replace(row, cells=tuple(row.cells[i] for i in shown)) for row in rows]
    return PageTable(table_id, title, tuple(columns[i] for i in shown), tuple(kept), caption, filters or {}, cards)


def safe(markup: str) -> str:
    """Return markup of this package, in which texts of others are escaped, so that jinja2 leaves it as it is."""
    from markupsafe import Markup

    return Markup(markup)  # noqa: S704 - see above


def naming_cell(subject: str, statistic: str, meaning: str = "", link: str = "") -> PageCell:
    """Return the cell that names what a row is of: a suite or gate, and below it the statistic with its meaning, if it
    is known.

    >>> naming_cell("weat", "effect_size", link="suite-1")
    PageCell(text='weat', notes=('effect_size',), key=None, badge='', link='suite-1')
    """
    return PageCell(subject, tuple(filter(None, (statistic, meaning))), link=link)


def number_cell(value: float | None, reason: str = "", notes: tuple[str, ...] = ()) -> PageCell:
    """Return the cell of a figure, sorted by its size; without a value it says why.

    >>> number_cell(0.123456).text, number_cell(None, "too few pairs").notes
    ('0.1235', ('too few pairs',))
    """
    if value is None:
        return PageCell("no value", (reason, *notes) if reason else notes, "")
    return PageCell(format_number(value), notes, value if math.isfinite(value) else "")
