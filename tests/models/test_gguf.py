"""Models in GGUF files: a tiny one against the network that it was written from, what is refused, and a real one where
it is at hand.
"""

import json
import os
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from support.tiny_checkpoints import make_network, tokenizer

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import ModelError, NotApplicableError, installing
from pytest_genderbias.models import checkpoints

EXAMPLES = Path(__file__).parents[2] / "examples"


def write_gguf(path, architecture="llama", leave_out="", change=None):
    """Write a random Llama with byte-level tokens as llama.cpp's converter does, and return the network."""
    gguf = pytest.importorskip("gguf", reason="GGUF files need the packages gguf and accelerate")
    pytest.importorskip("accelerate", reason="GGUF files need the packages gguf and accelerate")
    words = tokenizer("gpt2")
    network = make_network("llama", vocab_size=len(words), bos_token_id=0, eos_token_id=0, pad_token_id=None)
    config = network.config
    model = json.loads(words.backend_tokenizer.to_str())["model"]
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(sorted(model["vocab"], key=model["vocab"].get))
    writer.add_token_types([3] + [1] * (len(words) - 1))
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    for name, tensor in tensors(network):
        if name != leave_out:
            writer.add_tensor(name, change(name, tensor) if change else tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return network


def tensors(network):
    """Yield the tensors under GGUF's names; the two halves of each head of query and key take turns."""
    state = {name: tensor.detach().numpy().astype(np.float32) for name, tensor in network.state_dict().items()}
    fixed = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    parts = {
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    }  # fmt: skip
    heads = {"q_proj": network.config.num_attention_heads, "k_proj": network.config.num_key_value_heads}
    for name, tensor in state.items():
        stem = name.removesuffix(".weight")
        if stem in fixed:
            yield fixed[stem] + ".weight", tensor
            continue
        _, _, layer, part = stem.split(".", 3)
        n = heads.get(part.rpartition(".")[2])
        if n:
            tensor = tensor.reshape(n, 2, -1, tensor.shape[1]).swapaxes(1, 2).reshape(tensor.shape)
        yield f"blk.{layer}.{parts[part]}.weight", tensor


def test_a_gguf_file_gives_the_logits_of_the_network_it_was_written_from(tmp_path):
    network = write_gguf(tmp_path / "tiny.Q8.gguf")
    model = load_model(str(tmp_path / "tiny.Q8.gguf"), device="cpu")
    assert (model.name, model.role.kind) == ("tiny", "causal-lm")
    text = "He is an engineer."
    fed = model.backend.tokenizer(text, return_tensors="pt")["input_ids"]
    assert model.backend.tokenizer.decode(fed[0]) == text
    with torch.no_grad():
        assert torch.allclose(model.backend.network(fed).logits, network(fed).logits, atol=1e-5)
    again = load_model(str(tmp_path / "tiny.Q8.gguf"), device="cpu")
    assert again.fingerprint == model.fingerprint
    found = measure("lm-occupation", model, limit=40, cache=None)
    assert found.value > 0
    with pytest.raises(NotApplicableError, match="tiny is a causal LM"):
        measure("disco-names", model, cache=None)


@pytest.mark.parametrize(("number_format", "most"), [("F32", 1e-5), ("Q8_0", 0.1), ("Q4_0", 1.0)])
def test_quantised_copies_answer_nearly_as_their_original(tmp_path, number_format, most):
    pytest.importorskip("gguf", reason="GGUF files need the packages gguf and accelerate")
    write = runpy.run_path(str(EXAMPLES / "deployment" / "to_gguf.py"))["write_gguf"]
    words = tokenizer("llama")
    network = make_network("llama", hidden_size=64, intermediate_size=128, initializer_range=0.1)
    write(network, words, tmp_path / "copy.gguf", number_format)
    model = load_model(tmp_path / "copy.gguf", device="cpu")
    texts = ["He is an engineer.", "The nurse ate a bagel"]
    plain = [
        [t(text, add_special_tokens=False)["input_ids"] for text in texts] for t in (model.backend.tokenizer, words)
    ]
    assert plain[0] == plain[1]
    ids = torch.as_tensor([words(texts[0])["input_ids"]])
    with torch.no_grad():
        shift = (model.backend.network(ids).logits - network(ids).logits).abs().max().item()
    assert (0 if number_format == "F32" else most / 1000) <= shift < most
    if model.backend.tokenizer(texts[0])["input_ids"] != words(texts[0])["input_ids"]:
        pytest.skip("this version of transformers reads no first token from GGUF files")
    original = load_model(network, tokenizer=words)
    values = [measure("lm-occupation", m, limit=40, cache=None).value for m in (model, original)]
    assert values[0] == pytest.approx(values[1], abs=most)


def test_another_weight_is_another_fingerprint(tmp_path):
    write_gguf(tmp_path / "a.gguf")
    write_gguf(tmp_path / "b.gguf", change=lambda name, t: t + 1 if name == "output.weight" else t)
    a, b = (load_model(str(tmp_path / f"{name}.gguf"), device="cpu") for name in "ab")
    assert a.fingerprint != b.fingerprint


def test_weights_that_are_missing_or_no_numbers_are_refused(tmp_path):
    write_gguf(tmp_path / "holes.gguf", leave_out="blk.1.ffn_up.weight")
    with pytest.raises(ModelError, match=r"lacks weights .*layers\.1\.mlp\.up_proj"):
        load_model(str(tmp_path / "holes.gguf"), device="cpu")
    write_gguf(tmp_path / "nan.gguf", change=lambda name, t: t * np.nan if name == "blk.0.attn_v.weight" else t)
    with pytest.raises(ModelError, match="NaN or infinite weights"):
        load_model(str(tmp_path / "nan.gguf"), device="cpu")


def test_damaged_files_are_refused(tmp_path):
    write_gguf(tmp_path / "tiny.gguf")
    content = (tmp_path / "tiny.gguf").read_bytes()
    for name, damaged in (
        ("half", content[: len(content) // 2]),
        ("end", content[:-64]),
        ("text", b"no model " * 50),
        ("empty", b""),
    ):
        (tmp_path / f"{name}.gguf").write_bytes(damaged)
        with pytest.raises(ModelError, match=f"{name}.* cannot be read"):
            load_model(str(tmp_path / f"{name}.gguf"), device="cpu")


def test_an_architecture_that_is_no_causal_lm_is_refused(tmp_path):
    write_gguf(tmp_path / "other.gguf", architecture="bert")
    with pytest.raises(ModelError, match="other"):
        load_model(str(tmp_path / "other.gguf"), device="cpu")


def test_the_packages_that_are_lacking_are_named(tmp_path, monkeypatch):
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(checkpoints, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="gguf and accelerate, not installed here: " + re.escape(installing("gguf"))):
        load_model(str(tmp_path / "tiny.gguf"))


@pytest.mark.slow
def test_a_real_gguf_file():
    path = os.environ.get("GENDERBIAS_GGUF")
    if not path:
        pytest.skip("no real GGUF file; name one with GENDERBIAS_GGUF")
    pytest.importorskip("gguf", reason="GGUF files need the packages gguf and accelerate")
    model = load_model(path, device="cpu")
    found = measure("lm-occupation", model, limit=80, cache=None)
    assert found.n == 80
    bias = {record["occupation"]: record["bias"] for record in found.records}
    assert len(bias) == 10
    assert max(map(abs, bias.values())) < 10
