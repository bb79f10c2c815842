"""Make the runs of a paper's configs in a folder, in one process or in several:
``torchrun --nproc_per_node=2 tests/support/divided_paper.py CONFIGS FOLDER``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pytest_genderbias.command_line.main import main
from pytest_genderbias.papers import config

if __name__ == "__main__":
    config.CONFIGS = Path(sys.argv[1])
    folder = sys.argv[2]
    raise SystemExit(main(["paper", "doe2020", f"--runs={folder}", f"--results={folder}/results"]))
