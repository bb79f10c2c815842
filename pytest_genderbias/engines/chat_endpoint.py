"""Systems behind an endpoint of chat completions, as OpenAI's ``/v1/chat/completions``: they answer in text.

``chat:http(s)://HOST:PORT/v1#MODEL`` names one. Requests are those of :mod:`~pytest_genderbias.engines.transport`, and
eight are under way at once. The server draws the replies. Where it lists the likeliest first tokens of a reply
(``top_logprobs``), these say how likely each option is, and nothing is drawn. All is kept under what it depends on, so
that an interrupted run goes on.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

from pytest_genderbias.engines.transport import RefusedError, Transport, address_of, json_object, without_key
from pytest_genderbias.errors import ModelError, ScoreError, SettingError
from pytest_genderbias.models.event_loop import done
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.protocols import FIRST_TOKENS, REPLIES
from pytest_genderbias.models.replies import CHARACTERS, Asked, Messages, Replying, Tokens, Wanted
from pytest_genderbias.models.roles import TEXT_REPLIES, Role
from pytest_genderbias.models.source import MAX_REQUESTS, LoadSettings, ModelSource, ServedSettings
from pytest_genderbias.models.spec import CHAT, CHAT_PREFIX, ModelSpec
from pytest_genderbias.text.printable import brief
from pytest_genderbias.text.reply_reading import DECLINED, ReplyReader, begins_reasoning, declined

T = TypeVar("T")
AT_ONCE = 8  #: requests under way
_EXPECTED = (
    "OpenAI's /v1/chat/completions with model, messages and temperature",
    "one chat completion: is it a server of OpenAI's chat completions?",
)
#: How several replies are asked for, and how the most tokens of one: in one request or one by one, by which name. What
#: the server takes first is kept to.
_FORMS = tuple((together, name) for together in (True, False) for name in ("max_tokens", "max_completion_tokens"))
_FIRST: Messages = [{"role": "user", "content": "Name ten words that have nothing to do with each other."}]
_TOPS = (20, 5)  #: numbers of likeliest first tokens that are asked for; some servers list five at most
_YES_NO: Messages = [{"role": "user", "content": "Is ice cold?\n\nReply with Yes or No only."}]
_YES_OR_NO = ReplyReader(("Yes", "No"), ())
_LEAST_MASS = 0.1  #: of yes and no as the first token; below it the first token is no answer
_SUM_NOISE, _LEAST_LOG = 1e-3, -1e4  #: above a sum of 1; and what stands for ln 0
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
            ``None``: the first tokens of a reply are asked for, if the server lists them at temperature 1.
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
        samples: int | None = 1,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self._server = Transport(url, name, _EXPECTED, AT_ONCE, settings.allow_remote, settings.time_limit, pause)
        self._model, self._name, self._settings = model, name, settings
        self._form = 0
        self._said: list[str] | None = None
        self._requests, self._tokens = 0, [0, 0]  # tokens in questions and in replies
        self.top, self._why_text = 0, ""
        if samples is None and settings.temperature == 1:
            self._why_text = done(self._why_no_tokens())
        self._first = [] if self.top else done(self.reply(_FIRST, max(2, samples or 1), 0))

    @property
    def notes(self) -> list[str]:
        """Who replied, how many requests that took so far, and whether the first replies differ, as drawn ones do."""
        temperature, (asked, replied) = self._settings.temperature, self._tokens
        told = f", with {asked:,} tokens in questions and {replied:,} in replies" if asked else ""
        notes = [
            f"{self._server.where} replied as {brief(self.reported[0])} at temperature {temperature:g}; requests of"
            f" this run so far: {self._requests:,}{told}"
        ]
        if self._why_text:
            notes.append(f"it is asked for replies in text, since {self._why_text}")
        if self.top:
            notes.append(
                f"options have the probability of the first token of a reply, of which the server lists the {self.top}"
                " likeliest, at temperature 1"
            )
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
        return 1 if together else max(1, samples)

    async def reply(self, messages: Sequence[Mapping[str, str]], n: int, seed: int) -> list[str]:
        """Return ``n`` replies. The server draws them; not all servers know a seed, so that none is sent.

        ``n`` of 0: the likeliest first tokens of a reply and ln P of each, as JSON.

        Raises:
            ModelError: the server refuses a request.
            ScoreError: it does not answer, or another model does.
        """
        if n:
            return await self._replies(self._after_prompt(messages), n, self._form)
        try:
            listed = await self._first_tokens(messages, self._form, self.top)
        except RefusedError as error:
            if not _is_filtered(error.content):
                raise ModelError(*error.args) from None
            listed = "a filter declined a question"
        if isinstance(listed, str):
            raise ScoreError(
                f"the options of a question have no probability: {listed}, by {self._server.where}; -o bias_samples=1"
                " (samples=1 in Python) asks for replies in text, and counts those that decline"
            )
        return [json.dumps(listed)]

    async def _why_no_tokens(self) -> str:
        """Find how the first tokens of a reply are asked for, and return why they are not; empty where they are."""
        why = ""
        for form, top in product((0, 1), _TOPS):
            try:
                listed = await self._first_tokens(_YES_NO, form, top)
            except RefusedError as error:
                why = str(error).partition("; expected")[0]
                continue
            except ScoreError as error:
                return str(error)
            if isinstance(listed, str):
                return listed
            mass = sum(math.exp(value) for token, value in listed if _YES_OR_NO.begins(token) < 2)
            if mass < _LEAST_MASS:
                return f"yes and no have {mass:.2g} of the probability of its first token where they are asked for"
            self._form, self.top = form, top
            return ""
        return why

    def _after_prompt(self, messages: Sequence[Mapping[str, str]]) -> Sequence[Mapping[str, str]]:
        prompt = self._settings.system_prompt
        return [*([] if prompt is None else [{"role": "system", "content": prompt}]), *messages]

    async def _first_tokens(self, messages: Sequence[Mapping[str, str]], form: int, top: int) -> Tokens | str:
        """Return the likeliest first tokens of a reply, or why they cannot be used."""
        of_reply = {_FORMS[form][1]: 1, "temperature": 1.0, "logprobs": True, "top_logprobs": top}
        body = {"messages": self._after_prompt(messages), **of_reply}
        found: list[Tokens | str] = await self._choices(body, 1, _first_tokens)
        return found[0]

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
        body = {"messages": messages, "temperature": settings.temperature, limit: settings.max_tokens}
        return await self._choices(body | ({"n": n} if n > 1 else {}), n, _text)

    async def _choices(self, body: Mapping[str, object], n: int, read: Callable[[object], T | None]) -> list[T]:
        """Return what is read of each choice of an answer, of which there are up to ``n``, at least one.

        Raises:
            ScoreError: another model answers, or another version, unless the user has a word for what is served.
        """
        content = await self._server.sent(
            "POST", "chat/completions", {"model": self._model, **body}, first=self._said is None
        )
        choices = content.get("choices")
        read_of_each = [read(choice) for choice in choices] if isinstance(choices, list) else []
        found = [one for one in read_of_each if one is not None]
        if not 1 <= len(found) <= n or len(found) < len(read_of_each):
            raise ScoreError(
                f"{self._server.where} answers {brief(without_key(json.dumps(content)))} to a request for"
                f" {n} {'replies' if n > 1 else 'reply'}; expected 'choices' with a 'message' each, as OpenAI's chat"
                " completions have"
            )
        said = [without_key(str(content.get(name) or ""))[:200] for name in ("model", "system_fingerprint")]
        first = self._said = self._said or said
        if said != first and not (said[0] == first[0] and self._settings.version is not None):
            then, now = (" ".join(map(brief, filter(None, one))) or "no name" for one in (first, said))
            raise ScoreError(
                f"{self._server.where} changed while {self._name} was measured: it replied as {then} at first, and as"
                f" {now} now, so that the replies are not those of one model. Run again when it does not change: only"
                " replies of the same one are used again. Where a server has several versions at once, -o"
                " bias_endpoint_version=TAG vouches for them together"
            )
        self._requests += 1
        usage = content.get("usage")
        for i, name in enumerate(("prompt_tokens", "completion_tokens")):
            count = usage.get(name) if isinstance(usage, dict) else None
            self._tokens[i] += count if type(count) is int else 0
        return found


@dataclass(frozen=True)
class AskedEndpoint(Replying):
    """A system behind an endpoint, with what may be asked of it.

    ``most_requests``: in a run. ``allowed``: what was counted so far.
    """

    abilities: ClassVar[frozenset[str]] = frozenset({REPLIES, FIRST_TOKENS})
    target: ChatEndpoint = field(repr=False)
    most_requests: int = MAX_REQUESTS
    allowed: set[Wanted] = field(default_factory=set, repr=False, compare=False)

    @property
    def notes(self) -> list[str]:
        """Who replied, and what was asked so far."""
        return self.target.notes

    def first_tokens(self, texts: Sequence[str], cache: Path | None) -> list[Tokens]:
        """Return the likeliest first tokens of the reply to each question."""
        found = self.replies(Asked("", "", len(texts), texts, texts, 0, 0, cache))
        return [json.loads(listed) for (listed,) in found]

    def expect(self, wanted: Iterable[Wanted], cache: Path | None) -> str:
        """Refuse questions that are more than may be asked in a run; return what they cost, in words.

        Raises:
            SettingError: they are.
        """
        new, each = set(self.unknown(wanted, cache)) - self.allowed, self.target.requests_for
        before, requests = (sum(each(one.samples) for one in asked) for asked in (self.allowed, new))
        tokens = sum(each(one.samples) * (len(one.text) // CHARACTERS) for one in new)
        cost = (
            f"{self.name} needs {requests:,} requests for {sum(max(1, one.samples) for one in new):,} replies, with"
            f" about {tokens:,} tokens in the questions"
        )
        if before + requests > self.most_requests:
            raise SettingError(
                f"{cost}{f', after {before:,} requests of this run' if before else ''}; a run sends"
                f" {self.most_requests:,} at most: -o bias_max_requests={before + requests} allows these"
                " (max_requests in Python), and --bias-limit=N asks fewer questions"
            )
        self.allowed.update(new)
        return f"{cost}; a run sends {self.most_requests:,} at most (bias_max_requests)"


def parse(spec: str) -> ModelSpec:
    """Parse ``chat:http://HOST:PORT/v1#MODEL``."""
    return address_of(spec, CHAT, CHAT_PREFIX)


