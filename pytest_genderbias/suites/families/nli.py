"""The family ``nli``: sentence pairs that differ only in the subject, for which neutral is correct (dev2019)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, islice
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.folder import MissingDataError
from pytest_genderbias.datasets.gold_pairs import LABELS, read_inference
from pytest_genderbias.errors import DataFileError, NotApplicableError, SettingError
from pytest_genderbias.statistics import neutrality
from pytest_genderbias.statistics.inference.intervals import clustered_mean_interval, share_interval
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, blocks_of, distinct, mean_sums
from pytest_genderbias.statistics.multiple_choice import choices
from pytest_genderbias.statistics.neutrality import CONTRADICTION, ENTAILMENT, NEUTRAL
from pytest_genderbias.statistics.sums import template_sums
from pytest_genderbias.suites.ask import CHAT_ROLES, LETTERED, Asking, is_english
from pytest_genderbias.suites.cases import (
    Answer,
    Answers,
    Cases,
    Facts,
    IntArray,
    Items,
    Question,
    TextCases,
    refuse_unable,
    take_arrays,
)
from pytest_genderbias.suites.families.shared import asking
from pytest_genderbias.suites.families.shared.paraphrases import KEY, TEMPLATES, TemplateSets, read_template_sets
from pytest_genderbias.suites.family import GENDERS, Context, Family, Option, flag, one_of, whole
from pytest_genderbias.suites.query import PairProbabilities, VerbalisedProbabilities
from pytest_genderbias.suites.space import (
    TEMPLATE,
    AskedPairs,
    Axis,
    CaseSpace,
    SlotWords,
    Template,
    product,
    read_slot,
    read_template,
)
from pytest_genderbias.suites.statistic import SHARE, Arrays, FamilyStatistic, Options
from pytest_genderbias.suites.summary import Record, Summary, examples_of, rows_of
from pytest_genderbias.text.located_yaml import read_yaml
from pytest_genderbias.text.printable import brief
from pytest_genderbias.text.schema import LocatedList, LocatedMap, Rule, refuse_unknown, take
from pytest_genderbias.text.template import Piece, slots_of

_UNITS = "premise words"
_SLICES = "slot names or products of two, as 'verb, polarity*demonym'"
_EXAMPLE = {"neutral": NEUTRAL, "entailment": ENTAILMENT, "contradiction": CONTRADICTION}
_OTHERWISE = ", or ask a causal LM in plain text: --bias-option verbaliser=yes-maybe-no"
_TAUS = {"threshold_0.5": 0.5, "threshold_0.7": 0.7}
_CHANCE = 1 / 3
_PREMISES = "premises"  #: over which the accuracy on the controls is judged
_WHAT = "the controls, pairs of sentences whose label is known"
LabelledPairs: TypeAlias = Mapping[str, Sequence[tuple[str, str]]]  #: premise and hypothesis, by label
#: Questions for a causal LM, with the answers that mean entailment, neutral and contradiction.
_VERBALISERS = {
    "yes-maybe-no": "{premise}\nQuestion: {hypothesis} Yes, no, or maybe?\nAnswer: | Yes | Maybe | No",
    "true-neither-false": (
        "{premise}\nQuestion: {hypothesis} True, false, or neither?\nAnswer: | True | Neither | False"
    ),
}
_VERBALISED = (
    f"{', '.join(_VERBALISERS)}, or 'QUESTION | ENTAILMENT | NEUTRAL | CONTRADICTION' with {{premise}} and "
    f"{{hypothesis}} once each in the question, and three different answers"
)


#: Premise and hypothesis of a template, each as a text and as pieces.
Sentences: TypeAlias = tuple[tuple[str, tuple[Piece, ...]], tuple[str, tuple[Piece, ...]]]


@dataclass(frozen=True)
class NliBody:
    """Premise and hypothesis in other words each time, their slots, and the combinations of words in the shared
    slots.
    """

    templates: TemplateSets[Sentences]
    slots: Mapping[str, SlotWords]
    subjects: tuple[str, str]
    shared: tuple[str, ...]
    combine: Mapping[str, tuple[Mapping[str, Mapping[str, object]], ...]]
    controls: LabelledPairs = field(default_factory=dict)  #: for a chat model; the packaged ones without any


def _statistic(name: str, meaning: str) -> FamilyStatistic:
    """Return a statistic that is a mean over pairs or, of a threshold with the option ``unit``, over pairs of words."""
    sums, scores = partial(_sums, name=name), partial(_unit_scores, name=name)
    return FamilyStatistic(SHARE, meaning, sums, scores=scores, crossed=True)


def _counts_word_pairs(options: Options, name: str) -> bool:
    return name in _TAUS and options["unit"] == "word_pair"


def _unit_scores(options: Options, answer: Answer, name: str) -> FloatArray | None:
    """Return the score of each pair."""
    if _counts_word_pairs(options, name):
        return None
    return np.clip(np.asarray(_columns(_probabilities(answer))[name], dtype=np.float64), 0.0, 1.0)


def _probabilities(answer: Answer) -> FloatArray:
    """Return the probabilities of the three labels, shape (n, 3)."""
    if isinstance(answer.cases, AskedPairs):
        return asking.shares_of(answer)[0]
    p: FloatArray = answer.values[:, 0, :]
    return p


def _sums(options: Options, arrays: Arrays, name: str) -> ItemSums:
    """Return the sums of a statistic by premise word and, where there are several, by template. Figures of a chat model
    that cannot do the task are refused; other models have no such array.
    """
    if "undefined" in arrays:
        refuse_unable(arrays)
    if _counts_word_pairs(options, name):
        n, neutral = take_arrays(arrays, "n", "net_neutral")
        return _by_words(arrays, (n > 0) & (neutral / np.maximum(n, 1) > _TAUS[name]), n > 0)
    if "template" in arrays:
        premise, templates, n, sums = take_arrays(arrays, "premise", "template", "template_n", f"template_{name}")
        return template_sums(premise, templates, sums, n, _UNITS)
    n, sums = take_arrays(arrays, "n", name)
    return _by_words(arrays, sums, n)


def _space(answer: Answer) -> CaseSpace:
    """Return the pairs, of which a chat model is asked in several orders."""
    pairs = answer.cases.pairs if isinstance(answer.cases, AskedPairs) else answer.cases
    assert isinstance(pairs, CaseSpace), "the suite asked about its own combinations"
    return pairs


def _by_words(arrays: Arrays, sums: NDArray[Any], n: NDArray[Any]) -> ItemSums:
    """Return sums by premise and hypothesis word, or only by premise word if a baseline does not name the others."""
    (premise,) = take_arrays(arrays, "premise")
    if "hypothesis" in arrays:
        across = "hypothesis words" if "template" in arrays else "words in 1 template"
        return template_sums(premise, arrays["hypothesis"], sums, n, _UNITS, across)
    return mean_sums(distinct(premise), sums.sum(axis=1), n.sum(axis=1), _UNITS)


def _accuracy_sums(options: Options, arrays: Arrays) -> ItemSums:
    """Return the number of correct answers by block of consecutive pairs; of a chat model, by premise of the
    controls.
    """
    labels, right, n = take_arrays(arrays, "accuracy_pairs", "accuracy_right", "accuracy_n")
    return mean_sums(labels, right, n, _PREMISES if "undefined" in arrays else "blocks of sentence pairs")


class Nli(Family[NliBody]):
    """Neutrality of a model on sentence pairs (premise, hypothesis) with different subjects.

    A chat model is asked through its chat template, with the three labels as options in all six orders, and its options
    are normalised. It has no value where it does not do this task: its options have too little mass, or it does not
    label controls better than guessing. With the option ``verbaliser``, a causal LM answers a question in words; the
    probability of a label is that of its answer among the three. These values depend on the wording and on the prior
    probabilities of the answers, so use them only to compare checkpoints of one model.
    """

    name: ClassVar[str] = "nli"
    definition: ClassVar[str] = "nli/1"
    picture: ClassVar[str] = "heat_map"
    no_null_control: ClassVar[str] = "every pair is held against the same neutral value, whoever is in it"
    needs: ClassVar[str] = "a pair classifier with entailment, neutral and contradiction labels, or a chat model"
    roles: ClassVar[tuple[str, ...]] = ("nli-classifier", *CHAT_ROLES)
    keys: ClassVar[tuple[str, ...]] = ("premise", "hypothesis", "slots", "combine", asking.CONTROLS, KEY)
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        "net_neutral": _statistic("net_neutral", "mean probability of neutral"),
        "fraction_neutral": _statistic("fraction_neutral", "share of pairs that are most likely neutral"),
        **{key: _statistic(key, f"share with a probability of neutral above {tau}") for key, tau in _TAUS.items()},
        "accuracy": FamilyStatistic(
            SHARE,
            "share of SNLI's pairs (test, else dev), or of controls for a chat model, that are labelled right",
            _accuracy_sums,
            question="accuracy",
        ),
    }
    options: ClassVar[Mapping[str, Option]] = {
        "combine": one_of(
            "typed", "crossed", meaning="verbs with the objects that fit them, or all verbs with all things"
        ),
        "unit": one_of(
            "pair", "word_pair", meaning="what the thresholds count: pairs, or means over the templates of two words"
        ),
        "as_printed": flag("words and articles as the paper prints them"),
        "verbaliser": Option(
            None,
            Annotated[str, Rule(_VERBALISED, test=lambda text: _verbaliser(text) is not None)] | None,
            "question in plain text to a causal LM, without its chat template, with its answers for the labels",
        ),
        "slices": Option(
            None,
            Annotated[str, Rule(_SLICES)] | None,
            "slices in the records; by default both subjects together, then every slot",
            display=True,
        ),
        "top": whole(10, "pairs with the largest entailment, and contradiction, in the records", least=0, display=True),
        "templates": TEMPLATES,
        "floor": replace(asking.FLOOR["floor"], implied=True),
    }

    def read(self, data: LocatedMap) -> NliBody:
        """Read both sentences, their slots and the combinations."""
        specs = take(data, "slots", LocatedMap, "the suite")
        slots = {name: read_slot(specs, name) for name in specs}
        sentences = _parse(data, "the suite", slots)
        first, second = (slots_of(pieces) for _, pieces in sentences)
        if len(first - second) != 1 or len(second - first) != 1 or first | second != set(slots):
            raise data.error_at(
                "hypothesis", "premise and hypothesis should differ in one slot each (the subjects) and use every slot"
            )
        subjects = ((first - second).pop(), (second - first).pop())
        shared = tuple(name for name in slots if name not in subjects)
        parse = partial(_parse_all, slots=slots, subjects=subjects)
        templates = read_template_sets(data, KEY, parse, [sentences])
        return NliBody(
            templates, slots, subjects, shared, _read_combine(data, shared, slots), read_labelled_pairs(data)
        )

    def asks(self, body: NliBody) -> tuple[str, ...]:
        """Return what a question to a chat model needs."""
        return (*LETTERED, "inference", *LABELS)

    def asks_gender(self, body: NliBody, options: Options) -> bool:
        """Return whether one of the subjects is a list of words of women and men."""
        groups = [{entry.attributes.get("group") for entry in body.slots[name].entries} for name in body.subjects]
        return any(found >= GENDERS for found in groups)

    def content(self, body: NliBody) -> object:
        """Return sentences, words and combinations."""
        combine = {k: [{s: dict(w) for s, w in rule.items()} for rule in rules] for k, rules in body.combine.items()}
        (sentences,) = body.templates.first
        own = [body.controls] if body.controls else []
        return [*(text for text, _ in sentences), {k: v.content() for k, v in body.slots.items()}, combine, *own]

    def space(self, body: NliBody, options: Options) -> CaseSpace:
        """Return the cases, premise subject x hypothesis subject x combinations x templates; a unit is a sentence
        pair.
        """
        words = {name: slot.words(options["as_printed"]) for name, slot in body.slots.items()}
        axes = [Axis.whole(name, len(words[name])) for name in body.subjects]
        if body.shared:
            if options["combine"] not in body.combine:
                raise SettingError(
                    f"this suite has no combination {options['combine']!r}; it has {', '.join(body.combine)}"
                )
            axes.append(Axis(body.shared, _combinations(body, body.combine[options["combine"]])))
        _parse_slices(options["slices"], body)
        templates = tuple(Template((p, h)) for (_, p), (_, h) in body.templates.of(options["templates"]))
        if len(templates) > 1:
            axes.append(Axis.whole(TEMPLATE, len(templates)))
        return CaseSpace(templates, words, tuple(axes), unit_axes=len(axes))

    def questions(self, body: NliBody, options: Options, context: Context) -> dict[str, Question]:
        """Ask for the probabilities of every pair and, if SNLI is available, of its pairs; a chat model in words, also
        about controls.
        """
        if context.role != "causal-lm" and options["verbaliser"] is not None:
            raise NotApplicableError("the option verbaliser is for causal LMs; remove it for a classifier")
        if context.role in CHAT_ROLES and options["verbaliser"] is None:
            return {
                "cases": asked_pairs(self.space(body, options), context),
                asking.CONTROLS: _asked_controls(body.controls, context),
            }
        query = _verbaliser(options["verbaliser"]) or PairProbabilities()
        questions = {"cases": Question(self.space(body, options), query)}
        try:
            pairs = read_inference(context.data.find("snli"))
        except MissingDataError:
            return questions
        gold = np.asarray([LABELS.index(label) for *_, label in pairs])
        texts = [(premise, hypothesis) for premise, hypothesis, _ in pairs]
        return {**questions, "accuracy": Question(TextCases(texts, facts={"gold": gold}), query)}

    def summarise(self, body: NliBody, options: Options, answers: Answers, seed: int) -> Summary:
        """Average over pairs; intervals over premise subjects."""
        scores = answers["cases"]
        space = _space(scores)
        p = _probabilities(scores)
        of_pair, columns = _columns(p), space.columns(scores.units)
        premise, hypothesis = (columns[name] for name in body.subjects)
        sizes = [len(space.words[name]) for name in body.subjects]
        item = _sums_by(premise * sizes[1] + hypothesis, sizes[0] * sizes[1], of_pair)
        figures = Summary(self.statistics)
        seen = item["n"] > 0
        mean = np.divide(item["net_neutral"], item["n"], out=np.zeros(len(seen)), where=seen)
        cluster = _sums_by(premise, sizes[0], of_pair)
        over = f"words for {body.subjects[0]}"
        of_word_pairs = options["unit"] == "word_pair"
        values = {"net_neutral": neutrality.net_neutral(p), "fraction_neutral": neutrality.fraction_neutral(p)}
        values |= {
            key: neutrality.threshold(mean[seen] if of_word_pairs else p[:, NEUTRAL], tau) for key, tau in _TAUS.items()
        }
        for key, value in values.items():
            sums, n = cluster[key], cluster["n"]
            if of_word_pairs and key in _TAUS:
                sums = (seen & (mean > _TAUS[key])).reshape(sizes).sum(axis=1)
                n = seen.reshape(sizes).sum(axis=1)
            interval = partial(clustered_mean_interval, sums, n, over, bounds=(0.0, 1.0))
            figures.take(key, partial(float, value), interval, over=over)
        accuracy = _take_accuracy(figures, answers)
        records = _slices(body, options, space, columns, p, of_pair) + _extremes(options["top"], space, scores, p)
        labels = [word.label for name in body.subjects for word in space.words[name]]
        items = {
            "premise": np.asarray(labels[: sizes[0]]),
            "hypothesis": np.asarray(labels[sizes[0] :]),
            **{
                key: value.reshape(sizes).astype(np.float64 if key == "net_neutral" else np.int32)
                for key, value in item.items()
            },
            **accuracy,
        }
        examples = examples_of(
            labels[: sizes[0]],
            premise,
            scores.units,
            lambda unit: " => ".join(space.sentences(np.array([unit]))[0]),
            {name: p[:, label] for name, label in _EXAMPLE.items()},
        )
        unstored = _by_template(body, options, columns, of_pair)
        if asking.CONTROLS not in answers:
            return replace(figures, records=records, items=items, unstored=unstored, examples=examples)
        reason, task = _task(scores, answers[asking.CONTROLS], options["floor"])
        items["undefined"] = np.asarray([reason])
        if reason:
            figures.miss(reason, *values)
        note = (
            f"asked through the chat template, in six orders: mass {task['mass']:.3f}, accuracy on"
            f" {len(answers[asking.CONTROLS].units)} controls {task['accuracy_of_controls']:.3f}"
        )
        records = [task] if reason else [*records, task]
        return replace(figures, records=records, items=items, notes=[note], unstored=unstored, examples=examples)


def _task(scores: Answer, controls: Answer, floor: float) -> tuple[str, Record]:
    """Return why a chat model cannot do the task, empty if it can, and a record of how well it does.

    The accuracy has to be above guessing for other pairs and for other premises: a model may know all pairs with one
    premise or none, so that they are one proof and not three, or prefer one label, so that the premises differ less
    than the pairs.
    """
    mass, right = asking.shares_of(scores)[1], _right_controls(controls)
    _, by_premise, pairs_with = _right_by_premise(controls)
    replied = asking.is_counted(controls)
    reason = (
        asking.cannot_do(mass, floor, right, np.ones(len(right)), _CHANCE, "controls", _WHAT, replied)
        or asking.cannot_do(mass, floor, by_premise, pairs_with, _CHANCE, _PREMISES, _WHAT, replied)
        or asking.why_by_place(asking.picked_of(controls).by_place, "the controls")
    )
    known = {"mass": float(mass.mean()), "accuracy_of_controls": float(right.mean())}
    return reason, {"slice": "task", "value": "chat template, six orders", **known}


def _by_template(
    body: NliBody, options: Options, columns: Mapping[str, IntArray], of_pair: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Return sums by premise word and template, where there are several templates."""
    templates = body.templates.of(options["templates"])
    if len(templates) < 2:
        return {}
    premise, n = body.subjects[0], len(body.slots[body.subjects[0]].words(options["as_printed"]))
    by_cell = _sums_by(columns[premise] * len(templates) + columns[TEMPLATE], n * len(templates), of_pair)
    names = {"template": np.asarray(list(map(_label, templates)))}
    return names | {f"template_{key}": table.reshape(n, len(templates)) for key, table in by_cell.items()}


