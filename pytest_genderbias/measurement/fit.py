"""Which suites fit a model and the user's data, and the cost of a suite, found out before any weights are loaded.

The cost is the seconds of scoring: operations are counted from the cases, their tokens and the shape of the network,
and divided by a rate that was measured. Cached scores, early stopping and ``--bias-limit`` make a run cheaper; loading
and statistics come on top. A calculated time is right within a factor of two or so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np

from pytest_genderbias.datasets.folder import MissingDataError
from pytest_genderbias.errors import BiasError, NotApplicableError, SettingError
from pytest_genderbias.measurement.plan import plan_measurement
from pytest_genderbias.measurement.runner import Runner
from pytest_genderbias.models import roles
from pytest_genderbias.models.roles import CAUSAL_LM, NLI_CLASSIFIER, NLI_LABELS, TEXT_REPLIES, Role
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.scoring.scorers import make_scorer, refuse_unserved
from pytest_genderbias.suites.cases import Cases, Question, Spans, TextCases
from pytest_genderbias.suites.query import (
    ChatAnswers,
    ClassProbabilities,
    CoreferenceScores,
    PairProbabilities,
    PairSimilarity,
    PseudoLogLikelihood,
    Query,
    SharedLogLikelihood,
    SlotLogProbability,
    TextVectors,
    TopFills,
)
from pytest_genderbias.suites.suite import Suite

_TOKENS_PER_WORD = 1.2  #: of WordPiece in the packaged suites, with punctuation
_TOKENS_PER_PLAIN_WORD = 1.1  #: without punctuation: names and occupations
_SPECIAL = 2  #: tokens around a text
_CHAT_TEMPLATE = 20  #: tokens around a message, with a short system prompt
_SAMPLE = 200  #: cases whose words are counted
_VOCABULARY = 30_522
#: Queries that take one forward pass of each case, or of each of its texts.
ONE_PASS = (ClassProbabilities, PairProbabilities, PairSimilarity, SlotLogProbability, TopFills)
#: Queries that do not read the vocabulary head; others read it once a row.
_WITHOUT_VOCABULARY = (ClassProbabilities, PairProbabilities, PairSimilarity, TextVectors)


#: Encoders as large as BERT-tiny, MiniLM, BERT base and BERT large: the number of layers, and their width, by name.
SIZES: Mapping[str, tuple[int, int]] = {
    "tiny, 2 x 128": (2, 128),
    "small, 6 x 384": (6, 384),
    "base, 12 x 768": (12, 768),
    "large, 24 x 1024": (24, 1024),
}
_TINY, _SMALL, _BASE, _LARGE = SIZES
#: Operations per second of one core by size, in float32: of the time of the processor, on an AMD EPYC of the Zen 4
#: generation that was busy with other things.
CORE = {_TINY: 5.5e10, _SMALL: 6.9e10, _BASE: 4.9e10, _LARGE: 5.1e10}
#: Operations per second of an NVIDIA H100 with BERT base in float32, measured with the whole of nli-occupation.
_GPU = 3.6e13
#: Operations per second of scoring by size, on each machine.
MACHINES: Mapping[str, Mapping[str, float]] = {
    "two cores": {name: 2 * rate for name, rate in CORE.items()},
    "16 cores": {name: 16 * rate for name, rate in CORE.items()},
    "one H100": dict.fromkeys(CORE, _GPU),
}
#: Machines and sizes whose rate was measured; the others are calculated from those (docs/evidence/speed.md).
MEASURED = frozenset([*(("two cores", name) for name in CORE), ("one H100", _BASE)])


@dataclass(frozen=True)
class Work:
    """The forward passes of a suite's main question.

    ``rows`` of ``tokens`` each on average; at ``reads`` positions of a row the vocabulary head is computed.
    """

    rows: int
    tokens: float
    reads: int

    def operations(self, layers: int, width: int) -> float:
        """Return the floating-point operations: two a weight and token, those of the attention, and those of the head.

        >>> Work(3, 4.0, 0).operations(1, 10)  # 3 rows: 2 x 4 x 12 x 10 x 10 in the layer, 4 x 4 x 4 x 10 in attention
        30720.0
        """
        layer = 24 * self.tokens * width**2 + 4 * self.tokens**2 * width
        head = 2 * self.reads * width * (width + _VOCABULARY)
        return self.rows * (layers * layer + head)


def work_of(cases: Cases, query: Query) -> Work | None:
    """Return the forward passes of a question, or ``None`` where there are none, or their number is not known before:
    generated text, the passes of a user's own scorer, and vectors of the embedding table.

    Tokens are estimated from the words of some cases, evenly spaced. A masked LM takes a pass for each token of a
    sentence that is scored whole, for each token that two sentences share, and for each token of a candidate that is
    put in the place of a pronoun. A word of several tokens counts as one where a suite asks for single words. The
    training of heads comes on top.

    Args:
        cases: the cases of the question.
        query: what is asked of each.

    >>> texts = TextCases((("He is a nurse.",), ("She is a nurse.",)), cases_per_unit=2)
    >>> work = work_of(texts, PseudoLogLikelihood())  # 4 words are 4.8 tokens, masked in turn in both sentences
    >>> work.rows, round(work.tokens, 1), work.reads
    (10, 6.8, 1)
    >>> work_of(texts, SharedLogLikelihood()).rows  # 3 words are shared, 3.6 tokens
    7
    """
    if not cases.n_cases:
        return None
    spaced = np.unique(np.linspace(0, cases.n_cases - 1, num=_SAMPLE).round().astype(np.int64))
    passes = [_passes(cases, query, int(number)) for number in spaced]
    known = [one for one in passes if one is not None]
    if len(known) < len(passes):
        return None
    count = sum(number for number, _ in known)
    tokens = sum(number * length for number, length in known) / count if count else 0.0
    without_head = isinstance(query, _WITHOUT_VOCABULARY) or (
        isinstance(query, CoreferenceScores) and query.adapter == "edge-probe"
    )
    return Work(round(cases.n_cases * count / len(known)), tokens, int(not without_head))


def _passes(cases: Cases, query: Query, number: int) -> tuple[float, float] | None:
    """Return how many forward passes a case takes, on average, and their tokens; ``None`` if they are not known."""
    sentence = cases.sentences(np.asarray([number]))[0]
    spans: Spans = cases.spans[number] if isinstance(cases, TextCases) and cases.spans else ()
    tokens = _tokens(sentence)
    match query:
        case PairSimilarity():  # a sentence encoder reads the texts one by one
            return len(sentence), tokens / len(sentence) + _SPECIAL
        case _ if isinstance(query, ONE_PASS):
            return 1, tokens + 1 + len(sentence)
        case TextVectors(where=where) if where != "input":
            return 1, tokens + _SPECIAL
        case ChatAnswers():  # answers of one token are read after the same row
            return 1, tokens + _CHAT_TEMPLATE
        case PseudoLogLikelihood():
            return _tokens_in(sentence[0], spans) if spans else tokens, tokens + _SPECIAL
        case SharedLogLikelihood():
            other = cases.sentences(np.asarray([number ^ 1]))[0]
            return _TOKENS_PER_WORD * _shared_words(sentence[0], other[0]), tokens + _SPECIAL
        case CoreferenceScores(adapter="edge-probe"):
            return 1, tokens + _SPECIAL
        case CoreferenceScores(adapter="substitution"):  # two copies of the text for each candidate
            return _tokens_in(sentence[0], spans[:-1]), 2 * tokens + _SPECIAL
    return None


def _tokens(texts: Sequence[str]) -> float:
    return _TOKENS_PER_WORD * sum(len(text.split()) for text in texts)


def _tokens_in(text: str, spans: Spans) -> float:
    """Return the tokens in spans: their words, which have no punctuation."""
    return _TOKENS_PER_PLAIN_WORD * sum(len(text[start:stop].split()) for start, stop in spans)


def _shared_words(first: str, second: str) -> int:
    """Return the number of words that two texts share, in order.

    >>> _shared_words("He is a good nurse.", "She is a bad nurse.")
    3
    """
    blocks = SequenceMatcher(None, first.split(), second.split(), autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks)


#: Why a suite cannot be measured: it needs another model, data that are missing, or other settings.
OTHER_MODEL, NO_DATA, OTHER_SETTINGS = "other model", "no data", "other settings"
#: Suites to begin with: of language models, and of other kinds one, since gates share their false alarms. Each was seen
#: to see a growth of 50 % on a real model (docs/guides/which-suite.md); a kind without one has no gate to begin with.
LANGUAGE = ("pronoun-occupation", "lm-occupation")
FELT = LANGUAGE[:1]  #: what restarts are gated by, since it follows a dose of bias (docs/evidence/doses.md)
_OF_ONE = {CAUSAL_LM: LANGUAGE[1:]}  #: by one checkpoint, where FELT sees too little
SEES = {NLI_CLASSIFIER: ("nli-occupation",), roles.ENCODER: ("probe-compression",)}
NONE_KNOWN = "no gate is known to see a growth of 50 % on such a model (docs/guides/which-suite.md)"


@dataclass(frozen=True)
class Fit:
    """Whether a suite can be measured on a model with the data that are there.

    Attributes:
        suite: the suite.
        cases: the number of cases of its main question; ``None`` where only the model knows it, as with a table of
            predictions.
        obstacle: empty if it can be measured, else ``OTHER_MODEL``, ``NO_DATA`` or ``OTHER_SETTINGS``.
        reason: the obstacle in words.
    """

    suite: Suite
    cases: int | None = None
    obstacle: str = ""
    reason: str = ""


def fit_of(runner: Runner, suite: Suite, spec: ModelSpec) -> Fit:
    """Return whether a suite can be measured on a model, with the settings and the data of a runner.

    Args:
        runner: of the run; of the model it reads the config only, once.
        suite: the suite.
        spec: the model. Of restarts (``{seed}``) the first stands for all.

    Raises:
        ModelError: the model cannot be read.
    """
    first = spec.for_seed(0)
    runner.models.source(first)  # an error about the model is none of the suite
    try:
        main = next(iter(runner.plan(suite, first).questions.values()))
        role = runner.models.source(first).role
        # Some say without scoring what they can answer: an object by its methods, a file by its ids.
        says = first.kind == "object" or (role.kind == TEXT_REPLIES and first.kind == "predictions")
        if main.cases is not None and says:
            make_scorer(main.cases, main.query, runner.models.model(first), batch_tokens=None)
        if main.cases is not None:
            refuse_unserved(main.query, spec.name, role)
    except BiasError as error:
        kinds = {MissingDataError: NO_DATA, NotApplicableError: OTHER_MODEL, BiasError: OTHER_SETTINGS}
        obstacle = next(obstacle for kind, obstacle in kinds.items() if isinstance(error, kind))
        return Fit(suite, None, obstacle, str(error).removeprefix(suite.name).lstrip(": "))
    return Fit(suite, None if main.cases is None else main.cases.n_cases)


def start_set(kind: str, fit: Callable[[str], Fit | None], seeded: bool) -> list[Fit]:
    """Return the suites to begin with, those that decide most first; none if no gate is known to see enough.

    Args:
        kind: of the model's role.
        fit: what is known of a suite by its name; ``None`` for one that is not asked about.
        seeded: whether there are restarts of the model.
    """
    found = (fit(name) for name in SEES.get(kind, FELT if seeded else _OF_ONE.get(kind, LANGUAGE)))
    return [one for one in found if one is not None and not one.obstacle]


def example_cases(suite: Suite, data: Path | None = None, most: int = 10) -> list[str]:
    """Return some cases of a suite as text, evenly spaced over all; empty where they come from missing data, or from
    the model.

    Args:
        suite: the suite, asked with its default options as for the first kind of model that has what it needs.
        data: the folder of the user's data sets.
        most: the largest number of cases.

    Raises:
        DataFileError: a data file is malformed.
    """
    cases = cases_of(suite, data)
    if cases is None or not cases.n_cases:
        return []
    spaced = np.unique(np.linspace(0, cases.n_cases - 1, num=most).round().astype(np.int64))
    texts = (" / ".join(segments).strip() for segments in cases.sentences(spaced))
    return [text for text in dict.fromkeys(texts) if text]


def cases_of(suite: Suite, data: Path | None = None, options: Mapping[str, object] | None = None) -> Cases | None:
    """Return the cases of a suite, as for the first kind of model that has what it needs.

    ``None`` where they come from data that are missing, or from the model.

    Raises:
        DataFileError: a data file is malformed.
    """
    main = main_question(suite, data, options)
    return None if main is None else main.cases


def main_work(suite: Suite, data: Path | None = None) -> Work | None:
    """Return the forward passes of a suite's main question, or ``None`` where they are not known without the model or
    its data.

    Raises:
        DataFileError: a data file is malformed.
    """
    main = main_question(suite, data, None)
    return None if main is None or main.cases is None else work_of(main.cases, main.query)


def main_question(
    suite: Suite, data: Path | None = None, options: Mapping[str, object] | None = None, kinds: Sequence[str] = ()
) -> Question | None:
    """Return the main question to the first kind of model that gives it cases (of ``kinds``; empty: of all), or
    ``None``.
    """
    for kind in kinds or suite.family.roles:
        labels = NLI_LABELS if kind == NLI_CLASSIFIER else ()
        try:
            questions = plan_measurement(suite, kind, Role(kind, kind, labels), options or {}, data).questions
        except (NotApplicableError, SettingError):
            continue
        main = next(iter(questions.values()))
        if main.cases is not None:
            return main
    return None
