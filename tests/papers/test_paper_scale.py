"""The paper's scale of every run with its real networks, of the real sizes, without their weights: what a device has to
hold.
"""

from __future__ import annotations

import copy

import pytest
import torch
from transformers import (
    AlbertConfig,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    BertConfig,
    DebertaV2Config,
    RobertaConfig,
)

from pytest_genderbias.mitigation.methods.registry import make_recipe
from pytest_genderbias.papers.config import PAPER, load_paper, paper_names
from pytest_genderbias.papers.places import TEXTS, Places, placed
from pytest_genderbias.recipes.networks.decomposable_attention import (
    DecomposableAttentionConfig,
    DecomposableAttentionForSequenceClassification,
)
from pytest_genderbias.recipes.networks.mention_scorers import (
    EdgeProbingConfig,
    EdgeProbingModel,
    SpanCoreferenceConfig,
    SpanCoreferenceModel,
)
from pytest_genderbias.recipes.networks.word_lstm import WordLstmConfig, WordLstmForCausalLM

PLACES = Places(dict.fromkeys(("data", "glove300", "ptb", "cnn", "ontonotes", "wikipedia", *TEXTS), "."), None)
LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
SMALL = {"hidden_size": 512, "num_attention_heads": 8, "intermediate_size": 2048}
#: The shapes of the released networks.
SHAPES = {
    "albert/albert-base-v2": AlbertConfig(
        hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072
    ),
    "albert/albert-large-v2": AlbertConfig(**LARGE),
    "google/bert_uncased_L-4_H-512_A-8": BertConfig(num_hidden_layers=4, **SMALL),
    "google/bert_uncased_L-8_H-512_A-8": BertConfig(num_hidden_layers=8, **SMALL),
    "google-bert/bert-base-uncased": BertConfig(),
    "google-bert/bert-large-uncased": BertConfig(**LARGE),
    "google-bert/bert-large-cased": BertConfig(vocab_size=28_996, **LARGE),
    "SpanBERT/spanbert-base-cased": BertConfig(vocab_size=28_996),
    "FacebookAI/roberta-base": RobertaConfig(vocab_size=50_265, max_position_embeddings=514, type_vocab_size=1),
    "microsoft/deberta-v3-base": DebertaV2Config(
        hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
        relative_attention=True, position_buckets=256, norm_rel_ebd="layer_norm", share_att_key=True,
        pos_att_type=["p2c", "c2p"], type_vocab_size=0, position_biased_input=False,
    ),
}  # fmt: skip
SHAPES["bert-base-uncased"] = SHAPES["google-bert/bert-base-uncased"]
LABELS = {"similarity": 1, "nli": 3, "classification": 28}
WORDS = {"lstm": 33_278, "static-nli": 42_394}  #: of WikiText-2; of SNLI's training part
GB = 1e9


def trainings(run):
    """Each model that the paper's scale of a run trains, with its recipe."""
    settings = placed(run.scales[PAPER], PLACES)
    if run.kind == "scrubbed-words":  # reads the texts of a recipe, and trains nothing
        return
    sides = [side for side in settings.get("sides", {}).values() if side != "given"]
    for stage in (settings, *sides, *settings.get("then", ())):
        if "recipe" in stage:
            yield settings.get("model"), make_recipe(**stage["recipe"])


def network_of(model, recipe):
    """The network that a recipe trains, without storage."""
    with torch.device("meta"):
        if recipe.name == "lstm":
            size = recipe.embedding_size if recipe.tied else recipe.hidden_size
            config = WordLstmConfig(
                WORDS["lstm"], recipe.embedding_size, size, recipe.hidden_size, recipe.layers,
                tie_word_embeddings=recipe.tied,
            )  # fmt: skip
            return WordLstmForCausalLM(config)
        if recipe.name == "static-nli":
            config = DecomposableAttentionConfig(WORDS["static-nli"], 300, hidden_size=recipe.hidden_size)
            return DecomposableAttentionForSequenceClassification(config)
        if recipe.name == "edge-probe":
            return EdgeProbingModel(EdgeProbingConfig(SHAPES[model]))
        if recipe.name == "coreference":
            return SpanCoreferenceModel(SpanCoreferenceConfig(SHAPES[model], head_size=recipe.head_size))
        if recipe.name == "masked-lm":
            return AutoModelForMaskedLM.from_config(SHAPES[model])
        config = copy.deepcopy(SHAPES[model])
        config.num_labels = LABELS[recipe.name]
        return AutoModelForSequenceClassification.from_config(config)


KEPT = {}  #: by network, batch and length: many runs train the same
NEEDED: dict[tuple[object, str], float] = {}  #: GB of trainings, many of which are those of several runs


def kept_for_backward(network, batch, length):
    """Bytes that autograd keeps of a batch in float32, beside the weights."""
    key = (type(network), network.config.to_json_string(), batch, length)
    if key not in KEPT:
        KEPT[key] = _kept_for_backward(network, batch, length)
    return KEPT[key]


