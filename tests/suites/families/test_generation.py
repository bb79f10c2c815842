"""The family generation: its figures against plain loops, planted writers, chat templates, its prompts, and models that
say nothing.
"""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from support.planted_writers import END, KINDS, Recorder, biased_writer, written_by

from pytest_genderbias import Limit, load_model, load_suite, measure
from pytest_genderbias.errors import DataFileError, NotApplicableError, SettingError
from pytest_genderbias.gates.limits import judge_limit
from pytest_genderbias.mitigation.methods.counterfactual import swap
from pytest_genderbias.scoring.sampled_texts import reply_texts
from pytest_genderbias.statistics.decision_differences import exchanged_share_differences
from pytest_genderbias.suites.query import Reply
from pytest_genderbias.text.wordlist import load_wordlist

SUITE = "counterfactual-generation"
EVEN = {END: 0.05, "positive": 0.2, "negative": 0.1, "career": 0.1, "family": 0.05, "female": 0.1, "male": 0.1}


@pytest.fixture(scope="module")
def body():
    return load_suite(SUITE).body


def measured(model, suite=SUITE, **options):
    return measure(suite, model, cache=None, **options)


# Figures


def plain_texts(model, prompt, unit, samples, length, seed):
    """Write one text at a time, read anew for every token, in double precision from the logits on."""
    tokenizer, network = model.backend.tokenizer, model.backend.network
    for sample in range(samples):
        begin = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
        ids = [begin, *tokenizer(prompt, add_special_tokens=False)["input_ids"]]
        start = len(ids)
        for chance in np.random.default_rng([seed, unit * samples + sample]).random(length):
            with torch.no_grad():
                logits = network(torch.as_tensor([ids])).logits[0, -1].double().numpy()
            p = np.exp(logits - logits.max())
            ids.append(int(np.searchsorted(np.cumsum(p) / p.sum(), chance, side="right")))
            if ids[-1] == tokenizer.eos_token_id:
                break
        yield tokenizer.decode([i for i in ids[start:] if i != tokenizer.eos_token_id])


def counted(body, texts_of):
    """Return the figures by a plain count: ``texts_of(unit, side)`` are the texts."""
    classes = {entry.word: entry.attributes["class"] for entry in load_wordlist("sentiment-words").entries}
    topic = {e.word.lower(): e.attributes["set"] for e in load_wordlist("caliskan2017-career-family").entries}
    gender = {entry.word: entry.attributes["group"] for entry in body.gendered.entries}
    differences, same = [], {side: [0, 0] for side in (0, 1)}
    for unit in range(len(body.prompts)):
        by_side = []
        for side in (0, 1):
            texts = list(texts_of(unit, side))
            words = [re.sub(r"'s$", "", w) for text in texts for w in re.findall(r"\w+(?:['-]\w+)*", text.lower())]
            score = sum({"positive": 1, "negative": -1}.get(classes.get(word), 0) for word in words)
            about = sum({"career": 1, "family": -1}.get(topic.get(word), 0) for word in words)
            n = max(len(words), 1)
            by_side.append((100 * score / n, len(words) / len(texts), 100 * about / n))
            for word in words:
                if word in gender:
                    same[side][0] += gender[word] == body.groups[side]
                    same[side][1] += 1
        differences.append(np.subtract(*by_side))
    return (*np.mean(differences, axis=0), same[0][0] / same[0][1] - same[1][0] / same[1][1])


NAMES = ("sentiment_difference", "length_difference", "topic_difference", "same_gender_difference")


@pytest.mark.parametrize("name", ["stories", "planted"])
def test_the_figures_are_those_of_plain_loops(request, body, name):
    planted = name == "planted"
    model = biased_writer(EVEN, EVEN | {"positive": 0.1}) if planted else request.getfixturevalue("stories")
    length, samples = (10, 2) if planted else (4, 1)

    def texts(unit, side):
        prompt = body.prompts[unit]
        return plain_texts(model, prompt.texts[side], unit, samples, length, seed=3)

    found = measured(model, length=length, samples=samples, seed=3)
    assert [found.values[name] or 0.0 for name in NAMES] == pytest.approx(counted(body, texts), abs=1e-9)
    assert found.n == found.n_total == 48 * 2 * samples
    for name in [name for name in NAMES if found.values[name] is not None]:
        assert found.item_sums(name).total == pytest.approx(found.values[name], abs=1e-9)


@pytest.fixture(scope="module")
def stories(shared_data):
    return load_model(str(shared_data / "models" / "stories260k"), device="cpu")


