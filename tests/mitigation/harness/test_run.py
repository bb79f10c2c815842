"""``mitigate``: the right models on each side, each trained once, and the control under the same conditions."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from support.tiny_checkpoints import save_checkpoint

from pytest_genderbias.errors import MitigationNotApplicableError, NotApplicableError, SettingError, UnknownNameError
from pytest_genderbias.measurement.runner import Runner, RunSettings
from pytest_genderbias.mitigation.harness.run import CONTROLS, MitigationRun, mitigate
from pytest_genderbias.mitigation.methods.base import Columns, Hooks, Method
from pytest_genderbias.mitigation.methods.counterfactual import CounterfactualAugmentation
from pytest_genderbias.mitigation.methods.hard_debiasing import HardDebiasing
from pytest_genderbias.mitigation.methods.projection import Projection
from pytest_genderbias.mitigation.words.pairs import distinct_pairs
from pytest_genderbias.models.loading import load_model
from pytest_genderbias.models.saving import copied, input_embeddings, with_network
from pytest_genderbias.models.source import LoadSettings
from pytest_genderbias.recipes.heads import device_for_new, on_device
from pytest_genderbias.recipes.recipe import PLAIN, Performance
from pytest_genderbias.recipes.trainer import save_whole
from pytest_genderbias.statistics.inference.item_sums import mean_sums

TRAINED: list[tuple] = []


@dataclass(frozen=True)
class Shift:
    """A recipe that adds to every embedding the seed and the number of rows, so that tests can tell what was trained
    on.
    """

    name: ClassVar[str] = "shift"
    columns: ClassVar[tuple[str, ...]] = ("text",)
    label: ClassVar[str | None] = None
    group: ClassVar[str | None] = None
    makes_task: ClassVar[bool] = False
    texts: tuple[str, ...] = ("He sings.", "It rains.")

    def settings(self):
        return {"texts": list(self.texts), "makes_task": self.makes_task}

    def rows(self):
        return [{"text": text, "n": n} for n, text in enumerate(self.texts)]

    def start(self, model, seed):
        return with_network(model, copied(model.backend.network), "start")

    def train(self, model, rows, seed, folder, training=PLAIN):
        TRAINED.append((seed, [row["text"] for row in rows]))
        network = copied(model.backend.network)
        with training.around(network), torch.no_grad():
            for callback in training.callbacks:
                callback.on_train_begin(None, None, None, model=network)
            network.get_input_embeddings().weight.add_(seed + 0.1 * len(rows))
            for callback in training.callbacks:
                callback.on_step_end(None, None, None, model=network)
        return save_whole(network, model.backend.tokenizer, folder / "model", {})

    def evaluate(self, model):
        value = float(input_embeddings(model.backend.network).mean())
        item_sums = mean_sums(np.array(["all"]), np.array([value]), np.array([1]), "texts")
        return [Performance("mean", "higher", value, item_sums)]


@dataclass(frozen=True)
class MakesTask(Shift):
    makes_task: ClassVar[bool] = True


@dataclass(frozen=True)
class Halve(Method):
    """Halves the embeddings after training."""

    name: ClassVar[str] = "halve"
    by: float = 0.5

    def after(self, model, seed):
        network = copied(model.backend.network)
        with torch.no_grad():
            network.get_input_embeddings().weight.mul_(self.by)
        return with_network(model, network, "halved")

    def control(self, repeat):
        return Halve(1.0 + repeat)


@dataclass(frozen=True)
class Frame(Method):
    """Records that it was around a training."""

    name: ClassVar[str] = "frame"
    seen: list = field(default_factory=list, compare=False)

    def settings(self):
        return {"method": self.name}

    def hooks(self, model):
        from contextlib import contextmanager

        @contextmanager
        def around(network):
            self.seen.append("in")
            yield network
            self.seen.append("out")

        return Hooks(around=around)


@pytest.fixture
def base(tmp_path):
    TRAINED.clear()
    return load_model(str(save_checkpoint("bert", tmp_path / "base")), device="cpu")


def embeddings(model):
    model = load_model(model) if isinstance(model, str) else model
    return input_embeddings(model.backend.network)


def shift_of(model, base):
    """By how much a model's embeddings were moved."""
    return round(float(np.median(embeddings(model) - input_embeddings(base.backend.network))), 4)


