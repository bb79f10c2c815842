"""Labelled texts in two parts, one of which no training sees; and an imbalance made on purpose in the other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pytest_genderbias.errors import SettingError
from pytest_genderbias.folders import write_whole
from pytest_genderbias.recipes.recipe import Row

_SPLIT, _TAKEN_OUT, _SAMPLE = 0, 1, 2  #: what a draw is for; the seed of a training has no part in it
TakenOut = tuple[tuple[str, str, float], ...]


def hold_out(rows: Sequence[Row], keys: Sequence[str], share: float) -> tuple[list[Row], list[Row]]:
    """Return rows in two parts, the second of which holds a share of each cell of labels and groups.

    The draw is always the same. A cell has at least one row in the first part.

    Args:
        rows: in any order, which both parts keep.
        keys: the columns whose values make a cell.
        share: from 0 up to, but not, 1.

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
    """Return the rows without a share of those of a label and a group: an imbalance of known size. The draw is always the same.

    Args:
        rows: in any order, which is kept.
        what: of label, group and the share of their rows that goes, above 0, up to 1.
        label: the column of labels.
        group: the column of groups.

    Raises:
        SettingError: there is no row of a label and a group, or they stand twice.
    """
    rng = np.random.default_rng(_TAKEN_OUT)
    cells = _cells(rows, (label, group))
    if len({one[:2] for one in what}) < len(what):
        raise SettingError("taken_out names a label and a group twice")
    out: set[int] = set()
    for name, member, share in sorted(what):
        if (name, member) not in cells:
            raise SettingError(
                f"taken_out: there is no row of {name!r} and {member!r}; labels are {', '.join(sorted({key[0] for key in cells}))}, "
                f"groups {', '.join(sorted({key[1] for key in cells}))}"
            )
        cell = cells[name, member]
        out |= _drawn(rng, cell, _rounded(share * len(cell)))
    return [row for i, row in enumerate(rows) if i not in out]


def some_rows(rows: Sequence[Row], most: int | None) -> list[Row]:
    """Return so many rows at most, drawn from all, in their order; the draw is always the same."""
    if most is None or most >= len(rows):
        return list(rows)
    chosen = np.sort(np.random.default_rng(_SAMPLE).permutation(len(rows))[:most])
    return [rows[i] for i in chosen]


def write_rows(path: Path, rows: Sequence[Row]) -> Path:
    """Write rows as JSON lines, whole or not at all, and return the path."""
    write_whole(path, "".join(json.dumps(dict(row), ensure_ascii=False) + "\n" for row in rows).encode())
    return path


def _cells(rows: Sequence[Row], keys: Sequence[str]) -> dict[tuple[str, ...], list[int]]:
    found: dict[tuple[str, ...], list[int]] = {}
    for i, row in enumerate(rows):
        found.setdefault(tuple(row[key] for key in keys), []).append(i)
    return found


def _drawn(rng: np.random.Generator, cell: Sequence[int], count: int) -> set[int]:
    return {cell[i] for i in rng.permutation(len(cell))[:count]}


def _rounded(number: float) -> int:
    return int(number + 0.5)
