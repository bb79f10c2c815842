"""Mitigations and their tests: methods, the harness that runs and judges them, and the word lists that methods use.

In: models, methods and recipes. ``mitigate`` returns a :class:`MitigationRun` with the models of each side,
and ``judge_reduction`` and ``assert_reduced`` judge it. The package does not import pytest.
Names are imported on first use, so importing the package loads nothing heavy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_genderbias.mitigation.harness.agreement import agreement
    from pytest_genderbias.mitigation.harness.callback import BiasCallback
    from pytest_genderbias.mitigation.harness.grid import search
    from pytest_genderbias.mitigation.harness.growth import Growth, growth
    from pytest_genderbias.mitigation.harness.resilience import resilience
    from pytest_genderbias.mitigation.harness.run import MitigationRun, mitigate
    from pytest_genderbias.mitigation.harness.verdict import assert_reduced, judge_reduction
    from pytest_genderbias.mitigation.methods.registry import make_method, make_recipe
    from pytest_genderbias.models.saving import save_model

_EXPORTS = {
    "BiasCallback": "mitigation.harness.callback",
    "Growth": "mitigation.harness.growth",
    "MitigationRun": "mitigation.harness.run",
    "agreement": "mitigation.harness.agreement",
    "assert_reduced": "mitigation.harness.verdict",
    "growth": "mitigation.harness.growth",
    "judge_reduction": "mitigation.harness.verdict",
    "make_method": "mitigation.methods.registry",
    "make_recipe": "mitigation.methods.registry",
    "mitigate": "mitigation.harness.run",
    "resilience": "mitigation.harness.resilience",
    "search": "mitigation.harness.grid",
    "save_model": "models.saving",
}

__all__ = [
    "BiasCallback",
    "Growth",
    "MitigationRun",
    "agreement",
    "assert_reduced",
    "growth",
    "judge_reduction",
    "make_method",
    "make_recipe",
    "mitigate",
    "resilience",
    "save_model",
    "search",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562)."""
    if name in _EXPORTS:
        return getattr(import_module(f"pytest_genderbias.{_EXPORTS[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
