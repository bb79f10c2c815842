"""The tables of grids: every point that was tried, its figures, and which one was chosen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_genderbias.gates.choice import TriedGrid
from pytest_genderbias.gates.judgement import SettledJudgement


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
        if judgement.of_reduction is not None and (tried := judgement.of_reduction.grid) is not None:
            grid = TriedGrid.from_dict(tried)
            headers, rows = grid.rows()
            table = GridTable(f"Grid of {judgement.model}", f"Judged is {grid.in_words()}.", headers, rows)
            tables.setdefault(repr((judgement.model, tried)), table)
    return list(tables.values())
