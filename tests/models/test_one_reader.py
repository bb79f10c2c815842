"""Threads that load models at once: transformers changes the whole process while it reads weights."""

from concurrent.futures import ThreadPoolExecutor

import torch

from pytest_genderbias import load_model


def test_threads_that_load_models_leave_their_tied_weights_and_those_of_later_ones():
    names = ["demo-lm", "demo-mlm", "demo-nli"] * 8
    with ThreadPoolExecutor(8) as threads:
        loaded = list(threads.map(load_model, names))
    assert {model.fingerprint for model in loaded} == {load_model(name).fingerprint for name in set(names)}
    network = load_model("demo-lm").backend.network
    assert network.lm_head.weight is network.transformer.wte.weight
    assert torch.nn.Linear(2, 2).weight.device.type == "cpu"
