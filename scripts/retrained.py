"""Trainings of one model that differ only in the seed, and what gates make of them: ``docs/evidence/retrained.md``.

    python scripts/retrained.py train CHECKPOINT TEXTS --runs DIR [--first 0] [--count 23]
    python scripts/retrained.py measure --runs DIR --data DATA
    python scripts/retrained.py judge --runs DIR [--restarts 3 5 10]
    python scripts/retrained.py plant --runs DIR
    python scripts/retrained.py choices --runs DIR [--draws 50]

``train`` tunes a small masked LM (CHECKPOINT) on the lines of TEXTS (a text, or a gzip of one): DIR/seed-0, DIR/seed-1, ... The seed
determines the order of the texts, the masked tokens and dropout. ``measure`` scores the six statistics of GATES on each restart, and keeps what they gave in DIR/seed-0.json, .... Both can
be interrupted and resumed. ``judge`` stores the first restarts as a baseline, plans the tolerances of the six gates from them, and judges each of the other
restarts with ``tolerance: auto``: as it is, and with every value worse by what the plan promised to find. ``choices`` does the first for random
choices of the restarts that make the baseline. ``plant`` makes models that are worse in truth: it
draws the vectors of "he" and "she" (and of PAIRS) apart, so far that the restarts of the baseline are worse by what the plan promised to find, and judges the others.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from pytest_genderbias.gates.tolerance import PlannedMargin

from pytest_genderbias.gates.baseline import Baseline
from pytest_genderbias.gates.book import entry_of
from pytest_genderbias.gates.book_update import write_entries, write_margins
from pytest_genderbias.gates.comparison import judge_no_worse
from pytest_genderbias.gates.verdicts import PASS, REGRESSED, UNCHANGED
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.restarts import combine_restarts, restarts_of
from pytest_genderbias.statistics.inference.packed_sums import SumsByStatistic
from pytest_genderbias.statistics.inference.resolution import SHARE, Resolution, RestartSimulation, resolve
from pytest_genderbias.statistics.inference.resolution import moved as moved_sums
from pytest_genderbias.statistics.inference.restarts import compare_with_restarts

#: The gates: suite and statistic.
GATES = (
    ("lm-occupation", "aggregate_bias"),
    ("lm-occupation", "signed_bias"),
    ("disco-terms", "significant_fills"),
    ("disco-names", "significant_fills"),
    ("pairs-pll", "stereotype_share"),
    ("pairs-pll", "mean_difference"),
)
STEPS, BATCH, LENGTH, RATE, MASKED = 100, 32, 64, 5e-4, 0.15


def train(checkpoint: str, texts: Path, runs: Path, first: int, count: int) -> None:
    """Train the restarts that are not there yet."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    rows = rows_of(texts, tokenizer)
    for seed in range(first, first + count):
        folder = runs / f"seed-{seed}"
        if not folder.exists():
            start = time.perf_counter()
            loss = tune(checkpoint, tokenizer, rows, seed, folder)
            print(f"seed {seed}: loss {loss:.3f}, {time.perf_counter() - start:.0f} s", flush=True)


