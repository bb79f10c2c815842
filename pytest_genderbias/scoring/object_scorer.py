"""Scores of the user's objects, from strings: which method answers which question, and how; and the
checks of what a method answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.mentions import words_of
from pytest_genderbias.errors import BiasError, NotApplicableError, ScoreError, SettingError
from pytest_genderbias.models.model import Model
from pytest_genderbias.scoring.network import top_ids
from pytest_genderbias.scoring.scorer import answer_width, check_finite
from pytest_genderbias.suites.cases import Cases, IntArray, TextCases
from pytest_genderbias.suites.query import (
    ChatAnswers,
    ClassProbabilities,
    GeneratedTokens,
    PairProbabilities,
    PairSimilarity,
    PseudoLogLikelihood,
    Query,
    SharedLogLikelihood,
    SlotLogProbability,
    TopFills,
    VerbalisedProbabilities,
    ways_for,
)
from pytest_genderbias.suites.space import CaseSpace

#: How far the probabilities of a case may sum from one, and how far a number may lie outside its range: rounding.
SUM_TOLERANCE, RANGE_TOLERANCE = 1e-3, 1e-5
#: Two answers to one question may differ by this, as sums in another order do.
SAME_RELATIVE, SAME_ABSOLUTE = 1e-4, 1e-5
_PROBED = 4  #: cases that are asked about twice

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Range:
    """The numbers that an answer may have: between ``low`` and ``high``, and, of ``classes``, those of a case sum to
    one.
    """

    what: str
    low: float = -np.inf
    high: float = np.inf
    classes: bool = False

    def problem(self, answer: FloatArray) -> tuple[int, str] | None:
        """Return the first case with a number outside the range and what is wrong with it, or ``None``. NaN is not
        looked at.
        """
        rows = answer.reshape(len(answer), -1)
        outside = (rows < self.low - RANGE_TOLERANCE) | (rows > self.high + RANGE_TOLERANCE)
        if outside.any():
            row, column = np.argwhere(outside)[0]
            limits = f"{self.low:g} to {self.high:g}" if np.isfinite(self.low) else f"at most {self.high:g}"
            return int(row), f"gives {rows[row, column]:g}, expected {self.what}, {limits}"
        sums = rows.sum(axis=1)
        if self.classes and (np.abs(sums - 1) > SUM_TOLERANCE).any():
            row = int(np.argmax(np.abs(sums - 1) > SUM_TOLERANCE))
            return row, f"gives {self.what} that do not sum to one (they sum to {sums[row]:g})"
        return None


PROBABILITIES = Range("probabilities", 0.0, 1.0, classes=True)
LOG_PROBABILITIES = Range("natural logarithms of probabilities", high=0.0)
ANY_NUMBER = Range("numbers")


class ObjectScorer:
    """Scores cases with the first method that the object has of those that answer the query. The method's answers are
    arrays of numbers of the expected shape and range.

    After the first answer a few cases are asked about twice, and both answers have to be equal.

    Raises:
        NotApplicableError: the object lacks the method, or has none for such cases.
    """

    def __init__(self, cases: Cases, query: Query, model: Model, batch_tokens: int | None) -> None:
        self.cases, self.query, self.model = cases, query, model
        ways = ways_for(query, _WAYS)
        way = next((way for way in ways if model.can(way.method)), None)
        if way is None:
            raise _lacking(ways, query, model)
        if way.refuse is not None:
            way.refuse(self)
        self.notes = [way.note] if way.note else []
        self._way, self._method = way, getattr(model.backend, way.method)
        self._called, self._probed = f"{way.method} of {model.name}", False

    def score(self, cases: IntArray) -> NDArray[np.generic]:
        """Return the scores of the cases: shape (len(cases), width of the query)."""
        return self._way.answer(self, cases)

    def check(self, answer: NDArray[np.number], cases: IntArray) -> None:
        """Check that the numbers of all cases are finite.

        Raises:
            ScoreError: those of a case are not.
        """
        finite = np.isfinite(answer.reshape(len(cases), -1)).all(axis=1)
        check_finite(np.asarray(finite), self.cases, cases, self.model.name)

    def ask(self, *columns: Sequence[object], width: int | str | None = None) -> FloatArray:
        """Return the method's answer for columns of equal length, one element a case: shape (n,), or (n, ``width``); a
        text as width names any number of columns.

        Raises:
            ScoreError: the method raises an error; the answer has another shape, is no array of numbers, or has numbers
                outside the range; or a second answer to the same question differs. NaN passes: callers name the case
                that it is for.
        """
        answer = self._ask(columns, width)
        problem = self._way.range.problem(answer)
        if problem is not None:
            row, text = problem
            raise ScoreError(f"{self._called} {text} for {_case(columns, row)}; nothing is measured with it")
        if not self._probed and len(answer):
            self._probe(columns, width)
            self._probed = True
        return answer

    def _ask(self, columns: Sequence[Sequence[object]], width: int | str | None) -> FloatArray:
        try:
            raw = self._method(*columns)
        except BiasError:
            raise
        except (Exception, SystemExit) as error:  # of the user's code, of any kind
            raise ScoreError(f"{self._called} failed: {type(error).__name__}: {error}") from error
        try:
            array = np.asarray(raw)
        except Exception as error:  # ragged rows, tensors with a gradient or on another device
            raise ScoreError(f"{self._called} answered with no array of numbers: {error}") from None
        n = len(columns[0])
        expected = (n,) if width is None else (n, width)
        fits = array.shape == expected or (isinstance(width, str) and array.ndim == 2 and len(array) == n)
        if not fits:
            shown = str(expected).replace("'", "")
            raise ScoreError(f"{self.model.name} answered with an array of the shape {array.shape}, expected {shown}")
        if array.dtype.kind not in "fiu":
            raise ScoreError(f"{self._called} answered with an array of {array.dtype}, expected numbers")
        return array.astype(np.float64)

    def _probe(self, columns: Sequence[Sequence[object]], width: int | str | None) -> None:
        few = [column[:_PROBED] for column in columns]
        first, second = self._ask(few, width), self._ask(few, width)
        if first.shape == second.shape:
            same = np.isclose(first, second, SAME_RELATIVE, SAME_ABSOLUTE, equal_nan=True).reshape(len(first), -1)
            if same.all():
                return
            row, column = np.argwhere(~same)[0]
            one, other = (answer.reshape(len(first), -1)[row, column] for answer in (first, second))
            differ = f"{one:g} and {other:g} for {_case(few, int(row))}"
        else:
            differ = f"arrays of the shapes {first.shape} and {second.shape}"
        raise ScoreError(
            f"{self._called} gives different answers to the same question: {differ}; nothing is measured with it: put"
            " the model into evaluation mode (no dropout), or fix the seed of what it draws"
        )


def _case(columns: Sequence[Sequence[object]], row: int) -> str:
    return repr(" / ".join(str(column[row]) for column in columns))[:200]


class _Way(NamedTuple):
    """A method that answers a question, what is made of its answers, the numbers that it returns, a remark, and for
    which cases it does not apply.
    """

    method: str
    answer: Callable[[ObjectScorer, IntArray], NDArray[np.number]]
    range: Range = ANY_NUMBER
    note: str = ""
    refuse: Callable[[ObjectScorer], None] | None = None


#: Arguments of the methods, as messages name them.
_ARGUMENTS = {
    "continuation_log_probs": "prefixes, continuations",
    "answer_log_probs": "messages, answers",
    "coreference_scores": "texts, candidates, pronouns",
    "pair_scores": "firsts, seconds",
    "pair_probabilities": "premises, hypotheses",
}


def _lacking(ways: tuple[_Way, ...], query: Query, model: Model) -> NotApplicableError:
    """Return the error of an object that lacks the methods that answer a query, or of one for which there is none."""
    if not ways:
        writes = ", or let it write a text, and measure that: text:FILE" if isinstance(query, GeneratedTokens) else ""
        return NotApplicableError(
            f"{model.name} is an object without hidden states and probabilities of tokens, which this suite needs; give"
            f" the checkpoint of its model instead: --bias-model={model.name}=DIR{writes}"
        )
    methods = " and no ".join(f"{way.method}({_ARGUMENTS.get(way.method, 'texts')})" for way in ways)
    otherwise = query.otherwise if isinstance(query, ChatAnswers) else ""
    return NotApplicableError(f"{model.name} has no {methods}, which this suite needs{otherwise}")


def _word_in_slot(scorer: ObjectScorer, cases: IntArray) -> FloatArray:
    """Return the log-probability of the word in the slot, given the words before it."""
    space, query = scorer.cases, scorer.query
    assert isinstance(space, CaseSpace)
    assert isinstance(query, SlotLogProbability)
    columns = space.columns(cases)
    choices = [{name: int(v[row]) for name, v in columns.items()} for row in range(len(cases))]
    prefixes = [space.prefix(choice, query.slot) for choice in choices]
    words = [space.word_of(choice, query.slot) for choice in choices]
    return scorer.ask(prefixes, words)[:, None]


def _best_fills(scorer: ObjectScorer, cases: IntArray) -> NDArray[np.int32]:
    """Return the ids of the k best fills of the mask in each case."""
    model, query = scorer.model.backend, scorer.query
    assert isinstance(query, TopFills)
    texts = [text for (text,) in scorer.cases.sentences(cases, model.mask_token)]
    size = len(model.vocabulary)
    if size < query.k:
        raise SettingError(f"top_k is {query.k}, the vocabulary of {scorer.model.name} has {size} items")
    best = np.zeros((len(texts), query.k), dtype=np.int32)
    ids = np.arange(size)[None]
    for start in range(0, len(texts), 64):
        part = slice(start, start + 64)
        scores = scorer.ask(texts[part], width=size)
        scorer.check(scores, cases[part])
        best[part] = top_ids(scores, np.repeat(ids, len(scores), axis=0), query.k)
    return best


def _labels(scorer: ObjectScorer, cases: IntArray) -> NDArray[np.float32]:
    """Return the probabilities of a classifier's labels, for pairs in the order of the query."""
    columns = [list(column) for column in zip(*scorer.cases.sentences(cases), strict=True)]
    answer = scorer.ask(*columns, width=answer_width(scorer.query, scorer.model))
    is_pair = isinstance(scorer.query, PairProbabilities)
    return (answer[:, list(scorer.model.role.label_order)] if is_pair else answer).astype(np.float32)


