"""Train a checkpoint, in one process or in several:
``torchrun --nproc_per_node=2 tests/support/divided_training.py MODEL ROWS FOLDER SETTINGS``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pytest_genderbias import load_model
from pytest_genderbias.mitigation.methods.registry import make_recipe


def main() -> None:
    model, rows, folder, settings = sys.argv[1:5]
    given = {"name": "nli", **json.loads(settings)}
    read = {"training": rows, "evaluation": rows} if given["name"] == "nli" else {"corpus": rows}
    recipe = make_recipe(**given, **read)
    trained = recipe.train(recipe.start(load_model(model, device="cpu"), 0), recipe.rows(), 0, Path(folder))
    print(f"process {os.environ.get('RANK', 'alone')}: {sorted(path.name for path in trained.iterdir())}")


if __name__ == "__main__":
    main()
