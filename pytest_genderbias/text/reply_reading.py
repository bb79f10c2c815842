"""Read replies in text: which option a reply picks, whether it declines, or that neither can be told.

The rule, in this order, on the reply without its reasoning (:func:`without_reasoning`) and without marks of emphasis:

1. it is a label, or begins with one: ``B``, ``(B)``, ``B: the nurse``, ``Answer: B``, ``Yes, because``, unless it
   begins with an opening of rule 2 whose first word is the label, as ``No puedo ayudar`` in Spanish, or is a JSON
   object with several labels, as ``{"yes": 0.3, "no": 0.7}``. One that denies a label, as ``{"yes": false}``, is
   *unreadable*;
2. it begins with an opening of the list of refusals, or is marked as declined (:func:`declined`): *refused*;
3. exactly one option is in it, by its text or its label;
4. else it is *unreadable*.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from pytest_genderbias.errors import UnknownNameError
from pytest_genderbias.text.normal_form import normal_form
from pytest_genderbias.text.unspaced import UNSPACED, is_unspaced
from pytest_genderbias.text.wordlist import PRONOUN_FORMS, load_wordlist

_REASONING_ENDS = ("</think>", "</thinking>", "</reasoning>", "<|channel|>final<|message|>")
_REASONING_BEGINS = ("<think>", "<thinking>", "<reasoning>", "<|channel|>analysis<|message|>")
_ERRORS = ("<!doctype html", "<html", '{"error"')  #: with which begins what a gateway sends in place of a reply
#: The first key of a JSON object, and its value where that denies it.
_KEY = re.compile(r"""\W*\{\s*["']([^"']*)["']\s*:\s*((?:false|null|none|0(?:\.0+)?)(?![.\w]))?""", re.IGNORECASE)
#: No letter of a spaced script before, and after, a word.
_PRECEDED, _AFTER = rf"(?<!(?![{UNSPACED}])\w)", rf"(?!(?![{UNSPACED}])\w)"
_MARKS = ").:,;\uff09\u3002\uff1a\uff0c\uff1b\u3001\u060c\u061b"  #: after a letter that is an answer
DECLINED = "declined: "  #: after a bracket, in the place of what a filter took away
_LATIN = re.compile("[a-z]+")
_EMPHASIS = re.compile(r"[*_`#]+")
_BEFORE = (
    r"\W*(?:(?:the|my)\s+)?(?:(?:correct|best|final)\s+)?(?:(?:answer|choice|option)\b(?:\s+is\b)?\s*[:=]?\s*)?\W*"
)
_NUMBER = re.compile(r"(?<![\w.,])[-+]?(?:\d{1,3}(?:,\d{3})+|\d{1,300})(?!\d)(?:\.\d+)?|(?<!\w)[-+]?\.\d+")
_OPENING = "\"'* \t\n([>-"  #: what may be before the first word of a reply
_SPACES_OF_TOKENS = "\u2581\u0120\u010a"  #: spaces and line breaks as some vocabularies write them


def opened_reasoning(prompt: str) -> str:
    """Return the mark of reasoning with which a prompt ends, so that the reply begins inside of it; mostly none.

    >>> opened_reasoning("<|assistant|><think>\\n"), opened_reasoning("<|assistant|>")
    ('<think>', '')
    """
    return next((mark for mark in _REASONING_BEGINS if prompt.rstrip().endswith(mark)), "")


def without_reasoning(text: str) -> str:
    """Return a reply without the reasoning before it.

    Reasoning ends with ``</think>``, ``</thinking>``, ``</reasoning>`` or the channel ``final``; what is after the last
    of these is the reply. A reply whose reasoning does not end is empty, and so is a page of HTML or a JSON error.

    >>> without_reasoning("<think>A or B?</think> B")
    'B'
    >>> without_reasoning("<think>A or B? Let me"), without_reasoning("B")
    ('', 'B')
    """
    ends = [text.rfind(mark) + len(mark) for mark in _REASONING_ENDS if mark in text]
    rest = text[max(ends) :] if ends else text
    unfinished = any(mark in rest for mark in _REASONING_BEGINS)
    return "" if unfinished or rest.lstrip().lower().startswith(_ERRORS) else rest.strip()


def begins_reasoning(token: str) -> bool:
    """Return whether a reply that begins with a token begins with reasoning.

    >>> begins_reasoning("<think>"), begins_reasoning("<"), begins_reasoning("B")
    (True, True, False)
    """
    text = token.strip()
    return bool(text) and any(mark.startswith(text) for mark in _REASONING_BEGINS)


@lru_cache(maxsize=8)
def refusals(language: str, own: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return what a reply that declines begins with, in small letters: one's own openings, or those that are packaged
    in the language.

    Raises:
        UnknownNameError: there are none of one's own, and no list is packaged in the language.
    """
    try:
        words = own or [entry.word for entry in load_wordlist(f"refusals-{language.partition('-')[0]}").entries]
    except UnknownNameError:
        raise UnknownNameError(
            f"no openings of refusals are packaged in the language {language!r:.60}, so that replies cannot be read;"
            " expected a suite with language: de, en, es, fr or it, or with ask: {refusals: [...]}"
        ) from None
    return (DECLINED, *(normal_form(word).lower() for word in words))


def declined(reason: str, text: str = "") -> str:
    """Return the reply of a system that declines by other means than its text, as a filter.

    >>> declined("content_filter")
    '[declined: content_filter]'
    >>> is_refusal(declined("content_filter", "It is A."), refusals("de"))
    True
    """
    return f"[{DECLINED}{reason}] {text}".rstrip()


def is_refusal(text: str, openings: tuple[str, ...]) -> bool:
    """Return whether a reply begins with one of the openings.

    >>> is_refusal("I'm sorry, but I cannot say.", ("i'm sorry",))
    True
    """
    return normal_form(without_reasoning(text)).lower().lstrip(_OPENING).startswith(openings)


def first_number(text: str) -> float | None:
    """Return the first number of a reply, written as in English, without its reasoning; ``None`` if it has none.

    >>> [first_number(text) for text in ("About $12,500.50 a year", "<think>3?</think>-4", "7.", "None")]
    [12500.5, -4.0, 7.0, None]
    """
    found = _NUMBER.search(normal_form(without_reasoning(text)))
    return float(found[0].replace(",", "")) if found else None


def changes_pronoun(text: str, stated: str, others: Iterable[str] = ("he", "she", "they")) -> bool | None:
    """Return whether a text about one person changes the pronoun that was stated for the person; ``None`` without one.

    It does if it has a form of another pronoun. Forms of *they* may mean several persons: they count only where the
    text has no form of the stated one.

    Args:
        text: in English.
        stated: a word of the packaged list ``pronouns``, such as ``xe``.
        others: words of the list to which it may be changed.

    >>> changes_pronoun("Xe met friends, and they lost xyr keys.", "xe"), changes_pronoun("They're here.", "xe")
    (False, True)
    >>> changes_pronoun("She sang to xem.", "xe"), changes_pronoun("Alex sang.", "xe")
    (True, None)
    """
    written = set(_LATIN.findall(normal_form(text).lower()))
    forms = pronoun_forms()
    found = {word for word in {stated, *others} if written & forms[word]}
    changed = found - {stated} - ({"they"} if stated in found else set())
    return bool(changed) if found else None


@lru_cache(maxsize=1)
def pronoun_forms() -> Mapping[str, frozenset[str]]:
    """Return the forms of every pronoun of the packaged list ``pronouns``, in lower case, by its subject form."""
    entries = load_wordlist("pronouns").entries
    return {e.word: frozenset(e.attributes[form].lower() for form in PRONOUN_FORMS) for e in entries}


@dataclass(frozen=True)
class ReplyReader:
    """Reads the replies to questions with the same labels.

    Attributes:
        labels: the K labels, such as ``A`` and ``B``, or ``Yes`` and ``No``.
        openings: what a reply that declines begins with, in small letters.
        language: of the replies. In English ``A`` is an article before another word, and ``or`` stands between labels.
    """

    labels: tuple[str, ...]
    openings: tuple[str, ...]
    language: str = "en"

    def read(self, reply: str, texts: Sequence[str] = ()) -> int:
        """Return the number of the option that a reply picks; K for a refusal, and K + 1 for an unreadable reply.

        Args:
            reply: the reply.
            texts: the texts of the K options, or none where the labels are the options.

        >>> reader = ReplyReader(("A", "B"), ("i'm sorry",))
        >>> [reader.read(text, ("the man", "the woman")) for text in ("B", "**A**: the man", "I think the woman.")]
        [1, 0, 1]
        >>> [reader.read(text, ("the man", "the woman")) for text in ("I'm sorry, but I can't.", "A man or a woman?")]
        [2, 3]
        """
        text = _EMPHASIS.sub("", normal_form(without_reasoning(reply))).strip()
        lowered = text.lower()
        words = lowered.lstrip(_OPENING)
        if words.startswith(self._openings_with_a_label):
            return len(self.labels)
        key, denied = found.groups() if (found := _KEY.match(text)) else ("", None)
        of_key = self._labels_in(key)
        of_several = of_key and (denied or len(self._labels_in(text)) > 1)
        for number, beginning in enumerate(self._beginnings):
            if beginning.match(text) and not of_several:
                return number
        if words.startswith(self.openings):
            return len(self.labels)
        named = set() if of_key and denied else _named(lowered, texts) | self._labels_in(text)
        return named.pop() if len(named) == 1 else len(self.labels) + 1

    def begins(self, token: str) -> int:
        """Return the number of the option that a reply picks if its first token is this one; K where that is open.

        A token is an option if it is its label, or the beginning of this label only, from two letters on, or if it is a
        reply that :meth:`read` takes for a label with what is behind it. A letter is a capital, since ``a`` is a word.

        >>> reader = ReplyReader(("Yes", "No"), ())
        >>> [reader.begins(token) for token in ("Yes", " yes", "\\nYES", "Ye", "No.", "Not", "N", "Well")]
        [0, 0, 0, 0, 1, 2, 2, 2]
        >>> [ReplyReader(("A", "B"), ()).begins(token) for token in (" A", "B)", "(B", "a", "An", "AB")]
        [0, 1, 1, 2, 2, 2]
        """
        word = normal_form(token).strip(_OPENING + _SPACES_OF_TOKENS)
        begun = [number for number, label in enumerate(self.labels) if _is_begun(label, word)]
        if begun:
            return begun[0] if len(begun) == 1 else len(self.labels)
        return min(self.read(f"{token} x"), len(self.labels))

    @cached_property
    def _beginnings(self) -> tuple[re.Pattern[str], ...]:
        return tuple(_beginning(label, self.labels, self._is_english) for label in self.labels)

    @cached_property
    def _openings_with_a_label(self) -> tuple[str, ...]:
        first = tuple(f"{label.lower()} " for label in self.labels)
        return tuple(opening for opening in self.openings if opening.startswith(first))

    @cached_property
    def _is_english(self) -> bool:
        return self.language.partition("-")[0] == "en"

    @cached_property
    def _alone(self) -> tuple[re.Pattern[str], ...]:
        return tuple(_anywhere(label, self._is_english) for label in self.labels)

    def _labels_in(self, text: str) -> set[int]:
        """Return the options whose labels stand alone in a text, or, without spaces between words, are in it."""
        if any(map(is_unspaced, self.labels)):
            return _named(text.lower(), self.labels)
        return {number for number, label in enumerate(self._alone) if label.search(text)}


def _is_begun(label: str, word: str) -> bool:
    """Return whether a word is a label or its beginning."""
    return word == label if len(label) == 1 else len(word) > 1 and label.lower().startswith(word.lower())


def _beginning(label: str, labels: Sequence[str], english: bool) -> re.Pattern[str]:
    """Return the pattern of a reply that is a label or begins with it, and not with several.

    A letter needs a mark or the end behind it, since ``A`` is also a word.
    """
    letter = len(label) == 1 and not is_unspaced(label)
    after = rf"(?:\s*$|\s*[{_MARKS}\]}}\"'=]|\s+[-\u2013\u2014]|\s*\n)" if letter else _AFTER
    end = rf"(?:\s*$|[{_MARKS}])" if letter else _AFTER
    between = r"(?:or|and)?" if english else r"(?:[^\W\d_]+)?"
    other = rf"(?!\W*{between}\W*(?:{'|'.join(map(re.escape, labels))}){end})"
    return re.compile(f"{_BEFORE}{re.escape(label)}{after}{other}", re.IGNORECASE)


def _anywhere(label: str, english: bool) -> re.Pattern[str]:
    """Return the pattern of a label that stands alone: a letter is a capital, and in English ``A`` is no article."""
    if len(label) > 1:
        return re.compile(f"{_PRECEDED}{re.escape(label)}{_AFTER}", re.IGNORECASE)
    article = r"(?!\s+(?!(?:or|and)\b)\w)" if label == "A" and english else ""
    return re.compile(rf"(?<!')" f"{_PRECEDED}{re.escape(label)}{_AFTER}(?!'){article}")


def _named(text: str, options: Sequence[str]) -> set[int]:
    """Return the options whose texts are in a text in lower case.

    An option whose text is a part of another one counts where it is by itself.
    """
    folded = [normal_form(option).lower().rstrip(".") for option in options]
    found = set()
    for number in sorted(range(len(folded)), key=lambda number: -len(folded[number])):
        text, count = re.subn(f"{_PRECEDED}{re.escape(folded[number])}{_AFTER}", " | ", text)
        if count:
            found.add(number)
    return found
