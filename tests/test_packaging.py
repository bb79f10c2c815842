"""What is installed: every package and data file that the checkout has."""

from __future__ import annotations

import doctest
import importlib
import importlib.metadata
import linecache
from pathlib import Path

import pytest

import pytest_genderbias
from pytest_genderbias import load_suite, load_wordlist, suite_names
from pytest_genderbias.papers.places import packaged_results, read_runs
from pytest_genderbias.text import packaged

tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no tomllib")
PYPROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
PACKAGE = Path(pytest_genderbias.__file__).parent


def test_every_package_is_named_in_pyproject() -> None:
    found = {
        ".".join(("pytest_genderbias", *p.parent.relative_to(PACKAGE).parts)) for p in PACKAGE.rglob("*/__init__.py")
    }
    data = {f"pytest_genderbias.{name}" for name in ("wordlists", "fixtures", "results")}
    assert found | {"pytest_genderbias"} | data == set(PYPROJECT["tool"]["setuptools"]["packages"])


def test_the_data_folders_are_installed() -> None:
    assert len(suite_names()) > 20
    for name in suite_names():
        assert load_suite(name).name == name
    assert len(read_runs(packaged_results())) > 60
    names = packaged.names("wordlists")
    assert len(names) >= 22
    for name in names:
        assert load_wordlist(name).entries


def test_the_demo_checkpoints_and_the_type_marker_are_installed() -> None:
    assert (PACKAGE / "py.typed").is_file()
    for demo in ("mlm", "lm", "nli"):
        assert (PACKAGE / "demo" / demo / "model.safetensors").is_file()
    size = sum(
        path.stat().st_size
        for path in (PACKAGE / "demo").rglob("*")
        if path.is_file() and "__pycache__" not in str(path)
    )
    assert size < 6 * 2**20


def test_the_plugin_is_registered_as_genderbias() -> None:
    (entry,) = [e for e in importlib.metadata.entry_points(group="pytest11") if e.name == "genderbias"]
    assert entry.value == "pytest_genderbias.plugin"


def test_core_dependencies_are_few() -> None:
    names = {d.split(">")[0] for d in PYPROJECT["project"]["dependencies"]}
    assert names == {"pytest", "torch", "transformers", "scipy", "numpy", "pyyaml", "tabulate", "jinja2", "matplotlib"}


def test_docstring_examples_hold() -> None:
    files = [path for path in PACKAGE.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8")]
    modules = [".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in sorted(files)]
    pure = {path.stem for path in (PACKAGE / "statistics").rglob("*.py")} - {"__init__", "undefined"}
    assert pure <= {module.rpartition(".")[2] for module in modules if module.startswith("statistics.")}
    linecache.clearcache()  # doctest looks again at each file in it, for each docstring
    for module in modules:
        result = doctest.testmod(importlib.import_module(f"pytest_genderbias.{module}"))
        assert result.attempted, module
        assert not result.failed, module
