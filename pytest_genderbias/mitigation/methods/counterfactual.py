"""Counterfactual data augmentation: every gendered word becomes its partner, all at once (Lu et al. 2018, section 4; webster2020, 5.2).

- ``naive``: each word takes its default partner (her: his; him, his: her).
- ``grammatical``: not where the word is in a coreference cluster, or without clusters in a noun phrase, with a proper noun ("Queen
  Elizabeth"); and her becomes him or his, his becomes her or hers, as the sentence has it.

Everything else stays: other words, white space, punctuation, and how a word is written (he, He, HE; other mixtures are no word of the
list). ``'s`` and ``'ll`` are left where they are (she's: he's; man's: woman's). A word with hyphens is swapped whole where the list
has it (father-in-law), else part by part (ex-wife: ex-husband; man-made: woman-made). Addresses (``@``, ``://``, ``www.``) and words
with digits or ``_`` inside are left alone. All streams are read once, a few texts at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pytest_genderbias.datasets.conll import Document
from pytest_genderbias.datasets.corpora import has_documents
from pytest_genderbias.datasets.files import OnBroken, place, read_lines, read_objects, refuse
from pytest_genderbias.errors import DataFileError, SettingError
from pytest_genderbias.mitigation.methods.base import Columns, Method, Row
from pytest_genderbias.mitigation.methods.swapping import (
    INTERVENTIONS,
    AugmentationSummary,
    PairSource,
    make_swapper,
    make_table,
    replacements,
    swap_document,
)
from pytest_genderbias.mitigation.words.grammar import Analyse, cluster_grammar, rule_grammar, spacy_grammar
from pytest_genderbias.mitigation.words.pairs import NAME_PARTNERS, NamePartners, name_partners, read_names, read_pairs

SIDES = ("one", "two")
#: How often a text without counterfactual comes out.
NEUTRAL = {"once": 1, "twice": 2, "drop": 0}
Label = TypeVar("Label")
Texts = TypeVar("Texts", str, tuple[str, ...])
Item = TypeVar("Item")

_CHUNK = 256  #: texts that are held at once


def swap(
    text: str,
    pairs: PairSource = "lu2018-pairs",
    *,
    intervention: str = "naive",
    names: NamePartners | None = None,
    grammar: Analyse = rule_grammar,
    summary: AugmentationSummary | None = None,
) -> str:
    """Return the counterfactual of a text: the text itself where nothing is swapped.

    Swapping twice gives the text back wherever the pairs are one to one (:attr:`~pytest_genderbias.mitigation.words.pairs.Pairs.one_to_one`).

    Args:
        text: any text, of any length.
        pairs: the words: a packaged list (``lu2018-pairs``: the 124 pairs of the paper and the pronouns that it lacks;
            ``zhao2018-pairs``: webster2020's), a file (see :func:`~pytest_genderbias.mitigation.words.pairs.read_pairs`), or the pairs;
            none, ``()``, where names alone are swapped.
        intervention: ``naive`` or ``grammatical``.
        names: partners of first names, of :func:`~pytest_genderbias.mitigation.words.pairs.name_partners`. Where the grammatical
            intervention gives a proper noun a name of the other group ("Queen Elizabeth": "King James"), the words with it are
            swapped as well.
        grammar: what analyses texts for the grammatical intervention: rules, or
            :func:`~pytest_genderbias.mitigation.words.grammar.spacy_grammar`.
        summary: is counted up.

    Raises:
        SettingError: another intervention; pairs that cannot be swapped.
        DataFileError: a file of pairs that cannot be swapped, with file and line.

    >>> swap("He thinks she knows; she, her mother's friend, told him.")
    "She thinks he knows; he, his father's friend, told her."
    >>> swap("Queen Anne told her that her hat was his.", intervention="grammatical")
    'Queen Anne told him that his hat was hers.'
    """
    return make_swapper(pairs, names, intervention, grammar, summary or AugmentationSummary())([text])[0]


def augment(
    texts: Iterable[str],
    pairs: PairSource = "lu2018-pairs",
    *,
    sides: str = "two",
    intervention: str = "naive",
    names: NamePartners | None = None,
    grammar: Analyse = rule_grammar,
    neutral: str | None = None,
    summary: AugmentationSummary | None = None,
) -> Iterator[str]:
    """Yield texts and their counterfactuals, one after the other, in the order of the texts.

    A text is what may be swapped alone: give sentences where sentences are wanted. Memory does not grow with their number.

    Args:
        texts: any iterable; it is read once.
        pairs: as :func:`swap`, like ``intervention``, ``names``, ``grammar`` and ``summary``.
        sides: ``two``: each text, and its counterfactual after it; ``one``: the counterfactuals only (webster2020, 5.2: stronger, but
            it may turn the bias round).
        neutral: what becomes of a text without counterfactual, where nothing is swapped: ``once``, ``drop``, or ``twice`` (lu2018's
            definition 4 copies every instance). By default once if two-sided, dropped if one-sided; ``AugmentationSummary.dropped`` counts.

    Raises:
        SettingError: a setting that there is not, or (while reading) an item that is no text.
        DataFileError: a file of pairs that cannot be swapped.

    >>> list(augment(["He sings.", "It rains."]))
    ['He sings.', 'She sings.', 'It rains.']
    >>> list(augment(["He sings.", "It rains."], sides="one")), list(augment(["It rains."], neutral="twice"))
    (['She sings.'], ['It rains.', 'It rains.'])
    """
    summary = summary or AugmentationSummary()
    swap_all = make_swapper(pairs, names, intervention, grammar, summary)

    def counterparts(chunk: Sequence[str]) -> Iterator[tuple[str, bool]]:
        return ((other, other != text) for text, other in zip(chunk, swap_all(chunk), strict=True))

    return _sided(texts, counterparts, sides, neutral, summary)


def augment_labelled(
    rows: Iterable[tuple[Texts, Label]],
    pairs: PairSource = "lu2018-pairs",
    *,
    sides: str = "two",
    intervention: str = "naive",
    names: NamePartners | None = None,
    grammar: Analyse = rule_grammar,
    neutral: str | None = None,
    summary: AugmentationSummary | None = None,
) -> Iterator[tuple[Texts, Label]]:
    """Yield rows (text, label) and their counterfactuals, each with the label of its row (lu2018: the truth stays as it is).

    Where the text is a tuple of texts, such as premise and hypothesis, all of them are swapped together.

    Args:
        rows: pairs of a text, or a tuple of texts, and a label of any kind.
        pairs: this and all others as :func:`augment`.
        sides: as :func:`augment`.
        intervention: as :func:`swap`.
        names: as :func:`swap`.
        grammar: as :func:`swap`.
        neutral: as :func:`augment`.
        summary: is counted up, a row as one text.

    Raises:
        SettingError: as :func:`augment`.
        DataFileError: as :func:`augment`.

    >>> list(augment_labelled([("He sings.", 1), ("It rains.", 0)]))
    [('He sings.', 1), ('She sings.', 1), ('It rains.', 0)]
    >>> list(augment_labelled([(("A man runs.", "Rain."), "neutral")], sides="one"))
    [(('A woman runs.', 'Rain.'), 'neutral')]
    """
    summary = summary or AugmentationSummary()
    swap_all = make_swapper(pairs, names, intervention, grammar, summary)

    def counterparts(chunk: Sequence[tuple[Texts, Label]]) -> Iterator[tuple[tuple[Texts, Label], bool]]:
        swapped = iter(
            swap_all([text for texts, _ in chunk for text in ((texts,) if isinstance(texts, str) else texts)])
        )
        for texts, label in chunk:
            other: Any = next(swapped) if isinstance(texts, str) else tuple(islice(swapped, len(texts)))
            yield (other, label), other != texts

    return _sided(rows, counterparts, sides, neutral, summary)


def augment_documents(
    documents: Iterable[Document | tuple[Document, Sequence[str]]],
    pairs: PairSource = "lu2018-pairs",
    *,
    sides: str = "two",
    intervention: str = "grammatical",
    names: NamePartners | None = None,
    neutral: str | None = None,
    summary: AugmentationSummary | None = None,
) -> Iterator[Document]:
    """Yield documents with coreference clusters, and their counterfactuals: as many tokens, the same clusters (lu2018, section 4).

    Args:
        documents: of :func:`~pytest_genderbias.datasets.conll.read_conll`, alone or each with the part of speech of its tokens.
        pairs: as :func:`augment`, like ``sides``, ``names``, ``neutral`` and ``summary``.
        sides: as :func:`augment`.
        intervention: ``grammatical`` (lu2018's for coreference; by :func:`~pytest_genderbias.mitigation.words.grammar.cluster_grammar`) or
            ``naive``.
        names: as :func:`swap`.
        neutral: as :func:`augment`.
        summary: is counted up, a document as one text.

    Raises:
        SettingError: as :func:`augment`; there are not as many tags as tokens.
        DataFileError: as :func:`augment`.

    >>> text = "Ann said she met her brother ."
    >>> spans = ((0, 3), (4, 8), (9, 12), (13, 16), (17, 20), (21, 28), (29, 30))
    >>> document = Document("d", text, spans, ((0, 30),), (((0, 3), (9, 12), (17, 20)), ((17, 28),)))
    >>> [d.text for d in augment_documents([document])]
    ['Ann said she met her brother .', 'Ann said she met her sister .']
    """
    summary = summary or AugmentationSummary()
    table = make_table(pairs, names, intervention)

    def counterparts(chunk: Sequence[Document | tuple[Document, Sequence[str]]]) -> Iterator[tuple[Document, bool]]:
        for item in chunk:
            document, tags = item if isinstance(item, tuple) else (item, None)
            grammar = cluster_grammar(document, tags, table.pairs.partner) if intervention == "grammatical" else None
            other = swap_document(document, replacements(document.text, table, grammar, summary))
            yield other, other is not document

    def originals(document: Document | tuple[Document, Sequence[str]]) -> Document:
        return document[0] if isinstance(document, tuple) else document

    return _sided(documents, counterparts, sides, neutral, summary, originals)


def read_texts(path: str | Path, *, column: str = "text", on_broken: OnBroken = refuse) -> Iterator[str]:
    """Yield the texts of a corpus, in memory that does not grow with it: one a line; lines without text are passed over.

    Args:
        path: a text (UTF-8), or JSON lines if its name ends in ``.jsonl``; each also with ``.gz``.
        column: where JSON lines have the text, or a list of sentences, each of which is yielded.
        on_broken: is called with the error of each line that cannot be read, and reading goes on (``summary.note_broken``,
            ``errors.append``, ``warnings.warn``). By default the first broken line raises.

    Raises:
        DataFileError: there is no such file, or it is cut off; without ``on_broken``, a line that is not UTF-8, not valid JSON, or
            has no text; the message begins with file and line.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path, summary = Path(folder, "corpus.txt"), AugmentationSummary()
    ...     _ = path.write_bytes(b"He sings.\\n\\xff\\nIt rains.\\n")
    ...     list(read_texts(path, on_broken=summary.note_broken)), summary.broken[0].partition(";")[0][-41:]
    (['He sings.', 'It rains.'], 'txt:2: not UTF-8: byte 0xff at position 1')
    """
    path = Path(path).expanduser()
    if not has_documents(path):
        yield from (line for _, line in read_lines(path, on_broken) if line.strip())
        return
    for number, row in read_objects(path, on_broken=on_broken):
        value = row.get(column)
        texts: list[Any] = value if isinstance(value, list) else [value]
        if texts and all(isinstance(text, str) for text in texts):
            yield from (text for text in texts if text.strip())
        else:
            on_broken(
                DataFileError(
                    f"{place(path, number)}: expected a text, or a list of texts, in {column!r}, got {row!s:.60}"
                )
            )


def chosen_neutral(sides: str, neutral: str | None) -> str:
    """Return what is done with texts in which nothing is swapped: by default they are kept ``once``, or dropped if one-sided.

    Raises:
        SettingError: there is no such setting, or not with this one of sides.

    >>> chosen_neutral("one", None)
    'drop'
    """
    if sides not in SIDES:
        raise SettingError(f"sides is one of {', '.join(SIDES)}; got {sides!r}")
    if neutral is None:
        return "once" if sides == "two" else "drop"
    if neutral not in NEUTRAL or (neutral == "twice" and sides == "one"):
        raise SettingError(f"neutral is one of {', '.join(NEUTRAL)}, twice only with two sides; got {neutral!r}")
    return neutral


def _sided(
    items: Iterable[Any],
    counterparts: Callable[[Sequence[Any]], Iterable[tuple[Item, bool]]],
    sides: str,
    neutral: str | None,
    summary: AugmentationSummary,
    original: Callable[[Any], Item] = lambda item: item,
) -> Iterator[Item]:
    """Check the settings now, and yield originals and counterfactuals when they are asked for."""
    if isinstance(items, str):
        raise SettingError(f"expected many texts, got one: {items!r:.60}; put it in a list")
    neutral = chosen_neutral(sides, neutral)

    def stream() -> Iterator[Item]:
        iterator = iter(items)
        while chunk := list(islice(iterator, _CHUNK)):
            for item, (other, changed) in zip(chunk, counterparts(chunk), strict=True):
                same = original(item)
                out = ([same, other] if sides == "two" else [other]) if changed else [same] * NEUTRAL[neutral]
                summary.texts += 1
                summary.changed += changed
                summary.written += len(out)
                summary.dropped += not out
                yield from out

    return stream()


@dataclass(frozen=True)
class CounterfactualAugmentation(Method):
    """Counterfactual data augmentation of the training texts, labels kept (lu2018 section 4, webster2020 section 5.2).

    ``pairs``, ``intervention``, ``sides`` and ``neutral`` as in :func:`~pytest_genderbias.mitigation.methods.counterfactual.augment`. ``names``:
    partners of first names, ``same``, ``other`` or ``random``; none by default. ``grammar``: ``rules`` or ``spacy``, for the
    grammatical intervention. ``copies`` is the control of the two-sided one: each text a second time in place of its counterfactual.
    """

    name: ClassVar[str] = "cda"
    pairs: str = "lu2018-pairs"
    intervention: str = "naive"
    sides: str = "two"
    neutral: str | None = None
    names: str | None = None
    grammar: str = "rules"
    copies: bool = False

    control_in_words: ClassVar[str] = "the same recipe with each swapped text twice"

    def __post_init__(self) -> None:
        """Refuse settings that there are not."""
        if self.grammar not in ("rules", "spacy"):
            raise SettingError(f"grammar should be rules or spacy, got {self.grammar!r}")
        if self.names is not None and self.names not in NAME_PARTNERS:
            raise SettingError(f"names should be one of {', '.join(NAME_PARTNERS)}, got {self.names!r}")
        if self.intervention not in INTERVENTIONS:
            raise SettingError(f"intervention should be one of {', '.join(INTERVENTIONS)}, got {self.intervention!r}")
        chosen_neutral(self.sides, self.neutral)
        read_pairs(self.pairs)

    def rows(self, rows: Sequence[Row], columns: Columns, seed: int) -> list[Row]:
        """Add the counterfactual of each row, or put it in its place."""
        partners = None if self.names is None else name_partners(read_names(), self.names, seed=seed)
        told = [(tuple(row[column] for column in columns.texts), row) for row in rows]
        found = augment_labelled(
            told, self.pairs, sides=self.sides, intervention=self.intervention, names=partners,
            grammar=spacy_grammar() if self.grammar == "spacy" else rule_grammar, neutral=self.neutral,
        )  # fmt: skip
        return [row if self.copies else {**row, **dict(zip(columns.texts, texts, strict=True))} for texts, row in found]

    def control(self, repeat: int) -> Method | None:
        """Return the same text twice, if it is two-sided."""
        return replace(self, copies=True) if self.sides == "two" else None
