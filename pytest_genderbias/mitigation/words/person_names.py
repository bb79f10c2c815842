"""Parts of a person's full name, and first names that are also ordinary words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from pytest_genderbias.mitigation.words.pairs import read_names
from pytest_genderbias.text.normal_form import normal_form
from pytest_genderbias.text.wordlist import load_wordlist

NAME_SUFFIXES = frozenset({"Jr", "Sr", "II", "III", "IV"})


def first_names(name: str) -> tuple[str, ...]:
    """Return the first names in a person's full name: the parts before a particle, else all but the last, or the only
    part.

    Text in brackets, initials, "Jr." and words such as "The" are left out.

    >>> first_names("Jim Norton (comedian)"), first_names("Mary Anne van Dyke"), first_names("George W. Bush, Jr."), first_names("Cher")
    (('Jim',), ('Mary', 'Anne'), ('George',), ('Cher',))
    """
    parts = _split_name(name)
    particle = next((i for i, part in enumerate(parts) if i and part[0].islower()), None)
    return _only_names(parts[:particle] if particle else parts[: max(1, len(parts) - 1)])


def name_parts(name: str) -> tuple[str, ...]:
    """Return the first names and surnames in a person's full name.

    >>> name_parts("Mary Anne van Dyke (singer)"), name_parts("George W. Bush, Jr.")
    (('Mary', 'Anne', 'Dyke'), ('George', 'Bush'))
    """
    return _only_names(_split_name(name))


@cache
def ordinary_names(kind: str) -> frozenset[str]:
    """Return the first names that are also a ``word``, a ``month`` or a ``place``.

    >>> "Grace" in ordinary_names("word"), "Mary" in ordinary_names("word")
    (True, False)
    """
    return frozenset(entry.word for entry in load_wordlist("ordinary-names").select({"class": kind}))


def _split_name(name: str) -> list[str]:
    parts = [part.strip(".,\"'") for part in re.sub(r"[(\[].*", "", normal_form(name)).split()]
    return [part for part in parts if part and part not in NAME_SUFFIXES]


def _only_names(parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(part for part in parts if len(part) > 1 and part[0].isupper() and part.lower() not in _no_names())


@cache
def _no_names() -> frozenset[str]:
    """Return words in lower case that may be part of a full name but are not a name: "The Rock"."""
    stop_words = {entry.word for entry in load_wordlist("stop-words").entries}
    return frozenset(stop_words - {name.lower() for name, _ in read_names()})
