"""Readers of the coreference data sets: small files made here, each error, and the real files where they are at
hand.
"""

import gzip
import json
import math
import re
from collections import Counter

import numpy as np
import pytest

from pytest_genderbias import measure
from pytest_genderbias.datasets.conll import read_conll
from pytest_genderbias.datasets.coreference_output import (
    is_linked,
    outputs_for,
    read_coreference_output,
    scores_with_pronoun,
)
from pytest_genderbias.datasets.mentions import find_words, gender_of_pronoun, is_mention_of, with_determiner, words_of
from pytest_genderbias.datasets.pronoun_sentences import read_gap, read_winobias, read_winogender
from pytest_genderbias.errors import DataFileError, NotApplicableError
from pytest_genderbias.statistics.coreference_scores import (
    conll_f1,
    document_counts,
    likelier_profession,
    linked_profession,
)

SIDES = [(kind, side) for kind in (1, 2) for side in ("pro", "anti")]


def write(folder, name, *lines):
    path = folder / name
    text = "".join(line + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


# Mentions


@pytest.mark.parametrize(
    ("mention", "person", "same"),
    [
        ("The baker", "baker", True),
        ("baker", "The baker", True),
        ("The baker's", "The baker", True),
        ("The baker's kitchen", "The baker", False),
        ("The baker's kitchen", "kitchen", False),
        ("a cook who sang", "a cook", True),
        ("cook", "a cook who", False),
    ],
)
def test_which_mentions_are_of_a_person(mention, person, same):
    text = "The baker's kitchen pleased a cook who sang."
    spans = [(text.index(words), text.index(words) + len(words)) for words in (mention, person)]
    assert is_mention_of(text, *spans) is same


def test_possessives_written_apart():
    text = "The baker 's kitchen is small."
    assert is_mention_of(text, (0, 12), (0, 9)) and not is_mention_of(text, (0, 20), (0, 9))


def test_pronouns_in_all_forms():
    assert [gender_of_pronoun(w) for w in ("Himself", "hers", "their", "xem", "its")] == [
        "male",
        "female",
        "neutral",
        "neo",
        None,
    ]


def test_words_are_found_whole():
    assert find_words("The cook was cooking with a Cook.", ["cook"]) == [(4, 8), (28, 32)]
    assert with_determiner("breathe cook", (8, 12)) == (8, 12)


# WinoBias

PRO_1 = "pro_stereotyped_type1.txt.dev"


def test_a_sentence_of_winobias(tmp_path):
    lines = [
        "1 The CEO met [the construction worker] because [he] lost [his] key, a good nurse.",
        "",
        "7 [A nurse] met the CEO, [she] said.",
    ]
    first, second = read_winobias(write(tmp_path, "anti_stereotyped_type2.txt.test.gz", *lines))
    assert first.text == "The CEO met the construction worker because he lost his key, a good nurse."
    assert [words_of(first.text, s) for s in (first.gold, first.other, *first.pronouns)] == [
        "the construction worker",
        "The CEO",
        "he",
        "his",
    ]
    assert (first.id, first.professions, first.gender) == ("test-type2-anti-1", ("construction worker", "CEO"), "male")
    assert (second.id, second.line, second.type, second.stereotype) == ("test-type2-anti-7", 3, 2, "anti")
    assert words_of(second.text, second.gold) == "A nurse"


def test_sentences_without_numbers_are_named_by_their_lines(tmp_path):
    path = write(
        tmp_path, PRO_1, "[The cook] met the nurse because [he] cooked.", "The cook met [the nurse] as [she] left."
    )
    assert [s.id for s in read_winobias(path)] == ["dev-type1-pro-1", "dev-type1-pro-2"]


@pytest.mark.parametrize(
    ("marked", "gold"),
    [
        ("The cook met the [ nurse] and [she] left.", "the  nurse"),
        ("The cook met the [the nurse] and [she] left.", "the nurse"),
        ("The cook met the [nurse] 's friend and [she] left.", "the nurse"),
    ],
)
def test_the_determiner_belongs_to_the_profession(tmp_path, marked, gold):
    (sentence,) = read_winobias(write(tmp_path, PRO_1, f"1 {marked}"))
    assert sentence.text == marked.replace("[", "").replace("]", "")
    assert words_of(sentence.text, sentence.gold) == gold
    assert sentence.professions == ("nurse", "cook")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1 [The cook met the nurse because [he] left.", r":1: expected brackets that open and close in turn"),
        ("1 [The cook] met the nurse because he] left.", r":1: expected brackets"),
        ("1 [The cook] met the nurse because [he left.", r":1: expected brackets"),
        (
            "1 The cook met the nurse.",
            r":1: expected one profession and at least one pronoun in brackets, got no brackets",
        ),
        (
            "1 [The cook] met [the nurse] because [he] left.",
            r":1: expected one profession .* got 'The cook', 'the nurse', 'he'",
        ),
        ("1 [The cook] met the nurse because [it] left.", r"got 'The cook', 'it'; the pronouns are he, him"),
        (
            "1 [The cook] met the nurse because [he] lost [her] key.",
            r"pronouns of one gender in brackets, got female and male",
        ),
        ("1 [The poet] met the nurse because [he] left.", r"expected a profession of the list .* got 'poet'"),
        (
            "1 [The cook] met the poet because [he] left.",
            r":1: expected a second profession .* beside 'cook', got none",
        ),
    ],
)
def test_lines_that_are_no_winobias(tmp_path, line, said):
    with pytest.raises(DataFileError, match=said):
        read_winobias(write(tmp_path, PRO_1, line))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            "The assistant scanned (documents) for [the analyst] because [she] needed (them).",
            r"got '\(documents\)' in round",
        ),
        ("The mechanic fixed the [houskeeper] 's car and then [he] wrote a thankful note.", "got 'houskeeper'"),
        ("[The supervisor] yelled at the cachier because [she] liked to pick on [her] employees.", "second profession"),
        (
            "The physician owed the cashier money because [he] paid for the vodka.",
            "one profession and at least one pronoun",
        ),
        ("The janitor cleaned [the librarian 's] room and [he] was grateful.", "librarian 's"),
    ],
)
def test_the_first_release_of_winobias_is_refused_with_its_name(tmp_path, line, problem):
    read = "[The ceo] helped the nurse because [she] wanted to help."
    named = r"; the first release of WinoBias \(2018\), .*; take the present files from https"
    with pytest.raises(DataFileError, match=rf"{re.escape(PRO_1)}:2: .*{problem}.*{named}"):
        read_winobias(write(tmp_path, PRO_1, read, line))
    if "(" in line:
        assert len(read_winobias(write(tmp_path, PRO_1, f"1 {read}", f"2 {line}"))) == 2, (
            "numbered: whoever wrote it meant it"
        )
    else:
        with pytest.raises(DataFileError, match=problem) as error:
            read_winobias(write(tmp_path, PRO_1, f"1 {read}", f"2 {line}"))
        assert "first release" not in str(error.value)


