"""How much there is to read: the parts of the site for users, and the index of the part that has the evidence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
#: Words of the pages of the parts start, guides and reference, tables among them, as ``wc -w`` counts them. Not counted
#: are blocks of code, which are typed or copied, and what is made from code (``<!-- generated: NAME -->``, ``:::``).
MOST = 18_488

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the documentation is not here")


def words(page: Path) -> int:
    text = re.sub(r"^( *)```.*?^\1```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return len(re.sub(r"^:::.*$", "", text, flags=re.MULTILINE).split())


def test_start_guides_and_reference_can_be_read() -> None:
    pages = [
        DOCS / "index.md",
        *(page for part in ("start", "guides", "reference") for page in DOCS.glob(f"{part}/**/*.md")),
    ]
    counts = {str(page.relative_to(DOCS)): words(page) for page in pages}
    assert sum(counts.values()) <= MOST, (
        f"{sum(counts.values()):,} words in start, guides and reference, expected at most {MOST:,}: shorten a page, or"
        f" raise MOST with the reason; the longest: {sorted(counts.items(), key=lambda pair: -pair[1])[:5]}"
    )


def test_a_start_is_one_page_of_five_minutes_and_verdicts_are_a_screen() -> None:
    starts = sorted(DOCS.glob("start/*.md"))
    assert [page.stem for page in starts] == ["bert", "classifier", "nli", "product"]
    assert max(map(words, starts)) <= 300
    assert words(DOCS / "reference" / "verdicts.md") <= 400


def test_the_index_of_the_evidence_has_a_row_for_each_page() -> None:
    index = (DOCS / "evidence" / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[[^\]]+\]\(([\w-]+)\.md\) \|", index, flags=re.MULTILINE)
    assert sorted(rows) == sorted({page.stem for page in DOCS.glob("evidence/*.md")} - {"index"})
