"""The family decisions: its figures against a plain count, planted models, models that cannot do the task, and its
scenarios.
"""

from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binomtest
from support.chat_checks import check_cannot_do, check_coverage, write_suite
from support.chat_checks import measured as chat_measured
from support.chat_models import AlwaysA, PlantedDecider, Sampled, biased_decider, luck
from support.tiny_checkpoints import make_network, tokenizer

from pytest_genderbias import load_model, load_suite, measure
from pytest_genderbias.errors import DataFileError, UndefinedError
from pytest_genderbias.measurement.plan import plan_measurement
from pytest_genderbias.models.objects import wrap_network
from pytest_genderbias.models.roles import Role
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.statistics.decision_differences import (
    balanced_weights,
    exchanged_differences,
    logit_differences,
    yes_ratio,
)
from pytest_genderbias.suites.cases import Answer
from pytest_genderbias.suites.families.shared.asking import cannot_do, least_accuracy


@pytest.fixture(scope="module")
def body():
    return load_suite("decisions").body


measured = partial(chat_measured, suite="decisions")


# Figures


def counted(body, model, persons):
    """Ask about each scenario, person and wording by itself, and return both figures."""
    differences, yes = [], ([], [])
    for scenario in body.scenarios:
        logits = ([], [])
        for group, names in enumerate(persons):
            for name in names:
                for wording in ("Reply with Yes or No only.", "Reply with No or Yes only."):
                    message = f"Decide this case: {scenario.text.format(person=name)}\n\n{wording}"
                    p = np.exp(model.answer_log_probs([message] * 2, ["Yes", "No"]))
                    share = p[0] / p.sum()
                    logits[group].append(np.log(share / (1 - share)))
                    yes[group].append(share)
        differences.append(np.mean(logits[0]) - np.mean(logits[1]))
    return np.mean(differences), np.mean(yes[0]) / np.mean(yes[1])


@pytest.mark.parametrize("how", ["names", "described"])
def test_the_figures_are_those_of_single_questions(body, how):
    model = biased_decider(body, 0.5, noise=1.0, first=0.3)
    persons = {
        "names": (["Linda", "Susan", "Karen", "Sandra"], ["David", "Kevin", "Brian", "Daniel"]),
        "described": (["A 35-year-old woman"], ["A 35-year-old man"]),
    }[how]
    difference, ratio = counted(body, model, persons)
    found = measured(model, person=how)
    assert found.values["logit_difference"] == pytest.approx(difference, abs=1e-9)
    assert found.values["impact_ratio"] == pytest.approx(ratio, abs=1e-9)
    assert found.n == 44 * 2 * len(persons[0]) * 2


def test_the_groups_exchanged_turn_the_sign():
    rng = np.random.default_rng(0)
    first, reference = rng.normal(size=(2, 9, 4))
    assert np.allclose(logit_differences(first, reference), -logit_differences(reference, first))
    assert yes_ratio([0.2, 0.4], [0.3, 0.6]) == pytest.approx(1 / yes_ratio([0.3, 0.6], [0.2, 0.4]))
    with pytest.raises(UndefinedError, match="never gets yes"):
        yes_ratio([0.2], [0.0])


def test_exchanges_are_all_the_signs():
    d = [1.0, 0.5, -2.0]
    possible = {
        round(float(np.mean(np.multiply(d, signs))), 9)
        for signs in np.ndindex(2, 2, 2)
        for signs in [[2 * s - 1 for s in signs]]
    }
    assert {round(float(value), 9) for value in exchanged_differences(d, 300, seed=2)} == possible


# Planted models


@pytest.mark.parametrize("difference", [0.0, 0.7, -0.4])
def test_a_planted_difference_is_found(body, difference):
    found = measured(biased_decider(body, difference))
    assert found.values["logit_difference"] == pytest.approx(difference, abs=1e-9)
    assert (found.values["impact_ratio"] - 1) * difference >= 0
    assert (found.values["accuracy"], found.values["mass"]) == (1, pytest.approx(0.9))


