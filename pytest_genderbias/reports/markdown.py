"""The summary of a run as markdown, for a pull request or the summary of a job, and the annotations of GitHub Actions.

The verdict stands first, then what failed, all gates, and what to type. Every foreign text stands in a code span or a
code block, where GitHub and GitLab render no markup, and neither link nor notify.
"""

from __future__ import annotations

import datetime
import html
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pytest_genderbias.escaping import printable
from pytest_genderbias.folders import write_whole
from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.gates.verdicts import (
    BETTER,
    FAILED,
    NO_BASELINE,
    NO_REASON,
    PASSED,
    REGRESSED,
    TOO_FEW,
    FinishedTest,
)
from pytest_genderbias.reports.fields import FIGURE_COLUMNS, GATE_COLUMNS, Column, Figure, Row, figures_of
from pytest_genderbias.reports.run_report import RunReport, tried
from pytest_genderbias.reports.run_summary import broken_tests, decisive_lines, run_verdict
from pytest_genderbias.reports.run_tables import baseline_history, run_tables
from pytest_genderbias.text.printable import counted, cut

MARKER = "<!-- pytest-genderbias -->"  #: the first line, by which a workflow finds its comment again
LARGEST = 60_000  #: characters; GitHub refuses a comment of more than 65,536
_LONGEST_NAME, _LONGEST_LINE, _MOST_LINES = 120, 400, 14
_MOST_FAILURES, _MOST_GATES = 20, 200
#: Flags of one run, which the command that accepts its values does not repeat.
_OF_THE_RUN = re.compile(r"--bias-(update|update-new|reason|json|summary|report)(=.*)?$", re.DOTALL)
_NO_VALUE = frozenset({"--bias-update", "--bias-update-new"})


def write_summary(report: RunReport, path: Path) -> None:
    """Write the summary of ``--bias-summary``.

    Raises:
        OSError: it cannot be written.
    """
    write_whole(path, summary_text(report).encode())


def summary_text(report: RunReport) -> str:
    """Return the summary of a run: at most ``LARGEST`` characters of markdown, its marker first.

    Parts that do not fit are left out, the last ones first, and a line says so.
    """
    text, left_out = "\n".join([MARKER, *_head(report)]) + "\n", []
    for name, part in _parts(report):
        whole = f"\n{part}\n"
        if len(text) + len(whole) < LARGEST - 500:
            text += whole
        else:
            left_out.append(name)
    if left_out:
        text += (
            f"\nLeft out, since a comment has at most 65,536 characters: {', '.join(left_out)}. `--bias-json` has"
            " them.\n"
        )
    return text


# The verdict.


def _head(report: RunReport) -> Iterator[str]:
    """Yield the verdict, what it is of, and the age of the baselines."""
    verdict, outcome = run_verdict(report)
    yield f"## {_MARKS.get(outcome, '')} Bias: {verdict}".replace("  ", " ")
    yield ""
    counts = Counter(settled.in_words for settled in report.judgements)
    counts.update({"not judged": len(report.not_judged)} if report.not_judged else {})
    if counts:
        yield f"{' · '.join(f'{number} {_plain(word)}' for word, number in counts.items())}  "
    models = ", ".join(_code(model.name) for model in report.run.models[:10])
    commit = f" · commit {_code(report.run.commit[:12])}" if report.run.commit else ""
    changed = " with uncommitted changes" if report.run.modified else ""
    yield (
        f"{models or 'no model'}{commit}{changed} · {_plain(report.run.date[:16].replace('T', ' '))} ·"
        f" pytest-genderbias {_plain(report.run.version)}"
    )
    for model, ability in dict.fromkeys((one.model, one.ability) for one in report.measurements if one.ability):
        yield f"- {_code(model)}: {_code(ability, _LONGEST_LINE)}"
    for growth in report.growths:
        yield f"- {_code(growth.model)}: {growth.in_words}"
    yield from (f"- {_code(line, _LONGEST_LINE)}" for line in tried(report.history))
    ages = list(baseline_history(report.judgements, (report.run.moment or datetime.datetime.now()).date()))
    if ages:
        yield ""
        yield from (f"- {_code(line, _LONGEST_LINE)}" for line in ages[:12])


# The parts.


