"""The client of a server with OpenAI's ``/v1/completions``: prompts as token ids, their log-probabilities by ``echo``
and ``logprobs``.

Requests that fail for a while (429, 5xx, time-outs, truncated answers) are sent again after a pause that doubles, or
that the server names. A request ends after the time limit, whatever the server does meanwhile; a server that asks for a
longer pause ends the run. A few are under way at once, in the event loop of a thread, so that an interruption cancels
them. The key of the environment variable ``GENDERBIAS_API_KEY`` is in the header of each request, and nowhere else.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import partial
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import numpy as np

from pytest_genderbias.errors import ModelError, ScoreError, installing
from pytest_genderbias.models.event_loop import done, loop
from pytest_genderbias.models.prompt_log_probabilities import Prompt, PromptAnswer
from pytest_genderbias.models.source import TIME_LIMIT
from pytest_genderbias.text.printable import brief

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

API_KEY = "GENDERBIAS_API_KEY"  #: environment variable with the key of a server
_ATTEMPTS = 7  #: of one request
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0  #: seconds between two attempts
_PASSING = frozenset((408, 425, 429, 500, 502, 503, 504))  #: statuses after which a request is sent again
_AT_ONCE = 4  #: requests under way
_PROMPTS, _TOKENS = 32, 8192  #: most prompts and tokens in a request
_CONNECT = 10.0  #: seconds in which a connection should be there, and what says more of a server than is needed
_MOST_BYTES = 1 << 28  #: of an answer
_MOST_SAID = 4096  #: characters of an error that are looked at
_ID = "token_id:"  #: before the id of a token that is given as one
_BY_IDS: Mapping[str, object] = {"return_tokens_as_token_ids": True}  #: vLLM's
#: What some servers set by default for what they generate. Others do not know these names.
_EXTRAS: Mapping[str, object] = {**_BY_IDS, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "ignore_eos": True}


class ServedClient:
    """Asks one model of one server. It has the protocol
    :class:`~pytest_genderbias.models.prompt_log_probabilities.PromptLogProbabilities`.

    Args:
        url: address up to ``/v1``.
        model: the server's name for the model.
        name: name of the model in messages.
        allow_remote: whether the server may be on another machine.
        time_limit: seconds in which the whole answer to a request should be there, from the connection to the last
            byte; else it is sent again.
        pause: called in place of a pause, with its seconds, in tests.
        transport: carries the requests; replaced in tests.

    Raises:
        ModelError: httpx is not installed, the server is on another machine, cannot be reached, or has no such model.
    """

    def __init__(
        self,
        url: str,
        model: str,
        name: str,
        allow_remote: bool = False,
        time_limit: float = TIME_LIMIT,
        pause: Callable[[float], object] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        if find_spec("httpx") is None:
            raise ModelError(f"{name} is asked over HTTP with httpx, not installed here: {installing('served')}")
        _refuse_remote(url, name, allow_remote)
        self._url, self._model, self._name = url, model, name
        self._time_limit, self._pause = time_limit, pause
        self._connect = partial(_connection, url, time_limit, transport)
        self._open()
        self._extras, self._max_tokens = dict(_EXTRAS), 0
        self._about = _done(self._described())

    @property
    def where(self) -> str:
        """The server, in words."""
        return f"the server at {self._url}"

    @property
    def max_length(self) -> int | None:
        """Most tokens in a prompt, one less than the server says, since servers generate a token after it; ``None`` if
        it does not say.
        """
        longest = self._about.get("max_model_len")
        return longest - 1 if type(longest) is int and longest > 1 else None

    @property
    def facts(self) -> Mapping[str, str]:
        """Version of the server: from its ``/version``, or the header ``Server``."""
        return {"server": self._about["server"]}

    def ask(self, prompts: Sequence[Prompt], most_likely: int = 0, temperature: float = 0.0) -> list[PromptAnswer]:
        """Return the log-probabilities of the tokens of each prompt, in nats, in the order of the prompts.

        Raises:
            ModelError: the server refuses a request.
            ScoreError: it does not answer, or what it answers cannot be read.
        """
        settings = {"echo": True, "logprobs": max(1, most_likely), "temperature": temperature}
        answers = _done(_all(lambda part: self._asked(part, settings), _parts(prompts)))
        return [answer for answered in answers for answer in answered]

    def generate(self, prompts: Sequence[Prompt], tokens: int, temperature: float, seed: int | None) -> list[list[int]]:
        """Return the ids of up to ``tokens`` generated tokens for each prompt.

        Raises:
            ModelError, ScoreError: as :meth:`ask`, or the server does not say which tokens it generated by their ids.
        """
        settings = {"max_tokens": tokens, "logprobs": 1, "temperature": temperature, "top_p": 1.0}
        if seed is not None:
            settings["seed"] = seed
        answers = _done(_all(lambda part: self._choices(part, settings), _parts(prompts)))
        return [self._generated(choice) for choices in answers for choice in choices]

    def own_token_ids(self, text: str) -> list[int] | None:
        """Return the ids into which the server cuts a text; ``None`` if it does not name ids."""
        (choice,) = _done(self._echoed(text, 1, {"echo": True, "logprobs": 1, "temperature": 0.0}))[0]
        ids = _token_ids(choice)
        return ids if ids is None or not self._max_tokens else ids[: -self._max_tokens]

    async def _asked(self, prompts: Sequence[Prompt], settings: Mapping[str, object]) -> list[PromptAnswer]:
        choices, usage = await self._echoed([list(map(int, prompt)) for prompt in prompts], len(prompts), settings)
        read = usage.get("prompt_tokens") if len(prompts) == 1 else None
        return [
            _answer(choice, len(prompt) if self._max_tokens else None, read if type(read) is int else None)
            for choice, prompt in zip(choices, prompts, strict=True)
        ]

    async def _echoed(
        self, prompt: object, count: int, settings: Mapping[str, object]
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return the choices of a request without a generated token; with one, for servers that refuse to generate
        none.
        """
        try:
            return await self._completed({"prompt": prompt, **settings, "max_tokens": self._max_tokens}, count)
        except _RefusedError:
            if self._max_tokens:
                raise
            completed = await self._completed({"prompt": prompt, **settings, "max_tokens": 1}, count)
            self._max_tokens = 1
            return completed

    async def _choices(self, prompts: Sequence[Prompt], settings: Mapping[str, object]) -> list[dict[str, Any]]:
        body = {"prompt": [list(map(int, prompt)) for prompt in prompts], **settings}
        return (await self._completed(body, len(prompts)))[0]

    async def _completed(self, body: Mapping[str, object], count: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return ``count`` choices in the order of the prompts, and the usage."""
        extras = self._extras  # which another request may change
        try:
            content = await self._sent("POST", "completions", {"model": self._model, **body, **extras})
        except _RefusedError:
            if extras == _BY_IDS:
                raise
            content = await self._sent("POST", "completions", {"model": self._model, **body, **_BY_IDS})
            self._extras = dict(_BY_IDS)
        choices, usage = content.get("choices"), content.get("usage")
        if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
            raise ScoreError(
                f"{self.where} answers {brief(_without_key(json.dumps(content)))}; expected 'choices', a list, as"
                " OpenAI's completions have"
            )
        indexes = [choice.get("index", place) for place, choice in enumerate(choices)]
        if sorted(map(str, indexes)) != sorted(map(str, range(count))):
            raise ScoreError(
                f"{self.where} answers {len(choices)} choices with the indexes {brief(_without_key(str(indexes)))} to"
                f" {count} prompts; expected one for each"
            )
        ordered = [choice for _, choice in sorted(zip(indexes, choices, strict=True), key=lambda pair: int(pair[0]))]
        return ordered, usage if isinstance(usage, dict) else {}

    def _generated(self, choice: Mapping[str, Any]) -> list[int]:
        ids = _token_ids(choice)
        if ids is None:
            raise ModelError(
                f"{self.where} names the tokens of {self._name} by their texts only; expected 'token_id:N', which vLLM"
                " gives (--return-tokens-as-token-ids): several tokens have one text, so that nothing can be proved by"
                " texts"
            )
        return ids

    async def _described(self) -> dict[str, Any]:
        """Return the server's entry for the model, with ``server``, its software.

        Raises:
            ModelError: the server has no model of this name.
        """
        content = await self._sent("GET", "models", None)
        entries = content.get("data")
        known = (
            {str(entry.get("id")): entry for entry in entries if isinstance(entry, dict)}
            if isinstance(entries, list)
            else {}
        )
        if self._model not in known:
            raise ModelError(
                f"{self.where} has no model {brief(self._model)}; it names"
                f" {', '.join(brief(_without_key(name)) for name in list(known)[:8]) or 'none'}:"
                f" --bias-model={self._name}={self._url}#NAME"
            )
        return {**known[self._model], "server": await self._software()}

    async def _software(self) -> str:
        import httpx

        try:
            response, body = await self._answered(
                "GET", f"{self._url.removesuffix('/v1')}/version", None, min(_CONNECT, self._time_limit)
            )
        except (httpx.HTTPError, ScoreError, asyncio.TimeoutError):
            return "unknown"
        content = (_json(body) or {}) if response.status_code == 200 else {}
        named = response.headers.get("server", "")
        return _without_key(f"{named} {content.get('version') or ''}".strip())[:80] or "unknown"

    async def _sent(self, method: str, path: str, body: Mapping[str, object] | None) -> dict[str, Any]:
        """Send a request, again where it fails for a while, and return the JSON of its answer."""
        import httpx

        trouble, wait = "", _FIRST_PAUSE
        for attempt in range(_ATTEMPTS):
            if attempt:
                await self._paused(wait)
            wait = min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE)
            try:
                response, answer = await self._answered(method, f"{self._url}/{path}", body, self._time_limit)
            except httpx.ConnectError as error:
                if method == "GET":  # the first request: nothing listens there
                    raise ModelError(
                        f"{self._name}: nothing answers at {self._url} ({_reason(error)}); start the server, or correct"
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
            content = _json(answer)
            if content is not None:
                return content
            trouble = "an answer that is no whole JSON object"
        raise ScoreError(
            f"{self.where} did not answer {_ATTEMPTS} times (at last: {trouble}); scores so far are kept only in the"
            " score cache, if there is one: run again when the server is well"
        )

    async def _answered(self, method: str, url: str, body: object, time_limit: float) -> tuple[httpx.Response, bytes]:
        """Send a request once, and return the response with its content.

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
                            " not read to its end; expected a list of numbers for each token of at most 32 prompts: is"
                            " it a server of OpenAI's completions?"
                        )
                return response, bytes(content)

        return await asyncio.wait_for(read(), time_limit)

    def _connections(self) -> httpx.AsyncClient:
        """Return those of this process: the event loop of the process that it was forked from waits for the answers of
        others.
        """
        if self._process != os.getpid():
            self._open()
        return self._http

    def _open(self) -> None:
        """Open connections of this process, which are closed when the client is no longer referenced."""
        self._http, self._process = self._connect(), os.getpid()
        weakref.finalize(self, _closed, self._http, self._process).atexit = False

    async def _paused(self, seconds: float) -> None:
        if self._pause is None:
            await asyncio.sleep(seconds)
        else:
            self._pause(seconds)

    def _longer(self, error: Exception) -> str:
        """Return how a server gets more time, where it took too much."""
        import httpx

        too_late = isinstance(error, (httpx.ReadTimeout, httpx.WriteTimeout, asyncio.TimeoutError))
        return f" after {self._time_limit:g} s, -o bias_endpoint_timeout=SECONDS waits longer" if too_late else ""

    def _pause_asked(self, response: httpx.Response, trouble: str, otherwise: float) -> float:
        """Return the pause in seconds before the next attempt: that of the server's ``Retry-After``, if it names one.

        Raises:
            ScoreError: it is longer than a run waits, or no number.
        """
        seconds, longest = _retry_after(response, otherwise), max(_LONGEST_PAUSE, self._time_limit)
        if seconds <= longest:
            return seconds
        asked = brief(_without_key(response.headers.get("retry-after", "")), 60)
        raise ScoreError(
            f"{self.where} answers with {trouble}, and asks to wait until its next request (Retry-After: {asked}); a"
            f" run waits {longest:g} s at most: run again later, or give it more time with -o"
            " bias_endpoint_timeout=SECONDS"
        )

    def _refused(self, response: httpx.Response, answer: bytes) -> ModelError:
        status = _status(response, answer)
        if response.status_code in (401, 403):
            return ModelError(f"{self.where} refuses the key ({status}); set the environment variable {API_KEY}")
        kind = _RefusedError if response.status_code in (400, 413, 422) else ModelError
        return kind(
            f"{self.where} refuses a request ({status}); expected OpenAI's /v1/completions with a list of token ids as"
            " prompts, echo and logprobs"
        )


