"""weat: effect sizes against plain loops, words that are lacking, sets beside the targets, networks of all kinds, real
vectors.
"""

import itertools
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cosine
from support.baseline_books import write_entries
from support.tiny_checkpoints import CAUSAL, MASKED, tokenizer

from pytest_genderbias import Baseline, load_model, load_suite, load_wordlist, measure
from pytest_genderbias.errors import DataFileError, ModelError, NotApplicableError, SettingError, UndefinedError
from pytest_genderbias.gates.book import entry_of
from pytest_genderbias.gates.comparison import compare_models, judge_against
from pytest_genderbias.models.objects import wrap_object
from pytest_genderbias.reports.fields import change_in_full
from pytest_genderbias.statistics.association import effect_size, shuffled_effect_sizes
from pytest_genderbias.suites.cases import Answer
from pytest_genderbias.suites.families.shared.words import bare_words, missing_note
from pytest_genderbias.suites.family import resolve_options

WEAT = load_suite("weat")
SETS = {role: list(words) for role, words in zip("XYAB", WEAT.body.values(), strict=True)}


def vectors_file(folder, vectors):
    """Write vectors as GloVe has them, and return the loaded model."""
    path = Path(folder, "small.txt")
    path.write_text("".join(f"{word} {' '.join(map(repr, map(float, v)))}\n" for word, v in vectors.items()))
    return load_model(str(path))


def random_vectors(sets=SETS, seed=0, bias=0.0):
    """Return random vectors; ``bias`` moves X towards A and Y towards B."""
    rng = np.random.default_rng(seed)
    towards = {"X": bias, "Y": -bias, "A": abs(bias), "B": -abs(bias)}
    return {
        word: rng.normal(size=10) + towards.get(role, 0.0) * np.eye(10)[0]
        for role, words in sets.items()
        for word in words
    }


def plain(vectors, x, y, a, b):
    """Return the associations and the effect size, one cosine at a time."""
    s = {}
    for word in [*x, *y]:
        near = [1 - cosine(vectors[word], vectors[other]) for other in a]
        far = [1 - cosine(vectors[word], vectors[other]) for other in b]
        s[word] = sum(near) / len(near) - sum(far) / len(far)
    values = list(s.values())
    middle = sum(values) / len(values)
    deviation = (sum((v - middle) ** 2 for v in values) / (len(values) - 1)) ** 0.5
    mean = {name: sum(s[w] for w in words) / len(words) for name, words in (("x", x), ("y", y))}
    return s, (mean["x"] - mean["y"]) / deviation


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("weat", ["male names", "female names", "career", "family"]),
        ("weat-math-arts", ["math", "arts", "male terms", "female terms"]),
        ("weat-science-arts", ["science", "arts", "male terms", "female terms"]),
        ("ceat", ["male names", "female names", "career", "family"]),
        ("ceat-math-arts", ["math", "arts", "male terms", "female terms"]),
        ("ceat-science-arts", ["science", "arts", "male terms", "female terms"]),
    ],
)
def test_the_stimuli_are_those_of_the_paper(name, labels):
    suite = load_suite(name)
    roles = [role for role, *_ in suite.family.content(suite.body)]
    assert (list(suite.body), roles) == (labels, ["X", "Y", "A", "B"])
    assert [len(words) for words in suite.body.values()] == [8, 8, 8, 8]
    assert suite.main_statistic == ("effect_size" if name.startswith("weat") else "combined_effect_size")


def test_all_adherents_and_demonyms_are_in_one_set():
    for name, words in (("weat-religion", "dev2019-adherents"), ("weat-demonym", "dev2019-demonyms")):
        x, y, _, _, *others = load_suite(name).body.values()
        taken = {word for of_set in (x, y, *others) for word in of_set}
        assert {entry.word for entry in load_wordlist(words).entries} <= taken


