"""The user's data sets: files, the folder's layout, and the readers of tables."""

from __future__ import annotations

import csv
import gzip
import json
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_genderbias.datasets import biographies, files, gold_pairs, sentence_pairs
from pytest_genderbias.datasets.folder import DataFolder, MissingDataError, known_data_sets
from pytest_genderbias.errors import DataFileError, NotApplicableError, SettingError, UnknownNameError, installing


def write(path: Path, text: str | bytes) -> Path:
    data = text.encode() if isinstance(text, str) else text
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def jsonl(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def shared_rows(path: Path) -> list[dict]:
    """Read the rows of a file in another way than the package does."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        if ".csv" in path.name:
            return list(csv.DictReader(file))
        if ".tsv" in path.name:
            return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        return [json.loads(line) for line in file]


# lines


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "A.TXT.GZ"])
def test_lines_lose_their_ends_and_the_byte_order_mark(tmp_path, name) -> None:
    path = tmp_path / name
    data = b"\xef\xbb\xbfone\r\n\n two \xe2\x80\xa8x\nthree"
    path.write_bytes(gzip.compress(data) if name.lower().endswith(".gz") else data)
    assert list(files.read_lines(path)) == [(1, "one"), (2, ""), (3, " two \u2028x"), (4, "three")]


def test_no_such_file(tmp_path) -> None:
    with pytest.raises(DataFileError, match=r"gone\.txt: no such file"):
        list(files.read_lines(tmp_path / "gone.txt"))
    with pytest.raises(DataFileError, match=r"gone\.parquet: no such file"):
        list(files.read_rows(tmp_path / "gone.parquet", ["text"]))


def test_a_folder_cannot_be_read(tmp_path) -> None:
    with pytest.raises(DataFileError, match=rf"^{re.escape(str(tmp_path))}: expected a file, got a folder$"):
        list(files.read_lines(tmp_path))


def test_not_utf8_names_the_line(tmp_path) -> None:
    path = write(tmp_path / "latin.tsv", b"text\nfine\ncaf\xe9 au lait\n")
    with pytest.raises(
        DataFileError, match=r"latin\.tsv:3: not UTF-8: byte 0xe9 at position 4; convert the file, .* iconv"
    ):
        list(files.read_rows(path, ["text"]))


def test_truncated_gzip_says_so(tmp_path) -> None:
    path = write(tmp_path / "cut.jsonl.gz", jsonl(*({"text": str(i**3)} for i in range(3000))))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataFileError, match=r"cut\.jsonl\.gz:\d+: the gzip file is truncated"):
        list(files.read_rows(path, ["text"]))


def test_no_gzip_and_damaged_gzip_cannot_be_read(tmp_path) -> None:
    path = tmp_path / "plain.txt.gz"
    path.write_bytes(b"plain text")
    with pytest.raises(DataFileError, match="cannot be read"):
        list(files.read_lines(path))
    damaged = bytearray(gzip.compress(bytes(range(256)) * 40))
    damaged[14] ^= 0xFF
    path.write_bytes(bytes(damaged))
    with pytest.raises(DataFileError, match=r"plain\.txt\.gz"):
        list(files.read_lines(path))


# rows


@settings(
    max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
@given(rows=st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=5), zipped=st.booleans())
def test_rows_survive_json_and_csv(tmp_path, rows, zipped) -> None:
    rows = [tuple(re.sub(r"[\r\n\x00\ud800-\udfff]", " ", cell) for cell in row) for row in rows]
    end = ".gz" if zipped else ""
    wanted = [{"a": a, "b": b} for a, b in rows]
    path = write(tmp_path / f"r.jsonl{end}", jsonl(*wanted))
    assert [row.cells for row in files.read_rows(path, ["a", "b"])] == wanted
    quoted = "".join(
        ",".join('"' + cell.replace('"', '""') + '"' for cell in row) + "\n" for row in [("a", "b"), *rows]
    )
    path = write(tmp_path / f"r.csv{end}", quoted)
    assert [row.cells for row in files.read_rows(path, ["a", "b"])] == wanted


def test_csv_cells_may_hold_line_ends_and_be_large(tmp_path) -> None:
    limit = csv.field_size_limit()
    path = write(tmp_path / "a.csv", 'text,n\n"two\nlines",1\n\n"' + "x" * 200_000 + '",2\nlast,3\n')
    rows = list(files.read_rows(path, ["n", "text"]))
    assert [(row.line, row.cells["n"]) for row in rows] == [(2, "1"), (5, "2"), (6, "3")]
    assert rows[0].cells["text"] == "two\nlines"
    assert len(rows[1].cells["text"]) == 200_000
    assert csv.field_size_limit() == limit


def test_tsv_has_no_quoting(tmp_path) -> None:
    path = write(tmp_path / "a.tsv", 'text\tn\n"He said\t1\n\nit"\t2\n')
    assert list(files.read_rows(path, ["text"])) == [(2, {"text": '"He said'}, path), (4, {"text": 'it"'}, path)]


def test_parquet_rows(tmp_path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(
        pyarrow.table({"text": ["x", "y", "z"], "n": [1, 2, 3], "more": [0, 0, 0]}), path, row_group_size=2
    )
    assert list(files.read_rows(path, ["text"], optional=["n", "gone"])) == [
        (1, {"text": "x", "n": 1}, path),
        (2, {"text": "y", "n": 2}, path),
        (3, {"text": "z", "n": 3}, path),
    ]
    assert files.column_names(path) == ("text", "n", "more")
    with pytest.raises(DataFileError, match="no column 'label'; the columns are 'text', 'n', 'more'"):
        list(files.read_rows(path, ["label"]))
    path.write_bytes(b"no parquet")
    with pytest.raises(DataFileError, match="cannot be read"):
        list(files.read_rows(path, ["text"]))


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(SettingError, match=re.escape(installing("parquet"))):
        list(files.read_rows(tmp_path / "a.parquet", ["text"]))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", jsonl({"text": "x", "n": 1}), r"a\.jsonl:1: no column 'label'; the columns are 'text', 'n'"),
        ("a.jsonl", jsonl({"text": "x", "label": 1}, {"text": "y"}), r"a\.jsonl:2: no column 'label'"),
        ("a.csv", "text,n\nx,1\n", r"a\.csv:1: no column 'label'; the columns are 'text', 'n'"),
        ("a.tsv", "text,label\nx,1\n", r"a\.tsv:1: no column 'text', 'label'; the columns are 'text,label'"),
        ("a.csv", "text;label\nx;1\n", "the columns are 'text;label'; write commas between the columns of .csv"),
        ("a.csv", "text,label\rx,1\r", r"a\.csv:1: not valid CSV: a carriage return outside quotes; end lines with"),
        ("a.csv", "text\nx\n", r"a\.csv:1: no column 'label'; the columns are 'text'$"),
        ("a.jsonl", jsonl({"text": "x"}), r"a\.jsonl:1: no column 'label'; the columns are 'text'$"),
        ("a.jsonl", '{"text": "x", "label": 1}\n{"text": \n', r"a\.jsonl:2: not valid JSON"),
        ("a.jsonl", "[1, 2]\n", r"a\.jsonl:1: expected a JSON object, got '\[1, 2\]'"),
        ("a.csv", 'text,label\nx,1\n"open,2\nmore\n', r"a\.csv:3: not valid CSV"),
        ("a.csv", "text,label\nx,1,2\n", r"a\.csv:2: expected 2 cells as in line 1, got 3"),
        ("a.tsv", "text\tlabel\nx\n", r"a\.tsv:2: expected 2 cells as in line 1, got 1"),
        ("a.csv", "text,label,text\nx,1,2\n", r"a\.csv:1: duplicate column 'text' .first on line 1"),
        ("a.jsonl", "", r"a\.jsonl: the file has no rows"),
        ("a.jsonl", "\n \n", r"a\.jsonl: the file has no rows"),
        ("a.csv", "text,label\n", r"a\.csv: the file has no rows"),
        ("a.tsv.gz", "", r"a\.tsv\.gz: the file has no rows"),
        ("a.txt", "x", r"a\.txt: expected a table whose name ends in \.jsonl, .* got '\.txt'"),
        ("a.parquet.gz", "x", r"expected a table whose name ends in .* got '.gz'"),
    ],
)
def test_a_bad_table_is_refused(tmp_path, name, text, message) -> None:
    with pytest.raises(DataFileError, match=message):
        list(files.read_rows(write(tmp_path / name, text), ["text", "label"]))


def test_the_columns_of_an_empty_file_are_asked_in_vain(tmp_path) -> None:
    with pytest.raises(DataFileError, match="no rows"):
        files.column_names(write(tmp_path / "a.csv", ""))


@pytest.mark.parametrize("value", ["", "  ", None, 3, True])
def test_a_text_is_a_text(value) -> None:
    with pytest.raises(DataFileError, match=r"a\.csv:7: expected a text in column 'text'"):
        files.Row(7, {"text": value}, Path("a.csv")).text("text")


@pytest.mark.parametrize("value", [True, 1.5, None, ""])
def test_a_name_is_a_text_or_a_whole_number(value) -> None:
    with pytest.raises(DataFileError, match=r"a\.csv:7"):
        files.Row(7, {"label": value}, Path("a.csv")).name("label")


def test_a_repeated_id_names_both_lines() -> None:
    with pytest.raises(DataFileError, match=r"a\.csv:9: duplicate id 'x' .first on line 2"):
        files.refuse_repeats(Path("a.csv"), [(2, "x"), (5, "y"), (9, "x")])


# the folder


def test_the_folder_has_to_be_there(tmp_path) -> None:
    with pytest.raises(SettingError, match=r"--bias-data=.*gone: no such folder"):
        DataFolder(tmp_path / "gone")
    with pytest.raises(SettingError):
        DataFolder(write(tmp_path / "file", "x"))


@pytest.mark.parametrize("data", [DataFolder(), None], ids=["no folder", "empty folder"])
@pytest.mark.parametrize("name", sorted(known_data_sets()))
def test_a_missing_data_set_says_which_file_where_and_what_instead(tmp_path, data, name) -> None:
    wanted = known_data_sets()[name]
    with pytest.raises(MissingDataError) as caught:
        (data or DataFolder(tmp_path)).find(name)
    message = str(caught.value)
    assert isinstance(caught.value, NotApplicableError)
    assert next(iter(wanted.splits.values()))[0][0] in message
    assert "--bias-data" in message
    assert wanted.published in message
    assert message.endswith(wanted.instead)
    assert "\n" not in message
    assert (str(tmp_path) in message) == (data is None)


def test_every_data_set_is_described() -> None:
    for name, data in known_data_sets().items():
        assert data.name == name
        assert data.title
        assert data.licence
        assert data.published.startswith("http")
        assert data.splits
        assert all(choice and all(choice) for choices in data.splits.values() for choice in choices)


def test_test_comes_before_dev_and_train_only_on_demand(tmp_path) -> None:
    data = DataFolder(tmp_path)
    train = write(tmp_path / "snli" / "train.jsonl", "x")
    with pytest.raises(MissingDataError, match=r"snli_1\.0_test\.jsonl or snli/snli_1\.0_dev\.jsonl under"):
        data.find("snli")
    dev = write(tmp_path / "snli" / "dev.jsonl.gz", "x")
    assert data.locate("snli") == ((dev,), "dev")
    test = write(tmp_path / "snli" / "snli_1.0_test.jsonl", "x")
    assert data.locate("snli") == ((test,), "test")
    assert data.find("snli", "dev") == dev
    assert data.find("snli", "train") == train


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_every_choice_is_found_packed_or_not(tmp_path, suffix) -> None:
    for name, data in known_data_sets().items():
        for split, choices in data.splits.items():
            for number, choice in enumerate(choices):
                root = tmp_path / f"{name}-{split}-{number}{suffix}"
                paths = tuple(write(root / (p.replace("*", "00000") + suffix), "x") for p in choice)
                assert DataFolder(root).locate(name, split) == (paths, split)


def test_files_that_belong_together_have_to_be_there_together(tmp_path) -> None:
    names = [f"{side}_stereotyped_type{kind}.txt" for kind in (1, 2) for side in ("pro", "anti")]
    for name in names:
        write(tmp_path / "winobias" / f"{name}.dev", "x")
    for name in names[:3]:
        write(tmp_path / "winobias" / f"{name}.test", "x")
    data = DataFolder(tmp_path)
    assert data.locate("winobias")[1] == "dev"
    assert [path.name for path in data.find_all("winobias")] == [f"{name}.dev" for name in names]
    write(tmp_path / "winobias" / f"{names[3]}.test", "x")
    assert data.locate("winobias")[1] == "test"
    with pytest.raises(SettingError, match="winobias is 4 files here, expected one"):
        data.find("winobias")


def test_unknown_names_are_refused(tmp_path) -> None:
    with pytest.raises(UnknownNameError, match="no data set is called 'sst2'; expected one of snli, stsb"):
        DataFolder(tmp_path).find("sst2")
    with pytest.raises(
        UnknownNameError, match="no split of snli is called 'validation'; expected one of test, dev, train"
    ):
        DataFolder(tmp_path).find("snli", "validation")


def test_the_shared_data_has_every_data_set(shared_data) -> None:
    found = {name: DataFolder(shared_data).locate(name) for name in known_data_sets()}
    assert all(path.is_file() for paths, _ in found.values() for path in paths)
    assert {name: found[name][1] for name in ("snli", "stsb", "winobias", "gap", "bias_in_bios", "wikitext2")} == {
        "snli": "dev",
        "stsb": "dev",
        "winobias": "dev",
        "gap": "development",
        "bias_in_bios": "sample",
        "wikitext2": "valid",
    }


# similarity


def test_similarity_of_the_shared_data(shared_data) -> None:
    for split, rows in (("dev", 1500), ("train", 5749)):
        path = DataFolder(shared_data).find("stsb", split)
        pairs, wanted = gold_pairs.read_similarity(path), shared_rows(path)
        assert len(pairs) == len(wanted) == rows
        assert [pair[1:] for pair in pairs] == [(row["sentence2"].strip(), row["score"]) for row in wanted]
        assert gold_pairs.read_sentences(path)[::2] == tuple(first for first, *_ in pairs)


def test_the_official_form_of_sts(tmp_path) -> None:
    rows = (
        'main-captions\tMSRvid\t2012test\t0024\t2.5\tA "man" eats.\tA man\'s'
        " meal.\nn\tf\ty\t1\t0\tx\ty\tlicence\tsource\n"
    )
    path = write(tmp_path / "sts-test.csv", rows)
    pairs = gold_pairs.read_similarity(path)
    assert pairs == [('A "man" eats.', "A man's meal.", 2.5), ("x", "y", 0.0)]
    assert gold_pairs.read_sentences(path) == ('A "man" eats.', "A man's meal.", "x", "y")
    with pytest.raises(DataFileError, match=r"sts-dev\.csv:2: expected at least 7 cells"):
        gold_pairs.read_similarity(
            write(tmp_path / "sts-dev.csv", rows.replace("y\t1\t0\tx\ty\tlicence\tsource", "few"))
        )
    with pytest.raises(DataFileError, match=r"sts-train\.csv: the file has no rows"):
        gold_pairs.read_similarity(write(tmp_path / "sts-train.csv", ""))


def test_the_sentences_of_glue_have_no_scores(tmp_path) -> None:
    path = write(tmp_path / "test.tsv", "index\tsentence1\tsentence2\n0\tA cat.\tA dog.\n")
    assert gold_pairs.read_sentences(path) == ("A cat.", "A dog.")
    with pytest.raises(DataFileError, match="no column 'score'"):
        gold_pairs.read_similarity(path)


@pytest.mark.parametrize("score", ["5.1", "-0.1", "nan", "high", ""])
def test_a_score_lies_between_0_and_5(tmp_path, score) -> None:
    path = write(tmp_path / "a.tsv", f"sentence1\tsentence2\tscore\nx\ty\t5\nx\ty\t{score}\n")
    with pytest.raises(DataFileError, match=r"a\.tsv:3: expected a score from 0 to 5"):
        gold_pairs.read_similarity(path)


@pytest.mark.parametrize(
    "sentence",
    [
        "A man feeds his dog.",
        "A woman hits a man.",
        "A man shoots a man.",
        "A man and two sons-in-law.",
        "A man sees an ex-wife.",
        "A man says yes, ma’am.",
        "A man says ma'am.",
        "A woman eats. She is full.",
        "A man takes a woman's bag.",
        "A man takes a woman’s bag.",
        "A mandolin is played.",
        "The man walks.",
        "a man walks.",
        "A man, a WOMAN.",
        "A man and {slots}.",
        "Some men walk.",
    ],
)
def test_no_template_of(sentence) -> None:
    assert gold_pairs.sts_templates([sentence]) == ()


def test_templates_stand_once_in_order() -> None:
    sentences = ["A man is old.", "A woman's hat is red.", "A woman is old.", "A man sees them.", "A man."]
    assert gold_pairs.sts_templates(sentences) == tuple(
        "{a:person} {person}" + rest for rest in (" is old.", "'s hat is red.", " sees them.", ".")
    )


def test_templates_of_sts_dev(shared_data) -> None:
    sentences = gold_pairs.read_sentences(DataFolder(shared_data).find("stsb", "dev"))
    starts = [s for s in sentences if re.match(r"A (man|woman)[^\w]", s)]
    gendered = re.compile(r"\b(he|him|his|she|hers?|(him|her)self|(wo)?m[ae]n|boys?|girls?|male)\b", re.IGNORECASE)
    rests = [s.removeprefix("A wo").removeprefix("A ").removeprefix("man") for s in starts]
    kept = [rest for rest in rests if not gendered.search(rest)]
    assert (len(starts), len(kept), len(set(kept))) == (381, 321, 264)
    templates = gold_pairs.sts_templates(sentences)
    assert templates == tuple("{a:person} {person}" + rest for rest in dict.fromkeys(kept))


# inference


def test_inference_of_the_shared_data(shared_data) -> None:
    for split, rows in (("dev", 9842), ("train", 19999)):
        path = DataFolder(shared_data).find("snli", split)
        pairs, wanted = gold_pairs.read_inference(path), shared_rows(path)
        assert len(pairs) == rows
        assert pairs == [(row["premise"].strip(), row["hypothesis"].strip(), row["label"]) for row in wanted]


def test_the_official_form_of_snli_and_that_of_the_hub(tmp_path) -> None:
    labels = ["neutral", "-", "entailment", "contradiction"]
    rows = [
        {"gold_label": label, "sentence1": "p", "sentence2": f"h{i}", "pairID": i} for i, label in enumerate(labels)
    ]
    pairs = gold_pairs.read_inference(write(tmp_path / "snli_1.0_dev.jsonl", jsonl(*rows)))
    assert pairs == [("p", "h0", "neutral"), ("p", "h2", "entailment"), ("p", "h3", "contradiction")]
    numbers = [{"premise": "p", "hypothesis": f"h{i}", "label": label} for i, label in enumerate([1, -1, 0, 2])]
    assert gold_pairs.read_inference(write(tmp_path / "hub.jsonl", jsonl(*numbers))) == pairs


def test_bad_inference_files(tmp_path) -> None:
    bad = write(tmp_path / "a.csv", "premise,hypothesis,label\np,h,neutral\np,h,maybe\n")
    with pytest.raises(
        DataFileError, match=r"a\.csv:3: expected one of entailment, neutral, contradiction, .* got 'maybe'"
    ):
        gold_pairs.read_inference(bad)
    with pytest.raises(DataFileError, match="none of the 2 pairs has a label"):
        gold_pairs.read_inference(write(tmp_path / "b.csv", "premise,hypothesis,label\np,h,-\np,h,-1\n"))
    with pytest.raises(DataFileError, match=r"c\.csv:2: expected a text in column 'hypothesis'"):
        gold_pairs.read_inference(write(tmp_path / "c.csv", "premise,hypothesis,label\np,,neutral\n"))


# biographies


def test_biographies_of_the_shared_data(shared_data) -> None:
    for name, rows, professions, women in (("bias_in_bios", 1023, 28, 393), ("wiki_career", 444, 8, 216)):
        path = DataFolder(shared_data).find(name)
        found, wanted = biographies.read_biographies(path), shared_rows(path)
        assert len(found.ids) == len(wanted) == rows
        assert found.ids == tuple(map(str, range(1, rows + 1)))
        assert found.texts == tuple(row["text"].strip() for row in wanted)
        assert found.labels == tuple(row["profession"] for row in wanted)
        assert Counter(found.groups) == {"female": women, "male": rows - women}
        assert found.names == tuple(row.get("name", "") for row in wanted)
        assert len(set(found.labels)) == professions
    assert set(biographies.PROFESSIONS) == set(
        biographies.read_biographies(DataFolder(shared_data).find("bias_in_bios")).labels
    )


def test_the_hub_form_of_biographies(tmp_path) -> None:
    rows = [
        {"hard_text": "She heals.", "profession": 13, "gender": 1},
        {"hard_text": "He counts.", "profession": 0, "gender": 0},
    ]
    found = biographies.read_biographies(write(tmp_path / "a.jsonl", jsonl(*rows)))
    assert found.labels == ("nurse", "accountant")
    assert found.groups == ("female", "male")
    rows[1]["profession"] = 28
    with pytest.raises(DataFileError, match=r"a\.jsonl:2: expected one of 0, 1, .*, 27 in column 'profession', got 28"):
        biographies.read_biographies(write(tmp_path / "a.jsonl", jsonl(*rows)))


@pytest.mark.parametrize("value", ["x", "0", 1, "women"])
def test_an_unknown_gender_names_the_value_and_those_allowed(tmp_path, value) -> None:
    rows = [{"text": "x", "profession": "poet", "gender": gender} for gender in ("F", "Male", value)]
    with pytest.raises(DataFileError, match=rf"a\.jsonl:3: expected one of f, female, m, male in .*, got {value!r}"):
        biographies.read_biographies(write(tmp_path / "a.jsonl", jsonl(*rows)))


def test_the_users_own_labelled_file(tmp_path) -> None:
    path = write(tmp_path / "a.csv", "id,review,stars,age,name\na,good,5,old,Ann\nb,bad,1,young,\n")
    found = biographies.read_labelled(path, "review", "stars", "age", groups=None)
    assert found == biographies.LabelledTexts(("a", "b"), ("good", "bad"), ("5", "1"), ("old", "young"), ("Ann", ""))
    found = biographies.read_labelled(path, "review", "stars", "age", groups={"old": "over 50", "young": "under 50"})
    assert found.groups == ("over 50", "under 50")
    with pytest.raises(DataFileError, match="no column 'text', 'label', 'group'; the columns are 'id', 'review'"):
        biographies.read_labelled(path)
    numbered = write(tmp_path / "b.csv", "text,label,group\nx,1,0\n")
    with pytest.raises(DataFileError, match=r"b\.csv:2: expected one of f, female, m, male in column 'group', got '0'"):
        biographies.read_labelled(numbered)


def test_an_id_of_a_text_stands_once(tmp_path) -> None:
    path = write(tmp_path / "a.jsonl", jsonl(*({"id": i, "text": "x", "label": 1, "group": "F"} for i in (1, 2, 1))))
    with pytest.raises(DataFileError, match=r"a\.jsonl:3: duplicate id '1' .first on line 1"):
        biographies.read_labelled(path)


# sentence pairs


def test_crows_pairs_of_the_shared_data(shared_data) -> None:
    path = DataFolder(shared_data).find("crows_pairs")
    pairs, wanted = sentence_pairs.read_crows_pairs(path), shared_rows(path)
    assert len(pairs) == len(wanted) == 1508
    assert [p.more for p in pairs] == [row["sent_more"].strip() for row in wanted]
    assert [p.id for p in pairs] == [row[""] for row in wanted]
    gender = [p for p in pairs if p.group == "gender"]
    assert Counter(p.direction for p in gender) == {"stereo": 159, "antistereo": 103}
    assert all(p.stereotypical for p in pairs)


def test_sent_more_is_the_stereotype_in_both_directions(tmp_path) -> None:
    rows = ",sent_more,sent_less,stereo_antistereo,bias_type\n7,He is a CEO.,She is a CEO.,antistereo,gender\n"
    (pair,) = sentence_pairs.read_crows_pairs(write(tmp_path / "a.csv", rows))
    assert pair == sentence_pairs.SentencePair("7", "He is a CEO.", "She is a CEO.", "gender", True, "antistereo")
    with pytest.raises(DataFileError, match=r"a\.csv:2: expected stereo or antistereo, got 'anti'"):
        sentence_pairs.read_crows_pairs(write(tmp_path / "a.csv", rows.replace(",antistereo,", ",anti,")))


def test_stereoset_of_the_shared_data_in_both_forms(shared_data, tmp_path) -> None:
    path = DataFolder(shared_data).find("stereoset")
    pairs, wanted = sentence_pairs.read_stereoset(path), shared_rows(path)
    assert Counter(p.group for p in pairs) == {"profession": 333, "gender": 83}
    for pair, row in zip(pairs, wanted, strict=True):
        by_label = {s["gold_label"]: s["sentence"].strip() for s in row["sentences"]}
        assert (pair.more, pair.less, pair.id) == (by_label["stereotype"], by_label["anti-stereotype"], row["id"])
    official = {"version": "1.1", "data": {"intrasentence": wanted, "intersentence": []}}
    assert sentence_pairs.read_stereoset(write(tmp_path / "dev.json.gz", json.dumps(official))) == pairs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"dev\.json:1: not valid JSON"),
        ('{"data": 1}', r"dev\.json:1: expected an object with data\.intrasentence"),
        ('{"data": {"intrasentence": []}}', "no rows"),
        ('{"data": {"intrasentence": [{"id": "x"}]}}', "entry 1 has not all of id, bias_type, sentences"),
        ('{"data": {"intrasentence": [{"id": "x", "bias_type": "gender", "sentences": null}]}}', "in entry 'x', got 0"),
    ],
)
def test_a_bad_stereoset(tmp_path, text, message) -> None:
    with pytest.raises(DataFileError, match=message):
        sentence_pairs.read_stereoset(write(tmp_path / "dev.json", text))


def test_bec_pro_of_the_shared_data(shared_data) -> None:
    path = DataFolder(shared_data).find("bec_pro")
    pairs, wanted = sentence_pairs.read_bec_pro(path), shared_rows(path)
    assert Counter((p.group, p.stereotypical) for p in pairs) == {
        ("male", True): 900,
        ("female", True): 900,
        ("balanced", None): 900,
    }
    gender = {row["Sentence"].strip(): row["Gender"] for row in wanted}
    assert len(gender) == 5400
    for pair in pairs:
        assert gender[pair.more] == ("female" if pair.group == "female" else "male")
        assert gender[pair.less] != gender[pair.more]
        assert pair.more.split()[-1] == pair.less.split()[-1]
    assert {s for p in pairs for s in (p.more, p.less)} == set(gender)
    assert len({p.id for p in pairs}) == 2700


def test_bec_pro_pairs_persons(tmp_path) -> None:
    head = "Sentence\tTemplate\tPerson\tGender\tProfession\tProf_Gender\n"
    rows = [
        f"{who} is a nurse.\tT\t{who}\t{gender}\tnurse\tfemale\n"
        for who, gender in (("He", "male"), ("My dad", "male"), ("My mom", "female"), ("She", "female"))
    ]
    path = tmp_path / "a.tsv"
    assert sentence_pairs.read_bec_pro(write(path, head + "".join(rows))) == (
        sentence_pairs.SentencePair("nurse / he / T", "She is a nurse.", "He is a nurse.", "female"),
        sentence_pairs.SentencePair("nurse / dad / T", "My mom is a nurse.", "My dad is a nurse.", "female"),
    )
    for bad, message in (
        (rows[:3], r"a\.tsv:2: no sentence of the other gender: nurse / he / T / female"),
        ([*rows, rows[1]], r"a\.tsv:6: duplicate of line 3: "),
        (
            [*rows[:3], rows[3].replace("She\tfemale", "She\tmale")],
            r"a\.tsv:5: expected a person .*, got 'She', 'male'",
        ),
        (
            [row.replace("nurse\tfemale", "nurse\tmixed") for row in rows],
            "expected Prof_Gender male, female or balanced",
        ),
    ):
        with pytest.raises(DataFileError, match=message):
            sentence_pairs.read_bec_pro(write(path, head + "".join(bad)))


def test_the_users_own_pairs(tmp_path) -> None:
    path = write(tmp_path / "a.csv", "stereotypical,anti_stereotypical\nA,B\nC,D\n")
    assert [(p.id, p.more, p.less, p.group) for p in sentence_pairs.read_own_pairs(path)] == [
        ("1", "A", "B", "all"),
        ("2", "C", "D", "all"),
    ]
    path = write(
        tmp_path / "b.jsonl", jsonl({"id": 4, "group": "work", "stereotypical": "A", "anti_stereotypical": "B"})
    )
    assert sentence_pairs.read_own_pairs(path) == (sentence_pairs.SentencePair("4", "A", "B", "work"),)
    for rows, message in (
        ("id,stereotypical,anti_stereotypical\nx,A,B\nx,C,D\n", r"c\.csv:3: duplicate id 'x' .first on line 2"),
        ("stereotypical,anti_stereotypical\nA,A\n", r"c\.csv:2: both sentences are 'A'"),
        ("stereotypical,anti_stereotypical\nA,\n", r"c\.csv:2: expected a text in column 'anti_stereotypical'"),
        ("stereotypical,anti\nA,B\n", r"c\.csv:1: no column 'anti_stereotypical'"),
    ):
        with pytest.raises(DataFileError, match=message):
            sentence_pairs.read_own_pairs(write(tmp_path / "c.csv", rows))


_EUROGEST = (
    "Language,GEST_sentence,French,French,German,German,stereotype_number\n"
    "Prompt,Unnamed,the man said,the woman said,the man said,the woman said,\n"
    '0,I am shy.," Je suis timide, et seul. "," Je suis timide, et seule. ",,,2\n'
    "1,I am strong.,Je suis fort.,Je suis forte.,Ich bin der Stärkste,Ich bin die Stärkste,8\n"
    "2,I lead.,Je suis directeur.,Je suis directrice.,,,13\n"
    "3,I care.,,,Ich bin der Gute,Ich bin die Gute,7\n"
    "4,,,,,,\n"
)


def test_eurogest_has_the_form_of_those_whom_a_stereotype_is_about(tmp_path) -> None:
    """The second French pair of men is left out: there is one of women."""
    pairs = sentence_pairs.read_own_pairs(write(tmp_path / "a.csv.gz", _EUROGEST))
    assert [(p.id, p.more, p.less, p.direction) for p in pairs] == [
        ("French 1", "Je suis fort.", "Je suis forte.", "8"),
        ("French 0", "Je suis timide, et seule.", "Je suis timide, et seul.", "2"),
        ("German 1", "Ich bin der Stärkste", "Ich bin die Stärkste", "8"),
        ("German 3", "Ich bin die Gute", "Ich bin der Gute", "7"),
    ]
    assert Counter(p.group for p in pairs) == {"French": 2, "German": 2}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("the man said,the woman said,\n", "the woman said,the man said,\n", r":2: expected the man said"),
        (",German,German,", ",German,Greek,", r":1: expected two columns of each language"),
        ("stereotype_number", "stereotype", r":1: expected two columns of each language"),
        ("fort.,Je suis forte.", "fort.,", r":4: expected a text in column 'the woman said', got ''"),
        ("fort.,Je suis forte.", "fort.,Je suis fort.", r":4: both sentences are 'Je suis fort.'"),
        (",8\n", ",17\n", r":4: expected a stereotype from 1 to 16, got '17'"),
        (",8\n", "\n", r":4: expected 7 cells, got 6"),
        ("3,I care.", "1,I care.", r":6: duplicate id 'German 1'"),
    ],
)
def test_a_bad_eurogest(tmp_path, old, new, message) -> None:
    assert old in _EUROGEST
    with pytest.raises(DataFileError, match=message):
        sentence_pairs.read_own_pairs(write(tmp_path / "a.csv", _EUROGEST.replace(old, new)))


def test_eurogest_without_both_kinds_has_no_pairs(tmp_path) -> None:
    lines = _EUROGEST.splitlines(keepends=True)
    for kept in (lines[:3], [*lines[:3], lines[-2]], lines[:2]):
        with pytest.raises(DataFileError, match="expected pairs of stereotypes of women and of men"):
            sentence_pairs.read_own_pairs(write(tmp_path / "a.csv", "".join(kept)))
    with pytest.raises(DataFileError, match=r":2: expected the man said and the woman said"):
        sentence_pairs.read_own_pairs(write(tmp_path / "a.csv", lines[0]))


def test_eurogest_of_the_shared_data(shared_data) -> None:
    path = shared_data / "eurogest" / "gest_translations_gender_sensitive.csv"
    if not path.is_file():
        pytest.skip(f"no EuroGEST: {path}")
    with path.open(encoding="utf-8-sig", newline="") as file:
        languages, _, *rows = csv.reader(file)
    pairs = sentence_pairs.read_own_pairs(path)
    for language in languages[2:-1:2]:
        column = languages.index(language)
        texts = {(row[column].strip(), row[column + 1].strip(), row[-1]) for row in rows if row[column]}
        read = [p for p in pairs if p.group == language]
        assert {
            (p.less, p.more, p.direction) if int(p.direction) < 8 else (p.more, p.less, p.direction) for p in read
        } <= texts
        assert 0 < 2 * sum(int(p.direction) < 8 for p in read) == len(read)
