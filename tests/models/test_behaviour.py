"""What a network does with padding, other rows, later tokens and positions is asked of it, and scores and refusals
follow the answer.
"""

import json
import shutil

import numpy as np
import pytest
import torch
import transformers as t
from support.tiny_checkpoints import make_network, save_checkpoint, small_disco, tokenizer

from pytest_genderbias import measure
from pytest_genderbias.errors import ModelError
from pytest_genderbias.models.behaviour import ANY_ROWS, EQUAL_LENGTHS, REASONS, SINGLE_ROWS
from pytest_genderbias.models.loading import load_model
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.scoring.text_vectors import HiddenStates
from pytest_genderbias.scoring.token_sums import token_sums
from pytest_genderbias.scoring.tokens import RowEncoder, pack_rows

pytestmark = pytest.mark.usefixtures("much_padding")
SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "initializer_range": 0.4,
}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}


def network(name, config, seed=0, **changes):
    """Return a random network of transformers for the tokenizer of BERT."""
    torch.manual_seed(seed)
    made = getattr(t, name)(getattr(t, config)(**{"vocab_size": len(tokenizer("bert")), **SMALL, **SPECIAL, **changes}))
    with torch.no_grad():
        for weights in made.parameters():
            if weights.dim() > 1:
                weights.mul_(1.5)
    return made.eval()


def saved(folder, made, words=None):
    made.save_pretrained(folder)
    (words or tokenizer("bert")).save_pretrained(folder)
    return folder


def fnet(head="FNetForMaskedLM", **changes):
    return network(head, "FNetConfig", **changes)


NLI = {"id2label": {0: "entailment", 1: "neutral", 2: "contradiction"}}

# Padding


def one_value(suite, model):
    """Check that a suite has the same values with every batch size: all rows in one, each by itself, and a few."""
    found = [measure(suite, model, limit=24, seed=1, batch_tokens=tokens, cache=None) for tokens in (None, 1, 64)]
    values = [{name: value for name, value in one.values.items() if value is not None} for one in found]
    assert values[0]
    for other in values[1:]:
        assert other == pytest.approx(values[0], rel=1e-4, abs=1e-5)
    return found[0]


def subclass(made, base, forward):
    """Give a network a forward pass of its own, under the name that says which head it has."""
    made.__class__ = type(base.__name__, (base,), {"forward": forward})
    return made


@pytest.mark.parametrize(
    ("made", "suite"),
    [
        (lambda: fnet(), "lm-occupation"),
        (lambda: fnet("FNetForSequenceClassification", **NLI), "nli-occupation"),
        (lambda: fnet("FNetModel"), "sts-occupation"),
        (lambda: fnet(), "weat"),
        (
            lambda: network("ConvBertForMaskedLM", "ConvBertConfig", conv_kernel_size=3, embedding_size=16),
            "lm-occupation",
        ),
        (
            lambda: t.FunnelForMaskedLM(
                t.FunnelConfig(
                    vocab_size=len(tokenizer("bert")),
                    block_sizes=[1, 1],
                    d_model=16,
                    n_head=2,
                    d_head=8,
                    d_inner=32,
                    initializer_std=0.5,
                )
            ).eval(),
            "lm-occupation",
        ),
    ],
    ids=["fnet", "fnet-nli", "fnet-encoder", "fnet-vectors", "convbert", "funnel"],
)
def test_a_network_that_reads_padding_has_one_value_for_each_batch_size(made, suite):
    model = load_model(made(), tokenizer=tokenizer("bert"), name="m")
    assert model.backend.batches == EQUAL_LENGTHS
    found = one_value(suite, model)
    assert found.signature["model"]["batches"] == EQUAL_LENGTHS
    assert any("padding changes the output" in note for note in found.notes)


