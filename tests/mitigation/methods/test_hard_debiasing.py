"""Hard debiasing: the properties that Bolukbasi et al. 2016 state, exactly, and a slow loop by their formulas."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_genderbias import load_model
from pytest_genderbias.errors import SettingError, UndefinedError, UnknownNameError
from pytest_genderbias.mitigation.methods.hard_debiasing import (
    equalise,
    hard_debias,
    hard_debias_embeddings,
    neutralise,
)
from pytest_genderbias.mitigation.methods.registry import make_method
from pytest_genderbias.mitigation.words.directions import HE_SHE, learn_basis, random_bases
from pytest_genderbias.models.saving import input_embeddings, save_model

PAIRS = (*HE_SHE, ("man", "woman"))


def slow(vectors, basis, neutral, sets):
    """Word by word, with the projections written out."""
    w = {row: v / np.sqrt(v @ v) for row, v in enumerate(vectors)}

    def inside(v):
        return sum((v @ b) * b for b in basis.T)

    for row in neutral:
        left = w[row] - inside(w[row])
        w[row] = left / np.sqrt(left @ left)
    for rows in sets:
        mu = sum(w[row] for row in rows) / len(rows)
        nu = mu - inside(mu)
        for row, v in {row: w[row] for row in rows}.items():
            away = inside(v) - inside(mu)
            w[row] = nu + np.sqrt(1 - nu @ nu) * away / np.sqrt(away @ away)
    return np.array(list(w.values()))


@given(st.integers(0, 10_000), st.integers(1, 3), st.sampled_from(["unit", "kept"]))
def test_hard_debiasing_has_the_stated_properties(seed, k, lengths):
    x = np.random.default_rng(seed).standard_normal((9, 6))
    basis = random_bases(6, k, 1, seed + 1)[0]
    neutral, pairs = [0, 1, 2, 3], [[4, 5], [6, 7]]
    found = hard_debias(x, basis, neutral, pairs, lengths)
    directions = found / np.linalg.norm(found, axis=1)[:, None]
    np.testing.assert_allclose(directions, slow(x, basis, neutral, pairs), atol=1e-12)
    np.testing.assert_allclose(found[neutral] @ basis, 0, atol=1e-12)
    for first, second in pairs:
        np.testing.assert_allclose(found[neutral] @ found[first], found[neutral] @ found[second], atol=1e-12)
        np.testing.assert_allclose(
            directions[neutral] @ directions[first], directions[neutral] @ directions[second], atol=1e-12
        )
        outside = found[[first, second]] - found[[first, second]] @ basis @ basis.T
        np.testing.assert_allclose(outside[0], outside[1], atol=1e-12)
    np.testing.assert_allclose(hard_debias(found, basis, neutral, pairs, lengths), found, atol=1e-10)
    if lengths == "unit":
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-12)
        np.testing.assert_allclose(directions[8], x[8] / np.linalg.norm(x[8]))
    else:
        own = np.linalg.norm(x, axis=1)
        expected = [*own[:4], *[own[4:6].mean()] * 2, *[own[6:8].mean()] * 2]
        np.testing.assert_allclose(np.linalg.norm(found[:8], axis=1), expected)
        np.testing.assert_array_equal(found[8], x[8])


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 4))
def test_sets_of_more_than_two_words_are_equalised(seed, members):
    sets = np.random.default_rng(seed).standard_normal((3, members, 5))
    basis = random_bases(5, 2, 1, seed + 1)[0]
    found = equalise(sets, basis)
    flat = sets.reshape(-1, 5)
    rows = np.arange(len(flat)).reshape(3, members)
    np.testing.assert_allclose(found.reshape(-1, 5), slow(flat, basis, [], rows), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(found, axis=-1), 1)
    other = neutralise(np.random.default_rng(seed + 2).standard_normal(5), basis)
    np.testing.assert_allclose(np.ptp(found @ other, axis=1), 0, atol=1e-12)


def test_formats_are_kept():
    x = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    assert hard_debias(x, [1.0, 0, 0, 0], [0], [[1, 2]]).dtype == np.float32
    assert hard_debias(np.eye(3, dtype=int) + 1, [1.0, 0, 0], [0], []).dtype == np.float64


def test_rows_of_zeros_that_are_in_no_list_stay():
    found = hard_debias([[0.0, 0], [3, 4]], [1.0, 0.0], [1], [])
    np.testing.assert_allclose(found, [[0, 0], [0, 1]])


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: neutralise([[2.0, 0.0]], [1.0, 0.0]), UndefinedError, "within the subspace"),
        (lambda: neutralise([[0.0, 0.0]], [1.0, 0.0]), UndefinedError, "zero"),
        (lambda: equalise([[[1.0, 2.0], [1.0, 2.0]]], [1.0, 0.0]), UndefinedError, "equal within"),
        (lambda: equalise([[[1.0, 2.0]]], [1.0, 0.0]), SettingError, "two words or more"),
        (lambda: hard_debias(np.eye(3), [1.0, 0, 0], [0], [[0, 1]]), SettingError, "not both"),
        (lambda: hard_debias(np.eye(3), [1.0, 0, 0], [], [[0, 1], [1, 2]]), SettingError, "not to two pairs"),
        (lambda: hard_debias(np.eye(3), [1.0, 0, 0], [], [], "long"), SettingError, "unit or kept"),
        (lambda: hard_debias(np.eye(3), [1.0, 1, 0], [1], []), SettingError, "orthonormal"),
    ],
)
def test_what_cannot_be_is_refused(call, error, said):
    with pytest.raises(error, match=said):
        call()


@pytest.fixture
def vectors(tmp_path):
    words = ["he", "she", "man", "woman", "nurse", "engineer", "king", "beard"]
    matrix = np.random.default_rng(1).standard_normal((len(words), 5)).astype(np.float32)
    np.savez(tmp_path / "small.npz", vectors=matrix, words=np.array(words))
    return load_model(str(tmp_path / "small.npz"))


def test_word_vectors_are_debiased_and_saved(vectors, tmp_path):
    basis = learn_basis(vectors, pairs=PAIRS)
    pairs = (*PAIRS, ("king", "queen"))
    mitigated = hard_debias_embeddings(vectors, basis, pairs)
    said = json.loads(mitigated.details["mitigation"])
    assert (said["neutralised"], said["equalised pairs"], said["lengths"]) == (3, 2, "unit")
    loaded = load_model(str(save_model(mitigated, tmp_path / "out.txt")))
    he, she, nurse, king, beard = loaded.backend.get(["he", "she", "nurse", "king", "beard"])
    for neutral in (nurse, beard):
        assert neutral @ he == pytest.approx(neutral @ she, abs=1e-6)
    old = vectors.backend.get(["king"])[0]
    np.testing.assert_allclose(king, old / np.linalg.norm(old), atol=1e-6)
    kept = hard_debias_embeddings(vectors, basis, pairs, lengths="kept").backend.get(["nurse", "king"])
    nurse, king = np.linalg.norm(vectors.backend.get(["nurse", "king"]), axis=1)
    np.testing.assert_allclose(np.linalg.norm(kept, axis=1), [nurse, king], rtol=1e-6)
    with pytest.raises(UndefinedError, match="none of 1 pairs has both words"):
        hard_debias_embeddings(vectors, basis, [("king", "queen")])
    with pytest.raises(SettingError, match="not to two pairs"):
        hard_debias_embeddings(vectors, basis, [("he", "she"), ("he", "woman")])


@pytest.mark.parametrize("kind", ["bert", "albert", "gpt2", "roberta"])
def test_input_embeddings_are_debiased_and_round_trip(kind, tiny_model, tmp_path):
    model = tiny_model(kind)
    basis = learn_basis(model, pairs=HE_SHE)
    before = input_embeddings(model.backend.network).astype(np.float64)
    mitigated = hard_debias_embeddings(model, basis, (*PAIRS, ("king", "xylophonist")))
    after = input_embeddings(mitigated.backend.network).astype(np.float64)
    tokenizer = model.backend.tokenizer

    def row(word):
        ids = tokenizer(f" {word}", add_special_tokens=False)["input_ids"]
        return ids[0] if len(ids) == 1 else None

    king = row("king")
    he, she = next((row(a), row(b)) for a, b in PAIRS if row(a) is not None and row(b) is not None)
    special = tokenizer.all_special_ids
    left = {row for text in ("he", "she", "man", "woman", "king") for row in every_token(tokenizer, text)}
    neutral = sorted(set(range(len(after))) - set(special) - left)
    np.testing.assert_allclose(after[neutral] @ basis, 0, atol=1e-6)
    np.testing.assert_allclose(after[neutral] @ after[he], after[neutral] @ after[she], atol=1e-5)
    np.testing.assert_allclose(
        np.linalg.norm(after[neutral], axis=1), np.linalg.norm(before[neutral], axis=1), rtol=1e-5
    )
    np.testing.assert_array_equal(after[special], before[special])
    if king is not None:
        np.testing.assert_array_equal(after[king], before[king])
    networks = [one.backend.network for one in (model, mitigated)]
    outputs = [network.get_output_embeddings().weight for network in networks]
    assert torch.equal(*outputs)
    loaded = load_model(str(save_model(mitigated, tmp_path / "out")), device="cpu")
    assert loaded.fingerprint == mitigated.fingerprint


def every_token(tokenizer, word):
    for text in (word, f" {word}"):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        if len(ids) == 1:
            yield ids[0]


@pytest.fixture
def random_vectors(tmp_path):
    rng = np.random.default_rng(4)
    words = ["he", "she", "man", "woman", "king", "queen", "career", "family", "office", "home"]
    path = tmp_path / "vectors.txt"
    path.write_text("\n".join(f"{word} {' '.join(map(str, rng.normal(size=6)))}" for word in words))
    return load_model(str(path))


def cosines(model, words):
    vectors = np.asarray(model.backend.get(words), dtype=np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors @ vectors.T


def test_a_pair_alone_leaves_all_other_words_as_similar_as_the_projection_of_its_direction(random_vectors):
    alone = make_method("wed", pairs=[["he", "she"]])
    listed = make_method("wed", pairs="lu2018-pairs")
    assert alone.settings()["pairs"] == (("he", "she"),) and alone.settings() != listed.settings()
    others = ["man", "woman", "king", "queen", "career", "family", "office", "home"]
    projected = cosines(make_method("projection").after(random_vectors, 0), others)
    np.testing.assert_allclose(cosines(alone.after(random_vectors, 0), others), projected, atol=1e-6)
    # By a list, its words keep their gender: "man" and "woman" are equalised, and not neutralised.
    assert np.abs(cosines(listed.after(random_vectors, 0), others) - projected).max() > 0.05
    assert json.loads(alone.after(random_vectors, 0).details["mitigation"])["equalised pairs"] == 1


def test_projection_by_a_list_leaves_out_pairs_without_vectors(random_vectors):
    by_list = make_method("projection", pairs="lu2018-pairs").after(random_vectors, 0)
    known = [["man", "woman"], ["king", "queen"], ["he", "she"]]
    by_pairs = make_method("projection", pairs=known).after(random_vectors, 0)
    np.testing.assert_allclose(by_list.backend.matrix, by_pairs.backend.matrix, atol=1e-6)
    with pytest.raises(UnknownNameError, match="no vector"):
        make_method("projection", pairs=[["uncle", "aunt"]]).after(random_vectors, 0)
