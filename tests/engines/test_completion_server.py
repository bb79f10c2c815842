"""The server of the tests of served models: an honest one says what the network says, whatever its troubles are."""

import json
import urllib.error
import urllib.request

import numpy as np
import pytest
import torch
from support.served import TROUBLES, CompletionServer
from support.tiny_checkpoints import make_network, tokenizer

PROMPTS = [[1, 300, 301, 302, 303], [1, 400, 310], [1, 350, 360, 370, 380, 390]]
ASKED = {
    "model": "local",
    "echo": True,
    "logprobs": 3,
    "max_tokens": 1,
    "temperature": 0,
    "return_tokens_as_token_ids": True,
}


@pytest.fixture(scope="module")
def network():
    return make_network("llama")


def post(url, body, **headers):
    request = urllib.request.Request(f"{url}/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def log_probabilities(network, ids):
    """Return ln P of each token but the first, computed by the loss of transformers, one token at a time."""
    found = []
    for place in range(1, len(ids)):
        labels = torch.full((1, place + 1), -100)
        labels[0, place] = ids[place]
        with torch.no_grad():
            found.append(-float(network(torch.tensor([ids[: place + 1]]), labels=labels).loss))
    return found


@pytest.mark.parametrize("trouble", ["", "out-of-order", "rounding-noise", "bare-top-list", "extra-choices-fields"])
def test_values_are_those_of_the_network(network, trouble):
    with CompletionServer(network, tokenizer("llama"), trouble=filter(None, [trouble])) as server:
        answer = post(server.url, {**ASKED, "prompt": PROMPTS})
    for choice in answer["choices"]:
        prompt, given = PROMPTS[choice["index"]], choice["logprobs"]
        assert given["tokens"][: len(prompt)] == [f"token_id:{token}" for token in prompt]
        assert given["token_logprobs"][0] is None and given["top_logprobs"][0] is None
        np.testing.assert_allclose(
            given["token_logprobs"][1 : len(prompt)], log_probabilities(network, prompt), rtol=1e-5
        )
        assert np.isclose(given["token_logprobs"][-1], max(given["top_logprobs"][-1].values()), rtol=1e-5)
    assert answer["usage"]["prompt_tokens"] == sum(map(len, PROMPTS))
    assert [choice["index"] for choice in answer["choices"]] == ([1, 0, 2] if trouble == "out-of-order" else [0, 1, 2])


def test_draws_follow_the_network_and_the_seed(network):
    body = {
        "model": "local",
        "prompt": [PROMPTS[0]] * 2,
        "max_tokens": 3,
        "temperature": 1,
        "logprobs": 1,
        "return_tokens_as_token_ids": True,
    }
    with CompletionServer(network, tokenizer("llama")) as server:
        first, second = (choice["logprobs"]["tokens"] for choice in post(server.url, {**body, "seed": 5})["choices"])
        drawn = post(server.url, {**body, "prompt": [PROMPTS[0]] * 2000, "max_tokens": 1})["choices"]
    assert first == second  # as vLLM, which gives each prompt of a list the seed of the request
    with torch.no_grad():
        chances = network(torch.tensor([PROMPTS[0]])).logits[0, -1].softmax(-1)
    token = int(chances.argmax())
    share = np.mean([choice["logprobs"]["tokens"] == [f"token_id:{token}"] for choice in drawn])
    assert abs(share - float(chances[token])) < 5 * np.sqrt(float(chances[token]) / len(drawn))


def test_what_is_remembered_is_drawn_anew_when_a_request_comes_again_and_alike_by_the_next_server(network):
    body = {"model": "local", "prompt": [PROMPTS[0]] * 8, "max_tokens": 1, "temperature": 1.0, "logprobs": 1}
    drawn, memo = [], {}
    for _ in range(2):
        with CompletionServer(network, tokenizer("llama"), memo=memo) as server:
            answers = [post(server.url, {**body, "return_tokens_as_token_ids": True}) for _ in range(3)]
        drawn.append([[choice["logprobs"]["tokens"] for choice in answer["choices"]] for answer in answers])
    assert drawn[0] == drawn[1]
    assert len({str(tokens) for tokens in drawn[0]}) == 3


@pytest.mark.parametrize(("trouble", "status"), [("busy", 429), ("unavailable", 503)])
def test_a_body_is_refused_once(network, trouble, status):
    with CompletionServer(network, tokenizer("llama"), trouble=[trouble]) as server:
        with pytest.raises(urllib.error.HTTPError) as error:
            post(server.url, {**ASKED, "prompt": PROMPTS})
        assert error.value.code == status
        assert len(post(server.url, {**ASKED, "prompt": PROMPTS})["choices"]) == len(PROMPTS)


def test_the_second_answer_is_cut_once(network):
    with CompletionServer(network, tokenizer("llama"), trouble=["truncated"]) as server:
        post(server.url, {**ASKED, "prompt": PROMPTS})
        with pytest.raises(json.JSONDecodeError):
            post(server.url, {**ASKED, "prompt": PROMPTS[:1]})
        assert post(server.url, {**ASKED, "prompt": PROMPTS[:1]})["choices"]


def test_a_key_is_asked_for(network):
    with CompletionServer(network, tokenizer("llama"), key="secret") as server:
        with pytest.raises(urllib.error.HTTPError) as error:
            post(server.url, {**ASKED, "prompt": PROMPTS})
        assert error.value.code == 401
        assert post(server.url, {**ASKED, "prompt": PROMPTS}, Authorization="Bearer secret")["choices"]


def test_every_trouble_has_a_sentence():
    assert all(sentence.endswith(".") for sentence in TROUBLES.values())
