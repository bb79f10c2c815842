"""What one more training changes: the packaged table, and how a measurement finds its row."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import yaml
from scipy.special import expit, logit
from simulations.restarts_coverage import one_row
from support.hand_made import hand_made
from support.scripts import load_script

from pytest_genderbias import load_suite, measure
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.gates import sensitivity
from pytest_genderbias.gates.sensitivity import (
    AGREE,
    FIGURES,
    LITTLE,
    Retraining,
    kind_of,
    prior_of,
    retraining_of,
    seen_by,
    standard_error,
)
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.restarts import combine_restarts
from pytest_genderbias.models.roles import (
    CAUSAL_LM,
    COREFERENCE_SCORER,
    MASKED_LM,
    NLI_CLASSIFIER,
    SENTENCE_ENCODER,
    TEXT_CLASSIFIER,
)
from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.statistics.inference.item_sums import ItemSums, SumsByStatistic, mean_sums
from pytest_genderbias.statistics.inference.over_restarts import PRIOR_FREEDOM, Prior
from pytest_genderbias.statistics.inference.two_way import two_way_interval
from pytest_genderbias.suites.family import ITEMS_KEY, WIDE
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.text import packaged

FILES = sorted((packaged.folder("fixtures") / "retraining").glob("*.yaml"))
TABLES = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in FILES}
KINDS = (MASKED_LM, CAUSAL_LM, NLI_CLASSIFIER, TEXT_CLASSIFIER, SENTENCE_ENCODER)
SECOND, SECOND_CAUSAL = f"{MASKED_LM}-minilm", f"{CAUSAL_LM}-smollm2"  #: other networks of a kind
SECOND_NLI = f"{NLI_CLASSIFIER}-minilm"
ROWS = [
    pytest.param(table, row, id=f"{kind}-{suite}-{statistic}")
    for kind, table in TABLES.items()
    for suite, of_suite in table["suites"].items()
    for statistic, row in of_suite.items()
    if row.keys() != {"unit"}
]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_script("retraining_table")


@pytest.fixture(scope="module")
def masked() -> Measurement:
    return measure("lm-occupation", "demo-mlm", cache=None)


def test_each_kind_of_model_has_a_table() -> None:
    others = {SECOND: 20, SECOND_CAUSAL: 19, SECOND_NLI: 20, COREFERENCE_SCORER: 59}
    assert set(TABLES) == {*KINDS, *others}
    for kind, table in TABLES.items():
        assert kind.startswith(table["kind"]) and table["trainings"] == others.get(kind, 30)
        assert table["base"] in table["source"] or table["source"].startswith(table["base"].rpartition("-")[0])
        if kind not in (SENTENCE_ENCODER, *others):
            assert set(table["default"]) == set(FIGURES)
            assert table["default"]["spread"] > 0


def test_the_page_shows_the_packaged_tables(script: ModuleType) -> None:
    shown = script.PAGE.read_text(encoding="utf-8").partition(script.BEGIN)[2].partition(script.END)[0].strip()
    assert shown == script.shown(), "python scripts/retraining_table.py page makes it anew"


@pytest.mark.parametrize(("key", "typed"), [("cases: 222", "case: 222"), ("beyond: 0.0", "beyonds: 0.0")])
def test_a_misspelt_key_of_a_table_is_refused(
    key: str, typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "retraining").mkdir()
    path = tmp_path / "retraining" / "text-classifier.yaml"
    path.write_text(next(file for file in FILES if file.name == path.name).read_text().replace(key, typed, 1))
    monkeypatch.setattr(packaged, "folder", lambda name: tmp_path)
    with pytest.raises(DataFileError, match=rf"{path}:\d+: unknown key '{typed.partition(':')[0]}' in a .*trainings"):
        sensitivity._tables.__wrapped__()


def test_rows_name_statistics_of_packaged_suites() -> None:
    for table in TABLES.values():
        for suite, rows in table["suites"].items():
            assert rows.keys() <= load_suite(suite.removesuffix(f" {WIDE}")).statistics.keys(), suite
            for statistic in rows:
                load_suite(suite.removesuffix(f" {WIDE}")).statistics[statistic].check_gateable(statistic)


@pytest.mark.parametrize(("table", "row"), ROWS)
def test_figures_agree_with_each_other(table: dict, row: dict) -> None:
    assert row["spread"] > 0
    assert row["unit"] is None or row["unit"] > 0
    assert 3 <= row.get("trainings", table["trainings"]) <= table["trainings"]
    if row["paired"] is None:
        assert row["items"] is None and row["beyond"] == row["spread"]
    else:  # the mean square of a difference is twice the variance
        beyond = max(0.0, row["spread"] ** 2 - row["paired"] ** 2 / 2)
        assert row["beyond"] ** 2 == pytest.approx(beyond, abs=0.02 * row["spread"] ** 2)
        assert row["paired"] > 0 and row["items"] >= 5


def test_a_suite_of_the_table_takes_its_row(masked: Measurement) -> None:
    found = retraining_of(masked, "aggregate_bias")
    row = TABLES[MASKED_LM]["suites"]["lm-occupation"]["aggregate_bias"]
    error = (masked.interval.high - masked.interval.low) / 2 / 1.96
    for name in FIGURES:
        assert getattr(found, name) == pytest.approx(row[name] * error)
    assert found.known and found.unit == row["unit"]
    assert found.source == f"packaged: {TABLES[MASKED_LM]['trainings']} trainings of bert-tiny-mlm"


def test_wide_items_take_a_row_of_their_own() -> None:
    one = measure("pronoun-occupation", "demo-mlm", cache=None)
    settings = {**one.signature["settings"], ITEMS_KEY: WIDE}
    found = retraining_of(replace(one, signature={**one.signature, "settings": settings}), "mean_difference")
    rows = [TABLES[name]["suites"]["pronoun-occupation wide"]["mean_difference"] for name in (MASKED_LM, SECOND)]
    assert found.unit == rows[0]["unit"] != retraining_of(one, "mean_difference").unit
    assert found.source == "packaged: 20 trainings of minilm-mlm"
    assert found.spread == pytest.approx(rows[1]["spread"] * standard_error(one, "mean_difference"))


def test_one_checkpoint_takes_the_network_whose_trainings_differ_most_and_restarts_borrow_from_the_first() -> None:
    one = measure("pronoun-occupation", "demo-mlm", cache=None)
    first, second = (TABLES[name]["suites"]["pronoun-occupation"]["slope"] for name in (MASKED_LM, SECOND))
    found, error = retraining_of(one, "slope"), standard_error(one, "slope")
    assert second["spread"] > first["spread"] and found.unit == first["unit"]
    for name in FIGURES:
        assert getattr(found, name) == pytest.approx(second[name] * error)
    prior = prior_of(one, "slope", {})
    assert prior is not None and prior == found.prior and prior.spread == pytest.approx(first["spread"] * error)
    assert prior.freedom == PRIOR_FREEDOM
    for name, spread in found.abilities.items():
        assert spread == max(TABLES[table]["abilities"][name] for table in (MASKED_LM, SECOND))
    assert found.freedom == TABLES[SECOND]["trainings"] - 1


def test_restarts_borrow_little_where_the_networks_of_a_kind_contradict_each_other() -> None:
    one = measure("pronoun-occupation", "demo-lm", cache=None)
    rows = (TABLES[name]["suites"]["pronoun-occupation"]["slope"]["spread"] for name in (CAUSAL_LM, SECOND_CAUSAL))
    first, second = (spread * standard_error(one, "slope") for spread in rows)
    prior = prior_of(one, "slope", {})
    assert second > AGREE * first and retraining_of(one, "slope").spread == pytest.approx(second)
    assert prior is not None and prior.spread == pytest.approx(first) and prior.freedom == LITTLE < PRIOR_FREEDOM


def test_so_little_keeps_false_alarms_low_where_the_network_is_wrong_by_four() -> None:
    assert max(one_row("normal", k, Prior(1 / 4, LITTLE)).alone for k in (2, 3, 5, 10)) < 0.044
    assert one_row("normal", 3, Prior(1 / 4, PRIOR_FREEDOM)).alone > 0.06


def test_the_unit_is_what_a_dose_moved_where_that_is_more_than_a_public_model_has() -> None:
    one = measure("pronoun-occupation", "demo-lm", cache=None)
    public, dosed = (TABLES[name]["suites"]["pronoun-occupation"]["slope"] for name in (CAUSAL_LM, SECOND_CAUSAL))
    assert retraining_of(one, "slope").unit == dosed["response"] > public["unit"]
    masked = measure("pronoun-occupation", "demo-mlm", cache=None)
    assert retraining_of(masked, "slope").unit == TABLES[MASKED_LM]["suites"]["pronoun-occupation"]["slope"]["unit"]


def test_a_suite_that_the_first_network_cannot_do_has_its_unit_and_the_trainings_of_another() -> None:
    """So a fair classifier can be gated: its own distance from neutral is next to nothing."""
    one = measure("nli-occupation", "demo-nli", cache=None, limit=400)
    found, row = retraining_of(one, "net_neutral"), TABLES[SECOND_NLI]["suites"]["nli-occupation"]["net_neutral"]
    assert row["absolute"] and [getattr(found, name) for name in FIGURES] == [row[name] for name in FIGURES]
    assert found.unit == TABLES[NLI_CLASSIFIER]["suites"]["nli-occupation"]["net_neutral"]["unit"] > 1 - one.value
    assert found.known and found.source == "packaged: 20 trainings of minilm-snli"
    restarts = combine_restarts([one, replace(one, values={**one.values, "net_neutral": one.value + 0.02})], [0, 1])
    seen = seen_by(restarts, "net_neutral")
    assert seen is not None and seen.unit == found.unit


def test_another_suite_takes_the_default_of_its_kind(masked: Measurement) -> None:
    found = retraining_of(replace(masked, suite="my-own"), "aggregate_bias")
    error = standard_error(masked, "aggregate_bias")
    assert found.beyond == pytest.approx(TABLES[MASKED_LM]["default"]["beyond"] * error)
    assert not found.known and found.unit is None and "default for masked-lms" in found.source


def test_another_kind_takes_the_median_default(masked: Measurement) -> None:
    unknown = replace(masked, suite="my-own", abilities=(), signature={**masked.signature, "model": {}})
    found = retraining_of(unknown, "aggregate_bias")
    usual = float(np.median([table["default"]["spread"] for table in TABLES.values() if "default" in table]))
    assert found.spread == pytest.approx(usual * standard_error(masked, "aggregate_bias"))
    assert not found.known and "the median of" in found.source


def test_a_kind_with_one_suite_has_its_row_and_lends_no_default() -> None:
    one = measure("sts-occupation", "demo-mlm", cache=None, templates="own", limit=400)
    of_encoder = replace(one, abilities=())
    found, row = retraining_of(of_encoder, "slope"), TABLES[SENTENCE_ENCODER]["suites"]["sts-occupation"]["slope"]
    error = standard_error(one, "slope")
    assert kind_of(of_encoder) == SENTENCE_ENCODER and error is not None
    assert found.known and found.unit == row["unit"] and found.beyond == pytest.approx(row["beyond"] * error)
    other = retraining_of(replace(of_encoder, signature={**one.signature, "settings": {ITEMS_KEY: WIDE}}), "slope")
    assert not other.known and other.source == "packaged default for other kinds of model: the median of 4"


def test_a_statistic_without_interval_or_row_has_no_figures(masked: Measurement) -> None:
    bare = replace(masked, suite="my-own", intervals=dict.fromkeys(masked.intervals))
    found = retraining_of(bare, "aggregate_bias")
    assert (found.spread, found.paired, found.beyond) == (None, None, None)


def test_a_row_without_ratios_gives_its_figures_as_they_are() -> None:
    found = retraining_of(measure("weat", "demo-mlm", cache=None), "effect_size")
    assert found.spread == TABLES[MASKED_LM]["suites"]["weat"]["effect_size"]["spread"]


@pytest.mark.usefixtures("ability_asked")
@pytest.mark.parametrize(
    ("suite", "model", "ability", "kind"),
    [
        ("lm-occupation", "demo-mlm", None, MASKED_LM),
        ("lm-occupation", "demo-lm", None, CAUSAL_LM),
        ("lm-occupation", "demo-mlm", "none: a test", MASKED_LM),
        ("lm-occupation", "demo-lm", "none: a test", CAUSAL_LM),
        ("nli-occupation", "demo-nli", None, NLI_CLASSIFIER),
        ("nli-occupation", "demo-nli", "none: a test", NLI_CLASSIFIER),
    ],
)
def test_the_kind_is_that_of_the_control_items_or_else_of_the_suite(
    suite: str, model: str, ability: str | None, kind: str
) -> None:
    measured = measure(suite, model, limit=64, cache=None, ability=ability)
    assert kind_of(measured) == kind
    assert kind_of(Measurement.from_dict(measured.to_dict())) == kind


def test_a_network_is_no_other_kind_by_the_main_statistic_of_its_suite() -> None:
    """As ``winobias-chat``, whose main statistic is in the table of coreference scorers only."""
    one = measure("lm-occupation", "demo-lm", limit=64, cache=None, ability="none: a test")
    asked = replace(one, suite="winobias-chat", values={"f1_gap": 0.1})
    assert kind_of(asked) == CAUSAL_LM
    assert kind_of(replace(asked, signature={**one.signature, "model": {}})) == COREFERENCE_SCORER


def test_the_error_of_restarts_is_that_of_their_items(masked: Measurement) -> None:
    """The interval of restarts is over restarts: two that are alike would have none."""
    restarts = combine_restarts([masked, masked, masked], range(3))
    assert restarts.interval is None
    error = standard_error(restarts, "aggregate_bias")
    assert error == pytest.approx(standard_error(masked, "aggregate_bias"), rel=0.2)
    assert retraining_of(restarts, "aggregate_bias").known


def test_more_cases_do_not_shrink_what_a_training_moves(masked: Measurement) -> None:
    """A user's 90,000 biographies have a small standard error, and their classifier moves as much as it does on few."""
    table = TABLES[TEXT_CLASSIFIER]
    row = table["suites"]["bios"]["accuracy"]
    bios = replace(masked, suite="bios", abilities=(), n=table["cases"])
    bios = replace(bios, values={"accuracy": 0.9}, intervals={"accuracy": masked.interval})
    large = replace(bios, n=100 * table["cases"])
    assert retraining_of(large, "accuracy").beyond == pytest.approx(10 * retraining_of(bios, "accuracy").beyond)
    assert retraining_of(bios, "accuracy").spread == pytest.approx(row["spread"] * standard_error(masked, masked.main))


