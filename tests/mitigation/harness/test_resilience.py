"""Resilience: curves over fine-tuning steps and frozen layers are those of trainings made by hand."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
from support.tiny_checkpoints import corpus

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import NotApplicableError, SettingError, UnknownNameError
from pytest_genderbias.mitigation import MitigationRun, resilience
from pytest_genderbias.mitigation.harness.curves import Resilience
from pytest_genderbias.mitigation.methods.projection import project_embeddings
from pytest_genderbias.models.saving import copied
from pytest_genderbias.recipes.recipe import EMBEDDINGS, ENCODER, NOTHING, PLAIN, Performance, Training
from pytest_genderbias.recipes.trainer import run_trainer
from pytest_genderbias.statistics.inference.item_sums import mean_sums
from pytest_genderbias.suites.statistic import Statistic

SUITE, LIMIT = "lm-occupation", 64
MAIN = f"{SUITE}/aggregate_bias"


@dataclass(frozen=True)
class Continued:
    """Some steps of masked language modelling, on masks that hang on the ids."""

    steps: int = 4
    name = "continued"
    columns, label, group, makes_task = ("text",), None, None, False
    trainings = []  # noqa: RUF012 - what every instance did

    def settings(self):
        return {"steps": self.steps}

    def rows(self):
        return [{"text": text} for text in corpus()[:60]]

    def start(self, model, seed):
        if model.role.kind != "masked-lm":
            raise NotApplicableError(f"{model.name} is {model.role.text}")
        return model

    def train(self, model, rows, seed, folder, training=PLAIN):
        self.trainings.append(training.freeze)
        words = model.backend.tokenizer
        examples = [dict(words(row["text"], truncation=True, max_length=32)) for row in rows]

        def collate(chosen):
            batch = words.pad(chosen, return_tensors="pt")
            hidden = (batch["input_ids"] > 4) & (batch["input_ids"] % 5 == 0)
            labels = batch["input_ids"].masked_fill(~hidden, -100)
            return {**batch, "input_ids": batch["input_ids"].masked_fill(hidden, words.mask_token_id), "labels": labels}

        how = {"num_train_epochs": 1, "per_device_train_batch_size": len(rows) // self.steps, "learning_rate": 1e-2}
        return run_trainer((copied(model.backend.network), examples, collate, how, training), words, folder, seed)

    def evaluate(self, model):
        found = float(model.backend.network.get_input_embeddings().weight.detach().abs().sum())
        item_sums = mean_sums(np.array(["a", "b"]), np.array([found, found]), np.array([1.0, 1.0]), "examples")
        return [Performance("size", "lower", found, item_sums)]


@pytest.fixture(scope="module")
def sides(tiny_model):
    model = tiny_model("bert")
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((16, 4)))[0]
    return model, project_embeddings(model, basis)


@pytest.fixture(scope="module")
def found(sides, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    Continued.trainings.clear()
    run = MitigationRun(*sides, recipe=Continued())
    frozen = (NOTHING, EMBEDDINGS, 1, ENCODER)
    return resilience(run, SUITE, steps=(0, 1, 2, 99), frozen=frozen, folder=folder, limit=LIMIT), folder


def test_one_training_gives_the_whole_curve(found):
    assert Continued.trainings == [NOTHING, ENCODER, EMBEDDINGS, 1] * 2
    curve = found[0].along_steps("before")
    assert list(curve) == [0, 1, 2, 4]
    assert len(set(curve.values())) == 4
    assert list(found[0].along_frozen("after")) == [NOTHING, EMBEDDINGS, 1, ENCODER]


@pytest.mark.parametrize("side", ["before", "after"])
def test_points_are_those_of_trainings_by_hand(found, sides, side, tmp_path):
    model = sides[side == "after"]
    recipe = Continued()
    result = found[0]
    for frozen in (ENCODER, 1) if side == "before" else (NOTHING,):
        folder = recipe.train(model, recipe.rows(), 0, tmp_path / str(frozen), Training(freeze=frozen))
        trained = load_model(str(folder), device="cpu")
        expected = measure(SUITE, trained, limit=LIMIT, cache=None).values
        entry = result.by_frozen[side][frozen]
        assert entry["values"] == {
            f"{SUITE}/{name}": pytest.approx(value, abs=1e-7) for name, value in expected.items()
        }
        assert entry["performance"] == {"size": pytest.approx(recipe.evaluate(trained)[0].value)}
    assert result.by_step[side][0] == result.by_frozen[side][ENCODER]
    assert result.by_step[side][4] == result.by_frozen[side][NOTHING]


def test_a_frozen_encoder_and_the_given_models_stay_as_they_are(found, sides, tiny_model):
    for side, model in zip(("before", "after"), sides, strict=True):
        size = Continued().evaluate(model)[0].value
        assert found[0].by_step[side][0]["performance"]["size"] == pytest.approx(size)
        assert found[0].by_frozen[side][EMBEDDINGS]["performance"]["size"] == pytest.approx(size)
        assert found[0].by_frozen[side][NOTHING]["performance"]["size"] != pytest.approx(size)
    assert sides[0] is tiny_model("bert")


def test_what_was_trained_is_found_again(found, sides):
    Continued.trainings.clear()
    models = dict(zip(("before", "after"), sides, strict=True))
    again = resilience(
        models, SUITE, Continued(), steps=(0, 1, 2, 99), frozen=(NOTHING, ENCODER), folder=found[1], limit=LIMIT
    )
    assert Continued.trainings == []
    assert again.by_step == found[0].by_step
    assert (
        json.loads(json.dumps(again.to_dict()))["by_step"]["after"]["0"]["values"][MAIN]
        == again.along_steps("after")[0]
    )


def test_all_is_every_number_of_layers_up_to_the_last_but_one(sides, tmp_path):
    result = resilience({"one": sides[0]}, SUITE, Continued(2), steps=(), frozen="all", folder=tmp_path, limit=LIMIT)
    assert list(result.along_frozen("one")) == [NOTHING, EMBEDDINGS, 1]
    assert result.by_step == {"one": {}}
    assert "reduction" not in result.table()


def test_steps_only(sides):
    result = resilience({"one": sides[0]}, SUITE, Continued(), steps=(1,), frozen=(), max_steps=2, limit=LIMIT)
    assert list(result.along_steps("one")) == [1, 2]
    assert result.by_frozen == {"one": {}}
    assert len(result.table().splitlines()) == 4


def test_a_run_gives_the_models_of_the_seed(sides):
    run = MitigationRun([sides[0], sides[1]], [sides[1], sides[0]], seeds=(3, 7), recipe=Continued(2))
    how = {"steps": (), "frozen": ENCODER, "limit": LIMIT}
    first, second = (resilience(run, SUITE, seed=seed, **how) for seed in (3, 7))
    size = [result.by_frozen["before"][ENCODER]["performance"]["size"] for result in (first, second)]
    assert size == [pytest.approx(Continued().evaluate(side)[0].value) for side in sides]
    with pytest.raises(SettingError, match="models of the seeds 3, 7, not of seed 0"):
        resilience(run, SUITE)


def test_the_table_has_a_row_a_point(found):
    lines = found[0].table().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0] == [
        "steps",
        "frozen",
        "before aggregate_bias",
        "after aggregate_bias",
        "reduction",
        "before size of the task",
        "after size of the task",
    ]
    assert [row[:2] for row in cells[2:]] == [
        ["0", ENCODER],
        ["1", NOTHING],
        ["2", NOTHING],
        ["4", NOTHING],
        ["4", EMBEDDINGS],
        ["4", "embeddings and 1 layer"],
    ]
    before, after = (found[0].along_steps(side)[2] for side in ("before", "after"))
    assert cells[4][2:5] == [f"{before:.4f}", f"{after:.4f}", f"{100 * (1 - after / before):.0f} %"]
    with pytest.raises(UnknownNameError, match="has no statistic 'x'"):
        found[0].table("x")


def test_a_table_escapes_and_knows_of_missing_values():
    entry = {"step": 1, "loss": None, "values": {"s/a": None}, "performance": {"f|1": 0.5}}
    result = Resilience("s", {"a": Statistic("away", 0.0, "")}, {"x<y": {1: entry}}, {"x<y": {}}, {})
    assert "x&lt;y" in result.table() and "<" not in result.table()
    assert result.along_steps("x<y") == {1: None}


def test_no_two_columns_have_one_name_where_statistic_and_task_are_called_the_same():
    """STS: the suite's main statistic and the figure of the task are both Pearson's r, and any number of models stand
    side by side.
    """
    entry = {"step": 1, "loss": None, "values": {"sts/pearson_r": 0.6}, "performance": {"pearson_r": 0.8}}
    sides = ("baseline", "dropout", "cda")
    curves = {side: {1: entry} for side in sides}
    result = Resilience(
        "sts", {"pearson_r": Statistic("away", 0.0, "")}, curves, {side: {2: entry} for side in sides}, {}
    )
    header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in result.table().splitlines())
    assert len(set(header)) == len(header) == 8
    assert rows == [
        ["1", NOTHING, *["0.6000"] * 3, *["0.8000"] * 3],
        ["1", "embeddings and 2 layers", *["0.6000"] * 3, *["0.8000"] * 3],
    ]


def test_what_lies_beyond_neutral_on_the_good_side_is_no_distance():
    curves = {
        side: {1: {"step": 1, "loss": None, "values": {"s/a": value}, "performance": {}}}
        for side, value in (("before", 0.2), ("after", -0.1))
    }
    result = Resilience("s", {"a": Statistic("higher", 0.0, "")}, curves, {"before": {}, "after": {}}, {})
    assert "150 %" in result.table()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"steps": (-1,)}, "steps should be whole numbers from 0"),
        ({"frozen": (3,)}, "0 to 2 layers, got 3"),
        ({"frozen": "head"}, "got 'head'"),
        ({"recipe": None}, "give recipe="),
        ({"models": {}}, "needs models"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_trained(sides, changes, match):
    Continued.trainings.clear()
    arguments = {"models": {"one": sides[0]}, "suite": SUITE, "recipe": Continued(), **changes}
    with pytest.raises(SettingError, match=match):
        resilience(**arguments)
    assert Continued.trainings == []


def test_what_does_not_apply_is_refused_before_anything_is_trained(sides, tiny_model):
    Continued.trainings.clear()
    with pytest.raises(NotApplicableError, match="nli-occupation needs"):
        resilience({"one": sides[0]}, "nli-occupation", Continued())
    with pytest.raises(NotApplicableError, match="bert-nli is an NLI classifier"):
        resilience({"one": tiny_model("bert-nli")}, SUITE, Continued())
    assert Continued.trainings == []


def test_a_training_without_steps_is_one_clear_error(sides):
    class Untold(Continued):
        def train(self, model, rows, seed, folder, training=PLAIN):
            return super().train(model, rows, seed, folder, Training(freeze=training.freeze))

    with pytest.raises(NotApplicableError, match="the recipe continued does not train by steps"):
        resilience({"one": sides[0]}, SUITE, Untold(1), steps=(), frozen=ENCODER, limit=LIMIT)
