"""Run the benchmarks: ``python benchmarks/run.py [--only NAME ...] [--quick] [--json FILE]``."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from checkpoints import NoTokenizerError
from rows import Row, Skipped, plain, table
from timing import count_processor_time, machine

BENCHMARKS = (
    "plugin_load",
    "startup",
    "token_ids",
    "memory",
    "nli",
    "disco",
    "pseudo_likelihood",
    "ceat",
    "probes",
    "cooccurrence",
    "counterfactual",
)


def main() -> int:
    """Run the selected benchmarks, print the table, and return 1 if a figure misses its limit."""
    parser = argparse.ArgumentParser(
        description="Benchmarks of pytest-genderbias against the code that a user would write without it."
    )
    parser.add_argument(
        "--only", nargs="+", choices=BENCHMARKS, default=BENCHMARKS, metavar="NAME", help=", ".join(BENCHMARKS)
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, to check that everything runs; no verdict on the figures"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the figures and the facts about the machine to FILE"
    )
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help=(
            "count the processor's time of this process, with one thread: for a machine that does other things as well"
        ),
    )
    arguments = parser.parse_args()
    if arguments.processor_time:
        count_processor_time()
    facts = machine()
    rows = [row for name in BENCHMARKS if name in arguments.only for row in _run(name, arguments.quick)]
    print("; ".join(f"{name} {value}" for name, value in facts.items()), table(rows), sep="\n\n")
    if arguments.json:
        report = {"machine": facts, "quick": arguments.quick, "rows": [plain(row) for row in rows]}
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    missed = [row for row in rows if isinstance(row, Row) and row.ok is False]
    return 1 if missed else 0


def _run(name: str, quick: bool) -> list[Row | Skipped]:
    print(f"{name} ...", file=sys.stderr, flush=True)
    try:
        rows: list[Row] = import_module(name).run(quick)
    except NoTokenizerError as error:
        return [Skipped(name, str(error))]
    return [replace(row, at_least=None, at_most=None) if quick else row for row in rows]


if __name__ == "__main__":
    sys.exit(main())
