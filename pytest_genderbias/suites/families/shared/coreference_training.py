"""What a coreference head is trained on: pairs of mentions, from GAP, WinoBias, or documents in the format of CoNLL-2012."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np

from pytest_genderbias.datasets.conll import Document, read_conll
from pytest_genderbias.datasets.folder import DataFolder, own_path
from pytest_genderbias.datasets.gap import read_gap
from pytest_genderbias.datasets.mentions import Span, gender_of_pronoun, words_of
from pytest_genderbias.datasets.winobias import read_winobias
from pytest_genderbias.errors import DataFileError, SettingError
from pytest_genderbias.suites.cases import TextCases

#: Pairs at most; of larger sets whole documents are drawn, always the same ones.
MOST_PAIRS = 20_000
#: Fewer documents cannot be parted into those for training, for stopping, and for F1.
FEWEST_DOCUMENTS = 10


@dataclass(frozen=True)
class CoreferenceTraining:
    """Pairs of mentions in a text, and whether they corefer.

    ``examples``: the text, two spans, and the facts ``label`` (true: they corefer) and ``document`` (a number; pairs of one
    document are never parted between training and measuring). Where a pronoun and another mention make a pair, the pronoun is
    the second. The repr is the name and the digest, which are all that a cache need know.
    """

    name: str
    digest: str
    examples: TextCases = field(repr=False, compare=False)


@dataclass(frozen=True)
class _Pair:
    text: str
    spans: tuple[Span, Span]
    corefer: bool
    document: str


def coreference_training(data: DataFolder, name: str) -> CoreferenceTraining:
    """Read what a coreference head is trained on.

    ``gap``: GAP's development set (its authors' training set): each name with the pronoun. ``winobias``: WinoBias's dev set: each
    profession with the pronoun that is asked about. A path, from here or in the data folder: documents in the format of
    CoNLL-2012 (OntoNotes), where all mentions of a sentence are paired, as in Tenney et al. 2019 (published code): within a
    cluster they corefer, between clusters they do not. Of more than 20,000 pairs, whole documents are drawn.

    Data that a head was trained on measure nothing afterwards: choose others than those of the suite. WinoBias in CoNLL form
    has one cluster a sentence, so no pair that does not corefer; take ``winobias``.

    Args:
        data: the folder of the user's data sets.
        name: ``gap``, ``winobias`` or a path.

    Raises:
        MissingDataError: the data set is not there.
        SettingError: the name is none of these.
        DataFileError: as the readers; all pairs corefer, or none does; too few documents.
    """
    if name == "gap":
        source = data.find("gap", "development")
        pairs = _gap_pairs(source)
    elif name == "winobias":
        files = data.find_all("winobias", "dev")
        source = files[0].parent
        pairs = [pair for file in files for pair in _winobias_pairs(file)]
    else:
        source = _path_of(data, name)
        pairs = [pair for document in read_conll(source) for pair in _document_pairs(document)]
    _refuse_unfit(source, pairs)
    kept = _drawn(pairs, MOST_PAIRS)
    numbers = {document: number for number, document in enumerate(dict.fromkeys(pair.document for pair in kept))}
    examples = TextCases(
        [(pair.text,) for pair in kept],
        [pair.spans for pair in kept],
        {
            "label": np.asarray([pair.corefer for pair in kept], dtype=np.bool_),
            "document": np.asarray([numbers[pair.document] for pair in kept], dtype=np.int64),
        },
    )
    return CoreferenceTraining(name, examples.digest(), examples)


def _gap_pairs(path: Path) -> list[_Pair]:
    return [
        _Pair(example.text, (name, example.pronoun), label, example.text)
        for example in read_gap(path)
        for name, label in zip(example.candidates, example.labels, strict=True)
    ]


def _winobias_pairs(path: Path) -> Iterator[_Pair]:
    """Yield the pairs of each sentence. Sentences of the same two professions are one document: they differ in a word or two."""
    for sentence in read_winobias(path):
        document = " and ".join(sorted(sentence.professions))
        for person, corefer in ((sentence.gold, True), (sentence.other, False)):
            yield _Pair(sentence.text, (person, sentence.pronouns[0]), corefer, document)


def _document_pairs(document: Document) -> Iterator[_Pair]:
    """Yield all pairs of mentions of a sentence. The parts of a document stay together."""
    cluster_of = {mention: number for number, cluster in enumerate(document.clusters) for mention in cluster}
    mentions = sorted(cluster_of)
    name = document.id.partition(";")[0]
    for start, end in document.sentences:
        text = document.text[start:end]
        inside = [mention for mention in mentions if start <= mention[0] and mention[1] <= end]
        for a, b in combinations(inside, 2):
            spans = sorted(((a[0] - start, a[1] - start), (b[0] - start, b[1] - start)), key=lambda s: _order(text, s))
            yield _Pair(text, (spans[0], spans[1]), cluster_of[a] == cluster_of[b], name)


def _order(text: str, span: Span) -> tuple[bool, Span]:
    return gender_of_pronoun(words_of(text, span)) is not None, span


def _path_of(data: DataFolder, name: str) -> Path:
    for path in (own_path(name), *([data.root / name] if data.root is not None else [])):
        if name and path.exists():
            return path
    raise SettingError(
        f"a coreference head cannot be trained on {name!r}: expected gap, winobias, or the path of a file or folder in the format of "
        "CoNLL-2012, from here or in the folder of --bias-data"
    )


def _refuse_unfit(source: Path, pairs: Sequence[_Pair]) -> None:
    corefer = sum(pair.corefer for pair in pairs)
    if corefer in (0, len(pairs)):
        raise DataFileError(
            f"{source}: expected pairs of mentions in a sentence that corefer and pairs that do not, got {corefer} and "
            f"{len(pairs) - corefer}; a head cannot be trained on them"
        )
    documents = len({pair.document for pair in pairs})
    if documents < FEWEST_DOCUMENTS:
        raise DataFileError(
            f"{source}: expected at least {FEWEST_DOCUMENTS} documents with pairs of mentions, got {documents}; "
            "a head cannot be trained on them"
        )


def _drawn(pairs: list[_Pair], most: int) -> list[_Pair]:
    """Return the pairs of as many documents, in a fixed random order, as have at most so many pairs; at least enough documents."""
    documents, number, sizes = np.unique([pair.document for pair in pairs], return_inverse=True, return_counts=True)
    order = np.random.default_rng(0).permutation(len(documents))
    n = max(FEWEST_DOCUMENTS, int(np.searchsorted(np.cumsum(sizes[order]), most, side="right")))
    chosen = np.isin(number.ravel(), order[:n])
    return [pair for pair, keep in zip(pairs, chosen, strict=True) if keep]