def _whole_texts(scorer: ObjectScorer, cases: IntArray) -> FloatArray:
    """Return the log-probability of the words after the first in each case, and their number."""
    parts = [text.partition(" ") for (text,) in scorer.cases.sentences(cases)]
    rest = [after for _, _, after in parts]
    scores = scorer.ask([first for first, _, _ in parts], rest)
    return np.stack([scores, np.asarray([len(text.split()) for text in rest], dtype=np.float64)], axis=1)


def _refuse_spans(scorer: ObjectScorer) -> None:
    within = isinstance(scorer.cases, TextCases) and any(scorer.cases.spans)
    if within or isinstance(scorer.query, SharedLogLikelihood):
        raise NotApplicableError(
            f"{scorer.model.name} is an object, which has no probabilities of words inside a sentence; a causal LM"
            " scores whole sentences (option score=all)"
        )


def _verbalised(scorer: ObjectScorer, cases: IntArray) -> NDArray[np.float32]:
    """Return the probabilities of the labels of each pair, as the object answers in words."""
    from pytest_genderbias.scoring.pseudo_likelihood import prompts_and_answers, shares

    assert isinstance(scorer.query, VerbalisedProbabilities)
    scores = scorer.ask(*prompts_and_answers(scorer.query, scorer.cases.sentences(cases))).reshape(len(cases), -1)
    scorer.check(scores, cases)
    return shares(scores)


