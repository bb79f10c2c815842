"""Mitigations in pytest: the fixture, ``mitigate:`` in YAML, what is trained once, kept, and shown. The model is the
demo LM.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from support.small_projects import WORKERS

from pytest_genderbias.mitigation.methods import registry
from pytest_genderbias.recipes.trainer import show_steps

MODEL = "--bias-model=m=demo-lm"
#: A recipe that trains nothing, notes each training in a file, and adds some noise by the seed. Its perplexity is a
#: setting.
STUB = '''
import sys, types
from dataclasses import dataclass, field
from typing import Any, ClassVar, Mapping

import numpy as np
import pytest
import torch

from pytest_genderbias.errors import ModelError, SettingError
from pytest_genderbias.mitigation.methods import registry
from pytest_genderbias.mitigation.methods.base import Method
from pytest_genderbias.models.saving import copied, with_network
from pytest_genderbias.recipes.recipe import Performance, PLAIN
from pytest_genderbias.recipes.trainer import check_arguments, save_whole
from pytest_genderbias.statistics.inference.item_sums import mean_sums


@dataclass(frozen=True)
class Stub:
    name: ClassVar[str] = "stub"
    columns: ClassVar[tuple[str, ...]] = ("text",)
    label: ClassVar[str | None] = None
    group: ClassVar[str | None] = None
    makes_task: ClassVar[bool] = False
    log: str = ""
    noise: float = 0.001
    data: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        if self.noise < 0:
            raise SettingError(f"noise should be 0 or more, got {self.noise}")
        if self.arguments:
            check_arguments(self.arguments)

    def settings(self):
        return {"noise": self.noise, "arguments": dict(self.arguments)}

    def rows(self):
        return [{"text": "He sings."}]

    def start(self, model, seed):
        return with_network(model, copied(model.backend.network), "start")

    def train(self, model, rows, seed, folder, training=PLAIN):
        with open(self.log, "a") as log:
            print(folder.name, self.data, file=log)
        if self.noise > 1e6:
            raise ModelError("the loss became NaN")
        network = copied(model.backend.network)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter += self.noise * torch.randn(parameter.shape, generator=generator)
        return save_whole(network, model.backend.tokenizer, folder / "model", {})

    def evaluate(self, model):
        labels, ones = np.array(["a", "b", "c", "d", "e", "f"]), np.ones(6)
        return [Performance("perplexity", "higher", 8.0, mean_sums(labels, 8 * ones, ones, "passages"))]


@dataclass(frozen=True)
class Marked(Method):
    """Does what training does, and no more: a mitigation that is none."""

    name: ClassVar[str] = "marked"

    def rows(self, rows, columns, seed):
        return [*rows, *rows]


registry.RECIPES = {**registry.RECIPES, "stub": lambda: Stub}
registry.METHODS = {**registry.METHODS, "marked": lambda: Marked}
module = types.ModuleType("pytest_genderbias.recipes.stub")
module.Stub, module.Marked = Stub, Marked
sys.modules["pytest_genderbias.recipes.stub"] = module
'''
RELEASE = """
mitigate:
  - method: projection
    controls: 3
    reduces:
      - {suite: lm-occupation, by: 0.3}
      - {suite: lm-occupation, by: 0.9}
