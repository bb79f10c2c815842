"""The audit pack (``--to audit``): a dated folder of evidence of one run, with a manifest of SHA-256 digests, and an
in-toto statement over it.

Two of its pages have the order of a form: a bias profile, and the summary of selection rates. What a run does not hold
is ``not stated`` there; nothing is filled in.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from pytest_genderbias.errors import DataFileError, WriteError
from pytest_genderbias.folders import write_whole
from pytest_genderbias.gates.verdicts import FAILED
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.plain_data import as_plain, read_mapping
from pytest_genderbias.reports.fields import (
    FIGURE_COLUMNS,
    GATE_COLUMNS,
    SAID,
    Cell,
    between,
    figures_of,
    largest,
    packaged_suite,
)
from pytest_genderbias.reports.figures.files import write_figures
from pytest_genderbias.reports.html_page import describe_history, safe, words_of, write_report
from pytest_genderbias.reports.records import as_csv, cell_text, write_records
from pytest_genderbias.reports.run_report import RunReport, SelectionRow, write_json
from pytest_genderbias.reports.run_summary import broken_tests, run_verdict
from pytest_genderbias.reports.run_tables import reduction_rows
from pytest_genderbias.reports.selection import ABOVE_MEDIAN
from pytest_genderbias.suites.suite import suite_names
from pytest_genderbias.text.columns import together
from pytest_genderbias.text.plain_files import parse_json, read_whole
from pytest_genderbias.text.printable import brief, counted, cut, escape, json_text, markdown_table

SCHEMA = 1  #: of the manifest
MANIFEST, SUMS, STATEMENT = "manifest.json", "SHA256SUMS", "statement.intoto.json"
_LARGEST = 2**26  #: bytes of a manifest
_LONGEST = 4_000  #: characters of a text
_LONGEST_CELL = 400  #: characters of a cell of a page, or of what stands before a text
_CONFIGURATION = ("run.json", "signatures.json", "data.json")  #: what the tests depend on


@dataclass(frozen=True)
class Part:
    """A file or folder of a pack.

    Attributes:
        name: of the file, or of the folder.
        what: what it holds, in a few words.
        write: function that writes it to a path.
        needs: what the report must have for the pack to have this part; empty for nothing.
    """

    name: str
    what: str
    write: Callable[[RunReport, Path], None]
    needs: str = ""


def write_audit(report: RunReport, directory: Path) -> None:
    """Write the pack of a run into a new folder, whose name is the date of the run and the beginning of its digest.

    The folder appears when it is complete. Packs that are there stay as they are.

    Raises:
        WriteError: the pack of this run is there already.
        OSError: the folder cannot be written.
    """
    name = pack_name(report)
    target, unfinished = directory / name, directory / f".{name}-{secrets.token_hex(4)}"
    if target.exists():
        raise WriteError(None, "the pack of this run is there already", str(target))
    unfinished.mkdir(parents=True)
    try:
        parts = parts_of(report)
        for part in parts:
            part.write(report, unfinished / part.name)
        _write_manifest(report, unfinished, parts)
        unfinished.rename(target)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def pack_name(report: RunReport) -> str:
    """Return the name of the folder of a run: its date in UTC, and the first eight digits of a SHA-256 over all of
    it.
    """
    digest = hashlib.sha256(json_text(report.to_dict()).encode()).hexdigest()[:8]
    moment = report.run.moment_in_utc
    return f"{moment:%Y-%m-%dT%H%M%SZ}-{digest}" if moment else digest


def check_pack(folder: Path) -> list[str]:
    """Return what differs between a pack and its manifest, a line each: files that are missing, changed, or not listed.

    Raises:
        DataFileError: there is no manifest, or it cannot be read.
    """
    path = folder / MANIFEST
    content = read_mapping(parse_json(read_whole(path, _LARGEST), str(path)), str(path))
    listed = content.get("files")
    if content.get("schema") != SCHEMA or not isinstance(listed, list):
        raise DataFileError(f"{path}: expected a manifest of schema {SCHEMA}, got {brief(content.get('schema'))}")
    digests = {}
    for entry in listed:
        row = read_mapping(entry, f"{path}: files")
        digests[str(row.get("path"))] = row.get("sha256")
    here = {_relative(folder, file): file for file in _files(folder)}
    lines = [f"{name}: missing" for name in sorted(digests.keys() - here.keys())]
    lines += [f"{name}: changed" for name, file in here.items() if name in digests and _sha256(file) != digests[name]]
    if STATEMENT in here and not _is_of(here[STATEMENT], path):
        lines.append(f"{STATEMENT}: of another manifest")
    known = {*digests, MANIFEST, SUMS, STATEMENT}
    return lines + [f"{name}: not in the manifest" for name in sorted(here.keys() - known)]


def _is_of(statement: Path, manifest: Path) -> bool:
    try:
        said = parse_json(read_whole(statement, _LARGEST), str(statement))
    except DataFileError:
        return False
    return isinstance(said, Mapping) and said.get("subject") == [_described(manifest)]


# The manifest.


def _write_manifest(report: RunReport, folder: Path, parts: Sequence[Part]) -> None:
    what = {part.name: part.what for part in parts}
    files = [
        {
            "path": _relative(folder, file),
            "bytes": file.stat().st_size,
            "sha256": _sha256(file),
            "content": what.get(_relative(folder, file).partition("/")[0], ""),
        }
        for file in _files(folder)
    ]
    manifest = {"schema": SCHEMA, "date": report.run.date, "version": report.run.version, "files": files}
    write_whole(folder / MANIFEST, (json_text(manifest) + "\n").encode())
    write_whole(folder / STATEMENT, (json_text(_statement(report, folder)) + "\n").encode())
    sums = [f"{_sha256(file)}  {_relative(folder, file)}\n" for file in _files(folder)]
    write_whole(folder / SUMS, "".join(sums).encode())


def _statement(report: RunReport, folder: Path) -> dict[str, object]:
    """Return an in-toto statement (v1) on the manifest, whose predicate is a test result (v0.1). It bears no
    signature.
    """
    tests: dict[str, list[str]] = {"passed": [], "warned": [], "failed": []}
    outcomes = [(one.test, one.outcome) for one in report.judgements] + [(t.test, FAILED) for t in broken_tests(report)]
    for test, outcome in outcomes:
        tests[outcome if outcome in tests else "warned"].append(test)
    _, verdict = run_verdict(report)
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [_described(folder / MANIFEST)],
        "predicateType": "https://in-toto.io/attestation/test-result/v0.1",
        "predicate": {
            "result": (verdict if verdict in tests else "warned").upper(),
            "configuration": [_described(folder / name) for name in _CONFIGURATION],
            **{f"{outcome}Tests": list(dict.fromkeys(names)) for outcome, names in tests.items()},
        },
    }


def _described(file: Path) -> dict[str, object]:
    """Return the resource descriptor of a file, as in-toto has it."""
    return {"name": file.name, "digest": {"sha256": _sha256(file)}}


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _relative(folder: Path, file: Path) -> str:
    return file.relative_to(folder).as_posix()


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


# The parts.


#: Columns of the tables, by their names in :mod:`~pytest_genderbias.reports.fields`.
_VERDICTS = (
    "outcome", "verdict", "model", "suite", "gate", "statistic", "value", "low", "high", "over", "bound", "difference",
    "p", "tests", "n", "n_total", "accepted_on", "baseline", "margin", "accepted", "test", *SAID, "reason",
)  # fmt: skip
_VALUES = (
    "model", "suite", "statistic", "value", "low", "high", "level", "over", "neutral", "direction", "n", "n_total",
    "meaning", "reason",
)  # fmt: skip
#: Columns by the fields of a row.
_SELECTIONS = {field.name: field.name for field in fields(SelectionRow)} | {
    "rate": "selection rate", "ratio": "impact ratio", "low": "lower bound", "high": "upper bound",
}  # fmt: skip


def _verdicts(report: RunReport) -> Iterator[dict[str, Cell]]:
    for settled in report.judgements:
        values = {name: GATE_COLUMNS[name].value(settled) for name in _VERDICTS}
        values["accepted"] = GATE_COLUMNS["accepted"].text(settled)
        yield {GATE_COLUMNS[name].header: value for name, value in values.items()}
    for broken in broken_tests(report):
        where = {"model": broken.model, "suite": broken.suite, "test": broken.test}
        yield {"outcome": FAILED, "verdict": "none", **where, "reason": broken.text}
    for test in report.not_judged:
        yield {
            "outcome": "skipped",
            "verdict": "not judged",
            "model": test.model,
            "test": test.test,
            "reason": test.reason,
        }


def _values(report: RunReport) -> Iterator[dict[str, Cell]]:
    for figure in figures_of(report.measurements):
        yield {FIGURE_COLUMNS[name].header: FIGURE_COLUMNS[name].value(figure) for name in _VALUES}


def _selections(report: RunReport) -> Iterator[dict[str, Cell]]:
    for row in report.selections:
        yield {_SELECTIONS[name]: value for name, value in vars(row).items()}


def _signatures(report: RunReport) -> object:
    return [
        {
            "model": measurement.model,
            "suite": measurement.suite,
            "signature": as_plain(measurement.signature, finite=True),
            "notes": list(measurement.notes),
            "reasons": dict(measurement.reasons),
        }
        for measurement in report.measurements
    ]


def _run(report: RunReport) -> object:
    return as_plain(report.run, finite=True)


def _data(report: RunReport) -> object:
    """Return the digests of everything that was measured: suites with their word lists, the user's data, and models."""
    suites: dict[str, dict[str, object]] = {}
    models: dict[str, object] = {}
    for measurement in report.measurements:
        signature = measurement.signature
        suites.setdefault(measurement.suite, {})[str(signature["digest"])] = {
            "definition": signature["definition"],
            "data": as_plain(signature["data"], finite=True),
        }
        models[measurement.model] = as_plain(signature["model"], finite=True)
    return {"suites": suites, "models": models}


