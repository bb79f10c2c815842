"""The schema of typed input: annotations check what comes from YAML, JSON, options, settings and arguments.

A dataclass declares the keys of a mapping by its fields, and ``Annotated[int, at_least(1)]`` adds a rule to a type.
:func:`fit` checks a value; :func:`read_located` gives its errors file and line, :func:`read_value` a path in JSON, and
:func:`check_fields` the name of a setting.
``reports/json_schema.py`` makes JSON Schemas of the same annotations.
"""

from __future__ import annotations

import datetime
import math
import operator
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
    overload,
)

from pytest_genderbias.errors import DataFileError, SettingError
from pytest_genderbias.text.printable import brief, expected_instead

T = TypeVar("T")
_Default = TypeVar("_Default")
#: A value of a YAML file, which no type describes before it is checked.
YamlValue: TypeAlias = Any

AT = "at"  #: the field of a dataclass that holds the mapping itself, with its lines
_NAMES: Mapping[object, str] = {
    str: "a text", bool: "true or false", int: "a whole number", float: "a number", types.NoneType: "null",
    Mapping: "a mapping", dict: "a mapping", list: "a list", tuple: "a list", Sequence: "a list",
}  # fmt: skip


class LocatedMap(dict[str, YamlValue]):
    """A mapping with its file, its own line and the line of each key."""

    def __init__(self, file: str, line: int) -> None:
        super().__init__()
        self.file, self.line = file, line
        self.lines: dict[str, int] = {}

    @property
    def folder(self) -> Path:
        """The folder of the file, which relative paths in it start from."""
        return Path(self.file).parent

    def error_at(self, key: str, message: str) -> DataFileError:
        """Return an error with the file and the line of a key, or the line of the mapping if it has no such key."""
        return DataFileError(f"{self.file}:{self.lines.get(key, self.line)}: {message}")


class LocatedList(list[YamlValue]):
    """A list with its file, its own line and the line of each element."""

    def __init__(self, file: str, line: int) -> None:
        super().__init__()
        self.file, self.line = file, line
        self.lines: list[int] = []


class Rule:
    """A condition on a value beside its type: ``Annotated[int, Rule("a whole number of at least 1", minimum=1)]``.

    Args:
        words: what the value should be, for messages.
        test: whether a value is accepted, where no keyword says it. A JSON Schema does not see it.
        keywords: of JSON Schema. Those of numbers and texts are also tested here; numbers with a rule are finite.
    """

    def __init__(self, words: str, test: Callable[[Any], bool] | None = None, **keywords: object) -> None:
        self.words, self.test, self.keywords = words, test, keywords

    def accepts(self, value: object) -> bool:
        """Return whether a value of the type is accepted."""
        if isinstance(value, float) and not math.isfinite(value):
            return False
        kept = all(_KEPT[name](value, bound) for name, bound in self.keywords.items() if name in _KEPT)
        return kept and (self.test is None or self.test(value))


_KEPT: Mapping[str, Callable[[Any, Any], bool]] = {
    "minimum": operator.ge,
    "maximum": operator.le,
    "exclusiveMinimum": operator.gt,
    "exclusiveMaximum": operator.lt,
    "multipleOf": lambda value, step: value % step == 0,
    "enum": lambda value, known: value in known,
    "pattern": lambda value, pattern: re.search(pattern.replace("$", r"\Z"), value) is not None,
    "minLength": lambda value, least: len(value) >= least,
    "uniqueItems": lambda value, _: len(set(value)) == len(value),
}


def at_least(least: int) -> Rule:
    """Return the rule of a whole number that is not less than ``least``."""
    return Rule(f"a whole number of at least {least}", minimum=least)


def one_of(*values: str) -> Rule:
    """Return the rule of a text that is one of several."""
    return Rule(f"one of {', '.join(values)}", enum=list(values))


def _is_date(text: str) -> bool:
    try:
        return bool(datetime.date.fromisoformat(text))
    except ValueError:
        return False


Text: TypeAlias = Annotated[str, Rule("a text", pattern=r"\S")]
Date: TypeAlias = Annotated[str, Rule("a date as 2026-11-22", _is_date, pattern=r"^\d{4}-\d\d-\d\d$", format="date")]
Initials: TypeAlias = Annotated[str, Rule("two letters such as A-M", pattern="^[A-Z]-[A-Z]$")]
NotNegative: TypeAlias = Annotated[float, Rule("a number of 0 or more", minimum=0)]
Count: TypeAlias = Annotated[int, at_least(1)]
Positive: TypeAlias = Annotated[float, Rule("a number above 0", exclusiveMinimum=0)]
Share: TypeAlias = Annotated[float, Rule("a number above 0 and below 1", exclusiveMinimum=0, exclusiveMaximum=1)]
Temperature: TypeAlias = Annotated[float, Rule("a number from 0 to 2", minimum=0, maximum=2)]
ShareOrNone: TypeAlias = Annotated[float, Rule("a number of at least 0 and below 1", minimum=0, exclusiveMaximum=1)]


