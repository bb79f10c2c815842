"""Word lists: the packaged ones, every rule of the loader, and lists of one's own."""

import os
from collections import Counter
from itertools import pairwise

import pytest
import yaml

from pytest_genderbias import load_wordlist
from pytest_genderbias.errors import DataFileError, UnknownNameError
from pytest_genderbias.text import located_yaml, packaged
from pytest_genderbias.text.located_yaml import read_yaml
from pytest_genderbias.text.schema import LocatedMap

#: Words, and the parts that the definitions count: attribute, value, number.
COUNTS = {
    "ages": (15, [("group", name, 5) for name in ("young", "middle", "old")]),
    "bordia2019-cnn-dailymail": (55, []),
    "bordia2019-penn-treebank": (29, []),
    "bordia2019-wikitext-2": (90, []),
    "caliskan2017-career-family": (32, [("set", name, 8) for name in ("male names", "female names", "career",
                "family")]),
    "caliskan2017-math-arts": (32, [("set", name, 8) for name in ("math", "arts", "male terms", "female terms")]),
    "caliskan2017-pleasant": (16, [("set", "pleasant", 8), ("set", "unpleasant", 8)]),
    "caliskan2017-science-arts": (32, [("set", name, 8) for name in ("science", "arts", "male terms", "female terms")]),
    "dev2019-adherents": (25, [("split", "train", 8), ("split", "test", 17)]),
    "dev2019-countries": (39, []),
    "dev2019-demonyms": (40, [("split", "train", 8), ("split", "test", 32)]),
    "dev2019-gendered": (18, [("group", "male", 9), ("group", "female", 9)]),
    "dev2019-gendered-test": (6, [("group", "male", 3), ("group", "female", 3)]),
    "dev2019-objects": (95, [("class", "vehicle", 9), ("class", "food", 22)]),
    "dev2019-occupations": (164, []),
    "dev2019-person-hyponyms": (23, []),
    "dev2019-polarity": (25, []),
    "dev2019-rulers": (66, []),
    "dev2019-verbs": (27, [("class", "commerce", 10), ("class", "interaction", 10), ("class", "driving", 2),
            ("class", "eating", 5)]),
    "disabilities": (15, [("group", name, 3) for name in ("hearing", "sight", "movement", "mind", "no disability")]),
    "her-his-context": (806, []),
    "labour-shares": (13, []),
    "lu2018-occupations": (64, []),
    "lu2018-pairs": (254, []),
    "names-de": (16, [("group", "male", 8), ("group", "female", 8)]),
    "names-es": (16, [("group", "male", 8), ("group", "female", 8)]),
    "names-fr": (16, [("group", "male", 8), ("group", "female", 8)]),
    "names-us": (1000, [("group", "male", 500), ("group", "female", 500)]),
    "names-us-origin": (64, [("group", f"{o} {g}", 8) for o in ("white", "black", "hispanic", "asian")
            for g in ("female", "male")]),
    "names-us-wide": (2000, [("group", "male", 1000), ("group", "female", 1000)]),
    "neutral-persons": (10, [("group", "neutral", 10)]),
    "occupations-de": (96, []),
    "occupations-es": (77, []),
    "occupations-fr": (84, []),
    "occupations-it": (70, []),
    "ordinary-names": (118, [("class", "word", 83), ("class", "month", 3), ("class", "place", 32)]),
    "pronouns": (9, [("group", "male", 1), ("group", "female", 1), ("group", "neutral", 1), ("group", "neo", 6)]),
    "refusals-de": (21, []),
    "refusals-en": (71, []),
    "refusals-es": (22, []),
    "refusals-fr": (17, []),
    "refusals-it": (29, []),
    "sentiment-words": (346, [("class", "positive", 160), ("class", "negative", 186)]),
    "stop-words": (260, []),
    "us-occupations": (554, [("class", "health", 31), ("class", "office", 63)]),
    "winobias-occupations": (40, [("group", "male", 20), ("group", "female", 20)]),
    "winogender-occupations": (60, []),
    "zhao2018-pairs": (251, []),
}  # fmt: skip
PAIR_LISTS = (
    "bordia2019-cnn-dailymail",
    "bordia2019-penn-treebank",
    "bordia2019-wikitext-2",
    "lu2018-pairs",
    "zhao2018-pairs",
)


def words(name, **where):
    return [entry.word for entry in load_wordlist(name).select(where)]


