"""Chat suites on a served model: every answer and every figure of the checkpoint in process, by the requests that a
server gets.

The network is small and knows none of the tasks. What would take its values away is left out on both sides, so that all
figures are compared.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from support.answered_suites import write_winobias, write_winogender
from support.chat_models import bbq_rows, write_bbq
from support.served import CompletionServer, Direct
from support.trained_causal import trained

from pytest_genderbias import load_model, load_suite
from pytest_genderbias.engines import served
from pytest_genderbias.engines.served_client import ServedClient
from pytest_genderbias.engines.served_proof import KNOWN_TEXTS
from pytest_genderbias.measurement.carry_out import ask, summarised
from pytest_genderbias.measurement.plan import plan_measurement
from pytest_genderbias.models.objects import wrap_network
from pytest_genderbias.scoring.engine import ScoreSettings
from pytest_genderbias.suites.families import nli
from pytest_genderbias.suites.families.shared import asking

TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
#: By name: suite, most cases, and options.
SUITES = {
    "bbq": ("bbq", 12, {}),
    "chat-iat": ("chat-iat", 12, {}),
    "decisions": ("decisions", 6, {}),
    "decisions, described": ("decisions", 6, {"person": "described"}),
    "winobias-chat": ("winobias-chat", 30, {}),
    "winogender-chat": ("winogender-chat", 45, {}),
    "nli-occupation": ("nli-occupation", 4, {}),
}


@pytest.fixture(scope="module")
def models():
    """The model behind a server, whose proof is part of loading it, and the checkpoint in this process."""
    network, words = trained("gpt2", *KNOWN_TEXTS)
    before, words.chat_template = words.chat_template, TEMPLATE
    with CompletionServer(network, words, memo={}) as server:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(served, "ServedClient", partial(ServedClient, transport=Direct()))
            model = load_model(f"chat={server.url}#local", tokenizer=words)
        yield model, wrap_network(network, words, "chat")
    words.chat_template = before


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_bbq(folder, bbq_rows(6, 1))
    write_winobias(folder, 40)
    write_winogender(folder, 10)
    return folder


@pytest.fixture
def all_figures(monkeypatch, few_draws):
    monkeypatch.setattr(asking, "cannot_do", lambda *arguments: "")
    few = {label: pairs[:3] for label, pairs in nli.PACKAGED.items()}  # three pairs show the same
    monkeypatch.setattr(nli, "PACKAGED", few)


#: The texts of described persons are asked as those of named ones.
_SLOW = ("decisions, described",)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in _SLOW else []) for n in SUITES])
def test_answers_and_figures_are_those_of_the_checkpoint(models, data, all_figures, name):
    suite, limit, options = SUITES[name]
    loaded, settings = load_suite(suite), ScoreSettings(limit)
    folder = data if suite in ("bbq", "winobias-chat", "winogender-chat") else None
    served, plain = (
        ask(plan_measurement(loaded, "chat", model.role, options, folder), model, settings) for model in models
    )
    assert served.answers.keys() == plain.answers.keys()
    for question, answer in plain.answers.items():
        assert len(answer.units) and served.answers[question].units.tolist() == answer.units.tolist()
        np.testing.assert_allclose(served.answers[question].values, answer.values, rtol=1e-5)
    found, expected = summarised(served, settings), summarised(plain, settings)
    assert [key for key, value in expected.values.items() if value is not None]
    for key, value in expected.values.items():
        assert found.values[key] == (value if value is None else pytest.approx(value, rel=1e-5, abs=1e-5)), key
    assert found.reasons == expected.reasons
    assert found.signature["model"]["chat_template"] == expected.signature["model"]["chat_template"]
    assert any("behind the server" in note for note in found.notes)
