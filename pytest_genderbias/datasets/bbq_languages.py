"""BBQ in other languages: MBBQ, EsBBQ and CaBBQ, KoBBQ and CBBQ, each read by its path, as rows of BBQ's form."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from pytest_genderbias.datasets.files import Row, column_names, place, read_rows, read_text
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.text.printable import brief

OPTIONS = ("ans0", "ans1", "ans2")
_PUBLISHED = (
    "example_id", "question_index", "question_polarity", "context_condition", "answer_info", "additional_metadata",
    "context", "question",
    *OPTIONS, "label",
)  # fmt: skip
_SHARED = ("question_polarity", "context_condition", "context", "question", *OPTIONS, "label")
_SPANISH = ("instance_id", "template_id", "stereotyped_groups", *_SHARED)
_CHINESE = ("example_id", "question_index", "bias_targeted_groups", *_SHARED)
_KOREAN = ("sample_id", "context", "question", "choices", "biased_answer", "answer")
_UNKNOWN_IN_KOREAN = "\uc54c \uc218 \uc5c6\uc74c"  #: of all choices as published
_SUFFIXES = set("\u6027\u4eba\u8005\u7684")  #: characters of groups of any kind in Chinese
_CONDITIONS = {"ambiguous": "ambig", "disambiguous": "disambig"}  #: of CBBQ, which has a file for each


def bbq_rows(path: Path) -> Iterator[Row]:
    """Yield the questions of a file as rows with the columns of BBQ.

    The columns tell whose form the file has: BBQ's, which MBBQ (Neplenbroek et al. 2024) has too; that of EsBBQ and
    CaBBQ (Ruiz-Fernández et al. 2025; ``.csv`` or ``.jsonl``); that of KoBBQ (Jin et al. 2024; ``.tsv``), in which the
    person of ``biased_answer`` in the biased question is whom the stereotype is about; that of CBBQ (Huang and Xiong
    2024; the folder of a category, with both of its ``.csv`` files), in which it is the person whose name has a
    character of ``bias_targeted_groups`` that the other one has not (no suffix of groups of any kind).

    Raises:
        DataFileError: the columns are of no such form; a cell of another form.
    """
    if path.is_dir():
        for condition in _CONDITIONS:
            yield from _chinese(path / condition / f"{condition}.csv")
        return
    columns = set(column_names(path))
    if "sample_id" in columns:
        yield from (_korean(path, row) for row in read_rows(path, _KOREAN))
    elif "instance_id" in columns or "template_id" in columns:
        answers = (*(f"answer_info.{name}" for name in OPTIONS), "answer_info")
        yield from (_spanish(path, row) for row in read_rows(path, _SPANISH, answers))
    elif "bias_targeted_groups" in columns:
        yield from _chinese(path)
    else:
        yield from read_rows(path, _PUBLISHED)


def _row(line: int, cells: dict[str, object], **changes: object) -> Row:
    return line, {**{name: cells.get(name) for name in _SHARED}, **changes}


def _literal(path: Path, row: Row, column: str) -> object:
    """Return a list that a cell of a table has as Python writes it, or a JSON value as it is."""
    value = row[1].get(column)
    try:
        return ast.literal_eval(value) if isinstance(value, str) else value
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        where = place(path, row[0])
        raise DataFileError(f"{where}: expected a list in column {column!r}, got {brief(value)}") from None


def _number(path: Path, row: Row) -> object:
    label = row[1]["label"]
    return int(label) if isinstance(label, str) and label in ("0", "1", "2") else label


def _spanish(path: Path, row: Row) -> Row:
    line, cells = row
    info = cells.get("answer_info") or {name: _literal(path, row, f"answer_info.{name}") for name in OPTIONS}
    return _row(
        line,
        cells,
        example_id=cells["instance_id"],
        question_index=cells["template_id"],
        label=_number(path, row),
        answer_info=info,
        additional_metadata={"stereotyped_groups": _literal(path, row, "stereotyped_groups")},
    )


def _korean(path: Path, row: Row) -> Row:
    where = place(path, row[0])
    name, biased, right = (read_text(path, row, column) for column in ("sample_id", "biased_answer", "answer"))
    choices = _literal(path, row, "choices")
    *category, template, _, condition, side = ("", "", "", *name.split("-"))
    if not isinstance(choices, list) or len(choices) != 3 or not all(isinstance(text, str) for text in choices):
        raise DataFileError(f"{where}: expected a list of three texts in column 'choices', got {brief(choices)}")
    if not {biased, right} <= set(choices) or choices.count(_UNKNOWN_IN_KOREAN) != 1 or biased == _UNKNOWN_IN_KOREAN:
        raise DataFileError(f"{where}: expected answers among the choices, one of which is {_UNKNOWN_IN_KOREAN}")
    if condition not in ("amb", "dis") or side not in ("bsd", "cnt"):
        raise DataFileError(f"{where}: expected a sample_id that ends as -amb-bsd or -dis-cnt, got {brief(name)}")
    target = biased if side == "bsd" else next(text for text in choices if text not in (biased, _UNKNOWN_IN_KOREAN))
    groups = [["unknown" if text == _UNKNOWN_IN_KOREAN else text] for text in choices]
    return _row(
        row[0],
        {**row[1], **dict(zip(OPTIONS, choices, strict=True))},
        example_id=name,
        question_index="-".join([*category, template.rstrip("ab")]).strip("-"),
        question_polarity="neg" if side == "bsd" else "nonneg",
        context_condition="ambig" if condition == "amb" else "disambig",
        label=choices.index(right),
        answer_info=dict(zip(OPTIONS, groups, strict=True)),
        additional_metadata={"stereotyped_groups": [target]},
    )


def _chinese(path: Path) -> Iterator[Row]:
    for row in read_rows(path, _CHINESE):
        line, cells = row
        group, first, second = (read_text(path, row, name) for name in ("bias_targeted_groups", *OPTIONS[:2]))
        condition = _CONDITIONS.get(str(cells["context_condition"]), cells["context_condition"])
        told = set(group) - _SUFFIXES
        persons = [
            [group if told & (set(own) - set(other)) else own] for own, other in ((first, second), (second, first))
        ]
        yield _row(
            line,
            cells,
            example_id=f"{condition}-{cells['example_id']}",
            question_index=cells["question_index"],
            question_polarity=str(cells["question_polarity"]).replace("_", ""),
            context_condition=condition,
            label=_number(path, row),
            answer_info=dict(zip(OPTIONS, [*persons, ["unknown"]], strict=True)),
            additional_metadata={"stereotyped_groups": [group]},
        )
