"""Forward passes: batches in, only the wanted logits out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.models.model import Checkpoint
from pytest_genderbias.scoring.batches import length_batches
from pytest_genderbias.scoring.reads import Inputs

#: Numbers in the logits of one batch, at most: 256 MiB of float32.
_MOST_LOGITS = 1 << 26
_CPU_BATCH_TOKENS = 2048
_GPU_BATCH_TOKENS = 65536


class Network:
    """A checkpoint that computes the vocabulary head only at the positions that are read.

    A hook on the base model keeps those positions of the last hidden state. The first batch is passed both ways; where the
    logits differ, the head is computed whole, and ``note`` says so.
    """

    def __init__(self, checkpoint: Checkpoint, batch_tokens: int | None, vocabulary_head: bool) -> None:
        self._network, self._device = checkpoint.network, checkpoint.device
        self._head = vocabulary_head
        self._hooked: bool | None = None
        self.note: str | None = None
        cpu = str(self._device).startswith("cpu")
        self.batch_tokens = batch_tokens or (_CPU_BATCH_TOKENS if cpu else _GPU_BATCH_TOKENS)
        self.halvings = 0

    def run(self, inputs: Inputs, use: Callable[[NDArray[np.int64], Any], None]) -> None:
        """Call ``use(rows, logits)`` for every batch; logits have the shape (rows, read positions, vocabulary) or (rows, labels).

        Out of memory halves the batch and goes on.
        """
        import torch

        vocabulary = int(self._network.config.vocab_size) if self._head else 1
        most_rows = max(1, _MOST_LOGITS // (vocabulary * int(inputs.count.max(initial=1))))
        pending = list(length_batches(inputs.lengths, self.batch_tokens, most_rows))
        with torch.inference_mode():
            while pending:
                rows = pending.pop(0)
                try:
                    use(rows, self._forward(inputs, rows))
                except RuntimeError as error:
                    if len(rows) == 1 or not _is_out_of_memory(error):
                        raise
                    if not str(self._device).startswith("cpu"):
                        torch.cuda.empty_cache()
                    self.halvings += 1
                    self.batch_tokens = max(1, self.batch_tokens // 2)
                    rest = np.concatenate([rows, *pending])
                    pending = [
                        rest[b] for b in length_batches(inputs.lengths[rest], self.batch_tokens, max(1, len(rows) // 2))
                    ]

    def _forward(self, inputs: Inputs, rows: NDArray[np.int64]) -> Any:
        import torch

        lengths = inputs.lengths[rows]
        longest = int(lengths.max())
        fed: dict[str, Any] = {"input_ids": self._tensor(inputs.ids[rows, :longest])}
        if not (lengths == longest).all():
            fed["attention_mask"] = self._tensor((np.arange(longest) < lengths[:, None]).astype(np.int64))
        if inputs.types is not None:
            fed["token_type_ids"] = self._tensor(inputs.types[rows, :longest])
        if not self._head:
            return self._network(**fed).logits
        width = int(inputs.count[rows].max())
        positions = np.minimum(inputs.first[rows][:, None] + np.arange(width), lengths[:, None] - 1)
        where = torch.as_tensor(positions, device=self._device)
        if self._hooked is None:
            return self._first_forward(fed, where)
        return self._at(fed, where) if self._hooked else _gather(self._network(**fed).logits, where)

    def _first_forward(self, fed: dict[str, Any], where: Any) -> Any:
        import torch

        whole = _gather(self._network(**fed).logits, where)
        try:
            kept = self._at(fed, where)
            self._hooked = kept.shape == whole.shape and bool(
                torch.allclose(kept, whole, rtol=1e-3, atol=1e-3, equal_nan=True)
            )
        except (RuntimeError, ValueError, TypeError, AttributeError, IndexError):
            self._hooked = False
        if not self._hooked:
            self.note = "vocabulary head computed at every position: this architecture does not read it from the last hidden state"
        return whole

    def _at(self, fed: dict[str, Any], where: Any) -> Any:
        with _keeping(self._network.base_model, where):
            return self._network(**fed).logits

    def _tensor(self, array: NDArray[Any]) -> Any:
        import torch

        return torch.as_tensor(np.ascontiguousarray(array), dtype=torch.long).to(self._device)


def _gather(hidden: Any, where: Any) -> Any:
    return hidden.gather(1, where[:, :, None].expand(-1, -1, hidden.shape[-1]))


@contextmanager
def _keeping(base: Any, where: Any) -> Iterator[None]:
    """Let the base model return its last hidden state at some positions only."""

    def keep(module: Any, args: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return (_gather(output[0], where), *output[1:])
        output.last_hidden_state = _gather(output.last_hidden_state, where)
        return output

    handle = base.register_forward_hook(keep)
    try:
        yield
    finally:
        handle.remove()


def _is_out_of_memory(error: RuntimeError) -> bool:
    import torch

    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)
