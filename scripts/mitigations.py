"""Make the table of mitigations, row by row: train, measure, judge, and keep each result as a JSON file.

    python scripts/mitigations.py --data=DIR --runs=DIR [--glove=FILE] [--rows=NAME ...] [--seeds=N]   # what is there already is not made again
    python scripts/mitigations.py --write                                                             # the tables in README.md and docs

Results lie in ``docs/mitigations``, a file a row. ``--runs`` keeps the trained models, so that a row that was stopped goes on and rows share
their base runs. At the papers' scale: ``--scale=paper`` (GPUs, days).
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
RESULTS = HERE / "docs" / "mitigations"
STEPS = (0, 10, 30, 100, 300, 1000)  #: of a tuning, at which it is measured
BEGIN, END = "<!-- mitigations: made by scripts/mitigations.py -->", "<!-- end of mitigations -->"
CURVES_BEGIN, CURVES_END = "<!-- resilience: made by scripts/mitigations.py -->", "<!-- end of resilience -->"


@dataclass(frozen=True)
class Gate:
    """What is measured and judged: a suite, a statistic of it, and settings of ``measure``."""

    suite: str
    statistic: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    superficial: bool = False


@dataclass(frozen=True)
class Row:
    """One row: a model, a method and a recipe by their names and settings. ``budget`` is of the recipe's figures."""

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
    parser.add_argument(
        "--data", type=Path, help="the folder of the data sets (docs/data.md), with models/ beside them"
    )
    parser.add_argument("--runs", type=Path, help="keeps the trained models")
    parser.add_argument("--glove", help="a file of word vectors, for the static NLI model")
    parser.add_argument("--rows", nargs="+", help="names of rows, or the beginnings of names; all by default")
    parser.add_argument("--seeds", type=int, help="restarts of each row, in place of its own number")
    parser.add_argument("--scale", choices=("small", "paper"), default="small")
    parser.add_argument("--list", action="store_true", help="name the rows and end")
    parser.add_argument("--write", action="store_true", help="write the tables of what was made, and end")
    given = parser.parse_args()
    if given.write:
        write_tables()
        return
    from mitigation_rows import make_rows

    from pytest_genderbias.errors import BiasError
    from pytest_genderbias.folders import write_whole

    rows = make_rows(given.data, given.runs, given.glove, given.scale)
    chosen = [row for row in rows if not given.rows or any(row.name.startswith(name) for name in given.rows)]
    if given.list:
        print("\n".join(f"{row.name}: {row.title}" for row in chosen))
        return
    if given.data is None or given.runs is None:
        parser.error("--data=DIR and --runs=DIR are needed to make rows")
    jobs = [(row.name, partial(make_row, row, given)) for row in chosen]
    curves = {"watched-lstm": watch, "resilience-sts": tune_on} if given.scale == "small" else {}
    for name, make in curves.items():
        if not given.rows or any(name.startswith(start) for start in given.rows):
            jobs.append((name, partial(make, given)))
    for name, make in jobs:
        path = RESULTS / f"{name}.json"
        if path.exists():
            print(f"{name}: made already ({path.relative_to(HERE)}); remove it to make it again", flush=True)
            continue
        start = time.perf_counter()
        try:
            found = make()
        except BiasError as error:
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
            continue
        RESULTS.mkdir(parents=True, exist_ok=True)
        write_whole(path, (json.dumps(found, indent=1, sort_keys=True) + "\n").encode())
        told = "; ".join(f"{gate['statistic']} {gate['verdict']}" for gate in found.get("gates", ()))
        print(f"{name}: {told or 'made'} ({time.perf_counter() - start:.0f} s)", flush=True)


def make_row(row: Row, given: argparse.Namespace) -> dict[str, Any]:
    """Train what is not trained yet, measure every side, and judge."""
    from pytest_genderbias.measurement.carry_out import versions
    from pytest_genderbias.measurement.runner import Runner, RunSettings
    from pytest_genderbias.mitigation import make_method, make_recipe, mitigate

    methods = [make_method(**dict(one)) for one in row.method]
    method = methods[0]
    for other in methods[1:]:
        method = method & other
    recipe = None if row.recipe is None else make_recipe(**dict(row.recipe))
    runner = Runner(score=RunSettings(cache=given.runs / "scores"))
    seeds = given.seeds or row.seeds
    run = mitigate(row.model, method, recipe, seeds=seeds, controls=row.controls, folder=given.runs, runner=runner)
    performance = {}
    if recipe is not None:
        sides = {side: run.performance(side) for side in ("before", "after", "control")}
        performance = {
            name: {side: [[one[name].value for one in models] for models in found] for side, found in sides.items()}
            for name in sides["before"][0][0]
        }
    return {
        "row": row.name, "title": row.title, "model": row.model and Path(row.model).name, "what": without_paths(run.what), "by": row.by,
        "budget": dict(row.budget), "seeds": list(run.seeds), "trained": run.trained, "training_seconds": training_seconds(run),
        "gates": [judged(run, gate, row, given.data) for gate in row.gates], "performance": performance, "figure": next(iter(performance), None), "versions": versions(),
    }  # fmt: skip


