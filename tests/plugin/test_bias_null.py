"""``--bias-null``: what shuffles make of each statistic, and where the measured value lies among them."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_genderbias import assert_within, measure, suite_names
from pytest_genderbias.errors import GateFailure, NotApplicableError, SettingError
from pytest_genderbias.measurement.carry_out import carry_out
from pytest_genderbias.measurement.plan import plan_measurement
from pytest_genderbias.measurement.restarts import combine_restarts
from pytest_genderbias.models.loading import load_model
from pytest_genderbias.models.objects import wrap_object
from pytest_genderbias.scoring.engine import ScoreSettings
from pytest_genderbias.statistics.inference.null import summarise_null
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.suites.registry import FAMILIES
from pytest_genderbias.suites.suite import load_suite

# The place of a value among those of shuffles


def higher(x):
    return x


def lower(x):
    return -x


def away(x):
    return np.abs(x - 1.0)


@pytest.mark.parametrize(
    ("direction", "value", "place"),
    [
        (higher, 9.0, 1 / 6), (higher, 3.0, 3 / 6), (higher, -9.0, 1.0),
        (lower, 9.0, 1.0), (lower, 1.0, 3 / 6), (lower, -9.0, 1 / 6),
        (away, 1.0, 1.0), (away, 0.0, 5 / 6), (away, 2.5, 3 / 6), (away, -2.5, 1 / 6),
    ],
)  # fmt: skip
def test_place_counts_what_is_at_least_as_bad(direction, value, place):
    assert summarise_null(value, [0.0, 1.0, 2.0, 3.0, 4.0], direction, "labels").p_value == pytest.approx(place)


def test_mean_and_quantiles_are_those_of_the_shuffles():
    drawn = np.random.default_rng(0).normal(size=1001)
    found = summarise_null(0.3, drawn, higher, "labels")
    assert found.mean == pytest.approx(drawn.mean())
    assert (found.low, found.high) == pytest.approx((np.sort(drawn)[25], np.sort(drawn)[975]))
    assert (found.repeats, found.undefined, found.what) == (1001, 0, "labels")
    assert all(type(value) in (int, float, str) for value in vars(found).values())


def test_undefined_shuffles_are_left_out_and_counted():
    drawn = np.array([np.nan, 1.0, np.nan, 2.0, 3.0])
    found = summarise_null(2.5, drawn, higher, "labels")
    assert replace(found, undefined=0) == summarise_null(2.5, drawn[~np.isnan(drawn)], higher, "labels")
    assert found.undefined == 2
    assert found.repeats == 3
    with pytest.raises(UndefinedError, match="every shuffle"):
        summarise_null(2.5, [np.nan, np.nan], higher, "labels")


def test_the_same_sum_in_another_order_is_a_tie():
    value, other = (0.1 + 0.2) + 0.3, 0.1 + (0.2 + 0.3)
    assert value != other
    for direction in (higher, lower, away):
        assert summarise_null(value, [other] * 9, direction, "labels").p_value == 1.0
        assert summarise_null(other, [value] * 9, direction, "labels").p_value == 1.0
    tiny = np.array([1.0, 2.0, 3.0]) * 1e-12
    assert summarise_null(3e-12, tiny, higher, "labels").p_value == 2 / 4, "small units are no ties"


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=30), st.floats(-9, 9), st.sampled_from([higher, lower, away]))
@settings(max_examples=60, deadline=None)
def test_place_is_a_share_that_falls_as_the_value_gets_worse(drawn, value, direction):
    found = summarise_null(value, drawn, direction, "labels")
    assert 1 / (1 + len(drawn)) <= found.p_value <= 1.0
    worse = value + 1.0 if direction is higher or (direction is away and value >= 1.0) else value - 1.0
    assert summarise_null(worse, drawn, direction, "labels").p_value <= found.p_value
    assert min(drawn) - 1e-9 <= found.low <= found.high <= max(drawn) + 1e-9


@pytest.mark.parametrize("direction", [higher, lower, away])
@pytest.mark.parametrize("ties", [False, True])
def test_a_place_is_not_too_small_where_labels_can_be_exchanged(direction, ties):
    """Under exchangeable labels the share of places of at most alpha is at most alpha."""
    rng = np.random.default_rng(1)
    places = []
    for _ in range(1000):
        values = rng.integers(3, size=12).astype(float) if ties else rng.normal(size=12)
        signs = rng.choice([-1.0, 1.0], size=(40, 12))
        measured, *shuffled = (signs * values).mean(axis=1) + 1.0
        places.append(summarise_null(measured, shuffled, direction, "signs").p_value)
    for alpha in (0.05, 0.1, 0.25, 0.5):
        error = (alpha * (1 - alpha) / len(places)) ** 0.5
        assert np.mean(np.asarray(places) <= alpha) <= alpha + 3.5 * error
    if not ties:
        assert np.mean(np.asarray(places) <= 0.25) == pytest.approx(0.25, abs=0.05)


# In a measurement


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


def test_no_null_without_being_asked():
    found = measure("lm-occupation", Writer(), cache=None)
    assert found.null == {}
    assert found.to_dict()["null"] == {}
    assert "null" not in found.signature["settings"]


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
    model.continuation_log_probs = lambda prefixes, continuations: space.normal(size=len(prefixes))
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
    with pytest.raises(GateFailure) as failure:
        assert_within(found, 0.1, statistic="signed_bias")
    null = found.null["signed_bias"]
    (line,) = [line for line in str(failure.value).splitlines() if "null control" in line]
    assert line == (
        "  null control (the two groups are exchanged at random in each prefix of each occupation; 200 shuffles): "
        f"mean {null.mean:.4g}, 95 % of them {null.low:.4g} to {null.high:.4g}, 0.498 % at least as bad"
    )
    with pytest.raises(GateFailure) as failure:
        assert_within(measure("lm-occupation", Writer(), cache=None), 0.1, statistic="signed_bias")
    assert "null control" not in str(failure.value)


# Every family


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_has_a_null_or_says_why_not(name):
    """That it gives one for its answers is checked in test_null_controls.py."""
    family = FAMILIES[name]
    assert bool(family.null_control) != bool(family.no_null_control)


@pytest.mark.parametrize("spec", ["demo-mlm", "demo-lm", "demo-nli"])
def test_packaged_suites_on_the_demo_models(spec, tmp_path_factory):
    """Each suite that applies gives a null control, or the one line that says why not."""
    model, done = load_model(spec), []
    cache = tmp_path_factory.getbasetemp() / "null-cache"
    for name in suite_names():
        try:
            options = (
                {"seeds": 20, "length": 60} if name == "corpus-cooccurrence" else {}
            )  # which writes its text first
            found = measure(name, model, limit=700, cache=cache, null=40, **options)
        except NotApplicableError:  # another kind of model, or data that are not there
            continue
        done.append(name)
        said = [note for note in found.notes if note.startswith("no null control: ")]
        assert bool(found.null) != bool(said), (name, found.null, found.notes)
        assert len(said) <= 1
        for statistic, null in found.null.items():
            assert found.values[statistic] is not None
            assert 0.0 < null.p_value <= 1.0
    assert len(done) >= 3


# On the command line

RUN = ("-p", "no:cacheprovider", "--bias-suite=lm-occupation,nli-religion", "--bias-limit=512")
MODELS = """
import numpy as np

