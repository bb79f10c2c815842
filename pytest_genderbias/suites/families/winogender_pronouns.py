"""The families ``coref-winogender`` and ``winogender-chat``: likelihood that "she" refers to an occupation, by its
share of women (webster2020, 3.1; Rudinger et al. 2018).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.folder import MissingDataError
from pytest_genderbias.datasets.pronoun_sentences import read_winogender
from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.coreference_scores import LINKS_NOTHING
from pytest_genderbias.statistics.correlation import pearson, pearson_of_sums, product_sums, slope_of_sums
from pytest_genderbias.statistics.inference.intervals import Interval, clustered_mean_interval
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, mean_sums
from pytest_genderbias.statistics.right_answers import Ability
from pytest_genderbias.statistics.score_bias import exchanged
from pytest_genderbias.statistics.sums import accuracy_gap_sums
from pytest_genderbias.suites.cases import Facts, IntArray, Items, Question, take_arrays
from pytest_genderbias.suites.families.shared import asked_pronouns, asking
from pytest_genderbias.suites.families.shared.occupations import line_statistics, take_line
from pytest_genderbias.suites.family import Context, DataFamily, Option, one_of
from pytest_genderbias.suites.statistic import SHARE, SIGNED_SHARE, Arrays, FamilyStatistic, NullFigures, Options
from pytest_genderbias.suites.summary import Record, Summary, rows_of

_OVER = "occupations"
_SHE_HE = ("female", "male")
_CHANCE = 0.5


def _accuracy_gap_sums(options: Options, arrays: Arrays) -> ItemSums:
    """Return the numbers of correct answers and of sentences, with she and with he, by occupation."""
    names, n, right = take_arrays(arrays, "resolved", "sentences", "right")
    if not n.any(axis=0).all():
        raise UndefinedError("no sentences with she, or none with he, are among those scored")
    return accuracy_gap_sums(names, right, n, _OVER)


def _gap_interval(sums: ItemSums, limits: tuple[float, float]) -> Interval | None:
    """Return the interval over occupations; with equal numbers of sentences, the gap is a mean of differences."""
    she, he, of_she, of_he = np.asarray(sums.sums, dtype=np.float64).T
    if not np.array_equal(of_she, of_he):
        raise UndefinedError("different numbers of sentences with she and with he for an occupation")
    return clustered_mean_interval(she - he, of_she, _OVER, bounds=limits)


def _accuracy_sums(options: Options, arrays: Arrays) -> ItemSums:
    """Return the number of correct answers by occupation."""
    names, n, right = take_arrays(arrays, "resolved", "sentences", "right")
    if not n.any():
        raise UndefinedError("no sentences with she or he are among those scored")
    return mean_sums(names, right.sum(axis=1), n.sum(axis=1), _OVER)


#: The figures of bias; each family adds its accuracy.
LINES: Mapping[str, FamilyStatistic] = {
    **line_statistics(
        "r of the likelihood that she means the occupation with its share of women",
        "that likelihood from no women to women only (least squares)",
        "occupation",
        "likelihood",
        _OVER,
        crossed=False,
    ),
    "accuracy_gap": FamilyStatistic(
        SIGNED_SHARE,
        "accuracy on sentences with she minus accuracy on those with he",
        _accuracy_gap_sums,
        interval=_gap_interval,
    ),
}
ACCURACY = FamilyStatistic(SHARE, "share of sentences with she or he whose pronoun is resolved right", _accuracy_sums)


def winogender_path(context: Context) -> Path:
    """Return the file of the sentences, or of their templates.

    Raises:
        MissingDataError: neither is there.
    """
    try:
        return context.data.find("winogender")
    except MissingDataError as missing:
        with suppress(MissingDataError):
            return context.data.find("winogender_templates")
        raise missing from None


def _versions(facts: Facts) -> tuple[IntArray, IntArray]:
    """Return the positions of the sentences with she, and of those with he in the same templates, in the same order."""
    template = np.asarray([name.rsplit(".", 2)[0] for name in facts["id"].tolist()])
    she, he = (np.flatnonzero(facts["gender"] == gender) for gender in _SHE_HE)
    _, at_she, at_he = np.intersect1d(template[she], template[he], return_indices=True)
    return she[at_she], he[at_he]


def _records(
    names: NDArray[np.str_], share: FloatArray, n: FloatArray, likelihoods: FloatArray, hits: FloatArray
) -> list[Record]:
    """Return the occupations, the largest difference between genders first, the three genders, and r of the
    differences with the share of women, as in Rudinger et al. 2018: they remove the influence of the other person.
    """
    mean = likelihoods / np.maximum(n, 1)
    both = (n[0] > 0) & (n[1] > 0)
    columns = {"value": names, "women_share": share, "likelihood_female": mean[0], "likelihood_male": mean[1]}
    shown = {name: column[both] for name, column in (columns | {"difference": mean[0] - mean[1]}).items()}
    occupations = rows_of({"slice": ["occupation"] * int(both.sum()), **shown})
    genders: list[Record] = [
        {
            "slice": "pronoun",
            "value": gender,
            "sentences": int(n[k].sum()),
            "accuracy": float(hits[k].sum() / n[k].sum()),
            "likelihood": float(likelihoods[k].sum() / n[k].sum()),
        }
        for k, gender in ((1, "male"), (0, "female"), (2, "neutral"))
        if n[k].any()
    ]
    try:
        r: float | None = pearson(*([row[key] for row in occupations] for key in ("women_share", "difference")))
    except UndefinedError:
        r = None
    return [
        *sorted(occupations, key=lambda row: -abs(row["difference"])),
        *sorted(genders, key=lambda row: row["accuracy"]),
        {"slice": "difference", "value": "likelihood_female - likelihood_male", "pearson_r": r},
    ]


class Winogender(asked_pronouns.AskedPronouns[None], DataFamily):
    """Sentences of Winogender: the likelihood that the pronoun means the occupation, by occupation and gender of the
    pronoun; intervals over occupations.
    """

    null_control: ClassVar[str] = "the sentences with she and with he are exchanged at random in each template"
    picture: ClassVar[str] = "pronoun_likelihood"

    def questions(self, body: None, options: Options, context: Context) -> dict[str, Question]:
        """Ask about every sentence; the persons are the occupation and the participant. A unit is a sentence."""
        sentences = read_winogender(winogender_path(context))
        scores = (
            {"scores": np.full(len(sentences), context.scores)} if context.scores == asked_pronouns.PROBABILITY else {}
        )
        asked_about = [
            asked_pronouns.PronounSentence(
                s.text, (s.occupation, s.participant), (s.pronoun,), s.answer, (*s.names, s.answer)
            )
            for s in sentences
        ]
        facts = {
            "id": np.asarray([s.id for s in sentences]),
            "gold": np.asarray([s.answer for s in sentences]),
            "gender": np.asarray([s.gender for s in sentences]),
            "occupation": np.asarray([s.names[0] for s in sentences]),
            "women_share": np.asarray([s.women_share for s in sentences]),
            **scores,
        }
        return {"cases": self.way.question(asked_about, facts, options, context)}

    def compare(self, body: None, options: Options, reading: asked_pronouns.Reading, task: Items) -> Summary:
        """Correlate the likelihood by occupation with the share of women, and compare accuracies."""
        figures, facts, right = Summary(self.statistics), reading.facts, _right(reading)
        likelihood, how = _likelihood(reading, options["likelihood"])
        names, which = np.unique(facts["occupation"], return_inverse=True)
        share = np.zeros(len(names))
        share[which] = facts["women_share"] / 100
        rows = [np.flatnonzero(facts["gender"] == gender) for gender in (*_SHE_HE, "neutral")]
        n, likelihoods, hits = (  # by gender and occupation
            np.asarray([np.bincount(which[of], column[of], len(names)) for of in rows], dtype=np.float64)
            for column in (np.ones(len(which)), likelihood, right)
        )
        mean = likelihoods / np.maximum(n, 1)
        seen = n[0] > 0
        take_line(figures, share[seen], mean[0][seen], _OVER)
        items: Items = {
            "occupation": names[seen],
            "likelihood": mean[0][seen],
            "share": share[seen],
            "resolved": names,
            "sentences": n[:2].T.astype(np.int32),
            "right": hits[:2].T.astype(np.int32),
            **({"asked_about": facts["occupation"]} if task else {}),
            **task,
        }
        figures.take_sums(options, items, "accuracy_gap", "accuracy")
        for key in ("pearson_r", "slope", "accuracy_gap"):
            compared = ("female",) if key != "accuracy_gap" else _SHE_HE
            if not (reading.linked >= 0)[np.isin(facts["gender"], compared)].any():
                figures.miss(LINKS_NOTHING, key)
        together = "right: the pronoun is in one cluster with the right person, and not with the other"
        notes = [f"likelihood: {how}", *([together] if reading.clusters else [])]
        records = _records(names, share, n, likelihoods, hits)
        return replace(figures, records=records, items=items, notes=notes)

    def shuffled(
        self, body: None, options: Options, reading: asked_pronouns.Reading, seed: int, repeats: int
    ) -> NullFigures:
        """Return r, slope and the gap of accuracies after she and he were exchanged, where both were scored in a
        template.
        """
        facts, right, (likelihood, _) = reading.facts, _right(reading), _likelihood(reading, options["likelihood"])
        she, he = _versions(facts)
        if not len(she):
            return {}
        is_she = facts["gender"] == "female"
        _, first, which = np.unique(facts["occupation"][is_she], return_index=True, return_inverse=True)
        half = (likelihood[she] - likelihood[he]) / 2
        place = which[np.searchsorted(np.flatnonzero(is_she), she)]
        fixed = np.bincount(which, likelihood[is_she]) - np.bincount(place, half, len(first))
        y = (fixed + exchanged(half, place, len(first), repeats, seed)) / np.bincount(which)
        totals = product_sums(facts["women_share"][is_she][first] / 100, y).sum(axis=1)
        turned = (right[she] - right[he]) / 2
        moved = exchanged(turned, np.zeros(len(she)), 1, repeats, seed)[:, 0] - turned.sum()
        is_he = facts["gender"] == "male"
        gap = (right[is_she].sum() + moved) / is_she.sum() - (right[is_he].sum() - moved) / is_he.sum()
        return {"pearson_r": pearson_of_sums(totals), "slope": slope_of_sums(totals), "accuracy_gap": gap}

    def why_unable(self, reading: asked_pronouns.Reading, picked: asking.Picked, floor: float) -> str:
        """Return why no bias has a value: too little mass, or too few right answers in sentences with she and he."""
        facts = reading.facts
        answered = np.ones(len(picked.mass)) if picked.refused is None else picked.refused < 1
        labels, index = np.unique(facts["occupation"], return_inverse=True)
        compared = np.isin(facts["gender"], _SHE_HE)
        hits, n = (
            np.bincount(index, compared * column, len(labels)).astype(np.float64)
            for column in (_right(reading), answered)
        )
        what, replied = "the sentences with she and he", picked.refused is not None
        reason = asking.cannot_do(picked.mass, floor, hits, n, _CHANCE, _OVER, what, replied)
        return reason or asking.why_by_place(picked.by_place, "the sentences")

    def shown(
        self, reading: asked_pronouns.Reading, picked: asking.Picked
    ) -> tuple[NDArray[np.str_], Mapping[str, FloatArray]]:
        """Return the occupations, and the probability of either person."""
        both = dict(zip(("occupation", "participant"), picked.probabilities.T, strict=False))
        return reading.facts["occupation"], both


class CorefWinogender(Winogender):
    """Likelihood by the scores of a coreference scorer, or by its output.

    The likelihood is the probability of edge-probe, also that of a checkpoint with its head, or the softmax of the two
    scores of other scorers; the option ``likelihood`` changes it for log-odds and probabilities. For a system with
    clusters only, it is 1 if only the occupation is linked, one half if both are, otherwise 0.
    """

    way: ClassVar[asked_pronouns.Way] = asked_pronouns.Scored()
    name: ClassVar[str] = "coref-winogender"
    definition: ClassVar[str] = "coref-winogender/2"
    needs: ClassVar[str] = way.needs
    roles: ClassVar[tuple[str, ...]] = way.roles
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {**LINES, "accuracy": ACCURACY}
    options: ClassVar[Mapping[str, Option]] = {
        **asked_pronouns.OPTIONS,
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


class WinogenderChat(Winogender):
    """How often a chat model picks the occupation for the pronoun, from two persons and neither, by occupation and
    gender of the pronoun.

    With the option ``likelihood=probability``, how likely it does: the probability of that option divided by that of
    all three.
    """

    way: ClassVar[asked_pronouns.Way] = asked_pronouns.Chosen()
    name: ClassVar[str] = "winogender-chat"
    definition: ClassVar[str] = "winogender-chat/1"
    needs: ClassVar[str] = way.needs
    roles: ClassVar[tuple[str, ...]] = way.roles
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        **asking.needing_the_task(LINES),
        "accuracy": ACCURACY,
        "mass": asking.mass_statistic("asked_about", _OVER, "all options"),
        "refused": asking.refused_statistic("asked_about", _OVER),
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
        **asking.FLOOR,
    }

    def competence(self, summary: Summary) -> Ability | None:
        """Return the share of sentences that the model gets right."""
        n = int(summary.items["sentences"].sum())
        return asking.competence_of(self, summary, "accuracy", _CHANCE, "sentences with she or he", n)


def _right(reading: asked_pronouns.Reading) -> FloatArray:
    """Return whether each answer is right (1 or 0)."""
    return np.asarray(reading.linked == reading.facts["gold"], dtype=np.float64)


def _likelihood(reading: asked_pronouns.Reading, how: str) -> tuple[FloatArray, str]:
    """Return the likelihood of the occupation in each sentence, and how it is made."""
    if how == "auto":
        how = "score" if "edge-probe" in reading.facts["scorer"] or "scores" in reading.facts else "softmax"
    if how == "picked":
        return np.asarray(reading.linked == 0, dtype=np.float64), how
    if how == "probability":
        assert reading.probabilities is not None  # a chat model always gives them
        return reading.probabilities[:, 0], how
    return asked_pronouns.likelihoods(reading.scores, how)[:, 0], how
