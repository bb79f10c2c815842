"""Baselines: the figures of a model name that were accepted last, and the comparison of a measurement with them."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import BaselineError, DataFileError, GateError, InconsistentEntryError
from pytest_genderbias.gates.account import Account, apart
from pytest_genderbias.gates.agreement import (
    MUST_AGREE,
    different,
    distance_from_neutral,
    is_worse,
    other_conditions,
    worsening,
)
from pytest_genderbias.gates.book import (
    BaselineEntry,
    NewEntry,
    book_path,
    entry_of,
    items_path,
    read_book,
    read_items,
    read_reference,
)
from pytest_genderbias.gates.book_update import state_of
from pytest_genderbias.gates.drift import (
    accepted_on,
    anchor_of,
    beside_anchor,
    entry_at_anchor,
    held_to_anchor,
    in_words,
    worse_than,
)
from pytest_genderbias.gates.item_file import load_items, pack_measured
from pytest_genderbias.gates.judgement import AcceptedValue, Finding, Judgement, make_judgement
from pytest_genderbias.gates.plan import (
    SECOND_CHECKPOINT,
    Planning,
    missing_margin,
    plan_gate,
    planned_finding,
    with_power,
)
from pytest_genderbias.gates.policy import correction_for
from pytest_genderbias.gates.ranges import check_breakable
from pytest_genderbias.gates.regression import Reference, find_regression, is_rounding
from pytest_genderbias.gates.tolerance import AUTO, Margin, PlannedMargin, Tolerance, read_tolerance
from pytest_genderbias.gates.verdicts import LESS_ABLE, MISSING, NO_VALUE, NOT_COMPARABLE, REFUSED, UNCHANGED, UPDATED
from pytest_genderbias.gates.wording import format_number
from pytest_genderbias.measurement.ability import why_less_able
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.models.predictions import same_ids


@dataclass
class Baseline:
    """The baselines of one model name and one test module.

    Judging writes no file. What was measured collects in the fields below ``command``, and
    :func:`~pytest_genderbias.gates.book_update.write_entries` writes it.

    Attributes:
        directory: the folder of all baselines.
        model: name of the model.
        module: the test file, relative to the root directory.
        update: ``"no"`` judges; ``"new"`` accepts a measurement that has no entry yet; ``"all"`` accepts every measurement, a worse
            one only with a ``reason``.
        reason: why worse values are accepted.
        correct_for: the comparisons that ``regressed`` is corrected for: the gated statistics of the ``"model"`` or of the
            ``"module"``, ``"none"``, or their number.
        command: the command that accepts a worse value, without the reason.
        measured: the measurement of each entry.
        used: names of the entries that were judged.
        refused: names of the entries that must not be written: a value is worse and has no reason, or is not finite.
        against: what was stored of each entry when it was judged, as :func:`~pytest_genderbias.gates.book_update.state_of` has it.
        accepted: worse values that were accepted, by entry.
        judged: the strictest tolerance of each statistic, in its units, by entry.
        planning: how gates are planned instead of judged (``--bias-plan``); ``None`` if they are judged.
    """

    directory: Path
    model: str
    module: str
    update: str = "no"
    reason: str | None = None
    correct_for: str | int = "model"
    command: str | None = None
    measured: dict[str, Measurement] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    against: dict[str, str] = field(default_factory=dict)
    accepted: dict[str, list[AcceptedValue]] = field(default_factory=dict)
    judged: dict[str, dict[str, float]] = field(default_factory=dict)
    planning: Planning | None = None

    @property
    def path(self) -> Path:
        """The JSON file."""
        return book_path(self.directory, self.model, self.module)

    def stored(self, name: str) -> BaselineEntry | None:
        """Return a stored entry; ``None`` if there is none of this name."""
        return read_book(self.path).get(name)

    def entries(self) -> dict[str, NewEntry]:
        """Return what was measured and judged as entries, without those that were refused. What was planned stays."""
        return {
            name: self._new_entry(name, measurement)
            for name, measurement in self.measured.items()
            if name in self.against and name not in self.refused
        }

    def _new_entry(self, name: str, measurement: Measurement) -> NewEntry:
        new = entry_of(measurement, self.accepted.get(name, ()), self.judged.get(name))
        stored = self.stored(name)
        planned = {} if stored is None else planned_of(stored, measurement)
        entry = accepted_on(_today(), stored, replace(new.entry, planned=planned), self.reason)
        return replace(new, entry=entry)

    def judge(
        self,
        measurement: Measurement,
        tolerance: float | str | Tolerance | None = None,
        statistic: str | None = None,
        name: str | None = None,
    ) -> Judgement:
        """Compare a statistic with the stored one, item by item. What was judged before does not change the judgement.

        Args:
            measurement: the measurement of today.
            tolerance: how much worse is accepted: a number in units of the statistic, a share of the stored distance from neutral
                (``"20%"``), or what ``--bias-plan`` stored in the entry (``"auto"``). It has no default.
            statistic: the main one by default.
            name: name of the entry; the suite's name by default.

        Raises:
            BaselineError: a file of the baseline cannot be read.
            GateError: the tolerance is missing or wrong, no gate takes the statistic, scoring stopped early, or another measurement claims
                the entry.
        """
        if self.planning is not None and tolerance is None:
            tolerance = AUTO
        written = read_tolerance(tolerance)
        statistic = measurement.statistic(statistic)
        if self.planning is not None and self.planning.is_second:
            return make_judgement(measurement, statistic, SECOND_CHECKPOINT, name)
        about = measurement.statistics[statistic]
        about.check_gateable(statistic)
        if written.amount is not None:
            check_breakable(Margin(written.amount), statistic, about)
        if measurement.stopped:
            raise GateError(
                f"{measurement.suite} was scored only until other gates were decided; a baseline needs a measurement without until="
            )
        entry_name = name or measurement.suite
        self._claim(entry_name, measurement)
        finding = self._find(measurement, written, statistic, entry_name)
        if self.planning is not None:
            finding = self._plan(self.planning, finding, measurement, written, statistic, entry_name)
        return make_judgement(measurement, statistic, finding, name)

    def _plan(
        self,
        planning: Planning,
        finding: Finding,
        measurement: Measurement,
        written: Tolerance,
        statistic: str,
        name: str,
    ) -> Finding:
        """Plan a gate by what is stored, or will be. A measurement that cannot be compared, has no value or is refused is not planned."""
        if finding.verdict in (NOT_COMPARABLE, NO_VALUE, LESS_ABLE, REFUSED):
            return finding
        entry = self.stored(name)
        stored = None if entry is None or self.update == "all" else read_items(self.path, name, entry)
        values = measurement.values if stored is None or entry is None else entry.values
        margin = None if written.is_auto else _margin(entry, measurement, statistic, written, values.get(statistic))
        books = (read_book(path) for path in self._counted_books())
        gated = sum(max(1, len(other.gated)) for book in books for other in book.values())
        tests = correction_for(self.correct_for, max(gated, planning.tests), "gates").tests
        plan = plan_gate(
            measurement, statistic, stored or measurement, planning.second(measurement), tests,
            None if margin is None else margin.amount,
        )  # fmt: skip
        plan = replace(plan, module=self.module, entry=name, seconds=planning.seconds(measurement))
        return planned_finding(finding, plan, measurement, statistic)

    def amounts(
        self, measurement: Measurement, tolerances: Mapping[str, Iterable[Tolerance]], name: str
    ) -> dict[str, float]:
        """Return the strictest tolerance of each statistic as a number, for the value that is stored after this run.

        A planned tolerance is 0 where nothing is planned: nothing worse is accepted unseen.

        Args:
            measurement: the measurement of today.
            tolerances: all tolerances of each gated statistic.
            name: name of the entry.

        Raises:
            BaselineError: the file of the baseline cannot be read.
        """
        entry = self.stored(name)
        return {
            statistic: min(self._lasting_amount(entry, measurement, statistic, tolerance) for tolerance in several)
            for statistic, several in tolerances.items()
        }

    def _lasting_amount(
        self, entry: BaselineEntry | None, measurement: Measurement, statistic: str, tolerance: Tolerance
    ) -> float:
        values = measurement.values if entry is None or self.update == "all" else entry.values
        return _amount(_margin(entry, measurement, statistic, tolerance, values.get(statistic)))

    def overlooked(self, name: str, gates: Mapping[str, float] | None = None) -> dict[str, AcceptedValue]:
        """Return what an update would accept unseen: worse values of gated statistics of an entry that were not judged.

        Args:
            name: name of an entry that was measured.
            gates: the tolerances of all gates on the entry; those that are stored by default.
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
            statistic: worse_than(entry, measurement, statistic, tolerance)
            for statistic, tolerance in others.items()
            if statistic not in self.judged[name]
        }
        return {
            statistic: AcceptedValue(statistic, _today(), old, measurement.values[statistic], self.reason)
            for statistic, old in before.items()
            if old is not None
        }

    def _find(self, measurement: Measurement, tolerance: Tolerance, statistic: str, name: str) -> Finding:
        """Judge by the stored entry. If another run replaces it in the meantime, and with it the items, judge by the new one."""
        entry = self.stored(name)
        while True:
            try:
                finding = self._find_by(entry, measurement, tolerance, statistic, name)
            except BaselineError:
                before, entry = entry, self.stored(name)
                if entry == before:
                    raise
            else:
                self.against.setdefault(name, state_of(entry))
                amount = self._lasting_amount(entry, measurement, statistic, tolerance)
                judged = self.judged.setdefault(name, {})
                judged[statistic] = min(amount, judged.get(statistic, amount))
                return finding

    def _find_by(
        self, entry: BaselineEntry | None, measurement: Measurement, tolerance: Tolerance, statistic: str, name: str
    ) -> Finding:
        if measurement.unable:  # which no update accepts
            self.refused.add(name)
            return Finding(NO_VALUE, "baseline", f"{statistic} has no value: {measurement.unable}")
        known = {figure: value for figure, value in measurement.values.items() if value is not None}
        if self.update != "no" and (
            no_number := [figure for figure, value in known.items() if not math.isfinite(value)]
        ):
            self.refused.add(name)
            text = f"{no_number[0]} is {known[no_number[0]]}, and a baseline has finite values"
            return Finding(NO_VALUE, "baseline", text)
        if entry is None and self.update == "no":
            lacking = f"no baseline entry {name!r} in {self.path}"
            account = Account(
                lacking,
                advice="accept what is measured now as the baseline:",
                command=f"{self._updating(measurement)}-new",
            )
            text = f"{lacking}; run with --bias-update-new to accept what is measured now"
            return Finding(MISSING, "no baseline", text, account=account)
        if entry is None or self.update == "all":
            return self._accept(measurement, statistic, name, entry, tolerance)
        return self._compare(measurement, statistic, name, entry, tolerance)

    def _compare(
        self, measurement: Measurement, statistic: str, name: str, entry: BaselineEntry, tolerance: Tolerance
    ) -> Finding:
        if less := why_less_able(measurement.abilities, entry.abilities):
            return self._less_able(measurement, less)
        if reasons := different(measurement, statistic, entry.signature):
            return self._not_comparable(measurement, name, entry, reasons)
        old = entry.values.get(statistic)
        margin = _margin(entry, measurement, statistic, tolerance, old)
        if margin is None:
            where = f" of {name!r} in {self.path}"
            return missing_margin(
                statistic, where, f"nothing is planned for {statistic}{where}", entry.planned.get(statistic)
            )
        worse = worsening(measurement, statistic, old)
        changed = other_conditions(measurement, entry.model)
        check_breakable(margin, statistic, measurement.statistics[statistic], old)
        accepted = _in_force(entry.accepted, measurement)
        items, gated = read_reference(self.path, name, entry, self._counted_books())
        correction = correction_for(self.correct_for, gated, f"comparisons with the baselines of {self._books()}")
        reference = Reference(
            "baseline", old, worse, items, changed, correction,
            self._updating(measurement), entry.model.get("fingerprint"),
            self._lost_items(name, entry, measurement), entry.date,
        )  # fmt: skip
        finding = find_regression(measurement, statistic, reference, margin.amount, margin.written)
        facts = {"accepted_on": entry.date, "baseline": old, "tolerance": margin.amount}
        finding = replace(finding, accepted=accepted, facts={**finding.facts, **facts})
        at_anchor = entry_at_anchor(entry)
        if at_anchor is not None:
            finding = self._hold_to_anchor(finding, measurement, statistic, name, at_anchor, tolerance, reference)
        return with_power(finding, margin.amount, entry.planned.get(statistic))

    def _updating(self, measurement: Measurement) -> str:
        """Return the command that accepts a value, without the reason."""
        spec = measurement.signature["model"].get("spec") or measurement.model
        return self.command or f"pytest --bias-model={measurement.model}={spec} --bias-update"

    def _hold_to_anchor(
        self, finding: Finding, measurement: Measurement, statistic: str, name: str, at_anchor: BaselineEntry,
        tolerance: Tolerance, before: Reference,
    ) -> Finding:  # fmt: skip
        """Compare with the anchor of an entry, too: it fails the gate where many small steps add up to more than the tolerance."""
        anchor, old = anchor_of(at_anchor), at_anchor.values.get(statistic)
        worse = worsening(measurement, statistic, old)
        if reasons := different(measurement, statistic, at_anchor.signature):
            why = f"not compared item by item, since it is of something else ({'; '.join(reasons)})"
            return beside_anchor(finding, anchor, statistic, worse, why)
        if finding.verdict == UNCHANGED or is_rounding(measurement, before, finding.difference):
            return beside_anchor(finding, anchor, statistic, worse, "this is what was accepted last")
        if worse is None:
            return beside_anchor(finding, anchor, statistic, worse, "only finite values are compared")
        margin = _margin(at_anchor, measurement, statistic, tolerance, old) or Margin(0.0)
        try:
            items = read_items(self.path, name, at_anchor)
        except BaselineError as error:
            raise BaselineError(
                f"the items of {in_words(anchor)} of {name!r}: {error}; or move the anchor with --bias-update "
                '--bias-reason="why"'
            ) from None
        reference = replace(
            before, name="anchor", value=old, worsening=worse, items=items, fingerprint=anchor.fingerprint, lost=""
        )
        anchored = find_regression(measurement, statistic, reference, margin.amount, margin.written)
        return held_to_anchor(finding, anchored, anchor, statistic)

    def _lost_items(self, name: str, entry: BaselineEntry, measurement: Measurement) -> str:
        """Return why an entry has no items although they can be stored; an empty text if it has them, or they are too large."""
        if entry.items_sha256 is not None or (packed := pack_measured(measurement)) is None:
            return ""
        return (
            f"{name!r} in {self.path} has no items (items_sha256 is null), although those of this measurement take {len(packed):,} bytes "
            "only and would be stored"
        )

    def _not_comparable(self, measurement: Measurement, name: str, entry: BaselineEntry, reasons: list[str]) -> Finding:
        if any(reason.startswith("data: ") for reason in reasons):
            stored_items = items_path(self.path, name, entry.items_sha256 or "")
            reasons = [*reasons, *_other_examples(stored_items, measurement)]
        what = f"the baseline in {self.path} is of something else ({'; '.join(reasons)})"
        advice = "measure as for the baseline, or if the change is meant, accept what is measured now:"
        text = f"{what}; run with --bias-update to accept what is measured now"
        account = Account(what, advice=advice, command=self._updating(measurement))
        return Finding(NOT_COMPARABLE, "baseline", text, account=account)

    def _less_able(self, measurement: Measurement, less: str) -> Finding:
        what = f"{measurement.model} is worse at its task than the baseline: {less}"
        command = f'{self._updating(measurement)} --bias-reason="why"'
        account = Account(what, advice="fix the model, or say why it is accepted:", command=command)
        return Finding(
            LESS_ABLE, "baseline", f"{what}; its bias says nothing; to accept it: {command}", account=account
        )

    def _counted_books(self) -> list[Path]:
        """Return the files whose gated statistics are the comparisons: those that are stored, whichever of them run."""
        return [self.path] if self.correct_for == "module" else sorted((self.directory / self.model).glob("*.json"))

    def _books(self) -> str:
        return self.module if self.correct_for == "module" else self.model

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
        self, measurement: Measurement, statistic: str, name: str, entry: BaselineEntry | None, tolerance: Tolerance
    ) -> Finding:
        """Accept a value. One that is worse than allowed needs a reason, which the entry has as long as the value is worse.

        A value whose definition is the stored one is compared even where the samples differ: another sample does not avoid the gate.
        """
        alike = entry is not None and entry.definition == measurement.signature["definition"]
        if entry is not None and alike and not self.reason:
            self._check_items(name, entry)
        less = "" if entry is None else why_less_able(measurement.abilities, entry.abilities)
        if less and not self.reason:
            self.refused.add(name)
            return replace(self._less_able(measurement, less), verdict=REFUSED)
        new = measurement.values[statistic]
        old = None if entry is None else entry.values.get(statistic)
        accepted = _in_force(entry.accepted, measurement) if entry is not None and alike else ()
        notes = self.accepted.setdefault(name, list(accepted))  # of all statistics of the entry
        why = ""
        before = None
        if entry is not None and alike:
            first = anchor_of(entry).values.get(statistic)
            amounts = (_amount(_margin(entry, measurement, statistic, tolerance, value)) for value in (old, first))
            before = worse_than(entry, measurement, statistic, *amounts)
        if entry is not None and before is not None:
            if not self.reason:
                self.refused.add(name)
                return self._refuse(measurement, statistic, name, entry, tolerance, before)
            note = AcceptedValue(statistic, _today(), before, new, self.reason)
            accepted = (*accepted, note)
            if note not in notes:
                notes.append(note)
            why = f" because: {self.reason}"
        if less:
            why = f", worse at its task ({less}), because: {self.reason}"
        text = f"{statistic} {format_number(old)} -> {format_number(new)} accepted{why}{_lost_restarts(entry, measurement)}"
        bound = "new" if entry is None else f"was {format_number(old)}"
        return Finding(UPDATED, bound, text, accepted=accepted)

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
        self,
        measurement: Measurement,
        statistic: str,
        name: str,
        entry: BaselineEntry,
        tolerance: Tolerance,
        before: float,
    ) -> Finding:
        """Return the finding on a value that is worse than ``before``, and has no reason."""
        reasons = "; ".join(different(measurement, statistic, entry.signature))
        new = measurement.values[statistic]
        since = "" if before == entry.values.get(statistic) else f" than {in_words(anchor_of(entry))}"
        text = (
            f"{statistic} {format_number(before)} -> {format_number(new)} is {worsening(measurement, statistic, before):.3g} worse{since} and is "
            f'not accepted without a reason: --bias-update --bias-reason="why"'
            f"{f' (it is of something else, too: {reasons})' if reasons else ''}"
        )
        try:
            finding = self._compare(measurement, statistic, name, entry, tolerance)
        except BaselineError:  # of its items, which an update writes anew
            finding = Finding(REFUSED, "baseline", text)
        headline = f"{statistic} {' -> '.join(_in_figures(before, new))}: {worsening(measurement, statistic, before):.3g} worse{since}, and no reason is given"
        headline += f" (it is of something else, too: {reasons})" if reasons else ""
        account = replace(
            finding.account, headline=headline, advice="mend the model, or say why it is accepted:",
            command=f'{self._updating(measurement)} --bias-reason="why"',
        )  # fmt: skip
        return replace(finding, verdict=REFUSED, text=text, account=account)


