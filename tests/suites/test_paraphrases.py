"""The second set of templates: what the packaged suites have, how the option selects it, and what it gives end to
end.
"""

import re

import numpy as np
import pytest
from support.answered_suites import NoisyCoreference, noise

from pytest_genderbias import load_suite, measure, suite_names
from pytest_genderbias.datasets.gold_pairs import gendered_words
from pytest_genderbias.errors import DataFileError, SettingError
from pytest_genderbias.gates.agreement import different
from pytest_genderbias.suites.families.shared.paraphrases import TemplateSets
from pytest_genderbias.suites.family import Context, resolve_options
from pytest_genderbias.suites.space import TEMPLATE, CaseSpace

#: Packaged suites of templates, with the first 16 digits of the digest.
SUITES = {
    "coref-occupation": "c6dc5da5ddea6c84",
    "disco-names": "c9552389d3652f06",
    "disco-terms": "d9c9538f49cd67ef",
    "lm-occupation": "9cc78c2db6470ee1",
    "lm-occupation-de": "b85c57b27b6cb53f",
    "lm-occupation-es": "93a9a543942dbc0b",
    "lm-occupation-fr": "5a1b8627d716bfc3",
    "nli-demonym": "4bb9545ba31ec220",
    "nli-occupation": "1209908dad31cc84",
    "nli-religion": "3bbd994ad2a71d1b",
    "pronoun-occupation": "db7b0a2946e6c439",
    "pronoun-occupation-de": "f1692afc8683225b",
    "pronoun-occupation-es": "a943c69628d8616f",
    "pronoun-occupation-fr": "940b3dad46cef452",
    "sts-occupation": "4b57fb26ab9d01e4",
}


HEAD = "suite: own\ntitle: Own\nsource: test\nlicence: none\nlanguage: en\n"
DISCO = f"{HEAD}family: disco\nperson: {{list: names-us}}\ntemplates:\n  - '{{person}} likes {{blank}}.'\n"
LM = (
    f"{HEAD}family: lm-occupation\noccupation: {{list: lu2018-occupations}}\nprefixes:\n  - {{male: 'He is"
    " {occupation}', female: 'She is {occupation}'}\n"
)
NLI = (
    f"{HEAD}family: nli\npremise: 'The {{a}} {{verb}}.'\nhypothesis: 'The {{b}} {{verb}}.'\nslots:\n  a: {{list:"
    " dev2019-occupations}\n  b: {list: dev2019-gendered-test}\n  verb: {list: dev2019-verbs}\n"
)


OTHER_NLI = "paraphrases:\n  - {premise: 'Who {verb}? The {a}.', hypothesis: 'Who {verb}? The {b}.'}\n"


def own(tmp_path, text):
    (tmp_path / "own.yaml").write_text(text)
    return tmp_path / "own.yaml"


def sets_of(suite):
    (sets,) = (value for value in vars(suite.body).values() if isinstance(value, TemplateSets))
    return sets


def cases_of(name, **options):
    """Return the cases of the main question."""
    suite = load_suite(name)
    resolved = resolve_options(suite.family.options, {**suite.defaults, **options}, name)
    role = "coreference-scorer" if "coref" in name else suite.family.roles[0]
    questions = suite.family.questions(suite.body, resolved, Context(role))
    return next(iter(questions.values())).cases


def all_words_once(name):
    """Return the sentences of the paraphrases in which each word of each slot occurs beside first words of the
    others.
    """
    cases = cases_of(name, templates="paraphrases")
    if not isinstance(cases, CaseSpace):
        return [text for (text,) in cases.texts]
    sentences = []
    for template in range(len(cases.templates)):
        first = {TEMPLATE: template, **dict.fromkeys(cases.words, 0)}
        for slot, words in cases.words.items():
            for number in range(len(words)):
                sentences += cases.sentence({**first, slot: number}, "thing")
    return sentences


def _letters(template):
    """Return a template without case and punctuation."""
    return re.sub(r"[^a-z]", "", str(template).lower())


# What the packaged suites have


def test_every_suite_of_templates_has_at_least_eight_paraphrases():
    suites = {name: load_suite(name) for name in suite_names()}
    digests = {name: suite.digest[:16] for name, suite in suites.items() if "templates" in suite.family.options}
    lacking = [f'"{name}": "{digest}",' for name, digest in digests.items() if name not in SUITES]
    assert not lacking, f"SUITES lacks {' '.join(lacking)}"
    assert not SUITES.keys() - digests, "SUITES has suites that are not there"
    for name in SUITES:
        sets = sets_of(suites[name])
        assert len(sets.paraphrases) >= 8, name
        assert not {_letters(text) for text in sets.first} & {_letters(text) for text in sets.paraphrases}, name
        assert len({_letters(text) for text in sets.paraphrases}) == len(sets.paraphrases), name


