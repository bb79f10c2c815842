"""Networks exported as a graph: the same scores as the network they were written from, what they cannot do, and what is
refused.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from support.exported_graphs import write_decoder, write_graph
from support.tiny_checkpoints import make_network, tokenizer
from transformers import GPT2LMHeadModel

from pytest_genderbias import load_model, measure
from pytest_genderbias.engines.exported_network import ExportedNetwork, Port, graph_sha256
from pytest_genderbias.errors import ModelError, NotApplicableError, SettingError, installing
from pytest_genderbias.models.config import PROJECTED_LAYERS
from pytest_genderbias.models.saving import copied, save_model
from pytest_genderbias.models.source import config_folder
from pytest_genderbias.models.spec import parse_spec
from pytest_genderbias.recipes.heads import with_head
from pytest_genderbias.scoring.network import Batches
from pytest_genderbias.scoring.text_vectors import HiddenStates

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
SUITES = {"bert": "disco-terms", "bert-nli": "nli-occupation", "llama": "lm-occupation"}


def needs(kind: str) -> None:
    """Skip a test where the library of a graph is not installed."""
    pytest.importorskip("onnx", reason="the package onnx, with which torch writes graphs, is not installed")
    pytest.importorskip(
        {"onnx": "onnxruntime", "openvino": "openvino"}[kind], reason=f"the extra [{kind}] is not installed"
    )


def converted(folder: Path) -> Path:
    """Write the folder of an ONNX graph as one of OpenVINO beside it."""
    import openvino

    target = folder.with_name(f"{folder.name}-openvino")
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns("*.onnx"))
    openvino.save_model(
        openvino.Core().read_model(folder / "model.onnx"), target / "openvino_model.xml", compress_to_fp16=False
    )
    return target


@pytest.mark.parametrize(
    ("runtime", "kind"), [("onnx", "bert"), ("onnx", "bert-nli"), ("onnx", "llama"), ("openvino", "bert-nli")]
)
def test_a_graph_gives_the_figures_of_its_network(tmp_path: Path, runtime: str, kind: str) -> None:
    needs(runtime)
    network = write_graph(kind, tmp_path / "tiny")
    folder = tmp_path / "tiny" if runtime == "onnx" else converted(tmp_path / "tiny")
    model = load_model(folder)
    original = load_model(network, tokenizer=tokenizer(kind.removesuffix("-nli")))
    assert (model.name, model.role, model.details["dtype"]) == (folder.name, original.role, "as exported")
    assert model.details["runtime"].startswith({"onnx": "onnxruntime ", "openvino": "openvino "}[runtime])
    assert load_model(folder).fingerprint == model.fingerprint
    exported, plain = (measure(SUITES[kind], m, limit=200, cache=None) for m in (model, original))
    assert exported.values == pytest.approx(plain.values, abs=1e-5, nan_ok=True)
    assert exported.n == plain.n > 0


def test_an_encoder_gives_its_last_hidden_state_and_no_other(tmp_path: Path) -> None:
    needs("onnx")
    network = write_graph("bert", tmp_path / "encoder", output="last_hidden_state")
    model, original = load_model(tmp_path / "encoder"), load_model(network.base_model, tokenizer=tokenizer("bert"))
    assert model.role == original.role
    values = [measure("sts-occupation", m, limit=60, cache=None).value for m in (model, original)]
    assert values[0] == pytest.approx(values[1], abs=1e-5)
    write_graph("bert", tmp_path / "masked")
    for refused, where in ((model, 1), (model, "input"), (load_model(tmp_path / "masked"), "last")):
        with pytest.raises(
            NotApplicableError, match="is an exported graph, which has no hidden states that this suite needs"
        ):
            HiddenStates(refused.backend, None, where)


def test_a_decoder_starts_without_a_past(tmp_path: Path) -> None:
    needs("onnx")
    network = write_decoder(tmp_path / "decoder")
    ids = torch.arange(30, 42).reshape(2, 6)
    with torch.no_grad():
        assert torch.allclose(
            load_model(tmp_path / "decoder").backend.network(ids).logits, network(ids).logits, atol=1e-4
        )


def test_the_state_of_an_openvino_graph_begins_anew(tmp_path: Path) -> None:
    needs("openvino")
    import openvino
    from openvino import opset13 as op

    ids, beams = op.parameter([-1, -1], np.int64, "input_ids"), op.parameter([-1], np.int32, "beam_idx")
    for node, name in ((ids, "input_ids"), (beams, "beam_idx")):
        node.output(0).get_tensor().set_names({name})
    state = op.read_value(op.constant(np.zeros((1, 1, 1), np.float32)), "past", np.float32, [1, 1, 1])
    table = op.constant(
        np.random.default_rng(0).random((len(tokenizer("llama")), len(tokenizer("llama"))), dtype=np.float32)
    )
    beam = op.reshape(op.convert(op.reduce_sum(beams, 0), "f32"), op.constant([1, 1, 1]), False)
    logits = op.add(op.add(op.gather(table, ids, op.constant(0)), state), op.multiply(beam, op.constant(np.float32(0))))
    logits.output(0).get_tensor().set_names({"logits"})
    write_graph("llama", tmp_path / "plain")
    folder = shutil.copytree(tmp_path / "plain", tmp_path / "state", ignore=shutil.ignore_patterns("*.onnx"))
    kept = op.assign(op.add(state, op.constant(np.ones((1, 1, 1), np.float32))), "past")
    openvino.save_model(
        openvino.Model([op.result(logits)], [kept], [ids, beams]), folder / "openvino_model.xml", compress_to_fp16=False
    )
    network = load_model(folder).backend.network
    first, second = (network(torch.tensor([[3, 4]])).logits for _ in range(2))
    assert torch.equal(first, second)


def test_which_graph_a_spec_names(tmp_path: Path) -> None:
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    graph = folder / "model.onnx"
    graph.write_bytes(b"")
    spec = parse_spec(str(folder))
    assert (spec.name, spec.kind, spec.target) == ("export", "onnx", str(graph))
    (folder / "model_int8.onnx").write_bytes(b"")
    with pytest.raises(
        ModelError, match=r"has 2 graphs \(model\.onnx, model_int8\.onnx\); give the file of one as SPEC"
    ):
        parse_spec(str(folder))
    assert parse_spec(f"small={folder}/model_int8.onnx").kind == "onnx"
    (folder / "model.safetensors").write_bytes(b"")  # weights for torch come first
    assert parse_spec(str(folder)).kind == "directory"
    assert config_folder(folder / "onnx" / "model.onnx") == folder


def test_the_package_that_is_lacking_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_genderbias.engines.exported.find_spec", lambda name: None)
    for name, package, extra in (("model.onnx", "onnxruntime", "onnx"), ("openvino_model.xml", "openvino", "openvino")):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(
            ModelError, match=f"runs with {package}, not installed here: {re.escape(installing(extra))}"
        ):
            load_model(tmp_path / name)


def test_damaged_and_incomplete_folders_are_refused(tmp_path: Path) -> None:
    needs("onnx")
    folder = tmp_path / "tiny"
    write_graph("bert-nli", folder)
    content = (folder / "model.onnx").read_bytes()
    for damage in (content[: len(content) // 2], b"no graph", b""):
        (folder / "model.onnx").write_bytes(damage)
        with pytest.raises(ModelError, match=r"the graph of tiny .* cannot be read") as caught:
            load_model(folder)
        assert "\n" not in str(caught.value)
    (folder / "model.onnx").write_bytes(content)
    with pytest.raises(ModelError, match="runs on the CPU here, not on 'cuda'"):
        load_model(folder, device="cuda")
    with pytest.raises(SettingError, match="use --bias-dtype=auto"):
        load_model(folder, dtype="bfloat16")
    assert load_model(folder, dtype="auto").fingerprint == load_model(folder).fingerprint
    (folder / "config.json").unlink()
    with pytest.raises(ModelError, match=r"has no config\.json"):
        load_model(folder)
    with pytest.raises(ModelError, match=r"has no config\.json beside it"):
        load_model(folder / "model.onnx")


def test_weights_in_a_file_of_their_own_belong_to_the_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"graph")
    (tmp_path / "config.json").write_text("{}")
    prints = [graph_sha256(tmp_path / "model.onnx")]
    (tmp_path / "model.onnx_data").write_bytes(b"weights")
    prints.append(graph_sha256(tmp_path / "model.onnx"))
    (tmp_path / "model.onnx_data").write_bytes(b"weightz")
    prints.append(graph_sha256(tmp_path / "model.onnx"))
    assert len(set(prints)) == 3
    (tmp_path / "other.onnx").write_bytes(b"another graph")
    (tmp_path / "README.md").write_text("text")
    assert graph_sha256(tmp_path / "model.onnx") == prints[2]


def test_a_graph_of_one_size_is_refused(tmp_path: Path) -> None:
    needs("onnx")
    write_graph("bert-nli", tmp_path / "tiny", fixed=True)
    with pytest.raises(
        ModelError, match="reads only batches of 2 x 7 tokens; export it with free batch and sequence axes"
    ):
        load_model(tmp_path / "tiny")


# Graphs that are made up, for which no library is needed


@dataclass
class Sums:
    """A graph whose score of each label is the sum of the ids plus the label."""

    width: int = 3
    inputs: list[Port] = field(default_factory=lambda: [Port("input_ids", np.int64, (None, None))])
    outputs: list[Port] = field(default_factory=lambda: [Port("logits", np.float32, (None, 3))])
    runtime: str = "none 1"
    fed: dict[str, NDArray[np.generic]] = field(default_factory=dict)
    error: Exception | None = None

    def run(self, fed: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
        if self.error is not None:
            raise self.error
        self.fed = dict(fed)
        sums = np.asarray(fed["input_ids"]).sum(1)[:, None] + np.arange(self.width)
        return {self.outputs[0].name: sums.astype(np.float16)}


def exported(graph: Sums, kind: str = "nli-classifier") -> ExportedNetwork:
    return ExportedNetwork(make_network("bert-nli").config, graph, kind, "tiny")


def ports(*names: str) -> list[Port]:
    return [Port(name, np.int64, (None, None)) for name in names]


def test_what_the_graph_asks_for_is_fed() -> None:
    past = Port("past_key_values.0.key", np.float32, (None, 4, None, 8))
    flag = Port("use_cache_branch", np.bool_, (1,))
    graph = Sums(inputs=[*ports("input_ids", "attention_mask", "token_type_ids", "position_ids"), past, flag])
    logits = exported(graph)(torch.tensor([[5, 6, 7], [1, 2, 3]])).logits
    assert logits.dtype == torch.float32
    assert logits.tolist() == [[18, 19, 20], [6, 7, 8]]
    assert graph.fed["attention_mask"].tolist() == [[1, 1, 1]] * 2
    assert graph.fed["token_type_ids"].tolist() == [[0, 0, 0]] * 2
    assert graph.fed["position_ids"].tolist() == [[0, 1, 2]] * 2
    assert graph.fed["past_key_values.0.key"].shape == (2, 4, 0, 8)
    assert graph.fed["use_cache_branch"].tolist() == [False]


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (Sums(inputs=ports("pixel_values")), "has the inputs pixel_values; expected input_ids"),
        (Sums(inputs=ports("input_ids", "encoder_hidden_states")), "has the inputs input_ids, encoder_hidden_states"),
        (
            Sums(outputs=[Port("last_hidden_state", np.float32, (None, None, 16))]),
            "gives last_hidden_state, not the logits",
        ),
        (Sums(outputs=[Port("logits", np.float32, (None, None, 3))]), "gives logits, not the logits"),
        (Sums(outputs=[Port("logits", np.float32, (None, 2))]), r"scores 2 labels, its config\.json has 3"),
    ],
)
def test_a_graph_that_does_not_fit_its_config_is_refused(graph: Sums, reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        exported(graph)


def test_what_goes_wrong_in_a_graph_is_one_error_of_the_package() -> None:
    ids = torch.tensor([[5, 6, 7]])
    with pytest.raises(ModelError, match=r"scores 4 labels, its config\.json has 3"):
        exported(Sums(width=4, outputs=ports("logits")))(ids)
    with pytest.raises(ModelError, match="does not read token_type_ids"):
        exported(Sums())(ids, token_type_ids=torch.tensor([[0, 1, 1]]))
    with pytest.raises(ModelError, match="the graph of tiny fails on 1 rows: two lines; export it again"):
        exported(Sums(error=TypeError("two\nlines")))(ids)


def test_a_batch_that_does_not_fit_is_halved() -> None:
    graph = Sums(error=MemoryError("Failed to allocate 9 bytes"))
    network, batches, sizes = exported(graph), Batches("cpu", 64), []

    def step(rows: NDArray[np.int64]) -> None:
        graph.error = MemoryError("Failed to allocate 9 bytes") if len(rows) > 2 else None
        network(torch.ones(len(rows), 3, dtype=torch.long))
        sizes.append(len(rows))

    batches.run(np.full(8, 3), step)
    assert sizes == [2, 2, 2, 2]
    assert batches.halvings == 2


def test_a_graph_is_neither_trained_nor_changed_nor_saved(tmp_path: Path) -> None:
    needs("onnx")
    write_graph("bert", tmp_path / "tiny")
    model = load_model(tmp_path / "tiny")
    advice = "tiny is an exported graph, .*; give the checkpoint that it was exported from"
    with pytest.raises(NotApplicableError, match=advice):
        copied(model.backend.network)
    with pytest.raises(NotApplicableError, match=advice):
        with_head(model, ["a", "b"], 0)
    with pytest.raises(NotApplicableError, match=advice):
        save_model(model, tmp_path / "again")
    with pytest.raises(NotApplicableError, match=advice):
        model.backend.network.get_input_embeddings()
    assert not (tmp_path / "again").exists()


# What a graph does with later tokens, and how many it reads


class SeesNext(GPT2LMHeadModel):
    """A network whose output at a token depends on the next one."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        output = super().forward(*args, **kwargs)
        output.logits = output.logits + output.logits.roll(-1, dims=1) / 4
        return output


