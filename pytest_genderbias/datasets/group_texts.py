"""Texts about persons of several groups, as published: the decisions of discrim-eval (Tamkin et al. 2023), which tell
age, gender and race or show them by names; and the beginnings of sentences of HONEST (Nozza et al. 2021), with the
hurtful words of HurtLex.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_genderbias.datasets.files import Row, read_rows
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.text.printable import brief

ATTRIBUTES = ("age", "gender", "race")
_QUESTION, _TEXT = "decision_question_id", "filled_template"


def read_discrim_eval(
    path: Path, by: str, groups: Sequence[str]
) -> tuple[Mapping[str, tuple[tuple[str, ...], ...]], int]:
    """Read ``explicit.jsonl`` or ``implicit.jsonl`` as published.

    The persons of the groups are alike in everything else.

    Args:
        path: the file, or a table with its columns.
        by: the attribute that makes the groups, one of ``ATTRIBUTES``.
        groups: its values that are compared; rows with others are not read.

    Returns:
        The texts by the name of the decision, then by group and person, as many persons of each group; and the number
        of rows of these groups that are left out, without a like row in every group of every decision.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.files.read_rows`; a cell of another form; a group without
            rows; no person is in every group of every decision.
    """
    others = [name for name in ATTRIBUTES if name != by]
    known: dict[str, dict[str, dict[tuple[str, ...], str]]] = {}
    seen: Counter[tuple[str, ...]] = Counter()
    for row in read_rows(path, (_TEXT, _QUESTION, *ATTRIBUTES)):
        question, group, *rest = kind = tuple(row.name(name) for name in (_QUESTION, by, *others))
        if group in groups:
            seen[kind] += 1  # of several persons of one kind the first is like the first of another group
            person = (*rest, str(seen[kind]))
            known.setdefault(question, {}).setdefault(group, {})[person] = row.text(_TEXT)
    found = {group for by_group in known.values() for group in by_group}
    if lacking := [group for group in groups if group not in found]:
        raise DataFileError(f"{path}: expected rows with each {by} of {', '.join(groups)}, got none with {lacking[0]}")
    of_all = [set(by_group.get(group, ())) for by_group in known.values() for group in groups]
    persons = sorted(set.intersection(*of_all))
    if not persons:
        raise DataFileError(
            f"{path}: expected persons of one {' and '.join(others)} in every {by} of every decision, got none"
        )
    texts = {
        question: tuple(tuple(of[group][one] for one in persons) for group in groups) for question, of in known.items()
    }
    return texts, sum(map(len, of_all)) - len(of_all) * len(persons)


_TEMPLATE, _GROUP, _ALIKE = "template_masked", "category", ("type", "number")
_BLANK = "[M]"
_LEVELS = ("conservative", "inclusive")


def read_honest(path: Path, groups: Sequence[str]) -> tuple[tuple[tuple[str, ...], ...], int]:
    """Read templates of HONEST, such as ``it_template.tsv``.

    The k-th row of a group has the same sentence as the k-th row of another, with another person. A text ends before
    the blank. Rows whose texts are equal for two groups are left out, and those whose first text was there before.

    Args:
        path: the file, or a table with its columns.
        groups: values of ``category``; rows with others are not read.

    Returns:
        the type of each sentence with its text for each group, and the number of sentences that are left out.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.files.read_rows`; a sentence does not end in the blank;
            the groups have not as many rows, or their k-th rows are of two types.
    """
    of: dict[str, list[tuple[Row, tuple[str, ...], str]]] = {group: [] for group in groups}
    for row in read_rows(path, (_TEMPLATE, _GROUP, *_ALIKE)):
        if (group := row.name(_GROUP)) in of:
            before, blank, after = row.text(_TEMPLATE).partition(_BLANK)
            text = " ".join(before.split())
            if not (text and blank) or after.strip(" ."):
                raise row.error(
                    f"expected a sentence that ends in {_BLANK}, got"
                    f" {brief(row.cells[_TEMPLATE])}; a text is continued at its end"
                )
            of[group].append((row, tuple(row.name(name) for name in _ALIKE), text))
    counts = {group: len(rows) for group, rows in of.items()}
    if len(set(counts.values())) > 1 or not all(counts.values()):
        raise DataFileError(
            f"{path}: expected as many rows of each group, got"
            f" {', '.join(f'{count} of {brief(group)}' for group, count in counts.items())}"
        )
    found: dict[str, tuple[str, ...]] = {}
    for rows in zip(*of.values(), strict=True):
        (row, alike, first), *others = rows
        if strange := [other for other in others if other[1] != alike]:
            raise strange[0][0].error(
                f"expected a row of {' '.join(alike)}, as line {row.line} is, got {' '.join(strange[0][1])}"
            )
        texts = [first, *(text for *_, text in others)]
        if len(set(texts)) == len(texts):
            found.setdefault(first, (alike[0], *texts))
    if not found:
        raise DataFileError(f"{path}: expected sentences that differ between the groups, got none")
    return tuple(found.values()), counts[groups[0]] - len(found)


def read_hurtlex(path: Path, level: str) -> tuple[str, ...]:
    """Read the words of HurtLex (Bassignana et al. 2018), such as ``hurtlex_IT.tsv``, each once.

    Args:
        path: the file, or a table with its columns.
        level: ``conservative``, or ``inclusive`` for all words.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.files.read_rows`; an unknown level, or none of that level.
    """
    words: dict[str, None] = {}
    for row in read_rows(path, ("lemma", "level")):
        if (of := row.name("level")) not in _LEVELS:
            raise row.error(f"expected the level {' or '.join(_LEVELS)}, got {brief(of)}")
        if level in (of, _LEVELS[-1]):
            words[row.text("lemma")] = None
    if not words:
        raise DataFileError(f"{path}: expected words of the level {level}, got none")
    return tuple(words)
