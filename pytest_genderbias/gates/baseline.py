"""Baselines: the figures of a model name that were accepted last, and the comparison of a measurement with them."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import BaselineError, DataFileError, GateError, InconsistentEntryError
from pytest_genderbias.gates.agreement import MUST_AGREE, different, other_conditions
from pytest_genderbias.gates.book import (
    BaselineEntry,
    NewEntry,
    entry_of,
    items_path,
    read_book,
    read_items,
    read_reference,
)
from pytest_genderbias.gates.book_places import Place, book_path, forget, listed, read_place
from pytest_genderbias.gates.book_update import Kept, accepted_on, kept_of, state_of, with_stored_restarts
from pytest_genderbias.gates.item_file import MOST_ITEM_BYTES, pack_measured
from pytest_genderbias.gates.judgement import AcceptedValue, BaselineFacts, Judgement, Seen, SinceAnchor, make_judgement
from pytest_genderbias.gates.limits import check_breakable
from pytest_genderbias.gates.policy import Allowed, Margin, read_margin
from pytest_genderbias.gates.regression import ANCHOR, Reference, find_regression, is_rounding
from pytest_genderbias.gates.sensitivity import MOST, retraining_of, seen_by, what_would_help, why_too_weak
from pytest_genderbias.gates.verdicts import (
    BETTER,
    FLOAT_NOISE,
    LESS_ABLE,
    NO_BASELINE,
    NO_REASON,
    NO_VALUE,
    NOT_ABLE,
    NOT_COMPARABLE,
    REGRESSED,
    STORED,
    TOO_FEW,
    TOO_WEAK,
    UNCHANGED,
    WITHIN,
    Paragraph,
    anchor_in_words,
    change_in_words,
    correction_for,
    passes,
    with_note,
)
from pytest_genderbias.measurement.ability import why_less_able
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.plain_data import read_npz
from pytest_genderbias.models.predictions import same_ids
from pytest_genderbias.text.printable import apart, close_names, format_number

#: Which verdict of a comparison with the anchor takes the place of which one of the comparison with the entry.
_REPLACES = {REGRESSED: {WITHIN, BETTER, TOO_FEW}, TOO_FEW: {WITHIN, BETTER}}


@dataclass
class Baseline:
    """The baselines of one model name and one test module.

    Judging writes no file. What was measured collects in the fields below ``command``, and
    :func:`~pytest_genderbias.gates.book_update.update_books` writes it.

    Attributes:
        directory: the folder of all baselines.
        model: name of the model.
        module: the test file, relative to the root directory.
        update: ``"no"`` judges; ``"new"`` accepts a measurement that has no entry yet; ``"all"`` accepts every
            measurement, a worse one only with a ``reason``.
        reason: why worse values are accepted.
        correct_for: the comparisons that bounds hold for together: the gated statistics of the ``"model"`` or of the
            ``"module"``, ``"none"``, or their number.
        command: the command that accepts a worse value, without the reason.
        gates: gates of the run on baselines of the model, whether or not they are stored yet.
        sees: the growth of bias that a gate without a margin has to see, as a share; ``None`` for
            :data:`~pytest_genderbias.gates.sensitivity.MOST`.
        measured: the measurement of each entry.
        used: names of the entries that were judged.
        refused: names of the entries that must not be written: a value is worse and has no reason, or is not finite.
        against: what was stored of each entry when it was judged, as
            :func:`~pytest_genderbias.gates.book_update.state_of` has it.
        accepted: worse values that were accepted, by entry.
        moved: names of the entries of which a judged statistic changed by more than chance explains.
        judged: the strictest margin of each statistic, in its units, by entry; ``None`` without a margin.
    """

    directory: Place
    model: str
    module: str
    update: str = "no"
    reason: str | None = None
    correct_for: str | int = "model"
    command: str | None = None
    gates: int = 1
    sees: float | None = None
    moved: set[str] = field(default_factory=set)
    measured: dict[str, Measurement] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    against: dict[str, str] = field(default_factory=dict)
    accepted: dict[str, list[AcceptedValue]] = field(default_factory=dict)
    judged: dict[str, dict[str, float | None]] = field(default_factory=dict)

    @property
    def path(self) -> Place:
        """The JSON file."""
        return book_path(self.directory, self.model, self.module)

    def stored(self, name: str) -> BaselineEntry | None:
        """Return a stored entry; ``None`` if there is none of this name."""
        return read_book(self.path).get(name)

    def entries(self) -> dict[str, NewEntry]:
        """Return what was measured and judged as entries, without those that were refused."""
        return {
            name: self._new_entry(name, measurement)
            for name, measurement in self.measured.items()
            if name in self.against and name not in self.refused
        }

    def _new_entry(self, name: str, measurement: Measurement) -> NewEntry:
        stored = self.stored(name)
        kept = self._kept(measurement, name, stored)
        sees = {
            statistic: seen
            for statistic, margin in self.judged.get(name, {}).items()
            if (seen := self._sees(kept.measurement, statistic, None if margin is None else Allowed(margin)))
            is not None
            and math.isfinite(seen.size)
        }
        new = entry_of(kept.measurement, self.accepted.get(name, ()), self.judged.get(name), sees)
        entry = replace(new.entry, checkpoints=kept.checkpoints)
        entry = accepted_on(_today(), stored, entry, self.reason)
        return replace(new, entry=entry, kept=kept.in_words, pooled=kept.pooled)

    def _kept(self, measurement: Measurement, name: str, stored: BaselineEntry | None) -> Kept:
        """Return what an update stores of a measurement."""
        judged = self.judged.get(name, ())
        if stored is None or any(different(measurement, statistic, stored.signature) for statistic in judged):
            return Kept(measurement)
        try:
            before = read_items(self.path, name, stored)
        except BaselineError:  # it is written anew
            return Kept(measurement)
        if before is None:
            return Kept(measurement)
        weights = measurement.signature["model"].get("fingerprint")
        again = weights is not None and weights == stored.model.get("fingerprint")
        is_chance = not self.reason and name not in self.moved
        return kept_of(measurement, before, stored.values, stored.checkpoints, again, is_chance)

    def judge(
        self,
        measurement: Measurement,
        margin: float | str | Margin | None = None,
        statistic: str | None = None,
        name: str | None = None,
    ) -> Judgement:
        """Compare a statistic with the stored one, item by item. What was judged before does not change the judgement.

        Args:
            measurement: the measurement of today.
            margin: how much worse is accepted: a number in units of the statistic, or a share of the stored distance
                from neutral (``"20%"``). Without one, nothing is but what chance explains.
            statistic: the main one by default.
            name: name of the entry; the suite's name by default.

        Raises:
            BaselineError: a file of the baseline cannot be read.
            GateError: the margin is wrong, no gate takes the statistic, scoring stopped early, or another measurement
                claims the entry.
        """
        written = read_margin(margin)
        statistic = measurement.statistic(statistic)
        about = measurement.statistics[statistic]
        about.check_gateable(statistic)
        if written.amount is not None:
            check_breakable(Allowed(written.amount), statistic, about)
        if measurement.stopped:
            raise GateError(
                f"{measurement.suite} was scored only until other gates were decided; a baseline needs a measurement"
                " without until="
            )
        entry_name = name or measurement.suite
        self._claim(entry_name, measurement)
        return replace(self._find(measurement, written, statistic, entry_name), name=name or "")

    def amounts(
        self, measurement: Measurement, margins: Mapping[str, Iterable[Margin]], name: str
    ) -> dict[str, float | None]:
        """Return the strictest margin of each statistic as a number, for the value that is stored after this run;
        ``None`` without one.

        Args:
            measurement: the measurement of today.
            margins: all margins of each gated statistic.
            name: name of the entry.

        Raises:
            BaselineError: the file of the baseline cannot be read.
        """
        entry = self.stored(name)
        values = measurement.values if entry is None or self.update == "all" else entry.values
        return {
            statistic: strictest(_amount(measurement, statistic, margin, values.get(statistic)) for margin in several)
            for statistic, several in margins.items()
        }

    def overlooked(self, name: str, gates: Mapping[str, float | None] | None = None) -> dict[str, AcceptedValue]:
        """Return what an update would accept unseen: worse values of gated statistics of an entry that were not judged.

        Args:
            name: name of an entry that was measured.
            gates: the margins of all gates on the entry; those that are stored by default.
        """
        measurement = self.measured[name]
        try:
            entry = self.stored(name)
        except BaselineError:  # whoever judges or writes meets the same error
            return {}
        if entry is None or entry.definition != measurement.signature["definition"]:
            return {}
        others = entry.gated if gates is None else gates
        before = {
            statistic: self._worse_than(measurement, statistic, name, entry, Margin(amount))
            for statistic, amount in others.items()
            if statistic not in self.judged[name]
        }
        return {
            statistic: AcceptedValue(statistic, _today(), old, measurement.values[statistic], self.reason)
            for statistic, old in before.items()
            if old is not None
        }

    def _find(self, measurement: Measurement, margin: Margin, statistic: str, name: str) -> Judgement:
        """Judge by the stored entry. If another run replaces it in the meantime, and with it the items, judge by the
        new one.
        """
        entry = self.stored(name)
        while True:
            try:
                judgement = self._find_by(entry, measurement, margin, statistic, name)
            except BaselineError:
                forget()
                before, entry = entry, self.stored(name)
                if entry == before:
                    raise
            else:
                self.against.setdefault(name, state_of(entry))
                values = measurement.values if entry is None or self.update == "all" else entry.values
                amount = _amount(measurement, statistic, margin, values.get(statistic))
                judged = self.judged.setdefault(name, {})
                judged[statistic] = strictest((amount, judged.get(statistic, amount)))
                return judgement

    def _find_by(
        self, entry: BaselineEntry | None, measurement: Measurement, margin: Margin, statistic: str, name: str
    ) -> Judgement:
        judged = partial(make_judgement, measurement, statistic)
        if measurement.unable:  # which no update accepts
            self.refused.add(name)
            return judged(NOT_ABLE, "baseline", f"{statistic} has no value: {measurement.unable}")
        known = {figure: value for figure, value in measurement.values.items() if value is not None}
        if self.update != "no" and (
            no_number := [figure for figure, value in known.items() if not math.isfinite(value)]
        ):
            self.refused.add(name)
            text = f"{no_number[0]} is {known[no_number[0]]}, and a baseline has finite values"
            return judged(NO_VALUE, "baseline", text)
        if entry is None and self.update == "no":
            if others := self._other_names(name):
                what = (
                    f"{measurement.model} has no baseline of {name!r}, but {others[0]} has: is it the next release"
                    " of it?"
                )
                command = _for_model(self._updating(measurement), measurement, others[0])
                advice = (
                    "judge it by that name (or accept what is measured now as a baseline of its own:"
                    " --bias-update-new):"
                )
                return judged(NO_BASELINE, "no baseline", what, advice=advice, command=command)
            lacking, advice = (
                f"no baseline entry {name!r} in {self.path}",
                "accept what is measured now as the baseline:",
            )
            command = f"{self._updating(measurement)}-new"
            return judged(NO_BASELINE, "no baseline", lacking, advice=advice, command=command)
        if entry is None or self.update == "all":
            return self._accept(measurement, statistic, name, entry, margin)
        return self._compare(measurement, statistic, name, entry, margin)

    def _other_names(self, name: str) -> list[str]:
        """Return the models that have the baseline entry in their file of the same module, those of a like name
        first.
        """
        books = listed(self.directory, f"*/{self.path.name}")
        others = [book.parent.name for book in books if book != self.path and name in read_book(book)]
        close = close_names(self.model, others)
        return [*close, *(other for other in others if other not in close)]

    def _compare(
        self, measurement: Measurement, statistic: str, name: str, entry: BaselineEntry, margin: Margin
    ) -> Judgement:
        retraining = retraining_of(measurement, statistic)
        if less := why_less_able(measurement.abilities, entry.abilities, retraining.abilities, retraining.freedom):
            return self._less_able(measurement, statistic, less)
        if reasons := different(measurement, statistic, entry.signature):
            return self._not_comparable(measurement, statistic, name, entry, reasons)
        old = entry.values.get(statistic)
        allowed = _allowed(measurement, statistic, margin, old)
        changed = other_conditions(measurement, entry.model)
        if allowed is not None:
            check_breakable(allowed, statistic, measurement.statistics[statistic], old)
        accepted = _in_force(entry.accepted, measurement)
        counted = self._counted_books()
        items, gated = read_reference(self.path, name, entry, counted)
        books = self.module if self.correct_for == "module" else self.model
        correction = correction_for(self.correct_for, gated, f"comparisons on {books}")
        then = measurement
        if items is not None and entry.settings.get("restarts"):
            then = with_stored_restarts(measurement, items, entry.values)
        reference = Reference(
            "baseline",
            old,
            items,
            changed,
            correction,
            self._updating(measurement),
            entry.model.get("fingerprint"),
            self._lost_items(name, entry, measurement),
            entry.date,
            retraining=retraining,
            seen=_stored_sees(entry, statistic, allowed)
            or seen_by(then, statistic, correction.tests, allowed, retraining),
            checkpoints=entry.checkpoints,
        )
        judgement = find_regression(measurement, statistic, reference, allowed)
        amount = None if allowed is None else allowed.amount
        facts = replace(judgement.of_baseline, accepted_on=entry.date, baseline=old, margin=amount, sees=reference.seen)
        judgement = replace(judgement, accepted=accepted, facts=facts)
        if entry.anchor is not None and entry.has_left_anchor:
            judgement = self._hold_to_anchor(judgement, measurement, statistic, name, entry.anchor, margin, reference)
        if judgement.code == WITHIN and (why := self._why_too_weak(then, statistic, margin, reference.seen)):
            return judgement.restated(TOO_WEAK, why, self._how_to_see_more(then, statistic))
        return judgement

    def _updating(self, measurement: Measurement) -> str:
        """Return the command that accepts a value, without the reason."""
        spec = measurement.signature["model"].get("spec") or measurement.model
        return self.command or f"pytest --bias-model={measurement.model}={spec} --bias-update"

    def _hold_to_anchor(
        self,
        judgement: Judgement,
        measurement: Measurement,
        statistic: str,
        name: str,
        anchor: BaselineEntry,
        margin: Margin,
        before: Reference,
    ) -> Judgement:
        """Also compare with the anchor of an entry, which fails the gate where small steps add up to more than the
        margin.
        """
        old = anchor.values.get(statistic)
        worse = measurement.worsening(statistic, old)
        if reasons := different(measurement, statistic, anchor.signature):
            why = f"; not compared item by item, since it is of something else ({'; '.join(reasons)})"
            return beside_anchor(judgement, anchor, worse, why)
        if judgement.code == UNCHANGED or is_rounding(measurement, before, judgement.difference):
            return beside_anchor(judgement, anchor, worse, "; this is what was accepted last")
        if worse is None:
            return beside_anchor(judgement, anchor, worse, "; only finite values are compared")
        try:
            items = read_items(self.path, name, anchor)
        except BaselineError as error:
            raise BaselineError(
                f"the items of {anchor_in_words(anchor.date)} of {name!r}: {error}; or move the anchor with"
                ' --bias-update --bias-reason="why"'
            ) from None
        reference = replace(
            before,
            name=ANCHOR,
            value=old,
            items=items,
            fingerprint=anchor.model.get("fingerprint"),
            lost="",
            date=anchor.date,
        )
        anchored = find_regression(measurement, statistic, reference, _allowed(measurement, statistic, margin, old))
        return held_to_anchor(judgement, anchored, anchor)

    def _lost_items(self, name: str, entry: BaselineEntry, measurement: Measurement) -> str:
        """Return why an entry has no items although they can be stored; an empty text if it has them, or they are too
        large.
        """
        if entry.items_sha256 is not None or (packed := pack_measured(measurement)) is None:
            return ""
        return (
            f"{name!r} in {self.path} has no items (items_sha256 is null), although those of this measurement take"
            f" {len(packed):,} bytes only and would be stored"
        )

    def _not_comparable(
        self, measurement: Measurement, statistic: str, name: str, entry: BaselineEntry, reasons: list[str]
    ) -> Judgement:
        if any(reason.startswith("data: ") for reason in reasons):
            stored_items = items_path(self.path, name, entry.items_sha256 or "")
            reasons = [*reasons, *_other_examples(stored_items, measurement)]
        what = f"the baseline in {self.path} is of something else ({'; '.join(reasons)})"
        advice = "measure as for the baseline, or if the change is meant, accept what is measured now:"
        facts = None
        if entry.definition != (now := measurement.signature["definition"]):  # another version of this package
            facts = BaselineFacts(definition=f"{entry.definition} -> {now}")
        return make_judgement(
            measurement,
            statistic,
            NOT_COMPARABLE,
            "baseline",
            what,
            advice=advice,
            command=self._updating(measurement),
            facts=facts,
        )

    def _less_able(self, measurement: Measurement, statistic: str, less: str, code: str = LESS_ABLE) -> Judgement:
        what = f"{measurement.model} is worse at its task than the baseline, so that its bias says nothing: {less}"
        advice = "fix the model, or say why it is accepted:"
        command = f'{self._updating(measurement)} --bias-reason="why"'
        return make_judgement(measurement, statistic, code, "baseline", what, advice=advice, command=command)

    def _counted_books(self) -> list[Place]:
        """Return the files whose gated statistics are the comparisons: those that are stored, whichever of them run."""
        return [self.path] if self.correct_for == "module" else listed(self.directory / self.model, "*.json")

    def _claim(self, name: str, measurement: Measurement) -> None:
        """Refuse two different measurements under one entry."""
        other = self.measured.get(name)
        if other is not None and any(other.signature[key] != measurement.signature[key] for key in MUST_AGREE):
            raise GateError(
                f"two measurements of {self.module} claim the baseline entry {name!r}; give one of them another name="
            )
        self.used.add(name)
        self.measured.setdefault(name, measurement)

    def _accept(
        self, measurement: Measurement, statistic: str, name: str, entry: BaselineEntry | None, margin: Margin
    ) -> Judgement:
        """Accept a value. One that is worse than allowed needs a reason, which the entry has as long as the value is
        worse.

        A value whose definition is the stored one is compared even where the samples differ: another sample does not
        avoid the gate.
        """
        alike = entry is not None and entry.definition == measurement.signature["definition"]
        if entry is not None and alike and not self.reason:
            self._check_items(name, entry)
        if entry is not None and alike and not different(measurement, statistic, entry.signature):
            self._note_change(measurement, statistic, name, entry, margin)
        known, stored = retraining_of(measurement, statistic), () if entry is None else entry.abilities
        less = why_less_able(measurement.abilities, stored, known.abilities, known.freedom)
        if less and not self.reason:
            self.refused.add(name)
            return self._less_able(measurement, statistic, less, NO_REASON)
        kept = self._kept(measurement, name, entry)
        seen = self._sees(kept.measurement, statistic) if margin == Margin() else None
        if why := self._why_too_weak(kept.measurement, statistic, margin, seen):
            self.refused.add(name)
            advice = self._how_to_see_more(kept.measurement, statistic)
            return make_judgement(measurement, statistic, TOO_WEAK, "baseline", why, advice=advice)
        new = measurement.values[statistic]
        old = None if entry is None else entry.values.get(statistic)
        accepted = _in_force(entry.accepted, measurement) if entry is not None and alike else ()
        notes = self.accepted.setdefault(name, list(accepted))  # of all statistics of the entry
        why = ""
        before = None
        if entry is not None and alike:
            before = self._worse_than(measurement, statistic, name, entry, margin)
        if entry is not None and before is not None:
            if not self.reason:
                self.refused.add(name)
                return self._refuse(measurement, statistic, name, entry, margin, before)
            note = AcceptedValue(statistic, _today(), before, new, self.reason)
            accepted = (*accepted, note)
            if note not in notes:
                notes.append(note)
            why = f" because: {self.reason}"
        if less:
            why = f", worse at its task ({less}), because: {self.reason}"
        also = f"; {kept.in_words}" if kept.in_words else ""
        text = f"{statistic} {format_number(old)} -> {format_number(new)} accepted{why}{also}"
        bound = "new" if entry is None else f"was {format_number(old)}"
        return replace(make_judgement(measurement, statistic, STORED, bound, text), accepted=accepted)

    def _note_change(
        self, measurement: Measurement, statistic: str, name: str, entry: BaselineEntry, margin: Margin
    ) -> None:
        """Note whether a statistic changed by more than chance explains, or its gate would not pass beside the stored
        value.
        """
        try:
            codes = {self._compare(measurement, statistic, name, entry, kept).code for kept in {Margin(), margin}}
        except BaselineError:  # of its items, which an update writes anew
            return
        if not codes <= {WITHIN, UNCHANGED, TOO_WEAK}:
            self.moved.add(name)

    def why_too_weak(self, measurement: Measurement, statistic: str) -> str:
        """Return why a measurement would be too weak a baseline of a gate without a margin; an empty text if it is
        not.
        """
        return why_too_weak(measurement, statistic, self._sees(measurement, statistic), self._most())

    def _sees(self, measurement: Measurement, statistic: str, allowed: Allowed | None = None) -> Seen | None:
        """Return what a gate sees whose baseline is a measurement; ``None`` where it has no bounds."""
        return seen_by(measurement, statistic, self._tests(), allowed)

    def _tests(self) -> int:
        """Return the number of gates that bounds hold for together once those of the run are stored."""
        books = (read_book(path) for path in self._counted_books())
        stored = sum(max(1, len(other.gated)) for book in books for other in book.values())
        return correction_for(self.correct_for, max(stored, self.gates), "gates").tests

    def _most(self) -> float:
        return MOST if self.sees is None else self.sees

    def _why_too_weak(self, measurement: Measurement, statistic: str, margin: Margin, seen: Seen | None) -> str:
        """Return why a gate sees too little to judge by a baseline; an empty text if it sees enough, or has a
        margin.
        """
        return "" if margin != Margin() else why_too_weak(measurement, statistic, seen, self._most())

    def _how_to_see_more(self, measurement: Measurement, statistic: str) -> str:
        helps = what_would_help(measurement, statistic, self._most(), self._tests())
        advice = f"it would see {', '.join(helps)}" if helps else "gate another suite"
        return f"{advice}; or set a margin of your own (margin: 20%), or another bias_sees"

    def _worse_than(
        self, measurement: Measurement, statistic: str, name: str, entry: BaselineEntry, margin: Margin
    ) -> float | None:
        """Return the value of an entry, or else of its anchor, that a value is worse than by more than is allowed;
        ``None`` if it is not.

        Without a margin, it is the value that chance does not explain the worsening from. Where the items cannot tell,
        as of another sample, any worsening counts.
        """
        first = entry.origin.values.get(statistic)
        old = entry.values.get(statistic)
        amounts = [_amount(measurement, statistic, margin, value) or 0.0 for value in (old, first)]
        before = worse_than(entry, measurement, statistic, *amounts)
        if before is None or margin != Margin() or different(measurement, statistic, entry.signature):
            return before
        try:
            judgement = self._compare(measurement, statistic, name, entry, margin)
        except BaselineError:  # of its items, which an update writes anew
            return before
        if passes(judgement.code) or judgement.code == TOO_WEAK:
            return None
        return first if judgement.bound.startswith(f"{ANCHOR} ") else before  # the anchor fails it

    def _check_items(self, name: str, entry: BaselineEntry) -> None:
        """Refuse to compare with values that their own items contradict. Missing or damaged items are written anew.

        Raises:
            InconsistentEntryError: the items of the entry give other values.
        """
        try:
            read_items(self.path, name, entry)
        except InconsistentEntryError:
            self.refused.add(name)
            raise
        except BaselineError:
            pass

    def _refuse(
        self, measurement: Measurement, statistic: str, name: str, entry: BaselineEntry, margin: Margin, before: float
    ) -> Judgement:
        """Return the judgement on a value that is worse than ``before``, and has no reason."""
        reasons = "; ".join(different(measurement, statistic, entry.signature))
        new, anchor = measurement.values[statistic], entry.origin
        since = "" if before == entry.values.get(statistic) else f" than {anchor_in_words(anchor.date)}"
        worse = measurement.worsening(statistic, before)
        headline = (
            f"{statistic} {' -> '.join(_in_figures(before, new))}: {worse:.3g} worse{since}, and no reason is given"
        )
        headline += f" (it is of something else, too: {reasons})" if reasons else ""
        advice = "fix the model, or say why it is accepted:"
        command = f'{self._updating(measurement)} --bias-reason="why"'
        try:
            judgement = self._compare(measurement, statistic, name, entry, margin)
        except BaselineError:  # of its items, which an update writes anew
            return make_judgement(
                measurement, statistic, NO_REASON, "baseline", headline, advice=advice, command=command
            )
        return judgement.restated(NO_REASON, headline, advice, command)


def _for_model(update: str, measurement: Measurement, other: str) -> str:
    """Return the command that judges a model by the baselines of another name, from the one that stores its own."""
    name = re.escape(measurement.model)
    command = re.sub(rf"(--bias-model[= ]){name}=", rf"\g<1>{other}=", update.removesuffix(" --bias-update"))
    if command == update.removesuffix(" --bias-update"):  # the name was made from the SPEC
        return f"pytest --bias-model={other}={measurement.signature['model'].get('spec') or measurement.model}"
    return re.sub(rf":{name}(?=\s|$)", f":{other}", command)


def _in_figures(before: float, new: float | None) -> list[str]:
    return [format_number(before), format_number(None)] if new is None else apart(before, new)


def _allowed(measurement: Measurement, statistic: str, margin: Margin, value: float | None) -> Allowed | None:
    """Return a margin as a number, for a comparison with ``value``; ``None`` without one."""
    return margin.resolve(None if value is None else measurement.statistics[statistic].distance(value))


def _amount(measurement: Measurement, statistic: str, margin: Margin, value: float | None) -> float | None:
    allowed = _allowed(measurement, statistic, margin, value)
    return None if allowed is None else allowed.amount


def strictest(amounts: Iterable[float | None]) -> float | None:
    """Return the smallest of some margins; of those without a number, which allow only chance, ``None``.

    >>> strictest([0.2, 0.1]), strictest([0.2, None])
    (0.1, None)
    """
    known = list(amounts)
    numbers = [amount for amount in known if amount is not None]
    return min(numbers) if len(numbers) == len(known) else None


def _stored_sees(entry: BaselineEntry, statistic: str, allowed: Allowed | None) -> Seen | None:
    """Return what the gate on a statistic sees, as its entry has it; ``None`` where none was stored for this margin."""
    margin = entry.gated.get(statistic)
    same = (
        margin is None if allowed is None else margin is not None and math.isclose(margin, allowed.amount, rel_tol=1e-6)
    )
    return entry.sees.get(statistic) if same else None


def _today() -> str:
    return datetime.date.today().isoformat()


def _in_force(accepted: Iterable[AcceptedValue], measurement: Measurement) -> tuple[AcceptedValue, ...]:
    """Return the accepted values that are still in force: the statistic is still worse than it was before."""
    return tuple(note for note in accepted if is_worse(measurement, note.statistic, note.old))


def _other_examples(stored_items: Place, measurement: Measurement) -> list[str]:
    """Return in words which examples are missing or new, if both measurements have the ids of theirs."""
    if "id" not in measurement.items:
        return []
    try:
        known = _names(read_npz(read_place(stored_items, MOST_ITEM_BYTES), "item file")["id"])
    except (OSError, DataFileError, KeyError):  # this only explains a failure that stands anyway
        return []
    try:
        same_ids(known, _names(measurement.items["id"]))
    except DataFileError as error:
        return [str(error)]
    return ["the same ids with other labels, groups or shares"]


def _names(ids: NDArray[np.generic]) -> list[str]:
    """Return ids as texts. Item files may have them as UTF-8, which takes a quarter of the space."""
    return [name.decode() if isinstance(name, bytes) else str(name) for name in ids.tolist()]


def is_worse(measurement: Measurement, statistic: str, before: float | None, margin: float = 0.0) -> bool:
    """Return whether a value is worse than before by more than the margin and numerical noise."""
    worse = measurement.worsening(statistic, before)
    return worse is not None and worse > margin + FLOAT_NOISE


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
    shown, details = (first, against, *others), (*anchored.details, *judgement.details)
    return replace(anchored, shown=shown, details=details, accepted=judgement.accepted, facts=beside.facts)
