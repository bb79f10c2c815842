"""Items of other plugins run as they do without this plugin, whatever their attributes are called."""

from __future__ import annotations

import pytest
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

    def measure_reference(self, reference):
        raise AssertionError("this is not ours to call")

class ForeignFile(pytest.File):
    def collect(self):
        yield Foreign.from_parent(self, name="foreign", spec={"test_name": "a request"})

def pytest_collect_file(file_path, parent):
    if file_path.name == "test_request.tavern.yaml":
        return ForeignFile.from_parent(parent, path=file_path)
"""


@pytest.mark.parametrize("arguments", [(), ("--bias-option=tiny-nli:unit=word_pair", "--bias-no-worse-than=a")])
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
    project.makefile(".bias.yaml", gates="gates: [{suite: ./tiny-nli.yaml, at_least: 0}]")
    result = project.runpytest(*NLI, model(project, "good", "a"), "-v")
    result.assert_outcomes(passed=2)
