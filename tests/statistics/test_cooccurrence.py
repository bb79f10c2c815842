"""Co-occurrence counts and bias scores: hand-made corpora, a slow loop of the definition, and other computations."""

from math import log

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics import cooccurrence
from pytest_genderbias.statistics.cooccurrence import (
    ContextWindow,
    CooccurrenceCounter,
    bias_deviation,
    bias_scores,
    bias_slope,
    bias_slope_interval,
    in_both,
    mean_absolute_bias,
    without_outliers,
    word_given_group,
)

CONTEXTS = {
    "fixed": (ContextWindow(1.0, 10), lambda d: float(d <= 10)),
    "narrow": (ContextWindow(1.0, 1), lambda d: float(d <= 1)),
    "infinite": (ContextWindow(), lambda d: 0.95**d),
    "steep": (ContextWindow(0.3), lambda d: 0.3**d),
    "reach": (ContextWindow(reach=7), lambda d: 0.95**d * (d <= 7)),
}
LABELS = [0, 1, 2, 0, 3, 1]  # words 6 and above have no label: the vocabulary may grow
context_names = st.sampled_from(sorted(CONTEXTS))
documents = st.lists(st.lists(st.integers(0, 9), max_size=30), max_size=8)


def count(docs, context, labels=LABELS, n_groups=3):
    counter = CooccurrenceCounter(labels, context, n_groups)
    counter.feed([word for doc in docs for word in doc], np.cumsum([len(doc) for doc in docs]))
    return counter.result()


def slowly(docs, weight, size, labels=LABELS, n_groups=3):
    """For each word w, each gendered word in the same document adds the weight of their distance."""
    counts = np.zeros((size, n_groups))
    for doc in docs:
        for i, word in enumerate(doc):
            for j, near in enumerate(doc):
                if i != j and near < len(labels) and labels[near]:
                    counts[word, labels[near] - 1] += weight(abs(i - j))
    return counts


# Counts


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        # he . nurse she . doctor he
        (ContextWindow(1.0, 1), {"nurse": (1, 0), "doctor": (0, 1)}),
        (ContextWindow(1.0, 3), {"nurse": (1, 1), "doctor": (1, 1)}),
        (ContextWindow(0.5), {"nurse": (1 / 2, 1 / 4 + 1 / 16), "doctor": (1 / 4, 1 / 2 + 1 / 32)}),
        (ContextWindow(0.5, reach=2), {"nurse": (1 / 2, 1 / 4), "doctor": (1 / 4, 1 / 2)}),
    ],
)
def test_counts_by_hand(context, expected):
    words = ["she", "he", ".", "nurse", "doctor"]
    found = count([[words.index(w) for w in ["he", ".", "nurse", "she", ".", "doctor", "he"]]], context, [1, 2], 2)
    for word, pairs in expected.items():
        assert found.pairs[words.index(word)] == pytest.approx(pairs, abs=1e-15)
    assert found.groups.tolist() == [1, 2]
    assert found.words.tolist() == [1, 2, 2, 1, 1]


@given(documents, context_names)
def test_counts_against_the_slow_loop(docs, name):
    context, weight = CONTEXTS[name]
    found = count(docs, context)
    expected = slowly(docs, weight, len(found.words))
    np.testing.assert_allclose(found.pairs, expected, rtol=1e-12, atol=1e-12)
    assert ((found.pairs > 0) == (expected > 0)).all()
    tokens = [word for doc in docs for word in doc]
    assert found.words.tolist() == [tokens.count(word) for word in range(len(found.words))]
    assert found.groups.tolist() == [sum(word < 6 and LABELS[word] == g for word in tokens) for g in (1, 2, 3)]


@given(documents, context_names, st.integers(1, 12), st.integers(1, 9))
def test_pieces_of_any_size_give_the_counts_of_the_whole(docs, name, piece, block):
    context, whole = CONTEXTS[name][0], count(docs, CONTEXTS[name][0])
    tokens, ends = [word for doc in docs for word in doc], np.cumsum([len(doc) for doc in docs])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cooccurrence, "_BLOCK", block)
        patch.setattr(cooccurrence, "_BATCH", 5)
        counter = CooccurrenceCounter(LABELS, context, 3)
        for at in range(0, len(tokens), piece):
            here = tokens[at : at + piece]
            counter.feed(here, [end - at for end in ends if at < end <= at + len(here)])
        found = counter.result()
    np.testing.assert_allclose(found.pairs, whole.pairs, rtol=1e-12)
    assert (found.words == whole.words).all()


