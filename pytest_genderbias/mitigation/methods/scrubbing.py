"""Scrubbing: first names and gender words become ``_`` (De-Arteaga et al. 2019, orgad2022), and then, round by round, what else tells gender.

De-Arteaga et al. scrub the texts that a model is trained on and those that it is tested on. The methods change training texts alone;
scrub the texts of the evaluation with :func:`scrub_texts` where they are to be scrubbed, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import ClassVar

from pytest_genderbias.errors import SettingError
from pytest_genderbias.mitigation.methods.base import Columns, Method, Row
from pytest_genderbias.mitigation.words.grammar import begins_sentence
from pytest_genderbias.mitigation.words.matching import find_words, reach_of, replace_spans
from pytest_genderbias.mitigation.words.pairs import read_names, read_pairs, written_forms
from pytest_genderbias.mitigation.words.person_names import first_names, ordinary_names
from pytest_genderbias.text.wordlist import load_wordlist

MASK = "_"
GENDER, NAMES = "gender", "names-us"

#: Of the lists of pairs, what is said of both genders, or of other things: a list needs the partner of "actress", a text keeps "actor".
_NEUTRAL = frozenset({
    "actor", "actors", "adulterer", "adulterers", "bachelor", "bachelors", "enchanter", "god", "gods", "governor",
    "governors", "heir", "heirs", "hero", "heroes", "host", "hosts", "hunter", "manager", "master", "masters",
    "millionaire", "murderer", "poet", "postmaster", "priest", "priests", "proprietor", "shepherd", "sorcerer",
    "sorcerers", "steward", "stewards", "tailor", "tailors", "tutors", "usher", "wizard", "wizards", "boars", "chick",
    "chicks", "dam", "hinds", "matron", "miss", "sire", "sows", "stags",
})  # fmt: skip
_TITLES = frozenset({"Mr", "Mrs", "Ms", "MR", "MRS", "MS"})  #: their point goes with them


@cache
def gender_words() -> frozenset[str]:
    """Return the gender words that are scrubbed by default, in lower case: he, she and their forms, titles, and gendered nouns.

    The nouns are those of ``lu2018-pairs`` and ``zhao2018-pairs`` but for what is said of women and men, or of other things, and
    stands there as a partner only: actor, governor, poet, master, dam. ``Miss`` is a word with a capital alone.

    >>> sorted(gender_words() & {"he", "hers", "wife", "mrs", "actress", "actor", "manager"})
    ['actress', 'he', 'hers', 'mrs', 'wife']
    """
    listed = {word for name in ("lu2018-pairs", "zhao2018-pairs") for word in read_pairs(name).partner}
    return frozenset(listed - _NEUTRAL | {"Miss", "MISS"})


def scrub(
    text: str,
    words: str | Iterable[str] = GENDER,
    names: str | Iterable[str] | None = NAMES,
    *,
    own: str = "",
    mask: str = MASK,
    counts: Counter[str] | None = None,
) -> str:
    """Return a text in which first names and gender words are ``_`` (orgad2022, figure 2; De-Arteaga et al. 2019).

    A word is one as for :func:`~pytest_genderbias.mitigation.methods.counterfactual.swap`: he, He and HE, in "she'll", "wife's" and
    "ex-wife", not in addresses. The point of "Mr." goes with it. A name is one with a capital (or all capitals). A name that is an
    ordinary word (``ordinary-names``: Will, Grace) is one where it has a capital that no beginning sentence gives it, and not in
    capitals throughout; a month (April, June) never is. The place Virginia becomes ``_``, too.

    Args:
        text: any text.
        words: ``gender`` (:func:`gender_words`), the name or path of a word list, or words in lower case (with a capital: only so).
        names: first names: the name or path of a word list, or names; ``None``: none.
        own: the full name of the person whom the text is about; the first names in it (:func:`first_names`) are scrubbed wherever
            they have a capital.
        mask: what takes their places.
        counts: is counted up: how often each word was scrubbed, as written.

    Raises:
        SettingError: it is no text.
        UnknownNameError: there is no such word list.

    >>> scrub("Brittany works on CNN. She's written for her husband, Mr. Hall.")
    "_ works on CNN. _'s written for _ _, _ Hall."
    >>> scrub("Will Grace come? Bill me, Mark, in June.")
    'Will _ come? Bill me, _, in June.'
    """
    return _scrubbed(text, _lexicon(_source(words), _source(names)), own, mask, counts)


def scrub_texts(
    texts: Iterable[str],
    words: str | Iterable[str] = GENDER,
    names: str | Iterable[str] | None = NAMES,
    *,
    mask: str = MASK,
    counts: Counter[str] | None = None,
) -> Iterator[str]:
    """Yield each text scrubbed, in memory that does not grow with their number; all arguments as :func:`scrub`.

    >>> list(scrub_texts(["He sings.", "It rains."]))
    ['_ sings.', 'It rains.']
    """
    if isinstance(texts, str):
        raise SettingError(f"expected many texts, got one: {texts!r:.60}; put it in a list")
    lexicon = _lexicon(_source(words), _source(names))
    return (_scrubbed(text, lexicon, "", mask, counts) for text in texts)


@dataclass(frozen=True)
class Scrubbing(Method):
    """Scrub first names and gender words from the training texts (De-Arteaga et al. 2019, orgad2022).

    ``words`` and ``names`` as :func:`scrub`. ``own_name``: the column with the name of the person whom a row is about; rows without
    it are scrubbed all the same. The texts of an evaluation stay as they are: see the module.
    """

    name: ClassVar[str] = "scrubbing"
    words: str | tuple[str, ...] = GENDER
    names: str | tuple[str, ...] | None = NAMES
    own_name: str = "name"

    def __post_init__(self) -> None:
        """Refuse lists that there are not."""
        _listed(self.words)
        _listed(self.names)

    def rows(self, rows: Sequence[Row], columns: Columns, seed: int) -> list[Row]:
        """Scrub each text of each row."""
        lexicon = _lexicon(_source(self.words), _source(self.names))
        found: list[Row] = []
        for row in rows:
            own = row.get(self.own_name)
            own = own if isinstance(own, str) else ""
            found.append({**row, **{c: _scrubbed(row[c], lexicon, own, MASK, None) for c in columns.texts}})
        return found


@dataclass(frozen=True, eq=False)
class _Lexicon:
    forms: frozenset[str]
    ordinary: frozenset[str]  #: names that are words where a sentence begins with them
    reach: int


@lru_cache(maxsize=32)
def _lexicon(words: str | tuple[str, ...] | None, names: str | tuple[str, ...] | None) -> _Lexicon:
    plain = {word.removesuffix(".") for word in _listed(words)}
    forms = {form for word in plain for form, _ in written_forms(word, word)} | {w for w in plain if w != w.lower()}
    known = _listed(names) - forms - ordinary_names("month")
    ordinary = known & ordinary_names("word")
    named = known | {name.upper() for name in known - ordinary}
    return _Lexicon(frozenset(forms | named), ordinary, reach_of(forms | named))


def _listed(source: str | tuple[str, ...] | None) -> frozenset[str]:
    if source is None:
        return frozenset()
    if not isinstance(source, str):
        return frozenset(source)
    if source == GENDER:
        return gender_words()
    if source == NAMES:
        return frozenset(name for name, _ in read_names())
    return frozenset(entry.word for entry in load_wordlist(source).entries)


def _source(given: str | Iterable[str] | None) -> str | tuple[str, ...] | None:
    return given if given is None or isinstance(given, str) else tuple(given)


def _scrubbed(text: str, lexicon: _Lexicon, own: str, mask: str, counts: Counter[str] | None) -> str:
    forms, reach = lexicon.forms, lexicon.reach
    mine = {form for name in first_names(own) for form in (name, name.upper()) if form in text} if own else set()
    if not mine <= forms:
        forms, reach = forms | mine, max(reach, reach_of(mine))
    found = []
    for start, end in find_words(text, forms, reach):
        written = text[start:end]
        if written in lexicon.ordinary and written not in mine and begins_sentence(text, start):
            continue
        if counts is not None:
            counts[written] += 1
        found.append((start, end + (written in _TITLES and text[end : end + 1] == "."), mask))
    return replace_spans(text, found)