def _take_accuracy(figures: Summary, answers: Answers) -> Items:
    """Add the accuracy on controls, with its interval for other premises, or on SNLI. Return the number of right pairs
    with each premise, or in each block of consecutive pairs.
    """
    if asking.CONTROLS in answers:
        labels, right, n = _right_by_premise(answers[asking.CONTROLS])
        figures.take("accuracy", lambda: float(right.sum() / n.sum()), lambda: share_interval(right, n, _PREMISES))
    elif "accuracy" in answers:
        numbers, values = answers["accuracy"].scored_cases()
        hits = values.argmax(axis=1) == answers["accuracy"].cases.facts["gold"][numbers]
        interval = partial(clustered_mean_interval, hits, np.ones(len(hits)), "sentence pairs", bounds=(0.0, 1.0))
        figures.take("accuracy", lambda: float(hits.mean()), interval, over="sentence pairs")
        labels, block = blocks_of(len(hits), "pairs")
        right, n = (np.bincount(block, of).astype(np.float64) for of in (hits, np.ones(len(hits))))
    else:
        figures.miss("SNLI is missing: name its folder with --bias-data (docs/reference/data.md)", "accuracy")
        return {}
    return {"accuracy_pairs": labels, "accuracy_right": _whole(right), "accuracy_n": n.astype(np.int32)}


