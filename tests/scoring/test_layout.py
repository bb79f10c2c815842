"""Token ids put together by array are the tokenizer's own, for tokenizers of every usual kind; or the layout falls
back.
"""

import copy
from functools import cache

import numpy as np
import pytest
import transformers
from support.tiny_checkpoints import BERT_SPECIALS, corpus, make_network, suite_space, tokenizer
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import ModelError
from pytest_genderbias.scoring.tokens import RowEncoder, TokenLayout
from pytest_genderbias.suites.space import TEMPLATE, Axis, CaseSpace, Template
from pytest_genderbias.text.template import Word, parse_template

MASKED = ("bert", "mpnet", "roberta", "xlm-roberta", "albert", "deberta-v2", "modernbert")
CAUSAL = ("gpt2", "llama")
ALL = (*MASKED, *CAUSAL)
CASES = 250


@cache
def layout_of(kind, suite, scored=None, **options):
    space, _ = suite_space(suite, **options)
    return TokenLayout(space, RowEncoder(tokenizer(kind)), scored)


def expected(tokens, texts):
    """Return ids and types of each sentence or pair, one call each."""
    outputs = [tokens(*text) for text in texts]
    return [o["input_ids"] for o in outputs], [o.get("token_type_ids") for o in outputs]


def assert_same_rows(layout, tokens, cases):
    rows = layout.rows(cases)
    texts = layout.space.sentences(cases, tokens.mask_token or "")
    ids, types = expected(tokens, texts)
    pad = tokens.pad_token_id if tokens.pad_token_id is not None else 0
    for i, text in enumerate(texts):
        n = rows.lengths[i]
        assert rows.ids[i, :n].tolist() == ids[i], text
        assert (rows.ids[i, n:] == pad).all(), text
        if types[i] is not None:
            assert rows.types[i, :n].tolist() == types[i], text
        else:
            assert rows.types is None
    return rows, texts


def random_cases(space, n=CASES, seed=1):
    return np.random.default_rng(seed).integers(space.n_cases, size=n)


@pytest.mark.parametrize("kind", MASKED)
@pytest.mark.parametrize("suite", ["disco-names", "disco-terms"])
def test_fill_sentences(kind, suite):
    layout = layout_of(kind, suite)
    assert layout.note is None
    rows, _ = assert_same_rows(layout, tokenizer(kind), random_cases(layout.space))
    assert ((rows.ids == tokenizer(kind).mask_token_id).sum(axis=1) == 1).all()


@pytest.mark.parametrize("kind", MASKED)
@pytest.mark.parametrize("suite", ["nli-occupation", "nli-demonym", "nli-religion"])
def test_pairs(kind, suite):
    layout = layout_of(kind, suite)
    assert layout.note is None
    assert_same_rows(layout, tokenizer(kind), random_cases(layout.space))


def test_pairs_have_both_token_types():
    layout = layout_of("bert", "nli-occupation")
    rows = layout.rows(np.arange(4))
    assert sorted(set(rows.types.ravel().tolist())) == [0, 1]


@pytest.mark.parametrize(
    "options",
    [{"combine": "crossed"}, {"as_printed": True}, {"templates": "both"}],
    ids=["crossed", "as_printed", "paraphrases"],
)
def test_options_that_change_words_or_combinations(options):
    layout = layout_of("bert", "nli-religion", **options)
    assert layout.note is None
    assert_same_rows(layout, tokenizer("bert"), random_cases(layout.space))


@pytest.mark.parametrize("kind", ["bert", "roberta", "albert"])
def test_paraphrases_with_the_blank_in_any_place(kind):
    layout = layout_of(kind, "disco-terms", templates="paraphrases")
    assert layout.note is None
    assert_same_rows(layout, tokenizer(kind), random_cases(layout.space))


@pytest.mark.parametrize("kind", ALL)
def test_occupations_with_their_spans(kind):
    layout = layout_of(kind, "lm-occupation", "occupation")
    assert layout.note is None
    cases = np.arange(layout.space.n_cases)
    rows, texts = assert_same_rows(layout, tokenizer(kind), cases)
    columns = layout.space.columns(cases)
    words = layout.space.words["occupation"]
    for i, (text,) in enumerate(texts):
        word = words[columns["occupation"][i]].text
        offsets = tokenizer(kind)(text, return_offsets_mapping=True)["offset_mapping"]
        # The space before the word is the word's: P(" nurse" | "He is a").
        inside = [t for t, (_, stop) in enumerate(offsets) if stop > len(text) - len(word) - 1]
        assert [rows.span_start[i], rows.span_length[i]] == [inside[0], len(inside)], text


@pytest.mark.parametrize("kind", ["bert", "roberta", "llama"])
def test_decoding_the_span_gives_the_word(kind):
    layout = layout_of(kind, "lm-occupation", "occupation")
    columns = layout.space.columns(np.arange(layout.space.n_cases))
    rows = layout.rows(np.arange(layout.space.n_cases))
    for i in range(0, layout.space.n_cases, 7):
        span = rows.ids[i, rows.span_start[i] : rows.span_start[i] + rows.span_length[i]]
        word = layout.space.word_of({"occupation": columns["occupation"][i]}, "occupation")
        assert tokenizer(kind).decode(span).replace(" ", "") == word.replace(" ", "")


