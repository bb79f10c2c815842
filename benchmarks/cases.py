"""The cases that ``measure(suite, model, limit=...)`` scores, as input for the baselines of the benchmarks."""

from __future__ import annotations

from pytest_genderbias import Suite
from pytest_genderbias.scoring.engine import random_order
from pytest_genderbias.suites.family import resolve_options
from pytest_genderbias.suites.space import CaseSpace

UNASKED = "none: models of random weights can do no task"  #: the control items


def space_of(suite: Suite) -> CaseSpace:
    """Return all cases of a suite with its default options."""
    space: CaseSpace = suite.family.space(
        suite.body, resolve_options(suite.family.options, dict(suite.defaults), suite.name)
    )
    return space


def sentences(suite: Suite, limit: int, mask: str = "[MASK]") -> list[tuple[str, ...]]:
    """Return the sentences or pairs that are scored with a limit, in order."""
    space = space_of(suite)
    units = random_order(space.n_units, suite.digest, 0)[: limit // space.cases_per_unit]
    return space.sentences(space.cases_of(units), mask)
