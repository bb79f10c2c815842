"""Words that a tokenizer does not know: a figure that says nothing is no value, and a few such words are a note."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers
from support.tiny_checkpoints import BERT_SPECIALS, CAUSAL, CLASSIFIERS, MASKED, suite_space, tokenizer
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from pytest_genderbias import GateFailure, assert_at_least, assert_at_most, load_model, measure
from pytest_genderbias.models.model import BareTokenizer, Model, bare_content
from pytest_genderbias.scoring import unknown_words
from pytest_genderbias.scoring.engine import ScoreSettings, answer
from pytest_genderbias.scoring.unknown_words import tokens_of, unread_words
from pytest_genderbias.suites.cases import Question, TextCases
from pytest_genderbias.suites.query import PairSimilarity, PseudoLogLikelihood, TextVectors

WORDS = """
list: menschen
title: t
source: s
licence: l
language: de
entries:
  - {word: Königin, group: female}
  - {word: Tänzerin, group: female}
  - {word: Bäcker, group: male}
  - {word: König, group: male}
"""
JOBS = """
list: berufe
title: t
source: s
licence: l
language: de
entries: [{word: Bäcker}, {word: Jäger}, {word: Müller}]
"""
HEAD = "title: t\nsource: s\nlicence: l\nlanguage: de\n"
SUITES = {
    "disco": HEAD
    + """suite: disco
family: disco
person: {list: menschen.yaml}
templates: ["{person} heißt {blank}.", "{person} mag {blank}."]
""",
    "nli": HEAD
    + """suite: nli
family: nli
premise: "{subject} läuft."
hypothesis: "{object} läuft."
slots: {subject: {list: berufe.yaml}, object: {list: menschen.yaml}}
""",
    "lm": HEAD
    + """suite: lm
