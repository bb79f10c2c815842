"""Sufficient statistics of a suite's units, from which a statistic can be computed, resampled and compared without a
model; of one statistic, and of all statistics of a measurement: computed on access, and stored as plain arrays.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.combiners import Combiner, find_combiner

if TYPE_CHECKING:
    from pytest_genderbias.statistics.gap_rms import UnitGaps

FloatArray = NDArray[np.float64]
_MOST_BLOCKS = 200  #: blocks of consecutive cases
#: What repeats one training with other draws: no sample of items, and so few that only Student's t holds.
REPETITIONS = frozenset({"restarts", "shuffles"})
_LEAST_SHARED = 0.8  #: the smallest share of units that both sides of a comparison have
_Number = TypeVar("_Number", bound=np.floating)
Sums: TypeAlias = NDArray[np.floating]  #: of single or double precision


@dataclass(frozen=True)
class ItemSums:
    """The sums of each unit, and the name of the function that turns their totals into the statistic.

    A mean over cases has two sums a unit: the sum of its scores and their number; the first total divided by the second
    is the mean. Pearson's r has six sums (1, x, y, x^2, y^2, xy). Only the totals enter the statistic. To leave units
    out, to draw them again, or to exchange them with those of another model is therefore arithmetic and needs no model.
    The object is plain data: arrays, texts and numbers.

    Attributes:
        labels: names of the units (occupations, persons, word pairs), all different, shape (G,).
        sums: the sums of each unit, shape (G, K); or of each unit in each template, shape (G, T, K).
        combiner: name in :data:`~pytest_genderbias.statistics.combiners.COMBINERS` of the function from totals to the
            statistic.
        over: what a unit is, in the plural, for tables.
        parameters: parameters of the combiner, as plain JSON values.
        columns: names of the sums, all different, where two models may have different sums (such as the fills that they
            supply). A sum that a model lacks is 0. ``None``: all models have the same sums.
        templates: names of the templates, shape (T,); ``None`` where sums have the shape (G, K). The last of several
            sums is the number of cases then.
        across: what the units are crossed with, in the plural, where that is no templates but other words.
        clusters: the cluster of each unit, shape (G,), where units are no independent samples (occupations of one
            field): bounds are for other clusters then. ``None``: each unit is a sample of its own.
        complete: whether the clusters are all that there are, such as the fields of a census. One training may still
            move whole clusters, so that bounds over units are over clusters; restarts show what a training moves.
    """

    labels: NDArray[np.str_]
    sums: Sums
    combiner: str
    over: str
    parameters: Mapping[str, object] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    templates: NDArray[np.str_] | None = None
    across: str = "templates"
    clusters: NDArray[np.str_] | None = None
    complete: bool = False

    def __post_init__(self) -> None:
        """Check that shapes and names agree.

        Raises:
            ValueError: they do not, or there is no such combiner.
        """
        if self.sums.ndim != (2 if self.templates is None else 3) or self.labels.shape != self.sums.shape[:1]:
            raise ValueError("expected a label for each row of sums")
        if len(set(self.labels.tolist())) != len(self.labels):
            raise ValueError("the labels of units should differ")
        if self.clusters is not None and self.clusters.shape != self.labels.shape:
            raise ValueError("expected a cluster for each unit")
        if self.templates is not None and self.templates.shape != self.sums.shape[1:2]:
            raise ValueError("expected a name for each template")
        if self.columns is not None and not len(self.columns) == len(set(self.columns)) == self.sums.shape[-1]:
            raise ValueError("expected a name of its own for each sum")
        function = self._function
        if (self.columns is not None) != function.named:
            raise ValueError(
                f"the combiner {self.combiner!r} {'needs' if function.named else 'takes no'} names of sums"
            )
        if (self.templates is not None) != (function.by_unit is not None):
            raise ValueError(
                f"the combiner {self.combiner!r} {'takes no' if function.by_unit is None else 'needs'} templates"
            )

    @property
    def _function(self) -> Combiner:
        return find_combiner(self.combiner, self.parameters)

    @property
    def smooth(self) -> bool:
        """Whether small changes of the sums change the statistic a little. A count of significant tests is not
        smooth.
        """
        return self._function.smooth

    @property
    def ratio(self) -> bool:
        """Whether the statistic is the first total divided by the second."""
        return self._function.ratio

    def unit_gaps(self) -> UnitGaps | None:
        """Return the gaps whose root mean square the statistic is, with the errors that each unit adds; ``None`` for
        other statistics.
        """
        function = self._function.unit_gaps
        return None if function is None else function(self.sums.astype(np.float64), self.parameters, self.columns or ())

    def trials(self) -> FloatArray | None:
        """Return the numbers of cases that the rates or distributions of the statistic are of; ``None`` if chance does
        not raise it.
        """
        function = self._function.trials
        totals = self.sums.sum(axis=0, dtype=np.float64)
        return None if function is None else function(totals, self.parameters, self.columns or ())

    @property
    def n_templates(self) -> int:
        """Number of templates by which the statistic is known; 0 where it is not known by template."""
        if self.templates is not None:
            return len(self.templates)
        count = self.parameters.get("templates") if self._function.by_template is not None else None
        return count if isinstance(count, int) else 0

    def by_template(self, totals: FloatArray) -> FloatArray:
        """Return the statistic of each template, shape (..., K) to (..., n_templates), where it is the mean over
        templates of totals.
        """
        function = self._function.by_template
        assert function is not None, "the caller knows that the totals of this statistic are by template"
        return function(totals, self.parameters, self.columns or ())

    def value(self, totals: FloatArray) -> FloatArray:
        """Return the statistic of totals: shape (..., K) to (...), NaN where it is undefined.

        Totals are sums over units of the rows of :meth:`by_unit`.
        """
        return self._function.value(totals, self.parameters, self.columns or ())

    def by_unit(self) -> ItemSums:
        """Return the same with one row of sums a unit, shape (G, K): templates are combined as the statistic does
        it.
        """
        function = self._function
        if function.by_unit is None:
            return self
        labels, sums = function.by_unit(self.labels, self.sums)
        clusters = None if self.clusters is None else self.clusters[np.isin(self.labels, labels)]
        return ItemSums(labels, sums, function.after, self.over, clusters=clusters, complete=self.complete)

    def in_clusters(self, of_units: Mapping[str, str], complete: bool = False) -> ItemSums:
        """Return the same with the cluster of each unit; a unit that the mapping lacks is a cluster of its own.

        The same object where no two units share a cluster. ``complete``: whether these clusters are all that there are.

        >>> sums = mean_sums(np.array(["nurse", "doctor", "baker"]), np.ones(3), np.ones(3), "jobs")
        >>> sums.in_clusters({"nurse": "health", "doctor": "health"}).by_cluster().labels.tolist()
        ['baker', 'health']
        """
        if not of_units:
            return self
        names = [of_units.get(label, label) for label in self.labels.tolist()]
        alone = len(set(names)) == len(names)
        return self if alone else replace(self, clusters=np.asarray(names, dtype=np.str_), complete=complete)

    def units_by_cluster(self) -> dict[str, NDArray[np.str_]]:
        """Return the names of the units of each cluster that has several; none without clusters."""
        if self.clusters is None:
            return {}
        names, counts = np.unique(self.clusters, return_counts=True)
        return {str(name): self.labels[self.clusters == name] for name in names[counts > 1]}

    def only(self, names: NDArray[np.str_]) -> ItemSums:
        """Return the sums of some units, each of which is a sample of its own.

        >>> names, values = np.array(["nurse", "doctor", "baker"]), np.array([3.0, 5.0, 1.0])
        >>> sums = mean_sums(names, values, np.ones(3), "occupations")
        >>> health = sums.in_clusters({"nurse": "health", "doctor": "health"}).units_by_cluster()["health"]
        >>> sums.only(health).total
        4.0
        """
        return replace(_rows(self, np.flatnonzero(np.isin(self.labels, names))), clusters=None)

    def by_cluster(self) -> ItemSums:
        """Return one row of sums a cluster, shape (G, K), those of its units added up; or a unit, where there are no
        clusters.
        """
        flat = self.by_unit()
        if flat.clusters is None:
            return flat
        labels, codes = np.unique(flat.clusters, return_inverse=True)
        return replace(
            flat, labels=labels, sums=add_rows(flat.sums, codes), over=f"clusters of {flat.over}", clusters=None
        )

    @property
    def total(self) -> float:
        """The statistic over all units."""
        flat = self.by_unit()
        return float(flat.value(flat.sums.sum(axis=0, dtype=np.float64)))

    def by_itself(self) -> FloatArray:
        """Return what each unit gives by itself, in the order of :meth:`by_unit`, shape (G,); NaN where a unit gives no
        figure.

        >>> mean_sums(np.array(["a", "b"]), np.array([3.0, 6.0]), np.array([2, 1]), "letters").by_itself()
        array([1.5, 6. ])
        """
        flat = self.by_unit()
        if (own := flat._function.own) is None:
            return np.full(len(flat.labels), np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            return own(np.asarray(flat.sums, dtype=np.float64))


def add_rows(rows: NDArray[_Number], codes: NDArray[np.intp]) -> NDArray[_Number]:
    """Return the sum of the rows of each code, from 0 to the largest, shape (n, ...) to (n', ...).

    >>> add_rows(np.array([1.0, 2.0, 4.0]), np.array([0, 1, 0])).tolist()
    [5.0, 2.0]
    """
    added = np.zeros((int(codes.max()) + 1, *rows.shape[1:]), dtype=rows.dtype)
    np.add.at(added, codes, rows)
    return added


def align(then: ItemSums, now: ItemSums) -> tuple[ItemSums, ItemSums]:
    """Return both with the same units and the same sums, each in the same order.

    Units are those that have a case on both sides, sorted by label. Named sums are those that either has, sorted by
    name; a sum that one side lacks is 0 for all its units. Templates stay where both sides have the same ones;
    otherwise each side is combined by unit.

    Args:
        then: sums of one model.
        now: sums of the same statistic on another model.

    Raises:
        UndefinedError: they have no unit in common, or other sums (such as F1 of clusters and of pairs).
        ValueError: they are not of one statistic: their units are of other kinds.

    Example:
        One has the units a and b, the other has b and c: both have b left.

        >>> labels, ones = (np.array(["a", "b"]), np.array(["c", "b"])), np.ones(2)
        >>> then, now = (mean_sums(names, ones, ones, "words") for names in labels)
        >>> [side.labels.tolist() for side in align(then, now)]
        [['b'], ['b']]
    """
    if then.over != now.over or (then.columns is None) != (now.columns is None):
        raise ValueError(f"sums over {then.over} and over {now.over} are not of one statistic")
    if not _same_templates(then, now):
        then, now = then.by_unit(), now.by_unit()
    # A unit without a case on one side is a unit of neither, though it has a row of sums by template.
    in_both = np.intersect1d(then.by_unit().labels, now.by_unit().labels, assume_unique=True)
    labels, rows_then = np.intersect1d(then.labels, in_both, assume_unique=True, return_indices=True)[:2]
    rows_now = np.intersect1d(now.labels, in_both, assume_unique=True, return_indices=True)[1]
    if not len(labels):
        raise UndefinedError(f"the two have none of the {then.over} in common")
    if then.columns is None or now.columns is None:
        if then.sums.shape[-1] != now.sums.shape[-1]:
            raise UndefinedError(
                f"the two were counted in other ways: {then.sums.shape[-1]} sums a unit and {now.sums.shape[-1]}"
            )
        return _rows(then, rows_then), _rows(now, rows_now)
    columns = tuple(sorted({*then.columns, *now.columns}))
    return _spread(_rows(then, rows_then), then.columns, columns), _spread(_rows(now, rows_now), now.columns, columns)


def units_shared(then: KnownSums | None, now: KnownSums | None) -> tuple[str, bool]:
    """Return in words which units both sides have, as ``"30 of 40 words"``, and whether they are too few to compare.

    The text is empty where both have the same units, or these are not known.
    """
    if not (isinstance(then, ItemSums) and isinstance(now, ItemSums)) or now.over in REPETITIONS:
        return "", False
    names = [set(side.by_unit().labels.tolist()) for side in (then, now)]
    of_both, of_either = len(names[0] & names[1]), len(names[0] | names[1])
    if of_both == of_either:
        return "", False
    return f"{of_both} of {of_either} {now.over}", of_both < _LEAST_SHARED * of_either


def _same_templates(then: ItemSums, now: ItemSums) -> bool:
    if then.templates is None or now.templates is None:
        return then.templates is None and now.templates is None
    return (then.combiner, then.across) == (now.combiner, now.across) and np.array_equal(then.templates, now.templates)


def _rows(side: ItemSums, rows: NDArray[np.intp]) -> ItemSums:
    clusters = None if side.clusters is None else side.clusters[rows]
    return replace(side, labels=side.labels[rows], sums=side.sums[rows], clusters=clusters)


def _spread(side: ItemSums, own: tuple[str, ...], columns: tuple[str, ...]) -> ItemSums:
    """Return a side with zeros for the columns that it lacks."""
    place = {name: i for i, name in enumerate(columns)}
    sums = np.zeros((len(side.labels), len(columns)), dtype=side.sums.dtype)
    sums[:, [place[name] for name in own]] = side.sums
    return replace(side, sums=sums, columns=columns)


def mean_sums(labels: NDArray[np.str_], sums: NDArray[np.generic], counts: NDArray[np.generic], over: str) -> ItemSums:
    """Return the sums of a mean over cases.

    Units without a case are left out.

    Args:
        labels: names of the units, shape (G,).
        sums: sum of the scores of each unit's cases, shape (G,).
        counts: number of these cases, shape (G,).
        over: what a unit is, in the plural.

    Example:
        Two cases of the first unit sum to 3, one of the second is 6: the mean of all three cases is 3.

        >>> mean_sums(np.array(["a", "b"]), np.array([3.0, 6.0]), np.array([2, 1]), "letters").total
        3.0
    """
    pairs = np.stack([np.asarray(sums, dtype=np.float64), np.asarray(counts, dtype=np.float64)], axis=1)
    filled = pairs[:, 1] > 0
    return ItemSums(np.asarray(labels, dtype=np.str_)[filled], pairs[filled], "mean", over)


def log_sums(item_sums: ItemSums) -> ItemSums:
    """Return the sums of the logarithm of a statistic, so that a difference is the logarithm of a ratio.

    >>> float(np.exp(log_sums(mean_sums(np.array(["a"]), np.array([3.0]), np.array([2.0]), "letters")).total))
    1.5
    """
    flat = item_sums.by_unit()
    return replace(flat, combiner="log", parameters={"of": flat.combiner, "parameters": dict(flat.parameters)})


def distinct(names: ArrayLike) -> NDArray[np.str_]:
    """Return names that all differ: a repeated name gets the suffix " (2)", " (3)", and so on. Shape (n,).

    >>> distinct(["a", "b", "a"]).tolist()
    ['a', 'b', 'a (2)']
    """
    taken: set[str] = set()
    unique = []
    for name in np.asarray(names, dtype=np.str_).tolist():
        candidate, number = name, 1
        while candidate in taken:
            number += 1
            candidate = f"{name} ({number})"
        taken.add(candidate)
        unique.append(candidate)
    return np.asarray(unique, dtype=np.str_)


def blocks_of(n: int, what: str) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
    """Split n consecutive cases into at most 200 blocks.

    Neighbours in a data set are often alike (three pairs of SNLI share a premise). Blocks keep them together.

    Args:
        n: number of cases.
        what: what a case is, in the plural.

    Returns:
        The name of each block, and the block of each case, shape (n,).

    >>> labels, block = blocks_of(500, "pairs")
    >>> len(labels), str(labels[1]), block[:7].tolist()
    (167, 'pairs 3-5', [0, 0, 0, 1, 1, 1, 2])
    """
    size = -(-n // _MOST_BLOCKS) or 1
    starts = range(0, n, size)
    labels = [f"{what} {start}-{min(start + size, n) - 1}" for start in starts]
    return np.asarray(labels, dtype=np.str_), np.arange(n, dtype=np.int64) // size


# All statistics of a measurement

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
        #: What the sums were made of: sums, functions that compute them, and reasons, by statistic.
        self.entries = dict(entries)

    def __getitem__(self, statistic: str) -> ItemSums:
        """Return the sums of a statistic.

        Raises:
            UndefinedError: there are none.
        """
        entry = self.entries.get(statistic, f"no sums of {statistic} are known")
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
        return (statistic for statistic in self.entries if statistic in self)

    def __len__(self) -> int:
        """Return the number of statistics that have sums."""
        return sum(1 for _ in self)

    def __contains__(self, statistic: object) -> bool:
        """Return whether a statistic has sums."""
        return isinstance(self.known(str(statistic)), ItemSums)

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return everything as arrays of numbers and texts, which need no pickle; equal arrays are stored once."""
        arrays: dict[str, NDArray[np.generic]] = {}
        names: _Names = {}
        index: dict[str, object] = {}
        for statistic in self.entries:
            sums = self.known(statistic)
            index[statistic] = {"reason": sums} if isinstance(sums, str) else _add_item_sums(sums, arrays, names)
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


def without_number(sums: KnownSums | None) -> str:
    """Return in words that the items of a statistic give no finite value; an empty text if they do, or if there are
    none.

    Such items contradict the value that they belong to, and no comparison of them or of the value can be trusted.
    """
    try:
        total = sums.total if isinstance(sums, ItemSums) else 0.0
    except UndefinedError:
        return ""
    return "" if math.isfinite(total) else f"its items give {total}"


def holds_sums(arrays: Arrays) -> bool:
    """Return whether arrays are those of :meth:`SumsByStatistic.to_arrays`."""
    return _INDEX in arrays


def _add_item_sums(
    sums: ItemSums, arrays: dict[str, NDArray[np.generic]], names: _Names
) -> dict[str, Mapping[str, object]]:
    """Add sums to the arrays that are packed, and return how they are read."""
    about: dict[str, object] = {"combiner": sums.combiner, "over": sums.over, "parameters": dict(sums.parameters)}
    if sums.across != "templates":
        about["across"] = sums.across
    if sums.complete:
        about["complete"] = True
    columns = None if sums.columns is None else np.asarray(sums.columns, dtype=np.str_)
    parts: dict[str, NDArray[Any] | None] = {"labels": sums.labels, "sums": sums.sums, "columns": columns}
    parts |= {"clusters": sums.clusters, "templates": sums.templates}
    return {
        "about": about,
        "arrays": {part: _add(array, arrays, names) for part, array in parts.items() if array is not None},
    }


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
    parts: dict[str, Any] = {
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
    if "columns" in parts:
        parts["columns"] = tuple(parts["columns"].tolist())
    try:
        return ItemSums(**parts, **about)
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


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected a mapping, got {value!r:.80}")
    return value
