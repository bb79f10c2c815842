"""Every snippet of the README and of the documentation, run from the top of its page to its end
(``support/snippets.py``).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from support.command_lines import type_command
from support.snippets import ROOT, Story, assert_printed, check_flags, commands, indented_commands, prepare, snippets

PAGES = {
    str(path.relative_to(ROOT)): path
    for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")))
    if path.is_file()
}
TEXTS = {name: path.read_text(encoding="utf-8") for name, path in PAGES.items()}
#: Pages that run in every test run. The others take seconds each: they run with -m slow, as .ci/run does, and are
#: checked in every run.
QUICK = ("README.md", "docs/guides/python.md")
_RUN = ("sh", "python", "pycon")


def tell(page: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    for alone in ("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "PYTEST_ADDOPTS"):  # a reader has the other plugins, too
        monkeypatch.delenv(alone, raising=False)
    prepare(pytester.path, TEXTS[page])

    def run(words: list[str]) -> tuple[str, int]:
        if words[0] == "genderbias":
            *words, file = words if words[-2] == ">" else [*words, ""]
            printed = type_command(pytester, monkeypatch, *(word for word in words[1:] if word != ">"))
            if file:
                (pytester.path / file).write_text(printed.out, encoding="utf-8")
                return printed.err, printed.status
            return f"{printed.out}{printed.err}", printed.status
        result = pytester.runpytest_inprocess(*words[1:])
        return "\n".join([*result.outlines, *result.errlines]), int(result.ret)

    story = Story(pytester.path, run)
    for snippet in snippets(TEXTS[page]):
        try:
            story.tell(snippet)
        except AssertionError as error:
            raise AssertionError(f"{page}:{snippet.line}: {error}") from None


@pytest.mark.skipif("README.md" not in PAGES, reason="the README is not part of what is tested here")
def test_the_readme_can_be_read_in_five_minutes() -> None:
    assert len(TEXTS["README.md"].split()) < 800


def runs(page: str) -> bool:
    return any(snippet.language in _RUN and snippet.not_run is None for snippet in snippets(TEXTS[page]))


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=() if page in QUICK else pytest.mark.slow) for page in PAGES if runs(page)]
)
@pytest.mark.usefixtures("ability_asked")
def test_the_snippets_of_a_page_run(page: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    tell(page, pytester, monkeypatch)


@pytest.mark.slow
@pytest.mark.skipif("README.md" not in PAGES, reason="the README is not part of what is tested here")
@pytest.mark.usefixtures("ability_asked")
def test_the_first_command_of_the_readme_prints_what_it_shows(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``README_PRINTED`` names a file of what it printed at a width of 100, where it was run already."""
    shown = next(snippet.text for snippet in snippets(TEXTS["README.md"]) if snippet.text.startswith("demo-mlm"))
    if "README_PRINTED" in os.environ:
        printed = Path(os.environ["README_PRINTED"]).read_text(encoding="utf-8")
    else:
        monkeypatch.setenv("COLUMNS", "100")
        pytester.copy_example(str(ROOT / "examples" / "quickstart"))
        typed = re.search(r"cd examples/quickstart && \S+ -m pytest ([^)]+)\)", TEXTS["README.md"])
        assert typed is not None
        printed = "\n".join(pytester.runpytest_inprocess(*typed[1].split()).outlines)
    assert_printed(shown, printed)


def test_what_is_not_run_is_checked(tmp_path: Path) -> None:
    """Languages are parsed, gates are read, and every flag exists, on each page, whether or not the page also runs."""
    checked = 0
    for text in TEXTS.values():
        story = Story(tmp_path, lambda words: pytest.fail(f"{words} ran"))
        for snippet in snippets(text):
            if snippet.not_run is not None:
                checked += 1
                story.tell(snippet)
            elif snippet.language == "sh":
                for words in commands(snippet.text):
                    check_flags(words)
        for words in indented_commands(text):
            checked += 1
            check_flags(words)
    assert checked > 10