family: lm-occupation
occupation: {list: berufe.yaml}
prefixes: [{male: "Er müßte {occupation}", female: "Sie müßte {occupation}"}]
""",
}


@pytest.fixture
def german(tmp_path: Path) -> Path:
    """A folder with German suites, of whose words a tokenizer without ä, ö, ü and ß knows none."""
    tmp_path.joinpath("menschen.yaml").write_text(WORDS, encoding="utf-8")
    tmp_path.joinpath("berufe.yaml").write_text(JOBS, encoding="utf-8")
    for name, text in SUITES.items():
        tmp_path.joinpath(f"{name}.yaml").write_text(text, encoding="utf-8")
    return tmp_path


def english_words(kind: str, words: str = "the nurse is a good pilot she he") -> transformers.PreTrainedTokenizerFast:
    """Return a tokenizer of whole words that makes [UNK] of every other word."""
    known = {token: i for i, token in enumerate([*BERT_SPECIALS, ".", *words.split()])}
    kernel = Tokenizer(models.WordLevel(known, unk_token="[UNK]"))
    kernel.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if kind != "causal":
        kernel.post_processor = processors.BertProcessing(("[SEP]", known["[SEP]"]), ("[CLS]", known["[CLS]"]))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=kernel,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        bos_token="[CLS]",
    )


def model_of(kind: str, words: str = "the nurse is a good pilot she he") -> Model:
    """Return a small network with the tokenizer of whole words."""
    t = transformers
    small: dict[str, Any] = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "intermediate_size": 8,
        "vocab_size": 32,
    }
    labels = {
        "nli": {0: "entailment", 1: "neutral", 2: "contradiction"},
        "classifier": {0: "nurse", 1: "judge"},
        "regressor": {0: "score"},
    }
    makers: dict[str, Any] = {
        "masked": lambda: t.BertForMaskedLM(t.BertConfig(**small)),
        "encoder": lambda: t.BertModel(t.BertConfig(**small)),
        "causal": lambda: t.GPT2LMHeadModel(t.GPT2Config(n_embd=8, n_layer=1, n_head=1, n_positions=64, vocab_size=32)),
    }
    make = makers.get(kind) or (
        lambda: t.BertForSequenceClassification(
            t.BertConfig(**small, id2label=labels[kind], label2id={name: i for i, name in labels[kind].items()})
        )
    )
    return load_model(make(), tokenizer=english_words(kind, words), name="english")


@pytest.mark.parametrize(
    ("suite", "kind", "options"),
    [
        ("disco", "masked", {}),
        ("nli", "nli", {}),
        ("nli", "causal", {"verbaliser": "yes-maybe-no"}),
        ("lm", "masked", {}),
        ("lm", "causal", {}),
    ],
)
def test_a_suite_of_unknown_words_has_no_value(german: Path, suite: str, kind: str, options: dict[str, Any]) -> None:
    found = measure(german / f"{suite}.yaml", model_of(kind), cache=None, **options)
    main = next(iter(found.values))
    assert set(found.values.values()) <= {None} and found.bounds[main] is None
    assert "english cannot tell the cases apart: the tokenizer knows none of the words of" in found.reasons[main]
    assert any("unknown to the tokenizer" in note for note in found.notes)
    gate = assert_at_least if suite == "nli" else assert_at_most
    with pytest.raises(GateFailure, match="has no value: english cannot tell the cases apart"):
        gate(found, 0.5)


def test_a_run_from_the_cache_notices_the_same(german: Path, tmp_path: Path) -> None:
    model = model_of("masked")
    model.backend.network.save_pretrained(tmp_path / "model")
    model.backend.tokenizer.save_pretrained(tmp_path / "model")
    saved = load_model(tmp_path / "model", device="cpu")
    first, again = (measure(german / "disco.yaml", saved, cache=tmp_path / "cache") for _ in range(2))
    assert first.values["significant_fills"] is None
    assert (first.values, first.reasons, first.notes) == (again.values, again.reasons, again.notes)


def test_a_tokenizer_that_ignores_its_lower_casing_is_noticed() -> None:
    """As transformers 5.0 to 5.2 read a BERT folder: every capitalised name is [UNK]."""
    backend = Tokenizer.from_str(tokenizer("bert").backend_tokenizer.to_str())
    backend.normalizer = None
    cased = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="[UNK]", mask_token="[MASK]", pad_token="[PAD]"
    )
    space, _ = suite_space("disco-names")
    network = transformers.BertForMaskedLM(
        transformers.BertConfig(
            hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, vocab_size=len(cased)
        )
    )
    reason, notes = unread_words(space, np.arange(space.n_units), load_model(network, tokenizer=cased, name="cased"))
    assert reason.startswith("cased cannot tell the cases apart: the tokenizer knows none of the words of 'person': ")
    assert f"{space.n_units} of {space.n_units} words of 'person' are unknown to the tokenizer" in notes[0]


@pytest.mark.parametrize("kind", [*MASKED, *CAUSAL, *CLASSIFIERS])
def test_the_packaged_suites_are_read_by_every_tokenizer(tiny_model: Any, kind: str) -> None:
    for suite in ("disco-names", "disco-terms", "lm-occupation", "nli-occupation"):
        space, _ = suite_space(suite)
        assert unread_words(space, np.arange(space.n_units), tiny_model(kind)) == ("", [])


def test_a_slow_tokenizer_is_asked_word_by_word(german: Path, tmp_path: Path) -> None:
    from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

    words = english_words("masked").get_vocab()
    (tmp_path / "vocab.txt").write_text("\n".join(sorted(words, key=words.__getitem__)), encoding="utf-8")
    slow = BertTokenizerLegacy(str(tmp_path / "vocab.txt"))
    network = model_of("masked").backend.network
    found = measure(german / "disco.yaml", load_model(network, tokenizer=slow, name="slow"), cache=None)
    assert found.values["significant_fills"] is None
    assert "knows none of the words of 'person'" in found.reasons["significant_fills"]
    space, _ = suite_space("nli-occupation")
    reason, _ = unread_words(space, np.arange(2), load_model(network, tokenizer=slow))
    assert "knows none of the words" in reason


@pytest.mark.parametrize(
    ("kind", "query"),
    [
        ("encoder", TextVectors()),
        ("masked", PseudoLogLikelihood()),
        ("causal", PseudoLogLikelihood()),
        ("regressor", PairSimilarity()),
        ("encoder", PairSimilarity()),
    ],
)
def test_texts_of_unknown_words_say_nothing(kind: str, query: Any) -> None:
    pairs = isinstance(query, PairSimilarity)
    texts = [("die Köchin kocht", "der Koch kocht"), ("die Ärztin heilt", "der Arzt heilt")]
    cases = TextCases(texts if pairs else [row[:1] for row in texts])
    scored, notes = answer(Question(cases, query), model_of(kind), "0" * 32, ScoreSettings(), "label")
    where = "first texts" if pairs else "texts"
    assert f"the tokenizer knows none of the {where}" in scored.unread
    assert any(f"6 of 6 words of the {where} are unknown to the tokenizer" in note for note in notes)


def read(
    texts: list[Any], spans: list[Any] = (), each: int = 1, words: str = "the nurse is a good pilot she he"
) -> tuple[str, list[str]]:  # type: ignore[assignment]
    cases = TextCases([(text,) for text in texts], spans, cases_per_unit=each)
    return unread_words(cases, np.arange(cases.n_units), model_of("encoder", words))


def test_the_words_that_a_figure_compares_are_told_apart() -> None:
    texts = ["the nurse is good, say Annas.", "the pilot is good, say Ottos."]
    spans = [((text.index("say ") + 4, len(text) - 1),) for text in texts]
    assert read(texts)[0] == ""
    reason, notes = read(texts, spans)
    assert "knows none of the words in span 1 of the texts: 'Annas', 'Ottos'" in reason
    assert notes == ["4 of 12 words of the texts are unknown to the tokenizer: 'say', 'Annas', 'Ottos'"]


def test_pairs_that_become_one_input_say_nothing() -> None:
    nurse, pilot = "the nurse said {} is good", "the pilot said {} is good"
    texts = [text.format(word) for text in (nurse, pilot) for word in ("er", "sie")]
    assert "makes 1 input of both texts of each pair, as of 'the nurse said er is good'" in read(texts, each=2)[0]
    assert read(texts)[0] == ""
    known = [text.format(word) for text in (nurse, pilot) for word in ("he", "she")]
    assert read(known, each=2)[0] == ""


def test_prefixes_that_differ_in_an_unknown_word_only(german: Path) -> None:
    suite = (
        HEAD
        + """suite: job
