"""Tables of predictions from real small files of each format, and every way in which one can be wrong."""

import csv
import gzip
import hashlib
import io
import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.models.predictions import (
    Predictions,
    looks_like_predictions,
    predictions_of,
    read_predictions,
    same_ids,
)

ROWS = [
    {"id": "b1", "prediction": "nurse", "gold": "nurse", "group": "F"},
    {"id": "b2", "prediction": "judge", "gold": "nurse", "group": "Male"},
    {"id": "b3", "prediction": "poet, playwright", "gold": "judge", "group": "female"},
    {"id": "b4", "prediction": "nurse", "gold": "judge", "group": "nonbinary"},
]
PROBABILITIES = [[0.25, 0.625, 0.125], [0.5, 0.3, 0.2], [0, 0, 1], [0.6, 0.4, 0]]
LABELS = ("judge", "nurse", "poet, playwright")
FORMATS = ["csv", "csv.gz", "tsv", "tsv.gz", "jsonl", "jsonl.gz", "parquet"]


def write(path, rows):
    """Write rows in the format that the path's name says."""
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        return path
    buffer = io.StringIO(newline="")
    if name.endswith(".jsonl"):
        buffer.writelines(json.dumps(row) + "\n" for row in rows)
    elif name.endswith(".tsv"):
        buffer.writelines("\t".join(map(str, cells)) + "\n" for cells in [rows[0], *(row.values() for row in rows)])
    else:
        table = csv.DictWriter(buffer, rows[0])
        table.writeheader()
        table.writerows(rows)
    content = buffer.getvalue().encode()
    path.write_bytes(gzip.compress(content) if path.name.endswith(".gz") else content)
    return path


def with_columns(prefix="p_", labels=LABELS, numbers=PROBABILITIES):
    return [
        row | {prefix + label: p for label, p in zip(labels, numbers[i], strict=True)} for i, row in enumerate(ROWS)
    ]


def with_mapping(numbers=PROBABILITIES):
    # The order of the labels differs from row to row.
    pairs = [list(zip(LABELS, row, strict=True)) for row in numbers]
    return [row | {"probabilities": dict(pairs[i][:: (-1) ** i])} for i, row in enumerate(ROWS)]


def assert_equal(one: Predictions, other: Predictions) -> None:
    assert (one.ids, one.labels, one.groups) == (other.ids, other.labels, other.groups)
    for name in ("predicted", "gold", "group", "probabilities"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("form", FORMATS)
def test_every_format(form, tmp_path):
    path = write(tmp_path / f"run.{form}", ROWS)
    assert looks_like_predictions(path) == "class-predictions"
    predictions = read_predictions(path)
    assert predictions.ids == ("b1", "b2", "b3", "b4")
    assert predictions.labels == LABELS
    assert predictions.predicted.tolist() == [1, 0, 2, 1] and predictions.gold.tolist() == [1, 1, 0, 0]
    assert predictions.groups == ("female", "male", "nonbinary") and predictions.group.tolist() == [0, 1, 0, 2]
    assert predictions.probabilities is None
    assert predictions.fingerprint == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("prefix", ["p_", "probability_"])
def test_probabilities_in_columns(form, prefix, tmp_path):
    turned = with_columns(prefix, LABELS[::-1], [row[::-1] for row in PROBABILITIES])
    probabilities = read_predictions(write(tmp_path / f"run.{form}", turned)).probabilities
    assert probabilities.dtype == np.float32
    np.testing.assert_array_equal(probabilities, np.asarray(PROBABILITIES, np.float32))


@pytest.mark.parametrize("form", ["jsonl", "jsonl.gz", "parquet"])
def test_probabilities_in_a_mapping(form, tmp_path):
    predictions = read_predictions(write(tmp_path / f"run.{form}", with_mapping()))
    np.testing.assert_array_equal(predictions.probabilities, np.asarray(PROBABILITIES, np.float32))


def test_csv_and_json_lines_are_equal_but_for_their_bytes(tmp_path):
    table = read_predictions(write(tmp_path / "run.csv", with_columns()))
    lines = read_predictions(write(tmp_path / "run.jsonl", with_mapping()))
    assert_equal(table, lines)
    assert table.fingerprint != lines.fingerprint
    renamed = read_predictions(write(tmp_path / "other-name.csv", with_columns()))
    assert table.fingerprint == renamed.fingerprint


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from(["F", "m", "x"])), min_size=1, max_size=8)
)
def test_whole_numbers_are_labels_as_text_is(tmp_path_factory, cells):
    rows = [{"id": i, "prediction": p, "label": y, "gender": g} for i, (p, y, g) in enumerate(cells)]
    folder = tmp_path_factory.mktemp("any")
    lines = read_predictions(write(folder / "run.jsonl", rows))
    assert_equal(lines, read_predictions(write(folder / "run.csv", rows)))
    assert [int(lines.labels[code]) for code in lines.predicted] == [p for p, _, _ in cells]
    assert [int(lines.labels[code]) for code in lines.gold] == [y for _, y, _ in cells]
    assert [lines.groups[code][0].upper() for code in lines.group] == [g.upper() for _, _, g in cells]
    assert list(lines.labels) == sorted({str(x) for p, y, _ in cells for x in (p, y)})


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_gold_and_group_come_before_their_other_names(form, tmp_path):
    rows = [row | {"label": "other", "gender": "other", "text": "is passed over"} for row in ROWS]
    predictions = read_predictions(write(tmp_path / f"run.{form}", rows))
    assert "other" not in predictions.labels and "other" not in predictions.groups