def _parts(report: RunReport) -> Iterator[tuple[str, str]]:
    """Yield names and texts of the parts below the verdict, the most important first."""
    places = {test.test: test for test in report.tests}
    failed = [settled for settled in report.judgements if settled.failed]
    for settled in failed[:_MOST_FAILURES]:
        yield f"the failure of {_code(settled.gate_name)}", _failure(settled, places.get(settled.test))
    if len(failed) > _MOST_FAILURES:
        yield "a count", f"{len(failed) - _MOST_FAILURES} more gates failed; the table below has them."
    errors = broken_tests(report)
    for test in errors[:_MOST_FAILURES]:
        yield "a test", f"**{_code(test.test)}** failed without a verdict\n\n{_block(test.text.splitlines())}"
    if report.failures:
        yield "other failures", _block([f"- {failure}" for failure in report.failures])
    if commands := list(_commands(report)):
        yield "commands", "\n\n".join(commands)
    gates = report.judgements
    if gates:
        yield "the table of gates", _gate_table(gates)
    yield from _other_tables(report)
    if figures := list(figures_of(report.measurements)):
        title = (
            f"All figures: {counted(len(figures), 'statistics')} of {counted(len(report.measurements), 'measurements')}"
        )
        yield "the table of all figures", _details(title, _figure_table(figures))
    if report.not_judged:
        lines = [f"{test.test}: {test.reason}" for test in report.not_judged]
        yield "what was not judged", _details(f"{len(lines)} not judged", _block(lines, len(lines)))


def _other_tables(report: RunReport) -> Iterator[tuple[str, str]]:
    """Yield the tables of mitigations, compared models and sources of variance, folded."""
    for table in run_tables(report):
        if table.rows:
            rows = ([_cell(text) for text in row] for row in table.rows)
            yield table.title, _details(table.title, _table(table.headers, rows))


def _failure(judgement: Judgement, test: FinishedTest | None) -> str:
    """Return what one failed gate says, without its records."""
    where = f" ({_code(test.place)})" if test is not None and test.place else ""
    title = f"**{_code(judgement.gate_name)}** on {_code(judgement.model)}: {_plain(judgement.in_words)}{where}"
    return f"{title}\n\n{_block(decisive_lines(judgement))}"


def _commands(report: RunReport) -> Iterator[str]:
    """Yield what accepts the values of this run, where gates on baselines did not pass."""
    gates = [one for one in report.judgements if one.outcome in (FAILED, PASSED)]
    codes = {one.code for one in gates if one.of_baseline.accepted_on is not None or one.code == NO_REASON}
    typed = f"pytest {shlex.join(repeated_arguments(report.run.arguments))}".rstrip()
    if codes & {REGRESSED, TOO_FEW, NO_REASON}:
        yield "Fix the model; or, if what is worse is intended, accept it and commit the baselines:"
        yield _block([f'{typed} --bias-update --bias-reason="why"'])
    elif BETTER in codes:
        yield "The model is better than its baseline. Store the better values, and commit the baselines:"
        yield _block([f"{typed} --bias-update"])
    if any(s.code == NO_BASELINE and s.failed for s in report.judgements):
        yield "Gates without a baseline entry: store what is measured now, and commit it:"
        yield _block([f"{typed} --bias-update-new"])


