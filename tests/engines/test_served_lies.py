"""Every lie of a server is found before the first figure, and every honest server passes, whatever its troubles are."""

import numpy as np
import pytest
from support.served import TROUBLES, CompletionServer, Direct
from support.served_lies import CONSISTENT, LATE, LIES
from support.trained_causal import known_of, trained

from pytest_genderbias.engines.served_client import ServedClient
from pytest_genderbias.engines.served_proof import KNOWN_TEXTS, UnprovenError, prove
from pytest_genderbias.errors import ModelError, ScoreError

#: Lies that begin later: the texts that are asked again at the end find them.
BEGIN_LATER = ("swapped", "swapped-behind-memory")
#: What a server may do that makes its answers unusable: it is refused, and says why.
REFUSED = {"text-only": "token ids"}
#: Troubles of connections and of what is not there or not known, which have nothing to do with what is drawn; and those
#: with which ``test_served_rows.py`` has a whole proof, and rows beside.
FEW_DRAWN = ("busy", "unavailable", "dropped", "truncated", "slow", "out-of-order", "no-version", "no-tokenize")
FEW_DRAWN += ("extra-choices-fields", "at-least-one-token", "bare-top-list", "finite-floor", "rounding-noise")
NO_PAUSE = {"pause": lambda seconds: None}


@pytest.fixture(scope="module")
def pieces():
    """A causal LM with pieces as SentencePiece makes them, and a token that begins each text."""
    return trained("llama", *KNOWN_TEXTS)


@pytest.fixture(scope="module")
def memo():
    """What the network says of prompts, which is the same for all servers."""
    return known_of("llama", *KNOWN_TEXTS)


def proved(server, **settings):
    client = ServedClient(server.url, server.model, "candidate", **NO_PAUSE, **settings)
    return client, prove(client, server.tokenizer, client.max_length, "candidate")


def lies(among):
    """Return the names as parameters. Where all that is written is computed anew the test takes half a minute."""
    return [pytest.param(name, marks=[pytest.mark.slow] if lie.also_written else []) for name, lie in among.items()]


@pytest.mark.parametrize("lie", lies({name: lie for name, lie in LIES.items() if name not in BEGIN_LATER}))
def test_a_lie_is_found_before_the_first_figure(pieces, memo, lie):
    with CompletionServer(*pieces, lie=lie, memo=memo) as server, pytest.raises(UnprovenError) as error:
        proved(server, transport=Direct())
    first, *failed = str(error.value).splitlines()
    assert first.startswith("candidate: the server at http://127.0.0.1:")
    assert failed and all(line.startswith("- ") and "expected" in line for line in failed)


@pytest.mark.parametrize("lie", BEGIN_LATER)
def test_a_lie_that_begins_later_is_found_at_the_end(pieces, memo, lie):
    with CompletionServer(*pieces, lie=lie, memo=memo) as server:
        client, proof = proved(server, transport=Direct())
        proof.confirm_unchanged(client, "candidate")
        server.readings_given = LATE
        with pytest.raises(ScoreError, match="candidate changed while it was measured"):
            proof.confirm_unchanged(client, "candidate")


@pytest.mark.parametrize("lie", lies(CONSISTENT))
def test_what_another_model_would_say_is_not_found(pieces, memo, lie):
    with CompletionServer(*pieces, lie=lie, memo=memo) as server:
        _, proof = proved(server, transport=Direct())
    assert proof.noise < 1e-3


@pytest.mark.parametrize("trouble", ["", *(name for name in TROUBLES if name not in REFUSED)])
def test_an_honest_server_passes_with_its_troubles(pieces, memo, trouble, request):
    if trouble in FEW_DRAWN:
        request.getfixturevalue("few_draws")
    with CompletionServer(*pieces, trouble=filter(None, [trouble]), memo=memo if trouble else None) as server:
        client, proof = proved(server)  # over a connection: some are its troubles
        proof.confirm_unchanged(client, "candidate")
        assert proof.noise < 1e-3
        (values,) = (answer.log_probabilities for answer in client.ask([proof.canaries[0]]))
        (table,) = server.tables([list(proof.canaries[0])])
    np.testing.assert_allclose(values[1:], table[np.arange(1, len(values)), proof.canaries[0][1:]], rtol=1e-4)


@pytest.mark.parametrize("trouble", ["", "at-least-one-token"])
def test_a_prompt_of_the_most_tokens_is_answered(pieces, trouble):
    with CompletionServer(*pieces, trouble=filter(None, [trouble])) as server:
        client = ServedClient(server.url, server.model, "candidate", **NO_PAUSE)
        prompt = np.arange(client.max_length) % 50 + 5
        (answer,) = client.ask([prompt])
    assert answer.token_ids == prompt.tolist()


@pytest.mark.parametrize(("trouble", "check"), REFUSED.items())
def test_an_honest_server_whose_answers_prove_nothing_is_refused(pieces, memo, trouble, check):
    with (
        CompletionServer(*pieces, trouble=[trouble], memo=memo) as server,
        pytest.raises(UnprovenError, match=f"- {check}: "),
    ):
        proved(server)


def test_byte_pairs_pass_as_pieces_do(few_draws):
    with CompletionServer(*trained("gpt2", *KNOWN_TEXTS)) as server:
        _, proof = proved(server)
    assert proof.checks


def test_a_real_model_with_pieces_passes(real_lm, few_draws):
    with CompletionServer(real_lm.backend.network, real_lm.backend.tokenizer) as server:
        _, proof = proved(server)
    assert proof.noise < 1e-3


def test_a_server_of_another_tokenizer_is_refused(pieces):
    network, tokenizer = pieces
    _, other = trained("gpt2", *KNOWN_TEXTS)
    with CompletionServer(network, tokenizer) as server:
        client = ServedClient(server.url, server.model, "candidate", **NO_PAUSE)
        with pytest.raises(ModelError, match="another tokenizer"):
            prove(client, other, client.max_length, "candidate")
