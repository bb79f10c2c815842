"""Results of other tools: a row an item, whose cells a suite names. ``engines/results_files.py`` reads their files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.biographies import GENDERS
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.text.normal_form import folded, normal_form
from pytest_genderbias.text.printable import brief, brief_list

FEWEST = 2  #: rows of a group, without which it has no error
_TRUTHS = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True)
class Results:
    """The rows of a file of results.

    ``rows``: as the tool wrote them, mappings inside mappings. ``restart``: the number of the restart whose rows are
    meant, from 0; empty for all of them.
    """

    path: Path
    rows: Sequence[Mapping[str, Any]] = field(repr=False)
    restart: str = ""

    @property
    def ids(self) -> Sequence[int]:
        """The number of each row."""
        return range(len(self.rows))


#: Where a row has its ``id``, ``group``, ``value`` and, if it has one, ``class``, ``cluster`` and ``restart``: keys,
#: joined by dots where mappings are inside each other, as in ``metadata.gender``.
Columns: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Values:
    """Items, sorted by id.

    ``ids``, ``classes``, ``clusters``: names, shape (n,), the last two empty where no column names them. ``group``:
    positions in the groups that were asked for, shape (n,). ``values``: shape (n,), means over the restarts.
    ``restarts``: rows of each item. ``unknown``: rows of an unknown group, which are left out.
    """

    ids: NDArray[np.str_]
    group: NDArray[np.int64]
    values: NDArray[np.float64]
    classes: NDArray[np.str_]
    clusters: NDArray[np.str_]
    restarts: int
    unknown: int = 0


def cell(row: object, key: str) -> Any:
    """Return the cell of a row; objects of a list that have a ``name`` are found by it, others by their number.

    Raises:
        KeyError: there is none.

    >>> row = {"id": 1, "scores": {"match": {"value": 1}}, "metrics": [{"name": "Bias", "score": 0.5}]}
    >>> cell(row, "scores.match.value"), cell(row, "metrics.Bias.score"), cell(row, "metrics.0.name")
    (1, 0.5, 'Bias')
    """
    for name, inner in _inside(row):
        if name == key:
            return inner
        if key.startswith(f"{name}."):
            try:
                return cell(inner, key[len(name) + 1 :])
            except KeyError:
                continue
    raise KeyError(key)


def _inside(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        yield from ((str(key), inner) for key, inner in value.items())
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            if isinstance(inner, Mapping) and isinstance(inner.get("name"), str):
                yield inner["name"], inner
            yield str(number), inner


def keys_of(row: object, before: str = "") -> Iterator[str]:
    """Yield the keys of the cells of a row that hold no further ones.

    >>> list(keys_of({"id": 1, "scores": {"match": {"value": 1}}}))
    ['id', 'scores.match.value']
    """
    for name, inner in _inside(row):
        if any(True for _ in _inside(inner)):
            yield from keys_of(inner, f"{before}{name}.")
        else:
            yield f"{before}{name}"


def take_values(
    results: Results, columns: Columns, groups: Sequence[str], most: float, whole: bool, with_unknown: bool = False
) -> Values:
    """Return the items of a file of results. Rows of one item differ in their restart; their mean is its value.

    Args:
        results: the file.
        columns: where its rows have what.
        groups: the names of the groups.
        most: the largest value, and its negative the smallest; infinite for any.
        whole: whether values are 0 or 1.
        with_unknown: whether the group of a row may be unknown: an empty cell, or ``unknown``.

    Raises:
        DataFileError: what is wrong with the rows, of each kind how many and the first: a cell is missing, a value is
            no number or not in its range, a group is unknown or has fewer than ``FEWEST`` items, an id is there twice.

    >>> rows = [{"id": 1, "sex": "F", "ok": True}, {"id": 2, "sex": "F", "ok": False}, {"id": 3, "sex": "x", "ok": 1}]
    >>> columns = {"id": "id", "group": "sex", "value": "ok"}
    >>> results = Results(Path("a.csv"), rows)
    >>> take_values(results, columns, ("female", "male"), 1.0, True)  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ...
    pytest_genderbias.errors.DataFileError: a.csv: its 3 rows cannot be judged: another group than 'female', 'male' in
    'sex': 1, first row 3: 'x'
    """
    all_rows = _rows_of_restart(results, columns)
    rows = [row for row in all_rows if not (with_unknown and _is_unknown(row[1], columns["group"], groups))]
    read: dict[str, Callable[[Any], Any]] = {"id": _name, "group": lambda raw: _place(raw, groups)}
    read |= {"value": lambda raw: _number(raw, most, whole)}
    read |= {what: _name for what in ("class", "cluster", "restart") if what in columns}
    found: dict[str, list[Any]] = {what: [] for what in read}
    wrong: dict[str, list[str]] = {}
    for number, row in rows:
        for what, function in read.items():
            key = columns[what]
            try:
                found[what].append(function(cell(row, key)))
            except KeyError:
                wrong.setdefault(f"no {key!r}", []).append(f"row {number}")
            except ValueError as error:
                wrong.setdefault(f"{error} in {key!r}", []).append(f"row {number}: {brief(cell(row, key))}")
    missing = rows and any(what.startswith("no '") for what in wrong)
    hint = f"; the first row has {brief_list(list(keys_of(rows[0][1])))}" if missing else ""
    _refuse(results, len(rows), wrong, hint)
    return replace(_by_item(results, columns, groups, found), unknown=len(all_rows) - len(rows))


def _is_unknown(row: Mapping[str, Any], key: str, groups: Sequence[str]) -> bool:
    try:
        raw = cell(row, key)
    except KeyError:
        return False
    return raw is None or (isinstance(raw, str) and folded(raw) in ("", "unknown") and raw not in groups)


def _rows_of_restart(results: Results, columns: Columns) -> list[tuple[int, Mapping[str, Any]]]:
    numbered = list(enumerate(results.rows, start=1))
    if not results.restart:
        return numbered
    if "restart" not in columns:
        raise DataFileError(
            f"{results.path}: restart {results.restart!r} is asked for, and the suite does not say which column has the"
            " restarts; name it under 'restart'"
        )
    names = [_restart_of(row, columns["restart"]) for _, row in numbered]
    known = sorted({name for name in names if name}, key=lambda name: (len(name), name))  # 2 before 10
    if not results.restart.isdecimal() or int(results.restart) >= len(known):
        raise DataFileError(
            f"{results.path}: no restart {results.restart}; its {len(known)} restarts are counted from 0, in the order"
            f" of {columns['restart']!r}: {brief_list(known)}"
        )
    return [one for one, name in zip(numbered, names, strict=True) if name == known[int(results.restart)]]


def _restart_of(row: Mapping[str, Any], key: str) -> str:
    try:
        return _name(cell(row, key))
    except (KeyError, ValueError):
        return ""


def _name(raw: object) -> str:
    if isinstance(raw, int) and not isinstance(raw, bool):
        return str(raw)
    if isinstance(raw, float) and raw.is_integer():  # of a column with gaps
        return str(int(raw))
    if not isinstance(raw, str) or not raw.strip():
        raise ValueError("neither a text nor a whole number")
    return normal_form(raw).strip()


def _place(raw: object, groups: Sequence[str]) -> int:
    name = _name(raw)
    name = GENDERS.get(folded(name), name)
    if name not in groups:
        raise ValueError(f"another group than {', '.join(map(repr, groups))}")
    return groups.index(name)


def _number(raw: object, most: float, whole: bool) -> float:
    try:
        value = _TRUTHS.get(folded(raw)) if isinstance(raw, str) else None
        value = float(raw) if value is None else value  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise ValueError("no number") from None
    if not math.isfinite(value):
        raise ValueError("no number")
    if whole and value not in (0.0, 1.0):
        raise ValueError("neither 0 nor 1")
    if not (0.0 <= value <= most or math.isinf(most)):
        raise ValueError(f"not from 0 to {most:g}")
    return value


def _refuse(results: Results, rows: int, wrong: Mapping[str, Sequence[str]], hint: str = "") -> None:
    """Raise one error with how much is wrong of each kind."""
    if wrong:
        parts = [f"{what}: {len(where):,}, first {where[0]}" for what, where in wrong.items()]
        raise DataFileError(f"{results.path}: its {rows:,} rows cannot be judged: {'; '.join(parts)}{hint}")


def _by_item(results: Results, columns: Columns, groups: Sequence[str], found: Mapping[str, list[Any]]) -> Values:
    """Return one item for each id, the mean of its restarts."""
    names = found["id"]
    restarts = found.get("restart") or [""] * len(names)
    times = Counter(zip(names, restarts, strict=True))
    twice = [f"{name!r}{f' in restart {one!r}' if one else ''}" for (name, one), n in times.items() if n > 1]
    advice = (
        "" if "restart" in columns else "; if a tool asked each item several times, name that column under 'restart'"
    )
    _refuse(results, len(names), {"an id that is there twice": twice} if twice else {}, advice)
    ids, first, of, counts = np.unique(
        np.asarray(names, dtype=np.str_), return_index=True, return_inverse=True, return_counts=True
    )
    wrong: dict[str, list[str]] = {}
    if len(set(counts.tolist())) > 1:
        fewer = ids[counts < counts.max()].tolist()
        wrong[f"fewer restarts than {counts.max()}"] = list(map(repr, fewer))
    labels = {what: np.asarray(found[what], dtype=np.str_) for what in ("class", "cluster") if what in found}
    group = np.asarray(found["group"], dtype=np.int64)
    for column in (group, *labels.values()):
        other = np.unique(of[column != column[first][of]])
        if len(other):
            wrong["another group, class or cluster in another restart"] = list(map(repr, ids[other].tolist()))
    per_group = np.bincount(group[first], minlength=len(groups))
    few = [f"{name!r} has {n}" for name, n in zip(groups, per_group.tolist(), strict=True) if n < FEWEST]
    if few:
        wrong[f"a group of fewer than {FEWEST} items"] = few
    _refuse(results, len(names), wrong)
    values = np.bincount(of, np.asarray(found["value"], dtype=np.float64)) / counts
    nothing = np.zeros(0, dtype=np.str_)
    classes, clusters = (labels[what][first] if what in labels else nothing for what in ("class", "cluster"))
    return Values(ids, group[first], values, classes, clusters, int(counts[0]))
