"""The rows that are passed through a network, the positions at which its logits are read, and forward passes in batches
that return these logits only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import ModelError
from pytest_genderbias.models.behaviour import (
    ANY_ROWS,
    EQUAL_LENGTHS,
    REASONS,
    SINGLE_ROWS,
    embedded_tokens,
    moved,
    rounding,
)
from pytest_genderbias.models.model import Checkpoint
from pytest_genderbias.models.plain_tensors import is_quantised
from pytest_genderbias.scoring.packed_layers import PackedLayers
from pytest_genderbias.scoring.parallel_batches import (
    ONE_LENGTH_SHOWS,
    Failed,
    can_pass_side_by_side,
    is_known,
    largest_first,
    length_batches,
    pass_side_by_side,
    plan,
    usable_threads,
)
from pytest_genderbias.scoring.scorer import HALVED, CountNote
from pytest_genderbias.scoring.tokens import IdArray, TokenRows

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from transformers import PreTrainedModel


#: The hook that is in effect in this thread, and the positions that are read, shape (rows, positions).
_PASS: ContextVar[tuple[object, Tensor] | None] = ContextVar("_PASS", default=None)

_NOT_EMBEDDED = (
    "the network has no embedding for a token of its tokenizer ({}); they do not belong together: copy or save the"
    " whole checkpoint again, and where tokens were added, resize the embeddings and train it"
)
_NOT_COMPUTED = (
    "the network cannot compute its output here ({}: {}); if its weights are quantised, use the device that they were"
    " made for"
)
_AT_EVERY_POSITION = (
    "vocabulary head computed at every position: this network does not read it from its last hidden state alone"
)
#: Maximum number of logits in a batch: 256 MiB of float32.
MOST_LOGITS = 1 << 26
_CPU_BATCH_TOKENS = 2048
_GPU_BATCH_TOKENS = 65536


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


def causal_reads(
    rows: TokenRows, case: NDArray[np.int64], position: NDArray[np.int64]
) -> tuple[Inputs, NDArray[np.int64], NDArray[np.int64]]:
    """Return inputs for tokens given those before them, the position in its row at which each is read, and its id.
    Tokens from the last read one on are left out of the rows.
    """
    check_not_first(position)
    stop = np.ones(len(rows.lengths), dtype=np.int64)
    np.maximum.at(stop, case, position)
    first = stop - 1
    np.minimum.at(first, case, position - 1)
    ids = np.where(np.arange(rows.ids.shape[1]) < stop[:, None], rows.ids, 0)[:, : int(stop.max())]
    inputs = _distinct(ids, None, stop, first, stop - first)
    return replace(inputs, back=inputs.back[case]), position - 1, rows.ids[case, position].astype(np.int64)


def masked_reads(
    rows: TokenRows, case: NDArray[np.int64], position: NDArray[np.int64], mask_id: int
) -> tuple[Inputs, NDArray[np.int64], NDArray[np.int64]]:
    """Return the same as :func:`causal_reads` for tokens that are masked in turn: one row for each token, equal rows
    once.
    """
    ids = rows.ids[case].copy()
    target = ids[np.arange(len(case)), position].astype(np.int64)
    ids[np.arange(len(case)), position] = mask_id
    types = None if rows.types is None else rows.types[case]
    inputs = _distinct(ids, types, rows.lengths[case], position, np.ones_like(position))
    return inputs, position, target


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


class Batches:
    """Runs a step over batches of rows of similar length. A batch that does not fit in memory is halved; ``halvings``
    counts this.

    ``packed``: layers of the network that the step calls, which multiply with packed weights in the meantime.
    ``sharing``: which rows may share a batch (:meth:`~pytest_genderbias.models.behaviour.Probe.behaviour`); a step can
    make it stricter for the batches after it.
    """

    def __init__(
        self, device: str, batch_tokens: int | None, packed: PackedLayers | None = None, sharing: str = ANY_ROWS
    ) -> None:
        self.packed, self.sharing = packed or PackedLayers(None), sharing
        self._on_cpu = str(device).startswith("cpu")
        self.batch_tokens = batch_tokens or (_CPU_BATCH_TOKENS if self._on_cpu else _GPU_BATCH_TOKENS)
        self.halvings = 0

    @property
    def note(self) -> str | None:
        """Remark that batches were halved, or ``None``."""
        return CountNote(self.halvings, HALVED) if self.halvings else None

    def run(
        self,
        lengths: NDArray[np.int64],
        step: Callable[[NDArray[np.int64]], None],
        most_rows: int = 1 << 30,
        side_by_side: bool = False,
    ) -> None:
        """Call ``step(rows)`` for every batch of row numbers, in inference mode.

        Args:
            lengths: tokens of each row, shape (n,).
            step: passes a batch.
            most_rows: maximum number of rows in all batches that are under way.
            side_by_side: several threads may call the step at once, each for another batch.
        """
        import torch

        tokens = int(lengths.sum())
        threads = usable_threads() if side_by_side and self._on_cpu else 1
        workers, threads, batch_tokens = plan(tokens, self.batch_tokens, threads)
        pending = list(self._batches(lengths, batch_tokens, max(1, most_rows // workers)))
        if workers > 1:
            pending = largest_first(pending, lengths)
        with torch.inference_mode(), self.packed.in_use(tokens):
            while pending:
                failed: list[Failed] = []
                if workers > 1:
                    failed, pending = pass_side_by_side(pending, step, workers, threads)
                else:
                    rows = pending.pop(0)
                    try:
                        step(rows)
                    except Exception as error:
                        failed = [(rows, error)]
                if failed:
                    pending = self._halved(lengths, failed, pending)

    def _halved(
        self, lengths: NDArray[np.int64], failed: list[Failed], rest: list[NDArray[np.int64]]
    ) -> list[NDArray[np.int64]]:
        """Return smaller batches of all rows that are left, or raise the error of a batch that no halving helps."""
        import torch

        for rows, error in failed:
            if isinstance(error, (AssertionError, NotImplementedError)):  # of kernels, as of bitsandbytes' on a CPU
                raise ModelError(
                    _NOT_COMPUTED.format(type(error).__name__, " ".join(str(error).split())[:300])
                ) from None
            if not isinstance(error, RuntimeError) or len(rows) == 1 or not is_out_of_memory(error):
                raise error
            error.__traceback__ = None  # it holds the tensors of the batch
        if not self._on_cpu:
            torch.cuda.empty_cache()
        self.halvings += 1
        self.batch_tokens = max(1, self.batch_tokens // 2)
        left = np.concatenate([*(rows for rows, _ in failed), *rest])
        most_rows = max(1, min(len(rows) for rows, _ in failed) // 2)
        return [left[rows] for rows in self._batches(lengths[left], self.batch_tokens, most_rows)]

    def _batches(self, lengths: NDArray[np.int64], batch_tokens: int, most_rows: int) -> Iterator[NDArray[np.int64]]:
        most_rows = 1 if self.sharing == SINGLE_ROWS else most_rows
        return length_batches(lengths, batch_tokens, most_rows, padded=self.sharing == ANY_ROWS)


def check_embedded(network: Module, ids: NDArray[np.integer]) -> None:
    """Refuse a token without an embedding before a device sees it: on a GPU it would spoil every later call of the
    process.

    Raises:
        ModelError: there is one.
    """
    check_known(ids, embedded_tokens(network))


def check_known(ids: NDArray[np.integer], known: int | None) -> None:
    """Refuse a token beyond those that a network knows; ``None``: their number is unknown.

    Raises:
        ModelError: there is one.
    """
    largest = int(ids.max(initial=0))
    if known is not None and largest >= known:
        raise ModelError(_NOT_EMBEDDED.format(f"token {largest} of {known}"))


class Network:
    """A checkpoint whose last modules are computed only at the positions that are read.

    A hook drops the other positions: within or after the attention of the last layer if the modules after it treat each
    position separately, else after the last hidden state, so that the vocabulary head is computed at the read positions
    only. A row of each length, or of one length where ``ONE_LENGTH_SHOWS`` has the type of the network, is first passed
    with and without the hook; a hook that changes the logits is not used. If no hook is left, ``note`` says so.

    The shortest row beside the longest shows whether padding changes the logits at these lengths; if so, batches have
    rows of one length.
    """

    def __init__(self, checkpoint: Checkpoint, batch_tokens: int | None, vocabulary_head: bool) -> None:
        self._network, self._device = checkpoint.network, checkpoint.device
        self._head = vocabulary_head
        self._shortcuts = [] if checkpoint.runtime else shortcuts(checkpoint.network, vocabulary_head)
        self._proved: set[int] = set()
        self._near = rounding(checkpoint.network)
        self.note: str | None = None
        self._side_by_side = can_pass_side_by_side(checkpoint.network)
        packed = PackedLayers(checkpoint.network)
        self.batches = Batches(checkpoint.device, batch_tokens, packed, checkpoint.batches)

    @property
    def notes(self) -> list[str]:
        """Remarks on slower computations, and on batches that were halved."""
        return [note for note in (self.note, self.batches.note) if note]

    def run(self, inputs: Inputs, use: Callable[[NDArray[np.int64], Tensor], None]) -> None:
        """Call ``use(rows, logits)`` for every batch. Logits have the shape (rows, read positions, vocabulary) or
        (rows, labels). Shortcuts are tried first, at each new length, or at one length where this is known to show all.

        Several threads may call ``use`` at once, each with other rows.

        Raises:
            ModelError: the network has no embedding for a token of the inputs.
        """
        check_embedded(self._network, inputs.ids)
        lengths, first = np.unique(inputs.lengths, return_index=True)
        while rows := self._unproved(lengths, first):
            shortcuts = len(self._shortcuts)
            for row in rows:
                beside = np.unique([first[0], row]) if row == rows[0] else np.asarray([row])
                self.batches.run(inputs.lengths[beside], partial(self._probe, inputs, beside))
            self._proved.update(lengths.tolist())
            if len(self._shortcuts) < shortcuts:  # the next one has been asked at the last lengths only
                self._proved.clear()
        vocabulary = int(self._network.config.vocab_size) if self._head else 1
        most_rows = max(1, MOST_LOGITS // (vocabulary * int(inputs.count.max(initial=1))))
        with dropping(self._shortcuts[0]) if self._shortcuts else nullcontext() as hook:

            def step(rows: NDArray[np.int64]) -> None:
                with self._explained():
                    fed, where = self._fed(inputs, rows)
                    if hook is None:
                        logits = self._whole(fed, where)
                    else:
                        with reading(hook, where):
                            logits = self._network(**fed).logits
                use(rows, logits)

            self.batches.run(inputs.lengths, step, most_rows, self._side_by_side)

    def best(self, inputs: Inputs, k: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the ids of the k largest logits of each row at its read position, ties by id, and whether they are
        finite: shapes (rows, k) and (rows,).

        Raises:
            ModelError: the network has no embedding for a token of the inputs.
        """
        ids, finite = np.zeros((len(inputs.lengths), k), dtype=np.int64), np.ones(len(inputs.lengths), dtype=np.bool_)

        def use(rows: NDArray[np.int64], logits: Tensor) -> None:
            ids[rows], finite[rows] = best_ids(logits[:, 0].float(), k)

        self.run(inputs, use)
        return ids, finite

    def _unproved(self, lengths: NDArray[np.int64], first: NDArray[np.int64]) -> list[int]:
        """Return the row of each length at which shortcuts have to be proved, the longest first."""
        new = [int(row) for length, row in zip(lengths, first, strict=True) if int(length) not in self._proved][::-1]
        return new[: 0 if self._proved else 1] if is_known(self._network, ONE_LENGTH_SHOWS) else new

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say of a pass that asks for a missing embedding that the network cannot be computed here."""
        try:
            yield
        except IndexError as error:  # of an embedding
            text = _NOT_COMPUTED.format(type(error).__name__, error)
            raise ModelError(text if embedded_tokens(self._network) else _NOT_EMBEDDED.format(error)) from None

    def _fed(self, inputs: Inputs, rows: NDArray[np.int64]) -> tuple[dict[str, Tensor], Tensor]:
        """Return what the network is given for some rows, and the positions that are read: shape (rows, width)."""
        lengths = inputs.lengths[rows]
        longest = int(lengths.max())
        fed = {"input_ids": self._tensor(inputs.ids[rows, :longest])}
        if not (lengths == longest).all():
            fed["attention_mask"] = self._tensor((np.arange(longest) < lengths[:, None]).astype(np.int64))
        if inputs.types is not None:
            fed["token_type_ids"] = self._tensor(inputs.types[rows, :longest])
        width = int(inputs.count[rows].max())
        positions = np.minimum(inputs.first[rows][:, None] + np.arange(width), lengths[:, None] - 1)
        return fed, self._tensor(positions)

    def _probe(self, inputs: Inputs, among: NDArray[np.int64], chosen: NDArray[np.int64]) -> None:
        """Pass the chosen ones ``among`` some rows whole, then with shortcuts, the best first, until one gives the same
        logits; and the shortest of them alone.
        """
        import torch

        rows = among[chosen]
        shortest = int(np.argmin(inputs.lengths[rows]))
        with self._explained():
            fed, where = self._fed(inputs, rows)
            whole = self._whole(fed, where)
            exact = whole.dtype in (torch.float32, torch.float64)
            near = (1e-4 if self._head else 1e-5) if exact else 4 * torch.finfo(whole.dtype).eps
            while self._shortcuts:
                try:
                    with keeping(self._shortcuts[0], where):
                        short = self._network(**fed).logits
                    if not moved(whole, short, near):
                        break
                except (RuntimeError, ValueError, TypeError, AttributeError, IndexError) as error:
                    if isinstance(error, RuntimeError) and is_out_of_memory(error):
                        raise
                self._shortcuts.pop(0)
            if self._head and not self._shortcuts:
                self.note = _AT_EVERY_POSITION
            if self.batches.sharing != ANY_ROWS or inputs.lengths[rows].max() == inputs.lengths[rows[shortest]]:
                return
            alone = self._whole(*self._fed(inputs, rows[[shortest]]))
        beside = whole[[shortest], : alone.shape[1]]
        if moved(alone, beside, self._near):
            self.batches.sharing, self.note = EQUAL_LENGTHS, REASONS[EQUAL_LENGTHS]

    def _whole(self, fed: dict[str, Tensor], where: Tensor) -> Tensor:
        logits: Tensor = self._network(**fed).logits
        return at_positions(logits, where) if self._head else logits

    def _tensor(self, array: NDArray[np.integer]) -> Tensor:
        import torch

        return torch.as_tensor(np.ascontiguousarray(array), dtype=torch.long).to(self._device)


#: What errors of torch say where memory ran out: its own allocator, and oneDNN on a CPU, which says nothing more.
_SHORT_OF_MEMORY = ("can't allocate memory", "could not create a primitive")


def is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether an error means that memory ran out, as far as it says."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or any(said in str(error) for said in _SHORT_OF_MEMORY)


def shortcuts(network: PreTrainedModel, vocabulary_head: bool) -> list[Module]:
    """Return the modules after which positions may be dropped, the one that saves most first. A classifier reads the
    first position.

    There are none in a quantised network, whose layers may scale a row by all positions of its batch.
    """
    from torch.nn import Module, ModuleList
    from transformers import PreTrainedModel

    if isinstance(network, PreTrainedModel) and is_quantised(network):
        return []
    layers = getattr(getattr(network.base_model, "encoder", None), "layer", None)
    attention = getattr(layers[-1], "attention", None) if isinstance(layers, ModuleList) and len(layers) else None
    found = [attention] if isinstance(attention, Module) else []
    return [*found, network.base_model] if vocabulary_head else found


@contextmanager
def keeping(module: Module, where: Tensor) -> Iterator[None]:
    """Make a module return its hidden state at some positions only."""
    with dropping(module) as hook, reading(hook, where):
        yield


@contextmanager
def reading(hook: object, where: Tensor) -> Iterator[None]:
    """Let a hook of :func:`dropping` take effect for calls in this thread.

    Args:
        hook: the hook; others stay without effect.
        where: positions that are read, shape (rows, positions).
    """
    token = _PASS.set((hook, where))
    try:
        yield
    finally:
        _PASS.reset(token)


@contextmanager
def dropping(module: Module) -> Iterator[object]:
    """Give a hook by which a module returns its hidden state at the positions of :func:`reading` only. Other calls, as
    of another thread, return it whole.
    """
    import torch

    hook = object()

    def keep(module: Module, args: object, output: Any) -> Any:
        here = _PASS.get()
        if here is None or here[0] is not hook:
            return output
        if isinstance(output, tuple):
            return (at_positions(output[0], here[1]), *output[1:])
        if isinstance(output, torch.Tensor):
            return at_positions(output, here[1])
        output.last_hidden_state = at_positions(output.last_hidden_state, here[1])
        return output

    handle = module.register_forward_hook(keep)
    try:
        yield hook
    finally:
        handle.remove()


def at_positions(hidden: Tensor, where: Tensor) -> Tensor:
    """Return hidden states, shape (rows, tokens, features), at some positions of each row, shape (rows, positions)."""
    return hidden.gather(1, where[:, :, None].expand(-1, -1, hidden.shape[-1]))


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
