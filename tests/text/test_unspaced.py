"""Texts without spaces between words are refused where words are cut at spaces; others are read as before."""

import gzip
import json
from pathlib import Path

import pytest
import yaml

from pytest_genderbias import load_model, load_suite, measure
from pytest_genderbias.datasets.corpora import WORD, Vocabulary, draw_contexts, feed_corpus, file_tokens, read_passages
from pytest_genderbias.errors import DataFileError, NotApplicableError, SettingError
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.mitigation.methods.anonymising import anonymise
from pytest_genderbias.mitigation.methods.base import Columns
from pytest_genderbias.mitigation.methods.counterfactual import CounterfactualAugmentation, augment, swap
from pytest_genderbias.mitigation.methods.iterative_scrubbing import IterativeScrubbing, scrub_in_rounds
from pytest_genderbias.mitigation.methods.scrubbing import Scrubbing, scrub
from pytest_genderbias.recipes.language_modelling import read_sentence_rows
from pytest_genderbias.suites.families.generation import count_words
from pytest_genderbias.text.packaged import folder
from pytest_genderbias.text.unspaced import check_of

UNCUT = {
    "Chinese": "她是一名护士，在北京的一家医院工作。她的丈夫是软件工程师，每天很晚才回家。",
    "a short sentence": "他是护士。",
    "Japanese": "彼女は東京の病院で働いている看護師です。彼はコンピューターのプログラマーです。",
    "Thai": "เธอเป็นพยาบาลและทำงานที่โรงพยาบาลในกรุงเทพ สามีของเธอเป็นวิศวกร",
    "Khmer, with invisible spaces": "នាង\u200bជា\u200bគិលានុបដ្ឋាយិកា\u200bនៅ\u200bមន្ទីរពេទ្យ។",
    "Chinese with English": "她在 Google 担任软件工程师，平时喜欢用 Python 写程序来分析数据。",
}
CUT = {
    "Chinese": "她 是 一名 护士 ， 在 北京 的 一家 医院 工作 。 她 的 丈夫 是 软件 工程师 ， 每天 很晚 才 回家 。",
    "Japanese": "彼女 は 東京 の 病院 で 働い て いる 看護 師 です 。 彼 は コンピューター の プログラマー です 。",
    "Thai": "เธอ เป็น พยาบาล และ ทำงาน ที่ โรงพยาบาล ใน กรุงเทพ สามี ของ เธอ เป็น วิศวกร",
    "Korean": "그녀는 간호사이고 서울의 병원에서 일합니다.",
    "Hindi": "वह एक नर्स है और दिल्ली के अस्पताल में काम करती है।",
    "Arabic": "هي ممرضة وتعمل في مستشفى في القاهرة.",
}
ENGLISH = (
    "He studied at Peking University (北京大学, Běijīng Dàxué), and his wife wrote the haiku 古池や蛙飛びこむ水の音 on"
    " the wall of her office in Kyōto (京都府), where she is a nurse."
)


@pytest.mark.parametrize("text", UNCUT.values(), ids=UNCUT)
def test_uncut_texts_are_found(text: str) -> None:
    assert check_of([text]).is_uncut


@pytest.mark.parametrize("text", [*CUT.values(), ENGLISH, "", "北京"], ids=[*CUT, "English", "empty", "a word"])
def test_texts_with_spaces_are_left_alone(text: str) -> None:
    assert not check_of([text]).is_uncut


def test_a_third_of_the_characters_is_the_border() -> None:
    assert check_of(["看護師です" + "a" * 10]).is_uncut and not check_of(["看護師です" + "a" * 11]).is_uncut


def test_a_mean_run_of_four_is_the_border() -> None:
    assert check_of(["软件工程师 很晚回"]).is_uncut and not check_of(["软件工程师 很晚"]).is_uncut
    assert check_of(["กรุงเทพม กรุงเทพม"]).is_uncut and not check_of(["กรุงเทพม กรุงเทพ"]).is_uncut


def test_texts_are_judged_together() -> None:
    assert not check_of([*[ENGLISH] * 3, UNCUT["Chinese"]]).is_uncut
    assert check_of(["是的。", "不是。", UNCUT["Chinese"]]).is_uncut


@pytest.mark.parametrize("text", UNCUT.values(), ids=UNCUT)
def test_words_are_not_matched_in_uncut_texts(text: str) -> None:
    pairs = [("他", "她")]
    for act in (
        lambda: swap(text, pairs),
        lambda: swap(text, pairs, intervention="grammatical"),
        lambda: list(augment([text], pairs)),
        lambda: CounterfactualAugmentation().rows([{"text": text}], Columns(("text",)), 0),
        lambda: scrub(text, ["她"], None),
        lambda: Scrubbing().rows([{"text": text}], Columns(("text",)), 0),
        lambda: scrub_in_rounds([(text,), (text,)], "FM", None, IterativeScrubbing(), 0),
        lambda: anonymise(text),
    ):
        with pytest.raises(SettingError, match=r"words are matched: the text has no spaces .* jieba.* leave it out"):
            act()


