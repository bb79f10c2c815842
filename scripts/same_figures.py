"""Check that a change of the code changes no figure.

Record the figures with the old code, record them again with the new code, and compare the two files::

    python scripts/same_figures.py --record old.json --data=../shared/data      # in a checkout of the old code
    python scripts/same_figures.py --record new.json --data=../shared/data      # in a checkout of the new code
    python scripts/same_figures.py old.json new.json

Without ``--data`` only the demo models are recorded. ``tests/test_same_figures.py`` compares them with
``tests/support/demo_figures.json``, which ``--record=tests/support/demo_figures.json --main --limit=200`` writes. The
comparison fails with exit status 1 if a value, an interval, a record, an item statistic or a signature differs in a
single bit. Texts for readers (reasons, notes, names of methods) may be reworded: the comparison counts them, and
``--texts`` prints them. Any two JSON files that ``--bias-json`` wrote can be compared, too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

DEMO_MODELS = ("demo-mlm", "demo-lm", "demo-nli")
#: Models and tables under ``--data``, each with the largest number of cases of a suite.
REAL_MODELS = (
    ("models/bert-tiny-mlm", 1000),
    ("models/stories260k", 1000),
    ("models/minilm-snli", 500),
    ("models/minilm-mlm", 300),
    ("coref_predictions/neuralcoref_winobias_dev.jsonl.gz", 1000),
    ("coref_predictions/neuralcoref_winogender.jsonl.gz", 1000),
    ("text:wikitext2/valid.txt.gz", 1000),
)
#: Suites that train or generate for minutes, with options that make them short.
SHORT: dict[str, dict[str, Any]] = {
    "corpus-cooccurrence": {"seeds": 20, "length": 60},
    "ceat": {"draws": 500},
    "ceat-math-arts": {"draws": 500},
    "ceat-science-arts": {"draws": 500},
    "ceat-occupation": {"draws": 500},
}
#: Keys of a measurement that are compared; a later version may have more.
COMPARED = frozenset(
    {
        "suite", "model", "values", "intervals", "whole_suite", "bounds", "reasons", "null", "n", "n_total", "records",
        "signature", "notes",
    }
)  # fmt: skip
#: What ``--main`` keeps of them.
MAIN = ("values", "intervals", "whole_suite", "bounds", "null", "n", "n_total", "error", "not_applicable")
#: Keys that have been renamed since, old name first.
RENAMED = {"whole_suite": "bounds", "place": "p_value"}
#: Keys whose values are texts for readers, or differ between any two runs.
TEXTS = frozenset(
    {
        "reasons",
        "notes",
        "meaning",
        "method",
        "over",
        "what",
        "text",
        "bound",
        "settled_by",
        "accept",
        "lines",
        "examples",
    }
)
IGNORED = frozenset({"versions", "spec", "created", "seconds", "date", "command", "version", "schema", "main"})


def record(
    data: Path | None, limit: int, null: int, suites: Sequence[str] = (), specs: Sequence[str] = ()
) -> dict[str, Any]:
    """Measure packaged suites, all by default, on every model that they apply to, and return all figures."""
    from pytest_genderbias import BiasError, NotApplicableError, load_model, measure, suite_names

    figures: dict[str, Any] = {}
    models = [(name, name, limit) for name in specs or DEMO_MODELS]
    if data is not None and not specs:
        for path, most in REAL_MODELS:
            prefix, _, rest = path.rpartition(":")
            models.append((path, f"{prefix}:{data / rest}" if prefix else str(data / rest), most))
    for name, spec, most in models:
        model = load_model(spec, device="cpu")
        for suite in suites or suite_names():
            start = time.monotonic()
            try:
                options = {k: v for k, v in SHORT.get(suite, {}).items() if k in _options(suite)}
                unasked = "none: figures are compared, and no model is judged"
                measurement = measure(
                    suite, model, limit=most, data=data, cache=None, null=null, ability=unasked, **options
                )
            except NotApplicableError as error:
                figures[f"{suite} on {name}"] = {"not_applicable": True}
                print(f"{suite} on {name}: {str(error)[:90]}", flush=True)
                continue
            except BiasError as error:
                figures[f"{suite} on {name}"] = {"error": type(error).__name__}
                print(f"{suite} on {name}: {error}", flush=True)
                continue
            figures[f"{suite} on {name}"] = _figures_of(measurement)
            print(f"{suite} on {name}: {measurement.value} ({time.monotonic() - start:.1f} s)", flush=True)
    plain: dict[str, Any] = json.loads(json.dumps(figures, sort_keys=True, default=_plain))
    return plain


def _figures_of(measurement: Any) -> dict[str, Any]:
    """Return what is compared of a measurement."""
    content = measurement.to_dict()
    directions = {name: [one["direction"], one["neutral"]] for name, one in content["statistics"].items()}
    return {
        **{key: value for key, value in content.items() if key in COMPARED},
        "statistics": directions,
        "items": _digests(measurement.items),
    }


def main_figures(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the figures without records, item statistics and signatures: what a test can keep."""
    return {name: {key: entry[key] for key in MAIN if key in entry} for name, entry in figures.items()}


