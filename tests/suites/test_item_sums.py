"""Sums of items: aligned between models, and for every family and statistic the value that the summary has."""

import io
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from simulations.paired_coverage import own_sums
from support.answered_suites import CASES, Answered, make_case

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.contingency import fisher_exact, significant_counts_by_template, significant_fills
from pytest_genderbias.statistics.correlation import pearson, pearson_of_sums, product_sums, slope, slope_of_sums
from pytest_genderbias.statistics.count_sums import absolute_gap_sums, gap_pearson_sums
from pytest_genderbias.statistics.group_gaps import (
    absolute_gap_sum,
    beside_shares,
    class_gaps,
    confusion_tables,
    hits_and_trials,
    hits_and_trials_of,
    rate_counts,
)
from pytest_genderbias.statistics.inference.item_sums import (
    ItemSums,
    SumsByStatistic,
    align,
    blocks_of,
    distinct,
    mean_sums,
)
from pytest_genderbias.statistics.inference.paired import compare_items
from pytest_genderbias.statistics.inference.reduction import compare_weighted_items
from pytest_genderbias.statistics.inference.two_way import is_crossed, with_fixed
from pytest_genderbias.statistics.sums import line_sums, template_bias_sums, template_sums
from pytest_genderbias.suites.suite import FAMILIES


def weighted(columns):
    """Return a value that depends on the names of the sums: each counts as often as its name has letters."""
    lengths = np.asarray([len(name) for name in columns])
    return lambda totals: totals @ lengths


def named(labels, columns, seed):
    sums = np.random.default_rng(seed).integers(0, 5, (len(labels), len(columns))).astype(np.float32)
    return own_sums(np.asarray(list(labels)), sums, weighted, "persons", smooth=False, columns=tuple(columns))


def as_dict(item_sums):
    """Return the sums that are not 0, by item and name."""
    return {
        (label, name): value
        for label, row in zip(item_sums.labels.tolist(), item_sums.sums.tolist(), strict=True)
        for name, value in zip(item_sums.columns, row, strict=True)
        if value
    }


def test_names_of_sums_are_aligned_and_the_value_stays():
    then, now = named("dacb", ["z", "yy", "xxx"], 1), named("abcd", ["yy", "wwww"], 2)
    first, second = align(then, now)
    assert first.columns == second.columns == ("wwww", "xxx", "yy", "z")
    assert first.labels.tolist() == second.labels.tolist() == list("abcd")
    assert (as_dict(first), as_dict(second)) == (as_dict(then), as_dict(now))
    assert (first.total, second.total) == (then.total, now.total)
    assert not first.smooth and first.sums.dtype == np.float32


def test_items_of_one_side_only_are_left_out():
    first, second = align(named("abx", ["p", "qq"], 3), named("yba", ["qq", "p"], 4))
    assert first.labels.tolist() == second.labels.tolist() == ["a", "b"]
    then = named("abx", ["p", "qq"], 3)
    assert as_dict(first) == {key: value for key, value in as_dict(then).items() if key[0] != "x"}


def test_sums_without_names_are_aligned_by_item():
    then = mean_sums(np.array(["b", "a"]), np.array([3.0, 6.0]), np.array([2, 1]), "words")
    now = mean_sums(np.array(["a", "b"]), np.array([1.0, 2.0]), np.array([1, 2]), "words")
    first, second = align(then, now)
    assert first.sums.tolist() == [[6.0, 1.0], [3.0, 2.0]] and second.sums.tolist() == [[1.0, 1.0], [2.0, 2.0]]
    assert first.ratio and first.total == then.total == 3.0


