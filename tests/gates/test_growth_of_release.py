"""One number for a release: the growth of bias over the suites that a baseline gates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.hand_made import hand_made

from pytest_genderbias import Measurement
from pytest_genderbias.gates.baseline import Baseline
from pytest_genderbias.gates.book_update import write_entries
from pytest_genderbias.gates.facts import BaselineFacts, Part, Seen
from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.gates.release import Growth, growth_of
from pytest_genderbias.measurement.restarts import combine_restarts
from pytest_genderbias.reports.figures import runs

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


def judged(part: Part, suite: str) -> Judgement:
    facts = BaselineFacts("2026-11-02", sees=Seen(0.4, 1.0, 0.3), release=part)
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