def test_files_that_are_no_winobias(tmp_path):
    line = "1 [The cook] met the nurse because [he] left."
    with pytest.raises(DataFileError, match=r"expected a file named .pro,anti"):
        read_winobias(write(tmp_path, "dev.txt", line))
    with pytest.raises(DataFileError, match="expected sentences, got an empty file"):
        read_winobias(write(tmp_path, PRO_1))
    with pytest.raises(DataFileError, match=r"dev:2: duplicate id 'dev-type1-pro-1' .first on line 1"):
        read_winobias(write(tmp_path, PRO_1, line, line))


@pytest.fixture(scope="module")
def winobias(shared_data):
    return {
        (kind, side): read_winobias(shared_data / "winobias" / f"{side}_stereotyped_type{kind}.txt.dev")
        for kind, side in SIDES
    }


def test_the_whole_dev_split_of_winobias(winobias):
    sentences = [s for part in winobias.values() for s in part]
    assert [len(part) for part in winobias.values()] == [396] * 4
    assert len({s.id for s in sentences}) == 4 * 396
    assert Counter(len(s.pronouns) for s in sentences) == {1: 1554, 2: 30}
    assert all(
        words_of(s.text, span).lower().startswith(("the ", "a ")) for s in sentences for span in (s.gold, s.other)
    )
    for s in sentences:
        for span, profession in zip((s.gold, s.other), s.professions, strict=True):
            assert words_of(s.text, span).split(maxsplit=1)[1].lower() == profession.lower()


