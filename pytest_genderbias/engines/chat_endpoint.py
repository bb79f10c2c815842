"""Systems behind an endpoint of chat completions, as OpenAI's ``/v1/chat/completions``: they answer in text.

``chat:http(s)://HOST:PORT/v1#MODEL`` names one. Requests are those of :mod:`~pytest_genderbias.engines.transport`, and
eight are under way at once. The server draws the replies. They are kept under all that they depend on, so that an
interrupted run goes on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_genderbias.engines.transport import RefusedError, Transport, address_of, json_object, without_key
from pytest_genderbias.errors import ModelError, ScoreError, SettingError
from pytest_genderbias.models.event_loop import done
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.replies import CHARACTERS, KeptReplies, Messages, Replying
from pytest_genderbias.models.roles import TEXT_REPLIES, Role
from pytest_genderbias.models.source import MAX_REQUESTS, LoadSettings, ModelSource, ServedSettings
from pytest_genderbias.models.spec import CHAT, CHAT_PREFIX, ModelSpec
from pytest_genderbias.text.printable import brief
from pytest_genderbias.text.reply_reading import declined

if TYPE_CHECKING:
    import httpx

AT_ONCE = 8  #: requests under way
_EXPECTED = (
    "OpenAI's /v1/chat/completions with model, messages and temperature",
    "one chat completion: is it a server of OpenAI's chat completions?",
)
#: How several replies are asked for, and how the most tokens of one: in one request or one by one, by which name. What
#: the server takes first is kept to.
_FORMS = tuple((together, name) for together in (True, False) for name in ("max_tokens", "max_completion_tokens"))
_FIRST: Messages = [{"role": "user", "content": "Name ten words that have nothing to do with each other."}]
_FILTERED = frozenset(  #: reasons why a reply ended that are those of a filter
    ("content_filter", "refusal", "safety", "recitation", "prohibited_content", "blocklist", "guardrail_intervened")
)


class ChatEndpoint:
    """Asks one model of one server for replies, as :class:`~pytest_genderbias.models.protocols.Replier`.

    Args:
        url: address up to ``/v1``.
        model: the server's name for the model.
        name: name of the model in messages.
        settings: of models behind a server.
        samples: replies to each question; as many to the first one, at least two, show how they are asked for.
        pause, transport: as of :class:`~pytest_genderbias.engines.transport.Transport`.

    Raises:
        ModelError, ScoreError: as of ``Transport``, or the server does not answer a first question.
    """

    at_once = AT_ONCE

    def __init__(
        self,
        url: str,
        model: str,
        name: str,
        settings: ServedSettings,
        samples: int = 1,
        pause: Callable[[float], object] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._server = Transport(
            url, name, _EXPECTED, AT_ONCE, settings.allow_remote, settings.time_limit, pause, transport
        )
        self._model, self._name, self._settings = model, name, settings
        self._form = 0
        self._said: list[str] | None = None
        self._requests, self._tokens = 0, (0, 0)
        self._first = done(self.reply(_FIRST, max(2, samples), 0))

    @property
    def notes(self) -> list[str]:
        """Who replied, how many requests that took so far, and whether the first replies differ, as drawn ones do."""
        temperature, (asked, replied) = self._settings.temperature, self._tokens
        told = f", with {asked:,} tokens in questions and {replied:,} in replies" if asked else ""
        notes = [
            f"{self._server.where} replied as {brief(self.reported[0])} at temperature {temperature:g}; requests of"
            f" this run so far: {self._requests:,}{told}"
        ]
        if temperature and len(set(self._first)) == 1:
            notes.append(
                "its first replies, to one question, were all the same: it may not draw at temperature"
                f" {temperature:g}, and several replies then say no more than one"
            )
        return notes

    @property
    def reported(self) -> list[str]:
        """The name and the version of the model as the server said them with its first replies; empty if it did not."""
        return self._said or ["", ""]

    def requests_for(self, samples: int) -> int:
        """Return how many requests a question takes."""
        together, _ = _FORMS[self._form]
        return 1 if together else samples

    async def reply(self, messages: Sequence[Mapping[str, str]], n: int, seed: int) -> list[str]:
        """Return ``n`` replies. The server draws them; not all servers know a seed, so that none is sent.

        Raises:
            ModelError: the server refuses a request.
            ScoreError: it does not answer, or another model does.
        """
        prompt = self._settings.system_prompt
        before = [] if prompt is None else [{"role": "system", "content": prompt}]
        return await self._replies([*before, *messages], n, self._form)

    async def _replies(self, messages: Sequence[Mapping[str, str]], n: int, form: int) -> list[str]:
        """Return ``n`` replies, asked for in a form, or in one after it where the server refuses it."""
        together, limit = _FORMS[form]
        try:
            found = await self._completed(messages, n if together else 1, limit)
        except RefusedError as error:
            if _is_filtered(error.content):
                return [declined("content_filter")] * n
            if form + 1 == len(_FORMS):
                raise ModelError(*error.args) from None
            return await self._replies(messages, n, form + 1)
        one_by_one = _FORMS.index((False, limit))  # the server may give one, however many are asked for
        self._form = max(self._form, one_by_one if len(found) < n else form)
        while len(found) < n:
            found += await self._completed(messages, 1, limit)
        return found

    async def _completed(self, messages: Sequence[Mapping[str, str]], n: int, limit: str) -> list[str]:
        """Return up to ``n`` replies of one request, at least one."""
        settings = self._settings
        body: dict[str, object] = {"model": self._model, "messages": messages, "temperature": settings.temperature}
        body[limit] = settings.max_tokens
        content = await self._server.sent(
            "POST", "chat/completions", body | ({"n": n} if n > 1 else {}), first=self._said is None
        )
        choices = content.get("choices")
        texts = [_text(choice) for choice in choices] if isinstance(choices, list) else []
        if not 1 <= len(texts) <= n or None in texts:
            raise ScoreError(
                f"{self._server.where} answers {brief(without_key(json.dumps(content)))} to a request for"
                f" {n} {'replies' if n > 1 else 'reply'}; expected 'choices' with a 'message' each, as OpenAI's chat"
                " completions have"
            )
        self._check_same([without_key(str(content.get(name) or ""))[:200] for name in ("model", "system_fingerprint")])
        self._requests += 1
        self._tokens = _added(self._tokens, content.get("usage"))
        return [text for text in texts if text is not None]

    def _check_same(self, said: list[str]) -> None:
        """Refuse a reply of another model, or of another version, unless the user has a word for what is served."""
        first = self._said = self._said or said
        if said == first or (said[0] == first[0] and self._settings.version is not None):
            return
        then, now = (" ".join(map(brief, filter(None, one))) or "no name" for one in (first, said))
        raise ScoreError(
            f"{self._server.where} changed while {self._name} was measured: it replied as {then} at first, and as"
            f" {now} now, so that the replies are not those of one model. Run again when it does not change: only"
            " replies of the same one are used again. Where a server has several versions at once, -o"
            " bias_endpoint_version=TAG vouches for them together"
        )


@dataclass(frozen=True)
class AskedEndpoint(Replying):
    """A system behind an endpoint, with what may be asked of it.

    ``most_requests``: in a run. ``allowed``: texts that were counted so far, with the number of replies and the seed.
    """

    target: ChatEndpoint = field(repr=False)
    most_requests: int = MAX_REQUESTS
    allowed: set[tuple[str, int, int]] = field(default_factory=set, repr=False, compare=False)

    @property
    def notes(self) -> list[str]:
        """Who replied, and what was asked so far."""
        return self.target.notes

    def expect(self, texts: Iterable[str], samples: int, seed: int, cache: Path | None) -> None:
        """Refuse a measurement whose questions are more than may be asked in a run.

        Raises:
            SettingError: they are.
        """
        each = self.target.requests_for(samples)
        wanted = set(self.unknown(texts, samples, seed, KeptReplies.of(cache, self.fingerprint)))
        new = {(text, samples, seed) for text in wanted} - self.allowed
        before = sum(self.target.requests_for(samples) for _, samples, _ in self.allowed)
        requests, tokens = len(new) * each, sum(len(text) // CHARACTERS for text, _, _ in new) * each
        if before + requests > self.most_requests:
            raise SettingError(
                f"{self.name} needs {requests:,} requests for {len(new) * samples:,} replies, with about"
                f" {tokens:,} tokens in the questions{f', after {before:,} requests of this run' if before else ''}; a"
                f" run sends {self.most_requests:,} at most: -o bias_max_requests={before + requests} allows these"
                " (max_requests in Python), and --bias-limit=N asks fewer questions"
            )
        self.allowed.update(new)


def parse(name: str, spec: str) -> ModelSpec:
    """Parse ``chat:http://HOST:PORT/v1#MODEL``. ``name``: that of the user, or empty."""
    return address_of(name, spec, CHAT, CHAT_PREFIX)