def test_the_table_is_read_when_it_is_asked_for() -> None:
    code = (
        "import sys, pytest_genderbias.plugin\n"
        "assert 'pytest_genderbias.gates.sensitivity' not in sys.modules\n"
        "from pytest_genderbias.gates import sensitivity\n"
        "assert sensitivity._tables.cache_info().currsize == 0"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def scaled(values: np.ndarray) -> np.ndarray:
    """Return values with mean 0 and standard deviation 1."""
    return (values - values.mean()) / values.std(ddof=1)


def trainings(masked: Measurement, shift: float, noise: float, items: int) -> list[Measurement]:
    """Return 30 trainings: equal items, a shift of each training, and what it moves in each item."""
    draws = np.random.default_rng(1)
    labels, ones = np.array([f"item {i}" for i in range(items)]), np.ones(items)
    own, shifts, made = scaled(draws.normal(size=items)), scaled(draws.normal(size=30)), []
    for moved in shift * shifts:
        values = own + moved + noise * draws.normal(size=items)
        mean, error = values.mean(), values.std(ddof=1) / np.sqrt(items)
        interval = replace(masked.interval, low=mean - 1.96 * error, high=mean + 1.96 * error)
        sums = SumsByStatistic({masked.main: mean_sums(labels, values, ones, "items")})
        made.append(replace(masked, values={masked.main: mean}, intervals={masked.main: interval}, sums=sums))
    return made


def test_what_a_training_moves_beyond_its_items_is_found_again(script: ModuleType, masked: Measurement) -> None:
    items = 200  # the bounds over fewer are wider than the standard error
    error, of_one = np.sqrt((1 + 0.5**2) / items), np.sqrt(1 + 0.5**2)  # of the mean; of an item
    with_shift = script.row_of(trainings(masked, 0.3, 0.5, items), masked.main, None)
    assert with_shift["beyond"] == pytest.approx(0.3 / error, rel=0.25)
    assert 1.0 < with_shift["paired"] / (0.5 * np.sqrt(2) / of_one) < 1.3, (
        "the bounds reach farther than the standard error"
    )
    few = script.row_of(trainings(masked, 0.3, 0.5, 40), masked.main, None)
    assert with_shift["paired"] < few["paired"] < 1.3 * with_shift["paired"]
    without = script.row_of(trainings(masked, 0.0, 0.5, items), masked.main, None)
    assert without["beyond"] < 0.35
    assert without["spread"] == pytest.approx(0.5 / of_one, rel=0.3)  # of 30 trainings: 13 % each way


@pytest.mark.slow
def test_three_trainings_differ_as_the_table_says(script: ModuleType, shared_data: Path, tmp_path: Path) -> None:
    """Heads for careers are trained in seconds. Three say no more than the order of magnitude."""
    script.train(TEXT_CLASSIFIER, tmp_path, shared_data, range(1000, 1003), None)
    script.measure(TEXT_CLASSIFIER, tmp_path, shared_data)
    measured = [one["bios"] for one in script.trainings_of(tmp_path, TEXT_CLASSIFIER, 1000, 3)]
    for statistic in ("accuracy", "tpr_gap_pearson", "precision_gap_pearson"):
        spread = np.std([one.values[statistic] for one in measured], ddof=1)
        packaged_spread = np.mean([retraining_of(one, statistic).spread for one in measured])
        assert packaged_spread / 8 < spread < 3 * packaged_spread, statistic


def test_what_moves_a_share_as_a_whole_is_known_by_its_log_odds() -> None:
    """The standard error over items of one checkpoint does not matter, and no bound passes the end of the range."""
    statistics = {"net_neutral": Statistic("lower", 1.0, "mean probability of neutral", least=0.0, most=1.0)}
    row = TABLES[NLI_CLASSIFIER]["suites"]["nli-demonym"]["net_neutral"]

    def at(value: float, reach: float) -> Retraining:
        interval = {"net_neutral": Interval(value - reach, value + reach, 0.95, "items", "by hand", 25)}
        signature = {**hand_made().signature, "definition": "nli/1"}
        sums = SumsByStatistic({"net_neutral": hand_made().item_sums("share")})
        content = {"values": {"net_neutral": value}, "statistics": statistics, "intervals": interval, "sums": sums}
        return retraining_of(hand_made(suite="nli-demonym", signature=signature, **content), "net_neutral")

    near, far = at(0.6, 0.01), at(0.6, 0.03)
    assert near.beyond == far.beyond == near.spread and near.paired is not None
    assert far.paired == pytest.approx(3 * near.paired), "items are those of the checkpoint"
    both = 1.96 * np.sqrt(2)
    assert near.beyond == pytest.approx((0.6 - expit(logit(0.6) - both * row["log_odds"])) / both)
    low, high = at(0.02, 0.01).beyond, at(0.99, 0.01).beyond
    assert low is not None and high is not None and both * low < 0.02 and high < 0.006


def test_the_error_of_restarts_is_that_of_clusters(masked: Measurement) -> None:
    """Each item is there four times: as many items again say nothing new, if they are one cluster."""
    labels = np.array([f"{item}-{copy}" for item in range(50) for copy in range(4)])
    values, ones = np.repeat(np.random.default_rng(0).normal(size=50), 4), np.ones(200)
    alone = mean_sums(labels, values, ones, "items")
    together = alone.in_clusters({label: label.partition("-")[0] for label in labels.tolist()})
    errors = []
    for sums in (alone, together):
        one = replace(masked, sums=SumsByStatistic({masked.main: sums}), values={masked.main: values.mean()})
        restarts = combine_restarts([one] * 3, range(3))
        errors.append(standard_error(restarts, masked.main))
    assert errors[1] == pytest.approx(values[::4].std(ddof=1) / np.sqrt(50))
    assert errors[1] == pytest.approx(2 * errors[0], rel=0.02)


def test_the_error_of_restarts_is_that_for_other_templates_too(masked: Measurement) -> None:
    """Four templates that differ say as little of others over restarts as they do in the interval of a checkpoint."""
    table = np.random.default_rng(0).normal(size=(50, 4)) + np.array([0.0, 2.0, 4.0, 9.0])
    labels, templates = np.array([f"item {i}" for i in range(50)]), np.array(list("abcd"))
    sums = ItemSums(labels, table[..., None], "mean_of_template_means", "items", templates=templates)
    reach = 1.96 * table.mean(axis=1).std(ddof=1) / np.sqrt(50)
    interval = two_way_interval(
        sums, Interval(sums.total - reach, sums.total + reach, 0.95, "items", ""), (0.0, np.inf)
    )
    one = replace(masked, sums=SumsByStatistic({masked.main: sums}), values={masked.main: sums.total})
    one = replace(one, intervals={masked.main: interval})
    error = standard_error(combine_restarts([one] * 3, range(3)), masked.main)
    assert error == pytest.approx(standard_error(one, masked.main))
    assert error > 20 * reach / 1.96