def test_labels_are_sorted_as_texts(tmp_path):
    rows = [{"id": i, "prediction": p, "gold": 2, "group": "F"} for i, p in enumerate([10, 2, 9])]
    assert read_predictions(write(tmp_path / "run.jsonl", rows)).labels == ("10", "2", "9")


def test_a_prediction_need_not_be_the_most_probable_label(tmp_path):
    numbers = [[0, 0, 1], *PROBABILITIES[1:]]
    predictions = read_predictions(write(tmp_path / "run.csv", with_columns(numbers=numbers)))
    assert predictions.labels[predictions.predicted[0]] == "nurse" and predictions.probabilities[0].tolist() == [
        0,
        0,
        1,
    ]


def test_rounded_probabilities_are_taken(tmp_path):
    numbers = [[0.333, 0.333, 0.333], [0.3335, 0.3335, 0.3335], *PROBABILITIES[2:]]
    assert read_predictions(write(tmp_path / "run.csv", with_columns(numbers=numbers))).probabilities is not None


# Wrong files


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("id,prediction,gold,group\n1,a,a,F\n2,a,b,M\n1,b,b,M\n", ":4", "duplicate id '1' (first on line 2)"),
        ("id,prediction,gold\n1,a,a\n", ":1", "no column 'group'; the columns are 'id', 'prediction', 'gold'"),
        ("id,prediction,group\n1,a,F\n", ":1", "no column 'gold'"),
        ("id,gold,group\n1,a,F\n", ":1", "no column 'prediction'"),
        ("prediction,gold,group\na,a,F\n", ":1", "no column 'id'"),
        ("id,prediction,gold,group\n", "", "no rows"),
        ("", "", "no rows"),
        ("id,prediction,gold,group\n1,a,a,F\n2,,b,M\n", ":3", "in column 'prediction', got ''"),
        ("id,prediction,label,gender\n1,a,a,F\n2,a, ,M\n", ":3", "in column 'label', got ' '"),
        ("id,prediction,label,gender\n1,a,a,\n", ":2", "in column 'gender', got ''"),
        ("id,prediction,gold,group\n,a,a,F\n", ":2", "in column 'id', got ''"),
        ("id,prediction,gold,group\n1,a,a\n", ":2", "expected 4 cells"),
        ("id,prediction,gold,group,p_a,p_b\n1,a,b,F,.5,.5\n2,a,b,M,1.5,-.5\n", ":3", "of 'a' is 1.5, expected 0 to 1"),
        ("id,prediction,gold,group,p_a,p_b\n1,a,b,F,.5,nan\n", ":2", "the probability of 'b' is nan"),
        ("id,prediction,gold,group,p_a,p_b\n1,a,b,F,.5,.4\n", ":2", "the probabilities sum to 0.9, expected 1"),
        ("id,prediction,gold,group,p_a,p_b\n1,a,b,F,.5,.502\n", ":2", "sum to 1.002"),
        ("id,prediction,gold,group,p_a,p_b\n1,a,b,F,.5,half\n", ":2", "a number as the probability of 'b', got 'half'"),
        ("id,prediction,gold,group,p_a,p_b\n1,a,b,F,.5,\n", ":2", "a number as the probability of 'b', got ''"),
        ("id,prediction,gold,group,p_a\n1,a,b,F,1\n", ":2", "no probability for the labels 'b'; it has those of 'a'"),
        ("id,prediction,gold,group,p_a,p_b,p_c\n1,a,b,F,1,0,0\n", ":2", "probabilities for 'c', which no row has"),
        ("id,prediction,gold,group,p_a,probability_a\n1,a,a,F,1,1\n", ":1", "both give the probability of 'a'"),
        ("id,prediction,gold,group,p_a,probabilities\n1,a,a,F,1,1\n", ":1", "expected one of the two"),
        ("id,prediction,gold,group,probabilities\n1,a,a,F,1\n", ":2", "expected a mapping from labels to numbers"),
    ],
)
def test_wrong_csv_files(text, line, message, tmp_path):
    path = tmp_path / "run.csv"
    path.write_text(text)
    with pytest.raises(DataFileError) as caught:
        read_predictions(path)
    assert str(caught.value).startswith(f"{path}{line}: ") and message in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gold": None}, r":2: expected a text or a whole number in column 'gold', got None"),
        ({"gold": True}, r":2: .* 'gold', got True"),
        ({"prediction": 1.0}, r":2: .* 'prediction', got 1\.0"),
        ({"prediction": ["nurse"]}, r":2: .* got \['nurse'\]"),
        ({"id": "b1"}, r":2: duplicate id 'b1' .first on line 1"),
        ({"probabilities": None}, r":2: expected a mapping .* got None"),
        ({"probabilities": [0.5, 0.25, 0.25]}, r":2: expected a mapping"),
        ({"probabilities": {}}, r":2: no probability for the labels 'judge', 'nurse', .* it has those of none"),
        (
            {"probabilities": {"judge": 1, "Nurse": 0, "poet, playwright": 0}},
            r":2: no probability for the labels 'nurse'",
        ),
        ({"probabilities": dict.fromkeys(LABELS, True)}, r":2: expected a number .* got True"),
        ({"probabilities": dict.fromkeys(LABELS, 10**400)}, r":2: expected a number"),
        ({"probabilities": dict.fromkeys(LABELS, float("nan"))}, r":2: the probability of 'judge' is nan"),
    ],
)
def test_wrong_json_lines(change, message, tmp_path):
    rows = with_mapping()
    rows[1] |= change
    with pytest.raises(DataFileError, match=message):
        read_predictions(write(tmp_path / "run.jsonl", rows))


