"""Batches in several threads: the same scores, the same bits in every run, the same errors, and torch's settings as
before.
"""

import ast
import copy
import inspect
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from support.tiny_checkpoints import CAUSAL, CLASSIFIERS, MASKED, small_disco, small_suite_space

from pytest_genderbias.errors import ModelError
from pytest_genderbias.scoring import network as networks
from pytest_genderbias.scoring import parallel_batches
from pytest_genderbias.scoring.network import Batches
from pytest_genderbias.scoring.parallel_batches import (
    FEWEST_TOKENS,
    UNCHANGED_BY_A_PASS,
    can_pass_side_by_side,
    largest_first,
    pass_side_by_side,
    plan,
)
from pytest_genderbias.scoring.scorers import make_scorer

LENGTHS = np.random.default_rng(0).integers(4, 20, size=400)


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def batches_of(lengths, device="cpu", asked=True):
    """Return the rows of each batch, by the thread that passed it."""
    seen = {}

    def step(rows):
        seen.setdefault(threading.get_ident(), []).append((rows.tolist(), torch.get_num_threads()))
        time.sleep(0.002)

    Batches(device, None).run(lengths, step, side_by_side=asked)
    return seen


def test_every_row_is_passed_once_by_workers_of_one_thread(three_threads):
    seen = batches_of(LENGTHS)
    assert len(seen) == 3
    assert threading.get_ident() not in seen
    assert {threads for batches in seen.values() for _, threads in batches} == {1}
    rows = [row for batches in seen.values() for batch, _ in batches for row in batch]
    assert sorted(rows) == list(range(len(LENGTHS)))
    assert torch.get_num_threads() == 3
    other = []
    threading.Thread(target=lambda: other.append(torch.get_num_threads())).run()
    assert other == [3]