def test_pro_and_anti_differ_in_the_pronoun_only(winobias):
    for kind in (1, 2):
        pro, anti = ({s.professions for s in winobias[kind, side]} for side in ("pro", "anti"))
        assert len(pro ^ anti) <= 2  # a few lines were mended on one side only
        assert Counter(s.gender for s in winobias[kind, "pro"]) == {"female": 198, "male": 198}


def test_winobias_agrees_with_its_conll_form(shared_data, winobias):
    for kind, side in SIDES:
        word = "stereotype" if side == "pro" else "not_stereotype"
        path = shared_data / "winobias" / "conll" / f"dev_type{kind}_{side}_stereotype.v4_auto_conll.gz"
        documents = {d.id: d for d in read_conll(path)}
        for number, sentence in enumerate(winobias[kind, side]):
            document = documents[f"(nw/dev_type{kind}/{word}//{number}); part 000"]
            theirs = [[words_of(document.text, span) for span in cluster] for cluster in document.clusters]
            ours = [words_of(sentence.text, span) for span in sorted((sentence.gold, *sentence.pronouns))]
            assert theirs in ([ours], [[ours[0].split()[-1], *ours[1:]]]), sentence.id


# Winogender


def test_a_template_makes_six_sentences(tmp_path):
    header = "occupation(0)\tother-participant(1)\tanswer\tsentence"
    template = "A $PARTICIPANT told the $OCCUPATION that $NOM_PRONOUN was late, not the $PARTICIPANT."
    sentences = read_winogender(write(tmp_path, "templates.tsv", header, f"nurse\tpatient\t1\t{template}"))
    assert [s.id for s in sentences] == [
        f"nurse.{who}.1.{gender}.txt" for who in ("patient", "someone") for gender in ("male", "female", "neutral")
    ]
    last = sentences[-1]
    assert last.text == "Someone told the nurse that they were late, not someone."
    assert [words_of(last.text, s) for s in (last.occupation, last.participant, last.pronoun)] == [
        "the nurse",
        "Someone",
        "they",
    ]
    assert (last.names, last.answer, last.women_share) == (("nurse", "someone"), 1, 89.58)
    assert words_of(sentences[1].text, sentences[1].participant) == "A patient"


def test_winogender_sentences_and_templates_agree(shared_data):
    folder = shared_data / "winogender"
    sentences = read_winogender(folder / "all_sentences.tsv")
    assert sentences == read_winogender(folder / "templates.tsv")
    assert Counter((s.gender, s.answer, s.names[1] == "someone") for s in sentences) == {
        (g, a, someone): 30 for g in ("male", "female", "neutral") for a in (0, 1) for someone in (True, False)
    }
    for s in sentences:
        assert words_of(s.text, s.occupation).split()[-1] == s.names[0]
        assert words_of(s.text, s.participant).split()[-1].lower() == s.names[1]


GOOD_ID = "nurse.patient.1.female.txt"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["sentid\ttext", f"{GOOD_ID}\tx"], r":1: no column 'sentence'"),
        (["sentid\tsentence"], "no rows"),
        (["sentid\tsentence", "nurse.1.female\tx"], r":2: expected a sentid such as"),
        (
            ["sentid\tsentence", "nurse.patient.1.other.txt\tx"],
            r":2: expected a sentid .* got 'nurse.patient.1.other.txt'",
        ),
        (["sentid\tsentence", "poet.patient.1.female.txt\tx"], r"expected an occupation of the list .* got 'poet'"),
        (
            ["sentid\tsentence", f"{GOOD_ID}\tThe nurse told the patient that he left."],
            "expected one female pronoun in .* got 0",
        ),
        (
            ["sentid\tsentence", f"{GOOD_ID}\tThe nurse told the client that she left."],
            "expected 'patient' in the sentence",
        ),
        (
            ["sentid\tsentence", *[f"{GOOD_ID}\tThe nurse told the patient that she left."] * 2],
            r":3: duplicate sentid 'nurse.patient.1.female.txt' .first on line 2",
        ),
        (
            [
                "occupation(0)\tother-participant(1)\tanswer\tsentence",
                "nurse\tpatient\t1\tThe nurse and the $PARTICIPANT",
            ],
            r":2: expected the slot \$OCCUPATION",
        ),
        (
            [
                "occupation(0)\tother-participant(1)\tanswer\tsentence",
                "nurse\tpatient\t2\tThe $OCCUPATION, the $PARTICIPANT",
            ],
            r":2: expected a sentid .* got 'nurse.patient.2.male.txt'",
        ),
    ],
)
def test_files_that_are_no_winogender(tmp_path, lines, said):
    with pytest.raises(DataFileError, match=said):
        read_winogender(write(tmp_path, "sentences.tsv", *lines))


