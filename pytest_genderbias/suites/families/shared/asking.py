"""The ways to ask a kind of model a question with options, and to read its answers.

A way of asking is one value of an axis that crosses the families: an option is *chosen* in a chat, by its probability
in every order of the options, or its answer is *stored* in a file. The tables ``_ASKED`` and ``_READ`` have a line for
each way, and a family has none of them. Suites about pronouns are also *scored* (``asked_pronouns.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import factorial

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.stored_answers import StoredAnswers, picked_options
from pytest_genderbias.statistics.multiple_choice import choices, option_orders, option_probabilities
from pytest_genderbias.suites.cases import Answer, Facts, Question, TextCases
from pytest_genderbias.suites.query import ChatAnswers, Query, StoredPredictions

FloatArray = NDArray[np.float64]
Options = Sequence[str]

STORED = "chat-answers"  #: the kind of a file of answers
CHAT_ROLES = ("causal-lm", "chat-model")
NEEDS = "a causal LM with a chat template, or an object that gives the probabilities of its answers"
LETTERS = ("A", "B", "C")


@dataclass(frozen=True)
class Picked:
    """Picks of a model in n questions with K options.

    ``probabilities``: of each option, averaged over the orders, shape (n, K). ``picked``: weight of each option, shape
    (n, K); a row sums to 1, or to 0 for a stored answer that is no option. ``mass``: probability of all options
    together, shape (n,).
    """

    probabilities: FloatArray
    picked: FloatArray
    mass: FloatArray


def asked(
    questions: Sequence[tuple[str, Options]],
    facts: Facts,
    role: str,
    each: int = 1,
    whole: bool = False,
    instead: str = "",
) -> Question:
    """Return questions with options as a kind of model is asked them.

    Args:
        questions: text and options of each question, as many options of each.
        facts: what is known of each question; a file of answers needs ``id`` and ``options``.
        role: kind of the model.
        each: number of questions in a unit.
        whole: whether all are asked whatever the limit is.
        instead: what to do with a model without a chat template.
    """
    rows = [_ASKED[role][0](*question) for question in questions]
    cases = TextCases(
        [(message,) for messages_of_one in rows for message in messages_of_one],
        facts={name: np.repeat(np.asarray(column), list(map(len, rows)), axis=0) for name, column in facts.items()},
        cases_per_unit=each * max(map(len, rows), default=1),
    )
    number = max((len(options) for _, options in questions), default=len(LETTERS))
    return Question(cases, query_for(role, number, instead), whole=whole)


def query_for(role: str, number: int, otherwise: str = "") -> Query:
    """Return the query for questions with ``number`` options to a kind of model; ``otherwise`` as of :func:`asked`."""
    return _ASKED[role][1](number, otherwise)


def question_facts(answer: Answer) -> Facts:
    """Return the facts of the questions that were asked, of which all orders of the options have the same."""
    numbers = answer.cases.cases_of(answer.units)[:: factorial(answer.values.shape[-1])]
    return {name: np.asarray(column)[numbers] for name, column in answer.cases.facts.items()}


def first_message(answer: Answer, unit: int) -> str:
    """Return the first message of a unit, in one line."""
    return " ".join(answer.cases.texts[unit * answer.cases.cases_per_unit][0].split())


def picked_of(answer: Answer) -> Picked:
    """Return what was picked in the scored questions.

    Raises:
        DataFileError: a file of answers lacks a question.
    """
    return _READ[type(answer.content)](answer)


def shares_of(answer: Answer) -> tuple[FloatArray, FloatArray]:
    """Return the probability of each option against the others, shape (n, K), and the mass of all, shape (n,), in
    questions that are units.

    Options that are all next to nothing are in the ratio that they have.
    """
    log_probs = np.asarray(answer.values, dtype=np.float64)
    largest = log_probs.max(axis=(1, 2), keepdims=True)
    p = option_probabilities(log_probs - largest)
    total = p.sum(axis=1)
    return p / total[:, None], total * np.exp(largest[:, 0, 0])


def messages(text: str, options: Options) -> list[str]:
    """Return the message with the options in each of their orders (:func:`option_orders`).

    >>> print(messages("Who ran?", ("Ann", "Bob"))[1])
    Who ran?
    A: Bob
    B: Ann
    <BLANKLINE>
    Reply with A or B only.
    """
    letters = LETTERS[: len(options)]
    last = f"Reply with {', '.join(letters[:-1])} or {letters[-1]} only."
    return [
        "\n".join([text, *(f"{letter}: {options[i]}" for letter, i in zip(letters, order, strict=True)), "", last])
        for order in option_orders(len(options)).tolist()
    ]


def _as_it_is(text: str, options: Options) -> list[str]:
    return [text]


def _choosing(number: int, otherwise: str) -> Query:
    return ChatAnswers(LETTERS[:number], otherwise)


def _looking_up(number: int, otherwise: str) -> Query:
    return StoredPredictions()


def _chosen(answer: Answer) -> Picked:
    number = answer.values.shape[-1]
    values = np.asarray(answer.values, dtype=np.float64).reshape(-1, factorial(number), number)
    probabilities = option_probabilities(values)
    return Picked(probabilities, choices(probabilities), probabilities.sum(axis=1))


def _looked_up(answer: Answer) -> Picked:
    facts = question_facts(answer)
    picked = picked_options(answer.content, zip(facts["id"].tolist(), facts["options"].tolist(), strict=True))
    return Picked(picked, picked, picked.sum(axis=1))


#: The messages of a question and the query for all of them, by the kind of the model.
_ASKED: Mapping[str, tuple[Callable[[str, Options], list[str]], Callable[[int, str], Query]]] = {
    **dict.fromkeys(CHAT_ROLES, (messages, _choosing)),
    STORED: (_as_it_is, _looking_up),
}
#: The reader of an answer, by its content: a model's probabilities have none.
_READ: Mapping[type, Callable[[Answer], Picked]] = {type(None): _chosen, StoredAnswers: _looked_up}
