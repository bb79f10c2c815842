"""What a plan promises, against formulas for normal values, and against what fresh models give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pytest_genderbias.statistics.fill_columns import SIZE, fill_column
from pytest_genderbias.statistics.inference.item_sums import ItemSums, mean_sums
from pytest_genderbias.statistics.inference.paired import compare_items
from pytest_genderbias.statistics.inference.resolution import (
    ItemSimulation,
    RestartSimulation,
    SimulatedBounds,
    moved,
    resolve,
)
from pytest_genderbias.statistics.inference.restarts import compare_with_restarts
from pytest_genderbias.statistics.inference.undefined import UndefinedError

ITEMS = 60


def worse_if_higher(value: NDArray[np.float64]) -> NDArray[np.float64]:
    return value


def means(values: NDArray[np.float64], cases: int = 4) -> ItemSums:
    labels = np.arange(len(values)).astype(np.str_)
    return mean_sums(labels, cases * values, np.full(len(values), cases), "letters")


def checkpoints(seed: int, apart: float = 0.0, middle: float = 0.5) -> tuple[ItemSums, ItemSums]:
    """Two checkpoints whose items differ by normal noise with the standard deviation .05, the second ``apart`` higher."""
    rng = np.random.default_rng(seed)
    then, noise = middle + 0.2 * rng.normal(size=ITEMS), 0.05 * rng.normal(size=ITEMS)
    noise *= 0.05 / noise.std(ddof=1)
    return means(then), means(then + noise - noise.mean() + apart)


def test_items_resolve_what_normal_theory_says() -> None:
    """With a standard error e, equal models pass from (1.645 + 1.96) e on, and 1.96 e + .842 e more is found in 80 %."""
    resolution = resolve(ItemSimulation(*checkpoints(1), worse_if_higher, tests=6), 6)
    error, z = 0.05 / ITEMS**0.5, stats.norm.ppf
    assert resolution.alone == pytest.approx((z(0.95) + z(0.975)) * error, rel=0.12)
    strict = 1 - 0.05 / 6
    assert resolution.together == pytest.approx((z(0.975) + z(strict)) * error, rel=0.15)
    assert resolution.worsening == pytest.approx(resolution.tolerance + (z(0.975) + z(0.8)) * error, rel=0.08)
    assert resolution.worsening_together == pytest.approx(resolution.tolerance + (z(strict) + z(0.8)) * error, rel=0.12)
    assert resolution.green >= 0.97 and resolution.alarms == 0 and resolution.power > 0.8


def test_what_is_promised_is_seen_on_fresh_models() -> None:
    resolution = resolve(ItemSimulation(*checkpoints(2), worse_if_higher, draws=200, repeats=499))
    green, found = [], []
    for seed in range(100, 180):
        rng = np.random.default_rng(seed)
        then = 0.5 + 0.2 * rng.normal(size=ITEMS)
        now = then + 0.05 * rng.normal(size=ITEMS)
        pairs = [
            compare_items(means(then), means(now + w), worse_if_higher, level=0.975, repeats=499)
            for w in (0, resolution.worsening)
        ]
        green.append(pairs[0].high <= resolution.tolerance)
        found.append(pairs[1].low > resolution.tolerance)
    assert 0.88 <= np.mean(green) <= 1.0
    assert 0.65 <= np.mean(found) <= 0.92


@pytest.mark.parametrize("k", [3, 5, 10])
def test_restarts_resolve_what_the_prediction_bound_says(k: int) -> None:
    values = np.random.default_rng(k).normal(size=k)
    resolution = resolve(RestartSimulation(values, worse_if_higher, tests=4), 4)
    error, t = values.std(ddof=1) * (1 + 1 / k) ** 0.5, stats.t(k - 1).ppf
    assert resolution.alone == pytest.approx((t(0.95) + t(0.975)) * error, rel=0.02)
    assert resolution.together == pytest.approx((t(0.975) + t(1 - 0.05 / 4)) * error, rel=0.08)
    assert resolution.worsening == pytest.approx(resolution.tolerance + (t(0.975) + t(0.8)) * error, rel=0.02)
    assert resolution.worsening_together == pytest.approx(
        resolution.tolerance + (t(1 - 0.05 / 4) + t(0.8)) * error, rel=0.02
    )


def test_restarts_near_neutral_are_judged_on_either_side() -> None:
    """Where the side is in doubt, more worsening is needed than far from neutral."""
    near = resolve(RestartSimulation([-0.1, 0.0, 0.1, 0.02], np.abs, draws=100))
    far = resolve(RestartSimulation([4.9, 5.0, 5.1, 5.02], np.abs, draws=100))
    assert near.worsening > far.worsening
    worse = [compare_with_restarts([-0.1, 0.0, 0.1, 0.02], [0.005 + near.worsening + x], np.abs) for x in (0.0, 0.5)]
    assert worse[0].low < worse[1].low and worse[1].low > near.tolerance


def test_figures_scale_with_the_statistic() -> None:
    then, now = checkpoints(3, apart=0.02)
    plans = [
        resolve(
            ItemSimulation(means(c * then.sums[:, 0] / 4), means(c * now.sums[:, 0] / 4), worse_if_higher, 3, 40, 199),
            3,
        )
        for c in (1.0, 8.0)
    ]
    for name in ("alone", "together", "worsening", "worsening_together"):
        assert getattr(plans[1], name) == pytest.approx(8 * getattr(plans[0], name), rel=1e-6)
    assert plans[0].green == plans[1].green


def test_a_difference_of_trainings_beyond_that_of_the_items_counts() -> None:
    """One difference is known, so that its tails are those of Student's t with one degree of freedom."""
    alike, apart = (ItemSimulation(*checkpoints(4, apart=x), worse_if_higher, 1, 100, 199) for x in (0.0, 0.04))
    assert alike.training_error == 0.0 and alike.item_error == pytest.approx(0.05 / ITEMS**0.5, rel=0.15)
    assert apart.training_error == pytest.approx((0.04**2 - apart.item_error**2) ** 0.5)
    plans = [resolve(simulation) for simulation in (alike, apart)]
    assert plans[1].tolerance == pytest.approx(plans[0].tolerance + 6.31 * apart.training_error, rel=0.35)


