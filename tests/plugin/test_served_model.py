"""``--bias-model=NAME=http://...``, with ``bias_tokenizer``, ``bias_allow_remote``, ``bias_endpoint_version`` and
``bias_endpoint_timeout``: a run against a real server.
"""

from __future__ import annotations

import copy
import json
import re

import httpcore  # noqa: F401 - first loaded inside a run, it is another one in the next, and httpx knows the errors of the first
import httpx
import pytest
import torch
from support.served import CompletionServer

from pytest_genderbias import load_model
from pytest_genderbias.engines import transport
from pytest_genderbias.models.spec import DEMO_FOLDER
from pytest_genderbias.scoring import pseudo_likelihood  # noqa: F401 - as httpcore above

pytestmark = pytest.mark.usefixtures("few_draws")
KEY = "sk-secret-of-the-test"
SUITE = ("--bias-suite=lm-occupation", "--bias-limit=32")
TOKENIZER = f"-obias_tokenizer=chat={DEMO_FOLDER / 'lm'}"


@pytest.fixture(scope="module")
def memo():
    """What the server computed in earlier tests of this file."""
    return {}


@pytest.fixture
def server(memo):
    backend = load_model("demo-lm", device="cpu").backend
    with CompletionServer(backend.network, backend.tokenizer, model="m", key=KEY, memo=memo) as running:
        yield running


@pytest.fixture
def with_key(monkeypatch):
    monkeypatch.setenv("GENDERBIAS_API_KEY", KEY)


def results(project):
    text = project.path.joinpath("r.json").read_text()
    return json.loads(text)["measurements"], text


def test_a_served_model_has_the_figures_of_its_checkpoint_and_another_one_none_of_them(project, server, with_key):
    """One under the same address and tag is refused before anything is read."""
    run = (
        f"--bias-model=chat={server.url}#m",
        "--bias-model=demo-lm",
        TOKENIZER,
        *SUITE,
        "--bias-json=r.json",
        "--bias-device=cpu",
    )
    result = project.runpytest(*run, "-obias_endpoint_version=night 7")
    result.assert_outcomes(passed=2)
    (served, own), text = results(project)
    assert served["values"]["aggregate_bias"] == pytest.approx(own["values"]["aggregate_bias"], abs=1e-5)
    model = served["signature"]["model"]
    assert model["spec"] == f"{server.url}#m"
    assert model["endpoint_version"] == "night 7"
    assert model["server"].endswith("1.0")
    assert any("behind the server at" in note for note in served["notes"])
    assert KEY not in text + result.stdout.str() + result.stderr.str()
    assert _of_the_suite(server)
    run = (f"--bias-model=chat={server.url}#m", TOKENIZER, *SUITE, "--bias-json=r.json", "--bias-device=cpu")
    network, memo = server.network, server.memo
    server.network, server.memo = _with_other_weights(network), None
    result = project.runpytest(*run, "-obias_endpoint_version=night 7")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "ScoreError: chat is another model than *-o bias_endpoint_version=night 7: the server at *"
            "on average * nats a token then, * now, * apart, expected at most 0.001*take another TAG*"
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    assert results(project)[0] == []
    server.network, server.memo = network, memo
    server.bodies.clear()
    project.runpytest(*run, "-obias_endpoint_version=night 7").assert_outcomes(passed=1)
    assert results(project)[0][0]["values"] == served["values"]
    assert server.bodies  # of the proof
    assert not _of_the_suite(server)  # whose scores are cached


def _with_other_weights(network):
    """Return a copy whose weights are a twentieth larger, so that it passes the proof as well."""
    other = copy.deepcopy(network)
    with torch.no_grad():
        for name, weights in other.named_parameters():
            if "norm" not in name and "ln" not in name:
                weights.mul_(1.05)
    return other


def _that_knows_no_english(network):
    """Return a copy with the embeddings of the tokens in another order."""
    other = copy.deepcopy(network)
    with torch.no_grad():
        embeddings = other.get_input_embeddings().weight
        embeddings.copy_(embeddings[torch.randperm(len(embeddings), generator=torch.Generator().manual_seed(0))])
    return other


def _of_the_suite(server):
    """Return the prompts that the server was asked for and that are sentences of the suite."""
    prompts = [prompt for body in server.bodies if "echo" in body and body["prompt"] for prompt in body["prompt"]]
    texts = [server.tokenizer.decode(prompt) for prompt in prompts if isinstance(prompt, list)]
    return [text for text in texts if re.match(r"\W*s?he (is|was) an? ", text.lower())]


def test_a_server_that_cannot_be_proved_fails_with_a_line_for_each_check(project, server, with_key):
    server.network, server.memo = _that_knows_no_english(server.network), None
    result = project.runpytest(f"--bias-model=chat={server.url}#m", TOKENIZER, *SUITE)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*chat: the server at * gives no log-probabilities of prompts*", "*- known texts: expected *, got -0.31;*"]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


def test_without_the_key_one_line_says_where_to_put_it(project, server):
    result = project.runpytest(f"--bias-model=chat={server.url}#m", TOKENIZER, *SUITE)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["ModelError: *refuses the key*GENDERBIAS_API_KEY*"])


def test_without_a_tokenizer_one_line_names_the_flag(project, server, with_key):
    result = project.runpytest(f"--bias-model=chat={server.url}#m", *SUITE)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["ModelError: chat is served, and its own tokenizer is needed here*-o bias_tokenizer=chat=DIR*"]
    )


def test_another_machine_is_not_asked_without_the_flag(project):
    result = project.runpytest("--bias-model=chat=http://192.0.2.7/v1#m", *SUITE)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["ModelError: chat is at 192.0.2.7, another machine*-o bias_allow_remote=true*"])


def test_the_flag_says_how_long_a_request_may_take(project, monkeypatch):
    limits = []
    monkeypatch.setattr(
        transport, "_connection", lambda url, limit, *others: limits.append(limit) or httpx.AsyncClient()
    )
    result = project.runpytest("--bias-model=chat=http://127.0.0.1:9/v1#m", *SUITE, "-obias_endpoint_timeout=40")
    result.stdout.fnmatch_lines(["ModelError: chat: nothing answers at *"])
    assert limits == [40]


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("-obias_endpoint_timeout=0", "*bias_endpoint_timeout*expected a whole number of at least 1, got '0'*"),
        ("-obias_tokenizer=chat", "*bias_tokenizer*expected NAME=DIR*got 'chat'*"),
        ("-obias_tokenizer==x", "*bias_tokenizer*expected NAME=DIR*"),
        ("--bias-model=http://user:secret@127.0.0.1/v1#m", "*no user, password or query*"),
        ("--bias-model=http://127.0.0.1:8000/v1", "*names no model*"),
    ],
)
def test_wrong_values_are_usage_errors(project, flag, message):
    result = project.runpytest(flag)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    assert "secret" not in result.stderr.str() + result.stdout.str()


def test_the_ini_file_may_name_tokenizers_of_models_of_other_runs(project):
    project.makeini("[pytest]\nbias_tokenizer = chat=gpt2")
    assert project.runpytest("--bias-model=demo-lm").ret == pytest.ExitCode.NO_TESTS_COLLECTED
