"""Everything that a run does works without pytest: restarts, and a mitigation with its verdict."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from support.forks import forked

from pytest_genderbias.errors import SettingError
from pytest_genderbias.measurement.runner import Runner, RunSettings
from pytest_genderbias.mitigation import make_method
from pytest_genderbias.mitigation.harness import file as module
from pytest_genderbias.mitigation.harness.file import MitigationRunner

PROGRAM = """
from pytest_genderbias import measure
from pytest_genderbias.measurement.runner import Runner, RunSettings
from pytest_genderbias.mitigation import judge_reduction, make_method
from pytest_genderbias.mitigation.harness.file import MitigationRunner
from pytest_genderbias.models.loading import load_model

model = load_model("demo-lm")
for seed in range(3):
    model.backend.network.get_input_embeddings().weight.data.mul_(1 + 0.01 * seed)
    model.backend.network.save_pretrained(f"{folder}/seed-{seed}")
    model.backend.tokenizer.save_pretrained(f"{folder}/seed-{seed}")
few = {"limit": 80, "cache": None, "ability": "none: restarts and mitigations are tested"}
restarts = measure("lm-occupation", f"m={folder}/seed-{{seed}}", seeds=3, **few)

runner = Runner(score=RunSettings(**few))
mitigations = MitigationRunner(runner)
projection = make_method("projection")
run = mitigations.mitigate("demo-lm", projection, controls=1)
assert mitigations.mitigate("demo-lm", projection, controls=1) is run
judgement = judge_reduction(run, "lm-occupation", by=0.0)
assert judge_reduction(run, "lm-occupation", by=0.0) == judgement
said = {
    "restarts": restarts.restarts, "notes": list(restarts.notes), "code": judgement.code, "model": judgement.model
}
"""


def modules_of(*packages: str) -> list[str]:
    return sorted(name for name in sys.modules if name.partition(".")[0] in packages)


def found(folder: str) -> dict[str, object]:
    """Run the program where neither pytest, nor the hook by which it imports, nor the package is loaded."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("_pytest")]
    for name in modules_of("pytest", "_pytest", "pytest_genderbias"):
        del sys.modules[name]
    names: dict[str, Any] = {"folder": folder}
    exec(PROGRAM, names)
    return {**names["said"], "pytest": modules_of("pytest", "_pytest")}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_restarts_and_a_mitigation_need_no_pytest(tmp_path: Path) -> None:
    """In a copy of this process, which has loaded torch and transformers."""
    told = tmp_path / "told"
    assert forked(lambda: found(str(tmp_path)), told) == 0, told.read_text()
    result = json.loads(told.read_text())
    assert result["pytest"] == []
    assert result["restarts"] == 3 and result["notes"] == ["mean over 3 restarts, seeds 0, 1, 2"]
    assert result["code"] in ("reduced", "not_reduced", "too_few", "over_corrected")
    assert result["model"] == "demo-lm with projection"


def uncached() -> Runner:
    return Runner(score=RunSettings(cache=None, limit=40))


def test_a_mitigation_is_done_once_while_its_model_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, real = [], module.mitigate
    monkeypatch.setattr(module, "mitigate", lambda *a, **k: calls.append(k["controls"]) or real(*a, **k))
    runner, method = uncached(), make_method("projection")
    mitigations = MitigationRunner(runner)
    run = mitigations.mitigate("mine=demo-lm", method, controls=1)
    assert MitigationRunner(runner).mitigate("mine=demo-lm", make_method("projection"), controls=1) is run
    assert mitigations.mitigate("mine=demo-lm", method, controls=2) is not run
    assert calls == [1, 2]
    (measurement,), *_ = run.measure("after", "lm-occupation")
    assert measurement.model == "mine" and measurement.n == 40, "named and measured as the run says"
    runner.models.release()
    assert mitigations.mitigate("mine=demo-lm", method, controls=1) is not run
    assert calls == [1, 2, 1]


def test_an_error_is_raised_again_and_nothing_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def mitigate(*arguments, **settings):
        calls.append(1)
        raise SettingError("this method cannot be done")

    monkeypatch.setattr(module, "mitigate", mitigate)
    mitigations = MitigationRunner(uncached())
    for _ in range(2):
        with pytest.raises(SettingError, match="this method cannot be done"):
            mitigations.mitigate("demo-lm", make_method("projection"))
    assert calls == [1]


def test_a_mitigation_starts_from_one_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "seed-0").mkdir()
    (tmp_path / "seed-0" / "config.json").write_text("{}")
    with pytest.raises(SettingError, match="a mitigation starts from one; name one of them"):
        MitigationRunner(uncached()).mitigate(f"m={tmp_path}/seed-{{seed}}", make_method("projection"))