"""


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """Import what the runs need before any of them: an in-process run forgets what it imported, and torch cannot be
    imported twice.
    """
    import transformers

    from pytest_genderbias import load_model, measure
    from pytest_genderbias.mitigation import judge_reduction, mitigate  # noqa: F401

    transformers.TrainingArguments("unused", use_cpu=True)
    measure("lm-occupation", load_model("demo-lm"), limit=8, cache=None)
    for name in ("projection", "wed", "cda"):
        registry.make_method(name)


@pytest.fixture
def project(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> pytest.Pytester:
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(registry, "RECIPES", registry.RECIPES)
    monkeypatch.setattr(registry, "METHODS", registry.METHODS)
    monkeypatch.delitem(sys.modules, "pytest_genderbias.recipes.stub", raising=False)
    pytester.makeconftest(STUB)
    pytester.temporary = temporary  # type: ignore[attr-defined]
    return pytester


def write(project: pytest.Pytester, text: str) -> None:
    project.path.joinpath("release.bias.yaml").write_text(text.replace("LOG", str(project.path / "log")))


def trained(project: pytest.Pytester) -> list[str]:
    log = project.path / "log"
    return log.read_text().splitlines() if log.exists() else []


def left_behind(project: pytest.Pytester) -> list[str]:
    return [path.name for path in project.temporary.iterdir() if path.name.startswith("genderbias-")]  # type: ignore[attr-defined]


def test_a_run_is_computed_once_for_equal_arguments(project: pytest.Pytester) -> None:
    project.makepyfile("""
        from pytest_genderbias.mitigation import make_method

        def test_run(bias_mitigation, bias_measure, bias_model):
            run = bias_mitigation(["wed", "projection"], controls=2)
            assert run is bias_mitigation(["wed", {"name": "projection"}], controls=2)
            assert run is bias_mitigation([make_method("wed"), make_method("projection")], controls=2)
            assert run is not bias_mitigation(["wed", {"name": "projection", "pairs": "lu2018-pairs"}], controls=2)
            assert run.before[0].fingerprint == bias_model.fingerprint != run.after[0].fingerprint
            [[before]], [[after]] = run.measure("before", "lm-occupation"), run.measure("after", "lm-occupation")
            assert before.values == bias_measure("lm-occupation").values, "the same settings"
            assert before.model == after.model == "m" and before.n == after.n == 296
            assert abs(after.value) < 0.6 * abs(before.value)
            [one] = bias_mitigation({"name": "projection"}).after
            assert one.fingerprint not in (after.signature["model"]["fingerprint"], bias_model.fingerprint)
        """)
    report = project.path / "report.json"
    result = project.runpytest(MODEL, "--bias-limit=300", f"--bias-json={report}")
    result.assert_outcomes(passed=1)
    shown = json.loads(report.read_text())
    assert len(shown["measurements"]) == 1, "models of a run are no models of the session"
    assert not left_behind(project)


TRAINS = """
    import pytest

    @pytest.mark.parametrize("n", range(2))
    def test_trained(bias_mitigation, n):
        run = bias_mitigation("marked", {"name": "stub", "log": "LOG", "noise": 0.002}, seeds=2)
        assert len(run.after) == len(run.control) == 2
        assert run.measure("after", "lm-occupation", limit=50)[0][0].model == "m"
