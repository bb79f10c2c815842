"""Results of runs: one JSON file a run, with every figure by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.folders import write_whole
from pytest_genderbias.text import packaged
from pytest_genderbias.text.plain_files import read_whole
from pytest_genderbias.text.printable import json_text
from pytest_genderbias.text.strict_json import parse_json

SCHEMA = 1
_LARGEST = 2**27  #: bytes of a result


@dataclass(frozen=True)
class StoredFigure:
    """A figure of one side of a run.

    Attributes:
        values: one per seed, in the order of the run: the mean over the models of that seed (controls); ``None``
            where undefined.
        intervals: the 95 % interval of each over the suite's items; ``None`` where there is none.
        held_out: where the seeds are splits of the same texts, the share that each holds out (above 0, below 1);
            ``None`` where they are restarts.
    """

    values: Sequence[float | None]
    intervals: Sequence[Sequence[float] | None] = field(default_factory=list)
    held_out: float | None = None

    @property
    def defined(self) -> list[float]:
        """The values that are defined."""
        return [value for value in self.values if value is not None]

    @property
    def mean(self) -> float | None:
        """The mean over the seeds, ``None`` if no value is defined."""
        return float(np.mean(self.defined)) if self.defined else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation over the seeds; ``None`` if all are equal or there is one only."""
        return float(np.std(self.defined, ddof=1)) if len(set(self.defined)) > 1 else None

    def joined(self, other: StoredFigure) -> StoredFigure:
        """Return the figure of these seeds and then those of the other."""
        return replace(self, values=[*self.values, *other.values], intervals=[*self.intervals, *other.intervals])

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval over items of the only value, ``None`` where several seeds differ or none was stored."""
        if len(set(self.defined)) != 1 or not self.intervals or self.intervals[0] is None:
            return None
        low, high = self.intervals[0]
        return float(low), float(high)


@dataclass(frozen=True)
class StoredRun:
    """Result of one run.

    Attributes:
        run: name of the run.
        scale: ``small`` or ``paper``.
        settings: of the run at this scale, as its config had them.
        seeds: of the trainings; ``(0,)`` where nothing was trained.
        figures: by ``SIDE/SUITE/STATISTIC``.
        details: what its kind adds: verdicts, curves, words.
        seconds: wall time; of the last part, if the run was interrupted.
        processor_seconds: processor time of the same, over all threads; ``None`` in results that do not have it.
        versions: of packages.
    """

    run: str
    scale: str
    settings: Mapping[str, Any]
    seeds: Sequence[int]
    figures: Mapping[str, StoredFigure]
    details: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    processor_seconds: float | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


def write_run(run: StoredRun, folder: Path) -> Path:
    """Write the result of a run to ``folder/RUN.json``, whole or not at all, and return the path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run.run}.json"
    write_whole(path, (json_text({"schema": SCHEMA, **asdict(run)}) + "\n").encode())
    return path


def packaged_results() -> Path:
    """Return the folder of the results that are part of the package."""
    return packaged.folder("results")


def read_run(path: Path) -> StoredRun:
    """Return the result of a run.

    Raises:
        DataFileError: the file cannot be read, or is no result of a run.
    """
    content = parse_json(read_whole(path, _LARGEST), str(path))
    if not isinstance(content, dict) or content.pop("schema", None) != SCHEMA:
        raise DataFileError(
            f"{path}:1: expected the result of a run of a paper, schema {SCHEMA}; delete it and make it again"
        )
    try:
        figures = {key: StoredFigure(**figure) for key, figure in content.pop("figures").items()}
        return StoredRun(figures=figures, **content)
    except (TypeError, KeyError, AttributeError) as error:
        raise DataFileError(
            f"{path}:1: expected the result of a run of a paper: {error}; delete it and make it again"
        ) from None


def read_runs(folder: Path) -> dict[str, StoredRun]:
    """Return all results of a folder by name; none if there is no folder."""
    return {path.stem: read_run(path) for path in sorted(folder.glob("*.json"))}


def figure_at(runs: Mapping[str, StoredRun], locator: str) -> StoredFigure | None:
    """Return the figure that a locator names; ``None`` if the run has no result yet.

    Raises:
        DataFileError: the run has a result without this figure.
    """
    name, _, key = locator.partition(" ")
    if name not in runs:
        return None
    figures = runs[name].figures
    if key not in figures:
        near = [known for known in figures if known.rpartition("/")[0] == key.rpartition("/")[0]] or list(figures)
        raise DataFileError(f"{name}.json has no figure {key!r}; it has {', '.join(sorted(near)[:12])}")
    return figures[key]
