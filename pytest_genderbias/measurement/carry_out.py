"""Carry out a plan: put its questions to a model, and summarise the answers as a measurement.

The labels of an NLI classifier are checked for their order on the way.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from pytest_genderbias.errors import BiasWarning, SettingError, UndefinedError
from pytest_genderbias.measurement.measurement import ALL_CASES, SUITE_CASES, Measurement
from pytest_genderbias.measurement.plan import Plan
from pytest_genderbias.models.behaviour import ANY_ROWS, REASONS
from pytest_genderbias.models.chat_template import DETAIL as CHAT_TEMPLATE
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.protocols import HIDDEN_STATES, REPLIES
from pytest_genderbias.models.roles import CAUSAL_LM, NLI_CLASSIFIER
from pytest_genderbias.scoring import SCORING_VERSION
from pytest_genderbias.scoring.engine import ScoreSettings, answer
from pytest_genderbias.statistics.inference.intervals import Interval, Null, summarise_null
from pytest_genderbias.statistics.inference.item_sums import ItemSums, SumsByStatistic
from pytest_genderbias.statistics.inference.two_way import two_way_interval
from pytest_genderbias.statistics.right_answers import Ability
from pytest_genderbias.suites.cases import Answer, Question
from pytest_genderbias.suites.family import CANNOT, signed_options
from pytest_genderbias.suites.query import IN_TEMPLATE, GeneratedReplies, PairProbabilities, Replies
from pytest_genderbias.suites.space import Axis, CaseSpace, Template
from pytest_genderbias.suites.statistic import Arrays, FamilyStatistic
from pytest_genderbias.suites.suite import Suite
from pytest_genderbias.suites.summary import Summary
from pytest_genderbias.text.template import Word, parse_template

_REPLIES = "replies"  #: what is drawn in a system that answers in text
_FIRST_TOKENS = "first tokens of replies"  #: what such a system is asked for in their place, if it lists them
CHANCE_SHUFFLES = 200  #: of statistics that are made of sizes, where no null control is asked for
#: For each gated statistic: is it decided, if its value over the whole suite lies between these bounds?
Until = Mapping[str, Callable[[float, float], bool]]


@dataclass(frozen=True)
class Asked:
    """The answers to the questions of a plan, with the remarks on how they were computed, and the number of shuffles of
    the null control.
    """

    plan: Plan
    model: Model
    answers: Mapping[str, Answer]
    notes: Sequence[str]
    null: int = 0


def ask(plan: Plan, model: Model, settings: ScoreSettings, until: Until | None = None, null: int = 0) -> Asked:
    """Put the questions of a plan to a model. Arguments and errors as :func:`carry_out`."""
    if type(null) is not int or null < 0:
        raise SettingError(f"null should be a number of shuffles, 0 for none, got {null!r}")
    suite = plan.suite
    answers: dict[str, Answer] = {}
    notes = [] if (doubt := label_warning(model, settings.cache)) is None else [doubt]
    if doubt is not None:
        warnings.warn(doubt, LabelWarning, stacklevel=_level_of_caller())
    asks_texts = any(isinstance(question.query, Replies) for question in plan.questions.values())
    if asks_texts and model.role.kind == CAUSAL_LM:
        from pytest_genderbias.measurement.reply_questions import replying_in_text

        model = replying_in_text(model, settings=replace(settings, progress=None))
    if model.can(REPLIES):
        from pytest_genderbias.measurement.reply_questions import wanted_replies

        model.backend.expect(wanted_replies(plan, settings.limit, settings.seed), settings.cache)
    for name, question in plan.questions.items():
        first = next(iter(answers.values()), None)
        if first is not None and first.stopped and name in suite.family.own_questions() and name not in (until or {}):
            continue  # of a statistic without a gate
        label = f"{suite.name} on {model.name}" + (f" ({name})" if answers else "")
        enough = None if answers or not until else partial(_enough, plan, until)
        answers[name], new_notes = answer(question, model, plan.order_digest(question), settings, label, enough)
        notes += [note for note in new_notes if note not in notes]
    return Asked(plan, model, answers, notes, null)


def carry_out(
    plan: Plan, model: Model, settings: ScoreSettings, until: Until | None = None, null: int = 0
) -> Measurement:
    """Put the questions of a plan to a model, and summarise the answers, whether or not the model is able.

    Args:
        plan: the suite, its options and its questions.
        model: the model, of the role for which the plan was made.
        settings: settings of scoring.
        until: stop as soon as these statistics are decided.
        null: number of shuffles of the null control. With 0, statistics that are made of sizes have one of
            ``CHANCE_SHUFFLES``: chance alone keeps them from their neutral value.

    Raises:
        ScoreError: the model returns NaN or infinite scores.
        SettingError: ``null`` is no whole number of at least 0.
    """
    return summarised(ask(plan, model, settings, until, null), settings)


def summarised(asked: Asked, settings: ScoreSettings) -> Measurement:
    """Summarise answers as a measurement. Arguments as :func:`carry_out`."""
    plan, model, answers = asked.plan, asked.model, asked.answers
    suite, notes = plan.suite, list(asked.notes)
    summary = _without_unread(plan, answers, suite.family.summarise(suite.body, plan.options, answers, settings.seed))
    summary = _with_samples(suite, summary, plan.options)
    shuffled, null_notes = _null_control(plan, answers, summary.values, settings.seed, asked.null)
    notes += [
        *_template_notes(plan, model),
        *(model.backend.notes if model.role.only_prompts or model.can(REPLIES) else ()),
    ]
    batches = model.backend.batches if model.can(HIDDEN_STATES) else ANY_ROWS
    notes += [REASONS[batches]] if batches != ANY_ROWS else []
    main = next(iter(answers.values()))
    in_text = any(isinstance(question.query, Replies) for question in plan.questions.values())
    # Measurements of different ways to ask a system that answers in text are never compared.
    way = {"asked": _REPLIES if in_text else _FIRST_TOKENS} if model.can(REPLIES) else {}
    left_out = dict.fromkeys(plan.questions.keys() - answers.keys(), "not asked: the gates were decided without it")
    sample = {"n": main.n, "of": main.n_total, "seed": settings.seed if main.n < main.n_total else None}
    signature: dict[str, Any] = {
        "suite": suite.name,
        "digest": suite.digest,
        "definition": suite.family.definition,
        "settings": {"seed": settings.seed, **signed_options(suite.family.options, plan.options)},
        "sample": {**sample, "stopped": True} if main.stopped else sample,
        "data": {**_digests(plan, answers), **summary.data, **way},
        "model": {"fingerprint": model.fingerprint, "spec": model.spec, **model.details, **_text_ends(plan, model)},
        "versions": dict(versions()),
    }
    settings_of, arrays = signature["settings"], {**summary.items, **summary.unstored}
    sums = {
        name: partial(_sums_in_clusters, suite, one, settings_of, arrays)  # computed when they are asked for
        for name, one in suite.family.statistics.items()
    }
    return Measurement(
        suite.name,
        model.name,
        summary.values,
        summary.intervals,
        _bounds_by_statistic(plan, answers, summary, model.role.kind, settings.seed),
        {**summary.reasons, **left_out},
        suite.statistics,
        summary.count or main.n,
        summary.count or main.n_total,
        summary.records,
        summary.items,
        signature,
        (*summary.notes, *notes, *(null_notes if asked.null else ())),
        shuffled,
        SumsByStatistic(sums),
        summary.examples,
        _competence(suite, summary, signature),
    )


def _competence(suite: Suite, summary: Summary, signature: Mapping[str, Any]) -> tuple[Ability, ...]:
    """Return how able the model is by the suite's own questions, if these have right answers; other data are other
    questions.
    """
    known = suite.family.competence(summary)
    if known is None:
        return ()
    asked = hashlib.sha256(json.dumps([signature["digest"], signature["data"]], sort_keys=True).encode()).hexdigest()
    found = replace(known, digest=asked)
    if found.low > found.chance:
        return (found,)
    return (replace(found, unable=f"{CANNOT}: {found.describe()}; its lower bound should be above guessing"),)


def _text_ends(plan: Plan, model: Model) -> dict[str, str]:
    """Return the tokens at which a model's own texts end, if it writes some: the generation settings name them, which
    no fingerprint reads.
    """
    if not any(isinstance(question.query, GeneratedReplies) for question in plan.questions.values()):
        return {}
    from pytest_genderbias.scoring.sampled_texts import end_tokens

    return {"text_ends": ", ".join(map(str, end_tokens(model)))}


def _template_notes(plan: Plan, model: Model) -> list[str]:
    """Return the remark that a chat model's template is not used, where texts are scored as they are, or how texts are
    continued.
    """
    queries = [question.query for question in plan.questions.values()]
    if any(isinstance(query, GeneratedReplies) for query in queries):
        asked = "is asked to continue the prompts, in its chat template" if CHAT_TEMPLATE in model.details else ""
        return [f"the model {asked or 'continues the prompts as plain text: it has no chat template'}"]
    asks_in_template = any(isinstance(query, IN_TEMPLATE) for query in queries)
    if asks_in_template or CHAT_TEMPLATE not in model.details or model.role.kind != CAUSAL_LM:
        return []
    return ["the model has a chat template, which this suite does not use: its texts are scored as they are"]


def _without_unread(plan: Plan, answers: Mapping[str, Answer], summary: Summary) -> Summary:
    """Take the values from statistics whose cases the model's tokenizer cannot tell apart, and give the reason."""
    main = next(iter(answers.values()))
    reasons = {}
    for name, statistic in plan.suite.family.statistics.items():
        asked = main if statistic.question is None else answers.get(statistic.question)
        if asked is not None and asked.unread:
            reasons[name] = asked.unread
    if not reasons:
        return summary
    nothing = dict.fromkeys(reasons)
    values, intervals = {**summary.values, **nothing}, {**summary.intervals, **nothing}
    return replace(summary, values=values, intervals=intervals, reasons={**summary.reasons, **reasons})


