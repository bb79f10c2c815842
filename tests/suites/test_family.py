"""The base class of families."""

import pytest

from pytest_genderbias.suites.family import Family
from pytest_genderbias.suites.registry import FAMILIES


@pytest.mark.parametrize("missing", ["read", "content", "questions", "summarise"])
def test_a_family_that_lacks_a_method_cannot_be_made(missing):
    methods = {name: lambda self, *_: None for name in ("read", "content", "questions", "summarise") if name != missing}
    incomplete = type("Incomplete", (Family,), methods)
    with pytest.raises(TypeError, match=f"abstract .*{missing}"):
        incomplete()


def test_all_families_are_of_the_base_class():
    assert all(isinstance(family, Family) for family in FAMILIES.values())
