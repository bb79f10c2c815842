"""The list ``mitigate`` of a file as it is written: keys, types and ranges checked, as plain objects that know their
lines.

What the names in it mean (methods, recipes, suites) is looked up in ``file.py``, which does not touch the YAML again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.gates.choice import share_of
from pytest_genderbias.text.located_yaml import LocatedList, LocatedMap, YamlValue, plain, refuse_unknown, take
from pytest_genderbias.text.printable import brief

RECIPE_PATHS = ("data", "training", "evaluation")  #: settings of recipes that are paths, or names of data sets
_KEYS = (
    "method", "recipe", "grid", "best", "choose_on", "seeds", "controls", "models", "from_nothing", "budget", "optional", "reduces",
)  # fmt: skip
_REDUCTION_KEYS = (
    "suite", "statistic", "by", "budget", "superficial", "back", "overshoot", "settings", "name", "optional",
)  # fmt: skip
ALL = "all"  #: the value of ``choose_on`` with which the seeds that choose judge, too
_NEEDS = {
    "grid": (
        "'grid' tries several points: add 'best', the rule that chooses one, as {lowest: lm-occupation/aggregate_bias}"
    ),
    "best": "'best' chooses a point of a grid: add 'grid', as {dropout.hidden: [.1, .2]}",
    "choose_on": "'choose_on' says which seeds choose a point of a grid: add 'grid' and 'best'",
}


@dataclass(frozen=True)
class Place:
    """Where a part of a file is: the file, the line of the part, and the line of each of its keys."""

    file: str
    line: int
    lines: Mapping[str, int]

    def error_at(self, key: str, message: str) -> DataFileError:
        """Return an error with the file and the line of a key, or the line of the part if it has no such key."""
        return DataFileError(f"{self.file}:{self.lines.get(key, self.line)}: {message}")


@dataclass(frozen=True)
class WrittenPart:
    """A method or a recipe: its name, and its settings, whose names and values are not checked yet."""

    name: str
    settings: Mapping[str, YamlValue]
    place: Place


@dataclass(frozen=True)
class WrittenReduction:
    """An entry of ``reduces``. ``None`` stands for a key that it does not have; ``shares`` are ``back`` and
    ``overshoot``.
    """

    suite: str
    statistic: str | None
    by: float
    budget: Mapping[str, float] | None
    superficial: bool
    shares: Mapping[str, float]
    settings: Mapping[str, YamlValue]
    label: str | None
    optional: bool | None
    place: Place
    settings_place: Place


@dataclass(frozen=True)
class WrittenGrid:
    """A grid of an entry: its values by setting, the rule that chooses, and the settings of its measurements, all not
    checked yet.
    """

    values: Mapping[str, YamlValue] | list[Mapping[str, YamlValue]]
    rule: Mapping[str, YamlValue]
    settings: Mapping[str, YamlValue]
    choose_on: int | str | tuple[int, ...] | None
    place: Place
    settings_place: Place


@dataclass(frozen=True)
class WrittenMitigation:
    """An entry of ``mitigate``. ``None`` stands for a key that it does not have; several methods are applied
    together.
    """

    methods: tuple[WrittenPart, ...]
    recipe: WrittenPart | None
    grid: WrittenGrid | None
    seeds: int | tuple[int, ...] | None
    controls: int | None
    models: tuple[str, ...] | None
    from_nothing: bool
    budget: Mapping[str, float]
    optional: bool
    reduces: tuple[WrittenReduction, ...]
    place: Place


def read_written(data: LocatedMap) -> list[WrittenMitigation]:
    """Read the list ``mitigate`` of a file.

    Raises:
        DataFileError: a key is unknown or missing, or its value has a wrong type or range; the message names file and
            line.
    """
    entries = take(data, "mitigate", LocatedList, "the gate file")
    return [_read_entry(entry, entries.file, entries.lines[number]) for number, entry in enumerate(entries)]


def _read_entry(entry: YamlValue, file: str, line: int) -> WrittenMitigation:
    if not isinstance(entry, LocatedMap):
        raise DataFileError(f"{file}:{line}: expected a mitigation (method, recipe, reduces), got {brief(entry)}")
    refuse_unknown(entry, _KEYS, "a mitigation")
    controls = take(entry, "controls", int, "the mitigation", default=None)
    if controls is not None and controls < 1:
        raise _place(entry).error_at("controls", f"'controls' is a whole number of at least 1, got {controls}")
    models = take(entry, "models", LocatedList, "the mitigation", default=None)
    reduces = take(entry, "reduces", LocatedList, "the mitigation")
    return WrittenMitigation(
        methods=_read_methods(entry),
        recipe=_read_recipe(entry) if "recipe" in entry else None,
        grid=_read_grid(entry),
        seeds=_read_seeds(entry, "seeds"),
        controls=controls,
        models=None if models is None else tuple(map(str, models)),
        from_nothing=take(entry, "from_nothing", bool, "the mitigation", default=False),
        budget=_read_budget(entry, "the mitigation"),
        optional=take(entry, "optional", bool, "the mitigation", default=False),
        reduces=tuple(_read_reduction(item, reduces.file, reduces.lines[k]) for k, item in enumerate(reduces)),
        place=_place(entry),
    )


def _read_reduction(item: YamlValue, file: str, line: int) -> WrittenReduction:
    if not isinstance(item, LocatedMap):
        raise DataFileError(f"{file}:{line}: expected a reduction (suite, by), got {brief(item)}")
    refuse_unknown(item, _REDUCTION_KEYS, "a reduction")
    by = take(item, "by", (int, float), "the reduction")
    if not 0 <= by <= 1:
        raise _place(item).error_at(
            "by", f"'by' is the share of the distance from neutral to remove, 0 to 1, got {by:g}"
        )
    settings = take(item, "settings", LocatedMap, "the reduction", default={})
    return WrittenReduction(
        suite=take(item, "suite", str, "the reduction"),
        statistic=take(item, "statistic", str, "the reduction", default=None),
        by=float(by),
        budget=_read_budget(item, "the reduction") if "budget" in item else None,
        superficial=take(item, "superficial", bool, "the reduction", default=False),
        shares={key: _read_share(item, key) for key in ("back", "overshoot") if key in item},
        settings=dict(settings),
        label=take(item, "name", str, "the reduction", default=None),
        optional=take(item, "optional", bool, "the reduction", default=None),
        place=_place(item),
        settings_place=Place(item.file, item.lines.get("settings", item.line), settings.lines),
    )


def _read_methods(entry: LocatedMap) -> tuple[WrittenPart, ...]:
    value = take(entry, "method", (str, LocatedMap, LocatedList), "the mitigation")
    if isinstance(value, LocatedList):
        return tuple(
            _read_part(part, entry.file, line, "method") for part, line in zip(value, value.lines, strict=True)
        )
    return (_read_part(value, entry.file, entry.lines["method"], "method"),)


def _read_recipe(entry: LocatedMap) -> WrittenPart:
    value = take(entry, "recipe", (str, LocatedMap), "the mitigation")
    if isinstance(value, LocatedMap):
        take(value, "arguments", LocatedMap, "the recipe", default={})
        for key in RECIPE_PATHS:
            take(value, key, str, "the recipe", default=None)
    return _read_part(value, entry.file, entry.lines["recipe"], "recipe")


def _read_part(value: YamlValue, file: str, line: int, role: str) -> WrittenPart:
    if isinstance(value, str):
        return WrittenPart(value, {}, Place(file, line, {}))
    if not isinstance(value, LocatedMap):
        raise DataFileError(
            f"{file}:{line}: expected the name of a {role}, or a mapping with 'name', got {brief(value)}"
        )
    name = take(value, "name", str, f"the {role}")
    settings = {key: plain(setting) for key, setting in value.items() if key != "name"}
    return WrittenPart(name, settings, Place(file, line, value.lines))


def _read_grid(entry: LocatedMap) -> WrittenGrid | None:
    """Read ``grid``, ``best`` and ``choose_on``, of which the first two need each other."""
    place = _place(entry)
    for key, other in (("grid", "best"), ("best", "grid"), ("choose_on", "grid")):
        if key in entry and other not in entry:
            raise place.error_at(key, _NEEDS[key])
    if "grid" not in entry:
        return None
    values = take(entry, "grid", (LocatedMap, LocatedList), "the mitigation")
    best = take(entry, "best", LocatedMap, "the mitigation")
    settings = take(best, "settings", LocatedMap, "best", default=LocatedMap(best.file, best.line))
    grids = [one for one in (values if isinstance(values, LocatedList) else [values]) if isinstance(one, LocatedMap)]
    lines = {key: line for one in grids for key, line in one.lines.items()} | best.lines
    choose_on = entry.get("choose_on")
    return WrittenGrid(
        values=plain(values),
        rule={key: plain(value) for key, value in best.items() if key != "settings"},
        settings=plain(settings),
        choose_on=choose_on if choose_on == ALL else _read_seeds(entry, "choose_on"),
        place=Place(entry.file, entry.lines["grid"], {**entry.lines, **lines}),
        settings_place=Place(best.file, best.lines.get("settings", best.line), settings.lines),
    )


def _read_seeds(entry: LocatedMap, key: str) -> int | tuple[int, ...] | None:
    value = take(entry, key, (int, LocatedList), "the mitigation", default=None)
    wrong = f"{key!r} is their number, 1 or more, or a list of whole numbers, got {{}}"
    if value is None:
        return None
    if isinstance(value, int):
        if value < 1:
            raise _place(entry).error_at(key, wrong.format(value))
        return value
    seeds = tuple(value)
    if any(type(seed) is not int or seed < 0 for seed in seeds):
        raise _place(entry).error_at(key, wrong.format(brief(value)))
    if len(set(seeds)) < len(seeds):
        raise _place(entry).error_at(key, f"{key!r} should be different, got {brief(value)}")
    return seeds


def _read_share(item: LocatedMap, key: str) -> float:
    share = take(item, key, (int, float), "the reduction")
    if not 0 <= share < float("inf"):
        raise _place(item).error_at(key, f"{key!r} is a share of 0 or more, got {share:g}")
    return float(share)


def _read_budget(entry: LocatedMap, what: str) -> dict[str, float]:
    budget = take(entry, "budget", LocatedMap, what, default={})
    shares = {figure: share_of(share) for figure, share in budget.items()}
    for figure, share in shares.items():
        if share is None:
            message = f"a budget is a share of 0 or more, as 0.05 or 5%, got {brief(budget[figure])} for {figure}"
            raise _place(budget).error_at(figure, message)
    return {figure: share for figure, share in shares.items() if share is not None}


def _place(entry: LocatedMap) -> Place:
    return Place(entry.file, entry.line, entry.lines)