class Writer:
    fingerprint = "writer"
    def continuation_log_probs(self, prefixes, continuations):
        return np.array([-1.0 - 0.4 * p.lower().startswith("he") for p in prefixes])

def writer0(): return Writer()
def writer1(): return Writer()

class Classifier:
    labels = ("entailment", "neutral", "contradiction")
    fingerprint = "classifier"
    def pair_probabilities(self, premises, hypotheses):
        same = np.array([a == b for a, b in zip(premises, hypotheses)])
        return np.stack([np.where(same, 1.0, 0.1), np.where(same, 0.0, 0.8), np.where(same, 0.0, 0.1)], axis=1)
"""


@pytest.fixture
def run(pytester, monkeypatch, tmp_path_factory):
    """Return a function that runs pytest on two small models."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    name = f"models_{pytester.path.name.replace('-', '_')}"
    pytester.makepyfile(**{name: MODELS})
    pytester.syspathinsert()
    models = [f"--bias-model={short}={name}:{kind}" for short, kind in (("w", "Writer"), ("c", "Classifier"))]
    return lambda *args: pytester.runpytest(*RUN, *models, "-o", f"pythonpath={pytester.path}", *args)


WITH_NULL = [
    "| suite *| verdict *| null (p) *|",
    "| lm-occupation | w *| aggregate_bias * measured *| 0.*(0.498 %) *|",
    "| lm-occupation | w *| signed_bias * measured *| -0.*(0.498 %) *|",
]


