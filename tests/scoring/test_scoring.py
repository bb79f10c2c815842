"""The engine against a plain loop (whole sentence, ordinary tokenizer, full logits, one a call), and what it does when
things go wrong.
"""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.tiny_checkpoints import (
    CAUSAL,
    CLASSIFIERS,
    MASKED,
    VOCABULARY,
    make_network,
    small_disco,
    small_suite_space,
    suite_space,
    tokenizer,
)
from transformers import ByT5Tokenizer, LongformerConfig, LongformerForMaskedLM

from pytest_genderbias.errors import ModelError, ScoreError, SettingError
from pytest_genderbias.measurement.runner import measure
from pytest_genderbias.models.loading import load_model
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.objects import wrap_object
from pytest_genderbias.models.roles import Role
from pytest_genderbias.scoring import engine, store
from pytest_genderbias.scoring.engine import ScoreSettings, answer, random_order
from pytest_genderbias.scoring.network import best_ids, top_ids
from pytest_genderbias.scoring.parallel_batches import length_batches
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.scoring.tokens import CuttingTokenizer, RowEncoder, TokenLayout
from pytest_genderbias.suites.cases import Question
from pytest_genderbias.suites.query import TopFills
from pytest_genderbias.suites.space import TEMPLATE, Axis, CaseSpace, Template
from pytest_genderbias.text.template import Word, parse_template

DIGEST = "0123456789abcdef" * 4
OTHER_DIGEST = "fedcba9876543210" * 4


# The plain loop


def plain_logits(model, *text):
    inputs = model.backend.tokenizer(*text, return_tensors="pt")
    with torch.no_grad():
        return inputs["input_ids"][0], model.backend.network(**inputs).logits[0]


def plain_fill_scores(model, text):
    ids, logits = plain_logits(model, text)
    return logits[ids.tolist().index(model.backend.tokenizer.mask_token_id)].double().numpy()


def plain_probabilities(model, premise, hypothesis):
    _, logits = plain_logits(model, premise, hypothesis)
    p = logits.double().softmax(-1).tolist()
    return [p[model.role.labels.index(label)] for label in ("entailment", "neutral", "contradiction")]


def word_tokens(model, text, word):
    """Return the positions of the tokens of the last word and of the space before it, from character offsets."""
    encoded = model.backend.tokenizer(text, return_offsets_mapping=True)
    return encoded["input_ids"], [
        t for t, (_, stop) in enumerate(encoded["offset_mapping"]) if stop > len(text) - len(word) - 1
    ]


def plain_causal_log_probability(model, text, word):
    ids, positions = word_tokens(model, text, word)
    _, logits = plain_logits(model, text)
    return sum(float(logits[t - 1].double().log_softmax(-1)[ids[t]]) for t in positions)


def plain_masked_log_probability(model, text, word):
    ids, positions = word_tokens(model, text, word)
    total = 0.0
    for t in positions:
        inputs = model.backend.tokenizer(text, return_tensors="pt")
        inputs["input_ids"][0, t] = model.backend.tokenizer.mask_token_id
        with torch.no_grad():
            total += float(model.backend.network(**inputs).logits[0, t].double().log_softmax(-1)[ids[t]])
    return total


def assert_fills_as_plain(model, space, cases, found, k=3, margin=1e-5):
    """Compare top-k ids; two ids may change places only where their scores differ by less than the margin."""
    for (text,), fills in zip(space.sentences(cases, model.backend.tokenizer.mask_token), found, strict=True):
        scores = plain_fill_scores(model, text)
        best = np.lexsort((np.arange(len(scores)), -scores))[:k]
        assert len(set(fills.tolist())) == k
        for mine, true in zip(fills, best, strict=True):
            assert mine == true or abs(scores[mine] - scores[true]) < margin * max(1.0, abs(scores[true])), text


def sample(space, n, seed=3):
    return np.random.default_rng(seed).choice(space.n_cases, size=min(n, space.n_cases), replace=False)


def check_fills(model, suite, n, space_of=small_suite_space):
    space, query = space_of(suite)
    scorer, cases = make_scorer(space, query, model, None), sample(space, n)
    assert_fills_as_plain(model, space, cases, scorer.score(cases))
    assert scorer.notes == []


def check_pairs(model, suite, n):
    space, query = suite_space(suite)
    scorer, cases = make_scorer(space, query, model, None), sample(space, n)
    plain = [plain_probabilities(model, *pair) for pair in space.sentences(cases)]
    assert np.abs(scorer.score(cases) - plain).max() < 1e-5
    assert scorer.notes == []


def check_log_probabilities(model, plain, n):
    space, query = suite_space("lm-occupation")
    scorer, cases = make_scorer(space, query, model, None), sample(space, n)
    columns = space.columns(cases)
    words = [space.words["occupation"][i].text for i in columns["occupation"]]
    expected = [plain(model, text, word) for (text,), word in zip(space.sentences(cases), words, strict=True)]
    np.testing.assert_allclose(scorer.score(cases)[:, 0], expected, rtol=1e-5, atol=1e-5)
    assert scorer.notes == []


