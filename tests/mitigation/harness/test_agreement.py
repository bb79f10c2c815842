"""Agreement over runs: which models are measured, what is left out, and what is stored."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from scipy import stats
from support.answered_suites import NoisyCoreference, winobias
from support.tiny_checkpoints import save_checkpoint

from pytest_genderbias import load_model
from pytest_genderbias.errors import DataFileError, SettingError, UnknownNameError
from pytest_genderbias.measurement.runner import Runner, RunSettings
from pytest_genderbias.mitigation import MitigationRun, make_method, make_recipe, mitigate
from pytest_genderbias.mitigation.harness.agreement import (
    COREFERENCE,
    INTRINSIC,
    NEW_HEAD,
    OCCUPATIONS,
    OWN_HEAD,
    AgreementPoint,
    AgreementStudy,
    BiasFigure,
    agreement,
)
from pytest_genderbias.suites.suite import load_suite

COMPRESSION, CEAT = "probe-compression/compression", "ceat/combined_effect_size"
GAP = BiasFigure("bios", "tpr_gap_sum")


def points(count=12):
    """Three methods with seeds; one effect is not significant, one p value is unknown, and one gap has no value."""
    made = [
        AgreementPoint(
            method=("none", "cda", "scrubbing")[i % 3],
            seed=i // 3,
            intrinsic={COMPRESSION: 1 + i * i % 7, CEAT: 0.1 * (i * 5 % 11)},
            p_values={CEAT: 0.2 if i == 4 else 0.05 if i == 5 else None if i == 6 else 0.01},
            own_head={GAP.name: 0.3 * (i * 3 % 8)},
            new_head={GAP.name: None if i == 0 else 2.0 + i * i % 7},
        )
        for i in range(count)
    ]
    return made


def test_the_papers_figures_are_statistics_of_our_suites():
    in_records = {"independence_sum", "separation_sum", "sufficiency_sum"}
    for figure in (*INTRINSIC, *OCCUPATIONS, *COREFERENCE):
        names = load_suite(figure.suite).statistics.keys()
        names |= in_records if figure.suite == "coref-winobias" else set()
        assert {figure.statistic, figure.p_value or figure.statistic} <= names, figure.name


def test_points_that_are_given_are_compared_as_scipy_does():
    made = points()
    study = agreement(made, extrinsics=[GAP], resamples=99)
    assert [(row.intrinsic, row.head) for row in study.rows] == [
        (figure, head) for figure in (COMPRESSION, CEAT) for head in (OWN_HEAD, NEW_HEAD)
    ]
    row = study.row(COMPRESSION, GAP.name)
    x, y = [p.intrinsic[COMPRESSION] for p in made], [p.own_head[GAP.name] for p in made]
    assert row.agreement.r == pytest.approx(stats.pearsonr(x, y).statistic)
    assert (row.agreement.points, row.insignificant, row.without_value) == (12, 0, 0)
    after = study.row(COMPRESSION, GAP.name, NEW_HEAD)
    assert after.agreement.r == pytest.approx(1.0), "the gap with new heads is the compression, and one more"
    assert (after.agreement.points, after.without_value) == (11, 1)


def test_points_whose_p_value_is_not_below_a_twentieth_are_left_out_and_counted():
    made = points()
    row = agreement(made, extrinsics=[GAP], resamples=99).row(CEAT, GAP.name)
    significant = [p for i, p in enumerate(made) if i not in (4, 5, 6)]
    x, y = [p.intrinsic[CEAT] for p in significant], [p.own_head[GAP.name] for p in significant]
    assert row.agreement.r == pytest.approx(stats.pearsonr(x, y).statistic)
    assert (row.agreement.points, row.insignificant, row.without_value) == (9, 3, 0)


def test_a_study_survives_json_and_its_table_says_what_was_left_out():
    study = agreement(points(), extrinsics=[GAP], resamples=99)
    text = json.dumps(study.to_dict())
    assert AgreementStudy.from_dict(json.loads(text)) == study
    table = study.table().splitlines()
    assert table[0].count("R²") == 2 and len(table) == 4
    assert "1 without a value" in table[2] and "3 with p ≥ 0.05; 1 without a value" in table[3]
    with pytest.raises(DataFileError, match="expected schema 1"):
        AgreementStudy.from_dict({**json.loads(text), "schema": 2})
    with pytest.raises(UnknownNameError, match=f"there are {COMPRESSION} with {GAP.name} {OWN_HEAD}"):
        study.row(COMPRESSION, "bios/nothing")


def test_an_agreement_without_a_value_says_why():
    same = [replace(point, intrinsic={COMPRESSION: 2.0}, p_values={}) for point in points()]
    study = agreement(same, [BiasFigure("probe-compression", "compression")], [GAP], resamples=9)
    row = study.row(COMPRESSION, GAP.name)
    assert row.agreement is None and row.reason == "the intrinsic figure is the same for all points"
    assert "undefined: the intrinsic figure is the same" in study.table()


@pytest.fixture(scope="module")
def careers(tmp_path_factory):
    """Seventy persons of two professions, with fewer female accountants."""
    jobs, groups = ("doctor", "accountant"), "MF"
    rows = [
        {
            "text": f"{['he', 'she'][i // 2 % 2]} is a {jobs[i % 2]} {i}",
            "label": jobs[i % 2],
            "group": groups[i // 2 % 2],
        }
        for i in range(80)
        if i % 8 != 3
    ]
    path = tmp_path_factory.mktemp("careers") / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def runs(careers, tmp_path_factory):
    """Two methods with one seed, in one folder, and a runner that counts what it measures."""
    folder = tmp_path_factory.mktemp("runs")
    base = load_model(str(save_checkpoint("bert", folder / "base")), device="cpu")
    recipe = make_recipe(
        "classification", training=str(careers), epochs=1, batch_size=8, learning_rate=1e-2, max_length=16
    )
    runner = CountingRunner(score=RunSettings(cache=None))
    methods = {
        "scrubbing": make_method("scrubbing", words=("she", "he")),
        "subsampling": make_method("balancing", how="subsample"),
    }
    return {
        name: mitigate(base, method, recipe, seeds=[3], folder=folder, runner=runner)
        for name, method in methods.items()
    }


class CountingRunner(Runner):
    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self.measured = []

    def measure_once(self, suite, model, settings=None):
        self.measured.append((suite.name, model.fingerprint))
        return super().measure_once(suite, model, settings)


def probe(careers):
    return BiasFigure("probe-compression", "compression", settings={"texts": str(careers), "seeds": 1})


def test_each_model_of_several_runs_is_measured_once_with_its_own_head_and_a_new_one(runs, careers):
    runner = next(iter(runs.values())).runner
    runner.measured.clear()
    extrinsics = [GAP, BiasFigure("bios", "accuracy"), BiasFigure("bios", "tpr_gap_pearson")]
    study = agreement(runs, [probe(careers)], extrinsics, resamples=19)
    assert [(point.method, point.seed) for point in study.points] == [("none", 3), ("scrubbing", 3), ("subsampling", 3)]
    suites = [suite for suite, _ in runner.measured]
    assert (suites.count("probe-compression"), suites.count("bios")) == (3, 6), "base models are shared by both runs"
    assert len(set(runner.measured)) == len(runner.measured)
    for point, method in zip(study.points[1:], runs, strict=True):
        ((measured,),) = runs[method].measure("after", "bios")
        assert point.own_head == {figure.name: measured.values[figure.statistic] for figure in extrinsics}
    assert all(set(point.new_head) == {figure.name for figure in extrinsics} for point in study.points)
    assert AgreementStudy.from_dict(json.loads(json.dumps(study.to_dict()))) == study


def test_without_new_heads_only_the_models_themselves_are_measured(runs, careers):
    study = agreement(list(runs.values()), [probe(careers)], [GAP], new_heads=False, resamples=19)
    assert [point.method for point in study.points[1:]] == ["scrubbing", "balancing"], "by the names of the methods"
    assert {row.head for row in study.rows} == {OWN_HEAD} and not any(point.new_head for point in study.points)
    assert all(math.isfinite(point.own_head[GAP.name]) for point in study.points)


def test_a_model_before_that_serves_all_seeds_is_one_point(checkpoint):
    path = str(checkpoint("bert"))
    run = MitigationRun(path, [path, path], runner=Runner(score=RunSettings(cache=None)))
    figure = BiasFigure("weat", "effect_size")
    study = agreement({"nothing done": run}, [figure], [figure], new_heads=False)
    assert [(point.method, point.seed) for point in study.points] == [
        ("none", 0),
        ("nothing done", 0),
        ("nothing done", 1),
    ]
    assert study.rows[0].agreement is None, "all are one model"


def test_a_point_has_the_distances_of_coreference(tmp_path):
    winobias(tmp_path)
    systems = [load_model(NoisyCoreference(lean)) for lean in (0.5, 1.0, 2.0)]
    run = MitigationRun(systems[0], systems[1:], runner=Runner(score=RunSettings(cache=None), data=tmp_path))
    named = ("separation_sum", "tpr_gap_sum")
    distance, gap = (BiasFigure("coref-winobias", name, settings={"shares": "winogender"}) for name in named)
    study = agreement({"swapped": run}, [gap], [distance], new_heads=False)
    for point, system in zip(study.points, systems, strict=True):
        measurement = run.runner.measure("coref-winobias", system, {"shares": "winogender"})
        assert point.own_head == {distance.name: measurement.values["separation_sum"]}
    with pytest.raises(UnknownNameError, match="no statistic"):
        agreement({"swapped": run}, [replace(gap, statistic="nothing")], [distance], new_heads=False)


def test_runs_that_cannot_be_compared_are_refused(runs, careers):
    one, other = runs["scrubbing"], runs["subsampling"]
    with pytest.raises(SettingError, match="2 runs have the method 'scrubbing'; give the runs by name"):
        agreement([one, one])
    with pytest.raises(SettingError, match="a run does not name its method"):
        agreement([MitigationRun("a", "b")])
    with pytest.raises(SettingError, match="there is no run"):
        agreement({})
    with pytest.raises(SettingError, match="a run is named 'none'"):
        agreement({"none": one})
    shifted = replace(other, before=other.after)
    with pytest.raises(SettingError, match="scrubbing and subsampling have different models before for seed 3"):
        agreement({"scrubbing": one, "subsampling": shifted}, [probe(careers)], [GAP])
    with pytest.raises(SettingError, match="the run of subsampling has no recipe that trains"):
        agreement({"scrubbing": one, "subsampling": replace(other, recipe=None)}, [probe(careers)], [GAP])
