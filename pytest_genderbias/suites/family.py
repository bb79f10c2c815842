"""The base class of families of suites: what each of them provides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray

from pytest_genderbias.datasets.folder import DataFolder
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.suites.cases import Answer, Question
from pytest_genderbias.suites.options import Option
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.suites.summary import Summary
from pytest_genderbias.text.located_yaml import LocatedMap


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


class Family(ABC):
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

    @abstractmethod
    def read(self, data: LocatedMap, beside: Path) -> Any:
        """Read and check the family's part of a suite file."""

    @abstractmethod
    def content(self, body: Any) -> Any:
        """Return what goes into the digest, as plain JSON values."""

    @abstractmethod
    def questions(self, body: Any, options: Mapping[str, Any], context: Context) -> dict[str, Question]:
        """Return what is asked of the model, the main question first.

        Raises:
            MissingDataError: a data set that is needed is not there; said before any weights are loaded.
        """

    @abstractmethod
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
