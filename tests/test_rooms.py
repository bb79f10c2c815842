"""The rooms of the package and the walls between them.

Imports run in one direction, from the data to the plugin, and never in a circle. A room holds one or more folders
(``ROOMS``); ``folder_of`` and ``room_of`` tell them apart.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import pytest_genderbias
from pytest_genderbias.models.loading import KINDS
from pytest_genderbias.models.spec import ENGINES, Engine
from pytest_genderbias.plugin.doors import DOORS, EXECUTORS, door, reach
from pytest_genderbias.plugin.outputs import OUTPUTS

PACKAGE = Path(pytest_genderbias.__file__).parent
#: Folders and single modules of the package. Each imports only those above it, and of these only what its room may.
ROAD = [
    "escaping",
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
    "engines",
    "recipes",
    "mitigation",
    "reports",
    "papers",
    "plugin",
    "command_line",
    "__main__",
]
#: The folders and modules of each room.
ROOMS = {
    "core": ROAD[: ROAD.index("engines")],
    "engines": ["engines"],
    "lab": ["recipes", "mitigation", "papers"],
    "show": ["reports"],
    "plugin": ["plugin", "command_line", "__main__"],
}
ROOM_OF = {folder: room for room, folders in ROOMS.items() for folder in folders}
#: The record of a run, from which every page is made: of the core, though it lies beside the pages.
RECORD = {f"{PACKAGE.name}.reports.{name}" for name in ("run_report", "picture", "selection")}
#: Rooms that a room may import by statements.
OPEN = {"core": set(), "engines": {"core"}, "lab": {"core"}, "show": {"core"}, "plugin": {"core"}}
#: Tables through which a module reaches other rooms, by name and when they are needed.
TABLES = {
    "models/spec.py": {"engines"},  # the kinds of models
    "models/config.py": {"lab"},  # networks of this package
    "plugin/outputs.py": {"show"},  # files that are made from a run
    "plugin/doors.py": {"show", "lab", "engines"},
    "command_line/main.py": {"lab"},  # commands
}
DATA = {"demo", "fixtures", "results", "wordlists"}  # an installed wheel holds all four, a checkout only the first
OWN = f"{PACKAGE.name}."
FACADE = PACKAGE / "__init__.py"
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.parent.name not in DATA and path != FACADE)
HEAVY = {"torch", "transformers", "tqdm", "tabulate", "filelock", "matplotlib", "jinja2", "markupsafe", "ray", "spacy"}
# Networks subclass torch's classes and need torch when they are defined: their modules are imported inside functions.
NETWORKS = PACKAGE / "recipes" / "networks"
DEFINE_NETWORKS = {*NETWORKS.glob("[!_]*.py"), PACKAGE / "engines" / "exported_network.py"}


def module_of(path: Path) -> str:
    parts = (PACKAGE.name, *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in (FACADE, *FILES)}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of the tree of a file: to walk it takes longer than to parse it."""
    return tuple(ast.walk(tree_of(path)))


def named_by_statements(nodes: Iterable[ast.AST], modules: Iterable[str] = MODULES) -> Iterator[str]:
    """Yield the modules that import statements name; ``from package import module`` names the module."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            members = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in modules else node.module for name in members)


def named_by_calls(nodes: Sequence[ast.AST], own_name: str, modules: Iterable[str] = MODULES) -> Iterator[str]:
    """Yield the modules that calls of ``import_module`` name.

    An argument is a constant, or an f-string such as ``f"pytest_genderbias.{TABLE[key]}"``. With an f-string every
    string in the module counts that completes the prefix to a module of the package, be it a name (``"gates.limits"``)
    or a name with a class (``"mitigation.methods.dropout:Dropout"``). Other arguments name modules of the user.
    """
    strings = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    ends = sorted(string.partition(":")[0] for string in strings)
    for node in nodes:
        if isinstance(node, ast.Call) and last_name(node.func) == "reach":  # of plugin/doors.py
            start = OWN + (prefix_of(node.args[0], own_name) if isinstance(node.args[0], ast.JoinedStr) else "")
            yield from (start + end for end in ends if start + end in modules)
        if not (isinstance(node, ast.Call) and last_name(node.func) == "import_module"):
            continue
        if isinstance(node.args[0], ast.Constant):
            yield str(node.args[0].value)
        elif isinstance(node.args[0], ast.JoinedStr):
            prefix = prefix_of(node.args[0], own_name)
            yield from (prefix + end for end in ends if prefix + end in modules)


def last_name(function: ast.expr) -> str:
    """Return the name of what is called, without what is before its last dot."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def prefix_of(text: ast.JoinedStr, own_name: str) -> str:
    """Return the constant text with which an f-string begins; ``{__name__}`` is constant, too."""
    prefix = ""
    for part in text.values:
        if isinstance(part, ast.Constant):
            prefix += str(part.value)
        elif isinstance(part, ast.FormattedValue) and ast.unparse(part.value) == "__name__":
            prefix += own_name
        else:
            break
    return prefix