@pytest.mark.parametrize("bias", [0.0, 1.5, -1.5])
def test_a_planted_bias_is_found_as_large_as_a_plain_loop_finds_it(tmp_path, bias):
    vectors = random_vectors(bias=bias)
    found = measure("weat", vectors_file(tmp_path, vectors), cache=None)
    s, expected = plain(vectors, *(SETS[role] for role in "XYAB"))
    assert found.value == pytest.approx(expected, abs=1e-5)
    assert dict(zip(found.items["word"], found.items["association"], strict=True)) == pytest.approx(s, abs=1e-5)
    assert found.n == found.n_total == 32
    assert found.interval is None
    assert "chosen" in found.reasons["effect_size"]
    if bias:
        assert np.sign(found.value) == np.sign(bias)
        assert (found.values["p_value"] < 0.01) == (bias > 0)
    above = [abs(record["above_mean"]) for record in found.records]
    assert above == sorted(above, reverse=True)
    assert {r["nearer_to"] for r in found.records if r["association"] > 0} <= {"career"}


def test_a_limit_does_not_sample_the_words(tmp_path):
    assert measure("weat", vectors_file(tmp_path, random_vectors()), cache=None, limit=3).n == 32


def test_exchanged_targets_and_attributes(tmp_path):
    vectors = random_vectors(bias=0.7)
    found = measure("weat", vectors_file(tmp_path, vectors), cache=None, exchanged=True)
    assert found.value == pytest.approx(plain(vectors, *(SETS[role] for role in "ABXY"))[1], abs=1e-5)
    assert set(found.items["set"]) == {"career", "family"}


def suite_file(folder, **changes):
    """Write a suite of two targets of three words, and a list with its words."""
    import yaml

    words = {"X": ["ant", "bee", "cow"], "Y": ["oak", "elm", "fir"], "A": ["red", "pink"], "B": ["blue"], "N": ["ox"]}
    entries = [{"word": word, "class": name} for name, members in words.items() for word in members]
    Path(folder, "things.yaml").write_text(
        yaml.safe_dump(
            {"list": "things", "title": "t", "source": "s", "licence": "l", "language": "en", "entries": entries}
        )
    )

    def one(name):
        return {"list": "things.yaml", "where": {"class": name}}

    content = {"suite": "mine", "family": "weat", "title": "t", "source": "s", "licence": "l", "language": "en",
               "targets": {"animals": one("X"), "trees": one("Y")}, "attributes": {"warm": one("A"), "cold": one("B")},
               "others": {"more": one("N")}} | changes  # fmt: skip
    path = Path(folder, "mine.yaml")
    path.write_text(yaml.safe_dump({k: v for k, v in content.items() if v is not None}, sort_keys=False))
    return path, words


def test_another_set_may_have_the_name_of_a_role(tmp_path):
    path, words = suite_file(tmp_path, others={"X": {"list": "things.yaml", "where": {"class": "N"}}})
    vectors = random_vectors(words, seed=4)
    found = measure(path, vectors_file(tmp_path, vectors), cache=None)
    assert found.value == pytest.approx(plain(vectors, *(words[role] for role in "XYAB"))[1], abs=1e-5)
    assert set(found.items["set"]) == {"animals", "trees", "X"}


def test_p_counts_the_splits_as_a_walk_over_them_does(tmp_path):
    path, words = suite_file(tmp_path)
    vectors = random_vectors({**words}, seed=4)
    model = vectors_file(tmp_path, vectors)
    s, _ = plain(vectors, words["X"], words["Y"], words["A"], words["B"])
    values = [s[word] for word in [*words["X"], *words["Y"]]]

    def difference(chosen):
        return sum(v if i in chosen else -v for i, v in enumerate(values))

    splits = [difference(chosen) for chosen in itertools.combinations(range(6), 3)]
    seen = splits[0]
    one = sum(d >= seen - 1e-9 for d in splits) / len(splits)
    two = sum(abs(d) >= abs(seen) - 1e-9 for d in splits) / len(splits)
    assert measure(path, model, cache=None).values["p_value"] == pytest.approx(one)
    assert measure(path, model, cache=None, two_sided=True).values["p_value"] == pytest.approx(two)


