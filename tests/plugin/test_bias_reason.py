"""``--bias-update --bias-reason``: worse values are accepted with a reason only, and by their own gate."""

from __future__ import annotations

import json

import pytest
from support.abilities import UNASKED
from support.small_projects import WORKERS, model
from support.wide_suites import TOTAL, gates, stored_book

TWO = (
    "suite: ./wide.yaml, baseline: true, margin: 0",
    "suite: ./wide.yaml, statistic: threshold_0.7, baseline: true, margin: 0",
)


REASON = "--bias-reason=the  labels\n were wrong"


def test_reasons_stay_as_long_as_they_are_needed(wide_project: pytest.Pytester) -> None:
    gates(wide_project, *TWO)
    wide_project.runpytest(model(wide_project, "usual"), "--bias-update").assert_outcomes(passed=2)
    first = {path.name: path.read_bytes() for path in stored_book(wide_project).parent.iterdir()}
    wide_project.runpytest(model(wide_project, "bad"), "--bias-update", REASON).assert_outcomes(passed=2)
    entry = json.loads(stored_book(wide_project).read_text())["entries"]["wide"]
    assert [a["statistic"] for a in entry["accepted"]] == ["net_neutral", "threshold_0.7"], "two tests, one entry"
    for one in entry["accepted"]:
        assert one["new"] == entry["values"][one["statistic"]] < one["old"] and one["reason"] == "the labels were wrong"
        assert len(one["date"].split("-")) == 3
    accepted = {path.name: path.read_bytes() for path in stored_book(wide_project).parent.iterdir()}
    result = wide_project.runpytest(model(wide_project, "bad"), "--bias-update")
    assert {path.name: path.read_bytes() for path in stored_book(wide_project).parent.iterdir()} == accepted
    result.stdout.fnmatch_lines(["accepted on *: wide.net_neutral on m 0.69* -> 0.54*: the labels were wrong"])
    assert result.stdout.str().count("accepted on ") == 2
    assert wide_project.runpytest(model(wide_project, "bad")).stdout.str().count("accepted on ") == 2
    wide_project.runpytest(model(wide_project, "usual"), "--bias-update").assert_outcomes(passed=2)
    recovered = json.loads(stored_book(wide_project).read_text())["entries"]["wide"]
    assert recovered.pop("anchor")["values"] == entry["values"], "a better value does not move the anchor"
    assert recovered == json.loads(first[stored_book(wide_project).name])["entries"]["wide"]
    assert "accepted on" not in wide_project.runpytest(model(wide_project, "usual")).stdout.str()


@pytest.mark.parametrize("order", [1, -1])
def test_a_refused_value_keeps_the_whole_update_out(wide_project: pytest.Pytester, order: int) -> None:
    """The other statistic of the entry is no worse, and the entry of another suite is better: none of them is
    written.
    """
    two = (
        "suite: ./wide.yaml, baseline: true, margin: 0",
        "suite: ./wide.yaml, statistic: fraction_neutral, baseline: true, margin: 0",
    )
    gates(wide_project, *two[::order], "suite: ./tiny-nli.yaml, statistic: fraction_neutral, baseline: true, margin: 0")
    wide_project.runpytest(model(wide_project, "usual"), "--bias-update").assert_outcomes(passed=3)
    before = {path.name: path.read_bytes() for path in stored_book(wide_project).parent.iterdir()}
    result = wide_project.runpytest(model(wide_project, "bad"), "--bias-update")
    result.assert_outcomes(passed=2, failed=1, errors=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "*net_neutral 0.6947 -> 0.5447: 0.15 worse, and no reason is given",
            "nothing was stored, since 1 test that measures failed (g.bias.yaml::wide.net_neutral.baseline:m: worse "
            "(no reason given)): *",
            "bias  1 worse (no reason given) · 2 cannot judge (not stored)",
        ]
    )
    assert {path.name: path.read_bytes() for path in stored_book(wide_project).parent.iterdir()} == before


WIDE_GATES = (
    "suite: ./wide.yaml, baseline: true, margin: 0",
    "suite: ./wide.yaml, statistic: fraction_neutral, baseline: true, margin: 0",
)


def test_a_gate_accepts_nothing_that_another_judges(wide_project: pytest.Pytester) -> None:
    """Half of a file's gates cannot take a worse value of the other half into the baseline, in YAML."""
    gates(wide_project, *WIDE_GATES)
    wide_project.runpytest(model(wide_project, "usual"), "--bias-update").assert_outcomes(passed=2)
    assert json.loads(stored_book(wide_project).read_text())["entries"]["wide"]["gated"] == {
        "fraction_neutral": 0,
        "net_neutral": 0,
    }
    before = stored_book(wide_project).read_bytes()
    alone = ("-k", "fraction_neutral", "--bias-update")
    result = wide_project.runpytest(model(wide_project, "bad"), *alone)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "not written: wide of g.bias.yaml: net_neutral 0.694* -> 0.544* is worse, and its gate did not run;"
            " *--bias-reason*"
        ]
    )
    assert stored_book(wide_project).read_bytes() == before
    gates(wide_project, WIDE_GATES[0].replace("margin: 0", "margin: 0.2"), WIDE_GATES[1])
    assert wide_project.runpytest(model(wide_project, "bad"), *alone).ret == 0, "within the margin of its own gate"
    gates(wide_project, *WIDE_GATES)
    wide_project.runpytest(model(wide_project, "usual"), "--bias-update").assert_outcomes(passed=2)
    assert wide_project.runpytest(model(wide_project, "bad"), *alone, REASON).ret == 0
    (note,) = json.loads(stored_book(wide_project).read_text())["entries"]["wide"]["accepted"]
    assert (note["statistic"], note["reason"]) == ("net_neutral", "the labels were wrong")
    gates(wide_project, WIDE_GATES[1])
    wide_project.runpytest(model(wide_project, "usual"), "--bias-update").assert_outcomes(passed=1)
    assert wide_project.runpytest(model(wide_project, "bad"), "--bias-update").ret == 0, "its gate is gone"


