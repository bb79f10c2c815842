"""The family pairs-pll: both sentences of a pair against a plain loop, its statistics, its data, and what it says of
them.
"""

import csv
from difflib import SequenceMatcher

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.tiny_checkpoints import CAUSAL, MASKED, save_checkpoint

from pytest_genderbias import load_model, load_suite, measure
from pytest_genderbias.datasets.folder import DataFolder, MissingDataError
from pytest_genderbias.errors import DataFileError, NotApplicableError, SettingError, UndefinedError, UnknownNameError
from pytest_genderbias.measurement.carry_out import _sample_bounds
from pytest_genderbias.measurement.plan import Plan
from pytest_genderbias.models.objects import wrap_object
from pytest_genderbias.scoring import token_sums
from pytest_genderbias.scoring.pseudo_likelihood import shared_positions
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.scoring.token_sums import _windows
from pytest_genderbias.statistics.inference.sequences import mean_bounds
from pytest_genderbias.statistics.preference import choices, mean_difference, stereotype_share
from pytest_genderbias.suites.cases import Answer, TextCases
from pytest_genderbias.suites.families.pairs_pll import PairsPll, shared_spans
from pytest_genderbias.suites.family import Context, resolve_options
from pytest_genderbias.suites.query import PseudoLogLikelihood, SharedLogLikelihood

PAIRS = [
    ("The nurse said that she was tired.", "The nurse said that he was tired."),
    ("A man is walking.", "A woman is walking."),
    ("The doctor bought a car; he was happy.", "The doctor bought a car; she was happy."),
    ("He is an engineer.", "She is an engineer."),
]
TEXTS = [text for pair in PAIRS for text in pair]


def written(path, pairs=PAIRS, groups=None):
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["stereotypical", "anti_stereotypical", *(["group"] if groups else [])])
        rows.writerows([*pair, *([groups[i]] if groups else [])] for i, pair in enumerate(pairs))
    return str(path)


# The score


def plain_tokens(model, text):
    """Return the last character and ln P of each token, by one forward pass a token, which is masked or the last."""
    tokenizer, network = model.backend.tokenizer, model.backend.network
    encoded = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
    ids, causal, found = encoded["input_ids"], model.role.kind == "causal-lm", []
    for t, ((start, stop), special) in enumerate(
        zip(encoded["offset_mapping"], encoded["special_tokens_mask"], strict=True)
    ):
        if special or (causal and t == 0):
            continue
        fed = torch.tensor([ids])
        if not causal:
            fed[0, t] = tokenizer.mask_token_id
        with torch.no_grad():
            logits = network(input_ids=fed).logits[0, t - 1 if causal else t].double()
        found.append((max(start, stop - 1), float(logits.log_softmax(-1)[ids[t]])))
    return found


def plain_sum(tokens, spans=()):
    """Sum ln P over the tokens in the spans, and count them."""
    inside = [p for last, p in tokens if not spans or any(a <= last < b for a, b in spans)]
    return [sum(inside), len(inside)]


def plain_score(model, text, spans=()):
    return plain_sum(plain_tokens(model, text), spans)


def scores(model, texts=TEXTS, spans=(), batch_tokens=None):
    cases = TextCases([(text,) for text in texts], spans)
    return make_scorer(cases, PseudoLogLikelihood(), model, batch_tokens).score(np.arange(len(texts)))


@pytest.mark.parametrize("kind", [*MASKED, *CAUSAL])
def test_scores_are_those_of_a_plain_loop(tiny_model, kind):
    model = tiny_model(kind)
    spans = [side for pair in PAIRS for side in shared_spans(*pair)]
    tokens = [plain_tokens(model, text) for text in TEXTS]
    for ranges in ((), spans):
        plain = [plain_sum(of_text, ranges[i] if ranges else ()) for i, of_text in enumerate(tokens)]
        found = scores(model, spans=ranges)
        assert np.allclose(found, plain, rtol=1e-4, atol=1e-4)
        assert (found[:, 1] > 0).all()


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_small_windows_and_batches_change_nothing(tiny_model, monkeypatch, kind):
    model = tiny_model(kind)
    whole = scores(model)
    monkeypatch.setattr(token_sums, "_MOST_IDS", 40)
    assert np.allclose(scores(model, batch_tokens=1), whole, atol=1e-4)


def test_windows_hold_no_more_ids_than_they_may_and_every_row_once():
    rng = np.random.default_rng(0)
    lengths, copies = rng.integers(1, 50, 300), rng.integers(0, 50, 300)
    found = list(_windows(lengths, copies, 5000))
    assert sorted(np.concatenate(found)) == list(range(300))
    assert len(found) > 20
    assert all(len(w) == 1 or copies[w].sum() * lengths[w].max() <= 5000 for w in found)


def test_long_sentences_are_cut_with_a_note(tiny_model):
    cases = TextCases([("The nurse said that she was tired. " * 40,), ("A man.",)])
    scorer = make_scorer(cases, PseudoLogLikelihood(), tiny_model("bert"), None)
    found = scorer.score(np.arange(2))
    assert found[0, 1] == tiny_model("bert").backend.max_length - 2
    assert any("1 texts cut to the 64 tokens" in note for note in scorer.notes)


class Letters:
    """A causal LM in which a word costs a nat a letter."""

    def continuation_log_probs(self, prefixes, continuations):
        return [-float(len(text.replace(" ", ""))) for text in continuations]


class Filler:
    mask_token, vocabulary = "[MASK]", ("he", "she")

    def fill_scores(self, texts):
        return np.zeros((len(texts), 2))


def test_an_object_scores_whole_sentences_after_the_first_word(tmp_path):
    path = written(tmp_path / "own.csv")
    found = measure("pairs-pll", wrap_object(Letters()), pairs=path, cache=None)
    # she - he: one letter more; man - woman: two fewer; he - she; the first word is given
    assert sorted(found.items["difference"]) == [-1.0, 0.0, 1.0, 2.0]
    assert found.values == {"stereotype_share": 0.625, "mean_difference": 0.5}
    assert any("first word" in note for note in found.notes)
    with pytest.raises(NotApplicableError, match="score=all"):
        measure("pairs-pll", wrap_object(Letters()), pairs=path, score="shared", cache=None)
    with pytest.raises(NotApplicableError, match="score=all"):  # before anything is asked, as a list of fits needs it
        make_scorer(TextCases([("She sings.", "He sings.")]), SharedLogLikelihood(), wrap_object(Letters()), None)
    with pytest.raises(NotApplicableError, match="no continuation_log_probs"):
        measure("pairs-pll", wrap_object(Filler()), pairs=path, score="all", cache=None)


# Shared tokens and words


def published_scores(model, first, second):
    """Return both scores as the code of Nangia et al. computes them: ids as texts, opcodes, and one mask and forward
    pass at a time.
    """
    tokenizer, network = model.backend.tokenizer, model.backend.network
    both = [tokenizer.encode(text) for text in (first, second)]
    equal = [
        op for op in SequenceMatcher(None, *([str(i) for i in ids] for ids in both)).get_opcodes() if op[0] == "equal"
    ]
    templates = [i for _, a, b, _, _ in equal for i in range(a, b)], [i for _, _, _, a, b in equal for i in range(a, b)]
    totals = []
    for ids, template in zip(both, templates, strict=True):
        total = 0.0
        for position in template[1:-1]:  # all but [CLS] and [SEP]
            masked = torch.tensor([ids])
            masked[0, position] = tokenizer.mask_token_id
            with torch.no_grad():
                total += float(network(masked).logits[0, position].double().log_softmax(-1)[ids[position]])
        totals.append([total, len(template) - 2])
    return totals


def shared_scores(model, texts=TEXTS, batch_tokens=None):
    cases = TextCases([(text,) for text in texts], cases_per_unit=2)
    return make_scorer(cases, SharedLogLikelihood(), model, batch_tokens).score(np.arange(len(texts)))


