"""Refreshing a baseline entry. A lucky value is not kept, the spread of retrainings is not lost, and small steps from the
anchor do not add up unseen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from pytest_genderbias.gates.book import BaselineEntry
from pytest_genderbias.gates.difference import is_worse
from pytest_genderbias.gates.item_file import StoredItems
from pytest_genderbias.gates.judgement import Judgement, SinceAnchor
from pytest_genderbias.gates.regression import ANCHOR
from pytest_genderbias.gates.verdicts import BETTER, FLOAT_NOISE, REGRESSED, TOO_FEW, WITHIN, with_note
from pytest_genderbias.gates.wording import Paragraph, anchor_in_words, change_in_words
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.restarts import RESTART, name_in_restart, restarts_of
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums
from pytest_genderbias.statistics.inference.packed_sums import Entry, SumsByStatistic
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.text.numbers import format_number

POOLED, AGAIN, SPREAD = "pooled", "again", "spread"  #: what a refresh keeps of the stored values

#: Which verdict of a comparison with the anchor takes the place of which one of the comparison with the entry.
_REPLACES = {REGRESSED: {WITHIN, BETTER, TOO_FEW}, TOO_FEW: {WITHIN, BETTER}}


@dataclass(frozen=True)
class Kept:
    """What an update stores of a measurement.

    Attributes:
        measurement: the one that is stored.
        checkpoints: how many single checkpoints its values are means of.
        how: what it keeps of the stored values: ``POOLED`` with those of now, ``AGAIN`` as they are, the ``SPREAD`` of
            their restarts, or nothing.
    """

    measurement: Measurement
    checkpoints: int = 1
    how: str = ""

    @property
    def pooled(self) -> bool:
        """Whether its values are also those of earlier checkpoints."""
        return self.how in (POOLED, AGAIN)

    @property
    def in_words(self) -> str:
        """What is kept of the stored values; an empty text if nothing."""
        restarts = self.measurement.restarts
        of = f"{restarts} restarts" if restarts else f"{self.checkpoints} checkpoints"
        return {
            SPREAD: f"the spread of the {restarts} stored restarts is kept around it",
            AGAIN: f"it is one of what is stored, which stays ({of})",
            POOLED: f"chance explains the change, so that both are pooled ({of})",
        }.get(self.how, "")


def kept_of(
    measurement: Measurement,
    before: StoredItems,
    values: Mapping[str, float | None],
    weight: int,
    again: bool,
    is_chance: bool,
) -> Kept:
    """Return what an update stores of a measurement in place of what is stored.

    Where chance explains the change, it is pooled with what is stored, once; else one checkpoint takes its place, with
    the spread of the restarts that are stored.

    Args:
        measurement: of now.
        before: what is stored of its items.
        values: the stored values.
        weight: number of checkpoints that the stored values are of.
        again: whether the measurement is of the checkpoint that was stored last.
        is_chance: whether chance explains the change, and nobody gives a reason for it.
    """
    if is_chance and again:
        stored = _as_stored(measurement, before, values, weight)
        return Kept(stored, 1 if stored.restarts else weight, "" if stored is measurement else AGAIN)
    if is_chance:
        both = _pooled(measurement, before, values, weight)
        return Kept(both, 1 if both.restarts else weight + 1, POOLED)
    with_spread = measurement if again else with_kept_spread(measurement, before, values)
    return Kept(with_spread, how="" if with_spread is measurement else SPREAD)


def _pooled(
    measurement: Measurement, before: StoredItems, values: Mapping[str, float | None], weight: int
) -> Measurement:
    """Return a measurement pooled with what is stored; arguments as :func:`kept_of`.

    Restarts are joined. Of single checkpoints, the sums of each item are averaged, and values that are not made of
    items.
    """
    if _restarts(before, values) or measurement.restarts:
        return _joined(measurement, before, values, POOLED)
    entries: dict[str, Entry] = {}
    means: dict[str, float | None] = {}
    for name, now in measurement.values.items():
        then = values.get(name)
        means[name] = now if now is None or then is None else (weight * then + now) / (weight + 1)
        try:
            entries[name] = _mean_of(before.item_sums(name), measurement.item_sums(name), weight)
            means[name] = entries[name].total  # type: ignore[union-attr]
        except UndefinedError as error:
            entries[name] = str(error)
    return replace(measurement, values=means, sums=SumsByStatistic(entries))


def _as_stored(
    measurement: Measurement, before: StoredItems, values: Mapping[str, float | None], weight: int
) -> Measurement:
    """Return a measurement with the stored values, of which it is a part already; others as they are. Arguments as
    :func:`kept_of`.
    """
    stored = _restarts(before, values)
    if stored > (measurement.restarts or 0):
        return _joined(measurement, before, values, AGAIN)
    if weight < 2 or stored or measurement.restarts:
        return measurement
    entries: dict[str, Entry] = {}
    for name in measurement.values:
        try:
            entries[name] = before.item_sums(name)
        except UndefinedError as error:
            entries[name] = str(error)
    known = {name: values.get(name) for name in measurement.values}
    return replace(measurement, values=known, sums=SumsByStatistic(entries))


def with_kept_spread(measurement: Measurement, before: StoredItems, values: Mapping[str, float | None]) -> Measurement:
    """Return a measurement of one checkpoint with the spread of the stored restarts around it; others as they are."""
    if measurement.restarts or not _restarts(before, values):
        return measurement
    return _joined(measurement, before, values, SPREAD)


def _restarts(before: StoredItems, values: Mapping[str, float | None]) -> int:
    """Return the number of stored restarts; 0 without."""
    known = (restarts_of(before.items, name) for name, value in values.items() if value is not None)
    return max((len(by_restart) for by_restart in known if by_restart is not None), default=0)


def _joined(measurement: Measurement, before: StoredItems, values: Mapping[str, float | None], how: str) -> Measurement:
    """Return a measurement over restarts: the stored ones and those of now, the stored ones, or these shifted to
    now.
    """
    shifted = how == SPREAD
    items, means = dict(measurement.items), dict(measurement.values)
    entries: dict[str, Entry] = {}
    count = 0
    for name, now in measurement.values.items():
        then, new = _restart_values(before, values, name), restarts_of(measurement.items, name)
        if now is None or then is None:
            means[name] = None
            continue
        new = np.array([]) if how == AGAIN else np.array([now]) if new is None else new
        both = then - then.mean() + now if shifted else np.concatenate([then, new])
        items[RESTART + name], means[name], count = both, float(both.mean()), len(both)
        entries[name] = "the values of its restarts are compared, and not its units"
        if not shifted:
            entries |= _sums_of_both(measurement, before, name, len(then), len(new))
    if not shifted:
        items["seed"] = np.arange(count)
    settings = {**measurement.signature["settings"], "restarts": count}
    return replace(
        measurement,
        values=means,
        items=items,
        sums=SumsByStatistic(entries),
        signature={**measurement.signature, "settings": settings},
    )


def _restart_values(before: StoredItems, values: Mapping[str, float | None], name: str) -> FloatArray | None:
    known, value = restarts_of(before.items, name), values.get(name)
    return known if known is not None else None if value is None else np.array([value])


def _sums_of_both(measurement: Measurement, before: StoredItems, name: str, then: int, now: int) -> dict[str, Entry]:
    """Return the sums of each restart of both sides under their names; nothing where one has none."""
    found: dict[str, Entry] = {}
    for source, count, first in ((before, then, 0), (measurement, now, then)):
        for k in range(count):
            try:
                sums = source.item_sums(name_in_restart(k, name) if count > 1 or (first == 0 and then > 1) else name)
            except UndefinedError:
                return {}
            found[name_in_restart(first + k, name)] = sums
    return found


def _mean_of(then: ItemSums, now: ItemSums, weight: int) -> ItemSums:
    """Return the mean of sums of the same units.

    Raises:
        UndefinedError: they are of other units.
    """
    if then.sums.shape != now.sums.shape or then.labels.tolist() != now.labels.tolist():
        raise UndefinedError("the units then and now are others")
    sums = (weight * then.sums.astype(np.float64) + now.sums) / (weight + 1)
    return replace(now, sums=sums.astype(now.sums.dtype) if now.sums.dtype.kind == "f" else sums)


def accepted_on(date: str, stored: BaselineEntry | None, new: BaselineEntry, reason: str | None) -> BaselineEntry:
    """Return a new entry with its date, and with the anchor that the stored one leaves to it.

    An update with a reason moves the anchor to the new values, and so does another definition, by which old values mean
    something else. A better value does not move it: of equal models, some are better by chance.

    Args:
        date: when the new values are accepted, in ISO format.
        stored: the entry in whose place the new one is; ``None`` if there is none.
        new: the entry that is accepted.
        reason: why it is accepted, if somebody says so.
    """
    if stored is None or stored.definition != new.definition:
        return replace(new, date=date, anchor=None)
    if stored.anchor is None and stored.signature == new.signature and same_values(stored.values, new.values):
        return replace(new, date=stored.date or date, anchor=None)  # only its items are written anew
    return replace(new, date=date, anchor=None if reason else stored.origin)


def same_values(first: Mapping[str, float | None], second: Mapping[str, float | None]) -> bool:
    """Return whether two mappings have the same statistics, with the same values up to noise."""
    return first.keys() == second.keys() and all(alike(first[name], second[name]) for name in first)


def alike(first: float | None, second: float | None) -> bool:
    """Return whether two numbers are equal up to noise, or both missing."""
    if first is None or second is None:
        return first is second
    return abs(first - second) <= FLOAT_NOISE


def worse_than(
    entry: BaselineEntry, measurement: Measurement, statistic: str, margin: float, at_anchor: float | None = None
) -> float | None:
    """Return the value of an entry, or else of its anchor, that a value is worse than by more than the margin; ``None``
    if it is not.

    Other samples and settings do not matter, so that another sample avoids neither. ``at_anchor`` is the margin from
    the anchor, where it is another one: a share is of another value.
    """
    stored = entry.values.get(statistic)
    if is_worse(measurement, statistic, stored, margin):
        return stored
    anchor = entry.anchor
    if anchor is None or anchor.definition != measurement.signature["definition"]:
        return None
    first = anchor.values.get(statistic)
    return first if is_worse(measurement, statistic, first, margin if at_anchor is None else at_anchor) else None


def beside_anchor(judgement: Judgement, anchor: BaselineEntry, worsening: float | None, how: str) -> Judgement:
    """Return a judgement with how far the value has come from the anchor.

    Args:
        judgement: of the comparison with the stored entry.
        anchor: the anchor of the entry.
        worsening: how much worse the statistic is than at the anchor, in its units; ``None`` without a value.
        how: what else is known of that, after a comma or semicolon.
    """
    since = SinceAnchor(anchor.date, anchor.values.get(judgement.statistic), worsening)
    text = f"{change_in_words(worsening)} since {anchor_in_words(anchor.date)} ({format_number(since.value)}){how}"
    facts = replace(judgement.of_baseline, anchor=since)
    return replace(judgement, details=(Paragraph("anchor", text), *judgement.details), facts=facts)


def held_to_anchor(judgement: Judgement, anchored: Judgement, anchor: BaselineEntry) -> Judgement:
    """Return the judgement that counts: of the comparison with the entry, or of that with its anchor, if that one
    fails.

    Args:
        judgement: of the comparison with the stored entry.
        anchored: of the comparison with the anchor, by the same rule.
        anchor: the anchor of the entry.
    """
    bounds = anchored.interval
    how = "" if bounds is None else f", 95 % bounds {bounds.low:.4g} and {bounds.high:.4g}"
    beside = beside_anchor(judgement, anchor, anchored.difference, how)
    if judgement.code not in _REPLACES.get(anchored.code, ()):
        return beside
    first, *others = anchored.shown
    against = Paragraph("baseline", f"{with_note(judgement.code)}: {judgement.headline}")
    return replace(
        anchored, shown=(first, against, *others), details=(*anchored.details, *judgement.details), accepted=judgement.accepted,
        facts=beside.facts,
    )  # fmt: skip


def fails_by_anchor(judgement: Judgement) -> bool:
    """Return whether a judgement of :func:`held_to_anchor` is that of the comparison with the anchor."""
    return judgement.bound.startswith(f"{ANCHOR} ")
