"""The item sums of all statistics of a measurement: computed on access, and stored as plain arrays."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.statistics.inference.item_sums import ItemSums
from pytest_genderbias.statistics.inference.undefined import UndefinedError

Arrays = Mapping[str, NDArray[np.generic]]

_INDEX = "item_sums.json"  #: the packed array that says which arrays make up which statistic
_SCHEMA = 1
_SPARSE = 4  #: an array with fewer than one element in this many that is not 0 is packed as positions and values


class SumsByStatistic(Mapping[str, ItemSums]):
    """The :class:`ItemSums` of each statistic that has any, and the reason for each that has none.

    Looking up a statistic without sums raises :class:`UndefinedError`, which says why.

    Args:
        entries: for each statistic its sums; or a function that computes them, or raises UndefinedError, on each access (so that large
            sums are not held in memory); or the reason why there are none.

    >>> sums = SumsByStatistic({"share": "it has no units"})
    >>> list(sums), "share" in sums
    ([], False)
    """

    def __init__(self, entries: Mapping[str, ItemSums | Callable[[], ItemSums] | str]) -> None:
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

    def evaluated(self) -> SumsByStatistic:
        """Return the same with all sums computed."""
        entries: dict[str, ItemSums | Callable[[], ItemSums] | str] = {}
        for statistic in self._entries:
            try:
                entries[statistic] = self[statistic]
            except UndefinedError as error:
                entries[statistic] = str(error)
        return SumsByStatistic(entries)

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return everything as arrays of numbers and texts, which need no pickle; equal arrays are stored once."""
        arrays: dict[str, NDArray[np.generic]] = {}
        names: dict[tuple[str, tuple[int, ...], bytes], dict[str, object]] = {}
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
            ValueError: the arrays hold no sums, or sums of another version.
        """
        if not holds_sums(arrays):
            raise ValueError(f"expected an array {_INDEX!r}")
        content = json.loads(str(arrays[_INDEX]))
        if content.get("schema") != _SCHEMA:
            raise ValueError(f"expected item sums with schema {_SCHEMA}, got {content.get('schema')!r}")
        entries: dict[str, ItemSums | Callable[[], ItemSums] | str] = {}
        for statistic, entry in content["statistics"].items():
            if "reason" in entry:
                entries[statistic] = entry["reason"]
            else:
                parts = {part: _read(how, arrays) for part, how in entry["arrays"].items()}
                entries[statistic] = ItemSums.from_arrays({**parts, "about": np.asarray(json.dumps(entry["about"]))})
        return cls(entries)


def holds_sums(arrays: Arrays) -> bool:
    """Return whether arrays are those of :meth:`SumsByStatistic.to_arrays`."""
    return _INDEX in arrays


def _add(
    array: NDArray[np.generic],
    arrays: dict[str, NDArray[np.generic]],
    names: dict[tuple[str, tuple[int, ...], bytes], dict[str, object]],
) -> dict[str, object]:
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


def _read(how: Mapping[str, object], arrays: Arrays) -> NDArray[np.generic]:
    if "array" in how:
        return arrays[str(how["array"])]
    values, steps = arrays[f"{how['sparse']}.values"], arrays[f"{how['sparse']}.steps"]
    shape = how["shape"]
    assert isinstance(shape, list)
    array = np.zeros(shape, dtype=values.dtype)
    array.reshape(-1)[np.cumsum(steps, dtype=np.int64)] = values
    return array
