"""The output of ``bias_github`` in GitHub Actions: annotations in the log of the step, and a summary of the job."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_genderbias.escaping import printable
from pytest_genderbias.plugin.doors import door

if TYPE_CHECKING:
    from pytest_genderbias.reports.run_report import RunReport


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
