"""Shared by the tests of chat suites: measuring an object, what no value looks like, coverage of intervals, and suites
of one's own.
"""

import numpy as np
import pytest
import yaml

from pytest_genderbias import Limit, measure
from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.gates.limits import judge_limit
from pytest_genderbias.models.objects import wrap_object


def measured(model, suite, **options):
    """Measure a chat object, without a cache."""
    return measure(suite, wrap_object(model), cache=None, **options)


def check_cannot_do(found, statistic, beginning):
    """Check that a figure has no value with a reason that begins so, no null control, no sums, and that no gate
    passes.
    """
    assert found.values[statistic] is None and not found.null
    assert found.reasons[statistic].startswith(f"cannot do the task: {beginning}")
    judged = judge_limit(found, Limit(within=0.9), statistic=statistic)
    assert judged.code == "not_able" and "cannot do the task" in judged.text
    with pytest.raises(UndefinedError, match="cannot do the task"):
        found.item_sums(statistic)


def check_coverage(found, statistic, planted, over, items, least, near):
    """Check intervals of measurements of models that are biased by the same amount: clusters, how many contain it, and
    their mean value.

    ``least``: how many intervals contain the planted value, at the least. ``near``: how far the mean value may lie from
    it.
    """
    intervals = [one.intervals[statistic] for one in found]
    assert {(interval.over, interval.items) for interval in intervals} == {(over, items)}
    assert sum(interval.low <= planted <= interval.high for interval in intervals) >= least
    assert np.mean([one.values[statistic] for one in found]) == pytest.approx(planted, abs=near)


def write_suite(folder, base, **changes):
    """Write a suite file of one's own, and return its path."""
    (folder / "mine.yaml").write_text(yaml.safe_dump(base | changes, sort_keys=False))
    return folder / "mine.yaml"
