"""Who hears of judgements, and how strict they are. Apart from ``judgement`` so that it can be imported without numpy."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_genderbias.gates.judgement import Judgement


@dataclass(frozen=True)
class Policy:
    """How strict a run is.

    ``inconclusive`` and ``stale``: whether such a verdict fails a test, ``"fail"`` or ``"warn"``. ``family``: ``--bias-correct-for``, which
    names the comparisons that ``regressed`` is corrected for.
    """

    inconclusive: str = "fail"
    stale: str = "warn"
    family: str | int = "model"


#: Whoever wants to hear of every judgement (the plugin does, for its table) sets this for the time of a test.
LISTENER: ContextVar[Callable[[Judgement], None] | None] = ContextVar("genderbias_listener", default=None)
#: The plugin sets this from ``--bias-inconclusive``, ``--bias-stale`` and ``--bias-correct-for``.
POLICY: ContextVar[Policy] = ContextVar("genderbias_policy", default=Policy())  # noqa: B039 - frozen
