"""Requests to a server with an API like OpenAI's, which answers in JSON.

Requests that fail for a while (429, 5xx, time-outs, truncated answers) are sent again after a pause that doubles, or
that the server names. A request ends after the time limit, whatever the server does meanwhile; a server that asks for a
longer pause ends the run. A few are under way at once, in the event loop of a thread, so that an interruption cancels
them. The key of the environment variable ``GENDERBIAS_API_KEY`` is in the header of each request, and nowhere else.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
import weakref
from base64 import b64encode
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from functools import lru_cache, partial
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from pytest_genderbias.errors import ModelError, ScoreError, installing
from pytest_genderbias.models.event_loop import loop
from pytest_genderbias.models.source import TIME_LIMIT
from pytest_genderbias.models.spec import ModelSpec, safe_name
from pytest_genderbias.text.printable import brief

if TYPE_CHECKING:
    import httpx

API_KEY = "GENDERBIAS_API_KEY"  #: environment variable with the key of a server
CONNECT = 10.0  #: seconds in which a connection should be there, and what says more of a server than is needed
_ATTEMPTS = 7  #: of one request
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0  #: seconds between two attempts
_PASSING = frozenset((408, 425, 429, 500, 502, 503, 504))  #: statuses after which a request is sent again
_MOST_BYTES = 1 << 28  #: of an answer
_MOST_SAID = 4096  #: characters of an error that are looked at
_PART = 8  #: characters of the key, or of a form of it, that are shown nowhere


class RefusedError(ModelError):
    """The server does not take a request as it is.

    ``content``: what it answers. Those who ask a model see a :class:`ModelError`.
    """

    def __init__(self, message: str, content: bytes = b"") -> None:
        super().__init__(message)
        self.content = content


class Transport:
    """Sends requests to one server.

    Args:
        url: address up to ``/v1``.
        name: name of the model in messages.
        expected: what the server should take, and what it should give, in words.
        at_once: most connections.
        allow_remote: whether the server may be on another machine.
        time_limit: seconds in which the whole answer to a request should be there, from the connection to the last
            byte; else it is sent again.
        pause: called in place of a pause, with its seconds, in tests.
        transport: carries the requests; replaced in tests.

    Raises:
        ModelError: httpx is not installed, or the server is on another machine.
    """

    def __init__(
        self,
        url: str,
        name: str,
        expected: tuple[str, str],
        at_once: int,
        allow_remote: bool = False,
        time_limit: float = TIME_LIMIT,
        pause: Callable[[float], object] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        if find_spec("httpx") is None:
            raise ModelError(f"{name} is asked over HTTP with httpx, not installed here: {installing('served')}")
        _refuse_remote(url, name, allow_remote)
        self.url, self._name, self._expected = url, name, expected
        self.time_limit, self._pause = time_limit, pause
        self._connect = partial(_connection, url, time_limit, at_once, transport)
        self._clients: dict[int, httpx.AsyncClient] = {}
        self._connections()

    @property
    def where(self) -> str:
        """The server, in words."""
        return f"the server at {self.url}"

    async def sent(
        self, method: str, path: str, body: Mapping[str, object] | None, first: bool = False
    ) -> dict[str, Any]:
        """Send a request, again where it fails for a while, and return the JSON of its answer.

        ``first``: nothing was sent before, so that the address is wrong where nothing listens.

        Raises:
            RefusedError: the server does not take the request as it is.
            ModelError: the server refuses it otherwise, or nothing listens.
            ScoreError: it does not answer.
        """
        import httpx

        trouble, wait = "", _FIRST_PAUSE
        for attempt in range(_ATTEMPTS):
            if attempt:
                if self._pause is None:
                    await asyncio.sleep(wait)
                else:
                    self._pause(wait)
            wait = min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE)
            try:
                response, answer = await self.answered(method, f"{self.url}/{path}", body, self.time_limit)
            except httpx.ConnectError as error:
                if first:
                    raise ModelError(
                        f"{self._name}: nothing answers at {self.url} ({_reason(error)}); start the server, or correct"
                        " the address"
                    ) from None
                trouble = _reason(error)
                continue
            except httpx.RequestError as error:  # on the way, or an answer that cannot be unpacked
                trouble = _reason(error) + self._longer(error)
                continue
            except asyncio.TimeoutError as error:
                trouble = f"no whole answer{self._longer(error)}"
                continue
            if response.status_code in _PASSING:
                trouble = _status(response, answer)
                wait = self._pause_asked(response, trouble, wait)
                continue
            if response.status_code != 200:
                raise self._refused(response, answer)
            content = json_object(answer)
            if content is not None:
                return content
            trouble = "an answer that is no whole JSON object"
        raise ScoreError(
            f"{self.where} did not answer {_ATTEMPTS} times (at last: {trouble}); scores so far are kept only in the"
            " score cache, if there is one: run again when the server is well"
        )

    async def answered(self, method: str, url: str, body: object, time_limit: float) -> tuple[httpx.Response, bytes]:
        """Send a request once, and return the response with its content, in which no key is left for tracebacks.

        Raises:
            ScoreError: the content is longer than any that was asked for; it is not read to its end.
            asyncio.TimeoutError: the content is not complete after ``time_limit`` seconds, in which the server may have
                sent something all the time.
        """

        async def read() -> tuple[httpx.Response, bytes]:
            async with self._connections().stream(method, url, json=body) as response:
                content = bytearray()
                async for piece in response.aiter_bytes():
                    content += piece
                    if len(content) > _MOST_BYTES:
                        raise ScoreError(
                            f"{self.where} sends more than {_MOST_BYTES >> 20} MiB in answer to one request, which was"
                            f" not read to its end; expected {self._expected[1]}"
                        )
                return response, without_key(content.decode("latin-1")).encode("latin-1")

        return await asyncio.wait_for(read(), time_limit)

    def _connections(self) -> httpx.AsyncClient:
        """Return those of this process, since the event loop of the process that it was forked from waits for the
        answers of others. They are closed when the transport is no longer referenced.
        """
        process = os.getpid()
        if process not in self._clients:
            self._clients[process] = self._connect()
            weakref.finalize(self, _closed, self._clients[process], process).atexit = False
        return self._clients[process]

    def _longer(self, error: Exception) -> str:
        """Return how a server gets more time, where it took too much."""
        import httpx

        too_late = isinstance(error, (httpx.ReadTimeout, httpx.WriteTimeout, asyncio.TimeoutError))
        return f" after {self.time_limit:g} s, -o bias_endpoint_timeout=SECONDS waits longer" if too_late else ""

    def _pause_asked(self, response: httpx.Response, trouble: str, otherwise: float) -> float:
        """Return the pause in seconds before the next attempt: that of the server's ``Retry-After``, by its number or
        date, if it names one.

        Raises:
            ScoreError: it is longer than a run waits, or no number.
        """
        text, longest = response.headers.get("retry-after", ""), max(_LONGEST_PAUSE, self.time_limit)
        try:
            seconds = float(text)
        except ValueError:
            try:
                seconds = parsedate_to_datetime(text).timestamp() - time.time()
            except (TypeError, ValueError, OverflowError):
                seconds = otherwise
        if seconds <= longest:  # which is false of NaN
            return max(0.0, seconds)
        asked = brief(without_key(text), 60)
        raise ScoreError(
            f"{self.where} answers with {trouble}, and asks to wait until its next request (Retry-After: {asked}); a"
            f" run waits {longest:g} s at most: run again later, or give it more time with -o"
            " bias_endpoint_timeout=SECONDS"
        )

    def _refused(self, response: httpx.Response, answer: bytes) -> ModelError:
        status = _status(response, answer)
        if response.status_code in (401, 403):
            return ModelError(f"{self.where} refuses the key ({status}); set the environment variable {API_KEY}")
        message = f"{self.where} refuses a request ({status}); expected {self._expected[0]}"
        return RefusedError(message, answer) if response.status_code in (400, 413, 422) else ModelError(message)


def address_of(spec: str, kind: str, prefix: str = "") -> ModelSpec:
    """Parse ``http://HOST:PORT/v1#MODEL`` after a prefix. Nothing of it is secret: it is shown, and stored in
    baselines.

    Raises:
        ModelError: it has another form, or a user, a password or a query.
    """
    form = (
        f"expected {prefix}http://HOST:PORT/v1#MODEL, with MODEL as GET /v1/models of an OpenAI-compatible server names"
        " it"
    )
    url, _, model = spec.removeprefix(prefix).partition("#")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ModelError(f"the address of a server cannot be read: {error}; {form}") from None
    if parts.username or parts.password or parts.query:
        raise ModelError(
            "the address of a server should have no user, password or query, since it is shown and stored: "
            f"put the key into the environment variable {API_KEY}; {form}"
        )
    if not host or not model:
        raise ModelError(f"{brief(spec)} names no {'model' if host else 'host'}; {form}")
    return ModelSpec(safe_name(model.rstrip("/").rpartition("/")[2]), spec, kind, f"{url.rstrip('/')}#{model}")


def _closed(connections: httpx.AsyncClient, process: int) -> None:
    """Close connections that are no longer used, unless they are those of the process that this one was forked
    from.
    """
    if process == os.getpid():
        asyncio.run_coroutine_threadsafe(connections.aclose(), loop())


def _refuse_remote(url: str, name: str, allow_remote: bool) -> None:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if _is_here(host):
        return
    if not allow_remote:
        raise ModelError(
            f"{name} is at {host}, another machine: the texts of the suites would leave this one; -o"
            " bias_allow_remote=true permits it (allow_remote=True in Python)"
        )
    if parts.scheme == "http" and _key():
        raise ModelError(
            f"{name} is at {host}, and {API_KEY} would be sent there without encryption; give the address with https,"
            " or unset the key"
        )


def _is_here(host: str) -> bool:
    """Return whether a host is this machine; of 0.0.0.0 a server says that it listens at all addresses of its own."""
    try:
        return ip_address(host).is_loopback or ip_address(host).is_unspecified
    except ValueError:
        return host == "localhost"


def _connection(
    url: str, time_limit: float, at_once: int, transport: httpx.AsyncBaseTransport | None
) -> httpx.AsyncClient:
    """Return a client with the key. Redirections are not followed, and no proxy stands before this machine.

    Raises:
        ModelError: the address is none, or the key cannot be sent in a header.
    """
    import httpx

    try:
        httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ModelError(f"{brief(url)} is no address of a server: {error}") from None
    if not (_key().isascii() and _key().isprintable()):
        raise ModelError(
            f"{API_KEY} has a line break, or another character that a header of HTTP cannot have; expected the key"
            " alone, in one line"
        )
    is_here = _is_here(urlsplit(url).hostname or "")
    return httpx.AsyncClient(
        headers={"Authorization": f"Bearer {_key()}"} if _key() else {},
        verify=not is_here or url.startswith("https:"),  # the certificates take a tenth of a second to read
        timeout=httpx.Timeout(time_limit, connect=min(CONNECT, time_limit)),
        limits=httpx.Limits(max_connections=at_once),
        transport=transport,
        trust_env=not is_here,
    )


def _key() -> str:
    """Return the key. No local variable of a function that raises errors holds it, since tracebacks may show these."""
    return os.environ.get(API_KEY, "").strip()


def without_key(text: str) -> str:
    """Return what a server says without the key, which some repeat: whole, in part, in base64 or encoded for a URL."""
    parts = [part for part in _parts_of(_key()) if part in text]
    if not parts:
        return text
    hidden = bytearray(len(text))
    for found in re.finditer(f"(?=({'|'.join(map(re.escape, parts))}))", text):
        hidden[found.start() : found.end(1)] = b"\1" * len(found[1])
    pieces = re.finditer(b"\0+|\1+", hidden)
    return "".join("***" if hidden[piece.start()] else text[piece.start() : piece.end()] for piece in pieces)


@lru_cache(maxsize=1)
def _parts_of(key: str) -> frozenset[str]:
    """Return the parts of the key, and of its encoded forms, that are shown nowhere."""
    forms = {key, quote(key, safe="")}
    for before in range(3):  # in what is encoded, anything may stand before the key
        encoded = b64encode(b" " * before + key.encode(errors="replace")).decode().rstrip("=")
        inside = encoded[4 if before else 0 : len(encoded) - 1]
        forms |= {inside, inside.translate(str.maketrans("+/", "-_"))}
    parts = {form[i : i + _PART] for form in forms for i in range(max(1, len(form) - _PART + 1))}
    return frozenset(parts - {""}) if key else frozenset()


def _status(response: httpx.Response, answer: bytes) -> str:
    """Return the status of an answer, with what the server says: the message of a JSON object, or a text; in one line,
    cut, without the key.
    """
    content = json_object(answer)
    if content is None:
        said: object = answer.decode("utf-8", "replace")
    else:
        error = content.get("error") or content
        said = error if not isinstance(error, dict) else error.get("message") or error.get("detail")
    line = " ".join(without_key(str(said or ""))[:_MOST_SAID].split()) or response.reason_phrase
    return f"status {response.status_code}: {brief(line, 300)}"


def json_object(answer: bytes) -> dict[str, Any] | None:
    """Return an answer if it is a whole JSON object."""
    try:
        content = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _reason(error: Exception) -> str:
    return brief(without_key(" ".join(f"{type(error).__name__}: {error}".split())), 160)
