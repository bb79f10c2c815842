"""DisCo: the same top-3 fills, compared with the fill-mask pipeline of transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
from cases import UNASKED, sentences, space_of
from checkpoints import Shape, random_model
from forward_passes import batches_of, forward_packed, one_at_a_time, unpacked
from rows import Row, ratio
from timing import medians

from pytest_genderbias import load_suite, measure
from pytest_genderbias.scoring.packed_layers import PackedLayers

#: Shape, and the wanted speed-up over the pipeline in batches and with one sentence per call.
_WANTED = ((Shape(4, 256, 4), 6.5, 15.0), (Shape(6, 384, 12), 4.2, 10.0))
_BATCH = 64
_TIE = 1e-5  #: scores that differ by less than this share may come in either order


def run(quick: bool) -> list[Row]:
    """Measure both shapes."""
    return [row for wanted in _WANTED for row in _compare(*wanted, quick)]


def _compare(shape: Shape, batched: float, single: float, quick: bool) -> list[Row]:
    from transformers import pipeline

    model, suite = random_model(shape), load_suite("disco-names")
    pipe = pipeline("fill-mask", model=model.backend.network, tokenizer=model.backend.tokenizer, device="cpu", top_k=3)
    # As users run it: the whole suite, of which the token ids of words and the statistics are a fixed part. The
    # pipeline treats each sentence by itself.
    limit, some, alone = (280, 280, 28) if quick else (space_of(suite).n_cases, 4200, 140)
    texts = [text for (text,) in sentences(suite, limit, model.backend.tokenizer.mask_token)]
    network = model.backend.network
    ours_alone = lambda: measure(suite, model, limit=limit, cache=None, ability=UNASKED)  # noqa: E731 - timed with and without packing
    batches, packed = batches_of(network, ours_alone), PackedLayers(network)
    times = medians(
        {
            "ours": ours_alone,
            "before": lambda: unpacked(ours_alone),
            "shared": lambda: one_at_a_time(ours_alone),
            "packed": lambda: forward_packed(network, packed, batches),
            "batches": lambda: pipe(texts[:some], batch_size=_BATCH),
            "one": lambda: [pipe(text) for text in texts[:alone]],
        },
        1 if quick else 2,
    )
    ours = len(texts) / times["ours"]
    name, unit = f"DisCo, {shape}", "sentences/s"
    fills = (
        measure(suite, model, limit=limit, cache=None, ability=UNASKED).items["fills"].reshape(len(texts), -1)[:some]
    )
    more = pipe(texts[:some], batch_size=_BATCH, top_k=6)  # more than three, for ties at the third
    same = np.mean([_agree(mine, theirs) for mine, theirs in zip(fills, more, strict=True)])
    return [
        ratio(name, ours, some / times["batches"], f"fill-mask pipeline, batches of {_BATCH}", unit, batched),
        ratio(
            name, ours, len(texts) / times["packed"], "bare forward passes, packed layers, the same batches", unit, 0.9
        ),
        ratio(name, ours, len(texts) / times["before"], "ours without packed layers", unit),
        ratio(name, ours, len(texts) / times["shared"], "ours, one batch at a time", unit),
        ratio(name, ours, alone / times["one"], "fill-mask pipeline, one per call", unit, single),
        Row(f"{name}: the same top-3 fills", some, "sentences", 100.0 * float(same), "%", at_least=100.0),
    ]


def _agree(fills: Any, theirs: list[dict[str, Any]]) -> bool:
    """Return whether the fills agree rank by rank, except for the order of ties."""
    for fill, answer in zip(fills, theirs, strict=False):
        if int(fill) != answer["token"] and not any(
            int(fill) == other["token"] and abs(other["score"] / answer["score"] - 1) < _TIE for other in theirs
        ):
            return False
    return True
