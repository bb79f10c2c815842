"""corpus-cooccurrence: texts by hand and by a slow loop, sampling and perplexity against plain loops, a planted
language model, real texts.
"""

import dataclasses
import gzip
import json
import math
import re
import zlib
from collections import Counter
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats
import torch
import transformers
from support.answered_suites import answered
from support.baseline_books import write_entries
from support.tiny_checkpoints import save_checkpoint
from tokenizers import Tokenizer, models, pre_tokenizers

from pytest_genderbias import Baseline, load_model, load_suite, load_wordlist, measure
from pytest_genderbias.datasets.corpora import Vocabulary, corpus_sha256, feed_corpus, read_passages
from pytest_genderbias.datasets.folder import DataFolder, MissingDataError
from pytest_genderbias.errors import (
    DataFileError,
    ModelError,
    NotApplicableError,
    ScoreError,
    SettingError,
    UndefinedError,
)
from pytest_genderbias.gates.book import entry_of
from pytest_genderbias.gates.comparison import judge_against
from pytest_genderbias.measurement.carry_out import CHANCE_SHUFFLES
from pytest_genderbias.measurement.plan import plan_measurement
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.roles import CAUSAL_LM, Role
from pytest_genderbias.scoring.engine import ScoreSettings, answer
from pytest_genderbias.scoring.sampled_texts import Sampler, sampled_texts
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.statistics.cooccurrence import sums_by_block
from pytest_genderbias.statistics.perplexity import perplexity
from pytest_genderbias.statistics.sums import word_bias_sums, word_slope_sums
from pytest_genderbias.suites.cases import Answer, Question, TextCases
from pytest_genderbias.suites.families import corpus as module
from pytest_genderbias.suites.family import resolve_options
from pytest_genderbias.suites.query import BlockLogLikelihood, GeneratedTokens

SUITE = "corpus-cooccurrence"
KEYS = ["mu", "sigma", "mu_infinite", "sigma_infinite", "beta", "beta_infinite", "perplexity"]
#: "sews" stands 3 times near she, once near he; "saws" once near she, 4 times near he; she 4 times, he 5 times.
SEWING = ["she sews ."] * 3 + ["he sews ."] + ["he saws ."] * 4 + ["she saws ."]


def documents(path, texts):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def measured(path, **options):
    return measure(SUITE, f"text:{path}", cache=None, **options)


def slices(measurement, name):
    return [record for record in measurement.records if record["slice"] == name]


# Texts


def test_a_text_by_hand(tmp_path):
    found = measured(documents(tmp_path / "a.jsonl", SEWING))
    bias = [math.log((3 / 4) / (1 / 5)), math.log((1 / 4) / (4 / 5))]
    assert list(found.values) == KEYS
    for context in ("", "_infinite"):  # all stand beside their word, so that the weights cancel
        assert found.values[f"mu{context}"] == pytest.approx(np.abs(bias).mean())
        assert found.values[f"sigma{context}"] == pytest.approx(np.std(bias, ddof=1))
    assert found.n == found.n_total == 18, "words, without nine full stops"
    female, male = slices(found, "most female"), slices(found, "most male")
    assert [r["word"] for r in female] == [r["word"] for r in male][::-1] == ["sews", "saws"]
    assert (female[0]["female"], female[0]["male"], female[0]["occurrences"]) == (3, 1, 4)
    assert female[0]["bias"] == pytest.approx(bias[0])
    assert female[0]["female_infinite"] == pytest.approx(3 * 0.95)
    assert dict(zip(found.items["word"], found.items["bias"], strict=True)) == pytest.approx(
        {"sews": bias[0], "saws": bias[1]}
    )
    assert "no valid interval" in found.reasons["mu"]
    assert "option training" in found.reasons["beta"]
    assert found.values["perplexity"] is None


def test_a_text_that_was_cut_to_a_line_is_not_better(tmp_path):
    words = [f"{start}{end}" for start in ("lo", "ma", "ni", "ru", "ta") for end in "abcdefghij"]
    texts = [f"{pronoun} {word} ." for word in words for pronoun in ("she", "she", "he")]
    whole, line = (measured(documents(tmp_path / "a.jsonl", rows)) for rows in ([*texts, *SEWING], SEWING))
    found = judge_against(dataclasses.replace(line, model="cut"), whole, 0.5, "mu")
    assert found.code == "not_comparable"
    assert re.search(r"only 2 of \d+ blocks of words have a figure on both sides", found.headline)


def test_what_is_not_read_in_a_folder_is_noted(tmp_path):
    documents(tmp_path / "a.jsonl", SEWING)
    assert not any("not read" in note for note in measured(tmp_path).notes)
    (tmp_path / "more").mkdir()
    (tmp_path / "b.md").write_text("She sews.")
    for found in (measured(tmp_path), measured(tmp_path / "a.jsonl", training=str(tmp_path))):
        [note] = [note for note in found.notes if "not read" in note]
        assert note.startswith(f"not read in {tmp_path}, where a text ends in .txt, ")
        assert note.endswith(": 'b.md', 'more'")


def test_what_has_no_letter_or_digit_is_counted_and_named(tmp_path):
    path = documents(tmp_path / "a.jsonl", [*SEWING, "she @-@ 60 .", "he @-@ 60 ."])
    drop, keep = measured(path, tokens="spaces"), measured(path, tokens="spaces", punctuation="keep")
    for found, scored, words in (
        (drop, "not scored", {"sews", "saws", "60"}),
        (keep, "scored as words", {"sews", "saws", "60", "@-@", "."}),
    ):
        note = f"tokens without a letter or digit are {scored} (option punctuation), and stand between words either way"
        assert any(one.startswith("22 words in 11 documents, beside 13 tokens without a") for one in found.notes)
        assert note in found.notes
        assert set(found.items["word"].tolist()) == words
    assert "punctuation" not in drop.signature["settings"], "a baseline of an earlier version is compared"
    assert keep.signature["settings"]["punctuation"] == "keep"


