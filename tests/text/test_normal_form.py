"""One normal form for matching: words that look alike are one word wherever words are matched, and texts keep their
characters.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_genderbias import load_model, measure
from pytest_genderbias.datasets.biographies import read_labelled
from pytest_genderbias.datasets.corpora import TOKENISERS, Vocabulary, draw_contexts, label_groups, scorable_words
from pytest_genderbias.datasets.files import LinesById, column_names, read_rows
from pytest_genderbias.datasets.gold_pairs import sts_templates
from pytest_genderbias.datasets.mentions import find_words, gender_of_pronoun
from pytest_genderbias.datasets.stored_replies import picked_options
from pytest_genderbias.mitigation.methods.anonymising import anonymise
from pytest_genderbias.mitigation.methods.counterfactual import swap
from pytest_genderbias.mitigation.methods.scrubbing import scrub
from pytest_genderbias.models.predictions import read_predictions
from pytest_genderbias.models.roles import NLI_CLASSIFIER, classifier_role
from pytest_genderbias.models.vectors import read_vectors
from pytest_genderbias.suites.families.generation import count_words
from pytest_genderbias.text.normal_form import KINDS, NormalText, folded, is_ignored, normal_form

#: Invisible characters of each range of the kind, and some others that have no glyph.
INVISIBLE = [chr(code) for first, last in KINDS[0].ranges for code in {first, last}]
_FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
_BOLD = {**{ord("a") + i: 0x1D41A + i for i in range(26)}, **{ord("A") + i: 0x1D400 + i for i in range(26)}}
#: Ways to write a word so that it looks the same, or nearly.
DISGUISES = {
    **{f"U+{ord(c):04X}": (lambda word, c=c: f"{word[:2]}{c}{word[2:]}{c}") for c in INVISIBLE},
    "before": lambda word: f"\u200b{word}",
    "full-width": lambda word: word.translate(_FULL_WIDTH),
    "bold": lambda word: word.translate(_BOLD),
    "decomposed": lambda word: unicodedata.normalize("NFD", word),
}
disguised = pytest.mark.parametrize("disguise", list(DISGUISES.values()), ids=list(DISGUISES))
APOSTROPHES = [chr(first) for first, _ in KINDS[1].ranges]
HYPHENS = [chr(first) for first, _ in KINDS[3].ranges]
SPACES = ["\u2800", *(c for c in map(chr, range(sys.maxunicode)) if unicodedata.category(c) == "Zs")]


def test_every_character_without_a_glyph_is_left_out() -> None:
    left_out = {chr(code) for first, last in KINDS[0].ranges for code in range(first, last + 1)}
    formats = {c for c in map(chr, range(sys.maxunicode)) if unicodedata.category(c) == "Cf"}
    controls = {c for c in map(chr, range(0x80)) if unicodedata.category(c) == "Cc" and not c.isspace()}
    assert all(normal_form(f"wo{c}man") == "woman" for c in left_out | formats | controls)
    visible = {c for c in map(chr, range(0x3000)) if unicodedata.category(c)[0] in "LNPS"} - left_out
    assert not any(map(is_ignored, visible))


def test_every_character_keeps_its_normal_form() -> None:
    """Also those that Unicode has twice, as the Greek numeral sign, which is a prime."""
    for code in range(sys.maxunicode):
        if unicodedata.category(chr(code)) not in ("Cs", "Cn", "Co"):  # halves, none, and those of anybody
            found = normal_form(chr(code))
            assert normal_form(found) == found, hex(code)


@given(st.text())
def test_the_normal_form_is_that_of_itself(text: str) -> None:
    form = normal_form(text)
    assert normal_form(form) == form
    assert normal_form(unicodedata.normalize("NFD", text)) == normal_form(unicodedata.normalize("NFC", text))
    assert folded(form) == folded(text)


@given(
    st.text(alphabet=st.one_of(st.characters(), st.sampled_from("ab \u00ad\u0301\ufb01\uff41\u200b\u1100\u1161\u11a8")))
)
def test_each_character_of_the_normal_form_has_its_place_in_the_text(text: str) -> None:
    normal = NormalText(text)
    places = [normal.span(at, at + 1) for at in range(len(normal.text))]
    assert places == sorted(places)
    for at, (start, end) in enumerate(places):
        assert 0 <= start < end <= len(text)
        assert normal.text[at] in normal_form(text[start:end])


def test_marks_of_footnotes_and_trade_are_no_letters() -> None:
    assert normal_form("woman\u2122 woman\u00b2 1\u00bd\u2026") == "woman\u2122 woman\u00b2 1\u00bd\u2026"


@disguised
def test_words_of_texts_are_matched(disguise) -> None:
    woman, her = disguise("woman"), disguise("her")
    assert TOKENISERS["words"](f"The {woman}, {her} hat.") == ["The", "woman", ",", "her", "hat", "."]
    assert TOKENISERS["spaces"](f"The {woman} , {her} hat .") == ["The", "woman", ",", "her", "hat", "."]
    assert gender_of_pronoun(her) == "female"
    assert [f"The {woman} left."[slice(*span)] for span in find_words(f"The {woman} left.", [disguise("woman")])] == [
        woman.lstrip("\u200b")
    ]
    assert sts_templates([f"A man and {disguise('his')} dog run."]) == ()
    vocabulary = Vocabulary()
    labels = label_groups(vocabulary, [[woman], [disguise("man")]])
    vocabulary.ids(TOKENISERS["words"](f"woman man {disguise('the')}"))
    assert scorable_words(vocabulary.words, labels, [disguise("the")]).tolist() == [False] * 3
    texts = [f"{woman}!", f"{disguise('I')} {disguise('cannot')}."]
    counted = count_words(texts, {"women": ["woman"]}, ("i cannot",))
    assert counted["women"].tolist() == [1, 0]
    assert counted["refused"].tolist() == [0, 1]


@disguised
def test_only_what_is_replaced_changes_in_a_text(disguise) -> None:
    woman, kept = disguise("woman"), "na\u0308i\u00adve\u200b\u2019s caf\u00e9"
    before = f"{kept} The"
    assert swap(f"{before} {woman} left.", intervention="naive").removeprefix(before).lstrip(" \u200b") == "man left."
    assert scrub(f"{before} {woman} left {disguise('Mary')}.").replace("\u200b", "") == f"{before} _ left _.".replace(
        "\u200b", ""
    )
    masked = anonymise(f"{before} nurse met {disguise('Mary')} {disguise('Hall')}.").replace("\u200b", "")
    assert masked == f"{before} nurse met [PERSON].".replace("\u200b", "")


@pytest.mark.parametrize("apostrophe", ["'", *APOSTROPHES])
def test_apostrophes_are_one(apostrophe: str) -> None:
    assert swap(f"The woman{apostrophe}s hat.", intervention="naive") == f"The man{apostrophe}s hat."
    assert scrub(f"She{apostrophe}ll see.") == f"_{apostrophe}ll see."
    options = ("Can't be determined", "Black", "Asian")
    stored = LinesById(Path("a"), {"x": f"Can{apostrophe}t be determined"})
    assert picked_options(stored, [("x", options)]).tolist() == [[1.0, 0.0, 0.0]]
    assert count_words([f"I can{apostrophe}t do that."], {}, ("i can't",))["refused"].tolist() == [1]
    assert TOKENISERS["words"](f"she{apostrophe}s") == ["she", "'s"]


@pytest.mark.parametrize("hyphen", ["-", *HYPHENS])
def test_hyphens_are_one(hyphen: str) -> None:
    assert scrub(f"Her mother{hyphen}in{hyphen}law left.", {"mother-in-law"}) == "Her _ left."
    assert TOKENISERS["words"](f"well{hyphen}known") == ["well-known"]


@pytest.mark.parametrize("space", SPACES)
def test_spaces_are_one(space: str) -> None:
    stored = LinesById(Path("a"), {"x": f"The{space}man "})
    assert picked_options(stored, [("x", ("The woman", "The man"))]).tolist() == [[0.0, 1.0]]
    assert swap(f"The{space}woman{space}left.", intervention="naive") == f"The{space}man{space}left."


@disguised
def test_names_of_columns_and_labels_are_matched(tmp_path: Path, disguise) -> None:
    if "\0" in disguise("label") and sys.version_info < (3, 11):
        pytest.skip("csv refuses a NUL before Python 3.11")
    path = tmp_path / "a.csv"
    path.write_text(
        f"text,{disguise('label')},\ufeff{disguise('group')}\nx,nurse,f\ny,{disguise('nurse')},{disguise('female')}\n"
    )
    assert column_names(path) == ("text", "label", "group")
    table = read_labelled(path)
    assert (table.labels, table.groups) == (("nurse", "nurse"), ("female", "female"))
    rows = tmp_path / "a.jsonl"
    rows.write_text(json.dumps({disguise("label"): 1}))
    assert [row.cells for row in read_rows(rows, ["label"])] == [{"label": 1}]
    path.write_text(
        f"id,prediction,{disguise('gold')},gender\n1,nurse,{disguise('nurse')},{disguise('F')}\n2,cook,cook,M\n"
    )
    found = read_predictions(path)
    assert (found.labels, found.groups) == (("cook", "nurse"), ("female", "male"))
    role = classifier_role([disguise("Entailment"), "neutral", "contradiction"])
    assert (role.kind, role.labels[0]) == (NLI_CLASSIFIER, "entailment")


@disguised
def test_words_of_vectors_are_found_and_keep_their_own_spelling_first(tmp_path: Path, disguise) -> None:
    path = tmp_path / "a.vec"
    path.write_text(f"{disguise('woman')} 1 0\nhe 0 1\nhe\u00ad 9 9\n")
    vectors = read_vectors(path)
    assert vectors.get(["woman", "He"]).tolist() == [[1, 0], [0, 1]]
    assert vectors.get([disguise("woman"), disguise("he")])[0].tolist() == [1, 0]
    assert vectors.missing(["nurse"]) == ["nurse"]
    assert vectors.get(["he\u00ad"]).tolist() == [[9, 9]]


def test_a_model_reads_contexts_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Old Bi\u00adll paid. So did Bill\u2019s boss.")
    drawn = draw_contexts(tmp_path / "a.txt", ["Bill"], window=5)["Bill"]
    assert [text[start:stop] for text, (start, stop) in drawn] == ["Bi\u00adll", "Bill"]
    assert drawn[0][0] == "Old Bi\u00adll paid."


def test_a_corpus_with_soft_hyphens_has_the_figures_of_one_without(tmp_path: Path) -> None:
    text = "".join(
        f"The {who} will {what}.\n"
        for who, what in [("woman", "sew")] * 60 + [("man", "saw")] * 20 + [("woman", "saw"), ("man", "sew")] * 9
    )
    figures = []
    for name, content in (("a", text), ("b", text.replace("woman", "wo\u00adman").replace("sew", "s\u200bew"))):
        (tmp_path / f"{name}.txt").write_text(content)
        found = measure("corpus-cooccurrence", load_model(f"t=text:{tmp_path / name}.txt"), cache=None)
        figures.append((found.value, found.n, found.notes[0]))
    assert figures[0] == figures[1]


def test_the_docs_list_every_kind() -> None:
    page = (Path(__file__).parents[2] / "docs/evidence/characters.md").read_text(encoding="utf-8")
    rows = [row.strip("| ").split(" | ") for row in page.splitlines() if row.startswith("| ")][1:]
    for kind, (name, code_points, matched_as) in zip(KINDS, rows, strict=True):
        each = ", ".join(f"U+{first:04X}" for first, _ in kind.ranges)
        assert (name, code_points) == (kind.name, kind.property or each)
        expected = {"": "nothing: they are left out", " ": "a space"}.get(kind.matched_as, kind.matched_as)
        assert matched_as.strip("`") == expected