def test_a_graph_that_is_called_causal_and_sees_later_tokens_is_refused(tmp_path: Path) -> None:
    needs("onnx")
    network = make_network("gpt2", attn_implementation="eager")
    write_graph("gpt2", tmp_path / "right", network=network)
    assert load_model(tmp_path / "right").backend.batches == ""
    network.__class__ = SeesNext
    write_graph("gpt2", tmp_path / "wrong", network=network)
    config = json.loads((tmp_path / "right" / "config.json").read_text())
    (tmp_path / "wrong" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="reads the words on both sides"):
        load_model(tmp_path / "wrong")


def test_a_graph_has_rows_as_long_as_it_reads(tmp_path: Path) -> None:
    needs("onnx")
    network = write_graph("roberta", tmp_path / "tiny")
    settings = json.loads((tmp_path / "tiny" / "tokenizer_config.json").read_text())
    settings["model_max_length"] = int(1e30)
    (tmp_path / "tiny" / "tokenizer_config.json").write_text(json.dumps(settings))
    positions = network.config.max_position_embeddings - network.config.pad_token_id - 1
    assert load_model(tmp_path / "tiny").backend.max_length == positions


def test_a_graph_whose_config_says_that_layers_are_projected_is_refused(tmp_path: Path) -> None:
    """The config of a network that was projected is copied beside a graph that may not do so."""
    needs("onnx")
    write_graph("bert", tmp_path / "tiny")
    config = json.loads((tmp_path / "tiny" / "config.json").read_text())
    (tmp_path / "tiny" / "config.json").write_text(json.dumps({**config, PROJECTED_LAYERS: [[1]]}))
    with pytest.raises(ModelError, match="hidden layers are projected, which an exported graph does not do"):
        load_model(tmp_path / "tiny")