def test_exchanges_are_all_the_signs():
    hits, trials = np.array([[2, 0], [1, 3], [4, 4]]), np.array([[3, 2], [2, 3], [5, 9]])
    possible = set()
    for signs in np.ndindex(2, 2, 2):
        y, n = (
            np.array([row[::-1] if sign else row for row, sign in zip(x, signs, strict=True)]).sum(axis=0)
            for x in (hits, trials)
        )
        possible.add(round(float(y[0] / n[0] - y[1] / n[1]), 9))
    found = exchanged_share_differences(hits, trials, 300, seed=2)
    assert {round(float(value), 9) for value in found} == possible


# Planted writers


def expected(rates, length, samples):
    """Return mean sentiment, length, topic and share of female words of ``samples`` texts whose words are
    independent.
    """
    lengths = np.arange(length + 1)
    p = (1 - rates[END]) ** lengths * np.where(lengths < length, rates[END], 1.0)
    shares = {kind: rates.get(kind, 0.0) / (1 - rates[END]) for kind in KINDS}
    some = 1 - p[0] ** samples  # texts without any word count 0
    return (
        100 * some * (shares["positive"] - shares["negative"]),
        float(p @ lengths),
        100 * some * (shares["career"] - shares["family"]),
        shares["female"] / (shares["female"] + shares["male"]),
    )


CHANGES = [
    {},
    {"positive": 0.14},
    {"negative": 0.04, "positive": 0.25},
    {END: 0.1},
    {"career": 0.05, "family": 0.1},
    {"female": 0.05, "male": 0.15},
]


@pytest.mark.parametrize(
    "change",
    # With -m slow also each change by itself whose kind of figure another one moves, or a plain loop counts.
    [
        pytest.param(change, marks=[pytest.mark.slow] if number in (1, 3, 4) else [])
        for number, change in enumerate(CHANGES)
    ],
)
def test_a_planted_difference_lies_within_its_bounds(change):
    """Of six seeds, at least five have each known difference: an interval misses one in twenty."""
    second = EVEN | change
    length, samples = 24, 3
    female, male = (expected(rates, length, samples) for rates in (EVEN, second))
    truth = dict(zip(NAMES, np.subtract(female, male), strict=True))
    truth["same_gender_difference"] = female[3] - (1 - male[3])
    found = [
        measured(biased_writer(EVEN, second), length=length, samples=samples, seed=seed, null=100) for seed in range(6)
    ]
    for name, value in truth.items():
        if all(one.intervals[name] is None for one in found):  # ends are drawn alike: no prompt differs
            assert {one.values[name] for one in found} == {value} == {0.0}
            continue
        intervals = [one.intervals[name] for one in found]
        assert sum(interval.low <= value <= interval.high for interval in intervals) >= 5, name
        error = np.mean([(interval.high - interval.low) / 4 for interval in intervals])
        assert np.mean([one.values[name] for one in found]) == pytest.approx(value, abs=4 * error / 6**0.5)
        seen = sum(one.null[name].p_value < 0.05 for one in found)
        assert seen <= 1 if abs(value) < 1e-12 else seen >= 4 or abs(value) < 4 * error, name


def test_planted_differences_are_large_enough_to_be_seen():
    """So that the test before cannot pass by wide intervals alone: each change moves its own figure by more than its
    interval is wide on one side.
    """
    for change, name in zip(CHANGES[1:], (NAMES[0], NAMES[0], NAMES[1], NAMES[2], NAMES[3]), strict=True):
        found = measured(biased_writer(EVEN, EVEN | change), length=24, samples=3)
        interval = found.intervals[name]
        assert interval.low > 0 or interval.high < 0, name


def test_a_model_that_reads_no_gender_has_no_difference_at_all(body):
    """Both sides draw the same random numbers."""
    model = biased_writer(EVEN)
    model.backend.network.first = torch.as_tensor([-1])  # every prompt is of the second side
    found = measured(model, length=12)
    assert {found.values[name] for name in NAMES[:3]} == {0}
    assert judge_limit(found, Limit(within=0.01)).code == "within"
    again = measured(model, length=12, seed=1)
    assert again.records[0]["sentiment"] != found.records[0]["sentiment"]


def test_refusals_are_counted_at_the_beginning_alone(body):
    model = biased_writer(EVEN | {"refusal": 0.3}, EVEN | {"refusal": 0.1})
    found = [measured(model, samples=4, length=6, seed=seed) for seed in range(6)]
    assert np.mean([one.values["refusal_difference"] for one in found]) == pytest.approx(0.2, abs=0.04)
    seen = [one.intervals["refusal_difference"] for one in found]
    assert sum(interval.low <= 0.2 <= interval.high for interval in seen) >= 5
    assert measured(biased_writer(EVEN), length=6).values["refusal_difference"] == 0
    assert "i cannot" in "".join(body.refusals)


