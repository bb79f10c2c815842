"""The family ``paired``: the user's own prompts, put to a system about persons of any number of groups."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from pytest_genderbias.errors import BiasError, NotApplicableError, ScoreError
from pytest_genderbias.statistics.group_deviations import largest_difference
from pytest_genderbias.statistics.inference.item_sums import FloatArray, add_rows
from pytest_genderbias.statistics.right_answers import Ability
from pytest_genderbias.suites.ask import CHAT_ROLES, NEEDS, REPLIES, Asking, check_asking, is_english, read_asking
from pytest_genderbias.suites.cases import Answer, Answers, IntArray, Items, Question, TextCases
from pytest_genderbias.suites.families.generation import words_of
from pytest_genderbias.suites.families.shared import asking
from pytest_genderbias.suites.families.shared.group_values import GroupValues, Value
from pytest_genderbias.suites.family import CANNOT, Context, Family, Option, one_of, share
from pytest_genderbias.suites.space import LabelledTemplate, read_groups, read_labelled_templates, read_slot
from pytest_genderbias.suites.statistic import (
    SHARE,
    SIGNED_SHARE,
    SIZE,
    Arrays,
    FamilyStatistic,
    NullFigures,
    Options,
    Scale,
)
from pytest_genderbias.suites.summary import Record, Summary, examples_of
from pytest_genderbias.text import reply_reading
from pytest_genderbias.text.normal_form import normal_form
from pytest_genderbias.text.schema import LocatedMap, refuse_unknown, take, take_texts
from pytest_genderbias.text.template import Word, piece_texts, slots_of
from pytest_genderbias.text.unspaced import check_of, refuse_uncut_replies

_OVER = "prompts"
_PERSON, _LABEL = "person", str | int | float
_ASKS, _YES_NO_ASKS = ("line", "or"), ("yes", "no")  #: keys of ``ask``
_YES_NO, _OPTIONS, _NUMBER, _TEXT, _SCORER = "yes-no", "options", "number", "text", "scorer"
_PRONOUN, _STATED, _CHANGED, _WITH = "pronoun", "stated", "changed", "with_pronoun"
_NOT_GUESSED = 0.5  #: least accuracy on controls whose right answer, a number, is not guessed


@dataclass(frozen=True)
class Reading:
    """What is read of a reply: ``options`` with the number of the favourable one, the first ``number``, words of a
    ``text``, whether it changes the ``pronoun`` that is the name of the person's group, or what the ``scorer``
    ``module:callable`` gives. ``words``: those that are counted in a text; all where there are none.
    """

    kind: str
    options: tuple[str, ...] = ()
    favourable: int = 0
    words: tuple[str, ...] = ()
    scorer: str = ""
    yes_no: bool = False

    @property
    def meaning(self) -> str:
        """What the value of a group is, in words."""
        if self.options:
            return f"share of {self.options[self.favourable]!r} among the answers"
        if self.kind == _TEXT:
            return "words of the list per 100 words" if self.words else "words of a reply"
        if self.kind == _PRONOUN:
            return "share of replies that change the pronoun which was stated"
        return "first number of a reply" if self.kind == _NUMBER else f"score by {self.scorer}"


@dataclass(frozen=True)
class PairedBody:
    """Groups, the last of which is the reference; persons of each; words of further slots; prompts; how replies are
    read.
    """

    groups: tuple[str, ...]
    persons: tuple[tuple[Word, ...], ...]
    slots: Mapping[str, tuple[Word, ...]]
    prompts: tuple[LabelledTemplate, ...]
    controls: tuple[LabelledTemplate, ...]
    reading: Reading
    ask: Asking

    @property
    def everyone(self) -> tuple[Word, ...]:
        """The persons of all groups, one group after the other."""
        return tuple(word for group in self.persons for word in group)

    @property
    def group_of_each(self) -> list[str]:
        """The group of each of ``everyone``."""
        return [group for group, persons in zip(self.groups, self.persons, strict=True) for _ in persons]

    def units(self, prompts: Sequence[LabelledTemplate]) -> list[tuple[int, dict[str, Word]]]:
        """Return the sampling units: the number of a prompt, and a word for each of its further slots."""
        found = []
        for number, prompt in enumerate(prompts):
            used = sorted(slots_of(prompt.pieces) - {_PERSON})
            found += [(number, dict(zip(used, words, strict=True))) for words in product(*map(self.slots.get, used))]  # type: ignore[arg-type]
        return found


_GROUPS = GroupValues(
    {
        "score": Value("group_rms", "what the suite reads of a reply", of_able=True, difference="difference"),
        "refused": Value(
            "refusal_rms", "the shares of replies that decline", SIGNED_SHARE.limits, difference="refusal_difference"
        ),
        "length": Value("length_rms", "the numbers of words of a reply", difference="length_difference"),
    },
    "prompt",
    _OVER,
    "a model that gives probabilities writes no replies; a system that answers in text does, and their length is"
    " counted in languages with spaces between words",
)


class Paired(Family[PairedBody]):
    """How a system answers prompts of one's own about persons of one group, against the others.

    Each prompt is asked about every person of every group, with everything else unchanged.
    """

    name: ClassVar[str] = "paired"
    definition: ClassVar[str] = "paired/1"
    needs: ClassVar[str] = NEEDS
    null_control: ClassVar[str] = "the groups are exchanged at random in each prompt"
    picture: ClassVar[str] = "group_bars"
    roles: ClassVar[tuple[str, ...]] = CHAT_ROLES
    keys: ClassVar[tuple[str, ...]] = ("groups", "persons", "slots", "answer", "words", "prompts", "controls")
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        **_GROUPS.statistics("score"),
        "largest_difference": FamilyStatistic(
            SIZE,
            "mean of the highest group minus that of the lowest in what the suite reads of a reply",
            "the highest and the lowest group are known after the measurement only",
            no_gate="chance raises it, the more groups the more; gate group_rms",
            without_chance="group_rms",
        ),
        **_GROUPS.statistics("refused", "length"),
        "refused": asking.refused_statistic("prompt", _OVER),
        "readable": FamilyStatistic(
            SHARE,
            "mean share of replies that can be read, or decline; of probabilities: that of all options together",
            partial(_GROUPS.sums_of, name="readable"),
        ),
        "accuracy": replace(asking.CONTROL_ACCURACY, meaning="share of controls with the right answer"),
    }
    options: ClassVar[Mapping[str, Option]] = {
        "scorer": one_of(
            "off", "run", meaning="whether the code that a suite file names as its scorer is run", implied=True
        ),
        **asking.FLOOR,
    }

    def read(self, data: LocatedMap) -> PairedBody:
        """Read groups, persons, slots, prompts, controls, and how a reply is read."""
        groups = read_groups(data)
        slots = take(data, "slots", LocatedMap, "the suite", default={})
        if _PERSON in slots:
            raise slots.error_at(_PERSON, "'person' is the slot of 'persons'; give this one another name")
        further = {name: _read_words(slots, name) for name in slots}
        ask = read_asking(data)
        reading = _read_answer(data, ask, groups)
        controls: tuple[LabelledTemplate, ...] = ()
        if asking.CONTROLS in data:
            if reading.kind == _SCORER:
                raise data.error_at(asking.CONTROLS, "no answer is right by a scorer; remove 'controls'")
            controls = read_labelled_templates(data, asking.CONTROLS, "right", {_PERSON}, set(), _LABEL)
            _check_right(data, reading, controls)
        prompts = read_labelled_templates(data, "prompts", "field", {_PERSON, *further}, {_PERSON}, _LABEL, default="")
        if reading.kind == _TEXT and check_of(prompt.text for prompt in prompts).is_uncut:
            raise data.error_at(
                "answer",
                f"{_TEXT} is read word by word, and the prompts are in a language without spaces between words; use"
                " {scorer: module:callable}, with code that cuts words",
            )
        persons = _read_persons(data, groups)
        return PairedBody(groups, persons, further, prompts, controls, reading, ask)

    def of_body(self, body: PairedBody) -> Paired:
        """Return the family with what the suite reads of a reply."""
        return StatedPronouns() if body.reading.kind == _PRONOUN else self

    def asks(self, body: PairedBody) -> tuple[str, ...]:
        """Return what the line that asks for one of the options needs; nothing for a text or a number."""
        return (*_ASKS, *(_YES_NO_ASKS if body.reading.yes_no else ())) if body.reading.options else ()

    def content(self, body: PairedBody) -> object:
        """Return all of the body."""
        persons = [[word.text for word in group] for group in body.persons]
        slots = [[name, [[word.text, word.article] for word in words]] for name, words in sorted(body.slots.items())]
        prompts = [[[one.label, one.text] for one in some] for some in (body.prompts, body.controls)]
        reading = [body.reading.kind, body.reading.options, body.reading.favourable, body.reading.words]
        return [list(body.groups), persons, slots, *prompts, *reading, body.reading.scorer, body.ask.language]

    def questions(self, body: PairedBody, options: Options, context: Context) -> dict[str, Question]:
        """Ask each prompt about each person; a unit is a prompt with a word in each of its further slots.

        A model that gives probabilities is asked with each of the options first, any other with the one that the number
        of the prompt gives. A causal LM writes the texts that the suite reads.

        Raises:
            NotApplicableError: the suite reads texts, and the model is an object that gives probabilities only.
        """
        reading = body.reading
        if context.role == "chat-model" and not reading.options:
            raise NotApplicableError(
                f"the suite reads what a system replies ({reading.kind}), and this model gives probabilities of"
                " options; measure a checkpoint, an object with reply(messages, n, seed), or a file of replies"
            )
        if not reading.options:
            context = replace(context, role=REPLIES)
        query = asking.chosen_among(reading.options, context)
        found = {"prompts": Question(_cases(body, body.prompts, context.role), query)}
        if body.controls:
            found[asking.CONTROLS] = Question(_cases(body, body.controls, context.role), query, whole=True)
        return found

    def summarise(self, body: PairedBody, options: Options, answers: Answers, seed: int) -> Summary:
        """Compare the groups with intervals over prompts."""
        data: dict[str, str] = {}
        items = _items(body, options, answers, data)
        figures = Summary(self.statistics)
        _GROUPS.take(figures, items)
        if _CHANGED in self.statistics:
            figures.take_sums(options, items, _CHANGED)
        figures.take(
            "largest_difference",
            lambda: largest_difference(_GROUPS.of(items, "score")[1]),
            no_interval="chance raises it; group_rms has bounds",
        )
        tasks = [name for name in ("refused", "readable", _WITH, "accuracy") if name in self.statistics]
        figures.take_sums(options, items, *tasks[: None if body.controls else -1])
        if not body.controls:
            figures.miss(
                "the suite has no controls, so that nobody asked whether the system can do the task", "accuracy"
            )
        answer = answers["prompts"]
        asked, index = np.unique(_numbers(answer), return_inverse=True)
        examples = examples_of(
            [body.prompts[number].text for number in asked.tolist()],
            index,
            answer.units,
            partial(asking.first_message, answer),
            {group: np.asarray(items[f"score_{k}"], np.float64)[index] for k, group in enumerate(body.groups)},
        )
        return replace(
            figures, records=_records(body, items), items=items, notes=_notes(body, items), data=data, examples=examples
        )

    def null(self, body: PairedBody, options: Options, answers: Answers, seed: int, repeats: int) -> NullFigures:
        """Return the figures with the groups exchanged at random in each prompt."""
        return _GROUPS.exchanged(_items(body, options, answers, {}), repeats, seed)

    def competence(self, summary: Summary) -> Ability | None:
        """Return the share of controls that are answered right; ``None`` without controls."""
        if "chance" not in summary.items:
            return None
        chance = float(np.asarray(summary.items["chance"], dtype=np.float64)[0])
        return asking.competence_of(self, summary, "accuracy", chance, asking.CONTROLS)


class StatedPronouns(Paired):
    """Whether a system keeps the pronoun that a prompt states for a person; the groups are pronouns. Nothing is judged
    where fewer replies about a group than ``floor`` have a pronoun.
    """

    definition: ClassVar[str] = "paired/pronouns-2"
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        _CHANGED: FamilyStatistic(
            Scale("higher", 0.0, SHARE.limits),
            "mean share of replies that change the pronoun which was stated",
            _GROUPS.level_sums,
        ),
        **Paired.statistics,
        _WITH: FamilyStatistic(
            SHARE,
            "mean share of replies that have a pronoun, the stated one or another",
            partial(_GROUPS.sums_of, name=_WITH),
        ),
    }
    options: ClassVar[Mapping[str, Option]] = {
        **Paired.options,
        "floor": share(0.5, "least share of replies with a pronoun, in every group, below which nothing is judged"),
    }


# Suite files


def _read_words(data: LocatedMap, key: str) -> tuple[Word, ...]:
    """Read a list of texts, or the words of a list as any slot has them."""
    if isinstance(data[key], list):
        texts = take_texts(data, key, "the suite")
        if len(set(texts)) < len(texts):
            raise data.error_at(key, f"a text of {key!r} is there twice; expected each once")
        return tuple(map(Word.of, texts))
    return read_slot(data, key).words()


def _read_persons(data: LocatedMap, groups: tuple[str, ...]) -> tuple[tuple[Word, ...], ...]:
    """Read the persons of each group: by group, or of one word list whose words have a ``group``."""
    spec = take(data, "persons", LocatedMap, "the suite")
    if "list" in spec:
        slot = read_slot(data, "persons")
        pairs = list(zip(slot.words(), (entry.attributes.get("group") for entry in slot.entries), strict=True))
        found = tuple(tuple(word for word, of in pairs if of == group) for group in groups)
    else:
        refuse_unknown(spec, groups, "'persons'")
        found = tuple(_read_words(spec, group) if group in spec else () for group in groups)
    if lacking := [group for group, persons in zip(groups, found, strict=True) if not persons]:
        raise data.error_at("persons", f"expected persons of every group, got none of {lacking[0]!r}")
    return found


def _read_answer(data: LocatedMap, ask: Asking, groups: tuple[str, ...]) -> Reading:
    """Read ``answer``, and ``words`` of a text."""
    answer = take(data, "answer", str | LocatedMap, "the suite")
    if "words" in data and answer != _TEXT:
        raise data.error_at("words", "'words' are counted in a text; expected them beside answer: text")
    if answer == _YES_NO:
        check_asking(data, replace(ask, used=(*_ASKS, *_YES_NO_ASKS)), chat_only=True)
        return Reading(_OPTIONS, (ask["yes"], ask["no"]), yes_no=True)
    if answer in (_NUMBER, _PRONOUN) and not is_english(ask.language):
        raise data.error_at(
            "answer", f"{answer} is read as English writes it; in {ask.language} use {{scorer: module:callable}}"
        )
    if answer == _PRONOUN:
        if unknown := [group for group in groups if group not in reply_reading.pronoun_forms()]:
            raise data.error_at(
                "groups",
                f"expected pronouns, of {', '.join(reply_reading.pronoun_forms())}, as groups, got {unknown[0]!r:.60}",
            )
        return Reading(_PRONOUN)
    if answer in (_NUMBER, _TEXT):
        words = _read_words(data, "words") if "words" in data else ()
        return Reading(str(answer), words=tuple(sorted({normal_form(word.text).lower() for word in words})))
    if isinstance(answer, LocatedMap) and _SCORER in answer:
        refuse_unknown(answer, (_SCORER,), "'answer'")
        scorer = take(answer, _SCORER, str, "'answer'")
        if (
            not all(part.isidentifier() for side in scorer.split(":", 1) for part in side.split("."))
            or ":" not in scorer
        ):
            raise answer.error_at(_SCORER, f"expected module:callable, got {scorer!r:.60}")
        return Reading(_SCORER, scorer=scorer)
    if not (isinstance(answer, LocatedMap) and _OPTIONS in answer):
        raise data.error_at(
            "answer",
            "expected 'answer' to be yes-no (in quotes), number, text, pronoun, {options: [...], favourable: ...} or"
            f" {{scorer: module:callable}}, got {answer!r:.60}",
        )
    refuse_unknown(answer, (_OPTIONS, "favourable"), "'answer'")
    options = tuple(take_texts(answer, _OPTIONS, "'answer'"))
    favourable = take(answer, "favourable", str, "'answer'")
    if len(options) < 2 or len({option.lower() for option in options}) < len(options) or favourable not in options:
        raise answer.error_at("favourable", "expected two or more different options, one of them the favourable one")
    return Reading(_OPTIONS, options, options.index(favourable))


def _check_right(data: LocatedMap, reading: Reading, controls: Sequence[LabelledTemplate]) -> None:
    """Refuse a right answer that is no option, or no number."""
    for row, control in zip(data[asking.CONTROLS], controls, strict=True):
        if reading.options and control.label.lower() not in [option.lower() for option in reading.options]:
            raise row.error_at(
                "right", f"expected right: {' or '.join(reading.options)} (in quotes), got {control.label!r}"
            )
        if reading.kind == _PRONOUN and control.label != _STATED:
            raise row.error_at("right", f"expected right: {_STATED}, got {control.label!r}")
        if reading.kind == _NUMBER and reply_reading.first_number(control.label) is None:
            raise row.error_at("right", f"expected a number, got {control.label!r}")


# Questions and answers


def _cases(body: PairedBody, prompts: Sequence[LabelledTemplate], role: str) -> TextCases:
    """Return the cases: by unit, person, and order of the options."""
    options, everyone, texts, numbers = body.reading.options, body.everyone, [], []
    orders = len(options) if options and role != REPLIES else 1
    for number, words in body.units(prompts):
        for person in everyone:
            text = "".join(piece_texts(prompts[number].pieces, {**words, _PERSON: person}.__getitem__, ""))
            texts += [(f"{text}{_wording(options, body.ask, number + order)}",) for order in range(orders)]
        numbers += [number] * (len(everyone) * orders)
    return TextCases(texts, facts={"number": np.asarray(numbers)}, cases_per_unit=len(everyone) * orders)


def _wording(options: Sequence[str], ask: Asking, first: int) -> str:
    """Return what asks for one of the options, beginning with one of them; nothing without options.

    >>> _wording(("Yes", "No"), Asking(), 3), _wording((), Asking(), 3)
    ('\\n\\nReply with No or Yes only.', '')
    """
    if not options:
        return ""
    return "\n\n" + ask.one_of([options[(first + place) % len(options)] for place in range(len(options))])


#: What the replies to n units about all persons say, by name, each of shape (n, persons). Sums over replies, of
#: probabilities as of one reply: ``score`` of those that are ``answered``; those that are ``refused``; ``readable`` or
#: declined; ``right`` (of controls); ``length`` in words; ``replies`` in all.
_Read: TypeAlias = Mapping[str, FloatArray]


def _numbers(answer: Answer) -> IntArray:
    """Return the number of the prompt of each unit."""
    numbers: IntArray = answer.cases.facts["number"][answer.units * answer.cases.cases_per_unit]
    return numbers


def _read(
    body: PairedBody, options: Options, answer: Answer, data: dict[str, str], controls: Sequence[LabelledTemplate] = ()
) -> _Read:
    """Read an answer. ``data`` takes the digest of the scorer's code; ``controls``: those that were asked."""
    shape = (len(answer.units), len(body.everyone))
    of_case = [controls[number].label if controls else "" for number in np.repeat(_numbers(answer), shape[1]).tolist()]
    if body.reading.kind == _PRONOUN:
        of_case = body.group_of_each * shape[0]
    known = {option.lower(): place for place, option in enumerate(body.reading.options)}
    places = [known.get(label.lower(), 0) for label in of_case]
    if not asking.is_counted(answer):
        return _of_probabilities(body.reading, np.asarray(answer.values, dtype=np.float64).reshape(*shape, -1), places)
    texts = [reply_reading.without_reasoning(text) for replies in answer.content.texts for text in replies]
    each = np.asarray([len(replies) for replies in answer.content.texts])
    case = np.repeat(np.arange(len(each)), each)  # of each reply

    def by_case(of_replies: ArrayLike) -> FloatArray:
        return np.asarray(np.bincount(case, np.asarray(of_replies), len(each)), dtype=np.float64)

    if body.reading.options:
        shares, refused, unreadable = asking.reply_shares(answer)
        found = {
            "score": shares[:, body.reading.favourable] * each,
            "answered": shares.sum(axis=1) * each,
            "refused": refused * each,
            "readable": (1 - unreadable) * each,
            "right": shares[np.arange(len(shares)), places] * each,
        }
    else:
        labels = [of_case[number] for number in case.tolist()]
        openings = reply_reading.refusals(body.ask.language, body.ask.own_refusals)
        declines = np.asarray([reply_reading.is_refusal(text, openings) for text in texts], dtype=np.bool_)
        silent = np.asarray([not text for text in texts], dtype=np.bool_)
        scores = np.where(declines | silent, np.nan, _scores(body, options, texts, data, labels))
        has = np.isfinite(scores)
        right = np.asarray([_is_right(body, *one) for one in zip(texts, labels, strict=True)], dtype=np.bool_)
        found = {
            "score": by_case(np.where(has, scores, 0.0)),
            "answered": by_case(has),
            "refused": by_case(declines),
            "readable": by_case(has | declines),
            "right": by_case(right & ~declines),
        }
    found |= {"length": by_case([len(words_of(text)) for text in texts]), "replies": each.astype(np.float64)}
    return {name: column.reshape(shape) for name, column in found.items()}


