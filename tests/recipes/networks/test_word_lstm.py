"""The word-level LSTM language model: an ordinary checkpoint, scored as any other, and what mitigations make of it."""

from functools import cache

import numpy as np
import pytest
import torch
import transformers
from support.tiny_checkpoints import corpus, suite_space

from pytest_genderbias import load_model, measure
from pytest_genderbias.datasets.corpora import WORD
from pytest_genderbias.mitigation.methods.hard_debiasing import hard_debias_embeddings
from pytest_genderbias.mitigation.methods.projection import project_embeddings, project_layers
from pytest_genderbias.mitigation.methods.regularisation import bias_loss, defining_rows, regularising
from pytest_genderbias.mitigation.words.directions import HE_SHE, layer_bases, learn_basis
from pytest_genderbias.models.saving import input_embeddings, save_model
from pytest_genderbias.recipes.lstm import choose_words
from pytest_genderbias.recipes.networks.word_lstm import (
    END,
    SPECIAL,
    WordLstmConfig,
    WordLstmForCausalLM,
    WordLstmModel,
    make_tokenizer,
    register,
    word_pattern,
)
from pytest_genderbias.scoring.sampled_texts import Sampler
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.suites.cases import TextCases
from pytest_genderbias.suites.query import BlockLogLikelihood, GeneratedTokens

SHAPES = {
    "two": {"embedding_size": 12, "hidden_size": 16},
    "three": {"embedding_size": 12, "inner_size": 20, "hidden_size": 16, "num_hidden_layers": 3},
    "tied": {"embedding_size": 16, "inner_size": 20, "hidden_size": 16, "num_hidden_layers": 3,
        "tie_word_embeddings": True},
    "even": {"embedding_size": 16, "hidden_size": 16},
}  # fmt: skip
PAIRS = [("man", "woman"), ("boy", "girl"), ("father", "mother")]
IDS = torch.randint(3, 60, (4, 9), generator=torch.Generator().manual_seed(0))


@cache
def words():
    return make_tokenizer(choose_words([*corpus(), *(f"{a} {b}" for a, b in PAIRS)]))


def network_of(shape, **changes):
    torch.manual_seed(0)
    network = WordLstmForCausalLM(WordLstmConfig(vocab_size=len(words()), **{**SHAPES[shape], **changes})).eval()
    with torch.no_grad():  # scores that differ by more than rounding
        network.lm_head.weight.mul_(8)
    return network


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    def saved(shape):
        path = tmp_path_factory.getbasetemp() / f"word-lstm-{shape}"
        if not path.is_dir():
            network_of(shape).save_pretrained(path)
            words().save_pretrained(path)
        return path

    return saved


@pytest.fixture(params=SHAPES)
def model(request, folder):
    return load_model(str(folder(request.param)), device="cpu")


def by_hand(network, ids):
    """Return the logits of one row by the equations of an LSTM, in double precision."""
    weights = {
        name: tensor.detach().double().numpy() for name, tensor in network.named_parameters(remove_duplicate=False)
    }
    inputs = weights["model.embeddings.weight"][ids]
    for layer in range(network.config.num_hidden_layers):
        w_in, w_state, b_in, b_state = (
            weights[f"model.layers.{layer}.{name}_l0"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        h = c = np.zeros(w_state.shape[1])
        found = []
        for x in inputs:
            i, f, g, o = np.split(w_in @ x + b_in + w_state @ h + b_state, 4)
            i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
            c = f * c + i * np.tanh(g)
            h = o * np.tanh(c)
            found.append(h)
        inputs = np.array(found)
    return inputs @ weights["lm_head.weight"].T + weights["lm_head.bias"]


def log_softmax(logits):
    return (
        logits
        - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True))
        - logits.max(-1, keepdims=True)
    )


# The network


@pytest.mark.parametrize("shape", SHAPES)
def test_logits_are_those_of_the_equations_whatever_pads_a_row(shape):
    network = network_of(shape)
    lengths = [9, 4, 1, 7]
    mask = (torch.arange(9) < torch.tensor(lengths)[:, None]).long()
    with torch.no_grad():
        found = network(input_ids=IDS * mask, attention_mask=mask).logits.numpy()
    for row, length, ids in zip(found, lengths, IDS.numpy(), strict=True):
        np.testing.assert_allclose(row[:length], by_hand(network, ids[:length]), atol=1e-5)


def test_the_loss_is_shifted_cross_entropy():
    network = network_of("two")
    labels = IDS.clone()
    labels[1, 5:] = -100
    logs = [log_softmax(by_hand(network, ids)) for ids in IDS.numpy()]
    told = [-logs[i][t - 1, labels[i, t]] for i in range(4) for t in range(1, 9) if labels[i, t] >= 0]
    with torch.no_grad():
        assert float(network(input_ids=IDS, labels=labels).loss) == pytest.approx(np.mean(told), abs=1e-5)
        summed = network(input_ids=IDS, labels=labels, num_items_in_batch=7).loss
    assert float(summed) == pytest.approx(sum(told) / 7, abs=1e-5)


