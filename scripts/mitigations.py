"""Make the table of mitigations row by row: train, measure, judge, and store each result as a JSON file.

    python scripts/mitigations.py --data=DIR --runs=DIR [--glove=FILE] [--rows=NAME ...] [--seeds=N]   # skips rows with a result
    python scripts/mitigations.py --write                                                             # writes the tables into docs/evidence/mitigation-figures.md

Results are stored in ``docs/evidence/mitigations``, one file per row. ``--runs`` stores the trained models, so that an interrupted row is resumed
and rows share their base runs. ``--scale=paper`` uses the papers' sizes (GPUs, days).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
RESULTS = HERE / "docs" / "evidence" / "mitigations"
STEPS = (0, 10, 30, 100, 300, 1000)  #: steps of a fine-tuning at which the model is measured
BEGIN, END = "<!-- mitigations: made by scripts/mitigations.py -->", "<!-- end of mitigations -->"
CURVES_BEGIN, CURVES_END = "<!-- resilience: made by scripts/mitigations.py -->", "<!-- end of resilience -->"


@dataclass(frozen=True)
class Gate:
    """A suite to measure, the statistic to judge, and settings of ``measure``."""

    suite: str
    statistic: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    superficial: bool = False


@dataclass(frozen=True)
class Row:
    """One row: a model, and a method and a recipe by names and settings. ``budget`` limits the recipe's figures."""

    name: str
    title: str
    model: str | None
    method: Sequence[Mapping[str, Any]]
    recipe: Mapping[str, Any] | None
    gates: Sequence[Gate]
    by: float = 0.3
    budget: Mapping[str, float] = field(default_factory=dict)
    seeds: int | None = None
    controls: int | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of the data sets (docs/reference/data.md) and of models/")
    parser.add_argument("--runs", type=Path, help="folder for the trained models")
    parser.add_argument("--glove", help="file of word vectors for the static NLI model")
    parser.add_argument("--rows", nargs="+", help="names of rows, or prefixes of names (default: all)")
    parser.add_argument("--seeds", type=int, help="number of restarts of each row (default: that of the row)")
    parser.add_argument("--scale", choices=("small", "paper"), default="small", help="sizes of models and trainings")
    parser.add_argument("--list", action="store_true", help="list the rows and exit")
    parser.add_argument("--write", action="store_true", help="write the tables of the stored results and exit")
    options = parser.parse_args()
    if options.write:
        write_tables()
        return
    from mitigation_rows import make_rows

    from pytest_genderbias.errors import BiasError
    from pytest_genderbias.folders import write_whole

    rows = make_rows(options.data, options.runs, options.glove, options.scale)
    selected = [row for row in rows if not options.rows or any(row.name.startswith(name) for name in options.rows)]
    if options.list:
        print("\n".join(f"{row.name}: {row.title}" for row in selected))
        return
    if options.data is None or options.runs is None:
        parser.error("rows need --data=DIR and --runs=DIR")
    jobs = [(row.name, partial(make_row, row, options)) for row in selected]
    curves = {"watched-lstm": watch, "resilience-sts": tune_on} if options.scale == "small" else {}
    for name, make in curves.items():
        if not options.rows or any(name.startswith(start) for start in options.rows):
            jobs.append((name, partial(make, options)))
    for name, make in jobs:
        path = RESULTS / f"{name}.json"
        if path.exists():
            print(f"{name}: has a result ({path.relative_to(HERE)}); delete it to make the row again", flush=True)
            continue
        start = time.perf_counter()
        try:
            result = make()
        except BiasError as error:
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
            continue
        RESULTS.mkdir(parents=True, exist_ok=True)
        write_whole(path, (json.dumps(result, indent=1, sort_keys=True) + "\n").encode())
        verdicts = "; ".join(f"{gate['statistic']} {gate['verdict']}" for gate in result.get("gates", ()))
        print(f"{name}: {verdicts or 'made'} ({time.perf_counter() - start:.0f} s)", flush=True)


def make_row(row: Row, options: argparse.Namespace) -> dict[str, Any]:
    """Train the models that are not stored yet, measure every side, and judge."""
    from pytest_genderbias.measurement.carry_out import versions
    from pytest_genderbias.measurement.runner import Runner, RunSettings
    from pytest_genderbias.mitigation import make_method, make_recipe, mitigate

    methods = [make_method(**dict(settings)) for settings in row.method]
    method = methods[0]
    for other in methods[1:]:
        method = method & other
    recipe = None if row.recipe is None else make_recipe(**dict(row.recipe))
    runner = Runner(score=RunSettings(cache=options.runs / "scores"))
    seeds = options.seeds or row.seeds
    run = mitigate(row.model, method, recipe, seeds=seeds, controls=row.controls, folder=options.runs, runner=runner)
    performance = {}
    if recipe is not None:
        sides = {side: run.performance(side) for side in ("before", "after", "control")}
        performance = {
            name: {
                side: [[figures[name].value for figures in models] for models in by_seed]
                for side, by_seed in sides.items()
            }
            for name in sides["before"][0][0]
        }
    return {
        "row": row.name, "title": row.title, "model": row.model and Path(row.model).name, "what": without_paths(run.what), "by": row.by,
        "budget": dict(row.budget), "seeds": list(run.seeds), "trained": run.trained, "training_seconds": training_seconds(run),
        "gates": [judged(run, gate, row, options.data) for gate in row.gates], "performance": performance, "figure": next(iter(performance), None), "versions": versions(),
    }  # fmt: skip


