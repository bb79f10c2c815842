"""``draw``: a picture as a matplotlib figure. Nothing global is changed, and no window is opened."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from textwrap import fill
from typing import TYPE_CHECKING, Any

from pytest_genderbias.reports.figures.data import cut, shown
from pytest_genderbias.reports.picture import Axis, Numbers, Panel, Picture, Series

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


#: By role: the colour on white, and that on a dark ground. In an SVG each light colour is the fallback of a CSS
#: variable. Both have a contrast of 3 or more to their ground, texts of 7 or more.
PALETTE = {
    "ground": ("#fefefe", "#16191d"),
    "text": ("#1b1f24", "#e8eaed"),
    "muted": ("#6a7179", "#a2a9b0"),
    "grid": ("#d9dce1", "#3c4148"),
    "first": ("#0064a6", "#7cc0f8"),
    "second": ("#c2560c", "#f5a35c"),
    "third": ("#00795c", "#57d3ae"),
    "fourth": ("#8b4f9f", "#d6a6e6"),
}
_HEAT = (
    ("#00224e", "#3d6fd1"), ("#223b6e", "#5b7fb5"), ("#4b546c", "#76899f"), ("#6a6e70", "#8b9095"),
    ("#898a78", "#a09d8d"),
    ("#aca473", "#b8ac78"), ("#d3c164", "#d3c165"), ("#f6e14f", "#f6e150"),
)  # fmt: skip
PALETTE |= {f"heat-{place}": pair for place, pair in enumerate(_HEAT)}
#: Steps of one scale from blue, for the value farthest from neutral, to yellow (cividis).
HEAT = tuple(light for light, _ in _HEAT)
EMPTY = PALETTE["ground"][0]  #: a cell without a value


def css() -> str:
    """Return the colours as CSS variables, ``--figure-first`` and so on, for a page that holds SVG pictures in both
    modes.
    """
    light = "".join(f"--figure-{role}: {pair[0]}; " for role, pair in PALETTE.items())
    dark = "".join(f"--figure-{role}: {pair[1]}; " for role, pair in PALETTE.items())
    return f":root {{ {light}}}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n"


_WIDTH = 4.8  #: inches
_DOTS, _DOTS_OF_FILES = 110, 160  #: an inch, of what a notebook shows, and of a file
_SIZE = 9.0  #: points of a text
_KEY = 74  #: characters of a row of the legend
_ROW, _CELL = 0.19, 0.2  #: inches of a row of words, and of a cell of a heat map
_MARKERS = {"first": "o", "second": "s", "third": "^", "fourth": "D", "muted": "o", "text": "|"}
_STYLE = {
    "font.size": _SIZE, "axes.titlesize": _SIZE, "axes.labelsize": _SIZE, "legend.fontsize": _SIZE - 0.5,
    "xtick.labelsize": _SIZE - 0.5, "ytick.labelsize": _SIZE - 0.5, "text.parse_math": False,
    "axes.unicode_minus": False, "svg.fonttype": "none", "svg.hashsalt": "figure", "text.usetex": False,
    "font.family": ["sans-serif"], "font.sans-serif": ["DejaVu Sans"], "path.simplify": False,
    "axes.formatter.use_mathtext": False, "text.color": PALETTE["text"][0], "axes.labelcolor": PALETTE["text"][0],
    "xtick.color": PALETTE["muted"][0], "ytick.color": PALETTE["muted"][0], "xtick.labelcolor": PALETTE["text"][0],
    "ytick.labelcolor": PALETTE["text"][0], "axes.edgecolor": PALETTE["grid"][0], "axes.linewidth": 0.8,
    "figure.facecolor": PALETTE["ground"][0], "axes.facecolor": "none",
}  # fmt: skip


@contextmanager
def styled() -> Iterator[None]:
    """Draw with our style inside, and with the caller's again afterwards."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)  # type: ignore[arg-type, unused-ignore]  # its keys are literals
        yield