@dataclass(frozen=True)
class Beside:
    """A rule on the keys of a mapping, in ``rules`` of its dataclass.

    Attributes:
        key: the key that the rule is about.
        problem: what is wrong if it is not kept, and what to do.
        needs: keys of which one has to be there, and not ``false``, if ``key`` is.
        never: a key that may not be there if ``key`` is.
    """

    key: str
    problem: str
    needs: tuple[str, ...] = ()
    never: str = ""

    def is_kept(self, mapping: Mapping[str, object]) -> bool:
        """Return whether a mapping keeps the rule."""
        found = any(mapping.get(key, False) is not False for key in self.needs)
        return self.key not in mapping or ((found or not self.needs) and self.never not in mapping)


class Mismatch(Exception):  # noqa: N818 - what a reader makes an error of
    """A value that its annotation does not allow, and where it is.

    Attributes:
        expected: what the value should be.
        value: the value.
        problem: a sentence in place of both, for what is wrong with keys.
        subject: what the value is, as ``'seeds' of the mitigation``; empty for an element of a list.
        path: keys and numbers of elements, from the outermost.
    """

    def __init__(self, expected: str, value: object = None, problem: str = "") -> None:
        super().__init__(expected)
        self.expected, self.value, self.problem = expected, value, problem
        self.subject = ""
        self.path: tuple[str | int, ...] = ()

    def inside(self, step: str | int, subject: str = "") -> Mismatch:
        """Return it as it is seen from around it."""
        if not self.path:
            self.subject = subject
        self.path = (step, *self.path)
        return self

    def in_file(self, mapping: LocatedMap) -> DataFileError:
        """Return the error with file and line."""
        at: Any = mapping
        line = mapping.line
        for step in self.path:
            if isinstance(at, LocatedList) or (isinstance(at, LocatedMap) and step in at):
                lines: Any = at.lines
                line, at = lines[step], at[step]  # type: ignore[index]
        should = f"{self.subject} should be" if self.subject else "expected"
        text = self.problem or f"{should} {self.expected}, got {kind_of(self.value)}"
        return DataFileError(f"{mapping.file}:{line}: {text}")

    def in_json(self, where: str) -> DataFileError:
        """Return the error with the path of the value. ``where`` begins it."""
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return DataFileError(f"{where}{path}: {self.problem or f'expected {self.expected}, got {brief(self.value)}'}")


