"""Documents with mentions and their clusters as rows for training: GAP, WinoBias, or files in the CoNLL-2012 format."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pytest_genderbias.datasets.conll import Document, read_conll
from pytest_genderbias.datasets.folder import DataFolder
from pytest_genderbias.datasets.gap import GapExample, read_gap
from pytest_genderbias.datasets.mentions import Span
from pytest_genderbias.datasets.winobias import WinoBiasSentence, read_winobias
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.recipes.recipe import Row
from pytest_genderbias.suites.families.shared.coreference_training import FEWEST_DOCUMENTS, conll_path

Pair = tuple[int, int]


class CoreferenceRows(NamedTuple):
    """Rows for training, rows of held-out documents, and a digest of all.

    A row has ``text``; ``mentions``: (start, end, words, cluster) of each, in the order of the text, with a number for
    the cluster; ``pairs``: the numbers of the two mentions of each pair whose classification F1 is of; and
    ``document``, a number.
    """

    training: list[Row]
    held_out: list[Row]
    digest: str


def read_coreference_rows(data: DataFolder, name: str, held_out: float) -> CoreferenceRows:
    """Read documents with mentions, and hold some of them out; the draw is always the same.

    - ``gap``: the pronoun and the two names of each passage of GAP's development part. Pairs: each name with the
      pronoun. Other mentions of the passage are not marked and not read.
    - ``winobias``: the mentions in brackets of the dev sentences, and the other profession. Pairs: each profession with
      the first pronoun. Sentences with the same two professions differ little, and form one document.
    - a path: documents in the CoNLL-2012 format with their gold mentions. Pairs: all mentions of a sentence (Tenney et
      al. 2019). The parts of a document are rows of their own and are held out together.

    The documents are those of
    :func:`~pytest_genderbias.suites.families.shared.coreference_training.coreference_training`, so that a head on a
    frozen encoder is evaluated on the same ones.

    Args:
        data: folder of the user's data sets.
        name: ``gap``, ``winobias`` or a path, relative to the working directory or the folder.
        held_out: share of the documents, above 0 and below 1.

    Raises:
        MissingDataError: the data set is missing.
        SettingError: the name is none of these.
        DataFileError: as the readers; no pair, or every pair corefers; too few documents.
    """
    if name == "gap":
        source = data.find("gap", "development")
        rows = [_gap_row(example) for example in read_gap(source)]
    elif name == "winobias":
        files = data.find_all("winobias", "dev")
        source = files[0].parent
        rows = [_winobias_row(sentence) for file in files for sentence in read_winobias(file)]
    else:
        source = conll_path(data, name)
        rows = [row for document in read_conll(source) if (row := _conll_row(document)) is not None]
    _refuse_unfit(source, rows)
    numbers = {document: number for number, document in enumerate(dict.fromkeys(str(row["document"]) for row in rows))}
    is_out = np.random.default_rng(0).permutation(len(numbers)) < max(1, round(held_out * len(numbers)))
    digest = hashlib.sha256(repr(rows).encode()).hexdigest()
    parts: tuple[list[Row], list[Row]] = ([], [])
    for row in rows:
        number = numbers[str(row["document"])]
        parts[int(is_out[number])].append({**row, "document": number})
    return CoreferenceRows(*parts, digest)


def make_row(
    text: str, mentions: Sequence[tuple[Span, int]], is_pair: Callable[[Span, Span], bool], document: str | int
) -> Row:
    """Return a document as a row.

    Args:
        text: the document.
        mentions: span and cluster of each mention, in any order.
        is_pair: whether F1 is of the pair of two mentions, of which the first is the earlier one.
        document: its name; documents of one name are held out together.

    >>> row = make_row("Ann met her.", [((8, 11), 0), ((0, 3), 0)], lambda first, second: True, "d")
    >>> row["mentions"], row["pairs"]
    (((0, 3, 'Ann', 0), (8, 11, 'her', 0)), ((0, 1),))
    """
    ordered = sorted(mentions)
    spans = [span for span, _ in ordered]
    pairs = [(i, j) for i, j in combinations(range(len(spans)), 2) if is_pair(spans[i], spans[j])]
    return {
        "text": text,
        "mentions": tuple((start, end, text[start:end], cluster) for (start, end), cluster in ordered),
        "pairs": tuple(pairs),
        "document": document,
    }


def _gap_row(example: GapExample) -> Row:
    names = zip(example.candidates, example.labels, strict=True)
    mentions = [(span, 0 if label else 1 + number) for number, (span, label) in enumerate(names)]

    def has_pronoun(first: Span, second: Span) -> bool:
        return example.pronoun in (first, second)

    return make_row(example.text, [(example.pronoun, 0), *mentions], has_pronoun, example.text)


def _winobias_row(sentence: WinoBiasSentence) -> Row:
    professions, pronoun = {sentence.gold, sentence.other}, sentence.pronouns[0]
    mentions = [(sentence.gold, 0), (sentence.other, 1), *((span, 0) for span in sentence.pronouns)]

    def is_profession_with_pronoun(first: Span, second: Span) -> bool:
        return pronoun in (first, second) and not professions.isdisjoint((first, second))

    document = " and ".join(sorted(sentence.professions))
    return make_row(sentence.text, mentions, is_profession_with_pronoun, document)


def _conll_row(document: Document) -> Row | None:
    """Return a document as a row, or ``None`` if it has no mentions."""
    mentions = [(span, number) for number, cluster in enumerate(document.clusters) for span in cluster]
    ends = [end for _, end in document.sentences]

    def in_one_sentence(first: Span, second: Span) -> bool:
        return bool(np.searchsorted(ends, first[1]) == np.searchsorted(ends, second[1]))

    name = document.id.partition(";")[0]
    return make_row(document.text, mentions, in_one_sentence, name) if mentions else None


def _refuse_unfit(source: Path, rows: Sequence[Row]) -> None:
    corefer = [row["mentions"][i][-1] == row["mentions"][j][-1] for row in rows for i, j in row["pairs"]]
    if sum(corefer) in (0, len(corefer)):
        raise DataFileError(
            f"{source}: expected pairs of mentions that corefer and pairs that do not, got {sum(corefer)} and "
            f"{len(corefer) - sum(corefer)}; a span scorer cannot be trained on them"
        )
    documents = len({row["document"] for row in rows})
    if documents < FEWEST_DOCUMENTS:
        raise DataFileError(
            f"{source}: expected at least {FEWEST_DOCUMENTS} documents with mentions, got {documents}; a span scorer"
            " cannot be trained on them"
        )