@cache
def counts_near_gendered_words(path, k=10):
    """Return the groups of gendered words, and counts of words by group and in all of a WikiText file, from the
    positions of the gendered words.
    """
    with gzip.open(path, "rt", encoding="utf-8") as file:
        texts = re.split(r"^(?= = [^=\n]+ = $)", file.read(), flags=re.MULTILINE)
    of = {entry.word: entry.attributes["group"] for entry in load_wordlist("bordia2019-wikitext-2").entries}
    near, words = {"female": Counter(), "male": Counter()}, Counter()
    for tokens in map(str.split, texts):
        words.update(tokens)
        for at, token in enumerate(tokens):
            if token in of:
                near[of[token]].update(tokens[max(0, at - k) : at] + tokens[at + 1 : at + 1 + k])
    return of, near, words


def counted_near_gendered_words(path, punctuation="drop", printed=False):
    """Return bias by word of a WikiText file."""
    of, near, words = counts_near_gendered_words(path)
    left_out = {entry.word for entry in load_wordlist("stop-words").entries}
    scored = [
        word
        for word in near["female"].keys() & near["male"].keys()
        if word not in of
        and word.lower() not in left_out
        and not re.fullmatch("<.+>", word)
        and (punctuation == "keep" or re.search(r"[^\W_]", word))
    ]
    everything = sum(words[word] for word in scored)
    given = {}
    for group, counts in near.items():
        share = sum(n for word, n in words.items() if of.get(word) == group) / everything
        total = sum(counts[word] for word in scored)
        given[group] = np.asarray([counts[word] / total / (share if printed else 1) for word in scored])
    return np.log(given["female"] / given["male"])


@pytest.mark.parametrize(
    ("punctuation", "printed", "mu"),
    [("drop", False, 0.7779), ("keep", False, 0.7946), ("drop", True, 1.4920), ("keep", True, 1.5804)],
)
def test_mu_of_wikitext_is_that_of_a_plain_count(shared_data, punctuation, printed, mu):
    path = shared_data / "wikitext2" / "valid.txt.gz"
    expected = np.abs(counted_near_gendered_words(path, punctuation, printed)).mean()
    found = answered(SUITE, load_model(f"text:{path}"), punctuation=punctuation, group_share=printed)
    assert found.summary.values["mu"] == pytest.approx(expected, rel=1e-9)
    assert expected == pytest.approx(mu, abs=5e-5)


def test_the_printed_factor_calls_nearly_every_word_of_wikitext_female(shared_data):
    path = shared_data / "wikitext2" / "valid.txt.gz"
    printed, plain = (counted_near_gendered_words(path, printed=share) for share in (True, False))
    assert (printed > 0).mean() > 0.9
    assert 0.4 < (plain > 0).mean() < 0.6


def test_both_figures_of_the_printed_factor_are_said(tmp_path):
    path = documents(tmp_path / "a.jsonl", SEWING)
    with_factor, without = measured(path, group_share=True), measured(path)
    even = [math.log((3 / 4) / (1 / 5)), math.log((1 / 4) / (4 / 5))]
    assert without.values["mu"] == pytest.approx(np.abs(even).mean())
    assert without.values["sigma"] == pytest.approx(with_factor.values["sigma"])
    for one, other in ((with_factor, without), (without, with_factor)):
        note = next(note for note in one.notes if "c(g)" in note)
        assert f"{math.log(5 / 4):+.4f}" in note
        assert f"mu is {other.values['mu']:.4f}" in note
    assert without.signature["settings"]["group_share"] is False


def slow_bias(texts, weight, female, male, stop, marks=()):
    """The definition, pair of positions by pair of positions; ``marks`` are scored, too."""
    near = {"f": Counter(), "m": Counter()}
    groups, words = Counter(), Counter()
    for tokens in (text.split() for text in texts):
        words.update(tokens)
        for i, word in enumerate(tokens):
            for j, other in enumerate(tokens):
                group = "f" if other in female else "m" if other in male else None
                if group and i != j and weight(abs(i - j)):
                    near[group][word] += weight(abs(i - j))
    for word, n in words.items():
        groups["f"] += n * (word in female)
        groups["m"] += n * (word in male)
    scored = [
        w
        for w in near["f"]
        if w in near["m"] and w not in female | male | stop and (w in marks or w != ".") and not w.startswith("<")
    ]
    p = {g: {w: near[g][w] / sum(near[g][v] for v in scored) for w in scored} for g in "fm"}
    return {w: math.log(p["f"][w] / p["m"][w]) for w in scored}


@pytest.fixture(scope="module")
def random_texts():
    rng = np.random.default_rng(0)
    words = [*(f"w{i}" for i in range(40)), "she", "her", "he", "him", "He", "wife", "the", ".", "<unk>"]
    weights = rng.dirichlet(np.ones(len(words)) * 2)
    return [" ".join(rng.choice(words, p=weights, size=rng.integers(1, 60))) + " ." for _ in range(60)]


def test_a_random_text_against_the_slow_loop(tmp_path, random_texts):
    found = measured(documents(tmp_path / "a.jsonl", random_texts), k=4, tokens="spaces")
    female, male, stop = {"she", "her", "wife"}, {"he", "him", "He"}, {"the"}
    for context, weight in (("", lambda d: float(d <= 4)), ("_infinite", lambda d: 0.95**d)):
        bias = slow_bias(random_texts, weight, female, male, stop)
        assert found.values[f"mu{context}"] == pytest.approx(np.mean(np.abs(list(bias.values()))))
        assert found.values[f"sigma{context}"] == pytest.approx(np.std(list(bias.values()), ddof=1))
        if not context:
            ours = dict(zip(found.items["word"].tolist(), found.items["bias"], strict=True))
            assert ours == pytest.approx(bias, abs=1e-5)
    marks = measured(tmp_path / "a.jsonl", k=4, tokens="spaces", punctuation="keep")
    bias = slow_bias(random_texts, lambda d: float(d <= 4), female, male, stop, {"."})
    assert "." in bias and marks.values["mu"] == pytest.approx(np.mean(np.abs(list(bias.values()))))
    assert marks.values["mu"] != found.values["mu"]
    exchanged = measured(tmp_path / "a.jsonl", k=4, tokens="spaces", as_printed=True)
    bias = slow_bias(random_texts, lambda d: float(d <= 4), female - {"wife"}, male | {"wife"}, stop)
    assert exchanged.values["mu"] == pytest.approx(np.mean(np.abs(list(bias.values()))))
    cut = measured(tmp_path / "a.jsonl", tokens="spaces", reach=3)
    bias = slow_bias(random_texts, lambda d: 0.95**d * (d <= 3), female, male, stop)
    assert cut.values["mu_infinite"] == pytest.approx(np.mean(np.abs(list(bias.values()))))