def fit(hint: object, value: object) -> Any:
    """Return a value as an annotation has it: a dataclass from a mapping, a tuple from a list, a float from a whole
    number.

    Raises:
        Mismatch: the annotation does not allow the value.

    >>> fit(float, 3), fit(tuple[int, ...], [1, 2]), fit(int | None, None)
    (3.0, (1, 2), None)
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _ruled(arguments[0], arguments[1:], value)
    if origin in (Union, types.UnionType):
        return _first_that_fits(arguments, value, hint)
    if hint in (Any, object):
        return value
    if origin is Literal:
        if not any(type(value) is type(one) and value == one for one in arguments):
            raise Mismatch(words(hint), value)
        return value
    if isinstance(hint, type) and (is_dataclass(hint) or is_typeddict(hint)):
        return _object(hint, value)
    plain = origin or hint
    if not _is_of(plain, value):
        raise Mismatch(words(hint), value)
    if plain is float and isinstance(value, int):
        try:
            return float(value)
        except OverflowError:
            problem = f"expected a number, got an integer of {value.bit_length():,} bits"
            raise Mismatch("", problem=problem) from None
    if isinstance(value, Mapping) and len(arguments) == 2 and arguments[1] not in (Any, object):
        return {key: _inside(key, f"{key!r}", arguments[1], item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and arguments:
        return _elements(plain, arguments, value, hint)
    return value


def _ruled(hint: object, rules: Sequence[Rule], value: object) -> object:
    named = next((rule.words for rule in rules if rule.words), "")
    try:
        fitting = fit(hint, value)
    except Mismatch as error:
        raise error if error.problem or not named else Mismatch(named, value) from None
    if not all(rule.accepts(fitting) for rule in rules):
        raise Mismatch(named, value)
    return fitting


def _first_that_fits(hints: Sequence[object], value: object, union: object) -> object:
    if value is None and types.NoneType in hints:
        return None
    deepest: Mismatch | None = None
    for hint in hints:
        try:
            return fit(hint, value)
        except Mismatch as error:
            if error.path or error.problem or (len(hints) == 2 and types.NoneType in hints and is_dataclass(hint)):
                deepest = error
    raise deepest or Mismatch(words(union), value)


def _is_of(kind: object, value: object) -> bool:
    """Tell whether a value is of a type, where a list serves for a tuple, and a whole number for a float."""
    if not isinstance(kind, type):
        return True
    if kind in (int, float):
        return isinstance(value, (int, float) if kind is float else int) and not isinstance(value, bool)
    if issubclass(kind, Sequence) and kind is not str and kind is not LocatedList:
        return isinstance(value, (list, tuple))
    return isinstance(value, kind)


def _elements(plain: object, hints: tuple[object, ...], value: Sequence[object], hint: object) -> object:
    if plain is tuple and hints[-1] is not Ellipsis:
        if len(value) != len(hints):
            raise Mismatch(words(hint), value)
    else:
        hints = hints[:1] * len(value)
    items = [_inside(n, "", one, item) for n, (one, item) in enumerate(zip(hints, value, strict=True))]
    return tuple(items) if plain is tuple else items


def _inside(step: str | int, subject: str, hint: object, value: object) -> object:
    try:
        return fit(hint, value)
    except Mismatch as error:
        raise error.inside(step, subject) from None


def _object(kind: type, value: object) -> object:
    """Return a dataclass or a typed mapping from a mapping of its fields. In a file, a key that is there has a value,
    and no empty one.
    """
    if is_dataclass(kind) and isinstance(value, kind):
        return value
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise Mismatch(words(kind), value)
    hints, in_file = field_hints(kind), isinstance(value, LocatedMap)
    _check_keys(kind, value, in_file)
    content = {}
    for key, item in value.items():
        hint, subject = hints[key], f"{key!r} of the {_noun(kind)}"
        content[key] = _inside(key, subject, without_null(hint) if in_file else hint, item)
        if in_file and isinstance(item, (str, Mapping, list)) and not item:
            raise Mismatch("", problem=f"{subject} is empty").inside(key)
    for rule in getattr(kind, "rules", ()):
        if not rule.is_kept(value):
            raise Mismatch("", problem=rule.problem).inside(rule.key)
    return kind(**content, **({AT: value} if AT in kind.__annotations__ else {}))


def _check_keys(kind: type, value: Mapping[str, object], in_file: bool) -> None:
    hints = field_hints(kind)
    needed = required_fields(kind)
    if not in_file:
        unknown, missing = (", ".join(sorted(keys)) for keys in (value.keys() - hints, needed - value.keys()))
        if unknown or missing:
            how = f"got also {unknown}" if unknown else f"{missing} missing"
            raise Mismatch("", problem=f"expected the keys {', '.join(hints)}, {how}")
        return
    for key in value:
        if key not in hints:
            raise Mismatch("", problem=unknown_key(key, hints, f"a {_noun(kind)}")).inside(key)
    for key in hints:
        if key in needed and key not in value:
            raise Mismatch("", problem=f"the {_noun(kind)} has no {key!r}, which is required; add it")


def unknown_key(key: str, known: Iterable[str], what: str) -> str:
    """Return what is wrong with a key that ``what`` does not have."""
    return f"unknown key {brief(key)} in {what}; {expected_instead(key, sorted(known))}"


def field_hints(kind: Any) -> dict[str, Any]:
    """Return the annotation of each field of a dataclass, but for the one that holds its lines, or of a typed
    mapping.
    """
    return _hints(kind)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {one.name: hints[one.name] for one in fields(kind) if one.name != AT} if is_dataclass(kind) else hints


def required_fields(kind: Any) -> set[str]:
    """Return the names of the fields of a dataclass, or of a typed mapping, without a default."""
    if not is_dataclass(kind):
        return set(kind.__required_keys__)
    absent = {one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING}
    return absent - {AT}


def without_null(hint: object) -> object:
    """Return an annotation without ``None``."""
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    return Union[tuple(one for one in get_args(hint) if one is not types.NoneType)]  # noqa: UP007 - of any number


def _noun(kind: type) -> str:
    """Return what messages call the mapping of a dataclass: ``noun`` of the class, or its name in words."""
    return str(getattr(kind, "noun", re.sub(r"(?<=.)(?=[A-Z])", " ", kind.__name__).lower()))


def words(hint: object) -> str:
    """Return what values an annotation allows, in words.

    >>> words(Annotated[int, at_least(1)] | None), words(tuple[str, ...])
    ('a whole number of at least 1 or null', 'a list')
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return next((rule.words for rule in arguments[1:] if rule.words), "") or words(arguments[0])
    if origin in (Union, types.UnionType):
        return " or ".join(map(words, arguments))
    if origin is Literal:
        return f"{'one of ' if arguments[1:] else ''}{', '.join(map(str, arguments))}"
    if isinstance(hint, type) and is_dataclass(hint):
        keys = [key for key in field_hints(hint) if key in required_fields(hint)]
        return f"a {_noun(hint)} ({', '.join(keys)})" if AT in hint.__annotations__ else "a mapping"
    plain = origin or hint
    for known in (plain, *(plain.__mro__ if isinstance(plain, type) else ())):
        if known in _NAMES:
            return _NAMES[known]
    return str(getattr(plain, "__name__", plain))


