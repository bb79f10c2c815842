"""The family ``pronoun-occupation``: P(pronoun) beside an occupation, or P(its form), by its share of women (ours)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, TypeAlias

import numpy as np

from pytest_genderbias.errors import DataFileError, NotApplicableError, UndefinedError
from pytest_genderbias.statistics import group_deviations
from pytest_genderbias.statistics.correlation import pearson_of_sums, slope_interval, slope_of_sums
from pytest_genderbias.statistics.score_bias import score_bias
from pytest_genderbias.suites.cases import Answer, Answers, Items, Question
from pytest_genderbias.suites.families.shared import occupations
from pytest_genderbias.suites.families.shared.group_values import GroupValues, Value
from pytest_genderbias.suites.families.shared.paraphrases import KEY, TEMPLATES, TemplateBody, read_template_sets
from pytest_genderbias.suites.family import GENDERS, ITEMS, ITEMS_KEY, Context, Family, Option
from pytest_genderbias.suites.query import SlotLogProbability
from pytest_genderbias.suites.space import (
    TEMPLATE,
    Axis,
    CaseSpace,
    SlotWords,
    Template,
    read_groups,
    read_slot,
    read_slot_with_share,
    read_template,
    words_by_templates,
)
from pytest_genderbias.suites.statistic import SIGNED, FamilyStatistic, FloatArray, NullFigures, Options
from pytest_genderbias.suites.summary import Summary, rows_of
from pytest_genderbias.text.printable import brief
from pytest_genderbias.text.schema import LocatedList, LocatedMap
from pytest_genderbias.text.template import Piece, Word
from pytest_genderbias.text.wordlist import PRONOUN_FORMS

OCCUPATION, PRONOUN = "occupation", "pronoun"
_SLOTS = ", ".join(f"{{{form}}}" for form in PRONOUN_FORMS)
_CAUSAL = "causal-lm"
_OVER = "occupations"


EACH = "*"  #: stands for each group in the form of an occupation


@dataclass(frozen=True)
class Frame:
    """A template with an occupation and a pronoun in one form, or with the occupation in the form of each group.

    ``versions``: its pieces, for each group where the forms of the occupation are compared. ``follows``: whether what
    is compared is after the occupation, or is the occupation itself.
    """

    text: str
    versions: tuple[tuple[Piece, ...], ...]
    form: str
    follows: bool


#: Occupations with their share of one group, the forms of the pronoun of each group, and frames. Without pronouns, the
#: forms of the occupations themselves are compared.
PronounOccupationBody: TypeAlias = TemplateBody[Frame]


def _versions(body: PronounOccupationBody) -> int:
    """Return the number of templates of a frame: one for each group where forms are compared."""
    return 1 if body.of_groups else len(body.groups)


def _in_first(share: FloatArray) -> FloatArray:
    """Return 1 for the occupations of the first group, in which at least half belong to it, and 0 for the others."""
    return np.asarray(share >= 0.5, dtype=np.float64)


class PronounOccupation(Family[PronounOccupationBody]):
    """ln P(pronoun, or form, of the first group) - ln P(that of the second), against the share of the first group."""

    name: ClassVar[str] = "pronoun-occupation"
    definition: ClassVar[str] = "pronoun-occupation/1"
    picture: ClassVar[str] = "pronoun_ratio"
    needs: ClassVar[str] = "a masked LM or a causal LM"
    roles: ClassVar[tuple[str, ...]] = ("masked-lm", "causal-lm")
    keys: ClassVar[tuple[str, ...]] = ("groups", "pronoun", "occupation", "share", "templates", KEY)
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        "mean_difference": FamilyStatistic(
            SIGNED,
            "mean log ratio of the pronouns, or of the forms, of occupations of the first group minus of the others, in"
            " nats",
            partial(occupations.line_sums, figure="slope", unit=OCCUPATION, value="ratio", over=_OVER, x_of=_in_first),
            plot="scatter",
            crossed=True,
        ),
        **occupations.line_statistics(
            "r of the log ratio by occupation with the share of the first group",
            "log ratio from none to all of the first group (least squares), in nats",
            OCCUPATION,
            "ratio",
            _OVER,
        ),
    }
    null_control: ClassVar[str] = "the log ratios are shuffled over the occupations"
    options: ClassVar[Mapping[str, Option]] = {"templates": TEMPLATES, ITEMS_KEY: ITEMS}

    def read(self, data: LocatedMap) -> PronounOccupationBody:
        """Read groups, their pronouns, occupations with shares, and frames."""
        groups = read_groups(data, ("female", "male"))
        occupation, share = read_slot_with_share(data, OCCUPATION, with_forms=PRONOUN not in data)
        parse = _parse if PRONOUN in data else partial(_parse_formed, groups=groups, occupation=occupation)
        frames = read_template_sets(data, "templates", parse)
        forms = {frame.form for frame in (*frames.first, *frames.paraphrases)}
        pronouns = tuple(_pronoun(data, group, forms) for group in groups) if PRONOUN in data else ()
        return TemplateBody(groups, occupation, frames, share, of_groups=pronouns)

    def of_body(self, body: PronounOccupationBody) -> PronounOccupation:
        """Return the family with the statistics of so many groups."""
        return self if len(body.groups) == 2 else PronounOccupationOfGroups()

    def asks_gender(self, body: PronounOccupationBody, options: Options) -> bool:
        """Return whether women and men are among the groups."""
        return set(body.groups) >= GENDERS

    def content(self, body: PronounOccupationBody) -> object:
        """Return groups, pronouns, occupations and frames; forms that only paraphrases use do not count."""
        forms = sorted({frame.form for frame in body.templates.first})
        pronouns = [[of_group[form] for form in forms] for of_group in body.of_groups]
        return [body.groups, pronouns, body.items.content(), body.share, [f.text for f in body.templates.first]]

    def space(self, body: PronounOccupationBody, options: Options, role: str) -> CaseSpace:
        """Return the cases, occupations x frames x groups; a unit is an occupation.

        Raises:
            NotApplicableError: in no frame does a causal LM read the occupation before the pronoun.
        """
        frames = [f for f in body.templates.of(options["templates"]) if f.follows or role != _CAUSAL]
        if not frames:
            raise NotApplicableError(
                "it has no template whose pronoun follows the occupation, and a causal LM reads nothing else; add one"
            )
        templates = tuple(Template((pieces,)) for frame in frames for pieces in frame.versions)
        if not body.of_groups:
            return words_by_templates(OCCUPATION, body.items.in_forms(OCCUPATION, templates), templates)
        forms, groups = sorted({frame.form for frame in frames}), len(body.groups)
        pronouns = tuple(Word.of(of_group[form], "") for form in forms for of_group in body.of_groups)
        words = body.items.words()
        pairs = [(t, groups * forms.index(frame.form) + k) for t, frame in enumerate(frames) for k in range(groups)]
        axes = (Axis.whole(OCCUPATION, len(words)), Axis((TEMPLATE, PRONOUN), np.asarray(pairs, dtype=np.int64)))
        return CaseSpace(templates, {OCCUPATION: words, PRONOUN: pronouns}, axes, unit_axes=1)

    def questions(self, body: PronounOccupationBody, options: Options, context: Context) -> dict[str, Question]:
        """Ask for the probability of the pronoun in every case, or of the form of the occupation."""
        asked = SlotLogProbability(PRONOUN if body.of_groups else OCCUPATION)
        return {"cases": Question(self.space(body, options, context.role), asked)}

    def summarise(self, body: PronounOccupationBody, options: Options, answers: Answers, seed: int) -> Summary:
        """Compare the log ratios of the two groups of occupations, and with the share; intervals over occupations."""
        answer = answers["cases"]
        by_frame = self._scores(body, answer)
        share, ratio = body.shares()[answer.units], score_bias(by_frame[:, :, 0], by_frame[:, :, 1])
        labels, first = [answer.cases.words[OCCUPATION][unit].label for unit in answer.units], _in_first(share)
        figures = Summary(self.statistics)
        figures.take(
            "mean_difference",
            lambda: group_deviations.group_contrast(ratio, first),
            lambda: slope_interval(first, ratio, _OVER),
            over=_OVER,
        )
        occupations.take_line(figures, share, ratio, _OVER)
        return replace(
            figures,
            records=occupations.records_of_groups(
                {"occupation": labels, "log_ratio": ratio, "share": share},
                body.groups,
                by_frame.mean(axis=1),
                middle=float(ratio.mean()),
            ),
            items={"occupation": np.asarray(labels), "share": share, "ratio": ratio},
            examples=occupations.examples_of_versions(labels, answer, by_frame, body.groups),
            unstored={
                "template": np.asarray([_label(t) for t in answer.cases.templates[:: _versions(body)]]),
                "template_ratio": by_frame[:, :, 0] - by_frame[:, :, 1],
            },
        )

    def null(
        self, body: PronounOccupationBody, options: Options, answers: Answers, seed: int, repeats: int
    ) -> NullFigures:
        """Return the figures of log ratios that are shuffled over the occupations."""
        answer = answers["cases"]
        by_frame = self._scores(body, answer)
        share, ratio = body.shares()[answer.units], score_bias(by_frame[:, :, 0], by_frame[:, :, 1])
        by_share = group_deviations.shuffled_lines(share, ratio, repeats, seed)
        return {
            "mean_difference": slope_of_sums(group_deviations.shuffled_lines(_in_first(share), ratio, repeats, seed)),
            "pearson_r": pearson_of_sums(by_share),
            "slope": slope_of_sums(by_share),
        }

    def _scores(self, body: PronounOccupationBody, answer: Answer) -> FloatArray:
        """Return the scores, shape (occupations, frames, groups)."""
        return occupations.scores_by_group(answer, len(answer.cases.templates) // _versions(body), len(body.groups))


def _parse(rows: LocatedList) -> list[Frame]:
    """Return the frames of a list. Errors as of :func:`_frame`."""
    return [_frame(row, rows.file, line) for row, line in zip(rows, rows.lines, strict=True)]


def _frame(row: object, file: str, line: int) -> Frame:
    """Return the frame of a template.

    Raises:
        DataFileError: it does not have the occupation and one form of the pronoun, each once.
    """
    forms = [form for form in PRONOUN_FORMS if isinstance(row, str) and f"{{{form}}}" in row]
    if len(forms) != 1:
        raise DataFileError(f"{file}:{line}: template {brief(row)} should have one form of the pronoun: {_SLOTS}")
    pieces = read_template(row, file, line, {OCCUPATION, forms[0]})
    words = [piece.slot for piece in pieces if piece.is_slot and not piece.article]
    if sorted(words) != sorted((OCCUPATION, forms[0])) or any(p.article and p.slot != OCCUPATION for p in pieces):
        raise DataFileError(
            f"{file}:{line}: template {brief(row)} should have the occupation and the pronoun, each once"
        )
    renamed = tuple(replace(piece, slot=PRONOUN) if piece.slot == forms[0] else piece for piece in pieces)
    return Frame(str(row), (renamed,), forms[0], words[0] == OCCUPATION)


def _parse_formed(rows: LocatedList, groups: Sequence[str], occupation: SlotWords) -> list[Frame]:
    """Return the frames of a list in which the forms of the occupation are compared: one text, or one for each group.

    Raises:
        DataFileError: one does not have the occupation once in the form of each group, or a word lacks such a form.
    """
    frames = []
    for row, line in zip(rows, rows.lines, strict=True):
        written = row if isinstance(row, LocatedMap) and set(row) == set(groups) else dict.fromkeys(groups, row)
        texts = [text.replace(EACH, group) if isinstance(text := written[group], str) else "" for group in groups]
        read = partial(read_template, file=rows.file, line=line, slots={OCCUPATION}, formed={OCCUPATION: occupation})
        formed = (rf"[^{{]*{{{OCCUPATION}:{re.escape(group)}[.}}][^{{]*" for group in groups)
        if not all(map(re.fullmatch, formed, texts)):
            raise DataFileError(
                f"{rows.file}:{line}: template {brief(row)} should have the occupation once, in the form of each group:"
                f" {{{OCCUPATION}:{EACH}}}, or be a text for each of {', '.join(groups)}"
            )
        frames.append(Frame(row if isinstance(row, str) else "\n".join(texts), tuple(map(read, texts)), EACH, True))
    return frames


def _pronoun(data: LocatedMap, group: str, forms: set[str]) -> dict[str, str]:
    """Return the forms of the one pronoun of a group.

    Raises:
        DataFileError: the group has none or several, or the pronoun lacks a form that a template uses.
    """
    where = f"{data.file}:{data.lines.get(PRONOUN, data.line)}"
    of_group = [e for e in read_slot(data, PRONOUN).entries if e.attributes.get("group") == group]
    if len(of_group) != 1:
        raise DataFileError(
            f"{where}: expected one word of the group {brief(group)} in the slot {PRONOUN!r}, got {len(of_group)}"
        )
    (entry,) = of_group
    known = {form: entry.attributes.get(form) for form in forms} | {"nominative": entry.word}
    if missing := sorted(form for form, text in known.items() if not isinstance(text, str)):
        raise DataFileError(f"{where}: {brief(entry.word)} has no {missing[0]} form in its word list; add it")
    return {form: str(text) for form, text in known.items()}


def _label(template: Template) -> str:
    """Return a template as a text with its slots."""
    (pieces,) = template.segments
    return "".join(p.lead + (f"{{{'a:' * p.article}{p.slot}}}" if p.slot else p.text) for p in pieces)


_GROUPS = GroupValues(
    {
        "contrast": Value(
            "mean_difference_rms", "ln P(pronoun or form), occupations of the first group minus the others"
        )
    },
    "occupation",
    _OVER,
)


class PronounOccupationOfGroups(PronounOccupation):
    """ln P(pronoun) of more than two groups, beside occupations of the first group against beside the others."""

    definition: ClassVar[str] = "pronoun-occupation/groups-1"
    null_control: ClassVar[str] = "the scores of all pronouns are shuffled over the occupations"
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = _GROUPS.statistics()

    def summarise(self, body: PronounOccupationBody, options: Options, answers: Answers, seed: int) -> Summary:
        """Compare the pronouns of the groups in their difference between occupations; intervals over occupations."""
        answer = answers["cases"]
        by_frame, share = self._scores(body, answer), body.shares()[answer.units]
        scores = by_frame.mean(axis=1)
        labels = [answer.cases.words[OCCUPATION][unit].label for unit in answer.units]
        items: Items = {"occupation": np.asarray(labels), "share": share}
        figures = Summary(self.statistics)
        try:
            items |= _GROUPS.items("contrast", group_deviations.contrast_values(scores, _in_first(share)))
        except UndefinedError as error:
            figures.miss(str(error))
            return replace(figures, items=items)
        _GROUPS.take(figures, items)
        by_group = dict(zip(body.groups, scores.T, strict=True))
        rows = rows_of({"slice": [OCCUPATION] * len(labels), "value": labels, "share": share, **by_group})
        records = [*_GROUPS.records(items, body.groups), *sorted(rows, key=lambda row: -row["share"])]
        return replace(
            figures,
            records=records,
            items=items,
            examples=occupations.examples_of_versions(labels, answer, by_frame, body.groups),
        )

    def null(
        self, body: PronounOccupationBody, options: Options, answers: Answers, seed: int, repeats: int
    ) -> NullFigures:
        """Return the figure of scores that are shuffled over the occupations."""
        answer = answers["cases"]
        scores, first = self._scores(body, answer).mean(axis=1), _in_first(body.shares()[answer.units])
        return {"mean_difference_rms": group_deviations.shuffled_contrast_rms(scores, first, repeats, seed)}
