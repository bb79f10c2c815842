"""Pictures of measurements as plain data: what they show, for every family, and what they say to those who do not see
them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.answered_suites import CASES, make_case, measurement_of

from pytest_genderbias import load_model, measure
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.restarts import combine_restarts
from pytest_genderbias.reports.picture import KINDS, MARKS, Picture, Series
from pytest_genderbias.reports.pictures import pictures_of
from pytest_genderbias.suites.suite import FAMILIES, load_family

#: What families show, and the kinds of its pictures.
SHOWN = {
    "along_component": ["signed bars"],
    "attribute_association": ["signed bars"],
    "class_gaps": ["scatter", "signed bars"],
    "decision_bars": ["signed bars"],
    "histogram": ["histogram"],
    "occupation_bars": ["signed bars"],
    "group_bars": ["signed bars"],
    "pronoun_likelihood": ["scatter"],
    "pronoun_ratio": ["scatter"],
    "sentence_similarity": ["scatter", "signed bars"],
    "sentiment_bars": ["signed bars"],
    "template_lean": ["signed bars"],
    "word_bias": ["signed bars"],
    "words_by_set": ["words by set"],
    "compression": ["probe"],
    "fills": ["fills"],
    "heat_map": ["heat map"],
}


def series_of(picture: Picture) -> Iterator[Series]:
    return (series for panel in picture.panels for series in panel.series)


@pytest.fixture(scope="module")
def occupations() -> Measurement:
    return measure("lm-occupation", load_model("demo-lm"), cache=None)


def test_every_family_has_pictures() -> None:
    """``results`` has none: which items a file has says nothing of how to draw them."""
    names = {family.picture for family in map(load_family, FAMILIES)} - {""}
    assert not names - set(SHOWN), f"SHOWN lacks the kinds of {names - set(SHOWN)}"
    assert names == set(SHOWN)


@pytest.mark.parametrize("name", CASES)
def test_pictures_of_every_family_are_plain_data_with_words(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    measurement = measurement_of(make_case(name, tmp_path_factory))
    pictures = pictures_of(measurement)
    family = load_family(measurement.signature["definition"].partition("/")[0])
    assert [picture.kind for picture in pictures] == SHOWN.get(family.picture, [])
    for picture in pictures:
        assert picture.kind in KINDS
        assert picture.title.startswith(f"{measurement.suite} on noise: ")
        assert len(picture.alt) > 60
        assert any(sign.isdigit() for sign in picture.alt)
        assert picture.caption.endswith(".")
        assert "nan" not in picture.alt
        for series in series_of(picture):
            assert series.marks in MARKS
            columns = [c for c in (series.x, series.y, series.low, series.high, series.labels) if c]
            assert len({len(column) for column in columns}) <= 1
        plain = json.loads(json.dumps(picture.to_dict(), allow_nan=False))
        assert Picture.from_dict(plain) == picture
        assert len(json.dumps(plain)) < 60_000
    again = Measurement.from_dict(json.loads(json.dumps(measurement.to_dict())))
    assert pictures_of(again) == pictures


def test_signed_bars_are_the_bias_of_each_occupation(occupations: Measurement) -> None:
    (picture,) = pictures_of(occupations)
    male, female = series_of(picture)
    assert [(side.name, side.colour) for side in (male, female)] == [("male", "second"), ("female", "first")]
    bias = dict(zip(occupations.items["occupation"].tolist(), occupations.items["bias"].tolist(), strict=True))
    drawn = dict(zip((*male.labels, *female.labels), (*male.x, *female.x), strict=True))
    assert drawn == pytest.approx({word: bias[word] for word in drawn}, abs=1e-3)
    assert len(bias) == 64 and len(drawn) == 20
    between = sorted(set(bias) - set(drawn), key=lambda word: -bias[word])
    assert picture.others.startswith(f"{between[0]} ({bias[between[0]]:+.3g}), {between[1]} (")
    assert picture.others.count("(") == 44, "each that is not drawn is listed"
    rows = picture.panels[0].y.words
    assert [drawn[row] for row in rows] == sorted(drawn.values(), reverse=True)  # type: ignore[type-var]
    highest = max(bias, key=lambda word: bias[word])
    assert f"most of all {highest} (+{bias[highest]:.3g})" in picture.alt


def test_many_units_are_cut_to_both_ends_and_the_caption_says_how_many_are_left_out() -> None:
    from pytest_genderbias.reports.figures.units import signed_bars

    measurement = measure("lm-occupation", load_model("demo-lm"), limit=16, cache=None)
    values = measurement.items["bias"].astype("float64").repeat(60)
    picture = signed_bars(measurement, [str(i) for i in range(len(values))], values, ("a", "b"), "words", "nats")
    assert picture is not None
    assert len(picture.panels[0].y.words) == 20
    assert f"The {len(values) - 20} words between the ends are not drawn." in picture.caption


def test_bars_of_no_unit_are_not_drawn(tmp_path_factory: pytest.TempPathFactory) -> None:
    measurement = measurement_of(make_case("bbq", tmp_path_factory))
    items = {**measurement.items, "ambiguous": 0 * measurement.items["ambiguous"]}
    assert pictures_of(replace(measurement, items=items)) == ()


def test_the_line_of_a_scatter_is_the_measured_slope(tmp_path_factory: pytest.TempPathFactory) -> None:
    measurement = measurement_of(make_case("sts", tmp_path_factory))
    scatter = pictures_of(measurement)[0]
    band, line, points = series_of(scatter)
    (x0, x1), (y0, y1) = (line.x[0], line.x[-1]), (line.y[0], line.y[-1])
    assert None not in (x0, x1, y0, y1)
    slope = measurement.values["slope"]
    assert slope is not None
    assert (y1 - y0) / (x1 - x0) == pytest.approx(slope, rel=0.01)  # type: ignore[operator]
    assert len(points.x) == 60
    interval = measurement.intervals["slope"]
    assert interval is not None
    assert (band.high[-1] - y1) == pytest.approx((interval.high - slope) * (x1 - sum(points.x) / 60), rel=0.02)  # type: ignore[arg-type,operator]
    assert f"slope {slope:+.3g} (95 % interval {interval.low:+.3g} to {interval.high:+.3g})" in scatter.alt


def test_a_heat_map_shows_the_means_and_names_the_extreme_cells(tmp_path_factory: pytest.TempPathFactory) -> None:
    measurement = measurement_of(make_case("nli", tmp_path_factory))
    (picture,) = pictures_of(measurement)
    panel, items = picture.panels[0], measurement.items
    (cells,) = panel.series
    premise, hypothesis = (items[key].tolist() for key in ("premise", "hypothesis"))
    for place, z in enumerate(cells.z):
        i, j = divmod(place, len(panel.x.words))
        at = premise.index(panel.y.words[i]), hypothesis.index(panel.x.words[j])
        n = items["n"][at]
        assert (z is None) == (n == 0)
        assert z is None or z == pytest.approx(items["net_neutral"][at] / n, rel=1e-3)


def test_colours_of_a_heat_map_are_those_of_any_other_model() -> None:
    from pytest_genderbias.reports.figures import drawing
    from pytest_genderbias.reports.picture import Series

    narrow, wide, beyond = (Series("", "cells", z=z) for z in ((0.8, None, 0.9), (0.1, 0.9), (0.5, 1.7)))
    assert drawing._scale(narrow) == drawing._scale(wide) == (0.0, 1 / len(drawing.HEAT))
    assert drawing._scale(beyond) == (0.0, 1.7 / len(drawing.HEAT))


def test_fills_are_counted_by_template_and_group(tmp_path_factory: pytest.TempPathFactory) -> None:
    measurement = measurement_of(make_case("disco-terms", tmp_path_factory))
    (picture,) = pictures_of(measurement)
    lengths = [
        end - start
        for series in series_of(picture)
        if series.marks == "bars"
        for end, start in zip(series.x, series.low, strict=True)
        if end is not None and start is not None
    ]
    assert sum(lengths) / len(picture.panels[0].y.words) == pytest.approx(measurement.values["significant_fills"])


def test_shortened_and_undefined_measurements_have_no_pictures(occupations: Measurement) -> None:
    assert pictures_of(replace(occupations, items={})) == ()
    assert pictures_of(replace(occupations, values={**occupations.values, occupations.main: None})) == ()


def test_foreign_texts_are_cut_and_escaped(occupations: Measurement) -> None:
    labels = occupations.items["occupation"].astype("U2000")
    labels[0], labels[1], labels[2] = "\x1b[31m\u202e$x$", "x" * 2000, "<script>"
    hostile = replace(occupations, items={**occupations.items, "occupation": labels}, model="y" * 5000)
    (picture,) = pictures_of(hostile)
    text = json.dumps(picture.to_dict(), ensure_ascii=False).replace('"model": "' + "y" * 5000, "")
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "x" * 60 not in text
    assert "y" * 60 not in text


def test_restarts_are_drawn_with_their_mean(occupations: Measurement) -> None:
    others = [replace(occupations, values={**occupations.values, "aggregate_bias": value}) for value in (0.1, 0.2, 0.6)]
    (picture,) = pictures_of(combine_restarts(others, [3, 4, 5]))
    interval, single, mean = series_of(picture)
    assert (picture.kind, picture.panels[0].y.words) == ("restarts", ("mean", "seed 3", "seed 4", "seed 5"))
    assert (single.x, mean.x) == ((0.1, 0.2, 0.6), (0.3,))
    assert interval.low[0] is not None
    assert interval.low[0] < 0.1
    assert "the restarts lie between 0.1 and 0.6" in picture.alt
