"""bios: figures against loops written another way, a loaded classifier against its predictions file, and everything
that is refused.
"""

import csv
import gzip
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import torch
from sklearn.metrics import accuracy_score, confusion_matrix, precision_score, recall_score
from support.baseline_books import write_entries
from support.tiny_checkpoints import save_checkpoint

from pytest_genderbias import Baseline, assert_no_regression, load_model, load_suite, load_wordlist, measure
from pytest_genderbias.datasets.folder import MissingDataError
from pytest_genderbias.errors import (
    DataFileError,
    GateFailure,
    ModelError,
    NotApplicableError,
    SettingError,
    UndefinedError,
)
from pytest_genderbias.gates.limits import Limit, judge_limit
from pytest_genderbias.measurement.carry_out import carry_out
from pytest_genderbias.measurement.plan import plan_measurement
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.objects import wrap_object
from pytest_genderbias.scoring.engine import ScoreSettings
from pytest_genderbias.statistics.block_tables import BlockTables, block_of
from pytest_genderbias.statistics.inference.item_sums import align
from pytest_genderbias.suites.cases import Answer
from pytest_genderbias.suites.families import bios as module
from pytest_genderbias.suites.families.shared.group_distances import DISTANCES
from pytest_genderbias.suites.families.shared.persons import LabelledCases, labour_shares
from pytest_genderbias.suites.family import resolve_options
from pytest_genderbias.text import packaged

pytestmark = pytest.mark.usefixtures("few_shuffles")

CLASSES = ("cook", "judge", "nurse", "pilot")


def people(n=400, seed=0):
    """Return rows of text, label and group: as many cooks as others, and few women among the pilots."""
    rng = np.random.default_rng(seed)
    label = rng.integers(len(CLASSES), size=n)
    woman = rng.random(n) < np.asarray([0.5, 0.4, 0.8, 0.2])[label]
    return [
        {"id": f"x{i:03d}", "text": f"Text {i}.", "label": CLASSES[c], "group": "F" if w else "male"}
        for i, (c, w) in enumerate(zip(label, woman, strict=True))
    ]


