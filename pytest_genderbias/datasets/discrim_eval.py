"""discrim-eval (Tamkin et al. 2023): decisions about persons whose age, gender and race are told, or shown by names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_genderbias.datasets.files import read_rows
from pytest_genderbias.errors import DataFileError

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