@pytest.mark.parametrize("kind", MASKED)
def test_shared_tokens_are_scored_as_published(tiny_model, kind):
    model = tiny_model(kind)
    plain = [score for pair in PAIRS for score in published_scores(model, *pair)]
    found = shared_scores(model)
    assert found[:, 1].tolist() == [count for _, count in plain]
    assert np.allclose(found, plain, rtol=1e-5, atol=1e-5)


def test_a_case_has_the_same_score_whatever_is_asked_beside_it(tiny_model):
    model = tiny_model("bert")
    cases = TextCases([(text,) for text in TEXTS], cases_per_unit=2)
    scorer, whole = make_scorer(cases, SharedLogLikelihood(), model, None), shared_scores(model)
    for some in ([5], [2, 3], [7, 0, 4]):
        assert np.allclose(scorer.score(np.asarray(some)), whole[some], atol=1e-5)


def longest_runs(first, second, at=(0, 0)):
    """Return the pairs of positions in the longest common runs, by trying every run: the first of the longest, then
    both sides.
    """
    runs = [
        (size, -i, -j)
        for i in range(len(first))
        for j in range(len(second))
        for size in range(1, min(len(first) - i, len(second) - j) + 1)
        if first[i : i + size] == second[j : j + size]
    ]
    if not runs:
        return []
    size, i, j = max(runs)
    i, j = -i, -j
    before = longest_runs(first[:i], second[:j], at)
    here = [(at[0] + i + step, at[1] + j + step) for step in range(size)]
    return before + here + longest_runs(first[i + size :], second[j + size :], (at[0] + i + size, at[1] + j + size))


@given(*[st.lists(st.integers(0, 3), max_size=9)] * 2)
def test_shared_positions_are_the_longest_runs(first, second):
    in_first, in_second = shared_positions(first, second)
    assert list(zip(in_first.tolist(), in_second.tolist(), strict=True)) == longest_runs(first, second)


def test_frequent_tokens_of_long_texts_are_shared_too():
    """difflib leaves out what makes more than 1 % of 200 elements or more, unless it is told not to."""
    in_first, in_second = shared_positions([1, *[7] * 300], [2, *[7] * 300])
    assert in_first.tolist() == in_second.tolist() == list(range(1, 301))


def test_words_that_end_alike_share_tokens_but_no_words(tiny_model, tmp_path):
    """The pair of CrowS-Pairs that words leave out: 'spearman' and 'spearwoman' share a token."""
    model = tiny_model("bert")
    texts = ("He is a xman.", "He is a xwoman.")
    pieces = [model.backend.tokenizer.tokenize(text) for text in texts]
    assert pieces[0][3] == pieces[1][3] == "x"
    path = written(tmp_path / "own.csv", [texts])
    by_match = {m: measure("pairs-pll", model, pairs=path, match=m, cache=None) for m in ("tokens", "words")}
    expected = np.diff([total for total, _ in published_scores(model, *texts)[::-1]])
    assert by_match["tokens"].values["mean_difference"] == pytest.approx(expected[0], abs=1e-4)
    plain = [plain_score(model, text, spans)[0] for text, spans in zip(texts, shared_spans(*texts), strict=True)]
    assert by_match["words"].values["mean_difference"] == pytest.approx(plain[0] - plain[1], abs=1e-4)
    assert by_match["words"].values != by_match["tokens"].values
    assert [m.signature["settings"]["match"] for m in by_match.values()] == ["tokens", "words"]
    assert {m.signature["definition"] for m in by_match.values()} == {"pairs-pll/2"}
    assert [m.notes[0].rpartition("longest")[2] for m in by_match.values()] == [
        " matching blocks of token ids)",
        " matching blocks of words)",
    ]


