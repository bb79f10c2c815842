"""Log-probabilities of tokens in their sentences: by the chain rule, or with each token masked in turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.scoring.network import Network, check_scored
from pytest_genderbias.scoring.reads import Inputs, TokenReads, causal_reads, masked_reads
from pytest_genderbias.scoring.tokens import TokenRows

if TYPE_CHECKING:
    from torch import Tensor

#: Maximum number of token ids in the rows that are built at a time (64 MiB). A masked sentence has one row for each
#: token that is read.
_MOST_IDS = 1 << 24


def sum_log_probabilities(
    network: Network, rows: TokenRows, case: NDArray[np.int64], position: NDArray[np.int64], mask_id: int | None
) -> NDArray[np.float64]:
    """Return the sum of log-probabilities over some tokens of each row, in nats: shape (len(rows.lengths),).

    Args:
        network: a network with a vocabulary head.
        rows: the token ids of the sentences.
        case: row of each token to read, shape (reads,).
        position: position of each token in its row, shape (reads,).
        mask_id: token that masks each token in turn, with all others in place; ``None``: use the chain rule.
    """
    total = np.zeros(len(rows.lengths), dtype=np.float64)
    number = np.full(len(rows.lengths), -1, dtype=np.int64)
    reads_of = np.bincount(case, minlength=len(total))
    for window in _windows(rows.lengths, np.ones_like(reads_of) if mask_id is None else reads_of, _MOST_IDS):
        number[:] = -1
        number[window] = np.arange(len(window))
        here = number[case] >= 0
        if not here.any():
            continue
        part, where = _rows_at(rows, window), (number[case[here]], position[here])
        inputs, reads = causal_reads(part, *where) if mask_id is None else masked_reads(part, *where, mask_id)
        value = _log_probabilities(network, inputs, reads)
        total[window] = np.bincount(reads.case, weights=value, minlength=len(window))
    return total


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


def _rows_at(rows: TokenRows, numbers: NDArray[np.int64]) -> TokenRows:
    longest = int(rows.lengths[numbers].max())
    types = None if rows.types is None else rows.types[numbers, :longest]
    return TokenRows(
        rows.ids[numbers, :longest], types, rows.lengths[numbers], rows.span_start[numbers], rows.span_length[numbers]
    )


def _log_probabilities(network: Network, inputs: Inputs, reads: TokenReads) -> NDArray[np.float64]:
    """Return the log-probability of each token that is read."""
    import torch

    by_row = np.argsort(inputs.back, kind="stable")
    ordered = inputs.back[by_row]
    value = np.zeros(len(reads.case), dtype=np.float64)

    def use(rows: NDArray[np.int64], logits: Tensor) -> None:
        low, high = np.searchsorted(ordered, rows, side="left"), np.searchsorted(ordered, rows, side="right")
        local = np.repeat(np.arange(len(rows)), high - low)
        wanted = np.concatenate([by_row[a:b] for a, b in zip(low, high, strict=True)])
        check_scored(reads.target[wanted], logits)
        position = reads.position[wanted] - inputs.first[rows][local]
        at = [torch.as_tensor(a, device=logits.device) for a in (local, position, reads.target[wanted])]
        # One normaliser for each position, then single logits: no table of log-probabilities is built.
        scores = logits.float()
        log_probs = scores[at[0], at[1], at[2]].double() - torch.logsumexp(scores, -1).double()[at[0], at[1]]
        value[wanted] = log_probs.cpu().numpy()

    network.run(inputs, use)
    return value
