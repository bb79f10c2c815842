"""Assertions in tests in Python."""

from __future__ import annotations

import pytest
from support.small_projects import model


def test_a_failing_assertion_tells_everything(project: pytest.Pytester) -> None:
    project.makepyfile("""
        from pytest_genderbias import assert_at_least

        def test_neutral(bias_measure):
            assert_at_least(bias_measure("tiny-nli.yaml"), 0.85)
        """)
    result = project.runpytest(model(project, "worse"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*limit broken: tiny-nli on m: net_neutral is 0.825, expected at least 0.85: missed by 0.025",
            "E * means     mean probability of neutral; lower is worse, neutral is 1",
            "E * worst     * 0.*, of * premise words",
            "E * scored    264 of 264 cases; judged for the suite's cases, all of them",
            "E * do        fix the model, or change the limit",
            "  tiny-nli  net_neutral *at least 0.85 *limit broken *",
        ]
    )
    assert "worst records" not in result.stdout.str()
    result = project.runpytest(model(project, "worse"), "-vv")
    result.stdout.fnmatch_lines(
        [
            "*limit broken: tiny-nli on m: net_neutral is 0.825, expected at least 0.85*",
            "E *lower is worse, neutral is 1*",
            "E * scored    264 of 264 cases; judged for the suite's cases, all of them*",
            "E * do        fix the model, or change the limit",
            "E * value     net_neutral = 0.825; 95 % interval for other items: none: too few words for person, *",
            "E * records   the worst:*",
            "E * slice: *",
            "  tiny-nli  net_neutral *at least 0.85 *limit broken *",
        ]
    )


def test_a_failure_needs_no_terminal(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    project.path.joinpath("g.bias.yaml").write_text("gates: [{suite: ./tiny-nli.yaml, at_least: 0.85}]")
    result = project.runpytest(model(project, "worse"), "g.bias.yaml", "-p", "no:terminal", "--junitxml=j.xml")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "limit broken: tiny-nli on m: net_neutral is 0." in (project.path / "j.xml").read_text()


def test_a_one_sided_limit_on_an_away_statistic_is_refused(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest
        from pytest_genderbias import BiasError, assert_at_most, assert_within

        def test_signed(bias_measure):
            measurement = bias_measure("tiny-lm.yaml")
            with pytest.raises(BiasError, match="use within"):
                assert_at_most(measurement, 0.3, statistic="signed_bias")
            assert_within(measurement, 0.3, statistic="signed_bias")
        """)
    project.runpytest(model(project, "writer")).assert_outcomes(passed=1)