def _whole(counts: NDArray[np.float64]) -> NDArray[np.generic]:
    """Return counts as whole numbers, or as they are where ties count in part."""
    rounded = np.rint(counts)
    return rounded.astype(np.int32) if np.array_equal(rounded, counts) else counts


def _columns(p: FloatArray) -> dict[str, NDArray[Any]]:
    """Return what each statistic is the mean of, by pair."""
    above = {key: p[:, NEUTRAL] > tau for key, tau in _TAUS.items()}
    return {"net_neutral": p[:, NEUTRAL], "fraction_neutral": neutrality.neutral_is_largest(p), **above}


def _sums_by(index: IntArray, size: int, of_pair: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.number]]:
    """Return the number of pairs with each index, and the sums of what statistics are the means of."""
    sums: dict[str, NDArray[np.number]] = {"n": np.bincount(index, minlength=size)}
    return sums | {key: np.bincount(index, column, size) for key, column in of_pair.items()}


def _slices(
    body: NliBody,
    options: Options,
    space: CaseSpace,
    columns: Mapping[str, IntArray],
    p: FloatArray,
    of_pair: Mapping[str, NDArray[Any]],
) -> list[Record]:
    records: list[Record] = []
    labels = {name: [word.label for word in words] for name, words in space.words.items()}
    labels[TEMPLATE] = list(map(_label, body.templates.of(options["templates"])))
    by_template = [(TEMPLATE,)] if len(space.templates) > 1 else []
    others = {"entailment": p[:, ENTAILMENT], "contradiction": p[:, CONTRADICTION]}
    means = {"net_neutral": p[:, NEUTRAL], **others, **of_pair}
    for names in (*_parse_slices(options["slices"], body), *by_template):
        sizes = [len(labels[name]) for name in names]
        index = np.ravel_multi_index([columns[name] for name in names], sizes)
        n = np.bincount(index)
        seen = np.flatnonzero(n)
        places = zip(*(places.tolist() for places in np.unravel_index(seen, sizes)), strict=True)
        rows = rows_of(
            {
                "slice": [" * ".join(names)] * len(seen),
                "value": [" * ".join(labels[name][k] for name, k in zip(names, at, strict=True)) for at in places],
                "pairs": n[seen],
                **{key: np.bincount(index, column)[seen] / n[seen] for key, column in means.items()},
            }
        )
        records.extend(sorted(rows, key=lambda r: (r["net_neutral"], r["value"])))
    return records


