"""Sums of log-probabilities of tokens of rows, by whatever runs the model: a network in this process, or a server or an
engine with a process of its own, which is asked for the log-probabilities of prompts.

Scorers that need no more of a model than this ask :func:`token_sums` for it, and do not know where the model runs.
Prompts are token ids, so that nothing hangs on how a server would cut a text into tokens. ``served_proof.py`` tests
whatever has the protocol :class:`PromptLogProbabilities` before its first figure is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.roles import MASKED_LM
from pytest_genderbias.scoring.network import Inputs, Network, causal_reads, check_known, check_not_first, masked_reads
from pytest_genderbias.scoring.tokens import TokenRows

if TYPE_CHECKING:
    from torch import Tensor

Prompt = Sequence[int]  #: token ids


@dataclass(frozen=True, eq=False)
class PromptAnswer:
    """Log-probabilities of the tokens of one prompt.

    Attributes:
        log_probabilities: ln P(token | those before it), in nats, shape (number of values that came,), NaN where there
            is none, as for the first token. As many as the prompt has tokens, if all is well.
        token_ids: the ids that the values are said to belong to; ``None`` if they were not said.
        top: for each value, the log-probabilities of the most likely tokens in its place, by their ids; empty where
            none were asked for.
        tokens_read: number of tokens that the source says it read; ``None`` if it does not say so for this prompt.
    """

    log_probabilities: NDArray[np.float64]
    token_ids: list[int] | None = None
    top: list[dict[int, float]] = field(default_factory=list)
    tokens_read: int | None = None


class PromptLogProbabilities(Protocol):
    """A causal LM that is asked for the log-probabilities of prompts.

    Attributes:
        where: what is asked, in words, as ``the server at http://127.0.0.1:8000/v1``. It holds no secret.
        max_length: most tokens in a prompt, or ``None`` if that is unknown.
        facts: name and version of what runs the model, for the details of the model; the same values in every run with
            the same software.
    """

    @property
    def where(self) -> str:
        """The question in words."""

    @property
    def max_length(self) -> int | None:
        """Most tokens in a prompt, or ``None``."""

    @property
    def facts(self) -> Mapping[str, str]:
        """Name and version of what runs the model."""

    def ask(self, prompts: Sequence[Prompt], most_likely: int = 0, temperature: float = 0.0) -> list[PromptAnswer]:
        """Return an answer for each prompt, in their order.

        Args:
            prompts: token ids, each with at least one token.
            most_likely: how many of the most likely tokens are listed in each place, at most 5.
            temperature: of tokens that might be generated; the values should not depend on it.
        """

    def generate(self, prompts: Sequence[Prompt], tokens: int, temperature: float, seed: int | None) -> list[list[int]]:
        """Return the ids of up to ``tokens`` generated tokens for each prompt, drawn from the whole distribution (0:
        the most likely ones).
        """

    def own_token_ids(self, text: str) -> list[int] | None:
        """Return the ids into which the source itself cuts a text; ``None`` if it does not say."""


def token_sums(model: Model, batch_tokens: int | None) -> NetworkSums | ServedSums:
    """Return what sums log-probabilities for a model: each token masked in turn (masked LM), or by the chain rule
    (causal LM).
    """
    if model.role.only_prompts:
        return ServedSums(model.backend.rows(model.name).ask)
    checkpoint: Checkpoint = model.backend
    mask_id = checkpoint.tokenizer.mask_token_id if model.role.kind == MASKED_LM else None
    return NetworkSums(Network(checkpoint, batch_tokens, vocabulary_head=True), mask_id)


class NetworkSums:
    """Sums of a network in this process. ``mask_id``: token that masks each token in turn; ``None``: the chain rule."""

    def __init__(self, network: Network, mask_id: int | None) -> None:
        self.network, self._mask_id = network, mask_id

    @property
    def notes(self) -> list[str]:
        """Remarks on slower computations, and on batches that were halved."""
        return self.network.notes

    def sums(self, rows: TokenRows, case: NDArray[np.int64], position: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the sum of log-probabilities over some tokens of each row, in nats: shape (len(rows.lengths),).

        Args:
            rows: the token ids of the sentences.
            case: row of each token, shape (reads,).
            position: position of each token in its row, shape (reads,).
        """
        total, mask = np.zeros(len(rows.lengths), dtype=np.float64), self._mask_id
        number = np.full(len(rows.lengths), -1, dtype=np.int64)
        reads_of = np.bincount(case, minlength=len(total))
        for window in _windows(rows.lengths, np.ones_like(reads_of) if mask is None else reads_of, _MOST_IDS):
            number[:] = -1
            number[window] = np.arange(len(window))
            here = number[case] >= 0
            if not here.any():
                continue
            longest = int(rows.lengths[window].max())
            types = None if rows.types is None else rows.types[window, :longest]
            spans = rows.span_start[window], rows.span_length[window]
            part = TokenRows(rows.ids[window, :longest], types, rows.lengths[window], *spans)
            where = number[case[here]], position[here]
            inputs, *reads = causal_reads(part, *where) if mask is None else masked_reads(part, *where, mask)
            value = np.zeros(len(inputs.back), dtype=np.float64)
            self.network.run(inputs, _filling(value, inputs, *reads))
            total[window] = np.bincount(where[0], weights=value, minlength=len(window))
        return total


