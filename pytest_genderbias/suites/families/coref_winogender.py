"""The family ``coref-winogender``: likelihood that "she" refers to an occupation, by its share of women (webster2020,
3.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np

from pytest_genderbias.datasets.winogender import WinogenderSentence, read_winogender
from pytest_genderbias.statistics.inference.item_sums import FloatArray
from pytest_genderbias.suites.cases import Answer, Facts, Question, TextCases
from pytest_genderbias.suites.families.shared.coreference_verdicts import (
    NEEDS,
    OPTIONS,
    PREDICTIONS,
    PROBABILITY,
    SCORING_ROLES,
    CoreferenceOptions,
    Verdicts,
    coreference_query,
    genitive_fact,
    likelihoods,
    scorer_facts,
    scorer_note,
    verdicts_of,
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
from pytest_genderbias.suites.family import Context, Family
from pytest_genderbias.suites.options import Option, one_of
from pytest_genderbias.suites.query import CoreferenceScores, StoredPredictions
from pytest_genderbias.suites.statistic import FamilyStatistic
from pytest_genderbias.suites.summary import Summary, SummaryBuilder
from pytest_genderbias.text.schema import LocatedMap


class WinogenderOptions(CoreferenceOptions):
    """The values of the options."""

    likelihood: str


class CorefWinogender(Family[None, WinogenderOptions]):
    """Likelihood that the pronoun refers to the occupation, by occupation and gender of the pronoun.

    The likelihood is the probability of edge-probe, also that of a checkpoint with its head, or the softmax of the two
    scores of other scorers; the option ``likelihood`` changes it for log-odds and probabilities. For a system with
    clusters only, it is 1 if only the occupation is linked, one half if both are, otherwise 0.
    """

    name: ClassVar[str] = "coref-winogender"
    definition: ClassVar[str] = "coref-winogender/2"
    needs: ClassVar[str] = NEEDS + ", or a file of a coreference system's output"
    roles: ClassVar[tuple[str, ...]] = (*SCORING_ROLES, PREDICTIONS)
    keys: ClassVar[tuple[str, ...]] = ()
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {**LINES, "accuracy": ACCURACY}
    null_control: ClassVar[str] = NULL_CONTROL
    options: ClassVar[Mapping[str, Option]] = {
        **OPTIONS,
        "likelihood": one_of(
            "auto",
            "softmax",
            "logistic",
            "score",
            meaning=(
                "likelihood from scores: softmax over both candidates, logistic of log-odds, or the score itself; auto:"
                " the probability of edge-probe, also from a checkpoint with its head, softmax for others"
            ),
        ),
    }

    def read(self, data: LocatedMap, beside: Path) -> None:
        """Read nothing: the file has a head only."""

    def asks_gender(self, body: None, options: WinogenderOptions) -> bool:
        """Return True: the pronouns are she and he."""
        return True

    def content(self, body: None) -> object:
        """Return nothing: the data have their own digest."""
        return []

    def questions(self, body: None, options: WinogenderOptions, context: Context) -> dict[str, Question]:
        """Ask about every sentence; the candidates are the occupation and the participant."""
        sentences = read_winogender(winogender_path(context))
        stored = context.role == PREDICTIONS
        query = StoredPredictions() if stored else coreference_query(options, context, 2)
        return {"cases": Question(_cases(sentences, query, context.scores), query)}

    def summarise(self, body: None, options: WinogenderOptions, answers: Mapping[str, Answer], seed: int) -> Summary:
        """Correlate the likelihood by occupation with the share of women; intervals over occupations."""
        answer = answers["cases"]
        cases: TextCases = answer.cases
        facts, verdicts = _facts(answer), verdicts_of(answer)
        how = _how(options, cases)
        figures = SummaryBuilder(self.statistics)
        records, items = take_likelihoods(figures, facts, *_judged(facts, verdicts, how))
        miss_unresolved(figures, facts, verdicts.linked >= 0)
        notes = [scorer_note(cases), f"likelihood: {how}"]
        if verdicts.clusters:
            notes.append("right: the pronoun is in one cluster with the right person, and not with the other")
        return figures.summary(records, items, notes)

    def shuffle(
        self, body: None, options: WinogenderOptions, answers: Mapping[str, Answer], seed: int, repeats: int
    ) -> dict[str, FloatArray] | None:
        """Return r, slope and the gap of accuracies after she and he were exchanged, where both were scored in a
        template.
        """
        answer = answers["cases"]
        facts = _facts(answer)
        judged = _judged(facts, verdicts_of(answer), _how(options, answer.cases))
        return shuffled_likelihoods(facts, *judged, seed, repeats)


def _facts(answer: Answer) -> Facts:
    """Return the facts of the scored sentences."""
    numbers = answer.cases.cases_of(answer.units)
    return {name: np.asarray(column)[numbers] for name, column in answer.cases.facts.items()}


def _how(options: WinogenderOptions, cases: TextCases) -> str:
    """Return the conversion of scores to likelihoods."""
    auto = "score" if cases.facts["scorer"][0] == "edge-probe" or "scores" in cases.facts else "softmax"
    return auto if options["likelihood"] == "auto" else str(options["likelihood"])


def _judged(facts: Facts, verdicts: Verdicts, how: str) -> tuple[FloatArray, FloatArray]:
    """Return for each sentence the likelihood of the occupation, and whether the answer is correct (1 or 0)."""
    return likelihoods(verdicts.scores, how)[:, 0], (verdicts.linked == facts["gold"]).astype(np.float64)


def _cases(
    sentences: tuple[WinogenderSentence, ...], query: CoreferenceScores | StoredPredictions, scores: str
) -> TextCases:
    """Return the sentences with their facts. ``scores``: of the model, a fact where they are probabilities."""
    probabilities = {"scores": np.full(len(sentences), scores)} if scores == PROBABILITY else {}
    return TextCases(
        [(s.text,) for s in sentences],
        [(s.occupation, s.participant, s.pronoun) for s in sentences],
        {
            "id": np.asarray([s.id for s in sentences]),
            "gold": np.asarray([s.answer for s in sentences]),
            "pronouns": np.fromiter([(s.pronoun,) for s in sentences], dtype=object, count=len(sentences)),
            "gender": np.asarray([s.gender for s in sentences]),
            "occupation": np.asarray([s.names[0] for s in sentences]),
            "women_share": np.asarray([s.women_share for s in sentences]),
            "genitive": genitive_fact(
                [s.text for s in sentences], [s.pronoun for s in sentences], [(*s.names, s.answer) for s in sentences]
            ),
            **scorer_facts(query, len(sentences)),
            **probabilities,
        },
    )
