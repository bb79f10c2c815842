"""The family ``generation``: texts that a model writes after a prompt, and after the same prompt with its gendered
words swapped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.group_texts import read_honest, read_hurtlex
from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics import decision_differences
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, mean_sums
from pytest_genderbias.statistics.sums import accuracy_gap_sums
from pytest_genderbias.suites.ask import REPLIES
from pytest_genderbias.suites.cases import Answer, Answers, Items, Question, TextCases, take_arrays
from pytest_genderbias.suites.families.shared import asking
from pytest_genderbias.suites.families.shared.group_values import GroupValues, Value
from pytest_genderbias.suites.family import GENDERS, Context, Family, Option, whole
from pytest_genderbias.suites.query import GeneratedReplies, Replies, ReplyTexts
from pytest_genderbias.suites.space import SlotWords, read_groups, read_slot
from pytest_genderbias.suites.statistic import (
    SIGNED,
    SIGNED_SHARE,
    Arrays,
    FamilyStatistic,
    NullFigures,
    Options,
    Scale,
)
from pytest_genderbias.suites.summary import Record, Summary, examples_of, records_by
from pytest_genderbias.text.normal_form import normal_form, word_pattern
from pytest_genderbias.text.plain_files import expand
from pytest_genderbias.text.printable import brief
from pytest_genderbias.text.reply_reading import DECLINED, without_reasoning
from pytest_genderbias.text.schema import LocatedMap, Positive, Rule, refuse_unknown, take, take_texts
from pytest_genderbias.text.unspaced import check_of, refuse_uncut_replies
from pytest_genderbias.text.wordlist import FORMS, WordEntry

_OVER = "prompts and their texts"
_POSITIVE, _NEGATIVE = "positive", "negative"
_FIGURES = ("sentiment", "length", "refusal", "topic")  #: of the texts after a prompt
_SIDES = ("first", "second")
#: The lists whose words a figure counts.
_LISTS = {"sentiment": (_POSITIVE, _NEGATIVE), "topic": ("topic 0", "topic 1")}
_WORD = r"[\w]+(?:['-][\w]+)*"
_OPENING = "\"'* \t\n"  #: what may stand before the first word of a reply


def count_words(
    texts: Sequence[str], lists: Mapping[str, Iterable[str]], refusals: tuple[str, ...]
) -> dict[str, NDArray[np.int64]]:
    """Return how many words each text has, how many of each list, and 1 for a text that declines; each of shape (n,).

    Words and beginnings are matched in their normal form, and in lower case.

    Args:
        texts: n texts.
        lists: words by name of the list.
        refusals: beginnings of replies that decline, in their normal form and in lower case.

    Raises:
        NotApplicableError: the texts have no spaces between words.

    >>> counts = count_words(["Happy boys are happy.", "I cannot help."], {"joy": ["Happy"]}, ("i cannot",))
    >>> {name: found.tolist() for name, found in counts.items()}
    {'joy': [2, 0], 'words': [4, 3], 'refused': [0, 1]}
    """
    refuse_uncut_replies(texts)
    plain = [normal_form(text).lower() for text in texts]
    words = [words_of(text) for text in plain]
    counts = {}
    for name, some in lists.items():
        known = {normal_form(word).lower() for word in some}
        counts[name] = [sum(word in known for word in of_text) for of_text in words]
    counts["words"] = [len(of_text) for of_text in words]
    counts["refused"] = [text.lstrip(_OPENING).startswith(refusals) for text in plain]
    return {name: np.asarray(found, dtype=np.int64) for name, found in counts.items()}


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without the ending 's of a possessive.

    >>> words_of("The boy's well-known book isn't lost")
    ['the', 'boy', 'well-known', 'book', "isn't", 'lost']
    """
    plain = normal_form(text).lower()
    return [word.removesuffix("'s") for word in word_pattern(_WORD, plain).findall(plain)]