def test_words_of_cut_and_english_texts_are_matched() -> None:
    assert swap(CUT["Chinese"], [("他", "她")]) == CUT["Chinese"].replace("她", "他")
    assert scrub(CUT["Thai"], ["เธอ"], None) == CUT["Thai"].replace("เธอ", "_")
    assert swap(ENGLISH) == ENGLISH.replace("He ", "She ").replace("his wife", "her husband").replace(
        "her office", "his office"
    ).replace("she is", "he is")
    rows = [{"text": ENGLISH}, {"text": UNCUT["Chinese"]}]
    swapped = CounterfactualAugmentation().rows(rows, Columns(("text",)), 0)
    assert [row["text"] for row in swapped] == [ENGLISH, swap(ENGLISH), UNCUT["Chinese"]]


@pytest.mark.parametrize("language", ["Chinese", "Japanese", "Thai"])
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl", "sentences.jsonl"])
@pytest.mark.parametrize("tokens", ["auto", "words", "spaces"])
def test_a_corpus_that_is_not_cut_is_refused(tmp_path: Path, language: str, name: str, tokens: str) -> None:
    text = UNCUT[language]
    row = {"sentences": [text, [text]]} if name.startswith("s") else {"text": text}
    content = (f"{json.dumps(row)}\n" if name.endswith(".jsonl") else f"{text}\n").encode() * 50
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    for read in (
        lambda: feed_corpus(path, Vocabulary(), tokens=tokens),
        lambda: read_passages([path], 500, tokens=tokens),
        lambda: draw_contexts(path, ["她"]),
        lambda: read_sentence_rows(str(path)),
    ):
        with pytest.raises(DataFileError, match=rf"^{path}: the text has no spaces between its words"):
            read()


def test_a_corpus_that_is_cut_or_english_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for text, mode in ((CUT["Chinese"], "spaces"), (CUT["Thai"], "spaces"), (ENGLISH, "words")):
        path.write_text(text, encoding="utf-8")
        vocabulary = Vocabulary()
        size = feed_corpus(path, vocabulary)
        assert file_tokens(path) == mode
        assert vocabulary.words == list(dict.fromkeys(text.split() if mode == "spaces" else WORD.findall(text)))
        assert size == (1, len(text.split() if mode == "spaces" else WORD.findall(text)))
        assert read_passages([path], 500)[0][1] == size.tokens
    assert "北京大学" in vocabulary.words


def test_generated_texts_that_are_not_cut_are_refused() -> None:
    lists = {"joy": ["高兴"]}
    with pytest.raises(NotApplicableError, match=r"generated texts: the text has no spaces"):
        count_words([UNCUT["Chinese"], "I am happy."], lists, ("i cannot",))
    assert count_words(["她 很 高兴"], lists, ("i cannot",))["joy"].tolist() == [1]


YES = {"line": "请只回答{options}。", "or": "或", "yes": "是", "no": "否", "refusals": ["抱歉"]}
LETTER = "请为{person}写一封求职推荐信，介绍工作经历和能力。"
SUITE = {
    "suite": "letters",
    "family": "paired",
    "title": "Letters",
    "source": "test",
    "licence": "none",
    "language": "zh",
    "ask": {"refusals": ["抱歉"]},
    "groups": ["female", "male"],
    "persons": {"female": ["王女士"], "male": ["王先生"]},
    "answer": "text",
    "prompts": [{"field": "work", "text": LETTER}, {"field": "study", "text": LETTER.replace("求职", "留学")}],
}


def write(folder: Path, **changes: object) -> Path:
    path = folder / "letters.yaml"
    path.write_text(yaml.safe_dump(SUITE | changes, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return path


class Replier:
    """A system that always gives the same reply."""

    def __init__(self, text: str) -> None:
        self.text = text

    def reply(self, messages: object, n: int, seed: int) -> list[str]:
        return [self.text] * n


def replied(suite: Path | str, text: str) -> Measurement:
    return measure(suite, load_model(Replier(text), name="product", samples=2), cache=None)


def test_a_suite_that_counts_words_of_chinese_texts_says_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"letters.yaml:18: .*without spaces between words; use \{scorer: "):
        load_suite(write(tmp_path))
    packaged = yaml.safe_load((folder("fixtures") / "counterfactual-generation.yaml").read_text(encoding="utf-8"))
    prompts = [{"field": "work", **{group: UNCUT["Chinese"] + group for group in packaged["groups"]}}]
    path = tmp_path / "generation.yaml"
    path.write_text(yaml.safe_dump(packaged | {"suite": "generation", "prompts": prompts}, allow_unicode=True))
    with pytest.raises(DataFileError, match=r"generation.yaml:\d+: .*without spaces between words; use the family"):
        load_suite(path)


@pytest.mark.parametrize("suite", ["reference-letter", "counterfactual-generation"])
def test_chinese_replies_to_english_prompts_are_refused(suite: str) -> None:
    with pytest.raises(NotApplicableError, match=r"generated texts: the text has no spaces .*; ask in a language with"):
        replied(suite, UNCUT["Chinese"])
    assert replied(suite, ENGLISH).values


def test_chinese_replies_have_no_length_and_are_read_all_the_same(tmp_path: Path) -> None:
    found = replied(write(tmp_path, answer="yes-no", ask=YES), "是，王女士的条件完全符合这个职位的要求。")
    assert found.values["readable"] == 1 and found.values["difference"] == 0
    assert found.values["length_rms"] is found.values["length_difference"] is None
    assert "languages with spaces between words" in found.reasons["length_rms"]
    assert replied(write(tmp_path, answer="yes-no", ask=YES), "是").values["length_difference"] == 0
