"""Draws against listed probabilities: right sources pass, and those of another base, temperature, scale or mass are found."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_genderbias.models.served_draws import Draws, trouble_of_draws

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
    return Draws.of([[top for top, _ in pairs]], [[token for _, token in pairs]], LISTED, END)


def normalised(values):
    return values - np.log(np.exp(values).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("ends", [False, True])
def test_draws_from_the_listed_probabilities_pass_whatever_the_seed(ends):
    assert [seed for seed in range(40) if trouble_of_draws(draws_of(seed, lambda v: v, ends=ends))] == []


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
    trouble = trouble_of_draws(draws_of(1, given))
    assert trouble is not None
    assert what in trouble
    assert "\n" not in trouble


def test_too_few_draws_prove_nothing():
    assert "at least 400 tokens drawn at temperature 1, got " in trouble_of_draws(draws_of(2, lambda v: v, 300))


def test_tokens_that_a_source_adds_to_a_list_do_not_count():
    top = {1: -0.1, 2: -3.0, 9: -8.0}
    draws = Draws.of([[top]], [[9]], 2, None)
    np.testing.assert_allclose(draws.probabilities, [[np.exp(-0.1), np.exp(-3.0)]])
    assert draws.drawn.tolist() == [-1]


def test_an_end_is_left_out_of_lists_and_draws():
    tops = [{END: np.log(0.5), 1: np.log(0.25)}] * 2
    draws = Draws.of([tops], [[END, 1]], 2, END)
    np.testing.assert_allclose(draws.probabilities, [[0.0, 0.5]])  # a half of what is not the end
    assert draws.drawn.tolist() == [1]


def test_a_model_that_is_certain_passes_and_one_that_should_be_does_not():
    certain = Draws(np.tile([1.0, 0.0], (500, 1)), np.zeros(500, dtype=np.int64))
    assert trouble_of_draws(certain) is None
    assert trouble_of_draws(Draws(certain.probabilities, np.full(500, -1))) is not None
