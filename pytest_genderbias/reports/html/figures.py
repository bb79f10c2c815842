"""The pictures of the page, drawn into it."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_genderbias.reports.html.tables import PageFigure, safe
from pytest_genderbias.reports.picture import Picture


def draw_figures(pictures: Iterable[Picture]) -> list[PageFigure]:
    """Return the pictures as safe markup, by suite and model, those of several models last."""
    from pytest_genderbias.reports.figures.svg import svg

    return [
        PageFigure(safe(svg(one, prefix=f"picture-{number}")), one.kind, one.suite, one.title, one.caption, one.others)
        for number, one in enumerate(sorted(pictures, key=lambda one: (one.suite, not one.model, one.model)), 1)
    ]
