"""The picture of agreement: extrinsic against intrinsic bias, before and after retraining (orgad2022, figures 3 to
7).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pytest_genderbias.reports.figures.data import cut, numbers
from pytest_genderbias.reports.picture import Axis, Panel, Picture, Series
from pytest_genderbias.text.numbers import counted

#: Colour and fill of the methods in their order; the models before stand apart in grey.
_MARKS = tuple((colour, hollow) for hollow in (False, True) for colour in ("first", "second", "third", "fourth"))
_OF_NO_METHOD, _OF_FURTHER = ("muted", False), ("muted", True)
_FURTHER = "further methods"


class Study(Protocol):
    """What is drawn of an :class:`~pytest_genderbias.mitigation.harness.agreement.AgreementStudy`.

    A point is a model: a ``method`` with a ``seed``, and ``is_mitigated``. A row is how two figures agree,
    ``before retraining`` or ``after retraining`` (``head``).
    """

    @property
    def points(self) -> Sequence[Any]: ...  # noqa: D102

    @property
    def rows(self) -> Sequence[Any]: ...  # noqa: D102

    def pairs(self, intrinsic: str, extrinsic: str, head: str = ..., /) -> Sequence[tuple[Any, float, float]]:
        """Return the points with both figures."""


def agreement(study: Study, intrinsic: str, extrinsic: str) -> Picture | None:
    """Return an extrinsic figure against an intrinsic one, a point a model, with the least-squares line.

    Methods differ by colour and mark. The panels are before and after retraining, if the study has both.

    Args:
        study: as :func:`~pytest_genderbias.mitigation.harness.agreement.agreement` returned it.
        intrinsic: name of the intrinsic figure, as ``probe-compression/compression``.
        extrinsic: name of the extrinsic figure, as ``bios/tpr_gap_sum``.

    Returns:
        The picture; ``None`` if the study has no two points with both figures.
    """
    rows = [row for row in study.rows if (row.intrinsic, row.extrinsic) == (intrinsic, extrinsic)]
    drawn = [(row, study.pairs(intrinsic, extrinsic, row.head)) for row in rows]
    drawn = [(row, pairs) for row, pairs in drawn if len(pairs) > 1]
    if not drawn:
        return None
    methods = dict.fromkeys(point.method for point in study.points)
    mitigated = list(dict.fromkeys(point.method for point in study.points if point.is_mitigated))
    panels = tuple(
        Panel(Axis(intrinsic), Axis(extrinsic), (*_by_method(pairs, list(methods), mitigated), *_line(row, pairs)), _title(row, len(drawn) > 1))
        for row, pairs in drawn
    )  # fmt: skip
    words = "; ".join(f"{row.head} {_in_words(row)} over {counted(len(pairs), 'points')}" for row, pairs in drawn)
    left_out = drawn[0][0].insignificant
    alt = f"{extrinsic} against {intrinsic}, by {counted(len(methods), 'methods')}: {words}."
    caption = (
        "A point is a model: one method with one seed. A line that rises closely along the points says that the"
        " intrinsic figure shows the bias of the task; one that does so only after retraining, that methods hide bias"
        " in the head and leave it in the encoder. Bounds are over methods and seeds."
    )
    if left_out:
        caption += f" {counted(left_out, 'points')} with p of .05 or more {'is' if left_out == 1 else 'are'} left out."
    suite, _, statistic = extrinsic.rpartition("/")
    return Picture("agreement", suite, "", statistic, f"{cut(extrinsic, 60)} and {cut(intrinsic, 60)}", alt, caption, panels)  # fmt: skip


def _by_method(pairs: Sequence[tuple[Any, float, float]], methods: list[str], mitigated: list[str]) -> list[Series]:
    """Return the points of each method; those beyond eight methods share one mark."""
    marks = dict(zip(mitigated, _MARKS, strict=False))
    marks |= {method: _OF_NO_METHOD for method in methods if method not in mitigated}
    groups: dict[str, list[tuple[Any, float, float]]] = {m: [] for m in methods if m in marks}
    for pair in pairs:
        groups.setdefault(pair[0].method if pair[0].method in marks else _FURTHER, []).append(pair)
    return [
        Series(
            cut(method), "points", numbers([x for _, x, _ in group]), numbers([y for _, _, y in group]),
            labels=tuple(cut(f"{point.method}, seed {point.seed}") for point, _, _ in group),
            colour=marks.get(method, _OF_FURTHER)[0], hollow=marks.get(method, _OF_FURTHER)[1],
        )
        for method, group in groups.items()
        if group
    ]  # fmt: skip


def _line(row: Any, pairs: Sequence[tuple[Any, float, float]]) -> list[Series]:
    """Return the least-squares line between the outermost points."""
    if row.agreement is None:
        return []
    ends = [min(x for _, x, _ in pairs), max(x for _, x, _ in pairs)]
    heights = [row.agreement.intercept + row.agreement.slope * x for x in ends]
    return [Series("least squares", "line", numbers(ends), numbers(heights), colour="text")]


def _title(row: Any, several: bool) -> str:
    figures = _in_words(row)
    if not several:
        return figures
    return f"{row.head.capitalize()}: {figures}"


def _in_words(row: Any) -> str:
    """Return R squared with its bounds, and r."""
    if row.agreement is None:
        return f"R squared is undefined: {row.reason}"
    result = row.agreement
    bounds = result.r_squared_bounds
    between = f" ({bounds.low:.2f} to {bounds.high:.2f})" if bounds else ""
    return f"R² {result.r_squared:.2f}{between}, r {result.r:+.2f}"
