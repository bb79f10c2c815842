"""The base class of families."""

import json

import pytest

from pytest_genderbias.suites.family import Family
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.suites.suite import FAMILIES, load_family


@pytest.mark.parametrize("missing", ["read", "content", "questions", "summarise"])
def test_a_family_that_lacks_a_method_cannot_be_made(missing):
    methods = {name: lambda self, *_: None for name in ("read", "content", "questions", "summarise") if name != missing}
    incomplete = type("Incomplete", (Family,), methods)
    with pytest.raises(TypeError, match=f"abstract .*{missing}"):
        incomplete()


def test_all_families_are_of_the_base_class():
    assert all(isinstance(family, Family) for family in map(load_family, FAMILIES))


@pytest.mark.parametrize("family", [*map(load_family, FAMILIES)], ids=list(FAMILIES))
def test_all_that_is_known_of_a_statistic_is_in_one_object(family):
    for statistic in family.statistics.values():
        plain = Statistic(**json.loads(json.dumps(vars(statistic.plain()))))
        assert plain == statistic.plain()
        assert {"direction", "neutral", "meaning"} <= vars(plain).keys()
        assert plain.distance(plain.neutral) == 0.0
        assert plain.partner is None or family.statistics[plain.partner].scale.direction == "away"
        assert {plain.mistakes, plain.without_chance} - {None} <= family.statistics.keys()
        assert plain.question is None or plain.question in family.own_questions()
    assert bool(family.null_control) == (type(family).null is not Family.null)


@pytest.mark.parametrize("family", [*map(load_family, FAMILIES)], ids=list(FAMILIES))
def test_roots_of_mean_squares_say_so(family):
    assert {name for name, one in family.statistics.items() if one.root} == {
        name for name in family.statistics if name.endswith("_rms")
    }