def test_training_on_has_the_given_model_before_and_the_plain_training_as_control(base, tmp_path):
    method = CounterfactualAugmentation(pairs="lu2018-pairs", sides="one")
    run = mitigate(base, method, Shift(), seeds=(1, 2), folder=tmp_path / "runs")
    assert [models[0] is base for models in run.models("before")] == [True, True]
    assert [shift_of(models[0], base) for models in run.models("after")] == [1.1, 2.1]
    assert [[shift_of(m, base) for m in models] for models in run.models("control")] == [[1.2], [2.2]]
    assert TRAINED == [
        (1, ["She sings."]),
        (1, ["He sings.", "It rains."]),
        (2, ["She sings."]),
        (2, ["He sings.", "It rains."]),
    ]
    assert run.seeds == (1, 2) and run.trained and run.what["control"] == "the same recipe without the method"
    assert [found["mean"].value for (found,) in run.performance("after")] == pytest.approx(
        [float(embeddings(m[0]).mean()) for m in run.models("after")]
    )


def test_the_control_of_two_sided_augmentation_is_the_same_text_twice(base, tmp_path):
    run = mitigate(base, CounterfactualAugmentation(), Shift(), seeds=1, folder=tmp_path)
    assert TRAINED == [(0, ["He sings.", "She sings.", "It rains."]), (0, ["He sings.", "He sings.", "It rains."])]
    assert run.what["control"] == "the same recipe with each swapped text twice"
    assert run.what["method"]["pairs"] == "lu2018-pairs"


def test_a_recipe_that_makes_the_task_has_the_plain_training_before_and_no_other_control(base, tmp_path):
    run = mitigate(base, CounterfactualAugmentation(sides="one"), MakesTask(), seeds=2, folder=tmp_path)
    assert [shift_of(m[0], base) for m in run.models("before")] == [0.2, 1.2]
    assert [shift_of(m[0], base) for m in run.models("after")] == [0.1, 1.1]
    assert run.control == ()


def test_what_is_done_after_training_shares_the_trainings(base, tmp_path):
    run = mitigate(base, Halve(), MakesTask(), seeds=2, controls=3, folder=tmp_path)
    assert len(TRAINED) == 2, "one training a seed, for before, after and all controls"
    for before, after, control in zip(*(run.models(s) for s in ("before", "after", "control")), strict=True):
        np.testing.assert_allclose(embeddings(after[0]), 0.5 * embeddings(before[0]))
        assert len(control) == 3
    scales = [np.median(embeddings(c) / embeddings(run.models("before")[1][0])) for c in run.models("control")[1]]
    np.testing.assert_allclose(scales, [4.0, 5.0, 6.0], rtol=1e-6)


def test_without_a_recipe_nothing_is_trained(base):
    run = mitigate(base, Halve())
    assert not TRAINED and not run.trained and run.seeds == (0,)
    assert len(run.models("control")[0]) == CONTROLS
    np.testing.assert_array_equal(embeddings(run.models("after")[0][0]), 0.5 * embeddings(base))


def test_a_recipe_that_trains_on_only_evaluates_what_is_done_at_test(base):
    run = mitigate(base, Halve(), Shift(), controls=1)
    assert not TRAINED and not run.trained
    assert run.performance("after")[0][0]["mean"].value == pytest.approx(
        0.5 * run.performance("before")[0][0]["mean"].value
    )


def test_a_second_run_trains_nothing_again(base, tmp_path):
    method = CounterfactualAugmentation(sides="one")
    first = mitigate(base, method, Shift(), seeds=2, folder=tmp_path)
    count = len(TRAINED)
    again = mitigate(base, method, Shift(), seeds=2, folder=tmp_path)
    assert len(TRAINED) == count and again.after == first.after
    mitigate(base, CounterfactualAugmentation(sides="one", neutral="once"), Shift(), seeds=2, folder=tmp_path)
    assert len(TRAINED) == count + 2, "the control is shared"
    mitigate(base, method, Shift(("He runs.",)), seeds=1, folder=tmp_path)
    assert len(TRAINED) == count + 4, "other data are another training"
    told = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("*/run.json"))]
    assert {one["recipe"]["texts"][0] for one in told} == {"He sings.", "He runs."}


def test_what_a_killed_training_left_is_removed_and_what_it_resumes_from_is_kept(base, tmp_path, monkeypatch):
    method, runs = CounterfactualAugmentation(pairs="lu2018-pairs", sides="one"), tmp_path / "runs"
    mitigate(base, method, Shift(), seeds=1, folder=runs)
    trained, interrupted = sorted(runs.iterdir())
    (interrupted / "model").rename(tmp_path / "gone")
    for run in (trained, interrupted):
        (run / ".saving-abcdefgh" / "model").mkdir(parents=True)
        (run / "checkpoints" / "checkpoint-1").mkdir(parents=True)
        (run / ".run.json-0123abcd").write_text("{")
    seen, train = [], Shift.train

    def noting(self, model, rows, seed, folder, training=PLAIN):
        seen.append((folder, sorted(path.name for path in folder.iterdir())))
        return train(self, model, rows, seed, folder, training)

    monkeypatch.setattr(Shift, "train", noting)
    mitigate(base, method, Shift(), seeds=1, folder=runs)
    assert seen == [(interrupted, [".lock", "checkpoints", "run.json"])]
    assert sorted(path.name for path in trained.iterdir()) == [".lock", "model", "run.json"]


