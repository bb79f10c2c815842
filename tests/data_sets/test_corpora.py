"""Corpora: how texts become words and documents, what is refused, and real ones."""

import gzip
import json

import numpy as np
import pytest

from pytest_genderbias import load_wordlist
from pytest_genderbias.datasets import corpora
from pytest_genderbias.datasets.corpora import (
    WORD,
    Vocabulary,
    feed_corpus,
    file_tokens,
    label_groups,
    read_ids,
    scorable_words,
)
from pytest_genderbias.errors import DataFileError, SettingError
from pytest_genderbias.statistics.cooccurrence import (
    ContextWindow,
    CooccurrenceCounter,
    bias_deviation,
    bias_scores,
    bias_slope,
    mean_absolute_bias,
)


def documents(path, **options):
    """Return the documents of a corpus as texts with one space between tokens."""
    vocabulary, found, opened = Vocabulary(), [], []
    for ids, ends in read_ids(path, vocabulary, **options):
        words = [vocabulary.words[i] for i in ids]
        at = 0
        for end in ends:
            found.append(" ".join(opened + words[at:end]))
            opened, at = [], end
        opened += words[at:]
    assert not opened, "the last document ends"
    return found


def write(path, text):
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


# Words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She sings, he doesn't.", "She sings , he doesn't ."),
        ("Mr. Smith's dog", "Mr. Smith 's dog"),
        ("she'd said; they're O'Brien’s, I'm", "she 'd said ; they 're O'Brien ’s , I 'm"),
        ("a well-known--and red-hot--nurse", "a well-known -- and red-hot -- nurse"),
        ("in the U.S. 1,000.5 at 10.", "in the U.S. 1,000.5 at 10 ."),
        ("_she_ is a fiancée", "_ she _ is a fiancée"),
        ("the <unk> said 'no'", "the <unk> said ' no '"),
        ('(she) "he"', '( she ) " he "'),
        ("his mother's.", "his mother 's ."),
    ],
)
def test_running_text(text, expected):
    assert " ".join(WORD.findall(text)) == expected


def test_text_with_punctuation_apart_is_left_as_it_is(tmp_path):
    text = "H. <unk> , a `` lobster '' @-@ 5 @.@ 2 Jr. men 's n't . It 's Smith's U.S ."
    assert documents(write(tmp_path / "a.txt", text + "\n")) == [text]
    assert documents(write(tmp_path / "a.txt", text), tokens="words") != [text]


def test_text_without_punctuation_is_known_by_its_other_tokens(tmp_path):
    text = "mr. <unk> is chairman of <unk> n.v. the dutch <unk> group 's u.s. co. is n't N"  # as in the Penn Treebank
    assert documents(write(tmp_path / "a.txt", text)) == [text]


def test_tokens_can_be_said(tmp_path):
    path = write(tmp_path / "a.txt", "she sings, he too.")
    assert documents(path) == documents(path, tokens="words") == ["she sings , he too ."]
    assert documents(path, tokens="spaces") == ["she sings, he too."]
    with pytest.raises(SettingError, match="got 'letters'"):
        documents(path, tokens="letters")


def test_how_a_file_is_split_shows_at_its_beginning(tmp_path):
    later = "She sings , he too . " * 9
    assert file_tokens(write(tmp_path / "a.txt.gz", "She sings , he too .")) == "spaces"
    assert file_tokens(write(tmp_path / "b.txt", "She sings, he too.")) == "words"
    assert file_tokens(tmp_path / "b.txt", "spaces") == "spaces"
    for first, expected in (
        ({"text": "She, he."}, "words"),
        ({"text": "She , he ."}, "spaces"),
        ({"sentences": ["She"]}, "spaces"),
    ):
        path = write(tmp_path / "c.jsonl", f"{json.dumps(first)}\n{json.dumps({'text': later})}\n")
        assert file_tokens(path) == expected
    assert file_tokens(write(tmp_path / "empty.txt", "")) == "words"


# Documents


def test_a_plain_file_is_one_document(tmp_path):
    assert documents(write(tmp_path / "a.txt", "one two\n\nthree\r\nfour")) == ["one two three four"]


def test_names_between_equal_signs_separate_and_are_no_text(tmp_path):
    path = write(tmp_path / "a.txt", "=== 1789-Washington ===\nFellow men\n=== b ===\n=== c ===\nher\n")
    assert documents(path) == ["Fellow men", "her"]


