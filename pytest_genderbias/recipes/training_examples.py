"""Tokenised rows as examples of a Trainer, in an order that is known before the training, so that it can be resumed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_TOKENISED_AT_ONCE = 4096
_MEGABATCH = 50  #: number of batches whose rows are sorted by length together, as in transformers


class TokenisedRows:
    """Rows of token ids with a label, in arrays (a hundred bytes for a row of SNLI). ``order``: row numbers in the
    order of training.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        columns: Sequence[Sequence[str]],
        labels: Sequence[int | float],
        max_length: int,
    ) -> None:
        self._labels = labels
        parts: dict[str, list[NDArray[np.int32]]] = {}
        lengths: list[int] = []
        for start in range(0, len(labels), _TOKENISED_AT_ONCE):
            texts = [list(column[start : start + _TOKENISED_AT_ONCE]) for column in columns]
            output = tokenizer(
                *texts, truncation=True, max_length=max_length, return_attention_mask=False, verbose=False
            )
            lengths += map(len, output["input_ids"])
            for name, rows in output.items():
                parts.setdefault(name, []).extend(np.asarray(row, dtype=np.int32) for row in rows)
        self._parts = {name: np.concatenate(rows) for name, rows in parts.items()}
        self.lengths = np.asarray(lengths, dtype=np.int64)
        self._starts = np.concatenate([[0], np.cumsum(self.lengths)])
        self.order: NDArray[np.int64] = np.arange(len(labels), dtype=np.int64)

    def __len__(self) -> int:
        """Return the number of rows of all epochs."""
        return len(self.order)

    def __getitem__(self, index: int) -> dict[str, object]:
        """Return the row at a place in the order."""
        row = self.order[index]
        span = slice(self._starts[row], self._starts[row + 1])
        return {name: part[span].tolist() for name, part in self._parts.items()} | {"labels": self._labels[row]}


def order_by_length(lengths: ArrayLike, batch_size: int, epochs: float, seed: int) -> NDArray[np.int64]:
    """Return the order of rows over all epochs, in shuffled batches of rows of similar length: shape (ceil(rows *
    epochs),).

    The sampler of transformers that groups by length draws each epoch's order from the same generator as dropout, so
    that a training which is interrupted after the first epoch resumes with other batches; and its batches come longest
    first. Here the order is known before the first step. Rows that do not fill a batch at the end of an epoch begin the
    next one.

    Args:
        lengths: tokens of each row, shape (rows,).
        batch_size: rows of a batch.
        epochs: number of epochs; a fraction of an epoch has some of the rows.
        seed: seed of the shuffles.

    >>> sorted(order_by_length([3, 1, 2], 2, 1, seed=0).tolist()), len(order_by_length([3, 1, 2], 2, 1.5, seed=0))
    ([0, 1, 2], 5)
    """
    sizes = np.asarray(lengths)
    order: list[NDArray[np.int64]] = []
    left = np.zeros(0, dtype=np.int64)
    for epoch in range(int(np.ceil(epochs))):
        rng = np.random.default_rng([seed, epoch])
        rows = rng.permutation(len(sizes))[: int(np.ceil(min(1.0, epochs - epoch) * len(sizes)))]
        rows = np.concatenate([left, rows])
        whole = len(rows) - len(rows) % batch_size
        rows, left = rows[:whole], rows[whole:]
        many = [rows[at : at + _MEGABATCH * batch_size] for at in range(0, whole, _MEGABATCH * batch_size)]
        batches = [
            batch for group in many for batch in group[np.argsort(sizes[group], kind="stable")].reshape(-1, batch_size)
        ]
        order += [batches[i] for i in rng.permutation(len(batches))]
    return np.concatenate([*order, left])