"""


@pytest.mark.parametrize("workers", [(), pytest.param(WORKERS, marks=pytest.mark.slow)])
def test_equal_trainings_are_done_once_and_leave_nothing(
    project: pytest.Pytester, workers: tuple[str, ...], pytestconfig: pytest.Config
) -> None:
    if workers and not pytestconfig.pluginmanager.hasplugin("xdist"):
        pytest.skip("pytest-xdist is not installed")
    project.makepyfile(TRAINS.replace("LOG", str(project.path / "log")))
    run = project.runpytest_subprocess if workers else project.runpytest
    run(MODEL, *workers).assert_outcomes(passed=2)
    assert len(trained(project)) == 4, "two seeds, each with the method and without it"
    assert not left_behind(project)


def test_bias_runs_keeps_what_was_trained(project: pytest.Pytester) -> None:
    project.makepyfile(TRAINS.replace("LOG", str(project.path / "log")))
    project.makeini("[pytest]\nbias_runs = runs\nbias_data = .")
    project.runpytest(MODEL, "-k", "m-0").assert_outcomes(passed=1, deselected=1)
    assert len(trained(project)) == 4 and all(line.endswith(str(project.path)) for line in trained(project))
    kept = sorted(path.name for path in (project.path / "runs").iterdir())
    assert len(kept) == 4 and all((project.path / "runs" / name / "model" / "config.json").is_file() for name in kept)
    project.runpytest(MODEL, "-k", "m-1").assert_outcomes(passed=1, deselected=1)
    assert len(trained(project)) == 4, "nothing is trained again"
    project.runpytest(MODEL, "-k", "m-1", "-obias_runs=others").assert_outcomes(passed=1, deselected=1)
    assert len(trained(project)) == 8 and (project.path / "others").is_dir()


def test_an_unwritable_folder_of_runs_is_a_usage_error(project: pytest.Pytester) -> None:
    project.path.joinpath("file").write_text("")
    result = project.runpytest(MODEL, "-obias_runs=file/runs")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: bias_runs: *file cannot be written*"])


def test_what_does_not_apply_or_is_wrong_fails_and_says_so(project: pytest.Pytester) -> None:
    project.makepyfile("""
        def test_role(bias_mitigation):
            bias_mitigation("projection", controls=1).measure("after", "disco-terms")
        def test_name(bias_mitigation):
            bias_mitigation("projektion")
        def test_setting(bias_mitigation):
            bias_mitigation({"name": "projection", "components": "two"})
        def test_no_recipe(bias_mitigation):
            bias_mitigation("cda")
        def test_no_name(bias_mitigation):
            bias_mitigation({"sides": "one"})
        def test_none(bias_mitigation):
            bias_mitigation([])
        """)
    result = project.runpytest(MODEL)
    result.assert_outcomes(failed=6)
    result.stdout.fnmatch_lines(
        [
            "*disco-terms needs a masked LM*",
            "*UnknownNameError: no method is called 'projektion'; did you mean projection?*",
            "*components should be a whole number of at least 1, got 'two'*",
            "*cda takes part in a training*",
            "*a method is given by its name*",
            "*a list of methods is empty*",
        ]
    )
    project.runpytest("-k", "role").assert_outcomes(skipped=1, deselected=5)


ELSEWHERE = """
import pytest
from pytest_genderbias import measure
from pytest_genderbias.errors import NotApplicableError
from pytest_genderbias.mitigation import assert_reduced

def test_reduction(bias_mitigation):
    assert_reduced(bias_mitigation("projection", controls=1), "disco-terms", by=0.3)

def test_unrelated(bias_mitigation, bias_model):
    bias_mitigation("projection", controls=1)
    measure("nli-occupation", bias_model)
"""


def test_only_what_an_optional_test_judges_skips_it(project: pytest.Pytester) -> None:
    """An unrelated call that does not apply fails the test, optional or not."""
    project.makepyfile(test_it=ELSEWHERE)
    result = project.runpytest(MODEL)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*disco-terms needs a masked LM*"])
    project.makepyfile(test_it=ELSEWHERE + "\npytestmark = pytest.mark.bias(optional=True)\n")
    result = project.runpytest(MODEL, "--bias-strict", "-rs")
    result.assert_outcomes(failed=1, skipped=1)
    result.stdout.fnmatch_lines(
        ["E *NotApplicableError: * has no chat template*", "SKIPPED*disco-terms needs a masked LM*"]
    )


DECLARED = """
mitigate:
  - method: projection
    controls: 1
    reduces:
      - {suite: disco-terms, by: 0.3%s}
  - method: projection
    controls: 1
    %s
    reduces:
      - {suite: disco-names, by: 0.3}
"""


def test_a_declared_mitigation_that_does_not_apply_fails_unless_it_is_optional(project: pytest.Pytester) -> None:
    project.path.joinpath("g.bias.yaml").write_text(DECLARED % ("", "optional: false"))
    result = project.runpytest(MODEL)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "g.bias.yaml:6: not judged: disco-terms needs a masked LM; *'optional: true'",
            "g.bias.yaml:11: not judged: disco-names needs *",
        ]
    )
    project.path.joinpath("g.bias.yaml").write_text(DECLARED % (", optional: true", "optional: true"))
    project.runpytest(MODEL, "--bias-strict").assert_outcomes(skipped=2, errors=1)


def test_a_run_that_failed_is_not_tried_again(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest
        @pytest.mark.parametrize("n", range(2))
        def test_broken(bias_mitigation, n):
            bias_mitigation("marked", {"name": "stub", "log": "LOG", "noise": 1e9})
        """.replace("LOG", str(project.path / "log"))
    )
    result = project.runpytest(MODEL)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*ModelError: the loss became NaN"] * 2)
    assert len(trained(project)) == 1


