"""What the terminal shows at the end of a run."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_genderbias.gates.comparison import Comparison, LeftOut
from pytest_genderbias.gates.judgement import SettledJudgement
from pytest_genderbias.gates.verdicts import WARNED
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.variance import ValueVariance
from pytest_genderbias.plugin.acceptance import show_number
from pytest_genderbias.plugin.reasons import INAPPLICABLE, NO_MODEL, OTHER_MODELS, Unjudged
from pytest_genderbias.plugin.terminal import show
from pytest_genderbias.reports.baseline_history import baseline_history
from pytest_genderbias.reports.comparison import comparison_notes, make_comparison_table
from pytest_genderbias.reports.plan import make_plan_table, plan_notes
from pytest_genderbias.reports.reduction import make_reduction_table
from pytest_genderbias.reports.table import make_table
from pytest_genderbias.reports.variance import make_variance_table

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter


@dataclass(frozen=True)
class RunSummary:
    """The results of a run.

    Attributes:
        unjudged: tests that did not judge, each with its model; the model is empty if the run has none for it.
        messages: lines with their markup.
        comparisons: between models; ``None`` if the run compares none.
        not_compared: suites that could not be compared.
        variances: sources of variance; ``None`` if the run shows none.
    """

    measurements: Sequence[Measurement]
    judgements: Sequence[SettledJudgement]
    unjudged: Sequence[tuple[str, Unjudged]]
    messages: Sequence[tuple[str, str]]
    comparisons: Sequence[Comparison] | None = None
    not_compared: Sequence[LeftOut] = ()
    variances: Sequence[ValueVariance] | None = None

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
    if table := make_table(summary.measurements, summary.judgements):
        yield table, ""
    if reductions := make_reduction_table(summary.judgements):
        yield (f"\n{reductions}" if table else reductions), ""
    judgements = [settled.judgement for settled in summary.judgements]
    if plans := make_plan_table(judgements):
        yield f"\n{plans}", ""
        for note in plan_notes(judgements):
            yield note, ""
    if summary.comparisons is not None:
        comparisons = make_comparison_table(summary.comparisons)
        yield "", ""
        yield comparisons or "--bias-compare: no suite was measured on two models", ""
        for note in comparison_notes(summary.comparisons, summary.not_compared):
            yield note, ""
    if summary.variances is not None:
        yield "", ""
        yield make_variance_table(summary.variances), ""
    notes = (
        f"note: {measurement.suite} on {measurement.model}: {note}"
        for measurement in summary.measurements
        for note in measurement.notes
    )
    for line in dict.fromkeys(notes):
        yield line, ""
    yield from _unjudged(summary.unjudged)
    for settled in summary.judgements:
        if settled.outcome == WARNED:
            yield settled.judgement.text.splitlines()[0], "yellow"
    for line in _accepted(summary.judgements):
        yield line, "yellow"
    for line in baseline_history(summary.judgements, datetime.date.today()):
        yield line, ""
    yield from summary.messages


def _unjudged(tests: Sequence[tuple[str, Unjudged]]) -> Iterator[tuple[str, str]]:
    """Yield what was skipped: a line for each reason, and one that counts the gates of a run without a model."""
    inapplicable: dict[tuple[str, str], dict[str, None]] = {}
    for model, test in tests:
        if test.kind == INAPPLICABLE:
            reason = test.reason.removeprefix(test.name).lstrip(": ")
            inapplicable.setdefault((model, reason), {})[test.name] = None
    for (model, reason), names in inapplicable.items():
        where = f" on {model}" if model else ""
        yield f"skipped{where}: {', '.join(names)}: {reason}", ""
    if elsewhere := [test for _, test in tests if test.kind == OTHER_MODELS]:
        yield f"not for the models of this run: {', '.join(test.name for test in elsewhere)}", ""
    if idle := sum(test.kind == NO_MODEL for _, test in tests):
        yield (
            f"{idle} bias test{'s were' if idle > 1 else ' was'} not judged, since no model is named: give one with --bias-model=[NAME=]SPEC. "
            "With 'bias_strict = true' in the ini file, or --bias-strict, this fails",
            "yellow",
        )


def _accepted(judgements: Sequence[SettledJudgement]) -> dict[str, None]:
    """Return the worse values that were accepted with a reason, until the value recovers."""
    return {
        f"accepted on {value.date}: {judgement.suite}.{value.statistic} on {judgement.model} {show_number(value.old)} -> "
        f"{show_number(value.new)}: {value.reason}": None
        for judgement in (settled.judgement for settled in judgements)
        for value in judgement.accepted
    }
