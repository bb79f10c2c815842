"""Pictures of a run as plain data: of each measurement, and of several measurements and judgements together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from pytest_genderbias.errors import through_error
from pytest_genderbias.escaping import printable
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.plain_data import as_plain
from pytest_genderbias.reports import history
from pytest_genderbias.reports.fields import largest
from pytest_genderbias.reports.figures import runs, units
from pytest_genderbias.reports.picture import Picture
from pytest_genderbias.reports.run_report import RunReport
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.suites.suite import family_of, load_suite, suite_names
from pytest_genderbias.text.printable import json_text

Made = Picture | tuple[Picture | None, ...] | None  #: what builders of pictures return


def pictures_of(measurement: Measurement) -> tuple[Picture, ...]:
    """Return the pictures of a measurement, the most telling first.

    A family names what makes them as its ``picture``: a function of ``figures.units``.

    Args:
        measurement: with all its records and item statistics. One that was shortened for a report, or has no value, has
            no pictures.
    """
    definition = str(measurement.signature["definition"])
    family = family_of(definition)
    if family is None or not family.picture or not measurement.items or measurement.value is None:
        return ()
    builder = "group_bars" if definition.partition("/")[2].startswith("groups") else family.picture
    builder = "restarts" if measurement.restarts else builder
    return _drawn(getattr(units, builder)(measurement))


def _drawn(made: Made) -> tuple[Picture, ...]:
    return tuple(one for one in (made if isinstance(made, tuple) else (made,)) if one is not None)


_T = TypeVar("_T")
_MOST_RELEASES = 24  #: pictures of statistics over runs: of gates that became worse first


def with_history(report: RunReport, path: history.Where) -> RunReport:
    """Return a report with its values over the runs of a history, and their pictures.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.reports.history.with_history`.
    """
    known = history.with_history(report, path)
    return replace(known, pictures=(*known.pictures, *pictures_of_history(known)))


def pictures_of_history(report: RunReport) -> tuple[Picture, ...]:
    """Return the pictures of the statistics over the runs of a history, of gates that became worse first."""
    traced = [trace for trace in report.history if trace.is_gated or trace.main]
    first = sorted(traced, key=lambda trace: (not trace.is_gated, -(trace.worsening() or 0.0)))[:_MOST_RELEASES]
    return tuple(picture for trace in first if (picture := runs.over_releases(trace)) is not None)


def _attempts(report: RunReport) -> Iterator[Callable[[], Made]]:
    about = _statistics(report.measurements)
    judgements = report.judgements
    reductions = [judgement for judgement in judgements if judgement.of_reduction is not None]
    for same in _alike(report.measurements):
        yield partial(runs.models, same)
        yield partial(runs.accuracy_and_bias, same)
    for of_statistic in _groups(reductions, lambda judgement: (judgement.suite, judgement.statistic)):
        suite, statistic = of_statistic[0].suite, of_statistic[0].statistic
        known = about.get((suite, statistic)) or _packaged(suite, statistic)
        yield partial(runs.mitigations, of_statistic, known)
        yield partial(runs.price, of_statistic, known)
        yield partial(runs.retrained, of_statistic)
    yield partial(runs.growth, judgements)
    yield partial(runs.drift, judgements, about)
    for of_model in _groups(report.variances, lambda variance: variance.model):
        yield partial(runs.variance, of_model)


def _statistics(measurements: Iterable[Measurement]) -> dict[tuple[str, str], Statistic]:
    return {(m.suite, name): statistic for m in measurements for name, statistic in m.statistics.items()}


def _packaged(suite: str, statistic: str) -> Statistic | None:
    """Return a statistic of a packaged suite: mitigations judge without a measurement in the report."""
    return load_suite(suite).statistics.get(statistic) if suite in suite_names() else None


def _alike(measurements: Sequence[Measurement]) -> list[list[Measurement]]:
    """Return the measurements of each suite that several models have with the same settings, of each model that with
    most cases.
    """
    most = {id(one) for one in largest(measurements, lambda one: (one.model, _asked(one)))}
    return [same for same in _groups((m for m in measurements if id(m) in most), _asked) if len(same) > 1]


def _asked(measurement: Measurement) -> str:
    """Return what was asked of a model: equal texts can be compared."""
    signature: Mapping[str, object] = measurement.signature
    return json_text(
        as_plain(
            [measurement.suite, *(signature.get(key) for key in ("digest", "definition", "settings", "data"))],
            finite=True,
        )
    )


def _groups(things: Iterable[_T], key: Callable[[_T], Hashable]) -> list[list[_T]]:
    """Return the things that have the same key together, in their order."""
    by_key: dict[Hashable, list[_T]] = {}
    for thing in things:
        by_key.setdefault(key(thing), []).append(thing)
    return list(by_key.values())


# Without what a library cannot draw.


#: Pictures, and a line for each attempt that failed.
Drawn = tuple[tuple[Picture, ...], tuple[str, ...]]


def draw_measurements(measurements: Iterable[Measurement]) -> Drawn:
    """Return the pictures of measurements that have all their records and item statistics."""
    return _draw(
        (f"the pictures of {m.suite} on {m.model} were not drawn", partial(pictures_of, m)) for m in measurements
    )


def draw_run(report: RunReport) -> Drawn:
    """Return the pictures that several measurements and judgements of a run make together: of models, gates,
    mitigations, drift and variance. The report may be one that was read back.
    """
    return _draw(("a picture of several measurements was not drawn", make) for make in _attempts(report))


def _draw(attempts: Iterable[tuple[str, Callable[[], Made]]]) -> Drawn:
    pictures: list[Picture] = []
    failures: list[str] = []
    for failure, make in attempts:
        try:
            pictures += _drawn(make())
        except Exception as error:  # of a library that draws: the test keeps its verdict, and the run its files
            failures.append(printable(f"{failure}, {through_error(error)}"))
    return tuple(pictures), tuple(failures)
