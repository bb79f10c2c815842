"""The chat template of a tokenizer: the text that it puts around a message, up to where the model's answer begins.

It is rendered in a process of its own, so that a template which never ends, or fills the memory, ends in an error. A
template is a program of whoever made the checkpoint. jinja's sandbox keeps it from files and attributes, but a few
characters of it can write gigabytes or loop for years. The process has bounds on time, memory and length, and can be
ended, which a thread cannot.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any

from pytest_genderbias.errors import DataFileError, ModelError
from pytest_genderbias.text.plain_files import read_whole
from pytest_genderbias.text.printable import brief

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Message = Mapping[str, str]

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
#: Files of a tokenizer that a template can be in.
TOKENIZER_FILES = ("tokenizer_config.json", "chat_template.jinja", "chat_template.json")
NO_TEMPLATE = (
    "{} has no chat template, which this suite puts its questions in; save the tokenizer with its chat_template"
    " (chat_template.jinja), or measure a model that was tuned to chat"
)
_MOST_BYTES = 1 << 24  #: of tokenizer_config.json
_SHOWN = 160  #: characters of an error of a template
_WORD = re.compile(r"\w+")
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")  #: no tokenizer reads it
MOST_SECONDS = 10  #: in which the process renders one conversation
MOST_WRITTEN = 50_000  #: characters that a template may write beside the messages
_MOST_MEMORY = 1 << 30  #: bytes beyond those that it has when it starts
_PATIENCE = 120  #: seconds for its start
_ADDRESS = re.compile(r"<[^<>]* at 0x[0-9A-Fa-f]{6,}>")  #: as Python shows an object that has no text of its own


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

    It is rendered by :func:`render`, as transformers renders it.

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
            ModelError: the template cannot be rendered within the bounds of :func:`render`, or it leaves a message out.
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


# The rendering, from the side that asks.


class TemplateError(Exception):
    """A template cannot be rendered; the message is a part of a sentence."""


def render(
    template: str, conversations: Sequence[Sequence[Message]], for_answer: bool, values: Mapping[str, object]
) -> list[str]:
    """Return the text of each conversation in a template.

    Args:
        template: in jinja, as transformers reads it.
        conversations: messages with ``role`` and ``content``.
        for_answer: whether to end where the answer of the model begins.
        values: further variables of the template, as plain JSON values.

    Raises:
        TemplateError: the template is wrong, takes longer than :data:`MOST_SECONDS` or too much memory, or writes more
            than :data:`MOST_WRITTEN` characters beside the messages.
    """
    with _LOCK:
        if not _RENDERERS or not _RENDERERS[0].is_usable:  # a template ended it
            _RENDERERS[:] = [_Renderer()]
        try:
            return _RENDERERS[0].render(template, conversations, for_answer, values)
        except TemplateError:
            raise
        except BaseException:  # interrupted: what it still answers would be taken for the answer to the next request
            _RENDERERS[0].end()
            raise


class _Renderer:
    """The process, from the side that asks."""

    def __init__(self) -> None:
        self.owner = os.getpid()  # a fork must not read the answers of its parent
        code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve()"
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, with code of this module
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="ascii",
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        atexit.register(self.end)
        self._next(_PATIENCE)  # it is ready

    @property
    def is_usable(self) -> bool:
        """Whether this process started it, and it runs."""
        return self.owner == os.getpid() and self._process.poll() is None

    def render(
        self, template: str, conversations: Sequence[Sequence[Message]], for_answer: bool, values: Mapping[str, object]
    ) -> list[str]:
        """Return the text of each conversation; after an error the process has ended, or expects the next request."""
        request = {
            "template": template,
            "conversations": conversations,
            "for_answer": for_answer,
            "values": values,
            "seconds": MOST_SECONDS,
        }
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{json.dumps(request, default=str)}\n")
            self._process.stdin.flush()
        except OSError:
            raise TemplateError(self._end()) from None
        texts = []
        for _ in conversations:
            answer = json.loads(self._next(3 * MOST_SECONDS))
            if "error" in answer:
                raise TemplateError(answer["error"])
            texts.append(str(answer["text"]))
        return texts

    def end(self) -> None:
        """End the process."""
        if self.owner == os.getpid():
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
            atexit.unregister(self.end)

    def _next(self, patience: float) -> str:
        assert self._process.stdout is not None
        since, limit = time.monotonic(), Timer(patience, self._process.kill)
        limit.start()
        try:
            line = self._process.stdout.readline()
        finally:
            limit.cancel()
        if not line:
            raise TemplateError(self._end(is_late=time.monotonic() - since >= patience))
        return line

    def _end(self, is_late: bool = False) -> str:
        """End the process, and return why."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        status = self._process.returncode
        self.end()
        if is_late or status is None or -status == getattr(signal, "SIGALRM", 0):  # Windows lacks the signal
            return f"it does not end within {MOST_SECONDS} s"
        return f"the process that renders it ended (status {status})"


_LOCK = Lock()
_RENDERERS: list[_Renderer] = []


# In the process.


def serve() -> None:
    """Answer requests, one per line, until standard input ends; nothing but answers is written to standard output."""
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    from transformers.utils.chat_template_utils import render_jinja_template

    if sys.platform != "win32":
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _bound_memory()
    answers.write("{}\n")
    answers.flush()
    for line in sys.stdin:
        request = json.loads(line)
        for messages in request["conversations"]:
            answer = _answered(render_jinja_template, request, messages)
            answers.write(f"{json.dumps(answer)}\n")
            answers.flush()
            if "error" in answer:
                break


def _answered(
    render_template: Callable[..., Any], request: Mapping[str, Any], messages: list[Message]
) -> dict[str, str]:
    with_alarm = sys.platform != "win32"
    drawn = random.getstate()
    if with_alarm:  # ends the process, even within one long operation; elsewhere the process that asks ends it
        signal.setitimer(signal.ITIMER_REAL, request["seconds"])
    try:
        (text,), _ = render_template(
            conversations=[messages],
            chat_template=request["template"],
            add_generation_prompt=request["for_answer"],
            **request["values"],
        )
    except MemoryError:
        return {"error": f"it takes more than {_MOST_MEMORY >> 20:,} MiB of memory"}
    except Exception as error:  # a template is code of others: a syntax error, an unknown name, a role that it refuses
        return {"error": f"{type(error).__name__}: {str(error)[:1000]}"}
    finally:
        if with_alarm:
            signal.setitimer(signal.ITIMER_REAL, 0)
    most = MOST_WRITTEN + sum(len(part) for message in messages for part in message.values())
    if len(text) > most:
        return {"error": f"it writes {len(text):,} characters for one message; expected at most {most:,}"}
    if random.getstate() != drawn:
        return {
            "error": "it draws at random, as the filter random and the function lipsum do: no prompt would come again"
        }
    if address := _ADDRESS.search(text):
        return {"error": f"it writes where an object is in memory ({address[0]!r:.60}), which differs from run to run"}
    return {"text": text}


def _bound_memory() -> None:
    try:
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):  # no Linux: time and length are bounded there
        return
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    bound = used + _MOST_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (bound if most == resource.RLIM_INFINITY else min(bound, most), most))