def _table_writer(
    rows_of: Callable[[RunReport], Iterator[dict[str, Cell]]], columns: Sequence[str]
) -> Callable[[RunReport, Path], None]:
    def write(report: RunReport, path: Path) -> None:
        rows = [
            {name: cell_text(cell) if isinstance(cell, str) else cell for name, cell in row.items()}
            for row in rows_of(report)
        ]
        write_whole(path, as_csv(columns, rows))

    return write


def _json_writer(data_of: Callable[[RunReport], object]) -> Callable[[RunReport, Path], None]:
    def write(report: RunReport, path: Path) -> None:
        write_whole(path, (json_text(data_of(report)) + "\n").encode())

    return write


def _page_writer(name: str, content: Callable[[RunReport], Mapping[str, object]]) -> Callable[[RunReport, Path], None]:
    """Return what writes a page of markdown: ``audit_NAME.md.jinja``, in which every text is cut and escaped."""

    def write(report: RunReport, path: Path) -> None:
        from jinja2 import Environment, StrictUndefined

        environment = Environment(
            autoescape=True, undefined=StrictUndefined, finalize=_shown, trim_blocks=True, lstrip_blocks=True
        )
        environment.filters["counted"] = counted
        template = Path(__file__).with_name(f"audit_{name}.md.jinja").read_text(encoding="utf-8")
        known = {"report": report, "run": report.run, "specs": _specs(report), "point": _point}
        text = environment.from_string(template).render(**known, **content(report))
        write_whole(path, (text.rstrip() + "\n").encode())

    return write


