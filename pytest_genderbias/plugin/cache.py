"""The score cache of a run: show it, clear it, and limit its size."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_genderbias.folders import distrusted
from pytest_genderbias.plugin.options import Settings
from pytest_genderbias.plugin.progress import show
from pytest_genderbias.text.columns import rows_or_blocks
from pytest_genderbias.text.printable import counted

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from pytest_genderbias.scoring.store import CacheEntry

_HEADERS = ("suite", "model", "entries", "size", "cases", "last used")
_RIGHT = frozenset(("entries", "size", "cases"))


def cache_information(settings: Settings, clear: bool, width: int) -> str:
    """Return what ``genderbias cache`` shows; with ``clear`` the cache is cleared first.

    Raises:
        UsageError: the settings say that there is none.
    """
    if settings.cache is None:
        raise pytest.UsageError("there is no score cache with --bias-no-cache; leave it out")
    cleared = ""
    if clear:
        from pytest_genderbias.scoring.store import clear as clear_cache

        cleared = f"{_describe_removal(settings.cache, *clear_cache(settings.cache))}\n"
    return cleared + describe(settings.cache, settings.cache_size, width)


class CacheKeeper:
    """Limits the size of a cache, in bytes, after a run that measures. Workers of xdist have none."""

    def __init__(self, cache: Path, most: int) -> None:
        self._cache, self._most = cache, most
        self._removed = ""

    def pytest_sessionfinish(self) -> None:
        """Remove the least recently used entries if the cache is too large."""
        from pytest_genderbias.scoring.store import bound

        removed, in_use = bound(self._cache, self._most)
        if removed or in_use:
            self._removed = (
                f"{_describe_removal(self._cache, removed, in_use)}; the least recently used entries go until the rest"
                f" is within {show_size(self._most)} (bias_cache_size)"
            )

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Print why the cache is off, where its folder is not trusted, and what was removed."""
        if doubt := distrusted(self._cache):
            show(terminalreporter, f"note: nothing is read from or written to the score cache: {doubt}", "yellow")
        if self._removed:
            show(terminalreporter, f"note: {self._removed}")


def describe(cache: Path, most: int, width: int) -> str:
    """Return a table of what a cache holds, by suite and model, in so many columns; ``most`` is its largest size in
    bytes.
    """
    from pytest_genderbias.scoring.store import list_entries

    if not (entries := list_entries(cache)):
        state = "is empty" if cache.is_dir() else "is no folder" if cache.exists() else "does not exist yet"
        return f"score cache: {cache} {state}"
    groups: dict[tuple[str, str], list[CacheEntry]] = {}
    for entry in entries:
        groups.setdefault((entry.suite or "unknown", entry.model or "unknown"), []).append(entry)
    rows = [(*names, *_row(group)) for names, group in sorted(groups.items())]
    return (
        f"score cache: {cache}\n"
        f"{counted(len(entries), 'entries')}, {show_size(sum(entry.size for entry in entries))} "
        f"(bounded to {show_size(most)} at the end of a run)\n\n"
        + "\n".join(rows_or_blocks(_HEADERS, rows, 2, width, right=_RIGHT))
    )


def show_size(size: int) -> str:
    """Return a size with its unit.

    >>> show_size(999), show_size(1500), show_size(10_000_000_000)
    ('999 bytes', '1.5 kB', '10.0 GB')
    """
    if size < 1000:
        return f"{size} byte" if size == 1 else f"{size} bytes"
    value, units = size / 1000, iter(("kB", "MB", "GB", "TB"))
    unit = next(units)
    while value >= 999.95 and unit != "TB":
        value, unit = value / 1000, next(units)
    return f"{value:,.1f} {unit}"


def _row(group: list[CacheEntry]) -> tuple[str, str, str, str]:
    stored = [entry.cases for entry in group if entry.cases is not None]
    cases = f"{sum(stored):,}" if stored else "unknown"
    if len(group) == 1 and stored and group[0].cases_total is not None and group[0].cases_total > stored[0]:
        cases += f" of {group[0].cases_total:,}"
    used = time.strftime("%Y-%m-%d %H:%M", time.localtime(max(entry.used for entry in group)))
    return f"{len(group):,}", show_size(sum(entry.size for entry in group)), cases, used


def _describe_removal(cache: Path, removed: Sequence[CacheEntry], in_use: Sequence[CacheEntry]) -> str:
    """Return what was removed, and what could not be.

    >>> from pytest_genderbias.scoring.store import CacheEntry
    >>> entry = CacheEntry(Path("c/a"), 750, 0.0)
    >>> _describe_removal(Path("c"), [entry, entry], [entry])
    'score cache c: removed 2 entries (1.5 kB), left 1 entry that another process holds or that cannot be locked'
    """
    size = show_size(sum(entry.size for entry in removed))
    text = f"score cache {cache}: removed {counted(len(removed), 'entries')} ({size})"
    left = f", left {counted(len(in_use), 'entries')} that another process holds or that cannot be locked"
    return text + (left if in_use else "")
