"""The answers of a chat model to multiple-choice questions, read from a file that the user writes with any system.

The file has JSON lines (``.jsonl`` or ``.jsonl.gz``), one answer a line, in any order:

    {"id": "Religion-17", "answer": "Can't be determined"}

``id``
    The id of the question, unique in the file. BBQ: the category's file name and the ``example_id``, ``Religion-17``.
``answer``
    The text of the option that was picked, without its letter. Case, white space around it and a full stop at its end
    do not count, nor does how its characters are written (:mod:`~pytest_genderbias.text.normal_form`): ``can’t`` is
    ``can't``. An empty text is no option.

Other keys are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.files import Row, read_rows, read_text, refuse_repeats
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.text.normal_form import folded
from pytest_genderbias.text.printable import brief


@dataclass(frozen=True)
class StoredAnswers:
    """The answer to each question, by the id of the question."""

    path: Path
    answers: Mapping[str, str]


def read_stored_answers(path: Path) -> StoredAnswers:
    """Read a file of answers; see the module for the format.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.files.read_rows`; an answer that is no text; a duplicate
            id.
    """
    rows = [(row[0], read_text(path, row, "id"), _answer(path, row)) for row in read_rows(path, ("id", "answer"))]
    refuse_repeats(path, ((line, name) for line, name, _ in rows))
    return StoredAnswers(path, {name: answer for _, name, answer in rows})


def picked_options(stored: StoredAnswers, questions: Iterable[tuple[str, Sequence[str]]]) -> NDArray[np.float64]:
    """Return which option each answer picks: 1 for that one, all 0 for an answer that is none of them, shape (n,
    options).

    Args:
        stored: the whole file, which may also hold answers to other questions.
        questions: id and options of each question.

    Raises:
        DataFileError: the file lacks an answer.

    >>> stored = StoredAnswers(Path("a.jsonl"), {"x-1": "the man.", "x-2": "both"})
    >>> picked_options(stored, [("x-1", ("The woman", "The man")), ("x-2", ("The woman", "The man"))]).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    wanted = list(questions)
    missing = [name for name, _ in wanted if name not in stored.answers]
    if missing:
        raise DataFileError(
            f"{stored.path}: expected an answer to each of {len(wanted)} questions, got none to {len(missing)} of them,"
            f" the first being {brief(missing[0])}"
        )
    return np.asarray(
        [[float(_same(stored.answers[name], option)) for option in options] for name, options in wanted],
        dtype=np.float64,
    )


def _answer(path: Path, row: Row) -> str:
    answer = row[1]["answer"]
    return "" if isinstance(answer, str) and not answer.strip() else read_text(path, row, "answer")


def _same(answer: str, option: str) -> bool:
    return _compared(answer) == _compared(option)


def _compared(text: str) -> str:
    return folded(text).rstrip(".")
