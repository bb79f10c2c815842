"""``--bias-strict``: a suite that does not apply fails instead of being skipped."""

from __future__ import annotations

import pytest
from support.small_projects import NLI, model


def test_a_suite_that_does_not_apply_is_a_skip_with_the_reason(project: pytest.Pytester) -> None:
    result = project.runpytest(*NLI, model(project, "filler"), "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(
        [
            "*tiny-nli needs a pair classifier with entailment, neutral and contradiction labels, or a chat model; m is"
            " a masked LM*"
        ]
    )
    result = project.runpytest(*NLI, model(project, "filler"), "--bias-strict")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["not judged: tiny-nli needs a pair classifier *; --bias-strict fails a suite that is named and does not apply"]
    )
    result.stdout.no_fnmatch_line("*another exception*")


#: Tests that measure, and gates that cannot fail.
NOTHING_GATED = {
    "bare value": ("def test_it(bias_measure):\n    assert bias_measure('tiny-nli.yaml').value > 2 - 1.9\n", ()),
    "measured only": ("def test_it(bias_measure):\n    bias_measure('tiny-nli.yaml')\n", ()),
    "xfail": (
        (
            "import pytest\nfrom pytest_genderbias import assert_at_least\n@pytest.mark.xfail\n"
            "def test_it(bias_measure):\n    assert_at_least(bias_measure('tiny-nli.yaml'), 0.99)\n"
        ),
        (),
    ),
    "xpass": (
        (
            "import pytest\nfrom pytest_genderbias import assert_at_least\n@pytest.mark.xfail(strict=False)\n"
            "def test_it(bias_measure):\n    assert_at_least(bias_measure('tiny-nli.yaml'), 0.5)\n"
        ),
        (),
    ),
    "caught": (
        (
            "import pytest\nfrom pytest_genderbias import assert_at_least\ndef test_it(bias_measure):\n    with"
            " pytest.raises(AssertionError):\n        assert_at_least(bias_measure('tiny-nli.yaml'), 0.99)\n"
        ),
        (),
    ),
    "skip": (
        (
            "import pytest\nfrom pytest_genderbias import assert_at_least\n@pytest.mark.skip\n"
            "def test_it(bias_measure):\n    assert_at_least(bias_measure('tiny-nli.yaml'), 0.5)\n"
        ),
        (),
    ),
    "deselected by -k": ("def test_other(): pass\n", ("-k", "other")),
    "deselected by -m": ("def test_other(): pass\n", ("-m", "not bias")),
    "deselected by id": ("def test_other(): pass\n", ("--deselect=g.bias.yaml",)),
    "everything deselected": ("", ("-k", "nothing")),
    "no gate at all": ("def test_other(): pass\n", ("test_it.py",)),
}


@pytest.mark.parametrize("case", NOTHING_GATED)
def test_a_strict_run_in_which_no_gate_can_fail_fails(project: pytest.Pytester, case: str) -> None:
    module, flags = NOTHING_GATED[case]
    project.makepyfile(test_it=module)
    if flags:
        project.path.joinpath("g.bias.yaml").write_text("gates: [{suite: ./tiny-nli.yaml, at_least: 0.5}]\n")
    result = project.runpytest(model(project, "good"), "--bias-strict", *flags)
    assert result.ret != pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["ERROR bias - noth*"])


def test_one_gate_that_can_fail_is_enough(project: pytest.Pytester) -> None:
    project.path.joinpath("g.bias.yaml").write_text("gates: [{suite: ./tiny-nli.yaml, at_least: 0.5}]\n")
    project.makepyfile(test_it=NOTHING_GATED["xfail"][0])
    result = project.runpytest(model(project, "good"), "--bias-strict")
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=1, xfailed=1)


def test_what_only_measures_is_no_strict_failure(project: pytest.Pytester) -> None:
    only = ("-p", "pytest_genderbias.plugin.without_files")
    result = project.runpytest(*NLI, model(project, "good"), "--bias-strict", *only)
    assert result.ret == pytest.ExitCode.OK


#: Files with a gate that the model fails, and whether pytest leaves them out by their folder.
UNREAD = {
    "bias.yaml": False,
    "release-bias.yaml": False,
    "release.bias.YAML": False,
    "gates.yml": False,
    ".hidden/x.bias.yaml": True,
    "build/x.bias.yml": True,
    "mine/x.bias.yaml": True,
}


