"""Run a measurement in a process of its own, because peak memory is known for whole processes only."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def answer_of(script: str, *arguments: object) -> dict[str, Any]:
    """Run ``SCRIPT ARGUMENTS`` with this interpreter, and return the JSON object on its last line of output."""
    command = [sys.executable, str(Path(script).resolve()), *map(str, arguments)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise RuntimeError(f"{Path(script).name} failed:\n{process.stderr}")
    return dict(json.loads(process.stdout.splitlines()[-1]))


def answer(values: dict[str, Any]) -> None:
    """Print the values as the JSON that :func:`answer_of` reads."""
    print(json.dumps(values))


def peak_bytes() -> int:
    """Return the peak resident memory of this process in bytes.

    On Linux ``ru_maxrss`` includes the memory of the parent process before the program was started, so ``VmHWM`` is
    read instead.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        marks = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        if marks:
            return int(marks[0].split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main(call: Callable[..., dict[str, Any]]) -> None:
    """Call the function with the integers of the command line, and print its values."""
    answer(call(*map(int, sys.argv[1:])))
