"""Gates that cannot be judged: which fail, which are skipped, and what the end of the run says of them."""

from __future__ import annotations

import json

import pytest
from support.abilities import UNASKED
from support.small_projects import NLI, model

from pytest_genderbias.plugin.items import SuiteCollector, SuiteItem

GATE = "gates:\n  - {suite: ./tiny-disco.yaml, at_most: 9%s}\n"
PYTHON = """
import pytest
from pytest_genderbias import assert_at_most, assert_at_least

{mark}
def test_fills(bias_measure):
    assert_at_most(bias_measure("tiny-disco.yaml"), 9)
"""


def write_gate(project: pytest.Pytester, more: str = "", name: str = "g.bias.yaml") -> None:
    project.path.joinpath(name).write_text(GATE % more)


def test_a_written_gate_on_a_model_that_it_does_not_apply_to_fails(project: pytest.Pytester) -> None:
    write_gate(project)
    project.makepyfile(test_it=PYTHON.format(mark=""))
    result = project.runpytest(model(project, "good"))
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            (
                "g.bias.yaml:2: not judged: tiny-disco needs a masked LM; m is an NLI classifier; a gate that cannot be"
                " judged fails; limit it with 'models: [[]NAME]', or allow a skip with 'optional: true'"
            ),
            (
                "E *NotApplicableError: tiny-disco needs a masked LM; m is an NLI classifier;"
                " *@pytest.mark.bias(optional=True)"
            ),
        ]
    )
    result.stdout.no_fnmatch_line("*another exception*")
    result.stdout.no_fnmatch_line("*contextlib*")


def test_missing_data_fail_a_written_gate_and_skip_a_suite(project: pytest.Pytester) -> None:
    project.path.joinpath("g.bias.yaml").write_text("gates:\n  - {suite: pairs-pll, within: 0.3}\n")
    result = project.runpytest("--bias-model=demo-lm", "--bias-suite=pairs-pll", "-rs")
    result.assert_outcomes(failed=1, skipped=1)
    result.stdout.fnmatch_lines(["g.bias.yaml:2: not judged: pairs-pll: no *", "SKIPPED*pairs-pll: no *"])


def test_an_optional_gate_is_skipped_with_its_reason_even_if_the_run_is_strict(project: pytest.Pytester) -> None:
    write_gate(project, ", optional: true")
    project.makepyfile(test_it=PYTHON.format(mark="@pytest.mark.bias(optional=True)"))
    result = project.runpytest(model(project, "good"), "--bias-strict")
    result.assert_outcomes(skipped=2, errors=1)
    result.stdout.fnmatch_lines(["not run on m: *: tiny-disco needs a masked LM; m is an NLI classifier"])
    result.stdout.fnmatch_lines(["ERROR bias - nothing gates m *"])
    project.runpytest("--bias-strict").assert_outcomes(failed=1, errors=1)


def test_two_models_and_one_gate_file(project: pytest.Pytester) -> None:
    """A gate for one of the models is no gate of the other; a gate for all must apply to all."""
    write_gate(project, ", models: [f]")
    project.makepyfile(test_it=PYTHON.format(mark='@pytest.mark.bias(models=["f"])'))
    models = model(project, "good", "n"), model(project, "filler", "f")
    project.runpytest(*models, "--bias-strict").assert_outcomes(passed=2)
    with_another = PYTHON.format(mark='@pytest.mark.bias(models=["f"])') + "\ndef test_other(bias_measure): pass\n"
    project.makepyfile(test_it=with_another)
    result = project.runpytest(models[0], "--bias-json=r.json")
    result.assert_outcomes(passed=1, skipped=2)
    idle = json.loads(project.path.joinpath("r.json").read_text())["not_judged"]
    assert [(one["test"], one["why"]) for one in idle] == [
        ("g.bias.yaml::tiny-disco.significant_fills.at_most:no-model", "other models"),
        ("test_it.py::test_fills[no-model]", "other models"),
    ]
    result.stdout.fnmatch_lines(
        ["not for the models of this run: tiny-disco.significant_fills.at_most:no-model, test_fills[[]no-model]"]
    )
    write_gate(project)
    project.runpytest(*models, "g.bias.yaml").assert_outcomes(passed=1, failed=1)


