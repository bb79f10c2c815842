"""Functions of the rooms ``show`` and ``lab`` that the plugin calls, and the executors of ``engines``. They are named
here and imported when they are needed. The writers of files are in ``plugin/outputs.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

#: Modules and functions, by what they do for a run or a command.
DOORS: Mapping[str, str] = {
    "properties of a measurement": "reports.junit:add_measurement",
    "properties of a verdict": "reports.junit:add_judgement",
    "summary of a run": "reports.run_summary:summary_lines",
    "report in words": "reports.run_summary:describe_report",
    "annotations": "reports.markdown:annotation_lines",
    "summary of a job": "reports.markdown:append_summary",
    "pictures of measurements": "reports.pictures:draw_measurements",
    "pictures of a run": "reports.pictures:draw_run",
    "runs of a history": "reports.pictures:with_history",
    "page of a history": "reports.history_table:history_page",
    "schema of a report": "reports.json_schema:report_schema",
    "list of suites": "reports.suite_page:list_all",
    "list of fitting suites": "reports.suite_page:list_fitting",
    "page of a suite": "reports.suite_page:show_suite",
    "contents of a history": "reports.history:read_history",
    "differences of an audit pack": "reports.audit:check_pack",
    "reductions of a file": "mitigation.harness.file:read_mitigations",
    "reductions on models": "mitigation.harness.file:planned_reductions",
    "schema of gates": "reports.json_schema:gates_schema",
    "schema of mitigations": "mitigation.harness.file:mitigation_schema",
    "mitigations of a run": "mitigation.harness.file:MitigationRunner",
}


def door(name: str) -> Callable[..., Any]:
    """Return a function or class of another room, by its name in :data:`DOORS`."""
    return reach(DOORS[name])


def reach(place: str) -> Callable[..., Any]:
    """Import a function or class of another room: ``MODULE:NAME``, as the tables of the plugin have it."""
    module, _, name = place.partition(":")
    found: Callable[..., Any] = vars(import_module(f"pytest_genderbias.{module}"))[name]
    return found


#: By the value of ``bias_executor``, which names the package and the extra, too: the class of the executor, called with
#: ``(address, workers, threads, share=...)`` and closed by ``close()``, and the function that checks an address.
EXECUTORS: Mapping[str, tuple[str, str]] = {
    "ray": ("engines.ray_executor:RayExecutor", "engines.ray_cluster:check_address")
}


def xdist_workers() -> int:
    """Return the number of processes of pytest-xdist that share this machine; 1 without pytest-xdist."""
    return int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
