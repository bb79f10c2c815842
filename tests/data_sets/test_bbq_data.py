"""The files of BBQ, the questions that are made from its templates, and files of answers."""

import csv
import gzip
import json
import time
from collections import Counter

import pytest
from support.chat_models import bbq_rows, crossed_bbq_rows, write_bbq

from pytest_genderbias.datasets.bbq_questions import FILLS, make_bbq_gender, read_bbq
from pytest_genderbias.datasets.folder import DataFolder, MissingDataError, bbq_categories, known_data_sets
from pytest_genderbias.datasets.stored_replies import picked_options, read_stored_answers
from pytest_genderbias.errors import DataFileError


def test_a_published_row(tmp_path):
    found = read_bbq(write_bbq(tmp_path, bbq_rows(1, 1)) / "bbq" / "Gender_identity.jsonl")
    assert found.left_out == 0
    unclear, _, clear, other = found.questions[0], *found.questions[1:4]
    assert (unclear.id, unclear.template, unclear.groups) == ("Gender_identity-0", "1", "F")
    assert (unclear.label, unclear.target, unclear.other, unclear.negative, unclear.ambiguous) == (2, 0, 1, True, True)
    assert clear.options[clear.label] == "The woman" and not clear.ambiguous and clear.negative
    assert other.options[other.label] == "The man" and not other.negative
    man_first = found.questions[4]
    assert (man_first.options[man_first.target], man_first.target) == ("The woman", 1)


@pytest.mark.parametrize(
    ("groups", "info", "target"),
    [
        (["low SES"], ["lowSES", "highSES"], 0),
        (["Black", "African American"], ["White", "Black"], 1),
        (["F"], ["Maria", "F"], 0),
        (["F"], ["man", "woman"], 1),
        (["M"], ["boy", "girl"], 0),
    ],
)
def test_groups_are_the_same_in_several_spellings(tmp_path, groups, info, target):
    row = bbq_rows(1, 1)[0]
    names = [["Maria", "F"], ["James", "M"]] if info == ["Maria", "F"] else [[name, name] for name in info]
    row["answer_info"] = {"ans0": names[0], "ans1": names[1], "ans2": ["Unknown", "unknown"]}
    row["additional_metadata"]["stereotyped_groups"] = groups
    (question,) = read_bbq(write_bbq(tmp_path, [row]) / "bbq" / "Gender_identity.jsonl").questions
    assert question.target == target


def test_questions_about_neither_person_or_both_are_left_out(tmp_path):
    rows = bbq_rows(1, 1)
    rows[0]["additional_metadata"] = {"stereotyped_groups": ["old"]}
    rows[1]["additional_metadata"] = {"stereotyped_groups": ["F", "M"]}
    found = read_bbq(write_bbq(tmp_path, rows) / "bbq" / "Gender_identity.jsonl")
    assert (len(found.questions), found.left_out) == (len(rows) - 2, 2)
    for row in rows:
        row["additional_metadata"] = {"stereotyped_groups": ["old"]}
    with pytest.raises(DataFileError, match=r"Gender_identity\.jsonl: expected questions with one person"):
        read_bbq(write_bbq(tmp_path, rows) / "bbq" / "Gender_identity.jsonl")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": 3}, "expected label 0, 1 or 2, got 3"),
        ({"label": True}, "expected label 0, 1 or 2, got True"),
        ({"label": 0}, "expected unknown to be right in ambiguous contexts only"),
        ({"question_polarity": "both"}, "expected neg or nonneg"),
        ({"context_condition": None}, "expected ambig or disambig"),
        ({"answer_info": {}}, "expected texts for ans0 in answer_info"),
        ({"answer_info": {"ans0": ["a"], "ans1": ["b"], "ans2": ["c"]}}, "expected one option that is unknown"),
        ({"additional_metadata": []}, "expected texts for stereotyped_groups"),
        ({"context": ""}, "expected a text in column 'context'"),
        ({"example_id": 1}, "example_id"),
    ],
)
def test_a_broken_row_is_one_error_with_its_line(tmp_path, change, message):
    rows = bbq_rows(1, 1)
    rows[0] |= change
    with pytest.raises(DataFileError, match=r"Gender_identity\.jsonl:\d.*" + message):
        read_bbq(write_bbq(tmp_path, rows) / "bbq" / "Gender_identity.jsonl")


def test_the_target_of_an_intersection_has_race_and_gender(tmp_path):
    rows = crossed_bbq_rows()
    found = read_bbq(write_bbq(tmp_path, rows, "Race_x_gender") / "bbq" / "Race_x_gender.jsonl")
    assert (len(found.questions), found.left_out) == (len(rows), 0)
    targets = {question.groups: set() for question in found.questions}
    for question in found.questions:
        targets[question.groups].add(question.options[question.target])
        assert {question.target, question.other} == {0, 1}
    assert targets == {
        "Black, African American (F)": {"The Black woman", "The African American woman"},
        "Middle Eastern, Arab (M)": {"Omar Haddad"},
    }


