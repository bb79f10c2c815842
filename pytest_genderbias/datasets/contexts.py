"""Contexts of words: sentences of a corpus, cut to a window around the word, and a random sample of them for each word.

A document may list its sentences. In running text a sentence ends at ``.``, ``!`` or ``?`` before a capital letter,
except after titles and initials. A paragraph ends at an empty line or a heading (``= Title =``), which also ends the
sentence.
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
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.text.normal_form import NormalText, normal_form, word_pattern
from pytest_genderbias.text.unspaced import CutCheck

_END = re.compile(
    r"(?:(?<=[.!?])|(?<=[.!?][\"'”’)]))(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bSt\.)(?<!\b[A-Z]\.)"
    r"\s+(?=[\"'“‘(`]*[A-Z])"
)
_HEADING = re.compile(r"\s*=+ .+ =+\s*")
_WORD = r"[\w]+(?:[-'’][\w]+)*"
_LONGEST = 1 << 16  #: Characters of a paragraph; a longer one is split at the end of a line.


@dataclass(frozen=True)
class WordContext:
    """A text with the position of a word in it: characters [start, stop)."""

    text: str
    start: int
    stop: int


@dataclass
class ContextSample:
    """A random sample of the contexts of a word. ``total`` is the number of contexts in the corpus."""

    drawn: list[WordContext] = field(default_factory=list)
    total: int = 0


def draw_contexts(
    path: str | Path, words: Collection[str], *, most: int = 200, window: int = 9, seed: int = 0
) -> dict[str, ContextSample]:
    """Sample contexts of words from a corpus.

    The corpus is read once, in memory that does not grow with it. A word occurs in a sentence if the case is equal and
    no letter, digit or hyphen is next to it: "John's" contains "John"; "bill" and "Bill-like" do not contain "Bill".
    Words are matched in their normal form (:mod:`~pytest_genderbias.text.normal_form`), and the contexts keep their
    characters. A sentence is one context of a word, at the first occurrence.

    Args:
        path: A file, or a folder of files, as for :func:`~pytest_genderbias.datasets.corpora.feed_corpus`.
        words: The words; a word may contain spaces.
        most: The largest number of contexts for a word, sampled uniformly from all its contexts.
        window: The number of words of a context, the word included; it is centred on the word where the sentence
            allows.
        seed: The seed of the sample. The sample of a word does not depend on the other words.

    Returns:
        The sample of each word, which is empty if the word does not occur.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.corpora.feed_corpus`, also of a text that is not cut into
            words.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "two.txt")
    ...     _ = file.write_text("In spring old Bill, the baker, paid the bill. Bill's shop was full.")
    ...     sample = draw_contexts(file, ["Bill"], window=3)["Bill"]
    >>> [(context.text, context.text[context.start : context.stop]) for context in sample.drawn]
    [('old Bill, the', 'Bill'), ("Bill's shop was", 'Bill')]
    """
    samples = {word: ContextSample() for word in words}
    generators = {word: np.random.default_rng([seed, zlib.crc32(word.encode())]) for word in samples}
    word_of = {" ".join(normal_form(word).split()): word for word in samples}
    pattern = _pattern(word_of)
    check = CutCheck()
    for sentence in read_sentences(path):
        check.add(sentence)
        normal = NormalText(sentence)
        found = reversed([*word_pattern(pattern, normal.text).finditer(normal.text)])
        positions = {word_of[" ".join(match[0].split())]: normal.span(*match.span()) for match in found}
        for word, (start, stop) in positions.items():
            sample = samples[word]
            sample.total += 1
            if len(sample.drawn) < most:
                sample.drawn.append(_cut(sentence, start, stop, window))
            elif (index := int(generators[word].integers(sample.total))) < most:
                sample.drawn[index] = _cut(sentence, start, stop, window)
    check.refuse(path, DataFileError)
    return samples


def read_sentences(path: str | Path) -> Iterator[str]:
    """Yield the sentences of a corpus.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.corpora.feed_corpus`.
    """
    return (sentence for _, sentence in read_document_sentences(path))


def read_document_sentences(path: str | Path, on_broken: OnBroken = refuse) -> Iterator[tuple[int, str]]:
    """Yield the sentences of a corpus with the number of their document, from 0; empty documents are counted.

    Documents end as in :mod:`~pytest_genderbias.datasets.corpora`. An unreadable line is skipped if ``on_broken`` does
    not raise.

    Raises:
        DataFileError: as :func:`read_sentences`.
    """
    number = -1
    for file in corpus_files(path):
        for sentences in _documents(file, on_broken):
            number += 1
            yield from ((number, sentence) for sentence in sentences)


def _documents(file: Path, on_broken: OnBroken) -> Iterator[Iterable[str]]:
    """Yield the sentences of each document of a file. Read them before the next document."""
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
    paragraph: list[str] = []
    size = 0
    for line in lines:
        ends = not line.strip() or bool(_HEADING.fullmatch(line))
        if paragraph and (ends or size > _LONGEST):
            yield " ".join(paragraph)
            paragraph, size = [], 0
        if not ends:
            paragraph.append(line.strip())
            size += len(line)
    if paragraph:
        yield " ".join(paragraph)


def _pattern(words: Collection[str]) -> str:
    """Return a pattern of the words, longer ones first, so that "human being" does not match as "human"."""
    longest = sorted(words, key=lambda word: (-len(word), word))
    any_of = "|".join(r"\s+".join(map(re.escape, word.split())) for word in longest)
    return rf"(?<![\w])(?<![\w]-)(?:{any_of})(?!-?[\w])"


def _cut(sentence: str, start: int, stop: int, window: int) -> WordContext:
    """Return ``window`` words around the characters [start, stop), with the punctuation at the ends of the sentence."""
    spans = [match.span() for match in word_pattern(_WORD, sentence).finditer(sentence)]
    inside = [i for i, (a, b) in enumerate(spans) if a < stop and b > start]
    before = (window - len(inside)) // 2
    first = max(0, min(inside[0] - before, len(spans) - window))
    last = max(inside[-1] + 1, min(len(spans), first + window))
    first = min(first, inside[0])
    left = 0 if first == 0 else spans[first][0]
    right = len(sentence) if last == len(spans) else spans[last - 1][1]
    return WordContext(sentence[left:right], start - left, stop - left)