# GAP

GAP_HEADER = "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL"


def gap_row(**changes):
    row = {
        "ID": "development-1", "Text": 'Ann said "Bea" saw her.', "Pronoun": "her", "Pronoun-offset": "19", "A": "Ann",
        "A-offset": "0", "A-coref": "TRUE", "B": "Bea", "B-offset": "10", "B-coref": "FALSE", "URL": "",
    }  # fmt: skip
    return "\t".join((row | {key.replace("_", "-"): value for key, value in changes.items()}).values())


def test_a_row_of_gap(tmp_path):
    (example,) = read_gap(write(tmp_path, "gap.tsv", GAP_HEADER, gap_row()))
    assert [words_of(example.text, s) for s in (example.pronoun, *example.candidates)] == ["her", "Ann", "Bea"]
    assert (example.gender, example.labels) == ("female", (True, False))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"A_offset": "1"}, r":2: expected 'Ann' \(A\) at character 1 of the text, got 'nn '"),
        ({"B_offset": "300"}, r":2: expected 'Bea' \(B\) at character 300 of the text, got ''"),
        ({"Pronoun_offset": "-4"}, r"at character -4 of the text, got no such character"),
        ({"Pronoun": "saw", "Pronoun_offset": "15"}, r":2: expected a third-person pronoun .* got 'saw'"),
        ({"B_coref": "maybe"}, r":2: expected TRUE or FALSE in column 'B-coref', got 'maybe'"),
        ({"A": ""}, r":2: expected a text in column 'A'"),
    ],
)
def test_rows_that_are_no_gap(tmp_path, changes, said):
    with pytest.raises(DataFileError, match=said):
        read_gap(write(tmp_path, "gap.tsv", GAP_HEADER, gap_row(**changes)))


def test_files_that_are_no_gap(tmp_path):
    with pytest.raises(DataFileError, match="no rows"):
        read_gap(write(tmp_path, "gap.tsv", GAP_HEADER))
    with pytest.raises(DataFileError, match=r":3: duplicate id 'development-1' .first on line 2"):
        read_gap(write(tmp_path, "gap.tsv", GAP_HEADER, gap_row(), gap_row()))


def test_the_development_split_of_gap(shared_data):
    examples = read_gap(shared_data / "gap" / "gap-development.tsv.gz")
    assert Counter(e.gender for e in examples) == {"female": 1000, "male": 1000}
    assert Counter(e.labels for e in examples) == {(True, False): 874, (False, True): 925, (False, False): 201}


# CoNLL-2012


def conll_line(word, mark):
    return f"doc\t0\t0\t{word}\tNN\t*\t{mark}"


NESTED = [
    "#begin document (doc); part 001",
    conll_line("Ann", "(2)"),
    conll_line("told", "-"),
    "",
    conll_line("her", "(1|(2)"),
    conll_line("cook", "1)|(3)"),
    conll_line("it", "(1)"),
    "",
    "#end document",
]


def test_a_document(tmp_path):
    (document,) = read_conll(write(tmp_path, "a.v4_gold_conll.gz", *NESTED))
    assert (document.id, document.text) == ("(doc); part 001", "Ann told\nher cook it")
    assert [[words_of(document.text, s) for s in c] for c in document.clusters] == [
        ["Ann", "her"],
        ["her cook", "it"],
        ["cook"],
    ]
    assert [words_of(document.text, s) for s in document.sentences] == ["Ann told", "her cook it"]
    assert [words_of(document.text, s) for s in document.tokens] == ["Ann", "told", "her", "cook", "it"]


