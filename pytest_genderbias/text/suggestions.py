"""Suggestions for unknown names, by one rule for suites, statistics, options, models, flags, commands and keys."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from pytest_genderbias.text.normal_form import folded

_ALIKE = 0.75  #: least share of letters that two names have in common, as difflib counts it, by default
_MOST = 3  #: names that are suggested


def close_names(name: str, known: Iterable[str], alike: float = _ALIKE) -> list[str]:
    """Return the known names that a name may have meant, the likeliest first; at most three.

    Case does not count, and ``_`` is ``-``. A name may also be the beginning of the one that is meant, up to a hyphen.

    >>> close_names("lm_occupation", ["lm-occupation", "nli-occupation"]), close_names("disco", ["disco-names", "weat"])
    (['lm-occupation'], ['disco-names'])
    >>> close_names("waet", ["weat", "bios"]), close_names("perplexity", ["weat", "bios"])
    (['weat'], [])
    """
    by_form: dict[str, str] = {}
    for one in known:
        by_form.setdefault(_plain(one), one)
    form = _plain(name[:100])
    if form in by_form:
        return [by_form[form]]
    close = get_close_matches(form, by_form, n=_MOST, cutoff=alike)
    longer = [one for one in by_form if form and one.startswith(f"{form}-")]
    return [by_form[one] for one in dict.fromkeys((*close, *longer))][:_MOST]


def expected_instead(name: str, known: Iterable[str], otherwise: str = "expected one of", advice: str = "") -> str:
    """Return what to write in place of an unknown name: the names that may have been meant, or else all, with advice.

    Names that are alike up to the first hyphen may have been meant where none is close.

    >>> expected_instead("bios-gap", ["weat", "bios"]), expected_instead("disco-persons", ["disco-names", "weat"])
    ('did you mean bios?', 'did you mean disco-names?')
    >>> expected_instead("waet", ["weat", "bios"]), expected_instead("x", ["weat", "bios"]), expected_instead("x", [])
    ('did you mean weat?', 'expected one of weat, bios', 'there are none')
    """
    names = list(known)
    if close := close_names(name, names) or _kin(name, names):
        *first, last = close
        return f"did you mean {', '.join(first)}{' or ' if first else ''}{last}?"
    return (f"{otherwise} {', '.join(names)}" if names else "there are none") + advice


def _kin(name: str, known: Iterable[str]) -> list[str]:
    """Return names that begin as a name does, up to its first hyphen; at most three."""
    first, hyphen, _ = _plain(name[:100]).partition("-")
    return [one for one in known if hyphen and _plain(one).partition("-")[0] == first][:_MOST]


def _plain(name: str) -> str:
    return folded(name).replace("_", "-")
