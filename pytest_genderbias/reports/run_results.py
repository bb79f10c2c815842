"""``RunResults``: what the terminal shows of a run.

It imports nothing: a run that writes no file does not wait for what ``RunReport`` needs to read a file back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_genderbias.gates.judgement import Comparison, Judgement, LeftOut
    from pytest_genderbias.gates.verdicts import NotJudged
    from pytest_genderbias.measurement.measurement import Measurement
    from pytest_genderbias.measurement.variance import ValueVariance


@dataclass(frozen=True)
class RunResults:
    """What a run measured and judged, as the fields of the same names of
    :class:`~pytest_genderbias.reports.run_report.RunReport`.
    """

    measurements: tuple[Measurement, ...]
    judgements: tuple[Judgement, ...]
    comparisons: tuple[Comparison, ...]
    not_compared: tuple[LeftOut, ...]
    not_judged: tuple[NotJudged, ...]
    variances: tuple[ValueVariance, ...]
