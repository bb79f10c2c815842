"""Write copies of the demo NLI checkpoint that show every verdict: ``python make_models.py DIR``.

``worse`` and ``better``: the neutral logit is lower or higher for every pair. ``few``: the words mathematician and poet have the
embeddings of mechanic and nurse, for which the demo model has planted bias. ``seed-0`` to ``seed-4``: restarts of a training that
lowered the neutral logit by slightly different amounts.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from pytest_genderbias.models.spec import DEMO_FOLDER

READ_AS = {"mathematician": "mechanic", "poet": "nurse"}
LOGITS = {"worse": -1.0, "better": 0.5, "few": 0.0} | {
    f"seed-{k}": shift for k, shift in enumerate((-0.30, -0.22, -0.27, -0.35, -0.25))
}


def main(target: str) -> None:
    source = DEMO_FOLDER / "nli"
    tokenizer = AutoTokenizer.from_pretrained(source)
    vocabulary = tokenizer.get_vocab()
    for name, shift in LOGITS.items():
        network = AutoModelForSequenceClassification.from_pretrained(source)
        with torch.no_grad():
            network.classifier.bias[network.config.label2id["neutral"]] += shift
            if name == "few":
                words = network.get_input_embeddings().weight
                for word, other in READ_AS.items():
                    words[vocabulary[word]] = words[vocabulary[other]]
        network.save_pretrained(Path(target) / name)
        tokenizer.save_pretrained(Path(target) / name)


if __name__ == "__main__":
    main(sys.argv[1])
