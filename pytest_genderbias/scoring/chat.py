"""Answers to a message: their log-probabilities as the first words of what a chat model replies; and replies in text,
asked of the model and read as the options that they pick, whole or by their first token.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import ModelError, NotApplicableError
from pytest_genderbias.models.behaviour import ANY_ROWS, moved
from pytest_genderbias.models.chat_template import DETAIL, NO_TEMPLATE, ChatPrompts
from pytest_genderbias.models.model import Checkpoint, Model, Tokenized
from pytest_genderbias.models.plain_tensors import is_quantised
from pytest_genderbias.models.replies import Asked, Tokens
from pytest_genderbias.scoring.network import (
    Batches,
    check_embedded,
    check_known,
    is_out_of_memory,
    keeping,
    slot_tokens,
)
from pytest_genderbias.scoring.scorer import CountNote, PlainScorer
from pytest_genderbias.scoring.token_sums import NetworkSums, token_sums
from pytest_genderbias.scoring.tokens import IdArray, RowEncoder, pack_rows, padded, tokenized
from pytest_genderbias.suites.cases import Cases, IntArray
from pytest_genderbias.suites.query import ChatAnswers, Replies
from pytest_genderbias.text.printable import brief
from pytest_genderbias.text.reply_reading import ReplyReader, is_refusal, refusals

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

#: How far logits after a reused beginning may lie from those of whole rows, relative to the largest: rounding.
_NEAR = 1e-4


class ChatScorer:
    """Scores answers with a checkpoint or a served model, by the chain rule over their tokens after the end of the chat
    template.

    Answers of one token need one forward pass a message, since the rows of all of them are equal before the answer.
    What the messages of a unit begin with, as those with the options of a question in other orders, is passed once on a
    CPU.

    Raises:
        NotApplicableError: the model has no chat template.
    """

    def __init__(self, cases: Cases, query: ChatAnswers, model: Model, batch_tokens: int | None) -> None:
        if DETAIL not in model.details:
            raise NotApplicableError(NO_TEMPLATE.format(model.name) + query.otherwise)
        backend: Tokenized = model.backend
        self._cases, self._name, self._longest = cases, model.name, backend.max_length
        self._prompts, self._encoder = ChatPrompts(backend.tokenizer, model.name), RowEncoder(backend.tokenizer)
        self._answers = [self._prompts.space_before(answer) + answer for answer in query.answers]
        self._sums = token_sums(model, batch_tokens)
        self._beginnings = (
            CommonBeginnings(model.backend, self._sums.network.batches) if isinstance(self._sums, NetworkSums) else None
        )

    @property
    def notes(self) -> list[str]:
        """Remarks on slower computations and batches that were halved."""
        return self._sums.notes

    def score(self, cases: IntArray) -> NDArray[np.float64]:
        """Return the log-probability of each answer, in nats: shape (len(cases), number of answers)."""
        prompts = self._prompts.prompts([message for (message,) in self._cases.sentences(cases)])
        pairs = [answer_ids(self._encoder.tokenizer, prompt, self._answers, self._name) for prompt in prompts]
        rows = [np.concatenate([prompt, answer]) for prompt, answers in pairs for answer in answers]
        tokens = max(map(len, rows), default=0)
        if self._longest is not None and tokens > self._longest:
            raise ModelError(
                f"a question in the chat template of {self._name} has {tokens} tokens with its answer, the model reads"
                f" {self._longest}; measure a suite with shorter texts"
            )
        scores, each = None, self._cases.cases_per_unit
        units = cases.reshape(-1, each) // each if len(cases) % each == 0 else np.arange(2)[None]
        if self._beginnings is not None and each > 1 and (units == units[:, :1]).all():
            scores = self._beginnings.of_answers(pairs, each)
        if scores is None:
            spans = [(len(prompt), len(answer)) for prompt, answers in pairs for answer in answers]
            packed = pack_rows(rows, self._encoder, np.asarray(spans, dtype=np.int64))
            scores = self._sums.sums(packed, *slot_tokens(packed)).reshape(len(cases), -1)
        return scores


def answer_ids(
    tokenizer: PreTrainedTokenizerBase, prompt: str, answers: list[str], name: str
) -> tuple[IdArray, list[IdArray]]:
    """Return the token ids of a prompt, and of each answer right after it.

    An answer's tokens are what the tokens of prompt and answer together have after those of the prompt. Where the two
    would merge into one token, which a model that is given the prompt cannot write, the answer is tokenised by itself.

    Raises:
        ModelError: the tokens of an answer by itself say something else after the prompt.
    """
    texts = [prompt, *(prompt + answer for answer in answers)]
    first, *rows = tokenized(tokenizer, texts, add_special_tokens=False, truncation=False)["input_ids"]
    found = [
        (
            row[len(first) :]
            if row[: len(first)] == first and len(row) > len(first)
            else _alone(tokenizer, first, answer, name)
        )
        for row, answer in zip(rows, answers, strict=True)
    ]
    return np.asarray(first, dtype=np.int32), [np.asarray(ids, dtype=np.int32) for ids in found]


def _alone(tokenizer: PreTrainedTokenizerBase, prompt: list[int], answer: str, name: str) -> list[int]:
    def text(ids: list[int]) -> str:
        return str(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    ids: list[int] = tokenized(tokenizer, answer, add_special_tokens=False, truncation=False)["input_ids"]
    if not ids or text(prompt + ids) != text(prompt) + answer:
        raise ModelError(
            f"the tokenizer of {name} has no tokens for the answer {brief(answer)} after its chat template: they would"
            f" read {brief(text(prompt + ids)[-40:])}; nothing is measured with it"
        )
    return ids


class CommonBeginnings:
    """Passes the common beginning of each group of rows once, and the rest of the rows with its keys and values.

    It is for networks on a CPU, where a group is a batch of its own size; large batches of whole rows suit a GPU
    better. The first group with a common beginning, and each with one of twice the length, is also passed as whole
    rows, and a network that then gives other logits is not used so: ``usable`` is false.

    Args:
        checkpoint: a causal LM.
        batches: runs the steps, with the packed weights of the network.
    """

    def __init__(self, checkpoint: Checkpoint, batches: Batches) -> None:
        from transformers import PreTrainedModel

        self._network, self._device, self._batches = checkpoint.network, checkpoint.device, batches
        plain = isinstance(self._network, PreTrainedModel) and checkpoint.runtime is None
        self.usable = (
            plain
            and str(self._device).startswith("cpu")
            and not is_quantised(self._network)
            and checkpoint.batches == ANY_ROWS
        )
        self._compared = 0

    def of_answers(self, pairs: list[tuple[IdArray, list[IdArray]]], each: int) -> NDArray[np.float64] | None:
        """Return the log-probabilities of answers of one token, the same after all prompts: shape (prompts, answers);
        ``None`` for others, and where a beginning cannot be reused. ``each``: prompts in a group.
        """
        import torch

        targets = [answer.tolist() for answer in pairs[0][1]]
        alike = all([answer.tolist() for answer in answers] == targets for _, answers in pairs)
        if not self.usable or not alike or any(len(target) > 1 for target in targets):
            return None
        prompts = [prompt for prompt, _ in pairs]
        groups, ids = [prompts[at : at + each] for at in range(0, len(prompts), each)], np.ravel(targets)
        check_embedded(self._network, np.concatenate(prompts))
        found = np.zeros((len(groups), each, len(ids)))
        wanted = torch.as_tensor(ids, dtype=torch.long, device=self._device)

        def step(numbers: NDArray[np.int64]) -> None:
            for number in numbers.tolist():
                shared = beginning_of(groups[number])
                if self.usable and shared > 2 * self._compared:
                    self._compare(groups[number], shared)
                if not self.usable:
                    return
                scores = self._logits(groups[number], shared).float()
                check_known(ids, int(scores.shape[-1]))
                chosen = scores[:, wanted].double() - torch.logsumexp(scores, -1).double()[:, None]
                found[number] = chosen.cpu().numpy()

        tokens = np.asarray([sum(map(len, rows)) for rows in groups], dtype=np.int64)
        self._batches.run(tokens, step, most_rows=1)
        return found.reshape(len(pairs), -1) if self.usable else None

    def _compare(self, rows: Sequence[IdArray], shared: int) -> None:
        """Pass a group both ways, and give up on the reuse of beginnings where the logits differ."""
        whole = self._logits(rows, 0)
        try:
            reused = self._logits(rows, shared)
            self.usable = not moved(whole, reused, _NEAR)
        except (RuntimeError, ValueError, TypeError, AttributeError, IndexError, NotImplementedError) as error:
            if isinstance(error, RuntimeError) and is_out_of_memory(error):
                raise
            self.usable = False
        self._compared = shared

    def _logits(self, rows: Sequence[IdArray], shared: int) -> Tensor:
        """Return the logits after the last token of each row, shape (rows, vocabulary); the first ``shared`` tokens are
        passed once.
        """
        import torch

        past = {}
        if shared:
            once = torch.as_tensor(rows[0][None, :shared], dtype=torch.long, device=self._device)
            cache = self._network.base_model(input_ids=once, use_cache=True).past_key_values
            cache.batch_repeat_interleave(len(rows))
            past = {"past_key_values": cache, "use_cache": True}
        rest, lengths = padded([row[shared:] for row in rows])
        # What stands after the end of a row, no token before it sees.
        ids = torch.as_tensor(rest, dtype=torch.long, device=self._device)
        last = torch.as_tensor(lengths, device=self._device) - 1
        if not shared:
            logits: Tensor = self._network(input_ids=ids).logits
            return logits[torch.arange(len(rows), device=self._device), last]
        with keeping(self._network.base_model, last[:, None]):
            short: Tensor = self._network(input_ids=ids, **past).logits
        return short[:, 0]


def beginning_of(rows: Sequence[IdArray]) -> int:
    """Return the number of tokens that all rows begin with; at least one token of each row is left.

    >>> beginning_of([np.array([1, 2, 3]), np.array([1, 2, 4, 5])]), beginning_of([np.array([1]), np.array([1])])
    (2, 0)
    """
    shortest = min(map(len, rows)) - 1
    same = np.ones(shortest, dtype=np.bool_)
    for row in rows[1:]:
        same &= rows[0][:shortest] == row[:shortest]
    return shortest if same.all() else int(np.argmin(same))


def option_texts(message: str, labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return the texts of the options that a message names by its labels, one a line; empty where it names none.

    >>> option_texts("Who ran?\\nA: Ann\\nB: Bob\\n\\nReply with A or B only.", ("A", "B"))
    ('Ann', 'Bob')
    """
    found = re.findall("\n" + "\n".join(f"{re.escape(label)}: (.+)" for label in labels) + "\n", f"\n{message}\n")
    return tuple(found[-1]) if found else ()


