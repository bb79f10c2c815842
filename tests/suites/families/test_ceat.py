"""ceat: contexts as they stand in a corpus, the draw of them, figures against plain passes, controls, and what is
missing.
"""

import gzip
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cosine
from scipy.stats import norm as normal

from pytest_genderbias import load_model, load_suite, measure
from pytest_genderbias.datasets.corpora import draw_contexts, read_sentences
from pytest_genderbias.datasets.folder import MissingDataError
from pytest_genderbias.errors import DataFileError, NotApplicableError, SettingError, UndefinedError
from pytest_genderbias.gates.comparison import judge_against
from pytest_genderbias.statistics.association import ceat, permutation_test, shuffled_combined_effects
from pytest_genderbias.suites.cases import Answer, TextCases
from pytest_genderbias.suites.family import resolve_options

# Sentences


def corpus(folder, text, name="own.txt"):
    path = Path(folder, name)
    path.write_text(text, encoding="utf-8")
    return path


def test_sentences_of_running_text(tmp_path):
    text = """= A title =
Mr. Smith met J. Doe in the U.S. Navy. "Why?" asked
he. It was 3.5 miles! Then

A new paragraph without an end
=== 1945-Truman ===
Yes. no. No.
"""
    assert [sentence for _, sentence in read_sentences(corpus(tmp_path, text))] == [
        "Mr. Smith met J. Doe in the U.S. Navy.",
        '"Why?" asked he.',
        "It was 3.5 miles!",
        "Then",
        "A new paragraph without an end",
        "Yes. no.",
        "No.",
    ]


def test_sentences_of_documents_and_of_a_folder(tmp_path):
    rows = [{"sentences": ["He sings .", ["She", "sings", "."]]}, {"text": "One here. Two\nthere."}]
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.write("\n".join(map(json.dumps, rows)))
    corpus(tmp_path, "Last.", "b.txt")
    assert list(read_sentences(tmp_path)) == [
        (0, "He sings ."),
        (0, "She sings ."),
        (1, "One here."),
        (1, "Two there."),
        (2, "Last."),
    ]
    with pytest.raises(DataFileError, match=r"c\.jsonl:1: expected a document with 'text'"):
        list(read_sentences(corpus(tmp_path, '{"words": 3}', "c.jsonl")))


# Contexts


def texts_of(found):
    return [text for text, _ in found]


def test_a_word_is_whole_and_has_its_capitals(tmp_path):
    text = "A bill. Bills. Bill-like. Billy. e-Bill. Bill's hat. (Bill) Bill, Bill!"
    found = draw_contexts(corpus(tmp_path, text.replace(". ", ".\n\n")), ["Bill", "bill"])
    assert texts_of(found["Bill"]) == ["Bill's hat.", "(Bill) Bill, Bill!"]
    assert texts_of(found["bill"]) == ["A bill."]
    assert found["Bill"][1][1] == (1, 5)


def test_longer_words_go_before_shorter_ones_that_they_hold(tmp_path):
    path = corpus(tmp_path, "No human\nbeing is here. A human is.")
    found = draw_contexts(path, ["human", "human being"])
    assert texts_of(found["human being"]) == ["No human being is here."]
    assert texts_of(found["human"]) == ["A human is."]


@pytest.mark.parametrize(
    ("word", "window", "expected"),
    [
        ("five", 3, "four, five six"),
        ("five", 4, "four, five six seven"),
        ("five", 1, "five"),
        ("five", 99, "One two three four, five six seven eight nine."),
        ("One", 3, "One two three"),
        ("nine", 3, "seven eight nine."),
        ("eight", 5, "five six seven eight nine."),
        ("five six", 1, "five six"),
        ("five six", 4, "four, five six seven"),
    ],
)
def test_windows(tmp_path, word, window, expected):
    path = corpus(tmp_path, "One two three four, five six seven eight nine.")
    [(text, (start, stop))] = draw_contexts(path, [word], window=window)[word]
    assert text == expected
    assert text[start:stop] == word