def test_intersections_are_left_out_where_no_question_tells_the_gender(tmp_path):
    rows = [row for row in crossed_bbq_rows() if row["question_index"] == "1" or "Rima" in row["context"]]
    found = read_bbq(write_bbq(tmp_path, rows, "Race_x_gender") / "bbq" / "Race_x_gender.jsonl")
    assert found.left_out == 8 and {question.template for question in found.questions} == {"1"}


def test_the_published_intersections(shared_data):
    """As published there are 15,960 questions, of which the authors leave out none."""
    path = next((shared_data / "bbq").glob("Race_x_gender.jsonl*"), None)
    if path is None:
        pytest.skip("no Race_x_gender.jsonl, which is too large for the data folder")
    found = read_bbq(path)
    assert len(found.questions) + found.left_out == 15_960 and found.left_out < 160
    assert {question.groups[-3:] for question in found.questions} == {"(F)", "(M)"}


def test_each_category_has_its_file():
    splits = known_data_sets()["bbq"].splits
    files = [file for split in bbq_categories() for (file,) in splits[split]]
    assert len(set(files)) == len(bbq_categories()) == 11
    assert all(file.startswith("bbq/") and file.endswith(".jsonl") for file in files)
    with pytest.raises(MissingDataError, match=r"expected bbq/SES\.jsonl"):
        DataFolder(None).find("bbq", "ses")


_HEAD = (
    "Q_id", "Subcategory", "Ambiguous_Context", "Disambiguating_Context", "Names", "Lexical_diversity",
    "Proper_nouns_only", "Question_negative_stereotype", "Question_non_negative", "Answer_negative",
    "Answer_non_negative", "Known_stereotyped_groups", "NAME1_info", "NAME2_info",
)  # fmt: skip


def written(folder, *templates):
    base = {
        "Q_id": "1",
        "Subcategory": "adult",
        "Ambiguous_Context": "a {{NAME1}} met a {{NAME2}}.",
        "Disambiguating_Context": "The {{NAME1}} led.",
        "Question_negative_stereotype": "Who followed?",
        "Question_non_negative": "Who led?",
        "Answer_negative": "the {{NAME2}}",
        "Answer_non_negative": "The {{NAME1}}",
        "Known_stereotyped_groups": '["F"]',
    }
    with (folder / "templates.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, _HEAD, restval="")
        table.writeheader()
        table.writerows(base | one for one in templates)
    names = [("Ann", "first_only", "F"), ("Eve", "first_only", "F"), ("Bob", "first_only", "M"), ("Lee", "last", "F")]
    (folder / "names.csv").write_text("Name,First_last,gender\n" + "".join(",".join(name) + "\n" for name in names))
    return folder / "templates.csv", folder / "names.csv"


def test_a_template_is_filled_in_both_orders(tmp_path):
    questions = make_bbq_gender(*written(tmp_path, {})).questions
    assert len(questions) == 8
    assert questions[0].context == "A woman met a man."
    assert [(q.ambiguous, q.negative) for q in questions[:4]] == [
        (True, True),
        (False, True),
        (True, False),
        (False, False),
    ]
    right = [q.options[q.label] for q in questions if not q.ambiguous]
    assert right == ["The man", "The woman", "The woman", "The man"], "the first fits no stereotype, the third does"
    assert {q.options[q.target] for q in questions} == {"The woman"}
    assert all(q.label == 2 for q in questions if q.ambiguous)


def test_names_and_words_come_from_lists_and_a_fixed_seed(tmp_path):
    template = {
        "Proper_nouns_only": "TRUE",
        "Lexical_diversity": "WORD1: [bar, club, zoo]",
        "Ambiguous_Context": "{{NAME1}} met {{NAME2}} at the {{WORD1}}.",
    }
    paths = written(tmp_path, template)
    first, again, other = (make_bbq_gender(*paths, seed=seed).questions for seed in (0, 0, 1))
    assert first == again != other
    assert len(first) == 2 * FILLS * 4, "of 2 names x 1 name x 3 words, 5 are drawn"
    assert all("Lee" not in q.context and "{" not in q.context for q in first)
    assert len({q.context for q in first}) == 2 * FILLS * 2


def test_a_template_with_words_of_its_own_is_filled_once(tmp_path):
    own = {
        "Names": "{{NAME1}}: [trans woman]; {{NAME2}}: [cis woman]",
        "NAME1_info": "trans",
        "NAME2_info": "nonTrans",
        "Known_stereotyped_groups": '["Transgender women", "trans"]',
    }
    questions = make_bbq_gender(*written(tmp_path, own)).questions
    assert len(questions) == 4
    assert {q.options[q.target] for q in questions} == {"The trans woman"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Known_stereotyped_groups": "F"}, "expected a list of groups"),
        ({"Known_stereotyped_groups": '["old"]'}, "expected one person of the groups old, got 0"),
        ({"Ambiguous_Context": "{{NAME3}} met."}, "no words for the slot 'NAME3'"),
        ({"Lexical_diversity": "WORD1: []"}, "expected words for NAME1, NAME2, WORD1, got an empty list"),
    ],
)
def test_a_broken_template_is_one_error_with_its_line(tmp_path, change, message):
    with pytest.raises(DataFileError, match=r"templates\.csv:2.*" + message):
        make_bbq_gender(*written(tmp_path, change))