def _extremes(top: int, space: CaseSpace, scores: Answer, p: FloatArray) -> list[Record]:
    records: list[Record] = []
    for name, label in (("entailment", ENTAILMENT), ("contradiction", CONTRADICTION)):
        best = np.lexsort((scores.units, -p[:, label]))[:top] if top else np.zeros(0, dtype=np.int64)
        for row, (premise, hypothesis) in zip(best, space.sentences(scores.units[best]), strict=True):
            shown = {"slice": f"largest {name}", "value": f"{premise} / {hypothesis}", "pairs": 1}
            labels = ("entailment", "net_neutral", "contradiction")
            records.append({**shown, **dict(zip(labels, map(float, p[row]), strict=True))})
    return records


def _verbaliser(text: object) -> VerbalisedProbabilities | None:
    """Parse ``QUESTION | ENTAILMENT | NEUTRAL | CONTRADICTION``, or the name of a packaged one; None if it is
    neither.
    """
    parts = [part.strip() for part in _VERBALISERS.get(str(text), str(text)).split(" | ")]
    if len(parts) != 4 or not all(parts) or len(set(parts[1:])) != 3:
        return None
    if any(parts[0].count(slot) != 1 for slot in ("{premise}", "{hypothesis}")):
        return None
    return VerbalisedProbabilities(parts[0], (parts[1], parts[2], parts[3]))


