"""The tables of grids: every point that was tried, its figures, and which one was chosen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_genderbias.gates.judgement import SettledJudgement
from pytest_genderbias.mitigation.harness.choice import TriedGrid

_KEY = "grid"  #: of the facts of a judgement


@dataclass(frozen=True)
class GridTable:
    """A grid as texts: its title, what was chosen and on which seeds, and a row a point."""

    title: str
    note: str
    headers: list[str]
    rows: list[list[str]]


def grid_tables(judgements: Iterable[SettledJudgement]) -> list[GridTable]:
    """Return a table for each grid that a mitigation was chosen from, once for all judgements of the same grid."""
    tables: dict[str, GridTable] = {}
    for judgement in (settled.judgement for settled in judgements):
        if _KEY in judgement.facts:
            grid = TriedGrid.from_dict(judgement.facts[_KEY])
            headers, rows = grid.rows()
            table = GridTable(f"Grid of {judgement.model}", f"Judged is {grid.in_words()}.", headers, rows)
            tables.setdefault(repr((judgement.model, judgement.facts[_KEY])), table)
    return list(tables.values())
