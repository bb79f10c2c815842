"""Control items: questions with a right answer, which show whether a model can do its task at all.

They are in ``fixtures/controls/LANGUAGE/NAME.yaml``, or in a file of the user's of the same form, which takes the place
of the packaged ones of its name.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.statistics.right_answers import share_bounds
from pytest_genderbias.suites.cases import Answer, Question, TextCases
from pytest_genderbias.suites.query import (
    CoreferenceScores,
    PairProbabilities,
    PairSimilarity,
    PseudoLogLikelihood,
    Query,
    TextVectors,
    TopFills,
)
from pytest_genderbias.text import packaged
from pytest_genderbias.text.located_yaml import read_yaml
from pytest_genderbias.text.printable import expected_instead
from pytest_genderbias.text.schema import LocatedList, LocatedMap, refuse_unknown, take

LABELS = ("entailment", "neutral", "contradiction")
BLANK = "___"
LEAST = 20  #: items of a file of the user's
_HEAD = ("controls", "title", "source", "licence", "language", "items")
Item: TypeAlias = tuple[str, ...]  #: the texts of an item, the right answer before the wrong ones where it has any
#: Whether the answer to each item is right, 1 or 0; NaN where the model cannot be asked it. Shape (n,).
FloatArray: TypeAlias = NDArray[np.float64]
Right: TypeAlias = FloatArray


@dataclass(frozen=True)
class Controls:
    """Control items of one kind.

    ``content``: the texts of each item. ``classes``: the class of each item, by which recalls are computed; the same
    for all where there are none. Shape (n,). ``in_pairs``: whether triples are asked as two similarities of texts, of a
    model that need not have vectors of words.
    """

    name: str
    language: str
    content: tuple[Item, ...]
    classes: NDArray[np.str_]
    in_pairs: bool = False

    @property
    def kind(self) -> _Kind:
        """The question, and how answers are read."""
        kind, pairs = _KINDS[self.name], _KINDS["paraphrases"]
        if not self.in_pairs or kind is pairs:
            return kind
        return replace(kind, ask=pairs.ask, query=pairs.query, read=pairs.read, lead=0.005)

    def question(self, asked: Query | None = None, whole_texts: bool = False) -> Question:
        """Return the question to a model.

        Args:
            asked: the query of a suite that tells how pairs are classified; ``None``: the kind's own.
            whole_texts: score whole texts and not the word in the blank, as causal LMs do.
        """
        cases = self.kind.ask(self.content)
        return Question(replace(cases, spans=()) if whole_texts else cases, asked or self.kind.query, whole=True)

    def fills(self, mask: str, vocabulary: Sequence[str]) -> Question:
        """Return the question to an object that fills its ``mask`` with words of its ``vocabulary``."""
        texts = [(text.replace(BLANK, mask),) for text, *_ in self.content]
        return Question(TextCases(texts), TopFills(len(vocabulary)), whole=True)

    def right(self, answer: Answer, vocabulary: Sequence[str] = ()) -> Right:
        """Return which items were answered right, from the answer to :meth:`question`: 1, 0, or NaN where nothing was
        asked.
        """
        values = answer.in_order()
        if vocabulary:
            return _right_fills(self.content, values, vocabulary)
        return self.kind.read(self.content, values.astype(np.float64))

    def lead(self, answer: Answer) -> float | None:
        """Return the median distance between the scores of an item's texts or labels, in nats or in units of the score;
        ``None`` if they have no scores of one scale.
        """
        values, kind = answer.in_order(), self.kind
        scores = values if len(values) == len(self.content) else values[:, 0]
        if not kind.lead and not isinstance(kind.query, PseudoLogLikelihood):
            return None
        lead = float(np.median(np.ptp(scores.reshape(len(self.content), -1), axis=1)))
        return lead if np.isfinite(lead) else None

    def why_another_scale(self, answer: Answer) -> str:
        """Return why the scores in the answer to :meth:`question` are those of no model that reads, in whatever order
        they are; an empty text if they are not.

        The median lead, as a share of the log-probability, is 0.55 to 0.93 of masked words (0.34 in a language that the
        model cannot read), and 0.28 to 0.44 of words in order (0.06 of a bigram model that is able). With logits 100
        times too small it is at most 0.02 and 0.004. Texts that differ in the gender may differ by a small share, but
        by 1.08 nats or more; such logits leave 0.06. The lead of a few words does not grow with the text, so a long one
        counts as 20 of its tokens.
        """
        values, kind = answer.in_order(), self.kind
        if kind.lead:
            is_flat = (self.lead(answer) or 0.0) < kind.lead
            return f"right and wrong answers have nearly one score; they should differ by {kind.lead:g}" * bool(is_flat)
        if not isinstance(kind.query, PseudoLogLikelihood):
            return ""
        of_text, tokens = np.moveaxis(values.reshape(len(self.content), -1, 2), 2, 0)
        share = {"masked-words": 0.1, "word-order": 0.03}.get(self.name, 0.0)
        of_20_tokens = np.abs(of_text).max(axis=1) * np.minimum(20 / np.maximum(tokens.max(axis=1), 1), 1)
        if np.median(np.ptp(of_text, axis=1) - np.maximum(share * of_20_tokens, 0.1)) < 0:
            of_it = f" and {share:.0%} of it (a longer text counts as 20 tokens)" * (share > 0)
            return f"right and wrong texts are nearly as likely; their ln P should differ by 0.1 nats{of_it}"
        is_wild = of_text[:, 0].sum() < np.log(1e-6) * tokens[:, 0].sum()
        return "a token of a right text has less than a millionth on average, below a guess" if is_wild else ""


@dataclass(frozen=True)
class _Kind:
    """A kind of control items: how an item is read from a file, what is asked, and how answers are read.

    ``chance``: share of right answers of a model that guesses. ``needed``: what the lower bound of the share has to
    exceed: half of the way from chance to 1, but for inference, whose recalls also have to exceed chance; for
    paraphrases, where a model that compares words is below chance; and for gender, which a model knows or not.
    ``what``: what the items are, in the plural. ``query``: about the cases, unless a suite asks them in another way.
    ``lead``: the least median distance between the scores of the answers, which have units. Trained models have 0.29
    (similarity; 0.13 of genders) and 0.75 to 0.96 (probabilities of labels), and a hundredth of it where scores are 100
    times too small, or vectors share a direction.
    """

    chance: float
    needed: float
    what: str
    item: Callable[[object, str], Item]
    ask: Callable[[Sequence[Item]], TextCases]
    query: Query
    read: Callable[[Sequence[Item], FloatArray], Right]
    lead: float = 0.0


def control_kinds() -> list[str]:
    """Return the names of the kinds of control items."""
    return sorted(_KINDS)


@cache
def packaged_controls(name: str, language: str) -> Controls | None:
    """Return the packaged items of a kind in a language; ``None`` if there are none."""
    folder = packaged.folder("fixtures") / "controls"
    path = folder / language / f"{name}.yaml"
    return read_controls(path) if language in os.listdir(folder) and path.is_file() else None


def read_controls(path: Path) -> Controls:
    """Read a file of control items.

    Raises:
        DataFileError: it breaks a rule; the message names file and line.
    """
    data = read_yaml(path)
    what = "a file of control items"
    refuse_unknown(data, _HEAD, what)
    name = take(data, "controls", str, what)
    if name not in _KINDS:
        raise data.error_at(
            "controls", f"unknown kind of control items {name!r:.80}; {expected_instead(name, control_kinds())}"
        )
    language = take(data, "language", str, what)
    rows = take(data, "items", LocatedList, what)
    if len(rows) < LEAST:
        raise data.error_at("items", f"{len(rows)} items; expected at least {LEAST}")
    content = tuple(_KINDS[name].item(row, f"{path}:{line}") for row, line in zip(rows, rows.lines, strict=True))
    if len(set(content)) < len(content):
        raise data.error_at("items", "an item stands twice; expected each once")
    for item, line in zip(content, rows.lines, strict=True):
        if name != "inference" and len(set(item)) < len(item):
            raise DataFileError(
                f"{path}:{line}: the right answer and the wrong one are the same, or repeat the question"
            )
    hits, of = _right_by_habit(name, content)
    if share_bounds(hits, of)[0] > _KINDS[name].needed:
        raise data.error_at(
            "items",
            f"a model that always prefers one of two answers would have {hits} of {of} items right, and be able;"
            " expected about as many items with each of the two as the right one",
        )
    classes = [item[2] if name == "inference" else "" for item in content]
    if name == "inference" and (lacking := set(LABELS) - set(classes)):
        raise data.error_at(
            "items",
            f"no item has the label {min(lacking)}; expected items of each label, or one answer to all would be right",
        )
    return Controls(name, language, content, np.asarray(classes))


def _right_by_habit(name: str, content: Sequence[Item]) -> tuple[int, int]:
    """Return how many of the items are right for a model that always prefers the same of two answers, or places."""
    if name == "antecedents":
        sides = Counter(("", _places(text, right)[0] < _places(text, wrong)[0]) for text, _, right, wrong in content)
    elif name.startswith("gender"):
        sides = Counter((" ".join(sorted(item[1:])), item[1] < item[2]) for item in content)
    else:
        return 0, len(content)
    return sum(max(sides[pair, True], sides[pair, False]) for pair in {pair for pair, _ in sides}), len(content)


# How items are read from a file.


def _text(value: object, where: str, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise DataFileError(f"{where}: expected {what}, got {value!r:.60}")
    return value


def _texts(value: object, where: str, keys: Sequence[str]) -> Item:
    """Return the texts of a mapping that has these keys and no others."""
    if not isinstance(value, LocatedMap) or set(value) != set(keys):
        raise DataFileError(f"{where}: expected a mapping with the keys {', '.join(keys)}, got {value!r:.80}")
    return tuple(_text(value[key], where, "a text") for key in keys)


def _triple(value: object, where: str) -> Item:
    if not isinstance(value, list) or len(value) != 3:
        raise DataFileError(f"{where}: expected a list of three texts, got {value!r:.80}")
    return tuple(_text(part, where, "a text") for part in value)


def _in_order(value: object, where: str) -> Item:
    """Return a sentence, and the same with the two words in brackets swapped."""
    text = _text(value, where, "a sentence with two words in brackets")
    before, opened, rest = text.partition("[")
    inside, closed, after = rest.partition("]")
    words = inside.split(" ")
    if not (opened and closed) or "[" in after or "]" in after or len(words) != 2 or not all(words):
        raise DataFileError(f"{where}: expected two neighbouring words in square brackets, got {text!r:.80}")
    return before + inside + after, f"{before}{words[1]} {words[0]}{after}"


def _fill(value: object, where: str, n_wrong: int) -> Item:
    """Return a text with a blank, the right word, and the wrong ones."""
    if not isinstance(value, LocatedMap) or set(value) != {"text", "right", "wrong"}:
        raise DataFileError(f"{where}: expected a mapping with the keys text, right and wrong, got {value!r:.80}")
    text = _text(value["text"], where, f"a text with {BLANK}")
    wrong = value["wrong"] if isinstance(value["wrong"], list) else [value["wrong"]]
    words = [_text(word, where, "a word") for word in (value["right"], *wrong)]
    if text.count(BLANK) != 1 or len(set(words)) < len(words):
        raise DataFileError(
            f"{where}: expected one {BLANK} and different words, got {text!r:.80} with {', '.join(words):.80}"
        )
    if len(wrong) != n_wrong:
        raise DataFileError(f"{where}: wrong words: expected {n_wrong}, got {len(wrong)}")
    return (text, *words)


def _labelled(value: object, where: str) -> Item:
    item = _texts(value, where, ("premise", "hypothesis", "label"))
    if item[2] not in LABELS:
        raise DataFileError(f"{where}: unknown label {item[2]!r:.80}; expected one of {', '.join(LABELS)}")
    return item


def _antecedent(value: object, where: str) -> Item:
    text, *parts = _texts(value, where, ("text", "pronoun", "right", "wrong"))
    for part in parts:
        if len(_places(text, part)) != 1:
            raise DataFileError(f"{where}: expected {part!r:.80} once in {text!r:.80}")
    return (text, *parts)


def _places(text: str, part: str) -> list[int]:
    """Return where a part stands in a text as whole words."""
    places = [i for i in range(len(text)) if text.startswith(part, i)]
    return [
        i for i in places if not (i and text[i - 1].isalnum()) and not text[i + len(part) : i + len(part) + 1].isalnum()
    ]


# What is asked, and how answers are read.


def _ask_order(content: Sequence[Item]) -> TextCases:
    return TextCases([(text,) for pair in content for text in pair], cases_per_unit=2)


def _read_order(content: Sequence[Item], values: FloatArray) -> Right:
    """A text is right where it is likelier than its swapped copy of equally many tokens; ties are wrong."""
    likelihood, tokens = values.reshape(len(content), 2, 2).transpose(2, 0, 1)
    return np.asarray(np.where(tokens[:, 0] == tokens[:, 1], likelihood[:, 0] > likelihood[:, 1], np.nan))


def _ask_words(content: Sequence[Item]) -> TextCases:
    """Ask for the probability of each word in the blank, given the rest of the text."""
    texts, spans = [], []
    for text, *words in content:
        start = text.index(BLANK)
        texts += [(text.replace(BLANK, word),) for word in words]
        spans += [((start, start + len(word)),) for word in words]
    return TextCases(texts, spans, cases_per_unit=len(texts) // len(content))


def _first_is_largest(content: Sequence[Item], values: FloatArray) -> Right:
    """An item is right where the first of its cases, which has the right answer, has a larger value than each other."""
    of_case = values[:, 0].reshape(len(content), -1)
    return np.asarray(of_case[:, 0] > of_case[:, 1:].max(axis=1), dtype=np.float64)


def _right_fills(content: Sequence[Item], ids: NDArray[np.generic], vocabulary: Sequence[str]) -> Right:
    """As :func:`_first_is_largest`, from the ids of all fills, best first. A text with an unknown word is not asked."""
    known = {word.lower(): number for number, word in enumerate(vocabulary)}
    right = np.full(len(content), np.nan)
    for row, (item, order) in enumerate(zip(content, np.asarray(ids), strict=True)):
        wanted = [known.get(word.lower(), -1) for word in item[1:]]
        if min(wanted) >= 0:
            place = np.argsort(order)
            right[row] = place[wanted[0]] < place[wanted[1:]].min()
    return right


def _ask_inference(content: Sequence[Item]) -> TextCases:
    return TextCases([(premise, hypothesis) for premise, hypothesis, _ in content])


def _read_inference(content: Sequence[Item], values: FloatArray) -> Right:
    """A pair is right where its label is likelier than each of the others; ties are wrong."""
    is_gold = np.asarray([[label == item[2] for label in LABELS] for item in content])
    others = np.where(is_gold, -np.inf, values)
    return np.asarray(values[is_gold] > others.max(axis=1), dtype=np.float64)


def _ask_pairs(content: Sequence[Item]) -> TextCases:
    """Ask for the first text of each triple with the second one, and with the third."""
    return TextCases([(first, text) for first, *others in content for text in others], cases_per_unit=2)


def _ask_vectors(content: Sequence[Item]) -> TextCases:
    return TextCases([(word,) for word in dict.fromkeys(word for triple in content for word in triple)])


def _read_vectors(content: Sequence[Item], values: FloatArray) -> Right:
    """A triple is right where the cosine of the first word is larger with the second than with the third; NaN where one
    has no vector.
    """
    words = dict.fromkeys(word for triple in content for word in triple)
    row = {word: number for number, word in enumerate(words)}
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    # NaN, of a word without a vector, stays.
    unit = np.divide(values, lengths, out=np.zeros_like(values), where=lengths != 0)
    first, near, far = (unit[[row[triple[k]] for triple in content]] for k in range(3))
    closer, further = (first * near).sum(axis=1), (first * far).sum(axis=1)
    # Sums in another order differ in the last bits: two vectors that are one are no nearer to a third than each other.
    return np.asarray(np.where(np.isnan(closer + further), np.nan, closer > further + 1e-6))


def _ask_antecedents(content: Sequence[Item]) -> TextCases:
    texts, spans = [], []
    for text, *parts in content:
        pronoun, *candidates = ((i := _places(text, part)[0], i + len(part)) for part in parts)
        texts.append((text,))
        spans.append((*sorted(candidates), pronoun))
    return TextCases(texts, spans)


def _read_antecedents(content: Sequence[Item], values: FloatArray) -> Right:
    """A pronoun is right where the right candidate has the higher score; candidates were asked in the order of the
    text.
    """
    first = np.asarray([_places(text, right)[0] < _places(text, wrong)[0] for text, _, right, wrong in content])
    ahead = values[:, 0] - values[:, 1]
    return np.asarray(np.where(first, ahead, -ahead) > 0, dtype=np.float64)


_WORDS: tuple[Any, ...] = (_ask_words, PseudoLogLikelihood(), _first_is_largest)
_VECTORS: tuple[Any, ...] = (_ask_vectors, TextVectors(), _read_vectors)
_GENDER = "words that say a gender"
_ENTAILED = partial(_texts, keys=("premise", "right", "wrong"))
_KINDS: Mapping[str, _Kind] = {
    "word-order": _Kind(
        1 / 2, 3 / 4, "sentences in their right order", _in_order, _ask_order, PseudoLogLikelihood(), _read_order
    ),
    "masked-words": _Kind(1 / 4, 5 / 8, "masked words", partial(_fill, n_wrong=3), *_WORDS),
    "related-words": _Kind(1 / 2, 3 / 4, "related words", _triple, *_VECTORS),
    "paraphrases": _Kind(1 / 2, 1 / 2, "paraphrases", _triple, _ask_pairs, PairSimilarity(), _first_is_largest, 0.02),
    "inference": _Kind(
        1 / 3, 1 / 2, "sentence pairs", _labelled, _ask_inference, PairProbabilities(), _read_inference, 0.1
    ),
    "antecedents": _Kind(
        1 / 2, 3 / 4, "pronouns", _antecedent, _ask_antecedents, CoreferenceScores(2, "own"), _read_antecedents
    ),
    "gender": _Kind(1 / 2, 1 / 2, _GENDER, partial(_fill, n_wrong=1), *_WORDS),
    "gender-inference": _Kind(
        1 / 2, 1 / 2, _GENDER, _ENTAILED, _ask_pairs, PairProbabilities(), _first_is_largest, 0.05
    ),
    "gender-words": _Kind(1 / 2, 1 / 2, _GENDER, _triple, *_VECTORS),
}
