"""Trace four ways through the package on the demo models, and print the modules in the order in which they are
entered.

``python scripts/ways.py baseline`` goes from a gate with a baseline entry to its verdict, ``mitigate`` from a
``mitigate:`` block to its verdict, ``correct-for`` from the key ``bias_correct_for`` to its effect, and ``load`` from
the spec of a checkpoint to its model.

A module is entered when a function of another module calls one of its functions; consecutive entries of one module
count once. A package below those of the way (statistics, scoring, ...) is one step: what its modules call among
themselves is counted, and not listed. Two kinds of calls that enter nothing themselves are counted apart: reads of
plain data (properties and methods of frozen dataclasses, and their conversion) and the formatting of numbers and texts.
``--all`` lists them as steps, too. The turns of a loop, in which the same functions are called in the same order, are
listed and counted once.
"""

from __future__ import annotations

import argparse
import inspect
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field, is_dataclass
from io import StringIO
from pathlib import Path
from types import CodeType, FrameType

PACKAGE = "pytest_genderbias."
_NUMBER = 12_345  #: value of the flag, by which calls that receive it are recognised
_HELPERS = (
    "escaping",
    "text.printable",
    "gates.verdicts",
    "measurement.plain_data",
    "text.schema",
    "plugin.doors",  # which only looks names up
)
_DECIDES = ("correction_for",)  #: of a helper, and a step all the same
_LONGEST_LOOP = 12
_FORMATTERS = ("format_interval", "format_null", "format_record", "describe_direction")

_GATES = "gates:\n  - {suite: lm-occupation, baseline: true, margin: 0, settings: {limit: 400}}\n"
_MITIGATE = """mitigate:
  - method: [wed, projection]
    controls: 2
    reduces:
      - {suite: lm-occupation, by: 0.1, settings: {limit: 400}}
"""


@dataclass(eq=False)
class Call:
    """A call that enters a module from another one."""

    module: str
    function: str
    is_data: bool = False  #: of a frozen dataclass
    has_flag: bool = False  #: an argument holds the value of the flag
    children: list[Call] = field(default_factory=list)

    def walk(self) -> Iterator[Call]:
        """Yield this call and all below it, in the order in which they were made."""
        yield self
        for child in self.children:
            yield from child.walk()


class Tracer:
    """Records a tree of calls between the modules of the package, by ``sys.setprofile``."""

    def __init__(self) -> None:
        self.root = Call("", "")
        self._stack: list[Call | None] = [self.root]  # the entered module of each active frame; None while importing
        self._generators: dict[FrameType, Call | None] = {}  # a resumed generator is not entered anew

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        """Follow calls into, and returns from, functions of the package."""
        module = str(frame.f_globals.get("__name__", ""))
        if event not in ("call", "return") or not module.startswith(PACKAGE):
            return
        if event == "return":
            if len(self._stack) > 1:
                self._stack.pop()
            return
        caller, code = self._stack[-1], frame.f_code
        name = module.removeprefix(PACKAGE)
        if frame in self._generators:
            self._stack.append(self._generators[frame])
            return
        if caller is None or code.co_name == "<module>":
            self._stack.append(None)
        elif name == caller.module:
            caller.has_flag = caller.has_flag or _receives_flag(frame, code)
            self._stack.append(caller)
        else:
            entered = Call(name, code.co_name, _is_data(frame, code, module), _receives_flag(frame, code))
            caller.children.append(entered)
            self._stack.append(entered)
        if code.co_flags & inspect.CO_GENERATOR:
            self._generators[frame] = self._stack[-1]


def _is_data(frame: FrameType, code: CodeType, module: str) -> bool:
    owner = frame.f_locals.get("self", frame.f_locals.get("cls")) if code.co_argcount else None
    kind = owner if isinstance(owner, type) else type(owner)
    parameters = inspect.getattr_static(kind, "__dataclass_params__", None)
    return parameters is not None and parameters.frozen and any(base.__module__ == module for base in kind.__mro__)


def _receives_flag(frame: FrameType, code: CodeType) -> bool:
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return any(_holds_flag(frame.f_locals.get(name)) for name in names)