def test_other_words_are_shown_and_are_in_no_statistic(tmp_path):
    path, words = suite_file(tmp_path)
    vectors = random_vectors(words)
    with_ox = measure(path, vectors_file(tmp_path, vectors), cache=None)
    vectors["ox"] = vectors["red"] * 3
    moved = measure(path, vectors_file(tmp_path, vectors), cache=None)
    assert moved.values == with_ox.values
    [record] = [r for r in moved.records if r["set"] == "more"]
    assert record["word"] == "ox"
    assert record["association"] > 0
    [note] = [note for note in moved.notes if note.startswith("mean association, warm minus cold")]
    assert "animals" in note
    assert "trees" in note
    assert f"more {record['association']:+.3f} (1 words)" in note
    del vectors["ox"]
    without = measure(path, vectors_file(tmp_path, vectors), cache=None)
    assert without.values == with_ox.values
    assert without.notes == ("1 of 10 words left out, with no vector: ox (more)",)


def test_words_without_a_vector_are_left_out_and_named(tmp_path):
    vectors = random_vectors(bias=1.0)
    gone = ["Steve", "Bill", "cousins"]
    kept = {word.lower(): v for word, v in vectors.items() if word not in gone}
    found = measure("weat", vectors_file(tmp_path, kept), cache=None)  # lower case: names are looked up as john, amy
    sets = [[word for word in SETS[role] if word not in gone] for role in "XYAB"]
    assert found.value == pytest.approx(plain(vectors, *sets)[1], abs=1e-5)
    assert found.notes == ("3 of 32 words left out, with no vector: Steve, Bill (male names); cousins (family)",)
    assert len(found.records) == 14
    assert found.n == 32


@pytest.mark.parametrize(("left", "has_value"), [(3, True), (2, False)])
def test_three_words_of_a_set_need_a_vector(tmp_path, left, has_value):
    vectors = {word: v for word, v in random_vectors().items() if word not in SETS["X"][left:]}
    found = measure("weat", vectors_file(tmp_path, vectors), cache=None)
    assert (found.value is not None) == has_value
    whole = measure("weat", vectors_file(tmp_path, random_vectors(bias=1.0)), cache=None)
    why = "effect_size has no value now: 2 of 8 words of the set 'male names' have a vector; at least 3 are needed"
    assert (why in judge_against(found, whole, 1.0).headline) == (not has_value)


def test_a_comparison_names_the_words_that_both_have(tmp_path):
    vectors = random_vectors(bias=1.0)
    targets = [*SETS["X"], *SETS["Y"]]

    def without(gone, shift=0.0):
        kept = {word: v + shift * (word in SETS["X"]) * np.eye(10)[0] for word, v in vectors.items()}
        return measure("weat", vectors_file(tmp_path, {w: v for w, v in kept.items() if w not in gone}), cache=None)

    whole, most, fewer = without([]), without(targets[:2] + targets[-1:]), without(targets[::2])
    same = judge_against(most, whole, 1.0)
    assert (same.code, same.difference) == ("unchanged", 0.0)
    assert "no change on the 13 of 16 target words that both sides have" in same.headline
    assert change_in_full(same) == "no change on 13 of 16 target words, the same in every item"
    assert re.search(
        r" on 13 of 16 target words \(.+ to .+\)$", change_in_full(judge_against(without(targets[:3], 1), whole, 1.0))
    )
    write_entries(tmp_path, "m", "t.py", {"weat": entry_of(whole)})
    release = Baseline(tmp_path, "m", "t.py").judge(most, margin=1.0).of_baseline.release
    assert (release.then, release.now) == ((whole.value,), (whole.value,)), "what both have did not change"
    few = judge_against(without(targets[1::2]), fewer, 1.0)
    assert few.code == "not_comparable"
    assert "only 0 of 16 target words have a figure on both sides" in few.headline
    rows, _ = compare_models([fewer, replace(without(targets[1::2]), model="other")], [fewer.model, "other"])
    assert [(row.low, row.method) for row in rows] == [
        (None, "none: only 0 of 16 target words have a figure on both models")
    ]


