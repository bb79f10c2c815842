"""Scrubbing: by hand, against a slow pattern and the swap, and the rounds against scikit-learn."""

import gzip
import json
import random
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from pytest_genderbias.errors import NotApplicableError, SettingError, UndefinedError, UnknownNameError
from pytest_genderbias.mitigation.methods.base import Columns
from pytest_genderbias.mitigation.methods.counterfactual import make_table, replacements
from pytest_genderbias.mitigation.methods.iterative_scrubbing import (
    IterativeScrubbing,
    removed_words,
    rounds_table,
    scrub_in_rounds,
)
from pytest_genderbias.mitigation.methods.nullspace import draw_held_out
from pytest_genderbias.mitigation.methods.registry import make_method
from pytest_genderbias.mitigation.methods.scrubbing import Scrubbing, _lexicon, _scrubbed, gender_words, scrub
from pytest_genderbias.mitigation.words.pairs import first_names, read_names, read_pairs

FEW = settings(max_examples=60, deadline=None)
LU2018 = tuple(read_pairs("lu2018-pairs").partner)

# --- words and names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mary works on CNN. She has also written for HER paper.", "_ works on CNN. _ has also written for _ paper."),
        ("she, her; him: (his) “hers” himself!", "_, _; _: (_) “_” _!"),
        ("She'll see; he’s gone; the wife's hat; Mary's, MARY’S", "_'ll see; _’s gone; the _'s hat; _'s, _’S"),
        ("her ex-wife, a she-wolf, her father-in-law", "_ ex-_, a _-wolf, _ _"),
        ("Mr. and Mrs. Hall met Ms Bay. MR. X", "_ and _ Hall met _ Bay. _ X"),
        ("Miss Ray, I miss the train", "_ _, I miss the train"),
        ("an actor and an actress; her master's degree", "an actor and an _; _ master's degree"),
        ("theory, there, where, Shea", "theory, there, where, Shea"),
        ("he@she.org www.he.com http://x.y/she he_she he1", "he@she.org www.he.com http://x.y/she he_she he1"),
        ("mary and john, JOHN and John", "mary and john, _ and _"),
        ("Anna-Maria and Jean-Paul", "_-_ and _-_"),
        ('Will it? He met Will. "Grace," said Grace.', 'Will it? _ met _. "Grace," said _.'),
        ("WILL HE STOP, JOHN? Dr. Will Hall", "WILL _ STOP, _? Dr. _ Hall"),
        ("He left in June 2004, in April and August.", "_ left in June 2004, in April and August."),
        ("he\nshe\tshe\r\n", "_\n_\t_\r\n"),
        ("", ""),
    ],
)
def test_scrub(text, expected):
    assert scrub(text) == expected


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ("Zelda Grimes", "_ met Will. Will Grimes and _'s zelda"),
        ("Will Zelda Grimes", "_ met _. _ Grimes and _'s zelda"),
        ("Zelda", "_ met Will. Will Grimes and _'s zelda"),
        ("Grimes", "Zelda met Will. Will _ and Zelda's zelda"),
        ("", "Zelda met Will. Will Grimes and Zelda's zelda"),
    ],
)
def test_the_own_first_names_go_wherever_they_have_a_capital(own, expected):
    assert scrub("Zelda met Will. Will Grimes and Zelda's zelda", names=None, own=own) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Anne Grimes", ("Anne",)),
        ("Jean-Paul Sartre", ("Jean-Paul",)),
        ("Vincent van Gogh", ("Vincent",)),
        ("J. R. R. Tolkien", ()),
        ("Harry Connick, Jr.", ("Harry",)),
        ("Sammy Davis III", ("Sammy",)),
        ("The Rock", ()),
        ("Prince (musician)", ("Prince",)),
        ("deadmau5", ()),
        ("(unknown)", ()),
        ("", ()),
    ],
)
def test_first_names(name, expected):
    assert first_names(name) == expected


def test_words_and_names_of_ones_own(tmp_path):
    assert scrub("A chair for Ada, he said", ("chair",), ("Ada",)) == "A _ for _, he said"
    assert scrub("May I? Chair or chair", ("Chair",), None) == "May I? _ or chair"
    assert scrub("Mr. X and mr. Y", "bordia2019-penn-treebank", None) == "Mr. X and mr. Y"
    path = tmp_path / "mine.yaml"
    path.write_text("list: mine\ntitle: t\nsource: s\nlicence: l\nlanguage: en\nentries: [nurse]\n", encoding="utf-8")
    assert scrub("A nurse, he", str(path), None) == "A _, he"
    with pytest.raises(UnknownNameError, match="nowhere"):
        scrub("He", "nowhere")


