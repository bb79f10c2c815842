"""Whom a classifier classified: texts with label and group, or a file of its predictions, in one form."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import DataFileError, ModelError, NotApplicableError
from pytest_genderbias.statistics.group_gaps import confusion_tables, shares_of_first
from pytest_genderbias.suites.cases import Answer, TextCases
from pytest_genderbias.suites.families.shared.labelled import read_table, read_texts
from pytest_genderbias.suites.family import Context

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Groups = tuple[str, str]


@dataclass(frozen=True)
class LabelledCases(TextCases):
    """Texts for a classifier. ``labels``: its outputs, spelled as in the data; ``left_out``: rows of no group that is compared."""

    labels: tuple[str, ...] = ()
    left_out: int = 0


@dataclass(frozen=True, eq=False)
class Persons:
    """Who was classified, in the order of their ids.

    ``labels``: the classes that occur as gold or prediction, in alphabetical order; ``gold`` and ``predicted`` are positions in it,
    ``group`` is 0 for the first of the groups and 1 for the second. ``share``: that of the first group in the person's class.
    """

    ids: NDArray[np.str_]
    labels: tuple[str, ...]
    gold: IntArray
    predicted: IntArray
    group: IntArray
    share: FloatArray

    def tables(self, chosen: IntArray | None = None) -> IntArray:
        """Count the persons, or the chosen ones, by group, gold class and prediction."""
        rows = np.arange(len(self.ids)) if chosen is None else chosen
        return confusion_tables(self.predicted[rows], self.gold[rows], self.group[rows], len(self.labels))

    def shares(self) -> dict[int, float]:
        """Return the share of the first group by class, where it is known."""
        known = np.flatnonzero(np.isfinite(self.share))
        classes, first = np.unique(self.gold[known], return_index=True)
        return dict(zip(classes.tolist(), self.share[known[first]].tolist(), strict=True))


def compared_groups(options: Mapping[str, Any]) -> Groups:
    """Return the two groups that are compared: the first minus the second."""
    first, second = options["groups"] or ("female", "male")
    return str(first), str(second)


def labelled_cases(options: Mapping[str, Any], context: Context) -> LabelledCases:
    """Return the texts of the two groups, with the model's labels matched to those of the data."""
    groups = compared_groups(options)
    read, paths = read_texts(options["texts"], options, context.data, any_group=options["groups"] is not None)
    where = ", ".join(map(str, paths))
    number = {group: i for i, group in enumerate(groups)}
    rows = [
        (id_, text_, label, number[group])
        for id_, text_, label, group in zip(read.ids, read.texts, read.labels, read.groups, strict=True)
        if group in number
    ]
    _require_groups(groups, set(read.groups), where)
    ids, texts, labels, group = zip(*rows, strict=True)
    spelled = _spellings(labels, where)
    facts = {
        "id": np.asarray(ids),
        "label": np.asarray(labels),
        "group": np.asarray(group),
        "share": _shares(labels, group, options),
    }
    return LabelledCases(
        [(one,) for one in texts],
        facts=facts,
        labels=_matched(context.labels, spelled, where),
        left_out=len(read.ids) - len(rows),
    )


def _require_groups(groups: Groups, present: Iterable[str], where: str) -> None:
    if missing := [group for group in groups if group not in present]:
        raise DataFileError(
            f"{where}: no case of the group {' or '.join(map(repr, missing))}, the groups are {some_of(sorted(present))}; "
            "name the two that are compared with the option groups"
        )


def _spellings(names: Iterable[str], where: str) -> dict[str, str]:
    """Return the labels of data by their lower-case form."""
    found: dict[str, str] = {}
    for name in sorted(set(names)):
        other = found.setdefault(name.casefold(), name)
        if other != name:
            raise DataFileError(f"{where}: the labels {other!r} and {name!r} differ in case only; write both alike")
    return found


def _matched(labels: Sequence[str], spelled: Mapping[str, str], where: str) -> tuple[str, ...]:
    """Return the model's labels, spelled as in the data; refuse a model that lacks a class, and pass over one that lacks all."""
    folded = [label.casefold() for label in labels]
    lacking = [name for key, name in spelled.items() if key not in folded]
    if len(lacking) == len(spelled):
        raise NotApplicableError(
            f"the model classifies something else: its labels are {some_of(labels)}, the {len(spelled)} classes of {where} are "
            f"{some_of(spelled.values())}; name texts that are labelled as the model does with the option texts, or its outputs in "
            "their order with --bias-labels"
        )
    if lacking:
        raise ModelError(
            f"the model has no label for {len(lacking)} of the {len(spelled)} classes of {where} ({some_of(lacking)}): its labels are "
            f"{some_of(labels)}; label the data as the model does, or name its outputs in their order with --bias-labels"
        )
    if len(set(folded)) < len(folded):
        raise ModelError(
            f"two labels of the model differ in case only: {some_of(labels)}; give each output its own label"
        )
    return tuple(spelled.get(key, label) for key, label in zip(folded, labels, strict=True))