@pytest.mark.parametrize(
    "kind",
    [
        "bert",
        "roberta",
        "albert",
        "distilbert",
        "electra",
        "deberta-v2",
        "mpnet",
        "modernbert",
        "gpt2",
        "llama",
        "bert-nli",
        "roberta-nli",
    ],
)
def test_an_ordinary_network_shares_batches_and_says_nothing(kind):
    words = tokenizer(kind.removesuffix("-nli"))
    model = load_model(make_network(kind), tokenizer=words, name="m")
    assert model.backend.batches == ANY_ROWS
    assert "batches" not in model.details


def test_a_classifier_that_finds_its_last_token_by_another_padding_has_rows_of_one_length():
    words = tokenizer("bert")
    made = network(
        "LlamaForSequenceClassification", "LlamaConfig", num_key_value_heads=1, num_labels=3, pad_token_id=5, **NLI
    )
    assert load_model(made, tokenizer=words).backend.batches == EQUAL_LENGTHS
    made.config.pad_token_id = words.pad_token_id
    assert load_model(made, tokenizer=words).backend.batches == ANY_ROWS


def test_a_network_that_takes_no_batches_is_passed_row_by_row():
    made = network("LlamaForSequenceClassification", "LlamaConfig", num_key_value_heads=1, **NLI)
    made.config.pad_token_id = None
    model = load_model(made, tokenizer=tokenizer("bert"), name="m")
    assert model.backend.batches == SINGLE_ROWS
    one_value("nli-occupation", model)


def mixes_rows(self, *args, **kwargs):
    """Let rows see the mean of their batch, as tokens do that compete for experts."""
    output = t.BertForMaskedLM.forward(self, *args, **kwargs)
    output.logits = output.logits + output.logits.mean(dim=0, keepdim=True)
    return output


def test_rows_that_change_each_other_are_passed_one_by_one():
    made = subclass(make_network("bert"), t.BertForMaskedLM, mixes_rows)
    model = load_model(made, tokenizer=tokenizer("bert"), name="m")
    assert model.backend.batches == SINGLE_ROWS
    one_value("lm-occupation", model)


def draws(self, *args, **kwargs):
    """Draw at random, also in evaluation mode."""
    output = t.BertForMaskedLM.forward(self, *args, **kwargs)
    output.logits = output.logits + torch.randn_like(output.logits)
    return output


def test_a_network_that_draws_at_random_is_refused():
    with pytest.raises(ModelError, match="another output each time"):
        load_model(subclass(make_network("bert"), t.BertForMaskedLM, draws), tokenizer=tokenizer("bert"), name="m")


def reads_far_padding(self, input_ids, **kwargs):
    """Let long rows alone read padding, as networks do that change their attention from some length on."""
    output = t.BertForMaskedLM.forward(self, input_ids, **kwargs)
    if input_ids.shape[1] > 30:
        output.logits = output.logits * (1 + input_ids.shape[1] / 100)
    return output


def test_padding_that_moves_scores_at_long_lengths_only_is_seen():
    made = subclass(make_network("bert"), t.BertForMaskedLM, reads_far_padding)
    assert load_model(made, tokenizer=tokenizer("bert"), name="m").backend.batches == EQUAL_LENGTHS


def test_padding_that_moves_scores_only_at_the_lengths_of_a_suite_is_seen_there(monkeypatch):
    made = subclass(make_network("bert"), t.BertForMaskedLM, reads_far_padding)
    monkeypatch.setattr("pytest_genderbias.models.behaviour._MOST_PADDED", 20)  # as of a large network
    model = load_model(made, tokenizer=tokenizer("bert"), name="m")
    assert model.backend.batches == ANY_ROWS
    rows = pack_rows(
        [np.arange(5, 5 + n, dtype=np.int32) for n in (*range(4, 12), 35)],
        RowEncoder(tokenizer("bert")),
        np.zeros((9, 2), np.int64),
    )
    where = np.arange(9), np.full(9, 2)
    found = token_sums(model, None)
    one_by_one = token_sums(model, 1).sums(rows, *where)
    np.testing.assert_allclose(found.sums(rows, *where), one_by_one, rtol=1e-5)
    assert any("padding changes the output" in note for note in found.notes)