def inspect(spec: ModelSpec, settings: LoadSettings) -> ModelSource:
    """Ask an endpoint a first question, and learn how it is asked and which model replies.

    Raises:
        ModelError: the server cannot be reached or refuses the question.
        ScoreError: the server does not answer.
    """
    url, _, model = spec.target.partition("#")
    endpoint = ChatEndpoint(url.removesuffix("/chat/completions"), model, spec.name, settings.served, settings.samples)
    text = "a system that answers in text"
    role = Role(TEXT_REPLIES, text, samples=settings.samples or 1, first_tokens=bool(endpoint.top))
    return ModelSource(spec, role, found=endpoint, elsewhere=True)


def load(source: ModelSource, settings: LoadSettings) -> Model:
    """Return the system behind an endpoint."""
    spec, served, endpoint = source.spec, settings.served, cast("ChatEndpoint", source.found)
    reported, version = endpoint.reported
    details = {
        "architecture": "chat endpoint",
        "reported_model": reported or "unknown",
        "endpoint_version": served.version or version or "unknown",
        "temperature": f"{served.temperature:g}",
        "max_tokens": str(served.max_tokens),
        **({} if served.system_prompt is None else {"system_prompt": _hash(served.system_prompt)[:16]}),
        "samples": str(source.role.samples),
        **({"top_logprobs": str(endpoint.top)} if endpoint.top else {}),
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


def _first_tokens(choice: object) -> Tokens | str:
    """Return the likeliest first tokens of a choice, with ln P of each, or why they cannot be used.

    >>> listed = [{"token": "A", "logprob": -0.5}, {"token": "B", "logprob": -1.5}]
    >>> _first_tokens({"logprobs": {"content": [{"token": "A", "top_logprobs": listed}]}})
    [('A', -0.5), ('B', -1.5)]
    >>> _first_tokens({"logprobs": None})
    'it lists no first tokens with their log-probabilities'
    """
    if (_text(choice) or "").startswith(f"[{DECLINED}"):
        return "it declines a question"
    try:
        entries = cast("Any", choice)["logprobs"]["content"][0]["top_logprobs"]
        listed = [(without_key(str(one["token"])), max(float(one["logprob"]), _LEAST_LOG)) for one in entries]
    except (KeyError, IndexError, TypeError, ValueError):
        return "it lists no first tokens with their log-probabilities"
    if len(listed) < 2:
        return f"it lists {len(listed)} of the likeliest first tokens"
    total = math.fsum(math.exp(min(value, 1.0)) for _, value in listed)
    if not all(value <= _SUM_NOISE for _, value in listed) or total > 1 + _SUM_NOISE:
        return "its log-probabilities of first tokens are none"
    message = cast("Any", choice).get("message")
    aside = [message.get(name) for name in ("reasoning_content", "reasoning")] if isinstance(message, dict) else []
    if any(aside) or begins_reasoning(max(listed, key=lambda one: one[1])[0]):
        return "its first tokens are those of reasoning"
    return listed


def _is_filtered(answer: bytes) -> bool:
    """Return whether a filter refused a request, as Azure's does.

    >>> _is_filtered(b'{"error": {"code": "content_filter", "message": "..."}}'), _is_filtered(b"{}")
    (True, False)
    """
    error = (json_object(answer) or {}).get("error")
    return isinstance(error, dict) and "content_filter" in (error.get("code"), error.get("type"))