def replies_to(
    numbers: IntArray, cases: Cases, query: Replies, model: Model, cache: Path | None
) -> list[tuple[str, ...]]:
    """Return the replies to the cases with these numbers; ``cache``: the folder that keeps replies, or ``None``."""
    messages = [message for (message,) in cases.sentences(numbers)]
    ids = [query.id_of(case) for case in numbers.tolist()]
    asked = Asked(query.name, query.digest, cases.n_cases, ids, messages, query.samples, query.seed, cache)
    return list(model.backend.replies(asked))


def reply_counts(
    cases: Cases, query: Replies, model: Model, batch_tokens: int | None, cache: Path | None = None
) -> PlainScorer:
    """Ask for the replies to the cases, and count what they say."""
    model.backend.check(query.name)
    openings = refusals(query.language, query.own_refusals)
    reader = ReplyReader(query.labels, openings, query.language)

    def scores(numbers: IntArray) -> NDArray[np.int32]:
        counts = np.zeros((len(numbers), query.width), dtype=np.int32)
        messages = [message for (message,) in cases.sentences(numbers)]
        for row, message, replies in zip(
            counts, messages, replies_to(numbers, cases, query, model, cache), strict=True
        ):
            if not query.labels:
                row[:] = sum(is_refusal(reply, openings) for reply in replies), sum(map(len, replies))
                continue
            options = option_texts(message, query.labels)
            for reply in replies:
                row[reader.read(reply, options)] += 1
        return counts

    return PlainScorer(scores)


