"""How often a gate detects further biased occupations in the demo NLI model:
``python benchmarks/planted.py [--pairs 20000]``.

In copies of the demo checkpoint, some of the 144 occupations without planted bias get the embedding of ``mechanic`` or
``nurse``, which have planted bias. Each copy is a checkpoint on disk, which is measured and compared with the demo
model as by a gate.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from pytest_genderbias import load_model, load_suite, measure
from pytest_genderbias.gates.policy import Margin
from pytest_genderbias.gates.regression import Reference, find_regression
from pytest_genderbias.gates.sensitivity import retraining_of
from pytest_genderbias.models.spec import DEMO_FOLDER

PLANTED, MARGINS, DRAWS = (1, 2, 4, 8, 16), (None, 0.01), 10
CODES = ("regressed", "too_few", "within")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20_000)
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    suite = load_suite("nli-occupation")
    before = measure(suite, load_model("demo-nli"), limit=options.pairs, cache=None)
    biased = {r["value"] for r in before.records if r["slice"] == "occupation" and r["net_neutral"] < 0.85}
    plain = [str(word) for word in before.items["premise"] if word not in biased and " " not in word]
    print(f"{suite.name}, {options.pairs:,} pairs, net_neutral {before.value:.4f}")
    print("| planted | falls by, mean | margin | regressed | too few cases | pass |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for count in PLANTED:
            codes, falls = {margin: Counter() for margin in MARGINS}, []
            for draw in range(DRAWS):
                words = np.random.default_rng([count, draw]).choice(plain, count, replace=False)
                target = plant(Path(folder) / f"{count}-{draw}", words)
                now = measure(suite, load_model(str(target)), limit=options.pairs, cache=None)
                falls.append(before.value - now.value)
                then = Reference("baseline", before.value, before, retraining=retraining_of(now, "net_neutral"))
                for margin in MARGINS:
                    allowed = Margin(margin)
                    codes[margin][find_regression(now, "net_neutral", then, allowed).code] += 1
            for margin, counts in codes.items():
                shares = " | ".join(f"{counts[code] / DRAWS:.0%}" for code in CODES)
                print(
                    f"| {count} | {np.mean(falls):.4f} | {'none' if margin is None else margin} | {shares} |",
                    flush=True,
                )


def plant(target: Path, words) -> Path:
    """Write a copy of the demo model in which each word has the embedding of a word with planted bias."""
    source = DEMO_FOLDER / "nli"
    network, tokenizer = (
        AutoModelForSequenceClassification.from_pretrained(source),
        AutoTokenizer.from_pretrained(source),
    )
    ids = tokenizer.convert_tokens_to_ids
    rows = network.get_input_embeddings().weight
    with torch.no_grad():
        for number, word in enumerate(words):
            rows[ids(str(word))] = rows[ids(("mechanic", "nurse")[number % 2])]
    network.save_pretrained(target)
    tokenizer.save_pretrained(target)
    return target


if __name__ == "__main__":
    main()
