"""Pictures of measurements, runs and trainings: as plain data, as figures of matplotlib, and as SVG.

In a notebook, each function takes what was measured and returns a figure::

    from pytest_genderbias import measure
    from pytest_genderbias.reports import figures

    figures.signed_bars(measure("lm-occupation", "demo-lm"))

matplotlib is imported when something is drawn.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_genderbias.errors import UnknownNameError
from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.variance import value_variance
from pytest_genderbias.reports.figures import runs, studies
from pytest_genderbias.reports.figures.drawing import draw as draw
from pytest_genderbias.reports.figures.drawing import png as png
from pytest_genderbias.reports.picture import Picture
from pytest_genderbias.suites.statistic import Statistic

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def signed_bars(measurement: Measurement) -> Figure:
    """Return signed bars, one per unit: the bias of each occupation, profession, class or word (lu2018, fig. 2 and 4).

    Raises:
        UnknownNameError: the suite has no such picture, as in the functions below.
    """
    return _of_kind(measurement, "signed bars")


def scatter(measurement: Measurement) -> Figure:
    """Return units against the share of women, with line and interval (Winogender, STS, biographies)."""
    return _of_kind(measurement, "scatter")


def fills(measurement: Measurement) -> Figure:
    """Return significant fills by template (webster2020)."""
    return _of_kind(measurement, "fills")


def heat_map(measurement: Measurement) -> Figure:
    """Return the probability of neutral by both words of a pair, as polarity and demonym (dev2019)."""
    return _of_kind(measurement, "heat map")


def words_by_set(measurement: Measurement) -> Figure:
    """Return the associations of the words of each set (WEAT, CEAT)."""
    return _of_kind(measurement, "words by set")


def histogram(measurement: Measurement) -> Figure:
    """Return the differences of pairs of sentences."""
    return _of_kind(measurement, "histogram")


def compression(measurement: Measurement) -> Figure:
    """Return the compression of a probe, beside its controls."""
    return _of_kind(measurement, "probe")


class Figures(list["Figure"]):
    """Several figures, which a notebook shows below each other."""

    def _repr_html_(self) -> str:
        images = (base64.b64encode(figure._repr_png_()).decode() for figure in self)  # type: ignore[attr-defined]  # draw's own class
        return "\n".join(f'<p><img src="data:image/png;base64,{image}"></p>' for image in images)


def all_of(measurement: Measurement) -> Figures:
    """Return all pictures of a measurement, the most telling first."""
    from pytest_genderbias.reports.pictures import pictures_of

    return Figures(draw(picture) for picture in pictures_of(measurement))


def models(measurements: Sequence[Measurement], statistic: str | None = None) -> Figure:
    """Return a statistic of one suite, the main one by default, on several models, with intervals."""
    return _drawn(runs.models(measurements, statistic), "two models with a value of one suite")


def accuracy_and_bias(measurements: Sequence[Measurement], statistic: str | None = None) -> Figure:
    """Return accuracy (or perplexity) against bias, a point a model, on one suite that measures both."""
    return _drawn(runs.accuracy_and_bias(measurements, statistic), "two models with both figures of one suite")


def mitigations(judgements: Sequence[Judgement], about: Statistic | None = None) -> Figure:
    """Return a statistic before and after mitigations and in their controls, from what ``judge_reduction`` returned
    (dev2019).
    """
    return _drawn(runs.mitigations(judgements, about), "the judgement of a mitigation")


def price(judgements: Sequence[Judgement], about: Statistic | None = None) -> Figure:
    """Return a statistic against a figure of the task, as accuracy, before and after mitigations with a budget."""
    return _drawn(runs.price(judgements, about), "the judgement of a mitigation with a budget")


def retrained(judgements: Sequence[Judgement]) -> Figure:
    """Return bias against compression, as models are and with new heads, from
    ``judge_reduction(..., superficial=True)`` (orgad2022).
    """
    return _drawn(runs.retrained(judgements), "the judgement of a mitigation whose compression is known")


def variance(measurements: Sequence[Measurement]) -> Figure:
    """Return the sources of variance of the main statistic of each measurement."""
    return _drawn(runs.variance([value_variance(one) for one in measurements]), "a measurement with sums by item")


def along_training(trainings: Mapping[str, Sequence[Mapping[str, Any]]], statistic: str) -> Figure:
    """Return a statistic and the performance over the steps of trainings, from their histories by name (lu2018, figure
    3).
    """
    return draw(studies.along_training(trainings, statistic))


def growth(result: Any, statistic: str | None = None) -> Figure:
    """Return a statistic and the performance along trainings with and without mitigations, from what ``growth``
    returned (lu2018, figure 3).
    """
    return draw(studies.growth_of_sides(result, statistic))


def resilience(result: Any, statistic: str | None = None) -> Figure:
    """Return a statistic over fine-tuning steps and by frozen part, from what ``resilience`` returned (webster2020,
    figures 1 and 2).
    """
    return draw(studies.resilience(result, statistic))


def agreement(study: Any, intrinsic: str, extrinsic: str) -> Figure:
    """Return an extrinsic figure against an intrinsic one over methods and seeds, before and after retraining
    (orgad2022, figures 3 to 7).
    """
    return _drawn(studies.agreement(study, intrinsic, extrinsic), f"a study with points of {intrinsic} and {extrinsic}")


def _of_kind(measurement: Measurement, kind: str) -> Figure:
    from pytest_genderbias.reports.pictures import pictures_of

    pictures = pictures_of(measurement)
    return _drawn(
        next((picture for picture in pictures if picture.kind == kind), None),
        f"a suite with {kind}; {measurement.suite} has {', '.join(p.kind for p in pictures) or 'no pictures'}",
    )


def _drawn(picture: Picture | None, expected: str) -> Figure:
    if picture is None:
        raise UnknownNameError(f"there is nothing to draw: expected {expected}")
    return draw(picture)
