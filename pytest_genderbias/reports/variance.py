"""The table of ``bias_variance``: what a value hangs on."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_genderbias.measurement.variance import ValueVariance

HEADERS = ("suite", "model", "statistic", "source", "levels", "variance", "share", "share of the value's variance")
NOTES = (
    "share: of the variance of a single score (one item in one template). Share of the value's variance: how far another sample of this source "
    "would move the value, a mean over all levels; more of the source with the largest share makes it surer.",
    "Components below 0 are estimated as 0, and said so; with few levels all of them are rough.",
)


def variance_rows(variances: Sequence[ValueVariance]) -> list[list[str]]:
    """Return the texts of the rows, one for each of ``HEADERS``, as they are."""
    return [
        [
            one.suite, one.model, one.statistic, share.source, f"{share.levels:,}",
            "0 (estimate below 0)" if share.below_zero else f"{share.variance:.3g}", _percent(share.share), _percent(share.share_of_value),
        ]
        for one in variances
        for share in one.shares
    ]  # fmt: skip


def variance_notes(variances: Sequence[ValueVariance]) -> list[str]:
    """Return the lines below the table: how to read it, and why values have no row."""
    reasons = variance_reasons(variances)
    if any(one.shares for one in variances):
        return [*NOTES, *reasons]
    return reasons or ["bias_variance: nothing was measured"]


def variance_reasons(variances: Sequence[ValueVariance]) -> list[str]:
    """Return a line for each value without known sources, which says why."""
    return [f"no shares of variance: {one.suite} on {one.model}: {one.reason}" for one in variances if not one.shares]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
