"""Systems that answer in text: an object with ``reply``, or a file of replies. A question is one message."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pytest_genderbias.datasets.stored_replies import StoredReplies
from pytest_genderbias.errors import BiasError, ScoreError, SettingError
from pytest_genderbias.folders import KEPT_REPLIES, distrusted
from pytest_genderbias.models.event_loop import done, loop
from pytest_genderbias.models.protocols import REPLIES, Backend, Replier
from pytest_genderbias.text.printable import brief

CHARACTERS = 4  #: of a token, about, in English
_AT_ONCE = 8  #: calls of a coroutine under way
_MOST_AT_ONCE = 256

Messages = list[dict[str, str]]
Tokens = list[tuple[str, float]]  #: with ln P of each


class Wanted(NamedTuple):
    """A question of a run: its text, how many replies it gets (0: the first tokens of one are listed), and the seed."""

    text: str
    samples: int = 0
    seed: int = 0


@dataclass(frozen=True)
class Asked:
    """Cases of a question that are asked.

    ``name``, ``digest``: of the question. ``cases``: its number of cases. ``ids``, ``texts``: of the cases that are
    asked. ``samples``: replies to each. ``seed``: of the run. ``cache``: folder of the score cache, or ``None``.
    """

    name: str
    digest: str
    cases: int
    ids: Sequence[str]
    texts: Sequence[str]
    samples: int
    seed: int
    cache: Path | None = None


class RepliesBackend(Backend):
    """A system that answers in text."""

    abilities: ClassVar[frozenset[str]] = frozenset({REPLIES})

    @property
    def notes(self) -> list[str]:
        """Remarks on the replies."""
        return []

    def check(self, name: str) -> None:
        """Refuse a question that the system cannot be asked."""

    def replies(self, asked: Asked) -> list[tuple[str, ...]]:
        """Return the replies to each case."""
        raise NotImplementedError

    def expect(self, wanted: Iterable[Wanted], cache: Path | None) -> str:
        """Refuse questions that would be too dear, before the first one; return what they cost, in words.

        ``cache``: as of :class:`Asked`.
        """
        return ""


@dataclass(frozen=True)
class RepliesFile(RepliesBackend):
    """The replies in a file."""

    stored: StoredReplies

    def check(self, name: str) -> None:
        """Refuse a question to which the file has no replies.

        Raises:
            NotApplicableError: it has none.
        """
        self.stored.check(name)

    def replies(self, asked: Asked) -> list[tuple[str, ...]]:
        """Return the replies to each case.

        Raises:
            NotApplicableError, DataFileError: as :meth:`StoredReplies.of`.
        """
        return self.stored.of(asked.name, asked.digest, asked.cases, asked.ids)


@dataclass(frozen=True)
class Replying(RepliesBackend):
    """An object that replies, as :class:`~pytest_genderbias.models.protocols.Replier`.

    ``name``: of the model, for messages. ``fingerprint``: text that changes whenever its replies can; its replies are
    kept under it, one by one, so that an interrupted run goes on. ``None``: they are not kept. ``known``: the replies
    of this run.
    """

    target: Replier = field(repr=False)
    name: str
    fingerprint: str | None
    known: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)

    def replies(self, asked: Asked) -> list[tuple[str, ...]]:
        """Return the replies to each case; equal messages are asked once.

        Raises:
            ScoreError: the object fails, or returns something else than texts.
        """
        keys = {text: _key(Wanted(text, asked.samples, asked.seed)) for text in asked.texts}
        unknown = self.unknown((Wanted(text, asked.samples, asked.seed) for text in asked.texts), asked.cache)
        if unknown:
            with _writing(kept_path(asked.cache, self.fingerprint)) as keep:
                for text, replies in self._answers([wanted.text for wanted in unknown], asked):
                    self.known[keys[text]] = replies
                    keep(keys[text], replies)
        return [self.known[keys[text]] for text in asked.texts]

    def unknown(self, wanted: Iterable[Wanted], cache: Path | None) -> list[Wanted]:
        """Return the different questions to which no replies are known, nor kept in the score cache."""
        keys = {one: _key(one) for one in wanted}
        if any(key not in self.known for key in keys.values()):
            self.known.update(read_kept(kept_path(cache, self.fingerprint)))
        return [one for one, key in keys.items() if key not in self.known]

    def _answers(self, texts: Sequence[str], asked: Asked) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield texts with their replies, as they come.

        Raises:
            SettingError: the attribute ``at_once`` is no whole number from 1 on.
        """
        is_coroutine = inspect.iscoroutinefunction(self.target.reply)
        at_once = getattr(self.target, "at_once", _AT_ONCE if is_coroutine else 1)
        if type(at_once) is not int or not 1 <= at_once <= _MOST_AT_ONCE:
            raise SettingError(
                f"at_once of {self.name} should be a whole number from 1 to {_MOST_AT_ONCE}, got {brief(at_once)}"
            )
        seeds = {
            text: int.from_bytes(hashlib.sha256(f"{asked.seed}\n{text}".encode()).digest()[:4], "big") for text in texts
        }

        def question(text: str) -> tuple[Messages, int, int]:
            return [{"role": "user", "content": text}], asked.samples, seeds[text]

        async def begun(text: str, free: asyncio.Semaphore) -> object:
            async with free:
                return await _awaited(self.target.reply(*question(text)), self.name)

        def called(text: str) -> object:
            found: Any = self.target.reply(*question(text))
            return done(_awaited(found, self.name)) if inspect.isawaitable(found) else found

        def checked(find: Callable[[], object]) -> tuple[str, ...]:
            try:
                found = find()
            except BiasError:
                raise
            except (Exception, SystemExit) as error:  # of the user's code, of any kind
                raise ScoreError(f"reply of {self.name} failed: {type(error).__name__}: {error}") from error
            return _checked(found, asked.samples or 1, self.name)

        if at_once == 1 and not is_coroutine:
            yield from ((text, checked(partial(called, text))) for text in texts)
            return
        pool, free = ThreadPoolExecutor(at_once), asyncio.Semaphore(at_once)
        futures: dict[Future[object], str] = {
            asyncio.run_coroutine_threadsafe(begun(text, free), loop())
            if is_coroutine
            else pool.submit(called, text): text
            for text in texts
        }
        try:
            for future in as_completed(futures):
                yield futures.pop(future), checked(future.result)
        except BiasError:  # what came meanwhile is kept
            yield from (
                (text, checked(future.result))
                for future, text in futures.items()
                if future.done() and not future.cancelled() and future.exception() is None
            )
            raise
        finally:  # also after an interruption
            for future in futures:
                future.cancel()
            pool.shutdown(wait=False, cancel_futures=True)


