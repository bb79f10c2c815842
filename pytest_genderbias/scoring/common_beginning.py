"""Next-token log-probabilities of rows that begin alike, as the orders of the options of one question: the beginning is
passed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.models.behaviour import ANY_ROWS, moved
from pytest_genderbias.models.model import Checkpoint
from pytest_genderbias.models.plain_tensors import is_quantised
from pytest_genderbias.scoring.dropping import keeping
from pytest_genderbias.scoring.network import Batches, check_embedded, check_scored, is_out_of_memory
from pytest_genderbias.scoring.tokens import IdArray

if TYPE_CHECKING:
    from torch import Tensor

_NEAR = (
    1e-4  #: how far logits after a reused beginning may lie from those of whole rows, relative to the largest: rounding
)


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
                check_scored(targets, scores)
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
