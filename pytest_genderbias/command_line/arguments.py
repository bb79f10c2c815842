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
from typing import Any, NoReturn, cast

import pytest

from pytest_genderbias.escaping import printable
from pytest_genderbias.plugin.flags import FLAGS, Flag
from pytest_genderbias.plugin.outputs import MADE
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
_MODEL = "[NAME=]SPEC of a model, as --bias-model takes it: candidate=./checkpoint, bert-base, demo-lm"
_INFORM = ("models", "selection")  #: flags that arguments stand for
_RUNS = ("compare", "no_worse_than", "same_as")  #: flags that belong to some of the commands that run pytest
_READ = ("options", "data", "seeds")  #: flags that decide whether a suite fits


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
    _add_runs(commands)
    _add_information(commands)
    _add_questions(commands)
    _add_agree(commands)
    _add_cache(commands)
    _add_stored(commands)
    _add_resilience(commands)
    _add_papers(commands)
    _add_files(commands)
    return parser


_Commands = Any  # argparse's class of subparsers has no public name


def _command(commands: _Commands, usage: str, help: str, description: str = "") -> argparse.ArgumentParser:
    text = f"{help[0].upper()}{help[1:]}. {description}".strip()
    name, usage = usage.partition(" ")[0], f"genderbias {usage}"
    added = commands.add_parser(name, usage=usage, help=help, description=text, allow_abbrev=False)
    return cast("argparse.ArgumentParser", added)


def _add(parser: argparse._ActionsContainer, name: str, metavar: str, help: str, **how: Any) -> None:
    parser.add_argument(name, metavar=metavar, help=help, **how)


def _add_runs(commands: _Commands) -> None:
    """Add what runs pytest: ``measure`` and ``compare``."""
    measure = _command(
        commands,
        "measure MODEL... [--suite SUITE,...] [--gates FILE] [settings] [-- pytest's arguments]",
        "measure suites on models, or judge gate files",
        "Without --suite and --gates, all fitting packaged suites are measured. A baseline makes a suite a gate.",
    )
    compare = _command(
        commands,
        "compare MODEL MODEL... [--suite SUITE,...] [settings] [-- pytest's arguments]",
        "measure suites on two models or more, and compare each with the first",
    )
    runs = ((measure, ("no_worse_than", "same_as")), (compare, ()))
    for parser, own in runs:
        _add(parser, "specs", "MODEL", _MODEL, nargs="+")
        _add_suites(parser)
        _add(parser, "--gates", "FILE", "a gate file, or a test file; repeatable", action="append")
        parser.add_argument("-v", dest="verbose", action="count", default=0, help="more figures; -vv: with records")
        _add_overrides(parser)
        left_out = {*_INFORM, *_RUNS} - set(own)
        _add_flags(parser, [name for name, flag in FLAGS.items() if name not in left_out and flag.is_typed_by_name])
        parser.epilog = "What stands behind -- goes to pytest: genderbias measure demo-lm -- -n 2"
        parser.set_defaults(takes_rest=True)


def _add_information(commands: _Commands) -> None:
    """Add what shows suites: ``list`` and ``show``."""
    listing = _command(
        commands,
        "list [MODEL...] [--suite SUITE,...] [settings], or list --aliases",
        "list the suites that fit a model and your data, one line each",
    )
    listing.add_argument(
        "--aliases", action="store_true", help="list the short names of models, and what they stand for"
    )
    _add(listing, "specs", "MODEL", f"{_MODEL}; without one, all suites are listed", nargs="*")
    _add_suites(listing)
    _add_overrides(listing)
    _add_flags(listing, _READ)
    show = _command(
        commands,
        "show SUITE... [--data DIR]",
        "show what a suite asks, how to read its figures, and what it is made of",
    )
    _add(show, "suites", "SUITE", "a packaged suite, or the path of a suite file", nargs="+")
    _add_flags(show, ("data",))


