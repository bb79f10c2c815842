"""Colours of pictures in light and dark mode, which people with any colour vision can tell apart."""

from __future__ import annotations

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
    ("#00224e", "#3d6fd1"), ("#223b6e", "#5b7fb5"), ("#4b546c", "#76899f"), ("#6a6e70", "#8b9095"), ("#898a78", "#a09d8d"),
    ("#aca473", "#b8ac78"), ("#d3c164", "#d3c165"), ("#f6e14f", "#f6e150"),
)  # fmt: skip
PALETTE |= {f"heat-{place}": pair for place, pair in enumerate(_HEAT)}
#: Steps of one scale from blue, for the value farthest from neutral, to yellow (cividis).
HEAT = tuple(light for light, _ in _HEAT)
EMPTY = PALETTE["ground"][0]  #: a cell without a value


def css(scope: str = ":root") -> str:
    """Return the colours as CSS variables, ``--figure-first`` and so on, for a page that holds SVG pictures in both
    modes.

    Args:
        scope: selector of the page, for which the variables are set.
    """
    light = "".join(f"--figure-{role}: {pair[0]}; " for role, pair in PALETTE.items())
    dark = "".join(f"--figure-{role}: {pair[1]}; " for role, pair in PALETTE.items())
    return f"{scope} {{ {light}}}\n@media screen and (prefers-color-scheme: dark) {{ {scope} {{ {dark}}} }}\n"