def test_a_unit_without_a_case_on_one_side_is_left_out_of_both():
    words, templates, scores, counts = list("abcdefgh"), ["x", "y"], np.arange(16.0).reshape(8, 2), np.ones((8, 2))
    without_c = np.ones(8)[:, None] * (np.arange(8) != 2)[:, None]
    then = template_sums(words, templates, scores * without_c, counts * without_c, "words")
    now = template_sums(words, templates, scores, counts, "words")
    for first, second in (align(then, now), align(now, then)):
        assert first.labels.tolist() == second.labels.tolist() == list("abdefgh")
        assert first.by_unit().labels.tolist() == second.by_unit().labels.tolist() == list("abdefgh")
    difference = compare_items(then, now, lambda value: value)
    assert (difference.items, difference.value) == (7, 0.0)
    assert compare_weighted_items([then, now], [now], lambda value: value).items == 7


def test_what_cannot_be_aligned_is_refused():
    mean = mean_sums(np.array(["a"]), np.array([1.0]), np.array([1]), "words")
    with pytest.raises(UndefinedError, match="none of the words in common"):
        align(mean, mean_sums(np.array(["b"]), np.array([1.0]), np.array([1]), "words"))
    with pytest.raises(ValueError, match="not of one statistic"):
        align(mean, named("a", ["p"], 0))
    with pytest.raises(UndefinedError, match="2 sums a unit and 1"):
        align(mean, own_sums(np.array(["a"]), np.ones((1, 1)), lambda totals: totals[..., 0], "words"))


def test_names_of_sums_are_checked():
    for columns in (("p", "p"), ("p",)):
        with pytest.raises(ValueError, match="name of its own"):
            own_sums(np.array(["a"]), np.ones((1, 2)), weighted, "persons", columns=columns)
    with pytest.raises(ValueError, match="takes no names"):
        ItemSums(np.array(["a"]), np.ones((1, 2)), "mean", "persons", columns=("p", "q"))
    with pytest.raises(ValueError, match="needs names"):
        ItemSums(np.array(["a"]), np.ones((1, 2)), "significant_fills", "persons")
    with pytest.raises(ValueError, match="no combiner 'mode'"):
        ItemSums(np.array(["a"]), np.ones((1, 2)), "mode", "persons")


def test_equal_names_get_numbers():
    assert distinct(["a", "a", "a (2)", "a"]).tolist() == ["a", "a (2)", "a (2) (2)", "a (3)"]


@pytest.mark.parametrize("n", [0, 1, 200, 201, 9824])
def test_blocks_cover_the_cases_in_order(n):
    labels, block = blocks_of(n, "pairs")
    assert len(labels) <= 200 and len(set(labels.tolist())) == len(labels) and len(block) == n
    for number, label in enumerate(labels.tolist()):
        start, end = map(int, label.removeprefix("pairs ").split("-"))
        assert np.flatnonzero(block == number).tolist() == list(range(start, end + 1))


# Every family


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """Return a function from the name of a case to its answered suite."""
    return lambda name: make_case(name, tmp_path_factory)


#: What has no item_sums, of the families that have any: figures of shuffles, not of items.
WITHOUT = {"random_groups_mean", "random_groups_max"}
HAVE_ALL = {"disco", "nli", "lm-occupation", "pronoun-occupation", "sts", "coref-occupation", "coref-winogender",
    "coref-winobias"}  # fmt: skip


def sums_of(found):
    """Return the sums, by unit, of each statistic that has a value and sums."""
    made = {}
    for statistic, value in found.summary.values.items():
        if value is None:
            continue
        try:
            made[statistic] = found.item_sums(statistic).by_unit()
        except UndefinedError:
            if found.family.name in HAVE_ALL and statistic not in WITHOUT:
                raise
    return made


def test_every_family_has_a_case(case):
    families = {case(name).family.name for name in CASES}
    assert families == set(FAMILIES), f"CASES of answered_suites.py lacks {set(FAMILIES) - families}"