def _options(suite: str) -> frozenset[str]:
    from pytest_genderbias import load_suite

    return frozenset(load_suite(suite).family.options)


def _plain(value: Any) -> Any:
    """Return a numpy scalar or array as plain JSON."""
    return value.tolist()


def _digests(items: Any) -> dict[str, Any]:
    """Return the type, shape and SHA-256 of each array of item statistics."""
    import numpy as np

    found = {}
    for name, array in items.items():
        values = np.ascontiguousarray(array)
        found[name] = [str(values.dtype), list(values.shape), hashlib.sha256(values.tobytes()).hexdigest()]
    return found


def differences(old: Any, new: Any, path: str = "", tolerance: float = 0.0) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield ``(kind, path, old, new)`` for each leaf: kind is ``same``, ``text`` (reworded), ``added`` (a new key) or
    ``figure`` (differs).

    Numbers within ``tolerance`` of each other, relative or absolute, count as the same; by default every bit counts.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        old = {RENAMED.get(key, key): value for key, value in old.items()}
        new = {RENAMED.get(key, key): value for key, value in new.items()}
        for key in sorted({*old, *new} - IGNORED):
            inner = f"{path} / {key}"
            if key in TEXTS:
                same = old.get(key) == new.get(key)
                yield ("same" if same else "text"), inner, old.get(key), new.get(key)
            elif key not in old:
                yield "added", inner, "nothing", new[key]
            elif key not in new:
                yield "figure", inner, old[key], "nothing"
            else:
                yield from differences(old[key], new[key], inner, tolerance)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, f"{path} / {i}", tolerance)
    else:
        same = type(old) is type(new) and (old == new or (old != old and new != new))
        if tolerance and isinstance(old, float) and isinstance(new, float):
            same = same or math.isclose(old, new, rel_tol=tolerance, abs_tol=tolerance)
        yield ("same" if same else "figure"), path, old, new


def compare(old: Path, new: Path, texts: bool) -> int:
    """Compare two files, print what differs, and return the exit status."""
    counts = {"same": 0, "text": 0, "added": 0, "figure": 0}
    pair = [json.loads(path.read_text(encoding="utf-8")) for path in (old, new)]
    for kind, path, was, now in differences(*pair):
        counts[kind] += 1
        if kind == "figure" or (texts and kind == "text"):
            print(f"{kind}{path}: {was!r} -> {now!r}"[:400])
    print(
        f"{counts['same'] + counts['figure']:,} figures, {counts['figure']} different; {counts['added']} keys added, "
        f"{counts['text']} texts reworded"
    )
    return 1 if counts["figure"] or not counts["same"] else 0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="two recordings to compare, the old one first"
    )
    parser.add_argument("--record", type=Path, metavar="FILE", help="measure, and write the figures to FILE")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of real models and data sets")
    parser.add_argument("--limit", type=int, default=2000, help="largest number of cases of a suite on the demo models")
    parser.add_argument("--null", type=int, default=20, help="shuffles of the null control")
    parser.add_argument("--suites", default="", help="record only these suites, separated by commas")
    parser.add_argument(
        "--model", action="append", default=[], metavar="SPEC", help="record this model in place of all others"
    )
    parser.add_argument("--main", action="store_true", help="record only values, intervals, bounds and null controls")
    parser.add_argument("--texts", action="store_true", help="print the reworded texts, too")
    arguments = parser.parse_args()
    if arguments.record:
        suites = [name for name in arguments.suites.split(",") if name]
        figures = record(arguments.data, arguments.limit, arguments.null, suites, arguments.model)
        figures = main_figures(figures) if arguments.main else figures
        arguments.record.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return 0
    if len(arguments.files) != 2:
        parser.error("expected two files to compare, or --record FILE")
    return compare(*arguments.files, texts=arguments.texts)


if __name__ == "__main__":
    sys.exit(main())
