"""Balancing: equally many rows of each group within each class, by leaving rows out or by repeating them (orgad2022,
section 3).
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeAlias

import numpy as np

from pytest_genderbias.errors import BiasWarning, NotApplicableError, SettingError
from pytest_genderbias.mitigation.methods.base import Columns, Method, cell_of
from pytest_genderbias.recipes.recipe import Row, numbers_by_key
from pytest_genderbias.text.schema import check_fields, check_setting, one_of

SUBSAMPLE, OVERSAMPLE = "subsample", "oversample"
How: TypeAlias = Annotated[str, one_of(SUBSAMPLE, OVERSAMPLE)]


def balance(rows: Sequence[Row], label: str, group: str, how: str = SUBSAMPLE, seed: int = 0) -> list[Row]:
    """Return rows with equally many of each group in each class, in their order (orgad2022: of each gender, per
    profession).

    Args:
        rows: the rows.
        label: the column of the class.
        group: the column of the group; its values are the groups.
        how: ``subsample``: reduce each group to the size of the smallest group of the class, drawn without replacement.
            ``oversample``: enlarge each group to the size of the largest: every row equally often, and once more for
            some rows, drawn without replacement; copies follow their row.
        seed: seed of the draw.

    Returns:
        The rows themselves, not copies of them.

    Raises:
        SettingError: ``how`` has another value; a row lacks one of the columns; all rows are of one group.

    Warns:
        UserWarning: a class lacks a group and stays as it is.

    >>> rows = [{"job": "nurse", "sex": sex, "id": i} for i, sex in enumerate("FFFFFM")]
    >>> [row["id"] for row in balance(rows, "job", "sex", "oversample")]
    [0, 1, 2, 3, 4, 5, 5, 5, 5, 5]
    >>> [row["sex"] for row in balance(rows, "job", "sex")]
    ['F', 'M']
    """
    check_setting("how", How, how)
    cells = numbers_by_key((cell_of(row, label, i), cell_of(row, group, i)) for i, row in enumerate(rows))
    groups = {value for _, value in cells}
    if len(groups) == 1:
        raise SettingError(f"nothing to balance: {group!r} is {next(iter(groups))!r} in every row")
    times = np.ones(len(rows), dtype=np.int64)
    rng = np.random.default_rng(seed)
    left: list[Hashable] = []
    classes: dict[Hashable, list[list[int]]] = {}
    for (kind, _), members in cells.items():
        classes.setdefault(kind, []).append(members)
    for kind, of_groups in classes.items():
        if len(of_groups) < len(groups):
            left.append(kind)
            continue
        size = (min if how == SUBSAMPLE else max)(map(len, of_groups))
        for members in of_groups:  # each row equally often, and once more for some
            times[members] = size // len(members)
            times[rng.permutation(members)[: size % len(members)]] += 1
    if left:
        names = ", ".join(map(str, left[:5])) + (" ..." if len(left) > 5 else "")
        stay = f"{len(left)} of {len(classes)} classes stay unbalanced, because they lack a group: {names}"
        warnings.warn(stay, BiasWarning, stacklevel=2)
    return [row for row, n in zip(rows, times, strict=True) for _ in range(n)]


@dataclass(frozen=True)
class Balancing(Method):
    """Balance the training rows (orgad2022): as many of each group in each class. See :func:`balance`.

    ``how`` is ``subsample``, which leaves rows out, or ``oversample``, which repeats them.
    """

    name: ClassVar[str] = "balancing"
    how: How = SUBSAMPLE

    def __post_init__(self) -> None:
        """Reject unknown settings."""
        check_fields(self)

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