@pytest.mark.parametrize("name", CASES)
def test_the_totals_give_the_value_of_the_summary(case, name):
    found = case(name)
    made = sums_of(found)
    if found.family.name in HAVE_ALL:
        assert set(made) | WITHOUT >= {key for key, value in found.summary.values.items() if value is not None}
        assert made
    for statistic, item_sums in made.items():
        value = found.summary.values[statistic]
        assert item_sums.total == pytest.approx(value, rel=1e-6, abs=1e-9), statistic
        assert len(item_sums.labels) > 1, statistic
        if item_sums.ratio:
            assert item_sums.total == pytest.approx(item_sums.sums[:, 0].sum() / item_sums.sums[:, 1].sum())


@pytest.mark.parametrize("name", CASES)
def test_what_a_baseline_stores_is_enough(case, name):
    found = case(name)
    packed = io.BytesIO()
    np.savez_compressed(packed, **found.summary.items)
    assert packed.tell() <= 512 * 1024
    packed.seek(0)
    with np.load(packed, allow_pickle=False) as file:
        items = dict(file)
    for statistic, item_sums in sums_of(found).items():
        again = found.item_sums(statistic, items).by_unit()
        assert again.total == pytest.approx(item_sums.total, rel=1e-12, nan_ok=True)
        assert again.labels.tolist() == item_sums.labels.tolist()
        assert np.allclose(
            again.sums, item_sums.sums, rtol=1e-12, atol=1e-15
        )  # means over templates of professions round


@pytest.mark.parametrize("name", CASES)
def test_values_of_many_totals_are_those_of_one_at_a_time(case, name):
    for statistic, item_sums in sums_of(case(name)).items():
        n = len(item_sums.labels)
        weights = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), size=(2, 3)).astype(np.float64)
        weights[0, 0] = 1.0
        totals = weights @ item_sums.sums.astype(np.float64)
        together = item_sums.value(totals)
        assert together.shape == (2, 3)
        assert together[0, 0] == pytest.approx(item_sums.total, rel=1e-9)
        for i, j in np.ndindex(2, 3):
            alone = float(item_sums.value(totals[i, j]))
            assert alone == pytest.approx(float(together[i, j]), nan_ok=True), statistic


@pytest.mark.parametrize("name", CASES)
def test_sums_aligned_with_themselves_stay(case, name):
    for item_sums in sums_of(case(name)).values():
        for side in align(item_sums, item_sums):
            assert side.total == pytest.approx(item_sums.total, rel=1e-9)
            assert side.labels.tolist() == sorted(item_sums.labels.tolist())


@pytest.mark.parametrize("name", CASES)
def test_unit_scores_have_the_value_as_their_mean(case, name):
    found = case(name)
    for statistic, value in found.summary.values.items():
        scores = found.family.statistics[statistic].scores(found.options, found.main)
        if scores is not None:
            assert scores.shape == (len(found.main.units),)
            assert scores.dtype == np.float64 and 0 <= scores.min() <= scores.max() <= 1
            assert scores.mean() == pytest.approx(value, rel=1e-6, abs=1e-12)


def test_which_statistics_are_means_of_units(case):
    def means(name):
        found = case(name)
        return {
            s for s in found.summary.values if found.family.statistics[s].scores(found.options, found.main) is not None
        }

    assert means("nli") == {"net_neutral", "fraction_neutral", "threshold_0.5", "threshold_0.7"}
    assert means("nli-word-pairs") == {"net_neutral", "fraction_neutral"}
    assert means("lm-occupation") == means("disco-terms") == means("winobias") == means("winogender") == set()


def test_items_are_what_the_issue_names(case):
    over = {
        ("disco-terms", "significant_fills"): "persons",
        ("nli", "net_neutral"): "premise words",
        ("nli", "accuracy"): "blocks of sentence pairs",
        ("lm-occupation", "aggregate_bias"): "occupations",
        ("pronoun-occupation", "mean_difference"): "occupations",
        ("sts", "pearson_r"): "professions",
        ("winogender", "accuracy_gap"): "occupations",
        ("winobias", "f1_gap"): "pairs of sentences",
        ("winobias", "tpr_gap_sum"): "pairs of sentences",
        ("winobias", "tpr_gap_pearson"): "professions",
    }
    for (name, statistic), expected in over.items():
        assert case(name).item_sums(statistic).over == expected
    assert [s for s in sums_of(case("disco-terms")) if not case("disco-terms").item_sums(s).smooth] == [
        "significant_fills"
    ]


