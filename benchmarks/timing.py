"""Timing with warm-up, repeats in turn and medians, and the facts about the machine that affect times."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

#: The clock in use: one entry.
_CLOCKS = [time.perf_counter]


def count_processor_time(servers: bool = False) -> None:
    """Time calls by the processor's time, with one thread in this process, which other processes do not affect much.

    ``servers``: count running child processes as well as those that ended.
    """
    import torch

    _CLOCKS[0] = _time_with_servers if servers else _processor_time
    torch.set_num_threads(1)


def _processor_time() -> float:
    ended = os.times()
    return time.process_time() + ended.children_user + ended.children_system


def _time_with_servers() -> float:
    import psutil

    running = [process.cpu_times() for process in psutil.Process().children(recursive=True)]
    return _processor_time() + sum(spent.user + spent.system for spent in running)


def seconds(call: Callable[[], Any]) -> float:
    """Return the time of one call in seconds."""
    start = _CLOCKS[0]()
    call()
    return _CLOCKS[0]() - start


def turns(calls: Mapping[str, Callable[[], Any]], repeats: int, warm_up: bool = True) -> dict[str, list[float]]:
    """Return the time of each call in each turn in seconds, after one call each if ``warm_up``.

    The calls take turns, so that a temporary slowdown of the machine affects all of them.
    """
    for call in calls.values() if warm_up else ():
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(seconds(call))
    return times


def medians(calls: Mapping[str, Callable[[], Any]], repeats: int, warm_up: bool = True) -> dict[str, float]:
    """Return the median time of each call over the turns in seconds."""
    return {name: median(values) for name, values in turns(calls, repeats, warm_up).items()}


def machine() -> dict[str, str]:
    """Return the number of cores and threads, the load, and the versions of packages."""
    import torch

    facts = {
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "torch threads": str(torch.get_num_threads()),
        "device": "cpu",
        "processor": _processor(),
        "clock": "time" if _CLOCKS[0] is time.perf_counter else "time of the processor",
        "load": "/".join(f"{load:.1f}" for load in os.getloadavg()) if hasattr(os, "getloadavg") else "unknown",
        "TOKENIZERS_PARALLELISM": os.environ.get("TOKENIZERS_PARALLELISM", "default"),
        "python": platform.python_version(),
    }
    for package in ("torch", "transformers", "tokenizers", "numpy", "pytest", "pytest-genderbias"):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def _processor() -> str:
    """Return vendor, family, model and vector instructions of the processor."""
    import torch

    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.is_file() else []
    facts = {name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}
    named = [facts.get(name, "?") for name in ("vendor_id", "cpu family", "model")]
    return f"{named[0]} family {named[1]} model {named[2]}, {torch.backends.cpu.get_cpu_capability()}"