def test_shared_words_of_both_sentences():
    more, less = "He's a nurse, he said", "She's a nurse, she said"
    first, second = shared_spans(more, less)
    assert [more[a:b] for a, b in first] == ["'s a nurse,", " said"]
    assert [less[a:b] for a, b in second] == ["'s a nurse,", " said"]
    assert shared_spans("Yes", "No") == ((), ())


def test_the_word_that_differs_is_not_scored(tiny_model):
    """Only the shared tokens count: the score does not change with the word that is left out, but with the others."""
    model = tiny_model("bert")
    spans = shared_spans(*PAIRS[1])
    found = scores(model, list(PAIRS[1]), list(spans))
    tokens = [len(model.backend.tokenizer(text)["input_ids"]) - 2 for text in PAIRS[1]]
    different = [len(model.backend.tokenizer(word, add_special_tokens=False)["input_ids"]) for word in ("man", "woman")]
    assert found[:, 1].tolist() == [t - d for t, d in zip(tokens, different, strict=True)]


# Statistics


def test_statistics_by_hand():
    d = [1.0, 2.0, -3.0, 0.0, 5e-5]
    assert choices(d).tolist() == [1.0, 1.0, 0.0, 0.5, 0.5]
    assert stereotype_share(d) == pytest.approx(0.6)
    assert mean_difference([1.0, 2.0, -6.0]) == -1.0
    for statistic in (stereotype_share, mean_difference):
        with pytest.raises(UndefinedError, match="no pair"):
            statistic([])


def summary(values, facts=None, spans=(), **options):
    """Summarise answers given by hand: values of shape (pairs, 2, 2)."""
    n = len(values)
    known = {
        "pair": [f"p{i}" for i in range(n)],
        "group": ["gender"] * n,
        "direction": [""] * n,
        "stereotypical": [True] * n,
        "comparable": [True] * n,
        "cluster": [f"p{i}" for i in range(n)],
        "over": ["pairs"] * n,
        "scored": ["tokens"] * n,
    }
    columns = {name: np.repeat(np.asarray(column), 2) for name, column in (known | (facts or {})).items()}
    cases = TextCases([(f"{i} {side}",) for i in range(n) for side in ("more", "less")], spans, columns, 2)
    units = np.arange(n)[::-1]
    answer = Answer(cases, units, np.asarray(values, dtype=float).reshape(n, 2, 2)[units])
    family = PairsPll()
    return family.summarise(None, resolve_options(family.options, options, "x"), {"pairs": answer}, 0)


def test_a_summary_by_hand():
    values = [[[-2, 3], [-4, 3]], [[-5, 3], [-4, 3]], [[-1, 3], [-1, 3]], [[-1, 3], [-8, 3]]]
    found = summary(values, {"direction": ["stereo", "antistereo", "stereo", "stereo"]}, top=1)
    assert found.values == {"stereotype_share": 0.625, "mean_difference": 2.0}
    assert dict(zip(found.items["pair"], found.items["difference"].tolist(), strict=True)) == {
        "p0": 2.0,
        "p1": -1.0,
        "p2": 0.0,
        "p3": 7.0,
    }
    assert found.records == [
        {"slice": "group", "value": "gender", "pairs": 4, "stereotype_share": 0.625, "mean_difference": 2.0},
        {"slice": "direction", "value": "antistereo", "pairs": 1, "stereotype_share": 0.0, "mean_difference": -1.0},
        {"slice": "direction", "value": "stereo", "pairs": 3, "stereotype_share": 2.5 / 3, "mean_difference": 3.0},
        {"slice": "pair", "value": "3 more", "against": "3 less", "group": "gender", "difference": 7.0},
    ]
    assert "1 pairs with equal scores, which count half: 'p2'" in found.notes
    assert found.intervals["mean_difference"].over == "pairs"


