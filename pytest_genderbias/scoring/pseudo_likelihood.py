"""Log-probabilities of words in their sentences, of the words in a slot, of answers to a question in words, of long
texts in blocks, and of candidates in the place of a pronoun. The masked copies of all sentences share batches.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.mentions import Span, words_of
from pytest_genderbias.errors import ModelError, NotApplicableError
from pytest_genderbias.models.model import Checkpoint, Model, Tokenized
from pytest_genderbias.models.roles import MASKED_LM
from pytest_genderbias.scoring.network import Network, slot_tokens
from pytest_genderbias.scoring.scorer import PlainScorer, check_finite
from pytest_genderbias.scoring.token_sums import NetworkSums, token_sums
from pytest_genderbias.scoring.tokens import (
    CuttingTokenizer,
    RowEncoder,
    TokenLayout,
    check_lengths,
    first_token,
    pack_rows,
    require_fast,
    tokenized,
)
from pytest_genderbias.suites.cases import Cases, IntArray, Spans, TextCases
from pytest_genderbias.suites.query import (
    BlockLogLikelihood,
    CoreferenceScores,
    PseudoLogLikelihood,
    SharedLogLikelihood,
    SlotLogProbability,
    VerbalisedProbabilities,
)
from pytest_genderbias.suites.space import CaseSpace
from pytest_genderbias.text.printable import brief

if TYPE_CHECKING:
    from tokenizers import Encoding

_LONGEST = 1024  #: tokens of a block for models without a limit
_WITHOUT_ENDS = (
    "perplexity: without the <eos> after each sentence, which word-level LSTMs are trained on; the recipe's perplexity"
    " includes it"
)
#: First words that are capitalised only at the beginning of a sentence.
_SMALL = re.compile(r"(?:the|an?|this|that|some\w*|my|our|your|his|her|its|their)\b", re.IGNORECASE)
#: Words after "her" that do not begin a noun phrase: "met her because", "told her that".
_AFTER_OBJECT = re.compile(
    r"\W*\Z|[^\w\s]|\s+(?:a|about|after|all|an|and|any|as|at|because|before|but|by|during|for|from|how|if|in|into|it|not|of|off|on|"
    r"or|out|over|so|some|something|than|that|the|through|to|up|was|were|what|when|where|whether|which|while|who|why|will|with|"
    r"without|would)\b",
    re.IGNORECASE,
)
_POSSESSIVES = ("his", "its", "their", "hers", "theirs")


def span_likelihood(cases: Cases, query: PseudoLogLikelihood, model: Model, batch_tokens: int | None) -> PlainScorer:
    """Score the spans of cases, or whole texts: the sum of log-probabilities of each case, in nats, and the number of
    tokens.
    """
    likelihood = SpanLikelihood(model, batch_tokens)
    spans = cases.spans if isinstance(cases, TextCases) else ()

    def scores(numbers: IntArray) -> NDArray[np.float64]:
        encodings = likelihood.tokenizer.encode([text for (text,) in cases.sentences(numbers)])
        return likelihood.score(encodings, positions_in(encodings, [spans[i] if spans else () for i in numbers]))

    return PlainScorer(scores, likelihood.notes)


def shared_likelihood(cases: Cases, query: SharedLogLikelihood, model: Model, batch_tokens: int | None) -> PlainScorer:
    """Score the tokens that the two texts of each unit share: the sum of their log-probabilities, in nats, and their
    number.
    """
    likelihood = SpanLikelihood(model, batch_tokens)

    def scores(numbers: IntArray) -> NDArray[np.float64]:
        if cases.cases_per_unit != 2:
            raise ValueError(f"tokens are shared by two texts, got units of {cases.cases_per_unit}")
        units, unit = np.unique(numbers // 2, return_inverse=True)
        encodings = likelihood.tokenizer.encode([text for (text,) in cases.sentences(cases.cases_of(units))])
        shared = [
            positions
            for first, second in zip(encodings[::2], encodings[1::2], strict=True)
            for positions in shared_positions(first.ids, second.ids)
        ]
        rows = 2 * unit + numbers % 2
        return likelihood.score([encodings[row] for row in rows], [shared[row] for row in rows])

    return PlainScorer(scores, likelihood.notes)


def shared_positions(first: Sequence[int], second: Sequence[int]) -> tuple[IntArray, IntArray]:
    """Return the positions of the tokens that two texts share, in order, in each of them: two arrays of one length.

    The longest run of equal ids is matched first, then those on both sides of it (Ratcliff and Obershelp), as in the
    code of Nangia et al. 2020. Theirs leaves out frequent tokens of texts of 200 tokens or more, a default of difflib;
    this one does not.

    Args:
        first: token ids of a text.
        second: token ids of the other text.

    Example:
        The run 3 4 5 is the longest one; 9 lies on one side of it in the first text, and on the other in the second.

        >>> first, second = shared_positions([1, 9, 3, 4, 5], [1, 3, 4, 5, 9])
        >>> first.tolist(), second.tolist()
        ([0, 2, 3, 4], [0, 1, 2, 3])
    """
    blocks = SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks()
    in_first, in_second = (
        [start + i for start, size in runs for i in range(size)]
        for runs in ([(block.a, block.size) for block in blocks], [(block.b, block.size) for block in blocks])
    )
    return np.asarray(in_first, dtype=np.int64), np.asarray(in_second, dtype=np.int64)


class SpanLikelihood:
    """Log-probabilities of the tokens in spans of texts: each token masked in turn (masked LM), or by the chain rule
    (causal LM).

    A token belongs to the span with its last character, since a token often begins with the space before a word.
    Special tokens are not scored, nor is the first token by causal LMs that put no token before it.

    Raises:
        NotApplicableError: the tokenizer is not a fast one.
    """

    def __init__(self, model: Model, batch_tokens: int | None) -> None:
        backend: Tokenized = model.backend
        require_fast(backend.tokenizer)
        self._encoder = RowEncoder(backend.tokenizer)
        #: Cuts texts to what the model reads.
        self.tokenizer = CuttingTokenizer(backend.tokenizer, backend.max_length)
        self._is_masked = model.role.kind == MASKED_LM
        self._sums = token_sums(model, batch_tokens)

    def notes(self) -> list[str | None]:
        """Return remarks on texts that were cut, slower computations, and batches that were halved."""
        return [self.tokenizer.note, *self._sums.notes]

    def score(self, encodings: Sequence[Encoding], positions: Sequence[IntArray]) -> NDArray[np.float64]:
        """Return the sum of log-probabilities of tokens, in nats, and the number of those scored: shape
        (len(encodings), 2).

        Args:
            encodings: the encoding of each text.
            positions: the positions of tokens in each text, ascending; those that cannot be scored are left out.
        """
        wanted = []
        for encoding, at in zip(encodings, positions, strict=True):
            scorable = np.asarray(encoding.special_tokens_mask) == 0
            if not self._is_masked:
                scorable[:1] = False  # nothing comes before it
            wanted.append(at[scorable[at]])
        counts = np.asarray([len(at) for at in wanted], dtype=np.int64)
        ids = [self._encoder.packed(encoding) for encoding in encodings]
        rows = pack_rows(ids, self._encoder)
        case = np.repeat(np.arange(len(ids)), counts)
        total = self._sums.sums(rows, case, np.concatenate(wanted))
        return np.stack([total, counts], axis=1)


def positions_in(encodings: Sequence[Encoding], spans: Sequence[Spans]) -> list[IntArray]:
    """Return the positions of the tokens in the character ranges [start, end) of each text; all positions where it has
    none.
    """
    found = []
    for encoding, ranges in zip(encodings, spans, strict=True):
        start, stop = np.asarray(encoding.offsets, dtype=np.int64).reshape(-1, 2).T
        last = np.where(stop > start, stop - 1, start)[:, None]
        low, high = np.asarray(ranges or [(0, np.iinfo(np.int64).max)], dtype=np.int64).T
        found.append(np.flatnonzero(((last >= low) & (last < high)).any(axis=1)))
    return found


def slot_likelihood(space: Cases, query: SlotLogProbability, model: Model, batch_tokens: int | None) -> PlainScorer:
    """Score the word in the slot of each case, with a checkpoint or a served model: its log-probability, in nats."""
    assert isinstance(space, CaseSpace), "only templates have slots"
    backend: Tokenized = model.backend
    layout = TokenLayout(space, RowEncoder(backend.tokenizer), query.slot)
    sums = token_sums(model, batch_tokens)

    def scores(numbers: IntArray) -> NDArray[np.float64]:
        rows = layout.rows(numbers)
        check_lengths(rows, backend.max_length)
        return sums.sums(rows, *slot_tokens(rows))[:, None]

    return PlainScorer(scores, lambda: [layout.note, *sums.notes])


def verbalised(cases: Cases, query: VerbalisedProbabilities, model: Model, batch_tokens: int | None) -> PlainScorer:
    """Compare the log-probabilities of the three answers to a question about each pair: the scores are the
    probabilities of entailment, neutral and contradiction.

    Answers of one token need one forward pass for each pair, since the rows of all three are equal before the answer.
    """
    likelihood = SpanLikelihood(model, batch_tokens)

    def scores(numbers: IntArray) -> NDArray[np.float32]:
        pairs = zip(*prompts_and_answers(query, cases.sentences(numbers)), strict=True)
        texts = [(prompt, f"{prompt} {answer}") for prompt, answer in pairs]
        encodings = likelihood.tokenizer.encode([text for _, text in texts])
        spans = [((len(prompt), len(text)),) for prompt, text in texts]
        logs = likelihood.score(encodings, positions_in(encodings, spans))[:, 0].reshape(len(numbers), -1)
        if likelihood.tokenizer.cut:
            raise ModelError(
                f"a question and its answer are longer than the {model.backend.max_length} tokens that"
                f" {model.name} reads; shorten the template of the verbaliser"
            )
        check_finite(np.asarray(np.isfinite(logs).all(axis=1)), cases, numbers, model.name)
        return shares(logs)

    return PlainScorer(scores, likelihood.notes)


def prompts_and_answers(query: VerbalisedProbabilities, pairs: list[tuple[str, ...]]) -> tuple[list[str], list[str]]:
    """Return the question about each pair, as often as there are answers, and the answers."""
    prompts = [query.prompt(premise, hypothesis) for premise, hypothesis in pairs for _ in query.answers]
    return prompts, list(query.answers) * len(pairs)


def shares(scores: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the probabilities of the answers to each question, divided by their sum, from log-probabilities."""
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True), dtype=np.float32)