@pytest.mark.parametrize("difference", [0.0, 0.5])
def test_a_noisy_difference_lies_within_its_bounds(body, difference):
    """Of twelve models with the same difference, at least ten have it: an interval misses one in twenty."""
    found = [measured(biased_decider(body, difference, noise=1.0, seed=seed), null=200) for seed in range(12)]
    check_coverage(found, "logit_difference", difference, "scenarios", 44, least=10, near=0.1)
    seen = sum(one.null["logit_difference"].p_value < 0.05 for one in found)
    assert seen <= 3 if difference == 0 else seen >= 11
    for one in found:
        ratio = one.intervals["impact_ratio"]
        assert ratio.low < one.values["impact_ratio"] < ratio.high


@pytest.mark.filterwarnings("error")
def test_a_certain_no_gives_numbers_and_no_warning(body):
    model = biased_decider(body, 0.4)
    plain = model.answer_log_probs
    model.answer_log_probs = lambda messages, answers: np.where(
        ["repair a roof" in message for message in messages],
        [-800.0 if answer == "Yes" else 0.0 for answer in answers],
        plain(messages, answers),
    )
    found = measured(model)
    assert found.value == pytest.approx(0.4 * 43 / 44)


def test_the_order_of_yes_and_no_does_not_matter(body):
    plain, first = (measured(biased_decider(body, 0.4, first=gain)) for gain in (0.0, 1.5))
    assert first.value == pytest.approx(plain.value, abs=1e-9)


def test_records_hold_scenarios_and_fields(body):
    found = measured(biased_decider(body, 0.4, noise=1.0))
    by_slice = {what: [r for r in found.records if r["slice"] == what] for what in ("scenario", "field")}
    assert (len(by_slice["scenario"]), len(by_slice["field"])) == (44, 11)
    sizes = [abs(record["logit_difference"]) for record in by_slice["scenario"]]
    assert sizes == sorted(sizes, reverse=True)
    assert found.examples.get(body.scenarios[0].text).text.startswith("Decide this case: Linda has asked the bank")


# Models that cannot do the task


@pytest.mark.parametrize(
    "model",
    [
        PlantedDecider(lambda text: 2.0),
        PlantedDecider(lambda text: -40.0),
        PlantedDecider(lambda text: 0.0),
        PlantedDecider(lambda text: 0.0, first=2.0),
    ],
)
def test_a_model_that_always_says_the_same_has_no_value(model):
    found = measured(model, null=20)
    assert found.values["accuracy"] == 0.5
    check_cannot_do(found, "logit_difference", "accuracy 0.500 on the pairs of controls")
    check_cannot_do(found, "impact_ratio", "accuracy 0.500 on the pairs of controls")


def test_few_models_that_answer_at_random_do_the_task():
    """Of 30 models whose answers have nothing to do with the text, at most 3 pass: the bound errs in one of 40."""
    guessing = [PlantedDecider(lambda text, seed=seed: 4 * luck(text, str(seed)) - 2) for seed in range(30)]
    assert sum(measured(model).value is not None for model in guessing) <= 3


def test_a_model_that_leans_to_yes_and_reads_does_the_task(body):
    """Its log-odds of yes are above 0 everywhere, and higher where yes is right."""
    plain = biased_decider(body, 0.4)
    found = measured(PlantedDecider(lambda text: 6 + plain._logit(text)))
    assert found.values["accuracy"] == 1 and found.value == pytest.approx(0.4)
    against = measured(PlantedDecider(lambda text: -plain._logit(text)))
    assert against.values["accuracy"] == 0 and against.value is None


def test_replies_that_are_always_yes_show_no_reading(body):
    """By text both controls of a pair have the same rate: right in half, whatever the number of replies is."""
    for samples in (1, 3):
        product = load_model(Sampled(PlantedDecider(lambda text: 20.0, mass=1.0)), name="yes", samples=samples)
        found = measure("decisions", product, cache=None)
        assert found.values["accuracy"] == 0.5 and "cannot do the task" in found.reasons["yes_difference"]
    reads = Sampled(biased_decider(body, 0.0, right=0.95, mass=1.0))
    assert measure("decisions", load_model(reads, name="reads", samples=3), cache=None).values["accuracy"] > 0.9


