"""Baselines of several restarts, and what is judged by them: one checkpoint, or several."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from support.baseline_books import write_entries
from support.hand_made import ITEMS, hand_made

from pytest_genderbias import Measurement
from pytest_genderbias.gates.baseline import Baseline
from pytest_genderbias.gates.book import entry_of, read_book, read_items
from pytest_genderbias.gates.comparison import compare_models, judge_against
from pytest_genderbias.gates.item_file import load_stored, pack_items, pack_measured
from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.gates.sensitivity import NORMAL, retraining_of
from pytest_genderbias.gates.verdicts import Correction
from pytest_genderbias.measurement.measurement import Measurement as Plain
from pytest_genderbias.measurement.restarts import combine_restarts, sums_of_restarts
from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.statistics.inference.over_restarts import Prior, moderated_variance, prediction_bounds

SHIFTS = (0.0, 0.02, 0.04)  #: of three restarts: the mean is .27, and s = .02


ERROR = 0.0284  #: standard error of the mean of 12 items


def one(shift: float, model: str = "m", **changes: object) -> Measurement:
    """Return a checkpoint of a causal LM whose items vary a little by its own: other trainings of the kind vary by
    about s, too.
    """
    own = 0.004 * np.random.default_rng(round(1000 * shift)).normal(size=ITEMS)
    plain = hand_made(shift, model=model)
    value, signature = plain.values["share"], plain.signature
    around = Interval(value - NORMAL * ERROR, value + NORMAL * ERROR, 0.95, "items", "by hand")
    known = {**signature, "model": {**signature["model"], "architecture": "LlamaForCausalLM"}}
    plain = replace(plain, signature=known, intervals={"share": around})
    sums = plain.sums["share"]
    scores = sums.sums[:, 0] + own - own.mean()
    moved = replace(sums, sums=np.stack([scores, sums.sums[:, 1]], axis=1))
    return replace(plain, sums=type(plain.sums)({"share": moved}), **changes)  # type: ignore[arg-type]


def retrained(*shifts: float, model: str = "m") -> Measurement:
    return combine_restarts([one(shift, model) for shift in shifts], range(len(shifts)))


def stored(folder: Path, measurement: Measurement) -> Path:
    return write_entries(folder, "m", "t.py", {"tiny": entry_of(measurement)})


def judged(folder: Path, now: Measurement, margin: float = 0.0) -> Judgement:
    return Baseline(folder, "m", "t.py").judge(now, margin)


def test_restarts_keep_the_sums_of_each(tmp_path: Path) -> None:
    measurement = retrained(*SHIFTS)
    book = stored(tmp_path, measurement)
    entry = read_book(book)["tiny"]
    items = read_items(book, "tiny", entry)
    assert items is not None
    for source in (measurement, items, Plain.from_dict(measurement.to_dict())):
        sums = sums_of_restarts(source.item_sums, "share", 3)
        assert [side.total for side in sums] == pytest.approx([0.25, 0.27, 0.29])
        np.testing.assert_array_equal(sums[1].sums, one(0.02).sums["share"].sums)


@pytest.mark.parametrize(
    ("known", "shift", "margin", "code"),
    [
        (False, 0.03, 0.0, "too_few"),  # .01 worse than the mean, and one more may be .0994 worse
        (False, 0.03, 0.11, "within"),
        (False, 0.11, 0.0, "too_few"),
        (False, 0.12, 0.0, "regressed"),  # .1 worse
        (False, 0.2, 0.08, "regressed"),
        (True, 0.03, 0.0, "too_few"),  # one more may be .065 worse
        (True, 0.03, 0.08, "within"),
        (True, 0.08, 0.0, "too_few"),
        (True, 0.09, 0.0, "regressed"),  # .07 worse
        (True, 0.2, 0.11, "regressed"),
    ],
)
def test_one_checkpoint_is_judged_by_the_prediction_bound(
    tmp_path: Path, known: bool, shift: float, margin: float, code: str
) -> None:
    """``known``: what other trainings of the kind vary by moderates the spread of these restarts."""
    stored(tmp_path, retrained(*SHIFTS))
    now = one(shift) if known else one(shift, intervals={"share": None})
    found = judged(tmp_path, now, margin)
    assert (found.code, found.over) == (code, "restarts")
    prior = Prior(retraining_of(now, "share").spread) if known else None  # type: ignore[arg-type]
    low, high = prediction_bounds([0.25, 0.27, 0.29], 0.975, prior)
    assert found.interval is not None and found.interval.high - 0.25 - shift == pytest.approx(high - 0.54)
    assert "  spread    mean 0.27 of 3 restarts, standard deviation 0.02" in found.text
    where = "inside" if 0.25 + shift < high else "above"
    assert (
        f"  restarts  3 of the baseline: 0.25 to 0.29; one more of them lies from {low:.4g} to {high:.4g} in 95 % of"
        f" the cases, and this one lies {where}" in found.text
    )


def test_what_settles_a_verdict_on_one_checkpoint(tmp_path: Path) -> None:
    stored(tmp_path, retrained(*SHIFTS))
    near = judged(tmp_path, one(0.11, intervals={"share": None}))
    assert near.settled_by.startswith("a baseline of 4 restarts, or several restarts of what is judged (--bias-seeds)")
    far = judged(tmp_path, one(0.03))
    assert far.settled_by.startswith("several restarts of what is judged"), "no number of others would decide .01"


def test_what_settles_a_verdict_counts_what_other_trainings_vary_by(tmp_path: Path) -> None:
    """Of these restarts alone 6 would be needed at .975; at the level of five gates, more."""
    stored(tmp_path, retrained(*SHIFTS))
    assert judged(tmp_path, one(0.08)).settled_by.startswith("a baseline of 4 restarts")
    of_one, of_five = (
        judge_against(one(0.08), retrained(*SHIFTS, model="a"), 0.0, correction=Correction(tests)) for tests in (1, 5)
    )
    assert of_one.settled_by.startswith("a baseline of 4 restarts")
    assert int(of_five.settled_by.split()[3]) > 4


def test_restarts_are_judged_by_one_checkpoint(tmp_path: Path) -> None:
    stored(tmp_path, one(0.0))
    found = judged(tmp_path, retrained(0.2, 0.22, 0.24))
    assert found.code == "regressed"
    assert "3 of the measurement of now: 0.45 to 0.49" in found.text
    assert judge_against(retrained(0.2, 0.22, 0.24, model="b"), one(0.0, "a"), 0.0).code == "regressed"


def test_the_number_of_restarts_may_differ(tmp_path: Path) -> None:
    stored(tmp_path, retrained(*SHIFTS))
    found = judged(tmp_path, retrained(0.2, 0.21, 0.22, 0.23))
    assert (found.code, found.over) == ("regressed", "restarts and items")
    assert "over restarts and items (12 items, 12 moved; two-way error of restarts and items, Student's t" in found.text
    assert found.movement is not None
    for move in found.movement.most:  # what an item gave, and not its share in the mean
        assert move.now - move.then == pytest.approx(0.215 - np.mean(SHIFTS), abs=0.02)
    rows, _ = compare_models([one(0.0, "a"), retrained(0.2, 0.21, 0.22, model="b")], ["a", "b"])
    assert [(row.better, row.over) for row in rows] == [("a", "restarts")]


def test_a_baseline_without_the_sums_of_each_restart_says_what_is_missing(tmp_path: Path) -> None:
    then = retrained(*SHIFTS)
    packed = pack_measured(then)
    assert packed is not None
    early = replace(then, sums=type(then.sums)({"share": "the values of its restarts are compared, and not its units"}))
    stored(tmp_path, early)
    found = judged(tmp_path, retrained(0.2, 0.21, 0.22))
    assert (found.code, found.over) == ("regressed", "restarts")
    assert (
        "Welch's t over restarts, their spread moderated by that of other trainings, on these items: the sums of each"
        " restart were not stored; --bias-update stores them" in found.text
    )
    assert judged(tmp_path, one(0.03), 0.11).code == "within", "one checkpoint needs their values only"


def test_items_that_give_other_values_than_their_restarts_are_not_used(tmp_path: Path) -> None:
    then = retrained(*SHIFTS)
    other = replace(then, sums=retrained(0.1, 0.12, 0.14).sums)
    stored(tmp_path, other)
    found = judged(tmp_path, retrained(0.2, 0.21, 0.22))
    assert found.over == "restarts"
    assert "the value of a restart is not that of its items" in found.text


def test_an_update_joins_restarts_that_chance_explains(tmp_path: Path) -> None:
    stored(tmp_path, retrained(*SHIFTS))
    for now, restarts, mean in ((one(0.01), 4, 0.2675), (retrained(0.0, 0.01), 5, 0.264)):
        updating = Baseline(tmp_path, "m", "t.py", update="all")
        found = updating.judge(now, 0.2)
        assert found.code == "stored"
        assert f"; chance explains the change, so that both are pooled ({restarts} restarts)" in found.text
        entry = updating.entries()["tiny"].entry
        assert entry.values["share"] == pytest.approx(mean) and entry.checkpoints == 1
    again = Baseline(tmp_path, "m", "t.py", update="all").judge(retrained(*SHIFTS), 0.2)
    assert "pooled" not in again.text, "the same restarts count once"


def replaced(folder: Path, *shifts: float) -> Path:
    """Store restarts, and put single checkpoints in their place, one after the other."""
    book = stored(folder, retrained(*SHIFTS))
    for shift in shifts:
        updating = Baseline(folder, "m", "t.py", update="all", reason="another tokenizer")
        assert "pooled" not in updating.judge(one(shift), 0.0).text
        write_entries(folder, "m", "t.py", updating.entries())
    return book


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("before", [(), (0.5,)])
def test_one_checkpoint_in_the_place_of_restarts_is_one_training_with_their_spread(
    tmp_path: Path, known: bool, before: tuple[float, ...]
) -> None:
    """The difference of two checkpoints has the variance 2 s^2, which is known by two degrees of freedom, also where
    the second one in a row takes the place.
    """
    replaced(tmp_path, *before, 0.2)
    now = one(0.25) if known else one(0.25, intervals={"share": None})
    found = Baseline(tmp_path, "m", "t.py").judge(now)
    variance, freedom = 0.02**2, 2.0
    if known:
        prior = Prior(retraining_of(now, "share").spread)  # type: ignore[arg-type]
        variance, freedom = moderated_variance(variance, freedom, prior.spread**2, prior.freedom)
    reach = scipy.stats.t.ppf(0.975, freedom) * (2 * variance) ** 0.5
    assert found.interval is not None and found.interval.low == pytest.approx(0.05 - reach)
    assert found.code == "within"
    assert f"1 of the baseline: 0.45; one more of them lies from {0.45 - reach:.4g} to" in found.text
    assert f"standard deviation {variance**0.5:.3g}, of the restarts before the stored checkpoint" in found.text


def test_what_is_joined_to_one_checkpoint_with_a_spread_are_real_trainings(tmp_path: Path) -> None:
    book = replaced(tmp_path, 0.2)
    joining = Baseline(tmp_path, "m", "t.py", update="all")
    assert "both are pooled (2 restarts)" in joining.judge(one(0.21), 0.2).text
    write_entries(tmp_path, "m", "t.py", joining.entries())
    entry = read_book(book)["tiny"]
    items = read_items(book, "tiny", entry)
    assert items is not None and items.items["restart.share"].tolist() == pytest.approx([0.45, 0.46])
    assert items.items["earlier.share"].tolist() == pytest.approx([0.02, 2])
    assert [side.total for side in sums_of_restarts(items.item_sums, "share", 2)] == pytest.approx([0.45, 0.46])
    found = judged(tmp_path, one(0.22, intervals={"share": None}))
    spread, freedom = ((2 * 0.02**2 + 0.00005) / 3) ** 0.5, 3  # of the three before, and of these two
    reach = scipy.stats.t.ppf(1 - 0.025 / 2, freedom) * spread * 1.5**0.5  # the anchor is compared with, too
    assert found.interval is not None and found.interval.low == pytest.approx(0.015 - reach)


def test_restarts_that_were_moved_around_one_checkpoint_are_read_as_that_checkpoint(tmp_path: Path) -> None:
    """So an earlier version stored them: without the numbers of their seeds."""
    three = retrained(*SHIFTS)
    moved = {"restart.share": three.items["restart.share"] + 0.18}
    book = stored(tmp_path, replace(three, values={"share": 0.45}, items=moved))
    entry = read_book(book)["tiny"]
    items = read_items(book, "tiny", entry)
    assert items is not None and items.items["restart.share"].tolist() == pytest.approx([0.45])
    assert items.items["earlier.share"].tolist() == pytest.approx([0.02, 2])
    found = judged(tmp_path, one(0.25, intervals={"share": None}))
    reach = scipy.stats.t.ppf(0.975, 2) * 0.02 * 2**0.5
    assert found.interval is not None and found.interval.low == pytest.approx(0.05 - reach)


def test_a_restart_without_a_number_is_no_pass(tmp_path: Path) -> None:
    values = replace(retrained(*SHIFTS), items={"restart.share": np.array([0.2, np.nan, 0.3])})
    found = judge_against(one(0.0, "b"), values, 1.0)
    assert found.code == "too_few"
    assert "no value in one of the restarts" in found.text


def test_sums_too_large_leave_the_values_of_restarts() -> None:
    then = retrained(*SHIFTS)
    assert pack_items(then.items) is not None
    kept = load_stored(pack_items({**then.items, **type(then.sums)({}).to_arrays()}) or b"", then.signature)
    assert kept.items["restart.share"].tolist() == pytest.approx([0.25, 0.27, 0.29])


@pytest.mark.parametrize("count", [1, 2])
def test_roots_of_mean_squares_are_compared_on_their_squares(tmp_path: Path, count: int) -> None:
    """A mean square of 0 that varies by .01 grows by .06: by the roots, which then vary by .1, that is no news."""
    squares = np.array([-0.012, -0.004, 0.0, 0.004, 0.012])
    roots = np.sign(squares) * np.abs(squares) ** 0.5 - 0.25
    about = replace(hand_made().statistics["share"], root=True)

    def of_roots(*values: float) -> Measurement:
        measured = [hand_made(value) for value in values]
        bare = [replace(m, statistics={"share": about}, sums=type(m.sums)({"share": "no sums"})) for m in measured]
        return combine_restarts(bare, range(len(bare))) if len(bare) > 1 else bare[0]

    stored(tmp_path, of_roots(*roots))
    found = judged(tmp_path, of_roots(*[0.0, 0.01][:count]))
    assert (found.code, found.over) == ("regressed", "restarts")
    assert "on the squares" in found.text