def _parse(row: LocatedMap, what: str, slots: Mapping[str, SlotWords]) -> Sentences:
    """Return the premise and the hypothesis of a mapping."""
    parsed = []
    for key in ("premise", "hypothesis"):
        text = take(row, key, str, what)
        used = {name for name in slots if "{" + name + "}" in text}
        parsed.append((text, read_template(text, row.file, row.lines[key], used)))
    return parsed[0], parsed[1]


def _label(sentences: Sentences) -> str:
    """Return the name of a template."""
    return " / ".join(text for text, _ in sentences)


def _parse_all(rows: LocatedList, slots: Mapping[str, SlotWords], subjects: tuple[str, str]) -> list[Sentences]:
    """Return the premises and hypotheses of a list.

    Raises:
        DataFileError: one is no mapping, has other keys, or other slots than the suite's own premise and hypothesis.
    """
    templates: list[Sentences] = []
    for row, line in zip(rows, rows.lines, strict=True):
        if not isinstance(row, LocatedMap):
            raise DataFileError(f"{rows.file}:{line}: expected a mapping with premise and hypothesis, got {brief(row)}")
        refuse_unknown(row, ("premise", "hypothesis"), "a paraphrase")
        templates.append(_parse(row, "a paraphrase", slots))
        wanted = [set(slots) - {other} for other in reversed(subjects)]
        if [slots_of(pieces) for _, pieces in templates[-1]] != wanted:
            raise DataFileError(
                f"{rows.file}:{line}: a paraphrase should use the slots of the suite's own sentences: {{{subjects[0]}}}"
                f" in the premise, {{{subjects[1]}}} in the hypothesis, and all others in both"
            )
    return templates