def test_every_packaged_list_is_counted_here():
    assert packaged.names("wordlists") == sorted(COUNTS)


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_packaged_lists_load_with_their_counts(name):
    loaded = load_wordlist(name)
    total, parts = COUNTS[name]
    assert len(loaded.entries) == total
    assert len({entry.word for entry in loaded.entries}) == total
    for attribute, value, number in parts:
        assert len(loaded.select({attribute: value})) == number
    assert loaded.title
    assert loaded.source
    assert loaded.licence
    assert loaded.language == (name[-2:] if name[-3:] in ("-de", "-en", "-es", "-fr", "-it") else "en")


@pytest.mark.parametrize("name", PAIR_LISTS)
def test_partners_are_of_the_other_group_and_of_the_list(name):
    entries = {entry.word: entry for entry in load_wordlist(name).entries}
    for entry in entries.values():
        partner = entries[entry.attributes["partner"]]
        assert {partner.attributes["group"], entry.attributes["group"]} == {"female", "male"}


def test_what_the_definitions_say_of_dev2019():
    objects, verbs = load_wordlist("dev2019-objects"), words("dev2019-verbs")
    assert words("dev2019-objects", **{"class": "vehicle"}) == [
        "auto",
        "bus",
        "car",
        "cart",
        "jeep",
        "SUV",
        "train",
        "van",
        "wagon",
    ]
    assert set(words("dev2019-verbs", **{"class": "eating"})) == {"ate", "consumed", "finished", "cooked", "prepared"}
    assert {"budgeted for", "can afford", "paid for", "spoke to"} <= set(verbs)
    assert not {"chicken", "duck", "lamb"} & {e.word for e in objects.select({"class": "food"})}
    assert {"actor", "waiter"} <= set(words("dev2019-occupations"))
    assert len(set(words("dev2019-occupations")) & set(words("dev2019-rulers"))) == 16
    assert not set(words("dev2019-objects")) & {*words("dev2019-rulers"), *words("dev2019-person-hyponyms")}
    assert not set(words("dev2019-demonyms", split="train")) & set(words("dev2019-demonyms", split="test"))
    assert words("dev2019-polarity").count("terrible") == 1


def test_what_the_definitions_say_of_lu2018():
    pairs = load_wordlist("lu2018-pairs")
    printed = [entry for entry in pairs.entries if not entry.attributes.get("added")]
    assert len(printed) == 2 * 124
    assert {"him", "his", "her", "hers", "himself", "herself"} <= {
        e.word for e in pairs.entries if e.attributes.get("added")
    }
    assert sum(" " in word for word in words("lu2018-occupations")) == 5
    assert words("lu2018-occupations").count("attorney") == 1
    assert not {e.word for e in printed} & set(words("lu2018-occupations"))
    partner = {e.word: e.attributes["partner"] for e in pairs.entries}
    assert (partner["him"], partner["his"], partner["he"]) == ("her", "her", "she")
    assert (partner["lady"], partner["ladies"]) == ("gentleman", "lords")
    assert "fiancée" in partner


def test_spouses_are_mended_in_bordia2019():
    for name in PAIR_LISTS[:3]:
        group = {e.word: e.attributes["group"] for e in load_wordlist(name).entries}
        assert (group["wife"], group["husband"]) == ("female", "male")


def test_names_are_more_than_four_fifths_of_one_gender_and_in_order_of_count():
    for group in ("female", "male"):
        entries = load_wordlist("names-us").select({"group": group})
        counts = [entry.attributes["count"] for entry in entries]
        assert counts == sorted(counts, reverse=True)
        assert all(0.8 < entry.attributes["share"] <= 1 for entry in entries)


# Rules of the loader: a broken file gives one error that names file and line.

HEAD = ["list: own", "title: Own", "source: test", "licence: none", "language: en"]
ENTRIES = [*HEAD, "entries:"]
PAIRS = [*HEAD, "groups: [male, female]", "pairs:"]
TABLE = [*HEAD, "columns: [word, group, count]", "rows:"]

