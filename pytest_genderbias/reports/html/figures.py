"""The pictures of the page, drawn into it."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_genderbias.reports.html.tables import PageFigure, safe
from pytest_genderbias.reports.picture import Picture


def draw_figures(pictures: Iterable[Picture]) -> list[PageFigure]:
    """Return the pictures as safe markup, in their order."""
    from pytest_genderbias.reports.figures.svg import svg

    return [
        PageFigure(safe(svg(one, prefix=f"picture-{number}")), one.kind, one.suite, one.title, one.caption)
        for number, one in enumerate(pictures, 1)
    ]
