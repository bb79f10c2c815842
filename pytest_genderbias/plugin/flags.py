"""How a flag is declared: a dataclass field that carries the name, the parser, the default and the help text of one
flag.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import ClassVar, Literal, TypeVar, cast, overload

import pytest

from pytest_genderbias.escaping import printable

T = TypeVar("T")
Default = str | Callable[[], str]  #: a text, or a function that returns it when a run starts
IniType = Literal["string", "args", "bool"]
_FLAG = "flag"  #: key of the declaration in the metadata of a dataclass field


@dataclass(frozen=True)
class Origin:
    """The flag that a value belongs to, and where relative paths start.

    ``folder``: the current directory for a value on the command line, and the root directory for one in the ini file.
    ``project``: the root directory of the project in either case.
    """

    flag: str
    folder: Path
    project: Path

    def error(self, message: str) -> pytest.UsageError:
        """Return a usage error that names the flag."""
        return pytest.UsageError(printable(f"{self.flag}: {message}"))


@dataclass(frozen=True)
class Flag(ABC):
    """One declared flag. ``has_ini``: whether the ini file of a project can set it, too.

    A ``name`` without dashes, as ``bias_sees``, is a key of the ini file only; ``-o bias_sees=30%`` sets it for one
    run.
    """

    name: str
    metavar: str
    has_ini: bool
    help: str

    _ini_type: ClassVar[IniType]

    @property
    def dest(self) -> str:
        """The attribute of ``config.option`` that holds the value."""
        return f"genderbias_{self.ini_key.removeprefix('bias_')}"

    @property
    def ini_key(self) -> str:
        """The key in the ini file, where the flag has one."""
        return self.name.removeprefix("--").replace("-", "_")

    @property
    def is_typed_by_name(self) -> bool:
        """Whether it is a flag, and not a key of the ini file only."""
        return self.name.startswith("--")

    def register(self, parser: pytest.Parser, group: pytest.OptionGroup) -> None:
        """Add the flag, and its ini key."""
        if self.is_typed_by_name:
            self._add_flag(group)
        if self.has_ini:
            parser.addini(self.ini_key, self._ini_help, type=self._ini_type, default=None)

    def read(self, config: pytest.Config, project: Path) -> object:
        """Return the parsed value: from the command line, else from the ini file, else the default."""
        typed = self.is_typed(config)
        raw: object = config.getini(self.ini_key) if self.has_ini and not typed else config.getoption(self.dest)
        folder = config.invocation_params.dir if typed else config.rootpath
        return self._parse(raw or None, Origin(self.name, folder, project))

    def is_typed(self, config: pytest.Config) -> bool:
        """Return whether the flag is on the command line."""
        return self.is_typed_by_name and config.getoption(self.dest) is not None

    @property
    def _ini_help(self) -> str:
        return f"default of {self.name}: {self.help}" if self.is_typed_by_name else self.help

    @abstractmethod
    def _add_flag(self, group: pytest.OptionGroup) -> None: ...

    @abstractmethod
    def _parse(self, raw: object, origin: Origin) -> object: ...


@dataclass(frozen=True)
class ValueFlag(Flag):
    """A flag with one value. ``default`` is parsed like a value in the ini file."""

    parse: Callable[[str, Origin], object]
    default: Default | None

    _ini_type: ClassVar[IniType] = "string"

    def _add_flag(self, group: pytest.OptionGroup) -> None:
        group.addoption(self.name, dest=self.dest, default=None, metavar=self.metavar, help=self.help)

    def _parse(self, raw: object, origin: Origin) -> object:
        default = self.default() if callable(self.default) else self.default
        text = default if raw is None else str(raw)
        return None if text is None else self.parse(text, origin)


@dataclass(frozen=True)
class RepeatableFlag(Flag):
    """A flag that can be repeated, and whose values are parsed together."""

    parse: Callable[[list[str], Origin], object]

    _ini_type: ClassVar[IniType] = "args"

    def _add_flag(self, group: pytest.OptionGroup) -> None:
        group.addoption(
            self.name, dest=self.dest, action="append", default=None, metavar=self.metavar, help=f"{self.help}. Repeatable"
        )  # fmt: skip

    def _parse(self, raw: object, origin: Origin) -> object:
        return self.parse(cast("list[str]", raw or []), origin)


@dataclass(frozen=True)
class Switch(Flag):
    """A flag without a value."""

    _ini_type: ClassVar[IniType] = "bool"

    def _add_flag(self, group: pytest.OptionGroup) -> None:
        group.addoption(self.name, dest=self.dest, action="store_true", default=None, help=self.help)

    def _parse(self, raw: object, origin: Origin) -> object:
        return bool(raw)


# Each function below declares a field of a dataclass. Its return type is the type of the field, so that type checkers
# compare it with the annotation, as they do for ``dataclasses.field``.


@overload
def value(name: str, metavar: str, parse: Callable[[str, Origin], T], help: str, *, default: Default, ini: bool = True) -> T: ...  # fmt: skip
@overload
def value(name: str, metavar: str, parse: Callable[[str, Origin], T], help: str, *, default: None = None, ini: bool = True) -> T | None: ...  # fmt: skip
def value(
    name: str, metavar: str, parse: Callable[[str, Origin], T], help: str, *, default: Default | None = None, ini: bool = True
) -> T | None:  # fmt: skip
    """Declare a flag with one value; without a default, a missing value is ``None``. A default text is appended to the
    help.
    """
    text = f"{help} (default: {default})" if isinstance(default, str) else help
    return cast("T | None", _declared(ValueFlag(name, metavar, ini, text, parse, default)))


def repeatable(name: str, metavar: str, parse: Callable[[list[str], Origin], T], help: str, *, ini: bool = True) -> T:
    """Declare a flag that can be repeated; ``parse`` gets the list of its values, which may be empty."""
    return cast("T", _declared(RepeatableFlag(name, metavar, ini, help, parse)))


def switch(name: str, help: str, *, ini: bool = True) -> bool:
    """Declare a flag without a value."""
    return cast("bool", _declared(Switch(name, "", ini, help)))


def _declared(flag: Flag) -> object:
    return field(metadata={_FLAG: flag})


def declared_flags(settings: type) -> dict[str, Flag]:
    """Return the flags that a dataclass declares, by the name of the field."""
    return {entry.name: entry.metadata[_FLAG] for entry in fields(settings)}