BAD = """
mitigate:
  - method: cda
    recipe: {name: stub, log: LOG}
    reduces:
      - {suite: lm-occupation, by: 0.3}
"""
MISTAKES = [
    ("method: cda", "methode: cda", ":3: unknown key 'methode' in a mitigation; did you mean method?"),
    ("method: cda", "method: cdb", ":3: no method is called 'cdb'; there are cda*"),
    ("name: stub", "name: forest", ":4: no recipe is called 'forest'; there are nli*"),
    ("method: cda", "treatment: cda", ":3: unknown key 'treatment' in a mitigation; expected one of best, budget*"),
    ("method: cda", "method: 3", ":3: 'method' of the mitigation should be a name, or a mapping with 'name' and "
                                 "settings or a list, got a whole number (3)"),
    ("method: cda", "method: {side: one}", ":3: the method has no 'name', which is required; add it"),
    ("method: cda", "method: {name: cda, side: one}", ":3: unknown key 'side' in the method cda; did you mean sides?"),
    ("method: cda", "method:\n      name: cda\n      names: any", ":5: names should be one of same, other*"),
    ("method: cda", "method:\n      name: cda\n      copies: 2", ":5: copies should be true or false, got 2"),
    ("method: cda", "method:\n    - cda\n    - [wed]",
        ":5: expected a name, or a mapping with 'name' and settings, got a list (['wed'])"),
    ("    recipe: {name: stub, log: LOG}\n", "", ":3: cda takes part in a training: add a 'recipe'"),
    ("name: stub", "name: stubb", ":4: no recipe is called 'stubb'; did you mean stub?"),
    ("log: LOG", "steps: 3", ":4: unknown key 'steps' in the recipe stub; expected one of arguments*"),
    ("log: LOG", "noise: loud", ":4: noise should be a number, got 'loud'"),
    ("log: LOG", "noise: -1", ":4: noise should be 0 or more, got -1"),
    ("log: LOG", "arguments: 3", ":4: arguments should be a mapping, got 3"),
    ("log: LOG", "arguments: {warm_up: 3}", ":4: warm_up is no argument of transformers.TrainingArguments"),
    ("{name: stub, log: LOG}", "\n      name: masked-lm\n      arguments:\n        bf16: true\n        weight_decay: x",
        ":8: weight_decay of arguments should be a number, got 'x'"),
    ("{name: stub, log: LOG}", "\n      name: masked-lm\n      arguments:\n        warmup_steps: 3",
        ":7: warmup_steps of arguments has a setting of the recipe: warmup"),
    ("name: stub, log: LOG", "name: masked-lm, arguments: 3", ":4: arguments should be a mapping, got 3"),
    ("    reduces:", "    seeds: 0\n    reduces:", ":5: 'seeds' of the mitigation should be a whole number of at "
                                                   "least 1 or a list*, got a whole number (0)"),
    ("    reduces:", "    seeds: [a]\n    reduces:",
        ":5: 'seeds' of the mitigation should be * a list of different whole numbers, got a list (['a'])"),
    ("    reduces:", "    controls: 0\n    reduces:",
        ":5: 'controls' of the mitigation should be a whole number of at least 1, got a whole number (0)"),
    ("    reduces:", "    from_nothing: true\n    reduces:", ":5: 'from_nothing' needs a recipe that makes*"),
    ("    reduces:", "    budget: {perplexity: much}\n    reduces:",
        ":5: 'perplexity' should be a share of 0 or more, as 0.05 or 5%, got a text ('much')"),
    ("{suite: lm-occupation, by: 0.3}", "lm-occupation", ":6: expected a reduction (suite, by), got*"),
    (", by: 0.3", "", ":6: the reduction has no 'by', which is required; add it"),
    ("by: 0.3", "by: 30", ":6: 'by' of the reduction should be the share of the distance from neutral to remove, 0 "
                          "to 1, got a whole number (30)"),
    ("by: 0.3", "by: 0.3, statistic: bias", ":6: lm-occupation has no statistic 'bias'; it has*"),
    ("by: 0.3", "by: 0.3, at_most: 1", ":6: unknown key 'at_most' in a reduction; expected*"),
    ("by: 0.3", "by: 0.3, back: 0.5", ":6: 'back' is the share that may return with a new head: add 'superficial: "
                                      "true'"),
    ("{name: stub, log: LOG}\n    reduces:\n      - {suite: lm-occupation, by: 0.3",
     "edge-probe\n    reduces:\n      - {suite: coref-occupation, by: 0.3, superficial: true",
     ":6: superficial compares new heads*the recipe edge-probe left it as it was*for coreference the recipe "
     "coreference"),
    ("by: 0.3", "by: 0.3, overshoot: -1", ":6: 'overshoot' of the reduction should be a number of 0 or more, got a "
                                          "whole number (-1)"),
    ("by: 0.3", "by: 0.3, budget: {perplexity: -1}",
        ":6: 'perplexity' should be a share of 0 or more, as 0.05 or 5%, got a whole number (-1)"),
    ("by: 0.3", "by: 0.3, settings: {speed: 1}", ":6: unknown setting 'speed'; did you mean seed?"),
    ("by: 0.3", "by: 0.3, settings: {limit: -1}", ":6: limit should be a whole number of at least 1, got -1; leave "
                                                  "it out for that of the run"),
    ("by: 0.3", "by: 0.3, settings: {single_word_only: 3}",
        ":6: option 'single_word_only' of lm-occupation should be true or false, got 3"),
    ("suite: lm-occupation", "suite: lm-job", ":6: *lm-job*"),
    ("suite: lm-occupation", "suite: ./lm-job.yaml", ":6: *lm-job.yaml: no such file"),
    ("    reduces:", "    seeds: [3, 3]\n    reduces:",
        ":5: 'seeds' of the mitigation should be * a list of different whole numbers, got a list ([3, 3])"),
    ("method: cda", "method: {name: cda, intervention: clever}",
        ":3: intervention should be one of naive, grammatical, got 'clever'"),
    ("method: cda\n    recipe: {name: stub, log: LOG}", "method: wed\n    budget: {perplexity: 0.05}",
     ":4: budget figure 'perplexity' cannot be measured: there is no recipe, and besides aggregate_bias "
     "lm-occupation measures nothing*"),
    ("method: cda\n    recipe: {name: stub, log: LOG}\n    reduces:\n      - {suite: lm-occupation, by: 0.3",
     "method: wed\n    reduces:\n      - {suite: nli-occupation, by: 0.3, budget: {accurate: 0.05}",
     ":5: budget figure 'accurate' cannot be measured: there is no recipe, and besides net_neutral nli-occupation "
     "measures fraction_neutral*accuracy*"),
    ("{name: stub, log: LOG}", "causal-lm\n    budget: {perplexty: 0.05}",
     ":5: budget figure 'perplexty' cannot be measured: causal-lm evaluates perplexity, and besides aggregate_bias*"),
    ("method: cda", "method: {name: cda, pairs: ./none.yaml}", ":3: *none.yaml: no such file"),
    ("reduces:\n      - {suite: lm-occupation, by: 0.3}", "reduces: []", ":5: 'reduces' of the mitigation is empty"),
    ("  - method: cda\n    recipe: {name: stub, log: LOG}\n    reduces:\n      - {suite: lm-occupation, by: 0.3}",
        "  - cda",
     ":3: expected a mitigation (method, reduces), got a text ('cda')"),
    ("mitigate:", "mitigates:", ":2: unknown key 'mitigates' in a gate file; did you mean mitigate?"),
]  # fmt: skip


