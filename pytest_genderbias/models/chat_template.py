"""The chat template of a tokenizer: the text that it puts around a message, up to where the model's answer begins."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_genderbias.errors import DataFileError, ModelError
from pytest_genderbias.text.plain_files import read_whole
from pytest_genderbias.text.printable import brief

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from pytest_genderbias.models.template_process import Message

DETAIL = "chat_template"  #: of a model's details, by which the signature names its template
#: What templates that write the date get, so that a prompt is the same on every day: their variable, and in place of
#: their function a macro. transformers drops one line break after a block, so that the template begins a line as it
#: does by itself.
_DAY = "26 Jul 2024"
_CLOCK = "strftime_now"
_STOPPED_CLOCK = (
    "{%- macro strftime_now(format) -%}"
    "{{ {'%Y-%m-%d': '2024-07-26', '%B %d, %Y': 'July 26, 2024', '%Y': '2024'}.get(format, '26 Jul 2024') }}"
    "{%- endmacro %}\n"
)
#: Where transformers keeps templates, beside ``tokenizer_config.json``.
_TEMPLATE_FILES = ("chat_template.jinja", "additional_chat_templates", "chat_template.json")
TOKENIZER_FILES = (
    "tokenizer_config.json",
    "chat_template.jinja",
    "chat_template.json",
)  #: those that a template can be in
NO_TEMPLATE = (
    "{} has no chat template, which this suite puts its questions in; save the tokenizer with its chat_template"
    " (chat_template.jinja), or measure a model that was tuned to chat"
)
_MOST_BYTES = 1 << 24  #: of tokenizer_config.json
_SHOWN = 160  #: characters of an error of a template
_WORD = re.compile(r"\w+")
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")  #: no tokenizer reads it


def chat_template_details(tokenizer: PreTrainedTokenizerBase) -> dict[str, str]:
    """Return the hash of a tokenizer's chat template, for the details of a model; nothing where it has none."""
    template = tokenizer.chat_template
    if not template:
        return {}
    text = template if isinstance(template, str) else json.dumps(template, sort_keys=True, default=str)
    return {DETAIL: hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]}


def lacks_chat_template(folder: Path) -> bool:
    """Return whether the files of a checkpoint have no chat template; no tokenizer is loaded. False where that cannot
    be told.
    """
    if any((folder / name).exists() for name in _TEMPLATE_FILES):
        return False
    try:
        return f'"{DETAIL}"' not in read_whole(folder / "tokenizer_config.json", _MOST_BYTES)
    except DataFileError:
        return False


class ChatPrompts:
    """Puts messages into the chat template of a tokenizer.

    A template that writes the date gets a fixed one, and one that can switch off thinking aloud is asked to, so that
    its answer comes first, unless ``thinking``. Both are the same for every model and every day.

    It is rendered by :mod:`~pytest_genderbias.models.template_process`, as transformers renders it.

    Args:
        tokenizer: a tokenizer with a chat template.
        name: the model's name, for messages.
        thinking: whether the model may think aloud before its answer, where the template knows a switch.

    Raises:
        ModelError: there are several templates, and no default; or the template is no text.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, name: str, thinking: bool = False) -> None:
        self._tokenizer, self._name, self._thinking = tokenizer, name, thinking
        try:
            template = tokenizer.get_chat_template()
        except ValueError as error:  # several, and none of them is the default
            raise _unusable(name, f"{type(error).__name__}: {error}") from None
        if not isinstance(template, str):
            raise _unusable(name, f"it is {brief(template)}; expected a text")
        self._template = (_STOPPED_CLOCK if _CLOCK in template else "") + template

    def prompt(self, message: str) -> str:
        """Return the text that ends where the answer to a message begins; errors as :meth:`prompts`."""
        return self.prompts([message])[0]

    def prompts(self, messages: Sequence[str]) -> list[str]:
        """Return for each message the text that ends where the answer to it begins.

        Raises:
            ModelError: the template cannot be rendered within the bounds of
                :mod:`~pytest_genderbias.models.template_process`, or it leaves a message out.
        """
        texts = self._rendered([[{"role": "user", "content": message}] for message in messages], True)
        for message, text in zip(messages, texts, strict=True):
            if not text.strip():
                raise _unusable(self._name, "it writes nothing")
            written, words = text.casefold(), _WORD.findall(message)
            left_out = [word for word in words if word.casefold() not in written]
            if left_out:
                part = "the message" if len(left_out) == len(words) else "a part of the message"
                raise _unusable(
                    self._name, f"it leaves out {part}: the word {brief(left_out[0])} is not in {brief(text)}"
                )
        return texts

    def space_before(self, answer: str) -> str:
        """Return the white space that the template itself puts between its end and an answer, mostly none.

        Llama 2's template ends with ``[/INST]`` and writes a space before each answer, so its models expect one.
        """
        message = "Hello."
        prompt = self.prompt(message)
        try:
            (whole,) = self._rendered(
                [[{"role": "user", "content": message}, {"role": "assistant", "content": answer}]], False
            )
        except ModelError:  # a template for questions only
            return ""
        rest = whole.removeprefix(prompt)
        space = rest[: len(rest) - len(rest.lstrip())]
        return space if whole.startswith(prompt) and rest.startswith(space + answer) else ""

    def _rendered(self, conversations: Sequence[Sequence[Message]], for_answer: bool) -> list[str]:
        from pytest_genderbias.models.template_process import TemplateError, render

        values = {**self._tokenizer.special_tokens_map, "enable_thinking": self._thinking, "date_string": _DAY}
        try:
            texts = render(self._template, conversations, for_answer, values)
        except TemplateError as error:
            raise _unusable(self._name, str(error)) from None
        if any(_HALF_CHARACTER.search(text) for text in texts):
            raise _unusable(self._name, "it writes half a character (a surrogate)")
        return texts


def _unusable(name: str, reason: str) -> ModelError:
    return ModelError(
        f"the chat template of {name} cannot be used: {' '.join(reason.split())[:_SHOWN]}; "
        "correct chat_template.jinja, or save the tokenizer again"
    )