def test_a_folder_of_documents(tmp_path):
    (tmp_path / "deeper").mkdir()
    write(tmp_path, "b.conll", *NESTED)
    write(tmp_path / "deeper", "a.v4_auto_conll", *[line.replace("001", "002") for line in NESTED])
    write(tmp_path, "notes.txt", "no document")
    assert [d.id for d in read_conll(tmp_path)] == ["(doc); part 001", "(doc); part 002"]
    write(tmp_path, "c.v4_gold_conll", *NESTED)
    with pytest.raises(
        DataFileError, match=r"c\.v4_gold_conll:1: duplicate document \(doc\); part 001 .first at .*b\.conll:1"
    ):
        list(read_conll(tmp_path))


def test_a_mention_marked_twice_stays_with_the_cluster_that_closes_it_first(tmp_path):
    lines = [NESTED[0], conll_line("Ann", "(1)|(2)"), conll_line("she", "(2)"), NESTED[-1]]
    (document,) = read_conll(write(tmp_path, "a.conll", *lines))
    assert document.clusters == (((0, 3),), ((4, 7),))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "expected documents that begin with '#begin document', got none"),
        ([conll_line("Ann", "-")], r":1: expected '#begin document' before the first token"),
        ([NESTED[0], conll_line("Ann", "-")], r":1: the document has no '#end document'"),
        ([NESTED[0], conll_line("Ann", "-"), *NESTED], r":3: expected '#end document' of the document in line 1 first"),
        ([NESTED[0], NESTED[-1]], r":2: the document has no tokens"),
        ([NESTED[0], "doc 0 0 Ann", NESTED[-1]], r":2: expected the word in column 4 .* got 4 columns"),
        ([NESTED[0], "doc 0 0 Ann", *NESTED], r":2: expected the word in column 4"),  # the first line that is wrong
        ([NESTED[0], conll_line("Ann", "1"), NESTED[-1]], r":2: expected a coreference such as .* got '1'"),
        ([NESTED[0], conll_line("Ann", "((1)"), NESTED[-1]], r":2: expected a coreference such as .* got '\(\(1\)'"),
        ([NESTED[0], conll_line("Ann", "1)"), NESTED[-1]], r":2: a mention of cluster 1 ends, but none has begun"),
        (
            [NESTED[0], conll_line("Ann", "(1"), NESTED[-1]],
            r":3: a mention of cluster 1 has not ended \(it begins with token 1\)",
        ),
    ],
)
def test_files_that_are_no_conll(tmp_path, lines, said):
    with pytest.raises(DataFileError, match=said):
        list(read_conll(write(tmp_path, "a.conll", *lines)))


def test_documents_are_read_as_they_are_asked_for(tmp_path):
    documents = read_conll(write(tmp_path, "a.conll", *NESTED, "no document"))
    assert next(documents).id == "(doc); part 001"
    with pytest.raises(DataFileError, match=r":10: expected '#begin document'"):
        next(documents)


# Output of a coreference system

TEXT = "The cook met the nurse because he left."
GOOD = {
    "id": "dev-type1-pro-1",
    "sentence": TEXT,
    "clusters": [[[0, 8, "The cook"], [31, 33]]],
    "pronoun_scores": {"he@31": {"(none)": 0.5, "cook@4": 2, "The cook@0": 1.5}},
}


def output_file(folder, *rows):
    return write(folder, "output.jsonl", *(json.dumps(row) for row in rows))


def without(*keys, **changes):
    return {key: value for key, value in (GOOD | changes).items() if key not in keys}


def test_an_output(tmp_path):
    output = read_coreference_output(output_file(tmp_path, GOOD, without(id="b")))
    (sentence,) = outputs_for(output, [("b", TEXT)])
    assert sentence.pronoun_scores is not None
    assert sentence.clusters == (((0, 8), (31, 33)),)
    pronoun, candidates = (31, 33), [(0, 8), (13, 22)]
    assert is_linked(sentence, TEXT, pronoun, candidates) == (True, False)
    assert is_linked(sentence, TEXT, (34, 38), candidates) == (False, False)
    assert scores_with_pronoun(sentence, TEXT, pronoun, candidates) == (2.0, -math.inf)
    assert scores_with_pronoun(sentence, TEXT, (0, 8), candidates) == (-math.inf, -math.inf)


