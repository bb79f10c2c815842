"""The questions of suites as a system that answers in text is asked them: rows for a file, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pytest_genderbias.errors import NotApplicableError
from pytest_genderbias.measurement.plan import Plan
from pytest_genderbias.models.replies import CHARACTERS, Wanted
from pytest_genderbias.scoring.engine import scored_units
from pytest_genderbias.scoring.reply_counts import option_texts
from pytest_genderbias.suites.query import Query, Replies


@dataclass(frozen=True)
class ReplyQuestion:
    """A question: ``id`` by which its replies are found, the message, its options by label, and how many replies are
    wanted.
    """

    id: str
    message: str
    options: Mapping[str, str]
    samples: int

    @property
    def messages(self) -> list[dict[str, str]]:
        """The question as chat endpoints take it."""
        return [{"role": "user", "content": self.message}]

    def row(self) -> dict[str, Any]:
        """Return the row of a file of questions."""
        return {"id": self.id, "messages": self.messages, "options": dict(self.options), "samples": self.samples}

    def batch_row(self, model: str) -> dict[str, Any]:
        """Return the row of a batch of an OpenAI-like API."""
        body = {"model": model, "messages": self.messages, "n": self.samples}
        return {"custom_id": self.id, "method": "POST", "url": "/v1/chat/completions", "body": body}


@dataclass(frozen=True)
class Cost:
    """What questions cost: their number, that of all replies, and the tokens of all requests, about."""

    questions: int
    replies: int
    tokens: int

    @classmethod
    def of(cls, questions: Iterable[ReplyQuestion]) -> Cost:
        """Return the cost of questions."""
        found = [(one.samples, len(one.message) // CHARACTERS) for one in questions]
        return cls(len(found), sum(samples for samples, _ in found), sum(tokens for _, tokens in found))

    def describe(self) -> str:
        """Return the cost in words.

        >>> Cost(1200, 6000, 90000).describe()
        '1,200 questions, 6,000 replies, about 90,000 tokens in the questions'
        """
        return f"{self.questions:,} questions, {self.replies:,} replies, about {self.tokens:,} tokens in the questions"


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
        options = dict(zip(query.labels, texts, strict=True))
        yield ReplyQuestion(query.id_of(number), message, options, query.samples)


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