def count_forms(texts: Sequence[str], forms: Sequence[frozenset[str]]) -> NDArray[np.int64]:
    """Return how many forms of words each text has, of each group, shape (n, K); the longest that fits at a place.

    A form that several groups have counts for none, and so does one that a mark joins to further letters
    (*Lehrer\\*innen*, *infirmier·ère*).

    Args:
        texts: n texts.
        forms: of each of the K groups, in their normal form and in lower case.

    >>> forms = frozenset({"die lehrerin", "lehrerin"}), frozenset({"lehrer"})
    >>> count_forms(["Die Lehrerin und ein Lehrer", "Lehrer*innen"], forms).tolist()
    [[1, 1], [0, 0]]
    """
    known = {form: group for group, some in enumerate(forms) for form in some}
    shared = {form for form in known if sum(form in some for some in forms) > 1}
    either = "|".join(re.escape(form) for form in sorted(known, key=lambda form: (-len(form), form)))
    found = np.zeros((len(texts), len(forms)), dtype=np.int64)
    for row, one in enumerate(normal_form(one).lower() for one in texts):
        pattern = word_pattern(rf"(?<![\w])(?<![\w][*:·./(-])(?:{either})(?![*:·./(-]?[\w])", one)
        for form in pattern.findall(one):
            found[row, known[form]] += form not in shared
    return found


@dataclass(frozen=True)
class Prompt:
    """The field of life of a prompt, and its text about each group."""

    field: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class GenerationBody:
    """Groups, the message that asks a chat model, prompts, and the words that are counted.

    Attributes:
        topics: words of two topics by name; the difference is the first topic minus the second one. May be empty.
        gendered: words with a ``group``, of which there are two.
        refusals: what a reply that declines begins with, in lower case.
        left_out: number of sentences of a file that are no prompts.
        forms: of each group, the forms of words that are counted after prompts about mixed or unknown persons; each
            prompt has one text then, and nothing else is compared. May be empty.
    """

    groups: tuple[str, ...]
    message: str
    sentiment: tuple[WordEntry, ...]
    topics: dict[str, SlotWords]
    gendered: SlotWords | None
    refusals: tuple[str, ...]
    prompts: tuple[Prompt, ...]
    left_out: int = 0
    forms: tuple[frozenset[str], ...] = ()


def _figure_sums(options: Options, arrays: Arrays, figure: str) -> ItemSums:
    """Return the sums of a mean difference over pairs of prompts."""
    prompt, first, second = _written(arrays, "prompt", f"{figure}_first", f"{figure}_second")
    if f"{figure}_words" in arrays and not arrays[f"{figure}_words"].any():
        raise UndefinedError(f"no generated text has a word of the suite's {figure} lists")
    return mean_sums(prompt, np.subtract(first, second), np.ones(len(prompt)), _OVER)


def _same_gender_sums(options: Options, arrays: Arrays) -> ItemSums:
    """Return gendered words of the prompt's own gender, and all gendered words, by pair of prompts and side."""
    same, gendered = _gender_counts(arrays)
    if not gendered.any(axis=0).all():
        raise UndefinedError("the texts of one side have no gendered word")
    return accuracy_gap_sums(take_arrays(arrays, "prompt")[0], same, gendered, _OVER)


def _written(arrays: Arrays, *names: str) -> list[NDArray[Any]]:
    """Return arrays by name.

    Raises:
        UndefinedError: no text has a word.
    """
    first, second = take_arrays(arrays, "length_first", "length_second")
    if not (first.any() or second.any()):
        raise UndefinedError("the model wrote nothing: every text is empty")
    return take_arrays(arrays, *names)


#: Of differences between two counts in 100 words: each lies from -100 to 100.
_PER_100 = Scale("away", 0.0, (-200.0, 200.0))


def _figure(figure: str, meaning: str, scale: Scale = SIGNED) -> FamilyStatistic:
    sums = partial(_figure_sums, figure=figure)
    return FamilyStatistic(scale, meaning, sums, draws=_OVER)


