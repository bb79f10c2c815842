"""The sections of the page between the gates and the suites: main figures, models against each other, mitigations, plans, variances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_genderbias.reports import comparison, plan, reduction, variance
from pytest_genderbias.reports.html.suites import make_overview
from pytest_genderbias.reports.html.tables import (
    PageCell,
    PageColumn,
    PageFigure,
    PagePart,
    PageRow,
    PageTable,
    make_table,
)
from pytest_genderbias.reports.run_report import NotJudged, RunReport


def make_parts(report: RunReport, suite_ids: Mapping[str, str], figures: Sequence[PageFigure]) -> Iterator[PagePart]:
    """Yield the sections that the run has something for.

    Args:
        report: of the run.
        suite_ids: by the name of a suite: id of its section.
        figures: pictures that belong to no single suite.
    """
    if report.measurements:
        lead = (
            "One line a suite and model: its main statistic. By chance: what randomly exchanged groups give on the same scores.",
        )
        yield PagePart("overview", "Main figures", make_overview(report.measurements, suite_ids), lead)
    judgements = [settled.judgement for settled in report.judgements]
    if report.comparisons or report.not_compared:
        rows = [comparison.comparison_cells(one) for one in report.comparisons]
        table = _table("comparisons", "Models against each other", comparison.HEADERS, rows) if rows else None
        notes = comparison.comparison_notes(report.comparisons, report.not_compared)
        yield PagePart("comparisons", "Models against each other", table, notes=tuple(notes))
    headers, reductions = reduction.reduction_rows(report.judgements)
    if reductions:
        table = _table("mitigations", "What the mitigations did", headers, reductions)
        yield PagePart("mitigations", "What the mitigations did", table)
    if plans := plan.plan_rows(judgements):
        table = _table("plans", "What each gate resolves", plan.HEADERS, plans)
        yield PagePart("plans", "What each gate resolves", table, notes=tuple(plan.plan_notes(judgements)))
    if report.variances:
        shares = variance.variance_rows(report.variances)
        table = _table("variances", "What the values hang on", variance.HEADERS, shares) if shares else None
        notes = [*(variance.NOTES if shares else ()), *variance.variance_reasons(report.variances)]
        yield PagePart("variances", "What the values hang on", table, notes=tuple(notes))
    if figures:
        yield PagePart("pictures", "Across suites and models", None, figures=tuple(figures))


def make_not_judged(tests: Sequence[NotJudged]) -> PagePart | None:
    """Return the section on tests that could not judge, with their reasons; ``None`` if all did."""
    if not tests:
        return None
    rows = [(test.test, test.model, test.reason) for test in tests]
    table = _table("not-judged", "Tests that did not judge", ("test", "model", "reason"), rows)
    lead = (f"{len(tests):,} test{'s' * (len(tests) > 1)} of this run neither passed nor failed.",)
    return PagePart("not-judged", "Not run, and why", table, lead)


def _table(part_id: str, title: str, headers: Iterable[str], rows: Sequence[Sequence[str]]) -> PageTable:
    """Return a table of texts; a column of numbers is sorted as such."""
    numeric = [all(_number(row[i]) is not None or row[i] in ("", "-") for row in rows) for i in range(len(rows[0]))]
    columns = tuple(
        PageColumn(header[:1].upper() + header[1:], numeric=of_numbers, head=i == 0, wide=i == 0)
        for i, (header, of_numbers) in enumerate(zip(headers, numeric, strict=True))
    )
    cells = [
        PageRow(tuple(_cell(text, of_numbers) for text, of_numbers in zip(row, numeric, strict=True))) for row in rows
    ]
    return make_table(f"{part_id}-table", title, columns, cells)


def _cell(text: str, of_numbers: bool) -> PageCell:
    if not of_numbers:
        return PageCell(text)
    number = _number(text)
    return PageCell(text, key="" if number is None else number)


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", "").strip("()"))
    except ValueError:
        return None
