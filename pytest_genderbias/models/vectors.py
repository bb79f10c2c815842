"""Static word vectors in files: GloVe and word2vec text, NumPy arrays, safetensors."""

from __future__ import annotations

import re
import zipfile
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.corpora import corpus_sha256
from pytest_genderbias.datasets.files import place, read_lines
from pytest_genderbias.errors import DataFileError, ModelError, UnknownNameError
from pytest_genderbias.models.protocols import WORD_VECTORS, Backend
from pytest_genderbias.text.normal_form import is_plain, normal_form
from pytest_genderbias.text.plain_files import open_regular, parse_json

#: An array that takes more bytes than this, and more often than this its packed size, is no array of vectors.
_MOST_UNPACKED, _MOST_RATIO = 1 << 26, 50
_ARRAYS = (".npz", ".npy", ".safetensors")
_MARKER = re.compile(r"<.+>|\[.+\]")  #: no word, such as <UNK> or [CLS]
_HEADER = re.compile(r"([0-9]{1,12}) ([1-9][0-9]{0,5})")


@dataclass(frozen=True, eq=False)
class WordVectors(Backend):
    """The vectors of words.

    ``words``: the row of each word, in the order of the rows. ``matrix``: shape (len(words), d), float32.
    ``fingerprint``: SHA-256 over the bytes of the file and of the vocabulary file.
    ``lowercased``: no word of the file has a capital letter, as in GloVe 6B, but for markers such as <UNK>. Only then
    is "Mary" looked up as "mary", because in a cased vocabulary "Mark" differs from "mark".
    """

    words: Mapping[str, int]
    matrix: NDArray[np.float32] = field(repr=False)
    fingerprint: str
    lowercased: bool
    abilities: ClassVar[frozenset[str]] = frozenset({WORD_VECTORS})

    def row(self, word: str) -> int | None:
        """Return the row of a word, or of its lower case if the file is lower-cased, or ``None``.

        A word that the file spells with other apostrophes, hyphens or invisible characters
        (:mod:`~pytest_genderbias.text.normal_form`) is also found; its own spelling comes first.
        """
        for spelling in (word, normal_form(word)):
            for form in (spelling, spelling.lower()) if self.lowercased else (spelling,):
                if (row := self.words.get(form, self._by_form.get(form))) is not None:
                    return row
        return None

    @cached_property
    def _by_form(self) -> dict[str, int]:
        """The rows of words that differ from their normal form, by this."""
        rows = reversed([(word, row) for word, row in self.words.items() if not is_plain(word)])
        return {form: row for word, row in rows if (form := normal_form(word)) != word}

    def missing(self, words: Iterable[str]) -> list[str]:
        """Return the words without a vector, in their order."""
        return [word for word in words if self.row(word) is None]

    def get(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of words: shape (len(words), d).

        Raises:
            UnknownNameError: some words have no vector (:meth:`missing` returns them).

        >>> vectors = WordVectors({"she": 0, "he": 1}, np.array([[1, 0], [0, 1]], np.float32), "", lowercased=True)
        >>> vectors.get(["He", "she", "he"]).tolist()
        [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
        >>> vectors.missing(["She", "nurse"])
        ['nurse']
        """
        rows = [row for row in map(self.row, words) if row is not None]
        if len(rows) < len(words):
            lacking = self.missing(words)
            shown = ", ".join(map(repr, lacking[:5])) + (" ..." if len(lacking) > 5 else "")
            raise UnknownNameError(f"{len(lacking)} of {len(words)} words have no vector: {shown}")
        return self.matrix[rows]


def looks_like_vectors(path: Path) -> bool:
    """Return whether a file holds word vectors, by its name and its first line.

    ``.vec`` (also with ``.gz``) and ``.npz`` do; ``.txt`` (also with ``.gz``), which may be any text, if its first line
    has the form of vectors; ``.npy`` and ``.safetensors`` if there is a vocabulary file in the same folder.
    """
    form = _form(path)
    if form is None or not path.is_file():
        return False
    if form == ".txt":
        try:
            _text_layout(path)
        except (DataFileError, ModelError):
            return False
    return form in (".txt", ".vec", ".npz") or _vocabulary_beside(path) is not None


def read_vectors(path: Path) -> WordVectors:
    r"""Read word vectors.

    Forms, by the name of the file:

    - ``.txt``, ``.vec``, each also with ``.gz``: GloVe's text (a word and d numbers a line, single spaces between them)
      or word2vec's and fastText's (the same below a line ``COUNT d``).
    - ``.npz``: arrays ``vectors``, shape (n, d), and ``words``, shape (n,), of a string type.
    - ``.npy``, or ``.safetensors`` with one tensor or one called ``vectors``: the words are in the same folder, in the
      first existing file of ``STEM.vocab.txt`` (one per line), ``STEM.vocab.json`` (a list), ``vocab.txt`` and
      ``vocab.json``.

    The checks are: in every line the encoding, the word and the count of numbers; the number of lines that a word2vec
    file announces; that each number is finite and no word is repeated. A word of a text file may contain spaces
    (``. . .`` in GloVe 840B) if the extra fields of its line are not numbers.

    Raises:
        ModelError: the file is missing, truncated, in another format, or fails a check above; it has no vectors; words
            and matrix differ in length; it holds pickled objects, which are never loaded. The message starts with
            ``FILE:LINE`` if there are lines (of the vocabulary file for an error in a word; in .npz and JSON the number
            of the word, from 1).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "small.vec")
    ...     _ = path.write_text("3 2\nshe 1 0\nhe 0 1\nnurse 2 0.5\n")
    ...     vectors = read_vectors(path)
    >>> dict(vectors.words), vectors.matrix.tolist(), vectors.lowercased
    ({'she': 0, 'he': 1, 'nurse': 2}, [[1.0, 0.0], [0.0, 1.0], [2.0, 0.5]], True)
    """
    form = _form(path)
    if form is None:
        raise ModelError(
            f"{path}: the name of a file of word vectors ends in .txt, .vec (each also with .gz), .npz, .npy or"
            " .safetensors"
        )
    try:
        open_regular(path).close()
        return _read_array(path, form) if form in _ARRAYS else _read_text(path)
    except DataFileError as error:  # of a line that cannot be read at all
        raise ModelError(str(error)) from None


def _form(path: Path) -> str | None:
    name = path.name.lower()
    suffix = Path(name).suffix
    if suffix in _ARRAYS:
        return suffix
    suffix = Path(name.removesuffix(".gz")).suffix
    return suffix if suffix in (".txt", ".vec") else None


class _Vocabulary:
    """The words of a file in the order of their rows, and the line of each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[str, int] = {}
        self._lines = array("q")

    def take(self, line: int, word: str) -> None:
        """Add a word; refuse one that is there."""
        row = self._rows.setdefault(word, len(self._lines))
        if row < len(self._lines):
            raise ModelError(
                f"{place(self._path, line)}: the word {word!r} is also in line {self._lines[row]}; remove one of them"
            )
        self._lines.append(line)

    def vectors(self, path: Path, matrix: NDArray[np.float32], fingerprint: str) -> WordVectors:
        """Return the word vectors; refuse numbers that are not finite."""
        finite = np.isfinite(matrix).all(axis=1)
        if not finite.all():
            row = int(np.argmin(finite))
            raise ModelError(
                f"{place(path, self._lines[row])}: the vector of {list(self._rows)[row]!r} has a number that is NaN,"
                " infinite or too large for float32"
            )
        lowercased = all(word == word.lower() or _MARKER.fullmatch(word) for word in self._rows)
        return WordVectors(self._rows, matrix, fingerprint, lowercased)


def _read_text(path: Path) -> WordVectors:
    count, dimension = _text_layout(path)
    vocabulary, values, seen = _Vocabulary(path), array("f"), 0
    lines = _filled_lines(path)
    if count is not None:
        next(lines)
    for line, text in lines:
        seen += 1
        word, numbers = _split(path, line, text, dimension)
        vocabulary.take(line, word)
        try:
            values.extend(map(float, numbers.split(" ")))
            is_wrong = "_" in numbers
        except ValueError:
            is_wrong = True
        if is_wrong:
            bad = next(number for number in numbers.split(" ") if not _is_number(number))
            raise ModelError(f"{place(path, line)}: the vector of {word!r} holds {bad!r}, expected a number")
    if count is not None and seen != count:
        raise ModelError(
            f"{path}:1: the first line says {count} words, {seen} follow; the file may have been cut off: fetch it"
            " again"
        )
    if not seen:
        raise ModelError(f"{path}: no vectors in it")
    matrix = np.frombuffer(values, np.float32).reshape(-1, dimension)
    return vocabulary.vectors(path, matrix, corpus_sha256([path]))


def _text_layout(path: Path) -> tuple[int | None, int]:
    """Return the number of words, if the first line has it, and the number of dimensions."""
    line, text = next(_filled_lines(path), (0, ""))
    if not line:
        raise ModelError(f"{path}: no vectors in it: the file is empty")
    if header := _HEADER.fullmatch(text):
        return int(header[1]), int(header[2])
    fields = text.split(" ")
    if len(fields) < 3 or not all(map(_is_number, fields[1:])):
        raise ModelError(
            f"{place(path, line)}: expected a word and two or more numbers with single spaces between them (or COUNT"
            f" DIMENSIONS), got {text[:60]!r}"
        )
    return None, len(fields) - 1


def _filled_lines(path: Path) -> Iterator[tuple[int, str]]:
    stripped = ((line, text.rstrip(" ")) for line, text in read_lines(path))  # word2vec ends its lines with a space
    return ((line, text) for line, text in stripped if text)


def _split(path: Path, line: int, text: str, dimension: int) -> tuple[str, str]:
    """Return the word of a line and the text of its numbers; check that it has ``dimension`` numbers."""
    word, _, numbers = text.partition(" ")
    if text.count(" ") != dimension:  # of a word with spaces in it
        fields = text.split(" ")
        over = fields[1:-dimension]
        if not over or any(map(_is_number, over)) or "" in over:
            raise ModelError(
                f"{place(path, line)}: expected a word and {dimension} numbers, got {len(fields) - 1} after"
                f" {fields[0]!r}"
            )
        word, numbers = " ".join(fields[:-dimension]), " ".join(fields[-dimension:])
    if not word:
        raise ModelError(f"{place(path, line)}: the line begins with a space, expected a word")
    return word, numbers


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # Python reads 1_000, a file of vectors does not mean it


def _read_array(path: Path, form: str) -> WordVectors:
    beside = None if form == ".npz" else _vocabulary_beside(path)
    if form != ".npz" and beside is None:
        raise ModelError(
            f"{path}: no vocabulary beside it; expected one word per line in {path.stem}.vocab.txt or vocab.txt, "
            f"or a list in {path.stem}.vocab.json or vocab.json"
        )
    try:
        matrix, words = _open_array(path, form)
    except ModelError:
        raise
    except Exception as error:  # NumPy raises errors of many kinds for headers that break rules
        raise ModelError(_array_problem(path, error)) from None
    if matrix.ndim != 2 or not np.issubdtype(matrix.dtype, np.floating):
        raise ModelError(
            f"{path}: expected a matrix (words, dimensions) of floating point numbers, got {matrix.dtype} of the shape"
            f" {matrix.shape}"
        )
    entries = list(enumerate(words, start=1) if beside is None else _vocabulary(beside))
    if len(entries) != len(matrix):
        raise ModelError(
            f"{beside or path}: {len(entries)} words, but the matrix of {path.name} has {len(matrix)} rows; expected"
            " one word a row"
        )
    if not matrix.size:
        raise ModelError(f"{path}: no vectors in it: its shape is {matrix.shape}")
    vocabulary = _Vocabulary(beside or path)
    for line, word in entries:
        vocabulary.take(line, word)
    with np.errstate(over="ignore"):  # numbers too large for float32 are refused as infinite
        in_memory = np.array(matrix, dtype=np.float32, order="C")
    files = [path] if beside is None else [path, beside]
    return vocabulary.vectors(path, in_memory, corpus_sha256(files))


def _open_array(path: Path, form: str) -> tuple[NDArray[np.generic], list[str]]:
    """Return the matrix, and the words if they are in the same file."""
    if form == ".npy":
        return np.load(path, mmap_mode="r", allow_pickle=False), []
    if form == ".safetensors":
        from safetensors import safe_open

        with safe_open(path, framework="numpy") as file:
            names = list(file.keys())
            name = names[0] if len(names) == 1 else "vectors"
            if name not in names:
                raise ModelError(
                    f"{path}: it holds {len(names)} tensors, none of them called vectors; expected"
                    " the one matrix of word vectors (for a checkpoint give its directory)"
                )
            return file.get_tensor(name), []
    _refuse_bomb(path)
    with np.load(path, allow_pickle=False) as file:
        if not {"vectors", "words"} <= set(file.files):
            raise ModelError(
                f"{path}: expected the arrays 'vectors' and 'words', got {', '.join(map(repr, file.files)) or 'none'}"
            )
        words = file["words"]
        if words.ndim != 1 or words.dtype.kind not in "US":
            raise ModelError(
                f"{path}: the words should be an array of texts, shape (n,), got {words.dtype} of the shape"
                f" {words.shape}"
            )
        return file["vectors"], np.char.decode(words, "utf-8").tolist() if words.dtype.kind == "S" else words.tolist()


def _refuse_bomb(path: Path) -> None:
    """Refuse an archive that would unpack to far more than vectors can be packed: their numbers hardly compress."""
    if not zipfile.is_zipfile(path):
        return  # which NumPy reports
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.file_size > max(_MOST_UNPACKED, _MOST_RATIO * member.compress_size):
                raise ModelError(
                    f"{path}: {member.filename!r:.60} takes {member.compress_size:,} bytes and would unpack to"
                    f" {member.file_size:,}; save it with np.savez"
                )


def _array_problem(path: Path, error: Exception) -> str:
    text = " ".join(str(error).split())
    if "pickled" in text:  # NumPy's message for every file without its magic bytes
        return f"{path}: cannot be read: it is not a NumPy file; save plain arrays with np.save or np.savez"
    if "pickle" in text.lower() or "Python objects" in text:
        return (
            f"{path}: it holds pickled objects, which are not loaded, because they can run code; save plain arrays"
            " (words as np.array(words, dtype=str))"
        )
    if "bfloat16" in text:
        return f"{path}: its numbers are bfloat16, which NumPy does not have; save the matrix as float32"
    return f"{path}: cannot be read ({type(error).__name__}: {text:.200}); it may be truncated: copy or save it again"


def _vocabulary_beside(path: Path) -> Path | None:
    names = (f"{path.stem}.vocab.txt", f"{path.stem}.vocab.json", "vocab.txt", "vocab.json")
    return next((path.with_name(name) for name in names if path.with_name(name).is_file()), None)


def _vocabulary(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the words with their lines, or their places in a JSON list."""
    entries: Iterable[tuple[int, object]] = read_lines(path)
    if path.suffix != ".txt":
        words = parse_json("\n".join(text for _, text in read_lines(path)), str(path))
        if not isinstance(words, list):
            raise ModelError(
                f"{path}: expected a list of words, one for each row of the matrix, got a {type(words).__name__}"
            )
        entries = enumerate(words, start=1)
    for line, word in entries:
        if not isinstance(word, str) or not word:
            raise ModelError(f"{place(path, line)}: expected a word, got {word!r}")
        yield line, word