class Generation(Family[GenerationBody]):
    """Texts that a model writes after prompts about the first group, against those about the second group.

    Both prompts are continued several times with the same random numbers. The texts are compared by word lists; no
    other model judges them.
    """

    name: ClassVar[str] = "generation"
    definition: ClassVar[str] = "generation/1"
    picture: ClassVar[str] = "sentiment_bars"
    needs: ClassVar[str] = (
        "a causal LM, which is asked in its chat template if it has one, or a system or a file of replies in text"
    )
    null_control: ClassVar[str] = "the texts after the two prompts of a pair are exchanged at random"
    roles: ClassVar[tuple[str, ...]] = ("causal-lm", REPLIES)
    keys: ClassVar[tuple[str, ...]] = (
        "groups",
        "message",
        "sentiment",
        "topics",
        "gendered",
        "refusals",
        "prompts",
        "forms",
    )
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        "sentiment_difference": _figure(
            "sentiment",
            "mean difference of positive minus negative words per 100 words, first group minus second",
            _PER_100,
        ),
        "length_difference": _figure("length", "mean difference of the words of a text, first group minus second"),
        "refusal_difference": _figure(
            "refusal", "difference of the shares of texts that decline, first group minus second", SIGNED_SHARE
        ),
        "topic_difference": _figure(
            "topic",
            "mean difference of words of the first topic minus the second per 100 words, first group minus second",
            _PER_100,
        ),
        "same_gender_difference": FamilyStatistic(
            SIGNED_SHARE,
            "difference of the shares of gendered words that have the prompt's gender, first group minus second",
            _same_gender_sums,
            draws=_OVER,
            interval=asking.rate_gap_interval,
        ),
    }
    options: ClassVar[Mapping[str, Option]] = {
        "samples": whole(4, "texts after each prompt"),
        "length": whole(48, "tokens of a text, at most"),
        "temperature": Option(1.0, Positive, "divisor of the logits; 1 samples from the model's own distribution"),
    }

    def read(self, data: LocatedMap) -> GenerationBody:
        """Read groups, message, lists, phrases and prompts."""
        groups = read_groups(data)
        message = take(data, "message", str, "the suite")
        if message.count("{prompt}") != 1:
            raise data.error_at("message", f"'message' should hold {{prompt}} once, got {brief(message)}")
        forms = _read_forms(data, groups) if "forms" in data else ()
        sentiment = () if forms else _read_sentiment(data)
        gendered = _read_gendered(data, groups)
        phrases = [] if forms else take_texts(data, "refusals", "the suite")
        refusals = tuple(normal_form(phrase).lower() for phrase in phrases)
        named = take(data, "topics", LocatedMap, "the suite", default={})
        if "topics" in data and len(named) != 2:
            raise data.error_at("topics", f"expected two topics to compare, got {len(named)}")
        topics = {name: read_slot(named, name) for name in named}
        prompts, left_out = _read_prompts(data, ("text",) if forms else groups)
        if check_of(one for prompt in prompts for one in prompt.texts).is_uncut:
            raise data.error_at(
                "prompts",
                "the texts are read word by word, and the prompts are in a language without spaces between words; use"
                " the family paired with a scorer of your own, which cuts words",
            )
        return GenerationBody(groups, message, sentiment, topics, gendered, refusals, prompts, left_out, forms)

    def of_body(self, body: GenerationBody) -> Generation:
        """Return the family with the statistics of so many groups, or of forms."""
        if body.forms:
            return FormsOfAnyone()
        return self if len(body.groups) == 2 else GenerationOfGroups()

    def asks_gender(self, body: GenerationBody, options: Options) -> bool:
        """Return whether the words of women and men are swapped."""
        return len(body.groups) == 2 or set(body.groups) >= GENDERS

    def content(self, body: GenerationBody) -> object:
        """Return all of the body."""
        prompts = [[prompt.field, *prompt.texts] for prompt in body.prompts]
        topics = [[name, words.content()] for name, words in body.topics.items()]
        lexicon = [[entry.word, entry.attributes.get("class")] for entry in body.sentiment]
        gendered = body.gendered.content() if body.gendered else []
        forms = [[sorted(some) for some in body.forms]] if body.forms else []
        return [list(body.groups), body.message, lexicon, topics, gendered, list(body.refusals), prompts, *forms]

    def questions(self, body: GenerationBody, options: Options, context: Context) -> dict[str, Question]:
        """Ask for the texts after the prompt about each group; a unit is a prompt."""
        each = len(body.prompts[0].texts)
        if context.role == REPLIES:
            asked = [(body.message.replace("{prompt}", one),) for prompt in body.prompts for one in prompt.texts]
            replies = Replies((), context.samples, context.seed, own_refusals=body.refusals or (DECLINED,))
            return {"texts": Question(TextCases(asked, cases_per_unit=each), replies)}
        samples = options["samples"]
        texts = [(one,) for prompt in body.prompts for one in prompt.texts for _ in range(samples)]
        query = GeneratedReplies(options["length"], samples, context.seed, float(options["temperature"]), body.message)
        return {"texts": Question(TextCases(texts, cases_per_unit=each * samples), query)}

    def summarise(self, body: GenerationBody, options: Options, answers: Answers, seed: int) -> Summary:
        """Count words in the texts, and compare the two sides of each pair with intervals over prompts."""
        answer = answers["texts"]
        items = _items(body, answer)
        figures = Summary(self.statistics)
        figures.take_sums(options, items, *self.statistics)
        shown = {
            f"sentiment {group}": items[f"sentiment_{side}"] for group, side in zip(body.groups, _SIDES, strict=True)
        }
        return _summary(body, answer, figures, _records(items, body.groups), items, shown)

    def null(self, body: GenerationBody, options: Options, answers: Answers, seed: int, repeats: int) -> NullFigures:
        """Return the figures with the two sides exchanged at random in each pair of prompts."""
        items = _items(body, answers["texts"])
        shuffled = {}
        for name in _FIGURES:
            first, second = _written(items, f"{name}_first", f"{name}_second")
            shuffled[f"{name}_difference"] = decision_differences.exchanged_differences(first - second, repeats, seed)
        shuffled["same_gender_difference"] = decision_differences.exchanged_share_differences(
            *_gender_counts(items), repeats, seed
        )
        return shuffled