def test_words_need_as_many_co_occurrences_as_asked(tmp_path):
    texts = [*SEWING, "she hums .", "he hums ."]
    path = documents(tmp_path / "a.jsonl", texts)
    assert {r["word"] for r in slices(measured(path), "most male")} == {"sews", "saws", "hums"}
    assert {r["word"] for r in slices(measured(path, min_count=3), "most male")} == {"sews", "saws"}
    none = measured(path, min_count=9)
    assert none.values["mu"] is none.values["mu_infinite"] is None
    assert none.reasons["mu"] == "no word co-occurs with words of both groups"


def test_case_may_be_folded(tmp_path):
    path = documents(tmp_path / "a.jsonl", ["she SEWS .", "he sews .", "he Saws .", "she saws ."])
    assert measured(path).values["mu"] is None
    assert measured(path, fold_case=True).values["mu"] == pytest.approx(0)


def test_words_with_enough_counts_are_shown_first(tmp_path):
    texts = ["she sews ."] * 40 + ["he sews ."] * 20 + ["she hums ."] * 9 + ["he hums ."]
    found = slices(measured(documents(tmp_path / "a.jsonl", texts)), "most female")
    assert [r["word"] for r in found] == ["sews", "hums"]
    assert found[0]["bias"] < found[1]["bias"]
    assert not slices(measured(tmp_path / "a.jsonl", top=0), "most female")


def test_occupations_and_their_share_of_women(tmp_path):
    share = {e.word: e.attributes["women_share"] for e in load_wordlist("winogender-occupations").entries}
    jobs = ["nurse", "engineer", "secretary", "chef", "singer"]  # the last one has no share
    texts = [f"she {job} ." for job in jobs for _ in range(1 + round(share.get(job, 50)))]
    texts += [f"he {job} ." for job in jobs for _ in range(100 - round(share.get(job, 50)))]
    found = measured(documents(tmp_path / "a.jsonl", texts))
    assert {r["word"] for r in slices(found, "words of the suite")} == set(jobs)
    (record,) = slices(found, "share of women")
    bias = {r["word"]: r["bias"] for r in slices(found, "words of the suite")}
    r = scipy.stats.pearsonr([share[job] / 100 for job in jobs[:4]], [bias[job] for job in jobs[:4]])[0]
    assert (record["words"], record["pearson_r"]) == (4, pytest.approx(r))
    assert r > 0.9
    (few,) = slices(measured(documents(tmp_path / "b.jsonl", SEWING)), "share of women")
    assert few["pearson_r"] is None
    assert "too few" in few["reason"]


# Against a training text


def test_a_text_against_itself_has_beta_one(tmp_path, random_texts):
    path = documents(tmp_path / "a.jsonl", random_texts)
    for outliers in (False, True):
        found = measured(path, training=str(path), outliers=outliers)
        assert found.values["beta"] == pytest.approx(1)
        assert found.values["beta_infinite"] == pytest.approx(1)
        assert found.intervals["beta"].over == "words"
    swapped = {"she": "he", "her": "him", "wife": "husband", "he": "she", "him": "her", "He": "She"}
    mirror = [" ".join(swapped.get(word, word) for word in text.split()) for text in random_texts]
    found = measured(documents(tmp_path / "b.jsonl", mirror), training=str(path))
    assert found.values["beta"] == pytest.approx(-1)
    assert found.records[0]["training_bias"] is not None


FAMILY = load_suite(SUITE).family


