"""Networks exported as a graph, with the config and tokenizer beside it: an ``.onnx`` file (onnxruntime) or an OpenVINO
``.xml`` with its ``.bin`` (openvino), each run by its library.
"""

from __future__ import annotations

import hashlib
import json
from importlib.util import find_spec
from pathlib import Path

from pytest_genderbias.errors import ModelError, SettingError, installing
from pytest_genderbias.models import checkpoints
from pytest_genderbias.models.checkpoints import check_parts, details_of, load_tokenizer, observed, read_sentence_files
from pytest_genderbias.models.config import PROJECTED_LAYERS
from pytest_genderbias.models.fingerprint import config_content, fingerprint_tokenizer
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.source import LoadSettings, ModelSource, config_folder, reading_errors
from pytest_genderbias.models.spec import ModelSpec

_EXPORTED = "as exported"  #: the number format of a graph, which decides it itself
_PACKAGES = {"onnx": "onnxruntime", "openvino": "openvino"}


def inspect(spec: ModelSpec, settings: LoadSettings) -> ModelSource:
    """Read the config beside a graph, and its role.

    Raises:
        ModelError: the library that runs the graph is not installed, or the config is missing or cannot be used.
    """
    package, graph = _PACKAGES[spec.kind], Path(spec.target)
    if find_spec(package) is None:
        raise ModelError(
            f"{spec.name} is a graph that runs with {package}, not installed here: {installing(spec.kind)}"
        )
    if not (config_folder(graph) / "config.json").is_file():
        raise ModelError(
            f"{graph} has no config.json beside it or in the folder above; expected the folder that the export wrote,"
            " with the tokenizer"
        )
    return checkpoints.inspect(spec, settings)


def load(source: ModelSource, settings: LoadSettings) -> Model:
    """Load a graph and check that it answers as its config says.

    Raises:
        ModelError: a part is missing or damaged, the graph does not fit the config or the tokenizer, or another device
            than the CPU is asked for.
        SettingError: ``dtype`` asks for a number format.
    """
    import torch

    from pytest_genderbias.engines.exported_network import ExportedNetwork, graph_sha256, open_graph

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
    if getattr(config, PROJECTED_LAYERS, None):
        raise ModelError(
            f"the config of {spec.name} says that its hidden layers are projected, which an exported graph does not do;"
            " give the checkpoint that it was exported from"
        )
    tokenizer = load_tokenizer(spec, settings)
    path = Path(spec.target)
    with reading_errors(spec, "graph"):
        graph = open_graph(spec.kind, path, torch.get_num_threads())
        digest = graph_sha256(path)
    network = ExportedNetwork(config, graph, source.role.kind, spec.name)
    network.train(False)
    check_parts(network, tokenizer, source.role, spec.name)
    with reading_errors(spec, "tokenizer"):
        words = fingerprint_tokenizer(tokenizer)
    sentences = read_sentence_files(spec)
    checkpoint = observed(network, tokenizer, source.role, spec.name, "cpu", sentences, graph.runtime)
    architecture = ", ".join(config.architectures or [config.model_type])
    details = details_of(checkpoint, architecture, words, _EXPORTED, sentences.facts)
    content = json.dumps([digest, config_content(config), words, sentences.facts], sort_keys=True, default=str)
    fingerprint = hashlib.sha256(content.encode()).hexdigest()
    return Model(spec.name, spec.spec, source.role, fingerprint, details, checkpoint)