async def _awaited(found: Any, name: str) -> object:
    """Return what a coroutine returns. A SystemExit would end the loop, too, for which others then wait for ever."""
    try:
        return await found
    except SystemExit as error:
        raise ScoreError(f"reply of {name} failed: SystemExit: {error}") from error


def _checked(found: object, samples: int, name: str) -> tuple[str, ...]:
    if isinstance(found, str) or not isinstance(found, Sequence):
        raise ScoreError(f"reply of {name} should return {samples} texts in a list, got {type(found).__name__}")
    if len(found) != samples:
        raise ScoreError(f"reply of {name} returned {len(found)} texts, expected n = {samples}")
    strange = [text for text in found if not isinstance(text, str)]
    if strange:
        raise ScoreError(f"reply of {name} should return texts, got {type(strange[0]).__name__}: {brief(strange[0])}")
    return tuple(found)


def _key(wanted: Wanted) -> str:
    return hashlib.sha256(json.dumps(wanted).encode()).hexdigest()[:32]


def kept_path(cache: Path | None, fingerprint: str | None) -> Path | None:
    """Return the file with the kept replies of one system in a folder of the score cache; ``None`` where nothing is
    kept.

    It has JSON lines and only grows: each question is written when it is answered.
    """
    if cache is None or fingerprint is None or distrusted(cache):
        return None
    return cache / KEPT_REPLIES / f"{hashlib.sha256(fingerprint.encode()).hexdigest()[:32]}.jsonl"


def read_kept(path: Path | None) -> dict[str, tuple[str, ...]]:
    """Return the kept replies by key. A line that a kill cut off, or that has another form, is left out, and its
    question is asked again.
    """
    found: dict[str, tuple[str, ...]] = {}
    if path is None or not path.is_file():
        return found
    for line in path.read_bytes().split(b"\n"):
        try:
            key, *replies = json.loads(line)
        except (ValueError, TypeError, RecursionError):
            continue
        if isinstance(key, str) and replies and all(isinstance(reply, str) for reply in replies):
            found[key] = tuple(replies)
    return found


@contextmanager
def _writing(path: Path | None) -> Iterator[Callable[[str, tuple[str, ...]], None]]:
    """Yield a function that adds the replies to a question.

    The file is opened for its end, so that several processes may write at once. If it cannot be written, nothing is
    kept.
    """
    handle = None
    if path is not None:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def keep(key: str, replies: tuple[str, ...]) -> None:
        if handle is not None:  # the line break before it ends a line that a kill cut off
            os.write(handle, f"\n{json.dumps([key, *replies])}\n".encode())

    try:
        yield keep
    finally:
        if handle is not None:
            os.close(handle)