def test_json_lines_lacking_a_key_in_a_later_row(tmp_path):
    rows = with_mapping()
    del rows[2]["gold"]
    with pytest.raises(DataFileError, match=r"run\.jsonl:3: no column 'gold'"):
        read_predictions(write(tmp_path / "run.jsonl", rows))
    rows = with_mapping()
    del rows[3]["probabilities"]
    with pytest.raises(DataFileError, match=r"run\.jsonl:4: expected a mapping .* got None"):
        read_predictions(write(tmp_path / "run.jsonl", rows))
    rows = with_mapping()
    del rows[0]["probabilities"]
    with pytest.raises(DataFileError, match=r"run\.jsonl:1: expected a mapping .* got None"):
        read_predictions(write(tmp_path / "run.jsonl", rows))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("run.jsonl", b"{", r"run\.jsonl:1: not valid JSON"),
        ("run.jsonl", b"[1]\n", r"run\.jsonl:1: expected a JSON object"),
        ("run.jsonl", b"3\n", r"run\.jsonl:1: expected a JSON object"),
        ("run.csv", b"\xff\n", r"run\.csv:1: not UTF-8"),
        ("run.csv.gz", gzip.compress(b"id,prediction\n" * 99, mtime=0)[:-9], r"run\.csv\.gz:\d+: "),
        ("run.xlsx", b"", r"run\.xlsx: expected a table whose name ends in"),
        ("run.parquet", b"no parquet", r"run\.parquet: cannot be read"),
    ],
)
def test_files_that_cannot_be_read(name, content, message, tmp_path):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataFileError, match=message):
        read_predictions(tmp_path / name)


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_that_is_not_there(form, tmp_path):
    path = tmp_path / f"run.{form}"
    assert looks_like_predictions(path) is None
    with pytest.raises(DataFileError, match="no such file"):
        read_predictions(path)