def watch(given: argparse.Namespace) -> dict[str, Any]:
    """Return loss, perplexity and bias over the steps of the plain training of the language model (lu2018, figure 3)."""
    from mitigation_rows import bold_sentences

    from pytest_genderbias.measurement.carry_out import versions
    from pytest_genderbias.mitigation import BiasCallback, make_recipe
    from pytest_genderbias.mitigation.harness.callback import loss_association
    from pytest_genderbias.recipes.recipe import Training

    recipe = make_recipe("lstm", corpus=bold_sentences(given.data, given.runs), data=str(given.data))
    histories = []
    for seed in range(given.seeds or 3):
        start = recipe.start(None, seed)
        callback = BiasCallback(["lm-occupation"], every=80, model=start, evaluate=recipe.evaluate)
        recipe.train(start, recipe.rows(), seed, given.runs / f"watched-{seed}", Training(callbacks=[callback]))
        histories.append(callback.history)
    return {
        "row": "watched-lstm", "histories": histories, "associations": [loss_association(one) for one in histories], "versions": versions(),
        "what": without_paths({"recipe": {"recipe": recipe.name, **recipe.settings()}}),
    }  # fmt: skip


def tune_on(given: argparse.Namespace) -> dict[str, Any]:
    """Return what is left of a projection while the model is tuned on STS-B, and by what is frozen then (webster2020, figures 2 and 3)."""
    from mitigation_rows import GENDER_PROJECTION, SIMILARITY

    from pytest_genderbias.measurement.carry_out import versions
    from pytest_genderbias.mitigation import make_method, make_recipe, mitigate, resilience

    recipe = make_recipe(**SIMILARITY, data=str(given.data))
    model = f"{given.data}/models/bert-tiny-mlm"
    run = mitigate(model, make_method(**GENDER_PROJECTION), controls=1)
    curves = [
        resilience(run, "sts-occupation", recipe, steps=STEPS, seed=seed, folder=given.runs).to_dict()
        for seed in range(given.seeds or 3)
    ]
    return {
        "row": "resilience-sts", "model": Path(model).name, "curves": without_paths(curves), "what": without_paths(run.what),
        "versions": versions(),
    }  # fmt: skip


def judged(run: Any, gate: Gate, row: Row, data: Path) -> dict[str, Any]:
    """Return what a statistic was on each side, and the verdict."""
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
    again = {"new_heads": with_new_heads(run, gate.suite, name, settings, data)} if gate.superficial else {}
    return {
        "suite": gate.suite, "statistic": name, "n": first.n, "n_total": first.n_total, "settings": without_paths(settings),
        "values": {
            side: {key: [[m.values[key] for m in models] for models in found] for key in first.values}
            for side, found in sides.items()
        },
        "verdict": judgement.verdict, "text": judgement.text.partition("  worst records:")[0].rstrip(), "facts": without_paths(judgement.facts), "difference": change.difference, "over": change.over,
        "bounds": None if change.interval is None else [change.interval.low, change.interval.high], **again,
    }  # fmt: skip


def with_new_heads(run: Any, suite: str, statistic: str, settings: Mapping[str, Any], data: Path) -> dict[str, Any]:
    """Return what a new head on each frozen encoder gives, whether or not there was a reduction, and the compression of gender beside it."""
    from pytest_genderbias.mitigation.harness.retraining import compress, retrained_heads

    with retrained_heads(run) as heads:
        values = {
            side: [[m.values[statistic] for m in models] for models in heads.measure(side, suite, **settings)]
            for side in ("before", "after")
        }
    return {"values": values, "compression": compress(run, {"data": str(data)})}