BROKEN = {
    "unknown key": ([*HEAD, "colour: red", "entries: [a]"], 6, "unknown key 'colour'"),
    "duplicate key": ([*HEAD, "title: Again", "entries: [a]"], 6, "duplicate key 'title'"),
    "duplicate key in an entry": ([*ENTRIES, "  - {word: a, group: x, group: y}"], 7, "duplicate key 'group'"),
    "key that is no text": ([*HEAD, "7: x", "entries: [a]"], 6, "expected a text as key, got 7"),
    "key that YAML reads as no": ([*HEAD, "no: x", "entries: [a]"], 6, "expected a text as key, got False"),
    "not the file's name": (["list: other", *HEAD[1:], "entries: [a]"], 1, "expected the file's name 'own'"),
    "no title": ([HEAD[0], *HEAD[2:], "entries: [a]"], 1, "has no 'title'"),
    "empty title": ([HEAD[0], "title: ''", *HEAD[2:], "entries: [a]"], 2, "'title' of the word list is empty"),
    "title that is a number": ([HEAD[0], "title: 7", *HEAD[2:], "entries: [a]"], 2,
        "should be a text, got a whole number"),
    "source that is nothing": ([*HEAD[:2], "source:", *HEAD[3:], "entries: [a]"], 3, "should be a text, got nothing"),
    "language no": ([*HEAD[:4], "language: no", "entries: [a]"], 5, "should be a text, got true or false"),
    "no body": (HEAD, 1, "expected 'entries'"),
    "two bodies": ([*ENTRIES, "  - a", "groups: [x, y]", "pairs: [[c, d]]"], 1, "got entries, groups, pairs"),
    "columns without rows": ([*HEAD, "columns: [word]"], 1, "got columns"),
    "entries that are a text": ([*HEAD, "entries: a"], 6, "should be a list, got a text"),
    "no entries": ([*HEAD, "entries: []"], 6, "'entries' of the word list is empty"),
    "duplicate word": ([*ENTRIES, "  - a", "  - b", "  - a"], 9, "'a' is listed twice (first on line 7)"),
    "empty word": ([*ENTRIES, "  - a", "  - ''"], 8, "expected a word"),
    "blank word": ([*ENTRIES, "  - a", "  - '  '"], 8, "expected a word"),
    "nothing where a word is": ([*ENTRIES, "  - a", "  -"], 8, "expected a word"),
    "word that YAML reads as no": ([*ENTRIES, "  - a", "  - no"], 8, "put it in quotes"),
    "word that YAML reads as a number": ([*ENTRIES, "  - 1984"], 7, "put it in quotes"),
    "word that YAML reads as nothing": ([*ENTRIES, "  - null"], 7, "put it in quotes"),
    "entry without word": ([*ENTRIES, "  - {group: x}"], 7, "a mapping with 'word'"),
    "entry that is a list": ([*ENTRIES, "  - [a, b]"], 7, "expected a word"),
    "unknown attribute": ([*ENTRIES, "  - {word: a, colour: red}"], 7, "unknown attribute 'colour'"),
    "attribute of the wrong type": ([*ENTRIES, "  - {word: a, women_share: many}"], 7,
        "'women_share' cannot be 'many'"),
    "noun that is a text": ([*ENTRIES, "  - {word: a, noun: 'yes'}"], 7, "'noun' cannot be 'yes'"),
    "article that YAML reads as no": ([*ENTRIES, "  - {word: a, article: no}"], 7, "'article' cannot be False"),
    "count that YAML reads as yes": ([*ENTRIES, "  - {word: a, count: yes}"], 7, "'count' cannot be True"),
    "share that YAML reads as yes": ([*ENTRIES, "  - {word: a, women_share: yes}"], 7, "'women_share' cannot be True"),
    "word in two groups": ([*PAIRS, "  - [him, her]", "  - [his, her]"], 9, "'her' is listed twice"),
    "word on both sides": ([*PAIRS, "  - [nurse, nurse]"], 8, "'nurse' is listed in two groups, male and female"),
    "word in two groups of entries": (
        [*ENTRIES, "  - {word: a, group: x}", "  - {word: a, group: y}"], 8, "'a' is listed in two groups, x and y",
    ),
    "pair of one": ([*PAIRS, "  - [king, queen]", "  - [king]"], 9, "expected"),
    "pair of three": ([*PAIRS, "  - [a, b, c]"], 8, "expected"),
    "pair without one group": ([*PAIRS, "  - {male: king}"], 8, "female"),
    "pair with an empty side": ([*PAIRS, "  - {male: king, female: []}"], 8, "king"),
    "pair with an empty word": ([*PAIRS, "  - {male: king, female: ''}"], 8,
        "expected one word for each of male, female"),
    "pair with no": ([*PAIRS, "  - [yes, no]"], 8, "expected one word for each of male, female"),
    "pair with no among several": ([*PAIRS, "  - {male: [king, no], female: queen}"], 8, "put it in quotes"),
    "pair that is a word": ([*PAIRS, "  - king"], 8, "expected"),
    "pair with an unknown attribute": ([*PAIRS, "  - {male: king, female: queen, colour: red}"], 8,
        "unknown attribute 'colour'"),
    "several partners without default": ([*PAIRS, "  - {male: [him, his], female: her}"], 8,
        "'her' has several partners (him, his)"),
    "default that is no partner": (
        [*PAIRS, "  - {male: [him, his], female: her, default: {her: he}}"], 8, "'her' has several partners",
    ),
    "default that is a text": ([*PAIRS, "  - {male: king, female: queen, default: x}"], 8,
        "expected a mapping from words to partners in 'default', got 'x'"),
    "by_pos that is a number": ([*PAIRS, "  - {male: king, female: queen, by_pos: 7}"], 8, "in 'by_pos', got 7"),
    "word on both of many sides": ([*PAIRS, "  - {male: [a, b], female: [a]}"], 8, "'a' is listed in two groups"),
    "group that is a list": ([*HEAD, "groups: [male, [female]]", "pairs: [[a, b]]"], 6,
        "should be a list of texts, got a list"),
    "duplicate group": ([*HEAD, "groups: [male, male]", "pairs: [[a, b]]"], 6, "duplicate group"),
    "column that is a list": ([*HEAD, "columns: [word, [group]]", "rows: [[a, b]]"], 6,
        "should be a list of texts, got a list"),
    "duplicate column": ([*HEAD, "columns: [word, word]", "rows: [[a, b]]"], 6, "duplicate column"),
    "class with a mapping": ([*ENTRIES, "  - {word: a, class: [{b: c}]}"], 7,
        "attribute 'class' cannot be [{'b': 'c'}]"),
    "row too short": ([*TABLE, "  - [a, x, 1]", "  - [b, x]"], 9,
        "expected a row of 3 values (word, group, count), got 2"),
    "row that is no list": ([*TABLE, "  - a"], 8, "expected a row of 3 values"),
    "row with a wrong type": ([*TABLE, "  - [a, x, many]"], 8, "'count' cannot be 'many'"),
    "duplicate row": ([*TABLE, "  - [a, x, 1]", "  - [a, x, 2]"], 9, "'a' is listed twice (first on line 8)"),
    "row with no": ([*TABLE, "  - [no, x, 1]"], 8, "put it in quotes"),
    "unknown column": ([*HEAD, "columns: [word, colour]", "rows:", "  - [a, red]"], 8, "unknown attribute 'colour'"),
    "no YAML": ([*ENTRIES, "  - [a, b"], 8, "not valid YAML"),
    "tab": ([*ENTRIES, "\t- a"], 7, "not valid YAML: a tab; indent with spaces"),
    "decimal comma": ([*ENTRIES, "  - {word: a, share: 0,3}"], 7, "a decimal comma is a point in YAML"),
    "unknown tag": ([*ENTRIES, "  - !!python/name:os.getcwd ''"], 7, "not valid YAML"),
    "tag that would run code": ([*ENTRIES, "  - !!python/object/apply:os.getcwd []"], 7,
        "expected no explicit tag, got '!!python"),
    "tag on what it does not fit": ([*ENTRIES, "  - !!timestamp x"], 7,
        "expected no explicit tag, got '!!timestamp'; remove it"),
    "tag on a key": ([*HEAD, "!!bool x: 1"], 6, "expected no explicit tag, got '!!bool'"),
    "tag on nothing": ([*HEAD, "entries: ! a"], 6, "expected no explicit tag, got '!'"),
    "merge key": ([*HEAD, "attributes: {<<: {region: x}}"], 6,
        "merge keys ('<<') are not read; write the keys that they stand for out"),
    "key that is a list": ([*HEAD, "[a]: b"], 6, "expected a text as key, got a list"),
    "alias without anchor": ([*ENTRIES, "  - *a"], 7, "has no anchor"),
    "anchor twice": ([*ENTRIES, "  - &a a", "  - &a b"], 8, "duplicate anchor 'a'"),
    "time": ([*ENTRIES, "  - {word: a, count: 1:30}"], 7, "without ':' or leading zeros, got '1:30'"),
    "time with a point": ([*ENTRIES, "  - {word: a, share: 1:30.5}"], 7, "finite decimal number, got '1:30.5'"),
    "octal number": ([*ENTRIES, "  - {word: a, count: 010}"], 7, "leading zeros, got '010'"),
    "number of 5,000 digits": ([*ENTRIES, "  - {word: a, count: " + "9" * 5000 + "}"], 7, "got '999"),
    "number beyond 64 bits": ([*ENTRIES, "  - {word: a, count: 0x" + "f" * 17 + "}"], 7, "of 64 bits, got '0xff"),
    "infinity": ([*ENTRIES, "  - {word: a, share: .inf}"], 7, "expected a finite decimal number, got '.inf'"),
    "number that overflows": ([*ENTRIES, "  - {word: a, share: 1e999}"], 7, "finite decimal number, got '1e999'"),
    "no number": ([*ENTRIES, "  - {word: a, share: .nan}"], 7, "expected a finite decimal number, got '.nan'"),
    "NUL": ([*ENTRIES, "  - a\0b"], 7, "not valid YAML: the character U+0000 is not allowed"),
    "escape code": ([*ENTRIES, "  - a", "  - \x1b[31mb"], 8, "the character U+001B is not allowed"),
    "list inside itself": ([*ENTRIES[:-1], "entries: &loop", "  - a", "  - *loop"], 8, "not valid YAML"),
    "two documents": ([*ENTRIES, "  - a", "---", "b: c"], 8, "not valid YAML"),
    "a list": (["- a", "- b"], 1, "expected a mapping"),
    "a text": (["just a text"], 1, "expected a mapping"),
    "nothing": ([""], 1, "got nothing"),
}  # fmt: skip


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_list_gives_one_error_with_file_and_line(tmp_path, rule):
    lines, line, words_of_error = BROKEN[rule]
    path = tmp_path / "own.yaml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(DataFileError) as caught:
        load_wordlist(str(path))
    text = str(caught.value)
    assert text.startswith(f"{path}:{line}: "), text
    assert words_of_error in text
    assert len(text.splitlines()) == 1


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(DataFileError, match=r"gone\.yaml: no such file"):
        load_wordlist(str(tmp_path / "gone.yaml"))
    (tmp_path / "latin.yaml").write_bytes("a: 1\ntitle: fiancée".encode("latin-1"))
    with pytest.raises(DataFileError, match=r"latin\.yaml:2: not UTF-8: byte 0xe9 at position 13; convert the file"):
        load_wordlist(str(tmp_path / "latin.yaml"))
    (tmp_path / "wide.yaml").write_text("title: a", encoding="utf-16")
    with pytest.raises(DataFileError, match=r"wide\.yaml:1: not UTF-8, but UTF-16; convert"):
        load_wordlist(str(tmp_path / "wide.yaml"))
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(DataFileError, match=r"folder\.yaml: expected a file, got a folder"):
        load_wordlist(str(tmp_path / "folder.yaml"))
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(DataFileError, match=r"pipe\.yaml: expected a file, got a pipe"):
        load_wordlist(str(tmp_path / "pipe.yaml"))
    with pytest.raises(DataFileError, match=r"cannot be read: .*embedded null"):
        read_yaml(tmp_path / "a\0.yaml")


