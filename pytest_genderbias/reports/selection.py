"""Impact ratios of a file of predictions or results: a table for each decision and each category of persons."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from pytest_genderbias.datasets.files import Row, column_names, place, read_rows
from pytest_genderbias.errors import DataFileError, SettingError, UndefinedError
from pytest_genderbias.models.predictions import group_name, looks_like_predictions
from pytest_genderbias.models.roles import COREFERENCE_PREDICTIONS
from pytest_genderbias.reports.run_report import SelectionRow
from pytest_genderbias.statistics.impact_ratio import LEAST_SHARE, above_median, impact_ratios
from pytest_genderbias.text.normal_form import folded
from pytest_genderbias.text.printable import brief

ABOVE_MEDIAN = "score above the median"  #: the decision that is counted where a file has scores
_MAIN_CATEGORIES = ("group", "gender", "sex")  #: columns; others begin with ``group_``, or are those below
_OTHER_CATEGORIES = ("race", "ethnicity")
_PREFIX, _SCORE, _PREDICTION, _SELECTED = "group_", "score", "prediction", "selected"
_TRUTHS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
_MOST_CATEGORIES = 3  #: of which every combination has a table
_UNKNOWN = ("", "unknown")


def count_selected(model: str, path: Path) -> Iterator[SelectionRow]:
    """Yield the impact ratios of a table of predictions or results: CSV, TSV, JSON lines (each also with ``.gz``) or
    Parquet. Each decision has a row a group, and one for persons of an unknown group.

    Persons are grouped by the columns ``group``, ``gender``, ``sex``, ``race`` and ``ethnicity``, and by every column
    that begins with ``group_``, such as ``group_race``, each alone and in all combinations. An empty cell, or
    ``unknown``, is an unknown group. Each class in the column ``prediction`` is a decision; where there are scores, in
    the column ``score``, so is a score above the median of all; and so is a 1, true or yes in the column ``selected``.

    Raises:
        DataFileError: the file cannot be read, has no such column, too many of them, or a cell is of another type.
        SettingError: a Parquet file without pyarrow.
    """
    present = column_names(path)
    named = (*_MAIN_CATEGORIES, *_OTHER_CATEGORIES)
    categories = [name for name in present if name in named or name.startswith(_PREFIX)]
    decided = [name for name in (_PREDICTION, _SCORE, _SELECTED) if name in present]
    if not categories or not decided or len(categories) > _MOST_CATEGORIES:
        raise DataFileError(
            f"{place(path, 1)}: expected a column {_PREDICTION!r}, {_SCORE!r} or {_SELECTED!r}, and one to"
            f" {_MOST_CATEGORIES} columns of groups ({', '.join(map(repr, named))}, or beginning with {_PREFIX!r}), got"
            f" {brief(list(present))}"
        )
    rows = list(read_rows(path, (*decided, *categories)))
    groups = {name: [_group(row, name) for row in rows] for name in categories}
    combined = [some for size in range(1, len(categories) + 1) for some in combinations(categories, size)]
    for decision, selected in _decisions(rows, decided):
        for some in combined:
            yield from _of_table(SelectionRow(model, decision, " and ".join(some), "", 0), selected, some, groups)


def selection_rows(model: str, path: Path, of_results: bool = False) -> tuple[SelectionRow, ...]:
    """Return the rows of all tables of a file; where it has none, one row that says why.

    Args:
        model: name of the model that made the predictions.
        path: as in :func:`count_selected`; a file of coreference output has no rows.
        of_results: whether it is a file of results, which has rows only where it says who was ``selected``.
    """
    try:
        if looks_like_predictions(path) == COREFERENCE_PREDICTIONS or (of_results and not _says_selected(path)):
            return ()
        return tuple(count_selected(model, path))
    except (DataFileError, SettingError) as error:
        return (SelectionRow(model, "", "", "", 0, note=str(error)),)


def _says_selected(path: Path) -> bool:
    try:
        return _SELECTED in column_names(path)
    except DataFileError:  # no table
        return False


def _of_table(
    empty: SelectionRow, selected: Sequence[bool], categories: Sequence[str], groups: Mapping[str, Sequence[str]]
) -> Iterator[SelectionRow]:
    """Yield the rows of one decision in one category of persons, or in an intersection of several."""
    try:
        ratios = impact_ratios(selected, *(groups[name] for name in categories))
    except UndefinedError as error:
        yield replace(empty, note=str(error))
        return
    counts = ratios.persons, ratios.shares, ratios.selected, ratios.rates
    columns = [column.tolist() for column in (*counts, ratios.ratios, ratios.low, ratios.high)]
    for group, persons, share, chosen, rate, ratio, low, high in zip(ratios.groups, *columns, strict=True):
        row = replace(empty, group=" and ".join(group), persons=persons, share=share, selected=chosen, rate=rate)
        if math.isnan(ratio):
            yield replace(row, note=f"under {100 * LEAST_SHARE:g} % of the persons: no ratio")
        else:
            yield replace(row, ratio=ratio, low=low, high=high)
    if ratios.unknown:
        yield replace(empty, group="unknown", persons=ratios.unknown, note="not counted")


def _decisions(rows: Sequence[Row], decided: Sequence[str]) -> Iterator[tuple[str, list[bool]]]:
    """Yield each decision with whether each person is selected by it."""
    if _PREDICTION in decided:
        predicted = [row.name(_PREDICTION) for row in rows]
        for name in sorted(set(predicted)):
            yield name, [prediction == name for prediction in predicted]
    if _SELECTED in decided:
        yield _SELECTED, [_truth(row) for row in rows]
    if _SCORE in decided:
        yield ABOVE_MEDIAN, above_median([_score(row) for row in rows]).tolist()


def _group(row: Row, column: str) -> str:
    """Return the group of a person; an empty text if it is unknown."""
    value = row.cells[column]
    if value is None or (isinstance(value, str) and folded(value) in _UNKNOWN):
        return ""
    name = row.name(column)
    return group_name(name) if column in _MAIN_CATEGORIES else name


def _truth(row: Row) -> bool:
    value = row.cells[_SELECTED]
    if (known := _TRUTHS.get(folded(str(value)))) is None:
        raise row.error(f"expected 1 or 0 in column {_SELECTED!r}, got {brief(value)}")
    return known


def _score(row: Row) -> float:
    value = row.cells[_SCORE]
    try:
        score = float(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        score = math.nan
    if not math.isfinite(score):
        raise row.error(f"expected a number in column {_SCORE!r}, got {brief(value)}")
    return score