def _read_sentiment(data: LocatedMap) -> tuple[WordEntry, ...]:
    """Read a slot of positive and negative words, or ``{hurtlex: PATH, level: LEVEL}``, whose words are negative."""
    spec = data.get("sentiment")
    if not isinstance(spec, LocatedMap) or "hurtlex" not in spec:
        entries = read_slot(data, "sentiment").entries
        if (classes := {str(entry.attributes.get("class")) for entry in entries}) != {_POSITIVE, _NEGATIVE}:
            raise data.error_at(
                "sentiment",
                f"expected words of the class {_POSITIVE} and of the class {_NEGATIVE}, got"
                f" {', '.join(sorted(classes))}",
            )
        return entries
    refuse_unknown(spec, ("hurtlex", "level"), "'sentiment'")
    level = take(spec, "level", Literal["conservative", "inclusive"], "'sentiment'", default="conservative")
    words = read_hurtlex(data.folder / expand(take(spec, "hurtlex", str, "'sentiment'")), level)
    return tuple(WordEntry(word, {"class": _NEGATIVE}, spec.lines["hurtlex"]) for word in words)


def _read_prompts(data: LocatedMap, groups: tuple[str, ...]) -> tuple[tuple[Prompt, ...], int]:
    """Read prompts, or ``{honest: PATH}``; return them, and the number of sentences of the file that are left out."""
    if isinstance(spec := data.get("prompts"), LocatedMap):
        refuse_unknown(spec, ("honest",), "'prompts'")
        rows, left_out = read_honest(data.folder / expand(take(spec, "honest", str, "'prompts'")), groups)
        return tuple(Prompt(field, tuple(texts)) for field, *texts in rows), left_out
    of_prompt = Rule(f"a mapping with the keys field, {' and '.join(groups)}")
    prompts = []
    for row in take(data, "prompts", list[Annotated[LocatedMap, of_prompt]], "the suite"):
        refuse_unknown(row, ("field", *groups), "a prompt")
        texts = tuple(take(row, group, str, "a prompt") for group in groups)
        if len(set(texts)) < len(texts):
            raise row.error_at("", "the prompt is the same for two groups; expected a text for each")
        prompts.append(Prompt(take(row, "field", str, "a prompt"), texts))
    if len({prompt.texts[0] for prompt in prompts}) < len(prompts):
        raise data.error_at("prompts", "a prompt is there twice; expected each once")
    return tuple(prompts), 0


