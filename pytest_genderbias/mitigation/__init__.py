"""Mitigations, each usable alone: what they change, what they keep, and the control they are held against.

``mitigate`` makes a :class:`MitigationRun`, and ``assert_reduced`` judges it. Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_genderbias.mitigation.curves import resilience
    from pytest_genderbias.mitigation.harness import MitigationRun, mitigate
    from pytest_genderbias.mitigation.registry import make_method, make_recipe
    from pytest_genderbias.mitigation.verdicts import assert_reduced, judge_reduction
    from pytest_genderbias.mitigation.watching import BiasCallback
    from pytest_genderbias.models.saving import save_model

_HOMES = {
    "BiasCallback": "mitigation.watching",
    "MitigationRun": "mitigation.harness",
    "assert_reduced": "mitigation.verdicts",
    "judge_reduction": "mitigation.verdicts",
    "make_method": "mitigation.registry",
    "make_recipe": "mitigation.registry",
    "mitigate": "mitigation.harness",
    "resilience": "mitigation.curves",
    "save_model": "models.saving",
}

__all__ = [
    "BiasCallback",
    "MitigationRun",
    "assert_reduced",
    "judge_reduction",
    "make_method",
    "make_recipe",
    "mitigate",
    "resilience",
    "save_model",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562)."""
    if name in _HOMES:
        return getattr(import_module(f"pytest_genderbias.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
