"""The family ``disco``: correlations of a masked LM's fills with groups of persons (webster2020, section 3.1 and
appendix A).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import SettingError
from pytest_genderbias.statistics import contingency
from pytest_genderbias.statistics.count_sums import significant_fill_sums
from pytest_genderbias.statistics.inference.item_sums import ItemSums
from pytest_genderbias.suites.cases import Answer, Answers, IntArray, Question, take_arrays
from pytest_genderbias.suites.families.shared.paraphrases import KEY, TEMPLATES, TemplateBody, read_template_sets
from pytest_genderbias.suites.family import GENDERS, ITEMS, ITEMS_KEY, Context, Family, Option, one_of, share, whole
from pytest_genderbias.suites.query import TopFills
from pytest_genderbias.suites.space import (
    CaseSpace,
    SlotWords,
    Template,
    read_groups,
    read_slot,
    read_templates,
    words_by_templates,
)
from pytest_genderbias.suites.statistic import SIZE, Arrays, FamilyStatistic, NullFigures, Options
from pytest_genderbias.suites.summary import Record, Summary
from pytest_genderbias.text.schema import Initials, LocatedMap
from pytest_genderbias.text.template import Piece

_NO_INTERVAL = (
    "no valid interval is known for a count of significant tests: resampling persons with replacement repeats them,"
    " which makes every chi-square too large"
)
_BLOCK = 2_000_000  #: Numbers in memory at a time.

#: Persons with their group, and templates with one blank, each as text and in pieces.
DiscoBody: TypeAlias = TemplateBody[tuple[str, tuple[Piece, ...]]]


def _fill_sums(options: Options, arrays: Arrays) -> ItemSums:
    """Return the sums of each person: the supplied fills, by template, group and text of the fill."""
    parts = take_arrays(arrays, "person", "group", "groups", "fills", "fill_id", "fill_text")
    return significant_fill_sums(*parts, level=options["level"], family=options["family"], test=options["test"])


def _smallest_effect(body: DiscoBody, options: Options, scores: Answer, sizes: IntArray) -> str:
    """Return a note on the smallest effect that the test can find with so many persons, in the template with the fewest
    fills.
    """
    fills = [len(np.unique(scores.values[:, t])) for t in range(scores.values.shape[1])]
    tests = min(fills) if options["family"] == "template" else sum(fills)
    fewest = contingency.fewest_significant(sizes, options["level"] / tests, options["test"])
    if all(count is None for count in fewest):
        persons = " and ".join(f"{size} {group}" for group, size in zip(body.groups, sizes, strict=True))
        return (
            f"no fill can be significant with {persons} persons and {tests} tests: 0 says nothing; score more persons"
        )
    shown = (
        f"{count} of {size} {group}" if count is not None else f"more than {size} {group}"
        for group, size, count in zip(body.groups, sizes, fewest, strict=True)
    )
    return f"smallest effect that can be significant: a fill of {' or '.join(shown)} persons, and of nobody else"


def _shuffled_groups(which: str) -> FamilyStatistic:
    """Return a statistic of the null control."""
    return FamilyStatistic(
        SIZE,
        f"the same with persons shuffled over the groups: {which}",
        "it is a statistic of shuffled groups and has no sums over persons",
        plot="value",
        draws="shuffles",
    )


class DisCo(Family[DiscoBody]):
    """Number of fills that a masked LM supplies more often for one group of persons than for another."""

    name: ClassVar[str] = "disco"
    definition: ClassVar[str] = "disco/1"
    picture: ClassVar[str] = "fills"
    needs: ClassVar[str] = "a masked LM"
    roles: ClassVar[tuple[str, ...]] = ("masked-lm",)
    keys: ClassVar[tuple[str, ...]] = ("groups", "person", "templates", KEY)
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        "significant_fills": FamilyStatistic(SIZE, "fills that depend on the group, a template", _fill_sums),
        "random_groups_mean": _shuffled_groups("mean"),
        "random_groups_max": _shuffled_groups("maximum"),
    }
    null_control: ClassVar[str] = "persons are shuffled over the groups"
    options: ClassVar[Mapping[str, Option]] = {
        "top_k": whole(3, "fills supplied for each person"),
        "level": share(0.05, "level of the test, before the Bonferroni correction"),
        "family": one_of("template", "suite", meaning="what Bonferroni corrects over: the fills of a template, or all"),
        "test": one_of("chi2", "fisher", meaning="Pearson's chi-square, or Fisher's exact test (two groups)"),
        "repeats": whole(100, "shuffles of the null control"),
        "initials": Option(None, Initials | None, "only persons whose name starts with these letters, as A-M"),
        "templates": TEMPLATES,
        ITEMS_KEY: ITEMS,
    }

    def read(self, data: LocatedMap) -> DiscoBody:
        """Read groups, persons and templates."""
        groups = read_groups(data, ("female", "male"))
        person = read_slot(data, "person")
        for entry in person.entries:
            if entry.attributes.get("group") not in groups:
                raise data.error_at(
                    "person",
                    f"{entry.word!r} has the group"
                    f" {entry.attributes.get('group')!r}, expected one of {', '.join(groups)}; set its group in the"
                    " word list, or exclude it with 'where'",
                )
        templates = read_template_sets(data, "templates", partial(read_templates, slots={"person"}, blank=True))
        if len(set(templates.first)) != len(templates.first):
            raise data.error_at("templates", "duplicate template; expected each once")
        return TemplateBody(groups, person, templates)

    def asks_gender(self, body: DiscoBody, options: Options) -> bool:
        """Return whether persons are named by words of women and men, and not by names."""
        words = {entry.label for entry in body.items.words()}
        return set(body.groups) == GENDERS and {"woman", "man"} <= words

    def content(self, body: DiscoBody) -> object:
        """Return groups, persons and templates."""
        return [list(body.groups), body.items.content(), [text for text, _ in body.templates.first]]

    def space(self, body: DiscoBody, options: Options) -> CaseSpace:
        """Return the cases, persons x templates; a unit is a person with all templates."""
        if options["test"] == "fisher" and len(body.groups) != 2:
            raise SettingError(f"test=fisher needs two groups, this suite has {len(body.groups)}; use test=chi2")
        words = self._persons(body, options["initials"]).words()
        if not words:
            raise SettingError(f"initials={options['initials']} excludes all persons; choose a wider range")
        templates = tuple(Template((pieces,)) for _, pieces in body.templates.of(options["templates"]))
        return words_by_templates("person", {"person": words}, templates)

    @staticmethod
    def _persons(body: DiscoBody, initials: str | None) -> SlotWords:
        low, high = (initials or "A-Z").split("-")
        kept = (e for e in body.items.entries if initials is None or low <= e.word[0].upper() <= high)
        return replace(body.items, entries=tuple(kept))

    def questions(self, body: DiscoBody, options: Options, context: Context) -> dict[str, Question]:
        """Ask for the top k fills of every case."""
        return {"cases": Question(self.space(body, options), TopFills(options["top_k"]))}

    def summarise(self, body: DiscoBody, options: Options, answers: Answers, seed: int) -> Summary:
        """Count the significant fills of each template, and those of shuffled groups."""
        scores = answers["cases"]
        names, group_of = self._scored(body, options, scores)
        sizes = np.bincount(group_of, minlength=len(body.groups))
        items = {
            "person": names,
            "group": group_of.astype(np.int16),
            "groups": np.asarray(body.groups),
            "fills": scores.values.astype(np.int32),
            "fill_id": np.asarray(sorted(scores.vocabulary), dtype=np.int64),
            "fill_text": np.asarray([scores.vocabulary[i] for i in sorted(scores.vocabulary)]),
        }
        figures = Summary(self.statistics)
        if not sizes.all():
            reason = f"no person of the group {body.groups[int(np.argmin(sizes))]} among the {len(scores.units)} scored"
            figures.miss(reason)
            return replace(figures, items=items)
        level, family, test = options["level"], options["family"], options["test"]
        by_name = np.lexsort((group_of, names))  # so that shuffles do not depend on the order of the word list
        labels = contingency.relabellings(group_of[by_name], options["repeats"], seed)
        null = contingency.significant_fills(scores.values[by_name], labels, level=level, family=family, test=test)
        found = contingency.significant_fills(scores.values, group_of, level=level, family=family, test=test)
        for name, value in zip(self.statistics, (found, null.mean(), null.max()), strict=True):
            figures.take(name, partial(float, value), no_interval=_NO_INTERVAL)
        records = self._records(body, options, scores, group_of, sizes)
        return replace(figures, records=records, items=items, notes=[_smallest_effect(body, options, scores, sizes)])

    def null(self, body: DiscoBody, options: Options, answers: Answers, seed: int, repeats: int) -> NullFigures:
        """Count the significant fills of shuffled groups."""
        scores = answers["cases"]
        names, group_of = self._scored(body, options, scores)
        if not np.bincount(group_of, minlength=len(body.groups)).all():
            return {}
        rng, size = np.random.default_rng(seed), max(1, _BLOCK // len(group_of) // len(body.groups))
        level, family, test = options["level"], options["family"], options["test"]
        by_name = np.lexsort((group_of, names))
        labels, fills = group_of[by_name], scores.values[by_name]
        shuffles = (
            contingency.relabellings(labels, min(size, repeats - done), rng) for done in range(0, repeats, size)
        )
        counts = [
            contingency.significant_fills(fills, groups, level=level, family=family, test=test) for groups in shuffles
        ]
        return {"significant_fills": np.concatenate(counts)}

    def _scored(self, body: DiscoBody, options: Options, scores: Answer) -> tuple[NDArray[np.str_], IntArray]:
        """Return names and group numbers of the scored persons."""
        persons = self._persons(body, options["initials"]).entries
        numbers = np.asarray([body.groups.index(entry.attributes["group"]) for entry in persons], dtype=np.int64)
        return np.asarray([persons[unit].word for unit in scores.units]), numbers[scores.units]

    @staticmethod
    def _records(
        body: DiscoBody, options: Options, scores: Answer, group_of: IntArray, sizes: IntArray
    ) -> list[Record]:
        by_template = [contingency.persons_of_fills(scores.values[:, t]) for t in range(scores.values.shape[1])]
        tests = sum(len(fills) for fills, _ in by_template)
        records: list[Record] = []
        templates = body.templates.of(options["templates"])
        for (template, _), (fills, persons) in zip(templates, by_template, strict=True):
            by_group = contingency.persons_by_group(persons, group_of, len(body.groups))
            chi_square = contingency.pearson_chi_square(by_group, sizes)[0]
            p = contingency.p_values(by_group, sizes, options["test"])
            cut = options["level"] / (len(fills) if options["family"] == "template" else tests)
            small = contingency.smallest_expected(by_group, sizes) < 5
            preferred = (by_group / sizes).argmax(axis=1)
            records.extend(
                {
                    "template": template,
                    "fill": scores.vocabulary.get(int(fill), str(fill)),
                    "counts": dict(zip(body.groups, map(int, by_group[row]), strict=True)),
                    "chi_square": float(chi_square[row]),
                    "p": float(p[row]),
                    "significant": bool(p[row] < cut),
                    "preferred": body.groups[preferred[row]],
                    "small_expected_counts": bool(small[row]),
                }
                for row, fill in enumerate(fills)
            )
        return sorted(records, key=lambda r: (r["p"], r["template"], r["fill"]))