def _sums_in_clusters(suite: Suite, statistic: FamilyStatistic, options: Mapping[str, Any], arrays: Arrays) -> ItemSums:
    return statistic.item_sums(options, arrays).in_clusters(suite.clusters, suite.complete)


def _with_samples(suite: Suite, summary: Summary, options: Mapping[str, Any]) -> Summary:
    """Widen intervals for other clusters, and other templates; or name how many templates they take as fixed. A note
    says how many independent items those of the main statistic are worth in their clusters.
    """
    intervals, arrays = dict(summary.intervals), {**summary.items, **summary.unstored}
    notes = list(summary.notes)
    for name, statistic in suite.family.statistics.items():
        if summary.values[name] is None or isinstance(statistic.sums, str) or not (statistic.crossed or suite.clusters):
            continue
        sums = _sums_in_clusters(suite, statistic, options, arrays)
        if sums.clusters is not None and sums.smooth:
            from pytest_genderbias.statistics.inference.item_bounds import cluster_interval

            intervals[name] = cluster_interval(sums, statistic.scale.limits)
            if name == next(iter(suite.family.statistics)):
                of_items = cluster_interval(replace(sums, clusters=None), statistic.scale.limits)
                notes += _effective_number(sums, of_items, intervals[name])
        if statistic.crossed:
            intervals[name] = two_way_interval(sums, intervals[name], statistic.scale.limits)
    return replace(summary, intervals=intervals, notes=notes)