def _shown(value: object) -> object:
    return value if hasattr(value, "__html__") else safe(escape(cut(str(value), _LONGEST)))


def _point(label: str, text: str = "") -> str:
    return safe(f"- **{escape(cut(label, _LONGEST_CELL))}**: {escape(cut(text, _LONGEST)) or 'not stated'}")


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[int] = ()) -> str:
    return safe(markdown_table(headers, [[cut(cell, _LONGEST_CELL) for cell in row] for row in rows], right))


def _specs(report: RunReport) -> dict[str, str]:
    """Return the SPEC of each model of a run by its name, with its fingerprint where it was measured."""
    fingerprints = {one.model: one.signature["model"].get("fingerprint") for one in report.measurements}
    return {
        model.name: f"{model.spec}, fingerprint {known}" if (known := fingerprints.get(model.name)) else model.spec
        for model in report.run.models
    }


def _readme(report: RunReport) -> Mapping[str, object]:
    return {
        "suites": len({measurement.suite for measurement in report.measurements}),
        "models": ", ".join(f"{model.name} ({model.spec})"[:200] for model in report.run.models),
        "verdict": run_verdict(report)[0],
        "failed": sum(settled.outcome == FAILED for settled in report.judgements),
        "parts": parts_of(report),
    }


def _questions(report: RunReport, path: Path) -> None:
    write_whole(path, Path(__file__).with_name("audit_questions.md").read_bytes())


