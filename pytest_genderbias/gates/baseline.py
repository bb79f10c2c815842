"""Baselines: what a model of this name gave when it was last accepted."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from pytest_genderbias.errors import BaselineError, DataFileError, GateError
from pytest_genderbias.gates.book import (
    Entry,
    book_path,
    count_gated,
    entry_of,
    items_path,
    read_book,
    read_items,
)
from pytest_genderbias.gates.judgement import Finding, Judgement, format_number, make_judgement
from pytest_genderbias.gates.policy import Correction, correction_for
from pytest_genderbias.gates.regression import (
    FLOAT_NOISE,
    MUST_AGREE,
    Before,
    check_tolerance,
    different,
    find_regression,
    worsening,
)
from pytest_genderbias.gates.verdicts import MISSING, NOT_COMPARABLE, REGRESSED, UPDATED
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.models.predictions import same_ids
from pytest_genderbias.text.printable import printable

_MAY_DIFFER = ("architecture", "tokenizer", "pooling", "max_length", "dtype", "device")


@dataclass
class Baseline:
    """The baselines of one model name and one test module.

    ``update``: ``"no"`` judges; ``"new"`` accepts what has no entry yet; ``"all"`` accepts everything, what is worse only with a
    ``reason``. ``correct_for``: the comparisons that ``regressed`` is corrected for: the entries of the ``"model"`` or of the
    ``"module"``, ``"none"``, or a number. ``command`` is what is said to accept a worse value, but for the reason. What was measured
    collects in ``measured``, and in ``judged`` the tolerance of each statistic of an entry; it is written by
    :func:`~pytest_genderbias.gates.book.write_entries`, never by a test.
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
    accepted: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    judged: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The JSON file."""
        return book_path(self.directory, self.model, self.module)

    def stored(self, name: str) -> Mapping[str, Any] | None:
        """Return the content of a stored entry."""
        found: Mapping[str, Any] | None = read_book(self.path).get(name)
        return found

    def entries(self) -> dict[str, Entry]:
        """Return what was measured as entries, but for what was refused."""
        return {
            name: entry_of(name, measurement, self.accepted.get(name, ()), self.judged.get(name))
            for name, measurement in self.measured.items()
            if name not in self.refused
        }

    def judge(
        self, measurement: Measurement, tolerance: float = 0.0, statistic: str | None = None, name: str | None = None
    ) -> Judgement:
        """Compare a statistic with the stored one, item by item."""
        tolerance = check_tolerance(tolerance)
        label, statistic, name = name, measurement.statistic(statistic), name or measurement.suite
        if measurement.stopped:
            raise GateError(
                f"{measurement.suite} was scored only until other gates were decided; a baseline needs a measurement without until="
            )
        self._claim(name, measurement)
        judged = self.judged.setdefault(name, {})
        judged[statistic] = min(tolerance, judged.get(statistic, tolerance))
        return make_judgement(measurement, statistic, self._find(measurement, tolerance, statistic, name), label)

    def overlooked(self, name: str, gates: Mapping[str, float] | None = None) -> dict[str, dict[str, Any]]:
        """Return what would be accepted unseen: other gated statistics of an entry that are worse than stored, each as a note.

        Args:
            name: of an entry that was measured.
            gates: the tolerances of all that gate the entry; those that are stored by default.
        """
        measurement = self.measured[name]
        try:
            stored = self.stored(name)
        except BaselineError:  # which whoever judges or writes meets as well
            return {}
        if stored is None or stored.get("definition") != measurement.signature["definition"]:
            return {}
        others = stored.get("gated", {}) if gates is None else gates
        return {
            statistic: self._note(statistic, stored, measurement)
            for statistic, tolerance in others.items()
            if statistic not in self.judged[name] and _is_worse(measurement, statistic, stored["values"], tolerance)
        }

    def _note(self, statistic: str, stored: Mapping[str, Any], measurement: Measurement) -> dict[str, Any]:
        """Return a worse value as it is noted when it is accepted."""
        today = datetime.date.today().isoformat()
        old, new = stored["values"][statistic], measurement.values[statistic]
        return {"statistic": statistic, "date": today, "old": old, "new": new, "reason": self.reason}

    def _find(self, measurement: Measurement, tolerance: float, statistic: str, name: str) -> Finding:
        stored = self.stored(name)
        if stored is None and self.update == "no":
            text = (
                f"no baseline entry {name!r} in {self.path}; run with --bias-update-new to accept what is measured now"
            )
            return Finding(MISSING, "no baseline", text)
        if stored is None:
            return self._accept(measurement, statistic, name, {}, tolerance)
        if self.update == "all":
            return self._accept(measurement, statistic, name, stored, tolerance)
        return self._compare(measurement, statistic, name, stored, tolerance)

    def _compare(
        self, measurement: Measurement, statistic: str, name: str, stored: Mapping[str, Any], tolerance: float
    ) -> Finding:
        if unlike := different(measurement, statistic, stored, MUST_AGREE):
            if any(text.startswith("data: ") for text in unlike):
                unlike += _other_examples(items_path(self.path, name, stored.get("items_sha256") or ""), measurement)
            text = f"the baseline in {self.path} is of something else ({printable('; '.join(unlike))}); run with --bias-update to accept what is measured now"
            return Finding(NOT_COMPARABLE, "baseline", text)
        spec = measurement.signature["model"].get("spec") or measurement.model
        before = Before(
            "baseline", stored["values"], read_items(self.path, name, stored), _changes(stored, measurement), self._correction(),
            self.command or f"pytest --bias-model={measurement.model}={spec} --bias-update",
            stored.get("model", {}).get("fingerprint"),
        )  # fmt: skip
        found = find_regression(measurement, statistic, before, tolerance)
        return _with_accepted(found, _in_force(stored, measurement))

    def _correction(self) -> Correction:
        """Return the comparisons that ``regressed`` is corrected for: those that are stored, whichever of them run."""
        module = self.module if self.correct_for == "module" else None
        where = f"of {self.module}" if module else f"of {self.model}"
        return correction_for(
            self.correct_for,
            count_gated(self.directory, self.model, module),
            f"statistics gated in the baselines {where}",
        )

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
        self, measurement: Measurement, statistic: str, name: str, stored: Mapping[str, Any], tolerance: float
    ) -> Finding:
        """Accept a value; one that is worse than allowed only with a reason, which stays with the entry as long as it is worse.

        What is not comparable is held against what is stored all the same, if it is defined alike: another sample is no way around.
        """
        alike = stored.get("definition") == measurement.signature["definition"]
        values = stored["values"] if alike else {}
        old, new = stored.get("values", {}).get(statistic), measurement.values[statistic]
        accepted = _in_force(stored, measurement) if alike else []
        notes = self.accepted.setdefault(name, list(accepted))  # of all statistics of the entry, to be written
        why = ""
        if _is_worse(measurement, statistic, values, tolerance):
            if not self.reason:
                self.refused.add(name)
                return self._refuse(measurement, statistic, name, stored, tolerance)
            note = self._note(statistic, stored, measurement)
            accepted.append(note)
            if note not in notes:
                notes.append(note)
            why = f" because: {self.reason}"
        text = f"{statistic} {format_number(old)} -> {format_number(new)} accepted{why}"
        bound = f"was {format_number(old)}" if stored else "new"
        return _with_accepted(Finding(UPDATED, bound, text), accepted)

    def _refuse(
        self, measurement: Measurement, statistic: str, name: str, stored: Mapping[str, Any], tolerance: float
    ) -> Finding:
        """Return the finding on a worse value that nobody gave a reason for."""
        values = stored["values"]
        unlike = printable("; ".join(different(measurement, statistic, stored, MUST_AGREE)))
        text = (
            f"{statistic} {format_number(values[statistic])} -> {format_number(measurement.values[statistic])} is "
            f"{worsening(measurement, statistic, values):.3g} worse and is not accepted without a reason: "
            f'--bias-update --bias-reason="why"{f" (it is of something else, too: {unlike})" if unlike else ""}'
        )
        try:
            found = self._compare(measurement, statistic, name, stored, tolerance)
        except BaselineError:  # its items, which an update writes anew
            found = Finding(REGRESSED, "baseline", text)
        return replace(found, verdict=REGRESSED, text=text)


def _with_accepted(found: Finding, accepted: Sequence[Mapping[str, Any]]) -> Finding:
    return replace(found, accepted=tuple(accepted))


def _is_worse(
    measurement: Measurement, statistic: str, before: Mapping[str, float | None], tolerance: float = 0.0
) -> bool:
    """Tell whether a value is worse than before by more than the tolerance, and noise."""
    worse = worsening(measurement, statistic, before) if statistic in measurement.values else None
    return worse is not None and worse > tolerance + FLOAT_NOISE


def _in_force(stored: Mapping[str, Any], measurement: Measurement) -> list[dict[str, Any]]:
    """Return what was accepted and still stands: values that are worse than those before."""
    accepted = stored.get("accepted", ())
    return [dict(one) for one in accepted if _is_worse(measurement, one["statistic"], {one["statistic"]: one["old"]})]


def _other_examples(stored_items: Path, measurement: Measurement) -> list[str]:
    """Say which examples are lacking or new, where both measurements kept the ids of theirs."""
    import numpy as np

    if "id" not in measurement.items:
        return []
    try:
        with np.load(stored_items, allow_pickle=False) as stored:
            known = _names(stored["id"])
    except (OSError, ValueError, KeyError, BadZipFile):  # this only explains a failure that is there anyway
        return []
    try:
        same_ids(known, _names(measurement.items["id"]))
    except DataFileError as error:
        return [str(error)]
    return ["the same ids with other labels, groups or shares"]


def _names(ids: Any) -> list[str]:
    """Return ids as texts; item files may have them as UTF-8, which takes a quarter of the room."""
    return [name.decode() if isinstance(name, bytes) else str(name) for name in ids.tolist()]


def _changes(stored: Mapping[str, Any], measurement: Measurement) -> str:
    old, new = stored.get("model", {}), measurement.signature["model"]
    changed = [f"{key} {old.get(key)} -> {new.get(key)}" for key in _MAY_DIFFER if old.get(key) != new.get(key)]
    return printable(f" (changed: {', '.join(changed)})") if changed else ""
