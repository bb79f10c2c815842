"""WinoBias (Zhao et al. 2018): sentences with two professions and a pronoun, pro- and anti-stereotypical."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pytest_genderbias.datasets import mentions
from pytest_genderbias.datasets.files import place, read_lines, refuse_repeats
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.text.normal_form import normal_form
from pytest_genderbias.text.printable import brief
from pytest_genderbias.text.wordlist import load_wordlist

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
    gold: mentions.Span
    other: mentions.Span
    pronouns: tuple[mentions.Span, ...]
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
                sentences.append(_read_sentence(place(path, line), number, match[2], int(kind), stereotype, line))
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


def _read_sentence(where: str, number: str, marked: str, kind: int, stereotype: str, line: int) -> WinoBiasSentence:
    text, brackets = _unbracket(where, marked)
    pronouns = tuple(span for span in brackets if mentions.gender_of_pronoun(mentions.words_of(text, span)))
    persons = [span for span in brackets if span not in pronouns]
    if len(persons) != 1 or not pronouns:
        raise DataFileError(
            f"{where}: expected one profession and at least one pronoun in brackets, got "
            f"{', '.join(repr(mentions.words_of(text, span)) for span in brackets) or 'no brackets'}; "
            f"the pronouns are {', '.join(mentions.pronoun_genders())}"
        )
    genders = {str(mentions.gender_of_pronoun(mentions.words_of(text, span))) for span in pronouns}
    if len(genders) > 1:
        raise DataFileError(
            f"{where}: expected pronouns of one gender in brackets, got {' and '.join(sorted(genders))}"
        )
    gold = mentions.with_determiner(text, persons[0])
    profession = mentions.words_of(text, mentions.without_determiner(text, gold))
    if normal_form(profession).lower() not in _occupations():
        raise DataFileError(
            f"{where}: expected a profession of the list winobias-occupations in brackets, got {brief(profession)}"
        )
    other = _other_profession(where, text, brackets, profession)
    names = (profession, mentions.words_of(text, other))
    return WinoBiasSentence(
        number,
        text,
        gold,
        mentions.with_determiner(text, other),
        pronouns,
        (_occupations()[normal_form(names[0]).lower()], _occupations()[normal_form(names[1]).lower()]),
        genders.pop(),
        kind,
        stereotype,
        line,
    )


def _other_profession(where: str, text: str, brackets: list[mentions.Span], gold: str) -> mentions.Span:
    for start, end in mentions.find_words(text, _occupations()):
        outside = all(end <= bracket[0] or bracket[1] <= start for bracket in brackets)
        if outside and normal_form(text[start:end]).lower() != normal_form(gold).lower():
            return start, end
    raise DataFileError(
        f"{where}: expected a second profession of the list winobias-occupations beside {brief(gold)}, got none"
    )


def _unbracket(where: str, marked: str) -> tuple[str, list[mentions.Span]]:
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
