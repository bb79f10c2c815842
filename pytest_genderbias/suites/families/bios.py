"""The family ``bios``: rates of a classifier for women and men, by class (orgad2022, section 3; webster2020, section
3.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics import block_tables, distances, group_gaps
from pytest_genderbias.statistics.block_tables import BlockTables, GapFigure
from pytest_genderbias.statistics.correlation import pearson, pearson_interval, slope, slope_interval
from pytest_genderbias.statistics.count_sums import accuracy_sums, distance_sums, gap_sums, probability_distance_sums
from pytest_genderbias.statistics.gap_rms import gap_interval, gap_rms, gaps_and_variances
from pytest_genderbias.statistics.group_gaps import Rate
from pytest_genderbias.statistics.inference.intervals import clustered_mean_interval
from pytest_genderbias.statistics.inference.item_sums import ItemSums
from pytest_genderbias.statistics.right_answers import TASK, Ability, mean_recall
from pytest_genderbias.suites.cases import Answer, Answers, IntArray, Items, Question, take_arrays
from pytest_genderbias.suites.families.shared import group_distances
from pytest_genderbias.suites.families.shared.persons import (
    BIOGRAPHIES,
    COLUMNS,
    LIST,
    Groups,
    Persons,
    compared_groups,
    digests,
    labelled_cases,
    scored_persons,
    some_of,
    stored_persons,
)
from pytest_genderbias.suites.family import Context, DataFamily, Option, flag, one_of, table, text
from pytest_genderbias.suites.query import ClassProbabilities, StoredPredictions
from pytest_genderbias.suites.statistic import (
    EXCESS_SHARE,
    SHARE,
    SIGNED,
    SIGNED_SHARE,
    SIZE,
    Arrays,
    FamilyStatistic,
    FloatArray,
    MakeSums,
    NullFigures,
    Options,
)
from pytest_genderbias.suites.summary import Record, Summary
from pytest_genderbias.text.schema import Rule

_RATES: Mapping[str, Rate] = {"tpr": "true_positive", "fpr": "false_positive", "precision": "precision"}
_GAP_FIGURES: tuple[GapFigure, ...] = ("rms", "pearson", "slope", "sum")
_MOST_COUNTS = 20_000_000  #: The largest number of counts in all shuffled tables.
_MOST_ID_BYTES = 500_000  #: The largest size of the stored ids, so that ids and counts fit into a baseline.
_NO_ERRORS = "each rate is 0 or 1, which says nothing of its error"
_BALANCED = "{:,} of {:,} persons after balancing (as many {} as {} in each class); slopes are over all"
_NO_PROBABILITIES = (
    "the file has no probabilities: add a column probability_LABEL for each label, or use the option output=labels"
)
_NO_DISTANCE_INTERVAL = (
    "small cells bias it upwards, and no valid interval is known; shuffled groups (--bias-null) say what chance gives"
)


def _balanced_persons(options: Options, role: str) -> str:
    """Return the name of what balancing draws at random."""
    return "women or men that balance a class" if options["balanced"] else ""


def _tables(arrays: Arrays, prefix: str = "") -> tuple[BlockTables, FloatArray]:
    """Return the tables by block, of the compared persons or (``prefix``) of all, and the share of the first group by
    class.
    """
    classes, shares, cells, counts = take_arrays(arrays, "class", "share", f"{prefix}cell", f"{prefix}count")
    return BlockTables.unpacked(classes, cells, counts), np.where(shares < 0, np.nan, shares)


def _gap_statistics(name: str, rate: Rate, what: str) -> dict[str, FamilyStatistic]:
    """Return the statistics of the gaps in a rate."""

    def sums_of(figure: GapFigure) -> MakeSums:
        def sums(options: Options, arrays: Arrays) -> ItemSums:
            tables, shares = _tables(arrays, "all_" if figure == "slope" and options["balanced"] else "")
            return gap_sums(tables, rate, shares, figure)

        return sums

    total, r, slope_, rms = (f"{name}_gap_{figure}" for figure in ("sum", "pearson", "slope", "rms"))
    return {
        total: FamilyStatistic(
            SIZE,
            f"sum over classes of |gap in {what}|",
            sums_of("sum"),
            partner=slope_,
            draws=_balanced_persons,
            mistakes="accuracy",
            without_chance=rms,
        ),
        r: FamilyStatistic(
            SIGNED_SHARE,
            f"r of the gap in {what} with the share of women in the class",
            sums_of("pearson"),
            plot="scatter",
            draws=_balanced_persons,
        ),
        slope_: FamilyStatistic(
            SIGNED, f"gap in {what} from no women in the class to women only", sums_of("slope"), plot="scatter"
        ),
        rms: FamilyStatistic(
            EXCESS_SHARE,
            f"root mean square over classes of the gap in {what}, without what chance adds; below 0: less than chance"
            " adds",
            sums_of("rms"),
            partner=slope_,
            draws=_balanced_persons,
            root=True,
        ),
    }


def _distance_sums(measure: str, figure: distances.DistanceFigure) -> MakeSums:
    """Return the function that makes the sums of a distance."""

    def sums(options: Options, arrays: Arrays) -> ItemSums:
        if options.get("output") == group_distances.PROBABILITIES:  # signatures leave the default out
            names = ("class", "output", "probability_block", "probability")
            classes, outputs, blocks, tables = take_arrays(arrays, *names)
            return probability_distance_sums(classes, outputs, blocks, tables, measure, figure)
        return distance_sums(_tables(arrays)[0], measure, figure)

    return sums


def _accuracy_sums(options: Options, arrays: Arrays) -> ItemSums:
    """Return the sums of correctly classified persons by block."""
    return accuracy_sums(_tables(arrays)[0])


def _unit_accuracy(options: Options, answer: Answer) -> FloatArray | None:
    """Return whether each person is classified correctly; None with balancing, which draws other persons in another
    sample.
    """
    if options["balanced"] or answer.cases is None:
        return None
    predicted = np.asarray(answer.cases.labels)[answer.values[:, 0].argmax(axis=1)]
    return np.asarray(predicted == answer.cases.facts["label"][answer.units], dtype=np.float64)


def _statistics() -> dict[str, FamilyStatistic]:
    statistics: dict[str, FamilyStatistic] = {}
    for name, what in {"tpr": "true positive rate", "fpr": "false positive rate", "precision": "precision"}.items():
        statistics |= _gap_statistics(name, _RATES[name], what)
    statistics |= group_distances.distance_statistics(_distance_sums, _balanced_persons)
    statistics["accuracy"] = FamilyStatistic(
        SHARE,
        "share of persons whose class is predicted",
        _accuracy_sums,
        scores=_unit_accuracy,
        draws=_balanced_persons,
    )
    return statistics


def _two_names(names: Sequence[object]) -> bool:
    return len(set(map(str, names))) == len(names) == 2 and all(map(str, names))


class Bios(DataFamily):
    """Gaps between women and men in the rates of a classifier, and distances of their distributions."""

    name: ClassVar[str] = "bios"
    definition: ClassVar[str] = "bios/1"
    picture: ClassVar[str] = "class_gaps"
    null_control: ClassVar[str] = (
        "groups are shuffled over the persons of a gold class (independence: over all persons; precision gaps and"
        " sufficiency: over those of a predicted class)"
    )
    needs: ClassVar[str] = "a text classifier, or a file of a classifier's predictions"
    roles: ClassVar[tuple[str, ...]] = ("text-classifier", "class-predictions")
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = _statistics()
    options: ClassVar[Mapping[str, Option]] = {
        "texts": table("bias_in_bios", *BIOGRAPHIES, meaning="labelled texts; a path starts where pytest is started"),
        **COLUMNS,
        "groups": Option(
            None,
            Annotated[tuple[str | int | bool | float, ...], Rule("a list of two names, as [female, male]", _two_names)]
            | None,
            "groups to compare, the first minus the second; if they are named, rows of other groups are left out",
        ),
        "balanced": flag(
            "draw as many women as men in each class, as in orgad2022, for all statistics except slopes", True
        ),
        **group_distances.OUTPUT_OPTION,
        "shares": one_of(
            "training",
            "labour",
            meaning=(
                "share of women by class, for r and slope: in the training data, or in the US labour market (list"
                " labour-shares), which gives other figures (orgad2022, appendix D.2)"
            ),
            implied=True,
        ),
        "training": text(
            "labelled table of the training data, for the share of women in each class; by default the share in the"
            " measured data",
            display=True,
        ),
    }

    def competence(self, summary: Summary) -> Ability | None:
        """Return the balanced accuracy: the mean recall over classes, both groups together."""
        rate = list(summary.items["rate"]).index("tpr")
        right, n = (summary.items[name][rate].sum(axis=0) for name in ("hits", "trials"))
        if not n.any():
            return None
        value, low, high = mean_recall(right, n)
        classes = int((n > 0).sum())
        what = f"persons by the mean recall of {classes} classes"
        return Ability(TASK, what, value, low, high, 1 / classes, int(n.sum()))

    def questions(self, body: None, options: Options, context: Context) -> dict[str, Question]:
        """Ask for the class of every text, or for all stored predictions."""
        if context.role == "class-predictions":
            return {"predictions": Question(None, StoredPredictions())}
        return {"cases": Question(labelled_cases(options, context), ClassProbabilities())}

    def summarise(self, body: None, options: Options, answers: Answers, seed: int) -> Summary:
        """Compare groups; intervals of sums and accuracy over persons, of r and slopes over classes."""
        groups, answer = compared_groups(options), next(iter(answers.values()))
        stored_ones = answer.cases is None
        persons, left_out = _persons(options, answer)
        compared, unbalanced = _balanced(persons, options, seed)
        tables, everybody, shares = persons.tables(compared), persons.tables(), persons.shares()
        figures = Summary(self.statistics)
        for name in _RATES:
            _take_gaps(figures, name, tables, everybody, shares, groups)
        _take_distances(figures, tables, persons, compared, options)
        _take_accuracy(figures, tables)
        if unbalanced is not None:
            figures.miss(
                unbalanced, *(key for key, statistic in self.statistics.items() if statistic.drawn(options, ""))
            )
        records = [
            *_class_records(tables, persons, groups, "class"),
            *(_class_records(everybody, persons, groups, "class, all persons") if options["balanced"] else ()),
            *_left_out(tables, persons.labels, groups),
        ]
        notes = [
            *([f"{left_out} cases of other groups are left out"] if left_out else ()),
            *([_BALANCED.format(len(compared), len(persons.ids), *groups)] if options["balanced"] else ()),
            *_share_notes(persons, options),
            *_empty_notes(tables),
        ]
        whole = answer.n == answer.n_total
        items = _items(persons, tables, whole) | _block_items(persons, compared, options["balanced"])
        if options["output"] == group_distances.PROBABILITIES and persons.probabilities is not None:
            items |= _probability_items(persons, compared)
        return replace(figures, records=records, items=items, notes=notes, data=digests(persons) if stored_ones else {})

    def null(self, body: None, options: Options, answers: Answers, seed: int, repeats: int) -> NullFigures:
        """Return sums, correlations, slopes and distances with the groups shuffled; accuracy knows no groups."""
        persons, _ = _persons(options, next(iter(answers.values())))
        compared, _ = _balanced(persons, options, seed)
        size = max(1, _MOST_COUNTS // persons.tables().size)
        parts = []
        for number, start in enumerate(range(0, repeats, size)):
            some = min(size, repeats - start)
            gaps = _null_gaps(persons, compared, some, seed + number)
            parts.append(gaps | _null_distances(persons, compared, options, some, seed + number))
        return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def _persons(options: Options, answer: Answer) -> tuple[Persons, int]:
    """Return the classified persons, and the number of rows of other groups."""
    return stored_persons(answer.content, options) if answer.cases is None else scored_persons(answer)


def _balanced(persons: Persons, options: Options, seed: int) -> tuple[IntArray, str | None]:
    """Return the positions of the compared persons, and the reason if there are none."""
    if not options["balanced"]:
        return np.arange(len(persons.ids)), None
    try:
        return group_gaps.balanced_subsample(persons.gold, persons.group, seed), None
    except UndefinedError as error:
        return np.zeros(0, dtype=np.int64), str(error)


def _items(persons: Persons, tables: IntArray, whole: bool) -> Items:
    """Return hits and trials by rate, group and class; after a complete scoring, also the ids, for a comparison with a
    baseline.
    """
    hits, trials = zip(*(group_gaps.hits_and_trials(tables, rate) for rate in _RATES.values()), strict=True)
    items: Items = {
        "class": np.asarray(persons.labels),
        "rate": np.asarray(tuple(_RATES)),
        "hits": np.stack(hits).astype(np.int32),
        "trials": np.stack(trials).astype(np.int32),
    }
    ids = np.char.encode(persons.ids, "utf-8")
    return items | {"id": ids} if whole and np.char.str_len(ids).sum() <= _MOST_ID_BYTES else items


def _block_items(persons: Persons, chosen: IntArray, balanced: bool) -> Items:
    """Return tables by block of persons, of the compared ones and, with balancing, of all; and shares, -1 if
    unknown.
    """
    block = block_tables.block_of(persons.ids.tolist())

    def packed(rows: IntArray | slice) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        columns = (block, persons.group, persons.gold, persons.predicted)
        return BlockTables.of(persons.labels, *(column[rows] for column in columns)).packed()

    items = dict(zip(("cell", "count"), packed(chosen), strict=True))
    if balanced:
        items |= dict(zip(("all_cell", "all_count"), packed(slice(None)), strict=True))
    shares = persons.shares()
    return {**items, "share": np.where(np.isfinite(shares), shares, -1.0)}


def _probability_items(persons: Persons, chosen: IntArray) -> Items:
    """Return the sums of the probabilities of the compared persons by block, group, gold class and output."""
    assert persons.probabilities is not None  # the caller looks
    blocks, index = np.unique(block_tables.block_of(persons.ids.tolist())[chosen], return_inverse=True)
    sums = np.zeros((len(blocks), 2, len(persons.labels), len(persons.outputs)))
    np.add.at(sums, (index, persons.group[chosen], persons.gold[chosen]), persons.probabilities[chosen])
    return {"output": np.asarray(persons.outputs), "probability_block": blocks, "probability": sums}


# The summary ---------------------------------------------------------------------------------------------------------


def _take_gaps(
    figures: Summary, name: str, tables: IntArray, everybody: IntArray, shares: FloatArray, groups: Groups
) -> None:
    """Add sum, root mean square and r of the gaps in the balanced data, and their slope in all data."""
    rate, few = _RATES[name], "too few classes, or all on a line"

    def line(of: IntArray) -> tuple[FloatArray, FloatArray]:
        return group_gaps.beside_shares(group_gaps.class_gaps(of, rate, groups), shares)

    figures.take(
        f"{name}_gap_sum",
        lambda: group_gaps.absolute_gap_sum(group_gaps.class_gaps(tables, rate, groups)),
        lambda: group_gaps.gap_sum_interval(group_gaps.class_gaps(tables, rate, groups)),
    )
    gaps = gaps_and_variances(*group_gaps.hits_and_trials(tables, rate))
    figures.take(f"{name}_gap_rms", lambda: gap_rms(*gaps), lambda: gap_interval(*gaps, "persons"), _NO_ERRORS)
    figures.take(
        f"{name}_gap_pearson", lambda: pearson(*line(tables)), lambda: pearson_interval(*line(tables), "classes"), few
    )
    figures.take(
        f"{name}_gap_slope", lambda: slope(*line(everybody)), lambda: slope_interval(*line(everybody), "classes"), few
    )


def _take_distances(figures: Summary, tables: IntArray, persons: Persons, compared: IntArray, options: Options) -> None:
    """Add the distances, of predicted labels or of probabilities."""
    if options["output"] == group_distances.LABELS:
        group_distances.take_distances(figures, dict.fromkeys(distances.MEASURES, tables), _NO_DISTANCE_INTERVAL)
    elif persons.probabilities is None:
        figures.miss(_NO_PROBABILITIES, *group_distances.DISTANCES)
    elif why := _why_not_of_predictions(persons, persons.probabilities):
        figures.miss(f"{why}; correct them, or use the option output=labels", *group_distances.DISTANCES)
    else:
        p, gold, group = (column[compared] for column in (persons.probabilities, persons.gold, persons.group))
        table = distances.probability_tables(p, gold, group, len(persons.labels))
        group_distances.take_distances(figures, dict.fromkeys(distances.MEASURES, table), _NO_DISTANCE_INTERVAL)


def _why_not_of_predictions(persons: Persons, p: FloatArray) -> str:
    """Return why probabilities are not those of the predictions, by which ability is judged; an empty text if they are.

    A threshold may have decided against the most probable label in some rows.
    """
    known, most = list(persons.outputs), p.max(axis=1)
    of_label = np.asarray([known.index(label) if label in known else 0 for label in persons.labels])
    if np.mean(p[np.arange(len(p)), of_label[persons.predicted]] < most) > 0.5:
        return "another label than the prediction has the largest probability in most rows"
    return "the probabilities of the labels are nearly equal" if np.median(most) * len(known) < 1.1 else ""


def _take_accuracy(figures: Summary, tables: IntArray) -> None:
    n, right = int(tables.sum()), int(np.trace(tables.sum(axis=0)))
    by_person = np.repeat([1.0, 0.0], [right, n - right])
    figures.take(
        "accuracy",
        lambda: group_gaps.accuracy(tables),
        lambda: clustered_mean_interval(by_person, np.ones(n), "persons", bounds=(0.0, 1.0)),
        over="persons",
    )


def _null_gaps(persons: Persons, compared: IntArray, repeats: int, seed: int) -> NullFigures:
    """Return figures of the gaps with groups shuffled as :func:`_shuffled` does, slopes over all persons and the others
    over those that are compared; NaN without cases.
    """
    shares, null = persons.shares(), {}
    for figure in _GAP_FIGURES:
        shuffled = _shuffled(persons.tables(None if figure == "slope" else compared), repeats, seed)
        for name, rate in _RATES.items():
            null[f"{name}_gap_{figure}"] = block_tables.gap_figure(
                *group_gaps.hits_and_trials(shuffled[name], rate), shares, figure
            )
    return null


def _shuffled(tables: IntArray, repeats: int, seed: int) -> dict[str, IntArray]:
    """Return tables with shuffled groups by rate or distance, shuffled within the classes that it is conditional on.

    These are the gold classes; for precision and sufficiency the predicted classes.
    """
    within_gold = group_gaps.permuted_tables(tables, repeats, seed)
    within_predicted = np.swapaxes(group_gaps.permuted_tables(np.swapaxes(tables, 1, 2), repeats, seed), 2, 3)
    return {
        **dict.fromkeys(("tpr", "fpr", "separation"), within_gold),
        **dict.fromkeys(("precision", "sufficiency"), within_predicted),
    }


def _null_distances(
    persons: Persons, compared: IntArray, options: Options, repeats: int, seed: int
) -> dict[str, FloatArray]:
    """Return distances with shuffled groups, for independence over all cases; NaN without cases or probabilities."""
    if not len(compared) or (options["output"] == group_distances.PROBABILITIES and persons.probabilities is None):
        return {name: np.full(repeats, np.nan) for name in group_distances.DISTANCES}
    if options["output"] == group_distances.LABELS:
        tables = persons.tables(compared)
        anywhere = group_gaps.permuted_tables(tables.reshape(2, 1, -1), repeats, seed).reshape(repeats, *tables.shape)
        shuffled = {"independence": anywhere, **_shuffled(tables, repeats, seed)}
        return group_distances.shuffled_distances({measure: shuffled[measure] for measure in distances.MEASURES})
    gold, group, predicted = (column[compared] for column in (persons.gold, persons.group, persons.predicted))
    strata = {"independence": np.zeros_like(gold), "separation": gold, "sufficiency": predicted}
    assert persons.probabilities is not None
    p, n = persons.probabilities[compared], len(persons.labels)
    return group_distances.shuffled_distances(
        {
            measure: distances.shuffled_probability_tables(p, gold, group, stratum, n, repeats, seed)
            for measure, stratum in strata.items()
        }
    )


# Records and notes ----------------------------------------------------------------------------------------------------


def _class_records(tables: IntArray, persons: Persons, groups: Groups, name: str) -> list[Record]:
    """Return a row for each class, the largest gap in the true positive rate first."""
    counts, shares = tables.sum(axis=2), persons.shares()
    counts_of = {key: group_gaps.hits_and_trials(tables, rate) for key, rate in _RATES.items()}
    rows: list[Record] = []
    for c, label in enumerate(persons.labels):
        row: Record = {"slice": name, "class": label, "share": float(shares[c]) if np.isfinite(shares[c]) else None}
        row |= {f"n_{group}": int(counts[g, c]) for g, group in enumerate(groups)}
        for key, (hits, trials) in counts_of.items():
            rates = [float(hits[g, c] / trials[g, c]) if trials[g, c] else None for g in (0, 1)]
            first, second = rates
            row[f"{key}_gap"] = None if first is None or second is None else first - second
            row |= {f"{key}_{group}": rate for group, rate in zip(groups, rates, strict=True)}
        rows.append(row)
    return sorted(rows, key=lambda row: (-abs(row["tpr_gap"]) if row["tpr_gap"] is not None else 1.0, row["class"]))


def _left_out(tables: IntArray, labels: tuple[str, ...], groups: Groups) -> list[Record]:
    """Return a row with the reason for each class without a gap."""
    rows: list[Record] = []
    for key, rate in _RATES.items():
        try:
            reasons = group_gaps.class_gaps(tables, rate, groups).left_out
        except UndefinedError as error:
            reasons = dict.fromkeys(range(len(labels)), str(error))
        rows += [
            {"slice": "left out", "statistic": f"{key}_gap", "class": labels[c], "reason": reason}
            for c, reason in reasons.items()
        ]
    return rows


def _empty_notes(tables: IntArray) -> list[str]:
    """Return notes with the number of cells without a distance."""
    notes = []
    for name, kind in (("separation", "gold"), ("sufficiency", "predicted")) if tables.any() else ():
        empty = np.isnan(distances.MEASURES[name](tables))
        if empty.any():
            notes.append(
                f"{name}: {empty.sum()} of {empty.size} cells (group and {kind} class) have no cases, and no distance"
            )
    return notes


def _share_notes(persons: Persons, options: Options) -> list[str]:
    known = np.isfinite(persons.shares())
    lacking = [persons.labels[c] for c in np.unique(persons.gold).tolist() if not known[c]]
    if options["shares"] == "labour":
        notes = [
            (
                f"r and slope use the shares of women in the labour market, of the list {LIST}, for"
                f" {known.sum()} classes; figures of r depend heavily on which shares they use (orgad2022,"
                " appendix D.2)"
            ),
            *(["the option training is not used with shares=labour"] if options["training"] is not None else ()),
            *([f"r and slope leave out classes without such a share: {', '.join(lacking)}"] if lacking else ()),
        ]
    else:
        own = "r and slope use the shares in the measured data; name the training data with the option training"
        notes = [own] if options["training"] is None else []
        if lacking:
            notes.append(f"r and slope leave out {len(lacking)} classes without training data ({some_of(lacking)})")
    foreign = int((~np.isin(persons.predicted, persons.gold)).sum())
    if foreign:
        notes.append(f"{foreign} predictions are a label without cases")
    return notes