@pytest.mark.parametrize("name", UNREAD)
def test_a_file_that_looks_like_gates_and_is_not_read_is_named(project: pytest.Pytester, name: str) -> None:
    project.makeini("[pytest]\nnorecursedirs = mine build .*\n")
    project.path.joinpath("g.bias.yaml").write_text("gates: [{suite: ./tiny-nli.yaml, at_least: 0.5}]\n")
    unread = project.path / name
    unread.parent.mkdir(exist_ok=True)
    unread.write_text("# ours\ngates:\n  - {suite: ../tiny-nli.yaml, at_least: 0.99}\n")
    result = project.runpytest(model(project, "good"))
    result.assert_outcomes(passed=1)
    why = "pytest did not enter its folder" if UNREAD[name] else "pytest reads [*].bias.yaml and [*].bias.yml only"
    result.stdout.fnmatch_lines([f"gates that were not read: {name}: {why}*"])
    result = project.runpytest(model(project, "good"), "--bias-strict")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["ERROR bias - gates that were not read: *"])


@pytest.mark.parametrize("target", ["nowhere.yaml", "dead.bias.yaml"])
def test_a_gate_file_that_is_a_dead_link_is_named(project: pytest.Pytester, target: str) -> None:
    project.path.joinpath("g.bias.yaml").write_text("gates: [{suite: ./tiny-nli.yaml, at_least: 0.5}]\n")
    for name in ("dead.bias.yaml", "settings.yaml"):
        project.path.joinpath(name).symlink_to(target if target != "dead.bias.yaml" else name)
    result = project.runpytest(model(project, "good"), "--bias-strict")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["gates that were not read: dead.bias.yaml: a link to a file that is not there*"])


def test_testpaths_hide_no_gate_file(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\ntestpaths = tests\nbias_strict = true\n")
    project.mkdir("tests").joinpath("g.bias.yaml").write_text("gates: [{suite: ../tiny-nli.yaml, at_least: 0.5}]\n")
    assert project.runpytest(model(project, "good")).ret == pytest.ExitCode.OK
    project.path.joinpath("release.bias.yaml").write_text("gates: [{suite: ./tiny-nli.yaml, at_least: 0.99}]\n")
    result = project.runpytest(model(project, "good"))
    result.stdout.fnmatch_lines(["gates that were not read: release.bias.yaml: *"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_file_that_the_command_line_leaves_out_or_that_is_no_gate_file_is_not_named(project: pytest.Pytester) -> None:
    for name in ("one.bias.yaml", "two.bias.yaml"):
        project.path.joinpath(name).write_text("gates: [{suite: ./tiny-nli.yaml, at_least: 0.5}]\n")
    project.path.joinpath("bias.yaml").write_text("learning_rate: 0.1\nbias: true\n")
    environment = project.mkdir("venv")
    environment.joinpath("pyvenv.cfg").write_text("")
    environment.joinpath("their.yaml").write_text("gates: [{suite: ./tiny-nli.yaml, at_least: 0.5}]\n")
    result = project.runpytest(model(project, "good"), "--bias-strict", "one.bias.yaml")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("*not read*")


@pytest.mark.parametrize("declared", ["file", "marker", "mitigation"])
def test_models_that_name_no_model_of_the_run_fail_a_strict_run(project: pytest.Pytester, declared: str) -> None:
    if declared == "marker":
        project.makepyfile(
            test_it="import pytest\n@pytest.mark.bias(models=['candidat'])\ndef test_it(bias_measure): assert 0\n"
        )
    else:
        wrong = {
            "file": "  - {suite: ./tiny-nli.yaml, at_least: 0.99, models: [candidat]}\n",
            "mitigation": (
                "mitigate:\n  - {method: projection, models: [candidat], reduces: [{suite: disco-names, by: 0.3}]}\n"
            ),
        }[declared]
        project.path.joinpath("wrong.bias.yaml").write_text(f"gates:\n{wrong}" if declared == "file" else wrong)
    project.path.joinpath("g.bias.yaml").write_text("gates: [{suite: ./tiny-nli.yaml, at_least: 0.5}]\n")
    result = project.runpytest(model(project, "good", "candidate"))
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["not for the models of this run: *"])
    result = project.runpytest(model(project, "good", "candidate"), "--bias-strict")
    result.assert_outcomes(passed=1, **({"errors": 1} if declared == "marker" else {"failed": 1}))
    result.stdout.fnmatch_lines(["*is for candidat, and the run has candidate; correct 'models'*(--bias-strict)"])