def test_items_without_what_is_needed_say_so(case):
    for name in ("disco-terms", "nli", "sts", "winogender", "winobias", "lm-occupation", "pronoun-occupation"):
        found = case(name)
        for statistic in sums_of(found):
            with pytest.raises(UndefinedError, match="the items have no"):
                found.item_sums(statistic, {})
    without = {key: value for key, value in case("nli").summary.items.items() if not key.startswith("accuracy")}
    with pytest.raises(UndefinedError, match="accuracy"):
        case("nli").item_sums("accuracy", without)


def test_without_shares_there_is_no_correlation_with_them(case):
    found = case("winobias")
    suite = replace(found.suite, body=(found.suite.body[0], "of_women"))  # an attribute that the list lacks
    without = Answered(suite, {**found.options, "shares": "list"}, found.answers)
    with pytest.raises(UndefinedError, match="no share of women"):
        without.item_sums("tpr_gap_pearson")
    null = without.null(repeats=5)
    assert np.isnan(null["tpr_gap_pearson"]).all()
    assert np.array_equal(null["tpr_gap_sum"], found.null(repeats=5)["tpr_gap_sum"])


def test_leaving_an_occupation_out_is_measuring_without_it(case):
    """Leaving out the item of an occupation gives what a measurement of the others gives."""
    found = case("lm-occupation-sample")
    main = found.main
    rest = Answered(found.suite, found.options, {"cases": replace(main, units=main.units[1:], values=main.values[1:])})
    for statistic in ("aggregate_bias", "signed_bias"):
        item_sums = found.item_sums(statistic).by_unit()
        assert float(item_sums.value(item_sums.sums[1:].sum(axis=0))) == pytest.approx(rest.summary.values[statistic])


@pytest.mark.parametrize("name", ["disco-names", "disco-fisher"])
def test_leaving_persons_out_is_measuring_without_them(case, name):
    found = case(name)
    main, kept = found.main, np.arange(25, len(found.main.units))
    rest = Answered(
        found.suite, found.options, {"cases": replace(main, units=main.units[kept], values=main.values[kept])}
    )
    item_sums = found.item_sums("significant_fills")
    assert float(item_sums.value(item_sums.sums[kept].sum(axis=0))) == pytest.approx(
        rest.summary.values["significant_fills"]
    )
    women = found.summary.items["group"] == 0
    assert np.isnan(item_sums.value(item_sums.sums[women].sum(axis=0)))


def test_leaving_pairs_of_sentences_out_is_measuring_without_them(case):
    for name in ("winobias", "sts-sample"):
        found = case(name)
        main, kept = found.main, np.arange(9, len(found.main.units))
        part = {"cases": replace(main, units=main.units[kept], values=main.values[kept])}
        rest = Answered(found.suite, found.options, {**found.answers, **part})
        for statistic, item_sums in sums_of(found).items():
            if item_sums.over == "pairs of sentences":
                value = float(item_sums.value(item_sums.sums[kept].sum(axis=0)))
                assert value == pytest.approx(rest.summary.values[statistic]), statistic


