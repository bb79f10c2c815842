"""The declared types of a family: its options are those that its table of options has.

Families that ask in several ways share a type. It has the options of every way, and requires those of all ways.
"""

from typing import get_args, get_type_hints

import pytest

from pytest_genderbias.suites.registry import FAMILIES


def options_type(family):
    """Return the last type argument of the family's base: the TypedDict of its options."""
    return get_args(type(family).__orig_bases__[0])[-1]


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_options_are_typed_as_they_are_declared(name):
    family = FAMILIES[name]
    kind = options_type(family)
    types = get_type_hints(kind)
    assert kind.__required_keys__ <= family.options.keys() <= types.keys()
    for option, declared in family.options.items():
        allowed = get_args(types[option]) or (types[option],)
        names = {getattr(kind, "__origin__", kind) for kind in allowed}
        assert type(declared.default) in names
