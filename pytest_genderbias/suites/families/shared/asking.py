"""The ways to ask a kind of model a question with options, and to read its answers.

A way of asking is one value of an axis that crosses the families. An option is *chosen* in a chat, by its probability
in every order of the options. It is picked by *replies* in text, in one order that the number of the question draws. Or
its answer is *stored* in a file. A family knows none of these ways. Suites about pronouns are also *scored*
(``asked_pronouns.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import factorial
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.stored_replies import StoredAnswers, picked_options
from pytest_genderbias.statistics.multiple_choice import choices, decided_by_place, option_orders, option_probabilities
from pytest_genderbias.suites.ask import REPLIES, STORED, Asking
from pytest_genderbias.suites.cases import Answer, Facts, Items, Question, TextCases
from pytest_genderbias.suites.family import Context
from pytest_genderbias.suites.query import ChatAnswers, Query, Replies, StoredPredictions
from pytest_genderbias.suites.summary import Examples, examples_of

FloatArray = NDArray[np.float64]
Options = Sequence[str]

READABLE = 0.9  #: least share of replies in text that can be read, or decline


@dataclass(frozen=True)
class Picked:
    """Picks of a model in n questions with K options.

    ``probabilities``: of each option, averaged over the orders, shape (n, K); of replies in text, their shares.
    ``picked``: weight of each option, shape (n, K); a row sums to 1, to 0 for a stored answer that is no option, and to
    the share of the replies that pick one. ``mass``: probability of all options together, shape (n,); of replies, the
    share that can be read, or declines. ``refused``: share of the replies that decline, shape (n,); ``None`` where
    nothing is replied. ``by_place``: whether the place of the options decides, so that the likeliest letter is the same
    in all of their orders, shape (n,); ``None`` where not all orders are asked.
    """

    probabilities: FloatArray
    picked: FloatArray
    mass: FloatArray
    refused: FloatArray | None = None
    by_place: NDArray[np.bool_] | None = None

    def items(self, each: int = 1) -> Items:
        """Return the item arrays ``mass`` and, where anything was replied, ``refused``: means over the ``each``
        questions of a unit.
        """
        columns = {"mass": self.mass} | ({} if self.refused is None else {"refused": self.refused})
        return {name: column.reshape(-1, each).mean(axis=1) for name, column in columns.items()}


def asked(
    questions: Sequence[tuple[str, Options]],
    facts: Facts,
    context: Context,
    each: int = 1,
    whole: bool = False,
    instead: str = "",
) -> Question:
    """Return questions with options as a kind of model is asked them.

    Args:
        questions: text and options of each question, as many options of each.
        facts: what is known of each question; a file of answers needs ``id`` and ``options``.
        context: kind of the model, and how often it is asked.
        each: number of questions in a unit.
        whole: whether all are asked whatever the limit is.
        instead: what to do with a model without a chat template.
    """
    rows = [ways_to_ask(context, number, *question) for number, question in enumerate(questions)]
    cases = TextCases(
        [(message,) for messages_of_one in rows for message in messages_of_one],
        facts={name: np.repeat(np.asarray(column), list(map(len, rows)), axis=0) for name, column in facts.items()},
        cases_per_unit=each * max(map(len, rows), default=1),
    )
    number = max((len(options) for _, options in questions), default=3)
    return Question(cases, query_for(context, number, instead), whole=whole)


def query_for(context: Context, number: int, otherwise: str = "") -> Query:
    """Return the query for questions with ``number`` options to a kind of model; ``otherwise`` as of :func:`asked`."""
    if context.role == STORED:
        return StoredPredictions()
    return chosen_among(context.ask.labels(number), context, otherwise)


def chosen_among(labels: tuple[str, ...], context: Context, otherwise: str = "") -> Query:
    """Return the query for messages that ask for one of some words."""
    if context.role == REPLIES:
        return Replies(labels, context.samples, context.seed)
    return ChatAnswers(labels, otherwise)


def ways_to_ask(context: Context, number: int, text: str, options: Options) -> list[str]:
    """Return the messages by which a kind of model is asked a question with this number.

    Raises:
        NotApplicableError: the suite is in another language than English, and does not say how to ask.
    """
    if context.role == STORED:
        return [text]
    ask = context.ask
    return one_order(number, text, options, ask) if context.role == REPLIES else messages(text, options, ask)


def is_counted(answer: Answer) -> bool:
    """Return whether an answer has numbers of replies, in the place of probabilities."""
    return answer.values.dtype.kind == "i"


def reply_shares(answer: Answer) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the shares of replies to each case that have each label, that decline, and that are unreadable.

    Shapes: (n, K), (n,) and (n,).
    """
    counts = np.asarray(answer.values, dtype=np.float64).reshape(-1, answer.values.shape[-1])
    shares = counts / counts.sum(axis=1, keepdims=True)
    return shares[:, :-2], shares[:, -2], shares[:, -1]


