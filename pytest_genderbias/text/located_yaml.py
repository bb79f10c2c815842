"""YAML that remembers its lines, so that an error can name file and line.

Only the safe subset of YAML is constructed. A key that stands twice in a mapping is an error, where plain PyYAML keeps the last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from pytest_genderbias.errors import DataFileError

_Safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Loader(_Safe):  # type: ignore[misc]
    """PyYAML's safe loader, to which ``5e-5`` is a number, as it is in YAML 1.2: YAML 1.1 wants ``5.0e-5``, and reads a text."""


Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


class LocatedMap(dict[str, Any]):
    """A mapping that knows its file, its own line and the line of every key."""

    def __init__(self, file: str, line: int) -> None:
        super().__init__()
        self.file, self.line = file, line
        self.lines: dict[str, int] = {}


class LocatedList(list[Any]):
    """A sequence that knows its file, its own line and the line of every element."""

    def __init__(self, file: str, line: int) -> None:
        super().__init__()
        self.file, self.line = file, line
        self.lines: list[int] = []


def read_yaml(path: Path) -> LocatedMap:
    """Read one YAML mapping from a file, or raise :class:`DataFileError` with file and line."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataFileError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataFileError(f"{path}: cannot be read: {error}") from None
    loader = None
    try:
        loader = Loader(text)
        node = loader.get_single_node()
        value = _build(loader, node, str(path)) if node is not None else None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        problem = getattr(error, "problem", None) or str(error)
        raise DataFileError(f"{path}:{line}: not valid YAML: {problem}") from None
    finally:
        if loader is not None:
            loader.dispose()
    if not isinstance(value, LocatedMap):
        raise DataFileError(f"{path}:1: expected a mapping (key: value) at the top level, got {_kind(value)}")
    return value


def _build(loader: Any, node: Any, file: str, around: tuple[Any, ...] = ()) -> Any:
    line = node.start_mark.line + 1
    if any(node is outer for outer in around):
        raise DataFileError(f"{file}:{line}: not valid YAML: an alias stands for something that it is in itself")
    if isinstance(node, yaml.MappingNode):
        mapping = LocatedMap(file, line)
        for key_node, value_node in node.value:
            key = _scalar(loader, key_node, file)
            key_line = key_node.start_mark.line + 1
            if not isinstance(key, str):
                raise DataFileError(f"{file}:{key_line}: expected a text as key, got {key!r}; put it in quotes")
            if key in mapping:
                raise DataFileError(f"{file}:{key_line}: key {key!r} stands twice (first on line {mapping.lines[key]})")
            mapping[key] = _build(loader, value_node, file, (*around, node))
            mapping.lines[key] = key_line
        return mapping
    if isinstance(node, yaml.SequenceNode):
        sequence = LocatedList(file, line)
        for child in node.value:
            sequence.append(_build(loader, child, file, (*around, node)))
            sequence.lines.append(child.start_mark.line + 1)
        return sequence
    return _scalar(loader, node, file)


def _scalar(loader: Any, node: Any, file: str) -> Any:
    try:
        return loader.construct_object(node, deep=True)
    except ValueError as error:  # a date that does not exist
        raise DataFileError(f"{file}:{node.start_mark.line + 1}: not valid YAML: {error}; put it in quotes") from None


def refuse_unknown(mapping: LocatedMap, allowed: Iterable[str], what: str) -> None:
    """Raise if ``mapping`` has a key outside ``allowed``."""
    known = sorted(allowed)
    for key in mapping:
        if key not in known:
            raise DataFileError(
                f"{mapping.file}:{mapping.lines[key]}: unknown key {key!r} in {what}; expected one of {', '.join(known)}"
            )


_MISSING = object()


def take(mapping: LocatedMap, key: str, kind: type | tuple[type, ...], what: str, default: Any = _MISSING) -> Any:
    """Return ``mapping[key]`` if it is of the wanted kind; empty texts, lists and mappings are refused."""
    if key not in mapping:
        if default is not _MISSING:
            return default
        raise DataFileError(f"{mapping.file}:{mapping.line}: {what} has no {key!r}; add it")
    value, line = mapping[key], mapping.lines[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and bool not in _as_tuple(kind)):
        wanted = " or ".join(_NAMES.get(k, k.__name__) for k in _as_tuple(kind))
        raise DataFileError(f"{mapping.file}:{line}: {key!r} of {what} should be {wanted}, got {_kind(value)}")
    if isinstance(value, (str, Mapping, list)) and not value:
        raise DataFileError(f"{mapping.file}:{line}: {key!r} of {what} is empty")
    return value


_NAMES: dict[type, str] = {
    str: "a text", dict: "a mapping", list: "a list", bool: "true or false", int: "a whole number", float: "a number",
    LocatedMap: "a mapping", LocatedList: "a list",
}  # fmt: skip


def _as_tuple(kind: type | tuple[type, ...]) -> tuple[type, ...]:
    return kind if isinstance(kind, tuple) else (kind,)


def _kind(value: object) -> str:
    return f"{_NAMES.get(type(value), type(value).__name__)} ({value!r:.60})" if value is not None else "nothing"
