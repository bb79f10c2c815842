"""The item file of a baseline: the stored figures of a suite's units, without pickle and in at most 512 KiB.

A file has the sums of the units for every statistic, the ids of examples, the values of restarts, and a sentence of
each item. Where the sums are too large and the raw item statistics are not, it has these instead.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import DataFileError, InconsistentEntryError, UndefinedError
from pytest_genderbias.gates.verdicts import FLOAT_NOISE
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.plain_data import Arrays, read_mapping, read_npz
from pytest_genderbias.measurement.restarts import EARLIER, RESTART, restarts_of
from pytest_genderbias.statistics.inference.item_sums import ItemSums, SumsByStatistic, holds_sums
from pytest_genderbias.statistics.inference.two_way import is_crossed
from pytest_genderbias.suites.summary import Examples, example_arrays, read_examples

MOST_ITEM_BYTES = 512 * 1024
#: What sums, parameters of combiners and raw items of another form raise in the arithmetic of a statistic.
_OF_ANOTHER_FORM = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
_RAW = ("id", "seed")  #: raw arrays that are stored beside the sums, as are the values of restarts


@dataclass(frozen=True)
class StoredItems:
    """The content of an item file: raw arrays (ids of examples, values of restarts), and the sums of units by
    statistic; and the values of the entry that it belongs to.
    """

    items: Arrays
    sums: SumsByStatistic
    values: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def examples(self) -> Examples:
        """A sentence of each item, with what the model gave for it; none where they did not fit."""
        return read_examples(self.items)

    def item_sums(self, statistic: str) -> ItemSums:
        """Return the sums of each unit that give a statistic.

        Raises:
            UndefinedError: there are none.
        """
        return self.sums[statistic]


def pack_measured(measurement: Measurement) -> bytes | None:
    """Return the bytes of an item file: sums, or raw item statistics where only these fit; ``None`` if nothing fits."""
    raw = {name: array for name, array in measurement.items.items() if _is_stored_raw(name)}
    sums = {**raw, **measurement.sums.to_arrays()}
    examples = example_arrays(measurement.examples)
    return (pack_items({**sums, **examples}) if examples else None) or pack_items(sums) or pack_items(measurement.items)


def pack_items(items: Arrays) -> bytes | None:
    """Return arrays as a compressed npz, or ``None`` if that takes more than 512 KiB."""
    buffer = io.BytesIO()
    arrays: dict[str, NDArray[np.generic]] = dict(sorted(items.items()))
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]  # numpy's stub takes the names for its own arguments
    return buffer.getvalue() if buffer.tell() <= MOST_ITEM_BYTES else None


def load_stored(packed: bytes, signature: Mapping[str, object], where: str = "item file") -> StoredItems:
    """Return the content of an item file.

    Args:
        packed: the bytes of the file.
        signature: of the measurement, with ``definition`` and ``settings``.
        where: what is read; it begins every message.

    Raises:
        DataFileError: the file is damaged, too large, or has another form.
    """
    arrays = read_npz(packed, where)
    if holds_sums(arrays):
        try:
            return StoredItems(arrays, SumsByStatistic.from_arrays(arrays))
        except ValueError as error:
            raise DataFileError(f"{where}: {error}") from None
    settings = read_mapping(signature.get("settings"), f"{where}: settings")
    return StoredItems(arrays, _sums_of_items(str(signature.get("definition")), settings, arrays))


def load_checked(
    packed: bytes, signature: Mapping[str, object], values: Mapping[str, float | None], restarts: int, where: str
) -> StoredItems:
    """Return the content of an item file, which gives the values stored with it, for every statistic that has both.

    Args:
        packed: the bytes of the file.
        signature: of the measurement, with ``definition`` and ``settings``.
        values: the stored values of the statistics.
        restarts: number of restarts that the values are means of; 0 without restarts.
        where: what is read; it begins the messages about the file.

    Raises:
        DataFileError: as :func:`load_stored`.
        InconsistentEntryError: a statistic has another value by its items, or its items are of another form. The
            message names it.
    """
    stored = replace(load_stored(packed, signature, where), values=values)
    for statistic, value in values.items():
        if value is None:
            continue
        by_items = _value_by_items(stored, statistic, restarts)
        if by_items is not None and not math.isclose(by_items, value, rel_tol=FLOAT_NOISE, abs_tol=FLOAT_NOISE):
            raise InconsistentEntryError(f"{statistic} is {value:.8g} in the entry, and its items give {by_items:.8g}")
    return _with_earlier(stored) if restarts > 1 and "seed" not in stored.items else stored


def _with_earlier(stored: StoredItems) -> StoredItems:
    """Return what an earlier version stored of one checkpoint in the place of restarts, whose values it moved around
    that checkpoint, in the form of now.
    """
    items = dict(stored.items)
    for name, values in stored.items.items():
        if name.startswith(RESTART):
            items[name] = values.mean(keepdims=True, dtype=np.float64)
            items[EARLIER + name.removeprefix(RESTART)] = np.array([values.std(ddof=1), len(values) - 1])
    return replace(stored, items=items)


def _value_by_items(stored: StoredItems, statistic: str, restarts: int) -> float | None:
    """Return a statistic by its items, or the mean of the stored values of its restarts; ``None`` if it is not made of
    items.
    """
    try:
        if not restarts:
            with np.errstate(all="ignore"):
                return stored.item_sums(statistic).total
        by_restart = restarts_of(stored.items, statistic)
        if by_restart is None or by_restart.shape != (restarts,):
            raise ValueError(f"no values of {restarts} restarts")
        return float(by_restart.mean())
    except UndefinedError:
        return None
    except _OF_ANOTHER_FORM as error:
        raise InconsistentEntryError(
            f"{statistic}: expected the sums of its items, got another form: {error!r:.100}"
        ) from None


def alike_items(now: StoredItems, then: StoredItems) -> bool:
    """Return whether sums, and the raw arrays beside them, differ by numerical noise only."""
    if set(now.sums) != set(then.sums) or not all(_alike_sums(now.sums[name], then.sums[name]) for name in now.sums):
        return False
    names = {name for name in (*now.items, *then.items) if _is_stored_raw(name)}
    return all(
        name in now.items and name in then.items and _alike_arrays(now.items[name], then.items[name]) for name in names
    )


def _is_stored_raw(name: str) -> bool:
    return name in _RAW or name.startswith((RESTART, EARLIER))


def _alike_sums(now: ItemSums, then: ItemSums) -> bool:
    if is_crossed(now) and not is_crossed(then):  # with templates more can be said
        return False
    if (now.templates is None) != (then.templates is None):
        now, then = now.by_unit(), then.by_unit()
    now_about, then_about = ((side.combiner, side.over, side.parameters, side.columns) for side in (now, then))
    same = now_about == then_about and np.array_equal(now.labels, then.labels)
    return same and _alike_arrays(now.sums, then.sums)


def _alike_arrays(now: NDArray[np.generic], then: NDArray[np.generic]) -> bool:
    """Compare sums over units, which gather the noise of their cases."""
    if now.shape != then.shape or now.dtype.kind != then.dtype.kind:
        return False
    if now.dtype.kind != "f":
        return bool(np.array_equal(now, then))
    wide_now, wide_then = now.astype(np.float64), then.astype(np.float64)
    return bool(np.allclose(wide_now, wide_then, rtol=FLOAT_NOISE, atol=FLOAT_NOISE, equal_nan=True))


def _sums_of_items(definition: str, settings: Mapping[str, object], items: Arrays) -> SumsByStatistic:
    """Return the sums of all statistics of a measurement whose raw items are stored.

    Args:
        definition: name and version of the statistics, as in the measurement's signature.
        settings: the settings of the signature.
        items: the raw item statistics.

    >>> items = {"occupation": np.array(["nurse", "pilot"]), "bias": np.array([-1.0, 3.0])}
    >>> sums = _sums_of_items("lm-occupation/1", {}, items)
    >>> sums["aggregate_bias"].total, sums["signed_bias"].total
    (2.0, 1.0)
    """
    from pytest_genderbias.suites.suite import family_of  # the family, which files of sums do not need

    family = family_of(definition)
    if family is None or family.definition != definition:
        return SumsByStatistic({})
    return SumsByStatistic(
        {name: partial(statistic.item_sums, settings, items) for name, statistic in family.statistics.items()}
    )
