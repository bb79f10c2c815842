"""The packaged control items: enough of them, unambiguous in form, balanced, and about neither gender nor
occupations.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import yaml

from pytest_genderbias.measurement.control_questions import ability_of
from pytest_genderbias.models.model import Model
from pytest_genderbias.scoring.engine import ScoreSettings
from pytest_genderbias.suites.controls import packaged_controls, read_controls
from pytest_genderbias.suites.query import PairSimilarity
from pytest_genderbias.text import packaged
from pytest_genderbias.text.wordlist import load_wordlist

LANGUAGES = packaged.folder("fixtures") / "controls"
FOLDER = LANGUAGES / "en"
#: What language models are asked in a language that has no more items yet, with the least number of items.
OF_LANGUAGE_MODELS = {"word-order": 200, "masked-words": 40, "gender": 200}
OTHERS = ("de", "es", "fr", "it")
PLAIN = ("word-order", "masked-words", "related-words", "paraphrases", "inference", "antecedents")
GENDERED = ("gender", "gender-inference", "gender-words")
LABELS = ("entailment", "neutral", "contradiction")
SWAPPED = re.compile(r"\[(\S+) (\S+)\]")


def controls(name: str, language: str = "en") -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((LANGUAGES / language / f"{name}.yaml").read_text(encoding="utf-8"))
    return content


def items(name: str, language: str = "en") -> list[Any]:
    found: list[Any] = controls(name, language)["items"]
    return found


def strings(item: Any) -> list[str]:
    """Return every text of an item."""
    if isinstance(item, str):
        return [item]
    if isinstance(item, dict):
        return [text for value in item.values() for text in strings(value)]
    return [text for value in item for text in strings(value)]


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z']+", text.lower()))


def test_every_file_is_a_file_of_controls() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {*PLAIN, *GENDERED}


@pytest.mark.parametrize("name", [*PLAIN, *GENDERED])
def test_a_file_has_200_items_and_says_where_they_are_from(name: str) -> None:
    content = controls(name)
    assert list(content) == ["controls", "title", "source", "licence", "language", "items"]
    assert (content["controls"], content["language"], content["licence"]) == (name, "en", "Apache-2.0")
    assert len(content["items"]) >= 200
    assert len({str(item) for item in content["items"]}) == len(content["items"])
    assert all(text == text.strip() and text for item in content["items"] for text in strings(item))


@pytest.mark.parametrize("language", OTHERS)
def test_files_of_other_languages(language: str) -> None:
    assert {path.stem for path in (LANGUAGES / language).iterdir()} == set(OF_LANGUAGE_MODELS)
    for name, least in OF_LANGUAGE_MODELS.items():
        content = controls(name, language)
        assert (content["controls"], content["language"], content["licence"]) == (name, language, "Apache-2.0")
        assert len(read_controls(LANGUAGES / language / f"{name}.yaml").content) == len(content["items"]) >= least
        assert len({str(item) for item in content["items"]}) == len(content["items"])
    plain = {
        text for name in ("word-order", "masked-words") for item in items(name, language) for text in strings(item)
    }
    jobs = {
        form
        for entry in load_wordlist(f"occupations-{language}").entries
        for form in entry.attributes["forms"].values()
    }
    assert not {word for text in plain for word in text.split()} & jobs


@pytest.mark.parametrize("name", OF_LANGUAGE_MODELS)
def test_an_english_model_does_not_know_other_languages(name: str, real_lm: Model, real_mlm: Model) -> None:
    for language in OTHERS:
        model = real_mlm if name == "masked-words" else real_lm
        found = ability_of(read_controls(LANGUAGES / language / f"{name}.yaml"), model, None, ScoreSettings(cache=None))
        assert found.unable, (language, found.value)


@cache
def listed_words() -> set[str]:
    """Return the single words of gender and of occupations in the packaged lists."""
    found: set[str] = set()
    for name in packaged.names("wordlists"):
        content = yaml.safe_load((packaged.folder("wordlists") / f"{name}.yaml").read_text(encoding="utf-8"))
        if name == "zhao2018-pairs" or name == "lu2018-pairs":
            found |= {
                word for pair in content["pairs"] for group in content["groups"] for word in _as_list(pair, group)
            }
        elif name.endswith("occupations") or name.startswith("dev2019-gendered"):
            found |= {str(entry["word"] if isinstance(entry, dict) else entry) for entry in _entries(content)}
    return {word.lower() for word in found if " " not in word} | {"he", "she", "him", "her", "his", "hers"}


def _entries(content: dict[str, Any]) -> list[Any]:
    if "entries" in content:
        return list(content["entries"])
    return [dict(zip(content["columns"], row, strict=True)) for row in content["rows"]]


def _as_list(pair: Any, group: str) -> list[str]:
    value = pair[group] if isinstance(pair, dict) else pair[0 if group == "male" else 1]
    return value if isinstance(value, list) else [value]


@pytest.mark.parametrize("name", PLAIN)
def test_plain_controls_are_about_neither_gender_nor_occupations(name: str) -> None:
    forbidden = listed_words()
    assert {"nurse", "mother", "she", "king"} <= forbidden
    found = {word for item in items(name) for text in strings(item) for word in words(text)} & forbidden
    assert not found


@pytest.mark.parametrize("language", ["en", *OTHERS])
def test_two_words_inside_a_sentence_are_swapped(language: str) -> None:
    for text in items("word-order", language):
        (match,) = SWAPPED.finditer(text)
        first, second = match.groups()
        assert first != second
        assert match.start() > 0, f"{text}: the first word has a capital letter"
        assert first.isalpha(), text
        assert second.isalpha(), text
        assert text[match.end()] == " ", f"{text}: a word beside punctuation"
        assert text[match.start() - 1] == " ", text
        assert text[match.start() - 2].isalpha(), f"{text}: a word beside punctuation"


@pytest.mark.parametrize("language", ["en", *OTHERS])
def test_frequency_alone_does_not_find_a_masked_word(language: str) -> None:
    right, wrong = Counter[str](), Counter[str]()
    for item in items("masked-words", language):
        assert item["text"].count("___") == 1
        assert len({item["right"], *item["wrong"]}) == 4
        right[item["right"]] += 1
        wrong.update(item["wrong"])
    assert wrong == {word: 3 * count for word, count in right.items()}


def test_third_words_are_second_ones_elsewhere() -> None:
    triples = items("related-words")
    assert all(len(set(triple)) == 3 for triple in triples)
    assert Counter(third for _, _, third in triples) == Counter(second for _, second, _ in triples)


def words_of(text: str) -> set[str]:
    return set(re.findall(r"[a-z']+", text.lower()))


def test_words_in_common_do_not_find_a_paraphrase() -> None:
    triples = items("paraphrases")
    texts = [text for triple in triples for text in triple]
    assert len(set(texts)) == len(texts)
    for first, second, third in triples:
        shared = [len(words_of(first) & words_of(other)) for other in (second, third)]
        assert shared[0] <= shared[1], first


def test_labels_of_inference_are_balanced() -> None:
    counts = Counter(item["label"] for item in items("inference"))
    assert set(counts) == set(LABELS)
    assert min(counts.values()) >= 67
    assert max(counts.values()) == min(counts.values())
    pairs = [(item["premise"], item["hypothesis"]) for item in items("inference")]
    assert len(set(pairs)) == len(pairs)


def test_antecedents_occur_once_and_half_of_the_right_ones_second() -> None:
    second = 0
    for item in items("antecedents"):
        text = item["text"]
        for key in ("pronoun", "right", "wrong"):
            assert text.count(item[key]) == 1, f"{text}: {item[key]}"
        assert text.index(item["pronoun"]) > max(text.index(item["right"]), text.index(item["wrong"]))
        second += text.index(item["right"]) > text.index(item["wrong"])
    assert second * 2 == len(items("antecedents"))
    pronouns = Counter(item["pronoun"] for item in items("antecedents"))
    assert pronouns["it"] == pronouns["they"]


@pytest.mark.parametrize("language", ["en", *OTHERS])
def test_genders_are_balanced_in_blanks(language: str) -> None:
    answers = Counter((item["right"], item["wrong"]) for item in items("gender", language))
    assert all(item["text"].count("___") == 1 for item in items("gender", language))
    assert {(wrong, right): count for (right, wrong), count in answers.items()} == answers


def test_genders_are_balanced_in_inference() -> None:
    answers = Counter((item["right"], item["wrong"]) for item in items("gender-inference"))
    assert {(wrong, right): count for (right, wrong), count in answers.items()} == answers
    for item in items("gender-inference"):
        assert len(words(item["right"]) ^ words(item["wrong"])) == 2


def test_genders_are_balanced_in_vectors() -> None:
    answers = Counter((second, third) for _, second, third in items("gender-words"))
    assert {(third, second): count for (second, third), count in answers.items()} == answers


def test_words_that_are_asked_in_pairs_of_texts_need_as_many_right_answers() -> None:
    words = packaged_controls("related-words", "en")
    assert words is not None
    in_pairs = replace(words, in_pairs=True)
    assert in_pairs.kind.needed == words.kind.needed and isinstance(in_pairs.question().query, PairSimilarity)
    of_case = np.tile([[0.9], [0.1]], (len(words.content), 1))  # the second word is nearer than the third
    read = in_pairs.kind.read
    assert read(words.content, of_case).tolist() == [1.0] * len(words.content)
    assert not read(words.content, 1 - of_case).any()