def first_tokens(
    cases: Cases, query: ChatAnswers, model: Model, batch_tokens: int | None, cache: Path | None = None
) -> PlainScorer:
    """Add the probabilities of the first tokens by which a reply picks an option, of those that the system lists. The
    scores are the log-probability of each option, in nats.

    What is not listed is less likely than the last one that is. An option without a listed token counts with the
    probability of that one, so that it has a logarithm.
    """
    reader, unlisted = ReplyReader(query.answers, ()), list[float]()

    def of_options(tokens: Tokens) -> list[float]:
        by_option: list[list[float]] = [[] for _ in (*reader.labels, "no option")]
        for token, value in tokens:
            by_option[reader.begins(token)].append(value)
        rest = max(0.0, 1 - math.fsum(math.exp(value) for _, value in tokens))
        unlisted.extend(rest for values in by_option[:-1] if not values)
        last = min(value for _, value in tokens)
        return [float(np.logaddexp.reduce(values)) if values else last for values in by_option[:-1]]

    def scores(numbers: IntArray) -> NDArray[np.float64]:
        listed: list[Tokens] = model.backend.first_tokens([text for (text,) in cases.sentences(numbers)], cache)
        return np.asarray([of_options(tokens) for tokens in listed])

    def remarks() -> list[str]:
        if not unlisted:
            return []
        note = f"{{}} times an option was no listed first token: at most {max(unlisted):.2g} of the probability"
        return [CountNote(len(unlisted), note)]

    return PlainScorer(scores, remarks)