def test_an_output_of_one_kind(tmp_path):
    clusters = read_coreference_output(output_file(tmp_path, without("pronoun_scores", "sentence", clusters=[])))
    assert [(one.clusters, one.pronoun_scores) for one in clusters.lines.values()] == [((), None)]
    scores = read_coreference_output(output_file(tmp_path, without("clusters")))
    assert [(one.clusters, len(one.pronoun_scores)) for one in scores.lines.values()] == [(None, 1)]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (without("id"), r":1: no column 'id'"),
        (without("clusters", "pronoun_scores"), r":1: expected clusters or pronoun_scores, got neither"),
        (without(sentence=3), r":1: expected a text in 'sentence', got 3"),
        (
            without(sentence="The cook met"),
            r":1: the mention \[31, 33\] ends after the sentence, which has 12 characters",
        ),
        (without(clusters={}), r":1: expected a list of clusters"),
        (without(clusters=[[]]), r":1: expected a list of clusters"),
        (without(clusters=[[[0, 8], [0, 8]]]), r":1: duplicate mention \[0, 8\]"),
        (without(clusters=[[[0, 8]], [[0, 8]]]), r":1: duplicate mention \[0, 8\]"),
        (without(clusters=[[[0]]]), r":1: expected a mention \[start, end\]"),
        (without(clusters=[[[0, 8.0]]]), r":1: expected a mention \[start, end\]"),
        (without(clusters=[[[True, 8]]]), r":1: expected a mention \[start, end\]"),
        (without(clusters=[[[8, 8]]]), r":1: expected a mention of as many characters"),
        (without(clusters=[[[-3, 8]]]), r":1: expected a mention of as many characters"),
        (without(clusters=[[[0, 9, "The cook"]]]), r":1: expected a mention of as many characters"),
        (
            without(clusters=[[[0, 8, "The maid"]]]),
            r":1: the mention \[0, 8\] is 'The maid' in one place and 'The cook' in",
        ),
        (
            without("pronoun_scores", clusters=[[[0, 8, "The maid"]]]),
            r":1: expected 'The maid' at \[0, 8\], got 'The cook'",
        ),
        (without(pronoun_scores=[]), r":1: expected 'pronoun_scores' by pronoun and candidate"),
        (without(pronoun_scores={"he@31": 2}), r":1: expected 'pronoun_scores' by pronoun and candidate"),
        (without(pronoun_scores={"he": {}}), r":1: expected words@start, such as he@47, got 'he'"),
        (without(pronoun_scores={"he@30": {}}), r":1: expected 'he' at \[30, 32\], got ' h'"),
        (without(pronoun_scores={"he@31": {"cook@x": 1}}), r"got 'cook@x'"),
        (without(pronoun_scores={"he@31": {"cook@4": "1"}}), r"expected a finite number as score of 'cook@4', got '1'"),
        (without(pronoun_scores={"he@31": {"cook@4": math.nan}}), r"expected a finite number"),
    ],
)
def test_lines_that_are_no_output(tmp_path, row, said):
    with pytest.raises(DataFileError, match=said):
        read_coreference_output(output_file(tmp_path, row))


def test_files_that_are_no_output(tmp_path):
    with pytest.raises(DataFileError, match=r":2: expected clusters and pronoun_scores, got clusters"):
        read_coreference_output(output_file(tmp_path, GOOD, without("pronoun_scores", id="b")))
    with pytest.raises(DataFileError, match=r":2: duplicate id 'dev-type1-pro-1' .first on line 1"):
        read_coreference_output(output_file(tmp_path, GOOD, GOOD))
    with pytest.raises(DataFileError, match="no rows"):
        read_coreference_output(output_file(tmp_path))
    constant = {"pronoun_scores": {"he@31": {"cook@4": 0.5, "The cook@0": 0.5}}}
    with pytest.raises(DataFileError, match="all candidates of each pronoun have one score"):
        read_coreference_output(output_file(tmp_path, without("clusters", **constant)))