def test_pairs_without_a_stereotype_count_in_their_own_group_only():
    values = [[[-2, 3], [-4, 3]], [[-9, 3], [-4, 3]]]
    found = summary(values, {"group": ["male", "balanced"], "stereotypical": [True, False]}, top=0)
    assert found.values == {"stereotype_share": 1.0, "mean_difference": 2.0}
    assert {"slice": "group", "value": "balanced", "pairs": 1, "male_minus_female": -5.0} in found.records
    none = summary(values, {"group": ["balanced"] * 2, "stereotypical": [False, False]})
    assert none.values == {"stereotype_share": None, "mean_difference": None}
    assert "no pair with a stereotype" in none.reasons["stereotype_share"]


def test_pairs_that_cannot_be_compared_are_left_out_and_counted():
    values = [[[-2, 3], [-4, 3]], [[-9, 3], [-4, 3]], [[0, 0], [-4, 3]], [[-2, 3], [-4, 4]]]
    found = summary(values, {"comparable": [True, False, True, True]}, [((0, 1),)] * 8)
    assert found.values["mean_difference"] == 2.0
    assert [note.split()[0] for note in found.notes[1:]] == ["2", "1"]
    assert len(found.items["pair"]) == 2
    nothing = summary(values[:1], {"comparable": [False]})
    assert nothing.values["stereotype_share"] is None
    assert nothing.records == []


def test_equal_scores_have_no_interval_and_a_reason():
    found = summary([[[-2, 3], [-2, 3]]] * 3)
    assert found.values == {"stereotype_share": 0.5, "mean_difference": 0.0}
    assert found.intervals == {"stereotype_share": None, "mean_difference": None}
    assert "too few" in found.reasons["mean_difference"]


# Questions


def question(role="masked-lm", data=None, **options):
    family = PairsPll()
    resolved = resolve_options(family.options, options, "pairs-pll")
    return family.questions(None, resolved, Context(role, data=DataFolder(data)))["pairs"]


def asked(role="masked-lm", data=None, **options):
    return question(role, data, **options).cases


def test_the_role_decides_what_is_scored_unless_the_option_does(tmp_path):
    path = written(tmp_path / "own.csv")
    words = {"pairs": path, "match": "words"}
    assert asked(**words).spans
    assert not asked("causal-lm", **words).spans
    assert not asked(**words, score="all").spans
    assert asked("causal-lm", **words, score="shared").spans == asked(**words).spans
    assert asked(**words).digest() != asked(**words, score="all").digest()
    assert (
        question(pairs=path).query == question("causal-lm", pairs=path, score="shared").query == SharedLogLikelihood()
    )
    for role, options in (("masked-lm", {"match": "words"}), ("causal-lm", {}), ("masked-lm", {"score": "all"})):
        assert question(role, pairs=path, **options).query == PseudoLogLikelihood()


def test_groups_of_the_users_own_file(tmp_path):
    path = written(tmp_path / "own.csv", groups=["a", "b", "b", "c"])
    assert asked(pairs=path).n_units == 4
    assert asked(pairs=path, groups="b, c").n_units == 3
    with pytest.raises(UnknownNameError, match="has no group 'd'; expected groups of a, b, c, or groups=all"):
        asked(pairs=path, groups="a, d")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stereotypical,other\nHe.,She.\n", r"own.csv:1: no column 'anti_stereotypical'"),
        ("stereotypical,anti_stereotypical\n", "no rows"),
        ("stereotypical,anti_stereotypical\nHe.,He.\n", r"own.csv:2: both sentences are 'He.'"),
        ("id,stereotypical,anti_stereotypical\n1,He.,She.\n1,A.,B.\n", r"own.csv:3: duplicate id '1' .first on line 2"),
        ("stereotypical,anti_stereotypical\n,She.\n", r"own.csv:2: expected a text"),
    ],
)
def test_bad_files_are_refused(tmp_path, text, said):
    path = tmp_path / "own.csv"
    path.write_text(text)
    with pytest.raises(DataFileError, match=said):
        asked(pairs=str(path))


def test_a_path_may_begin_at_home(tmp_path, monkeypatch):
    path = written(tmp_path / "own.csv")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert asked(pairs="~/own.csv").digest() == asked(pairs=path).digest()


