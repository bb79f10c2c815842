"""The choice of the best point of a grid: the rule, its limits, and why a point is judged on seeds that did not choose
it.
"""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_genderbias.errors import DataFileError, SettingError
from pytest_genderbias.gates.choice import Rule, TriedGrid, TriedPoint, choose_point, read_rule, why_out
from pytest_genderbias.statistics.inference.reduction import SideValues

RULE = read_rule({"lowest": "s/x", "within": {"perplexity": "5%", "accuracy": 0.1}})


def point(*values, perplexity=0.0, accuracy=0.0, failure=""):
    return TriedPoint({"dropout.hidden": 0.1}, values, {"perplexity": perplexity, "accuracy": accuracy}, failure)


def test_the_lowest_mean_within_the_limits_is_chosen():
    points = [point(0.3, 0.5), point(0.1, 0.2, perplexity=0.051), point(0.1, 0.6), point(0.3, 0.3, perplexity=0.05)]
    assert choose_point(points, RULE) == 3
    assert [why_out(one, RULE) for one in points] == ["", "perplexity 5.1 % worse", "", ""]


def test_a_point_without_a_figure_is_not_chosen():
    points = [
        point(0.1, None),
        point(0.1, float("nan")),
        point(0.1, failure="the loss became NaN"),
        point(0.1, accuracy=None),
        point(),
    ]
    assert choose_point(points, RULE) is None
    assert [why_out(one, RULE) for one in points] == [
        *["s/x has no value with one of the seeds"] * 2,
        "the loss became NaN",
        "accuracy has no value",
        "s/x has no value with one of the seeds",
    ]


@pytest.mark.parametrize(("wanted", "best"), [("lowest", 0), ("highest", 3), ("nearest", 2)])
def test_the_rule_says_which_end_is_best(wanted, best):
    points = [point(-3.0), point(-0.5), point(0.3), point(2.0)]
    assert choose_point(points, Rule("s/x", wanted)) == best
    assert choose_point(points, Rule("s/x", "nearest", neutral=1.8)) == 3


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1, max_size=8), st.floats(0, 2))
def test_no_point_within_the_limits_is_better(values, neutral):
    points = [point(*of_seed) for of_seed in values]
    means = np.mean(values, axis=1)
    assert means[choose_point(points, Rule("s/x"))] == means.min()
    assert means[choose_point(points, Rule("s/x", "highest"))] == means.max()
    nearest = choose_point(points, Rule("s/x", "nearest", neutral=neutral))
    assert abs(means[nearest] - neutral) == abs(means - neutral).min()


def test_of_equal_points_the_first_is_chosen():
    assert choose_point([point(0.2), point(0.1), point(0.1)], RULE) == 1


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({}, "best should have one of lowest, highest and nearest, got none"),
        ({"lowest": "a/b", "highest": "a/b"}, "got lowest and highest"),
        ({"lowest": "a/b", "under": 3}, "under is no part of a rule"),
        ({"lowest": 3}, "lowest should name a figure"),
        ({"lowest": "a/b", "within": 3}, "within should be a mapping"),
        (
            {"lowest": "a/b", "within": {"perplexity": "much"}},
            "within should have shares of 0 or more, as perplexity: 5%",
        ),
        ({"lowest": "a/b", "within": {"perplexity": -0.1}}, "within should have shares"),
        ({"lowest": "a/b", "within": {"perplexity": True}}, "within should have shares"),
    ],
)
def test_a_wrong_rule_is_refused(rule, message):
    with pytest.raises(SettingError, match=message):
        read_rule(rule)


def tried(judged_on=(2, 3)):
    points = (
        TriedPoint({"dropout.attention": 0.1, "cda.names": None}, (0.25, 0.35), {"perplexity": 0.02}),
        TriedPoint({"dropout.attention": 0.15}, (0.1, 0.2), {"perplexity": 0.07}),
        TriedPoint({"dropout.attention": 0.2}, (), {}, "the loss became NaN"),
    )
    rule = read_rule({"lowest": "lm-occupation/aggregate_bias", "within": {"perplexity": "5%"}})
    return TriedGrid(points, rule, 0, (0, 1), judged_on)


def test_the_table_has_every_point_and_why_it_is_out():
    assert tried().table().splitlines() == [
        "| dropout.attention   | cda.names   | lm-occupation/aggregate_bias   | perplexity worse   | choice                    |",  # noqa: E501
        "|---------------------|-------------|--------------------------------|--------------------|---------------------------|",
        "| 0.1                 | none        | 0.3000 (0.0707)                | 2 %                | best                      |",  # noqa: E501
        "| 0.15                | -           | 0.1500 (0.0707)                | 7 %                | out: perplexity 7 % worse |",  # noqa: E501
        "| 0.2                 | -           | -                              | -                  | out: the loss became NaN  |",  # noqa: E501
    ]


def test_the_words_name_points_rule_and_seeds():
    assert (
        tried().describe()
        == "the best of 3 points (dropout.attention=0.1, cda.names=none) by lowest lm-occupation/aggregate_bias,"
        " perplexity at most 5 % worse, chosen on seeds 0, 1, and judged on seeds 2, 3"
    )
    same = tried((0, 1))
    assert same.same_seeds and not tried().same_seeds
    assert same.label == "best of 3, chosen and judged on the same seeds"
    assert same.describe().endswith("chosen on the seeds that judge it, 0, 1: the reduction looks larger than it is")


def test_a_large_grid_is_cut_in_the_text_of_a_verdict():
    points = tuple(TriedPoint({"a.b": n}, (float(n),)) for n in range(40))
    lines = TriedGrid(points, Rule("s/x"), 0, (0,), (1,)).lines()
    assert len(lines) == 1 + 24 + 1 and lines[-1].strip() == "and 16 more points"


def test_a_grid_is_plain_data():
    grid = tried()
    written = json.loads(json.dumps(grid.to_dict()))
    assert TriedGrid.from_dict(written).to_dict() == written and TriedGrid.from_dict(written).table() == grid.table()
    with pytest.raises(DataFileError, match=r"grid\.best: expected a whole number"):
        TriedGrid.from_dict({**written, "best": "first"})


def false_reductions(judged, n=150):
    """Return how often a grid of nine points that do nothing "reduces" bias, judged on some of six seeds after the
    first three chose.
    """
    rng, found = np.random.default_rng(0), 0
    for _ in range(n):
        bias = rng.normal(0.4, 0.05, (9, 6))  # after training with each point and seed; 0.4 before, too
        best = choose_point([TriedPoint({}, values[:3].tolist()) for values in bias], Rule("s/x"))
        sides = {"before": np.full((len(judged), 1), 0.4), "after": bias[best, judged][:, None]}
        values = SideValues(sides, {}, lambda value: value, 0.0, "cases", restarts=True)
        found += values.compare("after", {"before": 1.0}).high < 0
    return found / n


def test_choosing_and_judging_on_the_same_seeds_gives_false_reductions_and_other_seeds_do_not():
    same, other = false_reductions([0, 1, 2]), false_reductions([3, 4, 5])
    assert same > 0.14  # .23 in 4,000 repetitions; nominal: .05
    assert other < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 150)  # .043
