"""Chat templates that write nothing, or too much, or never end: each is one error, and the next template is
rendered.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from pytest_genderbias import demo, load_model, measure
from pytest_genderbias.errors import ModelError
from pytest_genderbias.models import chat_template
from pytest_genderbias.models.chat_template import TemplateError, render

TURNS = (
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}\n{% endfor %}{% if"
    " add_generation_prompt %}<assistant>{% endif %}"
)
ASKED = [[{"role": "user", "content": "Hello é😀 nurse "}]]
LOOP = "{% for i in range(99999) %}" * 3 + "{% endfor %}" * 3


def test_a_template_is_rendered_as_transformers_does() -> None:
    values = {"bos_token": "<s>"}
    for for_answer in (True, False):
        expected, _ = render_jinja_template(ASKED * 2, chat_template=TURNS, add_generation_prompt=for_answer, **values)
        assert render(TURNS, ASKED * 2, for_answer, values) == expected


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ 'a' * 10**10 }}", "it takes more than 1,024 MiB of memory"),
        ("{{ 'a' * 10**6 }}", "it writes 1,000,000 characters for one message; expected at most 50,"),
        ("{{ 'a'|center(10**10) }}", "it takes more than 1,024 MiB of memory"),
        ("{{ '%9999999999d' % 1 }}", "it takes more than 1,024 MiB of memory"),
        (
            "{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
            "it takes more than 1,024 MiB",
        ),
        ("{{ 7**(10**9) }}", "it does not end within 0.25 s"),
        # what ends one long operation ends many short ones
        pytest.param(LOOP, "it does not end within 0.25 s", marks=pytest.mark.slow),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "RecursionError"),
        ("{% if true %}" * 5000 + "{% endif %}" * 5000, "RecursionError"),
        ("{{ range(10**9) }}", "OverflowError"),
        ("{{ ['a', 'b']|random }}{{ messages[0].content }}", "it draws at random"),
        ("{{ [messages[0].content]|random }}", "it draws at random"),
        ("{{ lipsum(1) }}", "it draws at random"),
        ("{% set ignored = [1, 2]|random %}{{ messages[0].content }}", "it draws at random"),
        ("{{ messages|map(attribute='role') }}", "it writes where an object is in memory"),
        ("{{ messages[0].items }}", "it writes where an object is in memory"),
        ("{{ ''.__class__.__mro__ }}", "SecurityError"),
        ("{{ raise_exception('no system role') }}", "TemplateError: no system role"),
    ],
)
def test_a_template_without_an_end_ends(monkeypatch: pytest.MonkeyPatch, template: str, reason: str) -> None:
    start = time.perf_counter()
    with monkeypatch.context() as patched:
        if "0.25 s" in reason:  # a gigabyte, or another process, takes longer than that on a busy machine
            patched.setattr(chat_template, "MOST_SECONDS", 0.25)
        with pytest.raises(TemplateError) as error:
            render(template, ASKED, True, {})
    assert str(error.value).startswith(reason)
    assert time.perf_counter() - start < 30
    assert render("{{ messages[0].content }}", ASKED, True, {}) == [ASKED[0][0]["content"]]


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{% for m in messages %}{% endfor %}", "it writes nothing"),
        ("{% for m in messages %}  \n{% endfor %}", "it writes nothing"),
        ("You are 7.", r"it leaves out the message: the word '\w+' is not in 'You are 7.'"),
        ("{{ messages[0].content[:20] }}", r"it leaves out a part of the message: the word '\w+' is not in '"),
        ("{{ messages[0].content|truncate(60) }}", "it leaves out a part of the message"),
        ("{{ 'a' * 10**6 }}", "it writes 1,000,000 characters for one message; expected at most 50,"),
        ("{{ 'a' * 10**10 }}", "it takes more than 1,024 MiB of memory"),
    ],
)
def test_a_model_with_such_a_template_is_one_error(tmp_path: Path, template: str, reason: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(Path(demo.__file__).parent / "lm", folder)
    (folder / "chat_template.jinja").write_text(template)
    message = rf"the chat template of model cannot be used: {reason}.*; correct chat_template\.jinja, or save"
    with pytest.raises(ModelError, match=message):
        measure("chat-iat", load_model(str(folder)), limit=4, cache=None)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (5, "it is 5; expected a text"),
        ("{{ messages[0].content }}\ud800", r"it writes half a character \(a surrogate\)"),
        ("{{ messages[0].content }}{{ '\\ud800' }}", r"it writes half a character \(a surrogate\)"),
    ],
)
def test_a_template_that_is_no_text_is_one_error(tmp_path: Path, template: object, reason: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(Path(demo.__file__).parent / "lm", folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "chat_template": template}))
    with pytest.raises(ModelError, match=rf"the chat template of model cannot be used: {reason}"):
        measure("chat-iat", load_model(str(folder)), limit=4, cache=None)
    assert measure("lm-occupation", load_model(str(folder)), limit=4, cache=None).value is not None


def test_what_is_answered_after_an_interruption_is_not_taken_for_the_next_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(renderer: object, patience: float) -> str:
        raise KeyboardInterrupt

    render("first", ASKED, True, {})
    with monkeypatch.context() as patched:
        patched.setattr(chat_template._Renderer, "_next", interrupted)
        with pytest.raises(KeyboardInterrupt):
            render("second", ASKED, True, {})
    assert render("third", ASKED, True, {}) == ["third"]
