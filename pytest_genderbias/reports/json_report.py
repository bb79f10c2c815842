"""The JSON file of a run: everything that was measured and judged."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_genderbias.folders import write_whole

SCHEMA = 1


def write_json(
    path: Path,
    measurements: Sequence[Any],
    judgements: Sequence[Any],
    exit_status: int,
    comparisons: Sequence[Any] = (),
    not_compared: Sequence[Any] = (),
) -> None:
    """Write the report in one step. Numbers that JSON does not have become ``null``."""
    report = {
        "schema": SCHEMA,
        "exit_status": exit_status,
        "measurements": list(measurements),
        "judgements": list(judgements),
        "comparisons": list(comparisons),
        "not_compared": list(not_compared),
    }
    write_whole(path, (json.dumps(_finite(report), indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode())


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
