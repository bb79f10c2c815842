"""A small GAP, for recipes that train on coreference."""

from __future__ import annotations

from pathlib import Path

PEOPLE = ("nurse", "engineer", "teacher", "doctor", "guard", "cook")
COLUMNS = ("ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref", "URL")


def write_gap(folder: Path) -> str:
    """Write a GAP of 48 short texts, in some of which the pronoun comes first, and return the folder of the data
    sets.
    """
    lines = ["\t".join(COLUMNS)]
    for i in range(48):
        a, b = (f"the {PEOPLE[(i + k) % 6]}" for k in (0, 1 + i % 4))
        word = ("he", "she")[i % 2]
        text = (
            f"When {word} slept, {a} met {b} {i} times."
            if i % 5 == 0
            else f"The day {a} met {b} {i} times, {word} left."
        )
        right = ("TRUE", "FALSE") if i % 3 else ("FALSE", "TRUE")
        places = (text.index(f" {word} ") + 1, text.index(a), text.index(b))
        cells = (f"d-{i}", text, word, places[0], a, places[1], right[0], b, places[2], right[1], "-")
        lines.append("\t".join(map(str, cells)))
    (folder / "gap").mkdir()
    (folder / "gap" / "gap-development.tsv").write_text("\n".join(lines) + "\n")
    return str(folder)
