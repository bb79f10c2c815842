"""Untokenised passages of a corpus for a model to read, and the digest of a corpus."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_genderbias.datasets.corpora import (
    TOKENISERS,
    Tokenise,
    corpus_files,
    file_tokens,
    has_documents,
    joined,
    read_documents,
)
from pytest_genderbias.datasets.files import read_lines
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.text.plain_files import open_regular, unreadable
from pytest_genderbias.text.unspaced import check_of

#: A text and its number of words.
Passage = tuple[str, int]


def read_passages(paths: Sequence[str | Path], most: int, *, size: int = 2000, tokens: str = "auto") -> list[Passage]:
    """Return the beginning of a corpus as untokenised passages, each with its number of words.

    Words are counted by the tokeniser of :func:`~pytest_genderbias.datasets.corpora.feed_corpus`, so punctuation marks
    are words. A passage ends with the line (in ``.jsonl``, the document) with which it has ``size`` words, separated by
    white space.

    Args:
        paths: Files or folders, as for ``feed_corpus``.
        most: The number of words in total; the passage that reaches it is the last.
        size: The smallest number of words of a passage, unless its file ends.
        tokens: The tokeniser mode, as for ``feed_corpus``.

    Raises:
        DataFileError: a file is missing, has no words or is not UTF-8; a line is not a document; the text is not cut
            into words (:mod:`~pytest_genderbias.text.unspaced`).
    """
    passages = _first_passages(paths, most, size, tokens)
    if not passages:
        raise DataFileError(f"{', '.join(map(str, paths))}: no words; expected a text")
    check_of(text for text, _ in passages).refuse(", ".join(map(str, paths)), DataFileError)
    return passages


def _first_passages(paths: Sequence[str | Path], most: int, size: int, tokens: str) -> list[Passage]:
    passages: list[Passage] = []
    for path in paths:
        for file in corpus_files(path):
            for passage in _passages(file, min(size, most), tokens):
                passages.append(passage)
                if sum(words for _, words in passages) >= most:
                    return passages
    return passages


def _passages(file: Path, size: int, tokens: str) -> Iterator[Passage]:
    split = TOKENISERS[file_tokens(file, tokens)]
    parts: list[str] = []
    words = 0
    for part in _parts(file):
        parts.append(part)
        words += len(part.split())
        if words >= size:
            yield from _passage(parts, split)
            parts, words = [], 0
    yield from _passage(parts, split)


def _passage(parts: list[str], split: Tokenise) -> Iterator[Passage]:
    text = "".join(parts)
    words = len(split(text))
    if words:
        yield text, words


def _parts(file: Path) -> Iterator[str]:
    """Yield the lines with their line ends, or the documents of a ``.jsonl`` file."""
    if not has_documents(file):
        yield from (line + "\n" for _, line in read_lines(file))
        return
    for document in read_documents(file):
        yield joined(document) + "\n" * isinstance(document, str)


def corpus_sha256(paths: Sequence[str | Path]) -> str:
    """Return the SHA-256 of the bytes of all files of a corpus, in their order. File names do not count.

    Raises:
        DataFileError: a file is missing or cannot be read.
    """
    digest = hashlib.sha256()
    for file in (file for path in paths for file in corpus_files(path)):
        try:
            with open_regular(file) as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
        except OSError as error:
            raise unreadable(file, error) from None
    return digest.hexdigest()