def test_a_wrong_file_is_one_line_with_its_place(project: pytest.Pytester) -> None:
    for number, (old, new, _) in enumerate(MISTAKES):
        assert old in BAD
        project.path.joinpath(f"wrong-{number}.bias.yaml").write_text(BAD.replace(old, new))
    result = project.runpytest(MODEL, "--collect-only")
    result.assert_outcomes(errors=len(MISTAKES))
    for number, (_, _, told) in enumerate(MISTAKES):
        result.stdout.fnmatch_lines([f"*wrong-{number}.bias.yaml{told}".replace("[", "[[]")])
    result.stdout.no_fnmatch_line("*Traceback*")


GRID = """
mitigate:
  - method: marked
    recipe: {name: stub, log: LOG}
    grid: {stub.noise: [0.0005, 0.002, 2000000]}
    best: {lowest: lm-occupation/aggregate_bias, within: {perplexity: 5%}, settings: {limit: 60}}
    seeds: 4
    choose_on: 2
    reduces:
      - {suite: lm-occupation, by: 0, settings: {limit: 60}}
      - {suite: lm-occupation, by: 0.9, settings: {limit: 60}}
"""


def test_a_grid_is_tried_once_and_its_best_point_judged_on_other_seeds(project: pytest.Pytester) -> None:
    write(project, GRID)
    report, summary = project.path / "report.json", project.path / "summary.md"
    result = project.runpytest(MODEL, f"--bias-json={report}", f"--bias-summary={summary}")
    result.assert_outcomes(failed=2)
    # two points of two seeds, and a third that fails at once; the best again on two seeds, each with its control
    assert len(trained(project)) == 2 * 2 + 1 + 2 * 2
    judgements = json.loads(report.read_text())["judgements"]
    first, second = (judgement["facts"]["grid"] for judgement in judgements)
    assert first == second and first["chosen_on"] == [0, 1] and first["judged_on"] == [2, 3]
    assert "the loss became NaN" in first["points"][2]["failure"] and first["best"] in (0, 1)
    assert all("the best of 3 points (stub.noise=" in judgement["text"] for judgement in judgements)
    result.stdout.fnmatch_lines(
        [
            "*marked.best-of-3.lm-occupation.aggregate_bias.by_0:m*",
            "Grid of m with marked, best of 3",
            "*stub.noise  lm-occupation/aggregate_bias  perplexity worse  choice*",
            "*2000000 *out: the loss became NaN*",
            "*chosen on seeds 0, 1, and judged on seeds 2, 3.*",
        ]
    )
    assert summary.read_text().count("<summary>Grid of m with marked, best of 3</summary>") == 1