def test_a_run_whose_gates_are_all_for_other_models_fails(project: pytest.Pytester) -> None:
    """A wrong NAME in --bias-model would pass in silence."""
    write_gate(project, ", models: [candidate]")
    project.makepyfile(test_other="def test_other(): pass")
    result = project.runpytest(model(project, "filler", "candidat"))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, skipped=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            "nothing was judged: no gate of this run is for candidat; correct the name *",
            "ERROR bias - nothing was judged: *",
        ]
    )
    assert project.runpytest(model(project, "filler", "candidate")).ret == 0
    assert project.runpytest(model(project, "good", "x"), *NLI).ret == 0, "the run measures a suite"


def test_without_a_model_gates_are_skipped_and_counted(project: pytest.Pytester) -> None:
    write_gate(project)
    project.makepyfile(test_it=PYTHON.format(mark="") + "\ndef test_other(): pass\n")
    result = project.runpytest()
    result.assert_outcomes(passed=1, skipped=2)
    result.stdout.fnmatch_lines(
        ["2 bias tests were not judged, since no model is named: give one with --bias-model=*bias_strict = true*"]
    )
    project.makeini("[pytest]\nbias_strict = true\n")
    result = project.runpytest()
    result.assert_outcomes(passed=1, failed=1, errors=1)
    result.stdout.fnmatch_lines(["g.bias.yaml:2: no model named: *(--bias-strict)"])


