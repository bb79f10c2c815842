"""``genderbias show``: the page of a suite, for every packaged suite, and for one of one's own."""

from __future__ import annotations

import pytest
from support.command_lines import SHOWS

from pytest_genderbias import load_suite
from pytest_genderbias.measurement.fit import example_cases
from pytest_genderbias.reports.suite_page import show_suite, word_lists
from pytest_genderbias.suites.suite import suite_names
from pytest_genderbias.text import packaged

SECTIONS = (
    "what it asks", "some of its cases", "what the figure means", "what it does not mean", "definition", "statistics",
    "picture", "what the literature says", "cost", "paper", "licence",
)  # fmt: skip


@pytest.mark.parametrize("name", suite_names())
def test_every_suite_has_a_page_that_fits_the_terminal(name: str) -> None:
    suite = load_suite(name)
    page = show_suite(suite, example_cases(suite, None, most=3), 80)
    lines = page.splitlines()
    assert [title for title in SECTIONS if not any(line.startswith(title) for line in lines)] == []
    assert [line for line in lines if len(line) > 80 and " " in line.strip()] == []
    assert all(f"\n  {statistic} " in page for statistic in suite.family.statistics)
    assert all(f"\n  {option} " in page for option in suite.family.options)


def test_ten_cases_are_evenly_spaced() -> None:
    cases = example_cases(load_suite("nli-occupation"))
    assert len(cases) == 10
    assert cases[0].startswith("The accountant ") and cases[-1].startswith("The zoologist ")


def test_word_lists_are_those_that_the_file_names() -> None:
    names = [one.name for one in word_lists(load_suite("corpus-cooccurrence"))]
    assert names == ["bordia2019-wikitext-2", "stop-words", "winogender-occupations", "lu2018-occupations"]


def test_the_page_is_printed_and_nothing_runs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    pytester.makepyfile("def test_nothing(): assert False")
    result = pytester.runpytest(*SHOWS, "--bias-show=lm-occupation,bios")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "lm-occupation: Occupations after a gendered prefix",
            "  He is an accountant",
            "bios: *",
            "*name the folder with --bias-data*",
        ]
    )
    result.stdout.no_fnmatch_line("*test session starts*")


def test_a_suite_of_ones_own_shows_its_own_list(pytester: pytest.Pytester) -> None:
    pytester.makefile(
        ".yaml",
        jobs="list: jobs\ntitle: My jobs\nsource: s\nlicence: l\nlanguage: en\nentries: [{word: smith}, {word: nun}]\n",
    )
    own = (packaged.folder("fixtures") / "lm-occupation.yaml").read_text(encoding="utf-8")
    own = own.replace("suite: lm-occupation", "suite: own").replace("lu2018-occupations", "./jobs.yaml")
    (pytester.path / "own.yaml").write_text(own + "about: {question: Do smiths surprise it?}\n", encoding="utf-8")
    result = pytester.runpytest(*SHOWS, "--bias-show=own.yaml")
    result.stdout.fnmatch_lines(["  Do smiths surprise it?", "  * a smith", "  jobs *2 words *My jobs; l"])


def test_an_unknown_suite_is_a_usage_error(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest(*SHOWS, "--bias-show=no-such")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: genderbias show: no suite 'no-such'*"])
