"""``--bias-seeds``: restarts of trainings."""

from __future__ import annotations

import json

import pytest
from support.small_projects import model
from support.wide_suites import gates, judge, stored_book

from pytest_genderbias.plugin.session import runner_of
from pytest_genderbias.suites.suite import load_suite


def test_seeds_where_nothing_is_trained(wide_project: pytest.Pytester) -> None:
    gates(wide_project, "suite: ./wide.yaml, at_least: 0.4, settings: {seeds: 5}", "suite: ./wide.yaml, at_least: 0.4")
    result = wide_project.runpytest(model(wide_project, "usual"), "--bias-seeds=5")
    result.assert_outcomes(passed=1, failed=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            (
                "g.bias.yaml:2: SettingError: wide trains nothing on m, so that every seed gives the same; name one"
                " checkpoint a restart, *"
            ),
            "ERROR bias - --bias-seeds=5 had no effect: *",
        ]
    )


def test_the_flag_leaves_an_option_alone_that_is_of_texts(wide_project: pytest.Pytester) -> None:
    """``seeds`` of a corpus are generated texts; of a probe they are its restarts."""
    runner = runner_of(wide_project.parseconfigure("--bias-seeds=5"))
    assert runner._request(load_suite("probe-compression"), {}).options["seeds"] == 5
    assert runner._request(load_suite("probe-compression"), {"seeds": 7}).options["seeds"] == 7
    assert "seeds" not in runner._request(load_suite("corpus-cooccurrence"), {}).options


def test_checkpoints_of_a_training(wide_project: pytest.Pytester) -> None:
    gates(wide_project, "suite: ./wide.yaml, at_least: 0.6", "suite: ./wide.yaml, baseline: true, margin: 0.03")
    result = wide_project.runpytest(model(wide_project, "seed_{seed}"))
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        ["*SettingError: m=*:seed_{seed} is one checkpoint a seed; say how many: --bias-seeds=5, or seeds: 5 *"]
    )
    wide_project.runpytest(model(wide_project, "seed_{seed}"), "--bias-seeds=3", "--bias-update").assert_outcomes(
        passed=2
    )
    assert json.loads(stored_book(wide_project).read_text())["entries"]["wide"]["model"]["spec"].endswith(
        ":seed_{seed}"
    )
    result, verdicts, (found,) = judge(wide_project, model(wide_project, "late_{seed}"), "--bias-seeds=3")
    assert sorted(verdicts.values()) == ["regressed", "too_few"]
    assert found["values"]["net_neutral"] == pytest.approx(0.7 - 0.1 - 0.0053, abs=1e-3)
    assert found["notes"] == ["mean over 3 restarts, seeds 0, 1, 2"]
    result.stdout.fnmatch_lines(
        ["* moved  *all 20 premise words; most: *", "  scored    1,760 of 1,760 cases, those of the baseline of *"]
    )
    result, verdicts, _ = judge(wide_project, model(wide_project, "seed_{seed}"), "--bias-seeds=2")
    assert sorted(verdicts.values()) == ["too_few", "too_few"], "their number may differ, and two borrow their spread"
    result.stdout.fnmatch_lines(["bias: m; seed 0, *, 2 restarts; a gate may set its own *"])
    result.stdout.fnmatch_lines(
        ["*no interval for other restarts: fewer than three restarts", "* do * to decide: three restarts that differ*"]
    )
    _, verdicts, _ = judge(wide_project, model(wide_project, "seed_{seed}"), "--bias-seeds=3")
    assert sorted(verdicts.values()) == ["unchanged", "within"]


def test_one_checkpoint_is_judged_by_what_the_restarts_of_the_baseline_gave(wide_project: pytest.Pytester) -> None:
    """Three restarts with s = .01, as the packaged trainings have: one more may lie .0265 below their mean."""
    gates(wide_project, "suite: ./wide.yaml, baseline: true, margin: 0.05")
    restarts = model(wide_project, "seed_{seed}"), "--bias-seeds=3"
    wide_project.runpytest(*restarts, "--bias-update").assert_outcomes(passed=1)
    assert stored_book(wide_project).exists()
    for checkpoint, margin, expected in (("seed_1", 0.05, "within"), ("late_1", 0.02, "regressed")):
        gates(wide_project, f"suite: ./wide.yaml, baseline: true, margin: {margin}")
        result, verdicts, _ = judge(wide_project, model(wide_project, checkpoint))
        assert list(verdicts.values()) == [expected]
        if expected == "regressed":
            result.stdout.fnmatch_lines(
                ["  restarts  3 of the baseline: 0.6847 to 0.7047; one more of them lies from*lies below*"]
            )
    for margin, advice in ((0.05, "a baseline of ? restarts, or several"), (0.02, "several")):  # not of a hundred
        gates(wide_project, f"suite: ./wide.yaml, baseline: true, margin: {margin}")
        result, verdicts, _ = judge(wide_project, model(wide_project, "seed_0"))
        assert list(verdicts.values()) == ["too_few"]
        result.stdout.fnmatch_lines(
            [f"*: no change (*), allowed {margin}, +0 % (sees *)", f"* do *to decide: {advice} *"]
        )


def test_a_gate_on_restarts_takes_one_checkpoint_once_they_are_stored(wide_project: pytest.Pytester) -> None:
    gates(wide_project, "suite: ./wide.yaml, baseline: true, margin: 0.05, settings: {seeds: 3}")
    one = model(wide_project, "seed_1")
    wide_project.runpytest(one, "--bias-update").stdout.fnmatch_lines(["*SettingError: wide trains nothing on m, *"])
    wide_project.runpytest(model(wide_project, "seed_{seed}"), "--bias-update").assert_outcomes(passed=1)
    _, verdicts, (found,) = judge(wide_project, one)
    assert list(verdicts.values()) == ["within"]
    assert not any("restarts" in note for note in found["notes"]), "it is measured once"


def test_a_missing_restart_is_one_error(wide_project: pytest.Pytester) -> None:
    gates(
        wide_project, "suite: ./wide.yaml, at_least: 0.6", "suite: ./wide.yaml, statistic: threshold_0.5, at_least: 0.6"
    )
    result = wide_project.runpytest(model(wide_project, "seed_{seed}"), "--bias-seeds=4")
    result.assert_outcomes(failed=2)
    tellers = {line.rpartition(" - ")[2][:14] for line in result.outlines if "seed_3" in line}
    assert tellers == {"g.bias.yaml:2:"}, "the first test tells it whole, the second refers to the first"
    result.stdout.fnmatch_lines(
        ["*ModelError: *:seed_3 *", "*ModelError: m cannot be measured; the first error about it says why"]
    )
    result = wide_project.runpytest("--bias-model=m=./nowhere/seed-{seed}", "--bias-seeds=3")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --bias-model: no directory ./nowhere/seed-0; *"])