def _add_questions(commands: _Commands) -> None:
    """Add ``questions``."""
    questions = _command(
        commands,
        "questions SUITE... [--samples N] [--batch MODEL] [--limit N] [--option ...] [--data DIR] > FILE",
        "print the questions of chat suites as JSON lines, for a system that answers in text",
        "Each line has an id, messages, options and the number of replies that are wanted. A file with a line"
        ' {"id": ..., "replies": [...]} for each is measured as a model: --bias-model=NAME=FILE.',
    )
    _add(questions, "suites", "SUITE", "a packaged suite, or the path of a suite file", nargs="+")
    _add(questions, "--samples", "N", "replies to each question (default: 1)", type=_at_least_one, default=1)
    _add(questions, "--batch", "MODEL", "print the rows of a batch of an OpenAI-like API for this model")
    _add(questions, "--limit", "N", "most cases of a suite, as in a run", type=_at_least_one)
    _add(questions, "--seed", "N", "seed of the random order (default: 0)", type=int, default=0)
    questions.add_argument("--cost", action="store_true", help="print only how many questions and tokens they are")
    _add_flags(questions, ("options", "data"))


def _add_agree(commands: _Commands) -> None:
    """Add ``agree``."""
    agree = _command(
        commands,
        "agree MODEL SUITE [--replies SPEC] [--samples N] [--limit N] [--tokens N] [--cost] [settings]",
        "show whether a chat model says in text what its probabilities say",
        "The model writes replies to some questions of a suite, with thinking off and on where its template has a"
        " switch; they are compared with the probabilities of the options.",
    )
    _add(agree, "model", "MODEL", _MODEL)
    _add(agree, "suite", "SUITE", "a packaged suite, or the path of a suite file")
    _add(agree, "--replies", "SPEC", "a file of replies or a system that answers, in place of the model's own replies")
    _add(agree, "--samples", "N", "replies to each question (default: 5)", type=_at_least_one, default=5)
    _add(agree, "--limit", "N", "most questions, drawn at random (default: 200)", type=_at_least_one, default=200)
    tokens = "most tokens of a reply (default: 16; 1024 with thinking on)"
    _add(agree, "--tokens", "N", tokens, type=_at_least_one)
    _add(agree, "--seed", "N", "seed of the questions and replies (default: 0)", type=int, default=0)
    agree.add_argument("--cost", action="store_true", help="print only how many questions and replies they are")
    _add_flags(agree, ("options", "data", "cache_folder", "device", "dtype"))


def _add_cache(commands: _Commands) -> None:
    """Add ``cache``."""
    cache = _command(commands, "cache [--clear] [--cache DIR]", "show what the score cache holds, by suite and model")
    cache.add_argument("--clear", action="store_true", help="remove all stored scores first, but those that are in use")
    _add_overrides(cache)
    _add_flags(cache, ("cache_folder",))


def _add_stored(commands: _Commands) -> None:
    """Add what reads the files of earlier runs: ``gates``, ``report`` and ``history``."""
    gates = _command(
        commands,
        "gates [--explain] [--baseline DIR]",
        "list the gates on stored baselines, and what each of them sees",
        "The growth of bias that a gate sees fails in 80 % of releases.",
    )
    gates.add_argument("--explain", action="store_true", help="say in a sentence what turns each gate red")
    _add(gates, "--baseline", "DIR", "folder of the baselines (default: bias_baselines)", default="bias_baselines")
    report = _command(
        commands,
        "report FILE [--to FILE]...",
        "make reports from the file that --bias-json wrote",
        "Without --to, the figures and verdicts are printed.",
    )
    _add(report, "file", "FILE", "the JSON file of a run")
    report.add_argument("-v", dest="verbose", action="count", default=0, help="print more figures; -vv: with records")
    _add(
        report,
        "--to",
        "FILE",
        "page.html, summary.md, card.md (or README.md), records.csv (or .parquet), release.bias.yaml, history.db, the"
        f" folders figures and audit; or KIND=PATH, with KIND one of {', '.join(MADE)}; repeatable",
        action="append",
        default=[],
    )
    history = _command(
        commands,
        "history FILE [--all] [--runs N] [--model NAME] [--suite SUITE] [--markdown] [--figures DIR]",
        "show each statistic over the runs of a history",
        "Main and gated statistics have a line each: the first and the last value, the change, and what is allowed.",
    )
    _add(history, "file", "FILE", "the SQLite file")
    history.add_argument("--all", action="store_true", help="all statistics")
    _add(history, "--runs", "N", "only the last N runs", type=_at_least_one)
    _add(history, "--model", "NAME", "only this model; repeatable", action="append")
    _add(history, "--suite", "SUITE", "only this suite; repeatable", action="append")
    history.add_argument("--markdown", action="store_true", help="print a table in markdown, to paste")
    _add(history, "--figures", "DIR", "draw each statistic over the runs into DIR")