def _replies(scorer: ObjectScorer, cases: IntArray) -> FloatArray:
    """Return the log-probability of each answer to a message."""
    assert isinstance(scorer.query, ChatAnswers)
    answers = scorer.query.answers
    messages = [message for (message,) in scorer.cases.sentences(cases) for _ in answers]
    return scorer.ask(messages, list(answers) * len(cases)).reshape(len(cases), -1)


def _substituted(scorer: ObjectScorer, cases: IntArray) -> FloatArray:
    """Return the log-probability of each candidate, given the text before it."""
    from pytest_genderbias.scoring.pseudo_likelihood import filled

    assert isinstance(scorer.cases, TextCases)
    copies = filled(scorer.cases, cases)
    prefixes = [text[: span[0]].rstrip() for text, span in copies]
    return scorer.ask(prefixes, [words_of(text, span) for text, span in copies]).reshape(len(cases), -1)


def _candidates(scorer: ObjectScorer, cases: IntArray) -> FloatArray:
    """Return the object's own score of each candidate for a pronoun."""
    assert isinstance(scorer.cases, TextCases)
    spans = [scorer.cases.spans[i] for i in cases]
    texts = [scorer.cases.texts[i][0] for i in cases]
    candidates = [list(own[:-1]) for own in spans]
    return scorer.ask(texts, candidates, [own[-1] for own in spans], width=len(candidates[0]))


def _similarities(scorer: ObjectScorer, cases: IntArray) -> FloatArray:
    """Return the score of each pair."""
    firsts, seconds = zip(*scorer.cases.sentences(cases), strict=True)
    return scorer.ask(list(firsts), list(seconds))[:, None]


def _cosines(scorer: ObjectScorer, cases: IntArray) -> FloatArray:
    """Return the cosine of the two vectors of each pair."""
    from pytest_genderbias.scoring.text_vectors import cosines

    return cosines(lambda texts: scorer.ask(texts, width="dimensions"), scorer.cases, cases, scorer.model.name)


_CONTINUATION, _CHAT = "continuation_log_probs", "answer_log_probs"
_FIRST_WORD = "the first word of each sentence is given, not scored"
_WHOLE_TEXTS = (_Way(_CONTINUATION, _whole_texts, LOG_PROBABILITIES, _FIRST_WORD, _refuse_spans),)
#: The methods that answer a kind of query, the preferred one first.
_WAYS: Mapping[type | str, tuple[_Way, ...]] = {
    SlotLogProbability: (_Way(_CONTINUATION, _word_in_slot, LOG_PROBABILITIES),),
    TopFills: (_Way("fill_scores", _best_fills),),
    PairProbabilities: (_Way("pair_probabilities", _labels, PROBABILITIES),),
    ClassProbabilities: (_Way("class_probabilities", _labels, PROBABILITIES),),
    PseudoLogLikelihood: _WHOLE_TEXTS,
    SharedLogLikelihood: _WHOLE_TEXTS,
    VerbalisedProbabilities: (_Way(_CONTINUATION, _verbalised, LOG_PROBABILITIES),),
    ChatAnswers: (_Way(_CHAT, _replies, LOG_PROBABILITIES),),
    PairSimilarity: (_Way("pair_scores", _similarities), _Way("encode", _cosines)),
    "substitution": (_Way(_CONTINUATION, _substituted, LOG_PROBABILITIES),),
    "own": (_Way("coreference_scores", _candidates),),
}