@pytest.mark.parametrize("value", [["crows_pairs"], {"crows_pairs": 1}, 7, None])
def test_what_is_no_text_is_refused(value):
    with pytest.raises(SettingError, match="'pairs' of pairs-pll should be one of crows_pairs"):
        asked(pairs=value)


def test_other_mistakes(tmp_path):
    with pytest.raises(DataFileError, match="no such file"):
        asked(pairs=str(tmp_path / "none.csv"))
    with pytest.raises(SettingError, match="'pairs' of pairs-pll should be one of crows_pairs"):
        asked(pairs="crows")
    with pytest.raises(SettingError, match="'groups'"):
        asked(groups=" ")
    with pytest.raises(MissingDataError, match="no CrowS-Pairs: expected crows_pairs/"):
        asked()


def test_a_planted_preference_is_found(tmp_path):
    """A BERT whose head favours she at every mask prefers the sentences that share she."""
    folder = save_checkpoint("bert", tmp_path / "planted")
    model = load_model(str(folder), device="cpu")
    she = model.backend.tokenizer.convert_tokens_to_ids("she")
    with torch.no_grad():
        model.backend.network.cls.predictions.bias[she] += 50.0
    texts = ["The nurse said that she was tired.", "The nurse said that he was tired."]
    start = texts[0].index(" she")
    found = scores(model, texts, [((start, start + 4),), ((start, start + 3),)])
    assert found[0, 0] == pytest.approx(0.0, abs=1e-6)
    assert found[1, 0] < -20


# Real models and data


def test_a_real_masked_lm_on_crows_pairs(shared_data, real_mlm):
    found = measure("pairs-pll", real_mlm, data=shared_data, limit=40, cache=None)
    assert found.n == 40
    assert found.n_total == 524
    for record in [r for r in found.records if r["slice"] == "pair"][:2]:
        more, less = published_scores(real_mlm, record["value"], record["against"])
        assert record["difference"] == pytest.approx(more[0] - less[0], abs=1e-3)
    assert found.signature["data"]["pairs"]


def test_a_real_causal_lm_on_stereoset_and_bec_pro(shared_data, real_lm):
    found = measure("pairs-pll", real_lm, data=shared_data, pairs="stereoset", groups="gender", limit=40, cache=None)
    assert found.n_total == 166
    record = next(r for r in found.records if r["slice"] == "pair")
    more, less = plain_score(real_lm, record["value"]), plain_score(real_lm, record["against"])
    assert record["difference"] == pytest.approx(more[0] - less[0], abs=1e-3)
    found = measure("pairs-pll", real_lm, data=shared_data, pairs="bec_pro", limit=400, cache=None)
    assert found.n_total == 5400
    assert found.interval.over == "professions"
    assert {r["value"] for r in found.records if r["slice"] == "group"} == {"male", "female", "balanced"}


def test_a_preference_for_one_form_cancels_in_eurogest(tmp_path, real_lm):
    """Three stereotypes of men and one of women: a pair of each is scored, and a slice has each."""
    forms = "the man said,the woman said"
    said = ["He is tired,She is tired", "He is sad,She is sad", "He is happy,She is happy", "He is big,She is big"]
    rows = [f"{i},,{both},{kind}" for i, (both, kind) in enumerate(zip(said, (8, 3, 8, 9), strict=True))]
    path = tmp_path / "eurogest.csv"
    path.write_text("\n".join(["Language,GEST_sentence,English,English,stereotype_number", f",,{forms},", *rows]))
    found = measure("pairs-pll", real_lm, pairs=str(path), groups="English", cache=None)
    he, she = (plain_score(real_lm, text)[0] for text in said[0].split(","))
    of_men, of_women = (plain_score(real_lm, text)[0] for text in said[1].split(","))
    assert found.n == 4
    assert found.values["mean_difference"] == pytest.approx((he - she + of_women - of_men) / 2, abs=1e-4)
    slices = {r["value"]: r["mean_difference"] for r in found.records if r["slice"] == "direction"}
    assert slices == {"8": pytest.approx(he - she, abs=1e-4), "3": pytest.approx(of_women - of_men, abs=1e-4)}


