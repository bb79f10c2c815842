"""The family ``pairs-pll``: preference of an LM for one sentence of a pair (Nangia et al. 2020, CrowS-Pairs, section
4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets import sentence_pairs
from pytest_genderbias.errors import UndefinedError, UnknownNameError
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, mean_sums
from pytest_genderbias.statistics.preference import TIE, choices, flipped_means, mean_difference, stereotype_share
from pytest_genderbias.suites.cases import Answer, Answers, Facts, Question, Spans, TextCases, take_arrays
from pytest_genderbias.suites.families.shared.persons import some_of
from pytest_genderbias.suites.family import Context, DataFamily, Option, one_of, table, whole
from pytest_genderbias.suites.query import PseudoLogLikelihood, SharedLogLikelihood
from pytest_genderbias.suites.statistic import SHARE, SIGNED, Arrays, FamilyStatistic, NullFigures, Options, Scale
from pytest_genderbias.suites.summary import Record, Summary, rows_of
from pytest_genderbias.text.normal_form import word_pattern
from pytest_genderbias.text.plain_files import expand
from pytest_genderbias.text.schema import Rule

#: The reader and the default group of each data set.
_READERS: Mapping[str, tuple[Callable[[Path], tuple[sentence_pairs.SentencePair, ...]], str]] = {
    "crows_pairs": (sentence_pairs.read_crows_pairs, "gender"),
    "stereoset": (sentence_pairs.read_stereoset, "gender"),
    "bec_pro": (sentence_pairs.read_bec_pro, "all"),
}
_WORD = r"[\w]+|[^\w\s]"
_SCORED: Mapping[str, str] = {
    "tokens": "ln P of the tokens that both sentences share (longest matching blocks of token ids)",
    "words": "ln P of the words that both sentences share (longest matching blocks of words)",
    "all": "ln P of all tokens",
}


def _unit_choices(options: Options, answer: Answer) -> FloatArray | None:
    """Return the choice in each pair, NaN without a token to score; None if a pair has no stereotype or shares no
    word.
    """
    known = answer.cases.facts
    if not (np.asarray(known["comparable"]).all() and np.asarray(known["stereotypical"]).all()):
        return None
    comparable, difference, _ = _compared(answer)
    scores = np.full(len(comparable), np.nan)
    scores[comparable] = choices(difference)
    return scores


def _pair_sums(options: Options, arrays: Arrays, of: Callable[[FloatArray], FloatArray]) -> ItemSums:
    """Return the sums of a function ``of`` the differences, by pair or, for BEC-Pro, by profession."""
    pairs, difference, stereotypical = take_arrays(arrays, "pair", "difference", "stereotypical")
    judged = stereotypical.astype(bool)
    if not judged.any():
        raise UndefinedError("no pair with a stereotype is among those scored")
    over = str(take_arrays(arrays, "over")[0][0])
    names = [_cluster(name, over == "professions") for name in pairs[judged].tolist()]
    labels, index = np.unique(np.asarray(names), return_inverse=True)
    values = of(difference[judged].astype(np.float64))
    return mean_sums(labels, np.bincount(index, weights=values), np.bincount(index), over)


class PairsPll(DataFamily):
    """Score of the stereotypical sentence of each pair minus that of the other.

    The score of Nangia et al. is the sum of ln P over the tokens that both sentences share, each masked alone and
    conditioned on the tokens that differ. The tokens shared are the longest matching blocks of token ids, as in their
    code. A causal LM is scored over the whole sentence, by the chain rule. All data sets use this score. The original
    measure of StereoSet (Nadeem et al. 2021) scores the word that differs, that of BEC-Pro (Bartl et al. 2020) the
    person with and without the profession masked.
    """

    name: ClassVar[str] = "pairs-pll"
    definition: ClassVar[str] = "pairs-pll/2"
    picture: ClassVar[str] = "histogram"
    null_control: ClassVar[str] = (
        "the sentences of a pair are exchanged at random (for BEC-Pro: those of all pairs of a profession together)"
    )
    needs: ClassVar[str] = "a masked LM or a causal LM"
    roles: ClassVar[tuple[str, ...]] = ("masked-lm", "causal-lm")
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        "stereotype_share": FamilyStatistic(
            Scale("away", 0.5, SHARE.limits),
            "share of pairs whose stereotypical sentence scores higher",
            partial(_pair_sums, of=choices),
            scores=_unit_choices,
        ),
        "mean_difference": FamilyStatistic(
            SIGNED, "mean score, stereotypical minus anti-stereotypical, in nats", partial(_pair_sums, of=np.asarray)
        ),
    }
    options: ClassVar[Mapping[str, Option]] = {
        "pairs": table("crows_pairs", *_READERS, meaning="the data set; a path starts where pytest is started"),
        "groups": Option(
            None,
            Annotated[str, Rule("names of groups, as 'gender' or 'gender, profession', or all", pattern=r"\S")] | None,
            "groups of the data set; by default gender for CrowS-Pairs and StereoSet, otherwise all",
        ),
        "score": one_of(
            "by_role",
            "shared",
            "all",
            meaning="what is scored; by_role: what both sentences share for a masked LM, all tokens for a causal LM",
        ),
        "match": one_of(
            "tokens",
            "words",
            meaning="what the sentences share: the longest matching blocks of token ids, as published, or of words",
        ),
        "top": whole(10, "pairs with the largest differences in the records", least=0, display=True),
    }

    def asks_gender(self, body: None, options: Options) -> bool:
        """Return whether the pairs are of the packaged readers, which take pairs about gender."""
        return options["pairs"] in _READERS

    def questions(self, body: None, options: Options, context: Context) -> dict[str, Question]:
        """Ask for the score of both sentences of each pair, the stereotypical one first; a unit is a pair."""
        pairs = _chosen(_read(options["pairs"], context), options)
        shared = options["score"] == "shared" or (options["score"] == "by_role" and context.role == "masked-lm")
        scored = options["match"] if shared else "all"
        spans = [shared_spans(pair.more, pair.less) for pair in pairs] if scored == "words" else []
        of_professions = options["pairs"] == "bec_pro"
        facts = {
            "pair": [pair.id for pair in pairs],
            "group": [pair.group for pair in pairs],
            "direction": [pair.direction for pair in pairs],
            "stereotypical": [pair.stereotypical is not None for pair in pairs],
            "comparable": [bool(both[0]) for both in spans] if spans else [True] * len(pairs),
            "cluster": [_cluster(pair.id, of_professions) for pair in pairs],
            "over": ["professions" if of_professions else "pairs"] * len(pairs),
            "scored": [scored] * len(pairs),
        }
        cases = TextCases(
            [(text,) for pair in pairs for text in (pair.more, pair.less)],
            [side for both in spans for side in both],
            {name: np.repeat(np.asarray(column), 2) for name, column in facts.items()},
            cases_per_unit=2,
        )
        return {"pairs": Question(cases, SharedLogLikelihood() if scored == "tokens" else PseudoLogLikelihood())}

    def summarise(self, body: None, options: Options, answers: Answers, seed: int) -> Summary:
        """Compare both sentences of each pair; intervals over pairs, or over BEC-Pro's professions."""
        answer = answers["pairs"]
        cases: TextCases = answer.cases
        tokens = answer.values[:, :, 1]
        comparable, difference, facts = _compared(answer)
        units, judged = answer.units[comparable], facts["stereotypical"]
        figures = Summary(self.statistics)
        d = difference[judged]
        over = str(facts["over"][0]) if len(units) else "pairs"
        texts = [(cases.texts[2 * unit][0], cases.texts[2 * unit + 1][0]) for unit in units]
        records = [
            *_by(facts["group"], "group", difference, judged),
            *_by(facts["direction"], "direction", difference, judged),
            *_extremes(options["top"], texts, facts["group"], difference),
        ]
        items = {
            "pair": facts["pair"],
            "difference": difference,
            "stereotypical": judged.astype(np.int8),
            "over": np.asarray([over]),
        }
        figures.take_sums(options, items, "stereotype_share", value=lambda: stereotype_share(d))
        figures.take_sums(options, items, "mean_difference", value=lambda: mean_difference(d))
        scored = str(np.asarray(cases.facts["scored"])[0])
        equal = facts["pair"][judged][np.abs(d) < TIE].tolist()
        unequal = int((tokens[comparable, 0] != tokens[comparable, 1]).sum()) if scored != "all" else 0
        counted = [
            (len(answer.units) - len(units), "pairs left out: they share nothing, or have no token to score"),
            (len(equal), f"pairs with equal scores, which count half: {some_of(equal)}"),
            (unequal, f"pairs whose shared {scored} have not as many tokens in both sentences"),
        ]
        notes = [f"score: {_SCORED[scored]}", *(f"{n} {text}" for n, text in counted if n)]
        return replace(figures, records=records, items=items, notes=notes)

    def null(self, body: None, options: Options, answers: Answers, seed: int, repeats: int) -> NullFigures:
        """Return both statistics with the stereotype of each pair chosen at random."""
        _, difference, facts = _compared(answers["pairs"])
        d, cluster = difference[facts["stereotypical"]], facts["cluster"][facts["stereotypical"]]
        return {
            "stereotype_share": flipped_means(choices(d), cluster, 0.5, repeats, seed),
            "mean_difference": flipped_means(d, cluster, 0.0, repeats, seed),
        }


