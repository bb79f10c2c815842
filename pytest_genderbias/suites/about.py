"""The description of a suite. The terminal, the report, the model card and the docs take their texts from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.text import packaged
from pytest_genderbias.text.located_yaml import read_yaml
from pytest_genderbias.text.schema import LocatedMap, read_located, refuse_unknown, take

#: What a suite file may say of itself under ``about``, where the family's words do not fit.
OWN_WORDS = ("question", "reads", "does_not_mean", "formula", "picture", "cost")
#: What the words of a family also hold, for the tables of the reference only: under which heading its suites are
#: listed, and the keys of its suite files.
_FOR_TABLES = ("kind", "keys")


@dataclass(frozen=True)
class Criticism:
    """An objection in a publication to a measurement, or to measurements of its kind.

    Attributes:
        text: the point, in one or two sentences.
        source: the publication: authors, year, title, venue.
    """

    text: str
    source: str

    def __str__(self) -> str:
        """Return the point with its source."""
        return f"{self.text} ({self.source})"


@dataclass(frozen=True)
class SuiteAbout:
    """Description of what a suite measures: plain text without markup, for readers who have not seen the papers.

    Attributes:
        question: what the suite asks of a model, in two sentences.
        reads: what the figure of the main statistic means: unit, neutral value and direction.
        does_not_mean: what must not be read from the figure.
        formula: definition of the main statistic, as plain text; a line break starts the next part of it.
        picture: how to read the picture.
        criticisms: what the literature says against it.
        paper: the publication that defines it, with the section.
        cost: what a measurement costs: forward passes, data, trainings.
    """

    question: str
    reads: str
    does_not_mean: str
    formula: str
    picture: str
    criticisms: tuple[Criticism, ...]
    paper: str
    cost: str

    def of_suite(self, source: str, own_words: Mapping[str, str]) -> SuiteAbout:
        """Return the words of one suite of the family: its own where it has any, and its own source as the paper."""
        changes: dict[str, Any] = {**own_words, "paper": source}
        return replace(self, **changes)


@cache
def read_about(family: str) -> SuiteAbout:
    """Read the words of a packaged family: ``fixtures/about/FAMILY.yaml``.

    An entry of its ``criticisms`` is a mapping of ``text`` and ``source``, or the name of one in ``literature.yaml``.

    Raises:
        DataFileError: the file breaks a rule; the message names file and line.
    """
    folder = packaged.folder("fixtures") / "about"
    data = read_yaml(folder / f"{family}.yaml")
    names = [field.name for field in fields(SuiteAbout)]
    refuse_unknown(data, (*names, *_FOR_TABLES), "the words of a family")
    words: dict[str, Any] = {
        name: take(data, name, list if name == "criticisms" else str, "the words of a family") for name in names
    }
    return SuiteAbout(**{**words, "criticisms": tuple(_criticism(one, folder) for one in words["criticisms"])})


def _criticism(entry: str | LocatedMap, folder: Path) -> Criticism:
    shared = read_yaml(folder / "literature.yaml") if isinstance(entry, str) else {}
    if isinstance(entry, str) and entry not in shared:
        raise DataFileError(f"{folder}: {entry!r} is not in literature.yaml")
    found = shared[entry] if isinstance(entry, str) else entry
    return read_located(Criticism, found)


def read_own_words(data: LocatedMap) -> dict[str, str]:
    """Read the key ``about`` of a suite file: the suite's own texts by name, empty where it has none.

    Raises:
        DataFileError: an unknown name, or something else than a text.
    """
    about = take(data, "about", LocatedMap, "the suite", default={})
    refuse_unknown(about, OWN_WORDS, "'about' of a suite")
    return {name: take(about, name, str, "'about' of a suite") for name in about}
