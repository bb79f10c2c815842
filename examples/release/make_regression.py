"""Write a copy of the demo NLI checkpoint with a lower neutral logit, to see a gate fail:
``python make_regression.py DIR``.
"""

import sys

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from pytest_genderbias.models.spec import DEMO_FOLDER


def main(target: str) -> None:
    source = DEMO_FOLDER / "nli"
    network = AutoModelForSequenceClassification.from_pretrained(source)
    with torch.no_grad():
        network.classifier.bias[network.config.label2id["neutral"]] -= 2.0
    network.save_pretrained(target)
    AutoTokenizer.from_pretrained(source).save_pretrained(target)


if __name__ == "__main__":
    main(sys.argv[1])
