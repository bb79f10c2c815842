"""The normal form in which words are matched: words that differ only in how their characters are written are one.

Invisible characters, apostrophes, hyphens, spaces and forms of letters do not tell words apart (:data:`KINDS`).
Whatever compares words compares their normal forms. Texts that a model reads or a mitigation writes keep their
characters.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from functools import cache, lru_cache
from itertools import chain
from typing import NamedTuple


class CharacterKind(NamedTuple):
    """Characters that are matched alike.

    Attributes:
        name: what they are.
        ranges: first and last code point of each range; empty where a property of Unicode decides.
        matched_as: what they are matched as; empty where they are left out.
        property: the property that decides, in words.
    """

    name: str
    ranges: tuple[tuple[int, int], ...]
    matched_as: str
    property: str = ""


def _each(characters: str) -> tuple[tuple[int, int], ...]:
    return tuple((ord(character), ord(character)) for character in characters)


#: Control characters that are no white space, and Unicode's property Default_Ignorable_Code_Point
#: (DerivedCoreProperties.txt of Unicode 16), whose characters have no glyph.
IGNORED = CharacterKind(
    "invisible: soft hyphen, zero-width space and joiners, word joiner, byte order mark, directions, variation"
    " selectors, tags, controls",
    (
        (0x0000, 0x0008), (0x000E, 0x001B), (0x007F, 0x007F), (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C),
        (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F),
        (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3),
        (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
    ),
    "", "Default_Ignorable_Code_Point, General_Category Cf, or a control character of ASCII that is no white space",
)  # fmt: skip
APOSTROPHES = CharacterKind(
    "apostrophes: curly, modifier letters, prime, acute accent by itself, full-width, and those of Windows-1252 read as"
    " Latin-1",
    _each(
        "\u0091\u0092\u00b4\u02b9\u02bb\u02bc\u02bd\u02c8\u02ca\u02cb\u055a\u05f3\u07f4\u2018\u2019\u201b\u2032\u2035\u275b\u275c\ua78b\ua78c\uff07"
    ),
    "'",
)
QUOTES = CharacterKind(
    "double quotation marks", _each("\u0093\u0094\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb\uff02"), '"'
)
HYPHENS = CharacterKind(
    "hyphens: Unicode's, non-breaking, small, full-width, minus",
    _each("\u058a\u1806\u2010\u2011\u2212\ufe63\uff0d"),
    "-",
)
SPACES = CharacterKind(
    "spaces: non-breaking, thin, ideographic, the blank of Braille and others",
    _each("\u2800"),
    " ",
    "General_Category Zs, Zl or Zp, and U+2800",
)
COMPATIBLE = CharacterKind(
    "other forms of a letter or sign: full-width, ligatures, mathematical alphabets, circled letters",
    (),
    "their letters",
    "a compatibility decomposition, except of superscripts, subscripts and fractions",
)
COMBINED = CharacterKind("letters with combining marks", (), "the composed letter", "normalisation form C")
#: All kinds, as the docs list them.
KINDS = (IGNORED, APOSTROPHES, QUOTES, HYPHENS, SPACES, COMPATIBLE, COMBINED)

_APART = frozenset(("<super>", "<sub>", "<fraction>"))  #: "woman²" is the word with a mark of a footnote
_STARTS = [first for first, _ in IGNORED.ranges]
_FIXED = {
    code: kind.matched_as
    for kind in (APOSTROPHES, QUOTES, HYPHENS, SPACES)
    for code in chain.from_iterable(range(first, last + 1) for first, last in kind.ranges)
}


class _Table(dict[int, str]):
    """The form in which each character is matched, for ``str.translate``; computed at its first occurrence."""

    def __missing__(self, code: int) -> str:
        self[code] = found = _matched_as(code)
        return found


def _matched_as(code: int) -> str:
    character = chr(code)
    if is_ignored(character):
        return ""
    if code in _FIXED:
        return _FIXED[code]
    if unicodedata.category(character) in ("Zs", "Zl", "Zp"):
        return " "
    if (composed := unicodedata.normalize("NFC", character)) != character:  # another code point for the same
        return normal_form(composed)
    kind = unicodedata.decomposition(character).partition(" ")[0]
    if not kind.startswith("<") or kind in _APART:
        return character
    plain = unicodedata.normalize("NFKC", character)
    return normal_form(plain) if len(plain) == 1 or (character.isalpha() and plain.isalpha()) else character


_TABLE = _Table()
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x7f]")
_CHANGED = re.compile(r"[^\t-\r\x1c-\x7e]+")  #: what may change: controls, and all beyond ASCII


def is_ignored(character: str) -> bool:
    """Return whether a character has no glyph of its own, so that words with and without it are one.

    >>> is_ignored("\\u00ad"), is_ignored("-")
    (True, False)
    """
    at = bisect_right(_STARTS, ord(character)) - 1
    return (at >= 0 and ord(character) <= IGNORED.ranges[at][1]) or unicodedata.category(character) == "Cf"


def is_plain(text: str) -> bool:
    """Return whether a text is ASCII without controls, and so its own normal form.

    >>> is_plain("woman"), is_plain("wo\\x02man"), is_plain("caf\\u00e9")
    (True, False, False)
    """
    return text.isascii() and not _CONTROLS.search(text)


def normal_form(text: str) -> str:
    """Return a text as words of it are matched: :data:`KINDS` lists what changes. Case stays.

    >>> text = normal_form("wo\\u00adman\\u2019s \\uff48\\uff41\\uff54, cafe\\u0301, of\\ufb01ce")
    >>> text == "woman's hat, caf\\u00e9, office"
    True
    """
    if is_plain(text):  # nearly all
        return text
    return unicodedata.normalize("NFC", _CHANGED.sub(lambda run: run[0].translate(_TABLE), text))


@cache
def marks() -> str:
    r"""Return the combining marks for a class of a pattern, as ``\w`` has none; those above U+FFFF make it slow.

    >>> [character in marks() for character in ("\u0301", "\u093f", "\u064e", "\u05b8", "a", "\u0964")]
    [True, True, True, True, False, False]
    """
    return "".join(c for c in map(chr, range(0x300, 0xFE30)) if unicodedata.category(c).startswith("M"))


def word_pattern(pattern: str, text: str, flags: int = 0) -> re.Pattern[str]:
    r"""Return a pattern of words for a text. If it has combining marks, they are letters in ``[\w``, ``[^\w`` and
    ``[^\W_]+``.

    >>> hindi = "\u0932\u0921\u093c\u0915\u0940"
    >>> word_pattern(r"[\w]+", hindi).findall(f"{hindi} sang") == [hindi, "sang"]
    True
    """
    return _compiled(pattern, not text.isascii() and bool(_any_mark().search(text)), flags)


@cache
def _any_mark() -> re.Pattern[str]:
    return re.compile(f"[{marks()}]")


@lru_cache(maxsize=256)
def _compiled(pattern: str, has_marks: bool, flags: int) -> re.Pattern[str]:
    if has_marks:
        for plain in (r"[\w", r"[^\w"):
            pattern = pattern.replace(plain, plain + marks())
        pattern = pattern.replace(r"[^\W_]+", rf"[^\W_]+(?:[{marks()}]+[^\W_]*)*")
    return re.compile(pattern, flags)


def is_letters(word: str) -> bool:
    """Return whether a word has nothing but letters, and marks behind them.

    >>> is_letters("na\u00efve"), is_letters("\u0932\u0921\u093c\u0915\u0940"), is_letters("it's"), is_letters("")
    (True, True, False, False)
    """
    return word[:1].isalpha() and all(c.isalpha() or c in marks() for c in word)


def folded(name: str) -> str:
    """Return a label, a name or an answer as it is compared where case does not count: its normal form, without space
    around it.

    >>> folded(" Caf\u00c9\u200b") == folded("cafe\u0301")
    True
    """
    return " ".join(normal_form(name).casefold().split())


class NormalText:
    """A text in its normal form, and where its parts are in the text itself.

    >>> found = NormalText("The wo\\u00adman left.")
    >>> found.text[4:9], found.span(4, 9)
    ('woman', (4, 10))
    """

    def __init__(self, text: str) -> None:
        self.text = normal_form(text)
        self._starts: list[int] | None = None
        self._ends: list[int] = []
        if self.text != text:
            self._starts = []
            for first, last in _groups(text):
                size = len(normal_form(text[first:last]))
                self._starts += [first] * size
                self._ends += [last] * size
            if len(self._starts) != len(self.text):  # characters that compose across groups: the text stays as it is
                self.text, self._starts = text, None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the text itself of a span in its normal form; invisible characters behind it are part of
        it.
        """
        if self._starts is None:
            return start, end
        return self._starts[start], self._ends[end - 1]


def _groups(text: str) -> list[tuple[int, int]]:
    """Return the spans of characters that are matched together: one with the marks and the invisible characters behind
    it.
    """
    firsts = [at for at, character in enumerate(text) if not at or not _continues(character)]
    return list(zip(firsts, [*firsts[1:], len(text)], strict=True))


def _continues(character: str) -> bool:
    if " " <= character <= "~":
        return False
    jamo = "\u1160" <= character <= "\u11ff"  # vowels and final consonants, which compose with what is before them
    return jamo or is_ignored(character) or unicodedata.category(character).startswith("M")