def test_scores_that_an_earlier_version_stored_for_padded_rows_are_not_used(tmp_path, monkeypatch):
    folder = saved(tmp_path / "fnet", fnet())
    right = measure("lm-occupation", f"m={folder}", limit=40, cache=tmp_path / "cache").value
    with monkeypatch.context() as earlier:  # the batches of earlier versions
        earlier.setattr("pytest_genderbias.models.checkpoints.Probe.behaviour", lambda probe: (ANY_ROWS, None, ()))
        earlier.setattr("pytest_genderbias.scoring.network.EQUAL_LENGTHS", ANY_ROWS)
        earlier.setitem(REASONS, ANY_ROWS, "")
        wrong = measure("lm-occupation", f"m={folder}", limit=40, cache=tmp_path / "other", batch_tokens=64).value
    shutil.rmtree(tmp_path / "other" / "models")  # what an earlier version knew of the network
    assert measure("lm-occupation", f"m={folder}", limit=40, cache=tmp_path / "other").value == right
    assert wrong != pytest.approx(right, rel=1e-3)


def test_the_fills_of_a_network_that_reads_padding_do_not_hang_on_the_batch():
    model = load_model(fnet(), tokenizer=tokenizer("bert"), name="m")
    space, query = small_disco()
    cases = np.random.default_rng(0).integers(space.n_cases, size=60)
    first, *others = (make_scorer(space, query, model, tokens).score(cases) for tokens in (None, 1, 64))
    for other in others:
        assert np.array_equal(first, other)


def test_a_run_from_records_knows_that_padding_moves_scores(tmp_path):
    from pytest_genderbias.measurement.run_models import RunModels
    from pytest_genderbias.models.source import LoadSettings
    from pytest_genderbias.models.spec import parse_spec

    spec = parse_spec(f"m={saved(tmp_path / 'fnet', fnet())}")
    for _ in range(2):
        model = RunModels(LoadSettings(device="cpu"), cache=tmp_path / "cache").model(spec)
        assert model.backend.batches == EQUAL_LENGTHS
        assert model.details["batches"] == EQUAL_LENGTHS
    assert "network" not in vars(model.backend)


def hides_a_token(self, *args, **kwargs):
    """Write a number near the least for a token that is never given, as networks with unused tokens do."""
    output = t.FNetForMaskedLM.forward(self, *args, **kwargs)
    output.logits[..., 1] = -1e9
    return output


def test_padding_is_seen_beside_logits_that_are_far_beyond_the_others():
    made = subclass(fnet(), t.FNetForMaskedLM, hides_a_token)
    model = load_model(made, tokenizer=tokenizer("bert"), name="m")
    assert model.backend.batches == EQUAL_LENGTHS
    one_value("lm-occupation", model)


def reads_padding_ids(self, input_ids=None, attention_mask=None, **kwargs):
    """Find the padding by its token, whatever the mask says."""
    return t.BertModel.forward(self, input_ids=input_ids, attention_mask=(input_ids != 7).long(), **kwargs)


def test_vectors_are_padded_with_the_tokens_of_the_padding():
    made = subclass(
        t.BertModel(t.BertConfig(vocab_size=len(tokenizer("bert")), **SMALL)).eval(), t.BertModel, reads_padding_ids
    )
    words = t.BertTokenizer(vocab=tokenizer("bert").get_vocab())
    words.pad_token = words.convert_ids_to_tokens(7)
    model = load_model(made, tokenizer=words, name="m")
    assert model.backend.batches == ANY_ROWS
    one_value("sts-occupation", model)


# Later tokens


def ahead(see):
    """Return a causal LM whose output at a token is changed by others, as ``see`` says of their ids."""

    def forward(self, input_ids, **kwargs):
        output = t.GPT2LMHeadModel.forward(self, input_ids, **kwargs)
        output.logits = output.logits + see(input_ids.float())[..., None] / 100
        return output

    return subclass(make_network("gpt2"), t.GPT2LMHeadModel, forward)


