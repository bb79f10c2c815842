"""Mitigations without effect, or with too little: every test here fails, each for another reason."""

from methods import Noise, Subtraction

from pytest_genderbias.mitigation import assert_reduced
from pytest_genderbias.mitigation.methods.base import Method

TEXT = {"name": "masked-lm", "corpus": "careers.txt"}
BUDGET = {"perplexity": 0.25}


def test_does_nothing(bias_mitigation):
    assert_reduced(bias_mitigation(Method()), "lm-occupation", by=0.3)


def test_adds_noise(bias_mitigation):
    assert_reduced(bias_mitigation(Noise()), "lm-occupation", by=0.3)


def test_reduces_less_than_is_asked(bias_mitigation):
    assert_reduced(bias_mitigation("projection", TEXT), "lm-occupation", by=0.45, budget=BUDGET)


def test_over_corrects(bias_mitigation):
    assert_reduced(bias_mitigation(Subtraction(share=3.0), TEXT), "lm-occupation", by=0.3, budget=BUDGET)


def test_ruins_accuracy(bias_mitigation):
    assert_reduced(bias_mitigation("projection"), "lm-occupation", by=0.3)
