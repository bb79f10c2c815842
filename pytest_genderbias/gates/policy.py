"""What is allowed: the margin of a gate, as it is written and as a number; what people said of the gate; and the
referee of a run, who is told of each judgement.

A judgement does not depend on the referee. :func:`~pytest_genderbias.gates.assertions.settle` asks the referee that is
active and records the judgement with its outcome. This module does not import numpy, so that a plugin can read a margin
and set a referee when it is loaded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from threading import Lock, get_ident
from typing import TYPE_CHECKING

from pytest_genderbias.errors import GateError
from pytest_genderbias.text.schema import Date, Rule, Text

if TYPE_CHECKING:
    from pytest_genderbias.errors import GateFailure
    from pytest_genderbias.gates.judgement import Judgement

_SHARE = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*%\s*")
FORMS = "a number of 0 or more in units of the statistic, or a share of the distance from neutral then ('20%')"
_NUMBER_OR_SHARE = [{"type": "number", "minimum": 0}, {"type": "string", "pattern": rf"^({_SHARE.pattern})$"}]
#: What a margin of a file may be, for its JSON Schema; :func:`read_margin` reads it.
MARGIN = Rule(FORMS, anyOf=_NUMBER_OR_SHARE)
#: A share of a file, which :func:`share_of` reads.
SHARE = Rule("a share of 0 or more, as 0.05 or 5%", lambda share: share_of(share) is not None, anyOf=_NUMBER_OR_SHARE)
NO_MARGIN = f"'the same as' needs a margin, how much a figure may change to either side: {FORMS}"


@dataclass(frozen=True)
class Margin:
    """How much worse a statistic may be, as it is written. With neither an amount nor a share, nothing is allowed but
    chance.

    Attributes:
        amount: in units of the statistic, 0 or more.
        share: of the distance of the earlier value from neutral, 0 or more: .2 for ``20%``.
        distance: that distance, once the amount was computed from it.
    """

    amount: float | None = None
    share: float | None = None
    distance: float | None = field(default=None, repr=False)

    def __str__(self) -> str:
        """Return it as it is written."""
        if self.amount is not None:
            return f"{self.amount:g}"
        return "none" if self.share is None else f"{100 * self.share:g}%"

    @property
    def tolerance(self) -> float:
        """The amount; 0 without a margin."""
        return self.amount or 0.0

    @property
    def origin(self) -> str:
        """What the amount was computed from; an empty text if the amount itself was written."""
        if self.distance is None:
            return ""
        return f"{Margin(share=self.share)} of the distance {self.distance:.4g} from neutral"

    def resolve(self, distance: float | None) -> Margin:
        """Return the margin with its amount.

        Args:
            distance: of the earlier value from neutral, in units of the statistic; ``None`` or not finite if it has no
                value.

        >>> found = Margin(share=0.2).resolve(0.15)
        >>> found.amount, found.origin
        (0.03, '20% of the distance 0.15 from neutral')
        >>> Margin(amount=0.02).resolve(0.15), Margin().resolve(0.15)
        (Margin(amount=0.02, share=None), Margin(amount=None, share=None))
        """
        if self.amount is not None or self.share is None:
            return self
        far = abs(distance) if distance is not None and math.isfinite(distance) else 0.0
        return replace(self, amount=self.share * far, distance=far)


WITHOUT = Margin()  #: nothing is allowed but chance


def share_of(written: object) -> float | None:
    """Return a number of 0 or more, or the share that a percentage is; ``None`` if it is neither.

    >>> share_of("2.5%"), share_of(0.1), share_of("much")
    (0.025, 0.1, None)
    """
    percentage = _SHARE.fullmatch(written) if isinstance(written, str) else None
    number = float(percentage[1]) / 100 if percentage else written
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number < math.inf:
        return None
    return float(number)


def read_margin(written: object) -> Margin:
    """Return a margin from a number, a text such as ``20%``, a margin, or ``None`` for no margin.

    Raises:
        GateError: it has another form.

    >>> read_margin(0.02), read_margin("20 %"), read_margin(None)
    (Margin(amount=0.02, share=None), Margin(amount=None, share=0.2), Margin(amount=None, share=None))
    """
    if isinstance(written, Margin):
        return written
    if written is None:
        return Margin()
    if (number := share_of(written)) is not None:
        return Margin(share=number) if isinstance(written, str) else Margin(amount=number)
    raise GateError(f"a margin should be {FORMS}; got {written!r:.80}")


def read_margin_of_sameness(written: object) -> Margin:
    """Return the margin of a model that should be the same as another, which is needed; forms and errors as
    :func:`read_margin`.

    >>> read_margin_of_sameness(0.02)
    Margin(amount=0.02, share=None)
    """
    if (margin := read_margin(written)) != Margin():
        return margin
    raise GateError(NO_MARGIN)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What people said of a gate. No verdict depends on it.

    Attributes:
        because: why there is this gate, with this limit
        owner: who answers for it
        harm: the harm to people that it should prevent
        decided: when it was decided, as 2026-11-22
    """

    because: Text | None = None
    owner: Text | None = None
    harm: Text | None = None
    decided: Date | None = None

    @property
    def said(self) -> dict[str, str]:
        """What was said, by name; empty if nothing was.

        >>> Evidence(owner="Ada").said
        {'owner': 'Ada'}
        """
        values = {one.name: getattr(self, one.name) for one in fields(Evidence)}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Referee:
    """Receiver of settled judgements.

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
