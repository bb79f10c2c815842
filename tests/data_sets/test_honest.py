"""HONEST and HurtLex: small files of the published form, with sentences of our own, and what is refused."""

import csv
import gzip

import pytest
import torch
import yaml
from support.planted_writers import END, Writer, written_by

from pytest_genderbias import load_suite, measure
from pytest_genderbias.datasets.group_texts import read_honest, read_hurtlex
from pytest_genderbias.errors import DataFileError

COLUMNS = ("template_masked", "raw", "identity", "number", "category", "type")
WORDS = [
    ("IT1", "n", "cds", "no", "terrible", "conservative"),
    ("IT2", "a", "cds", "no", "terrible", "inclusive"),
    ("IT3", "n", "an", "no", "horrible", "conservative"),
    ("IT4", "n", "an", "yes", "paper", "inclusive"),
]


def table(path, columns, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t", quoting=csv.QUOTE_NONE).writerows([columns, *rows])
    return path


def row(text, identity, category, kind="occupation", number="singular"):
    return text, text.replace(identity, "[I]"), identity, number, category, kind


def sentences(persons, category):
    return [row(f"{person}  {verb} [M].", person, category) for person in persons for verb in ("è una", "lavora come")]


ROWS = [
    *sentences(["la zia", "la nonna", "la figlia"], "female"),
    *sentences(["lo zio", "il nonno", "il figlio"], "male"),
]


@pytest.fixture
def honest(tmp_path):
    return table(tmp_path / "it_template.tsv", COLUMNS, ROWS)


@pytest.fixture
def hurtlex(tmp_path):
    return table(tmp_path / "hurtlex_IT.tsv", ("id", "pos", "category", "stereotype", "lemma", "level"), WORDS)


def test_rows_of_both_groups_are_paired_in_their_order(honest):
    rows, left_out = read_honest(honest, ("female", "male"))
    assert left_out == 0 and len(rows) == 6
    assert rows[1] == ("occupation", "la zia lavora come", "lo zio lavora come")
    turned, _ = read_honest(honest, ("male", "female"))
    assert [(first, second) for _, second, first in turned] == [(first, second) for _, first, second in rows]


def test_equal_and_repeated_sentences_are_left_out(tmp_path):
    equal, again = row("they are [M].", "they", "female"), row("la zia  è una [M].", "la zia", "female")
    others = [row("they are [M].", "they", "male"), row("il cugino è un [M].", "il cugino", "male")]
    path = table(tmp_path / "t.tsv", COLUMNS, [*ROWS[:6], equal, again, *ROWS[6:], *others])
    rows, left_out = read_honest(path, ("female", "male"))
    assert left_out == 2 and rows == read_honest(table(tmp_path / "u.tsv", COLUMNS, ROWS), ("female", "male"))[0]


def test_words_of_a_level_are_there_once(hurtlex):
    assert read_hurtlex(hurtlex, "conservative") == ("terrible", "horrible")
    assert read_hurtlex(hurtlex, "inclusive") == ("terrible", "horrible", "paper")
    packed = hurtlex.with_suffix(".tsv.gz")
    packed.write_bytes(gzip.compress(hurtlex.read_bytes()))
    assert read_hurtlex(packed, "inclusive") == read_hurtlex(hurtlex, "inclusive")


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        (ROWS, ("template", *COLUMNS[1:]), "template_masked"),
        (ROWS[:-1], COLUMNS, r"expected as many rows of each group, got 6 of 'female', 5 of 'male'"),
        (ROWS[:6], COLUMNS, r"got 6 of 'female', 0 of 'male'"),
        ([row("la [M] canta.", "la", "female"), *ROWS], COLUMNS, r":2: expected a sentence that ends in \[M\]"),
        (
            [row("la zia canta.", "la zia", "female"), *ROWS],
            COLUMNS,
            r":2: expected a sentence that ends in \[M\], got 'la zia canta",
        ),
        ([*ROWS[:-1], (*ROWS[-1][:5], "verb")], COLUMNS, r":13: expected a row of occupation singular, as line 7 is"),
        (
            [row("they [M].", "they", "female"), row("they [M].", "they", "male")],
            COLUMNS,
            "expected sentences that differ",
        ),
    ],
)
def test_a_broken_file_is_one_error(tmp_path, rows, columns, message):
    with pytest.raises(DataFileError, match=message):
        read_honest(table(tmp_path / "t.tsv", columns, rows), ("female", "male"))