_MEASURES = ("suite", "statistic", "direction", "neutral", "meaning")
_RESULTS = ("subject", "statistic", "model", "value", "bound", "verdict", "n")


def _profile(report: RunReport) -> Mapping[str, object]:
    """Return what a run knows of the bias of its models."""
    measured = largest(report.measurements, lambda one: (one.suite, one.signature["digest"]))
    persons = together(
        (f"{row.model} by {row.category}", row.group) for row in report.selections if row.rate is not None
    )
    without_ratio = {
        (" ".join(filter(None, (row.model, row.category, row.group))), f"{row.note}; {row.persons:,} persons"): None
        for row in report.selections
        if row.note
    }
    limits = {(one.gate_name, one.statistic, one.bound, *one.evidence.items()): one for one in report.judgements}
    return {
        "measured": measured,
        "words_of": words_of,
        "groups_of": _groups,
        "persons": persons,
        "broken_tests": broken_tests,
        "without_ratio": without_ratio,
        "unmeasured": sorted({*suite_names()} - {one.suite for one in report.measurements}),
        "measures": _measures(report, measured),
        "limits": limits.values(),
        "said": SAID,
        "results": _results(report),
        "mitigation": _table(*reduction_rows(report.judgements)),
        "describe_history": describe_history,
    }


def _groups(measurement: Measurement) -> list[str]:
    """Return the groups of a packaged suite, or those that the records of a measurement name."""
    if (suite := packaged_suite(measurement)) is not None:
        return [str(name) for name in getattr(suite.body, "groups", ())]
    return [str(record.get("value")) for record in measurement.records if record.get("slice") == "group"]


def _measures(report: RunReport, measured: Sequence[Measurement]) -> str:
    judged = {(one.suite, one.statistic) for one in report.judgements}
    shown = [
        figure
        for figure in figures_of(measured)
        if figure.name == figure.measurement.main or (figure.measurement.suite, figure.name) in judged
    ]
    columns = [FIGURE_COLUMNS[name] for name in _MEASURES]
    return _table([one.header for one in columns], [[one.text(row) for one in columns] for row in shown])


def _results(report: RunReport) -> str:
    columns = [GATE_COLUMNS[name] for name in _RESULTS]
    rows = [[*(one.text(row) for one in columns), between(row.interval)] for row in report.judgements]
    return _table([*(one.header for one in columns), "bounds that decided"], rows)


# New York City's Local Law 144.

_SEX, _RACE = "Sex", "Race or ethnicity"
_BOTH = f"{_SEX} and {_RACE[0].lower()}{_RACE[1:]}"
_WORDS = {_SEX: ("sex", "gender"), _RACE: ("race", "ethnic")}
_SEXES = {"female", "male"}