def test_rows_do_not_depend_on_the_order_or_number_of_cases():
    layout = layout_of("roberta", "disco-terms")
    cases = random_cases(layout.space, 100)
    together = layout.rows(cases)
    for i in (0, 17, 99):
        alone = layout.rows(cases[i : i + 1])
        assert alone.ids[0, : alone.lengths[0]].tolist() == together.ids[i, : together.lengths[i]].tolist()


def own_space(templates, words):
    """Return the space of all choices of words and templates."""
    parsed = tuple(
        Template(tuple(parse_template(text) for text in ([t] if isinstance(t, str) else t))) for t in templates
    )
    fillers = {slot: tuple(Word.of(w) if isinstance(w, str) else w for w in ws) for slot, ws in words.items()}
    axes = [Axis.whole(slot, len(ws)) for slot, ws in fillers.items()]
    return CaseSpace(parsed, fillers, (*axes, Axis.whole(TEMPLATE, len(parsed))), 1)


ODD_WORDS = (
    "Zoë", "O'Brien", "mother-in-law", "SUV", "naïve café", "d'Artagnan", "x", "3rd", "Jean  Luc", "passer-by",
    "München", "李雷", "Mr.",
    Word("headphones", "", "headphones"),
)  # fmt: skip


@pytest.mark.parametrize("kind", ALL)
def test_odd_words_and_templates_of_ones_own(kind):
    mask = " {blank}" if kind in MASKED else ""
    space = own_space(
        [
            "{who} met {a:what} {what}" + mask + "!",
            "Did {a:what} {what} (the {who}'s) win" + mask + "?",
            "“{what}”, said {who}" + mask,
        ],
        {"who": ODD_WORDS[:9], "what": ODD_WORDS},
    )
    layout = TokenLayout(space, RowEncoder(tokenizer(kind)))
    assert_same_rows(layout, tokenizer(kind), np.arange(space.n_cases))


@pytest.mark.parametrize("kind", ALL)
def test_odd_pairs_of_ones_own(kind):
    space = own_space(
        [("{who} had {a:what} {what}.", "{a:what} {what} was {who}'s"), ("{who}", "{what}")],
        {"who": ODD_WORDS[:9], "what": ODD_WORDS},
    )
    layout = TokenLayout(space, RowEncoder(tokenizer(kind)))
    assert_same_rows(layout, tokenizer(kind), np.arange(space.n_cases))


def test_words_that_are_read_by_array_show_no_note_for_most_odd_words():
    space = own_space(["{who} met {a:what} {what} {blank}."], {"who": ODD_WORDS[:6], "what": ODD_WORDS})
    assert TokenLayout(space, RowEncoder(tokenizer("bert"))).note is None


def fast(backend, **specials):
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **specials)


@cache
def merging_across_words():
    """A BPE without a pre-tokenizer: its tokens hold ends and beginnings of neighbouring words."""
    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=["<unk>", "<mask>"])
    backend.train_from_iterator(corpus()[:800], trainer)
    return fast(backend, unk_token="<unk>", mask_token="<mask>")


@cache
def without_spaces():
    """A normalizer that takes the spaces away, so that words run together."""
    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    backend.normalizer = normalizers.Replace(" ", "")
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=["<unk>", "<mask>"])
    backend.train_from_iterator(corpus()[:800], trainer)
    return fast(backend, unk_token="<unk>", mask_token="<mask>")


@cache
def two_words_at_a_time():
    """A pre-tokenizer that cuts the sentence into pairs of words, a token each: no word has tokens of its own."""
    backend = Tokenizer(models.WordLevel(unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"\S+ \S+ ?"), behavior="isolated")
    trainer = trainers.WordLevelTrainer(vocab_size=5000, special_tokens=["<unk>", "<mask>"])
    backend.train_from_iterator(corpus(), trainer)
    return fast(backend, unk_token="<unk>", mask_token="<mask>")


@pytest.mark.parametrize("make", [merging_across_words, without_spaces, two_words_at_a_time])
@pytest.mark.parametrize("suite", ["nli-occupation", "disco-names"])
def test_tokenizers_that_merge_words_fall_back_with_a_note(make, suite):
    space, _ = suite_space(suite)
    layout = TokenLayout(space, RowEncoder(make()))
    assert layout.note is not None
    assert "sentence by sentence" in layout.note
    assert_same_rows(layout, make(), random_cases(space, 100))


@pytest.mark.parametrize("make", [merging_across_words, without_spaces, two_words_at_a_time])
def test_spans_after_falling_back_end_with_the_sentence(make):
    space, _ = suite_space("lm-occupation")
    layout = TokenLayout(space, RowEncoder(make()), "occupation")
    rows, _ = assert_same_rows(layout, make(), np.arange(space.n_cases))
    if layout.note is not None:
        assert (rows.span_start + rows.span_length == rows.lengths).all()
        assert (rows.span_length > 0).all()


