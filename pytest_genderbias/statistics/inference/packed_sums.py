"""The item sums of all statistics of a measurement: computed on access, and stored as plain arrays."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.inference.item_sums import ItemSums

Arrays = Mapping[str, NDArray[np.generic]]
Entry: TypeAlias = "ItemSums | Callable[[], ItemSums] | str"  #: sums, what computes them, or why there are none

KnownSums: TypeAlias = "ItemSums | str"  #: the sums of one model, or why there are none

#: How each array that is packed is read, by its type, shape and bytes.
_Names: TypeAlias = dict[tuple[str, tuple[int, ...], bytes], dict[str, object]]
_INDEX = "item_sums.json"  #: the packed array that says which arrays make up which statistic
_SCHEMA = 1
_MOST_VALUES = 1 << 25  #: of one array, unpacked
#: Parts of item sums, and the kinds of their values.
_KINDS = {"labels": "U", "sums": "fiu", "columns": "U", "templates": "U", "clusters": "U"}
_SPARSE = 4  #: an array with fewer than one element in this many that is not 0 is packed as positions and values


class SumsByStatistic(Mapping[str, ItemSums]):
    """The :class:`ItemSums` of each statistic that has any, and the reason for each that has none.

    Looking up a statistic without sums raises :class:`UndefinedError`, which says why.

    Args:
        entries: for each statistic its sums; or a function that computes them, or raises UndefinedError, on each access
            (so that large sums are not held in memory); or the reason why there are none.

    >>> sums = SumsByStatistic({"share": "it has no units"})
    >>> list(sums), "share" in sums
    ([], False)
    """

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries = dict(entries)

    def __getitem__(self, statistic: str) -> ItemSums:
        """Return the sums of a statistic.

        Raises:
            UndefinedError: there are none.
        """
        entry = self._entries.get(statistic, f"no sums of {statistic} are known")
        if isinstance(entry, str):
            raise UndefinedError(entry)
        return entry if isinstance(entry, ItemSums) else entry()

    def known(self, statistic: str) -> KnownSums:
        """Return the sums of a statistic, or the reason why there are none."""
        try:
            return self[statistic]
        except UndefinedError as error:
            return str(error)

    def __iter__(self) -> Iterator[str]:
        """Yield the statistics that have sums."""
        return (statistic for statistic in self._entries if statistic in self)

    def __len__(self) -> int:
        """Return the number of statistics that have sums."""
        return sum(1 for _ in self)

    def __contains__(self, statistic: object) -> bool:
        """Return whether a statistic has sums."""
        try:
            self[str(statistic)]
        except UndefinedError:
            return False
        return True

    def entries(self) -> dict[str, Entry]:
        """Return what the sums were made of: sums, functions that compute them, and reasons, by statistic."""
        return dict(self._entries)

    def evaluated(self) -> SumsByStatistic:
        """Return the same with all sums computed."""
        return SumsByStatistic({name: self.known(name) for name in self._entries})

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return everything as arrays of numbers and texts, which need no pickle; equal arrays are stored once."""
        arrays: dict[str, NDArray[np.generic]] = {}
        names: _Names = {}
        index: dict[str, object] = {}
        for statistic, entry in self.evaluated()._entries.items():
            if isinstance(entry, ItemSums):
                parts = entry.to_arrays()
                about = json.loads(str(parts.pop("about")))
                index[statistic] = {"about": about, "arrays": {k: _add(v, arrays, names) for k, v in parts.items()}}
            else:
                index[statistic] = {"reason": entry}
        return {_INDEX: np.asarray(json.dumps({"schema": _SCHEMA, "statistics": index})), **arrays}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> SumsByStatistic:
        """Return the sums that :meth:`to_arrays` wrote. Other arrays in the mapping are ignored.

        Raises:
            ValueError: the arrays hold no sums, sums of another version, or sums of another form. The message names the
                place.
        """
        if not holds_sums(arrays):
            raise ValueError(f"expected an array {_INDEX!r}")
        try:
            content = _mapping(json.loads(str(arrays[_INDEX])), _INDEX)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"{_INDEX}: expected JSON, got something else: {error}") from None
        if content.get("schema") != _SCHEMA:
            raise ValueError(f"expected item sums with schema {_SCHEMA}, got {content.get('schema')!r}")
        entries: dict[str, Entry] = {}
        for statistic, entry in _mapping(content.get("statistics"), _INDEX).items():
            about = _mapping(entry, statistic)
            entries[statistic] = (
                str(about["reason"]) if "reason" in about else _read_item_sums(statistic, about, arrays)
            )
        return cls(entries)