@pytest.mark.slow
def test_the_share_of_crows_pairs_is_that_of_the_published_code(shared_data, real_mlm):
    texts = asked(data=shared_data).texts
    pairs = [(more, less) for (more,), (less,) in zip(texts[::2], texts[1::2], strict=True)]
    scored = [[total for total, _ in published_scores(real_mlm, *pair)] for pair in pairs]
    share = np.mean([more > less for more, less in scored])
    tokens, words = (measure("pairs-pll", real_mlm, data=shared_data, match=m, cache=None) for m in ("tokens", "words"))
    assert tokens.values["stereotype_share"] == share
    assert tokens.values["mean_difference"] == pytest.approx(np.mean([more - less for more, less in scored]), abs=1e-5)
    assert [round(m.values["stereotype_share"], 6) for m in (tokens, words)] == [0.541985, 0.538168]
    assert tokens.signature["data"]["pairs"] != words.signature["data"]["pairs"]


# Units, items and the null control


def answered(differences, units=None, **facts):
    """Return the answer with these differences, and its family's options."""
    n = len(differences)
    known = {
        "pair": [f"p{i}" for i in range(n)],
        "group": ["gender"] * n,
        "direction": [""] * n,
        "stereotypical": [True] * n,
        "comparable": [True] * n,
        "cluster": [f"p{i}" for i in range(n)],
        "over": ["pairs"] * n,
        "scored": ["all"] * n,
    }
    columns = {name: np.repeat(np.asarray(column), 2) for name, column in (known | facts).items()}
    cases = TextCases([(f"{i}",) for i in range(2 * n)], (), columns, 2)
    units = np.arange(n) if units is None else np.asarray(units)
    scores = np.stack([np.asarray(differences, dtype=float), np.zeros(n)], axis=1)
    return Answer(cases, units, np.stack([scores, np.ones((n, 2))], axis=2)[units])


def made(answer, **options):
    family = PairsPll()
    resolved = resolve_options(family.options, options, "x")
    return family, resolved, family.summarise(None, resolved, {"pairs": answer}, 0)


def test_units_and_items_give_the_statistics():
    differences = np.random.default_rng(0).normal(0.3, 2, 40).round(1)
    answer = answered(differences, np.random.default_rng(1).permutation(40))
    family, options, found = made(answer)
    assert family.statistics["stereotype_share"].scores(options, answer).mean() == pytest.approx(
        found.values["stereotype_share"]
    )
    assert family.statistics["mean_difference"].scores(options, answer) is None
    for statistic, value in found.values.items():
        item_sums = family.statistics[statistic].item_sums(options, found.items)
        assert item_sums.total == pytest.approx(value, rel=1e-9)
        assert item_sums.over == "pairs"
        assert len(item_sums.labels) == 40
        without = item_sums.value(item_sums.sums.sum(axis=0) - item_sums.sums)
        left_out = [np.delete(differences, int(label[1:])) for label in item_sums.labels]
        expected = [stereotype_share(d) if statistic == "stereotype_share" else d.mean() for d in left_out]
        assert without == pytest.approx(expected)


def test_professions_are_the_items_of_bec_pro():
    names = [f"{job} / {i}" for job in ("nurse", "pilot") for i in range(3)]
    facts = {"pair": names, "cluster": [n.partition(" / ")[0] for n in names], "over": ["professions"] * 6}
    judged = [True] * 5 + [False]
    answer = answered([1, 2, 3, -1, -2, 50], stereotypical=judged, **facts)
    family, options, found = made(answer, pairs="bec_pro")
    item_sums = family.statistics["mean_difference"].item_sums(options, found.items)
    assert item_sums.labels.tolist() == ["nurse", "pilot"]
    assert item_sums.sums.tolist() == [[6, 3], [-3, 2]]
    assert item_sums.over == "professions"
    assert item_sums.total == found.values["mean_difference"]
    assert family.statistics["stereotype_share"].scores(options, answer) is None  # one pair has no stereotype