def test_a_file_is_read_up_to_its_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(located_yaml, "MOST_BYTES", 6)
    (tmp_path / "x.yaml").write_bytes(b"a: 1  \n")
    with pytest.raises(DataFileError, match=r"x\.yaml: cannot be read: expected at most 6 bytes, got more"):
        read_yaml(tmp_path / "x.yaml")
    (tmp_path / "x.yaml").write_bytes(b"a: 1 \n")
    assert read_yaml(tmp_path / "x.yaml") == {"a": 1}


LAUGHS = ["a: &a [" + "x, " * 10 + "]", *(f"{b}: &{b} [" + f"*{a}, " * 10 + "]" for a, b in pairwise("abcdefghij"))]
BOUNDED = {
    "brackets": (["a: " + "[" * 500], 1, "at most 64 levels of lists and mappings, got more"),
    "more brackets than PyYAML 6.0.4 reads": (["a: " + "[" * 100_000], 1,
        "(at most 64 levels|exceeded maximum nesting depth)"),
    "braces": (["a: " + "{a: " * 100_000], 1, "at most 64 levels"),
    "dashes": (["- " * 100_000], 1, "at most 64 levels"),
    "lists of aliases": (["- &a a", *(f"- &{b} [[*{a}]]" for a,
                b in pairwise("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL"))], 33, "64 levels deep"),
    "a billion laughs": (LAUGHS, 5, "aliases that repeat at most 100,000 values"),
    "a pair that holds itself twice": (["a: &a {b: [*a, *a]}"], 1, "contains the alias"),
}  # fmt: skip


