"""Count what one has to know of the package: code, modules, classes, imports, and what one printed row goes through.

    python scripts/size.py            # the table
    python scripts/size.py --row      # and the modules, functions and frames of one printed row

Lines of code are those that are neither blank nor comments nor docstrings. The row is that of
``pytest --bias-model=demo-lm --bias-suite=lm-occupation --bias-limit=400``: modules of which a function was called,
functions that were called, and the deepest stack of them. Comprehensions and lambdas are part of the function that
they are written in: Python 3.12 gives list comprehensions no frame of their own. ``BUDGETS`` holds the figures that
``tests/test_size.py`` allows; a change that needs more raises them in the commit that adds, with its reason.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tempfile
import threading
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from types import FrameType

import numpy as np
from tabulate import tabulate

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from test_rooms import FACADE, FILES, MODULES, PACKAGE, imports, module_of, nodes_of, room_of

#: The most that is allowed of each figure, and the goal.
BUDGETS: dict[str, tuple[float, float]] = {
    "lines of code": (51_193, 42_000),
    "lines of core and plugin": (34_721, 23_000),
    "modules": (300, 310),
    "classes": (494, 520),
    "dataclasses": (278, 280),
    "own imports of a module, mean": (7.53, 4.5),  # 100 small modules, with few imports each, have gone
    "own imports of a module, 95th percentile": (20, 12),  # a module that took in another has the imports of both
    "file names used twice or more": (4, 10),
    "modules of one printed row": (92, 100),
    "functions of one printed row": (881, 600),  # 874 here, 871 with one thread; some processors take other ways
    "deepest stack of one printed row": (18, 18),
}
_CODE_OF_NOBODY = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_lines(source: str, nodes: Iterable[ast.AST] | None = None) -> int:
    """Return the number of lines that hold code. ``nodes``: those of its tree, if it is parsed already.

    >>> code_lines('def f():\\n    \"\"\"Text.\"\"\"\\n\\n    # why\\n    return 1  # what\\n')
    2
    """
    prose = {
        line
        for node in _docstrings(nodes or ast.walk(ast.parse(source)))
        for line in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {
        line
        for token in tokens
        if token.type not in _CODE_OF_NOBODY
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(lines - prose)


def _docstrings(nodes: Iterable[ast.AST]) -> Iterator[ast.Expr]:
    for node in nodes:
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                yield first


def measure() -> dict[str, float]:
    """Return the figures of the checkout by name."""
    by_room: Counter[str] = Counter()
    for path in FILES:
        by_room[room_of(module_of(path))] += code_lines(path.read_text(encoding="utf-8"), nodes_of(path))
    classes = [node for path in FILES for node in nodes_of(path) if isinstance(node, ast.ClassDef)]
    own = [len(imports(path) & MODULES.keys()) for path in FILES]
    names = Counter(path.name for path in FILES if path.name != "__init__.py")
    return {
        "lines of code": sum(by_room.values()) + code_lines(FACADE.read_text(encoding="utf-8")),
        "lines of core and plugin": by_room["core"] + by_room["plugin"],
        "modules": len(FILES) + 1,
        "classes": len(classes),
        "dataclasses": sum(any("dataclass" in ast.unparse(d) for d in node.decorator_list) for node in classes),
        "own imports of a module, mean": round(float(np.mean(own)), 2),
        "own imports of a module, 95th percentile": float(np.percentile(own, 95, method="higher")),
        "file names used twice or more": sum(count > 1 for count in names.values()),
    }


class Row:
    """Counts what a run calls, in all of its threads."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.functions: set[tuple[str, int]] = set()
        self.deepest = 0

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        """Note the call of a function of the package."""
        if (
            event != "call"
            or not frame.f_code.co_filename.startswith(str(PACKAGE))
            or frame.f_code.co_name.startswith("<")  # a module, or part of a function
        ):
            return
        self.modules.add(frame.f_code.co_filename)
        self.functions.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))
        depth, above = 0, frame
        while above is not None:
            depth += above.f_code.co_filename.startswith(str(PACKAGE)) and not above.f_code.co_name.startswith("<")
            above = above.f_back  # type: ignore[assignment]
        self.deepest = max(self.deepest, depth)


def trace_row() -> dict[str, float]:
    """Return what one printed row goes through."""
    import pytest

    row = Row()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        threading.setprofile(row.profile)
        sys.setprofile(row.profile)
        try:
            code = pytest.main(
                [folder, "--bias-model=demo-lm", "--bias-suite=lm-occupation", "--bias-limit=400", "--bias-no-cache",
                 f"--rootdir={folder}", "-p", "no:cacheprovider", "-p", "no:xdist"]
            )  # fmt: skip
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
    if code != pytest.ExitCode.OK:
        raise SystemExit(f"the run of one row ended with {code!r}")
    return {
        "modules of one printed row": len(row.modules),
        "functions of one printed row": len(row.functions),
        "deepest stack of one printed row": row.deepest,
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", action="store_true", help="trace one printed row, too")
    options = parser.parse_args()
    found = measure() | (trace_row() if options.row else {})
    rows = [(name, value, *BUDGETS.get(name, ("", ""))) for name, value in found.items()]
    print(tabulate(rows, headers=("figure", "now", "budget", "goal"), intfmt=","))


if __name__ == "__main__":
    main()
