"""Token ids of all pairs of nli-occupation: assembled by array operations, compared with the fast tokenizer."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from cases import space_of
from checkpoints import load_tokenizer
from rows import Row, ratio
from subprocesses import answer_of, main, peak_bytes

from pytest_genderbias import load_suite
from pytest_genderbias.scoring.engine import WINDOW_ON_GPU as WINDOW
from pytest_genderbias.scoring.tokens import RowEncoder, TokenLayout

_GIB = 1 << 30


def run(quick: bool) -> list[Row]:
    """Measure in a process of its own, to know its peak memory."""
    load_tokenizer()
    figures = answer_of(__file__, 200_000 if quick else 0, 10_000 if quick else 100_000)
    ours, name = figures["cases"] / figures["ours"], f"token ids of {figures['cases']:,} pairs"
    theirs = figures["sample"] / figures["tokenizer"]
    sample = f"fast tokenizer, rate on {figures['sample']:,}"
    return [
        ratio(name, ours, theirs, sample, "pairs/s", 10.0),
        Row(f"{name}: all held at once", figures["ours"], "s", figures["peak"] / _GIB, "GiB peak", at_most=1.5),
        Row(f"{name}: the tokenizer's own", figures["sample"], "pairs", 100.0 * figures["same"], "%", at_least=100.0),
    ]


def measure_once(limit: int, sample: int) -> dict[str, Any]:
    """Assemble all ids, then time the tokenizer on a random sample and compare; ``limit`` 0 takes all pairs."""
    tokenizer, suite = load_tokenizer(), load_suite("nli-occupation")
    space = space_of(suite)
    cases = np.random.default_rng(0).permutation(space.n_cases)[: limit or None]
    tokenizer(["Warm up."], ["Warm up."])
    start = time.perf_counter()
    layout = TokenLayout(space, RowEncoder(tokenizer))
    windows = [layout.rows(cases[at : at + WINDOW]) for at in range(0, len(cases), WINDOW)]
    ours, peak = time.perf_counter() - start, peak_bytes()
    assert layout.note is None, layout.note
    spent, same = _tokenize(tokenizer, space, cases[:sample], windows)
    return {"cases": len(cases), "ours": ours, "peak": peak, "sample": sample, "tokenizer": spent, "same": same}


def _tokenize(tokenizer: Any, space: Any, cases: Any, windows: list[Any]) -> tuple[float, float]:
    """Return the time of the tokenizer in seconds, and the share of pairs with the same ids and types."""
    spent, same = 0.0, 0
    for at in range(0, len(cases), WINDOW):
        premises, hypotheses = map(list, zip(*space.sentences(cases[at : at + WINDOW]), strict=True))
        start = time.perf_counter()
        output = tokenizer(premises, hypotheses)
        spent += time.perf_counter() - start
        rows = windows[at // WINDOW]
        for i, (ids, types) in enumerate(zip(output["input_ids"], output["token_type_ids"], strict=True)):
            n = rows.lengths[i]
            same += ids == rows.ids[i, :n].tolist() and types == rows.types[i, :n].tolist()
    return spent, same / len(cases)


if __name__ == "__main__":
    main(measure_once)
