"""Who hears of judgements. Apart from ``judgement`` so that it can be imported without numpy."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_genderbias.gates.judgement import Judgement

#: Whoever wants to hear of every judgement (the plugin does, for its table) sets this for the time of a test.
LISTENER: ContextVar[Callable[[Judgement], None] | None] = ContextVar("genderbias_listener", default=None)