@given(
    words=st.lists(st.sampled_from(["a", "Bill", "mid-day", "it's", "x9"]), min_size=1, max_size=12),
    marks=st.lists(st.sampled_from([" ", ", ", " (", ") ", " -- "]), min_size=12, max_size=12),
    at=st.integers(0, 11),
    window=st.integers(1, 14),
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_a_window_is_a_piece_of_the_sentence_with_the_word_in_it(tmp_path, words, marks, at, window):
    words[at % len(words)] = "nurse"
    sentence = "".join(word + mark for word, mark in zip(words, marks, strict=False)).strip()
    [(text, (start, stop))] = draw_contexts(corpus(tmp_path, sentence), ["nurse"], window=window)["nurse"]
    assert text in sentence
    assert text[start:stop] == "nurse"
    kept = [word.strip(",()") for word in text.split()]
    assert len([word for word in kept if word and word != "--"]) == min(window, len(words))


def test_contexts_are_drawn_evenly_from_all_and_can_be_repeated(tmp_path):
    path = corpus(tmp_path, "\n\n".join(f"The nurse {i}." for i in range(40)))
    counts = Counter()
    for seed in range(300):
        found = draw_contexts(path, ["nurse"], most=10, seed=seed)["nurse"]
        assert len(set(texts_of(found))) == 10
        counts.update(texts_of(found))
    assert len(counts) == 40
    assert max(abs(count - 75) for count in counts.values()) < 4.5 * np.sqrt(75 * 0.75)
    one = draw_contexts(path, ["nurse"], most=10, seed=3)
    other = draw_contexts(path, ["The", "nurse", "pilot"], most=10, seed=3)
    assert one["nurse"] == other["nurse"]
    assert other["pilot"] == []


# The suite

WORDS = {
    "X": ["nurse", "teacher"],
    "Y": ["engineer", "driver", "pilot"],
    "A": ["she", "her"],
    "B": ["he", "him"],
    "N": ["person"],
}
TEXT = """The nurse said that she was tired. A teacher talked to her. Then the engineer said that he was late.
The driver saw him. The pilot ate lunch. A nurse saw the pilot. No teacher was late. The person was there.
She said that he was here. It was she. The driver knew her. The engineer talked to him about lunch.
"""


def suite_file(folder):
    entries = [{"word": word, "class": name} for name, members in WORDS.items() for word in members]
    head = {"title": "t", "source": "s", "licence": "l", "language": "en"}
    Path(folder, "things.yaml").write_text(yaml.safe_dump({"list": "things", **head, "entries": entries}))
    sets = {name: {"list": "things.yaml", "where": {"class": name}} for name in WORDS}
    content = {
        "suite": "mine",
        "family": "ceat",
        **head,
        "targets": {"care": sets["X"], "work": sets["Y"]},
        "attributes": {"women": sets["A"], "men": sets["B"]},
        "others": {"any": sets["N"]},
    }
    path = Path(folder, "mine.yaml")
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def plain_contexts(model, path, words):
    """Return the vectors of each word in its contexts, one forward pass a context."""
    found = {}
    for word, contexts in draw_contexts(path, words).items():
        for text, (start, stop) in contexts:
            encoded = model.backend.tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
            offsets = encoded.pop("offset_mapping")[0].tolist()
            own = [i for i, (a, b) in enumerate(offsets) if a < stop and b > start and b > a]
            encoded.pop("token_type_ids", None)
            with torch.no_grad():
                states = model.backend.network.base_model(**encoded).last_hidden_state
            found.setdefault(word, []).append(states[0, own].mean(0).numpy())
    return found


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2"])
def test_figures_are_those_of_plain_passes(tiny_model, tmp_path, kind):
    model, path = tiny_model(kind), corpus(tmp_path, TEXT)
    vectors = plain_contexts(model, path, [word for words in WORDS.values() for word in words])
    sets = [[np.asarray(vectors[word]) for word in WORDS[role]] for role in "XYAB"]
    found = measure(suite_file(tmp_path), model, cache=None, corpus=str(path), draws=500, seed=5)
    expected = ceat(*sets, draws=500, seed=5)
    assert found.value == pytest.approx(expected.effect, abs=1e-3)
    assert found.values["p_value"] == pytest.approx(expected.p_value, abs=1e-3)
    assert found.n == found.n_total == sum(map(len, vectors.values()))
    assert found.interval is None
    by_word = {record["word"]: record for record in found.records}
    for word, mean in zip([*WORDS["X"], *WORDS["Y"]], expected.associations, strict=True):
        assert by_word[word]["association"] == pytest.approx(mean, abs=1e-4)
        assert by_word[word]["contexts"] == len(vectors[word])
    near, far = (
        np.mean([np.mean([1 - cosine(w, v) for w in vectors["person"] for v in vectors[word]]) for word in WORDS[role]])
        for role in "AB"
    )
    assert by_word["person"]["association"] == pytest.approx(near - far, abs=1e-4)


def test_one_context_a_word_makes_it_weat(tiny_model, tmp_path):
    model, path = tiny_model("bert"), corpus(tmp_path, TEXT)
    vectors = plain_contexts(model, path, [word for words in WORDS.values() for word in words])
    found = measure(suite_file(tmp_path), model, cache=None, corpus=str(path), contexts=1, draws=50)
    again = measure(suite_file(tmp_path), model, cache=None, corpus=str(path), contexts=1, draws=50, contexts_seed=9)
    assert found.n == again.n == 10
    assert found.value != again.value
    for one, seed in ((found, 0), (again, 9)):  # exact for these draws, and no others
        whole = one.bounds["combined_effect_size"]
        assert (
            whole.over
            == f"the suite's cases, all of them, with seed 0 for the draws of contexts (contexts_seed {seed})"
        )
        no_worse = judge_against(one, one, statistic="combined_effect_size", margin=0.0)  # no items are known of it
        assert (no_worse.code, no_worse.over) == ("within", whole.over)
    drawn = draw_contexts(path, list(vectors), most=1)
    whole = draw_contexts(path, list(vectors))
    one = {word: vectors[word][whole[word].index(drawn[word][0])] for word in vectors}
    s = {
        word: (
            np.mean([1 - cosine(one[word], one[a]) for a in WORDS["A"]])
            - np.mean([1 - cosine(one[word], one[b]) for b in WORDS["B"]])
        )
        for word in [*WORDS["X"], *WORDS["Y"]]
    }
    difference = np.mean([s[w] for w in WORDS["X"]]) - np.mean([s[w] for w in WORDS["Y"]])
    assert found.value == pytest.approx(difference / np.std(list(s.values()), ddof=1), abs=1e-3)


def test_both_p_values_and_what_is_said_of_them(tiny_model, tmp_path):
    path, model = corpus(tmp_path, TEXT), tiny_model("bert")
    few, many = (
        measure(suite_file(tmp_path), model, cache=None, corpus=str(path), draws=draws) for draws in (20, 2000)
    )
    errors = [  # p is that of the effect divided by its standard error, which shrinks with the number of draws
        abs(found.value) / normal.isf(found.values["p_value"] / 2) for found in (few, many)
    ]
    assert errors[1] < errors[0]
    s = [many.items["association"][many.items["set"] == label] for label in ("care", "work")]
    assert many.values["word_p_value"] == permutation_test(*s, two_sided=True)
    assert many.values["word_p_value"] >= 0.1  # of ten splits
    assert any("a mean over 2000 draws" in note and "word_p_value" in note for note in many.notes)
    assert any(note.startswith("mean association, women minus men: care ") for note in many.notes)
    one = measure(suite_file(tmp_path), model, cache=None, corpus=str(path), draws=2000, one_sided=True)
    assert one.value == many.value
    assert one.values["p_value"] == pytest.approx(
        many.values["p_value"] / 2 if many.value > 0 else 1 - many.values["p_value"] / 2
    )
    exchanged = measure(suite_file(tmp_path), model, cache=None, corpus=str(path), draws=200, exchanged=True)
    assert set(exchanged.items["set"]) == {"women", "men", "any"}


def test_words_without_a_context_are_left_out_and_named(tiny_model, tmp_path):
    path = corpus(tmp_path, TEXT.replace("pilot", "cat").replace(" her", " it"))
    found = measure(suite_file(tmp_path), tiny_model("bert"), cache=None, corpus=str(path), draws=50)
    assert found.notes[0] == "2 of 10 words left out, with no context: pilot (work); her (women)"
    assert found.value is not None
    assert {record["word"] for record in found.records} == {"nurse", "teacher", "engineer", "driver", "person"}
    path = corpus(tmp_path, "The nurse saw her. The pilot saw her.")
    found = measure(suite_file(tmp_path), tiny_model("bert"), cache=None, corpus=str(path), draws=50)
    assert set(found.values.values()) == {None}
    assert set(found.reasons.values()) == {"1 of 3 words of the set 'work' have a context; at least 2 are needed"}


def test_a_limit_samples_contexts(tiny_model, tmp_path):
    path = corpus(tmp_path, TEXT * 4)
    found = measure(suite_file(tmp_path), tiny_model("bert"), cache=None, corpus=str(path), draws=50, limit=60)
    assert found.n == 60
    there = draw_contexts(path, [word for words in WORDS.values() for word in words])
    assert found.n_total == sum(map(len, there.values())) > 60
    assert sum(record["contexts"] for record in found.records) < 60


def test_an_untrained_encoder_is_another_model(tiny_model, tmp_path):
    path, model = corpus(tmp_path, TEXT), tiny_model("bert")
    trained, control, again = (
        measure(suite_file(tmp_path), model, cache=None, corpus=str(path), draws=50, random_encoder=random)
        for random in (False, True, True)
    )
    assert trained.value != pytest.approx(control.value)
    assert control.value == again.value


# What is missing


def test_where_contexts_come_from(tiny_model, tmp_path):
    suite, model = load_suite(suite_file(tmp_path)), tiny_model("bert")

    def n(**settings):
        return measure(suite, model, cache=None, draws=10, **settings).n_total

    with pytest.raises(
        MissingDataError,
        match=r"mine: no Brown corpus: expected corpora/brown\.jsonl .*; WikiText-2, .* are missing, too",
    ):
        n()
    data = tmp_path / "data"
    (data / "corpora").mkdir(parents=True)
    (data / "wikitext2").mkdir()
    with pytest.raises(MissingDataError, match="corpus=PATH"):
        n(data=data)
    corpus(data / "corpora", TEXT + "A nurse.\n\nThe nurse.", "inaugural.txt")
    assert n(data=data) == n(corpus=str(data / "corpora"))
    corpus(data / "wikitext2", TEXT, "valid.txt")
    assert n(data=data) == n(data=data, corpus="wikitext2/valid") == n(data=data, corpus="inaugural") - 2
    (data / "corpora" / "brown.jsonl").write_text(json.dumps({"sentences": ["she met the nurse", "he met a pilot"]}))
    assert n(data=data) == 4
    with pytest.raises(MissingDataError, match="no War and Peace"):
        n(data=data, corpus="war_and_peace")


def test_the_name_of_a_corpus_is_not_a_folder_beside_it(tiny_model, tmp_path, monkeypatch):
    suite, model, data = load_suite(suite_file(tmp_path)), tiny_model("bert"), tmp_path / "data"
    (data / "wikitext2").mkdir(parents=True)
    corpus(data / "wikitext2", TEXT, "valid.txt")
    (tmp_path / "wikitext2").mkdir()
    corpus(tmp_path / "wikitext2", "The nurse saw her.", "valid")
    monkeypatch.chdir(tmp_path)

    def n(path):
        return measure(suite, model, cache=None, data=data, draws=10, corpus=path).n_total

    assert n("wikitext2") == n("wikitext2/valid") == n("data/wikitext2/valid.txt") > 2
    assert n("./wikitext2/valid") == 2
    monkeypatch.setenv("HOME", str(tmp_path))
    assert n("~/wikitext2/valid") == 2


def test_bad_corpora_are_one_error_each(tiny_model, tmp_path):
    path, model = suite_file(tmp_path), tiny_model("bert")
    with pytest.raises(DataFileError, match=r"own\.txt: the corpus contains none of the 10 words of the suite"):
        measure(path, model, cache=None, corpus=str(corpus(tmp_path, "Nothing is here.")))
    with pytest.raises(SettingError, match="no data set is called 'browm'; did you mean brown\\?"):
        measure(path, model, cache=None, corpus="browm")
    with pytest.raises(SettingError, match=r"no file \./browm; expected a path, or one of brown, wikitext2"):
        measure(path, model, cache=None, corpus="./browm")
    (tmp_path / "latin.txt").write_bytes(b"The nurse saw her caf\xe9.")
    with pytest.raises(DataFileError, match=r"latin\.txt:1: not UTF-8"):
        measure(path, model, cache=None, corpus=str(tmp_path / "latin.txt"))
    for wrong in ({"contexts": 0}, {"window": 0}, {"draws": 1}, {"contexts_seed": -1}, {"corpus": ""}):
        with pytest.raises(SettingError, match=f"option '{next(iter(wrong))}' of mine"):
            measure(path, model, cache=None, **wrong)


def test_static_vectors_have_no_contexts(tmp_path):
    corpus(tmp_path, "she 1 2\nhe 2 1\n", "small.txt")
    with pytest.raises(NotApplicableError, match="ceat needs a network with hidden states"):
        measure("ceat", load_model(str(tmp_path / "small.txt")), cache=None)


def answered(suite, bias, contexts=4, without=()):
    """Return options, and answers with random vectors that ``bias`` moves X and A, and Y and B, towards each other."""
    sides = [(word, side) for side, of_set in zip((1, -1, 1, -1), suite.body.values(), strict=True) for word in of_set]
    number = np.asarray([i for i, (word, _) in enumerate(sides) for _ in range(contexts) if word not in without])
    rng = np.random.default_rng(3)
    towards = np.asarray([sides[i][1] for i in number])
    vectors = rng.normal(size=(len(number), 12)) + bias * towards[:, None] * np.eye(12)[0]
    cases = TextCases([("x",)] * len(number), facts={"word": number})
    units = rng.permutation(len(number))
    options = resolve_options(suite.family.options, {"draws": 200}, "ceat")
    return options, {"cases": Answer(cases, units, vectors[units][:, None])}


def test_the_null_shuffles_words_over_their_sets_with_all_their_contexts():
    suite = load_suite("ceat")
    for bias, inside in ((0.0, True), (2.0, False)):
        options, answers = answered(suite, bias)
        value = suite.family.summarise(suite.body, options, answers, 0).values["combined_effect_size"]
        null = suite.family.null(suite.body, options, answers, 0, 300)["combined_effect_size"]
        low, high = np.quantile(null, (0.005, 0.995))
        assert (low <= value <= high) == inside
        assert null.shape == (300,)
        assert (suite.family.null(suite.body, options, answers, 0, 300)["combined_effect_size"] == null).all()
        assert (suite.family.null(suite.body, options, answers, 1, 300)["combined_effect_size"] != null).any()
    options, answers = answered(suite, 0.0, without=next(iter(suite.body.values())))
    assert np.isnan(suite.family.null(suite.body, options, answers, 0, 3)["combined_effect_size"]).all()


def test_a_shuffle_gives_what_ceat_gives_of_the_exchanged_words():
    rng = np.random.default_rng(0)
    sets = [[rng.normal(size=(3, 6)) for _ in range(2)] for _ in range(4)]
    found = shuffled_combined_effects(*sets, 60, draws=50, seed=4)
    value = ceat(*sets, draws=50, seed=4).effect
    assert len(set(found.round(9))) == 6  # splits of four words into two and two
    assert round(value, 9) in found.round(9)
    assert round(-value, 9) in found.round(9)
    with pytest.raises(UndefinedError, match="empty"):
        shuffled_combined_effects([], *sets[1:], 3)


@pytest.mark.parametrize(
    ("statistic", "reason"),
    [("combined_effect_size", "no function of sums"), ("p_value", "no bias"), ("word_p_value", "no bias")],
)
def test_nothing_is_compared_item_by_item(statistic, reason):
    family = load_suite("ceat").family
    with pytest.raises(UndefinedError, match=reason):
        family.statistics[statistic].item_sums({}, {})


@pytest.mark.slow
def test_a_real_masked_lm_and_the_same_network_untrained(shared_data):
    model = load_model(str(shared_data / "models" / "minilm-mlm"), device="cpu")
    trained, control = (
        measure("ceat", model, data=shared_data, cache=None, random_encoder=random) for random in (False, True)
    )
    assert trained.value == pytest.approx(1.2535, abs=1e-3)
    assert trained.values["word_p_value"] < 0.001
    assert abs(control.value) < 0.2
    assert control.values["word_p_value"] > 0.2
    assert control.values["p_value"] < 0.001  # what the paper's p says of a network that knows nothing


def test_a_real_masked_lm(real_mlm, shared_data):
    found = measure("ceat", real_mlm, data=shared_data, cache=None, contexts=20)
    assert found.values["word_p_value"] < 0.05
    assert found.value > 0.5
    assert "Kevin" in found.notes[0]
