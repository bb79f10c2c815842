"""What every family of suites provides, and the reading of slots that they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

from numpy.typing import NDArray

from pytest_genderbias.datasets.folder import DataFolder
from pytest_genderbias.errors import DataFileError, UnknownNameError
from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.suites.cases import Answer, Question
from pytest_genderbias.suites.options import Option
from pytest_genderbias.text.located_yaml import LocatedList, LocatedMap, refuse_unknown, take
from pytest_genderbias.text.template import BLANK, Piece, Word, parse_template, slots_of
from pytest_genderbias.text.wordlist import Entry, load_wordlist

Record = dict[str, Any]


@dataclass(frozen=True)
class Statistic:
    """One figure of a suite: which way is worse, and the value of a model without bias.

    ``direction`` is the direction that is worse: ``higher``, ``lower``, or ``away`` from ``neutral`` on either side.
    """

    direction: str
    neutral: float
    meaning: str

    def distance(self, value: float) -> float:
        """Return how bad a value is: larger is worse, 0 is neutral."""
        signed = value - self.neutral
        return {"higher": signed, "lower": -signed, "away": abs(signed)}[self.direction]


@dataclass(frozen=True)
class Context:
    """What is known before anything is scored.

    ``role`` is the model's kind, ``labels`` a classifier's outputs. ``data`` finds the user's data sets. ``beside`` is the folder
    of the suite file, where paths in it start. ``seed`` is that of the run.
    """

    role: str
    labels: tuple[str, ...] = ()
    data: DataFolder = field(default_factory=DataFolder)
    beside: Path = field(default_factory=Path)
    seed: int = 0


@dataclass(frozen=True)
class Summary:
    """What a family makes of its scores. A key whose value is ``None`` has its reason in ``reasons``.

    ``count``: how much was counted, where cases do not say it (the tokens of a text). ``data``: digests of what the cases of the
    questions do not hold (who is in a file of predictions); measurements of other data are never compared.
    ``unstored``: arrays from which sums of units are made, but which are not among the items.
    """

    values: dict[str, float | None]
    intervals: dict[str, Interval | None]
    reasons: dict[str, str]
    records: list[Record]
    items: dict[str, NDArray[Any]]
    notes: list[str] = field(default_factory=list)
    count: int | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    unstored: Mapping[str, NDArray[Any]] = field(default_factory=dict)


class Family(Protocol):
    """A family of suites: how its files are read, which cases they make, what is asked, how it is summarised."""

    name: ClassVar[str]
    definition: ClassVar[str]  #: name and version of the statistic; another one is never compared
    needs: ClassVar[str]  #: the kind of model, in words for a skip
    roles: ClassVar[tuple[str, ...]]
    keys: ClassVar[tuple[str, ...]]  #: keys of its suite files beside the head
    statistics: ClassVar[Mapping[str, Statistic]]
    options: ClassVar[Mapping[str, Option]]
    null_control: ClassVar[str] = ""  #: what :meth:`null` shuffles, in words; empty where no shuffle is natural
    no_null_control: ClassVar[str] = ""  #: then why none is
    seeds_are_restarts: ClassVar[bool] = False  #: whether its option ``seeds`` is a number of restarts
    asked_apart: ClassVar[tuple[str, ...]] = ()  #: statistics with a question of their own, of that name and whole
    signed: ClassVar[
        Mapping[str, str]
    ] = {}  #: of statistics that have no sign: the one that says to which side the bias leans

    def read(self, data: LocatedMap, beside: Path) -> Any:
        """Read and check the family's part of a suite file."""

    def content(self, body: Any) -> Any:
        """Return what goes into the digest, as plain JSON values."""

    def questions(self, body: Any, options: Mapping[str, Any], context: Context) -> dict[str, Question]:
        """Return what is asked of the model, the main question first.

        Raises:
            MissingDataError: a data set that is needed is not there; said before any weights are loaded.
        """

    def summarise(self, body: Any, options: Mapping[str, Any], answers: Mapping[str, Answer], seed: int) -> Summary:
        """Return statistics, intervals, records and item statistics."""

    def unit_scores(self, statistic: str, options: Mapping[str, Any], answer: Answer) -> FloatArray | None:
        """Return the score of each unit that was answered, between 0 and 1, if the statistic is their mean over all units.

        ``answer`` is that to the main question. Shape (n,), in its order. NaN where scoring a unit shows that it has none: the
        statistic is the mean over the others. ``None`` where the statistic is no such mean: it is then exact for the whole suite, or
        unknown.
        """
        return None

    def drawn(self, statistic: str, options: Mapping[str, Any], role: str) -> str:
        """Return what is drawn at random inside a statistic, beside the sample of cases, in words: "shuffles"; nothing by default.

        Scored whole, such a statistic is not exact: another seed gives another figure. An interval over just that is what is known
        of it, if it has one. ``role`` is the kind of the model. Heads that a query trains need not be named here.
        """
        return ""

    def item_sums(self, statistic: str, options: Mapping[str, Any], items: Mapping[str, NDArray[Any]]) -> ItemSums:
        """Return the sums of each item that give a statistic, from ``Summary.items`` (or from a baseline's, which are the same).

        Raises:
            UndefinedError: this statistic is not made of items, or these lack what it needs.
        """
        raise UndefinedError(f"no comparison item by item is known for {statistic}")

    def null(
        self, body: Any, options: Mapping[str, Any], answers: Mapping[str, Answer], seed: int, repeats: int
    ) -> dict[str, FloatArray]:
        """Return the values of statistics after each of ``repeats`` shuffles of what :attr:`null_control` names, shape (repeats,).

        From the answers at hand: nothing is asked of the model again. NaN where a shuffle leaves a statistic undefined. Fewer values
        where so many would take longer than a few minutes.

        Raises:
            UndefinedError: these answers have no null control.
        """
        return {}