def _add_files(commands: _Commands) -> None:
    """Add ``check``, ``init`` and ``schema``."""
    check = _command(
        commands,
        "check [FILE...] [--language LANGUAGE]",
        "check files before a run: suites, word lists, gates, baselines, data",
        "Each file is read as in a run. Errors name file, line and what was expected, and the exit status is then 1.",
    )
    paths = (
        "suite, word list, gate file, baseline (.json), report (.json), predictions (.csv, .jsonl, ...), or a folder of"
        " data, baselines or audit packs"
    )
    _add(check, "paths", "FILE", paths, nargs="*")
    what = "list what is packaged in a language, as suite files name it (de), and what is missing; status 1 if any is"
    _add(check, "--language", "LANGUAGE", what)
    init = _command(
        commands,
        "init [MODEL] [--folder DIR] [--ci github|gitlab|none] [--data DIR]",
        "write a first gate file, and a workflow that runs it in CI",
        "The gates are on the suites that fit the model and the data. Nothing that exists is overwritten.",
    )
    _add(init, "model", "MODEL", f"{_MODEL}; without one, the gates are for any masked or causal LM", nargs="?")
    _add(init, "--folder", "DIR", "folder of the project (default: the current one)", default=".")
    places = ("github", "gitlab", "none")
    init.add_argument("--ci", choices=places, default="github", help="where it runs (default: github)")
    _add_flags(init, ("data",))
    schema = _command(
        commands,
        "schema [gates|report]",
        "print the JSON Schema of gate files, for editors, or of reports",
        "An editor with a YAML language server completes and checks gate files by it.",
    )
    schema.add_argument("of", choices=("gates", "report"), nargs="?", default="gates", help="(default: gates)")


def _add_papers(commands: _Commands) -> None:
    """Add ``paper``."""
    paper = _command(
        commands,
        "paper [PAPER [TABLE]] [--data DIR --runs DIR] [--scale small|paper] [--check] [settings]",
        "show the tables of the five papers, and make their runs",
        "Without a paper, the papers are listed; without a table, its tables with their verdicts. With --runs, runs"
        " without a result are made first. Each is stored when it is done, so an interrupted table resumes.",
    )
    _add(paper, "paper", "PAPER", "webster2020, dev2019, orgad2022, lu2018 or bordia2019", nargs="?")
    _add(paper, "table", "TABLE", "table-2, figure-1, ...: as the paper numbers them", nargs="?")
    _add(paper, "--data", "DIR", "folder of the data sets, and of models/ for the small scale")
    _add(paper, "--runs", "DIR", "folder that keeps the trained models; makes the runs without a result")
    _add(paper, "--place", "NAME=PATH", "a path that runs name, as glove=FILE; repeatable", action="append", default=[])
    _add(
        paper,
        "--results",
        "DIR",
        "folder of the results (default: results/ in that of --runs; without --runs, the results of the small runs"
        " that come with the package)",
    )
    _add(paper, "--only", "RUN,...", "only these runs")
    scale = "sizes for two cores, or the paper's (default: small)"
    paper.add_argument("--scale", choices=("small", "paper"), default="small", help=scale)
    check = "check the paper's scale on small stand-ins, a step of each run, and store nothing"
    paper.add_argument("--check", action="store_true", help=check)
    _add(paper, "--pages", "DIR", "write the pages of all papers from the results, in markdown")


