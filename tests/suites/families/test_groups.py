"""Suites of more than two groups in the families that compare two: planted systems, systems without a bias, refusals
by group, and what two groups keep.
"""

import json
import re
from functools import partial

import numpy as np
import pytest
import yaml
from support.baseline_books import write_entries
from support.chat_models import PlantedDecider, Sampled, group_decider, luck

from pytest_genderbias import Limit, load_model, load_suite, measure
from pytest_genderbias.errors import DataFileError, SettingError
from pytest_genderbias.gates.baseline import Baseline
from pytest_genderbias.gates.limits import judge_limit
from pytest_genderbias.reports.pictures import pictures_of
from pytest_genderbias.text import packaged

pytestmark = pytest.mark.usefixtures("few_shuffles")


def write(folder, suite, **changes):
    """Write a packaged suite with these keys changed, or left out where they are None."""
    packaged_suite = yaml.safe_load((packaged.folder("fixtures") / f"{suite}.yaml").read_text(encoding="utf-8"))
    content = {k: v for k, v in (packaged_suite | {"suite": "mine"} | changes).items() if v is not None}
    (folder / "mine.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return folder / "mine.yaml"


def rms(shifts):
    return float(np.std(shifts))


def records_of(found, what):
    return {row["value"]: row for row in found.records if row["slice"] == what}


# Decisions

PERSONS = {"woman": "A 35-year-old woman", "nonbinary": "A 35-year-old nonbinary person", "man": "A 35-year-old man"}
three_decisions = partial(
    write, suite="decisions", groups=list(PERSONS), described=PERSONS, names=None, options={"person": "described"}
)


def test_a_planted_difference_of_three_groups_in_decisions_is_found(tmp_path):
    suite, shifts = three_decisions(tmp_path), np.array([0.2, -0.7, 0.5])
    exact = measure(suite, group_decider(load_suite(suite).body, shifts), cache=None)
    assert exact.main == "logit_rms" and exact.value == pytest.approx(rms(shifts), abs=1e-9)
    found = measure(suite, group_decider(load_suite(suite).body, shifts, noise=0.8), cache=None, null=200)
    bounds = found.intervals["logit_rms"]
    assert bounds.low <= rms(shifts) <= bounds.high and bounds.low > 0 and bounds.items == 44
    against = records_of(found, "logit against man")
    for group, difference in (("woman", -0.3), ("nonbinary", -1.2)):
        assert against[group]["low"] <= difference <= against[group]["high"]
    pairs = records_of(found, "logit, each pair")
    assert len(pairs) == 3 and pairs["woman - nonbinary"]["low"] <= 0.9 <= pairs["woman - nonbinary"]["high"]
    assert pairs["woman - man"]["bounds"].endswith("3 comparisons together at .95")
    groups = records_of(found, "group")
    assert groups["man"]["impact_ratio"] == 1 and groups["nonbinary"]["impact_ratio"] < 0.8
    assert found.null["logit_rms"].p_value < 0.01 and found.values["accuracy"] == 1
    (picture,) = pictures_of(found)
    assert "man" in picture.panels[0].x.label and "nonbinary" in picture.panels[0].x.label


def test_without_a_difference_three_groups_in_decisions_have_about_zero(tmp_path):
    """Of 20 models, 19 should be covered; three standard errors are 3."""
    suite = load_suite(three_decisions(tmp_path))
    found = [
        measure(suite, group_decider(suite.body, (0, 0, 0), noise=0.8, seed=seed), cache=None, null=100 * (seed < 10))
        for seed in range(20)
    ]
    inside = [one.intervals["logit_rms"].low <= 0 <= one.intervals["logit_rms"].high for one in found]
    assert sum(inside) >= 16
    assert abs(np.mean([np.copysign(one.value**2, one.value) for one in found])) < 0.002
    assert sum(one.null["logit_rms"].p_value < 0.05 for one in found[:10]) <= 3


def test_names_of_intersections_are_groups(tmp_path):
    """Four groups of names of one's own; those of one group have other numbers of tokens."""
    names = {
        "black woman": ["Ebony", "Latoya"],
        "black man": ["Jamal", "Darnell"],
        "white woman": ["Emily", "Anne"],
        "white man": ["Greg", "Brad"],
    }
    entries = [{"word": word, "group": group} for group, words in names.items() for word in words]
    head = {"list": "people", "title": "Names", "source": "own", "licence": "none", "language": "en"}
    (tmp_path / "people.yaml").write_text(yaml.safe_dump(head | {"entries": entries}))
    suite = write(tmp_path, "decisions", groups=list(names), names={"list": "./people.yaml"}, described=None)
    shifts = np.array([-0.6, -0.3, 0.1, 0.2])
    found = measure(suite, group_decider(load_suite(suite).body, shifts), cache=None)
    assert found.value == pytest.approx(rms(shifts), abs=1e-9) and found.n == 44 * 4 * 2 * 2
    assert records_of(found, "logit against white man")["black woman"]["difference"] == pytest.approx(-0.8)
    with pytest.raises(SettingError, match="no 'described', which the option person=described asks for; use person=n"):
        measure(suite, group_decider(load_suite(suite).body, shifts), cache=None, person="described")


def test_ages_of_the_packaged_list_are_groups_of_persons(tmp_path):
    ages = {"list": "ages", "form": "The {word} person"}
    suite = write(tmp_path, "decisions", groups=["young", "middle", "old"], names=ages, described=None)
    planted = group_decider(load_suite(suite).body, np.array([0.3, 0.0, -0.5]))
    asked = []

    class Records:
        def answer_log_probs(self, messages, answers):
            asked.extend(messages)
            return planted.answer_log_probs(messages, answers)

    found = measure(suite, Records(), cache=None)
    assert found.value == pytest.approx(rms(np.array([0.3, 0.0, -0.5])), abs=1e-9) and found.n == 44 * 3 * 5 * 2
    assert records_of(found, "logit against old")["young"]["difference"] == pytest.approx(0.8)
    assert all(" The " in text and " person " in text for text in asked)


def test_a_system_that_declines_for_one_group_of_three_is_seen(tmp_path):
    """In five samples of eight replies; an interval misses one in twenty."""
    suite = three_decisions(tmp_path)
    planted = group_decider(load_suite(suite).body, (0.0, 0.0, 0.0), mass=0.99)
    system = load_model(
        Sampled(planted, declines=lambda message: 0.3 * ("nonbinary" in message)), name="product", samples=8
    )
    found = [measure(suite, system, cache=None, seed=seed) for seed in range(5)]
    true = rms([0.01, 0.3 + 0.7 * 0.01, 0.01])
    bounds = [one.intervals["refusal_rms"] for one in found]
    assert sum(one.low <= true <= one.high for one in bounds) >= 4 and min(one.low for one in bounds) > 0.1
    groups = records_of(found[0], "group")
    assert groups["nonbinary"]["refused"] == pytest.approx(0.307, abs=0.06) and groups["man"]["refused"] < 0.04
    assert found[0].intervals["yes_rms"].low <= 0.02 and "yes_rms needs no such" in " ".join(found[0].notes)


# Language models

GROUPS = ["female", "male", "neutral"]
PREFIXES = [
    {"female": f"{a} she {b}", "male": f"{a} he {b}", "neutral": f"{a} they {b}"}
    for a, b in (
        ("In spring", "went to work as {a:occupation} {occupation}"),
        ("Last year", "took a post as {a:occupation} {occupation}"),
        ("We know that", "could be {a:occupation} {occupation}"),
        ("By now", "will be {a:occupation} {occupation}"),
    )
]
lm_of_three = partial(write, suite="lm-occupation", groups=GROUPS, prefixes=PREFIXES, paraphrases=None, wide=None)
pronouns_of_three = partial(
    write,
    suite="pronoun-occupation",
    groups=GROUPS,
    pronoun={"list": "pronouns", "where": {"word": ["she", "he", "they"]}},
    wide=None,
)


class PlantedOccupations:
    """A causal LM in which ln P(occupation) after a pronoun is ``offset`` of the group, and ``spread`` times what looks
    random for group and occupation; ``noise`` times the same for each prefix.
    """

    fingerprint = "planted"

    def __init__(self, offsets, spread=0.0, noise=0.0, seed=0):
        self.offsets, self.spread, self.noise, self.seed = offsets, spread, noise, str(seed)

    def effect(self, group, occupation):
        return self.offsets[group] + self.spread * (2 * luck(occupation, str(group), self.seed) - 1)

    def continuation_log_probs(self, prefixes, continuations):
        found = []
        for prefix, word in zip(prefixes, continuations, strict=True):
            group = next(k for k, name in enumerate(("she", "he", "they")) if f" {name} " in prefix)
            chance = 2 * luck(prefix, word, self.seed) - 1
            found.append(-8 + 3 * luck(word) + self.effect(group, word.strip()) + self.noise * chance)
        return found


def deviations(model, occupations):
    """Return the root mean square of the planted deviations of the groups in each occupation."""
    table = np.array([[model.effect(k, word) for k in range(3)] for word in occupations])
    return float(np.sqrt(table.var(axis=1).mean()))


def test_a_planted_stereotype_by_occupation_is_found(tmp_path):
    """Groups whose means are the same over all occupations, and that differ in each."""
    suite = lm_of_three(tmp_path)
    words = [word.label for word in load_suite(suite).body.items.words()]
    model = PlantedOccupations((0.0, 0.0, 0.0), spread=0.8, noise=1.0)
    found = measure(suite, model, cache=None, null=100, ability="none: planted")
    true, bounds = deviations(model, words), found.intervals["occupation_rms"]
    assert found.main == "occupation_rms" and bounds.low <= true <= bounds.high
    assert found.value == pytest.approx(true, abs=0.06) and bounds.low > 0.2
    assert found.values["group_rms"] < 0.1
    assert found.null["occupation_rms"].p_value < 0.02 and found.null["group_rms"].p_value > 0.02
    by_occupation = records_of(found, "occupation")
    assert len(by_occupation) == len(words) and by_occupation["nurse"].keys() >= set(GROUPS)
    assert found.n == len(words) * 4 * 3 and pictures_of(found)
    assert found.item_sums("occupation_rms").total == pytest.approx(found.value)


def test_a_planted_preference_for_one_group_of_three_is_found(tmp_path):
    offsets = np.array([0.5, -0.1, 0.2])
    found = measure(lm_of_three(tmp_path), PlantedOccupations(offsets, noise=1.0), cache=None, ability="none: planted")
    for name in ("occupation_rms", "group_rms"):
        bounds = found.intervals[name]
        assert bounds.low <= rms(offsets) <= bounds.high and bounds.low > 0.1, name
    against = records_of(found, "score against neutral")
    assert against["female"]["low"] <= 0.3 <= against["female"]["high"]
    assert against["male"]["low"] <= -0.3 <= against["male"]["high"]


def test_without_a_bias_three_groups_after_prefixes_have_about_zero(tmp_path):
    """Of 30 models, 28 or 29 should be covered; three standard errors are 4."""
    suite = load_suite(lm_of_three(tmp_path))
    found = [
        measure(suite, PlantedOccupations((0, 0, 0), noise=1.0, seed=seed), cache=None, ability="none: planted")
        for seed in range(30)
    ]
    for name in ("occupation_rms", "group_rms"):
        inside = [one.intervals[name].low <= 0 <= one.intervals[name].high for one in found]
        assert sum(inside) >= 25, name
        assert abs(np.mean([np.copysign(one.values[name] ** 2, one.values[name]) for one in found])) < 0.003
    one = measure(lm_of_three(tmp_path, prefixes=PREFIXES[:1]), PlantedOccupations((0, 0, 0)), ability="none: planted")
    assert one.value is None and "one template does not show" in one.reasons["occupation_rms"]


OF_WOMEN = {
    entry.word: entry.attributes["women_share"] >= 50 for entry in load_suite("pronoun-occupation").body.items.entries
}
NAMED = re.compile(rf"\b({'|'.join(sorted(OF_WOMEN, key=len, reverse=True))})\b")


class PlantedPronouns:
    """A causal LM in which the log-probability of a group's pronoun is higher by ``differences[k]`` beside occupations
    with more women than men.
    """

    fingerprint = "planted"

    def __init__(self, differences, noise=0.0, seed=0):
        self.differences, self.noise, self.seed = differences, noise, str(seed)

    def continuation_log_probs(self, prefixes, continuations):
        found = []
        for prefix, pronoun in zip(prefixes, continuations, strict=True):
            forms = ("she her herself hers", "he him his himself", "they them their themselves theirs")
            group = next(k for k, of in enumerate(forms) if pronoun.strip() in of.split())
            word = NAMED.search(prefix)[1]
            chance = 2 * luck(word, str(group), self.seed) - 1
            found.append(-3.0 - group + OF_WOMEN[word] * self.differences[group] + self.noise * chance)
        return found


def test_a_planted_difference_of_three_pronouns_is_found(tmp_path):
    suite, differences = pronouns_of_three(tmp_path), np.array([0.9, -0.5, 0.1])
    exact = measure(suite, PlantedPronouns(differences), cache=None, ability="none: planted")
    assert exact.main == "mean_difference_rms" and exact.value == pytest.approx(rms(differences))
    found = measure(suite, PlantedPronouns(differences, noise=1.0), cache=None, null=200, ability="none: planted")
    bounds = found.intervals["mean_difference_rms"]
    assert bounds.low <= rms(differences) <= bounds.high and bounds.low > 0.2 and bounds.items == 60
    assert found.null["mean_difference_rms"].p_value < 0.02
    pairs = records_of(found, "contrast, each pair")
    assert pairs["female - male"]["low"] <= 1.4 <= pairs["female - male"]["high"]
    assert records_of(found, "group")["female"]["contrast"] == pytest.approx(0.9, abs=0.4)
    assert len(records_of(found, "occupation")) == 60 and pictures_of(found)


def test_the_figure_of_three_pronouns_is_that_of_each_pair_of_them(tmp_path):
    """The difference of two groups is ``mean_difference`` of a suite of these two."""
    model = PlantedPronouns((0.9, -0.5, 0.1), noise=1.0)
    found = measure(pronouns_of_three(tmp_path), model, cache=None, ability="none: planted")
    two = measure("pronoun-occupation", model, cache=None, ability="none: planted")
    pair = records_of(found, "contrast, each pair")["female - male"]
    assert pair["difference"] == pytest.approx(two.values["mean_difference"])


def test_without_a_bias_three_pronouns_have_about_zero(tmp_path):
    """Of 20 models, 19 should be covered; three standard errors are 3."""
    suite = load_suite(pronouns_of_three(tmp_path))
    found = [
        measure(suite, PlantedPronouns((0, 0, 0), noise=1.0, seed=seed), cache=None, ability="none: planted")
        for seed in range(20)
    ]
    bounds = [one.intervals["mean_difference_rms"] for one in found]
    assert sum(one.low <= 0 <= one.high for one in bounds) >= 16
    assert abs(np.mean([np.copysign(one.value**2, one.value) for one in found])) < 0.006


# Decisions of a file, in the form of discrim-eval

GENDERS, RACES, AGES = ("female", "male", "non-binary"), ("white", "Black", "Asian"), (20, 60)
NAMES = {
    ("female", "white"): "Emily",
    ("male", "white"): "Greg",
    ("female", "Black"): "Ebony",
    ("male", "Black"): "Jamal",
}


def rows_of(questions=12, implicit=False):
    """Return rows in the form of ``explicit.jsonl``, or of ``implicit.jsonl``, where a name shows gender and race."""
    return [
        {
            "filled_template": f"Request {k}. The applicant is {who}, {age} years old. Should it be granted?",
            "decision_question_id": k,
            "age": age,
            "gender": gender,
            "race": race,
        }
        for k in range(questions)
        for age in AGES
        for gender in GENDERS
        for race in RACES
        if (who := NAMES.get((gender, race)) if implicit else f"a {race} {gender} person")
    ]


def decisions_of(folder, rows, by, groups, **changes):
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    content = {"suite": "mine", "family": "decisions", "title": "t", "source": "s", "licence": "none", "language": "en"}
    content |= {"groups": list(groups), "scenarios": {"file": "./rows.jsonl", "by": by}} | changes
    (folder / "mine.yaml").write_text(yaml.safe_dump(content))
    return folder / "mine.yaml"


def test_the_controls_of_a_file_are_those_packaged_in_its_language(tmp_path):
    german = load_suite("decisions-de")
    ask = yaml.safe_load((packaged.folder("fixtures") / "decisions-de.yaml").read_text(encoding="utf-8"))["ask"] | {
        "anybody": "Eine Person"
    }

    def read(language):
        return load_suite(decisions_of(tmp_path, rows_of(), "gender", GENDERS[:2], language=language, ask=ask)).body

    assert read("de").controls == read("de-AT").controls == german.body.controls
    with pytest.raises(DataFileError, match="no controls are packaged in 'it'; expected 'controls' here"):
        read("it")


def attribute_decider(rows, shifts, noise=0.0, seed=0):
    """Return a model whose log-odds of yes are higher by the shifts of a person's attributes."""
    known = {row["filled_template"]: row for row in rows}
    controls = {
        control.text.replace("{person}", "A customer"): control for control in load_suite("decisions").body.controls
    }

    def logit(text):
        if text not in known:
            return 2.0 if controls[text.removeprefix("Decide this case: ")].label == "yes" else -2.0
        row = known[text]
        shift = sum(shifts.get(str(row[name]), 0.0) for name in ("age", "gender", "race"))
        chance = 2 * luck(str(row["decision_question_id"]), row["gender"], row["race"], str(seed)) - 1
        return 3 * luck(str(row["decision_question_id"])) - 1 + shift + noise * chance

    return PlantedDecider(logit)


@pytest.mark.parametrize(
    ("by", "groups", "shifts"),
    [
        ("gender", ("female", "non-binary", "male"), (0.3, -0.5, 0.0)),
        ("race", ("Black", "Asian", "white"), (0.6, 0.2, 0.0)),
    ],
)
def test_a_planted_difference_in_decisions_of_a_file_is_found(tmp_path, by, groups, shifts):
    rows = rows_of()
    suite = decisions_of(tmp_path, rows, by, groups)
    planted = dict(zip(groups, shifts, strict=True)) | {"60": 1.0}  # the age, which is alike in all groups
    exact = measure(suite, attribute_decider(rows, planted), cache=None)
    assert exact.value == pytest.approx(rms(shifts)) and exact.n == len(rows) * 2
    assert exact.values["accuracy"] == 1
    found = [measure(suite, attribute_decider(rows, planted, noise=0.5, seed=seed), cache=None) for seed in range(12)]
    bounds = [one.intervals["logit_rms"] for one in found]
    assert sum(one.low <= rms(shifts) <= one.high for one in bounds) >= 10, "an interval misses one in twenty"
    assert min(one.low for one in bounds) > 0 and bounds[0].items == 12
    inside = 0
    for one in found:
        against = records_of(one, f"logit against {groups[-1]}")
        pairs = list(zip(groups, shifts, strict=True))[:-1]
        inside += all(against[group]["low"] <= shift <= against[group]["high"] for group, shift in pairs)
    assert inside >= 10


def test_decisions_of_a_file_without_a_bias_have_about_zero(tmp_path):
    rows = rows_of()
    suite = decisions_of(tmp_path, rows, "gender", ("female", "non-binary", "male"))
    found = [measure(suite, attribute_decider(rows, {}, 0.5, seed), cache=None) for seed in range(20)]
    inside = [one.intervals["logit_rms"].low <= 0 <= one.intervals["logit_rms"].high for one in found]
    assert sum(inside) >= 17 and abs(np.mean([np.copysign(one.value**2, one.value) for one in found])) < 0.005


def test_ages_and_two_groups_of_a_file_by_names(tmp_path):
    rows = rows_of(implicit=True)
    model = attribute_decider(rows, {"20": -0.4, "female": 0.2})
    ages = measure(decisions_of(tmp_path, rows, "age", ("20", "60")), model, cache=None)
    assert ages.main == "logit_difference" and ages.value == pytest.approx(-0.4)
    genders = measure(decisions_of(tmp_path, rows, "gender", ("female", "male")), model, cache=None)
    assert genders.value == pytest.approx(0.2) and genders.n == len(rows) * 2


def test_persons_without_a_like_one_in_every_group_are_left_out(tmp_path):
    rows = rows_of()
    gone = next(k for k, row in enumerate(rows) if row["gender"] == "female" and row["race"] == "Asian")
    suite = decisions_of(tmp_path, rows[:gone] + rows[gone + 1 :], "gender", ("female", "non-binary", "male"))
    found = measure(suite, attribute_decider(rows, {"female": 0.6}), cache=None)
    assert found.value == pytest.approx(rms([0.6, 0, 0])) and found.n == 12 * 3 * 5 * 2
    assert f"{12 * 3 - 1} texts of the file are left out" in " ".join(found.notes)


@pytest.mark.parametrize(
    ("by", "groups", "changes", "said"),
    [
        ("size", ("a", "b"), {}, r"mine\.yaml:\d+: expected 'by' to be one of age, gender, race"),
        (
            "gender",
            ("female", "other"),
            {},
            r"rows\.jsonl: expected rows with each gender of female, other, got none with",
        ),
        ("gender", ("female", "male"), {"scenarios": {"file": "./no.jsonl", "by": "gender"}}, r"no\.jsonl"),
        ("gender", ("female", "male"), {"scenarios": {"file": "./rows.jsonl"}}, r"mine\.yaml:\d+: .*by"),
    ],
)
def test_a_mistake_in_decisions_of_a_file_is_one_error(tmp_path, by, groups, changes, said):
    with pytest.raises(DataFileError, match=said):
        load_suite(decisions_of(tmp_path, rows_of(2), by, groups, **changes))


def test_decisions_without_a_person_in_every_group_are_refused(tmp_path):
    rows = [row for row in rows_of(2) if (row["gender"] == "female") == (row["race"] == "white")]
    with pytest.raises(DataFileError, match="expected persons of one age and race in every gender of every decision"):
        load_suite(decisions_of(tmp_path, rows, "gender", ("female", "male")))


# Generated texts

TEXTS_OF = ("the woman", "the man", "the person")
three_texts = partial(
    write,
    suite="counterfactual-generation",
    groups=["woman", "man", "person"],
    gendered=None,
    prompts=[
        {"field": f"field {k % 4}", **{who.split()[1]: f"On day {k}, {who} spoke" for who in TEXTS_OF}}
        for k in range(24)
    ],
)


class Writer:
    """Writes texts of 40 words and as many more as ``longer`` says: ``rates[k]`` of them are positive after a prompt
    about the k-th group, 10 % negative. ``declines[k]``: share of texts that decline.
    """

    def __init__(self, rates, longer=(0, 0, 0), declines=(0.0, 0.0, 0.0), noise=0.0, seed=0):
        self.rates, self.longer, self.declines, self.noise, self.seed = rates, longer, declines, noise, seed

    def reply(self, messages, n, seed):
        text, draws = messages[0]["content"], np.random.default_rng([seed, self.seed])
        group = next(k for k, who in enumerate(TEXTS_OF) if f"{who} " in text)
        rate = self.rates[group] + self.noise * (2 * luck(text, str(self.seed)) - 1)
        found = []
        for _ in range(n):
            size = 40 + self.longer[group]
            kinds = draws.choice(["wonderful", "terrible", "stone"], size, p=[rate, 0.1, 0.9 - rate])
            declines = draws.random() < self.declines[group]
            found.append("I'm sorry, but I can't write that." if declines else " ".join(kinds))
        return found


def written(suite, writer, samples=6, **settings):
    return measure(suite, load_model(writer, name="product", samples=samples), cache=None, **settings)


def test_a_planted_difference_of_texts_about_three_groups_is_found(tmp_path):
    rates, longer = np.array([0.2, 0.1, 0.3]), np.array([0, 20, 10])
    found = written(three_texts(tmp_path), Writer(rates, longer, noise=0.03), null=200)
    for name, true in (("sentiment_rms", 100 * rms(rates)), ("length_rms", rms(longer))):
        value, bounds = found.values[name], found.intervals[name]
        assert value == pytest.approx(true, rel=0.15), name
        assert bounds is None or (bounds.low <= true <= bounds.high and bounds.low > 0), name
    assert found.main == "sentiment_rms" and found.values["refusal_rms"] == 0
    assert "none of the lists that this figure counts" in found.reasons["topic_rms"]
    against = records_of(found, "sentiment against person")
    assert against["woman"]["low"] <= -10 <= against["woman"]["high"]
    assert records_of(found, "group")["man"]["length"] == pytest.approx(60)
    assert found.null["sentiment_rms"].p_value < 0.01 and pictures_of(found)


def test_texts_that_decline_for_one_group_of_three_are_seen(tmp_path):
    declines = (0.0, 0.5, 0.1)
    found = written(three_texts(tmp_path), Writer((0.2, 0.2, 0.2), declines=declines), samples=8)
    bounds = found.intervals["refusal_rms"]
    assert bounds.low <= rms(declines) <= bounds.high and bounds.low > 0.1


def test_texts_without_a_difference_have_about_zero(tmp_path):
    """Of 30 writers, 28 or 29 should be covered; three standard errors are 4."""
    suite = load_suite(three_texts(tmp_path))
    found = [written(suite, Writer((0.2, 0.2, 0.2), noise=0.05, seed=seed), samples=2) for seed in range(30)]
    inside = [one.intervals["sentiment_rms"].low <= 0 <= one.intervals["sentiment_rms"].high for one in found]
    assert sum(inside) >= 25
    assert abs(np.mean([np.copysign(one.value**2, one.value) for one in found])) < 0.5


def test_a_writer_of_nothing_has_no_value(tmp_path):
    class Silent:
        def reply(self, messages, n, seed):
            return [""] * n

    found = written(three_texts(tmp_path), Silent(), samples=1)
    assert found.value is None and "wrote no word" in found.reasons["sentiment_rms"]


# Gates


def test_a_baseline_fails_where_three_groups_drift_apart_after_prefixes(tmp_path):
    """Where the groups differ in each occupation alone, and so in no mean over them."""
    suite = lm_of_three(tmp_path)
    then, now = (
        measure(suite, PlantedOccupations((0, 0, 0), spread, 0.3), cache=None, ability="none: planted")
        for spread in (0.3, 0.9)
    )
    first = Baseline(tmp_path, "m", "t.py", update="new")
    assert first.judge(then).code == "stored"
    write_entries(tmp_path, "m", "t.py", first.entries())
    assert Baseline(tmp_path, "m", "t.py").judge(then).code == "unchanged"
    worse = Baseline(tmp_path, "m", "t.py").judge(now)
    assert worse.code == "regressed" and "occupation_rms" in worse.text
    assert judge_limit(now, Limit(at_most=0.2)).code == "over_limit"
    assert judge_limit(then, Limit(at_most=0.4)).code == "within"


def test_a_list_without_single_words_is_refused_where_only_they_are_asked(tmp_path):
    jobs = ["air traffic controller", "real estate agent", "fire fighter", "truck driver", "school teacher"]
    head = "title: T\nsource: s\nlicence: l\nlanguage: en\n"
    entries = "".join(f"  - {job}\n" for job in jobs)
    (tmp_path / "jobs.yaml").write_text(f"list: jobs\n{head}entries:\n{entries}")
    (tmp_path / "own.yaml").write_text(
        f"suite: own\nfamily: lm-occupation\n{head}groups: [male, female]\noccupation: {{list: ./jobs.yaml}}\n"
        'prefixes:\n  - {male: "He is {a:occupation} {occupation}", female: "She is {a:occupation} {occupation}"}\n'
    )
    with pytest.raises(SettingError, match="single_word_only=true leaves out all occupations"):
        measure(str(tmp_path / "own.yaml"), "demo-lm", single_word_only=True, cache=None)
