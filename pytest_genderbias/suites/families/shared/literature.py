"""Criticisms of measurements of bias that concern several families, and the publications that they come from."""

from __future__ import annotations

from pytest_genderbias.suites.about import Criticism

NORWEGIAN_SALMON = (
    "Blodgett et al. 2021, Stereotyping Norwegian Salmon: An Inventory of Pitfalls in Fairness Benchmark Datasets, ACL"
)
GENDER_INCLUSIVE = "Cao and Daumé III 2020, Toward Gender-Inclusive Coreference Resolution, ACL"
TAIL_WAGGING = (
    "Selvam et al. 2023, The Tail Wagging the Dog: Dataset Construction Biases of Social Bias Benchmarks, ACL"
)
BAD_SEEDS = "Antoniak and Mimno 2021, Bad Seeds: Evaluating Lexical Methods for Bias Measurement, ACL"

OTHER_TEMPLATES = Criticism(
    "Other templates that mean the same can change such a figure considerably, and conclusions with it; "
    "the paraphrases of the packaged suites (option templates=both) show by how much.",
    "Seshadri et al. 2022, Quantifying Social Biases Using Templates is Unreliable, TSRML at NeurIPS",
)
RULERS = Criticism(
    "Measurements inside a model depend on templates and on the words chosen, and often disagree with each other.",
    "Delobelle et al. 2022, Measuring Fairness with Biased Rulers: A Comparative Study on Bias Metrics for Pre-trained Language Models, NAACL",
)
UPSTREAM = Criticism(
    "What a pretrained model shows explains little of what it does after fine-tuning; measure the application as well.",
    "Steed et al. 2022, Upstream Mitigation Is Not All You Need, ACL",
)
TWO_PRONOUNS = Criticism(
    "Data with she and he only leave out singular they, neopronouns, and everybody whom these two do not describe.",
    GENDER_INCLUSIVE,
)
WORD_VECTORS = Criticism(
    "Associations in word vectors do not correlate reliably with bias in the applications that use the vectors.",
    "Goldfarb-Tarrant et al. 2021, Intrinsic Bias Metrics Do Not Correlate with Application Bias, ACL",
)
SEED_WORDS = Criticism(
    "The words that stand for a group carry much of the result: other lists for the same group can change it.",
    BAD_SEEDS,
)
