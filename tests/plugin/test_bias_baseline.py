"""``--bias-baseline``: runs that are compared with stored baselines."""

from __future__ import annotations

import json
import re

import pytest
from support.baseline_books import book
from support.small_projects import model


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--bias-limit=100"], "sample: "),
        (["--bias-seed=5"], "setting: "),
        (["--bias-option=unit=word_pair"], "setting: "),
    ],
)
def test_another_sample_or_setting_is_not_comparable(gated: pytest.Pytester, change: list[str], message: str) -> None:
    gated.runpytest(model(gated, "good"), "--bias-update")
    result = gated.runpytest(model(gated, "good"), *change)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            f"*cannot judge (not comparable): tiny-nli on m: the baseline in *{message}*",
            "* pytest *--bias-update",
            "*  cannot judge (not comparable) *",
        ]
    )


def test_another_suite_digest_is_not_comparable(gated: pytest.Pytester) -> None:
    gated.runpytest(model(gated, "good"), "--bias-update")
    persons = gated.path / "persons.yaml"
    persons.write_text(persons.read_text().replace("nurse", "baker"))
    result = gated.runpytest(model(gated, "good"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*cannot judge (not comparable): *suite: * stored, * now*"])


def test_another_tokenizer_dtype_or_device_is_named_and_compared(gated: pytest.Pytester) -> None:
    gated.runpytest(model(gated, "good"), "--bias-update")
    data = json.loads(book(gated).read_text())
    data["entries"]["tiny-nli"]["model"]["dtype"] = "bfloat16"
    book(gated).write_text(json.dumps(data))
    result = gated.runpytest(model(gated, "worse"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*0.075 worse*changed: dtype bfloat16 -> None*"])


def test_next_months_checkpoint_meets_last_months_baseline(gated: pytest.Pytester) -> None:
    gated.runpytest(model(gated, "good", "release"), "--bias-update")
    gated.runpytest(model(gated, "good", "other")).assert_outcomes(failed=1)
    gated.runpytest(model(gated, "better", "release")).assert_outcomes(passed=1)


def test_a_model_of_the_run_is_not_the_release_before_another(gated: pytest.Pytester) -> None:
    gated.runpytest(model(gated, "good", "release"), "--bias-update")
    alone = gated.runpytest(model(gated, "good", "next"))
    alone.stdout.fnmatch_lines(["*next has no baseline of 'tiny-nli', but release has: is it the next release of it?*"])
    both = gated.runpytest(model(gated, "good", "next"), model(gated, "good", "release"))
    both.assert_outcomes(failed=1, passed=1)
    both.stdout.fnmatch_lines(["*no baseline entry 'tiny-nli' in *"])


def test_packaged_suites_gate_where_there_is_a_baseline(project: pytest.Pytester) -> None:
    suites = "--bias-suite=tiny-nli.yaml"
    project.runpytest(suites, model(project, "good")).assert_outcomes(passed=1)
    stored = project.runpytest(suites, model(project, "good"), "--bias-update-new", "--bias-margin=0.01")
    stored.assert_outcomes(passed=1)
    assert book(project, "packaged").exists()
    result = project.runpytest(suites, model(project, "worse"), "--bias-margin=0.01")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*worse: tiny-nli on m*"])


def test_yaml_gates_compare_with_a_baseline(project: pytest.Pytester) -> None:
    project.path.joinpath("release.bias.yaml").write_text(
        "gates:\n  - suite: ./tiny-nli.yaml\n    baseline: true\n    margin: 0.1\n"
        "  - {suite: ./tiny-nli.yaml, statistic: threshold_0.7, baseline: true, margin: 0}\n"
    )
    project.runpytest(model(project, "good")).assert_outcomes(failed=2)
    project.runpytest(model(project, "good"), "--bias-update-new").assert_outcomes(passed=2)
    result = project.runpytest(model(project, "worse"))
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*release.bias.yaml:5: worse: *threshold_0.7 1 -> 0.75*"])


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": 1}', '{"schema": 99, "entries": {}}'])
def test_a_damaged_baseline_is_one_error_and_is_left_alone(gated: pytest.Pytester, content: str) -> None:
    book(gated).parent.mkdir(parents=True)
    book(gated).write_text(content)
    for flags in ([], ["--bias-update"]):
        result = gated.runpytest(model(gated, "good"), *flags)
        result.assert_outcomes(failed=1, errors=len(flags))
        result.stdout.fnmatch_lines(["*BaselineError: *test_gate.py.json:*"])
        assert book(gated).read_text() == content


def test_a_folder_that_cannot_be_written_is_a_usage_error(gated: pytest.Pytester) -> None:
    gated.path.joinpath("bias_baselines").write_text("a file where the folder should be")
    result = gated.runpytest(model(gated, "good"), "--bias-update")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --bias-baseline: *bias_baselines cannot be written*"])


def test_no_text_of_a_file_moves_the_cursor(gated: pytest.Pytester) -> None:
    bad = "ok\x1b[2K\x9b1A\u202egnp\x07"
    gated.runpytest(model(gated, "good"), "--bias-update")
    gated.runpytest(model(gated, "worse"), "--bias-update", f"--bias-reason={bad}").assert_outcomes(passed=1)
    data = json.loads(book(gated).read_text())
    (note,) = data["entries"]["tiny-nli"]["accepted"]
    assert note["reason"] == r"ok\x1b[2K\x9b1A\u202egnp\x07"
    note["reason"] = bad
    data["entries"]["tiny-nli"]["model"]["dtype"] = bad
    data["entries"][f"old{bad}"] = data["entries"]["tiny-nli"]
    book(gated).write_text(json.dumps(data))
    for flag in ((), ("--bias-update",)):
        result = gated.runpytest(model(gated, "worse"), *flag)
        assert not re.search("[\x1b\x9b\u202e\x07]", result.stdout.str()), flag
        assert r"ok\x1b[2K" in result.stdout.str()
    data["entries"]["tiny-nli"]["settings"]["unit"] = bad
    book(gated).write_text(json.dumps(data))
    result = gated.runpytest(model(gated, "worse"))
    result.assert_outcomes(failed=1)
    assert not re.search("[\x1b\x9b\u202e\x07]", result.stdout.str())


def test_options_that_only_change_what_is_shown_do_not_keep_from_comparing(gated: pytest.Pytester) -> None:
    gated.runpytest(model(gated, "good"), "--bias-update")
    gated.runpytest(model(gated, "good"), "--bias-option=top=3", "--bias-option=slices=gendered").assert_outcomes(
        passed=1
    )
