"""How often gates call a restart of a fine-tuning worse than another one, with one restart and with five.

    python benchmarks/restarts.py ENCODER SNLI --runs DIR [--margins 0.01 0.05]

Fine-tunes ENCODER (a small checkpoint) on SNLI pairs (``train_20k.jsonl.gz``) ten times with different seeds, measures
``nli-occupation`` on each, and compares them with each other as gates do. Needs ``accelerate``. An interrupted run can
be resumed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections import Counter
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)

from pytest_genderbias import load_model, load_suite, measure
from pytest_genderbias.gates.comparison import judge_against
from pytest_genderbias.measurement.restarts import combine_restarts

LABELS = ("entailment", "neutral", "contradiction")
RESTARTS, PAIRS, ROWS = 10, 20_000, 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder")
    parser.add_argument("snli", type=Path)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--margins", type=float, nargs="*", default=[0.01, 0.05], help="beside gates without one")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    options = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with gzip.open(options.snli, "rt") as lines:
        rows = [json.loads(line) for line in lines][:ROWS]
    suite = load_suite("nli-occupation")
    measurements = []
    for seed in range(RESTARTS):
        folder = options.runs / f"seed-{seed}"
        if not (folder / "model.safetensors").exists():
            start = time.perf_counter()
            fine_tune(options.encoder, rows, seed, folder)
            print(f"seed {seed}: trained in {time.perf_counter() - start:.0f} s", flush=True)
        measurements.append(measure(suite, load_model(str(folder)), limit=options.pairs, cache=options.runs / "scores"))
        print(f"seed {seed}: net_neutral {measurements[-1].value:.4f}", flush=True)
    values = np.asarray([m.value for m in measurements])
    print(f"net_neutral of {RESTARTS} restarts: mean {values.mean():.4f}, standard deviation {values.std(ddof=1):.4f}")
    report(measurements, [None, *options.margins])


def fine_tune(encoder: str, rows: list[dict], seed: int, folder: Path) -> None:
    """Train one restart; the seed determines the head, the order of the examples and dropout."""
    transformers.set_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    names = {"label2id": {name: i for i, name in enumerate(LABELS)}, "id2label": dict(enumerate(LABELS))}
    network = AutoModelForSequenceClassification.from_pretrained(encoder, num_labels=3, **names)
    texts = tokenizer([r["premise"] for r in rows], [r["hypothesis"] for r in rows], truncation=True, max_length=64)
    data = [
        {**{key: texts[key][i] for key in texts}, "labels": LABELS.index(row["label"])} for i, row in enumerate(rows)
    ]
    arguments = TrainingArguments(
        str(folder / "trainer"),
        seed=seed,
        num_train_epochs=2,
        disable_tqdm=True,
        per_device_train_batch_size=64,
        learning_rate=3e-4,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        train_sampling_strategy="group_by_length",
        use_cpu=not torch.cuda.is_available(),
    )
    Trainer(network, arguments, DataCollatorWithPadding(tokenizer), data).train()
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def report(measurements: list, margins: list[float | None]) -> None:
    """Print how often gates fail a restart although the restarts do not differ in truth."""
    print("| margin | restarts | comparisons | regressed | too few cases | pass |")
    print("|---|---|---|---|---|---|")
    fives = [combine_restarts([measurements[i] for i in five], five) for five in combinations(range(RESTARTS), 5)]
    by_name = dict(zip(combinations(range(RESTARTS), 5), fives, strict=True))
    for margin in margins:
        single = Counter(judge_against(b, a, margin).code for a, b in permutations(measurements, 2))
        five = Counter(
            judge_against(by_name[tuple(sorted(set(range(RESTARTS)) - set(seeds)))], by_name[seeds], margin).code
            for seeds in by_name
        )
        for name, codes in (("one", single), ("five (seeds: 5)", five)):
            total = sum(codes.values())
            shares = " | ".join(f"{codes[code] / total:.0%}" for code in ("regressed", "too_few", "within"))
            print(f"| {'none' if margin is None else margin} | {name} | {total} | {shares} |")


if __name__ == "__main__":
    main()
