"""The plugin as a user meets it: collection, fixtures, gates, skips, output. Models are small objects, so that a run takes no time."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from support.small_projects import NLI, SUITES, model


def test_help_names_every_flag(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--help")
    result.stdout.fnmatch_lines(
        ["*bias regression tests*", "*--bias-model=*", "*--bias-suite=*", "*--bias-update-new*", "*bias_model (args)*"]
    )


def test_suites_need_no_test_file(project: pytest.Pytester) -> None:
    result = project.runpytest(*NLI, model(project, "good"), "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*genderbias::tiny-nli:m PASSED*", "*| tiny-nli | m *| net_neutral *| 0.9000 *| 264 *| measured *|"]
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


def test_a_suite_that_does_not_apply_is_a_skip_with_the_reason(project: pytest.Pytester) -> None:
    result = project.runpytest(*NLI, model(project, "filler"), "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(
        ["*tiny-nli needs a pair classifier with entailment, neutral and contradiction labels; m is a masked LM*"]
    )
    result = project.runpytest(*NLI, model(project, "filler"), "--bias-strict")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["tiny-nli needs a pair classifier * (--bias-strict)"])
    result.stdout.no_fnmatch_line("*another exception*")


def test_no_model_is_a_skip_that_says_what_to_type(project: pytest.Pytester) -> None:
    project.makepyfile("def test_it(bias_model): assert False")
    result = project.runpytest(*NLI, "-rs")
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["*give one with --bias-model=*"])
    project.runpytest("--bias-strict").assert_outcomes(errors=1)


def test_nan_scores_are_refused_and_name_the_case(project: pytest.Pytester) -> None:
    result = project.runpytest(*NLI, model(project, "nan"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ScoreError: m gives NaN or infinite scores, first for 'The * ate *"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bias-model=./nowhere"], "--bias-model: no directory ./nowhere*"),
        (["--bias-suite=nothing"], "--bias-suite: no suite 'nothing'*"),
        (["--bias-suite=./nothing.yaml"], "--bias-suite: no file *nothing.yaml"),
        (["--bias-limit=0"], "--bias-limit: expected a whole number of at least 1, got '0'"),
        (["--bias-dtype=float8"], "--bias-dtype: expected one of *"),
        (["--bias-model=a=gpt2", "--bias-model=a=bert-base"], "--bias-model: two models are called 'a'*"),
        (["--bias-update", "--bias-update-new"], "--bias-update and --bias-update-new exclude each other*"),
        (["--bias-model=broken.jsonl"], "--bias-model: *broken.jsonl:1: not valid JSON: *"),
        (["--bias-model=empty.jsonl"], "--bias-model: *empty.jsonl: the file has no rows"),
        (["--bias-option=unit"], "--bias-option: expected *SUITE:*NAME=VALUE, got 'unit'"),
        (["--bias-option=unitt=word_pair"], "--bias-option: no suite has an option 'unitt'; expected one of *unit*"),
        (["--bias-option=unit=2026-13-01"], "--bias-option: '2026-13-01' is not a valid value; put it in quotes"),
    ],
)
def test_a_wrong_setting_is_a_usage_error_of_one_line(
    project: pytest.Pytester, arguments: list[str], message: str
) -> None:
    project.path.joinpath("broken.jsonl").write_text('{"id": \n')
    project.path.joinpath("empty.jsonl").write_text("")
    result = project.runpytest(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])
    assert len([line for line in result.errlines if line.strip()]) == 1


def test_a_broken_suite_is_one_error_with_file_and_line(project: pytest.Pytester) -> None:
    project.path.joinpath("tiny-nli.yaml").write_text(SUITES["tiny-nli"].replace("premise:", "premisse:"))
    result = project.runpytest(*NLI, model(project, "good"))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --bias-suite: *tiny-nli.yaml:8: unknown key 'premisse'*"])


def test_settings_come_from_ini_keys(project: pytest.Pytester) -> None:
    project.makeini(
        f"[pytest]\nbias_model = m={project.models}:good\nbias_suite = tiny-nli.yaml\nbias_limit = 100\nbias_seed = 7"
    )  # type: ignore[attr-defined]
    result = project.runpytest()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["bias: m; seed 7*at most 100 cases*", "*| 100 of 264 *"])


def test_paths_in_the_ini_file_start_at_the_root_directory(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.makeini("[pytest]\nbias_suite = tiny-nli.yaml\nbias_json = report.json")
    below = project.mkdir("below")
    monkeypatch.chdir(below)
    project.runpytest(
        model(project, "good"), "--rootdir", str(project.path), "-c", str(project.path / "tox.ini")
    ).assert_outcomes(passed=1)
    assert (project.path / "report.json").is_file()


def test_fixtures_run_once_for_every_model(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from pytest_genderbias import assert_at_least, assert_at_most

        def test_neutral(bias_measure, bias_model, bias_suite):
            suite = bias_suite("tiny-nli.yaml")
            first = bias_measure(suite)
            assert first is bias_measure("tiny-nli.yaml"), "computed once a run and model"
            assert first.model == bias_model.name and first.direction == "lower" and first.neutral == 1.0
            assert_at_least(first, 0.85)
        """
    )
    result = project.runpytest(model(project, "good", "a"), model(project, "worse", "b"), "-v")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*test_neutral?a? PASSED*",
            "*test_neutral?b? FAILED*",
            "*regressed: tiny-nli on b: net_neutral is 0.825, expected at least 0.85*",
        ]
    )