def inspect(spec: ModelSpec, settings: LoadSettings) -> ModelSource:
    """Return the role of a system behind an endpoint; nothing is asked yet."""
    role = Role(TEXT_REPLIES, "a system that answers in text", samples=settings.samples)
    return ModelSource(spec, role, elsewhere=True)


def load(source: ModelSource, settings: LoadSettings) -> Model:
    """Ask an endpoint a first question, and learn how it is asked and which model replies.

    Raises:
        ModelError: the server cannot be reached or refuses the question.
        ScoreError: the server does not answer.
    """
    spec, served = source.spec, settings.served
    url, _, model = spec.target.partition("#")
    endpoint = ChatEndpoint(url.removesuffix("/chat/completions"), model, spec.name, served, settings.samples)
    reported, version = endpoint.reported
    details = {
        "architecture": "chat endpoint",
        "reported_model": reported or "unknown",
        "endpoint_version": served.version or version or "unknown",
        "temperature": f"{served.temperature:g}",
        "max_tokens": str(served.max_tokens),
        **({} if served.system_prompt is None else {"system_prompt": _hash(served.system_prompt)[:16]}),
        "samples": str(settings.samples),
    }
    of_replies = ("reported_model", "endpoint_version", "temperature", "max_tokens", "system_prompt")
    fingerprint = _hash(json.dumps([spec.target, *(details.get(name) for name in of_replies)]))
    backend = AskedEndpoint(endpoint, spec.name, fingerprint, most_requests=served.max_requests)
    return Model(spec.name, spec.spec, source.role, fingerprint, details, backend)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _text(choice: object) -> str | None:
    """Return the reply of a choice, without its reasoning where that is beside it; ``None`` where it has none.

    What a filter took away, or the system says that it refuses, is marked as declined.

    >>> _text({"message": {"content": "B", "reasoning_content": "A or B?"}, "finish_reason": "stop"})
    'B'
    >>> _text({"message": {"content": None}, "finish_reason": "content_filter"})
    '[declined: content_filter]'
    """
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        return None
    content, refusal, reason = message.get("content"), message.get("refusal"), choice.get("finish_reason")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        content = "".join(part for part in parts if isinstance(part, str))
    if content is not None and not isinstance(content, str):
        return None
    if isinstance(refusal, str) and refusal.strip():
        return declined("refusal", without_key(refusal))
    text = without_key(content or "")
    return declined(str(reason).lower(), text) if str(reason).lower() in _FILTERED else text


def _added(tokens: tuple[int, int], usage: object) -> tuple[int, int]:
    """Return the numbers of tokens in questions and replies, with those of an answer, if it counts them."""
    counts = [usage.get(name) if isinstance(usage, dict) else None for name in ("prompt_tokens", "completion_tokens")]
    first, second = (count if type(count) is int else 0 for count in counts)
    return tokens[0] + first, tokens[1] + second


def _is_filtered(answer: bytes) -> bool:
    """Return whether a filter refused a request, as Azure's does.

    >>> _is_filtered(b'{"error": {"code": "content_filter", "message": "..."}}'), _is_filtered(b"{}")
    (True, False)
    """
    error = (json_object(answer) or {}).get("error")
    return isinstance(error, dict) and "content_filter" in (error.get("code"), error.get("type"))
