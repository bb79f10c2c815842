"""The files that are made from a run: at its end where a flag says so, or by ``genderbias report`` from its JSON file.

To add a file, add a function ``write(report, path)`` to ``reports``, and an entry of ``OUTPUTS`` here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import pytest

from pytest_genderbias.errors import BiasError, WriteError, installing, through_error
from pytest_genderbias.escaping import printable
from pytest_genderbias.plugin import flag_values as parse
from pytest_genderbias.plugin.doors import door, reach
from pytest_genderbias.plugin.flag_values import Origin

if TYPE_CHECKING:
    from pytest_genderbias.plugin.options import Settings
    from pytest_genderbias.reports.run_report import RunReport


@dataclass(frozen=True)
class Output:
    """A file, or a folder of files, that is made from a run.

    Attributes:
        kind: its name, as in ``genderbias report run.json --to KIND=PATH``.
        writer: module in ``reports`` and function; it takes a report and a path. Its module is imported when
            it writes.
        parse: checks the path.
        names: endings of files, or names of folders, that stand for it; none for what only KIND=PATH names.
        flagged: whether a run writes it where ``--bias-KIND`` says.
        package: what the writer imports and does not come with the plugin; the extra of the same name installs it.
            Empty for none.
    """

    kind: str
    writer: str
    parse: Callable[[str, Origin], Path | str]
    names: tuple[str, ...] = ()
    flagged: bool = False
    package: str = ""

    @property
    def flag(self) -> str:
        """The name of the flag of a run; empty without one."""
        return f"--bias-{self.kind}" if self.flagged else ""

    @property
    def lacks_package(self) -> bool:
        """Whether its package is not installed."""
        return bool(self.package) and find_spec(self.package) is None

    def path(self, settings: Settings) -> Path | None:
        """Return where a run writes it; ``None`` without the flag."""
        path = vars(settings)[self.kind] if self.flagged else None
        assert path is None or isinstance(path, Path)
        return path

    def write(self, report: RunReport, path: Path | str) -> None:
        """Write it.

        Raises:
            OSError: it cannot be written.
            BiasError: what is there cannot be changed.
        """
        reach(f"reports.{self.writer}")(report, path)


#: In the order in which they are written. A run writes those with a flag; the others are made by ``--to``.
OUTPUTS = (
    Output("json", "run_report:write_json", parse.file, flagged=True),
    Output("history", "history:write_history", parse.file_or_url, (".db", ".sqlite")),
    Output("mlflow", "mlflow_runs:write_mlflow", parse.as_is, package="mlflow"),
    Output("summary", "markdown:write_summary", parse.file, (".md",), flagged=True),
    Output("records", "records:write_records", parse.records_file, (".csv", ".parquet")),
    Output("card", "model_card:write_model_card", parse.file, ("card.md", "readme.md")),
    Output("eval-results", "model_card:write_eval_results", parse.writable_folder, (".eval_results",)),
    Output("figures", "figures.files:write_figures", parse.writable_folder, ("figures",)),
    Output("report", "html_page:write_report", parse.file, (".html",), flagged=True),
    Output("gates", "written_gates:write_gates", parse.new_gate_file, (".bias.yaml",)),
    Output("audit", "audit:write_audit", parse.writable_folder, ("audit",)),
)
MADE = {output.kind: output for output in OUTPUTS if output.kind != "json"}  #: from the JSON file of a run


def destination(text: str, folder: Path) -> tuple[Output, Path | str]:
    """Return what ``--to`` names, and its path: ``page.html``, or ``KIND=PATH`` where neither ending nor name says what
    it is.

    Raises:
        UsageError: it cannot be told, its package is missing, or it cannot be written there.
    """
    kind, equals, path = text.partition("=")
    if not equals or kind not in MADE:
        name, path = PurePath(text).name.lower(), text
        fitting = [(len(end), one.kind) for one in MADE.values() for end in one.names if _names(end, name)]
        kind = "history" if "://" in text else max(fitting, default=(0, ""))[1]
    if not kind or not path:
        names = ", ".join(end for one in MADE.values() for end in one.names)
        raise pytest.UsageError(
            printable(
                f"--to: cannot tell what {text!r} is from its name ({names}); write KIND=PATH, with KIND one of"
                f" {', '.join(MADE)}"
            )
        )
    output = MADE[kind]
    if output.lacks_package:
        raise pytest.UsageError(f"--to: needs {output.package}; install with: {installing(output.package)}")
    return output, output.parse(path, Origin("--to", folder, folder))


def _names(end: str, name: str) -> bool:
    return name.endswith(end) if "." in end else name == end


def needs_report(settings: Settings) -> bool:
    """Return whether a flag asks for a file, or for what GitHub shows."""
    return settings.github or any(output.path(settings) is not None for output in OUTPUTS)


def write_outputs(
    report: RunReport, settings: Settings, outputs: Iterable[Output] = OUTPUTS
) -> tuple[RunReport, list[str]]:
    """Write all files that flags ask for, and return the report as they ended it, and what went wrong, a line each.

    A file that cannot be written fails the run. Those that are written later say so, and so do earlier ones, since all
    are written again; what goes to a pipe or a device is written once.
    """
    files = [(output, path) for output in outputs if (path := output.path(settings)) is not None]
    troubles: list[str] = []
    for output, path in files:
        if trouble := write_file(report, output, path, output.flag):
            troubles.append(trouble)
            ended = report.run.exit_status or int(pytest.ExitCode.TESTS_FAILED)
            report = replace(report, run=replace(report.run, exit_status=ended), failures=(*report.failures, trouble))
    if troubles:
        again = (write_file(report, output, path, output.flag) for output, path in files if path.is_file())
        troubles = list(dict.fromkeys((*troubles, *filter(None, again))))
    return report, troubles


def write_file(report: RunReport, output: Output, path: Path | str, flag: str = "--to") -> str:
    """Write one file, and return what went wrong, which begins with the flag; empty if nothing did."""
    try:
        output.write(report, path)
    except BiasError as error:
        return printable(f"{flag}: {_plain(error, path)}")
    except OSError as error:
        return printable(f"{flag}: {path} cannot be written: {error.strerror or error}")
    except Exception as error:  # of a library that draws or writes: the run keeps its baselines and its other files
        return printable(f"{flag}: {path} was not written, {through_error(error)}")
    return ""


def _plain(error: BiasError, path: Path | str) -> str:
    """Return an error without what :class:`WriteError` says of a file that was there."""
    return f"{path} cannot be written: {error.strerror}" if isinstance(error, WriteError) else str(error)


def is_in_actions() -> bool:
    """Return whether this is a step of GitHub Actions."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def append_to_job(report: RunReport) -> list[str]:
    """Append the summary of a run to that of the job, and return what went wrong, a line each."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return []
    try:
        door("summary of a job")(report, Path(path))
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return [printable(f"bias_github: {path} cannot be written: {reason}")]
    return []


def annotations_in_repository(report: RunReport, config: pytest.Config) -> list[str]:
    """Return the workflow commands that annotate a run, with paths from the folder of the repository."""
    workspace = os.path.realpath(os.environ.get("GITHUB_WORKSPACE") or config.rootpath)
    folder = Path(os.path.relpath(os.path.realpath(config.rootpath), workspace)).as_posix()
    lines: list[str] = door("annotations")(report, "" if folder == "." else folder)
    return lines
