"""NLI pairs, end to end, compared with the bare forward passes, the lower bound of the time."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from cases import UNASKED, sentences
from checkpoints import Shape, random_model
from forward_passes import batches_of, forward_all, forward_packed, unpacked
from rows import Row, ratio
from timing import medians

from pytest_genderbias import load_suite, measure
from pytest_genderbias.measurement.carry_out import LabelWarning
from pytest_genderbias.scoring.packed_layers import PackedLayers

_SHAPE = Shape(4, 256, 4)
_BATCH, _PADDED = 64, 128


def run(quick: bool) -> list[Row]:
    """Measure a sample of nli-occupation."""
    model, suite = random_model(_SHAPE, classifier=True), load_suite("nli-occupation")
    network, tokenizer = model.backend.network, model.backend.tokenizer
    limit, padded, alone = (1000, 64, 32) if quick else (4096, 256, 256)
    batches, packed = batches_of(network, lambda: _measure(suite, model, limit)), PackedLayers(network)
    pairs = sentences(suite, padded)
    times = medians(
        {
            "ours": lambda: _measure(suite, model, limit),
            "before": lambda: unpacked(lambda: _measure(suite, model, limit)),
            "packed": lambda: forward_packed(network, packed, batches),
            "bare": lambda: forward_all(network, batches),
            "padded": lambda: _padded(network, tokenizer, pairs),
            "one": lambda: _one_a_call(network, tokenizer, pairs[:alone]),
        },
        1 if quick else 3,
    )
    name, unit, ours = f"NLI, {_SHAPE}", "pairs/s", limit / times["ours"]
    return [
        ratio(name, ours, limit / times["packed"], "bare forward passes, packed layers, the same batches", unit, 0.9),
        ratio(name, ours, limit / times["bare"], "bare forward passes, the same batches", unit, 0.9),
        ratio(name, ours, limit / times["before"], "ours without packed layers", unit),
        ratio(name, ours, padded / times["padded"], f"padded to {_PADDED}, batches of {_BATCH}", unit),
        ratio(name, ours, alone / times["one"], "one per call", unit),
    ]


def _measure(suite: Any, model: Any, limit: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelWarning)  # the labels of random weights mean nothing
        measure(suite, model, limit=limit, cache=None, ability=UNASKED)


@torch.inference_mode()
def _padded(network: Any, tokenizer: Any, pairs: list[tuple[str, ...]]) -> None:
    for start in range(0, len(pairs), _BATCH):
        premises, hypotheses = map(list, zip(*pairs[start : start + _BATCH], strict=True))
        inputs = tokenizer(
            premises, hypotheses, padding="max_length", truncation=True, max_length=_PADDED, return_tensors="pt"
        )
        network(**inputs).logits.softmax(-1)


@torch.inference_mode()
def _one_a_call(network: Any, tokenizer: Any, pairs: list[tuple[str, ...]]) -> None:
    for premise, hypothesis in pairs:
        network(**tokenizer(premise, hypothesis, return_tensors="pt")).logits.softmax(-1)
