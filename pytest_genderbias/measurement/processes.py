"""Several processes of one run, as ``accelerate launch`` and ``torchrun`` start them: which work they share, and what
is refused.
"""

from __future__ import annotations

import atexit
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from pytest_genderbias.errors import NotApplicableError

#: ``rank`` of this process, once it has joined the others, and ``sharing`` while all are at the same work.
_THIS: dict[str, int] = {}
_LONGEST = timedelta(days=30)  #: that a process waits for another, for example while the first one measures
_LOST = (
    "genderbias: another process of this run is lost; what is complete is kept, and the same command goes on from the"
    " last checkpoint"
)


def process_count() -> int:
    """Return the number of processes that ``accelerate launch`` or ``torchrun`` started for this run; 1 without
    them.
    """
    text = os.environ.get("WORLD_SIZE", "1")
    return int(text) if text.isdecimal() else 1


def refuse_several(what: str) -> None:
    """Refuse to go on in one of several processes.

    Args:
        what: what cannot be divided between processes, for the message.

    Raises:
        NotApplicableError: this is one of several, and each would do the same work and write the same files.
    """
    if process_count() > 1:
        raise NotApplicableError(
            f"{what} cannot be divided between processes, and this is one of {process_count()} (WORLD_SIZE), each of"
            " which would do all of it; start it with python, without accelerate launch or torchrun"
        )


def work_for_the_first(work: Callable[..., object]) -> None:
    """Return in the first of several processes, and in a run of one. In each other process do what the first one hands
    out, until the first one ends; then exit. An error in this work ends all.

    Args:
        work: is called with the arguments of :func:`handed_out`, in every process but the first.

    Raises:
        SystemExit: in every process but the first, with status 0; with a message if another process is lost.
    """
    if process_count() == 1 or "rank" in _THIS:
        return
    import torch
    from torch import distributed

    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    distributed.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout=_LONGEST)
    _THIS["rank"] = distributed.get_rank()
    if _THIS["rank"] == 0:
        atexit.register(_end)
        return
    while (given := _passed_on(None)) is not None:
        work(*torch.load(io.BytesIO(given), map_location=_to_own_gpu, weights_only=False))
    raise SystemExit(0)


@contextmanager
def handed_out(*work: object) -> Iterator[None]:
    """Hand out work to the other processes, in the first of several, and do it with them in the ``with`` block.

    Args:
        work: arguments for the function that the others gave to :func:`work_for_the_first`; they are pickled.

    Raises:
        NotApplicableError: this is one of several processes, which did not join.
        SystemExit: another process is lost.
    """
    if "rank" not in _THIS:
        refuse_several("a mitigation in a script that does not call share_trainings()")
    elif _THIS["rank"] == 0:
        import torch

        written = io.BytesIO()
        torch.save(work, written)
        _passed_on(written.getvalue())
    _THIS["sharing"] = True
    try:
        with _end_if_lost():
            yield
    finally:
        del _THIS["sharing"]


def is_left_alone() -> bool:
    """Return whether the other processes wait for this one, and would not take part in what it does now."""
    return "rank" in _THIS and "sharing" not in _THIS


@contextmanager
def _end_if_lost() -> Iterator[None]:
    """Exit where the ``with`` block fails since another process is lost."""
    try:
        yield
    except RuntimeError as error:
        from torch.distributed import DistError

        if "rank" in _THIS and (isinstance(error, DistError) or "gloo" in str(error)):
            raise SystemExit(_LOST) from error
        raise


def _passed_on(content: bytes | None) -> Any:
    """Return the content that the first process gives; the others give none."""
    import torch
    from torch import distributed

    box = [content]
    with _end_if_lost():
        distributed.broadcast_object_list(box, src=0, device=torch.device("cpu"))
    return box[0]


def _end() -> None:
    """Let the other processes end."""
    with suppress(SystemExit):
        _passed_on(None)


def _to_own_gpu(storage: Any, place: str) -> Any:
    """Return a tensor's storage on the GPU of this process, if it was on a GPU."""
    import torch

    return storage.cuda(torch.cuda.current_device()) if place.startswith("cuda") else storage
