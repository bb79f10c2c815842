"""The family ``sts``: similarity of "A nurse is walking" to "A woman is walking" and to "A man is walking"
(webster2020, 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar, TypeAlias

import numpy as np

from pytest_genderbias.datasets.folder import MissingDataError
from pytest_genderbias.datasets.gold_pairs import read_sentences, read_similarity, sts_templates
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.statistics import correlation
from pytest_genderbias.statistics.inference.intervals import clustered_mean_interval
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, blocks_of
from pytest_genderbias.statistics.score_bias import exchanged
from pytest_genderbias.suites.cases import Answer, Answers, IntArray, Items, Question, TextCases, take_arrays
from pytest_genderbias.suites.families.shared import occupations, paraphrases
from pytest_genderbias.suites.family import GENDERS, Context, Family, Option, one_of
from pytest_genderbias.suites.query import PairSimilarity
from pytest_genderbias.suites.space import (
    TEMPLATE,
    Axis,
    CaseSpace,
    Template,
    read_slot_with_share,
    read_templates,
    read_two_groups,
    read_word_of_each,
)
from pytest_genderbias.suites.statistic import SIGNED_SHARE, SIZE, Arrays, FamilyStatistic, NullFigures, Options, Scale
from pytest_genderbias.suites.summary import Summary, examples_of
from pytest_genderbias.text.schema import LocatedMap
from pytest_genderbias.text.template import Piece, Word, parse_template

PERSON, PROFESSION = "person", "profession"
_LINE = (PROFESSION, "difference", "professions")  #: units, values, and what units are

#: Templates with one slot, the gendered word of each group, and professions with their share of women.
StsBody: TypeAlias = paraphrases.TemplateBody[str]


def _accuracy_sums(options: Options, arrays: Arrays) -> ItemSums:
    """Return the sums of the accuracy by block of consecutive pairs."""
    pairs, sums = take_arrays(arrays, "accuracy_pairs", "accuracy_sums")
    return ItemSums(pairs, sums, "pearson", "blocks of sentence pairs")


class Sts(Family[StsBody]):
    """Similarity to the sentence with a woman minus that to the sentence with a man, correlated with the share of
    women.
    """

    name: ClassVar[str] = "sts"
    definition: ClassVar[str] = "sts/1"
    picture: ClassVar[str] = "sentence_similarity"
    needs: ClassVar[str] = "a sentence-pair regressor, or an encoder of sentences"
    roles: ClassVar[tuple[str, ...]] = ("pair-regressor", "encoder", "sentence-encoder", "masked-lm", "causal-lm")
    keys: ClassVar[tuple[str, ...]] = ("groups", "persons", "profession", "share", "templates", paraphrases.KEY)
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        **occupations.line_statistics(
            "r of the difference by profession with the share of women",
            "difference in similarity from no women to women only (least squares)",
            *_LINE,
        ),
        "mean_absolute_difference": FamilyStatistic(
            SIZE,
            "mean |difference| over professions, in units of the score",
            partial(occupations.line_sums, figure="mean_absolute", unit=_LINE[0], value=_LINE[1], over=_LINE[2]),
            partner="slope",
            crossed=True,
        ),
        "accuracy": FamilyStatistic(
            Scale("lower", 1.0, SIGNED_SHARE.limits),
            "Pearson r with the gold scores of STS-B dev",
            _accuracy_sums,
            question="accuracy",
            plot="scatter",
        ),
    }
    null_control: ClassVar[str] = (
        "the two persons are exchanged at random in each pair of sentences (template and profession)"
    )
    options: ClassVar[Mapping[str, Option]] = {
        "templates": replace(
            one_of(
                "auto",
                "stsb",
                "own",
                paraphrases.PAPER,
                paraphrases.PARAPHRASES,
                paraphrases.BOTH,
                meaning=(
                    "templates from the sentences of STS-B (test before dev), or the suite's own; auto and paper:"
                    " STS-B's if available; paraphrases: the suite's second set, which says the same as its own in"
                    " other words; both: auto's and the paraphrases"
                ),
            ),
            synonyms={paraphrases.PAPER: "auto"},
        ),
        "pooling": one_of(
            "own", "mean", "first", meaning="sentence vector of an encoder: as configured, mean, or first token"
        ),
    }

    def read(self, data: LocatedMap) -> StsBody:
        """Read groups, their words, professions and templates."""
        groups = read_two_groups(data, ("female", "male"))
        persons = tuple({PERSON: word} for word in read_word_of_each(data, "persons", groups))
        profession, share = read_slot_with_share(data, "profession")
        templates = paraphrases.read_template_sets(
            data, "templates", lambda rows: [text for text, _ in read_templates(rows, {PERSON})]
        )
        return paraphrases.TemplateBody(groups, profession, templates, share, of_groups=persons)

    def asks_gender(self, body: StsBody, options: Options) -> bool:
        """Return whether the two groups are women and men."""
        return set(body.groups) == GENDERS

    def content(self, body: StsBody) -> object:
        """Return groups, words, professions and templates."""
        persons = tuple(of_group[PERSON] for of_group in body.of_groups)
        return [body.groups, persons, body.items.content(), body.share, body.templates.first]

    def questions(self, body: StsBody, options: Options, context: Context) -> dict[str, Question]:
        """Ask for the similarity of every pair of sentences, and of the pairs of STS-B dev."""
        query = PairSimilarity(options["pooling"])
        questions = {"cases": Question(_space(body, _templates(body, options["templates"], context)), query)}
        try:
            rows = read_similarity(context.data.find("stsb", "dev"))
        except MissingDataError:
            return questions
        gold = np.asarray([score for *_, score in rows], dtype=np.float64)
        cases = TextCases([(first, second) for first, second, _ in rows], facts={"gold": gold})
        return {**questions, "accuracy": Question(cases, query)}

    def summarise(self, body: StsBody, options: Options, answers: Answers, seed: int) -> Summary:
        """Correlate the difference by profession with the share of women; intervals over professions."""
        scores = answers["cases"]
        space: CaseSpace = scores.cases
        seen, profession, share = _professions(body, scores)
        n = np.bincount(profession, minlength=len(seen))
        by_group = np.stack([np.bincount(profession, scores.values[:, g, 0], len(seen)) / n for g in (0, 1)], axis=1)
        bias = by_group[:, 0] - by_group[:, 1]
        figures = Summary(self.statistics)
        occupations.take_line(figures, share, bias, "professions")
        figures.take(
            "mean_absolute_difference",
            lambda: float(np.abs(bias).mean()),
            lambda: clustered_mean_interval(np.abs(bias), np.ones(len(bias)), "professions", bounds=(0.0, np.inf)),
            over="professions",
        )
        _take_accuracy(figures, answers.get("accuracy"))
        labels = [space.words[PROFESSION][i].label for i in seen]
        items = {"profession": np.asarray(labels), "difference": bias, "share": share, "n": n}
        items |= _accuracy_items(answers.get("accuracy"))
        of_labels, more = {"profession": labels, "difference": bias.tolist()}, {"women_share": share}
        records = occupations.records_of_groups(of_labels, body.groups, by_group, more)
        examples = examples_of(
            labels,
            profession,
            scores.units,
            lambda unit: " | ".join(" ~ ".join(pair) for pair in space.sentences(space.cases_of(np.array([unit])))),
            {f"similarity ({group})": scores.values[:, k, 0] for k, group in enumerate(body.groups)},
        )
        return replace(
            figures,
            records=records,
            items=items,
            unstored=_by_template(scores, profession, len(seen)),
            examples=examples,
        )

    def null(self, body: StsBody, options: Options, answers: Answers, seed: int, repeats: int) -> NullFigures:
        """Return r, slope and mean absolute difference of exchanged persons."""
        scores = answers["cases"]
        seen, profession, share = _professions(body, scores)
        difference = scores.values[:, 0, 0] - scores.values[:, 1, 0]
        bias = exchanged(difference, profession, len(seen), repeats, seed) / np.bincount(profession)
        totals = correlation.product_sums(share, bias).sum(axis=1)
        return {
            "pearson_r": correlation.pearson_of_sums(totals),
            "slope": correlation.slope_of_sums(totals),
            "mean_absolute_difference": np.abs(bias).mean(axis=1),
        }


def _professions(body: StsBody, answer: Answer) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the scored professions, the position of each unit's profession in them, and their share of women (0 to
    1).
    """
    space: CaseSpace = answer.cases
    of_cases = space.columns(space.cases_of(answer.units))[PROFESSION].reshape(-1, 2)[:, 0]
    seen, of_units = np.unique(of_cases, return_inverse=True)
    return seen, of_units, body.shares()[seen]


