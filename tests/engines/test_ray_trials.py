"""``scripts/ray_test.py``: what it counts as scored twice, from what workers wrote before they were killed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.scripts import load_script
from support.tiny_checkpoints import suite_space

from pytest_genderbias.engines import ray_executor
from pytest_genderbias.engines.ray_executor import WantedModel


@pytest.fixture
def script() -> Any:
    return load_script("ray_test")


@pytest.mark.parametrize(
    ("steps", "cases"),
    [
        ("", 0),
        ("load", 0),
        ("load,begin 512", 0),
        ("load,begin 512,rows 1000", 0),
        ("load,begin 512,rows 1000,batch 250,batch 250", 256),
        ("load,begin 512,rows 80,batch 80,rows 1000,batch 250", 128),
        ("load,begin 512,rows 1000,batch 600,batch 400,end", 512),
        ("load,begin 512,rows 9,batch 9,end,begin 100,rows 8,batch 4,end,begin 64,rows 8,batch 2", 628),
    ],
)
def test_cases_count_by_the_batches_that_were_begun(script: Any, tmp_path: Path, steps: str, cases: float) -> None:
    tmp_path.joinpath("1234567890").write_text("".join(f"{step}\n" for step in steps.split(",") if step))
    log = script.Log(tmp_path)
    assert log.scored() == cases
    assert log.loads() == ("load" in steps)
    assert log.loaded() == []  # there is no such process


def test_a_worker_writes_what_it_does_and_scores_as_it_would(script: Any, tmp_path: Path, tiny_model: Any) -> None:
    log, model = script.Log(tmp_path), tiny_model("bert-nli")
    space, query = suite_space("nli-occupation")
    scores = []
    for make in (script.logging_worker(log), script.RayWorker):
        worker = make(1)
        worker.begin(WantedModel.of(model), ray_executor.pickle.dumps((space, query, None)))
        scores.append([worker.score(np.arange(start, start + 100))[0].tobytes() for start in (0, 100)])
    assert scores[0] == scores[1]
    (steps,) = log.steps().values()
    assert [step for step, *_ in steps if step not in ("rows", "batch")] == ["load", "begin", "end", "begin", "end"]
    assert sum(step == "batch" for step, *_ in steps) >= 2
    assert log.scored() == 200
    assert log.loaded() == [os.getpid()]