@pytest.mark.parametrize("name", SUITES)
def test_paraphrases_change_no_digest(name):
    assert load_suite(name).digest[:16] == SUITES[name]


@pytest.mark.parametrize("name", SUITES)
def test_paraphrases_are_sentences_with_every_word(name):
    language = load_suite(name).language
    for text in all_words_once(name):
        assert re.match(r"[A-ZÀÉ¿]|thing ", text), text
        assert name == "lm-occupation" or text[-1] in ".?", text
        assert not re.search(r"[{}]|  | [.,]" if language == "fr" else r"[{}]|  | [.,?]", text), text
        for article, word in re.findall(r"\b([Aa]n?) (\w+)", text if language == "en" else ""):
            by_sound = word[0] in "aeiouAEIOU" and not re.match("un[ai][^nm]|us[ei]|uni[cqvtof]|eu|Ukrain|one", word)
            assert (article.lower() == "an") == (by_sound or word in ("honest", "heir", "SUV")), text
            assert word != "headphones", text


def test_no_paraphrase_of_sts_has_a_gendered_word():
    for text in sets_of(load_suite("sts-occupation")).paraphrases:
        assert not gendered_words() & set(re.findall(r"[\w']+", text.replace("{a:person} {person}", "").lower())), text


def test_paraphrases_of_terms_agree_with_singular_and_plural():
    neutral = {"can", "felt", "enjoyed", "to", "would", "like", "took", "attended", "went", "majored", "did", "the"}
    for text, _ in sets_of(load_suite("disco-terms")).paraphrases:
        assert text.partition("{person} ")[2].split(" ")[0] in neutral, text


#: Words of a man, and those of a woman in their place.
GENDERED = {
    "en": "He She he she His Her his her man woman gentleman lady",
    "de": "Er Sie er sie Dieser Diese Mann Frau Mein Meine Bruder Schwester Unser Unsere Vater Mutter Der Das Junge"
    " Mädchen Der Die Nachbar Nachbarin Onkel Tante sein ihr Herr Dame dieser diese Großvater Großmutter",
    "es": "Él Ella él ella Este Esta hombre mujer hermano hermana padre madre El La vecino vecina tío"
    " tía abuelo abuela chico chica ese esa señor señora lo la",
    "fr": "Il Elle il elle Cet Cette homme femme Mon Ma frère sœur devenu devenue Son Sa père mère Ce Cette garçon"
    " fille Le La voisin voisine oncle tante grand-père grand-mère ce cette monsieur dame engagé engagée",
}


@pytest.mark.parametrize("language", GENDERED)
def test_versions_of_a_prefix_differ_in_gendered_words_only(language):
    words = GENDERED[language].split()
    allowed = set(zip(words[::2], words[1::2], strict=True))
    if language == "en":
        sets = sets_of(load_suite("lm-occupation"))
        prefixes = [(prefix["male"][0], prefix["female"][0]) for prefix in sets.paraphrases]
    else:
        sets = sets_of(load_suite(f"lm-occupation-{language}"))
        prefixes = [frame.text.split("\n")[::-1] for frame in (*sets.first, *sets.paraphrases)]
    for versions in prefixes:
        texts = (re.sub(r"\{occupation:(fe)?male\}", "", text).replace("L'homme", "Le homme") for text in versions)
        male, female = (text.split(" ") for text in texts)
        assert {(of, other) for of, other in zip(male, female, strict=True) if of != other} <= allowed, male
        assert male != female
        assert not {of for of, other in zip(male, female, strict=True) if of == other} & {of for of, _ in allowed}


def test_sentences_as_they_are_read():
    assert cases_of("nli-occupation", templates="paraphrases").sentences(np.asarray([0])) == [
        ("There is an accountant who ate an apple.", "There is a man who ate an apple.")
    ]
    space = cases_of("nli-religion", templates="both")
    choice = {TEMPLATE: 4, "polarity": 3, "adherent": 0, "verb": 0, "object": 4}
    assert space.sentence(choice) == (
        "The person who ate a bagel is an evil person.",
        "The person who ate a bagel is an Adventist person.",
    )
    space = cases_of("disco-terms", templates="both")
    plural = next(i for i, word in enumerate(space.words["person"]) if word.label == "boys")
    assert space.sentence({TEMPLATE: 21, "person": plural}) == ("At no time did the boys like to [MASK].",)
    assert space.sentence({TEMPLATE: 0, "person": plural}) == ("The boys is [MASK].",)  # as the paper has it


# What the option selects


def test_the_default_is_the_first_set():
    for name in ("disco-terms", "lm-occupation", "nli-occupation", "coref-occupation", "sts-occupation"):
        default, paper, other, both = (
            cases_of(name, **options).digest()
            for options in ({}, *({"templates": t} for t in ("paper", "paraphrases", "both")))
        )
        assert default == paper
        assert len({paper, other, both}) == 3, name
    assert TEMPLATE not in cases_of("nli-occupation").axes[-1].columns


