"""Shared by the families of templates: the body of their suites, a second set of templates with other words and the
same meaning, and the option that selects sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import numpy as np

from pytest_genderbias.errors import DataFileError, SettingError
from pytest_genderbias.suites.family import Option, one_of
from pytest_genderbias.suites.space import SlotWords
from pytest_genderbias.suites.statistic import FloatArray
from pytest_genderbias.text.printable import brief
from pytest_genderbias.text.schema import LocatedList, LocatedMap, take

KEY: Final = "paraphrases"  #: The key of the second set in a suite file.
PAPER, PARAPHRASES, BOTH = "paper", "paraphrases", "both"  #: Values of the option ``templates``.
TemplateT = TypeVar("TemplateT")

#: The option ``templates``. Measurements with other sets are never compared.
TEMPLATES: Option = one_of(
    PAPER,
    PARAPHRASES,
    BOTH,
    meaning=(
        "the suite's own templates (in packaged suites the paper's), its paraphrases, which say the same in other"
        " words, or both"
    ),
    implied=True,
)


@dataclass(frozen=True)
class TemplateSets(Generic[TemplateT]):
    """The templates of a suite, and their paraphrases, of which there may be none."""

    first: tuple[TemplateT, ...]
    paraphrases: tuple[TemplateT, ...] = ()

    def of(self, sets: str) -> tuple[TemplateT, ...]:
        """Return the templates that the option ``templates`` selects, those of the first set before the paraphrases.

        Raises:
            SettingError: there are no paraphrases, and the option asks for them.

        >>> TemplateSets(("He is a {x}",), ("He works as a {x}",)).of("both")
        ('He is a {x}', 'He works as a {x}')
        """
        if sets not in (PARAPHRASES, BOTH):
            return self.first
        if not self.paraphrases:
            raise SettingError(
                f"the suite has no paraphrases, which the option templates={sets} asks for: write some under {KEY!r} in"
                f" its file (fixtures/README.md), or use templates={PAPER}"
            )
        return (*self.first, *self.paraphrases) if sets == BOTH else self.paraphrases


@dataclass(frozen=True)
class TemplateBody(Generic[TemplateT]):
    """The body of a suite that puts words into templates.

    Attributes:
        groups: names of the groups.
        items: the words that are put in: persons of the groups, or occupations.
        templates: both sets of templates.
        share: the attribute of an item with the share of the first group in percent; empty where none is used.
        of_groups: of each group, the words that stand for it in a template, by their slot, or the forms of its
            pronoun, by the name of the form. Empty where the templates or the items have a version for each group.
    """

    groups: tuple[str, ...]
    items: SlotWords
    templates: TemplateSets[TemplateT]
    share: str = ""
    of_groups: tuple[Mapping[str, str], ...] = ()

    def shares(self) -> FloatArray:
        """Return the share of each item, from 0 to 1, shape (items,)."""
        shares = [entry.attributes[self.share] for entry in self.items.entries]
        return np.asarray(shares, dtype=np.float64) / 100


def read_template_sets(
    data: LocatedMap,
    key: str,
    parse: Callable[[LocatedList], Sequence[TemplateT]],
    first: Sequence[TemplateT] | None = None,
) -> TemplateSets[TemplateT]:
    """Read both sets of templates of a suite file, which need not have a second one.

    Args:
        data: the suite.
        key: of the first set.
        parse: returns the templates of a list, and refuses one that breaks the family's rules.
        first: the templates of the first set, where they are no list.

    Raises:
        DataFileError: a template breaks a rule; a paraphrase occurs twice, or is in the first set.
    """
    first = parse(take(data, key, LocatedList, "the suite")) if first is None else first
    rows = take(data, KEY, LocatedList, "the suite", default=None)
    if rows is None:
        return TemplateSets(tuple(first))
    parsed = tuple(parse(rows))
    for number, (template, line) in enumerate(zip(parsed, rows.lines, strict=True)):
        if template in first or template in parsed[:number]:
            raise DataFileError(
                f"{data.file}:{line}: the paraphrase {brief(rows[number])} is in the suite already; expected other"
                " words with the same meaning, each once"
            )
    return TemplateSets(tuple(first), parsed)
