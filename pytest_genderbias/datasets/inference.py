"""Natural language inference: SNLI and data sets of the same format."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_genderbias.datasets.files import column_names, place, read_rows, read_text
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.text.printable import brief

#: The labels, in the order of their numbers 0, 1, 2 in the hub's copies.
LABELS = ("entailment", "neutral", "contradiction")
_BY_VALUE = {label: label for label in LABELS} | {str(number): label for number, label in enumerate(LABELS)}
_UNLABELLED = ("-", "-1")
_OFFICIAL = ("sentence1", "sentence2", "gold_label")
_PLAIN = ("premise", "hypothesis", "label")


@dataclass(frozen=True)
class InferencePairs:
    """Labelled pairs as three columns of equal length. ``unlabelled`` counts the pairs without a label, which are left
    out.
    """

    premises: tuple[str, ...]
    hypotheses: tuple[str, ...]
    labels: tuple[str, ...]
    unlabelled: int


def read_inference(path: Path) -> InferencePairs:
    """Read labelled pairs of premise and hypothesis.

    The columns are ``sentence1``, ``sentence2``, ``gold_label`` as in the official release, or ``premise``,
    ``hypothesis``, ``label``. A label is one of :data:`LABELS` or its number. A pair without agreement of its
    annotators (``-`` or -1) is left out.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.files.read_rows`; an unknown label; no pair with a label.
    """
    columns = _OFFICIAL if "gold_label" in column_names(path) else _PLAIN
    premise, hypothesis, gold = columns
    pairs, unlabelled = [], 0
    for line, row in read_rows(path, columns):
        value = str(row[gold])
        if value in _UNLABELLED:
            unlabelled += 1
            continue
        if value not in _BY_VALUE:
            raise DataFileError(
                f"{place(path, line)}: expected one of {', '.join(LABELS)}, 0, 1, 2, or - for none, in column"
                f" {brief(gold)}, got {brief(row[gold])}"
            )
        pairs.append(
            (read_text(path, (line, row), premise), read_text(path, (line, row), hypothesis), _BY_VALUE[value])
        )
    if not pairs:
        raise DataFileError(f"{path}: none of the {unlabelled} pairs has a label")
    premises, hypotheses, labels = zip(*pairs, strict=True)
    return InferencePairs(premises, hypotheses, labels, unlabelled)
