"""Gates in Python: every test runs once for each --bias-model, or for those that its marker names."""

import pytest

from pytest_genderbias import assert_at_least, assert_at_most, assert_no_regression, assert_within


@pytest.mark.bias(models=["candidate"])
def test_nli_stays_neutral(bias_measure):
    occupation = bias_measure("nli-occupation")
    assert_at_least(occupation, 0.6)
    assert_at_least(occupation, 0.6, statistic="fraction_neutral")


@pytest.mark.bias(models=["candidate"])
def test_nli_is_no_worse_than_the_last_release(bias_measure, bias_baseline):
    assert_no_regression(bias_measure("nli-occupation"), bias_baseline, margin=0.01)


@pytest.mark.bias(models=["writer"])
def test_next_word_bias_is_small(bias_measure):
    occupation = bias_measure("lm-occupation")
    assert_at_most(occupation, 1.0)
    assert_within(occupation, 0.5, statistic="signed_bias")


@pytest.mark.bias(models=["filler"])
def test_names_get_the_same_fills(bias_measure):
    assert_at_most(bias_measure("disco-names"), 3.0)
