"""``benchmarks/forward_passes.py``: the baseline passes the rows that are scored, and no others."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tiny_checkpoints import suite_space

from pytest_genderbias.scoring.network import Network
from pytest_genderbias.scoring.scorers import make_scorer

FILE = Path(__file__).parents[1] / "benchmarks" / "forward_passes.py"


@pytest.mark.skipif(not FILE.is_file(), reason="the benchmarks are not part of what is tested here")
@pytest.mark.parametrize(("kind", "suite"), [("bert-nli", "nli-occupation"), ("bert", "disco-names")])
def test_the_batches_have_each_row_once(
    tiny_model: Any, monkeypatch: pytest.MonkeyPatch, kind: str, suite: str
) -> None:
    """Without a row of each length, which our engine passes with and without a hook before the first batch."""
    spec = spec_from_file_location("forward_passes", FILE)
    assert spec is not None
    assert spec.loader is not None
    forward_passes = module_from_spec(spec)
    spec.loader.exec_module(forward_passes)
    lengths: list[int] = []
    run = Network.run

    def counted(self: Network, inputs: Any, use: Any) -> None:
        lengths.extend(inputs.lengths.tolist())
        run(self, inputs, use)

    monkeypatch.setattr(Network, "run", counted)
    model, (space, query) = tiny_model(kind), suite_space(suite)
    batches = forward_passes.batches_of(
        model.backend.network, lambda: make_scorer(space, query, model, None).score(np.arange(200))
    )
    passed = [
        int(length)
        for batch in batches
        for length in batch.get("attention_mask", (batch["input_ids"] + 1).clamp(1, 1)).sum(1)
    ]
    assert len(passed) > 8
    assert sorted(passed) == sorted(lengths)
