"""subspace: planted singular values, scikit-learn's, directions that cannot be had, input embeddings, real vectors."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from pytest_genderbias import load_model, load_suite, load_wordlist, measure
from pytest_genderbias.errors import DataFileError, UndefinedError
from pytest_genderbias.statistics.bias_subspace import principal_ratios, random_cosines, random_ratios
from pytest_genderbias.suites.cases import Answer
from pytest_genderbias.suites.families.shared.words import bare_words
from pytest_genderbias.suites.family import resolve_options

GENDERED = [entry.word for entry in load_wordlist("dev2019-gendered").entries]
DEMONYMS = {entry.word: entry.attributes["split"] for entry in load_wordlist("dev2019-demonyms").entries}


def vectors_file(folder, vectors):
    """Write vectors as GloVe has them, and return the loaded model."""
    path = Path(folder, "small.txt")
    path.write_text("".join(f"{word} {' '.join(map(repr, map(float, v)))}\n" for word, v in vectors.items()))
    return load_model(str(path))


def random_vectors(words, seed=0):
    rng = np.random.default_rng(seed)
    return {word: rng.normal(size=12) + 2.0 for word in words}


def test_the_packaged_suites_have_the_words_of_the_paper():
    for name, words, train in (("subspace", 18, 0), ("subspace-demonym", 40, 8), ("subspace-religion", 25, 8)):
        body = load_suite(name).body
        assert (len(body.words), len(body.train)) == (words, train)
        assert set(body.train) <= set(body.words)
    assert load_suite("subspace").body.pair == ("he", "she")
    assert list(load_suite("subspace").family.statistics) == ["ratio_2", "ratio_3", "ratio_4", "cosine"]


def test_planted_singular_values_and_a_planted_direction(tmp_path):
    axes = np.eye(5)
    vectors = {}
    for i, word in enumerate(GENDERED):  # pairs of opposite vectors: 5 along one axis, 2, 1, 1 along others
        axis = (0, 0, 0, 0, 0, 1, 1, 2, 3)[i // 2]
        vectors[word] = (axes[axis] if i % 2 == 0 else -axes[axis]) + 7.0
    vectors |= {"he": [2.0, 1, 0, 0, 0], "she": [-2.0, 1, 0, 0, 0]}
    found = measure("subspace", vectors_file(tmp_path, vectors), cache=None, centred=True)
    ratios = [found.values[f"ratio_{i}"] for i in (2, 3, 4)]
    assert ratios == pytest.approx([np.sqrt(2 / 5), np.sqrt(1 / 5), np.sqrt(1 / 5)], abs=1e-5)
    assert found.values["cosine"] == pytest.approx(1.0, abs=1e-6)
    assert found.interval is None
    assert found.n == found.n_total == 20
    places = {record["word"]: record["along_first_component"] for record in found.records}
    assert places["man"] == pytest.approx(1.0, abs=1e-5)  # he lies on the positive side
    assert places["woman"] == pytest.approx(-1.0, abs=1e-5)
    assert places["female"] == pytest.approx(0.0, abs=1e-5)
    assert measure("subspace", vectors_file(tmp_path, vectors), cache=None, limit=2).n == 20


def test_against_scikit_learn(tmp_path):
    vectors = random_vectors(DEMONYMS)
    model = vectors_file(tmp_path, vectors)
    rows = np.asarray(list(vectors.values()))
    full = PCA().fit(rows)
    train = PCA().fit(rows[[split == "train" for split in DEMONYMS.values()]])
    found = measure("subspace-demonym", model, cache=None, centred=True)
    expected = full.singular_values_[1:4] / full.singular_values_[0]
    assert [found.values[f"ratio_{i}"] for i in (2, 3, 4)] == pytest.approx(expected, abs=1e-5)
    assert found.values["cosine"] == pytest.approx(abs(full.components_[0] @ train.components_[0]), abs=1e-5)
    places = np.abs(full.transform(rows)[:, 0])
    assert np.abs(found.items["along_first_component"]) == pytest.approx(places, abs=1e-4)


def test_centred_and_normalised_against_eigenvalues(tmp_path):
    vectors = random_vectors([*GENDERED, "he", "she"], seed=3)
    model = vectors_file(tmp_path, vectors)
    rows = np.asarray([vectors[word] for word in GENDERED])
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for options, matrix in (
        ({}, rows),
        ({"centred": True}, rows - rows.mean(axis=0)),
        ({"normalised": True}, unit),
        ({"centred": True, "normalised": True}, unit - unit.mean(axis=0)),
    ):
        values = np.sqrt(np.linalg.eigvalsh(matrix.T @ matrix)[::-1])
        found = measure("subspace", model, cache=None, **options)
        assert [found.values[f"ratio_{i}"] for i in (2, 3, 4)] == pytest.approx(values[1:4] / values[0], abs=1e-5)
        assert found.signature["settings"].items() >= options.items()


def test_without_he_there_are_ratios_and_no_cosine(tmp_path):
    vectors = random_vectors([*GENDERED, "she"])
    del vectors["gal"]
    found = measure("subspace", vectors_file(tmp_path, vectors), cache=None)
    assert found.values["ratio_2"] is not None
    assert found.values["cosine"] is None
    assert found.reasons["cosine"] == "'he', a word of the pair for the learned direction, has no vector"
    assert found.notes == ("2 of 20 words left out, with no vector: gal, he (words)",)
    assert found.records[0]["along_first_component"] > 0


def test_too_few_words_have_no_value_and_say_why(tmp_path):
    found = measure("subspace", vectors_file(tmp_path, random_vectors(["he", "she", "man", "boy"])), cache=None)
    assert set(found.values.values()) == {None}
    assert "2 of 18 words of the set 'words' have a vector; at least 3 are needed" in found.reasons["ratio_2"]
    found = measure("subspace", vectors_file(tmp_path, random_vectors(["pear"])), cache=None)
    assert set(found.reasons.values()) == {"0 of 18 words of the set 'words' have a vector; at least 3 are needed"}
    few = {w: v for w, v in random_vectors(DEMONYMS).items() if w in ("American", "French") or DEMONYMS[w] == "test"}
    found = measure("subspace-demonym", vectors_file(tmp_path, few), cache=None)
    assert found.values["ratio_4"] is not None
    assert found.values["cosine"] is None
    assert found.reasons["cosine"].startswith("2 of 8 words of the set 'train' have")


def test_a_network_gives_its_input_embeddings_unless_asked_for_others(tiny_model):
    model = tiny_model("roberta")
    table = model.backend.network.get_input_embeddings().weight.detach()
    vectors = {}
    for word in [*GENDERED, "he", "she"]:
        encoded = model.backend.tokenizer(f" {word}", add_special_tokens=False, return_offsets_mapping=True)
        pairs = zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
        ids = [i for i, (start, stop) in pairs if stop > start and stop > 1]
        vectors[word] = table[torch.as_tensor(ids)].mean(0).numpy().astype(float)
    _, values, components = np.linalg.svd([vectors[word] for word in GENDERED])
    found = measure("subspace", model, cache=None)
    expected = values[1:4] / values[0]
    assert [found.values[f"ratio_{i}"] for i in (2, 3, 4)] == pytest.approx(expected, abs=1e-4)
    direction = vectors["he"] / np.linalg.norm(vectors["he"]) - vectors["she"] / np.linalg.norm(vectors["she"])
    cosine = abs(direction @ components[0]) / np.linalg.norm(direction)
    assert found.values["cosine"] == pytest.approx(cosine, abs=1e-4)
    assert measure("subspace", model, cache=None, where="last").value != pytest.approx(found.value)


SUITE = load_suite("subspace")


def answered(vectors, **chosen):
    """Return options, and answers with these vectors, of any dimension; a word without one has NaN."""
    words = [*GENDERED, "he", "she"]
    rows = np.asarray([vectors.get(word, np.full(len(next(iter(vectors.values()))), np.nan)) for word in words])
    answer = Answer(bare_words(words), np.arange(len(words)), rows[:, None])
    return resolve_options(SUITE.family.options, chosen, "subspace"), {"cases": answer}


def random_words(gender=0.0, d=60):
    """Return random vectors, to which a common direction is added, to words of one sex and against those of the
    other.
    """
    rng = np.random.default_rng(1)
    sign = {word: 1 - 2 * (i % 2) for i, word in enumerate(GENDERED)} | {"he": 1, "she": -1}
    return {word: rng.normal(size=d) + gender * sign[word] * np.eye(d)[0] for word in sign}


@pytest.mark.parametrize("chosen", [{}, {"centred": True}, {"normalised": True}])
def test_a_direction_in_common_lies_outside_the_null(chosen):
    for gender, inside in ((0.0, True), (8.0, False)):
        options, answers = answered(random_words(gender), **chosen)
        values = SUITE.family.summarise(SUITE.body, options, answers, 0).values
        null = SUITE.family.null(SUITE.body, options, answers, 0, 300)
        assert {drawn.shape for drawn in null.values()} == {(300,)}
        assert list(null) == list(values)
        for statistic in ("ratio_2", "cosine"):
            low, high = np.quantile(null[statistic], (0.003, 0.997))
            assert (low <= values[statistic] <= high) == inside
        again = SUITE.family.null(SUITE.body, options, answers, 0, 300)
        other = SUITE.family.null(SUITE.body, options, answers, 1, 300)
        assert all((again[key] == null[key]).all() and (other[key] != null[key]).any() for key in null)


def test_a_null_without_values_is_nan():
    vectors = random_words()
    del vectors["he"]
    null = SUITE.family.null(SUITE.body, *answered(vectors), 0, 4)
    assert np.isfinite(null["ratio_2"]).all()
    assert np.isnan(null["cosine"]).all()
    null = SUITE.family.null(SUITE.body, *answered({"he": np.ones(5), "she": np.arange(5.0)}), 0, 4)
    assert {drawn.shape for drawn in null.values()} == {(4,)}
    assert np.isnan(np.concatenate(list(null.values()))).all()


@pytest.mark.parametrize("n", [9, 30])
@pytest.mark.parametrize("centred", [False, True])
def test_turned_vectors_against_a_plain_loop(n, centred):
    vectors = np.random.default_rng(0).normal(size=(n, 14)) * np.linspace(1, 3, n)[:, None] + 5.0
    lengths = np.linalg.norm(vectors - (vectors.mean(axis=0) if centred else 0), axis=1)
    found = random_ratios(vectors, 7, seed=3, centred=centred)
    rng = np.random.default_rng(3)
    for row in found:
        drawn = rng.standard_normal((n, 14))
        turned = [length * v / np.linalg.norm(v) for length, v in zip(lengths, drawn, strict=True)]
        assert row == pytest.approx(principal_ratios(turned, centred)[1])
    cosines = random_cosines(100, 4000, seed=0)
    assert cosines.mean() == pytest.approx(np.sqrt(2 / (np.pi * 100)), rel=0.05)


def test_ratios_are_not_compared_word_by_word():
    for statistic in SUITE.family.statistics:
        with pytest.raises(UndefinedError, match="all words together"):
            SUITE.family.statistics[statistic].item_sums({}, {})


@pytest.mark.parametrize("kind", ["albert", "electra"])
def test_input_embeddings_that_are_narrower_than_the_hidden_states(tiny_model, kind):
    model = tiny_model(kind)
    assert (model.input_width, model.width) == (8, 16)
    assert measure("subspace", model, cache=None, where="input").value is not None
    assert measure("subspace", model, cache=None, where="last").value is not None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ("pair: [he, she]\ntrain: {list: pronouns}", "expected either 'pair' \\(two words\\) or 'train'"),
        ("", "expected either 'pair' \\(two words\\) or 'train'"),
        ("pair: [he, she, it]", "'pair' should be two different words, got \\['he', 'she', 'it'\\]"),
        ("pair: [he, he]", "'pair' should be two different words"),
        ("pair: he", "'pair' of the suite should be a list"),
        ("train: {list: nowhere}", "no word list 'nowhere'"),
    ],
)
def test_a_wrong_suite_file_names_its_line(tmp_path, changes, expected):
    head = "suite: mine\nfamily: subspace\ntitle: t\nsource: s\nlicence: l\nlanguage: en\nwords: {list: pronouns}\n"
    (tmp_path / "mine.yaml").write_text(head + changes + "\n")
    with pytest.raises(DataFileError, match=r"mine\.yaml:\d+: " + expected):
        load_suite(tmp_path / "mine.yaml")


@pytest.mark.parametrize(
    ("name", "options", "ratio", "cosine"),
    [
        ("subspace", {}, 0.3858, 0.2113),
        ("subspace-demonym", {}, 0.4600, 0.9603),
        ("subspace-religion", {}, 0.4468, 0.9617),
        ("subspace", {"centred": True}, 0.8554, 0.2578),
        ("subspace-demonym", {"centred": True}, 0.8076, 0.8332),
        ("subspace-religion", {"centred": True}, 0.9191, 0.0100),
    ],
)
def test_glove(name, options, ratio, cosine):
    path = os.environ.get("GENDERBIAS_GLOVE")
    if path is None:
        pytest.skip("no real word vectors; name glove.6B.50d.txt with GENDERBIAS_GLOVE")
    found = measure(name, path, cache=None, **options)
    assert found.value == pytest.approx(ratio, abs=1e-3)
    assert found.values["cosine"] == pytest.approx(cosine, abs=1e-3)