@pytest.mark.parametrize("loader", ["CSafeLoader", "SafeLoader"])
@pytest.mark.parametrize("attack", BOUNDED)
def test_a_small_file_costs_little_whatever_it_nests_or_repeats(tmp_path, monkeypatch, loader, attack):
    monkeypatch.setattr(located_yaml, "_Loader", getattr(yaml, loader))
    lines, line, words_of_error = BOUNDED[attack]
    with pytest.raises(DataFileError, match=rf"x\.yaml:{line}: .*{words_of_error}"):
        read_yaml(write(tmp_path / "x.yaml", lines))


def test_values_are_counted_with_those_that_aliases_repeat(tmp_path, monkeypatch):
    monkeypatch.setattr(located_yaml, "MOST_NODES", 8)
    lines = ["a: &x [1, 2]", "b: *x", "c: *x"]  # a mapping, three keys, a list, two numbers
    assert read_yaml(write(tmp_path / "x.yaml", lines)) == {"a": [1, 2], "b": [1, 2], "c": [1, 2]}
    monkeypatch.setattr(located_yaml, "MOST_ALIASED", 5)
    with pytest.raises(DataFileError, match=r"x\.yaml:3: expected aliases that repeat at most 5 values"):
        read_yaml(write(tmp_path / "x.yaml", lines))
    monkeypatch.setattr(located_yaml, "MOST_NODES", 6)
    with pytest.raises(DataFileError, match=r"x\.yaml:3: expected at most 6 values of lists and mappings, got more"):
        read_yaml(write(tmp_path / "x.yaml", lines))


