"""Trainings in several processes, as ``accelerate launch`` starts them: which may, and what becomes of the others."""

from __future__ import annotations

import os

from pytest_genderbias.errors import NotApplicableError


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
