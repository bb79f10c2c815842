"""The ways to ask whom a pronoun means, and to read the answers. WinoBias and Winogender make their figures of them.

:class:`Scored` asks a scorer of candidates, or takes the stored output of a coreference system; :class:`Chosen` asks in
a chat, with both persons and neither as options (``asking.py``). A family has one of them (:class:`AskedPronouns`), and
the figures of both.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.coreference_output import SentenceOutput, is_linked, outputs_for, scores_with_pronoun
from pytest_genderbias.datasets.files import LinesById
from pytest_genderbias.datasets.mentions import Span, words_of
from pytest_genderbias.errors import NotApplicableError, ScoreError, UndefinedError
from pytest_genderbias.statistics import coreference_scores
from pytest_genderbias.statistics.multiple_choice import choices
from pytest_genderbias.suites.ask import CHAT_ROLES, is_english
from pytest_genderbias.suites.ask import NEEDS as ASKING_NEEDS
from pytest_genderbias.suites.cases import Answer, Answers, Facts, IntArray, Items, Question, TextCases
from pytest_genderbias.suites.families.shared import asking
from pytest_genderbias.suites.family import BodyT, Context, Family, Option, one_of
from pytest_genderbias.suites.query import NETWORKS, CoreferenceScores, StoredPredictions
from pytest_genderbias.suites.statistic import FloatArray, NullFigures, Options
from pytest_genderbias.suites.summary import Summary
from pytest_genderbias.text.normal_form import normal_form
from pytest_genderbias.text.schema import Rule
from pytest_genderbias.text.wordlist import PRONOUN_FORMS, load_wordlist

SCORER = "coreference-scorer"
PREDICTIONS = "coreference-predictions"
PROBABILITY = "probability"
NEITHER = "neither of them"
SCORING_ROLES = (*NETWORKS, SCORER)
NEEDS = "a masked or causal LM, a network with hidden states, or an object that scores coreference"

_GENITIVE = {"possessive", "independent"}
_LMS = ("masked-lm", "causal-lm")
_TRAINING = "gap, winobias, or the path of a file or folder in the format of CoNLL-2012"
_METHODS = {
    "substitution": "substitution: ln P of the candidate in the pronoun's place, in a second copy of the text",
    "edge-probe": "edge-probe: a head on frozen span vectors",
    "own": "own: the object's scores",
}


OPTIONS: Mapping[str, Option] = {
    "scorer": one_of(
        "auto",
        "substitution",
        "edge-probe",
        meaning="the scorer of a network; auto: substitution for masked and causal LMs, edge-probe for others",
    ),
    "training": Option(
        "gap",
        Annotated[str, Rule(_TRAINING, pattern=r"^(gap|winobias)$|[/\\.]")],
        "training data of the edge-probe head",
        display=True,  # the signature has the digest of the data
    ),
}


def coreference_query(options: Options, context: Context, candidates: int) -> CoreferenceScores:
    """Return the query for the scorer that the options and the kind of the model select.

    Raises:
        NotApplicableError: the selected scorer does not apply to this kind of model.
        MissingDataError: the training data of the edge-probe head are missing.
    """
    adapter, kind = options["scorer"], context.role
    if adapter == "auto":
        adapter = "own" if kind == SCORER else "substitution" if kind in _LMS else "edge-probe"
    query = CoreferenceScores(candidates, adapter, seed=context.seed if adapter == "edge-probe" else 0)
    if kind not in query.roles:
        raise NotApplicableError(f"scorer={adapter} needs {' or '.join(query.roles)}; the model's kind is {kind}")
    if adapter != "edge-probe":
        return query
    from pytest_genderbias.suites.families.shared.coreference_training import coreference_training

    return replace(query, training=coreference_training(context.data, options["training"]))


def scorer_facts(query: CoreferenceScores | StoredPredictions, n: int) -> Facts:
    """Return the scorer and the digest of its training data as facts of the cases.

    Facts are part of the digest of the cases, so measurements by different scorers are never compared.
    """
    if not isinstance(query, CoreferenceScores):
        return {"scorer": np.full(n, "predictions")}
    facts = {"scorer": np.full(n, query.adapter)}
    return facts if query.training is None else {**facts, "training": np.full(n, query.training.digest)}


def genitive_fact(texts: Sequence[str], pronouns: Sequence[Span], versions: Sequence[Hashable]) -> NDArray[np.int8]:
    """Return whether each pronoun is possessive, as a fact of the cases: 1, 0, or -1 if its form is ambiguous.

    "her" is ambiguous, unless another version of the sentence has "his" or "him"; all versions get the same value.

    Args:
        texts: the sentences.
        pronouns: the span of the pronoun in each sentence.
        versions: a key for each sentence, equal for the versions of one sentence.

    >>> texts = ["The cook met her.", "The cook met him.", "The cook sold his car.", "The cook met her."]
    >>> genitive_fact(texts, [(13, 16), (13, 16), (14, 17), (13, 16)], [1, 1, 2, 3]).tolist()
    [0, 0, 1, -1]
    """
    forms: dict[Hashable, set[str]] = {}
    for text, span, version in zip(texts, pronouns, versions, strict=True):
        possible = set(_forms().get(normal_form(words_of(text, span)).lower(), ()))
        forms[version] = forms[version] & possible if version in forms else possible
    genitive = {
        version: -1
        if not possible or len(possible & _GENITIVE) not in (0, len(possible))
        else int(possible <= _GENITIVE)
        for version, possible in forms.items()
    }
    return np.asarray([genitive[version] for version in versions], dtype=np.int8)


@cache
def _forms() -> Mapping[str, frozenset[str]]:
    """Return the possible forms of each pronoun, by its lower-case word."""
    forms_of: dict[str, set[str]] = {}
    for entry in load_wordlist("pronouns").entries:
        for form in PRONOUN_FORMS:
            forms_of.setdefault(entry.attributes[form].lower(), set()).add(form)
    return {word: frozenset(forms) for word, forms in forms_of.items()}


def scorer_note(cases: TextCases) -> str:
    """Return the note that names the scorer."""
    scorer = str(cases.facts["scorer"][0])
    return "scorer: " + _METHODS.get(scorer, "predictions: the output of a coreference system")


def likelihoods(scores: FloatArray, how: str) -> FloatArray:
    """Return the likelihood of each candidate, 0 to 1, shape (n, C).

    Args:
        scores: shape (n, C), -inf for a candidate that was not considered.
        how: ``softmax`` over the candidates, exp(s) / sum exp(s) (for log-probabilities; 0 if none was considered);
            ``logistic``, 1 / (1 + exp(-s)), for log-odds; ``score``, the score itself.

    Raises:
        ScoreError: ``how`` is ``score``, and a score is not between 0 and 1.

    >>> likelihoods(np.log([[3.0, 1.0]]), "softmax").round(6).tolist()
    [[0.75, 0.25]]
    """
    from scipy import special

    if how == "logistic":
        return np.asarray(special.expit(scores), dtype=np.float64)
    if how == "score":
        likelihood = np.where(np.isneginf(scores), 0.0, scores)
        if likelihood.min(initial=0.0) < 0 or likelihood.max(initial=0.0) > 1:
            raise ScoreError(
                f"likelihood=score needs scores from 0 to 1, got {likelihood.min():.3g} to {likelihood.max():.3g}; "
                "softmax takes any scores"
            )
        return np.asarray(likelihood, dtype=np.float64)
    top = scores.max(axis=1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    return np.asarray(weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300), dtype=np.float64)


class PronounSentence(NamedTuple):
    """A sentence with a pronoun and two persons that it may mean.

    ``persons``: their spans. ``pronouns``: the spans of all pronouns, the one that is asked about first. ``gold``:
    number of the right person, 0 or 1. ``version``: a key that is equal for the versions of one sentence.
    """

    text: str
    persons: tuple[Span, Span]
    pronouns: tuple[Span, ...]
    gold: int
    version: Hashable


@dataclass(frozen=True)
class Reading:
    """Answers on n sentences as figures are made of them.

    Attributes:
        facts: what is known of each sentence.
        notes: on how they were asked.
        linked: the person that is linked to the pronoun, -1 for none or both, shape (n,).
        scores: of each person, -inf without one, shape (n, 2).
        counts: for the F1 with the gold clusters, shape (n, metrics, 4): MUC, B-cubed and CEAF-phi4 if ``clusters``
            (the system clusters), otherwise pairs.
        probabilities: of each person, shape (n, 2); ``None`` for a system that gives clusters only.
        picked: what was picked, where options were offered.
    """

    facts: Facts
    notes: tuple[str, ...]
    linked: IntArray
    scores: FloatArray
    counts: FloatArray
    probabilities: FloatArray | None
    clusters: bool = False
    picked: asking.Picked | None = None


class Scored:
    """By the scores of both persons, or by the stored output of a coreference system."""

    roles: tuple[str, ...] = (*SCORING_ROLES, PREDICTIONS)
    needs = NEEDS + ", or a file of a coreference system's output"

    def question(
        self, sentences: Sequence[PronounSentence], known: Facts, options: Options, context: Context, each: int = 1
    ) -> Question:
        """Ask for the score of both persons in each sentence, or look each up.

        Args:
            sentences: the sentences.
            known: what else is known of each.
            options: of the measurement.
            context: what is asked.
            each: number of sentences in a unit.

        Raises:
            NotApplicableError, MissingDataError: as :func:`coreference_query`.
        """
        stored = context.role == PREDICTIONS
        query = StoredPredictions() if stored else coreference_query(options, context, 2)
        n = len(sentences)
        facts = {
            **known,
            "gold": np.asarray([s.gold for s in sentences], dtype=np.int64),
            "pronouns": np.fromiter((s.pronouns for s in sentences), dtype=object, count=n),
            "genitive": genitive_fact(
                [s.text for s in sentences], [s.pronouns[0] for s in sentences], [s.version for s in sentences]
            ),
            **scorer_facts(query, n),
        }
        spans = [(*s.persons, s.pronouns[0]) for s in sentences]
        return Question(TextCases([(s.text,) for s in sentences], spans, facts, each), query)

    def read(self, answer: Answer) -> Reading:
        """Read the scores, or the output, in the order of the scored cases.

        Raises:
            DataFileError: a file of predictions lacks a sentence, or has another text or other words for it.
        """
        facts, notes = answer.facts(), (scorer_note(answer.cases),)
        if isinstance(answer.content, LinesById):
            return _stored(answer.cases, answer.content, facts, notes)
        return _by_scores(np.asarray(answer.values.reshape(answer.n, -1), dtype=np.float64), facts, notes)


def _by_scores(scores: FloatArray, facts: Facts, notes: tuple[str, ...]) -> Reading:
    linked = coreference_scores.likelier_profession(scores)
    return Reading(facts, notes, linked, scores, _pairs(facts["gold"], linked), likelihoods(scores, "softmax"))


def _pairs(gold: IntArray, linked: IntArray) -> FloatArray:
    """Return the counts of pairs of pronoun and person."""
    persons = np.arange(2)
    return coreference_scores.pair_counts(persons == gold[:, None], persons == linked[:, None])[:, None]


def _stored(cases: TextCases, content: LinesById[SentenceOutput], facts: Facts, notes: tuple[str, ...]) -> Reading:
    texts = [text for (text,) in cases.texts]
    outputs = outputs_for(content, zip(map(str, cases.facts["id"]), texts, strict=True))
    sentences = [
        (output, text, spans[-1], spans[:-1]) for output, text, spans in zip(outputs, texts, cases.spans, strict=True)
    ]
    has_scores = all(output.pronoun_scores is not None for output in outputs)
    scores = np.asarray([scores_with_pronoun(*sentence) for sentence in sentences]) if has_scores else None
    if any(output.clusters is None for output in outputs):
        assert scores is not None  # the reader requires clusters or scores
        return _by_scores(scores, facts, notes)
    linked = np.asarray([is_linked(*sentence) for sentence in sentences])
    counts = [
        coreference_scores.document_counts([(spans[right], *pronouns)], output.clusters or ())
        for output, spans, right, pronouns in zip(
            outputs, cases.spans, cases.facts["gold"], cases.facts["pronouns"], strict=True
        )
    ]
    probabilities = None if scores is None else likelihoods(scores, "softmax")
    scores = np.where(linked, 0.0, -np.inf) if scores is None else scores
    return Reading(
        facts,
        notes,
        coreference_scores.linked_profession(linked),
        scores,
        np.stack(counts),
        probabilities,
        clusters=True,
    )


class Chosen:
    """By the option that a chat model chooses: one of both persons, or neither."""

    roles: tuple[str, ...] = CHAT_ROLES
    needs = ASKING_NEEDS

    def question(
        self, sentences: Sequence[PronounSentence], known: Facts, options: object, context: Context, each: int = 1
    ) -> Question:
        """Ask whom the pronoun means, with both persons and neither in each of their orders. Arguments as of
        :meth:`Scored.question`.

        Raises:
            NotApplicableError: the suite is in another language than the sentences.
        """
        if not is_english(context.ask.language):
            raise NotApplicableError(f"its sentences are in English, and its language is {context.ask.language}")
        return asking.asked(
            [pronoun_question(s.text, s.pronouns[0], s.persons) for s in sentences], known, context, each
        )

    def read(self, answer: Answer) -> Reading:
        """Read what was picked: the likeliest option, or the one that most replies pick. Neither, or a tie, links the
        pronoun to no person.
        """
        facts, picked = asking.question_facts(answer), asking.picked_of(answer)
        persons = choices(picked.probabilities)[:, :2] == 1
        linked = np.where(persons.any(axis=1), persons.argmax(axis=1), -1)
        gold = facts.get("gold", np.zeros(len(linked), dtype=np.int64))
        with np.errstate(divide="ignore"):
            scores = np.log(picked.probabilities[:, :2])
        share = float(picked.picked[:, 2].mean()) if len(picked.picked) else 0.0
        how = (
            "in text, in one of six orders" if asking.is_counted(answer) else "through the chat template, in six orders"
        )
        note = f"asked {how}; neither person was picked in {share:.1%} of the sentences"
        probabilities = asking.among_options(picked)[:, :2]
        return Reading(facts, (note,), linked, scores, _pairs(gold, linked), probabilities, picked=picked)


Way: TypeAlias = Scored | Chosen
_OF_CHATS = ("mass", "refused")  #: statistics that say whether a chat does the task at all


class AskedPronouns(Family[BodyT]):
    """Sentences with a pronoun, asked in one of the ways. A subclass makes the figures of the answers.

    Attributes:
        way: how it asks.
        each: number of sentences in a unit.
    """

    way: ClassVar[Way]
    each: ClassVar[int] = 1

    @abstractmethod
    def compare(self, body: BodyT, options: Options, reading: Reading, task: Items) -> Summary:
        """Return the figures of a reading, with records, items (those of a chat's ``task`` among them) and notes."""

    @abstractmethod
    def shuffled(self, body: BodyT, options: Options, reading: Reading, seed: int, repeats: int) -> NullFigures:
        """Return the figures of a reading after the genders of pronouns were exchanged."""

    @abstractmethod
    def why_unable(self, reading: Reading, picked: asking.Picked, floor: float) -> str:
        """Return why a chat has no bias; an empty text if it has one."""

    @abstractmethod
    def shown(self, reading: Reading, picked: asking.Picked) -> tuple[NDArray[np.str_], Mapping[str, FloatArray]]:
        """Return the item of each unit, and what is shown beside its first message."""

    def asks_gender(self, body: BodyT, options: Options) -> bool:
        """Return whether a model is scored, which has to know she and he."""
        return isinstance(self.way, Scored)

    def summarise(self, body: BodyT, options: Options, answers: Answers, seed: int) -> Summary:
        """Compare the answers, and say whether a chat can do the task."""
        reading = self.way.read(answers["cases"])
        reason, picked = self._reason(reading, options), reading.picked
        task = {} if picked is None else {**picked.items(self.each), "undefined": np.asarray([reason])}
        figures = self.compare(body, options, reading, task)
        figures.notes = [*reading.notes, *figures.notes]
        if picked is None:
            return figures
        figures.take_sums(options, figures.items, *_OF_CHATS)
        if reason:
            figures.miss(reason, *(name for name in self.statistics if name not in ("accuracy", *_OF_CHATS)))
            figures.records = []
        figures.examples = asking.examples_of_messages(answers["cases"], *self.shown(reading, picked))
        return figures

    def null(self, body: BodyT, options: Options, answers: Answers, seed: int, repeats: int) -> NullFigures:
        """Return the figures after the genders of pronouns were exchanged, if the model can do the task."""
        reading = self.way.read(answers["cases"])
        if reason := self._reason(reading, options):
            raise UndefinedError(reason)
        return self.shuffled(body, options, reading, seed, repeats)

    def _reason(self, reading: Reading, options: Options) -> str:
        return "" if reading.picked is None else self.why_unable(reading, reading.picked, options["floor"])


def pronoun_question(text: str, pronoun: Span, persons: tuple[Span, Span]) -> tuple[str, tuple[str, ...]]:
    """Return the question whom the pronoun means, and its options.

    >>> question, options = pronoun_question("The cook met a nurse when she left.", (26, 29), ((0, 8), (13, 20)))
    >>> print(question)
    The cook met a nurse when she left.
    <BLANKLINE>
    Who does "she" refer to in this sentence?
    >>> options
    ('the cook', 'a nurse', 'neither of them')
    """
    options = (*(_inside(words_of(text, person)) for person in persons), NEITHER)
    return f'{text}\n\nWho does "{words_of(text, pronoun).lower()}" refer to in this sentence?', options


def _inside(mention: str) -> str:
    """Return a mention as it is written inside a sentence: names of persons begin with a small letter, abbreviations do
    not.
    """
    return mention if mention[1:2].isupper() else mention[:1].lower() + mention[1:]