def test_one_checkpoint_stands_for_two_that_share_nothing() -> None:
    then, _ = checkpoints(5)
    simulation = ItemSimulation(then, None, worse_if_higher, 1, 150, 499)
    spread = float(np.std(then.sums[:, 0] / 4, ddof=1))
    assert resolve(simulation).alone == pytest.approx(2 * 1.645 * spread * (2 / ITEMS) ** 0.5, rel=0.3)
    assert simulation.training_error == 0.0


def test_near_neutral_a_worsening_has_to_be_larger() -> None:
    """The sign of the baseline is in doubt there, so that part of a move towards the other side is no worsening."""
    near, far = (ItemSimulation(*checkpoints(6, middle=m), np.abs, 1, 40, 199) for m in (0.0, 2.0))
    assert far.straight and not near.straight
    assert resolve(near).worsening > 1.5 * resolve(far).worsening


def test_templates_are_drawn_again_where_the_bounds_cover_others() -> None:
    """Two trainings that differ by a noise of each template differ by more than that of the items, and plans know it."""
    rng = np.random.default_rng(10)
    then = rng.normal(size=(40, 8, 1))
    now = then + 0.02 * rng.normal(size=then.shape) + 0.1 * rng.normal(size=(1, 8, 1))
    labels, templates = np.arange(40).astype(np.str_), np.arange(8).astype(np.str_)
    pair = [
        ItemSums(labels, x, "mean_of_template_means", "words", templates=templates)
        for x in (then, now - (now - then).mean())
    ]
    crossed = resolve(ItemSimulation(pair[0], pair[1], worse_if_higher, 1, 60, 199))
    flat = resolve(ItemSimulation(pair[0].by_unit(), pair[1].by_unit(), worse_if_higher, 1, 60, 199))
    error = 0.1 / 8**0.5
    assert 2 * error < crossed.alone < 10 * error
    assert flat.alone < error, "the same templates cancel"


def test_shuffles_of_a_probe_are_compared_seed_by_seed() -> None:
    """As the gate does it: by Student's t over the differences of ten shuffles."""
    then, now = (replace(means(x.sums[:10, 0] / 4), over="shuffles") for x in checkpoints(11))
    resolution = resolve(ItemSimulation(then, now, worse_if_higher))
    own = (now.sums[:, 0] - then.sums[:, 0]) / 4
    error, t = own.std(ddof=1) / 10**0.5, stats.t(9).ppf(0.975)
    assert resolution.alone == pytest.approx((t + 1.645) * error, rel=0.35)


def test_moved_sums_move_the_statistic_and_no_item() -> None:
    then, now = checkpoints(7)
    difference = compare_items(then, now, worse_if_higher, repeats=199)
    higher = compare_items(then, moved(now, 0.25), worse_if_higher, repeats=199)
    assert higher.value == pytest.approx(difference.value + 0.25)
    assert [higher.low, higher.high] == pytest.approx([difference.low + 0.25, difference.high + 0.25])


def test_a_count_of_tests_is_planned_too() -> None:
    """It is not smooth: a worsening is added to its bounds."""
    rng = np.random.default_rng(8)
    columns = tuple(
        fill_column(SIZE if word == "" else 0, group, word) for group in "fm" for word in ("", "sings", "codes")
    )
    parameters = {"templates": 1, "level": 0.05, "family": "template", "test": "chi2"}
    group = np.repeat([0, 1], 20)
    then, now = np.zeros((2, 40, 2, 3))
    for side in (then, now):
        side[np.arange(40), group, 0] = 1
        side[np.arange(40), group, 1:] = rng.random((40, 2)) < np.array([[0.2, 0.5], [0.8, 0.5]])[group]
    labels = np.arange(40).astype(np.str_)
    sides = [
        ItemSums(labels, x.reshape(40, 6), "significant_fills", "persons", parameters, columns) for x in (then, now)
    ]
    simulation = ItemSimulation(sides[0], sides[1], worse_if_higher, 1, 30, 99)
    resolution = resolve(simulation)
    assert simulation.straight
    assert 0 < resolution.tolerance < resolution.worsening


def test_what_cannot_be_planned_says_why() -> None:
    then, _ = checkpoints(9)
    with pytest.raises(UndefinedError, match="the same in every one of the 60 letters"):
        ItemSimulation(then, then, worse_if_higher)
    with pytest.raises(UndefinedError, match="one restart says nothing of others"):
        RestartSimulation([1.0], worse_if_higher)
    with pytest.raises(UndefinedError, match="the 3 restarts gave the same value"):
        RestartSimulation([1.0, 1.0, 1.0], worse_if_higher)


def test_far_tails_are_extrapolated() -> None:
    """Of 100 draws none tells what one in a thousand gives."""
    high = stats.norm.ppf((np.arange(100) + 0.5) / 100)
    bounds = SimulatedBounds(high, high, high)
    assert bounds.tolerance(0.999) == pytest.approx(stats.norm.ppf(0.999), rel=0.05)
    assert SimulatedBounds(high, high, high, freedom=2.0).tolerance(0.999) > 2 * bounds.tolerance(0.999)
