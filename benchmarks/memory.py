"""Peak memory of a long run compared with a short one: scores are streamed, so it should hardly grow."""

from __future__ import annotations

import warnings
from typing import Any

from cases import UNASKED
from checkpoints import Shape, load_tokenizer, random_model
from rows import Row
from subprocesses import answer_of, main, peak_bytes

_SHAPE = Shape(1, 32, 2)
_MIB = 1 << 20


def run(quick: bool) -> list[Row]:
    """Measure a short run and one of ten times the length, each in a process of its own."""
    load_tokenizer()
    short = 2_000 if quick else 20_000
    few, many = (answer_of(__file__, n)["peak"] for n in (short, 10 * short))
    name, beside = f"peak memory of {10 * short:,} cases", f"{short:,} cases"
    return [Row(name, many / _MIB, "MiB", many / few, "x", beside, few / _MIB, at_most=1.1)]


def measure_once(limit: int) -> dict[str, Any]:
    """Measure ``limit`` cases of nli-occupation with a tiny classifier."""
    from pytest_genderbias import measure

    warnings.simplefilter("ignore")  # the labels of random weights mean nothing
    measured = measure(
        "nli-occupation", random_model(_SHAPE, classifier=True), limit=limit, cache=None, ability=UNASKED
    )
    assert measured.n == limit
    return {"peak": peak_bytes()}


if __name__ == "__main__":
    main(measure_once)
