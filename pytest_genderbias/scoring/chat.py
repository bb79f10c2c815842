"""Log-probabilities of answers to a message, as the first words of what a chat model replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import ModelError, NotApplicableError
from pytest_genderbias.models.behaviour import ANY_ROWS, moved
from pytest_genderbias.models.chat_template import DETAIL, NO_TEMPLATE, ChatPrompts
from pytest_genderbias.models.model import Checkpoint, Model, Tokenized
from pytest_genderbias.models.plain_tensors import is_quantised
from pytest_genderbias.scoring.network import (
    Batches,
    check_embedded,
    check_known,
    is_out_of_memory,
    keeping,
    slot_tokens,
)
from pytest_genderbias.scoring.token_sums import NetworkSums, token_sums
from pytest_genderbias.scoring.tokens import IdArray, RowEncoder, pack_rows, tokenized
from pytest_genderbias.suites.cases import Cases, IntArray
from pytest_genderbias.suites.query import ChatAnswers
from pytest_genderbias.text.printable import brief

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
        targets = [answer.tolist() for answer in pairs[0][1]]
        alike = all([answer.tolist() for answer in answers] == targets for _, answers in pairs)
        if not self.usable or not alike or any(len(target) > 1 for target in targets):
            return None
        prompts = [prompt for prompt, _ in pairs]
        groups = [prompts[at : at + each] for at in range(0, len(prompts), each)]
        found = self.log_probabilities(groups, np.asarray(targets, dtype=np.int32)[:, 0])
        return None if found is None else found.reshape(len(pairs), -1)

    def log_probabilities(self, groups: Sequence[Sequence[IdArray]], targets: IdArray) -> NDArray[np.float64] | None:
        """Return the log-probability of each target as the token after each row, in nats: shape (groups, rows,
        targets).

        Args:
            groups: token ids of the rows of each group; all groups have the same number of rows.
            targets: ids of the tokens, shape (targets,).

        Returns:
            ``None`` where the network cannot reuse a beginning.
        """
        import torch

        for rows in groups:
            check_embedded(self._network, np.concatenate(rows))
        found = np.zeros((len(groups), len(groups[0]), len(targets)))
        wanted = torch.as_tensor(targets, dtype=torch.long, device=self._device)

        def step(numbers: NDArray[np.int64]) -> None:
            for number in numbers.tolist():
                shared = beginning_of(groups[number])
                if self.usable and shared > 2 * self._compared:
                    self._compare(groups[number], shared)
                if not self.usable:
                    return
                scores = self._logits(groups[number], shared).float()
                check_known(targets, int(scores.shape[-1]))
                chosen = scores[:, wanted].double() - torch.logsumexp(scores, -1).double()[:, None]
                found[number] = chosen.cpu().numpy()

        tokens = np.asarray([sum(map(len, rows)) for rows in groups], dtype=np.int64)
        self._batches.run(tokens, step, most_rows=1)
        return found if self.usable else None

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
        lengths = [len(row) - shared for row in rows]
        rest = np.zeros((len(rows), max(lengths)), dtype=np.int64)
        for i, row in enumerate(rows):
            rest[i, : lengths[i]] = row[shared:]
        ids = torch.as_tensor(rest, device=self._device)  # what stands after the end of a row, no token before it sees
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