def test_titles_of_wikitext_separate_and_stay(tmp_path):
    path = write(tmp_path / "a.txt", " \n = One = \n \n text . \n = = Part = = \n more = 2 = . \n = Two = \n end . \n")
    assert documents(path) == ["= One = text . = = Part = = more = 2 = .", "= Two = end ."]


def test_json_lines(tmp_path):
    rows = [{"text": "She sings.", "id": 1}, {"sentences": ["he sings .", ["she", "too", "."]]}, {"text": " "}]
    path = write(tmp_path / "a.jsonl", "\n\n".join(map(json.dumps, rows)))
    assert documents(path) == ["She sings .", "he sings . she too ."]


def test_a_folder_is_read_in_order_of_names(tmp_path):
    write(tmp_path / "b.txt.gz", "two")
    write(tmp_path / "a.jsonl.gz", json.dumps({"text": "one"}))
    write(tmp_path / "c.tokens", "three")
    write(tmp_path / "README.md", "no text")
    assert documents(tmp_path) == ["one", "two", "three"]


@pytest.mark.parametrize("size", [1, 7, 40])
def test_pieces_of_any_size_give_the_same_words(tmp_path, monkeypatch, size):
    text = "=== a ===\nshe sings , he\n\n=== b ===\nworks . \n = Title = \n she too , he\n" * 3
    whole = documents(write(tmp_path / "a.txt", text))
    assert len(whole) == 9
    monkeypatch.setattr(corpora, "_READ", 64 - size)
    monkeypatch.setattr(corpora, "_CHUNK", size)
    assert documents(tmp_path / "a.txt") == whole
    assert len(list(read_ids(tmp_path / "a.txt", Vocabulary()))) > 1 or size == 40


def test_a_very_long_line_is_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "_READ", 50)
    words = [f"word{i}" for i in range(500)]
    assert documents(write(tmp_path / "a.txt", " ".join(words))) == [" ".join(words)]


# Vocabulary


def test_gendered_words_match_with_case_where_others_are_folded(tmp_path):
    vocabulary = Vocabulary(fold_case=True)
    labels = label_groups(vocabulary, [["She", "her"], ["He"]])
    assert labels.tolist() == [1, 1, 2]
    feed_corpus(write(tmp_path / "a.txt", "She SINGS sings HER"), vocabulary)
    assert [vocabulary[w] for w in ("She", "SINGS", "sings", "HER", "her")] == [0, 3, 3, 1, 1]
    assert vocabulary.words == ["She", "her", "He", "sings"]


def test_a_word_of_two_groups_is_refused():
    with pytest.raises(SettingError, match="'they' is in two groups"):
        label_groups(Vocabulary(), [["she", "they"], ["he", "they"]])


def test_scorable_words():
    words = ["she", "<unk>", "nurse", "The", "the", "@-@", "1973", "'s", "...", "<", "Nurse"]
    found = scorable_words(words, [1], ["the", "'s"])
    assert [w for w, ok in zip(words, found, strict=True) if ok] == ["nurse", "1973", "Nurse"]
    assert scorable_words(words[:1], [1, 2, 0]).tolist() == [False]
    marks = ["--", "<", "<>", "<unk>", "@-@", "The", "3"]
    assert scorable_words(marks, [0], ["the"], punctuation=True).tolist() == [
        True,
        True,
        True,
        False,
        True,
        False,
        True,
    ]
    assert scorable_words(marks, [0], ["the"]).tolist() == [False] * 6 + [True]