def test_projection_at_training_and_test_holds_in_the_trained_model(base, tmp_path):
    pairs = (("he", "she"),)
    run = mitigate(base, Projection(pairs=pairs, when="training"), MakesTask(), seeds=1, controls=2, folder=tmp_path)
    basis = Projection(pairs=pairs).basis(base)
    assert np.abs(embeddings(run.after[0]) @ basis).max() < 1e-5
    assert np.abs(embeddings(run.before[0]) @ basis).max() > 0.05
    for seed, control in enumerate(run.control[0]):
        drawn = Projection(random=seed).basis(base)
        assert np.abs(embeddings(control) @ drawn).max() < 1e-5 < np.abs(embeddings(control) @ basis).max()
    assert run.what["control"] == "random directions"


def test_projection_of_layers_is_at_test(base):
    run = mitigate(base, Projection(layers=(1, 2)), controls=2)
    assert "layers" in run.after[0].details["mitigation"] and run.after[0].fingerprint != base.fingerprint
    assert len({one.fingerprint for one in run.control[0]}) == 2
    assert not Projection(layers=(1, 2)).trains and Projection(layers=(1, 2), when="training").trains


def test_hard_debiasing_before_training_after_it_or_both(base, tmp_path):
    rank = {}
    for when in ("before", "after", "both"):
        run = mitigate(base, HardDebiasing(pairs="lu2018-pairs", when=when), MakesTask(), seeds=1, folder=tmp_path)
        rank[when] = embeddings(run.after[0])
        assert run.control == ()
    assert len(TRAINED) == 3, "plain, and what was debiased before: once each for before and both"
    assert not np.array_equal(rank["before"], rank["after"])


def test_methods_together_do_what_each_does(base, tmp_path):
    frame = Frame()
    both = CounterfactualAugmentation(sides="one") & frame & Halve()
    run = mitigate(base, both, Shift(), seeds=1, folder=tmp_path)
    assert frame.seen[:2] == ["in", "out"]
    assert TRAINED[0] == (0, ["She sings."])
    start = input_embeddings(base.backend.network)
    np.testing.assert_allclose(embeddings(run.after[0]), 0.5 * (start + 0.1), atol=1e-6)
    assert both.settings()["method"] == "cda & frame & halve"
    rows = (CounterfactualAugmentation(sides="one") & Method()).rows([{"text": "He runs."}], Columns(("text",)), 0)
    assert list(rows) == [{"text": "She runs."}]


def test_a_run_of_models_of_ones_own(base, tmp_path):
    other = str(save_checkpoint("bert", tmp_path / "other", seed=1))
    run = MitigationRun(base, [other, other], control=[[base], [base]])
    assert [len(run.models(side)) for side in ("before", "after", "control")] == [2, 2, 2]
    assert run.seeds == (0, 1) and run.models("before")[1][0] is base
    with pytest.raises(SettingError, match="3 models on one side and 2 after"):
        MitigationRun([base] * 3, [other] * 2)
    with pytest.raises(SettingError, match="has controls for 3"):
        MitigationRun([base] * 2, [other] * 2, [[base]] * 3)
    with pytest.raises(SettingError, match="1 seeds were named for 2"):
        MitigationRun([base] * 2, other, seeds=(4,))
    with pytest.raises(SettingError, match="no recipe"):
        run.performance("before")
    assert MitigationRun(base, other, control=None).control == ()
    with pytest.raises(SettingError, match="have 2, 1 controls"):
        MitigationRun([base] * 2, [other] * 2, [[base, other], [base]])
    with pytest.raises(SettingError, match="have 0, 0 controls"):
        MitigationRun([base] * 2, [other] * 2, [[], []])
    with pytest.raises(SettingError, match="should be different, got 3, 3"):
        MitigationRun([base] * 2, [other] * 2, seeds=(3, 3))
    with pytest.raises(SettingError, match="0 before"):
        MitigationRun([], [])


