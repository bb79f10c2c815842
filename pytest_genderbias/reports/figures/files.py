"""Pictures as files: SVG, and the folder of all pictures of a run with a page in markdown."""

from __future__ import annotations

import hashlib
import io
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_genderbias.folders import write_whole
from pytest_genderbias.reports.figures.data import cut
from pytest_genderbias.reports.figures.drawing import PALETTE, draw, png, styled
from pytest_genderbias.reports.picture import Picture
from pytest_genderbias.reports.run_report import RunReport
from pytest_genderbias.text.printable import escape

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_COLOURS = re.compile("|".join(sorted({light for light, _ in PALETTE.values()})), re.IGNORECASE)
_ROLES = {light.lower(): role for role, (light, _) in PALETTE.items()}
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_FONT = re.compile(r"'DejaVu Sans'")
_DIGITS = re.compile(r"(\.\d\d)\d+")
_SPACES = re.compile(r"\s+")
_NAMED = re.compile(r"series-(\d+)(?:-(\d+))?$")


def svg(picture: Picture, title: bool = False, prefix: str = "") -> str:
    """Return a picture as an SVG element, for a page (``title=False``) or for a file of its own.

    Its ids are its own, so that a page may hold many. It has a title and a description for those who do not see it, and
    each mark has its name as a tooltip. Colours are CSS variables
    (:func:`~pytest_genderbias.reports.figures.drawing.css` has both modes), with the light colours where the page sets
    none. It holds no script and refers to nothing outside.

    Args:
        picture: what it shows.
        title: whether the title is drawn.
        prefix: begins every id; by default a digest of the picture.
    """
    buffer = io.StringIO()
    with styled():
        draw(picture, title=title).savefig(
            buffer, format="svg", transparent=not title, metadata={"Date": None, "Creator": None}
        )
    root = ET.fromstring(buffer.getvalue())  # noqa: S314  # what matplotlib wrote
    prefix = prefix or "p" + hashlib.sha256(repr(picture).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    _clean(root, prefix)
    _name_marks(root, picture, prefix)
    _shorten(root, prefix)
    _describe(root, picture, prefix)
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _XLINK)
    return ET.tostring(root, encoding="unicode")


def _clean(root: ET.Element, prefix: str) -> None:
    """Give ids the prefix, colours their variables and texts the font of the page; drop matplotlib's metadata."""
    for metadata in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(metadata)
    referred = {m for element in root.iter() for v in element.attrib.values() for m in _REFERENCE.findall(v)}
    referred |= {v[1:] for element in root.iter() for k, v in element.attrib.items() if k.endswith("href")}
    for element in root.iter():
        for key, value in list(element.attrib.items()):
            if key == "id":
                if value in referred or _NAMED.match(value):
                    element.set(key, f"{prefix}-{value}")
                else:
                    del element.attrib[key]
            elif key.endswith("href"):
                element.set(key, f"#{prefix}-{value[1:]}")
            elif key == "style":
                element.set(key, _restyled(value, prefix))
            elif key == "clip-path":
                del element.attrib[key]
            elif "url(#" in value:
                element.set(key, _REFERENCE.sub(rf"url(#{prefix}-\1)", value))


def _restyled(style: str, prefix: str) -> str:
    style = _COLOURS.sub(lambda m: f"var(--figure-{_ROLES[m.group().lower()]}, {m.group()})", style)
    style = _FONT.sub("system-ui", style)
    return _REFERENCE.sub(rf"url(#{prefix}-\1)", style)


def _shorten(root: ET.Element, prefix: str) -> None:
    """Round coordinates, drop white space, and write each style once."""
    uses = Counter(style for element in root.iter() if (style := element.get("style")))
    classes = {style: f"{prefix}-{place}" for place, (style, n) in enumerate(uses.most_common()) if n > 1}
    for element in root.iter():
        element.tail = None
        if element.text is not None and not element.text.strip():
            element.text = None
        for key in ("d", "x", "y", "transform"):
            if key in element.attrib:
                element.set(key, _SPACES.sub(" ", _DIGITS.sub(r"\1", element.attrib[key])).strip())
        if (style := element.get("style")) in classes:
            element.set("class", classes[str(style)])
            del element.attrib["style"]
        if element.get("transform", "").startswith("rotate(-0 "):
            del element.attrib["transform"]
    sheet = next(root.iter(f"{{{_SVG}}}style"))
    sheet.text = "".join(f".{name}{{{style}}}" for style, name in classes.items())


def _name_marks(root: ET.Element, picture: Picture, prefix: str) -> None:
    """Give each mark that has a name a tooltip."""
    names = {
        f"{prefix}-series-{number}": series.labels
        for panel in picture.panels
        for number, series in enumerate(panel.series)
    }
    if len(picture.panels) > 1:  # their series have the same numbers
        return
    for element in root.iter():
        identity = element.get("id", "")
        match = _NAMED.search(identity)
        if match is None:
            continue
        labels = names.get(identity.removesuffix(f"-{match[2]}") if match[2] else identity, ())
        points = list(element.iter(f"{{{_SVG}}}use"))
        if match[2]:
            _add_title(element, labels, int(match[2]))
        elif len(points) == len(labels):
            for place, point in enumerate(points):
                _add_title(point, labels, place)


def _add_title(element: ET.Element, labels: tuple[str, ...], place: int) -> None:
    if place < len(labels) and labels[place]:
        title = ET.Element(f"{{{_SVG}}}title")
        title.text = cut(labels[place], 200)
        element.insert(0, title)


def _describe(root: ET.Element, picture: Picture, prefix: str) -> None:
    texts: Mapping[str, str] = {"title": cut(picture.title, 200), "desc": cut(picture.alt, 2000)}
    for place, (tag, text) in enumerate(texts.items()):
        element = ET.Element(f"{{{_SVG}}}{tag}", {"id": f"{prefix}-{tag}"})
        element.text = text
        root.insert(place, element)
    root.set("role", "img")
    root.set("aria-labelledby", f"{prefix}-title {prefix}-desc")
    root.set("class", "figure")
    narrowest = 0.92 * float(root.get("width", "0pt").removesuffix("pt"))  # smaller texts could not be read
    root.set("style", f"min-width: {narrowest:.0f}px")


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
        texts = (picture.suite, picture.model, "" if picture.model else picture.statistic, picture.kind)
        slugs = (re.sub(r"[^A-Za-z0-9_]+", "-", text[: 4 * _LONGEST])[:_LONGEST].strip("-") for text in texts)
        stem = "-".join(filter(None, slugs))
        name, number = stem, 1
        while name.lower() in used:
            number += 1
            name = f"{stem}-{number}"
        used.add(name.lower())
        yield name, picture
