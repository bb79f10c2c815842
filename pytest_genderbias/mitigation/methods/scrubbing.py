"""Scrubbing: first names and gender words become ``_`` (De-Arteaga et al. 2019, orgad2022).

De-Arteaga et al. scrub the texts on which a model is trained and those on which it is tested. :class:`Scrubbing`
changes the training texts alone; scrub the texts of an evaluation with :func:`scrub`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import ClassVar, TypeAlias

from pytest_genderbias.mitigation.methods.base import Columns, Method, edited, texts_of
from pytest_genderbias.mitigation.words.grammar import begins_sentence
from pytest_genderbias.mitigation.words.matching import find_words, reach_of, refuse_uncut, replace_spans
from pytest_genderbias.mitigation.words.pairs import first_names, ordinary_names, read_names, read_pairs, written_forms
from pytest_genderbias.recipes.recipe import Row
from pytest_genderbias.text.normal_form import normal_form
from pytest_genderbias.text.wordlist import load_wordlist

MASK = "_"
GENDER, NAMES = "gender", "names-us"

#: Words in the lists of pairs that are also used of both genders, or of other things: "actress" is scrubbed, "actor"
#: stays.
_NEUTRAL = frozenset({
    "actor", "actors", "adulterer", "adulterers", "bachelor", "bachelors", "enchanter", "god", "gods", "governor",
    "governors", "heir", "heirs", "hero", "heroes", "host", "hosts", "hunter", "manager", "master", "masters",
    "millionaire", "murderer", "poet", "postmaster", "priest", "priests", "proprietor", "shepherd", "sorcerer",
    "sorcerers", "steward", "stewards", "tailor", "tailors", "tutors", "usher", "wizard", "wizards", "boars", "chick",
    "chicks", "dam", "hinds", "matron", "miss", "sire", "sows", "stags",
})  # fmt: skip
_TITLES = frozenset({"Mr", "Mrs", "Ms", "MR", "MRS", "MS"})  #: scrubbed together with the point after them


@cache
def gender_words() -> frozenset[str]:
    """Return the gender words that are scrubbed by default, in lower case: he, she and their forms, titles, and
    gendered nouns.

    The nouns are those of ``lu2018-pairs`` and ``zhao2018-pairs``, without words that are used of women and men or of
    other things and are listed only as a partner: actor, governor, poet, master, dam. ``Miss`` counts only with a
    capital.

    >>> sorted(gender_words() & {"he", "hers", "wife", "mrs", "actress", "actor", "manager"})
    ['actress', 'he', 'hers', 'mrs', 'wife']
    """
    paired = {word for name in ("lu2018-pairs", "zhao2018-pairs") for word in read_pairs(name).partner}
    return frozenset(paired - _NEUTRAL | {"Miss", "MISS"})


def scrub(
    text: str, words: str | Iterable[str] = GENDER, names: str | Iterable[str] | None = NAMES, *, own: str = ""
) -> str:
    """Return a text in which first names and gender words are ``_`` (orgad2022, figure 2; De-Arteaga et al. 2019).

    Words are matched as by :func:`~pytest_genderbias.mitigation.methods.counterfactual.swap`: he, He and HE, in
    "she'll", "wife's" and "ex-wife", but not in addresses. The point of "Mr." is scrubbed with it. Names are matched
    with a capital or in capitals. A name that is also an ordinary word (``ordinary-names``: Will, Grace) is matched
    only with a capital that is not explained by the beginning of a sentence, and not in capitals. Names of months
    (April, June) are never matched. The place Virginia is scrubbed like the name.

    Args:
        text: any text.
        words: ``gender`` (:func:`gender_words`), the name or path of a word list, or words in lower case; a word with a
            capital is matched only as written.
        names: the name or path of a word list of first names, or the names; ``None`` scrubs no names.
        own: the full name of the person whom the text is about; its first names (:func:`first_names`) are scrubbed
            wherever they have a capital.

    Raises:
        SettingError: ``text`` is not a text, or has no spaces between words.
        UnknownNameError: there is no such word list.

    >>> scrub("Brittany works on CNN. She's written for her husband, Mr. Hall.")
    "_ works on CNN. _'s written for _ _, _ Hall."
    >>> scrub("Will Grace come? Bill me, Mark, in June.")
    'Will _ come? Bill me, _, in June.'
    """
    refuse_uncut([text])
    return replace_spans(text, _scrubbed(text, _lexicon(_hashable(words), _hashable(names)), own))


@dataclass(frozen=True)
class Scrubbing(Method):
    """Scrub first names and gender words from the training texts (De-Arteaga et al. 2019, orgad2022).

    ``words`` and ``names`` are a list's name, or words, that become ``_`` (:func:`scrub`). ``own_name`` is the column
    with the name of the person whom a row is about; rows without it are also scrubbed. The texts of an evaluation stay
    as they are.
    """

    name: ClassVar[str] = "scrubbing"
    words: str | tuple[str, ...] = GENDER
    names: str | tuple[str, ...] | None = NAMES
    own_name: str = "name"

    def __post_init__(self) -> None:
        """Reject unknown word lists."""
        _read_words(self.words)
        _read_words(self.names)

    def rows(self, rows: Sequence[Row], columns: Columns, seed: int) -> list[Row]:
        """Scrub all texts of each row."""
        lexicon = _lexicon(_hashable(self.words), _hashable(self.names))
        refuse_uncut(text for number, row in enumerate(rows) for text in texts_of(row, columns.texts, number))
        scrubbed: list[Row] = []
        for number, row in enumerate(rows):
            name = row.get(self.own_name)
            own = name if isinstance(name, str) else ""
            edits = [_scrubbed(text, lexicon, own) for text in texts_of(row, columns.texts, number)]
            scrubbed.append(edited(row, columns, edits))
        return scrubbed


#: What is scrubbed, in each form; the names in it that are ordinary words at the beginning of a sentence; and the
#: number of parts and joints of the longest compound.
Lexicon: TypeAlias = tuple[frozenset[str], frozenset[str], int]


@lru_cache(maxsize=32)
def _lexicon(words: str | tuple[str, ...] | None, names: str | tuple[str, ...] | None) -> Lexicon:
    plain = {word.removesuffix(".") for word in _read_words(words)}
    forms = {form for word in plain for form, _ in written_forms(word, word)} | {w for w in plain if w != w.lower()}
    scrubbed_names = _read_words(names) - forms - ordinary_names("month")
    ordinary = scrubbed_names & ordinary_names("word")
    forms |= scrubbed_names | {name.upper() for name in scrubbed_names - ordinary}
    return frozenset(forms), ordinary, reach_of(forms)


def _read_words(source: str | tuple[str, ...] | None) -> frozenset[str]:
    if source is None:
        return frozenset()
    if not isinstance(source, str):
        return frozenset(map(normal_form, source))
    if source == GENDER:
        return gender_words()
    if source == NAMES:
        return frozenset(normal_form(name) for name, _ in read_names())
    return frozenset(normal_form(entry.word) for entry in load_wordlist(source).entries)


def _hashable(source: str | Iterable[str] | None) -> str | tuple[str, ...] | None:
    return source if source is None or isinstance(source, str) else tuple(source)


def _scrubbed(text: str, lexicon: Lexicon, own: str) -> list[tuple[int, int, str]]:
    """Return (start, end, mask) for each word to scrub."""
    forms, ordinary, reach = lexicon
    names = first_names(own) if own else ()
    own_forms = {form for name in names for form in (name, name.upper()) if form in normal_form(text)}
    if not own_forms <= forms:
        forms, reach = forms | own_forms, max(reach, reach_of(own_forms))
    spans = []
    for start, end in find_words(text, forms, reach):
        written = normal_form(text[start:end])
        if written in ordinary and written not in own_forms and begins_sentence(text, start):
            continue
        spans.append((start, end + (written in _TITLES and text[end : end + 1] == "."), MASK))
    return spans
