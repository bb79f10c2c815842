"""What a measured suite asks, in words, where the package knows it."""

from __future__ import annotations

from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.suites.about import SuiteAbout
from pytest_genderbias.suites.registry import FAMILIES
from pytest_genderbias.suites.suite import load_suite, suite_names


def words_of(measurement: Measurement) -> SuiteAbout | None:
    """Return the words of a packaged suite, or those of the family of a user's own; ``None`` for a family of someone
    else.
    """
    family = str(measurement.signature["definition"]).partition("/")[0]
    if measurement.suite in suite_names():
        suite = load_suite(measurement.suite)
        if measurement.signature["digest"] in suite.digests:
            return suite.about
    known = [one.about for one in FAMILIES.values() if one.definition.partition("/")[0] == family]
    return known[0] if known else None
