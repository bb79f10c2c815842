"""The English indefinite article, by sound."""

from __future__ import annotations

import re

_AN = re.compile(r"^(?:[aeiou]|hour|honest|honou?r|heir)")
_A = re.compile(r"^(?:uni(?!n|m)|us[aeiu]|ut[aei]|ur[aeio]n|eu|ewe|one(?!i)|once|ubiq|uk(?=r))")
_INITIALS = re.compile(r"^[A-Z]{2,}$")


def indefinite_article(word: str) -> str:
    """Return ``a`` or ``an`` as the word sounds when it is read aloud.

    Entries of a word list can override it with ``article``; capitals alone are read letter by letter.

    >>> [indefinite_article(w) for w in ("bagel", "apple", "hour", "university", "SUV", "VIP", "urchin", "European")]
    ['a', 'an', 'an', 'a', 'an', 'a', 'an', 'a']
    """
    first = re.split(r"[\s-]", word, maxsplit=1)[0]
    if _INITIALS.match(first):
        return "an" if first[0] in "AEFHILMNORSX" else "a"
    lower = first.lower()
    if _A.match(lower):
        return "a"
    return "an" if _AN.match(lower) else "a"
