"""Pseudo-log-likelihood of the sentences of CrowS-Pairs: masks of all sentences packed together, compared with one
sentence per forward pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from checkpoints import TOKENIZER, NoTokenizerError, Shape, random_model
from numpy.typing import NDArray
from rows import Row, ratio
from timing import medians

from pytest_genderbias.datasets.folder import DataFolder, MissingDataError
from pytest_genderbias.datasets.sentence_pairs import read_crows_pairs
from pytest_genderbias.models.model import Model
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.suites.cases import TextCases
from pytest_genderbias.suites.query import PseudoLogLikelihood

#: Shape, and the wanted speed-up over one sentence per forward pass.
_WANTED = ((Shape(4, 256, 4), 4.0), (Shape(6, 384, 12), 4.0))
_NEAR = 1e-4  #: largest difference in nats per token


def run(quick: bool) -> list[Row]:
    """Measure both shapes."""
    return [row for wanted in _WANTED for row in _compare(*wanted, quick)]


def _compare(shape: Shape, wanted: float, quick: bool) -> list[Row]:
    model, texts = random_model(shape), _texts(24 if quick else 120)
    alone = texts[:: 4 if quick else 8]
    network, tokenizer = model.backend.network, model.backend.tokenizer
    # A new scorer each time: its checks of the network are part of its time.
    times = medians(
        {
            "ours": lambda: _scored(model, texts),
            "one": lambda: [_one_sentence(network, tokenizer, text) for text in alone],
        },
        1 if quick else 2,
    )
    scores = _scored(model, alone)
    plain = np.asarray([_one_sentence(network, tokenizer, text) for text in alone])
    away = float((np.abs(scores[:, 0] - plain) / scores[:, 1]).max())
    assert away < _NEAR, f"scores differ by {away} nats per token from those of one sentence per forward pass"
    name, unit = f"pseudo-log-likelihood, {shape}", "sentences/s"
    ours, theirs = len(texts) / times["ours"], len(alone) / times["one"]
    return [ratio(name, ours, theirs, "one sentence per forward pass, full logits", unit, wanted)]


def _scored(model: Model, texts: list[str]) -> NDArray[np.generic]:
    scorer = make_scorer(TextCases([(text,) for text in texts]), PseudoLogLikelihood(), model, None)
    return scorer.score(np.arange(len(texts)))


def _texts(n: int) -> list[str]:
    """Return sentences from evenly spaced pairs of the data set."""
    try:
        path = DataFolder(TOKENIZER.parents[1]).find("crows_pairs")
    except MissingDataError as error:
        raise NoTokenizerError(str(error)) from None
    pairs = read_crows_pairs(path)
    return [text for i in np.linspace(0, len(pairs) - 1, n // 2).astype(int) for text in (pairs[i].more, pairs[i].less)]


@torch.inference_mode()
def _one_sentence(network: Any, tokenizer: Any, text: str) -> float:
    """Return the score of a sentence from one forward pass of all its masked copies."""
    ids = tokenizer(text, return_tensors="pt")["input_ids"][0]
    positions = torch.arange(1, len(ids) - 1)
    copies = ids.repeat(len(positions), 1)
    copies[torch.arange(len(positions)), positions] = tokenizer.mask_token_id
    log_probabilities = network(input_ids=copies).logits.log_softmax(-1)
    return float(log_probabilities[torch.arange(len(positions)), positions, ids[positions]].sum())
