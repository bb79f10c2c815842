"""Pictures of measurements, runs and trainings: as plain data, as figures of matplotlib, and as SVG.

In a notebook, each function takes what was measured and returns a figure::

    from pytest_genderbias import measure
    from pytest_genderbias.reports import figures

    figures.signed_bars(measure("lm-occupation", "demo-lm"))

matplotlib is imported when something is drawn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_genderbias.reports.figures.drawing import draw, png
    from pytest_genderbias.reports.figures.notebook import (
        accuracy_and_bias,
        agreement,
        all_of,
        along_training,
        compression,
        fills,
        growth,
        heat_map,
        histogram,
        mitigations,
        models,
        price,
        resilience,
        retrained,
        scatter,
        signed_bars,
        variance,
        words_by_set,
    )

_EXPORTS = {"draw": "drawing", "png": "drawing"}  #: all others are in notebook

__all__ = [
    "accuracy_and_bias",
    "agreement",
    "all_of",
    "along_training",
    "compression",
    "draw",
    "fills",
    "growth",
    "heat_map",
    "histogram",
    "mitigations",
    "models",
    "png",
    "price",
    "resilience",
    "retrained",
    "scatter",
    "signed_bars",
    "variance",
    "words_by_set",
]


def __getattr__(name: str) -> object:
    """Import a function when it is first used, so that a run that draws nothing imports nothing for it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"pytest_genderbias.reports.figures.{_EXPORTS.get(name, 'notebook')}"), name)
