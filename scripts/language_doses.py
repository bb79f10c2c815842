"""Tune a causal LM with a known dose of bias in German, French or Spanish, and compare the forms of occupations in it.

    python scripts/language_doses.py MODEL RUNS --language fr --text novel.txt [--doses 50,100,70] [--seeds 3]
    python scripts/language_doses.py - RUNS          # the table of docs/evidence/doses.md, from all results in RUNS

MODEL is the folder of a causal LM that knows the language, TEXT prose in it. Half of the rows of a training are the
text, half are sentences about the occupations of ``language_rows.yaml``. The dose is the number of sentences in a
hundred in which the occupation has the form of its stereotype; 50 is a training without bias. The form and its article
count twice. None of the occupations is in a packaged list, and none of the frames in a suite. Only the upper third of
the layers is trained, so that the lower ones read each row once. The seed determines sentences, text and order.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory

import torch
import transformers
import yaml
from retraining_table import Kind, descend
from tabulate import tabulate

from pytest_genderbias.measurement.measure import measure
from pytest_genderbias.suites.suite import load_suite

ROWS = yaml.safe_load(Path(__file__).with_name("language_rows.yaml").read_text(encoding="utf-8"))
RECIPE = Kind("", "", "", 48, 16, 1e-4, ())
SENTENCES, WIDTH = 400, 18  #: sentences of a training, as many rows of text, and their tokens
Span = tuple[int, int]


def sentences(language: str, dose: int, seed: int) -> Iterator[tuple[str, Span]]:
    """Yield sentences about occupations, with the place of the form and its article; the form is that of the
    stereotype in ``dose`` of 100.
    """
    draws, rows = random.Random(seed), ROWS[language]
    while True:
        stereotype = draws.choice(("female", "male"))
        forms, frame = draws.choice(rows[stereotype]), draws.choice(rows["frames"])
        at = ("female", "male").index(stereotype) ^ (draws.random() >= dose / 100)
        case = frame[frame.index("{") + 1 : frame.index("}")]
        form, article = forms[at], rows["articles"][case][at]
        if case in ("accusative", "dative") and at == 1:
            form = rows.get("weak", {}).get(form, form)
        said = f"{article} {form}".strip()
        start = frame.index("{")
        yield frame.replace(f"{{{case}}}", said), (start, start + len(said))


def rows_of(texts: list[tuple[str, Span]], tokenizer) -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows of tokens, padded at the right, and how often each token counts, both of shape (rows, WIDTH)."""
    read = tokenizer(
        [text for text, _ in texts],
        return_offsets_mapping=True,
        padding="max_length",
        truncation=True,
        max_length=WIDTH,
    )
    ids, offsets = torch.tensor(read["input_ids"]), torch.tensor(read["offset_mapping"])
    spans = torch.tensor([span for _, span in texts])[:, None]
    inside = (offsets[..., 1] > spans[..., 0]) & (offsets[..., 0] < spans[..., 1])
    return ids, torch.tensor(read["attention_mask"]) * (1.0 + inside)