def test_fills_are_aligned_by_text_between_tokenizers(case):
    """The same fills under other token ids are the same sums; one that only one side has is 0 on the other."""
    found = case("disco-terms")
    items = dict(found.summary.items)
    renumbered = {**items, "fills": 9999 - items["fills"], "fill_id": (9999 - items["fill_id"])[::-1]}
    renumbered["fill_text"] = items["fill_text"][::-1]
    then, now = align(found.item_sums("significant_fills"), found.item_sums("significant_fills", renumbered))
    assert np.array_equal(then.sums, now.sums)
    assert then.total == now.total == found.summary.values["significant_fills"]
    other = {**items, "fill_text": np.asarray([f"{text}!" for text in items["fill_text"]])}
    then, now = align(found.item_sums("significant_fills"), found.item_sums("significant_fills", other))
    assert then.total == now.total == found.summary.values["significant_fills"]
    fills = [i for i, column in enumerate(then.columns) if not column.startswith("size")]
    assert not (then.sums[:, fills] * now.sums[:, fills]).any()
    halves = then.value((then.sums + now.sums).sum(axis=0, dtype=np.float64))
    assert np.isfinite(halves)


def test_correlations_of_sums_are_those_of_scipy():
    rng = np.random.default_rng(1)
    x, y = rng.random(20), rng.normal(size=(7, 20)) + 3
    totals = product_sums(x, y).sum(axis=1)
    assert pearson_of_sums(totals) == pytest.approx([scipy.stats.pearsonr(x, row)[0] for row in y])
    assert slope_of_sums(totals) == pytest.approx([scipy.stats.linregress(x, row).slope for row in y])
    assert line_sums(distinct(np.arange(20)), x, y[0], "pearson", "items").total == pytest.approx(pearson(x, y[0]))
    assert line_sums(distinct(np.arange(20)), x, y[0], "slope", "items").total == pytest.approx(slope(x, y[0]))
    counted = rng.random(20) < 0.6
    some = product_sums(x, y[0], counted).sum(axis=0)
    assert pearson_of_sums(some) == pytest.approx(scipy.stats.pearsonr(x[counted], y[0][counted])[0])


def test_correlations_of_sums_are_nan_where_there_are_none():
    two, flat_x, flat_y = (
        product_sums(*xy).sum(axis=0) for xy in (([1, 2], [1, 3]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [0.3, 0.3, 0.3]))
    )
    assert np.isnan([pearson_of_sums(totals) for totals in (two, flat_x, flat_y)]).all()
    assert np.isnan([slope_of_sums(totals) for totals in (two, flat_x)]).all()
    assert slope_of_sums(flat_y) == pytest.approx(0.0, abs=1e-12)


def test_counts_give_the_gaps_that_tables_give():
    rng = np.random.default_rng(2)
    said, gold, group = rng.integers(6, size=90), rng.integers(5, size=90), rng.integers(2, size=90)
    group[gold == 4] = 0  # nobody of the second group
    by_case = rate_counts(said, gold, group, 5)
    tables = confusion_tables(said, gold, group, 5, n_answers=6)
    names, cases = np.asarray(list("abcde")), distinct(np.arange(90))
    shares = np.array([0.1, np.nan, 0.5, 0.8, 0.2])
    for rate in ("true_positive", "false_positive", "precision"):
        expected = class_gaps(tables, rate)
        found = hits_and_trials_of(by_case.sum(axis=0), rate)
        assert [table.tolist() for table in found] == [table.tolist() for table in hits_and_trials(tables, rate)]
        total = absolute_gap_sums(cases, by_case, rate, "cases")
        assert total.total == pytest.approx(absolute_gap_sum(expected))
        assert not total.smooth
        r = gap_pearson_sums(names, by_case.sum(axis=0), rate, shares, "classes")
        assert r.total == pytest.approx(pearson(*beside_shares(expected, shares)))
        assert r.labels.tolist() == list("acde")
    assert np.isnan(absolute_gap_sums(cases, np.zeros((90, 3, 2, 5)), "precision", "cases").total)
    assert not rate_counts(said, gold, np.full(90, -1), 5).any()


