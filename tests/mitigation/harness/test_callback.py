"""Bias watched during training: nothing of the training changes, figures are those of measure(), a resumed run has them
all.
"""

import json
import random

import numpy as np
import pytest
import torch
import transformers
from scipy import stats
from support.tiny_checkpoints import corpus, make_network, tokenizer

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import NotApplicableError, ScoreError, SettingError, UndefinedError, UnknownNameError
from pytest_genderbias.mitigation import BiasCallback
from pytest_genderbias.mitigation.harness.callback import history_of, loss_association, read_history, undisturbed
from pytest_genderbias.recipes.heads import head_at_labels
from pytest_genderbias.recipes.recipe import Performance

SUITE = "lm-occupation"
AOB = f"{SUITE}/aggregate_bias"


def trainer_of(folder, *callbacks, steps=6, words=None, **arguments):
    """Return a Trainer of a tiny masked LM, whose order and dropout hang on random states (masks on their batch: one is
    drawn ahead).
    """
    network = make_network("bert", hidden_dropout_prob=0.2)
    ids = [dict(tokenizer("bert")(text, truncation=True, max_length=32)) for text in corpus()[:200]]

    def collate(rows):
        batch = tokenizer("bert").pad(rows, return_tensors="pt")
        hidden = (batch["input_ids"] > 4) & (batch["input_ids"] % 5 == 0)
        labels = batch["input_ids"].masked_fill(~hidden, -100)
        batch["input_ids"] = batch["input_ids"].masked_fill(hidden, tokenizer("bert").mask_token_id)
        return {**batch, "labels": labels}

    how = transformers.TrainingArguments(
        **{"output_dir": str(folder), "max_steps": steps, "per_device_train_batch_size": 4, "learning_rate": 1e-3,
            "seed": 3,
           "logging_steps": 4, "save_strategy": "no", "report_to": [], "use_cpu": True, "disable_tqdm": True,
           **arguments},
    )  # fmt: skip
    return transformers.Trainer(network, how, collate, ids, processing_class=words, callbacks=list(callbacks))


def evaluate(model):
    """Tell a figure, and draw from every random state on the way."""
    assert not model.backend.network.training
    random.random(), np.random.rand(), torch.rand(1)
    return [Performance("accuracy", "lower", 0.75, None)]


def weights(trainer):
    return {name: tensor.detach().clone() for name, tensor in trainer.model.state_dict().items()}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    trainer = trainer_of(tmp_path_factory.mktemp("plain"))
    trainer.train()
    return weights(trainer)


