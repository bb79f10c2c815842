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


def replies_to(
    numbers: IntArray, cases: Cases, query: Replies, model: Model, cache: Path | None
) -> list[tuple[str, ...]]:
    """Return the replies to the cases with these numbers; ``cache``: the folder that keeps replies, or ``None``."""
    messages = [message for (message,) in cases.sentences(numbers)]
    ids = [query.id_of(case) for case in numbers.tolist()]
    asked = Asked(query.name, query.digest, cases.n_cases, ids, messages, query.samples, query.seed, cache)
    return list(model.backend.replies(asked))


def reply_counts(
    cases: Cases, query: Replies, model: Model, batch_tokens: int | None, cache: Path | None = None
) -> PlainScorer:
    """Ask for the replies to the cases, and count what they say."""
    model.backend.check(query.name)
    openings = refusals(query.language, query.own_refusals)
    reader = ReplyReader(query.labels, openings, query.language)

    def scores(numbers: IntArray) -> NDArray[np.int32]:
        counts = np.zeros((len(numbers), query.width), dtype=np.int32)
        messages = [message for (message,) in cases.sentences(numbers)]
        for row, message, replies in zip(
            counts, messages, replies_to(numbers, cases, query, model, cache), strict=True
        ):
            if not query.labels:
                row[:] = sum(is_refusal(reply, openings) for reply in replies), sum(map(len, replies))
                continue
            options = option_texts(message, query.labels)
            for reply in replies:
                row[reader.read(reply, options)] += 1
        return counts

    return PlainScorer(scores)


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

    return PlainScorer(scores, remarks)
