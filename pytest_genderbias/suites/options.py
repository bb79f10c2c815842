"""Options of a family: named deviations from the paper's definition, checked before scoring."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

from pytest_genderbias.errors import UnknownNameError
from pytest_genderbias.text import schema
from pytest_genderbias.text.schema import Count, Rule, at_least, check_setting, words
from pytest_genderbias.text.suggestions import expected_instead

_TABLE = re.compile(r".+\.(?:(?:jsonl|csv|tsv)(?:\.gz)?|parquet)", re.IGNORECASE)
#: Settings of a measurement that are no options of a suite.
RUN_SETTINGS: Mapping[str, Any] = {
    "limit": Count | None,
    "seed": Annotated[int, at_least(0)] | None,
    "batch_tokens": Count | None,
    "seeds": Annotated[int, at_least(2)],
}
Text: TypeAlias = Annotated[str, Rule("a text", minLength=1)]


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
        default: the default value, which is the paper's definition.
        hint: the annotation of the accepted values, as :mod:`~pytest_genderbias.text.schema` reads it.
        meaning: what the option does.
        display: whether the option changes only what is shown, so that measurements with other values can be compared.
        implied: whether signatures leave out the default, as of an option that a family did not always have: baselines
            that were stored before it stay comparable.
        synonyms: values that mean the same as another one, which signatures have in their place.
        only_with: another option and the value of it with which this one does anything; signatures leave it out with
            other values.
    """

    default: object
    hint: Any
    meaning: str
    display: bool = False
    implied: bool = False
    synonyms: Mapping[str, str] = field(default_factory=dict)
    only_with: tuple[str, object] | None = None

    @property
    def expected(self) -> str:
        """The accepted values, in words."""
        return words(schema.without_null(self.hint))

    def is_signed(self, value: object, others: Mapping[str, object]) -> bool:
        """Return whether a signature has this value of the option beside those of all: measurements with other values
        are not compared.
        """
        used = self.only_with is None or others[self.only_with[0]] == self.only_with[1]
        return used and not self.display and not (self.implied and value == self.default)


def signed_options(options: Mapping[str, Option], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that a signature has, of the values of all options.

    >>> known = {"by": one_of("sum", "draws", meaning=""), "draws": whole(20, "", only_with=("by", "draws"))}
    >>> signed_options(known, {"by": "sum", "draws": 20})
    {'by': 'sum'}
    """
    return {name: value for name, value in values.items() if options[name].is_signed(value, values)}


def one_of(default: str, *others: str, meaning: str, implied: bool = False) -> Option:
    """Make an option with a fixed set of texts."""
    return Option(default, Annotated[str, schema.one_of(default, *others)], meaning, implied=implied)


ITEMS_KEY, PAPER, WIDE = "items", "paper", "wide"  #: The option that selects sets of items, and its values.

#: The option ``items``. Measurements with other items are never compared: each set has a digest of its own.
ITEMS: Option = one_of(
    PAPER,
    WIDE,
    meaning=(
        "the suite's own words and templates (in packaged suites the paper's), or its wide sets, which see smaller"
        " changes"
    ),
    implied=True,
)


def flag(meaning: str, default: bool = False) -> Option:
    """Make an option that is on or off."""
    return Option(default, bool, meaning)


def whole(
    default: int, meaning: str, least: int = 1, display: bool = False, only_with: tuple[str, object] | None = None
) -> Option:
    """Make an option that is a whole number of at least ``least``."""
    return Option(default, Annotated[int, at_least(least)], meaning, display, only_with=only_with)


def letters(meaning: str) -> Option:
    """Make an option that is a range of first letters such as ``A-M``, or nothing."""
    return Option(None, schema.Initials | None, meaning)


def text(meaning: str, default: str | None = None, display: bool = False) -> Option:
    """Make an option that is a text or nothing, such as the name or path of data (the signature has their digest)."""
    return Option(default, Text | None, meaning, display)


def table(default: str | None, *names: str, meaning: str) -> Option:
    """Make an option that is the name of a data set or the path of a table; the signature has the digest of the
    data.
    """
    known = f"one of {', '.join(names)}, or the path of a table (.jsonl, .csv, .tsv, .parquet)"
    rule = Rule(known, test=lambda name: name in (default, *names) or _TABLE.fullmatch(name) is not None)
    hint: Any = Annotated[str, rule]
    return Option(default, hint if default else hint | None, meaning, display=True)


def share(default: float, meaning: str) -> Option:
    """Make an option that lies strictly between 0 and 1."""
    return Option(default, schema.Share, meaning)


def resolve_options(options: Mapping[str, Option], chosen: Mapping[str, object], what: str) -> dict[str, Any]:
    """Return all options with their values, with defaults for those that are not chosen.

    Args:
        options: the options of a family.
        chosen: values by name.
        what: name of the suite, for messages.

    Raises:
        UnknownNameError: there is no option of that name.
        SettingError: an option does not accept its value.
    """
    for name in chosen:
        if name not in options:
            raise UnknownNameError(
                f"{what} has no option {name!r}; {expected_instead(name, sorted(options), 'it has')}"
            )
    values = {name: chosen.get(name, option.default) for name, option in options.items()}
    for name, value in values.items():
        check_setting(f"option {name!r} of {what}", options[name].hint, value)
    return {
        name: options[name].synonyms.get(value, value) if isinstance(value, str) else value
        for name, value in values.items()
    }
