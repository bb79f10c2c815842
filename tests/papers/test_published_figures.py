"""The configs beside the texts of the papers: every table and figure has a row, and every published figure is there."""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain
from types import SimpleNamespace

import pytest

from pytest_genderbias.papers.config import SMALL, load_paper, paper_names, run_of
from pytest_genderbias.papers.shown import pages

#: What has no figures; the front page says so, too.
WITHOUT_FIGURES = {
    "lu2018": {"table-1"},
    "bordia2019": {"figure-1", "table-4"},
    "webster2020": {"table-1"},
    "orgad2022": {"figure-1", "figure-2"},
}
#: Figures whose numbers do not follow each other in the text; nor do those of dev2019, whose tables are in pieces.
IN_PIECES = {"figure-1"}
NUMBER = re.compile(r"[+-]? ?(?:\d+\.\d+|\d+(?=%))")
#: Two or more numbers side by side or below each other, as tables have them and sentences do not.
OF_A_TABLE = re.compile(r"(?:(?<![\w.])[+-]? ?(?:\d+\.\d+|\d+(?=%))%?[\s±*]*){2,}")


@pytest.fixture
def text_of(shared_data):
    folder = shared_data.parent / "papers"
    if not folder.is_dir():
        pytest.skip(f"the texts of the papers are not in {folder}")
    files = dict(re.findall(r"^\| (\w+) \| (\S+\.txt) \|", (folder / "README.md").read_text(encoding="utf-8"), re.M))
    return lambda paper: (folder / files[paper]).read_text(encoding="utf-8")


def numbers(text):
    return [float(number.replace(" ", "")) for number in NUMBER.findall(text)]


def published(paper):
    """Each figure of a paper with its table, and the numbers of its text: the figure, and its deviation if it has
    one.
    """
    for table in load_paper(paper).tables.values():
        for row, column in ((row, column) for row, cells in table.rows.items() for column in cells):
            text, ours = table.rows[row][column]
            if text is not None:
                figure = SimpleNamespace(row=row, column=column, text=text, ours=ours)
                yield table, figure, [float(part) for part in text.split("±")]


@pytest.mark.parametrize("paper", paper_names())
def test_every_table_and_figure_that_a_paper_names_has_a_page_or_no_figures(paper, text_of):
    named = {f"{kind.lower()}-{name}" for kind, name in re.findall(r"\b(Table|Figure)s?\s+(\d+[ab]?)", text_of(paper))}
    ours = {*load_paper(paper).tables, *WITHOUT_FIGURES.get(paper, ())}
    assert len(named) > 5
    assert {name if name in ours else name.rstrip("ab") for name in named} == ours
    front = pages({})["index.md"].replace("\n", " ")
    assert all(f"{paper}'s {name.partition('-')[0]}" in front for name in sorted(WITHOUT_FIGURES.get(paper, ()))[:1])


@pytest.mark.parametrize("paper", paper_names())
def test_every_published_figure_of_a_config_is_in_the_text(paper, text_of):
    """The figures of a row, or of a column, follow each other in the text."""
    text, rows = text_of(paper), {}
    stream = numbers(text)
    for table, figure, values in published(paper):
        if figure.row == "Parameters (M)":  # whole numbers
            assert f"\t{figure.text}" in text
            continue
        assert set(values) <= set(stream), f"{table.name}: {figure.row}, {figure.column}"
        for place in ("row", "column"):
            rows.setdefault(table.name, {}).setdefault(place, {}).setdefault(getattr(figure, place), []).extend(values)
    for table, places in rows.items() if paper != "dev2019" else ():
        missing = [
            [name for name, v in lines.items() if written(v) not in written(stream)] for lines in places.values()
        ]
        assert not all(missing) or table in IN_PIECES, f"{table}: {missing}"


def written(values):
    return f" {' '.join(map(str, values))} "


@pytest.mark.parametrize("paper", paper_names())
def test_every_figure_of_a_table_in_the_text_is_in_a_config(paper, text_of):
    text, tables = text_of(paper), load_paper(paper).tables.values()
    said = " ".join(line for table in tables for line in table.differs if "are not listed: " in line)
    for word in re.findall(r"\w+", " ".join(re.findall(r"are not listed: ([^.]*)", said))):
        text = re.sub(rf"^{word}(?: -?\d\.\d\d)+$", "", text, flags=re.M)
    names = " ".join(f"{figure.row} {figure.column}" for _, figure, _ in published(paper))
    labels = {number.strip() for number in NUMBER.findall(names)}
    printed = Counter(
        float(number.replace(" ", ""))
        for run in OF_A_TABLE.findall(text)
        for number in NUMBER.findall(run)
        if number.strip() not in labels
    )
    assert not printed - Counter(chain.from_iterable(values for _, _, values in published(paper)))


@pytest.mark.parametrize("paper", paper_names())
def test_a_published_figure_has_a_small_run_or_its_table_says_why_not(paper):
    runs = load_paper(paper).runs
    for table, figure, _ in published(paper):
        has_run = figure.ours is not None and SMALL in runs[run_of(figure.ours)].scales
        follows = "change" in figure.row.lower()  # from the rows above it, as the front page says
        assert has_run or follows or table.needs or table.differs, f"{table.name}: {figure.row}, {figure.column}"


@pytest.mark.parametrize("paper", paper_names())
def test_a_claim_names_the_section_of_the_paper_that_makes_it(paper, text_of):
    text = text_of(paper)
    sections = {claim.section for table in load_paper(paper).tables.values() for claim in table.claims}
    assert sections and "" not in sections
    for section in sections:
        heading = rf"^{section} [A-Z]\w" if section[0].isdigit() else rf"(?:^|\s){re.escape(section)}(?=[\s.])"
        assert re.search(heading, text, re.M), section
