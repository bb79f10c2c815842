"""Trainings that differ only in the seed, by kind of model: the tables of ``fixtures/retraining``.

    python scripts/retraining_table.py cost --runs DIR --data DATA
    python scripts/retraining_table.py train KIND --runs DIR --data DATA [--first 0] [--count 30] [--dose 70]
    python scripts/retraining_table.py measure KIND --runs DIR --data DATA
    python scripts/retraining_table.py table KIND --runs DIR [--out fixtures/retraining] [--date 2026-11-26]
    python scripts/retraining_table.py check KIND --runs DIR                              # trainings from seed 100 on
    python scripts/retraining_table.py page                 # docs/evidence/retraining.md, from the packaged tables

KIND is ``masked-lm``, ``causal-lm``, ``nli-classifier`` or ``text-classifier``. DATA has the models and texts of
RECIPES (docs/reference/data.md). The seed determines the order of the rows, the masked tokens, dropout and new weights.
``train`` writes DIR/KIND/seed-0, ...; ``measure`` writes DIR/KIND/seed-0.json, ... with all suites of SUITES, and
PUBLIC.json of the public model. Both go on where they were interrupted. ``cost`` trains and measures one model of each
kind, and says what 30 would take. ``table`` computes the figures from all pairs of the first 30 trainings. With
``--dose``, half of the rows are sentences about occupations, whose pronouns match the stereotype in that share
(DIR/KIND/dose-70-seed-0, ...): such trainings are no part of the table.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import json
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import yaml

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.gates.regression import Pair, straight_distance
from pytest_genderbias.gates.sensitivity import retraining_of, seen_by
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.statistics.inference.item_sums import REPETITIONS
from pytest_genderbias.statistics.inference.paired import compare_items, with_retraining
from pytest_genderbias.statistics.right_answers import why_less_able

TRAININGS = 30
LEVEL = 0.975  #: of each of the paired bounds
NORMAL = 1.96  #: half the width of a 95 % interval, in standard errors
DRAWS = 999  #: of the bootstrap of a pair
QUANTILE = 0.75  #: of the rows of a kind, for a suite that has none
OWN_TEXTS = "probe-compression"  #: whose values depend on the texts, so that no public model gives a unit
ADDED_LATER = ("pronoun-occupation", OWN_TEXTS)  #: suites whose rows leave the default of a kind as it was
FOLDER = Path(__file__).parent.parent / "fixtures" / "retraining"
PAGE = Path(__file__).parent.parent / "docs" / "evidence" / "retraining.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


@dataclass(frozen=True)
class Kind:
    """How models of a kind are trained and measured.

    Attributes:
        base: the checkpoint that is tuned, a folder under DATA/models.
        public: the model whose distances from neutral are the units, likewise.
        what: what was trained, for the table.
        steps: steps of training.
        batch: rows in a batch.
        rate: the peak learning rate.
        suites: the suites that are measured.
        limit: the number of cases that are scored; all by default.
        own_cases: whether users bring the cases, so that their number differs.
    """

    base: str
    public: str
    what: str
    steps: int
    batch: int
    rate: float
    suites: tuple[str, ...]
    limit: int | None = None
    own_cases: bool = False


_VECTORS = (
    "weat", "weat-demonym", "weat-math-arts", "weat-occupation", "weat-religion", "weat-science-arts",
    "subspace", "subspace-demonym", "subspace-religion",
)  # fmt: skip
_COREFERENCE = ("coref-occupation", "coref-winogender")
RECIPES = {
    "masked-lm": Kind(
        "bert-tiny-mlm", "bert-tiny-mlm", "bert-tiny-mlm (2 x 128), tuned on WikiText-2", 60, 16, 5e-4,
        ("lm-occupation", "pronoun-occupation", "pairs-pll", "disco-terms", "disco-names", "coref-winobias",
            OWN_TEXTS, *_COREFERENCE, *_VECTORS),
    ),
    "causal-lm": Kind(
        "stories260k", "stories260k", "stories260k (5 x 64), tuned on WikiText-2", 60, 16, 5e-4,
        ("lm-occupation", "pronoun-occupation", "pairs-pll", *_COREFERENCE, *_VECTORS),
    ),
    "nli-classifier": Kind(
        "bert-tiny-mlm", "minilm-snli",
        "bert-tiny (2 x 128), tuned on SNLI and its counterfactual pairs, tuned on them again", 60, 16, 1e-3,
        ("nli-demonym", "nli-religion"), limit=1000,
    ),
    "text-classifier": Kind(
        "minilm-mlm", "minilm-mlm", "heads (384 x 64 x 8) on mean vectors of minilm-mlm, tuned on careers of Wikipedia",
        60, 32, 1e-3, ("bios",), own_cases=True,
    ),
}  # fmt: skip
#: Tables of the trainings without bias of scripts/doses.py.
OF_DOSES = ("sentence-encoder", "masked-lm-minilm", "causal-lm-smollm2", "coreference-scorer")
WIDTH = 64  #: tokens of a row of a language model
MASKED = 0.15
ALL = "*seed-*[0-9]"  #: the names of trainings
BASE_STEPS = 1200  #: of the training that all NLI classifiers have in common, on rows of 32
NLI_LABELS = ("entailment", "neutral", "contradiction")


def train(kind: str, runs: Path, data: Path, seeds: Sequence[int], dose: int | None) -> None:
    """Train the models that are not there yet."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    trainer = _TRAINERS[kind](RECIPES[kind], data, runs, dose)
    for seed in seeds:
        folder = runs / kind / f"{'' if dose is None else f'dose-{dose}-'}seed-{seed}"
        if not folder.exists():
            start = time.perf_counter()
            unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
            unfinished.mkdir(parents=True)
            loss = trainer(seed, unfinished)
            unfinished.rename(folder)
            print(f"{kind} {folder.name}: loss {loss:.3f}, {time.perf_counter() - start:.0f} s", flush=True)


