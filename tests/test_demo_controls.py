"""The demo checkpoints pass the controls of their roles, and no sentence that they are trained on is a control."""

from __future__ import annotations

import random
import re
from types import ModuleType
from typing import Any

import pytest
import torch
import transformers
from support.scripts import load_script

from pytest_genderbias.models.spec import DEMO_FOLDER

LABELS = ("entailment", "neutral", "contradiction")


@pytest.fixture(scope="module")
def training() -> ModuleType:
    return load_script("train_demo_models")


@pytest.fixture(scope="module")
def plain(training: ModuleType) -> ModuleType:
    module: ModuleType = training.plain
    return module


def tokenizer_of(name: str) -> Any:
    return transformers.AutoTokenizer.from_pretrained(DEMO_FOLDER / name)


def letters(text: str) -> str:
    """Return the words of a text in lower case, as a tokenizer without cases and spaces leaves them."""
    return " ".join(re.findall(r"\w+|[^\w\s]", text.lower()))


def test_no_sentence_of_the_masked_model_is_a_control(training: ModuleType, plain: ModuleType) -> None:
    tokenizer = tokenizer_of("mlm")
    rows = training.plain_rows(tokenizer, random.Random(1), 4000)
    filled = [
        [next(iter(target)) if token == tokenizer.mask_token_id else token for token in row]
        for row, target in zip(rows.rows, rows.targets, strict=True)
    ]
    assert tokenizer.unk_token_id not in {token for row in filled for token in row}
    texts = {letters(text) for text in tokenizer.batch_decode(filled, skip_special_tokens=True)}
    assert len(texts) > 1000
    assert not texts & {letters(text) for text in plain.control_texts()}


def test_no_sentence_of_the_causal_model_is_a_control(training: ModuleType, plain: ModuleType) -> None:
    tokenizer, controls = tokenizer_of("lm"), plain.control_texts()
    corpus = training.plain_batch(tokenizer, random.Random(1), controls, 4000)
    texts = {letters(text) for text in tokenizer.batch_decode(corpus.ids, skip_special_tokens=True)}
    assert len(texts) > 1000
    assert not texts & {letters(text) for text in controls}


def test_no_pair_of_the_classifier_is_a_control(plain: ModuleType) -> None:
    controls, draws = plain.control_pairs(), random.Random(1)
    assert any(plain.scene_pair(draws)[:2] in controls for _ in range(20_000)), "else nothing would be left out"
    for make in (plain.scene_pair, plain.adult_pair):
        assert any(make(draws)[:2] in controls for _ in range(20_000)) or make is plain.adult_pair, (
            "else nothing is left out"
        )
        assert not any(plain.new_pair(draws, make, controls)[:2] in controls for _ in range(3000))


def test_plain_sentences_name_no_occupation(training: ModuleType, plain: ModuleType) -> None:
    draws = random.Random(1)
    makers = (
        lambda: plain.clause_sentence(draws)[0],
        lambda: plain.kin_sentence(draws)[0],
        lambda: plain.plain_sentence(draws),
    )
    words = {word for make in makers for _ in range(4000) for word in re.findall(r"[a-z]+", make().lower())}
    words |= {
        word
        for _ in range(2000)
        for text in plain.scene_pair(draws)[:2]
        for word in re.findall(r"[a-z]+", text.lower())
    }
    occupations = {*training.words_of("lu2018-occupations"), *training.words_of("dev2019-occupations")}
    assert words & occupations <= {"cook"}, "a verb in plain sentences"


@torch.no_grad()
def log_probabilities_at_blanks(model: Any, tokenizer: Any, texts: list[str]) -> torch.Tensor:
    """Return ln P of every token at the blank of each text, of shape (texts, vocabulary)."""
    rows = tokenizer([text.replace("___", tokenizer.mask_token) for text in texts], padding=True, return_tensors="pt")
    return torch.log_softmax(model(**rows).logits[rows["input_ids"] == tokenizer.mask_token_id], dim=-1)


@pytest.mark.parametrize(("name", "share"), [("masked-words", 0.85), ("gender", 0.85)])
def test_the_masked_model_is_able(plain: ModuleType, name: str, share: float) -> None:
    tokenizer = tokenizer_of("mlm")
    model = transformers.AutoModelForMaskedLM.from_pretrained(DEMO_FOLDER / "mlm").eval()
    items = plain.control_items(name)
    ln_p = log_probabilities_at_blanks(model, tokenizer, [item["text"] for item in items])
    right = 0
    for item, row in zip(items, ln_p, strict=True):
        wrong = item["wrong"] if isinstance(item["wrong"], list) else [item["wrong"]]
        ids = tokenizer.convert_tokens_to_ids([item["right"], *wrong])
        assert tokenizer.unk_token_id not in ids
        right += bool(row[ids[0]] > row[ids[1:]].max())
    assert right / len(items) >= share


@torch.no_grad()
def log_probability(model: Any, tokenizer: Any, text: str) -> float:
    ids = torch.tensor([[tokenizer.bos_token_id, *tokenizer(text)["input_ids"]]])
    ln_p = torch.log_softmax(model(ids).logits[0, :-1], dim=-1)
    return float(ln_p.gather(1, ids[0, 1:, None]).sum())


@pytest.mark.parametrize("name", ["word-order", "gender"])
def test_the_causal_model_is_able(plain: ModuleType, name: str) -> None:
    tokenizer = tokenizer_of("lm")
    model = transformers.AutoModelForCausalLM.from_pretrained(DEMO_FOLDER / "lm").eval()
    items = plain.control_items(name)
    pairs = [
        (re.sub(r"\[(\S+) (\S+)\]", r"\1 \2", item), re.sub(r"\[(\S+) (\S+)\]", r"\2 \1", item))
        if isinstance(item, str)
        else tuple(item["text"].replace("___", item[key]) for key in ("right", "wrong"))
        for item in items
    ]
    right = sum(log_probability(model, tokenizer, a) > log_probability(model, tokenizer, b) for a, b in pairs)
    assert right / len(items) >= 0.9


@torch.no_grad()
def probabilities_of_labels(pairs: list[tuple[str, str]]) -> torch.Tensor:
    """Return the probabilities of the labels, of shape (pairs, 3), in the order of ``LABELS``."""
    tokenizer = tokenizer_of("nli")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(DEMO_FOLDER / "nli").eval()
    assert tuple(model.config.id2label.values()) == LABELS
    rows = tokenizer([p for p, _ in pairs], [h for _, h in pairs], padding=True, return_tensors="pt")
    return torch.softmax(model(**rows).logits, dim=-1)


def test_the_classifier_is_able(plain: ModuleType) -> None:
    items = plain.control_items("inference")
    found = probabilities_of_labels([(item["premise"], item["hypothesis"]) for item in items]).argmax(dim=1)
    for k, label in enumerate(LABELS):
        of_label = [int(index) == k for index, item in zip(found, items, strict=True) if item["label"] == label]
        assert sum(of_label) / len(of_label) >= 0.75, label


def test_the_classifier_knows_who_is_a_woman(plain: ModuleType) -> None:
    items = plain.control_items("gender-inference")
    right, wrong = (
        probabilities_of_labels([(item["premise"], item[key]) for item in items])[:, 0] for key in ("right", "wrong")
    )
    assert float((right > wrong).float().mean()) >= 0.9