def block_likelihood(cases: Cases, query: BlockLogLikelihood, model: Model, batch_tokens: int | None) -> PlainScorer:
    """Score each token of a text once, given the tokens before it in its block. Each block begins with the token that
    begins a text.

    The scores are the sum of log-probabilities of the tokens of each text, in nats, and their number.
    """
    checkpoint: Checkpoint = model.backend
    start = first_token(checkpoint.tokenizer, model.name)
    length = (checkpoint.max_length or _LONGEST) - 1
    encoder = RowEncoder(checkpoint.tokenizer)
    network = Network(checkpoint, batch_tokens, vocabulary_head=True)
    blocks_note = f"perplexity: in blocks of {length} tokens, which do not overlap"
    ends_note = _WITHOUT_ENDS if checkpoint.network.config.model_type == "word-lstm" else None

    def scores(numbers: IntArray) -> NDArray[np.float64]:
        texts = [text for (text,) in cases.sentences(numbers)]
        ids = tokenized(encoder.tokenizer, texts, add_special_tokens=False, truncation=False)["input_ids"]
        blocks = [
            (i, [start, *row[at : at + length]]) for i, row in enumerate(ids) for at in range(0, len(row), length)
        ]
        text_of = np.asarray([i for i, _ in blocks], dtype=np.int64)
        total, scored = block_sums(network, encoder, [block for _, block in blocks])
        return np.stack(
            [np.bincount(text_of, weights, len(texts)) for weights in (total, scored)], axis=1, dtype=np.float64
        )

    return PlainScorer(scores, lambda: [blocks_note, ends_note, *network.notes])