def test_a_failing_assertion_tells_everything(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from pytest_genderbias import assert_at_least

        def test_neutral(bias_measure):
            assert_at_least(bias_measure("tiny-nli.yaml"), 0.85)
        """
    )
    result = project.runpytest(model(project, "worse"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*regressed: tiny-nli on m: net_neutral is 0.825, expected at least 0.85*",
            "*net_neutral = 0.825*",
            "*judged for the suite's cases, all of them*",
            "*95 % interval for other items: none: the words for person that vary are too few among those scored*",
            "*lower is worse, neutral is 1*",
            "*264 of 264 cases scored*",
            "*worst records:*",
            "*slice: *",
            "*| tiny-nli | m *| net_neutral *| at least 0.85 *| regressed *|",
        ]
    )


def test_a_one_sided_limit_on_an_away_statistic_is_refused(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest
        from pytest_genderbias import BiasError, assert_at_most, assert_within

        def test_signed(bias_measure):
            measurement = bias_measure("tiny-lm.yaml")
            with pytest.raises(BiasError, match="use within"):
                assert_at_most(measurement, 0.3, statistic="signed_bias")
            assert_within(measurement, 0.3, statistic="signed_bias")
        """
    )
    project.runpytest(model(project, "writer")).assert_outcomes(passed=1)


GATES = """
gates:
  - suite: ./tiny-nli.yaml
    statistic: net_neutral
    at_least: {limit}
  - suite: ./tiny-nli.yaml
    statistic: threshold_0.5
    at_least: 0.5
    settings: {{unit: word_pair}}
  - suite: ./tiny-lm.yaml
    statistic: signed_bias
    within: 0.3
"""


def test_yaml_gates_are_tests(project: pytest.Pytester) -> None:
    project.path.joinpath("release.bias.yaml").write_text(GATES.format(limit=0.8))
    result = project.runpytest(model(project, "good"), "-v", "-m", "bias")
    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.fnmatch_lines(["*release.bias.yaml::tiny-nli.net_neutral.at_least:m PASSED*", "*| 64 of 264 *"])
    project.path.joinpath("release.bias.yaml").write_text(GATES.format(limit=0.99))
    result = project.runpytest(model(project, "good"))
    result.assert_outcomes(passed=1, failed=1, skipped=1)
    result.stdout.fnmatch_lines(
        ["*release.bias.yaml:3: regressed: tiny-nli on m: net_neutral is 0.9, and with 95 % *, expected at least 0.99*"]
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gates: [1, }", "*release.bias.yaml:1: not valid YAML*"),
        ("gate: []", "*release.bias.yaml:1: unknown key 'gate'*"),
        ("gates:\n  - suite: nope\n    at_most: 1", "*release.bias.yaml:2: no suite 'nope'*"),
        (
            "gates:\n  - suite: ./tiny-nli.yaml\n    statistic: nope\n    at_most: 1",
            "*release.bias.yaml:3: tiny-nli has no statistic 'nope'*",
        ),
        ("gates:\n  - suite: ./tiny-nli.yaml", "*release.bias.yaml:2: a gate without a limit*"),
        (
            "gates:\n  - suite: ./tiny-nli.yaml\n    at_most: much",
            "*release.bias.yaml:3: 'at_most' of the gate should be*",
        ),
        (
            "gates:\n  - suite: ./tiny-lm.yaml\n    statistic: signed_bias\n    at_most: 1",
            "*release.bias.yaml:2: signed_bias is worse on either side*",
        ),
        (
            "gates:\n  - suite: ./tiny-nli.yaml\n    at_most: 1\n    settings: {speed: 9}",
            "*release.bias.yaml:4: unknown setting 'speed'*",
        ),
        ("gates:\n  - suite: ./tiny-nli.yaml\n    at_least: 1\n    tolerance: 1", "*release.bias.yaml:4: 'tolerance'*"),
    ],
)
def test_a_wrong_gate_file_is_one_error_with_file_and_line(project: pytest.Pytester, text: str, message: str) -> None:
    project.path.joinpath("release.bias.yaml").write_text(text)
    result = project.runpytest(model(project, "good"))
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([message])


