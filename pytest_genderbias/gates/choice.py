"""The choice of the best point of a grid by a rule: pure, from the figures of each point to its number.

A point that is the best of many on some trainings looks better on them than it is. It is therefore judged on trainings
with other seeds (:class:`TriedGrid`), or named as the best on the same seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from pytest_genderbias.errors import SettingError
from pytest_genderbias.gates.policy import share_of
from pytest_genderbias.measurement.plain_data import Stored
from pytest_genderbias.text.columns import columns
from pytest_genderbias.text.printable import brief, format_mean, format_share, markdown_table

LOWEST, HIGHEST, NEAREST = "lowest", "highest", "nearest"
WITHIN = "within"
_MOST_LINES = 24  #: points in the text of a verdict
_UNBROKEN = 10_000  #: columns of a line that is not cut


@dataclass(frozen=True)
class Rule:
    """The rule that selects the best point.

    Attributes:
        figure: ``SUITE/STATISTIC``, or a figure of the task.
        wanted: ``lowest`` or ``highest`` value, or the one ``nearest`` to neutral.
        within: by figure, how much worse than before it may be, as a share of its value before.
        neutral: the value of the figure without bias, for ``nearest``.
    """

    figure: str
    wanted: str = LOWEST
    within: Mapping[str, float] = field(default_factory=dict)
    neutral: float = 0.0

    def __str__(self) -> str:
        """Return the rule in words."""
        figure = (
            f"{self.figure} nearest to {self.neutral:g}" if self.wanted == NEAREST else f"{self.wanted} {self.figure}"
        )
        limits = [f"{name} at most {format_share(share)} worse" for name, share in self.within.items()]
        return f"{figure}, {' and '.join(limits)}" if limits else figure


@dataclass(frozen=True)
class TriedPoint:
    """A point of a grid and its figures.

    Attributes:
        settings: by ``PART.SETTING``, where PART is the name of a method or of the recipe.
        values: the rule's figure, for each seed that chooses; ``None`` where it has no value.
        worse: by figure of the rule's ``within``, how much worse it is than before, as a share of the mean before;
            ``None`` if unknown.
        failure: why the point could not be trained or measured; empty if it could.
    """

    settings: Mapping[str, object]
    values: Sequence[float | None] = ()
    worse: Mapping[str, float | None] = field(default_factory=dict)
    failure: str = ""

    def __str__(self) -> str:
        """Return the settings in words."""
        return ", ".join(f"{name}={_describe_setting(value)}" for name, value in self.settings.items())

    @property
    def mean(self) -> float | None:
        """The mean of the rule's figure over seeds, or ``None`` if a seed has no finite value."""
        values = [value for value in self.values if value is not None and math.isfinite(value)]
        return float(np.mean(values)) if values and len(values) == len(self.values) else None


def read_rule(rule: Mapping[str, object]) -> Rule:
    """Return the rule that a mapping says:
    ``{"lowest": "lm-occupation/aggregate_bias", "within": {"perplexity": "5%"}}``.

    Raises:
        SettingError: it has not exactly one of ``lowest``, ``highest`` and ``nearest``, another key, or a limit that is
            no share. The message begins with the key.

    >>> read_rule({"lowest": "s/x", "within": {"perplexity": "5%"}}).within
    {'perplexity': 0.05}
    """
    ways = [key for key in (LOWEST, HIGHEST, NEAREST) if key in rule]
    if unknown := [key for key in rule if key not in (LOWEST, HIGHEST, NEAREST, WITHIN)]:
        raise SettingError(f"{unknown[0]} is no part of a rule; expected lowest, highest or nearest, and within")
    if len(ways) != 1:
        raise SettingError(f"best should have one of lowest, highest and nearest, got {' and '.join(ways) or 'none'}")
    (wanted,) = ways
    figure, within = rule[wanted], rule.get(WITHIN, {})
    if not isinstance(figure, str) or not figure:
        raise SettingError(
            f"{wanted} should name a figure, as lm-occupation/aggregate_bias or perplexity, got {figure!r}"
        )
    if not isinstance(within, Mapping):
        raise SettingError(f"within should be a mapping of figures and shares, as perplexity: 5%, got {within!r}")
    shares = {str(name): share for name, written in within.items() if (share := share_of(written)) is not None}
    for name, written in within.items():
        if str(name) not in shares:
            raise SettingError(f"within should have shares of 0 or more, as {name}: 5%, got {brief(written)}")
    return Rule(figure, wanted, shares)


def why_out(point: TriedPoint, rule: Rule) -> str:
    """Return why a point cannot be the best; an empty text if it can."""
    if point.failure:
        return point.failure
    if point.mean is None:
        return f"{rule.figure} has no value with one of the seeds"
    for name, share in rule.within.items():
        worse = point.worse.get(name)
        if worse is None:
            return f"{name} has no value"
        if not worse <= share:
            return f"{name} {format_share(worse)} worse"
    return ""


