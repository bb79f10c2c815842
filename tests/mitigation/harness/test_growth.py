"""Growth of bias along trainings: the curves are those of trainings by hand, nothing is trained twice, and all of it is
plain data.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from support.tiny_checkpoints import corpus

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import DataFileError, SettingError, UnknownNameError
from pytest_genderbias.mitigation.harness.callback import steps_of_share
from pytest_genderbias.mitigation.harness.curves import Growth, growth
from pytest_genderbias.models.saving import copied
from pytest_genderbias.recipes.recipe import PLAIN, Performance
from pytest_genderbias.recipes.trainer import run_trainer
from pytest_genderbias.reports.figures.studies import growth_of_sides
from pytest_genderbias.statistics.inference.item_sums import mean_sums
from pytest_genderbias.suites.suite import load_suite

SUITE, LIMIT = "lm-occupation", 64
SIDES = {"original": None, "CDA": {"name": "cda", "sides": "two"}}


@dataclass(frozen=True)
class Continued:
    """Steps of masked language modelling of four rows each, on masks that hang on the ids; ``interrupted`` fails after
    some of them.
    """

    interrupted: int | None = None
    name = "continued"
    columns, label, group, makes_task = ("text",), None, None, False
    trainings = []  # noqa: RUF012 - what every instance did

    def settings(self):
        return {}

    def rows(self):
        return [{"text": f"He is a man. {text}"} for text in corpus()[:20]]

    def start(self, model, seed):
        return model

    def train(self, model, rows, seed, folder, training=PLAIN):
        from transformers import TrainerCallback

        self.trainings.append((len(rows), seed))
        words = model.backend.tokenizer
        examples = [dict(words(row["text"], truncation=True, max_length=32)) for row in rows]

        def collate(chosen):
            batch = words.pad(chosen, return_tensors="pt")
            hidden = (batch["input_ids"] > 4) & (batch["input_ids"] % 5 == 0)
            labels = batch["input_ids"].masked_fill(~hidden, -100)
            return {**batch, "input_ids": batch["input_ids"].masked_fill(hidden, words.mask_token_id), "labels": labels}

        last = self.interrupted

        class Stop(TrainerCallback):
            def on_step_end(self, args, state, control, **unused):
                if state.global_step == last:
                    raise KeyboardInterrupt

        how = {
            "num_train_epochs": 1,
            "per_device_train_batch_size": 4,
            "learning_rate": 1e-2,
            "save_strategy": "steps",
            "save_steps": 2,
        }
        training = type(training)((*training.callbacks, Stop()), training.around)
        return run_trainer((copied(model.backend.network), examples, collate, how, training), words, folder, seed)

    def evaluate(self, model):
        size = float(model.backend.network.get_input_embeddings().weight.detach().abs().mean())
        sums = mean_sums(np.array(["a", "b"]), np.array([size, size]), np.array([1.0, 1.0]), "examples")
        return [Performance("size", "lower", size, sums)]


@pytest.fixture(scope="module")
def grown(tiny_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    Continued.trainings.clear()
    with pytest.raises(KeyboardInterrupt):  # in the first training, whose last checkpoint is of step 4
        growth(Continued(5), SIDES, SUITE, model=tiny_model("bert"), every=0.4, seeds=2, folder=folder, limit=LIMIT)
    curves = growth(Continued(), SIDES, SUITE, model=tiny_model("bert"), every=0.4, seeds=2, folder=folder, limit=LIMIT)
    return curves, folder


def test_each_side_is_trained_once_a_seed_and_measured_at_the_same_shares(grown):
    curves = grown[0]
    assert Continued.trainings == [(20, 0), (20, 0), (20, 1), (40, 0), (40, 1)]
    for side, steps in (("original", [0, 2, 4, 5]), ("CDA", [0, 4, 8, 10])):
        assert [[entry["step"] for entry in history] for history in curves.histories[side]] == [steps] * 2
        values = curves.curve(side)
        assert list(values) == [0, 40, 80, 100]
        assert all(len(by_seed) == 2 for by_seed in values.values())
    assert curves.curve("original")[0] == curves.curve("CDA")[0]  # the same start
    assert curves.curve("original")[100] != curves.curve("CDA")[100]


def test_an_interrupted_training_goes_on_with_its_history(grown, tiny_model):
    whole = growth(Continued(), {"original": None}, SUITE, model=tiny_model("bert"), every=0.4, seeds=1, limit=LIMIT)
    resumed = grown[0].histories["original"][0]
    assert [{**entry, "seconds": 0.0} for entry in whole.histories["original"][0]] == [
        {**entry, "seconds": 0.0} for entry in resumed
    ]


def test_the_last_place_is_the_trained_model(grown):
    curves, folder = grown
    (trained,) = folder.glob("growth-continued-cda-1-*/model")
    model = load_model(str(trained), device="cpu")
    expected = measure(SUITE, model, limit=LIMIT, cache=None)
    assert curves.curve("CDA")[100][1] == pytest.approx(expected.value, abs=1e-7)
    assert curves.curve("CDA", "size")[100][1] == pytest.approx(Continued().evaluate(model)[0].value)


def test_a_figure_of_the_task_is_not_a_statistic_of_its_name():
    entries = [
        {
            "step": step,
            "loss": None,
            "values": {"bios/accuracy": bias},
            "performance": {"accuracy": of_task},
            "seconds": 0.0,
        }
        for step, bias, of_task in ((0, 0.9, 0.1), (2, 0.8, 0.6))
    ]
    accuracy = load_suite("bios").statistics["accuracy"]
    curves = Growth("bios", {"accuracy": accuracy}, (0,), {"a": [entries]}, 2, {})
    assert curves.curve("a", "accuracy") == {0: [0.9], 2: [0.8]}
    assert curves.curve("a", "accuracy", task=True) == {0: [0.1], 2: [0.6]}
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in curves.table().splitlines()]
    assert rows[0] == ["step", "a: accuracy", "a: of the task, accuracy"] and rows[2] == ["0", "0.9000", "0.1000"]
    assert [list(panel.series[-1].y) for panel in growth_of_sides(curves).panels] == [[0.9, 0.8], [0.1, 0.6]]


def test_what_is_in_the_folder_is_not_trained_again(grown, tiny_model):
    Continued.trainings.clear()
    again = growth(
        Continued(), SIDES, SUITE, model=tiny_model("bert"), every=0.4, seeds=2, folder=grown[1], limit=LIMIT
    )
    assert again == grown[0] and Continued.trainings == []


def test_curves_are_plain_data(grown):
    written = json.loads(json.dumps(grown[0].to_dict()))
    read = Growth.from_dict(written)
    assert read.to_dict() == written
    assert read.curve("CDA", "loss") == grown[0].curve("CDA", "loss")
    del written["histories"]["CDA"][0]
    with pytest.raises(DataFileError, match="a history of each side for each of 2 seeds"):
        Growth.from_dict(written)
    with pytest.raises(DataFileError, match=r"growth\.every: expected a whole number or a number"):
        Growth.from_dict({**grown[0].to_dict(), "every": "often"})


def test_the_table_has_means_over_seeds(grown):
    curves = grown[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in curves.table().splitlines()]
    assert rows[0] == [
        "% of the training",
        "original: aggregate_bias",
        "CDA: aggregate_bias",
        "original: size",
        "CDA: size",
    ]
    values = curves.curve("CDA")[80]
    assert rows[4][0] == "80" and rows[4][2] == f"{np.mean(values):.4f} ({np.std(values, ddof=1):.4f})"


def test_the_picture_has_a_line_and_the_range_of_the_seeds_a_side(grown):
    picture = growth_of_sides(grown[0])
    bias, task = picture.panels
    lines = {series.name: series for series in bias.series if series.marks == "line"}
    bands = [series for series in bias.series if series.marks == "band"]
    assert list(lines) == ["original", "CDA"] and len(bands) == 2 and task.y.label == "size"
    values = grown[0].curve("CDA")[100]
    assert lines["CDA"].y[-1] == pytest.approx(np.mean(values), rel=1e-4)
    assert (bands[1].low[-1], bands[1].high[-1]) == pytest.approx((min(values), max(values)), rel=1e-4)


def test_steps_of_a_share_are_equally_far_apart():
    for share, last in ((0.1, 885), (0.3, 77), (0.01, 30), (0.5, 1)):
        steps = steps_of_share(share, last)
        assert steps == sorted({round(x) for x in np.arange(1, int(1 / share + 1e-9) + 1) * share * last + 1e-9} - {0})
        assert all(1 <= step <= last for step in steps)


@pytest.mark.parametrize(
    ("sides", "more", "message"),
    [
        ({}, {}, "a side or more"),
        ({"wed": "wed"}, {}, r"'wed' changes the finished model \(wed\), which shows at no step"),
        ({"a": None}, {"every": 1.5}, "every should be"),
        ({"a": None}, {"every": 0}, "every should be"),
        ({"a": None}, {"seeds": [1, 1]}, "should be different"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_trained(sides, more, message, tiny_model):
    with pytest.raises(SettingError, match=message):
        growth(Continued(1), sides, SUITE, model=tiny_model("bert"), **more)


def test_unknown_sides_and_figures_are_named(grown):
    with pytest.raises(UnknownNameError, match="there are original, CDA"):
        grown[0].curve("none")
    with pytest.raises(UnknownNameError, match=r"there are aggregate_bias, .*size, loss"):
        grown[0].curve("CDA", "accuracy")
    assert Path(grown[1]).is_dir()