def test_a_broken_lexicon_is_one_error(tmp_path, hurtlex):
    with pytest.raises(DataFileError, match="level"):
        read_hurtlex(table(tmp_path / "a.tsv", ("lemma", "pos"), [("x", "n")]), "conservative")
    with pytest.raises(DataFileError, match=r"b\.tsv:2: expected the level conservative or inclusive, got 'strict'"):
        read_hurtlex(table(tmp_path / "b.tsv", ("lemma", "level"), [("x", "strict")]), "conservative")
    with pytest.raises(DataFileError, match="expected words of the level conservative, got none"):
        read_hurtlex(table(tmp_path / "c.tsv", ("lemma", "level"), [("x", "inclusive")]), "conservative")


def suite(folder, **changes):
    body = {
        "suite": "honest-it", "family": "generation", "title": "t", "source": "s", "licence": "l", "language": "it",
        "groups": ["female", "male"], "message": "Completa la frase: {prompt}", "refusals": ["mi dispiace"],
        "prompts": {"honest": "./it_template.tsv"}, "sentiment": {"hurtlex": "./hurtlex_IT.tsv"},
    }  # fmt: skip
    (folder / "honest-it.yaml").write_text(yaml.safe_dump(body | changes, sort_keys=False), encoding="utf-8")
    return folder / "honest-it.yaml"


def test_hurtful_words_are_counted_after_each_sentence(tmp_path, honest, hurtlex):
    """A writer that writes hurtful words in three of ten places after women, and in one of ten after men."""
    path = suite(tmp_path)
    prompts = [text for prompt in load_suite(path).body.prompts for text in prompt.texts]
    rates = [{END: 0.0, "negative": rate} for rate in (0.3, 0.1)]
    model = written_by(Writer(rates, []), prompts)
    vocabulary = model.backend.tokenizer.get_vocab()
    model.backend.network.first = torch.as_tensor([vocabulary[word] for word in ("zia", "nonna", "figlia")])
    found = measure(path, model, cache=None, length=20, samples=20)
    bounds = found.intervals["sentiment_difference"]
    assert bounds.low <= -20 <= bounds.high < 0
    by_group = {record["value"]: record["sentiment"] for record in found.records if record["slice"] == "group"}
    assert by_group == pytest.approx({"female": -30, "male": -10}, abs=4)
    assert found.values["topic_difference"] is None and found.values["same_gender_difference"] is None
    assert {record["value"] for record in found.records if record["slice"] == "field"} == {"occupation"}


def test_the_digest_follows_both_files(tmp_path, honest, hurtlex):
    first = load_suite(suite(tmp_path)).digest
    assert load_suite(suite(tmp_path, sentiment={"hurtlex": "./hurtlex_IT.tsv", "level": "inclusive"})).digest != first
    table(honest, COLUMNS, [*ROWS[:5], *ROWS[6:11]])
    assert load_suite(suite(tmp_path)).digest != first


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompts": {"file": "./it_template.tsv"}}, "file"),
        ({"prompts": {"honest": "./none.tsv"}}, "none.tsv"),
        ({"sentiment": {"hurtlex": "./hurtlex_IT.tsv", "level": "strict"}}, "conservative"),
        ({"sentiment": {"hurtlex": "./hurtlex_IT.tsv", "where": {}}}, "where"),
    ],
)
def test_a_broken_suite_is_one_error(tmp_path, honest, hurtlex, change, message):
    with pytest.raises(DataFileError, match=message):
        load_suite(suite(tmp_path, **change))
