"""``genderbias completion``: scripts that complete commands, flags and names of suites, made from the parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from pytest_genderbias.command_line.arguments import Typed
from pytest_genderbias.models.spec import ALIASES, DEMOS
from pytest_genderbias.text import packaged

_BASH = """\
# bash completion of genderbias: source <(genderbias completion bash)
_genderbias() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" command="${{COMP_WORDS[1]}}" words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands}"
    else
        case "$command" in
{cases}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    [ ${{#COMPREPLY[@]}} -gt 0 ] || COMPREPLY=($(compgen -f -- "$current"))
}}
complete -o filenames -F _genderbias genderbias
"""
_ZSH = """\
#compdef genderbias
# zsh completion of genderbias: source <(genderbias completion zsh)
autoload -U +X bashcompinit && bashcompinit
{bash}"""
_FISH = """\
# fish completion of genderbias: genderbias completion fish | source
{lines}
"""


def carry_out(typed: Typed) -> int:
    """Print the script of a shell."""
    words = {name: list(_words(name, parser)) for name, parser in commands_of(typed.parser).items()}
    shell = typed.values["shell"]
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](words), end="")
    return 0


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the commands by name."""
    (action,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return dict(action.choices)


def _words(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield what can follow a command: its flags by their short names, its choices, and names of suites or models."""
    for action in parser._actions:
        if action.option_strings:
            yield next((text for text in action.option_strings if text.startswith("--")), action.option_strings[0])
        elif action.choices is not None:
            yield from map(str, action.choices)
    if name == "show":
        yield from packaged.names("fixtures")
    elif name in ("measure", "compare", "list", "init"):
        yield from (*DEMOS, *ALIASES)


def _bash(words: dict[str, list[str]]) -> str:
    cases = "\n".join(f'            {name}) words="{" ".join(after)}" ;;' for name, after in words.items())
    return _BASH.format(commands=" ".join(words), cases=cases)


def _zsh(words: dict[str, list[str]]) -> str:
    return _ZSH.format(bash=_bash(words))


def _fish(words: dict[str, list[str]]) -> str:
    lines = [f"complete -c genderbias -n __fish_use_subcommand -a '{' '.join(words)}'"]
    for name, after in words.items():
        there = f"-n '__fish_seen_subcommand_from {name}'"
        lines += [f"complete -c genderbias {there} -l {word[2:]}" for word in after if word.startswith("--")]
        if plain := [word for word in after if not word.startswith("-")]:
            lines.append(f"complete -c genderbias {there} -a '{' '.join(plain)}'")
    return _FISH.format(lines="\n".join(lines))
