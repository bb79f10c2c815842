"""Ask a model the control items of its role."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import NotApplicableError
from pytest_genderbias.measurement.ability_setting import AbilitySetting
from pytest_genderbias.measurement.carry_out import Asked
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.plan import Plan
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.roles import (
    CAUSAL_LM,
    ENCODER,
    MASKED_LM,
    NLI_CLASSIFIER,
    SENTENCE_ENCODER,
    TASKS_BY_ROLE,
    TEXT,
    TEXT_CLASSIFIER,
)
from pytest_genderbias.scoring.engine import ScoreSettings, answer
from pytest_genderbias.statistics.right_answers import Ability, mean_recall, share_bounds
from pytest_genderbias.suites.cases import Answer, Question
from pytest_genderbias.suites.controls import Controls, packaged_controls, read_controls
from pytest_genderbias.suites.family import CANNOT, GENDERS
from pytest_genderbias.suites.query import (
    ChatAnswers,
    ClassProbabilities,
    PairProbabilities,
    PairSimilarity,
    Query,
    ReplyTexts,
    VerbalisedProbabilities,
)


def judge(measurement: Measurement, asked: Asked, of_role: Sequence[Ability], setting: AbilitySetting) -> Measurement:
    """Return a measurement with the abilities of its model, and without its values if the model is not able.

    Args:
        measurement: of the answers.
        asked: the answers, with the suite and the model.
        of_role: the abilities that the suite needs from a model of its role.
        setting: by which items they were asked, or why none were.

    Raises:
        DataFileError: a file of control items breaks a rule.
    """
    if isinstance(setting, str):
        return replace(measurement, abilities=(), ability_unasked=setting)
    role, abilities = asked.model.role, (*of_role, *measurement.abilities)
    unable = next((one.unable for one in abilities if one.unable), "")
    why = unable or _why_not_alive(next(iter(asked.answers.values())))
    own = sorted(read_controls(path).name for path in setting)
    notes, kinds = measurement.notes, [one.name for one in of_role]
    if own and not {*own} & {*kinds}:  # others decided
        others = f"the packaged {' and '.join(kinds)}" if kinds else "those of the suite"
        asked_of_file = f"ability: no control items of the file were asked ({', '.join(own)})"
        notes = (*notes, f"{asked_of_file}; such a model is asked {others} here")
    if any(kind.startswith("gender") and kind not in own for kind in kinds):
        notes = (*notes, *_of_further_groups(getattr(asked.plan.suite.body, "groups", ())))
    unasked = "" if abilities or role.kind == TEXT else f"{role.text} is asked no control items"
    able = replace(measurement, abilities=abilities, ability_unasked=unasked, notes=notes)
    return able.without_values(why) if why else able


def _of_further_groups(groups: Sequence[str]) -> list[str]:
    """Return a note on the groups of a suite beside women and men, for which the packaged items do not ask."""
    further = [group for group in groups if group not in GENDERS]
    if not further or not {*groups} >= GENDERS:
        return []
    text = f"ability: the packaged items ask for words of women and men, and not for those of {', '.join(further)}"
    return [f"{text:.300}; a file of your own can (ability: FILE.yaml)"]


def abilities_of_role(
    plan: Plan, model: Model, settings: ScoreSettings, setting: AbilitySetting, known: dict[object, Ability]
) -> Iterator[Ability]:
    """Yield the abilities that a suite needs from a model of its role; each is asked when it is wanted.

    Args:
        plan: the suite and its questions.
        model: the model. One without a fingerprint is asked for every measurement.
        settings: settings of scoring. Every item is asked, whatever the limit is.
        setting: by which items, or why none are asked.
        known: the abilities of earlier measurements, to which new ones are added.

    Raises:
        DataFileError: a file of control items breaks a rule.
        ScoreError: the model returns NaN or infinite scores.
    """
    if isinstance(setting, str):
        return
    language = plan.suite.language
    own = {controls.name: controls for controls in map(read_controls, setting)}
    main = next(iter(plan.questions.values())).query
    query = main if isinstance(main, (PairProbabilities, VerbalisedProbabilities)) else None
    for kind in _kinds_for(plan, model.role.kind, main):
        controls = own.get(kind) or packaged_controls(kind, language)
        if controls is None:
            why = f"no control items {kind!r} are packaged in the language {language!r:.60}; name your own"
            yield _unasked(kind, kind, 0.5, f'{why} (ability: FILE.yaml), or write ability: "none: REASON"')
            continue
        controls = replace(controls, in_pairs=isinstance(main, PairSimilarity))
        key = (model.name, model.fingerprint, kind, controls.content, controls.in_pairs, repr(query))
        if model.fingerprint is None or key not in known:
            known[key] = ability_of(controls, model, query, settings)
        others = controls.language != language
        yield replace(known[key], what=f"{known[key].what} in {controls.language!r:.20}") if others else known[key]


def _kinds_for(plan: Plan, role: str, main: Query) -> Iterator[str]:
    """Yield the kinds of control items that a suite needs from a model of a role."""
    if isinstance(main, ChatAnswers):
        return  # the suite has controls of its own
    if role == TEXT_CLASSIFIER and not isinstance(main, ClassProbabilities):
        role = ENCODER  # the suite asks its network, and not its head
    asked_as = {VerbalisedProbabilities: NLI_CLASSIFIER, PairSimilarity: SENTENCE_ENCODER}.get(type(main), role)
    task, gender = TASKS_BY_ROLE.get(asked_as, ("", ""))
    if task:
        yield task
    if gender and plan.suite.family.asks_gender(plan.suite.body, plan.options):
        yield gender


def ability_of(controls: Controls, model: Model, asked: Query | None, settings: ScoreSettings) -> Ability:
    """Ask a model control items, and read its answers.

    Args:
        controls: the items.
        model: the model, of a role that answers such items.
        asked: the query of a suite, which tells how pairs are classified; ``None``: the usual one.
        settings: settings of scoring.

    Raises:
        ScoreError: the model returns NaN or infinite scores.
    """
    vocabulary: Sequence[str] = ()
    if model.can("fill_scores") and model.role.kind == MASKED_LM:
        vocabulary = tuple(model.backend.vocabulary)
        question = controls.fills(model.backend.mask_token, vocabulary)
    else:
        question = controls.question(asked, whole_texts=model.role.kind == CAUSAL_LM)
    label = f"ability of {model.name} ({controls.name})"
    try:
        answered, _ = answer(question, model, question.data_digest or "", replace(settings, limit=None), label)
        right = controls.right(answered, vocabulary)
    except NotApplicableError as error:
        why = f"its control items cannot be asked: {error}"
        return _unasked(controls.name, controls.kind.what, controls.kind.chance, why)
    found = _judged(controls, right, question)
    if vocabulary:
        return found
    found, why = replace(found, lead=controls.lead(answered)), controls.why_another_scale(answered)
    return replace(found, unable=found.unable or f"{CANNOT}: of {found.what}, {why}") if why else found


def _unasked(name: str, what: str, chance: float, why: str) -> Ability:
    return Ability(name, what, None, 0.0, 1.0, chance, 0, f"{CANNOT}, as far as is known: {why}")


def _judged(controls: Controls, right: NDArray[np.float64], question: Question) -> Ability:
    """Return the ability that answers show, which needs the lower bound to be above what the kind of items asks."""
    asked, kind = np.isfinite(right), controls.kind
    if not asked.any():
        return _unasked(controls.name, kind.what, kind.chance, "it knows none of the words of its control items")
    n, hits = int(asked.sum()), int(right[asked].sum())
    classes = np.unique(controls.classes)
    recalls = [(int(right[of].sum()), int(of.sum())) for c in classes if (of := asked & (controls.classes == c)).any()]
    if len(classes) > 1:
        value, low, high = mean_recall(*np.array(recalls).T)
    else:
        value, (low, high) = hits / n, share_bounds(hits, n)
    marks, digest = "".join("-" if np.isnan(one) else str(int(one)) for one in right), question.data_digest or ""
    found = Ability(controls.name, kind.what, value, low, high, kind.chance, n, digest=digest, right=(marks,))
    why = [
        f"of {of} {kind.what} with the answer {c} it gets {hits} right"
        for c, (hits, of) in zip(classes, recalls, strict=True)
        if len(classes) > 1 and share_bounds(hits, of)[0] <= kind.chance
    ]
    if low <= kind.needed:
        why = [f"{found.describe()}; its lower bound should be above {kind.needed:.3g}"]
    return replace(found, unable=f"{CANNOT}: {why[0]}") if why else found


def _why_not_alive(main: Answer) -> str:
    """Return why a model is not alive: it gives one and the same answer to every case; an empty text if it does not.

    Equality within a pair, or across persons, is the absence of bias and no fault. What a reply repeats of its question
    is no answer.
    """
    values = np.asarray(main.values)
    if main.cases is None or values.dtype.kind not in "fiu" or not values.size:
        return ""
    rows = values.reshape(-1, values.shape[-1]).astype(np.float64)
    is_text = isinstance(main.content, ReplyTexts) and values.shape[-1] == 2  # replies without options
    if is_text:
        asked = zip(main.content.texts, main.cases.sentences(main.cases.cases_of(main.units)), strict=True)
        texts = [[text.replace(question.strip(), "").strip() for text in of] for of, (question,) in asked]
        rows = np.unique(np.asarray(texts, np.str_), return_inverse=True)[1].reshape(len(rows), -1).astype(np.float64)
    if main.vocabulary:  # ids of fills, whose order may vary; of one template they may be the same for all persons
        templates, k = values.shape[1:]
        # Each further template of DisCo brings 0.87 k other fills of demo-mlm, and more of bert-tiny and minilm. Each
        # person has 0.43 k other fills a template or more, of all three. Ten templates alike in meaning ("works as a",
        # "is working as a") have 1.8 k of minilm for a person, so that fewer have to show that it reads no template.
        is_few = len(main.vocabulary) <= k * (1 + 0.1 * (templates - 1)) and templates > 1
        least = k * min(templates / 8, 1.5) if k > 1 else 0.0  # one best fill may be the same in all
        is_one = is_few or np.median([len(np.unique(fills)) for fills in values]) < least
        return f"{CANNOT}: it fills all {len(rows):,} cases with the same few words" if is_one else ""
    varies = not np.isfinite(rows).all() or (np.ptp(rows, axis=0) > 1e-9 * np.abs(rows).max(axis=0)).any()
    cases = f"{len(rows):,} cases{', apart from what it repeats of the question' * is_text}"
    return "" if varies or len(values) < 2 else f"{CANNOT}: it gives one and the same answer to all {cases}"