def write(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    return path


def write_predictions(path, rows, said):
    return write(
        path, [{"id": r["id"], "prediction": said[r["text"]], "gold": r["label"], "group": r["group"]} for r in rows]
    )


class Saying:
    """Says of each text what a table says."""

    def __init__(self, said, labels=CLASSES):
        self.labels, self._said = labels, said

    def class_probabilities(self, texts):
        found = np.full((len(texts), len(self.labels)), 0.1 / (len(self.labels) - 1))
        for row, text in zip(found, texts, strict=True):
            row[self.labels.index(self._said[text])] = 0.9
        return found


def noisy(rows, labels=CLASSES, seed=1, wrong=0.4):
    rng = np.random.default_rng(seed)
    return {r["text"]: labels[rng.integers(len(labels))] if rng.random() < wrong else r["label"] for r in rows}


def file_of(tmp_path, rows, said, name="run.csv", **options):
    return bios(load_model(str(write_predictions(tmp_path / name, rows, said))), **options)


def bios(model, limit=None, data=None, seed=0, null=0, **options):
    """Measure without a cache."""
    model = model if isinstance(model, Model) else wrap_object(model)
    plan = plan_measurement(load_suite("bios"), model.name, model.role, options, data, seed)
    return carry_out(plan, model, ScoreSettings(limit=limit, seed=seed), null=null)


def by_loops(rows, said):
    """Return every figure on all persons, written another way."""
    y, r = np.asarray([p["label"] for p in rows]), np.asarray([said[p["text"]] for p in rows])
    f = np.asarray([p["group"] == "F" for p in rows])
    labels = sorted({*y, *r})
    share = [f[y == c].mean() for c in labels]
    rates = {}
    for key, of in (("tpr", recall_score), ("precision", precision_score)):
        rates[key] = [of(y[z], r[z], labels=labels, average=None) for z in (f, ~f)]
    rates["fpr"] = [[(r[z & (y != c)] == c).mean() for c in labels] for z in (f, ~f)]
    found = {}
    for key, (women, men) in rates.items():
        gap = np.asarray(women) - np.asarray(men)
        found[f"{key}_gap_sum"] = np.abs(gap).sum()
        found[f"{key}_gap_pearson"] = scipy.stats.pearsonr(share, gap)[0]
        found[f"{key}_gap_slope"] = scipy.stats.linregress(share, gap).slope
        squares = []
        for c, label in enumerate(labels):
            of = {"tpr": y == label, "fpr": y != label, "precision": r == label}[key]
            hit = (y == label) & (r == label) if key != "fpr" else r == label
            squares.append(gap[c] ** 2 - sum(np.var(hit[z & of], ddof=1) / (z & of).sum() for z in (f, ~f)))
        found[f"{key}_gap_rms"] = np.sign(np.mean(squares)) * np.sqrt(abs(np.mean(squares)))

    def shares_of(chosen, column):
        counts = confusion_matrix(column[chosen], column[chosen], labels=labels).diagonal()
        return counts / counts.sum()

    index = np.arange(len(labels))
    everyone = np.ones(len(rows), dtype=bool)
    found["independence_sum"] = sum(scipy.stats.entropy(shares_of(z, r), shares_of(everyone, r)) for z in (f, ~f))
    kl = [[scipy.stats.entropy(shares_of(z & (y == c), r), shares_of(y == c, r)) for c in labels] for z in (f, ~f)]
    w = [
        [
            scipy.stats.wasserstein_distance(index, index, shares_of(z & (r == c), y), shares_of(r == c, y))
            for c in labels
        ]
        for z in (f, ~f)
    ]
    for key, both in (("separation", kl), ("sufficiency", w)):
        found[f"{key}_sum"] = np.sum(both)
        found[f"{key}_gap"] = np.abs(np.subtract(*both)).sum()
    return found | {"accuracy": accuracy_score(y, r)}


def test_every_figure_is_what_loops_find(tmp_path):
    rows = people()
    said = noisy(rows)
    found = file_of(tmp_path, rows, said, balanced=False)
    expected = by_loops(rows, said)
    assert list(found.values) == list(load_suite("bios").family.statistics)
    assert found.values.keys() == expected.keys()
    for key, value in expected.items():
        assert found.values[key] == pytest.approx(value, abs=1e-12), key
        kind = key.partition("_")[0]
        assert found.intervals[key] is None or kind not in ("independence", "separation", "sufficiency")
        assert found.intervals[key] is not None or found.reasons[key]
    assert all(found.intervals[key] for key in ("tpr_gap_sum", "tpr_gap_rms", "precision_gap_rms", "accuracy"))
    assert found.main == "tpr_gap_sum"
    assert found.n == found.n_total == 400
    assert json.dumps(found.to_dict(), allow_nan=False)


def test_balancing_changes_all_but_slopes(tmp_path):
    rows = people()
    said = noisy(rows)
    whole, balanced = (file_of(tmp_path, rows, said, balanced=b) for b in (False, True))
    for key, value in balanced.values.items():
        assert (value == whole.values[key]) == key.endswith("_slope"), key
        drawn = "" if key.endswith("_slope") else ", with seed 0 for the women or men that balance a class"
        assert balanced.bounds[key].over == f"the suite's cases, all of them{drawn}", "exact for this draw of them"
        assert whole.bounds[key].over == "the suite's cases, all of them"
    rated = [r for r in balanced.records if r["slice"] == "class"]
    assert all(r["n_female"] == r["n_male"] > 0 for r in rated)
    assert sum(r["n_female"] + r["n_male"] for r in rated) < 400
    everybody = {r["class"]: r for r in balanced.records if r["slice"] == "class, all persons"}
    assert sum(r["n_female"] + r["n_male"] for r in everybody.values()) == 400
    assert any("persons after balancing" in note for note in balanced.notes)
    # The balanced figures are those of the persons that are kept: r with the shares before balancing.
    gaps = [r["tpr_gap"] for r in rated]
    assert balanced.values["tpr_gap_sum"] == pytest.approx(np.abs(gaps).sum())
    shares = [everybody[r["class"]]["share"] for r in rated]
    assert balanced.values["tpr_gap_pearson"] == pytest.approx(scipy.stats.pearsonr(shares, gaps)[0])
    other = file_of(tmp_path, rows, said, seed=1)
    assert other.values["tpr_gap_sum"] != balanced.values["tpr_gap_sum"]
    assert other.values["tpr_gap_slope"] == balanced.values["tpr_gap_slope"]


@pytest.mark.parametrize("balanced", [True, False])
def test_a_classifier_gives_the_same_loaded_and_as_a_file(tmp_path, balanced):
    rows = people()
    labels = ("Pilot", "NURSE", "cook", "judge", "florist")  # another order and case, and a class that nobody has
    said = noisy(rows, labels)
    canonical = {label.lower(): label for label in labels}
    said = {text: canonical[label.lower()] for text, label in said.items()}
    data = str(write(tmp_path / "people.csv", rows))
    loaded = bios(Saying(said, labels), texts=data, balanced=balanced)
    stored = file_of(tmp_path, rows[::-1], said, balanced=balanced)
    assert loaded.values == stored.values
    assert loaded.intervals == stored.intervals
    assert loaded.reasons == stored.reasons
    assert loaded.records == stored.records
    assert loaded.notes == stored.notes
    assert any("predictions are a label without cases" in note for note in loaded.notes)
    assert {"class": "florist", "statistic": "tpr_gap"}.items() <= next(
        r for r in loaded.records if r["slice"] == "left out"
    ).items()


def test_a_planted_slope_is_found_as_large_as_it_is(tmp_path):
    """In each class women are recognised more often than men by half the share of women less one quarter."""
    rows, said = [], {}
    for label, women in (("a", 200), ("b", 400), ("c", 600), ("d", 800)):
        gap = women / 2000 - 0.25
        for group, n in (("F", women), ("M", 1000 - women)):
            right = round((0.5 + (gap / 2 if group == "F" else -gap / 2)) * 1000) * n // 1000
            for i in range(n):
                rows.append({"id": str(len(rows)), "text": str(len(rows)), "label": label, "group": group})
                said[rows[-1]["text"]] = label if i < right else "d" if label == "a" else "a"
    found = file_of(tmp_path, rows, said)
    share = [0.2, 0.4, 0.6, 0.8]
    gaps = {r["class"]: r["tpr_gap"] for r in found.records if r["slice"] == "class, all persons"}
    assert found.values["tpr_gap_slope"] == pytest.approx(
        scipy.stats.linregress(share, [gaps[c] for c in "abcd"]).slope
    )
    assert found.values["tpr_gap_slope"] == pytest.approx(0.5, abs=0.01)  # whole persons


def test_the_null_tells_a_gap_from_chance(tmp_path):
    rows = people(300)
    fair = file_of(tmp_path, rows, noisy(rows, seed=3), name="fair.csv", null=200)
    rng = np.random.default_rng(0)
    unfair = {r["text"]: r["label"] if r["group"] == "F" or rng.random() < 0.5 else "cook" for r in rows}
    biased = file_of(tmp_path, rows, unfair, name="biased.csv", null=200)
    for found, certain in ((fair, False), (biased, True)):
        assert set(found.null) == set(found.values) - {"accuracy"}
        for key in ("tpr_gap_sum", "separation_sum"):
            assert found.null[key].mean > 0
            assert (found.null[key].p_value <= 0.05) == certain


def test_the_null_is_that_of_shuffled_persons(tmp_path):
    rows = people(150)
    said = noisy(rows)
    null = file_of(tmp_path, rows, said, balanced=False, null=999).null
    within = [
        (["tpr_gap_sum"], [r["label"] for r in rows]),
        (["precision_gap_sum", "sufficiency_sum"], [said[r["text"]] for r in rows]),
        (["independence_sum"], ["all"] * len(rows)),
    ]
    rng = np.random.default_rng(7)
    for keys, strata in within:
        figures = []
        for _ in range(8):
            order = np.arange(len(rows))
            for stratum in set(strata):
                members = np.flatnonzero(np.asarray(strata) == stratum)
                order[members] = rng.permutation(members)
            shuffled = [{**row, "group": rows[k]["group"]} for row, k in zip(rows, order, strict=True)]
            figures.append(by_loops(shuffled, said))
        for key in keys:
            drawn = [one[key] for one in figures]
            error = np.std(drawn) / np.sqrt(len(drawn))
            assert null[key].mean == pytest.approx(np.mean(drawn), abs=4 * error), key


def test_a_precision_gap_is_larger_than_that_of_groups_shuffled_within_predictions(tmp_path):
    """Each class is mostly of one gender, as its errors are: shuffles within gold classes keep that gap, and hide
    it.
    """
    rows, said = [], {}
    for label, group, prediction, n in [
        ("a", "F", "a", 90),
        ("a", "male", "a", 10),
        ("b", "male", "b", 90),
        ("b", "F", "b", 10),
        ("a", "F", "b", 40),
        ("b", "male", "a", 40),
    ]:
        for _ in range(n):
            rows.append({"id": f"{len(rows):03d}", "text": f"{len(rows)}", "label": label, "group": group})
            said[rows[-1]["text"]] = prediction
    found = file_of(tmp_path, rows, said, balanced=False, null=999)
    null = found.null["precision_gap_sum"]
    y, r = np.asarray([p["label"] for p in rows]), np.asarray([said[p["text"]] for p in rows])
    group, rng, drawn = np.asarray([p["group"] == "F" for p in rows]), np.random.default_rng(0), []
    for _ in range(200):
        shuffled = group.copy()
        for label in "ab":
            shuffled[r == label] = rng.permutation(shuffled[r == label])
        gaps = [np.mean((y == c)[shuffled & (r == c)]) - np.mean((y == c)[~shuffled & (r == c)]) for c in "ab"]
        drawn.append(np.abs(gaps).sum())
    worse = np.greater_equal(drawn, found.values["precision_gap_sum"])
    assert null.p_value == pytest.approx((1 + worse.sum()) / 201, abs=0.01)
    assert null.p_value < 0.01
    assert null.mean == pytest.approx(np.mean(drawn), rel=0.1)


# Probabilities in place of labels


def probable(rows, seed=4, labels=CLASSES):
    """Return probabilities of the labels for each text, higher for the right one, and for women differently from
    men.
    """
    rng = np.random.default_rng(seed)
    raw = {r["text"]: rng.random(len(labels)) + 1.5 * np.eye(len(labels))[labels.index(r["label"])] for r in rows}
    for r in rows:
        raw[r["text"]][2] *= 1.6 if r["group"] == "F" else 1.0
    return {text: p / p.sum() for text, p in raw.items()}


class Probable:
    """Gives each text the probabilities of a table."""

    def __init__(self, table, labels=CLASSES):
        self.labels, self._table = labels, table

    def class_probabilities(self, texts):
        return np.asarray([self._table[text] for text in texts])


def distances_by_loops(p, y, woman):
    """Return the distances of probabilities: means over persons, and weighted shares of the gold classes, by scipy."""
    z, everybody, n = (woman, ~woman), np.ones(len(y), dtype=bool), p.shape[1]
    found = {"independence_sum": sum(scipy.stats.entropy(p[g].mean(axis=0), p.mean(axis=0)) for g in z)}
    kl = [[scipy.stats.entropy(p[g & (y == c)].mean(axis=0), p[y == c].mean(axis=0)) for c in range(n)] for g in z]

    def golds(chosen, r):
        return np.asarray([p[chosen & (y == c), r].sum() for c in range(n)]) / p[chosen, r].sum()

    index = np.arange(n)
    w = [
        [scipy.stats.wasserstein_distance(index, index, golds(g, r), golds(everybody, r)) for r in range(n)] for g in z
    ]
    for name, both in (("separation", kl), ("sufficiency", w)):
        found |= {f"{name}_sum": np.sum(both), f"{name}_gap": np.abs(np.subtract(*both)).sum()}
    return found


def test_distances_of_probabilities_are_those_of_loops(tmp_path):
    rows = people(300)
    table, data = probable(rows), str(write(tmp_path / "people.csv", rows))
    found = bios(Probable(table), texts=data, balanced=False, output="probabilities")
    labels = bios(Probable(table), texts=data, balanced=False)
    p = np.asarray([table[r["text"]] for r in rows])
    y, woman = np.asarray([CLASSES.index(r["label"]) for r in rows]), np.asarray([r["group"] == "F" for r in rows])
    for name, value in distances_by_loops(p, y, woman).items():
        assert found.values[name] == pytest.approx(value, rel=1e-6), name  # scores are in single precision
        assert found.sums[name].total == pytest.approx(found.values[name], rel=1e-12), name
        assert found.values[name] != pytest.approx(labels.values[name]), name
    assert {k: v for k, v in found.values.items() if k not in DISTANCES} == {
        k: v for k, v in labels.values.items() if k not in DISTANCES
    }
    assert found.signature["settings"]["output"] == "probabilities"
    assert "output" not in labels.signature["settings"], "a baseline of an earlier version is compared"


def test_certain_probabilities_give_the_distances_of_labels(tmp_path):
    rows = people(300)
    said, data = noisy(rows), str(write(tmp_path / "people.csv", rows))
    certain = Probable({text: np.eye(len(CLASSES))[CLASSES.index(label)] for text, label in said.items()})
    found, labels = (bios(certain, texts=data, output=output) for output in ("probabilities", "labels"))
    assert found.values == pytest.approx(labels.values, rel=1e-12)


def test_a_file_has_the_probabilities_of_its_columns_and_without_them_no_distances(tmp_path):
    rows = people(300)
    table, data = probable(rows), str(write(tmp_path / "people.csv", rows))
    loaded = bios(Probable(table), texts=data, output="probabilities")
    said = [
        {"id": r["id"], "prediction": CLASSES[int(table[r["text"]].argmax())], "gold": r["label"], "group": r["group"]}
        | {f"probability_{c}": float(q) for c, q in zip(CLASSES, table[r["text"]], strict=True)}
        for r in rows
    ]
    stored = bios(load_model(str(write(tmp_path / "run.csv", said))), output="probabilities")
    assert stored.values == pytest.approx(loaded.values, rel=1e-5)  # a file's are in single precision
    bare = [{key: row[key] for key in ("id", "prediction", "gold", "group")} for row in said]
    without = bios(load_model(str(write(tmp_path / "bare.csv", bare))), output="probabilities")
    assert {without.values[name] for name in DISTANCES} == {None}
    assert "add a column probability_LABEL" in without.reasons["separation_sum"]
    assert without.values["tpr_gap_sum"] == stored.values["tpr_gap_sum"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (lambda p: p[::-1], "another label than the prediction has the largest probability in most rows"),
        (lambda p: 0.98 / len(p) + 0.02 * p, "the probabilities of the labels are nearly equal"),
    ],
)
def test_probabilities_that_are_not_those_of_the_predictions_have_no_distances(tmp_path, changed, reason):
    """The predictions show that the model is able, and equal probabilities would be the least biased."""
    said = []
    for row in people(300):
        p = np.where(np.array(CLASSES) == row["label"], 0.8, 0.2 / (len(CLASSES) - 1)) * np.linspace(
            1, 0.9, len(CLASSES)
        )
        of_label = {f"p_{c}": q for c, q in zip(CLASSES, changed(p / p.sum()), strict=True)}
        said.append(
            {"id": row["id"], "prediction": row["label"], "gold": row["label"], "group": row["group"], **of_label}
        )
    found = bios(load_model(str(write(tmp_path / "run.csv", said))), output="probabilities")
    assert {found.values[name] for name in DISTANCES} == {None}
    assert reason in found.reasons["separation_sum"] and found.values["accuracy"] == 1