@pytest.mark.parametrize("role", SETS)
def test_other_words_are_not_compared(tmp_path, role):
    """What two files of vectors have in common may be unchanged where the effect of each is another."""
    vectors = random_vectors(bias=1.0)
    kept = {word: v for word, v in vectors.items() if word not in SETS[role][:4]}
    whole, less = (measure("weat", vectors_file(tmp_path, some), cache=None) for some in (vectors, kept))
    for then, now in ((whole, less), (less, whole)):
        found = judge_against(now, then, margin=0.3)
        assert found.code == "not_comparable"
        lost = "only 12 of 16 target words have" if role in "XY" else "attribute words without a vector"
        assert lost in found.text


def test_a_set_without_vectors_has_no_value_and_says_why(tmp_path):
    vectors = {w: v for w, v in random_vectors().items() if w not in SETS["B"]}
    found = measure("weat", vectors_file(tmp_path, vectors), cache=None)
    assert found.values == {"effect_size": None, "p_value": None}
    assert set(found.reasons.values()) == {"0 of 8 words of the set 'family' have a vector; at least 3 are needed"}
    assert found.records == []
    none = measure("weat", vectors_file(tmp_path, {"pear": [1, 2], "plum": [2, 1]}), cache=None)
    assert none.value is None
    assert none.notes[0].startswith("32 of 32 words left out")
    assert none.notes[0].count(",") == 1 + 11 - 1  # a dozen are named, eight of one set and four of the next


def test_vectors_that_are_equal_or_zero_have_no_value(tmp_path):
    same = {word: [1.0, 2.0] for word in random_vectors()}
    found = measure("weat", vectors_file(tmp_path, same), cache=None)
    assert found.reasons["effect_size"] == "all target words have the same association"
    assert found.values["p_value"] == 1.0
    found = measure("weat", vectors_file(tmp_path, random_vectors() | {"Amy": np.zeros(10)}), cache=None)
    assert found.reasons["effect_size"] == "a vector is zero and has no direction"


def test_notes_name_a_dozen_words():
    assert missing_note({"a": [], "b": []}, 9, "no vector") == []
    [note] = missing_note({"a": [f"w{i}" for i in range(20)], "b": ["last"]}, 30, "no vector")
    assert note == "21 of 30 words left out, with no vector: " + ", ".join(f"w{i}" for i in range(12)) + " ... (a)"


# Networks


@pytest.mark.parametrize("kind", [*MASKED, *CAUSAL])
def test_a_bare_word_has_the_tokens_that_it_has_inside_a_text(kind):
    words = ["accountant", "John", "human being", "he"]
    tokens = tokenizer(kind)

    def inside(text, start, stop):
        encoded = tokens(text, return_offsets_mapping=True)
        pairs = zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
        return [i for i, (a, b) in pairs if a < stop and b > start and b > a]

    cases = bare_words(words)
    for word, (text,), ((start, stop),) in zip(words, cases.texts, cases.spans, strict=True):
        assert text[start:stop] == word
        assert inside(text, start, stop) == inside(f"the {word} is", 4, 4 + len(word))


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2", "llama"])
@pytest.mark.parametrize("where", ["last", 1, "input"])
def test_networks_against_one_forward_pass_a_word(tiny_model, kind, where):
    model = tiny_model(kind)
    network = model.backend.network.base_model
    vectors = {}
    for word in itertools.chain(*SETS.values()):
        encoded = model.backend.tokenizer(f" {word}", return_tensors="pt", return_offsets_mapping=True)
        own = [i for i, (a, b) in enumerate(encoded.pop("offset_mapping")[0].tolist()) if b > 1 and b > a]
        encoded.pop("token_type_ids", None)
        with torch.no_grad():
            states = network(**encoded, output_hidden_states=True).hidden_states
            embedded = network.get_input_embeddings()(encoded["input_ids"])
        layer = embedded if where == "input" else states[-1 if where == "last" else where]
        vectors[word] = layer[0, own].mean(0).numpy()
    s, expected = plain(vectors, *(SETS[role] for role in "XYAB"))
    found = measure("weat", model, cache=None, where=where)
    assert found.value == pytest.approx(expected, abs=1e-4)
    assert dict(zip(found.items["word"], found.items["association"], strict=True)) == pytest.approx(s, abs=1e-4)