LOOKAHEADS = {
    "next token": lambda ids: torch.nn.functional.pad(ids[:, 1:], (0, 1)),
    "last token": lambda ids: ids[:, -1:].expand_as(ids),
    "mean": lambda ids: ids.mean(1, keepdim=True).expand_as(ids),
    "number of tokens": lambda ids: torch.full_like(ids, 50.0 * ids.shape[1]),
    "prefix of four": lambda ids: torch.cat(
        [ids[:, :4].mean(1, keepdim=True).expand(-1, min(4, ids.shape[1])), 0 * ids[:, 4:]], 1
    ),
    "prefix of two": lambda ids: torch.cat(
        [ids[:, :2].mean(1, keepdim=True).expand(-1, min(2, ids.shape[1])), 0 * ids[:, 2:]], 1
    ),
    "blocks": lambda ids: torch.cat([b.mean(1, keepdim=True).expand_as(b) for b in ids.split(3, dim=1)], 1),
}


@pytest.mark.parametrize("see", LOOKAHEADS.values(), ids=LOOKAHEADS)
def test_a_causal_lm_that_sees_later_tokens_is_refused(see):
    with pytest.raises(ModelError, match="reads the words on both sides"):
        load_model(ahead(see), tokenizer=tokenizer("gpt2"), name="m")


def test_a_causal_lm_whose_output_depends_on_earlier_tokens_only_is_not_refused():
    load_model(ahead(lambda ids: ids.cumsum(1)), tokenizer=tokenizer("gpt2"), name="m")


@pytest.mark.parametrize(
    "made",
    [
        lambda n: t.XLNetLMHeadModel(t.XLNetConfig(vocab_size=n, d_model=16, n_layer=2, n_head=2, d_inner=32)),
        lambda n: bidirectional(t.LlamaForCausalLM(t.LlamaConfig(vocab_size=n, num_key_value_heads=1, **SMALL))),
    ],
    ids=["xlnet", "llama that was made an encoder"],
)
def test_networks_that_are_called_causal_and_read_both_sides_are_refused(tmp_path, made):
    torch.manual_seed(0)
    words = tokenizer("gpt2")
    network = made(len(words))
    with pytest.raises(ModelError, match="reads the words on both sides"):
        load_model(network, tokenizer=words, name="m")
    if isinstance(network, t.XLNetLMHeadModel):
        with pytest.raises(ModelError, match="reads the words on both sides"):
            measure("lm-occupation", f"m={saved(tmp_path / 'm', network, words)}", cache=None)


def bidirectional(network):
    """Return a network whose layers hide no later tokens."""
    network.config._attn_implementation = "eager"
    network.config.is_causal = False
    network.model.layers[0].self_attn.is_causal = False
    forward = network.model.layers[0].forward

    def unmasked(*args, **kwargs):
        return forward(*args, **{**kwargs, "attention_mask": None})

    network.model.layers[0].forward = unmasked
    return network


# Positions and widths