def test_a_budget_of_the_suites_own_figure_asks_for_no_recipe(project: pytest.Pytester) -> None:
    write(
        project, "mitigate:\n  - {method: wed, reduces: [{suite: nli-occupation, by: 0.3, budget: {accuracy: 0.05}}]}\n"
    )
    result = project.runpytest(MODEL, "--collect-only", "-q")
    result.assert_outcomes()
    result.stdout.fnmatch_lines(["release.bias.yaml::wed.nli-occupation.net_neutral.by_0.3:m"])


def test_a_method_that_finds_nothing_to_work_on_is_told_in_one_line(project: pytest.Pytester) -> None:
    write(
        project,
        RELEASE.replace("method: projection", "method: {name: projection, components: 3}").replace(
            "      - {suite: lm-occupation, by: 0.9}\n", ""
        ),
    )
    result = project.runpytest(MODEL)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["release.bias.yaml:6: SettingError: projection cannot be done on m: 1 vectors of 64 dimensions span 1, not 3"]
    )
    result.stdout.no_fnmatch_line("*UndefinedError*")


def test_names_of_reductions(project: pytest.Pytester) -> None:
    other = (
        "  - {method: [wed, projection], models: [n], reduces: [{suite: lm-occupation, by: 0.3, statistic:"
        " signed_bias}]}\n"
    )
    write(project, RELEASE + other + other + "gates: [{suite: lm-occupation, at_most: 1}]\n")
    result = project.runpytest(MODEL, "--bias-model=n=demo-lm", "--collect-only", "-q")
    found = [line.partition("::")[2] for line in result.outlines if "::" in line]
    assert found == [
        "lm-occupation.aggregate_bias.at_most:m",
        "lm-occupation.aggregate_bias.at_most:n",
        "projection.lm-occupation.aggregate_bias.by_0.3:m",
        "projection.lm-occupation.aggregate_bias.by_0.9:m",
        "projection.lm-occupation.aggregate_bias.by_0.3:n",
        "projection.lm-occupation.aggregate_bias.by_0.9:n",
        "wed+projection.lm-occupation.signed_bias.by_0.3:n",
        "wed+projection.lm-occupation.signed_bias.by_0.3-2:n",
    ]
    result = project.runpytest(MODEL, "-k", "wed", "-rs")
    result.assert_outcomes(skipped=2, deselected=3)
    result.stdout.fnmatch_lines(["*wed+projection.lm-occupation.signed_bias.by_0.3 is for n, and the run has m"])


