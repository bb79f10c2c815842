"""The swap of words in one text or document, for counterfactual data augmentation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from pytest_genderbias.datasets.conll import Document
from pytest_genderbias.datasets.mentions import Span
from pytest_genderbias.errors import DataFileError, SettingError
from pytest_genderbias.mitigation.words.grammar import Analyse, Grammar
from pytest_genderbias.mitigation.words.matching import find_words, reach_of, replace_spans
from pytest_genderbias.mitigation.words.pairs import NamePartners, Pairs, in_case_of, pairs_of, read_pairs
from pytest_genderbias.text.normal_form import normal_form

INTERVENTIONS = ("naive", "grammatical")
#: A checked list of pairs, the name or path of a list, or the pairs themselves.
PairSource = Pairs | str | Path | Iterable[tuple[str, str]]

_SURNAME = re.compile(r"[ \t]+(?:[A-Z]\.[ \t]+)?")  # separates two names of one person
_TITLE = re.compile(r"(?<!\w)(?:Mrs?|Ms|Dr)\.?[ \t]+\Z")


@dataclass
class AugmentationSummary:
    """Counts of what an augmentation did: a summary that is passed to a function is counted up.

    Attributes:
        texts: number of texts, rows or documents read.
        changed: number of those that have a counterfactual.
        written: number of texts in the output, originals and counterfactuals.
        dropped: number of texts that are not in the output at all: one-sided augmentation drops texts without a
            counterfactual.
        swapped: how often each word was replaced by which partner, in lower case.
        names: how often each first name was replaced by which name.
        kept: how often a gendered word stayed because of a proper noun (grammatical intervention only).
        broken: messages about lines that could not be read, the first hundred.
        n_broken: number of lines that could not be read.
    """

    texts: int = 0
    changed: int = 0
    written: int = 0
    dropped: int = 0
    swapped: Counter[tuple[str, str]] = field(default_factory=Counter)
    names: Counter[tuple[str, str]] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    n_broken: int = 0

    def note_broken(self, error: DataFileError) -> None:
        """Count a line that could not be read; for ``on_broken`` of ``read_texts``."""
        self.n_broken += 1
        if len(self.broken) < 100:
            self.broken.append(str(error))

    def as_dict(self) -> dict[str, object]:
        """Return all counts as plain JSON values, the most frequent words first."""
        return vars(self) | {
            "swapped": {f"{word} > {partner}": n for (word, partner), n in self.swapped.most_common()},
            "names": {f"{name} > {partner}": n for (name, partner), n in self.names.most_common()},
            "kept": dict(self.kept.most_common()),
            "broken": list(self.broken),
        }


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
    pairs: PairSource, names: NamePartners | None, intervention: str, grammar: Analyse, summary: AugmentationSummary
) -> Callable[[Sequence[str]], list[str]]:
    """Return a function that swaps the words of several texts at a time.

    Raises:
        SettingError, DataFileError: as :func:`make_table`.
    """
    table = make_table(pairs, names, intervention)

    def naive(texts: Sequence[str]) -> list[str]:
        return [replace_spans(text, replacements(text, table, None, summary)) for text in texts]

    def grammatical(texts: Sequence[str]) -> list[str]:
        swapped = list(texts)
        gendered = [i for i, text in enumerate(texts) if find_words(text, table.forms, table.reach)]
        analyses = grammar([texts[i] for i in gendered]) if gendered else ()
        for i, analysis in zip(gendered, analyses, strict=True):
            swapped[i] = replace_spans(texts[i], replacements(texts[i], table, analysis, summary))
        return swapped

    return naive if intervention == "naive" else grammatical


def replacements(
    text: str, table: SwapTable, grammar: Grammar | None, summary: AugmentationSummary
) -> list[tuple[int, int, str]]:
    """Return (start, end, new word) for each word to swap, and count the words in the summary."""
    hits = find_words(text, table.forms, table.reach)
    named = _name_replacements(text, hits, table, summary) if table.names else []
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
                summary.kept[word] += 1
                continue
            new = _by_part(written, new, table.pairs.by_part.get(word), grammar, (start, end))
        summary.swapped[word, new.lower()] += 1
        swaps.append((start, end, new))
    return sorted(swaps + named) if named else swaps


def _name_replacements(
    text: str, hits: Sequence[Span], table: SwapTable, summary: AugmentationSummary
) -> list[tuple[int, int, str]]:
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
            summary.names[name, table.forms[name]] += 1
            swaps.append((start, end, table.forms[name]))
    return swaps


def _by_part(written: str, default: str, parts: Mapping[str, str] | None, grammar: Grammar, span: Span) -> str:
    if not parts:
        return default
    possessive = grammar.is_possessive(span)
    (partner,) = (p for part, p in parts.items() if (part == "possessive") == possessive)
    return in_case_of(written, partner)


def swap_document(document: Document, replacements: Sequence[tuple[int, int, str]]) -> Document:
    """Return a document with words replaced: as many tokens, the same clusters; the document itself if nothing is
    replaced.
    """
    if not replacements:
        return document
    moved: dict[int, int] = {}
    shifts = iter(replacements)
    upcoming, shift = next(shifts, None), 0
    for position in sorted({p for span in document.tokens for p in span}):
        while upcoming is not None and upcoming[1] <= position:
            shift += len(upcoming[2]) - (upcoming[1] - upcoming[0])
            upcoming = next(shifts, None)
        moved[position] = position + shift

    def move(spans: Iterable[Span]) -> tuple[Span, ...]:
        return tuple((moved[start], moved[end]) for start, end in spans)

    return replace(
        document,
        id=f"{document.id} (counterfactual)",
        text=replace_spans(document.text, replacements),
        tokens=move(document.tokens),
        sentences=move(document.sentences),
        clusters=tuple(map(move, document.clusters)),
    )