def _read_forms(data: LocatedMap, groups: tuple[str, ...]) -> tuple[frozenset[str], ...]:
    """Read the forms of words of two groups: those that are named like the group, or begin with its name and a dot."""
    if extra := [key for key in ("sentiment", "topics", "gendered", "refusals") if key in data]:
        raise data.error_at(extra[0], f"'forms' are counted after prompts about anyone; remove {extra[0]!r}")
    if len(groups) != 2:
        raise data.error_at("groups", f"'forms' are of two groups, got {len(groups)}")
    of: list[set[str]] = [set() for _ in groups]
    for entry in read_slot(data, "forms", with_forms=True).entries:
        for name, form in entry.attributes.get(FORMS, {}).items():
            if (group := name.split(".")[0]) in groups:
                of[groups.index(group)].add(normal_form(form).lower())
    if not all(of):
        raise data.error_at("forms", f"expected words with forms of {' and '.join(groups)}")
    return tuple(map(frozenset, of))


def _read_gendered(data: LocatedMap, groups: tuple[str, ...]) -> SlotWords | None:
    if "gendered" not in data:
        return None
    gendered = read_slot(data, "gendered")
    if len(groups) > 2:
        raise data.error_at("gendered", f"'gendered' words compare two groups, and these are {len(groups)}; remove it")
    lacking = [group for group in groups if all(e.attributes.get("group") != group for e in gendered.entries)]
    if lacking:
        raise data.error_at("gendered", f"expected words of both groups in 'gendered', it has none of {lacking[0]}")
    return gendered


def _word_lists(body: GenerationBody) -> dict[str, list[str]]:
    """Return the words that are counted, by name of the list."""
    by_list: dict[str, list[str]] = {name: [] for lists in _LISTS.values() for name in lists}
    by_list |= {"group 0": [], "group 1": []}
    for entry in body.sentiment:
        by_list[str(entry.attributes["class"])].append(entry.word)
    for number, words in enumerate(body.topics.values()):
        by_list[f"topic {number}"] = [entry.word for entry in words.entries]
    for number, group in enumerate(body.groups if body.gendered else ()):
        assert body.gendered is not None
        by_list[f"group {number}"] = [e.word for e in body.gendered.entries if e.attributes.get("group") == group]
    return by_list


def _figures(body: GenerationBody, answer: Answer) -> tuple[dict[str, NDArray[np.int64]], dict[str, FloatArray], Items]:
    """Return by prompt and group: what was counted in each text, (n, K, samples), and the figures, (n, K); and by
    prompt: text and field.
    """
    flat = count_words(_texts(answer), _word_lists(body), body.refusals)
    counts = {name: found.reshape(len(answer.units), len(body.groups), -1) for name, found in flat.items()}
    words = counts["words"]
    figures = {
        "sentiment": decision_differences.per_hundred_words(counts[_POSITIVE] - counts[_NEGATIVE], words),
        "length": words.mean(axis=-1),
        "refusal": counts["refused"].mean(axis=-1),
        "topic": decision_differences.per_hundred_words(counts["topic 0"] - counts["topic 1"], words),
    }
    return counts, figures, _about(body, answer)


def _about(body: GenerationBody, answer: Answer) -> Items:
    """Return text and field by prompt."""
    prompts = [body.prompts[unit] for unit in answer.units]
    return {
        "prompt": np.asarray([prompt.texts[0] for prompt in prompts], dtype=np.str_),
        "field": np.asarray([prompt.field for prompt in prompts], dtype=np.str_),
    }


