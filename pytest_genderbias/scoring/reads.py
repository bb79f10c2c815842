"""The rows that are passed through a network, and the positions at which its logits are read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import ModelError
from pytest_genderbias.scoring.tokens import IdArray, TokenRows

if TYPE_CHECKING:
    from torch import Tensor

#: Maximum number of logits in a batch: 256 MiB of float32.
MOST_LOGITS = 1 << 26


@dataclass(frozen=True)
class Inputs:
    """Distinct rows for the network. Logits are read at positions ``first`` to ``first + count - 1`` of each row.

    ``back``: row of each case or read, shape (cases,) or (reads,).
    """

    ids: IdArray
    types: IdArray | None
    lengths: NDArray[np.int64]
    first: NDArray[np.int64]
    count: NDArray[np.int64]
    back: NDArray[np.int64]


@dataclass(frozen=True)
class TokenReads:
    """Single log-probabilities that are summed by ``case``: of token ``target`` at ``position`` of its row
    (``Inputs.back``).
    """

    case: NDArray[np.int64]
    position: NDArray[np.int64]
    target: NDArray[np.int64]


def whole_rows(rows: TokenRows, mask_id: int | None = None) -> Inputs:
    """Return inputs in which one position of each distinct row is read: the mask, or, for classifiers, the first."""
    if mask_id is None:
        first = np.zeros(len(rows.lengths), dtype=np.int64)
    else:
        at_mask = rows.ids == mask_id
        if not (at_mask.sum(axis=1) == 1).all():
            raise ValueError("a sentence should have exactly one mask token")
        first = at_mask.argmax(axis=1)
    return _distinct(rows.ids, rows.types, rows.lengths, first, np.ones_like(first))


def slot_tokens(rows: TokenRows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the case and the position of every token in the scored words."""
    case = np.repeat(np.arange(len(rows.span_length)), rows.span_length)
    token = np.arange(len(case)) - np.repeat(np.cumsum(rows.span_length) - rows.span_length, rows.span_length)
    return case, rows.span_start[case] + token


def check_not_first(position: NDArray[np.int64]) -> None:
    """Refuse to score the first token of a row by the chain rule.

    Raises:
        ModelError: a position is 0.
    """
    if not (position > 0).all():
        raise ModelError(
            "a causal LM needs a token before the scored word; put a word before it, or use a tokenizer that adds a"
            " first token"
        )


def causal_reads(rows: TokenRows, case: NDArray[np.int64], position: NDArray[np.int64]) -> tuple[Inputs, TokenReads]:
    """Return inputs and reads for tokens given those before them. Tokens from the last read one on are left out of the
    rows.
    """
    check_not_first(position)
    stop = np.ones(len(rows.lengths), dtype=np.int64)
    np.maximum.at(stop, case, position)
    first = stop - 1
    np.minimum.at(first, case, position - 1)
    ids = np.where(np.arange(rows.ids.shape[1]) < stop[:, None], rows.ids, 0)[:, : int(stop.max())]
    inputs = _distinct(ids, None, stop, first, stop - first)
    reads = TokenReads(case, position - 1, rows.ids[case, position].astype(np.int64))
    return replace(inputs, back=inputs.back[case]), reads


def masked_reads(
    rows: TokenRows, case: NDArray[np.int64], position: NDArray[np.int64], mask_id: int
) -> tuple[Inputs, TokenReads]:
    """Return inputs and reads for tokens that are masked in turn: one row for each token, equal rows once."""
    ids = rows.ids[case].copy()
    target = ids[np.arange(len(case)), position].astype(np.int64)
    ids[np.arange(len(case)), position] = mask_id
    types = None if rows.types is None else rows.types[case]
    return _distinct(ids, types, rows.lengths[case], position, np.ones_like(position)), TokenReads(
        case, position, target
    )


def _distinct(
    ids: IdArray, types: IdArray | None, lengths: NDArray[np.int64], first: NDArray[np.int64], count: NDArray[np.int64]
) -> Inputs:
    """Keep each row once. If cases read different positions of a row, its range of positions covers them all."""
    table = np.ascontiguousarray(np.concatenate([ids, lengths[:, None].astype(np.int32)], axis=1))
    keys = table.view(np.dtype((np.void, table.dtype.itemsize * table.shape[1]))).ravel()
    _, distinct, back = np.unique(keys, return_index=True, return_inverse=True)
    low = np.full(len(distinct), np.iinfo(np.int64).max)
    high = np.zeros(len(distinct), dtype=np.int64)
    np.minimum.at(low, back, first)
    np.maximum.at(high, back, first + count)
    of_distinct = None if types is None else types[distinct]
    return Inputs(ids[distinct], of_distinct, lengths[distinct], low, high - low, back.astype(np.int64))


def best_ids(scores: Tensor, k: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the ids of the k largest logits of each row, highest first, ties by id, and whether these are finite:
    shapes (rows, k) and (rows,).

    >>> import torch
    >>> best_ids(torch.tensor([[2.0, 3.0, 3.0, 3.0]]), 2)
    (array([[1, 2]]), array([ True]))
    """
    # A few more than k show a tie at the edge; a wider tie is settled over the whole row.
    values, ids = (t.cpu().numpy() for t in scores.topk(min(k + 4, scores.shape[1])))
    best = top_ids(values, ids, k)
    for row in np.flatnonzero(values[:, k - 1] == values[:, -1]):
        whole = scores[row].cpu().numpy()[None]
        best[row] = top_ids(whole, np.arange(whole.shape[1])[None], k)[0]
    return best, np.isfinite(values[:, :k]).all(axis=1)


def top_ids(values: NDArray[np.floating], ids: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Return the k ids with the highest values in each row, highest first, ties by id; both arrays have the shape
    (rows, candidates).

    >>> top_ids(np.array([[2., 3., 3.]]), np.array([[5, 9, 4]]), 2)
    array([[4, 9]])
    """
    order = np.lexsort((ids, -values), axis=-1)[:, :k]
    return np.take_along_axis(ids, order, axis=1)