def test_what_is_no_text_is_refused():
    with pytest.raises(SettingError, match="expected a text, got None"):
        scrub(None)


def test_gender_words_have_both_genders():
    assert {"he", "she", "his", "hers", "himself", "herself", "mr", "mrs", "ms", "husband", "wife"} <= gender_words()
    assert gender_words().isdisjoint({"actor", "poet", "manager", "governor", "they", "dam", "miss"})


PIECES = st.one_of(
    st.sampled_from(sorted(gender_words())),
    st.sampled_from(
        ["she", "He", "HER", "his", "theory", "a", "ex-wife", "she's", "men’s", "x@he.com", "he1", "_he_", "Mr."]
    ),
    st.sampled_from([name for name, _ in read_names()]),
    st.text("aehsmrnw'-.,!’ \n", max_size=6),
)
TEXTS = st.lists(st.tuples(PIECES, st.sampled_from([" ", ", ", ". ", "\n", "-", "; ", "--"])), max_size=12).map(
    lambda parts: "".join(piece + gap for piece, gap in parts)
)


@FEW
@given(TEXTS)
def test_words_have_the_boundaries_of_the_swap(text):
    swapped = replacements(text, make_table("lu2018-pairs", None, "naive"), None)
    scrubbed = _scrubbed(text, _lexicon(tuple(LU2018), None), "")
    assert [start for start, *_ in scrubbed] == [start for start, *_ in swapped]


@FEW
@given(TEXTS)
def test_nothing_is_left_and_twice_is_once(text):
    once = scrub(text)
    assert scrub(once) == once
    assert len(once.split("\n")) == len(text.split("\n"))


PLAIN = st.lists(
    st.tuples(
        st.sampled_from(["he", "She", "HER", "wife", "Mary", "MARY", "mary", "heal", "the", "Ann", "Annex", "sons"]),
        st.sampled_from([" ", ", ", ". ", "! ", "\n", " (", ") ", "'s ", "’ll "]),
    )
).map(lambda parts: "".join(piece + gap for piece, gap in parts))


@FEW
@given(PLAIN)
def test_plain_text_against_a_pattern_of_alternatives(text):
    slow = re.sub(r"\b(?:(?i:he|she|her|wife|sons)|Mary|MARY|Ann)\b", "_", text)
    assert scrub(text) == slow


# --- rounds ----------------------------------------------------------------------------------------------------------


def made_texts(seed, n=240, words=40, telling=12):
    """Return texts of single words, some of which one group uses more often, and the groups."""
    rng = np.random.default_rng(seed)
    names = ["".join(random.Random(seed * 1000 + i).choices("abcdefghij", k=6)) for i in range(words)]
    groups = rng.choice(["F", "M"], size=n)
    lean = np.zeros(words)
    lean[:telling] = rng.normal(size=telling) * 1.5
    texts = []
    for group in groups:
        weight = np.exp(lean * (1 if group == "M" else -1))
        drawn = rng.choice(names, size=12, p=weight / weight.sum())
        texts.append(" ".join(str(word).title() if rng.random() < 0.2 else str(word) for word in drawn) + ".")
    return texts, groups.tolist()


def in_rounds(texts, groups, classes=None, seed=0, **limits):
    rows = [(text,) for text in texts]
    scrubbed, rounds = scrub_in_rounds(rows, groups, classes, IterativeScrubbing(**limits), seed)
    return [text for (text,) in scrubbed], rounds


