"""The rooms of the house: imports only run along the road that data takes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pytest_genderbias

PACKAGE = Path(pytest_genderbias.__file__).parent
ROAD = [
    "errors",
    "folders",
    "text",
    "datasets",
    "statistics",
    "suites",
    "models",
    "scoring",
    "measurement",
    "gates",
    "recipes",
    "mitigation",
    "reports",
    "plugin",
]
DATA = {"demo", "fixtures", "wordlists"}  # an installed wheel holds all three, a checkout only the first
FILES = sorted(p for p in PACKAGE.rglob("*.py") if p.parent.name not in DATA and p != PACKAGE / "__init__.py")


def imported(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found += [node.module or ""]
    return found


def at_load(path: Path) -> list[str]:
    """Imports that run when the module is imported: none inside functions, none for type checkers."""
    tree = ast.parse(path.read_text())
    kept = [node for node in tree.body if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))]
    flat = [node for top in kept for node in ([top] if isinstance(top, (ast.Import, ast.ImportFrom)) else [])]
    return imported(ast.Module(flat, []))


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_run_along_the_road(path: Path) -> None:
    here = ROAD.index(room(path))
    for name in imported(ast.parse(path.read_text())):
        if name.startswith("pytest_genderbias."):
            target = name.split(".")[1]
            assert ROAD.index(target) <= here, f"{path.name} in {room(path)} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_the_plugin_knows_pytest(path: Path) -> None:
    names = {name.split(".")[0] for name in imported(ast.parse(path.read_text()))}
    assert "pytest" not in names or room(path) == "plugin"
    if room(path) in ("text", "datasets", "statistics", "suites", "gates", "reports"):
        assert not names & {"torch", "transformers"}


# Networks are classes of torch's, which need it when they are defined: their modules are imported inside functions instead.
NETWORKS = PACKAGE / "models" / "networks"


def test_networks_are_imported_inside_functions() -> None:
    for path in FILES:
        if path.parent != NETWORKS:
            assert not [name for name in at_load(path) if name.startswith("pytest_genderbias.models.networks.")], path


@pytest.mark.parametrize(
    "path",
    [p for p in FILES if p.parent != NETWORKS or p.name == "__init__.py"],
    ids=lambda p: str(p.relative_to(PACKAGE)),
)
def test_torch_and_transformers_are_imported_inside_functions(path: Path) -> None:
    assert not {name.split(".")[0] for name in at_load(path)} & {
        "torch",
        "transformers",
        "tqdm",
        "tabulate",
        "filelock",
    }


def test_every_public_name_is_there() -> None:
    for name in pytest_genderbias.__all__:
        assert getattr(pytest_genderbias, name) is not None
    assert {"load_model", "load_suite", "measure", "Measurement"} <= set(pytest_genderbias.__all__)
    with pytest.raises(AttributeError):
        _ = pytest_genderbias.no_such_name
