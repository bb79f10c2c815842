"""Write a small Llama as a GGUF file, for those without llama.cpp: its ``convert_hf_to_gguf.py`` and ``llama-quantize``
know every architecture.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase


def write_gguf(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, path: Path, number_format: str) -> None:
    """Write matrices in a format such as ``Q8_0`` (``F16`` where a row is no multiple of its block), and everything
    else as float32.
    """
    config = network.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    _add_tokenizer(writer, tokenizer)
    for name, matrix in _tensors(network):
        wanted = gguf.GGMLQuantizationType[number_format if matrix.ndim == 2 else "F32"]
        if matrix.shape[-1] % gguf.GGML_QUANT_SIZES[wanted][0]:
            wanted = gguf.GGMLQuantizationType.F16
        writer.add_tensor(name, gguf.quants.quantize(matrix, wanted), raw_dtype=wanted)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _tensors(network: PreTrainedModel) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the weights under GGUF's names; the two halves of each head of queries and keys take turns."""
    config = network.config
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, tensor in network.state_dict().items():
        if config.tie_word_embeddings and name == "lm_head.weight":
            continue
        matrix = tensor.detach().float().numpy()
        if n := heads.get(name.split(".")[-2]):
            matrix = matrix.reshape(n, 2, -1, matrix.shape[1]).swapaxes(1, 2).reshape(matrix.shape)
        yield names.get_name(name, try_suffixes=(".weight", ".bias")), np.ascontiguousarray(matrix)


def _add_tokenizer(writer: gguf.GGUFWriter, tokenizer: PreTrainedTokenizerBase) -> None:
    """Add a BPE tokenizer: with byte tokens as SentencePiece's, or byte-level as GPT-2's."""
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    tokens = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    special = set(tokenizer.all_special_tokens)
    writer.add_tokenizer_model("llama" if model["byte_fallback"] else "gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in special else 6 if token.startswith("<0x") else 1 for token in tokens])
    if model["byte_fallback"]:
        writer.add_token_scores([-float(i) for i in range(len(tokens))])
        writer.add_unk_token_id(tokenizer.unk_token_id)
    else:
        writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    writer.add_add_bos_token(tokenizer("a")["input_ids"][0] == tokenizer.bos_token_id)
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