def kind_of(value: object) -> str:
    """Return a value of a file with its kind, as ``a text ('x')``."""
    return "nothing" if value is None else f"{words(type(value))} ({brief(value, 60)})"


def read_located(kind: type[T], mapping: LocatedMap) -> T:
    """Return a dataclass from a mapping of a file.

    Raises:
        DataFileError: a key is unknown or missing, or a value has another type or is empty; the message names file and
            line.
    """
    try:
        read: T = fit(kind, mapping)
    except Mismatch as error:
        raise error.in_file(mapping) from None
    return read


def refuse_unknown(mapping: LocatedMap, allowed: Iterable[str], what: str) -> None:
    """Raise :class:`DataFileError` if ``mapping`` has a key that is not in ``allowed``."""
    known = set(allowed)
    for key in mapping:
        if key not in known:
            raise mapping.error_at(key, unknown_key(key, known, what))


_MISSING = object()


@overload
def take(
    mapping: LocatedMap, key: str, kind: type[LocatedMap], what: str, default: Mapping[str, object]
) -> LocatedMap: ...
@overload
def take(mapping: LocatedMap, key: str, kind: type[T], what: str) -> T: ...
@overload
def take(mapping: LocatedMap, key: str, kind: type[T], what: str, default: _Default) -> T | _Default: ...
@overload
def take(mapping: LocatedMap, key: str, kind: object, what: str, default: object = ...) -> YamlValue: ...
def take(mapping: LocatedMap, key: str, kind: object, what: str, default: object = _MISSING) -> YamlValue:
    """Return ``mapping[key]`` as an annotation has it.

    Args:
        mapping: The mapping.
        key: The key.
        kind: The annotation.
        what: What the mapping describes, for the message: ``the suite``.
        default: The value of a missing key. Without a default, the key is required.

    Raises:
        DataFileError: the key is missing, or its value has another type or is an empty text, list or mapping.
    """
    if key not in mapping:
        if default is _MISSING:
            raise mapping.error_at("", f"{what} has no {key!r}, which is required; add it")
        return LocatedMap(mapping.file, mapping.line) if kind is LocatedMap and default == {} else default
    try:
        value = _inside(key, f"{key!r} of {what}", kind, mapping[key])
    except Mismatch as error:
        raise error.in_file(mapping) from None
    if isinstance(mapping[key], (str, Mapping, list)) and not mapping[key]:
        raise mapping.error_at(key, f"{key!r} of {what} is empty")
    return value


def take_texts(mapping: LocatedMap, key: str, what: str) -> LocatedList:
    """Return the list of texts ``mapping[key]``; see :func:`take`.

    Raises:
        DataFileError: as :func:`take`; an element is no text, or is empty.
    """
    values = take(mapping, key, LocatedList, what)
    for value, line in zip(values, values.lines, strict=True):
        if not isinstance(value, str) or not value.strip():
            raise DataFileError(
                f"{mapping.file}:{line}: {key!r} of {what} should be a list of texts, got {kind_of(value)} in it"
            )
    return values


@overload
def read_value(hint: type[T], value: object, where: str) -> T: ...
@overload
def read_value(hint: object, value: object, where: str) -> Any: ...
def read_value(hint: object, value: object, where: str) -> Any:
    """Return a plain value of JSON as an annotation has it.

    Raises:
        DataFileError: it does not allow the value; the message begins with ``where`` and the path in it.
    """
    try:
        return fit(hint, value)
    except Mismatch as error:
        raise error.in_json(where) from None


def check_setting(name: str, hint: object, value: object) -> Any:
    """Return a setting as its annotation has it.

    Raises:
        SettingError: the annotation does not allow the value; the message begins with the name.
    """
    try:
        return fit(hint, value)
    except Mismatch:
        raise SettingError(f"{name} should be {words(without_null(hint))}, got {value!r:.200}") from None


def check_fields(settings: object) -> None:
    """Check the fields of a dataclass against their annotations.

    Raises:
        SettingError: as :func:`check_setting`.
    """
    for name, hint in field_hints(type(settings)).items():
        check_setting(name, hint, getattr(settings, name))