class ServedSums:
    """Sums of a causal LM that another process runs. A row is asked up to its last token that counts, and only once; so
    is what begins another row.

    ``ask``: returns an answer for each prompt, in their order, with the values of its tokens.
    """

    notes: list[str]

    def __init__(self, ask: Callable[[Sequence[Prompt]], list[PromptAnswer]]) -> None:
        self._ask = ask
        self.notes = []

    def sums(self, rows: TokenRows, case: NDArray[np.int64], position: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the same sums as :meth:`NetworkSums.sums`."""
        check_not_first(position)
        stop = np.zeros(len(rows.lengths), dtype=np.int64)
        np.maximum.at(stop, case, position + 1)
        used = np.flatnonzero(stop)
        prompts, place = distinct_prompts([tuple(rows.ids[i, : stop[i]].tolist()) for i in used])
        answers = self._ask(prompts)
        prompt_of = np.zeros(len(stop), dtype=np.int64)
        prompt_of[used] = place
        start = np.cumsum([0, *(len(prompt) for prompt in prompts)])[:-1]
        values = np.concatenate([np.zeros(0), *(answer.log_probabilities for answer in answers)])
        weights = values[start[prompt_of[case]] + position] if len(case) else np.zeros(0)
        return np.bincount(case, weights=weights, minlength=len(stop)).astype(np.float64)


def distinct_prompts(prompts: Sequence[tuple[int, ...]]) -> tuple[list[tuple[int, ...]], NDArray[np.int64]]:
    """Return the distinct prompts that begin no other one, and which of them begins with each prompt.

    The values of a prompt are those of the beginning of any longer one. In the order of their tokens, a prompt stands
    right before those that it begins.

    Args:
        prompts: token ids.

    Returns:
        The prompts to ask, ordered by their tokens, and their numbers, shape (len(prompts),).

    Example:
        >>> to_ask, place = distinct_prompts([(1, 2), (1, 2, 3), (4,), (1, 2)])
        >>> to_ask, place.tolist()
        ([(1, 2, 3), (4,)], [0, 0, 1, 0])
    """
    ordered = sorted(set(prompts))
    begins_next = [b[: len(a)] == a for a, b in pairwise(ordered)] + [False] * bool(ordered)
    to_ask = [prompt for prompt, begins in zip(ordered, begins_next, strict=True) if not begins]
    number = dict(zip(ordered, np.cumsum([0, *(not begins for begins in begins_next)]).tolist(), strict=False))
    return to_ask, np.asarray([number[prompt] for prompt in prompts], dtype=np.int64)


#: Maximum number of token ids in the rows that are built at a time (64 MiB). A masked sentence has one row for each
#: token that is read.
_MOST_IDS = 1 << 24


def _windows(lengths: NDArray[np.int64], copies: NDArray[np.int64], most_ids: int) -> Iterator[NDArray[np.int64]]:
    """Yield groups of row numbers, longest rows first.

    The copies of a group hold at most ``most_ids`` ids, including padding; a group has at least one row.
    """
    order = np.argsort(-lengths, kind="stable")
    until = np.cumsum(copies[order])
    start = 0
    while start < len(order):
        before = int(until[start - 1]) if start else 0
        most = before + most_ids // max(1, int(lengths[order[start]]))
        stop = max(start + 1, int(np.searchsorted(until, most, side="right")))
        yield order[start:stop]
        start = stop


def _filling(
    value: NDArray[np.float64], inputs: Inputs, position: NDArray[np.int64], target: NDArray[np.int64]
) -> Callable[[NDArray[np.int64], Tensor], None]:
    """Return what fills in the log-probability of each token that is read, from the logits of a batch.

    Args:
        value: the log-probabilities, shape (reads,).
        inputs: the rows that are passed.
        position: position of each token in its row (``inputs.back``).
        target: its id.
    """
    import torch

    by_row = np.argsort(inputs.back, kind="stable")
    ordered = inputs.back[by_row]

    def use(rows: NDArray[np.int64], logits: Tensor) -> None:
        low, high = np.searchsorted(ordered, rows, side="left"), np.searchsorted(ordered, rows, side="right")
        local = np.repeat(np.arange(len(rows)), high - low)
        wanted = np.concatenate([by_row[a:b] for a, b in zip(low, high, strict=True)])
        check_known(target[wanted], int(logits.shape[-1]))
        place = position[wanted] - inputs.first[rows][local]
        at = [torch.as_tensor(a, device=logits.device) for a in (local, place, target[wanted])]
        # One normaliser for each position, then single logits: no table of log-probabilities is built.
        scores = logits.float()
        log_probs = scores[at[0], at[1], at[2]].double() - torch.logsumexp(scores, -1).double()[at[0], at[1]]
        value[wanted] = log_probs.cpu().numpy()

    return use