def choose_point(points: Sequence[TriedPoint], rule: Rule) -> int | None:
    """Return the number of the best point, from 0: of those within the limits, the one that the rule wants by its mean
    over seeds.

    Of equal points the first is chosen. ``None`` if no point is within the limits.

    Args:
        points: the points with their figures.
        rule: what makes one the best.

    Example:
        The third point has the lowest mean, .1, but its perplexity is 8 % worse. Of the others .2 is lower than .25.

        >>> points = [
        ...     TriedPoint({"dropout.hidden": 0.1}, [0.2, 0.3], {"perplexity": 0.0}),
        ...     TriedPoint({"dropout.hidden": 0.2}, [0.1, 0.3], {"perplexity": 0.02}),
        ...     TriedPoint({"dropout.hidden": 0.3}, [0.1, 0.1], {"perplexity": 0.08}),
        ... ]
        >>> rule = read_rule({"lowest": "lm-occupation/aggregate_bias", "within": {"perplexity": "5%"}})
        >>> choose_point(points, rule), choose_point(points[2:], rule)
        (1, None)
    """
    means = {n: point.mean for n, point in enumerate(points) if not why_out(point, rule)}
    ranks = {
        n: {LOWEST: mean, HIGHEST: -mean, NEAREST: abs(mean - rule.neutral)}[rule.wanted]
        for n, mean in means.items()
        if mean is not None
    }
    return min(ranks, key=ranks.__getitem__, default=None)


@dataclass(frozen=True)
class TriedGrid(Stored):
    """All points of a grid with their figures, and which of them was chosen, on which seeds.

    Attributes:
        points: in the order in which they were tried.
        rule: by which the best was chosen.
        best: its number, from 0.
        chosen_on: seeds of the trainings that chose it.
        judged_on: seeds of the trainings on which it is judged.
    """

    form: ClassVar[int] = 1
    called: ClassVar[str] = "grid"

    points: tuple[TriedPoint, ...]
    rule: Rule
    best: int
    chosen_on: tuple[int, ...]
    judged_on: tuple[int, ...]

    @property
    def same_seeds(self) -> bool:
        """Whether a training that chose also judges, which makes the best point look better than it is."""
        return bool(set(self.chosen_on) & set(self.judged_on))

    @property
    def label(self) -> str:
        """Name of the mitigation in tables.

        >>> points = (TriedPoint({"dropout.hidden": 0.1}), TriedPoint({"dropout.hidden": 0.2}))
        >>> rule = Rule("s/x")
        >>> TriedGrid(points, rule, 1, (0, 1), (2, 3)).label, TriedGrid(points, rule, 1, (0, 1), (0, 1)).label
        ('best of 2', 'best of 2, chosen and judged on the same seeds')
        """
        return f"best of {len(self.points)}" + (", chosen and judged on the same seeds" if self.same_seeds else "")

    def describe(self) -> str:
        """Return what was chosen of how many points, and on which seeds."""
        chosen, judged = (", ".join(map(str, seeds)) for seeds in (self.chosen_on, self.judged_on))
        on = f"seeds {chosen}, and judged on seeds {judged}"
        if self.same_seeds:
            on = f"the seeds that judge it, {judged}: the reduction looks larger than it is"
        return f"the best of {len(self.points)} points ({self.points[self.best]}) by {self.rule}, chosen on {on}"

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """Return headers and rows of the table of all points, as plain texts.

        The figure is a mean over seeds with its standard deviation; ``worse`` is against the model before.
        """
        names = list(dict.fromkeys(name for point in self.points for name in point.settings))
        limits = list(self.rule.within)
        headers = [*names, self.rule.figure, *(f"{name} worse" for name in limits), "choice"]
        rows = [
            [
                *(_describe_setting(point.settings[name]) if name in point.settings else "-" for name in names),
                "-" if point.mean is None else format_mean(point.values),
                *(format_share(point.worse.get(name)) for name in limits),
                "best" if n == self.best else f"out: {why}" if (why := why_out(point, self.rule)) else "",
            ]
            for n, point in enumerate(self.points)
        ]
        return headers, rows

    def table(self) -> str:
        """Return the table of all points as markdown. Text is escaped."""
        return markdown_table(*self.rows())

    def lines(self) -> list[str]:
        """Return the points as lines of a table; of a large grid the first ones."""
        headers, rows = self.rows()
        table = columns([headers, *rows[:_MOST_LINES]], _UNBROKEN, indent="").splitlines()
        return [*table, *([f"and {len(rows) - _MOST_LINES} more points"] if len(rows) > _MOST_LINES else [])]


def _describe_setting(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else str(value)
