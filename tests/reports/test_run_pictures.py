"""Pictures of several measurements, mitigations, trainings and runs."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.run_reports import hostile_report

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import UnknownNameError
from pytest_genderbias.gates.judgement import BaselineFacts, Judgement, SinceAnchor, read_facts
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.variance import value_variance
from pytest_genderbias.mitigation.harness.callback import HistoryEntry
from pytest_genderbias.mitigation.harness.curves import Resilience
from pytest_genderbias.reports.figures import runs, studies
from pytest_genderbias.reports.figures.files import write_figures
from pytest_genderbias.reports.picture import Picture, Series
from pytest_genderbias.reports.pictures import draw_run, pictures_of_history
from pytest_genderbias.reports.run_report import RunInfo, RunReport, Trace, TracePoint
from pytest_genderbias.suites.suite import load_family

REDUCTION = {
    "by": 0.3, "before": 2.0, "after": 1.0, "control": 1.8,
    "by_seed": {"control": [[1.7], [1.9]], "before": [[2.0]], "after": [[1.0]]},
    "superficial": {"retrained": 1.5, "before_retrained": 2.1, "comes_back": 0.5,
        "compression": {"before": 3.0, "after": 2.0}},
}  # fmt: skip


@pytest.fixture(scope="module")
def measured() -> Measurement:
    return measure("lm-occupation", load_model("demo-lm"), limit=160, cache=None)


def judged(model: str, **facts: Any) -> Judgement:
    return Judgement(
        "bios", model, "tpr_gap_sum", 1.0, None, 9, 9, "b", "reduced", (), facts=read_facts({**REDUCTION, **facts})
    )


def named(picture: Picture, name: str, panel: int = 0) -> Series:
    (series,) = [series for series in picture.panels[panel].series if series.name == name]
    return series


def settled(*judgements: Judgement) -> tuple[Judgement, ...]:
    return tuple(judgement.settled("passed") for judgement in judgements)


def test_models_stand_beside_each_other(measured: Measurement) -> None:
    other = replace(measured, model="other", values={**measured.values, "aggregate_bias": 9.0})
    picture = runs.models([measured, other])
    assert picture is not None
    assert picture.panels[0].y.words == (measured.model, "other")
    assert named(picture, "value").x[1] == 9.0
    assert "farthest other with 9" in picture.alt
    interval = measured.interval
    assert interval is not None
    assert named(picture, "95 % interval").high[0] == pytest.approx(interval.high, rel=1e-4)
    assert runs.models([measured]) is None
    assert runs.accuracy_and_bias([measured, other]) is None  # the suite has no accuracy


def test_accuracy_is_drawn_against_bias(measured: Measurement) -> None:
    statistics = {**measured.statistics, "accuracy": measured.statistics["signed_bias"]}
    both = [
        replace(
            measured,
            model=name,
            statistics=statistics,
            values={**measured.values, "aggregate_bias": bias, "accuracy": accuracy},
        )
        for name, bias, accuracy in (("a", 0.5, 0.9), ("b", 0.25, 0.8))
    ]
    picture = runs.accuracy_and_bias(both)
    assert picture is not None
    points = picture.panels[0].series[1]
    assert (points.x, points.y, points.labels) == ((0.9, 0.8), (0.5, 0.25), ("a", "b"))
    assert "a has accuracy 0.9 and aggregate_bias 0.5; b has accuracy 0.8" in picture.alt
    probe = {**measured.statistics, "accuracy": measured.statistics["aggregate_bias"]}  # where higher is worse
    assert runs.accuracy_and_bias([replace(one, statistics=probe) for one in both]) is None


def test_mitigations_are_drawn_with_their_controls() -> None:
    about = load_family("bios").statistics["tpr_gap_sum"].plain()
    picture = runs.mitigations([judged("one"), judged("two", control=None, by_seed={})], about)
    assert picture is not None
    assert named(picture, "control").x == (1.8, None)
    assert named(picture, "single controls").x == (1.7, 1.9)
    assert (named(picture, "before").x, named(picture, "after").x) == ((2.0, 2.0), (1.0, 1.0))
    assert "one 2 to 1, control 1.8, pass (reduced); two 2 to 1, pass (reduced)" in picture.alt
    assert picture.panels[0].x.neutral == 0
    assert runs.mitigations([judged("one", before=None)]) is None


def test_the_price_of_a_mitigation_is_drawn() -> None:
    budget = {"budget": {"accuracy": {"before": 0.9, "after": 0.7}, "f1": {"before": 1.0, "after": 1.0}}}
    picture = runs.price([judged("one", **budget), judged("two")])
    assert picture is not None
    assert [(s.name, s.x, s.y) for s in picture.panels[0].series] == [
        ("before", (0.9,), (2.0,)),
        ("after", (0.7,), (1.0,)),
    ]
    assert "one: accuracy 0.9 to 0.7, tpr_gap_sum 2 to 1" in picture.alt
    assert runs.price([judged("two")]) is None


def test_new_heads_are_drawn_against_compression() -> None:
    heads = {**REDUCTION["superficial"], "retrained": 1.0, "compression": {"before": 3.0, "after": 1.0}}  # type: ignore[dict-item]
    picture = runs.retrained([judged("hides", after=0.2), judged("erases", superficial=heads)])
    assert picture is not None
    as_is, with_heads = (panel.series[0] for panel in picture.panels)
    assert as_is.x == with_heads.x == (3.0, 2.0, 1.0)
    assert (as_is.y, with_heads.y) == ((2.0, 0.2, 1.0), (2.1, 1.5, 1.0))
    assert "hides 0.2 to 1.5; erases 1 to 1" in picture.alt
    unknown = judged("one", superficial={"compression": {"why": "no data"}})
    assert runs.retrained([unknown]) is None


def test_sources_of_variance_fill_the_whole(measured: Measurement) -> None:
    picture = runs.variance([value_variance(measured), value_variance(measured, "signed_bias")])
    assert picture is not None
    ends = [max(s.x[row] or 0.0 for s in picture.panels[0].series) for row in (0, 1)]
    assert ends == pytest.approx([100, 100], abs=0.1)
    assert runs.variance([]) is None


def test_drift_is_a_share_of_the_distance_at_the_anchor() -> None:
    about = load_family("nli").statistics["net_neutral"].plain()  # neutral 1, lower is worse
    anchor = SinceAnchor("2026-01-02", 0.8, 0.05)
    moved = Judgement("s", "m", "net_neutral", 0.75, None, 1, 1, "b", "within", (), facts=BaselineFacts(anchor=anchor))
    picture = runs.drift([moved, replace(moved, facts=None)], {("s", "net_neutral"): about})
    assert picture is not None
    assert named(picture, "worse").x == (25.0,)
    assert picture.alt == "s, net_neutral is 25 % worse than on 2026-01-02."
    assert runs.drift([replace(moved, facts=None)], {("s", "net_neutral"): about}) is None


def test_releases_are_drawn_with_what_the_baseline_allowed() -> None:
    points = tuple(
        TracePoint(
            f"2026-0{month}-01T00:00:00+00:00",
            "",
            "",
            "same" if month > 1 else "other",
            value,
            baseline=0.5,
            margin=0.1,
            outcome=outcome,
        )
        for month, value, outcome in ((1, 0.4, "passed"), (2, 0.5, "passed"), (3, 0.7, "failed"))
    )
    trace = Trace("m", "s", "{}", "x", True, "higher", 0.0, "", points)
    picture = runs.over_releases(trace)
    assert picture is not None
    assert named(picture, "allowed by the baseline").y == (0.6, 0.6, 0.6)
    assert named(picture, "failed").x == (2.0,)
    lines = [s.x for s in picture.panels[0].series if s.marks == "line" and not s.hollow]
    assert lines == [(0.0,), (1.0, 2.0)]  # nothing joins what cannot be compared
    assert "was 0.4 on 2026-01-01 and is 0.7 on 2026-03-01, over 3 runs" in picture.alt
    limited = replace(trace, points=tuple(replace(point, least=0.1, most=0.8) for point in points))
    both = runs.over_releases(limited)
    assert both is not None
    assert [s.y for s in both.panels[0].series if s.colour == "third"] == [(0.8, 0.8, 0.8), (0.1, 0.1, 0.1)]
    assert runs.over_releases(replace(trace, points=points[:1])) is None
    assert pictures_of_history(RunReport(RunInfo("", ""), history=(trace,))) == (picture,)


def entry(step: int, value: float | None, figure: float) -> HistoryEntry:
    return {"step": step, "loss": None, "values": {"s/x": value}, "performance": {"perplexity": figure}, "seconds": 0.0}


def test_trainings_are_drawn_with_their_performance() -> None:
    histories = {
        "one": [entry(0, 0.1, 900.0), entry(10, None, 90.0), entry(20, 0.3, 9.0)],
        "two": [entry(0, 0.2, 800.0)],
    }
    picture = studies.along_training(histories, "s/x")
    bias, performance = picture.panels
    assert bias.series[0].y == (0.1, None, 0.3)
    assert performance.y.label == "perplexity"
    assert performance.y.log
    assert "one 0.1 to 0.3; two 0.2 to 0.2. perplexity: 900 to 9; 800 to 800." in picture.alt
    with pytest.raises(UnknownNameError, match="'s/y' was not measured; there are s/x"):
        studies.along_training(histories, "s/y")


def test_resilience_is_drawn_by_step_and_by_frozen_part() -> None:
    about = {"x": load_family("nli").statistics["net_neutral"].plain()}
    steps = {
        "after": {100: entry(100, 0.9, 1.0), 0: entry(0, 0.8, 1.0)},
        "before": {0: entry(0, 0.5, 1.0), 100: entry(100, 0.4, 1.0)},
    }
    frozen = {side: {"nothing": curve[100], 1: curve[0]} for side, curve in steps.items()}
    picture = studies.resilience(Resilience("s", about, steps, frozen, {}))
    by_step, by_frozen = picture.panels
    assert by_step.x.words == ("0", "100")
    assert [(s.name, s.y) for s in by_step.series] == [("before", (0.5, 0.4)), ("after", (0.8, 0.9))]
    assert by_frozen.x.words == ("nothing", "first 1 layer")


def test_the_pictures_of_a_run_come_from_its_report(measured: Measurement, tmp_path: Path) -> None:
    other = replace(measured, model="other")
    elsewhere = replace(measured, model="third", signature={**measured.signature, "settings": {"seed": 9}})
    report = RunReport(
        RunInfo("", ""), (measured, other, elsewhere), settled(judged("one")), variances=(value_variance(measured),)
    )
    pictures, _ = draw_run(report)
    assert [picture.kind for picture in pictures] == ["models", "mitigation", "retrained", "variance"]
    assert pictures[1].panels[0].x.neutral == 0  # known from the packaged suite
    assert pictures[0].panels[0].y.words == (measured.model, "other")
    again = RunReport.from_dict(json.loads(json.dumps(replace(report, pictures=pictures).to_dict(), allow_nan=False)))
    assert again.pictures == pictures
    assert draw_run(again) == (pictures, ())


def test_names_of_files_hold_no_foreign_characters_and_are_different(tmp_path: Path) -> None:
    picture = Picture("models", "../../x" + "y" * 300, "CON:\x00/|`é", "s", "](http://x) <b>", "alt\n\x1b", "`caption`")
    write_figures(RunReport(RunInfo("", ""), pictures=(picture, picture)), tmp_path / "a" / "b")
    names = sorted(path.name for path in (tmp_path / "a" / "b").iterdir())
    stem = "x" + "y" * 38 + "-CON-models"
    assert names == sorted([*(f"{stem}{n}.{end}" for n in ("", "-2") for end in ("png", "svg")), "figures.md"])
    page = (tmp_path / "a" / "b" / "figures.md").read_text()
    assert "\x1b" not in page
    assert "<b>" not in page
    assert "](http" not in page.replace("\\]", "")


def test_a_hostile_run_is_drawn(tmp_path: Path) -> None:
    report = hostile_report()
    others = tuple(replace(measurement, model=f"{measurement.model}2") for measurement in report.measurements)
    report = replace(report, measurements=(*report.measurements, *others))
    pictures, _ = draw_run(report)
    assert "models" in {picture.kind for picture in pictures}
    write_figures(replace(report, pictures=pictures), tmp_path)
    page = (tmp_path / "figures.md").read_text()
    assert all(sign.isprintable() or sign == "\n" for sign in page)
    assert "<script" not in page
    assert len(page) < 20_000
    for path in tmp_path.iterdir():
        assert path.name.isascii()
        if path.suffix == ".svg":
            text = path.read_text()
            assert {element.tag.rpartition("}")[2] for element in ET.fromstring(text).iter()}.isdisjoint(
                {"script", "a", "image"}
            )
            assert len(text) < 30_000