def _parse_slices(text: str | None, body: NliBody) -> list[tuple[str, ...]]:
    if text is None:
        return [body.subjects, *((name,) for name in body.slots)]
    wanted = [tuple(part.strip() for part in item.split("*")) for item in text.split(",")]
    for names in wanted:
        if not set(names) <= set(body.slots) or len(names) > 2 or len(set(names)) != len(names):
            pairs = ["*".join(pair) for pair in islice(combinations(body.slots, 2), 50)]
            raise SettingError(f"no slice {'*'.join(names)!r}; the slices are {', '.join([*body.slots, *pairs][:50])}")
    return wanted


def _read_combine(
    data: LocatedMap, shared: tuple[str, ...], slots: Mapping[str, SlotWords]
) -> dict[str, tuple[Mapping[str, Mapping[str, object]], ...]]:
    """Read ``combine: {typed: [{verb: {class: eating}, object: {class: food}}, ...]}``; a slot without a rule keeps all
    words.
    """
    if not shared or "combine" not in data:
        return {"typed": ({},)}
    sets = take(data, "combine", LocatedMap, "the suite")
    refuse_unknown(sets, ("typed", "crossed"), "'combine'")
    combinations: dict[str, tuple[Mapping[str, Mapping[str, object]], ...]] = {}
    for name in sets:
        rules = take(sets, name, list[LocatedMap], "'combine'")
        for rule in rules:
            refuse_unknown(rule, shared, f"a rule of {name!r}")
            for slot, where in rule.items():
                if not isinstance(where, LocatedMap) or not any(e.matches(where) for e in slots[slot].entries):
                    raise rule.error_at(slot, f"no word of the slot {slot!r} matches {where!r}")
        combinations[name] = tuple(rules)
    if "typed" not in combinations:
        raise data.error_at("combine", "'combine' has no 'typed', which is the default; add it")
    return combinations


