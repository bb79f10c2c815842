"""Split labelled texts into a training part and a held-out part, and create an imbalance in the training part on
purpose.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pytest_genderbias.errors import SettingError
from pytest_genderbias.folders import write_whole
from pytest_genderbias.recipes.recipe import Row

_SPLIT, _TAKEN_OUT, _SAMPLE = 0, 1, 2  #: seeds of the draws, which do not depend on the seed of a training
TakenOut = tuple[tuple[str, str, float], ...]


def hold_out(rows: Sequence[Row], keys: Sequence[str], share: float) -> tuple[list[Row], list[Row]]:
    """Split rows into two parts; the second has a share of the rows of each cell of labels and groups.

    The draw is always the same. Each cell has at least one row in the first part.

    Args:
        rows: in any order, which both parts preserve.
        keys: columns whose values define a cell.
        share: share of the second part, at least 0 and below 1.

    >>> rows = [{"label": label} for label in "aaaabb"]
    >>> [[row["label"] for row in part] for part in hold_out(rows, ["label"], 0.5)]
    [['a', 'a', 'b'], ['a', 'a', 'b']]
    """
    rng = np.random.default_rng(_SPLIT)
    out: set[int] = set()
    for _, cell in sorted(_cells(rows, keys).items()):
        out |= _drawn(rng, cell, min(_rounded(share * len(cell)), len(cell) - 1))
    return [row for i, row in enumerate(rows) if i not in out], [row for i, row in enumerate(rows) if i in out]


def take_out(rows: Sequence[Row], what: TakenOut, label: str, group: str) -> list[Row]:
    """Remove a share of the rows of some labels and groups, for an imbalance of known size. The draw is always the
    same.

    Args:
        rows: in any order, which is preserved.
        what: entries of a label, a group and the share of their rows that is removed, above 0, up to 1.
        label: column of the labels.
        group: column of the groups.

    Raises:
        SettingError: an entry has no rows, or a label and group occur twice.
    """
    rng = np.random.default_rng(_TAKEN_OUT)
    cells = _cells(rows, (label, group))
    if len({(name, member) for name, member, _ in what}) < len(what):
        raise SettingError("taken_out names a label and a group twice")
    out: set[int] = set()
    for name, member, share in sorted(what):
        if (name, member) not in cells:
            raise SettingError(
                f"taken_out: there is no row of {name!r} and {member!r}; labels are"
                f" {', '.join(sorted({key[0] for key in cells}))}, groups"
                f" {', '.join(sorted({key[1] for key in cells}))}"
            )
        cell = cells[name, member]
        out |= _drawn(rng, cell, _rounded(share * len(cell)))
    return [row for i, row in enumerate(rows) if i not in out]


def some_rows(rows: Sequence[Row], most: int | None) -> list[Row]:
    """Return at most ``most`` rows, drawn from all, in their order. The draw is always the same."""
    if most is None or most >= len(rows):
        return list(rows)
    sample = np.sort(np.random.default_rng(_SAMPLE).permutation(len(rows))[:most])
    return [rows[i] for i in sample]


def write_rows(path: Path, rows: Sequence[Row]) -> Path:
    """Write rows as JSON lines in one step, so that the file is never incomplete, and return the path."""
    write_whole(path, "".join(json.dumps(dict(row), ensure_ascii=False) + "\n" for row in rows).encode())
    return path


def _cells(rows: Sequence[Row], keys: Sequence[str]) -> dict[tuple[str, ...], list[int]]:
    cells: dict[tuple[str, ...], list[int]] = {}
    for i, row in enumerate(rows):
        cells.setdefault(tuple(row[key] for key in keys), []).append(i)
    return cells


def _drawn(rng: np.random.Generator, cell: Sequence[int], count: int) -> set[int]:
    return {cell[i] for i in rng.permutation(len(cell))[:count]}


def _rounded(number: float) -> int:
    return int(number + 0.5)
