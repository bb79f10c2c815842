"""The pictures of a run. An error of a library costs the pictures that it was drawing, and the run says so in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pytest_genderbias.escaping import printable
from pytest_genderbias.plugin.doors import door
from pytest_genderbias.plugin.outputs import through_error

if TYPE_CHECKING:
    from pytest_genderbias.measurement.measurement import Measurement
    from pytest_genderbias.reports.picture import Picture
    from pytest_genderbias.reports.run_report import RunReport


@dataclass(frozen=True)
class Drawn:
    """Pictures, and a line for each attempt that failed."""

    pictures: tuple[Picture, ...] = ()
    failures: tuple[str, ...] = ()


def draw_measurements(measurements: Iterable[Measurement]) -> Drawn:
    """Return the pictures of measurements that have all their records and item statistics."""
    pictures_of = door("pictures of a measurement")
    return _draw(
        (f"the pictures of {m.suite} on {m.model} were not drawn", partial(pictures_of, m)) for m in measurements
    )


def draw_run(report: RunReport) -> Drawn:
    """Return the pictures that several measurements and judgements of a run make together."""
    makers = door("pictures of a run")
    return _draw(("a picture of several measurements was not drawn", make) for make in makers(report))


def _draw(attempts: Iterable[tuple[str, Callable[[], tuple[Picture, ...]]]]) -> Drawn:
    pictures: list[Picture] = []
    failures: list[str] = []
    for failure, make in attempts:
        try:
            pictures += make()
        except (
            Exception
        ) as error:  # of a library that computes or draws: the test keeps its verdict, and the run its files
            failures.append(printable(f"{failure}, {through_error(error)}"))
    return Drawn(tuple(pictures), tuple(failures))
