"""Judge the claims of a table on stored figures: agrees, differs, not able, too small to say, or needs the paper's
scale; and say what would decide those that are too small.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from pytest_genderbias.papers.config import ABOVE, BELOW, NEAR, SMALL, Claim, Table, run_of
from pytest_genderbias.papers.places import StoredFigure, StoredRun, figure_at
from pytest_genderbias.statistics.inference.intervals import t_quantile
from pytest_genderbias.text.located_yaml import plain, read_yaml

AGREES, DIFFERS, NOT_ABLE, TOO_SMALL = "agrees", "differs", "not able", "too small to say"
NEEDS = "needs the paper's scale"
LEVEL = 0.95  #: one-sided, of each bound
CONTROL = "control"  #: the side of random controls
_DRAWN = {"limit", "draws", "seeds"}  #: options of a suite that draw cases, contexts or texts
FEWEST_SEEDS = 3  #: with fewer, the spread over seeds is unknown
MOST_SEEDS = 200  #: beyond, seeds are no way to decide a claim; for items, how many times those that there are
SHARE = 0.5  #: of a published effect, the least that still is an effect of the paper's size
#: Statistics whose differences mean the same for another model: shares, correlations, and numbers of fills.
_COMPARABLE = {"net_neutral", "fraction_neutral", "threshold_0.5", "threshold_0.7", "pearson_r", "significant_fills"}
_IN_TRAINING = re.compile(r" (step|at) \d+$")  #: ends the side of a model in the course of its training
#: Reach of a one-sided bound in that of a two-sided one.
_ONE_SIDED = float(ndtri(LEVEL) / ndtri((1 + LEVEL) / 2))


@dataclass(frozen=True)
class Difference:
    """A figure minus what it is compared with, with one-sided 95 % bounds; ``low`` and ``high`` are ``None`` if there
    are none.

    ``over``: what the bounds generalise to: ``restarts``, ``items``, ``restarts and items``, or
    ``splits of the texts``. ``error``: standard error over ``seeds`` restarts, or 0; ``shared``: what splits of the
    same texts add to 1 / ``seeds`` in its square.
    """

    value: float
    low: float | None = None
    high: float | None = None
    over: str = ""
    error: float = field(default=0.0, repr=False)
    seeds: int = field(default=1, repr=False)
    shared: float = field(default=0.0, repr=False)


@dataclass(frozen=True)
class JudgedClaim:
    """A claim, its verdict, and the difference that decided it; ``None`` where a run has no result or a figure no
    value.

    ``failed``: the ability that a model of the claim lacks, in words. ``least``: the least effect of the paper's size,
    towards what is claimed; 0 where that is unknown.
    """

    claim: Claim
    verdict: str
    difference: Difference | None = None
    failed: str = ""
    least: float = 0.0


def judge_claims(table: Table, runs: Mapping[str, StoredRun]) -> list[JudgedClaim]:
    """Return the verdict of each claim of a table."""
    return [judge_claim(claim, runs) for claim in table.claims]


def table_verdict(judged: Sequence[JudgedClaim]) -> str:
    """Return the verdict of a table: ``differs`` if a claim does, else ``agrees`` if more than half of its claims do.

    Where as few as half of them agree, or fewer, it is too small to say; where models are not able to say anything on
    any claim, not able; and where no claim has a result, it needs the paper's scale.

    >>> table_verdict([])
    "needs the paper's scale"
    """
    verdicts = [claim.verdict for claim in judged]
    if DIFFERS in verdicts:
        return DIFFERS
    if 2 * verdicts.count(AGREES) > len(verdicts):
        return AGREES
    if AGREES in verdicts or TOO_SMALL in verdicts:
        return TOO_SMALL
    return NOT_ABLE if NOT_ABLE in verdicts else NEEDS


def judge_claim(claim: Claim, runs: Mapping[str, StoredRun]) -> JudgedClaim:
    """Return the verdict of a claim: ``agrees`` or ``differs`` where the bounds of the difference decide it.

    Figures without bounds that are exact for their model decide by their values. Bounds that leave no effect of the
    paper's size refute a claim, too, as in a test of equivalence (:data:`SHARE`). A claim on a model that failed its
    ability is ``not able``, whatever the bounds.
    """
    figure = figure_at(runs, claim.figure)
    other = figure_at(runs, claim.other) if isinstance(claim.other, str) else StoredFigure([claim.other])
    if figure is None or other is None:
        return JudgedClaim(claim, NEEDS)
    if claim.absolute:
        figure, other = sizes(figure), sizes(other)
    found = difference(
        figure, other, not isinstance(claim.other, str), *(runs[run_of(text)].seeds for text in claim.locators)
    )
    if failed := next((words for text in claim.locators for words in _failed(text, runs[run_of(text)])), ""):
        return JudgedClaim(claim, NOT_ABLE, found, failed)
    if found is None or (
        None in (found.low, found.high)
        and not all(_is_fact(text, runs[run_of(text)].settings) for text in claim.locators)
    ):
        return JudgedClaim(claim, TOO_SMALL, found)
    low, high = (found.value if bound is None else bound for bound in (found.low, found.high))
    least = least_effect(claim, 0.0 if other.mean is None else other.mean)
    return JudgedClaim(claim, _verdict(claim, low, high, least), found, least=least)


def least_effect(claim: Claim, other: float) -> float:
    """Return the least effect of the paper's size, towards what is claimed: half of the published one.

    It is 0 where the paper prints no figures of the same scale, where the claim has a margin, and where ``other``, what
    our figure is compared with, leaves no room for it: a correlation of .1 cannot be lowered by .25.

    >>> claim = Claim("", "after/sts-occupation/pearson_r", BELOW, "before", published=-0.5)
    >>> least_effect(claim, 0.75), least_effect(claim, 0.125)
    (0.25, 0.0)
    """
    if claim.published is None or claim.within or claim.figure.rpartition("/")[2] not in _COMPARABLE:
        return 0.0
    effect, room = (claim.published, 1 - other) if claim.relation == ABOVE else (-claim.published, other)
    return SHARE * effect if 0 < SHARE * effect <= room else 0.0


def _verdict(claim: Claim, low: float, high: float, least: float = 0.0) -> str:
    """Return what one-sided bounds of the difference say of a claim; ``least``: see :func:`least_effect`."""
    if claim.relation == NEAR:
        if -claim.within <= low and high <= claim.within:
            return AGREES
        return DIFFERS if low > claim.within or high < -claim.within else TOO_SMALL
    if claim.relation == BELOW:
        low, high = -high, -low
    low, high = low + claim.within, high + claim.within
    against = high <= 0 if low == high else high < least  # equal values are neither above nor below
    return AGREES if low > 0 else DIFFERS if against else TOO_SMALL


def _failed(locator: str, run: StoredRun) -> Iterator[str]:
    """Yield the abilities that the model of a figure failed, in words: those whose mean over the seeds a constant
    answer reaches with a chance of 5 % or more (normal error over the examples).

    The abilities are those of the figure's suite, and of the task that its model was tuned for, on the same side; where
    there are none, those of all sides. A figure of a task is itself an ability, and a model in the course of its
    training is asked for none.
    """
    side, suite = locator.partition(" ")[2].split("/")[:2]
    later = {name: stage for stage in run.settings.get("then", ()) for name in _names(stage)}
    stage = later.get(suite, run.settings)
    task = stage.get("recipe", {}).get("name")
    if run.scale != SMALL or suite == task or _IN_TRAINING.search(side):
        return
    asked: dict[str, tuple[float, int]] = {}
    for key in run.figures:
        of, name, _ = key.split("/")
        figure, known = key.partition("/")[2], _constants()
        constant = known.get(f"{figure} of {stage.get('recipe', {}).get('data_set')}", known.get(figure))
        if constant is not None and later.get(name, run.settings) is stage and not _IN_TRAINING.search(of):
            asked[key] = constant
    own = [key for key in asked if key.startswith((f"{side}/{suite}/", f"{side}/{task}/"))]
    for key in own or asked:
        mean, (least, examples) = run.figures[key].mean, asked[key]
        error = ((least * (1 - least) or 1.0) / examples) ** 0.5  # of a correlation, 1 over the root
        if mean is not None and mean - least <= ndtri(LEVEL) * error:
            yield f"{key.partition('/')[2]} is {mean:.3f}, and that of a constant answer {least:g}"


def _names(stage: Mapping[str, Any]) -> set[str]:
    """Return the task that a stage tunes for, and what its suites are called."""
    return {stage["recipe"]["name"], *(entry.get("as", entry["suite"]) for entry in stage.get("measure", ()))}


@cache
def _constants() -> dict[str, tuple[float, int]]:
    """Return what a constant answer reaches in each figure of a task that is an ability, and of how many examples."""
    content = plain(read_yaml(Path(__file__).with_name("abilities.yaml")))
    return {name: (float(constant), int(examples)) for name, (constant, examples) in content.items()}


def decision(judged: JudgedClaim) -> tuple[int, str] | None:
    """Return how many restarts would decide a claim at their mean and spread, or, where nothing was restarted, how many
    times the items, and what its verdict would be; (0, "") if that is more than ``MOST_SEEDS``, and ``None`` without
    bounds.
    """
    found = judged.difference
    if found is None or found.low is None or found.high is None:
        return None
    for number in range(found.seeds + 1, MOST_SEEDS + 1):
        if (verdict := _verdict(judged.claim, *_bounds_with(found, number), judged.least)) != TOO_SMALL:
            return number, verdict
    return 0, ""


def _bounds_with(found: Difference, number: int) -> tuple[float, float]:
    """Return the bounds that a difference would have with another number of restarts, or that many times the items."""
    reaches = [abs(bound - found.value) for bound in (found.low, found.high) if bound is not None]
    if found.error == 0:
        below, above = (reach / number**0.5 for reach in reaches)
        return found.value - below, found.value + above
    error = found.error * ((1 / number + found.shared) / (1 / found.seeds + found.shared)) ** 0.5
    now, then = float(t_quantile(LEVEL, found.seeds - 1)) * found.error, float(t_quantile(LEVEL, number - 1)) * error
    below, above = (float(np.hypot(then, max(reach**2 - now**2, 0.0) ** 0.5)) for reach in reaches)
    return found.value - below, found.value + above


def sizes(figure: StoredFigure) -> StoredFigure:
    """Return the absolute values of a figure, with the intervals of the absolute value.

    >>> sizes(StoredFigure([-0.5, 0.25], [[-0.75, 0.25], [0.0, 0.5]]))
    StoredFigure(values=[0.5, 0.25], intervals=[[0.0, 0.75], [0.0, 0.5]], held_out=None)
    """
    values = [None if value is None else abs(value) for value in figure.values]
    intervals = [
        None if bounds is None else [max(0.0, bounds[0], -bounds[1]), max(map(abs, bounds))]
        for bounds in figure.intervals
    ]
    return StoredFigure(values, intervals, figure.held_out)


def _is_fact(locator: str, settings: Mapping[str, Any]) -> bool:
    """Return whether a figure of a run is a fact of its model: measured on the model as it is, on all cases of its
    suite, so that nothing is trained for it and nothing is drawn at random.

    A further training (``then``) measures suites of its own, and the models of a control are random.
    """
    side, suite = locator.partition(" ")[2].split("/")[:2]
    if "recipe" in settings or CONTROL in side.split("-") or settings.get("options", {}).get("limit"):
        return False
    entries = {entry.get("as", entry["suite"]): entry for entry in settings.get("measure", ())}
    return not entries or (suite in entries and not entries[suite].keys() & _DRAWN)


def count_claims(judged: Iterable[JudgedClaim]) -> Counter[str]:
    """Return how many claims have each verdict; a claim that several tables make counts once."""
    return Counter({one.claim.relation_of_figures: one.verdict for one in judged}.values())


def difference(
    figure: StoredFigure,
    other: StoredFigure,
    fixed: bool = False,
    seeds: Sequence[int] = (),
    other_seeds: Sequence[int] = (),
) -> Difference | None:
    """Return ``figure`` minus ``other`` with its bounds, ``None`` if one of them has no value.

    Restarts of equal seeds are compared seed by seed, by Student's t, and restarts of different seeds by the means
    (Welch). Seeds that are splits of the same texts share most of them, so that their variance is enlarged (Nadeau and
    Bengio 2003). Against a ``fixed`` number the error over the items of the restarts, the mean of theirs, is added to
    their spread. A single value against restarts adds that of its interval over items to theirs, and has no bounds
    without an interval. The bounds of two single values follow from their intervals over items. Such intervals are
    combined as if the items were different ones: too wide where both are of the same items. Fewer than three restarts
    without such intervals have no bounds.

    Args:
        figure: a figure, one value a seed.
        other: what it is compared with.
        fixed: whether ``other`` is a number without error.
        seeds: of the values of ``figure``, in their order; as many seeds as there are values name them, and otherwise
            the order does.
        other_seeds: of the values of ``other``.

    >>> difference(StoredFigure([3.0, 4.0, 5.0]), StoredFigure([1.0, 2.0, 3.0]))
    Difference(value=2.0, low=2.0, high=2.0, over='restarts')
    """
    if not _is_whole(figure) or not _is_whole(other):
        return None
    a, b = np.array(figure.defined), np.array(other.defined)
    if max(len(set(a)), len(set(b))) > 1:
        if min(len(a), len(b)) == 1:
            return _one_against(_over_restarts(a - b, figure.held_out), figure, other, fixed)
        named = len(seeds) == len(a) and len(other_seeds) == len(b)
        order = _same_seeds(seeds, other_seeds) if named else _same_seeds(range(len(a)), range(len(b)))
        return _welch(a, b) if order is None else _over_restarts(a - b[order], figure.held_out)
    return _over_items(
        float(a[0] - b[0]), figure.interval, (float(b[0]), float(b[0])) if fixed else other.interval, float(a[0])
    )


def _is_whole(figure: StoredFigure) -> bool:
    """Return whether a figure has a value for every seed."""
    return 0 < len(figure.values) == len(figure.defined)


def _same_seeds(seeds: Sequence[int], other_seeds: Sequence[int]) -> list[int] | None:
    """Return where each of the seeds stands among the others, ``None`` if they are not the same.

    >>> _same_seeds([0, 5, 11], [11, 0, 5]), _same_seeds([0, 1, 2], [0, 1, 3])
    ([1, 2, 0], None)
    """
    if sorted(seeds) != sorted(other_seeds):
        return None
    return [list(other_seeds).index(seed) for seed in seeds]


def _over_restarts(differences: NDArray[np.float64], held_out: float | None = None) -> Difference:
    """Return the mean with bounds by Student's t; ``held_out`` is the share that splits of the same texts hold out."""
    value, n = float(differences.mean()), len(differences)
    if n < FEWEST_SEEDS:
        return Difference(value)
    shared = 0.0 if held_out is None else held_out / (1 - held_out)
    error = float(differences.std(ddof=1)) * (1 / n + shared) ** 0.5
    reach, over = float(t_quantile(LEVEL, n - 1)) * error, "restarts" if held_out is None else "splits of the texts"
    return Difference(value, value - reach, value + reach, over, error, n, shared)