def holds_sums(arrays: Arrays) -> bool:
    """Return whether arrays are those of :meth:`SumsByStatistic.to_arrays`."""
    return _INDEX in arrays


def _add(array: NDArray[np.generic], arrays: dict[str, NDArray[np.generic]], names: _Names) -> dict[str, object]:
    """Add an array to those that are packed, unless an equal one is there, and return how it is read."""
    content = np.ascontiguousarray(array)
    key = (content.dtype.str, array.shape, content.tobytes())
    if key not in names:
        name = f"array{len(names)}"
        bits = content.reshape(-1).view(np.dtype(f"u{content.itemsize}")) if content.dtype.kind == "f" else None
        filled = None if bits is None else np.flatnonzero(bits)  # by bits, so that -0.0 stays
        if filled is None or len(filled) * _SPARSE > content.size:
            arrays[name] = array
            names[key] = {"array": name}
        else:
            arrays[f"{name}.steps"] = np.diff(filled, prepend=0).astype(np.uint32)
            arrays[f"{name}.values"] = content.reshape(-1)[filled]
            names[key] = {"sparse": name, "shape": list(array.shape)}
    return names[key]


def _read_item_sums(statistic: str, entry: Mapping[str, object], arrays: Arrays) -> ItemSums:
    about = _mapping(entry.get("about"), f"{statistic}.about")
    parts = {
        part: _read(_mapping(how, f"{statistic}.{part}"), arrays, f"{statistic}.{part}")
        for part, how in _mapping(entry.get("arrays"), f"{statistic}.arrays").items()
    }
    for part, kinds in _KINDS.items():
        if part in parts and parts[part].dtype.kind not in kinds:
            raise ValueError(
                f"{statistic}.{part}: expected {'texts' if kinds == 'U' else 'numbers'}, got {parts[part].dtype}"
            )
    keys = about.keys() - {"across", "complete"}
    if not {"labels", "sums"} <= parts.keys() <= _KINDS.keys() or keys != {"combiner", "over", "parameters"}:
        raise ValueError(
            f"{statistic}: expected labels, sums, a combiner and its parameters, got {', '.join([*parts, *about])}"
        )
    try:
        return ItemSums.from_arrays({**parts, "about": np.asarray(json.dumps(dict(about)))})
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{statistic}: {error}") from None


def _read(how: Mapping[str, object], arrays: Arrays, where: str) -> NDArray[np.generic]:
    if "array" in how:
        return _array(str(how["array"]), arrays, where)
    values, steps = (_array(f"{how.get('sparse')}.{part}", arrays, where) for part in ("values", "steps"))
    shape = how.get("shape")
    if not isinstance(shape, list) or not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError(f"{where}: expected a shape, got {shape!r:.80}")
    size = math.prod(shape)
    if size > _MOST_VALUES or values.ndim != 1 or values.shape != steps.shape or steps.dtype.kind not in "ui":
        raise ValueError(
            f"{where}: expected at most {_MOST_VALUES:,} numbers with a step for each that is not 0, got {size:,}"
        )
    places = np.cumsum(steps, dtype=np.int64)
    if len(places) and not 0 <= places.min() <= places.max() < size:
        raise ValueError(f"{where}: expected steps within {size:,} numbers, got {places.max():,}")
    array = np.zeros(shape, dtype=values.dtype)
    array.reshape(-1)[places] = values
    return array


def _array(name: str, arrays: Arrays, where: str) -> NDArray[np.generic]:
    if name not in arrays:
        raise ValueError(f"{where}: expected the array {name!r}, got {', '.join(arrays)[:80]}")
    return arrays[name]


def _mapping(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected a mapping, got {value!r:.80}")
    return value
