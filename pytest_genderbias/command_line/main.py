"""The entry point: which command was typed, and what it exits with."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import pytest

from pytest_genderbias.command_line.arguments import USAGE_ERROR, Typed, make_parser
from pytest_genderbias.errors import BiasError
from pytest_genderbias.escaping import printable
from pytest_genderbias.plugin.doors import reach
from pytest_genderbias.text.plain_files import reason

#: Commands and the module of this package that carries them out: ``carry_out(typed)`` returns the exit status.
_MODULES: Mapping[str, str] = {
    "measure": "runs",
    "compare": "runs",
    "list": "runs",
    "show": "runs",
    "cache": "runs",
    "report": "stored",
    "history": "stored",
    "gates": "stored",
    "check": "check",
    "init": "first_files",
    "schema": "first_files",
    "questions": "questions",
    "agree": "questions",
}
#: Commands of other rooms: ``carry_out(values)`` takes the values of the command's own arguments.
_ELSEWHERE: Mapping[str, str] = {
    "resilience": "mitigation.harness.curves:carry_out",
    "paper": "papers.paper_command:carry_out",
}
_INTERRUPTED = 130  #: exit status, as a shell has it for Ctrl-C


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command.

    Args:
        arguments: what was typed behind ``genderbias``; by default that of this process.

    Returns:
        The exit status: that of pytest for what runs pytest; otherwise 0, 1 if something that was checked is wrong, 4
        if the command cannot be carried out, and 130 if it was interrupted.
    """
    typed = Typed.of(make_parser(), sys.argv[1:] if arguments is None else arguments)
    try:
        if typed.command in _ELSEWHERE:
            return int(reach(_ELSEWHERE[typed.command])(typed.values))
        return int(reach(f"command_line.{_MODULES[typed.command]}:carry_out")(typed))
    except (BiasError, pytest.UsageError) as error:
        print(f"genderbias {typed.command}: {printable(str(error))}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt as interruption:
        next_step = f"; {interruption}" if interruption.args else ""
        print(f"\ngenderbias {typed.command}: interrupted{next_step}", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:  # as of `genderbias list | head`
        sys.stderr.close()
        return USAGE_ERROR
    except OSError as error:
        if error.filename is None:
            raise
        problem = printable(f"{error.filename}: {reason(error)}; choose another path")
        print(f"genderbias {typed.command}: {problem}", file=sys.stderr)
        return USAGE_ERROR