class _RefusedError(ModelError):
    """The server does not take a request as it is. Callers of a client see a :class:`ModelError`."""


def _closed(connections: httpx.AsyncClient, process: int) -> None:
    """Close connections that are no longer used, unless they are those of the process that this one was forked
    from.
    """
    if process == os.getpid():
        asyncio.run_coroutine_threadsafe(connections.aclose(), loop())


def _done(work: Coroutine[Any, Any, T]) -> T:
    """Return what requests give. An interruption cancels them, and their connections are closed."""
    try:
        return done(work)
    except _RefusedError as error:
        raise ModelError(*error.args) from None


async def _all(ask: Callable[[Sequence[Prompt]], Awaitable[T]], parts: Iterator[Sequence[Prompt]]) -> list[T]:
    """Return the answers to all parts in order, of which a few are asked for at once. The first error cancels the
    others.
    """
    free = asyncio.Semaphore(_AT_ONCE)

    async def one(part: Sequence[Prompt]) -> T:
        async with free:
            return await ask(part)

    tasks = [asyncio.ensure_future(one(part)) for part in parts]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _refuse_remote(url: str, name: str, allow_remote: bool) -> None:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if _is_loopback(host):
        return
    if _is_unspecified(host):
        raise ModelError(
            f"{name} is at {host}, by which a server says that it listens at every address of its machine; ask one on"
            " this machine at 127.0.0.1, and one on another machine by its name"
        )
    if not allow_remote:
        raise ModelError(
            f"{name} is at {host}, another machine: the texts of the suites would leave this one; -o"
            " bias_allow_remote=true permits it (allow_remote=True in Python)"
        )
    if parts.scheme == "http" and os.environ.get(API_KEY):
        raise ModelError(
            f"{name} is at {host}, and {API_KEY} would be sent there without encryption; give the address with https,"
            " or unset the key"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_unspecified(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def _connection(url: str, time_limit: float, transport: httpx.AsyncBaseTransport | None) -> httpx.AsyncClient:
    """Return a client with the key. Redirections are not followed, and no proxy stands before this machine.

    Raises:
        ModelError: the address is none, or the key cannot be sent in a header.
    """
    import httpx

    try:
        httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ModelError(f"{brief(url)} is no address of a server: {error}") from None
    key = os.environ.get(API_KEY, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ModelError(
            f"{API_KEY} has a line break, or another character that a header of HTTP cannot have; expected the key"
            " alone, in one line"
        )
    is_here = _is_loopback(urlsplit(url).hostname or "")
    return httpx.AsyncClient(
        headers={"Authorization": f"Bearer {key}"} if key else {},
        verify=not is_here or url.startswith("https:"),  # the certificates take a tenth of a second to read
        timeout=httpx.Timeout(time_limit, connect=min(_CONNECT, time_limit)),
        limits=httpx.Limits(max_connections=_AT_ONCE),
        transport=transport,
        trust_env=not is_here,
    )


def _without_key(text: str) -> str:
    """Return what a server says without the key, which some repeat in their errors."""
    key = os.environ.get(API_KEY, "").strip()
    return text.replace(key, "***") if key else text


def _parts(prompts: Sequence[Prompt]) -> Iterator[Sequence[Prompt]]:
    """Yield the prompts of each request, in order."""
    part: list[Prompt] = []
    tokens = 0
    for prompt in prompts:
        if part and (len(part) == _PROMPTS or tokens + len(prompt) > _TOKENS):
            yield part
            part, tokens = [], 0
        part.append(prompt)
        tokens += len(prompt)
    if part:
        yield part


def _retry_after(response: httpx.Response, otherwise: float) -> float:
    """Return the pause in seconds that a server asks for, by its number or date."""
    text = response.headers.get("retry-after", "")
    try:
        seconds = float(text)
        return 0.0 if seconds < 0 else seconds  # not a number stays none
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return otherwise


def _status(response: httpx.Response, answer: bytes) -> str:
    """Return the status of an answer, with what the server says: the message of a JSON object, or a text; in one line,
    cut, without the key.
    """
    content = _json(answer)
    if content is None:
        said: object = answer.decode("utf-8", "replace")
    else:
        error = content.get("error") or content
        said = error if not isinstance(error, dict) else error.get("message") or error.get("detail")
    line = " ".join(_without_key(str(said or ""))[:_MOST_SAID].split()) or response.reason_phrase
    return f"status {response.status_code}: {brief(line, 300)}"


def _json(answer: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _reason(error: Exception) -> str:
    return brief(_without_key(" ".join(f"{type(error).__name__}: {error}".split())), 160)


def _token_ids(choice: Mapping[str, Any]) -> list[int] | None:
    """Return the ids of the tokens of a choice; ``None`` where tokens are texts."""
    tokens = _column(choice, "tokens")
    ids = [_token_id(token) for token in tokens]
    return None if not ids or None in ids else [id for id in ids if id is not None]


def _token_id(token: object) -> int | None:
    digits = str(token).removeprefix(_ID)
    is_id = str(token).startswith(_ID) and digits.isascii() and digits.isdigit() and len(digits) < 10
    return int(digits) if is_id else None


def _column(choice: Mapping[str, Any], name: str) -> list[Any]:
    of_tokens = choice.get("logprobs")
    column = of_tokens.get(name) if isinstance(of_tokens, dict) else None
    return column if isinstance(column, list) else []


def _answer(choice: Mapping[str, Any], asked: int | None, read: int | None) -> PromptAnswer:
    """Return what a choice says of its prompt. ``asked``: length of the prompt, after which a generated token stands;
    ``None`` without one.
    """
    values = [_number(value) for value in _column(choice, "token_logprobs")]
    tops = [_listed(entry) for entry in _column(choice, "top_logprobs")]
    ids = _token_ids(choice)
    if asked is not None and len(values) == asked + 1:
        values, tops, ids = values[:asked], tops[:asked], None if ids is None else ids[:asked]
    return PromptAnswer(np.asarray(values, dtype=np.float64), ids, tops, read)


def _number(value: object) -> float:
    is_number = isinstance(value, float) or (type(value) is int and abs(value) < 1 << 53)
    return float(value) if is_number else float("nan")  # type: ignore[arg-type]


def _listed(entry: object) -> dict[int, float]:
    """Return the listed tokens of one place that are named by ids."""
    pairs = entry.items() if isinstance(entry, dict) else ()
    named = ((_token_id(token), _number(value)) for token, value in pairs)
    return {token: value for token, value in named if token is not None}
