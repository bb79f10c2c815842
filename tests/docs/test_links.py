"""Every link of a page, in the documentation and beside it, leads to a file of the repository, and to a heading that it
has.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    path for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")) if path.is_file()
]
_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")


def prose(page: Path) -> str:
    """Return the text of a page without its code."""
    return re.sub(r"^(`{3,}).*?^\1|`[^`\n]+`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return what a link to a heading of a page may say."""
    text = re.sub(r"^(`{3,}).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ +(.+?)\s*$", text, flags=re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


@pytest.mark.skipif(not (ROOT / "README.md").is_file(), reason="only the documentation is here, not what it links to")
def test_every_link_leads_somewhere() -> None:
    wrong, followed = [], 0
    for page in PAGES:
        for target, anchor in _LINK.findall(prose(page)):
            followed += 1
            path = (page.parent / target).resolve() if target else page
            generated = path.parent.name == "suites" and path.parent.parent.name == "reference"
            if not path.exists() and not generated:
                wrong.append(f"{page.relative_to(ROOT)}: no {target}")
            elif anchor and path.suffix == ".md" and path.exists() and anchor not in anchors(path):
                wrong.append(f"{page.relative_to(ROOT)}: {target} has no heading #{anchor}")
    assert not wrong
    assert followed > 50


@pytest.mark.skipif(not (ROOT / "pytest_genderbias").is_dir(), reason="the source that names pages is not here")
def test_every_page_that_a_message_or_a_suite_names_is_there() -> None:
    named = {
        (path.relative_to(ROOT).as_posix(), page)
        for folder in ("pytest_genderbias", "fixtures", "wordlists", "examples", "benchmarks", "scripts")
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in (".py", ".yaml", ".md", ".jinja")
        for page in re.findall(r"\bdocs/[a-z/_-]+\.md\b", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    assert not sorted(f"{file}: no {page}" for file, page in named if not (ROOT / page).is_file())


@pytest.mark.skipif(not (ROOT / "tests").is_dir(), reason="the tests that pages name are not here")
def test_every_test_that_a_page_names_is_there() -> None:
    named = {
        (page.name, *test)
        for page in PAGES
        for test in re.findall(r"\b(tests/[\w/]+\.py)::(\w+)", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 10
    assert not [
        f"{page}: no {test} in {file}"
        for page, file, test in named
        if not (ROOT / file).is_file() or f"def {test}(" not in (ROOT / file).read_text(encoding="utf-8")
    ]
