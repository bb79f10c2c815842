"""Tables of a classifier's predictions, in files or in memory: prediction, gold label and group of each example."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.corpora import corpus_sha256
from pytest_genderbias.datasets.files import Row, column_names, place, read_rows, refuse_repeats
from pytest_genderbias.datasets.stored_replies import KEYS as REPLY_KEYS
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.models.roles import CHAT_ANSWERS, CLASS_PREDICTIONS, COREFERENCE_PREDICTIONS, TEXT_REPLIES
from pytest_genderbias.text.normal_form import folded, normal_form
from pytest_genderbias.text.printable import brief

#: Tolerance for the sum of an example's probabilities, which are often written with few digits.
SUM_TOLERANCE = 1e-3

#: The kind of a ``.jsonl`` file, by the first of these keys that its first row has.
_KIND_OF_KEY = {
    "clusters": COREFERENCE_PREDICTIONS,
    "pronoun_scores": COREFERENCE_PREDICTIONS,
    "prediction": CLASS_PREDICTIONS,
    "answer": CHAT_ANSWERS,
}
_GROUPS = {"f": "female", "female": "female", "m": "male", "male": "male"}
_OTHER_NAMES = {"gold": "label", "group": "gender"}
_PREFIXES = ("probability_", "p_")
_MAPPING = "probabilities"
TABLE = Path("<table>")  #: takes the place of the file for a table in memory

Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Predictions:
    """A classifier's predictions for n examples.

    ``path``: the file, or ``<table>`` for a table in memory, for messages. ``ids``: n different names. ``labels``: the
    K classes that occur as a prediction or as gold, in alphabetical order. ``predicted``, ``gold``: shape (n,),
    positions in ``labels``. ``groups``: the groups that occur, in alphabetical order; ``group``: shape (n,), positions
    in it. ``probabilities``: shape (n, K), float32, columns as ``labels``, or ``None``. ``fingerprint``: SHA-256 over
    the bytes of the file, or over the cells.
    """

    path: Path
    ids: tuple[str, ...]
    labels: tuple[str, ...]
    predicted: Codes = field(repr=False)
    gold: Codes = field(repr=False)
    groups: tuple[str, ...]
    group: Codes = field(repr=False)
    probabilities: NDArray[np.float32] | None = field(repr=False)
    fingerprint: str


def looks_like_predictions(path: Path) -> str | None:
    """Return the kind of predictions that a file holds: ``class-predictions``, ``coreference-predictions``,
    ``chat-answers`` or ``text-replies``; or ``None``.

    A table (``.csv``, ``.tsv``, ``.parquet``) holds predictions of a classifier. The keys of the first row decide for a
    ``.jsonl`` file: ``clusters`` or ``pronoun_scores``, else ``prediction``, else ``answer``, else one of those that
    hold replies (:mod:`~pytest_genderbias.datasets.stored_replies`).

    Raises:
        DataFileError: the first row of a ``.jsonl`` file is no JSON object.
    """
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if not path.is_file() or suffix not in (".csv", ".tsv", ".parquet", ".jsonl"):
        return None
    if suffix != ".jsonl":
        return CLASS_PREDICTIONS
    keys = next(read_rows(path, (), optional=(*_KIND_OF_KEY, "messages", *REPLY_KEYS))).cells
    found = next((kind for key, kind in _KIND_OF_KEY.items() if key in keys), None)
    if found is None and keys.keys() & {"messages", *REPLY_KEYS}:
        return TEXT_REPLIES
    return found


def read_predictions(path: Path) -> Predictions:
    r"""Read a table of predictions: CSV, TSV, JSON lines (each also with ``.gz``) or Parquet.

    Columns: ``id``, ``prediction``, ``gold`` (or ``label``), ``group`` (or ``gender``). F and M, female and male, in
    any case, are ``female`` and ``male``; other groups are kept as they are. Probabilities are optional: one column for
    each label, ``p_LABEL`` or ``probability_LABEL``, or one column ``probabilities`` with a mapping from labels to
    numbers. A prediction need not be the most probable label, since a threshold may have decided.

    Ids, labels and groups are texts or whole numbers; ``0`` and ``"0"`` are the same. Labels are sorted as texts, so
    "10" stands before "2".

    Raises:
        DataFileError: a column is missing; a cell is empty or of another type; an id is repeated; a probability is not
            in 0..1, those of a row do not sum to one within ``SUM_TOLERANCE``, or their labels are not those of the
            predictions and gold labels; there are no rows. The message starts with ``FILE:LINE``.
        SettingError: a Parquet file without pyarrow.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "run.csv")
    ...     _ = path.write_text("id,prediction,gold,gender\n1,nurse,nurse,F\n2,nurse,judge,M\n")
    ...     predictions = read_predictions(path)
    >>> predictions.labels, predictions.predicted.tolist(), predictions.gold.tolist()
    (('judge', 'nurse'), [1, 1], [1, 0])
    >>> predictions.groups, predictions.group.tolist()
    (('female', 'male'), [0, 1])
    """
    columns, probability = _columns(path, column_names(path))
    rows = list(read_rows(path, (*columns.values(), *probability.values()), optional=(_MAPPING,)))
    return _checked(path, rows, columns, probability, corpus_sha256([path]))


def group_name(name: str) -> str:
    """Return the name of a group: F and M, female and male, in any case, are ``female`` and ``male``; others stay as
    they are.

    >>> group_name("F"), group_name("Male"), group_name("nonbinary")
    ('female', 'male', 'nonbinary')
    """
    return _GROUPS.get(folded(name), name)


def is_table(target: object) -> bool:
    """Return whether an object is a table of predictions: a pandas DataFrame, or a list of mappings. Pandas is not
    imported.
    """
    if isinstance(target, list):
        return all(isinstance(row, Mapping) for row in target)
    return _is_dataframe(target)


def predictions_of(table: object) -> Predictions:
    """Return the predictions in a pandas DataFrame or a list of mappings, checked as :func:`read_predictions` checks a
    file.

    Rows are numbered from 1, without the header that a file has. The fingerprint is a hash over the content, whatever
    the order of the columns.

    Raises:
        DataFileError: as :func:`read_predictions`; the message starts with ``<table>:ROW``.

    >>> rows = [{"id": 1, "prediction": "nurse", "gold": "nurse", "gender": "F"},
    ...         {"id": 2, "prediction": "nurse", "gold": "judge", "gender": "M"}]
    >>> predictions = predictions_of(rows)
    >>> predictions.labels, predictions.predicted.tolist(), predictions.gold.tolist()
    (('judge', 'nurse'), [1, 1], [1, 0])
    """
    records = table.to_dict(orient="records") if _is_dataframe(table) else table
    assert isinstance(records, list)
    if not records:
        raise DataFileError(f"{TABLE}: the table has no rows")
    columns, probability = _columns(TABLE, [str(column) for column in records[0]])
    required = (*columns.values(), *probability.values())
    rows: list[Row] = []
    for number, record in enumerate(records, start=1):
        missing = [column for column in required if column not in record]
        if missing:
            raise DataFileError(
                f"{place(TABLE, number)}: no column {', '.join(map(repr, missing))}; the columns are"
                f" {', '.join(map(repr, record))}"
            )
        wanted = [*required, *([_MAPPING] if _MAPPING in record else [])]
        rows.append(Row(number, {column: _plain(record[column]) for column in wanted}, TABLE))
    content = json.dumps([row.cells for row in rows], sort_keys=True, default=str)
    return _checked(TABLE, rows, columns, probability, hashlib.sha256(content.encode()).hexdigest())


def same_ids(stored_ids: Collection[str], ids: Collection[str]) -> None:
    """Refuse predictions for other examples than those of a baseline; the order may differ.

    Raises:
        DataFileError: examples are missing or new; the message gives their number and the first of them.

    >>> same_ids(["a", "b"], ["b", "a"])
    >>> same_ids(["a", "b", "c"], ["b", "d"])  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ...
    pytest_genderbias.errors.DataFileError: other examples than in the baseline: 2 of 3 ids are missing ('a', 'c'), 1 is
    new ('d'); predict the same examples, or record a new baseline
    """
    known, here = set(stored_ids), set(ids)
    lacking = [name for name in stored_ids if name not in here]
    new = [name for name in ids if name not in known]
    if not lacking and not new:
        return
    parts = []
    if lacking:
        parts.append(
            f"{len(lacking)} of {len(stored_ids)} ids {'is' if len(lacking) == 1 else 'are'} missing"
            f" ({_first(lacking)})"
        )
    if new:
        parts.append(f"{len(new)} {'is' if len(new) == 1 else 'are'} new ({_first(new)})")
    raise DataFileError(
        f"other examples than in the baseline: {', '.join(parts)}; predict the same examples, or record a new baseline"
    )


def _is_dataframe(target: object) -> TypeGuard[Any]:
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pandas" for kind in type(target).__mro__
    )


def _plain(value: object) -> object:
    """Return a cell as a file has it: a NumPy scalar as a Python number, and the keys of a mapping as texts."""
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(cell) for key, cell in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _columns(path: Path, present: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the columns for id, prediction, gold label and group of a table that has these, and the column with the
    probability of each label.
    """
    columns = {name: name for name in ("id", "prediction", "gold", "group")}
    columns |= {name: other for name, other in _OTHER_NAMES.items() if other in present and name not in present}
    probability: dict[str, str] = {}
    for column in present:
        prefix = next((prefix for prefix in _PREFIXES if column.startswith(prefix)), None)
        if prefix is None:
            continue
        label = column[len(prefix) :]
        if label in probability:
            raise DataFileError(
                f"{place(path, 1)}: the columns {brief(probability[label])} and {brief(column)} both give the"
                f" probability of {brief(label)}"
            )
        probability[label] = column
    if probability and _MAPPING in present:
        raise DataFileError(
            f"{place(path, 1)}: probabilities are in the column {brief(_MAPPING)} and also in"
            f" {brief(next(iter(probability.values())))}; expected one of the two"
        )
    return columns, probability


