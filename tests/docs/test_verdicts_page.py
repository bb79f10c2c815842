"""The page of codes has every code, with its verdict and the words of earlier versions."""

from __future__ import annotations

from pathlib import Path

from pytest_genderbias.gates.verdicts import EARLIER_VERDICTS, REASONS, with_note

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "codes.md"


def test_the_page_has_every_code_with_its_earlier_words() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for code in REASONS:
        row = next((line for line in lines if line.startswith(f"| `{with_note(code)}` | `{code}` |")), "")
        assert row, f"{PAGE.name} has no row for {code}"
        assert all(f"`{word}`" in row for word, known in EARLIER_VERDICTS.items() if known == code), row
