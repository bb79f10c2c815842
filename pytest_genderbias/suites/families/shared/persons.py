"""Labelled texts of persons, and the persons that a model classified, in one form for scored texts and for a file of
predictions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.biographies import GENDERS, LabelledTexts, read_biographies, read_labelled
from pytest_genderbias.datasets.files import column_names
from pytest_genderbias.datasets.folder import DataFolder
from pytest_genderbias.errors import DataFileError, ModelError, NotApplicableError, SettingError
from pytest_genderbias.statistics.group_gaps import confusion_tables, shares_of_first
from pytest_genderbias.suites.cases import Answer, IntArray, TextCases
from pytest_genderbias.suites.family import Context, Option, text
from pytest_genderbias.suites.statistic import FloatArray, Options
from pytest_genderbias.text.normal_form import folded
from pytest_genderbias.text.plain_files import expand
from pytest_genderbias.text.wordlist import load_wordlist

#: Data sets with text, profession and gender.
BIOGRAPHIES = ("bias_in_bios", "wiki_career")


#: Options of a family that reads tables of the user.
COLUMNS: Mapping[str, Option] = {
    f"{part}_column": text(f"column of the {part} in a table of your own", part, display=True)
    for part in ("text", "label", "group")
}


def read_texts(
    name: str, options: Options, data: DataFolder, any_group: bool
) -> tuple[LabelledTexts, tuple[Path, ...]]:
    """Read all files of a data set, or a table; return the texts and the paths of the files.

    With several files, the file name is added to each id.

    Args:
        name: One of :data:`BIOGRAPHIES`, or the path of a table.
        options: The columns of a table.
        data: The folder of the data sets.
        any_group: As in :func:`read_table`.

    Raises:
        MissingDataError: the data set is missing.
        DataFileError: as :func:`read_table`.
    """
    paths = data.find_all(name) if name in BIOGRAPHIES else (expand(name),)
    tables = [read_table(path, options, any_group) for path in paths]
    if len(tables) == 1:
        return tables[0], paths
    ids = tuple(f"{path.name}:{id_}" for path, table in zip(paths, tables, strict=True) for id_ in table.ids)
    joined = LabelledTexts(*(tuple(chain.from_iterable(column)) for column in zip(*tables, strict=True)))
    return joined._replace(ids=ids), paths


def read_table(path: Path, options: Options, any_group: bool) -> LabelledTexts:
    """Read a table with the columns in the options, or a table of biographies.

    Args:
        path: The table.
        options: The columns of the table.
        any_group: Whether other groups than genders are allowed. F, M, female and male, in any case, are genders either
            way.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.biographies.read_labelled`.
    """
    columns = options["text_column"], options["label_column"], options["group_column"]
    present = column_names(path)
    if "profession" in present and not set(columns) <= set(present):
        return read_biographies(path)
    if not any_group:
        return read_labelled(path, *columns)
    table = read_labelled(path, *columns, groups=None)
    return table._replace(groups=tuple(GENDERS.get(group.lower(), group) for group in table.groups))


StrArray = NDArray[np.str_]
Groups = tuple[str, str]
LIST = "labour-shares"  #: the packaged list of shares of women in the labour market (orgad2022, appendix D.2)
_WOMEN_AND_MEN = ("female", "male")


@dataclass(frozen=True)
class LabelledCases(TextCases):
    """Texts for a classifier.

    ``labels`` are the outputs of the classifier, spelled as in the data; ``left_out`` counts the rows of other groups.
    """

    labels: tuple[str, ...] = ()
    left_out: int = 0


@dataclass(frozen=True, eq=False)
class Persons:
    """The classified persons, sorted by id.

    ``labels`` are the classes that occur as gold or predicted class, in alphabetical order; ``gold`` and ``predicted``
    are positions in them. ``group`` is 0 for the first group and 1 for the second. ``share`` is the share of the first
    group in the person's class, NaN if unknown. ``probabilities``, shape (n, R), are those of the ``outputs``; ``None``
    where they are not known.
    """

    ids: StrArray
    labels: tuple[str, ...]
    gold: IntArray
    predicted: IntArray
    group: IntArray
    share: FloatArray
    outputs: tuple[str, ...] = ()
    probabilities: FloatArray | None = None

    def tables(self, selected: IntArray | None = None) -> IntArray:
        """Count all or the selected persons by group, gold class and prediction."""
        rows = np.arange(len(self.ids)) if selected is None else selected
        return confusion_tables(self.predicted[rows], self.gold[rows], self.group[rows], len(self.labels))

    def shares(self) -> FloatArray:
        """Return the share of the first group by class, NaN if it is unknown, shape (K,)."""
        shares = np.full(len(self.labels), np.nan)
        shares[self.gold] = self.share
        return shares


def compared_groups(options: Options) -> Groups:
    """Return the two groups; gaps are the first minus the second."""
    first, second = options["groups"] or ("female", "male")
    return str(first), str(second)


def labelled_cases(options: Options, context: Context) -> LabelledCases:
    """Return the texts of the two groups, with the labels of the model matched to those of the data.

    Raises:
        MissingDataError: the data set is missing.
        DataFileError: as :func:`read_texts`; a group without cases; labels that differ only in case.
        NotApplicableError: the model has none of the labels of the data.
        ModelError: the model lacks some of the labels.
    """
    groups = compared_groups(options)
    table, paths = read_texts(options["texts"], options, context.data, any_group=options["groups"] is not None)
    where = ", ".join(map(str, paths))
    number = {group: i for i, group in enumerate(groups)}
    rows = [
        (id_, text_, label, number[group])
        for id_, text_, label, group in zip(table.ids, table.texts, table.labels, table.groups, strict=True)
        if group in number
    ]
    _require_groups(groups, set(table.groups), where)
    ids, texts, labels, group = zip(*rows, strict=True)
    spelled = _spellings(labels, where)
    facts = {
        "id": np.asarray(ids),
        "label": np.asarray(labels),
        "group": np.asarray(group),
        "share": _shares(labels, group, options),
    }
    cases, known = [(text,) for text in texts], _matched(context.labels, spelled, where)
    return LabelledCases(cases, facts=facts, labels=known, left_out=len(table.ids) - len(rows))


def _require_groups(groups: Groups, present: Iterable[str], where: str) -> None:
    if missing := [group for group in groups if group not in present]:
        raise DataFileError(
            f"{where}: no case of the group {' or '.join(map(repr, missing))}; the groups are"
            f" {some_of(sorted(present))}; name the two groups to compare with the option groups"
        )


def _spellings(names: Iterable[str], where: str) -> dict[str, str]:
    """Return the labels of the data by their lower-case form."""
    spellings: dict[str, str] = {}
    for name in sorted(set(names)):
        other = spellings.setdefault(folded(name), name)
        if other != name:
            raise DataFileError(
                f"{where}: the labels {other!r} and {name!r} differ only in case; spell them the same way"
            )
    return spellings


def _matched(labels: Sequence[str], spelled: Mapping[str, str], where: str) -> tuple[str, ...]:
    """Return the labels of the model, spelled as in the data.

    Raises:
        NotApplicableError: the model has none of the labels of the data.
        ModelError: the model lacks some of them.
    """
    keys = [folded(label) for label in labels]
    lacking = [name for key, name in spelled.items() if key not in keys]
    if len(lacking) == len(spelled):
        raise NotApplicableError(
            f"the model has other classes: its labels are {some_of(labels)}, the {len(spelled)} classes of {where} are"
            f" {some_of(spelled.values())}; name texts with the model's labels with the option texts, or the labels of"
            " its outputs in their order with --bias-labels"
        )
    if lacking:
        raise ModelError(
            f"the model has no label for {len(lacking)} of the {len(spelled)} classes of {where} ({some_of(lacking)}):"
            f" its labels are {some_of(labels)}; use the model's labels in the data, or name the labels of its outputs"
            " in their order with --bias-labels"
        )
    if len(set(keys)) < len(keys):
        raise ModelError(
            f"two labels of the model differ only in case: {some_of(labels)}; give each output its own label"
        )
    return tuple(spelled.get(key, label) for key, label in zip(keys, labels, strict=True))


def _shares(labels: Sequence[str], group: Sequence[int], options: Options) -> FloatArray:
    """Return, for each case, the share of the first group in its class, in the training data or at work; NaN if it is
    unknown.

    Raises:
        SettingError: shares at work are asked for, and the groups are not women and men.
    """
    if options["shares"] == "labour":
        at_work = labour_shares(set(labels), compared_groups(options))
        return np.asarray([at_work.get(label, np.nan) for label in labels], dtype=np.float64)
    where = "the data"
    training, of = labels, group
    if options["training"] is not None:
        where, number = options["training"], {name: i for i, name in enumerate(compared_groups(options))}
        table = read_table(expand(where), options, any_group=options["groups"] is not None)
        rows = [(y, number[g]) for y, g in zip(table.labels, table.groups, strict=True) if g in number]
        _require_groups(compared_groups(options), set(table.groups), where)
        training, of = zip(*rows, strict=True)
    code = {key: i for i, key in enumerate(_spellings(training, where))}
    share = shares_of_first([code[folded(label)] for label in training], of, len(code))
    known = {label: share[code[folded(label)]] for label in set(labels) if folded(label) in code}
    return np.asarray([known.get(label, np.nan) for label in labels], dtype=np.float64)


def scored_persons(answer: Answer) -> tuple[Persons, int]:
    """Return the scored persons, with the likeliest label as prediction, and the number of rows of other groups."""
    cases: LabelledCases = answer.cases
    facts = answer.facts()
    probabilities = np.asarray(answer.values[:, 0], dtype=np.float64)
    predicted = np.asarray(cases.labels)[probabilities.argmax(axis=1)]
    persons = _persons(
        facts["id"], facts["label"], predicted, facts["group"], facts["share"], cases.labels, probabilities
    )
    return persons, cases.left_out


def stored_persons(table: Any, options: Options) -> tuple[Persons, int]:
    """Return the persons in a file of predictions, and the number of rows of other groups.

    ``table``: its :class:`~pytest_genderbias.models.predictions.Predictions`.

    Raises:
        DataFileError: a group without cases; labels that differ only in case; no prediction is a gold label.
    """
    groups, where = compared_groups(options), str(table.path)
    _require_groups(groups, table.groups, where)
    names = np.asarray(table.groups)[table.group]
    compared = np.isin(names, groups)
    group = (names[compared] == groups[1]).astype(np.int64)
    labels = np.asarray(table.labels)
    gold, predicted = labels[table.gold[compared]], labels[table.predicted[compared]]
    spelled = _spellings(gold.tolist(), where)
    predicted = np.asarray([spelled.get(folded(name), name) for name in predicted.tolist()])
    if not np.isin(predicted, gold).any():
        raise DataFileError(
            f"{where}: no prediction is a gold label: the predictions are {some_of(sorted(set(predicted.tolist())))},"
            f" the gold labels {some_of(sorted(spelled.values()))}; spell them the same way"
        )
    share = _shares(gold.tolist(), group.tolist(), options)
    outputs = tuple(spelled.get(folded(name), name) for name in table.labels)
    probabilities = None if table.probabilities is None else table.probabilities[compared].astype(np.float64)
    persons = _persons(np.asarray(table.ids)[compared], gold, predicted, group, share, outputs, probabilities)
    return persons, int((~compared).sum())


def _persons(
    ids: StrArray,
    gold: StrArray,
    predicted: StrArray,
    group: IntArray,
    share: FloatArray,
    outputs: tuple[str, ...],
    probabilities: FloatArray | None,
) -> Persons:
    order = np.argsort(ids, kind="stable")  # balancing then draws the same persons whatever the order of the rows
    labels = tuple(sorted({*gold.tolist(), *predicted.tolist()}))
    position = {label: i for i, label in enumerate(labels)}
    gold_codes, predicted_codes = (
        np.asarray([position[name] for name in c[order].tolist()]) for c in (gold, predicted)
    )
    ordered = None if probabilities is None else probabilities[order]
    return Persons(ids[order], labels, gold_codes, predicted_codes, group[order], share[order], outputs, ordered)


def digests(persons: Persons) -> dict[str, str]:
    """Return digests of the persons and shares in a file of predictions; the predictions do not count."""
    rows = [persons.ids.tolist(), [persons.labels[c] for c in persons.gold], persons.group.tolist()]
    columns = {"persons": rows, "shares": persons.share.tolist()}
    return {name: hashlib.sha256(repr(column).encode()).hexdigest()[:16] for name, column in columns.items()}


def some_of(names: Iterable[str]) -> str:
    """Return the first six names, quoted, and the total number if there are more."""
    shown = [repr(name) for name in names]
    return ", ".join(shown[:6]) + (f", ... ({len(shown)})" if len(shown) > 6 else "")


def labour_shares(labels: Iterable[str], groups: tuple[str, str]) -> dict[str, float]:
    """Return the share of the first group, 0 to 1, in the professions that the packaged list ``labour-shares`` has.

    Case is ignored, and an underscore is a space.

    Raises:
        SettingError: the groups are not women and men.

    >>> labour_shares(["Teacher", "software_engineer", "poodle"], ("female", "male"))
    {'Teacher': 0.71, 'software_engineer': 0.2}
    """
    if tuple(sorted(groups)) != _WOMEN_AND_MEN:
        raise SettingError(
            "option 'shares' of bios: labour has the shares of women, and needs the groups female and male; got"
            f" {groups[0]!r} and {groups[1]!r}; take shares=training"
        )
    of_women = {label: _women_share().get(folded(label).replace("_", " ")) for label in labels}
    sign, start = (1.0, 0.0) if groups == _WOMEN_AND_MEN else (-1.0, 1.0)
    return {label: start + sign * share for label, share in of_women.items() if share is not None}


@cache
def _women_share() -> dict[str, float]:
    return {entry.word: float(entry.attributes["women_share"]) / 100 for entry in load_wordlist(LIST).entries}
