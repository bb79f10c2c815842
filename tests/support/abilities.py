"""Ability in tests: most of their models are random or made by hand, and are not asked for it; a test of abilities
asks.
"""

from contextlib import contextmanager

from pytest_genderbias.measurement import runner
from pytest_genderbias.measurement.ability_setting import read_ability

#: The same for a run in another process, as a worker of xdist is.
UNASKED = ("-o", "bias_ability=none: models made by hand")
_ASKED = []


def leave_unasked():
    """Let measurements of this process ask for ability only where a test says so, and say nothing of it elsewhere."""
    runner.read_ability = _read


def _read(written):
    return "" if written is None and not _ASKED else read_ability(written)


@contextmanager
def asked():
    """Ask for ability inside the ``with`` block, as a run does."""
    _ASKED.append(True)
    try:
        yield
    finally:
        _ASKED.pop()