def rows_of(texts: Path, tokenizer):
    """Return the tokens of the texts in rows of equal length, without those that are left over, shape (rows, tokens)."""
    import torch

    content = texts.read_bytes()
    lines = (gzip.decompress(content) if texts.suffix == ".gz" else content).decode().splitlines()
    ids = [token for line in lines for token in tokenizer(line, add_special_tokens=False)["input_ids"]]
    width = LENGTH - 2
    body = torch.tensor(ids[: len(ids) // width * width]).reshape(-1, width)
    edges = [torch.full((len(body), 1), token) for token in (tokenizer.cls_token_id, tokenizer.sep_token_id)]
    return torch.cat([edges[0], body, edges[1]], dim=1)


def tune(checkpoint: str, tokenizer, rows, seed: int, folder: Path) -> float:
    """Train one restart, save it, and return the mean loss of its last 20 steps."""
    import torch
    import transformers

    transformers.set_seed(seed)
    network = transformers.AutoModelForMaskedLM.from_pretrained(checkpoint)
    network.train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / STEPS)
    losses = []
    for step in range(STEPS):
        if step * BATCH % len(rows) < BATCH:
            order = torch.randperm(len(rows)).repeat(2)
        start = step * BATCH % len(rows)
        ids = rows[order[start : start + BATCH]].clone()
        hidden = torch.rand(ids.shape) < MASKED
        hidden &= (ids != tokenizer.cls_token_id) & (ids != tokenizer.sep_token_id) & (ids != tokenizer.pad_token_id)
        there = (ids != tokenizer.pad_token_id).long()
        wanted = ids[hidden]
        ids[hidden] = tokenizer.mask_token_id
        # Only masked tokens are predicted: all of them would take most of the time.
        vectors = network.base_model(input_ids=ids, attention_mask=there).last_hidden_state[hidden]
        loss = torch.nn.functional.cross_entropy(network.cls(vectors), wanted)
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    network.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    partial.rename(folder)
    return sum(losses[-20:]) / 20


def measure(runs: Path, data: Path) -> None:
    """Measure the restarts that were not measured yet."""
    from pytest_genderbias.measurement.runner import Runner, RunSettings

    runner = Runner(score=RunSettings(cache=None), data=data)
    for folder in sorted(runs.glob("seed-*[0-9]")):
        result = folder.with_name(f"{folder.name}.json")
        if result.exists():
            continue
        start = time.perf_counter()
        suites = dict.fromkeys(suite for suite, _ in GATES)
        measured = {suite: runner.measure(suite, f"candidate={folder}").to_dict(records=0) for suite in suites}
        result.with_suffix(".part").write_text(json.dumps(measured))
        result.with_suffix(".part").rename(result)
        print(f"{folder.name}: {time.perf_counter() - start:.0f} s", flush=True)


Measured = dict[str, Measurement]  #: by suite


def load(runs: Path) -> list[Measured]:
    """Return what was measured of each restart, by seed."""
    files = sorted(runs.glob("seed-*.json"), key=lambda path: int(path.stem.partition("-")[2]))
    return [
        {suite: Measurement.from_dict(content) for suite, content in json.loads(file.read_text()).items()}
        for file in files
    ]


def plan_of(then: Measured, tests: int = len(GATES)) -> dict[tuple[str, str], Resolution]:
    """Return what each gate resolves, by the restarts of the baseline: the values are all that the prediction bound knows."""
    return {(suite, name): resolve(simulation_of(then[suite], name, tests), tests) for suite, name in GATES}


def simulation_of(then: Measurement, statistic: str, tests: int) -> RestartSimulation:
    """Return the trainings that the plan simulates for a gate."""
    return RestartSimulation(restarts_of(then.items, statistic), then.statistics[statistic].distance, tests)


def judge(runs: Path, counts: list[int]) -> None:
    """Print what the gates make of the restarts that are no part of the baseline, or of the plan."""
    restarts = load(runs)
    without_plan(restarts)
    for k in counts:
        then = {suite: combine_restarts([one[suite] for one in restarts[:k]], range(k)) for suite, _ in GATES}
        plan, pairs = plan_of(then), len(restarts) - k
        for alone in (False, True):
            befores = [restarts[i % k] if alone else then for i in range(pairs)]
            both = list(zip(befores, restarts[k:], strict=True))
            equal = [verdicts(before, plan, now) for before, now in both]
            planted = [verdicts(before, plan, now, worse=True) for before, now in both]
            what = "one of" if alone else "the"
            print(
                f"\n### {what.capitalize()} {k} restarts as the baseline, the plan from all {k}, {pairs} others judged one by one\n"
            )
            report(then, plan, equal, planted)


def without_plan(restarts: list[Measured], pairs: int = 20) -> None:
    """Print what gates without a margin make of two trainings: one checkpoint against another, item by item, tolerance 0."""
    counts = {gate: Counter() for gate in GATES}
    green = 0
    for i in range(pairs):
        found = {}
        for suite, name in GATES:
            found[suite, name] = judge_no_worse(restarts[i + 3][suite], restarts[i % 3][suite], 0.0, name).verdict
            counts[suite, name][found[suite, name]] += 1
        green += all(map(is_green, found.values()))
    print("\n### One checkpoint against another, tolerance 0\n\n| gate | verdicts |\n|---|---|")
    for (suite, name), verdicts_of in counts.items():
        print(f"| `{suite}` `{name}` | {', '.join(f'{n} {verdict}' for verdict, n in verdicts_of.most_common())} |")
    print(f"| all six green | {green} of {pairs} |", flush=True)


def report(then: Measured, plan: dict[tuple[str, str], Resolution], equal: list, planted: list) -> None:
    """Print a table of verdicts, of equal models and of those that are worse."""
    pairs = len(equal)
    print("| gate | restarts: mean, s | tolerance | green | worsening that is found | called `regressed` | fails |")
    print("|---|---|---|---|---|---|---|")
    for gate in GATES:
        values = restarts_of(then[gate[0]].items, gate[1])
        green, caught, fails = (
            sum(test(found[gate]) for found in judged)
            for test, judged in ((is_green, equal), (is_regressed, planted), (is_not_green, planted))
        )
        resolution = plan[gate]
        print(
            f"| `{gate[0]}` `{gate[1]}` | {values.mean():.4f}, {values.std(ddof=1):.4f} | {resolution.tolerance:.3g} | {green} of {pairs} | "
            f"{resolution.worsening_together:.3g} | {caught} of {pairs} | {fails} of {pairs} |"
        )
    all_green = sum(all(map(is_green, found.values())) for found in equal)
    all_caught = sum(any(map(is_regressed, found.values())) for found in planted)
    print(f"| all six | | | {all_green} of {pairs} | | any of them: {all_caught} of {pairs} | |", flush=True)


def verdicts(
    then: Measured, plan: dict[tuple[str, str], Resolution], now: Measured, worse: bool = False
) -> dict[tuple[str, str], str]:
    """Return the verdict of each gate, by a baseline in a folder of its own.

    Args:
        then: the restarts of the baseline.
        plan: the margins of the gates.
        now: one checkpoint.
        worse: whether each of its values is moved by the worsening that the plan promised to find.
    """
    margins: dict[str, dict[str, PlannedMargin]] = {}
    for (suite, name), resolution in plan.items():
        margins.setdefault(suite, {})[name] = PlannedMargin(resolution.tolerance)
    with tempfile.TemporaryDirectory() as folder:
        entries = {suite: entry_of(then[suite], gated=dict.fromkeys(names, 0.0)) for suite, names in margins.items()}
        write_entries(Path(folder), "candidate", "gates.bias.yaml", entries)
        write_margins(Path(folder), "candidate", "gates.bias.yaml", margins)
        found = {}
        for suite, name in GATES:
            judged = moved(now[suite], then[suite], name, plan[suite, name].worsening_together) if worse else now[suite]
            baseline = Baseline(Path(folder), "candidate", "gates.bias.yaml")
            found[suite, name] = baseline.judge(replace(judged, model="candidate"), "auto", name).verdict
    return found


def moved(now: Measurement, then: Measurement, statistic: str, worsening: float) -> Measurement:
    """Return a measurement whose value is worse by so much, on the side of neutral on which the baseline lies."""
    about, before = then.statistics[statistic], then.values[statistic]
    side = 1.0 if about.distance(before + 1e-6) >= about.distance(before - 1e-6) else -1.0
    values = {**now.values, statistic: now.values[statistic] + side * worsening}
    sums = moved_sums(now.item_sums(statistic), side * worsening)
    return replace(now, values=values, sums=SumsByStatistic({**now.sums.entries(), statistic: sums}))


def is_green(verdict: str) -> bool:
    """Whether a run passes."""
    return verdict in (PASS, UNCHANGED)


def is_not_green(verdict: str) -> bool:
    """Whether a run fails, or asks for a new baseline."""
    return not is_green(verdict)


def is_regressed(verdict: str) -> bool:
    """Whether a worsening was found."""
    return verdict == REGRESSED


#: The gates that ``plant`` worsens, and the words whose vectors it draws apart.
PLANTED = (("lm-occupation", "aggregate_bias"),)
PAIRS = (("he", "she"), ("his", "her"), ("man", "woman"))


def plant(runs: Path, k: int) -> None:
    """Print how often a worsening that was planted in the weights is found."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    restarts = load(runs)
    then = {suite: combine_restarts([one[suite] for one in restarts[:k]], range(k)) for suite, _ in GATES}
    print("| gate | worsening that is found | vectors times | planted: worse by | `regressed` | fails |")
    print("|---|---|---|---|---|---|")
    for gate in PLANTED:
        suite, name = gate
        plan = plan_of(then)
        wanted, distance = plan[gate].worsening_together, then[suite].statistics[name].distance

        def worse_by(
            seed: int, factor: float, gate: tuple[str, str] = gate, distance=distance
        ) -> tuple[Measurement, float]:
            now = drawn_apart(runs / f"seed-{seed}", factor, gate[0])
            return now, distance(now.values[gate[1]]) - distance(restarts[seed][gate[0]].values[gate[1]])

        low, high = 1.0, 4.0
        for _ in range(7):
            middle = (low + high) / 2
            enough = np.mean([worse_by(seed, middle)[1] for seed in range(k)]) >= wanted
            low, high = (low, middle) if enough else (middle, high)
        planted = [worse_by(seed, high) for seed in range(k, len(restarts))]
        found = [verdicts(then, plan, {**restarts[k + i], suite: now})[gate] for i, (now, _) in enumerate(planted)]
        sizes = [size for _, size in planted]
        print(
            f"| `{suite}` `{name}` | {wanted:.3g} | {high:.2f} | {min(sizes):.2f} to {max(sizes):.2f}, median {np.median(sizes):.2f} | "
            f"{sum(map(is_regressed, found))} of {len(found)} | {sum(map(is_not_green, found))} of {len(found)} |",
            flush=True,
        )


def drawn_apart(folder: Path, factor: float, suite: str) -> Measurement:
    """Measure a suite on a checkpoint, with the vectors of each pair of words so many times as far apart."""
    import torch
    import transformers

    from pytest_genderbias import measure as measure_object

    network = transformers.AutoModelForMaskedLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    vectors = network.get_input_embeddings().weight
    with torch.no_grad():
        for pair in PAIRS:
            one, other = tokenizer.convert_tokens_to_ids(list(pair))
            middle, apart = (vectors[one] + vectors[other]) / 2, (vectors[one] - vectors[other]) / 2
            vectors[one], vectors[other] = middle + factor * apart, middle - factor * apart
    return measure_object(suite, network, tokenizer=tokenizer, cache=None)


def choices(runs: Path, counts: list[int], draws: int) -> None:
    """Print how often one more checkpoint is green at all gates, over random choices of the restarts that make the baseline."""
    restarts, rng = load(runs), np.random.default_rng(0)
    print(
        "| restarts in the baseline | choices | all six gates green | choices with 90 % green or more | each gate green |"
    )
    print("|---|---|---|---|---|")
    for k in counts:
        shares, by_gate = [], []
        for _ in range(draws):
            order = rng.permutation(len(restarts))
            then = {suite: combine_restarts([restarts[i][suite] for i in order[:k]], range(k)) for suite, _ in GATES}
            green = np.array(
                [green_of(then[suite], name, [restarts[i][suite] for i in order[k:]]) for suite, name in GATES]
            )
            shares.append(green.all(axis=0).mean())
            by_gate.append(green.mean())
        often = np.mean(np.array(shares) >= 0.9)
        print(f"| {k} | {draws} | {np.mean(shares):.1%} | {often:.0%} | {np.mean(by_gate):.1%} |", flush=True)


def green_of(then: Measurement, statistic: str, others: list[Measurement]) -> list[bool]:
    """Return which checkpoints are green at the tolerance that is planned for one of six gates."""
    tests, distance = len(GATES), then.statistics[statistic].distance
    tolerance = simulation_of(then, statistic, tests).bounds(0.0).tolerance(1 - (1 - SHARE) / tests)
    before = restarts_of(then.items, statistic)
    return [
        compare_with_restarts(before, [now.values[statistic]], distance, tolerance).high <= tolerance for now in others
    ]


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    of_train = commands.add_parser("train")
    of_train.add_argument("checkpoint")
    of_train.add_argument("texts", type=Path)
    of_train.add_argument("--runs", type=Path, required=True)
    of_train.add_argument("--first", type=int, default=0)
    of_train.add_argument("--count", type=int, default=23)
    of_measure = commands.add_parser("measure")
    of_measure.add_argument("--runs", type=Path, required=True)
    of_measure.add_argument("--data", type=Path, required=True)
    of_plant = commands.add_parser("plant")
    of_plant.add_argument("--runs", type=Path, required=True)
    of_plant.add_argument("--restarts", type=int, default=3)
    for name in ("judge", "choices"):
        of_gates = commands.add_parser(name)
        of_gates.add_argument("--runs", type=Path, required=True)
        of_gates.add_argument("--restarts", type=int, nargs="+", default=[3, 5, 10])
        of_gates.add_argument("--draws", type=int, default=50, help="of choices")
    options = parser.parse_args()
    if options.command == "plant":
        return plant(options.runs, options.restarts)
    if options.command == "judge":
        return judge(options.runs, options.restarts)
    if options.command == "choices":
        return choices(options.runs, options.restarts, options.draws)
    if options.command == "measure":
        return measure(options.runs, options.data)
    train(options.checkpoint, options.texts, options.runs, options.first, options.count)


if __name__ == "__main__":
    main()
