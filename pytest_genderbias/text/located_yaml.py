"""YAML with line numbers, so that an error can name file and line.

Only the safe subset of YAML is read. A duplicate key is an error; plain PyYAML would keep the last value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, overload

import yaml

from pytest_genderbias.errors import DataFileError

try:
    from yaml import CSafeLoader as _SafeLoader
except ImportError:  # PyYAML without libyaml
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment]

#: A value of a YAML file. PyYAML cannot type it; :func:`take` or the reader of the file checks it.
YamlValue: TypeAlias = Any
_Kind = TypeVar("_Kind")
_Default = TypeVar("_Default")


class Loader(_SafeLoader):
    """PyYAML's safe loader that also reads ``5e-5`` as a number, as YAML 1.2 does. YAML 1.1 requires ``5.0e-5``."""


Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


class LocatedMap(dict[str, YamlValue]):
    """A mapping with its file, its own line and the line of each key."""

    def __init__(self, file: str, line: int) -> None:
        super().__init__()
        self.file, self.line = file, line
        self.lines: dict[str, int] = {}


class LocatedList(list[YamlValue]):
    """A list with its file, its own line and the line of each element."""

    def __init__(self, file: str, line: int) -> None:
        super().__init__()
        self.file, self.line = file, line
        self.lines: list[int] = []


def read_yaml(path: Path) -> LocatedMap:
    """Read a YAML file whose top level is a mapping.

    Raises:
        DataFileError: the file is missing, unreadable, not valid YAML or not a mapping; the message names file and line.
    """
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
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        problem = error.problem if isinstance(error, yaml.MarkedYAMLError) else None
        raise DataFileError(f"{path}:{mark.line + 1 if mark else 1}: not valid YAML: {problem or str(error)}") from None
    finally:
        if loader is not None:
            loader.dispose()
    if not isinstance(value, LocatedMap):
        raise DataFileError(f"{path}:1: expected a mapping (key: value) at the top level, got {_kind(value)}")
    return value


def _build(loader: Loader, node: yaml.Node, file: str, parents: tuple[yaml.Node, ...] = ()) -> object:
    line = node.start_mark.line + 1
    if any(node is parent for parent in parents):
        raise DataFileError(f"{file}:{line}: not valid YAML: an alias refers to a value that contains the alias")
    if isinstance(node, yaml.MappingNode):
        mapping = LocatedMap(file, line)
        for key_node, value_node in node.value:
            key = _scalar(loader, key_node, file)
            key_line = key_node.start_mark.line + 1
            if not isinstance(key, str):
                raise DataFileError(f"{file}:{key_line}: expected a text as key, got {key!r}; put it in quotes")
            if key in mapping:
                raise DataFileError(f"{file}:{key_line}: duplicate key {key!r} (first on line {mapping.lines[key]})")
            mapping[key] = _build(loader, value_node, file, (*parents, node))
            mapping.lines[key] = key_line
        return mapping
    if isinstance(node, yaml.SequenceNode):
        sequence = LocatedList(file, line)
        for child in node.value:
            sequence.append(_build(loader, child, file, (*parents, node)))
            sequence.lines.append(child.start_mark.line + 1)
        return sequence
    return _scalar(loader, node, file)


def _scalar(loader: Loader, node: yaml.Node, file: str) -> object:
    try:
        value: object = loader.construct_object(node, deep=True)
    except ValueError as error:  # a date that does not exist
        raise DataFileError(f"{file}:{node.start_mark.line + 1}: not valid YAML: {error}; put it in quotes") from None
    return value


def refuse_unknown(mapping: LocatedMap, allowed: Iterable[str], what: str) -> None:
    """Raise :class:`DataFileError` if ``mapping`` has a key that is not in ``allowed``."""
    known = sorted(allowed)
    for key in mapping:
        if key not in known:
            raise DataFileError(
                f"{mapping.file}:{mapping.lines[key]}: unknown key {key!r} in {what}; expected one of {', '.join(known)}"
            )


_MISSING = object()


@overload
def take(
    mapping: LocatedMap, key: str, kind: type[LocatedMap], what: str, default: Mapping[str, object]
) -> LocatedMap: ...
@overload
def take(mapping: LocatedMap, key: str, kind: type[_Kind], what: str) -> _Kind: ...
@overload
def take(mapping: LocatedMap, key: str, kind: type[_Kind], what: str, default: _Default) -> _Kind | _Default: ...
@overload
def take(mapping: LocatedMap, key: str, kind: tuple[type, ...], what: str, default: object = ...) -> YamlValue: ...
def take(
    mapping: LocatedMap, key: str, kind: type | tuple[type, ...], what: str, default: object = _MISSING
) -> YamlValue:
    """Return ``mapping[key]`` after a check of its type.

    Args:
        mapping: The mapping.
        key: The key.
        kind: The type, or the types, that the value may have.
        what: What the mapping describes, for the message: ``the suite``.
        default: The value of a missing key. Without a default, the key is required.

    Raises:
        DataFileError: the key is missing, or its value has another type or is an empty text, list or mapping.
    """
    if key not in mapping:
        if default is not _MISSING:
            return _located(default, mapping) if kind is LocatedMap and isinstance(default, Mapping) else default
        raise DataFileError(f"{mapping.file}:{mapping.line}: {what} has no {key!r}, which is required; add it")
    value, line = mapping[key], mapping.lines[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and bool not in _as_tuple(kind)):
        wanted = " or ".join(_NAMES.get(k, k.__name__) for k in _as_tuple(kind))
        raise DataFileError(f"{mapping.file}:{line}: {key!r} of {what} should be {wanted}, got {_kind(value)}")
    if isinstance(value, (str, Mapping, list)) and not value:
        raise DataFileError(f"{mapping.file}:{line}: {key!r} of {what} is empty")
    return value


def _located(values: Mapping[str, object], at: LocatedMap) -> LocatedMap:
    located = LocatedMap(at.file, at.line)
    located.update(values)
    located.lines.update(dict.fromkeys(values, at.line))
    return located


_NAMES: dict[type, str] = {
    str: "a text", dict: "a mapping", list: "a list", bool: "true or false", int: "a whole number", float: "a number",
    LocatedMap: "a mapping", LocatedList: "a list",
}  # fmt: skip


def _as_tuple(kind: type | tuple[type, ...]) -> tuple[type, ...]:
    return kind if isinstance(kind, tuple) else (kind,)


def _kind(value: object) -> str:
    return f"{_NAMES.get(type(value), type(value).__name__)} ({value!r:.60})" if value is not None else "nothing"
