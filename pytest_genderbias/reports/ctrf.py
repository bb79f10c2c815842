"""The tests of a run in the Common Test Report Format (https://ctrf.io), which dashboards and comment bots read."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_genderbias.escaping import printable
from pytest_genderbias.folders import write_whole
from pytest_genderbias.gates.judgement import SettledJudgement
from pytest_genderbias.gates.verdicts import FAILED
from pytest_genderbias.measurement.plain_data import as_plain
from pytest_genderbias.reports.run_report import FinishedTest, RunReport
from pytest_genderbias.reports.verdict import decisive_lines, run_verdict
from pytest_genderbias.text.printable import json_text

SPEC_VERSION = "0.1.0"  #: of the format, which is not at 1.0 yet
STATUSES = ("passed", "failed", "skipped", "pending", "other")
_NOTHING_FAILED = (0, 5)  #: exit statuses of a run that passed, and of one without tests
_TOOL = "pytest-genderbias"
_LONGEST = 4_000  #: characters of a message


def write_ctrf(report: RunReport, path: Path) -> None:
    """Write the file of ``--bias-ctrf``.

    Raises:
        OSError: it cannot be written.
    """
    write_whole(path, (json_text(ctrf_of(report)) + "\n").encode())


def ctrf_of(report: RunReport) -> dict[str, object]:
    """Return a run as the format has it: a test for each test that measures or judges, durations in milliseconds.

    What fails the run beside these tests is a failed test of its own, since readers of the format count failed tests: a message such as
    an unused baseline entry, or a test that is not among them, as one whose worker died.
    """
    judgements: dict[str, list[SettledJudgement]] = {}
    for settled in report.judgements:
        judgements.setdefault(settled.test, []).append(settled)
    tests = [_test(test, judgements.get(test.test, [])) for test in report.tests]
    tests += [_failure(failure) for failure in report.failures]
    if report.run.exit_status not in _NOTHING_FAILED and all(test["status"] != FAILED for test in tests):
        tests.append(_failure(run_verdict(report).text))
    stop = _milliseconds(report.run.date)
    counts = Counter(str(test["status"]) for test in tests)
    return {
        "reportFormat": "CTRF",
        "specVersion": SPEC_VERSION,
        "generatedBy": f"{_TOOL} {report.run.version}",
        "timestamp": report.run.date,
        "results": {
            "tool": {"name": _TOOL, "version": report.run.version},
            "summary": {
                "tests": len(tests),
                **{status: counts[status] for status in STATUSES},
                "start": stop - round(1000 * report.run.seconds),
                "stop": stop,
            },
            "tests": tests,
            "environment": _environment(report),
        },
    }


def _environment(report: RunReport) -> dict[str, object]:
    extra = {"models": {model.name: _line(model.spec) for model in report.run.models}, "versions": report.run.versions}
    commit = {"commit": report.run.commit} if report.run.commit else {}
    return {**commit, "extra": as_plain({**extra, "settings": report.run.settings}, finite=True)}


def _test(test: FinishedTest, judgements: list[SettledJudgement]) -> dict[str, object]:
    """Return one test; its verdicts are in ``extra``, where the format has room for them."""
    status = test.outcome if test.outcome in STATUSES else "other"
    content: dict[str, object] = {
        "name": _line(test.test) or _TOOL,
        "status": status,
        "duration": round(1000 * test.seconds),
    }
    verdicts = [settled.verdict for settled in judgements]
    content["rawStatus"] = ", ".join(dict.fromkeys(verdicts)) or test.outcome
    content |= {"filePath": _line(test.file), "line": test.line} if test.file else {}
    content |= {"suite": [_line(test.file or "bias"), *([_line(test.suite)] if test.suite else [])]}
    content |= {"parameters": {"model": _line(test.model)}} if test.model else {}
    failed = [settled for settled in judgements if settled.outcome == FAILED]
    if failed:
        texts = [decisive_lines(settled.judgement) for settled in failed]
        content["message"] = _cut("\n".join(lines[0] for lines in texts))
        content["trace"] = _cut("\n".join(line for lines in texts for line in lines))
    elif test.text:
        content["message"] = _cut(test.text)
    if judgements:
        content["extra"] = {"judgements": [dict(_figures(settled)) for settled in judgements]}
    return content


def _figures(settled: SettledJudgement) -> Iterator[tuple[str, object]]:
    """Yield what a reader needs of a judgement to draw it; the JSON report has all of it."""
    judgement = settled.judgement
    values: Mapping[str, object] = {
        "suite": _line(judgement.suite), "model": _line(judgement.model), "statistic": _line(judgement.statistic),
        "gate": _line(judgement.name), "value": judgement.value, "bound": _line(judgement.bound),
        "verdict": settled.verdict, "outcome": settled.outcome, "worse_by": judgement.difference, "p": judgement.p,
    }  # fmt: skip
    yield from ((name, as_plain(value, finite=True)) for name, value in values.items())


def _failure(text: str) -> dict[str, object]:
    return {"name": f"{_TOOL}: beside the tests", "status": "failed", "duration": 0, "message": _cut(text)}


def _line(text: str) -> str:
    return printable(" ".join(text[:_LONGEST].split()))


def _cut(text: str) -> str:
    return printable(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...", keep="\n")


def _milliseconds(date: str) -> int:
    """Return a date in milliseconds since 1970; 0 for an edited file without one."""
    try:
        return round(1000 * datetime.datetime.fromisoformat(date).timestamp())
    except (ValueError, OverflowError):
        return 0