@pytest.mark.parametrize(
    ("made", "positions"),
    [
        (lambda: network("RobertaForMaskedLM", "RobertaConfig", max_position_embeddings=40, pad_token_id=0), 39),
        (lambda: network("RobertaForMaskedLM", "RobertaConfig", max_position_embeddings=40, pad_token_id=1), 38),
        (lambda: network("CamembertForMaskedLM", "CamembertConfig", max_position_embeddings=40, pad_token_id=0), 39),
        (lambda: network("XLMRobertaForMaskedLM", "XLMRobertaConfig", max_position_embeddings=40, pad_token_id=0), 39),
        (lambda: network("MPNetForMaskedLM", "MPNetConfig", max_position_embeddings=40), 38),
        (lambda: network("BertForMaskedLM", "BertConfig", max_position_embeddings=40), 40),
        (lambda: network("OPTForCausalLM", "OPTConfig", max_position_embeddings=40, ffn_dim=32), 40),
        (
            lambda: network(
                "BartForSequenceClassification",
                "BartConfig",
                max_position_embeddings=40,
                d_model=16,
                encoder_layers=1,
                decoder_layers=1,
                encoder_ffn_dim=16,
                decoder_ffn_dim=16,
                encoder_attention_heads=2,
                decoder_attention_heads=2,
                **NLI,
            ),
            40,
        ),
        (lambda: network("LlamaForCausalLM", "LlamaConfig", num_key_value_heads=1, max_position_embeddings=40), 40),
    ],
    ids=["roberta", "roberta-2", "camembert", "xlm-roberta", "mpnet", "bert", "opt", "bart", "llama"],
)
def test_a_row_has_as_many_tokens_as_the_network_has_positions(made, positions):
    words = t.BertTokenizer(vocab=tokenizer("bert").get_vocab())
    words.model_max_length = int(1e30)
    model = load_model(made(), tokenizer=words, name="m")
    assert model.backend.max_length == positions
    row = torch.tensor([[2, *[7] * (positions - 2), 3]])
    with torch.no_grad():
        model.backend.network(input_ids=row)  # the longest one is read


@pytest.mark.parametrize(
    "made",
    [
        lambda n: t.MptForCausalLM(t.MptConfig(vocab_size=n, d_model=16, n_layers=2, n_heads=2, max_seq_len=64)),
        lambda n: t.ReformerModelWithLMHead(
            t.ReformerConfig(
                vocab_size=n,
                hidden_size=16,
                num_attention_heads=2,
                attention_head_size=8,
                feed_forward_size=32,
                is_decoder=True,
                attn_layers=["local"],
                local_attn_chunk_length=8,
                axial_pos_shape=[8, 8],
                axial_pos_embds_dim=[8, 8],
            )
        ),
    ],
    ids=["in the attention", "of two axes"],
)
def test_positions_that_are_no_rows_of_a_table_are_found(made):
    words = t.BertTokenizer(vocab=tokenizer("bert").get_vocab())
    words.model_max_length = int(1e30)
    torch.manual_seed(0)
    model = load_model(made(len(words)).eval(), tokenizer=words, name="m")
    assert (model.backend.max_length, model.backend.batches) == (64, ANY_ROWS)


def test_what_cannot_be_read_for_another_reason_is_no_limit_of_positions():
    made = make_network("bert")
    made.config.chunk_size_feed_forward = 1
    for layer in made.bert.encoder.layer:
        layer.chunk_size_feed_forward = 11  # rows of eleven tokens, and multiples
    model = load_model(made, tokenizer=tokenizer("bert"), name="m")
    assert model.backend.max_length == made.config.max_position_embeddings


# Networks that give something else