# Kinds


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"id": 1, "prediction": "a", "gold": "a", "group": "F"}, "class-predictions"),
        ({"id": 1, "gold": [[0, 3]], "clusters": []}, "coreference-predictions"),
        ({"id": 1, "pronoun_scores": {}, "prediction": "a"}, "coreference-predictions"),
        ({"text": "no predictions"}, None),
    ],
)
@pytest.mark.parametrize("name", ["run.jsonl", "RUN.JSONL.gz"])
def test_json_lines_are_told_by_their_first_row(name, row, kind, tmp_path):
    assert looks_like_predictions(write(tmp_path / name.lower(), [row, {"id": 2}])) == kind


def test_other_files_hold_no_predictions(tmp_path):
    (tmp_path / "run.txt").write_text("id,prediction\n")
    (tmp_path / "run.csv").mkdir()
    assert looks_like_predictions(tmp_path / "run.txt") is None and looks_like_predictions(tmp_path / "run.csv") is None
    (tmp_path / "run.jsonl").write_text("clusters\n")
    with pytest.raises(DataFileError, match=r"run\.jsonl:1: not valid JSON"):
        looks_like_predictions(tmp_path / "run.jsonl")


def test_real_coreference_output_is_told(shared_data):
    path = shared_data / "coref_predictions" / "neuralcoref_winogender.jsonl.gz"
    assert looks_like_predictions(path) == "coreference-predictions"


# Ids


def test_the_same_ids_in_any_order_pass():
    same_ids(("a", "b", "c"), ("c", "a", "b"))


@pytest.mark.parametrize(
    ("stored", "ids", "message"),
    [
        (["a", "b", "c"], ["c", "a"], r"1 of 3 ids is missing \('b'\); predict"),
        (["a"], ["a", "z"], r"baseline: 1 is new \('z'\); predict"),
        (
            list("abcdefgh"),
            ["x", "y"],
            r"8 of 8 ids are missing \('a', 'b', 'c', 'd', 'e', \.\.\.\), 2 are new \('x', 'y'\)",
        ),
    ],
)
def test_other_ids_are_refused(stored, ids, message):
    with pytest.raises(DataFileError, match=message):
        same_ids(stored, ids)


# In memory


def dataframe(rows):
    return pytest.importorskip("pandas", reason="needs pandas").DataFrame(rows)


IN_MEMORY = pytest.mark.parametrize("table", [list, dataframe], ids=["list", "DataFrame"])


def bios_rows(n=400):
    random = np.random.default_rng(5)
    jobs = ("nurse", "judge", "poet", "pilot")
    rows = []
    for i in range(n):
        gold, woman = int(random.integers(4)), bool(random.integers(2))
        predicted = gold if random.random() < 0.7 + 0.1 * woman * (gold % 2) else int(random.integers(4))
        numbers = random.dirichlet(np.ones(4)).tolist()
        rows.append(
            {"id": f"b{i}", "prediction": jobs[predicted], "gold": jobs[gold], "group": "F" if woman else "M"}
            | {f"p_{job}": p for job, p in zip(jobs, numbers, strict=True)}
        )
    return rows