def test_json_and_junit_hold_the_figures(project: pytest.Pytester) -> None:
    project.path.joinpath("release.bias.yaml").write_text(GATES.format(limit=0.99))
    result = project.runpytest(model(project, "good"), "--bias-json=out/report.json", "--junitxml=junit.xml")
    result.assert_outcomes(passed=1, failed=1, skipped=1)
    report = json.loads(project.path.joinpath("out/report.json").read_text())
    assert report["exit_status"] == 1
    measured = {m["n"]: m for m in report["measurements"]}
    assert measured[264]["values"]["threshold_0.5"] == 1.0
    assert measured[64]["values"]["net_neutral"] == pytest.approx(0.9)
    assert measured[64]["signature"]["sample"] == {"n": 64, "of": 264, "seed": 0, "stopped": True}
    assert measured[264]["signature"]["model"]["fingerprint"] == "0.9 0.0"
    assert {j["verdict"] for j in report["judgements"]} == {"pass", "regressed"}
    properties = {p.get("name"): p.get("value") for p in ET.parse(project.path / "junit.xml").iter("property")}
    assert float(properties["bias.tiny-nli.net_neutral"] or "nan") == pytest.approx(0.9)
    assert properties["bias.tiny-nli.net_neutral.verdict"] == "regressed"


def test_options_of_a_suite_come_from_the_command_line(project: pytest.Pytester) -> None:
    option = "--bias-option=tiny-nli:unit=word_pair"
    report = project.path / "r.json"
    project.runpytest(*NLI, model(project, "good"), option, f"--bias-json={report}").assert_outcomes(passed=1)
    assert json.loads(report.read_text())["measurements"][0]["signature"]["settings"]["unit"] == "word_pair"
    result = project.runpytest(*NLI, model(project, "good"), "--bias-option=tiny-nli:unitt=word_pair")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*tiny-nli has no option 'unitt'; it has *"])
    result = project.runpytest(*NLI, model(project, "good"), "--bias-option=tiny-nly:unit=word_pair")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --bias-option: no suite 'tiny-nly' to take the option 'unit'; *tiny-nli*"])
    under_xdist = project.runpytest_subprocess(*NLI, model(project, "good"), "--bias-option=tiny-nly:unit=x", "-n1")
    under_xdist.assert_outcomes(passed=1)  # a worker cannot refuse its run
    project.makeini("[pytest]\nbias_option = elsewhere:unit=word_pair")
    project.runpytest(*NLI, model(project, "good")).assert_outcomes(passed=1)


def test_works_under_xdist(project: pytest.Pytester) -> None:
    project.path.joinpath("release.bias.yaml").write_text(GATES.format(limit=0.8))
    suites = "--bias-suite=tiny-nli.yaml,tiny-disco.yaml,tiny-lm.yaml"
    result = project.runpytest_subprocess("-n", "2", suites, model(project, "good"), "--bias-json=r.json")
    result.assert_outcomes(passed=3, skipped=3)
    result.stdout.fnmatch_lines(["*| tiny-nli *| net_neutral *| 0.9000 *| at least 0.8 *| pass *|"])
    assert len(json.loads(project.path.joinpath("r.json").read_text())["measurements"]) == 3


