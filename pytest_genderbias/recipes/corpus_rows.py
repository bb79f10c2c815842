"""Sentences of a corpus, split into rows for training and held-out passages."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.corpora import corpus_sha256, read_document_sentences
from pytest_genderbias.datasets.folder import DataFolder, data_set_of, known_data_sets, own_path
from pytest_genderbias.errors import BiasWarning, DataFileError
from pytest_genderbias.recipes.recipe import Row, SplitRows
from pytest_genderbias.recipes.trainer import TrainingSettings
from pytest_genderbias.text.schema import Count, Share, check_setting
from pytest_genderbias.text.unspaced import check_of

_PASSAGES = 10  #: approximate minimum number of held-out passages
_SMALLEST, _LARGEST = 50, 2000  #: minimum and maximum target length of a passage, in words
_WHOLE = 3  #: documents longer than this many passages are split
_SHOWN = 5  #: maximum number of warnings about broken lines


@dataclass(frozen=True)
class CorpusTraining(TrainingSettings):
    """The settings of a training on the sentences of a corpus; see :func:`read_sentence_rows`."""

    columns: ClassVar[tuple[str, ...]] = ("text",)

    corpus: str = "brown"
    held_out: Share = 0.1
    max_tokens: Count | None = None

    def rows(self) -> list[Row]:
        """Return the training sentences, each with its ``place`` in the corpus."""
        return list(self._text.training)

    @property
    def _is_data_set(self) -> bool:
        return data_set_of(self.corpus, known_data_sets()) is not None

    @cached_property
    def _text(self) -> SplitRows:
        return read_sentence_rows(self.corpus, self.data, self.max_tokens, self.held_out)

    @property
    def _passages(self) -> list[list[str]]:
        """The sentences of each held-out passage."""
        by_passage = groupby(self._text.held_out, lambda row: row["passage"])
        return [[row["text"] for row in rows] for _, rows in by_passage]


def read_sentence_rows(
    corpus: str, data: str | None = None, max_tokens: int | None = None, held_out: float = 0.1
) -> SplitRows:
    """Read the sentences of a corpus (``text``), with their ``place`` in it, and hold some of its passages out, with
    the number of their ``passage``.

    A passage is a document, several short documents, or a part of a long one. Its target length is 50 to 2,000 words,
    so that about ten or more passages are held out, spread evenly over the corpus. The same corpus and settings always
    give the same rows. Texts are not normalised: Brown and WikiText-2 have spaces around punctuation, and the latter
    has ``<unk>`` for rare words.

    Args:
        corpus: a data set (``brown``, ``wikitext2/valid``, ``war_and_peace``, ``state_union`` ...), or the path of a
            text, of JSON lines with ``text`` or ``sentences``, or of a folder of them (see
            :mod:`~pytest_genderbias.datasets.corpora`).
        data: folder of the user's data sets; not used for a path.
        max_tokens: approximate maximum number of words (split at white space), in whole sentences; ``None``: all.
        held_out: share of the passages that is held out, above 0 and below 1.

    Warns:
        UserWarning: a line cannot be read and is skipped; the message begins with file and line.

    Raises:
        MissingDataError: the data set is not there.
        DataFileError: the file does not exist, has too few words to hold any out, or no spaces between words.
        SettingError: a setting has an invalid value.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "rain.txt")
    ...     _ = path.write_text(" ".join(f"It rains on day {day} again." for day in range(100)))
    ...     rows = read_sentence_rows(str(path))
    >>> rows.training[0], rows.held_out[0], len(rows.training), len(rows.held_out)
    ({'text': 'It rains on day 0 again.', 'place': 0}, {'text': 'It rains on day 54 again.', 'passage': 6}, 91, 9)
    """
    check_setting("held_out", Share, held_out)
    check_setting("max_tokens", Count | None, max_tokens)
    files = _files(corpus, data)
    sentences, documents = _read(files, max_tokens)
    check_of(sentences).refuse(corpus, DataFileError)
    words = np.asarray([len(sentence.split()) for sentence in sentences], dtype=np.int64)
    passage = _passages(words, np.asarray(documents, dtype=np.int64), held_out)
    held_out_passages = _held_out(int(passage[-1]) + 1 if len(passage) else 0, held_out, corpus)
    training: list[Row] = []
    apart: list[Row] = []
    for place, (sentence, number) in enumerate(zip(sentences, passage.tolist(), strict=True)):
        if number in held_out_passages:
            apart.append({"text": sentence, "passage": number})
        else:
            training.append({"text": sentence, "place": place})
    return SplitRows(training, apart, corpus_sha256(files)[:16])


def _files(corpus: str, data: str | None) -> tuple[Path, ...]:
    name = data_set_of(corpus, known_data_sets())
    if name is None:
        return (own_path(corpus),)
    folder = DataFolder(None if data is None else own_path(data))
    return folder.find_all(name, corpus.partition("/")[2] or None)


def _read(files: tuple[Path, ...], most: int | None) -> tuple[list[str], list[int]]:
    """Return the sentences and the document of each. Warns of lines that cannot be read."""
    broken = 0

    def warn(error: DataFileError) -> None:
        nonlocal broken
        broken += 1
        if broken <= _SHOWN:
            warnings.warn(f"{error} (the line is left out)", BiasWarning, stacklevel=2)

    sentences: list[str] = []
    documents: list[int] = []
    words = first = 0
    for file in files:
        for document, sentence in read_document_sentences(file, warn):
            if sentence.strip() and (most is None or words < most):
                sentences.append(sentence.strip())
                documents.append(first + document)
                words += len(sentence.split())
            elif most is not None and words >= most:
                break
        first = documents[-1] + 1 if documents else 0
    if broken > _SHOWN:
        warnings.warn(f"{broken} lines in all cannot be read, and are left out", BiasWarning, stacklevel=2)
    return sentences, documents


def _passages(words: NDArray[np.int64], documents: NDArray[np.int64], share: float) -> NDArray[np.int64]:
    """Return the passage number of each sentence, from 0. A passage that is long enough ends with a document, unless
    that is very long.
    """
    size = min(max(int(words.sum() * share / _PASSAGES), _SMALLEST), _LARGEST)
    long = np.bincount(documents, words, minlength=1) > _WHOLE * size
    passage = np.zeros(len(words), dtype=np.int64)
    number = length = 0
    for i, (count, document) in enumerate(zip(words.tolist(), documents.tolist(), strict=True)):
        if length >= size and (long[document] or document != documents[i - 1]):
            number, length = number + 1, 0
        passage[i] = number
        length += count
    return passage


def _held_out(n: int, share: float, corpus: str) -> frozenset[int]:
    """Return the numbers of the held-out passages among n, spread evenly."""
    count = max(1, round(n * share))
    if count >= n:
        raise DataFileError(f"{corpus}: too few words to hold some out: {n} passages of {_SMALLEST} words or more")
    return frozenset(((np.arange(count) + 0.5) * n / count).astype(np.int64).tolist())