def test_the_note_names_a_sentence():
    space, _ = suite_space("nli-occupation")
    layout = TokenLayout(space, RowEncoder(merging_across_words()))
    assert "The " in layout.note or "do not follow" in layout.note


@cache
def slow_bert(folder):
    from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

    vocab = tokenizer("bert").get_vocab()
    path = folder / "vocab.txt"
    path.write_text("\n".join(sorted(vocab, key=vocab.get)), encoding="utf-8")
    return BertTokenizerLegacy(str(path), model_input_names=["input_ids", "token_type_ids", "attention_mask"])


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A tokenizer written in Python: it gives no offsets."""
    made = slow_bert(tmp_path_factory.mktemp("slow"))
    assert not made.is_fast
    return made


@pytest.mark.parametrize("suite", ["disco-names", "nli-occupation", "lm-occupation"])
def test_a_slow_tokenizer_falls_back_and_gives_the_same_as_the_fast_one(slow, suite):
    space, _ = suite_space(suite)
    scored = "occupation" if suite == "lm-occupation" else None
    layout = TokenLayout(space, RowEncoder(slow), scored)
    assert "no offsets" in layout.note
    cases = random_cases(space, 100)
    rows, _ = assert_same_rows(layout, slow, cases)
    quick = layout_of("bert", suite, *([scored] if scored else [])).rows(cases)
    assert np.array_equal(rows.ids, quick.ids)
    assert np.array_equal(rows.types, quick.types)
    assert np.array_equal(rows.span_start, quick.span_start)
    assert np.array_equal(rows.span_length, quick.span_length)


def test_padding_and_truncation_that_the_tokenizer_was_saved_with_do_not_matter():
    """Real checkpoints often carry a truncation or padding rule in tokenizer.json."""
    backend = Tokenizer.from_str(tokenizer("bert").backend_tokenizer.to_str())
    backend.enable_truncation(6)
    backend.enable_padding(length=12)
    specials = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), BERT_SPECIALS, strict=True))
    odd = fast(backend, **specials, model_input_names=["input_ids", "token_type_ids", "attention_mask"])
    space, _ = suite_space("nli-occupation")
    cases = random_cases(space, 50)
    rows = TokenLayout(space, RowEncoder(odd)).rows(cases)
    usual = layout_of("bert", "nli-occupation").rows(cases)
    assert np.array_equal(rows.ids, usual.ids)
    assert np.array_equal(rows.lengths, usual.lengths)


def test_a_mask_that_swallows_the_space_before_it():
    tokens = tokenizer("roberta")
    assert tokens("x <mask>")["input_ids"] == tokens("x<mask>")["input_ids"]
    layout = layout_of("roberta", "disco-names")
    assert layout.note is None


def test_a_mask_that_keeps_the_space_before_it():
    vocab, merges = tokenizer("roberta").get_vocab(), []
    keeps = transformers.RobertaTokenizer(vocab=vocab, merges=merges, mask_token=AddedToken("<mask>", special=True))
    space, _ = suite_space("disco-names")
    layout = TokenLayout(space, RowEncoder(keeps))
    assert layout.note is None
    assert_same_rows(layout, keeps, random_cases(space, 100))


@pytest.mark.parametrize("suite", ["disco-names", "disco-terms"])
def test_real_masked_lm_tokenizer(real_mlm, suite):
    space, _ = suite_space(suite)
    tokens = real_mlm.backend.tokenizer
    layout = TokenLayout(space, RowEncoder(tokens))
    assert layout.note is None
    assert_same_rows(layout, tokens, random_cases(space, 500))


def test_real_causal_lm_tokenizer(real_lm):
    space, _ = suite_space("lm-occupation")
    tokens = real_lm.backend.tokenizer
    layout = TokenLayout(space, RowEncoder(tokens), "occupation")
    assert layout.note is None
    assert_same_rows(layout, tokens, np.arange(space.n_cases))


@pytest.mark.parametrize("suite", ["nli-occupation", "nli-demonym", "nli-religion"])
def test_real_classifier_tokenizer(real_nli, suite):
    space, _ = suite_space(suite)
    tokens = real_nli.backend.tokenizer
    layout = TokenLayout(space, RowEncoder(tokens))
    assert layout.note is None
    assert_same_rows(layout, tokens, random_cases(space, 1000))


def test_a_token_that_the_network_does_not_embed_is_one_error():
    network, words = make_network("bert-nli"), copy.deepcopy(tokenizer("bert"))
    words.add_tokens(["erson"])  # of every "person"
    largest = []
    network.register_forward_pre_hook(
        lambda module, args, kwargs: largest.append(int(kwargs["input_ids"].max())), with_kwargs=True
    )
    with pytest.raises(ModelError, match="no embedding for a token of its tokenizer"):
        measure("nli-religion", load_model(network, tokenizer=words), limit=4, cache=None)
    rows = network.get_input_embeddings().num_embeddings
    assert max(largest) < rows, "on a GPU one pass with such a token spoils every later one of the process"
