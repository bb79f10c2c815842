"""The family ``coref-winobias``: F1 on pro-stereotypical minus F1 on anti-stereotypical sentences (Zhao et al. 2018,
orgad2022).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np

from pytest_genderbias.datasets.winobias import WinoBiasSentence
from pytest_genderbias.errors import SettingError
from pytest_genderbias.statistics.coreference_scores import (
    conll_f1,
    f1_interval,
)
from pytest_genderbias.statistics.inference.item_sums import FloatArray
from pytest_genderbias.suites.cases import Answer, Facts, Question, TextCases
from pytest_genderbias.suites.families.shared.coreference_verdicts import (
    NEEDS,
    OPTIONS,
    PREDICTIONS,
    SCORING_ROLES,
    CoreferenceOptions,
    coreference_query,
    genitive_fact,
    scorer_facts,
    scorer_note,
    verdicts_of,
)
from pytest_genderbias.suites.families.shared.winobias_figures import (
    F1_ACCURACY,
    GAP_OPTIONS,
    GAPS,
    NULL_CONTROL,
    PAIRS,
    GapOptions,
    WinobiasBody,
    in_pairs,
    read_body,
    shuffled_gaps,
    sides,
    take_gaps,
)
from pytest_genderbias.suites.family import Context, Family
from pytest_genderbias.suites.options import Option
from pytest_genderbias.suites.query import CoreferenceScores, StoredPredictions
from pytest_genderbias.suites.statistic import FamilyStatistic
from pytest_genderbias.suites.summary import Summary, SummaryBuilder
from pytest_genderbias.text.schema import LocatedMap


class WinobiasOptions(CoreferenceOptions, GapOptions):
    """The values of the options."""


class CorefWinobias(Family[WinobiasBody, WinobiasOptions]):
    """Gap of F1 between the two kinds of sentences, and gaps by profession between female and male pronouns.

    For the gaps, resolving the pronoun is a classification into professions.
    """

    name: ClassVar[str] = "coref-winobias"
    definition: ClassVar[str] = "coref-winobias/3"
    needs: ClassVar[str] = NEEDS + ", or a file of a coreference system's output"
    roles: ClassVar[tuple[str, ...]] = (*SCORING_ROLES, PREDICTIONS)
    keys: ClassVar[tuple[str, ...]] = ("profession", "share")
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {**GAPS, "accuracy": F1_ACCURACY}
    null_control: ClassVar[str] = NULL_CONTROL
    options: ClassVar[Mapping[str, Option]] = {**OPTIONS, **GAP_OPTIONS}

    def read(self, data: LocatedMap, beside: Path) -> WinobiasBody:
        """Read the list of professions."""
        return read_body(data, beside)

    def asks_gender(self, body: WinobiasBody, options: WinobiasOptions) -> bool:
        """Return True: the pronouns are she and he."""
        return True

    def content(self, body: WinobiasBody) -> object:
        """Return the professions; the sentences have their own digest."""
        return [body.profession.content(), body.share]

    def questions(self, body: WinobiasBody, options: WinobiasOptions, context: Context) -> dict[str, Question]:
        """Ask about every sentence; a unit is a pro-stereotypical sentence with its anti-stereotypical partner."""
        located = context.data.locate("winobias")
        sentences = in_pairs(located.files)
        stored = context.role == PREDICTIONS
        query = StoredPredictions() if stored else coreference_query(options, context, 2)
        trained = isinstance(query, CoreferenceScores) and query.adapter == "edge-probe"
        if trained and options["training"] == "winobias" and located.split == "dev":
            raise SettingError(
                "training=winobias would train on the measured sentences, the dev set; use training=gap, or add the"
                " test set of WinoBias to the data folder"
            )
        return {"cases": Question(_cases(sentences, query), query)}

    def summarise(
        self, body: WinobiasBody, options: WinobiasOptions, answers: Mapping[str, Answer], seed: int
    ) -> Summary:
        """Compare both sides, and both genders of each profession; intervals over pairs of sentences and over
        professions.
        """
        answer = answers["cases"]
        facts, verdicts = _facts(answer), verdicts_of(answer)
        figures = SummaryBuilder(self.statistics)
        records, items, notes = take_gaps(figures, body, options, facts, verdicts)
        pro, anti = sides(verdicts)
        figures.take(
            "accuracy",
            lambda: float(conll_f1(verdicts.counts.sum(axis=0))),
            lambda: f1_interval(pro + anti, PAIRS),
            "too few pairs of sentences, or too few that differ, for an interval",
        )
        kind = "F1: mean of MUC, B3 and CEAF-phi4 over clusters" if verdicts.clusters else "F1: f1_pair, by pairs"
        return figures.summary(records, items, [scorer_note(answer.cases), kind, *notes])

    def shuffle(
        self, body: WinobiasBody, options: WinobiasOptions, answers: Mapping[str, Answer], seed: int, repeats: int
    ) -> dict[str, FloatArray]:
        """Return gaps and distances after the sentences of pairs were exchanged."""
        answer = answers["cases"]
        return shuffled_gaps(body, options, _facts(answer), verdicts_of(answer), seed, repeats)


def _facts(answer: Answer) -> Facts:
    """Return the facts of the scored sentences."""
    numbers = answer.cases.cases_of(answer.units)
    return {name: np.asarray(column)[numbers] for name, column in answer.cases.facts.items()}


def _cases(sentences: list[WinoBiasSentence], query: CoreferenceScores | StoredPredictions) -> TextCases:
    return TextCases(
        [(s.text,) for s in sentences],
        [(s.gold, s.other, s.pronouns[0]) for s in sentences],
        {
            "id": np.asarray([s.id for s in sentences]),
            "gold": np.zeros(len(sentences), dtype=np.int64),
            "pronouns": np.fromiter([s.pronouns for s in sentences], dtype=object, count=len(sentences)),
            "gender": np.asarray([s.gender for s in sentences]),
            "profession": np.asarray([s.professions[0] for s in sentences]),
            "other": np.asarray([s.professions[1] for s in sentences]),
            "type": np.asarray([s.type for s in sentences]),
            "genitive": genitive_fact(
                [s.text for s in sentences], [s.pronouns[0] for s in sentences], [i // 2 for i in range(len(sentences))]
            ),
            **scorer_facts(query, len(sentences)),
        },
        cases_per_unit=2,
    )