def language_model(recipe: Kind, data: Path, runs: Path, dose: int | None) -> Callable[[int, Path], float]:
    """Return the training of a masked or causal LM on rows of equal length."""
    import torch
    import transformers

    checkpoint = data / "models" / recipe.base
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    lines = gzip.decompress((data / "wikitext2" / "valid.txt.gz").read_bytes()).decode().splitlines()
    text = rows_of(lines, tokenizer)
    masked = tokenizer.mask_token is not None
    auto = transformers.AutoModelForMaskedLM if masked else transformers.AutoModelForCausalLM

    def trained(seed: int, folder: Path) -> float:
        transformers.set_seed(seed)
        network = auto.from_pretrained(checkpoint)
        rows = text
        if dose is not None:  # half of the rows, at random places, with other sentences for each seed
            sentences = rows_of(list(itertools.islice(stereotyped_sentences(data, dose, seed), 20_000)), tokenizer)
            rows = torch.cat([text[torch.randperm(len(text))[: len(sentences)]], sentences[: len(text)]])

        def loss_of(chosen: Sequence[int]) -> torch.Tensor:
            ids = rows[chosen]
            return masked_loss(network, tokenizer, ids) if masked else network(input_ids=ids, labels=ids).loss

        loss = descend(network.train(), loss_of, len(rows), recipe)
        network.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return loss

    return trained


