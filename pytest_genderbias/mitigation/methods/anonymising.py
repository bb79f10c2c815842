"""Anonymising: names of persons, and optionally of organisations and places, become placeholders (Zhao et al. 2018,
orgad2022).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, ClassVar, NamedTuple

from pytest_genderbias.errors import SettingError
from pytest_genderbias.mitigation.methods.base import Columns, Method, edited, texts_of
from pytest_genderbias.mitigation.methods.scrubbing import gender_words
from pytest_genderbias.mitigation.words.grammar import BATCH, begins_sentence, load_pipeline
from pytest_genderbias.mitigation.words.matching import as_text, refuse_uncut, replace_spans
from pytest_genderbias.mitigation.words.pairs import NAME_SUFFIXES, name_parts, ordinary_names, read_names
from pytest_genderbias.recipes.recipe import Row
from pytest_genderbias.text.normal_form import NormalText, normal_form
from pytest_genderbias.text.schema import check_fields, one_of
from pytest_genderbias.text.wordlist import load_wordlist

KINDS = ("person", "org", "place")
RULES, SPACY = "rules", "spacy"
PLACEHOLDER = "[{kind}]"
#: A named entity: its start, its end and its kind.
Entity = tuple[int, int, str]
#: Finds the entities of each text, in order. It takes several texts at a time, so that a model can work in batches.
FindEntities = Callable[[Sequence[str]], Iterable[Sequence[Entity]]]

_KIND_OF_LABEL = {"PERSON": "person", "ORG": "org", "GPE": "place", "LOC": "place", "FAC": "place"}


def rule_entities(texts: Sequence[str]) -> Iterator[list[Entity]]:
    """Find persons by lists of names and by capitals, without a model.

    Candidates are runs of words with capitals, including initials, particles ("de", "van") and "Jr.". A run is a person
    from its first first name on (``names-us``). It is also a person if it follows a title ("Dr.") or a word for a
    person ("her husband", "attorney"), if it contains an initial, or if "who", "(born", "said" or the like follows.
    Each single word of these names then counts as the person elsewhere in the text. A run with a word such as
    "University", or after "San" or "Fort", is not a person. A single first name is not a person if it is also a month
    or a place, or an ordinary word at the beginning of a sentence (``ordinary-names``).

    Accuracy: the rules find 55 % of the 2,000 names tagged in the first 1,000 passages of GAP's development part as a
    whole (spaCy's en_core_web_sm: 69 %). About 95 % of the results are persons: spaCy agrees on 79 % of 3,464 results,
    and of the others 40 of 50 that were read one by one were persons. Most misses are surnames alone: in the
    ``wiki_career`` biographies, whose excerpts seldom contain the full name, the rules find 25 % of the mentions of the
    person (spaCy: 54 %), and nearly all of them if ``own`` gives the name.
    """
    for normal in map(NormalText, texts):
        yield [(*normal.span(start, end), kind) for start, end, kind in _persons(normal.text)]


def anonymise(
    text: str,
    *,
    finder: FindEntities = rule_entities,
    kinds: Sequence[str] = ("person",),
    placeholder: str = PLACEHOLDER,
    own: str = "",
) -> str:
    """Return a text in which named entities are placeholders (Zhao et al. 2018; orgad2022, section 3).

    Args:
        text: any text.
        finder: the function that finds the entities: :func:`rule_entities` (the default; persons only), or the result
            of :func:`spacy_entities`.
        kinds: the kinds to replace: ``person``, ``org``, ``place``.
        placeholder: the replacement. ``{kind}`` in it becomes PERSON, ORG or PLACE, and ``{number}`` numbers the
            entities of a kind in the text, so that the same person has the same placeholder: ``[{kind}{number}]``,
            ``E{number}`` (Zhao et al.), or ``_``. A mention whose words are all part of an earlier mention, or the
            other way round, counts as the same entity; if several fit, the first.
        own: the full name of the person whom the text is about; each part of it is replaced wherever it has a capital.

    Raises:
        SettingError: an unknown kind, or one that the rules do not find; a placeholder with another field; ``text`` is
            not a text, or the rules are to find persons in a text without spaces between words.

    >>> anonymise("Mary Hall's son met Dr. Bay. Hall left Grace.")
    "[PERSON]'s son met Dr. [PERSON]. [PERSON] left [PERSON]."
    >>> anonymise("Mary Hall's son met Dr. Bay. Hall left Grace.", placeholder="E{number}")
    "E1's son met Dr. E2. E1 left E3."
    """
    _check(kinds, placeholder, finder is rule_entities)
    (replacements,) = _replacements([text], [own], finder, kinds, placeholder)
    return replace_spans(text, replacements)


def spacy_entities() -> FindEntities:
    """Load spaCy, and return a function that finds persons, organisations and places by its named entities.

    Raises:
        SettingError: spaCy or its model is not installed.
    """
    pipeline = load_pipeline(("tagger", "parser", "attribute_ruler", "lemmatizer"))

    def find(texts: Sequence[str]) -> Iterator[list[Entity]]:
        return (
            [
                (e.start_char, e.start_char + len(_GENITIVE.sub("", e.text)), _KIND_OF_LABEL[e.label_])
                for e in doc.ents
                if e.label_ in _KIND_OF_LABEL
            ]
            for doc in pipeline.pipe(texts, batch_size=BATCH)
        )

    return find


@dataclass(frozen=True)
class Anonymising(Method):
    """Replace the named entities of the training texts by placeholders; labels stay (Zhao et al. 2018, orgad2022).

    ``entities`` is ``rules`` (persons only) or ``spacy``. ``kinds`` are ``person``, and with spaCy also ``org`` and
    ``place``. ``placeholder`` is a text with ``{kind}``; with ``{number}`` the same person has the same one, and
    numbers start anew in each text of a row (:func:`anonymise`). ``own_name`` is the column with the name of the person
    whom a row is about, if there is one. ``Anonymising() & CounterfactualAugmentation()`` is orgad2022's CA with
    anonymisation.
    """

    name: ClassVar[str] = "anonymising"
    entities: Annotated[str, one_of(RULES, SPACY)] = RULES
    kinds: tuple[str, ...] = ("person",)
    placeholder: str = PLACEHOLDER
    own_name: str = "name"

    def __post_init__(self) -> None:
        """Reject unknown settings."""
        check_fields(self)
        _check(self.kinds, self.placeholder, self.entities == RULES)

    def rows(self, rows: Sequence[Row], columns: Columns, seed: int) -> list[Row]:
        """Anonymise each text of each row."""
        finder = spacy_entities() if self.entities == SPACY else rule_entities
        names = [row.get(self.own_name) for row in rows]
        own = [name if isinstance(name, str) else "" for name in names]
        texts = [texts_of(row, columns.texts, number) for number, row in enumerate(rows)]
        by_column = [
            _replacements(column, own, finder, self.kinds, self.placeholder) for column in zip(*texts, strict=True)
        ]
        return [edited(row, columns, edits) for row, *edits in zip(rows, *by_column, strict=True)]


def _check(kinds: Sequence[str], placeholder: str, by_rules: bool) -> None:
    if isinstance(kinds, str) or not kinds or not set(kinds) <= set(KINDS):
        raise SettingError(f"kinds should be some of {', '.join(KINDS)}, got {kinds!r}")
    if by_rules and set(kinds) != {"person"}:
        raise SettingError("the rules find persons only; for organisations and places use spaCy")
    try:
        placeholder.format(kind="", number="")
    except (LookupError, ValueError):
        raise SettingError(f"the placeholder may contain {{kind}} and {{number}}, got {placeholder!r}") from None


def _replacements(
    texts: Sequence[str], own: Sequence[str], finder: FindEntities, kinds: Sequence[str], placeholder: str
) -> list[list[tuple[int, int, str]]]:
    """Return (start, end, placeholder) of the entities of each text."""
    texts = list(map(as_text, texts))
    if finder is rule_entities:
        refuse_uncut(texts)
    replacements = []
    for text, name, found in zip(texts, own, finder(texts), strict=True):
        entities = [entity for entity in found if entity[2] in kinds]
        if (parts := set(name_parts(name))) and "person" in kinds:
            normal = NormalText(text)
            spans = [normal.span(start, end) for run in _runs(normal.text) for start, end in _mentions(run, parts)]
            free = [(s, e, "person") for s, e in spans if not any(a < e and s < b for a, b, _ in entities)]
            entities = sorted(entities + free)
        replacements.append(_placeholders(text, entities, placeholder))
    return replacements


def _placeholders(text: str, entities: Sequence[Entity], placeholder: str) -> list[tuple[int, int, str]]:
    words_of: dict[str, list[set[str]]] = {}
    placeholders = []
    for start, end, kind in entities:
        mention = normal_form(text[start:end]).lower()
        words = set(re.findall(r"\w\w+", mention)) or {mention}
        others = words_of.setdefault(kind, [])
        number = next((i for i, other in enumerate(others) if words <= other or other <= words), len(others))
        if number == len(others):
            others.append(set())
        others[number] |= words
        placeholders.append((start, end, placeholder.format(kind=kind.upper(), number=number + 1)))
    return placeholders


# --- the rules -------------------------------------------------------------------------------------------------------

_GENITIVE = re.compile(r"['’]s?\Z")
_TOKEN = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*\.?")
_PARTICLES = frozenset(
    {"de", "del", "della", "der", "den", "di", "da", "dos", "du", "la", "le", "van", "von", "ibn", "bin", "al", "el"}
)
_TITLES = frozenset(
    {"Mr", "Mrs", "Ms", "Miss", "Dr", "Prof", "Professor", "Sir", "Dame", "Lord", "Lady", "Rev", "Reverend", "Fr"}
    | {"Capt", "Captain", "Col", "Colonel", "Gen", "General", "Lt", "Lieutenant", "Maj", "Major", "Sgt", "Sergeant"}
    | {"Sen", "Senator", "Gov", "Governor", "Rep", "President", "Judge", "Justice", "King", "Queen", "Prince", "Pope"}
    | {"Princess", "Duke", "Duchess", "Count", "Countess", "Emperor", "Empress", "Bishop", "Archbishop", "Cardinal"}
    | {"Coach", "Secretary", "Chancellor", "Inspector", "Detective"}
)
_ABBREVIATIONS = NAME_SUFFIXES | {
    "Mr", "Mrs", "Ms", "Mt", "Dr", "Prof", "Rev", "Fr", "Capt", "Col", "Gen", "Lt", "Maj", "Sgt", "Sen", "Gov", "Rep",
    "St",
}  # fmt: skip
_PLACE_BEFORE = frozenset({
    "San", "Santa", "St", "Saint", "Fort", "Port", "Mount", "Mt", "Lake", "Los", "Las", "New", "North", "South",
    "East", "West", "Cape",
})  # fmt: skip
_NO_PERSON = frozenset(
    {"University", "College", "School", "Academy", "Institute", "Hospital", "Cathedral", "Avenue", "Road", "Boulevard"}
    | {"River", "County", "City", "State", "States", "Island", "Islands", "Valley", "Beach", "Airport"}
    | {"Station", "Library", "Museum", "Gallery", "Theatre", "Theater", "Center", "Centre", "Press", "Records", "Cup"}
    | {"Corporation", "Foundation", "Association", "Society", "Club", "Award", "Awards", "Prize", "Medal", "Company"}
    | {"Championship", "Tournament", "Festival", "Show", "Band", "Orchestra", "Committee", "Commission", "Department"}
    | {"Act", "Party", "Army", "Navy", "Times", "Tribune", "News", "Magazine", "Journal", "Series", "Studios", "Group"}
    | {"Inc", "Ltd", "Corp", "Tech", "War", "Trophy", "League", "Democrats", "Republicans"}
)
#: Likewise, except after a first name: Carnegie Hall, but Mary Hall.
_SURNAMES_TOO = frozenset(
    {"Hall", "Park", "Bay", "Lake", "House", "Day", "Post", "Church", "Street", "Hills", "Bridge", "Court"}
)
_PERSON_AFTER = re.compile(
    r",? who\b|, whose\b|,? \(?born\b|,? (?:said|says|told|asked|replied|explained|wrote|writes|married|died|smiled|"
    r"nodded|thought|laughed|was born|himself|herself)\b"
)


class _Token(NamedTuple):
    start: int
    end: int
    word: str  #: without the point


def _runs(text: str) -> Iterator[list[_Token]]:
    """Yield the longest runs of words with capitals in a text; particles occur only between two of them."""
    run: list[_Token] = []
    last = 0
    for match in _TOKEN.finditer(text):
        if not run and not match[0][0].isupper():
            continue
        word = _GENITIVE.sub("", match[0].rstrip("."))
        token = _Token(match.start(), match.start() + len(word), word)
        if run and text[last : token.start].strip(" \t"):
            yield _trimmed(run)
            run = []
        if word[0].isupper() and (len(word) == 1 or not word.isupper() or word in NAME_SUFFIXES):
            run.append(token)
        elif run:
            if word in _PARTICLES and match[0] == word:
                run.append(token)
            else:
                yield _trimmed(run)
                run = []
        last = token.end
        if run and match[0].endswith(".") and (len(word) == 1 or word in _ABBREVIATIONS):
            last = match.end()
    if run:
        yield _trimmed(run)


def _trimmed(run: list[_Token]) -> list[_Token]:
    while run and run[-1].word in _PARTICLES:
        run = run[:-1]
    return run


def _persons(text: str) -> list[Entity]:
    runs = list(_runs(text))
    named = [_named(text, run) for run in runs]
    words = {
        token.word for mention in named for token in mention if len(token.word) > 1 and token.word not in _PARTICLES
    }
    words -= NAME_SUFFIXES | ordinary_names("word") | ordinary_names("place") | _TITLES
    entities: list[Entity] = []
    for run, mention in zip(runs, named, strict=True):
        if mention:
            end = mention[-1].end
            end += text[end : end + 1] == "." and mention[-1].word in {"Jr", "Sr"}
            entities.append((mention[0].start, end, "person"))
        elif words and not _is_no_person(run):
            entities += [(start, end, "person") for start, end in _mentions(run, words)]
    return entities


def _mentions(run: list[_Token], words: set[str]) -> Iterator[tuple[int, int]]:
    """Yield the spans of the words of known names in a run; adjacent words are one span."""
    start = end = -1
    for token in run:
        if token.word in words or (start >= 0 and len(token.word) == 1):
            start, end = (token.start if start < 0 else start), token.end
        elif start >= 0:
            yield start, end
            start = -1
    if start >= 0:
        yield start, end


def _is_no_person(run: list[_Token]) -> bool:
    first = run[0].word
    ordinary = ordinary_names("word") | ordinary_names("month") | ordinary_names("place")
    is_name = first in _first_names() and first not in ordinary
    return any(token.word in _NO_PERSON or (not is_name and token.word in _SURNAMES_TOO) for token in run[1:])


def _named(text: str, run: list[_Token]) -> list[_Token]:
    """Return the part of a run that is a person's name on its own evidence, or an empty list."""
    first = 0
    while first < len(run) and run[first].word.lower() in _stop_words() and not _is_first_name(run[first]):
        first += 1
    titled = False
    while first < len(run) and run[first].word in _TITLES:
        titled, first = True, first + 1
    rest = run[first:]
    if not rest or _is_no_person(rest):
        return []
    if titled:
        return rest
    for i, token in enumerate(rest):
        if i and rest[i - 1].word in _PLACE_BEFORE:
            return []
        goes_on = i + 1 < len(rest) and rest[i + 1].word.lower() not in _stop_words()
        if _is_first_name(token) and (goes_on or not _is_other(text, token, alone=len(run) == 1)):
            return rest[i:]
    before = re.search(r"([a-z]+),?[ \t]+\Z", text[max(0, rest[0].start - 25) : rest[0].start])
    has_initial = any(len(token.word) == 1 for token in rest[1:-1])
    followed = len(rest) < 4 and bool(_PERSON_AFTER.match(text, rest[-1].end))
    after_person_word = before is not None and before[1] in _person_words() and "," not in before[0]
    plausible = len(rest) > 1 or not (begins_sentence(text, rest[0].start) or rest[0].word.endswith("s"))  # Jews who
    is_person = has_initial or followed or after_person_word
    return rest if plausible and len(rest[0].word) > 1 and is_person else []


def _is_first_name(token: _Token) -> bool:
    return token.word in _first_names() or token.word.partition("-")[0] in _first_names()


def _is_other(text: str, token: _Token, alone: bool) -> bool:
    """Return whether a first name that is alone or last in its run is more likely a word, a month or a place."""
    if token.word in ordinary_names("word"):
        return not alone or begins_sentence(text, token.start) or text.startswith(" of ", token.end)
    return token.word in ordinary_names("month") or token.word in ordinary_names("place")


@cache
def _first_names() -> frozenset[str]:
    return frozenset(name for name, _ in read_names())


@cache
def _stop_words() -> frozenset[str]:
    return frozenset(entry.word for entry in load_wordlist("stop-words").entries)


@cache
def _person_words() -> frozenset[str]:
    """Return words for a person that a name may follow: husband, attorney."""
    lists = ("dev2019-occupations", "winogender-occupations", "winobias-occupations", "lu2018-occupations")
    named = {entry.word for name in lists for entry in load_wordlist(name).entries}
    return frozenset(
        named | gender_words() | {"actor", "host", "friend", "colleague", "partner", "cousin", "character"}
    ) - {"he", "she", "his", "her", "him", "hers", "male", "female"}
