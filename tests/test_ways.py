"""Ways through the package run in one direction: none enters a module more than twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
from support.scripts import load_script


@pytest.fixture(scope="module")
def ways() -> ModuleType:
    """The script ``scripts/ways.py``."""
    return load_script("ways")


@pytest.mark.parametrize(
    ("name", "verdict_at"),
    [
        ("baseline", "gates.judgement"),
        ("mitigate", "mitigation.harness.verdict"),
        pytest.param("correct-for", "gates.verdicts", marks=pytest.mark.slow),
    ],
)
def test_no_module_is_entered_more_than_twice(ways: ModuleType, name: str, verdict_at: str, tmp_path: Path) -> None:
    trace, packages = ways.WAYS[name]
    way, _, _ = ways.steps(trace(tmp_path), packages, False)
    entered = Counter(call.module for block, _ in ways.fold(way) for call in block)
    assert verdict_at in entered, "the way is traced to its end"
    assert {module: times for module, times in entered.items() if times > 2} == {}


def test_a_checkpoint_is_loaded_in_few_steps(ways: ModuleType, tmp_path: Path) -> None:
    trace, packages = ways.WAYS["load"]
    way, _, _ = ways.steps(trace(tmp_path), packages, False)
    assert way[0].module == "models.loading" and "models.fingerprint" in {call.module for call in way}
    assert len(way) <= 25