def _shares(labels: Sequence[str], group: Sequence[int], options: Mapping[str, Any]) -> FloatArray:
    """Return, for each case, the share of the first group in its class in the training data; NaN where that lacks the class."""
    where = "the data"
    training, of = labels, group
    if options["training"] is not None:
        where, number = options["training"], {name: i for i, name in enumerate(compared_groups(options))}
        read = read_table(Path(where).expanduser(), options, any_group=options["groups"] is not None)
        kept = [(y, number[g]) for y, g in zip(read.labels, read.groups, strict=True) if g in number]
        _require_groups(compared_groups(options), set(read.groups), where)
        training, of = zip(*kept, strict=True)
    code = {key: i for i, key in enumerate(_spellings(training, where))}
    share = shares_of_first([code[label.casefold()] for label in training], of, len(code))
    by_label = {label: share.get(code.get(label.casefold(), -1), np.nan) for label in set(labels)}
    return np.asarray([by_label[label] for label in labels], dtype=np.float64)


def scored_persons(answer: Answer) -> tuple[Persons, int]:
    """Return who was scored, with the likeliest label as prediction, and the number of rows of other groups."""
    cases: LabelledCases = answer.cases
    facts = {name: column[answer.units] for name, column in cases.facts.items()}
    predicted = np.asarray(cases.labels)[answer.values[:, 0].argmax(axis=1)]
    return _persons(facts["id"], facts["label"], predicted, facts["group"], facts["share"]), cases.left_out


def stored_persons(table: Any, options: Mapping[str, Any]) -> tuple[Persons, int]:
    """Return who has a prediction, and the number of rows of other groups."""
    groups, where = compared_groups(options), str(table.path)
    _require_groups(groups, table.groups, where)
    names = np.asarray(table.groups)[table.group]
    kept = np.isin(names, groups)
    group = (names[kept] == groups[1]).astype(np.int64)
    labels = np.asarray(table.labels)
    gold, predicted = labels[table.gold[kept]], labels[table.predicted[kept]]
    spelled = _spellings(gold.tolist(), where)
    predicted = np.asarray([spelled.get(name.casefold(), name) for name in predicted.tolist()])
    if not np.isin(predicted, gold).any():
        raise DataFileError(
            f"{where}: none is a gold label: predicted are {some_of(sorted(set(predicted.tolist())))}, gold labels are "
            f"{some_of(sorted(spelled.values()))}; write both alike"
        )
    share = _shares(gold.tolist(), group.tolist(), options)
    return _persons(np.asarray(table.ids)[kept], gold, predicted, group, share), int((~kept).sum())


def _persons(
    ids: NDArray[Any], gold: NDArray[Any], predicted: NDArray[Any], group: IntArray, share: FloatArray
) -> Persons:
    order = np.argsort(ids, kind="stable")  # so that the same persons in any order are balanced by the same draw
    labels = tuple(sorted({*gold.tolist(), *predicted.tolist()}))
    position = {label: i for i, label in enumerate(labels)}
    gold_codes, predicted_codes = (
        np.asarray([position[name] for name in c[order].tolist()]) for c in (gold, predicted)
    )
    return Persons(ids[order], labels, gold_codes, predicted_codes, group[order], share[order])


def digests(persons: Persons) -> dict[str, str]:
    """Return what a file of predictions says of the persons, whatever was predicted."""
    rows = [persons.ids.tolist(), [persons.labels[c] for c in persons.gold], persons.group.tolist()]
    columns = {"persons": rows, "shares": persons.share.tolist()}
    return {name: hashlib.sha256(repr(column).encode()).hexdigest()[:16] for name, column in columns.items()}


def some_of(names: Iterable[str]) -> str:
    """Return the first names, quoted, and how many there are."""
    shown = [repr(name) for name in names]
    return ", ".join(shown[:6]) + (f", ... ({len(shown)})" if len(shown) > 6 else "")
