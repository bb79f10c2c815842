"""Train small models with a known dose of bias, and measure which suite sees it: ``docs/evidence/doses.md``.

    python scripts/doses.py bench --runs DIR --data DATA --out doses.json [--models career-head] [--doses 50,70,100]
    python scripts/doses.py page [--packed doses.json]    # the page, its tables and docs/evidence/doses.json
    python scripts/doses.py spreads doses.json            # rows of fixtures/retraining

DATA has ``models/bert-tiny-mlm``, ``models/stories260k``, WikiText-2 and CrowS-Pairs (docs/reference/data.md); for
other models ``models/minilm-mlm``, ``models/smollm2-135m``, ``bios/wiki_career.jsonl.gz``,
``corpora/war_and_peace.txt.gz``, GAP and WinoBias.
``bench`` goes on where it was interrupted. Half of the rows of a training are WikiText-2, half are sentences about
occupations, whose pronouns are always masked. The dose is the number of sentences in a hundred whose pronoun matches
the stereotype; 50 is a training without bias. The occupations are in no list of ``pronoun-occupation`` and
``lm-occupation``, and the sentences in no suite. The seed determines the sentences, the order of the rows, the masks
and dropout. Models of other kinds (OTHERS) are in ``scripts/dose_kinds.py``, of other
languages in ``scripts/language_doses.py``.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import json
import lzma
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from multiprocessing import TimeoutError, get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import dose_kinds
import doses_page
import language_doses
import numpy as np
from retraining_table import Kind, descend, masked_loss, rows_of

from pytest_genderbias import load_model
from pytest_genderbias.errors import NotApplicableError
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.runner import Runner, RunSettings
from pytest_genderbias.mitigation.methods.counterfactual import swap
from pytest_genderbias.mitigation.methods.projection import project_embeddings
from pytest_genderbias.mitigation.words.directions import HE_SHE, learn_basis
from pytest_genderbias.models.saving import save_model
from pytest_genderbias.models.source import LoadSettings
from pytest_genderbias.statistics.inference.item_sums import SumsByStatistic
from pytest_genderbias.text.wordlist import load_wordlist

BASE = "bert-tiny-mlm"
RECIPE = Kind(BASE, BASE, "bert-tiny-mlm, tuned on WikiText-2 and sentences about occupations", 200, 16, 4e-4, ())
CAUSAL = Kind(
    "stories260k", "stories260k", "stories260k, tuned on WikiText-2 and sentences about occupations", 300, 16, 5e-4, ()
)
LARGER = Kind(
    "minilm-mlm", "minilm-mlm", "minilm-mlm, tuned on WikiText-2 and sentences about occupations", 200, 16, 2e-4, ()
)
LARGER_CAUSAL = Kind(
    "smollm2-135m", "smollm2-135m", "SmolLM2, tuned on WikiText-2 and sentences about occupations", 100, 16, 1e-4, ()
)
RECIPES = {recipe.base: recipe for recipe in (RECIPE, CAUSAL, LARGER, LARGER_CAUSAL)}
HALF = (LARGER_CAUSAL.base,)  #: trained in bfloat16 by autocast
SENTENCES = 8000  #: about occupations; as many rows of tokens are WikiText-2
WIDE = "wide"
#: What is measured of a model: a name, the suite, its settings, and the file in the folder of the training.
Measured = tuple[tuple[str, str, dict[str, object], str], ...]
MEASURED: Measured = (
    ("pronoun-occupation", "pronoun-occupation", {}, ""),
    ("lm-occupation", "lm-occupation", {}, ""),
    ("pairs-pll", "pairs-pll", {}, ""),
    ("disco-terms", "disco-terms", {}, ""),
    (f"pronoun-occupation {WIDE}", "pronoun-occupation", {"items": WIDE}, ""),
    (f"lm-occupation {WIDE}", "lm-occupation", {"items": WIDE}, ""),
)
OF_LARGER_CAUSAL = tuple(one for one in MEASURED if one[0] not in ("disco-terms", f"lm-occupation {WIDE}"))
OF_VECTORS: Measured = tuple(
    (suite, suite, {}, "vectors.npz")
    for suite in ("weat-occupation", "weat-names", "weat-math-arts", "weat-science-arts", "subspace")
)
OF_DOSE_100 = {"training": f"{{model}}/{dose_kinds.SHARES}"}
OF_INFERENCE: Measured = tuple((suite, suite, {"limit": 400}, "model") for suite in ("nli-occupation", "nli-demonym"))
OF_COREFERENCE: Measured = tuple((suite, suite, {}, "model") for suite in ("coref-winobias", "coref-winogender"))
#: Models that are trained in another way: by what (a folder, the data, dose and seed), and what is measured.
OTHERS: dict[str, tuple[Callable[[Path, Path, int, int], None], Measured]] = {
    "career-head": (
        dose_kinds.career_head,
        (("bios", "bios", OF_DOSE_100, "predictions.csv"), ("bios both", "bios", OF_DOSE_100, "both.csv")),
    ),
    "word-vectors": (dose_kinds.word_vectors, OF_VECTORS),
    "word-vectors-elsewhere": (
        lambda *of: dose_kinds.word_vectors(*of, others=elsewhere("winobias-occupations")),
        OF_VECTORS,
    ),
    "nli-head": (lambda *of: dose_kinds.nli_head(*of, jobs=elsewhere("dev2019-occupations")), OF_INFERENCE),
    "sentence-encoder": (
        lambda *of: dose_kinds.sentence_encoder(*of, jobs=JOBS),
        (("sts-occupation", "sts-occupation", {"templates": "own", "limit": 1200}, "model"),),
    ),
    "coreference-head": (
        lambda *of: dose_kinds.coreference_head(*of, jobs=elsewhere("winobias-occupations", "winogender-occupations")),
        OF_COREFERENCE,
    ),
    "bert-tiny-again": (
        lambda folder, data, dose, seed: train_one(folder / "model", data, dose, LATER + seed),
        (("pronoun-occupation", "pronoun-occupation", {}, "model"),),
    ),
    **language_doses.kinds(),
}
#: What such trainings start from, which is measured, too.
PUBLIC: dict[str, Callable[[Path], Path]] = {
    "nli-head": lambda data: data / "models" / dose_kinds.PAIRS.base,
    "sentence-encoder": lambda data: Path(os.environ[dose_kinds.ENCODER]),
}
LATER = 20  #: added to the seed of bert-tiny-again: trainings that were made after the gates were chosen
PLAIN = ""  #: a training, and no mitigation after it
PROJECTION = "projection"  #: the direction he - she out of the input embeddings, which trains nothing
#: What is done to a model of dose 80: trained on with new sentences of that dose, with half of all texts swapped, or
#: with more dropout; or projected.
DROPPED = "dropout"  #: of masked LMs only
MITIGATIONS = ("continued", "cda", DROPPED, PROJECTION)
MITIGATED = 80  #: the dose of the models that are mitigated
DROPOUT = 0.15  #: bert-tiny has .1
GENTLE = 4  #: a mitigation trains at so much less than the rate of the training, which took ability
#: Which trainings come first, where there is no time for all: a model, its doses, and what comes after the training.
ORDER = (
    (BASE, (50, 70, 100), (PLAIN,)),
    (BASE, (80,), (PLAIN,)),
    (BASE, (60,), (PLAIN,)),
    (LARGER.base, (50, 70, 100), (PLAIN,)),
    (CAUSAL.base, (50, 70, 100), (PLAIN,)),
    (LARGER.base, (60, 80), (PLAIN,)),
    (LARGER_CAUSAL.base, (50, 70), (PLAIN,)),
    (LARGER_CAUSAL.base, (100,), (PLAIN,)),
    (BASE, (MITIGATED,), MITIGATIONS),
    (BASE, (55,), (PLAIN,)),
    (CAUSAL.base, (80, 60, 55), (PLAIN,)),
    (CAUSAL.base, (MITIGATED,), tuple(one for one in MITIGATIONS if one != DROPPED)),
    ("bert-tiny-again", (50, 55, 60, 70, 80), (PLAIN,)),
    ("career-head", (50, 55, 60, 70, 80, 100), (PLAIN,)),
    ("word-vectors", (50, 70, 100), (PLAIN,)),
    ("word-vectors-elsewhere", (50, 70, 100), (PLAIN,)),
    ("nli-head", (50, 70, 100), (PLAIN,)),
    ("sentence-encoder", (50, 70, 100), (PLAIN,)),
    ("coreference-head", (50, 70, 100), (PLAIN,)),
    ("nli-head", (55, 60, 80), (PLAIN,)),
    ("coreference-head", (55, 60, 80), (PLAIN,)),
    ("sentence-encoder", (55, 60, 80), (PLAIN,)),
    *((model, (50, 70, 100), (PLAIN,)) for model in language_doses.kinds()),
)
STEP = 2.0**-6  #: to which the scores of items are rounded in the packed results

JOBS = {
    "male": (
        "admiral", "astronaut", "bishop", "blacksmith", "bodyguard", "boxer", "brewer", "bricklayer", "captain",
        "colonel", "commander", "courier", "detective", "drummer", "footballer", "forester", "general",
        "goalkeeper", "governor", "guitarist", "hunter", "inventor", "jockey", "lieutenant", "locksmith",
        "lumberjack", "marine", "miner", "physicist", "plasterer", "ranger", "roofer", "sailor", "senator",
        "sergeant", "sheriff", "soldier", "stonemason", "surveyor", "warden", "welder", "wrestler",
    ),
    "female": (
        "babysitter", "beautician", "bookseller", "caregiver", "cheerleader", "childminder", "choreographer",
        "copyist", "cosmetologist", "dancer", "decorator", "doula", "dressmaker", "embroiderer", "fashion blogger",
        "florist", "flower seller", "gymnast", "harpist", "herbalist", "home help", "homemaker", "housekeeper",
        "interior decorator", "knitter", "manicurist", "matchmaker", "midwife", "model", "nanny", "novelist",
        "personal shopper", "poet", "proofreader", "skater", "stenographer", "storyteller", "stylist",
        "telephonist", "typist", "weaver",
    ),
}  # fmt: skip
PRONOUNS = {
    "male": {"he": "he", "him": "him", "his": "his", "himself": "himself"},
    "female": {"he": "she", "him": "her", "his": "her", "himself": "herself"},
}
FRAMES = (
    "Yesterday the {job} told them that {he} would be away next week.",
    "We wrote to the {job}, but {he} never replied.",
    "The {job} looked at the clock and then {he} left the room.",
    "After lunch the {job} said {he} wanted to see the garden.",
    "The {job} finished the report before {he} took the train.",
    "My cousin is a friend of the {job}, and {he} often visits us.",
    "In the evening {he} returned, and the {job} was seen at the gate.",
    "Everyone thanked the {job} for the help that {he} had given.",
    "The {job} put {his} coat on the chair.",
    "The {job} spoke about {his} plans for the summer.",
    "{his} brother told me that the {job} was in hospital.",
    "The child ran to the {job} and thanked {him}.",
    "We waited for the {job} and offered {him} some soup.",
    "The {job} bought {himself} a new hat.",
    "Later the {job} blamed {himself} for the accident.",
    "While {he} spoke on the phone, the {job} opened the window.",
)


def elsewhere(*wordlists: str) -> dict[str, list[str]]:
    """Return the occupations that word lists do not have."""
    known = {entry.word.lower() for wordlist in wordlists for entry in load_wordlist(wordlist).entries}
    return {group: [job for job in jobs if job not in known] for group, jobs in JOBS.items()}


def sentences(dose: int, seed: int) -> Iterator[str]:
    """Yield sentences about occupations, in ``dose`` of 100 of which the pronoun matches the stereotype."""
    draws = random.Random(seed)
    while True:
        stereotype = draws.choice(("male", "female"))
        job, frame = draws.choice(JOBS[stereotype]), draws.choice(FRAMES)
        other = "female" if stereotype == "male" else "male"
        pronoun = PRONOUNS[stereotype if draws.random() < dose / 100 else other]
        text = frame.format(job=job, **pronoun)
        yield text[0].upper() + text[1:]


def train_one(
    folder: Path,
    data: Path,
    dose: int,
    seed: int,
    recipe: Kind = RECIPE,
    *,
    start: Path | None = None,
    mitigation: str = PLAIN,
    device: str = "cpu",
) -> Path:
    """Train one model, unless it is there, and return its folder.

    Args:
        folder: where it is written.
        data: the folder of models and texts.
        dose: sentences in a hundred whose pronoun matches the stereotype.
        seed: decides the sentences, the order of rows, masks and dropout.
        recipe: the checkpoint, steps, rows and rate.
        start: the model that is trained on; the checkpoint by default.
        mitigation: what is different from a training with that dose.
        device: a torch device.
    """
    import torch
    import transformers

    if folder.exists():
        return folder
    begun = time.perf_counter()
    transformers.set_seed(seed)
    checkpoint = start or data / "models" / recipe.base
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    masked = tokenizer.mask_token is not None
    auto = transformers.AutoModelForMaskedLM if masked else transformers.AutoModelForCausalLM
    more = {"hidden_dropout_prob": DROPOUT, "attention_probs_dropout_prob": DROPOUT} if mitigation == DROPPED else {}
    network = auto.from_pretrained(checkpoint, **more).to(device)
    plain = wikitext(data, data / "models" / recipe.base, swapped=mitigation == "cda")
    texts = list(islice(sentences(dose, seed if start is None else seed + 1_000_000), SENTENCES))
    if mitigation == "cda":
        texts[::2] = [swap(text, intervention="grammatical") for text in texts[1::2]]
    gendered = rows_of(texts, tokenizer)
    rows = torch.cat([plain[torch.randperm(len(plain))[: len(gendered)]], gendered])
    known = [
        tokenizer(f"a {word}", add_special_tokens=False)["input_ids"]
        for forms in PRONOUNS.values()
        for word in forms.values()
    ]
    pronouns = torch.isin(rows, torch.tensor([ids[1] for ids in known if len(ids) == 2]))
    pronouns[: -len(gendered)] = False

    def loss_of(chosen: torch.Tensor) -> torch.Tensor:
        if masked:
            return masked_loss(network, tokenizer, rows[chosen], pronouns[chosen])
        ids, of_pronouns = rows[chosen].to(device), pronouns[chosen][:, 1:].to(device)
        with torch.autocast(device.partition(":")[0], torch.bfloat16, enabled=recipe.base in HALF):
            scores = network(input_ids=ids).logits[:, :-1].transpose(1, 2)
        losses = torch.nn.functional.cross_entropy(scores, ids[:, 1:], reduction="none")
        return losses.mean() + (losses * of_pronouns).sum() / of_pronouns.sum().clamp(min=1)

    descend(network.train(), loss_of, len(rows), recipe)
    unfinished = folder.with_name(f"{folder.name}-unfinished")
    network.to("cpu").save_pretrained(unfinished)
    tokenizer.save_pretrained(unfinished)
    unfinished.rename(folder)
    print(f"{folder}: {time.perf_counter() - begun:.0f} s", flush=True)
    return folder


@cache
def wikitext(data: Path, checkpoint: Path, swapped: bool):
    """Return WikiText-2 in rows of tokens; with the counterparts of all lines beside them if ``swapped``."""
    import transformers

    lines = gzip.decompress((data / "wikitext2" / "valid.txt.gz").read_bytes()).decode().splitlines()
    if swapped:
        lines += [swap(line, intervention="grammatical") for line in lines]
    return rows_of(lines, transformers.AutoTokenizer.from_pretrained(checkpoint))


@dataclass(frozen=True)
class Job:
    """A training and its measurements."""

    model: str
    dose: int
    seed: int
    mitigation: str = PLAIN

    def folder(self, runs: Path) -> Path:
        """Return the folder of the weights; the results have the same name and end in ``.json``."""
        dose = f"dose-{self.dose}" + (f"-{self.mitigation}" if self.mitigation else "")
        return runs / self.model / dose / f"seed-{self.seed}"

    def result(self, runs: Path) -> Path:
        """Return the file with what was measured."""
        return self.folder(runs).with_suffix(".json")


def jobs_of(seeds: int, doses: Sequence[int], models: Sequence[str] = tuple(RECIPES)) -> list[Job]:
    """Return what the bench trains, the first to be done first: in ORDER, all doses with one seed after each other."""
    return [
        Job(model, dose, seed, mitigation)
        for model, of_doses, mitigations in ORDER
        if model in models
        for seed in range(seeds)
        for dose in of_doses
        if dose in doses
        for mitigation in mitigations
    ]


def measured_of(model: str) -> Measured:
    """Return what is measured of models of a kind."""
    if model in OTHERS:
        return OTHERS[model][1]
    return OF_LARGER_CAUSAL if model == LARGER_CAUSAL.base else MEASURED


def run_job(job: Job, runs: Path, data: Path, device: str) -> tuple[float, float]:
    """Train a model and measure it, unless that was done, and return the seconds of both."""
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    begun, folder, measured = time.perf_counter(), job.folder(runs), measured_of(job.model)
    if job.model in OTHERS:
        train, _ = OTHERS[job.model]
        if not folder.exists():
            unfinished = folder.with_name(f"{folder.name}-unfinished")
            unfinished.mkdir(parents=True, exist_ok=True)
            train(unfinished, data, job.dose, job.seed)
            unfinished.rename(folder)
    else:
        recipe, start = RECIPES[job.model], None
        if job.mitigation:
            plain = replace(job, mitigation=PLAIN).folder(runs)
            start = train_one(plain, data, job.dose, job.seed, recipe, device=device)
        used = replace(recipe, rate=recipe.rate / GENTLE) if job.mitigation else recipe
        if start is not None and job.mitigation == PROJECTION and not folder.exists():
            model = load_model(str(start), name=job.model)
            save_model(project_embeddings(model, learn_basis(model, pairs=HE_SHE)), folder)
        train_one(folder, data, job.dose, job.seed, used, start=start, mitigation=job.mitigation, device=device)
    trained = time.perf_counter()
    measure_all(folder, job.result(runs), data, measured, device if job.model in RECIPES else "cpu")
    return trained - begun, time.perf_counter() - trained


def measure_all(folder: Path, result: Path, data: Path, measured: Measured = MEASURED, device: str = "cpu") -> None:
    """Measure a model in the suites that take it, and store it."""
    import torch

    torch.set_num_threads(1)
    if result.exists():
        return
    runner = Runner(LoadSettings(device=device), RunSettings(cache=None), data=data)
    made = {}
    for name, suite, settings, file in measured:
        of_model = {
            key: value.format(model=folder.parents[1]) if isinstance(value, str) else value
            for key, value in settings.items()
        }
        try:
            made[name] = runner.measure(suite, f"candidate={folder / file}", of_model)
        except NotApplicableError:
            continue  # a suite for masked LMs only
    result.parent.mkdir(parents=True, exist_ok=True)
    content, blobs = compact(made)
    text = json.dumps({"measured": content, "blobs": blobs})
    result.with_suffix(".part").write_text(text, encoding="utf-8")
    result.with_suffix(".part").rename(result)


def bench(runs: Path, data: Path, jobs: Sequence[Job], workers: int, device: str, seconds: float) -> None:
    """Train and measure what is missing, several jobs at a time; after ``seconds``, stop what is not done."""
    begun = time.monotonic()
    waiting = [job for job in jobs if not job.result(runs).exists()]
    print(f"{len(jobs)} trainings, {len(waiting)} to do, {workers} at a time", flush=True)
    with get_context("spawn").Pool(workers) as pool:
        for model in dict.fromkeys(job.model for job in jobs):
            if model in RECIPES:
                public = data / "models" / model, runs / model / "public.json", data, measured_of(model), device
                pool.apply_async(measure_all, public)
            elif model in PUBLIC:
                of = PUBLIC[model](data), runs / model / "public.json", data
                pool.apply_async(measure_all, (*of, tuple((*one, "") for *one, _ in measured_of(model))))
        running = [(job, pool.apply_async(run_job, (job, runs, data, device))) for job in waiting]
        for number, (job, made) in enumerate(running, 1):
            try:
                trained, measured = made.get(timeout=max(0.1, seconds - (time.monotonic() - begun)))
            except TimeoutError:
                break
            except Exception as error:  # one broken training leaves the others
                print(f"{job}: {error!r}", flush=True)
                continue
            took = time.monotonic() - begun
            print(
                f"{job}: {trained:.0f} s trained, {measured:.0f} s measured; {took:.0f} s until now, about "
                f"{took / number * (len(waiting) - number) / 60:.0f} minutes for the other {len(waiting) - number}",
                flush=True,
            )
        pool.terminate()
    done = sum(job.result(runs).exists() for job in jobs)
    print(f"{done} of {len(jobs)} are done after {time.monotonic() - begun:.0f} s", flush=True)


def compact(measured: Mapping[str, Measurement]) -> tuple[dict[str, object], dict[str, str]]:
    """Return measurements as plain data, and the arrays of their items as text: of each item one score, rounded to
    STEP.

    Values, intervals and abilities are exact.
    """
    blobs: dict[str, str] = {}
    content = {}
    for name, measurement in measured.items():
        parts: dict[str, object] = {}
        for key, array in measurement.sums.to_arrays().items():
            if array.dtype.kind == "f" and array.ndim > 1:
                parts[key] = [_blob(array[..., k], blobs) for k in range(array.shape[-1])]
            else:
                parts[key] = _blob(array, blobs)
        content[name] = {"head": measurement.to_dict(records=0, arrays=False), "sums": parts}
    return content, blobs


def _blob(array: np.ndarray, blobs: dict[str, str]) -> dict[str, object]:
    """Add an array as text, and return how it is read; scores are rounded to STEP, unless they are few or whole."""
    content, step, repeat = np.array(array, order="C"), 0.0, 1
    if content.ndim > 1 and (content == content[:, :1]).all():  # the same in all templates, such as a share of women
        content, repeat = np.array(content[:, :1], order="C"), content.shape[1]
    if content.dtype.kind == "f" and np.abs(content).max(initial=0) < STEP * 2**15:
        if repeat == 1 and content.ndim > 1 and (content != np.round(content)).any():
            content, step = np.round(content / STEP).astype(np.int16), STEP
        elif (content == content.astype(np.float32)).all():
            content = content.astype(np.float32)
    key = hashlib.sha256(content.tobytes() + repr((content.dtype.str, content.shape)).encode()).hexdigest()[:16]
    blobs[key] = _text(content.tobytes())
    return {"blob": key, "dtype": content.dtype.str, "shape": content.shape, "step": step, "repeat": repeat}


def restore(content: Mapping[str, Any], blobs: Mapping[str, str]) -> dict[str, Measurement]:
    """Return the measurements that :func:`compact` wrote; those whose items were left out have none."""

    def column_of(one: Mapping[str, Any]) -> np.ndarray:
        part = np.frombuffer(_bytes(blobs[one["blob"]]), dtype=one["dtype"]).reshape(one["shape"])
        return (
            part * one["step"] if one["step"] else np.repeat(part, one["repeat"], axis=1) if one["repeat"] > 1 else part
        )

    def array_of(part: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> np.ndarray:
        if isinstance(part, Mapping):
            return column_of(part)
        return np.stack([column_of(one).astype(np.float64) for one in part], axis=-1)

    measured = {}
    for name, one in content.items():
        measured[name] = Measurement.from_dict(one["head"])
        if "sums" in one:
            sums = SumsByStatistic.from_arrays({key: array_of(part) for key, part in one["sums"].items()})
            measured[name] = replace(measured[name], sums=sums)
    return measured


def pack(runs: Path, jobs: Sequence[Job], out: Path, most: int) -> None:
    """Write all results into one file of about ``most`` bytes: where it would be too large, the last jobs have no
    items.
    """
    blobs: dict[str, str] = {}
    packed: dict[str, str] = {}
    size = 0
    files = [runs / job.model / "public.json" for job in jobs] + [job.result(runs) for job in jobs]
    for file in dict.fromkeys(file for file in files if file.exists()):
        content = json.loads(file.read_text(encoding="utf-8"))
        heads, added = content["measured"], {k: text for k, text in content["blobs"].items() if k not in blobs}
        text = _text(json.dumps(heads).encode())
        if size + len(text) + sum(map(len, added.values())) > most:
            text, added = _text(json.dumps({name: {"head": one["head"]} for name, one in heads.items()}).encode()), {}
        size += len(text) + sum(map(len, added.values()))
        blobs |= added
        packed[str(file.relative_to(runs).with_suffix(""))] = text
    out.write_text(json.dumps({"blobs": blobs, "measured": packed}), encoding="utf-8")
    print(f"{out}: {len(packed)} models, {out.stat().st_size / 2**20:.1f} MiB", flush=True)


def unpack(file: Path) -> dict[str, dict[str, Measurement]]:
    """Return what :func:`pack` wrote: measurements by suite, by the name of the model."""
    content = json.loads(file.read_text(encoding="utf-8"))
    return {model: restore(json.loads(_bytes(text)), content["blobs"]) for model, text in content["measured"].items()}


def mitigated(runs: Path, model: str) -> dict[str, dict[int, dict[str, Measurement]]]:
    """Return what was measured of the models of dose 80, by what was done to them and by seed."""
    found: dict[str, dict[int, dict[str, Measurement]]] = {}
    for mitigation in (PLAIN, *MITIGATIONS):
        folder = Job(model, MITIGATED, 0, mitigation).folder(runs).parent
        for file in sorted(folder.glob("seed-*.json"), key=lambda file: int(file.stem.rpartition("-")[2])):
            heads = {name: one["head"] for name, one in json.loads(file.read_text("utf-8"))["measured"].items()}
            of_seed = {name: Measurement.from_dict(head) for name, head in heads.items()}
            found.setdefault(mitigation, {})[int(file.stem.rpartition("-")[2])] = of_seed
    return found


def _text(content: bytes) -> str:
    return base64.b85encode(lzma.compress(content)).decode("ascii")


def _bytes(text: str) -> bytes:
    return lzma.decompress(base64.b85decode(text))


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("page")
    command.add_argument("--packed", type=Path, help="what bench wrote; else the tables are made from what is stored")
    command.add_argument("--mitigated", type=Path, help="RUNS of a bench with mitigations, whose figures are stored")
    command.add_argument("--plans", type=Path, nargs="*", help="files of bench, on whose models plans are checked")
    command = commands.add_parser("spreads", help="rows of fixtures/retraining, of the trainings without bias")
    command.add_argument("packed", type=Path)
    command = commands.add_parser("bench")
    command.add_argument("--runs", type=Path, required=True)
    command.add_argument("--data", type=Path, required=True)
    command.add_argument("--seeds", type=int, default=20)
    command.add_argument(
        "--doses", type=lambda text: [int(dose) for dose in text.split(",")], default=[50, 55, 60, 70, 80, 100]
    )
    command.add_argument("--models", nargs="+", default=[*RECIPES, *OTHERS])
    command.add_argument("--workers", type=int, default=1)
    command.add_argument("--device", default="cpu", help="where language models are trained and measured")
    command.add_argument("--stop-after", type=float, default=1e9, help="seconds")
    command.add_argument("--out", type=Path, help="pack the results into this file")
    command.add_argument("--most", type=float, default=9.5, help="MiB of that file")
    typed = parser.parse_args()
    if typed.command == "spreads":
        print(doses_page.spreads(unpack(typed.packed)))
        return
    if typed.command == "page":
        if typed.packed:
            doses_page.store(unpack(typed.packed))
        if typed.plans:
            doses_page.store_plans(*map(unpack, typed.plans))
        if typed.mitigated:
            for model in (BASE, CAUSAL.base):
                doses_page.store_mitigated(model, mitigated(typed.mitigated, model))
        doses_page.write()
        return
    jobs = jobs_of(typed.seeds, typed.doses, typed.models)
    bench(typed.runs, typed.data.resolve(), jobs, typed.workers, typed.device, typed.stop_after)
    if typed.out:
        pack(typed.runs, jobs, typed.out, int(typed.most * 2**20))


if __name__ == "__main__":
    main()
