"""YAML with line numbers, so that an error can name file and line.

Only plain YAML is read: mappings with texts as keys, lists, texts, numbers, true, false and null. The file may come
from anyone: size, depth, nodes and aliases are bounded while the parser yields its events, before anything is built of
them. Values whose YAML meaning differs from their appearance are errors: explicit tags, duplicate and merge keys,
``1:30`` (90), ``010`` (8), and numbers that are infinite or do not fit into 64 bits. A date is the text that it looks
like, as in YAML 1.2.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import yaml

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.text.plain_files import read_whole
from pytest_genderbias.text.printable import brief
from pytest_genderbias.text.schema import LocatedList, LocatedMap, YamlValue, kind_of

try:
    from yaml import CSafeLoader as _SafeLoader
except ImportError:  # PyYAML without libyaml
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment]

MOST_BYTES = 16 << 20  #: The largest file.
MOST_DEPTH = 64  #: The deepest nesting of lists and mappings.
MOST_NODES = 1_000_000  #: The largest number of keys, values and lists in a file.
MOST_ALIASED = 100_000  #: The largest number of them that aliases repeat.

_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_YAML = "tag:yaml.org,2002:"
_TRUE = ("true", "yes", "on")
_EXPONENT = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$")
#: PyYAML's loader that also reads ``5e-5`` as a number, as YAML 1.2 does. YAML 1.1 requires ``5.0e-5``.
_Loader: type[_SafeLoader] = type("Loader", (_SafeLoader,), {})
#: PyYAML's dumper that quotes texts which this loader would read as numbers.
Dumper: type[yaml.SafeDumper] = type("Dumper", (yaml.SafeDumper,), {})
for _either in (_Loader, Dumper):
    _either.add_implicit_resolver(f"{_YAML}float", _EXPONENT, list("-+0123456789"))


def read_yaml(path: Path) -> LocatedMap:
    """Read a YAML file whose top level is a mapping.

    Values that aliases repeat are shared: do not change them.

    Raises:
        DataFileError: the file is missing, unreadable, not UTF-8, not plain YAML, beyond a bound of this module, or not
            a mapping; the message names file and line.
    """
    return parse_map(read_whole(path, MOST_BYTES), str(path))


def parse_map(text: str, source: str) -> LocatedMap:
    """Return the mapping that a YAML text is.

    Args:
        text: The YAML.
        source: Where the text is from, for messages.

    Raises:
        DataFileError: as :func:`read_yaml`; the message names source and line.
    """
    value = _parse(text, source)
    if not isinstance(value, LocatedMap):
        raise DataFileError(f"{source}:1: expected a mapping (key: value) at the top level, got {kind_of(value)}")
    return value


def parse_value(text: str, source: str) -> YamlValue:
    """Return the value of a YAML text, as plain lists and dicts.

    Args:
        text: The YAML.
        source: Where the text is from, for messages.

    Raises:
        DataFileError: as :func:`read_yaml`; the message names source and line.

    >>> parse_value("[1, 5e-1, {a: yes}]", "--bias-option")
    [1, 0.5, {'a': True}]
    """
    return plain(_parse(text, source))


def plain(value: YamlValue) -> YamlValue:
    """Return a value of a YAML file without lines: lists and dicts."""
    if isinstance(value, list):
        return [plain(element) for element in value]
    if isinstance(value, dict):
        return {key: plain(element) for key, element in value.items()}
    return value


def _parse(text: str, file: str) -> object:
    if (wrong := _FORBIDDEN.search(text)) is not None:
        line = text.count("\n", 0, wrong.start()) + 1
        raise DataFileError(f"{file}:{line}: not valid YAML: the character U+{ord(wrong[0]):04X} is not allowed")
    loader = _Loader(text)
    try:
        return _Document(loader, file).read()
    except yaml.YAMLError as error:
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        problem = error.problem if isinstance(error, yaml.MarkedYAMLError) else None
        if mark is not None and any(
            line[mark.column :].startswith("\t") for line in text.splitlines()[mark.line :][:1]
        ):
            problem = "a tab; indent with spaces"
        raise DataFileError(f"{file}:{mark.line + 1 if mark else 1}: not valid YAML: {problem or str(error)}") from None
    finally:
        loader.dispose()


_UNREAD = object()  #: stands for the value of an anchor that is not read to its end


class _Document:
    """Builds the value of the only document of a text from the events of the parser."""

    def __init__(self, loader: _SafeLoader, file: str) -> None:
        self._loader, self._file = loader, file
        self._nodes = self._aliased = 0
        self._anchored: dict[str, object] = {}

    def read(self) -> object:
        """Return the value, or None if the text is empty."""
        self._next()  # the start of the stream
        if isinstance(self._next(), yaml.StreamEndEvent):
            return None
        value = self._value(self._next(), 1)
        self._next()  # the end of the document
        if not isinstance(event := self._next(), yaml.StreamEndEvent):
            raise self._error(event, "not valid YAML: expected one document, got another ('---')")
        return value

    def _next(self) -> yaml.Event:
        event = self._loader.get_event()
        assert event is not None, "the end of the stream has been read"
        return event

    def _error(self, event: yaml.Event, problem: str) -> DataFileError:
        return DataFileError(f"{self._file}:{_line(event)}: {problem}")

    def _value(self, event: yaml.Event, depth: int) -> object:
        """Return the value that begins with an event; ``depth`` is the number of lists and mappings around it, plus
        1.
        """
        if isinstance(event, yaml.AliasEvent):
            return self._repeated(event, depth)
        self._nodes += 1
        if depth > MOST_DEPTH or self._nodes > MOST_NODES:
            most = f"at most {MOST_DEPTH} levels" if depth > MOST_DEPTH else f"at most {MOST_NODES:,} values"
            raise self._error(event, f"expected {most} of lists and mappings, got more")
        assert isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)), "other events begin no value"
        if event.tag is not None:
            tag = event.tag.replace(_YAML, "!!")
            raise self._error(event, f"not valid YAML: expected no explicit tag, got {brief(tag)}; remove it")
        if event.anchor is not None:
            if event.anchor in self._anchored:
                raise self._error(event, f"not valid YAML: duplicate anchor {brief(event.anchor)}")
            self._anchored[event.anchor] = _UNREAD
        value: object
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = LocatedList(self._file, _line(event))
            while not isinstance(start := self._next(), yaml.SequenceEndEvent):
                value.append(self._value(start, depth + 1))
                value.lines.append(_line(start))
        else:
            value = LocatedMap(self._file, _line(event))
            while not isinstance(start := self._next(), yaml.MappingEndEvent):
                key = self._key(start, depth)
                if key in value:
                    raise self._error(start, f"duplicate key {brief(key)} (first on line {value.lines[key]})")
                value[key], value.lines[key] = self._value(self._next(), depth + 1), _line(start)
        if event.anchor is not None:
            self._anchored[event.anchor] = value
        return value

    def _repeated(self, event: yaml.AliasEvent, depth: int) -> object:
        name = event.anchor
        if name not in self._anchored:
            raise self._error(event, f"not valid YAML: the alias {brief(name)} has no anchor before it")
        value = self._anchored[name]
        if value is _UNREAD:
            raise self._error(event, "not valid YAML: an alias refers to a value that contains the alias")
        nodes, levels = _size(value)
        self._aliased += nodes
        if self._aliased > MOST_ALIASED or depth + levels - 1 > MOST_DEPTH:
            raise self._error(
                event,
                f"expected aliases that repeat at most {MOST_ALIASED:,} values, {MOST_DEPTH} levels deep; "
                f"with {brief(name)} they repeat more",
            )
        return value

    def _key(self, event: yaml.Event, depth: int) -> str:
        if isinstance(event, yaml.CollectionStartEvent):
            raise self._error(event, "expected a text as key, got a list or a mapping")
        if isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]:
            raise self._error(
                event, "merge keys ('<<') are not read; write the keys that they stand for out in this mapping"
            )
        key = self._value(event, depth)
        if not isinstance(key, str):
            number = isinstance(key, (int, float)) and not isinstance(key, bool)
            advice = " (a decimal comma is a point in YAML: 0.3)" if number else ""
            raise self._error(event, f"expected a text as key, got {brief(key)}; put it in quotes{advice}")
        return key

    def _scalar(self, event: yaml.ScalarEvent) -> object:
        kind = str(self._loader.resolve(yaml.ScalarNode, event.value, event.implicit))  # type: ignore[no-untyped-call]
        try:
            return _SCALARS.get(kind.removeprefix(_YAML), str)(event.value)
        except ValueError as error:
            raise self._error(event, f"not valid YAML: {error}; put it in quotes if it is a text") from None


def _size(value: object) -> tuple[int, int]:
    """Return the number of keys, values and lists in a value, and the depth of its nesting; both are 1 for a scalar."""
    if not isinstance(value, (LocatedMap, LocatedList)):
        return 1, 1
    keys, parts = (len(value), value.values()) if isinstance(value, LocatedMap) else (0, value)
    nodes, deepest = 1 + keys, 0
    for part in parts:
        within, levels = _size(part)
        nodes, deepest = nodes + within, max(deepest, levels)
    return nodes, deepest + 1


def _line(event: yaml.Event) -> int:
    assert event.start_mark is not None
    return event.start_mark.line + 1


def _whole_number(text: str) -> int:
    digits = text.replace("_", "")
    try:
        number = int(digits, base=0)
    except ValueError:  # 1:30 and 010, or thousands of digits
        raise ValueError(f"expected a whole number without ':' or leading zeros, got {brief(text)}") from None
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"expected a whole number of 64 bits, got {brief(text)}")
    return number


def _number(text: str) -> float:
    try:
        number = float(text.replace("_", ""))
    except ValueError:  # 1:30.5, .inf, .nan
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"expected a finite decimal number, got {brief(text)}")
    return number


#: The value of a scalar without quotes, by the kind that YAML sees in it. Every other kind, such as a date, is a text.
_SCALARS: Mapping[str, Callable[[str], object]] = {
    "null": lambda text: None,
    "bool": lambda text: text.lower() in _TRUE,
    "int": _whole_number,
    "float": _number,
}