def test_flag(run, pytester):
    result = run("--bias-null", "--bias-json=r.json", "--junitxml=j.xml")
    result.stdout.fnmatch_lines(WITH_NULL, consecutive=False)
    result.stdout.fnmatch_lines(["note: nli-religion on c: no null control: every pair is held against the same *"])
    found = {m["suite"]: m for m in json.loads((pytester.path / "r.json").read_text())["measurements"]}
    assert found["nli-religion"]["null"] == {}
    null = found["lm-occupation"]["null"]["signed_bias"]
    assert null["repeats"] == 200
    assert null["p_value"] == 1 / 201
    assert set(null) == {"what", "repeats", "mean", "low", "high", "p_value", "undefined"}
    written = {p.get("name"): p.get("value") for p in ET.parse(pytester.path / "j.xml").iter("property")}
    assert float(written["bias.lm-occupation.signed_bias.null_p_value"]) == 1 / 201
    assert "bias.lm-occupation.signed_bias.null_mean" in written


def test_no_column_without_the_flag(run):
    result = run()
    result.stdout.fnmatch_lines(["| suite *| verdict *|"])
    result.stdout.no_fnmatch_line("*null*")


def test_repeats(run, pytester):
    run("--bias-null", "--bias-null-repeats=99").stdout.fnmatch_lines(["* signed_bias *(1 %) *|"])
    pytester.makeini("[pytest]\nbias_null = true\nbias_null_repeats = 49")
    run().stdout.fnmatch_lines(["* signed_bias *(2 %) *|"])
    pytester.makeini("[pytest]\nbias_null_repeats = 49")
    run().stdout.no_fnmatch_line("*null*")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bias-null", "--bias-null-repeats=many"], "expected a whole number of at least 40, got 'many'"),
        (["--bias-null", "--bias-null-repeats=39"], "expected a whole number of at least 40, got '39'"),
        (["--bias-null-repeats=100"], "goes with --bias-null, which shows the null controls"),
    ],
)
def test_a_wrong_value_is_a_usage_error(run, arguments, message):
    result = run(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --bias-null-repeats: {message}"])


@pytest.mark.slow
def test_workers_find_the_same(run):
    result = run("--bias-null", "-n2")
    result.stdout.fnmatch_lines(WITH_NULL, consecutive=False)


def test_gates_show_it_and_baselines_do_not_know_it(run, pytester):
    pytester.makefile(
        ".bias.yaml",
        release="gates:\n  - suite: lm-occupation\n    statistic: signed_bias\n    within: 0.1\n    settings: {limit: 512}\n",
    )
    result = run("--bias-null", "release.bias.yaml", "--bias-json=r.json")
    result.stdout.fnmatch_lines(
        ["*  null control (*; 200 shuffles): mean *, 0.498 % at least as bad", "* within 0.1 * regressed *(0.498 %) *|"]
    )
    (judged, *_) = json.loads((pytester.path / "r.json").read_text())["judgements"]
    assert judged["null"]["p_value"] == 1 / 201
    (pytester.path / "release.bias.yaml").unlink()
    run("--bias-update")
    result = run("--bias-null")
    result.assert_outcomes(passed=2, skipped=2)
    stored = [path.read_text() for path in pytester.path.glob("bias_baselines/**/*.json")]
    assert stored and not any('"null":' in text for text in stored)


def test_restarts_have_none_and_say_so(run, pytester):
    name = f"models_{pytester.path.name.replace('-', '_')}"
    result = run("--bias-null", f"--bias-model=s={name}:writer{{seed}}", "--bias-seeds=2")
    result.stdout.fnmatch_lines(
        ["| lm-occupation | s * measured * |", "note: lm-occupation on s: no null control: *restarts*"]
    )


def test_python_tests_may_ask_for_it(run, pytester):
    pytester.makepyfile(
        """
        def test_it(bias_measure):
            plain, shuffled = bias_measure("lm-occupation"), bias_measure("lm-occupation", null=60)
            assert not plain.null and shuffled.null["signed_bias"].repeats == 60
            assert shuffled is bias_measure("lm-occupation", null=60)
        """
    )
    run("-k", "test_it and w").assert_outcomes(passed=1, deselected=5)
