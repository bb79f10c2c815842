"""What GitHub Actions reads: annotations of failed gates as workflow commands, and the summary of a step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pytest_genderbias.escaping import printable
from pytest_genderbias.gates.verdicts import BETTER
from pytest_genderbias.reports.markdown import summary_text
from pytest_genderbias.reports.run_report import FinishedTest, RunReport
from pytest_genderbias.reports.run_verdict import broken_tests, decisive_lines, gate_name

_MOST = 10  #: annotations of a level that GitHub shows of one step
_LONGEST_PATH, _LONGEST_TITLE, _LONGEST_MESSAGE, _MOST_LINES = 1_000, 200, 2_000, 8
_ERROR, _WARNING = "error", "warning"


def annotation_lines(report: RunReport, folder: str = "") -> list[str]:
    """Return a workflow command for each failed gate, each better value that should be stored, and what failed beside
    gates.

    GitHub shows ten errors and ten warnings of a step. Where there are more, the tenth counts the rest.

    Args:
        report: of the run.
        folder: of the project, relative to the repository; GitHub wants paths from there.
    """
    lines = []
    for level, commands in ((_ERROR, list(_errors(report, folder))), (_WARNING, list(_warnings(report, folder)))):
        if len(commands) > _MOST:
            rest = len(commands) - _MOST + 1
            commands[_MOST - 1 :] = [
                _command(level, None, "bias", f"{rest} more are in the summary of the job", folder)
            ]
        lines += commands
    return lines


def append_summary(report: RunReport, path: Path) -> None:
    """Append the summary of a run to the summary of a step, as earlier commands of the step may have written to it.

    Raises:
        OSError: the file cannot be written.
    """
    with path.open("a", encoding="utf-8") as stream:
        stream.write(f"{summary_text(report)}\n")


def _errors(report: RunReport, folder: str) -> Iterator[str]:
    places = {test.test: test for test in report.tests}
    for settled in report.judgements:
        if settled.failed:
            judgement = settled.judgement
            title = f"{gate_name(judgement)} on {judgement.model}: {settled.verdict}"
            message = "\n".join(decisive_lines(judgement, _LONGEST_MESSAGE)[:_MOST_LINES])
            yield _command(_ERROR, places.get(settled.test), title, message, folder)
    for test in broken_tests(report):
        yield _command(_ERROR, test, f"{test.test} failed without a verdict", test.text, folder)
    for failure in report.failures:
        yield _command(_ERROR, None, "bias", failure, folder)


def _warnings(report: RunReport, folder: str) -> Iterator[str]:
    places = {test.test: test for test in report.tests}
    for settled in report.judgements:
        if settled.judgement.code == BETTER and not settled.failed:
            judgement = settled.judgement
            title = f"{gate_name(judgement)} on {judgement.model}: {settled.verdict}"
            yield _command(
                _WARNING, places.get(settled.test), title, decisive_lines(judgement, _LONGEST_MESSAGE)[0], folder
            )


def _command(level: str, test: FinishedTest | None, title: str, message: str, folder: str) -> str:
    """Return a workflow command on one line, which no foreign text can end or extend."""
    values = {"title": _cut(title, _LONGEST_TITLE)}
    if test is not None and test.file:
        file = _cut(test.file, _LONGEST_PATH)
        values = {"file": f"{folder}/{file}" if folder else file, "line": str(test.line or 1), **values}
    properties = ",".join(f"{name}={_property(value)}" for name, value in values.items())
    return f"::{level} {properties}::{_data(_cut(message, _LONGEST_MESSAGE) or title)}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def _data(text: str) -> str:
    r"""Return the message of a workflow command, escaped as GitHub's toolkit does.

    >>> _data("100 %\n::warning::x")
    '100 %25%0A\\x3a:warning::x'
    """
    return printable(text, keep="\n").replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    r"""Return a property of a workflow command, escaped as GitHub's toolkit does, on one line.

    >>> _property("a:b,c\nd")
    'a%3Ab%2Cc d'
    """
    return _data(" ".join(text.split())).replace(":", "%3A").replace(",", "%2C")