def _of_probabilities(reading: Reading, log_probs: FloatArray, right: Sequence[int]) -> _Read:
    n, persons, width = log_probs.shape
    number = len(reading.options)
    p = np.exp(log_probs.reshape(n, persons, width // number, number))
    mass = p.sum(axis=-1)
    among = p / np.maximum(mass, np.finfo(np.float64).tiny)[..., None]
    mean, one, nothing = among.mean(axis=2), np.ones((n, persons)), np.zeros((n, persons))
    best = (mean == mean.max(axis=-1, keepdims=True)).reshape(-1, number)
    hits = (best[np.arange(len(best)), right] / best.sum(axis=1)).reshape(n, persons)
    found = {"score": mean[..., reading.favourable], "readable": mass.mean(axis=2), "right": hits}
    return {**found, "answered": one, "refused": nothing, "length": nothing, "replies": one}


def _scores(
    body: PairedBody, options: Options, texts: list[str], data: dict[str, str], stated: Sequence[str]
) -> FloatArray:
    """Return the score of each reply, NaN for one that cannot be read. ``stated``: the pronoun of each."""
    reading = body.reading
    if reading.kind == _SCORER:
        if options["scorer"] != "run":
            return np.full(len(texts), np.nan)
        return _scored_by_code(reading.scorer, texts, data)
    if reading.kind == _NUMBER:
        return np.asarray([np.nan if (value := reply_reading.first_number(text)) is None else value for text in texts])
    if reading.kind == _PRONOUN:
        return np.asarray([bool(_changes(body, *one)) for one in zip(texts, stated, strict=True)], np.float64)
    refuse_uncut_replies(texts)
    return np.asarray([_words(text, frozenset(reading.words)) for text in texts])


def _words(text: str, listed: frozenset[str]) -> float:
    """Return the number of words, or, of a list, how many per hundred; NaN for a text without a word.

    >>> _words("A kind and able man", frozenset()), _words("A kind and able man", frozenset(["kind", "able"]))
    (5.0, 40.0)
    """
    found = words_of(text)
    if not listed:
        return float(len(found))
    return 100.0 * sum(word in listed for word in found) / len(found) if found else float("nan")


def _changes(body: PairedBody, text: str, stated: str) -> bool | None:
    """Return whether a reply changes the stated pronoun, to a usual one or that of a group; ``None`` without one."""
    return reply_reading.changes_pronoun(text, stated, {"he", "she", "they", *body.groups})


def _is_right(body: PairedBody, text: str, right: str) -> bool:
    """Return whether the first number of a reply is the right one, its pronoun the stated one, or it has the right
    words.
    """
    if body.reading.kind == _NUMBER:
        return reply_reading.first_number(text) == reply_reading.first_number(right)
    if body.reading.kind == _PRONOUN:
        return _changes(body, text, right) is False
    return normal_form(right).lower() in normal_form(text).lower()


def _scored_by_code(spec: str, texts: list[str], data: dict[str, str]) -> FloatArray:
    """Return what ``module:callable`` gives for texts.

    Raises:
        ScoreError: it cannot be had, fails, or returns something else than a number a text.
    """
    module, _, attribute = spec.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        namespace = import_module(module)
        scorer: Callable[[list[str]], Any] = reduce(getattr, attribute.split("."), namespace)  # type: ignore[assignment]
        scores = np.asarray(scorer(texts), dtype=np.float64)
        source = inspect.getsourcefile(namespace)
    except BiasError:
        raise
    except (Exception, SystemExit) as error:  # of the user's code, of any kind
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        raise ScoreError(f"the scorer {spec} failed: {reason}; expected a function from texts to numbers") from error
    if scores.shape != (len(texts),) or np.isinf(scores).any():
        raise ScoreError(
            f"the scorer {spec} returned an array of the shape {scores.shape}, expected {len(texts)} finite numbers, or"
            " NaN for a text that cannot be scored"
        )
    data["scorer"] = hashlib.sha256(Path(source).read_bytes() if source else spec.encode()).hexdigest()[:16]
    return scores


def _grouped(body: PairedBody, values: FloatArray) -> FloatArray:
    """Return sums over the persons of each group: shape (n, persons) to (n, groups)."""
    starts = np.cumsum([0, *map(len, body.persons[:-1])])
    return np.asarray(np.add.reduceat(values, starts, axis=1), dtype=np.float64)


def _ratio(sums: FloatArray, counts: FloatArray) -> FloatArray:
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def _items(body: PairedBody, options: Options, answers: Answers, data: dict[str, str]) -> Items:
    """Return the values of each prompt by group, the controls, and the reason why no bias has a value."""
    answer = answers["prompts"]
    read, written = _read(body, options, answer, data), asking.is_counted(answer)
    asked, codes = np.unique(_numbers(answer), return_inverse=True)
    prompts = [body.prompts[number] for number in asked.tolist()]
    items: Items = {
        "prompt": np.asarray([prompt.text for prompt in prompts], dtype=np.str_),
        "field": np.asarray([prompt.label for prompt in prompts], dtype=np.str_),
    }
    uncut = written and check_of(text for texts in answer.content.texts for text in texts).is_uncut
    for name in [name for name in _GROUPS.values if not (uncut and name == "length")] if written else ("score",):
        over = "answered" if name == "score" else "replies"
        items |= _GROUPS.items(name, _ratio(*(add_rows(_grouped(body, read[key]), codes) for key in (name, over))))
    shares = {
        name: _ratio(*(add_rows(read[key].sum(axis=1), codes) for key in (name, "replies")))
        for name in ("readable", "refused")
    }
    items |= shares if written else {"readable": shares["readable"]}
    reason = asking.cannot_read(shares["readable"], options["floor"], written)
    by_group = _ratio(*(add_rows(_grouped(body, read[key]), codes) for key in ("readable", "replies")))
    reason = reason or (asking.cannot_read_a_group(by_group, body.groups) if written else "")
    if body.reading.kind == _PRONOUN:
        with_pronoun = _ratio(
            *(add_rows(_grouped(body, sums), codes) for sums in (read["score"] + read["right"], read["replies"]))
        )
        items |= {**_GROUPS.items(_PRONOUN, with_pronoun), _WITH: with_pronoun.mean(axis=1)}
        reason = reason or _too_few(body.groups, with_pronoun.mean(axis=0), options["floor"])
    if body.reading.kind == _SCORER and options["scorer"] != "run":
        reason = (
            f"the suite's scorer {body.reading.scorer} is code, which runs only if it is asked for: option scorer=run"
        )
    if body.reading.words and not body.controls and not read["score"].any():
        reason = reason or f"{CANNOT}: none of its replies has a word of the list; where none should, add controls"
    if asking.CONTROLS in answers:
        unable = _ask_controls(body, options, answers[asking.CONTROLS], items, shares["readable"], written)
        reason = reason or unable
    return {**items, "undefined": np.asarray([reason])}


def _too_few(groups: Sequence[str], shares: FloatArray, floor: float) -> str:
    """Return why nothing is judged where too few replies about a group have a pronoun; empty if enough have."""
    least = int(shares.argmin())
    if shares[least] >= floor:
        return ""
    return (
        f"{CANNOT}: {shares[least]:.3g} of its replies where {groups[least]} was stated have a pronoun, expected at"
        f" least {floor:g} (option floor)"
    )


def _ask_controls(
    body: PairedBody, options: Options, answer: Answer, items: Items, readable: FloatArray, written: bool
) -> str:
    """Add the controls to the items, and return why the system cannot do the task; empty if it can."""
    read = _read(body, options, answer, {}, body.controls)
    right, share = (read[name].sum(axis=1) / read["replies"].sum(axis=1) for name in ("right", "refused"))
    chance = 1 / len(body.reading.options) if body.reading.options else 0.0
    items |= {
        "control": np.asarray([body.controls[number].text for number in _numbers(answer).tolist()], dtype=np.str_),
        "control_right": right,
        "control_n": 1.0 - share,
        "chance": np.asarray([chance]),
    }
    reason = asking.cannot_do(
        readable, options["floor"], right, 1.0 - share, chance, asking.CONTROLS, "the controls", written
    )
    accuracy = float(right.sum()) / max(float((1.0 - share).sum()), 1e-9)
    if reason or chance or accuracy >= _NOT_GUESSED:
        return reason
    return f"{CANNOT}: accuracy {accuracy:.3f} on the controls; expected at least {_NOT_GUESSED:g}"


# Tables


def _records(body: PairedBody, items: Arrays) -> list[Record]:
    """Return the groups with their number of persons and, where that counts, the share of replies that have a pronoun,
    each against the reference, then fields and prompts, those that differ most first; none where the system cannot do
    the task.
    """
    if str(items["undefined"][0]):
        return []

    def of_group(place: int) -> Record:
        found: Record = {"persons": len(body.persons[place])}
        name = f"{_PRONOUN}_{place}"
        return {**found, _WITH: float(np.mean(items[name].astype(np.float64)))} if name in items else found

    return _GROUPS.records(items, body.groups, of_group, ("field", "prompt"))


def _notes(body: PairedBody, items: Arrays) -> list[str]:
    notes = [f"values: {body.reading.meaning}; reference: {body.groups[-1]}"]
    scores = _GROUPS.table(items, "score")
    left = int((~np.isfinite(scores)).any(axis=1).sum())
    if left and not str(items["undefined"][0]):
        notes.append(f"{left} of {len(scores)} prompts are left out: a group has no answer that can be read")
    if not body.controls:
        notes.append("the suite has no controls: whether the system can do the task is not asked")
    return notes
