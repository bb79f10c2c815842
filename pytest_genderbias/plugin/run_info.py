"""When, with what and on which code a run was made, as its files say it."""

from __future__ import annotations

import datetime
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_genderbias.models.spec import portable_spec
from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.workers import user_arguments

if TYPE_CHECKING:
    from pytest_genderbias.reports.run_report import RunInfo

_PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "scipy", "pytest")
_PATIENCE = 10.0  #: seconds for Git, which may walk a large work tree


def run_info(config: pytest.Config, exit_status: int, seconds: float) -> RunInfo:
    """Return the description of a run that ends now.

    Args:
        config: of the run.
        exit_status: of pytest.
        seconds: how long the run took.
    """
    from pytest_genderbias.reports.run_report import ReportedModel, RunInfo

    settings = config.stash[SETTINGS]
    root = config.rootpath
    baselines = settings.baseline
    return RunInfo(
        date=datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        version=version("pytest-genderbias"),
        arguments=tuple(str(argument) for argument in user_arguments(config)),
        models=tuple(ReportedModel(spec.name, portable_spec(spec.spec)) for spec in settings.models),
        commit=_git(root, "rev-parse", "HEAD"),
        modified=bool(_git(root, "status", "--porcelain", "--untracked-files=no")),
        settings={
            "seed": settings.seed,
            "dtype": settings.dtype,
            "device": settings.device,
            "limit": settings.limit,
            "no_worse_than": settings.no_worse_than,
            "same_as": settings.same_as,
        },
        versions={"python": platform.python_version(), **{package: version(package) for package in _PACKAGES}},
        baselines=(baselines.relative_to(root) if baselines.is_relative_to(root) else baselines).as_posix(),
        exit_status=exit_status,
        seconds=round(seconds, 3),
    )


def _git(folder: Path, *arguments: str) -> str:
    """Return what Git prints; an empty text if there is no Git, or no repository."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
