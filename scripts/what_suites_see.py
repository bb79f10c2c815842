"""Say what a gate on each packaged suite sees on real models: the table of ``docs/evidence/what-suites-see.md``.

    python scripts/what_suites_see.py --data=../shared/data --out=DIR [--write]

DIR takes the predictions of careers. Nothing is stored: the figures are those that ``--bias-update-new`` would store
for one checkpoint.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from pytest_genderbias import load_model, measure
from pytest_genderbias.gates.judgement import Seen
from pytest_genderbias.gates.sensitivity import MOST, seen_by, what_would_help, why_too_weak
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.text.printable import format_growth, format_number

PAGE = Path(__file__).parent.parent / "docs" / "evidence" / "what-suites-see.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
LIMIT, GATES = 3000, 5  #: cases of a suite, and gates that the bounds hold for together
OPTIONS = {"ceat": {"draws": 500}, "probe": {"texts": "wiki_career"}}  #: by the beginning of a suite's name
STATISTIC = {"bios": "tpr_gap_rms"}  #: gated in place of the main one, which grows with mistakes
#: Name, path under ``--data``, and suites.
MODELS: tuple[tuple[str, str, str], ...] = (
    (
        "bert-tiny",
        "models/bert-tiny-mlm",
        (
            "lm-occupation pronoun-occupation pairs-pll weat weat-occupation weat-names weat-math-arts"
            " weat-science-arts weat-demonym weat-religion subspace subspace-demonym subspace-religion sts-occupation"
            " coref-occupation disco-terms disco-names ceat ceat-occupation ceat-math-arts ceat-science-arts"
            " probe-compression"
        ),
    ),
    ("minilm-nli", "models/minilm-snli", "nli-occupation nli-demonym nli-religion"),
    ("stories260k", "models/stories260k", "lm-occupation pronoun-occupation pairs-pll"),
    ("neuralcoref", "coref_predictions/neuralcoref_winobias_dev.jsonl.gz", "coref-winobias"),
    ("neuralcoref-wg", "coref_predictions/neuralcoref_winogender.jsonl.gz", "coref-winogender"),
    ("wikitext2", "text:wikitext2/valid.txt.gz", "corpus-cooccurrence"),
    ("careers", "careers.csv", "bios"),
)
CAREERS = "careers.csv"  #: written by this script


def predict_careers(data: Path, out: Path) -> Path:
    """Write 10-fold predictions of the professions in Wikipedia's careers: logistic regression on mean vectors of
    MiniLM.
    """
    import numpy as np
    import torch
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict
    from transformers import AutoModel, AutoTokenizer

    with gzip.open(data / "bios" / "wiki_career.jsonl.gz", "rt", encoding="utf-8") as file:
        people = [json.loads(line) for line in file]
    folder = data / "models" / "minilm-mlm"
    tokenizer, network = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    vectors = []
    with torch.inference_mode():
        for person in people:
            inputs = tokenizer(person["text"], truncation=True, max_length=256, return_tensors="pt")
            vectors.append(network(**inputs).last_hidden_state[0].mean(dim=0).numpy())
    gold = [person["profession"] for person in people]
    predicted = cross_val_predict(LogisticRegression(max_iter=2000), np.stack(vectors), gold, cv=10)
    path = out / CAREERS
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(("id", "prediction", "gold", "group"))
        groups = (person["gender"] for person in people)
        table.writerows(zip(range(len(people)), predicted, gold, groups, strict=True))
    return path


def rows(data: Path, out: Path) -> Iterator[list[str]]:
    """Yield a row for each suite on each of its models."""
    for name, path, suites in MODELS:
        folder = out if path == CAREERS else data
        if path == CAREERS:
            predict_careers(data, out)
        prefix, _, rest = path.rpartition(":")
        model = load_model(f"{prefix}:{folder / rest}" if prefix else str(folder / rest), name=name)
        for suite in suites.split():
            options = next((kept for begin, kept in OPTIONS.items() if suite.startswith(begin)), {})
            yield _row(measure(suite, model, data=data, limit=LIMIT, **options))


def _row(measurement: Measurement) -> list[str]:
    statistic = STATISTIC.get(measurement.suite, measurement.main)
    value, seen = measurement.values[statistic], [seen_by(measurement, statistic, tests) for tests in (1, GATES)]
    row = [measurement.suite, measurement.model, statistic, format_number(value), *map(_growth, seen)]
    if not why_too_weak(measurement, statistic, seen[-1], MOST):
        return [*row, ""]
    return [*row, "; ".join(what_would_help(measurement, statistic, MOST, GATES)) or "nothing"]


def _growth(seen: Seen | None) -> str:
    return "no bounds" if seen is None else f"{format_growth(seen.growth)} %"


def main() -> int:
    """Run the command line."""
    from tabulate import tabulate

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of real models and data sets")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the predictions of careers")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    headers = ("suite", "model", "statistic", "value", "sees, alone", f"among {GATES}", "too weak: what would help")
    made = sorted(rows(arguments.data.resolve(), arguments.out.resolve()))
    table = tabulate(made, headers, tablefmt="github", disable_numparse=True)
    if not arguments.write:
        print(table)
        return 0
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