def repeated_arguments(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a run without those that belong to it alone: its reports, its reason."""
    repeated, skip = [], False
    for argument in arguments:
        match = _OF_THE_RUN.match(argument)
        if not skip and match is None:
            repeated.append(argument)
        skip = match is not None and match[2] is None and argument not in _NO_VALUE
    return repeated


# Tables.

#: Columns of the tables, by their names in :mod:`~pytest_genderbias.reports.fields`; those with texts of others are
#: code.
_GATES = ("subject", "model", "statistic", "value", "bound", "change", "verdict")
_FIGURES = ("suite", "model", "statistic", "value", "interval", "neutral", "direction", "n")
_FOREIGN = frozenset(("subject", "suite", "model", "statistic", "bound"))
_MARKS = {FAILED: "❌", PASSED: "✅"}


def _cells(columns: Mapping[str, Column[Row]], names: Sequence[str], row: Row) -> list[str]:
    return [_code(columns[name].text(row)) if name in _FOREIGN else columns[name].text(row) for name in names]


def _gate_table(gates: Sequence[Judgement]) -> str:
    """Return a table with a row a gate, those that failed first; of very many, a line counts the rest."""
    shown = sorted(gates, key=lambda settled: settled.outcome != FAILED)[:_MOST_GATES]
    rows = [[_MARKS.get(one.outcome, ""), *_cells(GATE_COLUMNS, _GATES, one)] for one in shown]
    table = _table(["", *(GATE_COLUMNS[name].header for name in _GATES)], rows)
    rest = len(gates) - len(rows)
    return table + (f"\n\n{counted(rest, 'more gates')}, which `--bias-json` has." if rest else "")


def _figure_table(figures: Iterable[Figure]) -> str:
    """Return a table with a row a statistic, each once."""
    rows: dict[tuple[str, ...], None] = {}
    for figure in figures:
        cells = _cells(FIGURE_COLUMNS, _FIGURES, figure)
        if figure.value is None and figure.reason:
            cells[_FIGURES.index("value")] += f" {_code(figure.reason)}"
        rows[tuple(cells)] = None
    return _table([FIGURE_COLUMNS[name].header for name in _FIGURES], rows)


# Markdown.


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cell(text: str) -> str:
    """Return a cell: numbers as they are, and words, which may be of others, as code."""
    return text if re.fullmatch(r"[\d.,%e+ -]*", text) else _code(text)


def _details(title: str, content: str) -> str:
    return f"<details>\n<summary>{html.escape(title)}</summary>\n\n{content}\n\n</details>"


def _code(text: str, most: int = _LONGEST_NAME) -> str:
    r"""Return a foreign text as a code span on one line, also for a cell: nothing in it is markup, a link or a name to
    notify.

    >>> print(_code("<i> @octocat"), _code("a|b"), _code("`x`"), _code(" "))
    `<i> @octocat` `a\|b` `` `x` `` -
    """
    line = printable(cut(" ".join(text.split()), most))
    line = re.sub(r"\\(?=\|)", r"\\ ", line).replace("|", r"\|")
    longest = max(map(len, re.findall("`+", line)), default=0)
    fence, space = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{space}{line}{space}{fence}" if line else "-"


def _plain(text: str) -> str:
    """Return a word of ours, a date or a version, which an edited file may have replaced, without markup."""
    return re.sub(r"[^\w .,:+()-]", "", printable(cut(text, _LONGEST_NAME)))


def _block(lines: Sequence[str], most: int = _MOST_LINES) -> str:
    """Return foreign lines as a code block, whose fence is longer than any in it."""
    shown = [printable(cut(line, _LONGEST_LINE)) for line in lines[:most]]
    if len(lines) > most:
        shown.append(f"... ({len(lines) - most} more lines)")
    longest = max((len(run) for line in shown for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}text", *shown, fence])


_MOST = 10  #: annotations of a level that GitHub shows of one step
_LONGEST_PATH, _LONGEST_TITLE, _LONGEST_MESSAGE, _MOST_SHOWN = 1_000, 200, 2_000, 8
_ERROR, _WARNING = "error", "warning"


def annotation_lines(report: RunReport, folder: str = "") -> list[str]:
    """Return a workflow command for each failed gate, each better value that should be stored, and what failed beside
    gates.

    GitHub shows ten errors and ten warnings of a step. Where there are more, the tenth counts the rest.

    Args:
        report: of the run.
        folder: of the project, relative to the repository; GitHub wants paths from there.
    """
    places = {test.test: test for test in report.tests}
    commands: dict[str, list[str]] = {_ERROR: [], _WARNING: []}
    for judgement in report.judgements:
        if judgement.failed or judgement.code == BETTER:
            level, most = (_ERROR, _MOST_SHOWN) if judgement.failed else (_WARNING, 1)
            title = f"{judgement.gate_name} on {judgement.model}: {judgement.in_words}"
            message = "\n".join(decisive_lines(judgement, _LONGEST_MESSAGE)[:most])
            commands[level].append(_command(level, places.get(judgement.test), title, message, folder))
    for test in broken_tests(report):
        commands[_ERROR].append(_command(_ERROR, test, f"{test.test} failed without a verdict", test.text, folder))
    commands[_ERROR] += [_command(_ERROR, None, "bias", failure, folder) for failure in report.failures]
    lines = []
    for level, found in commands.items():
        if len(found) > _MOST:
            rest = f"{len(found) - _MOST + 1} more are in the summary of the job"
            found[_MOST - 1 :] = [_command(level, None, "bias", rest, folder)]
        lines += found
    return lines


def append_summary(report: RunReport, path: Path) -> None:
    """Append the summary of a run to the summary of a step, as earlier commands of the step may have written to it.

    Raises:
        OSError: the file cannot be written.
    """
    with path.open("a", encoding="utf-8") as stream:
        stream.write(f"{summary_text(report)}\n")


def _command(level: str, test: FinishedTest | None, title: str, message: str, folder: str) -> str:
    """Return a workflow command on one line, which no foreign text can end or extend."""
    values = {"title": cut(title, _LONGEST_TITLE)}
    if test is not None and test.file:
        file = cut(test.file, _LONGEST_PATH)
        values = {"file": f"{folder}/{file}" if folder else file, "line": str(test.line or 1), **values}
    properties = ",".join(f"{name}={_property(value)}" for name, value in values.items())
    return f"::{level} {properties}::{_data(cut(message, _LONGEST_MESSAGE) or title)}"


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
