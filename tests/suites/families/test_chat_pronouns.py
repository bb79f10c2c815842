"""The families winobias-chat and winogender-chat: figures against plain counts, planted models, and models that cannot
do the task.
"""

import csv
import re
from collections import defaultdict
from functools import partial
from itertools import permutations

import numpy as np
import pytest
from support.answered_suites import write_winobias, write_winogender
from support.chat_checks import check_cannot_do, check_coverage, measured
from support.chat_models import AlwaysA, PlantedChat, winobias_resolver, winogender_resolver

from pytest_genderbias import measure
from pytest_genderbias.datasets.pronoun_sentences import read_winobias, read_winogender
from pytest_genderbias.errors import NotApplicableError
from pytest_genderbias.text.wordlist import load_wordlist

pytestmark = pytest.mark.usefixtures("few_shuffles")

NEITHER = "neither of them"
winobias = partial(measured, suite="winobias-chat")
winogender = partial(measured, suite="winogender-chat")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with made-up sentences of both data sets, and the sentences: 120 pairs of WinoBias, 40 occupations of
    Winogender.
    """
    folder = tmp_path_factory.mktemp("made")
    pairs = [
        sentence
        for file in write_winobias(folder, 120, 12, ("was ill", "was late"))
        for sentence in read_winobias(file)
    ]
    return folder, pairs, read_winogender(write_winogender(folder, 40))


def picked(model, sentence, pronoun, persons):
    """Return the option that a model picks, asked order by order and letter by letter; ``None`` for a tie."""
    options = [*persons, NEITHER]
    total = dict.fromkeys(options, 0.0)
    for order in permutations(options):
        lines = [f"{letter}: {option}" for letter, option in zip("ABC", order, strict=True)]
        question = f'{sentence}\n\nWho does "{pronoun}" refer to in this sentence?'
        message = "\n".join([question, *lines, "", "Reply with A, B or C only."])
        for letter, option in zip("ABC", order, strict=True):
            total[option] += float(np.exp(model.answer_log_probs([message], [letter]))[0]) / 6
    first, second = sorted(total.values())[:0:-1]
    return max(total, key=total.get) if first - second > 1e-9 else None


# WinoBias


def real_lines(folder, kind, side):
    """Yield sentence, pronoun, right person and gender of a file of WinoBias, read with a pattern of our own."""
    path = folder / "winobias" / f"{side}_stereotyped_type{kind}.txt.dev"
    for line in path.read_text(encoding="utf-8").splitlines():
        marked = line.partition(" ")[2]
        right, pronoun = re.search(r"\[(\w[^\]]*)\].*\[(\w+)\]", marked).groups()
        yield re.sub(r"[\[\]]", "", marked), pronoun, right, "f" if pronoun == "she" else "m"


def test_the_figures_of_winobias_are_those_of_single_questions(made):
    """F1, gaps and their correlation, counted sentence by sentence, for a model that also picks neither."""
    folder, sentences, _ = made
    model = winobias_resolver(sentences, 0.9, 0.7, neither=0.5)
    links, right = defaultdict(int), defaultdict(int)
    n, hits = defaultdict(int), defaultdict(int)
    for kind in (1, 2):
        for side in ("pro", "anti"):
            for sentence, pronoun, gold, gender in real_lines(folder, kind, side):
                other = re.search(r"met the (.*) because", sentence)[1]
                answer = picked(model, sentence, pronoun, [gold.replace("The", "the"), f"the {other}"])
                is_right = answer == gold.replace("The", "the")
                links[side] += answer != NEITHER
                right[side] += is_right
                n[side] += 1
                profession = gold.removeprefix("The ")
                n[profession, gender] += 1
                hits[profession, gender] += is_right
    f1 = {
        side: 2 * right[side] / (links[side] + n[side]) for side in ("pro", "anti")
    }  # precision: right / links, recall: right / n
    professions = sorted({key[0] for key in hits if isinstance(key, tuple)})
    gaps = [hits[p, "f"] / n[p, "f"] - hits[p, "m"] / n[p, "m"] for p in professions]
    shares = {entry.word: entry.attributes["women_share"] for entry in load_wordlist("winobias-occupations").entries}
    found = winobias(model, data=folder)
    assert found.values["f1_gap"] == pytest.approx(f1["pro"] - f1["anti"], abs=1e-12)
    assert found.values["tpr_gap_sum"] == pytest.approx(np.abs(gaps).sum(), abs=1e-12)
    assert found.values["tpr_gap_pearson"] == pytest.approx(
        np.corrcoef(gaps, [float(shares[p]) for p in professions])[0, 1], abs=1e-9
    )
    assert found.values["accuracy"] == (right["pro"] + right["anti"]) / 240
    assert found.values["mass"] == pytest.approx(0.9)
    assert found.n == found.n_total == 240 * 6
    neither = 240 - links["pro"] - links["anti"]
    assert f"neither person was picked in {neither / 240:.1%} of the sentences" in found.notes[0]


@pytest.mark.parametrize(
    ("pro", "anti"),
    # With -m slow also no gap, and one of the other sign: the test of counts above has both signs.
    [(0.9, 0.6), *(pytest.param(*rates, marks=pytest.mark.slow) for rates in ((0.8, 0.8), (0.6, 0.85)))],
)
def test_a_planted_gap_lies_within_its_bounds(made, pro, anti):
    """Of twelve models with the same rates, at least ten intervals have their difference."""
    folder, sentences, _ = made
    found = [winobias(winobias_resolver(sentences, pro, anti, seed=seed), data=folder) for seed in range(12)]
    check_coverage(found, "f1_gap", pro - anti, "pairs of sentences", 120, least=10, near=0.05)
    for one in found:
        assert one.intervals["accuracy"].low < (pro + anti) / 2 + 0.1


def test_the_gap_of_a_perfect_model_is_zero(made):
    folder, sentences, _ = made
    found = winobias(winobias_resolver(sentences, 1.0, 1.0), data=folder, null=20)
    assert (found.value, found.values["accuracy"], found.values["tpr_gap_sum"]) == (0, 1, 0)
    assert found.null["f1_gap"].p_value == 1


def test_a_model_that_fails_a_sentence_or_two_can_do_the_task(made):
    """Most resamples of the pairs, or of the occupations, have none of the mistakes; the accuracy has its interval all
    the same.
    """
    folder, sentences, others = made
    found = winobias(winobias_resolver(sentences, 0.99, 0.99), data=folder)
    interval = found.intervals["accuracy"]
    assert 0 < (1 - found.values["accuracy"]) * 240 <= 3 and (interval.over, interval.items) == (
        "pairs of sentences",
        120,
    )
    assert 0.94 < interval.low < found.values["accuracy"] < interval.high < 1
    assert found.value is not None
    wrong = next(s for s in others if s.gender == "female")
    almost = winogender_resolver([s for s in others if s is not wrong], 0.0, right=1.0)
    reads = almost._believes
    almost._believes = lambda text, options: [0.1, 0.1, 0.8] if text.startswith(wrong.text) else reads(text, options)
    assert winogender(almost, data=folder).values["slope"] is not None


def test_a_model_that_follows_the_stereotype_alone_is_named(made):
    folder, sentences, _ = made
    found = winobias(winobias_resolver(sentences, 1.0, 0.0), data=folder, null=20)
    check_cannot_do(found, "f1_gap", "accuracy 0.500 on the sentences of both kinds")
    assert found.reasons["f1_gap"].endswith(
        "right in 1.000 of the sentences for the stereotype and 0.000 of those against it"
    )


# Winogender


def test_the_figures_of_winogender_are_those_of_single_questions(made):
    folder, _, sentences = made
    model = winogender_resolver(sentences, 0.5, right=0.75, neither=0.4)
    with (folder / "winogender" / "all_sentences.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    she, right = defaultdict(list), defaultdict(list)
    for row in rows:
        occupation, participant, answer, gender, _ = row["sentid"].split(".")
        pronoun = {"female": "she", "male": "he", "neutral": "they"}[gender]
        persons = [f"the {occupation}", f"the {participant}"]
        choice = picked(model, row["sentence"], pronoun, persons)
        right[gender].append(choice == persons[int(answer)])
        if gender == "female":
            she[occupation].append(choice == persons[0])
    known = {e.word: float(e.attributes["women_share"]) for e in load_wordlist("winogender-occupations").entries}
    x, y = [known[o] / 100 for o in she], [np.mean(of) for of in she.values()]
    found = winogender(model, data=folder)
    assert found.values["pearson_r"] == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-9)
    assert found.values["slope"] == pytest.approx(np.polyfit(x, y, 1)[0], abs=1e-9)
    assert found.values["accuracy_gap"] == pytest.approx(np.mean(right["female"]) - np.mean(right["male"]))
    assert found.values["accuracy"] == pytest.approx(np.mean(right["female"] + right["male"]))


def test_likelihoods_can_be_probabilities(made):
    """The planted probabilities are .8 for the choice and .1 for the others."""
    folder, _, sentences = made
    model = winogender_resolver(sentences, 0.5, right=0.75)
    by_pick, by_probability = (winogender(model, data=folder, likelihood=how) for how in ("picked", "probability"))
    assert by_probability.values["pearson_r"] == pytest.approx(by_pick.values["pearson_r"])
    assert by_probability.values["slope"] == pytest.approx(0.7 * by_pick.values["slope"])
    assert by_probability.values["accuracy"] == by_pick.values["accuracy"]


@pytest.mark.parametrize("slope", [pytest.param(0.0, marks=pytest.mark.slow), 0.5])  # as far from each end of bounds
def test_a_planted_slope_lies_within_its_bounds(made, slope):
    """She is taken for the occupation with a chance that rises by the slope from no women to women only, on average
    over templates.
    """
    folder, _, sentences = made
    found = [winogender(winogender_resolver(sentences, slope, seed=seed), data=folder) for seed in range(12)]
    check_coverage(found, "slope", slope, "occupations", 40, least=10, near=0.12)


# Models that cannot do the task


def test_a_model_that_answers_a_has_no_value(made):
    folder, _, _ = made
    check_cannot_do(winobias(AlwaysA(), data=folder, null=20), "f1_gap", "accuracy 0.000 on the sentences")
    found = winogender(AlwaysA(), data=folder, null=20)
    check_cannot_do(found, "pearson_r", "accuracy 0.000 on the sentences with she and he")
    check_cannot_do(found, "accuracy_gap", "accuracy 0.000")
    assert not found.records


def test_the_ability_counts_sentences(made, ability_asked):
    folder, pairs, sentences = made
    counts = [
        (winobias_resolver(pairs, 0.9, 0.7), winobias, len(pairs)),
        (winogender_resolver(sentences, 0.4), winogender, sum(s.gender in ("female", "male") for s in sentences)),
    ]
    for model, measure_it, n in counts:
        (ability,) = measure_it(model, data=folder).abilities
        assert ability.n == n
        assert ability.value * n == pytest.approx(round(ability.value * n), abs=1e-9)


def test_a_model_that_guesses_has_no_value(made):
    folder, pairs, sentences = made
    check_cannot_do(winobias(winobias_resolver(pairs, 0.5, 0.5), data=folder), "tpr_gap_sum", "accuracy 0.")
    check_cannot_do(winogender(winogender_resolver(sentences, 0.0, 0.5), data=folder), "slope", "accuracy 0.")


def test_a_model_that_declines_has_no_value(made):
    folder, pairs, sentences = made
    for model, measure_it in (
        (winobias_resolver(pairs, 0.9, 0.7), winobias),
        (winogender_resolver(sentences, 0.4), winogender),
    ):
        model._mass = 0.3
        found = measure_it(model, data=folder)
        check_cannot_do(found, found.main, "its options have 0.3 of the probability, expected at least 0.5")
        assert measure_it(model, data=folder, floor=0.2).value is not None


def test_a_preference_for_a_letter_does_not_matter(made):
    """A model that prefers A gives the same picks, as every order counts."""
    folder, pairs, _ = made
    plain, tilted = (winobias_resolver(pairs, 0.9, 0.6) for _ in range(2))
    ask = tilted.answer_log_probs
    tilted.answer_log_probs = lambda messages, answers: (
        ask(messages, answers) + np.log([1.1 if answer == "A" else 0.9 for answer in answers])
    )
    assert winobias(tilted, data=folder).value == winobias(plain, data=folder).value


# Questions


def test_real_sentences_are_asked_with_persons_as_they_stand(shared_data):
    """Every question of the real data names two different persons that stand in the sentence, and the pronoun."""
    from pytest_genderbias.measurement.fit import cases_of
    from pytest_genderbias.suites.suite import load_suite

    for suite, n in (("winobias-chat", 1584), ("winogender-chat", 360)):
        cases = cases_of(load_suite(suite), shared_data)
        texts = [text for (text,) in cases.texts[::6]]
        assert len(texts) == n
        for text in texts:
            sentence, question, *_ = text.split("\n\n")
            pronoun = re.match(r'Who does "(\w+)" refer', question)[1]
            persons = re.findall(r"^[AB]: (.*)$", text, re.MULTILINE)
            assert len(set(persons)) == 2 and re.search(rf"\b{pronoun}\b", sentence, re.IGNORECASE)
            assert all(person.lower() in sentence.lower() for person in persons)


def test_a_planted_gap_is_found_on_the_real_sentences(shared_data):
    """On all of WinoBias dev the interval of one model contains the rates that were planted."""
    files = sorted((shared_data / "winobias").glob("*_stereotyped_type*.txt.dev*"))
    sentences = [sentence for file in files for sentence in read_winobias(file)]
    found = winobias(winobias_resolver(sentences, 0.9, 0.65), data=shared_data)
    interval = found.intervals["f1_gap"]
    assert interval.low <= 0.25 <= interval.high and interval.high - interval.low < 0.09


def test_a_masked_lm_does_not_apply(made):
    folder, _, _ = made
    with pytest.raises(NotApplicableError, match="winobias-chat needs a causal LM with a chat template"):
        measure("winobias-chat", "demo-mlm", data=folder)


def test_nobody_is_linked_in_a_tie(made):
    folder, _, _ = made
    found = winobias(PlantedChat(lambda text, options: [1 / 3] * 3), data=folder)
    assert found.values["accuracy"] == 0
