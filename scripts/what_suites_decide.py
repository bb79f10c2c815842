"""Measure every packaged suite on real models, and print what a gate on it sees as a table.

    python scripts/what_suites_decide.py --data=../shared/data --out=DIR            # measure each suite and model
    python scripts/what_suites_decide.py --data=../shared/data --out=DIR --write    # put the table into docs/evidence/what-suites-decide.md

A suite whose measurement is in DIR already is not measured again, so that an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import math
import sys
from pathlib import Path

from pytest_genderbias import load_model, measure
from pytest_genderbias.gates.sensitivity import seen_by
from pytest_genderbias.measurement.measurement import Measurement

PAGE = Path(__file__).parent.parent / "docs" / "evidence" / "what-suites-decide.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
LIMIT, FAMILY = 3000, 20  #: cases of a suite, and gates whose bounds hold together
#: Name, path under ``--data``, and suites.
MODELS: tuple[tuple[str, str, str], ...] = (
    (
        "bert-tiny",
        "models/bert-tiny-mlm",
        "lm-occupation pairs-pll weat weat-occupation weat-names weat-math-arts weat-science-arts weat-demonym weat-religion subspace "
        "subspace-demonym subspace-religion sts-occupation coref-occupation disco-terms disco-names ceat ceat-occupation ceat-math-arts "
        "ceat-science-arts probe-compression",
    ),
    ("minilm-nli", "models/minilm-snli", "nli-occupation nli-demonym nli-religion"),
    ("stories260k", "models/stories260k", "lm-occupation pairs-pll"),
    ("neuralcoref", "coref_predictions/neuralcoref_winobias_dev.jsonl.gz", "coref-winobias"),
    ("neuralcoref-wg", "coref_predictions/neuralcoref_winogender.jsonl.gz", "coref-winogender"),
    ("wikitext2", "text:wikitext2/valid.txt.gz", "corpus-cooccurrence"),
    ("careers", "careers.csv", "bios"),
)
CAREERS = "careers.csv"  #: written by this script


#: Options of suites, by the beginning of their names.
OPTIONS = {"ceat": {"draws": 500}, "probe": {"texts": "wiki_career"}}
#: The statistic that is gated, where it is not the main one: the sum of gaps grows with mistakes.
GATED = {"bios": "tpr_gap_rms"}


def measured(model: str, path: str, suite: str, data: Path, out: Path) -> Measurement:
    """Return the measurement of a suite on a model, which DIR keeps."""
    kept = out / f"{model}.{suite}.json"
    if not kept.exists():
        folder = data
        if path == CAREERS:
            folder, path = out, predict_careers(data, out).name
        prefix, _, rest = path.rpartition(":")
        spec = f"{prefix}:{folder / rest}" if prefix else str(folder / rest)
        options = next((values for kind, values in OPTIONS.items() if suite.startswith(kind)), {})
        found = measure(suite, load_model(spec), limit=LIMIT, data=data, cache=None, **options)
        kept.write_text(json.dumps(found.to_dict(records=0)), encoding="utf-8")
    return Measurement.from_dict(json.loads(kept.read_text(encoding="utf-8")))


def predict_careers(data: Path, out: Path) -> Path:
    """Write 10-fold predictions of the professions in Wikipedia's careers: logistic regression on mean vectors of MiniLM."""
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


def row(model: str, measurement: Measurement) -> list[str]:
    """Return what the gate on a measurement sees, alone and among others."""
    statistic = GATED.get(measurement.suite, measurement.main)
    n, n_total = measurement.n, measurement.n_total
    cases = f"{n:,}" + ("" if n == n_total else f" of {n_total:,}")
    cells = [measurement.suite, statistic, model, _number(measurement.values[statistic]), cases]
    source = ""
    for tests in (1, FAMILY):
        seen = seen_by(measurement, statistic, tests)
        cells += ["-", "-"] if seen is None else [_number(seen.red), seen.in_words]
        source = "" if seen is None else seen.retraining
    return [*cells, source]


def _number(value: float | None) -> str:
    return "nothing" if value is None or not math.isfinite(value) else f"{value:.3g}"


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of real models and data sets")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the measurements")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    table = [
        row(model, measured(model, path, suite, arguments.data.resolve(), arguments.out.resolve()))
        for model, path, suites in MODELS
        for suite in suites.split()
    ]
    from tabulate import tabulate

    headers = (
        "suite", "statistic", "model", "value", "cases", "red from, alone", "sees, alone", f"red from, among {FAMILY}",
        f"sees, among {FAMILY}", "other trainings",
    )  # fmt: skip
    table = tabulate(
        sorted(table, key=lambda cells: (cells[0], cells[2])), headers, tablefmt="github", disable_numparse=True
    )
    if not arguments.write:
        print(table)
        return 0
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