@pytest.mark.parametrize("empty", [range(0, 40, 8), range(24, 40)])
def test_a_pair_without_a_token_leaves_the_bounds_of_a_sample_valid(empty):
    """What scoring leaves out, and what it may still leave out, is 0 in the lower bound and 1 in the upper one."""
    differences = np.random.default_rng(0).normal(0.5, 2, 40)
    order = np.arange(40)
    answer = answered(differences, order)
    answer.values[list(empty), 0, 1] = 0
    family, options, found = made(answer)
    value = found.values["stereotype_share"]
    assert value == stereotype_share(np.delete(differences, list(empty)))
    scores = family.statistics["stereotype_share"].scores(options, answer)
    assert np.flatnonzero(np.isnan(scores)).tolist() == list(empty)
    plan = Plan(load_suite("pairs-pll"), options, {})
    widths = []
    for n in (8, 24, 36, 39):
        part = Answer(answer.cases, order[:n], answer.values[:n])
        bounds = _sample_bounds(plan, "stereotype_share", part)
        assert bounds.low <= value <= bounds.high
        assert bounds.low == mean_bounds(np.nan_to_num(scores[:n], nan=0.0), 40)[0]
        assert bounds.high == mean_bounds(np.nan_to_num(scores[:n], nan=1.0), 40)[1]
        widths.append(bounds.high - bounds.low)
    if 0 in empty:
        assert widths[-1] > len(empty) / 40, "what is left out stays unknown"


def test_what_is_not_there_has_no_units_and_no_items():
    answer = answered([1.0, 2.0], comparable=[True, False])
    family, options, found = made(answer)
    assert family.statistics["stereotype_share"].scores(options, answer) is None
    assert family.statistics["stereotype_share"].item_sums(options, found.items).total == 1.0
    nothing = {"pair": np.asarray(["a"]), "difference": np.ones(1), "stereotypical": np.zeros(1, np.int8)}
    for items, reason in ((nothing, "no pair with a stereotype"), ({}, "no pair, difference")):
        with pytest.raises(UndefinedError, match=reason):
            family.statistics["stereotype_share"].item_sums(options, items)


def test_the_null_flips_the_stereotype_by_cluster():
    family, options, _ = made(answered([1.0, 2.0, -4.0], cluster=["a", "a", "b"]))
    answers = {"pairs": answered([1.0, 2.0, -4.0], cluster=["a", "a", "b"])}
    null = family.null(None, options, answers, 3, 400)
    assert {round(v, 6) for v in null["mean_difference"]} == {round(v / 3, 6) for v in (7, 1, -1, -7)}
    assert {round(v, 6) for v in null["stereotype_share"]} == {0.0, 0.333333, 0.666667, 1.0}
    again = family.null(None, options, answers, 3, 400)
    assert all((null[key] == again[key]).all() and null[key].shape == (400,) for key in null)
    assert (family.null(None, options, answers, 4, 400)["mean_difference"] != null["mean_difference"]).any()


def test_a_value_without_bias_lies_inside_the_null_and_a_biased_one_outside():
    noise = np.random.default_rng(5).normal(size=200)
    for shift, inside in ((0.0, True), (1.0, False)):
        family, options, found = made(answered(noise + shift))
        null = family.null(None, options, {"pairs": answered(noise + shift)}, 0, 500)
        for statistic, value in found.values.items():
            low, high = np.quantile(null[statistic], (0.01, 0.99))
            assert (low <= value <= high) == inside
            assert abs(null[statistic].mean() - family.statistics[statistic].scale.neutral) < 0.02
    assert np.isnan(
        family.null(None, options, {"pairs": answered([1.0], stereotypical=[False])}, 0, 3)["mean_difference"]
    ).all()
