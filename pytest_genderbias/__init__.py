"""Bias regression tests for language models.

``measure(suite, model)`` returns a :class:`Measurement`, which the assertions judge. A model is a spec such as
``"bert-base"``, or an object in memory. Under pytest the fixtures ``bias_model``, ``bias_suite``, ``bias_measure`` and
``bias_baseline`` do the same with the models of ``--bias-model``. Each name is imported when it is first used, so that
``import pytest_genderbias`` imports nothing heavy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_genderbias.errors import BiasError as BiasError
    from pytest_genderbias.errors import GateFailure as GateFailure
    from pytest_genderbias.errors import NotApplicableError as NotApplicableError
    from pytest_genderbias.gates.assertions import assert_at_least as assert_at_least
    from pytest_genderbias.gates.assertions import assert_at_most as assert_at_most
    from pytest_genderbias.gates.assertions import assert_no_regression as assert_no_regression
    from pytest_genderbias.gates.assertions import assert_no_worse as assert_no_worse
    from pytest_genderbias.gates.assertions import assert_same as assert_same
    from pytest_genderbias.gates.assertions import assert_within as assert_within
    from pytest_genderbias.gates.baseline import Baseline as Baseline
    from pytest_genderbias.gates.limits import Limit as Limit
    from pytest_genderbias.gates.limits import decided_by as decided_by
    from pytest_genderbias.measurement.measurement import Measurement as Measurement
    from pytest_genderbias.measurement.runner import measure as measure
    from pytest_genderbias.models.adapters import from_sklearn as from_sklearn
    from pytest_genderbias.models.adapters import from_spacy as from_spacy
    from pytest_genderbias.models.loading import load_model as load_model
    from pytest_genderbias.models.model import Model as Model
    from pytest_genderbias.suites.suite import Suite as Suite
    from pytest_genderbias.suites.suite import load_suite as load_suite
    from pytest_genderbias.suites.suite import suite_names as suite_names
    from pytest_genderbias.text.wordlist import load_wordlist as load_wordlist

#: The public names by their module.
_MODULES = {
    "errors": ("BiasError", "GateFailure", "NotApplicableError"),
    "gates.assertions": (
        "assert_at_least",
        "assert_at_most",
        "assert_no_regression",
        "assert_no_worse",
        "assert_same",
        "assert_within",
    ),
    "gates.limits": ("Limit", "decided_by"),
    "gates.baseline": ("Baseline",),
    "measurement.measurement": ("Measurement",),
    "measurement.runner": ("measure",),
    "models.adapters": ("from_sklearn", "from_spacy"),
    "models.loading": ("load_model",),
    "models.model": ("Model",),
    "suites.suite": ("Suite", "load_suite", "suite_names"),
    "text.wordlist": ("load_wordlist",),
}
_EXPORTS = {name: module for module, names in _MODULES.items() for name in names}
__all__ = list(_EXPORTS)


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562)."""
    if name in _EXPORTS:
        return vars(import_module(f"{__name__}.{_EXPORTS[name]}"))[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names."""
    return sorted([*globals(), *_EXPORTS])
