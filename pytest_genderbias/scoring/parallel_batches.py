"""Batches of rows of similar length, with little padding, and batches side by side: each in a thread of its own, where
torch computes with its share of the threads.

Batches of short rows are little work for each operation. If all threads of torch share one operation, they wait for
each other after each; on a busy machine the slowest of them decides thousands of times. Batches that are independent
need not wait.

Which thread takes a batch changes no bit of its result. The number of threads decides how rows are divided into
batches, so that it changes results by rounding, as it does where threads share an operation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Failed = tuple[Rows, Exception]  #: a batch, and the error that its step raised

#: Tokens that keep a thread busy: smaller batches cost more than waiting does.
FEWEST_TOKENS = 512
#: Tokens in all batches that are under way: more need memory and are no faster.
_MOST_TOKENS = 4096
#: Types of networks whose forward pass changes nothing in the network (tests/scoring/test_side_by_side.py reads their
#: code). Others, such as BigBird and networks with rotary positions, may adapt themselves to the rows that they are
#: given.
UNCHANGED_BY_A_PASS = frozenset(
    ("albert", "bert", "camembert", "deberta-v2", "distilbert", "electra", "gpt2", "mpnet", "roberta", "xlm-roberta")
)
#: Types of networks for which one length proves that the last modules can be computed at the read positions only.
ONE_LENGTH_SHOWS = UNCHANGED_BY_A_PASS.union(("gemma", "gemma2", "gemma3_text", "llama", "mistral", "qwen2", "qwen3"))
#: Where the classes of a network and of all its layers come from.
_KNOWN_CODE = ("transformers.models.", "transformers.activations", "transformers.pytorch_utils", "torch.nn.modules.")


def can_pass_side_by_side(network: Any) -> bool:
    """Return whether several threads may pass batches through a network at once: it is on a CPU, and nothing in it
    changes.
    """
    return bool(is_known(network, UNCHANGED_BY_A_PASS) and network.device.type == "cpu" and not network.training)


def is_known(network: object, types: Set[str]) -> bool:
    """Return whether a network is of one of some types, and runs the code of transformers.

    Layers that others put in, as for quantised weights, may keep a state of the pass.
    """
    from transformers import PreTrainedModel

    return (
        isinstance(network, PreTrainedModel)
        and network.config.model_type in types
        and all(
            type(module).__module__.startswith(_KNOWN_CODE) and not hasattr(module, "_hf_hook")  # reads its weights
            for module in network.modules()
        )
    )


def plan(tokens: int, batch_tokens: int, threads: int) -> tuple[int, int, int]:
    """Return how many batches are passed at once, with how many threads of torch each, and how many tokens are in one
    at most. Each worker has two batches or more.

    Args:
        tokens: tokens in all rows.
        batch_tokens: maximum number of tokens in a batch.
        threads: threads that torch may use.

    >>> plan(4600, 2048, threads=2)
    (2, 1, 1150)
    >>> plan(900, 2048, threads=2)
    (1, 2, 2048)
    """
    workers = min(threads, tokens // FEWEST_TOKENS)
    if workers < 2:
        return 1, threads, batch_tokens
    share = max(FEWEST_TOKENS, min(tokens // 2, _MOST_TOKENS) // workers)
    return workers, threads // workers, min(batch_tokens, share)


def usable_threads() -> int:
    """Return the number of threads that batches can be spread over: 1 where torch's settings do not belong to each
    thread.
    """
    import torch

    by_thread = "parallel backend: OpenMP" in torch.__config__.parallel_info()
    return torch.get_num_threads() if by_thread and not torch.is_autocast_enabled("cpu") else 1


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch in one thread, for the same summation order on any machine; matrices that are small gain nothing from
    more threads.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def largest_first(batches: list[Rows], lengths: NDArray[np.int64]) -> list[Rows]:
    """Return batches in the order of their tokens, so that threads end at about the same time, and a lack of memory
    shows at once.
    """
    return sorted(batches, key=lambda rows: -len(rows) * int(lengths[rows].max()))


def pass_side_by_side(
    batches: Sequence[Rows], step: Callable[[Rows], None], workers: int, threads: int
) -> tuple[list[Failed], list[Rows]]:
    """Call ``step(rows)`` for the batches, each in one of several threads. After an error no further batch is begun.

    Args:
        batches: row numbers of each batch; they are begun in this order.
        step: passes one batch.
        workers: batches under way at once.
        threads: threads of torch for each worker.

    Returns:
        the batches that failed, in their order, and those that were not begun.
    """
    from concurrent.futures import ThreadPoolExecutor

    import torch

    todo, failed = deque(enumerate(batches)), dict[int, Failed]()

    def work() -> None:
        torch.set_num_threads(threads)
        with torch.inference_mode(inferring), suppress(IndexError):  # none is left
            while not failed:
                number, rows = todo.popleft()
                try:
                    step(rows)
                except Exception as error:
                    failed[number] = (rows, error)

    before, inferring = torch.get_num_threads(), torch.is_inference_mode_enabled()
    try:
        with ThreadPoolExecutor(workers, "batches") as pool:
            under_way = [pool.submit(copy_context().run, work) for _ in range(workers)]
            try:
                for future in under_way:
                    future.result()
            except BaseException:  # Ctrl-C: the workers end after the batch that they have begun
                todo.clear()
                raise
    finally:
        torch.set_num_threads(before)  # of this thread, and of all that begin later
    return [failed[number] for number in sorted(failed)], [rows for _, rows in todo]


_FEW = 8  #: fewer rows than this of one length are batched with rows of the next shorter length


def length_batches(
    lengths: NDArray[np.int64], batch_tokens: int, most_rows: int, padded: bool = True
) -> Iterator[NDArray[np.int64]]:
    """Yield the row numbers of each batch, longest rows first, so that a lack of memory shows at once.

    Args:
        lengths: tokens of each row, shape (n,).
        batch_tokens: maximum number of tokens in a batch, including padding.
        most_rows: maximum number of rows in a batch.
        padded: whether a batch may have rows of several lengths, the shorter ones with padding.

    >>> [list(map(int, b)) for b in length_batches(np.array([5, 5, 5, 5, 5, 5, 5, 5, 5]), 20, 99)]
    [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    """
    order = np.argsort(-lengths, kind="stable")
    ordered = lengths[order]
    start, few = 0, _FEW if padded else 0
    while start < len(order):
        stop = int(np.searchsorted(-ordered, -ordered[start], side="right"))
        while stop - start < few and stop < len(order):
            stop = int(np.searchsorted(-ordered, -ordered[stop], side="right"))
        rows = min(most_rows, max(1, batch_tokens // max(1, int(ordered[start]))))
        for at in range(start, stop, rows):
            yield order[at : min(at + rows, stop)]
        start = stop
