"""The base class of families of suites: what each of them provides, and the texts that describe it."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, ClassVar, Generic, TypeAlias, TypeVar

from pytest_genderbias.datasets.folder import DataFolder
from pytest_genderbias.statistics.right_answers import Ability
from pytest_genderbias.suites.ask import Asking
from pytest_genderbias.suites.cases import Answers, Question
from pytest_genderbias.suites.statistic import FamilyStatistic, NullFigures, Options
from pytest_genderbias.suites.summary import Summary
from pytest_genderbias.text import packaged, schema
from pytest_genderbias.text.located_yaml import read_yaml
from pytest_genderbias.text.printable import refuse_unknown_name
from pytest_genderbias.text.schema import (
    Count,
    LocatedList,
    LocatedMap,
    Rule,
    at_least,
    check_setting,
    read_located,
    refuse_unknown,
    take,
    words,
)

_TABLE = re.compile(r".+\.(?:(?:jsonl|csv|tsv)(?:\.gz)?|parquet)", re.IGNORECASE)
#: Settings of a measurement that are no options of a suite.
RUN_SETTINGS: Mapping[str, Any] = {
    "limit": Count | None,
    "seed": Annotated[int, at_least(0)] | None,
    "batch_tokens": Count | None,
    "seeds": Annotated[int, at_least(2)],
}
Text: TypeAlias = Annotated[str, Rule("a text", minLength=1)]


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
        default: the default value, which is the paper's definition.
        hint: the annotation of the accepted values, as :mod:`~pytest_genderbias.text.schema` reads it.
        meaning: what the option does.
        display: whether the option changes only what is shown, so that measurements with other values can be compared.
        implied: whether signatures leave out the default, as of an option that a family did not always have: baselines
            that were stored before it stay comparable.
        synonyms: values that mean the same as another one, which signatures have in their place.
        only_with: another option and the value of it with which this one does anything; signatures leave it out with
            other values.
    """

    default: object
    hint: Any
    meaning: str
    display: bool = False
    implied: bool = False
    synonyms: Mapping[str, str] = field(default_factory=dict)
    only_with: tuple[str, object] | None = None

    @property
    def expected(self) -> str:
        """The accepted values, in words."""
        return words(schema.without_null(self.hint))


