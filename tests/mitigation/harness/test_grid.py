"""A grid of settings: its points, what is trained for it, the point that is chosen, and the seeds that it is judged
on.
"""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.model_selection import ParameterGrid

from pytest_genderbias import load_suite
from pytest_genderbias.errors import ModelError, SettingError, UnknownNameError
from pytest_genderbias.measurement.runner import Runner, RunSettings
from pytest_genderbias.mitigation import judge_reduction, make_method, make_recipe, search
from pytest_genderbias.mitigation.harness.file import MitigationRunner
from pytest_genderbias.mitigation.harness.grid import combinations, grid_points, split_seeds
from pytest_genderbias.mitigation.methods.base import Method, Together
from pytest_genderbias.models.objects import wrap_object
from pytest_genderbias.recipes.recipe import PLAIN, Performance
from pytest_genderbias.statistics.perplexity import perplexity
from pytest_genderbias.statistics.sums import perplexity_sums

OCCUPATIONS = [word.label for word in load_suite("lm-occupation").body.items.words()]
BIAS = np.random.default_rng(0).normal(0, 1.0, len(OCCUPATIONS))
AOB = "lm-occupation/aggregate_bias"
RULE = {"lowest": AOB, "within": {"perplexity": "10%"}}


class PlantedLM:
    """A causal LM whose bias for each occupation is planted, and its loss in nats a word."""

    def __init__(self, bias, nats=2.0):
        self.bias, self.nats = dict(zip(OCCUPATIONS, np.asarray(bias).tolist(), strict=True)), nats
        self.fingerprint = hashlib.sha256(repr((self.bias, nats)).encode()).hexdigest()

    def continuation_log_probs(self, prefixes, continuations):
        sides = [0.5 if {"he", "man"} & set(prefix.lower().split()) else -0.5 for prefix in prefixes]
        words = [text.strip().removeprefix("a ").removeprefix("an ") for text in continuations]
        return np.asarray([side * self.bias[word] for side, word in zip(sides, words, strict=True)]) - 5.0


@dataclass(frozen=True)
class Shrink(Method):
    """Leaves a share of the bias, and costs perplexity."""

    name: ClassVar[str] = "shrink"
    left: float = 1.0
    cost: float = 0.0

    def rows(self, rows, columns, seed):
        return [{"left": self.left, "cost": self.cost}]


@dataclass(frozen=True)
class Planted:
    """Writes down the bias that the rows leave, with noise by the seed; ``steps`` is a setting without effect."""

    name: ClassVar[str] = "planted"
    columns: ClassVar[tuple[str, ...]] = ("text",)
    label: ClassVar[Any] = None
    group: ClassVar[Any] = None
    makes_task: ClassVar[bool] = False
    steps: int = 10
    trained: list[Any] = field(default_factory=list, compare=False)
    evaluated: list[Any] = field(default_factory=list, compare=False)

    def settings(self):
        return {"steps": self.steps}

    def rows(self):
        return [{"left": 1.0, "cost": 0.0}]

    def start(self, model, seed):
        return model

    def train(self, model, rows, seed, folder, training=PLAIN):
        (row,) = rows
        self.trained.append((row["left"], row["cost"], self.steps, seed))
        if row["left"] < 0:
            raise ModelError("the loss became NaN")
        noise = 1 + np.random.default_rng([seed, int(1000 * row["left"])]).normal(0, 0.02)
        (folder / "model").mkdir()
        bias = [row["left"] * noise * value for value in model.backend.bias.values()]
        (folder / "model" / "bias.json").write_text(json.dumps([bias, 2.0 + np.log1p(row["cost"])]))
        return folder / "model"

    def evaluate(self, model):
        self.evaluated.append(model.fingerprint)
        sums = np.full(40, -model.backend.nats), np.ones(40)
        return [Performance("perplexity", "higher", perplexity(*sums), perplexity_sums(*sums))]


class PlantedRunner(Runner):
    """Opens the folders of ``Planted``."""

    def open(self, model):
        if isinstance(model, str):
            return wrap_object(PlantedLM(*json.loads((Path(model) / "bias.json").read_text())))
        return super().open(model)


def searched(folder, grid, recipe=None, method=None, best=RULE, **more):
    runner = PlantedRunner(score=RunSettings(cache=None))
    return search(
        wrap_object(PlantedLM(BIAS)),
        method or Shrink(),
        recipe or Planted(),
        grid=grid,
        best=best,
        folder=folder,
        runner=runner,
        limit=96,
        **more,
    )


GRID = {"shrink.left": [0.9, 0.5, 0.3], "shrink.cost": [0.0, 0.2]}


def test_combinations_are_those_of_scikit_learn():
    for grid in (GRID, [GRID, {"planted.steps": [1, 2]}], {"a.b": [[1, 2], None, "x"]}):
        expected = list(ParameterGrid(grid))
        points = combinations(grid)
        assert len(points) == len(expected) and all(point in expected for point in points)
    assert combinations([GRID, GRID]) == combinations(GRID)