def _effective_number(sums: ItemSums, of_items: Interval | None, of_clusters: Interval | None) -> Iterator[str]:
    """Yield how many independent items would have the interval that clusters have: the design effect of Kish 1965."""
    if of_items is not None and of_clusters is not None and of_clusters.high > of_clusters.low:
        n, clusters = len(sums.labels), len(sums.by_cluster().labels)
        worth = n * min(1.0, ((of_items.high - of_items.low) / (of_clusters.high - of_clusters.low)) ** 2)
        yield f"{n} {sums.over} in {clusters} clusters are worth {worth:.0f} independent ones"


def _null_control(
    plan: Plan, answers: Mapping[str, Answer], values: Mapping[str, float | None], seed: int, repeats: int
) -> tuple[dict[str, Null], list[str]]:
    """Return the null control by statistic, and notes on missing or smaller controls.

    If none is asked for (``repeats`` 0), it is that of the statistics that are made of sizes.
    """
    family = plan.suite.family
    draw = family.null if repeats else family.null_sizes
    if not repeats:
        values = {name: values[name] if about.is_size else None for name, about in family.statistics.items()}
        repeats = CHANCE_SHUFFLES
        if all(value is None for value in values.values()):
            return {}, []
    if not family.null_control:
        return {}, [f"no null control: {family.no_null_control}"]
    try:
        by_name = draw(plan.suite.body, plan.options, answers, seed, repeats)
    except UndefinedError as error:
        return {}, [f"no null control: {error}"]
    drawn = {name: by_name[name] for name in family.statistics if name in by_name}
    controls = {
        name: summarise_null(value, shuffled, family.statistics[name].plain().distance, family.null_control)
        for name, shuffled in drawn.items()
        if (value := values[name]) is not None and not np.isnan(shuffled).all()
    }
    if not controls:
        return {}, ["no null control: what was scored leaves nothing to shuffle"]
    made = max(len(shuffled) for shuffled in drawn.values())
    notes = [f"{made} shuffles and not {repeats}: more would take minutes"] if made < repeats else []
    notes += [
        f"{control.undefined} of {made} shuffles leave {name} undefined"
        for name, control in controls.items()
        if control.undefined
    ]
    return controls, [f"null control: {note}" for note in notes]


def _enough(plan: Plan, until: Until, answer: Answer) -> bool:
    """Tell whether the answers so far decide every gate on a sampled statistic."""
    for name, decided in until.items():
        if plan.suite.family.statistics[name].question is not None:  # the sample of these cases says nothing about it
            continue
        bounds = _sample_bounds(plan, name, answer)
        if bounds is None or not decided(bounds.low, bounds.high):
            return False
    return True