@pytest.fixture(scope="module")
def watched(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("watched")
    callback = BiasCallback(
        [SUITE], every=2, model=tiny_model("bert"), limit=64, log=folder / "bias.jsonl", evaluate=evaluate
    )
    trainer = trainer_of(folder, callback, save_strategy="steps", save_steps=4)
    trainer.train()
    return callback, trainer, folder


def test_watched_training_ends_with_the_weights_of_unwatched(plain, watched):
    found = weights(watched[1])
    assert plain.keys() == found.keys()
    assert all(torch.equal(plain[name], found[name]) for name in plain)
    first = make_network("bert", hidden_dropout_prob=0.2).state_dict()
    assert any(not torch.equal(first[name], found[name]) for name in found)  # it did train


def test_every_second_step_is_measured_with_its_loss(watched):
    history = watched[0].history
    assert [entry["step"] for entry in history] == [0, 2, 4, 6]
    assert history[0]["loss"] is None
    assert all(entry["loss"] > 0 and entry["seconds"] >= 0 for entry in history[1:])
    assert len({entry["values"][AOB] for entry in history}) == 4


def test_figures_are_those_of_measure(watched, tmp_path):
    trainer = watched[1]
    trainer.model.save_pretrained(tmp_path)
    tokenizer("bert").save_pretrained(tmp_path)
    expected = measure(SUITE, load_model(str(tmp_path), device="cpu"), limit=64, cache=None)
    assert watched[0].history[-1]["values"] == {
        f"{SUITE}/{name}": pytest.approx(value, abs=1e-7) for name, value in expected.values.items()
    }


def test_the_trainers_log_holds_the_figures(watched):
    callback, trainer, _ = watched
    told = [entry for entry in trainer.state.log_history if f"bias/{AOB}" in entry]
    assert [(entry["step"], entry[f"bias/{AOB}"]) for entry in told] == [
        (entry["step"], entry["values"][AOB]) for entry in callback.history
    ]
    assert history_of(trainer.state.log_history) == callback.history


def test_a_resumed_training_has_the_history_of_the_uninterrupted_one(watched, tiny_model, tmp_path):
    callback, whole, folder = watched
    again = BiasCallback(SUITE, every=2, model=tiny_model("bert"), limit=64, evaluate=evaluate)
    trainer = trainer_of(tmp_path, again, save_strategy="steps", save_steps=4)
    trainer.train(resume_from_checkpoint=str(folder / "checkpoint-4"))
    for mine, other in zip(again.history, callback.history, strict=True):
        assert {**mine, "seconds": 0} == {**other, "seconds": 0}
    assert all(torch.equal(a, b) for a, b in zip(weights(trainer).values(), weights(whole).values(), strict=True))


def test_the_log_is_the_history(watched):
    assert read_history(watched[2] / "bias.jsonl") == watched[0].history


def test_a_log_of_a_run_that_was_killed_and_went_back(tmp_path, tiny_model):
    path = tmp_path / "bias.jsonl"
    old = [{"step": step, "loss": 9.0, "values": {}, "performance": {}, "seconds": 0} for step in (0, 2, 50)]
    path.write_text("\n".join(map(json.dumps, old)) + '\n{"step": 5')  # cut off
    callback = BiasCallback(SUITE, every=[2], model=tiny_model("bert"), limit=64, log=path)
    trainer_of(tmp_path, callback, steps=3).train()
    assert [(entry["step"], entry["loss"] is None) for entry in callback.history] == [(0, True), (2, False), (3, False)]
    assert read_history(path) == callback.history
    with pytest.raises(SettingError, match=r"none\.jsonl cannot be read"):
        read_history(tmp_path / "none.jsonl")


def test_a_log_that_cannot_be_written_is_one_error(tmp_path, tiny_model):
    (tmp_path / "file").write_text("")
    callback = BiasCallback(SUITE, model=tiny_model("bert"), limit=64, log=tmp_path / "file" / "bias.jsonl")
    with pytest.raises(SettingError, match=r"bias\.jsonl cannot be written"):
        trainer_of(tmp_path, callback).train()


def test_tokenizer_and_role_of_the_trainer_serve_without_a_model(watched, tmp_path):
    callback = BiasCallback(SUITE, every=6, at_start=False, limit=64)
    trainer_of(tmp_path, callback, words=tokenizer("bert")).train()
    (entry,) = callback.history
    assert entry["values"] == watched[0].history[-1]["values"]
    with pytest.raises(SettingError, match=r"give it model=\.\.\., or give the Trainer a processing_class"):
        trainer_of(tmp_path, BiasCallback(SUITE)).train()


def test_a_suite_that_cannot_apply_is_refused_before_the_first_step(tiny_model, tmp_path):
    with pytest.raises(NotApplicableError, match="nli-occupation needs a pair classifier"):
        BiasCallback("nli-occupation", model=tiny_model("bert"))
    trainer = trainer_of(tmp_path, BiasCallback("nli-occupation"), words=tokenizer("bert"))
    with pytest.raises(
        NotApplicableError, match=r"nli-occupation needs a pair classifier .*; BertForMaskedLM is a masked LM"
    ):
        trainer.train()
    assert trainer.state.global_step == 0


def test_wrong_settings_are_refused_at_once(tiny_model):
    for every in (0, -1, True, 2.5, [1, -2], ["a"]):
        with pytest.raises((SettingError, TypeError), match=r"every should be|not iterable"):
            BiasCallback(SUITE, every=every)
    with pytest.raises(SettingError, match="one or more different ones"):
        BiasCallback([SUITE, SUITE])
    with pytest.raises(SettingError, match="one or more different ones, got none"):
        BiasCallback([])
    with pytest.raises(UnknownNameError, match="no suite 'lm-nothing'"):
        BiasCallback("lm-nothing")
    with pytest.raises((SettingError, UnknownNameError), match="temperature"):
        BiasCallback(SUITE, model=tiny_model("bert"), temperature=3)
    with pytest.raises(SettingError, match="limit should be a whole number"):
        BiasCallback(SUITE, limit=0)


def test_report_reaches_other_callbacks(tmp_path, tiny_model):
    seen = []

    class Reporter(transformers.TrainerCallback):
        def on_log(self, args, state, control, logs=None, **more):
            seen.append((state.global_step, set(logs)))

    callback = BiasCallback(SUITE, every=3, model=tiny_model("bert"), limit=64)
    trainer = trainer_of(tmp_path, Reporter(), callback)
    callback.report = trainer.log
    trainer.train()
    assert [step for step, names in seen if f"bias/{AOB}" in names] == [0, 3, 6]
    assert history_of(trainer.state.log_history) == callback.history


def test_a_training_that_is_stopped_early_is_measured_at_its_end(tmp_path, tiny_model):
    class Stop(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **more):
            control.should_training_stop = state.global_step == 3

    callback = BiasCallback(SUITE, every=5, model=tiny_model("bert"), limit=64, at_start=False)
    trainer_of(tmp_path, callback, Stop()).train()
    assert [entry["step"] for entry in callback.history] == [3]


def test_how_well_the_task_is_done_is_told_beside(watched):
    callback, trainer, _ = watched
    assert [entry["performance"] for entry in callback.history] == [{"accuracy": 0.75}] * 4
    assert [entry["task/accuracy"] for entry in trainer.state.log_history if "task/accuracy" in entry] == [0.75] * 4


def test_a_task_without_a_figure_stops_no_training(tmp_path, tiny_model):
    def nothing(model):
        raise UndefinedError("it is exp(812), too large for a number")

    callback = BiasCallback(SUITE, every=2, model=tiny_model("bert"), limit=64, evaluate=nothing)
    trainer_of(tmp_path, callback, steps=2).train()
    assert [(entry["step"], entry["performance"]) for entry in callback.history] == [(0, {}), (2, {})]


def test_a_network_that_has_lost_its_numbers_is_no_figure(tmp_path, tiny_model):
    class Spoil(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, model=None, **more):
            torch.nn.init.constant_(model.get_input_embeddings().weight, torch.nan)

    with pytest.raises(ScoreError):
        trainer_of(tmp_path, Spoil(), BiasCallback(SUITE, every=1, model=tiny_model("bert"), limit=64)).train()


def test_modes_and_random_states_are_put_back_whatever_happens():
    network = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Sequential(torch.nn.Dropout()))
    network[1].eval()
    modes = [module.training for module in network.modules()]
    torch.manual_seed(1), np.random.seed(1), random.seed(1)
    expected = torch.rand(2).tolist(), np.random.rand(), random.random()
    torch.manual_seed(1), np.random.seed(1), random.seed(1)

    def disturb():
        with undisturbed(network):
            assert not any(module.training for module in network.modules())
            raise ZeroDivisionError(torch.rand(5), np.random.rand(5), random.random())

    with pytest.raises(ZeroDivisionError):
        disturb()
    assert (torch.rand(2).tolist(), np.random.rand(), random.random()) == expected
    assert [module.training for module in network.modules()] == modes