@pytest.mark.parametrize("outliers", [False, True])
def test_sums_over_blocks_of_words_give_the_statistics(tmp_path, random_texts, outliers):
    path = documents(tmp_path / "a.jsonl", random_texts)
    half = documents(tmp_path / "b.jsonl", random_texts[: len(random_texts) // 2])
    found = measured(half, training=str(path), outliers=outliers)
    for statistic in KEYS[:-1]:
        item_sums = FAMILY.statistics[statistic].item_sums({}, found.items)
        assert item_sums.total == pytest.approx(found.values[statistic], rel=1e-9)
        assert item_sums.over == "blocks of words"
    bias = dict(zip(found.items["word"].tolist(), found.items["bias"].astype(float), strict=True))
    for statistic, figure in (("mu", lambda s: np.abs(s).mean()), ("sigma", lambda s: np.std(s, ddof=1))):
        item_sums = FAMILY.statistics[statistic].item_sums({}, found.items)
        without = item_sums.value(item_sums.sums.sum(axis=0) - item_sums.sums)
        for label, value in zip(item_sums.labels, without, strict=True):
            kept = [s for word, s in bias.items() if f"block {zlib.crc32(word.encode()) % 100}" != label]
            assert value == pytest.approx(figure(np.asarray(kept)), rel=1e-5)


def test_sums_without_a_statistic(tmp_path):
    found = measured(documents(tmp_path / "a.jsonl", SEWING))
    for statistic, reason in (("beta", "no beta_sums"), ("perplexity", "no passage_log_probability")):
        with pytest.raises(UndefinedError, match=reason):
            FAMILY.statistics[statistic].item_sums({}, found.items)
    itself = measured(documents(tmp_path / "a.jsonl", SEWING), training=str(tmp_path / "a.jsonl"))
    assert FAMILY.statistics["beta"].item_sums({}, itself.items).total == pytest.approx(1)
    one = word_bias_sums(sums_by_block([3], [1.0], [1.0], [1.0]), "sigma")
    same = word_slope_sums(sums_by_block([3, 4], [0.1] * 2, [1.0, 2.0], [0.01] * 2, [0.1, 0.2]))
    assert np.isnan([one.total, same.total]).all()
    assert FAMILY.statistics["mu"].scores({}, None) is None


def null_of(path, repeats, seed=0, training=None, **chosen):
    suite = load_suite(SUITE)
    options = resolve_options(suite.family.options, chosen, SUITE)
    answers = {"text": Answer(None, None, None, content=path)}
    if training:
        answers["training"] = Answer(None, None, None, content=SimpleNamespace(paths=(str(training),)))
    return suite.family.null(suite.body, options, answers, seed, repeats)


def test_the_null_exchanges_pairs_as_a_text_with_exchanged_words_has_it(tmp_path):
    rng = np.random.default_rng(0)
    words = ["she", "he", "woman", "man", "sews", "saws", "reads", "and"]
    texts = [" ".join(rng.choice(words, size=30)) for _ in range(20)]
    path = documents(tmp_path / "a.jsonl", texts)
    null = null_of(path, 60, training=path)
    expected = {key: set() for key in KEYS[:-1]}
    for pairs in ([], ["she"], ["woman"], ["she", "woman"]):
        swap = {"she": {"she": "he", "he": "she"}, "woman": {"woman": "man", "man": "woman"}}
        to = {a: b for pair in pairs for a, b in swap[pair].items()}
        flipped = documents(tmp_path / "b.jsonl", [" ".join(to.get(w, w) for w in t.split()) for t in texts])
        found = measured(flipped, training=str(path))
        for key in expected:
            expected[key].add(round(found.values[key], 8))
    for key, values in expected.items():
        assert set(null[key].round(8)) == values, key


def test_the_null_of_sizes_is_drawn_alike_and_counts_no_training_text(tmp_path, monkeypatch):
    path = documents(tmp_path / "a.jsonl", SEWING)
    every = measured(path, training=str(path), null=CHANCE_SHUFFLES).null
    counted = []
    count = module.Counting.count
    monkeypatch.setattr(module.Counting, "count", lambda *args: counted.append(args[1]) or count(*args))
    found = measured(path, training=str(path)).null
    assert set(every) - set(found) == {"beta", "beta_infinite"}
    assert all(found[name] == every[name] for name in found) and set(found) == set(KEYS[:4])
    assert len(counted) == 2, "the text and its training text, for the values"


def test_a_text_without_bias_lies_inside_the_null_and_a_biased_one_outside(tmp_path, monkeypatch):
    rng = np.random.default_rng(2)
    pairs = [("she", "he"), ("woman", "man"), ("girl", "boy"), ("mother", "father"), ("queen", "king"),
        ("aunt", "uncle"), ("wife", "husband"), ("sister", "brother")]  # fmt: skip
    for bias, inside in ((0.5, True), (0.9, False)):
        texts = []
        for _ in range(2500):
            side = int(rng.integers(2))
            word = f"w{rng.integers(10)}{side if rng.random() < bias else 1 - side}"
            texts.append(f"{pairs[rng.integers(8)][side]} {word} .")
        path = documents(tmp_path / "a.jsonl", texts)
        values = measured(path).values
        null = null_of(path, 300)
        assert set(null) == set(KEYS[:4])
        assert {drawn.shape for drawn in null.values()} == {(300,)}
        for statistic in ("mu", "sigma"):
            low, high = np.quantile(null[statistic], (0.01, 0.985))
            assert (low <= values[statistic] <= high) == inside
    again = null_of(path, 300)
    assert all((again[key] == null[key]).all() for key in null)
    assert (null_of(path, 300, seed=1)["mu"] != null["mu"]).any()
    monkeypatch.setattr(module, "_MOST_BIASES", 1000)
    in_parts = null_of(path, 300)
    assert all(in_parts[key] == pytest.approx(null[key]) for key in null)
    empty = null_of(documents(tmp_path / "c.jsonl", ["nobody is here"]), 4)
    assert {len(drawn) for drawn in empty.values()} == {4}
    assert np.isnan(np.concatenate(list(empty.values()))).all()


def test_the_signature_knows_the_content_of_the_training_text_and_not_its_place(tmp_path):
    a, moved = documents(tmp_path / "a.jsonl", SEWING), documents(tmp_path / "moved.jsonl", SEWING)
    other = documents(tmp_path / "c.jsonl", [*SEWING, "he sews ."])
    one, same, changed = (measured(a, training=str(path)).signature for path in (a, moved, other))
    assert one["data"] == same["data"] == {"training": corpus_sha256([a])[:16], "tokens": "words"}
    assert one["settings"] == same["settings"]
    assert one["data"] != changed["data"]
    assert measured(a).signature["data"] == {"tokens": "words"}
    assert measured(a, tokens="spaces").signature["data"] == {}  # the settings say it


def generated(model, texts, options):
    """Summarise texts as if the model had generated them."""
    suite = load_suite(SUITE)
    plan = plan_measurement(suite, "m", model.role, options)
    answers = {
        name: Answer(question.cases, np.arange(1), np.zeros((1, 1, 1)), content=getattr(question, "query", None))
        for name, question in plan.questions.items()
    }
    answers["texts"] = dataclasses.replace(answers["texts"], content=[tuple(texts)])
    return suite.family.summarise(suite.body, plan.options, answers, 0)


def test_generated_texts_are_split_as_the_training_text(tiny_model, tmp_path):
    apart = ["she sews , she hums .", "he sews , he hums ."]
    running = ["she sews, she hums.", "he sews, he hums.", "she sings, he sings."]
    model = tiny_model("gpt2")
    for training, texts, split in ((apart, running, "spaces"), (running, apart, "words")):
        path = documents(tmp_path / f"{split}.jsonl", training)
        found = generated(model, texts, {"training": str(path)})
        assert found.data == {"tokens": split}
        other = {"spaces": "words", "words": "spaces"}[split]
        assert f"words are split with tokens={split}, though the texts look like tokens={other} (option tokens)" in (
            found.notes
        )
        assert ("sews," in found.items["word"]) == (split == "spaces")
        alone = generated(model, texts, {})
        assert alone.data == {"tokens": other}
        assert f"words are split with tokens={other}" in alone.notes
        said = generated(model, texts, {"training": str(path), "tokens": other})
        assert said.data == {}
        assert "sews," not in said.items["word"]


def test_a_text_and_its_training_text_may_be_split_differently_and_it_is_said(tmp_path):
    folder = tmp_path / "both"
    folder.mkdir()
    documents(folder / "a.jsonl", ["she sews, he sews."])
    documents(folder / "b.jsonl", ["she sews , he sews ."])
    found = measured(folder / "b.jsonl", training=str(folder / "a.jsonl"))
    assert found.signature["data"]["tokens"] == "spaces"
    assert any("tokens=spaces, those of the training text with tokens=words: fewer" in note for note in found.notes)
    assert measured(folder).signature["data"] == {"tokens": "spaces and words"}


def test_the_name_of_a_data_set_is_not_a_folder_beside_it(tmp_path, monkeypatch):
    data, here = tmp_path / "data", tmp_path / "here"
    for folder in (data / "wikitext2", here / "wikitext2", here / "own"):
        folder.mkdir(parents=True)
    (data / "wikitext2" / "train.txt").write_text("she sews . he sews .")
    for folder in ("wikitext2", "own"):
        (here / folder / "a.txt").write_text("she hums . he hums .")
    monkeypatch.chdir(here)
    text = documents(tmp_path / "a.jsonl", SEWING)

    def training(name):
        return measure(SUITE, f"text:{text}", cache=None, data=data, training=name).signature["data"]["training"]

    published, own = corpus_sha256([data / "wikitext2"])[:16], corpus_sha256([here / "own"])[:16]
    assert training("wikitext2") == training("wikitext2/train") == published
    assert training("./wikitext2") == training("./own") == own
    with pytest.raises(
        SettingError, match=r"no data set is called 'own'; a file or folder .* write \./own for it, or one of snli, "
    ):
        training("own")
    monkeypatch.setenv("HOME", str(here))
    assert training("~/own") == own
    with pytest.raises(SettingError, match="~nobody-at-all/own: unknown home folder"):
        training("~nobody-at-all/own")


def test_no_beta_has_its_reason(tmp_path):
    path = documents(tmp_path / "a.jsonl", SEWING)
    men = documents(tmp_path / "b.jsonl", ["he sews .", "he saws ."])
    assert measured(path, training=str(men)).reasons["beta"] == (
        "the training text: the corpus has no word of one of the groups"
    )
    found = measured(men, training=str(path))
    assert all(value is None for value in found.values.values())
    assert {found.reasons[key] for key in KEYS[:6]} == {"the corpus has no word of one of the groups"}
    assert found.items["word"].tolist() == []
    one = measured(documents(tmp_path / "c.jsonl", ["she sews .", "he sews ."]), training=str(path))
    assert one.values["mu"] == pytest.approx(0)
    assert one.reasons["sigma"] == "fewer than two words are scored"
    assert one.values["beta"] is None


# What is refused


def test_texts_that_cannot_be_read(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("she and fiancée".encode("latin-1"))
    with pytest.raises(DataFileError, match="not UTF-8"):
        measured(path)
    path.write_text("\n")
    with pytest.raises(DataFileError, match="no words"):
        measured(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataFileError, match="no corpus in this folder"):
        measured(tmp_path / "empty")
    with pytest.raises(ModelError, match="no text is named; expected text:FILE"):
        measure(SUITE, "text:", cache=None)
    with pytest.raises(ModelError, match=r"no text .*gone\.txt"):
        measured(tmp_path / "gone.txt")
    text = documents(tmp_path / "a.jsonl", SEWING)
    with pytest.raises(DataFileError, match=r"gone\.txt: no such file"):
        measured(text, training=str(tmp_path / "gone.txt"))
    with pytest.raises(MissingDataError, match=r"corpus-cooccurrence: no WikiText-2: expected wikitext2/wiki\.train"):
        measured(text, training="wikitext2")
    for wrong in ({"decay": 1.5}, {"k": 0}, {"reach": "far"}, {"tokens": "letters"}, {"training": 7}):
        with pytest.raises(SettingError, match=f"option '{next(iter(wrong))}'"):
            measured(text, **wrong)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ("pairs: nowhere", "no word list 'nowhere'"),
        ("pairs: stop-words", "has none of female, male"),
        ("pairs: [gendered-words, null]", "'pairs' of the suite should be a list of texts"),
        ("groups: [female, male, other]", "has none of other"),
    ],
)
def test_a_wrong_suite_file_names_its_line(tmp_path, changes, expected):
    lines = load_suite(SUITE).path.read_text().replace(f"suite: {SUITE}", "suite: mine").splitlines()
    key = changes.partition(":")[0] + ":"
    path = tmp_path / "mine.yaml"
    path.write_text("\n".join(changes if line.startswith(key) else line for line in lines))
    with pytest.raises(DataFileError, match=rf"mine\.yaml:\d+: .*{expected}"):
        load_suite(str(path))


# Sampling


def sample(model, n, length, seed=0, texts=None, batch_tokens=None, rows=None):
    cases = TextCases([(text,) for text in texts or [""] * n])
    scorer = make_scorer(cases, GeneratedTokens(length, seed), model, batch_tokens)
    return scorer.score(np.arange(n) if rows is None else np.asarray(rows)), scorer


def plain_sample(model, case, length, seed=0, text="", longest=None):
    """One text at a time, read anew for every token, in double precision from the logits on."""
    tokenizer, network = model.backend.tokenizer, model.backend.network
    ids = [tokenizer.bos_token_id, *tokenizer(text, add_special_tokens=False)["input_ids"]]
    found, begin = [], 0
    for chance in np.random.default_rng([seed, case]).random(length):
        if longest and len(ids) - begin > longest:
            begin = len(ids) - longest // 2
        with torch.no_grad():
            logits = network(torch.as_tensor([ids[begin:]])).logits[0, -1].double().numpy()
        p = np.exp(logits - logits.max())
        ids.append(int(np.searchsorted(np.cumsum(p) / p.sum(), chance, side="right")))
        found.append(ids[-1])
    return found


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_samples_are_those_of_a_plain_loop(tiny_model, kind):
    model = tiny_model(kind)
    texts = ["", "The nurse", "", "He is", "The woman is a", ""]
    found, _ = sample(model, 6, 12, seed=3, texts=texts)
    assert found.tolist() == [plain_sample(model, i, 12, 3, text) for i, text in enumerate(texts)]


def test_samples_depend_on_seed_and_number_alone(tiny_model):
    model = tiny_model("gpt2")
    whole, _ = sample(model, 9, 8)
    assert len({tuple(row) for row in whole.tolist()}) == 9
    assert np.array_equal(whole, sample(model, 9, 8)[0])
    assert np.array_equal(whole, sample(model, 9, 8, batch_tokens=1)[0])
    assert np.array_equal(whole[[7, 2]], sample(model, 9, 8, rows=[7, 2])[0])
    assert np.array_equal(whole[:, :5], sample(model, 9, 5)[0])
    assert not np.array_equal(whole, sample(model, 9, 8, seed=1)[0])


def test_tokens_come_from_the_whole_distribution(tiny_model):
    model, n = tiny_model("gpt2"), 4000
    found, _ = sample(model, n, 1)
    with torch.no_grad():
        p = model.backend.network(torch.as_tensor([[model.backend.tokenizer.bos_token_id]])).logits[0, -1].softmax(-1)
    p = p.double().numpy() / p.double().numpy().sum()
    order = np.argsort(-p)
    observed = np.bincount(found[:, 0], minlength=len(p))[order]
    group = np.minimum((np.cumsum(p[order]) * 40).astype(int), 39)  # some forty classes of tokens, alike in size
    seen, expected = np.bincount(group, observed), np.bincount(group, p[order] * n)
    kept = expected > 0
    assert scipy.stats.chisquare(seen[kept], expected[kept]).pvalue > 0.001
    assert (observed > 0).sum() > 50


def test_a_text_longer_than_the_model_reads_goes_on_in_a_window(tiny_model):
    model = tiny_model("gpt2")
    assert model.backend.max_length == 64
    found, scorer = sample(model, 2, 150)
    assert found.tolist() == [plain_sample(model, i, 150, longest=64) for i in range(2)]
    assert scorer.notes == ["texts go on from their last 32 tokens where the 64 are full"]
    assert sample(model, 2, 64)[1].notes == []
    assert sample(model, 2, 65)[1].notes


def test_the_cache_is_used_whatever_the_config_says(tmp_path, monkeypatch):
    model = load_model(str(save_checkpoint("gpt2", tmp_path / "a", use_cache=False)), device="cpu")
    forward, widths = model.backend.network.transformer.forward, []

    def look(input_ids, **given):
        widths.append(input_ids.shape[1])
        return forward(input_ids, **given)

    monkeypatch.setattr(model.backend.network.transformer, "forward", look)
    found, _ = sample(model, 2, 5, texts=["The nurse", "The nurse"])
    assert widths[0] > 1
    assert widths[1:] == [1, 1, 1, 1]
    monkeypatch.undo()
    assert found[1].tolist() == plain_sample(model, 1, 5, text="The nurse")


class Chain(torch.nn.Module):
    """A language model that looks at the last word only: rows of ln P(next word | word)."""

    def __init__(self, table):
        super().__init__()
        self.table = torch.log(torch.as_tensor(table))
        self.config = transformers.PretrainedConfig(vocab_size=len(table))

    def forward(self, input_ids):
        return SimpleNamespace(logits=self.table[input_ids])


def chain_model(table, words=("</s>", "she", "he", "sews", "saws"), **specials):
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="</s>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **specials)
    backend = Checkpoint(Chain(table), fast, "cpu", None)
    return Model("chain", "chain", Role(CAUSAL_LM, "a causal LM"), "chain", {}, backend)


SEWS = [[0, 0.5, 0.5, 0, 0], [0, 0, 0, 0.75, 0.25], [0, 0, 0, 0.25, 0.75], [1, 0, 0, 0, 0], [1, 0, 0, 0, 0]]


def test_a_planted_model_gives_the_bias_it_was_given(tmp_path):
    """Texts of two words, "she sews" thrice as often as "she saws"; many end in a sample, and each is a document."""
    model = chain_model(SEWS, eos_token="</s>")
    training = documents(tmp_path / "a.jsonl", ["she sews", "he saws"] * 3 + ["she saws", "he sews"])
    found = measure(SUITE, model, cache=None, seeds=130, length=60, training=str(training), seed=1)
    assert found.n == found.n_total == 130
    assert found.values["mu"] == pytest.approx(math.log(3), abs=0.15)
    assert found.values["mu_infinite"] == pytest.approx(math.log(3), abs=0.15)
    assert found.values["beta"] == pytest.approx(1, abs=0.1)
    assert any(note.startswith("5,200 words in 2,600 documents") for note in found.notes)
    assert found.bounds["mu"].over == "the suite's cases, all of them, with seed 1 for the generated texts"
    assert {r["text"] for r in slices(found, "excerpts")} <= {"she sews", "he sews", "she saws", "he saws"}
    half = [SEWS[0], [0, 0, 0, 0.5, 0.5], [0, 0, 0, 0.5, 0.5], *SEWS[3:]]
    even = measure(SUITE, chain_model(half, eos_token="</s>"), cache=None, seeds=130, length=60, training=str(training))
    assert abs(even.values["beta"]) < 0.1


def test_excerpts_show_words_in_any_case_where_case_is_folded(tiny_model):
    texts = ["SHE Sews here", "he sews there"]
    found = generated(tiny_model("gpt2"), texts, {"fold_case": True})
    shown = {(r["word"], r["text"]) for r in found.records if r["slice"] == "excerpts"}
    assert shown == {("sews", text) for text in texts}


def test_an_end_of_text_parts_a_sample():
    model = chain_model(SEWS, eos_token="</s>")
    ids = np.asarray([[1, 3, 0, 2, 4, 0], [0, 0, 0, 0, 0, 0], [1, 3, 1, 3, 1, 3]], dtype=np.int32)
    assert sampled_texts(model, ids) == [("she sews", "he saws"), (), ("she sews she sews she sews",)]


def test_models_that_cannot_be_sampled():
    with pytest.raises(NotApplicableError, match="no token for the beginning or end of a text"):
        sample(chain_model(SEWS), 1, 2)
    with pytest.raises(ScoreError, match="NaN or infinite"):
        sample(chain_model(np.full((5, 5), np.nan), eos_token="</s>"), 1, 2)

    class Own:
        def continuation_log_probs(self, prefixes, continuations):
            return np.zeros(len(prefixes))

    with pytest.raises(NotApplicableError, match="measure that: text:FILE"):
        measure(SUITE, Own(), cache=None)


def test_windows_are_small_and_an_interruption_keeps_what_was_sampled(tmp_path, monkeypatch):
    model = chain_model(SEWS, eos_token="</s>")
    cases, query = TextCases([("",)] * 150), GeneratedTokens(6, 0)
    whole, _ = answer(Question(cases, query), model, "ab" * 32, ScoreSettings(), "whole")
    original, sizes = Sampler.score, []

    def stop_after_one(self, rows):
        if sizes:
            raise KeyboardInterrupt
        sizes.append(len(rows))
        return original(self, rows)

    settings = ScoreSettings(cache=tmp_path)
    monkeypatch.setattr(Sampler, "score", stop_after_one)
    with pytest.raises(KeyboardInterrupt):
        answer(Question(cases, query), model, "ab" * 32, settings, "first")
    assert sizes == [64]
    scored = []
    monkeypatch.setattr(Sampler, "score", lambda self, rows: scored.append(len(rows)) or original(self, rows))
    again, _ = answer(Question(cases, query), model, "ab" * 32, settings, "second")
    assert scored == [64, 22]
    assert np.array_equal(again.values, whole.values)
    front, _ = answer(Question(cases, query), model, "ab" * 32, ScoreSettings(limit=40), "front")
    assert np.array_equal(front.values, whole.values[:40])
    assert front.content == whole.content[:40]


def test_the_seed_of_the_run_is_that_of_the_texts(tiny_model):
    suite, role = load_suite(SUITE), tiny_model("gpt2").role
    for seed in (0, 5):
        plan = plan_measurement(suite, "m", role, {"seeds": 3, "length": 7}, seed=seed)
        assert plan.questions["texts"].query == GeneratedTokens(7, seed)
        assert plan.questions["texts"].cases.n_units == 3


# Perplexity


def plain_log_probability(model, ids):
    with torch.no_grad():
        p = model.backend.network(torch.as_tensor([ids])).logits[0].double().log_softmax(-1)
    return sum(float(p[i, token]) for i, token in enumerate(ids[1:]))


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_long_texts_are_scored_in_blocks(tiny_model, kind):
    model = tiny_model(kind)
    texts = ["The nurse said that she was tired. " * 40, "A man is walking.", "The poetess likes to read. " * 15]
    scorer = make_scorer(TextCases([(text,) for text in texts]), BlockLogLikelihood(), model, None)
    found = scorer.score(np.asarray([2, 0, 1]))
    tokenizer = model.backend.tokenizer
    for row, i in zip(found, (2, 0, 1), strict=True):
        ids = tokenizer(texts[i], add_special_tokens=False)["input_ids"]
        blocks = [[tokenizer.bos_token_id, *ids[at : at + 63]] for at in range(0, len(ids), 63)]
        assert row[0] == pytest.approx(sum(plain_log_probability(model, block) for block in blocks), rel=1e-5)
        assert row[1] == len(ids)
    assert scorer.notes[0] == "perplexity: in blocks of 63 tokens, which do not overlap"


def test_perplexity_by_word_and_by_token(tiny_model, tmp_path):
    model = tiny_model("gpt2")
    path = tmp_path / "held-out.txt"
    path.write_text("The nurse said that she was tired.\nA man is walking.\n" * 9)
    found = measure(SUITE, model, cache=None, seeds=2, length=5, evaluation=str(path))
    ids = model.backend.tokenizer(path.read_text(), add_special_tokens=False)["input_ids"]
    blocks = [[model.backend.tokenizer.bos_token_id, *ids[at : at + 63]] for at in range(0, len(ids), 63)]
    total = sum(plain_log_probability(model, block) for block in blocks)
    assert found.values["perplexity"] == pytest.approx(math.exp(-total / (13 * 9)), rel=1e-4)
    assert found.bounds["perplexity"].over == "the suite's cases, all of them"
    item_sums = FAMILY.statistics["perplexity"].item_sums({}, found.items)
    assert item_sums.total == pytest.approx(found.values["perplexity"], rel=1e-9)
    assert np.isnan(item_sums.value(np.asarray([[-1e6, 3.0], [0.0, 0.0]]))).all()
    by_token = math.exp(-total / len(ids))
    assert any(f"117 words ({len(ids)} tokens)" in n and f"{by_token:.2f} by token" in n for n in found.notes)
    assert set(found.signature["data"]) == {"texts", "perplexity", "tokens"}
    assert "--bias-data" in measure(SUITE, model, cache=None, seeds=2, length=5).reasons["perplexity"]


def test_perplexity_by_hand():
    assert perplexity([math.log(0.5), math.log(0.125)], [1, 1]) == pytest.approx(4)
    with pytest.raises(UndefinedError, match="no words"):
        perplexity([], [])
    with pytest.raises(UndefinedError, match="too large"):
        perplexity([-8000.0], [2])


def test_passages_are_whole_lines_as_they_are_written(tmp_path):
    lines = [f"Line {i}, isn't it?\n" for i in range(10)]
    (tmp_path / "a.txt").write_text("".join(lines))
    found = read_passages([tmp_path / "a.txt"], 1000, size=8)
    assert "".join(text for text, _ in found) == "".join(lines)
    assert [words for _, words in found] == [12, 12, 12, 12, 12]  # Line 0 , isn't it ?
    assert read_passages([tmp_path / "a.txt"], 20, size=8) == found[:2]
    assert read_passages([tmp_path / "a.txt"], 4, size=8) == [(lines[0], 6)]
    rows = documents(tmp_path / "b.jsonl", ["She sings.", "He sings."])
    assert read_passages([rows], 1000, size=1) == [("She sings.\n", 3), ("He sings.\n", 3)]
    (tmp_path / "c.txt").write_text(" \n")
    with pytest.raises(DataFileError, match=r"c\.txt: no words"):
        read_passages([tmp_path / "c.txt"], 10)


def test_the_words_of_passages_are_told_apart_once_a_file(tmp_path):
    """A passage in another style than the beginning of its file is counted as it is where the file is a corpus."""
    path = tmp_path / "a.txt"
    path.write_text("She sings , he too .\n" * 4 + "She sings, he too.\n" * 3)
    passages = read_passages([path], 1000, size=1)
    assert [words for _, words in passages] == [6] * 4 + [4] * 3
    assert sum(words for _, words in passages) == feed_corpus(path, Vocabulary()).tokens == 36


def test_the_evaluation_text_is_looked_for_by_name(tiny_model, tmp_path):
    suite, role = load_suite(SUITE), tiny_model("gpt2").role
    (tmp_path / "wikitext2").mkdir()
    (tmp_path / "wikitext2" / "wiki.valid.tokens").write_text(" = Title = \n she sings . \n")
    plan = plan_measurement(suite, "m", role, {}, tmp_path)
    assert plan.questions["perplexity"].cases.facts["text"].tolist() == ["wikitext2, valid"]
    assert plan.questions["perplexity"].whole
    assert set(plan_measurement(suite, "m", role, {}).questions) == {"texts"}
    with pytest.raises(MissingDataError, match=r"wiki\.test\.tokens"):
        plan_measurement(suite, "m", role, {"evaluation": "wikitext2/test"}, tmp_path)
    assert DataFolder(tmp_path).locate("wikitext2")[1] == "valid"


# Real texts and a real model


def test_real_texts(shared_data):
    brown = answered(SUITE, load_model(f"text:{shared_data / 'corpora' / 'brown.jsonl.gz'}")).summary
    assert brown.count == 1_013_319, "words, of 1,161,192 tokens"
    assert brown.values["mu"] == pytest.approx(0.7780, abs=1e-3)  # the paper has 0.72 to 0.83 for its training texts
    assert any("+1.0599" in note and "mu is 1.3606" in note for note in brown.notes)
    assert slices(brown, "most female")[0]["word"] == "dress"
    assert "team" in {r["word"] for r in slices(brown, "most male")}
    valid = measured(
        shared_data / "wikitext2" / "valid.txt.gz", training=str(shared_data / "corpora" / "inaugural.txt.gz")
    )
    assert valid.values["mu"] == pytest.approx(0.7779, abs=1e-3)
    assert -1 < valid.values["beta"] < 1


def test_the_real_model(real_lm, shared_data):
    found = measure(SUITE, real_lm, cache=None, data=shared_data, seeds=32, length=120, evaluation_words=1000)
    bias = {r["word"]: r["bias"] for r in found.records if "bias" in r}
    assert bias["Lily"] > 1 > -1 > bias["Tim"]
    assert found.values["beta"] is None
    assert found.values["perplexity"] > 1000  # of WikiText, by a model of children's stories
    assert any("of wikitext2, valid" in note for note in found.notes)
    assert len(slices(found, "excerpts")) == 12


def test_a_changed_checkpoint_is_sampled_anew(tmp_path):
    """The fingerprint keeps apart what two checkpoints generate."""
    settings = ScoreSettings(cache=tmp_path / "cache")
    cases, query = TextCases([("",)] * 4), GeneratedTokens(6, 0)
    found = []
    for seed in (0, 1):
        model = load_model(str(save_checkpoint("gpt2", tmp_path / str(seed), seed=seed)), device="cpu")
        found.append(answer(Question(cases, query), model, "cd" * 32, settings, "x")[0].values)
    assert not np.array_equal(*found)


def test_a_baseline_of_the_older_definition_is_refused(tmp_path):
    """Its mu has the corpus's share of men and women in it."""
    now = measured(documents(tmp_path / "a.jsonl", SEWING))
    older = {**now.signature, "definition": "corpus/1", "settings": {**now.signature["settings"], "group_share": True}}
    then = dataclasses.replace(now, signature=older, values={**now.values, "mu": 2.2})
    write_entries(tmp_path, "m", "t.py", {"corpus": entry_of(then)})
    judged = Baseline(tmp_path, "m", "t.py").judge(now, 0.01, "mu", name="corpus")
    assert judged.code == "not_comparable"
    assert "definition: corpus/1 stored, corpus/2 now" in judged.text
