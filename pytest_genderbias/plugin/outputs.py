"""The files that a run writes at its end: one entry of ``OUTPUTS`` for each flag that names one.

To add a file, add a field to :class:`~pytest_genderbias.plugin.options.Settings`, a function ``write(report, path)`` to the room
``reports``, and a line here.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from pytest_genderbias.errors import BiasError, WriteError, installing
from pytest_genderbias.escaping import printable

if TYPE_CHECKING:
    from pytest_genderbias.plugin.options import Settings
    from pytest_genderbias.reports.run_report import RunReport


@dataclass(frozen=True)
class Output:
    """A file, or a folder of files, that a run writes at its end.

    Attributes:
        field: of the settings; it holds the path, and is ``None`` without the flag.
        writer: module of the room ``reports`` and function; it takes a report and a path. Its module is imported when it writes.
        package: what the writer imports and does not come with the plugin; the extra of the same name installs it. Empty for none.
        check: module of the room ``reports`` and function that takes the path before the run, and raises an error if nothing can be
            written there; empty for none.
        again: whether it says how the run ended, and can be written again where another file then fails the run.
    """

    field: str
    writer: str
    package: str = ""
    check: str = ""
    again: bool = False

    @property
    def flag(self) -> str:
        """The name of the flag."""
        return f"--bias-{self.field.replace('_', '-')}"

    def path(self, settings: Settings) -> Path | str | None:
        """Return where a run writes it, or the name under which a server takes it; ``None`` without the flag."""
        path = vars(settings)[self.field]
        assert path is None or isinstance(path, (Path, str))
        return path

    @property
    def lacks_package(self) -> bool:
        """Whether its package is not installed."""
        return bool(self.package) and find_spec(self.package) is None

    def write(self, report: RunReport, path: Path | str) -> None:
        """Write it.

        Raises:
            OSError: it cannot be written.
            BiasError: what is there cannot be changed.
        """
        _named(self.writer)(report, path)


def _named(function: str) -> Callable[..., None]:
    module, _, name = function.partition(":")
    return cast("Callable[..., None]", getattr(import_module(f"pytest_genderbias.reports.{module}"), name))


#: In the order in which they are written. The last two say how the run ended, and are written once.
OUTPUTS = (
    Output("json", "json_report:write_json", again=True),
    Output("mlflow", "mlflow_runs:write_mlflow", package="mlflow", check="mlflow_runs:check_mlflow"),
    Output("summary", "markdown:write_summary", again=True),
    Output("records", "records:write_records"),
    Output("model_card", "model_card:write_model_card"),
    Output("figures", "figures.files:write_figures"),
    Output("report", "html.page:write_report", again=True),
    Output("write_gates", "written_gates:write_gates"),
    Output("audit", "audit:write_audit"),
    Output("history", "history:write_history"),
)


def needs_report(settings: Settings) -> bool:
    """Return whether a flag asks for a file, or for what GitHub shows."""
    return settings.github or any(output.path(settings) is not None for output in OUTPUTS)


def check_outputs(settings: Settings) -> None:
    """Raise a usage error before the run if a package is missing that writes one of its files."""
    check_packages(output for output in OUTPUTS if output.path(settings) is not None)


def check_packages(outputs: Iterable[Output]) -> None:
    """Raise a usage error if a package is missing that writes one of these files."""
    for output in outputs:
        if output.lacks_package:
            raise pytest.UsageError(
                f"{output.flag}: needs {output.package}; install with: {installing(output.package)}"
            )


def check_places(settings: Settings) -> None:
    """Raise a usage error before the run if nothing can be written where a flag says."""
    for output in OUTPUTS:
        path = output.path(settings)
        if output.check and path is not None:
            try:
                _named(output.check)(path)
            except BiasError as error:
                raise pytest.UsageError(printable(f"{output.flag}: {_plain(error, path)}")) from None


def write_outputs(
    report: RunReport, settings: Settings, outputs: Iterable[Output] = OUTPUTS
) -> tuple[RunReport, list[str]]:
    """Write all files that flags ask for, and return the report as they ended it, and what went wrong, a line each.

    A file that cannot be written fails the run. Those that are written later say so, and so do earlier ones, which are written again;
    what goes to a pipe or a device is written once.
    """
    troubles: list[str] = []
    written: list[tuple[Output, Path | str, RunReport]] = []
    for output in outputs:
        path = output.path(settings)
        if path is None:
            continue
        if trouble := _trouble(report, output, path):
            troubles.append(trouble)
            ended = report.run.exit_status or int(pytest.ExitCode.TESTS_FAILED)
            report = replace(report, run=replace(report.run, exit_status=ended), failures=(*report.failures, trouble))
        else:
            written.append((output, path, report))
    outdated = [(output, path) for output, path, then in written if output.again and then is not report]
    troubles += write_files(report, [(output, path) for output, path in outdated if Path(path).is_file()])
    return report, troubles


def write_files(report: RunReport, files: Iterable[tuple[Output, Path | str]]) -> list[str]:
    """Write files, each to its path, and return what went wrong, a line each."""
    return [trouble for output, path in files if (trouble := _trouble(report, output, path))]


def _trouble(report: RunReport, output: Output, path: Path | str) -> str:
    """Write one file, and return what went wrong; empty if nothing did."""
    try:
        output.write(report, path)
    except BiasError as error:
        return printable(f"{output.flag}: {_plain(error, path)}")
    except OSError as error:
        return printable(f"{output.flag}: {path} cannot be written: {error.strerror or error}")
    except (
        Exception
    ) as error:  # of a library that draws or writes: the run keeps its summary, its baselines and its other files
        return printable(f"{output.flag}: {path} was not written, {through_error(error)}")
    return ""


def through_error(error: Exception) -> str:
    """Return where an error arose, what it says, and what to do; to be put behind "was not written" or "was not drawn"."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"through an error in {place.filename}:{place.lineno}: {type(error).__name__}: {error}; everything else was. "
        "Please report it with the file of --bias-json"
    )


def _plain(error: BiasError, path: Path | str) -> str:
    """Return an error without what :class:`WriteError` says of a file that was there."""
    return f"{path} cannot be written: {error.strerror}" if isinstance(error, WriteError) else str(error)
