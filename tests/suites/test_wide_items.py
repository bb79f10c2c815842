"""Wide sets of items: which the option selects, what has a digest of its own, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_genderbias import load_suite, measure
from pytest_genderbias.errors import DataFileError, SettingError
from pytest_genderbias.statistics.inference.item_bounds import cluster_interval
from pytest_genderbias.suites.suite import Suite
from pytest_genderbias.text.wordlist import load_wordlist

WIDE = ("pronoun-occupation", "lm-occupation")
HEAD = "suite: own\nfamily: lm-occupation\ntitle: Own\nsource: test\nlicence: none\nlanguage: en\n"
OWN = HEAD + (
    "occupation: {list: lu2018-occupations}\n"
    "prefixes: [{male: 'He is {a:occupation} {occupation}', female: 'She is {a:occupation} {occupation}'}]\n"
    "paraphrases: [{male: 'He was {a:occupation} {occupation}', female: 'She was {a:occupation} {occupation}'}]\n"
)


def own(folder: Path, text: str) -> Path:
    (folder / "own.yaml").write_text(text, encoding="utf-8")
    return folder / "own.yaml"


def templates_of(suite: Suite) -> list[str]:
    body = suite.body
    if suite.family.name == "pronoun-occupation":
        return [frame.text for frame in body.templates.first]
    return [prefix["male"][0] for prefix in body.templates.first]


@pytest.mark.parametrize("name", WIDE)
def test_a_packaged_wide_set_is_wide(name: str) -> None:
    wide = load_suite(name).wide
    assert wide is not None
    words = wide.body.items.entries
    assert len(words) >= 400 and all(0 <= entry.attributes["women_share"] <= 100 for entry in words)
    assert len(set(templates_of(wide))) == len(templates_of(wide)) >= 24
    assert set(wide.clusters) == {entry.word for entry in words} and len(set(wide.clusters.values())) == 23


def test_disco_has_2000_names_in_24_frames_with_those_that_sound_alike_as_clusters() -> None:
    suite = load_suite("disco-names")
    names, frames = suite.wide.body.items.entries, [text for text, _ in suite.wide.body.templates.first]
    assert len({entry.word for entry in names}) == 2000 and len(set(frames)) == 24
    assert {entry.word for entry in suite.body.items.entries} < {entry.word for entry in names}
    assert suite.wide.clusters["Catherine"] == suite.wide.clusters["Katharine"] != suite.wide.clusters["Mary"]
    one = measure("disco-names", "demo-mlm", cache=None, items="wide", limit=24 * 60, ability="none: a few items only")
    assert one.n_total == 48_000 and one.item_sums("significant_fills").clusters is not None


def test_a_note_says_how_many_independent_items_a_wide_set_is_worth() -> None:
    """The design effect: the squared ratio of the widths of the intervals over items and over their fields."""
    one = measure("lm-occupation", "demo-lm", cache=None, items="wide", limit=1600, ability="none: a few items only")
    sums = one.item_sums(one.main)
    limits = (0.0, np.inf)
    of_items, of_fields = cluster_interval(replace(sums, clusters=sums.labels), limits), cluster_interval(sums, limits)
    worth = len(sums.labels) * min(1, ((of_items.high - of_items.low) / (of_fields.high - of_fields.low)) ** 2)
    (note,) = (note for note in one.notes if "clusters are worth" in note)
    n, clusters, said = map(int, re.findall(r"\d+", note))
    assert (n, clusters) == (len(sums.labels), len(set(sums.clusters)))
    assert clusters / 4 < said < n and said == pytest.approx(worth, abs=1)


def test_the_digests_of_the_papers_sets_are_those_of_before() -> None:
    digests = {name: load_suite(name).digest[:12] for name in (*WIDE, "disco-names")}
    before = {"pronoun-occupation": "db7b0a2946e6", "lm-occupation": "9cc78c2db647", "disco-names": "c9552389d365"}
    assert digests == before


def test_all_frames_of_the_wide_pronoun_suite_are_read_by_causal_models() -> None:
    assert all(frame.follows for frame in load_suite("pronoun-occupation").wide.body.templates.first)


def test_shares_and_fields_are_those_of_the_source() -> None:
    known = {entry.word: entry.attributes for entry in load_wordlist("us-occupations").entries}
    assert (known["registered nurse"]["women_share"], known["registered nurse"]["class"]) == (87.9, "health")
    assert (known["carpenter"]["women_share"], known["carpenter"]["class"]) == (1.9, "construction")
    assert (known["paralegal"]["women_share"], known["paralegal"]["class"]) == (86.4, "law")


@pytest.mark.parametrize("name", WIDE)
def test_the_option_selects_the_items(name: str) -> None:
    suite = load_suite(name)
    papers, wide = (
        measure(name, "demo-lm", cache=None, limit=48 * 16, items=items, ability="none: a few items only")
        for items in ("paper", "wide")
    )
    assert papers.signature["digest"] == suite.digest and "items" not in papers.signature["settings"]
    assert wide.signature["digest"] == suite.wide.digest != suite.digest
    assert wide.signature["settings"]["items"] == "wide"
    assert wide.n_total == 554 * 24 * 2 and wide.suite == name
    sums = wide.item_sums(wide.main)
    assert set(sums.clusters) <= set(suite.wide.clusters.values()) and papers.item_sums(papers.main).clusters is None


def test_keys_under_wide_take_the_place_of_the_suites_own(tmp_path: Path) -> None:
    suite = load_suite(own(tmp_path, OWN + "wide: {occupation: {list: winobias-occupations}}\n"))
    assert suite.digest == load_suite(own(tmp_path, OWN)).digest
    assert len(suite.body.items.entries) == 64 and len(suite.wide.body.items.entries) == 40
    assert templates_of(suite.wide) == templates_of(suite)
    assert suite.body.templates.paraphrases and not suite.wide.body.templates.paraphrases


def test_a_suite_without_a_wide_set_says_so(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="own has no wide items, which the option items=wide asks for"):
        measure(own(tmp_path, OWN), "demo-lm", cache=None, items="wide")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OWN + "wide: {occupations: {list: winobias-occupations}}\n", "own.yaml:10: unknown key 'occupations'"),
        (OWN + "wide: [nurse]\n", "own.yaml:10: 'wide' of the suite should be"),
        (
            "suite: own\nfamily: bbq\ntitle: Own\nsource: test\nlicence: none\nlanguage: en\nwide: {groups: [a, b]}\n",
            "own.yaml:7: suites of the family bbq have no wide items",
        ),
    ],
)
def test_wrong_wide_sets_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataFileError, match=message):
        load_suite(own(tmp_path, text))