def _by_template(answer: Answer, profession: IntArray, professions: int) -> Items:
    """Return the sums of the differences, and their number, by profession and template."""
    space: CaseSpace = answer.cases
    template = space.columns(space.cases_of(answer.units))[TEMPLATE].reshape(-1, 2)[:, 0]
    shape = professions, len(space.templates)
    cell = np.ravel_multi_index((profession, template), shape)
    difference = answer.values[:, 0, 0] - answer.values[:, 1, 0]
    texts = space.sentences(np.arange(len(space.templates)) * space.cases_per_unit * len(space.words[PROFESSION]))
    return {
        "template": np.asarray([first for first, _ in texts]),
        "template_difference": np.bincount(cell, difference, shape[0] * shape[1]).reshape(shape),
        "template_n": np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape),
    }


def _templates(body: StsBody, sets: str, context: Context) -> tuple[str, ...]:
    """Return the templates that the option ``templates`` selects, each once."""
    if sets == "own":
        return body.templates.first
    if sets == paraphrases.PARAPHRASES:
        return body.templates.of(sets)
    first = _first_templates(body, sets, context)
    if sets != paraphrases.BOTH:
        return first
    own = set(body.templates.first)
    return tuple(dict.fromkeys((*first, *(text for text in body.templates.of(paraphrases.BOTH) if text not in own))))


