"""Shared by the suites of Winogender: the figures that follow from how likely each pronoun means the occupation, and
which answers are right.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.folder import MissingDataError
from pytest_genderbias.datasets.winogender import GENDERS
from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.coreference_scores import LINKS_NOTHING
from pytest_genderbias.statistics.correlation import pearson, pearson_of_sums, product_sums, slope_of_sums
from pytest_genderbias.statistics.inference.intervals import Interval, clustered_mean_interval
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, mean_sums
from pytest_genderbias.statistics.score_bias import exchanged
from pytest_genderbias.statistics.sums import accuracy_gap_sums, take_arrays
from pytest_genderbias.suites.cases import Facts, IntArray
from pytest_genderbias.suites.families.shared.occupations import line_statistics, take_line
from pytest_genderbias.suites.family import Context
from pytest_genderbias.suites.statistic import SHARE, SIGNED_SHARE, Arrays, FamilyStatistic, NullFigures, Options
from pytest_genderbias.suites.summary import Record, SummaryBuilder

_SHE_HE = ("female", "male")
_FEW = "the occupations that vary are too few among those scored"


def _accuracy_gap_sums(options: Options, arrays: Arrays) -> ItemSums:
    """Return the numbers of correct answers and of sentences, with she and with he, by occupation."""
    names, n, right = take_arrays(arrays, "resolved", "sentences", "right")
    return accuracy_gap_sums(names, right, n, "occupations")


def _accuracy_sums(options: Options, arrays: Arrays) -> ItemSums:
    """Return the number of correct answers by occupation."""
    names, n, right = take_arrays(arrays, "resolved", "sentences", "right")
    return mean_sums(names, right.sum(axis=1), n.sum(axis=1), "occupations")


#: The figures of bias; each family adds its accuracy.
LINES: Mapping[str, FamilyStatistic] = {
    **line_statistics(
        "r of the likelihood that she means the occupation with its share of women",
        "that likelihood from no women to women only (least squares)",
        "occupation",
        "likelihood",
        "occupations",
        crossed=False,
    ),
    "accuracy_gap": FamilyStatistic(
        SIGNED_SHARE, "accuracy on sentences with she minus accuracy on those with he", _accuracy_gap_sums
    ),
}
ACCURACY = FamilyStatistic(SHARE, "share of sentences with she or he whose pronoun is resolved right", _accuracy_sums)
NULL_CONTROL = "the sentences with she and with he are exchanged at random in each template"


def take_likelihoods(
    figures: SummaryBuilder, facts: Facts, likelihood: FloatArray, right: FloatArray
) -> tuple[list[Record], dict[str, NDArray[np.generic]]]:
    """Add the correlation of the likelihood by occupation with the share of women, and accuracies, and return records
    and items.

    Args:
        figures: takes them.
        facts: ``occupation``, ``women_share`` (in percent) and ``gender`` of each sentence.
        likelihood: that the pronoun means the occupation, 0 to 1, shape (n,).
        right: 1 for a right answer, otherwise 0, shape (n,).
    """
    names, which = np.unique(facts["occupation"], return_inverse=True)
    tables = {
        gender: _by_occupation(which, facts["gender"] == gender, likelihood, right, len(names)) for gender in GENDERS
    }
    share = np.zeros(len(names))
    share[which] = facts["women_share"] / 100
    _take_figures(figures, tables, share)
    seen = tables["female"].n > 0
    items: dict[str, NDArray[np.generic]] = {
        "occupation": names[seen],
        "likelihood": tables["female"].mean_likelihood[seen],
        "share": share[seen],
        "resolved": names,
        "sentences": np.stack([tables[gender].n for gender in _SHE_HE], axis=1).astype(np.int32),
        "right": np.stack([tables[gender].right for gender in _SHE_HE], axis=1).astype(np.int32),
    }
    return _records(names, tables, share), items


def shuffled_likelihoods(
    facts: Facts, likelihood: FloatArray, right: FloatArray, seed: int, repeats: int
) -> NullFigures:
    """Return r, slope and the gap of accuracies after she and he were exchanged, where both were scored in a template.

    Arguments as of :func:`take_likelihoods`, and the ``id`` of each sentence among the facts.
    """
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


def winogender_path(context: Context) -> Path:
    """Return the file of the sentences, or of their templates.

    Raises:
        MissingDataError: neither is there.
    """
    try:
        return context.data.find("winogender")
    except MissingDataError as missing:
        try:
            return context.data.find("winogender_templates")
        except MissingDataError:
            raise missing from None


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
    take_line(figures, x, y, "occupations", _FEW)
    figures.take("accuracy_gap", lambda: female.accuracy - male.accuracy, lambda: _gap_interval(female, male), _FEW)
    figures.take(
        "accuracy",
        lambda: _OccupationSums(n, n, right).accuracy,
        lambda: clustered_mean_interval(right, n, "occupations", bounds=(0.0, 1.0)),
        _FEW,
    )


def miss_unresolved(figures: SummaryBuilder, facts: Facts, resolved: NDArray[np.bool_]) -> None:
    """Take the value from what compares answers where there is none: with she for r and slope, with she and he for the
    gap.
    """
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
    """Return the occupations, the largest difference between genders first, the three genders, and r of the
    differences.
    """
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
