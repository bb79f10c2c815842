"""Shared by the suites of chat models: mass and accuracy, which say whether a model does the task, and figures that
need it to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.stored_replies import StoredAnswers
from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.inference.intervals import (
    Interval,
    clustered_mean_interval,
    least_share,
    share_interval,
)
from pytest_genderbias.statistics.inference.item_bounds import kish_number
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, mean_sums
from pytest_genderbias.suites.cases import Answer, refuse_unable, take_arrays
from pytest_genderbias.suites.families.shared.asking import READABLE, is_counted, reply_shares
from pytest_genderbias.suites.family import CANNOT, Competence, Option, share
from pytest_genderbias.suites.statistic import SHARE, Arrays, FamilyStatistic, MakeSums, Options, Scale
from pytest_genderbias.suites.summary import Summary, SummaryBuilder

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


def accuracy_interval(sums: ItemSums) -> Interval | None:
    """Return the interval of a share of right answers, also for few clusters."""
    right, counts = np.asarray(sums.sums, dtype=np.float64).T
    return share_interval(right, counts, sums.over)


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


def why_by_place(by_place: NDArray[np.bool_] | None, what: str) -> str:
    """Return why no bias has a value of a model that nearly always picks the same letter, whatever it stands for; empty
    if it has one.

    Args:
        by_place: of the questions, as of :class:`~pytest_genderbias.suites.families.shared.asking.Picked`.
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
    exact = least_share(right, counts)
    if kish_number(counts) < _ENOUGH_CLUSTERS:
        return exact
    interval = clustered_mean_interval(right, counts, over, bounds=(0.0, 1.0))
    return max(exact, 0.0 if interval is None else interval.low)


def _sums_where_able(sums: MakeSums, options: Options, arrays: Arrays) -> ItemSums:
    refuse_unable(arrays)
    return sums(options, arrays)


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
    if isinstance(answer.content, StoredAnswers):
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
    SHARE, "share of controls with the right answer; 1/2 is guessing", _controls, question=CONTROLS
)


def take_task(figures: SummaryBuilder, names: Sequence[str], options: Options, items: Arrays, few: str) -> None:
    """Add figures that are means over clusters, such as mass and accuracy; the accuracy is a share.

    Args:
        figures: takes them.
        names: of the statistics.
        options: of the measurement.
        items: its arrays.
        few: the reason where there is no interval.
    """
    for name in names:
        if name != "accuracy":
            figures.take_mean(name, options, items, few)
    if "accuracy" in names:
        sums = partial(figures.statistics["accuracy"].item_sums, options, items)
        figures.take("accuracy", lambda: sums().total, lambda: accuracy_interval(sums()), few)


def competence_of(
    summary: Summary, name: str, statistic: FamilyStatistic, chance: float, what: str, n: int | None = None
) -> Competence | None:
    """Return how often a model is right, from the statistic that says so; ``None`` where it has no value.

    Where the statistic has no interval, since all clusters are right in the same share, the bounds are those of a
    share. ``n`` is the number of ``what``; by default that of the clusters.
    """
    value, around = summary.values[name], summary.intervals[name]
    if value is not None and around is None:
        around = accuracy_interval(statistic.item_sums({}, summary.items))
    if value is None or around is None:
        return None
    return Competence(what, value, around.low, around.high, chance, around.items if n is None else n)


def needing_the_task(statistics: Mapping[str, FamilyStatistic]) -> dict[str, FamilyStatistic]:
    """Return statistics whose sums are undefined where the model cannot do the task.

    Raises:
        ValueError: a statistic has no sums.
    """
    found = {}
    for name, statistic in statistics.items():
        if isinstance(statistic.sums, str):
            raise ValueError(f"{name} has no sums")
        found[name] = replace(statistic, sums=partial(_sums_where_able, statistic.sums))
    return found