def test_a_document_may_end_before_the_next_piece_begins():
    counter = CooccurrenceCounter([1, 2], ContextWindow(1.0, 2))
    counter.feed([0, 2])
    counter.result()
    counter.feed([2, 1], ends=[0])  # the first document ended
    assert counter.result().pairs[2].tolist() == [1, 1]


def test_windows_end_with_the_document():
    together, apart = count([[1, 9, 2, 9]], ContextWindow(1.0, 3)), count([[1, 9], [2, 9]], ContextWindow(1.0, 3))
    assert together.pairs[9].tolist() == [2, 2, 0]
    assert apart.pairs[9].tolist() == [1, 1, 0]


@pytest.mark.parametrize("block", [700, 1 << 19])
def test_an_infinite_context_is_not_cut_and_stays_finite_and_exact(monkeypatch, block):
    monkeypatch.setattr(cooccurrence, "_BLOCK", block)
    n = 12_000  # she, silence, sings; then far more silence than the smallest number is deep
    found = count([[1, *[9] * (n - 1), 8, *[9] * 30_000, 7, 2]], ContextWindow())
    assert log(found.pairs[8, 0]) == pytest.approx(n * log(0.95), rel=1e-12)
    assert found.pairs[8, 1] == 0
    assert found.pairs[7, 0] == 0
    assert found.pairs[7, 1] == pytest.approx(0.95, rel=1e-12)


def test_random_text_in_small_blocks_is_counted_as_the_filter_counts_it(monkeypatch):
    signal = pytest.importorskip("scipy.signal")
    tokens = np.random.default_rng(0).integers(0, 200, 40_000)
    x = np.isin(tokens, [1, 5]).astype(float)
    before, after = (signal.lfilter([0.0, 0.95], [1.0, -0.95], x[::step])[::step] for step in (1, -1))
    expected = np.bincount(tokens, weights=before + after)
    for block in (1 << 19, 3_001):
        monkeypatch.setattr(cooccurrence, "_BLOCK", block)
        found = count([tokens], ContextWindow())
        np.testing.assert_allclose(found.pairs[:, 0], expected, rtol=1e-10)


def test_nothing_fed_is_nothing_counted():
    found = CooccurrenceCounter([0, 1, 2], ContextWindow()).result()
    assert not found.pairs.any()
    assert found.groups.tolist() == [0, 0]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ContextWindow(1.0, 0),
        lambda: ContextWindow(1.0),
        lambda: ContextWindow(0.0),
        lambda: ContextWindow(reach=0),
        lambda: CooccurrenceCounter([0, 3], ContextWindow(1.0, 10), 2),
        lambda: CooccurrenceCounter([-1], ContextWindow(1.0, 10), 2),
    ],
    ids=["no window", "no decay", "no weight", "no reach", "label too large", "label below 0"],
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(ValueError, match="got"):
        wrong()


# Scores


def test_bias_by_hand():
    """Of the women's 4 co-occurrences "nurse" has 3, of the men's 10 it has 2; women occur 3 times, men 6 times."""
    pairs, words = [[3, 2], [1, 8], [7, 0], [5, 5]], [5, 9, 7, 4]
    ids, bias = bias_scores(pairs, [3, 6], [True, True, True, False])
    assert ids.tolist() == [0, 1]
    assert bias == pytest.approx([log(0.75 / 0.2), log(0.25 / 0.8)], rel=1e-12)
    _, printed = bias_scores(pairs, [3, 6], [True, True, True, False], by_group_share=True)
    total = words[0] + words[1]
    by_hand = [log((w / 4) / (3 / total)) - log((m / 10) / (6 / total)) for w, m in ((3, 2), (1, 8))]
    assert printed == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("context", [ContextWindow(1.0, 2), ContextWindow()], ids=["fixed", "infinite"])
def test_a_text_with_known_company_gives_the_bias_by_hand(context):
    """In "she sews .", three times, and "he sews ." once; "he saws ." four times, and "she saws ." once."""
    words = ["she", "he", "sews", "saws", "."]
    texts = ["she sews ."] * 3 + ["he sews ."] + ["he saws ."] * 4 + ["she saws ."]
    found = count([[words.index(w) for w in text.split()] for text in texts], context, [1, 2], 2)
    ids, bias = bias_scores(found.pairs, found.groups, [False, False, True, True, False])
    assert [words[i] for i in ids] == ["sews", "saws"]
    assert bias == pytest.approx([log((3 / 4) / (1 / 5)), log((1 / 4) / (4 / 5))], rel=1e-12)


counts_of_two = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=20).filter(
    lambda rows: any(a and b for a, b in rows)
)


