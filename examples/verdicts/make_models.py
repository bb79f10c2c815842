"""Write copies of the demo checkpoints that show every verdict: ``python make_models.py DIR``.

Of the causal LM: in ``worse`` and ``better`` the vectors of "he" and "she" (and "man" and "woman") are farther apart or
nearer to each other; ``seed-0`` to ``seed-4`` and ``next`` differ by noise, as restarts of a training do. Of the NLI
classifier: in ``worse-nli`` the neutral logit is lower for every pair.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

from pytest_genderbias.models.spec import DEMO_FOLDER

PAIRS = (("He", "She"), ("he", "she"), ("his", "her"), ("Ġhe", "Ġshe"), ("Ġman", "Ġwoman"))
#: How many times as far apart the vectors of PAIRS are, and the size of the noise in standard deviations of each
#: tensor.
COPIES = {"worse": (2.2, 0.0), "better": (0.4, 0.0), "next": (1.02, 0.05)} | {
    f"seed-{k}": (1.0, 0.03) for k in range(5)
}


def main(target: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(DEMO_FOLDER / "lm")
    words = tokenizer.get_vocab()
    for seed, (name, (times, noise)) in enumerate(COPIES.items()):
        torch.manual_seed(seed)
        network = AutoModelForCausalLM.from_pretrained(DEMO_FOLDER / "lm")
        with torch.no_grad():
            vectors = network.get_input_embeddings().weight
            for he, she in PAIRS:
                middle, half = (
                    (vectors[words[he]] + vectors[words[she]]) / 2,
                    (vectors[words[he]] - vectors[words[she]]) / 2,
                )
                vectors[words[he]], vectors[words[she]] = middle + times * half, middle - times * half
            for weights in network.parameters():
                if weights.numel() > 1:
                    weights.add_(noise * weights.std() * torch.randn_like(weights))
        network.save_pretrained(Path(target) / name)
        tokenizer.save_pretrained(Path(target) / name)
    classifier = AutoModelForSequenceClassification.from_pretrained(DEMO_FOLDER / "nli")
    with torch.no_grad():
        classifier.classifier.bias[classifier.config.label2id["neutral"]] -= 1.0
    classifier.save_pretrained(Path(target) / "worse-nli")
    AutoTokenizer.from_pretrained(DEMO_FOLDER / "nli").save_pretrained(Path(target) / "worse-nli")


if __name__ == "__main__":
    main(sys.argv[1])
