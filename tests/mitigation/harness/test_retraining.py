"""New heads on frozen encoders by real recipes: what stays, what is new, and what is trained again."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from support.tiny_checkpoints import save_checkpoint

from pytest_genderbias import load_model
from pytest_genderbias.mitigation import MitigationRun, judge_reduction, make_method, make_recipe, mitigate
from pytest_genderbias.mitigation.harness.retraining import new_heads
from pytest_genderbias.recipes.heads import is_of_head


@pytest.fixture
def base(tmp_path):
    return load_model(str(save_checkpoint("bert", tmp_path / "base")), device="cpu")


@pytest.fixture
def recipe(tmp_path):
    """Eighty persons of two professions, twenty of each gender in each."""
    jobs, groups = ("doctor", "accountant"), "MF"
    rows = [
        {
            "text": f"{['he', 'she'][i // 2 % 2]} is a {jobs[i % 2]} {i}",
            "label": jobs[i % 2],
            "group": groups[i // 2 % 2],
        }
        for i in range(80)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return make_recipe("classification", training=str(path), epochs=1, batch_size=8, learning_rate=1e-2, max_length=16)


def weights(path):
    return load_file(Path(path) / "model.safetensors")


def test_the_encoder_stays_and_the_head_is_new(base, recipe, tmp_path):
    shown = []

    def progress(label, total, done):
        from contextlib import nullcontext

        shown.append(label)
        return nullcontext(lambda count: None)

    run = mitigate(
        base,
        make_method("scrubbing", words=("she", "he")),
        recipe,
        seeds=2,
        folder=tmp_path / "runs",
        progress=progress,
    )
    shown.clear()
    with new_heads(run) as again:
        for side in ("before", "after"):
            for (was,), (now,) in zip(run.models(side), again.models(side), strict=True):
                network = load_model(now, device="cpu").backend.network
                one, other = weights(was), weights(now)
                changed = {name for name in one if not torch.equal(one[name], other[name])}
                assert changed and all(is_of_head(network, name) for name in changed)
    assert shown == ["new head of classification, seed 0", "new head of classification, seed 1"] * 2
    with new_heads(run) as found:
        assert found.models("after") == again.models("after")
    assert len(shown) == 4, "what is there is trained no more"


def test_biographies_are_judged_on_what_was_held_out_and_with_new_heads(base, recipe, tmp_path):
    run = mitigate(base, make_method("scrubbing", words=("she", "he")), recipe, seeds=1, folder=tmp_path / "runs")
    found = judge_reduction(run, "bios", by=0, superficial=True, cache=None, budget={"accuracy": 1.0})
    assert "  scored    24 of 24 cases" in found.text and "accuracy: " in found.text, "30 % of eighty are held out"


def test_the_vocabulary_head_of_a_masked_model_is_new(tmp_path):
    path = str(save_checkpoint("bert", tmp_path / "mlm"))
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"{'the doctor ate a bagel ' * 12}number {i} .\n\n" for i in range(40)))
    recipe = make_recipe("masked-lm", corpus=str(corpus), steps=2, batch_size=2, max_length=16)
    run = MitigationRun(str(save_checkpoint("bert", tmp_path / "other", seed=1)), path, recipe=recipe)
    with new_heads(run) as again:
        folder = again.folder
        one, other = weights(path), weights(again.after[0])
        changed = {name for name in one if name in other and not torch.equal(one[name], other[name])}
        assert changed and all(name.startswith("cls.") for name in changed)
        assert folder.is_dir() and run.folder is None
    gc.collect()
    assert not folder.exists(), "a temporary folder goes with the context"
