"""Show what paraphrases of a suite's templates move on real models, as rows of the table in
docs/evidence/paraphrases.md.

    python scripts/paraphrases.py --models=DIR [--rows=TEXT]    # rows whose suite and model contain the text; default
    all

DIR holds checkpoints in folders of the names below. Every row is measured with the first set of templates, with the
paraphrases, and with both. No data set is read. A value of a single template is the suite's value with that template
alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.measurement.measurement import Measurement

NLI_PAIRS = 2000  #: pairs of one set; both sets have twice as many
HEADER = """\
| suite | model | statistic | first set (95 % interval) | paraphrases | both | single templates |
|---|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class Row:
    """A suite on a model, a folder in ``--models``."""

    suite: str
    model: str
    statistics: tuple[str, ...]
    limit: int | None = None
    first: str = "paper"


OCCUPATIONS = ("aggregate_bias", "signed_bias")
ROWS = (
    *(Row("lm-occupation", model, OCCUPATIONS) for model in ("bert-tiny-mlm", "minilm-mlm", "stories260k")),
    *(Row("coref-occupation", model, OCCUPATIONS) for model in ("bert-tiny-mlm", "minilm-mlm")),
    Row("disco-terms", "bert-tiny-mlm", ("significant_fills",)),
    Row("disco-terms", "minilm-mlm", ("significant_fills",)),
    Row("disco-names", "bert-tiny-mlm", ("significant_fills",)),
    *(
        Row(f"nli-{of}", "minilm-snli", ("net_neutral", "fraction_neutral"), NLI_PAIRS)
        for of in ("occupation", "demonym", "religion")
    ),
    *(
        Row("sts-occupation", model, ("pearson_r", "mean_absolute_difference"), first="own")
        for model in ("minilm-mlm", "bert-tiny-mlm")
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, required=True, help="folder of the checkpoints")
    parser.add_argument("--rows", default="", help="only rows whose suite and model contain this text")
    arguments = parser.parse_args()
    print(HEADER)
    for row in ROWS:
        if arguments.rows in f"{row.suite} {row.model}":
            for line in lines_of(row, arguments.models):
                print(line, flush=True)


def lines_of(row: Row, models: Path) -> list[str]:
    """Return the lines of a row, one a statistic."""
    started = time.monotonic()
    model = load_model(str(models / row.model))
    first, other, both = (
        measure(row.suite, model, limit=limit, templates=sets, cache=None)
        for sets, limit in ((row.first, row.limit), ("paraphrases", row.limit), ("both", row.limit and 2 * row.limit))
    )
    print(f"{row.suite} on {row.model}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    return [
        f"| `{row.suite}` | {row.model} | `{name}` | {_with_interval(first, name)} | {other.values[name]:.3f} "
        f"| {both.values[name]:.3f} | {_range(both, name)} |"
        for name in row.statistics
    ]


def _with_interval(measurement: Measurement, name: str) -> str:
    value, interval = measurement.values[name], measurement.intervals[name]
    if value is None:
        return "-"
    return f"{value:.3f}" if interval is None else f"{value:.3f} ({interval.low:.3f} to {interval.high:.3f})"


def _range(measurement: Measurement, name: str) -> str:
    """Return the lowest and the highest value of a single template."""
    values = by_template(measurement, name)
    return f"{min(values):.3f} to {max(values):.3f} ({len(values)})" if values else "-"


def by_template(measurement: Measurement, name: str) -> list[float]:
    """Return the value of each template alone; none where the measurement does not tell templates apart."""
    if measurement.suite.startswith("nli"):
        return [float(record[name]) for record in measurement.records if record["slice"] == "template"]
    if measurement.suite.startswith("disco"):
        counts = Counter({record["template"]: 0 for record in measurement.records})
        for record in measurement.records:
            counts[record["template"]] += record["significant"]
        return [float(count) for count in counts.values()]
    try:
        sums = measurement.item_sums(name)
    except UndefinedError:
        return []
    if sums.templates is None:
        return []
    return [
        replace(sums, sums=sums.sums[:, [t]], templates=sums.templates[[t]]).total
        for t in np.arange(len(sums.templates))
    ]


if __name__ == "__main__":
    main()