def test_the_bounds_of_all_prompts_cover_the_draws():
    """The texts are drawn at random, so that all prompts give bounds, not one value; gates decide on them."""
    found = measured(biased_writer(EVEN, EVEN | {"positive": 0.17}), length=12, samples=2)
    interval, bounds = found.intervals["sentiment_difference"], found.bounds["sentiment_difference"]
    assert (interval.over, interval.items) == ("prompts and their texts", 48)
    assert (bounds.low, bounds.high) == (interval.low, interval.high)
    assert judge_limit(found, Limit(within=(interval.high + found.value) / 2)).code == "too_few"


# Sampling


def test_texts_end_where_the_model_ends_them(body):
    model = biased_writer({END: 0.5})
    found = measured(model, length=4)
    note = next(note for note in found.notes if "end by themselves" in note)
    ended = int(note.split()[0])
    assert abs(ended / found.n - (1 - 0.5**4)) < 0.1
    replies = reply_texts(model, np.array([[1, 0, 1, 1], [1, 1, 1, 1], [0, 1, 1, 1]], dtype=np.int32))
    assert replies == [Reply("stone", True), Reply("stone stone stone stone", False), Reply("", True)]
    assert any("texts are empty" in note for note in found.notes)


def test_ends_are_those_of_the_generation_settings_too(stories):
    settings = stories.backend.network.generation_config
    before = settings.eos_token_id
    period = stories.backend.tokenizer.convert_tokens_to_ids(".")
    try:
        settings.eos_token_id = [stories.backend.tokenizer.eos_token_id, period]
        found = measured(stories, length=24, samples=1, limit=8)
    finally:
        settings.eos_token_id = before
    assert found.signature["model"]["text_ends"] == f"{stories.backend.tokenizer.eos_token_id}, {period}"
    assert all("." not in example.text.partition(" | ")[2] for example in found.examples.values())
    assert any("texts end by themselves" in note and not note.startswith("0 of") for note in found.notes)


def test_stored_texts_are_of_the_same_ends(stories, tmp_path):
    """A text that ended where it ends no longer is written anew, and not read from the cache."""
    settings = stories.backend.network.generation_config
    before = settings.eos_token_id
    try:
        settings.eos_token_id = [stories.backend.tokenizer.convert_tokens_to_ids(".")]
        measure(SUITE, stories, cache=tmp_path, length=24, samples=1, limit=8)
    finally:
        settings.eos_token_id = before
    found, anew = (measure(SUITE, stories, cache=cache, length=24, samples=1, limit=8) for cache in (tmp_path, None))
    assert found.records == anew.records


def test_a_low_temperature_writes_the_likeliest_words(stories):
    cold = measured(stories, length=12, samples=3, limit=24, temperature=0.001)
    assert cold.signature["settings"]["temperature"] == 0.001
    texts = [
        measured(stories, length=12, samples=3, limit=24, temperature=0.001, seed=seed).examples for seed in (1, 2)
    ]
    shared = set(texts[0]) & set(texts[1])
    assert all(texts[0][item].text == texts[1][item].text for item in shared)
    assert (
        measured(stories, length=3, samples=1, limit=8, temperature=1).records
        == measured(stories, length=3, samples=1, limit=8).records
    )
    for wrong in (0.0, -1.0, 0, True, float("nan"), "hot"):
        with pytest.raises(SettingError, match="a number above 0"):
            measured(stories, temperature=wrong)


TEMPLATE = (
    "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }} {% endfor %}{% if add_generation_prompt %}[model]{%"
    " endif %}"
)


def test_a_chat_model_is_asked_in_its_template(body):
    texts = [text for prompt in body.prompts for text in prompt.texts]
    words = [*texts, body.message, "[user] [model]"]
    for template in (None, TEMPLATE):
        network = Recorder()
        model = written_by(network, words, template)
        found = measured(model, samples=1, length=3)
        read = {model.backend.tokenizer.decode(row) for row in network.read}
        begin = f"{END} " if template is None else "[ user ] Continue this text in two or three sentences : "
        assert len(read) == 2 * len(body.prompts)
        assert all(text.startswith(begin) for text in read)
        assert all(text.endswith("[ model ]") for text in read) == (template is not None)
        assert ("chat_template" in found.signature["model"]) == (template is not None)
        assert any(("in its chat template" if template else "no chat template") in note for note in found.notes)


# No value


def test_a_model_that_writes_nothing_has_no_value():
    found = measured(biased_writer({END: 1.0}), samples=1, length=3, null=20)
    assert set(found.values.values()) == {None}
    assert found.reasons["sentiment_difference"] == "the model wrote nothing: every text is empty"
    assert judge_limit(found, Limit(within=9.0)).code == "no_value"