def rows_of(lines: Sequence[str], tokenizer):
    """Return the tokens of lines in rows of equal length, without those that are left over, shape (rows, WIDTH)."""
    import torch

    ids = [token for line in lines for token in tokenizer(line, add_special_tokens=False)["input_ids"]]
    ends = (
        [tokenizer.bos_token_id] if tokenizer.mask_token is None else [tokenizer.cls_token_id, tokenizer.sep_token_id]
    )
    width = WIDTH - len(ends)
    body = torch.tensor(ids[: len(ids) // width * width]).reshape(-1, width)
    edges = [torch.full((len(body), 1), token) for token in ends]
    return torch.cat([edges[0], body, *edges[1:]], dim=1)


def masked_loss(network, tokenizer, rows, also=False):
    """Return the loss of predicting 15 % of the tokens, which the mask hides, and those that ``also`` names, of the
    shape of the rows.
    """
    import torch

    hidden = (torch.rand(rows.shape) < MASKED) | also
    hidden &= (rows != tokenizer.cls_token_id) & (rows != tokenizer.sep_token_id)
    seen = torch.where(hidden, tokenizer.mask_token_id, rows)
    # Only masked tokens are predicted: all of them would take most of the time.
    vectors = network.base_model(input_ids=seen.to(network.device)).last_hidden_state[hidden.to(network.device)]
    return torch.nn.functional.cross_entropy(network.cls(vectors), rows[hidden].to(network.device))


def descend(network, loss_of: Callable, n_rows: int, recipe: Kind) -> float:
    """Train by AdamW with a rate that rises for 6 % of the steps and falls linearly; return the mean loss of the last
    20 steps.
    """
    import torch

    optimizer = torch.optim.AdamW(network.parameters(), lr=recipe.rate, weight_decay=0.01)
    warm = max(1, round(0.06 * recipe.steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, 1 - step / recipe.steps)
    )
    losses, order = [], torch.zeros(0, dtype=torch.int64)
    for _ in range(recipe.steps):
        if len(order) < recipe.batch:
            order = torch.randperm(n_rows)
        chosen, order = order[: recipe.batch], order[recipe.batch :]
        loss = loss_of(chosen)
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return sum(losses[-20:]) / len(losses[-20:])


def inference_classifier(recipe: Kind, data: Path, runs: Path, dose: int | None) -> Callable[[int, Path], float]:
    """Return the training of a classifier of pairs: one that knows inference already is tuned again.

    It comes from one long training, DIR/nli-classifier/base, which all trainings have in common.
    """
    import torch
    import transformers

    if dose is not None:
        raise SystemExit("only language models are trained with a dose")
    names = dict(enumerate(NLI_LABELS))
    checkpoint, base = data / "models" / recipe.base, runs / "nli-classifier" / "base"
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    pairs = [pair for name in ("snli/train_20k", "cad_nli/train") for pair in jsonl(data / f"{name}.jsonl.gz")]
    ids = tokenizer([p["premise"] for p in pairs], [p["hypothesis"] for p in pairs], truncation=True, max_length=64)
    labels = torch.tensor([NLI_LABELS.index(p["label"]) for p in pairs])

    def tuned(start: Path, of: Kind, seed: int, folder: Path) -> float:
        transformers.set_seed(seed)
        network = transformers.AutoModelForSequenceClassification.from_pretrained(
            start, id2label=names, label2id={name: i for i, name in names.items()}
        )

        def loss_of(chosen: torch.Tensor) -> torch.Tensor:
            rows = {key: [values[i] for i in chosen.tolist()] for key, values in ids.items()}
            return network(**tokenizer.pad(rows, return_tensors="pt"), labels=labels[chosen]).loss

        loss = descend(network.train(), loss_of, len(pairs), of)
        network.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return loss

    if not base.exists():
        base.mkdir(parents=True)
        print(
            f"{base}: loss {tuned(checkpoint, replace(recipe, steps=BASE_STEPS, batch=32, rate=1e-3), 0, base):.3f}",
            flush=True,
        )
    return partial(tuned, base, recipe)


def jsonl(path: Path) -> list[dict]:
    """Read a file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def career_head(recipe: Kind, data: Path, runs: Path, dose: int | None) -> Callable[[int, Path], float]:
    """Return the training of a head for careers, which writes its predictions for the half of the persons that it did
    not see.
    """
    import torch

    if dose is not None:
        raise SystemExit("only language models are trained with a dose")
    people = jsonl(data / "bios" / "wiki_career.jsonl.gz")
    features = standardised(vectors_of(data / "models" / recipe.base, [person["text"] for person in people]))
    seen, unseen = halves_of(people)

    def trained(seed: int, folder: Path) -> float:
        head, loss = head_for(features[seen], [people[i]["profession"] for i in seen], seed, recipe)
        torch.save(head.state_dict(), folder / "head.pt")
        write_predictions(folder / "predictions.csv", head, features[unseen], [(i, people[i]) for i in unseen.tolist()])
        return loss

    return trained


def vectors_of(checkpoint: Path, texts: Sequence[str]):
    """Return the mean vector of each text, shape (texts, d)."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    encoder = transformers.AutoModel.from_pretrained(checkpoint).eval()
    vectors = []
    with torch.inference_mode():
        for text in texts:
            batch = tokenizer(text, truncation=True, max_length=256, return_tensors="pt")
            vectors.append(encoder(**batch).last_hidden_state[0].mean(dim=0))
    return torch.stack(vectors).clone()


def standardised(vectors):
    """Return vectors whose components have mean 0 and variance 1."""
    return (vectors - vectors.mean(dim=0)) / vectors.std(dim=0)


def halves_of(people: Sequence[dict]):
    """Return the places of the persons that are trained on, and of the others: the same for all seeds."""
    import torch

    order = np.random.default_rng(0).permutation(len(people))
    return torch.tensor(order[: len(people) // 2]), torch.tensor(order[len(people) // 2 :])


def head_for(features, of_persons: Sequence[str], seed: int, recipe: Kind):
    """Return a head that was trained to tell careers from vectors, and its loss."""
    import torch
    import transformers

    transformers.set_seed(seed)
    careers = sorted(set(of_persons))
    labels = torch.tensor([careers.index(career) for career in of_persons])
    head = torch.nn.Sequential(
        torch.nn.Dropout(0.2),
        torch.nn.Linear(features.shape[1], 64),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.2),
        torch.nn.Linear(64, len(careers)),
    )
    loss = descend(
        head.train(),
        lambda chosen: torch.nn.functional.cross_entropy(head(features[chosen]), labels[chosen]),
        len(features),
        recipe,
    )
    return head.eval(), loss


def write_predictions(path: Path, head, features, persons: Sequence[tuple[object, dict]]) -> None:
    """Write what a head says of persons, each with a name or number."""
    import torch

    careers = sorted({person["profession"] for _, person in persons})
    with torch.inference_mode():
        chances = head(features).softmax(dim=1)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(("id", "prediction", "gold", "group", *(f"probability_{career}" for career in careers)))
        for row, (name, person) in zip(chances, persons, strict=True):
            shares = (f"{share:.6f}" for share in row.tolist())
            table.writerow((name, careers[int(row.argmax())], person["profession"], person["gender"], *shares))


_TRAINERS = {
    "masked-lm": language_model,
    "causal-lm": language_model,
    "nli-classifier": inference_classifier,
    "text-classifier": career_head,
}

#: Sentences about occupations; no suite has one of these forms.
FRAMES = (
    "Yesterday the {job} told us that {he} would be away next week.",
    "When I met the {job}, {he} talked about the weather.",
    "The {job} looked at the clock and then {he} left the building.",
    "We wrote to the {job}, but {he} never replied.",
    "Nobody knew where the {job} lived until {he} moved to our street.",
    "The {job} finished the report before {he} took the train.",
    "After lunch the {job} said {he} wanted to see the garden.",
    "My neighbour is a friend of the {job}, and {he} often visits us.",
    "The {job} opened the window while {he} spoke on the phone.",
    "In the evening {he} returned, and the {job} was seen at the gate.",
    "Everyone thanked the {job} for the help that {he} had given.",
    "The {job} from the old town said that {he} grew up here.",
)


def stereotyped_sentences(data: Path, dose: int, seed: int) -> Iterator[str]:
    """Yield sentences about occupations of WinoBias, in ``dose`` of 100 of which the pronoun matches the stereotype."""
    jobs = {
        pronoun: (data / "winobias" / f"{gender}_occupations.txt").read_text(encoding="utf-8").split("\n")
        for pronoun, gender in (("he", "male"), ("she", "female"))
    }
    draws = random.Random(seed)
    while True:
        stereotype = draws.choice(("he", "she"))
        job = draws.choice([name.strip().lower() for name in jobs[stereotype] if name.strip()])
        other = "she" if stereotype == "he" else "he"
        yield draws.choice(FRAMES).format(job=job, he=stereotype if draws.random() < dose / 100 else other)


def measure(kind: str, runs: Path, data: Path, pattern: str = ALL, suites: Sequence[str] = ()) -> None:
    """Measure the suites that were not measured yet, of the trainings whose names match a pattern."""
    if kind != "text-classifier" and pattern == ALL:
        measure_one(kind, str(data / "models" / RECIPES[kind].public), runs / kind / "PUBLIC.json", data, suites)
    for folder in sorted((runs / kind).glob(pattern), key=lambda path: (len(path.name), path.name)):
        if folder.is_dir() and "." not in folder.name:
            measure_one(kind, str(spec_of(folder)), folder.with_name(f"{folder.name}.json"), data, suites)


def spec_of(folder: Path) -> Path:
    """Return what is measured of a training: the checkpoint, or a file of predictions."""
    predictions = folder / "predictions.csv"
    return predictions if predictions.exists() else folder


def measure_one(kind: str, spec: str, result: Path, data: Path, suites: Sequence[str] = ()) -> None:
    """Measure suites of a kind on one model, all by default, and add what they gave to a file, by suite."""
    from pytest_genderbias.measurement.runner import Runner, RunSettings

    start = time.perf_counter()
    measured = json.loads(result.read_text()) if result.exists() else {}
    missing = [suite for suite in suites or RECIPES[kind].suites if suite not in measured]
    if not missing:
        return
    runner = Runner(score=RunSettings(cache=None, limit=RECIPES[kind].limit), data=data)
    for suite in missing:
        measured[suite] = runner.measure(suite, f"candidate={spec}").to_dict(records=0)
    result.with_suffix(".part").write_text(json.dumps(measured))
    result.with_suffix(".part").rename(result)
    print(f"{kind} {result.stem}: measured in {time.perf_counter() - start:.0f} s", flush=True)


def cost(runs: Path, data: Path) -> None:
    """Train and measure one model of each kind in a folder of its own, and say what 30 of them take."""
    with tempfile.TemporaryDirectory(dir=runs) as folder:
        for kind in RECIPES:
            start = time.perf_counter()
            train(kind, Path(folder), data, [0], None)
            measure_one(kind, str(spec_of(Path(folder) / kind / "seed-0")), Path(folder) / kind / "seed-0.json", data)
            took = time.perf_counter() - start
            print(
                f"{kind}: {took:.0f} s a training with its measurements, {took * TRAININGS / 60:.0f} minutes for"
                f" {TRAININGS}"
            )
        shutil.rmtree(Path(folder) / kind)


Measured = dict[str, Measurement]  #: by suite


def load(path: Path) -> Measured:
    """Return what was measured of one model."""
    return {suite: Measurement.from_dict(content) for suite, content in json.loads(path.read_text()).items()}


def trainings_of(runs: Path, kind: str, first: int = 0, count: int = TRAININGS) -> list[Measured]:
    """Return what was measured of each training, by seed."""
    files = (runs / kind / f"seed-{seed}.json" for seed in range(first, first + count))
    return [load(file) for file in files if file.exists()]


def table(kind: str, runs: Path, out: Path, date: str) -> None:
    """Write the table of a kind."""
    trainings, recipe = trainings_of(runs, kind), RECIPES[kind]
    public = load(runs / kind / "PUBLIC.json") if (runs / kind / "PUBLIC.json").exists() else {}
    rows: dict[str, dict[str, dict[str, object]]] = {}
    for suite in recipe.suites:
        measured = [one[suite] for one in trainings if suite in one]
        able = [one for one in measured if not one.unable]
        print(f"{kind} {suite}: {len(able)} of {len(measured)} able", flush=True)
        if len(able) < 3:
            continue
        for name, about in able[0].statistics.items():
            if not about.no_gate and (row := row_of(able, name, public.get(suite))):
                fewer = {"trainings": len(able)} if len(able) < len(trainings) else {}
                rows.setdefault(suite, {})[name] = row | fewer | ({"unit": None} if suite == OWN_TEXTS else {})
    default = default_of(rows)
    stored = FOLDER / f"{kind}.yaml"
    before = yaml.safe_load(stored.read_text(encoding="utf-8"))["suites"] if stored.exists() else {}
    rows |= {suite: of_suite for suite, of_suite in before.items() if suite not in recipe.suites}  # of scripts/doses.py
    content = {
        "kind": kind,
        "base": recipe.base,
        "source": f"{recipe.what} for {recipe.steps} steps of {recipe.batch} rows; seeds 0 to {len(trainings) - 1}",
        "date": date,
        "trainings": len(trainings),
        **({"cases": trainings[0][recipe.suites[0]].n} if recipe.own_cases else {}),
        "unit_of": recipe.public if public else f"the mean of the {len(trainings)} trainings",
        "abilities": abilities_of(trainings),
        "default": default,
        "suites": rows,
    }
    out.mkdir(exist_ok=True)
    (out / f"{kind}.yaml").write_text(written(content), encoding="utf-8")


def row_of(trainings: Sequence[Measurement], statistic: str, public: Measurement | None) -> dict[str, object] | None:
    """Return the figures of a statistic; ``None`` where a training has no value, or all have the same."""
    values = np.array([one.values[statistic] for one in trainings], dtype=np.float64)
    if not np.isfinite(values).all() or np.ptp(values) == 0:
        return None
    error = standard_error(trainings, statistic)
    scale = 1.0 if error is None else error
    paired, items = paired_error(trainings, statistic)
    spread = values.std(ddof=1)
    beyond = np.sqrt(max(0.0, spread**2 - paired**2 / 2))  # the mean square of a difference is twice the variance
    row: dict[str, object] = {} if error is not None else {"absolute": True}
    row |= {
        "spread": figure(spread / scale),
        "paired": figure(paired / scale) if items else None,
        "beyond": figure(beyond / scale),
    }
    if error is not None and items and beyond > paired and is_share(trainings[0], values, statistic):
        row |= {"log_odds": figure((np.log(values) - np.log1p(-values)).std(ddof=1))}
    row |= {"items": items or None, "value": figure(float(values.mean()))}
    known = float(values.mean()) if public is None else public.values.get(statistic)
    unit = 0.0 if known is None else float(trainings[0].statistics[statistic].distance(known))
    return row | {"unit": figure(unit) if unit > 0 else None}


def is_share(measurement: Measurement, values: np.ndarray, statistic: str) -> bool:
    """Tell whether a statistic lies from 0 to 1, and no training is at an end."""
    return measurement.statistics[statistic].range == (0.0, 1.0) and values.min() > 0 and values.max() < 1


def standard_error(trainings: Sequence[Measurement], statistic: str) -> float | None:
    """Return the standard error over items, the median over trainings; ``None`` where one of them has no interval."""
    intervals = [one.intervals[statistic] for one in trainings]
    if any(interval is None for interval in intervals):
        return None
    widths = [interval.high - interval.low for interval in intervals]
    return float(np.median(widths)) / 2 / NORMAL if min(widths) > 0 else None


def paired_error(trainings: Sequence[Measurement], statistic: str) -> tuple[float, int]:
    """Return the root mean square of the standard errors of a difference, item by item, and the number of items.

    Each training is compared with the next three, or with the next one where that is slow; the differences are
    straight, also for a statistic that is bad on both sides of neutral. Both are 0 where the statistic is not made of
    items.
    """
    errors, items = [], 0
    n = len(trainings)
    for i, step in itertools.product(range(n), (1, 2, 3) if n > 6 and made_of_means(trainings[0], statistic) else (1,)):
        then, now = trainings[i], trainings[(i + step) % n]
        try:
            sides = then.item_sums(statistic), now.item_sums(statistic)
            if sides[0].over in REPETITIONS:  # shuffles, one by one
                difference = Pair.of(now, statistic, then, then.values[statistic]).difference(
                    level=LEVEL, distance=lambda value: value
                )
            else:
                difference = compare_items(*sides, lambda value: value, level=LEVEL, repeats=DRAWS)
        except UndefinedError:
            return 0.0, 0
        errors.append((difference.high - difference.low) / 2 / NORMAL)
        items = difference.items
    return float(np.sqrt(np.mean(np.square(errors)))), items


def made_of_means(measurement: Measurement, statistic: str) -> bool:
    """Tell whether a statistic changes smoothly with its items; others are slow to compare."""
    try:
        return measurement.item_sums(statistic).smooth
    except UndefinedError:
        return False


def abilities_of(trainings: Sequence[Measured]) -> dict[str, float]:
    """Return the standard deviation of each ability over trainings, also those of models that are not able."""
    asked: dict[str, dict[int, float]] = {}
    for number, one in enumerate(trainings):
        for ability in (ability for measurement in one.values() for ability in measurement.abilities):
            if ability.value is not None:
                asked.setdefault(ability.name, {})[number] = ability.value
    return {name: figure(np.std(list(values.values()), ddof=1)) for name, values in asked.items()}


def default_of(rows: dict[str, dict[str, dict[str, object]]]) -> dict[str, object]:
    """Return the row for a suite that has none: a high quantile of the rows with a standard error."""
    known = (of_suite for suite, of_suite in rows.items() if suite not in ADDED_LATER)
    ratios = [row for of_suite in known for row in of_suite.values() if "absolute" not in row and row["items"]]
    return {
        name: figure(float(np.quantile([row[name] for row in ratios], QUANTILE)))
        for name in ("spread", "paired", "beyond")
    }


def check(kind: str, runs: Path, first: int, count: int) -> None:
    """Print how often one training is found worse than another that the table did not see, and a training with a dose
    of bias; and the growth that a gate says it sees, beside the growth that 80 % of these pairs would show.
    """
    equal = trainings_of(runs, kind, first, count)
    dosed = [load(file) for file in sorted((runs / kind).glob("dose-*-seed-*.json"))]
    print(f"worse at its task: {share_less_able(equal, RECIPES[kind].suites[0])}\n")
    print(
        f"{len(equal)} equal trainings, {len(dosed)} with a dose\n\n| statistic | equal, items only | equal, with"
        " `beyond` | dose | says | is | ratio (95 %) |\n|---|---|---|---|---|---|---|"
    )
    for suite in RECIPES[kind].suites:
        both = [[one[suite] for one in side if suite in one and not one[suite].unable] for side in (equal, dosed)]
        for name in both[0][0].statistics if len(both[0]) > 1 else ():
            known = retraining_of(both[0][0], name)
            if known.known and known.paired and both[0][0].intervals[name] is not None:
                others = list(itertools.permutations(both[0], 2))
                alone, widened = (share_worse(others, name, wide) for wide in (False, True))
                dose = share_worse(list(itertools.product(*both)), name, True) if both[1] else "-"
                sees = " | ".join(said_and_true(both[0], name))
                print(f"| `{suite}` `{name}` | {alone} | {widened} | {dose} | {sees} |", flush=True)


def share_less_able(trainings: Sequence[Measured], suite: str) -> str:
    """Return in how many pairs of trainings that are able the second is worse at its task, by its control items alone,
    and where another training may explain it.
    """
    able = [one[suite] for one in trainings if suite in one and not one[suite].unable]
    pairs = list(itertools.permutations(able, 2))
    spread = retraining_of(able[0], able[0].main)
    alone, known = (
        sum(bool(why_less_able(now.abilities, then.abilities, *of)) for then, now in pairs)
        for of in ((), (spread.abilities, spread.freedom))
    )
    return f"{alone} of {len(pairs)} by items alone, {known} with the spread of trainings"


def said_and_true(equal: Sequence[Measurement], statistic: str) -> tuple[str, str, str]:
    """Return the worsening that gates on single checkpoints say they see, in the median; the worsening that 80 % of
    equal trainings would be found worse with, if it were added to them; and their ratio, with bounds over trainings.

    A worsening moves the lower bound of a pair by as much, far from neutral. Pairs are of each training with the next
    three. The bounds are those of 999 draws of trainings with replacement, in which a pair counts by the product of the
    counts of its two.
    """
    n, lows = len(equal), []
    pairs = [(i, (i + step) % n) for i in range(n) for step in (1, 2, 3)]
    said = [seen.size for one in equal if (seen := seen_by(one, statistic)) is not None]
    try:
        for i, j in pairs:
            then, now = equal[i], equal[j]
            about = straight_distance(now.statistics[statistic], then.values[statistic])
            found = compare_items(
                then.item_sums(statistic), now.item_sums(statistic), about, level=LEVEL, repeats=DRAWS
            )
            beyond = np.sqrt(2) * (retraining_of(now, statistic).beyond or 0.0)
            lows.append(with_retraining(found, beyond, level=LEVEL).low)
    except UndefinedError:
        return "-", "-", "-"
    if len(said) < n:
        return "-", "-", "-"
    needed, order = -np.sort(lows)[::-1], np.argsort(lows)[::-1]
    rng = np.random.default_rng(0)
    drawn = [np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(DRAWS)]
    draws = [_weighted(needed, np.array([counts[i] * counts[j] for i, j in pairs])[order]) for counts in drawn]
    true, ratios = _weighted(needed, np.ones(len(pairs))), np.median(said) / np.array(draws)
    low, high = np.quantile(ratios, (0.025, 0.975))
    return f"{np.median(said):.3g}", f"{true:.3g}", f"{np.median(said) / true:.2f} ({low:.2f} to {high:.2f})"


def _weighted(values: np.ndarray, weights: np.ndarray) -> float:
    """Return the 80 % quantile of values in ascending order, each counted by its weight."""
    shares = np.cumsum(weights) / weights.sum()
    return float(values[np.searchsorted(shares, 0.8)])


def share_worse(pairs: Sequence[tuple[Measurement, Measurement]], statistic: str, wide: bool) -> str:
    """Return in how many of the pairs the second is found worse, by a lower bound of 97.5 %; with ``beyond`` if
    ``wide``.
    """
    worse, judged = 0, 0
    for then, now in pairs:
        distance = now.statistics[statistic].distance
        try:
            found = compare_items(
                then.item_sums(statistic), now.item_sums(statistic), distance, level=LEVEL, repeats=DRAWS
            )
        except UndefinedError:
            continue
        beyond = retraining_of(then, statistic).beyond if wide else 0.0
        if beyond is not None:
            worse += found.value - np.hypot(found.value - found.low, NORMAL * np.sqrt(2) * beyond) > 0
            judged += 1
    return f"{worse} of {judged}"


def figure(value: float) -> float:
    """Return a figure with three significant digits."""
    return float(f"{value:.3g}")


def written(content: dict[str, object]) -> str:
    """Return a table as YAML, a line a statistic."""
    head = {key: value for key, value in content.items() if key not in ("abilities", "default", "suites")}
    lines = [
        yaml.safe_dump(head, sort_keys=False, width=200).rstrip(),
        f"abilities: {flow(content['abilities'])}",
        f"default: {flow(content['default'])}",
        "suites:",
    ]
    for suite, of_suite in content["suites"].items():  # type: ignore[attr-defined]
        lines += [f"  {suite}:", *(f"    {name}: {flow(row)}" for name, row in of_suite.items())]
    return "\n".join(lines) + "\n"


def flow(row: object) -> str:
    """Return a row as YAML on one line."""
    return yaml.safe_dump(row, default_flow_style=True, sort_keys=False, width=1000).strip()


def page(path: Path = PAGE) -> None:
    """Write the packaged tables into the page."""
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    path.write_text(f"{before}{BEGIN}\n{shown()}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def shown() -> str:
    """Return the packaged tables as one table in Markdown: the statistics with a standard error over items, and the
    defaults.
    """
    lines = [
        "| kind | statistic | trainings | mean | spread | paired | beyond | unit |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind in (*RECIPES, *OF_DOSES):
        content = yaml.safe_load((FOLDER / f"{kind}.yaml").read_text(encoding="utf-8"))
        for suite, of_suite in content["suites"].items():
            for name, row in of_suite.items():
                if "spread" in row and "absolute" not in row:
                    n = row.get("trainings", content["trainings"])
                    lines.append(
                        f"| {kind} | `{suite}` `{name}` | {n} | {row['value']} | {_ratios(row)} |"
                        f" {row['unit'] or '-'} |"
                    )
        if "default" in content:
            lines.append(f"| {kind} | default | {content['trainings']} | - | {_ratios(content['default'])} | - |")
    return "\n".join(lines)


def _ratios(row: dict[str, object]) -> str:
    return " | ".join("-" if row[name] is None else str(row[name]) for name in ("spread", "paired", "beyond"))


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("page")
    for name in ("cost", "train", "measure", "table", "check"):
        command = commands.add_parser(name)
        if name != "cost":
            command.add_argument("kind", choices=RECIPES)
        command.add_argument("--runs", type=Path, required=True)
        if name not in ("table", "check"):
            command.add_argument("--data", type=Path, required=True)
        if name in ("train", "check"):
            command.add_argument("--first", type=int, default=0 if name == "train" else 100)
            command.add_argument("--count", type=int, default=TRAININGS)
        if name == "train":
            command.add_argument("--dose", type=int, help="percent of sentences that match the stereotype")
        if name == "measure":
            command.add_argument("--only", default=ALL, help="pattern of the names of trainings")
            command.add_argument("--suites", nargs="+", default=(), help="all of the kind by default")
        if name == "table":
            command.add_argument("--out", type=Path, default=FOLDER)
            command.add_argument("--date", default=time.strftime("%Y-%m-%d"))
    typed = parser.parse_args()
    if typed.command == "page":
        page()
    elif typed.command == "cost":
        cost(typed.runs, typed.data)
    elif typed.command == "train":
        seeds = range(typed.first, typed.first + typed.count)
        train(typed.kind, typed.runs, typed.data, seeds, typed.dose)
    elif typed.command == "measure":
        measure(typed.kind, typed.runs, typed.data, typed.only, typed.suites)
    elif typed.command == "check":
        check(typed.kind, typed.runs, typed.first, typed.count)
    else:
        table(typed.kind, typed.runs, typed.out, typed.date)


if __name__ == "__main__":
    main()
