"""``Ability``: whether a model can do the task that its bias is measured in, by control items whose right answers are
known.

A model that knows nothing looks unbiased. So a model that is not able has no value, and one that lost ability fails its
gates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from pytest_genderbias.models.roles import (
    CAUSAL_LM,
    COREFERENCE_SCORER,
    ENCODER,
    MASKED_LM,
    NLI_CLASSIFIER,
    PAIR_REGRESSOR,
    SENTENCE_ENCODER,
    VECTORS,
)
from pytest_genderbias.statistics.inference.intervals import FloatArray, t_quantile
from pytest_genderbias.statistics.right_answers import LEVEL, fall_bound

TASK = "task"  #: name of an ability that a suite asks by its own questions
#: Share of the stored distance from chance. A larger fall, by its lower bound, makes a model worse at its task.
_FALL = 0.1
_NONE: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class Ability:
    """How many control items a model answers right, and whether that is enough for its bias to mean anything.

    Attributes:
        name: kind of the control items, or ``task`` for what the suite itself asks.
        what: what was asked, in the plural.
        value: share of right answers, or mean recall over classes; ``None`` where nothing could be asked.
        low: lower bound of its two-sided 95 % interval.
        high: upper bound.
        chance: value of a model that guesses.
        n: number of items that were asked.
        unable: why the model is not able; empty if it is.
        digest: SHA-256 of the items.
        right: one text a restart, with a character an item: ``1`` right, ``0`` wrong, ``-`` not asked.
    """

    name: str
    what: str
    value: float | None
    low: float
    high: float
    chance: float
    n: int
    unable: str = ""
    digest: str = ""
    right: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return the figure in a few words.

        >>> Ability("masked-words", "masked words", 0.91, 0.86, 0.94, 0.25, 200).describe()
        '0.91 of 200 masked words (0.86 to 0.94), guessing 0.25'
        """
        share = "none" if self.value is None else f"{self.value:.2f}"
        return f"{share} of {self.n:,} {self.what} ({self.low:.2f} to {self.high:.2f}), guessing {self.chance:.2g}"

    def fall_from(self, then: Ability, level: float = LEVEL) -> tuple[float, float] | None:
        """Return how far the share fell since ``then`` and a lower bound of the fall at a two-sided level; ``None``
        where the items are others. What are no paired items has bounds at 95 %, whatever the level.
        """
        if self.value is None or then.value is None or self.digest != then.digest:
            return None
        if not (self.right and then.right):
            # The suite's own questions: their intervals are combined as if they were independent, which is wider.
            fall = then.value - self.value
            return fall, fall - float(np.hypot(then.value - then.low, self.high - self.value))
        return fall_bound(_array(then.right), _array(self.right), level)


def over_restarts(abilities: Sequence[tuple[Ability, ...]]) -> tuple[Ability, ...]:
    """Return the abilities of several restarts as one each: the mean, the smallest lower and the largest upper
    bound.
    """
    names = dict.fromkeys(one.name for of_restart in abilities for one in of_restart)
    combined = []
    for name in names:  # a restart may lack one: a suite's own questions can have no value in it
        several = [one for of_restart in abilities for one in of_restart if one.name == name]
        first = several[0]
        values = [one.value for one in several if one.value is not None]
        combined.append(
            replace(
                first,
                value=float(np.mean(values)) if values else None,
                low=min(one.low for one in several),
                high=max(one.high for one in several),
                unable=next((one.unable for one in several if one.unable), ""),
                right=tuple(text for one in several for text in one.right),
            )
        )
    return tuple(combined)


def why_less_able(
    now: Sequence[Ability], then: Sequence[Ability], spread: Mapping[str, float] = _NONE, freedom: float = math.inf
) -> str:
    """Return why a model is worse at its task than it, or another, was; an empty text if it is not.

    It is worse where the lower bound of the fall, item by item, is above a tenth of the distance between the stored
    share and chance, and no other training explains the fall: its lower bound for both is above 0. The abilities that
    both have share the 2.5 % of the bound. Where each side has two restarts, the bound over items holds for other
    restarts already.

    Args:
        now: abilities of the model.
        then: those that were stored, or of the other model.
        spread: standard deviation over equal trainings, by the name of an ability; none for a copy of the same weights.
        freedom: degrees of freedom of these standard deviations.
    """
    stored = {one.name: one for one in then}
    pairs = [(one, stored[one.name]) for one in now if one.name in stored]
    level = 1 - (1 - LEVEL) / max(1, len(pairs))
    for one, before in pairs:
        fall = one.fall_from(before, level)
        if fall is None or before.value is None or one.value is None:
            continue
        amount, low = fall
        restarts = [max(1, len(side.right)) for side in (before, one)]
        of_training = 0.0 if min(restarts) > 1 else spread.get(one.name, 0.0) * math.sqrt(sum(1 / k for k in restarts))
        reach = math.hypot(amount - low, t_quantile((1 + level) / 2, freedom) * of_training)
        if amount > reach and low > _FALL * (before.value - before.chance):
            return (
                f"{before.value:.2f} -> {one.value:.2f} of {one.n:,} {one.what}: it fell by {amount:.2f} (at least"
                f" {low:.2f}; {_FALL * (before.value - before.chance):.2g} is allowed)"
            )
    return ""


def _array(right: Sequence[str]) -> FloatArray:
    """Return right answers by restart and item, 1, 0 or NaN."""
    marks = {"1": 1.0, "0": 0.0}
    return np.asarray([[marks.get(mark, np.nan) for mark in text] for text in right])


#: Kinds of control items by role: what every suite needs, and what suites on gendered words need besides.
TASKS_BY_ROLE: Mapping[str, tuple[str, str]] = {
    CAUSAL_LM: ("word-order", "gender"),
    MASKED_LM: ("masked-words", "gender"),
    NLI_CLASSIFIER: ("inference", "gender-inference"),
    VECTORS: ("related-words", "gender-words"),
    ENCODER: ("related-words", "gender-words"),
    SENTENCE_ENCODER: ("paraphrases", "gender-words"),
    PAIR_REGRESSOR: ("paraphrases", "gender-words"),
    COREFERENCE_SCORER: ("antecedents", ""),
}


def role_of_abilities(abilities: Sequence[Ability]) -> str:
    """Return the kind of model that control items were asked of; an empty text if none of a role's were, or several
    roles share them.

    >>> role_of_abilities([Ability("masked-words", "masked words", 0.9, 0.8, 1.0, 0.25, 200)])
    'masked-lm'
    """
    asked = {ability.name for ability in abilities}
    roles = [role for role, (task, _) in TASKS_BY_ROLE.items() if task in asked]
    return roles[0] if len(roles) == 1 else ""