def test_a_sampled_loss_is_the_loss_where_all_words_are_drawn_and_near_it_where_many_are():
    network = network_of("two", dropout=0.0)
    labels = IDS.clone()
    labels[1, 5:] = -100
    whole = network(input_ids=IDS, labels=labels).loss
    whole.backward()
    gradient = network.lm_head.weight.grad.clone()
    network.train()
    network.config.sampled_words = 200_000
    network.zero_grad()
    sampled = network(input_ids=IDS, labels=labels)
    sampled.loss.backward()
    assert sampled.logits is None
    assert float(sampled.loss.detach()) == pytest.approx(float(whole.detach()), rel=1e-5)
    torch.testing.assert_close(network.lm_head.weight.grad, gradient, rtol=1e-3, atol=1e-6)
    network.config.sampled_words = len(words()) // 2
    with torch.no_grad():
        drawn = [float(network(input_ids=IDS, labels=labels).loss) for _ in range(200)]
        per_item = float(network(input_ids=IDS, labels=labels, num_items_in_batch=1).loss)
    assert len(set(drawn)) > 100 and abs(np.mean(drawn) / float(whole.detach()) - 1) < 0.15
    assert per_item > 10 * np.mean(drawn)


def test_some_positions_and_states_that_are_handed_back():
    network = network_of("three")
    with torch.no_grad():
        whole = network(input_ids=IDS).logits
        torch.testing.assert_close(network(input_ids=IDS, logits_to_keep=2).logits, whole[:, -2:])
        torch.testing.assert_close(network(input_ids=IDS, logits_to_keep=torch.tensor([0, 3])).logits, whole[:, [0, 3]])
        first = network(input_ids=IDS[:, :4], use_cache=True)
        rest = network(input_ids=IDS[:, 4:], past_key_values=first.past_key_values).logits
        assert network(input_ids=IDS).past_key_values is None
    torch.testing.assert_close(torch.cat([first.logits, rest], 1), whole)


def test_a_row_that_is_padded_on_the_left_is_refused():
    mask = torch.ones_like(IDS)
    mask[0, 0] = 0
    with pytest.raises(ValueError, match="padded on the right"):
        network_of("two")(input_ids=IDS, attention_mask=mask)


def test_tied_weights_need_equal_sizes():
    with pytest.raises(ValueError, match="hidden_size 16 to be embedding_size 12"):
        WordLstmConfig(embedding_size=12, hidden_size=16, tie_word_embeddings=True)


# The tokenizer


@pytest.mark.parametrize("cased", [False, True])
def test_words_are_those_of_the_corpus_reader(cased):
    texts = [
        *corpus(),
        "Mr. O'Brien's well-known dog (aged 1,000.5) wouldn't—she'd said ``so'' at 5 p.m. in the U.S. <unk>...",
        "ĂBC naïve_word it's DON'T we’re 3rd mother-in-law's",
    ]
    tokenizer = make_tokenizer(["the"], cased)
    backend = tokenizer.backend_tokenizer
    for text in texts:
        read = text if cased else backend.normalizer.normalize_str(text)
        pieces = [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(read)]
        assert pieces == (WORD.findall(text) if cased else word_pattern().findall(text.lower()))