def test_points_set_the_part_that_they_name():
    both = Together((make_method("cda"), make_method("dropout")))
    recipe = make_recipe("masked-lm", steps=7)
    first, second = grid_points(both, recipe, {"dropout.hidden": [0.3], "masked-lm.steps": [5, 6]})
    assert first.settings == {"dropout.hidden": 0.3, "masked-lm.steps": 5}
    assert isinstance(second.method, Together) and second.method.methods[1].hidden == 0.3
    assert second.method.methods[0] == make_method("cda") and second.recipe == make_recipe("masked-lm", steps=6)
    (layers,) = grid_points(make_method("projection"), None, {"projection.layers": [[0, 1]]})
    assert layers.method == make_method("projection", layers=[0, 1])


def test_the_best_point_within_the_limits_is_judged_on_other_seeds(tmp_path):
    recipe = Planted()
    run = searched(tmp_path, GRID, recipe, seeds=5, choose_on=2)
    tried = run.tried
    assert (tried.chosen_on, tried.judged_on, tuple(run.seeds)) == ((0, 1), (2, 3, 4), (2, 3, 4))
    assert tried.points[tried.best].settings == {"shrink.left": 0.3, "shrink.cost": 0.0}
    assert [round(point.worse["perplexity"], 6) for point in tried.points] == [0.0, 0.2] * 3
    of_points = [
        (left, cost, 10, seed)
        for left, cost in ((0.9, 0.0), (0.9, 0.2), (0.5, 0.0), (0.5, 0.2), (0.3, 0.0), (0.3, 0.2))
        for seed in (0, 1)
    ]
    controls = [(1.0, 0.0, 10, seed) for seed in (2, 3, 4)]  # only of the seeds that judge
    judged = [(0.3, 0.0, 10, seed) for seed in (2, 3, 4)]
    assert sorted(recipe.trained) == sorted([*of_points, *controls, *judged])
    values = [measurement.value for (measurement,) in run.measure("after", "lm-occupation", limit=96)]
    assert not set(values) & set(tried.points[tried.best].values)


def test_what_points_share_is_evaluated_once(tmp_path):
    recipe = Planted()
    run = searched(tmp_path, GRID, recipe, seeds=4)
    judge_reduction(run, "lm-occupation", by=0.3, budget={"perplexity": 0.05}, limit=96)
    assert len(recipe.evaluated) == len(set(recipe.evaluated)) == 1 + 6 * 2 + 2 * 2  # before, points, best and control


def test_a_search_is_trained_once_in_a_folder(tmp_path):
    first = searched(tmp_path, GRID, seeds=2)
    recipe = Planted()
    again = searched(tmp_path, GRID, recipe, seeds=2)
    assert recipe.trained == [] and again.tried == first.tried


def test_the_verdict_names_the_points_that_were_tried(tmp_path):
    run = searched(tmp_path, GRID, seeds=6, choose_on=3)
    judgement = judge_reduction(run, "lm-occupation", by=0.3, limit=96)
    assert judgement.code == "reduced" and judgement.model == "PlantedLM with shrink, best of 6"
    assert (
        "; the best of 6 points (shrink.left=0.3, shrink.cost=0) by lowest lm-occupation/aggregate_bias"
        in judgement.text
    )
    assert "chosen on seeds 0, 1, 2, and judged on seeds 3, 4, 5" in judgement.text
    assert judgement.text.count("out: perplexity 20 % worse") == 3
    assert judgement.of_reduction is not None and judgement.of_reduction.grid == json.loads(
        json.dumps(run.tried.to_dict())
    )


def test_choosing_and_judging_on_the_same_seeds_is_named(tmp_path):
    run = searched(tmp_path, GRID, seeds=3, choose_on="all")
    assert tuple(run.seeds) == (0, 1, 2) == run.tried.chosen_on
    judgement = judge_reduction(run, "lm-occupation", by=0.3, limit=96)
    assert judgement.model.endswith("best of 6, chosen and judged on the same seeds")
    assert "chosen on the seeds that judge it, 0, 1, 2: the reduction looks larger than it is" in judgement.text


def test_settings_of_the_recipe_are_tried_too_and_a_failed_training_is_out(tmp_path):
    recipe = Planted()
    grid = [{"planted.steps": [5, 6]}, {"shrink.left": [-1.0, 0.8]}]
    run = searched(tmp_path, grid, recipe, seeds=2, best={"lowest": "perplexity"})
    assert [point.failure for point in run.tried.points] == ["", "", "the loss became NaN", ""]
    assert run.tried.best == 0 and run.recipe.settings() == {"steps": 5}
    assert {steps for _, _, steps, _ in recipe.trained} == {5, 6, 10}


def test_no_point_within_the_limits_is_an_error_with_all_reasons(tmp_path):
    with pytest.raises(SettingError, match=r"shrink\.cost=0\.2: perplexity 20 % worse; .*widen within, or the grid"):
        searched(tmp_path, {"shrink.left": [0.5], "shrink.cost": [0.2, 0.3]}, seeds=2)


def test_a_rule_may_want_what_is_nearest_to_neutral(tmp_path):
    run = searched(tmp_path, GRID, seeds=2, best={"nearest": AOB})
    assert run.tried.rule.neutral == 0.0 and run.tried.best in (4, 5)


