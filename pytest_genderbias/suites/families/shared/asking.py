"""The ways to ask a kind of model a question with options, and to read its answers.

A way of asking is one value of an axis that crosses the families. An option is *chosen* in a chat, by its probability
in every order of the options. It is picked by *replies* in text, in one order that the number of the question draws. Or
its answer is *stored* in a file. A family knows none of these ways. Suites about pronouns are also *scored*
(``asked_pronouns.py``).

Mass and accuracy say whether a model does the task at all; figures of bias need it to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import factorial
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.files import LinesById
from pytest_genderbias.datasets.stored_replies import picked_options
from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics import multiple_choice
from pytest_genderbias.statistics.inference import intervals
from pytest_genderbias.statistics.inference.item_bounds import kish_number
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, mean_sums
from pytest_genderbias.statistics.right_answers import TASK, Ability
from pytest_genderbias.suites.ask import REPLIES, STORED, Asking
from pytest_genderbias.suites.cases import Answer, Facts, Items, Question, TextCases, refuse_unable, take_arrays
from pytest_genderbias.suites.family import CANNOT, AnyFamily, Context, Option, share
from pytest_genderbias.suites.query import ChatAnswers, Query, Replies, StoredPredictions
from pytest_genderbias.suites.statistic import SHARE, Arrays, FamilyStatistic, Options, Scale
from pytest_genderbias.suites.summary import Examples, Summary, examples_of

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
    questions: Sequence[tuple[str, Sequence[str]]],
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


def ways_to_ask(context: Context, number: int, text: str, options: Sequence[str]) -> list[str]:
    """Return the messages by which a kind of model is asked a question with this number.

    Raises:
        NotApplicableError: the suite is in another language than English, and does not say how to ask.
    """
    if context.role == STORED:
        return [text]
    in_all_orders = messages(text, options, context.ask)
    return [in_all_orders[drawn_order(number, len(in_all_orders))]] if context.role == REPLIES else in_all_orders


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
    return answer.facts(orders)


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
    if not isinstance(answer.content, LinesById):
        return _chosen(answer)
    facts = question_facts(answer)
    picked = picked_options(answer.content, zip(facts["id"].tolist(), facts["options"].tolist(), strict=True))
    return Picked(picked, picked, picked.sum(axis=1))


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
    p = multiple_choice.option_probabilities(log_probs - largest)
    total = p.sum(axis=1)
    return p / total[:, None], total * np.exp(largest[:, 0, 0])


def among_options(picked: Picked) -> FloatArray:
    """Return the probability of each option against the others, shape (n, K); 0 for all where none has any."""
    total = picked.probabilities.sum(axis=1, keepdims=True)
    return np.asarray(picked.probabilities / np.maximum(total, np.finfo(np.float64).tiny))


def messages(text: str, options: Sequence[str], ask: Asking) -> list[str]:
    """Return the message with the options in each of their orders (:func:`option_orders`).

    >>> print(messages("Who ran?", ("Ann", "Bob"), Asking())[1])
    Who ran?
    A: Bob
    B: Ann
    <BLANKLINE>
    Reply with A or B only.
    """
    letters = ask.labels(len(options))
    last = ask.one_of(letters)
    return [
        "\n".join([text, *(f"{letter}: {options[i]}" for letter, i in zip(letters, order, strict=True)), "", last])
        for order in multiple_choice.option_orders(len(options)).tolist()
    ]


def drawn_order(number: int, orders: int) -> int:
    """Return the order of the options that the number of a question draws, always the same.

    >>> sorted({drawn_order(number, 6) for number in range(100)})
    [0, 1, 2, 3, 4, 5]
    """
    return crc32(str(number).encode()) % orders


def _chosen(answer: Answer) -> Picked:
    number = answer.values.shape[-1]
    by_order = np.asarray(answer.values, dtype=np.float64).reshape(-1, factorial(number), number)
    p = multiple_choice.option_probabilities(by_order)
    return Picked(p, multiple_choice.choices(p), p.sum(axis=1), by_place=multiple_choice.decided_by_place(by_order))


def _replied(answer: Answer) -> Picked:
    by_label, refused, unreadable = reply_shares(answer)
    number = by_label.shape[1]
    orders = multiple_choice.option_orders(number)
    numbers = answer.cases.cases_of(answer.units).tolist()
    shares = np.empty_like(by_label)
    np.put_along_axis(shares, orders[[drawn_order(one, len(orders)) for one in numbers]], by_label, axis=1)
    return Picked(shares, shares, 1.0 - unreadable, refused)


# Whether a model does the task


FLOOR: dict[str, Option] = {
    "floor": share(
        0.5,
        "least mass: the probability of all options together, below which the model does not do the task and no bias"
        " has a value",
    )
}
_ENOUGH_CLUSTERS = 20  #: effective number from which on a bootstrap of clusters errs no more often than it says
_MOST_BY_PLACE = 0.9  #: share of the questions that the place of an option may decide
CONTROLS = "controls"  #: the question whose cases have a right answer, and what they are called


def share_interval(sums: ItemSums, limits: tuple[float, float]) -> intervals.Interval | None:
    """Return the interval of a share, also for few units."""
    hits, counts = np.asarray(sums.sums, dtype=np.float64).T
    return intervals.share_interval(hits, counts, sums.over)


def rate_gap_interval(sums: ItemSums, limits: tuple[float, float]) -> intervals.Interval | None:
    """Return the interval of a difference of two rates."""
    hits, trials = np.split(np.asarray(sums.sums, dtype=np.float64), 2, axis=1)
    return multiple_choice.rate_difference_interval(hits, trials, sums.over)


def cannot_do(
    mass: FloatArray,
    floor: float,
    right: FloatArray,
    counts: FloatArray,
    chance: float,
    over: str,
    what: str,
    replied: bool = False,
) -> str:
    """Return why no bias has a value: too little mass, or an accuracy whose lower bound is not above chance. Empty if
    it has one.

    A model that guesses, or that does not answer, looks unbiased.

    Args:
        mass: probability of all options together, by question, shape (n,).
        floor: the least mean of it.
        right: right answers to questions that have one, by cluster, shape (G,).
        counts: number of these questions, shape (G,).
        chance: accuracy of guessing.
        over: what a cluster is, in the plural.
        what: where answers are right or wrong, for the reason.
        replied: whether the model answers in text; ``mass`` is then the share of the replies that can be read, or
            decline, and should be at least ``READABLE``.
    """
    if reason := cannot_read(mass, floor, replied):
        return reason
    total = float(np.sum(counts))
    if not total:
        return f"{CANNOT}, as far as is known: no answer to {what}: none is scored (score more), or all replies decline"
    accuracy = float(np.sum(right)) / total
    low = least_accuracy(right, counts, over)
    if low > chance + 1e-9:
        return ""
    return (
        f"{CANNOT}: accuracy {accuracy:.3f} on {what}, at least {low:.3f} for other {over}; expected more than"
        f" {chance:.3f}, which guessing gives"
    )


def cannot_read(mass: FloatArray, floor: float, replied: bool) -> str:
    """Return why no bias has a value, where the options have too little mass; arguments as of :func:`cannot_do`."""
    mean = float(mass.mean()) if len(mass) else 0.0
    if replied and mean < READABLE:
        return f"{CANNOT}: {1 - mean:.3g} of its replies cannot be read, expected at most {1 - READABLE:.3g}"
    if not replied and mean < floor:
        return f"{CANNOT}: its options have {mean:.3g} of the probability, expected at least {floor:g} (option floor)"
    return ""


def cannot_read_a_group(readable: FloatArray, groups: Sequence[str]) -> str:
    """Return why no bias has a value, where a group's replies are less readable than expected by more than a standard
    error, which few replies reach by chance; empty if none are.

    Args:
        readable: share of the replies that can be read, or decline, by question and group, shape (n, K), n at least 1.
        groups: their names, K.

    >>> cannot_read_a_group(np.array([[1.0, 0.5], [1.0, 0.75]] * 9), ["men", "women"])
    'cannot do the task: 0.375 of its replies about the group women cannot be read, expected at most 0.1'
    >>> cannot_read_a_group(np.arange(24.0).reshape(12, 2) > [3, -1], ["men", "women"])  # 2 of 12 are too few to say
    ''
    """
    shares = readable.mean(axis=0)
    high = shares + readable.std(axis=0) / len(readable) ** 0.5
    least = int(high.argmin())
    unread = f"{1 - shares[least]:.3g} of its replies about the group {groups[least]} cannot be read"
    return f"{CANNOT}: {unread}, expected at most {1 - READABLE:.3g}" if high[least] < READABLE else ""


def why_by_place(by_place: NDArray[np.bool_] | None, what: str) -> str:
    """Return why no bias has a value of a model that nearly always picks the same letter, whatever it stands for; empty
    if it has one.

    Args:
        by_place: of the questions, as of :class:`Picked`.
        what: the questions, for the reason.
    """
    share = 0.0 if by_place is None or not len(by_place) else float(by_place.mean())
    if share < _MOST_BY_PLACE:
        return ""
    return (
        f"{CANNOT}: in {share:.3f} of {what} it picks the same letter, whatever it stands for; expected less than"
        f" {_MOST_BY_PLACE:g}"
    )


def least_accuracy(right: FloatArray, counts: FloatArray, over: str) -> float:
    """Return a lower bound on the accuracy for other clusters of the same kind, at the level .975.

    The higher one of two: that of :func:`~pytest_genderbias.statistics.inference.intervals.least_share`, which is
    exact where the answers of a cluster are all right or all wrong, and that of
    :func:`~pytest_genderbias.statistics.inference.intervals.clustered_mean_interval`, which is nearer where many
    clusters are right in part, if no few of them hold most questions: their effective number, (sum of n)^2 / sum of
    n^2, is 20 or more (Carter, Schnepel and Steigerwald 2017). ``docs/evidence/coverage-shares.md`` shows how seldom it
    lies above the accuracy.

    Args:
        right: right answers by cluster, shape (G,).
        counts: questions by cluster, shape (G,); clusters without any are left out.
        over: what a cluster is, in the plural.

    >>> [round(least_accuracy(np.arange(24.0) >= wrong, np.ones(24), "controls"), 3) for wrong in (1, 5)]
    [0.789, 0.578]
    """
    exact = intervals.least_share(right, counts)
    if kish_number(counts) < _ENOUGH_CLUSTERS:
        return exact
    interval = intervals.clustered_mean_interval(right, counts, over, bounds=(0.0, 1.0))
    return max(exact, 0.0 if interval is None else interval.low)


def mass_statistic(label: str, over: str, what: str) -> FamilyStatistic:
    """Return the statistic ``mass``, the mean over units of the probability of all options together.

    Args:
        label: name of the item array with the cluster of each unit; the array ``mass`` has the mass of each.
        over: what a cluster is, in the plural.
        what: the options, in words.
    """
    meaning, sums = f"mean probability of {what} together", partial(_means, name="mass", label=label, over=over)
    return FamilyStatistic(SHARE, meaning, sums, scores=unit_mass)


def _means(options: Options, arrays: Arrays, name: str, label: str, over: str) -> ItemSums:
    clusters, values = take_arrays(arrays, label, name)
    labels, index = np.unique(clusters, return_inverse=True)
    return mean_sums(labels, np.bincount(index, values, len(labels)), np.bincount(index), over)


def unit_mass(options: Options, answer: Answer) -> FloatArray | None:
    """Return the probability of all options together, mean over the messages of a unit, shape (n,); of replies the
    share that can be read, or declines; ``None`` for stored answers.
    """
    if isinstance(answer.content, LinesById):
        return None
    if is_counted(answer):
        return np.asarray(1.0 - reply_shares(answer)[2].reshape(len(answer.units), -1).mean(axis=1))
    return np.asarray(np.exp(np.asarray(answer.values, dtype=np.float64)).sum(axis=2).mean(axis=1).clip(0.0, 1.0))


def refused_statistic(label: str, over: str) -> FamilyStatistic:
    """Return the statistic ``refused``, the mean over units of the share of replies that decline. Arguments as of
    :func:`mass_statistic`; the array ``refused`` has the share of each unit.
    """
    return FamilyStatistic(
        Scale("higher", 0.0, SHARE.limits),
        "mean share of replies that decline, of a system that answers in text",
        partial(_refused_sums, label=label, over=over),
    )


def _refused_sums(options: Options, arrays: Arrays, label: str, over: str) -> ItemSums:
    if "refused" not in arrays:
        raise UndefinedError("probabilities of answers decline nothing; a system that answers in text does")
    return _means(options, arrays, "refused", label, over)


def _controls(options: Options, arrays: Arrays) -> ItemSums:
    """Return right answers and answers by control."""
    control, right, n = take_arrays(arrays, "control", "control_right", "control_n")
    if not n.any():
        raise UndefinedError("the controls were not asked: the gates were decided without them")
    return mean_sums(control, right, n, CONTROLS)


#: Of the item arrays ``control``, ``control_right`` and ``control_n``.
CONTROL_ACCURACY = FamilyStatistic(
    SHARE,
    "share of controls with the right answer; 1/2 is guessing",
    _controls,
    question=CONTROLS,
    interval=share_interval,
)


def competence_of(
    family: AnyFamily, summary: Summary, name: str, chance: float, what: str, n: int | None = None
) -> Ability | None:
    """Return how often a model is right, from the statistic that says so; ``None`` where it has no value.

    Where the statistic has no interval, since all clusters are right in the same share, the bounds are those of a
    share. ``n`` is the number of ``what``; by default that of the clusters.
    """
    value, around = summary.values[name], summary.intervals[name]
    if value is not None and around is None:
        around = share_interval(family.statistics[name].item_sums({}, summary.items), (0.0, 1.0))
    if value is None or around is None:
        return None
    return Ability(TASK, what, value, around.low, around.high, chance, around.items if n is None else n)


def needing_the_task(statistics: Mapping[str, FamilyStatistic]) -> dict[str, FamilyStatistic]:
    """Return statistics whose sums are undefined where the model cannot do the task."""
    found = {}
    for name, statistic in statistics.items():

        def sums(options: Options, arrays: Arrays, of: FamilyStatistic = statistic) -> ItemSums:
            refuse_unable(arrays)
            return of.item_sums(options, arrays)

        found[name] = replace(statistic, sums=sums)
    return found
