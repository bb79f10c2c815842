"""Null controls: what is shuffled, against every exchange one by one; no values of chance are called unlikely."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from support.answered_suites import CASES, Answered, NoisyCoreference, answered, make_case, winobias, winogender

from pytest_genderbias import load_suite
from pytest_genderbias.statistics import score_bias
from pytest_genderbias.statistics.contingency import relabellings
from pytest_genderbias.statistics.coreference_scores import exchanged_f1_gaps, f1_gap
from pytest_genderbias.statistics.score_bias import exchanged, exchanged_biases
from pytest_genderbias.suites.cases import Answer
from pytest_genderbias.suites.families.shared.group_distances import DISTANCES
from pytest_genderbias.suites.family import resolve_options

#: Statistics that the null control must have, by case.
EXPECTED = {
    "disco-names": {"significant_fills"},
    "disco-fisher": {"significant_fills"},
    "nli": set(),
    "lm-occupation": {"aggregate_bias", "signed_bias"},
    "coref-occupation": {"aggregate_bias", "signed_bias"},
    "pronoun-occupation": {"mean_difference", "pearson_r", "slope"},
    "sts": {"pearson_r", "slope", "mean_absolute_difference"},
    "winogender": {"pearson_r", "slope", "accuracy_gap"},
    "winobias": {
        "f1_gap",
        *(f"{rate}_gap_{kind}" for rate in ("tpr", "fpr", "precision") for kind in ("sum", "pearson", "rms")),
        *DISTANCES,
    },
}


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """Return a function from the name of a case to its answered suite."""
    return lambda name: make_case(name, tmp_path_factory)


# Every family


@pytest.mark.parametrize("name", CASES)
def test_a_null_has_as_many_values_as_were_asked_for_and_is_fixed_by_its_seed(case, name):
    found = case(name)
    null = found.null(seed=3, repeats=23)
    assert bool(null) == bool(found.family.null_control)
    assert set(null) <= set(found.summary.values)
    again, other = found.null(seed=3, repeats=23), found.null(seed=4, repeats=23)
    for statistic, values in null.items():
        assert values.shape == (23,)
        assert values.dtype == np.float64
        assert np.array_equal(values, again[statistic], equal_nan=True)
    if any(np.unique(values[~np.isnan(values)]).size > 4 for values in null.values()):
        assert any(not np.array_equal(null[key], other[key], equal_nan=True) for key in null)
    if name in EXPECTED:
        assert set(null) == EXPECTED[name]


@pytest.mark.parametrize("name", CASES)
def test_answers_stay_as_they_were(case, name):
    found = case(name)
    before = {key: answer.values.copy() for key, answer in found.answers.items()}
    found.null(repeats=3)
    assert all(np.array_equal(found.answers[key].values, values) for key, values in before.items())


# Against every exchange, one by one


def part(found, units):
    """Return the same with some of the units only, in this order."""
    key, main = next(iter(found.answers.items()))
    order = np.argsort(main.units)[units]
    return Answered(
        found.suite, found.options, {key: replace(main, units=main.units[order], values=main.values[order])}, found.seed
    )


def exchanges(found, first, second):
    """Return the figures after each exchange of the values of cases ``first`` with those of ``second``."""
    flat = found.main.values.reshape(-1, found.main.values.shape[-1])
    figures = []
    for turned in product([False, True], repeat=len(first)):
        values = flat.copy()
        values[first[list(turned)]], values[second[list(turned)]] = (
            flat[second[list(turned)]],
            flat[first[list(turned)]],
        )
        figures.append(found.with_values(values.reshape(found.main.values.shape)).summary.values)
    return figures


def check_exchanges(found, first, second, statistics):
    """Check that the null has the values that exchanges give, nearly all of them, and their mean and spread."""
    every, null = exchanges(found, first, second), found.null(seed=1, repeats=3000)
    for statistic in statistics:
        one_by_one = np.asarray([np.nan if row[statistic] is None else row[statistic] for row in every])
        expected, drawn = (np.unique(np.round(values, 6)) for values in (one_by_one, null[statistic]))
        nearest = np.abs(drawn[~np.isnan(drawn), None] - expected[~np.isnan(expected)]).min(axis=1)
        assert nearest.max() < 3e-6, statistic
        assert np.isnan(drawn).any() == np.isnan(expected).any()
        assert np.nanmean(null[statistic]) == pytest.approx(
            np.nanmean(one_by_one), abs=4 * np.nanstd(one_by_one) / 3000**0.5 + 1e-9
        )
        assert np.nanstd(null[statistic]) == pytest.approx(np.nanstd(one_by_one), rel=0.15, abs=1e-9)
        assert len(expected) < 2 or len(drawn) > 1
        assert len(drawn) >= 0.9 * len(expected), statistic


def consecutive(found):
    cases = found.main.values.shape[0] * found.main.values.shape[1]
    return np.arange(0, cases, 2), np.arange(1, cases, 2)


def test_groups_of_prefixes(case):
    found = part(case("lm-occupation"), [3, 17])
    check_exchanges(found, *consecutive(found), ["aggregate_bias", "signed_bias"])


def test_persons_of_sentences(case):
    found = part(case("sts"), [0, 1, 60, 61, 65, 130, 190])
    assert len(found.summary.items["profession"]) > 3
    check_exchanges(found, *consecutive(found), ["pearson_r", "slope", "mean_absolute_difference"])


def test_sentences_for_and_against_the_stereotype(tmp_path):
    """A pair whose sentences have the same answer changes nothing, and no test sees whether it is exchanged."""
    found = winobias(tmp_path, pairs=16, professions=3)
    linked = found.family.way.read(found.main).linked
    differ = linked[0::2] != linked[1::2]
    assert differ.sum() == 5
    check_exchanges(found, *(cases[differ] for cases in consecutive(found)), EXPECTED["winobias"])


def test_she_and_he(case, tmp_path):
    found = winogender(tmp_path, occupations=4)
    ids = found.main.cases.facts["id"][found.main.units].tolist()
    she = [i for i, name in enumerate(ids) if ".female." in name]
    he = [ids.index(ids[i].replace(".female.", ".male.")) for i in she]
    check_exchanges(found, np.asarray(she), np.asarray(he), ["pearson_r", "slope", "accuracy_gap"])


def test_she_without_he_is_not_exchanged(tmp_path):
    found = winogender(tmp_path, occupations=4)
    ids = found.main.cases.facts["id"].tolist()
    kept = [i for i, name in enumerate(ids) if not (".male." in name and name.startswith(ids[0].split(".")[0]))]
    some = part(found, kept)
    ids = some.main.cases.facts["id"][some.main.units].tolist()
    she = [i for i, name in enumerate(ids) if ".female." in name and name.replace(".female.", ".male.") in ids]
    assert len(she) < sum(".female." in name for name in ids)
    he = [ids.index(ids[i].replace(".female.", ".male.")) for i in she]
    check_exchanges(some, np.asarray(she), np.asarray(he), ["pearson_r", "slope", "accuracy_gap"])
    alone = part(found, [i for i, name in enumerate(found.main.cases.facts["id"].tolist()) if ".male." not in name])
    assert alone.null() == {}


def test_clusters_of_pairs_are_exchanged_whole():
    rng = np.random.default_rng(0)
    numerator, denominator = rng.integers(0, 3, (2, 7, 3, 1)), rng.integers(3, 5, (2, 7, 3, 1))
    pro, anti = np.concatenate([numerator, denominator] * 2, axis=-1)
    every = set()
    for turned in product([False, True], repeat=7):
        mask = np.asarray(turned)[:, None, None]
        every.add(round(f1_gap(np.where(mask, anti, pro), np.where(mask, pro, anti)), 9))
    assert set(np.round(exchanged_f1_gaps(pro, anti, 2000, seed=0), 9).tolist()) == every


def test_shuffled_persons_are_those_of_the_summary(case):
    found = case("disco-names")
    null = found.null(seed=found.seed, repeats=found.options["repeats"])["significant_fills"]
    assert null.mean() == found.summary.values["random_groups_mean"]
    assert null.max() == found.summary.values["random_groups_max"]
    groups = np.repeat([0, 1], [4, 6])
    rng = np.random.default_rng(5)
    blocks = np.concatenate([relabellings(groups, size, rng) for size in (3, 1, 4)])
    assert np.array_equal(blocks, relabellings(groups, 8, 5))


def test_blocks_of_exchanges_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    table, of = rng.normal(size=(16, 2)), rng.integers(3, size=16)
    together = exchanged(table, of, 3, 20, seed=1)
    assert together.shape == (20, 3, 2)
    assert exchanged(table[:, 0], of, 3, 20, seed=1) == pytest.approx(together[:, :, 0])
    monkeypatch.setattr(score_bias, "_BLOCK", 16 * 4)
    assert exchanged(table, of, 3, 20, seed=1) == pytest.approx(together)
    assert (np.abs(together) <= np.abs(table).sum(axis=0) + 1e-9).all()


def test_means_of_exchanges_are_normal_in_size():
    """Of differences 1 the sum over m pairs has the variance m, and no mean."""
    bias = exchanged_biases(np.ones((2, 100)), np.zeros((2, 100)), 4000, seed=0)
    assert bias.shape == (4000, 2)
    assert bias.mean() == pytest.approx(0.0, abs=0.005)
    assert bias.var() == pytest.approx(1 / 100, rel=0.05)


# Chance, and what is not chance


def places(found, statistics, repeats=99, seed=0):
    """Return for each statistic the share of shuffles that are at least as far from neutral as the value, itself
    included.
    """
    null = found.null(seed=seed, repeats=repeats)
    shares = []
    for statistic in statistics:
        about = found.family.statistics[statistic].plain()
        value = about.distance(found.summary.values[statistic])
        shares.append((1 + sum(about.distance(x) >= value - 1e-12 for x in null[statistic])) / (1 + repeats))
    return shares


def of_chance(name, units, shape, draw, **options):
    """Return a function from a seed to a suite with answers of chance."""
    suite = load_suite(name)
    chosen = dict(resolve_options(suite.family.options, options, name))
    space = suite.family.space(suite.body, chosen) if hasattr(suite.family, "space") else None
    return lambda seed: Answered(
        suite,
        chosen,
        {"cases": Answer(space, units, draw(np.random.default_rng(seed), shape), {i: str(i) for i in range(99)})},
    )


def shares_of_small(make, statistics, runs=120):
    """Return for each statistic the share of runs in which it is called unlikely."""
    return np.mean([np.array(places(make(seed), statistics, seed=seed)) <= 0.05 for seed in range(runs)], axis=0)


#: With a true share of .05 a hundred and twenty runs have more than this once in a thousand times.
MOST = 0.13


def test_score_bias_of_chance_is_rarely_called_unlikely():
    make = of_chance("lm-occupation", np.arange(30), (30, 8, 1), lambda rng, shape: rng.normal(size=shape))
    shares = shares_of_small(make, ("aggregate_bias", "signed_bias"))
    assert ((shares > 0.0) & (shares < MOST)).all(), shares


def test_similarity_of_chance_is_rarely_called_unlikely(case):
    base = part(case("sts"), np.arange(300))
    shares = shares_of_small(
        lambda seed: base.with_values(np.random.default_rng(seed).normal(size=(300, 2, 1))),
        ("pearson_r", "mean_absolute_difference"),
        60,
    )
    assert (shares < 0.17).all(), shares


def test_coreference_of_chance_is_rarely_called_unlikely(tmp_path):
    gender, pairs = winogender(tmp_path), winobias(tmp_path)
    for base, statistics in ((gender, ("pearson_r", "accuracy_gap")), (pairs, ("f1_gap", "tpr_gap_sum"))):
        shape = base.main.values.shape

        def make(seed, base=base, shape=shape):
            return base.with_values(np.random.default_rng(seed).normal(size=shape))

        shares = shares_of_small(make, statistics, 40)
        assert (shares < 0.2).all(), (statistics, shares)


def test_fills_of_chance_are_rarely_called_unlikely():
    def draw(rng, shape):
        return np.argsort(rng.random((*shape[:2], 5)), axis=2)[:, :, : shape[2]]

    units = np.random.default_rng(1).permutation(1000)[:120]
    make = of_chance("disco-names", units, (120, 14, 2), draw, level=0.5)
    assert shares_of_small(make, ["significant_fills"], 40) < 0.2


def test_what_is_planted_lies_outside(tmp_path):
    clear = answered("coref-occupation", NoisyCoreference(stereotype=2.0))
    assert places(clear, ("aggregate_bias", "signed_bias")) == [0.01, 0.01]
    rng = np.random.default_rng(0)
    found = winobias(tmp_path)
    values = rng.normal(size=found.main.values.shape) * 0.1
    values[:, 0, 0] += 1.0  # the stereotype is found, and what is against it is not
    values[:, 1, 1] += 1.0
    found = found.with_values(values)
    assert places(found, ("f1_gap", "tpr_gap_sum")) == [0.01, 0.01]


def test_what_has_no_bias_at_all_lies_inside(case, tmp_path):
    """Where the groups are answered alike, each exchange changes nothing, and the value is that of all of them."""
    for found in (case("lm-occupation"), case("sts"), winobias(tmp_path)):
        values = found.main.values.copy()
        values[:, 1::2] = values[:, ::2]
        equal = found.with_values(values)
        for statistic, null in equal.null(repeats=20).items():
            value = equal.summary.values[statistic]
            if value is not None:
                assert null == pytest.approx(np.full(20, value), abs=1e-9), statistic
