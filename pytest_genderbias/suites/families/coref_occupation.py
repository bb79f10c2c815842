"""The family ``coref-occupation``: coreference score of an occupation with "he" minus that with "she" (lu2018, section
3).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import ClassVar, TypeAlias

import numpy as np

from pytest_genderbias.datasets.mentions import with_determiner
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.suites.cases import Answers, Question, Spans, TextCases
from pytest_genderbias.suites.families.shared import asked_pronouns, occupations
from pytest_genderbias.suites.families.shared.paraphrases import KEY, TEMPLATES, TemplateBody, read_template_sets
from pytest_genderbias.suites.family import GENDERS, Context, Family, Option
from pytest_genderbias.suites.space import read_slot, read_templates, read_two_groups, read_word_of_each
from pytest_genderbias.suites.statistic import FamilyStatistic, NullFigures, Options
from pytest_genderbias.suites.summary import Summary
from pytest_genderbias.text.schema import LocatedList, LocatedMap
from pytest_genderbias.text.template import Piece, Word, piece_texts

OCCUPATION, PRONOUN = "occupation", "pronoun"

#: Occupations, the pronoun of each of two groups, and templates with both slots, each as text and in pieces.
CorefOccupationBody: TypeAlias = TemplateBody[tuple[str, tuple[Piece, ...]]]


class CorefOccupation(Family[CorefOccupationBody]):
    """Score of (occupation, pronoun) with the pronoun of the first group minus that of the second, in sentences of
    lu2018.
    """

    name: ClassVar[str] = "coref-occupation"
    definition: ClassVar[str] = "coref-occupation/1"
    picture: ClassVar[str] = "occupation_bars"
    needs: ClassVar[str] = asked_pronouns.NEEDS
    roles: ClassVar[tuple[str, ...]] = asked_pronouns.SCORING_ROLES
    keys: ClassVar[tuple[str, ...]] = ("groups", "pronouns", "occupation", "templates", KEY)
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = occupations.bias_statistics(
        "mean |B(o)| over occupations, in units of this model's score (AOB)",
        "mean B(o), in units of this model's score; positive = the first group",
    )
    null_control: ClassVar[str] = "the two pronouns are exchanged at random in each template of each occupation"
    options: ClassVar[Mapping[str, Option]] = {**asked_pronouns.OPTIONS, "templates": TEMPLATES}

    def read(self, data: LocatedMap) -> CorefOccupationBody:
        """Read groups, their pronouns, occupations and templates."""
        groups = read_two_groups(data, ("male", "female"))
        pronouns = tuple({PRONOUN: word} for word in read_word_of_each(data, "pronouns", groups))
        templates = read_template_sets(data, "templates", _parse)
        return TemplateBody(groups, read_slot(data, OCCUPATION), templates, of_groups=pronouns)

    def asks_gender(self, body: CorefOccupationBody, options: Options) -> bool:
        """Return whether the two groups are women and men."""
        return set(body.groups) == GENDERS

    def content(self, body: CorefOccupationBody) -> object:
        """Return groups, pronouns, occupations and templates."""
        pronouns = tuple(of_group[PRONOUN] for of_group in body.of_groups)
        return [body.groups, pronouns, body.items.content(), [text for text, _ in body.templates.first]]

    def questions(self, body: CorefOccupationBody, options: Options, context: Context) -> dict[str, Question]:
        """Ask for the score of every sentence; a unit is an occupation with all templates, both pronouns of each."""
        query = asked_pronouns.coreference_query(options, context, 1)
        words = body.items.words()
        templates = body.templates.of(options["templates"])
        made = [_case(*row) for row in product(words, (pieces for _, pieces in templates), body.of_groups)]
        labels = np.repeat([word.label for word in words], len(templates) * 2)
        facts = {"occupation": labels, **asked_pronouns.scorer_facts(query, len(made))}
        cases = TextCases([(text,) for text, _ in made], [s for _, s in made], facts, len(templates) * 2)
        return {"cases": Question(cases, query)}

    def summarise(self, body: CorefOccupationBody, options: Options, answers: Answers, seed: int) -> Summary:
        """Return AOB and signed AOB with intervals over occupations."""
        answer, words = answers["cases"], body.items.words()
        templates = [text for text, _ in body.templates.of(options["templates"])]
        scores = occupations.scores_by_group(answer, len(templates))
        labels = [words[unit].label for unit in answer.units]
        notes = [
            asked_pronouns.scorer_note(answer.cases),
            "raw scores: compare them only within one model and its mitigated versions",
        ]
        means = scores.mean(axis=1)
        return occupations.bias_summary(
            self.statistics, answer, labels, scores, means, body.groups, templates, "score", notes
        )

    def null(
        self, body: CorefOccupationBody, options: Options, answers: Answers, seed: int, repeats: int
    ) -> NullFigures:
        """Return AOB and signed AOB after the groups were exchanged at random."""
        scores = occupations.scores_by_group(answers["cases"], len(body.templates.of(options["templates"])))
        return occupations.shuffled_biases(scores, repeats, seed)


def _parse(rows: LocatedList) -> list[tuple[str, tuple[Piece, ...]]]:
    """Return the templates of a list.

    Raises:
        DataFileError: one does not have each slot once.
    """
    templates = read_templates(rows, {OCCUPATION, PRONOUN})
    for (_, pieces), line in zip(templates, rows.lines, strict=True):
        if sorted(piece.slot for piece in pieces if piece.slot and not piece.article) != [OCCUPATION, PRONOUN]:
            raise DataFileError(f"{rows.file}:{line}: a template should have each slot once")
    return templates


def _case(word: Word, pieces: tuple[Piece, ...], of_group: Mapping[str, str]) -> tuple[str, Spans]:
    """Return a sentence, the span of the occupation with its determiner, and that of the pronoun."""
    words = {OCCUPATION: word, PRONOUN: Word.of(of_group[PRONOUN])}
    texts = piece_texts(pieces, lambda slot: words[slot], "")
    text, spans, end = "".join(texts), {}, 0
    for piece, part in zip(pieces, texts, strict=True):
        if piece.slot and not piece.article:
            spans[piece.slot] = end + len(piece.lead), end + len(part)
        end += len(part)
    return text, (with_determiner(text, spans[OCCUPATION]), spans[PRONOUN])