def _one_against(found: Difference, figure: StoredFigure, other: StoredFigure, fixed: bool) -> Difference:
    """Return a difference of restarts and a number, or a single figure, with bounds that hold for other items, too
    (MOVER).

    A number leaves the restarts' own items; without intervals over them the bounds are over restarts only.
    """
    one = figure if fixed else min(figure, other, key=lambda side: len(side.values))
    reach = _reach_over_items(one)
    if reach is None or found.low is None or found.high is None:
        return found if fixed else Difference(found.value)
    below, above = reach if one is figure else reach[::-1]
    low = found.value - float(np.hypot(found.value - found.low, _ONE_SIDED * below))
    high = found.value + float(np.hypot(found.high - found.value, _ONE_SIDED * above))
    return replace(found, low=low, high=high, over="restarts and items")


def _reach_over_items(figure: StoredFigure) -> tuple[float, float] | None:
    """Return how far the intervals over items reach below and above the values, mean over the restarts; ``None`` unless
    each has one.
    """
    bounds = [bound for bound in figure.intervals if bound is not None]
    if not bounds or len(bounds) < len(figure.values):
        return None
    reaches = np.abs(np.array(bounds, dtype=np.float64) - np.array(figure.defined)[:, None]).mean(axis=0)
    return float(reaches[0]), float(reaches[1])