@dataclass(frozen=True)
class Scaled(Shift):
    """Tells the mean of the embeddings, times a factor; and wants suites measured on its own texts."""

    factor: float = 1.0

    def evaluate(self, model):
        (one,) = super().evaluate(model)
        return [replace(one, value=self.factor * one.value)]

    def suite_settings(self, suite, folder):
        return {"texts": f"{folder}/{suite.name}", "training": "t"}


def test_each_recipe_evaluates_for_itself(base):
    run = MitigationRun(base, base, recipe=Scaled(factor=2.0))
    other = replace(run, recipe=Scaled(factor=6.0))
    (one,), (three,) = run.performance("after")[0][0].values(), other.performance("after")[0][0].values()
    assert three.value == pytest.approx(3 * one.value) and one.value != 0


def test_the_recipe_says_on_what_a_suite_is_measured_unless_the_user_does(base, tmp_path):
    asked = []

    class Asked(Runner):
        def measure_once(self, suite, model, settings=None):
            asked.append(settings)

    run = MitigationRun(base, base, recipe=Scaled(), folder=tmp_path, runner=Asked())
    run.measure("after", "lm-occupation", limit=3)
    run.measure("after", "lm-occupation", texts="mine")
    replace(run, folder=None).measure("after", "lm-occupation")
    assert asked == [{"texts": f"{tmp_path}/lm-occupation", "training": "t", "limit": 3}, {"texts": "mine"}, {}]


def test_nothing_to_do_is_refused(base):
    with pytest.raises(SettingError, match="cda takes part in a training"):
        mitigate(base, CounterfactualAugmentation())
    with pytest.raises(SettingError, match="no model to mitigate"):
        mitigate(None, Projection())
    for method in ("cda", Projection()):
        with pytest.raises(SettingError, match="no model for the recipe masked-lm to start from; give one, or"):
            mitigate(None, method, "masked-lm")
    for wrong in ({"seeds": 0}, {"seeds": []}, {"seeds": [1, 1]}, {"controls": -1}):
        with pytest.raises(SettingError, match=next(iter(wrong))):
            mitigate(base, Projection(), **wrong)


def test_a_run_with_another_runner_or_name_measures_again(base):
    class Limited(Runner):
        def __init__(self, limit):
            super().__init__(score=RunSettings(limit=limit, cache=None))

    run = MitigationRun(base, base, runner=Limited(8), name="first")
    others = (run, replace(run, runner=Limited(16)), replace(run, name="second"))
    measured = [other.measure("after", "lm-occupation")[0][0] for other in others]
    assert [(m.n, m.model) for m in measured] == [(8, "first"), (16, "first"), (8, "second")]
    assert run.measure("after", "lm-occupation")[0][0] is measured[0]


@dataclass(frozen=True)
class RefusesModels(Shift):
    """A recipe for another kind of model."""

    def start(self, model, seed):
        raise NotApplicableError(f"shift does not train {model.role.text}")

    def evaluate(self, model):
        raise NotApplicableError(f"shift does not evaluate {model.role.text}")


def test_a_mitigation_that_does_not_apply_is_told_from_anything_else_that_does_not(base):
    with pytest.raises(MitigationNotApplicableError, match="shift does not train a masked LM") as caught:
        mitigate(base, CounterfactualAugmentation(), RefusesModels())
    assert type(caught.value.__cause__) is NotApplicableError
    run = MitigationRun(base, base, recipe=RefusesModels())
    with pytest.raises(MitigationNotApplicableError, match="nli-occupation needs a pair classifier"):
        run.measure("after", "nli-occupation")
    for unrelated in (lambda: run.performance("after"), lambda: run.runner.measure("nli-occupation", base)):
        with pytest.raises(NotApplicableError) as caught:
            unrelated()
        assert type(caught.value) is NotApplicableError


def test_each_side_is_measured_once(base, monkeypatch):
    asked = []

    class Asked(Runner):
        def measure_once(self, suite, model, settings=None):
            asked.append((suite.name, model.fingerprint, settings))
            return model.fingerprint

    run = MitigationRun(base, base, runner=Asked())
    assert (
        run.measure("before", "lm-occupation", limit=3)
        == [[base.fingerprint]]
        == run.measure("after", "lm-occupation", limit=3)
    )
    assert len(asked) == 1
    run.measure("after", "lm-occupation", limit=4)
    assert [settings for *_, settings in asked] == [{"limit": 3}, {"limit": 4}]