@pytest.mark.parametrize("loader", ["CSafeLoader", "SafeLoader"])
def test_control_characters_with_either_yaml_loader(tmp_path, monkeypatch, loader):
    monkeypatch.setattr(located_yaml, "_Loader", getattr(yaml, loader))
    path = tmp_path / "own.yaml"
    path.write_text("list: own\ntitle: \x07\n")
    with pytest.raises(DataFileError, match=r"own\.yaml:2: not valid YAML: the character U\+0007 is not allowed"):
        read_yaml(path)


def test_an_unknown_name_lists_those_like_it_or_the_packaged_ones():
    with pytest.raises(UnknownNameError, match=r"no word list 'names-uk'; did you mean names-us.*\?$"):
        load_wordlist("names-uk")
    with pytest.raises(UnknownNameError, match=r"no word list 'zebras'; packaged lists: .*names-us"):
        load_wordlist("zebras")


@pytest.mark.parametrize("name", ["../wordlists/names-us", "", ".", "README", "__init__"])
def test_a_name_is_no_path(name):
    with pytest.raises(UnknownNameError):
        load_wordlist(name)


# Lists of one's own


def write(path, lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_an_own_list_by_path(tmp_path):
    path = write(
        tmp_path / "own.yaml",
        [
            *HEAD,
            "attributes: {region: where}",
            "entries:",
            "  - 'no'",
            "  - {word: b c, region: north, women_share: 7}",
        ],
    )
    loaded = load_wordlist(str(path))
    assert [e.word for e in loaded.entries] == ["no", "b c"]
    assert loaded.entries[1].attributes == {"region": "north", "women_share": 7}
    assert [e.line for e in loaded.entries] == [8, 9]
    assert (loaded.name, loaded.path) == ("own", path)


def test_an_own_list_relative_to_a_suite(tmp_path):
    write(tmp_path / "own.yaml", [*ENTRIES, "  - a"])
    assert load_wordlist("own.yaml", tmp_path).entries[0].word == "a"


def test_a_table(tmp_path):
    path = write(tmp_path / "own.yaml", [*TABLE, "  - [a, x, 1]", "  - [b, y, 2]"])
    assert [dict(e.attributes) for e in load_wordlist(str(path)).entries] == [
        {"group": "x", "count": 1},
        {"group": "y", "count": 2},
    ]


def test_pairs_of_two_groups(tmp_path):
    lines = [
        *PAIRS,
        "  - [king, queen]",
        "  - {male: [him, his], female: her, default: {her: him}, by_pos: {her: {object: him}}, noun: false}",
    ]
    entries = {e.word: dict(e.attributes) for e in load_wordlist(str(write(tmp_path / "own.yaml", lines))).entries}
    assert entries["king"] == {"group": "male", "partner": "queen"}
    assert entries["her"] == {"group": "female", "partner": "him", "by_pos": {"object": "him"}, "noun": False}
    assert entries["his"]["partner"] == "her"


def test_items_of_three_groups(tmp_path):
    lines = [*HEAD, "groups: [male, female, neutral]", "pairs:", "  - [king, queen, monarch]"]
    entries = {e.word: e.attributes for e in load_wordlist(str(write(tmp_path / "own.yaml", lines))).entries}
    assert entries["monarch"]["group"] == "neutral"
    assert entries["monarch"]["partner"] == ["king", "queen"]


def test_selection_by_one_or_several_values_or_by_list_attributes(tmp_path):
    lines = [*ENTRIES, "  - {word: a, class: [x, y]}", "  - {word: b, class: y}", "  - c"]
    loaded = load_wordlist(str(write(tmp_path / "own.yaml", lines)))

    def chosen(where):
        return "".join(e.word for e in loaded.select(where))

    assert [chosen(w) for w in ({"class": "x"}, {"class": "y"}, {"class": ["x", "z"]}, {"class": "z"}, {}, None)] == [
        "a",
        "ab",
        "a",
        "",
        "abc",
        "abc",
    ]


# YAML with lines


def test_lines_of_keys_and_elements(tmp_path):
    path = write(tmp_path / "x.yaml", ["# comment", "a: 1", "", "b:", "  - x", "  - {c: 2}"])
    data = read_yaml(path)
    assert data.lines == {"a": 2, "b": 4}
    assert data["b"].lines == [5, 6]
    assert isinstance(data["b"][1], LocatedMap)
    assert data["b"][1].line == 6
    assert data.file == str(path)


def test_anchors_are_fine_where_they_do_not_loop(tmp_path):
    data = read_yaml(write(tmp_path / "x.yaml", ["a: &x [1, 2]", "b: *x"]))
    assert data["b"] == [1, 2]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5e-5", 5e-5),
        ("1E3", 1000.0),
        ("-2.e+1", -20.0),
        ("5.0e-5", 5e-5),
        ("5e", "5e"),
        ("e5", "e5"),
        ("'5e-5'", "5e-5"),
        ("=", "="),
        ("2001-01-01", "2001-01-01"),
        ("2001-13-45", "2001-13-45"),
        ("2001-01-01 10:11:12", "2001-01-01 10:11:12"),
        ("0", 0),
        ("-0x1F", -31),
        ("1_000", 1000),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_numbers_are_those_of_yaml_1_2(tmp_path, text, value):
    assert read_yaml(write(tmp_path / "x.yaml", [f"a: {text}"])) == {"a": value}


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_packaged_files_are_read_as_plain_yaml_reads_them(name):
    path = packaged.locate("wordlists", name)
    assert read_yaml(path) == yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_readme_counts_as_these_tests_do():
    text = (packaged.folder("wordlists") / "README.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `") and len(line.split("|")) == 5]
    stated = {row[1].strip(" `"): int(row[2].split()[0]) for row in rows if row[2].split()[0].isdigit()}
    assert stated == {name: total for name, (total, _) in COUNTS.items()}
    assert Counter(stated.values())[1000] == 1


def test_a_merge_key_is_not_called_a_text(tmp_path):
    path = tmp_path / "m.bias.yaml"
    path.write_text("gates:\n  - &first {suite: weat, at_most: 3.0}\n  - {<<: *first, at_most: 2.0}\n")
    with pytest.raises(DataFileError, match=r"m\.bias\.yaml:3: merge keys .* are not read") as error:
        read_yaml(path)
    assert "quotes" not in str(error.value)
    path.write_text("a: {'<<': b}\n")
    assert read_yaml(path)["a"]["<<"] == "b"
