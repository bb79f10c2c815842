"""Pairs of words and of first names for counterfactual data augmentation: reading, checking, and their forms in each
case; and the parts of a person's full name.

A word has one partner. If a list gives it two (her: him, his), the list declares the default and the partner for
another part of speech. A word in two pairs, a cycle of words, or a word that is its own partner is rejected, because a
swap would be ambiguous and could not be undone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from pytest_genderbias.datasets.files import place, read_lines
from pytest_genderbias.errors import BiasError, DataFileError, SettingError
from pytest_genderbias.text.normal_form import is_letters, normal_form
from pytest_genderbias.text.plain_files import expand
from pytest_genderbias.text.schema import Initials, check_setting
from pytest_genderbias.text.wordlist import WordEntry, WordList, load_wordlist

#: The roles of a pronoun in its sentence: "met her", "her hat", "it is hers".
PARTS = ("object", "possessive", "independent")
NAME_PARTNERS = ("same", "other", "random")


@dataclass(frozen=True, eq=False)
class Pairs:
    """A checked list of pairs.

    Attributes:
        partner: the default partner of each word, both in lower case and without the point of an abbreviation ("mr").
        by_part: for words with several partners, the partner by the role of the word in its sentence (see
            :data:`PARTS`).
    """

    partner: Mapping[str, str]
    by_part: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @cached_property
    def forms(self) -> Mapping[str, str]:
        """The partner of each word in each case: ``he``, ``He``, ``HE``; for compounds also ``Mother-In-Law``."""
        return {f: p for word, partner in self.partner.items() for f, p in written_forms(word, partner)}


@dataclass(frozen=True, eq=False)
class NamePartners:
    """First names and the names that replace them, with a capital and in capitals throughout.

    Attributes:
        partner: the partner of each name; the partner of the partner is the name itself.
        changed: the names whose partner belongs to another group.
    """

    partner: Mapping[str, str]
    changed: frozenset[str]


def read_pairs(source: str | Path) -> Pairs:
    r"""Read a list of pairs, and check that it can be swapped.

    Args:
        source: the name of a packaged word list with two groups (``lu2018-pairs``, ``zhao2018-pairs``, ...); the path
            of a ``.yaml`` file in the same format; or the path of another file with two words per line, separated by a
            tab or spaces, and comments after ``#``.

    Raises:
        DataFileError: a word has no partner, is its own partner, is in two pairs that disagree, or is not a single
            word; it has several partners without a declared default, or the declared one is not among them.
        UnknownNameError: there is no packaged list with this name.

    >>> lu2018 = read_pairs("lu2018-pairs")
    >>> lu2018.partner["actress"], lu2018.partner["her"], lu2018.by_part["her"]["object"], lu2018.forms["Her"]
    ('actor', 'his', 'him', 'His')
    """
    name = str(source)
    if name.endswith((".yaml", ".yml")):
        return _of_wordlist(load_wordlist(name))
    if isinstance(source, Path) or "/" in name or "." in name:
        return _of_lines(expand(source))
    return _packaged(name)


def distinct_pairs(name: str) -> tuple[tuple[str, str], ...]:
    """Return the pairs of a packaged list or a file, each pair once, in the order of the list.

    >>> distinct_pairs("bordia2019-penn-treebank")[0]
    ('actor', 'actress')
    """
    partner = read_pairs(name).partner
    seen: set[str] = set()
    pairs = []
    for word, other in partner.items():
        if word not in seen and other not in seen and partner.get(other) == word:
            pairs.append((word, other))
            seen |= {word, other}
    return tuple(pairs)


def pairs_of(pairs: Iterable[tuple[str, str]]) -> Pairs:
    """Make a list of pairs from words.

    Raises:
        SettingError: the pairs break a rule of :func:`read_pairs`.

    >>> pairs_of([("he", "she"), ("Mr.", "Mrs.")]).partner
    {'he': 'she', 'she': 'he', 'mr': 'mrs', 'mrs': 'mr'}
    >>> pairs_of([("he", "she"), ("she", "it")])  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ...
    pytest_genderbias.errors.SettingError: pair 2: 'she' has two partners, 'he' (pair 1) and 'it'; a word may be in one
    pair only, unless a word list declares both partners with default and by_pos
    """
    return _checked(((f"pair {n}", a, b) for n, (a, b) in enumerate(pairs, 1)), SettingError)


def name_partners(names: Iterable[tuple[str, str]], how: str = "other", *, seed: int = 0) -> NamePartners:
    """Assign each first name a partner of its own group, of the other, or of either (webster2020, section 5.2 and table
    6).

    Partners are mutual, so swapping twice restores the text. The paper does not define the partner within a group. Here
    it is the name with the next frequency, so that a rare name does not become a frequent one (Hall Maudslay et al.
    2019 also match by frequency). If a group is larger or its size is odd, the remaining names stay.

    Args:
        names: pairs (name, group), the most frequent name of each group first.
        how: ``same`` pairs neighbours in a group (1st and 2nd, 3rd and 4th, ...). ``other`` pairs the n-th name of one
            group with the n-th of the other. ``random`` takes two neighbours and the two names of the same ranks in the
            other group, and pairs them within or across the groups with probability 1/2 each.
        seed: seed of the random pairing.

    Raises:
        SettingError: another ``how``; a name is listed in two groups; there are not two groups (``same``
            takes any number of groups).

    >>> names = [("Mary", "female"), ("Elizabeth", "female"), ("James", "male"), ("John", "male")]
    >>> name_partners(names, "other").partner["Mary"], name_partners(names, "same").partner["Mary"]
    ('James', 'Elizabeth')
    """
    if how not in NAME_PARTNERS:
        raise SettingError(f"the partners of names should be one of {', '.join(NAME_PARTNERS)}, got {how!r}")
    group: dict[str, str] = {}
    for listed, label in names:
        name = normal_form(listed)
        if group.setdefault(name, label) != label or not name.strip():
            raise SettingError(f"the name {name!r} is empty or is listed in two groups, {group[name]!r} and {label!r}")
    generator = np.random.default_rng(seed)
    ranked = {g: [n for n in group if group[n] == g] for g in dict.fromkeys(group.values())}
    if how != "same" and len(ranked) != 2:
        raise SettingError(f"{how!r} partners need names of two groups, got {', '.join(ranked) or 'no names'}")
    couples = list(_couples(list(ranked.values()), how, generator))
    partner = {x: y for a, b in couples for x, y in ((a, b), (b, a))}
    written = {f: p for name, other in partner.items() for f, p in ((name, other), (name.upper(), other.upper()))}
    changed = {f for a, b in couples if group[a] != group[b] for n in (a, b) for f in (n, n.upper())}
    return NamePartners(written, frozenset(changed))


def read_names(initials: str | None = None) -> list[tuple[str, str]]:
    """Return the pairs (name, group) of the word list ``names-us``, the most frequent first, for :func:`name_partners`.

    Args:
        initials: a range of first letters, such as ``A-M`` (webster2020, table 6): only names that begin with one of
            them.

    Raises:
        SettingError: ``initials`` is not a range of letters, or no name begins with one of them.

    >>> read_names()[:2], read_names(initials="N-Z")[:2]
    ([('James', 'male'), ('John', 'male')], [('Robert', 'male'), ('William', 'male')])
    """
    by_count = sorted(load_wordlist("names-us").entries, key=lambda e: -e.attributes["count"])
    pairs = [(e.word, e.attributes["group"]) for e in by_count]
    if initials is None:
        return pairs
    check_setting("initials", Initials, initials)
    selected = [(name, group) for name, group in pairs if initials[0] <= name[0].upper() <= initials[2]]
    if not selected:
        raise SettingError(f"no name of names-us begins with {initials}; choose a wider range")
    return selected


def in_case_of(written: str, word: str) -> str:
    """Return a word in the case of another: in capitals, with a capital, or in lower case.

    >>> in_case_of("HER", "him"), in_case_of("Her", "him"), in_case_of("her", "him")
    ('HIM', 'Him', 'him')
    """
    if len(written) > 1 and written.isupper():
        return word.upper()
    return _title(word) if written[0].isupper() else word


def _couples(groups: list[list[str]], how: str, generator: np.random.Generator) -> Iterator[tuple[str, str]]:
    if how == "same":
        for members in groups:
            yield from zip(members[::2], members[1::2], strict=False)
        return
    first, second = groups
    if how == "other":
        yield from zip(first, second, strict=False)
        return
    for i in range(0, min(len(first), len(second)) - 1, 2):
        (a, b), (c, d) = first[i : i + 2], second[i : i + 2]
        yield from ((a, b), (c, d)) if generator.random() < 0.5 else ((a, c), (b, d))


@cache
def _packaged(name: str) -> Pairs:
    return _of_wordlist(load_wordlist(name))


def _of_wordlist(words: WordList) -> Pairs:
    default: dict[str, tuple[str, str]] = {}
    by_part: dict[str, Mapping[str, str]] = {}
    group_of = {e.word: e.attributes.get("group") for e in words.entries}
    for entry in words.entries:
        where = place(words.path, entry.line)
        partner = entry.attributes.get("partner")
        if not isinstance(partner, str):
            raise DataFileError(
                f"{where}: {entry.word!r} has no single partner; expected a list with two groups, and pairs of their"
                " words"
            )
        if group_of.get(partner) in (None, entry.attributes["group"]):
            raise DataFileError(f"{where}: the partner {partner!r} of {entry.word!r} is not a word of the other group")
        parts = _parts(entry, where, group_of)
        word = _plain(entry.word, partner, where, DataFileError)
        target = _plain(partner, entry.word, where, DataFileError)
        known = default.setdefault(word, (target, where))
        if known[0] != target or by_part.get(word, parts) != parts:
            raise DataFileError(_two_partners(where, word, target, known))
        if parts:
            by_part[word] = parts
    return Pairs({word: target for word, (target, _) in default.items()}, by_part)


def _parts(entry: WordEntry, where: str, group_of: Mapping[str, object]) -> dict[str, str]:
    parts = entry.attributes.get("by_pos", {})
    if not parts:
        return {}
    if not isinstance(parts, dict) or len(parts) != 2 or "possessive" not in parts or not set(parts) <= set(PARTS):
        raise DataFileError(
            f"{where}: by_pos of {entry.word!r} should give the partner as possessive, and as object or independent,"
            f" got {parts!r}"
        )
    for partner in parts.values():
        if group_of.get(partner) in (None, entry.attributes["group"]):
            raise DataFileError(
                f"{where}: by_pos of {entry.word!r} has {partner!r}, which is not a word of the other group"
            )
    return {part: partner.lower() for part, partner in parts.items()}


def _of_lines(path: Path) -> Pairs:
    def items() -> Iterator[tuple[str, str, str]]:
        for number, line in read_lines(path):
            words = line.partition("#")[0].split()
            if not words:
                continue
            if len(words) != 2:
                raise DataFileError(f"{place(path, number)}: expected two words, got {line.strip()!r}")
            yield place(path, number), words[0], words[1]

    pairs = _checked(items(), DataFileError)
    if not pairs.partner:
        raise DataFileError(f"{path}:1: expected two words per line, but the file has none")
    return pairs


def _checked(items: Iterable[tuple[str, str, str]], error: type[BiasError]) -> Pairs:
    partner: dict[str, tuple[str, str]] = {}
    for where, a, b in items:
        first, second = _plain(a, b, where, error), _plain(b, a, where, error)
        for word, other in ((first, second), (second, first)):
            known = partner.setdefault(word, (other, where))
            if known[0] != other:
                raise error(_two_partners(where, word, other, known))
    return Pairs({word: other for word, (other, _) in partner.items()})


def _two_partners(where: str, word: str, partner: str, known: tuple[str, str]) -> str:
    return (
        f"{where}: {word!r} has two partners, {known[0]!r} ({known[1]}) and {partner!r}; a word may be in one pair"
        " only, unless a word list declares both partners with default and by_pos"
    )


def _plain(word: str, partner: str, where: str, error: type[BiasError]) -> str:
    """Return a word in lower case, without a final point if its partner also has one."""
    plain, other = (normal_form(text).strip().lower() for text in (word, partner))
    if plain == other:
        raise error(f"{where}: {word!r} is its own partner")
    if plain.endswith(".") and other.endswith("."):
        plain = plain.removesuffix(".")
    if not all(is_letters(part) for part in plain.replace("'", "-").split("-")):
        raise error(f"{where}: expected one word of letters, hyphens and apostrophes, got {word!r}")
    return plain


def written_forms(word: str, partner: str) -> Iterator[tuple[str, str]]:
    """Yield a word and its partner in each case: he, He, HE; for compounds also Mother-In-Law and Mother-in-Law.

    >>> list(written_forms("he", "she"))
    [('he', 'she'), ('He', 'She'), ('HE', 'SHE')]
    """
    cases: list[Callable[[str], str]] = [str, _title, str.upper]
    if "-" in word:
        cases += [_title_parts, lambda text: _title_parts(text, small=("in", "of"))]
    for case in cases:
        if case(word).lower() == word:  # some letters have no capital
            yield case(word), case(partner)


def _title(word: str) -> str:
    return word[:1].upper() + word[1:]


def _title_parts(word: str, small: tuple[str, ...] = ()) -> str:
    return "-".join(part if part in small else _title(part) for part in word.split("-"))


NAME_SUFFIXES = frozenset({"Jr", "Sr", "II", "III", "IV"})


def first_names(name: str) -> tuple[str, ...]:
    """Return the first names in a person's full name: the parts before a particle, else all but the last, or the only
    part.

    Text in brackets, initials, "Jr." and words such as "The" are left out.

    >>> first_names("Jim Norton (comedian)"), first_names("Mary Anne van Dyke")
    (('Jim',), ('Mary', 'Anne'))
    >>> first_names("George W. Bush, Jr."), first_names("Cher")
    (('George',), ('Cher',))
    """
    parts = _split_name(name)
    particle = next((i for i, part in enumerate(parts) if i and part[0].islower()), None)
    return _only_names(parts[:particle] if particle else parts[: max(1, len(parts) - 1)])


def name_parts(name: str) -> tuple[str, ...]:
    """Return the first names and surnames in a person's full name.

    >>> name_parts("Mary Anne van Dyke (singer)"), name_parts("George W. Bush, Jr.")
    (('Mary', 'Anne', 'Dyke'), ('George', 'Bush'))
    """
    return _only_names(_split_name(name))


@cache
def ordinary_names(kind: str) -> frozenset[str]:
    """Return the first names that are also a ``word``, a ``month`` or a ``place``.

    >>> "Grace" in ordinary_names("word"), "Mary" in ordinary_names("word")
    (True, False)
    """
    return frozenset(entry.word for entry in load_wordlist("ordinary-names").select({"class": kind}))


def _split_name(name: str) -> list[str]:
    parts = [part.strip(".,\"'") for part in re.sub(r"[(\[].*", "", normal_form(name)).split()]
    return [part for part in parts if part and part not in NAME_SUFFIXES]


def _only_names(parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(part for part in parts if len(part) > 1 and part[0].isupper() and part.lower() not in _no_names())


@cache
def _no_names() -> frozenset[str]:
    """Return words in lower case that may be part of a full name but are not a name: "The Rock"."""
    stop_words = {entry.word for entry in load_wordlist("stop-words").entries}
    return frozenset(stop_words - {name.lower() for name, _ in read_names()})
