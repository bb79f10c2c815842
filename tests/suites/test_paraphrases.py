"""The second set of templates: what the packaged suites have, how the option selects it, and what it gives end to end."""

import re

import numpy as np
import pytest
from support.answered_suites import noise

from pytest_genderbias import load_suite, measure
from pytest_genderbias.errors import DataFileError, SettingError
from pytest_genderbias.gates.agreement import different

#: Packaged suites of templates: the first 16 digits of the digest, templates and paraphrases.
SUITES = {
    "coref-occupation": ("c6dc5da5ddea6c84", 20, 20),
    "disco-names": ("c9552389d3652f06", 14, 14),
    "disco-terms": ("d9c9538f49cd67ef", 14, 14),
    "lm-occupation": ("9cc78c2db6470ee1", 4, 10),
    "nli-demonym": ("4bb9545ba31ec220", 1, 10),
    "nli-occupation": ("1209908dad31cc84", 1, 9),
    "nli-religion": ("3bbd994ad2a71d1b", 1, 10),
    "sts-occupation": ("4b57fb26ab9d01e4", 40, 40),
}


HEAD = "suite: own\ntitle: Own\nsource: test\nlicence: none\nlanguage: en\n"
DISCO = f"{HEAD}family: disco\nperson: {{list: names-us}}\ntemplates:\n  - '{{person}} likes {{blank}}.'\n"
LM = f"{HEAD}family: lm-occupation\noccupation: {{list: lu2018-occupations}}\nprefixes:\n  - {{male: 'He is {{occupation}}', female: 'She is {{occupation}}'}}\n"
NLI = (
    f"{HEAD}family: nli\npremise: 'The {{a}} {{verb}}.'\nhypothesis: 'The {{b}} {{verb}}.'\n"
    "slots:\n  a: {list: dev2019-occupations}\n  b: {list: dev2019-gendered-test}\n  verb: {list: dev2019-verbs}\n"
)


def own(tmp_path, text):
    (tmp_path / "own.yaml").write_text(text)
    return tmp_path / "own.yaml"


# What the packaged suites have


@pytest.mark.parametrize("name", SUITES)
def test_paraphrases_change_no_digest(name):
    assert load_suite(name).digest[:16] == SUITES[name][0]


# What the option selects


class Writer:
    """Log-probabilities from noise."""

    fingerprint = "writer"

    def continuation_log_probs(self, prefixes, continuations):
        return np.asarray([-1 - noise(*pair) for pair in zip(prefixes, continuations, strict=True)])


class Fills:
    """Fills depend on the sentence."""

    mask_token = "[MASK]"
    vocabulary = tuple("abcdef")

    def fill_scores(self, texts):
        return np.asarray([[noise(text[:12], w) + ("boy" in text) * (w == "a") for w in "abcdef"] for text in texts])


class Labels:
    """Probabilities of entailment, neutral and contradiction from noise, less neutral for some templates."""

    labels = ("entailment", "neutral", "contradiction")

    def pair_probabilities(self, firsts, seconds):
        p = np.asarray(
            [[noise(a, b, label) + 0.1 for label in self.labels] for a, b in zip(firsts, seconds, strict=True)]
        )
        p[:, 1] *= [0.2 if text.startswith("Who") else 1.0 for text in firsts]
        p[:, 0] += [9.0 * (a == b) for a, b in zip(firsts, seconds, strict=True)]
        return p / p.sum(axis=1, keepdims=True)


def test_nli_reports_each_template_and_averages_over_all(tmp_path):
    path = own(
        tmp_path, NLI + "paraphrases:\n  - {premise: 'Who {verb}? The {a}.', hypothesis: 'Who {verb}? The {b}.'}\n"
    )
    measured = measure(path, Labels(), cache=None, limit=3000, templates="both")
    by_template = [record for record in measured.records if record["slice"] == "template"]
    assert len(by_template) == 2 and sum(record["pairs"] for record in by_template) == 3000
    mean = sum(record["pairs"] * record["net_neutral"] for record in by_template) / 3000
    assert measured.value == pytest.approx(mean)
    assert by_template[0]["value"] == "Who {verb}? The {a}. / Who {verb}? The {b}."  # the less neutral one
    assert by_template[0]["net_neutral"] < by_template[1]["net_neutral"] - 0.1
    alone = measure(path, Labels(), cache=None, limit=100)
    assert not [record for record in alone.records if record["slice"] == "template"]


# Comparisons


def test_stored_figures_of_other_templates_are_not_compared(tmp_path):
    path = own(
        tmp_path, LM + "paraphrases:\n  - {male: 'He works as {occupation}', female: 'She works as {occupation}'}\n"
    )
    default, paper, other = (
        measure(path, Writer(), cache=None, **options)
        for options in ({}, {"templates": "paper"}, {"templates": "paraphrases"})
    )
    assert "templates" not in default.signature["settings"]  # as in baselines that were stored without the option
    assert different(default, "signed_bias", paper.signature) == []
    differences = different(other, "signed_bias", default.signature)
    assert differences[0] == "setting: templates null stored, paraphrases now"
    assert any(text.startswith("data: cases ") for text in differences)


# Suites of one's own


def test_a_suite_without_paraphrases_says_what_to_add(tmp_path):
    path = own(tmp_path, DISCO)
    assert (
        load_suite(path).digest
        == load_suite(own(tmp_path, DISCO + "paraphrases: ['{person} loves {blank}.']\n")).digest
    )
    own(tmp_path, DISCO)
    with pytest.raises(
        SettingError, match=r"no paraphrases, .*templates=both .*write some under 'paraphrases'.*templates=paper"
    ):
        measure(path, Fills(), cache=None, templates="both")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (
            DISCO + "paraphrases:\n  - '{person} loves {blank}.'\n  - '{person} likes {blank}.'\n",
            12,
            "is in the suite already",
        ),
        (DISCO + "paraphrases:\n  - '{person} loves {blank}.'\n  - '{person} loves {blank}.'\n", 12, "each once"),
        (DISCO + "paraphrases:\n  - '{person} loves it.'\n", 11, "should have one {blank}"),
        (DISCO + "paraphrases: []\n", 10, "is empty"),
        (LM + "paraphrases:\n  - {male: 'He works as {occupation}'}\n", 11, "unbalanced prefix"),
        (
            LM + "paraphrases:\n  - {male: '{occupation} is he', female: 'She is {occupation} now'}\n",
            11,
            "should end with {occupation}",
        ),
        (NLI + "paraphrases:\n  - 'This {a} {verb}.'\n", 14, "expected a mapping with premise and hypothesis"),
        (NLI + "paraphrases:\n  - {premise: 'This {a} {verb}.'}\n", 14, "has no 'hypothesis'"),
        (
            NLI + "paraphrases:\n  - {premise: 'This {b} {verb}.', hypothesis: 'This {a} {verb}.'}\n",
            14,
            "{a} in the premise",
        ),
        (NLI + "paraphrases:\n  - {premise: 'This {a}.', hypothesis: 'This {b}.'}\n", 14, "all others in both"),
    ],
)
def test_wrong_paraphrases(tmp_path, text, line, words):
    with pytest.raises(DataFileError, match=re.escape(words)) as refused:
        load_suite(own(tmp_path, text))
    assert f"own.yaml:{line}: " in str(refused.value)