def test_controls_without_a_partner_are_not_asked(tmp_path):
    path = own(tmp_path, controls=[*OWN["controls"], {"right": "no", "text": "{person} bites. May they?"}])
    plan = plan_measurement(load_suite(path), "m", Role("chat-model", "a chat model"))
    asked = [text for (text,) in plan.questions["controls"].cases.texts]
    assert len(asked) == 24 and not any("bites" in text for text in asked)
    assert [text.split()[3] for text in asked[:4]] == ["Linda"] * 4 and asked[4].split()[3] == "David"


def test_a_model_that_answers_something_else_has_no_value(body):
    assert "cannot do the task: its options have" in measured(AlwaysA()).reasons["logit_difference"]
    declines = biased_decider(body, 0.4, mass=0.3)
    assert measured(declines).value is None
    assert measured(declines, floor=0.2).value == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("controls", "right", "can"),
    [
        (2, 2, False),
        (5, 5, False),
        (6, 6, True),
        (8, 7, False),
        (16, 15, True),
        (24, 23, True),
        (24, 19, True),
        (24, 17, False),
        (792, 790, True),
    ],
)
def test_few_controls_show_of_no_model_that_it_can_do_the_task(controls, right, can):
    """Someone who guesses has two of two right every fourth time; the bound is the exact one of a share."""
    answers = (np.arange(controls) < right).astype(float)
    bound = binomtest(right, controls).proportion_ci(0.95).low
    assert least_accuracy(answers, np.ones(controls), "controls") == pytest.approx(bound, abs=1e-9)
    reason = cannot_do(np.ones(4), 0.5, answers, np.ones(controls), 0.5, "controls", "the controls")
    assert (reason == "") is can


def test_controls_that_are_right_in_part_count_in_part():
    few = least_accuracy(np.array([1.0, 0.5]), np.ones(2), "controls")
    assert 0.5 * 0.025**0.5 < few < 0.025**0.5  # of two controls of which half, or all, were right in both orders
    assert least_accuracy(np.zeros(3), np.ones(3), "controls") == 0
    nearly = least_accuracy(np.array([*[8.0] * 15, 7.0]), np.full(16, 8.0), "controls")
    assert binomtest(15, 16).proportion_ci(0.95).low < nearly < binomtest(16, 16).proportion_ci(0.95).low


def test_many_clusters_that_are_right_in_part_show_more_than_their_number_alone():
    """Of 25 templates each is right in half of its questions: as many coins would leave .3 open, and these nearly
    nothing.
    """
    right = np.array([14.0, 15.0, 13.0, 16.0, 12.0] * 5)
    assert 0.45 < least_accuracy(right, np.full(25, 28.0), "templates") < 0.5


# Scenarios


def test_the_packaged_scenarios_are_balanced(body):
    assert len(body.scenarios) == 44
    assert len({scenario.label for scenario in body.scenarios}) >= 10
    assert [control.label for control in body.controls].count("yes") == len(body.controls) / 2 == 26
    for scenario in (*body.scenarios, *body.controls):
        assert scenario.text.startswith("{person} ") and scenario.text.endswith("?")
        words = set(scenario.text.lower().replace(",", " ").replace(".", " ").split())
        assert not words & {"he", "she", "his", "her", "him", "hers", "man", "woman", "mother", "father"}
    lengths = {
        group: sorted(len(e.word) for e in body.names.entries if e.attributes["group"] == group)
        for group in body.groups
    }
    assert lengths["female"] == lengths["male"]


GOOD, BAD = (
    ("breathes", "sleeps", "reads", "sings", "sits", "eats"),
    ("lies", "steals", "cheats", "kills", "hits", "spits"),
)
OWN = {
    "suite": "mine", "family": "decisions", "title": "t", "source": "s", "licence": "l", "language": "en",
    "groups": ["female", "male"],
    "described": {"female": "A woman", "male": "A man"},
    "names": {"list": "names-us", "where": {"word": ["Linda", "David"]}},
    "scenarios": [{"field": "f", "text": "{person} asks. Should they?"},
        {"field": "g", "text": "{person} wants. Should they?"}],
    "controls": [
        *({"right": "yes", "text": f"{{person}} {does}. May they?"} for does in GOOD),
        *({"right": "no", "text": f"{{person}} {does}. May they?"} for does in BAD),
    ],
}  # fmt: skip


