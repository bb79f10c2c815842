"""Make the runs of a table: those without a result, and seeds that a result lacks. Each is stored when it is made, so
that an interrupted table goes on where it stopped.
"""

from __future__ import annotations

import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from pytest_genderbias.errors import BiasError, SettingError
from pytest_genderbias.measurement.carry_out import versions
from pytest_genderbias.mitigation.harness.run import seeds_of
from pytest_genderbias.papers.config import PAPER, PaperConfig, RunConfig, overlaid
from pytest_genderbias.papers.kinds import Outcome, with_further_seeds
from pytest_genderbias.papers.places import Places, placed
from pytest_genderbias.papers.stored import StoredRun, read_run, write_run

CarryOut = Callable[[Mapping[str, Any], Places], Outcome]

#: Modules by the name of the kind; each has ``carry_out(settings, places)``.
KINDS: Mapping[str, str] = {
    "agreement": "agreement",
    "extremes": "extremes",
    "growth": "growth",
    "mitigation": "mitigation",
    "paired-subspace": "paired_subspace",
    "resilience": "resilience",
    "scrubbed-words": "scrubbed_words",
}
FURTHER_SEEDS = ("agreement", "growth", "mitigation", "resilience")  #: kinds whose results take further seeds
Tell = Callable[[str], object]
_PREFIX = "paper-"  #: begins the name of a result at the paper's scale


def kind_named(name: str) -> CarryOut:
    """Return the function that carries out runs of a kind."""
    carry_out: CarryOut = import_module(f"pytest_genderbias.papers.kinds.{KINDS[name]}").carry_out
    return carry_out


def result_name(run: RunConfig, scale: str) -> str:
    """Return the name of the file of a result, without ``.json``.

    >>> result_name(RunConfig("bios-scrubbing", "", "mitigation", {}), "paper")
    'paper-bios-scrubbing'
    """
    return f"{_PREFIX}{run.name}" if scale == PAPER else run.name


def make_runs(
    paper: PaperConfig, names: Sequence[str], scale: str, places: Places, results: Path, tell: Tell = print
) -> list[str]:
    """Make the named runs that have no result of their settings, and return the names of those that failed.

    A result that lacks nothing but seeds is extended by them. A run that fails, by whatever error, leaves the others as
    they are.

    Args:
        paper: the paper.
        names: of its runs.
        scale: ``small`` or ``paper``.
        places: where models, data and trainings lie.
        results: folder of the results.
        tell: is given a line for each run.
    """
    failed = []
    for name in names:
        run = paper.runs[name]
        if scale not in run.scales:
            tell(f"{name}: has no settings for the {scale} scale")
            continue
        path = results / f"{result_name(run, scale)}.json"
        made = read_run(path) if path.exists() else None
        if made and is_of(run, scale, made):
            tell(f"{name}: has a result ({path}); delete it to make it again")
            continue
        missing = missing_seeds(run, scale, made) if made else []
        tell(f"{name}: {run.title}{_expected(run, scale, missing)}")
        try:
            new = make_run(run, scale, places, missing)
            stored = extended(made, new, run, places) if made and missing else new
        except BiasError as error:
            failed.append(name)
            tell(f"{name}: {type(error).__name__}: {error}")
            continue
        except Exception:  # a defect in one run should not cost the others their results
            failed.append(name)
            tell(f"{name}: failed by a defect, which the lines below show\n{traceback.format_exc().rstrip()}")
            continue
        write_run(stored, results)
        tell(f"{name}: made in {new.seconds:.0f} s")
    return failed


def is_of(run: RunConfig, scale: str, stored: StoredRun) -> bool:
    """Return whether a result is of the settings that a run has now."""
    return stored.settings == run.scales.get(scale)


def _expected(run: RunConfig, scale: str, missing: Sequence[int]) -> str:
    """Return which seeds are made, unless all are, and about how long it takes."""
    seeds = f", seeds {', '.join(map(str, missing))} beside those it has" if missing else ""
    if scale == PAPER or not run.minutes:
        return seeds
    share = len(missing) / len(seeds_of(run.scales[scale]["seeds"])) if missing else 1
    return f"{seeds}, about {run.minutes * share:.2g} min of one core"


def make_run(run: RunConfig, scale: str, places: Places, seeds: Sequence[int] = ()) -> StoredRun:
    """Carry out a run, with its own seeds or with ``seeds``, and return its result.

    Raises:
        BiasError: a model, data set or setting is missing or wrong.
    """
    settings = {**run.scales[scale], "seeds": list(seeds)} if seeds else run.scales[scale]
    start, used = time.perf_counter(), time.process_time()
    outcome = kind_named(run.kind)(placed(settings, places), places)
    spent = round(time.perf_counter() - start, 1), round(time.process_time() - used, 1)
    found = list(outcome.seeds), outcome.figures, outcome.details
    return StoredRun(result_name(run, scale), scale, settings, *found, *spent, versions())


def missing_seeds(run: RunConfig, scale: str, made: StoredRun) -> list[int]:
    """Return the seeds that a result lacks, where it differs in nothing else from what the run is now; otherwise none.

    Only results of several seeds of a kind of :data:`FURTHER_SEEDS` are extended, and without a grid, whose best point
    all seeds choose.
    """
    settings, known = run.scales[scale], list(made.seeds)
    if run.kind not in FURTHER_SEEDS or "grid" in settings or len(known) < 2:
        return []
    seeds = list(seeds_of(settings.get("seeds", 1)))
    is_start = seeds[: len(known)] == known and settings == {**made.settings, "seeds": settings.get("seeds")}
    return seeds[len(known) :] if is_start else []


def extended(made: StoredRun, new: StoredRun, run: RunConfig, places: Places) -> StoredRun:
    """Return the result of the seeds of two results of a run, as if all seeds had been made at once.

    The times are sums. In that of the processor, the wall time of a result without processor time counts.
    """
    kind = import_module(f"pytest_genderbias.papers.kinds.{KINDS[run.kind]}")
    outcome = getattr(kind, "with_further_seeds", with_further_seeds)(made, new, places)
    used = sum(part.processor_seconds or part.seconds for part in (made, new))
    return replace(
        new,
        settings=run.scales[made.scale],
        seeds=list(outcome.seeds),
        figures=outcome.figures,
        details=outcome.details,
        seconds=round(made.seconds + new.seconds, 1),
        processor_seconds=round(used, 1),
    )


def check_run(run: RunConfig, places: Places) -> str:
    """Carry out the paper's scale of a run as far as a small machine goes: with its stand-in, in a temporary folder.

    The stand-in replaces what a small machine lacks: a large checkpoint by a small one, all of a data set by a few
    rows, all steps by one.

    Returns:
        What was done, in a line.

    Raises:
        BiasError: a setting of the config is wrong, or what the stand-in needs is missing.
    """
    if PAPER not in run.scales:
        raise SettingError(f"{run.name} has no settings for the paper's scale")
    if not run.stand_in:
        raise SettingError(f"{run.name} has no stand-in, so that nothing of it can be checked here")
    settings: Mapping[str, Any] = overlaid(run.scales[PAPER], run.stand_in)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="genderbias-") as folder:
        there = Places({**places.named, "runs": folder}, Path(folder), places.progress)
        outcome = kind_named(run.kind)(placed(settings, there), there)
    return f"{run.name}: checked with a stand-in, {len(outcome.figures)} figures in {time.perf_counter() - start:.0f} s"