@given(counts_of_two, st.integers(1, 99), st.integers(1, 99))
def test_swapping_the_groups_flips_the_sign(rows, first, second):
    pairs, keep = np.array(rows, dtype=float), [True] * len(rows)
    for printed in (False, True):
        ids, bias = bias_scores(pairs, [first, second], keep, by_group_share=printed)
        swapped_ids, swapped = bias_scores(pairs[:, ::-1], [second, first], keep, by_group_share=printed)
        assert (ids == swapped_ids).all()
        np.testing.assert_allclose(swapped, -bias, atol=1e-12)
        again = bias_scores(pairs * 7, [first, second], keep, by_group_share=printed)[1]
        np.testing.assert_allclose(again, bias, atol=1e-12)


def test_the_probability_of_three_groups():
    p = word_given_group([[1, 2, 3], [3, 2, 1]])
    assert p == pytest.approx(np.array([[1, 2, 3], [3, 2, 1]]) / 4)


@pytest.mark.parametrize(
    ("pairs", "groups", "reason"),
    [
        ([[1, 1]], [1, 0], "no word of one of the groups"),
        ([[0, 1]], [1, 1], "no word co-occurs with words of both groups"),
        (np.zeros((0, 2)), [0, 0], "no word of one of the groups"),
    ],
)
def test_no_score_without_both_groups(pairs, groups, reason):
    with pytest.raises(UndefinedError, match=reason):
        bias_scores(pairs, groups, np.ones(len(pairs), dtype=bool))


def test_no_probability_where_nothing_stands_near():
    with pytest.raises(UndefinedError, match="co-occurs"):
        word_given_group([[0.0, 1.0]])


def test_mu_and_sigma_need_words():
    assert mean_absolute_bias([-2.0, 1.0]) == 1.5
    assert bias_deviation([1.0, 2.0, 4.0]) == pytest.approx(np.sqrt(7 / 3))
    with pytest.raises(UndefinedError):
        mean_absolute_bias([])
    with pytest.raises(UndefinedError):
        bias_deviation([1.0])


# beta


def test_a_text_against_itself_has_slope_one():
    bias = np.random.default_rng(0).standard_normal(500)
    assert bias_slope(bias, bias) == pytest.approx(1)
    assert bias_slope(bias, -2 * bias + 3) == pytest.approx(-2)


@pytest.mark.parametrize("outliers", [False, True])
def test_slope_and_interval_against_statsmodels(outliers):
    rng = np.random.default_rng(3)
    x = rng.standard_t(3, 300)
    y = 0.4 * x + rng.standard_t(3, 300) * (1 + np.abs(x))
    keep = np.ones(300, dtype=bool)
    if not outliers:
        for values in (x, y):
            low, high = np.percentile(values, [25, 75])
            keep &= (low - 1.5 * (high - low) <= values) & (values <= high + 1.5 * (high - low))
        assert 0 < keep.sum() < 300
    assert (without_outliers(x, y) == keep).all() or outliers
    fit = sm.OLS(y[keep], sm.add_constant(x[keep])).fit(cov_type="HC3", use_t=True)
    assert bias_slope(x, y, outliers=outliers) == pytest.approx(fit.params[1], rel=1e-9)
    interval = bias_slope_interval(x, y, outliers=outliers)
    assert (interval.low, interval.high) == pytest.approx(tuple(fit.conf_int()[1]), rel=1e-9)


def test_slope_without_value():
    with pytest.raises(UndefinedError, match="both texts"):
        bias_slope([], [])
    with pytest.raises(UndefinedError, match="same bias"):
        bias_slope([0.3, 0.3, 0.3], [1.0, 2.0, 3.0])
    with pytest.raises(UndefinedError, match="same bias"):
        bias_slope([0.0, 0.0, 0.0, 0.0, 9.0], [1.0, 2.0, 3.0, 4.0, 5.0])  # 9 is an outlier, and all that varied
    assert bias_slope([0.0, 0.0, 0.0, 0.0, 9.0], [1.0, 2.0, 3.0, 4.0, 5.0], outliers=True) == pytest.approx(2.5 / 9)
    assert bias_slope_interval([0.0, 1.0], [0.0, 1.0]) is None
    assert bias_slope_interval([0.0, 0.0, 0.0, 9.0], [1.0, 2.0, 3.0, 4.0], outliers=True) is None


def test_words_of_both_texts():
    words, x, y = in_both(["b", "a", "c"], [2.0, 1.0, 3.0], ["a", "d", "b"], [-1.0, -4.0, -2.0])
    assert (words.tolist(), x.tolist(), y.tolist()) == (["a", "b"], [1.0, 2.0], [-1.0, -2.0])