def test_can_be_switched_off(project: pytest.Pytester) -> None:
    project.makepyfile("def test_it(): pass")
    project.runpytest("-p", "no:genderbias").assert_outcomes(passed=1)
    assert project.runpytest("-p", "no:genderbias", "--bias-model=gpt2").ret == pytest.ExitCode.USAGE_ERROR


def test_an_unrelated_suite_imports_nothing_heavy(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import sys

        def test_it():
            assert not {"torch", "transformers", "numpy", "scipy"} & set(sys.modules)
        """
    )
    project.runpytest_subprocess("-p", "no:hypothesispytest", "-p", "no:xdist").assert_outcomes(passed=1)


def test_nothing_is_written_without_a_flag(project: pytest.Pytester) -> None:
    project.path.joinpath("release.bias.yaml").write_text(GATES.format(limit=0.8))
    before = {path for path in project.path.rglob("*") if "__pycache__" not in str(path)}
    project.runpytest(*NLI, model(project, "good"))
    after = {path for path in project.path.rglob("*") if "__pycache__" not in str(path)}
    assert after == before


def test_interrupting_keeps_the_scores(project: pytest.Pytester) -> None:
    project.makepyfile(
        interrupting="""
        import os, signal
        import numpy as np
        from pathlib import Path

        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has those that it starts with & ignore it

        class Slow:
            labels = ("entailment", "neutral", "contradiction")
            fingerprint = "slow"
            def pair_probabilities(self, premises, hypotheses):
                calls = Path("calls.txt")
                calls.write_text((calls.read_text() if calls.exists() else "") + f"{len(premises)} ")
                if len(calls.read_text().split()) == 3:
                    os.kill(os.getpid(), signal.SIGINT)
                return np.tile([0.1, 0.8, 0.1], (len(premises), 1))
        """
    )
    arguments = (
        "--bias-suite=nli-religion",
        "--bias-limit=20000",
        "--bias-model=slow=interrupting:Slow",
        "--bias-cache=scores",
    )
    first = project.runpytest_subprocess(*arguments)
    assert first.ret == pytest.ExitCode.INTERRUPTED
    second = project.runpytest_subprocess(*arguments)
    second.assert_outcomes(passed=1)
    scored = [int(n) for n in project.path.joinpath("calls.txt").read_text().split() if int(n) > 10]
    assert sum(scored) <= 20000 + 4096, "at most one window is scored again"


def test_the_command_line_names_the_import_error(project: pytest.Pytester) -> None:
    result = project.runpytest(*NLI, "--bias-model=m=no_such_module:make")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*ModelError: no_such_module:make cannot be called: No module named 'no_such_module'*"]
    )


def test_plugin_loads_in_isolated_mode() -> None:
    code = "import sys, pytest_genderbias.plugin as p; assert not {'torch', 'numpy', 'scipy', 'transformers', 'yaml', 'tabulate'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_folder_after_a_space_is_no_test_path(project, tmp_path):
    """pytest looks for a project's settings before it knows our flags."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "data").mkdir(parents=True)
    result = project.runpytest("--bias-data", str(elsewhere / "data"))
    result.stdout.fnmatch_lines([f"*pytest took a folder after a space*write --bias-data={elsewhere / 'data'}*"])
    result = project.runpytest(f"--bias-data={elsewhere / 'data'}")
    result.stdout.no_fnmatch_line("*after a space*")
    result = project.runpytest("--bias-data", "nowhere")
    result.stderr.fnmatch_lines(["*--bias-data: no folder *nowhere; its layout is in docs/data.md*"])


def test_what_was_skipped_is_said_with_its_reason(project):
    result = project.runpytest(model(project, "good"), "--bias-suite=disco-names,disco-terms,lm-occupation")
    result.assert_outcomes(skipped=3)
    result.stdout.fnmatch_lines(
        [
            "skipped on m: disco-names, disco-terms: needs a masked LM; m is an NLI classifier",
            "skipped on m: lm-occupation: needs a causal LM or a masked LM; m is an NLI classifier",
        ]
    )