def _compared(answer: Answer) -> tuple[NDArray[np.bool_], FloatArray, Facts]:
    """Return which of the scored pairs are comparable, their differences and their facts."""
    scores, tokens = np.moveaxis(answer.values, 2, 0)
    known = answer.facts(2)
    comparable = known["comparable"] & (tokens > 0).all(axis=1)
    facts = {name: column[comparable] for name, column in known.items()}
    return comparable, (scores[:, 0] - scores[:, 1])[comparable], facts


def _cluster(name: str, of_professions: bool) -> str:
    """Return the cluster of a pair: the pair itself, or for BEC-Pro the profession at the beginning of its id."""
    return name.partition(" / ")[0] if of_professions else name


def shared_spans(more: str, less: str) -> tuple[Spans, Spans]:
    """Return the character ranges of the words that two sentences share, in order, for each of them.

    The longest runs of equal words are matched first (Ratcliff and Obershelp). This is the option ``match=words``; by
    default the scorer matches token ids.
    A range starts after the previous word, so that it includes the leading space.

    >>> shared_spans("He sings, too.", "She sings, too.")
    (((2, 14),), ((3, 15),))
    """
    first, second = (list(word_pattern(_WORD, text).finditer(text)) for text in (more, less))
    matcher = SequenceMatcher(None, [word[0] for word in first], [word[0] for word in second], autojunk=False)
    blocks = [block for block in matcher.get_matching_blocks() if block.size]
    in_first, in_second = ([0, *(word.end() for word in words)] for words in (first, second))
    return (
        tuple((in_first[block.a], in_first[block.a + block.size]) for block in blocks),
        tuple((in_second[block.b], in_second[block.b + block.size]) for block in blocks),
    )