def test_trainings_live_in_a_temporary_folder_unless_one_is_named(base):
    run = mitigate(base, CounterfactualAugmentation(sides="one"), Shift(), seeds=1)
    folder = Path(run.after[0]).parent.parent
    assert folder.is_dir() and folder == run.folder
    del run
    import gc

    gc.collect()
    assert not folder.exists()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Projection(when="never"), "when should be one of test, training"),
        (lambda: HardDebiasing(when="never"), "one of before, after, both"),
        (lambda: CounterfactualAugmentation(grammar="latin"), "one of rules, spacy"),
        (lambda: CounterfactualAugmentation(names="none"), "same, other, random"),
    ],
)
def test_settings_that_there_are_not(make, message):
    with pytest.raises(SettingError, match=message):
        make()


def test_a_list_of_pairs_has_each_pair_once():
    pairs = distinct_pairs("bordia2019-wikitext-2")
    flat = [word for pair in pairs for word in pair]
    assert len(flat) == len(set(flat)) and ("man", "woman") in pairs


def test_unknown_words_give_no_direction(base):
    """A network has one vector for all words that it does not know: no pair, and no set, takes it."""
    from pytest_genderbias.mitigation.words.directions import has_vectors

    assert has_vectors(base, "he", "she", "nurse")
    assert not has_vectors(base, "he", "\u4e2d")
    words = Projection(words=("he", "she", "man", "\u4e2d"), components=1).basis(base)
    np.testing.assert_allclose(np.abs(words), np.abs(Projection(words=("he", "she", "man")).basis(base)))


def test_networks_in_memory_do_not_share_their_runs(base, tmp_path):
    """A network that comes from no file has no fingerprint; another one in the same folder is trained by itself."""
    from dataclasses import replace

    nameless = replace(base, fingerprint=None)
    moved = copied(base.backend.network)
    with torch.no_grad():
        moved.get_input_embeddings().weight.add_(1.0)
    other = replace(nameless, backend=replace(base.backend, network=moved))
    method = CounterfactualAugmentation(sides="one")
    one, two, again = (mitigate(m, method, Shift(), seeds=1, folder=tmp_path) for m in (nameless, other, nameless))
    assert one.after == again.after != two.after
    assert len(TRAINED) == 4, "two models, with the method and without"
    assert shift_of(two.after[0], base) == 1.1


def test_a_changed_list_is_another_method(tmp_path):
    """What a run is known by is what is in a file, not where it lies."""
    path, other = tmp_path / "pairs.txt", tmp_path / "elsewhere" / "pairs.txt"
    path.write_text("he she\n")
    one = CounterfactualAugmentation(pairs=str(path)).settings()
    other.parent.mkdir()
    other.write_text("he she\n")
    assert CounterfactualAugmentation(pairs=str(other)).settings() == one and str(tmp_path) not in json.dumps(one)
    path.write_text("man woman\n")
    assert CounterfactualAugmentation(pairs=str(path)).settings() != one
    assert "files" not in CounterfactualAugmentation().settings()


def test_a_name_or_a_mapping_stands_for_a_method_and_a_recipe(checkpoint, tmp_path):
    """As in the fixture and in gate files; a name was 'str' object has no attribute 'trains'."""
    spec, named = str(checkpoint("bert")), {"name": "projection", "when": "test"}
    by_name, by_mapping, by_list, by_object = (
        mitigate(spec, method, controls=2) for method in ("projection", named, ["projection"], Projection())
    )
    digests = {run.open(run.models("after")[0][0]).fingerprint for run in (by_name, by_mapping, by_list, by_object)}
    assert len(digests) == 1
    assert by_name.what["method"] == by_object.what["method"]
    (tmp_path / "x.txt").write_text("He sings and it rains.\n" * 400, encoding="utf-8")
    run = mitigate(spec, "projection", {"name": "masked-lm", "steps": 1, "corpus": str(tmp_path / "x.txt")}, controls=1)
    assert run.recipe.name == "masked-lm" and run.recipe.steps == 1
    with pytest.raises(UnknownNameError, match="no method is called 'projektion'"):
        mitigate(spec, "projektion")
    with pytest.raises(UnknownNameError, match="no recipe is called 'maskedlm'"):
        mitigate(spec, "projection", "maskedlm")


def test_recipes_make_networks_on_the_device_of_the_run(checkpoint):
    made_on = []

    class Noting(MakesTask):
        def start(self, model, seed):
            made_on.append(device_for_new())
            return super().start(model, seed)

    runner = Runner(load=LoadSettings(device="cpu"), score=RunSettings(cache=None))
    mitigate(str(checkpoint("bert")), Halve(), Noting(), seeds=1, controls=1, runner=runner)
    assert set(made_on) == {"cpu"}
    with on_device("cuda:1"):
        assert device_for_new() == "cuda:1"
        mitigate(str(checkpoint("bert")), Halve(), Noting(), seeds=1, controls=1, runner=runner)
    assert set(made_on) == {"cpu"}
