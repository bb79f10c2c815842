"""How far values have come from the anchor of their baseline entry, which small steps that each pass do not move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pytest_genderbias.gates.account import Paragraph
from pytest_genderbias.gates.agreement import FLOAT_NOISE, MUST_AGREE, is_worse
from pytest_genderbias.gates.anchor import Anchor
from pytest_genderbias.gates.book import BaselineEntry
from pytest_genderbias.gates.facts import SinceAnchor, anchor_in_words, change_in_words
from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.gates.regression import ANCHOR
from pytest_genderbias.gates.verdicts import BETTER, REGRESSED, TOO_FEW, WITHIN, with_note
from pytest_genderbias.gates.wording import format_number
from pytest_genderbias.measurement.measurement import Measurement

#: Which verdict of a comparison with the anchor takes the place of which one of the comparison with the entry.
_REPLACES = {REGRESSED: {WITHIN, BETTER, TOO_FEW}, TOO_FEW: {WITHIN, BETTER}}


def anchor_of(entry: BaselineEntry) -> Anchor:
    """Return the anchor of an entry; the entry itself is its anchor until its values change."""
    if entry.anchor is not None:
        return entry.anchor
    fingerprint = entry.model.get("fingerprint")
    return Anchor(
        entry.values, entry.signature, entry.items_sha256, entry.date, fingerprint if isinstance(fingerprint, str) else None
    )  # fmt: skip


def entry_at_anchor(entry: BaselineEntry) -> BaselineEntry | None:
    """Return an entry as it was at its anchor; ``None`` if its values are still those of the anchor."""
    anchor = entry.anchor
    if anchor is None or not entry.has_left_anchor:
        return None
    signature = BaselineEntry.from_dict({key: anchor.signature[key] for key in MUST_AGREE if key in anchor.signature})
    return replace(
        entry, digest=signature.digest, definition=signature.definition, settings=signature.settings, data=signature.data,
        sample=signature.sample, values=anchor.values, items_sha256=anchor.items_sha256, date=anchor.date,
        model={"fingerprint": anchor.fingerprint}, anchor=None,
    )  # fmt: skip


def accepted_on(date: str, stored: BaselineEntry | None, new: BaselineEntry, reason: str | None) -> BaselineEntry:
    """Return a new entry with its date, and with the anchor that the stored one leaves to it.

    An update with a reason moves the anchor to the new values, and so does another definition, by which old values mean something else.
    A better value does not move it: of equal models, some are better by chance.

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
    return replace(new, date=date, anchor=None if reason else anchor_of(stored))


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
    """Return the value of an entry, or else of its anchor, that a value is worse than by more than the margin; ``None`` if it is not.

    Other samples and settings do not matter, so that another sample avoids neither. ``at_anchor`` is the margin from the anchor, where
    it is another one: a share is of another value.
    """
    stored = entry.values.get(statistic)
    if is_worse(measurement, statistic, stored, margin):
        return stored
    anchor = entry.anchor
    if anchor is None or anchor.signature.get("definition") != measurement.signature["definition"]:
        return None
    first = anchor.values.get(statistic)
    return first if is_worse(measurement, statistic, first, margin if at_anchor is None else at_anchor) else None


def beside_anchor(judgement: Judgement, anchor: Anchor, worsening: float | None, how: str) -> Judgement:
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


def held_to_anchor(judgement: Judgement, anchored: Judgement, anchor: Anchor) -> Judgement:
    """Return the judgement that counts: of the comparison with the entry, or of that with its anchor, if that one fails.

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