def test_fills_of_counts_are_those_of_persons():
    rng = np.random.default_rng(3)
    fills = np.argsort(rng.random((60, 2, 6)), axis=2)[:, :, :3]
    fills[:25, 0, 0] = 6
    groups = np.repeat([0, 1], [25, 35])
    supplied = np.asarray(
        [[(fills[groups == g, t] == fill).any(axis=1).sum() for g in (0, 1)] for t in (0, 1) for fill in range(9)]
    )
    templates = np.repeat([0, 1], 9)
    for family in ("template", "suite"):
        for test in ("chi2", "fisher"):
            how = {"level": 0.2, "family": family, "test": test}
            expected = significant_fills(fills, groups, **how)
            assert significant_counts_by_template(supplied, [25, 35], templates, 2, **how).mean() == expected > 0
    both = significant_counts_by_template(np.stack([supplied, supplied]), [[25, 35], [25, 0]], templates, 2)
    both = both.mean(axis=-1)
    assert both[0] == significant_fills(fills, groups) and np.isnan(both[1])


@given(st.tuples(*[st.integers(0, 40)] * 4))
def test_fisher_is_that_of_scipy(table):
    a, b, c, d = table
    if a + c and b + d:
        assert float(fisher_exact([a, b], [a + c, b + d])) == pytest.approx(
            scipy.stats.fisher_exact([[a, b], [c, d]]).pvalue, rel=1e-9
        )


def test_fisher_of_many_tables_with_sizes_of_their_own():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 600, (300, 2))
    supplied = rng.binomial(sizes, rng.random((300, 1)))
    expected = [
        scipy.stats.fisher_exact([row.tolist(), (n - row).tolist()]).pvalue
        for row, n in zip(supplied, sizes, strict=True)
    ]
    assert fisher_exact(supplied, sizes) == pytest.approx(expected, rel=1e-8, abs=1e-300)


# Stored and read again


def through_a_file(arrays):
    """Return arrays from the bytes of an .npz file that was written and read without pickle."""
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)
    packed.seek(0)
    with np.load(packed, allow_pickle=False) as file:
        return dict(file)


