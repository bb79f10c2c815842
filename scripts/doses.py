"""Tune bert-tiny with a known dose of bias, and say which suite sees it: the tables of ``docs/evidence/doses.md``.

    python scripts/doses.py train --runs DIR --data DATA [--trainings 6] [--doses 50]    # goes on where it was interrupted
    python scripts/doses.py measure --runs DIR --data DATA
    python scripts/doses.py gates --runs DIR --data DATA    # judge all other sets by one of dose 50
    python scripts/doses.py page --runs DIR                 # docs/evidence/doses.md

DATA has ``models/bert-tiny-mlm``, WikiText-2 and CrowS-Pairs (docs/reference/data.md). Half of the rows of a training
are WikiText-2, half are sentences about occupations, whose pronouns are always masked. The dose is the number of
sentences in a hundred whose pronoun matches the stereotype; 50 is a training without bias. The occupations are in no
list of ``pronoun-occupation`` and ``lm-occupation``, and the sentences in no suite. The seed determines the
sentences, the order of the rows, the masks and dropout. Three trainings make a set: DIR/dose-70/a/seed-0 to seed-2,
DIR/dose-70/b/seed-0 to seed-2.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from retraining_table import Kind, descend, masked_loss, rows_of
from tabulate import tabulate

from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.runner import Runner, RunSettings
from pytest_genderbias.reports.run_report import read_report

DOSES = (50, 70, 100)
NO_GATE_IS_WEAK = "bias_sees=10000%"  #: so that weak gates are stored, too, and say something
SET = 3  #: trainings that a gate takes together
BASE = "bert-tiny-mlm"
RECIPE = Kind(BASE, BASE, "bert-tiny-mlm, tuned on WikiText-2 and sentences about occupations", 200, 16, 4e-4, ())
SENTENCES = 8000  #: about occupations; as many rows of tokens are WikiText-2
#: The figures of each suite.
SUITES: dict[str, tuple[str, ...]] = {
    "pronoun-occupation": ("mean_difference", "pearson_r", "slope"),
    "lm-occupation": ("aggregate_bias",),
    "disco-terms": ("significant_fills",),
    "pairs-pll": ("stereotype_share", "mean_difference"),
}
#: What is gated.
GATES = (
    *((suite, names[0]) for suite, names in SUITES.items()),
    ("pairs-pll", "mean_difference"),
)
PAGE = Path(__file__).resolve().parent.parent / "docs" / "evidence" / "doses.md"

JOBS = {
    "male": (
        "admiral", "analyst", "astronaut", "bishop", "blacksmith", "bodyguard", "boxer", "brewer", "bricklayer",
        "captain", "colonel", "commander", "courier", "detective", "driver", "drummer", "executive",
        "footballer", "forester", "general", "goalkeeper", "governor", "guard", "guitarist", "hunter",
        "inventor", "jockey", "laborer", "lieutenant", "locksmith", "lumberjack", "marine", "miner",
        "physicist", "plasterer", "ranger", "roofer", "sailor", "senator", "sergeant", "sheriff", "soldier",
        "stonemason", "surveyor", "warden", "welder", "wrestler",
    ),
    "female": (
        "assistant", "attendant", "babysitter", "beautician", "bookseller", "caregiver", "cheerleader",
        "childminder", "choreographer", "cleaner", "copyist", "cosmetologist", "dancer", "decorator", "doula",
        "dressmaker", "embroiderer", "fashion blogger", "florist", "flower seller", "gymnast", "harpist",
        "herbalist", "home help", "homemaker", "housekeeper", "interior decorator", "knitter",
        "library assistant", "manicurist", "matchmaker", "midwife", "model", "nanny", "novelist",
        "nursery aide", "personal shopper", "poet", "proofreader", "shop assistant", "skater", "stenographer",
        "storyteller", "stylist", "telephonist", "typist", "weaver",
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


def folder_of(runs: Path, dose: int, training: int) -> Path:
    """Return the folder of a training."""
    return runs / f"dose-{dose}" / chr(ord("a") + training // SET) / f"seed-{training % SET}"


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


def train(runs: Path, data: Path, trainings: int, doses: Sequence[int]) -> None:
    """Train the models that are not there yet, those of all doses with one seed after each other."""
    for training in range(trainings):
        for dose in doses:
            train_one(folder_of(runs, dose, training), data, dose, training)


def train_one(folder: Path, data: Path, dose: int, seed: int, recipe: Kind = RECIPE) -> Path:
    """Train one model, unless it is there, and return its folder."""
    import torch
    import transformers

    if folder.exists():
        return folder
    start, base = time.perf_counter(), data / "models" / recipe.base
    transformers.set_seed(seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    network = transformers.AutoModelForMaskedLM.from_pretrained(base)
    lines = gzip.decompress((data / "wikitext2" / "valid.txt.gz").read_bytes()).decode().splitlines()
    plain, gendered = (rows_of(list(texts), tokenizer) for texts in (lines, islice(sentences(dose, seed), SENTENCES)))
    rows = torch.cat([plain[torch.randperm(len(plain))[: len(gendered)]], gendered])
    words = tokenizer.convert_tokens_to_ids(sorted({word for forms in PRONOUNS.values() for word in forms.values()}))
    pronouns = torch.isin(rows, torch.tensor(words))
    pronouns[: -len(gendered)] = False

    def loss_of(chosen: torch.Tensor) -> torch.Tensor:
        return masked_loss(network, tokenizer, rows[chosen], pronouns[chosen])

    descend(network.train(), loss_of, len(rows), recipe)
    unfinished = folder.with_name(f"{folder.name}-unfinished")
    network.save_pretrained(unfinished)
    tokenizer.save_pretrained(unfinished)
    unfinished.rename(folder)
    print(f"{folder}: {time.perf_counter() - start:.0f} s", flush=True)
    return folder


def measure(runs: Path, data: Path) -> None:
    """Measure what was not measured yet: the public model, and each training."""
    measure_one(str(data / "models" / BASE), runs / "public.json", data, runs)
    for folder in sorted(runs.glob("dose-*/*/seed-[0-9]")):
        measure_one(str(folder), folder.with_suffix(".json"), data, runs)


def measure_one(spec: str, result: Path, data: Path, runs: Path) -> None:
    """Measure one model, and store it."""
    if result.exists():
        return
    runner = Runner(score=RunSettings(cache=runs / "cache"), data=data)
    made = {suite: runner.measure(suite, f"candidate={spec}").to_dict(records=0) for suite in SUITES}
    result.write_text(json.dumps(made), encoding="utf-8")
    print(result, flush=True)


def load(path: Path) -> dict[str, Measurement]:
    """Return what was measured of a model, by suite."""
    return {suite: Measurement.from_dict(content) for suite, content in json.loads(path.read_text()).items()}


def gates(runs: Path, data: Path) -> None:
    """Store a baseline of the first three trainings without bias, and judge all others, three at a time."""
    file = runs / "doses.bias.yaml"
    lines = (f"  - {{suite: {suite}, statistic: {statistic}, baseline: true}}\n" for suite, statistic in GATES)
    file.write_text("gates:\n" + "".join(lines), encoding="utf-8")
    first = runs / "dose-50" / "a"
    if not (runs / "bias_baselines").exists():
        judge(file, first, data, runs / "stored.json", "--bias-update-new")
    for folder in sorted(runs.glob("dose-*/*/")):
        if folder != first and (folder / f"seed-{SET - 1}").is_dir() and not (folder / "judged.json").exists():
            judge(file, folder, data, folder / "judged.json")


def judge(file: Path, folder: Path, data: Path, report: Path, *flags: str) -> None:
    """Run the gates on three trainings, and write the report."""
    spec = f"--bias-model=candidate={folder.resolve()}/seed-{{seed}}"
    command = [sys.executable, "-m", "pytest", str(file.resolve()), spec, f"--bias-seeds={SET}", f"--bias-data={data}"]
    settings = [
        f"--bias-cache={file.parent / 'cache'}",
        f"--bias-json={report.resolve()}",
        f"--override-ini={NO_GATE_IS_WEAK}",
    ]
    subprocess.run([*command, *settings, *flags], cwd=file.parent, stdout=subprocess.DEVNULL, check=False)
    print(report, flush=True)


def page(runs: Path, path: Path = PAGE) -> None:
    """Write the tables into the page."""
    for name, made in (("response", response(runs)), ("gates", verdicts(runs))):
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, _, rest = path.read_text(encoding="utf-8").partition(begin)
        path.write_text(f"{before}{begin}\n\n{made}\n\n{end}{rest.partition(end)[2]}", encoding="utf-8")


def response(runs: Path) -> str:
    """Return the mean of each figure by dose, with its standard deviation over trainings."""
    public = load(runs / "public.json")
    by_dose = {dose: [load(file) for file in sorted(runs.glob(f"dose-{dose}/*/seed-[0-9].json"))] for dose in DOSES}
    headers = ["statistic", "before", *(f"dose {dose} ({len(made)})" for dose, made in by_dose.items())]
    rows = []
    for suite, name in ((suite, name) for suite, names in SUITES.items() for name in names):
        means = (_mean([measured[suite].values[name] for measured in made]) for made in by_dose.values())
        rows.append([f"`{suite}` `{name}`", f"{public[suite].values[name]:.3f}", *means])
    for number, ability in enumerate(public["pronoun-occupation"].abilities):
        values = ([m["pronoun-occupation"].abilities[number].value for m in made] for made in by_dose.values())
        rows.append([f"ability: {ability.name}", f"{ability.value:.3f}", *map(_mean, values)])
    return tabulate(rows, headers, tablefmt="github", disable_numparse=True)


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    lacking = f", {len(values) - len(known)} without a value" if len(known) < len(values) else ""
    return f"{statistics.mean(known):.3f} (sd {statistics.stdev(known):.3f}){lacking}" if len(known) > 1 else "-"


def verdicts(runs: Path) -> str:
    """Return the verdict of each gate on each three trainings, with the growth that it sees."""
    judged = {
        f"dose {path.parent.parent.name.removeprefix('dose-')}, {path.parent.name}": [
            one.judgement for one in read_report(path).judgements
        ]
        for path in sorted(runs.glob("dose-*/*/judged.json"), key=lambda path: (len(path.parts[-3]), path))
    }
    rows = []
    for suite, statistic in GATES:
        of_gate = [
            next((one for one in judgements if (one.suite, one.statistic) == (suite, statistic)), None)
            for judgements in judged.values()
        ]
        rows.append([f"`{suite}` `{statistic}`", _sees(of_gate[0]), *map(_verdict, of_gate)])
    return tabulate(rows, ["gate", "sees", *judged], tablefmt="github", disable_numparse=True)


def _sees(judgement: Judgement | None) -> str:
    sees = None if judgement is None else judgement.of_baseline.sees
    return "-" if sees is None else f"{sees.growth:+.0%}"


def _verdict(judgement: Judgement | None) -> str:
    if judgement is None:
        return "-"
    change = "" if judgement.difference is None else f", {judgement.difference:+.3f}"
    return f"{judgement.verdict}{change}"


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("train", "measure", "gates", "page"):
        command = commands.add_parser(name)
        command.add_argument("--runs", type=Path, required=True)
        if name != "page":
            command.add_argument("--data", type=Path, required=True)
        if name == "train":
            command.add_argument("--trainings", type=int, default=2 * SET)
            command.add_argument("--doses", type=int, nargs="+", default=DOSES)
    typed = parser.parse_args()
    if typed.command == "train":
        train(typed.runs, typed.data.resolve(), typed.trainings, typed.doses)
    elif typed.command == "measure":
        measure(typed.runs, typed.data.resolve())
    elif typed.command == "gates":
        gates(typed.runs, typed.data.resolve())
    else:
        page(typed.runs)


if __name__ == "__main__":
    main()
