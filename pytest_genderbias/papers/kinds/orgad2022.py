"""The kinds of runs that orgad2022 alone has: ``agreement``, intrinsic against extrinsic bias over methods and seeds,
before and after retraining (table 2); and ``scrubbed-words``, the words that tell a person's gender, round by round of
automatic scrubbing (tables 9 and 10).

Settings of ``agreement``:
    model: spec of the model to start from; missing where the recipe makes its own.
    recipe: the training.
    methods: the methods by the names of their sides; the models without a method are the side ``none``.
    seeds: as of ``mitigate``.
    intrinsic, extrinsic: lists of suites with options, each a mapping with ``suite`` and ``statistics``; ``as`` names
    the suite in locators.
        ``p_value`` names a statistic that must be below .05 for a point to count.
    retrained: whether to measure the extrinsic figures again with a new head on each frozen encoder.

Figures: ``METHOD/SUITE/STATISTIC`` by seed (``METHOD-retrained/...`` with new heads), and
``before retraining/INTRINSIC/EXTRINSIC r`` and ``... r_squared`` with their bounds over methods and seeds, where
INTRINSIC is the name of a suite and EXTRINSIC that of a statistic. With ``without METHOD`` before it, the same without
the points of one method. The detail ``agreement`` has all points.

Settings of ``scrubbed-words``:
    recipe: a recipe whose rows are texts with a class and a gender; its training part is used.
    seeds: of the held-out texts: their number, or a list.
    rounds: rounds of scrubbing.
    profession: the class of the side ``profession``; by default the one with the most texts.

Figures: ``SIDE/words/accuracy``, the held-out accuracy of telling gender by words, ``SIDE/words/majority``, that of the
larger group alone, and ``SIDE/words/above_majority``, their difference. Sides are ``original`` (nothing is scrubbed),
``scrubbed`` (names and gender words are), ``last`` (after the last round), and ``profession`` (scrubbed texts of one
class). The details list the words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from pytest_genderbias.errors import SettingError
from pytest_genderbias.mitigation.harness.agreement import (
    NO_METHOD,
    AgreementPoint,
    AgreementStudy,
    BiasFigure,
    agreement,
)
from pytest_genderbias.mitigation.harness.run import seeds_of
from pytest_genderbias.mitigation.methods.iterative_scrubbing import Rounds, removed_words, rounds_table
from pytest_genderbias.mitigation.methods.registry import make_recipe
from pytest_genderbias.papers.kinds import Outcome, mitigated
from pytest_genderbias.papers.places import Places, StoredFigure, StoredRun, runner_of_paper, without_paths

_OF_AN_ENTRY = ("suite", "statistics", "as", "p_value")


def carry_out_agreement(settings: Mapping[str, Any], places: Places) -> Outcome:
    """Train every method with every seed, measure each model once, and compare the figures."""
    runner = runner_of_paper(places)
    recipe = make_recipe(**settings["recipe"])
    runs = {
        name: mitigated(
            settings.get("model"), method, recipe, places, seeds=settings["seeds"], controls=0, runner=runner
        )
        for name, method in settings["methods"].items()
    }
    intrinsic, extrinsic = (_figures_named(settings[side]) for side in ("intrinsic", "extrinsic"))
    study = agreement(runs, intrinsic, extrinsic, new_heads=bool(settings.get("retrained")))
    return _outcome(study, next(iter(runs.values())).seeds, places)


def with_further_seeds(made: StoredRun, new: StoredRun, places: Places) -> Outcome:
    """Return the outcome of the points of two results of different seeds, which is that of one run with all of them."""
    parts = [AgreementStudy.from_dict(part.details["agreement"]).points for part in (made, new)]
    one_before = sum(point.method == NO_METHOD for point in parts[0]) < len(made.seeds)
    if one_before:
        parts[1] = tuple(point for point in parts[1] if point.method != NO_METHOD)
    methods = dict.fromkeys(point.method for point in parts[0])
    points = [point for method in methods for part in parts for point in part if point.method == method]
    study = agreement(points, *(_figures_named(made.settings[side]) for side in ("intrinsic", "extrinsic")))
    return _outcome(study, [*made.seeds, *new.seeds], places)


def _outcome(study: AgreementStudy, seeds: Sequence[int], places: Places) -> Outcome:
    figures = {**dict(_by_method(study.points)), **dict(compared(study)), **dict(compared_without_one(study))}
    return Outcome(figures, tuple(seeds), {"agreement": without_paths(study.to_dict(), places)})


def _figures_named(entries: Sequence[Mapping[str, Any]]) -> list[BiasFigure]:
    """Return the figures of the settings; each is named by its suite, or by ``as``, and its statistic."""
    return [
        BiasFigure(
            entry["suite"],
            statistic,
            entry.get("p_value", ""),
            {key: value for key, value in entry.items() if key not in _OF_AN_ENTRY},
            f"{entry.get('as', entry['suite'])}/{statistic}",
        )
        for entry in entries
        for statistic in entry["statistics"]
    ]


def _by_method(points: Sequence[AgreementPoint]) -> Iterator[tuple[str, StoredFigure]]:
    """Yield the figures of each method, by seed."""
    for method in dict.fromkeys(point.method for point in points):
        of_method = [point for point in points if point.method == method]
        for side, figures in (
            (method, [{**point.intrinsic, **point.own_head} for point in of_method]),
            (f"{method}-retrained", [point.new_head for point in of_method]),
        ):
            for name in figures[0]:
                yield f"{side}/{name}", StoredFigure([values[name] for values in figures])


def compared(study: AgreementStudy) -> Iterator[tuple[str, StoredFigure]]:
    """Yield r and R squared of each pair of figures with their bounds."""
    for row in study.rows:
        suite, statistic = row.intrinsic.rpartition("/")[0], row.extrinsic.rpartition("/")[2]
        for name in ("r", "r_squared"):
            value, bounds = (getattr(row.agreement, key, None) for key in (name, f"{name}_bounds"))
            interval = None if bounds is None else [bounds.low, bounds.high]
            yield f"{row.head}/{suite}/{statistic} {name}", StoredFigure([value], [interval])


def compared_without_one(study: AgreementStudy) -> Iterator[tuple[str, StoredFigure]]:
    """Yield r and R squared of each pair of figures without the points of one method, for each method in turn."""
    for method in dict.fromkeys(point.method for point in study.points if point.method != NO_METHOD):
        for name, figure in compared(study.without(method)):
            yield f"without {method} {name}", figure


# Words that tell gender.

_HELD_OUT = 0.25  #: share of the texts on which each seed measures accuracies


def carry_out_scrubbed_words(settings: Mapping[str, Any], places: Places) -> Outcome:
    """Scrub the training texts round by round, all of them and those of one class."""
    recipe = make_recipe(**settings["recipe"])
    if recipe.label is None or recipe.group is None:
        raise SettingError(
            f"scrubbed-words needs texts with a class and a gender, and the rows of {recipe.name} have none"
        )
    rows = recipe.rows()
    texts = [str(row[recipe.columns[0]]) for row in rows]
    groups, classes = [row[recipe.group] for row in rows], [row[recipe.label] for row in rows]
    seeds = seeds_of(settings["seeds"])
    rounds = settings["rounds"]
    profession = settings.get("profession", Counter(classes).most_common(1)[0][0])
    find = partial(removed_words, texts, groups, seeds=seeds, held_out=_HELD_OUT)
    original, scrubbed = find(rounds=1, scrub_first=False), find(rounds=rounds)
    of_one = find(classes, profession=profession, rounds=rounds)
    figures = {
        **_figures_of_words("original", original, 0),
        **_figures_of_words("scrubbed", scrubbed, 0),
        **_figures_of_words("last", scrubbed, -1),
        **_figures_of_words("profession", of_one, 0),
    }
    tables = {"all": rounds_table(scrubbed), "profession": str(profession), "of the profession": rounds_table(of_one)}
    return Outcome(figures, seeds, {"words": tables})


def _figures_of_words(side: str, by_seed: Mapping[int, Rounds], number: int) -> dict[str, StoredFigure]:
    """Return the figures of a side: the classifiers before a round, or after the last one (``number`` -1)."""
    accuracies = [found.accuracies[number] for found in by_seed.values()]
    majority = [found.majority for found in by_seed.values()]
    values = {
        "accuracy": accuracies,
        "majority": majority,
        "above_majority": [a - m for a, m in zip(accuracies, majority, strict=True)],
    }
    return {f"{side}/words/{name}": StoredFigure(listed, held_out=_HELD_OUT) for name, listed in values.items()}