PYTHON = """
from pytest_genderbias import assert_no_regression

def test_net(bias_measure, bias_baseline):
    assert_no_regression(bias_measure("wide.yaml"), bias_baseline, margin={margin})

def test_fraction(bias_measure, bias_baseline):
    assert_no_regression(bias_measure("wide.yaml"), bias_baseline, 0, statistic="fraction_neutral")
"""


@pytest.mark.slow
def test_a_test_accepts_nothing_that_another_judges(wide_project: pytest.Pytester) -> None:
    wide_project.makepyfile(test_g=PYTHON.format(margin=0.0))
    wide_project.runpytest(model(wide_project, "usual"), "--bias-update").assert_outcomes(passed=2)
    path = stored_book(wide_project).with_name("test_g.py.json")
    before = path.read_bytes()
    result = wide_project.runpytest(model(wide_project, "bad"), "-k", "fraction", "--bias-update")
    assert result.ret == pytest.ExitCode.TESTS_FAILED and path.read_bytes() == before
    result.stdout.fnmatch_lines(["not written: wide of test_g.py: net_neutral * is worse, and its gate did not run*"])
    result = wide_project.runpytest_subprocess(
        model(wide_project, "bad"), *WORKERS, *UNASKED, "-k", "fraction", "--bias-update"
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED and path.read_bytes() == before
    wide_project.makepyfile(test_g=PYTHON.format(margin=0.2))
    wide_project.runpytest(model(wide_project, "bad"), "--bias-update").assert_outcomes(passed=2)
    assert path.read_bytes() != before, "each test has its own margin where all run"
    assert json.loads(path.read_text())["entries"]["wide"]["gated"] == {"fraction_neutral": 0, "net_neutral": 0.2}


def test_another_sample_or_setting_is_no_way_around_a_reason(wide_project: pytest.Pytester) -> None:
    gates(wide_project, "suite: ./wide.yaml, baseline: true, margin: 0.02")
    wide_project.runpytest(model(wide_project, "usual"), "--bias-update").assert_outcomes(passed=1)
    before = stored_book(wide_project).read_bytes()
    for other in ("--bias-limit=800", "--bias-seed=3"):
        result = wide_project.runpytest(model(wide_project, "bad"), "--bias-update", other)
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["*worse, and no reason is given (it is of something else, too: s*"])
        assert stored_book(wide_project).read_bytes() == before
    wide_project.runpytest(model(wide_project, "bad"), "--bias-update", "--bias-limit=800", REASON).assert_outcomes(
        passed=1
    )
    wide_project.runpytest(model(wide_project, "bad"), "--bias-update", "--bias-limit=900").assert_outcomes(passed=1)
    entry = json.loads(stored_book(wide_project).read_text())["entries"]["wide"]
    assert entry["sample"]["n"] == 900
    assert [one["reason"] for one in entry["accepted"]] == ["the labels were wrong"], "which still holds"
    wide_project.runpytest(model(wide_project, "usual"), "--bias-update", f"--bias-limit={TOTAL}").assert_outcomes(
        passed=1
    )
    assert "accepted" not in stored_book(wide_project).read_text()


def test_reasons_are_listed_while_the_value_needs_them(wide_project: pytest.Pytester) -> None:
    gates(wide_project, TWO[0])
    wide_project.runpytest(model(wide_project, "usual"), "--bias-update").assert_outcomes(passed=1)
    wide_project.runpytest(model(wide_project, "bad"), "--bias-update", REASON).assert_outcomes(passed=1)
    assert "accepted on" in wide_project.runpytest(model(wide_project, "bad")).stdout.str()
    result = wide_project.runpytest(model(wide_project, "usual"))
    result.stdout.fnmatch_lines(["*  pass (better: refresh) *"])
    assert "accepted on" not in result.stdout.str()


def test_two_measurements_of_one_entry_are_one_error(wide_project: pytest.Pytester) -> None:
    part = "suite: ./wide.yaml, baseline: true, margin: 0, settings: {limit: 100}"
    gates(wide_project, "suite: ./wide.yaml, baseline: true, margin: 0", part)
    result = wide_project.runpytest(model(wide_project, "usual"), "--bias-update")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "*g.bias.yaml:3: two measurements claim the baseline entry 'wide', this one and that of line 2; give this"
            " one another name:"
        ]
    )
    gates(wide_project, "suite: ./wide.yaml, baseline: true, margin: 0", f"{part}, name: part")
    wide_project.runpytest(model(wide_project, "usual"), "--bias-update").assert_outcomes(passed=2)


def test_two_tests_in_python_that_claim_one_entry_write_neither(wide_project: pytest.Pytester) -> None:
    wide_project.makepyfile("""
        from pytest_genderbias import assert_no_regression

        def test_whole(bias_measure, bias_baseline):
            assert_no_regression(bias_measure("wide.yaml"), bias_baseline, 0)

        def test_part(bias_measure, bias_baseline):
            assert_no_regression(bias_measure("wide.yaml", limit=100), bias_baseline, 0)
        """)
    result = wide_project.runpytest(model(wide_project, "usual"), "--bias-update")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["two measurements of test_*.py claim the baseline entry 'wide'; give one of them another name*"]
    )
    assert not (wide_project.path / "bias_baselines").exists()
