"""What compressing changes on real models: ``python benchmarks/deployment.py MODELS [--only NAME] [--write]``.

``MODELS`` holds ``minilm-snli``, ``bert-tiny-mlm`` and ``stories260k``. Each copy that
``examples/deployment/compress.py`` writes with the packages at hand is compared with its original on the same items.
``--write`` puts the tables into docs/evidence/deployment.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias import load_model, load_suite, measure
from pytest_genderbias.gates.comparison import judge_against
from pytest_genderbias.models.model import Model
from pytest_genderbias.scoring.scorer import check_finite
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.suites.family import Context, resolve_options

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "deployment"
PAGE = ROOT / "docs" / "evidence" / "deployment.md"
TRAINED_ON = [
    "The nurse ate a cake.",
    "The judge ate a cake.",
    "The baker ate a cake.",
    "The nurse had a cake.",
    "The judge had a cake.",
    "The baker had a cake.",
]
BEGIN, END = "<!-- made by benchmarks/deployment.py -->", "<!-- end -->"


@dataclass(frozen=True)
class Row:
    """A model, the suite that it is judged on, the margin, and how many cases are scored: all by default, and ``alone``
    of them row by row.
    """

    model: str
    suite: str
    margin: float
    limit: int | None = None
    alone: int | None = None


ROWS = (
    Row("minilm-snli", "nli-occupation", 0.02, 1000, 200),
    Row("bert-tiny-mlm", "disco-terms", 0.3, None, 500),
    Row("stories260k", "lm-occupation", 0.05),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path)
    parser.add_argument("--only", help="one of the models")
    parser.add_argument("--without-batches", action="store_true", help="leave the second table out")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    sys.path.insert(0, str(EXAMPLE))
    lines = [
        "| suite | copy | MB | value | worse by (95 % bounds) | margin | no worse | the same | other answers | "
        "largest shift |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    batches = [
        "| model | copy | value, batches of 2,048 tokens | value, each row alone | largest shift |",
        "|---|---|---|---|---|",
    ]
    for row in ROWS:
        if options.only in (None, row.model):
            compared, alone = compare(
                replace(row, alone=0) if options.without_batches else row, options.models / row.model
            )
            lines += compared
            batches += alone
    text = "\n".join([*lines, "", *batches])
    print(text)
    if options.write:
        page = PAGE.read_text()
        before, after = page[: page.index(BEGIN) + len(BEGIN)], page[page.index(END) :]
        PAGE.write_text(f"{before}\n{text}\n{after}")


def compare(row: Row, source: Path) -> tuple[list[str], list[str]]:
    """Return the rows of both tables for a model: the original, its copies, and the effect of batches."""
    from compress import main as compress

    with tempfile.TemporaryDirectory() as folder:
        compress(str(source), folder)
        lines, batches, original, before = [], [], None, None
        for name, model, size in copies(source, Path(folder)):
            measured = measure(row.suite, model, limit=row.limit, cache=None)
            scores, alone = answers(row, model), None
            start = f"| `{row.suite}` on {row.model} | {name} | {size} | {measured.value:.4f} |"
            if original is None or before is None:
                original, before = measured, scores
                lines.append(f"{start} | | | | | |")
                continue
            judgement = judge_against(measured, original, row.margin)
            same = judge_against(measured, original, row.margin, same=True).code
            changed, shift = difference(before, scores)
            bounds = (
                "the same in every item"
                if judgement.code == "unchanged"
                else f"{judgement.difference:+.4f} ({judgement.interval.low:+.4f} to {judgement.interval.high:+.4f})"
            )
            lines.append(f"{start} {bounds} | {row.margin} | `{judgement.code}` | `{same}` | {changed:.2%} | {shift} |")
            print(lines[-1], file=sys.stderr, flush=True)
            if row.alone != 0 and name in ("dynamic-int8", "onnx-int8", "int8"):
                alone = measure(row.suite, model, limit=row.alone, cache=None, batch_tokens=1)
                together = measure(row.suite, model, limit=row.alone, cache=None)
                _, shift = difference(answers(row, model, 1), answers(row, model))
                batches.append(f"| {row.model} | {name} | {together.value:.4f} | {alone.value:.4f} | {shift} |")
    return lines, batches


def copies(source: Path, folder: Path) -> Iterator[tuple[str, Model, str]]:
    """Yield name, model and megabytes of the original and of each copy."""
    from dynamic_int8 import make_model

    yield "float32", load_model(source), megabytes(source)
    os.environ["FLOAT32"] = str(source)
    yield "dynamic-int8", make_model(), "-"
    if find_spec("peft"):
        yield "lora", load_model(write_lora(source, folder.with_name(f"{folder.name}-lora"))), "-"
    for path in sorted(folder.iterdir()):
        yield path.name, load_model(path, dtype="auto"), megabytes(path)


def write_lora(source: Path, folder: Path) -> Path:
    """Train a LoRA of rank 4 for 20 steps on six sentences (a classifier: that they are neutral to each other), and
    return its folder.
    """
    import peft
    import torch
    import transformers

    config = transformers.AutoConfig.from_pretrained(source)
    network = getattr(transformers, config.architectures[0]).from_pretrained(source, dtype=torch.float32)
    words = transformers.AutoTokenizer.from_pretrained(source)
    torch.manual_seed(0)
    wrapped = peft.get_peft_model(network, peft.LoraConfig(r=4, lora_alpha=8, target_modules="all-linear"))
    words.pad_token = words.pad_token or words.eos_token
    encoded = words(TRAINED_ON, return_tensors="pt", padding=True)
    batch = {name: encoded[name] for name in ("input_ids", "attention_mask")}
    if "SequenceClassification" in type(network).__name__:
        targets = {"labels": torch.full((len(TRAINED_ON),), config.label2id["neutral"])}
    else:
        targets = {"labels": batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)}
    optimizer = torch.optim.AdamW([p for p in wrapped.parameters() if p.requires_grad], lr=1e-3)
    for _ in range(20):
        optimizer.zero_grad()
        wrapped(**batch, **targets).loss.backward()
        optimizer.step()
    wrapped.save_pretrained(folder)
    return folder


def megabytes(path: Path) -> str:
    files = (
        [path]
        if path.is_file()
        else [file for file in path.iterdir() if file.suffix in (".safetensors", ".onnx", ".bin")]
    )
    return f"{sum(file.stat().st_size for file in files) / 1e6:.1f}"


def answers(row: Row, model: Model, batch_tokens: int | None = None) -> NDArray[np.generic]:
    """Return the scores of up to 1,000 cases, spread over the suite."""
    suite = load_suite(row.suite)
    options = resolve_options(suite.family.options, suite.defaults, row.suite)
    asked = suite.family.questions(suite.body, options, Context(model.role.kind))["cases"]
    assert asked.cases is not None
    chosen = np.unique(np.linspace(0, asked.cases.n_cases - 1, 1000).astype(np.int64))
    scores = np.asarray(make_scorer(asked.cases, asked.query, model, batch_tokens).score(chosen))
    check_finite(np.isfinite(scores.astype(np.float64)).all(axis=1), asked.cases, chosen, model.name)
    return scores


def difference(before: NDArray[np.generic], now: NDArray[np.generic]) -> tuple[float, str]:
    """Return the share of answers that differ, and the largest shift of a probability (or of ln P, of a single
    score).
    """
    if before.dtype.kind == "i":  # ids of the best fills
        return float((before[:, 0] != now[:, 0]).mean()), "-"
    shift = float(np.abs(before - now).max())
    if before.shape[1] == 1:  # ln P of he and of she, in turn
        signs = [np.sign(scores[::2] - scores[1::2]) for scores in (before, now)]
        return float((signs[0] != signs[1]).mean()), f"{shift:.3f} in ln P"
    return float((before.argmax(1) != now.argmax(1)).mean()), f"{shift:.3f}"


if __name__ == "__main__":
    main()
