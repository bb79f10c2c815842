"""Sentences with a pronoun and persons that it may mean: WinoBias (Zhao et al. 2018), with two professions, pro- and
anti-stereotypical; Winogender (Rudinger et al. 2018), with an occupation, a participant and a pronoun of one of three
genders; and GAP (Webster et al. 2018), from Wikipedia, with two names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pytest_genderbias.datasets.files import Row, column_names, place, read_lines, read_rows, refuse_repeats
from pytest_genderbias.datasets.mentions import (
    Span,
    find_words,
    gender_of_pronoun,
    pronoun_genders,
    with_determiner,
    without_determiner,
    words_of,
)
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.text.normal_form import normal_form
from pytest_genderbias.text.printable import brief
from pytest_genderbias.text.wordlist import load_wordlist

# WinoBias

_NAME = re.compile(r"(pro|anti)_stereotyped_type([12])\.txt\.(\w+)")
_LINE = re.compile(r"(?:(\d+)\s+)?(.*\S)")
_THING = re.compile(r"\(\w[\w ]*\)")  #: how the first release marks what is no person: (documents)
_FIRST_RELEASE = (
    "the first release of WinoBias (2018), whose lines have no numbers, marks things in round brackets, misspells"
    " professions and lacks some brackets; take the present files from https://github.com/uclanlp/corefBias"
)


@dataclass(frozen=True)
class WinoBiasSentence:
    """One sentence; its spans are character ranges in ``text``.

    ``id`` is split, type, side and number, such as ``dev-type1-pro-1``. ``gold`` is the profession to which the pronoun
    refers, ``other`` the second one, both with their determiner; ``professions`` names the two in this order, as
    spelled in the list ``winobias-occupations``. ``pronouns`` has one span, or two if a second pronoun refers to the
    same person ("because [she] needed to cut [her] hair"); the first is resolved. The gold cluster is ``gold`` with
    ``pronouns``.
    """

    id: str
    text: str
    gold: Span
    other: Span
    pronouns: tuple[Span, ...]
    professions: tuple[str, str]
    gender: str
    type: int
    stereotype: str
    line: int


def read_winobias(path: Path) -> tuple[WinoBiasSentence, ...]:
    """Read one file of WinoBias, named ``{pro,anti}_stereotyped_type{1,2}.txt.{test,dev}``.

    A line is "1 [The developer] argued with the designer because [he] did not like the design." The number at its start
    identifies the sentence; without one (in earlier releases), the line number does. The brackets contain the gold
    profession and one or more pronouns of one gender. The first release is refused by name, also where its lines could
    be read: its round brackets ("scanned (documents)") would become part of the sentences. Rules for irregular lines:

    - A determiner before the brackets belongs to the mention ("the [housekeeper] 's car", "the [ physician]"), unless
      the brackets contain one ("the [the physician]"). White space inside brackets is not part of the mention. This
      concerns three lines of the dev split.
    - The other profession is the first word of the list ``winobias-occupations`` outside the brackets that differs from
      the gold profession, with its determiner. Later ones are other people ("knows how to recognize a good baker": nine
      lines).
    - The file name decides between pro and anti. The list contradicts it in a few lines of the test split ("The baker
      yelled at [the mover] because [she] broke the stove." is in a pro file).

    Raises:
        DataFileError: another file name; unclosed brackets; not exactly one profession and at least one pronoun in
            brackets; pronouns of two genders; no second profession; a duplicate number; no sentences.
    """
    name = _NAME.fullmatch(path.name.removesuffix(".gz"))
    if name is None:
        raise DataFileError(
            f"{path}: expected a file named {{pro,anti}}_stereotyped_type{{1,2}}.txt.{{test,dev}}, as WinoBias"
            " publishes them"
        )
    stereotype, kind, split = name.groups()
    sentences = []
    for line, marked in read_lines(path):
        match = _LINE.fullmatch(marked.strip())
        if match:
            number = f"{split}-type{kind}-{stereotype}-{match[1] or line}"
            try:
                sentences.append(_winobias_sentence(place(path, line), number, match[2], int(kind), stereotype, line))
            except DataFileError as error:
                raise error if match[1] else DataFileError(f"{error}; {_FIRST_RELEASE}") from None
            if not match[1] and (thing := _THING.search(match[2])):
                raise DataFileError(
                    f"{place(path, line)}: expected a sentence, got {brief(thing[0])} in round brackets;"
                    f" {_FIRST_RELEASE}"
                )
    if not sentences:
        raise DataFileError(f"{path}: expected sentences, got an empty file")
    refuse_repeats(path, ((s.line, s.id) for s in sentences))
    return tuple(sentences)


def _winobias_sentence(where: str, number: str, marked: str, kind: int, stereotype: str, line: int) -> WinoBiasSentence:
    text, brackets = _unbracket(where, marked)
    pronouns = tuple(span for span in brackets if gender_of_pronoun(words_of(text, span)))
    persons = [span for span in brackets if span not in pronouns]
    if len(persons) != 1 or not pronouns:
        raise DataFileError(
            f"{where}: expected one profession and at least one pronoun in brackets, got "
            f"{', '.join(repr(words_of(text, span)) for span in brackets) or 'no brackets'}; "
            f"the pronouns are {', '.join(pronoun_genders())}"
        )
    genders = {str(gender_of_pronoun(words_of(text, span))) for span in pronouns}
    if len(genders) > 1:
        raise DataFileError(
            f"{where}: expected pronouns of one gender in brackets, got {' and '.join(sorted(genders))}"
        )
    gold = with_determiner(text, persons[0])
    profession = words_of(text, without_determiner(text, gold))
    if normal_form(profession).lower() not in _occupations():
        raise DataFileError(
            f"{where}: expected a profession of the list winobias-occupations in brackets, got {brief(profession)}"
        )
    other = _other_profession(where, text, brackets, profession)
    names = (profession, words_of(text, other))
    return WinoBiasSentence(
        number,
        text,
        gold,
        with_determiner(text, other),
        pronouns,
        (_occupations()[normal_form(names[0]).lower()], _occupations()[normal_form(names[1]).lower()]),
        genders.pop(),
        kind,
        stereotype,
        line,
    )


def _other_profession(where: str, text: str, brackets: list[Span], gold: str) -> Span:
    for start, end in find_words(text, _occupations()):
        outside = all(end <= bracket[0] or bracket[1] <= start for bracket in brackets)
        if outside and normal_form(text[start:end]).lower() != normal_form(gold).lower():
            return start, end
    raise DataFileError(
        f"{where}: expected a second profession of the list winobias-occupations beside {brief(gold)}, got none"
    )


def _unbracket(where: str, marked: str) -> tuple[str, list[Span]]:
    """Return the text without brackets, and the span inside each pair of brackets, without surrounding white space."""
    pieces = re.split(r"\[([^\[\]]*)\]", marked)  # every second one stands in brackets
    if any(bracket in piece for piece in pieces[::2] for bracket in "[]"):
        raise DataFileError(f"{where}: expected brackets that open and close in turn, got {brief(marked)}")
    text, spans = "", []
    for number, piece in enumerate(pieces):
        text += piece
        if number % 2:
            spans.append((len(text) - len(piece.lstrip()), len(text.rstrip())))
    return text, spans


@cache
def _occupations() -> dict[str, str]:
    """Return the professions as spelled in the list, by their lower-case form."""
    return {entry.word.lower(): entry.word for entry in load_wordlist("winobias-occupations").entries}


# Winogender

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
        sentences += [(row.line, _winogender_sentence(row, sentid, text)) for sentid, text in pairs]
    refuse_repeats(path, ((line, sentence.id) for line, sentence in sentences), "sentid")
    return tuple(sentence for _, sentence in sentences)


def _winogender_sentence(row: Row, sentid: str, text: str) -> WinogenderSentence:
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
    found = find_words(text, [word])
    if not found:
        raise row.error(f"expected {brief(word)} in the sentence, got {brief(text)}")
    return with_determiner(text, found[0])


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


# GAP

_COLUMNS = ("ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref")


@dataclass(frozen=True)
class GapExample:
    """One example. ``candidates`` are the spans of the names A and B; ``labels`` whether the pronoun refers to each."""

    id: str
    text: str
    pronoun: Span
    gender: str
    candidates: tuple[Span, Span]
    labels: tuple[bool, bool]


def read_gap(path: Path) -> tuple[GapExample, ...]:
    """Read a GAP file (``.tsv`` or ``.tsv.gz``).

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.files.read_rows`; an offset that is not a number, or not
            the position of its word; an unknown pronoun; a label other than TRUE and FALSE; a duplicate id.
    """
    rows = list(read_rows(path, _COLUMNS))
    refuse_repeats(path, ((row.line, row.cells["ID"]) for row in rows))
    return tuple(_read_example(row) for row in rows)


def _read_example(row: Row) -> GapExample:
    text = row.cells["Text"]
    pronoun, a, b = (_read_span(row, text, column) for column in ("Pronoun", "A", "B"))
    gender = gender_of_pronoun(words_of(text, pronoun))
    if gender is None:
        raise row.error(f"expected a third-person pronoun in column 'Pronoun', got {brief(row.cells['Pronoun'])}")
    labels = (_read_label(row, "A-coref"), _read_label(row, "B-coref"))
    return GapExample(row.text("ID"), text, pronoun, gender, (a, b), labels)


def _read_span(row: Row, text: str, column: str) -> Span:
    word, offset = row.text(column), row.text(f"{column}-offset")
    start = int(offset) if re.fullmatch(r"[0-9]{1,18}", offset) else -1
    if start < 0 or normal_form(text[start : start + len(word)]) != normal_form(word):
        got = repr(text[start : start + len(word)]) if start >= 0 else "no such character"
        raise row.error(f"expected {brief(word)} ({column}) at character {offset} of the text, got {got}")
    return start, start + len(word)


def _read_label(row: Row, column: str) -> bool:
    label = row.text(column).upper()
    if label not in ("TRUE", "FALSE"):
        raise row.error(f"expected TRUE or FALSE in column {brief(column)}, got {brief(row.cells[column])}")
    return label == "TRUE"
