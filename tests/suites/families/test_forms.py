"""Words with forms by group, in pronoun-occupation and lm-occupation: against plain transformers, and wrong files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.answered_suites import answered

from pytest_genderbias import load_suite, measure
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.models.model import Model
from pytest_genderbias.text.wordlist import load_wordlist

LIST = """list: jobs
title: Jobs
source: test
licence: none
language: fr
forms: {female.the: "la {female}", male.the: "le {male}"}
entries:
  - {word: vendeur / vendeuse, forms: {female: vendeuse, male: vendeur}, women_share: 67}
  - word: infirmier / infirmière
    forms: {female: infirmière, male: infirmier, female.the: "l'infirmière", male.the: "l'infirmier"}
    women_share: 85
  - {word: maçon / maçonne, forms: {female: maçonne, male: maçon}, women_share: 2}
  - {word: jardinier / jardinière, forms: {female: jardinière, male: jardinier}, women_share: 5}
"""
FORMS = {
    "vendeur / vendeuse": ("vendeuse", "vendeur", "la vendeuse", "le vendeur", 0.67),
    "infirmier / infirmière": ("infirmière", "infirmier", "l'infirmière", "l'infirmier", 0.85),
    "maçon / maçonne": ("maçonne", "maçon", "la maçonne", "le maçon", 0.02),
    "jardinier / jardinière": ("jardinière", "jardinier", "la jardinière", "le jardinier", 0.05),
}
HEAD = "family: {}\ntitle: Own\nsource: test\nlicence: none\nlanguage: fr\noccupation: {{list: ./jobs.yaml}}\n"
FRAMES = ("Je travaille comme {}.", "Où est {} ?")
SUITE = (
    "suite: own\n"
    + HEAD.format("pronoun-occupation")
    + "share: women_share\ntemplates:\n"
    + '  - "Je travaille comme {occupation:*}."\n  - "Où est {occupation:*.the} ?"\n'
)
PREFIXES = (
    "suite: own\n"
    + HEAD.format("lm-occupation")
    + 'prefixes:\n  - {male: "Il est {occupation:male}", female: "Elle est {occupation:female}"}\n'
)


def own(folder: Path, text: str = SUITE, words: str = LIST) -> Path:
    (folder / "jobs.yaml").write_text(words, encoding="utf-8")
    (folder / "own.yaml").write_text(text, encoding="utf-8")
    return folder / "own.yaml"


def test_rules_of_a_list_make_the_forms_that_an_entry_does_not_declare(tmp_path: Path) -> None:
    own(tmp_path)
    found = load_wordlist("./jobs.yaml", tmp_path)
    for entry in found.entries:
        forms = entry.attributes["forms"]
        assert (forms["female"], forms["male"], forms["female.the"], forms["male.the"]) == FORMS[entry.word][:4]


def test_the_sentences_have_the_form_of_each_group(tmp_path: Path) -> None:
    suite = load_suite(own(tmp_path))
    space = suite.family.space(suite.body, {"templates": "paper"}, "causal-lm")
    sentences = [text for (text,) in space.sentences(np.arange(space.n_cases))]
    assert sentences == [
        FRAMES[frame].format(forms[2 * frame + group])
        for forms in FORMS.values()
        for frame in (0, 1)
        for group in (0, 1)
    ]


def test_a_text_for_each_group_is_read_as_that_group_has_it(tmp_path: Path) -> None:
    frame = '{female: "Elle est {occupation:female.the}.", male: "Il est {occupation:male}."}'
    suite = load_suite(own(tmp_path, SUITE.replace('"Je travaille comme {occupation:*}."', frame)))
    space = suite.family.space(suite.body, {"templates": "paper"}, "causal-lm")
    sentences = [text for (text,) in space.sentences(np.arange(space.n_cases))]
    assert sentences[:4] == ["Elle est la vendeuse.", "Il est vendeur.", "Où est la vendeuse ?", "Où est le vendeur ?"]
    other = frame.replace("Elle est", "Elle était")
    assert (
        suite.digest != load_suite(own(tmp_path, SUITE.replace('"Je travaille comme {occupation:*}."', other))).digest
    )


def log_probability(model: Model, before: str, word: str) -> float:
    """Return ln P(word | before) of a causal LM, by transformers alone."""
    import torch

    tokenizer, network = model.backend.tokenizer, model.backend.network
    row, start = tokenizer(before + word)["input_ids"], len(tokenizer(before.rstrip())["input_ids"])
    with torch.no_grad():
        logs = network(torch.tensor([row])).logits[0].double().log_softmax(-1)
    return sum(logs[at - 1, row[at]].item() for at in range(start, len(row)))


def test_a_causal_lm_against_plain_transformers(tmp_path: Path, real_lm: Model) -> None:
    found = measure(load_suite(own(tmp_path)), real_lm, cache=None, ability="none: an English model reads French")
    ratios = {
        word: np.mean(
            [
                log_probability(real_lm, frame.partition("{}")[0], forms[2 * k])
                - log_probability(real_lm, frame.partition("{}")[0], forms[2 * k + 1])
                for k, frame in enumerate(FRAMES)
            ]
        )
        for word, forms in FORMS.items()
    }
    share, ratio = np.array([forms[-1] for forms in FORMS.values()]), np.array(list(ratios.values()))
    expected = {
        "mean_difference": ratio[:2].mean() - ratio[2:].mean(),
        "pearson_r": np.corrcoef(share, ratio)[0, 1],
        "slope": np.polyfit(share, ratio, 1)[0],
    }
    assert {name: found.values[name] for name in expected} == pytest.approx(expected, abs=2e-5)
    assert {record["occupation"]: record["log_ratio"] for record in found.records} == pytest.approx(ratios, abs=2e-5)


def test_a_masked_lm_masks_each_token_of_a_form_alone(tmp_path: Path, real_mlm: Model) -> None:
    import torch

    tokenizer, network = real_mlm.backend.tokenizer, real_mlm.backend.network

    def score(text: str, said: str) -> float:
        read = tokenizer(text, return_offsets_mapping=True)
        start, total = text.index(said), 0.0
        for at, (a, b) in enumerate(read["offset_mapping"]):
            if b > a >= start and b <= start + len(said):
                ids = torch.tensor([read["input_ids"]])
                wanted, ids[0, at] = int(ids[0, at]), tokenizer.mask_token_id
                with torch.no_grad():
                    total += network(ids).logits[0, at].double().log_softmax(-1)[wanted].item()
        return total

    found = measure(load_suite(own(tmp_path)), real_mlm, cache=None, ability="none: an English model reads French")
    for record in found.records:
        forms = FORMS[record["occupation"]]
        for k, group in enumerate(("female", "male")):
            expected = np.mean(
                [score(frame.format(forms[2 * i + k]), forms[2 * i + k]) for i, frame in enumerate(FRAMES)]
            )
            assert record[group] == pytest.approx(expected, abs=2e-5)


def test_prefixes_take_the_form_of_their_group(tmp_path: Path, real_lm: Model) -> None:
    found = measure(load_suite(own(tmp_path, PREFIXES)), real_lm, cache=None, ability="none: an English model")
    biases = [
        log_probability(real_lm, "Il est ", male) - log_probability(real_lm, "Elle est ", female)
        for female, male, *_ in FORMS.values()
    ]
    expected = {"aggregate_bias": np.mean(np.abs(biases)), "signed_bias": np.mean(biases)}
    assert {name: found.values[name] for name in expected} == pytest.approx(expected, abs=2e-5)


class Object:
    """A causal LM of one's own, which sees the prefix and the form."""

    fingerprint = "object"

    def __init__(self) -> None:
        self.seen: set[tuple[str, str]] = set()

    def continuation_log_probs(self, prefixes: Sequence[str], continuations: Sequence[str]) -> list[float]:
        self.seen |= set(zip(prefixes, continuations, strict=True))
        return [-float(len(text)) for text in continuations]


