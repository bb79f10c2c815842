"""The sections of the page between the gates and the suites: main figures, models against each other, mitigations,
variances.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pytest_genderbias.gates.comparison import Comparison
from pytest_genderbias.reports import run_tables
from pytest_genderbias.reports.html.suite_sections import make_overview
from pytest_genderbias.reports.html.tables import (
    PageCell,
    PageColumn,
    PageFigure,
    PagePart,
    PageRow,
    PageTable,
    make_table,
    naming_cell,
)
from pytest_genderbias.reports.run_report import NotJudged, RunReport

_TITLES = {
    "gates-then-and-now": "Then and now",
    "overview": "Main figures",
    "drift": "How far values have come",
    "comparisons": "Models against each other",
    "mitigations": "What the mitigations did",
    "variances": "What the values hang on",
    "pictures": "Across suites and models",
}
#: The sections in which pictures of some kinds stand. Others stand in the section of their suite.
_KINDS = {
    "growth": "gates-then-and-now", "drift": "drift", "mitigation": "mitigations", "retrained": "mitigations", "resilience": "mitigations", "variance": "variances",
}  # fmt: skip
_LEADING_NUMBER = re.compile(r"\(?(-?[0-9][0-9,]*(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?)")
_COMPARED = (
    PageColumn("Suite", head=True, wide=True),
    PageColumn("Model"),
    PageColumn("Value", numeric=True),
    PageColumn("Than"),
    PageColumn("Worse by", numeric=True),
    PageColumn("p (Holm)", numeric=True),
    PageColumn("Better"),
)


def place_of(figure: PageFigure, suite_ids: Mapping[str, str]) -> str:
    """Return the id of the section in which a picture stands."""
    return _KINDS.get(figure.kind) or suite_ids.get(figure.suite, "pictures")


def make_parts(report: RunReport, suite_ids: Mapping[str, str], figures: Sequence[PageFigure]) -> Iterator[PagePart]:
    """Yield the sections that the run has something for.

    Args:
        report: of the run.
        suite_ids: by the name of a suite: id of its section.
        figures: all pictures of the page.
    """
    parts = {part.id: part for part in _tables(report, suite_ids)}
    for part_id, title in _TITLES.items():
        own = tuple(figure for figure in figures if place_of(figure, suite_ids) == part_id)
        if part_id in parts or own:
            yield replace(parts.get(part_id, PagePart(part_id, title, None)), figures=own)


def _tables(report: RunReport, suite_ids: Mapping[str, str]) -> Iterator[PagePart]:
    """Yield the sections with a table, or with notes that say why there is none."""
    if report.measurements:
        lead = (
            (
                "One line a suite and model: its main statistic. By chance: what randomly exchanged groups give on the"
                " same scores."
            ),
        )
        yield _part("overview", make_overview(report.measurements, suite_ids), lead=lead)
    if report.comparisons or report.not_compared:
        rows = [_compared(one) for one in report.comparisons]
        table = make_table("comparisons-table", _TITLES["comparisons"], _COMPARED, rows) if rows else None
        yield _part("comparisons", table, run_tables.comparison_notes(report.comparisons, report.not_compared))
    headers, reductions = run_tables.reduction_rows(report.judgements)
    if reductions:
        yield _part("mitigations", _table("mitigations", headers, reductions))
    if report.variances:
        shares = run_tables.variance_rows(report.variances)
        table = _table("variances", run_tables.VARIANCES, shares) if shares else None
        notes = [*(run_tables.VARIANCE_NOTES if shares else ()), *run_tables.variance_reasons(report.variances)]
        yield _part("variances", table, notes)


def _part(part_id: str, table: PageTable | None, notes: Iterable[str] = (), lead: tuple[str, ...] = ()) -> PagePart:
    return PagePart(part_id, _TITLES[part_id], table, lead, tuple(notes))


def make_not_judged(tests: Sequence[NotJudged]) -> PagePart | None:
    """Return the section on tests that could not judge, with their reasons; ``None`` if all did."""
    if not tests:
        return None
    rows = [(test.test, test.model, test.reason) for test in tests]
    title = "Not run, and why"
    lead = (f"{len(tests):,} test{'s' * (len(tests) > 1)} of this run neither passed nor failed.",)
    return PagePart("not-judged", title, _table("not-judged", ("test", "model", "reason"), rows, title), lead)


def _compared(one: Comparison) -> PageRow:
    texts = dict(zip(run_tables.COMPARED, run_tables.comparison_cells(one), strict=True))
    bounds = tuple(filter(None, (texts["95 % bounds"], f"over {texts['over']}" if texts["over"] else "")))
    return PageRow(
        (
            naming_cell(texts["suite"], texts["statistic"]),
            PageCell(texts["model"]),
            _numeric_cell(texts["value"]),
            PageCell(texts["than"], (texts["its value"],)),
            replace(_numeric_cell(texts["worse by"]), notes=bounds),
            _numeric_cell(texts["p (Holm)"]),
            PageCell(texts["better"]),
        )
    )


def _table(part_id: str, headers: Iterable[str], rows: Sequence[Sequence[str]], title: str = "") -> PageTable:
    """Return a table of texts; a column of numbers is sorted as such."""
    numeric = [all(_number(row[i]) is not None or row[i] in ("", "-") for row in rows) for i in range(len(rows[0]))]
    columns = tuple(
        PageColumn(header[:1].upper() + header[1:], numeric=of_numbers, head=i == 0, wide=i == 0)
        for i, (header, of_numbers) in enumerate(zip(headers, numeric, strict=True))
    )
    cells = [
        PageRow(
            tuple(
                _numeric_cell(text) if of_numbers else PageCell(text)
                for text, of_numbers in zip(row, numeric, strict=True)
            )
        )
        for row in rows
    ]
    return make_table(f"{part_id}-table", title or _TITLES[part_id], columns, cells)


def _numeric_cell(text: str) -> PageCell:
    number = _number(text)
    return PageCell(text, key="" if number is None else number)


def _number(text: str) -> float | None:
    """Return the number with which a text begins.

    >>> _number("12.5 %"), _number("(0.04)"), _number("1,200"), _number("none")
    (12.5, 0.04, 1200.0, None)
    """
    match = _LEADING_NUMBER.match(text)
    return None if match is None else float(match[1].replace(",", ""))
