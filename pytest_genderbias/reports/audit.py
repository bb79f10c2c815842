"""The audit pack (``--to audit``): a dated folder of evidence of one run, with a manifest of SHA-256 digests, and an
in-toto statement over it.
"""

from __future__ import annotations

import datetime
import hashlib
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from pytest_genderbias.errors import DataFileError, WriteError
from pytest_genderbias.folders import write_whole
from pytest_genderbias.gates.verdicts import FAILED
from pytest_genderbias.measurement.plain_data import as_plain, read_mapping
from pytest_genderbias.reports.fields import FIGURE_COLUMNS, GATE_COLUMNS, SAID, Cell, figures_of
from pytest_genderbias.reports.records import as_csv, cell_text, write_records
from pytest_genderbias.reports.run_report import RunReport, write_json
from pytest_genderbias.reports.run_verdict import broken_tests, run_verdict
from pytest_genderbias.reports.selection import SelectionRow
from pytest_genderbias.text.numbers import counted
from pytest_genderbias.text.plain_files import read_whole
from pytest_genderbias.text.printable import brief, escape, json_text
from pytest_genderbias.text.strict_json import parse_json

SCHEMA = 1  #: of the manifest
MANIFEST, SUMS, STATEMENT = "manifest.json", "SHA256SUMS", "statement.intoto.json"
_LARGEST = 2**26  #: bytes of a manifest
_CONFIGURATION = ("run.json", "signatures.json", "data.json")  #: what the tests depend on


@dataclass(frozen=True)
class Part:
    """A file or folder of a pack.

    Attributes:
        name: of the file, or of the folder.
        what: what it holds, in a few words.
        write: function that writes it to a path.
        applies: function that says of a report whether the pack has this part.
    """

    name: str
    what: str
    write: Callable[[RunReport, Path], None]
    applies: Callable[[RunReport], bool] = lambda report: True


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
    try:
        unfinished.mkdir(parents=True)
    except OSError as error:
        raise WriteError(error.errno, error.strerror or str(error), str(directory)) from error
    try:
        parts = [part for part in PARTS if part.applies(report)]
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
    try:
        date = datetime.datetime.fromisoformat(report.run.date).astimezone(datetime.timezone.utc)
    except (ValueError, OverflowError):
        return digest
    return f"{date:%Y-%m-%dT%H%M%SZ}-{digest}"


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
    verdict = run_verdict(report).outcome
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


def _readme(report: RunReport, path: Path) -> None:
    run = report.run
    outcomes = [settled.outcome for settled in report.judgements]
    failed = outcomes.count(FAILED)
    suites = len({measurement.suite for measurement in report.measurements})
    models = ", ".join(escape(f"{model.name} ({model.spec})"[:200]) for model in run.models) or "none"
    lines = [
        f"# Evidence of a run of {escape(run.date)}",
        "",
        f"pytest-genderbias {escape(run.version)} measured {counted(suites, 'suites')} on {models}.",
        f"Result: {run_verdict(report).text}.",
        (
            f"{counted(len(outcomes), 'verdicts')}: {failed} failed. {counted(len(report.not_judged), 'tests')} did not"
            " judge."
        ),
        f"Commit of the project: {escape(run.commit) or 'not known'}{', with changed files' if run.modified else ''}.",
        "",
        "| file | content |",
        "|---|---|",
        *(f"| {part.name} | {part.what} |" for part in PARTS if part.applies(report)),
        f"| {MANIFEST} | every file with its size and SHA-256 |",
        f"| {STATEMENT} | the result of the tests, and the digest of the manifest: an in-toto statement to sign |",
        f"| {SUMS} | the same digests: `sha256sum -c {SUMS}` checks them |",
        "",
        (
            "The files say what was measured, how, on which data and with which result. They do not say that a law, a"
            " rule or a standard is met, nor that a model is free of bias: a suite finds the stereotypes that its"
            " sentences ask for, in its language and for its groups."
        ),
        "",
    ]
    if report.selections:
        lines += [
            (
                "Selection rates and impact ratios are counted as the rules to New York City's Local Law 144 count them"
                " (6 RCNY sections 5-300 and 5-301): each rate is divided by that of the most selected group, groups"
                " under 2 % of the persons have a rate and no ratio, and persons of unknown groups are counted apart."
                " Bounds hold for other persons of the same groups at 95 %. Whether predictions on these persons are"
                " what a rule asks for, and who may audit them, is for others to say."
            ),
            "",
        ]
    write_whole(path, "\n".join(lines).encode())


def _form(name: str) -> Callable[[RunReport, Path], None]:
    def write(report: RunReport, path: Path) -> None:
        from pytest_genderbias.reports import audit_forms

        getattr(audit_forms, name)(report, path)

    return write


def _questions(report: RunReport, path: Path) -> None:
    write_whole(path, Path(__file__).with_name("audit_questions.md").read_bytes())


def _page(report: RunReport, path: Path) -> None:
    from pytest_genderbias.reports.html.page import write_report

    write_report(report, path)


def _figures(report: RunReport, path: Path) -> None:
    from pytest_genderbias.reports.figures.files import write_figures

    write_figures(report, path)


_write_verdicts = _table_writer(_verdicts, [GATE_COLUMNS[name].header for name in _VERDICTS])
_write_values = _table_writer(_values, [FIGURE_COLUMNS[name].header for name in _VALUES])
#: What a pack holds, in the order of its README.
PARTS = (
    Part("README.md", "this page", _readme),
    Part(
        "bias-profile.md",
        "groups and harms, measures, limits and who decided them, results, mitigation, re-evaluation",
        _form("write_bias_profile"),
    ),
    Part(
        "local-law-144.md",
        "the same rates in the order of the summary of Local Law 144: sex, race, and both",
        _form("write_selection_summary"),
        lambda report: bool(report.selections),
    ),
    Part("questions.md", "which file helps with which question of laws and frameworks", _questions),
    Part("verdicts.csv", "every verdict with its figures and its whole reason", _write_verdicts),
    Part("values.csv", "every statistic with its interval, neutral value and direction", _write_values),
    Part("records.csv", "results of single items or groups, the worst first", write_records),
    Part(
        "impact-ratios.csv",
        "selection rates and impact ratios by group",
        _table_writer(_selections, tuple(_SELECTIONS.values())),
        lambda report: bool(report.selections),
    ),
    Part(
        "signatures.json",
        "what each measurement depends on: suite, settings, sample, data, model, versions",
        _json_writer(_signatures),
    ),
    Part("data.json", "digests of suites with their word lists, of data sets, and of models", _json_writer(_data)),
    Part("run.json", "date, arguments, commit, settings and versions", _json_writer(_run)),
    Part("figures", "pictures as PNG and SVG, with their findings in words", _figures, lambda run: bool(run.pictures)),
    Part("report.html", "the report, as --bias-report writes it", _page),
    Part("report.json", "the whole run, as --bias-json writes it", write_json),
)