def _checked(
    path: Path, rows: Sequence[Row], columns: Mapping[str, str], probability: Mapping[str, str], fingerprint: str
) -> Predictions:
    """Return the predictions in rows, after checking every cell."""
    ids, *of_labels, of_groups = ([_name(row, column) for row in rows] for column in columns.values())
    refuse_repeats(path, zip((row.line for row in rows), ids, strict=True))
    labels, (predicted, gold) = _codes(*of_labels)
    groups, (group,) = _codes([group_name(name) for name in of_groups])
    probabilities = _probabilities(rows, labels, probability)
    return Predictions(path, tuple(ids), labels, predicted, gold, groups, group, probabilities, fingerprint)


def _name(row: Row, column: str) -> str:
    """Return an id, a label or a group as a text."""
    value = row.cells[column]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise row.error(f"expected a text or a whole number in column {brief(column)}, got {brief(value)}")
    return normal_form(value).strip()


def _codes(*columns: Sequence[str]) -> tuple[tuple[str, ...], list[Codes]]:
    """Return the names that occur in any of the columns, in alphabetical order, and the columns as positions in
    them.
    """
    names = tuple(sorted(set().union(*columns)))
    position = {name: i for i, name in enumerate(names)}
    return names, [np.fromiter((position[name] for name in column), np.int64, len(column)) for column in columns]


