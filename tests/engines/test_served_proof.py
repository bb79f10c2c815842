"""The proof of served log-probabilities: a right source passes, each check finds what it is for, and a change is found
at the end.

The source is planted: a causal LM of a few arrays, whose probabilities depend on the token before and, less, on all
those before that.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from support.served import largest
from support.tiny_checkpoints import tokenizer

from pytest_genderbias.engines.served_proof import KNOWN_TEXTS, UnprovenError, prove
from pytest_genderbias.errors import ModelError, ScoreError
from pytest_genderbias.scoring.token_sums import PromptAnswer


class PlantedSource:
    """A causal LM over the vocabulary of a tokenizer. Methods with an underscore are what tests change."""

    where, max_length = "the planted source", None
    facts = {"server": "planted 1"}  # noqa: RUF012 - never changed

    def __init__(self, words):
        self.words = words
        size, rng = len(words), np.random.default_rng(3)
        self.after = rng.normal(0, 1.0, (size, size))
        self.far = rng.normal(0, 0.3, (size, size))
        for text in KNOWN_TEXTS:
            ids = words(text)["input_ids"]
            for first, second in pairwise(ids):
                self.after[first, second] += 7.0
        self.rng = np.random.default_rng(5)
        self.asked = 0

    def table(self, prompt):
        """Return the log-probabilities after each token: shape (len(prompt), vocabulary)."""
        before = np.cumsum(self.far[prompt], axis=0) / np.sqrt(np.arange(1, len(prompt) + 1))[:, None]
        logits = self.after[prompt] + before
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    def following(self, prompt):
        """Return the last row of the table: what follows the prompt."""
        logits = self.after[prompt[-1]] + self.far[prompt].sum(axis=0) / np.sqrt(len(prompt))
        return logits - np.log(np.exp(logits).sum())

    def ask(self, prompts, most_likely=0, temperature=0.0):
        self.asked += 1
        return [self._answer(prompts, place, most_likely, temperature) for place in range(len(prompts))]

    def _answer(self, prompts, place, most_likely, temperature):
        prompt = list(map(int, prompts[place]))
        table = self._given(self.table(prompt), prompt)[:-1]
        values = self._values(
            np.array([row[token] for row, token in zip(table, prompt[1:], strict=True)]), prompts, place, temperature
        )
        best = largest(table, most_likely)
        top = [{}, *({int(i): float(row[i]) for i in ids} for row, ids in zip(table, best, strict=True))]
        return PromptAnswer(np.array([np.nan, *values]), self._ids(prompt), self._top(top), self._read(prompt))

    def generate(self, prompts, tokens, temperature, seed):
        return [self._written(list(map(int, prompt)), tokens, temperature) for prompt in prompts]

    def own_token_ids(self, text):
        return self.words(text)["input_ids"]

    def _written(self, prompt, tokens, temperature):
        new = []
        for _ in range(tokens):
            row = self.following([*prompt, *new])
            cumulated = np.exp(row).cumsum()
            drawn = np.searchsorted(cumulated, self.rng.random() * cumulated[-1], side="right")
            new.append(int(drawn if temperature else row.argmax()))
        return new

    def _given(self, table, prompt):
        return table

    def _values(self, values, prompts, place, temperature):
        return values

    def _ids(self, prompt):
        return prompt

    def _top(self, top):
        return top

    def _read(self, prompt):
        return len(prompt)


@pytest.fixture(scope="module")
def words():
    return tokenizer("gpt2")


def test_a_causal_lm_passes_all_checks(words):
    proof = prove(PlantedSource(words), words, 512, "planted")
    assert proof.noise == 0.0
    assert {"values", "token ids", "known texts", "greedy", "draws"} < set(proof.checks)
    assert len(proof.checks) == 14
    assert [len(v) for v in proof.values] == [len(c) for c in proof.canaries]


def test_what_follows_a_prompt_is_the_last_row_of_its_table(words):
    source = PlantedSource(words)
    prompt = words(KNOWN_TEXTS[0])["input_ids"]
    np.testing.assert_allclose(source.following(prompt), source.table(prompt)[-1], rtol=1e-12)


def test_a_model_of_few_places_is_asked_for_no_more(words):
    class Short(PlantedSource):
        def table(self, prompt):
            assert len(prompt) <= 64
            return super().table(prompt)

        def following(self, prompt):
            return self.table(prompt)[-1]

    assert prove(Short(words), words, 64, "planted").noise == 0.0


def renormalised(table):
    return table - np.log(np.exp(table).sum(axis=1, keepdims=True))


def of_four_tokens(source, prompt):
    """Return the table of a model that reads the last four tokens only."""
    sums = np.cumsum(source.far[prompt], axis=0)
    sums[4:] -= sums[:-4].copy()
    read = np.minimum(np.arange(1, len(prompt) + 1), 4)
    return renormalised(source.after[prompt] + sums / np.sqrt(read)[:, None])


LIES = {
    "values": [
        ("_values", lambda self, values, *rest: values[:0]),
        ("_values", lambda self, values, *rest: np.full_like(values, np.nan)),
        ("_values", lambda self, values, *rest: np.exp(values)),
        ("_values", lambda self, values, *rest: np.append(values, -1.0)),
    ],
    "token ids": [("_ids", lambda self, prompt: None), ("_ids", lambda self, prompt: [*prompt[:-1], 3])],
    "tokenizer": [("own_token_ids", lambda self, text: [5, *self.words(text)["input_ids"][::-1]])],
    "tokens read": [("_read", lambda self, prompt: len(prompt) + 1)],
    "known texts": [("_given", lambda self, table, prompt: np.full_like(table, -np.log(table.shape[1])))],
    "asked again": [("_values", lambda self, values, prompts, *rest: values - 0.1 * len(prompts))],
    "beginnings": [("_values", lambda self, values, *rest: values + np.append(values[1:], 0.0) / 8)],
    "context": [
        ("_given", lambda self, table, prompt: np.concatenate([self.after_alone(prompt), table])[: len(prompt)]),
        ("table", of_four_tokens),
    ],
    "most likely tokens": [
        ("_top", lambda self, top: [{}, *top[2:], {1: -1.0}]),
        ("_top", lambda self, top: [{} for _ in top]),
        ("_values", lambda self, values, *rest: values / 2),
        ("_given", lambda self, table, prompt: np.minimum(table + 1.0, -1e-3)),
    ],
    "greedy": [("_written", lambda self, prompt, tokens, temperature: [1] * tokens)],
    "temperature": [("_values", lambda self, values, prompts, place, temperature: values / (1 + temperature))],
    "distinct values": [
        ("_given", lambda self, table, prompt: np.maximum(table, -6.0)),
        ("_given", lambda self, table, prompt: table.round(2)),
    ],
    "draws": [
        ("_given", lambda self, table, prompt: renormalised(table / 0.8)),
        ("_given", lambda self, table, prompt: table / np.log(2)),
        ("_given", lambda self, table, prompt: table - 0.3),
    ],
}


@pytest.mark.parametrize(("check", "changed"), [(check, changed) for check, cases in LIES.items() for changed in cases])
def test_each_check_finds_what_it_is_for(words, check, changed):
    name, method = changed
    changes = {name: method, "after_alone": lambda self, prompt: renormalised(self.after[[0]])}
    if name == "table":  # and it writes by that table
        changes["following"] = lambda self, prompt: self.table(prompt)[-1]
    lying = type("Lying", (PlantedSource,), changes)
    with pytest.raises(UnprovenError, match="the planted source gives no log-probabilities of prompts") as raised:
        prove(lying(words), words, 512, "planted")
    first, *lines = str(raised.value).splitlines()
    assert first.startswith("planted: ")
    assert f"- {check}: expected " in "\n".join(lines)
    assert all(line.startswith("- ") and (", got " in line or ", but " in line) for line in lines)
    assert isinstance(raised.value, ModelError)


def test_what_the_server_says_cannot_break_the_line(words):
    class Rude(PlantedSource):
        where = "the server at \x1b[31mx"

        def _ids(self, prompt):
            return None

    with pytest.raises(UnprovenError) as raised:
        prove(Rude(words), words, 512, "planted")
    assert "\x1b" not in str(raised.value)


@pytest.mark.parametrize(("moved", "found"), [(0.0, False), (2e-4, False), (0.01, True), (float("nan"), True)])
def test_a_change_after_the_proof_is_found(words, moved, found):
    source = PlantedSource(words)
    proof = prove(source, words, 512, "planted")
    source._values = lambda values, *rest: values - moved
    if not found:
        proof.confirm_unchanged(source, "planted")
        return
    with pytest.raises(ScoreError, match="planted changed while it was measured"):
        proof.confirm_unchanged(source, "planted")


def test_a_change_is_found_beside_the_noise_of_single_values(words):
    class Noisy(PlantedSource):
        def _given(self, table, prompt):
            return renormalised(table + self.rng.normal(0, 0.003, table.shape))

    source = Noisy(words)
    proof = prove(source, words, 512, "planted")
    moved = 0.08
    assert 10 * proof.noise > moved > 10 * proof.mean_noise > 0
    for _ in range(20):
        proof.confirm_unchanged(source, "planted")
    source._values = lambda values, *rest: values - moved
    with pytest.raises(ScoreError, match="planted changed while it was measured"):
        proof.confirm_unchanged(source, "planted")


def test_a_memory_for_equal_prompts_does_not_hide_a_change(words):
    """Since other tokens come after the canaries each time."""
    source, known = PlantedSource(words), {}
    ask = source.ask

    def remembering(prompts, most_likely=0, temperature=0.0):
        keys = [(tuple(map(int, prompt)), most_likely) for prompt in prompts]
        new = [key for key in keys if key not in known]
        for key in new:
            known[key] = ask([key[0]], most_likely, temperature)[0]
        return [known[key] for key in keys]

    source.ask = remembering
    proof = prove(source, words, 512, "planted")
    proof.confirm_unchanged(source, "planted")
    source.after = np.roll(source.after, 1, axis=1)
    with pytest.raises(ScoreError, match="planted changed"):
        proof.confirm_unchanged(source, "planted")