@pytest.mark.parametrize(
    ("kind", "suite"),
    [
        # the names are laid out for every tokenizer in test_layout.py, and every kind scores the terms
        *(
            pytest.param(kind, "disco-names", marks=[] if kind in ("bert", "roberta") else pytest.mark.slow)
            for kind in MASKED
        ),
        *((kind, "disco-terms") for kind in MASKED),
    ],
)
def test_fills_of_every_architecture(tiny_model, kind, suite):
    check_fills(tiny_model(kind), suite, 20)


@pytest.mark.parametrize("kind", CAUSAL)
def test_causal_log_probabilities_of_every_architecture(tiny_model, kind):
    check_log_probabilities(tiny_model(kind), plain_causal_log_probability, 40)


@pytest.mark.parametrize("kind", MASKED)
def test_masked_log_probabilities_of_every_architecture(tiny_model, kind):
    check_log_probabilities(tiny_model(kind), plain_masked_log_probability, 12)


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.parametrize("suite", ["nli-occupation", "nli-demonym", "nli-religion"])
def test_probabilities_of_every_architecture(tiny_model, kind, suite):
    check_pairs(tiny_model(kind), suite, 24)


def test_probabilities_follow_the_order_of_the_labels(tiny_model):
    model = tiny_model("bert-nli")
    turned = replace(model, role=replace(model.role, labels=("contradiction", "neutral", "entailment")))
    space, query = suite_space("nli-occupation")
    cases = sample(space, 20)
    usual, other = (make_scorer(space, query, m, None).score(cases) for m in (model, turned))
    assert np.array_equal(usual[:, ::-1], other)


@pytest.mark.parametrize("suite", ["disco-names", "disco-terms"])
def test_fills_of_the_real_model(real_mlm, suite):
    check_fills(real_mlm, suite, 28)


def test_log_probabilities_of_the_real_causal_model(real_lm):
    check_log_probabilities(real_lm, plain_causal_log_probability, 60)


def test_log_probabilities_of_the_real_masked_model(real_mlm):
    check_log_probabilities(real_mlm, plain_masked_log_probability, 30)


def test_probabilities_of_the_real_model(real_nli):
    check_pairs(real_nli, "nli-occupation", 16)


@pytest.mark.slow
def test_two_thousand_cases_of_the_real_models(real_mlm, real_lm, real_nli):
    for suite in ("disco-names", "disco-terms"):
        check_fills(real_mlm, suite, 2000, suite_space)
    check_log_probabilities(real_lm, plain_causal_log_probability, 2000)
    check_log_probabilities(real_mlm, plain_masked_log_probability, 2000)
    for suite in ("nli-occupation", "nli-demonym", "nli-religion"):
        check_pairs(real_nli, suite, 2000)


# Forward passes


class Counted:
    """Counts the rows that go through a network; ``before`` may look at each batch, and raise."""

    def __init__(self, model, before=lambda rows, ids: None):
        self.rows, self.calls, self.before, self.real = 0, 0, before, model.backend.network
        network = self.real

        class Network:
            config, base_model = network.config, network.base_model

            def __call__(_, **fed):  # noqa: N805 - self is the counter
                self.before(len(fed["input_ids"]), fed["input_ids"])
                self.rows += len(fed["input_ids"])
                self.calls += 1
                return network(**fed)

        self.model = replace(model, backend=replace(model.backend, network=Network()))


def small_space(
    words=("Ann", "Bob", "Cleo", "Dan", "Eve"), templates=("{person} likes {blank}.", "{person} is {blank}.")
):
    parsed = tuple(Template((parse_template(text),)) for text in templates)
    axes = (Axis.whole("person", len(words)), Axis.whole(TEMPLATE, len(templates)))
    return CaseSpace(parsed, {"person": tuple(map(Word.of, words))}, axes, 1)


def run(space, query, model, digest=DIGEST, **settings):
    return answer(Question(space, query), model, digest, ScoreSettings(**settings), "test")


def warm(scorer, counted, cases):
    """Let the scorer try its short cuts on some cases, and forget the rows that this took."""
    scorer.score(cases)
    counted.rows = counted.calls = 0
    return scorer


def test_equal_sentences_are_passed_once(tiny_model):
    space = small_space(("Ann", "Bob", "ANN", "bob", "ann"))
    counted = Counted(tiny_model("bert"))
    scorer = warm(make_scorer(space, TopFills(3), counted.model, None), counted, np.arange(2))
    found = scorer.score(np.arange(10))
    assert counted.rows == 4  # two names in two templates
    assert np.array_equal(found[0], found[4])  # Ann and ANN: the tokenizer lowers letters


@pytest.mark.parametrize(
    ("kind", "suite"), [("bert", "disco-names"), ("bert-nli", "nli-occupation"), ("gpt2", "lm-occupation")]
)
def test_every_row_is_passed_once_after_the_first_few(tiny_model, kind, suite):
    space, query = small_suite_space(suite)
    lengths = set()
    counted = Counted(tiny_model(kind), lambda rows, ids: lengths.add(ids.shape[1]))
    cases = sample(space, 100)
    scorer = make_scorer(space, query, counted.model, None)
    first = scorer.score(cases)
    tried = counted.rows
    warm(scorer, counted, cases)
    assert np.array_equal(scorer.score(cases), first) or np.allclose(scorer.score(cases), first, rtol=1e-5, atol=1e-5)
    assert counted.rows <= 200
    assert (
        tried <= 100 + 2 * (len(lengths) + 1) + 1
    )  # a row of each length whole and through a short cut, the shortest beside and alone


