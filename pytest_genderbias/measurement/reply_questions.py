"""The questions of suites as a system that answers in text is asked them: rows for a file, and what they cost; and one
model asked both ways, by the probabilities of its options and in text.

A checkpoint that replies in text is :func:`replying_in_text`: a system like any other, whose replies are sampled here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import NotApplicableError
from pytest_genderbias.measurement.plan import Plan, plan_measurement
from pytest_genderbias.models.chat_template import DETAIL, NO_TEMPLATE, ChatPrompts
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.protocols import HIDDEN_STATES
from pytest_genderbias.models.replies import CHARACTERS, Asked, RepliesBackend, RepliesFile, Wanted
from pytest_genderbias.models.roles import TEXT_REPLIES, Role
from pytest_genderbias.models.source import LoadSettings
from pytest_genderbias.scoring.chat import option_texts, reply_counts
from pytest_genderbias.scoring.engine import ScoreSettings, answer, scored_units
from pytest_genderbias.statistics.agreement import TextAgreement, text_agreement
from pytest_genderbias.suites.ask import PROBABILITY_ROLES
from pytest_genderbias.suites.cases import Cases, IntArray, Question, TextCases
from pytest_genderbias.suites.query import ChatAnswers, ChatReplies, Query, Replies
from pytest_genderbias.suites.suite import Suite
from pytest_genderbias.text.reply_reading import opened_reasoning

FloatArray = NDArray[np.float64]


class ReplyQuestion(TypedDict):
    """A row of a file of questions.

    ``id``: by which the replies are found. ``messages``: the question as chat endpoints take it, one message of the
    user. ``options``: by their label. ``samples``: how many replies are wanted.
    """

    id: str
    messages: list[dict[str, str]]
    options: dict[str, str]
    samples: int


def describe_cost(messages: Sequence[str], replies: int) -> str:
    """Return what questions cost: their number, that of all replies, and the tokens of all requests, about.

    >>> describe_cost(["Who ran home?", "Who stayed at home?"], 10)
    '2 questions, 10 replies, about 7 tokens in the questions'
    """
    tokens = sum(len(message) // CHARACTERS for message in messages)
    return f"{len(messages):,} questions, {replies:,} replies, about {tokens:,} tokens in the questions"


def reply_questions(plan: Plan, limit: int | None, seed: int) -> Iterator[ReplyQuestion]:
    """Yield the questions of a suite to a system that answers in text.

    Args:
        plan: of the suite, for such a system.
        limit: most cases of the main question, as in a run.
        seed: of the run.

    Raises:
        NotApplicableError: the suite asks for something else than replies.
    """
    for query, number, message in _asked(plan, limit, seed):
        if not isinstance(query, Replies):
            raise NotApplicableError(f"{plan.suite.name} asks for something else than replies in text")
        texts = option_texts(message, query.labels) or query.labels
        yield {
            "id": query.id_of(number),
            "messages": [{"role": "user", "content": message}],
            "options": dict(zip(query.labels, texts, strict=True)),
            "samples": query.samples,
        }


def batch_row(question: ReplyQuestion, model: str) -> dict[str, Any]:
    """Return a question as a row of a batch of an OpenAI-like API."""
    body = {"model": model, "messages": question["messages"], "n": question["samples"]}
    return {"custom_id": question["id"], "method": "POST", "url": "/v1/chat/completions", "body": body}


def wanted_replies(plan: Plan, limit: int | None, seed: int) -> Iterator[Wanted]:
    """Yield what a system that answers in text is asked. Arguments as of :func:`reply_questions`."""
    for query, _, message in _asked(plan, limit, seed):
        yield Wanted(message, query.samples, query.seed) if isinstance(query, Replies) else Wanted(message)


def _asked(plan: Plan, limit: int | None, seed: int) -> Iterator[tuple[Query, int, str]]:
    """Yield the query, the number and the message of each case that a run asks."""
    for question in plan.questions.values():
        if question.cases is not None:
            units = scored_units(question.cases, plan.order_digest(question), None if question.whole else limit, seed)
            numbers = np.sort(question.cases.cases_of(units))
            for number, (message,) in zip(numbers.tolist(), question.cases.sentences(numbers), strict=True):
                yield question.query, number, message


# One model asked both ways


@dataclass(frozen=True)
class SampledReplies(RepliesBackend):
    """Replies that the network of a chat model writes in its template, at temperature 1.

    ``model``: the model. ``tokens``: most tokens of a reply. ``thinking``: whether it may think aloud first, where its
    template has a switch. ``settings``: of scoring.
    """

    model: Model
    tokens: int
    thinking: bool = False
    settings: ScoreSettings = field(default_factory=ScoreSettings, repr=False)

    def replies(self, asked: Asked) -> list[tuple[str, ...]]:
        """Return the replies to each case."""
        cases = TextCases([(text,) for text in asked.texts for _ in range(asked.samples)], cases_per_unit=asked.samples)
        seed = crc32(repr((asked.seed, *asked.ids)).encode())  # of other cases, others are drawn
        query = ChatReplies(self.tokens, asked.samples, seed, 1.0, "{prompt}", self.thinking)
        settings = replace(self.settings, limit=None, cache=asked.cache)
        label = f"replies of {self.model.name}"
        answered, _ = answer(Question(cases, query, whole=True), self.model, cases.digest(), settings, label)
        mark = opened_reasoning(prompts_of(self.model, self.thinking).prompt("Hello."))
        texts = [mark + reply.text for reply in answered.content]
        places = np.argsort(answered.units) * asked.samples
        return [tuple(texts[at : at + asked.samples]) for at in places.tolist()]


def prompts_of(model: Model, thinking: bool) -> ChatPrompts:
    """Return the prompts of a chat model whose network is in this process.

    Raises:
        NotApplicableError: it has no chat template, or no network here.
    """
    model.require(
        HIDDEN_STATES, otherwise=f"({model.role.text}) has no network here to sample replies from; give its replies"
    )
    if DETAIL not in model.details:
        raise NotApplicableError(NO_TEMPLATE.format(model.name))
    return ChatPrompts(model.backend.tokenizer, model.name, thinking)


def can_think(model: Model) -> bool:
    """Return whether the chat template of a model has a switch for thinking aloud."""
    return prompts_of(model, True).prompt("Hello.") != prompts_of(model, False).prompt("Hello.")


def replying_in_text(
    model: Model,
    samples: int | None = None,
    tokens: int | None = None,
    thinking: bool = False,
    settings: ScoreSettings | None = None,
) -> Model:
    """Return a chat model as a system that answers in text: its network writes the replies.

    Args:
        model: a checkpoint with a chat template.
        samples: replies to each question; as the model was loaded with by default.
        tokens: most tokens of a reply; as the model was loaded with by default.
        thinking: whether it may think aloud before its answer, where its template has a switch.
        settings: of scoring the tokens; the cache is that of the run.

    Raises:
        NotApplicableError: the model has no chat template, or no network in this process.
    """
    prompts_of(model, thinking)
    loaded = LoadSettings() if model.origin is None else model.origin.settings
    samples, tokens = samples or model.role.samples, tokens or loaded.served.max_tokens
    backend = SampledReplies(model, tokens, thinking, settings or ScoreSettings())
    role = Role(TEXT_REPLIES, f"{model.role.text} that answers in text", samples=samples)
    drawn = {"samples": str(samples), "max_tokens": str(tokens), "temperature": "1", "thinking": str(thinking).lower()}
    return Model(model.name, model.spec, role, model.fingerprint, {**model.details, **drawn}, backend)


@dataclass(frozen=True)
class TwoWays:
    """What is asked both ways: some messages of the main question of a suite.

    ``name``: of the suite. ``cases``: of the question. ``query``: by which replies are asked for. ``numbers``: of the
    cases that are asked, in their order.
    """

    name: str
    cases: Cases
    query: Replies
    numbers: IntArray

    @property
    def messages(self) -> list[str]:
        """The messages that are asked."""
        return [message for (message,) in self.cases.sentences(self.numbers)]

    @property
    def cost(self) -> str:
        """What the replies cost, in words."""
        return describe_cost(self.messages, len(self.numbers) * self.query.samples)

    def by_probability(self, model: Model, settings: ScoreSettings) -> tuple[FloatArray, FloatArray]:
        """Return the probability of each label against the others, shape (n, K), and the mass of all, shape (n,)."""
        cases, query = TextCases([(message,) for message in self.messages]), ChatAnswers(self.query.labels)
        question, label = Question(cases, query, whole=True), f"{self.name} on {model.name}"
        answered, _ = answer(question, model, cases.digest(), settings, label)
        log_probs = np.asarray(answered.in_order(), dtype=np.float64)
        p = np.exp(log_probs - log_probs.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True), np.exp(log_probs).sum(axis=1)

    def in_text(self, model: Model, settings: ScoreSettings) -> IntArray:
        """Return how many replies pick each label, decline, and cannot be read: shape (n, K + 2)."""
        query, numbers = replace(self.query, samples=model.role.samples), self.numbers
        model.backend.expect([Wanted(message, query.samples, query.seed) for message in self.messages], settings.cache)
        scorer = reply_counts(self.cases, query, model, None, settings.cache)
        shown, step = settings.progress, query.window
        if shown is None or isinstance(model.backend, SampledReplies):  # it shows how far its network is
            shown, step = (lambda *about: nullcontext(lambda count: None)), len(numbers)
        found = []
        with shown(f"{self.name} on {model.name}, in text", len(numbers), 0) as advance:
            for at in range(0, len(numbers), step):
                found.append(scorer.score(numbers[at : at + step]))
                advance(len(found[-1]))
        return np.concatenate(found).astype(np.int64)

    def agreement(self, probabilities: FloatArray, counts: IntArray) -> TextAgreement:
        """Return how far both ways agree, with bounds over the units of the suite."""
        return text_agreement(probabilities, counts, self.numbers // self.cases.cases_per_unit)

    def most_unlike(self, probabilities: FloatArray, counts: IntArray, most: int) -> Iterator[str]:
        """Yield the questions in which the two ways differ most, with what both say."""
        rates = counts / counts.sum(axis=1, keepdims=True)
        apart = np.abs(rates[:, :-2] - probabilities).max(axis=1)
        names = (*self.query.labels, "declines", "unreadable")
        for k in np.argsort(-apart, kind="stable")[:most].tolist():
            likely = ", ".join(f"{name} {p:.2f}" for name, p in zip(self.query.labels, probabilities[k], strict=True))
            said = ", ".join(f"{name} {rate:.2f}" for name, rate in zip(names, rates[k], strict=True) if rate)
            yield f"{self.query.id_of(int(self.numbers[k]))}: {likely} by probability, {said} in text"


def two_ways(
    suite: Suite,
    model: Model,
    text: Model,
    limit: int,
    options: Mapping[str, object] | None = None,
    data: str | Path | None = None,
    seed: int = 0,
) -> TwoWays:
    """Return what a model is asked by probability and another one in text.

    Args:
        suite: the suite.
        model: gives probabilities.
        text: answers in text, as :func:`replying_in_text` of the model; of a file, the questions that it answers.
        limit: most questions, drawn at random.
        options: of the suite.
        data: folder of the user's data sets.
        seed: of the draw, and of the replies.

    Raises:
        NotApplicableError: one of the two is of another kind, or the suite has no options to pick from.
    """
    plan_measurement(suite, model.name, model.role, options, data, seed)  # refuses models of other kinds
    has_probabilities = model.role.first_tokens or model.role.kind in PROBABILITY_ROLES
    if not has_probabilities or text.role.kind != TEXT_REPLIES:
        wrong, what = (text, "replies") if has_probabilities else (model, "probabilities")
        raise NotApplicableError(
            f"{wrong.name} ({wrong.role.text}) gives no {what}, which are compared with the others"
        )
    in_text = replace(text.role, first_tokens=False)
    question = next(iter(plan_measurement(suite, text.name, in_text, options, data, seed).questions.values()))
    query = question.query
    if not isinstance(query, Replies) or not query.labels or question.cases is None:
        raise NotApplicableError(f"{suite.name} has no options to pick from, by which both ways could be compared")
    known: int | list[int] = question.cases.n_cases
    if isinstance(text.backend, RepliesFile):
        text.backend.check(query.name)
        known = text.backend.stored.cases(query.name, query.digest)
    count = known if isinstance(known, int) else len(known)
    numbers = np.random.default_rng(seed).choice(known, min(limit, count), replace=False)
    return TwoWays(suite.name, question.cases, query, np.sort(numbers).astype(np.int64))