def draw(picture: Picture, title: bool = True) -> Figure:
    """Return a picture as a matplotlib figure, which notebooks show, and which ``savefig`` writes.

    Args:
        picture: what it shows.
        title: whether the figure bears the title; a page that has it beside the picture leaves it out.
    """
    with styled():
        heights = [_height(panel) for panel in picture.panels]
        width = max(map(_width, picture.panels), default=_WIDTH)
        lines = fill(cut(picture.title, 200), int(width * 10.5)) if title else ""
        above = [0.17 * (lines.count("\n") + 1) + 0.1] if title else []
        figure: Figure = _shown_figure()((width, sum(heights) + sum(above)), layout="constrained")
        rows = figure.subfigures(len(heights) + len(above), 1, height_ratios=above + heights, squeeze=False)[:, 0]
        if title:
            rows[0].text(0.012, 0.1, lines, fontsize=_SIZE + 1, fontweight="bold", va="bottom")
        for row, panel in zip(rows[len(above) :], picture.panels, strict=True):
            _draw_panel(row.add_subplot(), row, panel)
        return figure


@cache
def _shown_figure() -> type[Figure]:
    """Return the class of figures, which a notebook shows as a picture even where no backend of pyplot is active."""
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            with styled():
                self.savefig(buffer, format="png", dpi=_DOTS)
            return buffer.getvalue()

    return ShownFigure


def png(picture: Picture) -> bytes:
    """Return a picture as PNG with its title, on white; the file says in words what it shows."""
    buffer = io.BytesIO()
    with styled():
        about = {"Title": _latin(picture.title), "Description": _latin(picture.alt)}
        draw(picture).savefig(buffer, format="png", dpi=_DOTS_OF_FILES, metadata=about)
    return buffer.getvalue()


def _latin(text: str) -> str:
    """Return a text as PNG's text chunks can hold it."""
    return text.encode("latin-1", "replace").decode("latin-1")


