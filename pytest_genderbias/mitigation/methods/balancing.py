"""Balancing: within each class as many rows of each group, by leaving some out or by repeating some (orgad2022, section 3)."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import NotApplicableError, SettingError
from pytest_genderbias.mitigation.methods.base import Columns, Method, Row, cell_of

SUBSAMPLE, OVERSAMPLE = "subsample", "oversample"


@dataclass
class BalanceSummary:
    """What balancing did. Give one to :func:`balance`, and it is filled.

    ``before`` and ``after``: how many rows each (class, group) has; ``left``: the classes without one of the groups, which stay as
    they are.
    """

    before: Counter[tuple[Hashable, Hashable]] = field(default_factory=Counter)
    after: Counter[tuple[Hashable, Hashable]] = field(default_factory=Counter)
    left: list[Hashable] = field(default_factory=list)


def balance(
    rows: Sequence[Row],
    label: str,
    group: str,
    how: str = SUBSAMPLE,
    seed: int = 0,
    summary: BalanceSummary | None = None,
) -> list[Row]:
    """Return rows of which each class has as many of each group, in their order (orgad2022: of each gender, per profession).

    Args:
        rows: the rows.
        label: the column of the class.
        group: the column of the group; the groups are the values that stand there.
        how: ``subsample``: of each group as many rows as the smallest group of the class has, drawn without replacement.
            ``oversample``: as many as the largest has: every row as often as goes evenly, and once more for some, drawn without
            replacement; copies follow their row.
        seed: of the draw.
        summary: is filled.

    Returns:
        The rows themselves, not copies of them.

    Raises:
        SettingError: another ``how``; a row without one of the columns; all rows are of one group.

    Warns:
        UserWarning: a class lacks a group; it stays as it is.

    >>> rows = [{"job": "nurse", "sex": sex, "id": i} for i, sex in enumerate("FFFFFM")]
    >>> [row["id"] for row in balance(rows, "job", "sex", "oversample")]
    [0, 1, 2, 3, 4, 5, 5, 5, 5, 5]
    >>> [row["sex"] for row in balance(rows, "job", "sex")]
    ['F', 'M']
    """
    if how not in (SUBSAMPLE, OVERSAMPLE):
        raise SettingError(f"how should be {SUBSAMPLE} or {OVERSAMPLE}, got {how!r}")
    summary = BalanceSummary() if summary is None else summary
    cells: dict[Hashable, dict[Hashable, list[int]]] = {}
    for number, row in enumerate(rows):
        kind, of = cell_of(row, label, number), cell_of(row, group, number)
        cells.setdefault(kind, {}).setdefault(of, []).append(number)
    groups = {of for cell in cells.values() for of in cell}
    if len(groups) == 1:
        raise SettingError(f"nothing to balance: {group!r} is {next(iter(groups))!r} in every row")
    times = np.ones(len(rows), dtype=np.int64)
    rng = np.random.default_rng(seed)
    for kind, cell in cells.items():
        if len(cell) < len(groups):
            summary.left.append(kind)
            continue
        sizes = [len(members) for members in cell.values()]
        wanted = min(sizes) if how == SUBSAMPLE else max(sizes)
        for members in cell.values():
            times[members] = _times(len(members), wanted, rng)
    for kind, cell in cells.items():
        summary.before.update({(kind, of): len(members) for of, members in cell.items()})
        summary.after.update({(kind, of): int(times[members].sum()) for of, members in cell.items()})
    if summary.left:
        listed = ", ".join(map(str, summary.left[:5])) + (" ..." if len(summary.left) > 5 else "")
        warnings.warn(
            f"{len(summary.left)} of {len(cells)} classes stay unbalanced, as they lack a group: {listed}", stacklevel=2
        )
    return [row for row, n in zip(rows, times, strict=True) for _ in range(n)]


@dataclass(frozen=True)
class Balancing(Method):
    """Balance the training rows: as many of each group in each class, by ``subsample`` or ``oversample`` (orgad2022). See :func:`balance`."""

    name: ClassVar[str] = "balancing"
    how: str = SUBSAMPLE

    def __post_init__(self) -> None:
        """Refuse settings that there are not."""
        if self.how not in (SUBSAMPLE, OVERSAMPLE):
            raise SettingError(f"how should be {SUBSAMPLE} or {OVERSAMPLE}, got {self.how!r}")

    def rows(self, rows: Sequence[Row], columns: Columns, seed: int) -> list[Row]:
        """Leave rows out, or repeat them.

        Raises:
            NotApplicableError: the rows have no column of the class, or of the group.
        """
        if columns.label is None or columns.group is None:
            lacking = "class" if columns.label is None else "the person's gender"
            raise NotApplicableError(
                f"balancing needs class and gender, but the training data have no column of {lacking}"
            )
        return balance(rows, columns.label, columns.group, self.how, seed)


def _times(n: int, wanted: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return how often each of n rows is taken, so that there are as many as wanted: evenly, and once more for some."""
    times = np.full(n, wanted // n, dtype=np.int64)
    times[rng.permutation(n)[: wanted % n]] += 1
    return times
