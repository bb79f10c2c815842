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
    from pytest_genderbias.errors import BiasError, GateFailure, NotApplicableError
    from pytest_genderbias.gates.assertions import (
        assert_at_least,
        assert_at_most,
        assert_no_regression,
        assert_no_worse,
        assert_same,
        assert_within,
    )
    from pytest_genderbias.gates.baseline import Baseline
    from pytest_genderbias.gates.limits import Limit, decided_by
    from pytest_genderbias.measurement.measure import measure
    from pytest_genderbias.measurement.measurement import Measurement
    from pytest_genderbias.models.adapters import from_sklearn, from_spacy
    from pytest_genderbias.models.loading import load_model
    from pytest_genderbias.models.model import Model
    from pytest_genderbias.suites.suite import Suite, load_suite, suite_names
    from pytest_genderbias.text.wordlist import load_wordlist

_EXPORTS = {
    "BiasError": "errors",
    "GateFailure": "errors",
    "NotApplicableError": "errors",
    "assert_at_least": "gates.assertions",
    "assert_at_most": "gates.assertions",
    "assert_no_regression": "gates.assertions",
    "assert_no_worse": "gates.assertions",
    "assert_same": "gates.assertions",
    "assert_within": "gates.assertions",
    "Limit": "gates.limits",
    "decided_by": "gates.limits",
    "Baseline": "gates.baseline",
    "Measurement": "measurement.measurement",
    "measure": "measurement.measure",
    "from_sklearn": "models.adapters",
    "from_spacy": "models.adapters",
    "load_model": "models.loading",
    "Model": "models.model",
    "Suite": "suites.suite",
    "load_suite": "suites.suite",
    "suite_names": "suites.suite",
    "load_wordlist": "text.wordlist",
}

__all__ = [
    "Baseline",
    "BiasError",
    "GateFailure",
    "Limit",
    "Measurement",
    "Model",
    "NotApplicableError",
    "Suite",
    "assert_at_least",
    "assert_at_most",
    "assert_no_regression",
    "assert_no_worse",
    "assert_same",
    "assert_within",
    "decided_by",
    "from_sklearn",
    "from_spacy",
    "load_model",
    "load_suite",
    "load_wordlist",
    "measure",
    "suite_names",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562)."""
    if name in _EXPORTS:
        return vars(import_module(f"{__name__}.{_EXPORTS[name]}"))[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names."""
    return sorted([*globals(), *_EXPORTS])
