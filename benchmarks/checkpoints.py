"""Randomly initialised checkpoints of a given shape with a real WordPiece vocabulary, saved and loaded like a user's
own.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_DATA = Path(os.environ.get("GENDERBIAS_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
TOKENIZER = _DATA / "models" / "bert-tiny-mlm"


class NoTokenizerError(FileNotFoundError):
    """The tokenizer of the benchmarks is missing."""


@dataclass(frozen=True)
class Shape:
    """The size of a BERT."""

    layers: int
    width: int
    heads: int

    def __str__(self) -> str:
        """Return the name of the shape in tables."""
        return f"BERT {self.layers} x {self.width}"


def load_tokenizer() -> Any:
    """Load the tokenizer of the benchmarks."""
    from transformers import AutoTokenizer

    if not (TOKENIZER / "tokenizer.json").is_file():
        raise NoTokenizerError(
            f"no tokenizer in {TOKENIZER.name} of the data folder; set GENDERBIAS_DATA to that folder"
        )
    return AutoTokenizer.from_pretrained(str(TOKENIZER), local_files_only=True)


def random_model(shape: Shape, classifier: bool = False) -> Any:
    """Return a loaded model on the CPU with random weights: a masked LM, or an NLI classifier."""
    import torch
    from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification
    from transformers.utils import logging as untyped

    from pytest_genderbias import load_model

    logging: Any = untyped
    logging.disable_progress_bar()
    logging.set_verbosity_error()  # the pipeline recommends a data set for GPUs
    tokenizer = load_tokenizer()
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=4 * shape.width,
    )
    if classifier:
        config.id2label = dict(enumerate(("entailment", "neutral", "contradiction")))
        config.label2id = {label: i for i, label in config.id2label.items()}
    torch.manual_seed(0)
    network = (BertForSequenceClassification if classifier else BertForMaskedLM)(config)
    with tempfile.TemporaryDirectory() as folder:
        network.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return load_model(f"random={folder}", device="cpu")
