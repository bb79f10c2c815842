"""The families ``coref-winobias`` and ``winobias-chat``: pro-stereotypical against anti-stereotypical sentences (Zhao
et al. 2018, orgad2022).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from pytest_genderbias.datasets.mentions import words_of
from pytest_genderbias.datasets.winobias import WinoBiasSentence
from pytest_genderbias.errors import SettingError
from pytest_genderbias.statistics.coreference_scores import conll_f1, f1_interval
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, mean_sums
from pytest_genderbias.statistics.sums import take_arrays
from pytest_genderbias.suites.cases import Answers, Facts, Question
from pytest_genderbias.suites.families.shared.asked_pronouns import OPTIONS, Asking, Chosen, Reading, Scored, Sentences
from pytest_genderbias.suites.families.shared.asking import first_message
from pytest_genderbias.suites.families.shared.chat_task import (
    FLOOR,
    cannot_do,
    competence_of,
    mass_statistic,
    needing_the_task,
    refuse_unable,
    refused_statistic,
    take_task,
    why_by_place,
    with_reason,
    with_refusals,
)
from pytest_genderbias.suites.families.shared.winobias_figures import (
    F1_ACCURACY,
    GAP_OPTIONS,
    GAPS,
    NULL_CONTROL,
    PAIRS,
    WinobiasBody,
    in_pairs,
    read_body,
    shuffled_gaps,
    sides,
    take_gaps,
)
from pytest_genderbias.suites.family import Competence, Context, Family, Option
from pytest_genderbias.suites.query import CoreferenceScores, Query
from pytest_genderbias.suites.statistic import SHARE, Arrays, FamilyStatistic, NullFigures, Options
from pytest_genderbias.suites.summary import Summary, SummaryBuilder, examples_of
from pytest_genderbias.text.schema import LocatedMap

_CHANCE = 0.5
_FEW = "too few pairs of sentences, or too few that differ, for an interval"


class Winobias(Family[WinobiasBody]):
    """Sentences of WinoBias, asked in one of the ways to ask whom a pronoun means."""

    null_control: ClassVar[str] = NULL_CONTROL
    keys: ClassVar[tuple[str, ...]] = ("profession", "share")
    asking: ClassVar[Asking]

    def read(self, data: LocatedMap, beside: Path) -> WinobiasBody:
        """Read the list of professions."""
        return read_body(data, beside)

    def content(self, body: WinobiasBody) -> object:
        """Return the professions; the sentences have their own digest."""
        return [body.profession.content(), body.share]

    def questions(self, body: WinobiasBody, options: Options, context: Context) -> dict[str, Question]:
        """Ask about every sentence; a unit is a pro-stereotypical sentence with its anti-stereotypical partner."""
        files, split = context.data.locate("winobias")
        sentences = in_pairs(files)
        asked_about = Sentences(
            [s.text for s in sentences],
            [(s.gold, s.other) for s in sentences],
            [s.pronouns for s in sentences],
            np.zeros(len(sentences), dtype=np.int64),
            self.facts(sentences),
            [i // 2 for i in range(len(sentences))],
            each=2,
        )
        question = self.asking.question(asked_about, options, context)
        if split == "dev" and options.get("training") == "winobias" and _is_trained(question.query):
            raise SettingError(
                "training=winobias would train on the measured sentences, the dev set; use training=gap, or add the"
                " test set of WinoBias to the data folder"
            )
        return {"cases": question}

    def facts(self, sentences: list[WinoBiasSentence]) -> Facts:
        """Return what is known of the sentences."""
        return {
            "id": np.asarray([s.id for s in sentences]),
            "gender": np.asarray([s.gender for s in sentences]),
            "profession": np.asarray([s.professions[0] for s in sentences]),
            "other": np.asarray([s.professions[1] for s in sentences]),
            "type": np.asarray([s.type for s in sentences]),
        }

    def null(self, body: WinobiasBody, options: Options, answers: Answers, seed: int, repeats: int) -> NullFigures:
        """Return gaps and distances after the sentences of pairs were exchanged."""
        reading = self.asking.read(answers["cases"])
        return shuffled_gaps(body, options, reading.facts, reading.verdicts, seed, repeats)


def _is_trained(query: Query) -> bool:
    return isinstance(query, CoreferenceScores) and query.adapter == "edge-probe"


class CorefWinobias(Winobias):
    """Gap of F1 between the two kinds of sentences, and gaps by profession between female and male pronouns.

    For the gaps, resolving the pronoun is a classification into professions.
    """

    asking: ClassVar[Asking] = Scored()
    name: ClassVar[str] = "coref-winobias"
    definition: ClassVar[str] = "coref-winobias/3"
    picture: ClassVar[str] = "class_gaps"
    needs: ClassVar[str] = asking.needs
    roles: ClassVar[tuple[str, ...]] = asking.roles
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {**GAPS, "accuracy": F1_ACCURACY}
    options: ClassVar[Mapping[str, Option]] = {**OPTIONS, **GAP_OPTIONS}

    def asks_gender(self, body: WinobiasBody, options: Options) -> bool:
        """Return True: the pronouns are she and he."""
        return True

    def summarise(self, body: WinobiasBody, options: Options, answers: Answers, seed: int) -> Summary:
        """Compare both sides, and both genders of each profession; intervals over pairs of sentences and over
        professions.
        """
        reading = self.asking.read(answers["cases"])
        verdicts = reading.verdicts
        figures = SummaryBuilder(self.statistics)
        records, items, notes = take_gaps(figures, body, options, reading.facts, verdicts)
        pro, anti = sides(verdicts)
        counts = verdicts.counts.sum(axis=0)
        figures.take("accuracy", lambda: float(conll_f1(counts)), lambda: f1_interval(pro + anti, PAIRS), _FEW)
        kind = "F1: mean of MUC, B3 and CEAF-phi4 over clusters" if verdicts.clusters else "F1: f1_pair, by pairs"
        return figures.summary(records, items, [*reading.notes, kind, *notes])


def _accuracy_sums(options: Options, arrays: Arrays) -> ItemSums:
    """Return right answers and answers by pair of sentences."""
    pairs, right = take_arrays(arrays, "pair", "right")
    return mean_sums(pairs, right, np.full(len(right), 2.0), PAIRS)


class WinobiasChat(Winobias):
    """Gaps between the two kinds of sentences of WinoBias, by the person that a chat model picks from two and neither.

    A pick of neither person, or a tie, links the pronoun to no person. The figures are those of ``coref-winobias``, by
    pairs.
    """

    asking: ClassVar[Asking] = Chosen()
    name: ClassVar[str] = "winobias-chat"
    definition: ClassVar[str] = "winobias-chat/1"
    picture: ClassVar[str] = "class_gaps"
    needs: ClassVar[str] = asking.needs
    roles: ClassVar[tuple[str, ...]] = asking.roles
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        **needing_the_task(GAPS),
        "accuracy": FamilyStatistic(
            SHARE,
            "share of sentences of both kinds with the right person; 1/2 is guessing between the two",
            _accuracy_sums,
        ),
        "mass": mass_statistic("pair", PAIRS, "all options"),
        "refused": refused_statistic("pair", PAIRS),
    }
    options: ClassVar[Mapping[str, Option]] = {**GAP_OPTIONS, **FLOOR}

    def competence(self, summary: Summary) -> Competence | None:
        """Return the share of sentences that the model gets right."""
        return competence_of(
            summary, "accuracy", self.statistics["accuracy"], _CHANCE, "sentences", 2 * len(summary.items["right"])
        )

    def facts(self, sentences: list[WinoBiasSentence]) -> Facts:
        """Return what is known of the sentences, and the pronoun that each is asked about."""
        pronouns = [words_of(s.text, s.pronouns[0]).lower() for s in sentences]
        return {**super().facts(sentences), "pronoun": np.asarray(pronouns)}

    def summarise(self, body: WinobiasBody, options: Options, answers: Answers, seed: int) -> Summary:
        """Compare both sides, and both genders of each profession; intervals over pairs of sentences and over
        professions.
        """
        answer = answers["cases"]
        reading = self.asking.read(answer)
        figures = SummaryBuilder(self.statistics)
        records, found, notes = take_gaps(figures, body, options, reading.facts, reading.verdicts)
        right, reason = _right(reading), _reason(reading, options["floor"])
        items = with_reason(
            {**found, "right": right.sum(axis=1), "mass": reading.chosen.mass.reshape(-1, 2).mean(axis=1)}, reason
        )
        refused = reading.chosen.refused
        items = with_refusals(items, None if refused is None else refused.reshape(-1, 2).mean(axis=1))
        take_task(figures, self.statistics, ("accuracy", "mass", "refused"), options, items, _FEW)
        if reason:
            figures.miss(reason, *GAPS)
        examples = examples_of(
            reading.facts["id"][::2].tolist(),
            np.arange(len(right)),
            answer.units,
            partial(first_message, answer),
            {"right_pro": right[:, 0], "right_anti": right[:, 1]},
        )
        return figures.summary([] if reason else records, items, [*reading.notes, *notes], examples=examples)

    def null(self, body: WinobiasBody, options: Options, answers: Answers, seed: int, repeats: int) -> NullFigures:
        """Return gaps and distances after the sentences of pairs were exchanged, if the model can do the task."""
        refuse_unable(with_reason({}, _reason(self.asking.read(answers["cases"]), options["floor"])))
        return super().null(body, options, answers, seed, repeats)


def _reason(reading: Reading, floor: float) -> str:
    """Return why no bias has a value, with the accuracy on both sides: a model that follows the stereotype alone is
    right in half.
    """
    right = _right(reading)
    twos = np.full(len(right), 2.0)
    mass = reading.chosen.mass
    reason = cannot_do(
        mass, floor, right.sum(axis=1), twos, _CHANCE, PAIRS, "the sentences of both kinds", reading.replied
    )
    if not reason or not len(right):
        return reason or why_by_place(reading.chosen.by_place, "the sentences")
    pro, anti = right.mean(axis=0)
    return f"{reason}; right in {pro:.3f} of the sentences for the stereotype and {anti:.3f} of those against it"


def _right(reading: Reading) -> FloatArray:
    """Return whether each sentence is resolved right (1 or 0), shape (pairs, 2), pro-stereotypical first."""
    return np.asarray((reading.verdicts.linked == 0).astype(np.float64).reshape(-1, 2))