def test_reductions_are_judged_and_shown(project: pytest.Pytester) -> None:
    write(project, RELEASE.replace("method: projection", "method: [wed, projection]"))
    report, junit = project.path / "report.json", project.path / "junit.xml"
    result = project.runpytest(
        MODEL, "-v", f"--bias-json={report}", f"--junitxml={junit}", "--bias-compare", "--bias-model=n=demo-lm"
    )
    result.assert_outcomes(passed=2, failed=2)
    name = "release.bias.yaml::wed+projection.lm-occupation.aggregate_bias"
    result.stdout.fnmatch_lines(
        [
            f"{name}.by_0.3:m PASSED*",
            f"{name}.by_0.9:m FAILED*",
            (
                "release.bias.yaml:7: limit broken (not reduced): lm-occupation on m with wed & projection:"
                " aggregate_bias 0.292 -> 0.0636, reduced by 78.2 %*"
            ),
            "  suite *model *statistic *before *after *control *gone *95 % bounds *over *asked *verdict",
            (
                "  lm-occupation  m with wed & projection  aggregate_bias  0.2920 *0.0636 *0.3*  78.2 %  * to"
                " *occupations  reduced by 30 %  pass (reduced)"
            ),
            (
                "  lm-occupation  m with wed & projection  aggregate_bias  0.2920 *0.0636 *0.3*  78.2 % *reduced by 90"
                " %  limit broken (not reduced)"
            ),
            "--bias-compare: no suite was measured on two models",
        ]
    )
    shown = json.loads(report.read_text())
    assert shown["measurements"] == [] and shown["comparisons"] == []
    facts = [one["facts"] for one in shown["judgements"]]
    assert len(facts) == 4 and all(one["before"] > one["after"] and one["control"] > one["before"] for one in facts)
    assert facts[0]["what"]["method"]["method"] == "wed & projection" and facts[0]["what"]["controls"] == 3
    cases = {case.get("name"): case for case in ElementTree.parse(junit).iter("testcase")}
    case = cases["wed+projection.lm-occupation.aggregate_bias.by_0.3:m"]
    properties = {one.get("name"): one.get("value") for one in case.iter("property")}
    key = "bias.lm-occupation.aggregate_bias"
    assert properties["bias_suite"] == "lm-occupation" and properties[f"{key}.code"] == "reduced"
    assert float(properties[f"{key}.before"] or 0) == pytest.approx(0.29202, abs=1e-4)
    assert float(properties[f"{key}.reduction"] or 0) == pytest.approx(0.782, abs=1e-3)