def test_a_layer_that_is_not_there_is_refused(tiny_model):
    with pytest.raises(SettingError, match="layer 99 is not there; the model has layers 0"):
        measure("weat", tiny_model("bert"), cache=None, where=99)
    for wrong in ("middle", -1, True, 1.5):
        with pytest.raises(SettingError, match="'where' of weat should be last, input or the number of a layer"):
            measure("weat", tiny_model("bert"), cache=None, where=wrong)


class Sentences:
    def encode(self, texts):
        return np.ones((len(texts), 2))


def test_who_is_asked(tiny_model):
    with pytest.raises(NotApplicableError, match="weat needs word vectors, or a network with hidden states"):
        measure("weat", wrap_object(Sentences()), cache=None)
    assert measure("weat", tiny_model("bert-nli"), cache=None).value is not None


# Wrong files


def one(**where):
    return {"list": "things.yaml", "where": where}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"targets": {"animals": one(**{"class": "X"})}}, "'targets' should be two sets of words, got animals"),
        ({"attributes": None}, "the suite has no 'attributes'"),
        ({"targets": {"animals": {"list": "nowhere"}, "trees": one(**{"class": "Y"})}}, "no word list 'nowhere'"),
        ({"targets": {"a": one(**{"class": "Z"}), "b": one(**{"class": "Y"})}}, "slot 'a' is empty"),
        (
            {"targets": {"a": one(word=["ant", "gnu"]), "b": one(**{"class": "Y"})}},
            "slot 'a' asks for 'gnu', which the list lacks",
        ),
        ({"targets": {"a": one(word=["ant", "bee"]), "b": one(word="ant")}}, "'ant' is in two sets, a and b"),
        ({"others": {"more": one(word="red")}}, "'red' is in two sets, warm and more"),
        ({"others": {"warm": one(word="ox")}}, "two sets have the label 'warm'"),
        ({"options": {"where": "top"}}, "option 'where' of mine should be last, input"),
    ],
)
def test_a_wrong_suite_file_names_its_line(tmp_path, changes, expected):
    path, _ = suite_file(tmp_path, **changes)
    with pytest.raises(DataFileError, match=r"mine\.yaml:\d+: .*" + expected):
        load_suite(path)


def test_vectors_of_a_wrong_dimension_are_refused(tmp_path):
    path = tmp_path / "short.txt"
    path.write_text("John 1 2 3\nAmy 1 2\n")
    with pytest.raises(ModelError, match=r"short\.txt:2: expected a word and 3 numbers"):
        load_model(str(path))


# Real vectors and models


def answered(vectors, **chosen):
    """Return the options, and the answers with these vectors; a word without one has NaN."""
    options = resolve_options(WEAT.family.options, chosen, "weat")
    words = [word for words in SETS.values() for word in words]
    rows = np.asarray([vectors.get(word, np.full(10, np.nan)) for word in words])
    return options, {"cases": Answer(bare_words(words), np.arange(len(words)), rows[:, None])}


@pytest.mark.parametrize("exchanged", [False, True])
def test_sums_over_target_words_give_the_effect_size(tmp_path, exchanged):
    vectors = random_vectors(bias=0.7)
    found = measure("weat", vectors_file(tmp_path, vectors), cache=None, exchanged=exchanged)
    item_sums = WEAT.family.statistics["effect_size"].item_sums({}, found.items)
    assert item_sums.total == pytest.approx(found.value, rel=1e-9)
    assert item_sums.over == "target words"
    x, y = ("A", "B") if exchanged else ("X", "Y")
    assert sorted(item_sums.labels) == sorted(SETS[x] + SETS[y])
    s = dict(zip(found.items["word"].tolist(), found.items["association"].tolist(), strict=True))
    without = item_sums.value(item_sums.sums.sum(axis=0) - item_sums.sums)
    for left_out, value in zip(item_sums.labels, without, strict=True):
        sets = [[s[word] for word in SETS[role] if word != left_out] for role in (x, y)]
        assert value == pytest.approx(effect_size(*sets), rel=1e-6)


