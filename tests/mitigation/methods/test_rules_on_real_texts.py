"""What the rules for English get right on real texts: the figures of docs/evidence/mitigation-figures.md that belong to
no row.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_genderbias.mitigation.methods.anonymising import rule_entities
from pytest_genderbias.mitigation.words.grammar import is_possessive

_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*|<\w+>|``|''|--+|[^\w\s]")
_REACH = 12  #: words on either side that a rule is shown
PAGE = Path(__file__).parents[3] / "docs" / "evidence" / "mitigation-figures.md"


@pytest.fixture(scope="module")
def prose() -> str:
    if not PAGE.exists():
        pytest.skip("the docs are in the checkout only")
    return PAGE.read_text()


def read(path: Path) -> str:
    with gzip.open(path, "rt") as file:
        return file.read()


def paragraphs(data: Path) -> Iterator[str]:
    """Yield the texts: War and Peace, the validation part of WikiText-2, and BOLD's sentences on people and
    professions.
    """
    yield from re.split(r"\n\s*\n", read(data / "corpora" / "war_and_peace.txt.gz"))
    yield from read(data / "wikitext2" / "valid.txt.gz").split("\n")
    for part in ("gender", "profession"):
        groups = json.loads(read(data / "bold" / f"{part}_wiki.json.gz"))
        yield from (line for group in groups.values() for lines in group.values() for line in lines)


@pytest.mark.slow
def test_her_is_told_apart_where_it_stands_for_him_or_his(shared_data, prose):
    right, all_of = Counter(), Counter()
    for text in paragraphs(shared_data):
        words = _WORD.findall(text)
        for place, word in enumerate(words):
            if (pronoun := word.lower()) not in ("him", "his"):
                continue
            before, after = words[max(0, place - _REACH) : place], words[place + 1 : place + _REACH]
            her = "her" if word.islower() else "Her"
            all_of[pronoun] += 1
            right[pronoun] += is_possessive([*before, her, *after], len(before)) == (pronoun == "his")
    objects, possessives = (f"{100 * right[word] / all_of[word]:.1f} % of {all_of[word]:,}" for word in ("him", "his"))
    assert f"right for {objects} objects and {possessives} possessives" in prose


@pytest.mark.slow
def test_names_that_are_tagged_in_gap_are_found(shared_data, prose):
    with gzip.open(shared_data / "gap" / "gap-development.tsv.gz", "rt", newline="") as file:
        passages = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[:1000]
    found = 0
    for passage, entities in zip(passages, rule_entities([row["Text"] for row in passages]), strict=True):
        for name in ("A", "B"):
            start = int(passage[f"{name}-offset"])
            stop = start + len(passage[name])
            found += any(entity[0] <= start and stop <= entity[1] for entity in entities)
    assert f"the rules find {found:,} of {2 * len(passages):,} names" in prose
