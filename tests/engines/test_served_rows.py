"""The rows of a measurement are proved as they are asked: a server that is honest about other prompts only is refused,
and no figure is made.
"""

from __future__ import annotations

import copy
from functools import partial

import numpy as np
import pytest
from support.served import CompletionServer, Direct
from support.served_lies import OF_ROWS
from support.trained_causal import known_of, trained

from pytest_genderbias import load_model, measure
from pytest_genderbias.engines.served_client import ServedClient
from pytest_genderbias.engines.served_proof import KNOWN_TEXTS, UnprovenError, trouble_of_few_draws
from pytest_genderbias.errors import ScoreError
from pytest_genderbias.models.objects import wrap_network

MEASURED = {"suite": "lm-occupation", "limit": 96, "cache": None}


@pytest.fixture(autouse=True)
def without_connections(monkeypatch):
    """A measurement has hundreds of requests; those of ``tests/plugin/test_served_model.py`` go over connections."""
    monkeypatch.setattr("pytest_genderbias.engines.served.ServedClient", partial(ServedClient, transport=Direct()))


@pytest.fixture(scope="module")
def pieces():
    return trained("llama", *KNOWN_TEXTS)


@pytest.fixture(scope="module")
def memo():
    """What the network says of prompts, which is the same for all servers."""
    return known_of("llama", *KNOWN_TEXTS)


def measured(server, **settings):
    model = load_model(f"candidate={server.url}#{server.model}", tokenizer=server.tokenizer)
    return measure(model=model, **{**MEASURED, **settings})


@pytest.mark.parametrize("trouble", ["", "rounding-noise", "at-least-one-token", "bare-top-list", "finite-floor"])
def test_an_honest_server_has_the_figures_of_its_network(pieces, memo, trouble):
    settings = MEASURED | {"limit": 16 if trouble else 48}
    with CompletionServer(*pieces, trouble=filter(None, [trouble]), memo=memo) as server:
        found = measured(server, **settings)
    expected = measure(model=wrap_network(*pieces, "candidate"), **settings)
    assert found.value == pytest.approx(expected.value, abs=1e-4)


def test_an_honest_server_in_bfloat16_is_not_refused(pieces, few_draws):
    """Its values move by some hundredths with the batch and the length."""
    network, words = copy.deepcopy(pieces[0]).bfloat16(), pieces[1]
    with CompletionServer(network, words) as server:
        found = measured(server, limit=16)
    expected = measure(model=wrap_network(*pieces, "candidate"), **MEASURED | {"limit": 16})
    assert found.value == pytest.approx(expected.value, abs=0.05)


def test_a_suite_of_one_row_is_proved_as_well(pieces, memo):
    with CompletionServer(*pieces, memo=memo) as server:
        assert measured(server, limit=1).value is not None


IN_TIME = ("for-a-while",)


@pytest.mark.parametrize("lie", [name for name in OF_ROWS if name not in IN_TIME])
def test_a_lie_about_rows_is_found_before_there_is_a_figure(pieces, memo, lie):
    with (
        CompletionServer(*pieces, lie=lie, memo=memo) as server,
        pytest.raises((UnprovenError, ScoreError), match="candidate"),
    ):
        measured(server)


@pytest.mark.parametrize("lies", [range(5, 10**9), range(60, 10**9), range(95, 10**9), range(33, 65), range(100, 128)])
def test_a_server_that_becomes_dishonest_is_found(pieces, memo, lies):
    """In a measurement of three windows: from some row on, or for one request in the middle."""
    with CompletionServer(*pieces, lie="for-a-while", memo=memo) as server:
        model = load_model(f"candidate={server.url}#{server.model}", tokenizer=server.tokenizer)
        before = server.memory["asked"]
        server.memory["lies"] = range(before + lies.start, before + lies.stop)
        with pytest.raises((UnprovenError, ScoreError), match="candidate"):
            measure(model=model, **MEASURED)


def test_a_change_between_two_measurements_is_found_by_rows_of_the_first(pieces, memo):
    with CompletionServer(*pieces, lie="for-a-while", memo=memo) as server:
        model = load_model(f"candidate={server.url}#{server.model}", tokenizer=server.tokenizer)
        assert measure(model=model, **MEASURED | {"limit": 16}).value is not None
        model.backend.confirm_unchanged("candidate")
        server.memory["lies"] = range(server.memory["asked"] + 4, 10**9)  # after the three known texts
        with pytest.raises(
            ScoreError, match=r"candidate changed while it was measured: .* rows that were measured before"
        ):
            model.backend.confirm_unchanged("candidate")


def test_draws_of_right_lists_pass_whatever_they_leave_open():
    """Lists of which the rest has a chance of one in a thousand: a normal distribution would call six draws of it
    impossible.
    """
    rng, found = np.random.default_rng(4), []
    for _ in range(300):
        places = []
        for sure in rng.choice([0.999, 0.9995, 0.6], 24):
            drawn = np.where(rng.random(40) < sure, 0, -1)
            places.append((np.tile([sure, 0.0], (40, 1)), drawn))
        found.append(trouble_of_few_draws(places))
    assert found == [None] * 300
    never = [(np.tile([0.999, 0.0], (40, 1)), np.where(np.arange(40) < 38, 0, -1)) for _ in range(24)]
    assert "was drawn less often" in trouble_of_few_draws(never) or "were drawn less often" in trouble_of_few_draws(
        never
    )
