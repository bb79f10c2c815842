"""Pictures as matplotlib figures, PNG and SVG."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import matplotlib
import pytest
from support.answered_suites import make_case, measurement_of

from pytest_genderbias.reports.figures.drawing import PALETTE, css, draw, png
from pytest_genderbias.reports.figures.files import svg
from pytest_genderbias.reports.picture import Axis, Panel, Picture, Series
from pytest_genderbias.reports.pictures import pictures_of

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</title><script>alert(1)</script>$\\frac{1}{$ &amp; 'x' \"y\""
SMALL = Picture(
    "signed bars",
    "s",
    "m",
    "t",
    "title",
    "alt",
    "caption",
    (
        Panel(
            Axis("x", neutral=0.0),
            Axis(words=("a", "b")),
            (Series("one", "bars", (1.0, -1.0), (0.0, 1.0), labels=("a", "b")),),
        ),
    ),
)


def with_texts(text: str) -> Picture:
    series = [
        Series(text, "bars", (1.0,), (0.0,), labels=(text,)),
        Series(text, "points", (1.0, 2.0), (0.0, 0.0), labels=(text, text), written=(0,)),
        Series("_" + text, "line", (0.0, 1.0), (0.0, 0.0)),
    ]
    panel = Panel(Axis(text), Axis(text, (text,)), tuple(series), text)
    return Picture("signed bars", text, text, text, text, text, text, (panel, panel))


@pytest.mark.parametrize("name", ["bios", "disco-terms", "nli", "pairs-pll", "probe", "sts", "weat"])
@pytest.mark.filterwarnings("error")
def test_every_kind_is_drawn(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    for picture in pictures_of(measurement_of(make_case(name, tmp_path_factory))):
        text = svg(picture)
        root = ET.fromstring(text)
        title, desc = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
        assert title is not None
        assert desc is not None
        assert (title.text, desc.text) == (picture.title, picture.alt)
        assert root.get("aria-labelledby") == f"{title.get('id')} {desc.get('id')}"
        assert len(text) < 160_000
        ids = [element.get("id") for element in root.iter() if element.get("id")]
        assert len(ids) == len(set(ids))
        assert set(re.findall(r'(?:url\(|href=")#([^)"]+)', text)) <= set(ids)
        shown = {"".join(element.itertext()) for element in root.iter(f"{SVG}text")}
        assert set(picture.panels[0].y.words) <= shown
        assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)


def test_a_page_may_hold_many_and_sets_their_colours() -> None:
    first, second = svg(SMALL), svg(Picture(**{**vars(SMALL), "title": "other"}))
    assert not set(re.findall(r'id="([^"]+)"', first)) & set(re.findall(r'id="([^"]+)"', second))
    assert svg(SMALL) == first
    used = set(re.findall(r"var\(--figure-([\w-]+), (#\w+)\)", first))
    assert {("first", PALETTE["first"][0]), ("text", PALETTE["text"][0])} <= used
    for role in PALETTE:
        assert css().count(f"--figure-{role}: ") == 2
    assert not re.search(r"(?<!, )#[0-9a-f]{6}", first)


def contrast(first: str, second: str) -> float:
    def luminance(colour: str) -> float:
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_colours_stand_out(mode: int) -> None:
    ground = PALETTE["ground"][mode]
    assert contrast(PALETTE["text"][mode], ground) >= 7
    assert contrast(PALETTE["muted"][mode], ground) >= 4.5
    for role in ("first", "second", "third", "fourth"):
        assert contrast(PALETTE[role][mode], ground) >= 3


def test_marks_have_their_names_as_tooltips() -> None:
    titles = [element.text for element in ET.fromstring(svg(SMALL)).iter(f"{SVG}title")]
    assert titles == ["title", "a", "b"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "text", [HOSTILE, "", "x" * 100_000, "\x1b[31m\x00\u202e\ud800"], ids=["markup", "empty", "long", "control"]
)
def test_hostile_texts_are_texts(text: str) -> None:
    drawn = svg(with_texts(text), title=True)
    root = ET.fromstring(drawn)
    assert "<script" not in drawn
    assert not {"\x1b", "\x00", "\u202e"} & set(drawn)
    assert len(drawn) < 40_000
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg", "g", "path", "text", "use", "defs", "style", "title", "desc", "tspan", "clipPath", "rect",
    }  # fmt: skip
    assert png(with_texts(text)).startswith(b"\x89PNG")


def test_nothing_global_is_changed() -> None:
    before = dict(matplotlib.rcParams)
    figure = draw(SMALL)
    assert dict(matplotlib.rcParams) == before
    assert figure.get_figwidth() > 4


def test_functions_for_notebooks_take_measurements(tmp_path_factory: pytest.TempPathFactory) -> None:
    from matplotlib.figure import Figure

    from pytest_genderbias.errors import UnknownNameError
    from pytest_genderbias.reports import figures

    measurement = measurement_of(make_case("sts", tmp_path_factory))
    assert isinstance(figures.scatter(measurement), Figure)
    assert len(figures.all_of(measurement)) == 2
    # A notebook asks for these methods; without them it shows "<Figure size ...>", or for several a list of such texts.
    assert figures.scatter(measurement)._repr_png_().startswith(b"\x89PNG")
    shown = figures.all_of(measurement)._repr_html_()
    assert shown.count('<img src="data:image/png;base64,iVBOR') == 2
    with pytest.raises(UnknownNameError, match="expected a suite with fills; sts-occupation has scatter, signed bars"):
        figures.fills(measurement)
    with pytest.raises(UnknownNameError, match="expected two models"):
        figures.models([measurement])
