"""Plan a gate on every packaged suite on real models, and write what each suite can decide as a table.

    python scripts/what_suites_decide.py --data=../shared/data --out=DIR            # pytest --bias-plan for each suite and model
    python scripts/what_suites_decide.py --data=../shared/data --out=DIR --write    # put the table into docs/evidence/what-suites-decide.md

A suite whose report is in DIR already is not planned again, so that an interrupted run goes on. All figures come from the JSON reports.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "evidence" / "what-suites-decide.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
LIMIT, FAMILY = 3000, 20  #: cases of a suite, and gates that every plan is corrected for
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


def plan(model: str, path: str, suite: str, data: Path, out: Path) -> None:
    """Plan the main statistic of a suite on a model (of ``bios``, the root mean square of gaps), by ``pytest --bias-plan``."""
    report = out / f"{model}.{suite}.json"
    if report.exists():
        return
    if path == CAREERS:
        data, path = out, predict_careers(data, out).name
    prefix, _, rest = path.rpartition(":")
    spec = f"{prefix}:{data / rest}" if prefix else str(data / rest)
    nothing = out / "nothing"  # so that only what is named is collected
    nothing.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(out)]
    command += [str(_gate_on_roots(out))] if path == CAREERS else [str(nothing), f"--bias-suite={suite}"]
    command += [f"--bias-model={model}={spec}", "--bias-plan", f"--bias-limit={LIMIT}", f"--bias-correct-for={FAMILY}"]
    command += [f"--bias-data={data}", f"--bias-json={report}"]
    options = {"ceat": "draws=500", "probe": "texts=wiki_career"}
    command += [f"--bias-option={suite}:{option}" for kind, option in options.items() if suite.startswith(kind)]
    with (out / f"{model}.{suite}.log").open("w") as log:
        subprocess.run(command, cwd=out, stdout=log, stderr=subprocess.STDOUT, check=False)


def _gate_on_roots(out: Path) -> Path:
    """Write a gate on the root mean square of gaps: the sum, which is the main statistic, grows with mistakes."""
    path = out / "gate" / "bios.bias.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        "gates: [{suite: bios, statistic: tpr_gap_rms, baseline: true, tolerance: auto}]\n", encoding="utf-8"
    )
    return path


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


def rows(out: Path) -> list[list[str]]:
    """Return a row a planned suite and model, and one for each that cannot be planned."""
    table = []
    for model, _, suites in MODELS:
        for suite in suites.split():
            report = out / f"{model}.{suite}.json"
            if report.exists():
                judgements = json.loads(report.read_text(encoding="utf-8"))["judgements"]
                table += [_row(judgement) for judgement in judgements if judgement["facts"].get("plan") is not None]
    return sorted(table, key=lambda row: (row[0], row[2]))


def _row(judgement: dict[str, object]) -> list[str]:
    facts = judgement["facts"]
    assert isinstance(facts, dict)
    known, value = facts["plan"], judgement["value"]
    cases = f"{judgement['n']:,}" + ("" if judgement["n"] == judgement["n_total"] else f" of {judgement['n_total']:,}")
    row = [
        str(judgement["suite"]),
        str(judgement["statistic"]),
        str(judgement["model"]),
        _number(value),
        known["over"] or "-",
        cases,
    ]
    if known["tolerance"] is None:
        return [*row, *["-"] * 4, known["why"]]
    figures = (known["alone"], known["planned"], known["worsening"], known["worsening_together"])
    return [*row, *(_number(figure) for figure in figures), ""]


def _number(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, (int, float)) else "nothing"


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of real models and data sets")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the reports")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if not arguments.write:
        for model, path, suites in MODELS:
            for suite in suites.split():
                plan(model, path, suite, arguments.data.resolve(), arguments.out.resolve())
    from tabulate import tabulate

    headers = (
        "suite", "statistic", "model", "value", "items", "cases", "least tolerance", f"for all of {FAMILY}", "finds, alone",
        f"finds, among {FAMILY}", "note",
    )  # fmt: skip
    table = tabulate(rows(arguments.out), headers, tablefmt="github", disable_numparse=True)
    if not arguments.write:
        print(table)
        return 0
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
