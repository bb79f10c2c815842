"""Mitigations and their tests: methods, the harness that runs and judges them, and the word lists that methods use.

In: models, methods and recipes. ``mitigate`` returns a :class:`MitigationRun` with the models of each side,
and ``judge_reduction`` and ``assert_reduced`` judge it. The package does not import pytest.
Names are imported on first use, so importing the package loads nothing heavy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_genderbias.mitigation.harness.agreement import agreement as agreement
    from pytest_genderbias.mitigation.harness.callback import BiasCallback as BiasCallback
    from pytest_genderbias.mitigation.harness.curves import Growth as Growth
    from pytest_genderbias.mitigation.harness.curves import growth as growth
    from pytest_genderbias.mitigation.harness.curves import resilience as resilience
    from pytest_genderbias.mitigation.harness.grid import search as search
    from pytest_genderbias.mitigation.harness.run import MitigationRun as MitigationRun
    from pytest_genderbias.mitigation.harness.run import mitigate as mitigate
    from pytest_genderbias.mitigation.harness.run import share_trainings as share_trainings
    from pytest_genderbias.mitigation.harness.verdict import assert_reduced as assert_reduced
    from pytest_genderbias.mitigation.harness.verdict import judge_reduction as judge_reduction
    from pytest_genderbias.mitigation.methods.registry import make_method as make_method
    from pytest_genderbias.mitigation.methods.registry import make_recipe as make_recipe
    from pytest_genderbias.models.saving import save_model as save_model

#: The public names by their module.
_MODULES = {
    "mitigation.harness.callback": ("BiasCallback",),
    "mitigation.harness.curves": ("Growth", "growth", "resilience"),
    "mitigation.harness.run": ("MitigationRun", "mitigate", "share_trainings"),
    "mitigation.harness.agreement": ("agreement",),
    "mitigation.harness.verdict": ("assert_reduced", "judge_reduction"),
    "mitigation.methods.registry": ("make_method", "make_recipe"),
    "mitigation.harness.grid": ("search",),
    "models.saving": ("save_model",),
}
_EXPORTS = {name: module for module, names in _MODULES.items() for name in names}
__all__ = list(_EXPORTS)


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562)."""
    if name in _EXPORTS:
        return getattr(import_module(f"pytest_genderbias.{_EXPORTS[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
