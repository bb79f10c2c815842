"""What the README of examples/verdicts and of examples/mitigation shows: its commands, run in a copy of the folder, and
their output.

``python tests/support/verdict_texts.py EXAMPLE`` writes the README anew (or another file, if one is named);
``tests/docs/test_examples.py`` holds the one against the other.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
_BLOCK = re.compile(r"^```console\n\$ pytest ([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
_ENDS = re.compile(r"=+ (?:\d+ (?:passed|failed)[^=]*?|short test summary info) ?(?:in [\d.:]+s.*?)? ?=+")

Run = Callable[[list[str]], tuple[str, int]]  # arguments of pytest to what it printed, and its exit status


def renewed(text: str, run: Run, folder: Path) -> str:
    """Return a README with what its commands print now."""

    def renew(match: re.Match[str]) -> str:
        output, status = run(shlex.split(match[1]))
        shown = _DATE.sub("2026-11-21", "\n".join(_kept(output)).strip("\n").replace(f"{folder}{os.sep}", ""))
        return f"```console\n$ pytest {match[1]}\n{shown}\nexit status {status}\n```"

    return _BLOCK.sub(renew, text)


def _kept(output: str) -> Iterator[str]:
    """Yield the failures and the summary, without what pytest prints around them."""
    section = ""
    for line in output.splitlines():
        if re.fullmatch(r"=+ .+ =+", line):
            section = line.strip("= ") if not _ENDS.fullmatch(line) else ""
        elif section == "bias" or (section == "FAILURES" and not line.startswith("___")):
            yield line


@contextmanager
def chdir(folder: Path) -> Iterator[None]:
    """Work in a folder for a while."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def run_here(folder: Path) -> Run:
    """Return what runs pytest in a folder, in this process, which has loaded torch once and for all."""

    def run(arguments: list[str]) -> tuple[str, int]:
        always = ["-p", "no:cacheprovider", f"--bias-cache={folder.parent / 'scores'}"]
        with chdir(folder), redirect_stdout(io.StringIO()) as printed, redirect_stderr(printed):
            status = pytest.main([*always, *arguments])
        return printed.getvalue().replace(f"{shlex.join(always)} ", ""), int(status)

    return run


def main(example: str, target: Path) -> None:
    """Write the README of an example anew."""
    os.environ["COLUMNS"] = "100"
    source = EXAMPLES / example
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(shutil.copytree(source, Path(temporary).resolve() / example))
        if (folder / "make_models.py").exists():
            subprocess.run([sys.executable, "make_models.py", "models"], cwd=folder, check=True, capture_output=True)
        target.write_text(renewed((source / "README.md").read_text(), run_here(folder), folder))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else EXAMPLES / sys.argv[1] / "README.md")