def test_the_fixture_is_judged_like_the_file(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from pytest_genderbias.mitigation import assert_reduced

        def test_reduced(bias_mitigation):
            assert_reduced(bias_mitigation(["wed", "projection"], controls=3), "lm-occupation", by=0.3)

        def test_idle(bias_mitigation):
            run = bias_mitigation("marked", {"name": "stub", "log": "LOG"}, seeds=2)
            assert_reduced(run, "lm-occupation", by=0.3, budget={"perplexity": 0.05})
        """.replace("LOG", str(project.path / "log"))
    )
    result = project.runpytest(MODEL, "--bias-limit=1184")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "  lm-occupation  m with marked *aggregate_bias  0.29*  perplexity 8 to 8 *2 *reduced by 30 %, "
            "perplexity 5 % worse at most  limit broken (not reduced)",
            "  lm-occupation  m with wed & projection *pass (reduced)",
        ]
    )


def test_what_starts_from_nothing_asks_for_no_model(project: pytest.Pytester) -> None:
    """The recipe makes its own network; here it takes the demo model for one."""
    project.makeconftest(
        STUB.replace("makes_task: ClassVar[bool] = False", "makes_task: ClassVar[bool] = True").replace(
            'model.backend.network), "start")', 'model.backend.network), "start") if model else load_model("demo-lm")'
        )
        + "\nfrom pytest_genderbias import load_model\n"
    )
    write(
        project,
        "mitigate:\n  - {method: marked, recipe: {name: stub, log: LOG}, from_nothing: true, seeds: 1, reduces:"
        " [{suite: lm-occupation, by: 0.3}]}\n",
    )
    result = project.runpytest("-v", "--bias-limit=592")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*::marked.lm-occupation.aggregate_bias.by_0.3:stub FAILED*",
            "*limit broken (not reduced): lm-occupation on stub with marked: *unchanged*",
        ]
    )


PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "mitigation.md").read_text(encoding="utf-8")


def test_what_the_page_shows_can_be_read(project: pytest.Pytester) -> None:
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        ast.parse(block)
    first, *others = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    write(project, "".join([first, *(block.removeprefix("mitigate:\n") for block in others)]))
    result = project.runpytest("--bias-model=candidate=demo-mlm", "--collect-only", "-q")
    assert [line.partition("::")[2] for line in result.outlines if "::" in line] == [
        "lambda .1.aggregate_bias.by_0.1:lstm",
        "cda.disco-names.significant_fills.by_0.3:candidate",
        "cda.disco-terms.significant_fills.by_0.2:candidate",
        "dropout.best-of-9.lm-occupation.aggregate_bias.by_0.2:candidate",
    ]


def test_paths_start_at_the_file(project: pytest.Pytester) -> None:
    folder = project.mkdir("gates")
    project.path.joinpath("gates", "release.bias.yaml").write_text(
        "mitigate:\n  - {method: marked, recipe: {name: stub, log: ./log, data: .}, seeds: 1, reduces: [{suite:"
        " lm-occupation, by: 0.3}]}\n"
    )
    project.runpytest(MODEL, "--bias-limit=50").assert_outcomes(failed=1)
    assert [line.split()[1] for line in (folder / "log").read_text().splitlines()] == [str(folder)] * 2


def test_steps_move_a_bar_that_goes_when_the_training_does() -> None:
    seen: list[object] = []

    @contextmanager
    def progress(label: str, total: int, done: int) -> Iterator[Callable[[int], object]]:
        seen.append((label, total, done))
        yield seen.append
        seen.append("gone")

    with ExitStack() as bars:
        bar = show_steps(progress, "lstm with cda, seed 0", bars)
        bar.on_train_begin(None, SimpleNamespace(max_steps=20, global_step=18), None)
        bar.on_step_end(None, None, None)
        bar.on_step_end(None, None, None)
        assert seen == [("lstm with cda, seed 0", 20, 18), 1, 1]
    assert seen[-1] == "gone"


def test_a_file_is_read_without_torch() -> None:
    made = "".join(f"make_recipe({name!r}); " for name in registry.RECIPES)
    made += "".join(f"make_method({name!r}); " for name in registry.METHODS)
    code = (
        "import sys, pytest_genderbias.plugin.items; from pytest_genderbias.mitigation.methods.registry"
        f" import *; {made}"
    )
    code += "sys.exit(bool({'torch', 'transformers', 'spacy'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