def _sample_bounds(plan: Plan, statistic: str, answer: Answer) -> Interval | None:
    """Return bounds on a mean over all units from the answered ones; ``None`` if the statistic is no such mean.

    Units without a score, which the mean leaves out, count as 0 for the lower bound and as 1 for the upper one.
    """
    scores = plan.suite.family.statistics[statistic].scores(plan.options, answer)
    if scores is None:
        return None
    from pytest_genderbias.statistics.inference.sequences import mean_bounds

    n_units = answer.cases.n_units
    low, high = mean_bounds(np.nan_to_num(scores, nan=0.0), n_units)
    if np.isnan(scores).any():
        high = mean_bounds(np.nan_to_num(scores, nan=1.0), n_units)[1]
    return Interval(low, high, 0.95, SUITE_CASES, "betting, without replacement, at any time", len(scores))


def _bounds_by_statistic(
    plan: Plan, answers: Mapping[str, Answer], summary: Summary, role: str, seed: int
) -> dict[str, Interval | None]:
    """Return bounds on each value over the whole suite: the value if nothing is drawn at random, else the interval over
    the draws, or the value with this seed.

    The chance of replies in text is inside the interval over the items, whatever these are.
    """
    main = next(iter(answers.values()))
    bounds: dict[str, Interval | None] = {}
    for name, value in summary.values.items():
        if value is None:
            bounds[name] = None
            continue
        if (asked := answers.get(plan.suite.family.statistics[name].question or "", main)).n < asked.n_total:
            bounds[name] = _sample_bounds(plan, name, asked)
            continue
        interval, drawn = summary.intervals[name], _drawn(plan, role, name)
        over = f"{ALL_CASES}, with seed {seed} for the {drawn}" if drawn else ALL_CASES
        of_draws = drawn and interval is not None and drawn in (interval.over, _REPLIES)
        bounds[name] = interval if of_draws else Interval(value, value, 1.0, over, "all cases")
    return bounds


def _drawn(plan: Plan, role: str, statistic: str) -> str:
    about = plan.suite.family.statistics[statistic]
    if about.question is not None:
        return ""
    drawn = about.drawn(plan.options, role) or ("head" if plan.trains else "")
    return drawn or (_REPLIES if isinstance(next(iter(plan.questions.values())).query, Replies) else "")


def _digests(plan: Plan, answers: Mapping[str, Answer]) -> dict[str, str]:
    """Return digests of the data of the questions; a sample of the data of a further question (an accuracy) names its
    size, too.
    """
    digests = {name: q.data_digest[:16] for name, q in plan.questions.items() if q.data_digest is not None}
    for name, asked in list(answers.items())[1:]:
        if name in digests and asked.n < asked.n_total:
            digests[name] += f", {asked.n} of {asked.n_total}"
    return digests


def _level_of_caller() -> int:
    """Return the stack level, as ``warnings.warn`` counts, of the first frame outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "pytest_genderbias":
        level, frame = level + 1, frame.f_back
    return level


@cache  # reading the metadata of packages takes as long as a small measurement
def versions() -> dict[str, str]:
    """Return the versions that a score can depend on."""
    from importlib.metadata import version

    packages = ("torch", "transformers", "tokenizers", "numpy", "scipy")
    installed = {package: version(package) for package in packages}
    return {"scoring": str(SCORING_VERSION), "python": platform.python_version(), **installed}


class LabelWarning(BiasWarning):
    """The labels of an NLI classifier may be in the wrong order."""


#: Sentences for a pair with a known answer: each entails itself.
_SENTENCES = (
    "A man is sleeping.", "The dog runs in the park.", "Two children play football.", "The teacher bought a car.",
         "The woman ate an apple.", "The doctor visited a friend.")  # fmt: skip


def label_warning(model: Model, cache: Path | None = None) -> str | None:
    """Score pairs of a sentence and itself, and return a warning if entailment is not the most likely label.

    ``None`` for models that are not NLI classifiers. ``cache``: the score cache, which keeps the scores of a checkpoint
    like those of a suite; an object in memory is asked each time.
    """
    if model.role.kind != NLI_CLASSIFIER:
        return None
    pieces = parse_template("{sentence}")
    words = {"sentence": tuple(Word.of(text) for text in _SENTENCES)}
    space = CaseSpace((Template((pieces, pieces)),), words, (Axis.whole("sentence", len(_SENTENCES)),), 1)
    label = f"label check on {model.name}"
    settings = ScoreSettings(cache=cache if model.can(HIDDEN_STATES) else None)
    answered, _ = answer(Question(space, PairProbabilities()), model, space.digest(), settings, label)
    probabilities = answered.values[np.argsort(answered.units), 0].mean(axis=0)
    entailment, neutral, contradiction = map(float, probabilities)
    if entailment >= max(neutral, contradiction):
        return None
    return (
        f"{model.name} does not find that a sentence entails itself (entailment {entailment:.2f}, neutral"
        f" {neutral:.2f}, contradiction {contradiction:.2f}): are its labels in the right order? Name them with"
        " --bias-labels"
    )