def assert_same_sums(one, other):
    """Equal bit for bit, with the same types."""
    for a, b in ((one.labels, other.labels), (one.sums, other.sums), (one.templates, other.templates)):
        assert (a is None) == (b is None)
        assert a is None or (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    assert (one.combiner, one.over, one.columns) == (other.combiner, other.over, other.columns)
    assert dict(one.parameters) == dict(other.parameters)
    assert one.total == other.total or np.isnan([one.total, other.total]).all()


@pytest.mark.parametrize("name", CASES)
def test_sums_of_every_statistic_come_back_from_plain_arrays(case, name):
    found = case(name)
    by_statistic = SumsByStatistic({s: partial(found.item_sums, s) for s in found.family.statistics})
    arrays = by_statistic.to_arrays()
    assert not any(array.dtype.hasobject for array in arrays.values())
    again = SumsByStatistic.from_arrays(through_a_file(arrays))
    assert list(again) == list(by_statistic)
    for statistic in found.family.statistics:
        if statistic in again:
            assert_same_sums(again[statistic], found.item_sums(statistic))
            alone = SumsByStatistic({statistic: again[statistic]}).to_arrays()
            assert_same_sums(SumsByStatistic.from_arrays(through_a_file(alone))[statistic], again[statistic])
        else:
            reasons = []
            for sums in (again, by_statistic):
                with pytest.raises(UndefinedError) as error:
                    sums[statistic]
                reasons.append(str(error.value))
            assert reasons[0] == reasons[1]


def test_equal_arrays_are_stored_once_and_sparse_ones_as_positions():
    labels, sums = np.arange(500).astype(str), np.zeros((500, 300), dtype=np.float32)
    sums[::7, 3], sums[11, 299] = 1.5, -0.0
    first = own_sums(labels, sums, lambda totals: totals[..., 3], "words")
    arrays = SumsByStatistic({"a": first, "b": replace(first, sums=sums.copy()), "c": "too few"}).to_arrays()
    assert sum(array.size for array in arrays.values()) < 1000
    again = SumsByStatistic.from_arrays(through_a_file(arrays))
    assert_same_sums(again["a"], first)
    assert_same_sums(again["b"], first)
    assert (list(again), len(again), "c" in again) == (["a", "b"], 2, False)
    with pytest.raises(UndefinedError, match="too few"):
        again["c"]
    with pytest.raises(UndefinedError, match="no sums of d"):
        again["d"]


def test_other_arrays_hold_no_sums():
    with pytest.raises(ValueError, match="expected an array"):
        SumsByStatistic.from_arrays({"bias": np.ones(3)})
    (index,) = SumsByStatistic({}).to_arrays().items()
    later = {index[0]: np.asarray(str(index[1]).replace('"schema": 1', '"schema": 2'))}
    with pytest.raises(ValueError, match="got 2"):
        SumsByStatistic.from_arrays(later)


# Templates


@pytest.mark.parametrize(
    ("name", "templates"), [("lm-occupation", "prefixes"), ("coref-occupation", "templates"), ("nli", "hypotheses")]
)
def test_units_are_crossed_with_templates(case, name, templates):
    found = case(name)
    statistic = next(iter(found.summary.values))
    crossed = found.item_sums(statistic)
    assert crossed.sums.ndim == 3 and crossed.sums.shape[:2] == (len(crossed.labels), len(crossed.templates)), templates
    stored = found.item_sums(statistic, {k: v for k, v in found.summary.items.items() if k != "hypothesis"})
    assert stored.templates is None
    assert is_crossed(crossed) == (templates != "hypotheses" and len(crossed.templates) >= 4)
    assert_same_sums(crossed.by_unit(), stored)
    both = align(crossed, crossed)
    assert both[0].templates.tolist() == crossed.templates.tolist()
    for sides in (align(crossed, stored), align(stored, crossed)):
        assert [side.templates for side in sides] == [None, None]
        assert sides[0].total == sides[1].total == crossed.total
    fewer = replace(crossed, sums=crossed.sums[:, 1:], templates=crossed.templates[1:])
    assert [side.templates for side in align(crossed, fewer)] == [None, None]


@pytest.mark.parametrize(
    ("name", "statistic"),
    [
        *(("sts", statistic) for statistic in ("pearson_r", "slope", "mean_absolute_difference")),
        *(("pronoun-occupation", statistic) for statistic in ("mean_difference", "pearson_r", "slope")),
    ],
)
def test_professions_are_crossed_with_templates(case, name, statistic):
    found = case(name)
    crossed = found.item_sums(statistic)
    stored = found.item_sums(statistic, found.summary.items)
    assert crossed.templates is not None and stored.templates is None
    assert crossed.total == pytest.approx(stored.total, rel=1e-12)
    assert with_fixed(stored) == ("professions" if name == "sts" else "occupations")
    by_hand = found.summary.values[statistic]
    assert crossed.total == pytest.approx(by_hand, rel=1e-12)


def test_what_units_are_crossed_with_is_stored():
    words = template_sums(["a", "b"], ["x", "y"], np.ones((2, 2)), np.ones((2, 2)), "words", "other words")
    plain = replace(words, across="templates")
    for sums in (words, plain):
        again = SumsByStatistic.from_arrays(SumsByStatistic({"share": sums}).to_arrays())["share"]
        assert again.across == sums.across
        assert_same_sums(again, sums)
    assert [side.templates for side in align(words, plain)] == [None, None]
    assert with_fixed(words) == "words (2 other words fixed)"


def test_templates_are_checked():
    with pytest.raises(ValueError, match="a name for each template"):
        template_bias_sums(["a", "b"], [[1.0, 2.0], [1.0, 2.0]], ["x"], absolute=True)
    with pytest.raises(ValueError, match="needs templates"):
        ItemSums(np.array(["a"]), np.ones((1, 1)), "mean_of_template_means", "words")
    with pytest.raises(ValueError, match="takes no templates"):
        ItemSums(np.array(["a"]), np.ones((1, 1, 2)), "mean", "words", templates=np.array(["x"]))
