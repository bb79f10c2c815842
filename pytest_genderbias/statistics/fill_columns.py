"""DisCo's count of significant fills as a function of named sums: persons by template, group and fill."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.statistics.contingency import significant_counts_by_template

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

SIZE = "size"  #: Instead of a template number: the number of persons of a group.
_BLOCK = 2_000_000  #: Numbers in memory at a time.


def fill_column(template: int | str, group: str, fill: str) -> str:
    """Return the name of the sum that counts the persons of a group for whom a fill is supplied in a template.

    >>> fill_column(0, "female", "dance").split(chr(9))
    ['0', 'female', 'dance']
    """
    return f"{template}\t{group}\t{fill}"


def significant_fills_of_columns(
    totals: FloatArray, parameters: Mapping[str, Any], columns: tuple[str, ...] | None
) -> FloatArray:
    """Return the number of significant fills per template from totals of named sums: shape (..., K) to (...).

    Args:
        totals: persons in each column, shape (..., K).
        parameters: ``templates``, their number; and ``level``, ``family`` and ``test``, as of
            :func:`~pytest_genderbias.statistics.contingency.significant_fills`.
        columns: K names from :func:`fill_column`.
    """
    return np.asarray(significant_fills_by_template(totals, parameters, columns).mean(axis=-1))


def significant_fills_by_template(
    totals: FloatArray, parameters: Mapping[str, Any], columns: tuple[str, ...] | None
) -> FloatArray:
    """Return the number of significant fills of each template: shape (..., K) to (..., templates).

    Arguments as in :func:`significant_fills_of_columns`.
    """
    assert columns is not None  # the combiner is declared as named
    test = {name: parameters[name] for name in ("level", "family", "test")}
    cells, sizes, templates = _layout(columns)
    rows = totals.reshape(-1, totals.shape[-1])
    size = max(1, _BLOCK // max(1, cells.size))
    counts = [np.zeros((0, parameters["templates"]))]
    for start in range(0, len(rows), size):
        padded = np.pad(rows[start : start + size], ((0, 0), (0, 1)))
        supplied = padded[:, cells], padded[:, sizes], templates, parameters["templates"]
        counts.append(significant_counts_by_template(*supplied, **test))
    return np.concatenate(counts).reshape(*totals.shape[:-1], parameters["templates"])


@lru_cache(maxsize=8)
def _layout(columns: tuple[str, ...]) -> tuple[IntArray, IntArray, IntArray]:
    """Return the columns of each fill by group, the columns of the group sizes, and the template of each fill.

    A fill that is supplied for no person of a group has the index K, a column of zeros that the caller appends.
    """
    parts = [column.split("\t", 2) for column in columns]
    groups = {group: i for i, group in enumerate(sorted({group for _, group, _ in parts}))}
    fills = {key: i for i, key in enumerate(dict.fromkeys((t, f) for t, _, f in parts if t != SIZE))}
    templates = np.asarray([int(template) for template, _ in fills], dtype=np.int64)
    cells = np.full((len(fills), len(groups)), len(columns))
    sizes = np.full(len(groups), len(columns))
    for column, (template, group, fill) in enumerate(parts):
        if template == SIZE:
            sizes[groups[group]] = column
        else:
            cells[fills[template, fill], groups[group]] = column
    return cells, sizes, templates