class Figures:
    """Collects the values of a summary: what has no value is ``None``, with its reason."""

    def __init__(self, statistics: Mapping[str, Statistic]) -> None:
        self.values: dict[str, float | None] = dict.fromkeys(statistics)
        self.intervals: dict[str, Interval | None] = dict.fromkeys(statistics)
        self.reasons: dict[str, str] = dict.fromkeys(statistics, "not computed")

    def take(
        self,
        key: str,
        value: Callable[[], float],
        interval: Callable[[], Interval | None] | None = None,
        no_interval: str = "",
    ) -> None:
        """Compute a value, and its interval; keep the reason of what is undefined.

        ``no_interval``: why there is no interval, where there is no ``interval`` or it gives ``None``. What has an interval may
        leave it out, if a lack of items that differ is the reason.
        """
        if interval is None and not no_interval:
            raise ValueError(f"{key} has no interval and no reason why")
        try:
            self.values[key] = float(value())
        except UndefinedError as error:
            self.reasons[key] = str(error)
            return
        self.reasons.pop(key)
        try:
            self.intervals[key] = interval() if interval else None
            reason = no_interval or "too few items, or too few that differ, for an interval"
        except UndefinedError as error:
            reason = str(error)
        if self.intervals[key] is None:
            self.reasons[key] = reason

    def miss(self, reason: str, *keys: str) -> None:
        """Say why keys (all, if none is named) have no value."""
        for key in keys or self.values:
            self.values[key] = self.intervals[key] = None
            self.reasons[key] = reason

    def summary(
        self,
        records: list[Record],
        items: dict[str, NDArray[Any]],
        notes: Sequence[str] = (),
        data: Mapping[str, str] | None = None,
        unstored: Mapping[str, NDArray[Any]] | None = None,
    ) -> Summary:
        """Return the summary."""
        return Summary(
            self.values,
            self.intervals,
            self.reasons,
            records,
            items,
            list(notes),
            data=data or {},
            unstored=unstored or {},
        )


