"""Draws against listed probabilities: right sources pass, and those of another base, temperature, scale or mass are
found.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from pytest_genderbias.engines.served_proof import listed_draws, p_of_counts, trouble_of_counts, trouble_of_draws

WORDS, LISTED, END = 50, 5, 0


def draws_of(seed, given, count=3000, ends=False):
    """Draw tokens from random distributions, and list what ``given`` makes of them."""
    rng = np.random.default_rng(seed)
    true = rng.dirichlet(np.full(WORDS, 0.15), count)
    true[:, END] += 0.2 if ends else 0.0
    true = np.maximum(true, 1e-12) / np.maximum(true, 1e-12).sum(axis=1, keepdims=True)
    tokens = (rng.random((count, 1)) > true.cumsum(axis=1)).sum(axis=1).clip(max=WORDS - 1)
    values = given(np.log(true))
    tops = [{int(i): float(row[i]) for i in np.argsort(-row)[:LISTED]} for row in values]
    kept = tokens != END if ends else np.full(count, True)  # a source that stops there shows no end
    pairs = [(top, int(token)) for top, token, keep in zip(tops, tokens, kept, strict=True) if keep]
    return listed_draws([[top for top, _ in pairs]], [[token for _, token in pairs]], LISTED, END)


def normalised(values):
    return values - np.log(np.exp(values).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("ends", [False, True])
def test_draws_from_the_listed_probabilities_pass_whatever_the_seed(ends):
    assert [seed for seed in range(10) if trouble_of_draws(*draws_of(seed, lambda v: v, ends=ends))] == []


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (lambda v: v / np.log(10), "listed tokens were drawn less often"),
        (lambda v: v / np.log(2), "drawn more often"),
        (lambda v: normalised(v / 0.8), "less often"),
        (lambda v: normalised(v / 1.5), "more often"),
        (lambda v: v - 0.2, "listed tokens were drawn more often"),
        (lambda v: np.log(0.85 * np.exp(v) + 0.15 / WORDS), "more often"),
        (lambda v: v[:, ::-1], "standard errors"),
    ],
    ids=["base 10", "base 2", "temperature 0.8", "temperature 1.5", "lowered", "smoothed", "other tokens"],
)
def test_other_probabilities_are_found(given, what):
    trouble = trouble_of_draws(*draws_of(1, given))
    assert trouble is not None
    assert what in trouble
    assert "\n" not in trouble


def test_too_few_draws_prove_nothing():
    assert "at least 400 tokens drawn at temperature 1, got " in trouble_of_draws(*draws_of(2, lambda v: v, 300))


def test_tokens_that_a_source_adds_to_a_list_do_not_count():
    top = {1: -0.1, 2: -3.0, 9: -8.0}
    probabilities, drawn = listed_draws([[top]], [[9]], 2, None)
    np.testing.assert_allclose(probabilities, [[np.exp(-0.1), np.exp(-3.0)]])
    assert drawn.tolist() == [-1]


def test_an_end_is_left_out_of_lists_and_draws():
    tops = [{END: np.log(0.5), 1: np.log(0.25)}] * 2
    probabilities, drawn = listed_draws([tops], [[END, 1]], 2, END)
    np.testing.assert_allclose(probabilities, [[0.0, 0.5]])  # a half of what is not the end
    assert drawn.tolist() == [1]


def test_a_model_that_is_certain_passes_and_one_that_should_be_does_not():
    certain = np.tile([1.0, 0.0], (500, 1))
    assert trouble_of_draws(certain, np.zeros(500, dtype=np.int64)) is None
    assert trouble_of_draws(certain, np.full(500, -1)) is not None


def draws_at_places(seed, given, places=12, count=80):
    """Draw tokens again and again at some places, each with its list of what ``given`` makes of the place's
    log-probabilities.
    """
    rng = np.random.default_rng(seed)
    found = []
    for true in rng.dirichlet(np.full(WORDS, 0.3), places):
        true = np.maximum(true, 1e-12) / np.maximum(true, 1e-12).sum()
        values = given(np.log(true)[None])[0]
        top = {int(i): float(values[i]) for i in np.argsort(-values)[:LISTED]}
        tokens = rng.choice(WORDS, count, p=true).tolist()
        found.append(listed_draws([[top] * count], [tokens], LISTED, None))
    return found


def test_repeated_draws_of_right_lists_have_even_p_values():
    found = [draws_at_places(seed, lambda v: v) for seed in range(100)]
    assert kstest([p_of_counts(places) for places in found], "uniform").pvalue > 1e-3
    assert not any(map(trouble_of_counts, found))


def test_repeated_draws_are_compared_token_by_token():
    def moved(values):
        changed = values.copy()
        changed[:, ::2] -= 1.5  # every second token, as of a penalty
        return normalised(changed)

    assert all("other shares" in (trouble_of_counts(draws_at_places(seed, moved)) or "") for seed in range(8))


def test_p_of_counts_is_that_of_scipy():
    ((probabilities, drawn),) = draws_at_places(3, lambda v: v, places=1, count=2000)
    expected = 2000 * np.append(probabilities[0], 1 - probabilities[0].sum())
    seen = np.append(np.bincount(drawn[drawn >= 0], minlength=LISTED), (drawn < 0).sum())
    assert (expected >= 5).all()
    assert p_of_counts([(probabilities, drawn)]) == pytest.approx(chisquare(seen, expected).pvalue, rel=1e-9)


def test_too_few_repeated_draws_prove_nothing():
    assert "got 396;" in trouble_of_counts(draws_at_places(2, lambda v: v, count=33))
    assert "got 0;" in trouble_of_counts([listed_draws([[]], [[]], LISTED, None)])


def test_a_server_that_repeats_itself_is_found():
    places = draws_at_places(1, lambda v: v)
    again = [(probabilities, np.full_like(drawn, drawn[0])) for probabilities, drawn in places]
    assert trouble_of_counts(again)