def _kept_for_backward(network, batch, length):
    weights = {tensor.untyped_storage()._cdata for tensor in network.parameters()}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in weights:
            kept[storage._cdata] = (storage.nbytes(), tensor)  # the tensor stays, so that its address does
        return tensor

    ids = torch.zeros((batch, length), dtype=torch.long, device="meta")
    more = {"attention_mask": torch.ones_like(ids)} if network.config.model_type == "deberta-v2" else {}
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        network.train()(ids, **more)
    return sum(size for size, _ in kept.values())


def memory_of(model, recipe):
    """GB of a training: weights, gradients and the two moments of Adam in float32, and what a batch keeps."""
    network = network_of(model, recipe)
    weights = sum(weight.numel() for weight in network.parameters())
    if recipe.name == "edge-probe" or getattr(recipe, "freeze", "nothing") == "encoder":
        return 4 * weights / GB
    length = recipe.block if recipe.name == "lstm" else recipe.max_length
    read = getattr(network, "encoder", network) if recipe.name == "coreference" else network
    if recipe.name in WORDS:  # LSTM cells: the gates, twice
        return (16 * weights + 4 * recipe.batch_size * length * (WORDS[recipe.name] + 20 * recipe.hidden_size)) / GB
    return (16 * weights + kept_for_backward(read, recipe.batch_size, length)) / GB


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(run, id=f"{paper}-{run.name}")
        for paper in paper_names()
        for run in load_paper(paper).runs.values()
        if PAPER in run.scales and any(True for _ in trainings(run))
    ],
)
def test_the_stated_memory_holds_the_largest_training_of_the_papers_scale(run):
    needed = 0.0
    for model, recipe in trainings(run):
        key = (model, repr(recipe))  # which names all settings of the recipe
        if key not in NEEDED:
            NEEDED[key] = memory_of(model, recipe)
        needed = max(needed, NEEDED[key])
    assert needed <= run.memory <= 1.3 * needed + 1, needed


@pytest.mark.parametrize(
    ("table", "runs"),
    [
        ("table-2", ("albert-base", "albert-large", "bert-base", "bert-large")),
        ("table-3", ("bert-small", "bert-medium", "bert-base")),
    ],
)
def test_the_shapes_have_the_published_numbers_of_parameters(table, runs):
    """In millions, to 3; ALBERT's table counts the sentence order head, too."""
    paper = load_paper("webster2020")
    printed = [text for text, _ in paper.tables[table].rows["Parameters (M)"].values() if text]
    with torch.device("meta"):
        counted = [AutoModelForMaskedLM.from_config(SHAPES[paper.runs[name].scales[PAPER]["model"]]) for name in runs]
    for text, network in zip(printed, counted, strict=False):
        assert sum(weight.numel() for weight in network.parameters()) / 1e6 == pytest.approx(float(text), abs=3)


@pytest.mark.parametrize("name", ["masked-lm", "classification", "coreference"])
def test_the_networks_keep_fewer_states_on_demand(name):
    network = network_of("google-bert/bert-base-uncased", make_recipe(name=name))
    network.gradient_checkpointing_enable()
    assert network.is_gradient_checkpointing


def test_a_pretraining_has_the_papers_batch_in_parts_that_a_device_holds():
    recipes = [
        recipe for run in load_paper("webster2020").runs.values() if PAPER in run.scales for _, recipe in trainings(run)
    ]
    batches = {
        recipe.batch_size * recipe.arguments["gradient_accumulation_steps"]
        for recipe in recipes
        if recipe.name == "masked-lm"
    }
    assert batches == {256, 4096}
    assert all(recipe.arguments["bf16"] for recipe in recipes if recipe.name == "masked-lm")


def masked_lms():
    for run in load_paper("webster2020").runs.values():
        of_run = (
            [(model, recipe) for model, recipe in trainings(run) if recipe.name == "masked-lm"]
            if PAPER in run.scales
            else []
        )
        if of_run and not run.name.startswith("tasks-"):  # which tune the models of other runs
            yield pytest.param(run, of_run, id=run.name)


@pytest.mark.parametrize(("run", "of_run"), masked_lms())
def test_the_hours_of_masked_lms_are_those_of_their_arithmetic(run, of_run):
    """6 operations for each weight of a layer (12 of the hidden size squared) and token, at 40 % of an A100's peak; for
    a model with the method and a control, and from nothing one before it, too.
    """
    hours = 0.0
    for model, recipe in of_run:
        shape = SHAPES[model]
        tokens = recipe.steps * recipe.batch_size * recipe.arguments["gradient_accumulation_steps"] * recipe.max_length
        models = 3 if recipe.weights == "new" else 2
        hours += models * 6 * 12 * shape.num_hidden_layers * shape.hidden_size**2 * tokens / (0.4 * 312e12) / 3600
    assert run.gpu_hours == pytest.approx(hours, rel=0.1, abs=45)
