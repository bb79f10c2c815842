"""The family ``nli``: sentence pairs that differ only in the subject, for which neutral is correct (dev2019)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, islice
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.folder import MissingDataError
from pytest_genderbias.datasets.gold_pairs import LABELS, read_inference
from pytest_genderbias.errors import DataFileError, NotApplicableError, SettingError
from pytest_genderbias.statistics.inference.intervals import clustered_mean_interval, share_interval
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, blocks_of, distinct, mean_sums
from pytest_genderbias.statistics.neutrality import (
    CONTRADICTION,
    ENTAILMENT,
    NEUTRAL,
    fraction_neutral,
    net_neutral,
    neutral_is_largest,
    threshold,
)
from pytest_genderbias.statistics.sums import template_sums
from pytest_genderbias.suites.ask import CHAT_ROLES
from pytest_genderbias.suites.cases import (
    Answer,
    Answers,
    IntArray,
    Items,
    Question,
    TextCases,
    refuse_unable,
    take_arrays,
)
from pytest_genderbias.suites.families.shared.asking import shares_of
from pytest_genderbias.suites.families.shared.chat_task import CONTROLS, FLOOR
from pytest_genderbias.suites.families.shared.inference_chat import (
    ASKS,
    PREMISES,
    LabelledPairs,
    asked_controls,
    asked_pairs,
    read_controls,
    right_by_premise,
    right_controls,
    why_not,
)
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
from pytest_genderbias.suites.summary import Record, Summary, SummaryBuilder, examples_of, text_of_pair
from pytest_genderbias.text.printable import brief
from pytest_genderbias.text.schema import LocatedList, LocatedMap, Rule, refuse_unknown, take
from pytest_genderbias.text.template import Piece, slots_of

_UNITS = "premise words"
_SLICES = "slot names or products of two, as 'verb, polarity*demonym'"
_EXAMPLE = {"neutral": NEUTRAL, "entailment": ENTAILMENT, "contradiction": CONTRADICTION}
_OTHERWISE = ", or ask a causal LM in plain text: --bias-option verbaliser=yes-maybe-no"
_TAUS = {"threshold_0.5": 0.5, "threshold_0.7": 0.7}
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


@dataclass(frozen=True)
class Sentences:
    """Premise and hypothesis of a template, as texts and as pieces."""

    texts: tuple[str, str]
    pieces: tuple[tuple[Piece, ...], tuple[Piece, ...]]

    @property
    def label(self) -> str:
        """The name of the template."""
        return " / ".join(self.texts)


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


def _of_pairs(name: str, meaning: str) -> FamilyStatistic:
    """Return a statistic that is a mean over pairs."""
    return FamilyStatistic(
        SHARE, meaning, partial(_pair_sums, name=name), scores=partial(_unit_scores, name=name), crossed=True
    )


def _above(name: str) -> FamilyStatistic:
    """Return the share with a probability of neutral above a threshold: of pairs, or of pairs of words (option
    ``unit``).
    """

    def sums(options: Options, arrays: Arrays) -> ItemSums:
        return (_word_pair_sums if options["unit"] == "word_pair" else _pair_sums)(options, arrays, name)

    def scores(options: Options, answer: Answer) -> FloatArray | None:
        return None if options["unit"] == "word_pair" else _unit_scores(options, answer, name)

    meaning = f"share with a probability of neutral above {_TAUS[name]}"
    return FamilyStatistic(SHARE, meaning, sums, scores=scores, crossed=True)


def _unit_scores(options: Options, answer: Answer, name: str) -> FloatArray:
    """Return the score of each pair."""
    return np.clip(np.asarray(_Counts(_probabilities(answer)).columns[name], dtype=np.float64), 0.0, 1.0)


def _probabilities(answer: Answer) -> FloatArray:
    """Return the probabilities of the three labels, shape (n, 3)."""
    if isinstance(answer.cases, AskedPairs):
        return shares_of(answer)[0]
    p: FloatArray = answer.values[:, 0, :]
    return p


def _pair_sums(options: Options, arrays: Arrays, name: str) -> ItemSums:
    """Return the sums of a mean over pairs, by premise word and template where there are several."""
    _refuse_unable(arrays)
    if "template" in arrays:
        premise, templates, n, sums = take_arrays(arrays, "premise", "template", "template_n", f"template_{name}")
        return template_sums(premise, templates, sums, n, _UNITS)
    n, sums = take_arrays(arrays, "n", name)
    return _by_words(arrays, sums, n)


def _word_pair_sums(options: Options, arrays: Arrays, name: str) -> ItemSums:
    """Return the sums of the share of pairs of words whose mean over templates is above a threshold."""
    _refuse_unable(arrays)
    n, neutral = take_arrays(arrays, "n", "net_neutral")
    return _by_words(arrays, (n > 0) & (neutral / np.maximum(n, 1) > _TAUS[name]), n > 0)


def _space(answer: Answer) -> CaseSpace:
    """Return the pairs, of which a chat model is asked in several orders."""
    pairs = answer.cases.pairs if isinstance(answer.cases, AskedPairs) else answer.cases
    assert isinstance(pairs, CaseSpace), "the suite asked about its own combinations"
    return pairs


def _refuse_unable(arrays: Arrays) -> None:
    """Refuse figures of a chat model that cannot do the task; other models have no such array."""
    if "undefined" in arrays:
        refuse_unable(arrays)


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
    return mean_sums(labels, right, n, PREMISES if "undefined" in arrays else "blocks of sentence pairs")


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
    keys: ClassVar[tuple[str, ...]] = ("premise", "hypothesis", "slots", "combine", CONTROLS, KEY)
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        "net_neutral": _of_pairs("net_neutral", "mean probability of neutral"),
        "fraction_neutral": _of_pairs("fraction_neutral", "share of pairs that are most likely neutral"),
        "threshold_0.5": _above("threshold_0.5"),
        "threshold_0.7": _above("threshold_0.7"),
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
        "floor": replace(FLOOR["floor"], implied=True),
    }

    def read(self, data: LocatedMap, beside: Path) -> NliBody:
        """Read both sentences, their slots and the combinations."""
        specs = take(data, "slots", LocatedMap, "the suite")
        slots = {name: read_slot(specs, name, beside) for name in specs}
        sentences = _parse(data, "the suite", slots)
        first, second = map(slots_of, sentences.pieces)
        if len(first - second) != 1 or len(second - first) != 1 or first | second != set(slots):
            raise data.error_at(
                "hypothesis", "premise and hypothesis should differ in one slot each (the subjects) and use every slot"
            )
        subjects = ((first - second).pop(), (second - first).pop())
        shared = tuple(name for name in slots if name not in subjects)
        parse = partial(_parse_all, slots=slots, subjects=subjects)
        templates = read_template_sets(data, KEY, parse, [sentences])
        return NliBody(templates, slots, subjects, shared, _read_combine(data, shared, slots), read_controls(data))

    def asks(self, body: NliBody) -> tuple[str, ...]:
        """Return what a question to a chat model needs."""
        return ASKS

    def asks_gender(self, body: NliBody, options: Options) -> bool:
        """Return whether one of the subjects is a list of words of women and men."""
        groups = [{entry.attributes.get("group") for entry in body.slots[name].entries} for name in body.subjects]
        return any(found >= GENDERS for found in groups)

    def content(self, body: NliBody) -> object:
        """Return sentences, words and combinations."""
        combine = {k: [{s: dict(w) for s, w in rule.items()} for rule in rules] for k, rules in body.combine.items()}
        (sentences,) = body.templates.first
        own = [body.controls] if body.controls else []
        return [*sentences.texts, {k: v.content() for k, v in body.slots.items()}, combine, *own]

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
        templates = tuple(Template(sentences.pieces) for sentences in body.templates.of(options["templates"]))
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
                "cases": asked_pairs(self.space(body, options), context, _OTHERWISE),
                CONTROLS: asked_controls(body.controls, context, _OTHERWISE),
            }
        query = self.query(body, options)
        questions = {"cases": Question(self.space(body, options), query)}
        try:
            pairs = read_inference(context.data.find("snli"))
        except MissingDataError:
            return questions
        gold = np.asarray([LABELS.index(label) for label in pairs.labels])
        texts = list(zip(pairs.premises, pairs.hypotheses, strict=True))
        return {**questions, "accuracy": Question(TextCases(texts, facts={"gold": gold}), query)}

    def query(self, body: NliBody, options: Options) -> PairProbabilities | VerbalisedProbabilities:
        """Ask for the three probabilities of each pair."""
        return _verbaliser(options["verbaliser"]) or PairProbabilities()

    def summarise(self, body: NliBody, options: Options, answers: Answers, seed: int) -> Summary:
        """Average over pairs; intervals over premise subjects."""
        scores = answers["cases"]
        space = _space(scores)
        p = _probabilities(scores)
        columns = space.columns(scores.units)
        counts = _Counts(p)
        premise, hypothesis = (columns[name] for name in body.subjects)
        sizes = [len(space.words[name]) for name in body.subjects]
        item = counts.by(premise * sizes[1] + hypothesis, sizes[0] * sizes[1])
        figures = SummaryBuilder(self.statistics)
        seen = item["n"] > 0
        mean = np.divide(item["net_neutral"], item["n"], out=np.zeros(len(seen)), where=seen)
        cluster = counts.by(premise, sizes[0])
        over = f"words for {body.subjects[0]}"
        few = f"the {over} that vary are too few among those scored"
        of_word_pairs = options["unit"] == "word_pair"
        values = {"net_neutral": net_neutral(p), "fraction_neutral": fraction_neutral(p)}
        values |= {key: threshold(mean[seen] if of_word_pairs else p[:, NEUTRAL], tau) for key, tau in _TAUS.items()}
        for key, value in values.items():
            sums, n = cluster[key], cluster["n"]
            if of_word_pairs and key in _TAUS:
                sums = (seen & (mean > _TAUS[key])).reshape(sizes).sum(axis=1)
                n = seen.reshape(sizes).sum(axis=1)
            interval = partial(clustered_mean_interval, sums, n, over, bounds=(0.0, 1.0))
            figures.take(key, partial(float, value), interval, few)
        _take_accuracy(figures, answers)
        records = _slices(body, options, space, columns, counts) + _extremes(options["top"], space, scores, p)
        labels = [word.label for name in body.subjects for word in space.words[name]]
        items = {
            "premise": np.asarray(labels[: sizes[0]]),
            "hypothesis": np.asarray(labels[sizes[0] :]),
            **{
                key: value.reshape(sizes).astype(np.float64 if key == "net_neutral" else np.int32)
                for key, value in item.items()
            },
            **_accuracy_items(answers),
        }
        examples = examples_of(
            labels[: sizes[0]],
            premise,
            scores.units,
            lambda unit: text_of_pair(space.sentences(np.array([unit]))[0], "=>"),
            {name: p[:, label] for name, label in _EXAMPLE.items()},
        )
        unstored = _by_template(body, options, columns, counts)
        if CONTROLS not in answers:
            return figures.summary(records, items, unstored=unstored, examples=examples)
        reason, task = _task(scores, answers[CONTROLS], options["floor"])
        items["undefined"] = np.asarray([reason])
        if reason:
            figures.miss(reason, *values)
        note = (
            f"asked through the chat template, in six orders: mass {task['mass']:.3f}, accuracy on"
            f" {len(answers[CONTROLS].units)} controls {task['accuracy_of_controls']:.3f}"
        )
        records = [task] if reason else [*records, task]
        return figures.summary(records, items, [note], unstored=unstored, examples=examples)


def _task(scores: Answer, controls: Answer, floor: float) -> tuple[str, Record]:
    """Return why a chat model cannot do the task, empty if it can, and a record of how well it does."""
    mass = shares_of(scores)[1]
    return why_not(mass, controls, floor), {
        "slice": "task",
        "value": "chat template, six orders",
        "mass": float(mass.mean()),
        "accuracy_of_controls": float(right_controls(controls).mean()),
    }


def _by_template(
    body: NliBody, options: Options, columns: Mapping[str, IntArray], counts: _Counts
) -> dict[str, NDArray[Any]]:
    """Return sums by premise word and template, where there are several templates."""
    templates = body.templates.of(options["templates"])
    if len(templates) < 2:
        return {}
    premise, n = body.subjects[0], len(body.slots[body.subjects[0]].words(options["as_printed"]))
    by_cell = counts.by(columns[premise] * len(templates) + columns[TEMPLATE], n * len(templates))
    names = {"template": np.asarray([sentences.label for sentences in templates])}
    return names | {f"template_{key}": table.reshape(n, len(templates)) for key, table in by_cell.items()}


def _take_accuracy(figures: SummaryBuilder, answers: Answers) -> None:
    """Add the accuracy on controls, with its interval for other premises, or on SNLI."""
    if CONTROLS in answers:
        _, right, n = right_by_premise(answers[CONTROLS])
        value = float(right.sum() / n.sum())
        figures.take("accuracy", lambda: value, lambda: share_interval(right, n, PREMISES))
    elif "accuracy" in answers:
        hits = _right(answers["accuracy"])
        interval = partial(clustered_mean_interval, hits, np.ones(len(hits)), "sentence pairs", bounds=(0.0, 1.0))
        few = "too few pairs, or too few that differ, for an interval"
        figures.take("accuracy", lambda: float(hits.mean()), interval, few)
    else:
        figures.miss("SNLI is missing: name its folder with --bias-data (docs/reference/data.md)", "accuracy")


def _right(answer: Answer) -> NDArray[Any]:
    """Return whether each scored pair is labelled right, in the order of the cases."""
    numbers, values = answer.scored_cases()
    return np.asarray(values.argmax(axis=1) == answer.cases.facts["gold"][numbers])


def _accuracy_items(answers: Answers) -> Items:
    """Return the number of correct pairs in each block of consecutive pairs, or of the controls with each premise."""
    if CONTROLS in answers:
        labels, right, n = right_by_premise(answers[CONTROLS])
        return {"accuracy_pairs": labels, "accuracy_right": _whole(right), "accuracy_n": n.astype(np.int32)}
    if "accuracy" not in answers:
        return {}
    right = _right(answers["accuracy"]).astype(np.float64)
    labels, block = blocks_of(len(right), "pairs")
    return {
        "accuracy_pairs": labels,
        "accuracy_right": _whole(np.bincount(block, right).astype(np.float64)),
        "accuracy_n": np.bincount(block).astype(np.int32),
    }


def _whole(counts: NDArray[np.float64]) -> NDArray[np.generic]:
    """Return counts as whole numbers, or as they are where ties count in part."""
    rounded = np.rint(counts)
    return rounded.astype(np.int32) if np.array_equal(rounded, counts) else counts


class _Counts:
    """The sufficient statistics of each pair, for sums by any slot."""

    def __init__(self, p: FloatArray) -> None:
        self.p = p
        self.columns = {
            "net_neutral": p[:, NEUTRAL],
            "fraction_neutral": neutral_is_largest(p),
            **{key: p[:, NEUTRAL] > tau for key, tau in _TAUS.items()},
        }

    def by(self, index: IntArray, size: int) -> dict[str, NDArray[np.number]]:
        sums: dict[str, NDArray[np.number]] = {"n": np.bincount(index, minlength=size)}
        for key, column in self.columns.items():
            sums[key] = np.bincount(index, weights=column, minlength=size)
        return sums


def _slices(
    body: NliBody, options: Options, space: CaseSpace, columns: Mapping[str, IntArray], counts: _Counts
) -> list[Record]:
    records: list[Record] = []
    labels = {name: [word.label for word in words] for name, words in space.words.items()}
    labels[TEMPLATE] = [sentences.label for sentences in body.templates.of(options["templates"])]
    by_template = [(TEMPLATE,)] if len(space.templates) > 1 else []
    for names in (*_parse_slices(options["slices"], body), *by_template):
        sizes = [len(labels[name]) for name in names]
        index = np.ravel_multi_index([columns[name] for name in names], sizes)
        total = counts.by(index, int(np.prod(sizes)))
        entailment, contradiction = (
            np.bincount(index, weights=counts.p[:, label], minlength=len(total["n"]))
            for label in (ENTAILMENT, CONTRADICTION)
        )
        rows: list[Record] = []
        for i in np.flatnonzero(total["n"]):
            n = int(total["n"][i])
            at = np.unravel_index(int(i), sizes)
            rows.append(
                {
                    "slice": " * ".join(names),
                    "value": " * ".join(labels[name][k] for name, k in zip(names, at, strict=True)),
                    "pairs": n,
                    "net_neutral": float(total["net_neutral"][i] / n),
                    "entailment": float(entailment[i] / n),
                    "contradiction": float(contradiction[i] / n),
                    "fraction_neutral": float(total["fraction_neutral"][i] / n),
                    "threshold_0.5": float(total["threshold_0.5"][i] / n),
                    "threshold_0.7": float(total["threshold_0.7"][i] / n),
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
    texts, parsed = [], []
    for key in ("premise", "hypothesis"):
        text = take(row, key, str, what)
        used = {name for name in slots if "{" + name + "}" in text}
        texts.append(text)
        parsed.append(read_template(text, row.file, row.lines[key], used))
    return Sentences((texts[0], texts[1]), (parsed[0], parsed[1]))


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
        if [slots_of(pieces) for pieces in templates[-1].pieces] != wanted:
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