def test_threads_that_are_not_workers_help_them():
    before = torch.get_num_threads()
    torch.set_num_threads(8)
    try:
        seen = batches_of(np.full(3 * FEWEST_TOKENS // 16, 16))
    finally:
        torch.set_num_threads(before)
    assert {threads for batches in seen.values() for _, threads in batches} == {8 // 3}


def test_batches_do_not_depend_on_who_takes_them(three_threads):
    first, second = (sorted(b for batches in batches_of(LENGTHS).values() for b, _ in batches) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("device", "lengths", "asked"), [("cuda", LENGTHS, True), ("cpu", LENGTHS[:60], True), ("cpu", LENGTHS, False)]
)
def test_one_thread_passes_batches_elsewhere(three_threads, device, lengths, asked):
    seen = batches_of(lengths, device, asked)
    assert list(seen) == [threading.get_ident()]
    assert {threads for batches in seen.values() for _, threads in batches} == {3}


def test_one_thread_where_precision_is_chosen_for_the_thread(three_threads):
    with torch.autocast("cpu"):
        assert list(batches_of(LENGTHS)) == [threading.get_ident()]


@pytest.mark.parametrize("tokens", [1, 600, 1024, 5000, 100_000])
@pytest.mark.parametrize("threads", [1, 2, 5, 64])
def test_no_more_threads_than_torch_has_and_batches_for_all(tokens, threads):
    workers, share, batch_tokens = plan(tokens, 2048, threads)
    assert 1 <= workers * share <= threads
    assert batch_tokens <= 2048
    assert (workers, share, batch_tokens) == (1, threads, 2048) or tokens // batch_tokens >= workers > 1


def test_the_largest_batches_come_first():
    batches = [np.array([0]), np.array([1, 2, 3]), np.array([4, 5])]
    lengths = np.array([5, 2, 2, 2, 9, 9])
    assert [len(rows) for rows in largest_first(batches, lengths)] == [2, 3, 1]


# Errors


def test_the_error_is_that_of_the_first_batch_that_fails(three_threads):
    begun, second = [], threading.Event()

    def step(rows):
        begun.append(int(rows[0]))
        if rows[0] == 1:
            second.wait(5)  # the second batch fails first
        elif rows[0] != 2:
            time.sleep(0.005)
        if rows[0] in (1, 2):
            second.set()
            raise ValueError(f"batch {rows[0]}")

    failed, rest = pass_side_by_side([np.array([i]) for i in range(50)], step, 3, 1)
    assert [str(error) for _, error in failed] == ["batch 1", "batch 2"]
    assert sorted([*begun, *(int(rows[0]) for rows in rest)]) == list(range(50))
    assert rest
    assert torch.get_num_threads() == 3


def test_errors_of_a_step_reach_the_caller(three_threads):
    def step(rows):
        raise ModelError("planned")

    with pytest.raises(ModelError, match="planned"):
        Batches("cpu", None).run(LENGTHS, step, side_by_side=True)
    assert torch.get_num_threads() == 3


def test_batches_that_do_not_fit_are_halved_until_they_do(three_threads):
    done = []

    def step(rows):
        if len(rows) > 10:
            raise RuntimeError("[enforce fail] can't allocate memory: you tried to allocate 9 bytes")
        done.extend(rows.tolist())

    batches = Batches("cpu", None)
    batches.run(LENGTHS, step, side_by_side=True)
    assert sorted(done) == list(range(len(LENGTHS)))
    assert batches.halvings >= 2
    assert "batches halved" in batches.note


def test_an_interrupt_ends_the_workers_after_their_batch(three_threads, monkeypatch):
    done = []

    def step(rows):
        time.sleep(0.01)
        done.append(rows)

    def interrupted(self, timeout=None):
        raise KeyboardInterrupt

    monkeypatch.setattr("concurrent.futures.Future.result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pass_side_by_side([np.array([i]) for i in range(500)], step, 3, 1)
    assert len(done) < 50
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("batches")]
    assert torch.get_num_threads() == 3


# Scores


@pytest.mark.parametrize(
    ("kind", "name"), [("bert", "disco-names"), ("bert-nli", "nli-occupation"), ("gpt2", "lm-occupation")]
)
def test_scores_are_those_of_one_thread_and_the_same_bits_each_time(tiny_model, kind, name):
    space, query = small_suite_space(name)
    cases = np.random.default_rng(1).integers(space.n_cases, size=300)
    before, scores = torch.get_num_threads(), []
    try:
        for threads in (1, 3, 3):
            torch.set_num_threads(threads)
            scores.append(make_scorer(space, query, tiny_model(kind), None).score(cases))
    finally:
        torch.set_num_threads(before)
    one, *three = scores
    assert np.array_equal(*three)
    assert np.array_equal(one, three[0]) if one.dtype.kind == "i" else np.allclose(one, three[0], atol=1e-6)


def test_scores_are_computed_by_workers(tiny_model, three_threads, monkeypatch):
    workers, reading = set(), networks.reading

    def noted(*args):
        workers.add(threading.current_thread().name.partition("_")[0])
        return reading(*args)

    monkeypatch.setattr(networks, "reading", noted)
    space, query = small_disco()
    make_scorer(space, query, tiny_model("bert"), None).score(np.arange(300))
    assert workers == {"MainThread", "batches"}  # the trial of the shorter pass, and the batches


# Networks


@pytest.mark.parametrize("kind", sorted(UNCHANGED_BY_A_PASS))
def test_no_forward_pass_of_a_known_type_assigns_to_its_network(kind):
    """Read the modelling code: no method but ``__init__`` and setters assigns to an attribute of its own object."""
    folder = Path(inspect.getfile(transformers)).parent / "models" / kind.replace("-", "_")
    tree = ast.parse((folder / f"modeling_{folder.name}.py").read_text(encoding="utf-8"))
    assigned = [
        f"{scope.name}.{method.name}: self.{target.attr}"
        for scope in ast.walk(tree)
        if isinstance(scope, ast.ClassDef)
        for method in scope.body
        if isinstance(method, ast.FunctionDef) and not method.name.startswith(("__init__", "set_"))
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        for target in [node]
        if isinstance(target.value, ast.Name) and target.value.id == "self"
    ]
    assert assigned == []


def test_which_networks_are_passed_side_by_side(tiny_model):
    network = tiny_model("bert").backend.network
    assert can_pass_side_by_side(network)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "training", True)
        assert not can_pass_side_by_side(network)
        patch.undo()
        patch.setattr(network.config, "model_type", "big_bird")
        assert not can_pass_side_by_side(network)
        patch.undo()
        patch.setattr(type(network), "__module__", "my_project.networks")
        assert not can_pass_side_by_side(network)
    assert parallel_batches.can_pass_side_by_side(network)


def test_a_layer_of_others_may_keep_a_state_of_the_pass(tiny_model):
    """As the layers of quantised weights do, which leave the class of the network as it is."""

    class Counted(torch.nn.Linear):
        pass

    network = copy.deepcopy(tiny_model("bert").backend.network)
    before = network.bert.encoder.layer[0].output.dense
    network.bert.encoder.layer[0].output.dense = Counted(before.in_features, before.out_features)
    assert not can_pass_side_by_side(network.eval())


@pytest.mark.parametrize("kind", [*MASKED, *CAUSAL, *CLASSIFIERS])
def test_all_layers_of_a_known_network_are_known(tiny_model, kind):
    network = tiny_model(kind).backend.network
    assert can_pass_side_by_side(network) == (network.config.model_type in UNCHANGED_BY_A_PASS)
