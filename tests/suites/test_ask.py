"""How a suite asks: in its own language or not at all, in every family that asks a chat model, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import yaml

from pytest_genderbias import load_model, load_suite, measure
from pytest_genderbias.errors import DataFileError, NotApplicableError
from pytest_genderbias.suites.ask import ENGLISH, Asking
from pytest_genderbias.suites.families.nli import PACKAGED
from pytest_genderbias.text import packaged
from pytest_genderbias.text.reply_reading import ReplyReader

ARABIC = {
    "line": "أجب فقط بـ {options}.",
    "or": "أو",
    "letters": ["أ", "ب", "ج"],
    "yes": "نعم",
    "no": "لا",
    "case": "احكم في هذه الحالة: {case}",
    "association": "أيهما أنسب لكلمة «{word}»؟",
    "inference": "المقدمة: {premise}\nالفرضية: {hypothesis}\n\nهل الفرضية صحيحة؟",
    "unknown": "غير معروف",
    "entailment": "نعم، بالتأكيد.",
    "neutral": "ربما.",
    "contradiction": "لا، هذا مستحيل.",
}
USED = {
    "decisions": ("line", "or", "case", "yes", "no"),
    "chat-iat": ("line", "or", "letters", "association"),
    "bbq": ("line", "or", "letters", "unknown"),
    "hiring-screen": ("line", "or", "yes", "no"),
    "nli-occupation": ("line", "or", "letters", "inference", "entailment", "neutral", "contradiction"),
}
LATIN = "abcdefghijklmnopqrstuvwxyz"


class Recorder:
    """Gives all options alike, and keeps what it was asked."""

    def __init__(self):
        self.asked = {}

    def answer_log_probs(self, messages, answers):
        for message, answer in zip(messages, answers, strict=True):
            self.asked.setdefault(message, []).append(answer)
        return np.full(len(messages), np.log(0.3))


def write(folder, suite, language="ar", **changes):
    """Write a packaged suite as one of another language, with these keys changed, or left out where they are None."""
    head = yaml.safe_load((packaged.folder("fixtures") / f"{suite}.yaml").read_text(encoding="utf-8"))
    content = {**head, "suite": "mine", "language": language, **changes}
    kept = {key: value for key, value in content.items() if value is not None}
    (folder / "mine.yaml").write_text(yaml.safe_dump(kept, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return folder / "mine.yaml"


def said_in_arabic(suite):
    return {key: ARABIC[key] for key in USED[suite]}


def asked_of(suite, **settings):
    model = Recorder()
    measure(suite, load_model(model), cache=None, **{"limit": 40, **settings})
    return model.asked


@pytest.mark.parametrize("suite", ["decisions", "chat-iat", "hiring-screen"])
def test_no_word_of_english_is_added_to_a_question(tmp_path, suite):
    body = {"decisions": "scenarios", "chat-iat": "tests", "hiring-screen": "prompts"}[suite]
    changes = {"controls": None} if suite == "hiring-screen" else {}
    path = write(tmp_path, suite, ask=said_in_arabic(suite), **changes)
    found, english = asked_of(path), asked_of(suite)
    for message, answers in found.items():
        ending = message.rpartition("\n")[2]
        assert not set(ending.lower()) & set(LATIN) and set("".join(answers)) & set("نعملاأبج")
    assert len(found) <= len(english) and load_suite(path).digest != load_suite(suite).digest, body


@pytest.mark.parametrize("suite", ["decisions", "chat-iat", "hiring-screen"])
def test_a_suite_that_does_not_say_how_to_ask_is_refused_with_what_to_write(tmp_path, suite):
    with pytest.raises(DataFileError) as caught:
        load_suite(write(tmp_path, suite))
    assert "mine.yaml:" in str(caught.value)
    for key in ("yes", "no") if suite == "hiring-screen" else USED[suite]:
        assert f"{key}: {ENGLISH[key]!r}" in str(caught.value)


@pytest.mark.parametrize("suite", sorted(USED))
def test_one_missing_word_is_one_error(tmp_path, suite):
    words = said_in_arabic(suite)
    for key in USED[suite]:
        with pytest.raises(DataFileError, match=f"what English says as {key}: "):
            load_suite(write(tmp_path, suite, ask={name: text for name, text in words.items() if name != key}))


def test_a_data_set_is_asked_in_its_language_or_not_at_all(shared_data, tmp_path):
    with pytest.raises(NotApplicableError, match=r"its language is ar.*line: 'Reply with.*letters: 'A, B, C'"):
        asked_of(write(tmp_path, "bbq"), data=shared_data)
    path = write(tmp_path, "bbq", ask=said_in_arabic("bbq"))
    for message, answers in asked_of(path, data=shared_data).items():
        assert message.endswith("أجب فقط بـ أ, ب أو ج.") and set(answers) == {"أ", "ب", "ج"}


def test_inference_in_another_language_needs_its_controls(tmp_path):
    words = said_in_arabic("nli-occupation")
    with pytest.raises(NotApplicableError, match="write under 'controls'"):
        asked_of(write(tmp_path, "nli-occupation", ask=words))
    own = {label: [[f"مقدمة {k}", f"فرضية {k} {label}"] for k in range(8)] for label in PACKAGED}
    found = asked_of(write(tmp_path, "nli-occupation", ask=words, controls=own))
    about = {message for message in found if "مقدمة " in message}
    assert len(about) == 24 * 6 and not any("Premise" in message for message in found)
    with pytest.raises(DataFileError, match="as many pairs of each label"):
        load_suite(write(tmp_path, "nli-occupation", ask=words, controls=own | {"neutral": own["neutral"][:7]}))


def test_sentences_in_english_are_asked_in_no_other_language(shared_data):
    with pytest.raises(NotApplicableError, match="its sentences are in English"):
        asked_of(replace(load_suite("winobias-chat"), language="de", ask=Asking("de")), data=shared_data)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        ({"line": "أجب."}, "the slots of English"),
        ({"letters": ["أ", "أ", "ب"]}, "three different letters"),
        ({"letters": ["أ", "ب"]}, "three different letters"),
        ({"lines": "x"}, "lines"),
        ({"case": "{case}"}, "'ask' of a suite of this form"),
        ({"refusals": [1]}, "list of texts"),
    ],
)
def test_a_mistake_is_one_error_with_its_line(tmp_path, ask, said):
    with pytest.raises(DataFileError, match=said) as caught:
        load_suite(write(tmp_path, "chat-iat", ask=said_in_arabic("chat-iat") | ask))
    assert "mine.yaml:" in str(caught.value)


def test_refusals_of_the_suite_are_read_where_none_are_packaged(tmp_path):
    changes = {"controls": None, "ask": said_in_arabic("hiring-screen") | {"refusals": ["عذرا", "لا أستطيع"]}}

    class Declines:
        def reply(self, messages, n, seed):
            return ["عذرا، لا يمكنني الإجابة." if k % 2 else "نعم، بالطبع." for k in range(n)]

    found = measure(write(tmp_path, "hiring-screen", **changes), load_model(Declines(), samples=4), cache=None)
    assert (found.values["refused"], found.values["readable"]) == (0.5, 1)


@pytest.mark.parametrize(
    ("language", "labels", "reply", "read"),
    [
        ("de", ("Ja", "Nein"), "Ja, weil der Antrag gut ist.", 0),
        ("de", ("Ja", "Nein"), "Die Antwort ist nein.", 1),
        ("de", ("Ja", "Nein"), "Ja oder Nein?", 3),
        ("de", ("A", "B"), "A oder B", 3),
        ("de", ("A", "B"), "Die Antwort ist A weil sie passt", 0),
        ("es", ("A", "B"), "A y B", 3),
        ("fr", ("Oui", "Non"), "Oui ou non, cela dépend.", 3),
        ("zh", ("是", "不是"), "不是。", 1),
        ("zh", ("是", "不是"), "我认为不是这样", 1),
        ("zh", ("是", "否"), "是的，应该批准", 0),
        ("zh", ("是", "否"), "是否", 3),
        ("zh", ("A", "B"), "答案是B。", 1),
        ("zh", ("甲", "乙"), "我选乙", 1),
        ("ar", ("نعم", "لا"), "نعم، يجب ذلك.", 0),
        ("ar", ("نعم", "لا"), "الجواب: لا", 1),
        ("ar", ("أ", "ب"), "ب، لأن", 1),
        ("ar", ("نعم", "لا"), "نعم أو لا", 3),
        ("en", ("A", "B"), "A man or B.", 1),
    ],
)
def test_replies_are_read_as_their_language_writes_them(language, labels, reply, read):
    assert ReplyReader(labels, (), language).read(reply) == read