def training_seconds(run: Any) -> float | None:
    """Return the mean wall time of the trainings of ``after``, in seconds; ``None`` where nothing was trained."""
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
    """Return JSON values with the last part of each path, so that results name no machine."""
    if isinstance(value, Mapping):
        return {str(key): without_paths(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_paths(one) for one in value]
    if isinstance(value, Path) or (isinstance(value, str) and value.startswith("/")):
        return Path(value).name
    return value


def results() -> list[dict[str, Any]]:
    """Return the results of rows that are there, by the name of the row."""
    found = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    return [one for one in found if "gates" in one]


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the results as a markdown table, a row a statistic that was judged."""
    lines = [
        "| method | suite | before | after | control | change (one-sided 95 % bounds) | accuracy before, after | seeds | seconds | verdict |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        for gate in one["gates"]:
            values = [summary(gate["values"][side][gate["statistic"]]) for side in ("before", "after", "control")]
            lines.append(
                f"| {one['title']} | `{gate['suite']}` {gate['statistic']} | {' | '.join(values)} | {change(gate)} | "
                f"{performance(one)} | {len(one['seeds'])} | {one['training_seconds'] or '-'} | {gate['verdict']} |"
            )
    return "\n".join(lines)


def summary(by_seed: Sequence[Sequence[float | None]]) -> str:
    """Return mean and, of several, standard deviation over all models of a side."""
    values = [value for models in by_seed for value in models if value is not None]
    if not values:
        return "-"
    spread = f" ({statistics.stdev(values):.3f})" if len(set(values)) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}"


def change(gate: Mapping[str, Any]) -> str:
    """Return the change of the distance from neutral, below 0 is better, with its bounds."""
    if gate["difference"] is None:
        return "-"
    bounds = "" if gate["bounds"] is None else f" ({gate['bounds'][0]:+.3f} to {gate['bounds'][1]:+.3f})"
    return f"{gate['difference']:+.3f}{bounds}"


def performance(one: Mapping[str, Any]) -> str:
    """Return the recipe's main figure before and after, and that of a trained control."""
    if not one["performance"]:
        return "-"
    name, sides = one["figure"], one["performance"][one["figure"]]
    return f"{name} {summary(sides['before'])}, {summary(sides['after'])}"


def curve_table(found: Mapping[str, Any], statistic: str, figure: str) -> str:
    """Return what is left of a mitigation along a tuning as a markdown table: means over the seeds, standard deviation in brackets."""
    curves, name = found["curves"], f"{found['curves'][0]['suite']}/{statistic}"
    first = curves[0]["by_frozen"]["before"]
    steps = sorted(curves[0]["by_step"]["before"], key=int)
    points = [("by_step", step, step, "encoder" if step == "0" else "nothing") for step in steps]
    points += [("by_frozen", one, str(first[one]["step"]), one) for one in first if one == "embeddings"]
    lines = [
        f"| steps | frozen | {statistic} before | after | {figure} before | after |",
        "|---|---|---|---|---|---|",
    ]
    for kind, key, step, frozen in points:
        entries = {side: [one[kind][side][key] for one in curves] for side in ("before", "after")}
        values = [summary([[entry["values"].get(name)] for entry in entries[side]]) for side in entries]
        values += [summary([[entry["performance"].get(figure)] for entry in entries[side]]) for side in entries]
        lines.append(f"| {step} | {frozen} | {' | '.join(values)} |")
    return "\n".join(lines)


def resilience_table() -> str:
    """Return the table of what is left of a projection while a model is tuned, if that was made."""
    path = RESULTS / "resilience-sts.json"
    return curve_table(json.loads(path.read_text()), "mean_absolute_difference", "pearson_r") if path.exists() else ""


def write_tables() -> None:
    """Put the tables between their marks in README.md and in the page of figures."""
    made = table(results())
    for path in (HERE / "README.md", HERE / "docs" / "mitigation-figures.md"):
        text = between(path.read_text(), BEGIN, END, made)
        path.write_text(between(text, CURVES_BEGIN, CURVES_END, resilience_table()))
        print(f"{path.relative_to(HERE)}: {made.count(chr(10)) - 1} rows")


def between(text: str, begin: str, end: str, made: str) -> str:
    """Return a page with something else between two marks, if it has them."""
    before, mark, rest = text.partition(begin)
    return f"{before}{begin}\n{made}\n{end}{rest.partition(end)[2]}" if mark else text


if __name__ == "__main__":
    main()
