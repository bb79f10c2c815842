"""Baselines: the figures of a model name that were accepted last, and the comparison of a measurement with them."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

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
from pytest_genderbias.gates.judgement import (
    AcceptedValue,
    BaselineFacts,
    Judgement,
    Seen,
    SinceAnchor,
    make_judgement,
    refusals_apart,
    refusals_changed,
)
from pytest_genderbias.gates.limits import check_breakable
from pytest_genderbias.gates.policy import WITHOUT, Margin, read_margin
from pytest_genderbias.gates.regression import ANCHOR, Reference, find_regression, is_rounding
from pytest_genderbias.gates.sensitivity import MOST, Retraining, retraining_of, seen_by, what_would_help, why_too_weak
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
    correction_for,
    describe_anchor,
    describe_change,
    passes,
    with_note,
)
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.plain_data import read_npz
from pytest_genderbias.models.predictions import same_ids
from pytest_genderbias.statistics.right_answers import LEAST_LEAD, describe_lead, kept_lead, why_less_able
from pytest_genderbias.text.printable import apart, close_names, format_number

#: Which verdict of a comparison with the anchor takes the place of which one of the comparison with the entry.
_REPLACES = {REGRESSED: {WITHIN, BETTER, TOO_FEW}, TOO_FEW: {WITHIN, BETTER}}

_NOTHING = BaselineEntry()  #: in the place of an entry where none is stored


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
        models: names of the models of the run.
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
    models: Collection[str] = ()
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
        stored, judged = self.stored(name) or _NOTHING, self.judged.get(name, {})
        kept = self._kept(measurement, name, stored)
        seen = {
            statistic: self._sees(kept.measurement, statistic, Margin(margin)) for statistic, margin in judged.items()
        }
        sees = {statistic: one for statistic, one in seen.items() if one is not None and math.isfinite(one.size)}
        new = entry_of(kept.measurement, self.accepted.get(name, ()), judged, sees)
        entry = replace(new.entry, checkpoints=kept.checkpoints)
        entry = accepted_on(_today(), stored, entry, self.reason)
        return replace(new, entry=entry, kept=kept.in_words, pooled=kept.pooled)

    def _kept(self, measurement: Measurement, name: str, stored: BaselineEntry) -> Kept:
        """Return what an update stores of a measurement."""
        if any(different(measurement, statistic, stored.signature) for statistic in self.judged.get(name, ())):
            return Kept(measurement)
        try:
            before = read_items(self.path, name, stored)
        except BaselineError:  # it is written anew
            before = None
        if before is None:
            return Kept(measurement)
        weights = measurement.signature["model"].get("fingerprint")
        again = weights is not None and weights == stored.model.get("fingerprint")
        is_chance = not self.reason and name not in self.moved
        return kept_of(measurement, before, stored.checkpoints, again, is_chance)

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
        check_breakable(written, statistic, about)
        if measurement.stopped:
            raise GateError(
                f"{measurement.suite} was scored only until other gates were decided; a baseline needs a measurement"
                " without until="
            )
        gate = _EntryGate(self, measurement, statistic, name or measurement.suite, written)
        self._claim(gate.name, measurement)
        return replace(self._find(gate), name=name or "")

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
        entry = self.stored(name) or _NOTHING
        return {
            statistic: strictest(
                _EntryGate(self, measurement, statistic, name, margin, entry).amount for margin in several
            )
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
            entry = self.stored(name) or _NOTHING
        except BaselineError:  # whoever judges or writes meets the same error
            return {}
        others = [
            _EntryGate(self, measurement, statistic, name, Margin(amount), entry)
            for statistic, amount in (entry.gated if gates is None else gates).items()
            if statistic not in self.judged[name]
        ]
        return {
            gate.statistic: gate.note(old, gate.statistic) for gate in others if (old := gate.worse_than()) is not None
        }

    def _find(self, gate: _EntryGate) -> Judgement:
        """Judge by the stored entry. If another run replaces it in the meantime, and with it the items, judge by the
        new one.
        """
        entry = self.stored(gate.name)
        while True:
            gate = replace(gate, entry=entry or _NOTHING)
            try:
                judgement = gate.judge()
            except BaselineError:
                forget()
                before, entry = entry, self.stored(gate.name)
                if entry == before:
                    raise
            else:
                self.against.setdefault(gate.name, state_of(entry))
                judged = self.judged.setdefault(gate.name, {})
                judged[gate.statistic] = strictest((gate.amount, judged.get(gate.statistic, gate.amount)))
                return judgement

    def _updating(self, measurement: Measurement) -> str:
        """Return the command that accepts a value, without the reason."""
        spec = measurement.signature["model"].get("spec") or measurement.model
        return self.command or f"pytest --bias-model={measurement.model}={spec} --bias-update"

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

    def why_too_weak(self, measurement: Measurement, statistic: str) -> str:
        """Return why a measurement would be too weak a baseline of a gate without a margin; an empty text if it is
        not.
        """
        return why_too_weak(measurement, statistic, self._sees(measurement, statistic), self._most)

    def _sees(self, measurement: Measurement, statistic: str, allowed: Margin = WITHOUT) -> Seen | None:
        """Return what a gate sees whose baseline is a measurement; ``None`` where it has no bounds."""
        return seen_by(measurement, statistic, self._tests(), allowed)

    def _tests(self) -> int:
        """Return the number of gates that bounds hold for together once those of the run are stored."""
        books = (read_book(path) for path in self._counted_books())
        stored = sum(max(1, len(other.gated)) for book in books for other in book.values())
        return correction_for(self.correct_for, max(stored, self.gates), "gates").tests

    @property
    def _most(self) -> float:
        return MOST if self.sees is None else self.sees

    def _other_names(self, name: str) -> list[str]:
        """Return the models beside those of the run that have the baseline entry in their file of the same module,
        those of a like name first.
        """
        books = [book for book in listed(self.directory, f"*/{self.path.name}") if book.parent.name not in self.models]
        others = [book.parent.name for book in books if book != self.path and name in read_book(book)]
        close = close_names(self.model, others)
        return [*close, *(other for other in others if other not in close)]


@dataclass(frozen=True, eq=False)
class _EntryGate:
    """A statistic of a measurement, and the entry that it is judged by.

    Attributes:
        baseline: the baselines of the model and the test module.
        measurement: the measurement of today.
        statistic: name of the statistic.
        name: name of the entry.
        margin: how much worse is accepted.
        entry: what is stored; ``_NOTHING`` if there is no entry of this name.
    """

    baseline: Baseline
    measurement: Measurement
    statistic: str
    name: str
    margin: Margin
    entry: BaselineEntry = _NOTHING

    @property
    def value(self) -> float | None:
        """The value of today."""
        return self.measurement.values[self.statistic]

    @property
    def old(self) -> float | None:
        """The stored value."""
        return self.entry.values.get(self.statistic)

    @property
    def is_alike(self) -> bool:
        """Whether the stored value has the definition of today."""
        return bool(self.entry.definition == self.measurement.signature["definition"])

    @property
    def differences(self) -> list[str]:
        """What keeps both from being compared, in words."""
        return different(self.measurement, self.statistic, self.entry.signature)

    def allowed(self, value: float | None) -> Margin:
        """Return the margin with its amount, for a comparison with ``value``."""
        return self.margin.resolve(
            None if value is None else self.measurement.statistics[self.statistic].distance(value)
        )

    @property
    def amount(self) -> float | None:
        """The margin as a number, for the value that is stored after this run; ``None`` without one."""
        stays = self.entry is not _NOTHING and self.baseline.update != "all"
        return self.allowed(self.old if stays else self.value).amount

    @property
    def _accepted_values(self) -> list[Mapping[str, float | None]]:
        """The values of the entry, and of the anchor that it has left."""
        return [entry.values for entry in (self.entry, self.entry.anchor) if entry is not None]

    def note(self, old: float | None, statistic: str) -> AcceptedValue:
        """Return the value of a statistic today as one that is worse than ``old`` and accepted."""
        return AcceptedValue(statistic, _today(), old, self.measurement.values[statistic], self.baseline.reason)

    def _judged(self, code: str, text: str, advice: str = "", command: str = "", bound: str = "baseline") -> Judgement:
        return make_judgement(self.measurement, self.statistic, code, bound, text, (), advice, command)

    def _refused(self, judgement: Judgement) -> Judgement:
        """Return a judgement whose entry must not be written."""
        self.baseline.refused.add(self.name)
        return judgement

    def judge(self) -> Judgement:
        """Compare the value of today with the stored one, or accept it, as the baseline says.

        Raises:
            BaselineError: a file of the baseline cannot be read.
        """
        values, update = self.measurement.values, self.baseline.update
        if unable := self.measurement.unable:  # which no update accepts
            return self._refused(self._judged(NOT_ABLE, f"{self.statistic} has no value: {unable}"))
        no_number = [name for name, value in values.items() if value is not None and not math.isfinite(value)]
        if update != "no" and no_number:
            text = f"{no_number[0]} is {values[no_number[0]]}, and a baseline has finite values"
            return self._refused(self._judged(NO_VALUE, text))
        if self.entry is _NOTHING and update == "no":
            return self._without_entry()
        return self._accept() if self.entry is _NOTHING or update == "all" else self.compared

    def _without_entry(self) -> Judgement:
        model, update = self.measurement.model, self.baseline._updating(self.measurement)
        if others := self.baseline._other_names(self.name):
            text = f"{model} has no baseline of {self.name!r}, but {others[0]} has: is it the next release of it?"
            advice = (
                "judge it by that name (or accept what is measured now as a baseline of its own: --bias-update-new):"
            )
            command = _for_model(update, self.measurement, others[0])
        else:
            text = f"no baseline entry {self.name!r} in {self.baseline.path}"
            advice, command = "accept what is measured now as the baseline:", f"{update}-new"
        return self._judged(NO_BASELINE, text, advice, command, "no baseline")

    @cached_property
    def compared(self) -> Judgement:
        """The comparison with the entry, and with its anchor where its values have left that.

        Raises:
            BaselineError: a file of the baseline cannot be read.
        """
        baseline, measurement, statistic, entry = self.baseline, self.measurement, self.statistic, self.entry
        retraining = retraining_of(measurement, statistic)
        if less := self._why_less_able(retraining):
            return self._less_able(less)
        if differences := self.differences:
            return self._not_comparable(differences)
        allowed, changed = self.allowed(self.old), other_conditions(measurement, entry.model)
        check_breakable(allowed, statistic, measurement.statistics[statistic], self.old)
        items, gated = read_reference(baseline.path, self.name, entry, baseline._counted_books())
        books = baseline.module if baseline.correct_for == "module" else baseline.model
        correction = correction_for(baseline.correct_for, gated, f"comparisons on {books}")
        then = measurement
        if items is not None and entry.settings.get("restarts"):
            then = with_stored_restarts(measurement, items)
        reference = Reference(
            "baseline",
            self.old,
            items,
            changed,
            correction,
            baseline._updating(measurement),
            entry.model.get("fingerprint"),
            self._lost_items(),
            entry.date,
            retraining=retraining,
            seen=self._stored_sees(allowed.amount) or seen_by(then, statistic, correction.tests, allowed, retraining),
            checkpoints=entry.checkpoints,
        )
        judgement = find_regression(measurement, statistic, reference, allowed)
        known = {"accepted_on": entry.date, "baseline": self.old, "margin": allowed.amount, "sees": reference.seen}
        facts = replace(judgement.of_baseline, **known)  # type: ignore[arg-type]
        judgement = replace(judgement, accepted=_in_force(entry.accepted, measurement), facts=facts)
        if entry.anchor is not None and entry.has_left_anchor:
            judgement = self._held_to_anchor(judgement, entry.anchor, reference)
        if judgement.code == BETTER and (less := self._why_less_sure):
            return self._after_refusals(judgement.restated(WITHIN, f"{judgement.headline}; {less}"))
        allows_chance = judgement.code == WITHIN and self.margin == WITHOUT
        if allows_chance and (why := why_too_weak(then, statistic, reference.seen, baseline._most)):
            return judgement.restated(TOO_WEAK, why, self._how_to_see_more(then))
        return self._after_refusals(judgement)

    def _stored_sees(self, amount: float | None) -> Seen | None:
        """Return what the gate sees, as the entry has it; ``None`` where none was stored for this margin."""
        margin = self.entry.gated.get(self.statistic)
        same = margin is amount if margin is None or amount is None else math.isclose(margin, amount, rel_tol=1e-6)
        return self.entry.sees.get(self.statistic) if same else None

    def _held_to_anchor(self, judgement: Judgement, anchor: BaselineEntry, before: Reference) -> Judgement:
        """Return the judgement that counts: of the comparison with the entry, or of that with its anchor by the same
        rule, if that one fails, as where small steps add up to more than the margin.
        """
        measurement, statistic, old = self.measurement, self.statistic, anchor.values.get(self.statistic)
        worse, said = measurement.worsening(statistic, old), describe_anchor(anchor.date)

        def beside(worsening: float | None, how: str) -> Judgement:
            """Return the judgement with how far the value has come from the anchor."""
            text = f"{describe_change(worsening)} since {said} ({format_number(old)}){how}"
            facts = replace(judgement.of_baseline, anchor=SinceAnchor(anchor.date, old, worsening))
            return replace(judgement, details=(Paragraph("anchor", text), *judgement.details), facts=facts)

        if reasons := different(measurement, statistic, anchor.signature):
            return beside(worse, f"; not compared item by item, since it is of something else ({'; '.join(reasons)})")
        if judgement.code == UNCHANGED or is_rounding(measurement, before, judgement.difference):
            return beside(worse, "; this is what was accepted last")
        if worse is None:
            return beside(worse, "; only finite values are compared")
        try:
            items = read_items(self.baseline.path, self.name, anchor)
        except BaselineError as error:
            raise BaselineError(
                f"the items of {said} of {self.name!r}: {error}; or move the anchor with"
                ' --bias-update --bias-reason="why"'
            ) from None
        known = {"value": old, "items": items, "fingerprint": anchor.model.get("fingerprint"), "date": anchor.date}
        reference = replace(before, name=ANCHOR, lost="", **known)  # type: ignore[arg-type]
        anchored = find_regression(measurement, statistic, reference, self.allowed(old))
        bounds = anchored.interval
        how = "" if bounds is None else f", 95 % bounds {bounds.low:.4g} and {bounds.high:.4g}"
        found = beside(anchored.difference, how)
        if judgement.code not in _REPLACES.get(anchored.code, ()):
            return found
        first, *others = anchored.shown
        against = Paragraph("baseline", f"{with_note(judgement.code)}: {judgement.headline}")
        shown, details = (first, against, *others), (*anchored.details, *judgement.details)
        return replace(anchored, shown=shown, details=details, accepted=judgement.accepted, facts=found.facts)

    def _lost_items(self) -> str:
        """Return why the entry has no items although they can be stored; an empty text if it has them, or they are too
        large.
        """
        if self.entry.items_sha256 is not None or (packed := pack_measured(self.measurement)) is None:
            return ""
        return (
            f"{self.name!r} in {self.baseline.path} has no items (items_sha256 is null), although those of this"
            f" measurement take {len(packed):,} bytes only and would be stored"
        )

    def _not_comparable(self, reasons: list[str]) -> Judgement:
        baseline, entry = self.baseline, self.entry
        if any(reason.startswith("data: ") for reason in reasons):
            stored_items = items_path(baseline.path, self.name, entry.items_sha256 or "")
            reasons = [*reasons, *_other_examples(stored_items, self.measurement)]
        what = f"the baseline in {baseline.path} is of something else ({'; '.join(reasons)})"
        advice = "measure as for the baseline, or if the change is meant, accept what is measured now:"
        judgement = self._judged(NOT_COMPARABLE, what, advice, baseline._updating(self.measurement))
        if self.is_alike:
            return judgement
        now = self.measurement.signature["definition"]  # of another version of this package
        return replace(judgement, facts=BaselineFacts(definition=f"{entry.definition} -> {now}"))

    def _why_less_able(self, known: Retraining) -> str:
        return why_less_able(self.measurement.abilities, self.entry.abilities, known.abilities, known.freedom)

    @property
    def _why_less_sure(self) -> str:
        """Why a bias in proportion to scores, as in nats, may have fallen with the lead of the model only: logits half
        as large halve it, and keep every right answer. Empty where it fell further, or the lead did not fall.
        """
        about = self.measurement.statistics[self.statistic]
        if self.old is None or self.value is None or math.isfinite(about.range[1]):
            return ""
        kept, what = kept_lead(self.measurement.abilities, self.entry.abilities)
        is_explained = about.distance(self.value) > kept * about.distance(self.old)
        return describe_lead(kept, what) if kept < 1 - LEAST_LEAD and is_explained else ""

    def _less_able(self, less: str, code: str = LESS_ABLE) -> Judgement:
        model, update = self.measurement.model, self.baseline._updating(self.measurement)
        what = f"{model} is worse at its task than the baseline, so that its bias says nothing: {less}"
        return self._judged(code, what, "fix the model, or say why it is accepted:", f'{update} --bias-reason="why"')

    def _accept(self) -> Judgement:
        """Accept a value. One that is worse than allowed needs a reason, which the entry has as long as the value is
        worse.

        A value whose definition is the stored one is compared even where the samples differ: another sample does not
        avoid the gate.
        """
        baseline, statistic, reason = self.baseline, self.statistic, self.baseline.reason
        if self.is_alike and not reason:
            self._check_items()
        if self.is_alike and not self.differences:
            self._note_change()
        less = self._why_less_able(retraining_of(self.measurement, statistic))
        if less and not reason:
            return self._refused(self._less_able(less, NO_REASON))
        kept = baseline._kept(self.measurement, self.name, self.entry)
        new = kept.measurement.values[statistic]
        check_breakable(self.allowed(new), statistic, kept.measurement.statistics[statistic], new)
        if self.margin == WITHOUT and (weak := baseline.why_too_weak(kept.measurement, statistic)):
            return self._refused(self._judged(TOO_WEAK, weak, self._how_to_see_more(kept.measurement)))
        accepted = _in_force(self.entry.accepted, self.measurement) if self.is_alike else ()
        notes = baseline.accepted.setdefault(self.name, list(accepted))  # of all statistics of the entry
        before, apart = self.worse_than(), self._refusals_apart()
        if before is not None and not reason:
            return self._refused(self._without_reason(before))
        if apart and not reason:
            return self._refused(self._refusals_without_reason(apart))
        worse = {apart: self.entry.values.get(apart)} if apart else {}
        for name, old in (worse if before is None else {**worse, statistic: before}).items():
            note = self.note(old, name)
            accepted = (*accepted, note)
            if note not in notes:
                notes.append(note)
        why = "" if before is None and not apart else f" because: {reason}"
        if less:
            why = f", worse at its task ({less}), because: {reason}"
        also = f"; {kept.in_words}" if kept.in_words else ""
        text = f"{statistic} {format_number(self.old)} -> {format_number(self.value)} accepted{why}{also}"
        bound = "new" if self.entry is _NOTHING else f"was {format_number(self.old)}"
        return replace(self._judged(STORED, text, bound=bound), accepted=accepted)

    def _note_change(self) -> None:
        """Note whether a statistic or the refusals changed by more than chance explains, or its gate would not pass
        beside the stored value.
        """
        try:
            codes = {self.compared.code}
            if self.margin != WITHOUT:
                codes.add(replace(self, margin=WITHOUT).compared.code)
        except BaselineError:  # of its items, which an update writes anew
            return
        values = self.entry.values, self.measurement.values
        if not codes <= {WITHIN, UNCHANGED, TOO_WEAK} or refusals_changed(*values) or self._why_less_sure:
            self.baseline.moved.add(self.name)

    def _how_to_see_more(self, measurement: Measurement) -> str:
        helps = what_would_help(measurement, self.statistic, self.baseline._most, self.baseline._tests())
        advice = f"it would see {', '.join(helps)}" if helps else "gate another suite"
        return f"{advice}; or set a margin of your own (margin: 20%), or another bias_sees"

    def worse_than(self) -> float | None:
        """Return the value of the entry, or else of its anchor, that the value is worse than by more than is allowed;
        ``None`` if it is not, or has another definition.

        Without a margin, it is the value that chance does not explain the worsening from. Where the items cannot tell,
        as of another sample, any worsening counts.
        """
        if not self.is_alike:
            return None
        anchor = self.entry.origin
        known = [self.old, anchor.values.get(self.statistic) if anchor.definition == self.entry.definition else None]
        measurement, statistic = self.measurement, self.statistic
        worse = (old for old in known if is_worse(measurement, statistic, old, self.allowed(old).tolerance))
        before = next(worse, None)
        if before is None or self.margin != WITHOUT or self.differences:
            return before
        try:
            judgement = self.compared
        except BaselineError:  # of its items, which an update writes anew
            return before
        if passes(judgement.code) or judgement.code == TOO_WEAK:
            return None
        return known[1] if judgement.bound.startswith(f"{ANCHOR} ") else before  # the anchor fails it

    def _refusals_apart(self) -> str:
        """Return the statistic by which refusals differ by group more than was accepted; empty if they do not, or
        nothing was accepted.
        """
        return refusals_apart(self.measurement, *self._accepted_values) if self.is_alike else ""

    def _after_refusals(self, judgement: Judgement) -> Judgement:
        """Return the judgement, or that on refusals that differ by group more than was accepted."""
        found = judgement.after_refusals(self.measurement, *self._accepted_values)
        return judgement if found is judgement else found.restated(found.code, found.headline, *self._accept_refusals)

    def _refusals_without_reason(self, apart: str) -> Judgement:
        """Return the judgement on refusals that differ by group more than was accepted, and have no reason."""
        then, now = (format_number(values.get(apart)) for values in (self.entry.values, self.measurement.values))
        headline = f"refusals differ by group: {apart} {then} -> {now}, and no reason is given"
        return self._judged(NO_REASON, headline, *self._accept_refusals)

    @property
    def _accept_refusals(self) -> tuple[str, str]:
        """What to do about refusals, and what to type."""
        command = f'{self.baseline._updating(self.measurement)} --bias-reason="why"'
        return "fix the refusals, or say why they are accepted:", command

    def _check_items(self) -> None:
        """Refuse to compare with values that their own items contradict. Missing or damaged items are written anew.

        Raises:
            InconsistentEntryError: the items of the entry give other values.
        """
        try:
            read_items(self.baseline.path, self.name, self.entry)
        except InconsistentEntryError:
            self.baseline.refused.add(self.name)
            raise
        except BaselineError:
            pass

    def _without_reason(self, before: float) -> Judgement:
        """Return the judgement on a value that is worse than ``before``, and has no reason."""
        since = "" if before == self.old else f" than {describe_anchor(self.entry.origin.date)}"
        figures = [format_number(before), format_number(None)] if self.value is None else apart(before, self.value)
        worse = self.measurement.worsening(self.statistic, before)
        headline = f"{self.statistic} {' -> '.join(figures)}: {worse:.3g} worse{since}, and no reason is given"
        headline += f" (it is of something else, too: {'; '.join(self.differences)})" if self.differences else ""
        advice = "fix the model, or say why it is accepted:"
        command = f'{self.baseline._updating(self.measurement)} --bias-reason="why"'
        try:
            return self.compared.restated(NO_REASON, headline, advice, command)
        except BaselineError:  # of its items, which an update writes anew
            return self._judged(NO_REASON, headline, advice, command)


def _for_model(update: str, measurement: Measurement, other: str) -> str:
    """Return the command that judges a model by the baselines of another name, from the one that stores its own."""
    name = re.escape(measurement.model)
    command = re.sub(rf"(--bias-model[= ]){name}=", rf"\g<1>{other}=", update.removesuffix(" --bias-update"))
    if command == update.removesuffix(" --bias-update"):  # the name was made from the SPEC
        return f"pytest --bias-model={other}={measurement.signature['model'].get('spec') or measurement.model}"
    return re.sub(rf":{name}(?=\s|$)", f":{other}", command)


def strictest(amounts: Iterable[float | None]) -> float | None:
    """Return the smallest of some margins; of those without a number, which allow only chance, ``None``.

    >>> strictest([0.2, 0.1]), strictest([0.2, None])
    (0.1, None)
    """
    known = list(amounts)
    numbers = [amount for amount in known if amount is not None]
    return min(numbers) if len(numbers) == len(known) else None


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