def test_the_null_of_probabilities_is_that_of_shuffled_persons(tmp_path):
    rows = people(200)
    table, data = probable(rows), str(write(tmp_path / "people.csv", rows))
    found = bios(Probable(table), texts=data, balanced=False, output="probabilities", null=200)
    null = found.null
    p = np.asarray([table[r["text"]] for r in rows])
    y, woman = np.asarray([CLASSES.index(r["label"]) for r in rows]), np.asarray([r["group"] == "F" for r in rows])
    strata = {"independence_sum": np.zeros(200), "separation_sum": y, "sufficiency_sum": p.argmax(axis=1)}
    rng = np.random.default_rng(7)
    for key, stratum in strata.items():
        drawn = []
        for _ in range(40):
            shuffled = woman.copy()
            for code in set(stratum.tolist()):
                shuffled[stratum == code] = rng.permutation(shuffled[stratum == code])
            drawn.append(distances_by_loops(p, y, shuffled)[key])
        error = np.std(drawn) / np.sqrt(len(drawn))
        assert null[key].mean == pytest.approx(np.mean(drawn), abs=4 * error), key
        assert (null[key].p_value < 0.05) == (found.values[key] > np.quantile(drawn, 0.95)), key


# Units, items and the null control


FAMILY = load_suite("bios").family