def _first_templates(body: StsBody, sets: str, context: Context) -> tuple[str, ...]:
    """Return the templates of STS-B, or the suite's own where STS-B is missing.

    Raises:
        MissingDataError: STS-B is missing, and the option names it.
        DataFileError: STS-B has no such sentence.
    """
    try:
        path = context.data.find("stsb")
    except MissingDataError:
        if sets == "stsb":
            raise
        return body.templates.first
    templates = sts_templates(read_sentences(path))
    if not templates:
        raise DataFileError(
            f"{path}: no sentence starts with 'A man' or 'A woman' and has no other gendered word; "
            "use the suite's own templates with the option templates=own"
        )
    return templates


def _space(body: StsBody, templates: tuple[str, ...]) -> CaseSpace:
    """Return the cases, templates x professions x persons; a unit is a template and a profession with both persons."""
    persons = tuple(Word.of(of_group[PERSON]) for of_group in body.of_groups)
    words = {PERSON: persons, PROFESSION: body.items.words()}
    axes = (Axis.whole(TEMPLATE, len(templates)), Axis.whole(PROFESSION, len(words[PROFESSION])), Axis.whole(PERSON, 2))
    return CaseSpace(tuple(_template(text) for text in templates), words, axes, unit_axes=2)


def _template(text: str) -> Template:
    person = parse_template(text)
    profession = tuple(Piece(p.lead, p.text, PROFESSION if p.slot else "", p.article) for p in person)
    return Template((person, profession))


def _take_accuracy(figures: Summary, answer: Answer | None) -> None:
    if answer is None:
        figures.miss(
            "the STS-B dev set is missing: name its folder with --bias-data (docs/reference/data.md)", "accuracy"
        )
        return
    gold, similarity = _gold_and_similarity(answer)
    figures.take(
        "accuracy",
        lambda: correlation.pearson(gold, similarity),
        lambda: correlation.pearson_interval(gold, similarity, "sentence pairs"),
        "too few sentence pairs, or all on a line",
    )


def _gold_and_similarity(answer: Answer) -> tuple[FloatArray, FloatArray]:
    """Return the gold scores of the scored pairs and what the model gives, in the order of the cases."""
    numbers, values = answer.scored_cases()
    return np.asarray(answer.cases.facts["gold"], dtype=np.float64)[numbers], values[:, 0].astype(np.float64)


def _accuracy_items(answer: Answer | None) -> Items:
    """Return the sums for r of gold scores and predictions, by block of consecutive pairs."""
    if answer is None:
        return {}
    sums = correlation.product_sums(*_gold_and_similarity(answer))
    labels, block = blocks_of(len(sums), "pairs")
    by_block = np.stack([np.bincount(block, column) for column in sums.T], axis=1)
    return {"accuracy_pairs": labels, "accuracy_sums": by_block}
