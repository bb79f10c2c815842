"""``genderbias show SUITE``: what a suite asks, how to read its figures, what the literature says, and what it is made
of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_genderbias.escaping import printable
from pytest_genderbias.measurement.cost import MACHINES, SIZES, Work
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.suites.suite import Suite
from pytest_genderbias.text import packaged
from pytest_genderbias.text.columns import columns, one_line, paragraph
from pytest_genderbias.text.located_yaml import read_yaml
from pytest_genderbias.text.wordlist import WordList, load_wordlist

_WORSE = {"higher": "higher", "lower": "lower", "away": "away from it"}
_INDENT = "  "
_LONGEST_CASE = 200  #: characters of a case that are shown


def show_suite(suite: Suite, sentences: Sequence[str], width: int, work: Work | None = None) -> str:
    """Return the page of a suite as plain text.

    Args:
        suite: the suite.
        sentences: some of its cases; empty where they come from data that are missing.
        width: columns of the terminal.
        work: the forward passes of its main question, if they are known.
    """
    head = (
        f"{printable(suite.name)}: {printable(suite.title)}\nfor {suite.family.needs}; language {suite.language};"
        f" family {suite.family.name}"
    )
    about = suite.about
    sections = [
        paragraph(head, width),
        _section("what it asks", about.question, width),
        "\n".join(("some of its cases", *_cases(sentences, width))),
        _section("what the figure means", about.reads, width),
        _section("what it does not mean", about.does_not_mean, width),
        _section("definition", about.formula, width),
        f"statistics, the main one first\n{_statistics(suite.family.plain_statistics(), width)}",
        _section("picture", about.picture, width),
        "\n".join(("what the literature says against it", *_criticisms(suite, width))),
    ]
    if lists := word_lists(suite):
        rows = [(one.name, f"{len(one.entries):,} words", f"{one.title}; {one.licence}") for one in lists]
        sections.append(f"word lists\n{columns(rows, width, right=[1], wrap=True)}")
    if suite.family.options:
        sections.append(f"options (--bias-option {printable(suite.name)}:NAME=VALUE)\n{_options(suite, width)}")
    sections += [
        _section(title, text, width)
        for title, text in (("cost", about.cost), ("paper", about.paper), ("licence", suite.licence))
    ]
    if work is not None:
        sections.insert(-2, _times(work, width))
    return "\n\n".join(sections)


def _times(work: Work, width: int) -> str:
    """Return the table of the time that scoring all cases takes, by size of the network and machine."""
    rows = [("", *(machine.name for machine in MACHINES))]
    for size in SIZES:
        times = (
            duration(work.seconds(size, machine)) + ("" if size.name in machine.measured else "*")
            for machine in MACHINES
        )
        rows.append((size.name, *times))
    head = (
        f"time to score all {work.rows:,} rows of {work.tokens:.0f} tokens in float32, calculated from measured rates"
        " (*: from the rate of another machine or size)"
    )
    return f"{paragraph(head, width)}\n{columns(rows, width, right=range(1, len(MACHINES) + 1))}"


def duration(seconds: float) -> str:
    """Return seconds in a unit that suits them.

    >>> duration(0.02), duration(4.26), duration(90), duration(5400)
    ('< 0.1 s', '4.3 s', '90 s', '1.5 h')
    """
    if seconds < 0.1:
        return "< 0.1 s"
    unit, length = ("s", 1) if seconds < 120 else ("min", 60) if seconds < 5400 else ("h", 3600)
    return f"{seconds / length:.1f} {unit}" if seconds / length < 10 else f"{seconds / length:,.0f} {unit}"


def word_lists(suite: Suite) -> list[WordList]:
    """Return the word lists that a suite's file names, in the order of the file."""
    names = dict.fromkeys(_names(read_yaml(suite.path)))
    return [load_wordlist(name, suite.path.parent) for name in names]


def _section(title: str, text: str, width: int) -> str:
    return f"{title}\n{paragraph(text, width, _INDENT)}"


def _cases(sentences: Sequence[str], width: int) -> list[str]:
    if not sentences:
        return [
            paragraph("they come from data, or from the model: name the folder with --bias-data=DIR", width, _INDENT)
        ]
    return [paragraph(one_line(one, _LONGEST_CASE), width, f"{_INDENT}  ", _INDENT) for one in sentences]


def _criticisms(suite: Suite, width: int) -> list[str]:
    return [paragraph(str(one), width, f"{_INDENT}  ", f"{_INDENT}- ") for one in suite.about.criticisms]


def _statistics(statistics: Mapping[str, Statistic], width: int) -> str:
    rows = [("", "neutral", "worse", "")]
    for name, statistic in statistics.items():
        meaning = statistic.meaning + (" (no gate takes it)" if statistic.no_gate else "")
        rows.append((name, f"{statistic.neutral:g}", _WORSE[statistic.direction], meaning))
    return columns(rows, width, right=[1], wrap=True)


def _options(suite: Suite, width: int) -> str:
    defaults = {name: suite.defaults.get(name, option.default) for name, option in suite.family.options.items()}
    rows = [(name, _shown(defaults[name]), option.meaning) for name, option in suite.family.options.items()]
    return columns(rows, width, wrap=True)


def _shown(default: object) -> str:
    """Return a default as one would type it.

    >>> _shown(None), _shown(False), _shown("auto")
    ('null', 'false', 'auto')
    """
    return "null" if default is None else str(default).lower() if isinstance(default, bool) else str(default)


def _names(value: object, key: str = "") -> Iterator[str]:
    """Yield every word list that a part of a suite file names: under ``list``, or as a value that is the name of a
    packaged one.
    """
    if isinstance(value, str):
        if key not in _PROSE and (key == "list" or packaged.locate("wordlists", value) is not None):
            yield value
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from _names(part, str(name))
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _names(part, key)


#: Keys of a suite file whose texts are for readers.
_PROSE = frozenset(("suite", "family", "title", "source", "licence", "language", "note", "about"))