def _height(panel: Panel) -> float:
    if any(series.marks == "cells" for series in panel.series):
        longest = max(map(len, panel.x.words), default=0)
        return 1.2 + _CELL * len(panel.y.words) + 0.075 * min(longest, 40)
    names = _keyed(panel)
    lines = fill(cut(panel.x.label, 150), _x_room(panel)).count("\n") + fill(cut(panel.title, 80), 62).count("\n")
    above = 0.72 + 0.18 * -(-len(names) // _key_columns(names)) + (0.22 if panel.title else 0.0) + 0.15 * lines
    if panel.y.words:
        many = any(s.marks == "points" and s.colour != "none" and len(s.x) > 6 for s in panel.series)
        spread = many and len(panel.y.words) <= 6
        return above + (0.62 if spread else _ROW if len(panel.y.words) > 8 else 0.26) * len(panel.y.words)
    return above + 2.4


def _x_room(panel: Panel) -> int:
    """Return how many characters of its label fit below the x axis."""
    return max(26, 70 - min(40, max(map(len, panel.y.words), default=8)))


def _keyed(panel: Panel) -> list[str]:
    """Return the names that the legend has; none where one name would say nothing."""
    names = [_label(s) for s in panel.series if s.name and s.marks not in ("cells", "arrows")]
    needed = len(names) > 1 or any(s.marks in ("line", "columns", "ranges") for s in panel.series if s.name)
    return names if needed else []


def _key_columns(names: Sequence[str]) -> int:
    widths = sorted((len(name) + 6 for name in names), reverse=True)
    return max((k for k in range(1, 1 + len(names)) if sum(widths[:k]) <= _KEY), default=1)


def _width(panel: Panel) -> float:
    if any(series.marks == "cells" for series in panel.series):
        return max(_WIDTH, 1.9 + _CELL * len(panel.x.words))
    return _WIDTH


def _draw_panel(axes: Axes, figure: SubFigure, panel: Panel) -> None:
    heat = any(series.marks == "cells" for series in panel.series)
    for number, series in enumerate(panel.series):
        _DRAW[series.marks](axes, series, panel, f"series-{number}")
    for side in ("top", "right", *(("left",) if panel.y.words else ())):
        axes.spines[side].set_visible(False)
    _dress(axes, panel.x, "x", heat, _x_room(panel))
    _dress(axes, panel.y, "y", heat, 42)
    axes.set_axisbelow(True)
    if not heat:
        axes.grid(True, axis="x" if panel.y.words else "both", color=PALETTE["grid"][0], linewidth=0.7)
    if heat:
        handles, title = _heat_key(panel)
        columns = max(3, int(_width(panel) / 1.5))
    else:
        names = _keyed(panel)
        handles = axes.get_legend_handles_labels()[0] if names else []
        title, columns = fill(cut(panel.title, 80), 62), _key_columns(names)
    if handles or title:
        place: dict[str, Any] = {"loc": "outside upper left", "alignment": "left", "borderaxespad": 0.2}
        inside: dict[str, Any] = {"ncols": columns, "frameon": False, "handletextpad": 0.5, "columnspacing": 1.4}
        figure.legend(handles=handles, title=title or None, **place, **inside)


def _dress(axes: Axes, axis: Axis, which: str, heat: bool, most: int) -> None:
    """Set label, scale, names of places and the neutral line of an axis; ``most`` characters fit into a line of the
    label.
    """
    its = axes.xaxis if which == "x" else axes.yaxis
    if axis.label:
        its.set_label_text(fill(cut(axis.label, 150), most))
    if axis.log:
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
        its.set_major_formatter(lambda value, _: f"{value:,g}")
        its.set_tick_params(which="minor", length=0, labelsize=0)
    if axis.whole:
        from matplotlib.ticker import MaxNLocator

        its.set_major_locator(MaxNLocator(6, integer=True))
    if axis.words:
        places = list(axis.ticks) or list(range(len(axis.words)))
        its.set_ticks(places, [cut(word, 38) for word in axis.words])
        its.set_tick_params(length=0)
        if not axis.ticks:
            low, high = -0.6, len(axis.words) - 0.4
            _ = axes.set_ylim(high, low) if which == "y" else axes.set_xlim(low, high)
        if heat and which == "x":
            for label in axes.get_xticklabels():
                label.set_rotation(90)
    if axis.neutral is not None and not axis.words:
        line = axes.axvline if which == "x" else axes.axhline
        line(axis.neutral, color=PALETTE["text"][0], linewidth=1.1, zorder=1.6)


def _finite(*columns: Numbers) -> tuple[list[int], list[list[float]]]:
    """Return the numbers of the marks that have all values, and their values by column."""
    places = [place for place, row in enumerate(zip(*columns, strict=True)) if None not in row]
    return places, [[value for place in places if (value := column[place]) is not None] for column in columns]


def _label(series: Series) -> str:
    """Return the name for the legend; matplotlib leaves out what begins with an underscore."""
    name = cut(series.name, 40)
    return f" {name}" if name.startswith("_") else name or "_"


def _colour(series: Series) -> str:
    return PALETTE.get(series.colour, PALETTE["text"])[0]


def _style(series: Series) -> dict[str, Any]:
    return {"color": _colour(series), "label": _label(series)}


def _bars(axes: Axes, series: Series, panel: Panel, gid: str) -> None:
    places, (x, y, low) = _finite(series.x, series.y, series.low or (0.0,) * len(series.x))
    widths = [end - start for end, start in zip(x, low, strict=True)]
    _name_marks(axes.barh(y, widths, 0.74, low, **_style(series)), places, gid)


def _columns(axes: Axes, series: Series, panel: Panel, gid: str) -> None:
    """Draw columns; where the other axis has names they are marks across a row."""
    places, (x, y, low) = _finite(series.x, series.y, series.low or (0.0,) * len(series.x))
    if panel.y.words:
        axes.vlines(x, low, y, linewidth=2.0, zorder=4, **_style(series)).set_gid(gid)
        return
    width = 0.9 * min((second - first for first, second in pairwise(sorted(x))), default=1.0)
    heights = [end - start for end, start in zip(y, low, strict=True)]
    _name_marks(axes.bar(x, heights, width, low, **_style(series)), places, gid)


def _name_marks(bars: Iterable[Any], places: Sequence[int], gid: str) -> None:
    """Give each bar an id, by which its label is found again."""
    for bar, place in zip(bars, places, strict=True):
        bar.set_gid(f"{gid}-{place}")


def _points(axes: Axes, series: Series, panel: Panel, gid: str) -> None:
    """Draw points, and the labels that are written. Without a colour, only the labels are drawn."""
    places, (at, up) = _finite(series.x, series.y)
    bare = series.colour == "none"
    if not bare:
        size, marker, own = 16 if len(places) > 60 else 26, _MARKERS.get(series.colour, "o"), _colour(series)
        inside, edge, width = ("none", own, 1.1) if series.hollow else (own, PALETTE["ground"][0], 0.4)
        how: dict[str, Any] = {"facecolors": inside, "edgecolors": edge, "linewidths": width}
        axes.scatter(at, up, size, marker=marker, label=_label(series), zorder=3, **how).set_gid(gid)
    middle = sum(at) / len(at) if at else 0.0
    colour, vertical = PALETTE["muted" if bare else "text"][0], "center" if bare else "bottom"
    for place, x, y in zip(places, at, up, strict=True):
        if place in series.written and series.labels[place]:
            beyond = not bare and x > middle
            beside = (-5 if beyond else 5, 0 if panel.y.words and bare else 4)
            aligned = {"ha": "right" if beyond else "left", "va": vertical, "textcoords": "offset points"}
            how = {"fontsize": _SIZE - 1, "annotation_clip": False, "color": colour, **aligned}
            axes.annotate(cut(series.labels[place], 36), (x, y), beside, **how).set_in_layout(bare)


def _line(axes: Axes, series: Series, panel: Panel, gid: str) -> None:
    _, (x, y) = _finite(series.x, series.y)
    marker = _MARKERS.get(series.colour, "") if series.labels else ""
    how: dict[str, Any] = {
        "linewidth": 1.6,
        "linestyle": "--" if series.hollow else "-",
        "marker": marker,
        "markersize": 4.5,
    }
    (line,) = axes.plot(x, y, zorder=2.5, **how, **_style(series))
    line.set_gid(gid)


def _band(axes: Axes, series: Series, panel: Panel, gid: str) -> None:
    _, (x, low, high) = _finite(series.x, series.low, series.high)
    axes.fill_between(x, low, high, alpha=0.22, linewidth=0, zorder=1.4, **_style(series)).set_gid(gid)


def _ranges(axes: Axes, series: Series, panel: Panel, gid: str) -> None:
    _, (y, low, high) = _finite(series.y, series.low, series.high)
    width, alpha = (6.0, 0.3) if series.colour == "muted" else (1.8, 1.0)
    axes.hlines(y, low, high, linewidth=width, alpha=alpha, zorder=2.2, **_style(series)).set_gid(gid)


def _spans(axes: Axes, series: Series, panel: Panel, gid: str) -> None:
    _, (x, low, high) = _finite(series.x, series.low, series.high)
    axes.vlines(x, low, high, linewidth=1.6, **_style(series)).set_gid(gid)


def _arrows(axes: Axes, series: Series, panel: Panel, gid: str) -> None:
    how = {"arrowstyle": "-|>", "color": PALETTE["muted"][0], "linewidth": 1.0, "shrinkA": 4, "shrinkB": 4}
    _, columns = _finite(series.x, series.y, series.low)
    for x, y, low in zip(*columns, strict=True):
        axes.annotate("", (x, y), (low, y), arrowprops=how)


def _cells(axes: Axes, series: Series, panel: Panel, gid: str) -> None:
    from matplotlib.colors import ListedColormap

    columns, rows = len(panel.x.words), len(panel.y.words)
    low, step = _scale(series)
    codes = [_step(z, low, step) for z in series.z]
    cells = [codes[columns * i : columns * (i + 1)] for i in range(rows)]
    x, y = ([place - 0.5 for place in range(count + 1)] for count in (columns, rows))
    how: dict[str, Any] = {"vmin": -1.5, "vmax": len(HEAT) - 0.5, "edgecolors": PALETTE["ground"][0], "linewidth": 0.6}
    axes.pcolormesh(x, y, cells, cmap=ListedColormap([EMPTY, *HEAT]), **how).set_gid(gid)


def _scale(series: Series) -> tuple[float, float]:
    """Return the least value of a heat map and the width of a step of its colours.

    The scale goes from 0 to 1 where all values lie there, so that pictures of two models have the same colours.
    """
    known = [z for z in series.z if z is not None]
    low, high = min([0.0, *known]), max([1.0, *known])
    return low, (high - low) / len(HEAT) or 1.0


def _step(z: float | None, low: float, step: float) -> int:
    return -1 if z is None else min(len(HEAT) - 1, int((z - low) / step))


def _heat_key(panel: Panel) -> tuple[list[Artist], str]:
    """Return what explains the colours of a heat map, those that occur, and its title."""
    from matplotlib.patches import Patch

    (series,) = (series for series in panel.series if series.marks == "cells")
    low, step = _scale(series)
    present = sorted({_step(z, low, step) for z in series.z} - {-1})
    return [
        Patch(color=HEAT[i], label=f"{shown(low + step * i)} to {shown(low + step * (i + 1))}") for i in present
    ], series.name


_DRAW = {
    "bars": _bars, "columns": _columns, "points": _points, "line": _line, "band": _band, "cells": _cells,
    "ranges": _ranges, "spans": _spans, "arrows": _arrows,
}  # fmt: skip
