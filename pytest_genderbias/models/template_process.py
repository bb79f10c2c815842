"""Renders chat templates in a process of its own, so that one which never ends, or fills the memory, ends in an error.

A template is a program of whoever made the checkpoint. jinja's sandbox keeps it from files and attributes, but a few
characters of it can write gigabytes or loop for years. The process has bounds on time, memory and length, and can be
ended, which a thread cannot.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any

Message = Mapping[str, str]

MOST_SECONDS = 10  #: for one conversation
MOST_WRITTEN = 50_000  #: characters that a template may write beside the messages
_MOST_MEMORY = 1 << 30  #: bytes beyond those that the process has when it starts
_PATIENCE = 120  #: seconds for the start of the process
_ADDRESS = re.compile(r"<[^<>]* at 0x[0-9A-Fa-f]{6,}>")  #: as Python shows an object that has no text of its own


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
        return _RENDERERS[0].render(template, conversations, for_answer, values)


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
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        Thread(target=self._read, daemon=True).start()
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
        try:
            line = self._lines.get(timeout=patience)
        except queue.Empty:
            line = ""
        if not line:
            raise TemplateError(self._end())
        return line

    def _end(self) -> str:
        """End the process, and return why."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        status = self._process.returncode
        self.end()
        if status is None or -status == getattr(signal, "SIGALRM", 0):  # Windows lacks the signal
            return f"it does not end within {MOST_SECONDS} s"
        return f"the process that renders it ended (status {status})"

    def _read(self) -> None:
        assert self._process.stdout is not None
        with suppress(ValueError):  # closed while it was read
            for line in self._process.stdout:
                self._lines.put(line)
        self._lines.put("")


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
