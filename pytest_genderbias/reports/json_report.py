"""The JSON file of a run: everything that was measured and judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_genderbias.folders import write_whole
from pytest_genderbias.gates.comparison import Comparison, LeftOut
from pytest_genderbias.gates.judgement import SettledJudgement
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.variance import ValueVariance
from pytest_genderbias.text.printable import json_text

SCHEMA = 1


def write_json(
    path: Path,
    measurements: Sequence[Measurement],
    judgements: Sequence[SettledJudgement],
    exit_status: int,
    comparisons: Sequence[Comparison] = (),
    not_compared: Sequence[LeftOut] = (),
    not_judged: Sequence[Mapping[str, str]] = (),
    variances: Sequence[ValueVariance] = (),
) -> None:
    """Write the report in one step. NaN and infinities become ``null``; item statistics are left out."""
    report = {
        "schema": SCHEMA,
        "exit_status": exit_status,
        "measurements": [measurement.to_dict(arrays=False) for measurement in measurements],
        "judgements": [judgement.to_dict(finite=True) for judgement in judgements],
        "comparisons": [comparison.to_dict(finite=True) for comparison in comparisons],
        "not_compared": [suite.to_dict() for suite in not_compared],
        "not_judged": [dict(test) for test in not_judged],
        "variance": [variance.to_dict(finite=True) for variance in variances],
    }
    write_whole(path, (json_text(report) + "\n").encode())
