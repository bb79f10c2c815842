"""Pairs of a stereotypical and an anti-stereotypical sentence: CrowS-Pairs, StereoSet, BEC-Pro, EuroGEST, and tables of
the user.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_genderbias.datasets.files import (
    Row,
    column_names,
    csv_records,
    place,
    read_json,
    read_lines,
    read_rows,
    refuse_repeats,
)
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.text.normal_form import normal_form
from pytest_genderbias.text.printable import brief

#: The female counterpart of each male person of BEC-Pro (Bartl et al. 2020), by the last word of the phrase.
BEC_PERSONS: Mapping[str, str] = {
    "he": "she", "man": "woman", "brother": "sister", "son": "daughter", "husband": "wife", "boyfriend": "girlfriend",
    "father": "mother", "uncle": "aunt", "dad": "mom",
}  # fmt: skip
_BEC_GROUP = ("Profession", "Prof_Gender")
_STEREOSET = ("id", "bias_type", "sentences")
_KINDS = ("stereotype", "anti-stereotype")
_EUROGEST, _FORMS = ["Language", "GEST_sentence"], ("the man said", "the woman said")
_OF_WOMEN = {str(number): number < 8 for number in range(1, 17)}  #: each stereotype of EuroGEST


@dataclass(frozen=True)
class SentencePair:
    """Two sentences that differ in the group, or in a statement about it.

    ``more`` is the stereotypical sentence, and ``stereotypical`` is true. If the pair has no stereotype (a profession
    with as many women as men), ``stereotypical`` is None and ``more`` is the male sentence; such a pair enters the
    differences of its group, but not the share of stereotypical choices. ``direction`` is the direction in CrowS-Pairs,
    and the number of the stereotype in EuroGEST; otherwise empty.
    """

    id: str
    more: str
    less: str
    group: str
    stereotypical: bool | None = True
    direction: str = ""


def read_crows_pairs(path: Path) -> tuple[SentencePair, ...]:
    """Read CrowS-Pairs (Nangia et al. 2020); the group is the bias type.

    ``sent_more`` is the more stereotypical sentence in both directions. With ``stereo`` it is about the disadvantaged
    group and demonstrates a stereotype. With ``antistereo``, ``sent_less`` is about that group and violates a
    stereotype, and ``sent_more`` is its edit for the advantaged group. The metric of the paper counts the pairs with a
    likelier ``sent_more``.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.files.read_rows`; an unknown direction; a duplicate id.
    """
    pairs = []
    for number, row in enumerate(read_rows(path, ("sent_more", "sent_less", "stereo_antistereo", "bias_type"), ("",))):
        direction = row.cells["stereo_antistereo"]
        if direction not in ("stereo", "antistereo"):
            raise row.error(f"expected stereo or antistereo, got {brief(direction)}")
        more, less = row.text("sent_more"), row.text("sent_less")
        name = row.name("") if "" in row.cells else str(number)  # the first column has no name
        pairs.append((row.line, SentencePair(name, more, less, row.text("bias_type"), direction=direction)))
    return _each_once(path, pairs)


def read_stereoset(path: Path) -> tuple[SentencePair, ...]:
    """Read the intrasentence part of StereoSet (Nadeem et al. 2021): stereotype and anti-stereotype of each context.

    The file is the official one (``.json``), or has one intrasentence entry per line (``.jsonl``). The group is the
    bias type. The unrelated sentence of each entry is left out.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.files.read_rows`; an entry without exactly one stereotype
            and one anti-stereotype; a duplicate id.
    """
    rows = _official_stereoset(path) if ".json" in path.suffixes else list(read_rows(path, _STEREOSET))
    return _each_once(path, [(row.line, _stereoset_pair(row)) for row in rows])


def read_bec_pro(path: Path) -> tuple[SentencePair, ...]:
    """Read BEC-Pro (Bartl et al. 2020): pairs of sentences about a man and a woman, with one template and profession.

    :data:`BEC_PERSONS` pairs the persons (he - she, father - mother). The group is that of the profession: male, female
    or balanced, by its share of women. With a male or female profession, the sentence of that gender is the
    stereotypical one; balanced professions have no stereotype (see :class:`SentencePair`).

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.files.read_rows`; an unknown person, gender or group; a
            sentence without a partner, or with two.
    """
    sides: dict[tuple[str, str, str, str], dict[str, Row]] = {}
    for row in read_rows(path, ("Sentence", "Template", "Person", "Gender", *_BEC_GROUP)):
        profession, group = (row.text(column) for column in _BEC_GROUP)
        key = (profession, _bec_person(row), row.text("Template"), group)
        gender = row.cells["Gender"]
        if gender in sides.setdefault(key, {}):
            raise row.error(
                f"duplicate of line {sides[key][gender].line}: {' / '.join(key)} ({gender}); expected each sentence"
                " once"
            )
        sides[key][gender] = row
    return tuple(_bec_pair(key, rows) for key, rows in sides.items())


def read_own_pairs(path: Path) -> tuple[SentencePair, ...]:
    """Read a table of pairs with the columns ``stereotypical`` and ``anti_stereotypical``, and optionally ``id`` and
    ``group``. A table of the form of CrowS-Pairs, as French CrowS-Pairs (Névéol et al. 2022), is read as that, and the
    table of EuroGEST by :func:`read_eurogest`.

    Without a column ``id``, the ids are the row numbers from 1. Without a column ``group``, every group is ``all``.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.files.read_rows`; an empty sentence; a duplicate id.
    """
    if path.name.lower().removesuffix(".gz").endswith(".csv") and next(csv_records(path), (1, []))[1][:2] == _EUROGEST:
        return read_eurogest(path)
    if "sent_more" in column_names(path):
        return read_crows_pairs(path)
    pairs = []
    rows = read_rows(path, ("stereotypical", "anti_stereotypical"), optional=("id", "group"))
    for number, row in enumerate(rows, start=1):
        more, less = row.text("stereotypical"), row.text("anti_stereotypical")
        group = row.name("group") if "group" in row.cells else "all"
        name = row.name("id") if "id" in row.cells else str(number)
        pairs.append((row.line, SentencePair(name, more, less, group)))
    return _each_once(path, pairs)


def read_eurogest(path: Path) -> tuple[SentencePair, ...]:
    """Read EuroGEST (Rowe et al. 2025), ``gest_translations_gender_sensitive.csv``: a sentence of a man about himself,
    and the same of a woman, in languages whose forms tell them apart.

    The group is the language, and ``direction`` is the number of the stereotype: 1 to 7 are about women, 8 to 16 about
    men. The stereotypical sentence is that of the gender that the stereotype is about. Of each language as many pairs
    of one kind as of the other are kept, the first of the file, so that a preference for one form cancels in the mean.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.files.csv_records`; other columns; too many or too few
            cells in a row; one sentence without the other, or an unknown stereotype; no pairs.
    """
    records = csv_records(path)
    (_, names), (line, forms) = next(records, (1, [])), next(records, (2, []))
    languages = names[2:-1:2]
    expected = [*_EUROGEST, *(language for language in languages for _ in _FORMS), "stereotype_number"]
    if names != expected:
        text = f"expected two columns of each language, then stereotype_number, got {brief(', '.join(names))}"
        raise DataFileError(f"{place(path, 1)}: {text}")
    if forms[2:-1] != [*_FORMS] * len(languages):
        raise DataFileError(f"{place(path, line)}: expected {' and '.join(_FORMS)} of each language")
    found: dict[str, tuple[list[tuple[int, SentencePair]], ...]] = {}
    for line, cells in records:
        if len(cells) != len(names):
            raise DataFileError(f"{place(path, line)}: expected {len(names)} cells, got {len(cells)}")
        for column, language in enumerate(languages):
            texts = cells[2 + 2 * column : 4 + 2 * column]
            if any(text.strip() for text in texts):
                pair = _eurogest_pair(path, line, cells, texts, language)
                found.setdefault(language, ([], []))[_OF_WOMEN[pair.direction]].append((line, pair))
    kept = [pair for kinds in found.values() for kind in kinds for pair in kind[: min(map(len, kinds))]]
    if not kept:
        raise DataFileError(f"{path}: expected pairs of stereotypes of women and of men in a language, got none")
    return _each_once(path, kept)


def _eurogest_pair(path: Path, line: int, cells: list[str], texts: list[str], language: str) -> SentencePair:
    """Return the pair of a row in a language."""
    row = Row(line, dict(zip(_FORMS, texts, strict=True)), path)
    man, woman = (row.text(form) for form in _FORMS)
    if (stereotype := cells[-1].strip()) not in _OF_WOMEN:
        raise row.error(f"expected a stereotype from 1 to 16, got {brief(stereotype)}")
    more, less = (woman, man) if _OF_WOMEN[stereotype] else (man, woman)
    return SentencePair(f"{language} {cells[0]}", more, less, language, direction=stereotype)


def _each_once(path: Path, pairs: list[tuple[int, SentencePair]]) -> tuple[SentencePair, ...]:
    refuse_repeats(path, ((line, pair.id) for line, pair in pairs))
    for line, pair in pairs:
        if pair.more == pair.less:
            raise DataFileError(f"{place(path, line)}: both sentences are {brief(pair.more)}; expected two that differ")
    return tuple(pair for _, pair in pairs)


def _official_stereoset(path: Path) -> list[Row]:
    """Return the entries of the official file, with their number instead of a line number."""
    text = "\n".join(line for _, line in read_lines(path))
    try:
        entries = read_json(path, text)["data"]["intrasentence"]
    except (KeyError, TypeError):
        raise DataFileError(
            f"{path}:1: expected an object with data.intrasentence, as in the official release"
        ) from None
    if not isinstance(entries, list) or not entries:
        raise DataFileError(f"{path}: the file has no rows: data.intrasentence is empty")
    for number, entry in enumerate(entries, start=1):
        if not isinstance(entry, dict) or not set(_STEREOSET) <= set(entry):
            raise DataFileError(f"{path}: entry {number} has not all of {', '.join(_STEREOSET)}")
    return [Row(number, entry, path) for number, entry in enumerate(entries, start=1)]


def _stereoset_pair(row: Row) -> SentencePair:
    sentences: dict[str, list[object]] = {kind: [] for kind in _KINDS}
    for sentence in row.cells["sentences"] if isinstance(row.cells["sentences"], list) else ():
        if isinstance(sentence, dict) and sentence.get("gold_label") in _KINDS:
            sentences[sentence["gold_label"]].append(sentence.get("sentence"))
    for kind, of_kind in sentences.items():
        if len(of_kind) != 1:
            raise row.error(
                f"expected one sentence with gold_label {brief(kind)} in entry"
                f" {brief(row.cells['id'])}, got {len(of_kind)}"
            )
    texts = row._replace(cells={kind: of_kind[0] for kind, of_kind in sentences.items()})
    more, less = map(texts.text, _KINDS)
    return SentencePair(row.name("id"), more, less, row.text("bias_type"))


def _bec_person(row: Row) -> str:
    """Return the male person of the pair to which the person of a sentence belongs."""
    gender, person = row.cells["Gender"], normal_form(row.text("Person")).lower().split()[-1]
    by_gender = {"male": {male: male for male in BEC_PERSONS}, "female": {f: m for m, f in BEC_PERSONS.items()}}
    if gender not in by_gender or person not in by_gender[gender]:
        pairs = ", ".join(f"{male} - {female}" for male, female in BEC_PERSONS.items())
        raise row.error(
            f"expected a person ({pairs}) and its gender, got {brief(row.cells['Person'])}, {brief(gender)}"
        )
    return by_gender[gender][person]


def _bec_pair(key: tuple[str, str, str, str], rows: Mapping[str, Row]) -> SentencePair:
    group, first = key[-1], next(iter(rows.values()))
    if len(rows) < 2:
        raise first.error(f"no sentence of the other gender: {' / '.join(key)}")
    if group not in ("male", "female", "balanced"):
        raise first.error(f"expected Prof_Gender male, female or balanced, got {brief(group)}")
    sentences = {gender: row.text("Sentence") for gender, row in rows.items()}
    more, less = ("female", "male") if group == "female" else ("male", "female")
    stereotypical = None if group == "balanced" else True
    return SentencePair(" / ".join(key[:-1]), sentences[more], sentences[less], group, stereotypical)