@pytest.mark.parametrize(
    ("name", "config", "changes", "said"),
    [
        (
            "FunnelBaseModel",
            "FunnelConfig",
            {"block_sizes": [1, 1], "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 32},
            "gives 6 vectors for 11 tokens",
        ),
        ("DPRQuestionEncoder", "DPRConfig", {}, "gives no last_hidden_state"),
        ("TapasForMaskedLM", "TapasConfig", {}, "a network that needs more than token ids cannot be measured"),
    ],
)
def test_a_network_that_gives_no_vector_or_logits_of_each_token_is_refused_in_one_line(
    tmp_path, name, config, changes, said
):
    made = getattr(t, name)(
        getattr(t, config)(vocab_size=len(tokenizer("bert")), **(changes or {**SMALL, "pad_token_id": 0}))
    )
    with pytest.raises(ModelError, match=said) as error:
        load_model(saved(tmp_path / "m", made))
    assert "\n" not in str(error.value)


def test_a_layer_with_fewer_vectors_than_tokens_is_refused():
    made = t.FunnelModel(
        t.FunnelConfig(
            vocab_size=len(tokenizer("bert")), block_sizes=[1, 1], d_model=16, n_head=2, d_head=8, d_inner=32
        )
    ).eval()
    model = load_model(made, tokenizer=tokenizer("bert"), name="m")
    with pytest.raises(ModelError, match="so that none is the vector of a word"):
        measure("weat", model, cache=None, where=2)


def test_a_network_that_embeds_characters_without_a_table_of_tokens_is_read():
    made = t.CanineModel(t.CanineConfig(**SMALL)).eval()
    assert (
        measure("sts-occupation", load_model(made, tokenizer=tokenizer("bert"), name="m"), limit=20, cache=None).suite
        == "sts-occupation"
    )


def test_texts_are_cut_to_the_positions_of_the_network(tmp_path):
    words = t.BertTokenizer(vocab=tokenizer("bert").get_vocab())
    words.model_max_length = int(1e30)
    made = network("RobertaForMaskedLM", "RobertaConfig", max_position_embeddings=40, pad_token_id=0)
    rows = "".join(f"She is {'nurse ' * k}nurse,He is {'nurse ' * k}nurse\n" for k in (3, 30, 60, 90, 200))
    (tmp_path / "pairs.csv").write_text("stereotypical,anti_stereotypical\n" + rows)
    found = measure(
        "pairs-pll", f"m={saved(tmp_path / 'm', made, words)}", cache=None, pairs=str(tmp_path / "pairs.csv")
    )
    assert found.value is not None
    assert any("cut to the 39 tokens that the model reads" in note for note in found.notes)


@pytest.mark.parametrize("where", ["last", "input", 0, 1, 2])
def test_projected_embeddings_have_vectors_of_their_own_width(where):
    made = network("OPTForCausalLM", "OPTConfig", word_embed_proj_dim=8, ffn_dim=32, do_layer_norm_before=False)
    model = load_model(made, tokenizer=tokenizer("bert"), name="m")
    found = measure("weat", model, cache=None, where=where)
    assert found.value is not None
    vectors = HiddenStates(model.backend, None, where).span_vectors(["She sings."], [((0, 3),)])
    assert vectors.shape[-1] == model.width_of(where)


# Tokens without an embedding or a logit


@pytest.mark.parametrize(
    ("kind", "suite"),
    [("llama", "lm-occupation"), ("bert", "lm-occupation"), ("bert", "weat"), ("llama", "counterfactual-generation")],
)
def test_a_tokenizer_larger_than_its_network_is_one_error(tmp_path, kind, suite):
    words = type(tokenizer(kind)).from_pretrained(save_checkpoint(kind, tmp_path / "m"))
    words.add_tokens(
        ["pilot", "nurse", "salesperson", "doctor", "science", "poetry", "she", "The", "math", "john", "he", "art"]
    )
    words.save_pretrained(tmp_path / "m")
    with pytest.raises(ModelError, match=r"no embedding for a token of its tokenizer \(token \d+ of \d+\)"):
        measure(suite, f"m={tmp_path / 'm'}", cache=None)


IMPOSSIBLE = [
    *(("hidden_size", n) for n in (0, -4, 10**12, 10**30)),
    *(("num_attention_heads", n) for n in (0, 5, -2)),
    *(("vocab_size", n) for n in (12, -1, 10**18)),
    *(("num_hidden_layers", n) for n in (-1, 0, 10**9)),
    *(("max_position_embeddings", n) for n in (0, -3, 10**5)),
    *(("layer_norm_eps", n) for n in ("x", -1.0, 1e400, float("nan"))),
    ("intermediate_size", 10**15),
    ("chunk_size_feed_forward", 7),
    ("type_vocab_size", 0),
    ("pad_token_id", 10**9),
]


def test_an_impossible_number_in_a_config_is_one_line(tmp_path):
    folder = save_checkpoint("bert", tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    for key, value in IMPOSSIBLE:
        (folder / "config.json").write_text(json.dumps({**config, key: value}))
        with pytest.raises(ModelError) as error:
            measure("lm-occupation", f"m={folder}", limit=8, cache=None)
        assert "\n" not in str(error.value), (key, value)
        assert len(str(error.value)) < 700, (key, value)
