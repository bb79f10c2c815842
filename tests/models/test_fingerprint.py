"""What the score cache knows a network's reading by: everything that decides scores beside the fingerprint that
baselines hold.
"""

from __future__ import annotations

import sys
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import transformers
from support.tiny_checkpoints import make_network, tokenizer

from pytest_genderbias import load_model
from pytest_genderbias.models.fingerprint import fingerprint_reading, fingerprint_tokenizer
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.scoring.engine import ScoreSettings, answer
from pytest_genderbias.suites.cases import Question, TextCases
from pytest_genderbias.suites.query import TextVectors


def reading(words: Any, network: Any = None, longest: int | None = 64, pooling: str | None = None) -> str:
    return fingerprint_reading(Checkpoint(network or make_network("bert"), words, "cpu", longest, pooling))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model_input_names", ["input_ids", "attention_mask"]),
        ("model_max_length", 16),
        ("truncation_side", "left"),
        ("padding_side", "left"),
    ],
)
def test_a_setting_of_the_tokenizer_is_another_reading_of_the_same_model(name: str, value: Any) -> None:
    words, changed = tokenizer("bert"), deepcopy(tokenizer("bert"))
    setattr(changed, name, value)
    assert reading(words) == reading(deepcopy(words))
    assert reading(words) != reading(changed)
    assert fingerprint_tokenizer(words) == fingerprint_tokenizer(changed), "baselines hold it"


def test_length_and_pooling_count() -> None:
    words = tokenizer("bert")
    assert (
        len({reading(words), reading(words, longest=32), reading(words, longest=None), reading(words, pooling="mean")})
        == 4
    )


def test_the_merges_and_settings_of_a_slow_tokenizer_count(tmp_path: Path) -> None:
    def slow(merges: str, **settings: Any) -> Any:
        (tmp_path / "merges.txt").write_text(merges, encoding="utf-8")
        return transformers.CTRLTokenizer(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"), **settings)

    (tmp_path / "vocab.json").write_text('{"<unk>": 0, "a": 1, "b</w>": 2, "ab</w>": 3}', encoding="utf-8")
    one, other = slow("#version\na b</w>\n"), slow("#version\n")
    assert not one.is_fast and one.tokenize("ab") != other.tokenize("ab")
    assert reading(one) == reading(slow("#version\na b</w>\n"))
    assert reading(one) != reading(other)
    assert reading(one) != reading(slow("#version\na b</w>\n", split_special_tokens=True))


def test_a_slow_tokenizer_that_cannot_be_saved_is_never_the_same_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vocab.json").write_text('{"<unk>": 0, "a": 1}', encoding="utf-8")
    (tmp_path / "merges.txt").write_text("#version\n", encoding="utf-8")
    words = transformers.CTRLTokenizer(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))

    def fails(*arguments: object, **settings: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(type(words), "save_pretrained", fails)
    assert reading(words) != reading(words)


def test_the_code_of_a_checkpoint_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("transformers_modules.mine.modeling")
    module.__file__ = str(tmp_path / "modeling.py")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    own = type("OwnBert", (transformers.BertForMaskedLM,), {"__module__": module.__name__})
    network = own(make_network("bert").config)
    prints = set()
    for code, helper in (("a = 1", "b = 1"), ("a = 2", "b = 1"), ("a = 1", "b = 2"), ("a = 1", "b = 1")):
        (tmp_path / "modeling.py").write_text(code)
        (tmp_path / "helper.py").write_text(helper)
        prints.add(reading(tokenizer("bert"), network))
    assert len(prints) == 3
    assert reading(tokenizer("bert")) not in prints


def test_scores_of_another_reading_are_not_taken_from_the_cache(checkpoint: Any, tmp_path: Path) -> None:
    """A longer limit in tokenizer_config.json: its scores were those of the shorter one."""
    cases = TextCases([("the nurse " * 20,), ("the pilot " * 20,)])

    def vectors(model: Model) -> Any:
        settings = ScoreSettings(cache=tmp_path / "cache")
        scored, notes = answer(Question(cases, TextVectors()), model, "0" * 32, settings, "texts")
        return scored.values, notes

    long, short = (load_model(str(checkpoint("bert")), device="cpu") for _ in range(2))
    short.backend.tokenizer.model_max_length = 8
    short = load_model(str(saved(short, tmp_path / "short")), device="cpu")
    assert long.fingerprint == short.fingerprint
    first, notes = vectors(short)
    assert any("cut to the 8 tokens" in note for note in notes)
    second, notes = vectors(long)
    assert not any("cut to the 8 tokens" in note for note in notes) and not np.allclose(first, second)
    assert np.array_equal(vectors(short)[0], first) and np.array_equal(vectors(long)[0], second)


def saved(model: Model, folder: Path) -> Path:
    model.backend.network.save_pretrained(folder)
    model.backend.tokenizer.save_pretrained(folder)
    return folder


def test_a_call_of_a_tokenizer_does_not_change_its_fingerprint() -> None:
    words = deepcopy(tokenizer("bert"))
    before = fingerprint_tokenizer(words)
    words(["one", "one more text"], padding="max_length", truncation=True, max_length=3)
    assert words.backend_tokenizer.truncation and words.backend_tokenizer.padding
    assert fingerprint_tokenizer(words) == before