def _welch(a: NDArray[np.float64], b: NDArray[np.float64]) -> Difference:
    """Return the difference of two means over restarts of different seeds (Welch)."""
    value = float(a.mean() - b.mean())
    if min(len(a), len(b)) < FEWEST_SEEDS:
        return Difference(value)
    parts = [values.var(ddof=1) / len(values) for values in (a, b)]
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / (len(a) - 1) + parts[1] ** 2 / (len(b) - 1))
    error = float(sum(parts) ** 0.5)
    reach = float(t_quantile(LEVEL, freedom)) * error
    return Difference(value, value - reach, value + reach, "restarts", error, min(len(a), len(b)))


def _over_items(
    value: float, interval: tuple[float, float] | None, other: tuple[float, float] | None, at: float
) -> Difference:
    """Return the bounds of a difference from two-sided 95 % intervals of both figures (MOVER: Donner and Zou 2012), at
    one-sided 95 %.

    ``at``: the first figure; the second is ``at - value``.
    """
    if interval is None or other is None:
        return Difference(value)
    below = ((at - interval[0]) ** 2 + (other[1] - (at - value)) ** 2) ** 0.5
    over = ((interval[1] - at) ** 2 + ((at - value) - other[0]) ** 2) ** 0.5
    return Difference(value, value - _ONE_SIDED * below, value + _ONE_SIDED * over, "items")