def _probabilities(
    rows: Sequence[Row], labels: tuple[str, ...], columns: Mapping[str, str]
) -> NDArray[np.float32] | None:
    if not columns and not any(_MAPPING in row.cells for row in rows):
        return None
    table = np.empty((len(rows), len(labels)))
    for i, row in enumerate(rows):
        cells = row.cells
        by_label = {label: cells[name] for label, name in columns.items()} if columns else cells.get(_MAPPING)
        if not isinstance(by_label, dict):
            raise row.error(f"expected a mapping from labels to numbers in {brief(_MAPPING)}, got {brief(by_label)}")
        if by_label.keys() != set(labels):
            raise row.error(_label_problem(by_label.keys(), labels))
        table[i] = [_number(row, label, by_label[label]) for label in labels]
    outside = ~((table >= 0) & (table <= 1))  # true for NaN, too
    if outside.any():
        i, k = np.argwhere(outside)[0]
        raise rows[i].error(f"the probability of {brief(labels[k])} is {table[i, k]:g}, expected 0 to 1")
    wrong = np.abs(table.sum(axis=1) - 1) > SUM_TOLERANCE
    if wrong.any():
        i = int(np.argmax(wrong))
        raise rows[i].error(f"the probabilities sum to {table[i].sum():.6g}, expected 1 (within {SUM_TOLERANCE:g})")
    return table.astype(np.float32)


def _label_problem(present: Collection[str], labels: Sequence[str]) -> str:
    without = [label for label in labels if label not in present]
    if without:
        return f"no probability for the labels {_first(without)}; it has those of {_first(sorted(present)) or 'none'}"
    unknown = sorted(set(present) - set(labels))
    return (
        f"probabilities for {_first(unknown)}, which no row has as prediction or gold label (they are"
        f" {_first(labels)}); name the probabilities as the labels, or leave all of them out"
    )


def _number(row: Row, label: str, value: object) -> float:
    try:
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise row.error(f"expected a number as the probability of {brief(label)}, got {brief(value)}")


def _first(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