# What is refused


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt", b"", "no words"),
        ("a.txt", b" \n\n=== name ===\n", "no words"),
        ("a.txt", "fiancée".encode("latin-1"), "not UTF-8: byte 0xe9.*iconv"),
        ("a.txt.gz", b"plain", "cannot be read"),
        ("a.txt.gz", gzip.compress(b"some words " * 9999, mtime=0)[:-40], "the gzip file is truncated"),
        ("a.jsonl", b'{"text": "a"}\n{"words": 1}\n', r"a\.jsonl:2: expected a document with 'text'"),
        ("a.jsonl", b'{"text": 7}\n', r"a\.jsonl:1: expected a document.*got text"),
        ("a.jsonl", b'{"sentences": [["a", 7]]}\n', r"a\.jsonl:1: expected a document.*got sentences"),
        ("a.jsonl", b'{"text": "a"}\n{"text": \n', r"a\.jsonl:2: "),
        ("a.jsonl", b'{"text": "."}\n["a"]\n', r"a\.jsonl:2: "),
        ("a.jsonl", b'{"text": "."}\n' + b"[" * 100_000, r"a\.jsonl:2: expected at most 64"),
        ("a.jsonl", b'{"text": ' + b"9" * 5000 + b"}", r"a\.jsonl:1: not valid JSON: a number of"),
        ("a.jsonl", b'{"text": "\\ud83d\\ude00."}\n{"text": "\\ud83d."}', r"a\.jsonl:2: a text has a lone surrogate"),
    ],
)
def test_broken_files_give_one_error_that_names_them(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataFileError, match=message) as caught:
        feed_corpus(tmp_path / name, Vocabulary())
    assert str(caught.value).startswith(str(tmp_path / name))
    assert len(str(caught.value).splitlines()) == 1


def test_missing_files_and_empty_folders(tmp_path):
    with pytest.raises(DataFileError, match=r"gone\.txt: no such file; expected a text"):
        feed_corpus(tmp_path / "gone.txt", Vocabulary())
    with pytest.raises(DataFileError, match=r"no corpus in this folder; expected files that end in \.txt"):
        feed_corpus(tmp_path, Vocabulary())


# Real corpora


@pytest.fixture(scope="module")
def scored(shared_data):
    """Return a function from a corpus to its size, and its bias by word in both contexts."""
    pairs, stop = load_wordlist("bordia2019-wikitext-2"), load_wordlist("stop-words")
    groups = [[e.word for e in pairs.select({"group": group})] for group in ("female", "male")]
    contexts = {"fixed": ContextWindow(1.0, 10), "infinite": ContextWindow(reach=100)}

    def score(name):
        vocabulary = Vocabulary()
        labels = label_groups(vocabulary, groups)
        counters = {key: CooccurrenceCounter(labels, context) for key, context in contexts.items()}
        size = feed_corpus(shared_data / name, vocabulary, *(counter.feed for counter in counters.values()))
        ok = scorable_words(vocabulary.words, labels, [e.word for e in stop.entries])
        bias = {}
        for key, counter in counters.items():
            found = counter.result()
            ids, scores = bias_scores(found.pairs, found.groups, ok)
            bias[key] = {vocabulary.words[i]: score for i, score in zip(ids, scores, strict=True)}
        return size, bias

    return score


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("corpora/brown.jsonl.gz", (500, 1_161_192)),  # 500 texts
        ("wikitext2/valid.txt.gz", (60, 213_886)),  # 60 articles
        ("corpora/state_union.txt.gz", (65, 393_761)),
        ("corpora/inaugural.txt.gz", (59, 152_133)),
    ],
)
def test_real_corpora_are_read_whole(shared_data, name, size):
    assert feed_corpus(shared_data / name, Vocabulary()) == size


def test_brown_is_biased_as_one_would_think(scored):
    _, bias = scored("corpora/brown.jsonl.gz")
    for found in bias.values():
        female = np.mean([found[w] for w in ("dress", "skirt", "pink", "maid", "kitchen", "marriage", "baby", "Mary")])
        male = np.mean(
            [found[w] for w in ("team", "detective", "officer", "political", "government", "weight", "fight")]
        )
        assert female > 0.5
        assert male < -0.5
    values = list(bias["fixed"].values())
    assert 0.7 < mean_absolute_bias(values) < 0.9  # the paper has 0.72 to 0.83 for its three corpora
    assert 0.85 < bias_deviation(values) < 1.05  # and 0.94 to 1.00
    assert bias_slope(values, values) == pytest.approx(1)


def test_wikitext_is_biased_as_one_would_think(scored):
    _, bias = scored("wikitext2/valid.txt.gz")
    assert bias["fixed"]["Madonna"] > 0.5
    assert bias["fixed"]["troops"] < -0.3
    assert 0.7 < mean_absolute_bias(list(bias["fixed"].values())) < 0.9  # the paper has 0.80 for the training text
    assert not {"<unk>", "she", "He", ".", "the", "The"} & set(bias["fixed"])