def answered(rows, said, **chosen):
    """Return options, and the answers of a classifier that says this, its units in another order."""
    facts = {
        "id": [r["id"] for r in rows],
        "label": [r["label"] for r in rows],
        "group": [int(r["group"] != "F") for r in rows],
    }
    gold, woman = np.asarray(facts["label"]), np.asarray(facts["group"]) == 0
    share = {label: woman[gold == label].mean() for label in set(facts["label"])}
    facts["share"] = [share[label] for label in facts["label"]]
    labels = tuple(sorted({*facts["label"], *said.values()}))
    cases = LabelledCases(
        [(r["text"],) for r in rows], facts={k: np.asarray(v) for k, v in facts.items()}, labels=labels
    )
    units = np.random.default_rng(5).permutation(len(rows))
    values = np.asarray([[said[rows[u]["text"]] == label for label in labels] for u in units], dtype=float)
    return resolve_options(FAMILY.options, chosen, "bios"), {"cases": Answer(cases, units, values[:, None])}


def made(rows, said, seed=0, **chosen):
    options, answers = answered(rows, said, **chosen)
    return options, answers, FAMILY.summarise(None, options, answers, seed)


@pytest.mark.parametrize("balanced", [True, False])
def test_sums_over_blocks_of_persons_give_every_figure(balanced):
    rows = people()
    said = noisy(rows) | {"Text 3.": "baker", "Text 9.": "other"}
    options, _, found = made(rows, said, balanced=balanced)
    for statistic, value in found.values.items():
        item_sums = FAMILY.statistics[statistic].item_sums(options, found.items)
        assert item_sums.total == pytest.approx(value, rel=1e-9), statistic
        assert len(item_sums.labels) <= 100
        assert item_sums.over == "blocks of persons"
    assert FAMILY.statistics["accuracy"].item_sums(options, found.items).sums[:, 1].sum() < 400 + (not balanced)


def test_leaving_a_block_out_leaves_its_persons_out():
    rows, said = people(), noisy(people())
    options, _, found = made(rows, said, balanced=False)
    shares = dict(zip(found.items["class"].tolist(), found.items["share"].tolist(), strict=True))
    block = block_of(r["id"] for r in rows)
    expected = {b: by_loops([r for r, own in zip(rows, block, strict=True) if own != b], said) for b in (3, 70)}
    for statistic in found.values:
        item_sums = FAMILY.statistics[statistic].item_sums(options, found.items)
        without = dict(
            zip(item_sums.labels.tolist(), item_sums.value(item_sums.sums.sum(axis=0) - item_sums.sums), strict=True)
        )
        for b, figures in expected.items():
            if not statistic.endswith(("slope", "pearson")):  # whose shares stay as they were
                assert without[f"block {b}"] == pytest.approx(figures[statistic]), statistic
    kept = [r for r, own in zip(rows, block, strict=True) if own != 3]
    rate = [
        [
            np.mean([said[r["text"]] == c for r in kept if r["label"] == c and (r["group"] == "F") == woman])
            for c in CLASSES
        ]
        for woman in (True, False)
    ]
    gap = np.subtract(*rate)
    share = [shares[c] for c in CLASSES]
    for key, value in (
        ("slope", scipy.stats.linregress(share, gap).slope),
        ("pearson", scipy.stats.pearsonr(share, gap)[0]),
    ):
        item_sums = FAMILY.statistics[f"tpr_gap_{key}"].item_sums(options, found.items)
        row = item_sums.labels.tolist().index("block 3")
        assert item_sums.value(item_sums.sums.sum(axis=0) - item_sums.sums[row]) == pytest.approx(value)