@cache
def imports(path: Path) -> frozenset[str]:
    """Return the modules that a file imports anywhere: at the top, inside functions, for type checkers, or by name but
    for its table.
    """
    by_name = {name for name in named_by_calls(nodes_of(path), module_of(path)) if name not in in_table(path)}
    return frozenset((*named_by_statements(nodes_of(path)), *by_name))


@cache
def in_table(path: Path) -> frozenset[str]:
    """Return the modules of other rooms that a file reaches through its table."""
    rooms = TABLES.get(short(path), set())
    named = named_by_calls(nodes_of(path), module_of(path)) if rooms else ()
    return frozenset(name for name in named if name.startswith(OWN) and room_of(name) in rooms)


def imports_at_load(path: Path) -> set[str]:
    """Return the modules that are imported when a file is: not those inside functions, nor those for type checkers."""
    top = [node for node in tree_of(path).body if isinstance(node, (ast.Import, ast.ImportFrom))]
    return set(named_by_statements(top))


def first_names(modules: Iterable[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def folder_of(path: Path) -> str:
    """Return the folder or module of :data:`ROAD` that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def room_of(module: str) -> str:
    """Return the room of a module of the package, ``core`` for one that holds data."""
    return "core" if module in RECORD else ROOM_OF.get(module.split(".")[1], "core")


def short(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the groups of nodes that reach each other (Tarjan's strongly connected components of two nodes or
    more).
    """
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(node: str) -> None:
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for target in graph.get(node, ()):
            if target not in number:
                visit(target)
                lowest[node] = min(lowest[node], lowest[target])
            elif target in stack:
                lowest[node] = min(lowest[node], number[target])
        if lowest[node] == number[node]:
            at = stack.index(node)
            if len(stack) - at > 1 or node in graph.get(node, ()):
                groups.append(sorted(stack[at:]))
            del stack[at:]

    for node in graph:
        if node not in number:
            visit(node)
    return groups


def test_imports_run_along_the_road() -> None:
    offences = [
        f"{short(path)} imports {name}"
        for path in FILES
        for name in sorted(imports(path))
        if name.startswith("pytest_genderbias.")
        and name.split(".")[1] not in DATA
        and ROAD.index(name.split(".")[1]) > ROAD.index(folder_of(path))
    ]
    assert not offences, "imports against the road:\n" + "\n".join(offences)


def test_walls() -> None:
    """No room imports another one but the core, except by name through the tables above."""
    offences = [
        f"{short(path)} imports {name}"
        for path in FILES
        for name in sorted(imports(path))
        if name.startswith(OWN) and room_of(name) not in {room_of(module_of(path)), *OPEN[room_of(module_of(path))]}
    ]
    assert not offences, "imports through a wall:\n" + "\n".join(offences)


def test_tables_name_modules_of_their_rooms() -> None:
    for file, rooms in TABLES.items():
        assert {room_of(name) for name in in_table(PACKAGE / file)} == rooms, file


def test_tables_name_what_is_there() -> None:
    for name, kind in {**ENGINES, **{name: Engine(module) for name, module in KINDS.items()}}.items():
        for function in ("inspect", "load", *(["parse"] if kind.prefix else [])):
            assert callable(vars(import_module(OWN + kind.module)).get(function)), (name, function)
    for name in DOORS:
        assert callable(door(name)), name
    writers = [f"reports.{output.writer}" for output in OUTPUTS]
    for place in (*writers, *(place for executor in EXECUTORS.values() for place in executor)):
        assert callable(reach(place)), place


def test_no_file_imports_the_facade() -> None:
    offences = [short(path) for path in FILES if "pytest_genderbias" in imports(path)]
    assert not offences, f"import from the module that defines the name, not from the package: {', '.join(offences)}"


def test_no_circle_between_folders() -> None:
    graph: dict[str, set[str]] = {}
    for path in FILES:
        folders = {name.split(".")[1] for name in imports(path) if name.startswith("pytest_genderbias.")}
        graph.setdefault(folder_of(path), set()).update(folders - {folder_of(path)})
    assert not circles(graph), "folders that import each other: " + "; ".join(map(", ".join, circles(graph)))


def test_no_circle_between_modules() -> None:
    graph = {name: imports(path) & MODULES.keys() for name, path in MODULES.items()}
    assert not circles(graph), "modules that import each other: " + "; ".join(map(", ".join, circles(graph)))


def test_only_the_plugin_and_the_command_line_import_pytest() -> None:
    folders = ("plugin", "command_line")
    offences = [
        short(path) for path in FILES if folder_of(path) not in folders and "pytest" in first_names(imports(path))
    ]
    assert not offences, f"files outside of these folders that import pytest: {', '.join(offences)}"


def test_folders_without_models_import_neither_torch_nor_transformers() -> None:
    folders = ("text", "datasets", "statistics", "suites", "gates", "reports")
    offences = [
        short(path)
        for path in FILES
        if folder_of(path) in folders and first_names(imports(path)) & {"torch", "transformers"}
    ]
    assert not offences, f"files that import torch or transformers: {', '.join(offences)}"


def test_networks_are_imported_inside_functions() -> None:
    offences = [
        f"{short(path)} imports {name}"
        for path in FILES
        if path not in DEFINE_NETWORKS
        for name in sorted(imports_at_load(path))
        if name in {module_of(defining) for defining in DEFINE_NETWORKS}
    ]
    assert not offences, "networks imported at load:\n" + "\n".join(offences)


def test_heavy_packages_are_imported_inside_functions() -> None:
    offences = [
        f"{short(path)} imports {', '.join(sorted(first_names(imports_at_load(path)) & HEAVY))}"
        for path in FILES
        if path not in DEFINE_NETWORKS and first_names(imports_at_load(path)) & HEAVY
    ]
    assert not offences, "heavy packages imported at load:\n" + "\n".join(offences)


def test_every_file_is_checked() -> None:
    assert {folder_of(path) for path in FILES} == set(ROAD)
    assert len(FILES) > 150


def test_imports_by_name_are_walked() -> None:
    """Tables of modules that are imported by name count as imports."""
    modules = ("p.rooms.one", "p.rooms.two", "p.rooms.three")
    source = """
        from importlib import import_module
        import importlib
        from p.rooms import three, ABOUT
        TABLE = {"a": "one", "b": "two:Class", "c": "none"}
        importlib.import_module("p.fixed")
        import_module(f"p.rooms.{TABLE[key]}")
        import_module(chosen_by_the_user)
    """
    tree = tuple(ast.walk(ast.parse("\n".join(line.strip() for line in source.splitlines()))))
    assert set(named_by_calls(tree, "p.own", modules)) == {"p.fixed", "p.rooms.one", "p.rooms.two"}
    assert {"p.rooms", "p.rooms.three"} <= set(named_by_statements(tree, modules))
    facade = imports(FACADE)
    assert {f"pytest_genderbias.{name}" for name in ("gates.limits", "models.model", "text.wordlist")} <= facade
    assert "pytest_genderbias.recipes.lstm" in imports(PACKAGE / "mitigation" / "methods" / "registry.py")
    assert "pytest_genderbias.recipes.networks.word_lstm" in in_table(PACKAGE / "models" / "config.py")


def test_circles_are_found() -> None:
    assert circles({"a": "b", "b": "c", "c": "a", "d": "a"}) == [["a", "b", "c"]]
    assert circles({"a": "bc", "b": "c", "c": ""}) == []


def test_every_public_name_is_there() -> None:
    for name in pytest_genderbias.__all__:
        assert getattr(pytest_genderbias, name) is not None
    assert {"load_model", "load_suite", "measure", "Measurement"} <= set(pytest_genderbias.__all__)
    with pytest.raises(AttributeError):
        _ = pytest_genderbias.no_such_name
