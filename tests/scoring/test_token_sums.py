"""Sums of log-probabilities from a served model: the same as of the network itself, each prompt asked once, and nothing
kept of one that changed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.prompt_sources import LocalSource
from support.tiny_checkpoints import suite_space

from pytest_genderbias import load_suite, measure
from pytest_genderbias.engines.served import ROLE, VERSION, ServedModel
from pytest_genderbias.engines.served_proof import Proof
from pytest_genderbias.errors import NotApplicableError, ScoreError
from pytest_genderbias.models.chat_template import chat_template_details
from pytest_genderbias.models.loading import load_model
from pytest_genderbias.models.model import Model
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.scoring.token_sums import ServedSums, distinct_prompts
from pytest_genderbias.scoring.tokens import RowEncoder, pack_rows
from pytest_genderbias.suites.cases import TextCases
from pytest_genderbias.suites.query import (
    ChatAnswers,
    CoreferenceScores,
    GeneratedReplies,
    GeneratedTokens,
    PseudoLogLikelihood,
    SharedLogLikelihood,
    TextVectors,
)

TEXTS = ["The nurse met the clerk because she was late.", "The clerk told the nurse that his shift was over.", "Music."]
PAIRS = [("The nurse ate a bagel.", "The man ate a bagel."), ("The doctor bought a car.", "The woman bought a car.")]
SPANS = [((0, 9), (14, 23), (32, 35)), ((0, 9), (15, 24), (30, 33))]


@pytest.fixture(scope="module")
def network():
    return load_model("demo-lm", device="cpu")


def served(model, source=None, fingerprint=None):
    """Return a model as one behind a server that was proved."""
    source = source or LocalSource(model)
    canaries = (tuple(model.backend.tokenizer(TEXTS[0])["input_ids"]),)
    proof = Proof(("values",), 0.0, canaries, (source.ask(canaries)[0].log_probabilities,))
    backend = ServedModel(source, model.backend.tokenizer, model.backend.max_length, proof)
    details = {**model.details, "server": "test 1"} | ({} if fingerprint is None else {VERSION: fingerprint})
    return Model("served", "http://127.0.0.1/v1#m", ROLE, fingerprint, details, backend)


def slots():
    space, query = suite_space("lm-occupation")
    return space, query, np.arange(0, space.n_cases, space.n_cases // 23)


def verbalised():
    _, query = suite_space("nli-occupation", verbaliser="{premise} So {hypothesis} | yes | maybe so | no")
    return TextCases(PAIRS), query, np.arange(2)


def texts(query, spans=(), among=TEXTS):
    return lambda: (TextCases([(text,) for text in among], spans), query, np.arange(len(among)))


QUESTIONS = {
    "lm-occupation": slots,
    "pairs-pll": texts(PseudoLogLikelihood()),
    "pairs-pll, spans": texts(PseudoLogLikelihood(), [spans[:1] for spans in SPANS], TEXTS[:2]),
    "pairs-pll, shared": lambda: (
        TextCases([(t,) for t in TEXTS[:2]], cases_per_unit=2),
        SharedLogLikelihood(),
        np.arange(2),
    ),
    "coreference": texts(CoreferenceScores(2, "substitution"), SPANS, TEXTS[:2]),
    "verbalised NLI": verbalised,
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_scores_are_those_of_the_network(network, name):
    cases, query, numbers = QUESTIONS[name]()
    expected = make_scorer(cases, query, network, None).score(numbers)
    found = make_scorer(cases, query, served(network), None).score(numbers)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_answers_of_a_chat_model_are_those_of_the_network(network):
    words = network.backend.tokenizer
    before, words.chat_template = words.chat_template, "{% for m in messages %}Q: {{ m['content'] }} A:{% endfor %}"
    try:
        chat = replace(network, details={**network.details, **chat_template_details(words)})
        cases, query = TextCases([(text,) for text in TEXTS]), ChatAnswers(("A", "B", "The nurse"))
        expected = make_scorer(cases, query, chat, None).score(np.arange(3))
        found = make_scorer(cases, query, served(chat), None).score(np.arange(3))
    finally:
        words.chat_template = before
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@given(st.lists(st.lists(st.integers(0, 2), max_size=5).map(tuple), max_size=12))
def test_no_prompt_that_is_asked_begins_another(prompts):
    to_ask, place = distinct_prompts(prompts)
    assert all(to_ask[at][: len(prompt)] == prompt for prompt, at in zip(prompts, place, strict=True))
    assert set(to_ask) <= set(prompts)
    assert not any(a != b and b[: len(a)] == a for a in to_ask for b in to_ask)
    assert len(set(to_ask)) == len(to_ask)


def rows_of(model, prompts):
    encoder = RowEncoder(model.backend.tokenizer)
    return pack_rows(
        [np.asarray(p, dtype=np.int32) for p in prompts], encoder, np.zeros((len(prompts), 2), dtype=np.int64)
    )


def test_each_prompt_is_asked_once_and_up_to_its_last_token_that_counts(network):
    source = LocalSource(network)
    rows = rows_of(network, [[5, 6, 7, 8], [5, 6, 7], [5, 6, 7, 8], [9, 5]])
    found = ServedSums(source.ask).sums(rows, np.array([0, 0, 1, 2]), np.array([1, 2, 1, 2]))
    assert source.asked == [
        [5, 6, 7]
    ]  # no token after the last one, no beginning of another, and no row without tokens to read
    assert found[3] == 0.0
    assert found[0] - found[2] == pytest.approx(found[1], rel=1e-12)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (
            TextVectors("last"),
            "which gives log-probabilities of texts alone; this suite needs the checkpoint: --bias-model=served=DIR",
        ),
        (CoreferenceScores(2, "edge-probe"), "which gives log-probabilities of texts alone"),
        (
            GeneratedTokens(4, 0),
            (
                "whose texts are not drawn with the seed of the run; give the checkpoint instead:"
                " --bias-model=served=DIR, or .* text:FILE"
            ),
        ),
        (
            GeneratedReplies(4, 1, 0, 1.0, "{prompt}"),
            "whose texts are not drawn with the seed of the run; .*: --bias-model=served=DIR$",
        ),
    ],
    ids=repr,
)
def test_what_needs_more_than_log_probabilities_does_not_apply(network, query, reason):
    with pytest.raises(NotApplicableError, match=f"served is a causal LM behind a server, {reason}"):
        make_scorer(TextCases([(TEXTS[0],)], [SPANS[0]]), query, served(network), None)


def test_a_suite_on_a_served_model_says_so_and_is_comparable(network):
    found = measure("lm-occupation", served(network), limit=24, cache=None)
    expected = measure("lm-occupation", network, limit=24, cache=None)
    assert found.value == pytest.approx(expected.value, abs=1e-6)  # a difference of logarithms
    assert found.signature["model"]["server"] == "test 1"
    assert {k: found.signature[k] for k in ("digest", "definition", "settings", "sample")} == {
        k: expected.signature[k] for k in ("digest", "definition", "settings", "sample")
    }
    assert any("behind the network of a test: its log-probabilities passed 1 checks" in note for note in found.notes)


class Changing(LocalSource):
    """Gives other values from some prompt on."""

    after = 10**9

    def ask(self, prompts, most_likely=0, temperature=0.0):
        answers = super().ask(prompts, most_likely, temperature)
        moved = 0.01 if len(self.asked) > self.after else 0.0
        return [replace(a, log_probabilities=a.log_probabilities - moved) for a in answers]


def test_nothing_is_kept_of_a_model_that_changed(network, tmp_path):
    source = Changing(network)
    model = served(network, source, fingerprint="tag")
    source.after = 12
    with pytest.raises(ScoreError, match="served changed while it was measured"):
        measure("lm-occupation", model, limit=24, cache=tmp_path)
    assert not list(tmp_path.rglob("0*.npy"))


def test_without_a_version_nothing_is_cached_and_with_one_nothing_is_asked_again(network, tmp_path):
    measure("lm-occupation", served(network), limit=24, cache=tmp_path)
    assert not list(tmp_path.rglob("*.npy"))
    first, again = LocalSource(network), LocalSource(network)
    value = measure("lm-occupation", served(network, first, "tag"), limit=24, cache=tmp_path).value
    model = served(network, again, "tag")
    again.asked.clear()
    assert measure("lm-occupation", model, limit=24, cache=tmp_path).value == value
    assert again.asked == []
    other = served(network, again, "another tag")
    again.asked.clear()
    measure("lm-occupation", other, limit=24, cache=tmp_path)
    assert len(again.asked) > 1


def test_a_server_that_fails_is_not_asked_whether_it_changed(network, tmp_path):
    source = LocalSource(network)
    model = served(network, source, "tag")

    def failing(prompts, *rest):
        source.asked.append("failed")
        raise ScoreError("down")

    source.ask, source.asked = failing, []
    with pytest.raises(ScoreError, match="down"):
        measure("lm-occupation", model, limit=24, cache=tmp_path)
    assert source.asked == ["failed"]


def test_the_suites_that_fit_a_served_model_are_known_before_it_is_asked():
    from pytest_genderbias.measurement.fit import fit_of
    from pytest_genderbias.measurement.runner import Runner
    from pytest_genderbias.models.spec import parse_spec

    runner, spec = Runner(), parse_spec("m=http://127.0.0.1:9/v1#m")  # where nothing listens
    assert fit_of(runner, load_suite("lm-occupation"), spec).obstacle == ""
    assert fit_of(runner, load_suite("disco-names"), spec).obstacle == "other model"


class Moved(LocalSource):
    """Gives values that are all smaller, as of another model."""

    def __init__(self, model, by):
        super().__init__(model)
        self.by = by

    def ask(self, prompts, most_likely=0, temperature=0.0):
        answers = super().ask(prompts, most_likely, temperature)
        return [replace(a, log_probabilities=a.log_probabilities - self.by) for a in answers]


def test_scores_of_another_model_under_the_same_tag_are_not_read(network, tmp_path):
    value = measure("lm-occupation", served(network, None, "tag"), limit=24, cache=tmp_path).value
    source = Moved(network, 0.01)
    other = served(network, source, "tag")
    source.asked.clear()
    message = (
        r"served is another model than the one whose scores are cached under -o bias_endpoint_version=tag: .* 0\.01"
        r" apart, expected at most "
        r"0\.001\); no cached score is used: take another TAG"
    )
    for limit in (24, 64):  # with all scores in the cache, and with some
        with pytest.raises(ScoreError, match=message):
            measure("lm-occupation", other, limit=limit, cache=tmp_path)
    assert source.asked == []
    for unchanged in (served(network, None, "tag"), served(network, Moved(network, 5e-4), "tag")):
        unchanged.backend.source.asked.clear()
        assert measure("lm-occupation", unchanged, limit=24, cache=tmp_path).value == value
        assert unchanged.backend.source.asked == []
    measure("lm-occupation", served(network, Moved(network, 0.01), "another tag"), limit=24, cache=tmp_path)


@pytest.mark.parametrize("by_whom", ["the writer", "the reader"])
def test_the_noise_of_either_run_is_no_other_model(network, tmp_path, by_whom):
    def noisy(model, noise):
        proof = replace(model.backend.proof, mean_noise=noise)
        return replace(model, backend=replace(model.backend, proof=proof))

    noises = (0.002, 0.0) if by_whom == "the writer" else (0.0, 0.002)
    measure("lm-occupation", noisy(served(network, None, "tag"), noises[0]), limit=24, cache=tmp_path)
    measure("lm-occupation", noisy(served(network, Moved(network, 0.015), "tag"), noises[1]), limit=24, cache=tmp_path)
    far = noisy(served(network, Moved(network, 0.025), "tag"), noises[1])
    with pytest.raises(ScoreError, match=r"0\.025 apart, expected at most 0\.02\)"):
        measure("lm-occupation", far, limit=24, cache=tmp_path)
