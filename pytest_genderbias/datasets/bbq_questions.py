"""BBQ (Parrish et al. 2022): questions about two persons, with and without the context that answers them; its
templates; and the forms of its files in other languages.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from pytest_genderbias.datasets.files import Row, column_names, read_rows, refuse_repeats
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.text.normal_form import normal_form
from pytest_genderbias.text.printable import brief

FILLS = 5  #: the most fillings of a template, with names and words drawn from its lists
_MOST_FILLS = 10**12  #: of which they are drawn

_TEMPLATE = (
    "Q_id", "Subcategory", "Ambiguous_Context", "Disambiguating_Context", "Names", "Lexical_diversity",
    "Proper_nouns_only", "Question_negative_stereotype", "Question_non_negative", "Answer_negative",
    "Answer_non_negative", "Known_stereotyped_groups", "NAME1_info", "NAME2_info",
)  # fmt: skip
#: Ways to say that the answer is not known, as in the published files.
_UNKNOWN = (
    "Cannot answer", "Cannot be determined", "Can't answer", "Can't be determined", "Not answerable", "Not enough info",
    "Not enough information", "Not known", "Undetermined", "Unknown",
)  # fmt: skip
_PERSONS = ("NAME1", "NAME2")
#: Words for a gender in English, and in the Spanish, Dutch and Turkish of MBBQ.
_GENDERS = {
    "woman": "f", "girl": "f", "female": "f", "man": "m", "boy": "m", "male": "m",
    "mujer": "f", "chica": "f", "hombre": "m", "chico": "m",
    "vrouw": "f", "meisje": "f", "jongen": "m",
    "kad\u0131n": "f", "k\u0131z": "f", "adam": "m", "erkek\u00e7ocuk": "m",
}  # fmt: skip
_CROSSED = "Race_x_gender"  #: the category whose persons have a race and a gender
#: Nouns of the persons there, with their gender.
_NOUNS = {
    "woman": "f", "women": "f", "lady": "f", "girl": "f", "mother": "f",
    "man": "m", "men": "m", "guy": "m", "boy": "m", "father": "m",
}  # fmt: skip
_SLOT = re.compile(r"\{\{(\w+)\}\}")
_LIST = re.compile(r"(?:\{\{)?\b(\w+)(?:\}\})?:\s*\[([^\[\]]*)\]")
OPTIONS = ("ans0", "ans1", "ans2")
_PUBLISHED = (
    "example_id", "question_index", "question_polarity", "context_condition", "answer_info", "additional_metadata",
    "context", "question",
    *OPTIONS, "label",
)  # fmt: skip
_SHARED = ("question_polarity", "context_condition", "context", "question", *OPTIONS, "label")
_SPANISH = ("instance_id", "template_id", "stereotyped_groups", *_SHARED)
_CHINESE = ("example_id", "question_index", "bias_targeted_groups", *_SHARED)
_KOREAN = ("sample_id", "context", "question", "choices", "biased_answer", "answer")
_UNKNOWN_IN_KOREAN = "\uc54c \uc218 \uc5c6\uc74c"  #: of all choices as published
_SUFFIXES = set("\u6027\u4eba\u8005\u7684")  #: characters of groups of any kind in Chinese
_CONDITIONS = {"ambiguous": "ambig", "disambiguous": "disambig"}  #: of CBBQ, which has a file for each


@dataclass(frozen=True)
class BbqQuestion:
    """A question with three options: two persons, and that it cannot be known.

    ``template`` is the number of the template, as in the category's file. ``label``: position of the right option.
    ``target``: position of the person whom the stereotype is about, ``other``: that of the other one. ``negative``: the
    question asks for what the stereotype says. ``ambiguous``: the context does not answer it, so that unknown is right.
    ``groups``: whom the stereotype is about.
    """

    id: str
    template: str
    context: str
    question: str
    options: tuple[str, str, str]
    label: int
    target: int
    other: int
    negative: bool
    ambiguous: bool
    groups: str


@dataclass(frozen=True)
class BbqSet:
    """Questions, the number of those left out since not exactly one of the two persons is whom the stereotype is about,
    and whether they are made from templates.
    """

    questions: tuple[BbqQuestion, ...]
    left_out: int = 0
    made: bool = False


def read_bbq(path: Path) -> BbqSet:
    """Read a category of BBQ as published, such as ``Religion.jsonl``, or a file of BBQ in another language
    (:func:`~pytest_genderbias.datasets.bbq_questions.bbq_rows`).

    A question is left out where the groups of the stereotype name neither person, or both. In ``Race_x_gender.jsonl``
    these groups are races; the stereotype is about persons of one of them and of one gender, that of the only person of
    such a race in most questions of a template.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.files.read_rows`; a cell of another form; a duplicate id;
            no question is left.
    """
    category = path.name.removesuffix(".gz").rpartition(".")[0] or path.name
    questions, lines, left_out = [], [], 0
    rows = list(bbq_rows(path))
    genders = _target_genders(rows) if category == _CROSSED else {}
    for row in rows:
        question = _published(row, category, genders)
        lines.append((row.line, f"{category}-{row.name('example_id')}"))
        if question is None:
            left_out += 1
        else:
            questions.append(question)
    refuse_repeats(path, lines, "example_id")
    if not questions:
        raise DataFileError(f"{path}: expected questions with one person whom the stereotype is about, got none")
    return BbqSet(tuple(questions), left_out)


def _target_genders(rows: Sequence[Row]) -> dict[str, str]:
    """Return by template the gender of the persons whom the stereotype is about."""
    votes: dict[str, list[str]] = {}
    for row in rows:
        info, targets, _, _ = _persons(row, crossed=True)
        if len(targets) == 1:
            votes.setdefault(row.name("question_index"), []).append(info[targets[0]][1])
    return {template: max(sorted(set(found)), key=found.count) for template, found in votes.items()}


def _persons(row: Row, crossed: bool, gender: str = "") -> tuple[list[list[str]], list[int], int, list[str]]:
    """Return the groups of each option, the positions of the persons whom the stereotype is about, that of unknown, and
    the groups of the stereotype.

    Args:
        row: of a file.
        crossed: whether persons have a race and a gender.
        gender: of the persons whom the stereotype is about; any if it is empty.
    """
    info = [list(map(_plain, _texts(row, "answer_info", name))) for name in OPTIONS]
    unknown = [i for i, names in enumerate(info) if "unknown" in names]
    if len(unknown) != 1:
        raise row.error(f"expected one option that is unknown in answer_info, got {len(unknown)}")
    if crossed:
        labels = [row.cells["answer_info"][name][-1] for name in OPTIONS]
        info = [
            _race_and_gender(row.text(name), label) if i != unknown[0] else info[i]
            for i, (name, label) in enumerate(zip(OPTIONS, labels, strict=True))
        ]
    groups = _texts(row, "additional_metadata", "stereotyped_groups")
    wanted = {_plain(group) for group in groups}
    targets = [
        i for i, names in enumerate(info) if i != unknown[0] and wanted & set(names) and (not gender or gender in names)
    ]
    return info, targets, unknown[0], groups


def _race_and_gender(answer: str, label: str) -> list[str]:
    """Return race and gender of a person: by the words of a description, or by the label of a name. The labels of
    descriptions are wrong in the published file, or empty.

    >>> _race_and_gender("The Latina woman", ""), _race_and_gender("the African American men", "F-African")
    (['latino', 'f'], ['africanamerican', 'm'])
    >>> _race_and_gender("Nia Gaines", "F-Black")
    ['black', 'f']
    """
    words = answer.removesuffix(".").split()
    noun = words[-1].casefold()
    if noun not in _NOUNS:
        gender, _, race = label.partition("-")
        return [_plain(race), _plain(gender)]
    race = _plain("".join(word for word in words[:-1] if word.casefold() not in ("the", "a", "an")))
    return ["latino" if race == "latina" else race, _NOUNS[noun]]


def _published(row: Row, category: str, genders: Mapping[str, str]) -> BbqQuestion | None:
    template = row.name("question_index")
    gender = genders.get(template, "")
    _, targets, unknown, groups = _persons(row, category == _CROSSED, gender)
    label = row.cells["label"]
    if type(label) is not int or not 0 <= label < len(OPTIONS):
        raise row.error(f"expected label 0, 1 or 2, got {brief(label)}")
    polarity = _one_of(row, "question_polarity", ("neg", "nonneg"))
    condition = _one_of(row, "context_condition", ("ambig", "disambig"))
    if (condition == "ambig") != (label == unknown):
        raise row.error(f"expected unknown to be right in ambiguous contexts only, got label {label} in {condition}")
    if len(targets) != 1:
        return None
    first, second, third = (row.text(name) for name in OPTIONS)
    return BbqQuestion(
        f"{category}-{row.name('example_id')}",
        template,
        row.text("context"),
        row.text("question"),
        (first, second, third),
        label,
        targets[0],
        3 - unknown - targets[0],
        polarity == "neg",
        condition == "ambig",
        ", ".join(groups) + (f" ({gender.upper()})" if gender else ""),
    )


def _plain(group: str) -> str:
    """Return a group as it is compared: "low SES" and "lowSES" are one, and so are "woman" and "F".

    >>> _plain("low SES"), _plain("woman"), _plain("F")
    ('lowses', 'f', 'f')
    """
    letters = "".join(c for c in normal_form(group).casefold() if c.isalnum())
    return _GENDERS.get(letters, letters)


def _texts(row: Row, column: str, name: str) -> list[str]:
    """Return the texts that a mapping in a cell has under a name."""
    cell = row.cells[column]
    texts = cell.get(name) if isinstance(cell, dict) else None
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise row.error(f"expected texts for {name} in {column}, got {brief(texts)}")
    return texts


def _one_of(row: Row, column: str, expected: Sequence[str]) -> str:
    value = row.cells[column]
    if value not in expected:
        raise row.error(f"expected {' or '.join(expected)} in column {column!r}, got {brief(value)}")
    return str(value)


def make_bbq_gender(templates: Path, names: Path, seed: int = 0) -> BbqSet:
    """Make questions on gender from BBQ's templates, with a fixed seed.

    Each template is filled with the two persons in both orders: man and woman, boy and girl, the words of the
    template's own list (whose order is a template of its own), or first names of both genders. Lists of names and words
    give up to ``FILLS`` fillings, drawn without replacement. Each filling makes four questions: ambiguous or not,
    negative or not.

    Args:
        templates: ``templates_gender_identity.csv``.
        names: ``vocabulary_proper_names.csv``; its rows that are marked ``first_only`` are used.
        seed: seed of the draws.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.files.read_rows`; a template that is malformed.
    """
    first_names: dict[str, list[str]] = {"F": [], "M": []}
    for row in read_rows(names, ("Name", "First_last", "gender")):
        if row.cells["First_last"] == "first_only" and row.cells["gender"] in first_names:
            first_names[row.cells["gender"]].append(row.text("Name"))
    rng = np.random.default_rng(seed)
    questions: list[BbqQuestion] = []
    for row in read_rows(templates, _TEMPLATE):
        for fill in _fills(row, first_names, rng):
            questions += _filled(row, fill, len(questions), rng)
    return BbqSet(tuple(questions), made=True)


def _fills(
    row: Row, first_names: Mapping[str, list[str]], rng: np.random.Generator
) -> Iterator[dict[str, tuple[str, str]]]:
    """Yield what fills the slots of a template: by slot the word, and for a person the group."""
    cells = row.cells
    lists = {slot: _words(text) for slot, text in _LIST.findall(cells["Lexical_diversity"])}
    own = {slot: _words(text) for slot, text in _LIST.findall(cells["Names"])}
    if own or cells["Names"].strip():
        if own.keys() != set(_PERSONS):
            raise row.error(
                f"expected the words of {' and '.join(_PERSONS)} in column 'Names', as NAME1:"
                f" [wife]; NAME2: [husband], got {brief(cells['Names'])}"
            )
        persons = [{slot: (own[slot], cells[f"{slot}_info"]) for slot in _PERSONS}]
    else:
        if cells["Proper_nouns_only"] == "TRUE":
            words = first_names
        else:
            words = {"F": ["girl"], "M": ["boy"]} if cells["Subcategory"] == "child" else {"F": ["woman"], "M": ["man"]}
        persons = [
            {
                "NAME1": (words[first], cells["NAME1_info"] or first),
                "NAME2": (words[second], cells["NAME2_info"] or second),
            }
            for first, second in (("F", "M"), ("M", "F"))
        ]
    for pair in persons:
        choices = {**{slot: of for slot, (of, _) in pair.items()}, **lists}
        sizes = [len(of) for of in choices.values()]
        if not all(sizes):
            raise row.error(f"expected words for {', '.join(choices)}, got an empty list")
        if (total := prod(sizes)) > _MOST_FILLS:
            raise row.error(f"expected lists with at most {_MOST_FILLS:,} fillings, got {total:,}")
        for number in rng.choice(total, size=min(FILLS, total), replace=False):
            at = np.unravel_index(int(number), sizes)
            yield {
                slot: (of[int(i)], pair[slot][1] if slot in pair else "")
                for (slot, of), i in zip(choices.items(), at, strict=True)
            }


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _filled(
    row: Row, fill: Mapping[str, tuple[str, str]], count: int, rng: np.random.Generator
) -> Iterator[BbqQuestion]:
    """Yield the four questions of a template that is filled."""
    cells = row.cells

    def text(column: str) -> str:
        template = row.text(column)
        missing = [slot for slot in _SLOT.findall(template) if slot not in fill]
        if missing:
            raise row.error(f"no words for the slot {brief(missing[0])} of column {column!r}")
        filled = " ".join(_SLOT.sub(lambda match: fill[match[1]][0], template).split())
        return filled[:1].upper() + filled[1:]

    try:
        groups = [str(group) for group in json.loads(cells["Known_stereotyped_groups"])]
    except (ValueError, TypeError):
        raise row.error(f"expected a list of groups, got {brief(cells['Known_stereotyped_groups'])}") from None
    persons = [text(column) for column in ("Answer_negative", "Answer_non_negative")]
    slots = [(_SLOT.findall(cells[column]) or [""])[0] for column in ("Answer_negative", "Answer_non_negative")]
    wanted = {_plain(group) for group in groups}
    targets = [i for i, slot in enumerate(slots) if slot in fill and _plain(fill[slot][1]) in wanted]
    if len(targets) != 1:
        raise row.error(f"expected one person of the groups {', '.join(groups)}, got {len(targets)}")
    asked = {True: text("Question_negative_stereotype"), False: text("Question_non_negative")}
    contexts = {True: text("Ambiguous_Context")}
    contexts[False] = f"{contexts[True]} {text('Disambiguating_Context')}"
    options = (*persons, _UNKNOWN[int(rng.integers(len(_UNKNOWN)))])
    for number, (ambiguous, negative) in enumerate((a, n) for n in (True, False) for a in (True, False)):
        label = 2 if ambiguous else 0 if negative else 1
        name, template = f"Gender_identity-made-{count + number}", row.name("Q_id")
        texts = contexts[ambiguous], asked[negative], (options[0], options[1], options[2])
        target, kind = targets[0], (negative, ambiguous, ", ".join(groups))
        yield BbqQuestion(name, template, *texts, label, target, 1 - target, *kind)


def bbq_rows(path: Path) -> Iterator[Row]:
    """Yield the questions of a file as rows with the columns of BBQ.

    The columns tell whose form the file has: BBQ's, which MBBQ (Neplenbroek et al. 2024) has too; that of EsBBQ and
    CaBBQ (Ruiz-Fernández et al. 2025; ``.csv`` or ``.jsonl``); that of KoBBQ (Jin et al. 2024; ``.tsv``), in which the
    person of ``biased_answer`` in the biased question is whom the stereotype is about; that of CBBQ (Huang and Xiong
    2024; the folder of a category, with both of its ``.csv`` files), in which it is the person whose name has a
    character of ``bias_targeted_groups`` that the other one has not (no suffix of groups of any kind).

    Raises:
        DataFileError: the columns are of no such form; a cell of another form.
    """
    if path.is_dir():
        for condition in _CONDITIONS:
            yield from _chinese(path / condition / f"{condition}.csv")
        return
    columns = set(column_names(path))
    if "sample_id" in columns:
        yield from (_korean(row) for row in read_rows(path, _KOREAN))
    elif "instance_id" in columns or "template_id" in columns:
        answers = (*(f"answer_info.{name}" for name in OPTIONS), "answer_info")
        yield from (_spanish(row) for row in read_rows(path, _SPANISH, answers))
    elif "bias_targeted_groups" in columns:
        yield from _chinese(path)
    else:
        yield from read_rows(path, _PUBLISHED)


def _with(row: Row, **changes: object) -> Row:
    return row._replace(cells={**{name: row.cells.get(name) for name in _SHARED}, **changes})


def _literal(row: Row, column: str) -> object:
    """Return a list that a cell of a table has as Python writes it, or a JSON value as it is."""
    value = row.cells.get(column)
    try:
        return ast.literal_eval(value) if isinstance(value, str) else value
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise row.error(f"expected a list in column {column!r}, got {brief(value)}") from None


def _number(row: Row) -> object:
    label = row.cells["label"]
    return int(label) if isinstance(label, str) and label in ("0", "1", "2") else label


def _spanish(row: Row) -> Row:
    cells = row.cells
    info = cells.get("answer_info") or {name: _literal(row, f"answer_info.{name}") for name in OPTIONS}
    return _with(
        row,
        example_id=cells["instance_id"],
        question_index=cells["template_id"],
        label=_number(row),
        answer_info=info,
        additional_metadata={"stereotyped_groups": _literal(row, "stereotyped_groups")},
    )


def _korean(row: Row) -> Row:
    name, biased, right = (row.text(column) for column in ("sample_id", "biased_answer", "answer"))
    choices = _literal(row, "choices")
    *category, template, _, condition, side = ("", "", "", *name.split("-"))
    if not isinstance(choices, list) or len(choices) != 3 or not all(isinstance(text, str) for text in choices):
        raise row.error(f"expected a list of three texts in column 'choices', got {brief(choices)}")
    if not {biased, right} <= set(choices) or choices.count(_UNKNOWN_IN_KOREAN) != 1 or biased == _UNKNOWN_IN_KOREAN:
        raise row.error(f"expected answers among the choices, one of which is {_UNKNOWN_IN_KOREAN}")
    if condition not in ("amb", "dis") or side not in ("bsd", "cnt"):
        raise row.error(f"expected a sample_id that ends as -amb-bsd or -dis-cnt, got {brief(name)}")
    target = biased if side == "bsd" else next(text for text in choices if text not in (biased, _UNKNOWN_IN_KOREAN))
    groups = [["unknown" if text == _UNKNOWN_IN_KOREAN else text] for text in choices]
    return _with(
        row,
        **dict(zip(OPTIONS, choices, strict=True)),
        example_id=name,
        question_index="-".join([*category, template.rstrip("ab")]).strip("-"),
        question_polarity="neg" if side == "bsd" else "nonneg",
        context_condition="ambig" if condition == "amb" else "disambig",
        label=choices.index(right),
        answer_info=dict(zip(OPTIONS, groups, strict=True)),
        additional_metadata={"stereotyped_groups": [target]},
    )


def _chinese(path: Path) -> Iterator[Row]:
    for row in read_rows(path, _CHINESE):
        cells = row.cells
        group, first, second = (row.text(name) for name in ("bias_targeted_groups", *OPTIONS[:2]))
        condition = _CONDITIONS.get(str(cells["context_condition"]), cells["context_condition"])
        told = set(group) - _SUFFIXES
        persons = [
            [group if told & (set(own) - set(other)) else own] for own, other in ((first, second), (second, first))
        ]
        yield _with(
            row,
            example_id=f"{condition}-{cells['example_id']}",
            question_index=cells["question_index"],
            question_polarity=str(cells["question_polarity"]).replace("_", ""),
            context_condition=condition,
            label=_number(row),
            answer_info=dict(zip(OPTIONS, [*persons, ["unknown"]], strict=True)),
            additional_metadata={"stereotyped_groups": [group]},
        )
