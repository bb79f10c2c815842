"""Runs whose scores are all stored: they build no network, measure the same, and notice every change of a checkpoint's
files.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.numpy
from support.tiny_checkpoints import tokenizer

from pytest_genderbias import load_model
from pytest_genderbias.errors import ModelError
from pytest_genderbias.folders import RECORDS
from pytest_genderbias.measurement import run_models
from pytest_genderbias.measurement.carry_out import LabelWarning
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.runner import Runner, RunSettings
from pytest_genderbias.models import known
from pytest_genderbias.models.model import BareTokenizer, bare_content
from pytest_genderbias.models.source import LoadSettings
from pytest_genderbias.models.spec import parse_spec
from pytest_genderbias.scoring.store import clear, list_entries

pytestmark = pytest.mark.filterwarnings("ignore::pytest_genderbias.measurement.carry_out.LabelWarning")
CPU = LoadSettings(device="cpu")
KINDS = {"bert": "disco-terms", "albert": "lm-occupation", "gpt2": "lm-occupation", "roberta-nli": "nli-occupation"}


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of models whose networks are built."""
    names: list[str] = []
    real = run_models.load
    monkeypatch.setattr(run_models, "load", lambda source, how: names.append(source.spec.name) or real(source, how))
    return names


@pytest.fixture
def copy(checkpoint: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """Return a function from a kind of checkpoint to a copy that may be changed."""
    return lambda kind: Path(shutil.copytree(checkpoint(kind), tmp_path / kind))


def run(
    model: Path, cache: Path | None, suite: str, limit: int = 40, load: LoadSettings = CPU, null: int = 0
) -> Measurement:
    """Measure as a new process would: with another runner."""
    return Runner(load, RunSettings(limit, cache=cache, null=null)).measure(suite, str(model))


def records(cache: Path) -> list[Path]:
    return sorted((cache / RECORDS).glob("*"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_from_the_cache_builds_no_network_and_measures_the_same(
    kind: str, checkpoint: Callable[[str], Path], tmp_path: Path, loads: list[str]
) -> None:
    folder, cache = checkpoint(kind), tmp_path / "cache"
    uncached = run(folder, None, KINDS[kind], null=20).to_dict()
    first = run(folder, cache, KINDS[kind], null=20).to_dict()
    assert loads == [kind, kind]
    assert run(folder, cache, KINDS[kind], null=20).to_dict() == first == uncached
    assert loads == [kind, kind]


@pytest.mark.parametrize("settings", [{"where": "input"}, {}], ids=["input", "default"])
def test_the_sizes_of_vectors_are_known(
    settings: dict[str, str], checkpoint: Callable[[str], Path], tmp_path: Path, loads: list[str]
) -> None:
    first, second = (
        Runner(CPU, RunSettings(cache=tmp_path)).measure("weat", str(checkpoint("albert")), settings).to_dict()
        for _ in range(2)
    )
    assert first == second
    assert loads == ["albert"]


def test_the_network_is_loaded_for_scores_that_are_missing(
    checkpoint: Callable[[str], Path], tmp_path: Path, loads: list[str]
) -> None:
    run(checkpoint("gpt2"), tmp_path, "lm-occupation", 40)
    longer = run(checkpoint("gpt2"), tmp_path, "lm-occupation", 600)
    assert loads == ["gpt2", "gpt2"]
    assert longer.to_dict() == run(checkpoint("gpt2"), None, "lm-occupation", 600).to_dict()


def test_a_known_model_can_be_used_like_a_loaded_one(
    checkpoint: Callable[[str], Path], tmp_path: Path, loads: list[str]
) -> None:
    spec = parse_spec(str(checkpoint("bert")))
    runner = Runner(CPU, RunSettings(40, cache=tmp_path))
    loaded = runner.models.model(spec)
    deferred = Runner(CPU, RunSettings(40, cache=tmp_path)).models.model(spec)
    assert loads == ["bert"]
    assert replace(deferred, backend=None) == replace(loaded, backend=None)
    assert (deferred.width, deferred.input_width) == (loaded.width, loaded.input_width)
    assert "reading" in vars(deferred.backend)
    assert loads == ["bert"]
    changed = replace(deferred.backend, network=loaded.backend.network)
    assert changed.network is loaded.backend.network
    assert "reading" not in vars(changed), "nothing is known of other parts"
    assert changed.tokenizer.get_vocab() == loaded.backend.tokenizer.get_vocab()
    assert loads == ["bert", "bert"]
    with pytest.raises(AttributeError):
        _ = deferred.backend.weights


def test_a_known_model_has_the_whole_role_of_a_loaded_one(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    """The number of replies is one of the run, and no part of a record."""
    spec = parse_spec(str(checkpoint("gpt2")))
    for samples in (3, 3, 2, None):
        models = Runner(LoadSettings(device="cpu", samples=samples), RunSettings(40, cache=tmp_path)).models
        assert models.source(spec).role.samples == models.model(spec).role.samples == (samples or 1)


def other_weight(folder: Path) -> None:
    """Change one weight, and neither the size of the file nor its time."""
    path = folder / "model.safetensors"
    before = path.stat()
    weights = safetensors.numpy.load_file(path)
    name = next(name for name in weights if name.endswith("query.weight"))
    weights[name][0, 0] += 1
    safetensors.numpy.save_file(weights, path, {"format": "pt"})
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def other_config(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "layer_norm_eps": 0.5}))


def other_tokenizer(folder: Path) -> None:
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    vocabulary = content["model"]["vocab"]
    names = list(vocabulary)[-2:]
    vocabulary[names[0]], vocabulary[names[1]] = vocabulary[names[1]], vocabulary[names[0]]
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("change", [other_weight, other_config, other_tokenizer])
def test_a_change_of_any_file_is_another_model(
    change: Callable[[Path], None], copy: Callable[[str], Path], tmp_path: Path, loads: list[str]
) -> None:
    folder, cache = copy("bert"), tmp_path / "cache"
    before = run(folder, cache, "disco-terms")
    change(folder)
    after = run(folder, cache, "disco-terms")
    assert loads == ["bert", "bert"]
    assert before.signature["model"]["fingerprint"] != after.signature["model"]["fingerprint"]
    assert after.to_dict() == run(folder, None, "disco-terms").to_dict()
    assert len(records(cache)) == 2


def test_the_role_is_known_without_reading_the_weights(
    checkpoint: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(checkpoint("bert"), tmp_path, "disco-terms")
    read: list[str] = []
    real = known.file_sha256
    monkeypatch.setattr(known, "file_sha256", lambda path: read.append(path.name) or real(path))
    known._code()  # which is hashed once
    read.clear()
    source = Runner(CPU, RunSettings(cache=tmp_path)).models.source(parse_spec(str(checkpoint("bert"))))
    assert source.role.kind == "masked-lm"
    assert read == ["config.json"]


def test_what_no_loading_reads_changes_nothing(copy: Callable[[str], Path], tmp_path: Path, loads: list[str]) -> None:
    folder, cache = copy("bert"), tmp_path / "cache"
    first = run(folder, cache, "disco-terms")
    shutil.copytree(folder, folder / "checkpoint-10")
    (folder / "optimizer.pt").write_bytes(b"state")
    assert run(folder, cache, "disco-terms").to_dict() == first.to_dict()
    assert loads == ["bert"]


def in_index(folder: Path, name: str, index: str = "model.safetensors.index.json") -> Path:
    """Move the weights to a file that an index names."""
    weights = folder / "model.safetensors"
    content = {"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(safetensors.numpy.load_file(weights), name)}
    (folder / index).write_text(json.dumps(content))
    return weights.rename(folder / name)


def in_config(folder: Path, name: str) -> Path:
    """Move the weights to a file that the config names."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "transformers_weights": name}))
    (folder / name).parent.mkdir(exist_ok=True)
    return (folder / "model.safetensors").rename(folder / name)


@pytest.mark.parametrize(
    ("put", "name"),
    [
        (in_index, ".hidden.safetensors"),
        (in_index, "rng_state.safetensors"),
        (in_config, ".hidden.safetensors"),
        (in_config, "checkpoint-1/model.safetensors"),
        (in_config, ".hidden/model.safetensors"),
    ],
)
def test_weights_in_files_that_are_not_hashed_have_no_record(
    put: Callable[[Path, str], Path], name: str, copy: Callable[[str], Path], tmp_path: Path
) -> None:
    folder, cache = copy("gpt2"), tmp_path / "cache"
    weights = put(folder, name)
    before = run(folder, cache, "lm-occupation")
    content = safetensors.numpy.load_file(weights)
    safetensors.numpy.save_file({name: 3 * array for name, array in content.items()}, weights, {"format": "pt"})
    after = run(folder, cache, "lm-occupation")
    assert before.signature["model"]["fingerprint"] != after.signature["model"]["fingerprint"]
    assert before.values != after.values
    assert not records(cache)


def test_weights_in_several_files_have_a_record(copy: Callable[[str], Path], tmp_path: Path, loads: list[str]) -> None:
    folder, cache = copy("gpt2"), tmp_path / "cache"
    in_index(folder, "model-00001-of-00001.safetensors")
    assert run(folder, cache, "lm-occupation").to_dict() == run(folder, cache, "lm-occupation").to_dict()
    assert loads == ["gpt2"]


@pytest.mark.parametrize(("place", "number"), [("1_Pooling", 1), (".pooling", 0)])
def test_a_pooling_in_a_hidden_folder_has_no_record(
    place: str, number: int, copy: Callable[[str], Path], tmp_path: Path
) -> None:
    folder, cache = copy("bert"), tmp_path / "cache"
    (folder / "modules.json").write_text(json.dumps([{"type": "x.Pooling", "path": place}]))
    (folder / place).mkdir()
    (folder / place / "config.json").write_text('{"pooling_mode_cls_token": true}')
    run(folder, cache, "disco-terms")
    assert len(records(cache)) == number


@pytest.mark.parametrize(
    "settings",
    [
        LoadSettings(device="cpu", dtype="float64"),
        LoadSettings("cpu", labels=("neutral", "entailment", "contradiction")),
    ],
)
def test_other_settings_of_loading_have_records_of_their_own(
    settings: LoadSettings, checkpoint: Callable[[str], Path], tmp_path: Path, loads: list[str]
) -> None:
    run(checkpoint("bert-nli"), tmp_path, "nli-occupation")
    other = run(checkpoint("bert-nli"), tmp_path, "nli-occupation", load=settings)
    assert len(loads) == 2
    assert other.to_dict() == run(checkpoint("bert-nli"), None, "nli-occupation", load=settings).to_dict()


def test_a_model_that_earlier_code_has_checked_is_checked_again(
    checkpoint: Callable[[str], Path], tmp_path: Path, loads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(checkpoint("bert"), tmp_path, "disco-terms")
    monkeypatch.setattr(known, "_code", lambda: "with one check more")
    run(checkpoint("bert"), tmp_path, "disco-terms")
    assert loads == ["bert", "bert"]


@pytest.mark.parametrize("package", ["transformers", "accelerate", "huggingface-hub", "sentencepiece", "tiktoken"])
def test_a_model_that_other_versions_have_read_is_loaded_again(
    package: str, checkpoint: Callable[[str], Path], tmp_path: Path, loads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(checkpoint("bert"), tmp_path, "disco-terms")
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "99.0" if name == package else real(name))
    monkeypatch.setattr(known, "_versions", known._versions.__wrapped__)  # without its cache
    run(checkpoint("bert"), tmp_path, "disco-terms")
    assert loads == ["bert", "bert"]


def test_a_refused_model_is_refused_in_every_run(copy: Callable[[str], Path], tmp_path: Path) -> None:
    folder, cache = copy("bert"), tmp_path / "cache"
    run(folder, cache, "disco-terms")
    path = folder / "model.safetensors"
    weights = safetensors.numpy.load_file(path)
    headless = {name: weight for name, weight in weights.items() if not name.startswith("cls.")}
    safetensors.numpy.save_file(headless, path, {"format": "pt"})
    for _ in range(2):
        with pytest.raises(ModelError, match="lacks weights"):
            run(folder, cache, "disco-terms")
    assert len(records(cache)) == 1


def test_a_doubt_about_labels_is_raised_in_every_run(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    texts = []
    for _ in range(2):
        with pytest.warns(LabelWarning, match="labels in the right order") as warnings:
            measured = run(checkpoint("roberta-nli"), tmp_path, "nli-occupation")
        texts.append([*map(str, measured.notes), str(warnings[0].message)])
    assert texts[0] == texts[1]


def test_a_model_that_changes_during_a_run_is_refused(copy: Callable[[str], Path], tmp_path: Path) -> None:
    folder, cache = copy("bert"), tmp_path / "cache"
    run(folder, cache, "disco-terms", 40)
    runner = Runner(CPU, RunSettings(600, cache=cache))
    runner.models.model(parse_spec(str(folder)))
    other_weight(folder)
    with pytest.raises(ModelError, match="bert changed while it was measured"):
        runner.measure("disco-terms", str(folder))
    assert not records(cache)


@pytest.mark.parametrize(
    "damage",
    [lambda content: content[:-20], lambda content: content.replace(b"masked", b"causal")],
    ids=["cut", "changed"],
)
def test_a_damaged_record_is_not_used(
    damage: Callable[[bytes], bytes], checkpoint: Callable[[str], Path], tmp_path: Path, loads: list[str]
) -> None:
    first = run(checkpoint("bert"), tmp_path, "disco-terms")
    (path,) = records(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert path.read_bytes() != whole
    assert run(checkpoint("bert"), tmp_path, "disco-terms").to_dict() == first.to_dict()
    assert loads == ["bert", "bert"]
    assert path.read_bytes() == whole, "it is written anew"


@pytest.mark.skipif(sys.platform == "win32", reason="rights of POSIX")
def test_records_that_every_user_can_write_are_not_used(
    checkpoint: Callable[[str], Path], tmp_path: Path, loads: list[str]
) -> None:
    run(checkpoint("bert"), tmp_path, "disco-terms")
    (tmp_path / RECORDS).chmod(0o777)
    run(checkpoint("bert"), tmp_path, "disco-terms")
    assert loads == ["bert", "bert"]


def test_quantised_weights_have_no_record(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    spec, models = parse_spec(str(checkpoint("bert"))), known.KnownModels(tmp_path, CPU)
    assert models.model(spec, pytest.fail) is None
    model = load_model(spec.target, device="cpu")
    model.backend.network.config.quantization_config = {"quant_method": "torchao"}
    models.remember(spec, model)
    assert not records(tmp_path)
    del model.backend.network.config.quantization_config
    models.remember(spec, model)
    assert len(records(tmp_path)) == 1


def test_records_are_entries_of_the_cache(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    run(checkpoint("bert"), tmp_path, "disco-terms")
    assert sorted(str(entry.suite) for entry in list_entries(tmp_path)) == ["disco-terms", "known model"]
    assert len(clear(tmp_path)[0]) == 2
    assert not records(tmp_path)


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2", "xlm-roberta", "albert", "deberta-v2", "llama", "mpnet"])
def test_a_tokenizer_without_transformers_gives_the_same_texts(kind: str) -> None:
    whole = tokenizer(kind)
    content = bare_content(whole)
    assert content is not None
    bare = BareTokenizer.of_text(content, whole.unk_token)
    for i in range(len(whole)):
        assert bare.decode([i]).strip() == whole.decode([i]).strip()
        assert bare.convert_ids_to_tokens(i) == whole.convert_ids_to_tokens(i)
        assert bare.convert_tokens_to_ids(str(whole.convert_ids_to_tokens(i))) == i


@pytest.fixture
def hub(checkpoint: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that downloads a commit of nobody/bert, of which main is then the name; the hub is offline."""
    repository = tmp_path / "hub" / "models--nobody--bert"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))

    def download(commit: str) -> None:
        shutil.copytree(checkpoint("bert"), repository / "snapshots" / commit)
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / "main").write_text(commit)
        (repository / ".no_exist" / commit).mkdir(parents=True)
        for absent in ("modules.json", "sentence_bert_config.json"):
            (repository / ".no_exist" / commit / absent).touch()

    return download


def test_a_model_of_the_hub_is_known_by_its_commit(
    hub: Callable[[str], None], tmp_path: Path, loads: list[str]
) -> None:
    cache, first, second = tmp_path / "cache", "a" * 40, "b" * 40

    def revision(spec: str) -> object:
        return Runner(CPU, RunSettings(40, cache=cache)).measure("disco-terms", spec).signature["model"].get("revision")

    hub(first)
    assert revision("nobody/bert") == revision("nobody/bert")
    assert len(loads) == 1
    assert [revision(f"nobody/bert@{first}") for _ in range(2)] == [first, first]
    assert len(loads) == 2, "the signature names the commit of a pinned revision"
    hub(second)
    revision("nobody/bert")
    assert len(loads) == 3, "main is another commit"


def test_a_model_of_the_hub_whose_files_the_hub_has_not_named_is_loaded(
    hub: Callable[[str], None], tmp_path: Path, loads: list[str]
) -> None:
    hub("a" * 40)
    shutil.rmtree(tmp_path / "hub" / "models--nobody--bert" / ".no_exist")
    for _ in range(2):
        Runner(CPU, RunSettings(40, cache=tmp_path / "cache")).measure("disco-terms", "nobody/bert")
    assert len(loads) == 2


def test_a_process_with_stored_scores_imports_neither_torch_nor_transformers(
    checkpoint: Callable[[str], Path], pytester: pytest.Pytester, ability_asked: None
) -> None:
    """After a run of this process, which has loaded both, has stored them."""
    run = ["-p", "no:cacheprovider", "-s", "--bias-device=cpu", "--bias-suite=nli-occupation", "--bias-limit=40",
           f"--bias-model={checkpoint('bert-nli')}", "--bias-cache=cache"]  # fmt: skip
    script = f"""
import sys, pytest
class Loaded:
    def pytest_sessionfinish(self):
        print("loaded", sorted({{"torch", "transformers", "sklearn", "pandas"}} & set(sys.modules)))
sys.exit(pytest.main({[*run, "--bias-json=second.json"]!r}, [Loaded()]))
"""
    pytester.runpytest_inprocess(*run, "--bias-json=first.json").assert_outcomes(passed=1)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=pytester.path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "loaded []" in done.stdout
    first, second = (json.loads((pytester.path / f"{part}.json").read_text()) for part in ("first", "second"))
    assert first["measurements"] == second["measurements"]