def test_sums_without_an_effect_size(tmp_path):
    found = measure("weat", vectors_file(tmp_path, random_vectors()), cache=None)
    item_sums = WEAT.family.statistics["effect_size"].item_sums({}, found.items)
    only_x = item_sums.sums[item_sums.sums[:, 0] == 1]
    totals = [only_x.sum(axis=0), 3 * only_x[0] + 0 * only_x[1], np.zeros(5)]
    assert np.isnan(item_sums.value(np.asarray(totals))).all()
    with pytest.raises(UndefinedError, match="measures no bias"):
        WEAT.family.statistics["p_value"].item_sums({}, found.items)
    with pytest.raises(UndefinedError, match="no role"):
        WEAT.family.statistics["effect_size"].item_sums(
            {}, {"word": found.items["word"], "association": found.items["association"]}
        )
    options, answers = answered(random_vectors())
    assert WEAT.family.statistics["effect_size"].scores(options, answers["cases"]) is None


def test_the_null_shuffles_words_over_their_sets():
    for bias, inside in ((0.0, True), (2.0, False)):
        options, answers = answered(random_vectors(bias=bias))
        value = WEAT.family.summarise(WEAT.body, options, answers, 0).values["effect_size"]
        null = WEAT.family.null(WEAT.body, options, answers, 0, 700)["effect_size"]
        low, high = np.quantile(null, (0.005, 0.995))
        assert (low <= value <= high) == inside
        assert null.shape == (700,)
        assert abs(null.mean()) < 0.1
        assert (WEAT.family.null(WEAT.body, options, answers, 0, 700)["effect_size"] == null).all()
        assert (WEAT.family.null(WEAT.body, options, answers, 1, 700)["effect_size"] != null).any()
    options, answers = answered({word: np.ones(10) for word in SETS["X"]})
    assert np.isnan(WEAT.family.null(WEAT.body, options, answers, 0, 3)["effect_size"]).all()


def test_shuffles_are_the_splits_of_a_walk_over_them():
    x, y = [0.9, 0.5], [0.4, 0.1, -0.3]
    words = np.asarray(x + y)
    splits = [
        round(effect_size(words[list(one)], np.delete(words, one)), 9) for one in itertools.combinations(range(5), 2)
    ]
    found = shuffled_effect_sizes(x, y, 4000, seed=2).round(9)
    assert set(found.tolist()) == set(splits)
    assert found.std() == pytest.approx(np.std(splits), rel=0.05)


@pytest.fixture(scope="module")
def glove():
    path = os.environ.get("GENDERBIAS_GLOVE")
    if path is None:
        pytest.skip("no real word vectors; name glove.6B.50d.txt with GENDERBIAS_GLOVE")
    return load_model(path)


@pytest.mark.parametrize(
    ("name", "expected"), [("weat", 1.7078), ("weat-math-arts", 1.4951), ("weat-science-arts", 1.4849)]
)
def test_the_paper_s_biases_are_in_glove(glove, name, expected):
    found = measure(name, glove, cache=None)
    assert found.value == pytest.approx(expected, abs=1e-3)
    assert found.values["p_value"] < 0.001
    assert found.notes == ()


def test_glove_takes_occupations_as_winobias_does(glove):
    found = measure("weat-occupation", glove, cache=None)
    assert found.value == pytest.approx(0.9189, abs=1e-3)
    assert found.records[0]["word"] == "receptionist"
    assert "construction worker (male-stereotyped)" in found.notes[0]


def test_a_real_masked_lm(real_mlm):
    assert measure("weat", real_mlm, cache=None).value == pytest.approx(1.6049, abs=1e-3)