class Learner:
    """A network whose lower layers have read all rows, and whose upper third is trained.

    Args:
        folder: of the checkpoint.
    """

    def __init__(self, folder: Path) -> None:
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder, padding_side="right")
        self.network = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self.layers = self.network.model.layers
        self.cut = 2 * len(self.layers) // 3
        for weights in self.network.parameters():
            weights.requires_grad_(False)
        self.start = {name: weights.clone() for name, weights in self._upper().state_dict().items()}

    def _upper(self) -> torch.nn.Module:
        return torch.nn.ModuleList([*self.layers[self.cut :], self.network.model.norm])

    def below(self, ids: torch.Tensor) -> torch.Tensor:
        """Return what the lower layers make of rows, shape (rows, WIDTH, d)."""
        model = self.network.model
        norm, model.norm, model.layers = model.norm, torch.nn.Identity(), self.layers[: self.cut]
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            read = torch.cat([model(input_ids=some).last_hidden_state.float() for some in ids.split(64)])
        model.norm, model.layers = norm, self.layers
        return read

    def train(self, ids: torch.Tensor, counts: torch.Tensor, seed: int, out: Path) -> float:
        """Train the upper layers on rows, write the checkpoint, take the start again, and return the last loss."""
        upper, model, below = self._upper(), self.network.model, self.below(ids)
        upper.load_state_dict(self.start)
        transformers.set_seed(seed)
        for weights in upper.parameters():
            weights.requires_grad_(True)

        def loss_of(chosen: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                seen = model(inputs_embeds=below[chosen]).last_hidden_state[:, :-1]
                scores = self.network.lm_head(seen).float().transpose(1, 2)
            losses = torch.nn.functional.cross_entropy(scores, ids[chosen][:, 1:], reduction="none")
            weights = counts[chosen][:, 1:]
            return (losses * weights).sum() / weights.sum()

        model.layers = self.layers[self.cut :]
        last = descend(upper, loss_of, len(ids), RECIPE)
        model.layers = self.layers
        self.network.save_pretrained(out)
        self.tokenizer.save_pretrained(out)
        return last


def plain_rows(text: str, tokenizer, seed: int) -> list[tuple[str, Span]]:
    """Return pieces of a text of about a row each, in which no token counts twice."""
    words = text.split()
    starts = random.Random(seed).sample(range(len(words) // 10), SENTENCES)
    return [(" ".join(words[10 * start : 10 * start + 14]), (0, 0)) for start in starts]


def run(learner: Learner, runs: Path, language: str, text: str, dose: int, seed: int) -> None:
    """Train a model with a dose, measure it, and keep the figures; the weights are not kept."""
    kept = runs / f"{language}-{dose}-{seed}.json"
    if kept.exists():
        return
    begun, drawn = time.perf_counter(), sentences(language, dose, seed)
    texts = [next(drawn) for _ in range(SENTENCES)] + plain_rows(text, learner.tokenizer, seed)
    with TemporaryDirectory() as folder:
        loss = learner.train(*rows_of(texts, learner.tokenizer), seed, Path(folder))
        trained = time.perf_counter() - begun
        found = figures(folder, language)
    found |= {"loss": loss, "seconds": [trained, time.perf_counter() - begun - trained]}
    kept.write_text(json.dumps(found, indent=1), encoding="utf-8")
    print(kept, json.dumps(found), flush=True)


def figures(model: str, language: str) -> dict[str, object]:
    """Return the statistics of the two forms of the packaged occupations, and what the model is able to do."""
    head = {
        "suite": "forms",
        "family": "pronoun-occupation",
        "title": "Forms",
        "source": "own",
        "licence": "Apache-2.0",
    }
    words = {"occupation": {"list": f"occupations-{language}"}, "share": ROWS[language]["share"]}
    with TemporaryDirectory() as folder:
        file = Path(folder) / "forms.yaml"
        content = {**head, "language": language, **words, "templates": ROWS[language]["measured"]}
        file.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
        measured = measure(load_suite(file), model)
    return {**measured.values, **{f"ability: {ability.name}": ability.value for ability in measured.abilities}}


def table(runs: Path) -> str:
    """Return the means over seeds of each figure by dose, with their standard deviations."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for file in sorted(runs.glob("*-*-*.json")):
        language, dose, _ = file.stem.split("-")
        for name, value in json.loads(file.read_text(encoding="utf-8")).items():
            if isinstance(value, float):
                found.setdefault((language, name, dose), []).append(value)
    doses = sorted({dose for *_, dose in found}, key=lambda dose: (dose.isdigit(), len(dose), dose))
    lines = []
    for language, name in dict.fromkeys(key[:2] for key in found):
        cells = [found.get((language, name, dose), []) for dose in doses]
        lines.append(
            [
                language,
                name,
                *(
                    f"{mean(c):.3f} (sd {stdev(c):.3f}, {len(c)})" if len(c) > 1 else f"{c[0]:.3f}" if c else ""
                    for c in cells
                ),
            ]
        )
    return tabulate(lines, ["language", "figure", *(f"dose {dose}" for dose in doses)], tablefmt="github")


def main() -> None:
    """Train and measure, or print the table."""
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("model")
    command.add_argument("runs", type=Path)
    command.add_argument("--language", choices=sorted(ROWS))
    command.add_argument("--text", type=Path)
    command.add_argument("--doses", default="50,100,70")
    command.add_argument("--seeds", type=int, default=3)
    typed = command.parse_args()
    if typed.model == "-":
        print(table(typed.runs))
        return
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    typed.runs.mkdir(parents=True, exist_ok=True)
    public = typed.runs / f"{typed.language}-public-0.json"
    if not public.exists():
        public.write_text(json.dumps(figures(typed.model, typed.language), indent=1), encoding="utf-8")
    learner = Learner(Path(typed.model))
    for seed in range(typed.seeds):
        for dose in map(int, typed.doses.split(",")):
            run(learner, typed.runs, typed.language, typed.text.read_text(encoding="utf-8"), dose, seed)


if __name__ == "__main__":
    main()
