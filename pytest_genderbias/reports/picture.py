"""``Picture``: what a picture shows, as plain data that any process can draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pytest_genderbias.measurement.plain_data import Stored

#: What a picture may be. A report can choose by it how wide a picture is.
KINDS = (
    "signed bars", "scatter", "fills", "heat map", "words by set", "histogram", "probe", "restarts", "models",
    "accuracy and bias", "mitigation", "training", "resilience", "retrained", "growth", "drift", "history", "variance",
    "agreement",
)  # fmt: skip
#: How the marks of a series are drawn.
MARKS = ("bars", "columns", "points", "line", "band", "cells", "ranges", "spans", "arrows")

Numbers = tuple[float | None, ...]


@dataclass(frozen=True)
class Axis:
    """An axis of a panel.

    Attributes:
        label: what it measures, with its unit.
        words: names of its places 0, 1, 2, ... where it has no numbers.
        neutral: the value of a model without bias, drawn as a line.
        log: whether it is logarithmic.
        whole: whether it counts, so that only whole numbers are marked.
        ticks: places with a name of their own, as training steps; the names are ``words``.
    """

    label: str = ""
    words: tuple[str, ...] = ()
    neutral: float | None = None
    log: bool = False
    whole: bool = False
    ticks: tuple[float, ...] = ()


@dataclass(frozen=True)
class Series:
    """Marks of one kind and colour. All sequences that are not empty have one entry a mark.

    Attributes:
        name: for the legend; empty for none.
        marks: how it is drawn, one of :data:`MARKS`. ``bars`` lie along x, ``columns`` along y; both reach from ``low``
            (default 0) to their end. ``band`` fills y from ``low`` to ``high``. ``ranges`` are lines along x from
            ``low`` to ``high``, and ``spans`` such lines along y. ``cells`` are coloured by ``z``. ``arrows`` point
            from ``low`` to x.
        x: places along x.
        y: places along y.
        low: lower ends.
        high: upper ends.
        z: values of cells; ``None`` for an empty cell.
        labels: names of the marks, for pointers.
        written: numbers of the marks whose label stands beside them.
        colour: role in the palette: ``first`` to ``fourth``, ``muted`` or ``text``.
        hollow: whether points are drawn as rings.
    """

    name: str
    marks: str
    x: Numbers = ()
    y: Numbers = ()
    low: Numbers = ()
    high: Numbers = ()
    z: Numbers = ()
    labels: tuple[str, ...] = ()
    written: tuple[int, ...] = ()
    colour: str = "first"
    hollow: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes, with what is drawn between them. ``title`` is empty in a picture of one panel."""

    x: Axis
    y: Axis
    series: tuple[Series, ...]
    title: str = ""


@dataclass(frozen=True)
class Picture(Stored):
    """The data of one picture.

    Attributes:
        kind: one of :data:`KINDS`.
        suite: name of the suite; empty for a picture of several.
        model: name of the model; empty for a picture of several.
        statistic: name of the statistic.
        title: what it shows, in a few words.
        alt: its finding in words, with figures, for readers who do not see it.
        caption: how to read it.
        panels: what is drawn, from top to bottom.
        others: the units that are not drawn, with their values; empty if all are.
    """

    called: ClassVar[str] = "picture"

    kind: str
    suite: str
    model: str
    statistic: str
    title: str
    alt: str
    caption: str = ""
    panels: tuple[Panel, ...] = ()
    others: str = ""
