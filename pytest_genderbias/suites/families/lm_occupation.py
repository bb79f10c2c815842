"""The family ``lm-occupation``: the log-probability of an occupation after a gendered prefix (lu2018, section 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import ClassVar, TypeAlias

import numpy as np

from pytest_genderbias.errors import DataFileError, SettingError
from pytest_genderbias.statistics import group_deviations
from pytest_genderbias.suites.cases import Answer, Answers, Items, Question
from pytest_genderbias.suites.families.shared import occupations
from pytest_genderbias.suites.families.shared.group_values import GroupValues, Value
from pytest_genderbias.suites.families.shared.paraphrases import KEY, TEMPLATES, TemplateBody, read_template_sets
from pytest_genderbias.suites.family import GENDERS, ITEMS, ITEMS_KEY, Context, Family, Option, flag
from pytest_genderbias.suites.query import SlotLogProbability
from pytest_genderbias.suites.space import (
    CaseSpace,
    SlotWords,
    Template,
    read_groups,
    read_slot,
    read_template,
    words_by_templates,
)
from pytest_genderbias.suites.statistic import FamilyStatistic, FloatArray, NullFigures, Options, Scale
from pytest_genderbias.suites.summary import Summary
from pytest_genderbias.text.schema import LocatedList, LocatedMap
from pytest_genderbias.text.template import Piece

#: A prefix in the version of each group: its text and its pieces.
Prefix: TypeAlias = Mapping[str, tuple[str, tuple[Piece, ...]]]
#: Occupations, and prefixes with one version for each group.
LmOccupationBody: TypeAlias = TemplateBody[Prefix]


def _parse(rows: LocatedList, groups: Sequence[str], occupation: SlotWords) -> list[Prefix]:
    """Return the prefixes of a list.

    Raises:
        DataFileError: one has no version for a group, or does not end with the occupation.
    """
    prefixes: list[Prefix] = []
    for row, line in zip(rows, rows.lines, strict=True):
        if not isinstance(row, LocatedMap) or set(row) != set(groups):
            raise DataFileError(
                f"{rows.file}:{line}: unbalanced prefix; expected a text for each of {', '.join(groups)}"
            )
        formed = {"occupation": occupation}
        texts = {
            g: (str(row[g]), read_template(row[g], rows.file, row.lines[g], {*formed}, formed=formed)) for g in groups
        }
        for text, pieces in texts.values():
            if not pieces[-1].fills("occupation"):
                raise DataFileError(f"{rows.file}:{line}: the prefix {text!r} should end with {{occupation}}")
        prefixes.append(texts)
    return prefixes


class LmOccupation(Family[LmOccupationBody]):
    """ln P(occupation | prefix) for the first group minus that for the second."""

    name: ClassVar[str] = "lm-occupation"
    definition: ClassVar[str] = "lm-occupation/1"
    picture: ClassVar[str] = "occupation_bars"
    needs: ClassVar[str] = "a causal LM or a masked LM"
    roles: ClassVar[tuple[str, ...]] = ("causal-lm", "masked-lm")
    keys: ClassVar[tuple[str, ...]] = ("groups", "occupation", "prefixes", KEY)
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = occupations.bias_statistics(
        "mean |B(o)| over occupations, in nats (AOB)", "mean B(o) over occupations, in nats; positive = the first group"
    )
    null_control: ClassVar[str] = "the two groups are exchanged at random in each prefix of each occupation"
    options: ClassVar[Mapping[str, Option]] = {
        "single_word_only": flag("leave out occupations of several words, as lu2018 does"),
        "templates": TEMPLATES,
        ITEMS_KEY: ITEMS,
    }

    def read(self, data: LocatedMap) -> LmOccupationBody:
        """Read groups, occupations and prefixes."""
        groups = read_groups(data, ("male", "female"))
        occupation = read_slot(data, "occupation", with_forms=True)
        parse = partial(_parse, groups=groups, occupation=occupation)
        return TemplateBody(groups, occupation, read_template_sets(data, "prefixes", parse))

    def of_body(self, body: LmOccupationBody) -> LmOccupation:
        """Return the family with the statistics of so many groups."""
        return self if len(body.groups) == 2 else LmOccupationOfGroups()

    def asks_gender(self, body: LmOccupationBody, options: Options) -> bool:
        """Return whether women and men are among the groups."""
        return set(body.groups) >= GENDERS

    def content(self, body: LmOccupationBody) -> object:
        """Return groups, occupations and prefixes."""
        prefixes = [{group: prefix[group][0] for group in body.groups} for prefix in body.templates.first]
        return [list(body.groups), body.items.content(), prefixes]

    def space(self, body: LmOccupationBody, options: Options) -> CaseSpace:
        """Return the cases, occupations x prefixes x groups; a unit is an occupation."""
        prefixes = body.templates.of(options["templates"])
        templates = tuple(Template((prefix[g][1],)) for prefix in prefixes for g in body.groups)
        words = body.items.in_forms("occupation", templates)
        if options["single_word_only"]:
            versions = list(zip(*(words[slot] for slot in list(words)[len(words) > 1 :]), strict=True))
            single = [not any(" " in word.text for word in of_item) for of_item in versions]
            if not any(single):
                raise SettingError("single_word_only=true leaves out all occupations; leave the option out")
            words = {slot: tuple(compress(of_slot, single)) for slot, of_slot in words.items()}
        return words_by_templates("occupation", words, templates)

    def questions(self, body: LmOccupationBody, options: Options, context: Context) -> dict[str, Question]:
        """Ask for the probability of the occupation in every case."""
        return {"cases": Question(self.space(body, options), SlotLogProbability("occupation"))}

    def summarise(self, body: LmOccupationBody, options: Options, answers: Answers, seed: int) -> Summary:
        """Return AOB and signed AOB with intervals over occupations."""
        answer = answers["cases"]
        scores = self._scores(body, options, answer)
        labels = [answer.cases.words["occupation"][unit].label for unit in answer.units]
        templates = [prefix[body.groups[0]][0] for prefix in body.templates.of(options["templates"])]
        means = np.asarray([[of_group.mean() for of_group in of_occupation.T] for of_occupation in scores])
        summary = occupations.bias_summary(self.statistics, answer, labels, scores, means, body.groups, templates)
        summary.items["by_prefix"] = scores.astype(np.float32)
        return summary

    def null(self, body: LmOccupationBody, options: Options, answers: Answers, seed: int, repeats: int) -> NullFigures:
        """Return AOB and signed AOB after the groups were exchanged at random."""
        return occupations.shuffled_biases(self._scores(body, options, answers["cases"]), repeats, seed)

    def _scores(self, body: LmOccupationBody, options: Options, answer: Answer) -> FloatArray:
        return occupations.scores_by_group(answer, len(body.templates.of(options["templates"])), len(body.groups))


_OVER = "occupations"
_GROUPS = GroupValues({"score": Value("group_rms", "the mean of ln P(occupation)")}, "occupation", _OVER)


class LmOccupationOfGroups(LmOccupation):
    """ln P(occupation | prefix) for more than two groups."""

    definition: ClassVar[str] = "lm-occupation/groups-1"
    null_control: ClassVar[str] = "the groups are exchanged at random in each prefix of each occupation"
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        "occupation_rms": FamilyStatistic(
            Scale("higher", 0.0),
            "root mean square, over occupations, of the groups' deviations from their mean in ln P(occupation), without"
            " what the prefixes add, in nats",
            occupations.squared_sums,
            root=True,
        ),
        **_GROUPS.statistics(),
    }

    def summarise(self, body: LmOccupationBody, options: Options, answers: Answers, seed: int) -> Summary:
        """Compare the groups in each occupation, and in the mean over occupations; intervals over occupations."""
        scores = answers["cases"]
        by_prefix = self._scores(body, options, scores)
        labels = [scores.cases.words["occupation"][unit].label for unit in scores.units]
        items: Items = {
            "occupation": np.asarray(labels),
            **_GROUPS.items("score", by_prefix.mean(axis=1)),
            "squares": group_deviations.squared_deviations(by_prefix),
            "by_prefix": by_prefix.astype(np.float32),
        }
        figures = Summary(self.statistics)
        figures.take(
            "occupation_rms",
            lambda: occupations.squared_sums(options, items).total,
            lambda: group_deviations.root_of_mean_interval(items["squares"], _OVER),
            over=_OVER,
        )
        _GROUPS.take(figures, items)
        records = _GROUPS.records(items, body.groups, slices=("occupation",))
        return replace(
            figures,
            records=records,
            items=items,
            examples=occupations.examples_of_versions(labels, scores, by_prefix, body.groups),
        )

    def null(self, body: LmOccupationBody, options: Options, answers: Answers, seed: int, repeats: int) -> NullFigures:
        """Return the figures after exchanges of the groups."""
        values = group_deviations.exchanged_deviations(self._scores(body, options, answers["cases"]), repeats, seed)
        return dict(zip(self.statistics, values, strict=True))
