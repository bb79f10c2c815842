"""Able or damaged: the share of control items that real models answer right, intact and with each kind of damage.

    python scripts/ability_table.py --models=DIR [--encoder=DIR] [--page=docs/evidence/ability.md]

``DIR`` has the folders ``minilm-mlm``, ``bert-tiny-mlm``, ``stories260k`` and ``minilm-snli``; ``--encoder`` names a
sentence encoder. The table is printed, or takes the place of the one on the page.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import transformers
from support.damage import DAMAGES, damaged

from pytest_genderbias import load_model
from pytest_genderbias.errors import ScoreError
from pytest_genderbias.measurement.control_questions import ability_of
from pytest_genderbias.models.model import Model
from pytest_genderbias.scoring.engine import ScoreSettings
from pytest_genderbias.suites.controls import packaged_controls

KINDS = {
    "minilm-mlm": ("masked-words", "gender"),
    "bert-tiny-mlm": ("masked-words", "gender"),
    "stories260k": ("word-order", "gender"),
    "minilm-snli": ("inference", "gender-inference"),
    "encoder": ("paraphrases", "related-words", "gender-words"),
}
_TABLE = re.compile(r"(?<=<!-- table -->\n\n).*?(?=\n\n<!-- end -->)", re.DOTALL)


def share(model: Model, kind: str) -> str:
    """Return the share of right answers; bold where the model is not able."""
    controls = packaged_controls(kind, "en")
    assert controls is not None
    try:
        found = ability_of(controls, model, None, ScoreSettings(cache=None))
    except ScoreError:
        return "**error: NaN**"
    shown = "-" if found.value is None else f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"
    return f"**{shown}**" if found.unable else shown


def rows(folders: dict[str, Path]) -> Iterator[str]:
    """Yield the lines of the table: a line a model and kind of control items, a column a damage."""
    harms = ["intact", *DAMAGES]
    yield f"| model | control items | {' | '.join(harm.replace('_', ' ') for harm in harms)} |"
    yield "|---" * (len(harms) + 2) + "|"
    for name, folder in folders.items():
        model = load_model(str(folder), device="cpu")
        classifies = model.role.kind == "nli-classifier"
        copies = {
            harm: None if harm == "untrained_head" and not classifies else damaged(model, harm) for harm in DAMAGES
        }
        for kind in KINDS[name]:
            cells = [share(model, kind), *("" if copy is None else share(copy, kind) for copy in copies.values())]
            yield f"| {name} | `{kind}` | {' | '.join(cells)} |"


def main() -> None:
    """Print the table, or write it into the page."""
    parser = argparse.ArgumentParser(description="Control items on intact and damaged models.")
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--encoder", type=Path)
    parser.add_argument("--page", type=Path)
    typed = parser.parse_args()
    transformers.logging.set_verbosity_error()
    folders = {name: typed.models / name for name in KINDS if name != "encoder"}
    table = "\n".join(rows(folders | ({"encoder": typed.encoder} if typed.encoder else {})))
    if typed.page is None:
        print(table)
    else:
        typed.page.write_text(_TABLE.sub(lambda _: table, typed.page.read_text()))


if __name__ == "__main__":
    main()