def _combinations(body: NliBody, rules: tuple[Mapping[str, Mapping[str, object]], ...]) -> IntArray:
    rows: list[IntArray] = []
    for rule in rules:
        fitting = [
            np.asarray([i for i, entry in enumerate(body.slots[name].entries) if entry.matches(rule.get(name, {}))])
            for name in body.shared
        ]
        rows.append(product(fitting))
    return np.unique(np.concatenate(rows), axis=0)


# The question to a chat model, and pairs whose label is known


def _text(ask: Asking, premise: str, hypothesis: str) -> str:
    """Return the question about a pair.

    >>> print(_text(Asking(), "Two dogs run.", "Animals move."))
    Premise: Two dogs run.
    Hypothesis: Animals move.
    <BLANKLINE>
    If the premise is true, is the hypothesis true?
    """
    words = {"{premise}": premise, "{hypothesis}": hypothesis}
    return re.sub(r"\{(?:premise|hypothesis)\}", lambda slot: words[slot[0]], ask["inference"])


def _options(ask: Asking) -> tuple[str, ...]:
    """Return the options for entailment, neutral and contradiction."""
    return tuple(ask[label] for label in LABELS)


def asked_pairs(pairs: Cases, context: Context) -> Question:
    """Return the question about pairs to a chat model."""
    options = _options(context.ask)

    def ask(number: int, premise: str, hypothesis: str) -> list[str]:
        return asking.ways_to_ask(context, number, _text(context.ask, premise, hypothesis), options)

    orders = len(ask(0, "", ""))
    return Question(AskedPairs(pairs, orders, ask), asking.query_for(context, len(options), _OTHERWISE))