@dataclass(frozen=True)
class SlotWords:
    """The words of a slot, as the suite file chose them from a word list."""

    entries: tuple[Entry, ...]
    form: str

    def words(self, as_printed: bool = False) -> tuple[Word, ...]:
        """Return the fillers; ``as_printed`` takes the paper's own form where ours differs."""
        return tuple(self._word(entry, as_printed) for entry in self.entries)

    def _word(self, entry: Entry, as_printed: bool) -> Word:
        text, article = entry.word, entry.attributes.get("article")
        if as_printed:
            text = entry.attributes.get("printed", text)
            article = entry.attributes.get("printed_article", article)
        return Word.of(self.form.replace("{word}", text), article, text)

    def content(self) -> list[Any]:
        """Return words and attributes for the digest."""
        return [self.form, *([e.word, dict(e.attributes)] for e in self.entries)]


def read_slot(data: LocatedMap, key: str, beside: Path) -> SlotWords:
    """Read ``key: {list: NAME-or-path, where: {attribute: value}, form: "the {word}"}``.

    ``list`` may name several lists; every entry then answers to ``{list: NAME}`` in ``where`` and ``combine``.
    ``where: {word: [...]}`` takes words by name.
    """
    what = f"slot {key!r}"
    spec = take(data, key, LocatedMap, "the suite")
    refuse_unknown(spec, ("list", "where", "form"), what)
    where = take(spec, "where", LocatedMap, what, default={})
    form = take(spec, "form", str, what, default="{word}")
    if form.count("{word}") != 1:
        raise DataFileError(
            f"{spec.file}:{spec.lines['form']}: 'form' of {what} should hold {{word}} once, got {form!r}"
        )
    names = take(spec, "list", (str, LocatedList), what)
    entries: dict[str, Entry] = {}
    for name in [names] if isinstance(names, str) else names:
        for entry in _entries_of(name, beside, spec):
            if entry.word in entries:
                raise DataFileError(
                    f"{spec.file}:{spec.lines['list']}: {entry.word!r} stands in two of the lists of {what}"
                )
            if entry.matches(where):
                entries[entry.word] = entry
    if not entries:
        raise DataFileError(f"{spec.file}:{spec.line}: {what} is empty: no word of the list has {dict(where)}")
    named = where.get("word", ())
    if absent := [word for word in ([named] if isinstance(named, str) else named) if word not in entries]:
        raise DataFileError(
            f"{spec.file}:{spec.lines['where']}: {what} asks for {', '.join(map(repr, absent))}, which the list lacks"
        )
    return SlotWords(tuple(entries.values()), form)


def _entries_of(name: str, beside: Path, spec: LocatedMap) -> list[Entry]:
    try:
        words = load_wordlist(name, beside)
    except UnknownNameError as error:
        raise DataFileError(f"{spec.file}:{spec.lines['list']}: {error}") from None
    return [replace(entry, attributes={**entry.attributes, "list": words.name}) for entry in words.entries]


def read_template(text: Any, file: str, line: int, slots: set[str], blank: bool = False) -> tuple[Piece, ...]:
    """Parse one template and check that it uses just the slots it should."""
    if not isinstance(text, str) or not text.strip():
        raise DataFileError(f"{file}:{line}: expected a template (a text with slots in braces), got {text!r}")
    pieces = parse_template(text)
    unknown, missing = slots_of(pieces) - slots, slots - slots_of(pieces)
    fixed = "".join(piece.text for piece in pieces)
    if unknown or missing or "{" in fixed or "}" in fixed:
        wanted = ", ".join(f"{{{slot}}}" for slot in sorted(slots))
        raise DataFileError(f"{file}:{line}: template {text!r} should use the slots {wanted} and no other")
    blanks = sum(piece.slot == BLANK for piece in pieces)
    if blanks != int(blank):
        raise DataFileError(
            f"{file}:{line}: template {text!r} should have {'one' if blank else 'no'} {{blank}}, has {blanks}"
        )
    return pieces


def read_groups(data: LocatedMap, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """Read ``groups``: at least two distinct labels."""
    if default is not None and "groups" not in data:
        return default
    groups = take(data, "groups", LocatedList, "the suite")
    if len(groups) < 2 or len(set(groups)) != len(groups) or not all(isinstance(g, str) for g in groups):
        raise DataFileError(
            f"{data.file}:{data.lines['groups']}: 'groups' should be two or more different labels, got {list(groups)}"
        )
    return tuple(groups)
