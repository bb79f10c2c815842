"""Words with combining marks: vowels of Hindi and Tamil, vocalised Arabic, pointed Hebrew. Each is one word wherever
words are matched, counted, swapped and scrubbed, whether its marks are composed or not.
"""

from __future__ import annotations

import sys
import unicodedata

import pytest

from pytest_genderbias.datasets import mentions
from pytest_genderbias.datasets.corpora import TOKENISERS, draw_contexts
from pytest_genderbias.mitigation.methods.counterfactual import swap
from pytest_genderbias.mitigation.methods.scrubbing import scrub
from pytest_genderbias.mitigation.words import matching
from pytest_genderbias.suites.families.generation import count_words, words_of
from pytest_genderbias.suites.families.pairs_pll import shared_spans
from pytest_genderbias.text.normal_form import marks, normal_form

#: Man or boy, woman or girl, and a longer word that begins with the letters of the first one.
WORDS = {
    "hindi": ("लड़का", "लड़की", "लड़कपन"),
    "hindi nasal": ("माँ", "माता", "मांग"),
    "tamil": ("ஆண்", "பெண்", "ஆணி"),
    "arabic": ("مُعَلِّم", "مُعَلِّمَة", "مُعَلِّمِين"),
    "hebrew": ("יֶלֶד", "יַלְדָּה", "יֶלֶדִים"),
    "bengali": ("ছেলে", "মেয়ে", "ছেলেবেলা"),
}
languages = pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
forms = pytest.mark.parametrize("form", ["NFC", "NFD"])


def written(form: str, words: tuple[str, str, str]) -> tuple[str, str, str, str]:
    """Return the words in a form, and a text with the longer word, the first word before a mark, and both in a row."""
    one, other, longer = (unicodedata.normalize(form, word) for word in words)
    return one, other, longer, f"{longer} {one}, {other} {one}\u0964 ({other})"


@languages
@forms
def test_a_word_is_found_as_a_whole(words, form):
    one, other, longer, text = written(form, words)
    expected = [
        (at, at + len(word))
        for at, word in sorted((text.index(word, start), word) for word, start in ((one, len(longer)), (other, 0)))
    ]
    known = {normal_form(word) for word in (one, other)}
    spans = matching.find_words(text, known)
    assert [text[slice(*span)] for span in spans] == [one, other, one, other]
    assert spans[:2] == expected
    for written_otherwise in ("NFC", "NFD"):  # the word asked for, the text as it is
        asked = unicodedata.normalize(written_otherwise, one)
        assert [text[slice(*span)] for span in mentions.find_words(text, [asked])] == [one, one]


@languages
@forms
def test_words_are_counted_as_wholes(words, form):
    one, other, longer, text = written(form, words)
    plain = [normal_form(word).lower() for word in (longer, one, other, one, other)]
    assert words_of(text) == plain
    assert [token for token in TOKENISERS["words"](text) if token not in {",", "\u0964", "(", ")"}] == plain
    counted = count_words([text], {"listed": [one]}, ())
    assert counted["listed"].tolist() == [2] and counted["words"].tolist() == [5]


@languages
@forms
def test_words_are_swapped_and_scrubbed_as_wholes(words, form):
    one, other, longer, text = written(form, words)
    swapped = swap(text, intervention="naive", pairs=[(one, other)])
    first, second = (normal_form(word) for word in (one, other))
    assert normal_form(swapped) == normal_form(f"{longer} {second}, {first} {second}\u0964 ({first})")
    assert normal_form(swap(swapped, intervention="naive", pairs=[(one, other)])) == normal_form(text)
    assert scrub(text, {normal_form(one)}) == f"{longer} _, {other} _\u0964 ({other})"


@languages
@forms
def test_contexts_are_of_the_whole_word(tmp_path, words, form):
    one, other, longer, _ = written(form, words)
    path = tmp_path / "a.txt"
    path.write_text(f"{longer} {other}.\n\n{other} {one}.\n", encoding="utf-8")
    drawn = draw_contexts(path, [words[0]])[words[0]]
    ((text, (start, stop)),) = drawn
    assert text[start:stop] == one


@languages
@forms
def test_what_two_sentences_share_is_whole_words(words, form):
    one, other, longer, _ = written(form, words)
    more, less = f"{one} {longer}.", f"{other} {longer}."
    spans, _ = shared_spans(more, less)
    assert "".join(more[slice(*span)] for span in spans) == f" {longer}."


def test_all_marks_of_living_scripts_are_known():
    every = {c: unicodedata.name(c) for c in map(chr, range(sys.maxunicode)) if unicodedata.category(c)[0] == "M"}
    assert set(marks()) <= set(every)
    scripts = """ARABIC HEBREW SYRIAC THAANA NKO DEVANAGARI BENGALI GURMUKHI GUJARATI ORIYA TAMIL TELUGU KANNADA
        MALAYALAM SINHALA THAI LAO TIBETAN MYANMAR ETHIOPIC KHMER MONGOLIAN BALINESE JAVANESE
        SUNDANESE MEETEI"""
    for script in scripts.split():
        of = {c for c, name in every.items() if name.startswith(f"{script} ") and "SELECTOR" not in name}
        assert of and of <= set(marks()), script
