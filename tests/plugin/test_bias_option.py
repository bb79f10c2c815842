"""``--bias-option``: options of suites."""

from __future__ import annotations

import json
import re

import pytest
from support.small_projects import NLI, model


def test_options_of_a_suite_come_from_the_command_line(project: pytest.Pytester) -> None:
    option = "--bias-option=tiny-nli:unit=word_pair"
    report = project.path / "r.json"
    project.runpytest(*NLI, model(project, "good"), option, f"--bias-json={report}").assert_outcomes(passed=1)
    assert json.loads(report.read_text())["measurements"][0]["signature"]["settings"]["unit"] == "word_pair"
    result = project.runpytest(*NLI, model(project, "good"), "--bias-option=tiny-nli:unitt=word_pair")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*tiny-nli has no option 'unitt'; did you mean unit?*"])
    result = project.runpytest(*NLI, model(project, "good"), "--bias-option=tiny-nly:unit=word_pair")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --bias-option: no suite 'tiny-nly' to take the option 'unit'; *tiny-nli*"])
    project.makeini("[pytest]\nbias_option = elsewhere:unit=word_pair")
    project.runpytest(*NLI, model(project, "good")).assert_outcomes(passed=1)


@pytest.mark.parametrize("fixture", ["bias_measure", "bias_session_measure"])
def test_a_test_in_python_may_ask_for_any_suite(project: pytest.Pytester, fixture: str) -> None:
    project.makepyfile(
        f"""
        import pytest

        @pytest.fixture{"(scope='module')" * (fixture == "bias_session_measure")}
        def measured({fixture}):
            return {fixture}("./tiny-nli.yaml")

        def test_unit(measured):
            assert measured.signature["settings"]["unit"] == "word_pair"
        """
    )
    option = "--bias-option=tiny-nli:unit=word_pair"
    project.runpytest(model(project, "good"), option).assert_outcomes(passed=1)


def test_paraphrases_are_another_setting_for_a_baseline(project: pytest.Pytester) -> None:
    suite = project.path / "tiny-nli.yaml"
    first = dict(re.findall(r"^(premise|hypothesis): (.+)$", suite.read_text(), re.MULTILINE))
    other = [f"{key}: {text.replace('The ', 'This ', 1)}" for key, text in first.items()]
    margin = "--bias-margin=0"
    project.runpytest(*NLI, model(project, "good"), margin, "--bias-update").assert_outcomes(passed=1)
    suite.write_text(f"{suite.read_text()}\nparaphrases:\n  - {other[0]}\n    {other[1]}\n")
    project.runpytest(*NLI, model(project, "good"), margin).assert_outcomes(passed=1)
    project.runpytest(*NLI, model(project, "good"), margin, "--bias-option=templates=paper").assert_outcomes(passed=1)
    result = project.runpytest(*NLI, model(project, "good"), margin, "--bias-option=templates=both")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*not comparable*setting: templates the default stored, both now*"])