def _holds_flag(value: object) -> bool:
    if isinstance(value, (int, str)):
        return str(value) == str(_NUMBER)
    if not is_dataclass(value) or isinstance(value, type) or not type(value).__module__.startswith(f"{PACKAGE}gates"):
        return False
    return any(_holds_flag(item) for item in vars(value).values() if not isinstance(item, dict))


def steps(root: Call, packages: tuple[str, ...], everything: bool) -> tuple[list[Call], Counter[str], Counter[str]]:
    """Return the steps of a way, merged; and how often plain data, formatting and modules below the road were
    called.
    """
    way: list[Call] = []
    leaves: Counter[str] = Counter()
    below: Counter[str] = Counter()

    def visit(call: Call, from_road: bool) -> None:
        on_road = call.module.startswith(packages)
        helps = call.module in _HELPERS and call.function not in _DECIDES
        formats = helps or call.function in _FORMATTERS
        deeper = [item for child in call.children for item in child.walk() if not item.is_data]
        if not everything and (formats or (call.is_data and not deeper)):
            leaves[call.module] += 1
            return
        if not (on_road or from_road):
            below[call.module] += 1
        elif not way or way[-1].module != call.module:
            way.append(call)
        for child in call.children:
            visit(child, on_road)

    for child in root.children:
        visit(child, True)
    return way, leaves, below


def fold(way: list[Call]) -> list[tuple[list[Call], int]]:
    """Return a way as blocks of steps, each with the number of times that it is done in a row."""
    names = [(call.module, call.function) for call in way]
    blocks: list[tuple[list[Call], int]] = []
    start = 0
    while start < len(way):
        length, times = max(
            ((size, _repeats(names, start, size)) for size in range(1, _LONGEST_LOOP + 1)),
            key=lambda loop: (loop[0] * (loop[1] - 1), -loop[0]),
        )
        blocks.append((way[start : start + length], times))
        start += length * times
    return blocks


def _repeats(names: list[tuple[str, str]], start: int, size: int) -> int:
    """Return how often the steps from ``start`` are done in a row, at least once."""
    block, times = names[start : start + size], 1
    while names[start + times * size : start + (times + 1) * size] == block:
        times += 1
    return times


def show(root: Call, packages: tuple[str, ...], everything: bool) -> None:
    """Print a way, how often each module is entered, and what is not listed."""
    way, leaves, below = steps(root, packages, everything)
    once: list[Call] = []
    for block, times in fold(way):
        first = len(once) + 1
        for call in block:
            once.append(call)
            print(f"{len(once):3}. {call.module} ({call.function})")
        if times > 1:
            print(f"     steps {first} to {len(once)}: {times} times in a loop")
    entered = Counter(call.module for call in once)
    often = [f"{module} {count}" for module, count in entered.most_common() if count > 2]
    print(
        f"\n{len(once)} steps ({len(way)} with all turns of loops), {len(entered)} modules; entered more than twice:"
        f" {', '.join(often) or 'none'}"
    )
    print(f"plain data and formatting, calls: {', '.join(f'{m} {n:,}' for m, n in leaves.most_common()) or 'none'}")
    print(f"below the road, calls: {', '.join(f'{m} {n:,}' for m, n in below.most_common()) or 'none'}")


class _TestCalls:
    """A plugin that traces what a test does when it runs, and no other hook."""

    def __init__(self, tracer: Tracer, hooks: tuple[str, ...]) -> None:
        import pytest

        for hook in hooks:
            setattr(self, hook, pytest.hookimpl(wrapper=True, tryfirst=True)(_traced(tracer)))


def _traced(tracer: Tracer):
    def hook():
        sys.setprofile(tracer.profile)
        try:
            return (yield)
        finally:
            sys.setprofile(None)

    return hook


def run_pytest(folder: Path, *arguments: str, plugins: tuple[object, ...] = ()) -> None:
    """Run pytest in a folder, in this process, and keep its output to itself unless it cannot run."""
    import pytest

    output, here = StringIO(), Path.cwd()
    os.chdir(folder)
    try:
        with redirect_stdout(output):
            status = pytest.main(["-p", "no:cacheprovider", "-q", "--rootdir", str(folder), *arguments], [*plugins])
    finally:
        os.chdir(here)
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        sys.exit(output.getvalue())