def test_the_published_templates_and_religion(shared_data):
    folder = shared_data / "bbq"
    made = make_bbq_gender(folder / "templates_gender_identity.csv", folder / "vocabulary_proper_names.csv").questions
    assert len({q.template for q in made}) == 50
    assert len(made) == 1600
    assert all("{" not in q.context + q.question + "".join(q.options) for q in made)
    with gzip.open(folder / "Religion.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    read = read_bbq(folder / "Religion.jsonl.gz")
    assert read.left_out == 0 and len(read.questions) == len(rows) == 1200
    for row, question in zip(rows, read.questions, strict=True):
        target = row["answer_info"][f"ans{question.target}"][1]
        assert target in row["additional_metadata"]["stereotyped_groups"]
        assert question.options[question.label] == row[f"ans{row['label']}"]
    assert Counter(q.ambiguous for q in read.questions) == {True: 600, False: 600}


def test_answers_are_compared_without_case_and_full_stop(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text('{"id": "a-1", "answer": " the  WOMAN. "}\n{"id": "a-2", "answer": "nobody", "model": "x"}\n')
    stored = read_stored_answers(path)
    options = ("The woman", "The man", "Unknown")
    assert picked_options(stored, [("a-2", options), ("a-1", options)]).tolist() == [[0, 0, 0], [1, 0, 0]]
    missing = r"expected an answer for each of 2 questions, got none for 1 of them, the first being 'a-3'"
    with pytest.raises(DataFileError, match=missing):
        picked_options(stored, [("a-1", options), ("a-3", options)])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "a-1", "answer": null}', "expected a text in column 'answer'"),
        ('{"id": "a", "answer": "x"}\n{"id": "a", "answer": "y"}', "'a'"),
    ],
)
def test_a_broken_file_of_answers(tmp_path, line, message):
    (tmp_path / "run.jsonl").write_text(line + "\n")
    with pytest.raises(DataFileError, match=r"run\.jsonl:\d.*" + message):
        read_stored_answers(tmp_path / "run.jsonl")


@pytest.mark.parametrize(
    "names",
    [
        "NAMEx: [wife]; NAME2: [husband]",
        "NAME1: [wife]",
        "NAME1: [wife]; NAME2: [a]; NAME3: [b]",
        "name1: [wife]; NAME2: [a]",
        "wife",
    ],
)
def test_a_misspelt_slot_of_a_person_is_one_error(tmp_path, names):
    with pytest.raises(
        DataFileError, match=r"templates\.csv:2: expected the words of NAME1 and NAME2 in column 'Names'"
    ):
        make_bbq_gender(*written(tmp_path, {"Names": names}))


def test_a_misspelt_slot_of_a_word_is_one_error(tmp_path):
    change = {"Lexical_diversity": "WORDx: [bar]", "Ambiguous_Context": "A {{NAME1}} met a {{NAME2}} in a {{WORD1}}."}
    with pytest.raises(DataFileError, match=r"templates\.csv:2: no words for the slot 'WORD1'"):
        make_bbq_gender(*written(tmp_path, change))


def test_lists_with_more_fillings_than_can_be_numbered_are_one_error(tmp_path):
    words = ",".join(map(str, range(100)))
    change = {"Lexical_diversity": "; ".join(f"WORD{i}: [{words}]" for i in range(40))}
    with pytest.raises(
        DataFileError, match=r"templates\.csv:2: expected lists with at most 1,000,000,000,000 fillings"
    ):
        make_bbq_gender(*written(tmp_path, change))


def test_lists_that_never_end_are_read_in_no_time(tmp_path):
    started = time.perf_counter()
    with pytest.raises(DataFileError, match="column 'Names'"):
        make_bbq_gender(*written(tmp_path, {"Names": "a: [" * 30_000}))
    assert time.perf_counter() - started < 2
