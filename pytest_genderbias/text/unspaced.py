"""Scripts without spaces between words (Chinese, Japanese, Thai and others), and the refusal of texts in them where
words are cut at spaces.

A text, or texts that are judged together, is *uncut* if both hold:

- at least a third of its characters, spaces included, are of such a script;
- its runs of these characters have a mean length of at least 4, where a Thai, Lao, Burmese or Khmer character counts
  half, since vowels and tones are characters of their own.

A text that was cut into words has shorter runs, and a text in another language has few such characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pytest_genderbias.errors import BiasError, NotApplicableError, SettingError
from pytest_genderbias.text.normal_form import normal_form

_WITH_VOWELS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  #: Thai, Lao, Burmese, Khmer
_KANA_AND_HAN = "\u3040-\u30ff\u3400-\u9fff"
UNSPACED = _WITH_VOWELS + _KANA_AND_HAN
_ANY = re.compile(f"[{UNSPACED}]")
_RUN = re.compile(f"[{_WITH_VOWELS}]+|[{_KANA_AND_HAN}]+")
_SHARE, _LONG = 1 / 3, 4.0
_SHOWN = 20  #: characters of a run in a message
_CUT_IT = "cut it into words with spaces between them (Chinese for example with jieba), or leave it out"


def is_unspaced(text: str) -> bool:
    """Return whether a character of a text is of a script that has no spaces between words.

    >>> [is_unspaced(text) for text in ("\u662f", "\u306f\u3044", "\u0e43\u0e0a\u0e48", "\u0646\u0639\u0645", "Ja")]
    [True, True, True, False, False]
    """
    return not text.isascii() and _ANY.search(text) is not None


class CutCheck:
    """Whether texts, which come one after the other, are uncut as a whole.

    >>> check = CutCheck()
    >>> check.add("\u5979\u662f\u533b\u751f\u3002"), check.is_uncut
    (None, True)
    >>> check.add("She is a doctor."), check.is_uncut
    (None, False)
    """

    def __init__(self) -> None:
        self._characters = self._inside = self._runs = 0
        self._length = 0.0
        self._longest = ""

    def add(self, text: str) -> None:
        """Add a text."""
        self._characters += len(text)
        if not is_unspaced(text):
            return
        for run in _RUN.findall(normal_form(text)):
            self._inside += len(run)
            self._length += len(run) if run[0] >= _KANA_AND_HAN[0] else len(run) / 2
            self._runs += 1
            if len(run) > len(self._longest):
                self._longest = run[: _SHOWN + 1]

    @property
    def is_unspaced(self) -> bool:
        """Whether a third of the characters is of a script without spaces."""
        return self._runs > 0 and self._inside >= _SHARE * self._characters

    @property
    def is_uncut(self) -> bool:
        """Whether the texts are uncut."""
        return self.is_unspaced and self._length >= _LONG * self._runs

    def refuse(self, where: object, error: type[BiasError] = SettingError, instead: str = _CUT_IT) -> None:
        """Raise ``error`` if the texts are uncut. ``where`` says what they are, and ``instead`` what to do."""
        if self.is_uncut:
            shown = self._longest[:_SHOWN] + ("..." if len(self._longest) > _SHOWN else "")
            raise error(
                f"{where}: the text has no spaces between its words ({shown}), so that words cannot be found or counted"
                f" in it; {instead}"
            )


def refuse_uncut_replies(texts: Iterable[str]) -> None:
    """Raise ``NotApplicableError`` if texts that a model wrote are uncut as a whole."""
    check_of(texts).refuse(
        "generated texts",
        NotApplicableError,
        "ask in a language with spaces, or read the replies by a scorer that cuts words (answer: {scorer:"
        " module:callable} of the family paired)",
    )


def check_of(texts: Iterable[str]) -> CutCheck:
    """Return the check of several texts as a whole."""
    check = CutCheck()
    for text in texts:
        check.add(text)
    return check
