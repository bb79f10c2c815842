"""Write the tables of docs/evidence/mitigation-figures.md from the stored results of mitigations.

    python scripts/mitigation_tables.py

The results are in ``docs/evidence/mitigations``, one JSON file for each row and each curve. The page says how they were
made.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
RESULTS = HERE / "docs" / "evidence" / "mitigations"
BEGIN, END = "<!-- mitigations: made by scripts/mitigation_tables.py -->", "<!-- end of mitigations -->"
CURVES_BEGIN, CURVES_END = "<!-- resilience: made by scripts/mitigation_tables.py -->", "<!-- end of resilience -->"


def results() -> list[dict[str, Any]]:
    """Return the stored results, sorted by the name of the row."""
    contents = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    return [result for result in contents if "gates" in result]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the results as a markdown table with one line per judged statistic."""
    lines = [
        (
            "| method | suite | before | after | control | change (one-sided 95 % bounds) | accuracy before, after |"
            " seeds | seconds | verdict |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        for gate in row["gates"]:
            values = [summary(gate["values"][side][gate["statistic"]]) for side in ("before", "after", "control")]
            lines.append(
                f"| {row['title']} | `{gate['suite']}` {gate['statistic']} | {' | '.join(values)} | {change(gate)} | "
                f"{performance(row)} | {len(row['seeds'])} | {row['training_seconds'] or '-'} | {gate['verdict']} |"
            )
    return "\n".join(lines)


def summary(by_seed: Sequence[Sequence[float | None]]) -> str:
    """Return the mean over all models of a side and, if their values differ, the standard deviation."""
    values = [value for models in by_seed for value in models if value is not None]
    if not values:
        return "-"
    spread = f" ({statistics.stdev(values):.3f})" if len(set(values)) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}"


def change(gate: Mapping[str, Any]) -> str:
    """Return the change of the distance from neutral with its bounds; negative values are better."""
    if gate["difference"] is None:
        return "-"
    bounds = "" if gate["bounds"] is None else f" ({gate['bounds'][0]:+.3f} to {gate['bounds'][1]:+.3f})"
    return f"{gate['difference']:+.3f}{bounds}"


def performance(row: Mapping[str, Any]) -> str:
    """Return the recipe's main figure before and after."""
    if not row["performance"]:
        return "-"
    name, sides = row["figure"], row["performance"][row["figure"]]
    return f"{name} {summary(sides['before'])}, {summary(sides['after'])}"


def curve_table(result: Mapping[str, Any], statistic: str, figure: str) -> str:
    """Return the remaining effect of a mitigation during fine-tuning as a markdown table: means over seeds (standard
    deviation).
    """
    curves = result["curves"]
    name = f"{curves[0]['suite']}/{statistic}"
    first = curves[0]["by_frozen"]["before"]
    steps = sorted(curves[0]["by_step"]["before"], key=int)
    points = [("by_step", step, step, "encoder" if step == "0" else "nothing") for step in steps]
    points += [("by_frozen", key, str(first[key]["step"]), key) for key in first if key == "embeddings"]
    lines = [
        f"| steps | frozen | {statistic} before | {statistic} after | {figure} before | {figure} after |",
        "|---|---|---|---|---|---|",
    ]
    for kind, key, step, frozen in points:
        entries = {side: [curve[kind][side][key] for curve in curves] for side in ("before", "after")}
        values = [summary([[entry["values"].get(name)] for entry in entries[side]]) for side in entries]
        values += [summary([[entry["performance"].get(figure)] for entry in entries[side]]) for side in entries]
        lines.append(f"| {step} | {frozen} | {' | '.join(values)} |")
    return "\n".join(lines)


def resilience_table() -> str:
    """Return the table of the remaining effect of a projection during fine-tuning, or an empty text without a
    result.
    """
    path = RESULTS / "resilience-sts.json"
    return curve_table(json.loads(path.read_text()), "mean_absolute_difference", "pearson_r") if path.exists() else ""


def write_tables() -> None:
    """Write the tables between their marks in docs/evidence/mitigation-figures.md."""
    made = table(results())
    path = HERE / "docs" / "evidence" / "mitigation-figures.md"
    text = between(path.read_text(), BEGIN, END, made)
    path.write_text(between(text, CURVES_BEGIN, CURVES_END, resilience_table()))
    print(f"{path.relative_to(HERE)}: {made.count(chr(10)) - 1} rows")


def between(text: str, begin: str, end: str, made: str) -> str:
    """Return a page with a new text between two marks, if it has them."""
    before, mark, rest = text.partition(begin)
    return f"{before}{begin}\n{made}\n{end}{rest.partition(end)[2]}" if mark else text


if __name__ == "__main__":
    write_tables()
