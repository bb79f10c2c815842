"""``vllm:DIR``: what is asked of vLLM and what its answers mean, with a stand-in of its classes over a network of
transformers; the real one in slow tests.
"""

import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from support.served import CompletionServer, largest
from support.trained_causal import trained

from pytest_genderbias import load_model, measure
from pytest_genderbias.engines import vllm_engine
from pytest_genderbias.engines.served_proof import KNOWN_TEXTS, UnprovenError
from pytest_genderbias.errors import ModelError, NotApplicableError, ScoreError, SettingError
from pytest_genderbias.models.source import SPLIT
from pytest_genderbias.models.spec import parse_spec


@dataclass
class SamplingParams:
    max_tokens: int
    temperature: float
    top_p: float
    min_p: float
    repetition_penalty: float
    detokenize: bool
    prompt_logprobs: int | None = None
    seed: int | None = None
    ignore_eos: bool = False


@dataclass
class StandIn:
    """Has the one method of vLLM's ``LLM`` that is called, and answers with the classes' attributes that are read."""

    model: str
    settings: dict
    off: float = 0.0
    memo: dict | None = field(default=None, repr=False)  # too long for the message of a failing test
    server: CompletionServer = field(init=False)

    def __post_init__(self):
        self.loaded = load_model(self.model).backend
        self.server = CompletionServer(self.loaded.network, self.loaded.tokenizer, memo=self.memo)

    def generate(self, prompts, parameters, use_tqdm):
        assert not use_tqdm and parameters.top_p == parameters.repetition_penalty == 1 and parameters.min_p == 0
        ids = [prompt["prompt_token_ids"] for prompt in prompts]
        written = self.server.write(ids, {"max_tokens": parameters.max_tokens, "temperature": parameters.temperature})
        tables = self.server.tables(ids)
        return [
            self._output(*pair, parameters)
            for pair in zip(ids, tables, (tokens for _, _, tokens, _ in written), strict=True)
        ]

    def _output(self, ids, table, written, parameters):
        listed = None
        if parameters.prompt_logprobs is not None:
            likeliest = largest(table, parameters.prompt_logprobs)
            listed = [None] + [
                {
                    int(t): SimpleNamespace(logprob=float(table[k, t]) + self.off)
                    for t in {*likeliest[k].tolist(), ids[k]}
                }
                for k in range(1, len(ids))
            ]
        return SimpleNamespace(
            prompt_token_ids=ids, prompt_logprobs=listed, outputs=[SimpleNamespace(token_ids=tuple(written))]
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    network, words = trained("llama", *KNOWN_TEXTS)
    place = tmp_path_factory.mktemp("vllm") / "pieces"
    network.save_pretrained(place)
    words.save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def memo():
    """What the network says of prompts, by the name of its folder; copies of a folder differ by a bit at most."""
    return {}


@pytest.fixture
def started(monkeypatch, memo):
    """Put the stand-in in the place of vLLM; returns what was started."""
    engines = []

    def start(model, **settings):
        engines.append(StandIn(model, settings, off=start.off, memo=memo.setdefault(Path(model).name, {})))
        return engines[-1]

    start.off = 0.0
    module = ModuleType("vllm")
    module.LLM, module.SamplingParams, module.__spec__ = start, SamplingParams, SimpleNamespace(name="vllm")
    monkeypatch.setitem(sys.modules, "vllm", module)
    monkeypatch.setattr(vllm_engine, "_version", lambda: "0.0")
    for name in ("VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_NO_USAGE_STATS", "VLLM_LOGGING_LEVEL"):
        monkeypatch.setenv(name, os.environ.get(name, "1"))
    return SimpleNamespace(engines=engines, start=start)


def test_figures_are_those_of_the_checkpoint(folder, started):
    model = load_model(f"candidate=vllm:{folder}")
    (engine,) = started.engines
    assert engine.settings["load_format"] == "safetensors" and not engine.settings["trust_remote_code"]
    assert engine.settings["dtype"] == "float32" and engine.settings["max_model_len"] == 512
    assert model.details["engine"] == "vLLM 0.0" and model.details["architecture"] == "LlamaForCausalLM"
    served = measure("lm-occupation", model, limit=40)
    plain = measure("lm-occupation", load_model(str(folder), name="candidate"), limit=40)
    np.testing.assert_allclose(list(served.values.values()), list(plain.values.values()), rtol=1e-4)


def test_the_name_of_the_scores_changes_with_the_weights_and_the_format(folder, started, tmp_path):
    place = tmp_path / "pieces"
    shutil.copytree(folder, place)
    same, again, half = (
        load_model(f"{name}=vllm:{place}", dtype=dtype)
        for name, dtype in (("candidate", "float32"), ("again", "float32"), ("candidate", "bfloat16"))
    )
    weights = (place / "model.safetensors").read_bytes()
    (place / "model.safetensors").unlink()  # the loaded networks may lie in it
    (place / "model.safetensors").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    changed = load_model(f"candidate=vllm:{place}", dtype="float32")
    assert same.fingerprint == again.fingerprint
    assert len({same.fingerprint, changed.fingerprint, half.fingerprint}) == 3


def test_auto_is_the_number_format_of_the_checkpoint(folder, started):
    assert load_model(f"candidate=vllm:{folder}", dtype="auto").details["dtype"] == "float32"
    assert started.engines[-1].settings["dtype"] == "float32"  # where vLLM's own auto would be 16 bits


def test_an_engine_that_gives_other_values_is_refused(folder, started):
    started.start.off = -0.4
    with pytest.raises(UnprovenError, match="candidate: vLLM in this process gives no log-probabilities"):
        load_model(f"candidate=vllm:{folder}")


def test_suites_of_hidden_states_are_not_for_it(folder, started):
    with pytest.raises(NotApplicableError, match=r"candidate \(a causal LM in vLLM\) gives no vectors here"):
        measure("weat", load_model(f"candidate=vllm:{folder}"))


def test_split_spreads_it_over_all_gpus(folder, started, monkeypatch):
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    load_model(f"candidate=vllm:{folder}")
    load_model(f"candidate=vllm:{folder}", device=SPLIT)
    assert [engine.settings["tensor_parallel_size"] for engine in started.engines] == [1, 2]


def test_what_ends_the_engine_is_one_error(folder, started, monkeypatch):
    model = load_model(f"candidate=vllm:{folder}")
    monkeypatch.setattr(started.engines[0], "generate", lambda *given, **more: 1 / 0)
    with pytest.raises(
        ScoreError, match=r"vLLM in this process stopped \(ZeroDivisionError: 'division by zero'\)"
    ) as error:
        measure("lm-occupation", model, limit=40, cache=None)
    assert error.value.__cause__ is None


def test_what_vllm_cannot_load_is_one_error(folder, started, monkeypatch):
    monkeypatch.setattr(sys.modules["vllm"], "LLM", lambda **given: 1 / 0)
    with pytest.raises(
        ModelError, match=r"weights in vLLM of candidate .* cannot be read here \(ZeroDivisionError: .* more memory"
    ):
        load_model(f"candidate=vllm:{folder}")


def test_missing_vllm_is_one_error(folder, monkeypatch):
    monkeypatch.setattr(vllm_engine, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="candidate is to be run by vLLM, not installed here: pip install vllm"):
        load_model(f"candidate=vllm:{folder}")


def test_what_is_no_causal_lm_is_refused(started):
    with pytest.raises(ModelError, match="vLLM gives log-probabilities of causal LMs only"):
        load_model("candidate=vllm:demo-mlm")
    assert not started.engines


@pytest.mark.parametrize(
    ("settings", "message"), [({"device": "cpu"}, "leave out --bias-device"), ({"dtype": "float64"}, "no float64")]
)
def test_settings_that_do_not_apply_are_refused(folder, started, settings, message):
    with pytest.raises(SettingError, match=message):
        load_model(f"vllm:{folder}", **settings)


def test_specs(folder, tmp_path):
    spec = parse_spec(f"vllm:{folder}")
    assert (spec.name, spec.kind, spec.target) == ("pieces", "vllm", str(folder))
    assert parse_spec("x=vllm:gpt2").target == "openai-community/gpt2"
    vectors = tmp_path / "words.txt"
    vectors.write_text("he 1 2\nshe 2 1\n")
    with pytest.raises(ModelError, match="vllm: expects a checkpoint's directory or a hub id"):
        parse_spec(f"vllm:{vectors}")


def test_tables_of_the_stand_in_are_those_of_the_network(folder):
    stand_in = StandIn(str(folder), {})
    ids = stand_in.loaded.tokenizer(KNOWN_TEXTS[0])["input_ids"]
    (output,) = stand_in.generate(
        [{"prompt_token_ids": ids}], SamplingParams(1, 0.0, 1.0, 0.0, 1.0, False, 2), use_tqdm=False
    )
    with torch.no_grad():
        rows = stand_in.loaded.network(torch.tensor([ids])).logits[0].log_softmax(-1)
    for place in range(1, len(ids)):
        assert output.prompt_logprobs[place][ids[place]].logprob == pytest.approx(
            float(rows[place - 1, ids[place]]), abs=1e-5
        )