def test_the_same_persons_are_drawn_and_blocked_whatever_is_predicted():
    rows = people()
    sides = []
    for said in (noisy(rows), noisy(rows, seed=8) | {"Text 3.": "baker"}):
        options, _, found = made(rows, said, seed=4)
        tables = BlockTables.unpacked(*(found.items[k] for k in ("class", "cell", "count")))
        by_gold = {}
        for (block, group, gold, _), count in zip(tables.cells.T.tolist(), tables.counts.tolist(), strict=True):
            key = block, group, str(tables.classes[gold])
            by_gold[key] = by_gold.get(key, 0) + count
        sides.append((by_gold, found, options))
    assert sides[0][0] == sides[1][0]
    for statistic, value in sides[0][1].values.items():
        item_sums = [FAMILY.statistics[statistic].item_sums(options, found.items) for _, found, options in sides]
        then, now = align(*item_sums)
        assert then.sums.shape == now.sums.shape
        assert now.total == pytest.approx(sides[1][1].values[statistic])
        assert then.total == pytest.approx(value)


def test_the_tables_of_very_many_persons_fit_into_a_baseline():
    rng, n, k = np.random.default_rng(0), 400_000, 28
    gold, group, block = rng.integers(k, size=n), rng.integers(2, size=n), rng.integers(100, size=n)
    predicted = np.where(rng.random(n) < 0.2, rng.integers(k, size=n), gold)
    items = {}
    for name, rows in (("", slice(0, n // 2)), ("all_", slice(None))):
        packed = BlockTables.of(
            np.arange(k).astype(str), block[rows], group[rows], gold[rows], predicted[rows]
        ).packed()
        items |= dict(zip((f"{name}cell", f"{name}count"), packed, strict=True))
    again = BlockTables.unpacked(np.arange(k).astype(str), items["all_cell"], items["all_count"])
    assert again.counts.sum() == n
    file = io.BytesIO()
    np.savez_compressed(file, **items)
    assert file.tell() < 400 * 1024


def test_what_has_no_items_says_why():
    women = [r | {"group": "F"} for r in people(60)]
    options, answers, found = made(women, noisy(women))
    assert found.values["tpr_gap_sum"] is None
    with pytest.raises(UndefinedError, match="no cases"):
        FAMILY.statistics["tpr_gap_sum"].item_sums(options, found.items)
    assert np.isnan(FAMILY.statistics["tpr_gap_slope"].item_sums(options, found.items).total)
    with pytest.raises(UndefinedError, match="no share, cell"):
        FAMILY.statistics["tpr_gap_sum"].item_sums(options, {"class": found.items["class"]})
    null = FAMILY.null(None, options, answers, 0, 5)
    assert {len(drawn) for drawn in null.values()} == {5}
    assert np.isnan(np.concatenate(list(null.values()))).all()


def test_units_are_persons_where_all_count():
    rows = people()
    options, answers, found = made(rows, noisy(rows), balanced=False)
    scores = FAMILY.statistics["accuracy"].scores(options, answers["cases"])
    assert set(scores) == {0.0, 1.0}
    assert scores.mean() == pytest.approx(found.values["accuracy"])
    assert FAMILY.statistics["tpr_gap_sum"].scores(options, answers["cases"]) is None
    assert FAMILY.statistics["accuracy"].scores({**options, "balanced": True}, answers["cases"]) is None


def test_the_null_is_the_distribution_of_every_figure_of_groups(monkeypatch):
    rows = people(1200)
    unfair = {
        r["text"]: r["label"] if (r["group"] == "F") == (r["label"] == "nurse") else CLASSES[int(r["id"][-1]) % 2]
        for r in rows
    }
    for said, inside in ((noisy(rows), True), (unfair, False)):
        options, answers, found = made(rows, said)
        null = FAMILY.null(None, options, answers, 0, 200)
        assert set(null) == set(found.values) - {"accuracy"}
        assert {drawn.shape for drawn in null.values()} == {(200,)}
        low, high = np.quantile(null["tpr_gap_sum"], (0.01, 0.99))
        assert (low <= found.values["tpr_gap_sum"] <= high) == inside
        low, high = np.quantile(null["tpr_gap_slope"], (0.01, 0.99))
        assert (low <= found.values["tpr_gap_slope"] <= high) == inside
        if inside:
            for key, drawn in null.items():
                # Shares of women differ between classes: without balancing, equal errors give unequal precision.
                outside = key == "precision_gap_slope"
                assert (drawn.min() <= found.values[key] <= drawn.max()) != outside, key
    again = FAMILY.null(None, options, answers, 0, 200)
    assert all(np.array_equal(again[key], null[key], equal_nan=True) for key in null)
    assert (FAMILY.null(None, options, answers, 1, 200)["tpr_gap_sum"] != null["tpr_gap_sum"]).any()
    monkeypatch.setattr(module, "_MOST_COUNTS", 1000)
    in_parts = FAMILY.null(None, options, answers, 0, 95)
    assert {drawn.shape for drawn in in_parts.values()} == {(95,)}
    assert in_parts["tpr_gap_sum"].std() > 0


def test_shares_come_from_the_training_data(tmp_path):
    rows = people()
    said = noisy(rows)
    own = file_of(tmp_path, rows, said)
    training = people(500, seed=9)
    training += [{**r, "id": f"more {r['id']}", "group": "F"} for r in training if r["label"] == "cook"]
    path = str(write(tmp_path / "training.csv", training))
    found = file_of(tmp_path, rows, said, training=path)
    share = {c: np.mean([r["group"] == "F" for r in training if r["label"] == c]) for c in CLASSES}
    gaps = {r["class"]: r["tpr_gap"] for r in found.records if r["slice"] == "class, all persons"}
    x, y = zip(*((share[c], gaps[c]) for c in CLASSES), strict=True)
    assert found.values["tpr_gap_slope"] == pytest.approx(scipy.stats.linregress(x, y).slope)
    assert found.value == own.value
    assert found.signature["data"]["shares"] != own.signature["data"]["shares"]
    assert found.signature["data"]["persons"] == own.signature["data"]["persons"]
    assert any("name the training data" in note for note in own.notes)
    assert not any("name the training data" in note for note in found.notes)
    few = str(write(tmp_path / "few.csv", [r for r in training if r["label"] != "judge"]))
    lacking = file_of(tmp_path, rows, said, training=few)
    assert any("leave out 1 classes without training data ('judge')" in note for note in lacking.notes)
    data = str(write(tmp_path / "people.csv", rows))
    assert bios(Saying(said), texts=data, training=few).values == lacking.values


def test_every_share_at_work_is_that_of_its_source():
    source = {e.word: e.attributes["women_share"] for e in load_wordlist("winogender-occupations").entries}
    own = {e.word: e.attributes["women_share"] for e in load_wordlist("winobias-occupations").entries}
    entries = load_wordlist("labour-shares").entries
    from_winobias = {"designer", "developer", "writer"}
    for entry in entries:
        name = entry.attributes.get("printed", entry.word)
        assert entry.attributes["women_share"] == (own if name in from_winobias else source)[name]
    assert "painter" in source and "painter" not in {e.word for e in entries}, "it paints houses"


def test_every_profession_of_bias_in_bios_has_a_share_at_work_or_is_named(shared_data):
    with gzip.open(shared_data / "bios" / "bias_in_bios_sample.jsonl.gz", "rt", encoding="utf-8") as file:
        professions = {json.loads(line)["profession"] for line in file}
    known = {e.word.replace(" ", "_") for e in load_wordlist("labour-shares").entries}
    assert known < professions and len(professions) == 28
    note = (packaged.folder("wordlists") / "labour-shares.yaml").read_text(encoding="utf-8")
    assert all(name.replace("_", " ") in note for name in professions - known)


def test_shares_may_be_those_at_work(tmp_path):
    rows = [
        {**r, "label": {"cook": "Software_Engineer", "judge": "attorney"}.get(r["label"], r["label"])} for r in people()
    ]
    labels = ("Software_Engineer", "attorney", "nurse", "pilot")
    said = noisy(rows, labels)
    in_data, at_work = file_of(tmp_path, rows, said), file_of(tmp_path, rows, said, shares="labour")
    share = {"Software_Engineer": 0.20, "attorney": 0.345, "nurse": 0.8958}
    records = [r for r in at_work.records if r["slice"] == "class"]
    assert {r["class"]: r["share"] and round(r["share"], 4) for r in records} == share | {"pilot": None}
    x, y = zip(*((share[r["class"]], r["tpr_gap"]) for r in records if r["share"] is not None), strict=True)
    assert at_work.values["tpr_gap_pearson"] == pytest.approx(scipy.stats.pearsonr(x, y)[0])
    assert at_work.values["tpr_gap_sum"] == in_data.values["tpr_gap_sum"]
    assert at_work.values["tpr_gap_pearson"] != in_data.values["tpr_gap_pearson"]
    assert "r and slope leave out classes without such a share: pilot" in at_work.notes
    assert any("depend heavily on which shares they use (orgad2022, appendix D.2)" in note for note in at_work.notes)
    assert at_work.signature["settings"]["shares"] == "labour"
    assert "shares" not in in_data.signature["settings"], "a baseline of an earlier version is compared"
    loaded = bios(Saying(said, labels), texts=str(write(tmp_path / "people.csv", rows)), shares="labour")
    assert loaded.values == at_work.values


def test_shares_at_work_of_the_first_group_are_those_of_men_where_men_come_first():
    assert labour_shares(["nurse"], ("male", "female")) == {"nurse": pytest.approx(0.1042)}
    with pytest.raises(SettingError, match="needs the groups female and male; got 'a' and 'b'; take shares=training"):
        labour_shares(["nurse"], ("a", "b"))


def test_shares_at_work_take_no_training_data(tmp_path):
    rows = people()
    training = str(write(tmp_path / "training.csv", people(500, seed=9)))
    alone = file_of(tmp_path, rows, noisy(rows), shares="labour")
    beside = file_of(tmp_path, rows, noisy(rows), shares="labour", training=training)
    assert beside.values == alone.values
    assert set(beside.notes) - set(alone.notes) == {"the option training is not used with shares=labour"}


def test_what_has_no_value_says_why(tmp_path):
    # Women are nurses, men are pilots: no class can be balanced or compared.
    rows = [r for r in people() if (r["label"], r["group"]) in (("nurse", "F"), ("pilot", "male"))]
    said = {r["text"]: r["label"] for r in rows}
    found = file_of(tmp_path, rows, said)
    for key in found.values:
        if key.startswith(("tpr", "precision")) or not key.endswith("_slope"):
            assert found.values[key] is None
            assert found.reasons[key]
    assert found.reasons["tpr_gap_sum"] == "no class has cases of every group"
    assert [r["reason"] for r in found.records if r["slice"] == "left out"]
    apart = file_of(tmp_path, rows, said, balanced=False)
    for name in ("tpr_gap_sum", "separation_gap", "sufficiency_gap"):
        assert apart.reasons[name] == "no class has cases of both groups to compare"
    assert apart.values["accuracy"] == 1.0
    assert apart.values["independence_sum"] > 0
    # All right: no gap varies, so there is no r.
    perfect = file_of(tmp_path, people(), {r["text"]: r["label"] for r in people()})
    assert perfect.value == 0.0
    assert perfect.values["tpr_gap_pearson"] is None
    assert "the same for all" in perfect.reasons["tpr_gap_pearson"]
    assert perfect.values["tpr_gap_slope"] == pytest.approx(0.0, abs=1e-12)
    # One class without women: its gap is left out, the others stand, and it is counted.
    rows = [r for r in people() if not (r["label"] == "pilot" and r["group"] == "F")]
    some = file_of(tmp_path, rows, noisy(rows), balanced=False)
    left = [r for r in some.records if r["slice"] == "left out"]
    assert left == [
        {"slice": "left out", "statistic": "tpr_gap", "class": "pilot", "reason": "no female case has this gold class"}
    ]
    assert some.value is not None
    assert any(note.startswith("separation: 1 of 8 cells") for note in some.notes)


def test_a_sample_is_of_persons(tmp_path):
    rows = people()
    said = noisy(rows)
    found = bios(Saying(said), limit=100, texts=str(write(tmp_path / "people.csv", rows)), balanced=False)
    assert (found.n, found.n_total) == (100, 400)
    rated = [r for r in found.records if r["slice"] == "class"]
    assert sum(r["n_female"] + r["n_male"] for r in rated) == 100
    share = {c: np.mean([r["group"] == "F" for r in rows if r["label"] == c]) for c in CLASSES}
    assert {r["class"]: r["share"] for r in rated} == pytest.approx(share)  # of all, not of the sample
    assert "id" not in found.items


def test_groups_of_other_names(tmp_path):
    rows = [{**r, "group": {"F": "young", "male": "old"}[r["group"]]} for r in people()]
    rows[0]["group"] = "unknown"
    said = noisy(rows)
    data = str(write(tmp_path / "people.csv", rows))
    loaded = bios(Saying(said), texts=data, groups=["young", "old"])
    stored = file_of(tmp_path, rows, said, groups=["young", "old"])
    assert loaded.values == stored.values
    assert loaded.notes[0] == stored.notes[0] == "1 cases of other groups are left out"
    turned = file_of(tmp_path, rows, said, groups=["old", "young"])
    assert turned.values["tpr_gap_slope"] == pytest.approx(stored.values["tpr_gap_slope"])  # both signs turn
    assert turned.values["tpr_gap_sum"] == pytest.approx(stored.values["tpr_gap_sum"])
    with pytest.raises(
        DataFileError, match=r"\.csv: no case of the group 'female' or 'male'; the groups are 'old', 'unknown'"
    ):
        file_of(tmp_path, rows, said)
    with pytest.raises(SettingError, match="a list of two names"):
        file_of(tmp_path, rows, said, groups=["old", "old"])


def test_the_advice_about_a_constant_answer_names_no_control_items(tmp_path, ability_asked):
    """The suite asks its own questions, so that a file of control items would change nothing."""
    rows = people()
    path = write_predictions(tmp_path / "run.csv", rows, {row["text"]: CLASSES[0] for row in rows})
    constant = measure("bios", str(path), cache=None)
    text = " ".join(judge_limit(constant, Limit(at_most=0.3), "tpr_gap_rms").text.split())
    assert f"persons by the mean recall of {len(CLASSES)} classes (" in text
    assert 'do fix the model; or ask none (ability: "none: REASON")' in text


def test_predictions_on_other_examples_are_not_compared(tmp_path):
    rows = people()
    said = noisy(rows)
    first = file_of(tmp_path, rows, said)
    baseline = Baseline(tmp_path / "books", "run", "test_x.py", update="all")
    assert_no_regression(first, baseline, margin=0.0)
    write_entries(tmp_path / "books", "run", "test_x.py", baseline.entries())
    now = Baseline(tmp_path / "books", "run", "test_x.py")
    assert_no_regression(file_of(tmp_path, rows[::-1], said), now, margin=0.0)

    def refused(changed, said=said):
        now = Baseline(tmp_path / "books", "run", "test_x.py")
        with pytest.raises(GateFailure) as error:
            assert_no_regression(file_of(tmp_path, changed, said), now, margin=9.0)
        return str(error.value)

    text = refused([r for r in rows if r["id"] not in ("x007", "x300")])
    assert "n 400 stored, 398 now" in text
    assert "2 of 400 ids are missing ('x007', 'x300')" in text
    assert "--bias-update" in text
    assert "1 is new ('y1')" in refused([{**rows[0], "id": "y1"}, *rows[1:]])
    assert "the same ids with other labels" in refused(
        [{**rows[0], "label": "cook"}, {**rows[1], "label": "judge"}, *rows[2:]]
    )


def test_wrong_labels_are_refused(tmp_path):
    rows = people(40)
    said = {r["text"]: r["label"] + "s" for r in rows}
    data = str(write(tmp_path / "people.csv", rows))
    plural = tuple(c + "s" for c in CLASSES)
    with pytest.raises(
        NotApplicableError,
        match=(
            r"^bios: .* its labels are 'cooks', .*, the 4 classes of .*people\.csv are 'cook', .* the option texts, .*"
            r" --bias-labels"
        ),
    ):
        bios(Saying(said, plural), texts=data)
    with pytest.raises(ModelError, match=r"no label for 1 of the 4 classes .*\('pilot'\)"):
        bios(Saying(said, ("cook", "judge", "nurse")), texts=data)
    with pytest.raises(ModelError, match="differ only in case"):
        bios(Saying(said, (*CLASSES, "Cook")), texts=data)
    with pytest.raises(
        DataFileError,
        match=r"\.csv: no prediction is a gold label: the predictions are 'cooks', .* the gold labels 'cook'",
    ):
        file_of(tmp_path, rows, said)
    mixed = [{**r, "label": r["label"].title() if i % 2 else r["label"]} for i, r in enumerate(rows)]
    with pytest.raises(DataFileError, match=r"people\.csv: the labels 'Cook' and 'cook' differ only in case"):
        bios(Saying(said), texts=str(write(tmp_path / "people.csv", mixed)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda rows: [{k: v for k, v in r.items() if k != "label"} for r in rows],
            r"people\.csv:1: no column 'label'",
        ),
        (
            lambda rows: [{**rows[0], "group": "x"}, *rows[1:]],
            r"people\.csv:2: expected one of f, female, m, male .* got 'x'",
        ),
        (lambda rows: [*rows, rows[0]], r"people\.csv:42: duplicate id 'x000' .first on line 2"),
        (lambda rows: [r for r in rows if r["group"] == "F"], r"people\.csv: no case of the group 'male'"),
    ],
)
def test_a_wrong_table_is_one_clear_error(tmp_path, change, message):
    data = str(write(tmp_path / "people.csv", change(people(40))))
    with pytest.raises(DataFileError, match=message):
        bios(Saying({}), texts=data)


def test_an_empty_or_absent_table_is_refused(tmp_path):
    (tmp_path / "people.csv").write_text("id,text,label,group\n")
    with pytest.raises(DataFileError, match=r"people\.csv: the file has no rows"):
        bios(Saying({}), texts=str(tmp_path / "people.csv"))
    (tmp_path / "run.csv").write_text("id,prediction,gold,group\n")
    with pytest.raises(DataFileError, match=r"run\.csv: the file has no rows"):
        load_model(str(tmp_path / "run.csv"))
    with pytest.raises(DataFileError, match="no such file"):
        bios(Saying({}), texts=str(tmp_path / "none.csv"))
    with pytest.raises(SettingError, match=r"one of bias_in_bios, wiki_career, or the path of a table .*, got 'wiki'"):
        bios(Saying({}), texts="wiki")
    with pytest.raises(MissingDataError, match=r"bios: no Bias in Bios: expected .* in a folder named by --bias-data"):
        measure("bios", Saying({}), cache=None)
    rows = people(10)
    doubled = write_predictions(tmp_path / "run.csv", [*rows, rows[0]], noisy(rows))
    with pytest.raises(DataFileError, match=r"run\.csv:12: duplicate id 'x000' .first on line 2"):
        load_model(str(doubled))


def test_columns_of_ones_own_and_several_files(tmp_path):
    rows = people(60)
    said = noisy(rows)
    expected = bios(Saying(said), texts=str(write(tmp_path / "people.csv", rows)))
    renamed = [{"id": r["id"], "bio": r["text"], "job": r["label"], "sex": r["group"]} for r in rows]
    columns = {"text_column": "bio", "label_column": "job", "group_column": "sex"}
    found = bios(Saying(said), texts=str(write(tmp_path / "own.csv", renamed)), **columns)
    assert found.values == expected.values
    assert found.signature["settings"] == expected.signature["settings"]
    assert found.signature["data"] == expected.signature["data"]
    biographies = [{"id": r["id"], "text": r["text"], "profession": r["label"], "gender": r["group"]} for r in rows]
    assert bios(Saying(said), texts=str(write(tmp_path / "bios.csv", biographies))).values == expected.values


def test_the_parts_of_a_data_set_are_one(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = people(60)
    said = noisy(rows)
    names = {"text": "text", "profession": "label", "gender": "group"}
    (tmp_path / "bios").mkdir()
    for part in (0, 1):
        table = pa.table({column: [r[key] for r in rows[part::2]] for column, key in names.items()})
        parquet.write_table(table, tmp_path / "bios" / f"test-{part}.parquet")
    found = bios(Saying(said), data=tmp_path, balanced=False)
    assert found.n == 60
    whole = bios(Saying(said), texts=str(write(tmp_path / "people.csv", rows)), balanced=False)
    assert found.values == pytest.approx(whole.values)
    assert {i.decode() for i in found.items["id"]} == {f"test-{p}.parquet:{n}" for p in (0, 1) for n in range(1, 31)}


def test_a_group_that_is_not_in_the_sample_has_no_distances(tmp_path):
    women, men = ([r for r in people() if r["group"] == group] for group in ("F", "male"))
    rows = [*women, men[0]]
    found = bios(Saying(noisy(rows)), limit=20, texts=str(write(tmp_path / "people.csv", rows)), balanced=False)
    assert sum(r["n_male"] for r in found.records if r["slice"] == "class") == 0
    for name in ("independence", "separation", "sufficiency"):
        assert found.values[f"{name}_sum"] is None
        assert found.reasons[f"{name}_sum"] == "a group has no cases to compare"


def test_a_checkpoint_says_what_a_plain_loop_says(tmp_path):
    folder = save_checkpoint(
        "bert-nli",
        tmp_path / "model",
        id2label=dict(enumerate(("Pilot", "nurse", "judge", "cook"))),
        initializer_range=2.0,
    )
    rng = np.random.default_rng(5)
    words = [
        "the",
        "nurse",
        "bought",
        "a",
        "car",
        "met",
        "doctor",
        "saw",
        "music",
        "college",
        "studied",
        "at",
        "woman",
        "man",
        "loves",
        "rice",
    ]
    rows = people(120)
    for i, row in enumerate(rows):
        row["text"] = " ".join(rng.choice(words, size=5 + i % 90))  # some are longer than the 64 positions
    model = load_model(str(folder), device="cpu")
    network, tokenizer = model.backend.network, model.backend.tokenizer
    said = {}
    with torch.no_grad():
        for row in rows:
            batch = tokenizer(row["text"], truncation=True, max_length=64, return_tensors="pt")
            said[row["text"]] = network.config.id2label[int(network(**batch).logits.argmax())]
    assert len(set(said.values())) > 1
    loaded = bios(model, texts=str(write(tmp_path / "people.csv", rows)))
    stored = file_of(tmp_path, rows, said)
    assert loaded.values == stored.values
    assert loaded.records == stored.records
    assert any("texts cut to the 64 tokens" in note for note in loaded.notes)


KEYWORDS = {
    "artists": "art", "chefs": "restaurant", "comedians": "comedy", "dancers": "danc", "models": "model",
    "musicians": "music", "podcasters": "podcast", "writers": "writ",
}  # fmt: skip


class Keywords:
    labels = tuple(KEYWORDS)

    def class_probabilities(self, texts):
        hits = np.asarray([[text.lower().count(word) for word in KEYWORDS.values()] for text in texts], dtype=float)
        return (hits + 0.1) / (hits + 0.1).sum(axis=1, keepdims=True)


def test_real_biographies(shared_data):
    found = bios(Keywords(), data=shared_data, texts="wiki_career")
    assert found.n == 444
    assert found.values["accuracy"] > 0.25  # chance: one in eight
    assert None not in found.values.values()
    assert sum(r["slice"] == "class" for r in found.records) == 8
    with pytest.raises(NotApplicableError, match=r"labels are .*, the 28 classes of .*bias_in_bios_sample"):
        bios(Keywords(), data=shared_data)


@pytest.mark.slow
def test_the_example(tmp_path):
    folder = shutil.copytree(Path(__file__).parents[3] / "examples" / "predictions", tmp_path / "predictions")

    def run(*command):
        return subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=120)

    assert run("predict.py", "predictions.csv").returncode == 0
    gates = ("-m", "pytest", "-p", "no:cacheprovider", "--bias-model=careers=predictions.csv")
    assert run(*gates, "--bias-update-new").returncode == 0
    held = run(*gates)
    assert held.returncode == 0, held.stdout
    assert "3 passed" in held.stdout
    lines = (folder / "predictions.csv").read_text().splitlines()
    (folder / "predictions.csv").write_text("\n".join(lines[:-1]) + "\n")
    fewer = run(*gates)
    assert fewer.returncode == 1
    assert "1 of 48 ids is missing ('p48')" in fewer.stdout
