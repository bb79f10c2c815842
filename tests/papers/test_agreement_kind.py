"""The kind ``agreement``: the figures of each method by seed, and what compares them."""

from __future__ import annotations

from pathlib import Path

import pytest
from scipy import stats

from pytest_genderbias.errors import UnknownNameError
from pytest_genderbias.mitigation.harness.agreement import (
    OWN_HEAD,
    AgreementPoint,
    AgreementStudy,
    BiasFigure,
    agreement,
)
from pytest_genderbias.papers.config import RunConfig
from pytest_genderbias.papers.kinds import compared, compared_without_one
from pytest_genderbias.papers.places import Places, read_run, write_run
from pytest_genderbias.papers.shown import extended, make_run, missing_seeds


def test_the_figures_of_methods_and_their_agreement_are_stored(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(f"He is a man, and she met him in {year}." for year in range(1900, 1960)) + "\n")
    settings = {
        "model": "demo-mlm",
        "methods": {"cda": [{"name": "cda"}], "dropout": [{"name": "dropout"}]},
        "seeds": [4, 7],
        "recipe": {"name": "masked-lm", "corpus": str(text), "steps": 2, "batch_size": 2, "max_length": 16},
        "intrinsic": [{"suite": "lm-occupation", "as": "half", "statistics": ["aggregate_bias"], "limit": 32}],
        "extrinsic": [{"suite": "lm-occupation", "statistics": ["aggregate_bias", "signed_bias"], "limit": 64}],
    }
    run = make_run(RunConfig("a", "", "agreement", {"small": settings}), "small", Places({}, tmp_path))
    assert list(run.seeds) == [4, 7]
    assert len(list(tmp_path.glob("masked-lm-*"))) == 4, "no control is trained, since none is compared"
    study = AgreementStudy.from_dict(run.details["agreement"])
    assert [(point.method, point.seed) for point in study.points] == [
        ("none", 4),
        ("cda", 4),
        ("cda", 7),
        ("dropout", 4),
        ("dropout", 7),
    ]
    for name in ("aggregate_bias", "signed_bias"):
        values = [point.own_head[f"lm-occupation/{name}"] for point in study.points]
        assert run.figures[f"dropout/lm-occupation/{name}"].values == values[3:]
        result = study.row("half/aggregate_bias", f"lm-occupation/{name}", OWN_HEAD).agreement
        stored = run.figures[f"before retraining/half/{name} r_squared"]
        assert stored.mean == pytest.approx(result.r_squared)
        assert stored.interval is None and result.r_squared_bounds is None, "the one model before has no other seeds"
    assert run.figures["cda/half/aggregate_bias"].values == [
        point.intrinsic["half/aggregate_bias"] for point in study.points[1:3]
    ]
    assert not [key for key in run.figures if "retrained" in key or "after retraining" in key]
    alone = [point for point in study.points if point.method != "dropout"]
    x, y = (
        [point.intrinsic["half/aggregate_bias"] for point in alone],
        [point.own_head["lm-occupation/signed_bias"] for point in alone],
    )
    figure = run.figures["without dropout before retraining/half/signed_bias r"]
    assert len(x) == 3 and figure.mean == pytest.approx(stats.pearsonr(x, y).statistic)
    write_run(run, tmp_path)
    assert read_run(tmp_path / "a.json").figures == run.figures
    whole = RunConfig("a", "", "agreement", {"small": {**settings, "seeds": [4, 7, 9]}})
    further = make_run(whole, "small", Places({}, tmp_path), missing_seeds(whole, "small", run))
    assert list(further.seeds) == [9]
    both, at_once = extended(run, further, whole, Places({}, tmp_path)), make_run(whole, "small", Places({}, tmp_path))
    assert (both.seeds, both.figures, both.details) == (at_once.seeds, at_once.figures, at_once.details)


def test_bounds_are_stored_as_intervals():
    points = [
        AgreementPoint(f"m{i % 4}", i // 4, {"probe/compression": i * 7 % 11}, {}, {"bios/gap": i * 5 % 13})
        for i in range(20)
    ]
    figures = [BiasFigure("probe", "compression")], [BiasFigure("bios", "gap")]
    study = agreement(points, *figures, resamples=99)
    stored = dict(compared(study))
    result = study.rows[0].agreement
    assert stored["before retraining/probe/gap r"].interval == (result.r_bounds.low, result.r_bounds.high)
    assert stored["before retraining/probe/gap r_squared"].interval[1] == result.r_squared_bounds.high


EXTRINSIC = {"careers": "bios", "coref-documents": "coref-winobias"}
RESULTS = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "papers"


@pytest.mark.skipif(not RESULTS.is_dir(), reason="the stored results lie in the checkout")
@pytest.mark.parametrize("name", ["careers", pytest.param("coref-documents", marks=pytest.mark.slow)])
def test_stored_agreements_are_those_of_the_stored_points(name):
    """The points come back from the file; r without one method is scipy's on the points that are left."""
    run = read_run(RESULTS / f"{name}.json")
    study = AgreementStudy.from_dict(run.details["agreement"])
    figures = {**dict(compared(study)), **dict(compared_without_one(study))}
    assert figures.items() <= run.figures.items() and len(figures) > len(study.rows) * 2
    for method in {point.method for point in study.points} - {"none"}:
        kept = [point for point in study.points if point.method != method]
        x, y = (
            [p.intrinsic["probe-compression/compression"] for p in kept],
            [p.new_head[f"{EXTRINSIC[name]}/tpr_gap_sum"] for p in kept],
        )
        stored = run.figures[f"without {method} after retraining/probe-compression/tpr_gap_sum r"]
        assert stored.mean == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-12)
    with pytest.raises(UnknownNameError, match="no point is of the method 'wed'; there are none, "):
        study.without("wed")