def test_an_object_is_asked_the_forms(tmp_path: Path) -> None:
    asked = Object()
    answered(str(own(tmp_path)), asked)
    said = {(prefix.strip(), text.strip()) for prefix, text in asked.seen}
    assert ("Où est", "l'infirmière") in said and ("Je travaille comme", "maçon") in said and len(said) == 16


def test_occupations_of_several_words_are_known_by_their_forms(tmp_path: Path) -> None:
    words = (
        LIST + '  - {word: aide / aide, forms: {female: "aide de cuisine", male: "aide de cuisine"}, women_share: 50}\n'
    )
    suite = load_suite(own(tmp_path, PREFIXES, words))
    options: dict[str, Any] = {"templates": "paper"}
    sizes = [suite.family.space(suite.body, options | {"single_word_only": only}).n_units for only in (False, True)]
    assert sizes == [5, 4]


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        (
            SUITE,
            LIST.replace("male: maçon}", "other: maçon}"),
            r"own.yaml:10: template 'Je travaille comme {occupation:male}.' asks for the form 'male' of 'maçon /"
            r" maçonne', which its word list lacks; add it under 'forms'; it has female, other, female.the",
        ),
        (
            SUITE.replace("*.the", "*.to"),
            LIST,
            r"own.yaml:11: .* asks for the form 'female.to' of 'vendeur / vendeuse'",
        ),
        (
            SUITE.replace("occupation:*}", "occupation}"),
            LIST,
            r"own.yaml:10: .* the form of each group: {occupation:\*}",
        ),
        (SUITE.replace("occupation:*}", "occupation:female}"), LIST, r"own.yaml:10: .* in the form of each group"),
        *(
            (
                SUITE.replace('"Je travaille comme {occupation:*}."', frame),
                LIST,
                r"own.yaml:10: .* a text for each of female, male",
            )
            for frame in (
                '{female: "Elle est {occupation:female}."}',
                '{female: "Elle est {occupation:male}.", male: "Il est {occupation:female}."}',
                '{female: "Elle est {occupation:female}.", male: "Il est maçon."}',
                '{female: ["Elle est {occupation:female}."], male: ["Il est {occupation:male}."]}',
                '{females: "Elle est {occupation:female}.", male: "Il est {occupation:male}."}',
                '["Je travaille comme {occupation:*}."]',
                '{female: "Elle est {occupation:femaleness}.", male: "Il est {occupation:male}."}',
            )
        ),
        (
            PREFIXES.replace("occupation:male", "occupation"),
            LIST,
            r"own.yaml:9: .* should say which form of 'vendeur / vendeuse' it wants: {occupation:female}",
        ),
        (
            PREFIXES.replace("occupation:male", "job:male"),
            LIST,
            r"own.yaml:9: .* should use the slots {occupation} and",
        ),
        (SUITE, LIST.replace('"la {female}"', '"la"'), r"jobs.yaml:6: expected a text with one form in braces"),
        (SUITE, LIST.replace("male: maçon}", "male: ''}"), r"jobs.yaml:12: attribute 'forms' cannot be"),
        (
            SUITE.replace("share: women_share", "share: women_share\npronoun: {list: pronouns}"),
            LIST,
            r"own.yaml:7: 'vendeur / vendeuse' has forms, which slot 'occupation' of this suite cannot use; name a list"
            " of plain words",
        ),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, words: str, message: str) -> None:
    with pytest.raises(DataFileError, match=message):
        load_suite(own(tmp_path, text, words))


