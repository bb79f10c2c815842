"""Shared by the suites of natural language inference: the question to a chat model, and pairs whose label is known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.gold_pairs import LABELS
from pytest_genderbias.errors import NotApplicableError
from pytest_genderbias.statistics.multiple_choice import choices
from pytest_genderbias.suites.ask import LETTERED, Asking, is_english
from pytest_genderbias.suites.cases import Answer, Cases, Facts, Question
from pytest_genderbias.suites.families.shared.asking import (
    FloatArray,
    asked,
    is_counted,
    picked_of,
    query_for,
    shares_of,
    ways_to_ask,
)
from pytest_genderbias.suites.families.shared.chat_task import cannot_do, why_by_place
from pytest_genderbias.suites.family import Context
from pytest_genderbias.suites.space import AskedPairs
from pytest_genderbias.text.located_yaml import read_yaml
from pytest_genderbias.text.schema import LocatedMap, Rule, refuse_unknown, take

ASKS = (*LETTERED, "inference", *LABELS)  #: keys of ``ask``
CHANCE = 1 / 3
LabelledPairs: TypeAlias = Mapping[str, Sequence[tuple[str, str]]]  #: premise and hypothesis, by label
PREMISES = "premises"  #: over which the accuracy on the controls is judged
_WHAT = "the controls, pairs of sentences whose label is known"


def _text(ask: Asking, premise: str, hypothesis: str) -> str:
    """Return the question about a pair.

    >>> print(_text(Asking(), "Two dogs run.", "Animals move."))
    Premise: Two dogs run.
    Hypothesis: Animals move.
    <BLANKLINE>
    If the premise is true, is the hypothesis true?
    """
    words = {"{premise}": premise, "{hypothesis}": hypothesis}
    return re.sub(r"\{(?:premise|hypothesis)\}", lambda slot: words[slot[0]], ask["inference"])


def asked_pairs(pairs: Cases, context: Context, otherwise: str) -> Question:
    """Return the question about pairs to a chat model. ``otherwise``: what to do with a model that has no chat
    template.
    """

    options = _options(context.ask)

    def ask(number: int, premise: str, hypothesis: str) -> list[str]:
        return ways_to_ask(context, number, _text(context.ask, premise, hypothesis), options)

    orders = len(ask(0, "", ""))
    return Question(AskedPairs(pairs, orders, ask), query_for(context, len(options), otherwise))


def _options(ask: Asking) -> tuple[str, ...]:
    """Return the options for entailment, neutral and contradiction."""
    return tuple(ask[label] for label in LABELS)


def read_controls(data: LocatedMap) -> LabelledPairs:
    """Read ``controls`` of a suite file: lists of [premise, hypothesis], as many for each label; none by default."""
    if "controls" not in data:
        return {}
    controls = take(data, "controls", LocatedMap, "the suite")
    refuse_unknown(controls, LABELS, "'controls'")
    pair = Annotated[list[str], Rule("a premise and a hypothesis", test=lambda texts: len(texts) == 2)]
    found: LabelledPairs = {
        label: [(of[0], of[1]) for of in take(controls, label, list[pair], "'controls'")] for label in LABELS
    }
    if len({len(pairs) for pairs in found.values()}) > 1:
        raise data.error_at("controls", "expected as many pairs of each label")
    return found


#: The pairs that a suite has without controls of its own.
CONTROLS = read_controls(read_yaml(Path(__file__).with_name("inference_controls.yaml")))


def asked_controls(own: LabelledPairs, context: Context, otherwise: str) -> Question:
    """Return the question about the controls, which are always asked; ``own``: those of the suite, if it has some.

    Raises:
        NotApplicableError: it has none, and is in another language than English.
    """
    if not (own or is_english(context.ask.language)):
        raise NotApplicableError(
            f"its language is {context.ask.language}, and it has no pairs whose label is known; write under 'controls'"
            " in its file lists of [premise, hypothesis] for entailment, neutral and contradiction"
        )
    rows = [(pair, LABELS.index(label)) for label, pairs in (own or CONTROLS).items() for pair in pairs]
    facts: Facts = {"gold": np.asarray([gold for _, gold in rows])}
    if own:
        facts = {**facts, "premise": np.asarray([premise for (premise, _), _ in rows])}
    texts = [(_text(context.ask, *pair), _options(context.ask)) for pair, _ in rows]
    return asked(texts, facts, context, whole=True, instead=otherwise)


def right_controls(answer: Answer) -> FloatArray:
    """Return how far each control is labelled right, 0 to 1 (a tie is right in part, and so are some of several
    replies), in the order of the cases, shape (n,).
    """
    shares = shares_of(answer)[0]
    picked = shares if is_counted(answer) else choices(shares)
    gold = np.asarray(answer.cases.facts["gold"])[:: answer.cases.cases_per_unit]
    right = np.empty(len(gold))
    right[answer.units] = picked[np.arange(len(gold)), gold[answer.units]]
    return right


def right_by_premise(controls: Answer) -> tuple[NDArray[np.str_], FloatArray, FloatArray]:
    """Return the premises of the controls, the right labels of the pairs with each, and the number of these pairs, each
    of shape (G,).
    """
    facts, each = controls.cases.facts, controls.cases.cases_per_unit
    packaged = [premise for pairs in CONTROLS.values() for premise, _ in pairs]
    premises = np.asarray(facts["premise"])[::each] if "premise" in facts else packaged
    labels, index = np.unique(premises, return_inverse=True)
    right = np.bincount(index, right_controls(controls)).astype(np.float64)
    return labels, right, np.bincount(index).astype(np.float64)


def why_not(mass: FloatArray, controls: Answer, floor: float) -> str:
    """Return why no figure of a chat model has a value, empty if it has one.

    The accuracy has to be above guessing for other pairs and for other premises: a model may know all pairs with one
    premise or none, so that they are one proof and not three, or prefer one label, so that the premises differ less
    than the pairs.
    """
    right: NDArray[np.float64] = right_controls(controls)
    _, by_premise, pairs_with = right_by_premise(controls)
    replied = is_counted(controls)
    return (
        cannot_do(mass, floor, right, np.ones(len(right)), CHANCE, "controls", _WHAT, replied)
        or cannot_do(mass, floor, by_premise, pairs_with, CHANCE, PREMISES, _WHAT, replied)
        or why_by_place(picked_of(controls).by_place, "the controls")
    )
