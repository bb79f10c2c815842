"""Counterfactual data augmentation: all gendered words of a text are swapped for their partners (Lu et al. 2018,
section 4; webster2020, 5.2).

There are two interventions:

- ``naive`` swaps each word for its default partner (her: his; him, his: her).
- ``grammatical`` leaves a word that shares a coreference cluster, or without clusters a noun phrase, with a proper noun
  ("Queen Elizabeth"). It swaps her for him or his, and his for her or hers, by part of speech.

Everything else stays: other words, white space, punctuation and capitals (he, He, HE; other mixtures are not matched).
``'s`` and ``'ll`` stay (she's: he's; man's: woman's). A compound with hyphens is swapped as a whole if it is listed
(father-in-law), otherwise part by part (ex-wife: ex-husband; man-made: woman-made). Addresses (``@``, ``://``,
``www.``) and words with digits or ``_`` inside stay. All streams are read once, a few texts at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Annotated, ClassVar, TypeVar

from pytest_genderbias.datasets.conll import Document
from pytest_genderbias.datasets.mentions import Span
from pytest_genderbias.errors import SettingError
from pytest_genderbias.mitigation.methods.base import Columns, Method, edited, texts_of
from pytest_genderbias.mitigation.words.grammar import Analyse, Grammar, cluster_grammar, rule_grammar, spacy_grammar
from pytest_genderbias.mitigation.words.matching import find_words, reach_of, refuse_uncut, replace_spans
from pytest_genderbias.mitigation.words.pairs import (
    NAME_PARTNERS,
    NamePartners,
    Pairs,
    in_case_of,
    name_partners,
    pairs_of,
    read_names,
    read_pairs,
)
from pytest_genderbias.recipes.recipe import ADDED_LATER, Row
from pytest_genderbias.text.normal_form import normal_form
from pytest_genderbias.text.schema import Initials, check_fields, one_of

INTERVENTIONS = ("naive", "grammatical")
#: A checked list of pairs, the name or path of a list, or the pairs themselves.
PairSource = Pairs | str | Path | Iterable[tuple[str, str]]

_SURNAME = re.compile(r"[ \t]+(?:[A-Z]\.[ \t]+)?")  # separates two names of one person
_TITLE = re.compile(r"(?<!\w)(?:Mrs?|Ms|Dr)\.?[ \t]+\Z")
SIDES = ("one", "two")
#: How often a text without a counterfactual is written.
NEUTRAL = {"once": 1, "twice": 2, "drop": 0}
Item = TypeVar("Item")

_TOKEN = re.compile(r"\w+|[^\w\s]")
_CHUNK = 256  #: number of texts in memory at a time


@dataclass(frozen=True, eq=False)
class SwapTable:
    """The words that are swapped: pairs, names, and the partner of every written form."""

    pairs: Pairs
    names: NamePartners | None
    forms: Mapping[str, str]
    reach: int  #: number of parts and joints of the longest compound


@lru_cache(maxsize=32)
def _table(pairs: Pairs, names: NamePartners | None) -> SwapTable:
    forms = {**(names.partner if names else {}), **pairs.forms}
    return SwapTable(pairs, names, forms, reach_of(forms))


def make_table(pairs: PairSource, names: NamePartners | None, intervention: str) -> SwapTable:
    """Read and check the pairs, and return the table of words to swap.

    Raises:
        SettingError: an unknown intervention; pairs that cannot be swapped; neither pairs nor names.
        DataFileError: a file of pairs that cannot be swapped.
    """
    if intervention not in INTERVENTIONS:
        raise SettingError(f"intervention should be one of {', '.join(INTERVENTIONS)}, got {intervention!r}")
    if not isinstance(pairs, Pairs):
        pairs = read_pairs(pairs) if isinstance(pairs, (str, Path)) else pairs_of(pairs)
    if not pairs.partner and names is None:
        raise SettingError("nothing to swap: pass pairs of words, names, or both")
    return _table(pairs, names)


def _edits(
    texts: Sequence[str], table: SwapTable, analyse: Callable[[Sequence[int]], Iterable[Grammar]] | None
) -> list[list[tuple[int, int, str]]]:
    """Return the words to swap in each text, as :func:`replacements` does.

    ``analyse`` takes the numbers of the texts that have such words; ``None`` for the naive intervention.
    """
    refuse_uncut(texts)
    gendered = [i for i, text in enumerate(texts) if analyse and find_words(text, table.forms, table.reach)]
    analyses = dict(zip(gendered, analyse(gendered) if analyse and gendered else (), strict=True))
    return [
        [] if analyse and i not in analyses else replacements(text, table, analyses.get(i))
        for i, text in enumerate(texts)
    ]


def _swapped(texts: Sequence[str], table: SwapTable, intervention: str, grammar: Analyse) -> list[str]:
    def analyse(numbers: Sequence[int]) -> Iterable[Grammar]:
        return grammar([texts[i] for i in numbers])

    edits = _edits(texts, table, None if intervention == "naive" else analyse)
    return list(map(replace_spans, texts, edits))


def replacements(text: str, table: SwapTable, grammar: Grammar | None) -> list[tuple[int, int, str]]:
    """Return (start, end, new word) for each word to swap."""
    hits = find_words(text, table.forms, table.reach)
    named = _name_replacements(text, hits, table) if table.names else []
    exchanged = {normal_form(text[start:end]) for start, end, _ in named} & (
        table.names.changed if table.names else frozenset()
    )
    swaps = []
    for start, end in hits:
        written = normal_form(text[start:end])
        if written not in table.pairs.forms:
            continue
        word, new = written.lower(), table.pairs.forms[written]
        if grammar is not None:
            nouns = grammar.proper_nouns((start, end))
            if nouns and exchanged.isdisjoint(nouns):
                continue
            new = _by_part(written, new, table.pairs.by_part.get(word), grammar, (start, end))
        swaps.append((start, end, new))
    return sorted(swaps + named) if named else swaps


def _name_replacements(text: str, hits: Sequence[Span], table: SwapTable) -> list[tuple[int, int, str]]:
    """Return (start, end, new name) for each first name; names in the place of a surname stay."""
    swaps = []
    after_name = -1
    for start, end in hits:
        name = normal_form(text[start:end])
        if name in table.pairs.forms or name not in table.forms:
            continue
        follows = after_name >= 0 and _SURNAME.fullmatch(text, after_name, start)
        after_name = end
        if not follows and not _TITLE.search(text, max(0, start - 6), start):
            swaps.append((start, end, table.forms[name]))
    return swaps


def _by_part(written: str, default: str, parts: Mapping[str, str] | None, grammar: Grammar, span: Span) -> str:
    if not parts:
        return default
    possessive = grammar.is_possessive(span)
    (partner,) = (p for part, p in parts.items() if (part == "possessive") == possessive)
    return in_case_of(written, partner)


def swap(
    text: str,
    pairs: PairSource = "lu2018-pairs",
    *,
    intervention: str = "naive",
    names: NamePartners | None = None,
    grammar: Analyse = rule_grammar,
) -> str:
    """Return the counterfactual of a text, or the text itself if nothing is swapped.

    Swapping twice restores the text if the pairs are one to one.

    Args:
        text: any text, of any length.
        pairs: the words to swap: a packaged list (``lu2018-pairs``: the 124 pairs of the paper and the pronouns that it
            lacks; ``zhao2018-pairs``: webster2020's), a file (see
            :func:`~pytest_genderbias.mitigation.words.pairs.read_pairs`), or the pairs; ``()`` to swap names only.
        intervention: ``naive`` or ``grammatical``.
        names: partners of first names, from :func:`~pytest_genderbias.mitigation.words.pairs.name_partners`. If the
            grammatical intervention replaces a proper noun by a name of the other group ("Queen Elizabeth": "King
            James"), the words with it are swapped as well.
        grammar: the analysis of texts for the grammatical intervention: rules, or the result of
            :func:`~pytest_genderbias.mitigation.words.grammar.spacy_grammar`.

    Raises:
        SettingError: an unknown intervention; pairs that cannot be swapped; the text has no spaces between words.
        DataFileError: a file of pairs that cannot be swapped; the message names file and line.

    >>> swap("He thinks she knows; she, her mother's friend, told him.")
    "She thinks he knows; he, his father's friend, told her."
    >>> swap("Queen Anne told her that her hat was his.", intervention="grammatical")
    'Queen Anne told him that his hat was hers.'
    """
    return _swapped([text], make_table(pairs, names, intervention), intervention, grammar)[0]


def augment(
    texts: Iterable[str],
    pairs: PairSource = "lu2018-pairs",
    *,
    sides: str = "two",
    intervention: str = "naive",
    names: NamePartners | None = None,
    grammar: Analyse = rule_grammar,
    neutral: str | None = None,
) -> Iterator[str]:
    """Yield texts and their counterfactuals, one after the other, in the order of the texts.

    Each text is swapped by itself: to augment sentence by sentence, pass sentences. Memory does not grow with the
    number of texts.

    Args:
        texts: any iterable; it is read once.
        pairs: see :func:`swap`, also for ``intervention``, ``names`` and ``grammar``.
        sides: ``two``: each text and its counterfactual after it; ``one``: the counterfactuals only (webster2020, 5.2:
            stronger, but it may reverse the bias).
        neutral: how often to write a text in which nothing is swapped: ``once``, ``drop`` (never), or ``twice``
            (lu2018's definition 4 copies every instance). The default is ``once`` if two-sided and ``drop`` if
            one-sided.

    Raises:
        SettingError: an unknown setting, or (while reading) an item that is not a text, or texts without spaces between
            words.
        DataFileError: a file of pairs that cannot be swapped.

    >>> list(augment(["He sings.", "It rains."]))
    ['He sings.', 'She sings.', 'It rains.']
    >>> list(augment(["He sings.", "It rains."], sides="one")), list(augment(["It rains."], neutral="twice"))
    (['She sings.'], ['It rains.', 'It rains.'])
    """
    table = make_table(pairs, names, intervention)
    return _sided(texts, lambda chunk: _swapped(chunk, table, intervention, grammar), sides, neutral)


def resolve_neutral(sides: str, neutral: str | None) -> str:
    """Return how often texts in which nothing is swapped are written: by default ``once``, or ``drop`` if one-sided.

    Raises:
        SettingError: an unknown setting, or one that does not go with ``sides``.

    >>> resolve_neutral("one", None)
    'drop'
    """
    if sides not in SIDES:
        raise SettingError(f"sides should be one of {', '.join(SIDES)}, got {sides!r}")
    if neutral is None:
        return "once" if sides == "two" else "drop"
    if neutral not in NEUTRAL or (neutral == "twice" and sides == "one"):
        raise SettingError(
            f"neutral should be one of {', '.join(NEUTRAL)}, and twice only with two sides; got {neutral!r}"
        )
    return neutral


def _grammar_of_clusters(row: Row, columns: Columns, table: SwapTable) -> Grammar:
    """Return the analysis of a row with mentions by their clusters."""
    (text,) = (row[column] for column in columns.texts)
    clusters: dict[object, list[Span]] = {}
    for start, end, _, cluster in row[str(columns.mentions)]:
        clusters.setdefault(cluster, []).append((start, end))
    tokens = tuple(match.span() for match in _TOKEN.finditer(text))
    document = Document("", text, tokens, (), tuple(map(tuple, clusters.values())))
    return cluster_grammar(document, table.pairs.partner)


def _sided(
    items: Iterable[Item],
    swapped: Callable[[Sequence[Item]], Sequence[Item]],
    sides: str,
    neutral: str | None,
    copies: bool = False,
) -> Iterator[Item]:
    """Check the settings at once, and return an iterator over originals and counterfactuals, or copies of the
    originals.
    """
    if isinstance(items, str):
        raise SettingError(f"expected several texts, got one: {items!r:.60}; put it in a list")
    times = NEUTRAL[resolve_neutral(sides, neutral)]

    def stream() -> Iterator[Item]:
        iterator = iter(items)
        while chunk := list(islice(iterator, _CHUNK)):
            for item, other in zip(chunk, swapped(chunk), strict=True):
                if other == item:
                    yield from [item] * times
                    continue
                if sides == "two":
                    yield item
                yield item if copies else other

    return stream()


@dataclass(frozen=True)
class CounterfactualAugmentation(Method):
    """Counterfactual data augmentation of the training texts; labels stay (lu2018 section 4, webster2020 section 5.2).

    ``pairs`` is a list of pairs, or none, to swap names only. ``intervention`` is ``naive``, or ``grammatical``: words
    in the company of a proper noun stay, and her becomes him or his by its part of speech. ``sides`` is ``two``, or
    ``one``: counterfactuals only. ``neutral`` says what becomes of texts in which nothing is swapped: ``once``,
    ``drop`` or ``twice``; by default once, and dropped if one-sided. ``names`` is the gender of the partners of first
    names: ``same``, ``other`` or ``random``; by default names stay. ``initials`` is a range of first letters, such as
    ``A-M``: only names that begin with one of them are replaced, and by each other (webster2020, table 6; the suite
    ``disco-names`` has an option of the same name). ``grammar`` is ``rules`` or ``spacy`` (extra ``[spacy]``), for the
    grammatical intervention. ``copies`` is the control of two-sided augmentation: a copy of each text in place of its
    counterfactual. See :func:`augment`.
    """

    name: ClassVar[str] = "cda"
    pairs: str | None = "lu2018-pairs"
    intervention: Annotated[str, one_of(*INTERVENTIONS)] = "naive"
    sides: Annotated[str, one_of(*SIDES)] = "two"
    neutral: Annotated[str, one_of(*NEUTRAL)] | None = None
    names: Annotated[str, one_of(*NAME_PARTNERS)] | None = None
    grammar: Annotated[str, one_of("rules", "spacy")] = "rules"
    copies: bool = False
    initials: Initials | None = field(default=None, metadata=ADDED_LATER)

    control_in_words: ClassVar[str] = "the same recipe with each swapped text twice"

    def __post_init__(self) -> None:
        """Reject unknown settings."""
        check_fields(self)
        resolve_neutral(self.sides, self.neutral)
        if self.names is None and (self.pairs is None or self.initials is not None):
            missing = "nothing is swapped" if self.pairs is None else f"initials={self.initials} selects no name"
            raise SettingError(f"{missing} without names; set names to {', '.join(NAME_PARTNERS)}")
        if self.pairs is not None:
            read_pairs(self.pairs)
        if self.names is not None:
            read_names(initials=self.initials)

    def rows(self, rows: Sequence[Row], columns: Columns, seed: int) -> list[Row]:
        """Add the counterfactual of each row, or replace the row by it. Where rows have mentions, the grammar knows
        their clusters.
        """
        names = None if self.names is None else read_names(initials=self.initials)
        partners = None if names is None or self.names is None else name_partners(names, self.names, seed=seed)
        if columns.mentions is not None and self.grammar != "rules":
            raise SettingError(
                "the rows have coreference clusters, which decide in place of a grammar: leave"
                f" grammar={self.grammar} out"
            )
        table = make_table(self.pairs or (), partners, self.intervention)
        grammar = spacy_grammar() if self.grammar == "spacy" else rule_grammar
        own = iter([texts_of(row, columns.texts, number) for number, row in enumerate(rows)])

        def swapped(chunk: Sequence[Row]) -> list[Row]:
            texts = [text for of_row in islice(own, len(chunk)) for text in of_row]

            def analyse(numbers: Sequence[int]) -> Iterable[Grammar]:
                if columns.mentions is None:
                    return grammar([texts[i] for i in numbers])
                return (_grammar_of_clusters(chunk[i], columns, table) for i in numbers)  # of its only text (lu2018)

            edits = iter(_edits(texts, table, None if self.intervention == "naive" else analyse))
            return [edited(row, columns, list(islice(edits, len(columns.texts)))) for row in chunk]

        return list(_sided(rows, swapped, self.sides, self.neutral, self.copies))

    def control(self, repeat: int) -> Method | None:
        """Return the method that copies texts instead of swapping, if it is two-sided."""
        return replace(self, copies=True) if self.sides == "two" else None