def _items(body: GenerationBody, answer: Answer) -> Items:
    """Return by pair of prompts: text, field, each figure on both sides, and gendered words on both sides."""
    counts, figures, items = _figures(body, answer)
    for name, lists in _LISTS.items():
        items[f"{name}_words"] = (counts[lists[0]] + counts[lists[1]]).sum(axis=(1, 2))
    for place, side in enumerate(_SIDES):
        items |= {f"{name}_{side}": values[:, place] for name, values in figures.items()}
        by_group = [counts[f"group {group}"][:, place].sum(axis=-1).astype(np.float64) for group in (0, 1)]
        items |= {f"same_gender_{side}": by_group[place], f"gendered_{side}": by_group[0] + by_group[1]}
    return items


def _gender_counts(items: Arrays) -> tuple[FloatArray, FloatArray]:
    """Return gendered words of the prompt's own gender, and all gendered words, each of shape (n, 2)."""
    columns = _written(items, *(f"{name}_{side}" for name in ("same_gender", "gendered") for side in _SIDES))
    counts = np.stack(columns, axis=1).astype(np.float64)
    return counts[:, :2], counts[:, 2:]


def _texts(answer: Answer) -> list[str]:
    """Return all texts: by pair, side and sample."""
    if isinstance(answer.content, ReplyTexts):
        return [without_reasoning(text) for texts in answer.content.texts for text in texts]
    return [reply.text for reply in answer.content]


def _summary(
    body: GenerationBody,
    answer: Answer,
    figures: Summary,
    records: list[Record],
    items: Items,
    shown: Mapping[str, NDArray[Any]],
) -> Summary:
    """Return the summary. Examples have the first text after the first prompt of each unit, and the values ``shown`` by
    name, each of shape (n,).
    """
    texts, units = _texts(answer), answer.units
    empty, notes = sum(not text for text in texts), []
    if not isinstance(answer.content, ReplyTexts):
        ended, length = sum(reply.ended for reply in answer.content), answer.values.shape[-1]
        notes.append(f"{ended} of {len(texts)} texts end by themselves, the others after {length} tokens")
    if empty:
        notes.append(f"{empty} of {len(texts)} texts are empty")
    if body.left_out:
        notes.append(f"{body.left_out} sentences of the file are left out: alike for two groups, or there before")
    each = len(texts) // len(units)
    text_of = {
        unit: f"{body.prompts[unit].texts[0]} | {' '.join(texts[each * row].split())}"
        for row, unit in enumerate(units.tolist())
    }
    values = {name: np.asarray(column, dtype=np.float64) for name, column in shown.items()}
    examples = examples_of(items["prompt"].tolist(), np.arange(len(units)), units, text_of.__getitem__, values)
    return replace(figures, records=records, items=items, notes=notes, examples=examples)


def _records(items: Arrays, groups: tuple[str, ...]) -> list[Record]:
    """Return the figures of each group, then the differences by field and by prompt, the largest difference of
    sentiment first.
    """
    figures = {name: [np.asarray(items[f"{name}_{side}"], dtype=np.float64) for side in _SIDES] for name in _FIGURES}
    records: list[Record] = [
        {"slice": "group", "value": group, **{name: float(np.mean(sides[place])) for name, sides in figures.items()}}
        for place, group in enumerate(groups)
    ]
    differences = {f"{name}_difference": np.subtract(*sides) for name, sides in figures.items()}
    return records + records_by(
        items,
        ("field", "prompt"),
        lambda here: {name: float(values[here].mean()) for name, values in differences.items()},
        lambda row: abs(row["sentiment_difference"]),
    )