def test_hidden_states_are_whole_where_training_computes_the_head_at_labels_only():
    network = make_network("bert")
    ids = torch.arange(6, 26)[None]
    labels = torch.where(ids % 5 == 0, ids, -100)
    with torch.no_grad():
        expected = network.base_model(input_ids=ids).last_hidden_state
        with head_at_labels(network) as done:
            assert done
            assert network(input_ids=ids, labels=labels).logits.shape[1] == 4
            assert torch.equal(network.base_model(input_ids=ids).last_hidden_state, expected)


def test_the_association_is_that_of_scipy():
    rng = np.random.default_rng(0)
    loss, bias = np.sort(rng.integers(0, 9, 12))[::-1].astype(float), rng.random(12)
    history = [{"step": i, "loss": x, "values": {"s/v": y}} for i, (x, y) in enumerate(zip(loss, bias, strict=True))]
    found = loss_association([{"step": -1, "loss": None, "values": {"s/v": 1.0}}, *history])
    assert found["n"] == 12
    assert found["pearson"] == pytest.approx(stats.pearsonr(loss, bias)[0], abs=1e-12)
    assert found["spearman"] == pytest.approx(stats.spearmanr(loss, bias)[0], abs=1e-12)
    with pytest.raises(UndefinedError):
        loss_association(history[:2])
    with pytest.raises(UnknownNameError, match="'s/w' was not measured; there are s/v"):
        loss_association(history, "s/w")
