"""What a run imports: the family and the scorer that it needs, and not those of other suites."""

from __future__ import annotations

import gc
import subprocess
import sys
from weakref import ref

import pytest

from pytest_genderbias.models.source import uncollected_imports
from pytest_genderbias.suites.suite import FAMILIES, load_family

_RUN = """
import sys
from pytest_genderbias import load_suite, measure

class Writer:
    fingerprint = None
    def continuation_log_probs(self, prefixes, continuations):
        return [-1.0 - 0.1 * len(text) for text in continuations]

measured = measure("lm-occupation", Writer(), cache=None, ability="none: it writes nothing")
assert measured.values["aggregate_bias"] is not None
start = "pytest_genderbias.suites.families."
families = [name.removeprefix(start) for name in sys.modules if name.startswith(start) and "shared" not in name]
assert families == ["lm_occupation"], families
heavy = {"torch", "transformers", "scipy.stats", "scipy.optimize", "pandas", "pytest_genderbias.scoring.text_vectors"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""


def test_a_run_imports_its_own_family_and_neither_torch_nor_the_distributions_of_scipy() -> None:
    done = subprocess.run([sys.executable, "-c", _RUN], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_families_are_found_by_their_names() -> None:
    assert [family.name for family in map(load_family, FAMILIES)] == list(FAMILIES)
    assert "nli" in FAMILIES
    assert "nil" not in FAMILIES
    assert load_family("nli") is load_family("nli")
    with pytest.raises(KeyError):
        _ = load_family("nil")


class _Ring:
    def __init__(self) -> None:
        self.itself = self


def test_the_collector_pauses_for_the_first_import_only() -> None:
    assert gc.isenabled()
    with uncollected_imports("a module that nobody imports"):
        assert not gc.isenabled()
    with pytest.raises(KeyError), uncollected_imports("a module that nobody imports"):
        _ = load_family("nil")
    assert gc.isenabled()
    with uncollected_imports("sys"):
        assert gc.isenabled()
    gc.disable()
    try:
        with uncollected_imports("a module that nobody imports"):
            pass
        assert not gc.isenabled(), "what the user switched off stays off"
    finally:
        gc.enable()


def test_the_collector_is_spared_what_imports_made_and_finds_what_came_before_and_after() -> None:
    frozen = gc.get_freeze_count()
    before = ref(_Ring())
    with uncollected_imports("a module that nobody imports"):
        assert before() is None
        made = ref(_Ring())
    assert gc.get_freeze_count() > frozen
    after = ref(_Ring())
    gc.collect()
    gc.unfreeze()
    assert made() is not None
    assert after() is None
