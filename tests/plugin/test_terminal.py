"""What a run shows on a terminal of 80, 100 and 160 columns, and in a file."""

from __future__ import annotations

import re

import pytest
from support.small_projects import model
from support.wide_suites import gates

from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.plugin.workers import _OF_FILES
from pytest_genderbias.reports.run_report import RunInfo, RunReport
from pytest_genderbias.reports.run_summary import summary_lines
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.text.columns import columns_of

COMMAND = re.compile(r"^(E  )? +pytest ")


@pytest.fixture(scope="module")
def widths() -> tuple[int, ...]:
    return (80, 100, 160)


def section_of(result: pytest.RunResult, title: str = "bias") -> list[str]:
    """Return the lines of a section."""
    start = next(i for i, line in enumerate(result.outlines) if re.fullmatch(f"=+ {title} =+", line))
    stop = next(i for i in range(start + 1, len(result.outlines)) if result.outlines[i].startswith("===="))
    return result.outlines[start + 1 : stop]


def too_long(lines: list[str], width: int) -> list[str]:
    """Return the lines that do not fit, except commands, which are to be copied."""
    return [line for line in lines if columns_of(line) > width and not COMMAND.match(line)]


def test_measuring_alone_fits_and_says_what_to_do_next(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, widths: tuple[int, ...]
) -> None:
    arguments = "--bias-suite=tiny-nli.yaml,tiny-disco.yaml,tiny-lm.yaml,weat,bios,ceat", model(project, "good")
    for width in widths:
        monkeypatch.setenv("COLUMNS", str(width))
        shown = section_of(project.runpytest(*arguments))
        assert not too_long(shown, width)
        assert "  next     write gates from what was measured:" in shown
        assert shown[-1] == "bias  1 measured, 0 gated: nothing here can fail yet · 5 not run"
        assert sum("not run" in line for line in shown) == 2
    detailed = section_of(project.runpytest(*arguments, "-v"))
    assert not too_long(detailed, width)
    assert any(line.startswith("not run on m: weat") for line in detailed)
    assert any("threshold_0.7" in line for line in detailed) and not any("slice" in line for line in detailed)
    assert any("slice: " in line for line in section_of(project.runpytest(*arguments, "-vv")))


def test_a_limit_and_a_baseline_fit_when_they_fail(
    wide_project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, widths: tuple[int, ...]
) -> None:
    gates(
        wide_project,
        "suite: ./wide.yaml, baseline: true, margin: 0.001, name: last-release",
        "suite: ./wide.yaml, at_least: 0.9",
        "suite: ./wide.yaml, at_least: 0.1",
    )
    wide_project.runpytest(model(wide_project, "usual"), "--bias-update-new", "-k", "baseline")
    for width in widths:
        monkeypatch.setenv("COLUMNS", str(width))
        result = wide_project.runpytest(model(wide_project, "bad"))
        shown = section_of(result)
        assert not too_long(shown, width)
        assert [line.split()[0] for line in shown if "net_neutral" in line] == [
            "last-release",
            "wide",
            "wide",
        ] or width in (100, 160)
        assert shown[-1] == "bias  1 limit broken · 1 worse · 1 passed"
        failures = [line for line in section_of(result, "FAILURES") if "g.bias.yaml:" not in line]
        assert not too_long(failures, width)


def test_a_file_has_100_columns_and_no_colours(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_genderbias.plugin.workers._OF_FILES", _OF_FILES)
    result = project.runpytest("--bias-suite=tiny-nli.yaml,weat", model(project, "good"), "-v")
    shown = section_of(result)
    assert not too_long(shown, 100) and max(map(len, shown)) > 80
    assert "\x1b" not in result.stdout.str()


def test_a_run_whose_tests_broke_does_not_pass_for_one_that_measured(project: pytest.Pytester) -> None:
    result = project.runpytest("--bias-suite=tiny-nli.yaml", model(project, "nan"))
    result.assert_outcomes(failed=1)
    assert section_of(result) == ["bias  1 failed without a verdict"]


def test_gates_are_proposed_only_where_a_suite_has_its_figure() -> None:
    def measured(value: float | None) -> Measurement:
        statistics = {"pearson_r": Statistic("higher", 0.0, "correlation")}
        signature: dict[str, dict[str, object]] = {"model": {}, "settings": {}, "sample": {}}
        reasons = {"pearson_r": "cannot do the task"}
        nothing = {"pearson_r": None}
        return Measurement(
            "winogender-chat", "m", {"pearson_r": value}, nothing, nothing, reasons, statistics, 9, 9, [], {}, signature
        )

    def shown(*values: float | None) -> str:
        report = RunReport(RunInfo("", ""), tuple(map(measured, values)))
        lines = summary_lines(report, 100, next="genderbias report run.json --to f")
        return "\n".join(text for text, _ in lines)

    assert "write gates from what was measured" not in shown(None)
    assert "write gates from what was measured" in shown(0.5)