def _add_resilience(commands: _Commands) -> None:
    """Add ``resilience``."""
    command = _command(
        commands,
        "resilience MODEL... --suite SUITE --recipe RECIPE [--steps N,...] [--frozen PART,...] [--runs DIR] [settings]",
        "tune models for a task, and measure bias by steps and by the part that was frozen",
        "A mitigated model should keep its distance from the others while it learns the task. With --runs, trained"
        " models are kept, and an interrupted training resumes.",
    )
    _add(command, "specs", "MODEL", _MODEL, nargs="+")
    _add(command, "--suite", "SUITE", "a packaged suite, or the path of a suite file", required=True)
    _add(command, "--statistic", "NAME", "statistic of the table (default: the main one of the suite)")
    recipe = "recipe of the task: its name, or a mapping as in a gate file: '{name: similarity, epochs: 1}'"
    _add(command, "--recipe", "RECIPE", recipe, required=True)
    steps = "steps that are measured beside the end; 0: with a frozen encoder (default: 0,10,100,1000)"
    _add(command, "--steps", "N,...", steps, type=_steps, default=(0, 10, 100, 1000))
    _add(command, "--max-steps", "N", "steps of each training (default: as the recipe sets it)", type=_at_least_one)
    frozen = (
        "parts to freeze, one training each: nothing, embeddings, encoder, or numbers of first layers; or all (default:"
        " nothing,embeddings,encoder)"
    )
    _add(command, "--frozen", "PART,...", frozen, default="nothing,embeddings,encoder")
    _add(command, "--seed", "N", "seed of the trainings (default: 0)", type=int, default=0)
    _add(command, "--data", "DIR", "folder of the data sets")
    _add(command, "--limit", "N", "most cases that are scored at each step", type=_at_least_one)
    _add(command, "--runs", "DIR", "folder that keeps what is trained")
    _add(command, "--json", "FILE", "write all figures as JSON")


def _steps(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"expected whole numbers from 0, as 0,10,100, got {text!r}")
    return tuple(map(int, parts))


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def _add_suites(parser: argparse.ArgumentParser) -> None:
    help = "suites: packaged names, paths of suite files (ending in .yaml), or 'all'; repeatable"
    for option, text in (("--suite", help), ("--bias-suite", argparse.SUPPRESS)):
        _add(parser, option, "SUITE,...", text, dest="suites", action="append")


def _add_overrides(parser: argparse.ArgumentParser) -> None:
    help = "a key of the ini file for this run, as bias_sees=30%%; repeatable"
    _add(parser, "-o", "KEY=VALUE", help, dest="overrides", action="append", default=[])


def _add_flags(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    """Add flags of the plugin under their short and their full names."""
    group = parser.add_argument_group("settings (each also under the name that it has in pytest: --bias-...)")
    for name in names:
        flag = FLAGS[name]
        for option, help in ((short_name(flag), _help(flag)), (flag.name, argparse.SUPPRESS)):
            if flag.is_switch:
                group.add_argument(option, dest=_dest(name), action="store_true", default=None, help=help)
            else:
                action = "append" if flag.repeatable else "store"
                _add(group, option, flag.metavar, help, dest=_dest(name), action=action)


def _dest(field: str) -> str:
    """Return where the parser keeps a flag of the plugin, apart from a command's own arguments of that name."""
    return f"flag {field}"


def short_name(flag: Flag) -> str:
    """Return the name of a flag without what marks it as the plugin's.

    >>> short_name(FLAGS["limit"])
    '--limit'
    """
    return f"--{flag.name.removeprefix('--bias-')}"


def _help(flag: Flag) -> str:
    return flag.help.replace("%", "%%")
