"""Scrubbing: first names and gender words become ``_`` (De-Arteaga et al. 2019, orgad2022), and then, round by round, what else tells gender.

De-Arteaga et al. scrub the texts that a model is trained on and those that it is tested on. The methods change training texts alone;
scrub the texts of the evaluation with :func:`scrub_texts` where they are to be scrubbed, too.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import NotApplicableError, SettingError
from pytest_genderbias.mitigation.methods.base import Columns, Method, Row, cell_of
from pytest_genderbias.mitigation.methods.nullspace import draw_held_out, logistic_weights
from pytest_genderbias.mitigation.words.grammar import begins_sentence
from pytest_genderbias.mitigation.words.matching import find_words, reach_of, replace_spans
from pytest_genderbias.mitigation.words.pairs import read_names, read_pairs, written_forms
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.statistics.linear_probe import predicted
from pytest_genderbias.text.wordlist import load_wordlist

MASK = "_"
GENDER, NAMES = "gender", "names-us"
_ZERO = 1e-5  #: a weight that is smaller than this share of the largest is rounding
Texts = TypeVar("Texts", str, tuple[str, ...])

#: Of the lists of pairs, what is said of both genders, or of other things: a list needs the partner of "actress", a text keeps "actor".
_NEUTRAL = frozenset({
    "actor", "actors", "adulterer", "adulterers", "bachelor", "bachelors", "enchanter", "god", "gods", "governor",
    "governors", "heir", "heirs", "hero", "heroes", "host", "hosts", "hunter", "manager", "master", "masters",
    "millionaire", "murderer", "poet", "postmaster", "priest", "priests", "proprietor", "shepherd", "sorcerer",
    "sorcerers", "steward", "stewards", "tailor", "tailors", "tutors", "usher", "wizard", "wizards", "boars", "chick",
    "chicks", "dam", "hinds", "matron", "miss", "sire", "sows", "stags",
})  # fmt: skip
_TITLES = frozenset({"Mr", "Mrs", "Ms", "MR", "MRS", "MS"})  #: their point goes with them
NAME_SUFFIXES = frozenset({"Jr", "Sr", "II", "III", "IV"})


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


def first_names(name: str) -> tuple[str, ...]:
    """Return the first names in a person's full name: all but the last part, or what stands before a particle; the one part there is.

    What stands in brackets, initials, "Jr." and words such as "The" are none.

    >>> first_names("Jim Norton (comedian)"), first_names("Mary Anne van Dyke"), first_names("George W. Bush, Jr."), first_names("Cher")
    (('Jim',), ('Mary', 'Anne'), ('George',), ('Cher',))
    """
    parts = _split_name(name)
    particle = next((i for i, part in enumerate(parts) if i and part[0].islower()), None)
    return _named(parts[:particle] if particle else parts[: max(1, len(parts) - 1)])


def name_parts(name: str) -> tuple[str, ...]:
    """Return first names and surnames in a person's full name.

    >>> name_parts("Mary Anne van Dyke (singer)"), name_parts("George W. Bush, Jr.")
    (('Mary', 'Anne', 'Dyke'), ('George', 'Bush'))
    """
    return _named(_split_name(name))


@cache
def ordinary_names(kind: str) -> frozenset[str]:
    """Return the first names that are also a ``word``, a ``month`` or a ``place``.

    >>> "Grace" in ordinary_names("word"), "Mary" in ordinary_names("word")
    (True, False)
    """
    return frozenset(entry.word for entry in load_wordlist("ordinary-names").select({"class": kind}))


@dataclass(frozen=True)
class Rounds:
    """What the rounds of iterative scrubbing took out.

    ``words``: of each round, the words by group, the most telling first. ``accuracies``: of a fresh classifier on held-out texts after
    each round, from 0 rounds on (0 to 1; neutral: ``majority``, the share of the held-out texts with the training part's most
    frequent group, which a classifier that reads nothing reaches).
    """

    words: tuple[Mapping[Any, tuple[str, ...]], ...]
    accuracies: tuple[float, ...]
    majority: float


@dataclass(frozen=True)
class IterativeScrub:
    """The scrubbed ``texts``; the ``rounds`` of each class, or under ``None`` those over all; why each class in ``left`` stayed as it was."""

    texts: tuple[Any, ...]
    rounds: Mapping[Any, Rounds]
    left: Mapping[Any, str]


def iterative_scrub(
    texts: Sequence[Texts],
    groups: Sequence[Hashable],
    classes: Sequence[Hashable] | None = None,
    *,
    rounds: int = 10,
    words_per_group: int = 10,
    min_texts: int = 3,
    until_majority: bool = True,
    held_out: float = 0.25,
    ridge: float = 1.0,
    seed: int = 0,
    mask: str = MASK,
) -> IterativeScrub:
    """Scrub, round by round, the words from which a classifier tells the group best (orgad2022, appendix C, tables 9 and 10).

    Each round fits a logistic regression on the counts of words, and scrubs the words with the largest weights towards each group, in
    all texts. Words are those of :func:`scrub`, in lower case, of letters alone. The paper's texts were scrubbed before.

    Args:
        texts: texts, or tuples of texts that belong together; those of a tuple are counted, and scrubbed, as one.
        groups: the person's gender in each.
        classes: the profession of each, where each profession is to have its own classifier and words (table 10).
        rounds: at most so many.
        words_per_group: how many words of each group a round scrubs (the paper's n).
        min_texts: a word counts that is in so many of the texts that the classifier is fitted on.
        until_majority: stop as soon as the held-out accuracy is no better than the majority's share.
        held_out: share of the texts, at random and by group, that accuracies are of.
        ridge: weight of half the squared length of the weights beside the summed cross entropy (scikit-learn's 1 / C).
        seed: of that draw; the classifier itself depends on none.
        mask: what takes the words' places.

    Raises:
        UndefinedError: without classes: one group only, or fewer than two texts of one. With classes such a class is ``left``.
        SettingError: not as many texts as groups or classes; settings that cannot be.

    >>> texts = ["a keen nurse", "a nurse, keen", "the nurse", "a keen coder", "one coder", "Coder here"]
    >>> found = iterative_scrub(texts, "FFFMMM", rounds=1, words_per_group=1, min_texts=1, until_majority=False)
    >>> found.rounds[None].words, found.texts[1], found.texts[5]
    (({'F': ('nurse',), 'M': ('coder',)},), 'a _, keen', '_ here')
    """
    limit = _Limit(rounds, words_per_group, min_texts, until_majority, held_out, ridge)
    if len(groups) != len(texts) or (classes is not None and len(classes) != len(texts)):
        raise SettingError(f"expected a group, and a class if any, of each of the {len(texts)} texts")
    counts, vocabulary = _count_words(texts)
    found: dict[Any, Rounds] = {}
    left: dict[Any, str] = {}
    scrubbed: list[Any] = list(texts)
    for kind, rows in _rows_by_class(classes, len(texts)).items():
        try:
            found[kind] = _read_out(counts[rows], vocabulary, [groups[row] for row in rows], limit, seed)
        except UndefinedError as reason:
            if classes is None:
                raise
            left[kind] = str(reason)
            continue
        chosen = _Letters({word for by_group in found[kind].words for words in by_group.values() for word in words})
        for row in rows:
            scrubbed[row] = _masked(texts[row], chosen, mask)
    return IterativeScrub(tuple(scrubbed), found, left)


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


@dataclass(frozen=True)
class IterativeScrubbing(Method):
    """Scrub what else tells gender, round by round (orgad2022, appendix C): ``Scrubbing() & IterativeScrubbing()`` is the paper's.

    ``by_class``: each class by itself (table 10); classes that have too few rows of a group stay as they are. Other settings as
    :func:`iterative_scrub`.
    """

    name: ClassVar[str] = "iterative-scrubbing"
    rounds: int = 10
    words_per_group: int = 10
    by_class: bool = False
    min_texts: int = 3
    until_majority: bool = True
    held_out: float = 0.25
    ridge: float = 1.0

    def __post_init__(self) -> None:
        """Refuse settings that there are not."""
        _Limit(self.rounds, self.words_per_group, self.min_texts, self.until_majority, self.held_out, self.ridge)

    def rows(self, rows: Sequence[Row], columns: Columns, seed: int) -> list[Row]:
        """Scrub the texts of each row.

        Raises:
            NotApplicableError: the rows have no column of the group, or of the class where that is asked for.
        """
        if columns.group is None:
            raise NotApplicableError(
                "iterative scrubbing needs the person's gender, but the training data have no column of it"
            )
        if self.by_class and columns.label is None:
            raise NotApplicableError(
                "iterative scrubbing by_class needs a class, but the training data have no column of it"
            )
        found = iterative_scrub(
            [tuple(row[column] for column in columns.texts) for row in rows],
            [cell_of(row, columns.group, i) for i, row in enumerate(rows)],
            [cell_of(row, columns.label, i) for i, row in enumerate(rows)] if self.by_class and columns.label is not None else None,
            rounds=self.rounds, words_per_group=self.words_per_group, min_texts=self.min_texts,
            until_majority=self.until_majority, held_out=self.held_out, ridge=self.ridge, seed=seed,
        )  # fmt: skip
        return [
            {**row, **dict(zip(columns.texts, texts, strict=True))}
            for row, texts in zip(rows, found.texts, strict=True)
        ]


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


def _split_name(name: str) -> list[str]:
    parts = [part.strip(".,\"'“”") for part in re.sub(r"[(\[].*", "", name).split()]
    return [part for part in parts if part and part not in NAME_SUFFIXES]


def _named(parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(part for part in parts if len(part) > 1 and part[0].isupper() and part.lower() not in _no_names())


@cache
def _no_names() -> frozenset[str]:
    """Return words in lower case that are no one's name, though a name may have them: "The Rock"."""
    stop_words = {entry.word for entry in load_wordlist("stop-words").entries}
    return frozenset(stop_words - {name.lower() for name in _listed(NAMES)})


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


class _Letters:
    """The words of letters alone, all or some; a container for :func:`find_words`, in which lower and upper case are one."""

    def __init__(self, chosen: set[str] | None = None) -> None:
        self.chosen = chosen

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and word.isalpha() and (self.chosen is None or word.lower() in self.chosen)


def _masked(texts: Texts, chosen: _Letters, mask: str) -> Any:
    if not isinstance(texts, str):
        return tuple(_masked(text, chosen, mask) for text in texts)
    return replace_spans(texts, [(start, end, mask) for start, end in find_words(texts, chosen)])


def _count_words(texts: Sequence[str | tuple[str, ...]]) -> tuple[Any, list[str]]:
    """Return the counts of words, sparse (texts, words), and the words in alphabetical order."""
    from scipy.sparse import csr_matrix

    number: dict[str, int] = {}
    columns, ends, letters = array("i"), array("q", [0]), _Letters()
    for text in texts:
        for part in (text,) if isinstance(text, str) else text:
            columns.extend(number.setdefault(part[a:b].lower(), len(number)) for a, b in find_words(part, letters))
        ends.append(len(columns))
    vocabulary = sorted(number)
    place = np.empty(len(number), dtype=np.int32)
    place[[number[word] for word in vocabulary]] = np.arange(len(number))
    indices = place[np.frombuffer(columns, dtype=np.int32)] if columns else np.zeros(0, dtype=np.int32)
    counts = csr_matrix((np.ones(len(indices)), indices, np.asarray(ends)), shape=(len(texts), len(number)))
    counts.sum_duplicates()
    return counts, vocabulary


def _rows_by_class(classes: Sequence[Hashable] | None, n: int) -> dict[Any, list[int]]:
    if classes is None:
        return {None: list(range(n))}
    rows: dict[Any, list[int]] = {}
    for row, kind in enumerate(classes):
        rows.setdefault(kind, []).append(row)
    return rows


@dataclass(frozen=True)
class _Limit:
    rounds: int
    words_per_group: int
    min_texts: int
    until_majority: bool
    held_out: float
    ridge: float

    def __post_init__(self) -> None:
        for name in ("rounds", "words_per_group", "min_texts"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} should be 1 or more, got {getattr(self, name)!r}")
        if not 0 < self.held_out < 1:
            raise SettingError(f"held_out is a share above 0 and below 1, got {self.held_out!r}")
        if not 0 < self.ridge < float("inf"):
            raise SettingError(f"ridge should be a number above 0, got {self.ridge!r}")


def _read_out(counts: Any, vocabulary: list[str], groups: Sequence[Hashable], limit: _Limit, seed: int) -> Rounds:
    """Find the words that tell the group, round by round, given the sparse counts (texts, words)."""
    kinds = sorted(set(groups), key=str)
    y = np.array([kinds.index(group) for group in groups], dtype=np.int64)
    if len(kinds) < 2:
        raise UndefinedError("all texts are of one group")
    if np.bincount(y).min() < 2:
        raise UndefinedError("a group has fewer than two texts")
    test = draw_held_out(y, limit.held_out, np.random.default_rng(seed))
    majority = float((y[test] == np.bincount(y[~test]).argmax()).mean())
    left = np.flatnonzero(counts[~test].getnnz(axis=0) >= limit.min_texts)
    words: list[Mapping[Any, tuple[str, ...]]] = []
    accuracies: list[float] = []
    while True:
        table = counts[:, left]
        weights, bias = logistic_weights(table[~test], y[~test], limit.ridge)
        accuracies.append(float((predicted(table[test] @ weights.T + bias) == y[test]).mean()))
        if len(words) == limit.rounds or (limit.until_majority and accuracies[-1] <= majority):
            break
        best = _most_telling(weights, limit.words_per_group)
        gone = np.unique(np.concatenate(best))
        if not len(gone):
            break
        words.append(
            {kind: tuple(vocabulary[i] for i in left[chosen]) for kind, chosen in zip(kinds, best, strict=True)}
        )
        left = np.delete(left, gone)
    return Rounds(tuple(words), tuple(accuracies), majority)


def _most_telling(weights: NDArray[np.float64], n: int) -> list[NDArray[np.int64]]:
    """Return the columns with the n largest weights towards each label, none that is rounding; ties by column."""
    towards = np.vstack([-weights, weights]) if len(weights) == 1 else weights
    least = _ZERO * np.abs(weights).max(initial=0.0)
    best = [(row, np.argsort(-row, kind="stable")[:n]) for row in towards]
    return [chosen[row[chosen] > least] for row, chosen in best]
