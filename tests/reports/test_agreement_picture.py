"""The picture of agreement: points by method, the line, both panels, and its words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from pytest_genderbias.errors import UnknownNameError
from pytest_genderbias.mitigation.harness.agreement import AgreementPoint, BiasFigure, agreement
from pytest_genderbias.reports import figures
from pytest_genderbias.reports.figures.studies import agreement as agreement_picture
from pytest_genderbias.reports.picture import KINDS, Picture

INTRINSIC, EXTRINSIC = BiasFigure("ceat", "combined_effect_size", "p_value"), BiasFigure("bios", "tpr_gap_sum")
NAMES = (INTRINSIC.name, EXTRINSIC.name)


def study(methods=("none", "cda", "scrubbing"), new_heads=True):
    points = [
        AgreementPoint(
            method,
            seed,
            {INTRINSIC.name: 1 + (i + 3 * seed) % 5},
            {INTRINSIC.name: 0.5 if seed == 3 else 0.001},
            {EXTRINSIC.name: 2.0 - 0.1 * ((i + seed) % 4)},
            {EXTRINSIC.name: 1 + (i + 3 * seed) % 5 + 0.1 * seed} if new_heads else {},
        )
        for i, method in enumerate(methods)
        for seed in range(4)
    ]
    return agreement(points, [INTRINSIC], [EXTRINSIC], resamples=99)


def test_points_of_a_method_have_one_mark_and_the_line_is_that_of_least_squares():
    of_study = study()
    picture = agreement_picture(of_study, *NAMES)
    assert picture.kind in KINDS and Picture.from_dict(picture.to_dict()) == picture
    assert [panel.title.partition(":")[0] for panel in picture.panels] == ["Before retraining", "After retraining"]
    for panel, key in zip(picture.panels, ("own_head", "new_head"), strict=True):
        *groups, line = panel.series
        assert [series.name for series in groups] == ["none", "cda", "scrubbing"]
        assert len({(series.colour, series.hollow) for series in groups}) == 3
        pairs = [(p.intrinsic[NAMES[0]], getattr(p, key)[NAMES[1]]) for p in of_study.points if p.seed < 3]
        drawn = [pair for series in groups for pair in zip(series.x, series.y, strict=True)]
        assert np.array(sorted(drawn)) == pytest.approx(np.array(sorted(pairs)))
        expected = stats.linregress(*zip(*pairs, strict=True))
        assert line.y == pytest.approx([expected.intercept + expected.slope * x for x in line.x], abs=1e-4)
    assert picture.panels[0].series[1].labels[0] == "cda, seed 0"
    assert "3 points with p of .05 or more are left out." in picture.caption
    assert "over 9 points" in picture.alt


def test_without_retraining_there_is_one_panel_and_many_methods_share_the_last_mark():
    picture = agreement_picture(study([f"method {i}" for i in range(11)], new_heads=False), *NAMES)
    (panel,) = picture.panels
    *groups, _ = panel.series
    assert len(groups) == 9 and groups[-1].name == "further methods" and len(groups[-1].x) == 9
    assert len({(series.colour, series.hollow) for series in groups}) == 9
    assert panel.title.startswith("R² ")


def test_a_study_without_an_agreement_shows_its_points_and_one_without_points_is_no_picture():
    of_study = study()
    flat = [replace(point, own_head={EXTRINSIC.name: 1.0}) for point in of_study.points]
    picture = agreement_picture(agreement(flat, [INTRINSIC], [EXTRINSIC], resamples=9), *NAMES)
    assert all(series.marks == "points" for series in picture.panels[0].series)
    assert "undefined: the extrinsic figure is the same for all points" in picture.alt
    assert agreement_picture(of_study, "nothing", EXTRINSIC.name) is None
    with pytest.raises(UnknownNameError, match="expected a study with points of nothing and bios/tpr_gap_sum"):
        figures.agreement(of_study, "nothing", EXTRINSIC.name)


def test_it_is_drawn():
    assert len(figures.agreement(study(), *NAMES).subfigs) == 3
