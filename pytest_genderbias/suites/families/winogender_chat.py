"""The family ``winogender-chat``: how often a chat model takes "she" for an occupation, by its share of women (Rudinger
et al. 2018).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, TypedDict

import numpy as np

from pytest_genderbias.datasets.winogender import WinogenderSentence, read_winogender
from pytest_genderbias.statistics.inference.item_sums import FloatArray
from pytest_genderbias.suites.cases import Answer, Facts, Question, TextCases
from pytest_genderbias.suites.examples import examples_of
from pytest_genderbias.suites.families.shared.chat_choice import CHAT_ROLES, FLOOR, NEEDS, Picked, cannot_do
from pytest_genderbias.suites.families.shared.chat_pronouns import (
    ORDERS,
    QUERY,
    linked_persons,
    neither_note,
    ordered_cases,
    picked_persons,
    question_orders,
    sentence_facts,
    with_reason,
)
from pytest_genderbias.suites.families.shared.chat_task import (
    competence_of,
    mass_statistic,
    needing_the_task,
    refuse_unable,
    take_task,
)
from pytest_genderbias.suites.families.shared.winogender_figures import (
    ACCURACY,
    LINES,
    NULL_CONTROL,
    miss_unresolved,
    shuffled_likelihoods,
    take_likelihoods,
    winogender_path,
)
from pytest_genderbias.suites.family import Competence, Context, Family
from pytest_genderbias.suites.options import Option, one_of
from pytest_genderbias.suites.statistic import FamilyStatistic
from pytest_genderbias.suites.summary import Summary, SummaryBuilder
from pytest_genderbias.text.schema import LocatedMap

_OVER = "occupations"
_FEW = "the occupations that vary are too few among those scored"
_CHANCE = 0.5


class WinogenderChatOptions(TypedDict):
    """The values of the options."""

    likelihood: str
    floor: float


class WinogenderChat(Family[None, WinogenderChatOptions]):
    """How often a chat model picks the occupation for the pronoun, from two persons and neither, by occupation and
    gender of the pronoun.

    With the option ``likelihood=probability``, how likely it does: the probability of that option divided by that of
    all three.
    """

    name: ClassVar[str] = "winogender-chat"
    definition: ClassVar[str] = "winogender-chat/1"
    needs: ClassVar[str] = NEEDS
    null_control: ClassVar[str] = NULL_CONTROL
    roles: ClassVar[tuple[str, ...]] = CHAT_ROLES
    keys: ClassVar[tuple[str, ...]] = ()
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        **needing_the_task(LINES),
        "accuracy": ACCURACY,
        "mass": mass_statistic("asked_about", _OVER, "all options"),
    }
    options: ClassVar[Mapping[str, Option]] = {
        "likelihood": one_of(
            "picked",
            "probability",
            meaning=(
                "likelihood that the pronoun means the occupation: 1 where it is picked, or its probability divided by"
                " that of all options"
            ),
        ),
        **FLOOR,
    }

    def read(self, data: LocatedMap, beside: Path) -> None:
        """Read nothing: the file has a head only."""

    def competence(self, summary: Summary) -> Competence | None:
        """Return the share of sentences that the model gets right."""
        n = int(summary.items["sentences"].sum())
        return competence_of(summary, "accuracy", self.statistics["accuracy"], _CHANCE, "sentences with she or he", n)

    def content(self, body: None) -> object:
        """Return nothing: the data have their own digest."""
        return []

    def questions(self, body: None, options: WinogenderChatOptions, context: Context) -> dict[str, Question]:
        """Ask about every sentence in six orders; a unit is a sentence."""
        return {"cases": Question(_cases(read_winogender(winogender_path(context))), QUERY)}

    def summarise(
        self, body: None, options: WinogenderChatOptions, answers: Mapping[str, Answer], seed: int
    ) -> Summary:
        """Correlate the likelihood by occupation with the share of women; intervals over occupations."""
        answer = answers["cases"]
        facts, picked = sentence_facts(answer), picked_persons(answer)
        figures = SummaryBuilder(self.statistics)
        records, found = take_likelihoods(figures, facts, *_judged(facts, picked, options["likelihood"]))
        miss_unresolved(figures, facts, linked_persons(picked) >= 0)
        reason = _reason(facts, picked, options["floor"])
        items = with_reason({**found, "asked_about": facts["occupation"], "mass": picked.mass}, reason)
        take_task(figures, self.statistics, ("mass",), options, items, _FEW)
        if reason:
            figures.miss(reason, *LINES)
        labels, index = np.unique(facts["occupation"], return_inverse=True)
        examples = examples_of(
            labels.tolist(),
            index,
            answer.units,
            lambda unit: " ".join(answer.cases.texts[unit * ORDERS][0].split()),
            {"occupation": picked.probabilities[:, 0], "participant": picked.probabilities[:, 1]},
        )
        notes = [neither_note(picked), f"likelihood: {options['likelihood']}"]
        return figures.summary([] if reason else records, items, notes, examples=examples)

    def shuffle(
        self, body: None, options: WinogenderChatOptions, answers: Mapping[str, Answer], seed: int, repeats: int
    ) -> dict[str, FloatArray] | None:
        """Return r, slope and the gap of accuracies after she and he were exchanged, where both were scored in a
        template.
        """
        facts, picked = sentence_facts(answers["cases"]), picked_persons(answers["cases"])
        refuse_unable(with_reason({}, _reason(facts, picked, options["floor"])))
        return shuffled_likelihoods(facts, *_judged(facts, picked, options["likelihood"]), seed, repeats)


def _judged(facts: Facts, picked: Picked, likelihood: str) -> tuple[FloatArray, FloatArray]:
    """Return for each sentence the likelihood of the occupation, and whether the answer is right (1 or 0)."""
    linked = linked_persons(picked)
    right = (linked == facts["gold"]).astype(np.float64)
    if likelihood == "picked":
        return (linked == 0).astype(np.float64), right
    return picked.probabilities[:, 0] / np.maximum(picked.mass, np.finfo(np.float64).tiny), right


def _reason(facts: Facts, picked: Picked, floor: float) -> str:
    """Return why no bias has a value: too little mass, or too few right answers in the sentences with she and he."""
    labels, index = np.unique(facts["occupation"], return_inverse=True)
    compared = np.isin(facts["gender"], ("female", "male"))
    _, right = _judged(facts, picked, "picked")
    hits, n = (
        np.bincount(index, compared * column, len(labels)).astype(np.float64) for column in (right, np.ones(len(right)))
    )
    return cannot_do(picked.mass, floor, hits, n, _CHANCE, _OVER, "the sentences with she and he")


def _cases(sentences: tuple[WinogenderSentence, ...]) -> TextCases:
    facts = {
        "id": np.asarray([s.id for s in sentences]),
        "gold": np.asarray([s.answer for s in sentences]),
        "gender": np.asarray([s.gender for s in sentences]),
        "occupation": np.asarray([s.names[0] for s in sentences]),
        "women_share": np.asarray([s.women_share for s in sentences]),
    }
    return ordered_cases(
        (question_orders(s.text, s.pronoun, (s.occupation, s.participant)) for s in sentences), facts, 1
    )