def test_a_prefix_that_occurs_twice_is_passed_once(tiny_model):
    space, query = suite_space("lm-occupation")
    counted = Counted(tiny_model("gpt2"))
    make_scorer(space, query, counted.model, None).score(np.concatenate([np.arange(64)] * 3))
    alone = Counted(tiny_model("gpt2"))
    make_scorer(space, query, alone.model, None).score(np.arange(64))
    assert counted.rows == alone.rows


def test_a_base_model_that_the_head_does_not_read_falls_back_with_a_note(tiny_model):
    model = tiny_model("bert")
    space, query = small_disco()
    cases = sample(space, 50)
    expected = make_scorer(space, query, model, None).score(cases)
    odd = Counted(model)
    type(odd.model.backend.network).base_model = torch.nn.Linear(1, 1)  # never called: the hook keeps nothing
    scorer = make_scorer(space, query, odd.model, None)
    assert np.array_equal(scorer.score(cases), expected)
    assert any("every position" in note for note in scorer.notes)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_rounding_to_half_precision_keeps_the_vocabulary_head_at_the_read_positions(shared_data, dtype):
    model = load_model(str(shared_data / "models" / "bert-tiny-mlm"), device="cpu", dtype=dtype)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)  # two threads sum in another order, so that the logits of two shapes differ
    try:
        measured = measure("lm-occupation", model, limit=24, cache=None)
    finally:
        torch.set_num_threads(threads)
    assert not any("every position" in note for note in measured.notes)


def test_a_base_model_whose_hook_breaks_falls_back_with_a_note(tiny_model):
    model = tiny_model("bert")
    space, query = small_disco()
    cases = sample(space, 50)
    expected = make_scorer(space, query, model, None).score(cases)
    odd = Counted(model)
    type(odd.model.backend.network).base_model = model.backend.network.bert.encoder.layer[0].intermediate
    scorer = make_scorer(space, query, odd.model, None)
    assert np.array_equal(scorer.score(cases), expected)
    assert any("every position" in note for note in scorer.notes)


class TwoPositions(torch.nn.Module):
    """Reads the first two positions, where BERT's own pooler reads the first."""

    def forward(self, hidden):
        return hidden[:, :2].sum(dim=1)


class Rolled(torch.nn.Module):
    """A vocabulary head that also looks at the position before."""

    def __init__(self, head):
        super().__init__()
        self.head = head

    def forward(self, hidden):
        return self.head(hidden + torch.roll(hidden, 1, dims=1))


def changed(kind, change):
    """Return a model whose network is changed in memory."""
    network = make_network(kind)
    change(network)
    template = Checkpoint(network, tokenizer(kind.removesuffix("-nli")), "cpu", 64)
    labels = ("entailment", "neutral", "contradiction") if kind.endswith("nli") else ()
    role = Role("nli-classifier" if labels else "masked-lm", "changed", labels)
    return Model("changed", "changed", role, None, {}, template)


def test_a_classifier_that_reads_more_than_the_first_position_is_scored_right():
    check_pairs(
        changed("bert-nli", lambda network: setattr(network.bert, "pooler", TwoPositions())), "nli-occupation", 40
    )


def test_a_head_that_looks_at_neighbours_is_scored_right_with_a_note():
    model = changed("bert", lambda network: setattr(network, "cls", Rolled(network.cls)))
    space, query = small_disco()
    scorer, cases = make_scorer(space, query, model, None), sample(space, 40)
    assert_fills_as_plain(model, space, cases, scorer.score(cases))
    assert any("every position" in note for note in scorer.notes)


def test_no_hook_is_left_behind(tiny_model):
    model = tiny_model("roberta")

    def hooks():
        modules = model.backend.network.named_modules()
        return [(name, hook) for name, module in modules for hook in module._forward_hooks]

    before = hooks()  # transformers leaves its own where hidden states were asked for
    check_fills(model, "disco-names", 20)
    assert hooks() == before


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("could not create a primitive"),  # oneDNN's
    ],
    ids=["gpu", "cpu", "onednn"],
)
def test_out_of_memory_halves_the_batch_and_goes_on(tiny_model, error):
    space, query = small_disco()
    cases = sample(space, 60)
    expected = make_scorer(space, query, tiny_model("bert"), None).score(cases)

    def fail(rows, ids):
        if rows > 5:
            raise error

    counted = Counted(tiny_model("bert"), fail)
    scorer = make_scorer(space, query, counted.model, None)
    assert np.array_equal(scorer.score(cases), expected)
    assert any("out of memory" in note for note in scorer.notes)
    for _ in range(5):
        scorer.score(cases)
    before = scorer.notes
    scorer.score(cases)
    assert scorer.notes == before  # it has learned: the remark counts how often batches were halved


def test_out_of_memory_for_a_single_row_is_passed_on(tiny_model):
    def fail(rows, ids):
        raise torch.OutOfMemoryError("CUDA out of memory")

    scorer = make_scorer(small_space(), TopFills(3), Counted(tiny_model("bert"), fail).model, None)
    with pytest.raises(torch.OutOfMemoryError):
        scorer.score(np.arange(10))


