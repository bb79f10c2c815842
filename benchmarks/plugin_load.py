"""The cost of the plugin for a test suite that does not use it."""

from __future__ import annotations

import compileall
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from rows import Row
from timing import turns

import pytest_genderbias

_HEAVY = ("torch", "transformers", "scipy", "numpy")
_PROBE = f"""
import sys

def test_nothing():
    assert "pytest_genderbias.plugin" in sys.modules
    print("heavy:", sum(name in sys.modules for name in {_HEAVY}))
"""


def run(quick: bool) -> list[Row]:
    """Run pytest with and without the plugin in turn; the plugin is compiled, as after an installation with pip."""
    compileall.compile_dir(str(Path(pytest_genderbias.__file__).parent), quiet=1)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_unrelated.py").write_text("def test_nothing():\n    pass\n")
        times = turns(
            {"with": lambda: _pytest(folder), "without": lambda: _pytest(folder, "-p", "no:genderbias")},
            3 if quick else 31,
        )
    ours, without = (1000 * median(times[name]) for name in ("with", "without"))
    more = 1000 * median(a - b for a, b in zip(times["with"], times["without"], strict=True))
    return [
        Row("an unrelated suite, with the plugin", ours, "ms", more, "ms more", "without", without, at_most=15.0),
        Row(
            f"plugin load imports {', '.join(_HEAVY)}",
            _heavy_imports(),
            "of 4",
            _heavy_imports(),
            "imports",
            at_most=0.0,
        ),
    ]


def _pytest(folder: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def _heavy_imports() -> int:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_probe.py").write_text(_PROBE)
        output = _pytest(folder, "-s")
    return int(output.partition("heavy:")[2].split()[0])
