"""A statistic that chance raises is compared only where it raises both values alike."""

import json
from dataclasses import replace

import numpy as np
import pytest
from support.baseline_books import write_entries

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.gates.agreement import why_chance_moved
from pytest_genderbias.gates.baseline import Baseline
from pytest_genderbias.gates.book import entry_of
from pytest_genderbias.gates.comparison import judge_against
from pytest_genderbias.statistics.block_tables import BlockTables
from pytest_genderbias.statistics.count_sums import accuracy_sums, distance_sums, gap_sums
from pytest_genderbias.statistics.inference.paired import compare_items

CLASSES, CELL = 12, 40


def answers(accuracy, gap=0.0, seed=0, shift=0):
    """Return gold class, gender, and predicted class of persons; one random number a person decides, whatever the
    accuracy is.
    """
    gold, woman = (x.ravel() for x in np.indices((CLASSES, 2, CELL))[:2])
    luck = np.random.default_rng(seed).random(len(gold))
    wrong = (gold + 1 + np.random.default_rng(seed + 1).integers(0, CLASSES - 1, len(gold))) % CLASSES
    rate = accuracy + gap / 2 * np.where((woman == 1) ^ (gold % 2 == 0), 1, -1)
    return gold, woman, np.where(luck < rate, gold, (wrong + shift) % CLASSES)


def predictions(path, accuracy, gap=0.0, seed=0):
    """Measure a file of such answers."""
    rows = [
        {"id": f"p{i}", "label": f"c{y:02}", "prediction": f"c{r:02}", "gender": ("male", "female")[z]}
        for i, (y, z, r) in enumerate(zip(*(x.tolist() for x in answers(accuracy, gap, seed)), strict=True))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return measure("bios", load_model(str(path)), cache=None, balanced=False)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predictions")
    models = {
        "then": (0.8, 0.0),
        "less accurate": (0.6, 0.0),
        "biased": (0.8, 0.35),
        "biased and accurate": (0.85, 0.3),
    }
    return {name: predictions(folder / f"{i}.jsonl", *about) for i, (name, about) in enumerate(models.items())}


@pytest.mark.parametrize("statistic", ["tpr_gap_sum", "precision_gap_sum", "separation_sum", "sufficiency_gap"])
def test_a_less_accurate_classifier_without_bias_is_not_called_worse(measured, statistic):
    found = judge_against(measured["less accurate"], measured["then"], 0.0, statistic)
    assert found.code == "not_comparable"
    assert "accuracy is 0.2" in found.text and f"so that chance alone moves {statistic}" in found.text
    instead = "precision_gap_rms" if statistic[0] in "ps" and "separation" not in statistic else "tpr_gap_rms"
    assert f"gate {instead}, which chance does not raise" in found.text
    assert judge_against(measured["less accurate"], measured["then"], 0.05, instead).code != "regressed"
    if statistic == "tpr_gap_sum":
        assert measured["less accurate"].values[statistic] > measured["then"].values[statistic]


def test_bias_that_appears_is_found_also_where_accuracy_rises(measured):
    then = measured["then"]
    assert judge_against(measured["biased"], then, 0.05, "tpr_gap_sum").code == "regressed"
    assert judge_against(measured["biased and accurate"], then, 0.05, "tpr_gap_sum").code == "regressed"
    for name in ("biased", "biased and accurate"):
        found = judge_against(measured[name], then, 0.05, "tpr_gap_rms")
        assert found.code == "regressed" and found.interval.low > 0.05
    assert judge_against(then, measured["biased"], 0.05, "tpr_gap_rms").code == "within"
    assert judge_against(then, then, 0.0, "tpr_gap_sum").code == "unchanged"


def test_a_baseline_is_judged_alike(measured, tmp_path):
    write_entries(tmp_path, "m", "t.py", {"bios": entry_of(measured["then"])})
    baseline = Baseline(tmp_path, "m", "t.py")
    assert baseline.judge(measured["less accurate"], 0.0, "tpr_gap_sum").code == "not_comparable"
    assert baseline.judge(measured["less accurate"], 0.25, "tpr_gap_rms").code == "within"
    assert baseline.judge(measured["biased"], 0.15, "tpr_gap_rms").code == "regressed"
    assert baseline.judge(measured["then"], 0.0, "tpr_gap_sum").code == "unchanged"


def test_a_baseline_without_a_value_says_how_to_store_one(measured, tmp_path):
    new = entry_of(measured["then"])
    values = {name: value for name, value in new.entry.values.items() if not name.endswith("_rms")}
    write_entries(tmp_path, "m", "t.py", {"bios": replace(new, entry=replace(new.entry, values=values))})
    baseline = Baseline(tmp_path, "m", "t.py")
    found = baseline.judge(measured["then"], 0.0, "tpr_gap_rms")
    assert found.code == "no_value"
    assert (
        "tpr_gap_rms has no value in the baseline; run with --bias-update to store what is measured now" in found.text
    )
    assert baseline.judge(measured["then"], 0.0, "tpr_gap_sum").code == "unchanged"


def sums(accuracy, shift=0, spoiled=0):
    """Return the sums of three statistics, and of the accuracy, over blocks of persons."""
    gold, woman, said = answers(accuracy, shift=shift)
    said = np.where(np.arange(len(gold)) % 10 < spoiled, 0, said)
    tables = BlockTables.of([f"c{i}" for i in range(CLASSES)], np.arange(len(gold)) % 100, 1 - woman, gold, said)
    unknown = np.full(CLASSES, np.nan)
    return {
        "tpr_gap_sum": gap_sums(tables, "true_positive", unknown, "sum"),
        "precision_gap_sum": gap_sums(tables, "precision", unknown, "sum"),
        "sufficiency_sum": distance_sums(tables, "sufficiency", "sum"),
        "accuracy": accuracy_sums(tables),
    }


def test_counts_of_predictions_that_moved_are_a_reason_where_accuracy_stayed(measured):
    then, now = sums(0.5, 0, 0), sums(0.5, 0, 1)

    def no_change(statistic):
        return compare_items(then[statistic], then[statistic], lambda v: -v)

    why = {name: why_chance_moved(measured["then"], name, then[name], now[name], no_change) for name in then}
    assert why["tpr_gap_sum"] == why["accuracy"] == ""  # as many persons of each class as before
    for name in ("precision_gap_sum", "sufficiency_sum"):
        assert why[name].startswith("the cases that its classes are counted of moved by ") and name in why[name]
        assert why_chance_moved(measured["then"], name, then[name], then[name], no_change) == ""


def test_what_is_not_known_is_said(measured):
    def unknown(statistic):
        raise UndefinedError("its items are not stored")

    then = sums(0.9)["tpr_gap_sum"]
    why = why_chance_moved(measured["then"], "tpr_gap_sum", then, then, unknown)
    assert why.startswith("it is not known whether accuracy moved (its items are not stored), so that")
    assert why_chance_moved(measured["then"], "tpr_gap_rms", then, then, unknown) == ""


def test_equal_classifiers_stay_comparable_about_as_often_as_is_said():
    """Two classifiers of the same accuracy whose mistakes differ: the test of the accuracy errs in 5 % of them."""
    rng, refused = np.random.default_rng(4), 0
    for _ in range(40):
        gold, woman = (x.ravel() for x in np.indices((CLASSES, 2, CELL))[:2])
        sides = []
        for _ in range(2):
            said = np.where(rng.random(len(gold)) < 0.8, gold, rng.integers(0, CLASSES, len(gold)))
            names = [f"c{i}" for i in range(CLASSES)]
            sides.append(accuracy_sums(BlockTables.of(names, np.arange(len(gold)) % 100, woman, gold, said)))
        difference = compare_items(*sides, lambda v: -v, repeats=499)
        refused += 2 * min(difference.p, difference.p_better) <= 0.05
    assert refused <= 6