def signed_options(options: Mapping[str, Option], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that a signature has, of the values of all options: measurements with others are not compared.

    >>> known = {"by": one_of("sum", "draws", meaning=""), "draws": whole(20, "", only_with=("by", "draws"))}
    >>> signed_options(known, {"by": "sum", "draws": 20})
    {'by': 'sum'}
    """
    signed = {}
    for name, value in values.items():
        option = options[name]
        used = option.only_with is None or values[option.only_with[0]] == option.only_with[1]
        if used and not option.display and not (option.implied and value == option.default):
            signed[name] = value
    return signed


def one_of(default: str, *others: str, meaning: str, implied: bool = False) -> Option:
    """Make an option with a fixed set of texts."""
    return Option(default, Annotated[str, schema.one_of(default, *others)], meaning, implied=implied)


ITEMS_KEY, PAPER, WIDE = "items", "paper", "wide"  #: The option that selects sets of items, and its values.

#: The option ``items``. Measurements with other items are never compared: each set has a digest of its own.
ITEMS: Option = one_of(
    PAPER,
    WIDE,
    meaning=(
        "the suite's own words and templates (in packaged suites the paper's), or its wide sets, which see smaller"
        " changes"
    ),
    implied=True,
)


def flag(meaning: str, default: bool = False) -> Option:
    """Make an option that is on or off."""
    return Option(default, bool, meaning)


def whole(
    default: int, meaning: str, least: int = 1, display: bool = False, only_with: tuple[str, object] | None = None
) -> Option:
    """Make an option that is a whole number of at least ``least``."""
    return Option(default, Annotated[int, at_least(least)], meaning, display, only_with=only_with)


def text(meaning: str, default: str | None = None, display: bool = False) -> Option:
    """Make an option that is a text or nothing, such as the name or path of data (the signature has their digest)."""
    return Option(default, Text | None, meaning, display)


def table(default: str | None, *names: str, meaning: str) -> Option:
    """Make an option that is the name of a data set or the path of a table; the signature has the digest of the
    data.
    """
    known = f"one of {', '.join(names)}, or the path of a table (.jsonl, .csv, .tsv, .parquet)"
    rule = Rule(known, test=lambda name: name in (default, *names) or _TABLE.fullmatch(name) is not None)
    hint: Any = Annotated[str, rule]
    return Option(default, hint if default else hint | None, meaning, display=True)


def share(default: float, meaning: str) -> Option:
    """Make an option that lies strictly between 0 and 1."""
    return Option(default, schema.Share, meaning)


def resolve_options(options: Mapping[str, Option], chosen: Mapping[str, object], what: str) -> dict[str, Any]:
    """Return all options with their values, with defaults for those that are not chosen.

    Args:
        options: the options of a family.
        chosen: values by name.
        what: name of the suite, for messages.

    Raises:
        UnknownNameError: there is no option of that name.
        SettingError: an option does not accept its value.
    """
    for name in chosen:
        refuse_unknown_name(name, sorted(options), f"{what} has no option {name!r}", "it has")
    values = {name: chosen.get(name, option.default) for name, option in options.items()}
    for name, value in values.items():
        check_setting(f"option {name!r} of {what}", options[name].hint, value)
    return {
        name: options[name].synonyms.get(value, value) if isinstance(value, str) else value
        for name, value in values.items()
    }


#: The groups of suites that ask about gender.
GENDERS = frozenset({"female", "male"})
CANNOT = "cannot do the task"  #: begins the reason why a model that is not able has no value
BodyT = TypeVar("BodyT")


@dataclass(frozen=True)
class Context:
    """Input of a family for making its questions, before anything is scored.

    Attributes:
        role: ``kind`` of the model's role.
        labels: labels of a classifier.
        data: the user's data sets.
        seed: seed of the run.
        scores: ``probability`` for a coreference scorer whose scores are probabilities, otherwise empty.
        samples: replies to each question, of a system that answers in text.
        ask: how the suite asks.
    """

    role: str
    labels: tuple[str, ...] = ()
    data: DataFolder = field(default_factory=DataFolder)
    seed: int = 0
    scores: str = ""
    samples: int = 1
    ask: Asking = field(default_factory=Asking)


class Family(ABC, Generic[BodyT]):
    """A family of suites: how its files are read, which cases they make, what is asked, and how answers are summarised.

    The functions are called in this order: :meth:`read` and :meth:`content` when a suite is loaded; :meth:`questions`
    once the role of the model is known, before its weights are loaded; :meth:`summarise` with the answers; then
    :meth:`null` and :meth:`competence`. One object serves all suites of a family, so that none of them may keep
    anything.
    """

    name: ClassVar[str]
    definition: ClassVar[str]  #: name and version of the statistics; other definitions are never compared
    needs: ClassVar[str]  #: the kind of model, in words for a skip
    roles: ClassVar[tuple[str, ...]]
    keys: ClassVar[tuple[str, ...]]  #: keys of its suite files beside the head
    statistics: ClassVar[Mapping[str, FamilyStatistic]]  #: the main statistic first
    options: ClassVar[Mapping[str, Option]]
    null_control: ClassVar[str] = ""  #: what :meth:`null` shuffles, in words; empty where no shuffle is natural
    no_null_control: ClassVar[str] = ""  #: the reason, where ``null_control`` is empty
    picture: ClassVar[str] = ""  #: what is drawn of it, by the name of a function of ``reports/figures/units.py``
    seeds_are_restarts: ClassVar[bool] = False  #: whether its option ``seeds`` is a number of restarts

    @property
    def about(self) -> SuiteAbout:
        """Texts on what it asks and how to read it, from ``fixtures/about``."""
        return read_about(self.name)

    @abstractmethod
    def read(self, data: LocatedMap) -> BodyT:
        """Read and check the family's part of a suite file."""

    def of_body(self, body: BodyT) -> Family[BodyT]:
        """Return the family that summarises a body: one of more than two groups may have other statistics."""
        return self

    @abstractmethod
    def content(self, body: BodyT) -> object:
        """Return the part of the suite that goes into the digest, as plain JSON values."""

    @abstractmethod
    def questions(self, body: BodyT, options: Options, context: Context) -> dict[str, Question]:
        """Return the questions to the model, the main question first.

        Raises:
            MissingDataError: a data set that is needed is missing; raised before any weights are loaded.
        """

    @abstractmethod
    def summarise(self, body: BodyT, options: Options, answers: Answers, seed: int) -> Summary:
        """Return values, intervals, records and item statistics.

        ``measurement/carry_out.py`` replaces the interval of a statistic that is ``crossed``, and of every statistic of
        a suite with clusters.
        """

    def null(self, body: BodyT, options: Options, answers: Answers, seed: int, repeats: int) -> NullFigures:
        """Shuffle what :attr:`null_control` names ``repeats`` times, and return the values of statistics after each
        shuffle, shape (repeats,). NaN where a shuffle leaves a statistic undefined.

        The model is not asked again. Nothing if the answers leave nothing to shuffle. Fewer repeats if all of them
        would take longer than a few minutes.

        Raises:
            UndefinedError: these answers have no null control.
        """
        return {}

    def null_sizes(self, body: BodyT, options: Options, answers: Answers, seed: int, repeats: int) -> NullFigures:
        """Return :meth:`null` of the statistics that are made of sizes, and of others where that takes no longer."""
        return self.null(body, options, answers, seed, repeats)

    def asks(self, body: BodyT) -> tuple[str, ...]:
        """Return the keys of ``ask`` that the questions of a body use (``suites/ask.py``)."""
        return ()

    def asks_gender(self, body: BodyT, options: Options) -> bool:
        """Return whether the suite compares words that say a gender by definition, such as she and he, so that a model
        has to know them.
        """
        return False

    def competence(self, summary: Summary) -> Ability | None:
        """Return how often the model is right in what the suite itself asks, where a right answer is known; ``None``
        where no answer is right or wrong.
        """
        return None

    def own_questions(self) -> frozenset[str]:
        """Return the names of questions that only one statistic needs."""
        return frozenset(s.question for s in self.statistics.values() if s.question is not None)


class DataFamily(Family[None]):
    """A family whose suite files have a head only: its cases are a data set, which has its own digest."""

    keys: ClassVar[tuple[str, ...]] = ()

    def read(self, data: LocatedMap) -> None:
        """Read nothing."""

    def content(self, body: None) -> object:
        """Return nothing."""
        return []


#: A family of any body and options: suites have families of all kinds.
AnyFamily: TypeAlias = Family[Any]


#: What a suite file may say of itself under ``about``, where the family's words do not fit.
OWN_WORDS = ("question", "reads", "does_not_mean", "formula", "picture", "cost")


@dataclass(frozen=True)
class Criticism:
    """An objection in a publication to a measurement, or to measurements of its kind.

    Attributes:
        text: the point, in one or two sentences.
        source: the publication: authors, year, title, venue.
    """

    text: str
    source: str

    def __str__(self) -> str:
        """Return the point with its source."""
        return f"{self.text} ({self.source})"


@dataclass(frozen=True)
class SuiteAbout:
    """Description of what a suite measures: plain text without markup, for readers who have not seen the papers.

    Attributes:
        question: what the suite asks of a model, in two sentences.
        reads: what the figure of the main statistic means: unit, neutral value and direction.
        does_not_mean: what must not be read from the figure.
        formula: definition of the main statistic, as plain text; a line break starts the next part of it.
        picture: how to read the picture.
        criticisms: what the literature says against it.
        paper: the publication that defines it, with the section.
        cost: what a measurement costs: forward passes, data, trainings.
        kind: the heading under which the reference lists its suites.
        keys: the keys of its suite files, as markdown.
    """

    noun: ClassVar[str] = "description of a family"

    question: str
    reads: str
    does_not_mean: str
    formula: str
    picture: str
    criticisms: tuple[Criticism, ...]
    paper: str
    cost: str
    kind: str
    keys: str


@cache
def read_about(family: str) -> SuiteAbout:
    """Read the words of a packaged family: ``fixtures/about/FAMILY.yaml``.

    An entry of its ``criticisms`` is a mapping of ``text`` and ``source``, or the name of one in ``literature.yaml``.

    Raises:
        DataFileError: the file breaks a rule; the message names file and line.
    """
    folder = packaged.folder("fixtures") / "about"
    data, shared = (read_yaml(folder / f"{name}.yaml") for name in (family, "literature"))
    criticisms = take(data, "criticisms", LocatedList, f"the {SuiteAbout.noun}")
    for place, one in enumerate(criticisms):
        if isinstance(one, str):
            if one not in shared:
                raise data.error_at("criticisms", f"{one!r} is not in literature.yaml")
            criticisms[place] = read_located(Criticism, shared[one])  # an error names that file
    return read_located(SuiteAbout, data)


def read_own_words(data: LocatedMap) -> dict[str, str]:
    """Read the key ``about`` of a suite file: the suite's own texts by name, empty where it has none.

    Raises:
        DataFileError: an unknown name, or something else than a text.
    """
    about = take(data, "about", LocatedMap, "the suite", default={})
    refuse_unknown(about, OWN_WORDS, "'about' of a suite")
    return {name: take(about, name, str, "'about' of a suite") for name in about}
