"""Something that happens to workers of Ray while they score, at a place of the work and not of the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from pytest_genderbias.engines.ray_executor import Crew
from pytest_genderbias.scoring.executor import Scored


@contextmanager
def once_scored(windows: int, happens: Callable[[], object]) -> Iterator[None]:
    """Let something happen when so many windows are scored, whatever a window takes."""
    collect, scored = Crew.collect, 0

    def counted(crew: Crew) -> Scored:
        nonlocal scored
        found = collect(crew)
        scored += 1
        if scored == windows:
            happens()
        return found

    with patch.object(Crew, "collect", counted):
        yield