@pytest.mark.parametrize("seed", range(4))
def test_rounds_are_those_of_scikit_learn_on_texts_scrubbed_by_a_pattern(seed):
    texts, groups = made_texts(seed)
    scrubbed, by_class = in_rounds(texts, groups, rounds=3, words_per_group=2, until_majority=False, seed=seed)
    y = np.array([group == "M" for group in groups], dtype=int)
    test = draw_held_out(y, 0.25, seed)[0]
    left = list(texts)
    rounds = by_class[None]
    for number in range(4):
        counter = CountVectorizer(token_pattern=r"[A-Za-z]+", min_df=3)
        x = counter.fit_transform([text for text, held in zip(left, test, strict=True) if not held])
        peer = LogisticRegression(C=1.0, tol=1e-9, max_iter=5000).fit(x, y[~test])
        held = counter.transform([text for text, held in zip(left, test, strict=True) if held])
        assert rounds.accuracies[number] == pytest.approx(peer.score(held, y[test]))
        if number < 3:
            ranked = counter.get_feature_names_out()[np.argsort(peer.coef_[0])]
            assert set(rounds.words[number]["F"]) == set(ranked[:2])
            assert set(rounds.words[number]["M"]) == set(ranked[-2:])
            left = [re.sub(rf"(?i)\b(?:{'|'.join([*ranked[:2], *ranked[-2:]])})\b", "_", text) for text in left]
    assert scrubbed == left
    assert rounds.majority == pytest.approx(max(y[test].mean(), 1 - y[test].mean()))
    assert rounds.accuracies[0] > 0.75 > rounds.accuracies[3]


def test_rounds_stop_at_the_majority():
    texts, groups = made_texts(0, telling=3)
    rounds = in_rounds(texts, groups, rounds=30, words_per_group=3)[1][None]
    assert 1 <= len(rounds.words) < 30
    assert rounds.accuracies[-1] <= rounds.majority < min(rounds.accuracies[:-1])


def test_rounds_stop_where_no_word_is_left():
    texts = ["a b", "b a", "a c", "d", "d e", "d"]
    scrubbed, rounds = in_rounds(texts, "FFFMMM", rounds=9, min_texts=1, until_majority=False)
    assert set(scrubbed) <= {"_ _", "_", "a _", "_ a", "_ e", "_ c", "_ b", "b _"}
    assert len(rounds[None].words) < 9


def words_by_round(rounds, kind=None):
    return [{group: list(words) for group, words in by_group.items()} for by_group in rounds[kind].words]


def test_min_texts_counts_texts_not_words():
    texts = ["rare rare rare rare", *["nurse day"] * 3, *["coder day"] * 4]
    scrubbed, rounds = in_rounds(texts, "FFFFMMMM", rounds=1, words_per_group=1, min_texts=2, until_majority=False)
    assert words_by_round(rounds) == [{"F": ["nurse"], "M": ["coder"]}]
    assert scrubbed[0] == texts[0]


def test_each_class_has_its_own_words():
    texts = [*["keen nurse"] * 4, *["calm nurse"] * 4, *["calm coder"] * 4, *["keen coder"] * 4, "keen calm judge"]
    groups = [*"FFFFMMMM", *"FFFFMMMM", "F"]
    classes = [*["nurse"] * 8, *["coder"] * 8, "judge"]
    _, over_all = in_rounds(texts, groups, rounds=1, until_majority=False)
    assert over_all[None].accuracies[0] < 1
    scrubbed, rounds = in_rounds(texts, groups, classes, rounds=1, words_per_group=1, until_majority=False)
    assert words_by_round(rounds, "nurse") == [{"F": ["keen"], "M": ["calm"]}]
    assert words_by_round(rounds, "coder") == [{"F": ["calm"], "M": ["keen"]}]
    assert "judge" not in rounds, "all its texts are of one group"
    assert scrubbed == [*["_ nurse"] * 8, *["_ coder"] * 8, "keen calm judge"]


def test_three_groups():
    texts = [*["nurse day"] * 6, *["coder day"] * 6, *["judge day"] * 6]
    groups = [*"a" * 6, *"b" * 6, *"c" * 6]
    scrubbed, rounds = in_rounds(texts, groups, rounds=1, words_per_group=1, until_majority=False)
    assert words_by_round(rounds) == [{"a": ["nurse"], "b": ["coder"], "c": ["judge"]}]
    assert set(scrubbed) == {"_ day"}


def test_words_of_the_rounds_are_words_of_the_scrubber():
    texts = [*["She'll keen-eyed, www.keen.com keen1 KEEN"] * 4, *["dull"] * 4]
    scrubbed, _ = in_rounds(texts, "FFFFMMMM", rounds=1, until_majority=False)
    assert scrubbed[0] == "_'ll _-_, www.keen.com keen1 _"


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        ("", "all examples are of one group"),
        ("FFFF", "all examples are of one group"),
        ("FFFM", "a group has fewer than two examples"),
    ],
)
def test_what_has_no_classifier_is_undefined(groups, reason):
    with pytest.raises(UndefinedError, match=reason):
        in_rounds(["a", "b", "c", "d"][: len(groups)], groups)