def _selection_summary(report: RunReport) -> Mapping[str, object]:
    """Return selection rates and impact ratios by model and decision."""
    models: dict[str, dict[str, list[SelectionRow]]] = {}
    for row in report.selections:
        models.setdefault(row.model, {}).setdefault(row.decision, []).append(row)
    return {"models": models, "tables_of": _tables, "table_of": _selection_table, "unknown_in": _unknown}


def _tables(rows: Sequence[SelectionRow]) -> dict[str, list[SelectionRow]]:
    """Return the rows of a decision by the table that they belong to."""
    return {title: [row for row in rows if _category(rows, row.category) == title] for title in (_SEX, _RACE, _BOTH)}


def _unknown(table: Sequence[SelectionRow]) -> int:
    """Return how many persons of a table are of an unknown group."""
    return next((row.persons for row in table if row.rate is None and row.group), 0)


def _selection_table(known: Sequence[SelectionRow], decision: str) -> str:
    cells = [
        (
            row.group,
            f"{row.persons:,}",
            f"{row.selected:,}",
            f"{100 * (row.rate or 0.0):.1f} %",
            "" if row.ratio is None else f"{row.ratio:.3f}",
            row.note,
        )
        for row in known
    ]
    rate = "scoring rate" if decision == ABOVE_MEDIAN else "selection rate"
    headers = ("category", "applicants", "selected", rate, "impact ratio", "note")
    return _table(headers, cells, right=(1, 2, 3, 4))


def _category(rows: Sequence[SelectionRow], category: str) -> str:
    """Return which of the three tables the columns of a category belong to; an empty text for others."""
    found = []
    for column in category.split(" and "):
        names = {row.group for row in rows if row.category == column}
        kinds = [title for title, words in _WORDS.items() if any(word in column.lower() for word in words)]
        found += kinds or ([_SEX] if names >= _SEXES else [""])
    return found[0] if len(found) == 1 else _BOTH if sorted(found) == [_RACE, _SEX] else ""


_write_verdicts = _table_writer(_verdicts, [GATE_COLUMNS[name].header for name in _VERDICTS])
_write_values = _table_writer(_values, [FIGURE_COLUMNS[name].header for name in _VALUES])
#: What a pack holds, in the order of its README.
PARTS = (
    Part("README.md", "this page", _page_writer("readme", _readme)),
    Part(
        "bias-profile.md",
        "groups and harms, measures, limits and who decided them, results, mitigation, re-evaluation",
        _page_writer("profile", _profile),
    ),
    Part(
        "local-law-144.md",
        "the same rates in the order of the summary of Local Law 144: sex, race, and both",
        _page_writer("selections", _selection_summary),
        "selections",
    ),
    Part("questions.md", "which file helps with which question of laws and frameworks", _questions),
    Part("verdicts.csv", "every verdict with its figures and its whole reason", _write_verdicts),
    Part("values.csv", "every statistic with its interval, neutral value and direction", _write_values),
    Part("records.csv", "results of single items or groups, the worst first", write_records),
    Part(
        "impact-ratios.csv",
        "selection rates and impact ratios by group",
        _table_writer(_selections, tuple(_SELECTIONS.values())),
        "selections",
    ),
    Part(
        "signatures.json",
        "what each measurement depends on: suite, settings, sample, data, model, versions",
        _json_writer(_signatures),
    ),
    Part("data.json", "digests of suites with their word lists, of data sets, and of models", _json_writer(_data)),
    Part("run.json", "date, arguments, commit, settings and versions", _json_writer(_run)),
    Part("figures", "pictures as PNG and SVG, with their findings in words", write_figures, "pictures"),
    Part("report.html", "the report, as --bias-report writes it", write_report),
    Part("report.json", "the whole run, as --bias-json writes it", write_json),
)


def parts_of(report: RunReport) -> list[Part]:
    """Return the parts of the pack of a run."""
    return [part for part in PARTS if not part.needs or getattr(report, part.needs)]
