"""The swap of words in one text, for counterfactual data augmentation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pytest_genderbias.datasets.mentions import Span
from pytest_genderbias.errors import SettingError
from pytest_genderbias.mitigation.words.grammar import Analyse, Grammar
from pytest_genderbias.mitigation.words.matching import find_words, reach_of, replace_spans
from pytest_genderbias.mitigation.words.pairs import NamePartners, Pairs, in_case_of, pairs_of, read_pairs
from pytest_genderbias.text.normal_form import normal_form

INTERVENTIONS = ("naive", "grammatical")
#: A checked list of pairs, the name or path of a list, or the pairs themselves.
PairSource = Pairs | str | Path | Iterable[tuple[str, str]]

_SURNAME = re.compile(r"[ \t]+(?:[A-Z]\.[ \t]+)?")  # separates two names of one person
_TITLE = re.compile(r"(?<!\w)(?:Mrs?|Ms|Dr)\.?[ \t]+\Z")


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


def make_swapper(
    pairs: PairSource, names: NamePartners | None, intervention: str, grammar: Analyse
) -> Callable[[Sequence[str]], list[str]]:
    """Return a function that swaps the words of several texts at a time.

    Raises:
        SettingError, DataFileError: as :func:`make_table`.
    """
    table = make_table(pairs, names, intervention)

    def naive(texts: Sequence[str]) -> list[str]:
        return [replace_spans(text, replacements(text, table, None)) for text in texts]

    def grammatical(texts: Sequence[str]) -> list[str]:
        swapped = list(texts)
        gendered = [i for i, text in enumerate(texts) if find_words(text, table.forms, table.reach)]
        analyses = grammar([texts[i] for i in gendered]) if gendered else ()
        for i, analysis in zip(gendered, analyses, strict=True):
            swapped[i] = replace_spans(texts[i], replacements(texts[i], table, analysis))
        return swapped

    return naive if intervention == "naive" else grammatical


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