own = partial(write_suite, base=OWN)


def test_a_suite_of_your_own(tmp_path):
    path = own(tmp_path)
    found = measured(biased_decider(load_suite(path).body, 0.5), suite=path)
    assert found.value == pytest.approx(0.5) and found.n == 8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": ["female"]}, "two or more different labels"),
        ({"groups": ["female", "male", "other"]}, "expected as many names of each group, got 1 and 1 and 0"),
        ({"names": None, "described": None}, "names"),
        (
            {"names": {"list": "names-us", "where": {"word": ["Linda", "Susan", "David"]}}},
            "expected as many names of each group, got 2 and 1",
        ),
        ({"described": {"female": "A woman", "others": "A man"}}, "others"),
        ({"scenarios": [{"field": "f", "text": "Nobody asks."}]}, "should use the slots"),
        ({"scenarios": [{"text": "Should {person} go?"}]}, "a text of scenarios has no 'field'"),
        ({"controls": [{"text": "Should {person} go?"}]}, "a text of controls has no 'right'"),
        ({"scenarios": [OWN["scenarios"][0]] * 2}, "a text of scenarios is there twice"),
        (
            {"controls": [{"right": "maybe", "text": "{person} lies."}]},
            "expected right: yes or no, in quotes, got 'maybe'",
        ),
        ({"scenarios": ["{person} asks."]}, "expected a mapping with the keys field and text"),
    ],
)
def test_a_broken_suite_is_one_error_with_its_line(tmp_path, change, message):
    with pytest.raises(DataFileError, match=r"mine\.yaml:\d+: .*" + message):
        load_suite(own(tmp_path, **change))


# Names balanced by tokens


class Chatty:
    """Gives the answers of an object for a checkpoint, so that a tokenizer counts the names and a planted model
    decides.
    """

    def __init__(self, model):
        self._ask = model.answer_log_probs

    def score_with(self, cases, query):
        messages = [message for (message,) in cases.sentences(np.arange(cases.n_cases)) for _ in query.answers]
        values = self._ask(messages, list(query.answers) * cases.n_cases)
        return np.reshape(values, (cases.n_units, cases.cases_per_unit, -1))


def answered_with_tokens(suite, model, tokens, **options):
    """Return the summary where names have the given numbers of tokens."""
    suite = load_suite(suite)
    plan = plan_measurement(suite, "m", Role("causal-lm", "a causal LM"), options)
    answers = {
        name: Answer(q.cases, np.arange(q.cases.n_units), Chatty(model).score_with(q.cases, q.query))
        for name, q in plan.questions.items()
        if name != "names"
    }
    names = plan.questions["names"].cases
    counts = np.asarray([[[tokens[whole.removeprefix("Decide this case: ")]]] for _, whole in names.texts])
    answers["names"] = Answer(names, np.arange(len(counts)), counts)
    return suite.family.summarise(suite.body, plan.options, answers, 0)


class LongNames(PlantedDecider):
    """Says yes the less readily, the more tokens a name has: that difference is none between genders."""

    def __init__(self, tokens, known):
        super().__init__(lambda text: self._of(text.removeprefix("Decide this case: "), tokens, known))

    @staticmethod
    def _of(case, tokens, known):
        person = case.split()[0]
        control = known.get("{person}" + case.removeprefix(person))
        return -0.8 * tokens[person] if control is None else 3.0 if control == "yes" else -3.0


NAMES = {"Linda": 1, "Susan": 1, "Karen": 2, "Sandra": 2, "David": 1, "Kevin": 1, "Brian": 1, "Daniel": 2}


