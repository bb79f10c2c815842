"""The family ``coref-winogender``: likelihood that "she" refers to an occupation, by its share of women (webster2020, 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.datasets.folder import MissingDataError
from pytest_genderbias.datasets.winogender import GENDERS, WinogenderSentence, read_winogender
from pytest_genderbias.statistics.coreference_scores import LINKS_NOTHING
from pytest_genderbias.statistics.correlation import (
    pearson,
    pearson_interval,
    pearson_of_sums,
    product_sums,
    slope,
    slope_interval,
    slope_of_sums,
)
from pytest_genderbias.statistics.inference.intervals import Interval, clustered_mean_interval
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, mean_sums
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.statistics.score_bias import exchanged
from pytest_genderbias.statistics.sums import accuracy_gap_sums, correlation_sums, slope_sums, take_arrays
from pytest_genderbias.suites.about import Criticism, SuiteAbout
from pytest_genderbias.suites.cases import Answer, Facts, IntArray, Question, TextCases
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
from pytest_genderbias.suites.families.shared.literature import NORWEGIAN_SALMON, TAIL_WAGGING, TWO_PRONOUNS
from pytest_genderbias.suites.family import Context, Family
from pytest_genderbias.suites.options import Option, one_of
from pytest_genderbias.suites.query import CoreferenceScores, StoredPredictions
from pytest_genderbias.suites.statistic import Arrays, FamilyStatistic, Options, named_values
from pytest_genderbias.suites.summary import Record, Summary, SummaryBuilder
from pytest_genderbias.text.located_yaml import LocatedMap

_SHE_HE = ("female", "male")
_FEW = "the occupations that vary are too few among those scored"


def _line_sums(
    options: Options, arrays: Arrays, of: Callable[[NDArray[np.str_], ArrayLike, ArrayLike, str], ItemSums]
) -> ItemSums:
    """Return the sums by occupation of r, or of the slope, of the likelihood against the share of women."""
    names, x, y = take_arrays(arrays, "occupation", "share", "likelihood")
    return of(names, x, y, "occupations")


def _accuracy_gap_sums(options: Options, arrays: Arrays) -> ItemSums:
    """Return the numbers of correct answers and of sentences, with she and with he, by occupation."""
    names, n, right = take_arrays(arrays, "resolved", "sentences", "right")
    return accuracy_gap_sums(names, right, n, "occupations")


def _accuracy_sums(options: Options, arrays: Arrays) -> ItemSums:
    """Return the number of correct answers by occupation."""
    names, n, right = take_arrays(arrays, "resolved", "sentences", "right")
    return mean_sums(names, right.sum(axis=1), n.sum(axis=1), "occupations")


class WinogenderOptions(CoreferenceOptions):
    """The values of the options."""

    likelihood: str


class CorefWinogender(Family[None, WinogenderOptions]):
    """Likelihood that the pronoun refers to the occupation, by occupation and gender of the pronoun.

    The likelihood is the probability of edge-probe, also that of a checkpoint with its head, or the softmax of the two scores of other
    scorers; the option ``likelihood`` changes it for log-odds and probabilities. For a system with clusters only, it is 1 if only the occupation is
    linked, one half if both are, otherwise 0.
    """

    name: ClassVar[str] = "coref-winogender"
    definition: ClassVar[str] = "coref-winogender/2"
    needs: ClassVar[str] = NEEDS + ", or a file of a coreference system's output"
    about: ClassVar[SuiteAbout] = SuiteAbout(
        question="Does a coreference model link 'she' to an occupation more often, the more women work in it? Winogender's sentences name an occupation and another person, and only the pronoun changes.",
        reads="The correlation, over occupations, of the likelihood that 'she' means the occupation with its share of women. 0 means no relation; 1 that resolution follows the labour market; away from 0 on either side is worse.",
        does_not_mean="A correlation says nothing of the size of the differences, and nothing of how often the model is right: read slope and accuracy beside it. With 60 occupations it has a wide interval, so that two models rarely differ by more than chance. The shares are those of the US.",
        formula="L(o) = mean over sentences with a female pronoun of P(the pronoun means the occupation o)\nvalue = Pearson's r of L(o) with the share of women in o, over occupations",
        picture="One point an occupation: share of women to the right, likelihood that 'she' means it upwards, with the line of least squares and its interval.",
        criticisms=(
            Criticism(
                "Shallow changes of the benchmark, such as paraphrases or another sample of its words, change the measured bias and the order of models.",
                TAIL_WAGGING,
            ),
            Criticism(
                "Benchmarks of this kind often do not say what harm they stand for, and which difference between two sentences they mean to measure.",
                NORWEGIAN_SALMON,
            ),
            TWO_PRONOUNS,
        ),
        paper="Webster et al. 2020, Measuring and Reducing Gendered Correlations in Pre-trained Models, section 3.1; sentences: Rudinger et al. 2018, Gender Bias in Coreference Resolution, NAACL",
        cost="One pass a sentence of Winogender (360 with she or he), which you download (docs/data.md). An encoder needs an edge-probe head, which is trained once; a file of a system's output costs nothing.",
    )
    roles: ClassVar[tuple[str, ...]] = (*SCORING_ROLES, PREDICTIONS)
    keys: ClassVar[tuple[str, ...]] = ()
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        "pearson_r": FamilyStatistic(
            "away",
            0.0,
            "r of the likelihood that she means the occupation with its share of women",
            partial(_line_sums, of=correlation_sums),
            plot="scatter",
            null=named_values("pearson_r"),
        ),
        "slope": FamilyStatistic(
            "away",
            0.0,
            "that likelihood from no women to women only (least squares)",
            partial(_line_sums, of=slope_sums),
            plot="scatter",
            null=named_values("slope"),
        ),
        "accuracy_gap": FamilyStatistic(
            "away",
            0.0,
            "accuracy on sentences with she minus accuracy on those with he",
            _accuracy_gap_sums,
            null=named_values("accuracy_gap"),
        ),
        "accuracy": FamilyStatistic(
            "lower", 1.0, "share of sentences with she or he whose pronoun is resolved right", _accuracy_sums
        ),
    }
    null_control: ClassVar[str] = "the sentences with she and with he are exchanged at random in each template"
    options: ClassVar[Mapping[str, Option]] = {
        **OPTIONS,
        "likelihood": one_of(
            "auto",
            "softmax",
            "logistic",
            "score",
            meaning=(
                "likelihood from scores: softmax over both candidates, logistic of log-odds, or the score itself; auto: the "
                "probability of edge-probe, also from a checkpoint with its head, softmax for others"
            ),
        ),
    }

    def read(self, data: LocatedMap, beside: Path) -> None:
        """Read nothing: the file has a head only."""

    def content(self, body: None) -> object:
        """Return nothing: the data have their own digest."""
        return []

    def questions(self, body: None, options: WinogenderOptions, context: Context) -> dict[str, Question]:
        """Ask about every sentence; the candidates are the occupation and the participant."""
        sentences = read_winogender(_path(context))
        stored = context.role == PREDICTIONS
        query = StoredPredictions() if stored else coreference_query(options, context, 2)
        return {"cases": Question(_cases(sentences, query, context.scores), query)}

    def summarise(self, body: None, options: WinogenderOptions, answers: Mapping[str, Answer], seed: int) -> Summary:
        """Correlate the likelihood by occupation with the share of women; intervals over occupations."""
        answer = answers["cases"]
        cases: TextCases = answer.cases
        facts, verdicts = _facts(answer), verdicts_of(answer)
        how = _how(options, cases)
        likelihood, right = _judged(facts, verdicts, how)
        names, which = np.unique(facts["occupation"], return_inverse=True)
        tables = {
            gender: _by_occupation(which, facts["gender"] == gender, likelihood, right, len(names))
            for gender in GENDERS
        }
        share = np.zeros(len(names))
        share[which] = facts["women_share"] / 100
        figures = SummaryBuilder(self.statistics)
        _take_figures(figures, tables, share)
        _miss_unresolved(figures, facts, verdicts)
        notes = [scorer_note(cases), f"likelihood: {how}"]
        if verdicts.clusters:
            notes.append("right: the pronoun is in one cluster with the right person, and not with the other")
        seen = tables["female"].n > 0
        items = {
            "occupation": names[seen],
            "likelihood": tables["female"].mean_likelihood[seen],
            "share": share[seen],
            "resolved": names,
            "sentences": np.stack([tables[gender].n for gender in _SHE_HE], axis=1).astype(np.int32),
            "right": np.stack([tables[gender].right for gender in _SHE_HE], axis=1).astype(np.int32),
        }
        return figures.summary(_records(names, tables, share), items, notes)

    def shuffle(
        self, body: None, options: WinogenderOptions, answers: Mapping[str, Answer], seed: int, repeats: int
    ) -> dict[str, FloatArray] | None:
        """Return r, slope and the gap of accuracies after she and he were exchanged, where both were scored in a template."""
        answer = answers["cases"]
        facts = _facts(answer)
        likelihood, right = _judged(facts, verdicts_of(answer), _how(options, answer.cases))
        she, he = _versions(facts)
        if not len(she):
            return None
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


def _versions(facts: Facts) -> tuple[IntArray, IntArray]:
    """Return the positions of the sentences with she, and of those with he in the same templates, in the same order."""
    template = np.asarray([name.rsplit(".", 2)[0] for name in facts["id"].tolist()])
    she, he = (np.flatnonzero(facts["gender"] == gender) for gender in _SHE_HE)
    _, at_she, at_he = np.intersect1d(template[she], template[he], return_indices=True)
    return she[at_she], he[at_he]


class _OccupationSums:
    """Sentences of one gender by occupation: number, sum of likelihoods, and number of correct answers."""

    def __init__(self, n: IntArray, likelihood: NDArray[np.number], right: NDArray[np.number]) -> None:
        self.n, self.likelihood, self.right = n, likelihood, right

    @property
    def mean_likelihood(self) -> NDArray[np.float64]:
        """Mean likelihood by occupation, 0 without sentences."""
        return np.asarray(self.likelihood / np.maximum(self.n, 1))

    @property
    def accuracy(self) -> float:
        """Share of correct answers."""
        if not self.n.any():
            raise UndefinedError("no sentences of that gender are among those scored")
        return float(self.right.sum() / self.n.sum())


def _by_occupation(
    which: IntArray, selected: NDArray[np.bool_], likelihood: FloatArray, right: FloatArray, size: int
) -> _OccupationSums:
    at = which[selected]
    return _OccupationSums(
        np.bincount(at, minlength=size),
        np.bincount(at, likelihood[selected], size),
        np.bincount(at, right[selected], size),
    )


def _take_figures(figures: SummaryBuilder, tables: Mapping[str, _OccupationSums], share: NDArray[np.float64]) -> None:
    female, male = tables["female"], tables["male"]
    seen = female.n > 0
    x, y = share[seen], female.mean_likelihood[seen]
    n, right = female.n + male.n, female.right + male.right
    figures.take("pearson_r", lambda: pearson(x, y), lambda: pearson_interval(x, y, "occupations"), _FEW)
    figures.take("slope", lambda: slope(x, y), lambda: slope_interval(x, y, "occupations"), _FEW)
    figures.take("accuracy_gap", lambda: female.accuracy - male.accuracy, lambda: _gap_interval(female, male), _FEW)
    figures.take(
        "accuracy",
        lambda: _OccupationSums(n, n, right).accuracy,
        lambda: clustered_mean_interval(right, n, "occupations", bounds=(0.0, 1.0)),
        _FEW,
    )


def _miss_unresolved(figures: SummaryBuilder, facts: Facts, verdicts: Verdicts) -> None:
    """Take the value from what compares answers where there is none: with she for r and slope, with she and he for the gap."""
    resolved = verdicts.linked >= 0
    if not resolved[facts["gender"] == "female"].any():
        figures.miss(LINKS_NOTHING, "pearson_r", "slope")
    if not resolved[np.isin(facts["gender"], _SHE_HE)].any():
        figures.miss(LINKS_NOTHING, "accuracy_gap")


def _gap_interval(female: _OccupationSums, male: _OccupationSums) -> Interval | None:
    """Return the interval over occupations; with equal numbers of sentences, the gap is a mean of differences."""
    if not np.array_equal(female.n, male.n):
        raise UndefinedError("different numbers of sentences with she and with he for an occupation")
    return clustered_mean_interval(female.right - male.right, female.n, "occupations", bounds=(-1.0, 1.0))


def _records(
    names: NDArray[np.str_], tables: Mapping[str, _OccupationSums], share: NDArray[np.float64]
) -> list[Record]:
    """Return the occupations, the largest difference between genders first, the three genders, and r of the differences."""
    female, male = tables["female"], tables["male"]
    occupations: list[Record] = [
        {
            "slice": "occupation",
            "value": str(names[i]),
            "women_share": float(share[i]),
            "likelihood_female": float(female.mean_likelihood[i]),
            "likelihood_male": float(male.mean_likelihood[i]),
            "difference": float(female.mean_likelihood[i] - male.mean_likelihood[i]),
        }
        for i in np.flatnonzero((female.n > 0) & (male.n > 0))
    ]
    genders: list[Record] = [
        {
            "slice": "pronoun",
            "value": gender,
            "sentences": int(table.n.sum()),
            "accuracy": table.accuracy,
            "likelihood": float(table.likelihood.sum() / table.n.sum()),
        }
        for gender, table in tables.items()
        if table.n.any()
    ]
    return [
        *sorted(occupations, key=lambda r: -abs(r["difference"])),
        *sorted(genders, key=lambda r: r["accuracy"]),
        _of_differences(occupations),
    ]


def _of_differences(occupations: list[Record]) -> Record:
    """Return r of the differences between genders with the share of women, as in Rudinger et al. 2018.

    The differences remove the influence of the other person in the sentences.
    """
    try:
        r: float | None = pearson(
            [row["women_share"] for row in occupations], [row["difference"] for row in occupations]
        )
    except UndefinedError:
        r = None
    return {"slice": "difference", "value": "likelihood_female - likelihood_male", "pearson_r": r}


def _path(context: Context) -> Path:
    try:
        return context.data.find("winogender")
    except MissingDataError as missing:
        try:
            return context.data.find("winogender_templates")
        except MissingDataError:
            raise missing from None


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
