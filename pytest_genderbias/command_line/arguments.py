"""The arguments of the commands. Flags of the plugin are taken from their declarations, so that none is declared twice.

A flag of the plugin has two names here, ``--limit`` and ``--bias-limit``: messages of a run name the second.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import pytest

from pytest_genderbias.escaping import printable
from pytest_genderbias.plugin.flags import FLAGS, Flag
from pytest_genderbias.plugin.outputs import MADE
from pytest_genderbias.text.located_yaml import read_yaml
from pytest_genderbias.text.printable import close_names, expected_instead

_EXAMPLES = """\
examples:
  genderbias list candidate=./checkpoint                                 which suites fit it
  genderbias show lm-occupation                                          what one of them asks
  genderbias measure candidate=./checkpoint --suite=lm-occupation        its figures
  genderbias init candidate=./checkpoint                                 first gates, and a CI workflow
"""
USAGE_ERROR = int(pytest.ExitCode.USAGE_ERROR)
WRONG = 1  #: exit status of a check that found something, and of files that cannot be written


#: How argparse says that a word is not among those it knows, and that it does not know some arguments at all.
_CHOICE = re.compile(r"invalid choice: '(.*?)' \(choose from (.*)\)\Z", re.DOTALL)
_UNRECOGNISED = re.compile(r"unrecognized arguments: (.*)\Z", re.DOTALL)
_FLAG = re.compile(r"(--[\w-]+)=")  #: with its value


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors have the exit status of pytest's usage errors."""

    def error(self, message: str) -> NoReturn:
        """Print usage and message, and end the process."""
        self.print_usage(sys.stderr)
        self.exit(USAGE_ERROR, f"{self.prog}: {printable(self._with_suggestion(message))}\n")

    def option_names(self) -> set[str]:
        """Return the flags of this parser and of its commands."""
        names = set(self._option_string_actions)
        for action in self._actions:
            if isinstance(action.choices, Mapping):
                names |= {name for parser in action.choices.values() for name in parser.option_names()}
        return names

    def _with_suggestion(self, message: str) -> str:
        match = _CHOICE.search(message)
        if match and (near := close_names(match[1], re.findall(r"[\w.-]+", match[2]))):
            return f"{message.partition(' (choose from')[0]}; {expected_instead(match[1], near)}"
        if match := _UNRECOGNISED.match(message):
            known = self.option_names()
            names = [name.partition("=")[0] for name in match[1].split() if name.startswith("-")]
            wrong = [name for name in names if name not in known]  # others belong to another command
            hints = [f"{name}: {expected_instead(name, known)}" for name in wrong if close_names(name, known)]
            return "; ".join((message, *hints))
        return message


@dataclass(frozen=True)
class Typed:
    """The typed arguments.

    Attributes:
        command: its name.
        values: of its own arguments, by name.
        flags: of the plugin: each field with its value, as it was typed; ``True`` for a switch, a list for a flag that
            was repeated.
        rest: what stands behind ``--``, for pytest.
    """

    command: str
    values: Mapping[str, Any]
    flags: Mapping[str, object]
    rest: tuple[str, ...] = ()

    @classmethod
    def of(cls, parser: CommandParser, arguments: Sequence[str]) -> Typed:
        """Parse arguments. Wrong ones end the process with a usage error."""
        own: list[str] = list(arguments)
        rest: tuple[str, ...] = ()
        if "--" in own:
            at = own.index("--")
            own, rest = own[:at], tuple(own[at + 1 :])
        known = parser.option_names()
        unknown = [text for text in own if (match := _FLAG.match(text)) and match[1] not in known and " " in text]
        if unknown:  # argparse would take it for an argument without a flag
            parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        values = dict(vars(parser.parse_args(own)))
        command, takes_rest = values.pop("command"), values.pop("takes_rest", False)
        if rest and not takes_rest:
            parser.error(f"{command} takes nothing behind --")
        flags = {name: values.pop(_dest(name)) for name in FLAGS if _dest(name) in values}
        return cls(command, values, {name: value for name, value in flags.items() if value is not None}, rest)

    def for_pytest(self) -> list[str]:
        """Return the flags of the plugin as pytest takes them."""
        arguments = []
        for name, value in self.flags.items():
            if value is True:
                arguments.append(FLAGS[name].name)
            else:
                texts = value if isinstance(value, list) else [value]
                arguments += [f"{FLAGS[name].name}={text}" for text in texts]
        return arguments


def make_parser() -> CommandParser:
    """Return the parser of all commands."""
    parser = CommandParser(
        prog="genderbias",
        description=(
            "Measure the bias of language models, compare them, and judge releases.\nMeasuring commands run pytest with"
            " the same flags."
        ),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"pytest-genderbias {version('pytest-genderbias')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    declared = read_yaml(Path(__file__).with_name("commands.yaml"))
    shared = declared.pop("shared")
    for name, about in declared.items():
        _add_command(commands, name, about, shared)
    return parser


def _add_command(commands: Any, name: str, about: Mapping[str, Any], shared: Mapping[str, Any]) -> None:
    """Add a command of ``commands.yaml``; ``commands`` is of argparse's class of subparsers, which has no public
    name.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        usage=f"genderbias {name} {about['usage']}",
        help=about["help"],
        description=f"{about['help'][0].upper()}{about['help'][1:]}. {about.get('description', '')}".strip(),
        allow_abbrev=False,
    )
    texts = {"{model}": shared["model"], "{kinds}": ", ".join(MADE)}
    for argument in about["arguments"]:
        for one in shared[argument] if isinstance(argument, str) else (argument,):
            _add_argument(parser, one, texts)
    if "all_settings_but" in about:  # it runs pytest
        left_out = about["all_settings_but"]
        _add_flags(parser, [name for name, flag in FLAGS.items() if name not in left_out and flag.is_typed_by_name])
        parser.epilog = "What stands behind -- goes to pytest: genderbias measure demo-lm -- -n 2"
        parser.set_defaults(takes_rest=True)
    if "settings" in about:
        _add_flags(parser, about["settings"])


def _add_argument(parser: argparse.ArgumentParser, argument: Mapping[str, Any], texts: Mapping[str, str]) -> None:
    how = {"help": argparse.SUPPRESS, **argument}
    for place, text in texts.items():
        how["help"] = how["help"].replace(place, text)
    if "type" in how:
        how["type"] = {"count": _at_least_one, "int": int, "steps": _steps}[how["type"]]
    parser.add_argument(how.pop("name"), **how)


def _steps(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"expected whole numbers from 0, as 0,10,100, got {text!r}")
    return tuple(map(int, parts))


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def _add_flags(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    """Add flags of the plugin under their short and their full names."""
    group = parser.add_argument_group("settings (each also under the name that it has in pytest: --bias-...)")
    for name in names:
        flag = FLAGS[name]
        for option, help in ((short_name(flag), flag.help.replace("%", "%%")), (flag.name, argparse.SUPPRESS)):
            if flag.is_switch:
                group.add_argument(option, dest=_dest(name), action="store_true", default=None, help=help)
            else:
                action = "append" if flag.repeatable else "store"
                group.add_argument(option, metavar=flag.metavar, dest=_dest(name), action=action, help=help)


def _dest(field: str) -> str:
    """Return where the parser keeps a flag of the plugin, apart from a command's own arguments of that name."""
    return f"flag {field}"


def short_name(flag: Flag) -> str:
    """Return the name of a flag without what marks it as the plugin's.

    >>> short_name(FLAGS["limit"])
    '--limit'
    """
    return f"--{flag.name.removeprefix('--bias-')}"
