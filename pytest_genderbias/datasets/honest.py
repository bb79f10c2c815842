"""HONEST (Nozza et al. 2021), beginnings of sentences about women and men, and the hurtful words of HurtLex."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_genderbias.datasets.files import Row, read_rows
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.text.printable import brief

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