def watch(options: argparse.Namespace) -> dict[str, Any]:
    """Return loss, perplexity and bias over the steps of a training of the language model without a method (lu2018, figure 3)."""
    from mitigation_rows import bold_sentences

    from pytest_genderbias.measurement.carry_out import versions
    from pytest_genderbias.mitigation import BiasCallback, make_recipe
    from pytest_genderbias.mitigation.harness.callback import loss_association
    from pytest_genderbias.recipes.recipe import Training

    recipe = make_recipe("lstm", corpus=bold_sentences(options.data, options.runs), data=str(options.data))
    histories = []
    for seed in range(options.seeds or 3):
        start = recipe.start(None, seed)
        callback = BiasCallback(["lm-occupation"], every=80, model=start, evaluate=recipe.evaluate)
        recipe.train(start, recipe.rows(), seed, options.runs / f"watched-{seed}", Training(callbacks=[callback]))
        histories.append(callback.history)
    return {
        "row": "watched-lstm", "histories": histories, "associations": [loss_association(history) for history in histories], "versions": versions(),
        "what": without_paths({"recipe": {"recipe": recipe.name, **recipe.settings()}}),
    }  # fmt: skip


def tune_on(options: argparse.Namespace) -> dict[str, Any]:
    """Return the remaining effect of a projection during fine-tuning on STS-B, by steps and by frozen layers (webster2020, figures 1 and 2)."""
    from mitigation_rows import GENDER_PROJECTION, SIMILARITY

    from pytest_genderbias.measurement.carry_out import versions
    from pytest_genderbias.mitigation import make_method, make_recipe, mitigate, resilience

    recipe = make_recipe(**SIMILARITY, data=str(options.data))
    model = f"{options.data}/models/bert-tiny-mlm"
    run = mitigate(model, make_method(**GENDER_PROJECTION), controls=1)
    curves = [
        resilience(run, "sts-occupation", recipe, steps=STEPS, seed=seed, folder=options.runs).to_dict()
        for seed in range(options.seeds or 3)
    ]
    return {
        "row": "resilience-sts", "model": Path(model).name, "curves": without_paths(curves), "what": without_paths(run.what),
        "versions": versions(),
    }  # fmt: skip


def judged(run: Any, gate: Gate, row: Row, data: Path) -> dict[str, Any]:
    """Return the values of a statistic on each side, and the verdict."""
    from pytest_genderbias.mitigation import judge_reduction

    settings = dict(gate.settings)
    sides = {side: run.measure(side, gate.suite, **settings) for side in ("before", "after", "control")}
    first = sides["before"][0][0]
    name = first.statistic(gate.statistic)
    judgement = judge_reduction(
        run,
        gate.suite,
        by=row.by,
        budget=dict(row.budget) or None,
        statistic=name,
        superficial=gate.superficial,
        **settings,
    )
    change = judge_reduction(run, gate.suite, by=0.0, statistic=name, **settings)
    new_heads = {"new_heads": with_new_heads(run, gate.suite, name, settings, data)} if gate.superficial else {}
    return {
        "suite": gate.suite, "statistic": name, "n": first.n, "n_total": first.n_total, "settings": without_paths(settings),
        "values": {
            side: {key: [[m.values[key] for m in models] for models in by_seed] for key in first.values}
            for side, by_seed in sides.items()
        },
        "verdict": judgement.verdict, "text": judgement.text.partition("  worst records:")[0].rstrip(), "facts": without_paths(judgement.facts), "difference": change.difference, "over": change.over,
        "bounds": None if change.interval is None else [change.interval.low, change.interval.high], **new_heads,
    }  # fmt: skip


def with_new_heads(run: Any, suite: str, statistic: str, settings: Mapping[str, Any], data: Path) -> dict[str, Any]:
    """Return the values with a new head on each frozen encoder, with or without a reduction, and the compression of gender."""
    from pytest_genderbias.mitigation.harness.retraining import compress, retrained_heads

    with retrained_heads(run) as heads:
        values = {
            side: [[m.values[statistic] for m in models] for models in heads.measure(side, suite, **settings)]
            for side in ("before", "after")
        }
    return {"values": values, "compression": compress(run, {"data": str(data)})}


def training_seconds(run: Any) -> float | None:
    """Return the mean wall time of the trainings of ``after`` in seconds; ``None`` if nothing was trained."""
    from pytest_genderbias.models.model import Model

    times = []
    for model in run.after:
        spec = model.spec if isinstance(model, Model) else model
        report = Path(spec) / "training.json"
        if report.is_file():
            log = json.loads(report.read_text())["log"]
            times += [entry["train_runtime"] for entry in log if "train_runtime" in entry]
    return round(statistics.fmean(times), 1) if times else None


def without_paths(value: Any) -> Any:
    """Return JSON values in which paths are reduced to their last part, so that results do not depend on the machine."""
    if isinstance(value, Mapping):
        return {str(key): without_paths(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_paths(member) for member in value]
    if isinstance(value, Path) or (isinstance(value, str) and value.startswith("/")):
        return Path(value).name
    return value


def results() -> list[dict[str, Any]]:
    """Return the stored results, sorted by the name of the row."""
    contents = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    return [result for result in contents if "gates" in result]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the results as a markdown table with one line per judged statistic."""
    lines = [
        "| method | suite | before | after | control | change (one-sided 95 % bounds) | accuracy before, after | seeds | seconds | verdict |",
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
    """Return the remaining effect of a mitigation during fine-tuning as a markdown table: means over seeds (standard deviation)."""
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
    """Return the table of the remaining effect of a projection during fine-tuning, or an empty text without a result."""
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
    main()
