"""``--to figures``: every picture of a run as PNG and SVG, and a page in markdown that shows them with their words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pytest_genderbias.folders import write_whole
from pytest_genderbias.reports.figures.drawing import png
from pytest_genderbias.reports.figures.svg import svg
from pytest_genderbias.reports.picture import Picture
from pytest_genderbias.reports.run_report import RunReport
from pytest_genderbias.text.printable import escape

INDEX = "figures.md"  #: the page that shows all of them
_LONGEST = 40  #: characters of each part of a name


def write_figures(report: RunReport, path: Path) -> None:
    """Write the pictures of a report into a folder, which is made if it is not there. Files of the same names are
    replaced.

    Args:
        report: of the run.
        path: the folder.

    Raises:
        OSError: a file cannot be written.
    """
    path.mkdir(parents=True, exist_ok=True)
    lines = ["# Pictures", ""]
    for name, picture in _named(report.pictures):
        write_whole(path / f"{name}.svg", svg(picture, title=True).encode())
        write_whole(path / f"{name}.png", png(picture))
        lines += [
            f"## {escape(picture.title)}",
            "",
            f"![{escape(picture.alt)}]({name}.png)",
            "",
            escape(picture.caption),
            "",
        ]
    if not report.pictures:
        lines.append("Nothing was measured that has a picture.")
    write_whole(path / INDEX, ("\n".join(lines).rstrip() + "\n").encode())


def _named(pictures: tuple[Picture, ...]) -> Iterator[tuple[str, Picture]]:
    """Yield the pictures, each with a file name of its own that holds no foreign character."""
    used: set[str] = set()
    for picture in pictures:
        parts = (
            _slug(part)
            for part in (picture.suite, picture.model, picture.statistic if not picture.model else "", picture.kind)
        )
        stem = "-".join(part for part in parts if part)
        name, number = stem, 1
        while name.lower() in used:
            number += 1
            name = f"{stem}-{number}"
        used.add(name.lower())
        yield name, picture


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "-", text[: 4 * _LONGEST])[:_LONGEST].strip("-")