def test_texts_without_a_word_of_the_lists_have_no_value():
    found = measured(biased_writer({END: 0.1}, {END: 0.2}), length=8)
    assert {name for name, value in found.values.items() if value is None} == {
        "sentiment_difference",
        "topic_difference",
        "same_gender_difference",
    }
    assert "sentiment" in found.reasons["sentiment_difference"]
    assert found.values["length_difference"] > 0


def test_an_object_cannot_be_sampled():
    class Own:
        def continuation_log_probs(self, prefixes, continuations):
            return np.zeros(len(prefixes))

    with pytest.raises(NotApplicableError, match="give the checkpoint of its model"):
        measured(Own())


# Prompts and lists


def test_each_prompt_is_the_other_one_swapped(body):
    """By the swap of counterfactual augmentation, in both directions."""
    for prompt in body.prompts:
        assert swap(prompt.texts[0], "zhao2018-pairs", intervention="grammatical") == prompt.texts[1]
        assert swap(prompt.texts[1], "zhao2018-pairs", intervention="grammatical") == prompt.texts[0]


def test_the_packaged_prompts_are_of_several_fields(body):
    assert len(body.prompts) == 48
    fields = [prompt.field for prompt in body.prompts]
    assert {fields.count(field) for field in fields} == {4}
    assert len(set(fields)) == 12
    for prompt in body.prompts:
        assert not prompt.texts[0].endswith((".", " ", "?"))


def test_the_lists_do_not_overlap(body):
    classes = {entry.word: entry.attributes["class"] for entry in body.sentiment}
    gendered = {entry.word for entry in body.gendered.entries}
    topics = [{entry.word for entry in words.entries} for words in body.topics.values()]
    assert not topics[0] & topics[1]
    assert not gendered & (set(classes) | topics[0] | topics[1])
    assert all(word == word.lower() and word.isalpha() for word in classes)
    assert all(phrase == phrase.lower() and "’" not in phrase for phrase in body.refusals)


OWN = {
    "suite": "mine", "family": "generation", "title": "t", "source": "s", "licence": "l", "language": "en",
    "groups": ["female", "male"],
    "message": "Go on: {prompt}", "sentiment": {"list": "sentiment-words"}, "refusals": ["i cannot"],
    "topics": {"career": {"list": "caliskan2017-career-family", "where": {"set": "career"}},
               "family": {"list": "caliskan2017-career-family", "where": {"set": "family"}}},
    "gendered": {"list": "zhao2018-pairs", "where": {"word": ["woman", "man"]}},
    "prompts": [{"field": "f", "female": "The woman", "male": "The man"},
        {"field": "g", "female": "A woman", "male": "A man"}],
}  # fmt: skip


def own(folder: Path, **changes: object) -> Path:
    (folder / "mine.yaml").write_text(yaml.safe_dump(OWN | changes, sort_keys=False))
    return folder / "mine.yaml"


def test_a_suite_of_your_own(tmp_path):
    path = own(tmp_path)
    found = measured(biased_writer(EVEN, suite=path), path)
    assert found.n == 2 * 2 * 4
    assert found.values["sentiment_difference"] is not None


def test_replies_decline_by_the_words_of_the_suite_in_a_language_without_a_packaged_list(tmp_path):
    class Declines:
        def reply(self, messages, n, seed):
            return [("Não posso." if "woman" in messages[0]["content"] else "A happy day.")] * n

    found = measured(Declines(), own(tmp_path, language="pt", refusals=["não posso"]))
    assert found.values["refusal_difference"] == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": ["female", "male", "other"]}, "'gendered' words compare two groups, and these are 3"),
        ({"message": "Go on"}, "'message' should hold {prompt} once"),
        (
            {"sentiment": {"list": "zhao2018-pairs"}},
            "expected words of the class positive and of the class negative, got None",
        ),
        ({"topics": {"career": OWN["topics"]["career"]}}, "expected two topics to compare, got 1"),
        (
            {"gendered": {"list": "zhao2018-pairs", "where": {"word": ["man"]}}},
            "expected words of both groups in 'gendered', it has none of female",
        ),
        ({"prompts": [{"field": "f", "female": "They", "male": "They"}]}, "the prompt is the same for two groups"),
        ({"prompts": [OWN["prompts"][0]] * 2}, "a prompt is there twice"),
        ({"prompts": ["The woman"]}, "expected a mapping with the keys field, female and male"),
    ],
)
def test_a_broken_suite_is_one_error_with_its_line(tmp_path, change, message):
    with pytest.raises(DataFileError, match=r"mine\.yaml:\d+: .*" + message):
        load_suite(own(tmp_path, **change))


def test_a_suite_without_words_of_sentiment_is_one_error(tmp_path):
    path = own(tmp_path)
    path.write_text(yaml.safe_dump({key: value for key, value in OWN.items() if key != "sentiment"}))
    with pytest.raises(DataFileError, match="the suite has no 'sentiment', which is required"):
        load_suite(path)
