"""Items of other plugins run as they do without this plugin, whatever their attributes are called."""

from __future__ import annotations

import json

import pytest
from support.abilities import UNASKED
from support.small_projects import NLI, model

FOREIGN = """
import pytest

class Foreign(pytest.Item):
    # tavern's items have a spec, too
    def __init__(self, *, spec, **kwargs):
        super().__init__(**kwargs)
        self.spec = self.suite = self.reference = spec

    def runtest(self):
        assert self.spec == {"test_name": "a request"}

    def measured(self, spec):
        raise AssertionError("this is not ours to call")

class ForeignFile(pytest.File):
    def collect(self):
        yield Foreign.from_parent(self, name="foreign", spec={"test_name": "a request"})

def pytest_collect_file(file_path, parent):
    if file_path.name == "test_request.tavern.yaml":
        return ForeignFile.from_parent(parent, path=file_path)
"""


@pytest.mark.parametrize(
    "arguments", [(), ("--bias-option=tiny-nli:unit=word_pair", "--bias-no-worse-than=a", "--bias-margin=0")]
)
def test_items_with_attributes_of_the_same_names_run_untouched(
    project: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    project.makeconftest(FOREIGN)
    project.path.joinpath("test_request.tavern.yaml").write_text("test_name: a request\n")
    models = [model(project, "good", "a"), model(project, "good", "b")]
    result = project.runpytest(*NLI, *models, *arguments, "-v")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["test_request.tavern.yaml::foreign PASSED*"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")
    project.runpytest(*models, "-m", "bias").assert_outcomes(deselected=1)


READS_PYTHON_CODE = """
def pytest_collection_modifyitems(items):
    for item in items:  # as pytest-randomly does
        for name in ("module", "cls", "function"):
            if getattr(item, name, None) is not None:
                getattr(item, name).__name__
"""


def test_items_of_this_plugin_have_no_attribute_that_other_plugins_read_as_python_code(
    project: pytest.Pytester,
) -> None:
    project.makeconftest(READS_PYTHON_CODE)
    project.makefile(".bias.yaml", gates="gates: [{suite: ./tiny-nli.yaml, at_least: 0.01}]")
    result = project.runpytest(*NLI, model(project, "good", "a"), "-v")
    result.assert_outcomes(passed=2)


GATE = "gates:\n  - {suite: ./tiny-nli.yaml, at_least: 0.99}\n"
TRIES = """
from pytest_genderbias import assert_at_least

def test_flaky(bias_measure):
    assert_at_least(bias_measure("tiny-nli.yaml"), 0.99)
"""


def test_a_gate_is_not_run_again(project: pytest.Pytester) -> None:
    """A gate is deterministic. A test in Python may be flaky for reasons of its own."""
    project.path.joinpath("g.bias.yaml").write_text(GATE)
    project.makepyfile(test_it=TRIES)
    result = project.runpytest("-p", "rerunfailures", "--reruns=2", model(project, "good"), "--bias-json=r.json")
    assert result.parseoutcomes() == {"failed": 2, "rerun": 2}
    assert len(json.loads(project.path.joinpath("r.json").read_text())["judgements"]) == 2


RUNS_TESTS = """
import pytest
from _pytest.runner import runtestprotocol

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    runtestprotocol(item, nextitem=nextitem)
    return True
"""


def test_a_plugin_may_run_the_tests(project: pytest.Pytester) -> None:
    project.makeconftest(RUNS_TESTS)
    project.makepyfile(test_it=TRIES)
    project.runpytest(model(project, "good"), "--bias-json=r.json").assert_outcomes(failed=1)
    [judgement] = json.loads(project.path.joinpath("r.json").read_text())["judgements"]
    assert judgement["test"] == "test_it.py::test_flaky[m]"


def test_the_entry_of_a_test_that_is_run_again_and_fails_is_kept(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_it="""
        import os
        from pytest_genderbias import assert_no_regression

        def test_kept(bias_measure, bias_baseline):
            assert_no_regression(bias_measure("tiny-nli.yaml"), bias_baseline, 0)

        def test_broken(bias_measure, bias_baseline):
            assert "BROKEN" not in os.environ
            assert_no_regression(bias_measure("tiny-nli.yaml"), bias_baseline, 0, name="mine")
        """
    )
    project.runpytest(model(project, "good"), "--bias-update").assert_outcomes(passed=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BROKEN", "1")
        result = project.runpytest("-p", "rerunfailures", "--reruns=1", model(project, "good"), "--bias-update")
    assert result.parseoutcomes() == {"passed": 1, "failed": 1, "rerun": 1}
    book = json.loads(next(project.path.glob("bias_baselines/m/*.json")).read_text())
    assert set(book["entries"]) == {"tiny-nli", "mine"}


def test_a_limit_of_time_for_unit_tests_does_not_end_a_gate(project: pytest.Pytester) -> None:
    source = project.path / f"{project.models}.py"  # type: ignore[attr-defined]
    source.write_text(source.read_text() + "\n\ndef slow():\n    import time\n    time.sleep(0.4)\n    return good()\n")
    project.path.joinpath("g.bias.yaml").write_text(GATE.replace("0.99", "0.5"))
    arguments = ("-p", "timeout", "--timeout=0.2", model(project, "slow"), "--bias-no-cache")
    project.runpytest(*arguments).assert_outcomes(passed=1)
    project.makepyfile(test_it=TRIES)
    result = project.runpytest(*arguments, "test_it.py")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*Timeout (>0.2s)*", "*the first run of a model loads it and scores its suites*"])


def test_groups_of_xdist_do_not_hide_unused_entries(project: pytest.Pytester) -> None:
    """``--dist loadgroup`` renames tests after they are collected; ``each`` runs every test on every worker."""
    project.makepyfile(
        test_it="""
        import pytest
        from pytest_genderbias import assert_no_regression

        @pytest.mark.xdist_group("one")
        def test_it(bias_measure, bias_baseline):
            assert_no_regression(bias_measure("tiny-nli.yaml"), bias_baseline, 0)
        """
    )
    project.runpytest(model(project, "good"), "--bias-update").assert_outcomes(passed=1)
    book = next(project.path.glob("bias_baselines/m/*.json"))
    data = json.loads(book.read_text())
    data["entries"]["old"] = data["entries"]["tiny-nli"]
    book.write_text(json.dumps(data))
    for dist in (("-n1", "--dist=loadgroup"), ("--dist=each", "--tx=2*popen")):
        result = project.runpytest("-p", "xdist", *dist, model(project, "good"), "--bias-json=r.json", *UNASKED)
        assert result.ret == pytest.ExitCode.TESTS_FAILED, dist
        result.stdout.fnmatch_lines(["unused baseline entries:*", "ERROR bias - unused baseline entries: *"])
        [judged] = json.loads(project.path.joinpath("r.json").read_text())["judgements"]
        assert judged["test"] == "test_it.py::test_it[m]", dist