def test_another_error_of_the_network_is_passed_on_at_once(tiny_model):
    def fail(rows, ids):
        raise RuntimeError("shapes do not match")

    scorer = make_scorer(small_space(), TopFills(3), Counted(tiny_model("bert"), fail).model, None)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        scorer.score(np.arange(10))
    assert not any("halved" in note for note in scorer.notes)


@pytest.mark.parametrize(
    ("kind", "suite"),
    [("bert", "disco-names"), ("bert-nli", "nli-occupation"), ("gpt2", "lm-occupation"), ("bert", "lm-occupation")],
)
def test_batch_sizes_do_not_matter(tiny_model, kind, suite):
    space, query = small_suite_space(suite)
    cases = sample(space, 60)
    usual, one, many = (
        make_scorer(space, query, tiny_model(kind), tokens).score(cases) for tokens in (None, 1, 100_000)
    )
    if suite == "disco-names":
        assert_fills_as_plain(tiny_model(kind), space, cases, one)
        assert_fills_as_plain(tiny_model(kind), space, cases, many)
    else:
        np.testing.assert_allclose(one, usual, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(many, usual, rtol=1e-5, atol=1e-5)


def test_batches_hold_every_row_once_and_no_more_tokens_than_asked():
    rng = np.random.default_rng(0)
    for tokens, most in ((1, 7), (40, 3), (200, 50), (5000, 1000)):
        lengths = rng.integers(1, 30, size=300)
        batches = list(length_batches(lengths, tokens, most))
        assert sorted(np.concatenate(batches).tolist()) == list(range(300))
        for batch in batches:
            assert len(batch) <= most
            assert len(batch) == 1 or len(batch) * lengths[batch].max() <= tokens


def test_a_sentence_longer_than_the_model_reads_is_refused(tiny_model):
    space = small_space(("Ann " * 80,))
    scorer = make_scorer(space, TopFills(3), tiny_model("bert"), None)
    with pytest.raises(
        ModelError, match=r"tokens, the model reads 64, by its config or the model_max_length of its tokenizer"
    ):
        scorer.score(np.arange(2))


@pytest.mark.parametrize("words", [ByT5Tokenizer(), tokenizer("bert")], ids=["slow", "fast"])
def test_texts_that_are_cut_are_counted_for_tokenizers_of_both_kinds(words):
    whole = "Ann is a nurse."
    longest = len(words(whole)["input_ids"])
    tokenize = CuttingTokenizer(words, longest)
    assert len(tokenize([whole, "Ann"])["input_ids"][0]) == longest
    assert tokenize.note is None  # as long as the model reads is not cut
    assert len(tokenize([whole + " Ann sings.", "Ann", whole])["input_ids"][0]) == longest
    assert tokenize.note == f"1 texts cut to the {longest} tokens that the model reads"
    tokenize(["Ann", "Ann", whole], ["Bo", whole, whole])  # pairs, of which the last two are too long
    assert tokenize.cut == 3
    unlimited = CuttingTokenizer(words, None)
    unlimited([whole * 9])
    assert unlimited.note is None


# Scores that are no numbers


def poisoned(model, word, value):
    """Return the model with logits that are no numbers wherever a word occurs."""
    bad = set(model.backend.tokenizer(word, add_special_tokens=False)["input_ids"])
    network = model.backend.network

    class Network:
        config, base_model = network.config, network.base_model

        def __call__(self, **fed):
            output = network(**fed)
            for row, ids in enumerate(fed["input_ids"].tolist()):
                if bad <= set(ids):
                    output.logits[row] = value
            return output

    return replace(model, backend=replace(model.backend, network=Network()))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("kind", "suite", "word"),
    [
        ("bert", "disco-names", "Kathleen"),
        ("bert-nli", "nli-occupation", "dentist"),
        ("bert", "lm-occupation", "woman"),
        ("gpt2", "lm-occupation", " woman"),
    ],
)
def test_scores_that_are_no_numbers_are_refused_and_the_case_named(tiny_model, monkeypatch, kind, suite, word, value):
    space, query = small_suite_space(suite)
    cases = sample(space, 3000)
    affected = [i for i, text in enumerate(space.sentences(cases)) if word.strip() in " ".join(text)]
    cases = np.concatenate([cases[affected[:5]], np.delete(cases, affected)[:50]])
    monkeypatch.setattr(engine, "scored_units", lambda *_: np.unique(cases // space.cases_per_unit))
    with pytest.raises(ScoreError, match="NaN or infinite") as caught:
        run(space, query, poisoned(tiny_model(kind), word, value))
    assert word.strip().lower() in str(caught.value).lower()
    assert len(str(caught.value).splitlines()) == 1


# Order, limits, ties


def test_the_order_is_a_permutation_fixed_by_digest_and_seed():
    order = random_order(1000, DIGEST, 0)
    assert sorted(order.tolist()) == list(range(1000))
    assert np.array_equal(order, random_order(1000, DIGEST, 0))
    assert not np.array_equal(order, random_order(1000, DIGEST, 1))
    assert not np.array_equal(order, random_order(1000, OTHER_DIGEST, 0))
    assert not np.array_equal(order, np.arange(1000))


def test_the_order_does_not_depend_on_the_model(tiny_model):
    space, query = small_disco()
    units = [run(space, query, tiny_model(kind), limit=200)[0].units for kind in ("bert", "roberta")]
    assert np.array_equal(*units)


@pytest.mark.parametrize(
    ("kind", "suite"), [("bert", "disco-names"), ("bert-nli", "nli-occupation"), ("gpt2", "lm-occupation")]
)
def test_a_limit_is_a_prefix_of_the_order(tiny_model, kind, suite):
    space, query = small_suite_space(suite)
    few, _ = run(space, query, tiny_model(kind), limit=100)
    more, _ = run(space, query, tiny_model(kind), limit=400)
    n = max(1, 100 // space.cases_per_unit)
    assert len(few.units) == n
    assert np.array_equal(few.units, more.units[:n])
    np.testing.assert_allclose(few.values, more.values[:n], rtol=1e-5, atol=1e-5)


def test_a_limit_counts_whole_units_and_at_least_one(tiny_model):
    space, query = small_disco()
    assert [len(run(space, query, tiny_model("bert"), limit=n)[0].units) for n in (1, 14, 27, 28)] == [1, 1, 1, 2]


def test_no_limit_or_a_large_one_scores_all(tiny_model):
    space = small_space()
    assert sorted(run(space, TopFills(3), tiny_model("bert"))[0].units.tolist()) == list(range(5))
    assert len(run(space, TopFills(3), tiny_model("bert"), limit=10**9)[0].units) == 5


@pytest.mark.parametrize("settings", [{"limit": 0}, {"limit": 2.5}, {"limit": True}, {"seed": -1}, {"batch_tokens": 0}])
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(SettingError, match=next(iter(settings))):
        ScoreSettings(**settings)


def test_equal_scores_are_ordered_by_token_id(tiny_model):
    model = tiny_model("bert")
    network = model.backend.network

    class Flat:
        config, base_model = network.config, network.base_model

        def __call__(self, **fed):
            output = network(**fed)
            output.logits = torch.zeros(*fed["input_ids"].shape, network.config.vocab_size)
            output.logits[..., 50] = 1.0
            return output

    flat = replace(model, backend=replace(model.backend, network=Flat()))
    found = make_scorer(small_space(), TopFills(3), flat, None).score(np.arange(10))
    assert found.tolist() == [[50, 0, 1]] * 10


@pytest.mark.parametrize("size", [2, 40, 5000])
def test_best_ids_of_equal_logits_are_the_lowest(size):
    scores = torch.zeros((2, size))
    scores[1, size // 2] = 1.0
    ids, finite = best_ids(scores, 2)
    assert ids.tolist() == [[0, 1], [size // 2, 0]]
    assert finite.all()


def test_top_ids_against_sorting():
    rng = np.random.default_rng(0)
    for _ in range(50):
        values = rng.integers(0, 4, size=(3, 12)).astype(float)
        ids = np.stack([rng.permutation(12) for _ in range(3)])
        expected = [sorted(zip(-v, i, strict=True))[:5] for v, i in zip(values, ids, strict=True)]
        assert top_ids(values, ids, 5).tolist() == [[i for _, i in row] for row in expected]


def test_the_vocabulary_names_every_fill(tiny_model):
    scores, _ = run(small_space(), TopFills(3), tiny_model("bert"))
    assert set(scores.vocabulary) == set(np.unique(scores.values).tolist())
    assert all(text.strip() for text in scores.vocabulary.values())


# The cache


@pytest.fixture
def small_windows(monkeypatch):
    """Windows of a few units, each kept at once, so that small runs show what large ones do."""
    monkeypatch.setattr(engine, "WINDOW", 56)
    monkeypatch.setattr(engine, "_KEEP_EVERY", -1.0)


def disco(model, **settings):
    space, query = small_disco()
    return run(space, query, model, **settings)


def files(folder):
    return sorted(folder.rglob("*.npy"))


def test_a_second_run_makes_no_forward_pass(tiny_model, tmp_path):
    first, notes = disco(tiny_model("bert"), limit=280, cache=tmp_path)
    assert notes == []
    counted = Counted(tiny_model("bert"))
    second, _ = disco(counted.model, limit=280, cache=tmp_path)
    assert counted.calls == 0
    assert np.array_equal(first.values, second.values)
    assert first.vocabulary == second.vocabulary


@pytest.mark.parametrize(
    ("kind", "suite"), [("bert-nli", "nli-occupation"), ("gpt2", "lm-occupation"), ("bert", "lm-occupation")]
)
def test_a_second_run_of_the_other_queries_makes_no_forward_pass(tiny_model, tmp_path, kind, suite):
    space, query = suite_space(suite)
    first, _ = run(space, query, tiny_model(kind), limit=100, cache=tmp_path)
    counted = Counted(tiny_model(kind))
    second, _ = run(space, query, counted.model, limit=100, cache=tmp_path)
    assert counted.calls == 0
    assert np.array_equal(first.values, second.values)


def test_a_longer_run_scores_only_what_is_missing(tiny_model, tmp_path, small_windows):
    disco(tiny_model("bert"), limit=280, cache=tmp_path)
    counted = Counted(tiny_model("bert"))
    longer, _ = disco(counted.model, limit=560, cache=tmp_path)
    whole = Counted(tiny_model("bert"))
    uncached, _ = disco(whole.model, limit=560)
    assert np.array_equal(longer.values, uncached.values)
    assert 0 < counted.rows < whole.rows


def test_a_shorter_run_reads_the_front_of_a_longer_one(tiny_model, tmp_path):
    longer, _ = disco(tiny_model("bert"), limit=560, cache=tmp_path)
    counted = Counted(tiny_model("bert"))
    shorter, _ = disco(counted.model, limit=280, cache=tmp_path)
    assert counted.calls == 0
    assert np.array_equal(shorter.values, longer.values[:20])


def test_another_seed_digest_query_or_model_has_its_own_entry(tiny_model, tmp_path):
    space, query = small_disco()
    runs = [
        (query, tiny_model("bert"), DIGEST, 0),
        (query, tiny_model("bert"), DIGEST, 1),
        (query, tiny_model("bert"), OTHER_DIGEST, 0),
        (TopFills(4), tiny_model("bert"), DIGEST, 0),
        (query, replace(tiny_model("bert"), fingerprint="another"), DIGEST, 0),
        (query, replace(tiny_model("bert"), details={**tiny_model("bert").details, "dtype": "float16"}), DIGEST, 0),
    ]
    for number, (asked, model, digest, seed) in enumerate(runs, start=1):
        counted = Counted(model)
        answer(Question(space, asked), counted.model, digest, ScoreSettings(56, seed, cache=tmp_path), "test")
        assert counted.calls > 0
        assert len(list(tmp_path.iterdir())) == number


def test_names_and_batch_sizes_share_an_entry(tiny_model, tmp_path):
    disco(tiny_model("bert"), limit=56, cache=tmp_path)
    counted = Counted(replace(tiny_model("bert"), name="renamed", spec="elsewhere"))
    disco(counted.model, limit=56, cache=tmp_path, batch_tokens=77)
    assert counted.calls == 0


def truncate(content):
    return content[: len(content) // 2]


def flip(content):
    return content[:-1] + bytes([content[-1] ^ 1])


def forge(content):
    """A sound checksum over an array of the wrong shape."""
    import hashlib
    import io

    buffer = io.BytesIO()
    np.save(buffer, np.zeros((2, 2), dtype=np.int32))
    return hashlib.sha256(buffer.getvalue()).digest() + buffer.getvalue()


@pytest.mark.parametrize(
    "damage",
    [truncate, flip, forge, lambda c: b"", lambda c: b"rubbish" * 20],
    ids=["half", "bit", "shape", "empty", "rubbish"],
)
def test_a_damaged_entry_is_recomputed(tiny_model, tmp_path, small_windows, damage):
    expected, _ = disco(tiny_model("bert"), limit=280, cache=tmp_path)
    for path in files(tmp_path)[1:2]:
        path.write_bytes(damage(path.read_bytes()))
    counted = Counted(tiny_model("bert"))
    found, _ = disco(counted.model, limit=280, cache=tmp_path)
    assert np.array_equal(found.values, expected.values)
    assert counted.calls > 0
    again = Counted(tiny_model("bert"))
    disco(again.model, limit=280, cache=tmp_path)
    assert again.calls == 0  # mended


@pytest.mark.parametrize("value", [-1, VOCABULARY * 10])
def test_ids_beyond_the_vocabulary_are_not_taken_from_the_cache(tiny_model, tmp_path, value):
    import hashlib
    import io

    expected, _ = disco(tiny_model("bert"), limit=56, cache=tmp_path)
    buffer = io.BytesIO()
    np.save(buffer, np.full(expected.values.shape, value, dtype=np.int32))
    (path,) = files(tmp_path)
    path.write_bytes(hashlib.sha256(buffer.getvalue()).digest() + buffer.getvalue())
    found, _ = disco(tiny_model("bert"), limit=56, cache=tmp_path)
    assert np.array_equal(found.values, expected.values)


def test_numbers_that_are_not_finite_are_not_taken_from_the_cache(tiny_model, tmp_path):
    import hashlib
    import io

    space, query = suite_space("lm-occupation")
    settings = ScoreSettings(limit=80, cache=tmp_path)
    expected, _ = answer(Question(space, query), tiny_model("gpt2"), "0" * 64, settings, "test")
    (path,) = files(tmp_path)
    buffer = io.BytesIO()
    np.save(buffer, np.full(expected.values.shape, np.nan))
    path.write_bytes(hashlib.sha256(buffer.getvalue()).digest() + buffer.getvalue())
    found, _ = answer(Question(space, query), tiny_model("gpt2"), "0" * 64, settings, "test")
    assert np.array_equal(found.values, expected.values)


def test_a_pickle_in_the_cache_is_never_loaded(tiny_model, tmp_path):
    import hashlib
    import io

    expected, _ = disco(tiny_model("bert"), limit=56, cache=tmp_path)
    buffer = io.BytesIO()
    np.save(buffer, np.full(expected.values.shape, Spy()), allow_pickle=True)
    (path,) = files(tmp_path)
    path.write_bytes(hashlib.sha256(buffer.getvalue()).digest() + buffer.getvalue())
    found, _ = disco(tiny_model("bert"), limit=56, cache=tmp_path)
    assert np.array_equal(found.values, expected.values)
    assert not Spy.loaded


class Spy:
    loaded = False

    def __reduce__(self):
        return setattr, (Spy, "loaded", True)


def test_strange_files_in_the_cache_do_no_harm(tiny_model, tmp_path):
    expected, _ = disco(tiny_model("bert"), limit=56, cache=tmp_path)
    (path,) = files(tmp_path)
    for name in ("x.npy", "1-2-3.npy", "-.npy", "0000000000-0000000009.npy", "0000000009-0000000002.npy"):
        (path.parent / name).write_bytes(b"x")
    (path.parent / "0000000000-0000000003.npy").mkdir()
    counted = Counted(tiny_model("bert"))
    found, _ = disco(counted.model, limit=56, cache=tmp_path)
    assert counted.calls == 0
    assert np.array_equal(found.values, expected.values)


def test_entries_of_another_version_are_not_used(tiny_model, tmp_path, monkeypatch):
    disco(tiny_model("bert"), limit=56, cache=tmp_path)
    monkeypatch.setattr(store, "SCORING_VERSION", store.SCORING_VERSION + 1)
    counted = Counted(tiny_model("bert"))
    disco(counted.model, limit=56, cache=tmp_path)
    assert counted.calls > 0


def test_a_cache_folder_that_cannot_be_made_is_noted(tiny_model, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    found, notes = disco(tiny_model("bert"), limit=56, cache=tmp_path / "file" / "cache")
    assert np.array_equal(found.values, disco(tiny_model("bert"), limit=56)[0].values)
    assert [note for note in notes if "not cached" in note]


def test_a_disk_that_is_full_is_noted(tiny_model, tmp_path, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "write_whole", full)
    found, notes = disco(tiny_model("bert"), limit=56, cache=tmp_path)
    assert np.array_equal(found.values, disco(tiny_model("bert"), limit=56)[0].values)
    assert any("No space left" in note for note in notes)


def test_no_temporary_file_is_left(tiny_model, tmp_path, small_windows):
    disco(tiny_model("bert"), limit=280, cache=tmp_path)
    assert {path.name for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".npy"} <= {
        ".lock",
        "about.json",
    }


def test_a_model_without_fingerprint_is_not_cached(tiny_model, tmp_path):
    disco(replace(tiny_model("bert"), fingerprint=None), limit=56, cache=tmp_path)
    assert list(tmp_path.iterdir()) == []


class Interrupting:
    """A progress that stops the run after some cases, as Ctrl-C does."""

    def __init__(self, after):
        self.after, self.seen = after, 0

    def __call__(self, label, total, done):
        from contextlib import nullcontext

        self.total, self.done = total, done
        return nullcontext(self.advance)

    def advance(self, count):
        self.seen += count
        if self.seen >= self.after:
            raise KeyboardInterrupt


@pytest.mark.parametrize("keep_every", [-1.0, 1e9], ids=["kept at once", "kept at the end"])
def test_an_interrupted_run_goes_on_where_it_stopped(tiny_model, tmp_path, small_windows, monkeypatch, keep_every):
    monkeypatch.setattr(engine, "_KEEP_EVERY", keep_every)
    uninterrupted = Counted(tiny_model("bert"))
    expected, _ = disco(uninterrupted.model, limit=560)
    with pytest.raises(KeyboardInterrupt):
        disco(tiny_model("bert"), limit=560, cache=tmp_path, progress=Interrupting(250))
    assert files(tmp_path)
    counted, progress = Counted(tiny_model("bert")), Interrupting(10**9)
    found, _ = disco(counted.model, limit=560, cache=tmp_path, progress=progress)
    assert np.array_equal(found.values, expected.values)
    assert progress.total == 560
    assert progress.done >= 224
    assert progress.seen == 560 - progress.done
    assert 0 < counted.rows < uninterrupted.rows


def test_an_error_in_the_network_keeps_what_was_scored(tiny_model, tmp_path, small_windows):
    def fail(rows, ids):
        if failing.rows > 200:
            raise RuntimeError("the machine is on fire")

    failing = Counted(tiny_model("bert"), fail)
    with pytest.raises(RuntimeError, match="on fire"):
        disco(failing.model, limit=560, cache=tmp_path)
    progress = Interrupting(10**9)
    found, _ = disco(tiny_model("bert"), limit=560, cache=tmp_path, progress=progress)
    assert progress.done > 0
    assert np.array_equal(found.values, disco(tiny_model("bert"), limit=560)[0].values)


def test_progress_counts_every_case(tiny_model, small_windows):
    progress = Interrupting(10**9)
    disco(tiny_model("bert"), limit=280, progress=progress)
    assert (progress.total, progress.done, progress.seen) == (280, 0, 280)


SECOND_PROCESS = """
import json, sys, time
from pathlib import Path
import numpy as np
from pytest_genderbias.measurement.runner import measure
from pytest_genderbias.models.objects import wrap_object
from pytest_genderbias.scoring.engine import ScoreSettings, answer
from pytest_genderbias.suites.family import Context, resolve_options
from pytest_genderbias.suites.suite import load_suite

class Slow:
    fingerprint = "slow"
    calls = 0
    def continuation_log_probs(self, prefixes, continuations):
        Slow.calls += 1
        Path(sys.argv[2], "started").touch()
        time.sleep(2)
        return -np.asarray([len(p) + len(c) for p, c in zip(prefixes, continuations)], dtype=float)

suite = load_suite("lm-occupation")
options = resolve_options(suite.family.options, suite.defaults, suite.name)
asked = suite.family.questions(suite.body, options, Context("causal-lm"))["cases"]
Path(sys.argv[2], f"ready-{sys.argv[3]}").touch()
while not Path(sys.argv[2], "go").exists():
    time.sleep(0.01)
settings = ScoreSettings(cache=Path(sys.argv[1]))
scores, _ = answer(asked, wrap_object(Slow()), "0" * 64, settings, "test")
print(json.dumps([Slow.calls, float(scores.values.sum())]))
"""


def test_a_second_process_waits_for_the_scores_of_the_first(tmp_path):
    import time

    cache, signs = tmp_path / "cache", tmp_path / "signs"
    signs.mkdir()
    command = [sys.executable, "-c", SECOND_PROCESS, str(cache), str(signs)]
    both = [subprocess.Popen([*command, str(i)], stdout=subprocess.PIPE, text=True, env=os.environ) for i in range(2)]
    until = time.monotonic() + 60
    while time.monotonic() < until and len(list(signs.glob("ready-*"))) < 2:
        time.sleep(0.02)
    (signs / "go").touch()
    (calls_a, sum_a), (calls_b, sum_b) = (json.loads(p.communicate(timeout=60)[0].splitlines()[-1]) for p in both)
    assert sorted([calls_a, calls_b]) == [0, 3], (
        "one call for all cases, and two for the few that are asked about twice"
    )
    assert sum_a == sum_b


# Objects of one's own


class Letters:
    """Scores a fill by the letters of the sentence."""

    mask_token = "___"
    vocabulary = ("a", "b", "c", "d")

    def fill_scores(self, texts):
        return np.asarray([[text.count(letter) for letter in self.vocabulary] for text in texts], dtype=float)


def test_an_object_is_scored_through_strings():
    space = small_space(("Abba", "Cc", "Dddb"), ("{person} {blank}",))
    found, _ = run(space, TopFills(2), wrap_object(Letters()))
    assert found.values[np.argsort(found.units), 0].tolist() == [[1, 0], [2, 0], [3, 1]]
    assert found.vocabulary == {0: "a", 1: "b", 2: "c", 3: "d"}


def test_an_object_that_gives_nan_is_refused_with_its_case():
    class Bad(Letters):
        def fill_scores(self, texts):
            return np.where([["Bob" in text] * 4 for text in texts], np.nan, 1.0)

    with pytest.raises(ScoreError, match="Bob likes"):
        make_scorer(small_space(), TopFills(2), wrap_object(Bad()), None).score(np.arange(10))


def test_more_fills_than_the_vocabulary_has_are_refused(tiny_model):
    with pytest.raises(SettingError, match=r"top_k is 100000, the vocabulary of .* has"):
        measure("disco-names", tiny_model("bert"), top_k=100_000, limit=28, cache=None)


# Shortcuts at the lengths of a suite


def test_a_network_that_attends_to_near_tokens_only_has_the_scores_of_single_rows():
    words = tokenizer("bert")
    torch.manual_seed(0)
    config = LongformerConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        attention_window=[8, 8],
        max_position_embeddings=130,
        type_vocab_size=2,
        initializer_range=0.4,
        pad_token_id=words.pad_token_id,
    )
    model = load_model(LongformerForMaskedLM(config).eval(), tokenizer=words, name="m")
    space, query = suite_space("lm-occupation")
    cases = np.random.default_rng(0).integers(space.n_cases, size=40)
    usual, one = (make_scorer(space, query, model, tokens).score(cases) for tokens in (None, 1))
    np.testing.assert_allclose(usual, one, rtol=1e-4, atol=1e-4)


class FarNeighbours(torch.nn.Module):
    """A vocabulary head that looks at the position before in some rows only: those of one length."""

    def __init__(self, head, length):
        super().__init__()
        self.head, self.length = head, length

    def forward(self, hidden):
        return self.head(hidden + torch.roll(hidden, 1, dims=1) * (hidden.shape[1] == self.length))


@pytest.mark.parametrize("scale", [1.0, 1e-12])
def test_a_head_that_looks_at_neighbours_at_one_length_is_scored_right(scale):
    space, query = suite_space("lm-occupation")
    cases = sample(space, 60)
    plain = changed("bert", lambda network: None)
    lengths = TokenLayout(space, RowEncoder(plain.backend.tokenizer), query.slot).rows(cases).lengths
    usual = int(np.bincount(lengths).argmax())

    def change(network):
        network.cls = FarNeighbours(network.cls, usual)
        with torch.no_grad():
            network.cls.head.predictions.decoder.weight.mul_(scale)

    model = changed("bert", change)
    together = make_scorer(space, query, model, None).score(cases)
    alone = make_scorer(space, query, model, 1).score(cases)
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-4)
    assert scale != 1.0 or not np.allclose(together, make_scorer(space, query, plain, None).score(cases), rtol=1e-3)
