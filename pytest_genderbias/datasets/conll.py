"""Documents with coreference clusters in the CoNLL-2012 format: OntoNotes, WinoBias, and the output of coreference
systems.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

from pytest_genderbias.datasets.files import place, read_lines
from pytest_genderbias.datasets.mentions import Span
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.text.printable import brief

_WORD = 3  # the column of the word; the last column holds the coreference
_BEGIN, _END = "#begin document", "#end document"


@dataclass(frozen=True)
class Document:
    """One document, or one part of it.

    ``text`` joins the tokens of the file, unchanged, by spaces, and the sentences by line ends. It therefore differs
    from the original text ("it 's", "-LRB-"). ``tokens``, ``sentences`` and ``clusters`` are character spans in
    ``text``. Clusters are ordered by their first mention, and the mentions of a cluster by their position.
    """

    id: str
    text: str
    tokens: tuple[Span, ...]
    sentences: tuple[Span, ...]
    clusters: tuple[tuple[Span, ...], ...]


def read_conll(path: Path) -> Iterator[Document]:
    """Yield the documents of a file, or of all files in a folder whose names end in ``conll`` or ``conll.gz``, sorted
    by name.

    The ``id`` of a document is its name and part, such as ``(nw/wsj/00/wsj_0020); part 000``. Columns are separated by
    white space. The 4th column is the word, the last the coreference: ``(1`` begins a mention of cluster 1, ``1)`` ends
    it, ``(1)`` is a mention of one token, ``-`` is none, and ``|`` separates several. A mention that belongs to two
    clusters stays in the one that is closed first; the official scorer also drops duplicates.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.files.read_lines`; a line outside a document, or with too
            few columns; an invalid coreference mark; a mention without beginning or end; a document without tokens or
            end; a duplicate document; no documents.
    """
    files = [path]
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file() and p.name.endswith(("conll", "conll.gz")))
    first: dict[str, str] = {}
    for file in files:
        for line, document in _read_documents(file):
            if document.id in first:
                raise DataFileError(
                    f"{place(file, line)}: duplicate document {document.id} (first at {first[document.id]})"
                )
            first[document.id] = place(file, line)
            yield document
    if not first:
        raise DataFileError(f"{path}: expected documents that begin with {brief(_BEGIN)}, got none")


def _read_documents(file: Path) -> Iterator[tuple[int, Document]]:
    """Yield the documents of a file, each with the line of its beginning."""
    lines = read_lines(file)
    for line, text in lines:
        if text.startswith(_BEGIN):
            yield line, _read_document(file, line, text.removeprefix(_BEGIN).strip(), lines)
        elif text.strip() and not text.startswith("#"):
            raise DataFileError(
                f"{place(file, line)}: expected {brief(_BEGIN)} before the first token, got {brief(text)}"
            )


def _read_document(file: Path, begin: int, name: str, lines: Iterator[tuple[int, str]]) -> Document:
    """Read the lines of a document that follow the one of its beginning, up to its end."""
    words: list[str] = []
    sentence_ends: list[int] = []
    opened: dict[str, list[int]] = {}  # by cluster, the first tokens of mentions that have not ended
    mentions: dict[Span, str] = {}  # the cluster, by first and last token
    for line, text in lines:
        where = place(file, line)
        if text.startswith(_END):
            break
        if text.startswith(_BEGIN):
            raise DataFileError(
                f"{where}: expected {brief(_END)} of the document in line {begin} first, got {brief(text)}"
            )
        if columns := text.split():
            _read_mentions(where, columns, len(words), opened, mentions)
            words.append(columns[_WORD])
        else:
            sentence_ends.append(len(words))
    else:
        raise DataFileError(f"{place(file, begin)}: the document has no {brief(_END)}; the file may have been cut off")
    for cluster, begun in opened.items():
        if begun:
            raise DataFileError(
                f"{where}: a mention of cluster {cluster} has not ended (it begins with token {begun[-1] + 1})"
            )
    if not words:
        raise DataFileError(f"{where}: the document has no tokens")
    return _document(name, words, sentence_ends, mentions)


def _document(name: str, words: list[str], sentence_ends: list[int], mentions: dict[Span, str]) -> Document:
    """Return a document with its text and the spans of characters in it."""
    starts = accumulate((len(word) + 1 for word in words), initial=0)
    tokens = tuple((start, start + len(word)) for start, word in zip(starts, words, strict=False))
    sentences = list(pairwise(sorted({0, *sentence_ends, len(words)})))
    clusters: dict[str, list[Span]] = {}
    for (first, final), cluster in sorted(mentions.items()):
        clusters.setdefault(cluster, []).append((tokens[first][0], tokens[final][1]))
    return Document(
        name,
        "\n".join(" ".join(words[first:end]) for first, end in sentences),
        tokens,
        tuple((tokens[first][0], tokens[end - 1][1]) for first, end in sentences),
        tuple(map(tuple, clusters.values())),
    )


def _read_mentions(
    where: str, columns: list[str], token: int, opened: dict[str, list[int]], mentions: dict[Span, str]
) -> None:
    """Add the mentions that end with a token to ``mentions``, and those that only begin with it to ``opened``."""
    if len(columns) <= _WORD + 1:
        raise DataFileError(
            f"{where}: expected the word in column 4 and the coreference in the last, got {len(columns)} columns"
        )
    for mark in columns[-1].split("|") if columns[-1] != "-" else ():
        cluster = mark.removeprefix("(").removesuffix(")")
        if not cluster.isdecimal() or mark == cluster:
            raise DataFileError(
                f"{where}: expected a coreference such as (1, 1), (1), (1|2) or -, got {brief(columns[-1])}"
            )
        begun = opened.setdefault(cluster, [])
        if mark.startswith("("):
            begun.append(token)
        if mark.endswith(")"):
            if not begun:
                raise DataFileError(f"{where}: a mention of cluster {cluster} ends, but none has begun")
            mentions.setdefault((begun.pop(), token), cluster)
