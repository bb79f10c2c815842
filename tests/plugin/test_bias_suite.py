"""``--bias-suite``: suites as tests without a test file."""

from __future__ import annotations

import json

import pytest
from support.abilities import UNASKED, asked
from support.cache_entries import add
from support.small_projects import GATES, NLI, SUITES, model

from pytest_genderbias.scoring.store import list_entries


def test_suites_need_no_test_file(project: pytest.Pytester) -> None:
    result = project.runpytest(*NLI, model(project, "good"), "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "*genderbias::tiny-nli:m PASSED*",
            "m (Classifier)",
            "  tiny-nli  net_neutral  *0.900 *1  *lower *",
            "bias  1 measured, 0 gated: nothing here can fail yet",
        ]
    )


def test_suites_answer_to_k_m_and_lf(project: pytest.Pytester) -> None:
    suites = "--bias-suite=tiny-nli.yaml,tiny-disco.yaml,tiny-lm.yaml"
    result = project.runpytest(suites, model(project, "filler"), "-k", "disco")
    result.assert_outcomes(passed=1, deselected=2)
    project.makepyfile(test_other="def test_other(): pass")
    project.runpytest(suites, model(project, "filler"), "-m", "bias", "-q").assert_outcomes(
        passed=1, skipped=2, deselected=1
    )
    project.runpytest(suites, model(project, "nan")).assert_outcomes(passed=1, failed=1, skipped=2)
    again = project.runpytest(suites, model(project, "nan"), "--lf", "-v")
    again.assert_outcomes(failed=1, deselected=again.parseoutcomes().get("deselected", 0))
    again.stdout.fnmatch_lines(["*tiny-nli:m FAILED*"])


def test_a_broken_suite_is_one_error_with_file_and_line(project: pytest.Pytester) -> None:
    project.path.joinpath("tiny-nli.yaml").write_text(SUITES["tiny-nli"].replace("premise:", "premisse:"))
    result = project.runpytest(*NLI, model(project, "good"))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --bias-suite: *tiny-nli.yaml:8: unknown key 'premisse'*"])


def test_what_was_skipped_is_said_with_its_reason(project):
    result = project.runpytest(model(project, "good"), "--bias-suite=disco-names,disco-terms,lm-occupation")
    result.assert_outcomes(skipped=3)
    result.stdout.fnmatch_lines(
        [
            "not run on m: disco-names, disco-terms: needs a masked LM; m is an NLI classifier",
            "not run on m: lm-occupation: needs a causal LM or a masked LM; m is an NLI classifier",
            "bias  3 not run",
        ]
    )


def test_all_leaves_out_a_language_that_the_model_does_not_know(pytester: pytest.Pytester) -> None:
    with asked():
        args = ("--bias-model=a=demo-lm", "--bias-limit=16", "-v", "-k", "pronoun-occupation-")
        result = pytester.runpytest(*args, "--bias-suite=all", "--bias-json=run.json")
        result.assert_outcomes(skipped=3, deselected=result.parseoutcomes()["deselected"])
        reason = "not run on a: pronoun-occupation-fr: its language is fr, and a cannot do the task: *"
        result.stdout.fnmatch_lines([reason, "bias  3 not run"])
        assert not json.loads(pytester.path.joinpath("run.json").read_text(encoding="utf-8"))["measurements"]
        both = pytester.runpytest(*args, "--bias-model=b=demo-lm", "--bias-suite=all", "--bias-no-worse-than=a")
        both.assert_outcomes(skipped=6, deselected=both.parseoutcomes()["deselected"])
        named = pytester.runpytest(*args, "--bias-suite=pronoun-occupation-fr")
        named.assert_outcomes(passed=1)
        named.stdout.fnmatch_lines(["*pronoun-occupation-fr *no value: *cannot do the task: *"])


def test_works_under_xdist(project: pytest.Pytester) -> None:
    """The controller hears of gates, and of those that fail after their test; it alone bounds the cache.

    Also with an option of a suite that does not exist: a worker cannot refuse its run. No worker loads torch for an
    object that needs none.
    """
    project.makepyfile(
        """
        import threading
        from pytest_genderbias import assert_at_least

        threads, may_end = [], threading.Event()

        def late(measurement):
            may_end.wait(20)
            assert_at_least(measurement, 0.99)

        def test_without_torch(bias_measure):
            import sys
            measurement = bias_measure("./tiny-nli.yaml")
            assert "torch" not in sys.modules
            threads.append(threading.Thread(target=late, args=(measurement,)))
            threads[0].start()

        def test_other():
            may_end.set()
            threads[0].join()
        """
    )
    project.makeini(
        "[pytest]\nbias_cache_size = 0.000001 MB\nfilterwarnings = "
        "ignore::pytest.PytestUnhandledThreadExceptionWarning\n"
    )
    project.path.joinpath("release.bias.yaml").write_text(GATES.format(limit=0.8))
    old = add(project.path / "cache", "old", used=1000.0)
    flags = (
        "--bias-suite=tiny-nli.yaml,tiny-disco.yaml,tiny-lm.yaml",
        "--bias-option=tiny-nly:unit=x",
        "--bias-cache=cache",
    )
    result = project.runpytest(
        "-p", "xdist", "-n", "1", *UNASKED, *flags, model(project, "good"), "--bias-strict", "--bias-json=r.json"
    )
    result.assert_outcomes(passed=5, failed=3, errors=1)
    result.stdout.fnmatch_lines(
        [
            "  tiny-nli  net_neutral *0.900 *at least 0.8 *pass*",
            "ERROR bias - a gate failed in a thread after its test had ended*",
        ]
    )
    result.stdout.no_fnmatch_line("ERROR bias - noth*")
    result.stdout.fnmatch_lines(
        ["note: score cache *: removed * entries (*; the least recently used entries go until*"]
    )
    assert not old.exists() and list_entries(project.path / "cache") == []
    assert len(json.loads(project.path.joinpath("r.json").read_text())["measurements"]) == 3
