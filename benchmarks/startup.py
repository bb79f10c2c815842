"""Runs of pytest from the prompt to the end, beside the imports of torch and transformers alone."""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from checkpoints import Shape, random_model
from rows import Row
from timing import turns

import pytest_genderbias

_IMPORTS = "import torch, transformers"


def run(quick: bool) -> list[Row]:
    """Run the demo of one suite with an empty cache, and a suite of 6,000 pairs whose scores are all stored."""
    compileall.compile_dir(str(Path(pytest_genderbias.__file__).parent), quiet=1)
    limit, repeats = (200, 1) if quick else (6_000, 9)
    with tempfile.TemporaryDirectory() as folder:
        model, cache = Path(folder, "model"), Path(folder, "cache")
        checkpoint = random_model(Shape(6, 384, 12), classifier=True).backend
        checkpoint.network.save_pretrained(model)
        checkpoint.tokenizer.save_pretrained(model)
        stored = [
            f"--bias-model={model}",
            "--bias-suite=nli-occupation",
            f"--bias-limit={limit}",
            f"--bias-cache={cache}",
        ]
        _pytest(folder, *stored)
        times = turns(
            {
                "demo": lambda: _pytest(folder, "--bias-model=demo", "--bias-suite=lm-occupation", "--bias-no-cache"),
                "stored": lambda: _pytest(folder, *stored),
                "imports": lambda: _python(folder, "-c", _IMPORTS),
            },
            repeats,
        )
    demo, stored_run, imports = (median(times[name]) for name in ("demo", "stored", "imports"))
    return [
        Row("demo, lm-occupation, nothing stored", demo, "s", demo / imports, "x", _IMPORTS, imports, at_most=3.0),
        Row(f"{limit:,} stored NLI scores", stored_run, "s", stored_run / imports, "x", _IMPORTS, imports, at_most=1.0),
    ]


def _pytest(folder: str, *arguments: str) -> str:
    return _python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments)


def _python(folder: str, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout
