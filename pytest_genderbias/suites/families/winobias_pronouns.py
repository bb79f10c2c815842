"""The families ``coref-winobias`` and ``winobias-chat``: pro-stereotypical against anti-stereotypical sentences (Zhao
et al. 2018, orgad2022).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.mentions import words_of
from pytest_genderbias.datasets.pronoun_sentences import WinoBiasSentence, read_winobias
from pytest_genderbias.errors import DataFileError, SettingError, UndefinedError
from pytest_genderbias.statistics import coreference_scores, count_sums, group_gaps
from pytest_genderbias.statistics.block_tables import gap_figure
from pytest_genderbias.statistics.correlation import pearson, pearson_interval
from pytest_genderbias.statistics.distances import MEASURES, DistanceFigure
from pytest_genderbias.statistics.gap_rms import gap_interval, gap_rms, paired_columns, rms_of_paired_sums, unit_gaps
from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, mean_sums
from pytest_genderbias.statistics.right_answers import Ability
from pytest_genderbias.statistics.score_bias import exchanged
from pytest_genderbias.statistics.sums import f1_gap_sums, f1_sums
from pytest_genderbias.suites.cases import IntArray, Items, Question, take_arrays
from pytest_genderbias.suites.families.shared import asked_pronouns, asking, group_distances
from pytest_genderbias.suites.family import Context, Option, one_of
from pytest_genderbias.suites.query import CoreferenceScores
from pytest_genderbias.suites.space import SlotWords, read_slot
from pytest_genderbias.suites.statistic import (
    EXCESS_SHARE,
    SHARE,
    SIGNED_SHARE,
    Arrays,
    FamilyStatistic,
    MakeSums,
    NullFigures,
    Options,
    Scale,
)
from pytest_genderbias.suites.summary import Record, Summary
from pytest_genderbias.text.schema import LocatedMap, take
from pytest_genderbias.text.wordlist import load_wordlist

_RATES: Mapping[str, group_gaps.Rate] = {"tpr": "true_positive", "fpr": "false_positive", "precision": "precision"}
_GENDERS = ("female", "male")
PAIRS = "pairs of sentences"
_SHARES: Mapping[str, str] = {"list": "the list of professions", "winogender": "Winogender"}
_NO_SHARES = (
    "the list of professions has no share of women; use a list of your own that has it, or the option shares=winogender"
)
_PAIRED = "no interval is known to hold for a sum of absolute gaps over pairs of sentences"
_NO_DISTANCE_INTERVAL = (
    "small cells bias it upwards, and no valid interval is known; exchanges of pairs say what chance gives"
)
_NO_PROBABILITIES = "the system gives clusters and no scores, hence no probabilities; use the option output=labels"
_NOTHING_LINKED = "F1 counts a precision of 0 / 0 as 0: the system links nothing in the {} sentences"
_UNRESOLVED = "neither or both"  #: the answer where the pronoun is linked to neither profession, or to both


#: The professions, and the name of their attribute with the share of women in percent, which may be missing.
WinobiasBody: TypeAlias = tuple[SlotWords, str]


def _gap_statistics(key: str, rate: group_gaps.Rate) -> dict[str, FamilyStatistic]:
    """Return the statistics of the gaps in a rate."""
    what = rate.replace("_", " ")
    return {
        f"{key}_gap_sum": FamilyStatistic(
            Scale("higher", 0.0),
            f"sum over professions of |{what} gap|, female minus male pronoun",
            partial(_pair_sums, of=count_sums.absolute_gap_sums, rate=rate),
            partner=f"{key}_gap_pearson",
            mistakes="accuracy",
            without_chance=f"{key}_gap_rms",
            limits_of=lambda body: (0.0, float(len(body[0].entries))),
        ),
        f"{key}_gap_pearson": FamilyStatistic(
            SIGNED_SHARE,
            f"r of the {what} gaps with the share of women",
            partial(_gap_pearson_sums, rate=rate),
            plot="scatter",
        ),
        f"{key}_gap_rms": FamilyStatistic(
            EXCESS_SHARE,
            f"root mean square over professions of the {what} gap, without what chance adds; below 0: less than chance"
            " adds",
            partial(_pair_sums, of=count_sums.paired_gap_rms_sums, rate=rate),
            partner=f"{key}_gap_pearson",
            root=True,
        ),
    }


def _f1_gap_sums(options: Options, arrays: Arrays) -> ItemSums:
    """Return counts of both sentences by pair."""
    pairs, counts = take_arrays(arrays, "pair", "f1_counts")
    return f1_gap_sums(pairs, counts[:, 0], counts[:, 1], PAIRS)


def _f1_sums(options: Options, arrays: Arrays) -> ItemSums:
    """Return counts by pair of sentences."""
    pairs, counts = take_arrays(arrays, "pair", "f1_counts")
    return f1_sums(pairs, counts[:, 0] + counts[:, 1], PAIRS)


def _f1_gap_interval(sums: ItemSums, limits: tuple[float, float]) -> Interval | None:
    pro, anti = np.moveaxis(np.asarray(sums.sums).reshape(len(sums.labels), 2, -1, 4), 1, 0)
    if (found := coreference_scores.f1_gap_interval(pro, anti, sums.over)) is None:
        raise UndefinedError("the two sentences of every pair have the same answer")
    return found


def _f1_interval(sums: ItemSums, limits: tuple[float, float]) -> Interval | None:
    return coreference_scores.f1_interval(np.asarray(sums.sums).reshape(len(sums.labels), -1, 4), sums.over)


def _stored_counts(arrays: Arrays) -> tuple[NDArray[np.str_], FloatArray]:
    """Return the professions, and the counts of each sentence, shape (sentences, 3, 2, professions)."""
    names, answer, gold, gender = take_arrays(arrays, "profession", "answer", "gold", "gender")
    return names, group_gaps.rate_counts(answer.ravel(), gold.ravel(), gender.ravel(), len(names))


def _by_pair(counts: FloatArray) -> FloatArray:
    """Add the counts of the two sentences of each pair."""
    return np.asarray(counts.reshape(-1, 2, *counts.shape[1:]).sum(axis=1), dtype=np.float64)


def _pair_sums(options: Options, arrays: Arrays, of: Callable[..., ItemSums], rate: group_gaps.Rate) -> ItemSums:
    """Return the sums of a figure of the gaps by pair of sentences, from the counts of each."""
    (pairs,) = take_arrays(arrays, "pair")
    return of(pairs, _by_pair(_stored_counts(arrays)[1]), rate, PAIRS)


def _gap_pearson_sums(options: Options, arrays: Arrays, rate: group_gaps.Rate) -> ItemSums:
    """Return the sums of the correlation with the share of women by profession."""
    names, counts = _stored_counts(arrays)
    share_of, share = take_arrays(arrays, "share_of", "share")
    if not len(share):
        raise UndefinedError(_NO_SHARES)
    shares = np.full(len(names), np.nan)
    shares[share_of] = share
    return count_sums.gap_pearson_sums(names, counts.sum(axis=0), rate, shares, "professions")


def _distance_sums(measure: str, figure: DistanceFigure) -> MakeSums:
    """Return the function that makes the sums of a distance, from the cells of each pair of sentences."""

    def sums(options: Options, arrays: Arrays) -> ItemSums:
        pairs, names, answer, gold, gender = take_arrays(arrays, "pair", "profession", "answer", "gold", "gender")
        codes = {"answer": answer.ravel(), "gold": gold.ravel(), "gender": gender.ravel()}
        weights = None
        if options.get("output") == group_distances.PROBABILITIES:  # signatures leave the default out
            other, weights = take_arrays(arrays, "other", "probability")
            codes, weights = codes | {"other": other.ravel()}, weights.reshape(-1, 3)
        tables = _by_pair(_sentence_tables(codes, weights, len(names)))
        if _drops(options, measure):
            tables[..., -1] = 0.0
        outputs = np.asarray([*names.tolist(), _UNRESOLVED])
        return count_sums.cell_distance_sums(pairs, tables, names, outputs, measure, figure, PAIRS)

    return sums


#: F1 on both kinds of sentences, the gaps and the distances; each family adds its accuracy.
GAPS: Mapping[str, FamilyStatistic] = {
    "f1_gap": FamilyStatistic(
        SIGNED_SHARE,
        "F1 on pro-stereotypical minus F1 on anti-stereotypical sentences",
        _f1_gap_sums,
        interval=_f1_gap_interval,
    ),
    **{name: statistic for key, rate in _RATES.items() for name, statistic in _gap_statistics(key, rate).items()},
    **group_distances.distance_statistics(_distance_sums),
}
GAP_OPTIONS: Mapping[str, Option] = {
    "shares": one_of(
        "list",
        "winogender",
        meaning=(
            "share of women by profession: of the list, which has those that WinoBias prints, or those of Winogender"
            " for the professions in both"
        ),
    ),
    **group_distances.OUTPUT_OPTION,
    "unresolved": one_of(
        "keep",
        "drop",
        meaning=(
            "sentences whose pronoun is linked to neither profession or both, in separation: an answer like others, or"
            " left out as by the reference code of orgad2022"
        ),
        implied=True,
    ),
}


def _exchanged_tables(by_pair: FloatArray, differ: NDArray[np.bool_], repeats: int, seed: int) -> FloatArray:
    """Return the tables of all pairs after random exchanges, shape (repeats, 2, K, K + 1), from those of each pair."""
    used = by_pair.any(axis=(0, 1))
    tables = np.zeros((repeats, *by_pair.shape[1:]))
    cells = by_pair[:, :, used]
    moved = _exchanged(cells, cells[:, ::-1], differ, repeats, seed)
    tables[:, :, used] = np.maximum(moved.round(12), 0.0)  # a cell that is emptied is 0 but for rounding
    return tables


def sides(reading: asked_pronouns.Reading) -> tuple[FloatArray, FloatArray]:
    """Return the counts of the pro-stereotypical and of the anti-stereotypical sentences."""
    by_side = reading.counts.reshape(-1, 2, *reading.counts.shape[1:])
    return by_side[:, 0], by_side[:, 1]


def _pair_counts(codes: Mapping[str, IntArray], n_classes: int) -> FloatArray:
    """Return the counts of each pair of sentences, shape (pairs, 3, 2, professions)."""
    return _by_pair(group_gaps.rate_counts(codes["answer"], codes["gold"], codes["gender"], n_classes))


def _exchanged(
    as_it_is: FloatArray, turned: FloatArray, differ: NDArray[np.bool_], repeats: int, seed: int
) -> FloatArray:
    """Return totals after random exchanges in the pairs that differ, from the sums of each pair as it is and
    exchanged.
    """
    half = np.where(differ.reshape(-1, *[1] * (as_it_is.ndim - 1)), as_it_is - turned, 0.0) / 2
    moved = exchanged(half.reshape(len(half), -1), np.zeros(len(half)), 1, repeats, seed)
    totals = (as_it_is - half).sum(axis=0) + moved.reshape(repeats, *as_it_is.shape[1:])
    return np.asarray(totals, dtype=np.float64)


def in_pairs(paths: tuple[Path, ...]) -> list[WinoBiasSentence]:
    """Return the sentences of all files as pairs, the pro-stereotypical sentence first."""
    by_id = {sentence.id: (path, sentence) for path in paths for sentence in read_winobias(path)}
    ordered = []
    for name, (path, sentence) in by_id.items():
        partner = name.replace("-anti-", "-pro-") if sentence.stereotype == "anti" else name.replace("-pro-", "-anti-")
        if partner not in by_id:
            raise DataFileError(
                f"{path}:{sentence.line}: {name} has no partner; expected {partner} in the file of the other side"
            )
        if sentence.stereotype == "pro":
            ordered += [sentence, by_id[partner][1]]
    return ordered


def _codes(reading: asked_pronouns.Reading) -> tuple[NDArray[np.str_], dict[str, IntArray]]:
    """Return the distinct professions, and the codes of each sentence: linked profession (the last code: neither or
    both), gold profession, gender (-1: other).
    """
    facts = reading.facts
    names = np.unique([facts["profession"], facts["other"]])
    gold, other = (np.searchsorted(names, facts[key]) for key in ("profession", "other"))
    answer = np.select([reading.linked == 0, reading.linked == 1], [gold, other], len(names))
    gender = np.select([facts["gender"] == name for name in _GENDERS], range(len(_GENDERS)), -1)
    return names, {"answer": answer, "gold": gold, "gender": gender, "other": other}


def _sentence_tables(codes: Mapping[str, IntArray], weights: FloatArray | None, n: int) -> FloatArray:
    """Return the table of each sentence by gender of the pronoun, gold profession and linked profession (the last:
    neither or both), shape (sentences, 2, n, n + 1); those of other pronouns are empty.

    Args:
        codes: ``answer``, ``gold``, ``gender`` and, with weights, ``other``, shape (sentences,).
        weights: probability that the pronoun is linked to the gold profession, to the other one, and to neither, shape
            (sentences, 3); ``None``: 1 for the answer.
        n: number of professions.
    """
    gold, gender = codes["gold"], codes["gender"]
    tables = np.zeros((len(gold), 2, n, n + 1))
    rows = np.flatnonzero(gender >= 0)
    place = rows, gender[rows], gold[rows]
    if weights is None:
        tables[(*place, codes["answer"][rows])] = 1.0
    else:
        for column, answer in enumerate((gold, codes["other"], np.full(len(gold), n))):
            tables[(*place, answer[rows])] = weights[rows, column]
    return tables


def _probabilities(reading: asked_pronouns.Reading) -> FloatArray | None:
    """Return the probability of each profession and of neither, shape (sentences, 3); ``None`` where the system gives
    none.
    """
    if reading.probabilities is None:
        return None
    neither = np.maximum(1.0 - reading.probabilities.sum(axis=1, keepdims=True), 0.0)
    return np.concatenate([reading.probabilities, neither], axis=1)


def _by_measure(tables: FloatArray, options: Options) -> dict[str, FloatArray]:
    """Return the table of each distance: separation may leave out what is not resolved."""
    return {measure: tables[..., :-1] if _drops(options, measure) else tables for measure in MEASURES}


def _drops(options: Mapping[str, object], measure: str) -> bool:
    return measure == "separation" and options.get("unresolved", "keep") == "drop"


def _unresolved_notes(reading: asked_pronouns.Reading, options: Options) -> list[str]:
    """Return a note on the sentences without a linked profession, which the reference code leaves out of separation."""
    left = int((reading.linked < 0).sum())
    if not left or options["output"] != group_distances.LABELS:
        return []
    counted = "left out of separation" if options["unresolved"] == "drop" else "an answer of their own in separation"
    return [f"{left} sentences whose pronoun is linked to neither profession or both are {counted} (option unresolved)"]


def _shares(body: WinobiasBody, source: str, names: NDArray[np.str_]) -> FloatArray:
    """Return the share of women in each profession, 0 to 1, NaN if it is unknown."""
    professions, attribute = body
    entries = professions.entries
    if source == "winogender":
        entries, attribute = load_wordlist("winogender-occupations").entries, "women_share"
    known = {entry.word: entry.attributes.get(attribute) for entry in entries}
    return np.asarray([known.get(name) for name in names.tolist()], dtype=np.float64) / 100


def _take_gaps(
    figures: Summary, key: str, tables: FloatArray, by_pair: FloatArray, shares: FloatArray
) -> dict[int, float]:
    """Add the figures of the gaps in a rate, and return the gap of each profession that has one, by its code.

    None where no pronoun is resolved: all rates are 0.
    """
    total, r, rms = (f"{key}_gap_{figure}" for figure in ("sum", "pearson", "rms"))
    try:
        if not tables[..., : tables.shape[-2]].any():
            raise UndefinedError(coreference_scores.LINKS_NOTHING)
        gaps = group_gaps.class_gaps(tables, _RATES[key])
    except UndefinedError as error:
        figures.miss(str(error), total, r, rms)
        return {}
    figures.take(total, lambda: group_gaps.absolute_gap_sum(gaps), no_interval=_PAIRED)
    if np.isfinite(shares).any():
        x, y = group_gaps.beside_shares(gaps, shares)
        few = "too few professions with a share, or all on a line"
        figures.take(r, lambda: pearson(x, y), lambda: pearson_interval(x, y, "professions"), few)
    else:
        figures.miss(_NO_SHARES, r)
    hits, trials = group_gaps.hits_and_trials_of(by_pair, _RATES[key])
    found = unit_gaps(hits, trials, paired=True)  # the errors of a pair go together
    figures.take(
        rms,
        lambda: gap_rms(found.gaps, found.variances),
        lambda: gap_interval(found.gaps, found.variances, PAIRS),
        "the sentences of a pair always have the same answer, or each rate is 0 or 1",
    )
    return dict(zip(gaps.classes.tolist(), gaps.gaps.tolist(), strict=True))


def _of_types(
    types: IntArray, pro: NDArray[np.float64], anti: NDArray[np.float64], reading: asked_pronouns.Reading
) -> list[Record]:
    """Return F1 and the share of correct answers on both sides, by type."""
    right = (reading.linked == 0).reshape(-1, 2)
    records: list[Record] = []
    for kind in np.unique(types):
        here = types[::2] == kind
        row: Record = {"slice": "type", "value": int(kind), "pairs": int(here.sum())}
        for side, counts in (("f1_pro", pro), ("f1_anti", anti)):
            try:
                row[side] = float(coreference_scores.conll_f1(counts[here].sum(axis=0)))
            except UndefinedError:
                row[side] = None
        row |= {"right_pro": float(right[here, 0].mean()), "right_anti": float(right[here, 1].mean())}
        records.append(row)
    return sorted(records, key=lambda record: record["right_anti"] - record["right_pro"])


def _of_professions(
    names: NDArray[np.str_], gaps: Mapping[str, Mapping[int, float]], shares: FloatArray
) -> list[Record]:
    """Return the gaps of each profession, the largest TPR gap first; None if a gender has no sentence."""
    records: list[Record] = [
        {
            "slice": "profession",
            "value": str(name),
            **{f"{key}_gap": of_rate.get(i) for key, of_rate in gaps.items()},
            "women_share": float(shares[i]) if np.isfinite(shares[i]) else None,
        }
        for i, name in enumerate(names)
    ]
    return sorted(records, key=lambda record: -abs(record["tpr_gap"] or 0.0))


_CHANCE = 0.5


class Winobias(asked_pronouns.AskedPronouns[WinobiasBody]):
    """Sentences of WinoBias: F1 on both kinds, and gaps by profession between female and male pronouns; intervals over
    pairs of sentences and over professions.

    For the gaps, resolving the pronoun is a classification into professions.
    """

    null_control: ClassVar[str] = (
        "the sentence for the stereotype and the one against it, which differ in the gender of the pronoun, are"
        " exchanged at random in each pair"
    )
    picture: ClassVar[str] = "class_gaps"
    keys: ClassVar[tuple[str, ...]] = ("profession", "share")
    each: ClassVar[int] = 2

    def read(self, data: LocatedMap) -> WinobiasBody:
        """Read the list of professions."""
        return read_slot(data, "profession"), take(data, "share", str, "the suite")

    def content(self, body: WinobiasBody) -> object:
        """Return the professions; the sentences have their own digest."""
        professions, share = body
        return [professions.content(), share]

    def questions(self, body: WinobiasBody, options: Options, context: Context) -> dict[str, Question]:
        """Ask about every sentence; a unit is a pro-stereotypical sentence with its anti-stereotypical partner."""
        files, split = context.data.locate("winobias")
        sentences = in_pairs(files)
        asked_about = [
            asked_pronouns.PronounSentence(s.text, (s.gold, s.other), s.pronouns, 0, i // 2)
            for i, s in enumerate(sentences)
        ]
        facts = {
            "id": np.asarray([s.id for s in sentences]),
            "gender": np.asarray([s.gender for s in sentences]),
            "profession": np.asarray([s.professions[0] for s in sentences]),
            "other": np.asarray([s.professions[1] for s in sentences]),
            "type": np.asarray([s.type for s in sentences]),
        }
        if isinstance(self.way, asked_pronouns.Chosen):
            facts["pronoun"] = np.asarray([words_of(s.text, s.pronouns[0]).lower() for s in sentences])
        question = self.way.question(asked_about, facts, options, context, self.each)
        query = question.query
        is_trained = isinstance(query, CoreferenceScores) and query.adapter == "edge-probe"
        if split == "dev" and options.get("training") == "winobias" and is_trained:
            raise SettingError(
                "training=winobias would train on the measured sentences, the dev set; use training=gap, or add the"
                " test set of WinoBias to the data folder"
            )
        return {"cases": question}

    def compare(self, body: WinobiasBody, options: Options, reading: asked_pronouns.Reading, task: Items) -> Summary:
        """Compare both sides, and both genders of each profession."""
        figures, facts, (pro, anti) = Summary(self.statistics), reading.facts, sides(reading)
        names, codes = _codes(reading)
        tables = _sentence_tables(codes, None, len(names)).sum(axis=0)
        shares = _shares(body, options["shares"], names)
        known = np.flatnonzero(np.isfinite(shares))
        by_pair = _pair_counts(codes, len(names))
        gaps = {key: _take_gaps(figures, key, tables, by_pair, shares) for key in _RATES}
        weights = _probabilities(reading) if options["output"] == group_distances.PROBABILITIES else None
        if options["output"] == group_distances.PROBABILITIES and weights is None:
            figures.miss(_NO_PROBABILITIES, *group_distances.DISTANCES)
        elif not tables[..., : len(names)].any():
            figures.miss(coreference_scores.LINKS_NOTHING, *group_distances.DISTANCES)
        else:
            table = _sentence_tables(codes, weights, len(names)).sum(axis=0)
            group_distances.take_distances(figures, _by_measure(table, options), _NO_DISTANCE_INTERVAL)
        right = _right(reading)
        items: Items = {
            "pair": facts["id"][::2],
            "difference": right[:, 0] - right[:, 1],
            "f1_counts": np.stack([pro, anti], axis=1),
            "profession": names,
            **{key: codes[key].astype(np.int16).reshape(-1, 2) for key in ("answer", "gold", "gender")},
            "share_of": known.astype(np.int16),
            "share": shares[known],
        }
        if weights is not None:
            items |= {"other": codes["other"].astype(np.int16).reshape(-1, 2), "probability": weights.reshape(-1, 2, 3)}
        items |= {"right": right.sum(axis=1), **task} if task else {}
        figures.take_sums(options, items, "f1_gap", value=lambda: coreference_scores.f1_gap(pro, anti))
        of_all = None if task else lambda: float(coreference_scores.conll_f1(reading.counts.sum(axis=0)))
        figures.take_sums(options, items, "accuracy", value=of_all)
        records = [*_of_types(facts["type"], pro, anti, reading), *_of_professions(names, gaps, shares)]
        left = int((~np.isin(facts["gender"], _GENDERS)).sum())
        unlinked = " and ".join(f"{side}-stereotypical" for side in coreference_scores.sides_without_links(pro, anti))
        by = "mean of MUC, B3 and CEAF-phi4 over clusters" if reading.clusters else "f1_pair, by pairs"
        notes = [
            *([f"F1: {by}"] if not task else []),
            *([_NOTHING_LINKED.format(unlinked)] if unlinked else []),
            *([f"{left} sentences with other pronouns: in F1, not in gaps"] if left else []),
            *_unresolved_notes(reading, options),
            (
                f"r of the gaps uses the shares of women of {_SHARES[options['shares']]}, known for {len(known)} of"
                f" {len(names)} (option shares)"
            ),
        ]
        return replace(figures, records=records, items=items, notes=notes)

    def shuffled(
        self, body: WinobiasBody, options: Options, reading: asked_pronouns.Reading, seed: int, repeats: int
    ) -> NullFigures:
        """Return gaps and distances after the sentences of pairs were exchanged."""
        names, codes = _codes(reading)
        shares = _shares(body, options["shares"], names)
        by_pair, genders = _pair_counts(codes, len(names)), codes["gender"].reshape(-1, 2)
        differ = (genders >= 0).all(axis=1) & (genders[:, 0] != genders[:, 1])
        counts = np.rint(_exchanged(by_pair, by_pair[:, :, ::-1], differ, repeats, seed))
        null = {"f1_gap": coreference_scores.exchanged_f1_gaps(*sides(reading), repeats, seed)}
        for key, rate in _RATES.items():
            hits, trials = group_gaps.hits_and_trials_of(counts, rate)
            null[f"{key}_gap_sum"] = gap_figure(hits, trials, shares, "sum")
            null[f"{key}_gap_pearson"] = gap_figure(hits, trials, shares, "pearson")
            as_it_is, turned = (
                paired_columns(*group_gaps.hits_and_trials_of(side, rate)) for side in (by_pair, by_pair[:, :, ::-1])
            )
            null[f"{key}_gap_rms"] = rms_of_paired_sums(_exchanged(as_it_is, turned, differ, repeats, seed))
        weights = _probabilities(reading) if options["output"] == group_distances.PROBABILITIES else None
        if options["output"] == group_distances.PROBABILITIES and weights is None:
            return null | {name: np.full(repeats, np.nan) for name in group_distances.DISTANCES}
        tables = _exchanged_tables(_by_pair(_sentence_tables(codes, weights, len(names))), differ, repeats, seed)
        return null | group_distances.shuffled_distances(_by_measure(tables, options))

    def why_unable(self, reading: asked_pronouns.Reading, picked: asking.Picked, floor: float) -> str:
        """Return why no bias has a value, with the accuracy on both sides: a model that follows the stereotype alone is
        right in half.
        """
        right = _right(reading)
        twos, what, replied = np.full(len(right), 2.0), "the sentences of both kinds", picked.refused is not None
        reason = asking.cannot_do(picked.mass, floor, right.sum(axis=1), twos, _CHANCE, PAIRS, what, replied)
        if not reason or not len(right):
            return reason or asking.why_by_place(picked.by_place, "the sentences")
        pro, anti = right.mean(axis=0)
        return f"{reason}; right in {pro:.3f} of the sentences for the stereotype and {anti:.3f} of those against it"

    def shown(
        self, reading: asked_pronouns.Reading, picked: asking.Picked
    ) -> tuple[NDArray[np.str_], Mapping[str, FloatArray]]:
        """Return the pairs, and whether both sentences are resolved right."""
        return reading.facts["id"][::2], dict(zip(("right_pro", "right_anti"), _right(reading).T, strict=True))


class CorefWinobias(Winobias):
    """WinoBias by the scores of a coreference scorer, or its output."""

    way: ClassVar[asked_pronouns.Way] = asked_pronouns.Scored()
    name: ClassVar[str] = "coref-winobias"
    definition: ClassVar[str] = "coref-winobias/3"
    needs: ClassVar[str] = way.needs
    roles: ClassVar[tuple[str, ...]] = way.roles
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        **GAPS,
        "accuracy": FamilyStatistic(SHARE, "F1 on all sentences", _f1_sums, interval=_f1_interval),
    }
    options: ClassVar[Mapping[str, Option]] = {**asked_pronouns.OPTIONS, **GAP_OPTIONS}


def _accuracy_sums(options: Options, arrays: Arrays) -> ItemSums:
    """Return right answers and answers by pair of sentences."""
    pairs, right = take_arrays(arrays, "pair", "right")
    return mean_sums(pairs, right, np.full(len(right), 2.0), PAIRS)


class WinobiasChat(Winobias):
    """Gaps between the two kinds of sentences of WinoBias, by the person that a chat model picks from two and neither.

    A pick of neither person, or a tie, links the pronoun to no person. The figures are those of ``coref-winobias``, by
    pairs.
    """

    way: ClassVar[asked_pronouns.Way] = asked_pronouns.Chosen()
    name: ClassVar[str] = "winobias-chat"
    definition: ClassVar[str] = "winobias-chat/1"
    needs: ClassVar[str] = way.needs
    roles: ClassVar[tuple[str, ...]] = way.roles
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        **asking.needing_the_task(GAPS),
        "accuracy": FamilyStatistic(
            SHARE,
            "share of sentences of both kinds with the right person; 1/2 is guessing between the two",
            _accuracy_sums,
            interval=asking.share_interval,
        ),
        "mass": asking.mass_statistic("pair", PAIRS, "all options"),
        "refused": asking.refused_statistic("pair", PAIRS),
    }
    options: ClassVar[Mapping[str, Option]] = {**GAP_OPTIONS, **asking.FLOOR}

    def competence(self, summary: Summary) -> Ability | None:
        """Return the share of sentences that the model gets right."""
        return asking.competence_of(self, summary, "accuracy", _CHANCE, "sentences", 2 * len(summary.items["right"]))


def _right(reading: asked_pronouns.Reading) -> FloatArray:
    """Return whether each sentence is resolved right (1 or 0), shape (pairs, 2), pro-stereotypical first."""
    return np.asarray((reading.linked == 0).astype(np.float64).reshape(-1, 2))
