"""The English indefinite article, by sound."""

from __future__ import annotations

import re

_AN = re.compile(r"^(?:[aeiou]|hour|honest|honou?r|heir)")
_A = re.compile(r"^(?:uni(?!n|m|d(?!ir))|unanim|us[aeiu]|ut[aeio]|ur[aeiou]|uga|eu|ewe|one(?![ir])|once|ubiq|uk(?=r))")
_INITIALS = re.compile(r"^(?:[A-Z]\.?){2,}$|^[A-Za-z]$")


def indefinite_article(word: str) -> str:
    """Return ``a`` or ``an``, by the pronunciation of the word.

    A word in capitals, or a single letter before a hyphen, is pronounced letter by letter. The attribute ``article`` of
    a word-list entry overrides this rule.

    >>> [indefinite_article(w) for w in ("bagel", "apple", "hour", "university", "SUV", "VIP", "urchin", "European")]
    ['a', 'an', 'an', 'a', 'an', 'a', 'an', 'a']
    """
    first = re.split(r"[\s-]", word, maxsplit=1)[0]
    if _INITIALS.match(first):
        return "an" if first[0].upper() in "AEFHILMNORSX" else "a"
    lower = first.lower()
    if _A.match(lower):
        return "a"
    return "an" if _AN.match(lower) else "a"
