"""One number for a release: the growth of bias over the suites that a baseline gates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.baseline_books import write_entries
from support.hand_made import hand_made

from pytest_genderbias import Measurement
from pytest_genderbias.gates.baseline import Baseline
from pytest_genderbias.gates.book import entry_of
from pytest_genderbias.gates.comparison import Growth, growth_of
from pytest_genderbias.gates.judgement import BaselineFacts, Judgement, Part, Seen, WorstCluster
from pytest_genderbias.measurement.restarts import combine_restarts
from pytest_genderbias.reports.figures import runs
from pytest_genderbias.statistics.inference.item_sums import SumsByStatistic, mean_sums

SUITES = ("one", "two", "three")
SEEDS = (0.0, 0.01, -0.01, 0.005, -0.005)


def release(suite: str, shift: float) -> Measurement:
    """Return five trainings of a model on a suite."""
    return combine_restarts([hand_made(shift + own, suite) for own in SEEDS], range(len(SEEDS)))


def judgements(folder: Path, then: float, now: dict[str, float]) -> list[Judgement]:
    """Return the comparisons of a release with a baseline, both of five trainings, by suite."""
    stored = Baseline(folder, "m", "t.py", update="new")
    for suite in now:
        stored.judge(release(suite, then), 0.5)
    write_entries(folder, "m", "t.py", stored.entries())
    baseline = Baseline(folder, "m", "t.py")
    return [baseline.judge(release(suite, shift), 0.5) for suite, shift in now.items()]


def only(growths: list[Growth]) -> Growth:
    (growth,) = growths
    return growth


def test_it_is_the_mean_growth_in_units_of_each_suite(tmp_path: Path) -> None:
    growth = only(growth_of(judgements(tmp_path, 0.25, {"one": 0.25, "two": 0.30, "three": 0.40})))
    assert growth.value == pytest.approx((0.0 + 0.05 + 0.15) / 0.5 / 3), "each suite had a distance of .5"
    assert growth.low < growth.value < growth.high and growth.suites == 3


def test_many_small_steps_are_seen_together(tmp_path: Path) -> None:
    """No suite moves by more than its trainings do; all of them together by more."""
    sides = np.array(SEEDS)
    found = judgements(tmp_path, 0.25, dict.fromkeys(("a", "b", "c", "d"), 0.25 + 2.5 * sides.std(ddof=1)))
    assert only(growth_of(found)).worse
    assert not only(growth_of(judgements(tmp_path / "same", 0.25, dict.fromkeys(SUITES, 0.25)))).worse


def test_two_suites_are_no_release_and_models_are_apart(tmp_path: Path) -> None:
    found = judgements(tmp_path, 0.25, {"one": 0.25, "two": 0.25})
    assert growth_of(found) == [] and growth_of(found + found) == [], "a suite counts once"


def test_restarts_of_one_training_are_added_before_their_spread_is_known() -> None:
    """Suites that move together in each training say less than as many that move apart, though each varies as much."""
    together = [Part(1.0, (1.0, 2.0, 3.0), (1.0, 2.0, 3.0), 0.0, 0.0)] * 3
    orders = ((1.0, 2.0, 3.0), (2.0, 3.0, 1.0), (3.0, 1.0, 2.0))
    apart = [Part(1.0, order, order, 0.0, 0.0) for order in orders]
    wide, narrow = (only(growth_of(map(judged, parts, SUITES))) for parts in (together, apart))
    assert wide.value == narrow.value == 0.0
    assert wide.high - wide.low > 5 * (narrow.high - narrow.low)


def test_one_checkpoint_has_the_spread_of_other_trainings() -> None:
    of_items = only(growth_of(judged(Part(1.0, (1.0,), (1.1,), 0.03, 0.0), suite) for suite in SUITES))
    with_trainings = only(growth_of(judged(Part(1.0, (1.0,), (1.1,), 0.03, 0.04), suite) for suite in SUITES))
    reach = 1.959964 * 0.03 * np.sqrt(3) / 3
    assert (of_items.low, of_items.high) == pytest.approx((0.1 - reach, 0.1 + reach))
    wider = 1.959964 * np.hypot(0.03 * np.sqrt(3), 3 * 0.04) / 3
    assert (with_trainings.low, with_trainings.high) == pytest.approx((0.1 - wider, 0.1 + wider))


def judged(part: Part, suite: str, cluster: WorstCluster | None = None) -> Judgement:
    facts = BaselineFacts("2026-11-02", sees=Seen(0.4, 1.0, 0.3), release=part, cluster=cluster)
    return Judgement(suite, "m", "share", 1.1, None, 9, 9, "baseline 1", "within", (), difference=0.1, facts=facts)


def test_the_picture_has_then_and_now_of_each_gate_on_one_scale() -> None:
    parts = [Part(2.0, (1.0,), (1.1,), 0.03, 0.0), Part(1.0, (1.0,), (1.1,), 0.03, 0.0)]
    picture = runs.growth([judged(part, suite) for part, suite in zip(parts, SUITES, strict=False)])
    assert picture is not None
    series = {one.name: one for one in picture.panels[0].series}
    assert series["then"].x == pytest.approx((50.0, 100.0)) and series["now"].x == pytest.approx((55.0, 110.0))
    assert series["seen in 80 % of releases"].x == pytest.approx((70.0, 140.0))
    assert (series["not red"].low, series["not red"].high) == (
        pytest.approx((35.0, 70.0)),
        pytest.approx((65.0, 130.0)),
    )
    assert "50 to 55" in picture.alt or "50 to 55" in picture.alt.replace(".0", "")
    assert runs.growth([Judgement("s", "m", "share", 1.0, None, 9, 9, "at most 2", "within", ())]) is None


# The cluster that a mean could hide.


def clustered(scores: np.ndarray, suite: str = "one", model: str = "m") -> Measurement:
    """Return a measurement of items in eight clusters, in turn."""
    labels = np.array([f"item {i:03d}" for i in range(len(scores))])
    of_units = {label: f"field {i % 8}" for i, label in enumerate(labels.tolist())}
    sums = mean_sums(labels, scores, np.ones(len(scores)), "items").in_clusters(of_units)
    return hand_made(
        suite=suite, model=model, values={"share": float(scores.mean())}, sums=SumsByStatistic({"share": sums})
    )


def cluster_of(folder: Path, then: Measurement, now: Measurement) -> WorstCluster | None:
    write_entries(folder, "m", "t.py", {"one": entry_of(then, gated={"share": 0.5})})
    return Baseline(folder, "m", "t.py").judge(now, 0.5).of_baseline.cluster


def test_the_cluster_that_became_worse_is_named_and_no_other_by_chance(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    then = rng.normal(0.5, 0.1, 160)
    apart = np.where(np.arange(160) % 8 == 2, 0.14, -0.02)  # the mean stays
    found = cluster_of(tmp_path, clustered(then), clustered(then + apart + rng.normal(0, 0.05, 160)))
    assert found is not None and (found.name, found.clusters) == ("field 2", 8)
    assert 0 < found.low < found.worsening == pytest.approx(0.14, abs=0.04)
    for _ in range(20):
        assert cluster_of(tmp_path, clustered(then), clustered(then + rng.normal(0, 0.05, 160))) is None


def test_restarts_of_a_cluster_are_compared_by_their_own_spread(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    base = rng.normal(0.5, 0.1, 24)
    trained = [clustered(base + rng.normal(0, 0.01) + rng.normal(0, 0.02, 24)) for _ in range(5)]
    apart = np.where(np.arange(24) % 8 == 2, 0.7, -0.1)
    found = cluster_of(tmp_path, combine_restarts(trained, range(5)), clustered(base + apart))
    assert found is not None and found.name == "field 2" and 0 < found.low < found.worsening
    assert cluster_of(tmp_path, combine_restarts(trained, range(5)), clustered(base + rng.normal(0, 0.02, 24))) is None


def test_the_worst_cluster_of_all_suites_stands_beside_the_number_and_travels_with_its_judgement() -> None:
    clusters = (None, WorstCluster("health", 0.2, 0.1, 5.0, 8), WorstCluster("crafts", 0.4, 0.1, 3.0, 8))
    found = [
        judged(Part(0.5, (1.0,), (1.1,), 0.03, 0.0), suite, one) for suite, one in zip(SUITES, clusters, strict=True)
    ]
    growth = only(growth_of([Judgement.from_dict(one.to_dict()) for one in found]))
    assert growth.in_words.endswith(" over 3 suites against 2026-11-02; worst is health of two, +40 % (at least +20)")
    assert only(growth_of(judged(Part(1.0, (1.0,), (1.1,), 0.03, 0.0), suite) for suite in SUITES)).cluster == ""