def test_a_text_begins_after_the_end_of_another():
    tokenizer = make_tokenizer(["he", "sings", "."])
    assert tokenizer("He sings loud.")["input_ids"] == [1, 3, 4, 0, 5]
    assert tokenizer("He", add_special_tokens=False)["input_ids"] == [3]
    assert tokenizer.decode([1, 3, 4, 5], skip_special_tokens=True) == "he sings ."
    assert tokenizer(["He", "He sings"], padding=True)["input_ids"] == [[1, 3, 2], [1, 3, 4]]
    assert (tokenizer.unk_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == tuple(range(len(SPECIAL)))
    assert tokenizer.bos_token == tokenizer.eos_token == END


# Checkpoints


def test_it_comes_back_as_it_was(model, folder, tmp_path):
    network = model.backend.network
    assert model.role.kind == "causal-lm" and model.width == 16
    path = save_model(model, tmp_path / "again")
    again = load_model(str(path), device="cpu")
    assert again.fingerprint == model.fingerprint
    with torch.no_grad():
        assert torch.equal(again.backend.network(input_ids=IDS).logits, network(input_ids=IDS).logits)
    text = "He is a nurse, she's a plumber."
    assert again.backend.tokenizer(text)["input_ids"] == model.backend.tokenizer(text)["input_ids"]
    tied = network.config.tie_word_embeddings
    assert (again.backend.network.lm_head.weight is again.backend.network.get_input_embeddings().weight) == tied


def test_the_auto_classes_know_it(folder):
    register()
    register()
    path = folder("three")
    assert isinstance(transformers.AutoConfig.from_pretrained(path), WordLstmConfig)
    base = transformers.AutoModel.from_pretrained(path).eval()
    whole = transformers.AutoModelForCausalLM.from_pretrained(path).eval()
    assert isinstance(base, WordLstmModel) and isinstance(whole.base_model, WordLstmModel)
    with torch.no_grad():
        states = base(input_ids=IDS, output_hidden_states=True).hidden_states
        assert torch.equal(states[-1], whole.base_model(input_ids=IDS).last_hidden_state)
    assert [state.shape[-1] for state in states] == [12, 20, 20, 16]


# Scores


def test_occupations_are_scored_as_by_a_plain_loop(model):
    found = measure("lm-occupation", model, cache=None)
    space, _ = suite_space("lm-occupation")
    network, tokenizer = model.backend.network, model.backend.tokenizer
    rng = np.random.default_rng(1)
    units = np.sort(rng.choice(space.n_units, 6, replace=False))
    cases = space.cases_of(units)
    scores = []
    for case, (text,) in zip(cases, space.sentences(cases), strict=True):
        slot = space.words["occupation"][space.columns(np.array([case]))["occupation"][0]]
        ids = tokenizer(text)["input_ids"]
        n = len(tokenizer(slot.label, add_special_tokens=False)["input_ids"])
        logs = log_softmax(by_hand(network, ids))
        scores.append(sum(logs[t - 1, ids[t]] for t in range(len(ids) - n, len(ids))))
    bias = np.diff(np.array(scores).reshape(len(units), -1, 2), axis=2)[:, :, 0].mean(axis=1) * -1
    by_label = {record["occupation"]: record["bias"] for record in found.records}
    labels = [space.words["occupation"][unit].label for unit in units]
    np.testing.assert_allclose([by_label[label] for label in labels], bias, atol=1e-5)
    assert not found.notes


def test_samples_are_those_of_a_network_without_states(folder, monkeypatch):
    model = load_model(str(folder("two")), device="cpu")
    cases = TextCases([("",), ("He is",), ("She is a",)])
    sampler = Sampler(cases, GeneratedTokens(12, 3), model, None)
    found = sampler.score(np.arange(3))
    monkeypatch.setattr(sampler, "_settings", {})
    np.testing.assert_array_equal(found, sampler.score(np.arange(3)))
    assert len(np.unique(found)) > 5


def test_a_perplexity_without_sentence_ends_says_so(folder):
    model = load_model(str(folder("two")), device="cpu")
    scorer = make_scorer(TextCases([("He sings. She sings.",)]), BlockLogLikelihood(), model, None)
    assert any("without the <eos>" in note for note in scorer.notes)
    assert scorer.score(np.arange(1))[0, 1] == 6, "words and marks, and nothing behind a sentence"


def test_text_is_generated_and_counted(folder):
    model = load_model(str(folder("two")), device="cpu")
    found = measure("corpus-cooccurrence", model, cache=None, seeds=20, length=200)
    assert found.values["mu"] > 0 and found.values["sigma"] > 0


# Mitigations


def direction(model):
    return learn_basis(model, pairs=HE_SHE)


@pytest.mark.parametrize("how", ["projection", "wed"])
def test_mitigated_embeddings_change_scores_leave_the_output_and_are_saved_bit_for_bit(model, how, tmp_path):
    basis = direction(model)
    changed = project_embeddings(model, basis) if how == "projection" else hard_debias_embeddings(model, basis, PAIRS)
    network, before = changed.backend.network, model.backend.network
    assert torch.equal(network.lm_head.weight, before.lm_head.weight)
    assert not np.array_equal(input_embeddings(network), input_embeddings(before))
    he, she, nurse = (words().convert_tokens_to_ids(word) for word in ("he", "she", "nurse"))
    vectors = input_embeddings(network).astype(np.float64)
    left = vectors[[he, she, nurse]] @ basis[:, 0]
    assert abs(left[2]) < 1e-5 and (how == "wed" or np.abs(left).max() < 1e-5)
    again = load_model(str(save_model(changed, tmp_path / how)), device="cpu")
    assert again.fingerprint == changed.fingerprint
    with torch.no_grad():
        assert torch.equal(again.backend.network(input_ids=IDS).logits, network(input_ids=IDS).logits)


def test_hidden_layers_are_projected(folder):
    model = load_model(str(folder("even")), device="cpu")
    bases = layer_bases(model, "all", pairs=HE_SHE)
    with torch.no_grad():
        states = project_layers(model, bases).backend.network(input_ids=IDS, output_hidden_states=True).hidden_states
    assert len(states) == 3
    for layer, state in enumerate(states):
        assert float((state.double() @ torch.as_tensor(bases[layer])).abs().max()) < 1e-5


def test_the_regulariser_adds_its_term_in_training(folder):
    network = load_model(str(folder("two")), device="cpu").backend.network
    rows = defining_rows(words(), PAIRS)
    expected = float(bias_loss(network.get_input_embeddings().weight, rows, 0.3).detach())
    with regularising(network, pairs=rows, strength=0.3):
        plain = float(network(input_ids=IDS, labels=IDS).loss.detach())
        network.train()
        network.model.dropout.p = 0.0
        assert float(network(input_ids=IDS, labels=IDS).loss.detach()) == pytest.approx(plain + expected, rel=1e-5)
    assert len(rows) == 3 and expected > 0
