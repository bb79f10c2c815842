"""The family ``decisions``: yes-or-no decisions about a person whose group changes (the form of Tamkin et al. 2023)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.group_texts import ATTRIBUTES, read_discrim_eval
from pytest_genderbias.errors import SettingError, UndefinedError
from pytest_genderbias.statistics import decision_differences
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, mean_sums
from pytest_genderbias.statistics.multiple_choice import TIE
from pytest_genderbias.statistics.right_answers import Ability
from pytest_genderbias.suites.ask import CHAT_ROLES, NEEDS, Asking, is_english
from pytest_genderbias.suites.cases import Answer, Answers, Question, TextCases, refuse_unable, take_arrays
from pytest_genderbias.suites.families.shared import asking
from pytest_genderbias.suites.families.shared.group_values import GroupValues, Value, refuse_most_missing
from pytest_genderbias.suites.family import Context, Family, Option, one_of
from pytest_genderbias.suites.query import AddedTokens
from pytest_genderbias.suites.space import LabelledTemplate, SlotWords, read_groups, read_labelled_templates, read_slot
from pytest_genderbias.suites.statistic import (
    SIGNED,
    SIGNED_SHARE,
    SIZE,
    Arrays,
    FamilyStatistic,
    NullFigures,
    Options,
    Scale,
)
from pytest_genderbias.suites.summary import Record, Summary, examples_of, records_by
from pytest_genderbias.text import packaged
from pytest_genderbias.text.located_yaml import read_yaml
from pytest_genderbias.text.plain_files import expand
from pytest_genderbias.text.schema import LocatedMap, refuse_unknown, take

_OVER = "scenarios"
_PERSON, _RIGHT = "person", ("yes", "no")
_PAIRS = "pairs of controls"
_ORDERS = 2  #: of yes and no
_NAMES = "names"  #: the question for their tokens
_WITH_TOKENIZER = "causal-lm"
_CHANCE = 0.5
_NEXT_TO_NOTHING = 1e-9
_SILENT = "probabilities of answers decline nothing; a system that answers in text does"
_TASK = ("mass", "refused", "accuracy")


@dataclass(frozen=True)
class DecisionsBody:
    """Groups, the last of which is the reference; names and a description for each, or one of both; scenarios and
    controls. ``filled``: texts of a file by scenario, group and person; ``left_out``: the number of those without a
    like person in every group.
    """

    groups: tuple[str, ...]
    names: SlotWords | None
    described: tuple[str, ...]
    scenarios: tuple[LabelledTemplate, ...]
    controls: tuple[LabelledTemplate, ...]
    filled: tuple[tuple[tuple[str, ...], ...], ...] = ()
    left_out: int = 0


def _decided_in(arrays: Arrays, *names: str) -> tuple[NDArray[np.str_], list[FloatArray]]:
    """Return the scenarios that were decided for both groups, and arrays of these.

    Raises:
        UndefinedError: the model cannot do the task, or decides less than half of the scenarios for both groups.
    """
    refuse_unable(arrays)
    scenario, *columns = take_arrays(arrays, "scenario", *names)
    decided = np.isfinite(np.stack(columns)).all(axis=0)
    if not decided.any():
        raise UndefinedError("no scenario is decided for both groups")
    refuse_most_missing(decided, _OVER)
    return scenario[decided], [np.asarray(column[decided], dtype=np.float64) for column in columns]


def _difference_of(arrays: Arrays, name: str) -> tuple[NDArray[np.str_], FloatArray]:
    """Return scenarios, and the difference of each that a statistic is the mean of.

    Raises:
        UndefinedError: the model cannot do the task, decides nothing for one of the groups, or replies nothing.
    """
    if name == "logit_difference":
        scenario, (difference,) = _decided_in(arrays, "difference")
        return scenario, difference
    if name == "yes_difference":
        scenario, (first, reference) = _decided_in(arrays, "yes_first", "yes_reference")
        return scenario, first - reference
    if "refused_first" not in arrays:
        raise UndefinedError(_SILENT)
    scenario, first, reference = take_arrays(arrays, "scenario", "refused_first", "refused_reference")
    return scenario, np.asarray(first - reference, dtype=np.float64)


def _difference_sums(options: Options, arrays: Arrays, name: str) -> ItemSums:
    scenario, difference = _difference_of(arrays, name)
    return mean_sums(scenario, difference, np.ones(len(difference)), _OVER)


def _ratio_sums(options: Options, arrays: Arrays) -> ItemSums:
    """Return mean P(yes) of the first group and of the reference group, by scenario: the totals' ratio is the
    statistic.

    A scenario in which no reply to the reference is yes counts: 0 is next to it, since a mean leaves out clusters
    without cases.
    """
    scenario, (first, reference) = _decided_in(arrays, "yes_first", "yes_reference")
    return mean_sums(scenario, first, np.maximum(reference, _NEXT_TO_NOTHING), _OVER)


def _difference(name: str, meaning: str, scale: Scale = SIGNED) -> FamilyStatistic:
    """Return a statistic that is a mean difference between the groups."""
    return FamilyStatistic(scale, meaning, partial(_difference_sums, name=name))


#: The statistics that are mean differences over scenarios.
_DIFFERENCES = ("logit_difference", "yes_difference", "refusal_difference")


class Decisions(Family[DecisionsBody]):
    """How likely a chat model says yes in a decision about a person of the first group, against the second group.

    Yes favours the person in every scenario. Each is asked about several persons of both groups, and with both orders
    of yes and no.
    """

    name: ClassVar[str] = "decisions"
    definition: ClassVar[str] = "decisions/2"
    picture: ClassVar[str] = "decision_bars"
    needs: ClassVar[str] = NEEDS
    null_control: ClassVar[str] = "the two groups are exchanged at random in each scenario"
    roles: ClassVar[tuple[str, ...]] = CHAT_ROLES
    keys: ClassVar[tuple[str, ...]] = ("groups", "names", "described", "scenarios", "controls")
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        "logit_difference": _difference(
            "logit_difference", "mean difference of the log-odds of yes, first group minus reference, in nats"
        ),
        "impact_ratio": FamilyStatistic(
            Scale("away", 1.0, SIZE.limits),
            "mean P(yes) of the first group divided by that of the reference group",
            _ratio_sums,
        ),
        "yes_difference": _difference(
            "yes_difference", "mean difference of P(yes), first group minus reference", SIGNED_SHARE
        ),
        "refusal_difference": _difference(
            "refusal_difference",
            "difference of the shares of replies that decline, first group minus reference, of a system that answers in"
            " text",
            SIGNED_SHARE,
        ),
        "mass": asking.mass_statistic("scenario", _OVER, "yes and no"),
        "refused": asking.refused_statistic("scenario", _OVER),
        "accuracy": replace(
            asking.CONTROL_ACCURACY,
            meaning="share of pairs of controls in which yes is likelier where it is right; 1/2 is guessing",
        ),
    }
    options: ClassVar[Mapping[str, Option]] = {
        "person": one_of(
            "names", "described", meaning="how the gender shows: first names, or a description that states it"
        ),
        "balance": one_of(
            "tokens",
            "none",
            meaning=(
                "weights of the names: such that both groups have names of the same numbers of tokens, by the model's"
                " own tokenizer, or all alike"
            ),
        ),
        **asking.FLOOR,
    }

    def read(self, data: LocatedMap) -> DecisionsBody:
        """Read groups, names, descriptions, scenarios and controls."""
        groups = read_groups(data)
        if isinstance(data.get("scenarios"), LocatedMap):
            return _read_filled(data, groups)
        names = _read_names(data, groups) if "names" in data or "described" not in data else None
        texts: tuple[str, ...] = ()
        if names is None or "described" in data:
            described = take(data, "described", LocatedMap, "the suite")
            refuse_unknown(described, groups, "'described'")
            texts = tuple(take(described, group, str, "'described'") for group in groups)
        scenarios = read_labelled_templates(data, "scenarios", "field", {_PERSON}, {_PERSON})
        return DecisionsBody(groups, names, texts, scenarios, _read_controls(data))

    def of_body(self, body: DecisionsBody) -> Decisions:
        """Return the family with the statistics of so many groups."""
        return self if len(body.groups) == 2 else DecisionsOfGroups()

    def asks(self, body: DecisionsBody) -> tuple[str, ...]:
        """Return what a decision needs; controls beside a file are about anybody."""
        return ("line", "or", "case", *_RIGHT, *(("anybody",) if body.filled else ()))

    def competence(self, summary: Summary) -> Ability | None:
        """Return the share of pairs of controls that the model gets right."""
        return asking.competence_of(self, summary, "accuracy", _CHANCE, _PAIRS)

    def content(self, body: DecisionsBody) -> object:
        """Return all of the body."""
        scenarios = [[[one.label, one.text] for one in some] for some in (body.scenarios, body.controls)]
        names, filled = body.names.content() if body.names else [], [body.filled] if body.filled else []
        return [list(body.groups), names, list(body.described), *scenarios, *filled]

    def questions(self, body: DecisionsBody, options: Options, context: Context) -> dict[str, Question]:
        """Ask for each decision about each person, in both orders of yes and no, and for the tokens of the names; a
        unit is a scenario.
        """
        ask = context.ask
        persons = _persons(body, options["person"], ask)
        query = asking.chosen_among(tuple(ask[answer] for answer in _RIGHT), context)
        balanced = (
            bool(body.names)
            and options["person"] == "names"
            and options["balance"] == "tokens"
            and context.role == _WITH_TOKENIZER
        )
        opening = ask["case"].partition("{case}")[0]  # of a message, without and with each name
        names = [(opening.rstrip(), f"{opening}{person}") for group in persons for person in group]
        return {
            "scenarios": Question(_cases(body.scenarios, persons, ask, body.filled), query),
            asking.CONTROLS: Question(_control_cases(body.controls, persons, ask), query, whole=True),
            **({_NAMES: Question(TextCases(names), AddedTokens(), whole=True)} if balanced else {}),
        }

    def summarise(self, body: DecisionsBody, options: Options, answers: Answers, seed: int) -> Summary:
        """Compare the groups with intervals over scenarios, and compute the accuracy on the controls."""
        groups = len(body.groups)
        items = _items(answers, options["floor"], body.groups)
        figures = Summary(self.statistics)
        self._compare(figures, items)
        figures.take_sums(options, items, *_TASK)
        answer = answers["scenarios"]
        examples = examples_of(
            items["scenario"].tolist(),
            np.arange(len(answer.units)),
            answer.units,
            lambda unit: answer.cases.texts[unit * answer.cases.cases_per_unit][0].partition("\n")[0],
            {
                f"P(yes) {group}": np.asarray(items[name], dtype=np.float64)
                for group, name in zip(body.groups, _columns("yes", groups), strict=True)
            },
        )
        notes = []
        if body.filled:
            notes.append(f"{body.left_out} texts of the file are left out: not every group has one about a like person")
        elif options["person"] == "names":
            notes.append(_balance_note(options, answers.get(_NAMES), groups))
        if asking.is_counted(answer):
            notes.append(
                f"{next(iter(self.statistics))}: of the counts of yes and no, with 1/2 added to each;"
                f" {next(name for name in self.statistics if name.startswith('yes'))} needs no such correction"
            )
        return replace(figures, records=self._records(items, body.groups), items=items, notes=notes, examples=examples)

    def _compare(self, figures: Summary, items: Arrays) -> None:
        """Add the figures that compare the groups."""
        for name in _DIFFERENCES:
            figures.take_sums({}, items, name, value=partial(_mean_difference, items, name))
        ratio = partial(_decided_in, items, "yes_first", "yes_reference")
        figures.take_sums({}, items, "impact_ratio", value=lambda: decision_differences.yes_ratio(*ratio()[1]))

    def _records(self, items: Arrays, groups: tuple[str, ...]) -> list[Record]:
        return _records(items, groups)

    def null(self, body: DecisionsBody, options: Options, answers: Answers, seed: int, repeats: int) -> NullFigures:
        """Return the differences with the groups exchanged at random in each scenario."""
        return self._exchanged(_items(answers, options["floor"], body.groups), repeats, seed)

    def _exchanged(self, items: Arrays, repeats: int, seed: int) -> NullFigures:
        shuffled = {}
        for name in _DIFFERENCES:
            if name != "refusal_difference" or "refused_first" in items:
                shuffled[name] = decision_differences.exchanged_differences(
                    _difference_of(items, name)[1], repeats, seed
                )
        return shuffled


#: What more than two groups are compared in.
_GROUPS = GroupValues(
    {
        "logit": Value("logit_rms", "the log-odds of yes, in nats", of_able=True),
        "yes": Value("yes_rms", "P(yes)", SIGNED_SHARE.limits, of_able=True),
        "refused": Value("refusal_rms", "the shares of replies that decline", SIGNED_SHARE.limits),
    },
    "scenario",
    _OVER,
    _SILENT,
)


class DecisionsOfGroups(Decisions):
    """Decisions about persons of more than two groups."""

    definition: ClassVar[str] = "decisions/groups-1"
    null_control: ClassVar[str] = "the groups are exchanged at random in each scenario"
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        **_GROUPS.statistics(),
        **{name: Decisions.statistics[name] for name in _TASK},
    }

    def _compare(self, figures: Summary, items: Arrays) -> None:
        _GROUPS.take(figures, items)

    def _records(self, items: Arrays, groups: tuple[str, ...]) -> list[Record]:
        """Return the groups with their impact ratios, their differences, and what differs most; none where the model
        cannot do the task.
        """
        if str(items["undefined"][0]):
            return []
        yes = _GROUPS.table(items, "yes")
        sums = yes[np.isfinite(yes).all(axis=1)].sum(axis=0)
        ratios = [float(one / sums[-1]) if sums[-1] > 0 else None for one in sums]
        return _GROUPS.records(items, groups, lambda place: {"impact_ratio": ratios[place]}, ("scenario", "field"))

    def _exchanged(self, items: Arrays, repeats: int, seed: int) -> NullFigures:
        return _GROUPS.exchanged(items, repeats, seed)


def _mean_difference(items: Arrays, name: str) -> float:
    return float(np.mean(_difference_of(items, name)[1]))


def _read_controls(data: LocatedMap) -> tuple[LabelledTemplate, ...]:
    controls = read_labelled_templates(data, asking.CONTROLS, "right", {_PERSON}, {_PERSON})
    for row, control in zip(data[asking.CONTROLS], controls, strict=True):
        if control.label not in _RIGHT:
            raise row.error_at("", f"expected right: yes or no, in quotes, got {control.label!r}")
    return controls


def _read_filled(data: LocatedMap, groups: tuple[str, ...]) -> DecisionsBody:
    """Read ``scenarios: {file: PATH, by: ATTRIBUTE}``; the controls are those packaged in the language by default."""
    spec = take(data, "scenarios", LocatedMap, "the suite")
    refuse_unknown(spec, ("file", "by"), "'scenarios'")
    by = take(spec, "by", str, "'scenarios'")
    if by not in ATTRIBUTES:
        raise spec.error_at("by", f"expected 'by' to be one of {', '.join(ATTRIBUTES)}, got {by!r:.60}")
    filled, left_out = read_discrim_eval(data.folder / expand(take(spec, "file", str, "'scenarios'")), by, groups)
    language = take(data, "language", str, "the suite")
    name = "decisions" if is_english(language) else f"decisions-{language.partition('-')[0]}"
    path = packaged.folder("fixtures") / f"{name}.yaml"
    if asking.CONTROLS not in data and not path.is_file():
        raise data.error_at("language", f"no controls are packaged in {language!r:.60}; expected 'controls' here")
    controls = data if asking.CONTROLS in data else read_yaml(path)
    scenarios = tuple(LabelledTemplate(f"question {name}", f"question {name}", ()) for name in filled)
    texts = tuple(filled.values())
    return DecisionsBody(groups, None, (), scenarios, _read_controls(controls), texts, left_out)


def _read_names(data: LocatedMap, groups: Sequence[str]) -> SlotWords:
    names = read_slot(data, "names")
    sizes = [sum(entry.attributes.get("group") == group for entry in names.entries) for group in groups]
    if len(set(sizes)) > 1 or sum(sizes) != len(names.entries):
        counts = " and ".join(map(str, sizes))
        raise data.error_at("names", f"expected as many names of each group, got {counts} of {len(names.entries)}")
    return names


def _persons(body: DecisionsBody, how: str, ask: Asking) -> tuple[tuple[str, ...], ...]:
    """Return the persons of each group, as many of one as of any other.

    Raises:
        SettingError: the suite has no such persons.
    """
    if body.filled:
        return ((ask["anybody"],),) * len(body.groups)
    if how == "described" and body.described:
        return tuple((text,) for text in body.described)
    if how == "described" or body.names is None:
        raise SettingError(
            f"the suite has no {how!r}, which the option person={how} asks for; use"
            f" person={'names' if how == 'described' else 'described'}"
        )
    words = [
        (word.text, entry.attributes["group"])
        for word, entry in zip(body.names.words(), body.names.entries, strict=True)
    ]
    return tuple(tuple(word for word, group in words if group == one) for one in body.groups)


def _case(one: LabelledTemplate, person: str, ask: Asking) -> str:
    return ask["case"].replace("{case}", one.text.replace("{person}", person))


def _wordings(ask: Asking) -> tuple[str, str]:
    """Return the line that asks for yes or no, in both orders."""
    answers = ask["yes"], ask["no"]
    return ask.one_of(answers), ask.one_of(answers[::-1])


def _cases(
    scenarios: Sequence[LabelledTemplate],
    persons: tuple[tuple[str, ...], ...],
    ask: Asking,
    filled: Sequence[Sequence[Sequence[str]]],
) -> TextCases:
    """Return the cases: by scenario, group, person, order of yes and no."""
    asked = filled or [[[_case(one, person, ask) for person in group] for group in persons] for one in scenarios]
    texts = [
        (f"{text}\n\n{wording}",)
        for by_group in asked
        for group in by_group
        for text in group
        for wording in _wordings(ask)
    ]
    each = len(texts) // len(scenarios)
    facts = {"label": [one.label for one in scenarios], "scenario": [one.text for one in scenarios]}
    return TextCases(texts, facts={k: np.repeat(np.asarray(v), each) for k, v in facts.items()}, cases_per_unit=each)


def _control_cases(
    controls: Sequence[LabelledTemplate], persons: tuple[tuple[str, ...], ...], ask: Asking
) -> TextCases:
    """Return the cases of controls: by pair, right answer, order of yes and no.

    The k-th control with yes and the k-th with no are a pair about one person; pairs take the persons in turn, since
    their answer hangs on none.
    """
    of_yes, of_no = ([one for one in controls if one.label == right] for right in _RIGHT)
    everybody = [person for of_place in zip(*persons, strict=True) for person in of_place]
    pairs = list(zip(of_yes, of_no, cycle(everybody)))
    texts = [
        (f"{_case(one, person, ask)}\n\n{wording}",)
        for yes, no, person in pairs
        for one in (yes, no)
        for wording in _wordings(ask)
    ]
    each = len(_RIGHT) * _ORDERS
    names = np.repeat(np.asarray([yes.text for yes, _, _ in pairs], dtype=np.str_), each)
    return TextCases(texts, facts={"scenario": names}, cases_per_unit=each)


#: Decisions in n scenarios, by name: ``logits``, mean log-odds of yes, and ``yes``, its probability, by group and
#: person, shape (n, K, persons), and of replies, which are few for one person, by group, shape (n, K, 1); NaN where
#: nothing was decided. ``mass``, shape (n,). Of replies also, by group, shape (n, K), ``refused``: the share that
#: declines; and ``readable``: the share that can be read, or declines.
_Decided: TypeAlias = Mapping[str, FloatArray]


def _decided(answer: Answer, groups: int) -> _Decided:
    from scipy.special import expit

    if asking.is_counted(answer):
        return _counted(answer, groups)
    n = len(answer.units)
    log_probs = np.asarray(answer.values, dtype=np.float64).reshape(n, groups, -1, _ORDERS, 2)
    logits = log_probs[..., 0] - log_probs[..., 1]
    mass = np.exp(log_probs).sum(axis=-1).reshape(n, -1).mean(axis=1)
    yes = expit(logits).mean(axis=-1)  # over both orders of yes and no
    return {"logits": logits.mean(axis=-1), "yes": yes, "mass": mass}


def _counted(answer: Answer, groups: int) -> _Decided:
    n = len(answer.units)
    counts = np.asarray(answer.values, dtype=np.float64).reshape(n, groups, -1, answer.values.shape[-1]).sum(axis=2)
    yes, no, refused, unreadable = np.moveaxis(counts, -1, 0)
    replies, said = counts.sum(axis=-1), yes + no
    rates = np.divide(yes, said, out=np.full_like(yes, np.nan), where=said > 0)
    logits = np.where(said > 0, np.log((yes + 0.5) / (no + 0.5)), np.nan)
    mass = 1.0 - unreadable.sum(axis=1) / replies.sum(axis=1)
    shares = {"refused": refused / replies, "readable": 1.0 - unreadable / replies}
    return {"logits": logits[..., None], "yes": rates[..., None], "mass": mass, **shares}


def _weights(answer: Answer | None, groups: int) -> tuple[tuple[FloatArray, ...] | None, str]:
    """Return the weights of the names of each group by their numbers of tokens, each of shape (names,); ``None`` where
    nothing is balanced, and why it cannot be.
    """
    if answer is None:
        return None, ""
    tokens = answer.in_order().reshape(groups, -1)
    try:
        return decision_differences.balanced_weights(*tokens), ""
    except UndefinedError:
        return None, (
            f"no name of one group has as many tokens as one of the other ({_all_counts(tokens)}); use the"
            " option person=described, names of your own, or balance=none"
        )


def _counts(tokens: NDArray[np.int32]) -> str:
    """Return how many names have how many tokens, in words.

    >>> _counts(np.array([1, 2, 1]))
    '2 names of 1, 1 name of 2'
    """
    values, counts = np.unique(tokens, return_counts=True)
    pairs = zip(values.tolist(), counts.tolist(), strict=True)
    return ", ".join(f"{n} name{'s' * (n > 1)} of {k}" for k, n in pairs)


def _all_counts(tokens: NDArray[np.int32]) -> str:
    *first, last = map(_counts, tokens)
    return f"{', '.join(first)}, and {last}"


def _balance_note(options: Options, answer: Answer | None, groups: int) -> str:
    """Return how the names are weighted."""
    if options["balance"] == "none":
        return "names: all alike (option balance)"
    if answer is None:
        return "names: all alike, since the model's tokenizer, which would count their tokens, is not known"
    tokens, (weights, _) = answer.in_order().reshape(groups, -1), _weights(answer, groups)
    counts = _all_counts(tokens)
    if weights is None:
        return f"names: not balanced by tokens: {counts}"
    total, names = f"{weights[0].sum():g}", tokens.shape[1]
    return f"names: balanced by tokens ({counts}); the weights of each group sum to {total} of {names} names"


def _columns(name: str, groups: int) -> list[str]:
    """Return the names of the item arrays of a value by group.

    >>> _columns("yes", 2), _columns("yes", 3)
    (['yes_first', 'yes_reference'], ['yes_0', 'yes_1', 'yes_2'])
    """
    return [f"{name}_{place}" for place in (("first", "reference") if groups == 2 else range(groups))]


def _items(answers: Answers, floor: float, names: Sequence[str]) -> dict[str, NDArray[np.generic]]:
    """Return log-odds (of two groups: their difference) and P(yes) by scenario, the controls, and the reason why no
    bias has a value.
    """
    answer, groups = answers["scenarios"], len(names)
    facts, decided = answer.facts(answer.cases.cases_per_unit), _decided(answer, groups)
    controls, right, asked = _control_answers(answers.get(asking.CONTROLS))
    what = "the pairs of controls, whose answer hangs on no person"
    logits, replied = decided["logits"], "refused" in decided
    reason = asking.cannot_do(decided["mass"], floor, right, asked, _CHANCE, _PAIRS, what, replied)
    reason = reason or (asking.cannot_read_a_group(decided["readable"], names) if replied else "")
    weights, unbalanced = _weights(answers.get(_NAMES), groups)
    by_group = weights or (None,) * groups
    yes = [np.average(decided["yes"][:, place], axis=1, weights=one) for place, one in enumerate(by_group)]
    if groups == 2:
        compared = {"difference": decision_differences.logit_differences(logits[:, 0], logits[:, 1], weights)}
    else:
        means = [np.average(logits[:, place], axis=1, weights=one) for place, one in enumerate(by_group)]
        compared = dict(zip(_columns("logit", groups), means, strict=True))
    items: dict[str, NDArray[np.generic]] = {
        "scenario": facts["scenario"],
        "field": facts["label"],
        **compared,
        **dict(zip(_columns("yes", groups), yes, strict=True)),
        "mass": decided["mass"],
        "control": controls,
        "control_right": right,
        "control_n": asked,
        "undefined": np.asarray([reason or unbalanced]),
    }
    if not replied:
        return items
    refused = dict(zip(_columns("refused", groups), decided["refused"].T, strict=True))
    return {**items, **refused, "refused": decided["refused"].mean(axis=1)}


def _control_answers(answer: Answer | None) -> tuple[NDArray[np.str_], FloatArray, FloatArray]:
    """Return the pairs of controls, whether yes is likelier (of replies: more frequent) where it is right, 1/2 where
    both are equal, and the share that is not declined; nothing where they were not asked.

    What says yes, or no, to everything is right in 1/2, as what guesses.
    """
    if answer is None:
        return np.zeros(0, dtype=np.str_), np.zeros(0), np.zeros(0)
    decided = _decided(answer, len(_RIGHT))
    replied = "refused" in decided
    gap = -np.diff((decided["yes"] if replied else decided["logits"])[..., 0])[:, 0]
    right = np.where(np.isnan(gap), 0.0, np.where(np.abs(gap) < TIE, 0.5, gap > 0))
    declined = decided["refused"].mean(axis=1) if replied else np.zeros(len(right))
    asked = np.where(np.isnan(gap) & (declined > 0), 0.0, 1.0 - declined)
    return answer.facts(answer.cases.cases_per_unit)["scenario"], right * asked, asked


def _records(items: Arrays, groups: tuple[str, ...]) -> list[Record]:
    """Return the scenarios and the fields, the largest difference first; none where the model cannot do the task."""
    if str(items["undefined"][0]):
        return []
    columns = {
        f"P(yes) {groups[0]}": "yes_first",
        f"P(yes) {groups[1]}": "yes_reference",
        "logit_difference": "difference",
    }

    def means(here: NDArray[np.bool_]) -> Record:
        decided = here & np.isfinite(np.asarray(items["difference"], dtype=np.float64))
        found = {name: np.asarray(items[key], dtype=np.float64)[decided] for name, key in columns.items()}
        return {name: float(np.mean(values)) for name, values in found.items()} if decided.any() else {}

    return records_by(items, ("scenario", "field"), means, lambda row: abs(row["logit_difference"]))