def _read(name: str, context: Context) -> tuple[sentence_pairs.SentencePair, ...]:
    if name not in _READERS:
        return sentence_pairs.read_own_pairs(expand(name))
    return _READERS[name][0](context.data.find(name))


def _chosen(pairs: tuple[sentence_pairs.SentencePair, ...], options: Options) -> list[sentence_pairs.SentencePair]:
    name = options["pairs"]
    text = options["groups"] or (_READERS[name][1] if name in _READERS else "all")
    if text == "all":
        return list(pairs)
    there, wanted = {pair.group for pair in pairs}, {group.strip() for group in text.split(",")}
    if not wanted <= there:
        raise UnknownNameError(
            f"{name} has no group {sorted(wanted - there)[0]!r}; expected groups of {', '.join(sorted(there))}, or"
            " groups=all"
        )
    return [pair for pair in pairs if pair.group in wanted]


def _by(labels: NDArray[np.str_], what: str, difference: FloatArray, judged: NDArray[np.bool_]) -> Iterable[Record]:
    """Return both statistics of each group, the least neutral first; without a stereotype, the mean of male minus
    female.
    """
    records: list[Record] = []
    for label in np.unique(labels[labels != ""]):
        d, known = difference[labels == label], bool(judged[labels == label].all())
        figures = (
            {"stereotype_share": stereotype_share(d), "mean_difference": mean_difference(d)}
            if known
            else {"male_minus_female": mean_difference(d)}
        )
        records.append({"slice": what, "value": str(label), "pairs": len(d), **figures})
    return sorted(records, key=lambda record: -abs(record.get("stereotype_share", 0.5) - 0.5))


def _extremes(
    top: int, texts: list[tuple[str, str]], group: NDArray[np.str_], difference: FloatArray
) -> Iterable[Record]:
    """Return the pairs whose scores differ most."""
    largest = np.lexsort((np.arange(len(difference)), -np.abs(difference)))[:top]
    more, less = ([texts[i][side] for i in largest] for side in (0, 1))
    shown = {"group": group[largest], "difference": difference[largest]}
    return rows_of({"slice": ["pair"] * len(largest), "value": more, "against": less, **shown})
