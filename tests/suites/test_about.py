"""What the suites say of themselves: every family, and the words of a suite's own."""

import re
import shutil
from collections import Counter
from dataclasses import asdict

import pytest

from pytest_genderbias import load_suite
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.suites.family import read_about
from pytest_genderbias.suites.suite import FAMILIES, load_family, suite_names
from pytest_genderbias.text import packaged
from pytest_genderbias.text.located_yaml import read_yaml


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_family_says_what_it_asks(name):
    assert load_family(name).name == name
    about = load_family(name).about
    texts = {key: text for key, text in asdict(about).items() if key not in ("criticisms", "kind", "keys")}
    assert all(text.strip() == text and len(text) > 40 for text in texts.values())
    assert len(re.findall(r"[.?](?= |$)", about.question.replace(".'", "'"))) == 2, "two sentences"
    assert about.question.count("?") == 1
    assert not re.search(r"[<>]|\*\*|`|\\", about.question + about.reads + about.does_not_mean), "plain text"


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_criticism_names_author_year_title_and_venue(name):
    criticisms = load_family(name).about.criticisms
    assert criticisms
    for criticism in criticisms:
        assert re.fullmatch(r".+ (19|20)\d\d, .+, [\w ,*]+", criticism.source), criticism.source
        assert str(criticism) == f"{criticism.text} ({criticism.source})"


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_family_describes_its_keys(name):
    described = load_family(name).about.keys
    assert set(load_family(name).keys) <= set(re.findall("`(.*?)`", described))
    assert bool(load_family(name).keys) == (described != "none")


def test_no_two_packaged_suites_ask_the_same():
    asked = Counter(load_suite(name).about.question for name in suite_names())
    twice = [name for name in suite_names() if asked[load_suite(name).about.question] > 1]
    assert not twice, f"all but one of {twice} need a question of their own under 'about'"


def test_the_paper_is_the_source_of_the_suite():
    suite = load_suite("weat-religion")
    assert suite.about.paper == suite.source != suite.family.about.paper
    assert suite.about.reads == suite.family.about.reads


def own_suite(tmp_path, about):
    text = packaged.locate("fixtures", "lm-occupation").read_text(encoding="utf-8")
    path = tmp_path / "own.yaml"
    path.write_text(text.replace("suite: lm-occupation", "suite: own") + about, encoding="utf-8")
    return path


def test_a_suite_of_ones_own_may_say_it_in_its_own_words(tmp_path):
    plain, worded = load_suite(own_suite(tmp_path, "")), load_suite(own_suite(tmp_path, "about: {question: Why?}\n"))
    assert worded.about.question == "Why?"
    assert worded.about.reads == plain.about.reads
    assert worded.digest == plain.digest, "words for the reader change no score"


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ("about: {papers: none}\n", "unknown key 'papers'"),
        ("about: {question: 3}\n", "'question' of 'about' of a suite should be a text"),
        ("about: none\n", "'about' of the suite should be a mapping"),
        ("about: {reads: ''}\n", "is empty"),
    ],
)
def test_words_that_are_none_are_refused(tmp_path, about, message):
    with pytest.raises(DataFileError, match=message):
        load_suite(own_suite(tmp_path, about))


def test_there_is_a_file_of_words_for_each_family_and_each_shared_criticism_is_used():
    folder = packaged.folder("fixtures") / "about"
    assert {path.stem for path in folder.glob("*.yaml")} == {*FAMILIES, "literature"}
    shared = read_yaml(folder / "literature.yaml")
    texts = {criticism.text for family in map(load_family, FAMILIES) for criticism in family.about.criticisms}
    assert {entry["text"] for entry in shared.values()} <= texts


@pytest.mark.parametrize(
    ("entry", "message"),
    [("unknown", "'unknown' is not in literature.yaml"), ("{text: a}", "the criticism has no 'source'")],
)
def test_criticisms_that_are_none_are_refused(tmp_path, monkeypatch, entry, message):
    shutil.copytree(packaged.folder("fixtures") / "about", tmp_path / "about")
    path = tmp_path / "about" / "disco.yaml"
    words = path.read_text(encoding="utf-8").replace("  - rulers\n", f"  - {entry}\n")
    path.write_text(words, encoding="utf-8")
    monkeypatch.setattr(packaged, "folder", lambda name: tmp_path)
    with pytest.raises(DataFileError, match=message):
        read_about.__wrapped__("disco")