def _in_figures(before: float, new: float | None) -> list[str]:
    return [format_number(before), format_number(None)] if new is None else apart(before, new)


def _margin(
    entry: BaselineEntry | None, measurement: Measurement, statistic: str, tolerance: Tolerance, value: float | None
) -> Margin | None:
    """Return a tolerance as a number, for a comparison with ``value``; ``None`` if it is planned and there is no plan."""
    planned = None if entry is None else planned_of(entry, measurement).get(statistic)
    return tolerance.resolve(distance_from_neutral(measurement, statistic, value), planned)


def _amount(margin: Margin | None) -> float:
    return 0.0 if margin is None else margin.amount


def _today() -> str:
    return datetime.date.today().isoformat()


def planned_of(entry: BaselineEntry, measurement: Measurement) -> dict[str, PlannedMargin]:
    """Return what was planned for the statistics of an entry that a measurement may be compared with."""
    known = {name: margin for name, margin in entry.planned.items() if name in measurement.statistics}
    return {name: margin for name, margin in known.items() if not different(measurement, name, entry.signature)}


def _lost_restarts(entry: BaselineEntry | None, measurement: Measurement) -> str:
    """Return in words that an update leaves fewer restarts than an entry had; an empty text if it does not."""
    before = 0 if entry is None else entry.settings.get("restarts", 0)
    if not isinstance(before, int) or before <= measurement.restarts:
        return ""
    now = f"{measurement.restarts}" if measurement.restarts else "one checkpoint"
    return f"; the entry had {before} restarts, and now has {now}: run with --bias-seeds={before} to keep what retraining gives"


def _in_force(accepted: Iterable[AcceptedValue], measurement: Measurement) -> tuple[AcceptedValue, ...]:
    """Return the accepted values that are still in force: the statistic is still worse than it was before."""
    return tuple(note for note in accepted if is_worse(measurement, note.statistic, note.old))


def _other_examples(stored_items: Path, measurement: Measurement) -> list[str]:
    """Return in words which examples are missing or new, if both measurements have the ids of theirs."""
    if "id" not in measurement.items:
        return []
    try:
        known = _names(load_items(stored_items.read_bytes())["id"])
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
