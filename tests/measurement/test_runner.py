"""``Runner``: suites and models are loaded once, equal measurements are made once, and one model is in memory."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support import abilities, damage
from support.tiny_checkpoints import save_checkpoint

from pytest_genderbias import load_model, load_suite, measure
from pytest_genderbias.errors import ModelError, NotApplicableError, SettingError
from pytest_genderbias.gates.limits import Limit, decided_by
from pytest_genderbias.measurement import run_models as module
from pytest_genderbias.measurement.restarts import combine_restarts
from pytest_genderbias.measurement.runner import Runner, RunSettings
from pytest_genderbias.models.source import LoadSettings
from pytest_genderbias.models.spec import parse_spec


def uncached(**settings) -> Runner:
    return Runner(score=RunSettings(limit=40, cache=None), **settings)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list:
    """The names of models that are loaded."""
    names = []
    real = module.load
    monkeypatch.setattr(module, "load", lambda source, how: names.append(source.spec.name) or real(source, how))
    return names


def test_equal_measurements_are_made_once(loads: list) -> None:
    runner = uncached()
    first = runner.measure("lm-occupation", "demo-lm")
    assert runner.measure(runner.suites("lm-occupation"), parse_spec("demo-lm"), {"limit": 40}) is first
    assert loads == ["demo-lm"]
    other = runner.measure("lm-occupation", "demo-lm", {"limit": 48})
    assert other is not first and (first.n, other.n) == (40, 48)
    assert other.signature["versions"] is not first.signature["versions"], "who changes one changes no other"
    assert runner.measure("lm-occupation", "demo-lm", {"seed": 1}) is not first
    assert runner.measure("lm-occupation", "other=demo-lm").model == "other"


def test_limits_that_stop_scoring_are_part_of_what_is_equal() -> None:
    runner, suite = Runner(score=RunSettings(cache=None)), load_suite("lm-occupation")

    def until(bound: float):
        return decided_by([("aggregate_bias", Limit(within=bound))], suite.statistics)

    assert runner.measure(suite, "demo-lm", until=until(9.0)) is runner.measure(suite, "demo-lm", until=until(9.0))
    assert runner.measure(suite, "demo-lm", until=until(9.0)) is not runner.measure(suite, "demo-lm", until=until(8.0))


def test_one_model_is_in_memory(loads: list) -> None:
    runner = uncached()
    model = runner.models.model(parse_spec("demo-lm"))
    network = weakref.ref(model.backend.network)
    runner.models.kept_with_model["copy"] = model
    assert runner.models.model(parse_spec("demo-lm")) is model
    del model
    real, alive = module.load, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "load", lambda source, how: alive.append(network()) or real(source, how))
        runner.measure("nli-occupation", "demo-nli")
    assert alive == [None], "the first model is released before the second is loaded"
    assert not runner.models.kept_with_model and loads == ["demo-lm", "demo-nli"]
    runner.models.release()
    gc.collect()


def test_a_suite_that_does_not_apply_is_refused_before_weights_are_loaded(loads: list) -> None:
    with pytest.raises(NotApplicableError, match="nli-occupation: demo-lm has no chat template"):
        uncached().measure("nli-occupation", "demo-lm")
    assert not loads


def test_a_refused_model_is_reported_in_full_once(tmp_path: Path) -> None:
    save_checkpoint("bert", tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"damaged")
    runner, spec = uncached(), f"broken={tmp_path}"
    with pytest.raises(ModelError, match="the weights of broken"):
        runner.measure("disco-terms", spec)
    with pytest.raises(ModelError, match="broken cannot be measured; the first"):
        runner.measure("disco-terms", spec)
    again = uncached()
    with again.models.unreported():
        again.measure("disco-terms", spec)
    with pytest.raises(ModelError, match="the weights of broken"):
        again.measure("disco-terms", spec)
    with pytest.raises(ModelError, match="broken cannot be measured; the first"):
        again.measure("disco-terms", spec)


def test_options_of_the_run_reach_the_suites_that_have_them() -> None:
    options = [("", "single_word_only", True), ("lm-occupation", "limit", 32), ("disco-names", "limit", 20)]
    runner = uncached(options=options)
    found = runner.measure("lm-occupation", "demo-lm")
    assert found.signature["settings"]["single_word_only"] is True and found.n == 32
    assert runner.measure("lm-occupation", "demo-lm", {"single_word_only": False, "limit": 24}).n == 24
    assert "single_word_only" not in runner.measure("nli-occupation", "demo-nli").signature["settings"]


def test_seeds_of_the_run_are_restarts_only_where_they_mean_restarts() -> None:
    runner = uncached(seeds=5)
    assert runner._request(load_suite("probe-compression"), {}).options["seeds"] == 5
    assert runner._request(load_suite("probe-compression"), {"seeds": 7}).options["seeds"] == 7
    assert "seeds" not in runner._request(load_suite("corpus-cooccurrence"), {}).options
    assert runner.measure("lm-occupation", "demo-lm").restarts == 0, "nothing is trained"
    with pytest.raises(SettingError, match="trains nothing on demo-lm"):
        runner.measure("lm-occupation", "demo-lm", {"seeds": 5})


@pytest.fixture
def checkpoints(tmp_path: Path) -> str:
    """Three restarts of a training; the spec of all of them."""
    for seed in range(3):
        model = load_model("demo-lm")
        with torch.no_grad():
            generator = torch.Generator().manual_seed(seed)
            weight = model.backend.network.get_input_embeddings().weight
            weight.add_(0.05 * torch.randn(weight.shape, generator=generator))
        model.backend.network.save_pretrained(tmp_path / f"seed-{seed}")
        model.backend.tokenizer.save_pretrained(tmp_path / f"seed-{seed}")
    return f"{tmp_path}/seed-{{seed}}"


def test_restarts_of_a_model_from_python(checkpoints: str) -> None:
    each = [measure("lm-occupation", checkpoints.replace("{seed}", str(k)), limit=40, cache=None) for k in range(3)]
    found = measure("lm-occupation", f"all={checkpoints}", limit=40, cache=None, seeds=3, null=40)
    assert (found.restarts, found.model, found.signature["model"]["spec"]) == (3, "all", checkpoints)
    assert found.value == pytest.approx(np.mean([one.value for one in each]), abs=1e-12)
    assert found.notes[0] == "mean over 3 restarts, seeds 0, 1, 2" and "no null control" in found.notes[-1]
    assert found.interval is None or found.interval.low < found.value < found.interval.high
    unknown = [replace(one, signature={**one.signature, "model": {"fingerprint": None}}) for one in each]
    assert combine_restarts(unknown, range(3)).signature["model"]["fingerprint"] is None  # as of served models
    assert combine_restarts([each[0], *unknown[1:]], range(3)).signature["model"]["fingerprint"] is None
    with pytest.raises(SettingError, match="is one checkpoint a seed; say how many"):
        measure("lm-occupation", f"all={checkpoints}", cache=None)
    with pytest.raises(SettingError, match="at least 2, got 1"):
        measure("lm-occupation", f"all={checkpoints}", cache=None, seeds=1)


def test_a_restart_that_cannot_do_the_task_is_named(checkpoints: str) -> None:
    folder = checkpoints.replace("{seed}", "1")
    network = load_model(folder).backend.network
    damage.shuffled_vocabulary(network)
    network.save_pretrained(folder)
    with abilities.asked():
        found = measure("lm-occupation", f"all={checkpoints}", limit=40, cache=None, seeds=2)
    assert found.value is None
    assert found.unable.startswith("cannot do the task") and found.unable.endswith(" (seed 1 of 2 restarts)")


def test_a_model_in_memory_is_measured_and_kept_by_its_fingerprint() -> None:
    runner, model = uncached(), load_model("demo-lm")
    assert runner.measure("lm-occupation", model) is runner.measure("lm-occupation", model)
    assert runner.measure_once("lm-occupation", model) == runner.measure("lm-occupation", model)


def test_load_settings_reach_the_model() -> None:
    runner = Runner(LoadSettings(device="cpu", dtype="float64"), RunSettings(limit=16, cache=None))
    assert runner.measure("lm-occupation", "demo-lm").signature["model"]["dtype"] == "float64"
    assert runner.open("demo-lm").details["dtype"] == "float64"


def test_the_error_of_one_model_is_not_reported_for_another(tmp_path: Path) -> None:
    runner = Runner(score=RunSettings(limit=8, cache=None))
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("no JSON")
    broken = [parse_spec(f"{name}={tmp_path / name}") for name in ("first", "second")]
    for spec in broken:
        with runner.models.unreported():
            runner.measure("lm-occupation", spec)
    for spec in broken:
        with pytest.raises(ModelError, match=f"{spec.name} |/{spec.name}"):
            runner.measure("lm-occupation", spec)


def test_models_of_one_name_in_two_folders_are_refused_each_for_itself(tmp_path: Path) -> None:
    runner = uncached()
    (tmp_path / "config.json").write_text("no JSON")
    for _ in range(2):
        with pytest.raises(ModelError):
            runner.measure("lm-occupation", f"m={tmp_path}")
    assert runner.measure("lm-occupation", "m=demo-lm").model == "m"
    with pytest.raises(ModelError, match="m cannot be measured; the first error about it says why"):
        runner.measure("lm-occupation", f"m={tmp_path}")


def test_one_file_of_two_kinds_is_two_models(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("he 1 0\nshe 0 1\n")
    models = uncached().models
    specs = [parse_spec(f"m={kind}{tmp_path / 'words.txt'}") for kind in ("text:", "")]
    assert [models.source(spec).role.kind for spec in specs] == ["text", "vectors"]


class Decided:
    """A function for ``until`` whose ``repr`` says nothing."""

    def __init__(self, decided: bool) -> None:
        self.decided = decided

    def __call__(self, low: float, high: float) -> bool:
        return self.decided

    def __repr__(self) -> str:
        return "Decided"


class Unhashable(Decided):
    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("kind", [Decided, Unhashable])
def test_functions_that_stop_scoring_are_told_apart_by_what_they_are(kind: type[Decided]) -> None:
    runner = Runner(score=RunSettings(limit=1024, cache=None))

    def measured(decided: Decided):
        return runner.measure("nli-occupation", "demo-nli", until={"net_neutral": decided})

    stops, goes_on = kind(True), kind(False)
    first = measured(stops)
    assert first.n < measured(goes_on).n == 1024, "stopped at the first look"
    assert (measured(stops) is first) == (kind is Decided)


def test_threads_that_share_a_runner_load_a_model_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runner, real, loading, loads = uncached(), module.load, threading.Event(), []

    def load(source, settings):
        loads.append(source.spec.name)
        if len(loads) > 1:
            loading.set()
        loading.wait(0.3)  # for another thread that does not wait for this one
        return real(source, settings)

    monkeypatch.setattr(module, "load", load)
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(lambda _: runner.measure("lm-occupation", "demo-lm"), range(2))
    assert loads == ["demo-lm"] and first is second
