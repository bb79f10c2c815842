"""Adapters of peft: merged by hand they give the same weights, their folders are found with their bases, and what would
not be applied is refused.
"""

from __future__ import annotations

import copy
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.tiny_checkpoints import make_network, save_checkpoint, tokenizer

from pytest_genderbias import load_model, measure
from pytest_genderbias.engines import peft_adapters
from pytest_genderbias.errors import ModelError, SettingError, installing
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.saving import copied, save_model
from pytest_genderbias.models.spec import parse_spec, portable_spec

peft = pytest.importorskip("peft", reason="the extra [peft] is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
Tensors = dict[str, torch.Tensor]
LORA = {"r": 4, "lora_alpha": 6, "target_modules": ["query", "value"]}


def write_adapter(
    network: Any, folder: Path, base: Path | str | None, config: Any = None, seed: int = 3, scale: float = 0.5
) -> Path:
    """Write an adapter with random numbers, as training leaves it, for a network; ``base`` is what its config names."""
    wrapped = peft.get_peft_model(network, config or peft.LoraConfig(**LORA))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in wrapped.parameters():
            if parameter.requires_grad:
                parameter.add_(scale * torch.randn(parameter.shape, generator=generator))
    wrapped.save_pretrained(folder)
    edit(folder, base_model_name_or_path=None if base is None else str(base))
    return folder


def edit(folder: Path, **changes: object) -> Path:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


def rewritten(folder: Path, change: Callable[[Tensors], Tensors]) -> Path:
    path = folder / "adapter_model.safetensors"
    save_file(change(load_file(path)), path)
    return folder


def merged_by_hand(base: Tensors, adapter: Tensors, scale: float) -> Tensors:
    """Return W + scale * B A for every layer that a LoRA adapts, and the other weights as they are."""
    merged = dict(base)
    for key in adapter:
        if key.endswith(".lora_A.weight"):
            layer = key.removesuffix(".lora_A.weight")
            name = layer.removeprefix("base_model.model.") + ".weight"
            merged[name] = base[name] + scale * adapter[f"{layer}.lora_B.weight"] @ adapter[key]
    assert sum(not torch.equal(base[name], merged[name]) for name in base) > 0
    return merged


def weights(model: Model) -> Tensors:
    return dict(model.backend.network.named_parameters())


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny masked LM, ``base``, with a LoRA for it, ``lora``, that names it."""
    folder = tmp_path_factory.mktemp("masked")
    save_checkpoint("bert", folder / "base")
    write_adapter(make_network("bert"), folder / "lora", folder / "base")
    return folder


@pytest.fixture
def lora(masked: Path, tmp_path: Path) -> Path:
    """A copy of the LoRA that a test may change."""
    return shutil.copytree(masked / "lora", tmp_path / "lora")


@pytest.mark.parametrize(
    ("kind", "task", "modules"),
    [
        ("bert", None, ["query", "value"]),
        ("llama", "CAUSAL_LM", ["q_proj", "down_proj"]),
        ("bert-nli", "SEQ_CLS", ["query", "dense"]),
    ],
)
def test_the_merge_is_that_of_plain_matrices(tmp_path: Path, kind: str, task: str | None, modules: list[str]) -> None:
    base = save_checkpoint(kind, tmp_path / "base")
    config = peft.LoraConfig(r=3, lora_alpha=5, target_modules=modules, task_type=task)
    folder = write_adapter(make_network(kind), tmp_path / "lora", base, config)
    if kind == "bert-nli":  # of an old peft, which did not name the head that it saved
        edit(folder, modules_to_save=None)
    model, plain = load_model(folder, device="cpu"), load_model(base, device="cpu")
    expected = merged_by_hand(
        load_file(base / "model.safetensors"), load_file(folder / "adapter_model.safetensors"), 5 / 3
    )
    if kind == "bert-nli":
        expected |= {
            f"classifier.{part}": load_file(folder / "adapter_model.safetensors")[f"base_model.model.classifier.{part}"]
            for part in ("weight", "bias")
        }
    for name, tensor in weights(model).items():
        if name in expected:
            assert torch.allclose(tensor, expected[name], rtol=1e-6, atol=1e-6), name
    assert (model.role, model.name) == (plain.role, "lora")
    assert model.details["adapter"] == "LORA, merged"
    assert model.fingerprint != plain.fingerprint
    assert all(parameter.requires_grad for parameter in weights(model).values())


def test_an_adapter_is_known_by_the_weights_that_it_makes(masked: Path, tmp_path: Path) -> None:
    model = load_model(masked / "lora", device="cpu")
    assert load_model(f"adapter:{masked / 'lora'}", device="cpu").fingerprint == model.fingerprint
    network = peft.PeftModel.from_pretrained(make_network("bert"), masked / "lora").merge_and_unload()
    network.save_pretrained(tmp_path / "merged")
    tokenizer("bert").save_pretrained(tmp_path / "merged")
    assert load_model(tmp_path / "merged", device="cpu").fingerprint == model.fingerprint
    other = write_adapter(make_network("bert"), tmp_path / "other", masked / "base", seed=4)
    assert load_model(other, device="cpu").fingerprint != model.fingerprint


def test_figures_move_as_with_the_network_merged_by_hand(masked: Path) -> None:
    network = make_network("bert")
    merged = merged_by_hand(network.state_dict(), load_file(masked / "lora" / "adapter_model.safetensors"), 6 / 4)
    network.load_state_dict(merged)
    by_hand = measure("disco-terms", load_model(network, tokenizer=tokenizer("bert")), limit=140, cache=None)
    loaded = measure("disco-terms", load_model(masked / "lora", device="cpu"), limit=140, cache=None)
    before = measure("disco-terms", load_model(masked / "base", device="cpu"), limit=140, cache=None)
    assert loaded.values == pytest.approx(by_hand.values, nan_ok=True)
    assert loaded.value != before.value


def test_a_trained_adapter_of_a_real_model(shared_data: Path, tmp_path: Path) -> None:
    """A LoRA that learns to fill "she" moves she and he as the same product of matrices by hand does."""
    transformers = pytest.importorskip("transformers")
    base = shared_data / "models" / "bert-tiny-mlm"
    words = transformers.AutoTokenizer.from_pretrained(base)
    network = transformers.AutoModelForMaskedLM.from_pretrained(base)
    torch.manual_seed(0)
    wrapped = peft.get_peft_model(
        network, peft.LoraConfig(r=8, lora_alpha=16, target_modules=["query", "value", "dense"])
    )
    optimizer = torch.optim.AdamW([p for p in wrapped.parameters() if p.requires_grad], lr=3e-3)
    texts = [f"The {job} said that [MASK] was tired." for job in ("nurse", "mechanic", "judge", "teacher")]
    batch = words(texts, padding=True, return_tensors="pt")
    she, he = words.convert_tokens_to_ids(["she", "he"])
    masks = batch["input_ids"] == words.mask_token_id
    for _ in range(30):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(wrapped(**batch).logits[masks], torch.full((len(texts),), she))
        loss.backward()
        optimizer.step()
    wrapped.save_pretrained(tmp_path / "lora")

    def gap(network: Any) -> torch.Tensor:
        with torch.no_grad():
            scores = network.eval()(**batch).logits[masks].log_softmax(1)
        return scores[:, she] - scores[:, he]

    model = load_model(tmp_path / "lora", device="cpu")  # the base's own path is in adapter_config.json
    plain = transformers.AutoModelForMaskedLM.from_pretrained(base)
    before = gap(plain)
    adapter = load_file(tmp_path / "lora" / "adapter_model.safetensors")
    plain.load_state_dict(merged_by_hand(plain.state_dict(), adapter, 16 / 8))
    assert torch.allclose(gap(model.backend.network), gap(plain), atol=1e-5)
    assert bool((gap(plain) > before + 1).all())


def test_a_new_head_comes_with_the_adapter(tmp_path: Path) -> None:
    """A classifier is a LoRA and a head on the weights of an encoder, which has no labels."""
    network = make_network("bert-nli")
    network.base_model.save_pretrained(tmp_path / "encoder")
    tokenizer("bert").save_pretrained(tmp_path / "encoder")
    entries = json.loads((tmp_path / "encoder" / "config.json").read_text())
    without = {key: value for key, value in entries.items() if key not in ("id2label", "label2id")}
    (tmp_path / "encoder" / "config.json").write_text(json.dumps(without))
    config = peft.LoraConfig(r=2, target_modules=["query"], task_type="SEQ_CLS")
    folder = write_adapter(network, tmp_path / "lora", tmp_path / "encoder", config)
    with pytest.raises(
        ModelError, match="does not say what its outputs mean: its labels are LABEL_0, LABEL_1, LABEL_2;"
    ):
        load_model(folder, device="cpu")
    model = load_model(folder, device="cpu", labels=["entailment", "neutral", "contradiction"])
    head = load_file(folder / "adapter_model.safetensors")["base_model.model.classifier.weight"]
    assert torch.equal(weights(model)["classifier.weight"], head)
    assert model.role.kind == "nli-classifier"
    assert measure("nli-occupation", model, limit=32, cache=None).value is not None
    network.config.save_pretrained(folder)  # the config of the classifier, with its labels
    assert load_model(folder, device="cpu").fingerprint is not None
    assert load_model(folder, device="cpu").role.labels == ("entailment", "neutral", "contradiction")
    rewritten(folder, lambda t: {name: tensor for name, tensor in t.items() if "classifier" not in name})
    with pytest.raises(ModelError, match=r"lora lacks .*classifier"):
        load_model(folder, device="cpu")


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("bitsandbytes", {"load_in_4bit": True}),
        ("gptq", {"quant_method": "gptq", "bits": 4}),
        ("torchao", {"quant_method": "torchao"}),
    ],
)
def test_a_quantised_base_is_refused_since_merging_would_round(
    masked: Path, tmp_path: Path, method: str, settings: dict[str, object]
) -> None:
    base = shutil.copytree(masked / "base", tmp_path / "base")
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps(config | {"quantization_config": settings}))
    folder = edit(shutil.copytree(masked / "lora", tmp_path / "lora"), base_model_name_or_path=str(base))
    with pytest.raises(ModelError, match=rf"quantised by '?{method}'? .*round the sum .*: adapter:.*@BASE"):
        load_model(folder)
    full = load_model(f"adapter:{folder}@{masked / 'base'}", device="cpu")
    assert full.fingerprint == load_model(masked / "lora", device="cpu").fingerprint


def test_a_split_base_is_refused_since_merging_needs_all_weights(lora: Path) -> None:
    with pytest.raises(SettingError, match="save the merged network, or leave out --bias-device=split"):
        load_model(str(lora), device="split")


def test_a_config_beside_the_adapter_that_says_quantised_is_named(masked: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(masked / "lora", tmp_path / "lora")
    config = json.loads((masked / "base" / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps(config | {"quantization_config": {"quant_method": "gptq", "bits": 4}})
    )
    named = (
        r"quantised by 'gptq' \(config\.json beside the adapter\).*@BASE, and take quantization_config out of that"
        r" file$"
    )
    with pytest.raises(ModelError, match=named):
        load_model(f"adapter:{folder}@{masked / 'base'}")


def test_a_head_in_neither_base_nor_adapter_is_refused(tmp_path: Path) -> None:
    """The pooler of BERT is a weight of the classifier that a masked LM lacks; without it the classifier would be
    random.
    """
    masked = save_checkpoint("bert", tmp_path / "masked")
    config = peft.LoraConfig(r=2, target_modules=["query"], task_type="SEQ_CLS")
    folder = write_adapter(make_network("bert-nli"), tmp_path / "lora", masked, config)
    with pytest.raises(
        ModelError, match=r"lora lacks weights .*BertForSequenceClassification scores with: bert\.pooler"
    ):
        load_model(folder, device="cpu", labels=["entailment", "neutral", "contradiction"])


def test_a_sentence_encoder_keeps_the_pooling_of_its_base(tmp_path: Path) -> None:
    encoder = make_network("bert").base_model
    encoder.save_pretrained(tmp_path / "base")
    tokenizer("bert").save_pretrained(tmp_path / "base")
    (tmp_path / "base" / "1_Pooling").mkdir()
    (tmp_path / "base" / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    modules = [
        {"type": "sentence_transformers.models.Transformer", "path": ""},
        {"type": "x.Pooling", "path": "1_Pooling"},
    ]
    (tmp_path / "base" / "modules.json").write_text(json.dumps(modules))
    config = peft.LoraConfig(**LORA, task_type="FEATURE_EXTRACTION")
    folder = write_adapter(encoder, tmp_path / "lora", tmp_path / "base", config)
    model = load_model(folder, device="cpu")
    assert model.backend.pooling == "first"
    value = measure("sts-occupation", model, limit=60, cache=None).value
    assert value != measure("sts-occupation", load_model(tmp_path / "base", device="cpu"), limit=60, cache=None).value
    save_model(copied(model), tmp_path / "copy")
    assert load_model(tmp_path / "copy", device="cpu").fingerprint == model.fingerprint


@pytest.mark.parametrize(
    "config",
    [
        lambda: peft.IA3Config(target_modules=["key", "value", "output.dense"], feedforward_modules=["output.dense"]),
        lambda: peft.LoraConfig(**LORA, use_dora=True),
        lambda: peft.LoHaConfig(r=2, target_modules=["query"]),
        lambda: peft.VeraConfig(r=4, target_modules=["query"], save_projection=False),
        lambda: peft.LoraConfig(**LORA, modules_to_save=["predictions.transform.dense"]),
    ],
    ids=["ia3", "dora", "loha", "vera", "module to save"],
)
def test_other_kinds_that_change_weights_give_the_scores_of_the_unmerged_network(
    masked: Path, tmp_path: Path, config: Callable[[], Any]
) -> None:
    folder = write_adapter(make_network("bert"), tmp_path / "adapter", masked / "base", config())
    unmerged = peft.PeftModel.from_pretrained(make_network("bert"), folder).eval()
    ids = torch.arange(30, 42).reshape(2, 6)
    with torch.no_grad():
        scores = load_model(folder, device="cpu").backend.network(ids).logits
        assert torch.allclose(scores, unmerged(ids).logits, atol=2e-4)
        assert not torch.allclose(scores, make_network("bert")(ids).logits, atol=1e-2)


def test_an_adapter_that_is_no_change_of_weights_is_refused(masked: Path, tmp_path: Path) -> None:
    config = peft.PromptTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=3)
    folder = write_adapter(make_network("bert").base_model, tmp_path / "prompt", masked / "base", config)
    with pytest.raises(ModelError, match=r"prompt is an adapter of the type PROMPT_TUNING, which .* cannot be merged"):
        load_model(folder, device="cpu")


def test_a_lora_that_cannot_be_merged_is_named_as_such(tmp_path: Path) -> None:
    """One that is active after some tokens only is of the type LORA, and no weights have its scores."""
    base = save_checkpoint("llama", tmp_path / "base")
    config = peft.LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM", alora_invocation_tokens=[5, 6])
    folder = write_adapter(make_network("llama"), tmp_path / "lora", base, config)
    with pytest.raises(ModelError, match=r"the adapter cannot be merged \('aLoRA does not support"):
        load_model(folder, device="cpu")


def test_weights_that_do_not_fit_are_refused(masked: Path, lora: Path) -> None:
    whole = load_file(lora / "adapter_model.safetensors")
    one = next(iter(whole))
    rewritten(lora, lambda t: {name: tensor for name, tensor in t.items() if name != one})
    with pytest.raises(ModelError, match=rf"the adapter of lora lacks entries.*BertForMaskedLM: {one} \(1 in all\)"):
        load_model(lora, device="cpu")
    save_file(
        whole | {"base_model.model.bert.encoder.layer.9.attention.self.query.lora_A.weight": torch.ones(4, 16)},
        lora / "adapter_model.safetensors",
    )
    with pytest.raises(ModelError, match=r"has entries that its base does not have BertForMaskedLM: .*layer\.9"):
        load_model(lora, device="cpu")
    save_file(
        {name.replace("bert.", "roberta."): tensor for name, tensor in whole.items()},
        lora / "adapter_model.safetensors",
    )
    with pytest.raises(ModelError, match=r"has entries that its base does not have"):
        load_model(lora, device="cpu")
    save_file(
        {name: tensor[:, :8].clone() if "lora_A" in name else tensor for name, tensor in whole.items()},
        lora / "adapter_model.safetensors",
    )
    with pytest.raises(ModelError, match=r"the adapter of lora .*size mismatch"):
        load_model(lora, device="cpu")
    save_file(whole | {one: whole[one] * float("nan")}, lora / "adapter_model.safetensors")
    with pytest.raises(ModelError, match="or they are NaN"):
        load_model(lora, device="cpu")
    save_file(
        {name: tensor * ("lora_B" not in name) for name, tensor in whole.items()}, lora / "adapter_model.safetensors"
    )
    with pytest.raises(ModelError, match="the adapter of lora changes no weight of its base"):
        load_model(lora, device="cpu")
    (lora / "adapter_model.safetensors").unlink()
    with pytest.raises(ModelError, match="the adapter lora has no weights at"):
        load_model(lora, device="cpu")


def test_a_merge_that_is_not_what_the_adapter_does_is_refused(tmp_path: Path) -> None:
    """The embeddings of the tiny GPT-2 are its output layer, too: merged into one of them, a LoRA changes both."""
    base, config = save_checkpoint("gpt2", tmp_path / "base"), {"r": 2, "task_type": "CAUSAL_LM"}
    for layer in ("wte", "lm_head"):
        folder = write_adapter(
            make_network("gpt2"), tmp_path / layer, base, peft.LoraConfig(**config, target_modules=[layer, "c_attn"])
        )
        with pytest.raises(ModelError, match=r"the merged network has other outputs than .*\(tied embeddings\)"):
            load_model(folder, device="cpu")
        untied = make_network("gpt2")
        untied.lm_head.weight = torch.nn.Parameter(untied.lm_head.weight.detach().clone())
        untied.config.tie_word_embeddings = False
        untied.save_pretrained(tmp_path / "untied")
        tokenizer("gpt2").save_pretrained(tmp_path / "untied")
        unmerged = peft.PeftModel.from_pretrained(make_network("gpt2"), folder).eval()
        ids = torch.arange(30, 42).reshape(2, 6)
        with torch.no_grad():
            scores = load_model(f"adapter:{folder}@{tmp_path / 'untied'}", device="cpu").backend.network(ids).logits
            assert torch.allclose(scores, unmerged(ids).logits, atol=1e-4), layer


@pytest.mark.parametrize("whole", [None, ["wte", "lm_head"]])
def test_tokens_that_were_added_need_the_base_with_a_row_for_each(tmp_path: Path, whole: list[str] | None) -> None:
    words, network = copy.deepcopy(tokenizer("gpt2")), make_network("gpt2")
    base = save_checkpoint("gpt2", tmp_path / "base")
    words.add_tokens(["<one>", "<two>"])
    network.resize_token_embeddings(len(words))
    network.save_pretrained(tmp_path / "resized")
    tokenizer("gpt2").save_pretrained(tmp_path / "resized")
    config = peft.LoraConfig(r=2, target_modules=["c_attn"], task_type="CAUSAL_LM", modules_to_save=whole)
    folder = write_adapter(network, tmp_path / "lora", base, config)
    words.save_pretrained(folder)
    with pytest.raises(ModelError, match=r"give the base with the resized embeddings, adapter:.*@BASE"):
        load_model(folder, device="cpu")
    model = load_model(f"adapter:{folder}@{tmp_path / 'resized'}", device="cpu")
    resized = make_network("gpt2")
    resized.resize_token_embeddings(len(words))
    unmerged = peft.PeftModel.from_pretrained(resized, folder).eval()
    ids = torch.tensor([[30, 31, len(words) - 1, 32]])
    with torch.no_grad():
        assert torch.allclose(model.backend.network(ids).logits, unmerged(ids).logits, atol=1e-4)


def test_an_adapter_of_another_base_asks_for_its_own(masked: Path, tmp_path: Path) -> None:
    wider = save_checkpoint("bert", tmp_path / "wider", hidden_size=32)
    for base in (wider, save_checkpoint("gpt2", tmp_path / "gpt2")):
        with pytest.raises(ModelError, match=r"base.*; give the base that it was trained on: adapter:DIR@BASE$"):
            load_model(f"adapter:{masked / 'lora'}@{base}", device="cpu")


def test_where_the_base_is(masked: Path, lora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = load_model(masked / "lora", device="cpu").fingerprint
    base = shutil.copytree(masked / "base", tmp_path / "base")
    assert load_model(edit(lora, base_model_name_or_path="../base"), device="cpu").fingerprint == expected
    monkeypatch.chdir(tmp_path)
    assert load_model(edit(lora, base_model_name_or_path="base"), device="cpu").fingerprint == expected
    shutil.copytree(base, lora / "base")
    with pytest.raises(
        ModelError,
        match=r"names the base 'base', which is .*/base or .*/lora/base; give one: --bias-model=lora=adapter:",
    ):
        load_model(lora, device="cpu")
    for spec in ("new=adapter:lora@base", f"new=adapter:{lora}@{base}"):
        model = load_model(spec, device="cpu")
        assert (model.name, model.fingerprint) == ("new", expected)
    for named, said in (
        (None, "does not name its base"),
        (str(tmp_path / "gone"), "there is no such folder"),
        (5, "does not name its base"),
    ):
        with pytest.raises(ModelError, match=said):
            load_model(edit(lora, base_model_name_or_path=named), device="cpu")
    with pytest.raises(ModelError, match="names the revision 'v2' of its base org/base; download that"):
        load_model(edit(lora, base_model_name_or_path="org/base", revision="v2"), device="cpu")
    shutil.copy(lora / "adapter_config.json", base / "adapter_config.json")
    with pytest.raises(ModelError, match="has an adapter of its own"):
        load_model(edit(lora, base_model_name_or_path=str(base), revision=None), device="cpu")
    with pytest.raises(ModelError, match="beside weights of its own"):
        load_model(f"adapter:{lora}@{base}", device="cpu")


def test_which_folders_are_adapters(masked: Path, lora: Path, tmp_path: Path) -> None:
    spec = parse_spec(f"a=adapter:{lora}")
    assert (spec.name, spec.kind, spec.target, spec.base) == ("a", "adapter", str(lora), None)
    assert parse_spec(str(lora)).kind == "adapter"
    assert parse_spec("adapter:org/lora@bert-base").base == parse_spec("bert-base")
    at = shutil.copytree(lora, tmp_path / "run@3")
    assert parse_spec(f"adapter:{at}").target == str(at)
    assert parse_spec(f"adapter:{at}@{masked / 'base'}").base == parse_spec(str(masked / "base"))
    assert portable_spec(f"adapter:{at}@{masked / 'base'}") == "adapter:run@3@base"
    first = shutil.copytree(lora, tmp_path / "lora-0")
    seeded = parse_spec(f"adapter:{tmp_path}/lora-{{seed}}@demo-mlm")
    assert seeded.seeded and seeded.for_seed(0).target == str(first)
    shutil.copy(masked / "base" / "model.safetensors", lora)
    for text in (str(lora), f"adapter:{lora}"):
        with pytest.raises(
            ModelError,
            match=r"has an adapter \(adapter_config\.json\) beside weights of its own \(model\.safetensors\)",
        ):
            parse_spec(text)
    assert parse_spec(f"adapter:{lora}@{masked / 'base'}").target == str(lora)
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("a 1 2\nb 3 4\n")
    for text, said in (
        (f"adapter:{masked / 'base'}", r"has no adapter_config\.json"),
        (f"adapter:{tmp_path}/none", "no directory"),
        (f"adapter:{lora}@{vectors}", "should be a checkpoint's directory or a hub id, got vectors"),
        ("adapter:", "no directory"),
    ):
        with pytest.raises(ModelError, match=said):
            parse_spec(text)


def test_a_base_that_is_nowhere_is_asked_for_where_an_adapter_names_it(masked: Path, tmp_path: Path) -> None:
    lora = edit(shutil.copytree(masked / "lora", tmp_path / "lora"), base_model_name_or_path="nobody/has-this")
    with pytest.raises(
        ModelError,
        match=r"the base of the adapter tuned, 'nobody/has-this', .*--bias-model=tuned=adapter:.*@/path/to/base",
    ):
        load_model(f"tuned={lora}")


def test_the_base_that_was_named_is_not_confused_with_another(masked: Path, tmp_path: Path) -> None:
    from pytest_genderbias.measurement.run_models import RunModels
    from pytest_genderbias.models.source import LoadSettings

    other = save_checkpoint("bert", tmp_path / "other", seed=7)
    models = RunModels(LoadSettings(device="cpu"))
    prints = [
        models.model(parse_spec(f"{name}=adapter:{masked / 'lora'}@{base}")).fingerprint
        for name, base in (("a", masked / "base"), ("b", other))
    ]
    assert prints[0] != prints[1]
    assert models.model(parse_spec(f"c={other}")).fingerprint not in prints


def test_without_peft_an_adapter_is_refused_with_the_extra(lora: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peft_adapters, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="lora is an adapter .*not installed here: " + re.escape(installing("peft"))):
        load_model(lora, device="cpu")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"peft_type": None}, "names no peft_type"),
        ({"peft_type": "NO_SUCH"}, "the adapter of lora"),
        ({"task_type": "TOKEN_CLS"}, "for the task 'TOKEN_CLS', which no suite measures"),
        ({"task_type": ["a"]}, "which no suite measures"),
        ({"megatron_config": {"a": 1}, "megatron_core": "os"}, "has a megatron_config"),
        ({"auto_mapping": {"base_model_class": "Unheard", "parent_library": "os"}}, "no head that can be scored"),
        ({"r": 0}, "the adapter of lora"),
        ({"r": "many"}, "the adapter of lora"),
        ({"r": 10**13}, "the adapter of lora"),
        ({"target_modules": ["nothing"]}, "the adapter of lora"),
    ],
)
def test_a_hostile_adapter_config_is_one_error(lora: Path, changes: dict[str, object], said: str) -> None:
    with pytest.raises(ModelError) as caught:
        load_model(edit(lora, **changes), device="cpu")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [True, "swap", 2, {"layer": 1}])
def test_a_setting_that_this_peft_would_ignore_is_refused(lora: Path, value: object) -> None:
    with pytest.raises(
        ModelError,
        match=rf"has settings that peft {peft.__version__} does not know .*: 'of_the_future'; .* with peft '9\.1'",
    ):
        load_model(edit(lora, of_the_future=value, peft_version="9.1"), device="cpu")


@pytest.mark.parametrize("value", [None, False, {}, []])
def test_an_unknown_setting_that_is_off_changes_nothing(masked: Path, lora: Path, value: object) -> None:
    expected = load_model(masked / "lora", device="cpu").fingerprint
    assert load_model(edit(lora, of_the_future=value), device="cpu").fingerprint == expected


@pytest.mark.parametrize(
    "config",
    [
        lambda: peft.LoraConfig(r=4, target_modules=["query"], bias="all"),
        lambda: peft.LoraConfig(r=4, target_modules=["query"], modules_to_save=["predictions.transform.dense"]),
    ],
    ids=["biases", "module to save"],
)
def test_an_untrained_adapter_with_whole_weights_is_refused(
    masked: Path, tmp_path: Path, config: Callable[[], Any]
) -> None:
    folder = write_adapter(make_network("bert"), tmp_path / "lora", masked / "base", config(), scale=0.0)
    with pytest.raises(ModelError, match="the adapter of lora changes no weight of its base"):
        load_model(folder, device="cpu")
    with_bias = rewritten(folder, lambda t: {name: tensor + 0.5 * name.endswith(".bias") for name, tensor in t.items()})
    changed = load_model(with_bias, device="cpu")
    assert changed.fingerprint != load_model(masked / "base", device="cpu").fingerprint


def test_an_adapter_config_that_is_no_json_is_one_error(lora: Path) -> None:
    for content in (b"[1]", b"{", b"\xff\xfe", b"[" * 100_000):
        (lora / "adapter_config.json").write_bytes(content)
        with pytest.raises(ModelError):
            load_model(lora, device="cpu")


def test_a_tokenizer_of_its_own(masked: Path, lora: Path) -> None:
    words = tokenizer("bert")
    words.save_pretrained(lora)
    assert load_model(lora, device="cpu").fingerprint == load_model(masked / "lora", device="cpu").fingerprint
    content = json.loads((lora / "tokenizer.json").read_text())
    content["added_tokens"].append({**content["added_tokens"][-1], "id": len(words), "content": "[NEW]"})
    (lora / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(ModelError, match="has a tokenizer of 701 tokens, its base has embeddings of 700"):
        load_model(lora, device="cpu")
