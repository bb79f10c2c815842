"""How runs are carried out, one module a kind: each takes settings and places, and returns figures by side, suite and
statistic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from pytest_genderbias.papers.kinds.outcome import Outcome
from pytest_genderbias.papers.places import Places

CarryOut = Callable[[Mapping[str, Any], Places], Outcome]

#: Modules by the name of the kind; each has ``carry_out(settings, places)``.
KINDS: Mapping[str, str] = {
    "agreement": "agreement",
    "extremes": "extremes",
    "growth": "growth",
    "mitigation": "mitigation",
    "paired-subspace": "paired_subspace",
    "resilience": "resilience",
    "scrubbed-words": "scrubbed_words",
}


def kind_named(name: str) -> CarryOut:
    """Return the function that carries out runs of a kind."""
    carry_out: CarryOut = import_module(f"{__name__}.{KINDS[name]}").carry_out
    return carry_out
