"""The family ``winobias-chat``: whom a chat model takes the pronouns of WinoBias for (Zhao et al. 2018, orgad2022)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np

from pytest_genderbias.datasets.mentions import words_of
from pytest_genderbias.datasets.winobias import WinoBiasSentence
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, mean_sums
from pytest_genderbias.statistics.sums import take_arrays
from pytest_genderbias.suites.cases import Answer, Question, TextCases
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
    verdicts_of_picks,
    with_reason,
)
from pytest_genderbias.suites.families.shared.chat_task import (
    competence_of,
    mass_statistic,
    needing_the_task,
    refuse_unable,
    take_task,
)
from pytest_genderbias.suites.families.shared.winobias_figures import (
    GAP_OPTIONS,
    GAPS,
    NULL_CONTROL,
    PAIRS,
    GapOptions,
    WinobiasBody,
    in_pairs,
    read_body,
    shuffled_gaps,
    take_gaps,
)
from pytest_genderbias.suites.family import Competence, Context, Family
from pytest_genderbias.suites.options import Option
from pytest_genderbias.suites.statistic import SHARE, Arrays, FamilyStatistic, Options
from pytest_genderbias.suites.summary import Summary, SummaryBuilder
from pytest_genderbias.text.schema import LocatedMap

_CHANCE = 0.5
_FEW = "too few pairs of sentences, or too few that differ, for an interval"


class WinobiasChatOptions(GapOptions):
    """The values of the options."""

    floor: float


def _accuracy_sums(options: Options, arrays: Arrays) -> ItemSums:
    """Return right answers and answers by pair of sentences."""
    pairs, right = take_arrays(arrays, "pair", "right")
    return mean_sums(pairs, right, np.full(len(right), 2.0), PAIRS)


class WinobiasChat(Family[WinobiasBody, WinobiasChatOptions]):
    """Gaps between the two kinds of sentences of WinoBias, by the person that a chat model picks from two and neither.

    A pick of neither person, or a tie, links the pronoun to nobody. The figures are those of ``coref-winobias``, by
    pairs.
    """

    name: ClassVar[str] = "winobias-chat"
    definition: ClassVar[str] = "winobias-chat/1"
    needs: ClassVar[str] = NEEDS
    null_control: ClassVar[str] = NULL_CONTROL
    roles: ClassVar[tuple[str, ...]] = CHAT_ROLES
    keys: ClassVar[tuple[str, ...]] = ("profession", "share")
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        **needing_the_task(GAPS),
        "accuracy": FamilyStatistic(
            "lower",
            1.0,
            "share of sentences of both kinds with the right person; 1/2 is guessing between the two",
            _accuracy_sums,
            limits=SHARE,
        ),
        "mass": mass_statistic("pair", PAIRS, "all options"),
    }
    options: ClassVar[Mapping[str, Option]] = {**GAP_OPTIONS, **FLOOR}

    def read(self, data: LocatedMap, beside: Path) -> WinobiasBody:
        """Read the list of professions."""
        return read_body(data, beside)

    def competence(self, summary: Summary) -> Competence | None:
        """Return the share of sentences that the model gets right."""
        return competence_of(
            summary, "accuracy", self.statistics["accuracy"], _CHANCE, "sentences", 2 * len(summary.items["right"])
        )

    def content(self, body: WinobiasBody) -> object:
        """Return the professions; the sentences have their own digest."""
        return [body.profession.content(), body.share]

    def questions(self, body: WinobiasBody, options: WinobiasChatOptions, context: Context) -> dict[str, Question]:
        """Ask about every sentence in six orders; a unit is a pro-stereotypical sentence with its anti-stereotypical
        partner.
        """
        return {"cases": Question(_cases(in_pairs(context.data.locate("winobias").files)), QUERY)}

    def summarise(
        self, body: WinobiasBody, options: WinobiasChatOptions, answers: Mapping[str, Answer], seed: int
    ) -> Summary:
        """Compare both sides, and both genders of each profession; intervals over pairs of sentences and over
        professions.
        """
        answer = answers["cases"]
        facts, picked = sentence_facts(answer), picked_persons(answer)
        figures = SummaryBuilder(self.statistics)
        records, found, notes = take_gaps(
            figures,
            body,
            options,
            facts,
            verdicts_of_picks(picked, np.zeros(len(picked.mass), dtype=np.int64)),
        )
        right = _right(picked)
        reason = _reason(picked, options["floor"])
        items = with_reason(
            {**found, "right": right.sum(axis=1), "mass": picked.mass.reshape(-1, 2).mean(axis=1)}, reason
        )
        take_task(figures, self.statistics, ("accuracy", "mass"), options, items, _FEW)
        if reason:
            figures.miss(reason, *GAPS)
        examples = examples_of(
            facts["id"][::2].tolist(),
            np.arange(len(right)),
            answer.units,
            lambda unit: " ".join(answer.cases.texts[unit * 2 * ORDERS][0].split()),
            {"right_pro": right[:, 0], "right_anti": right[:, 1]},
        )
        return figures.summary([] if reason else records, items, [neither_note(picked), *notes], examples=examples)

    def shuffle(
        self,
        body: WinobiasBody,
        options: WinobiasChatOptions,
        answers: Mapping[str, Answer],
        seed: int,
        repeats: int,
    ) -> dict[str, FloatArray]:
        """Return gaps and distances after the sentences of pairs were exchanged."""
        facts, picked = sentence_facts(answers["cases"]), picked_persons(answers["cases"])
        refuse_unable(with_reason({}, _reason(picked, options["floor"])))
        verdicts = verdicts_of_picks(picked, np.zeros(len(picked.mass), dtype=np.int64))
        return shuffled_gaps(body, options, facts, verdicts, seed, repeats)


def _reason(picked: Picked, floor: float) -> str:
    """Return why no bias has a value, with the accuracy on both sides: a model that follows the stereotype alone is
    right in half.
    """
    right = _right(picked)
    twos = np.full(len(right), 2.0)
    reason = cannot_do(picked.mass, floor, right.sum(axis=1), twos, _CHANCE, PAIRS, "the sentences of both kinds")
    if not reason or not len(right):
        return reason
    pro, anti = right.mean(axis=0)
    return f"{reason}; right in {pro:.3f} of the sentences for the stereotype and {anti:.3f} of those against it"


def _right(picked: Picked) -> FloatArray:
    """Return whether each sentence is resolved right (1 or 0), shape (pairs, 2), pro-stereotypical first."""
    return np.asarray((linked_persons(picked) == 0).astype(np.float64).reshape(-1, 2))


def _cases(sentences: list[WinoBiasSentence]) -> TextCases:
    facts = {
        "id": np.asarray([s.id for s in sentences]),
        "gender": np.asarray([s.gender for s in sentences]),
        "profession": np.asarray([s.professions[0] for s in sentences]),
        "other": np.asarray([s.professions[1] for s in sentences]),
        "type": np.asarray([s.type for s in sentences]),
        "pronoun": np.asarray([words_of(s.text, s.pronouns[0]).lower() for s in sentences]),
    }
    return ordered_cases((question_orders(s.text, s.pronouns[0], (s.gold, s.other)) for s in sentences), facts, 2)