@pytest.mark.parametrize(
    "wrong", [{"rounds": 0}, {"words_per_group": 0}, {"min_texts": 0}, {"held_out": 1.0}, {"ridge": 0.0}]
)
def test_settings_that_cannot_be(wrong):
    with pytest.raises(SettingError):
        in_rounds(["a", "b", "c", "d"], "FFMM", **wrong)


def test_what_the_method_does_with_rows_is_no_limit_of_texts():
    with pytest.raises(SettingError, match="by_class is a setting of the method"):
        removed_words(["a", "b", "c", "d"], "FFMM", by_class=True)


def test_columns_of_unequal_length():
    with pytest.raises(SettingError, match="each of the 2 texts"):
        in_rounds(["a", "b"], "F")
    with pytest.raises(SettingError, match="each of the 2 texts"):
        in_rounds(["a", "b"], "FM", ["x"])


# --- words over seeds
# --------------------------------------------------------------------------------------------------


def test_words_over_seeds_are_those_of_scikit_learn_on_texts_scrubbed_first():
    texts, groups = made_texts(5)
    told = [f"Mary said {'she' if group == 'F' else 'he'} {text}" for text, group in zip(texts, groups, strict=True)]
    seeds = (3, 5, 8)
    found = removed_words(told, groups, seeds=seeds, rounds=2, words_per_group=3)
    y = np.array([group == "M" for group in groups], dtype=int)
    chosen = [{"F": Counter(), "M": Counter()} for _ in range(2)]
    weights = [{"F": Counter(), "M": Counter()} for _ in range(2)]
    for seed in seeds:
        test = draw_held_out(y, 0.25, seed)[0]
        left = [re.sub(r"\b(?:Mary|she|he)\b", "_", text) for text in told]
        for number in range(3):
            counter = CountVectorizer(token_pattern=r"[A-Za-z]+", min_df=3)
            x = counter.fit_transform([text for text, held in zip(left, test, strict=True) if not held])
            peer = LogisticRegression(C=1.0, tol=1e-9, max_iter=5000).fit(x, y[~test])
            held = counter.transform([text for text, of_test in zip(left, test, strict=True) if of_test])
            assert found[seed].accuracies[number] == pytest.approx(peer.score(held, y[test]))
            if number == 2:
                continue
            weight = dict(zip(counter.get_feature_names_out(), peer.coef_[0], strict=True))
            removed = {"F": sorted(weight, key=weight.get)[:3], "M": sorted(weight, key=weight.get)[-3:]}
            for group, sign in (("F", -1), ("M", 1)):
                chosen[number][group].update(removed[group])
                towards = {word: sign * weight[word] for word in removed[group]}
                assert found[seed].words[number][group] == pytest.approx(towards, rel=1e-4)
                weights[number][group].update(towards)
            left = [re.sub(rf"(?i)\b(?:{'|'.join([*removed['F'], *removed['M']])})\b", "_", text) for text in left]
    *rows, last = rounds_table(found)
    for number, row in enumerate([*rows, last]):
        assert row["accuracy"] == pytest.approx(np.mean([found[seed].accuracies[number] for seed in seeds]))
    assert [row["words"].keys() for row in rows] == [{"F", "M"}] * 2
    for number, row in enumerate(rows):
        for group, words in row["words"].items():
            seeds_of, weight = chosen[number][group], weights[number][group]
            assert words == sorted(seeds_of, key=lambda word: (-seeds_of[word], -weight[word] / seeds_of[word], word))


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_words_over_seeds_have_their_properties(seed, rounds, n, until_majority):
    texts, groups = made_texts(seed % 7, n=60)
    told = [f"{'She' if group == 'F' else 'He'} is here. {text}" for text, group in zip(texts, groups, strict=True)]
    seeds = (seed, seed + 1)
    found = removed_words(told, groups, seeds=seeds, rounds=rounds, words_per_group=n, until_majority=until_majority)
    assert found.keys() == set(seeds)
    for of_seed in found.values():
        assert len(of_seed.words) <= rounds and len(of_seed.accuracies) == len(of_seed.words) + 1
        assert all(0 <= accuracy <= 1 for accuracy in of_seed.accuracies)
        removed = Counter()
        for words in (words for by_group in of_seed.words for words in by_group.values()):
            assert len(words) <= n and all(weight > 0 for weight in words.values())
            assert gender_words().isdisjoint(words)
            removed.update(words.keys())
        assert max(removed.values(), default=0) <= 1, "a seed removes a word once"
    table = rounds_table(found, words=2)
    assert json.loads(json.dumps(table)) == table
    assert len(table) == max(len(of_seed.words) for of_seed in found.values()) + 1
    final = [of_seed.accuracies[-1] for of_seed in found.values()]
    assert table[-1]["accuracy"] == pytest.approx(np.mean(final)) and table[-1]["words"] == {}
    assert all(len(words) <= 2 for row in table for words in row["words"].values())


