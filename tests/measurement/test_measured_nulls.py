"""What shuffles make of each statistic of a measurement."""

from dataclasses import replace
from zlib import crc32

import numpy as np
import pytest

from pytest_genderbias import assert_at_most, measure
from pytest_genderbias.errors import GateFailure, SettingError, UndefinedError
from pytest_genderbias.gates.limits import Limit, judge_limit
from pytest_genderbias.measurement.carry_out import carry_out
from pytest_genderbias.measurement.plan import plan_measurement
from pytest_genderbias.measurement.restarts import combine_restarts
from pytest_genderbias.models.objects import wrap_object
from pytest_genderbias.scoring.engine import ScoreSettings
from pytest_genderbias.suites.suite import FAMILIES, load_family, load_suite


class Writer:
    """Likes nurses who are women, and counts how often it is asked."""

    fingerprint = "counting writer"

    def __init__(self, bias=1.0):
        self.calls, self.bias = 0, bias

    def continuation_log_probs(self, prefixes, continuations):
        self.calls += 1
        pairs = zip(prefixes, continuations, strict=True)
        return np.array([-1.0 - self.bias * (p.lower().startswith("he")) - 0.01 * len(c) for p, c in pairs])


class Classifier:
    labels = ("entailment", "neutral", "contradiction")

    def pair_probabilities(self, premises, hypotheses):
        same = np.array([a == b for a, b in zip(premises, hypotheses, strict=True)])
        return np.stack([np.where(same, 1.0, 0.1), np.where(same, 0.0, 0.8), np.where(same, 0.0, 0.1)], axis=1)


def test_only_what_is_made_of_sizes_has_a_null_without_being_asked():
    """Chance alone keeps a mean of sizes from neutral 0, so that the value says little without what chance gives."""
    model = Writer()
    found = measure("lm-occupation", model, cache=None)
    assert set(found.null) == {"aggregate_bias"} and found.null["aggregate_bias"].repeats == 200
    assert "null" not in found.signature["settings"]
    calls, model.calls = model.calls, 0
    assert found.null == {
        "aggregate_bias": measure("lm-occupation", model, cache=None, null=200).null["aggregate_bias"]
    }
    assert model.calls == calls, "shuffles ask the model nothing"
    assert not any("null" in note for note in found.notes)
    with pytest.raises(GateFailure, match=r"neutral is 0 \(by\s+chance\s+alone\s+0\.[12]\d* to 0\.3\d*\)"):
        assert_at_most(found, 0.1)
    assert measure("nli-religion", Classifier(), limit=300, cache=None).null == {}


def test_a_measurement_has_the_values_of_shuffles_without_asking_the_model_again(tmp_path):
    model = Writer()
    plain = measure("lm-occupation", model, cache=tmp_path)
    assert model.calls > 0
    calls, model.calls = model.calls, 0
    found = measure("lm-occupation", model, cache=tmp_path, null=200)
    assert model.calls == 0
    assert found.signature == plain.signature
    assert found.values == plain.values
    assert set(found.null) == {"aggregate_bias", "signed_bias"}
    for null in found.null.values():
        assert null.what == load_suite("lm-occupation").family.null_control
        assert null.repeats == 200
        assert null.p_value == 1 / 201
    fresh = Writer()
    measure("lm-occupation", fresh, cache=None, null=200)
    assert fresh.calls == calls, "as many as without a null control"


def test_values_are_those_of_the_family_held_by_the_direction_of_the_statistic():
    space = np.random.default_rng(0)
    model = Writer(bias=0.0)
    model.continuation_log_probs = lambda *columns: [
        -4.0 * crc32("".join(row).encode()) / 2**32 for row in zip(*columns, strict=True)
    ]
    drawn = {name: space.normal(size=60) for name in ("aggregate_bias", "signed_bias")}
    found = with_null(lambda *_: drawn, model=model, repeats=60)
    for name, shuffled in drawn.items():
        about, null = found.statistics[name], found.null[name]
        bad = about.distance(found.values[name])
        assert null.p_value == (1 + sum(about.distance(x) >= bad for x in shuffled)) / 61
        assert null.mean == pytest.approx(shuffled.mean())
    assert [found.statistics[name].direction for name in drawn] == ["higher", "away"]


def test_a_suite_without_a_natural_null_says_so():
    found = measure("nli-religion", Classifier(), limit=300, cache=None, null=100)
    assert found.null == {}
    assert [note for note in found.notes if "null" in note] == [
        "no null control: every pair is held against the same neutral value, whoever is in it"
    ]


@pytest.mark.parametrize("null", [-1, 2.5, True, "200"])
def test_a_wrong_number_of_shuffles_is_refused_before_anything_is_scored(null):
    model = Writer()
    with pytest.raises(SettingError, match="null should be a number of shuffles"):
        measure("lm-occupation", model, cache=None, null=null)
    assert model.calls == 0


def with_null(null, model=None, repeats=100):
    """Carry out lm-occupation with another null control."""
    model = wrap_object(model or Writer())
    plan = plan_measurement(load_suite("lm-occupation"), model.name, model.role)
    family = type("Other", (type(plan.suite.family),), {"null": null})()
    plan = replace(plan, suite=replace(plan.suite, family=family))
    return carry_out(plan, model, ScoreSettings(None, 0, None, None, None), null=repeats)


def test_undefined_shuffles_are_said_in_a_note():
    half = np.where(np.arange(100) % 4 == 0, np.nan, 0.5)
    found = with_null(lambda *_: {"aggregate_bias": half, "signed_bias": np.full(100, np.nan)})
    assert found.null["aggregate_bias"].undefined == 25
    assert set(found.null) == {"aggregate_bias"}
    assert "null control: 25 of 100 shuffles leave aggregate_bias undefined" in found.notes


def test_fewer_shuffles_than_asked_for_are_said_in_a_note():
    found = with_null(lambda *_: {"aggregate_bias": np.full(60, 0.5)})
    assert found.null["aggregate_bias"].repeats == 60
    assert any("60 shuffles and not 100" in note for note in found.notes)


def test_answers_that_leave_nothing_to_shuffle_say_so():
    def refuse(*_):
        raise UndefinedError("there is one group")

    assert "no null control: there is one group" in with_null(refuse).notes
    assert "no null control: what was scored leaves nothing to shuffle" in with_null(lambda *_: {}).notes


def test_a_mean_over_restarts_has_none():
    found = measure("lm-occupation", Writer(), cache=None, null=50)
    assert found.null
    assert combine_restarts([found, found], [0, 1]).null == {}


def test_an_explanation_has_one_line_on_the_null():
    found = measure("lm-occupation", Writer(), cache=None, null=200)
    whole = judge_limit(found, Limit(within=0.1), "signed_bias").text
    null = found.null["signed_bias"]
    (line,) = [line for line in whole.splitlines() if "null control" in line]
    assert (
        line
        == "  chance    null control (the two groups are exchanged at random in each prefix of each occupation; 200"
        f" shuffles): mean {null.mean:.4g}, 95 % of them {null.low:.4g} to {null.high:.4g}, <= 0.5 % at least as bad"
    )
    without = measure("lm-occupation", Writer(), cache=None)
    assert "null control" not in judge_limit(without, Limit(within=0.1), "signed_bias").text


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_has_a_null_or_says_why_not(name):
    """That it gives one for its answers is checked in test_null_controls.py."""
    family = load_family(name)
    assert bool(family.null_control) != bool(family.no_null_control)
