"""Words in context: sentences of a corpus that hold them, cut to a few words around them, some of each word drawn.

Sentences: those that a document lists; in running text they end at ``.``, ``!`` or ``?`` before a capital, but for titles and
initials. A paragraph ends at an empty line or at a heading (``= Title =``), and sentences with it.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np

from pytest_genderbias.datasets.corpora import corpus_files, ends_document, has_documents, read_documents
from pytest_genderbias.datasets.files import OnBroken, read_lines, refuse

_END = re.compile(
    r"(?:(?<=[.!?])|(?<=[.!?][\"'”’)]))(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bSt\.)(?<!\b[A-Z]\.)"
    r"\s+(?=[\"'“‘(`]*[A-Z])"
)
_HEADING = re.compile(r"\s*=+ .+ =+\s*")
_WORD = re.compile(r"\w+(?:[-'’]\w+)*")
_LONGEST = 1 << 16  #: characters of a paragraph; one that is longer is cut at the end of a line


@dataclass(frozen=True)
class Context:
    """A text, and where in it the word stands: characters [start, stop)."""

    text: str
    start: int
    stop: int


@dataclass
class Contexts:
    """The contexts of a word that were drawn, of ``found`` in all."""

    drawn: list[Context] = field(default_factory=list)
    found: int = 0


def draw_contexts(
    path: str | Path, words: Collection[str], *, most: int = 200, window: int = 9, seed: int = 0
) -> dict[str, Contexts]:
    """Draw contexts of words from a corpus, which is read once, in memory that does not grow with it.

    A word stands in a sentence where it has the same capitals and neither a letter, a digit nor a hyphen beside it ("John's" has
    "John", "bill" and "Bill-like" have no "Bill"). Each sentence is one context of a word, at its first place there.

    Args:
        path: a file, or a folder of files, as :func:`~pytest_genderbias.datasets.corpora.feed_corpus` takes them.
        words: the words; a word may have spaces in it.
        most: contexts of a word at most, drawn evenly from all that there are.
        window: words that are kept of a sentence, the word itself among them, as many before as behind it as far as the
            sentence goes.
        seed: of the draw. What is drawn for a word does not depend on the other words.

    Returns:
        The contexts of each word; none where it does not occur.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.corpora.feed_corpus`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "two.txt")
    ...     _ = file.write_text("In spring old Bill, the baker, paid the bill. Bill's shop was full.")
    ...     found = draw_contexts(file, ["Bill"], window=3)["Bill"]
    >>> [(context.text, context.text[context.start : context.stop]) for context in found.drawn]
    [('old Bill, the', 'Bill'), ("Bill's shop was", 'Bill')]
    """
    found = {word: Contexts() for word in words}
    draws = {word: np.random.default_rng([seed, zlib.crc32(word.encode())]) for word in found}
    pattern = _pattern(found)
    for sentence in read_sentences(path):
        places = {" ".join(match[0].split()): match.span() for match in reversed([*pattern.finditer(sentence)])}
        for word, (start, stop) in places.items():
            contexts = found[word]
            contexts.found += 1
            if len(contexts.drawn) < most:
                contexts.drawn.append(_cut(sentence, start, stop, window))
            elif (place := int(draws[word].integers(contexts.found))) < most:
                contexts.drawn[place] = _cut(sentence, start, stop, window)
    return found


def read_sentences(path: str | Path) -> Iterator[str]:
    """Yield the sentences of a corpus.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.corpora.feed_corpus`.
    """
    return (sentence for _, sentence in read_document_sentences(path))


def read_document_sentences(path: str | Path, on_broken: OnBroken = refuse) -> Iterator[tuple[int, str]]:
    """Yield the sentences of a corpus, each with the number of its document, from 0; empty documents have a number, too.

    Documents end as in :mod:`~pytest_genderbias.datasets.corpora`. A line that cannot be read is left out where ``on_broken`` lets
    that pass.

    Raises:
        DataFileError: as :func:`read_sentences`.
    """
    number = -1
    for file in corpus_files(path):
        for sentences in _documents(file, on_broken):
            number += 1
            yield from ((number, sentence) for sentence in sentences)


def _documents(file: Path, on_broken: OnBroken) -> Iterator[Iterable[str]]:
    """Yield the sentences of each document of a file; they are to be read before the next document is."""
    if not has_documents(file):
        for _, lines in groupby(_with_document(read_lines(file, on_broken)), itemgetter(0)):
            yield _split(line for _, line in lines)
        return
    for document in read_documents(file, on_broken):
        if isinstance(document, str):
            yield _split(document.splitlines())
        else:
            yield (s if isinstance(s, str) else " ".join(s) for s in document)


def _with_document(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    number = 0
    for _, line in lines:
        number += ends_document(line)
        yield number, line


def _split(lines: Iterable[str]) -> Iterator[str]:
    """Yield the sentences of running text."""
    for paragraph in _paragraphs(lines):
        yield from _END.split(paragraph)


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    held: list[str] = []
    size = 0
    for line in lines:
        ends = not line.strip() or bool(_HEADING.fullmatch(line))
        if held and (ends or size > _LONGEST):
            yield " ".join(held)
            held, size = [], 0
        if not ends:
            held.append(line.strip())
            size += len(line)
    if held:
        yield " ".join(held)


def _pattern(words: Collection[str]) -> re.Pattern[str]:
    """Return a pattern of the words, longer ones first, so that "human being" is not taken for "human"."""
    longest = sorted(words, key=lambda word: (-len(word), word))
    any_of = "|".join(r"\s+".join(map(re.escape, word.split())) for word in longest)
    return re.compile(rf"(?<!\w)(?<!\w-)(?:{any_of})(?!-?\w)")


def _cut(sentence: str, start: int, stop: int, window: int) -> Context:
    """Return ``window`` words around the characters [start, stop), and what else the sentence has at its ends."""
    spans = [match.span() for match in _WORD.finditer(sentence)]
    inside = [i for i, (a, b) in enumerate(spans) if a < stop and b > start]
    before = (window - len(inside)) // 2
    first = max(0, min(inside[0] - before, len(spans) - window))
    last = max(inside[-1] + 1, min(len(spans), first + window))
    first = min(first, inside[0])
    left = 0 if first == 0 else spans[first][0]
    right = len(sentence) if last == len(spans) else spans[last - 1][1]
    return Context(sentence[left:right], start - left, stop - left)