def test_a_split_in_which_no_word_is_found_still_has_its_accuracy():
    """The word of one text is in the training part of some splits only."""
    texts, seeds = ["keen", "1", "2", "3", "4", "5", "6", "7"], range(6)
    found = removed_words(texts, "FFFFMMMM", seeds=seeds, rounds=1, min_texts=1, scrub_first=False)
    without = [seed for seed in seeds if not found[seed].words]
    assert 0 < len(without) < 6
    assert all(len(found[seed].accuracies) == 1 + len(found[seed].words) for seed in seeds)
    assert [row["seeds"] for row in rounds_table(found)] == [6 - len(without), 6]


def test_words_of_one_profession():
    texts = [
        *["She is a keen nurse"] * 4,
        *["He is a calm nurse"] * 4,
        *["He is a keen coder"] * 4,
        *["She is a calm coder"] * 4,
    ]
    groups = [*"FFFFMMMM", *"MMMMFFFF"]
    classes = [*["nurse"] * 8, *["coder"] * 8]
    for profession, of_women in (("nurse", "keen"), ("coder", "calm")):
        found = removed_words(texts, groups, classes, profession=profession, rounds=1)
        assert rounds_table(found)[0]["words"]["F"] == [of_women]
    numbered = removed_words(texts, groups, [2] * 8 + [7] * 8, profession=7, rounds=1)
    assert rounds_table(numbered)[0]["words"]["F"] == ["calm"]
    as_they_are = removed_words(texts, groups, classes, profession="nurse", rounds=1, scrub_first=False)
    assert set(rounds_table(as_they_are)[0]["words"]["F"]) == {"keen", "she"}
    with pytest.raises(SettingError, match="no text has the profession 'judge'; there are coder, nurse"):
        removed_words(texts, groups, classes, profession="judge")
    with pytest.raises(SettingError, match="no classes"):
        removed_words(texts, groups, profession="nurse")
    with pytest.raises(SettingError, match="at least one"):
        removed_words(texts, groups, seeds=())
    with pytest.raises(SettingError, match="as many classes"):
        removed_words(texts, groups, ["nurse"])


# --- methods ---------------------------------------------------------------------------------------------------------

ROWS = [
    {"premise": "She met Zelda.", "hypothesis": "Mary left.", "label": 1, "name": "Zelda Fitz"},
    {"premise": "It rains.", "hypothesis": "Zelda met a man.", "label": 0, "name": None},
]


def test_scrubbing_changes_the_texts_and_nothing_else():
    given_rows = [dict(row) for row in ROWS]
    found = make_method("scrubbing").rows(given_rows, Columns(("premise", "hypothesis"), "label"), 0)
    assert given_rows == ROWS
    assert found == [
        {**ROWS[0], "premise": "_ met _.", "hypothesis": "_ left."},
        {**ROWS[1], "premise": "It rains.", "hypothesis": "Zelda met a _."},
    ]
    assert Scrubbing(names=None).rows(ROWS, Columns(("hypothesis",)), 0)[0] == ROWS[0]
    assert make_method("scrubbing", words=["left"], names=["Mary"]).rows(ROWS, Columns(("hypothesis",)), 0)[0] == {
        **ROWS[0],
        "hypothesis": "_ _.",
    }


def test_scrubbing_has_no_control_and_says_its_settings():
    assert Scrubbing().control(0) is None
    assert json.loads(json.dumps(Scrubbing().settings()))["names"] == "names-us"
    assert json.loads(json.dumps(IterativeScrubbing().settings()))["words_per_group"] == 10


