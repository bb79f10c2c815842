"""Training data of a coreference head: pairs of mentions from GAP, WinoBias, or documents in the CoNLL-2012 format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pytest_genderbias.datasets.conll import Document, read_conll
from pytest_genderbias.datasets.folder import DataFolder
from pytest_genderbias.datasets.mentions import Span, gender_of_pronoun, words_of
from pytest_genderbias.datasets.pronoun_sentences import read_gap, read_winobias
from pytest_genderbias.errors import DataFileError, SettingError
from pytest_genderbias.suites.cases import TextCases
from pytest_genderbias.text.plain_files import expand

#: The largest number of pairs. From a larger set, whole documents are drawn with a fixed seed.
MOST_PAIRS = 20_000
#: The smallest number of documents that can be split into training, early stopping and evaluation.
FEWEST_DOCUMENTS = 10


@dataclass(frozen=True)
class CoreferenceTraining:
    """Pairs of mentions in a text, and whether they corefer.

    ``examples``: the text, two spans, and the facts ``label`` (true: they corefer) and ``document`` (a number; a split
    keeps the pairs of a document together). In a pair of a pronoun and another mention, the pronoun is second. The repr
    contains only the name and the digest, which are the cache key.
    """

    name: str
    digest: str
    examples: TextCases = field(repr=False, compare=False)


class _MentionPair(NamedTuple):
    text: str
    spans: tuple[Span, Span]
    corefer: bool
    document: str


def coreference_training(data: DataFolder, name: str) -> CoreferenceTraining:
    """Read the training data of a coreference head.

    - ``gap``: each name of the GAP development set (meant for training) with the pronoun.
    - ``winobias``: each profession of the WinoBias dev set with the pronoun.
    - A path, relative to the working directory or the data folder: documents in the CoNLL-2012 format (OntoNotes). All
      mentions of a sentence are paired, as in the code of Tenney et al. 2019; they corefer within a cluster.

    From more than 20,000 pairs, whole documents are drawn.

    Do not train on the data of the suite. WinoBias in the CoNLL format has one cluster per sentence, hence no pair that
    does not corefer; use ``winobias`` instead.

    Args:
        data: the folder of the user's data sets.
        name: ``gap``, ``winobias`` or a path.

    Raises:
        MissingDataError: the data set is missing.
        SettingError: the name is none of these.
        DataFileError: as the readers; all pairs corefer, or none does; too few documents.
    """
    if name == "gap":
        source = data.find("gap", "development")
        pairs = [
            _MentionPair(example.text, (name, example.pronoun), label, example.text)
            for example in read_gap(source)
            for name, label in zip(example.candidates, example.labels, strict=True)
        ]
    elif name == "winobias":
        files = data.find_all("winobias", "dev")
        source = files[0].parent
        pairs = [pair for file in files for pair in _winobias_pairs(file)]
    else:
        source = conll_path(data, name)
        pairs = [pair for document in read_conll(source) for pair in _document_pairs(document)]
    refuse_unfit(source, [pair.corefer for pair in pairs], [pair.document for pair in pairs])
    drawn = _drawn(pairs, MOST_PAIRS)
    numbers = {document: number for number, document in enumerate(dict.fromkeys(pair.document for pair in drawn))}
    examples = TextCases(
        [(pair.text,) for pair in drawn],
        [pair.spans for pair in drawn],
        {
            "label": np.asarray([pair.corefer for pair in drawn], dtype=np.bool_),
            "document": np.asarray([numbers[pair.document] for pair in drawn], dtype=np.int64),
        },
    )
    return CoreferenceTraining(name, examples.digest(), examples)


def _winobias_pairs(path: Path) -> Iterator[_MentionPair]:
    """Yield the pairs of each sentence. Sentences with the same two professions differ little, so they form one
    document.
    """
    for sentence in read_winobias(path):
        document = " and ".join(sorted(sentence.professions))
        for person, corefer in ((sentence.gold, True), (sentence.other, False)):
            yield _MentionPair(sentence.text, (person, sentence.pronouns[0]), corefer, document)


def _document_pairs(document: Document) -> Iterator[_MentionPair]:
    """Yield all pairs of mentions within a sentence. All parts of a document have one name."""
    cluster_of = {mention: number for number, cluster in enumerate(document.clusters) for mention in cluster}
    mentions = sorted(cluster_of)
    name = document.id.partition(";")[0]
    for start, end in document.sentences:
        text = document.text[start:end]
        inside = [mention for mention in mentions if start <= mention[0] and mention[1] <= end]
        for a, b in combinations(inside, 2):
            first, second = ((span[0] - start, span[1] - start) for span in (a, b))
            if gender_of_pronoun(words_of(text, first)) and not gender_of_pronoun(words_of(text, second)):
                first, second = second, first
            yield _MentionPair(text, (first, second), cluster_of[a] == cluster_of[b], name)


def conll_path(data: DataFolder, name: str) -> Path:
    """Return the path of documents in the CoNLL-2012 format, relative to the working directory or the data folder.

    Raises:
        SettingError: there is no such file or folder.
    """
    for path in (expand(name), *([data.root / name] if data.root is not None else [])):
        if name and path.exists():
            return path
    raise SettingError(
        f"a coreference head cannot be trained on {name!r}: expected gap, winobias, or the path of a file or folder in"
        " the CoNLL-2012 format, relative to the working directory or the folder of --bias-data"
    )


def refuse_unfit(source: Path, corefer: Sequence[bool], documents: Sequence[str]) -> None:
    """Refuse pairs of mentions that no head can be trained on.

    Args:
        source: where they are from.
        corefer: whether each pair corefers.
        documents: the names of the documents, each once or more.

    Raises:
        DataFileError: all pairs corefer, or none does; or there are too few documents.
    """
    count, right = len(set(documents)), sum(corefer)
    if right in (0, len(corefer)):
        raise DataFileError(
            f"{source}: expected pairs of mentions that corefer and pairs that do not, got {right} and "
            f"{len(corefer) - right}; a head cannot be trained on them"
        )
    if count < FEWEST_DOCUMENTS:
        raise DataFileError(
            f"{source}: expected at least {FEWEST_DOCUMENTS} documents with mentions, got {count}; "
            "a head cannot be trained on them"
        )


def _drawn(pairs: list[_MentionPair], most: int) -> list[_MentionPair]:
    """Return the pairs of the first documents in a fixed random order, up to ``most`` pairs or ``FEWEST_DOCUMENTS``
    documents.
    """
    documents, number, sizes = np.unique([pair.document for pair in pairs], return_inverse=True, return_counts=True)
    order = np.random.default_rng(0).permutation(len(documents))
    n = max(FEWEST_DOCUMENTS, int(np.searchsorted(np.cumsum(sizes[order]), most, side="right")))
    is_drawn = np.isin(number.ravel(), order[:n])
    return [pair for pair, keep in zip(pairs, is_drawn, strict=True) if keep]
