"""A superficial mitigation: the encoder keeps the bias, and a new head shows it again."""

from methods import FlatHead

from pytest_genderbias.mitigation import assert_reduced

RECIPE = {
    "name": "masked-lm",
    "corpus": "careers.txt",
    "steps": 200,
    "batch_size": 16,
    "max_length": 16,
    "learning_rate": 0.01,
}


def test_superficial(bias_mitigation):
    assert_reduced(bias_mitigation(FlatHead(), RECIPE), "lm-occupation", by=0.3, superficial=True)