def changed_model(folder: Path) -> str:
    """Return the path of a checkpoint like the demo LM with some noise, so that its bias differs in every item."""
    import torch

    from pytest_genderbias import load_model

    model = load_model("demo-lm")
    torch.manual_seed(0)
    weights = model.backend.network.get_input_embeddings().weight
    weights.data += 0.05 * weights.data.std() * torch.randn_like(weights)
    model.backend.network.save_pretrained(folder / "changed")
    model.backend.tokenizer.save_pretrained(folder / "changed")
    return str(folder / "changed")


def trace_baseline(folder: Path) -> Call:
    """Trace the comparison of a measurement with a baseline entry, from the assertion to its outcome."""
    from pytest_genderbias import Baseline, GateFailure, assert_no_regression, load_model, measure

    folder.joinpath("g.bias.yaml").write_text(_GATES)
    run_pytest(folder, "g.bias.yaml", "--bias-model=m=demo-lm", "--bias-update", f"--bias-baseline={folder}")
    measurement = measure("lm-occupation", load_model(f"m={changed_model(folder)}"), limit=400, cache=None)
    tracer = Tracer()
    sys.setprofile(tracer.profile)
    try:
        assert_no_regression(measurement, Baseline(folder, "m", "g.bias.yaml"))
    except GateFailure as failure:
        verdict = str(failure).partition(":")[0]
    else:
        verdict = "pass"
    finally:
        sys.setprofile(None)
    print(f"verdict: {verdict}\n")
    return tracer.root


def trace_mitigation(folder: Path) -> Call:
    """Trace a mitigation, from its block in a file to the outcome of its test."""
    folder.joinpath("m.bias.yaml").write_text(_MITIGATE)
    tracer = Tracer()
    hooks = _TestCalls(tracer, ("pytest_make_collect_report", "pytest_runtest_call"))
    run_pytest(folder, "m.bias.yaml", "--bias-model=m=demo-lm", "--bias-cache=none", plugins=(hooks,))
    return tracer.root


def trace_flag(folder: Path) -> Call:
    """Trace the calls that receive the value of the flag, in a run with a baseline entry."""
    folder.joinpath("g.bias.yaml").write_text(_GATES)
    run_pytest(folder, "g.bias.yaml", "--bias-model=m=demo-lm", "--bias-update")
    tracer = Tracer()
    model = f"--bias-model=m={changed_model(folder)}"
    sys.setprofile(tracer.profile)
    try:
        run_pytest(folder, "g.bias.yaml", model, "--bias-cache=none", f"-obias_correct_for={_NUMBER}")
    finally:
        sys.setprofile(None)
    calls = [call for call in tracer.root.walk() if call.has_flag]
    return Call("", "", children=[Call(call.module, call.function, call.is_data, True) for call in calls])


def trace_load(folder: Path) -> Call:
    """Trace the loading of a checkpoint, after one that imports what it needs."""
    from pytest_genderbias import load_model

    load_model("demo-lm")
    tracer = Tracer()
    sys.setprofile(tracer.profile)
    try:
        load_model("demo-lm")
    finally:
        sys.setprofile(None)
    return tracer.root


#: A way, and the packages whose modules are listed one by one.
WAYS = {
    "baseline": (trace_baseline, ("gates.",)),
    "mitigate": (trace_mitigation, ("mitigation.harness.", "gates.", "plugin.", "measurement.runner")),
    "correct-for": (trace_flag, ("plugin.", "gates.")),
    "load": (trace_load, ("models.", "engines.")),
}


def main() -> None:
    """Trace and print one way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--all", action="store_true", help="list reads of plain data and formatting as steps, too")
    options = parser.parse_args()
    trace, packages = WAYS[options.way]
    with tempfile.TemporaryDirectory() as folder:
        root = trace(Path(folder).resolve())
    show(root, packages, options.all)


if __name__ == "__main__":
    main()