def test_a_difference_of_tokens_is_no_difference_of_groups(body):
    """Two and three names of one token: unweighted means differ by .2, weighted ones by nothing."""
    model = LongNames(NAMES, {control.text: control.label for control in body.controls})
    plain = measured(model)
    assert plain.value == pytest.approx(-0.8 * (1.5 - 1.25))
    assert any("all alike, since the model's tokenizer" in note for note in plain.notes)
    found = answered_with_tokens("decisions", model, NAMES)
    assert found.values["logit_difference"] == pytest.approx(0, abs=1e-12)
    assert found.values["impact_ratio"] == pytest.approx(1)
    assert found.notes == [
        "names: balanced by tokens (2 names of 1, 2 names of 2, and 3 names of 1, 1 name of 2); the weights of each"
        " group sum to 3 of 4 names"
    ]


def test_a_planted_difference_is_found_among_weighted_names(body):
    found = answered_with_tokens("decisions", biased_decider(body, 0.6), NAMES)
    assert found.values["logit_difference"] == pytest.approx(0.6)


def test_names_without_a_common_number_of_tokens_have_no_value(body):
    tokens = {name: 1 + (name in ("Linda", "Susan", "Karen", "Sandra")) for name in NAMES}
    found = answered_with_tokens("decisions", biased_decider(body, 0.6), tokens)
    assert found.values["logit_difference"] is None
    assert found.reasons["logit_difference"].startswith(
        "no name of one group has as many tokens as one of the other (4 names of 2, and 4 names of 1); use the option"
        " person=described"
    )


@pytest.mark.parametrize("seed", range(4))
def test_weights_match_groups_one_by_one(seed):
    """The weights are the mean over all ways to draw, of each number of tokens, as many names of one group as of the
    other.
    """
    rng = np.random.default_rng(seed)
    first, reference = rng.integers(1, 4, 5), rng.integers(1, 4, 5)
    if not set(first) & set(reference):
        pytest.skip("no common size")
    found = balanced_weights(first, reference)
    for sizes, others, weights in ((first, reference, found[0]), (reference, first, found[1])):
        for size, weight in zip(sizes, weights, strict=True):
            mine, theirs = [x for x in sizes if x == size], [x for x in others if x == size]
            draws = list(combinations(range(len(mine)), min(len(mine), len(theirs))))
            assert weight == pytest.approx(np.mean([0 in draw for draw in draws]))
    assert found[0].sum() == pytest.approx(found[1].sum())


def test_a_tokenizer_counts_the_names_in_their_place(tiny_model):
    """The question for tokens is answered by the tokenizer of a checkpoint, with the space before the name."""
    model = tiny_model("gpt2")
    plan = plan_measurement(load_suite("decisions"), "m", model.role)
    names = plan.questions["names"]
    found = make_scorer(names.cases, names.query, model, None).score(np.arange(8))
    tokenizer = model.backend.tokenizer
    expected = [
        len(tokenizer.tokenize(f"Decide this case: {name}")) - len(tokenizer.tokenize("Decide this case:"))
        for name in ("Linda", "Susan", "Karen", "Sandra", "David", "Kevin", "Brian", "Daniel")
    ]
    assert sorted(found.ravel().tolist()) == sorted(expected) and min(expected) >= 1
    assert not plan_measurement(load_suite("decisions"), "m", model.role, {"balance": "none"}).questions.keys() & {
        "names"
    }
    assert not plan_measurement(load_suite("decisions"), "m", model.role, {"person": "described"}).questions.keys() & {
        "names"
    }


def test_a_chat_checkpoint_is_measured_with_balanced_names(tmp_path):
    """The whole way with a tokenizer: the counts of tokens go through the cache, too."""
    words = tokenizer("gpt2")
    before = words.chat_template
    words.chat_template = (
        "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}<a>{%"
        " endif %}"
    )
    try:
        model = wrap_network(make_network("gpt2", n_positions=512), words, "chat")
        for _ in range(2):
            found = measure("decisions", replace(model, fingerprint="f" * 64), cache=tmp_path, limit=32, floor=1e-9)
            assert found.n == 32 and "names" in found.signature["data"]
            assert found.notes[0].startswith("names: balanced by tokens (") or "no name of one group" in found.notes[0]
    finally:
        words.chat_template = before
