"""The families ``coref-winogender`` and ``winogender-chat``: likelihood that "she" refers to an occupation, by its
share of women (webster2020, 3.1; Rudinger et al. 2018).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import numpy as np

from pytest_genderbias.datasets.winogender import read_winogender
from pytest_genderbias.suites.cases import Answers, Facts, Question
from pytest_genderbias.suites.families.shared.asked_pronouns import (
    OPTIONS,
    PROBABILITY,
    Asking,
    Chosen,
    Reading,
    Scored,
    Sentences,
    likelihoods,
)
from pytest_genderbias.suites.families.shared.asking import among_options, first_message
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
from pytest_genderbias.suites.families.shared.winogender_figures import (
    ACCURACY,
    LINES,
    NULL_CONTROL,
    miss_unresolved,
    shuffled_likelihoods,
    take_likelihoods,
    winogender_path,
)
from pytest_genderbias.suites.family import Competence, Context, DataFamily, Option, one_of
from pytest_genderbias.suites.statistic import FamilyStatistic, FloatArray, NullFigures, Options
from pytest_genderbias.suites.summary import Summary, SummaryBuilder, examples_of

_OVER = "occupations"
_FEW = "the occupations that vary are too few among those scored"
_CHANCE = 0.5


class Winogender(DataFamily):
    """Sentences of Winogender, asked in one of the ways to ask whom a pronoun means."""

    null_control: ClassVar[str] = NULL_CONTROL
    asking: ClassVar[Asking]

    def questions(self, body: None, options: Options, context: Context) -> dict[str, Question]:
        """Ask about every sentence; the persons are the occupation and the participant. A unit is a sentence."""
        sentences = read_winogender(winogender_path(context))
        gold = np.asarray([s.answer for s in sentences])
        scores = {"scores": np.full(len(sentences), context.scores)} if context.scores == PROBABILITY else {}
        asked_about = Sentences(
            [s.text for s in sentences],
            [(s.occupation, s.participant) for s in sentences],
            [(s.pronoun,) for s in sentences],
            gold,
            {
                "id": np.asarray([s.id for s in sentences]),
                "gold": gold,
                "gender": np.asarray([s.gender for s in sentences]),
                "occupation": np.asarray([s.names[0] for s in sentences]),
                "women_share": np.asarray([s.women_share for s in sentences]),
                **scores,
            },
            [(*s.names, s.answer) for s in sentences],
        )
        return {"cases": self.asking.question(asked_about, options, context)}


class CorefWinogender(Winogender):
    """Likelihood that the pronoun refers to the occupation, by occupation and gender of the pronoun.

    The likelihood is the probability of edge-probe, also that of a checkpoint with its head, or the softmax of the two
    scores of other scorers; the option ``likelihood`` changes it for log-odds and probabilities. For a system with
    clusters only, it is 1 if only the occupation is linked, one half if both are, otherwise 0.
    """

    asking: ClassVar[Asking] = Scored()
    name: ClassVar[str] = "coref-winogender"
    definition: ClassVar[str] = "coref-winogender/2"
    picture: ClassVar[str] = "pronoun_likelihood"
    needs: ClassVar[str] = asking.needs
    roles: ClassVar[tuple[str, ...]] = asking.roles
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {**LINES, "accuracy": ACCURACY}
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

    def asks_gender(self, body: None, options: Options) -> bool:
        """Return True: the pronouns are she and he."""
        return True

    def summarise(self, body: None, options: Options, answers: Answers, seed: int) -> Summary:
        """Correlate the likelihood by occupation with the share of women; intervals over occupations."""
        reading = self.asking.read(answers["cases"])
        how = _how(options, reading.facts)
        figures = SummaryBuilder(self.statistics)
        records, items = take_likelihoods(figures, reading.facts, *_scored(reading, how))
        miss_unresolved(figures, reading.facts, reading.verdicts.linked >= 0)
        notes = [*reading.notes, f"likelihood: {how}"]
        if reading.verdicts.clusters:
            notes.append("right: the pronoun is in one cluster with the right person, and not with the other")
        return figures.summary(records, items, notes)

    def null(self, body: None, options: Options, answers: Answers, seed: int, repeats: int) -> NullFigures:
        """Return r, slope and the gap of accuracies after she and he were exchanged, where both were scored in a
        template.
        """
        reading = self.asking.read(answers["cases"])
        judged = _scored(reading, _how(options, reading.facts))
        return shuffled_likelihoods(reading.facts, *judged, seed, repeats)


def _how(options: Options, facts: Facts) -> str:
    """Return the conversion of scores to likelihoods."""
    auto = "score" if "edge-probe" in facts["scorer"] or "scores" in facts else "softmax"
    return auto if options["likelihood"] == "auto" else options["likelihood"]


def _scored(reading: Reading, how: str) -> tuple[FloatArray, FloatArray]:
    """Return for each sentence the likelihood of the occupation, and whether the answer is right (1 or 0)."""
    return likelihoods(reading.verdicts.scores, how)[:, 0], _right(reading)


def _right(reading: Reading) -> FloatArray:
    return np.asarray(reading.verdicts.linked == reading.facts["gold"], dtype=np.float64)


class WinogenderChat(Winogender):
    """How often a chat model picks the occupation for the pronoun, from two persons and neither, by occupation and
    gender of the pronoun.

    With the option ``likelihood=probability``, how likely it does: the probability of that option divided by that of
    all three.
    """

    asking: ClassVar[Asking] = Chosen()
    name: ClassVar[str] = "winogender-chat"
    definition: ClassVar[str] = "winogender-chat/1"
    picture: ClassVar[str] = "pronoun_likelihood"
    needs: ClassVar[str] = asking.needs
    roles: ClassVar[tuple[str, ...]] = asking.roles
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        **needing_the_task(LINES),
        "accuracy": ACCURACY,
        "mass": mass_statistic("asked_about", _OVER, "all options"),
        "refused": refused_statistic("asked_about", _OVER),
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

    def competence(self, summary: Summary) -> Competence | None:
        """Return the share of sentences that the model gets right."""
        n = int(summary.items["sentences"].sum())
        return competence_of(summary, "accuracy", self.statistics["accuracy"], _CHANCE, "sentences with she or he", n)

    def summarise(self, body: None, options: Options, answers: Answers, seed: int) -> Summary:
        """Correlate the likelihood by occupation with the share of women; intervals over occupations."""
        answer = answers["cases"]
        reading = self.asking.read(answer)
        facts, picked = reading.facts, reading.chosen
        figures = SummaryBuilder(self.statistics)
        records, found = take_likelihoods(figures, facts, *_chosen(reading, options["likelihood"]))
        miss_unresolved(figures, facts, reading.verdicts.linked >= 0)
        reason = _reason(reading, options["floor"])
        items = with_reason({**found, "asked_about": facts["occupation"], "mass": picked.mass}, reason)
        items = with_refusals(items, picked.refused)
        take_task(figures, self.statistics, ("mass", "refused"), options, items, _FEW)
        if reason:
            figures.miss(reason, *LINES)
        labels, index = np.unique(facts["occupation"], return_inverse=True)
        examples = examples_of(
            labels.tolist(),
            index,
            answer.units,
            partial(first_message, answer),
            {"occupation": picked.probabilities[:, 0], "participant": picked.probabilities[:, 1]},
        )
        notes = [*reading.notes, f"likelihood: {options['likelihood']}"]
        return figures.summary([] if reason else records, items, notes, examples=examples)

    def null(self, body: None, options: Options, answers: Answers, seed: int, repeats: int) -> NullFigures:
        """Return r, slope and the gap of accuracies after she and he were exchanged, where both were scored in a
        template.
        """
        reading = self.asking.read(answers["cases"])
        refuse_unable(with_reason({}, _reason(reading, options["floor"])))
        return shuffled_likelihoods(reading.facts, *_chosen(reading, options["likelihood"]), seed, repeats)


def _chosen(reading: Reading, likelihood: str) -> tuple[FloatArray, FloatArray]:
    """Return for each sentence the likelihood of the occupation, and whether the answer is right (1 or 0)."""
    if likelihood == "picked":
        return (reading.verdicts.linked == 0).astype(np.float64), _right(reading)
    return among_options(reading.chosen)[:, 0], _right(reading)


def _reason(reading: Reading, floor: float) -> str:
    """Return why no bias has a value: too little mass, or too few right answers in the sentences with she and he."""
    labels, index = np.unique(reading.facts["occupation"], return_inverse=True)
    compared = np.isin(reading.facts["gender"], ("female", "male"))
    hits, n = (
        np.bincount(index, compared * column, len(labels)).astype(np.float64)
        for column in (_right(reading), reading.answered)
    )
    what = "the sentences with she and he"
    reason = cannot_do(reading.chosen.mass, floor, hits, n, _CHANCE, _OVER, what, reading.replied)
    return reason or why_by_place(reading.chosen.by_place, "the sentences")