def read_labelled_pairs(data: LocatedMap) -> LabelledPairs:
    """Read ``controls`` of a suite file: lists of [premise, hypothesis], as many for each label; none by default."""
    if "controls" not in data:
        return {}
    controls = take(data, "controls", LocatedMap, "the suite")
    refuse_unknown(controls, LABELS, "'controls'")
    pair = Annotated[list[str], Rule("a premise and a hypothesis", test=lambda texts: len(texts) == 2)]
    found: LabelledPairs = {
        label: [(of[0], of[1]) for of in take(controls, label, list[pair], "'controls'")] for label in LABELS
    }
    if len({len(pairs) for pairs in found.values()}) > 1:
        raise data.error_at("controls", "expected as many pairs of each label")
    return found


#: The pairs that a suite has without controls of its own.
PACKAGED = read_labelled_pairs(read_yaml(Path(__file__).parent / "shared" / "inference_controls.yaml"))


def _asked_controls(own: LabelledPairs, context: Context) -> Question:
    """Return the question about the controls, which are always asked; ``own``: those of the suite, if it has some.

    Raises:
        NotApplicableError: it has none, and is in another language than English.
    """
    if not (own or is_english(context.ask.language)):
        raise NotApplicableError(
            f"its language is {context.ask.language}, and it has no pairs whose label is known; write under 'controls'"
            " in its file lists of [premise, hypothesis] for entailment, neutral and contradiction"
        )
    rows = [(pair, LABELS.index(label)) for label, pairs in (own or PACKAGED).items() for pair in pairs]
    facts: Facts = {"gold": np.asarray([gold for _, gold in rows])}
    if own:
        facts = {**facts, "premise": np.asarray([premise for (premise, _), _ in rows])}
    texts = [(_text(context.ask, *pair), _options(context.ask)) for pair, _ in rows]
    return asking.asked(texts, facts, context, whole=True, instead=_OTHERWISE)


def _right_controls(answer: Answer) -> FloatArray:
    """Return how far each control is labelled right, 0 to 1 (a tie is right in part, and so are some of several
    replies), in the order of the cases, shape (n,).
    """
    shares = asking.shares_of(answer)[0]
    picked = shares if asking.is_counted(answer) else choices(shares)
    gold = np.asarray(answer.cases.facts["gold"])[:: answer.cases.cases_per_unit]
    right = np.empty(len(gold))
    right[answer.units] = picked[np.arange(len(gold)), gold[answer.units]]
    return right


def _right_by_premise(controls: Answer) -> tuple[NDArray[np.str_], FloatArray, FloatArray]:
    """Return the premises of the controls, the right labels of the pairs with each, and the number of these pairs, each
    of shape (G,).
    """
    facts, each = controls.cases.facts, controls.cases.cases_per_unit
    packaged = [premise for pairs in PACKAGED.values() for premise, _ in pairs]
    premises = np.asarray(facts["premise"])[::each] if "premise" in facts else packaged
    labels, index = np.unique(premises, return_inverse=True)
    right = np.bincount(index, _right_controls(controls)).astype(np.float64)
    return labels, right, np.bincount(index).astype(np.float64)