def question_facts(answer: Answer) -> Facts:
    """Return the facts of the questions that were asked, of which all orders of the options have the same."""
    orders = 1 if is_counted(answer) else factorial(answer.values.shape[-1])
    numbers = answer.cases.cases_of(answer.units)[::orders]
    return {name: np.asarray(column)[numbers] for name, column in answer.cases.facts.items()}


def first_message(answer: Answer, unit: int) -> str:
    """Return the first message of a unit, in one line."""
    return " ".join(answer.cases.texts[unit * answer.cases.cases_per_unit][0].split())


def examples_of_messages(answer: Answer, items: NDArray[Any], figures: Mapping[str, FloatArray]) -> Examples:
    """Return the first message about each item, with what the model gave for it.

    Args:
        answer: to the question.
        items: name of the item of each scored unit, shape (n,).
        figures: by name, of each scored unit, shape (n,).
    """
    labels, index = np.unique(items, return_inverse=True)
    return examples_of(labels.tolist(), index, answer.units, partial(first_message, answer), figures)


def picked_of(answer: Answer) -> Picked:
    """Return what was picked in the scored questions.

    Raises:
        DataFileError: a file of answers lacks a question.
    """
    if is_counted(answer):
        return _replied(answer)
    return _looked_up(answer) if isinstance(answer.content, StoredAnswers) else _chosen(answer)


def shares_of(answer: Answer) -> tuple[FloatArray, FloatArray]:
    """Return the probability of each option against the others, shape (n, K), and the mass of all, shape (n,), in
    questions that are units.

    Options that are all next to nothing are in the ratio that they have. Replies that pick no option give 0 to all.
    """
    if is_counted(answer):
        picked = _replied(answer)
        return among_options(picked), picked.mass
    log_probs = np.asarray(answer.values, dtype=np.float64)
    largest = log_probs.max(axis=(1, 2), keepdims=True)
    p = option_probabilities(log_probs - largest)
    total = p.sum(axis=1)
    return p / total[:, None], total * np.exp(largest[:, 0, 0])


def among_options(picked: Picked) -> FloatArray:
    """Return the probability of each option against the others, shape (n, K); 0 for all where none has any."""
    total = picked.probabilities.sum(axis=1, keepdims=True)
    return np.asarray(picked.probabilities / np.maximum(total, np.finfo(np.float64).tiny))


def messages(text: str, options: Options, ask: Asking | None = None) -> list[str]:
    """Return the message with the options in each of their orders (:func:`option_orders`); ``ask``: in English by
    default.

    >>> print(messages("Who ran?", ("Ann", "Bob"))[1])
    Who ran?
    A: Bob
    B: Ann
    <BLANKLINE>
    Reply with A or B only.
    """
    ask = ask or Asking()
    letters = ask.labels(len(options))
    last = ask.one_of(letters)
    return [
        "\n".join([text, *(f"{letter}: {options[i]}" for letter, i in zip(letters, order, strict=True)), "", last])
        for order in option_orders(len(options)).tolist()
    ]


def one_order(number: int, text: str, options: Options, ask: Asking | None = None) -> list[str]:
    """Return the message with the options in one order, which the number of the question draws.

    >>> len({one_order(number, "Who ran?", ("Ann", "Bob", "nobody"))[0] for number in range(100)})
    6
    """
    return [messages(text, options, ask)[drawn_order(number, factorial(len(options)))]]


def drawn_order(number: int, orders: int) -> int:
    """Return the order of the options that the number of a question draws, always the same."""
    return crc32(str(number).encode()) % orders


def _by_order(answer: Answer) -> FloatArray:
    """Return ln P of the letter at each place, in each order of the options, shape (n, K!, K)."""
    number = answer.values.shape[-1]
    return np.asarray(answer.values, dtype=np.float64).reshape(-1, factorial(number), number)


def _chosen(answer: Answer) -> Picked:
    by_order = _by_order(answer)
    p = option_probabilities(by_order)
    return Picked(p, choices(p), p.sum(axis=1), by_place=decided_by_place(by_order))


def _replied(answer: Answer) -> Picked:
    by_label, refused, unreadable = reply_shares(answer)
    number = by_label.shape[1]
    orders = option_orders(number)
    numbers = answer.cases.cases_of(answer.units).tolist()
    shares = np.empty_like(by_label)
    np.put_along_axis(shares, orders[[drawn_order(one, len(orders)) for one in numbers]], by_label, axis=1)
    return Picked(shares, shares, 1.0 - unreadable, refused)


def _looked_up(answer: Answer) -> Picked:
    facts = question_facts(answer)
    picked = picked_options(answer.content, zip(facts["id"].tolist(), facts["options"].tolist(), strict=True))
    return Picked(picked, picked, picked.sum(axis=1))