def test_a_test_that_is_marked_to_be_skipped_does_not_ask_for_a_model(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=PYTHON.format(mark='@pytest.mark.skip(reason="later")'))
    result = project.runpytest("--bias-strict", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*later"])


def test_suites_of_all_are_skipped_where_they_do_not_apply(project: pytest.Pytester) -> None:
    config = project.parseconfigure("--bias-model=m=x:y", "--bias-suite=all,tiny-nli.yaml", "--bias-strict")
    collector = SuiteCollector.from_parent(pytest.Session.from_config(config), name="genderbias", nodeid="genderbias")
    optional = {item.suite_name: item.optional for item in collector.collect()}
    assert not optional.pop("tiny-nli")
    assert len(optional) > 20 and all(optional.values())


def test_all_leaves_out_a_suite_whose_gate_would_be_too_weak(
    wide_project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A suite that is named fails then: one of the flags, and one that a packaged suite stands in for."""
    monkeypatch.setattr(SuiteItem, "_stands_for_all", property(lambda item: item.suite_name == "tiny-nli"))
    usual = model(wide_project, "usual")
    result = wide_project.runpytest("--bias-suite=tiny-nli.yaml,wide.yaml", usual, "--bias-update-new")
    result.assert_outcomes(passed=2)
    (book,) = wide_project.path.glob("bias_baselines/m/*.json")
    assert set(json.loads(book.read_text())["entries"]) == {"wide"}
    monkeypatch.setattr(SuiteItem, "_stands_for_all", False)
    result = wide_project.runpytest("--bias-suite=tiny-nli.yaml,wide.yaml", usual, "--bias-update-new")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*cannot judge (too weak): tiny-nli *"])


def test_a_suite_that_is_named_and_compared_is_a_gate(project: pytest.Pytester) -> None:
    models = model(project, "good", "a"), model(project, "filler", "b")
    result = project.runpytest(*NLI, *models, "--bias-no-worse-than=a")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["not judged: tiny-nli needs *; b is a masked LM; --bias-no-worse-than makes every suite *"]
    )


def test_a_suite_with_a_stored_baseline_is_a_gate(project: pytest.Pytester) -> None:
    stored = project.runpytest(*NLI, model(project, "good"), "--bias-update", "--bias-margin=0")
    stored.assert_outcomes(passed=1)
    book = next(project.path.glob("bias_baselines/m/*.json"))
    before = book.read_bytes()
    for flags in ((), ("--bias-update",)):
        result = project.runpytest(*NLI, model(project, "filler"), *flags)
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["not judged: tiny-nli needs *; its stored baseline makes it a gate; *"])
        assert book.read_bytes() == before, "what was not measured is not removed"


def test_the_short_ending_is_collected(project: pytest.Pytester) -> None:
    write_gate(project, name="g.bias.yml")
    project.runpytest(model(project, "filler")).assert_outcomes(passed=1)


def test_a_model_and_nothing_to_run_says_what_to_type_next(project: pytest.Pytester) -> None:
    result = project.runpytest(model(project, "good"))
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(["nothing measures m: add --bias-suite=all, *release.bias.yaml*"])
    project.makepyfile(test_other="def test_other(): pass")
    assert project.runpytest(model(project, "good")).ret == 0
    result = project.runpytest(model(project, "good"), "--bias-strict")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["ERROR bias - nothing measures m: *"])
    project.runpytest().stdout.no_fnmatch_line("*nothing measures*")


@pytest.mark.parametrize("strict", [(), ("--bias-strict",)])
@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n1", *UNASKED)])
def test_of_a_broken_gate_file_only_its_own_error_is_said(
    project: pytest.Pytester, workers: tuple[str, ...], strict: tuple[str, ...]
) -> None:
    project.path.joinpath("g.bias.yaml").write_text("gates: [{suite: ./tiny-nli.yaml, at_leats: 0.5}]\n")
    result = project.runpytest(model(project, "good"), *workers, *strict)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*at_leats*"])
    for line in ("*nothing measures*", "*nothing gates*", "*not read:*"):
        result.stdout.no_fnmatch_line(line)


WRONG_MARKERS = [
    ("optional=1", "'optional' of pytest.mark.bias should be true or false, got 1"),
    ('models="m"', "'models' of pytest.mark.bias should be a list of names, got 'm'"),
    ('owner=""', "'owner' of pytest.mark.bias should be a text, got ''"),
    ('decided="2026-02-30"', "'decided' of pytest.mark.bias should be a date as 2026-11-22, got '2026-02-30'"),
    ("option=True", "pytest.mark.bias takes because=, owner=, harm=, decided=, models=, optional=; got option"),
]


def test_a_wrong_marker_is_one_line(project: pytest.Pytester) -> None:
    for number, (mark, _) in enumerate(WRONG_MARKERS):
        project.makepyfile(**{f"test_{number}": PYTHON.format(mark=f"@pytest.mark.bias({mark})")})
    result = project.runpytest(model(project, "filler"))
    result.assert_outcomes(errors=len(WRONG_MARKERS))
    for number, (_, message) in enumerate(WRONG_MARKERS):
        result.stdout.fnmatch_lines([f"test_{number}.py::test_fills: {message}"])


def test_a_suite_whose_texts_are_too_long_for_a_model_is_skipped(project: pytest.Pytester) -> None:
    folder = project.path / "data" / "winobias"
    folder.mkdir(parents=True)
    music = "the music was good and " * 10
    for kind in (1, 2):
        for side, pronoun in (("pro", "he"), ("anti", "she")):
            line = f"1 [The developer] argued with the designer because {music}[{pronoun}] was ill.\n"
            folder.joinpath(f"{side}_stereotyped_type{kind}.txt.dev").write_text(line)
    result = project.runpytest("--bias-model=demo-lm", "--bias-suite=coref-winobias", "--bias-data=data", "-rs")
    result.assert_outcomes(skipped=1)
    reason = (
        "*two copies of a text are longer than the * tokens that demo-lm reads (*; --bias-option=scorer=edge-probe"
        " reads one copy"
    )
    result.stdout.fnmatch_lines([reason])