def block_sums(
    network: Network, encoder: RowEncoder, blocks: Sequence[Sequence[int] | NDArray[np.int64]]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the log-probability of each block after its first token, in nats, and the number of these tokens."""
    spans = np.asarray([(1, len(block) - 1) for block in blocks], dtype=np.int64)
    rows = pack_rows([np.asarray(block, dtype=np.int32) for block in blocks], encoder, spans)
    return NetworkSums(network, None).sums(rows, *slot_tokens(rows)), rows.span_length


def substituted(text: str, candidate: Span, pronoun: Span, genitive: bool | None = None) -> tuple[str, Span]:
    """Return two copies of the text, with the candidate in place of the pronoun in the second, and the candidate's span
    there.

    A possessive pronoun becomes the genitive of the candidate ("her shift": "the nurse's shift"). The candidate is
    capitalised as the pronoun's place requires.

    Args:
        text: the text.
        candidate: character range of the candidate.
        pronoun: character range of the pronoun.
        genitive: whether the pronoun is possessive; ``None``: see :func:`is_possessive`.

    >>> text, (start, end) = substituted("The nurse left because her shift was over.", (0, 9), (23, 26))
    >>> text[43:], text[start:end]
    ("The nurse left because the nurse's shift was over.", "the nurse's")
    """
    words = words_of(text, candidate)
    if text[pronoun[0]].isupper():
        words = words[0].upper() + words[1:]
    elif _SMALL.match(words):
        words = words[0].lower() + words[1:]
    if is_possessive(text, pronoun) if genitive is None else genitive:
        words += "'s"
    before = f"{text} {text[: pronoun[0]]}"
    return before + words + text[pronoun[1] :], (len(before), len(before) + len(words))


def is_possessive(text: str, pronoun: Span) -> bool:
    """Return whether a pronoun is possessive: his, their, hers, or "her" before a possible noun phrase.

    >>> is_possessive("The clerk met her because of her hat.", (14, 17)), is_possessive("He took her hat.", (8, 11))
    (False, True)
    """
    word = words_of(text, pronoun).lower()
    return word in _POSSESSIVES or (word == "her" and not _AFTER_OBJECT.match(text[pronoun[1] :]))


def substitution(cases: TextCases, query: CoreferenceScores, model: Model, batch_tokens: int | None) -> PlainScorer:
    """Score candidates with a checkpoint: the log-probability of each candidate, in nats, in the place of the pronoun
    in a second copy of the text.

    To score the nurse as the referent of "she" in "The nurse met the clerk because she was late.", the model reads

        The nurse met the clerk because she was late. The nurse met the clerk because the nurse was late.

    and the score is the log-probability of the words *the nurse* in the second copy. For a masked LM this is the sum
    over their tokens of the log-probability of each token, masked in turn, with all others in place; for a causal LM it
    is the chain rule over the tokens, given everything before them. If the candidate replaces the pronoun in the only
    copy (Trinh and Le 2018; Kocijan et al. 2019), the pronoun's gender is lost: the scores for "she" and "he" are
    equal. Here the first copy keeps the pronoun, as a premise does (WNLI, Wang et al. 2019), so the score is
    conditional on it.

    Two candidates of a text are compared by the probability of all their words, as when a causal LM chooses between
    them. Longer candidates have no advantage; in a candidate of several tokens, a masked LM sees the other tokens. The
    frequencies of "he" and "she" have no influence, since no pronoun is scored.

    Raises:
        NotApplicableError: two copies of a text are longer than the checkpoint reads, so that nothing of the candidate
            is left.
    """
    likelihood = SpanLikelihood(model, batch_tokens)

    def scores(numbers: IntArray) -> NDArray[np.float64]:
        copies = filled(cases, numbers)
        encodings = likelihood.tokenizer.encode([text for text, _ in copies])
        sums = likelihood.score(encodings, positions_in(encodings, [(span,) for _, span in copies]))
        if not sums[:, 1].all():
            text = copies[int(np.argmin(sums[:, 1]))][0]
            raise NotApplicableError(
                f"two copies of a text are longer than the {model.backend.max_length} tokens that"
                f" {model.name} reads ({brief(text, 120)}); --bias-option=scorer=edge-probe reads one copy"
            )
        return np.asarray(sums[:, 0].reshape(len(numbers), -1))

    return PlainScorer(scores, likelihood.notes)


def filled(cases: TextCases, numbers: IntArray) -> list[tuple[str, Span]]:
    """Return the two copies of the text for each candidate of each case. The fact ``genitive`` is 1, 0, or -1 for
    unknown.
    """
    known = np.asarray(cases.facts["genitive"]) if "genitive" in cases.facts else np.full(cases.n_cases, -1)
    return [
        substituted(cases.texts[i][0], candidate, cases.spans[i][-1], genitive=None if known[i] < 0 else bool(known[i]))
        for i in numbers
        for candidate in cases.spans[i][:-1]
    ]
