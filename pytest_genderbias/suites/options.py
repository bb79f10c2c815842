"""Options of a family: named deviations from the paper's definition, checked before scoring."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_genderbias.errors import SettingError, UnknownNameError
from pytest_genderbias.text.suggestions import expected_instead

_TABLE = re.compile(r".+\.(?:(?:jsonl|csv|tsv)(?:\.gz)?|parquet)", re.IGNORECASE)


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
        default: the default value, which is the paper's definition.
        expected: the accepted values, in words.
        accepts: whether a value is accepted.
        meaning: what the option does.
        display: whether the option changes only what is shown, so that measurements with other values can be compared.
        implied: whether signatures leave out the default, as of an option that a family did not always have: baselines
            that were stored before it stay comparable.
        synonyms: values that mean the same as another one, which signatures have in their place.
        only_with: another option and the value of it with which this one does anything; signatures leave it out with
            other values.
    """

    default: object
    expected: str
    accepts: Callable[[Any], bool]
    meaning: str
    display: bool = False
    implied: bool = False
    synonyms: Mapping[str, str] = field(default_factory=dict)
    only_with: tuple[str, object] | None = None

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
    allowed = (default, *others)
    return Option(default, "one of " + ", ".join(allowed), lambda v: v in allowed, meaning, implied=implied)


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


def flag(meaning: str) -> Option:
    """Make an option that is off by default."""
    return Option(False, "true or false", lambda v: isinstance(v, bool), meaning)


def whole(
    default: int, meaning: str, least: int = 1, display: bool = False, only_with: tuple[str, object] | None = None
) -> Option:
    """Make an option that is a whole number of at least ``least``."""
    return Option(
        default, f"a whole number of at least {least}", lambda v: type(v) is int and v >= least, meaning, display, only_with=only_with,
    )  # fmt: skip


def letters(meaning: str) -> Option:
    """Make an option that is a range of first letters such as ``A-M``, or nothing."""
    return Option(
        None, "two letters such as A-M", lambda v: v is None or bool(re.fullmatch(r"[A-Z]-[A-Z]", str(v))), meaning
    )


def text(meaning: str, default: str | None = None, display: bool = False) -> Option:
    """Make an option that is a text or nothing, such as the name or path of data (the signature has their digest)."""
    return Option(default, "a text", lambda v: v is None or (isinstance(v, str) and bool(v)), meaning, display)


def table(default: str | None, *names: str, meaning: str) -> Option:
    """Make an option that is the name of a data set or the path of a table; the signature has the digest of the
    data.
    """
    return Option(
        default,
        f"one of {', '.join(names)}, or the path of a table (.jsonl, .csv, .tsv, .parquet)",
        lambda v: v == default or v in names or (isinstance(v, str) and bool(_TABLE.fullmatch(v))),
        meaning,
        display=True,
    )


def share(default: float, meaning: str) -> Option:
    """Make an option that lies strictly between 0 and 1."""
    return Option(default, "a number above 0 and below 1", lambda v: isinstance(v, float) and 0 < v < 1, meaning)


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
        if not options[name].accepts(value):
            raise SettingError(f"option {name!r} of {what} should be {options[name].expected}, got {value!r}")
    return {
        name: options[name].synonyms.get(value, value) if isinstance(value, str) else value
        for name, value in values.items()
    }