#: Words that tell the gender of a person, and words that may not stand before a form: articles and other words that
#: agree with it, and those that a vowel or an article would change.
TELLING = {
    "de": ["er", "ihn", "ihm", "frau", "herr", "mann", "kollege", "kollegin", "jeder", "jede"],
    "es": ["él", "ella", "señor", "señora", "hombre", "mujer", "compañero", "compañera"],
    "fr": ["elle", "lui", "celle", "celui", "madame", "monsieur", "femme", "homme", "tout", "toute"],
}
BEFORE = {
    "de": ["der", "die", "das", "ein", "eine", "einen", "dem", "den", "von", "zu", "mein", "meine"],
    "es": ["el", "la", "un", "una", "mi", "buen", "buena", "y", "o"],
    "fr": ["le", "la", "un", "une", "de", "que", "me", "ne", "se", "bon", "bonne", "mon", "ma"],
}
CONTRACTED = {"de": ("von", "zu", "in", "an"), "es": ("a", "de"), "fr": ("à", "de")}  #: with an article


@pytest.mark.parametrize("language", TELLING)
def test_a_packaged_set_tells_no_gender_but_by_the_form(language: str) -> None:
    templates = load_suite(f"pronoun-occupation-{language}").body.templates
    assert len(templates.first) == len(templates.paraphrases) == 16
    for frame in (*templates.first, *templates.paraphrases):
        before, form, after = re.split(r"{occupation:\*(.*)}", frame.text)
        assert not set(re.findall(r"\w+", f"{before} {after}".lower())) & set(TELLING[language]), frame.text
        last = re.findall(r"\w+", before.lower())[-1]
        assert last not in BEFORE[language], frame.text
        assert not (form.startswith(".the") and last in CONTRACTED[language]), frame.text
