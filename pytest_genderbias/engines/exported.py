"""Load a network that was exported as a graph, with the config and tokenizer beside it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from pytest_genderbias.engines.graphs import graph_sha256, open_graph, require_runtime
from pytest_genderbias.errors import ModelError, SettingError
from pytest_genderbias.models import checkpoints
from pytest_genderbias.models.chat_template import chat_template_details
from pytest_genderbias.models.checkpoints import batch_details, check_mask_token, load_tokenizer, observed
from pytest_genderbias.models.config import PROJECTED_LAYERS, entry
from pytest_genderbias.models.fingerprint import config_content, fingerprint_tokenizer
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.sentence_encoders import read_sentence_files
from pytest_genderbias.models.source import LoadSettings, ModelSource, reading_errors
from pytest_genderbias.models.spec import ModelSpec

_EXPORTED = "as exported"  #: the number format of a graph, which decides it itself


def inspect(spec: ModelSpec, settings: LoadSettings) -> ModelSource:
    """Read the config beside a graph, and its role.

    Raises:
        ModelError: the library that runs the graph is not installed, or the config is missing or cannot be used.
    """
    require_runtime(spec.kind, spec.name, Path(spec.target))
    return checkpoints.inspect(spec, settings)


def load(source: ModelSource, settings: LoadSettings) -> Model:
    """Load a graph and check that it answers as its config says.

    Raises:
        ModelError: a part is missing or damaged, the graph does not fit the config or the tokenizer, or another device
            than the CPU is asked for.
        SettingError: ``dtype`` asks for a number format.
    """
    import torch

    from pytest_genderbias.engines.exported_network import ExportedNetwork

    spec, config = source.spec, source.config
    assert config is not None
    if settings.dtype not in ("float32", "auto"):
        raise SettingError(f"{spec.name} is an exported graph, which keeps its number format; use --bias-dtype=auto")
    if settings.device not in ("auto", "cpu"):
        raise ModelError(
            f"{spec.name} is an exported graph, which runs on the CPU here, not on {settings.device!r}; use"
            " --bias-device=cpu"
        )
    if config.is_encoder_decoder:
        raise ModelError(
            f"{spec.name} has an encoder and a decoder; expected a graph of one: give the checkpoint that it was"
            " exported from"
        )
    if entry(config, PROJECTED_LAYERS):
        raise ModelError(
            f"the config of {spec.name} says that its hidden layers are projected, which an exported graph does not do;"
            " give the checkpoint that it was exported from"
        )
    tokenizer = load_tokenizer(spec, settings)
    check_mask_token(tokenizer, source.role, spec.name)
    path = Path(spec.target)
    with reading_errors(spec, "graph"):
        graph = open_graph(spec.kind, path, torch.get_num_threads())
        digest = graph_sha256(path)
    network = ExportedNetwork(config, graph, source.role.kind, spec.name)
    network.train(False)
    with reading_errors(spec, "tokenizer"):
        words = fingerprint_tokenizer(tokenizer)
    sentences = read_sentence_files(spec)
    details = {
        "architecture": ", ".join(config.architectures or [config.model_type]),
        "tokenizer": words[:16],
        "dtype": _EXPORTED,
        "device": "cpu",
        "runtime": graph.runtime,
        **chat_template_details(tokenizer),
        **sentences.facts,
    }
    checkpoint = observed(network, tokenizer, source.role, spec.name, "cpu", sentences, graph.runtime)
    details.update(batch_details(checkpoint))
    content = json.dumps([digest, config_content(config), words, sentences.facts], sort_keys=True, default=str)
    fingerprint = hashlib.sha256(content.encode()).hexdigest()
    return Model(spec.name, spec.spec, source.role, fingerprint, details, checkpoint)