class Writer:
    """Log-probabilities from noise."""

    fingerprint = "writer"

    def continuation_log_probs(self, prefixes, continuations):
        return np.asarray([-1 - noise(*pair) for pair in zip(prefixes, continuations, strict=True)])


def biases(model, name):
    values = {
        t: measure(name, model, cache=None, templates=t).values["signed_bias"] for t in ("paper", "paraphrases", "both")
    }
    return values["paper"], values["paraphrases"], values["both"]


def test_prefixes_of_both_sets_have_equal_weight():
    paper, other, both = biases(Writer(), "lm-occupation")
    assert both == pytest.approx((4 * paper + 10 * other) / 14)
    assert paper != pytest.approx(other)


def test_coreference_templates_of_both_sets_have_equal_weight():
    paper, other, both = biases(NoisyCoreference(1.0), "coref-occupation")
    assert both == pytest.approx((paper + other) / 2)
    assert paper != pytest.approx(other)


class Fills:
    """Fills depend on the sentence."""

    mask_token = "[MASK]"
    vocabulary = tuple("abcdef")

    def fill_scores(self, texts):
        return np.asarray([[noise(text[:12], w) + ("boy" in text) * (w == "a") for w in "abcdef"] for text in texts])


def test_fills_of_both_sets_are_the_mean_over_all_templates():
    values, templates = [], []
    for sets in ("paper", "paraphrases", "both"):
        measured = measure("disco-terms", Fills(), cache=None, templates=sets, repeats=1)
        values.append(measured.values["significant_fills"])
        templates.append({record["template"] for record in measured.records})
    assert values[2] == pytest.approx((values[0] + values[1]) / 2)
    assert templates[0].isdisjoint(templates[1]) and templates[2] == templates[0] | templates[1]


class Pairs:
    """Similarity from noise."""

    def pair_scores(self, firsts, seconds):
        return np.asarray([noise(*pair) for pair in zip(firsts, seconds, strict=True)])


def test_similarities_of_both_sets_are_averaged_for_each_profession(tmp_path):
    paper, other, both = (
        measure("sts-occupation", Pairs(), data=tmp_path, cache=None, templates=t)
        for t in ("paper", "paraphrases", "both")
    )
    assert both.n == paper.n + other.n
    assert both.items["difference"] == pytest.approx((paper.items["difference"] + other.items["difference"]) / 2)
    assert paper.signature["settings"]["templates"] == "auto"  # which is the same


def test_paraphrases_join_the_sentences_of_stsb(tmp_path):
    (tmp_path / "stsb").mkdir()
    rows = ["sentence1\tsentence2\tscore", "A man is jumping.\tA woman rides a bike.\t1.0"]
    (tmp_path / "stsb" / "dev.tsv").write_text("\n".join(rows) + "\n")
    measured = measure("sts-occupation", Pairs(), data=tmp_path, cache=None, templates="both")
    assert measured.n == (2 + 40 - 1) * 60 * 2  # "rides a bike" is in both


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
    path = own(tmp_path, NLI + OTHER_NLI)
    measured = measure(path, Labels(), cache=None, limit=3000, templates="both")
    by_template = [record for record in measured.records if record["slice"] == "template"]
    assert len(by_template) == 2 and sum(record["pairs"] for record in by_template) == 3000
    mean = sum(record["pairs"] * record["net_neutral"] for record in by_template) / 3000
    assert measured.value == pytest.approx(mean)
    assert by_template[0]["value"] == "Who {verb}? The {a}. / Who {verb}? The {b}."  # the less neutral one
    assert by_template[0]["net_neutral"] < by_template[1]["net_neutral"] - 0.1
    alone = measure(path, Labels(), cache=None, limit=100)
    assert not [record for record in alone.records if record["slice"] == "template"]


def test_item_sums_of_both_sets_name_every_template(tmp_path):
    cases = {
        "lm-occupation": (Writer(), "signed_bias", 14),
        "coref-occupation": (NoisyCoreference(1.0), "signed_bias", 40),
        "sts-occupation": (Pairs(), "slope", 80),
        own(tmp_path, NLI + OTHER_NLI): (Labels(), "net_neutral", 2),
    }
    for suite, (model, statistic, templates) in cases.items():
        measured = measure(
            suite, model, data=tmp_path, limit=4000 if "nli" in str(suite) else None, cache=None, templates="both"
        )
        sums = measured.item_sums(statistic)
        assert len(set(sums.templates.tolist())) == templates == sums.sums.shape[1], suite
        assert sums.total == pytest.approx(measured.values[statistic]), suite


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
    assert differences[0] == "setting: templates the default stored, paraphrases now"
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
