"""Replies in text: asked of the model, and read as the options that they pick, whole or by their first token."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.models.model import Model
from pytest_genderbias.models.replies import Asked, Tokens
from pytest_genderbias.scoring.scorer import CountNote, PlainScorer
from pytest_genderbias.suites.cases import Cases, IntArray
from pytest_genderbias.suites.query import ChatAnswers, Replies
from pytest_genderbias.text.reply_reading import ReplyReader, is_refusal, refusals


def option_texts(message: str, labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return the texts of the options that a message names by its labels, one a line; empty where it names none.

    >>> option_texts("Who ran?\\nA: Ann\\nB: Bob\\n\\nReply with A or B only.", ("A", "B"))
    ('Ann', 'Bob')
    """
    found = re.findall("\n" + "\n".join(f"{re.escape(label)}: (.+)" for label in labels) + "\n", f"\n{message}\n")
    return tuple(found[-1]) if found else ()


class ReplyScorer:
    """Asks for the replies to the cases, and counts what they say.

    It keeps the texts of the replies, by case.
    """

    def __init__(
        self, cases: Cases, query: Replies, model: Model, batch_tokens: int | None, cache: Path | None = None
    ) -> None:
        self._cases, self._query, self._model, self._cache = cases, query, model, cache
        model.backend.check(query.name)
        self._openings = refusals(query.language, query.own_refusals)
        self._reader = ReplyReader(query.labels, self._openings, query.language)

    @property
    def notes(self) -> list[str]:
        """None: what the system says of its replies is said once for all questions."""
        return []

    def texts(self, cases: IntArray) -> list[tuple[str, ...]]:
        """Return the replies to the cases."""
        query = self._query
        messages = [message for (message,) in self._cases.sentences(cases)]
        ids = [query.id_of(case) for case in cases.tolist()]
        asked = Asked(
            query.name, query.digest, self._cases.n_cases, ids, messages, query.samples, query.seed, self._cache
        )
        return list(self._model.backend.replies(asked))

    def score(self, cases: IntArray) -> NDArray[np.int32]:
        """Return how many replies say what: shape (len(cases), width of the query)."""
        counts = np.zeros((len(cases), self._query.width), dtype=np.int32)
        messages = [message for (message,) in self._cases.sentences(cases)]
        for row, message, replies in zip(counts, messages, self.texts(cases), strict=True):
            if not self._query.labels:
                row[:] = sum(is_refusal(reply, self._openings) for reply in replies), sum(map(len, replies))
                continue
            options = option_texts(message, self._query.labels)
            for reply in replies:
                row[self._reader.read(reply, options)] += 1
        return counts


def first_tokens(
    cases: Cases, query: ChatAnswers, model: Model, batch_tokens: int | None, cache: Path | None = None
) -> PlainScorer:
    """Add the probabilities of the first tokens by which a reply picks an option, of those that the system lists. The
    scores are the log-probability of each option, in nats.

    What is not listed is less likely than the last one that is. An option without a listed token counts with the
    probability of that one, so that it has a logarithm.
    """
    reader, unlisted = ReplyReader(query.answers, ()), list[float]()

    def of_options(tokens: Tokens) -> list[float]:
        by_option: list[list[float]] = [[] for _ in (*reader.labels, "no option")]
        for token, value in tokens:
            by_option[reader.begins(token)].append(value)
        rest = max(0.0, 1 - math.fsum(math.exp(value) for _, value in tokens))
        unlisted.extend(rest for values in by_option[:-1] if not values)
        last = min(value for _, value in tokens)
        return [float(np.logaddexp.reduce(values)) if values else last for values in by_option[:-1]]

    def scores(numbers: IntArray) -> NDArray[np.float64]:
        listed: list[Tokens] = model.backend.first_tokens([text for (text,) in cases.sentences(numbers)], cache)
        return np.asarray([of_options(tokens) for tokens in listed])

    def remarks() -> list[str]:
        if not unlisted:
            return []
        note = f"{{}} times an option was no listed first token: at most {max(unlisted):.2g} of the probability"
        return [CountNote(len(unlisted), note)]

    return PlainScorer(cases, model, scores, remarks)
