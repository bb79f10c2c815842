"""The output of a coreference system, read from a file that the user writes with any system.

The file has JSON lines (``.jsonl`` or ``.jsonl.gz``), one sentence per line, in any order. For example (one line in the
file):

    {"id": "dev-type1-pro-1",
     "sentence": "The developer argued with the designer because he did not like the design.",
     "clusters": [[[0, 13, "The developer"], [47, 49, "he"]]],
     "pronoun_scores": {"he@47": {"(none)": -0.2, "The developer@0": 1.4, "the designer@26": 0.3}}}

``id``
    The id of the sentence, unique in the file. WinoBias: split, type, side and number, ``dev-type1-pro-1`` (``dev`` or
    ``test``; 1 or 2; ``pro`` or ``anti``; the number at the start of the line). Winogender: the sentid,
    ``nurse.patient.1.female.txt``. GAP: the ID, ``development-1``.
``clusters``
    The clusters that the system found, possibly an empty list. A cluster is a list of mentions. A mention is a list of
    its first character, the character after its last (from 0, in Unicode characters), and, optionally, its words. A
    mention occurs at most once in a sentence.
``pronoun_scores``
    The scores of a system that scores pairs, by pronoun and candidate: the larger, the likelier the two are one entity.
    Pronouns and candidates are written as their words, ``@``, and their first character. A missing candidate was not
    considered. ``(none)`` may hold the score of "no candidate"; it is not used.
``sentence``
    Optional: the text that the system read. It must be equal to the text of the data set.

Each line has ``clusters`` or ``pronoun_scores`` or both, and all lines have the same. Other keys are ignored.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_genderbias.datasets.files import LinesById, Row, place, read_rows, refuse_repeats
from pytest_genderbias.datasets.mentions import Span, is_mention_of, words_of
from pytest_genderbias.errors import DataFileError, NotApplicableError
from pytest_genderbias.text.normal_form import normal_form
from pytest_genderbias.text.printable import brief

_ANSWERS = ("clusters", "pronoun_scores")
_NO_CANDIDATE = "(none)"


@dataclass(frozen=True)
class SentenceOutput:
    """The output for one sentence: clusters of spans, and scores by pronoun and candidate; None if the file has none.

    ``words`` holds the words at each span, as the file states them.
    """

    sentence: str | None
    clusters: tuple[tuple[Span, ...], ...] | None
    pronoun_scores: Mapping[Span, Mapping[Span, float]] | None
    words: Mapping[Span, str]
    line: int


def read_coreference_output(path: Path) -> LinesById[SentenceOutput]:
    """Read the output of a coreference system by the id of the sentence; see the module for the format.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.files.read_rows`; neither clusters nor scores, or not the
            same as in the first line; a mention that is malformed, duplicate, outside the sentence or different from
            its words there; a score that is not a finite number, or the same for all candidates of each pronoun; a
            duplicate id.
    """
    sentences: list[tuple[int, str, SentenceOutput]] = []
    first: list[str] = []
    for row in read_rows(path, ("id",), optional=("sentence", *_ANSWERS)):
        present = [key for key in _ANSWERS if key in row.cells]
        first = first or present
        if not present or present != first:
            expected = " and ".join(first) if first else " or ".join(_ANSWERS)
            raise row.error(f"expected {expected}, got {' and '.join(present) or 'neither'}")
        sentences.append((row.line, row.text("id"), _read_sentence(row)))
    refuse_repeats(path, ((line, name) for line, name, _ in sentences))
    scores = [list(of.values()) for *_, one in sentences for of in (one.pronoun_scores or {}).values()]
    tied = [len(set(of)) == 1 for of in scores if len(of) > 1]
    if "clusters" not in first and len(tied) > len(scores) / 2 and all(tied):
        raise DataFileError(f"{path}: all candidates of each pronoun have one score; expected a higher one for its own")
    return LinesById(path, {name: sentence for _, name, sentence in sentences})


def outputs_for(output: LinesById[SentenceOutput], texts: Iterable[tuple[str, str]]) -> list[SentenceOutput]:
    """Return the output for each sentence of a data set, in the order of ``texts``.

    Args:
        output: The whole file, which may also hold sentences of other data sets or splits.
        texts: Id and text of each sentence.

    Raises:
        NotApplicableError: the file has none of the sentences: it is the output on another data set.
        DataFileError: the file lacks a sentence, has another text for it, or states other words for a mention.
    """
    wanted = list(texts)
    ids = [name for name, _ in wanted]
    if ids and not output.lines.keys() & ids:
        own = next(iter(output.lines), None)
        raise NotApplicableError(
            f"{output.path} is the output on another data set: it has none of these {len(ids)} sentences, such as"
            f" {brief(ids[0])}" + ("" if own is None else f"; its own are such as {brief(own)}")
        )
    outputs = output.of(ids, "a line", "sentences")
    for sentence, (_, text) in zip(outputs, wanted, strict=True):
        _refuse_other_text(output.path, sentence, text)
    return outputs


def is_linked(output: SentenceOutput, text: str, pronoun: Span, candidates: Sequence[Span]) -> tuple[bool, ...]:
    """Return for each candidate whether the system put it into one cluster with the pronoun.

    :func:`~pytest_genderbias.datasets.mentions.is_mention_of` decides which mentions of the cluster are a candidate's.
    """
    mentions = [span for cluster in output.clusters or () if pronoun in cluster for span in cluster]
    return tuple(any(is_mention_of(text, span, candidate) for span in mentions) for candidate in candidates)


def scores_with_pronoun(
    output: SentenceOutput, text: str, pronoun: Span, candidates: Sequence[Span]
) -> tuple[float, ...]:
    """Return the score of each candidate with the pronoun, -inf if the system has none.

    A candidate with several mentions (:func:`~pytest_genderbias.datasets.mentions.is_mention_of`) gets their highest
    score.
    """
    scores = (output.pronoun_scores or {}).get(pronoun, {})
    return tuple(
        max((score for span, score in scores.items() if is_mention_of(text, span, candidate)), default=-math.inf)
        for candidate in candidates
    )


def _refuse_other_text(path: Path, output: SentenceOutput, text: str) -> None:
    where = place(path, output.line)
    if output.sentence is not None and output.sentence != text:
        raise DataFileError(f"{where}: expected the sentence {brief(text)}, got {brief(output.sentence)}")
    for span, words in output.words.items():
        found = words_of(text, span)
        if span[1] > len(text):
            raise DataFileError(
                f"{where}: the mention {list(span)} ends after the sentence, which has {len(text)} characters"
            )
        if words and normal_form(found) != normal_form(words):
            raise DataFileError(f"{where}: expected {brief(words)} at {list(span)}, got {brief(found)}")


def _read_sentence(row: Row) -> SentenceOutput:
    sentence = row.cells.get("sentence")
    if sentence is not None and not isinstance(sentence, str):
        raise row.error(f"expected a text in 'sentence', got {brief(sentence)}")
    words: dict[Span, str] = {}
    clusters = tuple(_read_clusters(row, words)) if "clusters" in row.cells else None
    scores = _read_scores(row, words) if "pronoun_scores" in row.cells else None
    output = SentenceOutput(sentence, clusters, scores, words, row.line)
    if sentence is not None:
        _refuse_other_text(row.path, output, sentence)
    return output


def _read_clusters(row: Row, words: dict[Span, str]) -> Iterator[tuple[Span, ...]]:
    value = row.cells["clusters"]
    if not isinstance(value, list) or not all(isinstance(cluster, list) and cluster for cluster in value):
        raise row.error(f"expected a list of clusters, each a list of mentions, got {brief(value)}")
    seen: set[Span] = set()
    for cluster in value:
        spans = tuple(_read_mention(row, mention, words) for mention in cluster)
        for span in spans:
            if span in seen:
                raise row.error(f"duplicate mention {list(span)} in the clusters; expected each mention once")
            seen.add(span)
        yield spans


def _read_mention(row: Row, value: object, words: dict[Span, str]) -> Span:
    if not isinstance(value, list) or len(value) not in (2, 3) or not all(type(end) is int for end in value[:2]):
        raise row.error(f"expected a mention [start, end] or [start, end, words], got {brief(value)}")
    start, end, text = value[0], value[1], value[2] if len(value) == 3 else ""
    if not 0 <= start < end or not isinstance(text, str) or (text and len(text) != end - start):
        raise row.error(f"expected a mention of as many characters as its words have, got {brief(value)}")
    _note_words(row, (start, end), text, words)
    return start, end


def _read_scores(row: Row, words: dict[Span, str]) -> dict[Span, dict[Span, float]]:
    value = row.cells["pronoun_scores"]
    if not isinstance(value, dict) or not all(isinstance(scores, dict) for scores in value.values()):
        raise row.error(f"expected 'pronoun_scores' by pronoun and candidate, got {brief(value)}")
    return {
        _read_name(row, pronoun, words): {
            _read_name(row, candidate, words): _read_score(row, candidate, score)
            for candidate, score in scores.items()
            if candidate != _NO_CANDIDATE
        }
        for pronoun, scores in value.items()
    }


def _read_name(row: Row, name: str, words: dict[Span, str]) -> Span:
    text, at, start = name.rpartition("@")
    if not at or not text or not re.fullmatch(r"[0-9]{1,18}", start):
        raise row.error(f"expected words@start, such as he@47, got {brief(name)}")
    span = int(start), int(start) + len(text)
    _note_words(row, span, text, words)
    return span


def _note_words(row: Row, span: Span, text: str, words: dict[Span, str]) -> None:
    known = words.setdefault(span, text)
    if known and text and known != text:
        raise row.error(f"the mention {list(span)} is {brief(known)} in one place and {brief(text)} in another")
    words[span] = known or text


def _read_score(row: Row, candidate: str, value: object) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not -sys.float_info.max <= value <= sys.float_info.max
    ):
        raise row.error(f"expected a finite number as score of {brief(candidate)}, got {brief(value)}")
    return float(value)
