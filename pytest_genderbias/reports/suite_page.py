"""The output of ``genderbias list`` and ``genderbias show``: one line for each suite, or everything about one suite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_genderbias.escaping import printable
from pytest_genderbias.gates.verdicts import describe_direction
from pytest_genderbias.measurement.fit import (
    MACHINES,
    MEASURED,
    NO_DATA,
    NONE_KNOWN,
    OTHER_MODEL,
    OTHER_SETTINGS,
    SIZES,
    Fit,
    Work,
)
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.suites.suite import Suite
from pytest_genderbias.text import packaged
from pytest_genderbias.text.columns import columns, one_line, paragraph, together
from pytest_genderbias.text.located_yaml import read_yaml
from pytest_genderbias.text.printable import format_duration
from pytest_genderbias.text.wordlist import WordList, load_wordlist

_WHY = {
    NO_DATA: "need data (--bias-data=DIR; docs/reference/data.md says where to get them):",
    OTHER_MODEL: "need another kind of model:",
    OTHER_SETTINGS: "need other settings:",
}


def list_fitting(name: str, role: str, fits: Sequence[Fit], first: Sequence[Fit], width: int) -> str:
    """Return the suites that fit a model, one line each, those to begin with first, and the others by the reason.

    Args:
        name: of the model.
        role: what the model is, in words: ``a masked LM``.
        fits: what was found out of each suite.
        first: those to begin with.
        width: columns of the terminal.
    """
    fitting = [fit for fit in fits if not fit.obstacle]
    parts = [paragraph(f"{name} is {role}: {len(fitting)} of {len(fits)} suites fit", width)]
    if fitting:
        ordered = [*first, *(fit for fit in fitting if fit not in first)]
        rows = [("suite", "cases", ""), *((fit.suite.name, _count(fit.cases), fit.suite.title) for fit in ordered)]
        lines = columns(rows, width, right=[1]).split("\n")
        end = len(first) + 1
        if first:
            parts.append("\n".join(("begin with these, as genderbias init does:", *lines[:end])))
            lines[:end] = ["others:"]
        else:
            parts.append(paragraph(f"{NONE_KNOWN}; these can be measured by name, and gated with a limit:", width))
        if len(ordered) > len(first):
            parts.append("\n".join(lines))
    for obstacle, title in _WHY.items():
        if others := [fit for fit in fits if fit.obstacle == obstacle]:
            parts.append("\n".join((title, *_by_reason(others, f"; {name} is {role}", width))))
    return "\n\n".join(parts)


def list_all(suites: Iterable[Suite], width: int) -> str:
    """Return all suites, one line each, under the kind of model that they need."""
    by_need: dict[str, list[Suite]] = {}
    for suite in suites:
        by_need.setdefault(suite.family.needs, []).append(suite)
    name = max((len(suite.name) for group in by_need.values() for suite in group), default=0)
    parts = [
        f"{paragraph(f'for {need}:', width)}\n"
        + columns([(suite.name.ljust(name), suite.title) for suite in group], width)
        for need, group in by_need.items()
    ]
    return "\n\n".join((*parts, "name a model, and the folder of your data, to see which of them fit"))


def _by_reason(fits: Iterable[Fit], known: str, width: int) -> Iterator[str]:
    """Yield each reason once, with the suites that it holds for; ``known`` is the end of a reason that the title says
    already.

    Of missing data the first clause is enough: the page that the title names says where to get them.
    """
    for reason, suites in together((_reason(fit, known), fit.suite.name) for fit in fits).items():
        yield paragraph(f"{', '.join(suites)}: {reason}", width, "    ", "  ")


def _reason(fit: Fit, known: str) -> str:
    reason = fit.reason.removesuffix(known).removeprefix("needs ")
    if fit.obstacle != NO_DATA:
        return reason
    return reason.partition("; ")[0].removesuffix(" in a folder named by --bias-data=DIR")


def _count(cases: int | None) -> str:
    return "its own" if cases is None else f"{cases:,}"


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
    criticisms = [paragraph(str(one), width, f"{_INDENT}  ", f"{_INDENT}- ") for one in about.criticisms]
    sections = [
        paragraph(head, width),
        _section("what it asks", about.question, width),
        "\n".join(("some of its cases", *_cases(sentences, width))),
        _section("what the figure means", about.reads, width),
        _section("what it does not mean", about.does_not_mean, width),
        _section("definition", about.formula, width),
        f"statistics, the main one first\n{_statistics(suite.statistics, width)}",
        _section("picture", about.picture, width),
        "\n".join(("what the literature says against it", *criticisms)),
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
    rows = [("", *MACHINES)]
    for name, shape in SIZES.items():
        times = (
            format_duration(work.operations(*shape) / rates[name]) + ("" if (machine, name) in MEASURED else "*")
            for machine, rates in MACHINES.items()
        )
        rows.append((name, *times))
    head = (
        f"time to score all {work.rows:,} rows of {work.tokens:.0f} tokens in float32, calculated from measured rates"
        " (*: from the rate of another machine or size)"
    )
    return f"{paragraph(head, width)}\n{columns(rows, width, right=range(1, len(MACHINES) + 1))}"


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


def _statistics(statistics: Mapping[str, Statistic], width: int) -> str:
    rows = [("", "neutral", "worse", "")]
    for name, statistic in statistics.items():
        meaning = statistic.meaning + (" (no gate takes it)" if statistic.no_gate else "")
        rows.append((name, f"{statistic.neutral:g}", describe_direction(statistic.direction), meaning))
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
