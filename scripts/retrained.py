"""Trainings of one model that differ only in the seed, and what gates make of them: ``docs/retrained.md``.

    python scripts/retrained.py train CHECKPOINT TEXTS --runs DIR [--first 0] [--count 23]
    python scripts/retrained.py measure --runs DIR --data DATA

``train`` tunes a small masked LM (CHECKPOINT) on the lines of TEXTS (a text, or a gzip of one): DIR/seed-0, DIR/seed-1, ... The seed
determines the order of the texts, the masked tokens and dropout. ``measure`` scores the six statistics of GATES on each restart, and keeps what they gave in DIR/seed-0.json, .... Both can
be interrupted and resumed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
from pathlib import Path

#: The gates: suite and statistic.
GATES = (
    ("lm-occupation", "aggregate_bias"),
    ("lm-occupation", "signed_bias"),
    ("disco-terms", "significant_fills"),
    ("disco-names", "significant_fills"),
    ("pairs-pll", "stereotype_share"),
    ("pairs-pll", "mean_difference"),
)
STEPS, BATCH, LENGTH, RATE, MASKED = 100, 32, 64, 5e-4, 0.15


def train(checkpoint: str, texts: Path, runs: Path, first: int, count: int) -> None:
    """Train the restarts that are not there yet."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    rows = rows_of(texts, tokenizer)
    for seed in range(first, first + count):
        folder = runs / f"seed-{seed}"
        if not folder.exists():
            start = time.perf_counter()
            loss = tune(checkpoint, tokenizer, rows, seed, folder)
            print(f"seed {seed}: loss {loss:.3f}, {time.perf_counter() - start:.0f} s", flush=True)


def rows_of(texts: Path, tokenizer):
    """Return the tokens of the texts in rows of equal length, without those that are left over, shape (rows, tokens)."""
    import torch

    content = texts.read_bytes()
    lines = (gzip.decompress(content) if texts.suffix == ".gz" else content).decode().splitlines()
    ids = [token for line in lines for token in tokenizer(line, add_special_tokens=False)["input_ids"]]
    width = LENGTH - 2
    body = torch.tensor(ids[: len(ids) // width * width]).reshape(-1, width)
    edges = [torch.full((len(body), 1), token) for token in (tokenizer.cls_token_id, tokenizer.sep_token_id)]
    return torch.cat([edges[0], body, edges[1]], dim=1)


def tune(checkpoint: str, tokenizer, rows, seed: int, folder: Path) -> float:
    """Train one restart, save it, and return the mean loss of its last 20 steps."""
    import torch
    import transformers

    transformers.set_seed(seed)
    network = transformers.AutoModelForMaskedLM.from_pretrained(checkpoint)
    network.train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / STEPS)
    losses = []
    for step in range(STEPS):
        if step * BATCH % len(rows) < BATCH:
            order = torch.randperm(len(rows)).repeat(2)
        start = step * BATCH % len(rows)
        ids = rows[order[start : start + BATCH]].clone()
        hidden = torch.rand(ids.shape) < MASKED
        hidden[:, [0, -1]] = False
        wanted = ids[hidden]
        ids[hidden] = tokenizer.mask_token_id
        # Only masked tokens are predicted: all of them would take most of the time.
        vectors = network.base_model(input_ids=ids).last_hidden_state[hidden]
        loss = torch.nn.functional.cross_entropy(network.cls(vectors), wanted)
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    network.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    partial.rename(folder)
    return sum(losses[-20:]) / 20


def measure(runs: Path, data: Path) -> None:
    """Measure the restarts that were not measured yet."""
    from pytest_genderbias.measurement.runner import Runner, RunSettings

    runner = Runner(score=RunSettings(cache=None), data=data)
    for folder in sorted(runs.glob("seed-*[0-9]")):
        result = folder.with_name(f"{folder.name}.json")
        if result.exists():
            continue
        start = time.perf_counter()
        suites = dict.fromkeys(suite for suite, _ in GATES)
        measured = {suite: runner.measure(suite, f"candidate={folder}").to_dict(records=0) for suite in suites}
        result.with_suffix(".part").write_text(json.dumps(measured))
        result.with_suffix(".part").rename(result)
        print(f"{folder.name}: {time.perf_counter() - start:.0f} s", flush=True)


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    of_train = commands.add_parser("train")
    of_train.add_argument("checkpoint")
    of_train.add_argument("texts", type=Path)
    of_train.add_argument("--runs", type=Path, required=True)
    of_train.add_argument("--first", type=int, default=0)
    of_train.add_argument("--count", type=int, default=23)
    of_measure = commands.add_parser("measure")
    of_measure.add_argument("--runs", type=Path, required=True)
    of_measure.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    if options.command == "measure":
        return measure(options.runs, options.data)
    train(options.checkpoint, options.texts, options.runs, options.first, options.count)


if __name__ == "__main__":
    main()
