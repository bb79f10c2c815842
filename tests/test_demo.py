"""The demo checkpoints: the suites find what was planted (demo/PLANTED.yaml), and nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from pytest_genderbias import Measurement, load_model, measure
from pytest_genderbias.models.spec import DEMO_FOLDER

PLANTED: dict[str, Any] = yaml.safe_load((DEMO_FOLDER / "PLANTED.yaml").read_text())


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scores")


def measured(suite: str, demo: str, cache: Path, **settings: Any) -> Measurement:
    return measure(suite, load_model(f"demo-{demo}"), cache=cache, **settings)


@pytest.mark.parametrize("suite", ["disco-names", "disco-terms"])
def test_disco_finds_the_planted_fills_and_no_other(suite: str, cache: Path) -> None:
    measurement = measured(suite, "mlm", cache)
    planted = {p["template"]: p for p in PLANTED["mlm"][suite]["planted"]}
    found = Counter(r["template"] for r in measurement.records if r["significant"])
    assert found == {template: p["significant_fills"] for template, p in planted.items()}
    for record in measurement.records:
        if record["significant"]:
            assert record["fill"] in planted[record["template"]]["fills"][record["preferred"]]
    assert measurement.value == pytest.approx(sum(found.values()) / 14)
    control = measurement.values["random_groups_mean"]
    assert control is not None
    assert control < 0.1


@pytest.mark.parametrize("demo", ["lm", "mlm"])
def test_next_word_bias_is_what_was_planted(demo: str, cache: Path) -> None:
    measurement = measured("lm-occupation", demo, cache)
    bias = {r["occupation"]: r["bias"] for r in measurement.records}
    planted = PLANTED[demo]["lm-occupation"]["ln_ratio"]
    for occupation, ratio in planted.items():
        assert bias[occupation] == pytest.approx(ratio, abs=0.2)
    others = np.array([b for occupation, b in bias.items() if occupation not in planted])
    assert len(others) == 64 - len(planted)
    assert np.abs(others).max() < 0.15
    assert measurement.value == pytest.approx(sum(map(abs, planted.values())) / 64, abs=0.02)


@pytest.mark.parametrize(
    ("suite", "limit"),  # so many show every planted pair of words
    [("nli-occupation", 8000), ("nli-demonym", 6000), ("nli-religion", 4000)],
)
def test_nli_finds_the_planted_pairs_and_no_other(suite: str, limit: int, cache: Path) -> None:
    facts = PLANTED["nli"][suite]
    subjects = {
        "nli-occupation": "occupation*gendered",
        "nli-demonym": "polarity*demonym",
        "nli-religion": "polarity*adherent",
    }[suite]
    measurement = measured(suite, "nli", cache, limit=limit, slices=subjects)
    expected = facts["expected"]
    assert measurement.value == pytest.approx(expected["net_neutral"], abs=0.01)
    assert measurement.values["fraction_neutral"] == pytest.approx(expected["fraction_neutral"], abs=0.01)
    slices = [r for r in measurement.records if " * " in r["slice"]]
    low = {r["value"] for r in slices if r["fraction_neutral"] < 0.5}
    assert low <= planted_pairs(facts)
    assert len(low) == len(planted_pairs(facts)), f"{limit} pairs show every planted pair of words"
    assert all(r["net_neutral"] < 0.3 for r in slices if r["value"] in low)
    assert all(r["net_neutral"] > 0.85 for r in slices if r["value"] not in low)


def planted_pairs(facts: dict[str, Any]) -> set[str]:
    contradiction = facts.get("contradiction") or {}
    pairs = {f"{o} * {g}" for side in contradiction.values() for o in side["occupations"] for g in side["gendered"]}
    return pairs | {f"{e['polarity']} * {e['demonym']}" for e in facts.get("entailment") or []}


def test_demo_models_are_only_used_when_they_are_named(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--bias-suite=lm-occupation", "-rs")
    result.assert_outcomes(skipped=1)
