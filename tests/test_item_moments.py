"""Sums of items: aligned between models, and for every family and statistic the value that the summary has."""

import numpy as np
import pytest

from pytest_genderbias.statistics.moments import Moments, align, blocks_of, distinct, mean_moments, named_moments
from pytest_genderbias.statistics.undefined import UndefinedError


def weighted(columns):
    """Return a value that depends on the names of the sums: each counts as often as its name has letters."""
    lengths = np.asarray([len(name) for name in columns])
    return lambda totals: totals @ lengths


def named(labels, columns, seed):
    sums = np.random.default_rng(seed).integers(0, 5, (len(labels), len(columns))).astype(np.float32)
    return named_moments(np.asarray(list(labels)), sums, tuple(columns), weighted, "persons", smooth=False)


def as_dict(moments):
    """Return the sums that are not 0, by item and name."""
    return {
        (label, name): value
        for label, row in zip(moments.labels.tolist(), moments.sums.tolist(), strict=True)
        for name, value in zip(moments.columns, row, strict=True)
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
    then = mean_moments(np.array(["b", "a"]), np.array([3.0, 6.0]), np.array([2, 1]), "words")
    now = mean_moments(np.array(["a", "b"]), np.array([1.0, 2.0]), np.array([1, 2]), "words")
    first, second = align(then, now)
    assert first.sums.tolist() == [[6.0, 1.0], [3.0, 2.0]] and second.sums.tolist() == [[1.0, 1.0], [2.0, 2.0]]
    assert first.ratio and first.total == then.total == 3.0


def test_what_cannot_be_aligned_is_refused():
    mean = mean_moments(np.array(["a"]), np.array([1.0]), np.array([1]), "words")
    with pytest.raises(UndefinedError, match="none of the words in common"):
        align(mean, mean_moments(np.array(["b"]), np.array([1.0]), np.array([1]), "words"))
    with pytest.raises(ValueError, match="not of one statistic"):
        align(mean, named("a", ["p"], 0))
    with pytest.raises(ValueError, match="2 sums and 1"):
        align(mean, Moments(np.array(["a"]), np.ones((1, 1)), lambda totals: totals[..., 0], "words"))


def test_names_of_sums_are_checked():
    for columns in (("p", "p"), ("p",)):
        with pytest.raises(ValueError, match="name of its own"):
            named_moments(np.array(["a"]), np.ones((1, 2)), columns, weighted, "persons")
    with pytest.raises(ValueError, match="go together"):
        Moments(np.array(["a"]), np.ones((1, 1)), lambda totals: totals[..., 0], "persons", columns=("p",))


def test_equal_names_get_numbers():
    assert distinct(["a", "a", "a (2)", "a"]).tolist() == ["a", "a (2)", "a (2) (2)", "a (3)"]


@pytest.mark.parametrize("n", [0, 1, 200, 201, 9824])
def test_blocks_cover_the_cases_in_order(n):
    labels, block = blocks_of(n, "pairs")
    assert len(labels) <= 200 and len(set(labels.tolist())) == len(labels) and len(block) == n
    for number, label in enumerate(labels.tolist()):
        start, end = map(int, label.removeprefix("pairs ").split("-"))
        assert np.flatnonzero(block == number).tolist() == list(range(start, end + 1))
