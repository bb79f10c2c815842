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


def count_processor_time() -> None:
    """Time calls by the processor's time of this process, with one thread, which other processes do not affect much."""
    import torch

    _CLOCKS[0] = time.process_time
    torch.set_num_threads(1)


def seconds(call: Callable[[], Any]) -> float:
    """Return the time of one call in seconds."""
    start = _CLOCKS[0]()
    call()
    return _CLOCKS[0]() - start


def turns(calls: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Return the time of each call in each turn in seconds, after one call each to warm up.

    The calls take turns, so that a temporary slowdown of the machine affects all of them.
    """
    for call in calls.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(seconds(call))
    return times


def medians(calls: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the median time of each call over the turns in seconds."""
    return {name: median(values) for name, values in turns(calls, repeats).items()}


def machine() -> dict[str, str]:
    """Return the number of cores and threads, the load, and the versions of packages."""
    import torch

    facts = {
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "torch threads": str(torch.get_num_threads()),
        "device": "cpu",
        "processor": _processor(),
        "clock": "time of the processor" if _CLOCKS[0] is time.process_time else "time",
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
