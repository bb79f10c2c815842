"""What the terminal shows at the end of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_genderbias.gates.comparison import Comparison, LeftOut
from pytest_genderbias.gates.judgement import SettledJudgement
from pytest_genderbias.gates.policy import WARNED
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.plugin.acceptance import show_number
from pytest_genderbias.plugin.terminal import show
from pytest_genderbias.reports.comparison import comparison_notes, make_comparison_table
from pytest_genderbias.reports.reduction import make_reduction_table
from pytest_genderbias.reports.table import make_table

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter


@dataclass(frozen=True)
class RunSummary:
    """The results of a run.

    Attributes:
        skipped: suites that were skipped, by model and reason.
        messages: lines with their markup.
        comparisons: between models; ``None`` if the run compares none.
        not_compared: suites that could not be compared.
    """

    measurements: Sequence[Measurement]
    judgements: Sequence[SettledJudgement]
    skipped: Mapping[tuple[str, str], Iterable[str]]
    messages: Sequence[tuple[str, str]]
    comparisons: Sequence[Comparison] | None = None
    not_compared: Sequence[LeftOut] = ()

    def with_comparisons(self, comparisons: Sequence[Comparison], not_compared: Sequence[LeftOut]) -> RunSummary:
        """Return the summary of a run that compares models."""
        return replace(self, comparisons=comparisons, not_compared=not_compared)


def print_summary(summary: RunSummary, terminalreporter: TerminalReporter) -> None:
    """Print the section ``bias``."""
    terminalreporter.section("bias", sep="=")
    for text, markup in _lines(summary):
        show(terminalreporter, text, markup)


def _lines(summary: RunSummary) -> Iterator[tuple[str, str]]:
    """Yield each text with its markup."""
    judgements = [settled.judgement for settled in summary.judgements]
    if table := make_table(summary.measurements, judgements):
        yield table, ""
    if reductions := make_reduction_table(judgements):
        yield (f"\n{reductions}" if table else reductions), ""
    if summary.comparisons is not None:
        comparisons = make_comparison_table(summary.comparisons)
        yield "", ""
        yield comparisons or "--bias-compare: no suite was measured on two models", ""
        for note in comparison_notes(summary.comparisons, summary.not_compared):
            yield note, ""
    notes = (
        f"note: {measurement.suite} on {measurement.model}: {note}"
        for measurement in summary.measurements
        for note in measurement.notes
    )
    for line in dict.fromkeys(notes):
        yield line, ""
    for (model, reason), suites in summary.skipped.items():
        where = f" on {model}" if model else ""
        yield f"skipped{where}: {', '.join(suites)}: {reason}", ""
    for settled in summary.judgements:
        if settled.outcome == WARNED:
            yield settled.judgement.text.splitlines()[0], "yellow"
    for line in _accepted(summary.judgements):
        yield line, "yellow"
    yield from summary.messages


def _accepted(judgements: Sequence[SettledJudgement]) -> dict[str, None]:
    """Return the worse values that were accepted with a reason, until the value recovers."""
    return {
        f"accepted on {value.date}: {judgement.suite}.{value.statistic} on {judgement.model} {show_number(value.old)} -> "
        f"{show_number(value.new)}: {value.reason}": None
        for judgement in (settled.judgement for settled in judgements)
        for value in judgement.accepted
    }