def test_outputs_of_other_sentences(tmp_path):
    output = read_coreference_output(output_file(tmp_path, GOOD))
    with pytest.raises(
        DataFileError, match=r"a line for each of 2 sentences, got none for 1 of them, the first being 'b'"
    ):
        outputs_for(output, [("dev-type1-pro-1", TEXT), ("b", TEXT)])
    with pytest.raises(DataFileError, match=r":1: expected the sentence 'The cook left.', got 'The cook met"):
        outputs_for(output, [("dev-type1-pro-1", "The cook left.")])
    bare = read_coreference_output(output_file(tmp_path, without("sentence")))
    with pytest.raises(DataFileError, match=r":1: expected 'The cook' at \[0, 8\], got 'The maid'"):
        outputs_for(bare, [("dev-type1-pro-1", TEXT.replace("cook", "maid"))])


# A real system


@pytest.fixture(scope="module")
def neuralcoref(shared_data, winobias):
    output = read_coreference_output(shared_data / "coref_predictions" / "neuralcoref_winobias_dev.jsonl.gz")
    return {part: outputs_for(output, [(s.id, s.text) for s in winobias[part]]) for part in SIDES}


def test_how_often_neuralcoref_links_the_right_profession(winobias, neuralcoref):
    """Published beside the file: 63.6, 30.1, 57.1 and 32.6 %; there "the baker's disgusting kitchen" passes for the
    baker.
    """
    shares = []
    for part in SIDES:
        pairs = list(zip(winobias[part], neuralcoref[part], strict=True))
        links = [is_linked(o, s.text, s.pronouns[0], (s.gold, s.other)) for s, o in pairs]
        shares.append(round(100 * np.mean(linked_profession(links) == 0), 1))
        scores = [scores_with_pronoun(o, s.text, s.pronouns[0], (s.gold, s.other)) for s, o in pairs]
        assert np.isfinite(scores).mean() > 0.98  # its tagger takes "the cleaner" for no noun in a few sentences
        assert (likelier_profession(scores) == linked_profession(links))[np.any(links, axis=1)].mean() > 0.97
    assert shares == [63.6, 30.1, 57.1, 32.3]


def test_f1_of_neuralcoref_on_pro_and_anti(winobias, neuralcoref):
    f1 = {}
    for part in SIDES:
        counts = [
            document_counts([(s.gold, *s.pronouns)], o.clusters)
            for s, o in zip(winobias[part], neuralcoref[part], strict=True)
        ]
        f1[part] = 100 * float(conll_f1(np.sum(counts, axis=0)))
    assert [f1[kind, "pro"] - f1[kind, "anti"] for kind in (1, 2)] == pytest.approx([25.05, 19.39], abs=0.01)


def test_neuralcoref_on_winogender(shared_data):
    sentences = read_winogender(shared_data / "winogender" / "all_sentences.tsv")
    output = read_coreference_output(shared_data / "coref_predictions" / "neuralcoref_winogender.jsonl.gz")
    outputs = outputs_for(output, [(s.id, s.text) for s in sentences])
    linked = linked_profession(
        [
            is_linked(o, s.text, s.pronoun, (s.occupation, s.participant))
            for s, o in zip(sentences, outputs, strict=True)
        ]
    )
    right = linked == [s.answer for s in sentences]
    genders = np.array([s.gender for s in sentences])
    assert [round(100 * right[genders == g].mean(), 1) for g in ("male", "female", "neutral")] == [50.0, 47.5, 28.3]


def test_the_output_on_one_data_set_does_not_apply_to_the_other(shared_data):
    """With --bias-suite=all the suite of the other data set failed; it is left out now, as any that does not apply."""
    folder = shared_data / "coref_predictions"
    for name, suite, own in (
        ("neuralcoref_winobias_dev.jsonl.gz", "coref-winogender", "coref-winobias"),
        ("neuralcoref_winogender.jsonl.gz", "coref-winobias", "coref-winogender"),
    ):
        with pytest.raises(NotApplicableError, match=r"is the output on another data set: it has none of these"):
            measure(suite, str(folder / name), data=shared_data, cache=None)
        assert measure(own, str(folder / name), data=shared_data, cache=None).value is not None