family: lm-occupation
occupation: {list: jobs.yaml}
prefixes:
  - {male: "Er is a {occupation}", female: "Sie is a {occupation}"}
  - {male: "good Er {occupation}", female: "good Sie {occupation}"}
"""
    )
    german.joinpath("jobs.yaml").write_text(
        JOBS.replace("berufe", "jobs").replace("Bäcker", "nurse").replace("Jäger", "pilot")
    )
    german.joinpath("job.yaml").write_text(suite)
    found = measure(german / "job.yaml", model_of("masked"), cache=None)
    assert found.values["aggregate_bias"] is None
    assert "makes 1 input of both templates of each pair" in found.reasons["aggregate_bias"]
    assert "4 of 10 words of the templates are unknown to the tokenizer: 'Er', 'Sie'" in found.notes
    assert "1 of 3 words of 'occupation' are unknown to the tokenizer: 'Müller'" in found.notes


def test_different_texts_that_are_one_input() -> None:
    assert "makes 1 input of the 2 texts: 'the Koch', 'the Wirt'" in read(["the Koch", "the Wirt", "the Wirt"])[0]
    assert read(["the nurse", "The Nurse"], words="the nurse The Nurse")[0] == ""
    assert read(["the nurse"] * 3) == ("", [])


@pytest.mark.parametrize("texts", [[""], ["..."], ["[UNK] is good"]])
def test_what_has_no_words_or_the_unknown_token_itself_is_not_counted(texts: list[str]) -> None:
    assert read(texts) == ("", [])


def test_one_per_cent_is_not_noted() -> None:
    texts = [f"the nurse is good {'Koch' if i == 7 else 'pilot'}" + (" she" if i % 2 else "") for i in range(18)]
    words = sum(len(text.split()) for text in dict.fromkeys(texts))
    assert words < 100
    assert read(texts)[1] == [f"1 of {words} words of the texts are unknown to the tokenizer: 'Koch'"]
    long = ["the nurse is a good pilot " * 20 + "Koch", "the nurse is a good pilot"]
    assert read(long)[1] == []


def test_a_note_lists_few_words_and_long_ones_are_cut() -> None:
    reason, notes = read([f"the {'x' * 60}{i}" for i in range(30)])
    assert "makes 1 input of the 30 texts" in reason
    assert all(len(text) < 700 for text in (reason, *notes))
    assert "... (30)" in notes[0] or "... (1)" in notes[0]


def test_a_large_data_set_is_looked_at_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = TextCases([(f"the nurse {i}",) for i in range(10_000)], cases_per_unit=2)
    seen: list[int] = []

    def counting(tokenizer: Any, texts: Any) -> Any:
        seen.append(len(texts))
        return tokens_of(tokenizer, texts)

    monkeypatch.setattr(unknown_words, "tokens_of", counting)
    unread_words(cases, np.arange(5000), model_of("encoder"))
    assert sum(seen) == 1000
    long = TextCases([("the nurse " * 5000,)] * 3 + [("x " * 400_000,)] * 3)
    seen.clear()
    assert unread_words(long, np.arange(6), model_of("encoder"))[0] == ""


def test_only_the_words_that_were_scored_count() -> None:
    space, _ = suite_space("disco-names")
    names = [word.text for word in space.words["person"]]
    model = model_of("masked", " ".join(["is", "likes", *names[:3]]))
    assert unread_words(space, np.arange(3), model)[0] == ""
    assert "knows none of the words of 'person'" in unread_words(space, np.arange(3, 9), model)[0]
    reason, notes = unread_words(space, np.arange(space.n_units), model)
    assert reason == ""
    assert notes[0].startswith(f"{len(names) - 3} of {len(names)} words of 'person' are unknown to the tokenizer: ")


def test_the_tokenizer_is_left_as_it_was_and_its_limits_do_not_matter() -> None:
    model = model_of("encoder")
    backend = model.backend.tokenizer.backend_tokenizer
    cases = TextCases([("the nurse is good Koch",), ("the pilot is good",)])
    expected = unread_words(cases, np.arange(2), model)
    assert expected[1] == ["1 of 9 words of the texts are unknown to the tokenizer: 'Koch'"]
    for limit in (backend.no_truncation, lambda: backend.enable_truncation(8, stride=1, direction="left")):
        limit()
        backend.enable_padding(length=32, pad_token="[PAD]")
        before = backend.to_str()
        assert unread_words(cases, np.arange(2), model) == expected
        assert backend.to_str() == before


class _Slow:
    """A tokenizer of which two threads encode at once, with the limits that it has then."""

    def __init__(self, backend: Tokenizer) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def encode_batch(self, texts: list[str], **settings: object) -> list[Any]:
        time.sleep(0.2)
        return self._backend.encode_batch(texts, **settings)


def test_threads_with_one_tokenizer_read_whole_texts_and_leave_its_limits(tiny_model) -> None:
    """The file of the tokenizer may cut and pad texts."""
    content = bare_content(tiny_model("bert-nli").backend.tokenizer)
    assert content is not None
    bare = BareTokenizer.of_text(content, "[UNK]")
    backend = bare.backend_tokenizer
    backend.enable_truncation(3)
    backend.enable_padding(length=4)
    before, texts = backend.to_str(), ["the nurse ate the bagel and left"]
    alone = tokens_of(bare, texts)
    assert len(alone[0]) > 4
    read: list[object] = []
    slow = BareTokenizer(_Slow(backend), "[UNK]")  # type: ignore[arg-type]
    threads = [threading.Thread(target=lambda: read.append(tokens_of(slow, texts))) for _ in range(3)]
    for thread in threads:
        thread.start()
        time.sleep(0.05)
    for thread in threads:
        thread.join(60)
    assert read == [alone] * 3
    assert backend.to_str() == before
