"""Tables for a terminal that is too narrow for them: each row as a block of named cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from pytest_genderbias.reports.columns import aligned, one_line, total, widths, wrapped

_LONGEST = 200  #: columns of a cell


def rows_or_blocks(
    headers: Sequence[str], rows: Iterable[Sequence[str]], heads: int, width: int, verdict: str = ""
) -> Iterator[str]:
    """Yield a table with aligned columns where it fits, and otherwise each row as a block.

    Rows of one name stand as a table below it, where that fits. Columns without a cell are left out.

    Args:
        headers: names of the columns.
        rows: cells, one for each header.
        heads: the number of columns that name a row; a block begins with a line of them.
        width: columns of the terminal.
        verdict: name of a column whose cell ends the first line of a block; none by default.

    >>> print("\\n".join(rows_or_blocks(("suite", "gone"), [["weat", "50 %"]], 1, 80)))
      suite  gone
      weat   50 %
    >>> print("\\n".join(rows_or_blocks(("suite", "gone"), [["weat", "50 %"]], 1, 10)))
      weat
        gone
        50 %
    """
    cells = [dict(zip(headers, (one_line(cell, _LONGEST) for cell in row), strict=True)) for row in rows]
    columns = {name: most for name, most in widths(cells, headers).items() if most}
    columns = {name: max(most, len(name)) for name, most in columns.items()}
    if total(columns) + 2 <= width:
        yield f"  {aligned({name: name for name in columns}, columns)}"
        yield from (f"  {aligned(row, columns)}" for row in cells)
        return
    named = [tuple(row[name] for name in headers[:heads] if row[name]) for row in cells]
    rest = {name: most for name, most in columns.items() if name not in headers[:heads]}
    if len(set(named)) < len(named) and total(rest) + 4 <= width:
        yield f"    {aligned({name: name for name in rest}, rest)}"
        for names, group in groupby(zip(named, cells, strict=True), key=lambda pair: pair[0]):
            yield wrapped(f"  {'  '.join(names)}", width, "    ")
            yield from (f"    {aligned(row, rest)}" for _, row in group)
        return
    for row in cells:
        first = [row[name] for name in (*headers[:heads], verdict) if row.get(name)]
        yield wrapped(f"  {'  '.join(first)}", width, "    ")
        pairs = "; ".join(f"{name} {row[name]}" for name in headers[heads:] if row[name] and name != verdict)
        yield wrapped(f"    {pairs}", width, "    ")
