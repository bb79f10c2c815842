"""The policy of a run: the number of comparisons that bounds are corrected for, and who is told of each judgement.

A judgement does not depend on either. :func:`~pytest_genderbias.gates.assertions.settle` asks the referee that is
active and records the judgement with its outcome. This module does not import numpy, so that a plugin can set a referee
when it is loaded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock, get_ident
from typing import TYPE_CHECKING

from pytest_genderbias.gates.verdicts import ONE_SIDED

if TYPE_CHECKING:
    from pytest_genderbias.errors import GateFailure
    from pytest_genderbias.gates.judgement import Judgement


@dataclass(frozen=True)
class Correction:
    """How many comparisons the bounds of a worsening hold for together, and what they are, in the plural."""

    tests: int = 1
    what: str = "comparisons"

    @property
    def level(self) -> float:
        """Level of a one-sided bound that holds for all comparisons together, at 97.5 % (Bonferroni: Dunn 1961).

        >>> Correction().level, Correction(5).level
        (0.975, 0.995)
        """
        return min(1 - (1 - ONE_SIDED) / self.tests, math.nextafter(1.0, 0.0))


def correction_for(correct_for: str | int, known: int, what: str) -> Correction:
    """Return how many comparisons bounds hold for together: one rule for every comparison.

    Args:
        correct_for: a number, which is used as it is; ``"none"``, for no correction; any other name, for ``known``
            comparisons.
        known: the number of comparisons: gated statistics of baselines, or comparisons of models that a gate file, the
            flags or a test name.
        what: what these comparisons are, in the plural.

    >>> correction_for("model", 7, "statistics"), correction_for("none", 7, "statistics")
    (Correction(tests=7, what='statistics'), Correction(tests=1, what='comparisons'))
    """
    if isinstance(correct_for, int):
        return Correction(correct_for, "comparisons (bias_correct_for)")
    return Correction() if correct_for == "none" else Correction(max(1, known), what)


@dataclass(frozen=True)
class Referee:
    """What is done with settled judgements.

    Attributes:
        correct_for: the comparisons that bounds hold for together (``bias_correct_for``): ``"model"``, ``"module"``,
            ``"none"``, or their number.
        record: records each judgement with its outcome.
        explain: returns the message of a failure; by default the short text of the judgement.
        note_failure: receives each failure before it is raised, so that one that never reaches its test is not lost.
    """

    correct_for: str | int = "model"
    record: Callable[[Judgement, str], None] | None = None
    explain: Callable[[Judgement], str] | None = None
    note_failure: Callable[[GateFailure], None] | None = None

    def correction(self, known: int, what: str) -> Correction:
        """Return the correction of this run; arguments as :func:`correction_for`."""
        return correction_for(self.correct_for, known, what)


_REFEREES: list[tuple[int, Referee]] = []  # with the thread that set each
_LOCK = Lock()


def active_referee() -> Referee:
    """Return the referee that this thread set last, or else any thread; the default records nothing.

    So tests that run side by side in threads have their own referees, and threads and fixtures of one test share that
    of their test. A thread that a test starts, while others run beside it, has the referee that was set last.
    """
    with _LOCK:
        own = [referee for thread, referee in _REFEREES if thread == get_ident()]
        return own[-1] if own else _REFEREES[-1][1] if _REFEREES else Referee()


@contextmanager
def refereed_by(referee: Referee) -> Iterator[None]:
    """Make a referee the active one of this thread, and of all threads that set none."""
    entry = get_ident(), referee
    with _LOCK:
        _REFEREES.append(entry)
    try:
        yield
    finally:
        with _LOCK:
            last = max(i for i, other in enumerate(_REFEREES) if other is entry)
            del _REFEREES[last]