_GROUPS = GroupValues(
    {
        "sentiment": Value("sentiment_rms", "positive minus negative words per 100 words", (-200.0, 200.0)),
        "length": Value("length_rms", "the numbers of words of a text"),
        "refusal": Value("refusal_rms", "the shares of texts that decline", SIGNED_SHARE.limits),
        "topic": Value("topic_rms", "words of the first topic minus the second per 100 words", (-200.0, 200.0)),
    },
    "prompt",
    _OVER,
    "the model wrote no word, or none of the lists that this figure counts",
)


class GenerationOfGroups(Generation):
    """Texts that a model writes after prompts about more than two groups."""

    definition: ClassVar[str] = "generation/groups-1"
    null_control: ClassVar[str] = "the texts after the prompts about all groups are exchanged at random"
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        name: replace(statistic, draws=_OVER) for name, statistic in _GROUPS.statistics().items()
    }

    def summarise(self, body: GenerationBody, options: Options, answers: Answers, seed: int) -> Summary:
        """Count words in the texts, and compare the groups with intervals over prompts."""
        answer = answers["texts"]
        items, sentiment = self._items(body, answer)
        figures = Summary(self.statistics)
        _GROUPS.take(figures, items)
        records = _GROUPS.records(items, body.groups, slices=("field", "prompt"))
        shown = {f"sentiment {group}": values for group, values in zip(body.groups, sentiment.T, strict=True)}
        return _summary(body, answer, figures, records, items, shown)

    def null(self, body: GenerationBody, options: Options, answers: Answers, seed: int, repeats: int) -> NullFigures:
        """Return the figures with the groups exchanged at random in each prompt."""
        return _GROUPS.exchanged(self._items(body, answers["texts"])[0], repeats, seed)

    def _items(self, body: GenerationBody, answer: Answer) -> tuple[Items, FloatArray]:
        """Return prompt, field, and the figures by group for which something was counted; and the sentiment, (n, K)."""
        counts, figures, items = _figures(body, answer)
        for name, values in figures.items() if counts["words"].any() else ():
            if any(counts[one].any() for one in _LISTS.get(name, ("words",))):
                items |= _GROUPS.items(name, values)
        return items, figures["sentiment"]


def _share_sums(options: Options, arrays: Arrays) -> ItemSums:
    """Return forms of the second group, and all forms, by prompt."""
    prompt, second, forms = take_arrays(arrays, "prompt", "second", "forms")
    if not forms.any():
        raise UndefinedError("no generated text has a form of the suite's words")
    return mean_sums(prompt, second, forms, _OVER)


class FormsOfAnyone(Generation):
    """Which forms a model writes about mixed or unknown persons, such as masculine ones."""

    definition: ClassVar[str] = "generation/forms-1"
    null_control: ClassVar[str] = ""
    no_null_control: ClassVar[str] = "every prompt is about anyone, so that there is nothing to exchange"
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        "form_share": FamilyStatistic(
            Scale("away", 0.5, (0.0, 1.0)),
            "share of the second group's forms among those of both, in texts about mixed or unknown persons",
            _share_sums,
            draws=_OVER,
            interval=asking.share_interval,
        )
    }

    def summarise(self, body: GenerationBody, options: Options, answers: Answers, seed: int) -> Summary:
        """Count forms, with an interval over prompts."""
        answer, counts = answers["texts"], count_forms(_texts(answers["texts"]), body.forms)
        by_prompt = counts.reshape(len(answer.units), -1, 2).sum(axis=1).astype(np.float64)
        items = _about(body, answer) | {"second": by_prompt[:, 1], "forms": by_prompt.sum(axis=1)}
        figures = Summary(self.statistics)
        figures.take_sums(options, items, "form_share")
        records = records_by(
            items,
            ("field", "prompt"),
            lambda here: dict(zip(body.groups, by_prompt[here].sum(axis=0).tolist(), strict=True)),
            lambda row: 0.0,
        )
        shown = dict(zip(body.groups, by_prompt.T, strict=True))
        made = _summary(body, answer, figures, records, items, shown)
        with_form = int(counts.any(axis=1).sum())
        return replace(made, notes=[f"{with_form} of {len(counts)} texts have a form that is counted", *made.notes])
