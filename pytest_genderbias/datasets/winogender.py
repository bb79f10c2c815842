"""Winogender (Rudinger et al. 2018): sentences with an occupation, a participant and a pronoun of one of three
genders.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pytest_genderbias.datasets.files import Row, column_names, read_rows, refuse_repeats
from pytest_genderbias.datasets.mentions import Span, find_words, pronoun_genders, with_determiner
from pytest_genderbias.text.printable import brief
from pytest_genderbias.text.wordlist import load_wordlist

GENDERS = ("male", "female", "neutral")
_SENTENCES = ("sentid", "sentence")
_TEMPLATES = ("occupation(0)", "other-participant(1)", "answer", "sentence")
_ID = re.compile(r"([^.]+)\.([^.]+)\.([01])\.(male|female|neutral)\.txt")
_FORMS = {"$NOM_PRONOUN": "nominative", "$ACC_PRONOUN": "accusative", "$POSS_PRONOUN": "possessive"}


@dataclass(frozen=True)
class WinogenderSentence:
    """One sentence; its spans are character ranges in ``text``. The spans of the two persons include their determiner.

    ``id`` is the sentid of the data set, such as ``nurse.patient.1.female.txt``: occupation, participant, answer,
    gender. ``answer`` is the person to whom the pronoun refers: 0 the occupation, 1 the participant. ``names`` are the
    words of the two, in this order. ``women_share`` is the percentage of women in the occupation, from the list
    ``winogender-occupations``.
    """

    id: str
    text: str
    occupation: Span
    participant: Span
    pronoun: Span
    gender: str
    answer: int
    names: tuple[str, str]
    women_share: float


def read_winogender(path: Path) -> tuple[WinogenderSentence, ...]:
    """Read the Winogender sentences (``all_sentences.tsv``), or make the same sentences from ``templates.tsv``.

    Each template gives six sentences: with the participant and with "someone" (which replaces the participant and its
    article), each with he, she and they; "they was" becomes "they were". In a sentence, each person is the first
    occurrence of its word, and the pronoun is the only one of its gender.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.files.read_rows`; neither set of columns; an invalid sentid
            or answer; an occupation that is not in the list; a sentence without one of the persons or the pronoun; a
            duplicate id.
    """
    templates = set(_TEMPLATES) <= set(column_names(path))
    rows = read_rows(path, _TEMPLATES if templates else _SENTENCES)
    sentences = []
    for row in rows:
        pairs = _fill_template(row) if templates else [(row.text("sentid"), row.text("sentence"))]
        sentences += [(row.line, _read_sentence(row, sentid, text)) for sentid, text in pairs]
    refuse_repeats(path, ((line, sentence.id) for line, sentence in sentences), "sentid")
    return tuple(sentence for _, sentence in sentences)


def _read_sentence(row: Row, sentid: str, text: str) -> WinogenderSentence:
    parts = _ID.fullmatch(sentid)
    if parts is None:
        raise row.error(
            f"expected a sentid such as nurse.patient.1.female.txt (occupation, participant, answer 0 or 1,"
            f" gender {', '.join(GENDERS)}), got {brief(sentid)}"
        )
    occupation, participant, answer, gender = parts.groups()
    if occupation not in _women_shares():
        raise row.error(f"expected an occupation of the list winogender-occupations, got {brief(occupation)}")
    pronouns = find_words(text, [form for form, g in pronoun_genders().items() if g == gender])
    if len(pronouns) != 1:
        raise row.error(f"expected one {gender} pronoun in {brief(text)}, got {len(pronouns)}")
    return WinogenderSentence(
        sentid,
        text,
        _find_person(row, text, occupation),
        _find_person(row, text, participant),
        pronouns[0],
        gender,
        int(answer),
        (occupation, participant),
        _women_shares()[occupation],
    )


def _find_person(row: Row, text: str, word: str) -> Span:
    mentions = find_words(text, [word])
    if not mentions:
        raise row.error(f"expected {brief(word)} in the sentence, got {brief(text)}")
    return with_determiner(text, mentions[0])


def _fill_template(row: Row) -> Iterator[tuple[str, str]]:
    """Yield the sentids and texts of the six sentences of a template."""
    occupation, participant, answer, template = (row.text(column) for column in _TEMPLATES)
    for slot in ("$OCCUPATION", "$PARTICIPANT"):
        if slot not in template:
            raise row.error(f"expected the slot {slot} in the template, got {brief(template)}")
    filled = template.replace("$OCCUPATION", occupation)
    someone = re.sub(r"\b(?:the|an?) \$PARTICIPANT", "someone", filled)
    someone = re.sub(r"\b(?:The|An?) \$PARTICIPANT", "Someone", someone)
    for person, text in ((participant, filled.replace("$PARTICIPANT", participant)), ("someone", someone)):
        for gender in GENDERS:
            sentence = text
            for slot, pronoun in _pronouns()[gender].items():
                sentence = sentence.replace(slot, pronoun)
            yield f"{occupation}.{person}.{answer}.{gender}.txt", re.sub(r"\bthey was\b", "they were", sentence)


@cache
def _pronouns() -> Mapping[str, Mapping[str, str]]:
    """Return the pronoun by gender and slot."""
    entries = {e.attributes["group"]: e.attributes for e in load_wordlist("pronouns").entries}
    return {gender: {slot: entries[gender][form] for slot, form in _FORMS.items()} for gender in GENDERS}


@cache
def _women_shares() -> Mapping[str, float]:
    return {e.word: float(e.attributes["women_share"]) for e in load_wordlist("winogender-occupations").entries}