@IN_MEMORY
@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_table_in_memory_gives_the_figures_of_the_file_bit_for_bit(table, form, tmp_path):
    rows = bios_rows()
    path = write(tmp_path / f"run.{form}", rows)
    assert_equal(predictions_of(table(rows)), read_predictions(path))
    expected, m = measure("bios", str(path)), measure("bios", table(rows))
    assert m.values == expected.values
    assert m.intervals == expected.intervals
    assert m.bounds == expected.bounds
    assert m.records == expected.records
    assert m.signature["data"] == expected.signature["data"]
    assert m.model == "predictions"
    assert load_model(table(rows), name="run-7").name == "run-7"


@IN_MEMORY
@pytest.mark.parametrize("rows", [ROWS, with_columns(), with_mapping()], ids=["plain", "columns", "mapping"])
def test_every_form_in_memory(table, rows, tmp_path):
    predictions = predictions_of(table(rows))
    assert_equal(predictions, read_predictions(write(tmp_path / "run.jsonl", rows)))
    assert str(predictions.path) == "<table>"
    reordered = [dict(reversed(row.items())) for row in rows]
    assert predictions_of(table(reordered)).fingerprint == predictions.fingerprint
    changed = [*rows[:-1], rows[-1] | {"prediction": "judge"}]
    assert predictions_of(table(changed)).fingerprint != predictions.fingerprint


def test_cells_that_numpy_and_pandas_make():
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    rows = [
        {
            "id": np.int64(i),
            "prediction": np.int32(i % 2),
            "gold": np.str_("1"),
            "group": "F",
            "p_0": np.float32(0.25),
            "p_1": np.float64(0.75),
        }
        for i in range(3)
    ]
    predictions = predictions_of(rows)
    assert (predictions.ids, predictions.labels) == (("0", "1", "2"), ("0", "1"))
    assert predictions.probabilities.tolist() == [[0.25, 0.75]] * 3
    mapped = [
        {k: v for k, v in row.items() if k[:2] != "p_"} | {"probabilities": {0: np.float32(0.25), 1: 0.75}}
        for row in rows
    ]
    assert_equal(predictions_of(mapped), predictions)
    frame = pandas.DataFrame(rows).astype({"gold": "category", "group": "string", "prediction": "Int64"})
    assert_equal(predictions_of(frame), predictions)


@IN_MEMORY
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows[2].pop("gold"), r"<table>:3: .*'gold'"),
        (lambda rows: [row.pop("prediction") for row in rows], r"<table>:1: no column 'prediction'"),
        (lambda rows: rows[1].update(id="b1"), r"<table>:2: duplicate id 'b1'"),
        (
            lambda rows: rows[3].update(prediction=" "),
            r"<table>:4: expected a text or a whole number in column 'prediction'",
        ),
        (lambda rows: rows[3].update(group=None), r"<table>:4: expected a text or a whole number in column 'group'"),
        (lambda rows: rows[0].update({"p_judge": 0.9}), r"<table>:1: the probabilities sum to 1.65"),
        (lambda rows: rows[0].update({"p_judge": float("nan")}), r"<table>:1: the probability of 'judge' is nan"),
        (
            lambda rows: [row.update(probability_judge=0.1) for row in rows],
            r"<table>:1: the columns 'p_judge' and 'probability_judge'",
        ),
    ],
    ids=["missing cell", "missing column", "repeated id", "empty", "none", "sum", "nan", "twice"],
)
def test_a_wrong_table_in_memory_names_its_row(table, change, words):
    rows = with_columns()
    change(rows)
    with pytest.raises(DataFileError, match=words):
        load_model(table(rows))


@pytest.mark.parametrize("empty", [list, dataframe])
def test_an_empty_table(empty):
    with pytest.raises(DataFileError, match="<table>: the table has no rows"):
        load_model(empty([]))


def test_pandas_is_not_imported_for_a_list_of_rows():
    script = (
        f"import sys\nfrom pytest_genderbias import measure\nmeasure('bios', {bios_rows(60)!r})\nassert 'pandas' not in"
        " sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
