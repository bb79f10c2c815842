"""Does the method lower bias, and does the model still predict text as well? ``careers.txt`` stands for a text of your
own.
"""

from methods import Subtraction

from pytest_genderbias.mitigation import assert_reduced

TEXT = {"name": "masked-lm", "corpus": "careers.txt"}  # evaluates only: neither method trains


def test_projection(bias_mitigation):
    run = bias_mitigation("projection", TEXT)
    assert_reduced(run, "lm-occupation", by=0.3, budget={"perplexity": 0.25})


def test_a_method_of_ones_own(bias_mitigation):
    run = bias_mitigation(Subtraction(share=0.9), TEXT)
    assert_reduced(run, "lm-occupation", by=0.3, budget={"perplexity": 0.25})