@pytest.mark.parametrize(
    ("grid", "more", "message"),
    [
        ({}, {}, "grid should name settings"),
        ({"shrink.left": 0.5}, {}, r"shrink\.left should have a list of values"),
        ({"shrink.left": []}, {}, r"shrink\.left should have a list of values"),
        ({"shrink.left": [0.5, 0.5]}, {}, r"shrink\.left should have different values"),
        ({"shrink.left": [0.5]}, {}, "grid should have two points or more"),
        (
            {"left": [0.5, 0.6]},
            {},
            r"left should begin with the name of a method or the recipe \(shrink, planted\), as shrink\.left",
        ),
        ({"shrink.right": [0.5, 0.6]}, {}, r"shrink\.right cannot be tried: the method shrink has no setting 'right'"),
        ({"shrink.left": [0.5, "much"]}, {}, r"shrink\.left cannot be tried: left should be a number"),
        ({"planted.arguments": [{}, {"a": 1}]}, {}, r"planted\.arguments is no single setting"),
        (GRID, {"seeds": 1}, "choose_on should leave some of the 1 seeds to choose and others to judge"),
        (GRID, {"seeds": 3, "choose_on": 3}, "choose_on should leave some"),
        (GRID, {"seeds": 3, "choose_on": "most"}, "choose_on should be a number of seeds"),
        (GRID, {"seeds": 3, "choose_on": [0, 1, 2]}, "choose_on should leave some"),
        (
            GRID,
            {"best": {"highest": AOB}},
            "highest lm-occupation/aggregate_bias would be the worst point: higher is worse; say lowest",
        ),
        (
            GRID,
            {"best": {"lowest": "nli-occupation/net_neutral"}},
            "lowest .* would be the worst point: lower is worse; say highest",
        ),
        (GRID, {"best": {"lowest": "lm-occupation/signed_bias"}}, "say nearest"),
        (
            GRID,
            {"best": {"lowest": "lm-occupation/bias"}},
            "lowest names lm-occupation/bias, and lm-occupation has no statistic 'bias'",
        ),
        (GRID, {"best": {"nearest": "perplexity"}}, "nearest is to neutral, which a figure of the task does not have"),
        (
            GRID,
            {"best": {"lowest": AOB, "within": {"lm-occupation/signed_bias": 0.1}}},
            "within names lm-occupation/signed_bias, which may be too high",
        ),
        (
            GRID,
            {"best": {"lowest": AOB, "within": {"accuracy": 0.1}}, "seeds": 2},
            "needs 'accuracy', and the recipe evaluates perplexity",
        ),
        (GRID, {"best": {"highest": "perplexity"}, "seeds": 2}, "highest perplexity would be the worst point"),
    ],
)
def test_wrong_grids_rules_and_seeds_are_refused(grid, more, message, tmp_path):
    with pytest.raises(SettingError, match=message):
        searched(tmp_path, grid, **more)


def test_an_unknown_suite_is_named(tmp_path):
    with pytest.raises(UnknownNameError, match="no suite 'lm-job'"):
        searched(tmp_path, GRID, best={"lowest": "lm-job/x"})


def test_where_nothing_is_trained_other_seeds_are_no_other_models():
    runner = Runner(score=RunSettings(limit=32, cache=None))
    grid = {"projection.pairs": ["lu2018-pairs", "bordia2019-wikitext-2"]}
    with pytest.raises(SettingError, match="choose_on should be all: a point of the grid trains nothing"):
        search("demo-lm", "projection", grid=grid, best={"lowest": AOB}, runner=runner)
    run = search("demo-lm", "projection", grid=grid, best={"lowest": AOB}, runner=runner, choose_on="all", controls=2)
    assert run.tried.same_seeds and not run.trained and len(run.control[0]) == 2


def test_two_methods_of_one_name_cannot_be_told_apart():
    twice = Together((make_method("wed"), make_method("wed")))
    with pytest.raises(SettingError, match=r"wed\.components could be of either wed"):
        grid_points(twice, None, {"wed.components": [1, 2]})


def test_seeds_may_be_named():
    assert split_seeds((5, 7, 9), [9]) == ((9,), (5, 7))
    assert split_seeds(2, [8]) == ((8,), (0, 1))
    assert split_seeds(7, None) == ((0, 1, 2), (3, 4, 5, 6))


def test_equal_searches_share_a_run(tmp_path):
    from pytest_genderbias.mitigation.harness.grid import plan_grid

    runner = Runner(score=RunSettings(limit=32, cache=None))
    grid = {"projection.pairs": ["lu2018-pairs", "bordia2019-wikitext-2"]}
    plan = plan_grid(make_method("projection"), None, grid, {"lowest": AOB}, {}, runner.suites)
    mitigations = MitigationRunner(runner, tmp_path)
    first = mitigations.search("m=demo-lm", plan, choose_on="all", controls=1)
    assert mitigations.search("m=demo-lm", plan, choose_on="all", controls=1) is first
    assert mitigations.mitigate("m=demo-lm", make_method("projection"), controls=1) is not first