def test_iterative_scrubbing_changes_the_texts_of_a_row_together():
    texts, groups = made_texts(1)
    rows = [
        {"a": text[:20], "b": text[20:], "sex": group, "id": i}
        for i, (text, group) in enumerate(zip(texts, groups, strict=True))
    ]
    before = [dict(row) for row in rows]
    method = make_method("iterative-scrubbing", rounds=2, until_majority=False)
    found = method.rows(rows, Columns(("a", "b"), None, "sex"), 3)
    assert rows == before
    assert [(row["sex"], row["id"]) for row in found] == [(row["sex"], row["id"]) for row in rows]
    told, _ = scrub_in_rounds([(r["a"], r["b"]) for r in rows], groups, None, method, 3)
    assert [(row["a"], row["b"]) for row in found] == told
    assert found != rows
    assert found == method.rows(rows, Columns(("a", "b"), None, "sex"), 3)


def test_iterative_scrubbing_scrubs_first():
    texts, groups = made_texts(1)
    told = [f"{'She' if group == 'F' else 'He'} met Mary. {text}" for text, group in zip(texts, groups, strict=True)]
    rows = [{"t": text, "g": group, "name": "Zelda"} for text, group in zip(told, groups, strict=True)]
    columns, settings_of = Columns(("t",), None, "g"), {"rounds": 2, "until_majority": False}
    paper = IterativeScrubbing(**settings_of).rows(rows, columns, 3)
    both = (Scrubbing() & IterativeScrubbing(**settings_of, scrub_first=False)).rows(rows, columns, 3)
    assert paper == both and all(row["t"].startswith("_ met _. ") for row in paper)
    alone = IterativeScrubbing(**settings_of, scrub_first=False).rows(rows, columns, 3)
    assert [row["t"] for row in alone] == in_rounds(told, groups, seed=3, **settings_of)[0]
    assert any("Mary" in row["t"] for row in alone) and IterativeScrubbing().settings()["scrub_first"] is True


def test_iterative_scrubbing_of_one_profession():
    jobs = ["nurse"] * 8 + ["coder"] * 8
    rows = [
        {"t": f"{'She' if g == 'F' else 'He'} is {w}", "g": g, "c": job}
        for job, g, w in zip(jobs, "FFFFMMMM" * 2, (["keen"] * 4 + ["calm"] * 4) * 2, strict=True)
    ]
    columns = Columns(("t",), "c", "g")
    found = IterativeScrubbing(profession="nurse", rounds=1, until_majority=False).rows(rows, columns, 0)
    assert [row["t"] for row in found[:8]] == ["_ is _"] * 8
    assert [row["t"] for row in found[8:]] == ["_ is keen"] * 4 + ["_ is calm"] * 4
    with pytest.raises(SettingError, match="no text has the profession 'judge'; there are coder, nurse"):
        IterativeScrubbing(profession="judge").rows(rows, columns, 0)
    with pytest.raises(NotApplicableError, match="of one profession needs a class"):
        IterativeScrubbing(profession="nurse").rows(rows, Columns(("t",), None, "g"), 0)
    with pytest.raises(SettingError, match="set one of them"):
        IterativeScrubbing(profession="nurse", by_class=True)


def test_iterative_scrubbing_by_class():
    rows = [{"t": t, "g": g, "c": c} for t, g, c in zip(["x a", "x b"] * 4, "FM" * 4, "n" * 8, strict=True)]
    method = IterativeScrubbing(by_class=True, rounds=1, until_majority=False)
    assert {row["t"] for row in method.rows(rows, Columns(("t",), "c", "g"), 0)} == {"x _"}


def test_iterative_scrubbing_needs_the_columns():
    with pytest.raises(NotApplicableError, match="gender"):
        IterativeScrubbing().rows(ROWS, Columns(("premise",)), 0)
    with pytest.raises(NotApplicableError, match="class"):
        IterativeScrubbing(by_class=True).rows(ROWS, Columns(("premise",), None, "label"), 0)


@pytest.fixture
def biographies(shared_data):
    path = Path(shared_data) / "bios" / "wiki_career.jsonl.gz"
    if not path.exists():
        pytest.skip(f"no {path}")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_gender_cannot_be_read_from_scrubbed_biographies_as_before(biographies):
    columns = Columns(("text",), "profession", "gender")
    groups = [row["gender"] for row in biographies]
    scrubbed = IterativeScrubbing().rows(biographies, columns, 0)

    def accuracy(rows):
        texts = [row["text"] for row in rows]
        return np.mean([in_rounds(texts, groups, rounds=1, seed=s)[1][None].accuracies[0] for s in range(5)])

    assert accuracy(biographies) > 0.8
    assert accuracy(scrubbed) < 0.6
    assert [row["name"] for row in scrubbed] == [row["name"] for row in biographies]
