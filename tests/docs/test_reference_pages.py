"""What the reference takes from code: it is complete, and each page names only what is generated."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from support.scripts import load_script

import pytest_genderbias
import pytest_genderbias.mitigation
from pytest_genderbias import load_suite, suite_names
from pytest_genderbias.gates import gate_file
from pytest_genderbias.gates.verdicts import REASONS, with_note
from pytest_genderbias.plugin.flags import FLAGS
from pytest_genderbias.reports.picture import Picture
from pytest_genderbias.text.schema import field_hints

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    module = load_script("reference_pages")
    module.PICTURES = module.PICTURES / "none"  # mkdocs draws them
    return module


def test_the_page_of_what_suites_see_has_a_row_for_every_suite_and_model() -> None:
    text = (ROOT / "docs" / "evidence" / "what-suites-see.md").read_text(encoding="utf-8")
    rows = [line.replace("|", " ").split()[:2] for line in text.splitlines() if line.startswith("| ")]
    models = load_script("what_suites_see").MODELS
    expected = sorted([suite, name] for name, _, suites in models for suite in suites.split())
    assert sorted(rows[1:]) == expected, "scripts/what_suites_see.py --write makes what lacks"


def test_every_packaged_suite_has_a_picture_with_its_finding() -> None:
    folder = ROOT / "docs" / "reference" / "suites" / "pictures"
    drawn = {path.stem for path in folder.glob("*.json")}
    lacking = sorted(set(suite_names()) - drawn)
    assert not lacking, f"scripts/suite_pictures.py --suites {' '.join(lacking)} makes what lacks"
    assert drawn == set(suite_names())
    for path in folder.glob("*.json"):
        picture = Picture.from_dict(json.loads(path.read_text(encoding="utf-8")))
        assert picture.suite == path.stem
        assert picture.alt


def test_every_suite_stands_under_one_kind_of_model_and_has_a_link(pages: ModuleType) -> None:
    assert sorted(name for names in pages.suites_by_kind().values() for name in names) == sorted(suite_names())
    tables = pages.suite_tables()
    assert all(f"({name}.md)" in tables for name in suite_names())
    assert [tables.count(f"| [`{name}`]") for name in ("weat", "ceat", "subspace", "weat-names")] == [1, 1, 1, 0]


def test_every_flag_has_a_row_of_two_cells(pages: ModuleType) -> None:
    table = pages.flags().splitlines()[2:]
    assert [re.search(r"--bias-[a-z-]+|bias_[a-z_]+", row)[0] for row in table] == [
        flag.name for flag in FLAGS.values()
    ]  # type: ignore[index]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 3 for row in table)


@pytest.mark.parametrize("name", suite_names())
def test_the_page_of_a_suite_has_all_that_is_known_of_it(pages: ModuleType, name: str) -> None:
    suite, page = load_suite(name), pages.suite_page(name)
    for statistic in suite.family.statistics:
        assert f"| `{statistic}`" in page
    for option in suite.family.options:
        assert f"| `{option}` |" in page
    assert suite.about.formula in page
    headings = re.findall("^## (.+)$", page, flags=re.MULTILINE)
    assert {"What the figure means", "What it does not mean", "Definition", "Limits and criticisms"} < set(headings)


def test_pages_name_only_what_is_generated(pages: ModuleType) -> None:
    named = {
        name
        for page in ROOT.glob("docs/**/*.md")
        for name in re.findall("<!-- generated: (.+?) -->", page.read_text(encoding="utf-8"))
    }
    assert named == set(pages.GENERATED)


def test_every_code_has_a_row(pages: ModuleType) -> None:
    lines = pages.codes().splitlines()
    for code in REASONS:
        assert sum(line.startswith(f"| `{with_note(code)}` | `{code}` |") for line in lines) == 1, code


def test_every_key_of_a_gate_is_described() -> None:
    page = (ROOT / "docs" / "reference" / "yaml.md").read_text(encoding="utf-8")
    table = page.partition("| key | value |")[2].partition("\n\n")[0]
    keys = {key for row in table.splitlines()[2:] for key in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert keys == set(field_hints(gate_file.GateEntry))


def test_every_public_name_is_described(pages: ModuleType) -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    described = {name.rpartition(".")[2] for name in re.findall(r"^::: (\S+)$", page, flags=re.MULTILINE)}
    described |= set(re.findall(r"^\| `(\w+)` \|", pages.exceptions(), flags=re.MULTILINE))
    assert not {*pytest_genderbias.__all__, *pytest_genderbias.mitigation.__all__} - described


def test_pictures_of_mitigations_show_the_stored_figures(pages: ModuleType) -> None:
    """The table of the same page has these means."""
    lasting = sys.modules["evidence_pictures"].lasting()
    assert "before 0.0407 at 0 to 0.12 at 1078 steps; after 0.0657 at 0 to 0.0146" in lasting.alt
    heads = sys.modules["evidence_pictures"].new_heads()
    assert "subsampling 0.585 to 1.62" in heads.alt
